/* Vectors of X in the products' terms: loads of a compile-time kind, and the lanes that are there. */
#ifndef POP_SPARSE_VECTOR_H
#define POP_SPARSE_VECTOR_H
#include "simd/simd.h"

enum { POP_X_FP32, POP_X_FP16, POP_X_BF16 };

#define VL POP_LANES
typedef pop_v_f vec;
typedef pop_v_part lanes;

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
#endif
