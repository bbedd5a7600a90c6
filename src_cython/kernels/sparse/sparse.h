/* The family's registration lines, level by level. */
#ifndef POP_SPARSE_H
#define POP_SPARSE_H
#include "kernels/sparse/frame.h"

/* Formats whose every value is a BF16 value. */
#define BF16_VALUED "bfloat16" POP_BYTE_NAMES

/* `x`: the format that it reads as it lies; a kernel of any format has X decoded to panels first. */
#define FMA_ROW(x, name, function)                                                                                 \
    {"multiply", "float32," x "->float32", name, POP_FUNCTION(function), {1, 1, 1}, FMA_BLOCK, POP_CONSISTENT}
#define DECODING_ROW(op, from, to, function) \
    {op, from "->" to, op "_" to, POP_FUNCTION(function), {1, 1, 1}, {1, POP_LANES, 1}, POP_CONSISTENT}
#define SAMPLE_ROW(x, name, function, block) {"sample", x "," x "->any", name, POP_FUNCTION(function), {1, 1, 1}, block, 0}
#define TILE_OF_16 {4, 4, POP_LANES}
#define TILE_OF_PAIRS {4, 4, 32}
#define TILE_OF_SIXTEEN {64, 16, 32}

#if POP_LEVEL >= POP_LEVEL_AVX2 && POP_LEVEL < POP_LEVEL_AVX512_BF16
#include "kernels/sparse/fma.h"
#include "kernels/sparse/sample.h"
static const pop_kernel SPARSE_KERNELS[] = {
    FMA_ROW("any", "fma", fma_fp32), FMA_ROW("float16", "fma_float16", fma_fp16),
    FMA_ROW("bfloat16", "fma_bfloat16", fma_bf16), DECODING_ROW("ready", "any", "float32", ready_f32),
    DECODING_ROW("panel", "any", "float32", panel_f32),
    SAMPLE_ROW("float32", "dot_float32", sample_fp32, TILE_OF_16), SAMPLE_ROW("float16", "dot_float16", sample_fp16, TILE_OF_16),
    SAMPLE_ROW("bfloat16", "dot_bfloat16", sample_bf16, TILE_OF_16),
};
static const int SPARSE_COUNT = sizeof SPARSE_KERNELS / sizeof SPARSE_KERNELS[0];
#elif POP_LEVEL >= POP_LEVEL_AVX512_BF16 && POP_LEVEL < POP_LEVEL_AMX
#include "kernels/sparse/dp.h"
#include "kernels/sparse/sample.h"
static const pop_kernel SPARSE_KERNELS[] = {
    {"multiply", "bfloat16," BF16_VALUED "->float32", "dp", POP_FUNCTION(dp_bf16), {1, 1, 1}, {4, 64, 2}, 0},
    DECODING_ROW("ready", BF16_VALUED, "bfloat16", ready_bf16), DECODING_ROW("panel", BF16_VALUED, "bfloat16", panel_bf16),
    SAMPLE_ROW("bfloat16", "pairs_bfloat16", sample_pairs, TILE_OF_PAIRS),
};
static const int SPARSE_COUNT = sizeof SPARSE_KERNELS / sizeof SPARSE_KERNELS[0];
#elif POP_LEVEL >= POP_LEVEL_AMX
#include "kernels/sparse/gather.h"
#include "kernels/sparse/sample_tiles.h"
#include "kernels/sparse/tiles.h"
#define TILES_ROW(w, x, name, function) \
    {"multiply_tiles", w "," x "->float32", name, POP_FUNCTION(function), {16, 1, 16}, {32, TILE_COLUMNS, 32}, 0}
#define READY_TILES_ROW(formats, name, function) \
    {"ready_tiles", formats, name, POP_FUNCTION(function), {16, 16, 1}, {16, 16, 1}, 0}
static const pop_kernel SPARSE_KERNELS[] = {
    {"multiply", "bfloat16," BF16_VALUED "->float32", "gather", POP_FUNCTION(gather_bf16), {1, 1, 1},
     {16, TILE_COLUMNS, 32}, 0},
    TILES_ROW("bfloat16", BF16_VALUED, "tiles_bfloat16", tiles_bf16),
    TILES_ROW("float16", "float16", "tiles_float16", tiles_parts),
    READY_TILES_ROW(BF16_VALUED "->bfloat16", "ready_tiles_bfloat16", ready_tiles_bf16),
    READY_TILES_ROW("float16->float16", "ready_tiles_float16", ready_tiles_parts),
    SAMPLE_ROW("bfloat16", "sample_tiles_bfloat16", sample_tiles, TILE_OF_SIXTEEN),
};
static const int SPARSE_COUNT = sizeof SPARSE_KERNELS / sizeof SPARSE_KERNELS[0];
#else
static const pop_kernel SPARSE_KERNELS[1];
static const int SPARSE_COUNT = 0;
#endif
#endif
