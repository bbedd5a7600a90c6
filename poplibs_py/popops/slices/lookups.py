"""Look-ups in embeddings: bags of them, their gradient as rows with their indices, and what indices are like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...checks import check_shape, one_of, whole
from ...config import settings
from ...errors import bad_argument, bad_type
from ...formats import FP32, Array, Format
from ...ops import RESULT, Operand, Request, place_of, receive, result_format, whole_operand
from ...ops.numpy_ops import told
from ...ops.parts import Part, results
from ...program import Executable, Sequence
from ...target import TargetLike
from .api import slicing_op
from .lookup_modelled import bags_plan, gradient_plan
from .lower import Layout, lower, lower_bags
from .modelled import tiled_place
from .parts import rows_named
from .request import Check, check_of, checked_policy, elements_of, parts_of, table_of

__all__ = ["IndexStatistics", "SparseGradient", "embedding_bag", "embedding_gradient", "index_statistics"]

_MOST_ENTRIES = 1 << 40


# Bags ------------------------------------------------------------------------------------------------


@slicing_op()
def embedding_bag(x: Any, indices: Any, offsets: Any = None, *, mode: str = "sum", weights: Any = None,
                  index_policy: str = "raise", out: Any = None, out_dtype: object = None,
                  target: TargetLike = None) -> Any:
    """Add up the rows of a table that each bag of indices names (torch's ``embedding_bag``; PopLibs has none).

    Parameters
    ----------
    x : array_like [entries, width]
        Numbers of a format, of any strides.
    indices : array_like of int [bags, n] or [n]
        Of any integer type.
    offsets : array_like of int [bags], optional
        Where each bag of indices ``[n]`` begins, ascending, the first at 0; the last one ends with them.
    mode : {"sum", "mean", "max"}, optional
        What becomes of the rows of a bag.
    weights : array_like of float32, optional
        What each row is multiplied by; in the shape of `indices`, for sums alone.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`, or that of `x` (float16 where that is FP8).

    Notes
    -----
    The result is ``[bags, width]``; of an empty bag it is 0. In FP32 and in the order of the indices, each product with
    a weight and each sum rounded, and the result rounded to its format once. ``"skip"`` leaves a bad index out of its
    bag, ``"zero"`` takes a row of zeros in its place. The bits do not depend on the number of threads.

    Examples
    --------
    >>> popops.embedding_bag([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 2, 1], [0, 2])
    array([[6., 8.],
           [3., 4.]], dtype=float32)
    """
    table, places, policy = table_of("x", x), whole_operand("indices", indices), checked_policy(index_policy)
    one_of("mode", mode, ("sum", "mean", "max"))
    fmt = elements_of(table)
    if not isinstance(fmt, Format):
        raise bad_type("x", f"dtype {fmt}", "numbers of a format")
    check_shape("x", table, len(table.shape) == 2, "two axes: entries, width")
    bags, begins = _bags(places, offsets)
    factors = _weights(weights, places, mode)
    sources = (table, places) if begins is None else (table, places, begins)
    receiver = receive("out", out, (bags, table.shape[1]), out_dtype, result_format(fmt))
    if not isinstance(receiver.format, Format) or receiver.scale:
        raise bad_type("out", out, "an array of a format")
    sizes = (table.shape[0], table.shape[1], bags, places.shape[1] if begins is None else -1)
    placed = place_of(embedding_bag, target, lambda machine: bags_plan(
        "popops.embedding_bag", machine, (fmt, receiver.format), sizes, mode, weighted=factors is not None,
        skips=policy == "skip"))
    axes = tuple((n, d, None, None) for d, n in enumerate(places.shape))
    layout = Layout(axes, ((0, table.shape[0]),), ((table.shape[1], 1, 1, -1),))
    params = layout.params("bag", policy, places.array, table.array, receiver.array, (fmt, receiver.format),
                           update="max" if mode == "max" else "add")
    check = check_of("indices", policy, layout, params) if params.lookups else None
    if not receiver.array.size:
        nothing = told("popops.embedding_bag", table.shape, fmt)
        return Request(check and check.guards(len(sources) + 1), (*sources, RESULT), receiver, nothing,
                       placed=placed, checks=True)
    tells = check is not None and out is None and begins is None  # then every index is of a bag
    program = lower_bags(params._replace(tells=tells), bags, receiver.array.strides[0], mode == "mean",
                         factors is not None, settings.num_threads)
    extra = () if factors is None else (factors if begins is not None else factors.in_c_order(),)
    run = _Bags(check, program.executable, params.lookups) if begins is not None else _equal_bags(
        check, program.executable, tells, np.arange(bags + 1) * (params.lookups // max(1, bags)), len(extra))
    return Request(run, (*sources, *extra, RESULT), receiver, program.told, placed=placed)


def _bags(places: Operand, offsets: Any) -> tuple[int, Operand | None]:
    """How many bags there are, and where they begin, or None where they are the rows of an array."""
    if offsets is None:
        check_shape("indices", places, len(places.shape) == 2, "[bags, n], or [n] with offsets")
        return places.shape[0], None
    begins = whole_operand("offsets", offsets)
    check_shape("offsets", begins, len(places.shape) == 1 and len(begins.shape) == 1, "[bags], with indices [n]")
    return begins.shape[0], begins


def _weights(weights: Any, places: Operand, mode: str) -> Operand | None:
    if weights is None:
        return None
    factors = table_of("weights", weights)
    if elements_of(factors) != FP32:
        raise bad_type("weights", f"dtype {factors.array.dtype}", "float32")
    check_shape("weights", factors, factors.shape == places.shape, f"shape {places.shape}, that of indices")
    if mode != "sum":
        raise bad_argument("mode", mode, "'sum' where there are weights")
    return factors


def _equal_bags(check: Check | None, program: Executable, tells: bool, ends: Array, weighted: int) -> Sequence:
    """Bags that are the rows of an array: along with the check where the program itself tells that an index is bad."""
    operands = 3 + weighted
    run = (0, 1, ends, operands - 1, *range(2, 2 + weighted))
    if check is None:
        return Sequence([(program, run)], operands)
    return check.guards(operands, [(program, (*run, operands) if tells else run)], 0 if tells else None)


@dataclass(frozen=True, eq=False)
class _Bags:
    """The check, and the program of bags that begin where the call says."""

    check: Check | None
    program: Executable
    lookups: int

    def __call__(self, x: Array, indices: Array, begins: Array, *arrays: Array) -> None:
        *rest, result = arrays
        if self.check is not None:
            self.check(indices)
        ends = np.append(begins.astype(np.int64), self.lookups)
        if (ends[1:] < ends[:-1]).any() or ends[0]:
            allowed = f"ascending numbers from 0, the first, to {self.lookups}, how many indices there are"
            raise bad_argument("offsets", begins, allowed)
        self.program(x, indices, ends, result, *(factor.copy() for factor in rest))  # in C order, and aligned


# The gradient ----------------------------------------------------------------------------------------


class SparseGradient(NamedTuple):
    """Rows of a gradient that are not zero.

    Attributes
    ----------
    indices : numpy.ndarray of int64 [n]
        Which rows, ascending.
    rows : numpy.ndarray [n, width]
        Their sums.
    """

    indices: Array
    rows: Array


@slicing_op()
def embedding_gradient(updates: Any, indices: Any, entries: int, *, index_policy: str = "raise", out: Any = None,
                       target: TargetLike = None) -> Any:
    """Return the gradient of look-ups as rows with their indices (torch's sparse gradient; PopLibs has none).

    Parameters
    ----------
    updates : array_like [..., width]
        The gradient of what was looked up: numbers of a format, of any strides.
    indices : array_like of int [...]
        Of any integer type.
    entries : int
        Rows of the table.

    Notes
    -----
    Sums of the rows of an index are FP32, in order, and rounded to the format of `updates` once. A bad index under
    ``"skip"`` or ``"zero"`` has no row. The result is a `SparseGradient`: `indices` and `rows`. `out` must be None,
    since how many rows there are depends on the indices.

    Examples
    --------
    >>> popops.embedding_gradient([[1.0], [2.0], [4.0]], [7, 3, 7], 10)
    SparseGradient(indices=array([3, 7]), rows=array([[2.],
           [5.]], dtype=float32))
    """
    grad, places = table_of("updates", updates), whole_operand("indices", indices)
    policy = checked_policy(index_policy)
    count, fmt = whole("entries", entries, 0, _MOST_ENTRIES), elements_of(grad)
    if not isinstance(fmt, Format):
        raise bad_type("updates", f"dtype {fmt}", "numbers of a format")
    check_shape("updates", grad, len(grad.shape) == len(places.shape) + 1 and grad.shape[:-1] == places.shape,
                f"({', '.join(map(str, places.shape))}, width)")
    if out is not None:
        raise bad_argument("out", out, "None: how many rows there are depends on the indices")
    width = grad.shape[-1]
    tiles, placed = tiled_place("popops.embedding_gradient", target, lambda machine: gradient_plan(
        "popops.embedding_gradient", machine, fmt, (count, width, places.array.size)))
    kept, named = rows_named(places.array.ravel(), count, policy)
    distinct, inverse = np.unique(named, return_inverse=True)
    parts = Part((distinct.size,), np.dtype(np.int64)), Part((distinct.size, width), fmt)
    made = results(None, parts, SparseGradient)
    values = np.ascontiguousarray(grad.array.reshape(places.array.size, width))
    every = np.full(places.array.size, -1, np.int64)  # a bad one has no row
    every[kept] = inverse.reshape(-1)
    layout = Layout(((every.size, 0, None, 0),), ((0, distinct.size),), ((width, 1, 1, -1),))
    into = made.views(made.receiver.array)
    params = layout.params("put", "skip", every, into.rows, values, (fmt, fmt), update="add")
    program = lower(params, settings.num_threads) if params.lookups and width and distinct.size else None
    cut = parts_of(tiles, fmt, 0, (1, distinct.size, every.size), 0, "skip", "add", 1.0)

    def run(buffer: Array) -> None:
        view = made.views(buffer)
        view.indices[...] = distinct
        view.rows[...] = np.zeros((), view.rows.dtype)
        if program is not None:
            (cut or program.executable)(every, values, view.rows)

    nothing = told("popops.embedding_gradient", grad.shape, fmt)
    return Request(run, (RESULT,), made.receiver, nothing if program is None else program.told, wrap=made.wrap,
                   placed=placed)


# What indices are like -------------------------------------------------------------------------------


class IndexStatistics(NamedTuple):
    """What indices are like.

    Attributes
    ----------
    lookups, bad, distinct : int
        How many there are, how many of them are out of range, and how many different ones are not.
    least, greatest : int or None
        Of all.
    most_repeated : int
        How often the most frequent good one is there.
    ascending : bool
        Whether they are in order: PopLibs' ``indicesAreSorted``.
    distribution : str
        PopLibs' ``indicesDistribution`` that fits: ``"onePoint"`` where most are the same, else ``"uniform"``.
    """

    lookups: int
    bad: int
    distinct: int
    least: int | None
    greatest: int | None
    most_repeated: int
    ascending: bool
    distribution: str


def index_statistics(indices: Any, entries: int) -> IndexStatistics:
    """Return what indices are like: what there is to know before an embedding is planned for them.

    Parameters
    ----------
    indices : array_like of int
        Of any integer type and shape.
    entries : int
        Rows of the table.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> found = popops.index_statistics([3, 3, 3, 9], 8)
    >>> found.bad, found.most_repeated, found.distribution
    (1, 3, 'onePoint')
    """
    flat, limit = whole_operand("indices", indices).array.ravel(), whole("entries", entries, 0, _MOST_ENTRIES)
    good = flat[(flat >= 0) & (flat.astype(np.uint64) < np.uint64(limit))]
    _, counts = np.unique(good, return_counts=True)
    most = int(counts.max(initial=0))
    least, greatest = (int(flat.min()), int(flat.max())) if flat.size else (None, None)
    return IndexStatistics(flat.size, flat.size - good.size, counts.size, least, greatest, most,
                           bool((flat[1:] >= flat[:-1]).all()), "onePoint" if 2 * most > flat.size else "uniform")
