"""PopNN's losses, with their deltas, and cross-entropy of logits with its gradient, a pass over the classes each.

Numbers are FP32 from the operand on, sums those of `poplibs_py.popnn.softmax`: all levels, thread counts and strides
give the same bits. The bodies are in ``src_cython/kernels/rows/losses.h``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..checks import check_shape, finite, one_of, whole
from ..errors import bad_argument
from ..formats import FP16, Array, Format, QuarterArray
from ..ops import RESULT, Operand, Request, argument, one_scale_operand, op, receive, whole_operand
from ..ops.parts import Part, part_format, results
from ..popops import argmax, eq
from ..popops.sequence import SequenceBuilder, as_taken
from ..target import TargetLike
from .rows.modelled import place_of_accuracy, place_of_loss
from .rows.params import RowOperand, RowsParams
from .rows.request import row_of, rows_request

MASKED_LABEL_CODE = 0xFFFFFFFF
"""PopLibs' label of what is left out."""

_LABELS = "labels, whole numbers"
_KINDS = ("SUM_SQUARED_LOSS", "CROSS_ENTROPY_LOSS")


class Loss(NamedTuple):
    """What losses return: one for each row, and the gradient with respect to the numbers given."""

    loss: Any
    deltas: Any


def _classes(name: str, value: Any) -> Operand:
    x = one_scale_operand(name, value)
    check_shape(name, x, len(x.shape) == 2, "one number for each class, [N, C]")
    return x


def _labels(name: str, value: Any, rows: tuple[int, ...]) -> Operand:
    """Take labels: kernels read those of 32 bits and int64, others are copied."""
    x = whole_operand(name, value, _LABELS)
    check_shape(name, x, x.shape == rows, f"one label for each of {' x '.join(map(str, rows))} rows")
    return x if x.array.dtype in (np.int32, np.uint32, np.int64) else Operand(x.array.astype(np.int64), None)


def _request(name: str, body: str, x: Operand, labels: Operand | None, more: Operand | None, fmt: Format, out: Any,
             target: Any, axis: int = 1, **how: Any) -> Request:
    """A loss for each row, and deltas."""
    shape, operands = x.shape, tuple(p for p in (x, labels, more) if p is not None)
    parts = (Part(part, fmt, strided=True) for part in (_rows(shape, axis), shape))
    made = results(out, tuple(parts), Loss)
    placed = place_of_loss(name, target, [p for p in (x, more) if p is not None], fmt, shape,
                           cross_entropy=how.get("mode") == "cross-entropy", labels=labels is not None)
    last, (of_loss, of_deltas) = len(operands), (x.strides for x in made.arrays)
    label = None if labels is None else row_of(labels.seen(lambda array: np.expand_dims(array, axis)), 1, shape,
                                                 single=True)
    beside = None if more is None else row_of(more, last - 1, shape)
    loss = RowOperand(last, fmt, (*of_loss[:axis], 0, *of_loss[axis:]), single=True, written=True)
    deltas = RowOperand(last + 1, fmt, of_deltas, written=True)
    rows = row_of(x, 0, shape), label, beside, deltas, loss
    params = RowsParams(body, shape, (axis,), rows, last + 2, **how)
    return rows_request((params,), operands, made, placed)


def _rows(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1:])


