/* The random family's kernels: vertices that fill a share of an array from the counter stream.
 *
 * A vertex finds its share and the distribution's numbers in its item, the place (pop_random_place) in the operand after
 * the arrays: operands are `out, place` or, for dropout, `in, out, place`. Shares are whole rows of the stream, so threads
 * never split a row. Rows go by chunks: straight to memory, or through a buffer in L1 where a row sticks out of the array
 * at either end and where results are streamed past the caches. Every level gives the same bits. */
#ifndef POP_RANDOM_RANDOM_H
#define POP_RANDOM_RANDOM_H
#include "kernels/random/distributions.h"
#include "kernels/stream.h"
#include "program/program.h"

POP_INLINE pop_random_call pop_random_call_at(const pop_random_item *item, const pop_random_place *place)
{
    pop_random_call call = item->law;
    memcpy(call.start, place->start, sizeof call.start);
    call.first = place->first;
    call.count = place->count;
    return call;
}

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

#define POP_RANDOM_CHUNK 32 /* rows: with fewer the loop costs 2 %, with more streaming 25 % */

/* Rows row .. row + rows - 1 of the stream, and which of their elements the array has. */
typedef struct pop_random_chunk {
    int64_t rows, at;   /* the array's index of the first row's first element; negative where that sticks out */
    int64_t skip, stop; /* elements skip .. stop - 1 of these rows are in the array */
    int whole;          /* all of them */
} pop_random_chunk;

POP_INLINE pop_random_chunk pop_random_next(const pop_random_call *c, int64_t row, int64_t end, int64_t per_row)
{
    pop_random_chunk k = {.rows = end - row < POP_RANDOM_CHUNK ? end - row : POP_RANDOM_CHUNK, .at = row * per_row - c->first};
    int64_t elements = k.rows * per_row;
    k.skip = k.at < 0 ? -k.at : 0;
    k.stop = c->count - k.at < elements ? c->count - k.at : elements;
    k.whole = k.skip == 0 && k.stop == elements;
    return k;
}

/* A kernel named NAME: PER_ROW elements of OUT_BYTES in each row of the stream, read from IN_BYTES each (0: no input).
 * BODY makes one row: it uses `lanes`, `c`, `row`, `from` and `to`. */
#define POP_RANDOM_KERNEL(NAME, PER_ROW, IN_BYTES, OUT_BYTES, BODY)                                                    \
    static void NAME(const void *item, const pop_tile *tile)                                                           \
    {                                                                                                                  \
        enum { per_row = (PER_ROW), in_bytes = (IN_BYTES), out_bytes = (OUT_BYTES), has_in = in_bytes != 0 };          \
        const pop_random_call call = pop_random_call_at(item, (const void *)tile->operands[has_in + 1]), *c = &call;   \
        const char *in = has_in ? tile->operands[0] : NULL;                                                            \
        char *out = tile->operands[has_in];                                                                            \
        const pop_random_span span = pop_random_rows(c, (const pop_random_item *)item, per_row);                       \
        const int streams = c->count * (in_bytes + out_bytes) >= POP_STREAM_BYTES(has_in) && in != out;                \
        if (span.begin >= span.end) return;                                                                            \
        char read[POP_RANDOM_CHUNK * per_row * in_bytes + 1], made[POP_RANDOM_CHUNK * per_row * out_bytes];            \
        pop_aox stream;                                                                                                \
        pop_aox_resume(&stream, c->start, 0, (uint64_t)span.begin);                                                    \
        pop_aox_lanes row_lanes = pop_aox_load(&stream), *lanes = &row_lanes;                                          \
        for (int64_t row = span.begin; row < span.end;) {                                                              \
            const pop_random_chunk k = pop_random_next(c, row, span.end, per_row);                                     \
            const char *from = in + k.at * in_bytes;                                                                   \
            char *to = out + k.at * out_bytes;                                                                         \
            if (has_in && !k.whole) {                                                                                  \
                memset(read, 0, (size_t)(k.rows * per_row * in_bytes));                                                \
                memcpy(read + k.skip * in_bytes, from + k.skip * in_bytes, (size_t)((k.stop - k.skip) * in_bytes));    \
                from = read;                                                                                           \
            }                                                                                                          \
            if (!k.whole || streams) to = made;                                                                        \
            for (const int64_t end = row + k.rows; row < end; row++, from += per_row * in_bytes, to += per_row * out_bytes) { \
                BODY;                                                                                                  \
            }                                                                                                          \
            char *place = out + (k.at + k.skip) * out_bytes;                                                           \
            if (streams) pop_stream(place, made + k.skip * out_bytes, (k.stop - k.skip) * out_bytes);                  \
            else if (!k.whole) memcpy(place, made + k.skip * out_bytes, (size_t)((k.stop - k.skip) * out_bytes));      \
        }                                                                                                              \
        if (streams) pop_stream_end();                                                                                 \
    }

