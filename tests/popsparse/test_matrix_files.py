"""BlockSparseMatrix in and out of files."""

from __future__ import annotations

import io
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import BF16, E4M3, E5M2, F143, F152, FP16, FP32
from poplibs_py.popsparse import BlockSparseMatrix, balanced_pattern, random_matrix, random_pattern
from poplibs_py.popsparse._text import read_numbers
from poplibs_py.popsparse.elements import blocks_of_elements, elements_of_blocks

FORMATS = [FP32, BF16, FP16, F143, F152, E4M3, E5M2]


@st.composite
def matrices(draw: Any, groups: int = 3) -> BlockSparseMatrix:
    """Any bits in any format, on any pattern, NaNs and per-block scales among them."""
    format = draw(st.sampled_from(FORMATS))
    sides = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    counts = draw(st.integers(1, groups)), draw(st.integers(0, 5)), draw(st.integers(0, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    w = BlockSparseMatrix.from_mask(rng.random(counts) < 0.5, sides, dtype=format)
    w.blocks.view(np.uint8)[...] = rng.integers(0, 256, w.blocks.view(np.uint8).shape, dtype=np.uint8)
    if format.bits == 8:
        scale = rng.choice(format.scales, w.n_blocks if draw(st.booleans()) else ())
        w = BlockSparseMatrix(w.pattern, w.blocks, format, scale)
    return w.T if draw(st.booleans()) else w


@given(matrices())
def test_npz_keeps_every_bit(w: BlockSparseMatrix) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.npz"
        w.save(path)
        again = BlockSparseMatrix.load(path)
        assert os.listdir(folder) == ["w.npz"]
    assert again.equals(w)
    assert again.is_transposed == w.is_transposed


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_element_patterns_through_smtx_and_mtx(rows: int, columns: int, seed: int) -> None:
    w = random_matrix(random_pattern(rows, columns, 1, 0.3, seed), seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        smtx, mtx = Path(folder) / "w.smtx", Path(folder) / "w.mtx"
        w.save(smtx)
        assert BlockSparseMatrix.load(smtx).pattern == w.pattern
        assert BlockSparseMatrix.load(smtx, seed=3).equals(BlockSparseMatrix.load(smtx, seed=3))
        if rows and columns:
            w.save(mtx)
            assert BlockSparseMatrix.load(mtx).equals(w)


def test_smtx_in_blocks_has_the_elements_of_the_file(tmp_path: Path) -> None:
    w = random_matrix(random_pattern(13, 22, 1, 0.2, 5))
    w.save(tmp_path / "w.smtx")
    one = BlockSparseMatrix.load(tmp_path / "w.smtx", seed=1)
    for sides in (2, (3, 4), (16, 32)):
        blocked = BlockSparseMatrix.load(tmp_path / "w.smtx", block_shape=sides, seed=1)
        np.testing.assert_array_equal(blocked.to_dense(), one.to_dense())
        assert (blocked.blocks != 0).any(axis=(1, 2)).all()
    narrow = BlockSparseMatrix.load(tmp_path / "w.smtx", block_shape=4, dtype="f143", scale=-3, seed=1)
    assert (narrow.format, narrow.scale) == (F143, -3)


def test_real_matrices(shared_data: Path) -> None:
    files = sorted((shared_data / "dlmc").glob("*.smtx"))
    assert len(files) == 8
    for file in files:
        rows, columns, count = map(int, file.read_text().split("\n")[0].split(", "))
        w = BlockSparseMatrix.load(file)
        assert (w.shape, w.nnz) == ((rows, columns), count)
        blocked = BlockSparseMatrix.load(file, block_shape=(8, 4))
        assert blocked.to_scipy("csr").count_nonzero() == w.to_scipy("csr").count_nonzero()


@pytest.mark.parametrize("text", [
    "", "2, 2\n0 1 1\n0\n", "2, 2, 1\n0 1 1\n", "2, 2, 1\n0 1 1\n0 1\n", "2, 2, 1\n0 1\n0\n", "2, 2, 1\n1 1 1\n0\n",
    "2, 2, 1\n0 1 0\n0\n",
    "2, 2, 1\n0 1 1\n2\n", "2, 2, 1\n0 1 1\n-1\n", "2, 2, 1\n0 x 1\n0\n", "2, 2, 1\n0 1 1\n0.5\n",
    "2, 2, 1\n0 1 1\n99999999999999999999\n", "-2, 2, 1\n0 1 1\n0\n", "9999999999, 2, 1\n0 1 1\n0\n",
    "2, 2, 2\n0 2 2\n1 1\n2 3\n", "\0\0\0", "1_0, 2, 0\n0 0 0 0 0 0 0 0 0 0 0\n\n", "1, 11, 1\n0 1\n1_0\n",
])  # fmt: skip
def test_malformed_smtx_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "w.smtx").write_text(text)
    with pytest.raises(InvalidArgumentError, match="got"):
        BlockSparseMatrix.load(tmp_path / "w.smtx")


@pytest.mark.parametrize("text", [
    "", "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.0\n",
    "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n", "2 2 1\n1 1 1.0\n",
    "%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1.0\n",
    "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1.0 2.0\n",
    "%%MatrixMarket matrix coordinate real general\n2_0 2 1\n1 1 1.0\n",
    "%%MatrixMarket matrix coordinate real general\n20 2 1\n1_0 1 1.0\n",
    "%%MatrixMarket matrix array real general\n1 1\n1_0\n",
    "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 1.5\n",
    "%%MatrixMarket matrix array integer general\n1 1\n1.5\n",
    "%%MatrixMarket matrix array integer general\n1 1\ninf\n",
    "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1.0\n",
    "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 2 1.0\n",
    "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 2 1.0\n2 1 1.0\n",
])  # fmt: skip
def test_malformed_mtx_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "w.mtx").write_text(text)
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=r"^path: got"):
        BlockSparseMatrix.load(tmp_path / "w.mtx")


