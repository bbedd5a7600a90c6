"""CPU detection: instruction-set features, AMX permission, cache sizes."""

from libc.stdint cimport int64_t, uint32_t

cdef extern from "cpu/cpu.h" nogil:
    enum:
        POP_CPU_WORDS
    uint32_t POP_CPU_AVX2, POP_CPU_AVX512, POP_CPU_AVX512_BF16, POP_CPU_AMX
    void pop_cpu_words(uint32_t *words)
    uint32_t pop_cpu_features(const uint32_t *words)
    bint pop_request_amx()
    uint32_t pop_float_control()
    void pop_cpu_brand(char *text)
    int64_t pop_cache_bytes(int level)


def words():
    """Return the words in which this CPU and operating system tell what they support; see `cpu.h`."""
    cdef uint32_t found[POP_CPU_WORDS]
    pop_cpu_words(found)
    return [found[i] for i in range(POP_CPU_WORDS)]


def features(given):
    """Return the set of feature groups that such words stand for."""
    cdef uint32_t word[POP_CPU_WORDS]
    for i in range(POP_CPU_WORDS):
        word[i] = given[i]
    cdef uint32_t found = pop_cpu_features(word)
    groups = {"avx2": POP_CPU_AVX2, "avx512": POP_CPU_AVX512, "avx512_bf16": POP_CPU_AVX512_BF16, "amx": POP_CPU_AMX}
    return frozenset(name for name, mask in groups.items() if found & mask)


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
