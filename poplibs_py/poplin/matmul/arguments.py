"""From what a caller passes to params: arrays checked, formats and strides read, nothing computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type, one_of, real
from ...formats import FORMATS, FP16, FP32, Format, QuarterArray, format_of
from ...formats.arrays import as_array
from ...program import overlaps_itself
from .options import ACTIVATIONS
from .params import MatmulParams, Operand, Scales
from .plan import Epilogue

__all__ = [
    "Array",
    "Call",
    "Given",
    "check_size",
    "contiguous",
    "default_out_format",
    "epilogue_of",
    "given",
    "read_call",
    "receiver",
    "taken",
]

Array = np.ndarray[Any, Any]
_ALLOWED = "an array of " + ", ".join(f.name for f in FORMATS)


@dataclass(frozen=True)
class Call:
    """A call made ready: what it computes, the shape and format of its result, and which axes were added."""

    params: MatmulParams
    shape: tuple[int, ...]
    format: Format
    vectors: tuple[bool, bool]  # whether a, b came as vectors


@dataclass(frozen=True, eq=False)
class Given:
    """An operand as a caller gave it: codes, their format, and the scales of a `QuarterArray`."""

    array: Array
    format: Format
    scale: int = 0
    scales: Array | None = None
    block_shape: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return tuple(self.array.shape)

    def matrix(self, name: str, row: bool) -> Given:
        """Return it with at least two axes: a vector becomes a row, or a column."""
        if self.array.ndim == 0:
            raise bad_argument(name, "a scalar", "at least one dimension")
        if self.array.ndim > 30:
            raise bad_argument(name, f"{self.array.ndim} dimensions", "at most 30")
        if self.array.ndim > 1:
            return self
        index = (None, slice(None)) if row else (slice(None), None)
        blocks = (1, *self.block_shape) if row else (*self.block_shape, 1)
        scales = None if self.scales is None else self.scales[index]
        return Given(self.array[index], self.format, self.scale, scales, blocks if self.block_shape else ())

    def operand(self, batch: tuple[int, ...]) -> Operand:
        """Return how it lies, broadcast to the batch axes of a product."""
        strides = self.array.strides
        if self.array.shape[:-2] != batch:
            strides = np.broadcast_to(self.array, batch + self.array.shape[-2:]).strides
        scales = None
        if self.scales is not None:
            # one exponent per batch entry, or per block of entries: spread, so that strides can say which
            held = self.scales
            spread = np.broadcast_to(held, batch + held.shape[-2:])
            scales = Scales(
                spread.strides[-2], spread.strides[-1], self.block_shape[-2], self.block_shape[-1], spread.strides[:-2]
            )
        return Operand(
            self.format, strides[-2], strides[-1], strides[:-2], self.array.flags.aligned, self.scale, scales
        )


def given(value: object, name: str) -> Given:
    """Take an operand: an array, or a `QuarterArray` with its scales."""
    if not isinstance(value, QuarterArray):
        array = taken(value, name)
        return Given(array, format_of(array))
    uniform = value.uniform_scale()
    if uniform is not None:
        return Given(value.codes, value.format, uniform)
    assert value.block_shape is not None
    scales = np.asarray(value.scale)
    for axis, extent in enumerate(value.block_shape[:-2]):
        if extent != 1:
            scales = np.repeat(scales, extent, axis=axis).take(range(value.shape[axis]), axis=axis)
    return Given(value.codes, value.format, 0, scales, value.block_shape)


def receiver(value: object, name: str) -> Given:
    """Take what receives a result: an array, or a `QuarterArray` with one scale."""
    if isinstance(value, QuarterArray):
        scale = value.uniform_scale()
        if scale is None:
            raise bad_argument(name, f"a QuarterArray with scales of blocks {value.block_shape}", "one with one scale")
        return Given(value.codes, value.format, scale)
    if not isinstance(value, np.ndarray):
        raise bad_type(name, type(value).__name__, "a numpy.ndarray or a QuarterArray")
    array = taken(value, name)
    return Given(array, format_of(array))


def taken(value: object, name: str) -> Array:
    """Return `value` as an array of a known format; what cannot be taken is refused by name."""
    found = as_array(name, value, _ALLOWED, np.float32)
    if not any(f.dtype == found.dtype for f in FORMATS):
        raise bad_type(name, f"dtype {found.dtype}", _ALLOWED)
    if not found.dtype.isnative:
        raise bad_type(name, f"dtype {found.dtype.str}", "the machine's own byte order")
    return found


def default_out_format(a: Format, b: Format) -> Format:
    """Return the result's format where none is asked for.

    FP32 where either operand is FP32 or one is FP16 and the other BF16; else FP16 or BF16, whichever is there; FP16 for
    two FP8 operands, as PopLibs has it.
    """
    wide = {f for f in (a, b) if f.bits > 8}
    if len(wide) == 2 or FP32 in wide:
        return FP32
    return next(iter(wide)) if wide else FP16


def epilogue_of(alpha: Any, beta: Any, activation: Any) -> Epilogue:
    """Check the epilogue's arguments."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        real(name, value, "a finite FP32 number", -FP32.max, FP32.max)
    one_of("activation", activation, ACTIVATIONS)
    return Epilogue(float(np.float32(alpha)), float(np.float32(beta)), activation)


