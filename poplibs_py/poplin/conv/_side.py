"""Operands of convolutions with few channels in a group, as they are decoded to scratch, and what all drivers share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...formats import FP32, Array, Format

LANES = 16
"""Sums that the kernel has side by side, at every instruction-set level."""

LINE = 64
"""Numbers that are decoded at once."""

ROOM = 4 * LANES * LINE + 4 * LINE
"""Bytes in which lines of all lanes are turned, and codes beside them."""


class Side(NamedTuple):
    """An operand that is decoded to scratch: of each element, `inner` numbers of each group.

    Attributes
    ----------
    format, scale
        Of its numbers.
    group, inner_step, inner
        Bytes from a group, from one of its numbers to the next, and how many.
    padded
        Numbers of a group in scratch.
    together
        Groups of a block.
    compute
        What numbers are decoded to.
    joined
        How many of the format are one number here: two in words of BF16.
    as_they_lie
        Whether a block's numbers stay in their order.
    """

    format: Format
    scale: int
    group: int
    inner_step: int
    inner: int
    padded: int
    together: int
    compute: Format = FP32
    joined: int = 1
    as_they_lie: bool = False

    @property
    def item(self) -> int:
        """Bytes of a number where it lies."""
        return self.format.itemsize * self.joined

    @property
    def cell(self) -> int:
        """Bytes of a number in scratch."""
        return self.compute.itemsize * self.joined

    @property
    def ordered(self) -> bool:
        """Whether the numbers of a block change places in scratch: groups run fastest there."""
        return self.inner > 1 and self.together > 1 and not self.as_they_lie

    @property
    def in_line(self) -> bool:
        """Whether an element's numbers lie one after another, so that they are decoded in one go."""
        along = (self.inner == 1 or self.inner_step == self.item) and self.group == self.inner * self.item
        return along and self.padded == self.inner and (not self.ordered or self.inner * self.together <= 2 * LANES)

    def pitch(self, blocks: int) -> int:
        """Bytes of an element of so many blocks, and room for what a transposed line has beyond them.

        Where a line is all, elements lie one after another, and each overwrites what the one before left beyond itself.
        Those that sums over taps read again and again are a line of the cache further apart, in all of its sets.
        """
        numbers = blocks * self.padded * self.together
        apart = self.ordered or (self.as_they_lie and self.joined == 1) or not self.in_line
        return self.cell * numbers + (64 if numbers > LANES and apart else 0)


def by_columns(rows: int, columns: int) -> Array:
    """Return where each number of a matrix, column by column, is when it lies row by row; whole vectors of them."""
    order = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns).T.ravel()
    return np.concatenate([order, np.zeros(-len(order) % LANES, np.int32)])
