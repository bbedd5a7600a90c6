"""Results own their memory, which a bounded pool takes back and hands out again, never while anybody looks at it."""

import ctypes
import gc
import os
import pickle
import queue
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from poplibs_py.config import settings
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import FORMATS
from poplibs_py.program import (
    _executor,
    clear_result_pool,
    memory_in_use,
    memory_peak,
    result_array,
    result_array_like,
    result_pool,
    result_pool_limit,
)

FP32 = np.dtype(np.float32)
BYTE = np.dtype(np.uint8)
LEAST = _executor.least_bytes
MIB = 1 << 20
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@pytest.fixture
def pool():
    """An empty pool that keeps 16 MiB, also where a sanitizer has it off."""
    with result_pool_limit(0):
        pass
    with result_pool_limit(16 * MIB):
        clear_result_pool()
        yield 16 * MIB


def address(array):
    return array.ctypes.data


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 5), (7,), (127, 129), (1024, 1024), (3, 700, 800)])
@pytest.mark.parametrize("dtype", [f.dtype for f in FORMATS] + [BYTE], ids=str)
def test_a_result_is_an_ordinary_array(shape, dtype):
    made = result_array(shape, dtype)
    assert type(made) is np.ndarray
    assert (made.shape, made.dtype) == (shape, dtype)
    assert made.base is None
    assert made.flags.owndata
    assert made.flags.carray
    if made.nbytes >= LEAST:
        assert address(made) % 4096 == 0


@pytest.mark.parametrize("make", [lambda a: a.T, lambda a: a.transpose(2, 0, 1), lambda a: a[::2], lambda a: a])
def test_a_result_is_laid_out_like_another_array(make):
    like = make(np.zeros((60, 50, 40), np.float64))
    made = result_array_like(like, FP32)
    wanted = np.empty_like(like, FP32)
    assert (made.shape, made.strides, made.dtype, made.base) == (wanted.shape, wanted.strides, FP32, None)


@pytest.mark.parametrize(("shape", "error"), [
    ((1 << 40, 1 << 40), ValueError),
    ((-1,), ValueError),
    ((-5, 1 << 20), ValueError),
    ((1,) * 65, ValueError),
    ((1 << 45,), MemoryError),
    ((1.5,), TypeError),
])  # fmt: skip
def test_what_cannot_be_made_is_refused_as_numpy_does(shape, error):
    with pytest.raises(error):
        np.empty(shape, FP32)
    with pytest.raises(error):
        result_array(shape, FP32)
    with pytest.raises(TypeError):
        result_array((3,), None)


def test_memory_of_a_dead_result_is_used_again(pool):
    first = result_array((512, 512), FP32)
    place = address(first)
    del first
    assert result_pool().kept_bytes >= MIB
    assert address(result_array((512, 512), FP32)) == place
    second, third = result_array((512, 512), FP32), result_array((512, 512), FP32)
    assert place in (address(second), address(third))
    assert not np.may_share_memory(second, third)


def test_a_view_keeps_the_memory_alive(pool):
    made = result_array((512, 512), FP32)
    view = made[3:, 5:]
    del made
    assert result_pool().kept_buffers == 0
    assert not np.may_share_memory(view, result_array((512, 512), FP32))
    del view
    assert result_pool().kept_buffers > 0


@pytest.mark.parametrize("size", [LEAST, LEAST + 1, 3 * LEAST, 1_000_000, 2 * MIB - 1, 5 * MIB + 17])
def test_little_of_a_buffer_is_spare(pool, size):
    made = result_array((size,), BYTE)
    del made
    assert size <= result_pool().kept_bytes <= size + size // 8
    assert result_pool().kept_buffers == 1


def test_small_results_are_left_to_malloc(pool):
    before = result_pool()
    made = result_array((LEAST - 1,), BYTE)
    del made
    assert result_pool() == before


def test_the_pool_is_bounded_and_what_came_first_goes_first(pool):
    made = [result_array((4 * MIB,), BYTE) for _ in range(6)]
    places = [address(array) for array in made]
    for i in range(6):
        made[i] = None
        assert result_pool().kept_bytes == 4 * MIB * min(i + 1, 4)
    again = [address(array) for array in [result_array((4 * MIB,), BYTE) for _ in range(4)]]
    assert set(again) == set(places[2:])
    many = [result_array((LEAST,), BYTE) for _ in range(200)]
    del many
    assert result_pool().kept_buffers == 64


