"""A backward pass: a loop over the steps from the last, of a kernel and its products; then all inputs' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ...ops import Array
from ...poplin.gemm.params import MatrixLayout
from ...program import ComputeSet, Executable, Loop, Program, Segment, temporary
from ...target import Target
from .cells import BACKWARD, FORWARD, SCRATCH, Side, Strided, cells
from .forward import Loops, Pass, forward, looped
from .params import RnnParams
from .products import lying, matrix_of, multiply, step_product

__all__ = ["ORDERS", "Backward", "backward", "computed_again", "whole_again"]

(_BUFFER, _PACKED, _CARRIED, _HELD, _CELL, _SAVED, _OLD, _OUT_GRAD, _LENGTHS, _OUT, _INIT, _ATTENTION, _ATTENTION_GRAD,
 _SECOND_PACKED, _RESET, _OPERANDS) = range(16)

ORDERS = {"lstm": (0, 1, 2, 3), "gru": (2, 0, 1), "rnn": (0,)}
"""The gates of the planes of gradients, in their order; that of a GRU's state product follows where it has its own."""


@dataclass(frozen=True, eq=False)
class Backward(Pass):
    """A backward pass, ready.

    Attributes
    ----------
    params : RnnParams
    offsets : tuple of int
        Where in the result's bytes gradients of the inputs and of the gates begin.
    target : Target
    """

    params: RnnParams
    offsets: tuple[int, int]
    target: Target
    loops: Loops = field(init=False)
    direction = "backward"

    def __post_init__(self) -> None:
        object.__setattr__(self, "loops", _loops(self.params, self.offsets[1], self.target))

    def __reduce__(self) -> tuple[Any, ...]:
        return backward, (self.params, self.offsets, self.target)

    def run(self, grad: Array, weights: tuple[Array | None, Array], kept: dict[str, Any], last: Sequence[Array | None],
            lengths: Array | None, attention: Array | None, buffer: Array) -> tuple[Array, ...]:
        """Write the gradients of the inputs and of the gates, and return in FP32 those of the states, of attention.

        Parameters
        ----------
        grad : numpy.ndarray
            Of the outputs.
        weights : tuple of array
        kept : dict
            What the forward pass kept: ``saved``, ``old``, ``out``, ``init``, as `_sides` reads them.
        last : sequence of array
            Gradients of the last states.
        lengths, attention, buffer
            As for a forward pass.
        """
        p = self.params
        shape = p.batch, p.outputs
        held, cell = (np.zeros(shape, np.float32) for _ in range(2))
        for state, given in zip((held, cell), last, strict=False):
            if given is not None:
                state[...] = given
        if not p.each:
            held += grad.astype(np.float32)
        carried, scores = np.zeros(shape, np.float32), np.zeros((p.batch, p.steps), np.float32)
        if p.steps and held.size:
            unused = np.empty(0, np.uint8)
            packed = self.loops.pack(p, weights[1], _packs(p), transposed=True)
            several = len(packed) > 1
            seen = np.ascontiguousarray(grad, p.state_dtype) if p.each else unused
            self.loops.executable(
                buffer, packed[0], carried, held, cell, *(kept.get(name, unused) for name in ("saved", "old")), seen,
                unused if lengths is None else lengths, *(kept.get(name, unused) for name in ("out", "init")),
                unused if attention is None else attention, scores, packed[1] if several else unused,
                temporary(shape) if several else unused)
            if p.input_grad:
                self._input_grad(weights[0], buffer)
        with np.errstate(over="ignore", invalid="ignore"):
            return carried + held, *((cell,) if p.cell == "lstm" else ()), *((scores,) if p.attention else ())

    def _input_grad(self, weights: Array | None, buffer: Array) -> None:
        """The gradients of all inputs, of those of the gates."""
        assert weights is not None
        p, size = self.params, self.params.state.itemsize
        rows, wide = p.steps * p.batch, p.gates * p.outputs
        a = MatrixLayout(p.state, p.grads * p.outputs * size, size, offset=self.offsets[1])
        out = MatrixLayout(p.state, p.inputs * size, size, offset=self.offsets[0])
        product = multiply(rows, wide, p.inputs, a, lying(p.weights_input, wide, p.inputs, not p.by_columns[0]), out,
                           self.target)
        matrix = matrix_of(weights, [p.order[gate] for gate in ORDERS[p.cell]], p.by_columns[0]).T
        product.executable(*product.arrange(buffer, matrix, buffer))


def _packs(p: RnnParams) -> tuple[Sequence[int], ...]:
    """The gates whose weights each product of a step takes."""
    if p.cell != "gru":
        return (range(p.gates),)
    return ((0, 1, 2),) if p.reset_after else ((0, 1), (2,))


@lru_cache(maxsize=256)
def backward(params: RnnParams, offsets: tuple[int, int], target: Target) -> Backward:
    """Return a backward pass; see `Backward`."""
    return Backward(params, offsets, target)