POP_RANDOM_KERNEL(pop_random_bits, 128, 0, 1, pop_r_row_bits(lanes, c, from, to))
POP_RANDOM_KERNEL(pop_random_integer, 16, 0, 4, pop_r_row_integer(lanes, c, (uint64_t)row, to))
/* Float32 numbers, cut off to integers where they lie. */
POP_INLINE void pop_random_cut(char *row)
{
    float x[POP_AOX_ROW_WORDS];
    int32_t cut[POP_AOX_ROW_WORDS];
    memcpy(x, row, sizeof x);
    for (int j = 0; j < POP_AOX_ROW_WORDS; j++) cut[j] = (int32_t)x[j];
    memcpy(row, cut, sizeof cut);
}

POP_RANDOM_KERNEL(pop_random_log_uniform_i32, 32, 0, 4,
                  (pop_r_row(pop_r_log_uniform, &POP_F32, lanes, c, to), pop_random_cut(to)))
POP_RANDOM_KERNEL(pop_random_unit_f16, 64, 0, 2, pop_r_row_unit16(1, lanes, to))
POP_RANDOM_KERNEL(pop_random_unit_bf16, 64, 0, 2, pop_r_row_unit16(0, lanes, to))
POP_RANDOM_KERNEL(pop_random_bernoulli4, 32, 0, 4, pop_r_row_bernoulli(4, lanes, c, to))
POP_RANDOM_KERNEL(pop_random_bernoulli2, 32, 0, 2, pop_r_row_bernoulli(2, lanes, c, to))
POP_RANDOM_KERNEL(pop_random_bernoulli1, 32, 0, 1, pop_r_row_bernoulli(1, lanes, c, to))

#define POP_RANDOM_DRAWN(NAME, SUFFIX, FORMAT, BYTES)                                                                  \
    POP_RANDOM_KERNEL(pop_random_##NAME##_##SUFFIX, 32, 0, BYTES, pop_r_row(pop_r_##NAME, &FORMAT, lanes, c, to))

/* Uniform numbers: 32 random bits for one of FP32, 16 for narrower ones. */
#define POP_RANDOM_UNIFORM_4(SUFFIX, FORMAT)                                                                           \
    POP_RANDOM_KERNEL(pop_random_uniform_##SUFFIX, 32, 0, 4, pop_r_row_uniform32(&FORMAT, lanes, c, to))
#define POP_RANDOM_UNIFORM_2(SUFFIX, FORMAT)                                                                           \
    POP_RANDOM_KERNEL(pop_random_uniform_##SUFFIX, 64, 0, 2, pop_r_row_uniform16(&FORMAT, lanes, c, to))
#define POP_RANDOM_UNIFORM_1(SUFFIX, FORMAT)                                                                           \
    POP_RANDOM_KERNEL(pop_random_uniform_##SUFFIX, 64, 0, 1, pop_r_row_uniform16(&FORMAT, lanes, c, to))

#define POP_RANDOM_FORMAT(BYTES, CONSTANT, SUFFIX, ...)                                                                \
    POP_RANDOM_UNIFORM_##BYTES(SUFFIX, POP_##CONSTANT)                                                                 \
    POP_RANDOM_DRAWN(normal, SUFFIX, POP_##CONSTANT, BYTES)                                                            \
    POP_RANDOM_DRAWN(narrow_normal, SUFFIX, POP_##CONSTANT, BYTES)                                                     \
    POP_RANDOM_DRAWN(exponential, SUFFIX, POP_##CONSTANT, BYTES)                                                       \
    POP_RANDOM_DRAWN(gumbel, SUFFIX, POP_##CONSTANT, BYTES)                                                            \
    POP_RANDOM_DRAWN(log_uniform, SUFFIX, POP_##CONSTANT, BYTES)                                                       \
    POP_RANDOM_KERNEL(pop_random_dropout_##SUFFIX, 32, BYTES, BYTES,                                                   \
                      pop_r_row_dropout(&POP_##CONSTANT, lanes, c, from, to))
POP_FORMATS(POP_RANDOM_FORMAT)

#define POP_RANDOM_ROW(OP, LABEL, NAME, PER_ROW)                                                                       \
    {OP, LABEL, #NAME, POP_FUNCTION(NAME), {1, PER_ROW, 1}, {1, PER_ROW, 1}, POP_CONSISTENT},
#define POP_RANDOM_ROWS(BYTES, CONSTANT, SUFFIX, LABEL, ...)                                                           \
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
    POP_RANDOM_ROW("log_uniform", "int32", pop_random_log_uniform_i32, 32)
    POP_RANDOM_ROW("unit", "float16", pop_random_unit_f16, 64)
    POP_RANDOM_ROW("unit", "bfloat16", pop_random_unit_bf16, 64)
    POP_RANDOM_ROW("bernoulli", "4 bytes", pop_random_bernoulli4, 32)
    POP_RANDOM_ROW("bernoulli", "2 bytes", pop_random_bernoulli2, 32)
    POP_RANDOM_ROW("bernoulli", "1 byte", pop_random_bernoulli1, 32)
    POP_FORMATS(POP_RANDOM_ROWS)
};
#endif