def test_a_result_larger_than_the_pool_is_freed(pool):
    made = result_array((pool + 1,), BYTE)
    del made
    assert result_pool().kept_bytes == 0


def test_a_lower_limit_frees_and_clearing_frees_all(pool):
    made = [result_array((MIB,), BYTE) for _ in range(8)]
    alive = result_array((MIB,), BYTE)
    alive[:] = 7
    del made
    assert result_pool().kept_bytes == 8 * MIB
    with result_pool_limit(3 * MIB):
        assert result_pool().kept_bytes == 3 * MIB
    assert result_pool().limit == pool
    clear_result_pool()
    assert (result_pool().kept_bytes, result_pool().kept_buffers, result_pool().limit) == (0, 0, pool)
    assert np.all(alive == 7)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "1", (1 << 62) + 1])
def test_a_limit_that_is_none_is_refused(limit):
    before = result_pool()
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^limit: got"), result_pool_limit(limit):
        pass
    assert result_pool() == before


def test_results_are_not_temporary_memory(pool):
    before = memory_in_use()
    memory_peak(reset=True)
    made = result_array((MIB,), BYTE)
    del made
    assert memory_in_use() == memory_peak() == before


def test_arrays_are_resized_copied_and_pickled_as_others_are(pool):
    made = result_array((LEAST, 2), BYTE)
    made[:] = np.arange(2 * LEAST).reshape(LEAST, 2) % 251
    values = np.array(made)
    for rows in (3 * LEAST, LEAST, 100, 5, 0, 2 * LEAST):
        made.resize((rows, 2), refcheck=False)
        same = min(rows, len(values))
        assert np.array_equal(made[:same], values[:same])
        assert not made[same:].any()
        values = np.array(made)
    assert np.array_equal(pickle.loads(pickle.dumps(made)), values)
    assert made.copy().base is None


class Results(RuleBasedStateMachine):
    """Results are made, written, resized, given up; the pool is cleared and bounded anew; nothing may be shared."""

    def __init__(self):
        super().__init__()
        self.outer = result_pool_limit(8 * MIB)
        self.outer.__enter__()
        clear_result_pool()
        self.alive = {}
        self.numbers = iter(range(1 << 30))

    def teardown(self):
        self.alive.clear()
        self.outer.__exit__(None, None, None)

    def write(self, array):
        number = next(self.numbers)
        array[...] = number % 250 + 1
        self.alive[number] = array, number % 250 + 1

    @rule(size=st.sampled_from([1, 1000, LEAST, LEAST + 4096, 3 * LEAST, MIB, MIB + 1, 2 * MIB, 3 * MIB + 5, 9 * MIB]))
    def make(self, size):
        self.write(result_array((size,), BYTE))

    @rule(rows=st.integers(1, 2000))
    def make_like(self, rows):
        self.write(result_array_like(np.broadcast_to(BYTE.type(0), (rows, 500)).T, BYTE))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def give_up(self, data):
        del self.alive[data.draw(st.sampled_from(sorted(self.alive)))]

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), size=st.integers(0, 3 * MIB))
    def resize(self, data, size):
        array, tag = self.alive.pop(data.draw(st.sampled_from(sorted(self.alive))))
        old = array.size
        array.resize((size,), refcheck=False)
        assert np.all(array[:old] == tag)
        assert not array[old:].any()
        self.write(array)

    @rule()
    def clear(self):
        clear_result_pool()
        assert result_pool().kept_bytes == 0

    @rule(limit=st.integers(0, 8 * MIB))
    def bound(self, limit):
        with result_pool_limit(limit):
            assert result_pool().kept_bytes <= limit

    @invariant()
    def nothing_is_shared_and_the_bound_holds(self):
        for array, tag in self.alive.values():
            assert np.all(array == tag)
        assert result_pool().kept_bytes <= 8 * MIB
        assert result_pool().kept_buffers <= 64


TestResults = Results.TestCase
TestResults.settings = hypothesis_settings(stateful_step_count=40)


