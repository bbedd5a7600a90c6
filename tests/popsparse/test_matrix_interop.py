"""BlockSparseMatrix in and out of SciPy and PopLibs' host storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.popsparse import BlockSparseMatrix, COOMatrix, CSCMatrix, CSRMatrix, random_matrix, random_pattern

KINDS = ["bsr", "csr", "csc", "coo"]
sides = st.tuples(st.integers(1, 5), st.integers(1, 5))
seeds = st.integers(0, 2**32 - 1)


@given(sides, st.integers(0, 6), st.integers(0, 6), seeds, st.sampled_from(KINDS), st.booleans())
def test_scipy_round_trip(block: Any, block_rows: int, block_columns: int, seed: int, kind: str, turned: bool) -> None:
    w = random_matrix(random_pattern(block_rows * block[0], block_columns * block[1], block, 0.4, seed), seed=seed)
    w = w.T if turned else w
    there = w.to_scipy(kind)
    assert there.format == kind
    assert there.dtype == np.float32
    np.testing.assert_array_equal(there.toarray(), w.to_dense())
    assert BlockSparseMatrix.from_scipy(there, w.block_shape).equals(w)


@given(sides, sides, seeds, st.sampled_from(KINDS), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_scipy_in_other_blocks(old: Any, new: Any, seed: int, kind: str, dtype: Any, array: bool) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(-4, 5, (old[0] * 3, old[1] * 4)).astype(dtype)
    dense *= rng.random(dense.shape) < 0.2
    make = getattr(scipy.sparse, f"{kind}_{'array' if array else 'matrix'}")
    matrix = make(dense, blocksize=old) if kind == "bsr" else make(dense)
    w = BlockSparseMatrix.from_scipy(matrix, new)
    np.testing.assert_array_equal(w.to_dense(), dense)
    assert w.block_shape == new
    assert BlockSparseMatrix.from_scipy(matrix).block_shape == (old if kind == "bsr" else (1, 1))


@given(st.sampled_from(KINDS), seeds, st.sampled_from([1, 2]))
def test_elements_given_twice_are_added(kind: str, seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, 4, (2, 30))
    values = rng.integers(-9, 9, 30).astype(np.float32)
    matrix = scipy.sparse.coo_array((values, (rows, columns)), shape=(4, 4))
    expected = matrix.toarray()
    if kind in ("csr", "bsr"):
        order = np.argsort(rows, kind="stable")
        offsets = np.searchsorted(rows[order], np.arange(5))
        if kind == "csr":
            matrix = scipy.sparse.csr_array((values[order], columns[order], offsets), shape=(4, 4))
        else:
            matrix = scipy.sparse.bsr_array((values[order][:, None, None], columns[order], offsets), shape=(4, 4))
    elif kind == "csc":
        order = np.argsort(columns, kind="stable")
        offsets = np.searchsorted(columns[order], np.arange(5))
        matrix = scipy.sparse.csc_array((values[order], rows[order], offsets), shape=(4, 4))
    np.testing.assert_array_equal(BlockSparseMatrix.from_scipy(matrix, block).to_dense(), expected)


def broken(kind: str, **changes: Any) -> Any:
    matrix = random_matrix(random_pattern(4, 4, 1, 0.5)).to_scipy(kind)
    for name, value in changes.items():
        setattr(matrix, name, value)
    return matrix


@pytest.mark.parametrize("matrix", [
    np.eye(4), scipy.sparse.eye_array(4, format="dia"), scipy.sparse.eye_array(4, format="csr", dtype=np.int32),
    scipy.sparse.eye_array(4, format="csr", dtype=np.complex64), scipy.sparse.coo_array(np.ones(4)), None,
    broken("csr", indices=np.full(8, 4)), broken("csr", indices=np.full(8, -1)),
    broken("csr", indices=np.zeros(3, int)),
    broken("csr", indptr=np.array([0, 8, 2, 4, 8])), broken("csr", indptr=np.array([0, 1, 2, 4, 9])),
    broken("csr", indptr=np.array([0, 8])), broken("csr", indptr=np.zeros(0, int)),
    broken("csc", indices=np.full(8, 9)),
    broken("bsr", indices=np.full(8, 2**40)), broken("bsr", data=np.ones((2, 1, 1), np.float32)),
])  # fmt: skip
def test_bad_scipy_matrices_are_refused(matrix: Any) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="got"):
        BlockSparseMatrix.from_scipy(matrix)


def test_what_scipy_cannot_hold_is_refused() -> None:
    ragged = random_matrix(random_pattern(5, 5, 2, 1.0))
    with pytest.raises(InvalidArgumentError, match=r"^kind: got 'bsr'"):
        ragged.to_scipy()
    np.testing.assert_array_equal(ragged.to_scipy("csc").toarray(), ragged.to_dense())
    with pytest.raises(InvalidArgumentError, match=r"^kind"):
        ragged.to_scipy("dia")
    grouped = BlockSparseMatrix.from_mask(np.ones((2, 2, 2), bool), 2)
    for call in (grouped.to_scipy, grouped.to_host):
        with pytest.raises(InvalidArgumentError, match=r"^kind: got 2 groups"):
            call()
    assert grouped.group(1).to_scipy().shape == (4, 4)
    with pytest.raises(InvalidArgumentError, match=r"^index"):
        grouped.group(2)


@given(sides, st.integers(0, 6), st.integers(0, 6), seeds, st.sampled_from(["coo", "csr", "csc"]), st.booleans())
def test_host_round_trip(block: Any, block_rows: int, block_columns: int, seed: int, kind: str, turned: bool) -> None:
    w = random_matrix(random_pattern(block_rows * block[0], block_columns * block[1], block, 0.4, seed), seed=seed)
    w = w.T if turned else w
    assert BlockSparseMatrix.from_host(w.to_host(kind)).equals(w)


def test_host_conventions() -> None:
    dense = np.zeros((4, 6), np.float32)
    dense[0:2, 3:6] = [[1, 2, 3], [4, 5, 6]]
    dense[2:4, 0:3] = [[7, 8, 9], [10, 11, 12]]
    dense[2:4, 3:6] = 13
    w = BlockSparseMatrix.from_dense(dense, (2, 3))
    coo, csr, csc = w.to_host("coo"), w.to_host("csr"), w.to_host("csc")
    assert isinstance(coo, COOMatrix)
    assert isinstance(csr, CSRMatrix)
    assert isinstance(csc, CSCMatrix)
    assert coo.row_indices.tolist() == [0, 2, 2]
    assert coo.column_indices.tolist() == csr.column_indices.tolist() == [3, 0, 3]
    assert csr.row_indices.tolist() == [0, 6, 18]
    assert csr.nz_values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 13, 13, 13, 13]
    assert csc.column_indices.tolist() == [0, 6, 18]
    assert csc.row_indices.tolist() == [2, 0, 2]
    assert csc.nz_values.tolist() == [7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 13, 13, 13, 13, 13, 13]


@pytest.mark.parametrize("storage", [
    CSRMatrix(np.ones(8), [0, 2], [0, 4], 2, 4, (2, 2)),
    CSRMatrix(np.ones(8), [0, 2], [0, 3, 8], 4, 4, (2, 2)),
    CSRMatrix(np.ones(8), [0, 1], [0, 4, 8], 4, 4, (2, 2)),
    CSRMatrix(np.ones(8), [0, 4], [0, 4, 8], 4, 4, (2, 2)),
    CSRMatrix(np.ones(7), [0, 2], [0, 4, 8], 4, 4, (2, 2)),
    CSRMatrix(np.ones((2, 4)), [0, 2], [0, 4, 8], 4, 4, (2, 2)),
    CSRMatrix(np.ones(8), [0, 2], [0, 4, 8], 5, 4, (2, 2)),
    CSCMatrix(np.ones(8), [0, 8, 4], [0, 2], 4, 4, (2, 2)),
    COOMatrix(np.ones(8), [0, 0], [2, 2], 4, 4, (2, 2)),
    COOMatrix(np.ones(8), [0, 0], [2], 4, 4, (2, 2)),
    COOMatrix(np.ones(8), [0, 0], [2.0, 0], 4, 4, (2, 2)),
    COOMatrix(np.ones(8, complex), [0, 0], [2, 0], 4, 4, (2, 2)),
    "csr",
])  # fmt: skip
def test_bad_host_storage_is_refused(storage: Any) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^[a-z_]+: got"):
        BlockSparseMatrix.from_host(storage)


def torch_forms(torch: Any, dense: Any) -> list[Any]:
    """A dense tensor in each of torch's sparse layouts that there are here."""
    whole = torch.tensor(dense)
    return [whole.to_sparse_coo(), whole.to_sparse_csr(), whole.to_sparse_csc(), whole.to_sparse_bsr((2, 3))]


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch calls its layouts beta
def test_sparse_tensors_of_torch_come_in() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    dense = (rng.integers(-4, 5, (8, 9)) * (rng.random((8, 9)) < 0.3)).astype(np.float32)
    for tensor in torch_forms(torch, dense):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32):
            if tensor.layout == torch.sparse_coo:
                seen = tensor.to(dtype)
            else:
                axes = ("ccol_indices", "row_indices") if tensor.layout == torch.sparse_csc else (
                    "crow_indices", "col_indices")
                seen = torch.sparse_compressed_tensor(*(getattr(tensor, axis)() for axis in axes),
                                                      tensor.values().to(dtype), tensor.shape, layout=tensor.layout)
            for block in (None, 1, (2, 3), 4):
                w = BlockSparseMatrix.from_scipy(seen, block)
                np.testing.assert_array_equal(w.to_dense(), dense)
        own = (2, 3) if tensor.layout == torch.sparse_bsr else (1, 1)
        assert BlockSparseMatrix.from_scipy(tensor).block_shape == own
    twice = torch.sparse_coo_tensor(torch.tensor([[0, 0], [1, 1]]), torch.tensor([2.0, 3.0]), (2, 2))
    assert BlockSparseMatrix.from_scipy(twice).to_dense().tolist() == [[0, 5], [0, 0]]


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # torch calls its layouts beta
def test_tensors_that_are_no_sparse_matrix_are_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    whole = torch.ones(2, 2)
    for tensor in (whole, whole.to_sparse_coo().requires_grad_(), torch.ones(2, 2, 2).to_sparse_coo(),
                   torch.ones(2, 2, 2).to_sparse(2),
                   torch.ones(3).to_sparse(), torch.ones(2, 2, dtype=torch.complex64).to_sparse_csr()):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^matrix: got"):
            BlockSparseMatrix.from_scipy(tensor)


