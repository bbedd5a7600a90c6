"""What a bound on the temporary bytes of block-sparse products costs: time by ``available_memory_proportion``.

``python bench/bench_memory.py`` prints the figures as Markdown: bytes, and the time over that without a bound. The
calls of a row take turns in one process on one thread; every answer must have the bits of the unbounded one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poplibs_py.errors import MemoryLimitWarning
from poplibs_py.formats import format_of
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern, static
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

PROPORTIONS = (0, 0.6, 0.2)
SIZE = 4096
CASES = [("float32", "float32", 16, 1 / 8, 256, False), ("float32", "float32", 16, 1 / 32, 1024, False),
         ("float32", "float32", 16, 1 / 128, 1024, False), ("float32", "float32", 1, 1 / 8, 256, False),
         ("float16", "float32", 16, 1 / 8, 256, False), ("float16", "float32", 16, 1 / 32, 1024, True),
         ("bfloat16", "bfloat16", 16, 1 / 8, 256, False), ("f143", "f143", 16, 1 / 8, 256, False),
         ("f143", "f143", 16, 1 / 128, 1024, False)]


def operands(names: tuple[str, str], block: int, density: float, columns: int, transposed: bool) -> tuple[Any, Any]:
    """W or its transposed view, and X."""
    w: BlockSparseMatrix = random_matrix(random_pattern(SIZE, SIZE, block, density, 3), format_of(names[0]), 3)
    x = np.random.default_rng(4).standard_normal((SIZE, columns)).astype(np.float32)
    return (w.T if transposed else w), x.astype(format_of(names[1]).dtype)


def calls(w: BlockSparseMatrix, x: Any) -> list[Callable[[], Any]]:
    """The product under each bound, checked against the one without."""
    out = np.empty((w.shape[0], x.shape[1]), np.float32)
    made = [lambda p=p: static.sparse_dense_matmul(w, x, out=out, available_memory_proportion=p) for p in PROPORTIONS]
    wanted = made[0]().tobytes()
    assert all(call().tobytes() == wanted for call in made)
    return made


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@pytest.mark.parametrize("proportion", PROPORTIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def bench_bounded(case, proportion, benchmark):
    benchmark.group = str(case)
    w, x = operands(case[:2], *case[2:])
    plan = static.plan_sparse_dense_matmul(w, case[4], dtype=case[1], available_memory_proportion=proportion)
    benchmark(calls(w, x)[PROPORTIONS.index(proportion)])
    benchmark.extra_info["temporary_bytes"] = plan.temporary_bytes


def main() -> None:
    """Print the table."""
    heads = " | ".join(f"{p}: KiB | x" for p in PROPORTIONS[1:])
    print(f"| W, X; block; density; N | no limit: ms | KiB | {heads} |\n|{'---|' * (3 + 2 * len(PROPORTIONS[1:]))}")
    for *names, block, density, columns, transposed in CASES:
        w, x = operands(tuple(names), block, density, columns, transposed)
        times = [t.seconds for t in take_turns(calls(w, x), seconds=1.5)]
        sizes = [static.plan_sparse_dense_matmul(w, columns, dtype=names[1], available_memory_proportion=p)
                 .temporary_bytes // 1024 for p in PROPORTIONS]
        name = f"{', '.join(names)}; {block}; 1/{round(1 / density)}; {columns}{', transposed' * transposed}"
        cells = " | ".join(f"{size} | {t / times[0]:.2f}" for size, t in zip(sizes[1:], times[1:], strict=True))
        print(f"| {name} | {1e3 * times[0]:.2f} | {sizes[0]} | {cells} |", flush=True)


if __name__ == "__main__":
    with limited_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        main()