def test_threads_make_and_give_up_each_others_results(pool):
    handed, wrong = queue.SimpleQueue(), []

    def work(number):
        rng = np.random.default_rng(number)
        for _ in range(150):
            made = result_array((int(rng.integers(1, 4) * LEAST),), BYTE)
            made[:] = number
            handed.put((made, number))
            del made
            array, tag = handed.get()
            if not np.all(array == tag):
                wrong.append(tag)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert result_pool().kept_bytes <= pool


class Allocator(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``, version 1."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("calloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)),
        ("realloc", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
        ("free", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)),
    ]


def allocator():
    """The functions behind the arrays; ctypes calls them without the GIL."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Allocator.from_address(pointer(_executor.handler, b"mem_handler"))


def test_calloc_clears_what_it_takes_from_the_pool(pool):
    functions = allocator()
    block = functions.malloc(None, MIB)
    ctypes.memset(block, 0xFF, MIB)
    functions.free(None, block, MIB)
    again = functions.calloc(None, MIB // 16, 16)
    assert again == block
    assert not any(ctypes.string_at(again, MIB))
    functions.free(None, again, MIB)
    assert functions.calloc(None, 1 << 40, 1 << 40) is None
    functions.free(None, None, 0)


def test_a_wrong_size_never_makes_a_buffer_larger_than_it_is(pool):
    functions = allocator()
    block = functions.malloc(None, LEAST)
    functions.free(None, block, 64 * MIB)
    assert result_pool().kept_buffers == 0


def test_memory_is_given_back_without_the_gil(pool):
    functions, handed = allocator(), queue.SimpleQueue()

    def work():
        for size in [LEAST, MIB, 3 * LEAST, 2 * MIB] * 100:
            block = functions.malloc(None, size)
            ctypes.memset(block, 1, size)
            handed.put((block, size))
            block, size = handed.get()
            functions.free(None, functions.realloc(None, block, 2 * size), 2 * size)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result_pool().kept_bytes <= pool


@forks
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_threads_make_results_makes_some_too(pool):
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            result_array((2 * LEAST,), BYTE)[:] = 1

    threads = [threading.Thread(target=churn) for _ in range(3)]
    kept = result_array((MIB,), BYTE)
    kept[:] = 5
    for thread in threads:
        thread.start()
    codes = []
    for _ in range(20):
        child = os.fork()
        if not child:
            other = result_array((MIB,), BYTE)
            other[:] = 6
            right = np.all(kept == 5) and result_pool().limit == pool
            del other, kept
            os._exit(0 if right and result_pool().kept_bytes <= pool else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    stop.set()
    for thread in threads:
        thread.join()
    assert codes == [0] * 20
    assert np.all(kept == 5)


def run(script, **environment):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


SCRIPT = """
import numpy as np
from poplibs_py import poplin
from poplibs_py.program import result_pool
a = np.full((512, 512), 2, np.float32)
c = poplin.matmul(a, a)
assert np.all(c == 2048) and c.base is None
del c
print(result_pool().limit, result_pool().kept_bytes)
"""


def test_the_environment_sets_the_limit():
    assert run(SCRIPT, POPLIBS_RESULT_POOL="0") == ["0", "0"]
    limit = "0" if _executor.sanitized else "4194304"
    assert run(SCRIPT, POPLIBS_RESULT_POOL="4194304") == [limit, "0" if _executor.sanitized else "1048576"]
    assert result_pool().limit == (0 if _executor.sanitized else settings.result_pool)


def test_results_outlive_the_interpreter():
    script = SCRIPT + """
import builtins, threading
builtins.kept = [poplin.matmul(a, a) for _ in range(4)]
busy = threading.Event()
def churn():
    while True:
        poplin.matmul(a, a)
        busy.set()
threading.Thread(target=churn, daemon=True).start()
print(busy.wait(60), len(builtins.kept), flush=True)
"""
    assert run(script)[-2:] == ["True", "4"]


def test_garbage_returns_to_the_pool(pool):
    loop = [result_array((MIB,), BYTE)]
    loop.append(loop)
    del loop
    gc.collect()
    assert result_pool().kept_bytes == MIB
