/* The random family's kernels: vertices that fill a share of an array from the counter stream.
 *
 * A vertex reads the call (pop_random_call) from the operand after the arrays and fills its share: operands are
 * `out, call` or, for dropout, `in, out, call`. Shares are whole rows of the stream, so threads never split a row; a
 * row that sticks out of the array at either end is made in a buffer. Every level gives the same bits. */
#ifndef POP_RANDOM_RANDOM_H
#define POP_RANDOM_RANDOM_H
#include "kernels/random/distributions.h"
#include "program/program.h"

typedef struct pop_random_item {
    int64_t share, shares;
} pop_random_item;

typedef struct pop_random_span { /* rows of the stream, and the elements before the first of them */
    int64_t begin, end;
} pop_random_span;

/* Shares are multiples of 64 rows (at least 4 KiB of elements), the last one ragged. */
POP_INLINE pop_random_span pop_random_rows(const pop_random_call *c, const pop_random_item *item, int64_t per_row)
{
    int64_t begin = c->first / per_row, end = (c->first + c->count + per_row - 1) / per_row;
    int64_t each = ((end - begin + item->shares - 1) / item->shares + 63) & ~63ll;
    pop_random_span span = {begin + item->share * each, begin + (item->share + 1) * each};
    if (span.begin > end) span.begin = end;
    if (span.end > end) span.end = end;
    return span;
}

/* A kernel named NAME: PER_ROW elements of OUT_BYTES in each row of the stream, read from IN_BYTES each (0: no input).
 * BODY uses `lanes`, `c`, `row`, `from` and `to`. Most rows are whole; the others go through buffers. */
#define POP_RANDOM_KERNEL(NAME, PER_ROW, IN_BYTES, OUT_BYTES, BODY)                                                    \
    static void NAME(const void *item, const pop_tile *tile)                                                           \
    {                                                                                                                  \
        enum { per_row = (PER_ROW), in_bytes = (IN_BYTES), out_bytes = (OUT_BYTES), has_in = in_bytes != 0 };          \
        const pop_random_call call = *(const pop_random_call *)tile->operands[has_in + 1], *c = &call;                 \
        const char *in = has_in ? tile->operands[0] : NULL;                                                            \
        char *out = tile->operands[has_in];                                                                            \
        pop_random_span span = pop_random_rows(c, (const pop_random_item *)item, per_row);                             \
        if (span.begin >= span.end) return;                                                                            \
        char in_row[per_row * in_bytes + 1], out_row[per_row * out_bytes];                                             \
        pop_aox stream;                                                                                                \
        pop_aox_open(&stream, c->seed, c->modifier, c->substream, (uint64_t)span.begin);                               \
        pop_aox_lanes row_lanes = pop_aox_load(&stream), *lanes = &row_lanes;                                          \
        int64_t i = span.begin * per_row - c->first;                                                                   \
        for (int64_t row = span.begin; row < span.end; row++, i += per_row) {                                          \
            int64_t skip = i < 0 ? -i : 0, stop = c->count - i < per_row ? c->count - i : per_row;                     \
            int whole = skip == 0 && stop == per_row;                                                                  \
            const char *from = whole ? in + i * in_bytes : in_row;                                                     \
            char *to = whole ? out + i * out_bytes : out_row;                                                          \
            if (has_in && !whole) {                                                                                    \
                memset(in_row, 0, sizeof in_row);                                                                      \
                memcpy(in_row + skip * in_bytes, in + (i + skip) * in_bytes, (size_t)((stop - skip) * in_bytes));      \
            }                                                                                                          \
            (void)from;                                                                                                \
            BODY;                                                                                                      \
            if (!whole) memcpy(out + (i + skip) * out_bytes, to + skip * out_bytes, (size_t)((stop - skip) * out_bytes)); \
        }                                                                                                              \
    }

POP_RANDOM_KERNEL(pop_random_bits, 128, 0, 1, pop_r_row_bits(lanes, c, from, to))
POP_RANDOM_KERNEL(pop_random_integer, 16, 0, 4, pop_r_row_integer(lanes, c, (uint64_t)row, to))
POP_RANDOM_KERNEL(pop_random_unit_f16, 64, 0, 2, pop_r_row_unit16(lanes, to))
POP_RANDOM_KERNEL(pop_random_bernoulli4, 32, 0, 4, pop_r_row_bernoulli(4, lanes, c, to))
POP_RANDOM_KERNEL(pop_random_bernoulli2, 32, 0, 2, pop_r_row_bernoulli(2, lanes, c, to))
POP_RANDOM_KERNEL(pop_random_bernoulli1, 32, 0, 1, pop_r_row_bernoulli(1, lanes, c, to))

