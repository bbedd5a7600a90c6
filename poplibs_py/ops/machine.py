"""The machine that a call runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from ..config import settings
from ..errors import UnsupportedError
from ..memo import tabled
from ..planner import Memory
from ..program.record import asked_target
from ..target import Target, TargetLike, resolve_target

T = TypeVar("T", covariant=True)


def target_of(target: TargetLike) -> Target:
    """Return the machine that a call names; by default that of the innermost `profile` that has one, else this CPU."""
    if target is None:
        target = asked_target()
    return own_host() if target is None else resolve_target(target)


@dataclass(frozen=True, slots=True)
class Placed(Generic[T]):
    """Where a call runs: by a plan on a modelled machine, or on this CPU.

    Attributes
    ----------
    plan : object or None
        On a modelled machine; None on this CPU.
    lacking : str
        What the machine that a `profile` names lacks, so that the call runs on this CPU; an empty string where the call
        runs where it should.
    host : Target or None
        This CPU, as the call names it or the settings have it, where it runs here.
    """

    plan: T | None = None
    lacking: str = ""
    host: Target | None = None

    def memory_here(self, memory: Memory) -> Memory:
        """Return what a call says about temporary memory where this CPU's kernels run: nothing where that is said of a
        modelled machine's plan, whose numbers they compute."""
        return memory if self.plan is None else Memory()


AS_ASKED: Placed[Any] = Placed()
"""Where a call runs that runs where it should, and whose request itself tells how."""


def place_of(op: str | Callable[..., Any], target: TargetLike, plan_on: Callable[[Target], T | str]) -> Placed[T]:
    """Return where a call runs: by its plan on the modelled machine that it is for, or on this CPU.

    Parameters
    ----------
    op : str or callable
        The op's public name, or its face, whose record has that.
    target : Target or str or None
        What the call names. Where that machine lacks something the call is refused; where a `profile` names it the call
        runs on this CPU.
    plan_on : callable
        Plans the call on a machine, or tells in words what that has no vertex for. No other than a modelled machine is
        asked for.
    """
    machine = target_of(target)
    if machine.kind == "host":
        return Placed(host=machine)
    made = plan_on(machine)
    if not isinstance(made, str):
        return Placed(made)
    lacking = f"no vertex for {op if isinstance(op, str) else cast(Any, op).op.name} {made}"
    if target is not None:
        raise UnsupportedError(f"target: {machine.name} has {lacking}")
    return Placed(None, lacking, own_host())


def host_target(target: TargetLike, what: str) -> Target:
    """Return this CPU, or raise where a call names another machine for what only this one does."""
    if target is None:
        return own_host()
    machine = resolve_target(target)
    if machine.kind != "host":
        raise UnsupportedError(f"target: got {machine.name}; allowed: the host, for {what}")
    return machine


def own_host() -> Target:
    """Return this CPU, with the threads of the settings."""
    return _own_host(settings.num_threads)


@tabled(64)
def _own_host(threads: int) -> Target:
    return Target.host(threads)
