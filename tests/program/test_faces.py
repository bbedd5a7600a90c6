"""Faces: a call that is found again does what the long way does, and what differs in any way is another call."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
import weakref
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import poplibs_py
from poplibs_py import poplin
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, PoplibsError
from poplibs_py.formats import BF16, QuarterArray
from poplibs_py.program import BoundCall, Face, host_program
from poplibs_py.testing import random_operand, strategies

A, B = random_operand((5, 7), "float32", 1), random_operand((7, 3), "float32", 2)


class Subclass(np.ndarray):
    """An array class of somebody else's."""


def plain(face, *args, **keywords):
    """The same call by the long way: nothing is kept while somebody listens."""
    with poplibs_py.profile():
        return face(*args, **keywords)


def kinds_of(call):
    """How many kinds of calls of `poplin.matmul` a function adds."""
    before = poplin.matmul.kept
    call()
    return poplin.matmul.kept - before


@st.composite
def operands(draw, rows, columns):
    fmt = draw(strategies.formats())
    return strategies.relaid(random_operand((rows, columns), fmt, draw(st.integers(0, 99))), draw(strategies.layouts()))


@given(st.data())
def test_a_call_that_is_found_again_gives_the_same_bits(data):
    a, b = data.draw(operands(5, 7)), data.draw(operands(7, 3))
    keywords = data.draw(strategies.options({
        "alpha": [0.5, 2], "activation": ["relu", "gelu", None], "out_dtype": ["float32", np.float16, BF16],
        "bias": [random_operand((3,), "float32", 5), random_operand((5, 1), "float16", 5)],
        "options": [{"availableMemoryProportion": 0.3}, {}], "reproducible": [True, False],
    }))  # fmt: skip
    expected = plain(poplin.matmul, a, b, **keywords)
    for _ in range(2):
        found = poplin.matmul(a, b, **keywords)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
    other = random_operand(a.shape, "float32", 77).astype(a.dtype)  # in C order
    np.testing.assert_array_equal(poplin.matmul(other, b, **keywords), plain(poplin.matmul, other, b, **keywords))


def test_the_second_call_of_a_kind_adds_none():
    x = np.ones((11, 13), np.float32)
    assert kinds_of(lambda: poplin.matmul(x, x.T)) == 1
    assert kinds_of(lambda: poplin.matmul(2 * x, (3 * x).T)) == 0


ROWS = np.arange(9, dtype=np.int8)[:, None]
DIFFERENT = [
    lambda x: poplin.matmul(x, x, alpha=1),
    lambda x: poplin.matmul(x, x, alpha=1.0),
    lambda x: poplin.matmul(x, x, reproducible=True),
    lambda x: poplin.matmul(x, x, reproducible=False),
    lambda x: poplin.matmul(x, x, activation="relu"),
    lambda x: poplin.matmul(x, x, activation="gelu"),
    lambda x: poplin.matmul(x, x, activation=None),
    lambda x: poplin.matmul(x, x, out=np.empty((9, 9), np.float32)),
    lambda x: poplin.matmul(x, x, out=np.empty((9, 9), np.float32).T),
    lambda x: poplin.matmul(x, x, out=np.empty((9, 9), np.float16)),
    lambda x: poplin.matmul(x.T, x),
    lambda x: poplin.matmul(x, x.T),
    lambda x: poplin.matmul(x[::-1], x),
    lambda x: poplin.matmul(x, x.astype(np.float16)),
    lambda x: poplin.matmul(x, x, options={"availableMemoryProportion": 0.3}),
    lambda x: poplin.matmul(x, x, options={"availableMemoryProportion": 0.4}),
    lambda x: poplin.matmul(x, x, options={"availableMemoryProportion": "0.4"}),
    lambda x: poplin.matmul(x, x, target="gc200"),
    lambda x: poplin.matmul(x, x, target="bow"),
    lambda x: poplin.matmul(x, x, bias=x[0]),
    lambda x: poplin.matmul(x, x, bias=x[:, :1]),
    lambda x: poplin.matmul(x, QuarterArray(np.ones((9, 9), np.uint8), "f143", 1)),
    lambda x: poplin.matmul(x, QuarterArray(np.ones((9, 9), np.uint8), "f143", 2)),
    lambda x: poplin.matmul(x, QuarterArray(np.ones((9, 9), np.uint8), "e4m3", 2)),
    lambda x: poplin.matmul(x, QuarterArray(np.ones((9, 9), np.uint8), "f143", ROWS, (1, -1))),
]


