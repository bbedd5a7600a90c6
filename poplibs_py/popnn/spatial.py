"""PopNN's spatial softmax: where, in the mean, each map has its weight."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..errors import check_shape, finite, flag
from ..formats import Array, QuarterArray
from ..ops import one_scale_operand
from ..poplin.product.api import matmul
from ..popops import mul
from ..popops import sum as total
from .softmax import softmax, softmax_grad


class SpatialGradients(NamedTuple):
    """What `spatial_softmax_2d_grad` returns."""

    x_grad: Any
    temperature_grad: Any


def _maps(x: Any) -> tuple[Any, tuple[int, ...]]:
    """Maps with their places in a row, and their shape."""
    read = one_scale_operand("x", x)
    check_shape("x", read, len(read.shape) == 3, "maps [F, H, W]")
    array = x.to_array(np.float16) if isinstance(x, QuarterArray) else read.array
    return array.reshape(read.shape[0], prod(read.shape[1:])), read.shape


def _places(height: int, width: int) -> Array:
    """Rows and columns of the places of a map, from -1 to 1."""
    rows, columns = (np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(n) for n in (height, width))
    made = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1)
    return made.reshape(-1, 2).astype(np.float32)


def spatial_softmax_2d(x: Any, temperature: float = 1.0, *, disable_softmax: bool = False,
                       out_dtype: object = None) -> Array:
    """Return the mean place of each map by the softmax of its numbers (``popnn::spatialSoftMax2D``).

    Parameters
    ----------
    x : array_like or QuarterArray [F, H, W]
        float32, float16, bfloat16 or FP8 numbers.
    temperature : float, optional
        What they are divided by first; positive.
    disable_softmax : bool, optional
        Whether `x` are weights as they are.
    out_dtype : Format, dtype or str, optional
        float32, float16 or bfloat16; by default what the format of `x` gives.

    Returns
    -------
    numpy.ndarray [F, 2]
        Row and column, from -1 to 1 over the map; 0 along an axis of one place.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.

    Notes
    -----
    A softmax over each map, kept in FP32, and a product with the places, with the bounds of `softmax` and
    `poplin.matmul`. PopLibs throws its softmax away, and would have taken it over all maps together.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> popnn.spatial_softmax_2d([[[0.0, 0.0], [0.0, 0.0]], [[0.0, 99.0], [0.0, 0.0]]])
    array([[ 0.,  0.],
           [-1.,  1.]], dtype=float32)
    """
    maps, (_, height, width) = _maps(x)
    by = 1 / finite("temperature", temperature, 1e-30, 1e30)
    weights = maps if flag("disable_softmax", disable_softmax) else softmax(maps, scale=by, out_dtype="float32")
    made = _format(maps) if out_dtype is None else out_dtype
    return np.asarray(matmul(weights, _places(height, width).astype(weights.dtype), out_dtype=made))


def spatial_softmax_2d_grad(grad: Any, x: Any, temperature: float = 1.0, *,
                            out_dtype: object = None) -> SpatialGradients:
    """Gradients of `spatial_softmax_2d` with respect to the maps and the temperature.

    Parameters
    ----------
    grad : array_like [F, 2]
        The gradient with respect to the result.
    x : array_like or QuarterArray [F, H, W]
        What it was of.
    temperature : float, optional
        As it was then.
    out_dtype : Format, dtype or str, optional
        Of the gradient of the maps; by default what the format of `x` gives.

    Returns
    -------
    x_grad : numpy.ndarray [F, H, W]
    temperature_grad : numpy.float32

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> popnn.spatial_softmax_2d_grad([[1.0, 0.0]], [[[0.0, 0.0], [0.0, 0.0]]]).x_grad
    array([[[-0.25, -0.25],
            [ 0.25,  0.25]]], dtype=float32)
    """
    maps, shape = _maps(x)
    g = one_scale_operand("grad", grad)
    check_shape("grad", g, g.shape == (shape[0], 2), f"shape {(shape[0], 2)}")
    by = 1 / finite("temperature", temperature, 1e-30, 1e30)
    y = softmax(maps, scale=by, out_dtype="float32")
    of_weights = matmul(np.asarray(g.array, np.float32), _places(*shape[1:]).T, out_dtype="float32")
    of_scaled = softmax_grad(of_weights, y)
    made = softmax_grad(of_weights, y, scale=by, out_dtype=_format(maps) if out_dtype is None else out_dtype)
    of_temperature = -float(total(mul(of_scaled, maps, out_dtype="float32"))) * by * by
    return SpatialGradients(np.asarray(made).reshape(shape), np.float32(of_temperature))


def _format(maps: Array) -> object:
    return "float16" if maps.dtype.itemsize == 1 else maps.dtype
