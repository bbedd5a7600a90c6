"""The executor's limits: how many operands, axes and arrays it takes, and what it does with one more."""

import ml_dtypes
import numpy as np
import pytest

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.poplin.matmul._partials import CLEAR, CLEAR_VERTEX
from poplibs_py.program import Executable, memory_in_use, temporary


def test_as_many_operands_as_there_is_room_for():
    arrays = [np.zeros(3) for _ in range(31)]
    run = Executable([], 31, 1, 64, 64, 1)
    run(*arrays)
    with pytest.raises(ValueError, match="exactly 31"):
        run(*arrays, arrays[0])
    for count in (-1, 32, 1000):
        with pytest.raises(InvalidArgumentError, match=r"^n_operands: .* 0 to 31"):
            Executable([], count, 1, 0, 0, 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_compute_sets_run_in_order_and_tell_their_seconds(threads):
    items = np.zeros(2, CLEAR)
    items["bytes"] = 8
    one, both = items[:1], items
    both["first"] = [0, 8]
    sets = [[(CLEAR_VERTEX, one, [0])], [], [(CLEAR_VERTEX, both, [0, 1])]]  # one share, none, both
    run = Executable(sets, 1, 2, 0, 0, threads)
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


@pytest.mark.parametrize("shape", [(1,) * 65, (-1,), (-2, -3)])
def test_a_shape_that_no_temporary_array_has(shape):
    with pytest.raises(InvalidArgumentError, match=r"^shape: .* at most 64 extents"):
        temporary(shape)


def test_temporary_arrays_that_nothing_holds():
    with pytest.raises((MemoryError, OverflowError)):
        temporary((1 << 61, 1 << 10))
    with pytest.raises(MemoryError):
        temporary((1 << 58,))
