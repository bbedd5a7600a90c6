"""PopNN's spatial softmax: where, in the mean, each map has its weight."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..checks import check_shape, finite, flag
from ..formats import FP32, Array
from ..ops import RESULT, Operand, Request, one_scale_operand, op, receive, result_format, wide_format
from ..ops.parts import Part, results
from ..poplin.product.api import matmul
from ..popops import cast, mul
from ..popops import sum as total
from ..popops.sequence import SequenceBuilder, as_taken
from ..target import TargetLike
from .softmax import softmax, softmax_grad

_LACKS = "over each map by itself"
_LEAST, _MOST = 1e-30, 1e30


class SpatialGradients(NamedTuple):
    """What `spatial_softmax_2d_grad` returns."""

    x_grad: Any
    temperature_grad: Any


def _maps(x: Any) -> Operand:
    read = one_scale_operand("x", x)
    check_shape("x", read, len(read.shape) == 3, "maps [F, H, W]")
    return read


def places(height: int, width: int, dtype: Any = np.float32) -> Array:
    """Return rows and columns of the places of a map, one after another, from -1 to 1."""
    rows, columns = (np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(n) for n in (height, width))
    made = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1)
    return made.reshape(-1, 2).astype(np.float32).astype(dtype)


def in_rows(array: Array) -> Array:
    """Return maps in C order with their places in a row."""
    return array.reshape(array.shape[0], prod(array.shape[1:]))


@op("popnn::spatialSoftMax2D", bound="popnn.spatial_bound", draws="testing.row_calls", lacks=_LACKS)
def spatial_softmax_2d(x: Any, temperature: float = 1.0, *, disable_softmax: bool = False, out: Any = None,
                       out_dtype: object = None, target: TargetLike = None) -> Any:
    """Return the mean place of each map by the softmax of its numbers (``popnn::spatialSoftMax2D``).

    Parameters
    ----------
    x : array_like or QuarterArray [F, H, W]
        float32, float16, bfloat16 or FP8 numbers, of any strides.
    temperature : float, optional
        What they are divided by first; positive.
    disable_softmax : bool, optional
        Whether `x` are weights as they are.
    out : array [F, 2], optional
        Where the result goes; it may overlap `x`.
    out_dtype : Format, dtype or str, optional
        float32, float16 or bfloat16; by default that of `out`, without one what the format of `x` gives.

    Returns
    -------
    numpy.ndarray [F, 2]
        Row and column, from -1 to 1 over the map; 0 along an axis of one place.

    Notes
    -----
    A softmax over each map, kept in FP32, and a product with the places, with the bounds of `softmax` and
    `poplin.matmul`, as one program. Weights that are given are multiplied by places in their own format. PopLibs throws
    its softmax away, and would have taken it over all maps together.

    Examples
    --------
    >>> popnn.spatial_softmax_2d([[[0.0, 0.0], [0.0, 0.0]], [[0.0, 99.0], [0.0, 0.0]]])
    array([[ 0.,  0.],
           [-1.,  1.]], dtype=float32)
    """
    read, by = _maps(x), 1 / finite("temperature", temperature, _LEAST, _MOST)
    count, height, width = read.shape
    receiver = receive("out", out, (count, 2), out_dtype, result_format(read))
    wide_format("out_dtype" if out is None else "out", receiver.format)
    given = flag("disable_softmax", disable_softmax)
    read = read.in_c_order() if given else read
    steps = SequenceBuilder(np.empty(read.shape, read.array.dtype) if read.gathered else read.array, receiver.array)
    maps, made = steps.operands
    if given:
        weights, own = as_taken(in_rows(maps), read), read.format.dtype or np.float16
    else:
        weights, own = steps.room((count, height * width)), np.float32
        steps.call(softmax, as_taken(maps, read), (1, 2), scale=by, out=weights.reshape(read.shape), target=target)
    steps.call(matmul, weights, places(height, width, own), out=made, target=target)
    return Request(steps.made(), (read, RESULT), receiver, steps.told("spatial_softmax_2d", read.shape, read.format))


@op(bound="popnn.spatial_bound", draws="testing.row_calls", written=None, lacks=_LACKS)
def spatial_softmax_2d_grad(grad: Any, x: Any, temperature: float = 1.0, *, out: Any = None, out_dtype: object = None,
                            target: TargetLike = None) -> Any:
    """Gradients of `spatial_softmax_2d` with respect to the maps and the temperature.

    Parameters
    ----------
    grad : array_like or QuarterArray [F, 2]
        The gradient with respect to the result.
    x : array_like or QuarterArray [F, H, W]
        What it was of.
    temperature : float, optional
        As it was then.
    out : tuple of two arrays [F, H, W] and [], optional
        Where the gradients go; that with respect to the temperature is float32.
    out_dtype : Format, dtype or str, optional
        Of the gradient of the maps: float32, float16 or bfloat16; by default what the format of `x` gives.

    Returns
    -------
    x_grad : numpy.ndarray [F, H, W]
    temperature_grad : numpy.ndarray [] of float32

    Notes
    -----
    Products with the places, a softmax with its gradient and a sum, FP32 between, as one program.

    Examples
    --------
    >>> popnn.spatial_softmax_2d_grad([[1.0, 0.0]], [[[0.0, 0.0], [0.0, 0.0]]]).x_grad
    array([[[-0.25, -0.25],
            [ 0.25,  0.25]]], dtype=float32)
    """
    read, of_places = _maps(x), one_scale_operand("grad", grad)
    shape, by = read.shape, 1 / finite("temperature", temperature, _LEAST, _MOST)
    check_shape("grad", of_places, of_places.shape == (shape[0], 2), f"shape {(shape[0], 2)}")
    fmt = wide_format("out_dtype", out_dtype, result_format(read))
    made = results(out, (Part(shape, fmt), Part((), FP32)), SpatialGradients)
    steps = SequenceBuilder(of_places.array, read.array, *made.arrays)
    grads, maps, x_grad, of_temperature = steps.operands
    numbers = as_taken(maps, read)
    if of_places.format != FP32:
        grads = steps.call(cast, as_taken(grads, of_places), "float32", target=target)
    y, scaled, products = (steps.room(shape) for _ in range(3))
    steps.call(softmax, numbers, (1, 2), scale=by, out=y, target=target)
    of_weights = steps.call(matmul, grads, places(*shape[1:]).T, target=target)
    steps.call(softmax_grad, of_weights, in_rows(y), out=in_rows(scaled), target=target)
    steps.call(softmax_grad, of_weights, in_rows(y), scale=by, out=in_rows(x_grad), target=target)
    steps.call(mul, scaled, numbers, out=products, target=target)
    added = steps.call(total, in_rows(products), target=target)

    def divide(sums: Array, result: Array) -> None:
        with np.errstate(all="ignore"):
            result[...] = -sums.astype(np.float64) * by * by

    steps.run(divide, added, of_temperature)
    return Request.to(made, steps.made(), (of_places, read),
                      steps.told("spatial_softmax_2d_grad", shape, read.format))
