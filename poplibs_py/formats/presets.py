"""More formats, a line each: the other narrow ones of ml_dtypes and OCP, and IEEE P3109's of 8 bits.

They run through the kernels for formats that are known at run time, as formats of users do. Those that ml_dtypes has
are known by its names and dtypes too, and `cast` takes and makes arrays of those.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .format import Format, name_format

__all__ = ["BINARY8P1", "BINARY8P2", "BINARY8P3", "BINARY8P4", "BINARY8P5", "BINARY8P6", "BINARY8P7", "E2M1", "E2M3",
           "E3M2", "E3M4", "E4M3B11FNUZ", "E4M3_IEEE", "E8M0", "PRESETS"]


def _dtype(name: str) -> np.dtype[Any] | None:
    """That of ml_dtypes, where its version has it."""
    scalar = getattr(ml_dtypes, name, None)
    return None if scalar is None else np.dtype(scalar)


E2M1 = Format("e2m1", 2, 1, 1, "finite", dtype=_dtype("float4_e2m1fn"))
E2M3 = Format("e2m3", 2, 3, 1, "finite", dtype=_dtype("float6_e2m3fn"))
E3M2 = Format("e3m2", 3, 2, 3, "finite", dtype=_dtype("float6_e3m2fn"))
E8M0 = Format("e8m0", 8, 0, 127, "nan_only", signed=False, zero=False, dtype=_dtype("float8_e8m0fnu"))
E3M4 = Format("e3m4", 3, 4, 3, dtype=_dtype("float8_e3m4"))
E4M3_IEEE = Format("e4m3_ieee", 4, 3, 7, dtype=_dtype("float8_e4m3"))
E4M3B11FNUZ = Format("e4m3b11fnuz", 4, 3, 11, "negative_zero", dtype=_dtype("float8_e4m3b11fnuz"))
BINARY8P1 = Format("binary8p1", 7, 0, 64, "p3109")
BINARY8P2 = Format("binary8p2", 6, 1, 32, "p3109")
BINARY8P3 = Format("binary8p3", 5, 2, 16, "p3109")
BINARY8P4 = Format("binary8p4", 4, 3, 8, "p3109")
BINARY8P5 = Format("binary8p5", 3, 4, 4, "p3109")
BINARY8P6 = Format("binary8p6", 2, 5, 2, "p3109")
BINARY8P7 = Format("binary8p7", 1, 6, 1, "p3109")

PRESETS = tuple(name_format(value) for value in vars().values() if isinstance(value, Format))
"""All of them, in order."""
