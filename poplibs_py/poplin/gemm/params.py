"""What a dense product is: shapes, formats and how the operands lie. No sizes of any machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...checks import check_shape
from ...errors import bad_argument
from ...formats import Format
from ...ops import Operand, contiguous_strides
from .field import Field


@dataclass(frozen=True)
class Scales:
    """Where the scale exponents of an operand's blocks lie, where they differ.

    Attributes
    ----------
    row, column : int
        Bytes from a block's exponent to the next block's, down the rows and along the columns.
    block_rows, block_columns : int
        Extent of a block.
    batch : tuple of int
        Bytes from an entry to the next, along each batch axis of the product.
    """

    row: int
    column: int
    block_rows: int
    block_columns: int
    batch: tuple[int, ...] = ()

    @property
    def transposed(self) -> Scales:
        """The same memory with rows and columns swapped."""
        return Scales(self.column, self.row, self.block_columns, self.block_rows, self.batch)


@dataclass(frozen=True)
class MatrixLayout:
    """One matrix operand, or a stack of them.

    Attributes
    ----------
    format : Format
        Of its elements.
    row, column : int
        Bytes from a row, from a column to the next.
    batch : tuple of int
        Bytes from an entry to the next, along each batch axis of the product (0 where it is broadcast).
    aligned : bool
        Whether every element's address is a multiple of its size.
    scale : int
        Exponent s of the scale 2^s that all elements have.
    scales : Scales or None
        Where the exponents are, if blocks have their own.
    field : Field or None
        What it is gathered from, where strides do not say all: positions are the rows of A and C and the columns of B.
        Only `row` and `column` of C are of use then: bytes between neighbours in the innermost dimension, and between
        channels.
    offset : int
        Bytes from the operand's first element to this one's.
    parts : (int, int)
        Of C: columns of a part, and bytes from one part to the next, where these lie apart; else zeros.
    """

    format: Format
    row: int
    column: int
    batch: tuple[int, ...] = ()
    aligned: bool = True
    scale: int = 0
    scales: Scales | None = None
    field: Field | None = None
    offset: int = 0
    parts: tuple[int, int] = (0, 0)

    @classmethod
    def of_field(cls, lie: Any, field: Field, offset: int, batch: tuple[int, ...] = ()) -> MatrixLayout:
        """Return the matrix that a field gathers from an array, of which `lie` has format, alignment and scale."""
        made, more = field.merged()
        row, column = made.lines or (0, 0)
        return cls(lie.format, row, column, batch, lie.aligned, lie.scale, field=None if made.lines else made,
                   offset=offset + more)

    @classmethod
    def of_results(cls, lie: Any, extents: Iterable[tuple[int, int]], column: int, offset: int = 0,
                   batch: tuple[int, ...] = ()) -> MatrixLayout:
        """Return where results go in an array, whose rows lie as `Field.of_results` has them."""
        field = Field.of_results(extents)
        return cls(lie.format, field.dims[-1].out_stride, column, batch, lie.aligned, lie.scale,
                   field=field if len(field.dims) > 1 else None, offset=offset)

    @property
    def plain(self) -> bool:
        """Whether its codes are its values: no scales."""
        return self.scale == 0 and self.scales is None

    @property
    def transposed(self) -> MatrixLayout:
        """The same memory with rows and columns swapped."""
        scales = self.scales and self.scales.transposed
        return replace(self, row=self.column, column=self.row, scales=scales)


@dataclass(frozen=True)
class GemmParams:
    """A product C[m, n] = A[m, k] B[k, n] for each entry of a batch.

    Corresponds to PopLibs' ``MatMulParams``, with the strides that a host array has.

    Attributes
    ----------
    m, n, k : int
        Rows of A and C, columns of B and C, depth.
    a, b, out : MatrixLayout
        How they lie.
    batch : tuple of int
        Entries along each batch axis.
    bias : MatrixLayout or None
        How a bias lies, broadcast to C: bytes from a row to the next are 0, or those from a column to the next.
    """

    m: int
    n: int
    k: int
    a: MatrixLayout
    b: MatrixLayout
    out: MatrixLayout
    batch: tuple[int, ...] = ()
    bias: MatrixLayout | None = None

    @property
    def entries(self) -> int:
        """Products in the batch."""
        return math.prod(self.batch)

    @property
    def bias_per_row(self) -> bool:
        """Whether the bias has one number per row in place of one per column."""
        return self.bias is not None and self.bias.row != 0

    @property
    def flops(self) -> int:
        """Floating-point operations: two for each product."""
        return 2 * self.m * self.n * self.k * self.entries

    @property
    def fields(self) -> bool:
        """Whether an operand or the result is a field's."""
        return any(x.field is not None for x in (self.a, self.b, self.out))

    def folded(self) -> GemmParams:
        """Return the same work with batch axes folded into the rows where A and C lie so and B is shared."""
        p = self
        if p.a.scales or p.b.scales or p.fields:
            return p
        while p.batch and p.b.batch[-1] == 0 and (p.bias is None or (p.bias.row == 0 and p.bias.batch[-1] == 0)):
            step_a, step_out, size = p.a.batch[-1], p.out.batch[-1], p.batch[-1]
            if p.m == 1:  # its row strides mean nothing
                row_a, row_out = step_a, step_out
            elif size == 1 or (step_a == p.m * p.a.row and step_out == p.m * p.out.row):
                row_a, row_out = p.a.row, p.out.row
            else:
                break
            p = replace(p, m=p.m * size, batch=p.batch[:-1], bias=p.bias and replace(p.bias, batch=p.bias.batch[:-1]),
                        a=replace(p.a, row=row_a, batch=p.a.batch[:-1]), b=replace(p.b, batch=p.b.batch[:-1]),
                        out=replace(p.out, row=row_out, batch=p.out.batch[:-1]))
        return p

    def swapped(self) -> GemmParams:
        """Return the transposed product, C' = B' A'."""
        return replace(self, m=self.n, n=self.m, a=self.b.transposed, b=self.a.transposed, out=self.out.transposed,
                       bias=self.bias and self.bias.transposed)


