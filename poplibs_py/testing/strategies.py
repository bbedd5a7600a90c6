"""Hypothesis strategies: formats, bit patterns, shapes around the kernels' grains, layouts, sparsity, options.

Needs ``hypothesis`` (``pip install 'poplibs_py[testing]'``). Large arrays are drawn as a seed and a short palette of
codes, so that they are cheap to draw and shrink to a palette of one simple code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from ..checks import flag, instance, one_of, whole
from ..formats import FORMATS, Array, Format, QuarterArray, format_of
from ..formats.format import Specials
from ..formats.reference import decode, encode
from ..kernels.registry import FAMILIES, kernels
from ..popsparse import BlockPattern
from .data import random_operand

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Operands and keywords of a call of an op."""

NAMES = [f.name for f in FORMATS]
"""Of the formats that have a dtype."""

__all__ = ["arrays", "block_masks", "block_patterns", "codes", "custom_formats", "extents", "formats", "grains",
           "layouts", "numbers", "options", "relaid", "scaled", "shapes"]


def formats(*, at_most_bits: int = 32, custom: bool = False) -> SearchStrategy[Format]:
    """Formats: the presets, and any that a user might describe.

    Parameters
    ----------
    at_most_bits : int, optional
        The widest code.
    custom : bool, optional
        Whether to draw formats without a dtype too.
    """
    return _formats(whole("at_most_bits", at_most_bits, 8, 32), flag("custom", custom))


@lru_cache(4096, typed=True)
def sampled(*values: Any) -> SearchStrategy[Any]:
    """One of some values, which hash; of zeros of both signs those that came first.

    Strategies are kept, here and below: to examine a new one takes hypothesis longer than to draw from it.
    """
    return st.sampled_from(values)


@lru_cache(512)
def _formats(at_most_bits: int, custom: bool) -> SearchStrategy[Format]:
    presets = st.sampled_from([f for f in FORMATS if f.bits <= at_most_bits])
    signed = custom_formats(at_most_bits=min(16, at_most_bits)).filter(lambda f: f.signed)
    return presets | signed if custom else presets


@st.composite
def custom_formats(draw: st.DrawFn, at_most_bits: int = 16) -> Format:
    """User-defined formats of 2 to 16 bits: every kind of special code, with and without subnormals, signs and zero."""
    specials: Specials = draw(st.sampled_from(get_args(Specials)))
    widest = 8 if specials == "ieee" else 7  # FP32 must hold the largest number
    exponent = draw(st.integers(2, min(widest, at_most_bits - 3)))
    mantissa = draw(st.integers(1, at_most_bits - 1 - exponent))
    middle = (1 << (exponent - 1)) - 1
    bias = middle if exponent == 8 else draw(st.just(middle) | st.integers(0, (1 << exponent) - 1))
    subnormals = draw(st.booleans())
    signed = specials == "negative_zero" or draw(sampled(True, True, False))
    zero = signed or specials == "finite" or draw(st.booleans())
    marks = ("" if subnormals else "n") + ("" if signed else "u") + ("" if zero else "z")
    return Format(f"e{exponent}m{mantissa}b{bias}{marks}_{specials}", exponent, mantissa, bias, specials, subnormals,
                  signed, zero)


def landmarks(dtype: Format) -> list[int]:
    """The codes where things change: zeros, ends of the subnormals and normals, one, infinities, NaNs, neighbours."""
    sign, hidden = 1 << dtype.sign_shift, 1 << dtype.mantissa_bits
    one = dtype.bias << dtype.mantissa_bits
    magnitudes = {0, 1, 2, hidden - 1, hidden, hidden + 1, one - 1, one, one + 1, one + hidden, dtype.max_code - 1,
                  dtype.max_code, dtype.max_code + 1, dtype.max_code + 2, sign - 1, dtype.nan_code & (sign - 1)}
    kept = sorted(m for m in magnitudes if 0 <= m < sign)
    return kept + [sign | m for m in kept if dtype.signed]


def is_finite(code: Any, dtype: Format) -> Any:
    """Whether a code is a number, or which codes of an array are."""
    magnitude = code & (1 << dtype.sign_shift) - 1
    return (magnitude <= dtype.max_code) & ((not dtype.has_nan) | (code != dtype.nan_code))


def codes(dtype: Any, *, finite: bool = False) -> SearchStrategy[int]:
    """Bit patterns of a format, one at a time: landmarks, powers of two, and all the rest evenly.

    Parameters
    ----------
    dtype : Format, dtype or str
        The format.
    finite : bool, optional
        Leave out infinities and NaNs.
    """
    return _codes(format_of(dtype), flag("finite", finite))


