/* Sums of R rows x NZ vectors in registers: cleared, fed by lines of a block, written. */
#ifndef POP_SPARSE_ROWS_H
#define POP_SPARSE_ROWS_H
#include "formats/codec.h"
#include "kernels/sparse/vector.h"

POP_INLINE void put(float *y, vec v, lanes m, int64_t stream)
{
    if (!pop_v_is_all(m)) pop_v_store_f_some(y, v, m);
    else if (stream && !((uintptr_t)y % sizeof(vec))) pop_v_stream_f(y, v);
    else pop_v_store_f(y, v);
}

/* Vectors one after the other from `y` on, past the caches wherever that is: lines of the caches are put together from two
 * vectors each, what is less than a line at both ends is stored as usual. NumPy's large arrays begin 16 bytes off a line. */
typedef struct line_writer {
    float *line; /* where the next one begins */
    vec left;
    int64_t off; /* floats from it to the next vector */
    int begun;
} line_writer;

POP_INLINE int can_write_lines(const float *y, int64_t columns, int64_t y_row, int64_t stream)
{
    return POP_LEVEL >= POP_LEVEL_AVX512 && stream && columns == y_row && columns % VL == 0 && (uintptr_t)y % 4 == 0;
}

#if POP_LEVEL >= POP_LEVEL_AVX512
POP_INLINE line_writer lines_from(float *y)
{
    const int64_t off = (int64_t)((uintptr_t)y % 64) / 4;
    return (line_writer){.line = y - off, .off = off};
}

POP_INLINE __m512 whole_line(const line_writer *w, vec right)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_permutex2var_ps(w->left, _mm512_add_epi32(lane, _mm512_set1_epi32((int32_t)(VL - w->off))), right);
}

POP_INLINE void write_vector(line_writer *w, vec v)
{
    if (w->begun || !w->off) _mm512_stream_ps(w->line, whole_line(w, v));
    else _mm512_mask_storeu_ps(w->line, (__mmask16)(0xffffu << w->off), whole_line(w, v));
    w->line += VL;
    w->left = v;
    w->begun = 1;
}

POP_INLINE void end_lines(const line_writer *w)
{
    if (w->begun) _mm512_mask_storeu_ps(w->line, (__mmask16)((1u << w->off) - 1), whole_line(w, w->left));
}
#else
POP_INLINE line_writer lines_from(float *y) { return (line_writer){.line = y}; }
POP_INLINE void write_vector(line_writer *w, vec v) { (void)w, (void)v; }
POP_INLINE void end_lines(const line_writer *w) { (void)w; }
#endif

/* NZ vectors of a step. WHOLE: the last one is not masked. Two rows become pairs whose columns lie in the order 0-3, 8-11, ...
 * and 4-7, 12-15, ...: `put_interleaved` undoes it. */
POP_INLINE void load_line(const int NZ, const int WHOLE, const int kind, const char *x, int64_t ldx, lanes m, vec v[8])
{
    const int64_t bytes = VL * pop_x_bytes(kind);
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (kind == POP_X_ROWS) {
        __m512i even = _mm512_loadu_si512(x), odd = _mm512_loadu_si512(x + ldx);
        POP_IN_REGISTER(odd); /* GCC would load it twice */
        v[0] = (vec)_mm512_unpacklo_epi16(even, odd);
        v[1] = (vec)_mm512_unpackhi_epi16(even, odd);
        return;
    }
#endif
    (void)ldx;
#pragma GCC unroll 8
    for (int z = 0; z < NZ; z++)
        v[z] = WHOLE || z < NZ - 1 ? pop_load(kind, x + z * bytes) : pop_load_some(kind, x + z * bytes, m);
}

#if POP_LEVEL == POP_LEVEL_AVX2
/* A number times three vectors, added to a row of sums. Four rows of them, the vectors and the number are all registers there are: GCC
 * would read numbers of other rows before, and keep a sum in memory. */
POP_INLINE void add_number(const char *w, const vec v[8], vec sums[8])
{
    typedef float anywhere __attribute__((aligned(1), may_alias));
    vec number;
    __asm__("vbroadcastss %[w], %[number]\n\t"
            "vfmadd231ps %[v0], %[number], %[s0]\n\t"
            "vfmadd231ps %[v1], %[number], %[s1]\n\t"
            "vfmadd231ps %[v2], %[number], %[s2]"
            : [s0] "+x"(sums[0]), [s1] "+x"(sums[1]), [s2] "+x"(sums[2]), [number] "=&x"(number)
            : [w] "m"(*(const anywhere *)(const void *)w), [v0] "x"(v[0]), [v1] "x"(v[1]), [v2] "x"(v[2]));
}
#endif

