"""PopNN beside the best peer of each row, and the medians of classes beside the least they should be.

    python bench/bench_classes.py                 every class
    python bench/bench_classes.py softmax pool    those whose names hold one of the words

Calls take turns in one process, by the CPU's time, each library with one thread; a ratio is of medians, the best peer's
over ours. Peers are those of which the rows' files know and that are installed: torch, torch.compile, zentorch,
onnxruntime, jax and decoders.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from statistics import median
from time import process_time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import bench_attention
import bench_ctc
import bench_pooling
import bench_popnn
import bench_recurrent

from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

LEAST: dict[str, dict[str, float]] = {
    "softmax FP32": {"": 1.0}, "softmax half": {"": 2.5},
    "layer norm": {"": 2.5}, "layer norm gradient": {"": 2.0}, "rms norm gradient": {"": 10.0},
    "cross entropy": {"": 4.0},
    "pool FP32": {"": 1.8}, "mean of the whole field FP32 forward": {"": 0.95},
    "pool half NCHW forward": {"": 30.0}, "pool half NCHW backward": {"": 8.0},
    "recurrent, batch 32": {"": 1.0}, "recurrent, batch 1, FP32": {"": 1.0}, "GRU, batch 1, BF16": {"": 3.0},
    "recurrent gradients": {"": 1.3}, "CTC loss": {"": 10.0}, "beam search": {"": 3.0},
    "attention BF16, dense": {"": 1.1, "torch": 2.0}, "attention BF16, causal": {"": 1.4},
    "attention BF16, one query": {"": 3.0},
    "attention of blocks, density 1/2": {"": 1.0}, "attention of blocks, density 1/4": {"": 1.0},
    "attention of blocks, density 1/8": {"": 6.0},
}  # fmt: skip
"""What the median of a class should be at least, over the best of all peers, or of those whose names begin so."""


def ratios(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """How many times as long as ours each other call takes."""
    for call in calls.values():
        call()
    found = take_turns(list(calls.values()), seconds=seconds, least_rounds=7, longest=4 * seconds, clock=process_time)
    taken = dict(zip(calls, (timing.seconds for timing in found), strict=True))
    return {name: spent / taken["ours"] for name, spent in taken.items() if name != "ours"}


def main() -> None:
    """Print rows as they are measured, then classes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="of the classes to measure (default: all)")
    parser.add_argument("--seconds", type=float, default=1.0, help="about how long a row takes (default: 1)")
    parser.add_argument("--floors", action="store_true", help="only classes for which a least is known")
    chosen = parser.parse_args()
    measured: dict[str, list[dict[str, float]]] = {}
    with limited_threads(1):
        for file in (bench_popnn, bench_pooling, bench_recurrent, bench_ctc, bench_attention):
            for name, label, made in file.rows():
                named = not chosen.words or any(word in name for word in chosen.words)
                if not named or (chosen.floors and name not in LEAST):
                    continue
                row = ratios(made(), chosen.seconds)
                measured.setdefault(name, []).append(row)
                print(f"{name}: {label}:", ", ".join(f"{peer} {ratio:.2f}" for peer, ratio in row.items()), flush=True)
    print("\n| class | over | rows | median | least and most | should be |\n|---|---|---|---|---|---|")
    for name, rows in measured.items():
        for over, least in LEAST.get(name, {"": None}).items():
            best = [min(ratio for peer, ratio in row.items() if peer.startswith(over) and peer != "ours, plain")
                    for row in rows]
            told = "" if least is None else f"{least}{'' if median(best) >= least else ', short'}"
            print(f"| {name} | {over or 'best'} | {len(best)} | {median(best):.2f} | "
                  f"{min(best):.2f} to {max(best):.2f} | {told} |")


if __name__ == "__main__":
    main()
