"""What there is to know of a sampled product: shapes, formats, how its operands lie. The pattern is no part of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..operands import DenseLayout

__all__ = ["SddmmParams"]


@dataclass(frozen=True)
class SddmmParams:
    """Everything about ``dY X'`` at a pattern that its plan depends on.

    Attributes
    ----------
    shape, block_shape : (int, int)
        Of what is stored.
    groups, columns : int
    blocks : int
        Stored blocks, rounded up as `pattern.room_for` does.
    y, x : DenseLayout
    to_format : str
        Of the result.
    to_scale : int
    """

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    groups: int
    columns: int
    blocks: int
    y: DenseLayout
    x: DenseLayout
    to_format: str
    to_scale: int = 0

    @property
    def multiplications(self) -> int:
        """About how many there are."""
        return self.blocks * self.block_shape[0] * self.block_shape[1] * self.columns