@lru_cache(512)
def _codes(form: Format, finite: bool) -> SearchStrategy[int]:
    marks = [c for c in landmarks(form) if not finite or is_finite(c, form)]
    powers = st.integers(0, (1 << form.exponent_bits) - 1).map(lambda e: e << form.mantissa_bits)
    drawn = st.sampled_from(marks) | powers | st.integers(0, (1 << form.bits) - 1)
    return drawn.filter(lambda c: is_finite(c, form)) if finite else drawn


@st.composite
def arrays(draw: st.DrawFn, shape: Any, dtype: Any, *, finite: bool = False, moderate: bool = False,
           near: Any = None) -> Array:
    """Arrays of bit patterns in the format's dtype (codes, for a format without one).

    Parameters
    ----------
    shape : tuple of int, or a strategy of them
        The shape.
    dtype : Format, dtype, str, or a strategy of them
        The format.
    finite : bool, optional
        Leave out infinities and NaNs.
    moderate : bool, optional
        Finite numbers of ordinary size (a normal distribution), so that sums do not overflow.
    near : Format, dtype or str, optional
        A format to which the numbers are rounded: half of them lie where that changes, which are its own numbers, those
        in the middle between two, and the next ones on either side. By default now and then any with fewer bits.

    Examples
    --------
    >>> import numpy as np
    >>> from hypothesis import find
    >>> from poplibs_py.testing import strategies
    >>> float(find(strategies.arrays((20,), "float32", near="e4m3"), lambda x: (x == 1.0625).any()).max()) >= 1.0625
    True
    """
    extent = draw(shape) if isinstance(shape, SearchStrategy) else shape
    form = format_of(draw(dtype) if isinstance(dtype, SearchStrategy) else dtype)
    count = int(np.prod(extent, dtype=np.int64))
    if moderate:
        return random_operand(tuple(extent), form, draw(st.integers(0, 2**16)))
    around = draw(_coarser(form)) if near is None else format_of(near, "near")
    if count <= 16 and around is None:
        flat = np.array(draw(_lists(form, finite, count, count)), np.int64)
    else:
        flat = _from_palette(draw, form, count, finite, around)
    array = flat.astype(form.code_dtype).reshape(extent)
    return array if form.dtype is None else array.view(form.dtype)


@lru_cache(512)
def _lists(form: Format, finite: bool, least: int, most: int) -> SearchStrategy[list[int]]:
    return st.lists(_codes(form, finite), min_size=least, max_size=most)


@lru_cache(512)
def _coarser(form: Format) -> SearchStrategy[Format | None]:
    return st.sampled_from([None, *(f for f in FORMATS if f.mantissa_bits < form.mantissa_bits)])


def _from_palette(draw: st.DrawFn, form: Format, count: int, finite: bool, near: Format | None) -> NDArray[np.int64]:
    palette = np.array(draw(_lists(form, finite, 1, 8)), np.int64)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    flat = palette[rng.integers(0, len(palette), count)]
    share = draw(sampled(0.0, 0.5, 1.0))  # of codes drawn evenly from all
    if share:
        even = rng.integers(0, 1 << form.bits, count)
        flat = np.where(rng.random(count) < share, even, flat)
    if near is not None:
        flat = np.where(rng.random(count) < 0.5, _where_rounding_changes(rng, near, form, count), flat)
    return np.where(is_finite(flat, form), flat, 0) if finite else flat


@lru_cache(32)
def _steps(near: Format) -> NDArray[np.float64]:
    """The numbers of a format from zero up, and where the first step beyond would be."""
    steps = decode(np.arange(near.max_code + 1).astype(near.code_dtype), near)
    return np.append(steps, 2 * steps[-1] - steps[-2])


def _where_rounding_changes(rng: np.random.Generator, near: Format, form: Format, count: int) -> NDArray[np.int64]:
    """Codes of one format about the numbers of another, and about the middles between two of them."""
    steps = _steps(near)
    at = rng.integers(0, len(steps) - 1, count)
    points = steps[at] + (steps[at + 1] - steps[at]) * rng.integers(0, 2, count) / 2
    found: NDArray[np.int64] = np.maximum(encode(points, form).astype(np.int64) + rng.integers(-1, 2, count), 0)
    return found | (rng.integers(0, 2, count) << form.sign_shift if form.signed else 0)


def grains(family: str | None = None, axis: int | None = None) -> tuple[int, ...]:
    """Return the grains and block sizes of the registered kernels that may run here, ascending.

    Parameters
    ----------
    family : str, optional
        One family of kernels; all by default.
    axis : int, optional
        0 rows, 1 columns, 2 depth; all by default.
    """
    one_of("family", family, (None, *FAMILIES))
    if axis is not None:
        axis = whole("axis", axis, 0, 2)
    return _grains_of((family,) if family else tuple(FAMILIES), axis)


