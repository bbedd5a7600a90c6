"""What each class of elementwise operations, maps and reductions is to reach, and what it does, over the best peer.

``python bench/bench_popops.py`` prints the fastest peer's time over ours for every operation, by the process's own
time on one thread, of 16 Ki, 1 Mi and 16 Mi elements; then each class's median beside its floor. Calls come from the
benchmarks of elementwise operations, functions, maps and reductions, and take turns. Peers are NumPy, torch,
onnxruntime and numba; of FP32 functions those within 1 ulp, unless the class says that any will do. Where the streaming
bandwidth is asked for, NumPy's copy is the peer, by bytes read and written.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from time import process_time
from typing import Any

import bench_elementwise
import bench_map
import bench_math
import bench_reductions
import numpy as np
from bench_sparse import print_table

from poplibs_py import popops
from poplibs_py.formats import BF16, FP16, FP32, Format
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns

SIZES = {1 << 14: "16 Ki", 1 << 20: "1 Mi", 1 << 24: "16 Mi"}
SIMPLE = ("relu", "abs", "neg", "square", "sqrt", "add", "sub", "mul", "div", "maximum", "clamp", "gt", "select")
FUNCTIONS = ("exp", "log", "sin", "tanh", "erf", "rsqrt", "sigmoid", "silu", "gelu_erf", "gelu_tanh")
GATES = FUNCTIONS[-4:]
HALVES = (FP16, BF16)
Calls = dict[str, Callable[[], Any]]
Cell = tuple[str, int, Callable[[], tuple[Calls, float]]]  # operation, elements, calls, and what a peer's call counts


@dataclass(frozen=True)
class Class:
    """A class of calls, and the least that its median ratio is to be."""

    name: str
    floor: float
    cells: tuple[Cell, ...]


def simple(name: str, fmt: Format, count: int) -> tuple[Calls, float]:
    """Ours and the peers' calls of an elementwise operation; ml_dtypes' BF16 is left out, which has no vectors."""
    given = bench_elementwise.operands(name, fmt, count)
    out = bench_elementwise.result(name, given)
    found = {library: made(name, given, out) for library, made in bench_elementwise.LIBRARIES.items()
             if fmt is not BF16 or library != "numpy"}
    ours = partial(getattr(popops, name), *given, out=out)
    return {"ours": ours} | {library: call for library, call in found.items() if call is not None}, 1


@cache
def keeps_an_ulp(name: str, library: str) -> bool:
    """Whether a peer's FP32 function is within 1 ulp where it is busy."""
    return bench_math.worst(name, bench_math.peers(name)[library]) <= 1


def function(name: str, fmt: Format, count: int, fair: bool) -> tuple[Calls, float]:
    """The same of a function, in FP32 of peers within 1 ulp alone if `fair`."""
    x: Any = popops.cast(bench_math.arguments(name, count), fmt)
    y = np.empty_like(x)
    found = {library: bind(x, y) for library, bind in bench_math.peers(name).items()
             if (fmt is not BF16 or library == "torch") and (fmt is FP32 or library != "onnxruntime")
             and not (fair and fmt is FP32 and not keeps_an_ulp(name, library))}  # fmt: skip
    return {"ours": partial(getattr(popops, name), x, out=y)} | found, 1


def beside_copy(name: str) -> tuple[Calls, float]:
    """An operation of 16 Mi FP32 numbers and NumPy's copy of as many."""
    calls, _ = simple(name, FP32, 1 << 24)
    given = bench_elementwise.operands(name, FP32, 1 << 24)
    source = np.ones(1 << 24, np.float32)
    moved = sum(x.nbytes for x in given) + bench_elementwise.result(name, given).nbytes
    return {"ours": calls["ours"], "copy": partial(np.copyto, np.empty_like(source), source)}, moved / 2 / source.nbytes


def _elementwise(names: tuple[str, ...], *formats: Format, fair: bool = True) -> tuple[Cell, ...]:
    return tuple((f"{name} {fmt}", count, partial(function, name, fmt, count, fair)
                  if name in bench_math.REFERENCES and name != "sqrt" else partial(simple, name, fmt, count))
                 for name in names for fmt in formats for count in SIZES)


def _maps(names: set[str], counts: tuple[int, ...], new: bool = False) -> tuple[Cell, ...]:
    def calls(name: str, count: int) -> tuple[Calls, float]:
        return bench_map.checked_calls(name, count, new), 1

    return tuple((name, count, partial(calls, name, count)) for name in bench_map.CASES if name in names
                 for count in counts)


def _reductions(names: tuple[str, ...], formats: tuple[Format, ...], places: Sequence[str]) -> tuple[Cell, ...]:
    def calls(name: str, fmt: Format, place: str) -> tuple[Calls, float]:
        return bench_reductions.calls(name, fmt, place), 1

    return tuple((f"{name} {fmt}, {place}", math.prod(bench_reductions.SHAPES[place][0]),
                  partial(calls, name, fmt, place))
                 for name in names for fmt in formats for place in places)