def _sides(p: RnnParams, offset: int) -> dict[str, Side | None]:
    """Where everything is; what the forward pass kept is `p.saved` planes, the output last where it is among them."""
    o, state = p.outputs, p.state
    plane = o * state.itemsize
    old = Side(_SAVED, o, p.saved, True, state, 4 * plane) if p.kept == 6 else Side(_OLD, o, 2, True, state)
    out = Side(_OUT, o, 1, True, state) if p.full else Side(_SAVED, o, p.saved, True, state, p.kept * plane)
    return {
        "grads": Side(_BUFFER, o, p.grads, True, state, offset), "carried": Side(_CARRIED, o), "held": Side(_HELD, o),
        "cell": Side(_CELL, o), "saved": Side(_SAVED, o, p.saved, True, state), "old": old,
        "out_grad": Side(_OUT_GRAD, o, 1, True, state) if p.each else None,
        "lengths": Strided(_LENGTHS, row=8) if p.limited else None, "out": out, "init": Side(_INIT, o, format=state),
        "attention": Strided(_ATTENTION, row=4 * p.steps, step=4) if p.attention else None,
        "attention_grad": Strided(_ATTENTION_GRAD, row=4 * p.steps, step=4), "reset": Side(_RESET, o),
    }  # fmt: skip


def _loops(p: RnnParams, offset: int, target: Target) -> Loops:
    o, size = p.outputs, p.state.itemsize
    row = p.grads * o * size
    step = p.batch * row
    sides, before = _sides(p, offset), p.cell == "gru" and not p.reset_after
    sets: list[ComputeSet] = []
    tables: list[Any] = []
    products = []

    def multiplied(first: int, planes: int, packed: int, out: int) -> None:
        """A product of some planes of a step's gradients."""
        a = MatrixLayout(p.state, row, size, offset=offset + first * o * size + (p.steps - 1) * step)
        product = step_product(p.batch, planes * o, o, a, p.weights_output, not p.by_columns[1], target)
        work, held = product.segment(_BUFFER, packed, out, p.steps, -step)
        sets.append(ComputeSet("", (work,)))
        tables.extend(held)
        products.append(product)

    def kernel(phase: int) -> Any:
        made, selection = cells(p, f"{p.cell}_grad", BACKWARD, sides, target.tiles, True, phase)
        sets.append(ComputeSet("", (made,)))
        return selection

    selection = kernel(0)
    if before:
        multiplied(0, 1, _SECOND_PACKED, _RESET)
        kernel(1)
        multiplied(1, 2, _PACKED, _CARRIED)
        products.reverse()
    else:
        multiplied(1 if p.cell == "gru" else 0, p.gates, _PACKED, _CARRIED)
    return looped(p, sets, products, tables, selection, _OPERANDS)


@lru_cache(maxsize=256)
def again(p: RnnParams) -> Executable:
    """Return what computes an LSTM's cell states again: of what was saved, the states before, lengths, to the two."""
    o = p.outputs
    sides = {"saved": Side(0, o, p.saved, True, p.state), "cell": Side(1, o, format=p.state),
             "lengths": Strided(2, row=8) if p.limited else None, "old": Side(3, o, 2, True, p.state)}
    made: Segment = cells(p, "lstm_again", FORWARD, sides, 1)[0]
    return Program((Loop(p.steps, (ComputeSet("", (made,)),)),), 4, 1, SCRATCH).executable(1)


def computed_again(p: RnnParams, saved: Array, init: Array, lengths: Array | None) -> Array:
    """Return the non-linearity of an LSTM's cell state and the state before, of each step: what was not saved."""
    old, cell = temporary((p.steps, p.batch, 2, p.outputs), p.state_dtype), init.copy()
    again(p)(saved, cell, np.empty(0, np.uint8) if lengths is None else lengths, old)
    return old


def whole_again(p: RnnParams, x: Array, weights: tuple[Array | None, Array], biases: Array | None,
                init: Sequence[Array | None], lengths: Array | None, attention: Array | None,
                target: Target) -> dict[str, Array]:
    """Run the forward pass again, and return what it keeps."""
    planes = {"lstm": 6, "gru": 3 + p.reset_after, "rnn": 0}[p.cell]
    p = replace(p, saved=planes, full=True)
    state, sequence = p.batch * p.outputs * p.state.itemsize, p.steps * p.batch * p.outputs * p.state.itemsize
    ends = np.cumsum([0, sequence, state, *([state] if p.cell == "lstm" else []), planes * sequence]).tolist()
    buffer = temporary((max(ends[-1], 1),), np.uint8)
    forward(p, tuple(ends[:-1]), target).run(x, weights, biases, init, lengths, attention, buffer)
    shape = p.steps, p.batch
    return {"out": np.ndarray((*shape, p.outputs), p.state_dtype, buffer),
            "saved": np.ndarray((*shape, planes, p.outputs), p.state_dtype, buffer, ends[-2])}
