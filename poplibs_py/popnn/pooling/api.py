"""Pooling: what runs on this CPU, and its plan on modelled machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...checks import as_shape, check_shape, flag, one_of
from ...errors import UnsupportedError, bad_argument, bad_type
from ...formats import format_of
from ...ops import one_scale_operand, op, receive, result_format
from ...ops.parts import Part, results
from ...target import MOST_TILES, Target, TargetLike, modelled_machine
from ...target.types import data_type, vector_of
from .field import each_of
from .kinds import KINDS
from .modelled import place_of_pooling
from .params import PoolParams
from .plan import PoolPlan, planned
from .request import images, places_of, pooled, to_places, windows_asked


class MaxPlaces(NamedTuple):
    """What `max_pool_with_indices` returns."""

    values: Any
    indices: Any


def _documented(function: Any) -> Any:
    """Fill in what the poolings' docstrings share."""
    function.__doc__ = (function.__doc__ or "").format(windows=_WINDOWS.strip(), last=_LAST.strip(), raises=_RAISES)
    return function


_WINDOWS = """
    stride : int or sequence of int, optional
        From a window to the next; by default windows lie side by side.
    padding : int, or sequence of int or of pairs, optional
        Before and after each dimension, or both by a pair; negative numbers truncate the field, as in PopLibs.
    dilation : int or sequence of int, optional
        From an element of a window to the next.
    ceil_mode : bool, optional
        Whether a last window may pass the end, if it begins within the field or its padding before (torch); the end is
        not truncated then.
    output_size : int or sequence of int, optional
        Instead of `kernel`: how many windows, which share the field out, from ``floor(i n / size)`` to
        ``ceil((i + 1) n / size)``; None in a sequence keeps the dimension.
    layout : {"NCHW", "NHWC"}, optional
        Where the channels are; HW stands for all dimensions of the field.
"""
_LAST = """
    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap operands.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`. Without one: that of the operands, or float16 where they are FP8.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one the numbers are the same.
"""
_RAISES = """InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value. Nothing has been written then.
    UnsupportedError
        If `target` names a machine that has no vertices for it."""


