"""Arrays that other threads write to, resize and reshape while products read them: results mean nothing, but nothing
outside the arrays is touched, and what was checked once stays as it was."""

from __future__ import annotations

import threading
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

from poplibs_py import poplin, popops, poprand, popsparse
from poplibs_py.errors import PoplibsError
from poplibs_py.formats import QuarterArray
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, dynamic, static
from poplibs_py.testing import assert_same_bits, check, random_operand

SECONDS = 0.15
SIZES = [(120, 200, 64), (40, 200, 17), (8, 8, 8)]  # large ones run without the lock of Python
FORMATS = ["float32", "float16", "bfloat16", "f143"]


@contextmanager
def attacked(*attacks):
    """Make attacks, each in a thread of its own and again and again, until the block ends."""
    over = threading.Event()

    def repeat(attack, number):
        rng = np.random.default_rng(number)
        with np.errstate(all="ignore"):
            while not over.is_set():
                attack(rng)

    threads = [threading.Thread(target=repeat, args=pair) for pair in zip(attacks, range(len(attacks)), strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def writing(*arrays):
    """Random bytes into the memory of arrays."""
    memory = [np.ndarray(a.nbytes, np.uint8, a) for a in arrays]

    def attack(rng):
        for bytes_ in memory:
            bytes_[...] = rng.integers(0, 256, bytes_.size, np.uint8)

    return attack


def resizing(*arrays):
    """Arrays made small, large and as they were, whatever refers to them."""
    sizes = [a.shape for a in arrays]

    def attack(rng):
        for array, shape in zip(arrays, sizes, strict=True):
            for other in ((1, 1), tuple(8 * n for n in shape), shape):
                try:
                    array.resize(other, refcheck=False)
                except ValueError:  # NumPy knows that it is in use
                    continue

    return attack


def reshaping(*arrays):
    """Arrays turned over in place: of the same size, with other strides."""
    shapes = [(a.shape, a.shape[::-1]) for a in arrays]

    def attack(rng):
        for array, pair in zip(arrays, shapes, strict=True):
            for shape in pair:
                with warnings.catch_warnings(action="ignore"):
                    array.shape = shape

    return attack


def keep_calling(*calls):
    """Make calls for a while; all that may happen is a result or a refusal."""
    end, served = time.monotonic() + SECONDS, 0
    with np.errstate(all="ignore"):
        while time.monotonic() < end:
            for call in calls:
                try:
                    call()
                    served += 1
                except PoplibsError:
                    pass
    return served


def dense_calls(a, b, out):
    left, right = poplin.prepare(a, side="left"), poplin.prepare(b)
    return [
        lambda: poplin.matmul(a, b), lambda: poplin.matmul(a, b, out=out), lambda: poplin.matmul(b.T, a.T),
        lambda: poplin.matmul_acc(out, a, b, beta=0.5, bias=out[:, :1], activation="gelu"),
        lambda: poplin.matmul(left, b, out=out), lambda: poplin.matmul(a, right),
        lambda: poplin.prepare(a, side="left"), lambda: popops.cast(a, "f152", rounding="stochastic", seed=1),
    ]  # fmt: skip


@pytest.mark.parametrize("attack", [writing, resizing, reshaping])
@pytest.mark.parametrize("fmt", FORMATS)
def test_dense_products_of_arrays_that_change(attack, fmt):
    for m, k, n in SIZES:
        a, b = random_operand((m, k), fmt, 0).copy(), random_operand((k, n), fmt, 1).copy()
        out = np.zeros((m, n), np.float32)
        calls = dense_calls(a, b, out)
        with attacked(attack(a, b, out)):
            keep_calling(*calls)
    check("matmul", random_operand((m, k), fmt, 0), random_operand((k, n), fmt, 1), out_dtype="float32")


def sparse_parts(fmt, block, groups=1):
    """A matrix and all the arrays that it was made from, which others hold."""
    rng = np.random.default_rng(3)
    mask = rng.random((groups * 6, 5)) < 0.4
    offsets = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int64)
    columns = np.nonzero(mask)[1].astype(np.int32)
    pattern = BlockPattern((6 * block, 5 * block), block, offsets, columns, groups)
    blocks = random_operand((len(columns), block, block), fmt, 4).copy()
    scale = np.zeros(len(columns), np.int8)
    w = BlockSparseMatrix(pattern, blocks, fmt, scale if fmt == "f143" else 0)
    return w, offsets, columns, blocks, scale


@pytest.mark.parametrize("attack", [writing, resizing, reshaping])
@pytest.mark.parametrize("block", [1, 4, 16])
@pytest.mark.parametrize("fmt", FORMATS)
def test_sparse_products_of_arrays_that_change(attack, block, fmt):
    w, offsets, columns, blocks, scale = sparse_parts(fmt, block)
    x, out = random_operand((5 * block, 120), fmt, 5).copy(), np.zeros((6 * block, 120), np.float32)
    due = w.to_dense(np.float64), w.row_offsets.copy(), w.column_indices.copy()
    calls = [
        lambda: static.sparse_dense_matmul(w, x), lambda: static.sparse_dense_matmul(w, x, out=out),
        lambda: static.dense_sparse_matmul(out.T, w), lambda: static.sparse_dense_matmul(w.T, out),
        lambda: dynamic.sparse_dense_matmul(w, x, capacity=dynamic.Capacity(30)), lambda: static.prepare_dense(x),
        lambda: static.sparse_grad_w(w, out, x), lambda: popsparse.bs_softmax(w), lambda: w.to_dense(),
    ]  # fmt: skip
    with attacked(attack(x, out), writing(offsets, columns, scale, blocks)):
        keep_calling(*calls)
    with np.errstate(all="ignore"):
        blocks[...] = random_operand(blocks.shape, fmt, 4)
    for kept, before in zip((w.to_dense(np.float64), w.row_offsets, w.column_indices), due, strict=True):
        assert_same_bits(np.asarray(kept, np.float32), np.asarray(before, np.float32))
    check("static.sparse_dense_matmul", w, random_operand((5 * block, 120), fmt, 5))


def test_a_pattern_cannot_be_changed_while_it_is_made():
    """What was checked is a copy: indices that are valid and wild in turn give a pattern that is valid, or none."""
    offsets, columns = np.arange(7) * 2, np.tile(np.array([0, 3], np.int32), 6)
    good = columns.copy()

    def attack(rng):
        columns[int(rng.integers(12))] = 2**31 - 1
        columns[...] = good

    pattern = BlockPattern((24, 16), 4, offsets, columns)
    end = time.monotonic() + SECONDS
    with attacked(attack):
        while time.monotonic() < end:
            try:
                pattern = BlockPattern((24, 16), 4, offsets, columns)
            except PoplibsError:
                continue
            assert pattern.column_indices.max() < 4
    for array in (pattern.row_offsets, pattern.column_indices):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("attack", [writing, resizing])
def test_codes_and_scales_that_change(attack):
    codes, scale = np.zeros((48, 64), np.uint8), np.zeros((48, 1), np.int8)
    q = QuarterArray(codes, "f143", scale, (1, -1))
    x, out = random_operand((64, 20), "float16", 1).copy(), np.zeros((48, 20), np.float32)
    with attacked(attack(x, out), writing(codes, scale)):
        keep_calling(lambda: poplin.matmul(q, x), lambda: poplin.matmul(q, x, out=out), lambda: q.to_array(),
                     lambda: poplin.matmul(poplin.prepare(q, side="left", b_dtype="float16"), x))  # fmt: skip
    assert not q.scale.any()


@pytest.mark.parametrize("attack", [writing, resizing, reshaping])
def test_ops_made_of_numpy_of_arrays_that_change(attack):
    integers, doubles = np.ones((300, 256), np.int8), np.ones((300, 256))
    x, weights = np.ones((300, 256), np.float32), np.ones((1 << 16, 1))
    with attacked(attack(integers, doubles, x, weights)):
        keep_calling(lambda: popops.cast(integers, "f143", scale=1), lambda: popops.cast(doubles, "float16"),
                     lambda: popops.cast(x, "int8"), lambda: poprand.categorical(10, weights[:, 0], seed=1),
                     lambda: poprand.permutation(integers, axis=1, seed=1),
                     lambda: poprand.shaped_dropout(x, (300, 1), 0.5, seed=1))  # fmt: skip


def of_whole_numbers(length, high):
    return np.arange(length) % high


MAKERS = {
    "from_dense": lambda x, then: BlockSparseMatrix.from_dense(x, 4, mask=then(np.eye(6, dtype=bool))),
    "from_blocks": lambda x, then: BlockSparseMatrix.from_blocks(
        x.reshape(36, 4, 4), shape=(24, 24), row_indices=then(of_whole_numbers(36, 6)),
        column_indices=np.repeat(np.arange(6), 6)),
    "BlockPattern": lambda x, then: BlockPattern((24, 24), 4, x.view(np.int64).ravel()[:7], then(np.zeros(0, int))),
    "from_pairs": lambda x, then: BlockPattern.from_pairs((24, 24), 4, x.view(np.int64).ravel()[:1],
                                                          then(np.zeros(1, int))),
    "QuarterArray": lambda x, then: QuarterArray(x.view(np.uint8), "f143", then(np.int8(1))),
    "from_array": lambda x, then: QuarterArray.from_array(x, "f143", then(np.int8(1))),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_what_looks_at_arrays_in_numpy_holds_their_memory(name):
    """Between the look at one argument and the look at the next, an array cannot be resized; afterwards it can."""
    owner = np.zeros((24, 24), np.float32)
    refused = []

    class Then:
        def __init__(self, value):
            self.value = value

        def __array__(self, dtype=None, copy=None):
            with pytest.raises(ValueError, match="resize"):
                owner.resize((1, 1), refcheck=False)
            refused.append(name)
            return np.asarray(self.value)

    made = MAKERS[name](owner, Then)
    assert refused
    del made
    owner.resize((1, 1), refcheck=False)


@pytest.mark.parametrize("attack", [resizing, reshaping])
def test_matrices_made_of_arrays_that_change(attack):
    dense, mask, codes = np.ones((256, 256), np.float32), np.ones((256, 256), bool), np.ones((256, 256), np.uint8)
    w = BlockSparseMatrix.from_dense(dense, 4)
    blocks = w.blocks.copy()
    with attacked(attack(dense, mask, codes, blocks)):
        keep_calling(lambda: BlockSparseMatrix.from_dense(dense, 4), lambda: BlockSparseMatrix.from_mask(mask, 4),
                     lambda: BlockSparseMatrix.from_dense(dense, 4, density=0.1), lambda: w.update(blocks),
                     lambda: QuarterArray(codes, "f143"), lambda: QuarterArray.from_array(dense, "f143", "auto"),
                     lambda: BlockSparseMatrix(w.pattern, blocks))  # fmt: skip


def test_tensors_whose_memory_changes():
    torch = pytest.importorskip("torch")
    a, b = torch.zeros(64, 96), torch.zeros(96, 32)
    with attacked(writing(a.numpy(), b.numpy())):
        assert keep_calling(lambda: poplin.matmul(a, b), lambda: popops.cast(a, "f143"))
