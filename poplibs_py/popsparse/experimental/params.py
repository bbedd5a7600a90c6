"""What an experimental block-sparse product is, as PopLibs' ``BSMatMulParams`` says it."""

from __future__ import annotations

import dataclasses

from ...checks import check_shape, flag, instance, one_of, whole
from ...errors import bad_argument
from ..pattern import BlockPattern

GRAIN = {"half": 16, "float": 8}
"""What sides of blocks, and the dense extents of a product, are multiples of."""


@dataclasses.dataclass(frozen=True)
class BsMatmulParams:
    """A dense by a block-sparse matrix, or two dense ones at a pattern. PopLibs' ``BSMatMulParams``.

    Parameters
    ----------
    pattern : BlockPattern, shape (k, n), or (m, n) where the result is sparse
        Square blocks that divide it, of sides that are multiples of 16 (half) or 8 (float).
    extent : int
        m, or k where the result is sparse: such a multiple too.
    data_type : str
        Of operands and result: ``"half"`` or ``"float"``.
    samples : bool
        Whether the result is sparse.
    """

    pattern: BlockPattern
    extent: int
    data_type: str
    samples: bool = False

    def __post_init__(self) -> None:
        instance("pattern", self.pattern, BlockPattern, "a BlockPattern")
        one_of("data_type", self.data_type, ("half", "float"))
        flag("samples", self.samples)
        object.__setattr__(self, "extent", whole("extent", self.extent, 1, 2**31 - 1))
        p, grain = self.pattern, GRAIN[self.data_type]
        if p.block_shape[0] != p.block_shape[1] or p.block_shape[0] % grain:
            raise bad_argument("pattern", f"blocks of {p.block_shape[0]} x {p.block_shape[1]}",
                               f"square blocks, of sides that are multiples of {grain}")
        check_shape("pattern", p, not p.is_ragged and 0 not in p.shape,
                    f"multiples of the blocks' side, {p.block_shape[0]}")
        if self.extent % grain:
            raise bad_argument("extent", self.extent, f"a multiple of {grain}")

    @property
    def side(self) -> int:
        """Rows, and columns, of a block."""
        return self.pattern.block_shape[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, k and n of a group."""
        rows, columns = self.pattern.shape
        return (rows, self.extent, columns) if self.samples else (self.extent, rows, columns)

    def __str__(self) -> str:
        (m, k, n), p = self.shape, self.pattern
        groups = f"{p.groups} x " if p.groups > 1 else ""
        return (f"{groups}[{m}, {k}] x [{k}, {n}], {p.n_blocks} blocks of {self.side} x {self.side} of "
                f"{'the result' if self.samples else 'the second'}, {self.data_type}")