@op("popnn::pooling::pool", bound="popnn.pooling.bound", draws="testing.pool_calls")
@_documented
def pool(x: Any, kernel: int | Sequence[int] | None = None, op: str = "max", *, stride: Any = None, padding: Any = 0,
         dilation: Any = 1, ceil_mode: bool = False, count_include_pad: bool = False, output_size: Any = None,
         layout: str = "NCHW", out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Pool fields by their maxima, averages or sums (``popnn::pooling::pool``).

    Parameters
    ----------
    x : array_like or QuarterArray [N, C, ...]
        float32, float16, bfloat16 or FP8, of any strides, with any number of field dimensions. Lists become float32.
    kernel : int or sequence of int, optional
        Extents of a window, for all dimensions or for each; without it, and without `output_size`, the window is the
        whole field.
    op : {{"max", "avg", "sum"}}, optional
        What becomes of a window.
    {windows}
    count_include_pad : bool, optional
        Whether an average divides by padding too; by default, as in PopLibs, by the elements of the window that there
        are.
    {last}

    Returns
    -------
    numpy.ndarray [N, C, ...]
        `out`, or a new array, with ``(n + padding - span) // stride + 1`` windows in each dimension, where
        ``span = (kernel - 1) dilation + 1``.

    Raises
    ------
    {raises}

    Notes
    -----
    Sums are FP32: of the window's rows first, then along the last dimension, each in ascending order; an average is the
    sum divided by a product of counts; the result is rounded once. Same bits at every level, for any number of threads
    and either layout. A window that is the whole field is a reduction, as in PopLibs: see `poplibs_py.popops.mean`.
    Maxima are exact, NaN where an element is (PopLibs may pass over it), and +0 for zeros. A window without elements
    has the sum 0 and the maximum -inf (PopLibs in half precision: the lowest number).

    Examples
    --------
    >>> x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> popnn.pool(x, 2)[0, 0].tolist(), popnn.pool(x, 3, "avg", stride=2, padding=1)[0, 0].tolist()
    ([[5.0, 7.0], [13.0, 15.0]], [[2.5, 4.0], [8.5, 10.0]])
    >>> popnn.pool(x, op="sum").item(), popnn.pool(x, output_size=(1, 2))[0, 0].tolist()
    (120.0, [[13.0, 15.0]])
    """
    one_of("op", op, tuple(KINDS))
    source = one_scale_operand("x", x)
    shape = images("x", source.shape, layout)
    windows = windows_asked(shape.field, kernel, output_size, stride=stride, padding=padding, dilation=dilation,
                            ceil_mode=ceil_mode)
    include = flag("count_include_pad", count_include_pad)
    receiver = receive("out", out, shape.of(windows).shape, out_dtype, result_format(source), contiguous=True)
    placed = place_of_pooling("pool", target, op, shape, windows, include, [source], receiver)
    return pooled("pool", op, shape, windows, include, [source], receiver, placed)


@op("popnn::pooling::pool", bound="popnn.pooling.bound", draws="testing.pool_calls", written=None, lacks="by places")
@_documented
def max_pool_with_indices(x: Any, kernel: int | Sequence[int] | None = None, *, stride: Any = None, padding: Any = 0,
                          dilation: Any = 1, ceil_mode: bool = False, output_size: Any = None, layout: str = "NCHW",
                          out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Pool fields by their maxima, and say where these are (PopLibs has no places).

    Parameters
    ----------
    x : array_like or QuarterArray [N, C, ...]
        As `pool` takes it.
    kernel : int or sequence of int, optional
        As `pool` takes it.
    {windows}
    out : pair of arrays, optional
        Where the maxima and their places go.
    out_dtype : Format, dtype or str, optional
        The maxima's format; by default that of `x`, or float16 where that is FP8.

    Returns
    -------
    values : numpy.ndarray [N, C, ...]
        As `pool` has them.
    indices : numpy.ndarray of int64 [N, C, ...]
        Which element of its field each is, counted in C order: the first of those that are equal, or the first NaN;
        -1 for a window without elements.

    Raises
    ------
    {raises}

    Examples
    --------
    >>> values, indices = popnn.max_pool_with_indices([[[1.0, 3.0, 3.0, 2.0]]], 2)
    >>> values.tolist(), indices.tolist()
    ([[[3.0, 3.0]]], [[[1, 2]]])
    """
    source = one_scale_operand("x", x)
    shape = images("x", source.shape, layout)
    windows = windows_asked(shape.field, kernel, output_size, stride=stride, padding=padding, dilation=dilation,
                            ceil_mode=ceil_mode)
    form = result_format(source) if out_dtype is None else format_of(out_dtype, "out_dtype")
    if form.dtype is None:
        raise bad_argument("out_dtype", out_dtype, "a format that has a dtype")
    made = shape.of(windows).shape
    both = results(out, (Part(made, form), Part(made, np.dtype(np.int64))), MaxPlaces)
    return pooled("max_places", "max", shape, windows, False, [source], both, form=form)


@op("popnn::pooling::poolInputGradient", bound="popnn.pooling.bound", draws="testing.pool_calls")
@_documented
def pool_input_gradient(grad: Any, x_shape: Sequence[int], kernel: int | Sequence[int] | None = None, op: str = "max",
                        *, x: Any = None, pooled_x: Any = None, use_scaled_gradient: bool = False, stride: Any = None,
                        padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False, count_include_pad: bool = False,
                        output_size: Any = None, layout: str = "NCHW", out: Any = None, out_dtype: object = None,
                        target: TargetLike = None) -> Any:
    """Return the gradient of what was pooled (``popnn::pooling::poolInputGradient``).

    Parameters
    ----------
    grad : array_like or QuarterArray [N, C, ...]
        The gradient of `pool`'s result.
    x_shape : sequence of int
        The shape of what was pooled.
    kernel : int or sequence of int, optional
        As for `pool`.
    op : {{"max", "avg", "sum"}}, optional
    x, pooled_x : array_like or QuarterArray
        For maxima: what was pooled, and what it came to.
    use_scaled_gradient : bool, optional
        Whether elements that are equal to the maximum share its gradient evenly; by default, as in PopLibs, each has
        all of it.
    {windows}
    count_include_pad : bool, optional
        As for `pool`.
    {last}

    Returns
    -------
    numpy.ndarray of the shape `x_shape`

    Raises
    ------
    {raises}

    Notes
    -----
    FP32, rounded once. A gradient of an average is multiplied by the reciprocals of the counts, one for each dimension.
    An element is a maximum where it is equal to it, so NaN has none, and a `pooled_x` that was rounded or computed in
    another way finds none: `max_pool_with_indices` and `pool_indices_gradient` do not compare.

    Examples
    --------
    >>> popnn.pool_input_gradient([[[6.0]]], (1, 1, 3), 3, "avg").tolist()
    [[[2.0, 2.0, 2.0]]]
    >>> x, y = [[[1.0, 3.0, 3.0]]], [[[3.0]]]
    >>> popnn.pool_input_gradient([[[6.0]]], (1, 1, 3), 3, x=x, pooled_x=y).tolist()
    [[[0.0, 6.0, 6.0]]]
    """
    one_of("op", op, tuple(KINDS))
    kind = KINDS[op]
    scaled = flag("use_scaled_gradient", use_scaled_gradient)
    shape = images("x_shape", as_shape("x_shape", x_shape), layout)
    windows = windows_asked(shape.field, kernel, output_size, stride=stride, padding=padding, dilation=dilation,
                            ceil_mode=ceil_mode)
    include = flag("count_include_pad", count_include_pad)
    operands = [one_scale_operand("grad", grad, shape.of(windows).shape)]
    for name, value, due in (("x", x, shape), ("pooled_x", pooled_x, shape.of(windows))):
        if (value is None) == kind.chooses:
            raise bad_argument(name, value if value is None else "an array", "an array for op='max', else None")
        if value is not None:
            operands.append(one_scale_operand(name, value, due.shape))
    if scaled and not kind.chooses:
        raise bad_argument("use_scaled_gradient", scaled, "False but for op='max'")
    receiver = receive("out", out, shape.shape, out_dtype, result_format(operands[0]), contiguous=True)
    placed = place_of_pooling("pool_input_gradient", target, op, shape, windows, include, operands, receiver,
                              scaled=scaled)
    return pooled(kind.gradient, op, shape, windows, include, operands, receiver, placed, scaled=scaled)


@op(bound="popnn.pooling.bound", draws="testing.pool_calls", lacks="by places")
@_documented
def pool_indices_gradient(grad: Any, indices: Any, x_shape: Sequence[int], kernel: int | Sequence[int] | None = None,
                          *, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
                          output_size: Any = None, layout: str = "NCHW", out: Any = None, out_dtype: object = None,
                          target: TargetLike = None) -> Any:
    """Return the gradient of what was pooled by maxima, given where these were (PopLibs has none).

    Parameters
    ----------
    grad : array_like or QuarterArray [N, C, ...]
        The gradient of the maxima.
    indices : array_like of int [N, C, ...]
        As `max_pool_with_indices` returned them; -1 for none.
    x_shape : sequence of int
        The shape of what was pooled.
    kernel : int or sequence of int, optional
        As `max_pool_with_indices` took it. Where windows are told, by it or by `output_size`, the gradient is faster,
        and a place that is not in its window has none. Of fewer than 2^31 elements alone.
    {windows}
    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap operands.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`, or that of `grad`, or float16 where that is FP8.

    Returns
    -------
    numpy.ndarray of the shape `x_shape`

    Notes
    -----
    FP32 sums in the order of the windows, rounded once.

    Examples
    --------
    >>> popnn.pool_indices_gradient([[[5.0, 6.0]]], [[[1, 1]]], (1, 1, 3)).tolist()
    [[[0.0, 11.0, 0.0]]]
    >>> popnn.pool_indices_gradient([[[5.0, 6.0]]], [[[1, 1]]], (1, 1, 3), 2, stride=1).tolist()
    [[[0.0, 11.0, 0.0]]]
    """
    shape, source = images("x_shape", as_shape("x_shape", x_shape), layout), one_scale_operand("grad", grad)
    due = images("grad", source.shape, layout)
    windows = windows_asked(shape.field, kernel, output_size, stride=stride, padding=padding, dilation=dilation,
                            ceil_mode=ceil_mode)
    told = kernel is not None or output_size is not None
    if told and shape.elements >> 31:  # places are words of 32 bits
        raise bad_argument("x_shape", shape.shape, "fewer than 2^31 elements where windows are told")
    check_shape("grad", source, not told or source.shape == shape.of(windows).shape,
                f"shape {shape.of(windows).shape}, that of the windows")
    if (due.batch, due.channels, len(due.field)) != (shape.batch, shape.channels, len(shape.field)):
        raise bad_argument("x_shape", shape.shape, f"samples and channels of `grad`, whose shape is {source.shape}")
    places = places_of(indices, source.shape)
    receiver = receive("out", out, shape.shape, out_dtype, result_format(source), contiguous=True)
    return to_places(shape, due, windows if told else None, source, places, receiver)


def plan_pooling(op: str, shape: Sequence[int], kernel: int | Sequence[int], *,
                 stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, direction: str = "fwd",
                 dtype: object = "float16", channel_grouping: int | Sequence[int] = 1,
                 target: Target | str = "gc200") -> PoolPlan:
    """Plan a pooling on a modelled machine.

    Corresponds to the planner of PopLibs' ``popnn::pooling``: the same split over tiles, and the same cycles.

    Parameters
    ----------
    op : {"max", "avg", "sum"}
        What becomes of a window.
    shape : sequence of int
        Of the input: batch, channels and the field's extents.
    kernel : int or sequence of int
        Extents of a window, for all field dimensions or for each.
    stride : int or sequence of int, optional
        Elements from a window to the next; by default windows lie side by side.
    padding : int or sequence of int, optional
        Elements around the field, on both sides; negative numbers truncate it, as in PopLibs.
    direction : {"fwd", "bwd", "scale"}, optional
        The pooling, its gradient, or for ``"max"`` the counts by which PopLibs scales a gradient.
    dtype : Format, dtype or str, optional
        float32 or float16.
    channel_grouping : int or pair of int, optional
        How many channels lie together in the operand: as it is, and where PopLibs regroups it.
    target : Target or str, optional
        The machine.

    Returns
    -------
    PoolPlan
        Its `explain` tells the split and the cycles.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.
    UnsupportedError
        If there are fewer channels than a tile loads at once, or the machine is this CPU or has more than 4,096 tiles.

    Notes
    -----
    A pooling whose window is the whole field is a reduction in PopLibs, which is not planned.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> plan = popnn.plan_pooling("max", (4, 64, 13, 13), 3, stride=1, channel_grouping=2, target="gc200")
    >>> plan.cycles, plan.partition.field, plan.partition.per_group
    (2203, (2, 11), 4)
    """
    one_of("op", op, tuple(KINDS))
    one_of("direction", direction, tuple(KINDS[op].tiles))
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence) or len(shape) < 3:
        raise bad_type("shape", shape, "a sequence of integers: batch, channels and field")
    batch, channels, *field = shape
    fields = len(field)
    window = each_of("kernel", kernel, fields, 1)
    steps = window if stride is None else each_of("stride", stride, fields, 1)
    around = each_of("padding", padding, fields, -(1 << 31))
    detected, regrouped = each_of("channel_grouping", channel_grouping, 2, 1, "operands")
    word = data_type("dtype", dtype, ("float", "half"))
    params = PoolParams(op, direction, tuple(field), window, steps, around, around, channels, batch, word)
    machine = modelled_machine(target, MOST_TILES)
    least, every = vector_of(machine, word), params.channels * (params.batch if direction == "fwd" else 1)
    if every < least:  # PopLibs moves some of the field into them, in a way that is not known
        raise UnsupportedError(f"shape: got {every} channels; allowed: {least} or more on {machine.name}")
    return planned(params, machine, (detected, regrouped))
