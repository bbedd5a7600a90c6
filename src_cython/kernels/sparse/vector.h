/* Vectors of X in the products' terms: loads and products of a compile-time kind, and the lanes that are there.
 *
 * Of pairs a lane is two BF16 numbers, neighbours along the sum, and a step is two products and their sum. */
#ifndef POP_SPARSE_VECTOR_H
#define POP_SPARSE_VECTOR_H
#include "simd/simd.h"
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
#include <immintrin.h>
#endif

enum { POP_X_FP32, POP_X_FP16, POP_X_BF16, POP_X_PAIRS, POP_X_ROWS /* of BF16 that become pairs on the way */ };

#define VL POP_LANES

/* A pointer or stride that GCC computes here and keeps: it would keep an address of its own for each line that follows, more
 * than there are registers, in vector registers and memory. */
#define POP_KEPT(p) __asm__("" : "+r"(p))

typedef pop_v_f vec;
typedef pop_v_part lanes;

/* Bytes of a column; steps of so many elements of the sum; rows that a step reads. */
POP_INLINE int64_t pop_x_bytes(const int kind) { return kind == POP_X_FP32 || kind == POP_X_PAIRS ? 4 : 2; }
POP_INLINE int64_t pop_x_steps(const int kind, int64_t depth) { return kind >= POP_X_PAIRS ? depth / 2 : depth; }
POP_INLINE int64_t pop_x_rows(const int kind) { return kind == POP_X_ROWS ? 2 : 1; }

POP_INLINE vec pop_broadcast(const char *p)
{
    float x;
    memcpy(&x, p, 4);
    return pop_v_splat(x);
}

POP_INLINE vec pop_load(const int kind, const char *p)
{
    if (kind == POP_X_FP16) return pop_v_load_f16(p);
    if (kind == POP_X_BF16) return (vec)pop_v_sll(pop_v_load(p, 2), 16);
    return pop_v_load_f((const float *)p);
}

POP_INLINE vec pop_load_some(const int kind, const char *p, lanes m)
{
    if (kind == POP_X_FP16) return pop_v_load_f16_some(p, m);
    if (kind == POP_X_BF16) return (vec)pop_v_sll(pop_v_load_some(p, 2, m), 16);
    return pop_v_load_f_some((const float *)p, m);
}

POP_INLINE vec pop_add_product(const int kind, vec a, vec b, vec sum)
{
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (kind >= POP_X_PAIRS) return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#endif
    (void)kind;
    return pop_v_fma(a, b, sum);
}
#endif
