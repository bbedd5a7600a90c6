/* xoroshiro128aox, 55/14/36 (Hanlon and Felix, arXiv 2203.04058), scalar and in sixteen vector lanes, and the "counter"
 * stream that every random bit of the host comes from.
 *
 * The counter stream
 *   The bits at a logical place depend on (seed, modifier, substream, place) alone, never on slices, threads, vector
 *   width or instruction-set level. A row is 16 words of 64 bits, one from each lane: word w of the stream is the
 *   output of lane w mod 16 after w / 16 steps. Read as little-endian memory, the stream is also a sequence of
 *   32-bit and 16-bit words; 32-bit word i belongs to row i / 32.
 *   Everything is one cycle of 2^128 - 1 states, and everything is kept apart by jumps along it:
 *       start          two outputs of splitmix64 from the 64-bit seed: not linear over GF(2), so any seeds will do
 *       modifier m     jump by m * 2^96
 *       substream a    jump by a * 2^80, a < 2^16
 *       lane l         jump by l * 2^64
 *       row r          r steps, so that r < 2^64 rows are free of overlap
 *   A jump by n multiplies by x^n modulo the characteristic polynomial of the state's step; aox_powers.h holds x^(2^k).
 *
 * For kernels that need a random word for element i of an array (stochastic rounding, dropout):
 *       pop_aox stream;
 *       pop_aox_open_cast(&stream, seed);                     the substream of casts
 *       uint32_t words[256];
 *       pop_aox_read(&stream, i, 256, words);                 words of elements i .. i + 255
 *   `pop_aox_read` continues at no cost where the last read ended, else it seeks (a microsecond). Whole rows
 *   (i and n multiples of 32) go straight from registers to memory. Kernels that keep the words in registers load
 *   `pop_aox_lanes`, call `pop_aox_next` for part 0 .. POP_AOX_PARTS - 1 of each row, and store the lanes again.
 *
 * Registers: AVX-512 holds the state in 4, AVX2 in 8. Nine operations make a part. Measured on one Zen 5 core, in
 * cache: AVX-512 70 GB/s, AVX2 26 GB/s, portable (SSE2) 13 GB/s. */
#ifndef POP_RANDOM_AOX_H
#define POP_RANDOM_AOX_H
#include <stdint.h>
#include <string.h>

#include "kernels/abi.h"
#include "aox_powers.h"

#define POP_AOX_LANES 16
#define POP_AOX_ROW_BYTES 128
#define POP_AOX_ROW_WORDS 32 /* 32-bit words of a row */

POP_INLINE uint64_t pop_rotl(uint64_t x, int k) { return x << k | x >> (64 - k); }

/* One step of the generator: the output, then the state moves on. */
POP_INLINE uint64_t pop_aox_scalar(uint64_t *s0, uint64_t *s1)
{
    uint64_t x = *s0 ^ *s1, a = *s0 & *s1;
    *s0 = pop_rotl(*s0, 55) ^ x ^ (x << 14);
    *s1 = pop_rotl(x, 36);
    return x ^ (pop_rotl(a, 1) | pop_rotl(a, 2));
}

/* Jumps: polynomials over GF(2) modulo the characteristic polynomial, bit i the coefficient of x^i. */
typedef unsigned __int128 pop_polynomial;

#define POP_AOX_MODULUS ((pop_polynomial)0x00653ced7f29f88au << 64 | 0x5fd66762f0e1c001u) /* and x^128 */

/* Four bits of `a` at a time. The modulus ends at x^118, so four bits times it do not pass x^127. */
static pop_polynomial pop_aox_multiply(pop_polynomial a, pop_polynomial b)
{
    pop_polynomial times[16] = {0, b}, over[16] = {0, POP_AOX_MODULUS}, r = 0;
    for (int k = 2; k < 16; k++) {
        pop_polynomial doubled = times[k / 2] << 1 ^ (POP_AOX_MODULUS & -(times[k / 2] >> 127));
        times[k] = doubled ^ (k & 1 ? b : 0);
        over[k] = over[k / 2] << 1 ^ (k & 1 ? POP_AOX_MODULUS : 0);
    }
    for (int i = 124; i >= 0; i -= 4) r = r << 4 ^ over[r >> 124] ^ times[a >> i & 15];
    return r;
}

