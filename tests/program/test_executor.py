"""The executor's limits: how many operands, axes and arrays it takes, and what it does with one more."""

import ml_dtypes
import numpy as np
import pytest

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.poplin.tile_conv._partials import CLEAR, CLEAR_VERTEX, REDUCE, REDUCE_VERTEX
from poplibs_py.program import (
    ComputeSet,
    Exchange,
    Loop,
    Program,
    Segment,
    _executor,
    host_program,
    memory_in_use,
    temporary,
)


def test_as_many_operands_as_there_is_room_for():
    arrays = [np.zeros(3) for _ in range(31)]
    run = host_program(operands=31, threads=1, arena_bytes=64, workspace_bytes=64)
    run(*arrays)
    with pytest.raises(ValueError, match="exactly 31"):
        run(*arrays, arrays[0])
    for count in (-1, 32, 1000):
        with pytest.raises(InvalidArgumentError, match=r"^operands: .* 0 to 31"):
            host_program(operands=count, threads=1)


@pytest.mark.parametrize("threads", [1, 2])
def test_compute_sets_run_in_order_and_tell_their_seconds(threads):
    items = np.zeros(2, CLEAR)
    items["bytes"] = 8
    one, both = items[:1], items
    both["first"] = [0, 8]
    sets = ((Segment(CLEAR_VERTEX, one, np.array([0])),), (), (Segment(CLEAR_VERTEX, both, np.array([0, 1])),))
    steps = tuple(ComputeSet(f"set {i}", segments) for i, segments in enumerate(sets))  # one share, none, both
    run = Program(steps, 1, 2).executable(threads)
    assert run.phases == ("set 0", "set 1", "set 2")
    array = np.ones(3, np.int64)
    seconds = run.timed(array)
    np.testing.assert_array_equal(array, [0, 0, 1])
    assert seconds.shape == (3,)
    assert (seconds >= 0).all()
    assert seconds.sum() > 0
    for wrong, error in (((), ValueError), ((array, array), ValueError), ((3,), TypeError)):
        for call in (run, run.timed):
            with pytest.raises(error, match="arrays: got"):
                call(*wrong)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_loop_repeats_its_body_and_hands_out_the_items_of_each_turn(threads):
    turns, tiles = np.divmod(np.arange(12), 4)  # one item for each tile in each turn
    items = np.zeros(12, CLEAR)
    items["first"], items["bytes"] = 8 * np.arange(12), 8
    own = ComputeSet("own", (Segment(CLEAR_VERTEX, items[4:8], tiles[:4], np.array([0, 1, 1, 2])),))
    whole = ComputeSet("whole", (Segment(CLEAR_VERTEX, items, tiles, turns),))
    received = Exchange("exchange", 96)
    array = np.ones(12, np.int64)
    Program((Loop(3, (own,)),), 1, 4).executable(threads)(array)
    np.testing.assert_array_equal(np.flatnonzero(array == 0), [4, 5, 6, 7])
    program = Program((received, Loop(3, (received, whole)), own), 1, 4)
    assert program.exchanged_bytes == 192
    run = program.executable(threads)
    run(array)
    assert not array.any()
    assert run.phases == ("whole", "own")
    assert run.timed(array).shape == (2,)


def test_vertices_know_the_turn():
    items = np.zeros(1, REDUCE)
    items["count"] = items["fan_in"] = items["accumulate"] = 1
    items["to"] = 4
    adds = ComputeSet("reduce", (Segment(REDUCE_VERTEX, items, np.zeros(1, int)),))
    for turns in (1, 2, 5):
        sums = np.array([1, 7], np.float32)
        Program((Loop(turns, (adds,)),), 1, 1).executable(1)(sums)
        assert sums[1] == turns  # the first turn starts anew


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.intp, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(), (5,), (3, 0), (2, 3, 4), (1,) * 64])
def test_temporary_arrays_are_counted(shape, dtype):
    before = memory_in_use()
    array = temporary(shape, dtype)
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.flags.carray
    array[...] = 1
    assert before + array.nbytes <= memory_in_use() <= before + array.nbytes + 63
    view = array.reshape(-1)[:1]
    del array
    assert (memory_in_use() > before) == bool(view.size)
    del view
    assert memory_in_use() == before


@pytest.mark.skipif(_executor.sanitized, reason="builds with AddressSanitizer keep no memory")
def test_memory_that_was_given_back_serves_what_needs_less_but_not_much_less():
    def place(size):
        return temporary((size,), np.uint8).ctypes.data

    most = place(60 << 20)  # nearly all that is kept: what was there before has left
    assert place(60 << 20) == place(44 << 20) == place(31 << 20) == most
    assert place(20 << 20) != most
    for size in (100, 5000, 131_072, 262_080, 262_081, 300_000, 3_000_000):
        assert place(size) == place(size)


@pytest.mark.parametrize("shape", [(1,) * 65, (-1,), (-2, -3)])
def test_a_shape_that_no_temporary_array_has(shape):
    with pytest.raises(InvalidArgumentError, match=r"^shape: .* at most 64 extents"):
        temporary(shape)


def test_temporary_arrays_that_nothing_holds():
    with pytest.raises((MemoryError, OverflowError)):
        temporary((1 << 61, 1 << 10))
    with pytest.raises(MemoryError):
        temporary((1 << 58,))
