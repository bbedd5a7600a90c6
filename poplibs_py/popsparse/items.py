"""What the sparse vertices' work items are made of: their dtypes, and the numbers of formats and choices in them."""

from __future__ import annotations

from ..kernels.records import ACTIVATIONS, FORMAT_NUMBERS, dtype_of, infinite_overflow

__all__ = ["ACTIVATIONS", "FORMAT_NUMBERS", "MULTIPLY", "PANEL", "READY", "SAMPLE", "infinite_overflow"]

MULTIPLY = dtype_of("pop_sparse_item")
"""One part of the block rows of one group: ``Y = W X``."""

READY = dtype_of("pop_ready_item")
"""One share of the values, decoded."""

SAMPLE = dtype_of("pop_sample_item")
"""One part of the block rows of one group: the stored blocks of ``dY X'``."""

PANEL = dtype_of("pop_panel_item")
"""One share of the rows of a dense operand, decoded and made contiguous."""
