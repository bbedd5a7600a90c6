"""What it saves to decode W once: the time of a call with a prepared W over that of one that decodes.

``python bench/bench_prepared_values.py`` prints the figures as Markdown. The two calls take turns in one process on one
thread; their results must have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from poplibs_py.formats import format_of
from poplibs_py.popsparse import random_matrix, random_pattern, static
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

DENSITY = 1 / 8
COLUMNS = (16, 64, 256)
CASES = [(names, size, block) for names in (("float16", "float16", ""), ("f143", "f143", ""), ("f143", "float32", ""),
                                            ("bfloat16", "bfloat16", "transposed"))
         for size in (1024, 4096) for block in (4, 16)]


def calls(names: tuple[str, str, str], size: int, block: int, columns: int) -> list[Callable[[], Any]]:
    """A product as it is, and with W prepared."""
    w = random_matrix(random_pattern(size, size, block, DENSITY, 3), format_of(names[0]), 3)
    w = w.T if names[2] else w
    x = np.random.default_rng(4).standard_normal((size, columns)).astype(np.float32).astype(format_of(names[1]).dtype)
    out = np.empty((size, columns), np.float32)
    made = [lambda w=w: static.sparse_dense_matmul(w, x, out=out) for w in (w, static.prepare(w, x_dtype=names[1]))]
    assert made[0]().tobytes() == made[1]().tobytes()
    return made


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("prepared", [False, True], ids=["decoded", "prepared"])
def bench_prepared_values(case, columns, prepared, benchmark):
    benchmark.group = f"{case} {columns}"
    benchmark(calls(*case, columns)[prepared])


def main() -> None:
    """Print the table."""
    print(f"| W, X | m = k | block | {' | '.join(f'N = {n}' for n in COLUMNS)} |\n|{'---|' * (3 + len(COLUMNS))}")
    for names, size, block in CASES:
        cells = []
        for columns in COLUMNS:
            times = [t.seconds for t in take_turns(calls(names, size, block, columns), seconds=0.6)]
            cells.append(f"{times[1] / times[0]:.2f}")
        print(f"| {', '.join(filter(None, names))} | {size} | {block} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    with limited_threads(1):
        main()
