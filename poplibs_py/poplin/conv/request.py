"""Calls of convolutions described for the road: where they run, what receives their result, and the pass itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...checks import flag
from ...errors import bad_argument, bad_type
from ...formats import Format, format_of
from ...ops import (
    AS_ASKED,
    RESULT,
    VALUES,
    Operand,
    OwnNumber,
    Placed,
    Receiver,
    Request,
    operand,
    own_numbers,
    place_of,
    receive,
    result_format,
)
from ...program.operands import lying_like
from ...target import Target
from ..gemm.options import GemmOptions, options_of
from ..gemm.params import MatrixLayout
from ..gemm.plan import Epilogue
from ..tile_conv import ConvParams, MultiPlan
from ..tile_conv.modelled import PassCall, modelled_convolution, modelled_update
from .lower import lower
from .modelled import Asked, channels_second, grouped, lacks, with_updates
from .options import OF_EVERY_MACHINE, parse_options
from .params import (
    ConvCall,
    Described,
    FieldLayout,
    field_dims,
    images_of,
    images_shape,
    kernel_axes,
    kernels_of,
    new_images,
    stated,
    stated_input_gradient,
    stated_weights,
    take_bias,
    weights_shape,
)
from .scales import decoding
from .search import plan_call

HOW = ("available_memory_proportion", "partials_type", "reproducible", "strict_memory")
"""Keywords that say how sums are computed, on whichever machine."""


@dataclass(frozen=True)
class Settings:
    """How a call is computed."""

    options: GemmOptions
    epilogue: Epilogue
    given: Mapping[str, Any] | None
    keywords: GemmOptions
    winograd: bool = False

    @classmethod
    def of(cls, how: Mapping[str, Any]) -> Settings:
        """Check a caller's keywords."""
        base = options_of(*(how[name] for name in HOW), 4)
        return cls(parse_options(how["options"], base), Epilogue.of(1.0, 0.0, how.get("activation")), how["options"],
                   base, flag("winograd", how.get("winograd", False)))


def place_of_pass(name: str, settled: Settings, target: Any, seed: Any, operands: tuple[Operand, ...], out: Any,
                  out_dtype: Any, bias: Any = None, lacking: str = "", updates: bool = False) -> Placed[Any]:
    """Return where a call runs: as `Asked` of a modelled machine, or on this CPU.

    `lacking` is what no machine does, in words. Where the call `updates` weights, `out` are these.
    """

    def plan_on(machine: Target) -> Asked | str:
        if out_dtype is not None:
            made = format_of(out_dtype, "out_dtype")
        else:
            made = result_format(*operands) if out is None else operand("out", out).format
        transforms = "by Winograd's transforms" if settled.winograd else ""
        added = None if bias is None else operand("bias", bias)
        said = {k: v for k, v in settled.keywords.said().items() if k in OF_EVERY_MACHINE}
        return lacking or transforms or lacks(operands, made, added, updates) or Asked(
            machine, settled.given, said, seed)

    placed = place_of(name, target, plan_on)
    if placed.plan is None and seed is not None:
        raise bad_argument("seed", seed, "None on this CPU: cast a float32 result stochastically")
    return placed


