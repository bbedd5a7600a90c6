"""Random calls from eight Python threads at once, and after a fork, give the bits that one thread gives."""

import gc
import hashlib
import os
import threading

import numpy as np
import pytest
from cases import CASES, matrix

from poplibs_py import poplin, popops, poprand
from poplibs_py.formats import FORMATS
from poplibs_py.poplin.matmul.lower import program_of
from poplibs_py.popsparse import static
from poplibs_py.testing import random_operand

THREADS = 8
NAMES = [f.name for f in FORMATS]


def random_product(rng):
    m, k, n = (int(rng.integers(1, 90)) for _ in range(3))
    left, right = rng.choice(NAMES, 2)
    seed = int(rng.integers(1 << 30))
    return poplin.matmul(random_operand((m, k), left, seed), random_operand((k, n), right, seed), out_dtype="float32")


def large_product(rng):
    """Enough work for the executor's own threads."""
    seed = int(rng.integers(8))
    return poplin.matmul(random_operand((256, 160), "float32", seed), random_operand((160, 192), "float32", seed))


def random_sparse_product(rng):
    w = matrix(int(rng.integers(8)), str(rng.choice(NAMES)), 48, 64, int(rng.choice([1, 3, 4, 8, 16])))
    x = random_operand((64, int(rng.integers(1, 80))), str(rng.choice(NAMES)), int(rng.integers(8)))
    return static.sparse_dense_matmul(w, x) if rng.random() < 0.5 else static.dense_sparse_matmul(x.T, w.T)


def random_cast(rng):
    x = random_operand((int(rng.integers(1, 3000)),), "float32", int(rng.integers(8)), patterns=True)
    return popops.cast(x, str(rng.choice(NAMES[1:])), rounding="stochastic", seed=int(rng.integers(99)))


def random_numbers(rng):
    draw = getattr(poprand, str(rng.choice(["uniform", "normal", "truncated_normal", "bernoulli", "gumbel"])))
    return draw((int(rng.integers(1, 3000)),), seed=int(rng.integers(99)))


KINDS = [random_product, random_product, random_sparse_product, random_sparse_product, random_cast, random_numbers]


def call(number):
    """Make call `number`, which says all about it, and return a digest of its result."""
    rng = np.random.default_rng(number)
    kind = large_product if number % 50 == 0 else KINDS[int(rng.integers(len(KINDS)))]
    return hashlib.sha256(kind(rng).tobytes()).digest()


def from_threads(numbers):
    """Make the calls from eight threads, each taking the next."""
    results, remaining, errors = {}, iter(numbers), []
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                number = next(remaining, None)
            if number is None:
                return
            try:
                results[number] = call(number)
            except Exception as error:
                errors.append((number, error))

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    return [results[number] for number in numbers]


def test_eight_threads_give_the_bits_of_one():
    numbers = range(10_000)
    due = [call(number) for number in numbers]
    assert from_threads(numbers) == due


def test_the_same_call_from_eight_threads_at_once():
    one = call(50)
    assert from_threads_same(50, 40) == {one}


def from_threads_same(number, repeats):
    """Make one call from eight threads that begin together, and return all digests."""
    barrier, found = threading.Barrier(THREADS), set()

    def work():
        barrier.wait()
        found.update({call(number) for _ in range(repeats)})

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def in_a_child(work):
    """Fork, run `work` in the child, and return the bytes that it returned, or None if it died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writer, work())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        result = pipe.read()
    return result if os.waitpid(child, 0)[1] == 0 else None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes_and_so_does_its_parent():
    numbers = [0, 50, *range(1, 12)]
    here = b"".join(map(call, numbers))
    assert in_a_child(lambda: b"".join(map(call, numbers))) == here
    assert b"".join(map(call, numbers)) == here


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_threads_compute_computes():
    stop = threading.Event()

    def work():
        while not stop.is_set():
            call(50)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        due = call(50)
        for _ in range(10):
            assert in_a_child(lambda: call(50)) == due
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_call_outlives_the_cache_of_its_program():
    due = call(50)

    def work():
        program_of.cache_clear()
        gc.collect()
        # Whatever was freed is taken again and overwritten.
        kept = [np.full(size, 0xFF, np.uint8) for size in range(64, 4096, 8) for _ in range(3)]
        return call(50) if kept else b""

    assert in_a_child(work) == due


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_call_changes_no_operand_but_out(case):
    arguments = case.make(3)
    kept = {k: v.tobytes() for k, v in arguments.items() if isinstance(v, np.ndarray) and k not in ("out", "c")}
    case.function(**arguments)
    assert {k: arguments[k].tobytes() for k in kept} == kept
