"""Several programs in one run, and several results of one."""

from __future__ import annotations

import traceback
from typing import NamedTuple

import numpy as np
import pytest

from poplibs_py import popfloat, popops, profile
from poplibs_py.errors import InvalidArgumentError, InvalidIndexError, InvalidTypeError
from poplibs_py.popops.strided.copies import adding, copying
from poplibs_py.program import OnArrays, Room, Sequence, Views, memory_in_use, memory_peak

COPY = copying((4,), 4, (4,), (4,))
WORDS = np.arange(1, 5, dtype=np.uint32)
NUMBERS = WORDS.astype(np.float32)


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


def refused(status, *arrays):
    return LookupError(status.tolist(), [x.tolist() for x in arrays])


def test_parts_take_operands_parts_of_them_room_and_constants():
    room = Room(2)
    middle, end = room.take(16), room.take(16)
    add = adding((4,), (4,), (4,), (4,))
    run = Sequence([(COPY, (0, middle)), (COPY, (NUMBERS, end)), (COPY, (middle, (1, 16))),
                    (add, (end, middle, 1))], 2, room.bytes)
    given, made = NUMBERS * 10, np.zeros(8, np.float32)
    before = memory_in_use()
    run(given, made)
    assert made.tolist() == [*NUMBERS * 11, *given]
    assert (run.operands, run.threads, run.temporary_bytes >= 128, memory_in_use()) == (2, 1, True, before)
    assert len(run.timed(given, made)) == len(run.phases) == 4


def test_a_function_of_arrays_may_be_a_part():
    room, seen = Room(2), []
    middle = room.take(16)

    def doubled(x, made):
        seen.append((x.shape, x.strides, made.dtype))
        made[...] = 2 * x.T

    like = NUMBERS.reshape(2, 2)
    run = Sequence([(COPY, (0, middle)), (OnArrays(doubled, (like.T, like)), (middle, 1))], 2, room.bytes)
    made = np.zeros(4, np.float32)
    run(NUMBERS, made)
    assert made.tolist() == [2, 4, 6, 8]
    assert seen == [((2, 2), (4, 8), np.float32)]
    assert len(run.timed(NUMBERS, made)) == len(run.phases) == len(run.programs) == 1

    def refusing(*arrays):
        try:
            raise KeyError("why")
        except KeyError:
            raise LookupError("no", arrays[0].shape) from None

    before = memory_in_use()
    with pytest.raises(LookupError, match="no") as caught:
        Sequence([(OnArrays(refusing, (like,)), ((1, middle[1]),))], 1, room.bytes)(NUMBERS)
    assert memory_in_use() == before
    for error in (caught.value, caught.value.__context__):  # the frames keep nothing of the room
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code is refusing.__code__]
        assert len(frames) == 1
        assert not frames[0].f_locals


def test_a_refusal_of_a_function_leaves_the_callers_frames_alone():
    def refusing(_):
        raise LookupError("no")

    def failing(mine):
        raise KeyError(mine)

    def both():
        try:
            failing("mine")
        except KeyError:
            with pytest.raises(LookupError):
                Sequence([(OnArrays(refusing, (NUMBERS,)), (0,))], 1)(NUMBERS)
            raise

    with pytest.raises(KeyError) as caught:
        both()
    assert caught.traceback[-1].frame.f_locals == {"mine": "mine"}


def test_a_status_ends_a_run_and_gives_its_room_back():
    room = Room(2)
    status = room.take(16)
    run = Sequence([(COPY, (0, status)), (COPY, (0, 1))], 2, room.bytes, [(0, 4, 12)], refused)
    made = np.zeros(4, np.uint32)
    before = memory_in_use()
    memory_peak(reset=True)
    with pytest.raises(LookupError) as caught:
        run(WORDS, made)
    assert np.array(caught.value.args[0], np.uint8).view(np.uint32).tolist() == [2, 3, 4]
    assert caught.value.args[1] == [WORDS.tolist(), [0] * 4]
    assert memory_in_use() == before < memory_peak()
    first = np.array([7, 0, 0, 0], np.uint32)
    run(first, made)
    assert made.tolist() == first.tolist()


@pytest.mark.parametrize(("parts", "more"), [
    ([(COPY, (0, 3))], {}), ([(COPY, (0, -1))], {}), ([(len, (0, 1))], {}), ([(COPY, (0,))], {}),
    ([(COPY, (0, 1))], {"room": 8, "status": [(0, 4, 8)]}), ([(COPY, (0, 1))], {"room": 8, "status": [(1, 0, 8)]}),
], ids=["past the room", "negative", "no executable", "too few", "past its end", "no such part"])
def test_parts_that_cannot_be_are_refused(parts, more):
    with pytest.raises(ValueError, match="allowed"):
        Sequence(parts, 2, **more)


def test_a_kept_call_refuses_as_the_first_one_does_and_writes_nothing():
    x, out = np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros((2, 1, 3), np.float32)
    for bad in (False, True, False, True, True):
        places = np.array([1, 4 if bad else 3])
        if not bad:
            np.testing.assert_array_equal(popops.multi_slice(x, places, out=out), x[places][:, None])
            out[...] = 0
            continue
        for call in (lambda i: popops.multi_slice(x, i, out=out), lambda i: popops.multi_update(x, out, i, out=x)):
            with pytest.raises(InvalidIndexError, match=r"got 4 at \[1\]; allowed: 0 to 3"):
                call(places)
        assert not out.any()
    assert x.tolist() == np.arange(12).reshape(4, 3).tolist()


def test_a_profile_tells_of_a_sequence_what_it_takes():
    with profile() as report:
        popfloat.quantise(np.ones(300_000, np.float32), "e2m1")
    [run] = report.runs
    assert run.temporary_bytes >= 300_000 * 5
    assert run.op == "popfloat.quantise"


def test_views_are_the_parts_of_their_bytes():
    views = Views(Pair, (((2, 3), np.dtype("f4"), 64), ((), np.dtype("i8"), 0)))
    buffer = np.zeros(128, np.uint8)
    made = views(buffer)
    made.first[1, 2], made.second[...] = 3, 5
    assert type(made) is Pair
    assert made.first.base is buffer
    assert (buffer[64:88].view("f4").tolist(), buffer[:8].view("i8").tolist()) == ([0, 0, 0, 0, 0, 3], [5])
    assert Views(tuple, ())(buffer) == ()
    beside = Views(Pair, (None, Views(tuple, (((2,), np.dtype("f4"), 8), 7))))
    assert (beside.beside(buffer, made).first is made, beside.beside(buffer, made).second[1]) == (True, 7)
    with pytest.raises(InvalidArgumentError, match="at least 16"):
        beside(buffer[:12])
    with pytest.raises(InvalidArgumentError, match="at least 88"):
        views(buffer[:80])
    with pytest.raises(InvalidTypeError, match="kind"):
        Views(list, ())
