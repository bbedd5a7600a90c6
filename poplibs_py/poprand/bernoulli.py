"""Bernoulli numbers and dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import as_shape, finite
from ..config import settings
from ..errors import bad_argument
from ..formats import Array
from ..ops import RESULT, VALUES, Operand, Receiver, Request, array_operand
from ..popops.strided.lower import StridedOperand, StridedParams, lower
from ..popops.strided.steps import Chain, Number, Step
from ..program import Executable, Room, Sequence
from . import hardware
from .arguments import (
    BOOL,
    INT32,
    LARGEST,
    DType,
    Seed,
    Shape,
    Stream,
    TargetLike,
    TileMapping,
    dtype_of,
    result,
)
from .law import Law, Place, law_of
from .where import Where, random_op

_SIZES = {4: "4 bytes", 2: "2 bytes", 1: "1 byte"}


def _kept(chance: float) -> tuple[int, int]:
    """The greatest 32-bit word that is kept, and 1; or (0, 0) where none is."""
    words = round(chance * 2.0**32)
    return (words - 1, 1) if words else (0, 0)


@random_op("poprand::bernoulli")
def bernoulli(shape: Shape | None, prob: float = 0.5, *, dtype: DType = np.float32, seed: Seed = None,
              seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None,
              target: TargetLike = None, tile_mapping: TileMapping = None) -> Any:
    """Draw ones with a probability, and zeros.

    Corresponds to PopLibs' ``poprand::bernoulli``.

    Parameters
    ----------
    shape, seed, seed_modifier, stream, offset, out, target, tile_mapping
        As in `uniform`.
    prob : float, optional
        Probability of a one, 0 to 1.
    dtype : dtype-like or Format, optional
        float32 (default), float16, bfloat16, an FP8 dtype, int32 or bool. ``stream="ipu"``: float32, float16, int32.

    Returns
    -------
    ndarray

    Notes
    -----
    Counter stream: one where the element's 32-bit word is below ``prob * 2**32``, rounded to a whole number; the
    ones are at the same places for every dtype. IPU: 16 bits, the probability ``floor(prob * 65536) / 65536``.

    Examples
    --------
    >>> int(poprand.bernoulli(8, 1.0, dtype=bool).sum())
    8
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    element, chance = dtype_of(dtype, (INT32, BOOL)), finite("prob", prob, 0.0, 1.0)
    return where.drawn(lambda: _bernoulli(chance, element), lambda dealer, n: dealer.keep(n, chance, element),
                       shape, element, out)


def _bernoulli(chance: float, element: np.dtype[Any]) -> Law:
    bound, some = _kept(chance)
    one = int(np.ones((), element).view(f"u{element.itemsize}")) if some else 0
    return law_of("bernoulli", _SIZES[element.itemsize], element, bound=bound, one=one)


@random_op("poprand::dropout")
def dropout(x: Array, keep_prob: float, scale: float | None = None, *, seed: Seed = None, seed_modifier: int = 0,
            stream: Stream = "counter", offset: int = 0, out: Any = None, target: TargetLike = None,
            tile_mapping: TileMapping = None) -> Any:
    """Keep each element with a probability, and scale it; replace the others by zero.

    Corresponds to PopLibs' ``poprand::dropout``.

    Parameters
    ----------
    x : array-like
        float32, float16, bfloat16 or an FP8 dtype; tensors too, through DLPack; lists become float32.
        ``stream="ipu"``: float32 or float16.
    keep_prob : float
        Probability that an element is kept, 0 to 1.
    scale : float, optional
        Factor of the kept elements; ``1 / keep_prob`` by default.
    seed, seed_modifier, stream, offset, target, tile_mapping
        As in `uniform`.
    out : ndarray, optional
        Filled and returned; may be `x` itself.

    Returns
    -------
    ndarray
        Like `x`.

    Notes
    -----
    Counter stream: an element is kept where `bernoulli` of the same seed gives one, whatever the dtype. It becomes
    ``x * scale`` in FP32, rounded to the format; the others become +0, NaN and infinities too. IPU: probabilities have
    16 bits, and the arithmetic is that of the dtype. Where those 16 bits say 1, the input is copied without the scale,
    as PopLibs does.

    Examples
    --------
    >>> import numpy as np
    >>> y = poprand.dropout(np.ones(1000, np.float32), 0.5, seed=4)
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    return _dropout("x", x, keep_prob, scale, out, where)


def _dropout(name: str, x: Any, keep_prob: object, scale: object, out: Any, where: Where,
             *mask_shape: Shape) -> Request:
    """Describe a dropout of the argument of this name, by a mask of its own shape where one follows."""
    if name == "gradient" and where.seed is None:
        raise bad_argument("seed", None, "the seed that the forward pass was given")
    ipu, source = where.is_ipu, array_operand(name, x)
    source = source.in_c_order() if ipu or not mask_shape else source  # a mask of its own takes any strides
    chance = finite("keep_prob", keep_prob, 0.0, 1.0)
    factor = 1.0 / chance if chance >= 2.0**-126 else 0.0
    if scale is not None:
        factor = finite("scale", scale, -LARGEST, LARGEST)
    values, element = source.array, source.array.dtype
    extents = _mask_shape(mask_shape[0], values.shape) if mask_shape else values.shape
    receiver = result(values.shape, element, out, contiguous=not ipu, in_place=(source,))
    if not ipu:
        if mask_shape:
            return _masked(source, extents, chance, factor, receiver, where.place)
        return _dropping(source, chance, factor).request(receiver, where.place, source)
    dealer, size = where.dealer, math.prod(extents)

    def draw(_: int) -> Array:
        if hardware.sixteen_bits(chance) == hardware.ALWAYS:
            return values
        kept = dealer.keep(size, chance, element).reshape(extents)
        if mask_shape:
            masked: Array = values * (kept.astype(element) * element.type(factor))
            return masked
        with np.errstate(invalid="ignore", over="ignore"):
            scaled: Array = np.where(kept, values, element.type(0)) * element.type(factor)
        return scaled

    return dealer.request(receiver, draw, source, size=size)


def _dropping(source: Operand, chance: float, factor: float) -> Law:
    """The law of a dropout: which are kept, and the factor of those."""
    bound, one = _kept(chance)
    return law_of("dropout", source.format.name, source.array.dtype, scale=factor, bound=bound, one=one)


@random_op(like="dropout")
def dropout_gradient(gradient: Array, keep_prob: float, scale: float | None = None, *, seed: Seed,
                     seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None,
                     target: TargetLike = None, tile_mapping: TileMapping = None) -> Any:
    """Return the gradient of `dropout` for its input: the same elements kept, the same scale.

    Parameters
    ----------
    gradient : ndarray
        Gradient for the output, shaped like it.
    keep_prob, scale, seed, seed_modifier, stream, offset, target, tile_mapping
        Those of the forward pass; the seed is required.
    out : ndarray, optional
        Filled and returned; may be `gradient` itself.

    Returns
    -------
    ndarray
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    return _dropout("gradient", gradient, keep_prob, scale, out, where)


