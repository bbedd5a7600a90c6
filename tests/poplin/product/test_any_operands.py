"""Every op of dense products with every pair of formats, and with numbers of any format, scale and bit pattern."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import kernels, poplin
from poplibs_py.config import LEVELS, thread_limit
from poplibs_py.formats import FORMATS, FP16, FP32, Format, QuarterArray
from poplibs_py.kernels import available_levels
from poplibs_py.testing import assert_same_bits, check, exact_operands, random_operand
from poplibs_py.testing.strategies import arrays, extents, formats, layouts, relaid

OPS = ["matmul", "matmul_acc", "matmul_grouped", "matmul_grouped_acc", "matmul_prepared", "matmul_prepared_left"]
PAIRS = [pytest.param(a, b, id=f"{a}-{b}") for a, b in itertools.product(FORMATS, FORMATS)]
EXTENTS = extents("dot", most=80)
SEEDS = st.integers(0, 2**20)
FEW = settings.default.max_examples // 10 + 1
"""Examples of each of many parameters."""
BLOCKS = st.sampled_from([None, (1, -1), (-1, 1), (-1, -1), (1, 1), (4, 16), (3, 5), (16, -1)])


def operands_of(op: str, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
    """A call's operands: with a group in front for grouped products, with C for those that accumulate."""
    given_ = (c, a, b) if op.endswith("acc") else (a, b)
    return tuple(x[None] for x in given_) if "grouped" in op else given_


@pytest.mark.parametrize(("a_format", "b_format"), PAIRS)
@pytest.mark.parametrize("op", OPS)
@settings(max_examples=FEW)
@given(m=EXTENTS, k=st.integers(0, 300), n=EXTENTS, seed=SEEDS, out_format=st.sampled_from(FORMATS), lie=layouts(),
       activation=st.sampled_from([None, "relu", "gelu", "silu"]), alpha=st.sampled_from([1.0, 0.37, -2.5]))
def test_every_pair_of_formats_is_within_its_bound(op: str, a_format: Format, b_format: Format, m: int, k: int, n: int,
                                                   seed: int, out_format: Format, lie: str, activation: str | None,
                                                   alpha: float) -> None:
    a = relaid(random_operand((m, k), a_format, seed), lie)
    b = relaid(random_operand((k, n), b_format, seed + 1), lie)
    c = random_operand((m, n), out_format, seed + 2).copy()
    keywords = {"beta": 0.75} if op.endswith("acc") else {"out_dtype": out_format}
    check(op, *operands_of(op, a, b, c), activation=activation, alpha=alpha, **keywords)


