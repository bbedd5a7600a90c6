"""The plan that a call has on the modelled machine that it is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..ops import modelled_target
from ..target import Target

__all__ = ["planned_on"]

T = TypeVar("T")


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
