"""Instruction-set levels: which of them this machine can run, this build has and the settings allow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ..config import LEVELS, settings
from ._cpu import levels as levels_of
from ._cpu import request_amx, words

_EMULATED, _IN_LOOPS = "amx_emulated", "_in_loops"
if levels_of() != LEVELS:
    raise ImportError(f"levels: {', '.join(levels_of())} in src_cython/cpu/levels.def, {', '.join(LEVELS)} in "
                      "poplibs_py.config")

_MODULES = Path(__file__).parent / "_tiles"
"""Where the kernels' modules are, one for each family and level, and what the build left out."""


@dataclass(frozen=True)
class LevelStatus:
    """Whether a level may be used here, and if not, why not."""

    name: str
    usable: bool
    reason: str


@cache
def level_statuses() -> tuple[LevelStatus, ...]:
    """Return the status of every level, lowest first.

    With ``POPLIBS_EMULATE_AMX=1`` the level ``"amx_emulated"`` (AMX kernels on software tiles, present in test
    builds) comes last. It counts as AMX: a machine that has AMX runs that, and ``POPLIBS_MAX_ISA`` caps both. With
    ``POPLIBS_EMULATE_AVX512=1`` the levels of AVX-512, and software tiles, are those of modules with loops in place of
    its instructions, whatever the CPU has beyond AVX2.
    """
    found = [_status(name, _against(name)) for name in LEVELS]
    if settings.emulate_amx:
        found.append(_status(_EMULATED, "AMX itself is there" if found[-1].usable else _against(_EMULATED)))
    return tuple(found)


def built_as(level: str) -> str:
    """Return what names of a level's modules end with: the level's, and for emulated AVX-512 a word that says so."""
    in_loops = settings.emulate_avx512 and (level.startswith("avx512") or level == _EMULATED)
    return level + _IN_LOOPS if in_loops else level


def _status(name: str, against: str) -> LevelStatus:
    usable = "usable" if built_as(name) == name else "usable, emulated: loops in place of AVX-512's instructions"
    return LevelStatus(name, not against, against or usable)


def _against(name: str) -> str:
    """What stands against a level, or nothing."""
    number = LEVELS.index(name.removesuffix("_emulated"))
    if number > LEVELS.index(settings.max_isa):
        return f"above POPLIBS_MAX_ISA={settings.max_isa}"
    highest = "avx2" if built_as(name) != name else LEVELS[number - 1] if name == _EMULATED else name
    missing = LEVELS[len(levels_of(words())) : LEVELS.index(highest) + 1]
    if missing:
        return "the CPU or system lacks " + ", ".join(missing)
    if name == "amx" and not request_amx():
        return "the system does not permit AMX tile data"
    return _not_built(name)


def _not_built(name: str) -> str:
    """Why this build has no module of a level, or nothing where it has one."""
    built = built_as(name)
    if _is_built(built):
        return ""
    emulated = [kind for kind, ending in (("AMX", "_emulated"), ("AVX512", _IN_LOOPS)) if ending in built]
    if emulated:
        return f"not built: {' '.join(f'POPLIBS_BUILD_EMULATED_{kind}=1' for kind in emulated)} builds it"
    if _is_built(name + _IN_LOOPS):
        return "emulated in this build: POPLIBS_EMULATE_AVX512=1 runs it"
    try:
        refusals = json.loads((_MODULES / "left_out.json").read_text())
    except (OSError, ValueError):
        refusals = {}
    return f"not built: {refusals.get(name, 'its modules are not there')}"


def _is_built(ending: str) -> bool:
    """Whether there is a module whose name ends so."""
    return any(file.name.endswith(f"_{ending}{suffix}") for file in _MODULES.iterdir() for suffix in EXTENSION_SUFFIXES)


def available_levels() -> tuple[str, ...]:
    """Return the names of the levels whose kernels may be loaded, lowest first: those that are usable."""
    return tuple(status.name for status in level_statuses() if status.usable)