def classes() -> Iterator[Class]:
    """Every class, in the order of the table."""
    mapped, whole = set(bench_map.CASES), ["all 16Ki", "all 1Mi", "all 16Mi", "last 1024x1024"]
    along = ["first 1024x1024", "middle 64x256x64", "first 4096x4096"]
    slow = {name for name in mapped if "exp" in name or "tanh" in name}
    yield Class("FP32, simple", 0.95, _elementwise(SIMPLE, FP32))
    yield Class("FP32, simple, of the streaming bandwidth", 0.95,
                tuple((f"{name} FP32, streamed", 1 << 24, partial(beside_copy, name)) for name in SIMPLE))
    for names, floor in ((("tanh",), 4), (("sin",), 2.5), (("log", "rsqrt"), 2), (("erf",), 1.3)):
        yield Class(f"FP32, {', '.join(names)}", floor, _elementwise(names, FP32))
    yield Class("FP32, sigmoid, silu, gelu, peers of any accuracy", 0.9, _elementwise(GATES, FP32, fair=False))
    yield Class("BF16, simple", 1.3, _elementwise(SIMPLE, BF16))
    yield Class("BF16, exp, log, sigmoid, gelu", 2, _elementwise(("exp", "log", "sigmoid", *GATES[2:]), BF16))
    yield Class("BF16, tanh, pow", 5, _elementwise(("tanh", "pow"), BF16))
    yield Class("FP16, simple", 1.2, _elementwise(SIMPLE, FP16))
    yield Class("FP16, functions", 1.5, _elementwise((*FUNCTIONS, "pow"), FP16))
    yield Class("maps, arithmetic in the second-level cache", 0.6, _maps(mapped - slow, (1 << 14,)))
    yield Class("maps, with a function, or larger", 1,
                (*_maps(slow, tuple(SIZES)), *_maps(mapped - slow, (1 << 20, 1 << 24))))
    yield Class("maps, a new result of 64 MiB", 3, _maps(mapped, (1 << 24,), True))
    yield Class("sum, max, contiguous FP32", 0.95, _reductions(("sum", "max"), (FP32,), whole))
    yield Class("mean, halves", 1.4, _reductions(("mean",), HALVES, whole + along))
    yield Class("variance", 2.5, _reductions(("variance",), (FP32, *HALVES), whole + along))
    yield Class("logsumexp", 2, _reductions(("logsumexp",), (FP32, *HALVES), whole + along))
    yield Class("argmax, max with indices, where NumPy has no vectors", 4,
                (*_reductions(("argmax", "max_with_indices"), HALVES, whole + along),
                 *_reductions(("argmax",), (FP32,), along),
                 *_reductions(("max_with_indices",), (FP32,), [whole[3], *along])))
    yield Class("last axes of 16", 3,
                _reductions(("sum", "mean", "max", "norm", "variance"), (FP32, *HALVES), ["last 65536x16"]))


def ratio(made: Callable[[], tuple[Calls, float]], seconds: float) -> tuple[float, str, float] | None:
    """The fastest peer's time over ours, who it is, and our nanoseconds; None without a peer."""
    calls, counts = made()
    if len(calls) == 1:
        return None
    for call in calls.values():
        call()
    timings = take_turns(list(calls.values()), seconds=seconds, clock=process_time, rivals=["peer"] * len(calls))
    times = {library: timing.seconds for library, timing in zip(calls, timings, strict=True)}
    ours = times.pop("ours")
    best = min(times, key=times.__getitem__)
    return counts * times[best] / ours, best, ours * 1e9


def measure(one: Class, seconds: float) -> tuple[list[list[str]], list[float]]:
    """A class's rows of the table, and its ratios."""
    rows: dict[str, list[str]] = {}
    ratios = []
    for name, count, made in one.cells:
        found = ratio(made, seconds)
        row = rows.setdefault(name, [one.name, name, "", "", ""])
        if found is None:
            continue
        ratios.append(found[0])
        row[2 + list(SIZES).index(count)] = f"{found[0]:.2f} ({found[1]}; {found[2] / count:.3f} ns)"
    return list(rows.values()), ratios


def of_bound(seconds: float) -> list[str]:
    """The row of `exp`, whose floor is a share of its bound in the first-level cache."""
    kernel = bench_math.best_kernels()["exp"]
    share = float(bench_math.measure("exp", kernel, max(seconds, 1))[-2])
    return ["FP32, exp, of its bound", f"{share:.2f}", "0.85", "yes" if share >= 0.85 else "no", "", "1"]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each call (default: 0.4)")
    parser.add_argument("words", nargs="*", help="of the names of classes (default: all)")
    chosen = parser.parse_args()
    rows, medians = [], []
    with limited_threads(1), np.errstate(all="ignore"):
        for one in classes():
            if chosen.words and not all(word in one.name for word in chosen.words):
                continue
            found, ratios = measure(one, chosen.seconds)
            rows += found
            median = statistics.median(ratios)
            medians.append([one.name, f"{median:.2f}", f"{one.floor}", "yes" if median >= one.floor else "no",
                            f"{min(ratios):.2f} to {max(ratios):.2f}", str(len(ratios))])
            print(" | ".join(medians[-1]), flush=True)
        if not chosen.words or "exp" in chosen.words:
            medians.append(of_bound(chosen.seconds))
    print_table(("class", "operation", *SIZES.values()), rows)
    print_table(("class", "median ratio", "floor", "holds", "least and most", "calls"), medians)


if __name__ == "__main__":
    main()
