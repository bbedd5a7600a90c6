"""The work items of the sparse vertices, as ``src_cython/kernels/sparse/item.h`` lays them out."""

from __future__ import annotations

import numpy as np

from ...formats import BF16, E4M3, E5M2, F143, F152, FP16, FP32

__all__ = ["ACTIVATIONS", "FORMAT_NUMBERS", "MULTIPLY", "OVERFLOW_INFINITY", "OVERFLOW_NAN", "PANEL", "READY", "SAMPLE"]

FORMAT_NUMBERS = {f.name: i for i, f in enumerate((FP32, FP16, BF16, F143, F152, E4M3, E5M2))}
"""The number that items carry for each format."""

OVERFLOW_NAN, OVERFLOW_INFINITY = 1, 2
"""What too large a result becomes, as convert.h numbers it: infinity where the format has it, else NaN."""

ACTIVATIONS = (None, "relu", "gelu", "silu")
"""Activations in the epilogue's numbering."""

MULTIPLY = np.dtype([(name, np.int64) for name in (
    "offsets", "inner", "order", "values", "x", "y", "origin", "n_rows", "part", "parts", "rows", "depth", "columns",
    "block_rows", "block_depth", "value_block", "value_row", "value_depth", "x_offset", "x_row", "x_column", "y_offset",
    "y_row", "y_column", "x_format", "x_scale", "y_format", "y_scale", "strip", "x_strip", "pack", "finish", "stream",
    "bias", "bias_offset", "activation", "overflow",
)])  # fmt: skip
"""One part of the block rows of one group: ``Y = W X``."""

READY = np.dtype([(name, np.int64) for name in (
    "offsets", "n_rows", "from", "to", "scales", "order", "part", "parts", "format", "scale", "block_rows",
    "block_columns", "pairs",
)])  # fmt: skip
"""One share of the values, decoded."""

SAMPLE = np.dtype([(name, np.int64) for name in (
    "offsets", "inner", "y", "x", "to", "origin", "n_rows", "part", "parts", "rows", "depth", "columns", "block_rows",
    "block_depth", "y_offset", "y_row", "y_column", "x_offset", "x_row", "x_column", "y_format", "y_scale", "x_format",
    "x_scale", "y_pack", "x_pack", "chunk", "panel_rows", "to_format", "to_scale", "overflow",
)])  # fmt: skip
"""One part of the block rows of one group: the stored blocks of ``dY X'``."""

PANEL = np.dtype([(name, np.int64) for name in (
    "from", "to", "from_offset", "to_offset", "row", "column", "to_row", "rows", "columns", "part", "parts", "format",
    "scale",
)])  # fmt: skip
"""One share of the rows of a dense operand, decoded and made contiguous."""