def read_call(
    a: Given, b: Given, out: Given | None, out_dtype: object, bias: Array | None, out_name: str = "out"
) -> Call:
    """Check shapes and formats together, and describe the product; `out_name` is what the caller calls `out`."""
    left, right = a.matrix("a", True), b.matrix("b", False)
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    if right.shape[-2] != k:
        raise bad_argument("b", f"shape {b.shape} with {right.shape[-2]} rows", f"as many rows as a has columns, {k}")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise bad_argument("b", f"batch shape {right.shape[:-2]}", f"what broadcasts with {left.shape[:-2]}") from None
    vectors = a.array.ndim == 1, b.array.ndim == 1
    shape = batch + (() if vectors[0] else (m,)) + (() if vectors[1] else (n,))
    fmt = _out_format(a, b, out, out_dtype, out_name)
    if out is None:
        target = contiguous(fmt, m, n, batch)
    else:
        _check_out(out.array, shape, out_name)
        target = Given(_with_axes(out.array, vectors), fmt, out.scale).operand(batch)
    params = MatmulParams(m, n, k, left.operand(batch), right.operand(batch), target, batch)
    if bias is not None:
        params = _with_bias(params, bias)
    check_size(params, a.shape, b.shape)
    return Call(params, shape, fmt, vectors)


def check_size(p: MatmulParams, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    """Raise where offsets, or the count of what is done, would pass 64 bits."""
    largest = p.entries * max(p.m * p.n, p.m * p.k, p.k * p.n)
    if p.flops > 1 << 62 or largest > 1 << 58:
        raise bad_argument("a", f"shape {a_shape} with b {b_shape}", "a product that fits in memory")


def _with_axes(out: Array, vectors: tuple[bool, bool]) -> Array:
    if vectors[1]:
        out = out[..., None]
    return out[..., None, :] if vectors[0] else out


def contiguous(f: Format, rows: int, cols: int, batch: tuple[int, ...]) -> Operand:
    """Return how a C-contiguous array lies."""
    strides, step = [], rows * cols * f.itemsize
    for extent in reversed(batch):
        strides.append(step)
        step *= extent
    return Operand(f, cols * f.itemsize, f.itemsize, tuple(reversed(strides)))


def _out_format(a: Given, b: Given, out: Given | None, out_dtype: object, out_name: str) -> Format:
    if out is not None:
        if out_dtype is not None and format_of(out_dtype, "out_dtype") != out.format:
            raise bad_argument(out_name, f"dtype {out.format}", f"out_dtype, which is {out_dtype}")
        return out.format
    if out_dtype is None:
        return default_out_format(a.format, b.format)
    return format_of(out_dtype, "out_dtype")


def _check_out(out: Array, shape: tuple[int, ...], name: str) -> None:
    if out.shape != shape:
        raise bad_argument(name, f"shape {out.shape}", f"shape {shape}")
    if not out.flags.writeable:
        raise bad_argument(name, "a read-only array", "a writeable array")
    if overlaps_itself(out):
        raise bad_argument(name, "an array whose elements share memory", "one element to each place")


def _with_bias(p: MatmulParams, bias: Array) -> MatmulParams:
    """Add a bias per column (shape [n], [..., 1, n]) or per row ([..., m, 1])."""
    shape = bias.shape if bias.ndim > 1 else (1, *bias.shape)
    per_row = bias.ndim > 1 and shape[-2:] == (p.m, 1) != (1, p.n)
    fits = bias.ndim >= 1 and shape[-2:] == ((p.m, 1) if per_row else (1, p.n))
    try:
        spread = (
            np.broadcast_to(bias.reshape(shape) if bias.ndim == 1 else bias, p.batch + shape[-2:]) if fits else None
        )
    except ValueError:
        spread = None
    if spread is None:
        raise bad_argument("bias", f"shape {bias.shape}", f"shape ({p.n},), (..., 1, {p.n}) or (..., {p.m}, 1)")
    step = spread.strides[-2] if per_row else spread.strides[-1]
    return MatmulParams(p.m, p.n, p.k, p.a, p.b, p.out, p.batch, format_of(bias), step, spread.strides[:-2], per_row)
