"""Block-sparse products beside the sweep's: every format, the three passes, real matrices, a call's own cost.

``python bench/bench_sparse.py`` prints the figures as Markdown: the grid of FP32 against the sparse routes of the
libraries that are installed, formats, passes, with ``--matrix`` patterns from files, graphs with power-law rows, and
the share of the ideal speed-up over our own dense products. ``pytest bench
--benchmark-enable`` runs the passes one by one. In each row all calls take turns in one process, one thread each;
figures are medians, and every answer, the peers' too, is held to its bound before it is timed. The sweep over the
paper's axes, with dense products, is `bench_sparsity.py`.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from poplibs_py.formats import FORMATS
from poplibs_py.kernels import available_levels
from poplibs_py.kernels.peak import peak_of, peak_probes
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.popsparse.sddmm.bound import sparse_grad_w_bound
from poplibs_py.popsparse.spmm.bound import sparse_dense_matmul_bound
from poplibs_py.report.peers import installed, limited_threads
from poplibs_py.report.sparsity import TYPES, Case, PatternFile, Record, Sweep
from poplibs_py.report.sparsity.charts import break_even_density
from poplibs_py.report.sparsity.methods import method_contestants, peer_contestants
from poplibs_py.report.timing import take_turns

SIZE, COLUMNS = 1024, 256
BLOCKS = (1, 4, 8, 16, 32)
DENSITIES = (1 / 2, 1 / 8, 1 / 32, 1 / 128)


def operands(block: int, density: float, fmt) -> tuple[BlockSparseMatrix, np.ndarray]:
    w = random_matrix(random_pattern(SIZE, SIZE, block, density, 3), fmt, 3)
    return w, np.random.default_rng(4).standard_normal((SIZE, COLUMNS)).astype(fmt.dtype)


@pytest.mark.parametrize("density", [1 / 8, 1 / 32])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("task", ["forward", "grad_a", "grad_w"])
def bench_pass(task, fmt, block, density, measure, benchmark):
    w, x = operands(block, density, fmt)
    benchmark.group = f"{task} {fmt} density {density:.4g}"
    op = w.T if task == "grad_a" else w
    if task == "grad_w":
        out = np.empty(w.blocks.shape, np.float32)
        got = static.sparse_grad_w(w, x, x, out=out).reshape(-1, block, block)
        ball = sparse_grad_w_bound(w, x, x, out_dtype="float32")
        stored = BlockSparseMatrix(w.pattern, np.ones_like(got)).to_dense() != 0
        assert np.all(ball.contains(np.where(stored, BlockSparseMatrix(w.pattern, got).to_dense(), ball.centre[0]))[0])
        call = lambda: static.sparse_grad_w(w, x, x, out=out)  # noqa: E731
    else:
        out = np.empty((SIZE, COLUMNS), np.float32)
        got = static.sparse_dense_matmul(op, x, out=out)
        assert np.all(sparse_dense_matmul_bound(op, x, out_dtype="float32").contains(got))
        call = lambda: static.sparse_dense_matmul(op, x, out=out)  # noqa: E731
    measure(call, flops=2.0 * w.nnz * COLUMNS, format_name=fmt.name, task=task, block=block, density=density)


@pytest.mark.parametrize("module", [static, dynamic], ids=["static", "dynamic"])
def bench_call_overhead(module, measure, benchmark):
    benchmark.group = "call of 8 x 8 by 8 x 8"
    w = random_matrix(random_pattern(8, 8, 4, 1.0, 3))
    x, out = np.ones((8, 8), np.float32), np.empty((8, 8), np.float32)
    assert np.all(sparse_dense_matmul_bound(w, x).contains(module.sparse_dense_matmul(w, x, out=out)))
    measure(lambda: module.sparse_dense_matmul(w, x, out=out), flops=2.0 * w.nnz * 8)


@dataclass(frozen=True)
class Cell:
    """One product's operations on stored values per second, their share of the measured peak, and the peers' rates."""

    case: Case
    type: str
    rate: float
    of_peak: float
    peers: dict[str, float]

    def over(self, *names: str) -> float | None:
        """How many times faster than the fastest of some peers' routes ("mkl csr"), or than that of all."""
        found = [rate for name, rate in self.peers.items() if not names or name in names]
        return self.rate / max(found) if found else None


def measure_cell(case: Case, type_name: str, method: str, libraries: Sequence[str], seconds: float) -> Cell:
    """Check and time one of our methods beside the sparse routes of the peers."""
    (own,) = method_contestants(case, type_name, [method])
    task = method.partition("_")[2] or "forward"
    rivals = list(peer_contestants(case, libraries, [task], ["FP32"], dense=False)) if libraries else []
    for contestant in (own, *rivals):
        error, share = contestant.judge()
        assert share <= 1, f"{case} {contestant.library}: error {error:.3g}, {share:.3g} times the bound"
    probes = peak_probes(1)
    calls = [*probes.values(), own.run, *(c.run for c in rivals)]
    timings = take_turns(calls, seconds=seconds, clock=time.process_time)
    rates = {unit: probe() / t.seconds for (unit, probe), t in zip(probes.items(), timings, strict=False)}
    own_time, *others = (t.seconds for t in timings[len(probes):])
    peers = {f"{c.library} {c.method[:3]}": case.flops / s for c, s in zip(rivals, others, strict=True)}
    rate = case.flops / own_time
    return Cell(case, type_name, rate, rate / peak_of(TYPES[type_name].name, rates), peers)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(_text(value) for value in row) + " |", flush=True)
    print()


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _spread(values: Sequence[float | None]) -> str:
    found = [v for v in values if v is not None]
    return f"{min(found):.2f} .. {statistics.median(found):.2f} .. {max(found):.2f}" if found else ""


