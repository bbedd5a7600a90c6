"""What reductions cost on a tile of a modelled machine: PopLibs' vertices and their cycles.

All of them run on one worker. `Reduce` takes any regions of partials, `ContinuousReduce` outputs whose partials each
lie in one run, `SingleInputReduce` one such output, `StridedReduce` rows of partials a stride apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...target import Target
from ...target.types import vector_of

_ADDS = ("ADD", "SQUARE_ADD")
_ACCUMULATORS = {"half": 8, "float": 4}
_ONE_BY_ONE = ("LOG_ADD", "LOGICAL_AND", "LOGICAL_OR")
_LOG_ADD = 20  # cycles of a step, where others take 1


def operation_width(target: Target, op: str, data_type: str) -> int:
    """Partials that a vertex takes at a step."""
    return _ACCUMULATORS.get(data_type, 1) if op in _ADDS else vector_of(target, data_type)


def _bits(number: int) -> Iterator[int]:
    """The powers of two that a number is the sum of."""
    while number:
        yield number & -number
        number &= number - 1


def reduce_cycles(target: Target, op: str, types: tuple[str, str], reductions: Iterable[tuple[int, Sequence[int]]], *,
                  update: bool = False) -> int:
    """Cycles of a worker with ``Reduce``, in its default form or with outputs of one element.

    Parameters
    ----------
    target : Target
    op : str
        PopLibs' name of it, such as ``"SQUARE_ADD"``.
    types : (str, str)
        Of the partials and of the outputs.
    reductions : iterable of (int, sequence of int)
        For each its outputs, and the elements of each region of partials.
    update : bool, optional
        Whether what the outputs hold is added.
    """
    partial, out = types
    if op in _ONE_BY_ONE:
        each = 24 + (12 if op == "LOG_ADD" else 1) + (partial != out)
        return 31 + sum(8 + sum(22 + n * each for n in regions) for _, regions in reductions)
    width, load, stored = operation_width(target, op, partial), vector_of(target, partial), vector_of(target, out)
    adds = op in _ADDS

    def store(elements: int) -> int:
        return (2 + update) * min(elements, stored) + adds

    total = 33
    for outputs, regions in reductions:
        steps, rest = divmod(outputs, width)
        total += 22 + 2 * width.bit_length() + steps * (3 + 2 * adds + store(width) + 1 + 10 * len(regions))
        total += sum(2 + 2 * adds + store(b) + 10 * len(regions) for b in _bits(rest))
        row = steps * (5 + 2 * adds + width // min(width, load)) + sum(5 + b // min(b, load) for b in _bits(rest))
        total += sum(n // outputs * row for n in regions)
    return total


_FROM_HALF = {
    ("ADD", "half"): (8, 10), ("ADD", "float"): (7, 12), ("LOG_ADD", "half"): (8, 23), ("LOG_ADD", "float"): (8, 57),
    ("SQUARE_ADD", "half"): (1, 1), ("SQUARE_ADD", "float"): (1, 1),
}  # fmt: skip
_FROM_FLOAT = {"half": (2, 4), "float": (2, 5)}
_FROM_FLOAT_LOG = {"half": (2, 13), "float": (2, 27)}


def _after_strides(op: str, partial: str, out: str, update: bool) -> int:
    """Cycles to write the outputs of one step."""
    if partial == "half":
        return _FROM_HALF.get((op, out), (8, 11))[update]
    table = _FROM_FLOAT_LOG if op == "LOG_ADD" else _FROM_FLOAT
    return (3 if op == "ADD" else 2) + table[out][update]


def strided_reduce_cycles(target: Target, op: str, types: tuple[str, str], partials: Any, outputs: Any, stride: Any, *,
                          outer: int = 1, update: bool = False) -> Any:
    """Cycles of a worker with ``StridedReduce``, or of many at once.

    Parameters
    ----------
    target, op, types, update
        As for `reduce_cycles`.
    partials, outputs : int or ndarray
        Rows of partials in a run of equal strides, and elements of a row.
    stride : int or ndarray
        Elements from a row to the next.
    outer : int, optional
        Runs.

    Examples
    --------
    >>> from poplibs_py.popops.vertices.reductions import strided_reduce_cycles
    >>> from poplibs_py.target import Target
    >>> int(strided_reduce_cycles(Target.gc200(), "MIN", ("half", "half"), 1, 396, 48))
    1402
    """
    partial, out = types
    width = min(operation_width(target, op, partial), vector_of(target, partial))
    each = (13 if partial == "half" else 23) if op == "LOG_ADD" else 1
    steps = -(-outputs // np.gcd(width, stride))
    return 16 + steps * (3 + _after_strides(op, partial, out, update) + outer * (3 + each * (partials - 1)))


def single_input_reduce_cycles(target: Target, op: str, types: tuple[str, str], partials: int) -> int:
    """Cycles of a worker with ``SingleInputReduce``: one output of so many partials."""
    partial, out = types
    width = operation_width(target, op, partial)
    each = max(width // min(width, vector_of(target, partial)), _LOG_ADD if op == "LOG_ADD" else 1)
    return 17 + each * partials // width + partials % width + (0 if out == "float" else 5)


def continuous_reduce_cycles(target: Target, op: str, types: tuple[str, str], partials: int, outputs: int, *,
                             update: bool = False) -> int:
    """Cycles of a worker with ``ContinuousReduce``: so many outputs of so many partials each.

    PopLibs counts one output less than there are.
    """
    partial, _ = types
    width, each = min(_ACCUMULATORS.get(partial, 1), vector_of(target, partial)), 1
    if op == "LOG_ADD":
        width, each = 1, _LOG_ADD
    counted = outputs - 1
    return each * counted * (partials // width) + 2 * (partials % 2) + 12 * counted + 17 + update
