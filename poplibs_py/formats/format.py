"""Number formats as data.

A format is described by a few facts (exponent and mantissa bits, bias, which codes are not numbers); everything else
follows from them. The presets are IEEE FP32 and FP16, BF16, Graphcore's FP8 pair F143 and F152 (arXiv 2206.02915, as
PopLibs encodes them) and the OCP FP8 pair (OCP 8-bit floating point specification, revision 1.0).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast, get_args

import ml_dtypes
import numpy as np

from ..checks import flag, instance, one_of, whole
from ..errors import bad_argument, bad_type
from ..immutable import token_of

Specials = Literal["ieee", "nan_only", "negative_zero", "finite", "p3109"]

LOWEST_BIAS, HIGHEST_BIAS = -100, 127

_PRESETS: dict[str, Format] = {}


@dataclass(frozen=True)
class Format:
    """A binary floating-point format of at most 32 bits.

    Parameters
    ----------
    name : str
        What messages and plans call it.
    exponent_bits : int
        1 to 8.
    mantissa_bits : int
        Stored bits of the significand, 0 to 23; with the exponent's and the sign's at most 16 bits in all, or 32.
    bias : int
        Exponent bias: a normal number is ``(-1)^s * 2^(e - bias) * (1 + m / 2^mantissa_bits)``. -100 to 127, and
        such that the largest exponent is at most 127: then every value is an FP32 number.
    specials : {"ieee", "nan_only", "negative_zero", "finite", "p3109"}
        ``"ieee"``: the highest exponent holds infinities and NaNs. ``"nan_only"``: no infinities, the code with all
        exponent and mantissa bits set is NaN, for either sign (OCP E4M3). ``"negative_zero"``: no infinities, the
        code of minus zero is the one NaN and there is no minus zero (F143, F152). ``"finite"``: every code is a number
        (OCP E2M1). ``"p3109"``: NaN as in ``"negative_zero"``, and infinities where all other bits are set (IEEE P3109;
        unsigned, NaN is there and infinity one below).
    subnormals : bool, optional
        Whether exponent zero holds subnormal numbers (default) or only zero.
    signed : bool, optional
        Whether there is a sign bit (default). Without one, numbers below zero become NaN, or zero where there is none.
    zero : bool, optional
        Whether there is a zero (default). Without, exponent zero holds normal numbers as every other, zero becomes NaN,
        and what is smaller than the smallest number becomes that one: for unsigned formats such as OCP E8M0.
    dtype : numpy.dtype, optional
        The NumPy or ml_dtypes dtype of arrays in this format; none for most user-defined ones, whose arrays hold codes.

    Examples
    --------
    >>> Format("e3m2", 3, 2, bias=3, specials="ieee").max
    14.0
    >>> F143.max, F143.smallest_subnormal
    (240.0, 0.0009765625)
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Specials = "ieee"
    subnormals: bool = True
    signed: bool = True
    zero: bool = True
    dtype: np.dtype[Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise bad_argument("name", self.name, "a string that is not empty")
        for key, low, high in (("exponent_bits", 1, 8), ("mantissa_bits", 0, 23), ("bias", LOWEST_BIAS, HIGHEST_BIAS)):
            object.__setattr__(self, key, whole(key, getattr(self, key), low, high))
        one_of("specials", self.specials, get_args(Specials))
        for key in ("subnormals", "signed", "zero"):
            flag(key, getattr(self, key))
        if not self.zero and (self.signed or self.specials == "finite"):
            raise bad_argument("zero", self.zero, "True for signed formats, and where no NaN can stand for zero")
        if not self.signed and self.specials == "negative_zero":
            raise bad_argument("specials", self.specials, "another: an unsigned format has no code of minus zero")
        if self.specials == "ieee" and self.mantissa_bits == 0:
            raise bad_argument("mantissa_bits", 0, "at least 1 where specials='ieee', to tell NaN from infinity")
        if self.bits > 16 and (self.signed, self.exponent_bits, self.mantissa_bits, self.bias) != (True, 8, 23, 127):
            raise bad_argument("mantissa_bits", self.mantissa_bits, "at most 16 bits in all, or FP32's layout")
        if self.max_code < (1 << self.mantissa_bits if self.zero else 0):
            raise bad_argument("exponent_bits", self.exponent_bits, "enough for one normal number")
        if self.max_exponent > 127:
            raise bad_argument("bias", self.bias, f"at least {self.bias + self.max_exponent - 127}, so that FP32 holds "
                               "the largest number")

        self._check_identity()

    def _check_identity(self) -> None:
        """Kernels know a preset by its name, and arrays by the size of their elements."""
        preset = _PRESETS.get(self.name)
        if preset is not None and preset != self:
            raise bad_argument("name", self.name, f"another name: {self.name} is a format of its own")
        if self.dtype is None:
            return
        if not isinstance(self.dtype, np.dtype) or self.dtype.itemsize != self.itemsize or self.dtype.kind not in "fV":
            raise bad_type("dtype", self.dtype, f"a dtype of floating-point numbers of {self.itemsize} bytes, or None")

    def __hash__(self) -> int:
        return hash(self.name)  # one lookup where a cached plan is found again; equal formats have equal names

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return self.signed + self.sign_shift

    @property
    def sign_shift(self) -> int:
        """Bits of a code without its sign."""
        return self.exponent_bits + self.mantissa_bits

    @property
    def precision(self) -> int:
        """Bits of the significand with the hidden one."""
        return self.mantissa_bits + 1

    @property
    def code_dtype(self) -> np.dtype[Any]:
        """The unsigned integer dtype that holds a code."""
        return np.dtype(np.uint8 if self.bits <= 8 else np.uint16 if self.bits <= 16 else np.uint32)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.code_dtype.itemsize

    @property
    def has_infinity(self) -> bool:
        """Whether the format holds infinities."""
        return self.specials in ("ieee", "p3109")

    @property
    def has_nan(self) -> bool:
        """Whether the format holds NaN."""
        return self.specials != "finite"

    @property
    def has_minus_zero(self) -> bool:
        """Whether the format holds a zero of each sign."""
        return self.signed and self.specials not in ("negative_zero", "p3109")

    @property
    def overflow(self) -> Literal["inf", "nan", "saturate"]:
        """What becomes of a number that rounding to nearest takes past the largest, which it becomes without NaN."""
        return "inf" if self.has_infinity else "nan" if self.has_nan else "saturate"

    @property
    def nan_code(self) -> int:
        """The code that a NaN is written as; in a ``"finite"`` format minus zero's, or zero where it is unsigned."""
        if self.specials == "ieee":
            return self.infinity_code | 1 << (self.mantissa_bits - 1)
        if self.specials == "nan_only" or (self.specials == "p3109" and not self.signed):
            return (1 << self.sign_shift) - 1
        return self.signed << self.sign_shift

    @property
    def infinity_code(self) -> int:
        """The code of infinity, in a format that has it."""
        if self.specials == "p3109":
            return (1 << self.sign_shift) - 1 - (not self.signed)
        return (1 << self.exponent_bits) - 1 << self.mantissa_bits

    @property
    def max_code(self) -> int:
        """The code of the largest finite number."""
        if self.has_infinity:
            return self.infinity_code - 1
        return (1 << self.sign_shift) - (2 if self.specials == "nan_only" else 1)

    @property
    def max_exponent(self) -> int:
        """The exponent of the largest finite number: its power of two."""
        return (self.max_code >> self.mantissa_bits) - self.bias

    @property
    def min_exponent(self) -> int:
        """The exponent of the smallest normal number."""
        return self.zero - self.bias

    @property
    def max(self) -> float:
        """The largest finite number."""
        fraction = self.max_code & ((1 << self.mantissa_bits) - 1)
        return (1.0 + fraction * 2.0**-self.mantissa_bits) * 2.0**self.max_exponent

    @property
    def smallest_normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0**self.min_exponent

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number: subnormal where the format has them, else the smallest normal."""
        if not (self.subnormals and self.mantissa_bits and self.zero):
            return self.smallest_normal
        return 2.0 ** (self.min_exponent - self.mantissa_bits)

    @property
    def scales(self) -> range:
        """Exponents s of the scales 2^s that its arrays may carry: all of 8 bits with which FP32 holds the values."""
        if self.bits > 16:
            return range(1)
        highest = min(self.bias - LOWEST_BIAS, 127 - self.max_exponent, 127)
        return range(max(self.bias - HIGHEST_BIAS, -128), highest + 1)

    @property
    def unit_roundoff(self) -> float:
        """Half the spacing of numbers just above one: the relative error of one rounding to nearest."""
        return 2.0**-self.precision

    def __reduce__(self) -> tuple[Any, ...]:
        # A preset goes by its name: pickles of ml_dtypes' dtypes depend on its version.
        if _PRESETS.get(self.name) == self:
            return format_of, (self.name,)
        return Format, tuple(getattr(self, each.name) for each in fields(self))

    def __dask_tokenize__(self) -> str:
        return token_of("Format", *(getattr(self, each.name) for each in fields(self) if each.name != "dtype"))

    def __str__(self) -> str:
        return self.name


def _preset(name: str, layout: tuple[int, int, int], specials: Specials, dtype: Any, *aliases: str) -> Format:
    exponent_bits, mantissa_bits, bias = layout
    made = Format(name, exponent_bits, mantissa_bits, bias, specials, dtype=np.dtype(dtype))
    _BY_NAME.update(dict.fromkeys((name, np.dtype(dtype).name, *aliases), made))
    return _PRESETS.setdefault(name, made)


# A preset, and a line in src_cython/formats/formats.def: kernels, tables and tests follow from the two.
_BY_NAME: dict[str, Format] = {}
FP32 = _preset("float32", (8, 23, 127), "ieee", np.float32, "fp32", "float", "single")
FP16 = _preset("float16", (5, 10, 15), "ieee", np.float16, "fp16", "half")
BF16 = _preset("bfloat16", (8, 7, 127), "ieee", ml_dtypes.bfloat16, "bf16")
F143: Format = _preset("f143", (4, 3, 8), "negative_zero", ml_dtypes.float8_e4m3fnuz, "quarter")
F152 = _preset("f152", (5, 2, 16), "negative_zero", ml_dtypes.float8_e5m2fnuz)
E4M3 = _preset("e4m3", (4, 3, 7), "nan_only", ml_dtypes.float8_e4m3fn)
E5M2 = _preset("e5m2", (5, 2, 15), "ieee", ml_dtypes.float8_e5m2)

FORMATS = tuple(_PRESETS.values())
"""The formats that have a dtype, and so need no name at a call."""

_BY_DTYPE = {f.dtype: f for f in FORMATS}
_OTHERS: dict[object, Format] = {}

LAYOUT = tuple(each.name for each in fields(Format) if each.name != "dtype")
"""The facts that a format is written down by, in order."""


def name_format(f: Format) -> Format:
    """Let a format be found by its name and its dtype wherever formats are named: see `presets`."""
    _OTHERS[f.name] = f
    if f.dtype is not None:
        _OTHERS[f.dtype], _OTHERS[f.dtype.name] = f, f
    return f


def format_of(what: object, name: str = "dtype", also: str = "") -> Format:
    """Return the format that a `Format`, a dtype, an array or a name stands for.

    Parameters
    ----------
    what : Format, dtype-like, array, tensor or str
        ``"float16"``, ``"half"``, ``numpy.float16``, ``torch.float16``, an array, `FP16` …
    name : str, optional
        The caller's argument, for the error message.
    also : str, optional
        What else the caller takes, for the error message.

    Raises
    ------
    InvalidTypeError
        If it stands for no format, for example float64.

    Examples
    --------
    >>> format_of("half").max
    65504.0
    """
    found = _format_of(what)
    if found is None:
        instance("name", name, str, "a text")
        name = name or "dtype"
        instance("also", also, str, "a text")
        allowed = ", ".join([*(f.name for f in FORMATS), *([also] if also else [])])
        hint = remedy(what.dtype) if isinstance(what, np.ndarray) else ""
        raise bad_type(name, what, f"a poplibs_py.formats.Format or, by name or dtype, one of {allowed} or of "
                       f"poplibs_py.formats.presets{hint}")
    return found


def remedy(dtype: np.dtype[Any]) -> str:
    """Return what a refusal of an array of that dtype ends with: how floats come to a dtype that is taken.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.formats.format import remedy
    >>> remedy(np.dtype("float64")), remedy(np.dtype(">f2")), remedy(np.dtype("int32"))
    ('; see its astype("float32")', '; see its astype("float16")', '')
    """
    if dtype.kind != "f" or (dtype.isnative and dtype != np.float64):
        return ""
    return f'; see its astype("{"float32" if dtype.itemsize == 8 else dtype.name}")'


def _format_of(what: object) -> Format | None:
    if isinstance(what, Format):
        return what
    if isinstance(what, str):
        return _BY_NAME.get(what.lower()) or _OTHERS.get(what.lower())
    try:
        dtype = what if isinstance(what, type) else getattr(what, "dtype", what)
    except Exception:  # whatever an object of somebody else's raises
        return None
    if type(dtype).__module__ == "torch" and str(dtype).startswith("torch."):
        return _format_of(str(dtype).removeprefix("torch."))
    if isinstance(dtype, type):
        try:
            dtype = np.dtype(cast(Any, dtype))
        except Exception:  # it may have an attribute `dtype` that is anything
            return None
    return format_or_none(dtype) if isinstance(dtype, np.dtype) else None


def format_or_none(dtype: np.dtype[Any]) -> Format | None:
    """Return the format that has a dtype, of `FORMATS` or of `presets`; None if there is none."""
    return _BY_DTYPE.get(dtype) or _OTHERS.get(dtype)


def preset_of(dtype: np.dtype[Any]) -> Format | None:
    """Return the format of `FORMATS` that has a dtype, or None."""
    return _BY_DTYPE.get(dtype)
