/* How fast the inner loop of block-sparse products can go where nothing else is done: no row ends, no packing, no result.
 *
 * A walk meets blocks of R x DEEP values with V vectors of DEEP rows of X, which lie where a list says, G blocks in step so
 * that there are chains enough for the FMA units. Its rate with a real pattern's list and values is what ports, caches and memory
 * leave of the peak. `pop_peak_write` writes past the caches as the products do. */
#ifndef POP_PEAK_WALK_H
#define POP_PEAK_WALK_H
#include "kernels/peak/rows.h"
#include <immintrin.h>

#define POP_WALK_AHEAD 8192 /* bytes of values, which the products prefetch too */

static volatile float pop_walk_sink; /* keeps the compiler from dropping the sums */

POP_INLINE int64_t pop_walk(const int R, const int V, const int DEEP, const int G, const pop_peak_walk *t)
{
    __m512 sums[16][4];
#pragma GCC unroll 16
    for (int i = 0; i < G * R; i++)
#pragma GCC unroll 4
        for (int z = 0; z < V; z++) sums[i][z] = _mm512_setzero_ps();
    const int64_t row = t->x_row, blocks = t->blocks / G * G;
    const float *w = (const float *)t->values;
    for (int64_t q = 0; q < blocks; q += G)
#pragma GCC unroll 8
        for (int g = 0; g < G; g++, w += R * DEEP) {
            const char *x = t->x + t->list[q + g] * DEEP * row;
            for (int o = 0; DEEP > 1 && o < R * DEEP * 4; o += 64)
                pop_prefetch_l2(pop_beyond(w, POP_WALK_AHEAD + o));
#pragma GCC unroll 4
            for (int k = 0; k < DEEP; k++, x += row) {
                __m512 line[4];
#pragma GCC unroll 4
                for (int z = 0; z < V; z++) line[z] = _mm512_loadu_ps(x + 64 * z);
#pragma GCC unroll 8
                for (int i = 0; i < R; i++) {
                    const __m512 b = _mm512_set1_ps(w[i * DEEP + k]);
#pragma GCC unroll 4
                    for (int z = 0; z < V; z++) sums[g * R + i][z] = _mm512_fmadd_ps(b, line[z], sums[g * R + i][z]);
                }
            }
        }
    __m512 all = _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int i = 0; i < G * R; i++)
#pragma GCC unroll 4
        for (int z = 0; z < V; z++) all = _mm512_add_ps(all, sums[i][z]);
    pop_walk_sink = all[0];
    return blocks * R * DEEP * V * 32;
}

#define POP_WALK(R, V, DEEP, G) \
    static int64_t pop_walk_##R##x##V(const pop_peak_walk *t) { return pop_walk(R, V, DEEP, G, t); }
POP_WALK(1, 1, 1, 8)
POP_WALK(1, 4, 1, 4)
POP_WALK(4, 1, 4, 2)
POP_WALK(4, 4, 4, 1)
POP_WALK(8, 1, 4, 1)
POP_WALK(8, 2, 4, 1)
#define POP_WALK_ROW(R, V, DEEP) \
    {"walk", "float32", "walk_" #R "x" #V, POP_FUNCTION(pop_walk_##R##x##V), {R, 16 * V, DEEP}, {R, 16 * V, DEEP}, 0}

/* Whole lines of 64 bytes from an address on such a line. */
static int64_t pop_peak_write(char *to, int64_t bytes)
{
    for (int64_t i = 0; i + 64 <= bytes; i += 64) _mm512_stream_ps((float *)(to + i), _mm512_setzero_ps());
    _mm_sfence();
    return bytes / 64 * 64;
}
#endif
