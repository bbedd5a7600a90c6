"""Results written at a scale, and dense operands with scales that the kernels do not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import cast, poplin, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import FORMATS, Format, QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.testing import assert_same_bits

EIGHT = [f for f in FORMATS if f.bits == 8]
BLOCKS = [(1, 1), (4, 4), (16, 16), (3, 5)]


def empty(shape: tuple[int, ...], fmt: Any, scale: int) -> QuarterArray:
    return QuarterArray(np.full(shape, 0x55, np.uint8), fmt, scale)


def check(out: QuarterArray, got: object, wide: np.ndarray) -> None:
    """What was written to `out` is the FP32 result, rounded once to its format at its scale."""
    assert got is out
    want = cast(wide, out.format, scale=out.scale)
    assert_same_bits(out.codes, want.codes, dtype=out.format)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], scale: int) -> np.ndarray:
    return np.ldexp(rng.standard_normal(shape).astype(np.float32), scale + int(rng.integers(-3, 8)))


def matrix(rng: np.random.Generator, shape: tuple[int, ...], block_shape: tuple[int, int],
           name: str) -> BlockSparseMatrix:
    return BlockSparseMatrix.from_dense(rng.standard_normal(shape), block_shape, density=0.4, dtype=name)


@pytest.mark.filterwarnings("ignore::poplibs_py.errors.MemoryLimitWarning")
@given(fmt=st.sampled_from(EIGHT), scale=st.integers(-111, 107), block_shape=st.sampled_from(BLOCKS),
       w_name=st.sampled_from(["float32", "float16", "f143"]), x_name=st.sampled_from(["float32", "bfloat16", "e5m2"]),
       groups=st.integers(1, 2), columns=st.integers(0, 80), transposed=st.booleans(),
       proportion=st.sampled_from([0, 0.034]), finish=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_products_are_written_at_the_scale_of_out(fmt, scale, block_shape, w_name, x_name, groups, columns, transposed,
                                                  proportion, finish, seed):
    rng = np.random.default_rng(seed)
    w = matrix(rng, (groups, 45, 60), block_shape, w_name)
    w = w.T if transposed else w
    front = (groups,) if groups > 1 else ()
    rows, depth = w.shape
    x = cast(numbers(rng, (*front, depth, columns), scale), x_name)
    how: dict[str, Any] = {"available_memory_proportion": proportion}
    if finish:
        how |= {"bias": numbers(rng, (groups, rows), scale), "activation": "silu"}
    wide = static.sparse_dense_matmul(w, x, out_dtype="float32", **how)
    out = empty(wide.shape, fmt, scale)
    check(out, static.sparse_dense_matmul(w, x, out=out, **how), wide)
    check(out, dynamic.sparse_dense_matmul(w, x, out=out, out_dtype=fmt, **how), wide)
    turned = empty((*front, columns, rows), fmt, scale)
    check(turned, static.dense_sparse_matmul(x.swapaxes(-1, -2), w.T, out=turned, **how), wide.swapaxes(-1, -2))


@given(fmt=st.sampled_from(EIGHT), scale=st.integers(-111, 107), block_shape=st.sampled_from(BLOCKS),
       name=st.sampled_from(["float32", "float16", "f152"]), seed=st.integers(0, 2**32 - 1))
def test_the_passes_of_a_layer_are_written_at_the_scale_of_out(fmt, scale, block_shape, name, seed):
    rng = np.random.default_rng(seed)
    w = matrix(rng, (2, 30, 44), block_shape, name)
    acts, grads = (cast(numbers(rng, (9, width), scale), name) for width in (88, 60))
    for op, *given_ in ((dynamic.fully_connected_fwd, acts), (dynamic.fully_connected_grad_a, grads),
                        (dynamic.fully_connected_sparse_grad_w, grads, acts)):
        wide = op(w, *given_, out_dtype="float32")
        out = empty(wide.shape, fmt, scale)
        check(out, op(w, *given_, out=out), wide)
    dy, x = grads.reshape(9, 2, 30).transpose(1, 2, 0), acts.reshape(9, 2, 44).transpose(1, 2, 0)
    out = empty(w.blocks.shape, fmt, scale)
    check(out, static.sparse_grad_w(w, dy, x, out=out), static.sparse_grad_w(w, dy, x, out_dtype="float32"))


def test_vectors_strides_and_compiled_products_at_a_scale():
    rng = np.random.default_rng(5)
    w = random_matrix(random_pattern(24, 40, (4, 8), 0.4, 1), seed=2)
    x = rng.standard_normal((40, 6), np.float32)
    out = empty((24,), "f143", -4)
    check(out, static.sparse_dense_matmul(w, x[:, 0], out=out), w @ x[:, 0])
    room = np.full((26, 14), 0x55, np.uint8)
    part = QuarterArray(room[1:-1, 1:-1:2], "e4m3", 3)
    check(part, static.sparse_dense_matmul(w, x, out=part), w @ x)
    part.codes[...] = 0x55
    assert (room == 0x55).all()
    run = static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(w, 6, out_dtype="f152"))
    for scale in (0, 9):
        out = empty((24, 6), "f152", scale)
        check(out, run(w, x, out=out), w @ x)


@pytest.mark.parametrize("scale", [-32, -3, 31])
@pytest.mark.parametrize("fmt", EIGHT, ids=str)
def test_results_at_a_scale_keep_to_their_bound(fmt, scale):
    w = random_matrix(random_pattern(24, 40, (4, 8), 0.4, 1), dtype="float16", seed=2)
    x = np.ldexp(testing.random_operand((40, 20), "float16", 3).astype(np.float32), scale)
    testing.check("static.sparse_dense_matmul", w, x, out=empty((24, 20), fmt, scale))
    testing.check("static.dense_sparse_matmul", x[:24].T, w, out=empty((20, 40), fmt, scale), activation="gelu")
    testing.check("sparse_grad_w", w, x[:24], x, out=empty(w.blocks.shape, fmt, scale))
    testing.check("matmul", x.T, x, out=empty((20, 20), fmt, scale))


@pytest.mark.parametrize("x", [
    lambda x: QuarterArray.from_array(x, "float16", 5),
    lambda x: QuarterArray.from_array(x, "float16", 0),
    lambda x: QuarterArray.from_array(x, "f143", "auto", (1, -1)),
    lambda x: QuarterArray.from_array(x, "e5m2", "auto", (7, 3)),
    lambda x: QuarterArray.from_array(x, "f152", [[-3]], (-1, -1)),
    lambda x: QuarterArray.from_array(x, Format("e3m4", 3, 4, 3, "ieee"), 2),
], ids=["float16 at a scale", "float16", "rows", "blocks", "one block", "a user's format"])
@pytest.mark.parametrize("name", ["float32", "f143"])
def test_scales_that_kernels_do_not_know(x, name):
    w = random_matrix(random_pattern(24, 40, (4, 8), 0.4, 1), dtype=name, seed=2)
    given_x = x(np.random.default_rng(0).integers(-4, 5, (40, 6)).astype(np.float32))
    values = given_x.to_array()
    testing.check("static.sparse_dense_matmul", w, given_x)
    assert_same_bits(static.sparse_dense_matmul(w, static.prepare_dense(given_x, name)), w @ given_x)
    dy = np.ones((24, 6), np.float32)
    assert_same_bits(static.sparse_grad_w(w, dy, given_x), static.sparse_grad_w(w, dy, values))
    assert_same_bits(dynamic.fully_connected_fwd(w, given_x.T), (w @ given_x).T)


@pytest.mark.parametrize(("out", "error", "message"), [
    (QuarterArray(np.zeros((16, 4), np.uint16), "float16", 1), InvalidTypeError,
     "^out: got a QuarterArray of float16 at scale 1; allowed: one of f143, f152, e4m3, e5m2"),
    (QuarterArray(np.zeros((16, 4), np.uint8), Format("e3m4", 3, 4, 3, "ieee")), InvalidTypeError,
     "^out: got a QuarterArray of e3m4"),
    (QuarterArray(np.zeros((16, 4), np.uint8), "f143", np.arange(16)[:, None], (1, -1)), InvalidArgumentError,
     r"^out: got a QuarterArray with scales of blocks \(1, 4\); allowed: one with one scale"),
    (empty((4, 16), "f143", 1), InvalidArgumentError, "^out: got shape"),
    (empty((16, 4), "f152", 1), InvalidArgumentError, "^out: got dtype f152; allowed: out_dtype, which is f143"),
])
def test_results_that_cannot_be_written(out, error, message):
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    x = np.ones((16, 4), np.float32)
    before = out.codes.copy()
    with pytest.raises(error, match=message):
        static.sparse_dense_matmul(w, x, out=out, out_dtype="f143" if out.format.name == "f152" else None)
    assert np.array_equal(out.codes, before)


def test_a_result_that_lies_over_an_operand():
    w = random_matrix(random_pattern(16, 16, 4, 0.5, 1), seed=2)
    for op in (static.sparse_dense_matmul, dynamic.fully_connected_fwd, dynamic.fully_connected_grad_a):
        x, out = cast(testing.random_operand((16, 16), "float32", 3), "f143", scale=1), empty((16, 16), "f143", 1)
        op(w, x, out=out)
        assert op(w, x, out=x) is x
        assert np.array_equal(x.codes, out.codes)


@pytest.mark.parametrize("bias", [np.zeros(16), np.arange(16), np.zeros(16, bool), "none", [None] * 16, 1j])
def test_a_bias_is_taken_as_dense_products_take_it(bias):
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    x = np.ones((16, 16), np.float32)
    calls = (lambda: poplin.matmul(x, x, bias=bias), lambda: static.sparse_dense_matmul(w, x, bias=bias),
             lambda: static.dense_sparse_matmul(x, w, bias=bias), lambda: dynamic.fully_connected_fwd(w, x, bias=bias))
    said = []
    for call in calls:
        with pytest.raises(InvalidTypeError) as caught:
            call()
        said.append(str(caught.value))
    assert len(set(said)) == 1


def test_biases_that_are_taken():
    w = BlockSparseMatrix.from_dense(np.eye(16, dtype=np.float32), 4)
    x, rows = np.ones((16, 16), np.float32), np.arange(16, dtype=np.float32)
    for good in (list(range(16)), cast(rows, "bfloat16"), QuarterArray.from_array(rows, "f143", 2)):
        assert_same_bits(static.sparse_dense_matmul(w, x, bias=good), (x + np.float32(good)).T)
