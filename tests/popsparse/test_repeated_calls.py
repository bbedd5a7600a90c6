"""Calls that were made before: found again whatever their keywords, right for every pattern of their kind."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from poplibs_py import profile
from poplibs_py.errors import CapacityWarning, PoplibsError
from poplibs_py.formats import FORMATS, format_of
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, dynamic, random_matrix, random_pattern, static
from poplibs_py.popsparse.pattern import room_for
from poplibs_py.testing import assert_same_bits, random_operand

ROWS, DEPTH, COLUMNS = 48, 64, 5


def matrix(n_blocks: int, seed: int, fmt: str = "float32", groups: int = 1) -> BlockSparseMatrix:
    """A matrix of so many blocks of 4 x 4, at most 3 in a row."""
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(np.repeat(np.arange(groups * ROWS // 4), 3), n_blocks, replace=False))
    columns = np.empty(n_blocks, np.int64)
    for row in np.unique(rows):
        columns[rows == row] = np.sort(rng.choice(DEPTH // 4, np.sum(rows == row), replace=False))
    offsets = np.searchsorted(rows, np.arange(groups * ROWS // 4 + 1))
    return random_matrix(BlockPattern((ROWS, DEPTH), 4, offsets, columns, groups), dtype=fmt, seed=seed)


def dense(rows: int, fmt: str = "float32", seed: int = 1) -> Any:
    return random_operand((rows, COLUMNS), fmt, seed)


X, DY, BIAS = dense(DEPTH), dense(ROWS), random_operand((ROWS,), "float32", 3)
HOW = {"out_dtype": "float16", "bias": BIAS, "activation": "relu", "options": {"availableMemoryProportion": 0.9}}

CALLS = {
    "static": (static.sparse_dense_matmul, lambda w: (w, X), {}),
    "static with all": (static.sparse_dense_matmul, lambda w: (w, X), HOW),
    "static from the right": (static.dense_sparse_matmul, lambda w: (DY.T, w), {"activation": "gelu"}),
    "static, transposed": (static.sparse_dense_matmul, lambda w: (w.T, DY), {}),
    "static gradient": (static.sparse_grad_w, lambda w: (w, DY, X), {"out_dtype": "bfloat16"}),
    "dynamic": (dynamic.sparse_dense_matmul, lambda w: (w, X), {"capacity": dynamic.Capacity(200)}),
    "dynamic with all": (dynamic.sparse_dense_matmul, lambda w: (w, X), HOW | {"capacity": dynamic.Capacity(200)}),
    "dynamic, transposed": (dynamic.sparse_dense_matmul, lambda w: (w, DY), {"transpose_lhs": True}),
    "dynamic from the right": (dynamic.dense_sparse_matmul, lambda w: (DY.T, w), {}),
    "layer": (dynamic.fully_connected_fwd, lambda w: (w, X.T), {"bias": BIAS}),
    "layer's gradient": (dynamic.fully_connected_grad_a, lambda w: (w, DY.T), {}),
    "layer's weights": (dynamic.fully_connected_sparse_grad_w, lambda w: (w, DY.T, X.T), {}),
}


def afresh(op: Any, operands: tuple[Any, ...], how: dict[str, Any]) -> Any:
    """What a call gives that is described anew: those that are listened to are."""
    with profile():
        return op(*operands, **how)


@pytest.mark.parametrize("fmt", ["float32", "float16", "f143"])
@pytest.mark.parametrize(("op", "operands", "how"), CALLS.values(), ids=CALLS)
def test_new_patterns_of_a_kind_share_what_the_first_made_ready(op, operands, how, fmt):
    ready: int | None = None
    for seed in range(6):
        w = matrix(33 + seed % 2, seed, fmt)  # one room for both
        for _ in range(3):
            got = op(*operands(w), **how)
            assert_same_bits(got, afresh(op, operands(w), how))
        ready = op.kept if ready is None or seed < 3 else ready  # the first patterns have rows of other lengths
    assert op.kept == ready


def test_a_result_shaped_like_the_blocks_is_that_of_each_call():
    small, large = matrix(33, 1), matrix(34, 2)
    assert room_for(33) == room_for(34)
    out = np.zeros(small.blocks.shape, np.float32)
    for w in (small, large, small):
        for _ in range(2):
            assert static.sparse_grad_w(w, DY, X).shape == w.blocks.shape
    static.sparse_grad_w(small, DY, X, out=out)
    static.sparse_grad_w(small, DY, X, out=out)
    with pytest.raises(PoplibsError, match=r"^out: got shape \(33, 4, 4\)"):
        static.sparse_grad_w(large, DY, X, out=out)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("name", [f.name for f in FORMATS])
def test_a_bias_of_any_format_and_strides_is_decoded_by_the_product(name, groups):
    w = matrix(34 * groups, 1, "float16", groups)
    x = random_operand((groups, DEPTH, COLUMNS), "float32", 1)
    x = x if groups > 1 else x[0]
    fmt = format_of(name)
    for shape in ((ROWS,), (groups, ROWS)):
        numbers = np.asarray(random_operand((*shape[:-1], 2 * ROWS), "float32", 2).astype(fmt.dtype))
        for bias in (numbers[..., :ROWS].copy(), numbers[..., ::2], numbers[..., ROWS - 1::-1]):
            wide = np.ascontiguousarray(bias.astype(np.float32))
            want = afresh(static.sparse_dense_matmul, (w, x), {"bias": wide, "activation": "silu"})
            for _ in range(2):
                ready = static.sparse_dense_matmul.kept
                assert_same_bits(static.sparse_dense_matmul(w, x, bias=bias, activation="silu"), want)
            assert static.sparse_dense_matmul.kept == ready


def test_a_capacity_still_grows_after_calls_that_were_kept():
    capacity = dynamic.Capacity(34)
    for _ in range(3):
        dynamic.sparse_dense_matmul(matrix(34, 1), X, capacity=capacity)
    with pytest.warns(CapacityWarning, match="35 blocks"):
        dynamic.sparse_dense_matmul(matrix(35, 2), X, capacity=capacity)
    assert capacity.n_blocks >= 35
    tight = dynamic.Capacity(33)  # not all that there is room for
    for _ in range(3):
        dynamic.fully_connected_fwd(matrix(33, 3), X.T, capacity=tight)
    with pytest.warns(CapacityWarning, match="34 blocks"):
        dynamic.fully_connected_fwd(matrix(34, 4), X.T, capacity=tight)


def test_a_limit_that_is_raised_is_told_each_time():
    w = matrix(34, 1, "float16")
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            static.sparse_grad_w(w, DY, X.astype(np.float16), available_memory_proportion=1e-6)
        assert [str(w.message).split(":")[0] for w in caught] == ["popsparse.static.sparse_grad_w"]


@pytest.mark.parametrize("swapped", [False, True])
def test_prepared_operands_of_one_kind(swapped):
    side = "right" if swapped else "left"
    op = static.dense_sparse_matmul if swapped else static.sparse_dense_matmul
    for seed in range(4):
        w = matrix(34, seed, "float16")
        x = DY.T if swapped else X
        ready = static.prepare(w, side=side, x_dtype="float32")
        for _ in range(2):
            operands = (x, ready) if swapped else (ready, x)
            assert_same_bits(op(*operands), afresh(op, (x, w) if swapped else (w, x), {}))
        w.blocks[...] = 0
        ready.refresh()
        assert not op(*operands).any()


def test_an_index_is_made_once_for_a_pattern_however_it_is_used(monkeypatch):
    from poplibs_py.popsparse import pattern

    made: list[int] = []
    transpose = pattern.transpose
    monkeypatch.setattr(pattern, "transpose", lambda *index: made.append(1) or transpose(*index))
    w = matrix(34, 9)
    for _ in range(2):
        static.sparse_dense_matmul(w.T, DY)
        static.dense_sparse_matmul(DY.T, w)
        dynamic.fully_connected_grad_a(w, DY.T)
        static.plan_dense_sparse_matmul(w, 3)
        w.T.copy()
    assert made == [1]
    static.sparse_dense_matmul(matrix(34, 10), X)
    assert made == [1]


def test_compiled_products_serve_other_patterns():
    run = static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(matrix(34, 1), COLUMNS, has_bias=True))
    for seed in range(3):
        w = matrix(33 + seed % 2, seed)
        for bias in (BIAS, BIAS.astype(np.float16), list(map(float, BIAS))):
            for _ in range(2):
                want = static.sparse_dense_matmul(w, X, bias=bias)
                assert_same_bits(run(w, X, bias=bias), want)
    with pytest.raises(PoplibsError, match=r"^w: got .*; allowed: one as planned for, of 34 blocks at most"):
        run(matrix(35, 4), X, bias=BIAS)


def test_room_is_at_most_a_sixteenth_more_than_there_is():
    for n in range(3000):
        assert n <= room_for(n) <= n + n // 16
        assert room_for(room_for(n)) == room_for(n)
        assert room_for(n) <= room_for(n + 1)


def test_random_patterns_serve_too():
    for seed in range(4):
        w = random_matrix(random_pattern(ROWS, DEPTH, 4, 0.3, seed), dtype="float16", seed=seed)
        assert_same_bits(w @ X, afresh(static.sparse_dense_matmul, (w, X), {}))
        assert_same_bits(DY.T @ w, afresh(static.dense_sparse_matmul, (DY.T, w), {}))


def test_transposes_and_slices_are_found_again_though_they_are_made_anew() -> None:
    def kept() -> int:
        return static.sparse_dense_matmul.kept  # type: ignore[attr-defined, no-any-return]

    w = matrix(20, 1)
    _ = w.T @ DY  # makes the index of the transpose
    for part in (lambda: w.T, lambda: w[8:24]):
        columns = random_operand((part().shape[1], 3), "float32", 1)  # as many as no other test has
        before = kept()
        results = [part() @ columns for _ in range(3)]
        assert kept() == before + 1
        with profile():
            described = part() @ columns
        for result in results:
            assert_same_bits(result, described)
    assert w.equals(w.T.T)
    assert w.T.shape == w.shape[::-1]