@st.composite
def scaled(draw: st.DrawFn, shape: tuple[int, ...]) -> QuarterArray:
    """Codes of any format, a user's too, with one scale or one for each row, column or block."""
    form = draw(formats(at_most_bits=16, custom=True))
    blocks, low, high = draw(BLOCKS), max(form.scales[0], -8), min(form.scales[-1], 8)
    codes = relaid(draw(arrays(shape, form)), draw(layouts()))
    if blocks is None:
        return QuarterArray(codes, form, draw(st.integers(low, high)))
    counts = [-(-n // (max(n, 1) if b < 0 else b)) for n, b in zip(shape, blocks, strict=True)]
    exponents = np.random.default_rng(draw(SEEDS)).integers(low, high, counts, endpoint=True)
    return QuarterArray(codes, form, exponents, blocks)


@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize("op", ["matmul", "matmul_acc", "matmul_prepared", "matmul_prepared_left"])
@given(data=st.data(), m=EXTENTS, k=EXTENTS, n=EXTENTS, out_format=st.sampled_from(FORMATS))
def test_scales_of_rows_columns_and_blocks(op: str, side: str, data: st.DataObject, m: int, k: int, n: int,
                                           out_format: Format) -> None:
    a, b = (data.draw(scaled(shape) if side in (name, "both") else arrays(shape, formats()))
            for name, shape in (("left", (m, k)), ("right", (k, n))))
    c = random_operand((m, n), out_format, m).copy()
    check(op, *operands_of(op, a, b, c), **({} if op.endswith("acc") else {"out_dtype": out_format}))


@pytest.mark.parametrize("op", ["matmul_prepared", "matmul_prepared_left"])
def test_scales_that_were_not_prepared_for(op: str) -> None:
    for m, k, n in ((33, 64, 20), (5, 0, 5), (64, 3, 5)):
        a, b = random_operand((m, k), FP16, 1), random_operand((k, n), FP16, 2)
        check(op, a, QuarterArray(b, FP16, 1), out_dtype="float32")
        check(op, a, QuarterArray(b, FP16, np.ones((k, 1), np.int64), (1, -1)), out_dtype="float32")


@pytest.mark.parametrize("op", ["matmul", "matmul_acc", "matmul_grouped"])
@given(data=st.data(), m=EXTENTS, k=EXTENTS, n=EXTENTS,
       out_format=formats(at_most_bits=16, custom=True).filter(lambda f: f.signed))
def test_a_result_of_any_format_at_any_scale(op: str, data: st.DataObject, m: int, k: int, n: int,
                                             out_format: Format) -> None:
    """A `QuarterArray` as ``out`` or as C; the numbers that it held count in C alone.

    Unsigned formats promise nothing of what is below zero.
    """
    a, b = (data.draw(arrays(shape, formats(), moderate=True)) for shape in ((m, k), (k, n)))
    shape = (1, m, n) if op == "matmul_grouped" else (m, n)
    c = QuarterArray(data.draw(arrays(shape, out_format)), out_format, data.draw(st.sampled_from(out_format.scales)))
    if op == "matmul_acc":
        check(op, c, a, b, beta=-0.5)
    else:
        assert check(op, *operands_of(op, a, b, None), out=c) is c


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@settings(max_examples=2 * FEW)
@given(m=EXTENTS, k=st.integers(0, 400), n=EXTENTS, seed=SEEDS, patterns=st.booleans(), lie=layouts())
def test_the_same_call_gives_the_same_bits(fmt: Format, threads: int, m: int, k: int, n: int, seed: int, patterns: bool,
                                           lie: str) -> None:
    """A repeated call, into an array or not, and one with copies of the operands that lie as they do."""
    def call(**keywords: Any) -> Any:
        a = relaid(random_operand((m, k), fmt, seed, patterns=patterns), lie)
        b = relaid(random_operand((k, n), fmt, seed + 1, patterns=patterns), lie)
        first = poplin.matmul(a, b, **keywords)
        assert_same_bits(poplin.matmul(a, b, **keywords), first)
        return first

    with thread_limit(threads):
        made = call()
        assert_same_bits(call(), made)
        assert_same_bits(call(out=np.ones_like(made)), made)


@pytest.mark.parametrize("partials", ["half", "float"])
@pytest.mark.parametrize("passes", [3, 4])
@given(m=EXTENTS, k=st.integers(0, 700), n=EXTENTS, b_format=st.sampled_from(FORMATS), seed=SEEDS)
def test_partials_and_passes_keep_to_their_bounds(partials: str, passes: int, m: int, k: int, n: int, b_format: Format,
                                                  seed: int) -> None:
    a, b = random_operand((m, k), FP16, seed), random_operand((k, n), b_format, seed + 1)
    check("matmul", a, b, out_dtype="float32", partials_type=partials, half_passes=passes)


TILES = Path(kernels.__file__).parent / "_tiles"
SOFTWARE_TILES = ["amx on software tiles"] if any(TILES.glob("*_amx_emulated*")) else []


def exact_digest() -> str:
    """Of products whose sums are exact, in every pair of formats, with every kind of epilogue."""
    digest = hashlib.sha256()
    for seed, (a_format, b_format) in enumerate(itertools.product(FORMATS, FORMATS)):
        m, k, n = 1 + seed * 7 % 45, 1 + seed * 31 % 260, 1 + seed * 13 % 70
        made = exact_operands((m, k), (k, n), a_format, b_format, seed=seed)
        bias = made.addend((n,), FP32, seed)
        left, right = poplin.prepare(made.a, side="left", b_dtype=b_format), poplin.prepare(made.b, a_dtype=a_format)
        for a, b in ((made.a, made.b), (left, made.b), (made.a, right)):
            digest.update(poplin.matmul(a, b, out_dtype=FORMATS[seed % len(FORMATS)]).tobytes())
            digest.update(poplin.matmul(a, b, bias=bias, activation="relu", out_dtype="float32").tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("level", [*(x for x in available_levels() if x in LEVELS), *SOFTWARE_TILES])
def test_exact_products_have_the_same_bits_at_every_level(level: str) -> None:
    chosen = {"POPLIBS_EMULATE_AMX": "1"} if " " in level else {"POPLIBS_MAX_ISA": level}
    usual = {name: os.environ[name] for name in os.environ.keys() - {"POPLIBS_EMULATE_AMX", "POPLIBS_MAX_ISA"}}
    ran = subprocess.run([sys.executable, __file__], env=usual | chosen, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [exact_digest()]


if __name__ == "__main__":  # in a process of its own, at another level
    print(exact_digest())