/* STEP lines of a block, added to R rows x NZ vectors of sums; the next line of X. WHOLE: no vector is masked. */
POP_INLINE const char *add_lines(const int R, const int NZ, const int STEP, const int WHOLE, const int kind,
                                 const char *w, int64_t down, int64_t along, const char *x, int64_t ldx, lanes m,
                                 vec acc[8][8])
{
    int64_t three = 3 * down;
    if (R > 3) POP_KEPT(three);
#pragma GCC unroll 4
    for (int k = 0; k < STEP; k++, w += along) {
        vec v[8];
        load_line(NZ, WHOLE, kind, x, ldx, m, v);
        x += pop_x_rows(kind) * ldx;
        POP_KEPT(x);
#pragma GCC unroll 8
        for (int i = 0; i < R; i++) {
            const char *const four = i < 4 ? w : w + 4 * down, *const at = i % 4 == 3 ? four + three : four + i % 4 * down;
#if POP_LEVEL == POP_LEVEL_AVX2
            if (R == 4 && NZ == 3) {
                add_number(at, v, acc[i]);
                continue;
            }
#endif
            const vec b = pop_broadcast(at);
#pragma GCC unroll 8
            for (int z = 0; z < NZ; z++) acc[i][z] = pop_add_product(kind, b, v[z], acc[i][z]);
        }
    }
    return x;
}

POP_INLINE void clear_rows(const int R, const int NZ, vec acc[8][8])
{
#pragma GCC unroll 8
    for (int i = 0; i < R; i++)
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++) acc[i][z] = (vec){0};
}

/* Sums rounded to nearest even, FP16 or BF16. The instruction that makes BF16 knows no subnormal numbers, and sums of
 * VDPBF16PS are none. */
POP_INLINE void put_half(const int to_bf16, char *y, vec v, lanes m)
{
    if (!to_bf16) {
        pop_v_is_all(m) ? pop_v_store_f16(y, v) : pop_v_store_f16_some(y, v, m);
        return;
    }
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    _mm256_mask_storeu_epi16(y, m, (__m256i)_mm512_cvtneps_pbh((__m512)v));
#else
    const pop_v_i codes = pop_v_to_code(&POP_BF16, POP_NEAREST_EVEN, POP_OVERFLOW_INFINITY, v, (pop_v_i){0});
    pop_v_is_all(m) ? pop_v_store(y, 2, codes) : pop_v_store_some(y, 2, codes, m);
#endif
}

/* R rows of two vectors of sums of interleaved columns. */
POP_INLINE void put_interleaved(const int R, int64_t y_format, float *y, int64_t y_row, int64_t stream, vec acc[8][8])
{
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    const __m512i order = _mm512_set_epi16(31, 30, 29, 28, 15, 14, 13, 12, 27, 26, 25, 24, 11, 10, 9, 8,
                                           23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
    char *line = (char *)y;
#pragma GCC unroll 8
    for (int i = 0; i < R; i++) {
        const __m512 low = (__m512)acc[i][0], high = (__m512)acc[i][1];
        if (y_format == POP_IS_BF16) {
            _mm512_storeu_si512(line, _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low)));
            line += 2 * y_row;
            continue;
        }
        const __m512i front = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
        const vec a = (vec)_mm512_permutex2var_ps(low, front, high);
        const vec b = (vec)_mm512_permutex2var_ps(low, _mm512_add_epi32(front, _mm512_set1_epi32(8)), high);
        const int64_t bytes = y_format == POP_IS_F32 ? 4 : 2;
        for (int half = 0; half < 2; half++) {
            if (bytes == 2) put_half(0, line + 2 * VL * half, half ? b : a, pop_v_first(VL));
            else put((float *)line + VL * half, half ? b : a, pop_v_first(VL), stream);
        }
        line += bytes * y_row;
    }
#else
    (void)R, (void)y_format, (void)y, (void)y_row, (void)stream, (void)acc;
#endif
}

POP_INLINE void put_halves(const int R, const int NZ, const int to_bf16, char *y, int64_t y_row, lanes m, vec acc[8][8])
{
#pragma GCC unroll 8
    for (int i = 0; i < R; i++, y += 2 * y_row)
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++) put_half(to_bf16, y + 2 * z * VL, acc[i][z], z < NZ - 1 ? pop_v_first(VL) : m);
}

/* WHOLE: no vector is masked, and `m` has all lanes. */
POP_INLINE void put_rows(const int R, const int NZ, const int WHOLE, int64_t y_format, float *y, int64_t y_row, lanes m,
                         int64_t stream, vec acc[8][8])
{
    if (y_format != POP_IS_F32) {
        if (y_format == POP_IS_BF16) put_halves(R, NZ, 1, (char *)y, y_row, m, acc);
        else put_halves(R, NZ, 0, (char *)y, y_row, m, acc);
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; i++, y += y_row)
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++) {
            if (!WHOLE) put(y + z * VL, acc[i][z], z < NZ - 1 ? pop_v_first(VL) : m, stream);
            else if (stream) pop_v_stream_f(y + z * VL, acc[i][z]);
            else pop_v_store_f(y + z * VL, acc[i][z]);
        }
}
#endif
