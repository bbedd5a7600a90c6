"""How rows are put in order: params to a program of the sort family.

Codes have whole numbers as keys, in the order of what they stand for: `key_facts` says which. The program's operands
are the numbers, the results, and what else is put in the numbers' order.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...formats import Array, Format
from ...kernels import select
from ...kernels.records import dtype_of
from ...log import tell
from ...memo import remembered
from ...ops.one_kernel import OneKernel, shared
from ...program import Program, threads_for

LONGEST = (1 << 32) - 1
"""Elements of a row: places are kept in 32 bits."""

_AXIS, _SPEC, _ITEM = dtype_of("pop_sort_axis"), dtype_of("pop_sort"), dtype_of("pop_sort_item")
_THREAD_ELEMENTS = 1 << 14  # that are worth a thread
_ALL = (1 << 32) - 1


class OrderParams(NamedTuple):
    """What is put in order, and how the operands lie. Results are in C order.

    Attributes
    ----------
    kernel : str
        ``"sort"`` for the numbers alone, ``"order"`` for the best of them with their places, ``"partition"``.
    element : Format or numpy.dtype
        Of the numbers.
    shape, strides : tuple of int
        Of the numbers; strides in bytes.
    axis : int
        That rows lie along.
    k : int
        Elements of a row of the results.
    descending : bool
        Whether the greatest are best.
    backwards : bool
        Whether the best are last in a row.
    other : tuple of int or None
        Bytes of an element of what else is put in their order, and its strides.
    values, indices, others : int
        Where these results begin, in bytes; -1: there are none.
    kth : int
        Of a partition: the place whose element is where sorting would put it.
    """

    kernel: str
    element: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    axis: int
    k: int
    descending: bool
    backwards: bool = False
    other: tuple[int, ...] | None = None
    values: int = -1
    indices: int = -1
    others: int = -1
    kth: int = 0

    @property
    def code_bytes(self) -> int:
        """Bytes of a number."""
        return int(self.element.itemsize)

    def __str__(self) -> str:
        name = self.element.name
        best = "" if self.k == self.shape[self.axis] else f", the best {self.k}"
        return f"{self.shape} along {self.axis}, {name}{best}"


@remembered()
def lower(params: OrderParams, threads: int) -> OneKernel:
    """Return the program that puts rows in order, on at most so many threads."""
    p, n = params, params.shape[params.axis]
    rows = prod(extent for d, extent in enumerate(p.shape) if d != p.axis)
    facts, ranks, codes = key_facts(p.element)
    kept, out_step = _kept(p)
    spec = np.zeros(1, _SPEC)
    for name, value in facts.items():
        spec[name] = value
    spec["n"], spec["k"], spec["stride"], spec["out_step"] = n, p.k, p.strides[p.axis], out_step
    spec["code_bytes"], spec["descending"], spec["backwards"] = p.code_bytes, p.descending, p.backwards
    if p.other is not None:
        spec["other_bytes"], spec["other_stride"] = p.other[0], p.other[1 + p.axis]
    for name in ("values", "indices", "others", "kth"):
        spec[name] = getattr(p, name)
    spec["kept"], spec["kept_count"] = kept.ctypes.data, kept.size
    spec["ranks"], spec["codes"] = ranks.ctypes.data, codes.ctypes.data
    threads = threads_for(rows * n, _THREAD_ELEMENTS, min(threads, max(1, rows)))
    selection = select("sort", p.kernel, "any")
    operands = 1 + (p.other is not None) + sum(number > 0 for number in (p.values, p.indices, p.others))
    executable = Program((shared(selection.kernel, _ITEM, spec, rows, threads),), operands, threads,
                         arena_bytes(p.kernel, spec), tables=(spec, kept, ranks, codes)).executable(threads)
    program = OneKernel(params, executable, selection, (lower, (params, threads)), way=params.kernel)
    tell("popops", program)
    return program


def arena_bytes(kernel: str, spec: Array) -> int:
    """Return the bytes that a row takes while it is put in order, as the kernel lays them out."""
    found, asked = np.zeros(1, np.int64), select("sort", f"{kernel}_arena", "any").kernel
    Program((shared(asked, _ITEM, spec, 1, 1),), 1, 1).executable(1)(found)
    return int(found[0])


def _kept(p: OrderParams) -> tuple[Array, int]:
    """The axes that rows lie beside, and how far apart neighbours along a row are in the results, in elements."""
    kept: list[tuple[int, ...]] = []
    step = along = 1
    for d in reversed(range(len(p.shape))):
        if d == p.axis:
            along, step = step, step * p.k
            continue
        other = 0 if p.other is None else p.other[1 + d]
        kept.insert(0, (p.shape[d], p.strides[d], other, step))
        step *= p.shape[d]
    return np.array(kept, _AXIS), along


@remembered(weight=16)
def key_facts(element: Any) -> tuple[dict[str, int], Array, Array]:
    """Return how codes become keys: fields of a `pop_sort`, and for codes of one byte their ranks and their order.

    NaN is the greatest number. Equal ranks are those of equal numbers: of zeros, and of NaNs.
    """
    nothing, bits = np.zeros(0, np.uint8), 8 * int(element.itemsize)
    if bits == 8:
        return {"last": _ALL}, *_of_bytes(element)
    sign = 1 << (bits - 1)
    if not isinstance(element, Format):
        facts = {"sign": sign if element.kind == "i" else 0, "last": _ALL, "zero_step": 0}
        return facts, nothing, nothing
    nans = (1 << element.mantissa_bits) - 1  # of each sign
    flips, turn = sign - 1, nans
    infinity = sign - 1 - nans
    facts = {"sign": sign, "flips": flips, "turn": turn, "last": (infinity ^ sign) - turn,
             "minus_zero": flips - turn, "zero_step": 1}
    return facts, nothing, nothing


def _of_bytes(element: Any) -> tuple[Array, Array]:
    """Ranks of codes of one byte, and the codes in order."""
    codes = np.arange(256, dtype=np.uint8)
    if not isinstance(element, Format):
        numbers = codes.view(np.int8 if element.kind == "i" else np.uint8).astype(np.float64)
    else:
        with np.errstate(invalid="ignore"):
            numbers = codes.view(np.dtype(element.dtype)).astype(np.float64)
    nan = np.isnan(numbers)
    order = np.lexsort((np.signbit(numbers) == nan, np.where(nan, np.inf, numbers), nan)).astype(np.uint8)
    ranked = np.where(nan, np.inf, numbers)[order]
    new = (ranked[1:] != ranked[:-1]) | (nan[order][1:] != nan[order][:-1])
    ranks = np.zeros(256, np.uint8)
    ranks[order] = np.concatenate([[0], np.cumsum(new)]).astype(np.uint8)
    return ranks, order
