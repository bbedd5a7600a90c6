"""Every drawn call of every op of the library against its reference, within its bound; and repeated, the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from aox_oracle import jump, outputs, splitmix
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poplibs_py import poprand
from poplibs_py.errors import InvalidArgumentError, UnsupportedError
from poplibs_py.ops import catalogue, located
from poplibs_py.poprand.reference import counter_words, words
from poplibs_py.testing import assert_within_bound

OPS = [name for name in catalogue if name.startswith("poprand.")]


def test_every_function_that_draws_has_a_record() -> None:
    no_ops = {"Xoroshiro128aox", "get_hw_seeds", "set_hw_seeds", "set_seed"}
    assert {name.removeprefix("poprand.") for name in OPS} == set(poprand.__all__) - no_ops


@pytest.mark.parametrize("name", OPS)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_results_lie_within_their_bounds(name: str, data: Any) -> None:
    record = catalogue[name]
    operands, keywords = data.draw(located(record.draws)())
    ball = located(record.bound)(*operands, **keywords)
    first = record.face(*operands, **{**keywords, "out": keywords["out"].copy()} if "out" in keywords else keywords)
    got = record.face(*operands, **keywords)
    assert_within_bound(got, ball)
    assert np.shape(first) == np.shape(got)
    if keywords.get("out") is not operands[0]:
        assert np.asarray(first).tobytes() == np.asarray(got).tobytes()
    if "out" in keywords:
        assert got is keywords["out"]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 1 << 50), st.integers(0, 300))
def test_words_of_the_reference(seed: int, modifier: int, row: int, skipped: int) -> None:
    """Lane l of a row is a jump of ``modifier * 2^96 + l * 2^64 + row`` from the start."""
    lanes = counter_words(seed, row, 2, modifier)
    start = tuple(splitmix(seed, 2))
    for lane in (0, 7, 15):
        assert outputs(jump(start, (modifier << 96) + (lane << 64) + row), 2)[0] == lanes[:, lane].tolist()
    assert (words(64, 40, seed, modifier, skipped) == words(64, 40 + skipped, seed, modifier)[skipped:]).all()


def test_what_has_no_reference() -> None:
    record = catalogue["poprand.uniform"]
    with pytest.raises(InvalidArgumentError, match="seed"):
        located(record.bound)(4)
    with pytest.raises(UnsupportedError, match="stream"):
        located(record.bound)(4, seed=1, stream="ipu")
