"""Random calls from eight Python threads at once, and after a fork, give the bits that one thread gives."""

import copy
import gc
import hashlib
import os
import threading
from functools import cache

import numpy as np
import pytest
from cases import CASES, matrix
from hostile import arrays_of
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from result_bits import bits

from poplibs_py import poplin, popops, poprand, popsparse
from poplibs_py.config import thread_limit
from poplibs_py.formats import FORMATS
from poplibs_py.memo import forget
from poplibs_py.ops import catalogue
from poplibs_py.popsparse import dynamic, static
from poplibs_py.testing import find_op, random_operand
from poplibs_py.testing.calls import calls

pytestmark = pytest.mark.filterwarnings("ignore::poplibs_py.errors.CapacityWarning")

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


@cache
def shared_matrix(seed, name):
    """One matrix for all threads, its pattern's transpose with it."""
    return matrix(seed, name, 48, 64, (1, 4, 8, 16)[seed])


def any_matrix(rng):
    return shared_matrix(int(rng.integers(4)), str(rng.choice(NAMES)))


def random_numbers_for(rng, *shape):
    return random_operand(shape, str(rng.choice(NAMES)), int(rng.integers(8)))


CAPACITY = dynamic.Capacity(1)


def random_dynamic_product(rng):
    """Of patterns of all sizes, so that the capacity grows where threads meet."""
    w, batch = any_matrix(rng), int(rng.integers(1, 40))
    if rng.random() < 0.5:
        return dynamic.sparse_dense_matmul(w, random_numbers_for(rng, 64, batch), capacity=CAPACITY)
    return dynamic.fully_connected_fwd(w, random_numbers_for(rng, batch, 64), capacity=CAPACITY)


def random_gradient(rng):
    """Of the input, by W transposed, or of the stored values."""
    w, batch, kind = any_matrix(rng), int(rng.integers(1, 40)), int(rng.integers(3))
    grads = random_numbers_for(rng, batch, 48)
    if kind == 0:
        return static.sparse_dense_matmul(w.T, grads.T)
    if kind == 1:
        return dynamic.fully_connected_grad_a(w, grads, capacity=CAPACITY)
    return static.sparse_grad_w(w, grads.T, random_numbers_for(rng, 64, batch))


def random_softmax(rng):
    x = shared_matrix(int(rng.integers(4)), str(rng.choice(["float32", "float16", "bfloat16"])))
    y = popsparse.bs_softmax(x, mask=str(rng.choice(["none", "zero_upper_triangle"])))
    return popsparse.bs_softmax_grad(y, x).blocks if rng.random() < 0.5 else y.blocks


@cache
def shared_prepared(kind, name):
    """One prepared operand for all threads."""
    if kind == "dense":
        return static.prepare_dense(random_operand((64, 40), name, 5))
    if kind == "sparse":
        return static.prepare(shared_matrix(2, name))
    return poplin.prepare(random_operand((64, 64), name, 5), side=kind)


def random_prepared_product(rng):
    kind, name = str(rng.choice(["left", "right", "dense", "sparse"])), str(rng.choice(["float32", "float16", "f143"]))
    held, count, seed = shared_prepared(kind, name), int(rng.integers(1, 40)), int(rng.integers(8))
    if kind == "dense":
        return static.sparse_dense_matmul(shared_matrix(seed % 4, name), held)
    if kind == "sparse":
        return static.sparse_dense_matmul(held, random_operand((64, count), name, seed))
    if kind == "left":
        return poplin.matmul(held, random_operand((64, count), name, seed))
    return poplin.matmul(random_operand((count, 64), name, seed), held)


def random_product_in_place(rng):
    """Into an array given, which may be an operand, or onto it."""
    m, kind, beta = int(rng.integers(1, 60)), int(rng.integers(3)), float(rng.choice([0, 1, -0.5]))
    name, seed = str(rng.choice(["float32", "float16", "bfloat16"])), int(rng.integers(8))
    c, a, b = (random_operand(shape, name, seed + i).copy() for i, shape in enumerate([(m, 40), (m, 40), (40, 40)]))
    if kind == 0:
        return poplin.matmul(a, b, out=c)
    return poplin.matmul(c, b, out=c) if kind == 1 else poplin.matmul_acc(c, a, b, beta=beta)


def random_cast(rng):
    x = random_operand((int(rng.integers(1, 3000)),), "float32", int(rng.integers(8)), patterns=True)
    return popops.cast(x, str(rng.choice(NAMES[1:])), rounding="stochastic", seed=int(rng.integers(99)))


def random_numbers(rng):
    draw = getattr(poprand, str(rng.choice(["uniform", "normal", "truncated_normal", "bernoulli", "gumbel"])))
    return draw((int(rng.integers(1, 3000)),), seed=int(rng.integers(99)))


KINDS = [random_product, random_product, random_sparse_product, random_sparse_product, random_cast, random_numbers,
         random_dynamic_product, random_gradient, random_softmax, random_prepared_product, random_product_in_place]


def call(number):
    """Make call `number`, which says all about it, and return a digest of its result."""
    rng = np.random.default_rng(number)
    kind = large_product if number % 50 == 0 else KINDS[int(rng.integers(len(KINDS)))]
    return hashlib.sha256(kind(rng).tobytes()).digest()


def from_threads(numbers, call=call):
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


@pytest.mark.parametrize("count", [3000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_eight_threads_give_the_bits_of_one(count):
    numbers = range(count)
    made = from_threads(numbers)  # first: nothing is planned, packed or made room for yet
    assert made == [call(number) for number in numbers]


@cache
def drawn_calls():
    """Some calls of every op, which may be made again and again."""
    drawn = []
    for op in catalogue:

        @settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(st.tuples(st.just(op), calls(op)))
        def keep(call):
            drawn.append(call)

        keep()
    return drawn


def call_of_an_op(number):
    """Make a drawn call on operands of its own."""
    op, operands_and_keywords = drawn_calls()[number % len(drawn_calls())]
    operands, keywords = copy.deepcopy(operands_and_keywords)
    return op, bits(find_op(op).face(*operands, **keywords))


@pytest.mark.parametrize("count", [1000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_calls_of_every_op_from_eight_threads_give_the_bits_of_one(count):
    with thread_limit(1):
        once = [call_of_an_op(number) for number in range(len(drawn_calls()))]
    forget()
    for number, made in enumerate(from_threads(range(count), call_of_an_op)):
        assert made == once[number % len(once)]


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
        forget()
        gc.collect()
        # Whatever was freed is taken again and overwritten.
        kept = [np.full(size, 0xFF, np.uint8) for size in range(64, 4096, 8) for _ in range(3)]
        return call(50) if kept else b""

    assert in_a_child(work) == due


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_call_changes_no_operand_but_out(case):
    arguments = case.make()
    read = arrays_of({name: value for name, value in arguments.items() if name not in ("owner", case.written)})
    before = [part.tobytes() for part in read]
    for _ in range(3):  # described, kept, and from what is kept
        made = case.function(**arguments)
        returned = {id(part) for part in made} if isinstance(made, list) else set()  # `out` in a list of calls
        for part, held in zip(read, before, strict=True):
            assert part.tobytes() == held or id(part) in returned
