"""What there is to know of a recurrent layer: its cell, sizes and formats, how its gates are ordered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...checks import check_shape, one_of
from ...errors import bad_argument, bad_type
from ...formats import FP16, FP32, Array, Format, QuarterArray
from ...ops import Operand, result_format, whole_operand, wide_format, wide_operand
from ...poplin.gemm.plan import GemmPlan
from ...popsparse.matrix import BlockSparseMatrix
from ...popsparse.operands import dense_operand
from .cell import Cell
from .prepared import PreparedWeights
from .sparse import Blocks, Stored, checked_blocks

ACTIVATIONS = ("tanh", "sigmoid", "relu", "hard_sigmoid")
"""Non-linearities whose derivative is a function of their result, in the order of the kernels' numbers."""

_FEW_STEPS = 16
"""Steps of one row for which packing weights takes longer than it saves: on Zen 4 a step with packed ones takes 0.8 of
the time at 256 outputs and as long at 1,024, and packing as long as 3 and 10 steps."""


@dataclass(frozen=True)
class RnnParams:
    """A pass of a recurrent layer over a sequence.

    Attributes
    ----------
    cell : Cell
    steps, batch, inputs, outputs : int
        Extents of the sequence, of the batch, of an input, of an output.
    x, weights_input, weights_output, state : Format
        Of what is read; of states and of what is kept of each step.
    order : tuple of int
        Where each gate of the cell is in the layer's weights and biases.
    activation, recurrent_activation : str
    full : bool
        Whether there is an output for every step.
    weighted : bool
        Whether inputs are yet to be multiplied by their weights.
    saved : int
        Planes that each step keeps for the gradients, the output of a layer that returns its last one alone included.
    limited, attention : bool
        Whether rows have lengths of their own, and scores of attention.
    by_columns : tuple of bool
        For both weights and those of a projection, whether columns of a gate lie one after another, as torch has them.
    constant_slope : bool
        Whether a hard sigmoid's derivative is 0.2 where it is saturated too.
    input_grad, each : bool
        Of a backward pass: whether it gives gradients of the inputs; whether it is given one for each output.
    scales : tuple of int
        For both weights and for those of a projection, the exponent of the scale of 8-bit numbers.
    projected : int
        Elements of an LSTM's output where it is a projection of what the cell gives, which are `outputs`; else 0.
    weights_projection : Format
        Of its weights.
    blocks : tuple of Blocks or None
        For both weights, how they are stored where they are block-sparse.
    packed : tuple of tuple of GemmPlan
        For both weights and those of a projection, what they were packed under where they came so.
    in_place : bool
        Whether a forward pass reads weights of states where they lie, if kernels do: so do all stretches of its steps.
    """

    cell: Cell
    steps: int
    batch: int
    inputs: int
    outputs: int
    x: Format
    weights_input: Format
    weights_output: Format
    state: Format
    order: tuple[int, ...]
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"
    full: bool = True
    weighted: bool = True
    saved: int = 0
    limited: bool = False
    attention: bool = False
    by_columns: tuple[bool, bool, bool] = (False, False, False)
    constant_slope: bool = False
    input_grad: bool = True
    each: bool = True
    scales: tuple[int, int, int] = (0, 0, 0)
    projected: int = 0
    weights_projection: Format = FP32
    blocks: tuple[Blocks | None, Blocks | None] = (None, None)
    packed: tuple[tuple[GemmPlan, ...], ...] = ((), (), ())
    in_place: bool = False

    @property
    def state_dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of states."""
        return np.dtype(self.state.dtype)

    @property
    def gates(self) -> int:
        """Gates of the cell."""
        return len(self.cell.gates)

    @property
    def states(self) -> int:
        """Elements of an output, and of the state that the next step reads."""
        return self.projected or self.outputs

    @property
    def kept(self) -> int:
        """Planes that gradients read."""
        return self.saved - (0 if self.full or not self.saved else 1)

    @property
    def whole(self) -> bool:
        """Whether these are all that gradients read."""
        return self.kept == self.cell.whole

    @property
    def flops(self) -> int:
        """Operations of the products of a pass."""
        depth = self.states + self.inputs * (self.weighted and self.input_grad)
        return 2 * self.steps * self.batch * self.outputs * (self.gates * depth + self.projected)

    def __str__(self) -> str:
        projected = f" to {self.projected}" if self.projected else ""
        return (f"{self.cell} {self.steps} x {self.batch}, {self.inputs} to {self.outputs}{projected}, "
                f"{self.x.name} x {self.weights_output.name}")


def numbers(name: str, value: Any, shape: tuple[int | str, ...]) -> Operand:
    """Take an operand of one of `ops.WIDE`, or raise.

    Parameters
    ----------
    name : str
    value : object
    shape : tuple of int or str
        Its extents; a word for one that may be anything.
    """
    made: Operand = _shaped(name, wide_operand(name, value), shape)
    return made


@dataclass(frozen=True)
class SparseWeights:
    """Block-sparse weights, as far as they are looked at as an `Operand`."""

    matrix: BlockSparseMatrix
    shape: tuple[int, ...]
    stored: Stored
    scale: int = 0

    @property
    def format(self) -> Format:
        """Of the stored values."""
        return self.matrix.format


def weights_of(name: str, value: Any, shape: tuple[int | str, ...]) -> Any:
    """Take weights: as `numbers`, or a `QuarterArray` or other 8-bit numbers, or a `BlockSparseMatrix` of which a group
    is a gate, or `PreparedWeights`."""
    if isinstance(value, PreparedWeights):
        if value.name != name:
            raise bad_type(name, f"weights prepared as {value.name}", f"an array, or weights prepared as {name}")
        return _shaped(name, value, shape)
    if isinstance(value, BlockSparseMatrix):
        return SparseWeights(value, checked_blocks(name, value, shape), Stored.of(name, value))
    eight = isinstance(value, QuarterArray) or (isinstance(value, np.ndarray) and value.dtype.itemsize == 1)
    return _shaped(name, dense_operand(name, value), shape) if eight else numbers(name, value, shape)


def _shaped(name: str, x: Any, shape: tuple[int | str, ...]) -> Any:
    fits = len(x.shape) == len(shape) and all(isinstance(n, str) or n == m for n, m in zip(shape, x.shape, strict=True))
    check_shape(name, x, fits, f"shape ({', '.join(map(str, shape))})")
    return x


def optional(name: str, value: Any, shape: tuple[int | str, ...]) -> Operand | None:
    """Take an operand that need not be there."""
    return None if value is None else numbers(name, value, shape)


def limits(value: Any, batch: int, steps: int) -> Operand | None:
    """Take the numbers of steps of the batch's rows, or one for all: an integer or an array of them."""
    if value is None:
        return None
    allowed = f"integers from 0 to {steps}, one or {batch} of them"
    if isinstance(value, (bool, np.bool_)):
        raise bad_type("time_steps", value, allowed)
    given = whole_operand("time_steps", np.array(value) if isinstance(value, (int, np.integer)) else value, allowed)
    check_shape("time_steps", given, given.shape in ((), (1,), (batch,)), allowed)
    checked_limits(given.array, steps)
    return given


