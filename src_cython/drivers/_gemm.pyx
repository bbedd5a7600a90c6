"""The frame of dense products on this CPU: the loops around the kernels, for one rectangle of C and one thread.

The loops are Goto and van de Geijn's (ACM TOMS 34, 2008), as BLIS arranges them: a block of B is packed into panels of
lines that the kernel reads one by one, a block of A into rows, and the kernel keeps a small piece of C in registers over
the depth of the block. Where an operand already lies as the kernel reads it, nothing is packed. The plan decides sizes and
modes; this module only follows it, so it is the same at every instruction-set level.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from kernels.products cimport (
    pop_all_finite,
    pop_dot_decode,
    pop_dot_hook,
    pop_dot_lines,
    pop_dot_multiply,
    pop_dot_round,
    pop_epilogue_kernel,
)
from pop_records cimport (
    POP_MODE_ALONG,
    POP_MODE_DIRECT,
    POP_MODE_LINES,
    POP_MODE_NEIGHBOURS,
    POP_MODE_PREPARED,
    POP_MODE_TRANSPOSED,
    POP_SUMS_BLOCK,
    POP_SUMS_IN_PLACE,
    POP_SUMS_TILE,
    pop_dot_block,
    pop_epilogue,
    pop_field,
    pop_format,
    pop_multiplier,
)
from pop_records cimport pop_gemm_item as Item
from pop_records cimport pop_gemm_side as Side
from pop_records cimport pop_gemm_spec as Spec
from program.program cimport pop_tile

from poplibs_py.kernels.records import choice, dtype_of

cdef extern from *:
    """
    #include "drivers/multiplier.h"
    #define POP_RECORDS "records/gemm.def"
    #include "records/structs.h"
    #include "drivers/neighbours.h"
    """
    float pop_multiplier_of(const pop_multiplier *m, const pop_tile *tile) noexcept nogil
    ctypedef void (*pop_taps_kernel)(const pop_dot_block *block) noexcept nogil
    ctypedef struct pop_ahead:
        pass
    void pop_ahead_open(pop_ahead *ahead, const pop_field *f, const char *base, int64_t item, int64_t position, int64_t n,
                        int64_t steps) nogil
    ctypedef struct pop_taps:
        const pop_field *f
        const char *base
        const char *b
        pop_dot_block *t
        pop_taps_kernel multiply
        int64_t first, end, item, pairs, rows_at_once
        float *c
        int64_t c_row
        void (*finish)(void *walk, const float *tile, int64_t place, int64_t rows) noexcept nogil
        void *walk
        char *out
        int64_t out_row, out_bytes
        const pop_field *out_field
        int64_t position
        int narrow
        pop_ahead *ahead
    ctypedef struct pop_taps_source:
        const pop_field *f
        const char *base
        pop_dot_decode decode
        const pop_format *format
        int64_t item
        char *room
        int64_t bytes, low
    ctypedef struct pop_taps_even:
        pass
    void pop_taps_copy_few(float *to, const float *from_, int64_t n) nogil
    int64_t pop_taps_even_open(pop_taps_even *w, const pop_taps_source *s, int64_t item, int64_t position, int64_t n) nogil
    void pop_taps_even_multiply(const pop_taps *w, const pop_taps_even *e, const char *room, int64_t other, int64_t place) nogil
    void pop_taps_multiply(pop_taps *w, int64_t position, int64_t n, int64_t place) nogil
    int64_t pop_taps_decode(pop_taps *w, const pop_taps_source *s, int64_t position, int64_t n, pop_field *g) nogil
    ctypedef struct pop_field_panels:
        pop_dot_lines decode
        const pop_format *format
        int64_t cols, bytes
    int pop_field_in_runs(const pop_field *field, int64_t item) nogil
    void pop_field_block(const pop_field *field, const char *base, int64_t item, bint lines_are_positions, int64_t line,
                         int64_t lines, int64_t first, int64_t n, char *to, int64_t pitch,
                         const pop_field_panels *panels) nogil
    ctypedef struct pop_neighbours:
        const pop_field *f
        int64_t taps, apart, width, pitch, x
        const char *first
    int64_t pop_neighbours_open(pop_neighbours *w, int64_t position, int64_t cols, const char *to, int64_t *n) nogil
    void pop_neighbours_from(pop_neighbours *w, int64_t depth) nogil
    const char *pop_neighbours_on(const pop_neighbours *w, const char *b, int64_t cols, int64_t *x) nogil
    void pop_neighbours_multiply(const pop_neighbours *w, pop_dot_block *t, pop_taps_kernel multiply) nogil
    int64_t pop_field_out(const pop_field *field, int64_t position, int64_t *run) nogil
    int pop_field_finite(const pop_field *field, const pop_format *format, int64_t item, const char *base) nogil

ITEM, SPEC = dtype_of("pop_gemm_item"), dtype_of("pop_gemm_spec")
Mode, Sums = choice("Mode"), choice("Sums")
cdef enum:
    GATHERED_LINES = 64  # even: pairs of BF16 lines are whole
    SHORT_LINE = 16  # columns of panels whose lines are a line of the cache
    LINES_AT_ONCE = 8  # of those
    SHORT = 8  # rows that are no line for the epilogue
    STEP = 16  # cells after which a kernel prefetches more
    TILE_ROWS = 32  # of a kernel of tiles
    TILE_COLS = 32
    SOON = 1024  # cells of rows of A that a panel is multiplied with before what it prefetches is there
GATHERED = GATHERED_LINES


cdef inline int64_t smaller(int64_t x, int64_t y) noexcept nogil:
    return x if x < y else y


cdef inline int64_t rounded(int64_t n, int64_t grain) noexcept nogil:
    return (n + grain - 1) // grain * grain


include "drivers/gemm_pack.pxi"


cdef struct Piece:
    # Sums that are not results yet: of rows and columns from `row` and `col` of a block on.
    const float *sums
    char *out
    int64_t row, col, rows, cols


cdef struct Walk:
    # Where the loops are: block of A and of B as the kernel reads them, and the output.
    const Spec *p
    Source a, b
    pop_dot_block block
    pop_epilogue e
    pop_neighbours near
    const char *b_panel
    int64_t b_next  # bytes from a panel of B to the next
    const char *b_after  # the first panel of the block of B that is next, where B is prepared
    float *sums
    char *out
    const float *bias
    const float *row_bias
    int64_t a_next_rows  # of the block of A after this one, where its rows run along the depth
    pop_ahead field_next  # the same of a field
    const pop_field *out_field  # where rows of the output are positions of a field, or columns where they have no pitch
    int64_t position  # of that field, the first of this block
    int64_t col  # of the block, the first of the panel at hand
    Piece waiting  # rows 0: none
    int64_t turn  # the tile of sums at hand, of two


cdef inline bint in_lines(const Walk *w) noexcept nogil:
    """Whether results of a row lie one after another."""
    return 0 < w.p.out_col <= 4


cdef inline void results_ahead(Walk *w, int64_t row, int64_t rows, int64_t col) noexcept nogil:
    """Name rows of the block's results that the next call of the kernel makes."""
    cdef pop_dot_block *t = &w.block
    cdef int64_t steps = (t.cells + STEP - 1) // STEP, at = row * w.p.out_row
    if w.out_field != NULL:
        at = pop_field_out(w.out_field, w.position + row, &row)
        rows = smaller(rows, row)  # of a line
    t.c_next, t.c_next_rows, t.c_next_row = w.out + at + col * w.p.out_col, rows, w.e.out_row
    t.c_next_lines = (t.cols * w.p.out_col + 63) // 64
    t.c_next_each = (rows + steps - 1) // steps if steps else 0


