"""Slices by index: rows and elements read and updated, beside NumPy and torch.

8,192 rows of a table of 100,000 are read (`gather`), replaced (`scatter`) and added to (`multi_update_add`, in place),
rows of 64 bytes to 4 KiB; then bags of 32 rows, and a million single elements of tables in the second-level cache, in
the third and in memory. ``extra_info`` holds the bytes of rows per second; `bench_limit` is the best bare loop that
does the same, and ``python bench/bench_limits.py --part rows`` prints shares of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bench_limits import aligned, best_of, row_calls

from poplibs_py import popops, testing
from poplibs_py.formats import FP16, FP32, Format
from poplibs_py.kernels import available_levels

WIDTHS = {"64 bytes": 16, "256 bytes": 64, "1 KiB": 256, "4 KiB": 1024}
TABLES = {"16 Ki": 1 << 14, "1 Mi": 1 << 20, "16 Mi": 1 << 24}
ENTRIES, LOOKUPS, BAG, SECONDS = 100_000, 8192, 32, 0.1
widths = pytest.mark.parametrize("width", WIDTHS)
tables = pytest.mark.parametrize("table", TABLES)
formats = pytest.mark.parametrize("fmt", [FP32, FP16], ids=str)
ROWS: dict[str, Callable[..., Any]] = {
    "gather": lambda x, u, i, out: popops.gather(x, i, out=out),
    "scatter": lambda x, u, i, out: popops.scatter(x, i, u, out=x),
    "multi_update_add": lambda x, u, i, out: popops.multi_update_add(x, u, i, out=x),
}
NUMPY: dict[str, Callable[..., Any]] = {
    "gather": lambda x, u, i, out: np.take(x, i, 0, out=out, mode="clip"),
    "scatter": lambda x, u, i, out: x.__setitem__(i, u),
}
TORCH: dict[str, Callable[..., Any]] = {
    "gather": lambda torch, x, u, i, out: torch.index_select(x, 0, i, out=out),
    "scatter": lambda torch, x, u, i, out: x.index_copy_(0, i, u),
    "multi_update_add": lambda torch, x, u, i, out: x.index_add_(0, i, u),
}


def operands(fmt: Format, width: int) -> tuple[Any, Any, Any, Any]:
    """A table, updates, indices, and what receives rows."""
    rng = np.random.default_rng(1)
    x, u = (np.full((n, width), 0.5, fmt.dtype) for n in (ENTRIES, LOOKUPS))
    return x, u, rng.integers(0, ENTRIES, LOOKUPS), np.empty_like(u)


def timed(benchmark: Any, call: Callable[[], object], nbytes: int, **facts: Any) -> None:
    """Time a call and store its rate."""
    benchmark(call)
    benchmark.extra_info.update(facts, level=available_levels()[-1], bytes=nbytes)
    if benchmark.stats is not None:
        benchmark.extra_info["byte_rate"] = nbytes / benchmark.stats.stats.median


@pytest.mark.parametrize("name", ROWS)
@formats
@widths
def bench_poplibs_py(benchmark: Any, name: str, fmt: Format, width: str) -> None:
    """This library; the answer is checked on a part."""
    x, u, i, out = operands(fmt, WIDTHS[width])
    testing.check(name, x[:99], *((i[:9] % 99,) if name == "gather" else
                                  (i[:9] % 99, u[:9]) if name == "scatter" else (u[:9], i[:9] % 99)))
    timed(benchmark, lambda: ROWS[name](x, u, i, out), u.nbytes, library="poplibs_py")


@pytest.mark.parametrize("name", NUMPY)
@formats
@widths
def bench_numpy(benchmark: Any, name: str, fmt: Format, width: str) -> None:
    """NumPy: `take` and assignment."""
    x, u, i, out = operands(fmt, WIDTHS[width])
    timed(benchmark, lambda: NUMPY[name](x, u, i, out), u.nbytes, library="numpy")


@pytest.mark.parametrize("name", TORCH)
@formats
@widths
def bench_torch(benchmark: Any, torch: Any, name: str, fmt: Format, width: str) -> None:
    """Torch: `index_select`, `index_copy_`, `index_add_`."""
    x, u, i, out = (torch.from_numpy(array) for array in operands(fmt, WIDTHS[width]))
    timed(benchmark, lambda: TORCH[name](torch, x, u, i, out), u.nbytes, library="torch")


@pytest.mark.parametrize("kind", ["gather", "scatter", "add", "bags"])
@widths
def bench_limit(benchmark: Any, kind: str, width: str) -> None:
    """The best bare loop that moves the same bytes: what rows are held against."""
    if kind == "bags" and WIDTHS[width] < 64:
        pytest.skip("the loop has no such rows")
    table, rows = (aligned(n * WIDTHS[width]).reshape(n, -1) for n in (ENTRIES, LOOKUPS))
    loops = row_calls(kind, table, rows, np.random.default_rng(1).integers(0, ENTRIES, LOOKUPS))
    timed(benchmark, best_of(loops, SECONDS), rows.nbytes, library="limit")


@widths
def bench_bags(benchmark: Any, width: str) -> None:
    """Sums of 32 rows each."""
    x, _, i, _ = operands(FP32, WIDTHS[width])
    bags = i.reshape(-1, BAG)
    testing.check("embedding_bag", x[:99], bags[:3] % 99)
    timed(benchmark, lambda: popops.embedding_bag(x, bags), LOOKUPS * x[0].nbytes, library="poplibs_py")


@widths
def bench_bags_torch(benchmark: Any, torch: Any, width: str) -> None:
    """Torch's."""
    x, _, i, _ = operands(FP32, WIDTHS[width])
    table, bags = torch.from_numpy(x), torch.from_numpy(i.reshape(-1, BAG))
    bag = torch.nn.functional.embedding_bag
    timed(benchmark, lambda: bag(bags, table, mode="sum"), LOOKUPS * x[0].nbytes, library="torch")


@pytest.mark.parametrize("library", ["poplibs_py", "numpy", "torch"])
@tables
def bench_elements(benchmark: Any, library: str, table: str) -> None:
    """A million elements."""
    n = TABLES[table]
    x, i, out = np.ones(n, np.float32), np.random.default_rng(1).integers(0, n, 1 << 20), np.empty(1 << 20, np.float32)
    calls = {"poplibs_py": lambda: popops.gather(x, i, out=out), "numpy": lambda: np.take(x, i, out=out, mode="clip")}
    if library == "torch":
        torch = pytest.importorskip("torch")
        tensors = [torch.from_numpy(array) for array in (x, i, out)]
        calls["torch"] = lambda: torch.index_select(tensors[0], 0, tensors[1], out=tensors[2])
    timed(benchmark, calls[library], out.nbytes, library=library)
