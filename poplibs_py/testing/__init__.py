"""Tools to test numerics with, ours and yours: distances, bounds, exact data, references, strategies, assertions.

`strategies` and `calls` need hypothesis and are imported when first used.
"""

from ..lazy import submodules_on_demand
from .assertions import assert_same_bits, assert_within_bound
from .data import ExactOperands, as_format, exact_operands, exact_sparse_operands, random_operand
from .exact import codes_of, decode_exact, exact_values, round_exact, values_of
from .ops import bound, check, check_exact, exact, find_op, reference, replay
from .ulp import error_over_bound, ulp, ulp_distance, ulp_error

__all__ = ["ExactOperands", "as_format", "assert_same_bits", "assert_within_bound", "bound", "calls", "cases", "check",
           "check_exact", "codes_of", "decode_exact", "error_over_bound", "exact", "exact_operands",
           "exact_sparse_operands", "exact_values", "find_op", "random_operand", "reference", "replay", "round_exact",
           "strategies", "ulp", "ulp_distance", "ulp_error", "values_of"]

__getattr__, __dir__ = submodules_on_demand(__name__)
