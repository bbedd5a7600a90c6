"""What there is to know of a softmax: shapes, masks and formats. The pattern is no part of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...checks import whole
from ...errors import bad_argument
from ...formats import FP32, Format
from ...kernels.records import numbers_of
from ...ops import check_fields, unchanged
from ..pattern import BlockPattern, as_block_shape, as_extent, as_shape, room_for
from ..values import SCALE_LIMITS, as_format, as_scale

MASKS = tuple(numbers_of("mask"))
"""PopLibs' ``SubBlockMask``, in the order of the kernels' numbers."""

_OPERANDS = {2: "softmax", 3: "gradient"}  # by how many matrices there are, the result being one


@dataclass(frozen=True)
class SoftmaxParams:
    """Everything about a softmax, or the gradient of one, that its plan depends on.

    Attributes
    ----------
    shape, block_shape : (int, int)
    masks : tuple of str
        One for each group.
    formats : tuple of (Format, int)
        Of the operands, then of the result; each with the exponent of its scale.
    blocks : int
        Stored blocks, rounded up as `pattern.room_for` does.
    row_blocks : int
        Blocks of a row that a thread keeps in FP32 until its sum is known, rounded up; 0 where the result holds them.
    """

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    masks: tuple[str, ...]
    formats: tuple[tuple[Format, int], ...]
    blocks: int
    row_blocks: int

    @classmethod
    def of(cls, p: BlockPattern, masks: tuple[str, ...], formats: tuple[tuple[Format, int], ...]) -> SoftmaxParams:
        """Return the parameters of a softmax, or of a gradient, at a pattern."""
        longest = 0 if len(formats) > 2 or formats[-1][0] is FP32 else p.longest_row
        row_blocks = 1 << (longest - 1).bit_length() if longest else 0
        return cls(p.shape, p.block_shape, masks, formats, room_for(p.n_blocks), row_blocks)

    @property
    def op(self) -> str:
        """What the kernels are called: softmax, or gradient."""
        return _OPERANDS[len(self.formats)]

    @property
    def elements(self) -> int:
        """About how many are stored."""
        return self.blocks * self.block_shape[0] * self.block_shape[1]


def default_scale(dtype: Format) -> int:
    """Return the exponent of a result's scale where none is asked for: the least that holds 1."""
    return -math.floor(math.log2(dtype.max)) if dtype.bits <= 8 else 0


def new_format(default: Format, dtype: object, scale: object) -> tuple[Format, int]:
    """Return the format and the scale of a new result, or raise."""
    target = default if dtype is None else as_format(dtype, name="out_dtype")
    exponent = default_scale(target) if scale is None else whole("scale", scale, *SCALE_LIMITS)
    as_scale(exponent, target, 0)
    return target, exponent


def check_masks(mask: object, groups: int) -> tuple[str, ...]:
    """Return the mask of each group from one or as many, or raise."""
    allowed = ", ".join(map(repr, MASKS)) + ", or one of them for each group"
    masks = (mask,) * groups if isinstance(mask, str) else mask
    if not isinstance(masks, (tuple, list)) or len(masks) != groups or any(
            not isinstance(m, str) or m not in MASKS for m in masks):
        raise bad_argument("mask", mask, allowed)
    return tuple(masks)


def checked_params(p: SoftmaxParams) -> SoftmaxParams:
    """Return parameters if they may be those of a call, or raise: kernels follow them blindly."""
    check_fields(p)
    if len(p.formats) not in _OPERANDS:
        raise bad_argument("plan.params.formats", p.formats, "a format and a scale for each matrix")
    groups = as_extent("plan.params.masks", len(p.masks), 1)
    blocks, row_blocks = (as_extent(f"plan.params.{name}", getattr(p, name), 0) for name in ("blocks", "row_blocks"))
    formats = tuple(new_format(fmt, None, scale) for fmt, scale in p.formats)
    return unchanged(p, lambda: SoftmaxParams(
        as_shape(p.shape, groups), as_block_shape(p.block_shape), check_masks(p.masks, groups), formats, blocks,
        row_blocks))
