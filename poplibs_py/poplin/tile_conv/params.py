"""The problem: what a convolution computes, in PopLibs' terms."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from math import prod
from typing import TypeVar

from ...checks import all_of, flag
from ...errors import bad_argument, bad_type, check_keys
from ...memo import tabled
from ...target.types import data_type
from .axis import Axis, FieldTransform, OutputTransform

_T = TypeVar("_T", FieldTransform, OutputTransform)

_LIMIT = 2**31  # PopLibs holds sizes in 32-bit unsigned integers
VOLUME_LIMIT = 2**40
MACS_LIMIT = 2**56  # costs are 64-bit integers, some tens of cycles per product
_NDIM_LIMIT = 8


@dataclasses.dataclass(frozen=True)
class ConvParams:
    """A convolution of any number of field dimensions, with groups and every transform.

    Corresponds to PopLibs' ``ConvParams``. `ConvParams.create` takes sizes and transforms dimension by dimension.
    However it is built, every field is checked, and data types may be given as `data_type` takes them.

    Parameters
    ----------
    input_type, output_type : str
        ``"float"``, ``"half"`` or ``"quarter"``.
    batch, in_channels, out_channels, groups : int
        Batch size; channels per group; number of convolution groups.
    axes : tuple of Axis
        One per field dimension, outermost first.
    """

    input_type: str
    output_type: str
    batch: int
    in_channels: int
    out_channels: int
    groups: int
    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        checked: dict[str, object] = {}
        for name in ("input_type", "output_type"):
            checked[name] = data_type(name, getattr(self, name))
        for name in ("batch", "in_channels", "out_channels", "groups"):
            checked[name] = _size(name, getattr(self, name))
        checked["axes"] = _checked_axes(self.axes)
        self.__dict__.update(checked)
        self._check_volumes()

    @classmethod
    def create(cls, *, input_type: object = "float", output_type: object = None, batch: int = 1, field: Sequence[int],
               kernel: Sequence[int], in_channels: int, out_channels: int, groups: int = 1,
               input_transform: Sequence[FieldTransform] | None = None,
               kernel_transform: Sequence[FieldTransform] | None = None,
               output_transform: Sequence[OutputTransform] | None = None) -> ConvParams:
        """Check sizes and transforms and build the params.

        Parameters
        ----------
        input_type, output_type : str, Format or dtype
            Data types, ``"half"`` as well as ``"float16"``; the output's defaults to the input's, and to half for
            quarter.
        field, kernel : sequence of int
            Input field and kernel shape, outermost dimension first.
        input_transform, kernel_transform, output_transform : sequence, optional
            One `FieldTransform` or `OutputTransform` per dimension (default: none is done).

        Raises
        ------
        InvalidArgumentError, InvalidTypeError
            Naming the argument, if sizes or transforms do not fit together.

        Examples
        --------
        >>> from poplibs_py.poplin.tile_conv import ConvParams, FieldTransform
        >>> p = ConvParams.create(field=[5], kernel=[3], in_channels=2, out_channels=4,
        ...                       input_transform=[FieldTransform(padding_lower=1, padding_upper=1)])
        >>> p.output_shape, p.macs()
        ((5,), 104)
        """
        given = data_type("input_type", input_type)
        made = _own_result(given) if output_type is None else data_type("output_type", output_type)
        field, kernel = _sizes("field", field), _sizes("kernel", kernel)
        if not 1 <= len(field) <= _NDIM_LIMIT:
            raise bad_argument("field", field, f"1 to {_NDIM_LIMIT} dimensions")
        if len(field) != len(kernel):
            raise bad_argument("kernel", kernel, f"as many dimensions as field {field}")
        ndim = len(field)
        inputs = _per_dim("input_transform", input_transform, ndim, FieldTransform)
        weights = _per_dim("kernel_transform", kernel_transform, ndim, FieldTransform)
        outputs = _per_dim("output_transform", output_transform, ndim, OutputTransform)
        axes = tuple(map(Axis, field, kernel, inputs, weights, outputs))
        return cls(given, made, batch, in_channels, out_channels, groups, axes)

    def _check_volumes(self) -> None:
        channels = self.groups * max(self.batch, 1)
        for name, volume in (
            ("in_channels", channels * prod(a.field for a in self.axes) * self.in_channels),
            ("out_channels", channels * prod(a.out for a in self.axes) * self.out_channels),
            ("kernel", self.groups * prod(a.kernel for a in self.axes) * self.in_channels * self.out_channels)):
            if volume >= VOLUME_LIMIT:
                raise bad_argument(name, volume, f"a tensor of fewer than {VOLUME_LIMIT} elements")
        bound = self.groups * self.batch * self.in_channels * self.out_channels
        if bound * prod(a.out * a.kernel for a in self.axes) >= MACS_LIMIT:
            raise bad_argument("field", self.field_shape, "fewer than 2**56 multiply-accumulates")

    # Shapes ----------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of field dimensions."""
        return len(self.axes)

    @property
    def field_shape(self) -> tuple[int, ...]:
        """Input field shape."""
        return tuple(a.field for a in self.axes)

    @property
    def kernel_shape(self) -> tuple[int, ...]:
        """Kernel shape."""
        return tuple(a.kernel for a in self.axes)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Output field shape."""
        return tuple(a.out for a in self.axes)

    @property
    def words(self) -> str:
        """Its sizes, in words: images and their field, the kernel, the field of results, and channels."""
        return self._said(self.batch, self.kernel_shape, self.output_shape, self.in_channels)

    @property
    def forward_words(self) -> str:
        """Those of the convolution whose `weight_update` it is, where channels are images and results kernels."""
        return self._said(self.in_channels, self.output_shape, self.kernel_shape, self.batch)

    def _said(self, images: int, kernel: tuple[int, ...], made: tuple[int, ...], channels: int) -> str:
        field, taps, results = ("x".join(map(str, shape)) or "1" for shape in (self.field_shape, kernel, made))
        groups = f"{self.groups} groups of " if self.groups > 1 else ""
        return f"{images} x {field} by {taps} to {results}, {groups}{channels} to {self.out_channels} channels"

    def macs(self) -> int:
        """Multiply-accumulates, products with known zeros left out."""
        per_position = self.groups * self.batch * self.out_channels * self.in_channels
        return per_position * prod(a.macs() for a in self.axes)

    def flops(self) -> int:
        """Two per multiply-accumulate. Corresponds to PopLibs' ``getFwdFlops``."""
        return 2 * self.macs()

    # Other params ----------------------------------------------------------------------------------

    def replace(self, **fields: object) -> ConvParams:
        """Return a copy with some fields changed, checked."""
        check_keys("replace()", fields, [field.name for field in dataclasses.fields(self)], keywords=True)
        return dataclasses.replace(self, **fields)  # type: ignore[arg-type]

    def derived(self, **fields: object) -> ConvParams:
        """Return a copy with some fields changed, unchecked: they follow from what was checked."""
        made = object.__new__(ConvParams)
        made.__dict__.update(self.__dict__, **fields)
        return made

    def canonical(self) -> ConvParams:
        """The unique params that compute the same from the same tensors; idempotent.

        Known zeros become output padding, unused elements truncation, padding that cancels goes.
        Corresponds to PopLibs' ``ConvParams::canonicalize``.
        """
        return _canonical(self)

    def zero(self) -> ConvParams:
        """The same tensors and shapes, every output zero."""
        return self.derived(axes=tuple(_zero_axis(a) for a in self.axes))

    def swapped(self) -> ConvParams:
        """Input and weights swapped: batch becomes output channels. PopLibs' ``swapOperands``."""
        return self.derived(batch=self.out_channels, out_channels=self.batch,
                            axes=tuple(a.swapped() for a in self.axes)).canonical()

    def gradient(self) -> ConvParams:
        """Params of the backward pass (gradient of the input), canonical.

        The caller flips the weights in every dimension. Corresponds to PopLibs' ``getGradientParams``.
        """
        p = self.canonical()
        axes = tuple(_gradient_axis(a) for a in p.axes)
        return p.derived(in_channels=p.out_channels, out_channels=p.in_channels, axes=axes).canonical()

    def weight_update(self) -> ConvParams:
        """Params of the weight update pass, canonical. PopLibs' ``getWeightUpdateParams``."""
        p = self.canonical()
        axes = tuple(_weight_update_axis(a) for a in p.axes)
        return p.derived(batch=p.in_channels, in_channels=p.batch, axes=axes).canonical()


