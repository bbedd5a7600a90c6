"""Slices by index: rows and elements read and updated, beside NumPy and torch.

8,192 rows of a table of 100,000 are read (`gather`), replaced (`scatter`) and added to (`multi_update_add`, in place),
rows of 64 bytes to 4 KiB; then bags of 32 rows, and a million single elements of tables in the second-level cache, in
the third and in memory. Rows of a table of 128 MiB are beside the bare loops of ``bench_limits.py`` too. ``python
bench/bench_classes.py rows elements`` prints ratios.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
from bench_limits import aligned, row_calls, row_ops

from poplibs_py import popops, testing
from poplibs_py.formats import FP16, FP32, Format

WIDTHS = {"64 bytes": 16, "256 bytes": 64, "1 KiB": 256, "4 KiB": 1024}
TABLES = {"16 Ki": 1 << 14, "1 Mi": 1 << 20, "16 Mi": 1 << 24}
ENTRIES, LOOKUPS, BAG = 100_000, 8192, 32
Calls = dict[str, Callable[[], Any]]
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


def rows() -> Iterator[tuple[str, str, Callable[[], Calls]]]:
    """Classes, rows, and what makes a row's calls."""
    for name, fmt, width in product(ROWS, (FP32, FP16), WIDTHS):
        yield "rows", f"{name} {fmt}, {width}", partial(row, name, fmt, WIDTHS[width])
    for width in WIDTHS:
        yield "bags of rows", f"{BAG} of {width}", partial(bags, WIDTHS[width])
    for table in TABLES:
        yield "single elements", f"of {table}", partial(elements, TABLES[table])
    for kind, width in product(("gather", "scatter", "add", "bags"), WIDTHS):
        if WIDTHS[width] >= 64:
            yield "rows of 256 bytes or more, of the limit", f"{kind}, {width}", partial(limited, kind, WIDTHS[width])


def row(name: str, fmt: Format, width: int) -> Calls:
    """Rows; the answer is checked on a part."""
    given = operands(fmt, width)
    checked(name, *given[:3])
    found: Calls = {"ours": partial(ROWS[name], *given)}
    if name in NUMPY:
        found["numpy"] = partial(NUMPY[name], *given)
    if find_spec("torch"):
        import torch

        found["torch"] = partial(TORCH[name], torch, *map(torch.from_numpy, given))
    return found


def checked(name: str, x: Any, u: Any, i: Any) -> None:
    """Check a few rows."""
    x, u, i = x[:99], u[:9], i[:9] % 99
    testing.check(name, x, *{"gather": (i,), "scatter": (i, u), "multi_update_add": (u, i),
                             "embedding_bag": (i.reshape(3, 3),)}[name])


def limited(kind: str, width: int) -> Calls:
    """Rows of a table in memory and the bare loops that move the same bytes, of which the best is the limit."""
    table, received = (aligned(n * width).reshape(n, -1) for n in ((128 << 18) // width, (32 << 18) // width))
    places = np.random.default_rng(1).permutation(len(table))[: len(received)]
    name = {"add": "multi_update_add", "bags": "embedding_bag"}.get(kind, kind)
    checked(name, table, received, places)
    loops = row_calls(kind, table, received, places)
    return {"ours": row_ops(table, received, places)[kind]} | {f"loop {i}": loop for i, loop in enumerate(loops)}


def bags(width: int) -> Calls:
    """Sums of 32 rows each."""
    x, _, i, _ = operands(FP32, width)
    groups = i.reshape(-1, BAG)
    checked("embedding_bag", x, x, i)
    found: Calls = {"ours": lambda: popops.embedding_bag(x, groups)}
    if find_spec("torch"):
        import torch

        table, of = torch.from_numpy(x), torch.from_numpy(groups)
        found["torch"] = lambda: torch.nn.functional.embedding_bag(of, table, mode="sum")
    return found


def elements(n: int) -> Calls:
    """A million elements of a table."""
    x, i, out = np.ones(n, np.float32), np.random.default_rng(1).integers(0, n, 1 << 20), np.empty(1 << 20, np.float32)
    testing.check("gather", x[:99], i[:99] % 99)
    found: Calls = {"ours": lambda: popops.gather(x, i, out=out),
                    "numpy": lambda: np.take(x, i, out=out, mode="clip")}
    if find_spec("torch"):
        import torch

        tensors = [torch.from_numpy(array) for array in (x, i, out)]
        found["torch"] = lambda: torch.index_select(tensors[0], 0, tensors[1], out=tensors[2])
    return found
