"""What a dense product is: shapes, formats and how the operands lie. No sizes of any machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...formats import Format

__all__ = ["MatmulParams", "Operand"]


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
    """

    format: Format
    row: int
    column: int
    batch: tuple[int, ...] = ()
    aligned: bool = True

    @property
    def transposed(self) -> Operand:
        """The same memory with rows and columns exchanged."""
        return Operand(self.format, self.column, self.row, self.batch, self.aligned)


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
        while p.batch and p.b.batch[-1] == 0 and (p.bias is None or p.bias_batch[-1] == 0):
            fits = all(x.batch[-1] == p.m * x.row or p.batch[-1] == 1 for x in (p.a, p.out))
            if not fits:
                break
            a, out = (Operand(x.format, x.row, x.column, x.batch[:-1], x.aligned) for x in (p.a, p.out))
            b = Operand(p.b.format, p.b.row, p.b.column, p.b.batch[:-1], p.b.aligned)
            p = MatmulParams(p.m * p.batch[-1], p.n, p.k, a, b, out, p.batch[:-1], p.bias, p.bias_step,
                             p.bias_batch[:-1])
        return p

    def exchanged(self) -> MatmulParams:
        """Return the transposed product: C' = B' A'. Only without a bias, which belongs to the columns."""
        return MatmulParams(self.n, self.m, self.k, self.b.transposed, self.a.transposed, self.out.transposed, self.batch)
