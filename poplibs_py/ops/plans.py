"""Plans that a caller hands back: checked against the planner, and made into functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, cast

from ..errors import MemoryLimitWarning, bad_argument
from ..program import Face
from .road import travel

__all__ = ["compiled", "unchanged"]

P = TypeVar("P")
F = TypeVar("F", bound=Callable[..., Any])


def unchanged(plan: P, again: Callable[[], P]) -> P:
    """Return a plan if it is the one that the planner makes of its own problem, or raise.

    Kernels follow a plan blindly. One that was changed by hand, or made under another instruction set, is refused.

    Parameters
    ----------
    plan : dataclass
        Of the right type, with a problem that can be planned.
    again : callable
        Plans that problem.
    """
    with warnings.catch_warnings(action="ignore", category=MemoryLimitWarning):
        expected = again()
    if expected is plan:
        return plan
    names = [f.name for f in fields(cast(Any, plan)) if f.compare]
    changed = [name for name in names if getattr(plan, name) != getattr(expected, name)]
    if changed:
        raise bad_argument("plan", f"a plan with changes: {changed[0]}", "a plan as the planner returned it")
    return plan


def compiled(plan: Any, op: Any, function: F, what: str, values: tuple[str, ...] = ()) -> F:
    """Return the calls of a plan as a function: the face of an op whose plan is settled.

    Parameters
    ----------
    plan : object
        Kept as the function's attribute ``plan``.
    op : Op
        The op's record, which names its runs.
    function : callable
        Describes a call, as the op's own face does.
    what : str
        Shapes and formats, for a reader.
    values : tuple of str, optional
        Parameters whose value makes no other program.
    """
    face = Face(function, travel, op, op.written, values)
    vars(face).update(plan=plan, what=what)
    return cast(F, face)
