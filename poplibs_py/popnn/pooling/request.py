"""Calls of poolings on this CPU: operands checked, seen as samples, channels and fields, and what runs on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...checks import check_shape, one_of
from ...config import settings
from ...errors import bad_argument
from ...formats import Array, Format
from ...ops import RESULT, Operand, Placed, Receiver, Request, contiguous_strides, whole_operand
from ...ops.parts import Results, alone
from ...poplin.conv.params import LAYOUTS
from ...popops.reductions.lower import ReduceParams
from ...popops.reductions.lower import lower as lower_reduction
from .field import Window, adaptive_windows, is_whole, whole_field, windows_of
from .kinds import KINDS, PASSES
from .lower import Lies, PoolCall, lower


def _apart(axes: Sequence[int], channels_last: bool) -> tuple[int, int, tuple[int, ...]]:
    """What each axis has, of samples, of channels, of the field."""
    batch, *rest = axes
    channels = rest.pop(-1 if channels_last else 0)
    return batch, channels, tuple(rest)


@dataclass(frozen=True)
class Images:
    """The shape of samples of fields.

    Attributes
    ----------
    batch, channels : int
    field : tuple of int
    channels_last : bool
    """

    batch: int
    channels: int
    field: tuple[int, ...]
    channels_last: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """In the order of the axes."""
        channels = (self.channels,)
        return self.batch, *channels[self.channels_last:], *self.field, *channels[:self.channels_last]

    @property
    def field_axes(self) -> tuple[int, ...]:
        """Which axes the field has."""
        return _apart(range(len(self.shape)), self.channels_last)[2]

    def of(self, windows: Sequence[Window]) -> Images:
        """The shape of what windows come to."""
        return Images(self.batch, self.channels, tuple(w.outputs for w in windows), self.channels_last)

    def lies(self, dtype: Format | None, exponent: int, strides: Sequence[int]) -> Lies:
        """How an operand of the shape lies, given its strides in elements."""
        return Lies(dtype, exponent, *_apart(strides, self.channels_last))

    def in_c_order(self, dtype: Format | None, exponent: int = 0) -> Lies:
        """How one in C order lies."""
        shape = self.shape
        return self.lies(dtype, exponent, contiguous_strides(shape, 1))

    @property
    def elements(self) -> int:
        """Of a field."""
        return prod(self.field)

    @property
    def by_channel(self) -> bool:
        """Whether lanes are channels."""
        return self.channels_last and self.channels > 1


def images(name: str, shape: Any, layout: str) -> Images:
    """Return what a shape stands for, checked.

    Parameters
    ----------
    name : str
        What the caller calls it.
    shape : sequence of int
    layout : str
    """
    one_of("layout", layout, LAYOUTS)
    kind = "[N, C, ...]" if layout == "NCHW" else "[N, ..., C]"
    check_shape(name, shape, len(shape) >= 3, f"{kind} with one dimension of the field or more")
    return Images(*_apart(shape, layout == "NHWC"), layout == "NHWC")


def windows_asked(field: tuple[int, ...], kernel: Any, output_size: Any, **how: Any) -> tuple[Window, ...]:
    """Return the windows that a call asks for: by a kernel, by how many there are, or one of the whole field."""
    if output_size is not None and kernel is not None:
        raise bad_argument("output_size", output_size, "None where a kernel is given")
    if kernel is not None:
        return windows_of(field, kernel, **how)
    for name, default in (("stride", None), ("padding", 0), ("dilation", 1), ("ceil_mode", False)):
        value = how[name].item() if isinstance(how[name], (np.integer, np.bool_)) else how[name]
        if type(value) is not type(default) or value != default:
            raise bad_argument(name, value, "its default without a kernel")
    return whole_field(field) if output_size is None else adaptive_windows(field, output_size)


def _readable(x: Operand, shape: Images) -> tuple[Operand, Lies]:
    """An operand as kernels read it, and how it lies: its lanes one after another."""
    array, bytes_each = x.array, x.array.itemsize
    inner = -1 if shape.by_channel or not shape.channels_last else -2
    strides = [0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True)]
    if (strides[inner] not in (0, bytes_each) or (array.shape[inner] > 1 and not strides[inner])
            or any(s % bytes_each for s in strides) or not array.flags.aligned):
        return _in_c_order(x, shape)
    strides[inner] = bytes_each
    return x, shape.lies(x.format, x.scale, [s // bytes_each for s in strides])


def _in_c_order(x: Operand, shape: Images) -> tuple[Operand, Lies]:
    return x.in_c_order(), shape.in_c_order(x.format, x.scale)


def request(call: PoolCall, operands: tuple[Any, ...], to: Receiver | Results, **more: Any) -> Request:
    """Describe a call of a program of the pool family."""
    if not alone(to).receiver.array.size:
        return Request.to(to, None, (), lambda: (str(call), "none", None), **more)
    program = lower(call, settings.num_threads)
    return Request.to(to, program.executable, operands, program.told, **more)


def pooled(kind: str, op: str, shape: Images, windows: tuple[Window, ...], include: bool, operands: Sequence[Operand],
           to: Receiver | Results, placed: Placed[Any] | None = None, *, form: Format | None = None,
           scaled: bool = False) -> Request:
    """Describe a pooling or a gradient of one.

    Parameters
    ----------
    kind, op, scaled
        As `PoolCall` has them.
    shape : Images
        Of the field.
    windows : tuple of Window
    include : bool
        Whether averages count padding.
    operands : sequence of Operand
        What is read: fields of a pooling, else gradients, fields, maxima.
    to : Receiver or Results
    placed : Placed, optional
        As a `Request` has it.
    form : Format, optional
        Of the result, where it is the first of several.
    """
    outputs, own, receiver = shape.of(windows), PASSES[kind], alone(to).receiver
    if own.whole and is_whole(windows) and shape.elements:
        if own.whole == "reduction":
            return _reduced(op, shape, operands[0], receiver, placed)
        kind, own = own.whole, PASSES[own.whole]
    if own.strided:
        laid = [_readable(operands[0], shape if own.forward else outputs)]
    else:
        laid = [_in_c_order(x, shape if i == 1 else outputs) for i, x in enumerate(operands)]
    made = (outputs if own.forward else shape).in_c_order(form or receiver.format, receiver.scale)
    call = PoolCall(kind, op, shape.batch, shape.channels, windows, include, shape.by_channel,
                    (*(lies for _, lies in laid), made), scaled)
    return request(call, tuple(x for x, _ in laid), to, placed=placed)


def _reduced(op: str, shape: Images, x: Operand, receiver: Receiver, placed: Placed[Any] | None) -> Request:
    """A window that is the whole field is a reduction."""
    kind = KINDS[op]
    params = ReduceParams(kind.reduction, x.format, x.scale, x.shape, x.array.strides, shape.field_axes,
                          receiver.format, receiver.scale, 1 / shape.elements if kind.divides else 1.0, False)
    program = lower_reduction(params, settings.num_threads)
    return Request(program.executable, (x, RESULT), receiver, program.told, placed=placed)


def places_of(indices: Any, shape: tuple[int, ...]) -> Operand:
    """Take places of the elements that gradients of this shape go to."""
    places = whole_operand("indices", indices)
    check_shape("indices", places, places.shape == shape, f"shape {shape}, that of `grad`")
    return places


def checked_places(places: Array, elements: int | None) -> Array:
    """Return places as int64 in C order, each within a field of so many elements or -1, or any place at all, or raise.

    Those that were looked at may be the caller's: kernels look at each once more.
    """
    array = places if places.itemsize >= 4 else places.astype(np.int64)
    if elements is not None:
        unsigned = array.view(array.dtype.str.replace("i", "u"))  # where -1 and what is less are the greatest: one pass
        if array.size and int(unsigned.max()) >= elements and (
                int(array.max()) >= elements or (array.dtype.kind == "i" and int(array.min()) < -1)):
            raise bad_argument("indices", f"places from {array.min()} to {array.max()}", f"from -1 to {elements - 1}")
    return np.ascontiguousarray(array, np.int64)


def to_places(shape: Images, due: Images, windows: tuple[Window, ...] | None, grad: Operand, places: Operand,
              receiver: Receiver) -> Request:
    """Describe a gradient that goes to places: `shape` is that of the field, `due` that of `grad` and the places."""
    kind, elements = ("place_gradient", shape.elements) if windows is None else ("window_gradient", None)
    windows = windows or tuple(Window(n, m, 0) for n, m in zip(shape.field, due.field, strict=True))
    source, lies = _in_c_order(grad, due)
    call = PoolCall(kind, "max", shape.batch, shape.channels, windows, False, shape.by_channel,
                    (lies, due.in_c_order(None), shape.in_c_order(receiver.format, receiver.scale)))
    made = request(call, (source, places.in_c_order()), receiver)
    if elements is None and places.array.dtype == np.int64:
        return made
    program = made.program

    def run(numbers: Array, given: Array, result: Array) -> None:
        checked = checked_places(given, elements)
        if program is not None:
            program(numbers, checked, result)

    return made.with_(program=run, operands=(source, places, RESULT), checks=True)
