"""PopLibs' metadata byte of a ``quarter`` tensor: its format and its scale.

Bit 7 is set for F143 and clear for F152; the low six bits hold the scale's exponent, -32 to 31, in two's complement.
PopLibs' cast codelets read it so (``popops/codelets/inlineAssemblerCast.hpp``); they pass over bit 6, which is written
clear here.
"""

from __future__ import annotations

from ..checks import whole
from ..errors import bad_argument
from .format import F143, F152, Format, format_of

_F143_BIT = 1 << 7
_SCALE_SIGN = 1 << 5
_SCALE_BITS = (1 << 6) - 1

METADATA_SCALES = range(-_SCALE_SIGN, _SCALE_SIGN)
"""The exponents that the byte holds, and a modelled machine takes."""


def pack_metadata(dtype: object, scale: int = 0) -> int:
    """Return the metadata byte of a format and a scale.

    It corresponds to PopLibs' ``poputil::createConstantMetadataTensor``.

    Parameters
    ----------
    dtype : Format or what stands for one
        F143 or F152.
    scale : int, optional
        Exponent s: codes stand for their value times ``2**s``; -32 to 31.

    Returns
    -------
    int
        From 0 to 255.

    Raises
    ------
    InvalidArgumentError
        If the format is another one, or the scale out of range.

    Examples
    --------
    >>> from poplibs_py.formats import pack_metadata
    >>> hex(pack_metadata("f143", -2)), hex(pack_metadata("f152", 1))
    ('0xbe', '0x1')
    """
    target = format_of(dtype)
    if target not in (F143, F152):
        raise bad_argument("dtype", target.name, "f143 or f152, which the IPU has")
    exponent = whole("scale", scale, METADATA_SCALES[0], METADATA_SCALES[-1])
    return (_F143_BIT if target == F143 else 0) | (exponent & _SCALE_BITS)


def unpack_metadata(metadata: int) -> tuple[Format, int]:
    """Return the format and the scale that a metadata byte stands for.

    Parameters
    ----------
    metadata : int
        From 0 to 255; bit 6 means nothing.

    Examples
    --------
    >>> from poplibs_py.formats import unpack_metadata
    >>> format, scale = unpack_metadata(0xBE)
    >>> format.name, scale
    ('f143', -2)
    """
    byte = whole("metadata", metadata, 0, 255)
    exponent = byte & _SCALE_BITS
    return (F143 if byte & _F143_BIT else F152), exponent - 2 * (exponent & _SCALE_SIGN)
