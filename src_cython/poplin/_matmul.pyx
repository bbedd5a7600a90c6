"""The frame of dense products on this CPU: the loops around the kernels, for one rectangle of C and one thread.

The loops are Goto and van de Geijn's (ACM TOMS 34, 2008), as BLIS arranges them: a block of B is packed into panels of
lines that the kernel reads one by one, a block of A into rows, and the kernel keeps a small piece of C in registers over
the depth of the block. Where an operand already lies as the kernel reads it, nothing is packed. The plan decides sizes and
modes; this module only follows it, so it is the same at every instruction-set level.
"""

from libc.stdint cimport int64_t, uint16_t
from libc.string cimport memset

from program.program cimport pop_tile

import numpy as np

cdef extern from "kernels/dot/dot.h" nogil:
    ctypedef struct pop_format:
        int bias
    ctypedef struct pop_dot_block:
        const char *a
        const char *b
        float *c
        int64_t a_row, a_cell, b_cell, b_col, c_row, rows, cols, cells, a_low, b_low, accumulate
    ctypedef void (*pop_dot_multiply)(const pop_dot_block *block) noexcept nogil
    ctypedef void (*pop_dot_decode)(const pop_format *format, const void *source, void *to, void *low,
                                    int64_t n) noexcept nogil
    ctypedef void (*pop_dot_transpose)(const char *source, int64_t line, int64_t lines, int64_t cells, char *to,
                                       int64_t cell) noexcept nogil
    ctypedef void (*pop_dot_round)(float *sums, int64_t n) noexcept nogil
    ctypedef void (*pop_dot_interleave)(const uint16_t *even, const uint16_t *odd, uint16_t *to, int64_t n) noexcept nogil

cdef extern from "kernels/epilogue.h" nogil:
    ctypedef struct pop_epilogue:
        const pop_format *format
        int64_t overflow, activation
        float alpha, beta
        const float *bias
        const float *row_bias
        char *out
        int64_t out_row, out_col
    ctypedef void (*pop_epilogue_kernel)(const pop_epilogue *e, const float *sums, int64_t sums_row, int64_t rows,
                                         int64_t cols) noexcept nogil
    void pop_scatter(int64_t bytes, const char *source, int64_t source_step, char *to, int64_t to_step, int64_t n)

# How an operand reaches the kernel, and where the sums are kept until the depth is done.
cpdef enum Mode:
    DIRECT = 0  # read where it lies
    LINES = 1  # A: rows of cells along the depth. B: lines of cells across the columns
    TURNED = 2  # the other way round from how it lies: the source is contiguous in the other direction
    PREPARED = 3  # packed by an earlier call
    ALONG = 4  # B for kernels of the dot form: columns of cells along the depth

cpdef enum Sums:
    IN_PLACE = 0  # in the output
    TILE = 1  # in a tile of the kernel's size: the depth is one block
    BLOCK = 2  # in a block of scratch: the depth is the inner loop

cdef struct Side:
    int64_t mode, decode, format, item
    int64_t line, step  # bytes from a line to the next, from an element of a line to the next
    int64_t at  # of its panels in the scratch

cdef struct Spec:
    Side a, b
    int64_t multiply, transpose, interleave, epilogue, round_sums
    int64_t elements  # of a cell: 1 FP32, 2 BF16
    int64_t depth, depth_grain, row_grain
    int64_t rows_at_once, cols_at_once  # the kernel's block
    int64_t mc, nc, kc  # rows, columns, depth of the packed blocks
    int64_t sums, sums_at, sums_row, stage_at, bias_at
    int64_t pitch  # bytes of a packed row of A, or of a packed line of A where A is turned
    int64_t prepared_cols  # columns of the prepared panels, padded
    int64_t finish  # whether the epilogue is wanted when the sums are in place
    int64_t out_row, out_col, out_format, overflow, activation
    int64_t bias_decode, bias_item, bias_step, bias_format, bias_per_row
    double alpha, beta

cdef struct Item:
    int64_t spec, a, b, out, bias, m, n, first_col

ITEM = np.dtype([(name, np.int64) for name in ("spec", "a", "b", "out", "bias", "m", "n", "first_col")])
_SIDE = [(name, np.int64) for name in ("mode", "decode", "format", "item", "line", "step", "at")]
SPEC = np.dtype(
    [("a", _SIDE), ("b", _SIDE)]
    + [(name, np.int64) for name in (
        "multiply", "transpose", "interleave", "epilogue", "round_sums", "elements", "depth", "depth_grain", "row_grain",
        "rows_at_once", "cols_at_once", "mc", "nc", "kc", "sums", "sums_at", "sums_row", "stage_at", "bias_at", "pitch",
        "prepared_cols", "finish", "out_row", "out_col", "out_format", "overflow", "activation", "bias_decode",
        "bias_item", "bias_step", "bias_format", "bias_per_row")]
    + [("alpha", np.float64), ("beta", np.float64)])