@lru_cache(512)
def _grains_of(families: tuple[str, ...], axis: int | None) -> tuple[int, ...]:
    """The kernels are those of the build, hundreds of them, and each draw of an extent asks."""
    found = {1}
    for name in families:
        for kernel in kernels(name):
            for extents_ in (kernel.grain, kernel.block):
                found |= {max(1, int(x)) for x in (extents_ if axis is None else (extents_[axis],))}
    return tuple(sorted(found))


def extents(family: str | None = None, axis: int | None = None, *, least: int = 0, most: int = 160
            ) -> SearchStrategy[int]:
    """Extents at which kernels do something else: 0, 1, each grain or block g, g - 1, g + 1, multiples, and others.

    Parameters
    ----------
    family, axis : optional
        As in `grains`.
    least, most : int, optional
        The range of extents.
    """
    least = whole("least", least, 0, 1 << 40)
    return _extents(grains(family, axis), least, whole("most", most, least, 1 << 40))


@lru_cache(512)
def _extents(edges_of: tuple[int, ...], least: int, most: int) -> SearchStrategy[int]:
    edges = {0, 1, 2, 3}
    for g in edges_of:
        edges |= {n * g + d for n in (1, 2, 3) for d in (-1, 0, 1)}
    kept = sorted(e for e in edges if least <= e <= most)
    return st.sampled_from(kept) | st.integers(least, most) if kept else st.integers(least, most)


def shapes(rank: int = 2, family: str | None = None, *, least: int = 0, most: int = 160
           ) -> SearchStrategy[tuple[int, ...]]:
    """Shapes of `rank` extents that come from `extents`."""
    return _shapes(whole("rank", rank, 0, 32), extents(family, least=least, most=most))


@lru_cache(512)
def _shapes(rank: int, extent: SearchStrategy[int]) -> SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[extent] * rank)


LAYOUTS = ("plain", "fortran", "reversed", "stepped", "padded", "misaligned", "read_only", "broadcast")
"""Ways that an array may lie in memory."""

_LAYOUTS = {broadcast: st.sampled_from(LAYOUTS if broadcast else LAYOUTS[:-1]) for broadcast in (False, True)}


@st.composite
def numbers(draw: st.DrawFn, shape: tuple[int, ...], dtype: Format | None = None, moderate: bool | None = None) -> Any:
    """Numbers of a format, by default of any that has a dtype, of any strides, or a `QuarterArray`; `moderate` as for
    `arrays`, by default either."""
    dtype = draw(formats()) if dtype is None else dtype
    x = draw(arrays(shape, dtype, moderate=draw(st.booleans()) if moderate is None else moderate))
    if dtype.bits == 8 and draw(st.booleans()):
        return QuarterArray(x, dtype, draw(sampled(*dtype.scales)))
    return relaid(x, draw(layouts(broadcast=True)))


def layouts(*, broadcast: bool = False) -> SearchStrategy[str]:
    """Names of layouts for `relaid`; ``"broadcast"`` (strides of zero) changes the content, so it is asked for."""
    return _LAYOUTS[flag("broadcast", broadcast)]


def relaid(array: Array, layout: str) -> Array:
    """Return an array of the same content with other strides.

    Parameters
    ----------
    array : numpy.ndarray
        Any array.
    layout : str
        ``"plain"``: as it is. ``"fortran"``: the first axis innermost. ``"reversed"``: all strides negative.
        ``"stepped"``: every other element of a larger array. ``"padded"``: rows further apart than they are long.
        ``"misaligned"``: one byte off its element's alignment. ``"read_only"``. ``"broadcast"``: the first slice of
        the first axis for all of them, with a stride of zero (content changes).

    Examples
    --------
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> relaid(a, "reversed").strides, bool((relaid(a, "reversed") == a).all())
    ((-24, -8), True)
    """
    instance("array", array, np.ndarray, "a numpy.ndarray")
    one_of("layout", layout, LAYOUTS)
    if not array.ndim and layout not in ("misaligned", "read_only"):
        return array
    back = (slice(None, None, -1),) * array.ndim
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "reversed":
        return np.ascontiguousarray(array[back])[back]
    if layout == "stepped":
        wide = np.zeros([2 * n for n in array.shape], array.dtype)
        every_other = wide[(slice(None, None, 2),) * array.ndim]
        every_other[...] = array
        return every_other
    if layout == "padded":
        part: Array = np.zeros([*array.shape[:-1], array.shape[-1] + 3], array.dtype)[..., : array.shape[-1]]
        part[...] = array
        return part
    if layout == "misaligned":
        room = np.zeros(array.nbytes + 1, np.uint8)
        shifted: Array = np.ndarray(array.shape, array.dtype, room, 1)
        shifted[...] = array
        return shifted
    if layout == "read_only":
        fixed = array.copy()
        fixed.flags.writeable = False
        return fixed
    if layout == "broadcast" and array.shape[0]:
        return np.broadcast_to(array[:1], array.shape)
    return array


