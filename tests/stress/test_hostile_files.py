"""Files that lie: cut short, bytes changed, sizes that no memory holds. Refused clearly, or read as what they say."""

import io
import json
import zipfile

import numpy as np
import pytest
from cases import matrix, operand
from hostile import read_or_refuse
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import poplin, popsparse
from poplibs_py.errors import InvalidArgumentError, PoplibsError
from poplibs_py.formats import QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix

HUGE = 2**62


def saved(folder, suffix):
    path = folder / f"whole{suffix}"
    if suffix == ".quarter":
        QuarterArray.from_array(operand((6, 8), 1), "f143", "auto", (2, 4)).save(path)
    else:
        matrix(1, block=1).save(path)
    return path.read_bytes()


def read(path, suffix):
    """What the file holds, used once: nothing that was read may lead a kernel astray."""
    if suffix == ".quarter":
        return QuarterArray.load(path).to_array()
    w = BlockSparseMatrix.load(path, block_shape=None if suffix == ".npz" else 2)
    if w.nnz < 1 << 16 and sum(w.shape) < 1 << 16:
        w @ np.zeros((w.groups, w.shape[1], 3)[w.groups == 1:], np.float32)
    return w


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("suffix", [".npz", ".smtx", ".mtx", ".quarter"])
@given(data=st.data())
def test_damaged_files(suffix, folder, data):
    whole = saved(folder, suffix)
    body = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255) | st.sampled_from(b"0129-. \n"))
    cut = data.draw(st.just(len(body)) | st.integers(0, len(body)))
    path = folder / f"damaged{suffix}"
    path.write_bytes(bytes(body[:cut]) + data.draw(st.sampled_from([b"", b"\n", b"\0" * 9, b"1 1 1\n", whole])))
    read_or_refuse(lambda: read(path, suffix))


@pytest.mark.parametrize(("suffix", "text"), [
    (".smtx", "{0}, 4, 1\n0 1\n0\n"), (".smtx", "1, {0}, 1\n0 1\n5\n"), (".smtx", "4, 4, {0}\n0 1 1 1 1\n0\n"),
    (".smtx", "1, 4, 2\n0 {0}\n0 1\n"), (".smtx", "1, 4, 1\n0 1\n{0}\n"), (".smtx", "1, 4, 1\n0 1\n-1\n"),
    (".smtx", "2, 4, 2\n0 2 1\n0 1\n"), (".smtx", "1, 4, 2\n0 2\n1 1\n"), (".smtx", "-1, -4, 0\n0\n\n"), (".smtx", ""),
    (".smtx", "1, 4, 1\n0 1\n\u0661\n"), (".smtx", "1, 4, 1\n0 1\n1e400\n"), (".smtx", "nan, inf, 0\n0\n\n"),
    (".mtx", "%%MatrixMarket matrix coordinate real general\n{0} {0} 1\n1 1 1\n"),
    (".mtx", "%%MatrixMarket matrix coordinate real general\n2 2 {0}\n1 1 1\n"),
    (".mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n{0} 1 1\n"),
    (".mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 1\n"),
    (".mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n-3 1 1\n"),
    (".mtx", "%%MatrixMarket matrix array real general\n{0} {0}\n1\n"),
    (".mtx", "%%MatrixMarket matrix array real general\n2 2\n1\n"),
    (".mtx", "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1 1\n"),
    (".mtx", "%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 1 1\n"), (".mtx", ""), (".mtx", "\xff\xfe"),
])  # fmt: skip
@pytest.mark.parametrize("number", [3, 2**31, 2**40, HUGE, 10**30, -1])
def test_headers_that_lie(suffix, text, number, tmp_path):
    path = tmp_path / f"lie{suffix}"
    path.write_text(text.format(number), encoding="utf-8")
    read_or_refuse(lambda: read(path, suffix))


def npz_with(path, **changes):
    """Our own file with some of its arrays replaced."""
    matrix(1, "f143").save(path)
    with np.load(path) as file:
        parts = {**file, **changes}
    with path.open("wb") as file:
        np.savez(file, **parts)