@tabled(4096)
def _canonical(params: ConvParams) -> ConvParams:
    axes = []
    for axis in params.axes:
        canonical = axis.canonical()
        if canonical is None:
            return params.zero()
        axes.append(canonical)
    return params.derived(axes=tuple(axes))


def _zero_axis(axis: Axis) -> Axis:
    one = FieldTransform(padding_lower=1)
    return Axis(axis.field, axis.kernel, one._replace(truncation_upper=axis.field),
                one._replace(truncation_upper=axis.kernel), OutputTransform(truncation_upper=1, padding_upper=axis.out))


def _gradient_axis(a: Axis) -> Axis:
    reach = a.transformed_kernel - 1
    given = FieldTransform(a.output.padding_lower, a.output.padding_upper, a.output.stride,
                           a.output.truncation_lower + reach, a.output.truncation_upper + reach, a.input.flip)
    w = a.weights
    weights = FieldTransform(w.truncation_upper, w.truncation_lower, w.dilation, w.padding_upper, w.padding_lower,
                             w.flip != a.input.flip)
    i = a.input
    output = OutputTransform(i.padding_lower, i.padding_upper, i.dilation, i.truncation_lower, i.truncation_upper)
    return Axis(a.out, a.kernel, given, weights, output)


def _weight_update_axis(a: Axis) -> Axis:
    o, w = a.output, a.weights
    weights = FieldTransform(o.padding_lower, o.padding_upper, o.stride, o.truncation_lower, o.truncation_upper, w.flip)
    output = OutputTransform(w.padding_lower, w.padding_upper, w.dilation, w.truncation_lower, w.truncation_upper)
    return Axis(a.field, a.out, a.input._replace(flip=a.input.flip != w.flip), weights, output)


