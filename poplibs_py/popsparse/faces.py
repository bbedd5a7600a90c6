"""What the public functions of this package share: their records, the parts of their docstrings, compiling plans."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from ..ops import Op, op

__all__ = ["compiling", "documented", "sparse_op"]

F = TypeVar("F", bound=Callable[..., Any])

_PARTS = {
    "result": """
    out : array, tensor or QuarterArray, of the result's shape, optional
        Where to write the result; any strides in which no two elements share memory. It may overlap the operands: the
        result is then made in a copy, beyond the limit on memory. A `QuarterArray` of an 8-bit format with one scale
        2^s receives the result divided by 2^s and rounded.
    out_dtype : Format, dtype or str, optional
        Format of the result; by default that of `out`, or else FP32 where an operand is FP32 or one is FP16 and the
        other BF16, else FP16 or BF16, whichever is there, and FP16 for two 8-bit operands.
""",
    "activation": """
    activation : {None, "relu", "gelu", "silu"}, optional
""",
    "memory": """
    available_memory_proportion : float, optional
        Share of each thread's tile memory (a core's second-level cache) for temporary bytes: panels of X, sums on their
        way to the epilogue, decoded values. By default, and with 0, there is no limit: the fastest plan runs, and the
        op's ``plan_`` function tells what it takes.
    strict_memory : bool, optional
        Raise where no plan keeps to the limit, instead of warning (default False).
    options : mapping, optional
        PopLibs' spelling, ``{"availableMemoryProportion": 0.3}``; its other options for sparse products are known and
        change nothing here.
""",
    "capacity": """
    capacity : Capacity, optional
        Blocks to make room for; by default what `w` has, rounded up. Where `w` has more it grows, with a
        `CapacityWarning`, unless the call is refused.
""",
    "planned": """
    n : int
        Columns of X, or rows where the op takes it transposed or batch first; X is C-contiguous.
    dtype, out_dtype : Format, dtype or str, optional
        Formats of X (default that of `w`) and of the result (default as for the op).
    bias : bool, optional
        Whether there will be a bias (default False).
    activation : {None, "relu", "gelu", "silu"}, optional
""",
    "outcome": """
    Returns
    -------
    numpy.ndarray or QuarterArray
        `out`, or a new array.
""",
    "errors": """
    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        For shapes that do not fit, or a dtype that is not served.
    MemoryLimitError
        With `strict_memory`, if no plan keeps to the limit.

    Warns
    -----
    MemoryLimitWarning
        Otherwise, in that case: the limit doubles until it has passed twice the tile memory, and is then dropped.
""",
}

_COMPILE = """Return a planned `{op}` as a function to call many times, from any number of threads.

    Parameters
    ----------
    plan : {plan}
        As `plan_{op}` returned it here.

    Returns
    -------
    callable
        ``run({operands}, *, {keywords})``, whose attribute ``plan`` is the plan. A matrix may be any of the plan's
        shapes, format and scale, with at most its number of blocks; a dense operand that is not C-contiguous is copied.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If the plan is none that the planner makes here.
    """


def documented(function: F) -> F:
    """Put the parts that docstrings share where a line names one in braces."""
    if function.__doc__:
        function.__doc__ = re.sub(r"^    \{(\w+)\}\n", lambda found: _PARTS[found[1]][1:], function.__doc__, flags=re.M)
    return function


def sparse_op(name: str, poplibs: str, bound: str, draws: str) -> Callable[[F], F]:
    """Make a function that describes a call the face of an op, as `ops.op` does, its docstring completed.

    Parameters
    ----------
    name, poplibs, draws
        As `Op` has them; `name` below this package, `draws` in ``testing.calls``.
    bound : str
        Place, below this package, of the function that tells both reference and bound.
    """
    place = f"popsparse.{bound}"
    record = op(f"popsparse.{name}", poplibs=poplibs, reference=place, bound=place, draws=f"testing.calls:{draws}")
    return lambda function: record(documented(function))


def compiling(face: Any, compile_plan: Callable[[Any, Op], Callable[..., Any]], plan: str, operands: str = "w, x",
              keywords: str = "out=None, bias=None") -> Callable[[Any], Callable[..., Any]]:
    """Return the function that compiles plans of an op.

    Parameters
    ----------
    face : Face
        The op's public function.
    compile_plan : callable
        Makes a function of a plan and of the record that names its runs.
    plan, operands, keywords : str
        The type of the plans, and what the functions take.
    """
    def compile_it(plan: Any) -> Callable[..., Any]:
        return compile_plan(plan, face.op)

    compile_it.__module__ = face.__module__
    compile_it.__name__ = compile_it.__qualname__ = f"compile_{face.__name__}"
    compile_it.__doc__ = _COMPILE.format(op=face.__name__, plan=plan, operands=operands, keywords=keywords)
    return compile_it
