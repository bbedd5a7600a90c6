"""Biases of convolutions: added to images, and updated by the gradient: products without a plan of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import bad_type
from ..formats import FP32
from ..ops import RESULT, Operand, Request, one_scale_operand, op, operand, own_numbers, receive, target_of
from ..target import TargetLike
from .conv.params import Described, FieldLayout, images_of, take_bias
from .gemm.field import Field, FieldDim
from .gemm.lower import lower
from .gemm.options import GemmOptions
from .gemm.params import GemmParams, MatrixLayout
from .gemm.plan import Epilogue
from .gemm.search import plan_gemm

_ONE = np.ones(1, np.float32)


@op("poplin::addBias", bound="poplin.conv.bound", draws="testing.conv_calls", written="acts",
    lacks="alone: it is part of a convolution")
def add_bias(acts: Any, bias: Any, *, layout: str = "NCHW", target: TargetLike = None) -> Any:
    """Add a bias to each channel, in place.

    Corresponds to PopLibs' ``poplin::addBias``. `convolution` adds one on the way, without another pass.

    Parameters
    ----------
    acts : array or QuarterArray [N, C, field...]
        Read, and overwritten with the result in its own format.
    bias : array_like [C]
    layout : {"NCHW", "NHWC"}, optional
        Order of the axes.

    Returns
    -------
    numpy.ndarray
        `acts`.

    Notes
    -----
    Each sum is rounded to FP32, then once to the format.

    Examples
    --------
    >>> poplin.add_bias(np.zeros((1, 2, 3), np.float32), [1, 2])
    array([[[1., 1., 1.],
            [2., 2., 2.]]], dtype=float32)
    """
    how = Described.of(layout=layout)
    if acts is None:
        raise bad_type("acts", "None", "an array or a QuarterArray, which receives the result")
    _, _, channels, _ = images_of(operand("acts", acts), "acts", how, 1)
    added = take_bias(bias, channels)
    receiver = receive("acts", acts, None, None, FP32, reads=True)
    lies, batch, _, field = images_of(receiver, "acts", how, 1)
    params = _bias_sum(lies, batch, channels, field, added)
    made = lower(plan_gemm(params, GemmOptions(), Epilogue(1.0, 1.0), target_of(target)))
    return Request(made.executable, made.arrange(added, added, RESULT, added), receiver, made.told)


@op("poplin::convolutionBiasUpdate", bound="poplin.conv.bound",
    draws="testing.conv_calls", written="bias", numbers=("scale",), lacks="in any form")
def convolution_bias_update(deltas: Any, bias: Any, scale: float, *, layout: str = "NCHW",
                            target: TargetLike = None) -> Any:
    """Update a bias in place by its gradient: ``bias += scale * deltas.sum(over images and field)``.

    Corresponds to PopLibs' ``poplin::convolutionBiasUpdate``.

    Parameters
    ----------
    deltas : array_like [N, C, field...]
        Gradient of the convolution's result.
    bias : array [C]
        Read, and overwritten with the result in its own format.
    scale : float
        Multiplies the gradient: minus the learning rate.
    layout : {"NCHW", "NHWC"}, optional
        Order of the axes of `deltas`.

    Returns
    -------
    numpy.ndarray
        `bias`.

    Notes
    -----
    Sums are FP32 in any order, as those of `matmul`; ``scale * sum`` is rounded to FP32, then ``bias + scale * sum``,
    and the result once to its format.

    Examples
    --------
    >>> poplin.convolution_bias_update(np.ones((2, 1, 5), np.float32), np.ones(1, np.float32), -0.5)
    array([-4.], dtype=float32)
    """
    how = Described.of(layout=layout)
    given = one_scale_operand("deltas", deltas)
    lies, batch, channels, field = images_of(given, "deltas", how, 1)
    if bias is None:
        raise bad_type("bias", "None", "an array, which receives the result")
    receiver = receive("bias", bias, (channels,), None, FP32, reads=True)
    params = _channel_sums(lies, batch, channels, field, receiver)
    own, values = own_numbers(scale)
    made = lower(plan_gemm(params, GemmOptions(), Epilogue.of(scale, 1.0, None, "scale").own(*own), target_of(target)))
    return Request(made.executable, made.arrange(_ONE, given, RESULT), receiver, made.told, values)


def _channel_sums(deltas: FieldLayout, batch: int, channels: int, field: tuple[int, ...], out: Operand) -> GemmParams:
    """Sums over images and their field as a product: a row of ones, with a column for each channel."""
    extents = (batch, deltas.row), *zip(field, deltas.field, strict=True)
    taps = tuple(FieldDim.depth(n, stride) for n, stride in extents if n != 1)
    gathered = Field((*taps, FieldDim.rows(channels, deltas.channel)), 1, 0)
    b = MatrixLayout(deltas.format, 0, deltas.channel, (), deltas.aligned, deltas.scale, field=gathered)
    line = MatrixLayout(out.format, 0, out.array.strides[0], (), out.array.flags.aligned)
    return GemmParams(1, channels, batch * math.prod(field), MatrixLayout(FP32, 0, 0), b, line)


def _bias_sum(acts: FieldLayout, batch: int, channels: int, field: tuple[int, ...], bias: Operand) -> GemmParams:
    """The addition of a bias to images as a product of no depth."""
    axes = (batch, acts.row), *zip(field, acts.field, strict=True)
    out = MatrixLayout.of_results(acts, axes, acts.channel)
    unread = MatrixLayout(bias.format, 0, 0)
    return GemmParams(batch * math.prod(field), channels, 0, unread, unread, out,
                      bias=MatrixLayout(bias.format, 0, bias.array.strides[0]))
