"""Instruction-set levels: which of them this machine can run and the settings allow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..config import LEVELS, settings
from . import _cpu

__all__ = ["LevelStatus", "available_levels", "level_statuses"]

_NEEDS = {
    "portable": frozenset[str](),
    "avx2": frozenset({"avx2"}),
    "avx512": frozenset({"avx2", "avx512"}),
    "avx512_bf16": frozenset({"avx2", "avx512", "avx512_bf16"}),
    "amx": frozenset({"avx2", "avx512", "avx512_bf16", "avx512_fp16", "amx"}),
}


@dataclass(frozen=True)
class LevelStatus:
    """Whether a level may be used here, and if not, why not."""

    name: str
    usable: bool
    reason: str


@cache
def level_statuses() -> tuple[LevelStatus, ...]:
    """Return the status of every level, lowest first."""
    return tuple(_status(name) for name in LEVELS)


def _status(name: str) -> LevelStatus:
    if LEVELS.index(name) > LEVELS.index(settings.max_isa):
        return LevelStatus(name, False, f"above POPLIBS_MAX_ISA={settings.max_isa}")
    missing = sorted(_NEEDS[name] - _cpu.features())
    if missing:
        return LevelStatus(name, False, "the CPU or system lacks " + ", ".join(missing))
    if name == "amx" and not _cpu.request_amx():
        return LevelStatus(name, False, "the system does not permit AMX tile data")
    return LevelStatus(name, True, "usable")


def available_levels() -> tuple[str, ...]:
    """Return the names of the levels whose kernels may be loaded, lowest first.

    With ``POPLIBS_EMULATE_AMX=1`` the level ``"amx_emulated"`` (AMX kernels on software tiles, present in test
    builds) comes last.
    """
    usable = tuple(status.name for status in level_statuses() if status.usable)
    if settings.emulate_amx and "avx512_bf16" in usable and "amx" not in usable:
        return (*usable, "amx_emulated")
    return usable
