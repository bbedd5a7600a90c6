"""One kernel of the random family, called by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from poplibs_py.kernels.registry import Kernel
from poplibs_py.poprand.law import Law, Place
from poplibs_py.program import value_words

Array = np.ndarray[Any, Any]


def run(kernel: Kernel, where: tuple[int, int, int], numbers: dict[str, float], out: Array,
        source: Array | None = None, threads: int = 1) -> Array:
    """Fill `out` with one kernel, whatever its level, from (seed, modifier, logical index of the first element)."""
    law, place = Law(kernel, out.dtype, tuple(numbers.items())), Place.of(*where)
    if out.size:
        words = value_words(place.ready, law.words(out.size, place))
        law.program(out.size, threads)(*([] if source is None else [source]), out, words)
    return out
