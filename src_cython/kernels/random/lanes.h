/* The vocabulary of the distributions: vectors of float and of 32-bit words as wide as one part of the generator's row.
 *
 * Almost everything is written with the compiler's vector types, so a distribution is one source for every level.
 * Products and sums are rounded one by one (the build forbids contraction), and no operation here is approximate:
 * all levels give the same bits. Only what the vector types cannot say is spelled for each level below. */
#ifndef POP_RANDOM_LANES_H
#define POP_RANDOM_LANES_H
#include "kernels/convert.h"
#include "kernels/random/aox.h"

#define POP_R_LANES (POP_AOX_BYTES / 4) /* 32-bit lanes of a part */

typedef float pop_r_f __attribute__((vector_size(POP_AOX_BYTES)));
typedef int32_t pop_r_i __attribute__((vector_size(POP_AOX_BYTES)));
typedef uint32_t pop_r_u __attribute__((vector_size(POP_AOX_BYTES)));
typedef int16_t pop_r_i16 __attribute__((vector_size(POP_AOX_BYTES / 2)));
typedef int8_t pop_r_i8 __attribute__((vector_size(POP_AOX_BYTES / 4)));

#define POP_R_SET(type, x) ((type){0} + (x))

/* Non-negative words below 2^31 to float, to nearest even. */
POP_INLINE pop_r_f pop_r_float(pop_r_u word) { return __builtin_convertvector((pop_r_i)word, pop_r_f); }

/* a where the mask is -1, b where it is 0. */
POP_INLINE pop_r_f pop_r_select(pop_r_i mask, pop_r_f a, pop_r_f b)
{
    return (pop_r_f)((mask & (pop_r_i)a) | (~mask & (pop_r_i)b));
}

#if POP_LEVEL >= POP_LEVEL_AVX512
POP_INLINE pop_r_f pop_r_min(pop_r_f a, pop_r_f b) { return (pop_r_f)_mm512_min_ps((__m512)a, (__m512)b); }
POP_INLINE pop_r_f pop_r_max(pop_r_f a, pop_r_f b) { return (pop_r_f)_mm512_max_ps((__m512)a, (__m512)b); }
/* table[index mod 32] in two registers of sixteen */
POP_INLINE pop_r_f pop_r_lookup(const float *table, pop_r_u index)
{
    return (pop_r_f)_mm512_permutex2var_ps(_mm512_loadu_ps(table), (__m512i)index, _mm512_loadu_ps(table + 16));
}
POP_INLINE pop_r_u pop_r_keep(pop_r_u word, pop_r_u bound, pop_r_u value) /* value where word <= bound, else 0 */
{
    return (pop_r_u)_mm512_maskz_mov_epi32(_mm512_cmple_epu32_mask((__m512i)word, (__m512i)bound), (__m512i)value);
}
#elif POP_LEVEL >= POP_LEVEL_AVX2
POP_INLINE pop_r_f pop_r_min(pop_r_f a, pop_r_f b) { return (pop_r_f)_mm256_min_ps((__m256)a, (__m256)b); }
POP_INLINE pop_r_f pop_r_max(pop_r_f a, pop_r_f b) { return (pop_r_f)_mm256_max_ps((__m256)a, (__m256)b); }
POP_INLINE pop_r_f pop_r_lookup(const float *table, pop_r_u index)
{
    return (pop_r_f)_mm256_i32gather_ps(table, (__m256i)(index & 31), 4);
}
/* Most indices lie in a window of eight, which one register holds. */
POP_INLINE int pop_r_inside(pop_r_u index, uint32_t first)
{
    return !_mm256_movemask_ps((__m256)((((index & 31) - first) & ~7u) != 0));
}
POP_INLINE pop_r_f pop_r_lookup_inside(const float *table, pop_r_u index, uint32_t first)
{
    return (pop_r_f)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table + first), (__m256i)(index - first));
}
POP_INLINE pop_r_u pop_r_keep(pop_r_u word, pop_r_u bound, pop_r_u value)
{
    return value & (pop_r_u)_mm256_cmpeq_epi32(_mm256_min_epu32((__m256i)word, (__m256i)bound), (__m256i)word);
}
#else
POP_INLINE pop_r_f pop_r_min(pop_r_f a, pop_r_f b) { return pop_r_select(a < b, a, b); }
POP_INLINE pop_r_f pop_r_max(pop_r_f a, pop_r_f b) { return pop_r_select(a > b, a, b); }
POP_INLINE pop_r_f pop_r_lookup(const float *table, pop_r_u index)
{
    pop_r_f found;
    for (int l = 0; l < POP_R_LANES; l++) found[l] = table[index[l] & 31];
    return found;
}
POP_INLINE pop_r_u pop_r_keep(pop_r_u word, pop_r_u bound, pop_r_u value) { return value & (pop_r_u)(word <= bound); }
#endif

/* POP_R_LANES numbers at p in format f; what is too large becomes infinity, or the largest number where f has none. */
POP_INLINE void pop_r_encode(const pop_format *f, char *p, pop_r_f x)
{
    int overflow = f->specials == POP_IEEE ? POP_OVERFLOW_INFINITY : POP_SATURATE;
#if POP_LEVEL >= POP_LEVEL_AVX2
    pop_v_encode(f, overflow, p, (pop_v_f)x);
#else
    for (int l = 0; l < POP_R_LANES; l++) pop_s_encode(f, overflow, p + l * pop_bytes(f), x[l]);
#endif
}

POP_INLINE pop_r_f pop_r_decode(const pop_format *f, const char *p)
{
#if POP_LEVEL >= POP_LEVEL_AVX2
    return (pop_r_f)pop_v_decode(f, p);
#else
    pop_r_f x;
    for (int l = 0; l < POP_R_LANES; l++) x[l] = pop_s_decode(f, p + l * pop_bytes(f));
    return x;
#endif
}

/* The low 4, 2 or 1 bytes of each word, packed. */
POP_INLINE void pop_r_store(char *p, int bytes, pop_r_u word)
{
    if (bytes == 4) {
        memcpy(p, &word, sizeof word);
    } else if (bytes == 2) {
        pop_r_i16 narrow = __builtin_convertvector((pop_r_i)word, pop_r_i16);
        memcpy(p, &narrow, sizeof narrow);
    } else {
        pop_r_i8 narrow = __builtin_convertvector((pop_r_i)word, pop_r_i8);
        memcpy(p, &narrow, sizeof narrow);
    }
}
#endif
