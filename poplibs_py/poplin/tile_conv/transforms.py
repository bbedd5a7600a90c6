"""Transforms the planner may apply before it splits a convolution across tiles.

The order is fixed: extra dimensions, deferred dilation, swap, expand, flatten into output channels,
flatten, combine groups. Corresponds to PopLibs' ``ConvTransform`` and the ``calculate…Params`` functions.
"""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Any

from ...program import rounded
from .axis import Axis, FieldTransform, OutputTransform
from .params import ConvParams


@dataclasses.dataclass(frozen=True)
class ConvTransform:
    """One level's transforms.

    Parameters
    ----------
    extra_field_dims : int
        Leading dimensions of size 1 added so that there are at least two.
    dilate_post_conv : tuple of int
        Dimensions whose input dilation is deferred until after the convolution.
    swap_operands : bool
        Input and weights exchange roles.
    expand_dims : tuple of int
        Dimensions whose kernel elements become input channels.
    out_chan_flatten_dims : tuple of int
        Dimensions whose outputs become output channels.
    flatten_dims : tuple of int
        Dimensions merged into the last one named: 0 is the batch, d + 1 is field dimension d.
    combine_conv_groups_factor : int
        Groups merged into one, off-diagonal weights zero.
    """

    extra_field_dims: int = 0
    dilate_post_conv: tuple[int, ...] = ()
    swap_operands: bool = False
    expand_dims: tuple[int, ...] = ()
    out_chan_flatten_dims: tuple[int, ...] = ()
    flatten_dims: tuple[int, ...] = ()
    combine_conv_groups_factor: int = 1

    def dims(self) -> frozenset[int]:
        """Field dimensions whose elements this transform moves."""
        flattened = (d - 1 for d in self.flatten_dims if d)
        return frozenset((*self.expand_dims, *self.out_chan_flatten_dims, *flattened))

    def to_dict(self) -> dict[str, Any]:
        """Short names, as the golden plans spell them."""
        return {"extra": self.extra_field_dims, "dilatePost": list(self.dilate_post_conv),
                "swap": int(self.swap_operands), "expand": list(self.expand_dims),
                "ocFlat": list(self.out_chan_flatten_dims), "flat": list(self.flatten_dims),
                "combine": self.combine_conv_groups_factor}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ConvTransform:
        """Read what `to_dict` wrote."""
        return cls(fields["extra"], tuple(fields["dilatePost"]), bool(fields["swap"]), tuple(fields["expand"]),
                   tuple(fields["ocFlat"]), tuple(fields["flat"]), fields["combine"])

    def __str__(self) -> str:
        parts = []
        if self.dilate_post_conv:
            parts.append(f"dilate after {list(self.dilate_post_conv)}")
        if self.swap_operands:
            parts.append("swap operands")
        if self.expand_dims:
            parts.append(f"expand {list(self.expand_dims)}")
        if self.out_chan_flatten_dims:
            parts.append(f"flatten {list(self.out_chan_flatten_dims)} into output channels")
        if self.flatten_dims:
            parts.append(f"flatten {list(self.flatten_dims)}")
        if self.combine_conv_groups_factor > 1:
            parts.append(f"combine {self.combine_conv_groups_factor} groups")
        return ", ".join(parts) or "none"


@dataclasses.dataclass(frozen=True)
class TransformedParams:
    """The stages of a transformed problem that the cost model reads."""

    view: ConvParams  # after the swap
    unpadded: ConvParams  # after every transform
    padded: ConvParams  # groups and channels rounded up to grains


def with_extra_dims(params: ConvParams, count: int) -> ConvParams:
    """`params` with `count` leading dimensions of size 1."""
    return params.derived(axes=(Axis(1, 1),) * count + params.axes) if count else params


def can_defer_dilation(axis: Axis) -> bool:
    """Whether input dilation along `axis` can wait until after the convolution."""
    i, o = axis.input, axis.output
    cut = i.padding_lower or i.padding_upper or o.truncation_lower or o.truncation_upper
    return not cut and o.stride == 1 and axis.transformed_kernel == 1


def defer_dilation(params: ConvParams, dims: tuple[int, ...]) -> ConvParams:
    """`params` without the input dilation and output padding of `dims`."""
    if not dims:
        return params
    axes = list(params.axes)
    for d in dims:
        a = axes[d]
        output = a.output._replace(padding_lower=0, padding_upper=0)
        axes[d] = a._replace(input=a.input._replace(dilation=1), output=output)
    return params.derived(axes=tuple(axes))


def expand_dims(params: ConvParams, dims: tuple[int, ...]) -> ConvParams:
    """Move the kernel elements of `dims` into the input channels."""
    if not dims:
        return params
    axes, channels = list(params.axes), params.in_channels
    for d in dims:
        channels *= axes[d].weights.truncated(axes[d].kernel)
        axes[d] = axes[d].expanded()
    return params.derived(axes=tuple(axes), in_channels=channels)


def flatten_into_out_channels(params: ConvParams, dims: tuple[int, ...]) -> ConvParams:
    """Move the outputs of `dims` into the output channels."""
    if not dims:
        return params
    swapped = params.swapped()
    for d in dims:
        swapped = expand_dims(swapped, (d,))
        axes = list(swapped.axes)
        batch = swapped.batch * axes[d].field
        axes[d] = axes[d]._replace(field=1)
        swapped = swapped.derived(batch=batch, axes=tuple(axes))
    return swapped.swapped()


_NOTHING_BUT_WEIGHTS = (FieldTransform(), OutputTransform())


def flatten(params: ConvParams) -> tuple[ConvParams, tuple[int, ...]]:
    """Merge batch and plain 1x1 dimensions into the innermost of them; also return which."""
    dims = [0] if params.batch > 0 else []
    for d, axis in enumerate(params.axes):
        if axis.transformed_kernel == 1 and (axis.input, axis.output) == _NOTHING_BUT_WEIGHTS:
            dims.append(d + 1)
    if len(dims) < 2:
        return params, ()
    axes = list(params.axes)
    into = dims[-1] - 1
    size = axes[into].field * prod(axes[d - 1].field if d else params.batch for d in dims[:-1])
    for d in dims[:-1]:
        if d:
            axes[d - 1] = axes[d - 1]._replace(field=1)
    axes[into] = axes[into]._replace(field=size)
    batch = 1 if dims[0] == 0 else params.batch
    return params.derived(batch=batch, axes=tuple(axes)), tuple(dims)


def combine_groups(params: ConvParams, factor: int) -> ConvParams:
    """Merge `factor` groups into one."""
    if factor == 1:
        return params
    return params.derived(groups=-(-params.groups // factor), in_channels=params.in_channels * factor,
                          out_channels=params.out_channels * factor)


def pad_channels(params: ConvParams, group: int, in_chan: int, out_chan: int) -> ConvParams:
    """Round groups and channels up to grains."""
    return params.derived(groups=rounded(params.groups, group),
                          in_channels=rounded(params.in_channels, in_chan),
                          out_channels=rounded(params.out_channels, out_chan))



def transformed(params: ConvParams, transform: ConvTransform) -> ConvParams:
    """`params` after every transform of the system level."""
    made = defer_dilation(with_extra_dims(params, transform.extra_field_dims), transform.dilate_post_conv)
    made = expand_dims(made.swapped() if transform.swap_operands else made, transform.expand_dims)
    made = flatten_into_out_channels(made, transform.out_chan_flatten_dims)
    made = flatten(made)[0] if transform.flatten_dims else made
    return combine_groups(made, transform.combine_conv_groups_factor)
