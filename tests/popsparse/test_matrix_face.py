"""What NumPy's and SciPy's users expect of a matrix: parts, arithmetic, comparison, conversions, linear operators."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as linalg
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popops, testing
from poplibs_py.errors import InvalidArgumentError, InvalidIndexError, InvalidTypeError, PoplibsError, RangeWarning
from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16, FP32, QuarterArray, auto_scale, reference
from poplibs_py.ops import result_format
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern
from poplibs_py.testing.calls import block_sparse_matrices

GROUPS = st.sampled_from([1, 1, 2])
SHAPES = st.tuples(st.integers(0, 9), st.integers(0, 9))
BLOCKS = st.sampled_from([(1, 1), (2, 3), (4, 4)])


def rounded(values: Any, dtype: Any) -> Any:
    """Exact values rounded once to a format, as float64."""
    if dtype == FP32:
        return np.float32(values).astype(np.float64)
    return reference.decode(reference.encode(values, dtype), dtype)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[BlockSparseMatrix, BlockSparseMatrix]:
    """Two matrices of one shape and blocks, of any patterns and formats, each perhaps the transpose of another."""
    shape, block, groups = draw(SHAPES), draw(BLOCKS), draw(GROUPS)
    made = []
    for _ in range(2):
        turned = draw(st.booleans())
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        sides = block[::-1] if turned else block
        extents = shape[::-1] if turned else shape
        dense = rng.normal(size=(groups, *extents)) * (rng.random((groups, *extents)) < 0.5)
        fmt = draw(st.sampled_from([FP32, FP16, BF16, F143, E4M3, F152]))
        w = BlockSparseMatrix.from_dense(dense, sides, dtype=fmt, scale="auto_per_block" if fmt.bits == 8 else None)
        made.append(w.T if turned else w)
    return made[0], made[1]


# Comparison


def test_two_matrices_are_not_compared_by_operators() -> None:
    w = random_matrix(random_pattern(8, 8, 4, 0.5))
    for other in (w, w.copy(), w.to_dense(), w.tocsr(), 1, 2.5, [1]):
        for compare in (operator.eq, operator.ne):
            for pair in ((w, other), (other, w))[: 1 if isinstance(other, scipy.sparse.csr_array) else 2]:
                with pytest.raises(InvalidTypeError, match=r"^==: .* w.equals\(v\).* w.to_dense\(\) == v"):
                    compare(*pair)
    assert w != None  # noqa: E711
    assert w != "w"
    with pytest.raises(TypeError, match="unhashable"):
        hash(w)


@given(block_sparse_matrices(groups=GROUPS))
def test_equals_compares_everything(w: BlockSparseMatrix) -> None:
    assert w.equals(w)
    assert w.equals(w.copy())
    assert w.T.equals(w.copy().T)
    if w.blocks.view(w.format.code_dtype).any():
        other = w.copy()
        other.blocks[...] = 0
        assert not w.equals(other)
    with pytest.raises(InvalidTypeError, match=r"^other: got ndarray"):
        w.equals(w.blocks)


# Parts


@given(block_sparse_matrices(groups=GROUPS), st.data())
def test_rows_columns_and_elements_are_dense(w: BlockSparseMatrix, data: Any) -> None:
    dense = w.to_dense()
    rows, columns = w.shape
    i, j = data.draw(st.integers(-rows, rows - 1)), data.draw(st.integers(-columns, columns - 1))
    high, wide = w.block_shape
    for index in (i, (i,), (i, slice(None)), (slice(None), j), (i, j), (np.int64(i), j), (slice(0, high), j),
                  (i, slice(0, wide))):
        front = index if isinstance(index, tuple) else (index,)
        np.testing.assert_array_equal(w[index], dense[(..., *front, *[slice(None)] * (2 - len(front)))], strict=True)


@given(block_sparse_matrices(groups=GROUPS), st.data())
def test_slices_of_rows_and_columns_are_matrices(w: BlockSparseMatrix, data: Any) -> None:
    dense = w.to_dense()

    def edges(extent: int, side: int) -> slice:
        ends = st.sampled_from([*range(0, extent, side), extent])
        return slice(*sorted([data.draw(ends), data.draw(ends)]))

    rows, columns = (edges(extent, side) for extent, side in zip(w.shape, w.block_shape, strict=True))
    part = w[rows, columns]
    assert part.block_shape == w.block_shape
    np.testing.assert_array_equal(part.to_dense(), dense[..., rows, columns], strict=True)
    np.testing.assert_array_equal(w[:, columns].to_dense(), dense[..., columns], strict=True)
    inside = [j for j in range(w.shape[1]) if j % w.block_shape[1]]
    if inside:
        with pytest.raises(InvalidArgumentError, match=r"^columns: got"):
            w[:, inside[0]:]


@pytest.mark.parametrize("index", [
    6, -7, (0, 8), (0, -9), (1, 2, 3), (), [0, 1], np.arange(2), None, ..., "a", 1.0, True, (slice(None), [1]),
    (slice(0, 4, 2), 0), (slice("a"), 0), np.ones((6, 8), bool),
], ids=repr)  # fmt: skip
def test_other_indices_are_refused(index: Any) -> None:
    w = random_matrix(random_pattern(6, 8, 2, 0.5))
    with pytest.raises(PoplibsError, match=r"^(index|rows|columns): got"):
        w[index]
    assert [row.tolist() for row in w] == w.to_dense().tolist()


def test_an_index_beyond_the_matrix_is_an_index_error() -> None:
    with pytest.raises(InvalidIndexError, match=r"^index: got 9; allowed: a whole number within 8 rows"):
        random_matrix(random_pattern(8, 8, 4, 0.5))[9]


# Arithmetic


@given(pairs())
def test_sums_are_rounded_once(pair: Any) -> None:
    w, v = pair
    left, right = w.to_dense(np.float64), v.to_dense(np.float64)
    fmt = result_format(w.format, v.format)
    for operate in (operator.add, operator.sub):
        made = operate(w, v)
        assert (made.format, made.scale, made.shape, made.block_shape) == (fmt, 0, w.shape, w.block_shape)
        np.testing.assert_array_equal(made.to_dense(np.float64), rounded(operate(left, right), fmt))
    np.testing.assert_array_equal(sum([w, v]).to_dense(), (w + v).to_dense())
    np.testing.assert_array_equal((-w).to_dense(), -w.to_dense())
    assert (-w).format == w.format
    both = {*zip(*np.nonzero(left)[-2:], strict=True), *zip(*np.nonzero(right)[-2:], strict=True)}
    assert (w + v).n_blocks <= max(1, len(both)) * w.groups


@given(pairs(), st.floats(-2.0**70, 2.0**70))
def test_products_with_numbers_are_rounded_once(pair: Any, number: float) -> None:
    w, _ = pair
    fmt, factor = result_format(w.format), np.float64(np.float32(number))
    exact = w.to_dense(np.float64) * factor
    for made in (w * number, number * w, np.float64(number) * w, w * np.float32(number), w * np.array(number)):
        assert (made.format, made.scale, made.is_transposed) == (fmt, 0, w.is_transposed)
        np.testing.assert_array_equal(made.to_dense(np.float64), rounded(exact, fmt))
    if factor:
        with np.errstate(over="ignore"):
            want = rounded(w.to_dense(np.float64) / factor, fmt)
        np.testing.assert_array_equal((w / number).to_dense(np.float64), want)


def test_a_matrix_with_the_same_pattern_keeps_it() -> None:
    w = random_matrix(random_pattern(8, 8, 4, 0.5))
    assert (w + w).pattern is (2 * w).pattern is (-w).pattern is w.pattern
    twice = 2 * w.T
    assert twice.is_transposed
    np.testing.assert_array_equal((w + w).to_dense().T, twice.to_dense())


@pytest.mark.parametrize("call", [
    lambda w: w * w, lambda w: w * np.ones((8, 8)), lambda w: np.ones(8) * w, lambda w: w * "2", lambda w: w * None,
    lambda w: w * np.nan, lambda w: w * np.inf, lambda w: w * 1e39, lambda w: w / 0, lambda w: w / w, lambda w: w * 1j,
    lambda w: w + 1, lambda w: 1 + w, lambda w: w + np.ones((8, 8)), lambda w: np.ones((8, 8)) + w, lambda w: w - 0,
    lambda w: w + random_matrix(random_pattern(8, 12, 4, 0.5)), lambda w: w + w.tocsr(),
    lambda w: w + random_matrix(random_pattern(8, 8, 2, 0.5)), lambda w: w + None, lambda w: w * True,
    lambda w: w + BlockSparseMatrix.from_mask(np.ones((2, 2, 2), bool), 4),
])  # fmt: skip
def test_other_operands_are_refused_by_name(call: Any) -> None:
    with pytest.raises(PoplibsError, match=r"^other: got"):
        call(random_matrix(random_pattern(8, 8, 4, 0.5)))


def test_infinite_results_leave_the_padding_zero() -> None:
    w = BlockSparseMatrix.from_dense(np.full((5, 7), 3e38, np.float32), 4)
    with np.errstate(all="raise"):
        made = [w * 10, w + w, w / 1e-30]
    for v in made:
        assert np.isinf(v.to_dense()).all()
        BlockSparseMatrix(v.pattern, v.blocks)  # which checks the edges


# SciPy's names


def test_sizes_and_conversions_are_scipy_s() -> None:
    w = BlockSparseMatrix.from_dense(np.diag(np.arange(1.0, 9)), 2)
    there = w.tocsr()
    assert (w.size, w.nnz, there.size) == (16, 16, 16)
    np.testing.assert_array_equal(w.mT.toarray(), there.T.toarray())
    for kind in ("bsr", "csr", "csc", "coo"):
        made = getattr(w, f"to{kind}")()
        assert made.format == kind
        np.testing.assert_array_equal(made.toarray(), w.toarray())


@given(block_sparse_matrices(finite=True, moderate=True), st.sampled_from([np.float64, np.float32, np.int32]))
def test_linear_operators_take_what_solvers_pass(w: BlockSparseMatrix, dtype: Any) -> None:
    rng = np.random.default_rng(w.n_blocks)
    for apply, matrix in ((w.matvec, w), (w.rmatvec, w.T)):
        x = rng.integers(-4, 5, matrix.shape[1]).astype(dtype)
        for given_x in (x, x[:, None], x.tolist()):
            made = apply(given_x)
            assert made.dtype == np.float32
            assert made.shape == (matrix.shape[0], *np.shape(given_x)[1:])
            ball = testing.bound("static.sparse_dense_matmul", matrix, x.astype(np.float32), out_dtype="float32")
            testing.assert_within_bound(made.ravel(), ball)
    x = rng.integers(-4, 5, (w.shape[1], 3)).astype(dtype)
    assert (w.matmat(x).shape, w.rmatmat(np.ones((w.shape[0], 2))).shape) == ((w.shape[0], 3), (w.shape[1], 2))


def test_scipy_s_solvers_take_a_matrix() -> None:
    n = 48
    dense = np.zeros((n, n))
    for i in range(0, n, 8):
        dense[i:i + 8, i:i + 8] = 1 + 9 * np.eye(8)
    w = BlockSparseMatrix.from_dense(dense, 8)
    b = np.arange(1.0, n + 1)
    solved = np.linalg.solve(dense, b)
    for solve in (linalg.cg, linalg.gmres, linalg.bicgstab):
        found, info = solve(w, b, rtol=1e-6)
        assert info == 0
        assert np.abs(found - solved).max() <= 1e-4 * np.abs(solved).max()
    made = linalg.aslinearoperator(w)
    assert made.shape == w.shape
    np.testing.assert_array_equal(made @ b, dense @ b)
    np.testing.assert_array_equal(made.T @ b, dense.T @ b)
    np.testing.assert_array_equal(made @ np.eye(n), dense)
    largest = linalg.svds(made, k=1, return_singular_vectors=False)
    assert abs(largest[0] - np.linalg.norm(dense, 2)) <= 1e-5 * largest[0]


@pytest.mark.parametrize(("x", "name"), [
    (np.ones(7), "x"), (np.ones((8, 2)), "x"), (np.ones(8, complex), "x"), ("x", "x"), (None, "x"), (3.0, "x"),
    (np.ones((8, 1, 1)), "x"), (np.ones((1, 8)), "x"),
])  # fmt: skip
def test_what_no_linear_operator_takes(x: Any, name: str) -> None:
    w = random_matrix(random_pattern(8, 8, 4, 0.5))
    with pytest.raises(PoplibsError, match=f"^{name}: got"):
        w.matvec(x)
    with pytest.raises(InvalidArgumentError, match=r"^w: got 2 groups"):
        BlockSparseMatrix.from_mask(np.ones((2, 2, 2), bool), 4).matvec(np.ones(8))


def test_a_float64_operand_is_told_the_remedy() -> None:
    w = random_matrix(random_pattern(8, 8, 4, 0.5))
    for call in (lambda: w @ np.ones(8), lambda: np.ones(8) @ w, lambda: w @ np.ones((8, 2))):
        with pytest.raises(InvalidTypeError, match=r'^x: got dtype float64; .*astype\("float32"\)'):
            call()


# Masks of elements, and scales


@given(SHAPES, BLOCKS, GROUPS, st.integers(0, 2**32 - 1))
def test_a_mask_of_elements_prunes_them(shape: Any, block: Any, groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    full = (groups, *shape) if groups > 1 else shape
    dense = rng.normal(size=full).astype(np.float32)
    dense[rng.random(full) < 0.1] = np.nan
    mask = rng.random(full) < 0.2
    w = BlockSparseMatrix.from_dense(dense, block, mask=mask)
    np.testing.assert_array_equal(w.to_dense(), np.where(mask, dense, 0))
    everything = BlockSparseMatrix.from_dense(mask.astype(np.float32), block)
    assert w.pattern == everything.pattern
    counts = [-(-extent // side) for extent, side in zip(shape, block, strict=True)]
    if tuple(counts) != shape:
        with pytest.raises(InvalidArgumentError, match=r"^mask: got .* for blocks or .* for elements"):
            BlockSparseMatrix.from_dense(dense, block, mask=np.ones((*full, 1), bool))


@pytest.mark.parametrize("fmt", [F143, F152, E4M3], ids=str)
def test_numbers_are_rounded_to_8_bits_at_a_scale_that_holds_them(fmt: Any) -> None:
    rng = np.random.default_rng(3)
    for size in (300.0, 0.02, 1e-6, 1e12):
        dense = rng.normal(size=(32, 32), scale=size).astype(np.float32)
        w = BlockSparseMatrix.from_dense(dense, 8)
        least = int(auto_scale(dense, fmt))
        made = [BlockSparseMatrix.from_dense(dense, 8, dtype=fmt), w.astype(fmt),
                BlockSparseMatrix.from_scipy(w.tocsr(), 8, dtype=fmt),
                BlockSparseMatrix.from_host(w.to_host(), dtype=fmt),
                BlockSparseMatrix.from_blocks(w.blocks, shape=w.shape, row_offsets=w.row_offsets,
                                              column_indices=w.column_indices, dtype=fmt)]
        for v in made:
            assert v.scale == least
            assert np.isfinite(v.to_dense()).all()
            assert (v.to_dense() == 0).mean() <= 0.01
        assert made[1].astype(fmt).equals(made[1])
        assert made[1].astype("e5m2").scale == int(auto_scale(made[1].to_dense(), E5M2))


def test_codes_keep_the_scale_that_they_have() -> None:
    codes = np.ones((4, 4), F143.dtype)
    assert BlockSparseMatrix.from_dense(codes, 2).scale == 0
    parts: dict[str, Any] = {"shape": (4, 4), "row_indices": [0], "column_indices": [0]}
    assert BlockSparseMatrix.from_blocks(codes[None], **parts).scale == 0
    assert BlockSparseMatrix.from_blocks(QuarterArray(codes[None], F143, -7), **parts).scale == -7
    assert BlockSparseMatrix.from_mask(np.ones((2, 2), bool), 2, dtype="f143").scale == 0
    far = BlockSparseMatrix.from_blocks(QuarterArray(codes[None], F143, 90), dtype="e4m3", **parts)
    assert far.to_dense().tolist() == np.full((4, 4), 2.0**90).tolist()


def test_values_that_a_scale_does_not_hold_are_told() -> None:
    w = BlockSparseMatrix.from_dense(np.full((4, 4), 300.0), 2)
    with pytest.warns(RangeWarning, match="^scale: 16 of 16 finite values are too large for f143"):
        narrow = w.astype("f143", 0)
    assert np.isnan(narrow.to_dense()).all()
    with pytest.warns(RangeWarning, match="^scale: all 16 values that are not zero are too small for f143"):
        assert not w.astype("f143", 99).to_dense().any()
    with pytest.warns(RangeWarning, match="e5m2"):
        BlockSparseMatrix.from_dense(w.to_dense() * 1e4, 2, dtype="e5m2", scale=1)
    kept = w.astype("f143")
    kept.update(kept.to_dense().reshape(4, 2, 2))
    with pytest.warns(RangeWarning, match="^scale: 1 of 16"):
        kept.update(np.where(np.arange(16).reshape(4, 2, 2) == 5, 1e9, np.inf))


@given(block_sparse_matrices(groups=GROUPS))
def test_sums_diagonals_and_dot_are_scipys(w: BlockSparseMatrix) -> None:
    dense = w.to_dense(np.float64)
    with np.errstate(all="ignore"):
        for axis in (None, 0, 1, -1):
            due = np.float32(dense.sum((-2, -1) if axis is None else axis - 2 if axis >= 0 else axis))
            got, terms = w.sum(axis), dense.size
            assert np.shape(got) == due.shape
            assert got.dtype == np.float32
            room = terms * 2.0**-52 * np.abs(dense).sum()  # of sums in float64 in another order, then one rounding
            near = np.abs(got - due) <= np.spacing(np.abs(due)) + room
            assert np.all(near | (got == due) | ~np.isfinite(due) | ~np.isfinite(room))
    for k in (0, 1, -2, w.shape[1], -w.shape[0] - 5):
        assert np.array_equal(w.diagonal(k), np.diagonal(w.to_dense(), k, -2, -1), equal_nan=True)
    x = np.ones((w.shape[1], 2), np.float32)
    if w.groups == 1:
        assert np.array_equal(w.dot(x), w @ x, equal_nan=True)


def test_sums_and_diagonals_refuse_other_axes_by_name() -> None:
    w = random_matrix(random_pattern(8, 8, 4, 0.5))
    with pytest.raises(InvalidArgumentError, match=r"^axis: got 2"):
        w.sum(2)
    with pytest.raises(InvalidTypeError, match=r"^k: got 'x'|^k: got x"):
        w.diagonal("x")


@pytest.mark.parametrize("transposed", [False, True])
def test_functions_of_the_stored_values_leave_the_rest_zero(transposed: bool) -> None:
    dense = np.random.default_rng(1).standard_normal((7, 9)).astype(np.float32)
    w = BlockSparseMatrix.from_dense(dense, (2, 4), density=0.5)
    w, dense = (w.T, dense.T) if transposed else (w, dense)
    stored = w.to_dense() != 0
    np.testing.assert_array_equal(w.map(np.exp).to_dense(), np.where(stored, np.exp(dense), 0))
    with pytest.raises(InvalidTypeError, match="operation: got 3; allowed: an elementwise function"):
        w.map(3)
    np.testing.assert_array_equal(w.map(np.multiply, dense).to_dense(), np.where(stored, dense * dense, 0))
    np.testing.assert_array_equal(w.map(np.add, w.map(np.abs)).to_dense(), np.where(stored, dense + abs(dense), 0))
    half = w.map(popops.cast, "float16")
    assert half.equals(w.astype("float16"))
    eight = w.astype("f143", scale="auto_per_block")
    np.testing.assert_array_equal(eight.map(popops.cast, "float32").to_dense(), eight.to_dense())
    assert w.map(np.ones_like).T.map(np.square).pattern == w.pattern
    for wrong, argument in ((lambda: w.map(np.sum), "operation"), (lambda: w.map(np.isnan), "operation"),
                            (lambda: w.map(np.add, w.T), "others"), (lambda: w.map(np.add, dense[1:]), "others")):
        with pytest.raises(PoplibsError, match=f"^{argument}: got"):
            wrong()
