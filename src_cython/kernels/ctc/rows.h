/* The classes of a step: decoded, normalised, encoded. */
#ifndef POP_CTC_ROWS_H
#define POP_CTC_ROWS_H
#include "formats/codec.h"
#include "kernels/ctc/wide.h"
#include "program/program.h"

#define POP_RECORDS "records/ctc.def"
#include "records/structs.h"

#define POP_PREFETCHED 8192 /* bytes that are prefetched at once, at most */
#define POP_WORTH_A_PREFETCH 1024 /* of a row, in ascending order */
#define POP_STEP 16 /* lanes of the widest level: the order of sums is its at every level */

POP_INLINE int64_t whole_steps(int64_t n) { return (n + POP_STEP - 1) / POP_STEP * POP_STEP; }

/* Room for a row: a step beyond its end is minus infinity, and so is what padding points to. */
POP_INLINE int64_t row_room(int64_t classes) { return whole_steps(classes + 1); }

#define POP_CTC_ROW(constant, function)                                                                          \
    static __attribute__((noinline)) void read_##function(const char *p, float *to, int64_t n)                   \
    {                                                                                                            \
        const int64_t size = pop_bytes(&POP_##constant);                                                         \
        int64_t i = 0;                                                                                           \
        for (; i + POP_LANES <= n; i += POP_LANES) pop_v_store_f(to + i, pop_v_decode(&POP_##constant, p + i * size)); \
        if (i < n) pop_v_store_f(to + i, pop_v_decode_part(&POP_##constant, p + i * size, n - i));               \
    }                                                                                                            \
    static __attribute__((noinline)) void write_##function(char *p, const float *from, int64_t n)                \
    {                                                                                                            \
        const int64_t size = pop_bytes(&POP_##constant);                                                         \
        int64_t i = 0;                                                                                           \
        for (; i + POP_LANES <= n; i += POP_LANES)                                                               \
            pop_v_encode(&POP_##constant, POP_OVERFLOW_INFINITY, p + i * size, pop_v_load_f(from + i));          \
        if (i < n) pop_v_encode_part(&POP_##constant, POP_OVERFLOW_INFINITY, p + i * size, pop_v_load_f(from + i), n - i); \
    }
POP_CTC_ROW(F32, f32)
POP_CTC_ROW(F16, f16)
POP_CTC_ROW(BF16, bf16)

POP_INLINE int64_t bytes_of(int format) { return format == POP_IS_F32 ? 4 : 2; }

POP_INLINE void read_row(int format, const char *p, float *to, int64_t n)
{
    (format == POP_IS_F32 ? read_f32 : format == POP_IS_F16 ? read_f16 : read_bf16)(p, to, n);
}

POP_INLINE void write_row(int format, char *p, const float *from, int64_t n)
{
    (format == POP_IS_F32 ? write_f32 : format == POP_IS_F16 ? write_f16 : write_bf16)(p, from, n);
}

/* Steps lie apart, often a page each, where the CPU does not look ahead by itself: prefetch the next while one is done. */
POP_INLINE void prefetch_step(const char *p, int64_t bytes, int writes)
{
    if (bytes > POP_PREFETCHED) bytes = POP_PREFETCHED;
    if (writes) pop_prefetch_to_write_lines(pop_beyond(p, 0), bytes);
    else pop_prefetch_lines(pop_beyond(p, 0), bytes);
}

/* The sum of whole steps: POP_STEP chains, folded by halves. */
static float sum_of(const float *p, int64_t n)
{
    float sums[POP_STEP];
    pop_v_f chains[POP_STEP / POP_LANES];
    for (int j = 0; j < POP_STEP / POP_LANES; j++) chains[j] = pop_v_splat(0.0f);
    for (int64_t i = 0; i < n; i += POP_STEP)
        for (int j = 0; j < POP_STEP / POP_LANES; j++) chains[j] += pop_v_load_f(p + i + j * POP_LANES);
    memcpy(sums, chains, sizeof sums);
    for (int half = POP_STEP / 2; half; half /= 2)
        for (int i = 0; i < half; i++) sums[i] += sums[i + half];
    return sums[0];
}

/* The greatest number of a row, unless one is NaN. */
POP_INLINE float top_of(const float *row, int64_t room)
{
    pop_v_f most = pop_v_splat(-INFINITY);
    for (int64_t i = 0; i < room; i += POP_LANES) most = pop_v_max_f(most, pop_v_load_f(row + i));
    float top = most[0];
    for (int l = 1; l < POP_LANES; l++) top = pop_s_max_f(top, most[l]);
    return top;
}

/* What a step's logits have in common: the greatest, and the sum of the exponentials of what the others lie below it. */
typedef struct row_scale { float top, sum; } row_scale;

/* The logarithms of a step's probabilities to row: of logits less the greatest, with the exponentials in `powers`; a sum of
 * NaN where a logit is infinite or NaN. */
static row_scale take_row(const pop_ctc_item *item, const char *p, float *row, float *powers)
{
    const int64_t room = row_room(item->classes);
    read_row(item->format, p, row, item->classes);
    for (int64_t i = item->classes; i < room; i++) row[i] = -INFINITY;
    if (!item->logits) return (row_scale){0.0f, 1.0f};
    const float top = top_of(row, room);
    for (int64_t i = 0; i < room; i += POP_LANES) {
        const pop_v_f x = pop_v_load_f(row + i) - top;
        pop_v_store_f(row + i, x);
        pop_v_store_f(powers + i, pop_v_exp(x));
    }
    return (row_scale){top, sum_of(powers, room)};
}

/* Products of many factors from 1 to 2^31, as a logarithm. */
typedef struct pop_scales { double product, log2; } pop_scales;

POP_INLINE void times(pop_scales *s, float factor)
{
    s->product *= factor;
    if (s->product > 0x1p900) s->log2 += 900, s->product *= 0x1p-900;
}
POP_INLINE double log2_of_scales(const pop_scales *s) { return s->log2 + log2_of(s->product); }
#endif
