"""Taking blocks away and letting others grow: scores of blocks, and matrices with fewer or more of them.

A score says which blocks matter. `magnitude_scores` needs the values alone; `movement_scores` the gradient at the
pattern; `dense_gradient_scores` says where blocks that are not there would help most.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import check_shape, one_of
from ..errors import bad_argument, bad_type
from ..formats import Array
from ..formats.arrays import as_array
from ..poplin import matmul
from .convert import inside_matrix
from .matrix import BlockSparseMatrix
from .operands import check_matrix
from .pattern import BlockPattern, as_block_shape, block_count, pattern_at, places_of
from .values import decode, numeric_array

_STRIP = 1 << 22  # elements of a dense gradient that are made at once


def magnitude_scores(w: BlockSparseMatrix, norm: str = "l2") -> Array:
    """Return a norm of each stored block.

    Parameters
    ----------
    w : BlockSparseMatrix
    norm : {"l2", "l1", "max"}, optional

    Returns
    -------
    numpy.ndarray of float64, shape (n_blocks,)

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, pruning
    >>> w = BlockSparseMatrix.from_dense([[3.0, 4.0, 0.0, 1.0]], (1, 2))
    >>> pruning.magnitude_scores(w).tolist()
    [5.0, 1.0]
    """
    one_of("norm", norm, ("l2", "l1", "max"))
    values = np.abs(_values(w))
    if norm == "max":
        found: Array = values.max(axis=(1, 2), initial=0)
        return found
    norms: Array = np.sqrt(np.square(values).sum(axis=(1, 2))) if norm == "l2" else values.sum(axis=(1, 2))
    return norms


def movement_scores(w: BlockSparseMatrix, gradient: object) -> Array:
    """Return how far a step against the gradient moves each block away from zero: ``-sum(w * gradient)``.

    It is also by how much the loss grows, to first order, where the block is left out: movement pruning (Sanh, Wolf and
    Rush, 2020) adds the scores of all steps up and takes the least away.

    Parameters
    ----------
    w : BlockSparseMatrix
    gradient : array_like, shape of ``w.blocks``
        Of the stored values, as `dynamic.fully_connected_sparse_grad_w` returns it.

    Returns
    -------
    numpy.ndarray of float64, shape (n_blocks,)
    """
    values, slopes = _values(w), numeric_array("gradient", gradient).astype(np.float64)
    check_shape("gradient", slopes, slopes.shape == values.shape, f"that of the blocks, {values.shape}")
    found: Array = -(values * slopes).sum(axis=(1, 2))
    return found


def dense_gradient_scores(grads: object, acts: object, block_shape: int | tuple[int, int]) -> Array:
    """Return the norm of each block of a layer's dense gradient, ``grads' acts``; only a strip of it is made at once.

    Parameters
    ----------
    grads : array_like, shape (batch, outputs)
    acts : array_like, shape (batch, inputs)
    block_shape : int or (int, int)

    Returns
    -------
    numpy.ndarray of float64, shape (block rows, block columns)
        What `regrow` takes, as RigL does (Evci and others, 2020).

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import pruning
    >>> pruning.dense_gradient_scores(np.float32([[1, 0]]), np.float32([[3, 4]]), (1, 2)).tolist()
    [[5.0], [0.0]]
    """
    high, wide = as_block_shape(block_shape)
    left, right = _dense("grads", grads), _dense("acts", acts)
    check_shape("acts", right, left.ndim == 2 and right.ndim == 2 and len(left) == len(right),
                f"(batch, inputs), with the batch of grads, {left.shape}")
    (rows, columns), sides = (left.shape[1], right.shape[1]), (-(-right.shape[1] // wide) * wide)
    scores = np.zeros((-(-rows // high), sides // wide))
    step = max(1, _STRIP // max(1, sides * high))
    for first in range(0, len(scores), step):
        strip = matmul(np.ascontiguousarray(left[:, first * high:(first + step) * high].T), right, out_dtype="float32")
        blocks = np.zeros((-(-len(strip) // high) * high, sides), np.float64)
        blocks[:len(strip), :columns] = strip
        squares = np.square(blocks.reshape(-1, high, sides // wide, wide)).sum(axis=(1, 3))
        scores[first:first + step] = np.sqrt(squares)
    return scores


def pruned_pattern(pattern: BlockPattern, scores: Array, density: float) -> tuple[BlockPattern, Array]:
    """Return the pattern of the blocks of greatest score, the first where scores are equal; and which they were.

    Parameters
    ----------
    pattern : BlockPattern
    scores : numpy.ndarray, shape (n_blocks,)
    density : float
        Share of all blocks that stay, at most what there is.
    """
    count = block_count(density, _everywhere(pattern))
    if count > pattern.n_blocks:
        raise bad_argument("density", density, f"at most {pattern.density:.4g}, as there is; regrow adds blocks")
    kept = np.sort(np.argsort(-scores, kind="stable")[:count])
    return pattern_at(pattern, places_of(pattern)[kept]), kept


def regrown_pattern(pattern: BlockPattern, scores: Array, density: float) -> tuple[BlockPattern, Array]:
    """Return the pattern with the free places of greatest score besides; and where the blocks from before are in it.

    Parameters
    ----------
    pattern : BlockPattern
    scores : numpy.ndarray, shape (groups * block rows, block columns)
    density : float
        Share of all blocks that there will be, at least what there is.
    """
    count = block_count(density, _everywhere(pattern)) - pattern.n_blocks
    if count < 0:
        raise bad_argument("density", density, f"at least {pattern.density:.4g}, as there is; prune drops blocks")
    keys, wanted = places_of(pattern), np.array(scores, np.float64).ravel()
    taken = np.zeros(wanted.size, bool)
    taken[keys] = True
    free = np.flatnonzero(~taken)
    grown = np.sort(np.concatenate([keys, free[np.argsort(-wanted[free], kind="stable")[:count]]]))
    return pattern_at(pattern, grown), np.searchsorted(grown, keys)


def prune(w: BlockSparseMatrix, density: float, *, scores: object = None) -> BlockSparseMatrix:
    """Keep the blocks, or the elements, of greatest score.

    Parameters
    ----------
    w : BlockSparseMatrix
    density : float
        Share of all blocks that stay, or of all elements where scores are of elements; from 0 to what there is.
    scores : array_like, shape (n_blocks,) or that of ``w.blocks``, optional
        Of blocks, by default `magnitude_scores`; or of elements, such as ``abs(w.blocks)``. Those of elements leave
        zeros in blocks, and no block without an element that stays. Where scores are equal the first wins.

    Returns
    -------
    BlockSparseMatrix
        A new one, of the same format and scale.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, pruning
    >>> w = BlockSparseMatrix.from_dense(np.float32([[1, 2], [3, 4]]), 1)
    >>> pruning.prune(w, 1 / 2).to_dense()
    array([[0., 0.],
           [3., 4.]], dtype=float32)
    """
    matrix = check_matrix("w", w)
    shape = matrix.blocks.shape
    wanted = magnitude_scores(matrix) if scores is None else _scores(scores, (shape[:1], shape))
    if wanted.ndim == 1:
        pattern, kept = pruned_pattern(matrix.pattern, wanted, density)
        return _taken(matrix, pattern, kept, matrix.blocks[kept])
    inside = inside_matrix(matrix.pattern)
    count = block_count(density, int(np.prod(matrix.shape)) * matrix.groups)
    if count > np.count_nonzero(inside):
        raise bad_argument("density", density, "at most the share of elements that are stored")
    best = np.argsort(-np.where(inside, wanted, -np.inf), axis=None, kind="stable")[:count]
    stays = np.zeros(shape, bool)
    stays.reshape(-1)[best] = True
    kept = np.flatnonzero(stays.any(axis=(1, 2)))
    blocks = np.where(stays, matrix.blocks, np.zeros((), matrix.blocks.dtype))[kept]
    return _taken(matrix, pattern_at(matrix.pattern, places_of(matrix.pattern)[kept]), kept, blocks)


def regrow(w: BlockSparseMatrix, density: float, scores: object) -> BlockSparseMatrix:
    """Add blocks of zeros where there are none, at the places of greatest score.

    Parameters
    ----------
    w : BlockSparseMatrix
    density : float
        Share of all blocks that there will be.
    scores : array_like, shape (block rows, block columns), or (groups, block rows, block columns)
        For example `dense_gradient_scores`. Where they are equal the first place wins.

    Returns
    -------
    BlockSparseMatrix
        A new one, of the same format; new blocks have a scale of 1 where each block has its own.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, pruning
    >>> w = BlockSparseMatrix.from_mask([[True, False], [False, False]], 2)
    >>> pruning.regrow(w, 1 / 2, [[9, 1], [2, 0]]).column_indices.tolist()
    [0, 0]
    """
    matrix = check_matrix("w", w)
    p = matrix.pattern
    places = p.block_rows, p.block_columns
    ahead = (p.groups,) * (p.groups > 1)
    wanted = _scores(scores, ((*ahead, *(places[::-1] if matrix.is_transposed else places)),))
    wanted = (wanted.swapaxes(-1, -2) if matrix.is_transposed else wanted).reshape(-1, p.block_columns)
    pattern, at = regrown_pattern(p, wanted, density)
    blocks = np.zeros((pattern.n_blocks, *p.block_shape), matrix.blocks.dtype)
    blocks[at] = matrix.blocks
    scale: Any = matrix.scale
    if not isinstance(scale, int):
        scale = np.zeros(pattern.n_blocks, scale.dtype)
        scale[at] = matrix.scale
    return matrix._with(blocks=blocks, pattern=pattern, scale=scale)


def carried(before: BlockPattern, after: BlockPattern, values: Array) -> Array:
    """Return what belongs to the blocks of one pattern in the order of another: zeros for blocks that are new.

    Parameters
    ----------
    before, after : BlockPattern
        Of one shape, of blocks of one shape.
    values : numpy.ndarray, shape (blocks of `before`, ...)
        For example an optimiser's momentum.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, pruning
    >>> old, new = (BlockSparseMatrix.from_mask([mask], 1).pattern for mask in ([True, True, False],
    ...                                                                         [False, True, True]))
    >>> pruning.carried(old, new, np.array([1.0, 2.0])).tolist()
    [2.0, 0.0]
    """
    for name, pattern in (("before", before), ("after", after)):
        if not isinstance(pattern, BlockPattern):
            raise bad_type(name, type(pattern).__name__, "a BlockPattern")
    kinds = [(p.shape, p.block_shape, p.groups) for p in (before, after)]
    if kinds[0] != kinds[1]:
        raise bad_argument("after", after, f"a pattern of the same matrix, {before}")
    array = as_array("values", values, "an array with a row for each block")
    check_shape("values", array, array.ndim >= 1 and len(array) == before.n_blocks,
                f"{before.n_blocks} rows, one for each block")
    found = np.zeros((after.n_blocks, *array.shape[1:]), array.dtype)
    _, mine, its = np.intersect1d(places_of(after), places_of(before), assume_unique=True, return_indices=True)
    found[mine] = array[its]
    return found


def _values(w: object) -> Array:
    matrix = check_matrix("w", w)
    return decode(matrix.blocks, matrix.scale).astype(np.float64)


def _dense(name: str, value: object) -> Array:
    array = numeric_array(name, value)
    if array.dtype.itemsize == 8 and isinstance(value, np.ndarray):
        raise bad_type(name, f"dtype {array.dtype}", 'one of 32 bits or fewer: .astype("float32")')
    return array.astype(np.float32) if array.dtype.kind in "iub" or array.dtype.itemsize == 8 else array


def _scores(scores: object, shapes: tuple[tuple[int, ...], ...]) -> Array:
    """Return scores as float64 of one of these shapes, or raise."""
    wanted = numeric_array("scores", scores).astype(np.float64)
    check_shape("scores", wanted, wanted.shape in shapes, " or ".join(map(str, shapes)))
    return wanted


def _everywhere(pattern: BlockPattern) -> int:
    return pattern.groups * pattern.block_rows * pattern.block_columns


def _taken(w: BlockSparseMatrix, pattern: BlockPattern, kept: Array, blocks: Array) -> BlockSparseMatrix:
    scale = w.scale if isinstance(w.scale, int) else w.scale[kept]
    return w._with(blocks=blocks, pattern=pattern, scale=scale)
