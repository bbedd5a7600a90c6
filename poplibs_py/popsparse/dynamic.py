"""Products with a sparse operand whose pattern is new at each call: what a pattern costs is linear in its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..checks import flag, whole
from ..errors import bad_argument, bad_type
from ..formats import Array
from ..ops import Operand, Placed, Request, place_of, placed_request
from ..target import Target, TargetLike
from .capacity import Capacity
from .embedding import slice_request, update_request
from .matrix import BlockSparseMatrix
from .operands import Form, check_matrix, sparse_operand
from .options import memory_of
from .pattern import room_for
from .sddmm.api import RUN_SAMPLED, plan_sampled, run_sampled, sddmm_request
from .sddmm.plan import SddmmPlan
from .spmm.api import Epilogue, plan_product, product_verbs, spmm_request
from .spmm.params import BACKWARD, FORWARD, PLAIN, SWAPPED, Forms
from .spmm.plan import SparsePlan
from .spmm.prepared import PreparedDense
from .verbs import PRODUCT, planned, sparse_op

__all__ = ["Capacity", "SddmmPlan", "SparsePlan", "compile_dense_sparse_matmul", "compile_fully_connected_fwd",
           "compile_fully_connected_grad_a", "compile_fully_connected_sparse_grad_w", "compile_sparse_dense_matmul",
           "dense_sparse_matmul", "embedding_slice", "embedding_update_add", "fully_connected_fwd",
           "fully_connected_grad_a", "fully_connected_sparse_grad_w", "plan_dense_sparse_matmul",
           "plan_fully_connected_fwd", "plan_fully_connected_grad_a", "plan_fully_connected_sparse_grad_w",
           "plan_sparse_dense_matmul", "sparse_dense_matmul"]


def _product(forms: Forms, name: str, /, w: Any, out: Any, out_dtype: Any, capacity: Any, target: TargetLike,
             available_memory_proportion: Any, strict_memory: Any, options: Any, bias: Any = None,
             activation: Any = None, transpose_lhs: Any = False, transpose_rhs: Any = False, **dense: Any) -> Request:
    """Describe a product of a matrix and what is dense on the machine that it names: a modelled one, or this CPU."""
    op, how, ((x_name, x),) = f"popsparse.dynamic.{name}", Epilogue(out, out_dtype, bias, activation), dense.items()
    backward, forms = forms is BACKWARD, _forms_of(forms, transpose_lhs, transpose_rhs, x)

    def there(machine: Target) -> Request | str:
        from .fully_connected.modelled import dynamic_request, lacks  # only here: to import it takes its time

        if lacking := lacks(w, (x,), how.out, how.out_dtype, how.bias, how.activation):
            return lacking
        room, more = _planning(w, capacity, available_memory_proportion, strict_memory,
                               *(["do_grad_a_pass"] if backward else []))
        return dynamic_request(w, x, how.out, how.out_dtype, machine, options, more, forms, room, x_name, backward)

    def here(placed: Placed[Any]) -> Request:
        matrix = check_matrix("w", w)
        room = _room(matrix, capacity)
        # A call is found again by about how many blocks there are: one that does not fit may follow one that does.
        return spmm_request(op, sparse_operand("w", matrix, forms[0] == "swapped"), x, how,
                            memory_of(available_memory_proportion, strict_memory, options), forms, x_name=x_name,
                            room=room, keep=room >= room_for(matrix.n_blocks), placed=placed)

    request = placed_request(op, target, there, here)
    _grow(w, capacity)
    return request


@sparse_op("popsparse::dynamic::sparseDenseMatMul", bound="spmm.bound:dynamic_sparse_dense_matmul_bound",
           draws="dynamic_sparse_dense_matmul_calls", by=partial(_product, PLAIN))
def sparse_dense_matmul(w: BlockSparseMatrix, x: Array | PreparedDense, *, transpose_lhs: bool = False,
                        transpose_rhs: bool = False, capacity: Capacity | None = None, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Multiply a block-sparse matrix with a new pattern by a dense matrix: ``Y = activation(op(W) op(X) + bias)``.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
    x : array_like or QuarterArray, shape (..., k, n), or (groups, k, n) where `w` has groups; or PreparedDense
    transpose_lhs, transpose_rhs : bool, optional
        Whether to take `w`, `x` transposed.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::sparseDenseMatMul``. The numerics contract is that of the static
    product, bit for bit.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, dynamic
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32), 2)
    >>> dynamic.sparse_dense_matmul(w, np.full((4, 1), 2, np.float32)).T
    array([[2., 2., 2., 2.]], dtype=float32)
    """


