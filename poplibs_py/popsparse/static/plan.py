"""Plans of static products: what will run, with how many bytes, and a callable that runs it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import bad_argument, bad_type, flag
from ...formats import FP32, Format
from ...immutable import Constant
from ...kernels import Kernel
from ...log import tell
from ..matrix import BlockSparseMatrix
from ..pattern import as_extent
from ..products.forward import product_of, run_product
from ..products.memory import UNBOUNDED, Memory, memory_of, temporary_bytes
from ..products.multiply import Dense, Product
from ..products.operands import (
    check_activation,
    check_bias,
    check_matrix,
    dense_operand,
    receiver,
    result_format,
    result_operand,
)
from ..products.slices import longest_row

__all__ = ["CompiledSparseMatmul", "SparsePlan", "compile_dense_sparse_matmul", "compile_sparse_dense_matmul",
           "plan_dense_sparse_matmul", "plan_sparse_dense_matmul"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SparsePlan:
    """How a product of a block-sparse matrix and a C-contiguous dense one will run.

    Attributes
    ----------
    product : Product
        All that the program depends on; of the transposed product where `swapped`.
    x_format, out_format : Format
    n_blocks : int
        Stored blocks of the matrix that it was planned for; others of as many or fewer may take its place.
    swapped : bool
        Whether the dense operand is the left one.
    memory : Memory
        The bound on temporary bytes that it keeps to.
    """

    product: Product
    x_format: Format
    out_format: Format
    n_blocks: int
    swapped: bool = False
    memory: Memory = UNBOUNDED

    @property
    def kernel(self) -> Kernel:
        """The kernel that multiplies."""
        return self.product.kernel

    @property
    def workspace_bytes(self) -> int:
        """Bytes of W's values, decoded; 0 where they are read as they are stored."""
        return self.product.workspace_bytes

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands: all threads' scratch, the workspace, blocks gathered for it."""
        return temporary_bytes(self.product)

    def explain(self) -> str:
        """Return the plan in words, one line for each decision."""
        p = self.product
        rows, depth = p.shape
        groups = f"{p.groups} x " if p.groups > 1 else ""
        order = "transposed, " if self.swapped else ""
        bound = "no bound" if self.memory.bound is None else f"bound {self.memory.bound * p.threads:,}"
        return "\n".join([
            f"sparse_dense_matmul {groups}[{rows}, {depth}] x [{depth}, {p.columns}]: {order}{self.n_blocks} blocks of "
            f"{p.block_shape[0]} x {p.block_shape[1]}, {p.w.format} x {p.x.format} -> {p.y.format}",
            *p.decisions(),
            f"  bytes     scratch {p.scratch_bytes:,} a thread, workspace {self.workspace_bytes + p.gathered_bytes:,}, "
            f"in all {self.temporary_bytes:,} ({bound})",
        ])

    __str__ = explain


_made: weakref.WeakSet[SparsePlan] = weakref.WeakSet()
"""The plans that were made here, as long as anyone keeps them."""


class CompiledSparseMatmul(Constant):
    """A planned product, to call many times; see `compile_sparse_dense_matmul`."""

    __slots__ = ("plan",)

    _KEEP = "the matrix, to plan and compile again"

    plan: SparsePlan

    def __init__(self, plan: SparsePlan) -> None:
        if not isinstance(plan, SparsePlan):
            raise bad_type("plan", type(plan).__name__, "a plan from plan_sparse_dense_matmul")
        if plan not in _made:  # kernels follow it blindly
            raise bad_argument("plan", "a plan with changes", "a plan as plan_sparse_dense_matmul returned it here")
        self._set(plan=plan)

    def __call__(self, w: BlockSparseMatrix, x: Any, *, out: Any = None, bias: Any = None) -> Any:
        """Multiply: `w` and `x` in the plan's shapes and formats, `x` in any strides; `out` as of the plain calls."""
        plan, matrix = self.plan, check_matrix("w", w)
        p, op = plan.product, matrix.T if plan.swapped else matrix
        operand = dense_operand("x", x)
        scale = op.scale if isinstance(op.scale, int) else None
        got = (op.shape, op.pattern.block_shape, op.groups, op.is_transposed, op.format.name, scale)
        planned = (p.shape, p.block_shape, p.groups, p.transposed, p.w.format, p.w.scale)
        if got != planned or op.n_blocks > plan.n_blocks:
            raise bad_argument("w", repr(matrix), f"one as planned for, of {plan.n_blocks} blocks at most")
        shape = self._shape(p.shape[1])
        if operand.array.shape != shape or operand.format != plan.x_format or operand.scale != p.x.scale:
            raise bad_argument("x", f"{operand.format} of shape {operand.array.shape}",
                               f"{plan.x_format} of shape {shape} without a scale")
        if (bias is not None) != p.bias:
            raise bad_argument("bias", "an array" if bias is not None else None, "as the plan has it")
        shape = self._shape(p.shape[0])
        dense = np.require(operand.array, None, ["C", "A"])
        y = result_operand(shape, receiver(out), plan.out_format, operand.given, op.blocks)
        if not y.array.flags.carray:
            raise bad_argument("out", f"strides {y.array.strides}", "a C-contiguous array, aligned")
        if p.slice_blocks and longest_row(op) > p.slice_blocks:  # another pattern's
            p = product_of(op, p.columns, p.x, p.y, p.bias, p.activation, None, plan.memory)
        if y.scale:
            p = replace(p, y=replace(p.y, scale=y.scale))
        a, b = (dense.swapaxes(-1, -2), y.array.swapaxes(-1, -2)) if plan.swapped else (dense, y.array)
        run_product(p, op, a, b, check_bias(bias, p.shape[0], p.groups), True)
        return y.array if out is None else out

    def _shape(self, extent: int) -> tuple[int, ...]:
        p = self.plan.product
        inner = (p.columns, extent) if self.plan.swapped else (extent, p.columns)
        return (p.groups, *inner) if p.groups > 1 else inner


