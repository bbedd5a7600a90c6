# What a vertex sees: see program.h.
from libc.stdint cimport int32_t, int64_t

cdef extern from "program/program.h" nogil:
    ctypedef struct pop_tile:
        char **operands
        char *scratch
        int64_t scratch_bytes
        int32_t thread
        int32_t turn
    ctypedef void (*pop_vertex)(const void *item, const pop_tile *tile) noexcept nogil
    ctypedef struct pop_segment:
        pop_vertex vertex
        const char *items
        int64_t item_bytes
        const int64_t *shares
        int64_t turn_shares
