"""What a repeated tiny call costs, as multiples of ``np.add`` on 256 floats.

``python bench/bench_calls.py`` prints the table as Markdown: operands are of 8 x 8, 16 random numbers are drawn, casts
and unary ops take 256 floats. Each call takes turns with ``np.add`` in one process on one thread; figures are medians.
"At most" is what the call may cost; for a compiled call that is what the plain one costs in the same turns, where this
is less. Unary ops that the build does not have are left out. Each answer is held to its op's bound, or must have the
bits of the plain call, before it is timed. ``pytest bench/bench_calls.py --benchmark-enable`` runs the rows one by one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import poplibs_py
from poplibs_py import poplin, popops, poprand, popsparse
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, static
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns
from poplibs_py.testing import assert_same_bits, check, random_operand

PLAIN, KEYWORDS, ELEMENTWISE, MODELLED = 2.5, 4.0, 1.0, 30.0  # how many np.add a call may cost
SAME = 1.05  # a compiled call's share of the plain one's time, up to which the two cost the same
UNARY = ("abs", "neg", "sqrt", "exp", "log", "tanh", "erf", "sigmoid", "relu", "gelu_erf")
OPTIONS = {"availableMemoryProportion": 0.3}

Call = Callable[[], Any]


@dataclass(frozen=True)
class Trial:
    """A call to time after its check; `plain` is the call that a compiled one may not exceed."""

    call: Call
    check: Callable[[], object]
    plain: Call | None = None


@dataclass(frozen=True)
class Case:
    """A row of the table.

    Attributes
    ----------
    most : float
        What the call may cost in multiples of ``np.add``.
    make : callable
        Makes what it needs, such as prepared operands and compiled products.
    """

    name: str
    most: float
    make: Callable[[], Trial]


@dataclass(frozen=True)
class Cost:
    """What was measured: seconds of a call, and multiples of ``np.add`` that it costs and may cost."""

    seconds: float
    multiple: float
    most: float

    @property
    def verdict(self) -> str:
        share = self.multiple / self.most
        return "yes" if share <= 1 else f"no: {share:.1f} x as much"


def numbers(*shape: int, fmt: str = "float32", seed: int = 1) -> Any:
    return random_operand(shape, fmt, seed)


def full_matrix(fmt: str = "float32", seed: int = 3) -> BlockSparseMatrix:
    """An 8 x 8 matrix of which all four blocks are stored."""
    return popsparse.random_matrix(popsparse.random_pattern(8, 8, 4, 1.0, 3), fmt, seed)


def op(path: str, what: str, *operands: Any, most: float = PLAIN, **keywords: Any) -> Case:
    """A call of a public op, held to its bound; it may cost more with keywords."""
    def make() -> Trial:
        function = attrgetter(path)(poplibs_py)
        return Trial(lambda: function(*operands, **keywords), lambda: check(path, *operands, **keywords))

    return Case(f"{path}: {what}", most, make)


def same(name: str, make: Callable[[], tuple[Call, Call]], most: float = PLAIN, compiled: bool = False) -> Case:
    """A call that must give the bits of another one; with `compiled` it may cost no more than that either."""
    def trial() -> Trial:
        call, plain = make()
        return Trial(call, lambda: assert_same_bits(call(), plain()), plain if compiled else None)

    return Case(name, most, trial)


def check_modelled() -> None:
    """A modelled product of integers so small that every order of sums is exact."""
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, shape) for shape in ((16, 32), (32, 8)))
    result = poplin.matmul(a.astype(np.float16), b.astype(np.float16), target="gc200")
    np.testing.assert_array_equal(result.astype(np.int64), a @ b)


def dense_cases() -> list[Case]:
    a, b, bias, out = numbers(8, 8), numbers(8, 8, seed=2), numbers(8), np.empty((8, 8), np.float32)
    halves = numbers(8, 8, fmt="float16"), numbers(8, 8, fmt="float16", seed=2)
    quarters = numbers(8, 8, fmt="e4m3"), numbers(8, 8, fmt="e4m3", seed=2)
    batch = numbers(4, 8, 8), numbers(4, 8, 8, seed=2)
    tiles = numbers(16, 32, fmt="float16"), numbers(32, 8, fmt="float16", seed=2)
    everything = {"out": out, "bias": bias, "activation": "relu", "out_dtype": "float32", "options": OPTIONS}

    def matmul(what: str, *operands: Any, **keywords: Any) -> Case:
        return op("poplin.matmul", what, *operands, most=KEYWORDS if keywords else PLAIN, **keywords)

    def compiled(**keywords: Any) -> tuple[Call, Call]:
        planned = {"bias_dtype": "float32", "activation": "relu"} if keywords else {}
        run = poplin.compile_matmul(poplin.plan_matmul(a.shape, b.shape, **planned))
        rest = {"bias": keywords["bias"]} if keywords else {}
        return lambda: run(a, b, **rest), lambda: poplin.matmul(a, b, **keywords)

    def prepared(**keywords: Any) -> tuple[Call, Call]:
        packed = poplin.prepare(b)
        return lambda: poplin.matmul(a, packed, **keywords), lambda: poplin.matmul(a, b, **keywords)

    def modelled() -> Trial:
        return Trial(lambda: poplin.matmul(*tiles, target="gc200"), check_modelled)

    def compiled_modelled() -> tuple[Call, Call]:
        plan = poplin.plan_matmul(tiles[0].shape, tiles[1].shape, dtype="float16", target="gc200")
        run = poplin.compile_matmul(plan)
        return lambda: run(*tiles), lambda: poplin.matmul(*tiles, target="gc200")

    return [
        matmul("8 x 8", a, b),
        matmul("out", a, b, out=out),
        matmul("bias", a, b, bias=bias),
        matmul("activation", a, b, activation="relu"),
        matmul("out_dtype", a, b, out_dtype="float16"),
        matmul("options", a, b, options=OPTIONS),
        matmul("out, bias, activation, out_dtype, options", a, b, **everything),
        matmul("FP16", *halves),
        matmul("FP8", *quarters),
        matmul("FP8, bias, activation, out_dtype", *quarters, bias=bias, activation="gelu", out_dtype="e5m2"),
        matmul("batch of 4", *batch),
        op("poplin.matmul_acc", "8 x 8", np.zeros((8, 8), np.float32), a, b),
        op("poplin.matmul_acc", "beta, bias, options", np.zeros((8, 8), np.float32), a, b, most=KEYWORDS, beta=0.5,
           bias=bias, options=OPTIONS),
        same("poplin.matmul: prepared", prepared),
        same("poplin.matmul: prepared, bias, activation", lambda: prepared(bias=bias, activation="relu"), KEYWORDS),
        same("poplin.compile_matmul: 8 x 8", compiled, compiled=True),
        same("poplin.compile_matmul: bias, activation", lambda: compiled(bias=bias, activation="relu"), KEYWORDS,
             compiled=True),
        Case("poplin.matmul: 16 x 32 x 8 on gc200", MODELLED, modelled),
        same("poplin.compile_matmul: 16 x 32 x 8 on gc200", compiled_modelled, MODELLED, compiled=True),
    ]


def sparse_cases() -> list[Case]:
    w, x, bias, out = full_matrix(), numbers(8, 8), numbers(8), np.empty((8, 8), np.float32)
    halves, quarters = full_matrix("float16"), full_matrix("e4m3")
    everything = {"out": out, "bias": bias, "activation": "relu", "out_dtype": "float32", "options": OPTIONS}
    blocks = np.empty_like(w.blocks)
    capacity = dynamic.Capacity(8)
    product, mirrored = "popsparse.static.sparse_dense_matmul", "popsparse.static.dense_sparse_matmul"
    drawn = "popsparse.dynamic."
    sampled = "popsparse.static.sparse_grad_w"

    def compiled(**keywords: Any) -> tuple[Call, Call]:
        planned = {"bias": True, "activation": "relu"} if keywords else {}
        run = static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(w, 8, **planned))
        rest = {"bias": keywords["bias"]} if keywords else {}
        return lambda: run(w, x, **rest), lambda: static.sparse_dense_matmul(w, x, **keywords)

    def prepared() -> tuple[Call, Call]:
        dense, decoded = numbers(8, 8, fmt="float16"), static.prepare(halves)
        return lambda: static.sparse_dense_matmul(decoded, dense), lambda: static.sparse_dense_matmul(halves, dense)

    return [
        op(product, "8 x 8", w, x),
        op(product, "out", w, x, most=KEYWORDS, out=out),
        op(product, "bias", w, x, most=KEYWORDS, bias=bias),
        op(product, "activation", w, x, most=KEYWORDS, activation="relu"),
        op(product, "out_dtype", w, x, most=KEYWORDS, out_dtype="float16"),
        op(product, "options", w, x, most=KEYWORDS, options=OPTIONS),
        op(product, "out, bias, activation, out_dtype, options", w, x, most=KEYWORDS, **everything),
        op(product, "FP16", halves, numbers(8, 8, fmt="float16")),
        op(product, "FP8", quarters, numbers(8, 8, fmt="e4m3")),
        same("BlockSparseMatrix: w @ x", lambda: (lambda: w @ x, lambda: static.sparse_dense_matmul(w, x))),
        same("BlockSparseMatrix: x @ w", lambda: (lambda: x @ w, lambda: static.dense_sparse_matmul(x, w))),
        same("popsparse.static.sparse_dense_matmul: prepared FP16", prepared),
        same("popsparse.static.compile_sparse_dense_matmul: 8 x 8", compiled, compiled=True),
        same("popsparse.static.compile_sparse_dense_matmul: bias, activation",
             lambda: compiled(bias=bias, activation="relu"), KEYWORDS, compiled=True),
        op(mirrored, "8 x 8", x, w),
        op(mirrored, "out, bias, activation, out_dtype, options", x, w, most=KEYWORDS, **everything),
        op(drawn + "sparse_dense_matmul", "8 x 8", w, x),
        op(drawn + "sparse_dense_matmul", "capacity", w, x, capacity=capacity),
        op(drawn + "sparse_dense_matmul", "capacity, out, bias, activation, out_dtype, options", w, x, most=KEYWORDS,
           capacity=capacity, **everything),
        op(drawn + "dense_sparse_matmul", "capacity", x, w, capacity=capacity),
        op(drawn + "fully_connected_fwd", "capacity", w, x, capacity=capacity),
        op(drawn + "fully_connected_fwd", "capacity, bias, activation", w, x, most=KEYWORDS, capacity=capacity,
           bias=bias, activation="relu"),
        op(drawn + "fully_connected_grad_a", "capacity", w, x, capacity=capacity),
        op(drawn + "fully_connected_sparse_grad_w", "capacity", w, x, x, capacity=capacity),
        op(sampled, "8 x 8", w, x, x),
        op(sampled, "out", w, x, x, most=KEYWORDS, out=blocks),
        op(sampled, "out_dtype", w, x, x, most=KEYWORDS, out_dtype="float16"),
        op(sampled, "options", w, x, x, most=KEYWORDS, options=OPTIONS),
        op(sampled, "out, out_dtype, options", w, x, x, most=KEYWORDS, out=blocks, out_dtype="float32",
           options=OPTIONS),
    ]


def softmax_cases() -> list[Case]:
    x, quarters = full_matrix(), full_matrix("e4m3")
    out, y = x.copy(), popsparse.bs_softmax(x)
    grad = BlockSparseMatrix(x.pattern, full_matrix(seed=4).blocks)  # of one pattern, as a product at it gives it
    return [
        op("popsparse.bs_softmax", "8 x 8", x),
        op("popsparse.bs_softmax", "mask", x, most=KEYWORDS, mask="zero_upper_triangle"),
        op("popsparse.bs_softmax", "out", x, most=KEYWORDS, out=out),
        op("popsparse.bs_softmax", "FP8, scale", quarters, most=KEYWORDS, scale=-6),
        op("popsparse.bs_softmax_grad", "8 x 8", y, grad),
        op("popsparse.bs_softmax_grad", "out", y, grad, most=KEYWORDS, out=out),
    ]


def random_cases() -> list[Case]:
    def drawn(name: str, what: str, least: float, largest: float, most: float, **keywords: Any) -> Case:
        def make() -> Trial:
            function = getattr(poprand, name)
            shape = None if "out" in keywords else 16
            call = lambda: function(shape, **keywords)  # noqa: E731

            def verify() -> None:
                samples = call()
                assert samples.shape == (16,)
                assert least <= samples.min()
                assert samples.max() <= largest
                if "seed" in keywords:
                    assert_same_bits(samples, function(16, seed=keywords["seed"]))

            return Trial(call, verify)

        return Case(f"poprand.{name}: {what}", most, make)

    out, infinity = np.empty(16, np.float32), float("inf")
    cases = []
    for name, least, largest in (("uniform", 0, 1), ("normal", -infinity, infinity), ("bernoulli", 0, 1),
                                 ("truncated_normal", -2, 2)):
        cases += [drawn(name, "seed", least, largest, PLAIN, seed=1), drawn(name, "no seed", least, largest, PLAIN),
                  drawn(name, "out, seed", least, largest, KEYWORDS, out=out, seed=1)]
    return cases


def elementwise_cases() -> list[Case]:
    x, out, quarters = numbers(256), np.empty(256, np.float16), numbers(256, fmt="f143")
    result = np.empty(256, np.float32)

    def cast(what: str, *operands: Any, **keywords: Any) -> Case:
        return op("popops.cast", what, *operands, most=ELEMENTWISE, **keywords)

    cases = [
        cast("FP32 to FP16", x, "float16"),
        cast("FP16 to FP32", x.astype(np.float16), "float32"),
        cast("FP8 to FP32", quarters, "float32"),
        cast("out", x, "float16", out=out),
        cast("rounding", x, "float16", rounding="toward-zero"),
        cast("stochastic rounding", x, "float16", rounding="stochastic", seed=1),
        cast("FP8, scale", x, "f143", scale=2),
        cast("FP8, overflow, rounding", x, "f143", overflow="saturate", rounding="toward-zero"),
    ]
    for name in UNARY:
        path, positive = f"popops.{name}", np.abs(x)
        cases += [op(path, "256", positive, most=ELEMENTWISE), op(path, "out", positive, most=ELEMENTWISE, out=result)]
    return cases


def in_build(case: Case) -> bool:
    path = case.name.partition(":")[0]
    return not path.startswith("popops.") or hasattr(popops, path.partition(".")[2])


CASES = [case for case in (*dense_cases(), *sparse_cases(), *softmax_cases(), *random_cases(), *elementwise_cases())
         if in_build(case)]


def measure(case: Case, seconds: float) -> Cost:
    """Check a call, then time it in turns with ``np.add``."""
    trial = case.make()
    trial.check()
    x, y = numbers(256), numbers(256, seed=2)
    calls: list[Call] = [lambda: np.add(x, y), trial.call, *([] if trial.plain is None else [trial.plain])]
    for call in calls:
        call()
    add, own, *plain = (t.seconds for t in take_turns(calls, seconds=seconds, clock=time.process_time, most_rounds=101))
    return Cost(own, own / add, min([case.most, *(SAME * seconds / add for seconds in plain)]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def bench_call(case, benchmark):
    benchmark.group = "calls"
    cost = measure(case, 0.05)
    benchmark.extra_info.update(multiple=cost.multiple, most=cost.most, verdict=cost.verdict)
    benchmark(case.make().call)


def print_costs(cases: Sequence[Case], seconds: float) -> int:
    """Print the table; return how many calls cost more than they may."""
    print("| call | ns | x np.add on 256 floats | at most | within |\n|---|---|---|---|---|")
    over = 0
    for case in cases:
        try:
            cost = measure(case, seconds)
        except Exception as error:  # the other rows are worth having
            over += 1
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"| {case.name} | | | | no: {why} |", flush=True)
            continue
        over += cost.multiple > cost.most
        print(f"| {case.name} | {1e9 * cost.seconds:.0f} | {cost.multiple:.2f} | {cost.most:.2f} | {cost.verdict} |",
              flush=True)
    print(f"\n{len(cases) - over} of {len(cases)} calls are within their limits.")
    return over


def main() -> int:
    """Print the table; see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="of the calls to measure, such as softmax (default: all)")
    parser.add_argument("--seconds", type=float, default=0.1, help="about how long a call takes turns (%(default)s)")
    parser.add_argument("--fail", action="store_true", help="exit with 1 where a call costs more than it may")
    arguments = parser.parse_args()
    cases = [case for case in CASES if all(word in case.name for word in arguments.words)]
    if not cases:
        parser.error(f"words: no call has {' and '.join(arguments.words)} in its name")
    with limited_threads(1):
        over = print_costs(cases, arguments.seconds)
    return int(arguments.fail and over > 0)


if __name__ == "__main__":
    sys.exit(main())