def matmul_params(groups: int, rows: int, inner: int, columns: int, input_type: object,
                  output_type: object = None) -> ConvParams:
    """``[G, M, K] @ [G, K, N]`` as a 1-D convolution with a field and a kernel of one element.

    Batch is M (`rows`), input channels are K (`inner`), output channels N (`columns`); A holds the activations, B the
    weights.

    Examples
    --------
    >>> from poplibs_py.poplin.tile_conv import matmul_params
    >>> matmul_params(1, 64, 32, 16, "half").flops() == 2 * 64 * 32 * 16
    True
    """
    for name, size in (("groups", groups), ("rows", rows), ("inner", inner), ("columns", columns)):
        _size(name, size)
    return ConvParams.create(input_type=input_type, output_type=output_type, batch=rows, field=[1], kernel=[1],
                             in_channels=inner, out_channels=columns, groups=groups)


def _own_result(data_type: str) -> str:
    """The type of the results of operands of a type, where none is asked for."""
    return "half" if data_type == "quarter" else data_type


# Checks --------------------------------------------------------------------------------------------


def _size(name: str, value: object) -> int:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except Exception:  # whatever an object of somebody else's raises
        number = None
    if number is None or isinstance(value, bool):
        raise bad_type(name, value, "an integer")
    if not 0 <= number < _LIMIT:
        raise bad_argument(name, number, f"0 or more, below {_LIMIT}")
    return number


def _sizes(name: str, values: object) -> list[int]:
    listed = all_of(name, values, object, "a sequence of integers, one per dimension")
    return [_size(name, value) for value in listed]


def _per_dim(name: str, values: Sequence[_T] | None, ndim: int, kind: type[_T]) -> list[_T]:
    if values is None:
        return [kind()] * ndim
    if not isinstance(values, (list, tuple)):
        raise bad_type(name, values, f"a list of {ndim} transforms, one per dimension")
    values = list(values)
    if len(values) != ndim:
        raise bad_argument(name, values, f"{ndim} transforms, one per dimension")
    for value in values:
        if not isinstance(value, kind):
            raise bad_type(name, value, f"a {kind.__name__}")
        for field, number in zip(value._fields, value, strict=True):
            if field == "flip":
                flag(f"{name}.{field}", number)
                continue
            _size(f"{name}.{field}", number)
        for field in ("dilation", "stride"):
            if getattr(value, field, 1) == 0:
                raise bad_argument(f"{name}.{field}", 0, "1 or more")
    return values


def _checked_axes(axes: object) -> tuple[Axis, ...]:
    if not isinstance(axes, (tuple, list)) or not all(isinstance(axis, Axis) for axis in axes):
        raise bad_type("axes", axes, "a tuple of one Axis per field dimension")
    if not 1 <= len(axes) <= _NDIM_LIMIT:
        raise bad_argument("axes", axes, f"1 to {_NDIM_LIMIT} dimensions")
    for dim, axis in enumerate(axes):
        _size("axes.field", axis.field)
        _size("axes.kernel", axis.kernel)
        _per_dim("axes.input", [axis.input], 1, FieldTransform)
        _per_dim("axes.weights", [axis.weights], 1, FieldTransform)
        _per_dim("axes.output", [axis.output], 1, OutputTransform)
        _check_axis(axis, dim)
    return tuple(axes)


def _check_axis(axis: Axis, dim: int) -> None:
    where = f" (dimension {dim})"
    for name, size, by in (("input", axis.field, axis.input), ("kernel", axis.kernel, axis.weights)):
        if by.truncated(size) < 0:
            cut = by.truncation_lower + by.truncation_upper
            raise bad_argument(f"{name}_transform", f"truncation of {cut}", f"at most its size {size}{where}")
        if by.transformed(size) >= _LIMIT:
            raise bad_argument(f"{name}_transform", by, f"a transformed size below {_LIMIT}{where}")
    if axis.transformed_kernel == 0:
        raise bad_argument("kernel", axis.kernel, f"a transformed kernel of at least one element{where}")
    if axis.transformed_input < axis.transformed_kernel:
        sizes = f"at least the transformed kernel's {axis.transformed_kernel}{where}"
        raise bad_argument("field", f"transformed size {axis.transformed_input}", sizes)
    cut = axis.output.truncation_lower + axis.output.truncation_upper
    if cut > axis.raw_output:
        allowed = f"at most the convolution's {axis.raw_output} outputs{where}"
        raise bad_argument("output_transform", f"truncation of {cut}", allowed)
    if axis.out >= _LIMIT:
        raise bad_argument("output_transform", axis.output, f"an output size below {_LIMIT}{where}")
