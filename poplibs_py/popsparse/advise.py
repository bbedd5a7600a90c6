"""Static, dynamic or dense: what is fastest for a matrix here, from a model fitted to a few short products."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import poplin
from ..config import settings
from ..errors import bad_argument
from ..formats import Format
from ..memo import remembered
from .matrix import BlockSparseMatrix
from .operands import check_matrix
from .pattern import as_extent
from .patterns import random_matrix, random_pattern
from .values import as_format, encode

_MOST_PROBE_SIDE = 2048
_MOST_PROBE_COLUMNS = 256
_DENSITIES = (1 / 256, 1 / 4)


@dataclass(frozen=True)
class Advice:
    """What `advise` found; all times in seconds for one product.

    Attributes
    ----------
    method : {"static", "dynamic", "dense"}
        The fastest.
    static, dynamic, dense : float
        Predicted times. Static: the pattern's analysis shared by `calls_per_pattern` products. Dynamic: a new pattern,
        checked, at each product. Dense: the same matrix with its zeros stored.
    density : float
        Of the matrix.
    break_even_density : float
        Below it, a matrix of this shape and block is predicted to be faster static than dense, 0 to 1.
    shape : (int, int, int)
        Rows and columns of the matrix, columns of the dense operand.
    calls_per_pattern : int or None
        What was passed in; None for no end of them.
    """

    method: str
    static: float
    dynamic: float
    dense: float
    density: float
    break_even_density: float
    shape: tuple[int, int, int]
    calls_per_pattern: int | None

    def __repr__(self) -> str:
        rows, depth, columns = self.shape
        lines = [f"Advice: {self.method} for ({rows} x {depth}) times ({depth} x {columns})"]
        times = {"static": self.static, "dynamic": self.dynamic, "dense": self.dense}
        for name, seconds in sorted(times.items(), key=lambda item: item[1]):
            lines.append(f"  {name:<8}{seconds * 1e6:12.1f} us{seconds / times[self.method]:8.2f} x")
        lines.append(f"  density {self.density:.4g}; dense from {self.break_even_density:.4g}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Rates:
    """The model's parameters, in seconds: see `advise`."""

    static_call: float
    static_element: float
    static_row: float
    static_pattern: float
    dynamic_block: float
    dense_call: float
    dense_element: float


def advise(w: BlockSparseMatrix, n: int, *, x_dtype: object = None, calls_per_pattern: int | None = None) -> Advice:
    """Predict which product of `w` with a dense matrix of `n` columns is fastest here.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
        Its shape, block shape, groups, format and number of blocks count, its values do not.
    n : int
        Columns of the dense operand, at least 1.
    x_dtype : Format, dtype or str, optional
        Format of the dense operand (default: that of `w`).
    calls_per_pattern : int, optional
        Products between two changes of the pattern (default: it never changes).

    Returns
    -------
    Advice

    Raises
    ------
    InvalidArgumentError, InvalidTypeError

    Notes
    -----
    The model is linear. With z stored elements and B stored blocks in groups of m by k::

        static  = call + element z n + row (m + k) n + pattern B / calls_per_pattern
        dynamic = call + element z n + row (m + k) n + block B
        dense   = dense call + dense element m k n

    The break-even density is where the first equals the third. The parameters come from a few products of random
    matrices with this block shape and format, of at most 2048 rows and columns and 256 columns of X, at this density
    and a quarter of it. They are measured when first asked for, in tens to hundreds of milliseconds, and kept for the
    process. Larger operands are extrapolated, so products that leave the caches are predicted too fast. Patterns are
    taken to be uniform, even those that are not.

    Examples
    --------
    >>> from poplibs_py.popsparse import advise, random_matrix, random_pattern
    >>> w = random_matrix(random_pattern(256, 256, 16, density=1 / 64))
    >>> advise(w, 64).method
    'static'
    """
    check_matrix("w", w)
    columns = as_extent("n", n, 1)
    if calls_per_pattern is not None:
        as_extent("calls_per_pattern", calls_per_pattern, 1)
    if not w.shape[0] * w.shape[1]:
        raise bad_argument("w", w, "a matrix with rows and columns")
    inputs = w.format if x_dtype is None else as_format(x_dtype)
    rows, depth = w.shape
    rates = _rates(w.format, inputs, w.block_shape, (min(rows, _MOST_PROBE_SIDE), min(depth, _MOST_PROBE_SIDE)),
                   min(columns, _MOST_PROBE_COLUMNS), _probe_density(w.density), settings.num_threads)
    return _advice(w, columns, rates, calls_per_pattern)


