"""Every family of operations beside the best peer of each row, and the medians of classes beside their floors.

    python bench/bench_classes.py                       every class that has a floor
    python bench/bench_classes.py softmax pool          those whose names hold one of the words, with a floor or without
    python bench/bench_classes.py conv --only "dw 3x3"  of these the rows whose labels hold one of the words

Answers are checked before they are timed. Calls take turns in one process, by the CPU's time, each library with one
thread; a ratio is of medians, the best peer's over that of the best of ours. Peers are those of which the rows' files
know and that are installed. Where a row has a limit, the least time that its bytes or products take on this core, the
limit takes turns too: ``of limit`` is the share of it that ours reach, by the least times, since what disturbs a call
can only slow it; ``at most`` is what the ratio would be at the limit. Where that is below the floor, no code reaches
the floor on this machine. ``pytest bench/bench_classes.py --benchmark-enable`` times our calls of all rows.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from operator import truediv
from statistics import median
from time import process_time
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import bench_attention
import bench_conv
import bench_counts
import bench_ctc
import bench_elementwise
import bench_linalg
import bench_map
import bench_math
import bench_ordering
import bench_pooling
import bench_popnn
import bench_recurrent
import bench_reductions
import bench_slices
import numpy as np
import pytest
from bench_sparse import print_table
from least_times import Limit

from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

FAMILIES = (bench_elementwise, bench_math, bench_map, bench_reductions, bench_ordering, bench_slices, bench_counts,
            bench_conv, bench_linalg, bench_popnn, bench_pooling, bench_recurrent, bench_ctc, bench_attention)

FLOORS: dict[str, float | dict[str, float | None]] = {
    "elementwise FP32": 0.95, "elementwise FP32, of a copy's bandwidth": 0.95, "exp FP32, of its bound": 0.85,
    "tanh FP32": 4, "sin FP32": 2.5, "log, rsqrt FP32": 2, "erf FP32": 1.3, "sigmoid, silu, gelu FP32": 0.9,
    "elementwise BF16": 1.3, "exp, log, sigmoid, gelu BF16": 2, "tanh, pow BF16": 5,
    "elementwise FP16": 1.2, "functions FP16": 1.5,
    "maps, arithmetic in the second-level cache": 0.6, "maps, a function, or larger": 1,
    "maps, a new result of 64 MiB": 3,
    "sum, max, contiguous FP32": 0.95, "mean of halves": 1.4, "variance": 2.5, "logsumexp": 2,
    "argmax, max with indices": 4, "last axes of 16": 3, "cumulative sum": 2,
    "sort of fewer than 10,000 keys": {"numpy": 1.2}, "sort from 10,000 keys": {"numpy": 3},
    "argsort from 10,000 keys": {"numpy": 5}, "stable argsort from 10,000 keys": {"numpy": 6}, "top-k": 4,
    "rows of 256 bytes or more, of the limit": 0.8,
    "conv 2-D FP32, forward": 1, "conv 2-D FP32, data gradient": 1, "conv 2-D FP32, weight gradient": 1,
    "conv Winograd, forward": 1.3, "conv Winograd, data gradient": 1.3,
    "conv 2-D BF16, forward": 1, "conv 2-D BF16, weight gradient": 1.1,
    "conv 2-D BF16 first layer, data gradient": {"torch N": 4, "torch through FP32": None},  # its own in either order
    "conv 2-D FP16, forward": 1, "conv 2-D FP16, data gradient": 1, "conv 2-D FP16, weight gradient": 1,
    "conv FP8, forward": 1, "conv FP8, data gradient": 1, "conv FP8, weight gradient": 1,
    "conv 2-D depthwise and groups, forward": 1.3, "conv 2-D depthwise and groups, weight gradient": 2.5,
    "conv 1-D depthwise, forward": 3, "conv 1-D depthwise, data gradient": 3, "conv 1-D depthwise, weight gradient": 3,
    "conv 3-D FP32, forward": 1.1, "conv 3-D FP32, data gradient": 2.5, "conv 3-D FP32, weight gradient": 2.5,
    "cholesky of 8": 8, "cholesky of 16": 5, "cholesky of 32": 3, "cholesky of 64": 3,
    "triangular solve of 8": 8, "triangular solve of 16": 5, "triangular solve of 32": 3, "triangular solve of 64": 3,
    "lu of 8": 4, "lu of 16": 4, "qr of 8": 4, "qr of 16": 4,
    "softmax FP32": 1, "softmax half": 2.5, "layer norm": 2.5, "layer norm gradient": 2, "rms norm gradient": 10,
    "cross entropy": 4,
    "pool FP32": 1.8, "mean of the whole field FP32 forward": 0.95,
    "pool half NCHW forward": 30, "pool half NCHW backward": 8,
    "recurrent, batch 32": 1, "recurrent, batch 1, FP32": 1, "GRU, batch 1, BF16": 3, "recurrent gradients": 1.3,
    "CTC loss": 10, "beam search": 3,
    "attention BF16, dense": {"": 1.1, "torch": 2}, "attention BF16, causal": 1.4, "attention BF16, one query": 3,
    "attention of blocks, density 1/2": 1, "attention of blocks, density 1/4": 1,
    "attention of blocks, density 1/8": 6,
}  # fmt: skip
"""What the median of a class is to be at least, over the best of all peers, or of those whose names begin so."""

Calls = dict[str, Callable[[], object]]
Row = tuple[str, str, Callable[[], Calls]]
"""A class, a label, and what makes the calls, with the check of ours: names of ours begin so, others are peers'."""


