"""What computes gradients of a recurrent layer's weights: products over all steps, or over some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...formats import FP32, Array, Format
from ...poplin.gemm.lower import Lowered
from ...poplin.gemm.params import MatrixLayout, contiguous
from ...poplin.gemm.search import FEW
from ...popsparse.matrix import BlockSparseMatrix
from ...target import Target
from .builder import Builder, times
from .cell import Cell
from .products import multiply
from .sparse import stored_gradients


class UpdateArrays(NamedTuple):
    """What stands for a weight update's operands: gradients of gates, inputs, outputs, the state before, what a GRU
    saved; block-sparse weights, at whose blocks gradients are, themselves."""

    grads: Array
    x: Array
    output: Array
    init: Array | None
    reset: Array | None
    matrices: Sequence[BlockSparseMatrix | None]


@dataclass(frozen=True)
class UpdateSizes:
    """Extents and formats of a weight update."""

    steps: int
    batch: int
    inputs: int
    states: int
    outputs: int
    planes: int
    grads: Format
    x: Format
    state: Format

    @classmethod
    def of(cls, call: Any) -> UpdateSizes:
        """Read them off a call."""
        steps, batch, planes, outputs = call.grads.shape
        return cls(steps, batch, call.x.shape[2], call.output.shape[2], outputs, planes, call.grads.format,
                   call.x.format, call.output.format)


class _Sums:
    """A weight update under way: sums of products of so many steps and planes of the gates' gradients at once."""

    def __init__(self, builder: Builder, sizes: UpdateSizes, target: Target, at_once: tuple[int, int],
                 arrays: UpdateArrays) -> None:
        self.builder, self.sizes, self.target, self.at_once, self.arrays = builder, sizes, target, at_once, arrays

    def add(self, cell: Cell, order: tuple[int, ...], views: Sequence[Array]) -> None:
        """Add what writes the gradients to views of the results."""
        s, arrays = self.sizes, self.arrays
        ones = np.ones((min(s.steps, self.at_once[0]) * s.batch, 1), arrays.grads.dtype)
        of_inputs, of_states = (dict(zip(each, order, strict=True)) for each in (cell.input_planes, cell.state_planes))
        lefts = {cell.state_planes[gate]: left
                 for left, gates in zip(("before", "reset"), cell.products, strict=False) for gate in gates}
        if arrays.matrices[0] is None:
            self._sum("x", s.inputs, views[0], of_inputs)
        else:
            self._stored(arrays.matrices[0], dict.fromkeys(of_inputs, "x"), views[0], of_inputs)
        if arrays.matrices[1] is None:
            for left in dict.fromkeys(lefts.values()):
                own = {plane: gate for plane, gate in of_states.items() if lefts[plane] == left}
                self._sum(left, s.states, views[1], own)
        else:
            self._stored(arrays.matrices[1], lefts, views[1], of_states)
        biases = views[2].reshape(len(order), len(cell.bias_planes), s.outputs)
        for place, planes in enumerate(cell.bias_planes):
            self._sum(ones, 1, biases[:, place: place + 1], dict(zip(planes, order, strict=True)))

    def _sum(self, left: Any, columns: int, to: Array, gates: dict[int, int]) -> None:
        """Sum products of an operand, by name or the same for all steps, and gradients; a plane goes to its gate."""
        s, (steps, most), builder = self.sizes, self.at_once, self.builder
        to = to if to.ndim == 3 else to[None]
        dtype = {"x": s.x, "before": s.state, "reset": s.state}[left] if isinstance(left, str) else s.grads
        lie = columns > 1 and to.dtype == np.float32 and to.flags.c_contiguous
        if lie and max(FEW + 1, s.steps * s.batch) <= s.outputs:
            self._sum_there(left, columns, dtype, to, gates)
            return
        whole = most == s.planes and len(gates) > 1
        for planes in [tuple(range(s.planes))] if whole else [(plane,) for plane in gates]:
            with builder.passing():
                made = builder.room((columns, len(planes), s.outputs))
                if not s.steps * s.batch:
                    builder.clear(made)
                for cut in builder.stretches(s.steps, steps):
                    with builder.passing():
                        self._multiply(self._operands(left, cut), columns, dtype, planes, cut, made)
                there = [place for place, plane in enumerate(planes) if plane in gates]
                builder.put_planes(made.swapaxes(0, 1), there, to, [gates[planes[place]] for place in there])

    def _sum_there(self, left: Any, columns: int, dtype: Format, to: Array, gates: dict[int, int]) -> None:
        """Sum them where gradients are to be: few rows are packed for each plane sooner than sums are copied."""
        s, builder = self.sizes, self.builder
        for gate in () if s.steps * s.batch else gates.values():
            builder.clear(to[gate])
        for cut in builder.stretches(s.steps, self.at_once[0]):
            with builder.passing():
                operands = self._operands(left, cut)
                for plane, gate in gates.items():
                    self._multiply(operands, columns, dtype, (plane,), cut, to[gate])

    def _operands(self, left: Any, cut: slice) -> tuple[Array, Array]:
        """What some steps multiply, in C order: an operand, by name or the same for all, and gradients."""
        rows = (cut.stop - cut.start) * self.sizes.batch
        read = left[:rows] if isinstance(left, np.ndarray) else self._left(left, cut)
        return read, self.builder.in_order(self.arrays.grads[cut])

    def _multiply(self, operands: tuple[Array, Array], columns: int, dtype: Format, planes: tuple[int, ...], cut: slice,
                  made: Array) -> None:
        """Add the product of some steps to what was made of those before."""
        steps = cut.stop - cut.start
        if not steps * self.sizes.batch or not made.size:
            return
        product = product_of(self.sizes, self.target, columns, dtype, steps, len(planes), float(cut.start > 0),
                             planes[0])
        self.builder.run(product.executable, *product.arrange(*operands, made))

    def _stored(self, w: BlockSparseMatrix, lefts: dict[int, str], to: Array, gates: dict[int, int]) -> None:
        """Sum products at the blocks of a matrix; each plane of gradients has an operand, and a gate."""
        planes, builder = sorted(gates, key=gates.__getitem__), self.builder
        with builder.passing():
            sums, made = builder.room(to.shape), builder.room(to.shape)
            builder.clear(sums)
            for cut in builder.stretches(self.sizes.steps, self.at_once[0]):
                with builder.passing():
                    self._multiply_at(w, lefts, planes, cut, made)
                if made.size and self.sizes.batch:
                    builder.add(sums, made, sums)
            builder.put(sums, to)

    def _multiply_at(self, w: BlockSparseMatrix, lefts: dict[int, str], planes: list[int], cut: slice,
                     made: Array) -> None:
        """Make the products of some steps at the blocks of a matrix."""
        s, builder, arrays = self.sizes, self.builder, self.arrays
        rows = (cut.stop - cut.start) * s.batch
        if not rows or not made.size:
            return
        read = {name: self._left(name, cut) for name in set(lefts.values())}
        read = {name: left.reshape(rows, left.shape[2]) for name, left in read.items()}
        shape = len(planes), rows, next(iter(read.values())).shape[1]
        left = np.broadcast_to(next(iter(read.values())), shape)
        if len(read) > 1:
            left = builder.room(shape, left.dtype)
            for place, plane in enumerate(planes):
                builder.put(read[lefts[plane]], left[place])
        grads = builder.room((len(planes), cut.stop - cut.start, s.batch, s.outputs), arrays.grads.dtype)
        builder.put_planes(np.moveaxis(arrays.grads[cut], 2, 0), planes, grads)
        stored_gradients(builder, w, left, grads.reshape(len(planes), rows, s.outputs), made)

    def _left(self, name: str, cut: slice) -> Array:
        """What gradients are multiplied by: the inputs of these steps, the states before them, perhaps reset."""
        arrays, builder = self.arrays, self.builder
        if name == "x":
            return builder.in_order(arrays.x[cut])
        output = arrays.output
        before = builder.room((cut.stop - cut.start, *output.shape[1:]), output.dtype)
        first = max(0, cut.start - 1)
        builder.put(output[first:cut.stop - 1], before[cut.start == 0:])
        if not cut.start:
            builder.begin(arrays.init, before[0])
        if name == "reset":
            assert arrays.reset is not None
            builder.apply(times, before, arrays.reset[cut, :, 0], before)
        return before


def add_update(builder: Builder, params: tuple[UpdateSizes, Cell, tuple[int, ...]], target: Target,
               matrices: Sequence[Any], at_once: tuple[int, int]) -> None:
    """Add a weight update of some sizes, of a cell and its gates' order in the results."""
    sizes, cell, order = params
    grads, x, output, init, reset = builder.arrays
    grads = grads if grads.ndim == 4 else grads[:, :, None]
    arrays = UpdateArrays(grads, x, output, init, reset, matrices)
    _Sums(builder, sizes, target, at_once, arrays).add(cell, order, builder.views)


def product_of(s: UpdateSizes, target: Target, columns: int, dtype: Format, steps: int, planes: int, beta: float,
               first: int = 0) -> Lowered:
    """Return the product of some columns of an operand and of some planes of gradients."""
    rows, item = steps * s.batch, s.grads.itemsize
    grads = MatrixLayout(s.grads, s.planes * s.outputs * item, item, offset=first * s.outputs * item)
    return multiply(columns, rows, planes * s.outputs, contiguous(dtype, rows, columns).transposed, grads,
                    contiguous(FP32, columns, planes * s.outputs), target, beta)