def as_matrix(x: Operand, name: str, row: bool) -> Operand:
    """Return an operand with at least two axes: a vector becomes a row, or a column."""
    if x.array.ndim == 0:
        raise bad_argument(name, "a scalar", "at least one dimension")
    if x.array.ndim > 30:
        raise bad_argument(name, f"{x.array.ndim} dimensions", "at most 30")
    if x.array.ndim > 1:
        return x
    index = (None, slice(None)) if row else (slice(None), None)
    scales = x.scales and x.scales.seen(lambda held: held[index])
    blocks = ((1, *x.block_shape) if row else (*x.block_shape, 1)) if x.block_shape else ()
    return replace(x, array=x.array[index], scales=scales, block_shape=blocks)


def block_scales(x: Operand) -> Operand:
    """Return an operand whose blocks of scales hold one entry of a batch each: strides can say which is whose."""
    if x.scales is None or all(extent == 1 for extent in x.block_shape[:-2]):
        return x
    scales = x.scales.array
    for axis, extent in enumerate(x.block_shape[:-2]):
        if extent != 1:
            scales = np.repeat(scales, extent, axis=axis).take(range(x.shape[axis]), axis=axis)
    return replace(x, scales=Operand(scales, None))


def layout_of(x: Operand, batch: tuple[int, ...] | None = None) -> MatrixLayout:
    """Return how a matrix lies, or a stack of them, broadcast to the batch axes of a product."""
    array, matrix = x.array, x.array.shape[-2:]
    batch = array.shape[:-2] if batch is None else batch
    strides = array.strides if array.shape[:-2] == batch else np.broadcast_to(array, batch + matrix).strides
    scales = None
    if x.scales is not None:
        # one exponent per batch entry, or per block of entries: spread, so that strides can say which
        held = x.scales.array
        spread = np.broadcast_to(held, batch + held.shape[-2:])
        rows, columns = x.block_shape[-2:]
        scales = Scales(spread.strides[-2], spread.strides[-1], rows, columns, spread.strides[:-2])
    return MatrixLayout(x.format, strides[-2], strides[-1], strides[:-2], array.flags.aligned, x.scale, scales)


def contiguous(f: Format, rows: int, cols: int, batch: Sequence[int] = ()) -> MatrixLayout:
    """Return how a C-contiguous array lies."""
    *steps, row, column = contiguous_strides((*batch, rows, cols), f.itemsize)
    return MatrixLayout(f, row, column, tuple(steps))


def shared_by(f: Format, rows: int, cols: int, batch: Sequence[int]) -> MatrixLayout:
    """Return how a contiguous matrix lies that all entries of a batch have."""
    return replace(contiguous(f, rows, cols), batch=(0,) * len(batch))


