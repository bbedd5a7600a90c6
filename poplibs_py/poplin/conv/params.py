"""What a convolution on this CPU is: PopLibs' params, and how the arrays lie. No sizes of any machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...checks import check_shape, one_of, whole
from ...errors import bad_argument, bad_type
from ...formats import Format, format_of
from ...memo import remembered
from ...ops import Operand, Receiver, contiguous_strides, new_result, operand, result_format
from ...target.types import format_of_type
from ..gemm.params import MatrixLayout
from ..tile_conv import ConvParams, FieldTransform, OutputTransform
from .scales import decoded

LAYOUTS = ("NCHW", "NHWC")
"""Orders of axes: HW stands for all field dimensions."""

WORDS = 3
"""Operand of the words that an update's call has of its own: it has no bias and no residual."""


@dataclass(frozen=True)
class FieldLayout:
    """How an array of images, or of kernels, lies: bytes from an element to the next along each axis.

    Attributes
    ----------
    format : Format
    row : int
        From an image to the next; of kernels, from an output channel to the next.
    group, channel : int
        From a convolution group, from a channel of a group to the next.
    field : tuple of int
        Along each field dimension.
    offset : int
        To the first element, from where the array begins.
    aligned : bool
        Whether every element's address is a multiple of its size.
    scale : int
        Exponent s of the scale 2^s that all elements have.
    """

    format: Format
    row: int
    group: int
    channel: int
    field: tuple[int, ...]
    offset: int = 0
    aligned: bool = True
    scale: int = 0

    @property
    def swapped(self) -> FieldLayout:
        """The same memory with rows and channels swapped."""
        return replace(self, row=self.channel, channel=self.row)

    def flipped(self, extents: tuple[int, ...]) -> FieldLayout:
        """The same memory read backwards in every field dimension."""
        last = sum((extent - 1) * stride for extent, stride in zip(extents, self.field, strict=True))
        return replace(self, offset=self.offset + last, field=tuple(-stride for stride in self.field))


@dataclass(frozen=True)
class ConvCall:
    """A convolution of arrays: one pass.

    Attributes
    ----------
    params : ConvParams
        Sizes and transforms; its data types say nothing.
    x, weights, out : FieldLayout
        How images, kernels and results lie.
    bias : MatrixLayout or None
        How a bias lies: `batch` holds bytes from a group to the next, `column` from a channel to the next.
    updates : bool
        Whether it is the gradient of weights of another convolution, which words tell of then.
    """

    params: ConvParams
    x: FieldLayout
    weights: FieldLayout
    out: FieldLayout
    bias: MatrixLayout | None = None
    updates: bool = False

    @property
    def words(self) -> str:
        """What is computed, in words: sizes as the caller has them, and formats."""
        sizes = self.params.forward_words if self.updates else self.params.words
        return f"{sizes}: {self.x.format} x {self.weights.format} -> {self.out.format}"

    @property
    def behind(self) -> int:
        """The operand behind images, kernels, the result and a bias: the residual, where there is one."""
        return 3 + (self.bias is not None)

    @classmethod
    def input_gradient(cls, params: ConvParams, deltas: FieldLayout, weights: FieldLayout,
                       out: FieldLayout) -> ConvCall:
        """The backward pass of a convolution of these params: deltas convolved with the transposed, flipped weights."""
        turned = weights.swapped.flipped(params.kernel_shape)
        return cls(params.gradient(), deltas, turned, out)

    @classmethod
    def weight_gradient(cls, params: ConvParams, deltas: FieldLayout, x: FieldLayout, out: FieldLayout) -> ConvCall:
        """The weight update pass: images convolved with deltas, the batch as channels; `out` lies as weights."""
        return cls(params.weight_update(), x.swapped, deltas.swapped, out.swapped, updates=True)