@op("popnn::calcLoss", bound="popnn.loss_bound", draws="testing.row_calls", written=None)
def calc_loss(model_outputs: Any, expected: Any, loss_type: str, *, deltas_scale: float = 1.0,
              model_output_scaling: float = 1.0, out: Any = None, out_dtype: object = None,
              target: TargetLike = None) -> Any:
    """Return the loss of each row of probabilities, and what comes back (``popnn::calcLoss``).

    Parameters
    ----------
    model_outputs : array_like or QuarterArray [N, C]
        float32, float16, bfloat16 or FP8 numbers, of any strides: p.
    expected : array_like [N] or [N, C]
        Labels, whole numbers, or what each number should be: e, which is 1 at the label and 0 elsewhere.
        `MASKED_LABEL_CODE` names nothing, as every number that is no class.
    loss_type : {"SUM_SQUARED_LOSS", "CROSS_ENTROPY_LOSS"}
    deltas_scale : float, optional
        S; of cross-entropy alone.
    model_output_scaling : float, optional
        M: what `model_outputs` are times probabilities, such as 62000; of cross-entropy alone.
    out : tuple of two arrays [N] and [N, C], optional
        Where the results go.
    out_dtype : Format, dtype or str, optional
        Of both results; by default what the operands' formats give.

    Returns
    -------
    loss : numpy.ndarray [N]
        ``sum((p - e)^2) / 2``, or ``-sum(e (log(p + epsilon) - log(M)))``, epsilon being 2^-126, or 2^-24 for FP16.
    deltas : numpy.ndarray [N, C]
        ``p - e``, or ``S / M (p - e M)``: the derivative with respect to what p is the softmax of.

    Notes
    -----
    A masked row has neither loss nor deltas in cross-entropy; of squares, as in PopLibs, it has those of an e of zeros.

    Examples
    --------
    >>> popnn.calc_loss([[0.25, 0.75]], np.int32([1]), "SUM_SQUARED_LOSS")
    Loss(loss=array([0.0625], dtype=float32), deltas=array([[ 0.25, -0.25]], dtype=float32))
    """
    x = _classes("model_outputs", model_outputs)
    one_of("loss_type", loss_type, _KINDS)
    labels, given = None, None
    seen = None if isinstance(expected, QuarterArray) else argument("expected", expected, _LABELS)
    if seen is not None and seen.array.dtype.kind in "iu" and seen.shape != x.shape:
        labels = _labels("expected", expected, x.shape[:1])
    else:
        given = one_scale_operand("expected", expected)
        check_shape("expected", given, given.shape == x.shape, f"labels [N], or that of model_outputs, {x.shape}")
    by, scaling = (finite(name, value, 1e-30, 1e30) for name, value in (
        ("deltas_scale", deltas_scale), ("model_output_scaling", model_output_scaling)))
    if loss_type == _KINDS[0] and (by, scaling) != (1.0, 1.0):
        raise bad_argument("deltas_scale" if by != 1.0 else "model_output_scaling", by if by != 1.0 else scaling,
                           "1 for SUM_SQUARED_LOSS")
    epsilon = 2.0**-24 if x.format == FP16 else 2.0**-126
    fmt = part_format(out_dtype, x, given)
    return _request("calc_loss", "loss", x, labels, given, fmt, out, target, scale=by / scaling, factor=scaling,
                    epsilon=epsilon, mode="cross-entropy" if loss_type == _KINDS[1] else "")


