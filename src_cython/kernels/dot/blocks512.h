/* A block of C in AVX-512 registers, for cells that POP_STEP(sum, one, line) multiplies and adds. Included once for each kind of
 * cell, with POP_KIND its name.
 *
 * The line form keeps rows x vectors of C. Each step loads 1 to 8 vectors of a line of B and broadcasts one cell of A per
 * row: 6 x 64 takes 10 loads for 24 multiply-adds, so both units stay full whatever A's pitch (Zen 5: 285 of 286
 * GFLOP/s in FP32 for 6 x 64 and 8 x 48, even with rows 16 KiB apart). More than 8 rows find no registers for their
 * addresses, and more than 12 that lie 4 KiB apart no room in the first-level cache: with 16 columns 14 rows reach 0.7 to
 * 0.9 of what 8 do in FP32, though VDPBF16PS, of longer latency, wants their sums. In FP32 every element is one chain
 * fma(a, b, c) in ascending depth, so its bits equal the portable kernel's.
 */
#include <immintrin.h>

#define POP_NAME(name) POP_JOIN(POP_JOIN(name, _), POP_KIND)

POP_INLINE __m512 POP_NAME(pop_one)(const char *cell)
{
    int32_t bits;
    memcpy(&bits, cell, 4);
    return _mm512_castsi512_ps(_mm512_set1_epi32(bits));
}

/* What GCC is to keep in a register: it would keep an address for each row, more than there are, in vector registers, and what
 * comes from there waits in line behind the products. */
#define POP_KEPT(p) __asm__("" : "+r"(p))

/* Write sums, or round them to BF16 where that is asked for. */
POP_INLINE void POP_NAME(pop_lines_put)(const int rows, const int vectors, const pop_dot_block *t, __mmask16 last, __m512 sum[14][8])
{
    const int64_t to_row = t->c_row;
#ifdef POP_NARROW
    if (t->narrow) {
        uint16_t *to = (uint16_t *)(void *)t->c;
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++, to += to_row) {
            POP_KEPT(to);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) POP_NARROW(to + 16 * v, v + 1 < vectors ? 0xffff : last, sum[r][v]);
        }
        return;
    }
#endif
    float *to = t->c;
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++, to += to_row) {
        POP_KEPT(to);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) _mm512_mask_storeu_ps(to + 16 * v, v + 1 < vectors ? 0xffff : last, sum[r][v]);
    }
}

POP_INLINE void POP_NAME(pop_lines)(const int rows, const int vectors, const pop_dot_block *t, __mmask16 last)
{
    __m512 sum[14][8];
    static const float none[128];
    const float *from = t->accumulate ? t->c : none;
    const int64_t from_row = t->accumulate ? t->c_row : 0, row = t->a_row;
    volatile pop_dot_ahead left;
    pop_dot_ahead_open(t, &left);
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++, from += from_row) {
        POP_KEPT(from);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_maskz_loadu_ps(v + 1 < vectors ? 0xffff : last, from + 16 * v);
    }
    for (int64_t run = 0;; run++) {
        const char *a[5], *b = t->b + (run ? t->b_at[run - 1] : 0); /* three rows to an address */
#pragma GCC unroll 5
        for (int i = 0; 3 * i < rows; i++) a[i] = t->a + (run ? t->a_at[run - 1] : 0) + 3 * i * row;
        for (int64_t k = t->cells, some; k > 0; k -= some) {
            some = k;
            if (t->a_next_rows | t->c_next_rows) {
                pop_dot_ahead_step(t, &left);
                some = k < 16 ? k : 16;
            }
            int64_t n = some;
            do {
                __m512 line[8];
#pragma GCC unroll 8
                for (int v = 0; v < vectors; v++)
                    line[v] = _mm512_maskz_loadu_ps(v + 1 < vectors ? 0xffff : last, (const float *)b + 16 * v);
#pragma GCC unroll 14
                for (int r = 0; r < rows; r++) {
                    const __m512 one = POP_NAME(pop_one)(a[r / 3] + r % 3 * row);
#pragma GCC unroll 8
                    for (int v = 0; v < vectors; v++) sum[r][v] = POP_STEP(sum[r][v], one, line[v]);
                }
#pragma GCC unroll 5
                for (int i = 0; 3 * i < rows; i++) {
                    a[i] += t->a_cell;
                    POP_KEPT(a[i]);
                }
                b += t->b_cell;
                POP_KEPT(b);
            } while (--n > 0);
        }
        if (run >= t->more) break;
    }
    POP_NAME(pop_lines_put)(rows, vectors, t, last, sum);
}

#define POP_BODY(R, V) \
    static void POP_NAME(pop_lines_##R##_##V)(const pop_dot_block *t, __mmask16 last) \
    { \
        POP_NAME(pop_lines)(R, V, t, last); \
    }
#define POP_BODIES2(R) POP_BODY(R, 1) POP_BODY(R, 2)
#define POP_BODIES3(R) POP_BODIES2(R) POP_BODY(R, 3)
#define POP_BODIES4(R) POP_BODIES3(R) POP_BODY(R, 4)
#define POP_BODIES8(R) POP_BODIES4(R) POP_BODY(R, 5) POP_BODY(R, 6) POP_BODY(R, 7) POP_BODY(R, 8)
POP_BODIES8(1) POP_BODIES8(2) POP_BODIES4(3) POP_BODIES4(4) POP_BODIES4(5) POP_BODIES4(6) POP_BODIES3(7)
POP_BODIES3(8) POP_BODIES2(9) POP_BODIES2(10) POP_BODIES2(11) POP_BODIES2(12) POP_BODIES2(13) POP_BODIES2(14)

/* The bodies by vectors, then rows. */
#define POP_ROW(R, V) POP_NAME(pop_lines_##R##_##V)
#define POP_ROWS2(V) POP_ROW(1, V), POP_ROW(2, V)
#define POP_ROWS6(V) POP_ROWS2(V), POP_ROW(3, V), POP_ROW(4, V), POP_ROW(5, V), POP_ROW(6, V)
#define POP_ROWS8(V) POP_ROWS6(V), POP_ROW(7, V), POP_ROW(8, V)
#define POP_ROWS14(V) POP_ROWS8(V), POP_ROW(9, V), POP_ROW(10, V), POP_ROW(11, V), POP_ROW(12, V), POP_ROW(13, V), \
    POP_ROW(14, V)
static void (*const POP_NAME(POP_LINE_BODIES)[8][14])(const pop_dot_block *, __mmask16) = {
    {POP_ROWS14(1)}, {POP_ROWS14(2)}, {POP_ROWS8(3)}, {POP_ROWS6(4)}, {POP_ROWS2(5)}, {POP_ROWS2(6)}, {POP_ROWS2(7)},
    {POP_ROWS2(8)},
};

static void POP_NAME(pop_multiply_lines)(const pop_dot_block *t)
{
    int64_t vectors = (t->cols + 15) / 16;
    POP_NAME(POP_LINE_BODIES)[vectors - 1][t->rows - 1](t, (__mmask16)(0xffffu >> (16 * vectors - t->cols)));
}

#undef POP_KEPT
#undef POP_BODY
#undef POP_BODIES2
#undef POP_BODIES3
#undef POP_BODIES4
#undef POP_BODIES8
#undef POP_ROW
#undef POP_ROWS2
#undef POP_ROWS6
#undef POP_ROWS8
#undef POP_ROWS14
#undef POP_NAME
