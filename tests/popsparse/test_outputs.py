"""What a sparse product may write to: any memory with one place for each element, operands too."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import QuarterArray, format_of
from poplibs_py.popops import cast
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.testing import assert_same_bits, random_operand


def matrix():
    return BlockSparseMatrix.from_dense(np.arange(64, dtype=np.float32).reshape(8, 8), 4)


def overlapping(shape):
    """Arrays whose elements share memory: windows that overlap, rows that are one, reversed ones that overlap."""
    room = np.zeros(sum(shape), np.float32)
    windows = sliding_window_view(room, shape[1], writeable=True)[:shape[0]]
    return [windows, windows[::-1, ::-1], as_strided(room, shape, (0, 4)), as_strided(room, shape, (4, 0))]


@pytest.mark.parametrize("call", [
    lambda w, x, out: static.sparse_dense_matmul(w, x, out=out),
    lambda w, x, out: static.sparse_dense_matmul(w, static.prepare_dense(x), out=out),
    lambda w, x, out: static.dense_sparse_matmul(x.T, w.T, out=out.T),
    lambda w, x, out: dynamic.sparse_dense_matmul(w, x, out=out),
    lambda w, x, out: dynamic.fully_connected_fwd(w, x.T, out=out.T),
    lambda w, x, out: static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(w, 6))(w, x, out=out),
])
def test_an_output_whose_elements_share_memory_is_refused(call):
    x = np.ones((8, 6), np.float32)
    for out in overlapping((8, 6)):
        with pytest.raises(InvalidArgumentError, match=r"^out: .* share memory"):
            call(matrix(), x, out)
        assert not out.any()


def test_a_gradient_whose_elements_share_memory_is_refused():
    w, x = matrix(), np.ones((8, 6), np.float32)
    out = as_strided(np.zeros(40, np.float32), w.blocks.shape, (4, 16, 4))
    with pytest.raises(InvalidArgumentError, match=r"^out: .* share memory"):
        static.sparse_grad_w(w, x, x, out=out)


def test_the_panels_of_a_prepared_operand_are_not_written_to():
    w, x = matrix(), np.arange(48, dtype=np.float32).reshape(8, 6)
    ready = static.prepare_dense(x)
    panels = ready.panels
    with pytest.raises(ValueError, match="read-only"):
        panels[...] = 0
    with pytest.raises(ValueError, match="WRITEABLE"):
        panels.flags.writeable = True
    while isinstance(panels.base, np.ndarray):
        panels = panels.base
    panels.flags.writeable = True  # who owns the memory may do so
    want = w @ x
    assert_same_bits(static.sparse_dense_matmul(w, ready, out=panels[0, 0, :, :6]), want)
    panels.flags.writeable = False


CALLS = {
    "static": lambda w, x, out: static.sparse_dense_matmul(w, x, out=out),
    "swapped": lambda w, x, out: static.dense_sparse_matmul(x.T, w.T, out=out.T),
    "dynamic": lambda w, x, out: dynamic.sparse_dense_matmul(w, x, out=out),
    "layer": lambda w, x, out: dynamic.fully_connected_fwd(w, x.T, out=out.T),
    "layer's gradient": lambda w, x, out: dynamic.fully_connected_grad_a(w.T, x.T, out=out.T),
    "compiled": lambda w, x, out: static.compile_sparse_dense_matmul(
        static.plan_sparse_dense_matmul(w, x.shape[1], dtype=x.dtype, out_dtype=out.dtype))(w, x, out=out),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_output_may_overlap_an_operand(call):
    """The result is as if it did not: where X itself is written to, part of it, or W's own values."""
    rng = np.random.default_rng(1)
    numbers = rng.integers(-4, 5, (8, 8)).astype(np.float32)

    def fresh():
        room = np.zeros((9, 6), np.float32)
        room[:8] = np.arange(48).reshape(8, 6)
        return BlockSparseMatrix.from_dense(numbers, 4, mask=np.ones((2, 2), bool)), room

    w, room = fresh()
    want = np.empty((8, 6), np.float32)
    call(w, room[:8].copy(), want)
    for shift in (0, 1):
        w, room = fresh()
        out = room[shift:shift + 8]
        for _ in range(2):  # the second call of its kind too
            room[:8] = fresh()[1][:8]
            call(w, room[:8], out)
            assert_same_bits(out, want)
    for _ in range(2):
        w, room = fresh()
        values = w.blocks.reshape(8, 8)[:, :6]
        call(w, room[:8], values)
        assert_same_bits(values, want)


@pytest.mark.parametrize("op", ["static", "dynamic", "layer", "layer's gradient"])
def test_an_output_may_be_the_codes_of_an_operand_that_is_copied(op):
    x = QuarterArray.from_array(np.arange(64.0).reshape(8, 8), "f143", "auto", (1, -1))
    plain = {"static": static.sparse_dense_matmul, "dynamic": dynamic.sparse_dense_matmul,
             "layer": dynamic.fully_connected_fwd, "layer's gradient": dynamic.fully_connected_grad_a}[op]
    want, out = QuarterArray(np.zeros((8, 8), np.uint8), "f143"), QuarterArray(x.codes, "f143")
    plain(matrix(), x.copy(), out=want)
    assert plain(matrix(), x, out=out) is out
    assert np.array_equal(out.codes, want.codes)


