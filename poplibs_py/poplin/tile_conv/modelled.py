"""A plan's program on a modelled machine as a call on operands: what products and convolutions have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...checks import check_shape
from ...errors import bad_argument, bad_type
from ...formats import Array
from ...formats.bounds import Ball
from ...formats.metadata import METADATA_SCALES
from ...formats.reference import decode, values
from ...kernels import select
from ...memo import remembered
from ...ops import AS_ASKED, RESULT, VALUES, Operand, Receiver, Request, seed_of
from ...program import Executable
from ...target import TYPE_SIZES
from ...target.types import data_type, format_of_type
from .bound import modelled_bound
from .interpreter import interpret
from .lower import TileCall, lower, lower_together
from .multi import MultiPlan
from .plan import ConvPlan
from .products import ArrayLayout
from .work import ConvWork, work_of

TYPES = tuple(TYPE_SIZES)


@dataclass(frozen=True)
class Views:
    """How arrays that a caller holds are the input, the weights and the result of a plan's convolution.

    Each takes the groups, and an array, and returns it in the axes of `ConvWork.shapes` without the dimensions that a
    plan adds, beginning at the same element; `back` does the opposite with a result, `flips` says which operand is
    then read backwards along its field, and `updates` whether the result is the gradient of weights.
    """

    x: Callable[[int, Array], Array]
    w: Callable[[int, Array], Array]
    out: Callable[[int, Array], Array]
    back: Callable[[Array], Array]
    flips: str = ""
    updates: bool = False


def _split(groups: int, x: Array) -> Array:
    """[batch, groups * channels, field...] with groups along an axis of their own."""
    return x.reshape(x.shape[0], groups, x.shape[1] // max(1, groups), *x.shape[2:])


def _joined(y: Array) -> Array:
    """The opposite of `_split`."""
    return y.reshape(y.shape[0], y.shape[1] * y.shape[2], *y.shape[3:])


PASSES = {
    "forward": Views(_split, lambda _, w: w, _split, _joined),
    "input_gradient": Views(_split, lambda _, w: w.swapaxes(1, 2), _split, _joined, flips="w"),
    "weight_gradient": Views(
        lambda groups, x: _split(groups, x).swapaxes(0, 2),
        lambda groups, deltas: np.moveaxis(_split(groups, deltas), 0, 2),
        lambda _, w: np.moveaxis(w, 2, 0),
        lambda w: np.moveaxis(w, 0, 2),
        updates=True,
    ),
}
"""From a pass to how its arrays are seen: input, weights, output; deltas, weights, the input's gradient; input, deltas,
the weights' gradient."""


def _layout(name: str, x: Operand, view: Callable[[int, Array], Array], groups: int, shape: tuple[int, ...], *,
            flip: bool = False) -> ArrayLayout:
    """How an operand lies as one of a plan's; its extents are checked."""
    seen = view(groups, x.array)
    head, added = seen.shape[:3], len(shape) - seen.ndim
    check_shape(name, x, (*head, *(1,) * added, *seen.shape[3:]) == shape, f"one that is seen as the planned {shape}")
    strides, offset = list(seen.strides), 0
    if flip:
        offset = sum((extent - 1) * stride for extent, stride in zip(seen.shape[3:], strides[3:], strict=True))
        strides[3:] = (-stride for stride in strides[3:])
    strides[3:3] = (0,) * added
    return ArrayLayout(x.format, tuple(strides), offset, bool(x.array.flags.aligned), x.scale)


