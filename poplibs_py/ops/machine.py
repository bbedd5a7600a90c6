"""The machine that a call runs on."""

from __future__ import annotations

from functools import cache

from ..config import settings
from ..errors import UnsupportedError
from ..program.record import asked_target
from ..target import Target, resolve_target

__all__ = ["host_target", "target_of"]


def target_of(target: Target | str | None) -> Target:
    """Return the machine that a call names; by default that of the innermost `profile` that has one, else this CPU."""
    if target is None:
        target = asked_target()
    return _own_host(settings.num_threads) if target is None else resolve_target(target)


def host_target(target: Target | str | None, what: str) -> Target:
    """Return this CPU, or raise where a call names another machine for what only this one does."""
    if target is None:
        return _own_host(settings.num_threads)
    machine = resolve_target(target)
    if machine.kind != "host":
        raise UnsupportedError(f"target: got {machine.name}; allowed: the host, for {what}")
    return machine


@cache
def _own_host(threads: int) -> Target:
    return Target.host(threads)