@random_op("poprand::shapedDropout")
def shaped_dropout(x: Array, mask_shape: Shape, keep_prob: float, scale: float | None = None, *, seed: Seed = None,
                   seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Any = None,
                   target: TargetLike = None, tile_mapping: TileMapping = None) -> Any:
    """Dropout whose mask has a shape of its own and is broadcast over the input.

    Corresponds to PopLibs' ``poprand::shapedDropout``.

    Parameters
    ----------
    x, keep_prob, scale, seed, seed_modifier, stream, offset, out, target, tile_mapping
        As in `dropout`; the offset and the mapping are those of the mask.
    mask_shape : int or tuple of int
        Must broadcast to the shape of `x`.

    Returns
    -------
    ndarray
        Like `x`.

    Notes
    -----
    The mask is `bernoulli` of the dtype. Counter stream: where it is one, ``x * scale`` in FP32, rounded to the format;
    +0 elsewhere. IPU: ``x * (mask * scale)`` in the arithmetic of the dtype, so NaN stays NaN. Probabilities have 16
    bits; where these say 1, the input is copied without the scale.

    Examples
    --------
    >>> import numpy as np
    >>> y = poprand.shaped_dropout(np.ones((4, 100), np.float32), (4, 1), 0.5, seed=4)
    >>> bool((y == y[:, :1]).all())
    True
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    return _dropout("x", x, keep_prob, scale, out, where, mask_shape)


def _masked(source: Operand, extents: tuple[int, ...], chance: float, factor: float, receiver: Receiver,
            place: Place) -> Request:
    """Describe a dropout of the counter stream by a mask of these extents."""
    law, size = _bernoulli(chance, BOOL), math.prod(extents)
    room = Room(operands=3)
    mask = room.take(size)
    program = Sequence([(law.program(size), (mask, 2)), (_masking(source, extents, factor, receiver), (0, mask, 1))], 3,
                       room.bytes)
    return Request(program, (source, RESULT, VALUES), receiver, lambda: law.told(receiver), law.words(size, place),
                   place.ready)


def _masking(source: Operand, extents: tuple[int, ...], factor: float, receiver: Receiver) -> Executable:
    """Return what scales elements where a mask of these extents holds, as `dropout` does, and writes +0 elsewhere."""
    mask = np.broadcast_to(np.empty(extents, np.bool_), source.shape)
    chain = Chain((Step("mul", (0, 3), (4,)), Step("select", (4, 5, 1), (2,))), ("float32", "bool", *["float32"] * 4),
                  ((3, 0), (5, 1)), (Number("float32", int(np.float32(factor).view(np.uint32))), Number("float32")))
    read = StridedOperand(source.format, source.array.strides), StridedOperand(BOOL, mask.strides)
    written = StridedOperand(source.format, receiver.array.strides)
    params = StridedParams("shaped dropout", source.shape, read, (written,), "nearest-even",
                           "inf" if source.format.has_infinity else "saturate", chain=chain)
    return lower(params, settings.num_threads).executable


def _mask_shape(mask_shape: Shape, shape: tuple[int, ...]) -> tuple[int, ...]:
    extents = as_shape("mask_shape", mask_shape)
    ends = zip(reversed(extents), reversed(shape), strict=False)
    if len(extents) > len(shape) or any(mine not in (1, full) for mine, full in ends):
        raise bad_argument("mask_shape", mask_shape, f"a shape that broadcasts to {shape}")
    return extents


@random_op(like="shaped_dropout")
def shaped_dropout_gradient(gradient: Array, mask_shape: Shape, keep_prob: float, scale: float | None = None, *,
                            seed: Seed, seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0,
                            out: Any = None, target: TargetLike = None, tile_mapping: TileMapping = None) -> Any:
    """Return the gradient of `shaped_dropout` for its input.

    Parameters
    ----------
    gradient : ndarray
        Gradient for the output, shaped like it.
    mask_shape, keep_prob, scale, seed, seed_modifier, stream, offset, target, tile_mapping
        Those of the forward pass; the seed is required.
    out : ndarray, optional
        Filled and returned; may be `gradient` itself.

    Returns
    -------
    ndarray
    """
    where = Where(seed, seed_modifier, stream, offset, target, tile_mapping)
    return _dropout("gradient", gradient, keep_prob, scale, out, where, mask_shape)