@pytest.mark.parametrize("changes", [
    {"shape": [2**40, 2**40]}, {"shape": [-1, 24]}, {"shape": 5}, {"shape": [1.5, 2]}, {"block_shape": [0, 4]},
    {"block_shape": [HUGE, 4]}, {"groups": 0}, {"groups": 2**31}, {"groups": [1, 2]}, {"groups": "two"},
    {"row_offsets": [0, 1, 2, 3, 10**6]}, {"row_offsets": [0, -5, 2, 3, 4]}, {"row_offsets": [[0]]},
    {"column_indices": np.full(10, 99)}, {"column_indices": -np.ones(10, int)}, {"column_indices": ["a"] * 10},
    {"codes": np.zeros(3, np.uint8)}, {"codes": np.zeros((10, 4, 4))}, {"codes": "text"},
    {"codes": np.zeros((10, 4, 4), np.uint8)[:, ::-1]}, {"format": "float32"}, {"format": "nonsense"},
    {"format": [1, 2]},
    {"scale": 99}, {"scale": np.full(10, 99)}, {"scale": [0.5]}, {"scale": "auto"}, {"is_transposed": [True, False]},
    {"is_transposed": "maybe"}, {"version": 99}, {"version": "one"}, {"version": [1, 1]},
])  # fmt: skip
def test_parts_that_do_not_fit(changes, tmp_path):
    path = tmp_path / "w.npz"
    npz_with(path, **changes)
    w = read_or_refuse(lambda: BlockSparseMatrix.load(path))
    assert w is None or np.isfinite(w @ np.zeros((w.shape[1], 2), np.float32)).all()


def header_only(name, shape, dtype="|u1"):
    """An archive whose one array says that it is large, and holds nothing."""
    header = str({"descr": dtype, "fortran_order": False, "shape": shape}).encode() + b"\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr(name, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    return stream.getvalue()


@pytest.mark.parametrize("dtype", ["|u1", "<i8", "|O", "<f4,<f4", "|V0"])
@pytest.mark.parametrize("shape", [(HUGE,), (HUGE, HUGE), (-1,), (2**33,), ("a",), ()])
@pytest.mark.parametrize("name", ["version.npy", "codes.npy", "../../evil.npy"])
def test_archives_that_promise_more_than_there_is(name, shape, dtype, tmp_path):
    for suffix, load in ((".npz", BlockSparseMatrix.load), (".q", QuarterArray.load)):
        path = tmp_path / f"promise{suffix}"
        path.write_bytes(header_only(name, shape, dtype))
        with pytest.raises((InvalidArgumentError, MemoryError)) as caught:
            load(path)
        assert isinstance(caught.value, MemoryError) or str(caught.value).startswith("path: got ")


@pytest.mark.parametrize("path", [None, 5, b"\0", "", "no/such/folder/w.npz", "w.txt", "w", "\0.npz",
                                  "x" * 5000 + ".npz", ["w.npz"]])
def test_paths_that_lead_nowhere(path):
    for call in (BlockSparseMatrix.load, matrix(1).save):
        with pytest.raises((PoplibsError, OSError, ValueError)):
            call(path)
    with pytest.raises((PoplibsError, OSError, ValueError, TypeError)):
        QuarterArray.load(path)


@pytest.mark.parametrize("suffix", [".npz", ".smtx", ".mtx"])
def test_a_folder_is_no_file(suffix, tmp_path):
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    with pytest.raises((PoplibsError, OSError)):
        BlockSparseMatrix.load(folder)


@given(data=st.data())
def test_a_cache_of_plans_with_damaged_files(data, tmp_path_factory):
    from poplibs_py.poplin.tile_conv import matmul_params, plan_convolution
    from poplibs_py.poplin.tile_conv.api import conv_cache

    folder = tmp_path_factory.mktemp("plans")
    params = matmul_params(1, 8, 8, 8, "half")
    due = plan_convolution(params, target="gc200", cache=conv_cache(str(folder)))
    [file] = folder.iterdir()
    body = file.read_text()
    cut = data.draw(st.integers(0, len(body)))
    file.write_text(data.draw(st.sampled_from([body[:cut], "{}", "[]", "null", "5", '"a"', "[" * 10**5, body + body])))
    again = plan_convolution(params, target="gc200", cache=conv_cache(str(folder)))
    assert again.cycles == due.cycles
    assert json.loads(next(folder.iterdir()).read_text().partition("\n")[2]), "behind the checksum"


def test_sizes_of_memory_are_refused_before_any_work():
    for name, call in (("density", lambda: popsparse.random_pattern(2**31 - 1, 2**31 - 1, 1, 0.5)),
                       ("rows", lambda: popsparse.random_pattern(HUGE, 1, 1, 1)),
                       ("a_shape", lambda: poplin.plan_matmul((HUGE, HUGE), (HUGE, HUGE))),
                       ("shape", lambda: BlockSparseMatrix.from_mask(np.broadcast_to(np.bool_(1), (2**17, 8)), 2**15))):
        with pytest.raises(PoplibsError, match=f"^{name}: got"):
            call()
