/* The reduce family: rows of numbers reduced to one each.
 *
 * Order and precision. Blocks of 512 elements of a row are reduced in FP32 in a fixed order (blocks.h); what blocks come to is
 * merged in float64, 16 blocks to a segment, then segments, each in ascending order (state.h), and rounded to FP32 once. The order
 * is the row's alone, whichever way elements lie, whatever the level and the number of threads: all give the same bits.
 *
 * FP32, FP16 and BF16 are read as they lie, but where questions are answered; other formats are decoded on the way (walk.h). */
#ifndef POP_REDUCE_H
#define POP_REDUCE_H
#include "kernels/reduce/counts.h"
#include "kernels/reduce/scan.h"

/* Kernels of one pass, each of the body of its name. */
#define POP_REDUCE_OPS(X)                                                                                             \
    X(sum) X(square_sum) X(abs_sum) X(compensated_sum) X(compensated_square_sum) X(prod) X(max) X(min) X(abs_max)

#define POP_REDUCE_VERTEX(name, suffix, ...)                                                                          \
    static void pop_reduce_##name##_##suffix(const void *item, const pop_tile *tile)                                  \
    {                                                                                                                 \
        static const pop_reduction does = {__VA_ARGS__};                                                              \
        pop_reduce_vertex(item, tile, &does);                                                                         \
    }
#define POP_REDUCE_ONE_PASS(name, suffix, format)                                                                     \
    POP_REDUCE_VERTEX(name, suffix, .rows = pop_rows_##name##_##suffix, .chain = pop_chain_##name##_##suffix,         \
                      .few = pop_few_##name##_##suffix, .joiner = pop_join_columns_##name)
#define POP_REDUCE_TWO_PASSES(name, body, after, suffix, format)                                                              \
    POP_REDUCE_VERTEX(name, suffix, .rows = pop_rows_##body##_##suffix, .chain = pop_chain_##body##_##suffix,         \
                      .few = pop_few_##body##_##suffix, .joiner = pop_join_columns_##body,                            \
                      .rows_after = pop_rows_##after##_##suffix, .chain_after = pop_chain_##after##_##suffix,         \
                      .few_after = pop_few_##after##_##suffix, .joiner_after = pop_join_columns_##after)
#define POP_REDUCE_PLACES(name, body, suffix, format)                                                                         \
    POP_REDUCE_VERTEX(name, suffix, .rows = pop_rows_##body##_##suffix, .find = pop_find_##suffix,                    \
                      .places = pop_##name##_##suffix)
#define POP_REDUCE_SIMPLE(name) POP_REDUCE_EACH_FORMAT(POP_REDUCE_ONE_PASS, name)
#define POP_REDUCE_ANSWER(name, ...) POP_REDUCE_ONE_PASS(name, f32, POP_F32)

POP_REDUCE_OPS(POP_REDUCE_SIMPLE)
POP_REDUCE_QUESTION(POP_REDUCE_ANSWER)
POP_REDUCE_EACH_FORMAT(POP_REDUCE_TWO_PASSES, moments, sum, moments)
POP_REDUCE_EACH_FORMAT(POP_REDUCE_TWO_PASSES, logsumexp, max, exp_sum)
POP_REDUCE_EACH_FORMAT(POP_REDUCE_PLACES, argmax, max)
POP_REDUCE_EACH_FORMAT(POP_REDUCE_PLACES, argmin, min)

#define POP_NAME_f32 "float32"
#define POP_NAME_f16 "float16"
#define POP_NAME_bf16 "bfloat16"
#define POP_REDUCE_ROW(name, suffix, format)                                                                          \
    {#name, POP_NAME_##suffix, #name "_" #suffix, POP_FUNCTION(pop_reduce_##name##_##suffix), {1, 1, 1},              \
     {POP_BLOCK, POP_LANES, 1}, POP_CONSISTENT},
#define POP_REDUCE_ROWS(name) POP_REDUCE_EACH_FORMAT(POP_REDUCE_ROW, name)
#define POP_REDUCE_ANSWER_ROW(name, ...) POP_REDUCE_ROW(name, f32, POP_F32)

#define POP_SCAN_KERNEL(suffix, format)                                                                               \
    {"scan", format, "scan_" #suffix, POP_FUNCTION(pop_scan_##suffix##_vertex), {1, 1, 1},                            \
     {1, POP_STRIP, sizeof(pop_scan_room)}, POP_CONSISTENT},

#define POP_COUNT_KERNEL(op, format, function)                                                                        \
    {op, format, #function, POP_FUNCTION(pop_##function##_vertex), {1, 1, 1},                                         \
     {POP_COUNT_TABLES, POP_COUNT_NEAR, sizeof(pop_count_room)}, POP_CONSISTENT}, /* what the lowering must know */

static const pop_kernel POP_REDUCE_KERNELS[] = {
    POP_REDUCE_OPS(POP_REDUCE_ROWS) POP_REDUCE_QUESTION(POP_REDUCE_ANSWER_ROW)
    POP_REDUCE_ROWS(moments) POP_REDUCE_ROWS(logsumexp) POP_REDUCE_ROWS(argmax) POP_REDUCE_ROWS(argmin)
    POP_SCAN_KERNEL(floats, "float32") POP_SCAN_KERNEL(signed, "int64") POP_SCAN_KERNEL(unsigned, "uint64")
    POP_COUNT_KERNEL("weighted", "float32", weighted_float) POP_COUNT_KERNEL("weighted", "int64", weighted_int64_t)
    POP_COUNT_KERNEL("weighted", "uint64", weighted_uint64_t) POP_COUNT_KERNEL("greatest", "any", greatest)
    POP_COUNT_KERNEL("bincount", "any", bincount) POP_COUNT_KERNEL("histogram", "any", histogram)
    {"count_merge", "any", "count_merge", POP_FUNCTION(pop_count_merge), {1, 1, 1}, {1, 1, 1}, POP_CONSISTENT},
    {"merge", "any", "merge", POP_FUNCTION(pop_reduce_merge), {1, 1, 1},
     {POP_SEGMENT, POP_STRIP, sizeof(pop_reduce_room)}, POP_CONSISTENT}, /* what the lowering must know */
};
#endif
