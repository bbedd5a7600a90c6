"""One kernel of the random family, called by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from poplibs_py.kernels.registry import Kernel
from poplibs_py.poprand._draw import Draw

Array = np.ndarray[Any, Any]


def run(kernel: Kernel, where: tuple[int, int, int], numbers: dict[str, float], out: Array,
        source: Array | None = None, threads: int = 1) -> Array:
    """Fill `out` with one kernel, whatever its level, from (seed, modifier, logical index of the first element)."""
    return Draw(kernel, out.dtype, **numbers).fill(None, out, *where, source, threads)
