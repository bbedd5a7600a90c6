"""The lists of `src_cython/records` and `src_cython/formats` as this build's compiler laid them out."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

from kernels.abi cimport POP_CONSISTENT, POP_LONG
from pop_records cimport pop_format

cdef extern from "records/rows.h":
    ctypedef struct pop_record_row:
        const char *record
        const char *field
        const char *type
        int64_t offset, bytes, count
    int pop_record_rows(pop_record_row *rows)
    ctypedef struct pop_choice_row:
        const char *choice
        const char *word
        int64_t number
    const pop_choice_row POP_CHOICE_ROWS[]
    size_t POP_CHOICE_COUNT "(sizeof POP_CHOICE_ROWS / sizeof *POP_CHOICE_ROWS)"
    ctypedef struct pop_format_row:
        const char *name
        pop_format facts
        int64_t bytes, number
    const pop_format_row POP_FORMAT_ROWS[]
    size_t POP_FORMAT_COUNT "(sizeof POP_FORMAT_ROWS / sizeof *POP_FORMAT_ROWS)"

cdef extern from "kernels/stream.h":
    int64_t POP_STREAM_BYTES(int has_input)
    const int64_t POP_STREAM_TILES, POP_STREAM_ROWS

cdef extern from "kernels/attention/constants.h":
    const int POP_ATTENTION_PIECES

cdef extern from "kernels/rows/constants.h":
    const int POP_EACH_SEGMENT, POP_CENTRED, POP_NO_STATISTICS, POP_CROSS_ENTROPY, POP_BRIEF
    const int POP_ROWS_NEARBY, POP_ROWS_MOST, POP_ROWS_EIGHTS, POP_ROWS_SHORT, POP_STRETCH

CONSISTENT, LONG = POP_CONSISTENT, POP_LONG
ATTENTION_PIECES = POP_ATTENTION_PIECES
STREAM_BYTES = {"arrays": POP_STREAM_BYTES(1), "tiles": POP_STREAM_TILES, "rows": POP_STREAM_ROWS}
ROWS = {"each segment": POP_EACH_SEGMENT,
        "modes": {"": 0, "centred": POP_CENTRED, "no statistics": POP_NO_STATISTICS,
                  "cross-entropy": POP_CROSS_ENTROPY, "brief": POP_BRIEF},
        "at once": ((POP_ROWS_EIGHTS // 2, POP_ROWS_MOST), (POP_ROWS_EIGHTS, POP_ROWS_MOST // 2),
                    (POP_ROWS_SHORT, POP_ROWS_NEARBY)),
        "stretch": POP_STRETCH}


def records():
    """Return each record's size and fields: name, C type, offset, bytes, elements (0 for what is no array)."""
    cdef int i, n = pop_record_rows(NULL)
    cdef pop_record_row *rows = <pop_record_row *>malloc(n * sizeof(pop_record_row))
    if rows == NULL:
        raise MemoryError("no memory for the rows of the records")
    pop_record_rows(rows)
    found = {}
    for i in range(n):
        if rows[i].record != NULL:
            fields = []
            found[rows[i].record.decode()] = (rows[i].bytes, fields)
        else:
            fields.append((rows[i].field.decode(), rows[i].type.decode(), rows[i].offset, rows[i].bytes, rows[i].count))
    free(rows)
    return found


def choices():
    """Return the numbers of each choice by the words for them."""
    cdef size_t i
    found, words = {}, {}
    for i in range(POP_CHOICE_COUNT):
        if POP_CHOICE_ROWS[i].choice == NULL:
            words[POP_CHOICE_ROWS[i].word.decode()] = POP_CHOICE_ROWS[i].number
        else:
            found[POP_CHOICE_ROWS[i].choice.decode()] = words
            words = {}
    return found


def formats():
    """Return the facts of each format by its name: bytes, number in work records, and the fields of `pop_format`."""
    cdef size_t i
    return {POP_FORMAT_ROWS[i].name.decode(): (POP_FORMAT_ROWS[i].bytes, POP_FORMAT_ROWS[i].number,
                                               POP_FORMAT_ROWS[i].facts) for i in range(POP_FORMAT_COUNT)}
