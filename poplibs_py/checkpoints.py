"""Checkpoints in the safetensors format: arrays of every format, codes with scales, block-sparse matrices, by name.

What libraries that know safetensors can read is written so that they can: narrow numbers under their own tags, a matrix
as ``name.blocks``, ``name.row_offsets`` and ``name.column_indices``, exponents as ``name.scale``. What makes them more
than arrays is in the file's metadata. No package is needed for it, and nothing in a file can run code.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from .errors import bad_argument, bad_type, described
from .files import file_path, replacing
from .formats import BF16, E4M3, E5M2, F143, F152, FORMATS, Array, Format, QuarterArray, format_of
from .formats.arrays import as_array
from .popsparse import BlockPattern, BlockSparseMatrix
from .target.host_memory import check_memory

__all__ = ["load", "save"]

_NARROW = {"BF16": BF16, "F8_E4M3": E4M3, "F8_E5M2": E5M2, "F8_E4M3FNUZ": F143, "F8_E5M2FNUZ": F152}
_TAGS: dict[str, np.dtype[Any]] = {
    **{f"{kind}{8 * size}": np.dtype(f"{code}{size}") for kind, code, sizes in (("F", "f", (2, 4, 8)),
       ("I", "i", (1, 2, 4, 8)), ("U", "u", (1, 2, 4, 8))) for size in sizes},
    "BOOL": np.dtype(bool), **{tag: f.dtype for tag, f in _NARROW.items() if f.dtype is not None},
}  # fmt: skip
_TAG_OF = {dtype: tag for tag, dtype in _TAGS.items()}

_OURS = "poplibs_py"
_LAYOUT = ("name", "exponent_bits", "mantissa_bits", "bias", "specials", "subnormals")
_LONGEST_HEADER = 100_000_000  # as the format has it
_MOST_AXES = 64
_METADATA = "__metadata__"


def save(path: str | os.PathLike[str], tensors: Mapping[str, Any], *, texts: Mapping[str, str] | None = None) -> None:
    """Write a ``.safetensors`` file; one that exists is replaced once all is written.

    Parameters
    ----------
    path : path
    tensors : mapping of str to array, tensor, QuarterArray or BlockSparseMatrix
        Of the formats that have a dtype, float64, integers or bool; a `QuarterArray` of any format.
    texts : mapping of str to str, optional
        What to keep beside them, as the file's metadata.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        For a value that has no place in such a file, or two that would have one name.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from poplibs_py import cast, checkpoints
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints.save(folder + "/x.safetensors", {"x": cast(np.eye(2), "e4m3"), "y": np.arange(3)})
    ...     loaded = checkpoints.load(folder + "/x.safetensors")
    >>> loaded["x"].dtype.name, loaded["y"].tolist()
    ('float8_e4m3fn', [0, 1, 2])
    """
    file = file_path(path, (".safetensors",))
    told = dict(_texts(texts))
    if not isinstance(tensors, Mapping):
        raise bad_type("tensors", type(tensors).__name__, "a mapping of names to arrays")
    arrays: dict[str, Array] = {}
    kinds: dict[str, Any] = {}
    for name, value in tensors.items():
        if not isinstance(name, str) or not name or name == _METADATA:
            raise bad_argument("tensors", described(name), f"names that are texts, not empty and not {_METADATA!r}")
        parts, kind = _parts_of(name, value)
        twice = parts.keys() & arrays.keys()
        if twice:
            raise bad_argument("tensors", f"two values of the name {min(twice)!r}", "each once")
        arrays.update(parts)
        if kind:
            kinds[name] = kind
    if kinds:
        told[_OURS] = json.dumps(kinds)
    with replacing(file) as opened:
        _write(opened, arrays, told)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a ``.safetensors`` file, this library's or another's.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict of str to numpy.ndarray, QuarterArray or BlockSparseMatrix
        What `save` wrote; of another's file its arrays.

    Raises
    ------
    InvalidArgumentError
        If the file is not whole or not of this format, or holds a type that NumPy and ml_dtypes lack.
    """
    file = file_path(path, (".safetensors",))
    with file.open("rb") as opened:
        try:
            return _read(opened, file.stat().st_size)
        except MemoryError:
            raise
        except Exception as error:  # a damaged file fails in as many ways as it has bytes
            allowed = "a .safetensors file that is whole, of numbers that NumPy and ml_dtypes have"
            raise bad_argument("path", f"{path} ({error})", allowed) from None


# Values and their parts ----------------------------------------------------------------------------

