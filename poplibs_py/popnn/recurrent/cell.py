"""What recurrent cells there are: a row for each, which all that runs, bounds or plans a layer asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

FULL = "full"
"""The mode of recomputation in which a layer keeps nothing."""


@dataclass(frozen=True, eq=False)
class Cell:
    """A recurrent cell.

    By its name are called: its functions (``lstm_fwd``), its kernels (``lstm``, ``lstm_grad`` and, where a mode keeps a
    part of its planes alone, ``lstm_again``), the module of its formulas (`lstm_formulas`), its reference
    (`reference.lstm`).

    Attributes
    ----------
    name : str
    gates : tuple of str
        In PopLibs' order, which is that of the kernels' planes. Operands of a cell of one gate have no axis of gates.
    torch : tuple of str
        The same in torch's order.
    products : tuple of tuple of int
        Which gates each product of a step with the weights of states takes. What a second one multiplies is the states
        times the first gate.
    kept : mapping of str to int
        For each mode of recomputation but `FULL`, the planes that a step keeps for the gradients: first those of gates,
        then what some modes leave out.
    reads : tuple of str
        Which results of the forward pass a backward pass reads.
    input_planes, state_planes : tuple of int
        For each gate, which plane of the gates' gradients is that of its input's part, and of its state's.
    has_cell_state : bool
        Whether it has a state beside its output.
    projects : bool
        Whether its output may be a projection of what it gives.
    inputs_first : bool
        Whether PopNN multiplies all inputs before the first step.
    after : Cell or None
        What it is where it resets after its product, if it can.
    """

    name: str
    gates: tuple[str, ...]
    torch: tuple[str, ...]
    products: tuple[tuple[int, ...], ...]
    kept: Mapping[str, int]
    reads: tuple[str, ...]
    input_planes: tuple[int, ...]
    state_planes: tuple[int, ...]
    has_cell_state: bool = False
    projects: bool = False
    inputs_first: bool = False
    after: Cell | None = None

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return cell_of, (self.name, self.apart)

    @property
    def formulas(self) -> Any:
        """What a step comes to in balls and on modelled machines: a module, which is imported where it is asked for."""
        return import_module(f"{__package__}.{self.name}_formulas")

    @property
    def front(self) -> tuple[int, ...]:
        """The extents of weights and biases before their own."""
        return (len(self.gates),) if len(self.gates) > 1 else ()

    @property
    def states(self) -> tuple[str, ...]:
        """Its states, by the arguments that they begin as."""
        return ("init_output", "init_cell_state") if self.has_cell_state else ("init_output",)

    @property
    def modes(self) -> tuple[str, ...]:
        """What a backward pass may compute again: nothing, what is not kept, or the whole forward pass."""
        return (*self.kept, FULL)

    @property
    def whole(self) -> int:
        """The planes that gradients read."""
        return self.kept["none"]

    @property
    def resets(self) -> bool:
        """Whether states are multiplied by a gate before their product."""
        return len(self.products) > 1

    @property
    def apart(self) -> bool:
        """Whether a state's part of a gate has a bias and a gradient of its own: it is multiplied by another gate."""
        return self.state_planes != self.input_planes

    @property
    def grads(self) -> int:
        """Planes of the gates' gradients."""
        return 1 + max(self.input_planes + self.state_planes)

    @property
    def grads_name(self) -> str:
        """What the gates' gradients are called among results and arguments."""
        return "gate_grads" if self.front else "step_grads"

    @property
    def input_gates(self) -> tuple[int, ...]:
        """The gates whose gradients those of inputs are made of, in the order of their planes."""
        return tuple(self.input_planes.index(plane) for plane in range(len(self.gates)))

    @property
    def bias_planes(self) -> tuple[tuple[int, ...], ...]:
        """For each bias of a gate, the plane whose sum is its gradient."""
        return (self.input_planes, self.state_planes) if self.apart else (self.input_planes,)

    @property
    def bias_shape(self) -> tuple[int, ...]:
        """The extents of biases before their own."""
        return (*self.front, 2) if self.apart else self.front

    def form(self, reset_after: bool) -> Cell:
        """Return the cell in one of its forms."""
        return self.after if reset_after and self.after is not None else self

    def saved(self, mode: str, full: bool) -> int:
        """Return the planes that each step keeps in a mode, with the output of a layer that returns its last alone."""
        return 0 if mode == FULL else self.kept[mode] + (not full)

    def gates_at_once(self, order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return which of the caller's gates each forward product of states takes: one product, all as they lie."""
        return self.products_in(order) if self.resets else (tuple(range(len(order))),)

    def products_in(self, order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return which of the caller's gates each product takes, in the kernels' order."""
        return tuple(tuple(order[gate] for gate in product) for product in self.products)


LSTM = Cell("lstm", ("forget", "input", "candidate", "output"), ("input", "forget", "candidate", "output"),
            ((0, 1, 2, 3),), {"none": 6, "cell_and_tanh": 4}, ("intermediates",), (0, 1, 2, 3), (0, 1, 2, 3),
            has_cell_state=True, projects=True)

_GRU = Cell("gru", ("reset", "update", "candidate"), ("reset", "update", "candidate"), ((0, 1), (2,)), {"none": 3},
            ("intermediates", "output"), (1, 2, 0), (1, 2, 0))
GRU = replace(_GRU, after=replace(_GRU, products=((0, 1, 2),), kept={"none": 4}, state_planes=(1, 2, 3)))

RNN = Cell("rnn", ("state",), ("state",), ((0,),), {"none": 0}, ("output",), (0,), (0,), inputs_first=True)

CELLS = {cell.name: cell for cell in (LSTM, GRU, RNN)}
"""All of them, by name."""


def cell_of(name: str, reset_after: bool) -> Cell:
    """Return the cell of a name in one of its forms."""
    return CELLS[name].form(reset_after)
