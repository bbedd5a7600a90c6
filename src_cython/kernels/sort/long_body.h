/* Dealing out a long row, expanded for words of 32 and of 64 bits: see long.h. */

/* The highest bits of words, counted from the least of those that were tried: `top` of as many as a chunk has. */
POP_INLINE void POP_W(tops)(const POP_W_WORD *restrict words, int64_t n, POP_W_WORD least, int shift, uint32_t *restrict tops)
{
    for (int64_t i = 0; i < n; i++) {
        const POP_W_WORD top = (words[i] > least ? words[i] - least : 0) >> shift;
        tops[i] = top < POP_TOPS ? (uint32_t)top : POP_TOPS - 1;
    }
}

/* The least of words here and there; how many of a word's lower bits do not count follows from the greatest. */
static POP_W_WORD POP_W(lowest)(const pop_long *row, int64_t n, int *shift)
{
    POP_W_WORD least = (POP_W_WORD)-1, most = 0, some[4];
    for (int64_t i = 0; i < POP_TRIED; i += 4) {
        row->make(row, n / POP_TRIED * i, 4, some);
        for (int j = 0; j < 4; j++) least = some[j] < least ? some[j] : least, most = some[j] > most ? some[j] : most;
    }
    const int bits = 64 - __builtin_clzll((uint64_t)(most - least) | 1);
    *shift = bits > POP_TOP_BITS ? bits - POP_TOP_BITS : 0;
    return least;
}

/* A row of words in order at `to`; `tmp` has as much room. Words are in order already by their bits below `low`. Numbers that change
 * between the two passes over them give what they give, within the row. */
static void POP_W(long)(const pop_long *row, int64_t n, POP_W_WORD *to, POP_W_WORD *tmp, int low)
{
    int64_t begins[POP_PARTS_MOST + 1], ends[POP_PARTS_MOST];
    uint32_t counts[POP_TOPS] = {0}, tops[POP_CHUNK];
    uint16_t part[POP_TOPS];
    POP_W_WORD chunk[POP_CHUNK];
    int shift;
    const POP_W_WORD least = POP_W(lowest)(row, n, &shift);
    for (int64_t i = 0; i < n; i += POP_CHUNK) {
        const int64_t count = n - i < POP_CHUNK ? n - i : POP_CHUNK;
        row->make(row, i, count, chunk);
        POP_W(tops)(chunk, count, least, shift, tops);
        for (int64_t j = 0; j < count; j++) counts[tops[j]]++;
    }
    const int parts = pop_parts(counts, n, part, begins);
    begins[parts] = n;
    memcpy(ends, begins, (size_t)parts * sizeof *ends);
    for (int64_t i = 0; i < n; i += POP_CHUNK) {
        const int64_t count = n - i < POP_CHUNK ? n - i : POP_CHUNK;
        row->make(row, i, count, chunk);
        POP_W(tops)(chunk, count, least, shift, tops);
        for (int64_t j = 0; j < count; j++) {
            const int64_t at = ends[part[tops[j]]]++;
            to[at < n ? at : n - 1] = chunk[j];
        }
    }
    for (int p = 0; p < parts; p++) {
        const int64_t begin = begins[p], count = begins[p + 1] - begin;
        POP_W_LEAST(to + begin, count, tmp, low);
        if (row->end) row->end(row->s, to + begin, count);
    }
}

/* The same of a row of any length. */
static void POP_W(all)(const pop_long *row, int64_t n, POP_W_WORD *to, POP_W_WORD *tmp, int low)
{
    (void)low;
    if (n * (int64_t)sizeof *to >= POP_LONG_BYTES) {
        POP_W(long)(row, n, to, tmp, low);
        return;
    }
    row->make(row, 0, n, to);
    POP_W_LEAST(to, n, tmp, low);
    if (row->end) row->end(row->s, to, n);
}