@pytest.mark.parametrize("call", [
    lambda w, grads, x, out: static.sparse_grad_w(w, grads, x, out=out),
    lambda w, grads, x, out: dynamic.fully_connected_sparse_grad_w(w, grads.T, x.T, out=out),
])
def test_a_gradient_may_overlap_its_operands(call):
    w = BlockSparseMatrix.from_mask(np.ones((1, 2), bool), (4, 2))
    for shift in (0, 3):
        room = np.arange(32, dtype=np.float32)
        grads, x = room[:16].reshape(4, 4), room[16:].reshape(4, 4)
        want = call(w, grads.copy(), x.copy(), None)
        out = room[shift:shift + 16].reshape(2, 4, 2)
        assert_same_bits(call(w, grads, x, out), want)


def test_an_output_of_another_library():
    torch = pytest.importorskip("torch")
    w, x = matrix(), np.arange(48, dtype=np.float32).reshape(8, 6)
    out = torch.zeros((8, 6))
    assert static.sparse_dense_matmul(w, x, out=out) is out
    assert_same_bits(out.numpy(), w @ x)


def test_results_are_in_the_format_of_all_ops():
    for w_name, x_name, name in (("float16", "float16", "float16"), ("bfloat16", "bfloat16", "bfloat16"),
                                 ("float16", "bfloat16", "float32"), ("f143", "f152", "float16"),
                                 ("f143", "bfloat16", "bfloat16"), ("float32", "f143", "float32")):
        w = matrix().astype(w_name)
        x = np.ones((8, 6), np.float32).astype(format_of(x_name).dtype)
        made = [w @ x, x.T @ w.T, dynamic.sparse_dense_matmul(w, x), dynamic.fully_connected_fwd(w, x.T),
                static.sparse_dense_matmul(w, static.prepare_dense(x, w_name))]
        assert {format_of(y).name for y in made} == {name}
        grad = static.sparse_grad_w(matrix(), np.ones((8, 6), format_of(w_name).dtype), x)
        assert format_of(grad).name == name


def test_an_output_is_not_resized_during_a_call():
    """NumPy refuses, as of any array that is in use; with ``refcheck=False`` the caller answers for it."""
    w, x, out = matrix(), np.ones((8, 6), np.float32), np.zeros((8, 6), np.float32)

    class Bias:
        refused = False

        def __array__(self, dtype=None, copy=None):
            with pytest.raises(ValueError, match="resize"):
                out.resize((1, 1))
            self.refused = True
            return np.zeros(8, np.float32)

    bias = Bias()
    assert_same_bits(static.sparse_dense_matmul(w, x, out=out, bias=bias), w @ x)
    assert bias.refused


@pytest.mark.parametrize("columns", [1, 16, 21, 96, 130, 512])
@pytest.mark.parametrize("block_shape", [(1, 1), (3, 5), (4, 8), (8, 8), (16, 4), (32, 32)], ids=str)
@pytest.mark.parametrize(("w_name", "x_name"), [("float32", "float32"), ("float16", "float16"),
                                                ("bfloat16", "bfloat16"), ("f143", "f143"), ("bfloat16", "float16")])
def test_results_of_16_bits_are_those_of_32_rounded_once(w_name, x_name, block_shape, columns):
    rows, depth = (60, 90) if block_shape == (3, 5) else (96, 128)
    w = random_matrix(random_pattern(rows, depth, block_shape, 0.4, 1), dtype=w_name, seed=2)
    w.blocks[:1] = 240 if w_name == "f143" else 1000  # FP16 overflows
    x = random_operand((depth, columns), x_name, 3)
    x[:1] = 240 if x_name == "f143" else 1000
    for op, dense in ((w, x), (w.T, random_operand((rows, columns), x_name, 4))):
        want = static.sparse_dense_matmul(op, dense, out_dtype="float32")
        for name in ("float16", "bfloat16"):
            out = np.zeros((op.shape[0], columns + 3), format_of(name).dtype)[:, 2:-1]  # off the cache lines
            static.sparse_dense_matmul(op, dense, out=out)
            assert_same_bits(out, np.asarray(cast(want, name)))


@pytest.mark.parametrize("columns", [1, 21, 64, 200])
@pytest.mark.parametrize(("depth", "block_shape"), [(47, (4, 8)), (128, (8, 8)), (128, (16, 2)), (45, (3, 5)),
                                                     (63, (1, 1))])
def test_prepared_bfloat16_gives_the_same_bits_in_every_block(depth, block_shape, columns):
    w = random_matrix(random_pattern(48, depth, block_shape, 0.5, 1), dtype="bfloat16", seed=2)
    for x in (random_operand((depth, columns), "bfloat16", 3), random_operand((depth, columns), "f143", 3)):
        ready = static.prepare_dense(x, "bfloat16")
        assert_same_bits(static.sparse_dense_matmul(w, ready, out_dtype="bfloat16"),
                         static.sparse_dense_matmul(w, x, out_dtype="bfloat16"))
        across = static.prepare_dense(x.T, "bfloat16", side="left")
        right = BlockSparseMatrix.from_dense(w.to_dense().T, block_shape[::-1], dtype="bfloat16")
        assert_same_bits(static.dense_sparse_matmul(across, right, out_dtype="float32"),
                         static.dense_sparse_matmul(x.T, right, out_dtype="float32"))
