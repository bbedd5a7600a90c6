"""Block-sparse products over a Dask cluster: rows of W, columns of W and chunks of X apart, the depth never.

Results are Dask arrays, equal bit for bit to those of one machine: each element's sum is made by one worker, in the
order that it has anywhere. What is passed may be in memory or a Dask array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .checks import check_shape, one_of, whole
from .errors import MissingPackageError, bad_argument, bad_type
from .formats import Format, format_of
from .formats.arrays import as_array
from .popsparse import static
from .popsparse.matrix import BlockSparseMatrix
from .popsparse.operands import check_activation, checked_format, product_format

try:
    import dask
    import dask.array as da
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "dask":
        raise
    raise MissingPackageError("dask", "dask", error) from None

__all__ = ["ShardedMatrix", "dense_sparse_matmul", "shard", "sparse_dense_matmul", "sparse_grad_w"]

AXES = ("rows", "columns")


@dataclass(frozen=True, eq=False)
class ShardedMatrix:
    """A block-sparse matrix in pieces of whole rows, or columns, of blocks, where a cluster has them: see `shard`.

    Attributes
    ----------
    pieces : sequence of dask.delayed.Delayed or distributed.Future
        The pieces, each a `BlockSparseMatrix`.
    edges : sequence of int
        Where each piece begins, and the last ends, in elements.
    blocks : sequence of int
        Stored blocks of each piece.
    matrix : (rows, columns), (block rows, block columns), Format
        Shape, shape of a block and format of the whole.
    axis : {"rows", "columns"}
        What the pieces are of.
    stored_by_rows : bool
        Whether the pieces store their blocks in the order that the whole one has.
    """

    pieces: Sequence[Any]
    edges: Sequence[int]
    blocks: Sequence[int]
    matrix: tuple[tuple[int, int], tuple[int, int], Format]
    axis: str
    stored_by_rows: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the whole, in elements."""
        return self.matrix[0]


def shard(w: BlockSparseMatrix, parts: int, *, axis: str = "rows", client: Any = None) -> ShardedMatrix:
    """Cut a matrix into pieces with about as many stored blocks each.

    Parameters
    ----------
    w : BlockSparseMatrix
        Of one group.
    parts : int
        How many pieces, of whole rows or columns of blocks; there are fewer where the matrix has not so many.
    axis : {"rows", "columns"}, optional
        What the pieces are of: rows for `sparse_dense_matmul` and `sparse_grad_w`, columns for `dense_sparse_matmul`.
    client : distributed.Client, optional
        Sends the pieces to its workers now, where they stay for as long as the result is kept. Without one they go
        with each product.

    Returns
    -------
    ShardedMatrix
    """
    if not isinstance(w, BlockSparseMatrix):
        raise bad_type("w", type(w).__name__, "a BlockSparseMatrix")
    if w.groups > 1:
        raise bad_argument("w", f"{w.groups} groups", "one: see BlockSparseMatrix.group")
    one_of("axis", axis, AXES)
    along = w if axis == "rows" else w.T
    lines = along.split_rows(whole("parts", parts, 1, 2**20))
    edges = [0, *np.cumsum([piece.shape[0] for piece in lines]).tolist()]
    pieces = lines if axis == "rows" else [piece.T for piece in lines]
    if client is None:
        held = [dask.delayed(piece, pure=True) for piece in pieces]
    elif hasattr(client, "scatter"):
        held = client.scatter(pieces)
    else:
        raise bad_type("client", type(client).__name__, "a distributed.Client, or None")
    counts = [piece.n_blocks for piece in pieces]
    return ShardedMatrix(held, edges, counts, (w.shape, w.block_shape, w.format), axis, not along.is_transposed)


