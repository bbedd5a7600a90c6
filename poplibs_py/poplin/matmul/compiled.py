"""A host plan made into a callable, after checking that it is one the planner makes."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np

from ...errors import MemoryBoundWarning, bad_argument, bad_type
from ...formats import Format, format_of
from ...immutable import Constant
from ...program import Hold, result_array
from ...target import Target
from .arguments import Array, contiguous, epilogue_of, taken
from .lower import Program, lower
from .options import MatmulOptions
from .params import MatmulParams
from .plan import Epilogue, HostPlan, plan_host

__all__ = ["CompiledMatmul"]

_LIES: tuple[Literal["C"], Literal["A"]] = ("C", "A")  # in C order and aligned, as a plan takes its operands to be


class CompiledMatmul(Constant):
    """A planned product, ready to run on arrays that lie as planned.

    Attributes
    ----------
    plan : HostPlan
        What it follows.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> run = poplin.compile_matmul(poplin.plan_matmul((2, 3), (3, 2)))
    >>> run(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
    array([[3., 3.],
           [3., 3.]], dtype=float32)
    """

    __slots__ = ("__weakref__", "_program", "_shapes", "plan")

    _KEEP = "its plan, to compile again"

    plan: HostPlan
    _program: Program
    _shapes: tuple[tuple[int, ...], ...]

    def __init__(self, plan: HostPlan) -> None:
        _check_plan(plan)
        p = plan.asked
        shapes = (*p.batch, p.m, p.k), (*p.batch, p.k, p.n), (*p.batch, p.m, p.n)
        self._set(plan=plan, _program=lower(plan), _shapes=shapes)

    def __repr__(self) -> str:
        p = self.plan.asked
        a, b, _ = self._shapes
        return f"CompiledMatmul({a} {p.a.format} x {b} {p.b.format} -> {p.out.format}, kernel={self.plan.kernel.name})"

    def __call__(self, a: Any, b: Any, *, out: Array | None = None, bias: Any = None) -> Array:
        """Run on C-contiguous operands of the planned shapes and formats."""
        p = self.plan.asked
        left, right = taken(a, "a"), taken(b, "b")
        if not (out is None or isinstance(out, np.ndarray)):
            raise bad_type("out", type(out).__name__, "a numpy.ndarray")
        # of `out` a view, which stays as it is checked here
        result = result_array(self._shapes[2], p.out.format.dtype) if out is None else taken(out, "out")
        planned = (
            ("a", left, p.a, self._shapes[0]),
            ("b", right, p.b, self._shapes[1]),
            ("out", result, p.out, self._shapes[2]),
        )
        for name, array, operand, shape in planned:
            unfit = array.shape != shape or format_of(array) != operand.format
            if unfit or (name == "out" and not array.flags.carray):
                lies = ", C-contiguous and writeable" if name == "out" else ""
                allowed = f"{operand.format} of shape {shape}{lies}"
                raise bad_argument(name, f"{array.dtype} of shape {array.shape}", allowed)
        row: Array | None = None
        if p.bias is not None:
            row = taken(bias, "bias")
            if row.shape != (p.n,) or format_of(row) != p.bias:
                raise bad_argument("bias", f"{row.dtype} of shape {row.shape}", f"{p.bias} of shape ({p.n},)")
        elif bias is not None:
            raise bad_argument("bias", "an array", "None: the plan has no bias")
        if any(np.may_share_memory(result, x) for x in (left, right, row) if x is not None):
            raise bad_argument("out", "an array that overlaps an operand", "memory of its own")
        keep = Hold(left, right, row)  # while NumPy copies what lies otherwise
        left, right = np.require(left, None, _LIES), np.require(right, None, _LIES)
        self._program.run(left, right, result, None if row is None else np.require(row, None, _LIES))
        del keep
        return result if out is None else out


def _check_plan(plan: object) -> None:
    """Refuse a plan that the planner would not make: one changed by hand, or made under another instruction set."""
    if not isinstance(plan, HostPlan):
        raise bad_type("plan", type(plan).__name__, "a plan from plan_matmul for this CPU")
    _check_asked(plan.asked)
    for name, kind in (("options", MatmulOptions), ("epilogue", Epilogue), ("target", Target)):
        if not isinstance(getattr(plan, name), kind):
            raise bad_type(f"plan.{name}", getattr(plan, name), f"of type {kind.__name__}")
    if plan.target.kind != "host":
        raise bad_argument("plan.target", plan.target.name, "this CPU")
    epilogue_of(plan.epilogue.alpha, plan.epilogue.beta, plan.epilogue.activation)
    with warnings.catch_warnings(action="ignore", category=MemoryBoundWarning):
        expected = plan_host(plan.asked, plan.options, plan.epilogue, plan.target)
    changed = [name for name in HostPlan.__dataclass_fields__ if getattr(plan, name) != getattr(expected, name)]
    if changed:
        raise bad_argument("plan", f"a plan with changes: {changed[0]}", "a plan as plan_matmul returned it")


def _check_asked(p: object) -> None:
    if not isinstance(p, MatmulParams):
        raise bad_type("plan.asked", type(p).__name__, "a MatmulParams")
    extents = (p.m, p.n, p.k, *p.batch) if isinstance(p.batch, tuple) else (None,)
    if not all(type(x) is int and 0 <= x < 2**62 for x in extents):
        raise bad_argument("plan.asked", f"extents {extents}", "whole numbers from 0, below 2**62")
    for name, operand, rows, cols in (("a", p.a, p.m, p.k), ("b", p.b, p.k, p.n), ("out", p.out, p.m, p.n)):
        f = getattr(operand, "format", None)
        if not isinstance(f, Format) or operand != contiguous(f, rows, cols, p.batch):
            raise bad_argument(f"plan.asked.{name}", operand, "a C-contiguous operand of the planned extents")
        if f.dtype is None:
            raise bad_argument(f"plan.asked.{name}", f.name, "a format that arrays have a dtype for")
    if p.bias is not None:
        lies = getattr(p.bias, "itemsize", None), (0,) * len(p.batch), False
        if (p.bias_step, p.bias_batch, p.bias_per_row) != lies:
            raise bad_argument("plan.asked.bias", p.bias, "one number for each column, beside each other")
