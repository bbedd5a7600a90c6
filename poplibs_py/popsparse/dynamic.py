"""Products with a sparse operand whose pattern is new at each call: what a pattern costs is linear in its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import bad_argument, bad_type, flag
from ..ops import Request, op
from ..planner import Memory
from .capacity import Capacity
from .matrix import BlockSparseMatrix
from .operands import check_matrix, sparse_operand
from .options import memory_of
from .pattern import room_for
from .sddmm.request import sddmm_request
from .spmm.prepared_dense import PreparedDense
from .spmm.request import Epilogue, spmm_request

__all__ = [
    "Capacity",
    "dense_sparse_matmul",
    "fully_connected_fwd",
    "fully_connected_grad_a",
    "fully_connected_sparse_grad_w",
    "sparse_dense_matmul",
]

Array = np.ndarray[Any, Any]

_BOUND = "popsparse.bound:"


@op("popsparse.dynamic.sparse_dense_matmul", poplibs="popsparse::dynamic::sparseDenseMatMul",
    reference=_BOUND + "dynamic_sparse_dense_matmul_bound", bound=_BOUND + "dynamic_sparse_dense_matmul_bound",
    draws="testing.calls:dynamic_sparse_dense_matmul_calls")
def sparse_dense_matmul(w: BlockSparseMatrix, x: Array | PreparedDense, *, transpose_lhs: bool = False,
                        transpose_rhs: bool = False, capacity: Capacity | None = None, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None) -> Any:
    """Multiply a block-sparse matrix with a new pattern by a dense matrix: ``Y = activation(op(W) op(X) + bias)``.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
    x : array_like or QuarterArray, shape (k, n), or (groups, k, n) where `w` has groups; or PreparedDense
    transpose_lhs, transpose_rhs : bool, optional
        Whether to take `w`, `x` transposed.
    capacity : Capacity, optional
        Blocks to make room for; by default what `w` has, rounded up.
    out, out_dtype, bias, activation, available_memory_proportion, strict_memory, options : optional
        As for `popsparse.static.sparse_dense_matmul`.

    Returns
    -------
    numpy.ndarray or QuarterArray, shape (m, n) or (groups, m, n)
        `out`, or a new array.

    Warns
    -----
    CapacityWarning
        If the pattern has more blocks than `capacity`, which then grows; not where the call is refused.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::sparseDenseMatMul``. The numerics contract is that of the static
    product, bit for bit.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, dynamic
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32), 2)
    >>> dynamic.sparse_dense_matmul(w, np.full((4, 1), 2, np.float32)).T
    array([[2., 2., 2., 2.]], dtype=float32)
    """
    memory = memory_of(available_memory_proportion, strict_memory, options)
    how = Epilogue(out, out_dtype, bias, activation)
    return _product(w, flag("transpose_lhs", transpose_lhs), x, how, capacity, memory,
                    x_swapped=_transposed(x, "transpose_rhs", transpose_rhs))


@op("popsparse.dynamic.dense_sparse_matmul", poplibs="popsparse::dynamic::denseSparseMatMul",
    reference=_BOUND + "dynamic_dense_sparse_matmul_bound", bound=_BOUND + "dynamic_dense_sparse_matmul_bound",
    draws="testing.calls:dynamic_dense_sparse_matmul_calls")
def dense_sparse_matmul(x: Array | PreparedDense, w: BlockSparseMatrix, *, transpose_lhs: bool = False,
                        transpose_rhs: bool = False, capacity: Capacity | None = None, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None) -> Any:
    """Multiply a dense matrix by a block-sparse one with a new pattern: ``Y = activation(op(X) op(W) + bias)``.

    Parameters
    ----------
    x : array_like or QuarterArray, shape (n, k), or (groups, n, k) where `w` has groups; or PreparedDense
    w : BlockSparseMatrix, shape (k, m)
    transpose_lhs, transpose_rhs : bool, optional
        Whether to take `x`, `w` transposed.
    capacity : Capacity, optional
        As for `sparse_dense_matmul`.
    out, out_dtype, bias, activation, available_memory_proportion, strict_memory, options : optional
        As for `popsparse.static.dense_sparse_matmul`.

    Returns
    -------
    numpy.ndarray or QuarterArray, shape (n, m) or (groups, n, m)
        `out`, or a new array.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::denseSparseMatMul``. The numerics contract is that of the static
    product, bit for bit.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, dynamic
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32), 2)
    >>> dynamic.dense_sparse_matmul(np.full((1, 4), 2, np.float32), w)
    array([[2., 2., 2., 2.]], dtype=float32)
    """
    memory = memory_of(available_memory_proportion, strict_memory, options)
    how = Epilogue(out, out_dtype, bias, activation, swapped=True)
    return _product(w, not flag("transpose_rhs", transpose_rhs), x, how, capacity, memory,
                    x_swapped=not _transposed(x, "transpose_lhs", transpose_lhs))


@op("popsparse.dynamic.fully_connected_fwd", poplibs="popsparse::dynamic::fullyConnectedFwd",
    reference=_BOUND + "fully_connected_fwd_bound", bound=_BOUND + "fully_connected_fwd_bound",
    draws="testing.calls:fully_connected_fwd_calls")
def fully_connected_fwd(w: BlockSparseMatrix, acts: Array, *, capacity: Capacity | None = None,
                        out: Any = None, out_dtype: object = None, bias: object = None,
                        activation: str | None = None, available_memory_proportion: float | None = None,
                        strict_memory: bool = False, options: Mapping[str, Any] | None = None) -> Any:
    """Apply a fully connected layer with sparse weights: ``acts W'`` for each group.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (outputs, inputs)
    acts : array_like or QuarterArray, shape (batch, groups * inputs)
    capacity, out, out_dtype, activation, available_memory_proportion, strict_memory, options : optional
        As for `sparse_dense_matmul`.
    bias : array_like, shape (outputs,) or (groups, outputs), optional

    Returns
    -------
    numpy.ndarray or QuarterArray, shape (batch, groups * outputs)

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::fullyConnectedFwd``.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, dynamic
    >>> w = BlockSparseMatrix.from_dense(np.array([[1, 0], [0, 0], [3, 0]], np.float32), 1)
    >>> dynamic.fully_connected_fwd(w, np.array([[2, 5]], np.float32))
    array([[2., 0., 6.]], dtype=float32)
    """
    memory = memory_of(available_memory_proportion, strict_memory, options)
    how = Epilogue(out, out_dtype, bias, activation, layer=True)
    return _product(w, False, acts, how, capacity, memory, x_name="acts")


@op("popsparse.dynamic.fully_connected_grad_a", poplibs="popsparse::dynamic::fullyConnectedGradA",
    reference=_BOUND + "fully_connected_grad_a_bound", bound=_BOUND + "fully_connected_grad_a_bound",
    draws="testing.calls:fully_connected_grad_a_calls")
def fully_connected_grad_a(w: BlockSparseMatrix, grads: Array, *, capacity: Capacity | None = None,
                           out: Any = None, out_dtype: object = None, available_memory_proportion: float | None = None,
                           strict_memory: bool = False, options: Mapping[str, Any] | None = None) -> Any:
    """Return the gradient of a layer's input: ``grads W`` for each group, from W as it is stored.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (outputs, inputs)
    grads : array_like or QuarterArray, shape (batch, groups * outputs)
    capacity, out, out_dtype, available_memory_proportion, strict_memory, options : optional
        As for `sparse_dense_matmul`.

    Returns
    -------
    numpy.ndarray or QuarterArray, shape (batch, groups * inputs)

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::fullyConnectedGradA``.
    """
    memory = memory_of(available_memory_proportion, strict_memory, options)
    return _product(w, True, grads, Epilogue(out, out_dtype, layer=True), capacity, memory, x_name="grads")


@op("popsparse.dynamic.fully_connected_sparse_grad_w", poplibs="popsparse::dynamic::fullyConnectedSparseGradW",
    reference=_BOUND + "fully_connected_sparse_grad_w_bound", bound=_BOUND + "fully_connected_sparse_grad_w_bound",
    draws="testing.calls:fully_connected_sparse_grad_w_calls")
def fully_connected_sparse_grad_w(w: BlockSparseMatrix, grads: Array, acts: Array, *,
                                  capacity: Capacity | None = None, out: Any = None, out_dtype: object = None,
                                  available_memory_proportion: float | None = None, strict_memory: bool = False,
                                  options: Mapping[str, Any] | None = None) -> Any:
    """Return the gradient of a layer's stored weights: ``grads' acts`` at the pattern of `w`.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (outputs, inputs)
        Its values are not read.
    grads : array_like or QuarterArray, shape (batch, groups * outputs)
    acts : array_like or QuarterArray, shape (batch, groups * inputs)
    capacity : Capacity, optional
        That of the layer's other passes, which grows here too where `w` has more blocks. Programs of this pass depend
        on no number of blocks.
    out : numpy.ndarray or QuarterArray, shape of ``w.blocks``, optional
    out_dtype : Format, dtype or str, optional
        Format of the result; by default as for `popsparse.static.sparse_dense_matmul`, of the formats of both operands.
    available_memory_proportion, strict_memory, options : optional
        As for `popsparse.static.sparse_grad_w`.

    Returns
    -------
    numpy.ndarray or QuarterArray, shape of ``w.blocks``
        One gradient for each stored value, in the same order; zero for the padding of edge blocks.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::fullyConnectedSparseGradW``. No dense intermediate is made.
    Products of 16-bit and 8-bit operands are exact; each sum is a number of interleaved partial sums in FP32, as many
    as the vectors of the instruction set have lanes, added pairwise; the bits are the same for any number of threads.
    """
    memory = memory_of(available_memory_proportion, strict_memory, options)
    _room(check_matrix("w", w), capacity)
    request = sddmm_request(w, grads, acts, out, out_dtype, memory, x_name="acts", layer=True)
    _grow(w, capacity)
    return request


def _transposed(x: Any, name: str, transposed: object) -> bool:
    """Whether the dense operand is to be taken transposed, as the argument of this name says."""
    wanted = flag(name, transposed)
    if wanted and isinstance(x, PreparedDense):
        raise bad_argument(name, True, "False where x is a PreparedDense")
    return wanted


def _product(w: Any, transpose: bool, x: Any, how: Epilogue, capacity: Capacity | None, memory: Memory, *,
             x_name: str = "x", x_swapped: bool = False) -> Request:
    matrix = check_matrix("w", w)
    room = _room(matrix, capacity)
    # A call is found again by about how many blocks there are: one that fits may then be followed by one that does not.
    keep = room >= room_for(matrix.n_blocks)
    request = spmm_request(sparse_operand("w", matrix, transpose), x, how, memory, x_name=x_name, x_swapped=x_swapped,
                           room=room, keep=keep)
    _grow(matrix, capacity)
    return request


def _room(w: BlockSparseMatrix, capacity: Capacity | None) -> int:
    """Return how many blocks a program has room for."""
    if capacity is None:
        return room_for(w.n_blocks)
    if not isinstance(capacity, Capacity):
        raise bad_type("capacity", type(capacity).__name__, "a Capacity")
    return capacity.room_for(w.n_blocks)


def _grow(w: BlockSparseMatrix, capacity: Capacity | None) -> None:
    # Once nothing is left to be refused: a call that is leaves the capacity as it was.
    if capacity is not None:
        capacity.hold(w.n_blocks)