@pytest.mark.parametrize(("text", "dense"), [
    ("coordinate pattern general\n2 2 1\n1 2\n", [[0, 1], [0, 0]]),
    ("coordinate integer symmetric\n2 2 2\n1 1 3\n2 1 4\n", [[3, 4], [4, 0]]),
    ("coordinate real skew-symmetric\n%a_comment\n2 2 1\n2 1 4\n", [[0, -4], [4, 0]]),
    ("array real general\n2 2\n1\n0\n2\n0\n", [[1, 2], [0, 0]]),
    ("coordinate real general\n2 2 2\n1 1 1.5\n1 1 2\n", [[3.5, 0], [0, 0]]),
])  # fmt: skip
def test_kinds_of_mtx(text: str, dense: Any, tmp_path: Path) -> None:
    (tmp_path / "w.mtx").write_text("%%MatrixMarket matrix " + text)
    assert BlockSparseMatrix.load(tmp_path / "w.mtx").to_dense().tolist() == dense
    assert BlockSparseMatrix.load(tmp_path / "w.mtx", block_shape=2).to_dense().tolist() == dense


NUMBERS = st.one_of(
    st.floats().map(repr), st.floats(width=32).map(lambda x: f"{x:.9g}"), st.integers(-10**25, 10**25).map(str),
    st.floats(-1e30, 1e30).map("{:.17f}".format), st.floats(0, 1e5).map("+{:.3e}".format),
    st.sampled_from(["-0", "0.", ".5", "+.5e-3", "1E5", "9007199254740993", "9007199254740992e22", "1e23",
                     "1e-400", "1e400",
                     "123456789012345678", "1234567890123456789", "4.9e-324", "2.2250738585072011e-308", "-inf", "nan",
                     "8.5e22", "1" * 400, "0." + "0" * 400 + "1", "1e+0000000000000000000022", "-1e-22"]))


