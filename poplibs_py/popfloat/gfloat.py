"""PopFloat's own words: formats and roundings by its options, and its casts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..checks import flag, instance, one_of, whole
from ..errors import bad_argument
from ..formats import FORMATS, Format
from ..formats.format import HIGHEST_BIAS, LOWEST_BIAS
from ..formats.reference import Overflow, Rounding
from ..popops.elementwise.cast import cast
from .quantise import quantise

ROUND_MODES: dict[str, Rounding] = {
    "RN": "nearest-even", "RA": "nearest-away", "RZ": "toward-zero", "RU": "up", "RD": "down", "SR": "stochastic",
}  # fmt: skip
"""PopFloat's names of the roundings, and this library's."""


@dataclass(frozen=True)
class FormatConfig:
    """A format by PopFloat's options (``popfloat::experimental::GfloatCast::FormatConfig``).

    Parameters
    ----------
    num_mantissa_bits : int, optional
        ``numMantissaBits``, 0 to 15 (default 10).
    num_exponent_bits : int, optional
        ``numExponentBits``, 1 to 8 (default 5); at most 16 bits in all with the mantissa's and the sign's. PopFloat's
        "block float", of no exponent bits, is a fixed-point number and no format here.
    exponent_bias : int, optional
        ``numExponentBias``, -100 to 127 (default 15).
    enable_denorms : bool, optional
        ``enableDenorms``: whether exponent zero holds subnormal numbers (default) or zero alone.
    enable_infs_and_nans : bool, optional
        ``enableInfsAndNans``: whether the highest exponent holds infinities and NaNs (default), or numbers as every
        other one.

    Attributes
    ----------
    format : Format
        What they describe: a preset where it is one.

    Examples
    --------
    >>> FormatConfig(3, 4, 7).format.max, FormatConfig(3, 4, 7, enable_infs_and_nans=False).format.max
    (240.0, 480.0)
    """

    num_mantissa_bits: int = 10
    num_exponent_bits: int = 5
    exponent_bias: int = 15
    enable_denorms: bool = True
    enable_infs_and_nans: bool = True
    format: Format = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        whole("num_mantissa_bits", self.num_mantissa_bits, 0, 15)
        whole("num_exponent_bits", self.num_exponent_bits, 1, 8)
        whole("exponent_bias", self.exponent_bias, LOWEST_BIAS, HIGHEST_BIAS)
        flag("enable_denorms", self.enable_denorms)
        flag("enable_infs_and_nans", self.enable_infs_and_nans)
        marks = ("" if self.enable_denorms else "n") + ("" if self.enable_infs_and_nans else "f")
        name = f"gfloat_e{self.num_exponent_bits}m{self.num_mantissa_bits}b{self.exponent_bias}{marks}"
        made = Format(name, self.num_exponent_bits, self.num_mantissa_bits, self.exponent_bias,
                      "ieee" if self.enable_infs_and_nans else "finite", self.enable_denorms)
        known = next((f for f in FORMATS if _facts(f) == _facts(made)), made)
        object.__setattr__(self, "format", known)


def _facts(f: Format) -> tuple[Any, ...]:
    return f.exponent_bits, f.mantissa_bits, f.bias, f.specials, f.subnormals, f.signed


@dataclass(frozen=True)
class RoundConfig:
    """A rounding by PopFloat's options (``popfloat::experimental::GfloatCast::RoundConfig``).

    Parameters
    ----------
    round_mode : {"RN", "RA", "RZ", "RU", "RD", "SR"}, optional
        ``roundMode``: nearest with ties to even (default) or away from zero, toward zero, up, down, stochastic. ``INV``
        is no rounding, and ``SX``, noise of other distributions, is not offered.
    num_sr_bits : int, optional
        ``numSRBits``: random bits of a stochastic rounding, 1 to 31 (default 24).
    enable_nanoo_mode : bool, optional
        ``enableNanooMode``, NaN on overflow: whether too large numbers become NaN (default) or the largest, in formats
        with infinities and NaNs; in the others they become the largest.
    """

    round_mode: str = "RN"
    num_sr_bits: int = 24
    enable_nanoo_mode: bool = True

    def __post_init__(self) -> None:
        one_of("round_mode", self.round_mode, tuple(ROUND_MODES))
        whole("num_sr_bits", self.num_sr_bits, 1, 31)
        flag("enable_nanoo_mode", self.enable_nanoo_mode)

    @property
    def rounding(self) -> Rounding:
        """What `cast` calls it."""
        return ROUND_MODES[self.round_mode]

    def overflow(self, dtype: Format) -> Overflow:
        """Return what `cast` calls that which becomes of too large numbers."""
        return "nan" if self.enable_nanoo_mode and dtype.has_nan else "saturate"


def cast_native_to_gfloat(x: object, format_config: FormatConfig, round_config: RoundConfig | None = None, *,
                          seed: object = None, packed: bool = False, out: Any = None) -> Any:
    """Cast native numbers to a gfloat format (``popfloat::experimental::castNativeToGfloat``).

    Parameters
    ----------
    x : array-like
        As for `quantise`; packed, anything that `poplibs_py.cast` takes.
    format_config : FormatConfig
    round_config : RoundConfig, optional
        To nearest even, NaN on overflow, by default.
    seed : int or (int, int), optional
        Of stochastic rounding, which needs one.
    packed : bool, optional
        Whether the result is codes (PopFloat's storage types ``INT8`` and ``INT16``), or numbers of the dtype of `x`
        (``FP32``, ``FP16``, the default).
    out : array or QuarterArray, optional
        Where the result goes; ``out=x`` is ``castNativeToGfloatInPlace``.

    Returns
    -------
    numpy.ndarray or QuarterArray
        What `quantise` returns, or `poplibs_py.cast`.

    Notes
    -----
    PopFloat's stochastic rounding truncates after it has added its bits, so that few of them bias the mean downwards;
    here the noise is centred, as `poplibs_py.cast` describes.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.float32([0.3, -300, np.inf])
    >>> cast_native_to_gfloat(x, FormatConfig(3, 4, 7), RoundConfig("RZ", enable_nanoo_mode=False))
    array([   0.28125, -240.     ,        inf], dtype=float32)
    """
    instance("format_config", format_config, FormatConfig, "a FormatConfig")
    how = RoundConfig() if round_config is None else round_config
    instance("round_config", how, RoundConfig, "a RoundConfig")
    fmt = format_config.format
    function: Any = cast if flag("packed", packed) else quantise
    if how.rounding != "stochastic" and seed is not None:
        raise bad_argument("seed", seed, "None where the round mode is not 'SR'")
    return function(x, fmt, rounding=how.rounding, overflow=how.overflow(fmt), seed=seed, random_bits=how.num_sr_bits,
                    out=out)


def cast_gfloat_to_native(x: object, dtype: object = "float32", *, out: Any = None) -> Any:
    """Cast packed numbers of a gfloat format to native ones (``popfloat::experimental::castGfloatToNative``).

    Parameters
    ----------
    x : QuarterArray or array
        What `cast_native_to_gfloat` made with ``packed=True``.
    dtype : Format, dtype or str, optional
        float32 (default), which holds every value, float16 or bfloat16.
    out : array, optional
        Where the result goes.

    Returns
    -------
    numpy.ndarray

    Examples
    --------
    >>> import numpy as np
    >>> cast_gfloat_to_native(cast_native_to_gfloat(np.float32([0.3, 2.6]), FormatConfig(1, 2, 1), packed=True))
    array([0.5, 3. ], dtype=float32)
    """
    return cast(x, dtype, out=out)
