"""The work items of the sparse vertices, as ``src_cython/kernels/sparse/item.h`` lays them out."""

from __future__ import annotations

import numpy as np

__all__ = ["MULTIPLY"]

MULTIPLY = np.dtype([(name, np.int64) for name in (
    "offsets", "inner", "order", "values", "x", "y", "origin", "n_rows", "part", "parts", "rows", "depth", "columns",
    "block_rows", "block_depth", "value_block", "value_row", "value_depth", "x_offset", "x_row", "y_offset", "y_row",
    "strip", "stream",
)])  # fmt: skip
"""One part of the block rows of one group: ``Y = W X``."""