@dataclass(frozen=True, eq=False)
class TileConvolution:
    """A convolution of given shapes and formats, as the tiles of a plan make it.

    Attributes
    ----------
    work : ConvWork
        What the tiles do.
    views : Views
        What a caller's arrays are in it.
    """

    work: ConvWork
    views: Views = PASSES["forward"]

    @property
    def plan(self) -> ConvPlan:
        """The plan."""
        return self.work.plan

    def operand(self, name: str, value: Operand) -> Operand:
        """Return an operand, aligned, if it has the format that was planned for, or raise."""
        kind = self.work.problem.params.input_type
        if value.scales is not None:
            raise bad_argument(name, "a QuarterArray with many scales", "one scale: modelled machines have no more")
        if value.scale not in METADATA_SCALES:
            raise bad_argument(name, f"a QuarterArray at scale {value.scale}", "-32 to 31 on a modelled machine")
        if data_type(name, value.format, TYPES) != kind:
            raise bad_type(name, f"format {value.format}", f"the planned type, {kind}")
        return value if value.array.flags.aligned else value.copied()

    def seen(self, name: str, array: Array) -> Array:
        """Return an operand's numbers, ``"x"`` or ``"w"``, or a bias (``"out"``), in the axes of `ConvWork.shapes`."""
        seen = getattr(self.views, name)(self.work.params.groups, array)
        if self.views.flips == name:
            seen = np.flip(seen, tuple(range(3, seen.ndim)))
        own: Array = seen.reshape(self.work.shapes[name])
        return own

    def back(self, result: Array) -> Array:
        """Return a result in those axes as the caller has it."""
        added = len(self.work.dims) - self.work.problem.params.ndim
        return self.views.back(result.reshape(*result.shape[:3], *result.shape[3 + added :]))

    @property
    def formats(self) -> str:
        """What both operands have, in words as on this CPU; of PopLibs' FP8 a plan does not know which."""
        read = self.work.problem.params.input_type
        return " x ".join([read if read == "quarter" else format_of_type(read).name] * 2)

    def told(self) -> tuple[str, str, ConvPlan]:
        """Return what runs, for a reader, its kernel, and the plan."""
        params = self.work.problem.params
        words = params.forward_words if self.views.updates else params.words
        return f"{words}: {self.formats} -> {self.work.out}", tile_kernel(), self.plan

    def call(self, x: Operand, w: Operand, out: Operand, bias: Operand | None, activation: str | None, seeded: bool,
             threads: int | None, update: float | None = None) -> TileCall:
        """Return how a call's operands lie; a bias has the result's shape, broadcast."""
        groups, shapes, views = self.work.params.groups, self.work.shapes, self.views

        def lies(value: Operand, name: str) -> ArrayLayout:
            return _layout(name, value, getattr(views, name), groups, shapes[name], flip=views.flips == name)

        added = None if bias is None else lies(bias, "out")
        return TileCall(lies(x, "x"), lies(w, "w"), lies(out, "out"), added, activation, update, seeded,
                        threads)

    def executable(self, *how: Any) -> Executable:
        """Return the program of a call; the arguments are those of `call`."""
        return _program(self.work, self.call(*how))

    def request(self, x: Operand, w: Operand, bias: Operand | None, activation: str | None, receiver: Receiver,
                seed: Any, threads: int | None = None) -> Request:
        """Describe a call on operands as `views` takes them; a bias has the result's shape, broadcast."""
        program = self.executable(x, w, receiver, bias, activation, seed is not None, threads)
        return self.described(program, program, x, w, bias, receiver, seed)

    def described(self, run: Any, program: Executable, x: Operand, w: Operand, bias: Operand | None, receiver: Receiver,
                  seed: Any) -> Request:
        """Describe what runs a program, with what a record tells of it."""
        words = () if seed is None else (seed_of(seed),)
        operands = x, w, RESULT, *(() if bias is None else (bias,)), *(VALUES,) * len(words)
        return Request(run, operands, receiver, self.told, words, placed=AS_ASKED, measure=lambda: {
            "tile_bytes": self.work.tile_bytes(), "tile_macs": self.work.tile_macs(),
            "exchanged_bytes": program.program.exchanged_bytes})


def tile_kernel() -> str:
    """Return the label of the kernel that makes tiles' products."""
    return select("dot", "multiply", "float32", consistent=True).kernel.label


@remembered(weight=16)
def _program(work: ConvWork, call: TileCall) -> Executable:
    return lower(work, call)


def modelled_convolution(plan: ConvPlan, x: Operand, w: Operand, receiver: Receiver, *, pass_: str = "forward",
                         bias: Operand | None = None, activation: str | None = None, seed: Any = None,
                         threads: int | None = None) -> Request:
    """Describe one of a convolution's three passes on a modelled machine.

    Parameters
    ----------
    plan : ConvPlan
        Of this pass: of the convolution's params, of their ``gradient()``, or of their ``weight_update()``.
    x, w : Operand
        ``"forward"``: the input [N, G * Ci, field...] and the weights [G, Co, Ci, kernel...]. ``"input_gradient"``: the
        output's gradient and the weights. ``"weight_gradient"``: the input and the output's gradient. Any strides.
    receiver : Receiver
        What takes the output, the input's gradient, or the weights'.
    pass_ : str, optional
    bias : Operand, optional
        One number for each channel of the result [G * Co], of its format.
    activation : str, optional
    seed : optional
        For stochastic roundings.
    threads : int, optional
        Threads of this CPU to run on, at most.
    """
    made = TileConvolution(work_of(plan), PASSES[pass_])
    added = None if bias is None else _over_channels(bias, receiver.array.shape)
    return made.request(made.operand("x", x), made.operand("w", w), added, activation, receiver, seed, threads)


