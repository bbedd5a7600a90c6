"""What slicing, updating slices and encoding indices cost on a tile of a modelled machine: vertices' cycles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...target import Target
from ...target.types import TYPE_BYTES

Count = int | np.ndarray[Any, np.dtype[np.int64]]
"""A number of elements or of indices, or many numbers at once."""

_BASIC = {1: (4, 3), 2: (2, 2), 4: (2, 2)}  # elements of a step and its cycles, by bytes of an element


def _dynamic_step(data_type: str) -> int:
    """Elements that a step copies."""
    return 4 if data_type == "half" or TYPE_BYTES[data_type] == 1 else 2


def dynamic_slice_1d_cycles(target: Target, data_type: str, region: int, slices: int) -> int:
    """Cycles of a tile to copy `slices` slices of `region` elements (``DynamicSlice1D``, ``DynamicUpdateSlice1D``)."""
    size = TYPE_BYTES[data_type]
    steps = -(-region * (2 if size == 8 else 1) // target.workers) // _dynamic_step(data_type)
    worker = 76 + (72 + 2 * steps) * slices if size == 1 else 39 + (24 + 2 * steps) * slices
    return 25 + target.workers * worker


def _search_cycles(offsets: Count, each: int) -> Any:
    """Cycles of a worker that looks up its rows among sorted indices."""
    return 20 * np.frexp(np.asarray(offsets) - 1)[1] + 15 * each + 9  # the logarithm rounded up


def multi_slice_cycles(target: Target, data_type: str, elements: Count, offsets: Count, in_range: Count, each: int = 0,
                       *, update: bool = False, in_order: bool = False, split: bool = False) -> Any:
    """Cycles of a tile to copy rows by index (``MultiSlice``, ``MultiUpdate``), or of many tiles at once.

    Parameters
    ----------
    target : Target
    data_type : str
    elements : int or ndarray
        Of a row.
    offsets, in_range : int or ndarray
        Indices, and how many of them each worker has the rows of.
    each : int, optional
        Indices for each row there is.
    update : bool, optional
        Whether rows are written by index.
    in_order : bool, optional
        Whether indices are sorted.
    split : bool, optional
        Whether workers share a row.
    """
    step, cycles = _BASIC[TYPE_BYTES[data_type]]
    steps, workers = -(-elements // step), target.workers
    if split:
        steps = -(-steps // workers)
    looked = 20 + _search_cycles(offsets, each) if in_order else 8 * (offsets - in_range)
    return workers * ((29 if update else 30) + in_range * (19 + steps * cycles) + looked)


def multi_update_op_cycles(target: Target, data_type: str, op: str, elements: Count, offsets: Count, in_range: Count,
                           each: int = 0, *, subword: bool = False, scaled: bool = False, higher: bool = False,
                           in_order: bool = False) -> Any:
    """Cycles of a tile to add, multiply or compare rows by index (``MultiUpdateOp``, ``ScaledMultiUpdateOp``).

    Parameters
    ----------
    target, data_type, elements, offsets, in_range, each, in_order
        As for `multi_slice_cycles`.
    op : {"ADD", "MUL", "MAX"}
    subword : bool, optional
        Whether rows are no whole words.
    scaled, higher : bool, optional
        Whether there is a scale, and of more bits than the rows.
    """
    wide = TYPE_BYTES[data_type] == 4
    row: Any = 11 if wide else 12 + scaled
    special = np.isin(elements, (2, 4) if wide else (4,)) & (scaled and op == "ADD")
    begin = 3 + (29 if wide else 30) - special + scaled * (6 if wide else 4)
    if in_order:
        begin = begin + _search_cycles(offsets, each) + 15
    if subword:
        row = row + 20 * elements
    else:
        shortest = 4 * elements if wide else 12 if higher else 9
        words = np.asarray(elements) // (4 // TYPE_BYTES[data_type])
        row = np.where(special, shortest, row + (words - 1) * (3 + higher))
    other = 0 if in_order else 5 * (np.asarray(offsets) - in_range)
    # PopLibs forgets that all workers take so long where there is nothing to do
    return np.where(np.asarray(offsets) == 0, begin, target.workers * (begin + row * in_range + other))


def sequence_slice_cycles(data_type: str, sequences: int, target_rows: int, source_rows: int, region: int) -> int:
    """Cycles of a tile to copy slices of sequences (``SequenceSlice``)."""
    if not sequences:
        return 40
    words = 2 * (min(target_rows, source_rows) * region * TYPE_BYTES[data_type] // 4)
    return 60 + 60 * sequences + 6 * -(-sequences // 6) * -(-words // sequences)


def one_hot_cycles(index_type: str, data_type: str, indices: int, *, custom: bool = False) -> tuple[int, str]:
    """Cycles to write ones at indices, and whether they are the tile's or a worker's.

    ``EncodeOneHot``, or ``EncodeOneHotCustomValues``, which writes other numbers.
    """
    if (index_type, data_type) == ("unsigned int", "half") and not custom:
        return 11 + 74 * indices, "tile"
    return 100 * indices, "worker"


def interval_cycles(data_type: str, elements: int) -> int:
    """Cycles of a worker to copy intervals of rows or blocks of columns (``SelectFromInterval``, ``Update…DEC``)."""
    return 27 + (12 if data_type == "half" else 8) * elements
