"""PopFloat: numbers rounded to the values of a narrow format, kept in the dtype they have.

`quantise` takes any `Format`; `FormatConfig` and `RoundConfig` say one by the options of PopFloat, of which
`cast_native_to_gfloat` and `cast_gfloat_to_native` are the casts.
"""

from .gfloat import FormatConfig, RoundConfig, cast_gfloat_to_native, cast_native_to_gfloat
from .quantise import quantise

__all__ = ["FormatConfig", "RoundConfig", "cast_gfloat_to_native", "cast_native_to_gfloat", "quantise"]
