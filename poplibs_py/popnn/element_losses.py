"""Losses of elements, added along axes, with their gradients in one pass: squares, Huber's, binary cross-entropy, KL.

Numbers are FP32 from the operand on, sums those of `poplibs_py.popnn.softmax`: all levels, thread counts and strides
give the same bits. The bodies are in ``src_cython/kernels/rows/points.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..checks import check_shape, finite, one_of
from ..ops import Operand, Request, axes_of, one_scale_operand, op
from ..ops.parts import Part, part_format, results
from ..ops.record import Function
from ..target import TargetLike
from .losses import Loss
from .rows.params import RowOperand, RowsParams
from .rows.request import row_of, rows_request
from .softmax import broadcasting, truths

_FIRST = """
    Parameters
    ----------
    x : array_like or QuarterArray
        {what}: float32, float16, bfloat16 or FP8 numbers, of any shape and strides. Lists become float32.
    expected : array_like or QuarterArray
        {wanted}, of the shape of `x`: e.
    weights : array_like, optional
        What losses are multiplied by, of a shape that broadcasts to that of `x`.
    axis : int or tuple of int, optional
        Along which losses are added; the last by default.
    mask : array_like of bool, optional
        Of a shape that broadcasts to that of `x`: what takes part. The rest has no loss and no deltas, whatever it is.
"""
_LAST = """    reduction : {"sum", "mean"}, optional
        What is made of losses along the axes; a mean is over all elements there.
    deltas_scale : float, optional
        What the gradient is multiplied by, such as 1 / N of a mean over rows.
    out : tuple of two arrays, optional
        Where the results go.
    out_dtype : Format, dtype or str, optional
        Of both results; by default what the operands' formats give.

    Returns
    -------
    loss : numpy.ndarray
        One for each place along the other axes.
    deltas : numpy.ndarray
        `deltas_scale` times its derivative with respect to `x`.
"""


def _loss(body: str, what: str, wanted: str, own: str = "") -> Callable[[Function], Function]:
    """Make a function that has a docstring alone the loss that a kernel makes. What several share goes into that."""
    return op(bound="popnn.element_loss_bound", draws="testing.row_calls", written=None, lacks="in one pass",
              shared=_FIRST.format(what=what, wanted=wanted) + own + _LAST, by=partial(_request, body))


def _broadcast(name: str, value: Any, shape: tuple[int, ...]) -> Operand | None:
    return None if value is None else broadcasting(name, one_scale_operand(name, value), shape)


def _request(body: str, _: str, /, x: Any, expected: Any, weights: Any, axis: Any, mask: Any, reduction: Any,
             deltas_scale: Any, out: Any, out_dtype: object, target: Any, positive_weights: Any = None,
             **more: Any) -> Request:
    """A loss for each row of elements, and deltas."""
    straight = float(np.float32(finite("delta", more["delta"], 1e-30, 1e30))) if more else 0.0
    read, wanted = one_scale_operand("x", x), one_scale_operand("expected", expected)
    shape = read.shape
    check_shape("expected", wanted, wanted.shape == shape, f"that of x, {shape}")
    axes = axes_of(axis, len(shape), "axis")
    of_elements = _broadcast("weights", weights, shape)
    kept = None if mask is None else truths("mask", mask, shape)
    of_ones = _broadcast("positive_weights", positive_weights, shape)
    one_of("reduction", reduction, ("sum", "mean"))
    by = finite("deltas_scale", deltas_scale, -1e30, 1e30)
    fmt = part_format(out_dtype, read, wanted)
    own = tuple(n for d, n in enumerate(shape) if d not in axes)
    operands: list[Operand] = []
    rows: list[RowOperand | None] = []
    for operand in (read, wanted, of_elements, kept, of_ones):
        rows.append(None if operand is None else row_of(operand, len(operands), shape))
        operands += [] if operand is None else [operand]
    made = results(out, (Part(own, fmt, strided=True), Part(shape, fmt, strided=True)), Loss)
    steps = iter(made.arrays[0].strides)
    of_loss = tuple(0 if d in axes else next(steps) for d in range(len(shape)))
    rows += [RowOperand(len(operands) + 1, fmt, made.arrays[1].strides, written=True),
             RowOperand(len(operands), fmt, of_loss, single=True, written=True)]
    share = 1 / max(1, prod(shape[d] for d in axes)) if reduction == "mean" else 1.0
    params = RowsParams(body, shape, axes, tuple(rows), len(operands) + 2, scale=by * share, factor=share,
                        epsilon=straight)
    return rows_request((params,), tuple(operands), made)


@_loss("squared", "Numbers", "What they should be")
def mse_loss(x: Any, expected: Any, weights: Any = None, axis: int | tuple[int, ...] = -1, *, mask: Any = None,
             reduction: str = "sum", deltas_scale: float = 1.0, out: Any = None, out_dtype: object = None,
             target: TargetLike = None) -> Any:
    """Squared errors ``(x - e)^2``, added along axes, and their gradient ``2 (x - e)``, in one pass.

    PopLibs' ``SUM_SQUARED_LOSS`` is half of it: `calc_loss`.

    Examples
    --------
    >>> popnn.mse_loss([[1.0, 2.0]], [[0.0, 4.0]], reduction="mean")
    Loss(loss=array([2.5], dtype=float32), deltas=array([[ 1., -2.]], dtype=float32))
    """


_DELTA = """    delta : float, optional
        The error from which on the loss is straight; positive.
