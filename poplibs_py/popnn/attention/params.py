"""What attention is computed of: extents, masks, and how operands lie."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...formats import BF16, FP32, Format
from ...ops.one_kernel import from_to


class HeadsLayout(NamedTuple):
    """How an operand lies: bytes from a batch, a head and a token to the next.

    Attributes
    ----------
    operand : int
        Which of the program's.
    format : Format or None
        None for truth values.
    width : int
        Elements of a token, one after another.
    batch, head, token : int
    exponent : int
        Of the scale that all elements share.
    written : bool
    """

    operand: int
    format: Format | None
    width: int
    batch: int
    head: int
    token: int
    exponent: int = 0
    written: bool = False

    @property
    def bytes(self) -> int:
        """Of an element."""
        return 1 if self.format is None else int((self.format.dtype or self.format.code_dtype).itemsize)


class AttentionParams(NamedTuple):
    """A call of attention, or of its gradient.

    Attributes
    ----------
    backward : bool
    batch, heads : int
        Heads of keys and values.
    shares : int
        Query heads to each of these.
    queries, keys : int
    scale : float
    causal : bool
    query_offset : int
        The first query's place among the keys.
    block_shape : tuple of int or None
        Of the pattern.
    patterns : int
        1, or one for each query head, or for each of each batch.
    n_blocks : int
        That the patterns have together.
    arrays : int
        That a call passes: where there is a pattern, its offsets and columns are last.
    operands : tuple of (str, HeadsLayout)
        By the names of the fields of the record ``pop_attention``.
    """

    backward: bool
    batch: int
    heads: int
    shares: int
    queries: int
    keys: int
    scale: float
    causal: bool
    query_offset: int
    block_shape: tuple[int, int] | None
    patterns: int
    n_blocks: int
    arrays: int
    operands: tuple[tuple[str, HeadsLayout], ...]

    def lies(self, name: str) -> HeadsLayout | None:
        """Return how an operand lies, or None where there is none."""
        return dict(self.operands).get(name)

    @property
    def widths(self) -> tuple[int, int]:
        """Elements of a query and a key, and of a value."""
        held: dict[str, Any] = dict(self.operands)
        return held["q"].width, held["v"].width

    @property
    def compute_format(self) -> Format:
        """What products are done in where this CPU multiplies BF16: BF16 if all operands are that, else FP32."""
        held: dict[str, Any] = dict(self.operands)
        read = {held[name].format for name in ("q", "k", "v", *(("grad",) if self.backward else ()))}
        return BF16 if read == {BF16} else FP32

    @property
    def scores(self) -> int:
        """Scores that count for any mask: of a pattern those of all its blocks."""
        heads = self.batch * self.heads * self.shares
        if self.block_shape is not None:
            return self.n_blocks * self.block_shape[0] * self.block_shape[1] * (heads // max(1, self.patterns))
        if not self.causal:
            return heads * self.queries * self.keys
        return heads * (self._before(self.query_offset + self.queries) - self._before(self.query_offset))

    def _before(self, place: int) -> int:
        """Causal scores of all queries before a place, the first of which is the first key's."""
        meets = max(0, min(place, self.keys))
        return meets * (meets + 1) // 2 + max(0, place - self.keys) * self.keys

    @property
    def flops(self) -> int:
        """Floating-point operations of the products."""
        d, e = self.widths
        return 2 * self.scores * ((3 * d + 2 * e) if self.backward else d + e)

    def __str__(self) -> str:
        d, e = self.widths
        words = ("gradient of " if self.backward else "") + ("causal " if self.causal else "")
        blocks = "" if self.block_shape is None else f", {self.n_blocks} blocks of {self.block_shape}"
        shared = f" ({self.heads} of keys)" if self.shares > 1 else ""
        formats = from_to(*([x.format for _, x in self.operands if x.written == written] for written in (False, True)))
        return (f"{words}attention [{self.batch}, {self.heads * self.shares}{shared}, {self.queries} x {self.keys}, "
                f"{d if d == e else f'{d}, {e}'}]{blocks}, {formats}")
