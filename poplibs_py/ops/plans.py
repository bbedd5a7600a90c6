"""Plans that a caller hands back: checked against the planner, and made into functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from numbers import Integral
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from ..errors import InvalidArgumentError, MemoryLimitWarning, UnsupportedError, bad_argument, described
from ..formats import Format
from ..kernels import Kernel, Selection, available_levels
from ..program import Face
from .contents import met_in
from .operands import Operand, Receiver, operand, receive
from .road import travel

P = TypeVar("P")
F = TypeVar("F", bound=Callable[..., Any])


def unchanged(plan: P, again: Callable[[], P]) -> P:
    """Return a plan if it is the one that the planner makes of its own problem, or raise.

    Kernels follow a plan blindly. One that was changed by hand is refused, by the first field that is another here, and
    so is one of another CPU, by the kernel that this one lacks, if it does.

    Parameters
    ----------
    plan : dataclass
        Of the right type, with a problem that can be planned.
    again : callable
        Plans that problem.
    """
    check_kernels(plan)
    with warnings.catch_warnings(action="ignore", category=MemoryLimitWarning):
        expected = again()
    if expected is plan:
        return plan
    names = [f.name for f in fields(cast(Any, plan)) if f.compare]
    changed = [name for name in names if getattr(plan, name) != getattr(expected, name)]
    if changed:
        raise bad_argument("plan", f"a plan with changes: {changed[0]}", "a plan as the planner returned it")
    return plan


def check_kernels(plan: Any) -> None:
    """Raise `UnsupportedError` if a plan takes kernels that this CPU lacks, as one that was pickled elsewhere may."""
    taken = (x.kernel if isinstance(x, Selection) else x for x in met_in(plan))
    lacking = [kernel.label for kernel in taken if isinstance(kernel, Kernel) and not kernel.here]
    if lacking:
        levels = ", ".join(available_levels())
        raise UnsupportedError(f"plan: got one of another CPU, which takes the kernel {lacking[0]}; allowed: kernels "
                               f"of the levels that this one may run, {levels}")


def check_fields(plan: Any) -> None:
    """Raise unless each field of a plan is of the type that its class declares: one that was replaced may not be."""
    for name, kind, fits in _declared(cast(Any, type(plan))):
        value = getattr(plan, name)
        if type(value) is not kind and not fits(value):
            raise changed_plan(name, value, f"of type {getattr(kind, '__name__', kind)}")


def changed_plan(name: str, value: object, allowed: str) -> InvalidArgumentError:
    """Build the error for a plan of which a field is not what it can be."""
    return bad_argument("plan", f"a plan with changes: {name} {described(value)}", f"{name} {allowed}")


@cache
def _declared(kind: Any) -> tuple[tuple[str, Any, Callable[[Any], bool]], ...]:
    """The fields of a class, their types, and what tells whether a value is of that."""
    hints = get_type_hints(kind)
    return tuple((f.name, hints[f.name], _fits(hints[f.name])) for f in fields(kind))


def _fits(kind: Any) -> Callable[[Any], bool]:
    """What tells whether a value is of a declared type, in and out of tuples, dicts and unions."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is int:
        no = bool, np.timedelta64  # which NumPy counts among whole numbers
        return lambda value: type(value) is int or (isinstance(value, Integral) and not isinstance(value, no))
    if origin is tuple and inner[1:] == (...,):
        each = _fits(inner[0])
        return lambda value: isinstance(value, tuple) and all(map(each, value))
    if origin is tuple:
        places = [_fits(place) for place in inner]
        return lambda value: (isinstance(value, tuple) and len(value) == len(places)
                              and all(fits(part) for fits, part in zip(places, value, strict=True)))
    if origin is dict:
        of_key, of_value = map(_fits, inner)
        return lambda value: (isinstance(value, dict) and all(map(of_key, value))
                              and all(map(of_value, value.values())))
    if origin in (Union, UnionType):
        choices = [_fits(choice) for choice in inner]
        return lambda value: any(fits(value) for fits in choices)
    if isinstance(kind, type):
        return lambda value: isinstance(value, kind)
    return lambda value: True


def as_planned(name: str, value: Any, dtype: Any, *shapes: tuple[int, ...]) -> Operand:
    """Return an operand of a plan, of one of these shapes, in C order and aligned as the plan has it."""
    given = operand(name, value)
    if given.shape not in shapes or given.format != dtype:
        allowed = " or ".join(dict.fromkeys(map(str, shapes)))
        raise bad_argument(name, f"{given.format} of shape {given.shape}", f"{dtype} of shape {allowed}")
    _without_scale(name, given)
    lies = given.array.flags.c_contiguous and given.array.flags.aligned
    return given if lies else given.copied()


def planned_receiver(out: Any, shape: tuple[int, ...], dtype: Format, contiguous: bool = True,
                     reads: bool = False) -> Receiver:
    """Return what receives the result of a plan: `out`, in the planned format, or a new array."""
    receiver = receive("out", out, shape, None, dtype, contiguous=contiguous, reads=reads)
    if receiver.format != dtype:
        raise bad_argument("out", f"format {receiver.format}", f"the planned format, {dtype}")
    _without_scale("out", receiver)
    return receiver


def _without_scale(name: str, given: Operand) -> None:
    """Refuse scales, which plans do not have."""
    if given.scale or given.scales:
        scale = "scales of blocks" if given.scales else f"scale {given.scale}"
        raise bad_argument(name, f"a QuarterArray with {scale}", "scale 0, as planned")


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
