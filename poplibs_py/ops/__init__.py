"""What every op shares: its record, operands in and results out, options, and the road that each call takes."""

from .machine import host_target, machine_to_plan, modelled_target, planned_on, target_of
from .operands import (
    Operand,
    Receiver,
    argument,
    array_operand,
    new_result,
    one_scale_operand,
    operand,
    receive,
    result_format,
)
from .options import check_keywords, check_mapping, number, parsed
from .plans import changed_plan, check_fields, compiled, unchanged
from .record import Op, catalogue, located, op
from .road import RESULT, VALUES, Request, on_tiles, run_told, travel
from .seeds import Seed, seed_of

__all__ = [
    "RESULT",
    "VALUES",
    "Op",
    "Operand",
    "Receiver",
    "Request",
    "Seed",
    "argument",
    "array_operand",
    "catalogue",
    "changed_plan",
    "check_fields",
    "check_keywords",
    "check_mapping",
    "compiled",
    "host_target",
    "located",
    "machine_to_plan",
    "modelled_target",
    "new_result",
    "number",
    "on_tiles",
    "one_scale_operand",
    "op",
    "operand",
    "parsed",
    "planned_on",
    "receive",
    "result_format",
    "run_told",
    "seed_of",
    "target_of",
    "travel",
    "unchanged",
]
