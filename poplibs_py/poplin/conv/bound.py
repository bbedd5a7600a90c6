"""How wrong a convolution may be: exact products and FP32 sums in any order, then the epilogue, as for dense products.

What a call computes is written in `poplin.tile_conv.reference`, on arrays [N, G * Ci, field...] and
[G, Co, Ci, kernel...]; this module brings a call's operands into that order, and its result back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...formats import FP16, FP32, Floats, Format, format_of
from ...formats.bounds import Ball, rounding_error, sum_ball
from ...formats.reference import values
from ...ops import host_target, operand, place_of, result_format, target_of
from ..gemm.options import GemmOptions
from ..gemm.plan import HALF_PARTIALS_DEPTH
from ..gemm.search import may_flush, passes
from ..product.bound import finished_ball, finished_on_tiles, scale_of, scaled
from ..tile_conv import ConvParams
from ..tile_conv.modelled import convolution_bound as modelled_bound
from ..tile_conv.reference import reference_convolution, reference_input_gradient, reference_weight_gradient
from .modelled import Asked, channels_second, grouped, lacks
from .options import OF_EVERY_MACHINE, parse_options
from .params import Described, images_of, kernels_of, stated, stated_input_gradient, stated_weights
from .request import HOW
from .winograd_bound import winograd_plan, winograd_radius

Numbers = np.ndarray[Any, Any]
_REFERENCES = {"forward": reference_convolution, "input_gradient": reference_input_gradient,
               "weight_gradient": reference_weight_gradient}


@dataclass(frozen=True)
class Arranged:
    """A call's operands in the reference's order of axes.

    Attributes
    ----------
    params : ConvParams
        Of the forward pass.
    first, second : numpy.ndarray
        The operands that are multiplied.
    depth : int
        Products of each sum, at most.
    back : callable
        Returns a result in the caller's order of axes.
    met : callable
        Sums numbers of the second operand over those that one result may meet.
    """

    params: ConvParams
    first: Numbers
    second: Numbers
    depth: int
    back: Callable[[Numbers], Numbers]
    met: Callable[[Numbers], Numbers]


def _kernels_back(w: Numbers, how: Described, grouped: bool) -> Numbers:
    if not grouped:
        w = w.reshape(w.shape[0] * w.shape[1], *w.shape[2:])
    first = 1 if grouped else 0
    return np.moveaxis(w, (first, first + 1), (-1, -2)) if how.channels_last else w


def arranged_convolution(x: Any, weights: Any, *, transpose_and_flip_weights: bool = False, read: Any = values,
                         **given: Any) -> Arranged:
    """Arrange a call of `convolution`; `read` makes an operand into numbers."""
    how, images = Described.among(given), operand("x", x)
    ndim = images.array.ndim - 2
    _, (groups, made, taken), kernel = kernels_of(operand("weights", weights), "weights", how, ndim)
    second = grouped(read(weights), how, groups, ndim)
    if transpose_and_flip_weights:
        made, taken = taken, made
        second = np.flip(second.swapaxes(1, 2), tuple(range(3, second.ndim)))
    _, batch, _, field = images_of(images, "x", how, groups)
    p = stated(how, batch, field, kernel, taken, made, groups)
    return Arranged(p, channels_second(read(x), how), second, taken * math.prod(kernel), _images_back(how),
                    lambda w: w.sum(tuple(range(2, w.ndim))).reshape(groups * made, *(1,) * ndim))


def arranged_input_gradient(deltas: Any, weights: Any, *, field_shape: Any = None, out: Any = None, read: Any = values,
                            **given: Any) -> Arranged:
    """Arrange a call of `convolution_input_gradient`."""
    how, images = Described.among(given), operand("deltas", deltas)
    ndim = images.array.ndim - 2
    _, (groups, made, _), kernel = kernels_of(operand("weights", weights), "weights", how, ndim)
    p = stated_input_gradient(how, images, operand("weights", weights), field_shape, out)
    return Arranged(p, channels_second(read(deltas), how), grouped(read(weights), how, groups, ndim),
                    made * math.prod(kernel), _images_back(how),
                    lambda w: w.sum((1, *range(3, w.ndim))).reshape(p.groups * p.in_channels, *(1,) * ndim))


def arranged_weight_deltas(deltas: Any, x: Any, *, kernel_shape: Any = None, weights: Any = None, read: Any = values,
                           **given: Any) -> Arranged:
    """Arrange a call of `calculate_weight_deltas`, or of `convolution_weight_update`."""
    how = Described.among(given)
    written = None if weights is None else operand("weights", weights)
    p = stated_weights(how, operand("deltas", deltas), operand("x", x), kernel_shape, written, "weights")
    with_groups = written is not None and written.array.ndim == p.ndim + 3
    images, others = (channels_second(read(value), how) for value in (x, deltas))
    return Arranged(p, images, others, p.batch * math.prod(p.output_shape),
                    lambda made: _kernels_back(made, how, with_groups),
                    lambda d: d.sum((0, *range(2, d.ndim))).reshape(p.groups, p.out_channels, *(1,) * (p.ndim + 1)))


def _images_back(how: Described) -> Callable[[Numbers], Numbers]:
    return lambda made: np.moveaxis(made, 1, -1) if how.channels_last else made


def convolution_bound(x: Any, weights: Any, *, bias: Any = None, residual: Any = None, activation: str | None = None,
                      out: Any = None, out_dtype: Any = None, **given: Any) -> Ball:
    """Return exact results and radii of a `convolution` call."""
    how = Described.among(given)
    arranged = arranged_convolution(x, weights, **given)
    made = _made(out, out_dtype, x, weights)
    if _modelled(given):
        ball = _on_tiles("forward", arranged, arranged.params, _formats(x, weights), made, given)
        return finished_on_tiles(ball, _spread(bias, how, ball), activation, made, given.get("seed"))
    ball = _sums(reference_convolution, arranged, _formats(x, weights), given)
    if residual is not None:
        ball = ball.rounded(FP32) + Ball.exact(values(residual))
    return finished_ball(ball, _spread(bias, how, ball), activation, made, scale_of(out))


def convolution_with_output_bound(x: Any, weights: Any, out: Any, **given: Any) -> Ball:
    """Return exact results and radii of a `convolution_with_output` call."""
    return convolution_bound(x, weights, out=out, **given)


def convolution_input_gradient_bound(deltas: Any, weights: Any, *, field_shape: Any = None, out: Any = None,
                                     out_dtype: Any = None, **given: Any) -> Ball:
    """Return exact results and radii of a `convolution_input_gradient` call."""
    arranged = arranged_input_gradient(deltas, weights, field_shape=field_shape, out=out, **given)
    made = _made(out, out_dtype, deltas, weights)
    if _modelled(given):
        return _on_tiles("input_gradient", arranged, arranged.params.gradient(), _formats(deltas, weights), made, given)
    ball = _sums(reference_input_gradient, arranged, _formats(deltas, weights), given)
    return finished_ball(ball, None, None, made, scale_of(out))


def calculate_weight_deltas_bound(deltas: Any, x: Any, *, kernel_shape: Any = None, out: Any = None,
                                  out_dtype: Any = None, **given: Any) -> Ball:
    """Return exact results and radii of a `calculate_weight_deltas` call."""
    arranged = arranged_weight_deltas(deltas, x, kernel_shape=kernel_shape, weights=out, **given)
    made = _made(out, out_dtype, deltas, x)
    if _modelled(given):
        params = arranged.params.weight_update()
        return _on_tiles("weight_gradient", arranged, params, _formats(x, deltas), made, given)
    ball = _sums(reference_weight_gradient, arranged, _formats(x, deltas), given)
    return finished_ball(ball, None, None, made, scale_of(out))


def convolution_weight_update_bound(deltas: Any, weights: Any, x: Any, scale: float, **given: Any) -> Ball:
    """Return exact results and radii of a `convolution_weight_update` call, given the weights as they were."""
    arranged = arranged_weight_deltas(deltas, x, weights=weights, **given)
    formats, read = _formats(x, deltas), (operand("x", x), operand("deltas", deltas))
    placed = place_of("poplin.convolution_weight_update", given.get("target"),
                      lambda machine: lacks(read, _format(weights), updates=True) or machine)
    if placed.plan:
        ball = _on_tiles("weight_gradient", arranged, arranged.params.weight_update(), formats, formats[0], given)
    else:
        ball = _sums(reference_weight_gradient, arranged, formats, given)
    ball = scaled(ball.rounded(FP32), scale) + Ball.exact(values(weights))
    return finished_ball(ball, None, None, _format(weights), scale_of(weights))


def add_bias_bound(acts: Any, bias: Any, **given: Any) -> Ball:
    """Return exact results and radii of an `add_bias` call, given the images as they were."""
    ball = Ball.exact(values(acts))
    return finished_ball(ball, _spread(bias, Described.among(given), ball), None, _format(acts), scale_of(acts))


def convolution_bias_update_bound(deltas: Any, bias: Any, scale: float, **given: Any) -> Ball:
    """Return exact results and radii of a `convolution_bias_update` call, given the bias as it was."""
    numbers = channels_second(values(deltas), Described.among(given))
    axes = (0, *range(2, numbers.ndim))
    terms = math.prod(numbers.shape[axis] for axis in axes)
    with np.errstate(all="ignore"):
        magnitude = np.abs(np.where(np.isfinite(numbers), numbers, 0.0)).sum(axes)
        ball = sum_ball(numbers.sum(axes), magnitude, terms, flushes=True)
    ball = scaled(ball.rounded(FP32), scale) + Ball.exact(values(bias))
    return finished_ball(ball, None, None, _format(bias), scale_of(bias))


def _format(x: Any) -> Format:
    fmt: Format | None = operand("operand", x).format
    assert fmt is not None
    return fmt


def _formats(*operands: Any) -> tuple[Format, Format]:
    first, second = map(_format, operands)
    return first, second


def _made(out: Any, out_dtype: Any, *operands: Any) -> Format:
    if out_dtype is not None:
        return format_of(out_dtype)
    return _format(out) if out is not None else result_format(*_formats(*operands))


def _spread(bias: Any, how: Described, ball: Ball) -> Any:
    """A bias in a shape that broadcasts to the result's."""
    if bias is None:
        return None
    return values(bias).reshape(-1, *([] if how.channels_last else [1] * (len(ball.shape) - 2)))