def test_calls_that_differ_are_different_kinds():
    x = np.ones((9, 9), np.float32)
    for call in DIFFERENT:
        assert kinds_of(lambda call=call: call(x)) == 1
    for call in DIFFERENT:
        assert kinds_of(lambda call=call: call(x)) == 0


def test_a_wrong_argument_is_refused_after_an_equal_right_one():
    poplin.matmul(A, B, half_passes=3)
    for wrong in (3.0, True, np.float32(3)):
        with pytest.raises(PoplibsError, match="half_passes"):
            poplin.matmul(A, B, half_passes=wrong)


def test_threads_are_part_of_the_key():
    x = np.ones((200, 200), np.float32)
    for threads in (1, 2, 1, 2):
        with thread_limit(threads):
            assert poplin.matmul(x, x)[0, 0] == 200
    with thread_limit(7):
        assert kinds_of(lambda: poplin.matmul(x, x)) == 1


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::-1]])
def test_results_into_operands_are_as_if_apart(view):
    for _ in range(3):
        x = random_operand((6, 6), "float32", 3)
        y = random_operand((6, 6), "float32", 4)
        expected = poplin.matmul(x, y)
        poplin.matmul(x, y, out=np.empty_like(x))  # the kind of call that is kept
        assert poplin.matmul(x, y, out=view(x)).tobytes() == expected.tobytes()


def test_a_read_only_out_is_refused_after_a_writeable_one():
    out = np.empty((5, 3), np.float32)
    poplin.matmul(A, B, out=out)
    out.flags.writeable = False
    with pytest.raises(InvalidArgumentError, match="read-only"):
        poplin.matmul(A, B, out=out)


def test_an_array_whose_shape_was_set_is_another_kind():
    x, y = np.ones((4, 6), np.float32), np.ones((6, 4), np.float32)
    assert poplin.matmul(x, y).shape == (4, 4)
    x.shape, y.shape = (2, 12), (12, 2)
    assert poplin.matmul(x, y).tolist() == [[12, 12], [12, 12]]


def test_texts_made_at_run_time_are_the_same_kind():
    poplin.matmul(A, B, activation="relu")
    assert kinds_of(lambda: poplin.matmul(A, B, activation="".join(["re", "lu"]))) == 0
    keyword, out = "".join(["o", "ut"]), np.zeros((5, 3), np.float32)
    for _ in range(3):
        out[...] = 0
        assert poplin.matmul(A, B, **{keyword: out}) is out
        assert out.tobytes() == plain(poplin.matmul, A, B).tobytes()
    alpha = "".join(["al", "pha"])
    assert poplin.matmul(A, B, **{alpha: 2.0}).tobytes() == plain(poplin.matmul, A, B, alpha=2.0).tobytes()


def test_what_has_no_key_is_right():
    expected = np.float32([[3], [7]])
    for _ in range(2):
        np.testing.assert_array_equal(poplin.matmul([[1, 2], [3, 4]], [[1], [1]]), expected)
        owned = np.float32([[1, 2], [3, 4]]).view(Subclass)
        np.testing.assert_array_equal(poplin.matmul(owned, [[1], [1]]), expected)


def test_a_face_is_a_function_to_whoever_asks():
    face = poplin.matmul
    assert inspect.isroutine(face)
    assert face.__doc__.startswith("Multiply matrices")
    assert list(inspect.signature(face).parameters)[:3] == ["a", "b", "out"]
    assert (face.__name__, face.__module__) == ("matmul", "poplibs_py.poplin.product.api")
    assert pickle.loads(pickle.dumps(face)) is face
    assert copy.deepcopy(face) is face
    assert "matmul" in repr(face)
    assert weakref.ref(face)() is face
    with pytest.raises(TypeError, match="unexpected keyword"):
        face(A, B, nonsense=1)
    with pytest.raises(TypeError, match="positional"):
        face(A)
    assert type("Owner", (), {"product": face})().product(A, B).shape == (5, 3)


