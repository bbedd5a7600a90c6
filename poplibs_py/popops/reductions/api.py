"""`reduce`, `reduce_many` and `plan_reduce`: reductions as PopLibs has them, with a scale, and onto what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, cast

from ...checks import all_of, as_shape, finite, flag, one_of
from ...errors import UnsupportedError, bad_argument
from ...ops import axes_of, op
from ...ops.options import parsed
from ...target import MOST_TILES, Target, TargetLike, modelled_machine
from ...target.types import type_of
from ..elementwise.promotion import element_of
from .modelled import ReducePlan, plan_reduction, reduction_lacks
from .named import Axes
from .request import OPERATIONS, reduction_request

_SCALED = ("ADD", "SQUARE_ADD", "LOG_ADD")


@op("popops::reduce", bound="popops.reductions.bound", draws="testing.reduce_calls")
def reduce(x: Any, axes: Axes = None, op: str = "ADD", *, scale: float | None = None, update: bool = False,
           keepdims: bool = False, out: Any = None, out_dtype: object = None, options: Mapping[str, Any] | None = None,
           target: TargetLike = None) -> Any:
    """Reduce as PopLibs does (``popops::reduce``, ``popops::reduceWithOutput``).

    Parameters
    ----------
    x : array_like or QuarterArray
        float32, float16, bfloat16 or FP8 numbers, integers or truth values, of any shape and strides.
    axes : int or sequence of int, optional
        The axes that are reduced; all by default.
    op : {"ADD", "SQUARE_ADD", "MUL", "MIN", "MAX", "LOGICAL_AND", "LOGICAL_OR", "LOG_ADD"}, optional
        The operation.
    scale : float, optional
        Multiplies the reduction, or is added to it for LOG_ADD; for ADD, SQUARE_ADD and LOG_ADD.
    update : bool, optional
        Whether the reduction is added to what `out` holds, in log space for LOG_ADD; for the same three.
    keepdims : bool, optional
        Whether reduced axes stay, with an extent of 1.
    out : array or QuarterArray, optional
        Where the result goes.
    out_dtype : Format, dtype or str, optional
        The result's format, as in `sum`.
    options : mapping, optional
        PopLibs' ``accumType.interTile`` and ``accumType.inVertex``, ``"half"`` or ``"float"``: of partial results
        between tiles, and between a tile's workers. Half is for float16 results of ADD, SQUARE_ADD, MUL and LOG_ADD on
        modelled machines, and else raised to float: this CPU has no partial result of 16 bits.
    target : Target or str, optional
        The machine; by default this CPU.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array.

    Notes
    -----
    The sums, products and extremes of `sum`, `prod`, `max` and their kin. The scale multiplies before the one rounding
    to FP32; `update` adds after it, and the sum is rounded to the result's format. Integers keep their type and wrap.
    Of nothing: 0, 1, the greatest or least number, True, False, minus infinity; with `update` what `out` holds.

    Examples
    --------
    >>> x = np.float32([[1, 2], [3, 4]])
    >>> popops.reduce(x, 0, "ADD", scale=2.0, update=True, out=np.float32([10, 10]))
    array([18., 22.], dtype=float32)
    """
    one_of("op", op, tuple(OPERATIONS))
    asked, adds = OPERATIONS[op], flag("update", update)
    if (scale is not None or adds) and op not in _SCALED:
        name, value = ("scale", scale) if scale is not None else ("update", update)
        default = None if scale is not None else False
        raise bad_argument(name, value, f"{default} for op={op!r}: only " + ", ".join(_SCALED) + " take it")
    if adds and out is None:
        raise bad_argument("update", update, "False without `out`, which it adds to")
    made = replace(asked, update=adds)
    if scale is not None:  # integers have none
        made = replace(made, integers=None, scale=finite("scale", scale))
    return reduction_request("reduce", x, axes, lambda _: made, keepdims=keepdims, out=out, out_dtype=out_dtype,
                             target=target, accum=accum_types(options))


def accum_types(options: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return what a call asks of partial results between tiles and inside; empty strings for nothing."""
    def checked(key: str, _: str, value: Any) -> Any:
        one_of(key, value, ("float", "half"))
        return value

    known: dict[str, str | None] = {"accumType.interTile": "inter_tile", "accumType.inVertex": "in_vertex"}
    said = parsed(options, known, checked)
    return said.get("inter_tile", ""), said.get("in_vertex", "")


