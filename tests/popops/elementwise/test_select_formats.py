"""Selections between formats: codes are taken as they lie where all have one format, and no others."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popops

TYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.int16, np.uint16, np.int32, np.uint32, np.int8, np.uint8,
         np.int64)
FLOATS = TYPES[:3]


@pytest.mark.parametrize("made", [None, *FLOATS])
def test_selections_are_numbers_whatever_format_each_has(made):
    """Formats of as many bits have other codes for the same numbers."""
    chosen = np.array([True, False, True, False, True])
    for a, b in product(TYPES if made is None else FLOATS, repeat=2):
        if made is None and (a in FLOATS) != (b in FLOATS):
            continue  # whose result may have another type
        found = popops.select(np.full(5, 3, a), np.full(5, 2, b), chosen, out_dtype=made)
        assert found.astype(np.float64).tolist() == [3, 2, 3, 2, 3]
        assert made is None or found.dtype == made