def plan_sparse_dense_matmul(w: BlockSparseMatrix, n: int, *, dtype: Any = None, out_dtype: Any = None,
                             bias: bool = False, activation: str | None = None,
                             available_memory_proportion: float = 0, strict_memory: bool = False,
                             options: Mapping[str, Any] | None = None) -> SparsePlan:
    """Plan ``Y = activation(W X + bias)`` without running it.

    Parameters
    ----------
    w : BlockSparseMatrix, shape (m, k)
        Its values are not read.
    n : int
        Columns of X, which is C-contiguous.
    dtype, out_dtype : Format, dtype or str, optional
        Formats of X (default that of `w`) and of Y (default FP32).
    bias : bool, optional
        Whether there will be a bias (default False).
    activation : {None, "relu", "gelu", "silu"}, optional
    available_memory_proportion, strict_memory, options : optional
        The bound on temporary bytes, as for `sparse_dense_matmul`.

    Returns
    -------
    SparsePlan
        Its `explain` tells kernel, panels, threads and temporary bytes.

    Raises
    ------
    MemoryBoundError
        With `strict_memory`, if no plan keeps to the bound.

    Warns
    -----
    MemoryBoundWarning
        Otherwise, in that case.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix, static
    >>> w = BlockSparseMatrix.from_dense(np.eye(64, dtype=np.float32), 4)
    >>> plan = static.plan_sparse_dense_matmul(w, 8, activation="relu")
    >>> print(str(plan).splitlines()[0])
    sparse_dense_matmul [64, 64] x [64, 8]: 16 blocks of 4 x 4, float32 x float32 -> float32
    >>> static.compile_sparse_dense_matmul(plan)(w, -np.ones((64, 8), np.float32)).max()
    np.float32(0.0)
    """
    memory = memory_of(available_memory_proportion, strict_memory, options)
    return _plan(check_matrix("w", w), n, dtype, out_dtype, bias, activation, False, memory)


def plan_dense_sparse_matmul(w: BlockSparseMatrix, n: int, *, dtype: Any = None, out_dtype: Any = None,
                             bias: bool = False, activation: str | None = None,
                             available_memory_proportion: float = 0, strict_memory: bool = False,
                             options: Mapping[str, Any] | None = None) -> SparsePlan:
    """Plan ``Y = activation(X W + bias)`` for an X of n rows; as `plan_sparse_dense_matmul`."""
    memory = memory_of(available_memory_proportion, strict_memory, options)
    return _plan(check_matrix("w", w).T, n, dtype, out_dtype, bias, activation, True, memory)


def _plan(w: BlockSparseMatrix, n: int, dtype: Any, out_dtype: Any, bias: bool, activation: Any,
          swapped: bool, memory: Memory) -> SparsePlan:
    columns = as_extent("n", n, 0)
    x_format = w.format if dtype is None else result_format(dtype)
    out_format = FP32 if out_dtype is None else result_format(out_dtype)
    x, y = (_contiguous(w, extent, columns, fmt, swapped)
            for extent, fmt in zip(w.shape[::-1], (x_format, out_format), strict=True))
    product = product_of(w, columns, x, y, flag("bias", bias), check_activation(activation), None, memory)
    plan = SparsePlan(product, x_format, out_format, w.n_blocks, swapped, memory)
    _made.add(plan)
    tell("popsparse", plan)
    return plan


def _contiguous(w: BlockSparseMatrix, extent: int, columns: int, fmt: Format, swapped: bool) -> Dense:
    # A C-contiguous [extent, columns], or the transpose of a C-contiguous [columns, extent].
    size = fmt.itemsize
    group = extent * columns * size if w.groups > 1 else 0
    strides = (group, size, extent * size) if swapped else (group, columns * size, size)
    return Dense(fmt.name, strides)


def compile_sparse_dense_matmul(plan: SparsePlan) -> CompiledSparseMatmul:
    """Return a planned product as a callable: ``f(w, x, *, out=None, bias=None)``."""
    return CompiledSparseMatmul(plan)


compile_dense_sparse_matmul = compile_sparse_dense_matmul
