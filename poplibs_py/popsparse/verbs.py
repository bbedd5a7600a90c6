"""The three verbs of a planned op, do, plan and compile: their records, signatures and docstrings, each part once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

from ..errors import InvalidTypeError
from ..log import tell
from ..ops import compiled, op
from ..ops.record import Function, documented
from .plans import KernelPlan, checked_plan

STORED = "BlockSparseMatrix\n        Its values are not read."
PRODUCT = {"w": STORED,
           "n": "int\n        Columns of op(X), or rows of a batch; dense operands are C-contiguous."}
"""What the functions that plan products take by position, and what their docstrings tell of it."""

Plan = TypeVar("Plan", bound=KernelPlan)
Run = Callable[..., Any]

def _entries(doc: str) -> dict[str, str]:
    """Return what a docstring tells of parameters, by the first name of each entry."""
    section = doc.partition("    ----------\n")[2].partition("\n\n")[0] + "\n"
    return {found[1]: found[0] for found in re.finditer(r"^    (\w+)[\w, ]* : .*\n(?:        .*\n)*", section, re.M)}


_PARAMETERS = _entries("""
    ----------
    transpose_lhs, transpose_rhs : bool, optional
        Whether to take the first, the second operand transposed.
    capacity : Capacity, optional
        Blocks to make room for; by default those of `w`, rounded up. Where `w` has more, it grows with a
        `CapacityWarning`, unless the call is refused or only planned.
    out : array, tensor or QuarterArray, of the result's shape, optional
        Where to write the result; any strides in which no two elements share memory. It may overlap the operands: the
        result is then made in a copy, which no limit on memory counts. A `QuarterArray` of an 8-bit format with one
        scale 2^s receives the result divided by 2^s and rounded.
    out_dtype : Format, dtype or str, optional
        Format of the result; by default that of `out`. Without one: FP32 where an operand is FP32, or one is FP16 and
        the other BF16; else the 16-bit format that is there; FP16 for two 8-bit operands.
    bias : array_like, one number for each row of op(W), or for each of each group, optional
        Added in FP32; of any of the formats that have a dtype, lists as float32. It may have an axis of one element
        where the result has its columns: (m, 1) for W X, (1, m) for X W.
    activation : {None, "relu", "gelu", "silu"}, optional
    available_memory_proportion : float, optional
        Share of each thread's tile memory (a core's second-level cache) that temporary bytes may take: panels of X,
        sums on their way to the epilogue, decoded values. By default, and with 0, there is no limit: the fastest plan
        runs. The op's ``plan_`` function tells how much it takes.
    strict_memory : bool, optional
        Raise `MemoryLimitError` where no plan keeps to the limit, instead of warning (default False).
    options : mapping, optional
        PopLibs' spelling, ``{"availableMemoryProportion": 0.3}``. Its other options for sparse products steer a
        modelled machine; they are accepted and change nothing on this CPU.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are those of PopLibs'
        plan, static (`poplibs_py.popsparse.static_matmul`) or dynamic (`poplibs_py.popsparse.fully_connected`), which
        takes its options: operands and result FP16 or FP32 alike, square blocks of side 1, 4, 8 or 16 and one group (of
        any multiple of 4 and groups where the plan is dynamic), neither bias nor activation. Where no static plan fits
        the memory limit the call is refused; a dynamic plan has PopLibs' 0.6 by default, and its ladder.
""")

_ERRORS = """
    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        For shapes that do not fit, or a dtype that is not served.
    MemoryLimitError
        With `strict_memory`, if no plan keeps to the limit.

    Warns
    -----
    MemoryLimitWarning
        If no plan keeps to the limit, without `strict_memory`: the limit doubles until it has passed twice the tile
        memory, and is then dropped.
"""

_RETURNS = """
    Returns
    -------
    numpy.ndarray or QuarterArray
        `out`, or a new array.
"""

_PLANNED = _entries("""
    ----------
    dtype : Format, dtype or str, optional
        Format of the dense operand, or of the first of two (default that of `w`).
    x_dtype : Format, dtype or str, optional
        Format of the second one (default that of the first).
    has_bias : bool, optional
        Whether there will be a bias (default False).