# From arguments ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Described:
    """How a caller describes a convolution beside its arrays.

    Attributes
    ----------
    stride, padding, dilation : int or tuple
        Of each field dimension; a padding may be a pair.
    groups : int or None
        Convolution groups; None for one, or for as many as the weights' first axis has.
    params : ConvParams or None
        All of it, in PopLibs' terms.
    layout : str
        One of `LAYOUTS`.
    """

    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: int | None = None
    params: ConvParams | None = None
    layout: str = "NCHW"

    @classmethod
    def of(cls, **given: Any) -> Described:
        """Check a caller's keywords; what can be checked without the arrays."""
        given = {name: field.default for name, field in cls.__dataclass_fields__.items()} | given
        one_of("layout", given["layout"], LAYOUTS)
        params, groups = given["params"], given["groups"]
        if params is not None and not isinstance(params, ConvParams):
            raise bad_type("params", params, "a ConvParams or None")
        if groups is not None:
            given["groups"] = whole("groups", groups, 1)
        for name in ("stride", "padding", "dilation"):
            given[name] = _frozen(name, given[name])
        for name, default in (("stride", 1), ("padding", 0), ("dilation", 1), ("groups", None)):
            if params is not None and given[name] != default:
                raise bad_argument(name, given[name], "its default where params are given: they say it")
        return cls(**given)

    @classmethod
    def among(cls, named: Mapping[str, Any]) -> Described:
        """Check those of a caller's keywords that are attributes."""
        return cls.of(**{name: value for name, value in named.items() if name in cls.__dataclass_fields__})

    def dims(self, ndim: int) -> tuple[tuple[Any, ...], tuple[Any, ...], list[tuple[int, int]]]:
        """Return strides, dilations and pairs of paddings for each of so many field dimensions."""
        paddings = [_sides(one, self.padding) for one in _per_dim("padding", self.padding, ndim)]
        return _per_dim("stride", self.stride, ndim), _per_dim("dilation", self.dilation, ndim), paddings

    @property
    def channels_last(self) -> bool:
        """Whether channels are the last axis."""
        return self.layout == "NHWC"


_MOST_SIZES = 64  # NumPy's arrays have no more axes


def _frozen(name: str, value: Any, nested: int = 2) -> Any:
    """Numbers, or sequences of them nested so deep at most, as ints and tuples."""
    if nested and (isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim)):
        if len(value) > _MOST_SIZES:
            raise bad_argument(name, value, f"at most {_MOST_SIZES} numbers or pairs")
        return tuple(_frozen(name, one, nested - 1) for one in value)
    more = ", or a pair (before, after) for each" if name == "padding" else ""
    return whole(name, value, 0 if name == "padding" else 1, 2**31 - 1, f", one for each field dimension{more}")


def _per_dim(name: str, value: Any, ndim: int) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        return (value,) * ndim
    if len(value) != ndim:
        raise bad_argument(name, value, f"one number, or one for each of {ndim} field dimensions")
    if name != "padding" and any(isinstance(one, tuple) for one in value):
        raise bad_argument(name, value, "a number for each field dimension")
    return value


def _sides(value: Any, given: Any) -> tuple[int, int]:
    if not isinstance(value, tuple):
        return value, value
    if len(value) != 2 or any(isinstance(one, tuple) for one in value):
        raise bad_argument("padding", given, "numbers, or pairs of numbers (before, after)")
    return value


@remembered()
def stated(how: Described, batch: int, field: tuple[int, ...], kernel: tuple[int, ...], in_channels: int,
           out_channels: int, groups: int, name: str = "weights") -> ConvParams:
    """State a convolution in PopLibs' terms; channels are those of a group, and `name` says the kernel."""
    if how.params is not None:
        p = how.params
        sizes = {"batch": batch, "field_shape": field, "kernel_shape": kernel, "in_channels": in_channels,
                 "out_channels": out_channels, "groups": groups}
        for name, size in sizes.items():
            if getattr(p, name) != size:
                raise bad_argument("params", f"{name} {getattr(p, name)}", f"that of the arrays, {size}")
        return p
    strides, dilations, paddings = how.dims(len(field))
    padded = tuple(n + low + high for n, (low, high) in zip(field, paddings, strict=True))
    if not all(kernel):
        raise bad_argument(name, f"a kernel of {kernel}", "one of at least one element in each dimension")
    spans = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    if any(n < span for n, span in zip(padded, spans, strict=True)):
        raise bad_argument(name, f"a kernel that spans {spans}", f"one within the padded field, which is {padded}")
    return ConvParams.create(
        batch=batch, field=field, kernel=kernel, in_channels=in_channels, out_channels=out_channels, groups=groups,
        input_transform=[FieldTransform(padding_lower=low, padding_upper=high) for low, high in paddings],
        kernel_transform=[FieldTransform(dilation=d) for d in dilations],
        output_transform=[OutputTransform(stride=s) for s in strides],
    )  # fmt: skip


def field_dims(x: Operand, name: str, how: Described) -> int:
    """Return how many field dimensions images have."""
    axes = "N, field..., C" if how.channels_last else "N, C, field..."
    check_shape(name, x, x.array.ndim >= 3, f"three axes at least: {axes}")
    return x.array.ndim - 2


