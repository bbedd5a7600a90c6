# The kernels of products as frames call them: see dot/dot.h and epilogue.h.
from libc.stdint cimport int64_t, uint16_t, uint32_t, uintptr_t

from pop_records cimport pop_dot_block, pop_epilogue, pop_format

cdef extern from "kernels/dot/dot.h" nogil:
    void pop_prefetch_l2_lines(uintptr_t place, int64_t bytes)
    int pop_all_finite(const pop_format *format, int64_t bytes, const void *source, int64_t n)
    ctypedef void (*pop_dot_multiply)(const pop_dot_block *block) noexcept nogil
    ctypedef void (*pop_dot_decode)(const pop_format *format, const void *source, void *to, void *low,
                                    int64_t n) noexcept nogil
    ctypedef void (*pop_dot_transpose)(const char *source, int64_t line, int64_t lines, int64_t cells, char *to,
                                       int64_t cell) noexcept nogil
    ctypedef void (*pop_dot_hook)() noexcept nogil
    ctypedef void (*pop_dot_round)(float *sums, int64_t n) noexcept nogil
    ctypedef void (*pop_dot_round_at_random)(float *sums, int64_t n, const uint32_t *words) noexcept nogil
    ctypedef void (*pop_dot_interleave)(const uint16_t *even, const uint16_t *odd, uint16_t *to, int64_t n) noexcept nogil
    ctypedef void (*pop_dot_pair)(const pop_format *format, const void *even, const void *odd, uint16_t *to,
                                  int64_t n) noexcept nogil
    ctypedef void (*pop_dot_lines)(const pop_format *format, const void *source, int64_t source_line, int64_t lines, void *to,
                                   int64_t to_line, int64_t n) noexcept nogil

cdef extern from "kernels/epilogue.h" nogil:
    ctypedef void (*pop_epilogue_kernel)(const pop_epilogue *e, const float *sums, int64_t sums_row, int64_t rows,
                                         int64_t cols) noexcept nogil
    void pop_scatter(int64_t bytes, const char *source, int64_t source_step, char *to, int64_t to_step, int64_t n)
