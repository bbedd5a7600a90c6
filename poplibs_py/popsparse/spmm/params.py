"""What there is to know of a sparse product: shapes, formats and how its operands lie. The pattern is no part of it."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import bad_argument
from ...formats import FORMATS, FP32, Format, format_of
from ...kernels.records import FORMAT_NUMBERS
from ...ops import check_fields, unchanged
from ..operands import DenseLayout, Form, check_activation, check_form, laid_out
from ..pattern import as_block_shape, as_extent, as_shape
from ..values import SCALE_LIMITS

Forms = tuple[Form, Form, Form]
"""How callers have W, X and Y, of which op(W) X is the product."""

PLAIN: Forms = ("plain", "plain", "plain")
SWAPPED: Forms = ("swapped", "swapped", "swapped")
FORWARD: Forms = ("plain", "layer", "layer")
BACKWARD: Forms = ("swapped", "layer", "layer")

_ITEMSIZES = {f.name: f.itemsize for f in FORMATS}


def itemsize_of(name: str) -> int:
    """Return the bytes of an element of a format that has a dtype."""
    return _ITEMSIZES[name]


@dataclass(frozen=True)
class BiasLayout:
    """A bias: its format, and bytes between groups and between numbers."""

    format: str
    group: int
    step: int
    aligned: bool = True

    @property
    def plain(self) -> bool:
        """Whether the epilogue reads it as it lies."""
        return self.format == "float32" and self.step == FP32.itemsize and self.aligned


@dataclass(frozen=True)
class SpmmParams:
    """Everything about ``Y = epilogue(op(W) X)`` that its plan depends on.

    Attributes
    ----------
    shape : (int, int)
        Rows and columns of op(W), in elements.
    block_shape : (int, int)
        Rows and columns of a block of W as it is stored.
    groups, columns : int
        Products side by side; columns of X and Y.
    blocks : int
        Stored blocks, rounded up as `pattern.room_for` does.
    room : int
        The most blocks that there may be.
    transposed : bool
        Whether op(W) is the transpose of what is stored.
    w_format : str
    w_scale : int or None
        Exponent of the scale of W; None where each block has its own.
    x, y : DenseLayout
    bias : BiasLayout or None
        Of the numbers to add, one for each row.
    activation : str or None
    prepared : str or None
        The compute format that W's values are in already.
    forms : (Form, Form, Form)
        How callers have W, X and Y.
    """

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    groups: int
    columns: int
    blocks: int
    room: int
    transposed: bool
    w_format: str
    w_scale: int | None
    x: DenseLayout
    y: DenseLayout
    bias: BiasLayout | None = None
    activation: str | None = None
    prepared: str | None = None
    forms: Forms = PLAIN

    @property
    def multiplications(self) -> int:
        """About how many there are."""
        return self.blocks * self.block_shape[0] * self.block_shape[1] * self.columns


def contiguous_params(shape: tuple[int, int], block_shape: tuple[int, int], groups: int, columns: int, room: int,
                      transposed: bool, w_dtype: str, w_scale: int | None, x_dtype: Format, y_dtype: Format,
                      bias: bool, activation: str | None, forms: Forms) -> SpmmParams:
    """Return the parameters of a product of C-contiguous dense operands, and of FP32 for a bias."""
    x, y = (laid_out(form, groups, extent, columns, fmt)
            for form, extent, fmt in zip(forms[1:], shape[::-1], (x_dtype, y_dtype), strict=True))
    added = BiasLayout("float32", 4 * shape[0] if groups > 1 else 0, 4) if bias else None
    return SpmmParams(shape, block_shape, groups, columns, room, room, transposed, w_dtype, w_scale, x, y, added,
                      activation, None, forms)


def checked_params(p: SpmmParams) -> SpmmParams:
    """Return parameters if `contiguous_params` makes them, or raise: kernels follow them blindly."""
    check_fields(p)
    if p.w_format not in FORMAT_NUMBERS:
        raise bad_argument("plan.params.w_format", p.w_format, ", ".join(FORMAT_NUMBERS))
    scale = p.w_scale if p.w_scale is None else as_extent("plan.params.w_scale", p.w_scale, *SCALE_LIMITS)
    groups, columns, room = (as_extent(f"plan.params.{name}", getattr(p, name), least)
                             for name, least in (("groups", 1), ("columns", 0), ("room", 0)))
    w_form, x_form, y_form = (check_form("plan.params.forms", form) for form in p.forms)
    return unchanged(p, lambda: contiguous_params(
        as_shape(p.shape, groups), as_block_shape(p.block_shape), groups, columns, room, p.transposed, p.w_format,
        scale, format_of(p.x.format), format_of(p.y.format), p.bias is not None, check_activation(p.activation),
        (w_form, x_form, y_form)))