@dataclass(frozen=True, eq=False)
class Pass:
    """A pass described: what it computes, and on which machine.

    Attributes
    ----------
    placed : Placed
    settled : Settings
    how : Described
        The order of axes, and the groups.
    kind : str
        One of the passes of `modelled_convolution`.
    params : ConvParams
        Of the pass itself.
    x, second : Operand
        What is convolved, and with what.
    receiver : Receiver
    bias, residual : Operand or None
    call : ConvCall or None
        How arrays lie; None on a modelled machine.
    """

    placed: Placed[Any]
    settled: Settings
    how: Described
    kind: str
    params: ConvParams
    x: Operand
    second: Operand
    receiver: Receiver
    bias: Operand | None = None
    residual: Operand | None = None
    call: ConvCall | None = None

    @property
    def reads(self) -> tuple[Operand, ...]:
        """What it reads: images, weights or deltas, then a bias and a residual, where there are."""
        return tuple(x for x in (self.x, self.second, self.bias, self.residual) if x is not None)

    @property
    def update(self) -> float | None:
        """What the result is multiplied by before it is added to what is there; None where it replaces that."""
        by = self.settled.epilogue.alpha
        assert isinstance(by, float)
        return by if self.settled.epilogue.beta else None

    @property
    def call_on_tiles(self) -> PassCall:
        """The pass with its arrays in the order of axes that PopLibs has."""
        how, weighs, groups = self.how, self.kind == "weight_gradient", self.params.groups
        ndim, receiver = self.x.array.ndim - 2, self.receiver
        seen = self.x.seen(lambda x: channels_second(x, how))
        other = self.second.seen(lambda x: channels_second(x, how) if weighs else grouped(x, how, groups, ndim))
        made = grouped(receiver.array, how, groups, ndim) if weighs else channels_second(receiver.array, how)
        return PassCall(seen, other, replace(receiver, array=made), self.kind, self.bias,
                        self.settled.epilogue.activation, self.update)

    def request(self, own: OwnNumber | None = None, values: tuple[int, ...] = ()) -> Request:
        """Describe it for the road; `own` is the number of the call, in `values`, in the place of `update`."""
        if self.placed.plan:
            return self._on_tiles(self.placed.plan)
        assert self.call is not None
        assert self.placed.host is not None
        x, second, *beside = self.reads
        whole = self.settled.epilogue
        epilogue = whole.own(own) if self.residual is None else replace(whole, beta=1.0)
        made = lower(plan_call(self.call, self.settled.options, epilogue, self.placed.host, self.residual is not None,
                               self.settled.winograd))
        program: Any = made.executable
        operands: tuple[Any, ...] = (x, second, RESULT, *beside, *(VALUES,) * epilogue.takes_words)
        if x.scales is not None or second.scales is not None:
            program, operands = decoding(program, operands)
        return Request(program, operands, self.receiver, made.told, values, placed=self.placed,
                       temporaries=made.plan.temporaries)

    def _on_tiles(self, asked: Asked) -> Request:
        if not self.receiver.array.size:
            return Request(None, (), self.receiver, lambda: ("an empty convolution", "none", None), placed=AS_ASKED)
        plan, call = asked.plan(self.params, self.x.format, self.receiver.format), self.call_on_tiles
        if call.update is None:
            request = modelled_convolution(plan, *call[:3], pass_=call.pass_, bias=call.bias,
                                           activation=call.activation, seed=asked.seed)
        else:
            plans = with_updates(MultiPlan((plan,), False), asked.target, [self.receiver], [call.update])
            request = modelled_update(plans, call)
        return request.with_(receiver=self.receiver, temporaries=plan.temporaries)


def request_by(describe: Callable[..., Pass]) -> Callable[..., Request]:
    """Return what describes a call of a face, given what describes its pass."""
    return lambda _, /, **given: describe(**given).request()


def forward_pass(*, x: Any, weights: Any, transpose_and_flip_weights: bool, bias: Any, residual: Any, out: Any,
                 out_dtype: Any, target: Any, seed: Any, **named: Any) -> Pass:
    """Describe a convolution from the arguments of its face."""
    how, settled = Described.among(named), Settings.of(named)
    flipped = flag("transpose_and_flip_weights", transpose_and_flip_weights)
    images, kernels = operand("x", x), operand("weights", weights)
    placed = place_of_pass("poplin.convolution", settled, target, seed, (images, kernels), out, out_dtype, bias,
                           "with a residual" if residual is not None else "")
    w_lies, (g, made, taken), kernel = kernels_of(kernels, "weights", how, field_dims(images, "x", how))
    if flipped:
        w_lies, made, taken = w_lies.swapped.flipped(kernel), taken, made
    x_lies, batch, channels, field = images_of(images, "x", how, g)
    if channels != g * taken:
        axes = kernel_axes(how, len(kernels.shape) == len(kernel) + 3) + (f", of {g} groups" if g > 1 else "")
        raise bad_argument("x", f"{channels} channels in the shape {images.shape}",
                           f"the {g * taken} input channels of weights {kernels.shape}: {axes}")
    p = stated(how, batch, field, kernel, taken, made, g)
    shape = images_shape(how, batch, g * made, p.output_shape)
    added = None if bias is None else take_bias(bias, g * made)
    rest = None if residual is None else operand("residual", residual)
    like = None if how.channels_last else images
    receiver = receive_result(out, out_dtype, shape, result_format(images, kernels), like)
    kind = "input_gradient" if flipped else "forward"
    made_pass = Pass(placed, settled, replace(how, groups=g), kind, p, images, kernels, receiver, added)
    if placed.plan:
        return made_pass
    rest = None if rest is None else as_result(rest, receiver)
    call = ConvCall(p, x_lies, w_lies, lies(receiver, "out", how, g), bias_layout(added, g))
    return replace(made_pass, residual=rest, call=call)


