"""What computes gradients of a recurrent layer's weights: products over all steps, or over some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...formats import FP32, Array, Format
from ...planner import Explanation
from ...planner.explain import Considered, Explained
from ...poplin.gemm.lower import Lowered
from ...poplin.gemm.params import MatrixLayout, contiguous
from ...popsparse.matrix import BlockSparseMatrix
from ...program import temporary
from ...target import Target
from .cell import Cell
from .products import in_order, multiply
from .sparse import stored_gradients


class UpdateArrays(NamedTuple):
    """A weight update's operands: gradients of gates, inputs, outputs, the state before, what a GRU saved; block-sparse
    weights, at whose blocks gradients are."""

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
    resets: bool

    @classmethod
    def of(cls, call: Any) -> UpdateSizes:
        """Read them off a call."""
        steps, batch, planes, outputs = call.grads.shape
        return cls(steps, batch, call.x.shape[2], call.output.shape[2], outputs, planes, call.grads.format,
                   call.x.format, call.output.format, call.reset is not None)


@dataclass
class Update(Explained):
    """A weight update, ready.

    Attributes
    ----------
    what : str
    sizes : UpdateSizes
    machine : Target
    at_once : (int, int)
        Steps and planes of the gates' gradients that a product takes.
    fits : bool
        Whether it keeps to the limit on memory.
    limit : int or None
        Temporary bytes that all threads may take.
    """

    what: str
    sizes: UpdateSizes
    machine: Target
    at_once: tuple[int, int] = (1, 1)
    fits: bool = True
    limit: int | None = None
    threads: int = field(init=False)

    def __post_init__(self) -> None:
        self.threads = self._states(self.sizes.steps, self.sizes.planes).plan.threads

    def __reduce__(self) -> tuple[Any, ...]:
        return Update, (self.what, self.sizes, self.machine, self.at_once, self.fits, self.limit)

    @property
    def flops(self) -> int:
        """Operations of the products with inputs and states."""
        s = self.sizes
        return 2 * s.planes * s.outputs * (s.inputs + s.states) * s.steps * s.batch

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside operands and results."""
        return self.bytes_taken(*self.at_once)

    def bytes_taken(self, steps: int, planes: int) -> int:
        """Bytes that a run takes beside operands and results."""
        s, rows = self.sizes, steps * self.sizes.batch
        taken = rows * s.planes * s.outputs * s.grads.itemsize + 8 * self.machine.tiles
        each = [(s.inputs, s.x, False), (s.states, s.state, s.resets), (1, s.grads, False)]
        betas = (0.0, 1.0) if steps < s.steps else (0.0,)
        return taken + max(columns * (4 * planes * s.outputs + rows * (dtype.itemsize + 4 * resets))
                           + self._product(columns, dtype, steps, planes, beta).executable.temporary_bytes
                           for columns, dtype, resets in each for beta in betas)

    def run(self, cell: Cell, order: tuple[int, ...], arrays: UpdateArrays, views: Any) -> None:
        """Write the gradients to views of the results."""
        s = self.sizes
        ones = np.ones((min(s.steps, self.at_once[0]) * s.batch, 1), arrays.grads.dtype)
        of_inputs, of_states = (dict(zip(each, order, strict=True)) for each in (cell.input_planes, cell.state_planes))
        lefts = {cell.state_planes[gate]: left
                 for left, gates in zip(("before", "reset"), cell.products, strict=False) for gate in gates}
        if arrays.matrices[0] is None:
            self._sum(arrays, "x", s.inputs, views[0], of_inputs)
        else:
            self._stored(arrays, arrays.matrices[0], dict.fromkeys(of_inputs, "x"), views[0], of_inputs)
        if arrays.matrices[1] is None:
            for left in dict.fromkeys(lefts.values()):
                own = {plane: gate for plane, gate in of_states.items() if lefts[plane] == left}
                self._sum(arrays, left, s.states, views[1], own)
        else:
            self._stored(arrays, arrays.matrices[1], lefts, views[1], of_states)
        biases = views[2].reshape(len(order), -1, s.outputs)
        for place, planes in enumerate(cell.bias_planes):
            self._sum(arrays, ones, 1, biases[:, place: place + 1], dict(zip(planes, order, strict=True)))

    def _sum(self, arrays: UpdateArrays, left: Any, columns: int, to: Array, gates: dict[int, int]) -> None:
        """Sum products of an operand, by name or the same for all steps, and gradients; a plane goes to its gate."""
        s, (steps, most) = self.sizes, self.at_once
        to = to if to.ndim == 3 else to[None]
        dtype = {"x": s.x, "before": s.state, "reset": s.state}[left] if isinstance(left, str) else s.grads
        whole = most == s.planes and len(gates) > 1
        for planes in [tuple(range(s.planes))] if whole else [(plane,) for plane in gates]:
            made = temporary((columns, len(planes), s.outputs))
            if not s.steps * s.batch:
                made[...] = 0
            for first in range(0, s.steps, steps):
                cut = slice(first, min(first + steps, s.steps))
                rows = (cut.stop - first) * s.batch
                read = left[:rows] if isinstance(left, np.ndarray) else self._left(arrays, left, cut)
                grads = in_order(arrays.grads[cut])
                product = self._product(columns, dtype, cut.stop - first, len(planes), float(first > 0), planes[0])
                if made.size and rows:
                    product.executable(*product.arrange(read, grads, made))
            with np.errstate(over="ignore"):
                for place, plane in enumerate(planes):
                    if plane in gates:
                        to[gates[plane]] = made[:, place]

    def _stored(self, arrays: UpdateArrays, w: BlockSparseMatrix, lefts: dict[int, str], to: Array,
                gates: dict[int, int]) -> None:
        """Sum products at the blocks of a matrix; each plane of gradients has an operand, and a gate."""
        s, planes = self.sizes, sorted(gates, key=gates.__getitem__)
        sums, made = temporary(to.shape), temporary(to.shape)
        sums[...] = 0
        for first in range(0, s.steps, self.at_once[0]):
            cut = slice(first, min(first + self.at_once[0], s.steps))
            rows = (cut.stop - first) * s.batch
            read = {name: self._left(arrays, name, cut) for name in set(lefts.values())}
            read = {name: left.reshape(rows, left.shape[2]) for name, left in read.items()}
            shape = len(planes), rows, next(iter(read.values())).shape[1]
            left = np.broadcast_to(next(iter(read.values())), shape)
            if len(read) > 1:
                left = temporary(shape, left.dtype)
                for place, plane in enumerate(planes):
                    left[place] = read[lefts[plane]]
            grads = temporary((len(planes), rows, s.outputs), arrays.grads.dtype)
            for place, plane in enumerate(planes):
                grads[place] = arrays.grads[cut, :, plane].reshape(rows, s.outputs)
            if rows and made.size:
                stored_gradients(w, left, grads, made)
                np.add(sums, made, out=sums)
        with np.errstate(over="ignore"):
            to[...] = sums

    def _left(self, arrays: UpdateArrays, name: str, cut: slice) -> Array:
        """What gradients are multiplied by: the inputs of these steps, the states before them, perhaps reset."""
        if name == "x":
            return in_order(arrays.x[cut])
        output = arrays.output
        before = temporary((cut.stop - cut.start, *output.shape[1:]), output.dtype)
        first = max(0, cut.start - 1)
        before[cut.start == 0:] = output[first:cut.stop - 1]
        if not cut.start:
            before[0] = 0 if arrays.init is None else arrays.init
        if name == "reset":
            assert arrays.reset is not None
            with np.errstate(over="ignore", invalid="ignore"):
                np.multiply(before, arrays.reset[cut, :, 0], out=before, dtype=np.float32, casting="unsafe")
        return before

    def _product(self, columns: int, dtype: Format, steps: int, planes: int, beta: float, first: int = 0) -> Lowered:
        s, rows = self.sizes, steps * self.sizes.batch
        item = s.grads.itemsize
        grads = MatrixLayout(s.grads, s.planes * s.outputs * item, item, offset=first * s.outputs * item)
        return multiply(columns, rows, planes * s.outputs, contiguous(dtype, rows, columns).transposed, grads,
                        contiguous(FP32, columns, planes * s.outputs), self.machine, beta)

    def _states(self, steps: int, planes: int) -> Lowered:
        return self._product(self.sizes.states, self.sizes.state, steps, planes, 0.0)

    def told(self) -> tuple[str, str, Update]:
        """Return what tells of it: with the kernel of the product with the states."""
        return self.what, self._states(*self.at_once).plan.kernel.label, self

    def explain(self) -> Explanation:
        """Return what was decided."""
        kernel = self._states(*self.at_once).plan.kernel.label
        steps, planes = self.at_once
        way = f"products of {steps} steps and {planes} planes for each kind of weights"
        return Explanation(self.what, {"kernel": kernel, "way": way}, (Considered(kernel, None, None, "chosen", True),))
