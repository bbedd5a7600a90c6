"""PopNN's softmax, its logarithm and their gradients, along any axes.

The greatest number is taken away first, so that nothing overflows. Sums are FP32 in 64 lanes over 2,048 elements,
lanes joined by halves, and float64 beyond: the order is the row's alone, so all levels, thread counts and strides give
the same bits. Exponentials are within 1 ulp of FP32, within 2^-18 of themselves where `x` is FP16 or BF16, however it
lies. The bodies are in ``src_cython/kernels/rows/softmax.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..checks import check_shape, finite
from ..errors import bad_type
from ..ops import Operand, Request, argument, axes_of, one_scale_operand, op, receive, result_format
from ..ops.record import Function
from ..target import TargetLike
from .rows.modelled import place_of_softmax
from .rows.params import RowsParams
from .rows.request import row_of, rows_request

SCALED = 62000.0
"""What PopLibs' scaled softmax multiplies by, which keeps FP16 from subnormal numbers."""

_NUMBERS = "float32, float16, bfloat16 or FP8 numbers"
_LAST = """    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap the operands.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`. Without one: what the operands' formats give, float16 for FP8.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array of the shape of the first operand.
"""
_FORWARD = f"""
    Parameters
    ----------
    x : array_like or QuarterArray
        {_NUMBERS}, of any shape and strides. Lists become float32.
    axis : int or tuple of int, optional
        Along which; the last by default, as PopLibs has it.
    mask : array_like of bool, optional
        Of a shape that broadcasts to that of `x`: what takes part. The rest counts as minus infinity.
    scale : float, optional
        What `x` is multiplied by first.
"""
_BACKWARD = f"""
    Parameters
    ----------
    grad : array_like or QuarterArray
        The gradient with respect to the result: {_NUMBERS}.
    y : array_like or QuarterArray
        The result, of the shape of `grad`.
    axis : int or tuple of int, optional
        As it was then.
    scale : float, optional
        As it was then.
"""


def _documented(poplibs: str, first: str, by: Callable[..., Request]) -> Callable[[Function], Function]:
    """Make a function that has a docstring alone the face of an op. What several share goes into that."""
    return op(poplibs, bound="popnn.softmax_bound", draws="testing.row_calls", shared=first + _LAST, by=by)


def truths(name: str, value: Any, shape: tuple[int, ...]) -> Operand:
    """Take an operand of truth values that broadcasts to a shape."""
    x = argument(name, value, "an array of truth values")
    if x.array.dtype != np.bool_:
        raise bad_type(name, f"dtype {x.array.dtype}", "truth values")
    return broadcasting(name, x, shape)


def broadcasting(name: str, x: Operand, shape: tuple[int, ...]) -> Operand:
    """Return an operand that broadcasts to a shape, or raise."""
    try:
        fits = np.broadcast_shapes(x.shape, shape) == shape
    except ValueError:
        fits = False
    check_shape(name, x, fits, f"one that broadcasts to {shape}")
    return x


def _factor(name: str, value: Any) -> float:
    """A finite number as FP32 has it."""
    return float(np.float32(finite(name, value, -3e38, 3e38)))


def _forward(body: str, factor: float, name: str, /, x: Any, axis: Any, mask: Any, scale: Any, out: Any,
             out_dtype: object, target: Any) -> Request:
    read = one_scale_operand("x", x)
    shape, axes = read.shape, axes_of(axis, len(read.shape), "axis")
    by = _factor("scale", scale)
    kept = None if mask is None else truths("mask", mask, shape)
    receiver = receive("out", out, shape, out_dtype, result_format(read),
                       in_place=[read] if kept is None else (), like=read.array)
    placed = place_of_softmax(name, target, [read], receiver, axes, plain=kept is None and by == 1)
    operands: list[Operand] = [read, *([] if kept is None else [kept])]
    left = None if kept is None else row_of(kept, 1, shape)
    rows = row_of(read, 0, shape), left, row_of(receiver, len(operands), shape)
    params = RowsParams(body, shape, axes, rows, len(operands) + 1, scale=by, factor=factor)
    return rows_request((params,), tuple(operands), receiver, placed)