def sparse_dense_matmul(w: ShardedMatrix | BlockSparseMatrix, x: Any, *, out_dtype: object = None,
                        bias: object = None, activation: str | None = None) -> Any:
    """Multiply a block-sparse by a dense matrix, ``Y = activation(W X + bias)``: one task for each piece and chunk.

    Parameters
    ----------
    w : ShardedMatrix of rows, or BlockSparseMatrix, shape (m, k)
        A whole matrix is one piece.
    x : array_like or dask.array.Array, shape (k, n)
        Its chunks of columns are multiplied apart; chunks of its rows are put together first.
    out_dtype, bias, activation
        As for `popsparse.static.sparse_dense_matmul`.

    Returns
    -------
    dask.array.Array, shape (m, n)
        In chunks of the pieces' rows and of X's columns.

    Notes
    -----
    Each task is `popsparse.static.sparse_dense_matmul`, whose contract it has.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import dask
    >>> from poplibs_py.popsparse import BlockSparseMatrix
    >>> w = dask.shard(BlockSparseMatrix.from_dense(np.eye(8, dtype=np.float32) * 3, 2), 2)
    >>> y = dask.sparse_dense_matmul(w, np.ones((8, 5), np.float32))
    >>> y.chunks, float(y.sum().compute())
    (((4, 4), (5,)), 120.0)
    """
    w, x = _sharded(w, "rows"), _lines(x, "x", 0, "columns")
    (m, k), made = w.shape, _result(w, x, out_dtype)
    check_shape("x", x, x.shape[0] == k, f"shape ({k}, columns)")
    told = {"out_dtype": made, "activation": check_activation(activation)}
    biases = _biases(bias, m, w.edges)
    chunks = x.to_delayed()[0]
    product = dask.delayed(_sparse_dense, pure=True)
    return da.block([
        [da.from_delayed(product(piece, chunk, added, **told), (stop - start, columns), made.dtype)
         for chunk, columns in zip(chunks, x.chunks[1], strict=True)]
        for piece, (start, stop), added in zip(w.pieces, pairwise(w.edges), biases, strict=True)])


def dense_sparse_matmul(x: Any, w: ShardedMatrix | BlockSparseMatrix, *, out_dtype: object = None,
                        bias: object = None, activation: str | None = None) -> Any:
    """Multiply a dense by a block-sparse matrix, ``Y = activation(X W + bias)``: one task for each chunk and piece.

    Parameters
    ----------
    x : array_like or dask.array.Array, shape (n, k)
        Its chunks of rows are multiplied apart; chunks of its columns are put together first.
    w : ShardedMatrix of columns, or BlockSparseMatrix, shape (k, m)
        A layer's ``W'`` is ``shard(w.T, parts, axis="columns")``.
    out_dtype, bias, activation
        As for `popsparse.static.dense_sparse_matmul`.

    Returns
    -------
    dask.array.Array, shape (n, m)

    Notes
    -----
    Each task is `popsparse.static.dense_sparse_matmul`, whose contract it has.
    """
    w, x = _sharded(w, "columns"), _lines(x, "x", 1, "rows")
    (k, m), made = w.shape, _result(w, x, out_dtype)
    check_shape("x", x, x.shape[1] == k, f"shape (rows, {k})")
    told = {"out_dtype": made, "activation": check_activation(activation)}
    biases = _biases(bias, m, w.edges)
    product = dask.delayed(_dense_sparse, pure=True)
    return da.block([
        [da.from_delayed(product(chunk, piece, added, **told), (rows, stop - start), made.dtype)
         for piece, (start, stop), added in zip(w.pieces, pairwise(w.edges), biases, strict=True)]
        for [chunk], rows in zip(x.to_delayed(), x.chunks[0], strict=True)])