def images_of(x: Operand, name: str, how: Described, groups: int) -> tuple[FieldLayout, int, int, tuple[int, ...]]:
    """Return how images lie, how many there are, their channels in all, and their field."""
    field_dims(x, name, how)
    x, channel = decoded(x), -1 if how.channels_last else 1
    shape, strides = list(x.shape), list(x.array.strides)
    channels, step = shape.pop(channel), strides.pop(channel)
    if channels % groups:
        raise bad_argument(name, f"{channels} channels", f"a multiple of the {groups} groups (weights of one axis more "
                           "than images begin with their groups)")
    layout = FieldLayout(x.format, strides[0], channels // groups * step, step, tuple(strides[1:]),
                         aligned=x.array.flags.aligned, scale=x.scale)
    return layout, shape[0], channels, tuple(shape[1:])


def kernel_axes(how: Described, grouped: bool) -> str:
    """Return the axes of weights in words."""
    made = "Co" if grouped else "G * Co"
    return ("G, " if grouped else "") + (f"K..., Ci, {made}" if how.channels_last else f"{made}, Ci, K...")


def kernels_of(w: Operand, name: str, how: Described, ndim: int) -> tuple[FieldLayout, tuple[int, int, int],
                                                                         tuple[int, ...]]:
    """Return how weights lie, their groups, output and input channels of a group, and the kernel's extents."""
    w = decoded(w)
    array, groups = w.array, how.groups or (1 if how.params is None else how.params.groups)
    grouped = array.ndim == ndim + 3
    last = how.channels_last
    check_shape(name, w, grouped or array.ndim == ndim + 2,
                f"{ndim + 2} axes ({kernel_axes(how, False)}), or {ndim + 3} with the groups first")
    if grouped:
        if how.groups is not None and array.shape[0] != how.groups:
            raise bad_argument(name, f"{array.shape[0]} groups", f"as `groups` says, {how.groups}")
        groups = array.shape[0]
    shape, strides = list(array.shape), list(array.strides)
    group_step = 0
    if grouped:
        shape.pop(0)
        group_step = strides.pop(0)
    if last:
        shape, strides = [shape[-1], shape[-2], *shape[:-2]], [strides[-1], strides[-2], *strides[:-2]]
    made, taken = shape[0], shape[1]
    if not grouped:
        if made % groups:
            raise bad_argument(name, f"{made} output channels", f"a multiple of the {groups} groups")
        made //= groups
        group_step = made * strides[0]
    layout = FieldLayout(w.format, strides[0], group_step, strides[1], tuple(strides[2:]),
                         aligned=array.flags.aligned, scale=w.scale)
    return layout, (groups, made, taken), tuple(shape[2:])


def weights_shape(how: Described, p: ConvParams, grouped: bool) -> tuple[int, ...]:
    """Return the shape of a convolution's weights in a caller's layout."""
    made = p.out_channels if grouped else p.groups * p.out_channels
    front = (p.groups,) if grouped else ()
    if how.channels_last:
        return (*front, *p.kernel_shape, p.in_channels, made)
    return (*front, made, p.in_channels, *p.kernel_shape)


