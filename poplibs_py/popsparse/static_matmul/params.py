"""What a static sparse product is, as PopLibs' planner is told."""

from __future__ import annotations

import dataclasses

from ...checks import check_shape, instance, one_of, whole
from ...errors import bad_argument
from ..pattern import BlockPattern

BLOCKS = (1, 4, 8, 16)
"""Sides of the square blocks that PopLibs has vertices for."""

_MOST_COLUMNS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class StaticParams:
    """A product of a sparse matrix, whose pattern is known, and a dense one. PopLibs' ``static_::MatMulParams``.

    Parameters
    ----------
    pattern : BlockPattern
        Of the sparse operand, (m, k): square blocks of side 1, 4, 8 or 16 that divide it, one group.
    n : int
        Columns of the dense operand, at least 1.
    data_type : str
        Of operands and result: ``"half"`` or ``"float"``.
    """

    pattern: BlockPattern
    n: int
    data_type: str

    def __post_init__(self) -> None:
        instance("pattern", self.pattern, BlockPattern, "a BlockPattern")
        object.__setattr__(self, "n", whole("n", self.n, 1, _MOST_COLUMNS))
        one_of("data_type", self.data_type, ("half", "float"))
        p = self.pattern
        if p.groups != 1:
            raise bad_argument("pattern", f"{p.groups} groups", "one group, as in PopLibs")
        if p.block_shape[0] != p.block_shape[1] or p.block_shape[0] not in BLOCKS:
            raise bad_argument("pattern", f"blocks of {p.block_shape[0]} x {p.block_shape[1]}",
                               "square blocks of side 1, 4, 8 or 16, as in PopLibs")
        check_shape("pattern", p, not p.is_ragged and 0 not in p.shape,
                    f"multiples of the blocks' side, {p.block_shape[0]}")

    @property
    def side(self) -> int:
        """Rows, and columns, of a block."""
        return self.pattern.block_shape[0]

    def __str__(self) -> str:
        m, k = self.pattern.shape
        return (f"[{m}, {k}] x [{k}, {self.n}], {self.pattern.n_blocks} blocks of {self.side} x {self.side}, "
                f"{self.data_type}")