assert ITEM.itemsize == sizeof(Item) and SPEC.itemsize == sizeof(Spec)


cdef inline int64_t smaller(int64_t x, int64_t y) noexcept nogil:
    return x if x < y else y


cdef inline int64_t rounded(int64_t n, int64_t grain) noexcept nogil:
    return (n + grain - 1) // grain * grain


cdef inline void decode_line(const Side *s, const char *source, char *to, int64_t n, char *stage) noexcept nogil:
    """Decode n elements of a line, gathered first where they are apart."""
    if s.step == s.item or n == 1:
        (<pop_dot_decode>s.decode)(<const pop_format *>s.format, source, to, NULL, n)
    else:
        pop_scatter(s.item, source, s.step, stage, s.item, n)
        (<pop_dot_decode>s.decode)(<const pop_format *>s.format, stage, to, NULL, n)


cdef void pack_rows(const Spec *p, const Side *s, const char *source, char *to, int64_t pitch, int64_t rows, int64_t depth,
                    char *stage) noexcept nogil:
    """Lines along the depth stay lines along the depth, padded with zeros to the kernel's grain."""
    cdef int64_t r, element = 4 // p.elements
    cdef int64_t padding = (rounded(depth, p.depth_grain) - depth) * element
    for r in range(rows):
        decode_line(s, source + r * s.line, to + r * pitch, depth, stage)
        if padding:
            memset(to + r * pitch + depth * element, 0, padding)


