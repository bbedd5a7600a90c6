"""What a convolution on this CPU is: PopLibs' params, and how the arrays lie. No sizes of any machine."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...formats import Format
from ..convolution import ConvParams
from ..gemm.params import MatrixLayout

__all__ = ["ConvCall", "FieldLayout"]


@dataclass(frozen=True)
class FieldLayout:
    """How an array of images, or of kernels, lies: bytes from an element to the next along each axis.

    Attributes
    ----------
    format : Format
    row : int
        From an image to the next; of kernels, from an output channel to the next.
    group, channel : int
        From a convolution group, from a channel of a group to the next.
    field : tuple of int
        Along each field dimension.
    offset : int
        To the first element, from where the array begins.
    aligned : bool
        Whether every element's address is a multiple of its size.
    scale : int
        Exponent s of the scale 2^s that all elements have.
    """

    format: Format
    row: int
    group: int
    channel: int
    field: tuple[int, ...]
    offset: int = 0
    aligned: bool = True
    scale: int = 0

    @property
    def exchanged(self) -> FieldLayout:
        """The same memory with rows and channels exchanged."""
        return replace(self, row=self.channel, channel=self.row)

    def flipped(self, extents: tuple[int, ...]) -> FieldLayout:
        """The same memory read backwards in every field dimension."""
        last = sum((extent - 1) * stride for extent, stride in zip(extents, self.field, strict=True))
        return replace(self, offset=self.offset + last, field=tuple(-stride for stride in self.field))


@dataclass(frozen=True)
class ConvCall:
    """A convolution of arrays: one pass.

    Attributes
    ----------
    params : ConvParams
        Sizes and transforms; its data types say nothing.
    x, weights, out : FieldLayout
        How images, kernels and results lie.
    bias : MatrixLayout or None
        How a bias lies: `batch` holds bytes from a group to the next, `column` from a channel to the next.
    """

    params: ConvParams
    x: FieldLayout
    weights: FieldLayout
    out: FieldLayout
    bias: MatrixLayout | None = None

    @classmethod
    def input_gradient(cls, params: ConvParams, deltas: FieldLayout, weights: FieldLayout, out: FieldLayout) -> ConvCall:
        """The backward pass of a convolution of these params: deltas convolved with the transposed, flipped weights."""
        turned = weights.exchanged.flipped(params.kernel_shape)
        return cls(params.gradient(), deltas, turned, out)

    @classmethod
    def weight_gradient(cls, params: ConvParams, deltas: FieldLayout, x: FieldLayout, out: FieldLayout) -> ConvCall:
        """The weight update pass: images convolved with the deltas, over the batch as channels; `out` lies as weights."""
        return cls(params.weight_update(), x.exchanged, deltas.exchanged, out.exchanged)