@given(st.lists(NUMBERS), st.sampled_from([" ", "\n", "\t \r\n", "\n% 1 2 3\n", "\x0b\x0c"]))
def test_numbers_of_a_text_are_read_as_python_reads_them(words: list[str], between: str) -> None:
    text = (between.join(words)).encode()
    numbers = np.empty(len(words))
    assert read_numbers(text, 0, numbers) == len(words)
    np.testing.assert_array_equal(numbers.view(np.int64), np.array([float(word) for word in words]).view(np.int64))


@given(st.binary(max_size=20) | st.text("0123456789+-.eE_%naif xX\n\0", max_size=12).map(str.encode))
def test_a_text_is_numbers_or_refused(text: bytes) -> None:
    lines = [line for line in re.split(rb"[\r\n]", text) if not line.lstrip().startswith(b"%")]
    words = b" ".join(lines).split()
    numbers = np.empty(len(words))
    try:
        due = [float(word) for word in words if b"_" not in word]
    except ValueError:
        due = []
    try:
        found = read_numbers(text, 0, numbers)
    except ValueError:
        assert len(due) < len(words)
        return
    assert found == len(due) == len(words)
    np.testing.assert_array_equal(numbers, due)
    if words:
        assert read_numbers(text, 0, numbers[:-1]) == len(words), "counted, but not stored"


def test_a_large_mtx_is_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    there = scipy.sparse.random_array((3000, 3000), density=0.02, dtype=np.float32, rng=rng)
    scipy.io.mmwrite(tmp_path / "w.mtx", there)
    np.testing.assert_array_equal(BlockSparseMatrix.load(tmp_path / "w.mtx").to_dense(), there.toarray())


