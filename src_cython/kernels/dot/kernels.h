/* The dot kernels of this level, gathered for registration. */
#ifndef POP_DOT_KERNELS_H
#define POP_DOT_KERNELS_H
#include "kernels/dot/pack.h"
#if POP_LEVEL >= POP_LEVEL_AMX
#include "kernels/dot/tiles.h"
#elif POP_LEVEL >= POP_LEVEL_AVX512_BF16
#include "kernels/dot/bf16.h"
#elif POP_LEVEL >= POP_LEVEL_AVX512
#include "kernels/dot/fma512.h"
#elif POP_LEVEL >= POP_LEVEL_AVX2
#include "kernels/dot/fma256.h"
#endif
#define POP_COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

typedef struct pop_kernel_table { const pop_kernel *kernels; int count; } pop_kernel_table;
static const pop_kernel_table POP_DOT_TABLES[] = {
    {POP_EPILOGUE_KERNELS, POP_COUNT(POP_EPILOGUE_KERNELS)},
    {POP_PACK_KERNELS, POP_COUNT(POP_PACK_KERNELS)},
#if POP_LEVEL >= POP_LEVEL_AVX2
    {POP_PRODUCT_KERNELS, POP_COUNT(POP_PRODUCT_KERNELS)},
#endif
};
static const int POP_DOT_TABLE_COUNT = POP_COUNT(POP_DOT_TABLES);
#endif
