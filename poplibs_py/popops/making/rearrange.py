"""`transpose`: an array with its axes in another order, copied."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...checks import all_of, whole
from ...config import settings
from ...errors import bad_argument
from ...formats import Array
from ...formats.bounds import Ball
from ...formats.reference import values
from ...kernels import select
from ...kernels.records import dtype_of
from ...memo import remembered
from ...ops import RESULT, Request, op, place_of, receive
from ...ops.numpy_ops import told
from ...ops.one_kernel import OneKernel, shared
from ...program import Program, threads_for
from ...target import TargetLike
from ..ordering.request import numbers
from .modelled import transpose_plan

Axes = tuple[int, ...] | None

_AXIS, _SPEC = dtype_of("pop_rearrange_axis"), dtype_of("pop_rearrange")
_ITEM = dtype_of("pop_rearrange_item")
_THREAD_ELEMENTS = 1 << 16  # that are worth a thread
_RUN_BYTES = 128  # of elements that stay side by side: NumPy copies longer runs as fast


class _Axis(NamedTuple):
    extent: int
    stride: int
    out: int


@op("popops::rearrange::partialTranspose", bound="popops.making.rearrange", draws="testing.ordering_calls")
def transpose(x: Any, axes: Axes = None, *, out: Any = None, target: TargetLike = None) -> Any:
    """Put an array's axes in another order, in memory too (``popops::rearrange::partialTranspose``).

    Parameters
    ----------
    x : array_like
        float32, float16, bfloat16, FP8 or integer numbers or truth values, of any shape and strides. Lists become
        float32.
    axes : tuple of int, optional
        Which axis of `x` each axis of the result is; by default the last is first.
    out : array, optional
        Where the result goes, of the dtype of `x`.

    Returns
    -------
    numpy.ndarray
        `out`, or a new array in C order. NumPy's function of this name returns a view.

    Notes
    -----
    Bit for bit. Where the elements of one axis of `x` lie one after another, or short runs of them, and another axis is
    the last, matrices are transposed a cache line at a time; else NumPy copies.

    Examples
    --------
    >>> popops.transpose([[1.0, 2.0], [3.0, 4.0]]).flags.c_contiguous
    True
    """
    source, element = numbers("x", x)
    rank = source.array.ndim
    order = _order("axes", axes, rank)
    shape = tuple(source.shape[d] for d in order)
    receiver = receive("out", out, shape, None, element, contiguous=True, own="that of x")
    placed = place_of(transpose, target, lambda machine: transpose_plan(
        machine, element, *_matrices(source.shape, order)))
    made = transposing(shape, tuple(source.array.strides[d] for d in order), element.itemsize, settings.num_threads)
    if made is None:
        def run(array: Array, result: Array) -> None:
            result[...] = array.transpose(order)

        return Request(run, (source, RESULT), receiver, told("transpose", source.shape, element), placed=placed)
    return Request(made.executable, (source, RESULT), receiver, lambda: (str(made), made.kernel, made),
                   placed=placed)


def transposing(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, threads: int) -> OneKernel | None:
    """Return what copies elements of so many bytes to C order as bits; None where long runs of them lie so."""
    walk = _walk(shape, strides, itemsize)
    return None if walk is None else _lower(*walk, threads)


def _matrices(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, int, int]:
    """Matrices that are transposed, their rows (the axis that becomes the last) and columns (that which is)."""
    if not order or order[-1] == len(shape) - 1:
        return 1, 1, prod(shape)
    rows, columns = shape[order[-1]], shape[-1]
    return prod(n for d, n in enumerate(shape) if d not in (order[-1], len(shape) - 1)), rows, columns


def _order(name: str, axes: Any, rank: int) -> tuple[int, ...]:
    """Which axis of the operand each axis of the result is."""
    if axes is None:
        return tuple(reversed(range(rank)))
    named = all_of(name, axes, (int, np.integer), "a sequence of axes, or None")
    order = tuple(whole(name, axis, -rank, rank - 1) % rank for axis in named) if rank else tuple(named)
    if sorted(order) != list(range(rank)):
        raise bad_argument(name, axes, f"each of {rank} axes once")
    return order


def _walk(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[tuple[_Axis, ...], int] | None:
    """The axes of the result, those that can be walked as one together, then the one that is innermost in the operand,
    and the bytes of what stays side by side: an element, or a short run. None where that axis is the last, or none."""
    merged: list[_Axis] = []
    out = itemsize * prod(shape)
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return None
        out //= extent
        if extent == 1:
            continue
        if merged and merged[-1].stride == extent * stride:
            extent *= merged.pop().extent
        merged.append(_Axis(extent, stride, out))
    if merged and merged[-1].stride == itemsize and merged[-1].extent * itemsize <= _RUN_BYTES:
        itemsize *= merged.pop().extent
    nearest = next((i for i, axis in enumerate(merged) if axis.stride == itemsize), len(merged) - 1)
    if nearest >= len(merged) - 1:
        return None
    return (*merged[:nearest], *merged[nearest + 1:], merged[nearest]), itemsize


@remembered()
def _lower(axes: tuple[_Axis, ...], itemsize: int, threads: int) -> OneKernel:
    *others, last, nearest = axes
    outer, spec = np.array(others, _AXIS), np.zeros(1, _SPEC)
    spec["lines"], spec["columns"], spec["bytes"] = last.extent, nearest.extent, itemsize
    spec["line"], spec["column"] = last.stride, nearest.out
    spec["outer"], spec["outer_count"] = outer.ctypes.data, len(others)
    selection = select("rearrange", "transpose", "any")
    side = selection.kernel.block[0] // itemsize
    units = prod(axis.extent for axis in others) * -(-last.extent // side) * -(-nearest.extent // side)
    threads = threads_for(prod(axis.extent for axis in axes), _THREAD_ELEMENTS, min(threads, units))
    step = shared(selection.kernel, _ITEM, spec, units, threads)
    what = f"transpose to {' x '.join(str(axis.extent) for axis in axes)} of {itemsize} bytes"
    return OneKernel(what, Program((step,), 2, threads, tables=(spec, outer)).executable(threads), selection,
                     (_lower, (axes, itemsize, threads)))


def transpose_bound(x: Any, axes: Any = None, *, out: Any = None, target: Any = None) -> Ball:
    """Return the results of a `transpose` call."""
    return Ball.exact(np.transpose(values(numbers("x", x)[0].array), axes))