@given(st.data(), st.sampled_from([1, (2, 3)]), st.sampled_from([7, 1 << 24]))
def test_elements_in_any_order_are_sorted_and_those_of_one_place_added(data: Any, sides: Any, n_columns: int) -> None:
    """Few columns are counted, many are sorted."""
    count = data.draw(st.integers(0, 40))
    rows, columns = (np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count)), np.int32)
                     for n in (9, n_columns))
    values = np.arange(1.0, count + 1)
    there = scipy.sparse.coo_array((values, (rows, columns)), shape=(9, n_columns))
    pattern, blocks = blocks_of_elements((9, n_columns), sides, rows, columns, values)
    made = elements_of_blocks(pattern, blocks)
    difference = (scipy.sparse.coo_array((made[2], made[:2]), shape=there.shape).tocsr() - there.tocsr())
    assert not difference.count_nonzero()
    high, wide = pattern.block_shape
    assert pattern.n_blocks == len(set(zip((rows // high).tolist(), (columns // wide).tolist(), strict=True)))


@given(st.data())
def test_a_damaged_npz_is_refused_or_read(data: Any) -> None:
    w = random_matrix(random_pattern(6, 6, 2, 0.5))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.npz"
        w.save(path)
        raw = bytearray(path.read_bytes())
        position = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[position] = data.draw(st.integers(0, 255))
        else:
            raw = raw[:position]
        path.write_bytes(raw)
        try:
            again = BlockSparseMatrix.load(path)
        except InvalidArgumentError:
            return
        assert again.to_dense().shape == again.shape


@pytest.mark.parametrize(("name", "value"), [
    ("version", 9), ("format", "float64"), ("format", "e9"), ("codes", np.zeros((2, 2, 2), np.uint8)), ("scale", 40),
    ("codes", np.zeros(8, np.uint32)), ("row_offsets", np.array([0, 9])), ("shape", "x"), ("groups", [1, 2]),
    ("column_indices", np.array([7, 8])), ("codes", np.array([{}], object)), ("is_transposed", np.zeros(3, bool)),
    ("is_transposed", "False"), ("is_transposed", "a"), ("is_transposed", 2.5), ("version", 1.5), ("version", [1]),
    ("version", True),
])  # fmt: skip
def test_wrong_parts_in_an_npz_are_refused(name: str, value: Any, tmp_path: Path) -> None:
    w = random_matrix(random_pattern(4, 4, 2, 0.5))
    w.save(tmp_path / "w.npz")
    with np.load(tmp_path / "w.npz") as file:
        parts = dict(file)
    np.savez(tmp_path / "w.npz", allow_pickle=True, **(parts | {name: value}))
    with pytest.raises(InvalidArgumentError, match=r"^path: got"):
        BlockSparseMatrix.load(tmp_path / "w.npz")


@pytest.mark.parametrize("name", ["codes", "row_offsets", "version", "format"])
@pytest.mark.parametrize("body", [b"", b"no array", b"\x93NUMPY\x09\x09", b"\x93NUMPY\x01\x00\xff\xff"])
def test_a_member_that_is_no_array_is_refused(name: str, body: bytes, tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    random_matrix(random_pattern(4, 4, 2, 0.5)).save(path)
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    for suffix in (".npy", ""):
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in members.items():
                stem = member.removesuffix(".npy")
                archive.writestr(stem + suffix if stem == name else member, body if stem == name else content)
        with pytest.raises(InvalidArgumentError, match=r"^path: got"):
            BlockSparseMatrix.load(path)


@pytest.mark.parametrize("scipys", [False, True])
def test_an_archive_that_unpacks_beyond_memory_is_refused(scipys: bool, tmp_path: Path) -> None:
    path = tmp_path / "w.npz"
    w = random_matrix(random_pattern(4, 4, 2, 0.5))
    if scipys:
        scipy.sparse.save_npz(path, w.to_scipy("csr"))
    else:
        w.save(path)
    with np.load(path) as file:
        parts = dict(file)
    np.savez_compressed(path, **(parts | {"data" if scipys else "codes": np.zeros(1 << 27, np.uint8)}))
    code = f"""if True:
        import resource
        from poplibs_py.errors import InvalidArgumentError
        from poplibs_py.popsparse import BlockSparseMatrix
        pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (pages + (1 << 27), resource.RLIM_INFINITY))
        try:
            BlockSparseMatrix.load({str(path)!r})
        except InvalidArgumentError as error:
            assert str(error).startswith("path: got") and "GiB" in str(error), error
        else:
            raise AssertionError("loaded")
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_column_twice_in_a_row_of_smtx_is_refused_by_row(tmp_path: Path) -> None:
    (tmp_path / "w.smtx").write_text("3, 3, 4\n0 1 1 4\n2 2 0 2\n")
    with pytest.raises(InvalidArgumentError, match=r"line 3 \(column_indices: got column 2 twice in row 2;"):
        BlockSparseMatrix.load(tmp_path / "w.smtx")


@pytest.mark.parametrize("suffix", [".npz", ".smtx", ".mtx"])
def test_what_load_does_not_need_is_checked_too(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"w{suffix}"
    w = random_matrix(random_pattern(4, 4, 1, 0.5))
    w.save(path)
    for key, value in (("dtype", 0), ("dtype", False), ("dtype", ""), ("seed", "x"), ("seed", -1), ("scale", "foo"),
                       ("scale", 3), ("scale", [1, 2])):
        with pytest.raises((InvalidArgumentError, InvalidTypeError), match=rf"^{key}: got"):
            BlockSparseMatrix.load(path, **{key: value})  # type: ignore[arg-type]
    assert BlockSparseMatrix.load(path, scale=0, seed=1).format is FP32


def test_other_files_are_refused(tmp_path: Path) -> None:
    w = random_matrix(balanced_pattern(4, 4, 2, 0.5))
    for path, error in (("w.txt", InvalidArgumentError), (3, InvalidTypeError)):
        with pytest.raises(error, match=r"^path: got"):
            w.save(path)  # type: ignore[arg-type]
        with pytest.raises(error, match=r"^path: got"):
            BlockSparseMatrix.load(path)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        BlockSparseMatrix.load(tmp_path / "none.npz")
    for path in ("none.smtx", "none.mtx"):
        with pytest.raises(FileNotFoundError):
            BlockSparseMatrix.load(tmp_path / path)
    w.save(tmp_path / "w.npz")
    with pytest.raises(InvalidArgumentError, match=r"^block_shape: got"):
        BlockSparseMatrix.load(tmp_path / "w.npz", block_shape=2)
    assert BlockSparseMatrix.load(tmp_path / "w.npz", dtype="f152", scale=1).equals(w.astype("f152", 1))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("version.npy", b"not an array")
    (tmp_path / "w.npz").write_bytes(buffer.getvalue())
    with pytest.raises(InvalidArgumentError, match=r"^path: got"):
        BlockSparseMatrix.load(tmp_path / "w.npz")


@pytest.mark.parametrize("suffix", [".npz", ".smtx", ".mtx"])
def test_a_failed_save_leaves_the_file_as_it_was(suffix: str, tmp_path: Path) -> None:
    w = random_matrix(random_pattern(64, 64, 1, 0.5))
    path = tmp_path / f"w{suffix}"
    path.write_bytes(b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # a disk that is full
    try:
        with pytest.raises(OSError, match="File too large"):
            w.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", [".npz", ".smtx", ".mtx"])
def test_a_save_to_no_folder_names_the_callers_path(suffix: str, tmp_path: Path) -> None:
    w = random_matrix(random_pattern(4, 4, 1, 0.5))
    (tmp_path / "file").touch()
    for folder, error in (("none", FileNotFoundError), ("file", NotADirectoryError)):
        path = tmp_path / folder / f"w{suffix}"
        with pytest.raises(error) as caught:
            w.save(path)
        assert caught.value.filename == str(path)


@pytest.mark.parametrize("suffix", [".npz", ".smtx", ".mtx"])
def test_a_save_keeps_links_and_permissions_and_meets_no_other(suffix: str, tmp_path: Path) -> None:
    path, link = tmp_path / f"w{suffix}", tmp_path / f"link{suffix}"
    (tmp_path / f"w{suffix}.partial").write_bytes(b"somebody's own")
    path.write_bytes(b"before")
    path.chmod(0o600)
    link.symlink_to(path.name)
    w = random_matrix(random_pattern(4, 4, 1, 0.5))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(w.save, [link] * 40))
    assert BlockSparseMatrix.load(path).pattern == w.pattern
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == sorted([path.name, link.name, f"w{suffix}.partial"])


@pytest.mark.parametrize("kind", ["bsr", "csr", "csc", "coo"])
def test_files_of_scipy(kind: str, tmp_path: Path) -> None:
    w = random_matrix(random_pattern(12, 20, (3, 4), 0.4, 1), seed=2)
    path = tmp_path / "w.npz"
    scipy.sparse.save_npz(path, w.to_scipy(kind))
    assert BlockSparseMatrix.load(path, block_shape=(3, 4)).equals(w)
    assert BlockSparseMatrix.load(path, block_shape=(3, 4), dtype="f152", scale=1).equals(w.astype("f152", 1))
    assert BlockSparseMatrix.load(path).block_shape == ((3, 4) if kind == "bsr" else (1, 1))
    with pytest.raises(InvalidArgumentError, match=r"^block_shape: got 0"):
        BlockSparseMatrix.load(path, block_shape=0)
    with np.load(path) as file:
        parts = dict(file)
    name = "row" if kind == "coo" else "indices"
    for key, value in ((name, parts[name] + 100), ("format", np.array(b"dia")), ("data", np.array(1.0)),
                       ("shape", np.array(12)), ("data", parts["data"].astype(complex))):
        np.savez(path, **{**parts, key: value})
        with pytest.raises(InvalidArgumentError, match=r"^path: got"):
            BlockSparseMatrix.load(path)


def test_a_malformed_smtx_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "w.smtx"
    for line, text in ((1, "2, x, 1\n0 1 1\n0\n"), (2, "2, 2, 1\n0 1.5 1\n0\n"), (3, "2, 2, 1\n0 1 1\n2\n")):
        path.write_text(text)
        with pytest.raises(InvalidArgumentError, match=f"w.smtx, line {line}") as caught:
            BlockSparseMatrix.load(path)
        assert "invalid literal" not in str(caught.value)
