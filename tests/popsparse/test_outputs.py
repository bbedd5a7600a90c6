"""What a sparse product may write to: memory of its own, one place for each element."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, static
from poplibs_py.testing import assert_same_bits


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
    with pytest.raises(InvalidArgumentError, match=r"^out: .* overlap an operand"):
        static.sparse_dense_matmul(w, ready, out=panels[0, 0, :, :6])
    assert_same_bits(static.sparse_dense_matmul(w, ready), w @ x)


@pytest.mark.parametrize("call", [
    lambda w, x, out: static.sparse_dense_matmul(w, x, out=out),
    lambda w, x, out: static.dense_sparse_matmul(x.T, w.T, out=out.T),
    lambda w, x, out: dynamic.sparse_dense_matmul(w, x, out=out),
    lambda w, x, out: dynamic.fully_connected_fwd(w, x.T, out=out.T),
    lambda w, x, out: dynamic.fully_connected_grad_a(w.T, x.T, out=out.T),
])
def test_an_output_over_the_codes_of_an_operand_that_is_copied_is_refused(call):
    x = QuarterArray.from_array(np.arange(48.0).reshape(8, 6), "f143", "auto", (1, -1))
    before = x.codes.copy()
    with pytest.raises(InvalidArgumentError, match=r"^out: .* overlap an operand"):
        call(matrix(), x, QuarterArray(x.codes, "f143"))
    assert np.array_equal(x.codes, before)


def test_a_gradient_over_the_codes_of_an_operand_that_is_copied_is_refused():
    w = BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32), 8)
    codes = np.arange(64, dtype=np.uint8).reshape(8, 8)
    x, plain = QuarterArray(codes, "f143", np.arange(8, dtype=np.int8)[:, None], (1, -1)), np.ones((8, 8), np.float32)
    out = QuarterArray(codes[None], "f143")
    for grads, acts in ((x, plain), (plain, x)):
        with pytest.raises(InvalidArgumentError, match=r"^out: .* overlap an operand"):
            static.sparse_grad_w(w, grads, acts, out=out)
    with pytest.raises(InvalidArgumentError, match=r"^out: .* overlap an operand"):
        dynamic.fully_connected_sparse_grad_w(w, x, plain, out=out)
    assert np.array_equal(codes.ravel(), np.arange(64))


def test_a_planned_product_does_not_write_over_an_operand_that_it_copies():
    w, room = matrix(), np.zeros(96, np.float32)
    x, out = room.reshape(8, 12)[:, ::2], room[:48].reshape(8, 6)
    with pytest.raises(InvalidArgumentError, match=r"^out: .* overlap an operand"):
        static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(w, 6))(w, x, out=out)