@st.composite
def block_masks(draw: st.DrawFn, block_rows: Any, block_columns: Any) -> NDArray[np.bool_]:
    """Sparsity patterns by block: none, all, diagonal, band, one row or column, at random, with empty rows and columns.

    Parameters
    ----------
    block_rows, block_columns : int or a strategy of int
        Blocks each way.
    """
    rows = draw(block_rows) if isinstance(block_rows, SearchStrategy) else block_rows
    columns = draw(block_columns) if isinstance(block_columns, SearchStrategy) else block_columns
    kind = draw(sampled("random", "none", "all", "diagonal", "band", "row", "column", "holes"))
    i, j = np.indices((rows, columns))
    if kind in ("none", "all"):
        return np.full((rows, columns), kind == "all")
    if kind in ("diagonal", "band"):
        return np.asarray(abs(i - j) <= (0 if kind == "diagonal" else draw(st.integers(1, 3))))
    if kind in ("row", "column"):
        which = draw(st.integers(0, max(0, (rows if kind == "row" else columns) - 1)))
        return np.asarray((i if kind == "row" else j) == which)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask: NDArray[np.bool_] = rng.random((rows, columns)) < draw(sampled(1 / 32, 1 / 8, 1 / 2, 0.9))
    if kind == "holes":
        mask &= (rng.random((rows, 1)) < 0.5) & (rng.random((1, columns)) < 0.5)
    return mask


@st.composite
def block_patterns(draw: st.DrawFn, block_shapes: Sequence[tuple[int, int]], *, most: int = 50,
                   groups: int = 1) -> BlockPattern:
    """Patterns of block-sparse matrices: blocks as in `block_masks`, ragged edges, matrices without rows or columns.

    Parameters
    ----------
    block_shapes : sequence of (int, int)
        Blocks to choose from.
    most : int, optional
        The most rows, and the most columns, in elements.
    groups : int, optional
        The most groups.
    """
    high, wide = draw(st.sampled_from(block_shapes))
    extents_ = st.integers(0, whole("most", most, 0, 1 << 20))
    rows, columns = draw(extents_), draw(extents_)
    grid = -(-rows // high), -(-columns // wide)
    count = draw(st.integers(1, whole("groups", groups, 1, 1 << 10)))
    group, row, column = np.nonzero([draw(block_masks(*grid)) for _ in range(count)])
    return BlockPattern.from_pairs((rows, columns), (high, wide), group * grid[0] + row, column, count)[0]


def options(allowed: Mapping[str, Sequence[Any] | SearchStrategy[Any]]) -> SearchStrategy[dict[str, Any]]:
    """Keyword options: each left out, or one of its values.

    Parameters
    ----------
    allowed : mapping
        Option names, with the values or the strategy of each.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(options({"partials_type": ["half", "float"]}), lambda o: "partials_type" in o)
    {'partials_type': 'half'}
    """
    instance("allowed", allowed, Mapping, "a mapping of option names to values or strategies")
    for name, values in allowed.items():
        instance("allowed", name, str, "option names")
        instance(name, values, (Sequence, SearchStrategy), "a sequence of values, or a strategy")
    drawn = {k: v if isinstance(v, SearchStrategy) else st.sampled_from(list(v)) for k, v in allowed.items()}
    return st.fixed_dictionaries({}, optional=drawn)


OUT_DTYPE = options({"out_dtype": NAMES})


@st.composite
def scaled(draw: st.DrawFn, array: Array, dtype: Format, low: int, high: int, one: bool = False) -> QuarterArray:
    """Codes with one scale or with those of blocks.

    Parameters
    ----------
    array : numpy.ndarray
        The codes.
    dtype : Format
    low, high : int
        The least and the greatest scale.
    one : bool, optional
        Whether it is one for all.
    """
    extents = None if one else draw(st.none() | st.tuples(*[st.sampled_from([1, 4, -1]) for _ in array.shape]))
    if extents is None:
        return QuarterArray(array, dtype, draw(st.integers(low, high)))
    counts = [-(-n // (n if b < 0 else b)) if n else 0 for n, b in zip(array.shape, extents, strict=True)]
    exponents = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(low, high, counts, endpoint=True)
    return QuarterArray(array, dtype, exponents, extents)
