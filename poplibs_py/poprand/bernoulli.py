"""Bernoulli numbers and dropout."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..errors import bad_argument, bad_type
from ..formats import FP32, Format, format_of
from ..formats.arrays import as_array
from ..popops.cast import cast
from ..target import Target
from . import hardware
from ._draw import Draw, Remembered, finite, is_ipu, output, shape_of
from .arguments import BOOL, INT32, LARGEST, Array, Seed, Shape, Stream, drawing, dtype_of

__all__ = ["bernoulli", "dropout", "dropout_gradient", "shaped_dropout", "shaped_dropout_gradient"]

_SIZES = {4: "4 bytes", 2: "2 bytes", 1: "1 byte"}


def _kept(chance: float) -> tuple[int, int]:
    """The greatest 32-bit word that is kept, and 1; or (0, 0) where none is."""
    words = round(chance * 2.0**32)
    return (words - 1, 1) if words else (0, 0)


def bernoulli(shape: Shape | None, prob: float = 0.5, *, dtype: DTypeLike | Format = np.float32, seed: Seed = None,
              seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Array | None = None,
              target: Target | None = None, tile_mapping: hardware.TileMapping | None = None) -> Array:
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
    >>> from poplibs_py import poprand
    >>> int(poprand.bernoulli(8, 1.0, dtype=bool).sum())
    8
    """
    if not is_ipu(stream, target, tile_mapping):
        return _bernoulli(prob, dtype).fill(shape, out, seed, seed_modifier, offset)
    element, chance = dtype_of(dtype, (INT32, BOOL)), finite("prob", prob, 0.0, 1.0)
    result = output(shape, element, out)
    machine = hardware.dealer(target, tile_mapping, offset, seed, seed_modifier)
    return hardware.store(result, machine.keep(result.size, chance, element))


@Remembered
def _bernoulli(prob: object, dtype: DTypeLike) -> Draw:
    element = dtype_of(dtype, (INT32, BOOL))
    bound, some = _kept(finite("prob", prob, 0.0, 1.0))
    one = int(np.ones((), element).view(f"u{element.itemsize}")) if some else 0
    return drawing("bernoulli", _SIZES[element.itemsize], element, bound=bound, one=one)


def _chance_and_factor(keep_prob: object, scale: object) -> tuple[float, float]:
    chance = finite("keep_prob", keep_prob, 0.0, 1.0)
    if scale is None:
        return chance, 1.0 / chance if chance >= 2.0**-126 else 0.0
    return chance, finite("scale", scale, -LARGEST, LARGEST)


def numbers_of(x: object) -> Array:
    """Return the input of a dropout as a plain array of one of the formats; what cannot be taken is refused."""
    array = as_array("x", x, "a numpy.ndarray without a mask, or a tensor that DLPack can pass on", np.float32)
    _check_element(array.dtype)
    return array


@cache
def _check_element(dtype: np.dtype[Any]) -> None:
    format_of(dtype, "x")
    if not dtype.isnative:
        raise bad_type("x", f"an array of {dtype.str}", "the machine's own byte order")