#define POP_RANDOM_FORMATS(X)                                                                                          \
    X(f16, POP_F16, 2, "float16") X(bf16, POP_BF16, 2, "bfloat16") X(f143, POP_F143, 1, "f143")                        \
    X(f152, POP_F152, 1, "f152") X(e4m3, POP_E4M3, 1, "e4m3") X(e5m2, POP_E5M2, 1, "e5m2")

#define POP_RANDOM_DRAWN(NAME, SUFFIX, FORMAT, BYTES)                                                                  \
    POP_RANDOM_KERNEL(pop_random_##NAME##_##SUFFIX, 32, 0, BYTES, pop_r_row(pop_r_##NAME, &FORMAT, lanes, c, to))

#define POP_RANDOM_FORMAT(SUFFIX, FORMAT, BYTES, LABEL)                                                                \
    POP_RANDOM_DRAWN(normal, SUFFIX, FORMAT, BYTES)                                                                    \
    POP_RANDOM_DRAWN(narrow_normal, SUFFIX, FORMAT, BYTES)                                                             \
    POP_RANDOM_DRAWN(exponential, SUFFIX, FORMAT, BYTES)                                                               \
    POP_RANDOM_DRAWN(gumbel, SUFFIX, FORMAT, BYTES)                                                                    \
    POP_RANDOM_DRAWN(log_uniform, SUFFIX, FORMAT, BYTES)                                                               \
    POP_RANDOM_KERNEL(pop_random_dropout_##SUFFIX, 32, BYTES, BYTES, pop_r_row_dropout(&FORMAT, lanes, c, from, to))

POP_RANDOM_FORMAT(f32, POP_F32, 4, "float32")
POP_RANDOM_FORMATS(POP_RANDOM_FORMAT)

#define POP_RANDOM_UNIFORM16(SUFFIX, FORMAT, BYTES, LABEL)                                                             \
    POP_RANDOM_KERNEL(pop_random_uniform_##SUFFIX, 64, 0, BYTES, pop_r_row_uniform16(&FORMAT, lanes, c, to))
POP_RANDOM_KERNEL(pop_random_uniform_f32, 32, 0, 4, pop_r_row_uniform32(&POP_F32, lanes, c, to))
POP_RANDOM_FORMATS(POP_RANDOM_UNIFORM16)

#define POP_RANDOM_ROW(OP, LABEL, NAME, PER_ROW)                                                                       \
    {OP, LABEL, #NAME, POP_FUNCTION(NAME), {1, PER_ROW, 1}, {1, PER_ROW, 1}, POP_CONSISTENT},
#define POP_RANDOM_ROWS(SUFFIX, FORMAT, BYTES, LABEL)                                                                  \
    POP_RANDOM_ROW("uniform", LABEL, pop_random_uniform_##SUFFIX, BYTES == 4 ? 32 : 64)                                \
    POP_RANDOM_ROW("normal", LABEL, pop_random_normal_##SUFFIX, 32)                                                    \
    POP_RANDOM_ROW("narrow_normal", LABEL, pop_random_narrow_normal_##SUFFIX, 32)                                      \
    POP_RANDOM_ROW("exponential", LABEL, pop_random_exponential_##SUFFIX, 32)                                          \
    POP_RANDOM_ROW("gumbel", LABEL, pop_random_gumbel_##SUFFIX, 32)                                                    \
    POP_RANDOM_ROW("log_uniform", LABEL, pop_random_log_uniform_##SUFFIX, 32)                                          \
    POP_RANDOM_ROW("dropout", LABEL, pop_random_dropout_##SUFFIX, 32)

static const pop_kernel POP_RANDOM_KERNELS[] = {
    POP_RANDOM_ROW("bits", "bytes", pop_random_bits, 128)
    POP_RANDOM_ROW("uniform", "int32", pop_random_integer, 16)
    POP_RANDOM_ROW("unit", "float16", pop_random_unit_f16, 64)
    POP_RANDOM_ROW("bernoulli", "4 bytes", pop_random_bernoulli4, 32)
    POP_RANDOM_ROW("bernoulli", "2 bytes", pop_random_bernoulli2, 32)
    POP_RANDOM_ROW("bernoulli", "1 byte", pop_random_bernoulli1, 32)
    POP_RANDOM_ROWS(f32, POP_F32, 4, "float32")
    POP_RANDOM_FORMATS(POP_RANDOM_ROWS)
};
#endif
