"""What a dense product is: shapes, formats and how the operands lie. No sizes of any machine."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...formats import Format

__all__ = ["MatmulParams", "Operand", "Scales"]


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
        """The same memory with rows and columns exchanged."""
        return Scales(self.column, self.row, self.block_columns, self.block_rows, self.batch)


@dataclass(frozen=True)
class Operand:
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
    """

    format: Format
    row: int
    column: int
    batch: tuple[int, ...] = ()
    aligned: bool = True
    scale: int = 0
    scales: Scales | None = None

    @property
    def plain(self) -> bool:
        """Whether its codes are its values: no scales."""
        return self.scale == 0 and self.scales is None

    @property
    def transposed(self) -> Operand:
        """The same memory with rows and columns exchanged."""
        scales = self.scales and self.scales.transposed
        return replace(self, row=self.column, column=self.row, scales=scales)


@dataclass(frozen=True)
class MatmulParams:
    """A product C[m, n] = A[m, k] B[k, n] for each entry of a batch.

    Corresponds to PopLibs' ``MatMulParams``, with the strides that a host array has.

    Attributes
    ----------
    m, n, k : int
        Rows of A and C, columns of B and C, depth.
    a, b, out : Operand
        How they lie.
    batch : tuple of int
        Entries along each batch axis.
    bias : Format or None
        Format of a bias with one number per column, if there is one.
    bias_step : int
        Bytes between its numbers.
    bias_batch : tuple of int
        Bytes from an entry to the next along each batch axis.
    bias_per_row : bool
        Whether the bias has one number per row in place of one per column.
    """

    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    out: Operand
    batch: tuple[int, ...] = ()
    bias: Format | None = None
    bias_step: int = 0
    bias_batch: tuple[int, ...] = ()
    bias_per_row: bool = False

    @property
    def entries(self) -> int:
        """Products in the batch."""
        return math.prod(self.batch)

    @property
    def flops(self) -> int:
        """Floating-point operations: two for each product."""
        return 2 * self.m * self.n * self.k * self.entries

    def folded(self) -> MatmulParams:
        """Return the same work with batch axes folded into the rows where A and C lie so and B is shared."""
        p = self
        if p.a.scales or p.b.scales:
            return p
        while p.batch and p.b.batch[-1] == 0 and not p.bias_per_row and (p.bias is None or p.bias_batch[-1] == 0):
            step_a, step_out, size = p.a.batch[-1], p.out.batch[-1], p.batch[-1]
            if p.m == 1:  # its row strides mean nothing
                row_a, row_out = step_a, step_out
            elif size == 1 or (step_a == p.m * p.a.row and step_out == p.m * p.out.row):
                row_a, row_out = p.a.row, p.out.row
            else:
                break
            p = replace(
                p,
                m=p.m * size,
                batch=p.batch[:-1],
                bias_batch=p.bias_batch[:-1],
                a=replace(p.a, row=row_a, batch=p.a.batch[:-1]),
                b=replace(p.b, batch=p.b.batch[:-1]),
                out=replace(p.out, row=row_out, batch=p.out.batch[:-1]),
            )
        return p

    def exchanged(self) -> MatmulParams:
        """Return the transposed product, C' = B' A'."""
        return replace(
            self,
            m=self.n,
            n=self.m,
            a=self.b.transposed,
            b=self.a.transposed,
            out=self.out.transposed,
            bias_per_row=self.bias is not None and not self.bias_per_row,
        )