cdef inline int64_t panel_lines(const Walk *w, int64_t pieces) noexcept nogil:
    """Return how many lines of the cache of the next prepared panel a step of the kernel prefetches, in so many calls."""
    cdef int64_t steps = (w.block.cells + STEP - 1) // STEP * pieces
    if not w.p.panels_ahead or steps == 0:
        return 0
    return (w.block.cells * w.block.b_cell // 64 + steps - 1) // steps


cdef inline void field_ahead(Walk *w, int64_t row, int64_t rows, int64_t nb, int64_t depth) noexcept nogil:
    """Name the positions whose elements the calls for a block of as many rows prefetch."""
    cdef const Spec *p = w.p
    cdef int64_t calls = (rows + p.rows_at_once - 1) // p.rows_at_once * ((nb + p.cols_at_once - 1) // p.cols_at_once)
    if p.look_ahead:
        pop_ahead_open(&w.field_next, w.a.field, w.a.base, p.a.item, w.a.first_line + row, rows,
                       calls * (depth // p.elements // STEP + 1))


cdef inline void rows_ahead(Walk *w, int64_t row, int64_t rows, int64_t end, int64_t k, int64_t nb) noexcept nogil:
    """Name the rows of A, up to `end`, that follow a block; its calls of the kernel prefetch a share each.

    One panel reads rows where they lie once: its calls prefetch the rows of one that comes soon.
    """
    cdef const Spec *p = w.p
    cdef int64_t next = row + rows
    if p.a.mode == POP_MODE_DIRECT and nb <= p.cols_at_once:
        next = row + rounded(SOON // (w.block.cells + 1) + 1, p.rows_at_once)
    w.a_next_rows = 0
    if p.look_ahead and w.a.field == NULL and p.a.step == p.a.item and next < end:
        w.block.a_next = w.a.base + next * p.a.line + k * p.a.step
        w.block.a_next_row, w.block.a_next_step = p.a.line, STEP * p.elements * p.a.step
        w.block.a_next_steps = (w.block.cells + STEP - 1) // STEP
        w.a_next_rows = smaller(rows, end - next)


cdef void finish(Walk *w, const float *sums, int64_t sums_row, int64_t row, int64_t rows, int64_t cols,
                 char *out) noexcept nogil:
    """Write sums as results; `out` is the first of a plain output's, or of the lines across those that are a field's."""
    cdef int64_t done = 0, run = 0, row_first, high = 1 if rows < SHORT else rows  # few rows: lines along the columns
    cdef const float *row_bias = w.e.row_bias
    cdef char *to
    if w.out_field == NULL:
        w.e.out = out
        (<pop_epilogue_kernel>w.p.epilogue)(&w.e, sums, sums_row, rows, cols)
        return
    while w.p.out_col == 0 and done < cols:  # of a block in scratch
        to = out + pop_field_out(w.out_field, w.position + done, &run)
        run = smaller(run, cols - done)
        for row_first from 0 <= row_first < rows by high:
            w.e.out = to + row_first * w.p.out_row
            w.e.row_bias = row_bias + row_first if row_bias != NULL else NULL
            (<pop_epilogue_kernel>w.p.epilogue)(&w.e, sums + row_first * sums_row + done, sums_row, high, run)
        done += run
    if w.p.out_col == 0:
        w.e.row_bias = row_bias
        return
    while done < rows:
        w.e.out = out + pop_field_out(w.out_field, w.position + row + done, &run)
        run = smaller(run, rows - done)
        w.e.row_bias = row_bias + done if row_bias != NULL else NULL
        (<pop_epilogue_kernel>w.p.epilogue)(&w.e, sums + done * sums_row, sums_row, run, cols)
        done += run
    w.e.row_bias = row_bias


cdef void finish_piece(Walk *w, const Piece *piece) noexcept nogil:
    if piece.rows:
        w.e.bias = w.bias + piece.col if w.bias != NULL else NULL
        w.e.row_bias = w.row_bias + piece.row if w.row_bias != NULL else NULL
        finish(w, piece.sums, w.block.c_row, piece.row, piece.rows, piece.cols, piece.out)


cdef void finish_later(Walk *w, Piece *piece) noexcept nogil:
    """Finish the piece before, if there is one: what a matrix unit stores is not there to be loaded at once."""
    if w.p.other_sums:
        finish_piece(w, &w.waiting)
        w.waiting = piece[0]
        w.turn ^= 1
    else:
        finish_piece(w, piece)


cdef inline float *tile_of_sums(const Walk *w) noexcept nogil:
    return w.sums + w.turn * w.p.other_sums


cdef void multiply_block(Walk *w, const char *a, int64_t mb, int64_t nb, bint last) noexcept nogil:
    """The two inner loops: panels of B, then pieces of A's rows as even as can be."""
    cdef const Spec *p = w.p
    cdef pop_dot_block *t = &w.block
    cdef int64_t units = (mb + p.row_grain - 1) // p.row_grain
    cdef int64_t pieces = (mb + p.rows_at_once - 1) // p.rows_at_once
    cdef int64_t height = units // pieces * p.row_grain, higher = units % pieces  # pieces with a grain more
    cdef int64_t cols = p.cols_at_once * p.panels
    cdef int64_t calls = pieces * ((nb + cols - 1) // cols)
    cdef int64_t lines = panel_lines(w, pieces), prefetched = lines * ((t.cells + STEP - 1) // STEP)
    cdef int64_t left = w.a_next_rows, share = (left + calls - 1) // calls  # rows of the next block that a call prefetches
    cdef int64_t i, j, first, end
    cdef bint prefetches = p.look_ahead and p.sums != POP_SUMS_BLOCK and in_lines(w)
    cdef bint near = p.b.mode == POP_MODE_NEIGHBOURS
    cdef int64_t x = w.near.x  # of a row of neighbours
    cdef Piece piece
    t.b = w.near.first if near else w.b_panel
    j = 0
    while j < nb:
        t.cols = smaller(cols, smaller(nb - j, p.width - x)) if near else smaller(cols, nb - j)
        t.b_next, t.b_next_lines = t.b + w.b_next if j + cols < nb else w.b_after, lines
        first = 0
        for i in range(pieces):
            end = smaller(mb, first + height + (p.row_grain if i < higher else 0))
            t.a = a + first * t.a_row
            t.rows = piece.rows = end - first
            piece.row, piece.col, piece.cols = first, j, t.cols
            piece.out = w.out + first * p.out_row + j * p.out_col
            if p.sums == POP_SUMS_IN_PLACE:
                t.c = <float *>piece.out
            elif p.sums == POP_SUMS_TILE:
                t.c = tile_of_sums(w)
                t.rows, t.cols = rounded(t.rows, p.row_grain), rounded(t.cols, p.row_grain)  # tiles are square
            else:
                t.c = w.sums + first * p.sums_row + j
            piece.sums = t.c
            if prefetches and end < mb:
                results_ahead(w, end, smaller(p.rows_at_once, mb - end), j)
            elif prefetches:
                results_ahead(w, 0, smaller(p.rows_at_once, mb) if j + t.cols < nb else 0, j + t.cols)
            t.a_next_rows = smaller(share, left)
            if near:
                pop_neighbours_multiply(&w.near, t, <pop_dot_multiply>p.multiply)
            else:
                (<pop_dot_multiply>p.multiply)(t)
            t.a_next += t.a_next_rows * t.a_next_row
            t.b_next += 64 * prefetched
            left -= t.a_next_rows
            t.cols = piece.cols
            if p.sums == POP_SUMS_TILE or (p.sums == POP_SUMS_IN_PLACE and last and p.finish):
                finish_later(w, &piece)
            first = end
        t.b = pop_neighbours_on(&w.near, t.b, t.cols, &x) if near else t.b + p.panels * w.b_next
        j += t.cols
    finish_piece(w, &w.waiting)
    w.waiting.rows = 0
    w.a_next_rows = left  # prefetched once, though a block be multiplied in rounds


include "drivers/gemm_taps.pxi"


cdef inline int64_t prepared_at(const Spec *p, int64_t col, int64_t k) noexcept nogil:
    """Byte where a prepared panel's depth k is: panels of the whole depth lie one after another."""
    return 4 * (col * p.prepared_cells + k // p.elements * p.cols_at_once)


cdef void take_b(Walk *w, const Item *item, const pop_tile *tile, int64_t j, int64_t k, int64_t nb,
                 int64_t kb) noexcept nogil:
    """Make the block of B at depth k, column j ready for the kernel."""
    cdef const Spec *p = w.p
    cdef int64_t cells = rounded(kb, p.depth_grain) // p.elements
    w.block.b_cell = 4 * p.cols_at_once
    w.block.b_col = 4 * cells
    w.b_next = cells * w.block.b_cell
    if p.b.mode == POP_MODE_DIRECT:
        w.block.b_cell = p.b.line * p.elements
        w.block.b_col = p.b.step
        w.b_next = p.cols_at_once * p.b.step
        w.b_panel = w.b.base + k * p.b.line + j * p.b.step
    elif p.b.mode == POP_MODE_PREPARED:
        w.b_next = w.block.b_col = p.prepared_cells * w.block.b_cell
        w.b_panel = w.b_after = w.b.base + prepared_at(p, item.first_col + j, k)
    elif p.b.mode == POP_MODE_NEIGHBOURS:
        take_neighbours(w, item, tile, j, k, nb, kb)
    else:
        w.b_panel = tile.scratch + p.b.at
        pack_b(p, &w.b, j, nb, k, kb, tile.scratch + p.b.at, tile.scratch + p.stage_at)


cdef void block_after(Walk *w, const Item *item, int64_t j, int64_t k, int64_t nb, int64_t kb) noexcept nogil:
    """Name the prepared block of B that follows the one at depth k, column j: after the last one the first."""
    cdef const Spec *p = w.p
    k += kb
    if k >= p.depth:
        j, k = j + nb if j + nb < item.n else 0, 0
    w.b_after = w.b.base + prepared_at(p, item.first_col + j, k)


cdef const char *take_a(Walk *w, const Item *item, const pop_tile *tile, int64_t i, int64_t k, int64_t mb,
                        int64_t kb) noexcept nogil:
    """Make the block of A at row i, depth k ready for the kernel."""
    cdef const Spec *p = w.p
    cdef char *to = tile.scratch + p.a.at
    cdef char *stage = tile.scratch + p.stage_at
    if p.a.mode == POP_MODE_DIRECT:
        w.block.a_row = p.a.line
        w.block.a_cell = p.a.step * p.elements
        return w.a.base + i * p.a.line + k * p.a.step
    if p.a.mode == POP_MODE_TRANSPOSED and p.row_grain == 1:
        w.block.a_row = 4
        w.block.a_cell = p.pitch
        pack_lines(p, &w.a, k, kb, i, mb, to, p.a.low, p.pitch, stage)
        return to
    w.block.a_row = p.pitch
    w.block.a_cell = 4
    if p.a.mode == POP_MODE_LINES:
        pack_rows(p, &w.a, i, mb, k, kb, to, p.a.low, p.pitch, stage)
    else:
        pack_across(p, &w.a, k, kb, i, mb, to, p.a.low, p.pitch, stage)
    return to


cdef bint finite(const Source *s, int64_t lines, int64_t steps) noexcept nogil:
    """Whether an operand's part of the item holds no infinity (or NaN)."""
    cdef const Side *d = s.side
    cdef int64_t i, j
    if s.field != NULL:
        return pop_field_finite(s.field, <const pop_format *>d.format, d.item, s.base)
    for i in range(lines):
        if d.step == d.item:
            if not pop_all_finite(<const pop_format *>d.format, d.item, s.base + i * d.line, steps):
                return False
        else:
            for j in range(steps):
                if not pop_all_finite(<const pop_format *>d.format, d.item, s.base + i * d.line + j * d.step, 1):
                    return False
    return True


cdef void open_sources(Walk *w, const Spec *p, const Item *item, const pop_tile *tile) noexcept nogil:
    cdef const signed char *a_scales = NULL
    cdef const signed char *b_scales = NULL
    cdef bint a_by_rows = p.a.mode == POP_MODE_DIRECT or p.a.mode == POP_MODE_LINES
    cdef bint b_by_rows = p.b.mode != POP_MODE_TRANSPOSED and p.b.mode != POP_MODE_ALONG
    if p.a.scales >= 0:
        a_scales = <const signed char *>tile.operands[p.a.scales] + item.a_scale
    if p.b.scales >= 0:
        b_scales = <const signed char *>tile.operands[p.b.scales] + item.b_scale
    open_source(&w.a, &p.a, tile.operands[p.a.operand] + item.a, a_scales, item.first_row, 0, a_by_rows)
    open_source(&w.b, &p.b, tile.operands[p.b.operand] + (item.b_panels if p.b.mode == POP_MODE_PREPARED else item.b),
                b_scales, 0, item.first_col, b_by_rows)
    w.a.field, w.a.lines_are_positions = <const pop_field *>item.a_field, a_by_rows
    w.b.field, w.b.lines_are_positions = <const pop_field *>item.b_field, not b_by_rows


cdef bint may_split(const Item *item, const pop_tile *tile, const Spec *p) noexcept nogil:
    """Whether both operands are finite, so that numbers may be split in parts: infinity times a part of zero is NaN."""
    cdef Walk w
    open_sources(&w, p, item, tile)
    cdef bint b_by_columns = p.b.mode == POP_MODE_TRANSPOSED or p.b.mode == POP_MODE_ALONG
    return (finite(&w.a, p.depth, item.m) if p.a.mode == POP_MODE_TRANSPOSED else finite(&w.a, item.m, p.depth)) and (
        finite(&w.b, item.n, p.depth) if b_by_columns else finite(&w.b, p.depth, item.n))


cdef void start(Walk *w, const Spec *p, const Item *item, const pop_tile *tile) noexcept nogil:
    memset(w, 0, sizeof(Walk))
    w.p = p
    open_sources(w, p, item, tile)
    w.block.a_low, w.block.b_low, w.block.skip_lows = p.a.low, p.b.low, p.skip_lows
    w.sums = <float *>(tile.scratch + p.sums_at)
    w.block.narrow = p.narrow
    w.block.c_row = p.out_row // (2 if p.narrow else 4) if p.sums == POP_SUMS_IN_PLACE else p.sums_row
    w.e.format = <const pop_format *>p.out_format
    w.e.overflow, w.e.activation = p.overflow, p.activation
    w.e.alpha, w.e.beta = pop_multiplier_of(&p.alpha, tile), pop_multiplier_of(&p.beta, tile)
    w.e.out_row, w.e.out_col = p.out_row, p.out_col
    w.e.old = tile.operands[p.old] - tile.operands[2 + p.out_skip] if p.old else 0
    w.out_field = <const pop_field *>item.out_field
    if w.out_field != NULL and p.out_col == 0:
        w.e.out_col = w.out_field.dims[w.out_field.rank - 1].out_stride
    elif w.out_field != NULL:
        w.e.out_row = w.out_field.dims[w.out_field.rank - 1].out_stride


cdef void take_bias(Walk *w, const Item *item, const pop_tile *tile, int64_t first, int64_t n) noexcept nogil:
    """Decode the bias of a block's columns, or of its rows."""
    cdef Side side
    cdef Source s
    cdef const Spec *p = w.p
    memset(&side, 0, sizeof(Side))
    side.decode, side.format, side.item, side.step = p.bias_decode, p.bias_format, p.bias_item, p.bias_step
    open_source(&s, &side, tile.operands[3] + item.bias, NULL, 0, 0, True)
    decode_line(&s, 0, first, n, tile.scratch + p.bias_at, NULL, 4, tile.scratch + p.stage_at)
    if p.bias_per_row:
        w.row_bias = <const float *>(tile.scratch + p.bias_at)
    else:
        w.bias = <const float *>(tile.scratch + p.bias_at)


cdef void matmul(const void *given, const pop_tile *tile) noexcept nogil:
    """One item: a rectangle of C."""
    cdef const Item *item = <const Item *>given
    cdef const Spec *p = <const Spec *>item.spec
    cdef Walk w
    if p.fallback and not may_split(item, tile, <const Spec *>p.fallback):
        p = <const Spec *>p.fallback
    start(&w, p, item, tile)
    if p.begin:
        (<pop_dot_hook>p.begin)()
    rectangle(&w, item, tile)
    if p.end:
        (<pop_dot_hook>p.end)()


cdef void rectangle(Walk *w, const Item *item, const pop_tile *tile) noexcept nogil:
    """The three outer loops: blocks of columns, of depth, of rows."""
    cdef const Spec *p = w.p
    cdef int64_t i, j, k, mb, nb, kb
    cdef char *out = tile.operands[2 + p.out_skip] + item.out
    for j from 0 <= j < item.n by p.nc:
        nb = smaller(p.nc, item.n - j)
        if p.bias_decode and not p.bias_per_row:
            take_bias(w, item, tile, j, nb)
        if p.sums == POP_SUMS_BLOCK:
            blocks_of_rows(w, item, tile, j, nb)
            continue
        k = 0
        while True:  # once even where the depth is zero
            kb = smaller(p.kc, p.depth - k)
            take_b(w, item, tile, j, k, nb, kb)
            w.block.cells = rounded(kb, p.depth_grain) // p.elements
            w.block.accumulate = k > 0
            for i from 0 <= i < item.m by p.mc:
                mb = smaller(p.mc, item.m - i)
                if p.bias_per_row and k + kb >= p.depth:
                    take_bias(w, item, tile, i, mb)
                w.out = out + i * p.out_row + j * p.out_col
                w.position = item.first_row + i
                if p.a.mode == POP_MODE_DIRECT and w.a.field != NULL:
                    field_ahead(w, i + mb, smaller(mb, item.m - i - mb), nb, kb)
                    multiply_taps(w, tile, i, mb, nb, k, kb, k + kb >= p.depth)
                    continue
                rows_ahead(w, i, mb, item.m, k, nb)
                if p.panels_ahead and i + mb >= item.m:
                    block_after(w, item, j, k, nb, kb)
                multiply_block(w, take_a(w, item, tile, i, k, mb, kb), mb, nb, k + kb >= p.depth)
            k += kb
            if k >= p.depth:
                break


cdef void multiply_in_rounds(Walk *w, const char *a, int64_t mb, int64_t nb, int64_t k, int64_t kb) noexcept nogil:
    """Packed rows whose sums are rounded after each `round_depth` of a lap of the depth, or not at all."""
    cdef const Spec *p = w.p
    cdef int64_t r, within = 0, depth = kb, d = 0
    cdef const char *b = w.b_panel
    while True:  # once even where the depth is zero
        if p.round_sums:
            within = (k + d) % p.round_lap
            depth = smaller(p.round_depth - within % p.round_depth, p.round_lap - within)
            within += depth
            depth = smaller(depth, kb - d)
        w.block.cells = rounded(depth, p.depth_grain) // p.elements
        w.block.accumulate = k + d > 0
        w.b_panel = b + d // p.elements * w.block.b_cell
        if p.b.mode == POP_MODE_NEIGHBOURS:
            pop_neighbours_from(&w.near, d)
        multiply_block(w, a + d // p.elements * w.block.a_cell, mb, nb, False)
        d += depth
        if p.round_sums and (k + d >= p.depth or (k + d) % p.round_lap == within % p.round_lap):
            for r in range(mb):
                (<pop_dot_round>p.round_sums)(w.sums + r * p.sums_row, nb)
        if d >= kb:
            break
    w.b_panel = b


cdef void blocks_of_rows(Walk *w, const Item *item, const pop_tile *tile, int64_t j, int64_t nb) noexcept nogil:
    """Sums in scratch: the whole depth for one block of C, then its epilogue."""
    cdef const Spec *p = w.p
    cdef int64_t i, r, k, mb, kb, rows
    cdef float *sums = w.sums
    for i from 0 <= i < item.m by p.mc:
        mb = smaller(p.mc, item.m - i)
        if p.bias_per_row:
            take_bias(w, item, tile, i, mb)
        if p.a.mode == POP_MODE_DIRECT and w.a.field != NULL:
            field_ahead(w, i + mb, smaller(mb, item.m - i - mb), nb, p.depth)
        k = 0
        while True:
            kb = smaller(p.kc, p.depth - k)
            take_b(w, item, tile, j, k, nb, kb)
            if p.panels_ahead and k + kb < p.depth:
                block_after(w, item, j, k, nb, kb)
            w.block.cells = rounded(kb, p.depth_grain) // p.elements
            if p.a.mode == POP_MODE_DIRECT and w.a.field != NULL:
                multiply_taps(w, tile, i, mb, nb, k, kb, False)
                k += kb
                if k >= p.depth:
                    break
                continue
            for r from 0 <= r < mb by p.packed_rows:
                rows = smaller(p.packed_rows, mb - r)
                w.sums = sums + r * p.sums_row
                rows_ahead(w, i + r, rows, i + mb, k, nb)
                multiply_in_rounds(w, take_a(w, item, tile, i + r, k, rows, kb), rows, nb, k, kb)
            w.sums = sums
            k += kb
            if k >= p.depth:
                break
        w.position = item.first_col + j if p.out_col == 0 else item.first_row + i
        w.e.bias, w.e.row_bias = w.bias, w.row_bias
        finish(w, w.sums, p.sums_row, 0, mb, nb, tile.operands[2 + p.out_skip] + item.out + i * p.out_row + j * p.out_col)


cdef void prepare(const void *given, const pop_tile *tile) noexcept nogil:
    """Pack B for good: operand 1 to operand 2."""
    cdef const Item *item = <const Item *>given
    cdef const Spec *p = <const Spec *>item.spec
    cdef Walk w
    cdef int64_t j, k
    open_sources(&w, p, item, tile)
    if copied_lines(p, &w.b):
        copy_lines(p, &w.b, 0, item.n, 0, p.depth, tile.operands[2] + item.b_panels, prepared_at(p, SHORT_LINE, 0))
        return
    for j from 0 <= j < item.n by p.cols_at_once:
        for k from 0 <= k < p.depth by p.kc:
            pack_panel(p, &w.b, j, smaller(p.cols_at_once, item.n - j), k, smaller(p.kc, p.depth - k),
                       tile.operands[2] + item.b_panels + prepared_at(p, j, k), tile.scratch + p.stage_at)


VERTEX = <size_t>&matmul
PREPARE_VERTEX = <size_t>&prepare
