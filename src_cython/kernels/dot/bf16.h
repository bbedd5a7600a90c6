/* BF16 products at AVX512_BF16: VDPBF16PS multiplies 32 pairs and adds them to 16 FP32 sums, twice the rate of FP32 FMA on Zen 5
 * (528 GFLOP/s measured). A cell is two BF16 numbers, neighbours along the depth. Products are exact; the two of a cell
 * are added one after the other, each sum rounded to nearest even; subnormal operands and sums count as zero whatever
 * MXCSR says (Intel SDM, VDPBF16PS). FP8 decodes exactly to BF16 and never meets a subnormal there. */
#ifndef POP_DOT_BF16_H
#define POP_DOT_BF16_H
#include "kernels/dot/dot.h"

#define POP_KIND bf16
#define POP_STEP(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b))
#define POP_NARROW(to, there, sum) _mm256_mask_storeu_epi16(to, there, (__m256i)_mm512_cvtneps_pbh(sum))
#include "kernels/dot/blocks512.h"
#undef POP_NARROW
#define POP_A_CELL 4
#define POP_LOAD_A(mask, p) _mm512_maskz_loadu_ps(mask, p)
#include "kernels/dot/dots512.h"
#undef POP_KIND
#undef POP_STEP

#include "kernels/dot/apart512.h"

#define POP_LINES(name, rows, cols) \
    {"multiply", "bfloat16", name, POP_FUNCTION(pop_multiply_lines_bf16), {1, 16, 2}, {rows, cols, 2}, 0}
static const pop_kernel POP_PRODUCT_KERNELS[] = {
    POP_LINES("bf16_6x64", 6, 64),
    POP_LINES("bf16_8x48", 8, 48),
    POP_LINES("bf16_14x32", 14, 32),
    POP_LINES("bf16_2x128", 2, 128),
    {"multiply_dots", "bfloat16", "bf16_dots", POP_FUNCTION(pop_multiply_dots_bf16), {1, 1, 2}, {8, 4, 32}, 0},
    {"multiply_apart", "bfloat16", "bf16_apart", POP_FUNCTION(pop_multiply_apart), {1, 1, 2}, {2, 128, 2}, 0},
};
#undef POP_LINES
#endif
