/* The family's registration lines, level by level. */
#ifndef POP_SPARSE_H
#define POP_SPARSE_H
#include "kernels/sparse/frame.h"

#define FMA_ROWS(x, function)                                                                                      \
    {"multiply", "float32," x "->float32", "fma_" x, POP_FUNCTION(function), {1, 1, 1}, FMA_BLOCK, POP_CONSISTENT}
#define READY_ROW(to, function) {"ready", "any->" to, "ready_" to, POP_FUNCTION(function), {1, 1, 1}, {1, POP_LANES, 1}, \
                                 POP_CONSISTENT}

#define PANEL_ROW(to, function) {"panel", "any->" to, "panel_" to, POP_FUNCTION(function), {1, 1, 1}, {1, POP_LANES, 1}, \
                                 POP_CONSISTENT}
#define SAMPLE_ROW(x, name, function, block) {"sample", x "," x "->any", name, POP_FUNCTION(function), {1, 1, 1}, block, 0}
#define TILE_OF_16 {4, 4, POP_LANES}
#define TILE_OF_PAIRS {4, 4, 32}
#define TILE_OF_SIXTEEN {64, 16, 32}

#if POP_LEVEL == POP_LEVEL_AVX2 || POP_LEVEL == POP_LEVEL_AVX512
#include "kernels/sparse/fma.h"
#include "kernels/sparse/sample.h"
static const pop_kernel SPARSE_KERNELS[] = {
    FMA_ROWS("float32", fma_fp32), FMA_ROWS("float16", fma_fp16), FMA_ROWS("bfloat16", fma_bf16),
    FMA_ROWS("f143", fma_fp32),    FMA_ROWS("f152", fma_fp32),    FMA_ROWS("e4m3", fma_fp32),
    FMA_ROWS("e5m2", fma_fp32),    READY_ROW("float32", ready_f32), PANEL_ROW("float32", panel_f32),
    SAMPLE_ROW("float32", "dot_float32", sample_fp32, TILE_OF_16), SAMPLE_ROW("float16", "dot_float16", sample_fp16, TILE_OF_16),
    SAMPLE_ROW("bfloat16", "dot_bfloat16", sample_bf16, TILE_OF_16),
};
static const int SPARSE_COUNT = sizeof SPARSE_KERNELS / sizeof SPARSE_KERNELS[0];
#elif POP_LEVEL == POP_LEVEL_AVX512_BF16
#include "kernels/sparse/dp.h"
#include "kernels/sparse/sample.h"
#define DP_ROW(x) \
    {"multiply", "bfloat16," x "->float32", "dp_" x, POP_FUNCTION(dp_bf16), {1, 1, 1}, {8, 32, 2}, 0}
static const pop_kernel SPARSE_KERNELS[] = {
    DP_ROW("bfloat16"), DP_ROW("f143"), DP_ROW("f152"), DP_ROW("e4m3"), DP_ROW("e5m2"), READY_ROW("bfloat16", ready_bf16),
    PANEL_ROW("bfloat16", panel_bf16), SAMPLE_ROW("bfloat16", "pairs_bfloat16", sample_pairs, TILE_OF_PAIRS),
};
static const int SPARSE_COUNT = sizeof SPARSE_KERNELS / sizeof SPARSE_KERNELS[0];
#elif POP_LEVEL == POP_LEVEL_AMX
#include "kernels/sparse/gather.h"
#include "kernels/sparse/sample_tiles.h"
#include "kernels/sparse/tiles.h"
#define GATHER_ROW(x) \
    {"multiply", "bfloat16," x "->float32", "gather_" x, POP_FUNCTION(gather_bf16), {1, 1, 1}, {16, TILE_COLUMNS, 32}, 0}
#define TILES_ROW(w, x, function) \
    {"multiply_tiles", w "," x "->float32", "tiles_" x, POP_FUNCTION(function), {16, 1, 16}, {32, TILE_COLUMNS, 32}, 0}
#define READY_TILES_ROW(formats, name, function) \
    {"ready_tiles", formats, name, POP_FUNCTION(function), {16, 16, 1}, {16, 16, 1}, 0}
static const pop_kernel SPARSE_KERNELS[] = {
    GATHER_ROW("bfloat16"), GATHER_ROW("f143"), GATHER_ROW("f152"), GATHER_ROW("e4m3"), GATHER_ROW("e5m2"),
    TILES_ROW("bfloat16", "bfloat16", tiles_bf16), TILES_ROW("bfloat16", "f143", tiles_bf16),
    TILES_ROW("bfloat16", "f152", tiles_bf16), TILES_ROW("bfloat16", "e4m3", tiles_bf16),
    TILES_ROW("bfloat16", "e5m2", tiles_bf16), TILES_ROW("float16", "float16", tiles_parts),
    READY_TILES_ROW("any->bfloat16", "ready_tiles_bfloat16", ready_tiles_bf16),
    READY_TILES_ROW("float16->float16", "ready_tiles_float16", ready_tiles_parts),
    SAMPLE_ROW("bfloat16", "tiles_bfloat16", sample_tiles, TILE_OF_SIXTEEN),
};
static const int SPARSE_COUNT = sizeof SPARSE_KERNELS / sizeof SPARSE_KERNELS[0];
#else
static const pop_kernel SPARSE_KERNELS[1];
static const int SPARSE_COUNT = 0;
#endif
#endif