/* x^n. */
static pop_polynomial pop_aox_power(pop_polynomial n)
{
    pop_polynomial r = 0;
    for (int k = 0; k < 128; k++) {
        if (!(n >> k & 1)) continue;
        pop_polynomial factor = (pop_polynomial)POP_AOX_POWERS[k][1] << 64 | POP_AOX_POWERS[k][0];
        r = r ? pop_aox_multiply(r, factor) : factor;
    }
    return r ? r : 1;
}

static void pop_aox_jump(pop_polynomial steps, uint64_t *s0, uint64_t *s1)
{
    if (steps < 32) { /* sooner done than leapt */
        for (; steps; steps--) pop_aox_scalar(s0, s1);
        return;
    }
    pop_polynomial jump = pop_aox_power(steps);
    uint64_t a = *s0, b = *s1, c = 0, d = 0;
    for (int i = 0; i < 128; i++) {
        uint64_t take = -(uint64_t)(jump >> i & 1);
        c ^= a & take;
        d ^= b & take;
        pop_aox_scalar(&a, &b);
    }
    *s0 = c;
    *s1 = d;
}

POP_INLINE uint64_t pop_splitmix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Vector lanes. The compiler splits nothing: a vector is one register of the level. */
#if POP_LEVEL >= POP_LEVEL_AVX512
#include <immintrin.h>
#define POP_AOX_BYTES 64
#elif POP_LEVEL >= POP_LEVEL_AVX2
#define POP_AOX_BYTES 32
#else
#define POP_AOX_BYTES 16
#endif
#define POP_AOX_PARTS (POP_AOX_ROW_BYTES / POP_AOX_BYTES)
#define POP_AOX_WIDTH (POP_AOX_BYTES / 8)

typedef uint64_t pop_aox_v __attribute__((vector_size(POP_AOX_BYTES)));

/* The counter stream at one place. */
typedef struct pop_aox {
    uint64_t s0[POP_AOX_LANES], s1[POP_AOX_LANES];
    uint64_t row;            /* the row that comes next */
    uint64_t start[2];       /* row 0, and how each lane lies to it: see aox_powers.h */
    const uint16_t *fan_out;
} __attribute__((aligned(64))) pop_aox;

/* Add a word to the lanes that bits name. */
POP_INLINE void pop_aox_take(pop_aox_v sums[POP_AOX_PARTS], uint64_t lanes, uint64_t word)
{
#pragma GCC unroll 8
    for (int part = 0; part < POP_AOX_PARTS; part++) {
#if POP_LEVEL >= POP_LEVEL_AVX512
        __m512i sum = (__m512i)sums[part];
        sums[part] = (pop_aox_v)_mm512_mask_xor_epi64(sum, (__mmask8)(lanes >> 8 * part), sum,
                                                      _mm512_set1_epi64((long long)word));
#else
        pop_aox_v lane;
        for (int l = 0; l < POP_AOX_WIDTH; l++) lane[l] = (uint64_t)(part * POP_AOX_WIDTH + l);
        sums[part] ^= -((((pop_aox_v){0} + lanes) >> lane) & 1) & word;
#endif
    }
}

/* Each lane starts a jump on: sums of the first 128 states, each taken by the lanes that its bits name. */
static void pop_aox_seek(pop_aox *g, uint64_t row)
{
    uint64_t s0 = g->start[0], s1 = g->start[1];
    pop_aox_v c[POP_AOX_PARTS] = {{0}}, d[POP_AOX_PARTS] = {{0}};
    g->row = row;
    pop_aox_jump(row, &s0, &s1);
    for (int i = 0; i < 128; i++) {
        pop_aox_take(c, g->fan_out[i], s0);
        pop_aox_take(d, g->fan_out[i], s1);
        pop_aox_scalar(&s0, &s1);
    }
    memcpy(g->s0, c, sizeof c);
    memcpy(g->s1, d, sizeof d);
}

/* Lane 0 at row 0. */
static void pop_aox_start(uint64_t start[2], uint64_t seed, uint32_t modifier)
{
    start[0] = pop_splitmix(&seed);
    start[1] = pop_splitmix(&seed);
    pop_aox_jump((pop_polynomial)modifier << 96, start, start + 1);
}

/* The substream `ahead` of the one that starts there. */
static void pop_aox_resume(pop_aox *g, const uint64_t start[2], uint32_t ahead, uint64_t row)
{
    memcpy(g->start, start, sizeof g->start);
    g->fan_out = POP_AOX_FAN_OUT;
    pop_aox_jump((pop_polynomial)ahead << 80, g->start, g->start + 1);
    pop_aox_seek(g, row);
}

