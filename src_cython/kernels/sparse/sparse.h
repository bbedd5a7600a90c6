/* The family's registration lines, level by level. */
#ifndef POP_SPARSE_H
#define POP_SPARSE_H
#include "kernels/abi.h"
#if POP_LEVEL == POP_LEVEL_AVX2 || POP_LEVEL == POP_LEVEL_AVX512
#include "kernels/sparse/multiply.h"
#if POP_LEVEL == POP_LEVEL_AVX2
#define GRAIN {1, 1, 1}, {4, 24, 1}
#else
#define GRAIN {1, 1, 1}, {8, 48, 1}
#endif
static const pop_kernel SPARSE_KERNELS[] = {
    {"multiply", "float32,float32->float32", "fma_float32", POP_FUNCTION(multiply_fp32), GRAIN, POP_CONSISTENT},
    {"multiply", "float32,float16->float32", "fma_float16", POP_FUNCTION(multiply_fp16), GRAIN, POP_CONSISTENT},
    {"multiply", "float32,bfloat16->float32", "fma_bfloat16", POP_FUNCTION(multiply_bf16), GRAIN, POP_CONSISTENT},
};
static const int SPARSE_COUNT = sizeof SPARSE_KERNELS / sizeof SPARSE_KERNELS[0];
#else
static const pop_kernel SPARSE_KERNELS[1];
static const int SPARSE_COUNT = 0;
#endif
#endif
