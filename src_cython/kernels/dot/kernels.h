/* The dot kernels of this level, gathered for registration. */
#ifndef POP_DOT_KERNELS_H
#define POP_DOT_KERNELS_H
#include "kernels/dot/pack.h"
#if POP_LEVEL == POP_LEVEL_AVX2
#include "kernels/dot/fma256.h"
#define POP_DOT_PRODUCTS POP_FMA256_KERNELS
#elif POP_LEVEL == POP_LEVEL_AVX512
#include "kernels/dot/fma512.h"
#define POP_DOT_PRODUCTS POP_FMA512_KERNELS
#endif
#define POP_COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

typedef struct pop_kernel_table { const pop_kernel *kernels; int count; } pop_kernel_table;
static const pop_kernel_table POP_DOT_TABLES[] = {
    {POP_EPILOGUE_KERNELS, POP_COUNT(POP_EPILOGUE_KERNELS)},
    {POP_PACK_KERNELS, POP_COUNT(POP_PACK_KERNELS)},
#ifdef POP_DOT_PRODUCTS
    {POP_DOT_PRODUCTS, POP_COUNT(POP_DOT_PRODUCTS)},
#endif
};
static const int POP_DOT_TABLE_COUNT = POP_COUNT(POP_DOT_TABLES);
#endif