cdef void pack_lines(const Spec *p, const Side *s, const char *source, char *to, int64_t pitch, int64_t width,
                     int64_t depth, char *stage) noexcept nogil:
    """Lines across the width become lines of cells: one of FP32, two of BF16 interleaved."""
    cdef int64_t k
    cdef char *odd = stage + rounded(2 * width, 64)
    cdef char *gathered = stage + 2 * rounded(2 * width, 64)
    if p.elements == 1:
        for k in range(depth):
            decode_line(s, source + k * s.line, to + k * pitch, width, stage)
        return
    for k in range(0, rounded(depth, p.depth_grain), 2):
        if k < depth:
            decode_line(s, source + k * s.line, stage, width, gathered)
        else:
            memset(stage, 0, 2 * width)
        if k + 1 < depth:
            decode_line(s, source + (k + 1) * s.line, odd, width, gathered)
        else:
            memset(odd, 0, 2 * width)
        (<pop_dot_interleave>p.interleave)(<uint16_t *>stage, <uint16_t *>odd, <uint16_t *>(to + k // 2 * pitch),
                                             width)


cdef void pack_turned(const Spec *p, const Side *s, const char *source, char *to, int64_t pitch, int64_t width,
                      int64_t depth, char *stage) noexcept nogil:
    """Lines along the depth become lines of cells across the width, sixteen at a time."""
    cdef int64_t j, lines, cells = rounded(depth, p.depth_grain) // p.elements, line = 4 * cells
    for j in range(0, width, 16):
        lines = smaller(16, width - j)
        pack_rows(p, s, source + j * s.line, stage, line, lines, depth, stage + 16 * line)
        (<pop_dot_transpose>p.transpose)(stage, line, lines, cells, to + 4 * j, pitch)


cdef void pack_b(const Spec *p, const char *source, char *to, int64_t cols, int64_t depth, char *stage) noexcept nogil:
    """Panels of the kernel's width, one after another; `source` is the block's first element."""
    cdef int64_t j, width, cells = rounded(depth, p.depth_grain) // p.elements, pitch = 4 * p.cols_at_once
    cdef const Side *s = &p.b
    if s.mode == ALONG:
        pack_rows(p, s, source, to, 4 * cells, cols, depth, stage)
        return
    for j from 0 <= j < cols by p.cols_at_once:
        width = smaller(p.cols_at_once, cols - j)
        if s.mode == LINES:
            pack_lines(p, s, source + j * s.step, to, pitch, width, depth, stage)
        else:
            pack_turned(p, s, source + j * s.line, to, pitch, width, depth, stage)
        to += cells * pitch


cdef struct Walk:
    # Where the loops are: block of A and of B as the kernel reads them, and the output.
    const Spec *p
    pop_dot_block block
    pop_epilogue e
    const char *b_panel
    int64_t b_next  # bytes from a panel of B to the next
    float *sums
    char *out
    const float *bias
    const float *row_bias


cdef void multiply_block(Walk *w, const char *a, int64_t mb, int64_t nb, bint last) noexcept nogil:
    """The two inner loops: panels of B, then pieces of A's rows as even as can be."""
    cdef const Spec *p = w.p
    cdef pop_dot_block *t = &w.block
    cdef int64_t units = (mb + p.row_grain - 1) // p.row_grain
    cdef int64_t pieces = (mb + p.rows_at_once - 1) // p.rows_at_once
    cdef int64_t i, j, first, end
    cdef char *out
    t.b = w.b_panel
    for j from 0 <= j < nb by p.cols_at_once:
        t.cols = smaller(p.cols_at_once, nb - j)
        first = 0
        for i in range(pieces):
            end = smaller(mb, units * (i + 1) // pieces * p.row_grain)
            t.a = a + first * t.a_row
            t.rows = end - first
            out = w.out + first * p.out_row + j * p.out_col
            if p.sums == IN_PLACE:
                t.c = <float *>out
            elif p.sums == TILE:
                t.c = w.sums
            else:
                t.c = w.sums + first * p.sums_row + j
            (<pop_dot_multiply>p.multiply)(t)
            if p.sums == TILE or (p.sums == IN_PLACE and last and p.finish):
                w.e.out = out
                w.e.bias = w.bias + j if w.bias != NULL else NULL
                w.e.row_bias = w.row_bias + first if w.row_bias != NULL else NULL
                (<pop_epilogue_kernel>p.epilogue)(&w.e, t.c, t.c_row, t.rows, t.cols)
            first = end
        t.b += w.b_next


cdef void take_b(Walk *w, const Item *item, const pop_tile *tile, int64_t j, int64_t k, int64_t nb,
                 int64_t kb) noexcept nogil:
    """Make the block of B at depth k, column j ready for the kernel."""
    cdef const Spec *p = w.p
    cdef const char *b = tile.operands[1] + item.b
    cdef int64_t cells = rounded(kb, p.depth_grain) // p.elements
    w.block.b_cell = 4 * p.cols_at_once
    w.b_next = cells * w.block.b_cell
    w.block.b_col = 4 * cells
    if p.b.mode == DIRECT:
        w.block.b_cell = p.b.line * p.elements
        w.block.b_col = p.b.step
        w.b_next = p.cols_at_once * p.b.step
        w.b_panel = b + k * p.b.line + j * p.b.step
    elif p.b.mode == PREPARED:
        w.b_panel = b + 4 * (k // p.elements * p.prepared_cols + (item.first_col + j) * cells)
    else:
        w.b_panel = tile.scratch + p.b.at
        if p.b.mode == LINES:
            b += k * p.b.line + j * p.b.step
        else:
            b += k * p.b.step + j * p.b.line
        pack_b(p, b, tile.scratch + p.b.at, nb, kb, tile.scratch + p.stage_at)


cdef const char *take_a(Walk *w, const Item *item, const pop_tile *tile, int64_t i, int64_t k, int64_t mb,
                        int64_t kb) noexcept nogil:
    """Make the block of A at row i, depth k ready for the kernel."""
    cdef const Spec *p = w.p
    cdef const char *a = tile.operands[0] + item.a
    cdef char *to = tile.scratch + p.a.at
    if p.a.mode == DIRECT:
        w.block.a_row = p.a.line
        w.block.a_cell = p.a.step * p.elements
        return a + i * p.a.line + k * p.a.step
    if p.a.mode == LINES:
        w.block.a_row = p.pitch
        w.block.a_cell = 4
        pack_rows(p, &p.a, a + i * p.a.line + k * p.a.step, to, p.pitch, mb, kb, tile.scratch + p.stage_at)
    else:
        w.block.a_row = 4
        w.block.a_cell = p.pitch
        pack_lines(p, &p.a, a + i * p.a.step + k * p.a.line, to, p.pitch, mb, kb, tile.scratch + p.stage_at)
    return to


cdef void start(Walk *w, const Spec *p, const Item *item, const pop_tile *tile) noexcept nogil:
    memset(w, 0, sizeof(Walk))
    w.p = p
    w.sums = <float *>(tile.scratch + p.sums_at)
    w.block.c_row = p.out_row // 4 if p.sums == IN_PLACE else p.sums_row
    w.e.format = <const pop_format *>p.out_format
    w.e.overflow, w.e.activation = p.overflow, p.activation
    w.e.alpha, w.e.beta = p.alpha, p.beta
    w.e.out_row, w.e.out_col = p.out_row, p.out_col


cdef void take_bias(Walk *w, const Item *item, const pop_tile *tile, int64_t first, int64_t n) noexcept nogil:
    """Decode the bias of a block's columns, or of its rows."""
    cdef Side s
    cdef const Spec *p = w.p
    s.decode, s.format, s.item, s.step = p.bias_decode, p.bias_format, p.bias_item, p.bias_step
    decode_line(&s, tile.operands[3] + item.bias + first * p.bias_step, tile.scratch + p.bias_at, n,
                tile.scratch + p.stage_at)
    if p.bias_per_row:
        w.row_bias = <const float *>(tile.scratch + p.bias_at)
    else:
        w.bias = <const float *>(tile.scratch + p.bias_at)


cdef void matmul(const void *given, const pop_tile *tile) noexcept nogil:
    """One item: a rectangle of C."""
    cdef const Item *item = <const Item *>given
    cdef const Spec *p = <const Spec *>item.spec
    cdef Walk w
    cdef int64_t i, j, k, mb, nb, kb
    cdef char *out = tile.operands[2] + item.out
    start(&w, p, item, tile)
    for j from 0 <= j < item.n by p.nc:
        nb = smaller(p.nc, item.n - j)
        if p.bias_decode and not p.bias_per_row:
            take_bias(&w, item, tile, j, nb)
        if p.sums == BLOCK:
            blocks_of_rows(&w, item, tile, j, nb)
            continue
        k = 0
        while True:  # once even where the depth is zero
            kb = smaller(p.kc, p.depth - k)
            take_b(&w, item, tile, j, k, nb, kb)
            w.block.cells = rounded(kb, p.depth_grain) // p.elements
            w.block.accumulate = k > 0
            for i from 0 <= i < item.m by p.mc:
                mb = smaller(p.mc, item.m - i)
                if p.bias_per_row and k + kb >= p.depth:
                    take_bias(&w, item, tile, i, mb)
                w.out = out + i * p.out_row + j * p.out_col
                multiply_block(&w, take_a(&w, item, tile, i, k, mb, kb), mb, nb, k + kb >= p.depth)
            k += kb
            if k >= p.depth:
                break


cdef void blocks_of_rows(Walk *w, const Item *item, const pop_tile *tile, int64_t j, int64_t nb) noexcept nogil:
    """Sums in scratch: the whole depth for one block of C, then its epilogue."""
    cdef const Spec *p = w.p
    cdef int64_t i, k, r, mb, kb
    for i from 0 <= i < item.m by p.mc:
        mb = smaller(p.mc, item.m - i)
        if p.bias_per_row:
            take_bias(w, item, tile, i, mb)
        k = 0
        while True:
            kb = smaller(p.kc, p.depth - k)
            take_b(w, item, tile, j, k, nb, kb)
            w.block.cells = rounded(kb, p.depth_grain) // p.elements
            w.block.accumulate = k > 0
            multiply_block(w, take_a(w, item, tile, i, k, mb, kb), mb, nb, False)
            if p.round_sums:
                for r in range(mb):
                    (<pop_dot_round>p.round_sums)(w.sums + r * p.sums_row, nb)
            k += kb
            if k >= p.depth:
                break
        w.e.out = tile.operands[2] + item.out + i * p.out_row + j * p.out_col
        w.e.bias, w.e.row_bias = w.bias, w.row_bias
        (<pop_epilogue_kernel>p.epilogue)(&w.e, w.sums, p.sums_row, mb, nb)


cdef void prepare(const void *given, const pop_tile *tile) noexcept nogil:
    """Pack the item's columns of B for good: operand 1 to operand 2."""
    cdef const Item *item = <const Item *>given
    cdef const Spec *p = <const Spec *>item.spec
    cdef int64_t k, kb, cells
    cdef const char *b
    for k from 0 <= k < p.depth by p.kc:
        kb = smaller(p.kc, p.depth - k)
        cells = rounded(kb, p.depth_grain) // p.elements
        b = tile.operands[1] + item.b + (k * p.b.line if p.b.mode == LINES else k * p.b.step)
        pack_b(p, b, tile.operands[2] + 4 * (k // p.elements * p.prepared_cols + item.first_col * cells), item.n, kb,
               tile.scratch + p.stage_at)


VERTEX = <size_t>&matmul
PREPARE_VERTEX = <size_t>&prepare