/* The substream of casts; the first read seeks, at the level of whoever reads. The jump to it is part of the lanes': by
 * itself it would be most of a small cast. */
static void pop_aox_open_cast(pop_aox *g, uint64_t seed)
{
    pop_aox_start(g->start, seed, 0);
    g->fan_out = POP_AOX_CAST_FAN_OUT;
    g->row = UINT64_MAX;
}

typedef struct pop_aox_lanes {
    pop_aox_v s0[POP_AOX_PARTS], s1[POP_AOX_PARTS];
} pop_aox_lanes;

POP_INLINE pop_aox_lanes pop_aox_load(const pop_aox *g)
{
    pop_aox_lanes v;
    memcpy(v.s0, g->s0, sizeof v.s0);
    memcpy(v.s1, g->s1, sizeof v.s1);
    return v;
}

/* Put the lanes back after `rows` rows. */
POP_INLINE void pop_aox_store(pop_aox *g, const pop_aox_lanes *v, uint64_t rows)
{
    memcpy(g->s0, v->s0, sizeof v->s0);
    memcpy(g->s1, v->s1, sizeof v->s1);
    g->row += rows;
}

/* Bytes part * POP_AOX_BYTES and on of the next row; that part of the lanes moves on. */
POP_INLINE pop_aox_v pop_aox_next(pop_aox_lanes *v, int part)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    __m512i s0 = (__m512i)v->s0[part], s1 = (__m512i)v->s1[part];
    __m512i x = _mm512_xor_si512(s0, s1), a = _mm512_and_si512(s0, s1);
    v->s0[part] = (pop_aox_v)_mm512_ternarylogic_epi64(_mm512_rol_epi64(s0, 55), x, _mm512_slli_epi64(x, 14), 0x96);
    v->s1[part] = (pop_aox_v)_mm512_rol_epi64(x, 36);
    return (pop_aox_v)_mm512_ternarylogic_epi64(x, _mm512_rol_epi64(a, 1), _mm512_rol_epi64(a, 2), 0x1e);
#else
    pop_aox_v s0 = v->s0[part], x = s0 ^ v->s1[part], a = s0 & v->s1[part];
    v->s0[part] = (s0 << 55 | s0 >> 9) ^ x ^ (x << 14);
    v->s1[part] = x << 36 | x >> 28;
    return x ^ ((a << 1 | a >> 63) | (a << 2 | a >> 62));
#endif
}

/* The next `rows` rows, 128 bytes each, at `out` (any alignment). */
POP_INLINE void pop_aox_rows(pop_aox *g, int64_t rows, void *out)
{
    pop_aox_lanes v = pop_aox_load(g);
    char *p = (char *)out;
    for (int64_t r = 0; r < rows; r++, p += POP_AOX_ROW_BYTES) {
#pragma GCC unroll 8
        for (int part = 0; part < POP_AOX_PARTS; part++) {
            pop_aox_v word = pop_aox_next(&v, part);
            memcpy(p + part * POP_AOX_BYTES, &word, POP_AOX_BYTES);
        }
    }
    pop_aox_store(g, &v, (uint64_t)rows);
}

/* The 32-bit words first .. first + n - 1 of the stream. */
static void pop_aox_read(pop_aox *g, int64_t first, int64_t n, uint32_t *words)
{
    uint64_t row = (uint64_t)first / POP_AOX_ROW_WORDS;
    int64_t skip = first % POP_AOX_ROW_WORDS;
    if (n <= 0) return;
    if (row != g->row) pop_aox_seek(g, row);
    while (n > 0) {
        if (skip == 0 && n >= POP_AOX_ROW_WORDS) {
            int64_t rows = n / POP_AOX_ROW_WORDS;
            pop_aox_rows(g, rows, words);
            words += rows * POP_AOX_ROW_WORDS;
            n -= rows * POP_AOX_ROW_WORDS;
        } else {
            uint32_t row_words[POP_AOX_ROW_WORDS];
            pop_aox before = *g;
            int64_t take = POP_AOX_ROW_WORDS - skip < n ? POP_AOX_ROW_WORDS - skip : n;
            pop_aox_rows(g, 1, row_words);
            memcpy(words, row_words + skip, (size_t)take * 4);
            if (skip + take < POP_AOX_ROW_WORDS) *g = before; /* the rest of this row may be read next */
            words += take;
            n -= take;
            skip = 0;
        }
    }
}
#endif