@op(bound="popnn.loss_bound", draws="testing.row_calls", written=None, lacks="of logits")
def cross_entropy(logits: Any, labels: Any, weights: Any = None, axis: int = -1, *, label_smoothing: float = 0.0,
                  ignored_index: int | None = None, deltas_scale: float = 1.0, out: Any = None,
                  out_dtype: object = None, target: TargetLike = None) -> Any:
    """Return the cross-entropy of each row of logits with its label, and the gradient, in one pass.

    Parameters
    ----------
    logits : array_like or QuarterArray [..., C]
        float32, float16, bfloat16 or FP8 numbers, of any strides, two axes or more: x.
    labels : numpy.ndarray [...]
        Classes, whole numbers, in the shape of `logits` without `axis`. A number that is no class, such as
        `MASKED_LABEL_CODE`, leaves its row out.
    weights : array_like [C], optional
        Of the classes: w; 1 by default.
    axis : int, optional
        That of the classes; torch's is 1.
    label_smoothing : float, optional
        a, from 0 to 1: the share of a label that all classes have alike.
    ignored_index : int, optional
        A class whose rows are left out.
    deltas_scale : float, optional
        What the gradient is multiplied by, such as 1 / N of a mean.
    out : tuple of two arrays [...] and [..., C], optional
        Where the results go.
    out_dtype : Format, dtype or str, optional
        Of both results; by default what the operands' formats give.

    Returns
    -------
    loss : numpy.ndarray [...]
        ``(1 - a) w[label] (lse - x[label]) + a / C sum(w (lse - x))``, lse being the logarithm of the sum of e^x.
    deltas : numpy.ndarray [..., C]
        `deltas_scale` times its derivative with respect to `logits`.

    Notes
    -----
    A row that is left out has a loss and deltas of zeros. PopLibs has none: its loss takes probabilities.

    Examples
    --------
    >>> popnn.cross_entropy([[0.0, 0.0]], np.int32([1]))
    Loss(loss=array([0.6931472], dtype=float32), deltas=array([[ 0.5, -0.5]], dtype=float32))
    """
    x = one_scale_operand("logits", logits)
    check_shape("logits", x, len(x.shape) > 1, "one number for each class, of two axes or more")
    rank = len(x.shape)
    along = whole("axis", axis, -rank, rank - 1) % rank
    given, classes = _labels("labels", labels, _rows(x.shape, along)), x.shape[along]
    of_classes = None if weights is None else one_scale_operand("weights", weights)
    check_shape("weights", of_classes, of_classes is None or of_classes.shape == (classes,),
                f"one number for each of {classes} classes")
    if of_classes is not None:
        of_classes = of_classes.seen(lambda array: array.reshape(classes, *(1,) * (rank - 1 - along)))
    smoothing = finite("label_smoothing", label_smoothing, 0.0, 1.0)
    by = finite("deltas_scale", deltas_scale, -1e30, 1e30)
    ignored = -1.0 if ignored_index is None else float(whole("ignored_index", ignored_index, -(2**31), 2**32 - 1))
    fmt = part_format(out_dtype, x)
    return _request("cross_entropy", "cross_entropy", x, given, of_classes, fmt, out, target, along, scale=by,
                    factor=smoothing, epsilon=ignored)


def _count(truths: Array, result: Array) -> None:
    result[...] = np.count_nonzero(truths)


@op("popnn::calcAccuracy", bound="popnn.loss_bound", draws="testing.row_calls", written=None)
def calc_accuracy(model_outputs: Any, expected: Any, *, target: TargetLike = None) -> Any:
    """Return for how many rows the greatest number is the label's, the first of equal ones (``popnn::calcAccuracy``).

    Parameters
    ----------
    model_outputs : array_like or QuarterArray [N, C]
        float32, float16, bfloat16 or FP8 numbers, of any strides.
    expected : numpy.ndarray [N]
        Labels; `MASKED_LABEL_CODE` never counts.

    Returns
    -------
    int

    Examples
    --------
    >>> popnn.calc_accuracy([[0.25, 0.75], [0.5, 0.25]], np.int32([1, 1]))
    1
    """
    x = _classes("model_outputs", model_outputs)
    labels = whole_operand("expected", expected, _LABELS)
    check_shape("expected", labels, labels.shape == x.shape[:1], f"one label for each of {x.shape[0]} rows")
    check_shape("model_outputs", x, x.shape[1] or not x.shape[0], "one class or more")
    receiver = receive("out", None, (), None, np.dtype(np.int64))
    steps = SequenceBuilder(x.array, labels.array, receiver.array)
    array, given, count = steps.operands
    if given.dtype == np.uint64:  # what int64 does not hold is no class either way
        given = given.view(np.int64)
    steps.run(_count, steps.call(eq, steps.call(argmax, as_taken(array, x), 1), given), count)
    return Request(steps.made(), (x, labels, RESULT), receiver, steps.told("calc_accuracy", x.shape, x.format),
                   wrap=lambda made, _: int(made), placed=place_of_accuracy(target, x))
