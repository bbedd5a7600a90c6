/* One function of simd/math.h applied to n contiguous floats; x and y may be the same. */
#ifndef POP_KERNELS_MATH_H
#define POP_KERNELS_MATH_H
#include "simd/math.h"

#define POP_MATH_KERNEL(name)                                                                                \
    static void pop_math_##name(const float *x, float *y, int64_t n)                                         \
    {                                                                                                        \
        int64_t i = 0;                                                                                       \
        for (; i + POP_LANES <= n; i += POP_LANES) pop_v_store_f(y + i, pop_v_##name(pop_v_load_f(x + i)));  \
        const pop_v_part rest = pop_v_first(n - i);                                                          \
        if (i < n) pop_v_store_f_some(y + i, pop_v_##name(pop_v_load_f_some(x + i, rest)), rest);            \
    }
POP_MATH_FUNCTIONS(POP_MATH_KERNEL)

#define POP_MATH_ROW(name) \
    {#name, "float32", "math_" #name, POP_FUNCTION(pop_math_##name), {1, 1, 1}, {1, POP_LANES, 1}, POP_CONSISTENT},
static const pop_kernel POP_MATH_KERNELS[] = {POP_MATH_FUNCTIONS(POP_MATH_ROW)};

enum { POP_MATH_COUNT = sizeof POP_MATH_KERNELS / sizeof *POP_MATH_KERNELS };
#endif
