"""What every op shares: its record, operands in and results out, options, and the road that each call takes."""

from .axes import axes_of, contiguous_strides, merged_axes
from .machine import AS_ASKED, Placed, host_target, own_host, place_of, target_of
from .operands import (
    BESIDE,
    RESULT,
    VALUES,
    WIDE,
    Operand,
    Receiver,
    argument,
    array_operand,
    new_result,
    one_scale_operand,
    operand,
    receive,
    result_format,
    whole_operand,
    wide_format,
    wide_operand,
)
from .options import check_mapping, number, parsed
from .own import OwnNumber, own_numbers
from .plans import as_planned, changed_plan, check_fields, compiled, planned_receiver, unchanged
from .record import Op, catalogue, located, op
from .road import Request, placed_request, run_told, travel
from .seeds import Seed, seed_of

__all__ = ["AS_ASKED", "BESIDE", "RESULT", "VALUES", "WIDE", "Op", "Operand", "OwnNumber", "Placed", "Receiver",
           "Request", "Seed", "argument", "array_operand", "as_planned", "axes_of", "catalogue", "changed_plan",
           "check_fields", "check_mapping", "compiled", "contiguous_strides", "host_target",
           "located", "merged_axes", "new_result", "number", "one_scale_operand", "op", "operand", "own_host",
           "own_numbers", "parsed", "place_of", "placed_request", "planned_receiver", "receive", "result_format",
           "run_told", "seed_of", "target_of", "travel", "unchanged", "whole_operand", "wide_format", "wide_operand"]
