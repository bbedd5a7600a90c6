"""What a repeated tiny call costs, as multiples of ``np.add`` on 256 floats.

``python bench/bench_calls.py`` prints the table as Markdown: calls of every op of the catalogue, as
`poplibs_py.testing.cases` has them, and of what is prepared, compiled or modelled. Operands are of 8 x 8, 16 random
numbers are drawn, casts and unary ops take 256 floats. Each call takes turns with ``np.add`` in one process on one
thread; figures are medians. "At most" is what the call may cost; for a compiled call that is what the plain one costs
in the same turns, where this is less. Each answer is held to its op's bound, or must have the bits of the plain call,
before it is timed. ``pytest bench/bench_calls.py --benchmark-enable`` runs the rows one by one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, cast

import numpy as np
import pytest

from poplibs_py import poplin, popops, poprand, popsparse, testing
from poplibs_py.ops import catalogue
from poplibs_py.popops.expr import _1, _2
from poplibs_py.popsparse import BlockSparseMatrix, static
from poplibs_py.report.peers import limited_threads
from poplibs_py.report.timing import take_turns
from poplibs_py.testing import assert_same_bits, check, random_operand

PLAIN, KEYWORDS, ELEMENTWISE, MODELLED, REMADE = 2.5, 4.0, 1.0, 30.0, 60.0  # how many np.add a call may cost
SAME = 1.05  # a compiled call's share of the plain one's time, up to which the two cost the same

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


def limit_of(name: str, keywords: dict[str, Any]) -> float:
    """What a call may cost: more with keywords, save for a seed or a capacity, which every call of its kind has."""
    if name.startswith("popops."):
        return ELEMENTWISE
    return KEYWORDS if keywords.keys() - {"seed", "capacity"} else PLAIN


def written_out(function: Call, operands: tuple[Any, ...], keywords: dict[str, Any]) -> Call:
    """A call as its author writes it, like that of ``np.add``: to unpack its arguments would be part of its time."""
    names = [f"x{i}" for i in range(len(operands))]
    arguments = ", ".join([*names, *(f"{name}={name}" for name in keywords)])
    make = eval(f"lambda f, {', '.join([*names, *keywords])}: lambda: f({arguments})")
    return cast(Call, make(function, *operands, **keywords))


def cases_of(name: str) -> list[Case]:
    """The calls of an op of the catalogue, each held to its bound."""
    def made(what: str, operands: tuple[Any, ...], keywords: dict[str, Any]) -> Case:
        def trial() -> Trial:
            function = catalogue[name].face
            return Trial(written_out(function, operands, keywords), lambda: check(name, *operands, **keywords))

        return Case(f"{name}: {what}", limit_of(name, keywords), trial)

    return [made(*case) for case in testing.cases.cases(name)]


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
    """Prepared, compiled and modelled products."""
    a, b, bias = numbers(8, 8), numbers(8, 8, seed=2), numbers(8)
    tiles = numbers(16, 32, fmt="float16"), numbers(32, 8, fmt="float16", seed=2)

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
        same("poplin.matmul: prepared", prepared),
        same("poplin.matmul: prepared, bias, activation", lambda: prepared(bias=bias, activation="relu"), KEYWORDS),
        same("poplin.compile_matmul: 8 x 8", compiled, compiled=True),
        same("poplin.compile_matmul: bias, activation", lambda: compiled(bias=bias, activation="relu"), KEYWORDS,
             compiled=True),
        Case("poplin.matmul: 16 x 32 x 8 on gc200", MODELLED, modelled),
        same("poplin.compile_matmul: 16 x 32 x 8 on gc200", compiled_modelled, MODELLED, compiled=True),
    ]


def sparse_cases() -> list[Case]:
    """Operators, prepared and compiled products."""
    w, x, bias = full_matrix(), numbers(8, 8), numbers(8)

    def compiled(**keywords: Any) -> tuple[Call, Call]:
        planned = {"has_bias": True, "activation": "relu"} if keywords else {}
        run = static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(w, 8, **planned))
        rest = {"bias": keywords["bias"]} if keywords else {}
        return lambda: run(w, x, **rest), lambda: static.sparse_dense_matmul(w, x, **keywords)

    def prepared() -> tuple[Call, Call]:
        halves, dense = full_matrix("float16"), numbers(8, 8, fmt="float16")
        decoded = static.prepare(halves)
        return lambda: static.sparse_dense_matmul(decoded, dense), lambda: static.sparse_dense_matmul(halves, dense)

    def compiled_gradient() -> tuple[Call, Call]:
        run = static.compile_sparse_grad_w(static.plan_sparse_grad_w(w, 8))
        return lambda: run(w, x, x), lambda: static.sparse_grad_w(w, x, x)

    def compiled_softmax() -> tuple[Call, Call]:
        run = popsparse.compile_bs_softmax(popsparse.plan_bs_softmax(w))
        return lambda: run(w).blocks, lambda: popsparse.bs_softmax(w).blocks

    return [
        same("BlockSparseMatrix: w @ x", lambda: (lambda: w @ x, lambda: static.sparse_dense_matmul(w, x))),
        same("BlockSparseMatrix: x @ w", lambda: (lambda: x @ w, lambda: static.dense_sparse_matmul(x, w))),
        same("popsparse.static.sparse_dense_matmul: prepared FP16", prepared),
        same("popsparse.static.compile_sparse_dense_matmul: 8 x 8", compiled, compiled=True),
        same("popsparse.static.compile_sparse_dense_matmul: bias, activation",
             lambda: compiled(bias=bias, activation="relu"), KEYWORDS, compiled=True),
        same("popsparse.static.compile_sparse_grad_w: 8 x 8", compiled_gradient, compiled=True),
        same("popsparse.compile_bs_softmax: 8 x 8", compiled_softmax, compiled=True),
    ]


def unseeded(name: str, least: float, largest: float) -> Case:
    """Numbers that differ in every call: what holds for all of them is checked."""
    def make() -> Trial:
        function = getattr(poprand, name)

        def verify() -> None:
            samples = function(16)
            assert samples.shape == (16,)
            assert least <= samples.min() <= samples.max() <= largest

        return Trial(lambda: function(16), verify)

    return Case(f"poprand.{name}: no seed", PLAIN, make)


def random_cases() -> list[Case]:
    """Numbers without a seed."""
    infinity = float("inf")
    return [unseeded(*law) for law in (("uniform", 0, 1), ("normal", -infinity, infinity), ("bernoulli", 0, 1),
                                       ("truncated_normal", -2, 2))]


def number_cases() -> list[Case]:
    """Calls with another scale or constant each time."""
    x, y, table, updates = numbers(256), numbers(256, seed=2), numbers(8, 8), numbers(4, 8, seed=3)
    rows, swish = np.arange(4), popops.compile_map(lambda a, b, scale: a + scale * b)
    left, right = numbers(16, 32, seed=4), numbers(32, 8, seed=5)
    product = poplin.matmul(left, right)

    def case(name: str, call: Callable[[float], Any], due: Callable[[np.float32], Any], most: float) -> Case:
        scales = cycle(np.linspace(0.1, 0.9, 9999).tolist())

        def verify() -> None:
            for _ in range(9):
                scale = next(scales)
                assert_same_bits(call(scale), due(np.float32(scale)))

        return Case(f"another number each time: {name}", most, lambda: Trial(lambda: call(next(scales)), verify))

    def added(scale: np.float32) -> Any:
        return np.concatenate([table[:4] + scale * updates, table[4:]])

    return [
        case("popops.add", lambda s: popops.add(x, s), lambda s: x + s, KEYWORDS),
        case("popops.scaled_add", lambda s: popops.scaled_add(x, y, s), lambda s: x + s * y, KEYWORDS),
        case("popops.multi_update_add", lambda s: popops.multi_update_add(table, updates, rows, s), added, KEYWORDS),
        case("popops.scatter", lambda s: popops.scatter(table, rows, updates, operation="add", scale=s), added,
             KEYWORDS),
        case("popops.compile_map", lambda s: swish(x, y, s), lambda s: x + s * y, KEYWORDS),
        case("poplin.matmul", lambda s: poplin.matmul(left, right, alpha=s), lambda s: s * product, PLAIN),
        case("popops.map", lambda s: popops.map(_1 + _2 * s, x, y), lambda s: x + y * s, REMADE),
    ]


CASES = [*(case for name in catalogue for case in cases_of(name)), *dense_cases(), *sparse_cases(), *random_cases(),
         *number_cases()]


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