def gradient_pass(*, deltas: Any, weights: Any, field_shape: Any, out: Any, out_dtype: Any, target: Any, seed: Any,
                  **named: Any) -> Pass:
    """Describe the gradient of images from the arguments of its face."""
    how, settled = Described.among(named), Settings.of(named)
    given, kernels = operand("deltas", deltas), operand("weights", weights)
    placed = place_of_pass("poplin.convolution_input_gradient", settled, target, seed, (given, kernels), out, out_dtype)
    p = stated_input_gradient(how, given, kernels, field_shape, out)
    shape = images_shape(how, p.batch, p.groups * p.in_channels, p.field_shape)
    receiver = receive_result(out, out_dtype, shape, result_format(given, kernels),
                              None if how.channels_last else given)
    grouped = replace(how, groups=p.groups)
    made = Pass(placed, settled, grouped, "input_gradient", p.gradient(), given, kernels, receiver)
    if placed.plan:
        return made
    d_lies, w_lies = lies(given, "deltas", how, p.groups), kernels_of(kernels, "weights", how, p.ndim)[0]
    return replace(made, call=ConvCall.input_gradient(p, d_lies, w_lies, lies(receiver, "out", how, p.groups)))


def deltas_pass(*, deltas: Any, x: Any, kernel_shape: Any, out: Any, out_dtype: Any, target: Any, seed: Any,
                **named: Any) -> Pass:
    """Describe the gradient of weights from the arguments of its face."""
    how, settled = Described.among(named), Settings.of(named)
    given, images = operand("deltas", deltas), operand("x", x)
    placed = place_of_pass("poplin.calculate_weight_deltas", settled, target, seed, (images, given), out, out_dtype)
    return weight_pass(how, settled, placed, given, images, kernel_shape, None, out, out_dtype)


def weight_pass(how: Described, settled: Settings, placed: Placed[Any], deltas: Operand, x: Operand, kernel: Any,
                kernels: Operand | None, out: Any, out_dtype: Any) -> Pass:
    """Describe the gradient of weights: new ones, or on top of those that are there."""
    name, written = ("out", out) if kernels is None else ("weights", kernels)
    written = operand(name, written) if kernels is None and out is not None else written
    p = stated_weights(how, deltas, x, kernel, written, name)
    shape = weights_shape(how, p, written is not None and written.array.ndim == p.ndim + 3)
    fmt = result_format(deltas, x)
    receiver = receive(name, out, shape, out_dtype, fmt, reads=kernels is not None)
    how = replace(how, groups=p.groups, params=None)
    w_lies, _, _ = kernels_of(receiver, name, how, p.ndim)
    made = Pass(placed, settled, how, "weight_gradient", p.weight_update(), x, deltas, receiver)
    if placed.plan:
        return made
    call = ConvCall.weight_gradient(p, lies(deltas, "deltas", how, p.groups), lies(x, "x", how, p.groups), w_lies)
    return replace(made, call=call)


def update_pass(*, deltas: Any, weights: Any, x: Any, scale: Any, target: Any, **named: Any) -> Pass:
    """Describe an update of weights by their gradient from the arguments of its face."""
    how, settled = Described.among(named), replace(Settings.of(named), epilogue=Epilogue.of(scale, 1.0, None, "scale"))
    given, images = operand("deltas", deltas), operand("x", x)
    if weights is None:
        raise bad_type("weights", "None", "an array or a QuarterArray, which receives the result")
    kernels = operand("weights", weights)
    placed = place_of_pass("poplin.convolution_weight_update", settled, target, None, (images, given), weights, None,
                           updates=True)
    return weight_pass(how, settled, placed, given, images, None, kernels, weights, None)


def update_request(_: str, /, scale: Any, **given: Any) -> Request:
    """Describe a call that updates weights, whose scale may be the call's own."""
    (own,), values = own_numbers(scale)
    return update_pass(scale=scale, **given).request(own, values)


def receive_result(out: Any, out_dtype: Any, shape: tuple[int, ...], dtype: Format,
                   like: Operand | None) -> Receiver:
    """Return what receives a result of images, by default of a format; a new one lies as `like` does."""
    if out is None and like is not None:
        return new_images(shape, dtype if out_dtype is None else format_of(out_dtype, "out_dtype"), like)
    return receive("out", out, shape, out_dtype, dtype)


def lies(x: Operand, name: str, how: Described, groups: int) -> FieldLayout:
    """Return how images lie."""
    return images_of(x, name, how, groups)[0]


def bias_layout(bias: Operand | None, groups: int) -> MatrixLayout | None:
    """Return how a bias lies, if there is one."""
    if bias is None:
        return None
    step = bias.array.strides[0]
    return MatrixLayout(bias.format, 0, step, (bias.shape[0] // groups * step,))


def as_result(residual: Operand, receiver: Receiver) -> Operand:
    """Return what is added to a result, lying as the result does."""
    fits = (residual.shape, residual.format, residual.scale) == (receiver.shape, receiver.format, receiver.scale)
    if not fits or residual.scales:
        raise bad_argument("residual", f"{residual.format} of shape {residual.shape}",
                           f"the result's format and shape, {receiver.format} of shape {receiver.shape}")
    if residual.array.strides == receiver.array.strides and residual.array.flags.aligned:
        return residual
    copy, _ = lying_like(receiver.array)
    copy[...] = residual.array
    return replace(residual, array=copy, place=None)