def reduce_many(reductions: Iterable[Mapping[str, Any]], *, target: TargetLike = None) -> list[Any]:
    """Reduce several operands (``popops::reduceMany``).

    Parameters
    ----------
    reductions : iterable of mapping
        The arguments of a `reduce` call each, ``x`` among them.
    target : Target or str, optional
        The machine of those that name none.

    Returns
    -------
    list
        Of their results.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> [float(y) for y in popops.reduce_many([{"x": [1.0, 2.0]}, {"x": [3.0, 4.0], "op": "MAX"}])]
    [3.0, 4.0]
    """
    calls = all_of("reductions", reductions, Mapping, "mappings of the arguments of `reduce`")
    for call in calls:
        for key in call:
            one_of("reductions", key, _REDUCE_ARGUMENTS)
        if "x" not in call:
            raise bad_argument("reductions", sorted(call), "arguments of `reduce`, `x` among them")
    calls = [{"target": target, **call} for call in calls]
    if any(call.get("out") is not None for call in calls):
        for call in calls:
            cast(Any, reduce).function(**call)  # describes it: what is wrong is refused before anything is written
    return [reduce(**call) for call in calls]


_REDUCE_ARGUMENTS = tuple(signature(reduce).parameters)


def plan_reduce(shape: Sequence[int], axes: Axes = None, op: str = "ADD", *, dtype: object = "float16",
                out_dtype: object = None, scaled: bool = False, options: Mapping[str, Any] | None = None,
                target: Target | str = "gc200") -> ReducePlan:
    """Return what a modelled machine does for a reduction, and what that costs.

    It is the plan that such a call with ``target=`` follows, and that its `Run` has inside `poplibs_py.profile`.

    Parameters
    ----------
    shape : sequence of int
        Of the operand.
    axes : int or sequence of int, optional
        The axes that are reduced; all by default.
    op : {"ADD", "SQUARE_ADD", "MUL", "MIN", "MAX", "LOGICAL_AND", "LOGICAL_OR", "LOG_ADD"}, optional
        The operation.
    dtype, out_dtype : Format, dtype or str, optional
        Of the operand and of the result, which is by default that of the operand: float32, float16, int32, uint32 for
        extremes, bool for LOGICAL_AND and LOGICAL_OR.
    scaled : bool, optional
        Whether the last stage scales, or adds to what the result holds.
    options : mapping, optional
        As in `reduce`.
    target : Target or str, optional
        The machine.

    Returns
    -------
    ReducePlan
        Its `explain` tells stages, vertices, cycles and bytes.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.
    UnsupportedError
        If the machine has no vertex for it, or is this CPU.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> plan = popops.plan_reduce((4096, 256), 0)
    >>> plan.phases
    {'exchange': 624, 'reduce on tiles': 2172, 'reduce between tiles': 900, 'reduce to the result': 492}
    """
    extents = as_shape("shape", shape)
    over = axes_of(axes, len(extents))
    one_of("op", op, tuple(OPERATIONS))
    source = element_of("dtype", dtype)
    result = source if out_dtype is None else element_of("out_dtype", out_dtype)
    machine = modelled_machine(target, MOST_TILES)
    types = type_of(source), type_of(result)
    if reduction_lacks(op, *types):
        raise UnsupportedError(f"target: {machine.name} has no vertex for {op} from {source} to {result}")
    return plan_reduction("reduce", op, extents, over, types, machine, scaled=flag("scaled", scaled),
                          accum=accum_types(options))
