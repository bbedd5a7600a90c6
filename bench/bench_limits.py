"""What stops block-sparse FP32 products, and slices: the measured limits of this core beside what each reaches.

``python bench/bench_limits.py`` prints tables as Markdown: the machine (multiply-adds of a product's inner loop with
X in each cache, and the memory's rates), rows of a table in memory that are read, written, added to and added up in any
order (rates of bare loops that move the same bytes, of which the one that asks best ahead is the limit, and the ops'
shares), and the products (their share of the peak of multiply-adds in registers alone, with ``out=`` given, and of
their limit). Products have two limits, and the lower one is named:

- *loop*: the product's inner loop on the very list and values of its pattern, one strip of X packed and at rest; no row
  ends, no packing, no result. It is what ports, latencies and the reading of W and X leave of the peak.
- *bytes*: X read once and Y written once, both at once, at the rates that such sizes have here.

Probes and the product take turns in one process, one thread. No product quite reaches its limit: it must do both, and
the end of each block row is a branch that cannot be foretold.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from bench_sparse import print_table

from poplibs_py import popops
from poplibs_py.kernels import kernels
from poplibs_py.kernels.peak import peak_probes
from poplibs_py.kernels.records import record_of
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern, static
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

VECTOR, LINE, STRIP = 16, 64, 64
BLOCKS = (1, 4, 8, 16, 32)  # sides whose inner loops the probes have
CACHES = (("L1", 24 << 10), ("L2", 512 << 10), ("L3", 8 << 20), ("memory", 128 << 20))
LEAST_STREAM = 512 << 10
ROWS_BYTES, BAG = 128 << 20, 32


def probe(name: str, *arguments: type) -> Callable[..., int]:
    """Return a compiled probe by its name."""
    found = [kernel for kernel in kernels("peak") if kernel.name == name]
    if not found:
        raise SystemExit("the probes of inner loops want AVX-512")
    return ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(found[-1].address)


def aligned(count: int) -> np.ndarray:
    """Return so many FP32 zeros that begin on a cache line and have been touched."""
    room = np.empty(count + LINE, np.float32)
    room[:] = 0
    skip = -room.ctypes.data % LINE // 4
    return room[skip:skip + count]


def walk_of(rows: int, vectors: int, places: np.ndarray, values: np.ndarray, x: np.ndarray) -> Callable[[], int]:
    """Return a call that walks a list of blocks of `rows` rows over lines of X."""
    walk = record_of("pop_peak_walk", x=x.ctypes.data, values=values.ctypes.data, list=places.ctypes.data,
                     x_row=x.strides[0], blocks=len(places))
    function = probe(f"walk_{rows}x{vectors}", ctypes.c_void_p)
    kept = (places, values, x)
    return lambda: int(function(walk.ctypes.data)) if kept else 0


def peak_call() -> Callable[[], int]:
    return peak_probes(1)["float32"]


def rates(calls: Sequence[Callable[[], int]], seconds: float) -> list[float]:
    """Return what each call counts, for each second of its median time."""
    counts = [call() for call in calls]
    timings = take_turns(calls, seconds=seconds, clock=time.process_time)
    return [n / t.seconds for n, t in zip(counts, timings, strict=True)]


def best_of(calls: Sequence[Callable[[], int]], seconds: float) -> Callable[[], int]:
    """Return the call with the highest rate."""
    return calls[int(np.argmax(rates(calls, seconds)))]


def counted(call: Callable[[], object], count: int) -> Callable[[], int]:
    """Return a call that does the same and returns how many things that were."""
    def run() -> int:
        call()
        return count

    return run


def read_call(size: int) -> Callable[[], int]:
    """Read so many bytes in order; the call returns how many they were."""
    x = aligned(size // 4).reshape(-1, STRIP)
    call = walk_of(1, 4, np.arange(len(x), dtype=np.int32), np.ones(len(x), np.float32), x)
    return lambda: call() * 2  # a multiply-add for each four bytes


def write_call(size: int) -> Callable[[], int]:
    """Write so many bytes past the caches."""
    to = aligned(size // 4)
    function = probe("write_past_caches", ctypes.c_int64, ctypes.c_int64)
    return lambda: int(function(to.ctypes.data, to.nbytes))


def row_calls(kind: str, table: np.ndarray, rows: np.ndarray, places: np.ndarray) -> list[Callable[[], int]]:
    """Return bare loops, which differ in how far ahead they ask for rows; calls return how many bytes rows have.

    Parameters
    ----------
    kind : str
        ``"gather"``, to `rows`, ``"scatter"``, from them, ``"add"``, or ``"bags"`` of `BAG` rows, to the first of them.
    table, rows : numpy.ndarray
        Of whole lines that begin on a line.
    places : numpy.ndarray of int64
        Which rows of the table.
    """
    function, operands = probe(f"rows_{kind}", ctypes.c_void_p), (table, rows, places)

    def loop(ahead: int, begins: int) -> Callable[[], int]:
        spec = record_of("pop_peak_rows", table=table.ctypes.data, rows=rows.ctypes.data, list=places.ctypes.data,
                         bytes=table.strides[0], count=len(places), ahead=ahead, begins=begins, bag=BAG)
        return lambda: int(function(spec.ctypes.data)) if operands else 0

    return [loop(*way) for way in itertools.product((8, 16, 24, 32, 48), (0, 1))]


def row_ops(table: np.ndarray, rows: np.ndarray, places: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return the ops that do what the loops of `row_calls` do."""
    bags, sums = places.reshape(-1, BAG), np.empty((len(places) // BAG, table.shape[1]), np.float32)
    return {
        "gather": lambda: popops.gather(table, places, out=rows),
        "scatter": lambda: popops.scatter(table, places, rows, out=table),
        "add": lambda: popops.multi_update_add(table, rows, places, out=table),
        "bags": lambda: popops.embedding_bag(table, bags, out=sums),
    }


def print_rows(seconds: float) -> None:
    """Rates of the best bare loop for rows in any order, and the ops' shares of them."""
    printed = []
    for size in (256, 512, 1024, 2048):
        table = aligned(ROWS_BYTES // 4).reshape(-1, size // 4)
        places = np.random.default_rng(1).permutation(len(table))[:len(table) // 4]
        rows = aligned(len(places) * size // 4).reshape(len(places), -1)
        cells = []
        for kind, op in row_ops(table, rows, places).items():
            loops = row_calls(kind, table, rows, places)
            limit, reached = rates([best_of(loops, seconds), counted(op, rows.nbytes)], seconds)
            cells.append(f"{reached / limit:.2f} of {limit / 1e9:.1f}")
        printed.append((size, *cells))
    print_table(["bytes of a row", *(f"{name}, of GB/s" for name in ("gather", "scatter", "add", "bags of 32"))],
                printed)


def print_machine(seconds: float) -> None:
    """Multiply-adds of each inner loop with X in each cache, and rates of reading and writing."""
    rng = np.random.default_rng(1)
    rows = []
    for r, v in ((1, 1), (1, 4), (4, 1), (4, 4), (8, 1), (8, 2)):
        deep, shares = 1 if r == 1 else 4, []
        for _, size in CACHES[:3]:
            x = aligned(size // 4).reshape(-1, VECTOR * v)
            places = rng.integers(0, len(x) // deep, 4096).astype(np.int32)
            peak, rate = rates([peak_call(), walk_of(r, v, places, np.ones(4096 * r * deep, np.float32), x)], seconds)
            shares.append(f"{rate / peak:.2f}")
        rows.append((f"{r} x {v}", *shares))
    print_table(["rows x vectors, blocks at random", *(f"of peak, X in {name}" for name, _ in CACHES[:3])], rows)
    rows = [(name, *(f"{rates([call], seconds)[0] / 1e9:.0f}" for call in (read_call(size), write_call(size))))
            for name, size in CACHES[1:]]
    print_table(["bytes in", "read GB/s", "written past the caches GB/s"], rows)


def pattern_walk(w: BlockSparseMatrix, n: int) -> Callable[[], int]:
    """The inner loop of a product on its own pattern, over the first strip of a packed X."""
    block, vectors = w.block_shape[0], min(n, STRIP) // VECTOR
    rows, places = min(block, 8), w.column_indices
    x = aligned(w.shape[1] * VECTOR * vectors).reshape(-1, VECTOR * vectors)
    lengths = np.diff(w.row_offsets)
    if block == 1:  # four rows go in step
        row = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(places)) - np.repeat(w.row_offsets[:-1], lengths)
        places = places[np.lexsort((row, place, row // 4))]
    else:  # a walk's blocks are four deep and at most eight high: one group of rows after the other
        fours = block // 4
        split = np.split((places[:, None] * fours + np.arange(fours)).ravel(), w.row_offsets[1:-1] * fours)
        places = np.concatenate([np.tile(part, block // rows) for part in split])
    places = np.ascontiguousarray(places, np.int32)
    return walk_of(rows, min(vectors, {1: 4, 4: 4, 8: 2}[rows]), places, w.blocks.reshape(-1), x)


def measure(block: int, size: int, n: int, density: float, memory: Callable[[int], tuple[float, float]],
            seconds: float) -> tuple[float, float, float, float]:
    """Return GFLOP/s and the shares of the peak: reached, by the loop, by bytes."""
    w = random_matrix(random_pattern(size, size, block, density, 3))
    x = np.random.default_rng(4).standard_normal((size, n)).astype(np.float32)
    out, flops = aligned(size * n).reshape(size, n), 2 * w.nnz * n
    product = partial(static.sparse_dense_matmul, w, x, out=out)
    peak, loop, rate = rates([peak_call(), pattern_walk(w, n), counted(product, flops)], seconds)
    read, write = memory(4 * size * n)
    by_bytes = flops / (4 * size * n * max(1 / read, 1 / write))
    return rate / 1e9, rate / peak, loop / peak, by_bytes / peak


def print_products(blocks: Sequence[int], sizes: Sequence[int], columns: Sequence[int], densities: Sequence[float],
                   seconds: float) -> None:
    """A row for each block size, m = k and n: over the densities, what is reached and what the limit is."""
    known: dict[int, tuple[float, float]] = {}

    def memory(size: int) -> tuple[float, float]:
        size = max(size, LEAST_STREAM)
        if size not in known:
            known[size] = tuple(rates([read_call(size), write_call(size)], seconds))
        return known[size]

    rows = []
    for block, size, n in itertools.product(blocks, sizes, columns):
        texts, parts = [], []
        for density in densities:
            _, share, loop, by_bytes = measure(block, size, n, density, memory, seconds)
            limit = min(loop, by_bytes)
            texts.append(f"{share:.2f} of {limit:.2f}, {'loop' if limit == loop else 'bytes'}")
            parts.append(share / limit)
        rows.append((block, size, n, *texts, f"{statistics.median(parts):.2f}"))
    print_table(["b", "m = k", "n", *(str(Fraction(d)) for d in densities), "of the limit, median"], rows)


def main() -> None:
    """Print the tables; see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.1, help="about how long the calls of a cell take turns")
    parser.add_argument("--block", default=",".join(map(str, BLOCKS)))
    parser.add_argument("--size", default="1024,2048,4096", help="m = k (default: %(default)s)")
    parser.add_argument("--n", default="16,64,256,1024", help="columns of X (default: %(default)s)")
    parser.add_argument("--density", default="1/2,1/8,1/32")
    parser.add_argument("--part", choices=("machine", "rows", "products"), action="append")
    given = parser.parse_args()
    blocks, sizes, columns = ([int(word) for word in text.split(",")] for text in (given.block, given.size, given.n))
    if not set(blocks) <= set(BLOCKS):
        parser.error(f"--block: got {given.block}; allowed: {', '.join(map(str, BLOCKS))}")
    if min(columns) < VECTOR:
        parser.error(f"--n: got {given.n}; allowed: {VECTOR} and more, a vector of columns")
    parts = given.part or ("machine", "rows", "products")
    with limited_threads(1):
        if "machine" in parts:
            print_machine(given.seconds)
        if "rows" in parts:
            print_rows(given.seconds)
        if "products" in parts:
            densities = [float(Fraction(word)) for word in given.density.split(",")]
            print_products(blocks, sizes, columns, densities, given.seconds)


if __name__ == "__main__":
    main()
