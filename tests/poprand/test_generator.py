"""The generator: vectors, jumps, and its manners as a NumPy bit generator."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from runpy import run_path

import aox_oracle as oracle
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.poprand import Xoroshiro128aox

WORDS = st.integers(0, oracle.MASK)
OURS = {name: vector for name, vector in oracle.VECTORS.items() if "24-16-37" not in name}


def raw(state: tuple[int, int], n: int) -> list[int]:
    return [int(word) for word in Xoroshiro128aox(state=state).random_raw(n)]


def state_of(generator: Xoroshiro128aox) -> tuple[int, int]:
    words = generator.state["state"]
    return words["s0"], words["s1"]


@pytest.mark.parametrize("name", OURS)
def test_vectors(name: str) -> None:
    state, text, end = OURS[name]
    expected = [int(word, 16) for word in text.split()]
    generator = Xoroshiro128aox(state=state)
    assert [int(word) for word in generator.random_raw(len(expected))] == expected
    assert state_of(generator) == end


@pytest.mark.parametrize("name", oracle.VECTORS)
def test_the_oracle_itself(name: str) -> None:
    state, text, end = oracle.VECTORS[name]
    constants = (24, 16, 37) if name not in OURS else ()
    words, after = oracle.outputs(state, len(text.split()), *constants)
    assert [f"{word:016x}" for word in words] == text.split()
    assert after == end


def test_a_million_words() -> None:
    generator, digest = Xoroshiro128aox(state=(1, 2)), 0
    for word in generator.random_raw(10**6).tolist():
        digest = oracle.rotl(digest ^ word, 7)
    assert digest == 0x5473C33D4BEB1027
    assert state_of(generator) == (0xCA560FFD423AE2A5, 0xCB6D72C8691DA282)


def test_writes_to_the_seed_register() -> None:
    for v in (0, 1, 0x12345678):
        assert oracle.VECTORS[f"$PRNG_SEED write {v:#x}"][0] == oracle.prng_seed_write(v)


@given(WORDS, WORDS.filter(bool), st.integers(1, 64))
def test_any_state_against_integers(s0: int, s1: int, n: int) -> None:
    words, end = oracle.outputs((s0, s1), n)
    generator = Xoroshiro128aox(state=(s0, s1))
    assert [int(word) for word in generator.random_raw(n)] == words
    assert state_of(generator) == end


@pytest.mark.parametrize("exponent", [32, 64, 96])
def test_jumps_by_published_polynomials(exponent: int) -> None:
    assert oracle.power(1 << exponent) == oracle.POWER_OF_TWO_JUMPS[exponent]
    jumped = Xoroshiro128aox(state=(1, 2)).jumped(exponent=exponent)
    assert state_of(jumped) == oracle.jump((1, 2), 1 << exponent)


@pytest.mark.parametrize("k", range(128))
def test_every_power_of_two(k: int) -> None:
    assert state_of(Xoroshiro128aox(state=(3, 5)).advance(1 << k)) == oracle.jump((3, 5), 1 << k)


def test_the_table_of_powers() -> None:
    writer = Path(__file__).parents[2] / "src_cython" / "kernels" / "random" / "make_powers.py"
    if not writer.exists():
        pytest.skip("the sources are not beside the tests")
    pairs = re.findall(r"\{(0x[0-9a-f]{16}), (0x[0-9a-f]{16})\}", run_path(str(writer))["powers"]())
    value, count = 2, 0
    for low, high in pairs:
        assert int(high, 16) << 64 | int(low, 16) == value
        value, count = oracle.multiply(value, value), count + 1
    assert count == 128


@given(st.integers(-(1 << 130), 1 << 130), st.integers(-(1 << 64), 1 << 64))
def test_advances_add_up(m: int, n: int) -> None:
    once = Xoroshiro128aox(state=(7, 9)).advance(m + n)
    assert state_of(Xoroshiro128aox(state=(7, 9)).advance(m).advance(n)) == state_of(once)


def test_advance_is_drawing() -> None:
    generator = Xoroshiro128aox(state=(1, 2))
    generator.random_raw(1000)
    assert state_of(generator) == state_of(Xoroshiro128aox(state=(1, 2)).advance(1000))
    assert state_of(generator.advance(-1000)) == (1, 2)
    assert state_of(generator.advance((1 << 128) - 1)) == (1, 2)


def test_draws_of_a_numpy_generator() -> None:
    words, _ = oracle.outputs((1, 2), 40)
    generator = np.random.Generator(Xoroshiro128aox(state=(1, 2)))
    assert generator.random(20).tolist() == [(word >> 11) * 2.0**-53 for word in words[:20]]
    halves = [half for word in words[20:] for half in (word & 0xFFFFFFFF, word >> 32)]
    drawn = generator.integers(0, 1 << 32, 40, dtype=np.uint32).tolist()
    assert drawn == halves
    assert np.isfinite(generator.normal(size=100)).all()


def test_a_half_word_is_part_of_the_state() -> None:
    generator = Xoroshiro128aox(5)
    np.random.Generator(generator).integers(0, 1 << 32, dtype=np.uint32)
    kept = generator.state
    assert kept["has_uint32"] == 1
    next_draw = np.random.Generator(generator).integers(0, 1 << 32, dtype=np.uint32)
    other = Xoroshiro128aox(6)
    other.state = kept
    assert np.random.Generator(other).integers(0, 1 << 32, dtype=np.uint32) == next_draw


def test_seeding_is_numpys() -> None:
    expected = np.random.SeedSequence(42).generate_state(2, np.uint64).tolist()
    assert list(state_of(Xoroshiro128aox(42))) == expected
    assert list(state_of(Xoroshiro128aox(np.random.SeedSequence(42)))) == expected
    assert state_of(Xoroshiro128aox()) != state_of(Xoroshiro128aox())


def test_spawn_and_pickle() -> None:
    generator = Xoroshiro128aox(42)
    children = generator.spawn(3)
    assert len({state_of(child) for child in [generator, *children]}) == 4
    generator.random_raw(5)
    copy = pickle.loads(pickle.dumps(generator))
    assert copy.state == generator.state
    assert (copy.random_raw(8) == generator.random_raw(8)).all()
    assert state_of(copy.spawn(1)[0]) == state_of(generator.spawn(1)[0]) not in map(state_of, children)
    again = pickle.loads(pickle.dumps(np.random.Generator(generator)))
    assert again.random() == np.random.Generator(generator).random()
    with pytest.raises(TypeError):
        Xoroshiro128aox(state=(1, 2)).spawn(1)


@pytest.mark.parametrize("state", [(0, 0), (-1, 0), (1 << 64, 0)])
def test_states_that_are_refused(state: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="state"):
        Xoroshiro128aox(state=state)


@pytest.mark.parametrize("state", [5, (1,), (1, 2, 3), ("1", 2), (1.0, 2), (True, 1)])
def test_states_of_wrong_type(state: object) -> None:
    with pytest.raises(InvalidTypeError, match="state"):
        Xoroshiro128aox(state=state)


def test_other_bad_input_changes_nothing() -> None:
    generator = Xoroshiro128aox(1)
    before = generator.state
    for bad in ({}, {**before, "bit_generator": "PCG64"}, {**before, "state": {"s0": 0, "s1": 0}},
                {**before, "has_uint32": 2}, {**before, "state": {"s0": 1}}):
        with pytest.raises(InvalidArgumentError):
            generator.state = bad
    with pytest.raises(InvalidTypeError):
        generator.state = 3
    with pytest.raises(InvalidTypeError):
        generator.advance(1.5)
    with pytest.raises(InvalidArgumentError):
        generator.jumped(exponent=65)
    with pytest.raises(InvalidArgumentError):
        Xoroshiro128aox(1, state=(1, 2))
    assert generator.state == before


def test_a_seed_that_holds_itself_is_refused_by_name():
    seed: list[object] = [1]
    seed.append(seed)
    with pytest.raises(InvalidTypeError, match=r"^seed: got \[1, \["):
        Xoroshiro128aox(seed)
    assert (Xoroshiro128aox([1, 2]).random_raw(4) == Xoroshiro128aox(np.array([1, 2])).random_raw(4)).all()