def pydata_like(dense: Any, fill_value: float = 0.0) -> Any:
    """What PyData's COO is to a reader, where that library is not installed."""
    places = np.nonzero(dense != fill_value)
    kind = type("COO", (), {"__module__": "sparse.numba_backend"})
    made = kind()
    made.coords, made.data = np.array(places), dense[places]
    made.shape, made.fill_value, made.format = dense.shape, fill_value, "coo"
    return made


def test_matrices_of_pydata_sparse_come_in() -> None:
    dense = np.float64([[0, 2, 0], [1, 0, 3]])
    forms = [pydata_like(dense), pydata_like(dense.astype(np.int32)), pydata_like(dense.astype(np.float16))]
    try:
        import sparse  # a folder of tests may have the name

        forms += [sparse.COO.from_numpy(dense), sparse.GCXS.from_numpy(dense)]
    except (ImportError, AttributeError):
        pass
    for matrix in forms:
        np.testing.assert_array_equal(BlockSparseMatrix.from_scipy(matrix, 2).to_dense(), dense)
    for matrix in (pydata_like(dense, 1.0), pydata_like(np.ones(3)), pydata_like(np.ones((2, 2, 2))),
                   pydata_like(dense * 1j)):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^matrix: got"):
            BlockSparseMatrix.from_scipy(matrix)
