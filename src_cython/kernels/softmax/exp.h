/* The exponential of numbers that are not positive, in fused multiply-adds and no table, the same bits at every level.
 *
 * x = n ln 2 + r with n whole and |r| <= ln 2 / 2 (ln 2 in two parts, each step rounded once), then
 * e^x = 2^n (1 + r + r^2 q(r)), q of degree 4 fitted to the least greatest relative error, 0.06 of a unit in the last
 * place. In all it is within 2^-23 of the result, relatively, on 2^25 numbers spread over the codes. 2^n is made from n's bits; below 2^-126 it is
 * zero, so that minus infinity gives zero. e^0 is exactly 1 and NaN stays NaN. */
#ifndef POP_SOFTMAX_EXP_H
#define POP_SOFTMAX_EXP_H
#include <math.h>

#include "kernels/convert.h"

POP_INLINE float pop_s_max_f(float a, float b) { return a > b ? a : b; } /* b where one is NaN, as the instructions have it */
#if POP_LEVEL >= POP_LEVEL_AVX512
POP_INLINE __m512 pop_v_max_f(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
POP_INLINE __m512 pop_v_fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
POP_INLINE __mmask16 pop_v_first_lanes(int n) { return pop_v_first(n); }
#elif POP_LEVEL >= POP_LEVEL_AVX2
POP_INLINE __m256 pop_v_max_f(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
POP_INLINE __m256 pop_v_fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
POP_INLINE __m256i pop_v_first_lanes(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#else
POP_INLINE float pop_v_max_f(float a, float b) { return pop_s_max_f(a, b); }
POP_INLINE float pop_v_fma(float a, float b, float c) { return fmaf(a, b, c); }
POP_INLINE int pop_v_first_lanes(int n) { return n; }
#endif

/* A constant in every lane, by its bits. */
POP_INLINE pop_v_f pop_v_constant(float x) { return pop_v_float(pop_v_set(pop_s_bits(x))); }

POP_INLINE pop_v_f pop_v_exp(pop_v_f x)
{
    const pop_v_f magic = pop_v_constant(12582912.0f); /* 1.5 * 2^23: adding it rounds to whole numbers */
    x = pop_v_max_f(pop_v_constant(-88.0f), x);
    pop_v_f shifted = pop_v_fma(x, pop_v_constant(1.44269504f), magic);
    pop_v_f n = shifted - magic;
    pop_v_f r = pop_v_fma(n, pop_v_constant(-0x1.62e430p-1f), x);
    r = pop_v_fma(n, pop_v_constant(0x1.05c610p-29f), r);
    pop_v_f q = pop_v_constant(0x1.6a23d0p-10f);
    q = pop_v_fma(q, r, pop_v_constant(0x1.123a20p-7f));
    q = pop_v_fma(q, r, pop_v_constant(0x1.5558f2p-5f));
    q = pop_v_fma(q, r, pop_v_constant(0x1.555492p-3f));
    q = pop_v_fma(q, r, pop_v_constant(0x1.fffffcp-2f));
    pop_v_f result = pop_v_fma(pop_v_fma(q, r, pop_v_constant(1.0f)), r, pop_v_constant(1.0f));
    pop_v_i power = pop_v_sll(pop_v_add(pop_v_bits(shifted), pop_v_set(127)), 23);
    return result * pop_v_float(power);
}
#endif