def _backward(name: str, /, grad: Any, y: Any, axis: Any, scale: Any, out: Any, out_dtype: object,
              target: Any) -> Request:
    g, made = one_scale_operand("grad", grad), one_scale_operand("y", y)
    check_shape("y", made, made.shape == g.shape, f"that of grad, {g.shape}")
    shape, axes, by = g.shape, axes_of(axis, len(g.shape), "axis"), _factor("scale", scale)
    receiver = receive("out", out, shape, out_dtype, result_format(g, made), in_place=(g, made), like=g.array)
    placed = place_of_softmax(name, target, [g, made], receiver, axes, plain=by == 1)
    rows = row_of(g, 0, shape), row_of(made, 1, shape), row_of(receiver, 2, shape)
    params = RowsParams(name, shape, axes, rows, 3, scale=by)
    return rows_request((params,), (g, made), receiver, placed)


@_documented("popnn::softmaxStable", _FORWARD, partial(_forward, "softmax", 1.0))
def softmax(x: Any, axis: int | tuple[int, ...] = -1, *, mask: Any = None, scale: float = 1.0, out: Any = None,
            out_dtype: object = None, target: TargetLike = None) -> Any:
    """e^x over the sum of e^x along axes (``popnn::softmax``, ``popnn::softmaxStable``).

    Of nothing but minus infinity zeros, and NaN along with a NaN or with infinity. PopLibs' plain softmax overflows
    from 88 on (FP16: 11), and rounds in between; this one does neither.

    Examples
    --------
    >>> popnn.softmax([[1.0, 2.0], [0.0, 0.0]])
    array([[0.26894143, 0.7310586 ],
           [0.5       , 0.5       ]], dtype=float32)
    >>> popnn.softmax([1.0, 2.0, 9.0], mask=[True, True, False])
    array([0.26894143, 0.7310586 , 0.        ], dtype=float32)
    """


@_documented("popnn::scaledSoftmaxStable", _FORWARD, partial(_forward, "softmax", SCALED))
def scaled_softmax_stable(x: Any, axis: int | tuple[int, ...] = -1, *, mask: Any = None, scale: float = 1.0,
                          out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """62000 times `softmax`, which keeps FP16 from subnormal numbers (``popnn::scaledSoftmaxStable``).

    `softmax_grad` takes results of `softmax`: divide these by 62000 first, as PopLibs' callers must.

    Examples
    --------
    >>> popnn.scaled_softmax_stable([0.0, 0.0])
    array([31000., 31000.], dtype=float32)
    """


@_documented("popnn::logSoftmax", _FORWARD, partial(_forward, "log_softmax", 1.0))
def log_softmax(x: Any, axis: int | tuple[int, ...] = -1, *, mask: Any = None, scale: float = 1.0, out: Any = None,
                out_dtype: object = None, target: TargetLike = None) -> Any:
    """Logarithm of `softmax`: x less the logarithm of the sum of e^x along axes (``popnn::logSoftmax``).

    Of nothing but minus infinity minus infinity.

    Examples
    --------
    >>> popnn.log_softmax([1.0, 2.0])
    array([-1.3132616 , -0.31326166], dtype=float32)
    """


@_documented("popnn::nonLinearityInputGradient", _BACKWARD, _backward)
def softmax_grad(grad: Any, y: Any, axis: int | tuple[int, ...] = -1, *, scale: float = 1.0, out: Any = None,
                 out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `softmax` given its result: ``scale y (grad - sum(grad y))`` (``SOFTMAX``).

    What a mask left out has a y of 0, and so a gradient of 0.

    Examples
    --------
    >>> popnn.softmax_grad([1.0, 0.0], [0.25, 0.75])
    array([ 0.1875, -0.1875], dtype=float32)
    """


@_documented("", _BACKWARD, _backward)
def log_softmax_grad(grad: Any, y: Any, axis: int | tuple[int, ...] = -1, *, scale: float = 1.0, out: Any = None,
                     out_dtype: object = None, target: TargetLike = None) -> Any:
    """Gradient of `log_softmax` given its result: ``scale (grad - e^y sum(grad))``.

    PopLibs has none.

    Examples
    --------
    >>> popnn.log_softmax_grad([1.0, 0.0], [0.0, float("-inf")])
    array([0., 0.], dtype=float32)
    """
