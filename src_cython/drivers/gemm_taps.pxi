# Fields whose taps meet the same elements: A is read tap by tap, lines of B serve all taps of neighbours.

cdef void finish_parts(Walk *w, const float *sums, int64_t place, int64_t rows) noexcept nogil:
    """The same of columns whose parts lie apart. Those of neighbours often lie in line: they are one line then."""
    cdef const Spec *p = w.p
    cdef float line[TILE_ROWS * TILE_COLS + TILE_COLS]
    cdef int64_t first, cols, done, run, r, item = p.out_col
    cdef char *out
    for first from 0 <= first < w.block.cols by p.out_cols:
        cols, done = smaller(p.out_cols, w.block.cols - first), 0
        while done < rows:
            out, run = w.out + first // p.out_cols * p.out_part, rows - done
            if w.out_field == NULL:
                out += (place + done) * p.out_row
            else:
                out += pop_field_out(w.out_field, w.position + place + done, &run)
                run = smaller(run, rows - done)
            w.e.out = out
            if w.e.out_row == cols * item and run <= TILE_ROWS:
                for r in range(run):
                    pop_taps_copy_few(line + r * cols, sums + (done + r) * p.sums_row + first, cols)
                (<pop_epilogue_kernel>p.epilogue)(&w.e, line, run * cols, 1, run * cols)
            else:
                (<pop_epilogue_kernel>p.epilogue)(&w.e, sums + done * p.sums_row + first, p.sums_row, run, cols)
            done += run


cdef void finish_taps(void *given, const float *sums, int64_t place, int64_t rows) noexcept nogil:
    """Write a tile of sums as the results of a block's rows from number `place` on."""
    cdef Walk *w = <Walk *>given
    if w.p.out_cols:
        finish_parts(w, sums, place, rows)
        return
    w.e.bias = w.bias + w.col if w.bias != NULL else NULL
    w.e.row_bias = w.row_bias + place if w.row_bias != NULL else NULL
    finish(w, sums, w.p.sums_row, place, rows, w.block.cols, w.out + place * w.p.out_row + w.col * w.p.out_col)


cdef void multiply_windows(Walk *w, pop_taps *taps, const pop_taps_source *source, int64_t position, int64_t mb,
                           int64_t nb) noexcept nogil:
    """The rows of a block from windows with the zeros around them, which a matrix unit takes."""
    cdef const Spec *p = w.p
    cdef pop_taps_even even
    cdef int64_t j, some, done = 0
    taps.c = w.sums
    while done < mb:
        some = pop_taps_even_open(&even, source, taps.item, position + done, mb - done)
        taps.b = w.b_panel
        for j from 0 <= j < nb by p.cols_at_once:
            w.col, w.block.cols = j, smaller(p.cols_at_once, nb - j)
            pop_taps_even_multiply(taps, &even, source.room, p.other_sums, done)
            taps.b += w.b_next
        done += some


cdef void multiply_taps(Walk *w, const pop_tile *tile, int64_t row, int64_t mb, int64_t nb, int64_t k, int64_t kb,
                        bint last) noexcept nogil:
    """The same of a field that is read tap by tap, where it lies or from a window of decoded elements: all rows of that."""
    cdef const Spec *p = w.p
    cdef pop_taps taps
    cdef pop_taps_source source
    cdef pop_field decoded
    cdef float *sums = <float *>w.out if p.sums == POP_SUMS_IN_PLACE else w.sums
    cdef int64_t j, done = 0, some = mb
    memset(&taps, 0, sizeof(taps))
    taps.f, taps.base, taps.t = w.a.field, w.a.base, &w.block
    taps.multiply = <pop_taps_kernel>p.multiply
    taps.first, taps.end, taps.item, taps.pairs, taps.rows_at_once = k, k + kb, 4 // p.elements, p.elements == 2, p.rows_at_once
    taps.c_row = p.out_row // 4 if p.sums == POP_SUMS_IN_PLACE else p.sums_row
    taps.out_row, taps.narrow, taps.ahead = p.out_row, p.narrow, &w.field_next if p.look_ahead else NULL
    taps.out_field, taps.position = w.out_field, w.position
    if p.sums == POP_SUMS_TILE:
        taps.finish, taps.walk = finish_taps, w
    w.block.a_cell = 4
    w.block.a_next_rows = w.block.c_next_rows = w.block.narrow = 0
    if p.row_grain > 1 or not p.a.copied:
        source.f, source.base, source.decode = w.a.field, w.a.base, <pop_dot_decode>p.a.decode
        source.format, source.item = <const pop_format *>p.a.format, p.a.item
        source.room, source.bytes, source.low = tile.scratch + p.a.at, p.pitch, p.a.low
        decoded = w.a.field[0]
        taps.f = &decoded
    if p.row_grain > 1:
        multiply_windows(w, &taps, &source, w.a.first_line + row, mb, nb)
        return
    while done < mb:
        if not p.a.copied:
            some = pop_taps_decode(&taps, &source, w.a.first_line + row + done, mb - done, &decoded)
        taps.b = w.b_panel
        for j from 0 <= j < nb by p.cols_at_once:
            w.col, w.block.cols = j, smaller(p.cols_at_once, nb - j)
            taps.c = sums if p.sums == POP_SUMS_TILE else sums + j
            taps.out = w.out + j * p.out_col if p.sums != POP_SUMS_BLOCK and in_lines(w) else NULL
            taps.out_bytes = w.block.cols * p.out_col
            pop_taps_multiply(&taps, w.a.first_line + row + done, some, done)
            taps.b += w.b_next
        done += some
    if last and p.sums == POP_SUMS_IN_PLACE and p.finish:
        w.e.bias, w.e.row_bias = w.bias, w.row_bias
        finish(w, sums, taps.c_row, 0, mb, nb, w.out)


cdef void take_neighbours(Walk *w, const Item *item, const pop_tile *tile, int64_t j, int64_t k, int64_t nb,
                          int64_t kb) noexcept nogil:
    """Decode the lines that the block of B at depth k, column j is read from."""
    cdef const Spec *p = w.p
    cdef char *to = tile.scratch + p.b.at
    cdef int64_t n = 0, first
    w.near.f = w.b.field
    w.near.taps, w.near.apart, w.near.width, w.near.pitch = p.taps, p.taps_apart, p.width, p.line_pitch
    w.block.b_cell, w.block.b_col = p.line_pitch, 4 * p.cols_at_once
    first = pop_neighbours_open(&w.near, item.first_col + j, nb, to, &n)
    lines_to_panels(&w.b, k // p.taps, kb // p.taps, first - w.b.first_step, n, to, n, p.line_pitch, 0)