def dropout(x: Array, keep_prob: float, scale: float | None = None, *, seed: Seed = None, seed_modifier: int = 0,
            stream: Stream = "counter", offset: int = 0, out: Array | None = None, target: Target | None = None,
            tile_mapping: hardware.TileMapping | None = None) -> Array:
    """Keep each element with a probability, scaled, and replace the others by zero.

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
    Counter stream: kept where `bernoulli` of the same seed gives one, whatever the dtype; ``x * scale`` in FP32,
    rounded to the format; +0 elsewhere, also for NaN and infinities. IPU: 16-bit probabilities, in the arithmetic of
    the dtype, and PopLibs' rule that a probability whose 16 bits say 1 copies the input without the scale.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poprand
    >>> y = poprand.dropout(np.ones(1000, np.float32), 0.5, seed=4)
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]
    """
    ipu, values = is_ipu(stream, target, tile_mapping), numbers_of(x)
    if not ipu:
        return _dropout(keep_prob, scale, values.dtype).fill(values.shape, out, seed, seed_modifier, offset, values)
    chance, factor = _chance_and_factor(keep_prob, scale)
    result = output(values.shape, values.dtype, out)
    machine = hardware.dealer(target, tile_mapping, offset, seed, seed_modifier)
    if hardware.sixteen_bits(chance) == 65536:
        return hardware.store(result, values.copy())
    kept = machine.keep(values.size, chance, values.dtype).reshape(values.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.where(kept, values, values.dtype.type(0)) * values.dtype.type(factor)
    return hardware.store(result, scaled)


@Remembered
def _dropout(keep_prob: object, scale: object, dtype: np.dtype[Any]) -> Draw:
    chance, factor = _chance_and_factor(keep_prob, scale)
    bound, one = _kept(chance)
    return drawing("dropout", format_of(dtype).name, dtype, scale=factor, bound=bound, one=one)


def _with_seed(seed: Seed) -> Seed:
    if seed is None:
        raise bad_argument("seed", None, "the seed that the forward pass was given")
    return seed


def dropout_gradient(gradient: Array, keep_prob: float, scale: float | None = None, *, seed: Seed,
                     **options: Any) -> Array:
    """Return the gradient of `dropout` for its input: the same elements kept, the same scale.

    Parameters
    ----------
    gradient : ndarray
        Gradient for the output, shaped like it.
    keep_prob, scale, seed
        As the forward pass was given them; the seed is required.
    **options
        The forward pass's other keywords.

    Returns
    -------
    ndarray
    """
    return dropout(gradient, keep_prob, scale, seed=_with_seed(seed), **options)


def shaped_dropout(x: Array, mask_shape: Shape, keep_prob: float, scale: float | None = None, *, seed: Seed = None,
                   seed_modifier: int = 0, stream: Stream = "counter", offset: int = 0, out: Array | None = None,
                   target: Target | None = None, tile_mapping: hardware.TileMapping | None = None) -> Array:
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
    The mask is `bernoulli` of the dtype. Counter stream: where it is one, ``x * scale`` in FP32, rounded to the
    format; +0 elsewhere. IPU: ``x * (mask * scale)`` in the arithmetic of the dtype, so NaN stays NaN; 16-bit
    probabilities; a probability whose 16 bits say 1 copies the input without the scale.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poprand
    >>> y = poprand.shaped_dropout(np.ones((4, 100), np.float32), (4, 1), 0.5, seed=4)
    >>> bool((y == y[:, :1]).all())
    True
    """
    ipu, values = is_ipu(stream, target, tile_mapping), numbers_of(x)
    chance, factor = _chance_and_factor(keep_prob, scale)
    extents = shape_of(mask_shape)
    try:
        fits = np.broadcast_shapes(extents, values.shape) == values.shape
    except ValueError:
        fits = False
    if not fits:
        raise bad_argument("mask_shape", mask_shape, f"a shape that broadcasts to {values.shape}")
    result = output(values.shape, values.dtype, out)
    if ipu:
        machine = hardware.dealer(target, tile_mapping, offset, seed, seed_modifier)
        if hardware.sixteen_bits(chance) == 65536:
            return hardware.store(result, values.copy())
        mask = machine.keep(int(np.prod(extents)), chance, values.dtype).reshape(extents).astype(values.dtype)
        return hardware.store(result, values * (mask * values.dtype.type(factor)))
    kept = bernoulli(extents, chance, dtype=bool, seed=seed, seed_modifier=seed_modifier, offset=offset)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.where(kept, cast(values, FP32) * np.float32(factor), np.float32(0))
    form = format_of(values)
    return cast(scaled, form, overflow="inf" if form.has_infinity else "saturate", out=result)  # type: ignore[no-any-return]


def shaped_dropout_gradient(gradient: Array, mask_shape: Shape, keep_prob: float, scale: float | None = None, *,
                            seed: Seed, **options: Any) -> Array:
    """Return the gradient of `shaped_dropout` for its input.

    Parameters
    ----------
    gradient : ndarray
        Gradient for the output, shaped like it.
    mask_shape, keep_prob, scale, seed
        As the forward pass was given them; the seed is required.
    **options
        The forward pass's other keywords.

    Returns
    -------
    ndarray
    """
    return shaped_dropout(gradient, mask_shape, keep_prob, scale, seed=_with_seed(seed), **options)