def sparse_grad_w(w: ShardedMatrix | BlockSparseMatrix, grads: Any, x: Any, *, out_dtype: object = None) -> Any:
    """Return the gradient of the stored values for ``Y = W X``, ``dY X'`` where W has blocks: one task for each piece.

    Parameters
    ----------
    w : ShardedMatrix of rows, or BlockSparseMatrix, shape (m, k)
        No transposed view. Its values are not read.
    grads : array_like or dask.array.Array, shape (m, n)
    x : array_like or dask.array.Array, shape (k, n)
        Every task takes all of it: columns are the depth here.
    out_dtype
        As for `popsparse.static.sparse_grad_w`.

    Returns
    -------
    dask.array.Array, shape of the blocks of `w`
        In chunks of the pieces' blocks.

    Notes
    -----
    Each task is `popsparse.static.sparse_grad_w`, whose contract it has.
    """
    w = _sharded(w, "rows")
    if not w.stored_by_rows:
        raise bad_argument("w", "a transposed view", "a matrix that is stored by its rows: see BlockSparseMatrix.copy")
    grads, x = _lines(grads, "grads", 1, "rows"), _lines(x, "x", 0, "columns").rechunk(-1)
    (m, k), sides, _ = w.matrix
    if grads.shape[0] != m or x.shape != (k, grads.shape[1]):
        raise bad_argument("x", f"shape {x.shape} beside grads of {grads.shape}", f"shapes ({k}, n) and ({m}, n)")
    wanted = product_format(_format("grads", grads), _format("x", x))
    made = checked_format("out_dtype", out_dtype, wanted)
    grads = grads.rechunk((tuple(np.diff(w.edges).tolist()), -1))
    product = dask.delayed(static.sparse_grad_w, pure=True)
    [[columns]] = x.to_delayed()
    parts = [da.from_delayed(product(piece, given, columns, out_dtype=made), (count, *sides), made.dtype)
             for piece, count, [given] in zip(w.pieces, w.blocks, grads.to_delayed(), strict=True)]
    return da.concatenate(parts)


def _sparse_dense(w: BlockSparseMatrix, x: Any, bias: Any, **how: Any) -> Any:
    return static.sparse_dense_matmul(w, x, bias=bias, **how)


def _dense_sparse(x: Any, w: BlockSparseMatrix, bias: Any, **how: Any) -> Any:
    return static.dense_sparse_matmul(x, w, bias=bias, **how)


def _sharded(w: Any, axis: str) -> ShardedMatrix:
    if isinstance(w, BlockSparseMatrix):
        return shard(w, 1, axis=axis)
    if not isinstance(w, ShardedMatrix):
        raise bad_type("w", type(w).__name__, "a BlockSparseMatrix, or a ShardedMatrix: see shard")
    if w.axis != axis:
        raise bad_argument("w", f"pieces of {w.axis}", f"pieces of {axis}: shard(w, parts, axis={axis!r})")
    return w


def _lines(x: Any, name: str, whole_axis: int, lines: str) -> Any:
    """Return a matrix as a Dask array that is cut along its other axis alone."""
    if not isinstance(x, da.Array):
        x = da.from_array(as_array(name, x, "a matrix, or a dask.array.Array", np.float32), chunks=-1)
    if x.ndim != 2:
        raise bad_argument(name, f"{x.ndim} dimensions", f"2, in chunks of {lines}")
    if any(np.isnan(extent) for extent in x.shape):
        raise bad_argument(name, "chunks of unknown size", "known ones: see its compute_chunk_sizes()")
    return x.rechunk({whole_axis: -1})


def _format(name: str, x: Any) -> Format:
    return checked_format(name, x.dtype, format_of("float32"))


def _result(w: ShardedMatrix, x: Any, out_dtype: object) -> Format:
    return checked_format("out_dtype", out_dtype, product_format(w.matrix[2], _format("x", x)))


def _biases(bias: object, lines: int, edges: Sequence[int]) -> list[Any]:
    """Return the part of a bias that belongs to each piece."""
    if bias is None:
        return [None] * (len(edges) - 1)
    numbers = as_array("bias", bias, "one number for each row of the result, or each column", np.float32)
    check_shape("bias", numbers, numbers.shape == (lines,), f"shape ({lines},)")
    return [numbers[start:stop] for start, stop in pairwise(edges)]
