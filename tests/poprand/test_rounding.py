"""Stochastic rounding draws from this generator: one 32-bit word of the counter stream for each element."""

from __future__ import annotations

import aox_oracle as oracle
import numpy as np
import pytest

from poplibs_py import cast
from poplibs_py.formats import F143, FP16

SUBSTREAM = 0xCA57


@pytest.mark.parametrize("random_bits", [1, 3, 8, 16, 31])
def test_the_words_of_stochastic_rounding(random_bits: int) -> None:
    seed, n = 77, 32 * 40
    rows = np.ascontiguousarray(oracle.counter_words(seed, 0, n // 32, 0, SUBSTREAM)).astype("<u8")
    words = rows.view("<u4").reshape(-1).astype(np.int64)
    fraction = np.linspace(0, 1, n, endpoint=False).astype(np.float32)
    for form, step in ((FP16, 2.0**-10), (F143, 2.0**-3)):
        x = (1 + fraction * np.float32(step)).astype(np.float32)
        dropped = (x.astype(np.float64) - 1) / step
        up = dropped + ((words >> (32 - random_bits)) + 0.5) / 2**random_bits >= 1
        drawn = cast(x, form, rounding="stochastic", seed=seed, random_bits=random_bits).astype(np.float64)
        assert (drawn == 1 + up * step).all()
