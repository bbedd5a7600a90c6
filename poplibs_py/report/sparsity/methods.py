"""What takes part in a case: this library's methods in each type, and the peers' routes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy import sparse

from ...config import settings
from ...formats import E4M3, Array, Format, format_of
from ...kernels import Kernel, select
from ...poplin import matmul, plan_matmul
from ...poplin.gemm.plan import GemmPlan
from ...popsparse import BlockSparseMatrix, dynamic, static
from ...popsparse.sddmm.model import sampled_compute_format
from ...popsparse.spmm.model import compute_format_of, kernel_of
from ...program import rounded
from ...target import Target
from ..peers import Route, dense_routes, sparse_routes
from .cases import TYPES, Case
from .check import Check, dense_check, forward_check, grad_a_check, grad_w_check
from .record import OURS

_PEER_FORMATS = TYPES | {"FP8": E4M3}  # MKL's 8-bit formats are the OCP pair


@dataclass(frozen=True)
class Contestant:
    """One method or route, ready to run in a case.

    Attributes
    ----------
    library, method, type : str
        As the record has them.
    run : callable
        One timed call.
    judge : callable
        Makes one call with each pattern and returns the largest error and the largest share of its bound.
    bytes : int
        Bytes of the operands and the result.
    kernel, isa, plan : str
        What the library says that it runs.
    """

    library: str
    method: str
    type: str
    run: Callable[[], Any]
    judge: Callable[[], tuple[float, float]]
    bytes: int
    kernel: str = ""
    isa: str = ""
    plan: str = ""


def method_contestants(case: Case, type_name: str, methods: Sequence[str]) -> Iterator[Contestant]:
    """Return this library's contestants of one type.

    Parameters
    ----------
    case : Case
        The problem.
    type_name : str
        One of `TYPES`.
    methods : sequence of str
        Some of `METHODS`.
    """
    operands = _Operands(case, type_name)
    for method in methods:
        yield _dense(operands) if method == "dense" else operands.contestant(method)


class _Operands:
    """The operands of a case in one type, built when a method asks for them and shared by all."""

    def __init__(self, case: Case, type_name: str) -> None:
        self.case, self.type, self.format = case, type_name, TYPES[type_name]
        self._checked: dict[tuple[str, int], Check] = {}
        self._weights: list[BlockSparseMatrix] = []

    def weights(self, count: int = 1) -> list[BlockSparseMatrix]:
        """W, and others with as many blocks in other places."""
        while len(self._weights) < count:
            self._weights.append(self.case.weights(self.type, len(self._weights)))
        return self._weights[:count]

    def right(self, task: str) -> list[Array]:
        """The dense operands of a product as its operation and its check take them, after W."""
        dense = {"forward": ["inputs"], "grad_a": ["gradients"], "grad_w": ["gradients", "inputs"]}[task]
        return [getattr(self.case, name).astype(self.format.dtype, copy=False) for name in dense]

    def check(self, task: str, index: int = 0) -> Check:
        """The check of one product with the first or another W; it holds for every method."""
        if (task, index) not in self._checked:
            w = self.weights(index + 1)[index]
            self._checked[task, index] = _CHECKS[task](w, *self.right(task), flushes=self.type != "FP32")
        return self._checked[task, index]

    def contestant(self, method: str) -> Contestant:
        """A contestant of a block-sparse product; a dynamic one meets another pattern in each call."""
        use, _, gradient = method.partition("_")
        task, case = gradient or "forward", self.case
        weights, right = self.weights(2 if use == "dynamic" else 1), self.right(task)
        shapes = {"forward": (case.m, case.n), "grad_a": (case.k, case.n), "grad_w": weights[0].blocks.shape}
        out = np.empty(shapes[task], np.float32)
        calls = [partial(_OPS[use][task], w, *right, out=out) for w in weights]
        touched = weights[0].nbytes + sum(array.nbytes for array in right) + out.nbytes
        compute, kernel = _kernel(task, self.format.name, weights[0].block_shape)
        return Contestant(
            OURS, METHODS[method], self.type, _in_turn(calls), lambda: self._judged(task, calls), touched,
            kernel.name, kernel.level, f"{use} pattern, products in {compute}")

    def _judged(self, task: str, calls: Sequence[Callable[[], Array]]) -> tuple[float, float]:
        """The worst verdict on the calls, one with each W."""
        errors, shares = zip(*(self.check(task, i).judge(call()) for i, call in enumerate(calls)), strict=True)
        return max(errors), max(shares)


def _dense(operands: _Operands) -> Contestant:
    w, x, check = _dense_operands(*operands.case.shape, operands.case.seed, operands.format)
    out = np.empty((w.shape[0], x.shape[1]), np.float32)
    target = Target.host(settings.num_threads)
    plan = plan_matmul(w.shape, x.shape, dtype=w.dtype, out_dtype=out.dtype, target=target)
    assert isinstance(plan, GemmPlan)
    run = partial(matmul, w, x, out=out, target=target)
    return Contestant(
        OURS, "dense", operands.type, run, lambda: check.judge(run()), w.nbytes + x.nbytes + out.nbytes,
        plan.kernel.name, plan.kernel.level, f"blocks {plan.mc}x{plan.nc}x{plan.kc}, products in {plan.compute_format}")


def _kernel(task: str, name: str, block_shape: tuple[int, int]) -> tuple[str, Kernel]:
    """The compute format of a product of one format with itself, and the kernel that multiplies."""
    if task == "grad_w":
        compute = sampled_compute_format(name, name)
        return compute, select("sparse", "sample", f"{compute},{compute}->any").kernel
    return compute_format_of(name, name, block_shape), kernel_of(name, name, block_shape)


def _in_turn(calls: Sequence[Callable[[], Array]]) -> Callable[[], Array]:
    if len(calls) == 1:
        return calls[0]
    following = itertools.cycle(calls)
    return lambda: next(following)()


@lru_cache(maxsize=8)
def _dense_operands(m: int, k: int, n: int, seed: int, kind: Format) -> tuple[Array, Array, Check]:
    """The operands of a dense product and its check, which cases of one shape and seed share."""
    case = Case(m, k, n, 1.0, 1, seed)
    scale = case.scale(kind)
    w, x = (v.astype(kind.dtype, copy=False) for v in (case.dense_weights / np.float32(2.0**scale), case.inputs))
    return w, x, dense_check(w, x)


def peer_contestants(case: Case, libraries: Sequence[str], tasks: Sequence[str], types: Sequence[str],
                     dense: bool = True) -> Iterator[Contestant]:
    """Return the routes of the peers: dense in each type that they take, sparse in FP32.

    Parameters
    ----------
    case : Case
        The problem.
    libraries : sequence of str
        Some of `poplibs_py.report.peers.LIBRARIES`.
    tasks : sequence of str
        ``"forward"`` and ``"grad_a"``; no peer has a route of its own for the others.
    types : sequence of str
        Types of the dense routes; FP32 is always among them.
    dense : bool, optional
        Whether there are dense routes: their W has all m by k elements.
    """
    if dense and "forward" in tasks:
        for type_name in dict.fromkeys(["FP32", *types]):
            w, x, check = _dense_operands(*case.shape, case.seed, _PEER_FORMATS[type_name])
            yield from _routes(dense_routes(w, x), libraries, check, "", w.nbytes + x.nbytes)
    for task in tasks:
        if task == "grad_w":
            continue
        matrix, right, check = _sparse_operands(case, task)
        suffix = "" if task == "forward" else f"_{task}"
        touched = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes + right.nbytes
        yield from _routes(sparse_routes(matrix, right), libraries, check, suffix, touched)


def _sparse_operands(case: Case, task: str) -> tuple[Any, Array, Check]:
    """A case's float32 matrix in SciPy's form, its right operand and the check of their product."""
    operands = _Operands(case, "FP32")
    w = operands.weights()[0]
    side = case.block
    rows, columns = (rounded(extent, side) for extent in w.shape)
    matrix: Any = sparse.bsr_array((w.blocks, w.column_indices, w.row_offsets.astype(np.int32)), shape=(rows, columns))
    right, padded = (case.inputs, columns) if task == "forward" else (case.gradients, rows)
    right = np.pad(right, ((0, padded - right.shape[0]), (0, 0)))
    if task == "grad_a":
        matrix = matrix.T.tobsr((side, side))
    if side == 1:
        matrix = matrix.tocsr()
    matrix.sort_indices()
    return matrix, np.ascontiguousarray(right), operands.check(task)


def _routes(routes: Sequence[Route], libraries: Sequence[str], check: Check, suffix: str,
            touched: int) -> Iterator[Contestant]:
    for route in routes:
        if route.library in libraries:
            yield Contestant(route.library, route.method + suffix, _type_of(route.format), route.run,
                             partial(_judge_route, route, check), touched)


def _judge_route(route: Route, check: Check) -> tuple[float, float]:
    result, rounded_to = route.result()
    return check.judge(result, rounded_to)


def _type_of(format_name: str) -> str:
    """A format's type in the records: every 8-bit format is FP8."""
    kind = format_of(format_name)
    return "FP8" if kind.bits == 8 else next(name for name, known in TYPES.items() if known == kind)


METHODS = {"dense": "dense", "static": "static_sparse", "dynamic": "dynamic_sparse",
           "static_grad_a": "static_sparse_grad_a", "static_grad_w": "static_sparse_grad_w",
           "dynamic_grad_a": "dynamic_sparse_grad_a", "dynamic_grad_w": "dynamic_sparse_grad_w"}
"""Methods as they are asked for, and as the records spell them."""

_CHECKS: dict[str, Callable[..., Check]] = {
    "forward": forward_check, "grad_a": grad_a_check, "grad_w": grad_w_check,
}  # fmt: skip
_OPS: dict[str, dict[str, Callable[..., Array]]] = {
    "static": {
        "forward": static.sparse_dense_matmul,
        "grad_a": lambda w, dy, out: static.sparse_dense_matmul(w.T, dy, out=out),
        "grad_w": static.sparse_grad_w,
    },
    "dynamic": {
        "forward": dynamic.sparse_dense_matmul,
        "grad_a": partial(dynamic.sparse_dense_matmul, transpose_lhs=True),
        "grad_w": lambda w, dy, x, out: dynamic.fully_connected_sparse_grad_w(w, dy.T, x.T, out=out),
    },
}