def _advice(w: BlockSparseMatrix, n: int, rates: Rates, calls: int | None) -> Advice:
    rows, depth = w.shape
    fixed = rates.static_call + rates.static_row * w.groups * (rows + depth) * n
    product = fixed + rates.static_element * w.nnz * n
    times = {"static": product + (0.0 if calls is None else rates.static_pattern * w.n_blocks / calls),
             "dynamic": product + rates.dynamic_block * w.n_blocks,
             "dense": rates.dense_call + rates.dense_element * w.groups * rows * depth * n}
    high, wide = w.block_shape
    everything = w.groups * (-(-rows // high)) * (-(-depth // wide))
    per_density = everything * high * wide * n * rates.static_element
    per_density += 0.0 if calls is None else rates.static_pattern * everything / calls
    break_even = (times["dense"] - fixed) / per_density
    return Advice(min(times, key=lambda name: times[name]), density=w.density,
                  break_even_density=min(1.0, max(0.0, break_even)), shape=(rows, depth, n), calls_per_pattern=calls,
                  **times)


def _probe_density(density: float) -> float:
    low, high = _DENSITIES
    return float(2.0 ** round(math.log2(min(high, max(low, density)))))


@remembered(weight=4)
def _rates(format: Format, inputs: Format, block_shape: tuple[int, int], shape: tuple[int, int], n: int,
           density: float, threads: int) -> Rates:
    """Measure: `threads` only tells apart what was measured with other settings."""
    from . import dynamic, static

    def matrix(share: float, seed: int = 0) -> BlockSparseMatrix:
        return random_matrix(random_pattern(*shape, block_shape, share, seed), format, seed)

    numbers = np.random.default_rng(0)
    x = encode(numbers.random((shape[1], n), np.float32) - np.float32(0.5), inputs)
    y = np.empty((shape[0], n), np.float32)
    many, few = matrix(density), matrix(density / 4)
    tiny = random_matrix(random_pattern(*block_shape, block_shape, 1.0), format)
    tiny_x = np.ascontiguousarray(x[:1, :1])
    tiny_x = np.broadcast_to(tiny_x, (block_shape[1], 1))
    call = _seconds(lambda: static.sparse_dense_matmul(tiny, tiny_x))
    of_many = _seconds(lambda: static.sparse_dense_matmul(many, x, out=y))
    of_few = _seconds(lambda: static.sparse_dense_matmul(few, x, out=y))
    element = max(of_many - of_few, 0.05 * of_many) / (max(1, many.nnz - few.nnz) * n)
    row = max(0.0, of_many - call - element * many.nnz * n) / (sum(shape) * n)

    def renewed(w: BlockSparseMatrix) -> BlockSparseMatrix:
        return BlockSparseMatrix.from_blocks(w.blocks, shape=w.shape, row_offsets=w.row_offsets, copy=False,
                                             column_indices=w.column_indices, block_shape=w.block_shape)

    of_new = _seconds(lambda: dynamic.sparse_dense_matmul(renewed(many), x, out=y))
    def first(w: BlockSparseMatrix) -> float:
        return _once(lambda: static.sparse_dense_matmul(renewed(w), x, out=y))

    of_first = min(first(matrix(density * share)) for share in (0.9, 0.93, 0.96))
    dense_w = encode(many.to_dense(), format)
    of_dense = _seconds(lambda: poplin.matmul(dense_w, x, out=y))
    dense_call = _seconds(lambda: poplin.matmul(dense_w[:1, :1], x[:1, :1], out_dtype=np.float32))
    blocks = max(1, many.n_blocks)
    return Rates(call, element, row, max(0.0, of_first - of_many) / blocks, max(0.0, of_new - of_many) / blocks,
                 dense_call, max(of_dense - dense_call, 0.05 * of_dense) / (shape[0] * shape[1] * n))


def _once(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _seconds(work: Callable[[], object]) -> float:
    """The least of five to twenty runs: what the machine's other work adds is not the product's."""
    work()
    best = math.inf
    begun = time.perf_counter()
    for run in range(20):
        best = min(best, _once(work))
        if run >= 4 and time.perf_counter() - begun > 0.01:
            break
    return best