""")

_PLAN = """Plan `{op}` without running it: for every matrix of these shapes with about as many blocks, or fewer.

    Parameters
    ----------
    {operands}

    Returns
    -------
    {kind}
        Its `explain` tells kernel, threads and temporary bytes, and how operands are read.

    """

_COMPILE = """Return a planned `{op}` as a function to call many times, from any number of threads.

    Parameters
    ----------
    plan : {kind}
        As `plan_{op}` returned it here.

    Returns
    -------
    callable
        ``{run}``, whose attribute ``plan`` is the plan. It takes any matrix of the plan's shapes, format and scale that
        has no more blocks. A dense operand that is not C-contiguous is copied.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If it is not a plan that the planner makes here.
    """


def _completed(doc: str, names: Any, told: Mapping[str, str]) -> str:
    """Return a docstring with the entries of these parameters that it lacks, and what is said of results and errors."""
    head, begun, rest = doc.partition("    ----------\n")
    own, _, after = rest.partition("\n\n")
    own_names, returns = documented(own), _RETURNS
    missing = "".join(told[name] for name in names if name in told and name not in own_names)
    if after.startswith("    Returns\n"):
        own_returns, _, after = after.partition("\n\n")
        returns = f"\n{own_returns}\n"
    errors = _ERRORS if "strict_memory" in names else ""
    return f"{head}{begun}{own}\n{missing}{returns}{errors}\n{after}"


def sparse_op(poplibs: str = "", *, bound: str, draws: str = "", written: str | None = "out", lacks: str = "",
              by: Callable[..., Any] | None = None) -> Callable[[Function], Function]:
    """Make a function that describes a call the face of an op, as `ops.op` does, its docstring completed.

    Parameters
    ----------
    poplibs, written, lacks
        As `ops.op` takes them.
    bound, draws : str
        As it does, below this package and in ``testing.calls``.
    """
    record = op(poplibs, bound=f"popsparse.{bound}", draws="testing.calls" + f":{draws}" * bool(draws), written=written,
                lacks=lacks, by=by)

    def face_of(function: Function) -> Function:
        if function.__doc__:
            told = {name: text for name, text in _PARAMETERS.items() if not lacks or name != "target"}
            function.__doc__ = _completed(function.__doc__, signature(function).parameters, told)
        return record(function)

    return face_of


def planned(face: Any, kind: type[Plan], plan_it: Callable[..., Plan], run_of: Callable[[Plan], Run], run: str,
            operands: dict[str, str], *dtypes: str) -> tuple[Callable[..., Plan], Callable[[Plan], Run]]:
    """Return the functions that plan an op and that compile its plans.

    Parameters
    ----------
    face : Face
        The op's public function. Its keywords save ``out`` and ``target`` are those of the function that plans.
    kind : type
        What plans are.
    plan_it : callable
        Makes a plan of them.
    run_of : callable
        Makes of a plan the function that describes its calls.
    run : str
        How that is called.
    operands : dict of str to str
        What the function that plans takes by position, each with what its docstring tells of it.
    *dtypes : str
        Formats that it takes besides, by keyword.
    """
    name, given = face.__name__, signature(face.function).parameters.values()
    keywords = [p.replace(annotation=Parameter.empty) if p.name != "bias" else
                Parameter("has_bias", Parameter.KEYWORD_ONLY, default=False)
                for p in given if p.kind is Parameter.KEYWORD_ONLY and p.name not in ("out", "target")]
    takes = Signature([*(Parameter(o, Parameter.POSITIONAL_OR_KEYWORD) for o in operands),
                       *(Parameter(d, Parameter.KEYWORD_ONLY, default=None) for d in dtypes), *keywords])

    def plan(*args: Any, **named: Any) -> Plan:
        try:
            given = takes.bind(*args, **named)
        except TypeError as error:
            raise InvalidTypeError(f"plan_{name}(): {error}; allowed: {takes}") from None
        made = replace(plan_it(f"plan_{name}", *given.args, **given.kwargs), op=name)
        tell("popsparse", made)
        return made

    def compile_it(plan: Plan) -> Run:
        checked = checked_plan(plan, kind, name)
        return compiled(checked, face.op, run_of(checked), checked.explain().problem)

    told = "\n    ".join(f"{operand} : {what}" for operand, what in operands.items())
    entries = _entries(face.__doc__ or "") | _PLANNED
    docs = (_completed(_PLAN.format(op=name, operands=told, kind=kind.__name__), takes.parameters, entries),
            _COMPILE.format(op=name, kind=kind.__name__, run=run))
    for verb, function, doc in zip(("plan", "compile"), (plan, compile_it), docs, strict=True):
        function.__module__, function.__doc__ = face.__module__, doc
        function.__name__ = function.__qualname__ = f"{verb}_{name}"
    plan.__signature__ = takes  # type: ignore[attr-defined]
    return plan, compile_it
