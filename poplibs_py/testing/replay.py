"""A call as one line of text: what a failing test prints so that anyone can run the call again.

Arrays keep their bytes, strides, alignment and whether they may be written, so that the same kernel takes the same
path.
"""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import hashlib
import json
import tempfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from ..checks import instance
from ..config import settings
from ..errors import bad_argument
from ..formats import FORMATS, Format, QuarterArray
from ..formats.format import LAYOUT
from ..formats.presets import PRESETS
from ..poplin.tile_conv import Axis, ConvParams, FieldTransform, OutputTransform
from ..popops.expr import Expression, expression_of
from ..popsparse import BlockPattern, BlockSparseMatrix, dynamic

_NAMED = {f.name: f for f in (*FORMATS, *PRESETS)}
_INLINE = 2000  # characters of a token that still go on a line
_MOST_SPAN = 1 << 30  # bytes from an array's first element to its last that are still copied

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""An op's name, its operands and its keywords."""


@dataclass(frozen=True)
class Snapshot:
    """A call as it was before it ran: a copy in memory, and text only when asked for.

    Attributes
    ----------
    op : str
        The op's name.
    body : bytes
        What `again` makes the call of, or nothing where an operand has no text form.
    refusal : str
        Which has none.
    """

    op: str
    body: bytes
    refusal: str = ""

    @classmethod
    def of(cls, op: str, operands: tuple[Any, ...], keywords: dict[str, Any]) -> Snapshot:
        """Copy a call."""
        try:
            return cls(op, _body(op, operands, keywords))
        except (TypeError, ValueError, RecursionError) as error:
            return cls(op, b"", str(error))

    def again(self) -> Call:
        """Return the op's name, and operands and keywords made anew."""
        return _call(self.body)

    def reproducer(self) -> str:
        """Return a shell line that runs the call again and prints the same report.

        Long calls go to a file in the temporary folder.
        """
        if self.refusal:
            return f"(no line can reproduce it: {self.refusal})"
        token = _token(self.body)
        if len(token) > _INLINE:
            name = f"poplibs-{self.op}-{hashlib.sha256(token.encode()).hexdigest()[:12]}.call"
            path = Path(tempfile.gettempdir()) / name
            path.write_text(token)
            token = str(path)
        settled = f"POPLIBS_MAX_ISA={settings.max_isa} POPLIBS_NUM_THREADS={settings.num_threads}"
        for emulated in ("amx", "avx512"):
            if getattr(settings, f"emulate_{emulated}"):
                settled += f" POPLIBS_EMULATE_{emulated.upper()}=1"
        return f"{settled} python -c \"from poplibs_py import testing; testing.replay('{token}')\""


