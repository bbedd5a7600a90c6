"""Instruction-set levels: which of them this machine can run, this build has and the settings allow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ..config import LEVELS, settings
from . import _cpu

_EMULATED = "amx_emulated"
if _cpu.levels() != LEVELS:
    raise ImportError(f"levels: {', '.join(_cpu.levels())} in src_cython/cpu/levels.def, {', '.join(LEVELS)} in "
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
    builds) comes last. It counts as AMX: a machine that has AMX runs that, and ``POPLIBS_MAX_ISA`` caps both.
    """
    found = [LevelStatus(name, not (reason := _against(name)), reason or "usable") for name in LEVELS]
    if settings.emulate_amx:
        reason = "AMX itself is there" if found[-1].usable else _against(_EMULATED)
        found.append(LevelStatus(_EMULATED, not reason, reason or "usable"))
    return tuple(found)


def _against(name: str) -> str:
    """What stands against a level, or nothing."""
    emulated = name == _EMULATED
    number = LEVELS.index("amx" if emulated else name)
    if number > LEVELS.index(settings.max_isa):
        return f"above POPLIBS_MAX_ISA={settings.max_isa}"
    missing = LEVELS[len(_cpu.levels(_cpu.words())) : number if emulated else number + 1]
    if missing:
        return "the CPU or system lacks " + ", ".join(missing)
    if name == "amx" and not _cpu.request_amx():
        return "the system does not permit AMX tile data"
    return _not_built(name)


def _not_built(name: str) -> str:
    """Why this build has no module of a level, or nothing where it has one."""
    if any(file.name.endswith(f"_{name}{suffix}") for file in _MODULES.iterdir() for suffix in EXTENSION_SUFFIXES):
        return ""
    if name == _EMULATED:
        return "not built: POPLIBS_BUILD_EMULATED_AMX=1 builds it"
    try:
        refusals = json.loads((_MODULES / "left_out.json").read_text())
    except (OSError, ValueError):
        refusals = {}
    return f"not built: {refusals.get(name, 'its modules are not there')}"


def available_levels() -> tuple[str, ...]:
    """Return the names of the levels whose kernels may be loaded, lowest first: those that are usable."""
    return tuple(status.name for status in level_statuses() if status.usable)