def _parts_of(name: str, value: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays that a value is written as, and what tells it from plain arrays."""
    if isinstance(value, BlockSparseMatrix):
        pattern = value.pattern
        kind = {"kind": "block_sparse", "shape": pattern.shape, "groups": pattern.groups,
                "is_transposed": value.is_transposed, **_scale_of(value.scale)}
        parts = {"blocks": value.blocks, "row_offsets": value.row_offsets, "column_indices": value.column_indices}
        return {f"{name}.{part}": array for part, array in parts.items()} | _scales(name, value.scale), kind
    if isinstance(value, QuarterArray):
        codes = value.codes if value.format.dtype is None else value.codes.view(value.format.dtype)
        layout = {key: getattr(value.format, key) for key in _LAYOUT}
        kind = {"kind": "quarter", "format": layout, "block_shape": value.block_shape, **_scale_of(value.scale)}
        return {name: codes, **_scales(name, value.scale)}, kind
    array = as_array("tensors", value, "arrays, tensors, QuarterArrays and BlockSparseMatrices")
    if array.dtype not in _TAG_OF:
        raise bad_type("tensors", f"dtype {array.dtype} of {name!r}", ", ".join(str(dtype) for dtype in _TAG_OF))
    return {name: array}, {}


def _scale_of(scale: int | Array) -> dict[str, int]:
    return {"scale": scale} if isinstance(scale, int) else {}


def _scales(name: str, scale: int | Array) -> dict[str, Array]:
    return {} if isinstance(scale, int) else {f"{name}.scale": scale}


def _value_of(name: str, kind: dict[str, Any], arrays: dict[str, Array]) -> Any:
    """Return what a kind makes of the arrays of a name, which it takes out."""
    if kind["kind"] == "quarter":
        layout = kind["format"]
        form = Format(**{key: layout[key] for key in _LAYOUT})
        form = next((preset for preset in FORMATS if preset == form), form)
        scale = kind["scale"] if "scale" in kind else arrays.pop(f"{name}.scale")
        block_shape = kind["block_shape"]
        return QuarterArray(arrays.pop(name), form, scale, None if block_shape is None else tuple(block_shape))
    if kind["kind"] != "block_sparse":
        raise bad_argument(_OURS, f"kind {described(kind['kind'])}", "quarter or block_sparse")
    blocks = arrays.pop(f"{name}.blocks")
    if blocks.ndim != 3:
        raise bad_argument(f"{name}.blocks", f"{blocks.ndim} dimensions", "3")
    pattern = BlockPattern(kind["shape"], blocks.shape[1:], arrays.pop(f"{name}.row_offsets"),
                           arrays.pop(f"{name}.column_indices"), kind["groups"])
    scale = kind["scale"] if "scale" in kind else arrays.pop(f"{name}.scale")
    matrix = BlockSparseMatrix(pattern, blocks, format_of(blocks), scale)
    return matrix.T if kind["is_transposed"] is True else matrix


# The file ------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class _Entry:
    """Where a tensor is, and what it is."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int


def _write(opened: BinaryIO, arrays: dict[str, Array], texts: dict[str, str]) -> None:
    # Wide elements first, so that each lies on a multiple of its size.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {_METADATA: texts} if texts else {}
    begin = 0
    for name in order:
        array = arrays[name]
        header[name] = {"dtype": _TAG_OF[array.dtype], "shape": array.shape,
                        "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    opened.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        opened.write(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8))


def _read(opened: BinaryIO, size: int) -> dict[str, Any]:
    length = int.from_bytes(opened.read(8), "little")
    if not 2 <= length <= min(_LONGEST_HEADER, size - 8):
        raise bad_argument("header", f"{length} bytes", f"from 2 to {_LONGEST_HEADER}, within the file's {size}")
    header = json.loads(opened.read(length), object_pairs_hook=_once)
    texts = _pairs_of_texts(_METADATA, header.pop(_METADATA, {}))
    entries = {name: _entry(name, described_as) for name, described_as in header.items()}
    _check_places(entries, size - 8 - length)
    check_memory("path", f"{size} bytes", size)
    arrays = {}
    for name, entry in entries.items():
        opened.seek(8 + length + entry.begin)
        found = np.frombuffer(bytearray(opened.read(entry.end - entry.begin)), np.uint8)
        if entry.dtype == np.bool_ and found.size and found.max() > 1:
            raise bad_argument(name, int(found.max()), "0 or 1")
        arrays[name] = found.view(entry.dtype).reshape(entry.shape)
    kinds = json.loads(texts[_OURS], object_pairs_hook=_once) if _OURS in texts else {}
    made = {name: _value_of(name, kind, arrays) for name, kind in kinds.items()}
    return {**arrays, **made}


def _entry(name: str, told: Any) -> _Entry:
    tag, shape, (begin, end) = told["dtype"], told["shape"], told["data_offsets"]
    if tag not in _TAGS:
        raise bad_argument(name, f"type {described(tag)}", ", ".join(_TAGS))
    numbers = [*shape, begin, end]
    if len(shape) > _MOST_AXES or not all(type(number) is int and 0 <= number < 2**62 for number in numbers):
        raise bad_argument(name, f"shape {described(shape)}", f"up to {_MOST_AXES} whole numbers")
    dtype = _TAGS[tag]
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise bad_argument(name, f"{end - begin} bytes", f"{math.prod(shape) * dtype.itemsize} for shape {shape}")
    return _Entry(dtype, tuple(shape), begin, end)


def _check_places(entries: dict[str, _Entry], size: int) -> None:
    """Raise unless the tensors lie side by side and fill the file."""
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            raise bad_argument(name, f"bytes from {entry.begin}", f"from {at}, where the one before ends")
        at = entry.end
    if at != size:
        raise bad_argument("data", f"{size} bytes", f"{at}, as the header tells")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise bad_argument("header", "a name twice", "each once")
    return found


def _texts(given: Any) -> Mapping[str, str]:
    texts = _pairs_of_texts("texts", {} if given is None else given)
    if _OURS in texts:
        raise bad_argument("texts", repr(_OURS), "other names: this one is in use")
    return texts


def _pairs_of_texts(name: str, told: Any) -> Mapping[str, str]:
    if not isinstance(told, Mapping) or not all(isinstance(text, str) for pair in told.items() for text in pair):
        raise bad_type(name, described(told), "a mapping of texts to texts")
    return told
