"""Made-up patterns and matrices, for tests, benchmarks and first steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import bad_type
from ..ops import Seed, seed_of
from ..target.host_memory import check_memory
from .matrix import BlockSparseMatrix
from .pattern import BlockPattern, as_block_shape, as_extent, as_shape, block_count
from .values import as_format, as_scale, encode, random_values

Sides = int | tuple[int, int]


def random_pattern(rows: int, columns: int, block_shape: Sides, density: float, seed: Seed = 0) -> BlockPattern:
    """Draw blocks uniformly, without replacement, from all of a matrix.

    Parameters
    ----------
    rows, columns : int
        In elements.
    block_shape : int or (int, int)
        Rows and columns of a block.
    density : float
        From 0 to 1; the pattern has exactly ``ceil(density * blocks)`` blocks.
    seed : int or (int, int), optional
        From 0; the same seed gives the same pattern.

    Returns
    -------
    BlockPattern

    Notes
    -----
    The unstructured pattern of the PopSparse benchmark (arXiv 2303.16999).

    Examples
    --------
    >>> random_pattern(64, 64, 16, density=0.25)
    BlockPattern(shape=(64, 64), block_shape=(16, 16), n_blocks=4, density=0.25)
    """
    shape, sides, counts = _extents(rows, columns, block_shape)
    everywhere = counts[0] * counts[1]
    chosen_of = block_count(density, everywhere)
    # NumPy shuffles the numbers of all blocks, or where few are drawn keeps those in a set.
    needed = 8 * everywhere if chosen_of > everywhere // 50 else 20 * chosen_of
    check_memory("density", f"{density}, which is {chosen_of} of {everywhere} blocks", needed + 48 * chosen_of)
    chosen = _generator(seed).choice(everywhere, chosen_of, replace=False)
    return BlockPattern.from_pairs(shape, sides, *np.divmod(chosen, max(1, counts[1])))[0]


def balanced_pattern(rows: int, columns: int, block_shape: Sides, density: float, seed: Seed = 0) -> BlockPattern:
    """Draw the same number of blocks, ``ceil(density * block columns)``, in each block row.

    The parameters are those of `random_pattern`.

    Examples
    --------
    >>> np.diff(balanced_pattern(64, 64, 16, density=0.5).row_offsets)
    array([2, 2, 2, 2])
    """
    shape, sides, counts = _extents(rows, columns, block_shape)
    each = block_count(density, counts[1])
    generator = _generator(seed)
    check_memory("density", f"{density}, which is {each} blocks in each of {counts[0]} block rows",
                 24 * counts[0] * (each + 1) + 8 * counts[1])
    chosen = np.zeros(0, np.int64)
    if counts[0] and each:
        chosen = np.concatenate([np.sort(generator.choice(counts[1], each, replace=False)) for _ in range(counts[0])])
    return BlockPattern(shape, sides, np.arange(counts[0] + 1) * each, chosen)


def banded_pattern(rows: int, columns: int, block_shape: Sides, below: int, above: int) -> BlockPattern:
    """Keep the blocks within a band around the diagonal.

    Parameters
    ----------
    rows, columns, block
        As for `random_pattern`.
    below, above : int
        Block columns kept left and right of the diagonal; 0 and more. With ``above=0``, square blocks and the triangle
        mask of `softmax` this is the window of causal attention.

    Examples
    --------
    >>> banded_pattern(4, 4, 1, below=1, above=0).column_indices
    array([0, 0, 1, 1, 2, 2, 3], dtype=int32)
    """
    shape, sides, counts = _extents(rows, columns, block_shape)
    low, high = as_extent("below", below, 0), as_extent("above", above, 0)
    check_memory("rows", f"{rows}, {counts[0]} block rows", 48 * counts[0])
    diagonal = np.arange(counts[0])
    first = np.minimum(np.maximum(diagonal - low, 0), counts[1])
    last = np.maximum(np.minimum(diagonal + high + 1, counts[1]), first)
    offsets = np.concatenate([[0], np.cumsum(last - first)])
    check_memory("above", f"{above} and below {below}, {offsets[-1]} blocks", 40 * int(offsets[-1]))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], last - first)
    return BlockPattern(shape, sides, offsets, np.repeat(first, last - first) + within)


def random_matrix(pattern: BlockPattern, dtype: object = "float32", seed: Seed = 0,
                  scale: int = 0) -> BlockSparseMatrix:
    """Fill a pattern with random values.

    Parameters
    ----------
    pattern : BlockPattern
    dtype : Format, dtype or str, optional
    seed : int or (int, int), optional
    scale : int, optional
        For 8-bit formats.

    Notes
    -----
    Values are uniform between plus and minus ``sqrt(3 / (d k))``, d the density in elements and k the columns, so that
    a product with unit-variance inputs has about unit variance: the distribution of the PopSparse benchmark.

    Examples
    --------
    >>> random_matrix(random_pattern(8, 8, 4, 0.5), "float16").nnz
    32
    """
    if not isinstance(pattern, BlockPattern):
        raise bad_type("pattern", type(pattern).__name__, "a BlockPattern")
    target = as_format(dtype)
    exponents = as_scale(scale, target, pattern.n_blocks)
    high, wide = pattern.block_shape
    rows, columns = pattern.shape
    elements = pattern.n_blocks * high * wide
    check_memory("pattern", f"{pattern.n_blocks} blocks of {pattern.block_shape}", 12 * elements)
    values = random_values((pattern.n_blocks, high, wide), elements / max(1, pattern.groups * rows), seed)
    if rows % high:
        last = np.flatnonzero(pattern.row_indices % max(1, pattern.block_rows) == pattern.block_rows - 1)
        values[last, rows % high :] = 0
    if columns % wide:
        values[pattern.column_indices == pattern.block_columns - 1, :, columns % wide :] = 0
    return BlockSparseMatrix(pattern, encode(values, target, exponents), target, exponents)


def _extents(rows: int, columns: int, block_shape: Any) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    shape = as_shape((as_extent("rows", rows, 0), as_extent("columns", columns, 0)))
    sides = as_block_shape(block_shape)
    return shape, sides, (-(-shape[0] // sides[0]), -(-shape[1] // sides[1]))


def _generator(seed: Seed) -> np.random.Generator:
    return np.random.default_rng(seed_of(seed))
