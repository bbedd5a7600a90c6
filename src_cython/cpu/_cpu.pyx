"""CPU detection: instruction-set features, AMX permission, cache sizes."""

from libc.stdint cimport int64_t, uint32_t

cdef extern from "cpu/cpu.h" nogil:
    enum:
        POP_CPU_WORDS
        POP_LEVEL_COUNT
    const char *POP_LEVEL_NAMES[]
    void pop_cpu_words(uint32_t *words)
    int pop_cpu_levels(const uint32_t *words)
    bint pop_request_amx()
    uint32_t pop_float_control()
    void pop_cpu_brand(char *text)
    int64_t pop_cache_bytes(int level)


def words():
    """Return the words in which this CPU and operating system tell what they support; see `cpu.h`."""
    cdef uint32_t found[POP_CPU_WORDS]
    pop_cpu_words(found)
    return [found[i] for i in range(POP_CPU_WORDS)]


def levels(given=None):
    """Return the names of all levels, lowest first, or of those whose instructions such words stand for."""
    cdef uint32_t word[POP_CPU_WORDS]
    cdef int count = POP_LEVEL_COUNT
    if given is not None:
        for i in range(POP_CPU_WORDS):
            word[i] = given[i]
        count = pop_cpu_levels(word)
    return tuple(POP_LEVEL_NAMES[i].decode() for i in range(count))


def request_amx():
    """Ask the system for AMX tile data in this process; return whether it was granted."""
    return pop_request_amx()


def float_control():
    """Return how this thread rounds and whether it flushes subnormals, as the CPU's control word says it (x86: MXCSR)."""
    return pop_float_control()


def brand():
    """Return the CPU's own name for itself, or an empty string."""
    cdef char text[49]
    pop_cpu_brand(text)
    return (<bytes>text).decode("ascii", "replace").strip()


def cache_bytes(int level):
    """Return the bytes of one core's cache of `level` (1 is L1 data), 0 when unknown."""
    return pop_cache_bytes(level)