def images_shape(how: Described, batch: int, channels: int, field: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of images in a caller's layout."""
    return (batch, *field, channels) if how.channels_last else (batch, channels, *field)


def contiguous_call(p: ConvParams, how: Described, dtype: Any, w_dtype: Any, out_dtype: Any,
                    bias_dtype: Any) -> ConvCall:
    """Return the convolution of C-contiguous arrays, weights with an axis of groups; params say what no dtype does."""
    x = format_of_type(p.input_type) if dtype is None else format_of(dtype, "dtype")
    w = x if w_dtype is None else format_of(w_dtype, "w_dtype")
    default = format_of_type(p.output_type) if dtype is None and w_dtype is None else result_format(x, w)
    out = default if out_dtype is None else format_of(out_dtype, "out_dtype")

    def lies(dtype: Format, batch: int, channels: int, field: tuple[int, ...]) -> FieldLayout:
        row, *inner, last = contiguous_strides(images_shape(how, batch, p.groups * channels, field), dtype.itemsize)
        step, *along = (last, *inner) if how.channels_last else (*inner, last)
        return FieldLayout(dtype, row, channels * step, step, tuple(along))

    group, *inner, one, two = contiguous_strides(weights_shape(how, p, True), w.itemsize)
    made, taken, *along = (two, one, *inner) if how.channels_last else (*inner, one, two)
    bias = None
    if bias_dtype is not None:
        fmt = format_of(bias_dtype, "bias_dtype")
        bias = MatrixLayout(fmt, 0, fmt.itemsize, (p.out_channels * fmt.itemsize,))
    return ConvCall(p, lies(x, p.batch, p.in_channels, p.field_shape),
                    FieldLayout(w, made, group, taken, tuple(along)),
                    lies(out, p.batch, p.out_channels, p.output_shape), bias)


def new_images(shape: tuple[int, ...], dtype: Format, like: Operand) -> Receiver:
    """Return new images, channels innermost in memory where those of `like`, of the same layout, are."""
    array = like.array
    channels_lie_innermost = abs(array.strides[1]) == array.itemsize and array.shape[1] > 1
    if not channels_lie_innermost or math.prod(array.shape[2:]) < 2:
        return new_result(shape, dtype)
    receiver = new_result((shape[0], *shape[2:], shape[1]), dtype)
    receiver.array = receiver.array.transpose(0, len(shape) - 1, *range(1, len(shape) - 1))
    return receiver


def stated_input_gradient(how: Described, deltas: Operand, weights: Operand, field: Any, out: Any) -> ConvParams:
    """State the forward pass that deltas come from; a stride leaves its field open."""
    ndim = field_dims(deltas, "deltas", how)
    _, (groups, made, taken), kernel = kernels_of(weights, "weights", how, ndim)
    _, batch, channels, outputs = images_of(deltas, "deltas", how, groups)
    if channels != groups * made:
        raise bad_argument("deltas", f"{channels} channels",
                           f"the {groups * made} output channels of weights {weights.shape}")
    if field is not None:
        extents = _per_dim("field_shape", _frozen("field_shape", field), ndim)
    elif how.params is not None:
        extents = how.params.field_shape
    elif out is not None:
        into = operand("out", out)
        check_shape("out", into, into.array.ndim == ndim + 2, f"{ndim + 2} axes")
        shape = into.shape
        extents = shape[1:-1] if how.channels_last else shape[2:]
    else:  # the smallest
        dims = zip(outputs, kernel, *how.dims(ndim), strict=True)
        extents = tuple(max(0, (o - 1) * s + (k - 1) * d + 1 - sum(p)) for o, k, s, d, p in dims)
    return _forward(how, batch, extents, kernel, taken, made, groups, outputs)


def stated_weights(how: Described, deltas: Operand, x: Operand, kernel: Any, weights: Operand | None,
                   name: str) -> ConvParams:
    """State the forward pass whose weights' gradient is wanted; those that are written to may say its kernel."""
    ndim = field_dims(x, "x", how)
    groups = how.groups or (1 if how.params is None else how.params.groups)
    extents = None if how.params is None else how.params.kernel_shape
    if weights is not None:
        _, (groups, _, _), extents = kernels_of(weights, name, how, ndim)
    _, batch, channels, field = images_of(x, "x", how, groups)
    _, count, made, outputs = images_of(deltas, "deltas", how, groups)
    check_shape("deltas", deltas, len(outputs) == ndim, f"as many axes as x has, {ndim + 2}")
    if count != batch:
        raise bad_argument("deltas", f"{count} images", f"as many as x has, {batch}")
    if kernel is not None:
        extents = _per_dim("kernel_shape", _frozen("kernel_shape", kernel), ndim)
    elif extents is None:  # the largest
        dims = zip(field, outputs, *how.dims(ndim), strict=True)
        extents = tuple(max(1, (f + sum(p) - 1 - (o - 1) * s) // d + 1) for f, o, s, d, p in dims)
    said_by = "kernel_shape" if kernel is not None else name
    return _forward(how, batch, field, tuple(extents), channels // groups, made // groups, groups, outputs, said_by)


def _forward(how: Described, batch: int, field: tuple[int, ...], kernel: tuple[int, ...], taken: int, made: int,
             groups: int, outputs: tuple[int, ...], name: str = "weights") -> ConvParams:
    """The forward pass, whose result is `outputs` large."""
    p = stated(how, batch, tuple(field), kernel, taken, made, groups, name)
    if p.output_shape != outputs:
        raise bad_argument("deltas", f"a field of {outputs}", f"that of the forward pass' result, {p.output_shape}")
    return p


def take_bias(bias: Any, channels: int) -> Operand:
    """Take a bias: a number for each channel."""
    added = operand("bias", bias)
    if added.scale or added.scales:
        raise bad_type("bias", "a QuarterArray", "an array")
    check_shape("bias", added, added.shape == (channels,), f"one number for each channel, ({channels},)")
    return added
