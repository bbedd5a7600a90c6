"""Checkpoints keep every format, matrices and scales; damaged ones are refused; safetensors reads what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import checkpoints
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import FORMATS, Format, QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix, random_matrix, random_pattern


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.safetensors"


def values() -> dict[str, Any]:
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    made: dict[str, Any] = {f.name: x.astype(f.dtype) for f in FORMATS}
    made |= {"integers": np.arange(7, dtype=np.int16), "flags": x > 0, "none": np.zeros((0, 3)),
             "number": np.float64(3), "turned": x.T,
             "quarter": QuarterArray.from_array(x, "f143", "auto"),
             "rows": QuarterArray.from_array(x, "e4m3", "auto", (1, -1)),
             "own": QuarterArray.from_array(x, Format("e3m2", 3, 2, 3), 1)}
    w = random_matrix(random_pattern(30, 40, (8, 4), 0.4, 1), "bfloat16", 2)
    scaled = BlockSparseMatrix.from_dense(w.to_dense(), (8, 4), dtype="e5m2", scale="auto_per_block")
    groups = BlockSparseMatrix.from_dense(np.arange(1.0, 97).reshape(2, 8, 6), 2)
    return made | {"w": w, "w.T": w.T, "scaled": scaled, "groups": groups}


def check_same(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(want, BlockSparseMatrix):
        assert got.equals(want)
        assert got.is_transposed == want.is_transposed
    elif isinstance(want, QuarterArray):
        assert (got.format, got.block_shape) == (want.format, want.block_shape)
        assert np.array_equal(got.codes, want.codes)
        assert np.array_equal(got.scale, want.scale)
    else:
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.tobytes() == np.ascontiguousarray(want).tobytes()


def test_what_is_saved_is_loaded(file: Path) -> None:
    made = values()
    checkpoints.save(file, made, texts={"author": "nobody"})
    loaded = checkpoints.load(file)
    assert loaded.keys() == made.keys()
    for name, value in made.items():
        check_same(loaded[name], value if not isinstance(value, np.generic) else np.asarray(value))
    loaded["float32"][0, 0] = 7  # it is the caller's own


def test_safetensors_reads_what_was_saved(file: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    made = values()
    checkpoints.save(file, made, texts={"author": "nobody"})
    found = dict(safetensors.deserialize(file.read_bytes()))
    for name in ("float32", "bfloat16", "e4m3", "f143", "f152", "e5m2", "integers"):
        assert bytes(found[name]["data"]) == made[name].tobytes()
        assert tuple(found[name]["shape"]) == made[name].shape
    assert {found[name]["dtype"] for name in ("e4m3", "f143", "bfloat16")} == {"F8_E4M3", "F8_E4M3FNUZ", "BF16"}
    assert bytes(found["w.blocks"]["data"]) == made["w"].blocks.tobytes()
    with safetensors.safe_open(file, "numpy") as opened:
        assert opened.metadata()["author"] == "nobody"


def test_files_that_safetensors_saved_are_loaded(file: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    made = {name: value for name, value in values().items() if type(value) is np.ndarray and value.flags.c_contiguous}
    numpy.save_file(made, file)
    loaded = checkpoints.load(file)
    for name, value in made.items():
        check_same(loaded[name], value)


def written(file: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return file


def one(**changes: Any) -> dict[str, Any]:
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


def quarter(**changes: Any) -> dict[str, Any]:
    layout = {"name": "e4m3", "exponent_bits": 4, "mantissa_bits": 3, "bias": 7, "specials": "nan_only",
              "subnormals": True}
    kind = {"kind": "quarter", "format": layout, "block_shape": None, "scale": 0, **changes}
    return {"__metadata__": {"poplibs_py": json.dumps({"x": kind})}, **one(dtype="F8_E4M3", shape=[8])}


@pytest.mark.parametrize("header", [
    b"", b"{", b"[" * 10**5, b"[]", b"{}", b'{"x":1}', b'{"x":{},"x":{}}', one(dtype="F4"), one(dtype=3),
    one(shape=[3]),
    one(shape=[-2]), one(shape=[2.0]), one(shape=[True, 2]), one(shape=[1] * 65 + [2]), one(shape=[2**40, 2**40]),
    one(shape="2"), one(data_offsets=[0, 4]), one(data_offsets=[8, 16]), one(data_offsets=[8]),
    one(data_offsets=[0, 2**62]), one(dtype="BOOL", shape=[8]), {"__metadata__": {"poplibs_py": "{"}, **one()},
    quarter(kind="other"), quarter(scale=10**6), quarter(scale="1"), quarter(block_shape=[2, 2]), quarter(format={}),
    quarter(kind="block_sparse"), {"__metadata__": [], **one()},
], ids=range(29))  # fmt: skip
def test_damaged_files_are_refused(file: Path, header: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^path: got .*; allowed: a \.safetensors file that is whole"):
        checkpoints.load(written(file, header, b"\2" * 8))


@given(st.data())
def test_files_with_wrong_bytes_are_loaded_or_refused(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    file = tmp_path_factory.mktemp("bytes") / "x.safetensors"
    checkpoints.save(file, {name: value for name, value in values().items() if name in ("w", "rows", "e4m3")})
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content[:data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    try:
        checkpoints.load(file)
    except InvalidArgumentError as error:
        assert str(error).startswith("path: got")  # noqa: PT017


def test_what_has_no_place_in_a_file_is_refused_by_name(file: Path) -> None:
    w = values()["w"]
    for call, error, message in [
        (lambda: checkpoints.save(file, [1]), InvalidTypeError, "^tensors: got list"),
        (lambda: checkpoints.save(file, {"": np.ones(2)}), InvalidArgumentError, "^tensors: got"),
        (lambda: checkpoints.save(file, {"__metadata__": np.ones(2)}), InvalidArgumentError, "^tensors: got"),
        (lambda: checkpoints.save(file, {"x": np.ones(2, complex)}), InvalidTypeError, "^tensors: got dtype"),
        (lambda: checkpoints.save(file, {"x": "text"}), InvalidTypeError, "^tensors: got"),
        (lambda: checkpoints.save(file, {"w": w, "w.blocks": np.ones(2)}), InvalidArgumentError, "^tensors: got two"),
        (lambda: checkpoints.save(file, {}, texts={"a": 1}), InvalidTypeError, "^texts: got"),
        (lambda: checkpoints.save(file, {}, texts={"poplibs_py": ""}), InvalidArgumentError, "^texts: got"),
        (lambda: checkpoints.save("x.npz", {}), InvalidArgumentError, "^path: got x.npz"),
        (lambda: checkpoints.load(3), InvalidTypeError, "^path: got 3; allowed: a path"),
    ]:
        with pytest.raises(error, match=message):
            call()
    assert not file.exists()
