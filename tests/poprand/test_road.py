"""Repeated calls: what they have of their own, and that they give what the first call of their kind gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from poplibs_py import poprand, profile
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError

X = np.linspace(-3, 3, 40).astype(np.float32)
WEIGHTS = np.array([1.0, 0.0, 2.5, 4.0])
KINDS: dict[str, Callable[..., Any]] = {
    "bits": lambda **k: poprand.bits(7, **k),
    "uniform": lambda **k: poprand.uniform((3, 5), -1.0, 2.0, **k),
    "integers": lambda **k: poprand.uniform(7, -9, 9, dtype="int32", **k),
    "log_uniform": lambda **k: poprand.log_uniform(7, 1, 99, dtype="int32", **k),
    "normal": lambda **k: poprand.normal(7, dtype="float16", **k),
    "truncated_normal": lambda **k: poprand.truncated_normal(7, **k),
    "bernoulli": lambda **k: poprand.bernoulli(7, 0.4, dtype="bool", **k),
    "exponential": lambda **k: poprand.exponential(7, np.float32(2.0), **k),
    "gumbel": lambda **k: poprand.gumbel(7, **k),
    "dropout": lambda **k: poprand.dropout(X, 0.4, **k),
    "dropout, strided": lambda **k: poprand.dropout(X[::-2], 0.4, **k),
    "shaped_dropout": lambda **k: poprand.shaped_dropout(X.reshape(4, 10).T, (10, 1), 0.4, **k),
    "categorical": lambda **k: poprand.categorical((2, 5), [1, 0, 3], **k),
    "categorical, weights in an array": lambda **k: poprand.categorical(9, WEIGHTS, **k),
}


def face_of(name: str) -> Any:
    name = name.partition(",")[0]
    return getattr(poprand, {"integers": "uniform"}.get(name, name))


@pytest.mark.parametrize("name", KINDS)
def test_another_seed_is_no_other_kind_of_call(name: str) -> None:
    call = KINDS[name]
    call(seed=0, seed_modifier=0, offset=0)
    kept = face_of(name).kept
    for place in ((1, 0, 0), (2**64 - 1, 0, 3), (2, 2**32 - 1, 0), (np.uint64(2**63), np.int32(4), 70)):
        words = dict(zip(("seed", "seed_modifier", "offset"), place, strict=True))
        repeated = call(**words)
        with profile() as report:  # calls that somebody listens to take the long way
            described = call(**words)
        assert len(report.runs) == 1
        assert repeated.tobytes() == described.tobytes()
    assert face_of(name).kept == kept


@pytest.mark.parametrize("name", KINDS)
def test_words_are_checked_in_repeated_calls_too(name: str) -> None:
    call = KINDS[name]
    for _ in range(2):
        call(seed=1, seed_modifier=1, offset=1)
        call()
    before = call(seed=5)
    poprand.set_seed(5)
    expected = call()
    poprand.set_seed(5)
    for bad in ({"seed": 1, "seed_modifier": 1 << 32, "offset": 1}, {"seed": 1, "seed_modifier": 1, "offset": 1 << 63},
                {"seed": -1, "seed_modifier": 1, "offset": 1}, {"seed_modifier": 1}, {"offset": 1}):
        with pytest.raises(InvalidArgumentError, match=r"^(seed|seed_modifier|offset): got"):
            call(**bad)
    with pytest.raises(InvalidTypeError, match=r"^seed_modifier: got"):
        call(seed=1, seed_modifier=(1, 0), offset=1)
    assert call().tobytes() == expected.tobytes(), "a refused call does not move the default stream"
    assert call(seed=5).tobytes() == before.tobytes()


def test_repeated_draws_take_the_weights_of_their_own_call() -> None:
    weights = WEIGHTS.copy()
    poprand.set_seed(8)
    poprand.categorical(50, weights)
    kept = poprand.categorical.kept  # type: ignore[attr-defined]
    weights[:] = 0, 1, 0, 0
    assert set(poprand.categorical(50, weights).tolist()) == {1}
    poprand.set_seed(9)
    expected = poprand.uniform(4)
    poprand.set_seed(9)
    weights[2] = np.nan
    with pytest.raises(InvalidArgumentError, match=r"^weights: got"):
        poprand.categorical(50, weights)
    assert poprand.categorical.kept == kept  # type: ignore[attr-defined]
    assert (poprand.uniform(4) == expected).all(), "a refused call does not move the default stream"


@pytest.mark.parametrize("x", [9, X, X.reshape(8, 5)[:, ::2], X.reshape(5, 8).T], ids=["9", "1", "strided", "turned"])
def test_repeated_permutations(x: Any) -> None:
    poprand.permutation(x, seed=1)
    kept = poprand.permutation.kept  # type: ignore[attr-defined]
    rows = x if isinstance(x, int) else x + 1  # of another array
    for seed in range(5):
        repeated = poprand.permutation(rows, seed=seed)
        with profile():
            described = poprand.permutation(rows, seed=seed)
        assert (repeated == described).all()
        assert (np.sort(repeated, axis=0) == np.sort(np.arange(x) if isinstance(x, int) else rows, axis=0)).all()
    assert poprand.permutation.kept <= kept + 1  # type: ignore[attr-defined]


def test_repeated_calls_without_a_seed_continue() -> None:
    poprand.set_seed((3, 4))
    drawn = [poprand.normal(33) for _ in range(4)]
    whole = poprand.normal(4 * 64, seed=(3, 4)).reshape(4, 64)
    assert (np.array(drawn) == whole[:, :33]).all(), "whole rows of 32"


def test_repeated_calls_into_any_strides() -> None:
    expected = poprand.uniform((4, 6), seed=7)
    room = np.zeros((12, 8), np.float32)
    for out in (room[:4, :6], room[::3, 1:7], np.zeros((6, 4), np.float32).T, np.zeros((4, 6), np.float32)[::-1]):
        for _ in range(3):
            out[...] = 0
            assert poprand.uniform((4, 6), seed=7, out=out) is out
            assert (out == expected).all()
    assert not room[4:6].any()


def test_a_number_in_an_array_may_change() -> None:
    limit = np.array(1.0)
    for high in (1.0, 2.0, 3.0):
        limit[...] = high
        assert (poprand.uniform(9, 0, limit, seed=1) == poprand.uniform(9, 0, high, seed=1)).all()


def test_normals_of_a_modelled_ipu_are_discrete() -> None:
    """373 numbers, multiples of 1/32: a Kolmogorov-Smirnov test sees the steps; the counter stream passes."""
    z = poprand.normal(100_000, seed=1, stream="ipu").astype(np.float64)
    assert (z * 32 == np.round(z * 32)).all()
    assert abs(z).max() <= 186 / 32
    assert stats.kstest(z, "norm").pvalue < 1e-6
    assert stats.kstest(poprand.normal(100_000, seed=1).astype(np.float64), "norm").pvalue > 1e-6
