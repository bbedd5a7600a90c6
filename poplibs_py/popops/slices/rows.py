"""Sequences of rows, and one element of each row."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...checks import check_shape, flag
from ...config import settings
from ...errors import bad_argument, bad_type
from ...formats import FP32, Array, Format
from ...ops import RESULT, Operand, Request, place_of, whole_operand
from ...ops.numpy_ops import told
from ...target import Target, TargetLike
from ..making.modelled import sequences_plan
from .api import slicing_op
from .lookup_modelled import scalars_plan
from .lower import Axis, Component, Layout, SliceParams, Window, lower_sequences
from .modelled import PlanOn, TiledRun
from .request import (
    checked_policy,
    elements_of,
    put_request,
    receiver_of,
    table_of,
    take_request,
)

__all__ = ["select_scalar_from_rows", "sequence_slice", "update_scalar_in_rows"]

# Sequences -------------------------------------------------------------------------------------------


@slicing_op("sequenceSlice", writes=True)
def sequence_slice(x: Any, y: Any, lengths: Any, x_offsets: Any, y_offsets: Any, *, zero_unused: bool = False,
                   index_policy: str = "raise", out: Any = None, target: TargetLike = None) -> Any:
    """Copy sequences of rows from one array into another (``popops::sequenceSlice``).

    Parameters
    ----------
    x : array_like [rows, ...]
        Where they come from: numbers of a format, integers or truth values, of any strides.
    y : array_like [rows, ...]
        What they are copied into: of the dtype of `x`, and with as many axes and as long behind the first.
    lengths : array_like of int [n]
        Rows of each sequence, at most as many as `y` has.
    x_offsets, y_offsets : array_like of int [n]
        Where each sequence begins in `x` and in `y`.
    zero_unused : bool, optional
        Whether rows of the result that no sequence has are zero, in place of those of `y`.

    Notes
    -----
    Exact. Sequences are copied one after another: where rows are written twice the last one stays. The result has the
    shape of `y`; `out` may be `y`.

    Examples
    --------
    >>> x = [[1.0], [2.0], [3.0], [4.0]]
    >>> popops.sequence_slice(x, [[0.0]] * 5, [2, 1], [2, 0], [0, 4]).ravel()
    array([3., 4., 0., 0., 1.], dtype=float32)
    """
    table, into, policy = table_of("x", x), table_of("y", y), checked_policy(index_policy)
    elements = elements_of(table)
    if elements_of(into) != elements:
        raise bad_type("y", f"dtype {elements_of(into)}", f"{elements}, as x has")
    check_shape("y", into, len(table.shape) >= 2 and len(into.shape) >= 2 and into.shape[1:] == table.shape[1:],
                f"two axes or more, behind the first as of x, {table.shape}")
    counts = [whole_operand(name, value) for name, value in
              (("lengths", lengths), ("x_offsets", x_offsets), ("y_offsets", y_offsets))]
    n = counts[0].shape[0] if len(counts[0].shape) == 1 else -1
    for name, count in zip(("lengths", "x_offsets", "y_offsets"), counts, strict=True):
        check_shape(name, count, count.shape == (n,), "[n], the same for lengths and both offsets")
    zeroes, width = flag("zero_unused", zero_unused), prod(into.shape[1:])
    placed = place_of(sequence_slice, target, lambda machine: sequences_plan(
        machine, elements, n, (into.shape[0], table.shape[0]), width))
    receiver = receiver_of(out, into.shape, elements, in_place=(into,))
    a, b = table.array, receiver.array
    params = SliceParams(
        "sequence", policy, "int64", (Axis(n, 0, 0, 0),),
        (Component(0, a.shape[0], a.strides[0]), Component(0, b.shape[0], b.strides[0])),
        tuple(Window(*axis) for axis in zip(a.shape[1:], a.strides[1:], b.strides[1:], strict=True)),
        elements, elements)
    if not n or not receiver.array.size:
        def tell() -> Any:
            return told("popops.sequence_slice", table.shape, elements)()

        program = None
    else:
        program = lower_sequences(params, settings.num_threads)

        def tell() -> Any:
            return str(params), program.kernel, program

    executable, in_place = None if program is None else program.executable, bool(receiver.written_over)
    run = _Sequences(executable, policy, a.shape[0], in_place, zeroes)
    return Request(run, (table, into, *counts, RESULT), receiver, tell, placed=placed)


@dataclass(frozen=True, eq=False)
class _Sequences:
    """Checked sequences: the program takes numbers of 64 bits."""

    program: Any
    policy: str
    rows: int
    in_place: bool
    zeroes: bool

    def __call__(self, x: Array, y: Array, lengths: Array, x_offsets: Array, y_offsets: Array, result: Array) -> None:
        most = result.shape[0]
        counts = _int64(lengths)
        if ((counts < 0) | (counts > most)).any():
            raise bad_argument("lengths", counts[(counts < 0) | (counts > most)][0], f"0 to {most}, the rows of y")
        begins = []
        for name, offsets, rows in (("x_offsets", x_offsets, self.rows), ("y_offsets", y_offsets, most)):
            begin = _int64(offsets)
            bad = (counts > 0) & ((begin < 0) | (begin > rows - counts))
            if self.policy == "raise" and bad.any():
                k = int(np.argmax(bad))
                raise bad_argument(name, f"{begin[k]} at [{k}], for {counts[k]} rows", f"sequences within {rows} rows")
            begins.append(begin)
        if self.zeroes:
            result[...] = np.zeros((), result.dtype)
        elif not self.in_place:
            result[...] = y
        if self.program is not None:
            self.program(x, counts, *begins, result)


def _int64(numbers: Array) -> Array:
    """Whole numbers in 64 bits, those of more than fit as large as can be."""
    if numbers.dtype == np.uint64:
        numbers = np.minimum(numbers, np.uint64(2**62))
    return np.array(numbers, np.int64, order="C")  # a copy: what was checked is what the program reads


# One element of each row -----------------------------------------------------------------------------


def _labels(x: Any, indices: Any, policy: Any) -> tuple[Operand, Operand, Layout, str]:
    table, labels, checked = table_of("x", x), whole_operand("indices", indices), checked_policy(policy)
    if not isinstance(elements_of(table), Format):
        raise bad_type("x", f"dtype {table.array.dtype}", "numbers of a format")
    check_shape("x", table, len(table.shape) == 2, "two axes: rows, columns")
    check_shape("indices", labels, labels.shape == table.shape[:1], f"({table.shape[0]},): one for each row")
    layout = Layout(((table.shape[0], 0, 0, 0),), ((1, table.shape[1]),), ())
    return table, labels, layout, checked


def _scalars_planner(table: Operand, *, update: bool) -> PlanOn:
    def plan_on(machine: Target) -> TiledRun | str:
        made = scalars_plan(machine, elements_of(table), *table.shape, update=update)
        return made if isinstance(made, str) else TiledRun(made)

    return plan_on


@slicing_op("selectScalarFromRows")
def select_scalar_from_rows(x: Any, indices: Any, *, index_policy: str = "poplibs", out: Any = None,
                            target: TargetLike = None) -> Any:
    """Return an element of each row (``popops::selectScalarFromRows``).

    Parameters
    ----------
    x : array_like [rows, columns]
        Numbers of a format, of any strides.
    indices : array_like of int [rows]
        The column that each row's element is in, of any integer type.

    Notes
    -----
    Exact. Under ``"poplibs"``, here the default, a bad index gives NaN, and the code of a masked label, 2**32 - 1 or
    -1, gives zero; under the others that is an index as any.

    Examples
    --------
    >>> popops.select_scalar_from_rows([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.uint32([1, 2, 2**32 - 1]))
    array([ 2., nan,  0.], dtype=float32)
    """
    table, labels, layout, policy = _labels(x, indices, index_policy)
    policy = "nan" if policy == "poplibs" else policy
    return take_request("popops.select_scalar_from_rows", table, labels, layout, labels.shape, policy, out, target,
                        plan_on=_scalars_planner(table, update=False))


@slicing_op("updateScalarInRows", writes=True)
def update_scalar_in_rows(x: Any, indices: Any, *, index_policy: str = "poplibs", out: Any = None,
                          target: TargetLike = None) -> Any:
    """Take 1 away from an element of each row (``popops::updateScalarInRows``): the gradient of a cross entropy.

    Parameters
    ----------
    x : array_like [rows, columns]
        Numbers of a format, of any strides.
    indices : array_like of int [rows]
        The column that each row's element is in, of any integer type.

    Notes
    -----
    Differences are rounded once. Under ``"poplibs"``, here the default, a bad index makes the whole row NaN, and the
    code of a masked label, 2**32 - 1 or -1, leaves it as it is; under the others that is an index as any.

    Examples
    --------
    >>> popops.update_scalar_in_rows([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.uint32([1, 2, 2**32 - 1]))
    array([[ 1.,  1.],
           [nan, nan],
           [ 5.,  6.]], dtype=float32)
    """
    table, labels, layout, policy = _labels(x, indices, index_policy)
    marks = policy == "poplibs"
    less = Operand(np.broadcast_to(np.float32(-1), labels.shape), FP32)
    request = put_request("popops.update_scalar_in_rows", table, labels, less, layout, "skip" if marks else policy, out,
                          target, update="add",
                          plan_on=_scalars_planner(table, update=True))
    run, columns = request.program, table.shape[1]
    assert run is not None
    return request.with_(program=_Less(run, less.array, columns if marks else -1), operands=(table, labels, RESULT))


@dataclass(frozen=True, eq=False)
class _Less:
    """The update, and NaN in the rows of bad labels where that is asked for: where `columns` is not negative."""

    program: Any
    less: Array
    columns: int

    def __call__(self, x: Array, indices: Array, result: Array) -> None:
        self.program(x, indices, self.less, result)
        if self.columns < 0:
            return
        bad = (indices < 0) | (indices.astype(np.uint64) >= np.uint64(self.columns))
        masked = (indices == 2**32 - 1) if indices.dtype.itemsize >= 4 else np.zeros(indices.shape, bool)
        masked |= indices == -1 if indices.dtype.kind == "i" else False
        if bad.any():
            result[bad & ~masked] = np.nan
