"""What a program asks of the arrays that it writes."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from ._executor import temporary

_LINE = 64
_NORESERVE = 0x4000  # Linux's MAP_NORESERVE, which Python names from 3.13 on
_GAPS = 4  # times its elements' bytes: what an array spans at most whose copy is counted
_WIDE = 1 << 20  # bytes from where a mapping of their own takes no longer than memory of NumPy's


def aligned_bytes(size: int, address: int = 0) -> np.ndarray[Any, Any]:
    """Return bytes that begin as far from a cache line's begin as an address does; by default on one.

    Examples
    --------
    >>> aligned_bytes(100).ctypes.data % 64, aligned_bytes(100, 3).ctypes.data % 64
    (0, 3)
    """
    room = np.empty(size + _LINE, np.uint8)
    skipped = (address - room.ctypes.data) % _LINE
    return room[skipped:skipped + size]


def _spread_bytes(size: int, address: int) -> np.ndarray[Any, Any]:
    """Return bytes that begin as those of `aligned_bytes`, of which pages that nobody writes take no memory."""
    try:
        room = mmap.mmap(-1, size + _LINE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except OSError:
        raise MemoryError(f"{size:,} bytes of addresses") from None
    return np.frombuffer(room, np.uint8, size, address % _LINE)


def _bounds(x: np.ndarray[Any, Any]) -> tuple[int, int]:
    """Return the bytes from the first of an array's to its first element's, and to its last."""
    reach = [(n - 1) * step for n, step in zip(x.shape, x.strides, strict=True)] if x.size else []
    before = -sum(min(0, r) for r in reach)
    return before, before + sum(max(0, r) for r in reach) + x.itemsize


def span_of(x: np.ndarray[Any, Any]) -> int:
    """Return the bytes from the first of an array's to its last.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros((3, 4))
    >>> span_of(x), span_of(x[:, 0]), span_of(x[::-1, ::2])
    (96, 72, 88)
    """
    return _bounds(x)[1]


def without_gaps(x: np.ndarray[Any, Any]) -> bool:
    """Whether an array fills its memory from its first element on, its axes in any order.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros((3, 4))
    >>> without_gaps(x.T), without_gaps(x[:, 1:]), without_gaps(x[::-1])
    (True, False, False)
    """
    return _bounds(x) == (0, x.nbytes)


def lying_like(x: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a new array that lies as another does, however far apart, and the bytes that it lies in.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros((3, 4))
    >>> lying_like(x[::-1, ::2])[0].strides
    (-32, 16)
    """
    before, span = _bounds(x)
    held = (aligned_bytes if span < _WIDE else _spread_bytes)(span, x.ctypes.data - before)
    return np.ndarray(x.shape, x.dtype, held, before, x.strides), held


def room_like(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return room for a copy that lies as an array does: counted memory, but where that is mostly gaps."""
    if x.flags.c_contiguous:
        return temporary(x.shape, x.dtype)
    before, span = _bounds(x)
    if span > _GAPS * x.nbytes:
        return lying_like(x)[0]
    room = temporary((span + _LINE,), np.uint8)
    return np.ndarray(x.shape, x.dtype, room, (x.ctypes.data - before - room.ctypes.data) % _LINE + before, x.strides)


def overlaps_itself(array: np.ndarray[Any, Any]) -> bool:
    """Whether two elements of an array may share memory, as those of a broadcast one do.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros((3, 4))
    >>> overlaps_itself(x.T[::2]), overlaps_itself(np.lib.stride_tricks.sliding_window_view(x[0], 2))
    (False, True)
    """
    if array.flags.c_contiguous or not array.size:
        return False
    reach = array.itemsize  # bytes from the first element's beginning to the last one's end, axis by axis
    for stride, extent in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False