def print_grid(sizes: Sequence[int], columns: Sequence[int], densities: Sequence[float], libraries: Sequence[str],
               seconds: float) -> list[Cell]:
    """FP32: a row for each block size and m = k, least .. median .. largest over n and densities."""
    cells = []
    for block, size in itertools.product(BLOCKS, sizes):
        for n, density in itertools.product(columns, densities):
            cells.append(measure_cell(Case(size, size, n, density, block), "FP32", "static", libraries, seconds))
            c = cells[-1]
            print(f"{c.case}: {c.rate / 1e9:.0f} GFLOP/s, peers "
                  + ", ".join(f"{k} {v / 1e9:.0f}" for k, v in c.peers.items()), file=sys.stderr, flush=True)
    keys = dict.fromkeys((c.case.block, c.case.m) for c in cells)
    rows = []
    for key in [*keys, *((b, "all") for b in BLOCKS)]:
        mine = [c for c in cells if c.case.block == key[0] and key[1] in (c.case.m, "all")]
        dense_enough = [c.of_peak for c in mine if c.case.density >= 1 / 32]
        rows.append((*key, _spread([c.rate / 1e9 for c in mine]), _spread([c.over() for c in mine]),
                     _spread([c.over("mkl csr") for c in mine]), _spread([c.over("scipy bsr") for c in mine]),
                     _spread(dense_enough)))
    heads = ["FP32, b", "m = k", "GFLOP/s", "x best peer", "x MKL CSR", "x SciPy BSR", "of peak, density >= 1/32"]
    print_table(heads, rows)
    return cells


def print_formats(libraries: Sequence[str], seconds: float) -> None:
    """Every type at m = k = 1024 and 4096, n = 256, beside the best peer, which multiplies in FP32."""
    heads = ["n = 256: b", "m = k", "density", *(f"{t} GFLOP/s" for t in TYPES), *(f"{t} x best peer" for t in TYPES)]
    rows = []
    for block, size, density in itertools.product((4, 8, 16, 32), (1024, 4096), DENSITIES):
        case = Case(size, size, 256, density, block)
        found = [measure_cell(case, t, "static", libraries, seconds) for t in TYPES]
        rows.append((block, size, str(Fraction(density)), *(c.rate / 1e9 for c in found), *(c.over() for c in found)))
    print_table(heads, rows)


def print_passes(seconds: float) -> None:
    """The forward product and both gradients at m = k = 1024, n = 256."""
    methods = ("static", "static_grad_a", "static_grad_w")
    rows = []
    for block, density, type_name in itertools.product(BLOCKS, (1 / 8, 1 / 32), TYPES):
        case = Case(SIZE, SIZE, COLUMNS, density, block)
        found = [measure_cell(case, type_name, m, [], seconds).rate / 1e9 for m in methods]
        rows.append((type_name, block, str(Fraction(density)), *found))
    print_table(["type", "b", "density", "forward GFLOP/s", "GradA", "GradW"], rows)


def print_matrices(files: Sequence[str], libraries: Sequence[str], seconds: float) -> None:
    """Patterns from files, single elements in FP32, and both gradients."""
    rows, over = [], []
    for path, n in itertools.product(files, (64, 256)):
        source = PatternFile.read(path)
        case = Case.from_file(source, n, 1)
        cell = measure_cell(case, "FP32", "static", libraries, seconds)
        grads = [measure_cell(case, "FP32", m, [], seconds).rate / 1e9 for m in ("static_grad_a", "static_grad_w")]
        over.append(cell.over("mkl csr"))
        rows.append((source.name[:48], f"{case.m}, {case.k}", n, cell.case.density, cell.rate / 1e9, over[-1],
                     cell.over(), *grads))
    rows.append(("least .. median .. largest", "", "", "", "", _spread(over), "", "", ""))
    print_table(["matrix", "m, k", "n", "density", "GFLOP/s", "x MKL CSR", "x best peer", "GradA", "GradW"], rows)


