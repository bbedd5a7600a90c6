"""Numbers in the input that ask for more memory than there is: refused by name, before any of it is taken."""

from __future__ import annotations

import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.popsparse import (
    BlockPattern,
    BlockSparseMatrix,
    COOMatrix,
    balanced_pattern,
    banded_pattern,
    random_matrix,
    random_pattern,
    static,
)
from poplibs_py.target import host_memory

MOST = 2**31 - 1
FREE = 1 << 30


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with 1 GiB left, whatever there is here; and proof that nothing large was taken before the refusal."""
    monkeypatch.setattr(host_memory, "free_bytes", lambda: FREE)
    tracemalloc.start()
    yield
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < FREE // 4


def element() -> dict[str, Any]:
    return {"blocks": np.ones((1, 1, 1), np.float32), "column_indices": [MOST - 1]}


def wide(block: int = 1) -> BlockSparseMatrix:
    """One block row and as many columns as there may be."""
    return BlockSparseMatrix.from_blocks(np.ones((1, block, block), np.float32), shape=(block, MOST), row_indices=[0],
                                         column_indices=[0])


def coo(rows: int, columns: int) -> Any:
    return scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(rows, columns))


def mask(rows: int, columns: int) -> Any:
    return np.broadcast_to(np.bool_(True), (rows, columns))


@pytest.mark.parametrize(("call", "name"), [
    (lambda: BlockSparseMatrix.from_blocks(**element(), shape=(MOST, MOST), row_indices=[0]), "shape"),
    (lambda: BlockSparseMatrix.from_blocks(**element(), shape=(1, MOST), row_indices=[0], groups=MOST), "shape"),
    (lambda: BlockPattern.from_pairs((MOST, 1), 1, [], []), "shape"),
    (lambda: BlockPattern((MOST, 1), 1, np.broadcast_to(0, MOST + 1), []), "row_offsets"),
    (lambda: BlockSparseMatrix.from_scipy(coo(MOST, MOST)), "shape"),
    (lambda: BlockSparseMatrix.from_scipy(coo(2**15, 2**15), 2**15), "block_shape"),
    (lambda: BlockSparseMatrix.from_host(COOMatrix(np.ones(1, np.float32), [0], [0], MOST, 1, (1, 1))), "shape"),
    (lambda: BlockSparseMatrix.from_dense(np.ones((1, 1), np.float32), 2**15), "block_shape"),
    (lambda: BlockSparseMatrix.from_mask(np.ones((1, 1), bool), 2**15), "block_shape"),
    (lambda: BlockSparseMatrix.from_mask(mask(2**12, 2**14), 1), "mask"),
    (lambda: random_pattern(MOST, MOST, 1, 1e-16), "shape"),
    (lambda: random_pattern(1, MOST, 1, 0.5), "density"),
    (lambda: random_pattern(1, MOST, 1, 0.015), "density"),
    (lambda: balanced_pattern(MOST, 2, 1, 0.5), "density"),
    (lambda: balanced_pattern(1, MOST, 1, 0.5), "density"),
    (lambda: banded_pattern(MOST, 1, 1, 0, 0), "rows"),
    (lambda: banded_pattern(2**13, 2**13, 1, 2**13, 2**13), "above"),
    (lambda: random_matrix(random_pattern(2**15, 2**15, 2**15, 1)), "pattern"),
    (lambda: wide().T.copy(), "shape"),
    (lambda: wide().to_dense(), "shape"),
    (lambda: wide().T @ np.ones((1, 4), np.float32), "shape"),
    (lambda: static.sparse_dense_matmul(wide().T, np.ones((1, 4), np.float32), out_dtype="f143"), "shape"),
    (lambda: wide().pattern.transposed_index(), "shape"),
    (lambda: wide().to_scipy("csc"), "kind"),
    (lambda: BlockSparseMatrix.from_blocks(np.ones((1, 1, 64), np.float32), shape=(2**20, 64), row_indices=[0],
                                           column_indices=[0], groups=2**8), "shape"),
])  # fmt: skip
def test_extents_that_do_not_fit_are_refused_by_name(call: Callable[[], Any], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{name}: got .* GiB; allowed: what fits in memory, 1.0 GiB"):
        call()


@pytest.mark.parametrize("text", [
    f"coordinate real general\n{MOST} {MOST} 1\n1 1 1\n", f"coordinate pattern general\n{MOST} 1 0\n",
    f"array real general\n{MOST} {MOST}\n1\n", "array real general\n65535 65535\n1\n",
    "array real symmetric\n65535 65535\n1\n", "array real skew-symmetric\n65535 65535\n1\n",
])  # fmt: skip
def test_a_short_file_takes_little_memory(text: str, tmp_path: Path) -> None:
    path = tmp_path / "w.mtx"
    path.write_text(f"%%MatrixMarket matrix {text}")
    with pytest.raises(InvalidArgumentError, match=r"^path: got .*w\.mtx \(.*(fits in memory|1 numbers for)"):
        BlockSparseMatrix.load(path)


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("side", [0, 1, 2, 5])
def test_dense_mtx_files_hold_as_many_numbers_as_their_symmetry_says(symmetry: str, side: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(side)
    full = rng.integers(-9, 9, (side, side)).astype(np.float32)
    kept = np.ones_like(full, bool)
    if symmetry != "general":
        sign = 1 if symmetry == "symmetric" else -1
        kept = np.tri(side, k=0 if sign == 1 else -1, dtype=bool)
        full = np.where(kept, full, 0)
        full = full + sign * np.tril(full, -1).T
    path = tmp_path / "w.mtx"
    numbers = "\n".join(str(x) for x in full.T[kept.T])
    path.write_text(f"%%MatrixMarket matrix array real {symmetry}\n{side} {side}\n{numbers}\n")
    np.testing.assert_array_equal(BlockSparseMatrix.load(path).to_dense(), full)
    path.write_text(f"%%MatrixMarket matrix array real {symmetry}\n{side} {side}\n{numbers}\n1\n")
    with pytest.raises(InvalidArgumentError, match=r"^path: got .*numbers for"):
        BlockSparseMatrix.load(path)


def test_an_archive_that_grows_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "ASKED_FROM", 0)
    monkeypatch.setattr(host_memory, "free_bytes", lambda: 1 << 20)
    path = tmp_path / "w.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("codes.npy", bytes((1 << 20) + 1))
    assert path.stat().st_size < 1 << 12
    with pytest.raises(InvalidArgumentError, match=r"^path: got .*w.npz, which takes"):
        BlockSparseMatrix.load(path)


def test_more_blocks_than_places_are_refused() -> None:
    columns = np.broadcast_to(np.int32(0), MOST + 1)
    for call in (lambda: BlockPattern((1, MOST), 1, [0, MOST + 1], columns),
                 lambda: BlockPattern.from_pairs((1, MOST), 1, columns, columns)):
        with pytest.raises(InvalidArgumentError, match=r"^(column|row)_indices: got 2147483648 numbers; allowed: at"):
            call()


def test_elements_of_the_last_column_lie_within_int32() -> None:
    w = BlockSparseMatrix.from_blocks(np.array([[[1, 0, 0]]], np.float32), shape=(1, MOST), row_indices=[0],
                                      column_indices=[MOST // 3])
    elements = w.to_scipy("coo")
    assert (elements.row.tolist(), elements.col.tolist()) == ([0], [MOST - 1])
    w = BlockSparseMatrix.from_blocks(np.ones((1, 2, 1), np.float32), shape=(2, MOST), row_indices=[0],
                                      column_indices=[MOST - 1])
    assert w.to_scipy("coo").col.tolist() == [MOST - 1] * 2


def test_what_fits_is_not_refused() -> None:
    assert BlockPattern.from_pairs((1 << 20, 1 << 20), 1, [5], [7])[0].n_blocks == 1
    assert wide().T.shape == (MOST, 1)
    assert wide(2).to_scipy("coo").nnz == 4


def test_free_memory_is_the_least_of_what_limits_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    import resource

    free = host_memory.free_bytes()
    assert 0 < free < 1 << 62
    group = tmp_path / "memory.max"
    monkeypatch.setattr(host_memory, "_LIMITS", (group, tmp_path / "none"))
    group.write_text("max\n")
    assert host_memory.free_bytes() > 0
    group.write_text("4096\n")
    assert host_memory.free_bytes() == 0
    group.unlink()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, limits[1]))
    try:
        assert host_memory.free_bytes() < 1 << 40
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
