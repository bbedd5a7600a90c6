"""Products with a sparse operand whose pattern is new at each call: what a pattern costs is linear in its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type, flag
from ...formats import QuarterArray
from ...program import result_array
from ..matrix import BlockSparseMatrix
from ..products.forward import multiply
from ..products.memory import Memory, memory_of
from ..products.operands import Operand, check_matrix, dense_operand, receiver, result_format
from ..products.prepared import PreparedDense
from ..products.sample import sample
from .capacity import Capacity

__all__ = [
    "dense_sparse_matmul",
    "fully_connected_fwd",
    "fully_connected_grad_a",
    "fully_connected_sparse_grad_w",
    "sparse_dense_matmul",
]

Array = np.ndarray[Any, Any]


def sparse_dense_matmul(w: BlockSparseMatrix, x: Array | PreparedDense, *, transpose_lhs: bool = False,
                        transpose_rhs: bool = False, capacity: Capacity | None = None, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float = 0, strict_memory: bool = False,
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
    check_matrix("w", w)
    memory = memory_of(available_memory_proportion, strict_memory, options)
    left, right = w.T if flag("transpose_lhs", transpose_lhs) else w, _turned(x, "transpose_rhs", transpose_rhs)
    y = multiply(left, right, out=out, out_dtype=out_dtype, bias=bias, activation=activation,
                 capacity=_room(w, capacity), memory=memory)
    return _grown(w, capacity, y)


def dense_sparse_matmul(x: Array | PreparedDense, w: BlockSparseMatrix, *, transpose_lhs: bool = False,
                        transpose_rhs: bool = False, capacity: Capacity | None = None, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float = 0, strict_memory: bool = False,
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
    check_matrix("w", w)
    memory = memory_of(available_memory_proportion, strict_memory, options)
    left, right = _turned(x, "transpose_lhs", transpose_lhs), w if flag("transpose_rhs", transpose_rhs) else w.T
    y = multiply(right, left, out=out, out_dtype=out_dtype, bias=bias, activation=activation, swapped=True,
                 capacity=_room(w, capacity), memory=memory)
    return _grown(w, capacity, y)


def fully_connected_fwd(w: BlockSparseMatrix, acts: Array, *, capacity: Capacity | None = None,
                        out: Any = None, out_dtype: object = None, bias: object = None,
                        activation: str | None = None, available_memory_proportion: float = 0,
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
    return _layer(check_matrix("w", w), acts, "acts", capacity, out, out_dtype, bias, activation, memory)


def fully_connected_grad_a(w: BlockSparseMatrix, grads: Array, *, capacity: Capacity | None = None,
                           out: Any = None, out_dtype: object = None, available_memory_proportion: float = 0,
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
    return _layer(check_matrix("w", w).T, grads, "grads", capacity, out, out_dtype, None, None, memory)


def fully_connected_sparse_grad_w(w: BlockSparseMatrix, grads: Array, acts: Array, *,
                                  capacity: Capacity | None = None, out: Any = None, out_dtype: object = None,
                                  available_memory_proportion: float = 0.6, strict_memory: bool = False,
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
        Format of the result (default FP32, or that of `out`).
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
    check_matrix("w", w)
    left = _grouped("grads", grads, w.groups, w.shape[0])
    right = _grouped("acts", acts, w.groups, w.shape[1])
    batches = left.array.shape[-1], right.array.shape[-1]
    if batches[0] != batches[1]:
        raise bad_argument("acts", f"a batch of {batches[1]}", f"that of grads, {batches[0]}")
    memory = memory_of(available_memory_proportion, strict_memory, options)
    _room(w, capacity)
    return _grown(w, capacity, sample(w, left, right, out=out, out_dtype=out_dtype, memory=memory))


def _turned(x: Any, name: str, transposed: object) -> Any:
    # The dense operand, transposed where the argument of this name says so.
    if not flag(name, transposed):
        return x
    if isinstance(x, PreparedDense):
        raise bad_argument(name, True, "False where x is a PreparedDense")
    return dense_operand("x", x).moved(lambda array: array.swapaxes(-1, -2) if array.ndim >= 2 else array)


def _room(w: BlockSparseMatrix, capacity: Capacity | None) -> int:
    # Blocks that the program has room for: rounded up, patterns of about one size share a program.
    if capacity is None:
        return 1 << max(0, w.n_blocks - 1).bit_length()
    if not isinstance(capacity, Capacity):
        raise bad_type("capacity", type(capacity).__name__, "a Capacity")
    return capacity.room_for(w.n_blocks)


def _grown(w: BlockSparseMatrix, capacity: Capacity | None, y: Any) -> Any:
    # The capacity grows once the product is made: a call that is refused leaves it as it was.
    if capacity is not None:
        capacity.hold(w.n_blocks)
    return y


def _grouped(name: str, given: object, groups: int, width: int) -> Operand:
    # (batch, groups * width) seen as (groups, width, batch); to split an axis never copies.
    operand = dense_operand(name, given)
    shape = operand.array.shape
    if len(shape) != 2 or shape[1] != groups * width:
        raise bad_argument(name, f"shape {shape}", f"shape (batch, {groups * width})")
    return operand.moved(lambda array: array.reshape(shape[0], groups, width).transpose(1, 2, 0))


def _layer(w: BlockSparseMatrix, given: object, name: str, capacity: Capacity | None, out: Any, out_dtype: object,
           bias: object, activation: str | None, memory: Memory) -> Any:
    x = _grouped(name, given, w.groups, w.shape[1])
    wanted = (x.array.shape[2], w.groups * w.shape[0])
    given_out = result_array(wanted, result_format(out_dtype).dtype) if out is None else out
    if not isinstance(given_out, (np.ndarray, QuarterArray)) or given_out.shape != wanted:
        got = getattr(out, "shape", type(out).__name__)
        raise bad_argument("out", got, f"a numpy.ndarray or a QuarterArray of shape {wanted}")
    into = _grouped("out", receiver(given_out), w.groups, w.shape[0])
    multiply(w, x, out=into, out_dtype=out_dtype, bias=bias, activation=activation, capacity=_room(w, capacity),
             memory=memory)
    return _grown(w, capacity, given_out)