def rows() -> Iterator[Row]:
    """Every row of every family."""
    return chain.from_iterable(family.rows() for family in FAMILIES)


def of_limit(name: str) -> bool:
    """Whether a call of a row is its limit."""
    return name.startswith("limit")


def timed(calls: Calls, seconds: float) -> dict[str, tuple[float, float]]:
    """Median and least seconds of each call, which take turns."""
    for call in calls.values():
        call()
    rivals = [None if of_limit(name) else name.startswith("ours") for name in calls]
    found = take_turns(list(calls.values()), seconds=seconds, least_rounds=5, most_rounds=41, longest=2 * seconds,
                       rivals=rivals, clock=process_time)
    times = [call.times if isinstance(call, Limit) else 1 for call in calls.values()]
    return {name: (each * timing.seconds, each * timing.least)
            for name, each, timing in zip(calls, times, found, strict=True)}


def ratios(name: str, label: str, calls: Calls, seconds: float) -> dict[str, float]:
    """How many times as long as the best of ours each peer takes, and each limit, by least times; all are printed."""
    taken = timed(calls, seconds)
    ours = {key: taken.pop(key) for key in calls if key.startswith("ours")}
    best = min(ours, key=ours.__getitem__)
    over = {other: spent[of_limit(other)] / ours[best][of_limit(other)] for other, spent in taken.items()}
    print(f"{name}: {label}: {best} {ours[best][0] * 1e6:.4g} us;",
          ", ".join(f"{other} {ratio:.2f}" for other, ratio in over.items()), flush=True)
    return over


def summary(name: str, found: list[dict[str, float]]) -> Iterator[list[str]]:
    """The table's rows of a class."""
    floors = FLOORS.get(name)
    for over, floor in (floors if isinstance(floors, dict) else {"": floors}).items():
        best = [min(held) for row in found
                if (held := [ratio for peer, ratio in row.items() if peer.startswith(over) and not of_limit(peer)])]
        shares = [max(held) for row in found if (held := [ratio for peer, ratio in row.items() if of_limit(peer)])]
        if best:
            told = "" if floor is None else f"{floor:g}{'' if median(best) >= floor else ', short'}"
            limits = ("", "")
            if len(shares) == len(best):
                limits = f"{median(shares):.2f}", f"{median(map(truediv, best, shares)):.2f}"
            yield [name, over or "best", str(len(best)), f"{median(best):.2f}", told, f"{min(best):.2f}",
                   f"{max(best):.2f}", *limits]


@pytest.mark.parametrize("made", [pytest.param(made, id=f"{name}: {label}") for name, label, made in rows()])
def bench_row(made: Callable[[], Calls], benchmark: Any) -> None:
    """Our call."""
    benchmark(next(call for name, call in made().items() if name.startswith("ours")))


def main() -> None:
    """Print rows as they are measured, then classes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="of the names of classes (default: all that have floors)")
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="of rows' labels")
    parser.add_argument("--seconds", type=float, default=0.5, help="about how long a row takes (default: 0.5)")
    chosen = parser.parse_args()
    measured: dict[str, list[dict[str, float]]] = {}
    with limited_threads(1), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's of arrays that may not be written to, and the like
        for name, label, made in rows():
            wanted = any(word in name for word in chosen.words) if chosen.words else name in FLOORS
            if wanted and any(word in label for word in chosen.only):
                measured.setdefault(name, []).append(ratios(name, label, made(), chosen.seconds))
        if not chosen.words or "exp" in chosen.words:
            measured["exp FP32, of its bound"] = [{"bound": bench_math.share_of_bound("exp", 1)}]
    print()
    heads = ("class", "over", "rows", "median", "floor", "least", "most", "of limit", "at most")
    print_table(heads, (line for name, found in measured.items() for line in summary(name, found)))


if __name__ == "__main__":
    main()