def encode_call(op: str, operands: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """Return a token that `decode_call` turns back into the op's name, its operands and its keywords."""
    return _token(_body(op, operands, keywords))


def _body(op: str, operands: tuple[Any, ...], keywords: dict[str, Any]) -> bytes:
    buffers: list[bytes] = []
    header = json.dumps({"op": op, "operands": [_pack(x, buffers) for x in operands],
                         "keywords": {k: _pack(v, buffers) for k, v in keywords.items()}})
    return b"".join([len(header).to_bytes(4, "little"), header.encode(), *buffers])


def _token(body: bytes) -> str:
    return base64.urlsafe_b64encode(zlib.compress(body, 9)).decode()


def decode_call(token: str) -> Call:
    """Return the op's name, its operands and its keywords.

    Parameters
    ----------
    token : str
        From `encode_call`, or the path of a file that holds one.

    Examples
    --------
    >>> token = encode_call("matmul", (np.arange(6.0, dtype=np.float16).reshape(2, 3).T,), {"alpha": 2.0})
    >>> op, (a,), keywords = decode_call(token)
    >>> op, a.tolist(), a.strides, keywords
    ('matmul', [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], (2, 6), {'alpha': 2.0})
    """
    instance("token", token, str, "the text that a failing check printed")
    try:
        if token.endswith(".call"):
            token = Path(token).read_text()
        return _call(zlib.decompress(base64.urlsafe_b64decode(token.encode())))
    except (OSError, ValueError, TypeError, LookupError, AttributeError, MemoryError, RecursionError,
            zlib.error) as error:
        raise bad_argument("token", token, "a token or file that a failing check printed") from error


def _call(body: bytes) -> Call:
    end = 4 + int.from_bytes(body[:4], "little")
    header, data = json.loads(body[4:end]), memoryview(body)[end:]
    operands = tuple(_unpack(x, data) for x in header["operands"])
    return header["op"], operands, {k: _unpack(v, data) for k, v in header["keywords"].items()}


def _format(name: str, *layout: Any) -> Format:
    return Format(name, *layout) if layout else _NAMED[name]


def _matrix(pattern: BlockPattern, blocks: Any, dtype: Format, scale: Any, turned: bool) -> BlockSparseMatrix:
    matrix = BlockSparseMatrix(pattern, blocks, dtype, scale)
    return matrix.T if turned else matrix


_KINDS: dict[str, tuple[type, Callable[[Any], Iterable[Any]], Callable[..., Any]]] = {
    **{kind.__name__: (kind, tuple, kind) for kind in (Axis, FieldTransform, OutputTransform)},
    "format": (Format, lambda f: [getattr(f, key) for key in (LAYOUT if f not in _NAMED.values() else LAYOUT[:1])],
               _format),
    "quarter": (QuarterArray, attrgetter("codes", "format", "scale", "block_shape"), QuarterArray),
    "blocks": (BlockPattern, attrgetter("shape", "block_shape", "row_offsets", "column_indices", "groups"),
               BlockPattern),
    "sparse": (BlockSparseMatrix, attrgetter("pattern", "blocks", "format", "scale", "is_transposed"), _matrix),
    "capacity": (dynamic.Capacity, lambda capacity: [capacity.n_blocks], dynamic.Capacity),
    "convolution": (ConvParams, attrgetter(*(field.name for field in dataclasses.fields(ConvParams))), ConvParams),
    "expression": (Expression, attrgetter("op", "args", "value"), expression_of),
    "tuple": (tuple, tuple, lambda *items: items),
    "list": (list, list, lambda *items: list(items)),
    "dict": (dict, dict.items, lambda *items: dict(items)),
}
"""What is made of parts: its type, the parts, and what makes it again of them."""


def _pack(value: Any, buffers: list[bytes]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return {"number": [value.dtype.name, value.item()]}
    if isinstance(value, np.ndarray):
        return {"array": _pack_array(value, buffers)}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"dtype": np.dtype(value).name}
    for name, (kind, parts, _) in _KINDS.items():
        if isinstance(value, kind):
            return {name: [_pack(part, buffers) for part in parts(value)]}
    raise TypeError(f"{type(value).__name__} has no text form")


def _pack_array(array: NDArray[Any], buffers: list[bytes]) -> dict[str, Any]:
    low, high = byte_bounds(array) if array.size else (0, 0)
    start = sum(map(len, buffers))
    if high - low > _MOST_SPAN:
        raise ValueError(f"an array that spans {high - low:,} bytes has no text form")
    first = array.ctypes.data - low if array.size else 0
    buffers.append(ctypes.string_at(low, high - low))
    return {"dtype": array.dtype.name, "shape": list(array.shape), "strides": list(array.strides), "first": first,
            "align": low % 64, "writeable": array.flags.writeable, "start": start, "bytes": high - low}


def _unpack(value: Any, data: memoryview) -> Any:
    if not isinstance(value, dict):
        return value
    [(name, held)] = value.items()
    if name == "array":
        return _unpack_array(held, data)
    if name == "dtype":
        return np.dtype(held)
    if name == "number":
        return np.dtype(held[0]).type(held[1])
    return _KINDS[name][2](*(_unpack(part, data) for part in held))


def _unpack_array(facts: dict[str, Any], data: memoryview) -> NDArray[Any]:
    room = np.zeros(facts["bytes"] + 128, np.uint8)
    start = -room.ctypes.data % 64 + facts["align"]
    room[start:start + facts["bytes"]] = data[facts["start"]:facts["start"] + facts["bytes"]]
    array: NDArray[Any] = np.ndarray(facts["shape"], np.dtype(facts["dtype"]), room, start + facts["first"],
                                     facts["strides"])
    array.flags.writeable = facts["writeable"]
    return array
