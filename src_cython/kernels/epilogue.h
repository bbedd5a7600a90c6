/* What happens to FP32 sums on their way out: y = round(activation(alpha * sum + beta * old + bias)).
 *
 * Shared by the dense and sparse products. Every operation is rounded to FP32 on its own, in the order written, at every
 * level (nothing is contracted), so the bits do not depend on the level; silu and gelu (its tanh form) are within 1 ulp of
 * the exact value (simd/curves.h); the cast to the output format rounds once, to nearest even. Loops are plain C over short lines: the compiler makes vectors of them. */
#ifndef POP_EPILOGUE_H
#define POP_EPILOGUE_H
#include "formats/codec.h"
#include "formats/codec_bytes.h"
#include "kernels/transpose.h"
#include "simd/curves.h"

#define POP_EPILOGUE_LINE 64
#define POP_EPILOGUE_AHEAD 8 /* rows to the results that are prefetched */

#define POP_RECORDS "records/epilogue.def"
#include "records/structs.h"

/* Apply to rows x cols sums, `sums_row` numbers from a row to the next. bias, row_bias and out start at the first of them. */
typedef void (*pop_epilogue_kernel)(const pop_epilogue *e, const float *sums, int64_t sums_row, int64_t rows,
                                    int64_t cols);

#define POP_ACTIVATION(name)                                                                     \
    static __attribute__((noinline)) void pop_activate_##name(float *v, int64_t n)               \
    {                                                                                            \
        const int64_t whole = n - n % POP_LANES;                                                 \
        POP_CURVE_ALONG(pop_v_##name##s, whole, v, pop_v_load_f(v + i))                          \
        const pop_v_part part = pop_v_first(n - whole);                                          \
        if (whole < n) pop_v_store_f_some(v + whole, pop_v_##name(pop_v_load_f_some(v + whole, part)), part); \
    }
POP_ACTIVATION(gelu_tanh)
POP_ACTIVATION(silu)

POP_INLINE void pop_activate(int64_t activation, float *v, int64_t n)
{
    if (activation == POP_ACTIVATION_GELU) pop_activate_gelu_tanh(v, n);
    else if (activation == POP_ACTIVATION_SILU) pop_activate_silu(v, n);
    else if (activation == POP_ACTIVATION_RELU)
        for (int64_t j = 0; j < n; j++) v[j] = v[j] < 0.0f ? 0.0f : v[j];
}

POP_INLINE void pop_decode_line(const pop_format *f, const char *from, float *to, int64_t n)
{
    int64_t j = 0;
    for (; j + POP_LANES <= n; j += POP_LANES) {
        pop_v_f x = pop_v_decode(f, from + j * pop_bytes(f));
        memcpy(to + j, &x, sizeof x);
    }
    for (; j < n; j++) to[j] = pop_s_decode(f, from + j * pop_bytes(f));
}

POP_INLINE void pop_encode_line(const pop_format *f, int64_t overflow, const float *from, char *to, int64_t n)
{
    int64_t j = 0;
#if POP_LEVEL >= POP_LEVEL_AVX2
    if (pop_takes_bytes(f) && n >= 16) {
        pop_encode_rows_of_bytes(f, (int)overflow, to, 0, from, 0, 1, n, 0);
        return;
    }
#endif
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (pop_bf16_in_runs(f, overflow)) {
        pop_bf16_encode_run(from, to, n);
        return;
    }
#endif
    for (; j + POP_LANES <= n; j += POP_LANES) {
        pop_v_f x;
        memcpy(&x, from + j, sizeof x);
        pop_v_encode(f, (int)overflow, to + j * pop_bytes(f), x);
    }
    for (; j < n; j++) pop_s_encode(f, (int)overflow, to + j * pop_bytes(f), from[j]);
}

/* Copies n codes between a line with any stride and a contiguous one. */
POP_INLINE void pop_scatter(int64_t bytes, const char *from, int64_t from_step, char *to, int64_t to_step, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        if (bytes == 4) memcpy(to + j * to_step, from + j * from_step, 4);
        else if (bytes == 2) memcpy(to + j * to_step, from + j * from_step, 2);
        else to[j * to_step] = from[j * from_step];
    }
}

/* Whether sums stay as they are, save for a bias. */
POP_INLINE int pop_epilogue_is_plain(const pop_epilogue *e)
{
    return e->alpha == 1.0f && e->beta == 0.0f && e->activation == POP_ACTIVATION_NONE;
}

/* One line of at most POP_EPILOGUE_LINE sums, to codes `step` bytes apart; `bias` is the line's or NULL, `one` a number for
 * all of it or NULL. */
POP_INLINE void pop_epilogue_line(const pop_format *f, const pop_epilogue *e, const float *sums, const float *bias,
                                  const float *one, char *out, int64_t step, int64_t n)
{
    float v[POP_EPILOGUE_LINE], old[POP_EPILOGUE_LINE];
    char codes[4 * POP_EPILOGUE_LINE];
    const int64_t bytes = pop_bytes(f);
    const int plain = !bias && !one && pop_epilogue_is_plain(e);
    const float *results = plain ? sums : v;
    for (int64_t j = 0; !plain && j < n; j++) v[j] = e->alpha * sums[j];
    if (e->beta != 0.0f) {
        const char *from = out + e->old;
        if (step != bytes) {
            pop_scatter(bytes, from, step, codes, bytes, n);
            from = codes;
        }
        pop_decode_line(f, from, old, n);
        for (int64_t j = 0; j < n; j++) v[j] = v[j] + e->beta * old[j];
    }
    if (bias)
        for (int64_t j = 0; j < n; j++) v[j] = v[j] + bias[j];
    if (one)
        for (int64_t j = 0; j < n; j++) v[j] = v[j] + *one;
    pop_activate(e->activation, v, n);
    pop_encode_line(f, e->overflow, results, step == bytes ? out : codes, n);
    if (step != bytes) pop_scatter(bytes, codes, bytes, out, step, n);
}

/* An output whose columns are contiguous: the sums are transposed, 16 columns at a time, which `lines` takes for rows. */
static __attribute__((noinline)) void pop_epilogue_columns(pop_epilogue_kernel lines, const pop_epilogue *e,
                                                           const float *sums, int64_t sums_row, int64_t rows, int64_t cols)
{
    float turned[16][POP_EPILOGUE_LINE] __attribute__((aligned(64)));
    pop_epilogue part = *e;
    part.out_row = e->out_col;
    part.out_col = e->out_row;
    for (int64_t row = 0; row < rows; row += POP_EPILOGUE_LINE)
        for (int64_t col = 0; col < cols; col += 16) {
            const int64_t high = rows - row < POP_EPILOGUE_LINE ? rows - row : POP_EPILOGUE_LINE;
            const int64_t wide = cols - col < 16 ? cols - col : 16;
            for (int64_t i = 0; i < high; i += 16)
                pop_transpose((const char *)(sums + (row + i) * sums_row + col), 4 * sums_row, high - i < 16 ? high - i : 16,
                              wide, (char *)(turned[0] + i), sizeof turned[0]);
            part.bias = e->row_bias ? e->row_bias + row : NULL;
            part.row_bias = e->bias ? e->bias + col : NULL;
            part.out = e->out + row * e->out_row + col * e->out_col;
            lines(&part, turned[0], POP_EPILOGUE_LINE, wide, high);
        }
}

/* `itself`: the kernel that this is. What becomes of a line is inlined once: it is most of what a family compiles. */
POP_INLINE void pop_epilogue_rows(pop_epilogue_kernel itself, const pop_format *f, const pop_epilogue *e, const float *sums,
                                  int64_t sums_row, int64_t rows, int64_t cols)
{
    if (rows > 1 && e->out_row == pop_bytes(f) && e->out_col != pop_bytes(f)) {
        pop_epilogue_columns(itself, e, sums, sums_row, rows, cols);
        return;
    }
#if POP_LEVEL >= POP_LEVEL_AVX2
    if (pop_takes_bytes(f) && cols >= 16 && e->out_col == 1 && !e->bias && !e->row_bias && pop_epilogue_is_plain(e)) {
        pop_encode_rows_of_bytes(f, (int)e->overflow, e->out, e->out_row, sums, sums_row, rows, cols,
                                 POP_EPILOGUE_AHEAD * e->out_row);
        return;
    }
#endif
#if POP_LEVEL >= POP_LEVEL_AVX512_BF16
    if (pop_bf16_in_runs(f, e->overflow) && e->out_col == 2 && !e->bias && !e->row_bias && pop_epilogue_is_plain(e)) {
        for (int64_t row = 0; row < rows; row++) pop_bf16_encode_run(sums + row * sums_row, e->out + row * e->out_row, cols);
        return;
    }
#endif
    for (int64_t row = 0; row < rows; row++)
        for (int64_t col = 0; col < cols; col += POP_EPILOGUE_LINE)
            pop_epilogue_line(f, e, sums + row * sums_row + col, e->bias ? e->bias + col : NULL,
                              e->row_bias ? e->row_bias + row : NULL, e->out + row * e->out_row + col * e->out_col,
                              e->out_col, cols - col < POP_EPILOGUE_LINE ? cols - col : POP_EPILOGUE_LINE);
}

/* Of a format of 1 byte the layout is the compiler's to know, and the bias, which carries the scale, the call's. */
#define POP_EPILOGUE_SCALED(name, layout) \
    static void pop_epilogue_##name(const pop_epilogue *e, const float *sums, int64_t sums_row, int64_t rows, \
                                    int64_t cols) \
    { \
        pop_format f = layout; \
        f.bias = e->format->bias; \
        pop_epilogue_rows(pop_epilogue_##name, &f, e, sums, sums_row, rows, cols); \
    }
#define POP_EPILOGUE_PLAIN(name, layout) \
    static void pop_epilogue_##name(const pop_epilogue *e, const float *sums, int64_t sums_row, int64_t rows, \
                                    int64_t cols) \
    { \
        pop_epilogue_rows(pop_epilogue_##name, &layout, e, sums, sums_row, rows, cols); \
    }
#define POP_EPILOGUE_4 POP_EPILOGUE_PLAIN
#define POP_EPILOGUE_2 POP_EPILOGUE_PLAIN
#define POP_EPILOGUE_1 POP_EPILOGUE_SCALED
#define POP_EPILOGUE(bytes, constant, function, ...) POP_EPILOGUE_##bytes(function, POP_##constant)
POP_FORMATS(POP_EPILOGUE)
POP_EPILOGUE_PLAIN(any, *e->format)

#define POP_EPILOGUE_ROW(bytes, constant, function, format, ...) \
    {"epilogue", "float32->" format, "epilogue_" #function, POP_FUNCTION(pop_epilogue_##function), {1, 1, 1}, {1, 64, 1}, \
     POP_CONSISTENT},
static const pop_kernel POP_EPILOGUE_KERNELS[] = {POP_FORMATS(POP_EPILOGUE_ROW) POP_EPILOGUE_ROW(0, , any, "any")};
#endif
