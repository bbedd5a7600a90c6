# The portable level: plain loops that any C compiler takes. Each element of Y is one chain of sums in the pattern's order, and
# each step is fmaf, rounded once, so that the bits equal those of the levels with FMA instructions.

from pop_records cimport pop_sample_item, pop_sparse_item

cdef extern from "<math.h>" nogil:
    float fmaf(float, float, float)

cdef extern from "kernels/sparse/frame.h" nogil:
    ctypedef struct pop_sparse_view:
        const int64_t *offsets
        const int32_t *inner
        const int32_t *order
        const char *values
        const char *x
        float *y
        int64_t x_row, y_row, first, last, height, columns
    ctypedef void (*pop_sparse_sweep)(const pop_sparse_item *, pop_sparse_view *) noexcept nogil
    void frame(const pop_sparse_item *, const pop_tile *, pop_sparse_sweep, int) noexcept nogil
    void ready_f32(const void *, const pop_tile *) noexcept nogil
    void panel_f32(const void *, const pop_tile *) noexcept nogil

cdef extern from "kernels/sparse/sample_frame.h" nogil:
    ctypedef void (*pop_sample_block)(const char *, int64_t, const char *, int64_t, int64_t, int64_t, int64_t, float *,
                                      int64_t) noexcept nogil
    ctypedef void (*pop_sample_elements)(const char *, const char *, int64_t, const int32_t *, int64_t, int64_t,
                                         float *) noexcept nogil
    void sample(const pop_sample_item *, const pop_tile *, pop_sample_block, pop_sample_elements, int64_t) noexcept nogil


cdef inline void portable_row(const pop_sparse_item *t, const pop_sparse_view *s, int64_t block_row, int64_t row,
                              float *y) noexcept nogil:
    """One row of Y over the strip."""
    cdef const float *x
    cdef const char *w
    cdef float value
    cdef int64_t q, k, j, depth
    for j in range(s.columns):
        y[j] = 0
    for q in range(s.offsets[block_row], s.offsets[block_row + 1]):
        depth = min(t.block_depth, t.depth - s.inner[q] * t.block_depth)
        w = s.values + (q if s.order == NULL else s.order[q]) * t.value_block + row * t.value_row
        for k in range(depth):
            value = (<const float *>(w + k * t.value_depth))[0]
            x = <const float *>(s.x + (s.inner[q] * t.block_depth + k) * s.x_row)
            for j in range(s.columns):
                y[j] = fmaf(value, x[j], y[j])


cdef void portable_sweep(const pop_sparse_item *t, pop_sparse_view *s) noexcept nogil:
    cdef int64_t block_row, row
    for block_row in range(s.first, s.last):
        for row in range(s.height):
            portable_row(t, s, block_row, row, s.y + ((block_row - s.first) * t.block_rows + row) * s.y_row)


cdef void portable_multiply(const pop_sparse_item *t, const pop_tile *tile) noexcept nogil:
    frame(t, tile, portable_sweep, 0)


cdef inline float portable_dot(const float *y, const float *x, int64_t columns) noexcept nogil:
    cdef float total = 0
    cdef int64_t n
    for n in range(columns):
        total = fmaf(y[n], x[n], total)
    return total


cdef void portable_block(const char *y, int64_t y_row, const char *x, int64_t x_row, int64_t height, int64_t width,
                         int64_t columns, float *sums, int64_t sums_row) noexcept nogil:
    cdef int64_t i, k
    for i in range(height):
        for k in range(width):
            sums[i * sums_row + k] = portable_dot(<const float *>(y + i * y_row), <const float *>(x + k * x_row), columns)


cdef void portable_elements(const char *y, const char *x, int64_t x_row, const int32_t *inner, int64_t n,
                            int64_t columns, float *sums) noexcept nogil:
    cdef int64_t q
    for q in range(n):
        sums[q] = portable_dot(<const float *>y, <const float *>(x + inner[q] * x_row), columns)


cdef void portable_sample(const pop_sample_item *t, const pop_tile *tile) noexcept nogil:
    sample(t, tile, portable_block, portable_elements, 4)


cdef list portable_kernels():
    """Rows of the portable level. Formats other than FP32 are decoded to panels first."""
    cdef size_t multiply = <size_t>&portable_multiply, ready = <size_t>&ready_f32
    grain, block = (1, 1, 1), (1, 1, 1)
    return [
        ("multiply", "float32,any->float32", "portable_multiply", multiply, grain, block, 1),
        ("ready", "any->float32", "portable_ready", ready, grain, block, 1),
        ("panel", "any->float32", "portable_panel", <size_t>&panel_f32, grain, block, 1),
        ("sample", "float32,float32->any", "portable_sample", <size_t>&portable_sample, grain, block, 0),
    ]