def test_calls_hold_no_array():
    x = np.ones((17, 19), np.float32)
    made = poplin.matmul(x, x.T, bias=x[0, :17].copy())
    references = [weakref.ref(x), weakref.ref(made)]
    before = sys.getrefcount(B)
    for _ in range(50):
        poplin.matmul(A, B, out=np.empty((5, 3), np.float32))
    assert sys.getrefcount(B) == before
    del x, made
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def _echo():
    """A face whose calls do nothing, and the list of its long ways."""
    calls = []

    def describe(x, *, out=None, seed=None):
        calls.append(x)
        return x

    def road(face, call, key):
        if key is not None:
            face.keep(key, BoundCall(None, [], (2,), np.dtype(np.float32)))
        return "long"

    return Face(describe, road, None, "out", ("seed",)), calls


def test_a_face_that_met_too_many_kinds_begins_anew():
    face, calls = _echo()
    for number in range(5000):
        assert face(number) == "long"
        assert face(number).shape == (2,)
    assert len(calls) == 5000
    assert 0 < face.kept <= 4096


def test_values_are_no_part_of_the_key():
    face, calls = _echo()
    for first, others in ((1, (2, 2**64 - 1, np.uint64(2**63))), ((1, 2), ((3, 4), (0, 2**32 - 1)))):
        assert face(1, seed=first) == "long", "a pair is another kind than a number"
        for seed in others:
            assert isinstance(face(1, seed=seed), np.ndarray)
    for seed in (None, -1, 2**64, (2**32, 0), (1, 2, 3), 1.0, True):
        assert face(1, seed=seed) == "long"
    assert len(calls) == 9


def test_named_tuples_are_found_again_by_their_kind_and_what_they_hold():
    class Pair(NamedTuple):
        first: object
        second: object

    class Loose(tuple):  # may hold anything else
        pass

    face, calls = _echo()
    ones = np.ones(3, np.float32)
    for pair in ((ones, 1), Pair(ones, 1), Pair(ones, 2), Pair(1, ones)):
        assert face(pair) == "long"
        assert isinstance(face(type(pair)._make([*pair]) if isinstance(pair, Pair) else (*pair,)), np.ndarray)
    for _ in range(2):
        assert face(Loose((ones, 1))) == "long"
    assert len(calls) == 6


def test_calls_that_change_an_array_while_they_are_described_are_not_kept():
    seen = []

    def describe(x):
        seen.append(x.shape)
        x.shape = (3, 2)
        return x

    def road(face, call, key):
        assert key is None
        return call

    face = Face(describe, road)
    face(np.ones((2, 3)))
    assert seen == [(2, 3)]


def test_arguments_beyond_the_room_of_a_key_take_the_long_way():
    face, calls = _echo()
    deep = ()
    for _ in range(300):
        deep = (deep, 1)
    for argument in (deep, tuple(range(500)), {str(i): i for i in range(300)}, "x" * 1000 + str(len(calls))):
        assert face(argument) == "long"
        assert face(argument) == "long"
    assert len(calls) == 8


def test_bound_calls_check_what_they_are_made_of():
    run = host_program(operands=2, threads=1)
    with pytest.raises(ValueError, match="sources: got 1"):
        BoundCall(run, [0], (2,), np.dtype(np.float32))
    with pytest.raises(InvalidArgumentError, match="shape"):
        BoundCall(None, [], (1,) * 65, np.dtype(np.float32))


def test_faces_are_called_from_many_threads():
    shapes = [(n, n + 1) for n in range(1, 40)]
    expected = [poplin.matmul(np.ones(s, np.float32), np.ones(s[::-1], np.float32)).tobytes() for s in shapes]
    wrong = []

    def work(first):
        for turn in range(3 * len(shapes)):
            shape = shapes[(first + turn) % len(shapes)]
            got = poplin.matmul(np.ones(shape, np.float32), np.ones(shape[::-1], np.float32), alpha=1.0)
            if got.tobytes() != expected[(first + turn) % len(shapes)]:
                wrong.append(shape)

    threads = [threading.Thread(target=work, args=(7 * i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_error_in_a_kept_call_is_none():
    with pytest.raises(PoplibsError):
        poplin.matmul(A, A)
    assert poplin.matmul(A, B).shape == (5, 3)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16])
def test_formats_by_dtype_name_and_format_are_the_same_result(dtype):
    x = np.ones((4, 4), dtype)
    results = [poplin.matmul(x, x, out_dtype=what) for what in ("float32", np.float32, np.dtype(np.float32))]
    assert len({r.tobytes() for r in results}) == 1
