"""What a program knows of one call alone: the road keeps none that knows any."""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from poplibs_py import profile
from poplibs_py.errors import PoplibsError
from poplibs_py.formats import FP32, QuarterArray
from poplibs_py.memo import forget
from poplibs_py.ops import RESULT, Request, catalogue, operand, receive, road, travel
from poplibs_py.ops.contents import of_one_call
from poplibs_py.ops.parts import Part, results
from poplibs_py.popops.sequence import SequenceBuilder
from poplibs_py.program import Face
from poplibs_py.testing.cases import cases

X, OP = np.ones((4, 4), np.float32), catalogue["popops.sum"]


@dataclass(frozen=True)
class Adds:
    """A program with something of its own."""

    own: object

    def __call__(self, x, result):
        np.add(x, 1, out=result)

    def run(self, x, result):
        self(x, result)


def closed_over(own):
    def run(x, result):
        assert own is not None
        np.add(x, 1, out=result)

    return run


def adds(own, x, result):
    np.add(x, 1, out=result)


MAKERS = {"closure": closed_over, "partial": lambda own: partial(adds, own), "object": Adds,
          "method": lambda own: Adds(own).run, "nested": lambda own: partial(adds, {"a": (closed_over(Adds(own)),)})}


def in_a_sequence(own):
    steps = SequenceBuilder(X, X)
    steps.run(closed_over(own), *steps.operands)
    return steps.made()


def constant_of_a_sequence(own):
    steps = SequenceBuilder(X, X)
    x, result = steps.operands
    steps.run(lambda x, own, result: np.add(x, 1, out=result), x, own, result)
    return steps.made()


def by_default(own):
    def run(x, result, *, own=own):
        np.add(x, 1, out=result)

    return run


MAKERS |= {"sequence": in_a_sequence, "default": by_default}
PLAIN = 3, "text", None, FP32, (1, 2), np.arange(3), {"a": [1.5]}, np.dtype(np.int8)
OWN = (operand("x", X), receive("out", None, (2,), None, FP32), X[1:], QuarterArray.from_array(X, "f143", 0),
       results(None, (Part((2,), FP32),), tuple))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_one_calls_is_found_wherever_a_program_holds_it(make):
    for own in PLAIN:
        assert of_one_call(make(own), [X]) == ""
    for own in OWN:
        assert " knows " in of_one_call(make(own), [X])
    assert of_one_call(make(X), [X.copy()]) == ""


def test_an_array_s_own_methods_know_it():
    for method in (X.sum, X.__add__):
        for program in (method, partial(method, 1)):
            assert " knows ndarray" in of_one_call(program, [X])
        assert of_one_call(method, [X.copy()]) == ""


def test_an_array_of_the_call_that_is_a_constant_of_a_sequence_is_found():
    assert " knows ndarray" in of_one_call(constant_of_a_sequence(X[1:]), [X])
    assert of_one_call(constant_of_a_sequence(X.copy()), [X]) == ""


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("of_call", [False, True])
def test_a_program_is_kept_that_knows_what_every_call_has(make, of_call):
    def function(x, *, out=None):
        given = operand("x", x)
        receiver = receive("out", out, given.shape, None, FP32)
        return Request(make(receiver if of_call else given.shape), (given, RESULT), receiver, lambda: ("", "", None))

    face = Face(function, travel, OP)
    for i in range(3):
        np.testing.assert_array_equal(face(X + i), X + i + 1)
    assert face.kept == (not of_call)


def test_what_is_looked_at_or_made_before_anything_runs_is_not_kept():
    def blocks(x):
        given = operand("x", x)  # whose scales nobody takes
        return Request(lambda codes, result: None, (given, RESULT), receive("out", None, given.shape, None, FP32),
                       lambda: ("", "", None))

    def made(x):
        given = operand("x", x)
        receiver = receive("out", None, given.shape, None, FP32)
        receiver.array[...] = given.array.sum()
        return Request(None, (given,), receiver, lambda: ("", "", None))

    face = Face(blocks, travel, OP)
    q = QuarterArray(np.zeros((4, 4), np.uint8), "f143", np.int8([[0], [1]]), (2, 4))
    for _ in range(2):
        face(q)
    assert face.kept == 0
    face = Face(made, travel, OP)
    for i in range(3):
        assert face(X + i)[0, 0] == 16 * (i + 1)
    assert face.kept == 0


@pytest.mark.parametrize("name", catalogue)
def test_no_program_of_an_op_knows_what_is_one_calls(name, monkeypatch):
    """One that does is not kept: each call asks Python again."""
    forget()  # what other tests had kept
    found = []
    monkeypatch.setattr(road, "of_one_call", lambda *given: found.append(of_one_call(*given)) or found[-1])
    for case in cases(name):
        for more in ({}, {"target": "gc200"}):
            with suppress(PoplibsError, TypeError, MemoryError):
                catalogue[name].face(*copy.deepcopy(case.operands), **copy.deepcopy(case.keywords) | more)
    assert not any(found), found


def arrays_of(value):
    """The arrays of operands and keywords that may hold other numbers, wherever these have them."""
    if isinstance(value, np.ndarray):
        return [value] * (value.size > 1 and value.flags.writeable)
    held = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [array for one in held for array in arrays_of(one)]


def bytes_of(made):
    """What a call gave, whatever it is: numbers bit by bit."""
    if isinstance(made, (tuple, list)):
        return tuple(map(bytes_of, made))
    return np.asarray(made.codes if isinstance(made, QuarterArray) else made).tobytes()


@pytest.mark.parametrize("name", catalogue)
def test_a_kept_call_reads_its_numbers_anew(name):
    """Calls are kept for other numbers in the same places: what they were must not be left in what is kept."""
    for case in cases(name):
        forget()
        operands, keywords = copy.deepcopy((case.operands, case.keywords))
        arrays = arrays_of((operands, keywords))
        first = [array.copy() for array in arrays]

        def outcome(turn, operands=operands, keywords=keywords, arrays=arrays, first=first):
            for array, own in zip(arrays, first, strict=True):  # of an op in place, too
                array[...] = np.roll(own.ravel(), turn).reshape(own.shape)
            try:
                return bytes_of(catalogue[name].face(*operands, **keywords))
            except PoplibsError as error:
                return str(error)

        for _ in range(2):
            outcome(0)
        with profile():  # within which nothing is kept
            due = outcome(1)
        assert [outcome(1), outcome(1)] == [due, due], case