"""


@_loss("huber", "Numbers", "What they should be", _DELTA)
def huber_loss(x: Any, expected: Any, weights: Any = None, axis: int | tuple[int, ...] = -1, *, mask: Any = None,
               delta: float = 1.0, reduction: str = "sum", deltas_scale: float = 1.0, out: Any = None,
               out_dtype: object = None, target: TargetLike = None) -> Any:
    """Huber's loss, half the square of errors up to `delta`, straight beyond, added along axes, and its gradient.

    ``delta (|x - e| - delta / 2)`` beyond. Over `delta` it is torch's ``smooth_l1_loss``. PopLibs has none.

    Examples
    --------
    >>> popnn.huber_loss([[0.5, 4.0]], [[0.0, 1.0]])
    Loss(loss=array([2.625], dtype=float32), deltas=array([[0.5, 1. ]], dtype=float32))
    """


@_loss("binary", "Probabilities, from 0 to 1", "Truth values, or probabilities")
def binary_cross_entropy(x: Any, expected: Any, weights: Any = None, axis: int | tuple[int, ...] = -1, *,
                         mask: Any = None, reduction: str = "sum", deltas_scale: float = 1.0, out: Any = None,
                         out_dtype: object = None, target: TargetLike = None) -> Any:
    """Cross-entropy ``-(e log(x) + (1 - e) log(1 - x))`` of probabilities, added along axes, and its gradient.

    As in torch logarithms end at -100, and the gradient is ``(x - e) / max(x (1 - x), 1e-12)``. Beyond 0 and 1 nothing
    is promised. PopLibs has none.

    Examples
    --------
    >>> popnn.binary_cross_entropy([[0.5, 0.25]], [[1.0, 0.0]])
    Loss(loss=array([0.98082924], dtype=float32), deltas=array([[-2.       ,  1.3333334]], dtype=float32))
    """


_POSITIVE = """    positive_weights : array_like, optional
        What the loss of ones is multiplied by, of a shape that broadcasts to that of `x`: p; 1 by default.
"""


@_loss("logits", "Logits", "Truth values, or probabilities", _POSITIVE)
def binary_cross_entropy_with_logits(x: Any, expected: Any, weights: Any = None, axis: int | tuple[int, ...] = -1, *,
                                     mask: Any = None, positive_weights: Any = None, reduction: str = "sum",
                                     deltas_scale: float = 1.0, out: Any = None, out_dtype: object = None,
                                     target: TargetLike = None) -> Any:
    """Cross-entropy of the sigmoids of logits with truth values, added along axes, and its gradient.

    ``p e log(1 + exp(-x)) + (1 - e) log(1 + exp(x))``: nothing overflows or cancels. PopLibs has none.

    Examples
    --------
    >>> made = popnn.binary_cross_entropy_with_logits([[0.0, -2.0]], [[1.0, 0.0]])
    >>> made.loss.round(4), made.deltas.round(4)
    (array([0.8201], dtype=float32), array([[-0.5   ,  0.1192]], dtype=float32))
    """


@_loss("divergence", "Logarithms of probabilities", "Probabilities")
def kl_divergence(x: Any, expected: Any, weights: Any = None, axis: int | tuple[int, ...] = -1, *, mask: Any = None,
                  reduction: str = "sum", deltas_scale: float = 1.0, out: Any = None, out_dtype: object = None,
                  target: TargetLike = None) -> Any:
    """Kullback-Leibler divergence ``e (log(e) - x)``, added along axes, and its gradient ``-e``.

    0 where e is. `x` is what `log_softmax` makes, as for torch's ``kl_div``. PopLibs has none.

    Examples
    --------
    >>> popnn.kl_divergence([[-1.0, -0.5]], [[1.0, 0.0]])
    Loss(loss=array([1.], dtype=float32), deltas=array([[-1., -0.]], dtype=float32))
    """