def modelled_update(plan: MultiPlan, call: PassCall) -> Request:
    """Describe a weight update on a modelled machine, planned as the one of its kind."""
    program, _ = modelled_convolutions(plan, (call,))
    made = TileConvolution(work_of(plan.plans[0]), PASSES[call.pass_])
    x, w = made.operand("x", call.x), made.operand("w", call.w)
    request = made.described(program, program, x, w, None, call.receiver, None)
    return request.with_(tell=lambda: (*made.told()[:2], plan))


def _over_channels(bias: Operand, shape: tuple[int, ...]) -> Operand:
    return bias.seen(lambda b: np.broadcast_to(b.reshape(-1, *(1,) * (len(shape) - 2)), shape))


class PassCall(NamedTuple):
    """One of several passes in a program: the arguments of `modelled_convolution`; and, where the result is added to
    what its receiver holds, what it is multiplied by."""

    x: Operand
    w: Operand
    receiver: Receiver
    pass_: str = "forward"
    bias: Operand | None = None
    activation: str | None = None
    update: float | None = None


def modelled_convolutions(plan: MultiPlan, calls: Sequence[PassCall], *, seeded: bool = False,
                          threads: int | None = None) -> tuple[Executable, tuple[Any, ...]]:
    """Return the program of several convolutions, planned together, and its operands, as a `Request` has them.

    Where the plan has them side by side, their steps are one program's: an exchange, a compute set, a turn of the loop
    is that of them all, each on its own tiles. Else they run one after another.

    Parameters
    ----------
    plan : MultiPlan
        Of `plan_convolutions`.
    calls : sequence of PassCall
        One for each of its plans; the operands are theirs, with each one's receiver.
    seeded : bool, optional
        Whether the call has a seed, for stochastic roundings of all.
    threads : int, optional
        As for `modelled_convolution`.
    """
    works: list[tuple[ConvWork, TileCall]] = []
    operands: list[Any] = []
    for one, call in zip(plan.plans, calls, strict=True):
        made = TileConvolution(work_of(one), PASSES[call.pass_])
        x, w = made.operand("x", call.x), made.operand("w", call.w)
        bias = None if call.bias is None else _over_channels(call.bias, call.receiver.array.shape)
        lies = made.call(x, w, call.receiver, bias, call.activation, seeded, threads, call.update)
        works.append((made.work, lies))
        operands += [x, w, call.receiver, *(() if bias is None else (bias,))]
    return lower_together(works, plan.parallel), (*operands, *(VALUES,) * seeded)


def interpret_convolution(plan: ConvPlan, x: Operand, w: Operand, *, pass_: str = "forward", seed: Any = None,
                          bias: Array | None = None, activate: Callable[[Array], Array] | None = None) -> Array:
    """Make a pass in plain NumPy: slow, obvious, and of the same bits as the compiled program.

    The arguments are those of `modelled_convolution`, but for the bias' values and the activation, a function.
    """
    made = TileConvolution(work_of(plan), PASSES[pass_])
    given, weights = (made.seen(name, values_of(value)) for name, value in (("x", x), ("w", w)))
    if bias is not None:
        bias = np.asarray(bias, np.float32).reshape(made.work.params.groups, -1, *(1,) * len(made.work.dims))
    return made.back(interpret(made.work, given, weights, None if seed is None else seed_of(seed), bias, activate))


def convolution_bound(plan: ConvPlan, x: Any, w: Any, *, pass_: str = "forward", seed: Any = None) -> Ball:
    """Return exact results and radii of a pass, before a bias and an activation: see `modelled_bound`.

    The arguments are those of `modelled_convolution`, arrays of any format.
    """
    made = TileConvolution(work_of(plan), PASSES[pass_])
    ball = modelled_bound(made.work, made.seen("x", values(x)), made.seen("w", values(w)), seed=seed)
    return Ball(made.back(ball.centre), made.back(ball.radius))


def values_of(x: Operand) -> Array:
    """An operand's numbers in FP32."""
    return decode(x.array.view(x.format.code_dtype), x.format, x.scale).astype(np.float32)
