"""The oracle of the format tests: whole numbers and fractions, and a search of every value of a format."""

import bisect
from fractions import Fraction
from functools import cache, lru_cache
from typing import get_args

import numpy as np
from hypothesis import strategies as st

from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import FORMATS, Format
from poplibs_py.formats.format import Specials
from poplibs_py.formats.presets import PRESETS

NARROW = tuple(f for f in FORMATS if f.bits <= 16)
"""The presets of at most 16 bits."""

USERS = (
    Format("e2m1", 2, 1, bias=1, specials="nan_only"),
    Format("e3m2", 3, 2, bias=3),
    Format("e3m4", 3, 4, bias=3, specials="negative_zero"),
    Format("e5m0", 5, 0, bias=14, specials="nan_only"),
    Format("e4m0", 4, 0, bias=8, specials="negative_zero"),
    Format("e4m3 flushing", 4, 3, bias=7, specials="nan_only", subnormals=False),
    Format("e6m9", 6, 9, bias=31),
    Format("e8m3", 8, 3, bias=127),
    Format("e8m7 flushing", 8, 7, bias=127, subnormals=False),
    Format("e7m8", 7, 8, bias=63, specials="negative_zero", subnormals=False),
    Format("e5m5", 5, 5, bias=100, specials="nan_only"),
)

MORE = (
    *USERS,
    Format("ue4m3", 4, 3, bias=7, signed=False),
    Format("ue5m3 finite", 5, 3, bias=20, specials="finite", signed=False),
    Format("ue5m6 p3109", 5, 6, bias=16, specials="p3109", signed=False),
    Format("ue4m4 flushing", 4, 4, bias=9, specials="nan_only", subnormals=False, signed=False),
    Format("ue8m6 without zero", 8, 6, bias=127, signed=False, zero=False),
    Format("ue5m2 without zero", 5, 2, bias=15, specials="p3109", signed=False, zero=False),
    Format("e6m5 p3109 flushing", 6, 5, bias=30, specials="p3109", subnormals=False),
    *PRESETS,
)
"""Formats that go through the generic kernels: others of users, and what `poplibs_py.formats.presets` has."""


def is_format(arguments):
    """Whether the arguments describe a format."""
    try:
        return bool(Format("drawn", *arguments))
    except InvalidArgumentError:
        return False


formats = (
    st.tuples(st.integers(1, 8), st.integers(0, 14), st.integers(-100, 127),
              st.sampled_from(get_args(Specials)), st.booleans(), st.sampled_from([True, True, False]), st.booleans())
    .filter(is_format)
    .map(lambda arguments: Format("drawn", *arguments))
)  # fmt: skip


def value(code, fmt):
    """The finite value of a code without its sign, by the definition of the format; None if it is none."""
    if code > fmt.max_code:
        return None
    exponent, fraction = divmod(code, 2**fmt.mantissa_bits)
    if exponent == 0 and fmt.zero:
        return scaled(fraction if fmt.subnormals else 0, 1 - fmt.bias - fmt.mantissa_bits)
    return scaled(2**fmt.mantissa_bits + fraction, exponent - fmt.bias - fmt.mantissa_bits)


def scaled(whole, exponent):
    """A whole number times a power of two, exactly."""
    return Fraction(whole << exponent) if exponent >= 0 else Fraction(whole, 1 << -exponent)


@cache
def ladder(fmt):
    """All magnitudes of a format in order with the least code of each, and one step beyond the largest."""
    found = {}
    for code in range(fmt.max_code + 1):
        found.setdefault(value(code, fmt), code)
    rungs = sorted(found)
    exponent = fmt.max_code // 2**fmt.mantissa_bits - fmt.bias
    beyond = rungs[-1] + Fraction(2) ** (exponent - fmt.mantissa_bits)
    return [*rungs, beyond], [*(found[r] for r in rungs), fmt.max_code + 1]


def round_magnitude(x, fmt, rounding, word=0, random_bits=31, negative=False):
    """The code that a magnitude rounds to, max_code + 1 if that passes the largest number."""
    rungs, codes = ladder(fmt)
    below = bisect.bisect_right(rungs, x) - 1
    if below < 0:  # there is no zero
        return 0
    if below == len(rungs) - 1:
        return codes[-1]
    fraction = (x - rungs[below]) / (rungs[below + 1] - rungs[below])
    if rounding == "nearest-even":
        up = fraction > Fraction(1, 2) or (fraction == Fraction(1, 2) and codes[below] % 2 == 1)
    elif rounding == "nearest-away":
        up = fraction >= Fraction(1, 2)
    elif rounding in ("toward-zero", "up", "down"):
        up = fraction > 0 and rounding == ("down" if negative else "up")
    else:
        noise = Fraction(2 * (word >> (32 - random_bits)) + 1, 2 ** (random_bits + 1))
        up = fraction + noise >= 1
    return codes[below + up]


def round_magnitudes(x, fmt, rounding):
    """The same of many magnitudes, of which float64 holds them, the format's numbers and the middles exactly."""
    rungs, codes = (np.array(of, dtype) for of, dtype in zip(ladder(fmt), (np.float64, np.int64), strict=True))
    below = np.minimum(np.searchsorted(rungs, x, "right"), len(rungs) - 1) - 1
    middle = (rungs[below] + rungs[below + 1]) / 2
    even = (x > middle) | ((x == middle) & (codes[below] % 2 == 1))
    up = {"nearest-even": even, "toward-zero": False}[rounding]
    return np.where(x >= rungs[-1], codes[-1], codes[below + up])


@lru_cache(64)
def boundaries(fmt, limit=4096):
    """FP32 numbers where rounding changes its mind: values, midpoints, the neighbours of each, the edges. Read only."""
    codes = np.arange(fmt.max_code + 1)
    if len(codes) > limit:
        edge = limit // 4
        spread = np.linspace(0, fmt.max_code, limit // 2).astype(int)
        codes = np.unique(np.concatenate([codes[:edge], spread, codes[-edge:]]))
    values = np.array([float(value(int(c), fmt)) for c in codes])
    beyond = float(ladder(fmt)[0][-1]) if len(codes) == fmt.max_code + 1 else 2 * fmt.max
    middles = (values[1:] + values[:-1]) / 2
    points = np.concatenate([values, middles, [beyond, (beyond + fmt.max) / 2, 2 * beyond, 1e30]])
    with np.errstate(over="ignore"):
        x = np.concatenate([points, [np.inf, np.nan, 1e-45, 2.0**-126, 3.4e38]]).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(0))])
    x = np.concatenate([x, -x])
    x.flags.writeable = False
    return x


def payload_free(codes, fmt):
    """Codes with every NaN replaced by the format's NaN, so that only NaN-ness is compared."""
    magnitude = codes & ((1 << (fmt.exponent_bits + fmt.mantissa_bits)) - 1)
    infinity = ((1 << fmt.exponent_bits) - 1) << fmt.mantissa_bits
    if fmt.specials == "ieee":
        nan = magnitude > infinity
    elif fmt.specials == "finite":
        return codes
    elif fmt.specials == "nan_only":
        nan = magnitude > fmt.max_code
    else:
        nan = codes == fmt.nan_code
    return np.where(nan, fmt.nan_code, codes)
