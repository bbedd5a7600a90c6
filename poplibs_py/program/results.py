"""The pool of the memory of result arrays: what it holds, its limit, and how to empty it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..checks import whole
from ..config import MOST_RESULT_POOL, settings
from . import _executor as _results


@dataclass(frozen=True)
class ResultPool:
    """What the pool of results holds at a moment.

    Attributes
    ----------
    limit : int
        The most bytes that it keeps; 0 if it is off.
    kept_bytes, kept_buffers : int
        What it keeps for later results. At most 64 buffers.
    reused, fresh : int
        Large results since the process began, by where their memory came from.
    """

    limit: int
    kept_bytes: int
    kept_buffers: int
    reused: int
    fresh: int


def result_pool() -> ResultPool:
    """Return what the pool of the memory of results holds now.

    The results of all operations are ordinary arrays that own their memory. From 128 KiB on it goes to the pool
    when the array dies, and the next result of about that size takes it: fresh pages would cost as much as many a
    product. What is kept is bounded by ``POPLIBS_RESULT_POOL`` (see `poplibs_py.config`); what came first goes first.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> from poplibs_py.program import clear_result_pool, result_pool, result_pool_limit
    >>> a = np.ones((256, 256), np.float32)
    >>> with result_pool_limit(1 << 20):
    ...     clear_result_pool()
    ...     c = poplin.matmul(a, a)
    ...     del c
    ...     result_pool().kept_bytes
    262144
    """
    return ResultPool(*_results.pool_state())


def clear_result_pool() -> None:
    """Free all memory that the pool keeps; results that are alive are not touched."""
    limit = result_pool().limit
    _results.set_pool_limit(0)
    _results.set_pool_limit(limit)


@contextmanager
def result_pool_limit(limit: int) -> Iterator[None]:
    """Within the block, the pool keeps at most `limit` bytes, in the whole process.

    Parameters
    ----------
    limit : int
        From 0, which turns the pool off, to 2**62. What is kept beyond it is freed at once, the oldest first.
    """
    new = whole("limit", limit, 0, MOST_RESULT_POOL, " of bytes")
    before = result_pool().limit
    _results.set_pool_limit(new)
    try:
        yield
    finally:
        _results.set_pool_limit(before)


# AddressSanitizer sees the use of a result that died only if its memory is not used again: there the pool is off.
_results.set_pool_limit(0 if _results.sanitized else settings.result_pool)
