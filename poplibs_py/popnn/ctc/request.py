"""What a CTC loss takes: probabilities, labels, lengths; and the program that checks each call's labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...checks import check_shape, flag, one_of, whole
from ...config import settings
from ...errors import bad_argument
from ...formats import Array, Format
from ...ops import Operand, whole_operand, wide_format, wide_operand
from ...ops.one_kernel import OneKernel
from ...target.host_memory import check_memory
from .lower import lower, scratch_bytes
from .params import HostLossParams

REDUCTIONS = ("none", "sum", "mean")
_MOST_STEPS, _MOST_CLASSES, _MOST_LABELS = 1 << 20, 1 << 24, 1 << 20


def probabilities(name: str, value: Any) -> Operand:
    """Take logits or log-probabilities [T, N, C], whose classes a program reads one after another."""
    x = wide_operand(name, value)
    check_shape(name, x, len(x.shape) == 3 and x.shape[2], "[T, N, C]: steps, sequences, one class or more")
    for what, extent, most in zip(("steps", "classes"), x.shape[::2], (_MOST_STEPS, _MOST_CLASSES), strict=True):
        if extent > most:
            raise bad_argument(name, f"{extent} {what}", f"at most {most}")
    return x if x.array.strides[2] == x.array.itemsize else x.in_c_order()


def row_strides(x: Operand) -> tuple[int, int]:
    """Return the bytes from step to step and from sequence to sequence, as the program reads them."""
    if not x.gathered:
        return x.array.strides[0], x.array.strides[1]
    row = x.shape[2] * x.array.itemsize
    return x.shape[1] * row, row


def lengths(name: str, value: Any, batch: int, longest: int) -> Operand | Array:
    """Take the lengths of sequences; by default all are the longest. Their values are each call's to check."""
    if value is None:
        return np.full(batch, longest, np.int32)
    x = whole_operand(name, value)
    check_shape(name, x, x.shape == (batch,), f"[N] with N = {batch}")
    return x


def checked_lengths(name: str, value: Array, longest: int) -> Array:
    """Return a copy of lengths as kernels read them, if each is possible."""
    own = np.array(value)
    if own.size and (int(own.min()) < 0 or int(own.max()) > longest):
        wrong = own.min() if own.min() < 0 else own.max()
        raise bad_argument(name, f"a length of {wrong}", f"lengths from 0 to {longest}")
    return own.astype(np.int32)


def _labels(value: Any, batch: int) -> Operand:
    x = whole_operand("labels", value, "an array of whole numbers [N, L]")
    check_shape("labels", x, len(x.shape) == 2 and x.shape[0] == batch, f"[N, L] with N = {batch}")
    if x.shape[1] > _MOST_LABELS:
        raise bad_argument("labels", f"{x.shape[1]} labels", f"at most {_MOST_LABELS}")
    return x


def _checked_labels(value: Array, counts: Array, classes: int, blank: int) -> Array:
    """Return a copy of labels as kernels read them, if those that count are classes and no blanks."""
    own = np.array(value, order="C")
    counted = np.arange(own.shape[1]) < counts[:, None]
    wrong = counted & ((own < 0) | (own >= classes) | (own == blank))
    if wrong.any():
        n, i = np.argwhere(wrong)[0]
        raise bad_argument("labels", f"{own[n, i]} at [{n}, {i}]", f"0 to {classes - 1} without {blank}, the blank")
    return np.where(counted, own, 0).astype(np.int32)


class LossCall(NamedTuple):
    """A loss as its face was asked for it."""

    data: Operand
    operands: tuple[Operand | Array, ...]
    program: OneKernel
    reduction: str

    @property
    def losses(self) -> tuple[int, ...]:
        """The shape of what is made of the losses."""
        return (self.data.shape[1],) if self.reduction == "none" else ()


def loss_call(data: Any, labels: Any, data_lengths: Any, label_lengths: Any, *, blank: Any, logits: Any,
              zero_infinity: Any, reduction: Any, result: Format | None = None, out_dtype: object = None,
              softmax: Any = None) -> LossCall:
    """Return what a call asks for, checked but for what labels and lengths say; a gradient where `softmax` is not None.

    Parameters
    ----------
    result : Format, optional
        The gradient's, where a caller's array says; by default `out_dtype`, or that of `data`.
    """
    x = probabilities("data", data)
    steps, batch, classes = x.shape
    rows = _labels(labels, batch)
    ends, counts = lengths("data_lengths", data_lengths, batch, steps), lengths("label_lengths", label_lengths, batch,
                                                                                rows.shape[1])
    blank = whole("blank", blank, 0, classes - 1)
    logits, zero_infinity = flag("logits", logits), flag("zero_infinity", zero_infinity)
    one_of("reduction", reduction, REDUCTIONS)
    gradient = softmax is not None
    softmax = flag("include_softmax_gradient", softmax) if gradient else False
    made = result or wide_format("out_dtype", out_dtype, x.format)
    params = HostLossParams(steps, batch, classes, rows.shape[1], row_strides(x), x.format, made, blank, logits,
                            zero_infinity, gradient, softmax)
    check_memory("labels", f"shape {rows.shape}", scratch_bytes(params))
    return LossCall(x, (x, rows, ends, counts), lower(params, settings.num_threads), reduction)


class Checked:
    """A program that looks at a call's labels and lengths before it runs, and reduces the losses."""

    def __init__(self, asked: LossCall) -> None:
        self.program, self.reduction = asked.program, asked.reduction

    def __call__(self, data: Array, labels: Array, data_lengths: Array, label_lengths: Array, loss: Array,
                 *gradient: Array) -> None:
        """Run on the operands and what receives the results."""
        p = self.program.params
        ends = checked_lengths("data_lengths", data_lengths, p.time)
        counts = checked_lengths("label_lengths", label_lengths, p.labels)
        own = _checked_labels(labels, counts, p.classes, p.blank)
        each = np.ones(p.batch)
        if self.reduction == "mean":
            each /= np.maximum(counts, 1) * float(max(1, p.batch))
        losses = np.empty(p.batch)
        self.program.executable(data, own, ends, counts, each.astype(np.float32), losses, *gradient)
        with np.errstate(all="ignore"):
            made = losses if self.reduction == "none" else (losses * each).sum()
            loss[...] = made.astype(np.float32).astype(loss.dtype)
