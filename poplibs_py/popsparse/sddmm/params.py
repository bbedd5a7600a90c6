"""What there is to know of a sampled product: shapes, formats, how its operands lie. The pattern is no part of it."""

from __future__ import annotations

from dataclasses import dataclass

from ...formats import Format, format_of
from ...ops import check_fields, unchanged
from ..operands import DenseLayout, Form, check_form, laid_out
from ..pattern import as_block_shape, as_extent, as_shape


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
    form : Form
        How callers have dY and X.
    swapped : bool
        Whether callers have X and dY in each other's place, as their matrix is the transpose of what is stored.
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
    form: Form = "plain"
    swapped: bool = False

    @property
    def multiplications(self) -> int:
        """About how many there are."""
        return self.blocks * self.block_shape[0] * self.block_shape[1] * self.columns


def contiguous_params(shape: tuple[int, int], block_shape: tuple[int, int], groups: int, columns: int, blocks: int,
                      y_dtype: Format, x_dtype: Format, to_dtype: Format, form: Form, swapped: bool) -> SddmmParams:
    """Return the parameters of a product of C-contiguous operands."""
    y, x = (laid_out(form, groups, extent, columns, fmt)
            for extent, fmt in zip(shape, (y_dtype, x_dtype), strict=True))
    return SddmmParams(shape, block_shape, groups, columns, blocks, y, x, to_dtype.name, 0, form, swapped)


def checked_params(p: SddmmParams) -> SddmmParams:
    """Return parameters if `contiguous_params` makes them, or raise: kernels follow them blindly."""
    check_fields(p)
    groups, columns, blocks = (as_extent(f"plan.params.{name}", getattr(p, name), least)
                               for name, least in (("groups", 1), ("columns", 0), ("blocks", 0)))
    return unchanged(p, lambda: contiguous_params(
        as_shape(p.shape, groups), as_block_shape(p.block_shape), groups, columns, blocks, format_of(p.y.format),
        format_of(p.x.format), format_of(p.to_format), check_form("plan.params.form", p.form), p.swapped))