def result_shape(a: Operand, b: Operand) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, int, int]]:
    """Check shapes together; return the batch axes, the shape of the result, and m, k, n."""
    left, right = as_matrix(a, "a", True), as_matrix(b, "b", False)
    m, k, n = left.shape[-2], left.shape[-1], right.shape[-1]
    if right.shape[-2] != k:
        raise bad_argument("b", f"shape {b.shape} with {right.shape[-2]} rows", f"as many rows as a has columns, {k}")
    try:
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise bad_argument("b", f"batch shape {right.shape[:-2]}", f"what broadcasts with {left.shape[:-2]}") from None
    shape = batch + (() if a.array.ndim == 1 else (m,)) + (() if b.array.ndim == 1 else (n,))
    return batch, shape, (m, k, n)


def params_of(a: Operand, b: Operand, out: Operand, bias: Operand | None, batch: tuple[int, ...],
              sizes: tuple[int, int, int]) -> GemmParams:
    """Describe the product of operands whose shapes fit, given what `result_shape` found."""
    m, k, n = sizes
    result = out.array[..., None] if b.array.ndim == 1 else out.array
    result = result[..., None, :] if a.array.ndim == 1 else result
    p = GemmParams(m, n, k, layout_of(as_matrix(a, "a", True), batch), layout_of(as_matrix(b, "b", False), batch),
                     layout_of(out.seen(lambda _: result), batch), batch)
    if bias is not None:
        p = replace(p, bias=layout_of(spread_bias(bias, batch, m, n)))
    return checked_size(p, a.shape, b.shape)


def checked_size(p: GemmParams, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> GemmParams:
    """Return the product, or raise where offsets, or the count of what is done, would pass 64 bits."""
    largest = p.entries * max(p.m * p.n, p.m * p.k, p.k * p.n)
    if p.flops > 1 << 62 or largest > 1 << 58:
        raise bad_argument("a", f"shape {a_shape} with b {b_shape}", "a product that fits in memory")
    return p


def checked_params(p: GemmParams) -> GemmParams:
    """Return the params of a plan if they are those of C-contiguous arrays, or raise."""
    def refuse(name: str, got: object, allowed: str) -> Exception:
        return bad_argument(f"plan.product{name}", got, allowed)

    if not isinstance(p.batch, tuple) or not all(type(x) is int and x >= 0 for x in (p.m, p.n, p.k, *p.batch)):
        raise refuse("", p.batch, "extents as plan_matmul has them")
    for name, rows, columns in (("a", p.m, p.k), ("b", p.k, p.n), ("out", p.m, p.n)):
        layout = getattr(p, name)
        if not isinstance(layout, MatrixLayout) or not isinstance(layout.format, Format):
            raise refuse(f".{name}", layout, "an operand as plan_matmul has it")
        whole = layout.format, rows, columns, p.batch
        if layout != contiguous(*whole) and (name == "out" or layout != shared_by(*whole)):
            raise refuse(f".{name}", layout, "a C-contiguous operand of the planned extents")
    if p.bias is not None:
        fmt = getattr(p.bias, "format", None)
        if not isinstance(fmt, Format) or p.bias != row_bias(fmt, p.batch):
            raise refuse(".bias", p.bias, "one number for each column, beside each other")
    return p


def row_bias(f: Format, batch: tuple[int, ...]) -> MatrixLayout:
    """Return how a contiguous bias lies, one number for each column, the same for each entry of a batch."""
    return MatrixLayout(f, 0, f.itemsize, (0,) * len(batch))


def spread_bias(bias: Operand, batch: tuple[int, ...], m: int, n: int) -> Operand:
    """Return a bias for each column (shape [n], [..., 1, n]) or row ([..., m, 1]) with the result's shape, or raise.

    Its strides down the rows, or along the columns, are 0.
    """
    array = bias.array if bias.array.ndim != 1 else bias.array[None]
    per_row = array.shape[-2:] == (m, 1) != (1, n)
    allowed = f"shape ({n},), (..., 1, {n}) or (..., {m}, 1)"
    check_shape("bias", bias, array.ndim >= 2 and array.shape[-2:] == ((m, 1) if per_row else (1, n)), allowed)
    line = array[..., 0][..., None] if per_row else array[..., 0, :][..., None, :]  # a new axis has a stride of 0
    try:
        spread = np.broadcast_to(line, (*batch, m, n))
    except ValueError:
        raise bad_argument("bias", f"shape {bias.shape}", f"{allowed} that broadcasts with {batch}") from None
    return bias.seen(lambda _: spread)
