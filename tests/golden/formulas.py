"""Cycles of vertices of PopLibs that no plan of this library has: read of `cost-golden` alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from poplibs_py.popnn.ctc.model import _FORWARD, _GRADIENT
from poplibs_py.popnn.pooling.kinds import KINDS
from poplibs_py.popnn.pooling.model import _POSITION, _ROW, _zeroed
from poplibs_py.popops.vertices.binary import SUPERVISOR
from poplibs_py.popops.vertices.counts import _leave, _nan, _rest
from poplibs_py.popops.vertices.nonlinearities import _EACH, _core, _gradient_core, _left
from poplibs_py.popops.vertices.nonlinearities import _GRADIENT as _GRADIENTS
from poplibs_py.popops.vertices.slices import _dynamic_step
from poplibs_py.popops.vertices.sort import _COSTS, _FLOATS, _OF_A_TILE, _entry_cycles
from poplibs_py.target import Target
from poplibs_py.target.types import TYPE_BYTES, vector_of

_LIST = 5  # cycles to find the length of a list

CONSTANT = {"CheckAccuracyWhenCast": 30, "CircBufIncrIndex": 8, "CircOffset": 10, "ForLoopCounter": 43,
            "ROIAlignForward": 10, "ROIAlignBackward": 10, "SelectiveScaling": 10}
"""Vertices that take as long whatever they work on."""

FREE = ("CTCGenerateCopyCandidates", "CTCGenerateExtendCandidates", "CTCGenerateOutput", "CTCMergeCandidates",
        "CTCRemapLabels", "CTCSelectCopyCandidates", "CTCSelectExtendCandidates")
"""Vertices that PopNN counts as nothing."""


def greatest_cycles(size: int, count: int, pieces: int, *, in_order: bool) -> int:
    """Cycles of a worker that keeps a heap of the greatest elements (``ReduceMaxNClassGather``, ``…Sparse``).

    Parameters
    ----------
    size : int
        Elements to look through, for each piece.
    count : int
        That are kept.
    pieces : int
        How many such results.
    in_order : bool
        Whether they are sorted in the end.
    """
    total = 23
    for i in range(1, count):
        total = int(total + 13 + 20 * log(i))
    total = int(total + (size - count) * (13 + 20 * log(count))) + 8 * count
    if in_order:
        for i in range(1, count + 1):
            total = int(total + 10 + 20 * log(i))
    return 12 + pieces * total


def dual_output_cycles(target: Target, data_type: str, result_type: str, elements: int) -> int:
    """Cycles of a tile to cast an array and to compare it with a number, both written as `result_type`."""
    share, step = -(-elements // target.workers), vector_of(target, result_type) // 2
    enter, each = (15, 8) if result_type == "float" else (36, 23)
    return target.workers * (20 + enter + -(-share // step) * each) + SUPERVISOR


def hadamard_cycles(target: Target, data_type: str, regions: Sequence[int]) -> int:
    """Cycles of a worker to multiply its regions element by element (``HadamardProd``)."""
    return 5 + sum(6 + 2 * -(-n // vector_of(target, data_type)) for n in regions)


def histogram_2d_cycles(target: Target, data_type: str, regions: Sequence[int], levels: int, *, absolute: bool) -> int:
    """Cycles of a worker to count its regions' elements between limits (``Histogram2D``)."""
    half, vector, limits = data_type == "half", vector_of(target, data_type), levels - 1
    once = sum(_rest(half, n, absolute) + (3 + absolute) * (n // vector) for n in regions)
    return (12 if half else 10) + ((22 if half else 15) + once) * limits + 3 * len(regions) + 10 + 2 * limits


def nan_2d_cycles(target: Target, data_type: str, regions: Iterable[int], *, both: bool) -> int:
    """Cycles of a worker to look through its regions (``HasNaNOrInf2D``), which PopLibs counts for all workers."""
    return target.workers * (9 + sum(_nan(data_type, n, both) for n in regions) + _leave(data_type, both))


def nonlinearity_2d_cycles(target: Target, op: str, data_type: str, regions: Sequence[int], *,
                           in_place: bool = False) -> int:
    """Cycles of a worker with regions of its own (``NonLinearity2D``)."""
    cost, half = _EACH[op, data_type], data_type == "half"
    total = 5 + (1 if op == "SWISH" and in_place else 9)  # PopNN's precedence of operators
    for n in regions:
        loads, rest = divmod(n, vector_of(target, data_type))
        total += (13 if half else 10) + _core(cost, loads) + _left(half, cost[0], rest)
    return total


def gradient_2d_cycles(target: Target, op: str, data_type: str, regions: Sequence[int]) -> int:
    """Cycles of a worker with regions of a gradient (``NonLinearityGrad2D``)."""
    cost, total = _GRADIENTS[op, data_type], 17
    for n in regions:
        loads, rest = divmod(n, vector_of(target, data_type))
        one = cost[0]
        if data_type == "half":
            left = 4 + (2 + one) * (rest >= 2) + (4 + one) * (rest % 2)
        else:
            left = 2 + (1 + one) * (rest % 2)
        total += 10 + _gradient_core(cost, loads) + left
    return total


def _products(vectors: int) -> int:
    return 1 + (7 + 5 * (vectors - 1) if vectors else 0)


def _products_left(elements: int) -> int:
    return 8 + 5 * (elements > 1) + 6 * (elements % 2) if elements else 1


def scalar_multiply_1d_cycles(target: Target, elements: int) -> int:
    """Cycles of a tile to multiply halves by a float (``ScalarMultiply1D``)."""
    workers = target.workers
    last = (elements % (4 * workers) - 1) // 4
    return workers * (51 + max(_products((elements + 4 * (workers - 1 - w)) // (4 * workers))
                               + _products_left(elements % 4 if w == last else 0) for w in range(workers)))


def scalar_multiply_2d_cycles(regions: Sequence[int], *, in_place: bool = False) -> int:
    """Cycles of a worker to multiply regions of halves by a float (``ScalarMultiply2D``)."""
    return (36 if in_place else 37) + sum(17 + _products(n // 4) + _products_left(n % 4) for n in regions)


def dynamic_slice_2d_cycles(data_type: str, regions: Sequence[int], slices: int, *, update: bool = False) -> int:
    """Cycles of a worker to copy `slices` slices of each region (``DynamicSlice2D``, ``DynamicUpdateSlice2D``)."""
    size, step = TYPE_BYTES[data_type], _dynamic_step(data_type)
    doubled = 2 if size == 8 and update else 1
    total = 27
    for region in regions:
        steps = -(-region * doubled // step)
        if size == 1:
            each = 50 + (23 if update else 2) * steps
        elif data_type == "half":
            each = 31 + 2 * steps
        else:
            each = 28 + doubled + steps
        total += each * slices + 13
    return total


@dataclass(frozen=True)
class Work:
    """A worker's comparisons.

    Attributes
    ----------
    counted : int
        Comparisons since the order changed last.
    first : int
        Those up to the end of the first block.
    entries : tuple of (int, int)
        A block's comparisons, and how many there are of such blocks.
    """

    counted: int
    first: int
    entries: tuple[tuple[int, int], ...]


def compare_and_swap_cycles(target: Target, key_type: str, kind: str, work: Sequence[Work], flip: int) -> int:
    """Cycles of a tile to compare and swap (``CompareAndSwapAtDistance``, ``CompareAndSwapAtDistanceKeyVal``).

    Parameters
    ----------
    target : Target
    key_type : str
    kind : {"keys", "values", "secondary"}
        What is swapped: keys alone, keys with values, or with values that decide between equal keys.
    work : sequence of Work
        Of each worker.
    flip : int
        Comparisons after which the order changes.
    """
    cost, slowest = _COSTS[kind, key_type in _FLOATS], 0
    for share in work:
        left, total = flip - share.counted, cost.begin
        for place, (block, count) in enumerate(share.entries):
            first = min(block, count) if place else share.first
            total += int(_entry_cycles(cost, block, count, first, left, flip))
        slowest = max(slowest, total)
    return _OF_A_TILE + target.workers * slowest


def heap_sort_cycles(elements: int, *, values: bool) -> int:
    """Cycles of a worker to sort keys, or keys and values (``HeapSortVertex``, ``HeapSortVertexKV``)."""
    depth = elements.bit_length() - 1
    return (16 if values else 8) * (19 * elements * depth + 6 * elements + 2)


def recursion_cycles(labels: int, *, gradient: bool) -> int:
    """Cycles of a worker for a step: ``CTCAlpha``, ``CTCBeta``, ``CTCGradGivenAlpha``, ``CTCGradGivenBeta``.

    Parameters
    ----------
    labels : int
        Of the vertex, one of which is its neighbour's.
    gradient : bool
    """
    return (_GRADIENT if gradient else _FORWARD) * (labels - 1)


def accuracy_cycles(batch: int) -> int:
    """Cycles of a worker to count right classes (``CalcAccuracy``)."""
    return 14 + 4 * batch


def pool_vertex_cycles(target: Target, maximum: bool, backward: bool, groups: int, loads: int, results: int,
                       work: Iterable[Sequence[Sequence[int]]]) -> int:
    """Cycles of a tile (``MaxPooling``, ``SumPooling``, ``MaxPoolingGrad``, ``MaxPoolingGradientScale``).

    Parameters
    ----------
    target : Target
    maximum, backward : bool
    groups, loads : int
        Of channels; loads of a group.
    results : int
        That are set to a first value.
    work : iterable of sequence of sequence of int
        For each worker, each of its rows and each position of the window how many results there are, less one.
    """
    loops, slowest = KINDS["max" if maximum else "sum"].tiles["bwd" if backward else "fwd"].loops, 0
    for worker, rows in enumerate(work):
        cycles = 23 + int(_zeroed(target, worker, results, loads)) * groups
        if not rows:
            cycles += 1
        else:
            cycles += loops.enter + 6 * (maximum and backward) + 6 + 2 * _LIST
        for positions in rows:
            cycles += _ROW
            for more in positions:
                load = 2 + loads * (3 + loops.load + loops.step * more)
                cycles += _POSITION + groups * load + (groups - 1) * loops.group
        slowest = max(slowest, cycles + 1)
    return 13 + target.workers * slowest