def power_law_graph(nodes: int, degree: int, exponent: float = 2.3, seed: int = 7) -> PatternFile:
    """Return the adjacency of a random graph whose degrees, in and out, follow a power law (Chung and Lu's model).

    Nodes are in random order, as a graph's mostly are; edges that are drawn twice count once.
    """
    rng = np.random.default_rng(seed)
    weights = (np.arange(nodes) + nodes**0.25) ** (-1 / (exponent - 1))
    ends = np.minimum(np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random((2, nodes * degree))), nodes - 1)
    rows, columns = (rng.permutation(nodes)[side] for side in ends)
    matrix = sparse.csr_array((np.ones(rows.size, np.float32), (rows, columns)), shape=(nodes, nodes))
    matrix.sum_duplicates()
    return PatternFile(f"power law, {nodes} nodes, {matrix.nnz / nodes:.1f} edges each", matrix)


def print_graphs(libraries: Sequence[str], seconds: float) -> None:
    """Single elements in FP32 where rows follow a power law, beside MKL's CSR."""
    rows, over = [], []
    for (nodes, degree), n in itertools.product(((4096, 16), (16384, 8), (16384, 32), (65536, 8)), (16, 64, 256)):
        source = power_law_graph(nodes, degree)
        lengths = np.diff(source.matrix.indptr)
        cell = measure_cell(Case.from_file(source, n, 1), "FP32", "static", libraries, seconds)
        over.append(cell.over("mkl csr"))
        rows.append((source.name, int(np.median(lengths)), int(lengths.max()), n, cell.rate / 1e9, cell.of_peak,
                     over[-1], cell.over()))
    rows.append(("least .. median .. largest", "", "", "", "", "", _spread(over), ""))
    print_table(["graph", "median row", "longest", "n", "GFLOP/s", "of peak", "x MKL CSR", "x best peer"], rows)


def print_ideal(sizes: Sequence[int], seconds: float) -> None:
    """Share of the ideal speed-up over our own dense product of the type, and break-even densities.

    Blocks of 8 and more, n of 64 and more, densities 1/4 to 1/32; the ideal is one over the density. The last row of
    each type has all of its cells, and the worst is named.
    """
    densities, columns = (1 / 4, 1 / 8, 1 / 16, 1 / 32), (64, 256, 1024)
    sweep = Sweep(tuple(t for t in TYPES if t != "FP16"), ("dense", "static"), (), 1, seconds)
    found: dict[tuple[str, int], list[Record]] = {}
    for m, n, block, density in itertools.product(sizes, columns, (8, 16, 32), densities):
        for r in sweep.run(Case(m, m, n, density, block)):
            assert r.valid, r
            if r.method == "static_sparse":
                found.setdefault((r.type, block), []).append(r)
        print(Case(m, m, n, density, block), file=sys.stderr, flush=True)
    rows = []
    for kind in sweep.types:
        for block in (8, 16, 32, "all"):
            mine = [r for (t, b), records in found.items() if t == kind and block in (b, "all") for r in records]
            worst = min(mine, key=lambda r: r.of_ideal or 0.0)
            even = [break_even_density([(r.density, r.x_dense or 0.0) for r in mine if (r.m, r.n, r.block_size) == key])
                    for key in dict.fromkeys((r.m, r.n, r.block_size) for r in mine)]
            least = min((d or 0.0 for d in even), default=0.0)
            where = f"m = {worst.m}, n = {worst.n}, b = {worst.block_size}, density {Fraction(worst.density)}"
            rows.append((kind, block, len(mine), _spread([r.of_ideal for r in mine]), where,
                         _spread([r.flop_rate / 1e9 for r in mine]), f"{Fraction(least).limit_denominator(64)}"))
    print_table(["type", "b", "cells", "share of the ideal", "worst", "GFLOP/s", "least break-even density"], rows)


def main() -> None:
    """Print the figures; see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="about how long the calls of a row take turns")
    parser.add_argument("--size", default="1024,2048,4096", help="m = k of the grid (default: %(default)s)")
    parser.add_argument("--n", default="16,64,256,1024", help="columns of X in the grid (default: %(default)s)")
    parser.add_argument("--density", default="1/2,1/8,1/32,1/128", help="of the grid (default: %(default)s)")
    parser.add_argument("--peer", default=",".join(p for p in ("scipy", "mkl", "torch") if p in installed()))
    parser.add_argument("--matrix", action="append", default=[], metavar="FILE", help="may be given again")
    every = ("grid", "formats", "passes", "matrices", "graphs", "ideal")
    parser.add_argument("--part", choices=every, action="append")
    given = parser.parse_args()
    libraries = [name for name in given.peer.split(",") if name in installed()]
    parts = given.part or every
    sizes, columns = ([int(word) for word in text.split(",")] for text in (given.size, given.n))
    densities = [float(Fraction(word)) for word in given.density.split(",")]
    print(f"Level {available_levels()[-1]}, one thread.\n")
    with limited_threads(1):
        if "grid" in parts:
            print_grid(sizes, columns, densities, libraries, given.seconds)
        if "formats" in parts:
            print_formats(libraries, given.seconds)
        if "passes" in parts:
            print_passes(given.seconds)
        if "matrices" in parts and given.matrix:
            print_matrices(given.matrix, libraries, given.seconds)
        if "graphs" in parts:
            print_graphs(libraries, given.seconds)
        if "ideal" in parts:
            print_ideal(sizes, given.seconds)


if __name__ == "__main__":
    main()
