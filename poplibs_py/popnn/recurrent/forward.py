"""A forward pass: one product of all inputs, then a loop of a product and a kernel for each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ...formats import FP32
from ...kernels import Selection
from ...ops import Array
from ...planner import Explanation
from ...planner.explain import considered_kernels
from ...poplin.gemm.params import MatrixLayout, contiguous
from ...program import ComputeSet, Executable, Loop, Program, temporary
from ...target import Target
from .cells import FORWARD, SCRATCH, Side, Strided, cells
from .params import RnnParams, checked_limits
from .products import StepProduct, lying, matrix_of, multiply, step_product

__all__ = ["Forward", "Loops", "Pass", "forward", "lengths_of", "looped", "summed_biases"]

_BUFFER, _PACKED, _PRODUCT, _INPUT, _BIAS, _LENGTHS, _ATTENTION, _RESET, _SECOND_PACKED, _SECOND = range(10)


@dataclass(frozen=True)
class Loops:
    """What repeats for every step.

    Attributes
    ----------
    executable : Executable
    products : tuple of StepProduct
        Whose weights are packed before.
    selection : Selection
        The kernel between them.
    """

    executable: Executable
    products: tuple[StepProduct, ...]
    selection: Selection

    def pack(self, p: RnnParams, weights: Array, gates: Sequence[Sequence[int]],
             transposed: bool = False) -> list[Array]:
        """Return the weights of these gates packed, for each product; of the products with their transposes, those."""
        packed = []
        for product, some in zip(self.products, gates, strict=True):
            matrix = matrix_of(weights, [p.order[gate] for gate in some], p.by_columns[1])
            packed.append(product.pack(matrix.T if transposed else matrix))
        return packed

    def explain(self, problem: str) -> Explanation:
        """Return what was decided."""
        products = ", ".join(f"{x.plan.kernel.label} [{x.plan.params.m}, {x.plan.params.k}] x "
                             f"[{x.plan.params.k}, {x.plan.params.n}]" for x in self.products)
        decisions = {"kernel": self.selection.kernel.label, "products of a step": products,
                     "threads": str(self.executable.threads)}
        return Explanation(problem, decisions, considered_kernels(self.selection))


class Pass:
    """What passes forward and backward share: params, and loops that are ready."""

    params: RnnParams
    loops: Loops
    direction = ""

    @property
    def threads(self) -> int:
        """Threads of the loop."""
        return self.loops.executable.threads

    @property
    def flops(self) -> int:
        """Operations of the products."""
        return self.params.flops

    def explain(self) -> Explanation:
        """Return what was decided."""
        return self.loops.explain(f"{self.params} {self.direction}")

    def __str__(self) -> str:
        return self.explain().words()


@dataclass(frozen=True, eq=False)
class Forward(Pass):
    """A forward pass, ready.

    Attributes
    ----------
    params : RnnParams
    offsets : tuple of int
        Where in the result's bytes output, last output, last cell state (of an LSTM) and what is saved begin.
    target : Target
    """

    params: RnnParams
    offsets: tuple[int, ...]
    target: Target
    loops: Loops = field(init=False)
    direction = "forward"

    def __post_init__(self) -> None:
        object.__setattr__(self, "loops", _loops(self.params, self.offsets, self.target))

    def __reduce__(self) -> tuple[Any, ...]:
        return forward, (self.params, self.offsets, self.target)

    def run(self, x: Array, weights: tuple[Array | None, Array], biases: Array | None, init: Sequence[Array | None],
            lengths: Array | None, attention: Array | None, buffer: Array) -> None:
        """Run on the operands, the lengths checked, and the bytes of the results."""
        p = self.params
        for state, offset in zip(init, self.offsets[1:], strict=False):
            last = np.ndarray((p.batch, p.outputs), p.state_dtype, buffer, offset)
            last[...] = 0 if state is None else state
        if not p.steps:
            return
        inputs = self._inputs(x, weights[0])
        bias = summed_biases(p, biases)
        every = range(p.gates)
        packed = self.loops.pack(p, weights[1], (every,) if len(self.loops.products) == 1 else (every[:2], every[2:]))
        rows, wide, unused = p.batch, p.outputs * (p.gates - (len(packed) > 1)), np.empty(0, np.uint8)
        arrays = [buffer, packed[0], temporary((rows, wide)), inputs, bias,
                  unused if lengths is None else lengths, unused if attention is None else attention, unused, unused,
                  unused]
        if len(packed) > 1:
            arrays[_RESET] = temporary((rows, p.outputs), p.state_dtype)
            arrays[_SECOND_PACKED], arrays[_SECOND] = packed[1], temporary((rows, p.outputs))
        self.loops.executable(*arrays)

    def _inputs(self, x: Array, weights: Array | None) -> Array:
        """Return the inputs of all steps, multiplied by their weights."""
        p = self.params
        if not p.weighted:
            return np.ascontiguousarray(x if p.order == tuple(range(p.gates)) else x[:, :, list(p.order)])
        assert weights is not None
        made = temporary((p.steps * p.batch, p.gates * p.outputs))
        rows, wide = made.shape
        product = multiply(rows, p.inputs, wide, contiguous(p.x, rows, p.inputs),
                           lying(p.weights_input, p.inputs, wide, p.by_columns[0]), contiguous(FP32, rows, wide),
                           self.target)
        matrix = matrix_of(weights, p.order, p.by_columns[0])
        product.executable(*product.arrange(np.ascontiguousarray(x), matrix, made))
        return made


def lengths_of(p: RnnParams, given: Array) -> Array:
    """Return the numbers of steps of all rows, checked."""
    checked_limits(given, p.steps)
    return np.ascontiguousarray(np.broadcast_to(given.reshape(-1), (p.batch,)), np.int64)


def summed_biases(p: RnnParams, given: Array | None) -> Array:
    """Return what is added to the planes of a step in FP32, [planes, outputs]: those of a GRU that resets after its
    product have the recurrent bias of the candidate last."""
    made = np.zeros((p.grads, p.outputs), np.float32)
    if given is None:
        return made
    biases = given.astype(np.float32)[list(p.order)]
    if not p.reset_after:
        made[...] = biases
        return made
    made[:3] = biases[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        made[:2] += biases[:2, 1]
    made[3] = biases[2, 1]
    return made


@lru_cache(maxsize=256)
def forward(params: RnnParams, offsets: tuple[int, ...], target: Target) -> Forward:
    """Return a forward pass; see `Forward`."""
    return Forward(params, offsets, target)


def _loops(p: RnnParams, offsets: tuple[int, ...], target: Target) -> Loops:
    o, state = p.outputs, p.state
    before = p.cell == "gru" and not p.reset_after
    size = state.itemsize
    last = Side(_BUFFER, o, format=state, offset=offsets[1])
    saved = Side(_BUFFER, o, p.saved, True, state, offsets[-1])
    old = None
    if p.cell == "lstm" and p.kept == 6:
        old = Side(_BUFFER, o, p.saved, True, state, offsets[-1] + 4 * o * size)
    out: Side | None = Side(_BUFFER, o, 1, True, state, offsets[0])
    if not p.full:
        out = Side(_BUFFER, o, p.saved, True, state, offsets[-1] + p.kept * o * size) if p.saved else None
    sides: dict[str, Side | None] = {
        "input": Side(_INPUT, o, p.gates, True, FP32 if p.weighted else p.x),
        "product": Side(_PRODUCT, o, p.gates - before), "bias": Side(_BIAS, o, planes=0),
        "cell": Side(_BUFFER, o, format=state, offset=offsets[2]) if p.cell == "lstm" else None,
        "last": last, "out": out, "saved": saved if p.kept else None, "old": old,
        "lengths": Strided(_LENGTHS, row=8) if p.limited else None,
        "attention": Strided(_ATTENTION, row=4 * p.steps, step=4) if p.attention else None,
        "reset_state": Side(_RESET, o, format=state) if before else None,
        "second": Side(_SECOND, o) if before else None,
    }  # fmt: skip
    a = MatrixLayout(state, o * size, size, offset=offsets[1])
    wide = (2 if before else p.gates) * o
    first = step_product(p.batch, o, wide, a, p.weights_output, p.by_columns[1], target)
    work, tables = first.segment(_BUFFER, _PACKED, _PRODUCT)
    made, selection = cells(p, p.cell, FORWARD, sides, target.tiles, phase=0 if before else 1)
    sets, products = [ComputeSet("", (work,)), ComputeSet("", (made,))], [first]
    if before:
        second = step_product(p.batch, o, o, contiguous(state, p.batch, o), p.weights_output, p.by_columns[1], target)
        work, held = second.segment(_RESET, _SECOND_PACKED, _SECOND)
        sets += [ComputeSet("", (work,)), ComputeSet("", (cells(p, p.cell, FORWARD, sides, target.tiles)[0],))]
        tables, products = [*tables, *held], [first, second]
    return looped(p, sets, products, tables, selection)


def looped(p: RnnParams, sets: list[ComputeSet], products: list[StepProduct], tables: list[Any],
           selection: Selection, operands: int = _SECOND + 1) -> Loops:
    """Return the loop of these compute sets over the steps, on as many threads as the one that takes most."""
    threads = 1 + max(int(segment.tiles.max(initial=0)) for step in sets for segment in step.segments)
    scratch = max(SCRATCH, *(x.plan.scratch_bytes for x in products))
    program = Program((Loop(p.steps, tuple(sets)),), operands, threads, scratch, tables=tuple(tables))
    return Loops(program.executable(threads), tuple(products), selection)