def checked_limits(array: Array, steps: int) -> None:
    """Raise where a number of steps is none of the sequence's."""
    if array.size and (int(array.min()) < 0 or int(array.max()) > steps):
        raise bad_argument("time_steps", array.tolist(), f"integers from 0 to {steps}, the steps of x")


def gate_order(cell: Cell, value: Any) -> tuple[int, ...]:
    """Return where each gate of a cell is in a caller's order of them."""
    names = cell.gates
    if not isinstance(value, (tuple, list)) or not all(isinstance(word, str) for word in value):
        raise bad_type("cell_order", value, f"a tuple of {names}, in any order")
    words = [word.lower().removesuffix("_gate") for word in value]
    if sorted(words) != sorted(names):
        raise bad_argument("cell_order", tuple(value), f"{names}, in any order")
    return tuple(words.index(name) for name in names)


def state_format(out_dtype: object, *operands: Any) -> Format:
    """Return the format of states and results: the one asked for, else what the operands' give."""
    return wide_format("out_dtype", out_dtype, result_format(*operands))


def lies_by_columns(w: Any) -> bool:
    """Return whether columns of a gate's weights lie one after another, as torch has them."""
    if not isinstance(w, Operand):
        return False
    *gates, rows, columns = w.shape
    item, strides = w.array.itemsize, w.array.strides
    along = strides[-2:] == (item, rows * item) and columns > 1 < rows
    return along and (gates in ([], [1]) or strides[0] == rows * columns * item)


def _scale_of(w: Any) -> int:
    made: int = w.scale
    return made


def cell_params(cell: Cell, x: Operand, weights_input: Any, weights_output: Any, out_dtype: object,
                projection: Any = None, **more: Any) -> RnnParams:
    """Return the params of a layer from its operands, whose shapes were checked."""
    for name in ("activation", "recurrent_activation"):
        if name in more:
            one_of(name, more[name], ACTIVATIONS)
    steps, batch = x.shape[:2]
    outputs = weights_output.shape[-1]
    state = state_format(out_dtype, x, weights_input, weights_output, projection)
    inputs = x.shape[2] if weights_input is None else weights_input.shape[-2]
    w = weights_output if weights_input is None else weights_input
    read = [w, weights_output, *([] if projection is None else [projection])]
    columns, scales = ([*map(of, read), rest][:3] for of, rest in ((lies_by_columns, False), (_scale_of, 0)))
    formats: list[Any] = [v.format for v in (x, *read)]
    blocks = tuple(Blocks.of(v.matrix) if isinstance(v, SparseWeights) else None
                   for v in (weights_input, weights_output))
    packed = tuple(v.plans if isinstance(v, PreparedWeights) else ()
                   for v in (weights_input, weights_output, projection))
    more = {"by_columns": tuple(columns), "scales": tuple(scales), "blocks": blocks, "packed": packed, **more}
    if projection is not None:
        more |= {"projected": projection.shape[-1], "weights_projection": projection.format}
    made = RnnParams(cell, steps, batch, inputs, outputs, formats[0], formats[1], formats[2], state, **more)
    return replace(made, in_place=_in_place_pays(made))


def _in_place_pays(p: RnnParams) -> bool:
    """Whether packing weights of states takes longer than it saves; packed, FP16 would be widened."""
    lies = p.by_columns[1] and not p.scales[1] and not p.cell.resets
    return lies and p.batch == 1 and (p.steps <= _FEW_STEPS or p.weights_output == FP16)
