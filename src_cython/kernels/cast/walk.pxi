# The walk: a vertex that takes a range of elements of a strided array through a decoder and an encoder.
#
# Elements go by chunks that fit L1. A chunk that lies contiguously in memory is read and written in place; any other is
# gathered before and scattered after, so that kernels see contiguous elements only. Where scales vary, a chunk ends
# with its block.

from libc.stdint cimport int8_t, uint64_t

from pop_records cimport POP_STOCHASTIC, pop_format

cdef extern from "kernels/random/aox.h" nogil:
    ctypedef struct pop_aox:
        pass
    void pop_aox_open(pop_aox *stream, uint64_t seed, uint32_t modifier, uint32_t substream, uint64_t row)
    int POP_AOX_ROW_WORDS

cdef extern from "kernels/cast/cast.h" nogil:
    int POP_CAST_DIMS
    int POP_CAST_CHUNK
    ctypedef struct pop_cast:
        pop_format from_ "from"
        pop_format to
        int32_t rounding
        int32_t random_bits
    ctypedef void (*pop_decoder)(const pop_cast *, const void *, float *, int64_t) noexcept nogil
    ctypedef void (*pop_encoder)(const pop_cast *, const float *, void *, int64_t, const uint32_t *) noexcept nogil
    ctypedef void (*pop_drawer)(pop_aox *, int64_t, int64_t, uint32_t *) noexcept nogil
    int POP_CAST_SUBSTREAM
    ctypedef struct pop_cast_scales:
        int64_t block[64]
        int64_t stride[64]
        int64_t varies
    ctypedef struct pop_cast_layout:
        pop_cast cast
        int32_t ndim, in_bytes, out_bytes
        pop_decoder decode
        pop_encoder encode
        pop_drawer draw
        int64_t extents[64]
        int64_t in_strides[64]
        int64_t out_strides[64]
        pop_cast_scales in_scales, out_scales
    ctypedef struct pop_cast_item:
        int64_t first, count

# Operands of the vertex, and its scratch, in bytes.
cdef enum:
    INPUT, OUTPUT, LAYOUT, IN_SCALES, OUT_SCALES, SEED
    CHUNK = 1024
    SCRATCH_BYTES = 20 * CHUNK


cdef inline int64_t offset_of(const int64_t *index, const int64_t *strides, int ndim) noexcept nogil:
    cdef int64_t offset = 0
    cdef int d
    for d in range(ndim):
        offset += index[d] * strides[d]
    return offset


cdef inline int scale_at(const pop_cast_scales *scales, const char *exponents, const int64_t *index,
                         int ndim) noexcept nogil:
    cdef int64_t offset = 0
    cdef int d
    if scales.varies:
        for d in range(ndim):
            offset += index[d] // scales.block[d] * scales.stride[d]
    return (<const int8_t *>exponents)[offset]


cdef inline void advance(int64_t *index, const int64_t *extents, int ndim, int64_t n) noexcept nogil:
    """Move a multi-index on by n elements."""
    cdef int d
    for d in range(ndim - 1, -1, -1):
        n += index[d]
        if d == 0 or n < extents[d]:
            index[d] = n
            return
        index[d] = n % extents[d]
        n //= extents[d]


cdef inline void copy_row(char *to, int64_t to_stride, const char *source, int64_t stride, int64_t n,
                          int bytes) noexcept nogil:
    cdef int64_t i
    if bytes == 1:
        for i in range(n):
            to[i * to_stride] = source[i * stride]
    elif bytes == 2:
        for i in range(n):
            memcpy(to + i * to_stride, source + i * stride, 2)
    elif bytes == 4:
        for i in range(n):
            memcpy(to + i * to_stride, source + i * stride, 4)
    else:
        for i in range(n):
            memcpy(to + i * to_stride, source + i * stride, 8)


cdef void copy_elements(char *packed, char *base, const int64_t *strides, const pop_cast_layout *layout,
                        const int64_t *start, int64_t n, int bytes, bint scatter) noexcept nogil:
    """Gather n elements from `start` on into `packed`, or scatter them."""
    cdef int64_t index[64]
    cdef int64_t row, stride = strides[layout.ndim - 1]
    cdef int last = layout.ndim - 1
    cdef char *lies
    memcpy(index, start, layout.ndim * sizeof(int64_t))
    while n > 0:
        row = min(n, layout.extents[last] - index[last])
        lies = base + offset_of(index, strides, layout.ndim)
        if scatter:
            copy_row(lies, stride, packed, bytes, row, bytes)
        else:
            copy_row(packed, bytes, lies, stride, row, bytes)
        packed += row * bytes
        n -= row
        advance(index, layout.extents, layout.ndim, row)