@sparse_op("popsparse::dynamic::denseSparseMatMul", bound="spmm.bound:dynamic_dense_sparse_matmul_bound",
           draws="dynamic_dense_sparse_matmul_calls", by=partial(_product, SWAPPED))
def dense_sparse_matmul(x: Array | PreparedDense, w: BlockSparseMatrix, *, transpose_lhs: bool = False,
                        transpose_rhs: bool = False, capacity: Capacity | None = None, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Multiply a dense matrix by a block-sparse one with a new pattern: ``Y = activation(op(X) op(W) + bias)``.

    Parameters
    ----------
    x : array_like or QuarterArray, shape (..., n, k), or (groups, n, k) where `w` has groups; or PreparedDense
    w : BlockSparseMatrix, shape (k, m)
    transpose_lhs, transpose_rhs : bool, optional
        Whether to take `x`, `w` transposed.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::denseSparseMatMul``. The numerics contract is that of the static
    product, bit for bit.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, dynamic
    >>> w = BlockSparseMatrix.from_dense(np.eye(4, dtype=np.float32), 2)
    >>> dynamic.dense_sparse_matmul(np.full((1, 4), 2, np.float32), w)
    array([[2., 2., 2., 2.]], dtype=float32)
    """


@sparse_op("popsparse::dynamic::fullyConnectedFwd", bound="spmm.bound", by=partial(_product, FORWARD))
def fully_connected_fwd(w: BlockSparseMatrix, acts: Array, *, capacity: Capacity | None = None, out: Any = None,
                        out_dtype: object = None, bias: object = None, activation: str | None = None,
                        available_memory_proportion: float | None = None, strict_memory: bool = False,
                        options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Apply a fully connected layer with sparse weights: ``acts W'`` for each group.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (outputs, inputs)
    acts : array_like or QuarterArray, shape (batch, groups * inputs)
    bias : array_like, shape (outputs,) or (groups, outputs), optional

    Returns
    -------
    numpy.ndarray or QuarterArray, shape (batch, groups * outputs)

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::fullyConnectedFwd``: the weights come first, as there.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, dynamic
    >>> w = BlockSparseMatrix.from_dense(np.array([[1, 0], [0, 0], [3, 0]], np.float32), 1)
    >>> dynamic.fully_connected_fwd(w, np.array([[2, 5]], np.float32))
    array([[2., 0., 6.]], dtype=float32)
    """


@sparse_op("popsparse::dynamic::fullyConnectedGradA", bound="spmm.bound", by=partial(_product, BACKWARD))
def fully_connected_grad_a(w: BlockSparseMatrix, grads: Array, *, capacity: Capacity | None = None, out: Any = None,
                           out_dtype: object = None, available_memory_proportion: float | None = None,
                           strict_memory: bool = False, options: Mapping[str, Any] | None = None,
                           target: TargetLike = None) -> Any:
    """Return the gradient of a layer's input: ``grads W`` for each group, from W as it is stored.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (outputs, inputs)
    grads : array_like or QuarterArray, shape (batch, groups * outputs)

    Returns
    -------
    numpy.ndarray or QuarterArray, shape (batch, groups * inputs)

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::fullyConnectedGradA``: the weights come first, as there.
    """


@sparse_op("popsparse::dynamic::fullyConnectedSparseGradW", bound="sddmm.bound")
def fully_connected_sparse_grad_w(w: BlockSparseMatrix, grads: Array, acts: Array, *, capacity: Capacity | None = None,
                                  out: Any = None, out_dtype: object = None,
                                  available_memory_proportion: float | None = None, strict_memory: bool = False,
                                  options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Return the gradient of a layer's stored weights: ``grads' acts`` at the pattern of `w`.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (outputs, inputs)
        Its values are not read.
    grads : array_like or QuarterArray, shape (batch, groups * outputs)
    acts : array_like or QuarterArray, shape (batch, groups * inputs)
    capacity : Capacity, optional
        That of the layer's other passes. It grows here too where `w` has more blocks, although programs of this pass do
        not depend on their number.

    Returns
    -------
    numpy.ndarray or QuarterArray, shape of ``w.blocks``
        One gradient for each stored value, in the same order; zero for the padding of edge blocks.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::fullyConnectedSparseGradW``: the weights come first, as there. No
    dense intermediate is made. Products of 16-bit and 8-bit operands are exact. A sum is kept as interleaved FP32
    partial sums, one for each lane of the instruction set's vectors, which are added pairwise at the end. The bits are
    the same for any number of threads. On a modelled machine the sums are those of the layer's buckets.
    """
    op = "popsparse.dynamic.fully_connected_sparse_grad_w"

    def there(machine: Target) -> Request | str:
        from .fully_connected.gradient import gradient_request  # only here: to import it takes its time
        from .fully_connected.modelled import lacks

        if lacking := lacks(w, (grads, acts), out, out_dtype):
            return lacking
        room, more = _planning(w, capacity, available_memory_proportion, strict_memory, "do_grad_w_pass")
        return gradient_request(w, grads, acts, out, out_dtype, machine, options, more, room)

    def here(placed: Placed[Any]) -> Request:
        memory = memory_of(available_memory_proportion, strict_memory, options)
        _room(check_matrix("w", w), capacity)
        return sddmm_request(op, w, grads, acts, out, out_dtype, memory, x_name="acts", form="layer", placed=placed)

    request = placed_request(op, target, there, here)
    _grow(w, capacity)
    return request


@sparse_op("popsparse::dynamic::embeddingSlice", bound="embedding_bound", draws="sparse_embedding_slice_calls")
def embedding_slice(w: BlockSparseMatrix, indices: Any, *, out: Any = None, out_dtype: object = None,
                    batch: int | None = None, available_memory_proportion: float | None = None,
                    strict_memory: bool = False, options: Mapping[str, Any] | None = None,
                    target: TargetLike = None) -> Any:
    """Return rows of a sparse matrix, dense: zeros where nothing is stored.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (rows, columns)
        For example the weights of a layer; of one group.
    indices : array_like of int, any shape
        From 0 to below `rows`.
    batch : int, optional
        On a modelled machine, that of the layer whose weights these are (default: as many as there are indices).
    available_memory_proportion, strict_memory, options
        The layer's, there: see `FullyConnectedOptions`. They are checked and change nothing on this CPU.
    target : Target or str, optional
        The machine; by default this CPU. A modelled one has `w` in the buckets of the layer's plan; matrix and result
        are of one type, FP16 or FP32. The record tells what tiles hold and receive, no cycles: PopLibs' cost of it is
        not known here.

    Returns
    -------
    numpy.ndarray or QuarterArray, that shape and (columns,)

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::embeddingSlice``. Values are decoded exactly and rounded once to
    the result's format.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, dynamic
    >>> w = BlockSparseMatrix.from_dense(np.diag([1.0, 2.0, 4.0]), 1)
    >>> dynamic.embedding_slice(w, [2, 0])
    array([[0., 0., 4.],
           [1., 0., 0.]], dtype=float32)
    """
    request = slice_request(w, indices, out, out_dtype)
    return _by_index("embedding_slice", request, w, (), (out, out_dtype), batch,
                     (available_memory_proportion, strict_memory, options), target)


@sparse_op("popsparse::dynamic::embeddingUpdateAdd", bound="embedding_bound", draws="sparse_embedding_update_add_calls")
def embedding_update_add(w: BlockSparseMatrix, slices: Array, indices: Any, scale: float = 1.0, *,
                         out: BlockSparseMatrix | None = None, batch: int | None = None,
                         available_memory_proportion: float | None = None, strict_memory: bool = False,
                         options: Mapping[str, Any] | None = None, target: TargetLike = None) -> Any:
    """Add rows to those of a sparse matrix, ``W[indices] += scale * slices``, where something is stored.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (rows, columns)
        Of one group.
    slices : array_like or QuarterArray, the shape of `indices` and (columns,)
    indices : array_like of int, any shape
        From 0 to below `rows`; the same row may come several times.
    scale : float, optional
        A finite number (default 1), rounded to FP32.
    out : BlockSparseMatrix, optional
        Where to write the result: a matrix of the pattern, format and scale of `w`, which may be `w` itself.
    batch, available_memory_proportion, strict_memory, options, target
        As for `embedding_slice`; the layer is planned with the gradient of its weights, as PopLibs asks.

    Returns
    -------
    BlockSparseMatrix
        `out`, or a new matrix that shares `w`'s pattern.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::dynamic::embeddingUpdateAdd``. Each product is rounded to FP32, sums are
    FP32 in the order of the indices, beginning with what is stored, and rounded once to `w`'s format at its scale.

    Examples
    --------
    >>> from poplibs_py.popsparse import BlockSparseMatrix, dynamic
    >>> w = BlockSparseMatrix.from_dense(np.eye(3), 1)
    >>> dynamic.embedding_update_add(w, np.ones((2, 3), np.float32), [1, 1], 0.5).to_dense().diagonal().tolist()
    [1.0, 2.0, 1.0]
    """
    request = update_request(w, slices, indices, scale, out)
    return _by_index("embedding_update_add", request, w, (slices,), (out, None), batch,
                     (available_memory_proportion, strict_memory, options), target)


def _by_index(name: str, request: Request, w: BlockSparseMatrix, slices: tuple[Any, ...], result: tuple[Any, Any],
              batch: int | None, how: tuple[Any, Any, Any], target: TargetLike) -> Request:
    """Make a request that of the machine that a call names, if that is a modelled one."""
    size = None if batch is None else whole("batch", batch, 1, 2**24)
    proportion, strict, options = how
    rows = request.operands[-2]
    assert isinstance(rows, Operand)
    wanted = rows.array.size

    def plan_on(machine: Target) -> Any:
        from .embedding_modelled import embedding_lacks, tiles_of  # only here: to import it takes its time

        if lacking := embedding_lacks(w, slices, *result):
            return lacking
        _, more = _planning(w, None, proportion, strict, *(["do_grad_w_pass"] if slices else []))
        return tiles_of(w, wanted, size, machine, options, more)

    placed = place_of(f"popsparse.dynamic.{name}", target, plan_on)
    if placed.host is not None:
        memory_of(*how)
    return request.with_(placed=placed)


def _forms_of(forms: Forms, transpose_lhs: object, transpose_rhs: object, x: object = None) -> Forms:
    """Return how W and X are taken, as a call says of the first and of the second operand."""
    names = [("transpose_lhs", transpose_lhs), ("transpose_rhs", transpose_rhs)][:: -1 if forms is SWAPPED else 1]
    turn_w, turn_x = (flag(*each) for each in names)
    if turn_x and isinstance(x, PreparedDense):
        raise bad_argument(names[1][0], True, "False where x is a PreparedDense")
    other: dict[Form, Form] = {"plain": "swapped", "swapped": "plain"}
    return other[forms[0]] if turn_w else forms[0], other[forms[1]] if turn_x else forms[1], forms[2]


def _planning(w: Any, capacity: Capacity | None, proportion: float | None, strict: bool,
              *passes: str) -> tuple[int, dict[str, Any]]:
    """Return how many blocks a modelled machine's plan has room for, and its options."""
    matrix = check_matrix("w", w)
    more: dict[str, Any] = {"strict_memory": strict, **dict.fromkeys(passes, True)}
    if proportion is not None:
        more["available_memory_proportion"] = proportion
    return matrix.n_blocks if capacity is None else _room(matrix, capacity), more


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


def _plan(forms: Forms, op: str, w: Any, n: Any, *, capacity: Capacity | None = None, transpose_lhs: object = False,
          transpose_rhs: object = False, **how: Any) -> SparsePlan:
    forms = _forms_of(forms, transpose_lhs, transpose_rhs)
    return plan_product(op, w, n, forms, _room(check_matrix("w", w), capacity), **how)


def _plan_sampled(op: str, w: Any, n: Any, *, capacity: Capacity | None = None, **how: Any) -> SddmmPlan:
    _room(check_matrix("w", w), capacity)
    return plan_sampled(op, w, n, "layer", **how)


plan_sparse_dense_matmul, compile_sparse_dense_matmul = product_verbs(sparse_dense_matmul, partial(_plan, PLAIN))
plan_dense_sparse_matmul, compile_dense_sparse_matmul = product_verbs(dense_sparse_matmul, partial(_plan, SWAPPED))
plan_fully_connected_fwd, compile_fully_connected_fwd = product_verbs(fully_connected_fwd, partial(_plan, FORWARD))
plan_fully_connected_grad_a, compile_fully_connected_grad_a = product_verbs(
    fully_connected_grad_a, partial(_plan, BACKWARD))
plan_fully_connected_sparse_grad_w, compile_fully_connected_sparse_grad_w = planned(
    fully_connected_sparse_grad_w, SddmmPlan, _plan_sampled, run_sampled, RUN_SAMPLED, PRODUCT, "dtype", "x_dtype")
