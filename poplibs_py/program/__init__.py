"""Programs: work tables over tiles, and the executor that runs them."""

import numpy as np

from ..formats import FORMATS, Format, QuarterArray
from ..memo import at_forgetting
from ..target import Target
from ._executor import (
    BoundCall,
    Executable,
    Face,
    Key,
    OnArrays,
    Remake,
    Sequence,
    Views,
    Wrapper,
    arrays_in,
    copied_alike,
    copied_to,
    copy_of,
    first_part,
    forget_calls,
    guard_arenas,
    in_c_order,
    key_by_identity,
    key_by_parts,
    memory_in_use,
    memory_peak,
    most_operands,
    number_word,
    result_array,
    result_array_like,
    share_memory,
    temporary,
    value_words,
)
from .operands import overlaps_itself, room_like, span_of, without_gaps
from .program import ComputeSet, Exchange, Loop, Program, Segment, host_program
from .results import ResultPool, clear_result_pool, result_pool, result_pool_limit
from .room import Room, rounded, whole_lines
from .shares import items_of_threads, segment_by_work, shares_of, spread, threads_for

_DTYPES = {type(f.dtype) for f in FORMATS} | {type(np.dtype(code)) for code in np.typecodes["All"]}
key_by_identity(Format, Target, *_DTYPES)
key_by_parts(QuarterArray)
at_forgetting(forget_calls)

__all__ = ["BoundCall", "ComputeSet", "Exchange", "Executable", "Face", "Key", "Loop", "OnArrays", "Program",
           "Remake", "ResultPool", "Room", "Segment", "Sequence", "Views", "Wrapper", "arrays_in",
           "clear_result_pool", "copied_alike", "copied_to", "copy_of", "first_part", "guard_arenas", "host_program",
           "in_c_order", "items_of_threads", "key_by_identity", "key_by_parts", "memory_in_use", "memory_peak",
           "most_operands", "number_word", "overlaps_itself", "result_array", "result_array_like", "result_pool",
           "result_pool_limit", "room_like", "rounded", "segment_by_work", "share_memory", "shares_of", "span_of",
           "spread", "temporary", "threads_for", "value_words", "whole_lines", "without_gaps"]