cdef inline int64_t chunk_of(const pop_cast_layout *layout, const int64_t *index, int64_t left) noexcept nogil:
    """Elements to take next: a chunk, or the whole row where nothing needs a buffer."""
    cdef int last = layout.ndim - 1
    cdef int64_t row = layout.extents[last] - index[last], block
    cdef bint direct = (layout.in_strides[last] == layout.in_bytes and layout.out_strides[last] == layout.out_bytes
                        and (layout.decode == NULL or layout.encode == NULL)
                        and layout.cast.rounding != POP_STOCHASTIC)
    cdef int64_t n = min(left, row) if direct and row >= CHUNK else min(left, <int64_t>CHUNK)
    if layout.in_scales.varies:
        block = layout.in_scales.block[last]
        n = min(n, row, block - index[last] % block)
    if layout.out_scales.varies:
        block = layout.out_scales.block[last]
        n = min(n, row, block - index[last] % block)
    return n


cdef inline void cast_chunk(const pop_cast_layout *layout, pop_cast *cast, const char *source, char *target,
                            float *numbers, const uint32_t *words, int64_t n) noexcept nogil:
    if layout.decode == NULL and layout.encode == NULL:
        memcpy(target, source, 4 * n)
        return
    if layout.decode == NULL:
        numbers = <float *>source
    elif layout.encode == NULL:
        numbers = <float *>target
    if layout.decode != NULL:
        layout.decode(cast, source, numbers, n)
    if layout.encode != NULL:
        layout.encode(cast, numbers, target, n, words)


cdef void walk(const void *work, const pop_tile *tile) noexcept nogil:
    cdef const pop_cast_item *item = <const pop_cast_item *>work
    cdef const pop_cast_layout *layout = <const pop_cast_layout *>tile.operands[LAYOUT]
    cdef char *packed_in = NULL
    cdef char *packed_out = NULL
    cdef float *numbers = NULL
    cdef uint32_t *words = <uint32_t *>tile.operands[INPUT]  # not read unless rounding is stochastic
    cdef pop_cast cast = layout.cast
    cdef pop_aox stream
    cdef int64_t index[64]
    cdef int64_t n, row, left = item.count
    cdef int last = layout.ndim - 1
    cdef char *source
    cdef char *target
    cdef bint stochastic = cast.rounding == POP_STOCHASTIC

    if tile.scratch != NULL:  # none where nothing needs a buffer
        packed_in = tile.scratch
        packed_out = tile.scratch + 8 * CHUNK
        numbers = <float *>(tile.scratch + 12 * CHUNK)
        words = <uint32_t *>(tile.scratch + 16 * CHUNK)
    for n in range(layout.ndim):
        index[n] = 0
    advance(index, layout.extents, layout.ndim, item.first)
    if stochastic:
        pop_aox_open(&stream, (<const uint64_t *>tile.operands[SEED])[0], 0, POP_CAST_SUBSTREAM,
                     item.first // POP_AOX_ROW_WORDS)
    while left > 0:
        n = chunk_of(layout, index, left)
        row = layout.extents[last] - index[last]
        source = tile.operands[INPUT] + offset_of(index, layout.in_strides, layout.ndim)
        target = tile.operands[OUTPUT] + offset_of(index, layout.out_strides, layout.ndim)
        if layout.in_strides[last] != layout.in_bytes or n > row:
            copy_elements(packed_in, tile.operands[INPUT], layout.in_strides, layout, index, n, layout.in_bytes, False)
            source = packed_in
        if layout.out_strides[last] != layout.out_bytes or n > row:
            target = packed_out
        cast.from_.bias = layout.cast.from_.bias - scale_at(&layout.in_scales, tile.operands[IN_SCALES], index,
                                                            layout.ndim)
        cast.to.bias = layout.cast.to.bias - scale_at(&layout.out_scales, tile.operands[OUT_SCALES], index, layout.ndim)
        if stochastic:
            layout.draw(&stream, item.first + item.count - left, n, words)
        cast_chunk(layout, &cast, source, target, numbers, words, n)
        if target == packed_out:
            copy_elements(packed_out, tile.operands[OUTPUT], layout.out_strides, layout, index, n, layout.out_bytes,
                          True)
        advance(index, layout.extents, layout.ndim, n)
        left -= n


cdef tuple walk_row():
    return ("walk", "any", "walk", <size_t>&walk, (1, 1, 1), (CHUNK, 1, 1), 1)
