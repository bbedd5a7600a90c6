# How operands of dense products come into panels: decoded, gathered where they are fields, interleaved, transposed.

from libc.stdint cimport uint16_t, uintptr_t
from libc.string cimport memcpy

from kernels.products cimport (
    pop_dot_decode,
    pop_dot_interleave,
    pop_dot_lines,
    pop_dot_pair,
    pop_dot_transpose,
    pop_prefetch_l2_lines,
    pop_scatter,
)


cdef struct Source:
    # An operand of one item: its lines, and where their scales are.
    const Side *side
    const char *base
    const signed char *scales
    int64_t first_line, first_step  # of the item, in the whole operand
    const pop_field *field  # where it is no plain matrix
    bint lines_are_positions  # of that field


cdef void open_source(Source *s, const Side *side, const char *base, const signed char *scales, int64_t row, int64_t col,
                      bint lines_are_rows) noexcept nogil:
    s.side, s.base, s.scales, s.field = side, base, scales, NULL
    s.first_line = row if lines_are_rows else col
    s.first_step = col if lines_are_rows else row


cdef void decode_scaled(const Source *s, int64_t line, int64_t step, int64_t n, const char *source, char *to, char *low,
                        int64_t element) noexcept nogil:
    """Decode contiguous codes, each run of a block with its own scale."""
    cdef const Side *d = s.side
    cdef pop_format scaled = (<const pop_format *>d.format)[0]
    cdef const signed char *scales = s.scales + (s.first_line + line) // d.block_lines * d.scale_line
    cdef int64_t done = 0, at = s.first_step + step, run
    while done < n:
        run = smaller(n - done, d.block_steps - at % d.block_steps)
        scaled.bias = (<const pop_format *>d.format).bias - scales[at // d.block_steps * d.scale_step]
        (<pop_dot_decode>d.decode)(&scaled, source + done * d.item, to + done * element,
                                   low + done * element if low != NULL else NULL, run)
        done += run
        at += run


cdef inline int64_t whole_depth(const pop_field *f, int64_t depth, int64_t *n) noexcept nogil:
    """Which column of a field's whole matrix a number of the depth is, and how many of n follow it there."""
    if not f.lap:
        return depth
    n[0] = smaller(n[0], f.lap - depth % f.lap)
    return depth // f.lap * f.run + f.skip + depth % f.lap


cdef inline void gather(const Source *s, int64_t line, int64_t lines, int64_t step, int64_t n, char *to,
                        int64_t pitch, const pop_field_panels *panels=NULL) noexcept nogil:
    """Copy n elements of each line of a field's matrix, zeros where it has none; lines of the depth go to panels, if any."""
    cdef const pop_field *f = s.field
    cdef int64_t item = s.side.item, total = n if s.lines_are_positions else lines, part = total, at
    line, step = s.first_line + line, s.first_step + step
    while total > 0:  # once, where the depth is whole
        part = total
        if s.lines_are_positions:
            at = whole_depth(f, step, &part)
            pop_field_block(f, s.base, item, True, line, lines, at, part, to, pitch, NULL)
            to += part * item
            step += part
        else:
            at = whole_depth(f, line, &part)
            pop_field_block(f, s.base, item, False, at, part, step, n, to, pitch, panels)
            to += part * pitch
            line += part
        total -= part


cdef inline void decode_line(const Source *s, int64_t line, int64_t step, int64_t n, char *to, char *low, int64_t element,
                             char *stage) noexcept nogil:
    """Decode n elements of a line, gathered first where they are apart."""
    cdef const Side *d = s.side
    cdef const char *source = s.base + line * d.line + step * d.step
    if d.step != d.item and n > 1:
        pop_scatter(d.item, source, d.step, stage + d.gather_at, d.item, n)
        source = stage + d.gather_at
    if s.scales != NULL:
        decode_scaled(s, line, step, n, source, to, low, element)
    else:
        (<pop_dot_decode>d.decode)(<const pop_format *>d.format, source, to, low, n)


cdef void lines_to_panels(const Source *s, int64_t line, int64_t lines, int64_t step, int64_t n, char *to, int64_t cols,
                          int64_t pitch, int64_t bytes) noexcept nogil:
    """Decode n elements of lines of the depth to FP32 where they lie: panels of so many columns, so many bytes apart."""
    cdef pop_field_panels panels
    panels.decode, panels.format = <pop_dot_lines>s.side.lines, <const pop_format *>s.side.format
    panels.cols, panels.bytes = cols, bytes
    gather(s, line, lines, step, n, to, pitch, &panels)


cdef bint to_panels(const Source *s, int64_t line, int64_t lines, int64_t step, int64_t n, char *to, int64_t cols,
                    int64_t pitch, int64_t bytes) noexcept nogil:
    """The same, if they are long runs there; say whether they are."""
    if s.lines_are_positions or s.side.copied or not pop_field_in_runs(s.field, s.side.item):
        return False
    lines_to_panels(s, line, lines, step, n, to, cols, pitch, bytes)
    return True


cdef inline int64_t lines_in_turn(const Source *s) noexcept nogil:
    """Positions of a field after which the coordinate of its first dimension changes, if so many are gathered at once; else 1."""
    cdef int64_t d, lines = 1
    if s.lines_are_positions:
        for d in range(1, s.field.rank):
            lines *= s.field.dims[d].positions
    return lines if lines <= GATHERED_LINES else 1


cdef void decode_field(const Source *s, int64_t line, int64_t lines, int64_t step, int64_t n, char *to, char *low,
                       int64_t pitch, char *stage) noexcept nogil:
    """Decode n elements of each line of a field's matrix."""
    cdef const Side *d = s.side
    cdef int64_t i = 0, j, some, length = rounded(n * d.item, 64), turn
    if d.copied:
        gather(s, line, lines, step, n, to, pitch)
        return
    turn = lines_in_turn(s)
    while i < lines:  # whole turns are gathered the fastest
        some = smaller(GATHERED_LINES // turn * turn - (s.first_line + line + i) % turn, lines - i)
        gather(s, line + i, some, step, n, stage + d.gather_at, length)
        i += some
        if d.lines:
            (<pop_dot_lines>d.lines)(<const pop_format *>d.format, stage + d.gather_at, length, some, to, pitch, n)
            to += some * pitch
            continue
        for j in range(some):  # each in two parts
            (<pop_dot_decode>d.decode)(<const pop_format *>d.format, stage + d.gather_at + j * length, to,
                                       low, n)
            to += pitch
            low += pitch if low != NULL else 0


cdef void pack_rows(const Spec *p, const Source *s, int64_t line, int64_t lines, int64_t k, int64_t depth, char *to,
                    int64_t low, int64_t pitch, char *stage) noexcept nogil:
    """Lines along the depth stay lines along the depth, padded with zeros to the kernel's grain."""
    cdef int64_t r, element = 4 // p.elements
    cdef int64_t padding = (rounded(depth, p.depth_grain) - depth) * element
    cdef bint at_once = s.field == NULL and s.side.lines and s.side.step == s.side.item
    if at_once:
        (<pop_dot_lines>s.side.lines)(<const pop_format *>s.side.format, s.base + line * s.side.line + k * s.side.step,
                                      s.side.line, lines, to, pitch, depth)
    if s.field != NULL:
        decode_field(s, line, lines, k, depth, to, to + low if low else NULL, pitch, stage)
    for r in range(lines):
        if s.field == NULL and s.side.step == s.side.item and not (p.look_ahead and s.side == &p.a):
            # the same part of the block after this one
            pop_prefetch_l2_lines(<uintptr_t>s.base + <uintptr_t>((line + lines + r) * s.side.line + k * s.side.step),
                                  depth * s.side.item)
        if s.field == NULL and not at_once:
            decode_line(s, line + r, k, depth, to, to + low if low else NULL, element, stage)
        if padding:
            memset(to + depth * element, 0, padding)
            if low:
                memset(to + low + depth * element, 0, padding)
        to += pitch


cdef char *stage_line(const Source *s, int64_t k, int64_t end, int64_t step, int64_t width, char *to, char *stage,
                      const char *gathered) noexcept nogil:
    """A BF16 line of the depth, or zeros beyond its end; a field's is gathered already. Returns where it is."""
    cdef const Side *d = s.side
    cdef int64_t low = d.stage_low
    if k >= end:
        memset(to, 0, 2 * width)
        if low:
            memset(to + low, 0, 2 * width)
    elif s.field == NULL and d.copied and d.step == d.item and s.scales == NULL:
        return <char *>s.base + k * d.line + step * d.step
    elif s.field == NULL:
        decode_line(s, k, step, width, to, to + low if low else NULL, 2, stage)
    elif d.copied:
        return <char *>gathered
    else:
        (<pop_dot_decode>d.decode)(<const pop_format *>d.format, gathered, to, to + low if low else NULL, width)
    return to


cdef inline const char *line_of_codes(const Source *s, int64_t k, int64_t end, int64_t step, int64_t width, char *to,
                                      const char *gathered) noexcept nogil:
    """A line's codes, one after another, or zeros' beyond the depth's end. Returns where they are."""
    cdef const Side *d = s.side
    if k >= end:
        memset(to, 0, width)
        return to
    if s.field != NULL:
        return gathered
    if d.step == d.item or width == 1:
        return s.base + k * d.line + step * d.step
    pop_scatter(d.item, s.base + k * d.line + step * d.step, d.step, to, d.item, width)
    return to


cdef void pack_lines(const Spec *p, const Source *s, int64_t k, int64_t depth, int64_t step, int64_t width, char *to,
                     int64_t low, int64_t pitch, char *stage) noexcept nogil:
    """Lines across the width become lines of cells: one of FP32, two of BF16 interleaved."""
    cdef int64_t i, stage_low = s.side.stage_low, length = rounded(width * s.side.item, 64)
    cdef char *even = stage
    cdef char *odd = stage + rounded(2 * width, 64)
    cdef char *first
    cdef char *second
    cdef const char *gathered = stage + s.side.gather_at
    if p.elements == 1 and s.field != NULL:
        if not to_panels(s, k, depth, step, width, to, width, pitch, 0):
            decode_field(s, k, depth, step, width, to, NULL, pitch, stage)
        return
    if p.elements == 1:
        for i in range(depth):
            decode_line(s, k + i, step, width, to + i * pitch, NULL, 4, stage)
        return
    for i in range(0, rounded(depth, p.depth_grain), 2):
        if s.field != NULL and i % GATHERED_LINES == 0 and i < depth:
            gathered = stage + s.side.gather_at
            gather(s, k + i, smaller(GATHERED_LINES, depth - i), step, width, <char *>gathered, length)
        if s.side.pair:
            (<pop_dot_pair>s.side.pair)(<const pop_format *>s.side.format,
                                        line_of_codes(s, k + i, k + depth, step, width, even, gathered),
                                        line_of_codes(s, k + i + 1, k + depth, step, width, odd, gathered + length),
                                        <uint16_t *>to, width)
            gathered += 2 * length
            to += pitch
            continue
        first = stage_line(s, k + i, k + depth, step, width, even, stage, gathered)
        second = stage_line(s, k + i + 1, k + depth, step, width, odd, stage, gathered + length)
        interleave(p, first, second, to, width)
        if low:
            interleave(p, even + stage_low, odd + stage_low, to + low, width)
        gathered += 2 * length
        to += pitch


cdef inline void interleave(const Spec *p, char *even, char *odd, char *to, int64_t width) noexcept nogil:
    (<pop_dot_interleave>p.interleave)(<uint16_t *>even, <uint16_t *>odd, <uint16_t *>to, width)


cdef void pack_transposed(const Spec *p, const Source *s, int64_t line, int64_t width, int64_t k, int64_t depth,
                          char *to, int64_t low, int64_t pitch, char *stage) noexcept nogil:
    """Lines along the depth become lines of cells across the width, sixteen at a time."""
    cdef int64_t j, lines, cells = rounded(depth, p.depth_grain) // p.elements, length = 4 * cells
    cdef int64_t stage_low = s.side.stage_low
    for j in range(0, width, 16):
        lines = smaller(16, width - j)
        pack_rows(p, s, line + j, lines, k, depth, stage, stage_low, length, stage)
        (<pop_dot_transpose>p.transpose)(stage, length, lines, cells, to + 4 * j, pitch)
        if low:
            (<pop_dot_transpose>p.transpose)(stage + stage_low, length, lines, cells, to + low + 4 * j, pitch)


cdef void pack_across(const Spec *p, const Source *s, int64_t k, int64_t depth, int64_t step, int64_t width, char *to,
                      int64_t low, int64_t pitch, char *stage) noexcept nogil:
    """Lines across the width become rows of cells along the depth: 16 of them, through a square of cells each."""
    cdef int64_t i, j, part, cells = rounded(depth, p.depth_grain) // p.elements
    cdef char square[2048]
    for j in range(0, width, 16):
        for i in range(0, cells, 16):
            pack_lines(p, s, k + i * p.elements, smaller(16 * p.elements, depth - i * p.elements), step + j,
                       smaller(16, width - j), square, 1024 if low else 0, 64, stage)
            for part in range(2 if low else 1):
                (<pop_dot_transpose>p.transpose)(square + 1024 * part, 64, smaller(16, cells - i), smaller(16, width - j),
                                                 to + j * pitch + 4 * i + part * low, pitch)


cdef inline void pack_panel(const Spec *p, const Source *s, int64_t col, int64_t width, int64_t k, int64_t depth, char *to,
                            char *stage) noexcept nogil:
    """Lines of cells across as many columns as the kernel takes at once."""
    if p.b.mode == POP_MODE_LINES:
        pack_lines(p, s, k, depth, col, width, to, p.b.low, 4 * p.cols_at_once, stage)
    else:
        pack_transposed(p, s, col, width, k, depth, to, p.b.low, 4 * p.cols_at_once, stage)


cdef void pack_wide(const Spec *p, const Source *s, int64_t col, int64_t cols, int64_t k, int64_t depth, char *to,
                    char *stage, int64_t lines) noexcept nogil:
    """Panels of FP32 cells of a field's lines, gathered across all of them: long runs are copied the fastest."""
    cdef const Side *d = s.side
    cdef int64_t i, j, some, length = rounded(cols * d.item, 64), cell = 4 * p.cols_at_once
    if to_panels(s, k, depth, col, cols, to, p.cols_at_once, cell, depth * cell):
        return
    for i from 0 <= i < depth by lines:
        some = smaller(lines, depth - i)
        gather(s, k + i, some, col, cols, stage + d.gather_at, length)
        for j from 0 <= j < cols by p.cols_at_once:
            (<pop_dot_lines>d.lines)(<const pop_format *>d.format, stage + d.gather_at + j * d.item, length, some,
                                     to + 4 * j * depth + i * cell, cell, smaller(p.cols_at_once, cols - j))


cdef inline bint copied_lines(const Spec *p, const Source *s) noexcept nogil:
    """Whether lines of panels are parts of lines as they lie, so short that lines of all panels are better read together."""
    return p.b.mode == POP_MODE_LINES and p.elements == p.depth_grain == 1 and p.cols_at_once == SHORT_LINE and (
        s.field == NULL and s.side.copied and s.side.step == 4 and s.scales == NULL)


cdef void copy_lines(const Spec *p, const Source *s, int64_t col, int64_t cols, int64_t k, int64_t depth, char *to,
                     int64_t panel) noexcept nogil:
    """Copy some lines to all panels, so many bytes apart, then the next ones: lines of the operand lie far apart."""
    cdef int64_t i, j, r, some
    cdef const char *source
    cdef char *line
    for i from 0 <= i < depth by LINES_AT_ONCE:
        some = smaller(LINES_AT_ONCE, depth - i)
        for j from 0 <= j < cols by SHORT_LINE:
            source = s.base + (k + i) * s.side.line + 4 * (col + j)
            line = to + j // SHORT_LINE * panel + 4 * i * SHORT_LINE
            for r in range(some):
                if cols - j >= SHORT_LINE:
                    memcpy(line, source, 4 * SHORT_LINE)
                else:
                    memcpy(line, source, 4 * (cols - j))
                source += s.side.line
                line += 4 * SHORT_LINE


cdef void pack_b(const Spec *p, const Source *s, int64_t col, int64_t cols, int64_t k, int64_t depth, char *to,
                 char *stage) noexcept nogil:
    """Panels, one after another."""
    cdef int64_t j, cells = rounded(depth, p.depth_grain) // p.elements
    # lines of all columns that the stage has room for, which is made for those of a panel
    cdef int64_t lines = GATHERED_LINES * rounded(p.cols_at_once * s.side.item, 64) // rounded(cols * s.side.item, 64)
    if s.field != NULL and p.b.mode == POP_MODE_LINES and cells == depth and p.elements == 1 and not s.side.copied and (
            p.cols_at_once < cols and lines > 0):
        pack_wide(p, s, col, cols, k, depth, to, stage, lines)
        return
    if p.b.mode == POP_MODE_ALONG:
        pack_rows(p, s, col, cols, k, depth, to, p.b.low, 4 * cells, stage)
        return
    if copied_lines(p, s):
        copy_lines(p, s, col, cols, k, depth, to, 4 * depth * SHORT_LINE)
        return
    for j from 0 <= j < cols by p.cols_at_once:
        pack_panel(p, s, col + j, smaller(p.cols_at_once, cols - j), k, depth, to, stage)
        to += 4 * cells * p.cols_at_once
