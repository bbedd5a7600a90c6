/* FP32 products at AVX-512. */
#ifndef POP_DOT_FMA512_H
#define POP_DOT_FMA512_H
#include "kernels/dot/dot.h"

#define POP_KIND fma512
#define POP_STEP(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#include "kernels/dot/blocks512.h"
#define POP_A_CELL 4
#define POP_LOAD_A(mask, p) _mm512_maskz_loadu_ps(mask, p)
#include "kernels/dot/dots512.h"
#undef POP_KIND

/* A in 16 bits, read where it lies: half the bytes of FP32. */
#define POP_KIND fma512_f16
#define POP_A_CELL 2
#define POP_LOAD_A(mask, p) _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p))
#include "kernels/dot/dots512.h"
#undef POP_KIND

#define POP_KIND fma512_bf16
#define POP_A_CELL 2
#define POP_LOAD_A(mask, p) \
    _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)), 16))
#include "kernels/dot/dots512.h"
#undef POP_KIND
#undef POP_STEP

#include "kernels/dot/across512.h"

#define POP_LINES(name, rows, cols) \
    {"multiply", "float32", name, POP_FUNCTION(pop_multiply_lines_fma512), {1, 16, 1}, {rows, cols, 1}, POP_CONSISTENT}
static const pop_kernel POP_PRODUCT_KERNELS[] = {
    POP_LINES("fma512_6x64", 6, 64),
    POP_LINES("fma512_8x48", 8, 48),
    POP_LINES("fma512_2x128", 2, 128),
    {"multiply_dots", "float32", "fma512_dots", POP_FUNCTION(pop_multiply_dots_fma512), {1, 1, 1}, {8, 4, 16}, 0},
    {"multiply_dots", "float16,float32", "fma512_dots_f16", POP_FUNCTION(pop_multiply_dots_fma512_f16), {1, 1, 1},
     {8, 4, 16}, 0},
    {"multiply_dots", "bfloat16,float32", "fma512_dots_bf16", POP_FUNCTION(pop_multiply_dots_fma512_bf16), {1, 1, 1},
     {8, 4, 16}, 0},
    {"multiply_across", "float32", "fma512_across", POP_FUNCTION(pop_multiply_across), {1, 1, 1}, {2, 16, 1}, POP_CONSISTENT},
};
#undef POP_LINES
#endif
