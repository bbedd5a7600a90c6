"""The machine that a call runs on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from ..config import settings
from ..errors import UnsupportedError
from ..program.record import asked_target
from ..target import Target, resolve_target

T = TypeVar("T")

_MOST_TILES = 4096  # whose partitions are looked at one by one


def target_of(target: Target | str | None) -> Target:
    """Return the machine that a call names; by default that of the innermost `profile` that has one, else this CPU."""
    if target is None:
        target = asked_target()
    return _own_host(settings.num_threads) if target is None else resolve_target(target)


def modelled_target(target: Target | str | None, what: str,
                    missing: Callable[[Target], str]) -> tuple[Target | None, str]:
    """Return the modelled machine that a call runs on, or None for this CPU; and what that machine lacks.

    Parameters
    ----------
    target : Target or str or None
        What the call names. Where that machine lacks something the call is refused; where a `profile` names it the call
        runs on this CPU.
    what : str
        The op's public name.
    missing : callable
        What a machine has no vertex for, in words; an empty string where there is nothing.
    """
    machine = target_of(target)
    if machine.kind == "host":
        return None, ""
    lacking = missing(machine)
    if lacking and target is not None:
        raise UnsupportedError(f"target: {machine.name} has no vertex for {what} {lacking}")
    return (None, f"no vertex for {what} {lacking}") if lacking else (machine, "")


def planned_on(op: str, target: Target | str | None, plan_on: Callable[[Target], T | str]) -> tuple[T | None, str]:
    """Return a call's plan on the modelled machine that it is for, or None for this CPU; and what the machine lacks.

    Parameters
    ----------
    op : str
        The op's public name.
    target : Target or str or None
        As the call names it.
    plan_on : callable
        Plans the call on a machine, or tells in words what that has no vertex for.
    """
    found: list[T] = []

    def missing(machine: Target) -> str:
        made = plan_on(machine)
        if isinstance(made, str):
            return made
        found.append(made)
        return ""

    _, lacking = modelled_target(target, op, missing)
    return (found[0] if found else None), lacking


def machine_to_plan(target: Target | str) -> Target:
    """Return the modelled machine that a plan is asked for, or raise where it is this CPU or has too many tiles."""
    machine = resolve_target(target)
    if machine.kind == "host" or machine.tiles > _MOST_TILES:
        got = machine.name if machine.kind == "host" else f"{machine.tiles} tiles"
        raise UnsupportedError(f"target: got {got}; allowed: a modelled machine of at most {_MOST_TILES} tiles")
    return machine


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
