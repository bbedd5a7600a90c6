"""The least time that a row's work can take on this core: bytes that are copied, or multiply-adds in registers.

Rows name them ``limit ...``. They take turns with ours and with peers', so that what slows the machine slows them too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from poplibs_py.kernels.peak import peak_probes


@dataclass(frozen=True)
class Limit:
    """A call, and how many times it would be made."""

    call: Callable[[], object]
    times: float = 1.0

    def __call__(self) -> object:
        """Run once."""
        return self.call()


def traffic(nbytes: int) -> Limit:
    """As many bytes copied as are read and written in all."""
    whole = np.zeros((2, nbytes // 2), np.uint8)
    return Limit(partial(np.copyto, whole[0], whole[1]))


def products(flops: float, fmt: str) -> Limit:
    """So many operations of products and sums in registers, of the unit that multiplies a format fastest."""
    unit = "bfloat16" if fmt in ("bfloat16", "f143") and "bfloat16" in _probes() else "float32"
    probe = _probes()[unit]
    return Limit(probe, flops / probe())


@cache
def _probes() -> dict[str, Callable[[], int]]:
    return peak_probes(1)