def _modelled(given: dict[str, Any]) -> bool:
    """Whether a call names a modelled machine."""
    return target_of(given.get("target")).kind != "host"


def _on_tiles(pass_: str, arranged: Arranged, params: ConvParams, formats: tuple[Format, Format], made: Format,
              given: dict[str, Any]) -> Ball:
    """Bound a pass on a modelled machine, from the plan that it follows."""
    keywords = {name: given[name] for name in OF_EVERY_MACHINE if name in given}
    asked = Asked(target_of(given.get("target")), given.get("options"), keywords)
    if 0 in (params.batch, params.out_channels, params.groups, *params.output_shape):
        return Ball.exact(arranged.back(_REFERENCES[pass_](arranged.first, arranged.second, arranged.params)))
    plan = given.get("plan") or asked.plan(params, formats[0], made)  # one of several convolutions has its own
    ball = modelled_bound(plan, arranged.first, arranged.second, pass_=pass_, seed=given.get("seed"))
    return Ball(arranged.back(ball.centre), arranged.back(ball.radius))


def _sums(reference: Callable[..., Floats], arranged: Arranged, formats: tuple[Format, Format],
          given: dict[str, Any]) -> Ball:
    """Bound the sums of products. Where a zero of padding or dilation meets what is not finite nothing is promised."""
    options = parse_options(given.get("options"), GemmOptions(**{k: v for k, v in given.items() if k in HOW}))
    p, first, second = arranged.params, arranged.first, arranged.second
    if given.get("winograd") and formats == (FP32, FP32):
        turned = reference is reference_input_gradient
        passed, kernels = p.gradient() if turned else p, second
        if turned:
            kernels = np.flip(second.swapaxes(1, 2), tuple(range(3, second.ndim)))
        plan = winograd_plan(passed, options, host_target(given.get("target"), "convolutions"))
        if plan:
            centre, radius = reference(first, second, p), winograd_radius(plan, passed, first, kernels)
            return Ball(arranged.back(centre), arranged.back(radius))
    sizes = [np.abs(np.where(np.isfinite(x), x, 0.0)) for x in (first, second)]
    count, flushes = passes(*formats, options), may_flush(*formats, options)
    with np.errstate(all="ignore"):
        centre, magnitude = reference(first, second, p), reference(*sizes, p)
        lost = _lost(reference, arranged, sizes) if flushes else 0.0
        ball = sum_ball(centre, magnitude, count * arranged.depth, flushes=flushes, carried=lost)
        if options.partials_type == "half":
            blocks = max(1, -(-arranged.depth // HALF_PARTIALS_DEPTH))
            carried = ball.radius + blocks * rounding_error(0.0, FP16)
            ball = sum_ball(centre, magnitude, blocks, FP16, carried=carried)
    radius = np.where(_open(reference, arranged), np.inf, ball.radius)
    return Ball(arranged.back(centre), arranged.back(radius))


def _lost(reference: Callable[..., Floats], arranged: Arranged, sizes: list[Floats]) -> Floats:
    """What products with subnormals may lose; an infinity times one that is taken for zero is NaN."""
    p, operands = arranged.params, (arranged.first, arranged.second)
    least = FP32.smallest_normal
    small = [np.where(size < least, size, 0.0) for size in sizes]
    lost = reference(small[0], sizes[1], p) + reference(sizes[0], small[1], p)
    special = [(~np.isfinite(x)).astype(float) for x in operands]
    tiny = [(x > 0).astype(float) for x in small]
    met = reference(special[0], tiny[1], p) + reference(tiny[0], special[1], p)
    return np.where(met > 0, np.inf, lost)


def _open(reference: Callable[..., Floats], arranged: Arranged) -> Any:
    """Where numbers of the second operand that are not finite meet no number of the first."""
    special = (~np.isfinite(arranged.second)).astype(float)
    if not special.any():
        return False
    return reference(np.ones(arranged.first.shape), special, arranged.params) < arranged.met(special)
