/* Norms of rows: each less its mean, over its deviation, scaled and shifted; and the gradients. A row is one segment, or several
 * that have a gamma and a beta each or for all: a segment is summed as sums.h has it, segments in float64. */
#ifndef POP_ROWS_NORM_H
#define POP_ROWS_NORM_H
#include "kernels/rows/sums.h"

#define POP_TURNS (POP_LANES == 16 ? 2 : 1) /* lines whose lanes of products there are registers for */

typedef struct pop_moments { /* of rows that are done at once */
    float mean[POP_ROWS_MOST], inverse[POP_ROWS_MOST]; /* of the deviation */
    double squares[POP_ROWS_MOST];                     /* of what numbers are apart from the mean: their sum */
} pop_moments;

/* Lines that are summed: segments of a row, or rows that are done at once. */
POP_INLINE int64_t pop_row_lines(const pop_row *row) { return row->spec->segments > 1 ? row->spec->segments : row->rows; }
POP_INLINE int64_t pop_row_line_step(const pop_row *row, int k) { return row->spec->segments > 1 ? row->segment[k] : row->step[k]; }
POP_INLINE char *pop_row_line(const pop_row *row, int k, int64_t line) /* NULL where there is none */
{
    return row->at[k] ? (char *)row->at[k] + line * pop_row_line_step(row, k) : NULL;
}
POP_INLINE int64_t pop_row_length(const pop_row *row) /* of a line */
{
    return row->spec->segments > 1 ? row->spec->n / row->spec->segments : row->spec->n;
}
POP_INLINE int pop_row_of_line(const pop_row *row, int64_t line) { return row->spec->segments > 1 ? 0 : (int)line; }
/* Whether the next rows are prefetched: not where a row is long, which comes by itself, unless its segments lie apart. */
POP_INLINE int pop_row_prefetches(const pop_row *row, int64_t length)
{
    return row->spec->segments > 1 || length <= 2 * POP_ROWS_SHORT;
}
/* A number for each line, or what stands for one that is absent. */
POP_INLINE float pop_row_line_number(const pop_row *row, int k, int64_t line, float absent)
{
    float number = absent;
    if (row->at[k]) memcpy(&number, pop_row_line(row, k, line), sizeof number); /* operands need not be aligned */
    return number;
}

POP_INLINE double pop_row_share(const pop_rows *s) { return 1.0 / (double)(s->n ? s->n : 1); } /* that an element has of a mean */
POP_INLINE float pop_row_inverse(const pop_rows *s, double share, double squares)
{
    return (float)(1.0 / sqrt((squares * share + s->epsilon) * s->factor));
}
/* The same of rows' sums, four at a time. */
POP_INLINE void pop_rows_inverses_of(const pop_rows *s, const double *sums, int rows, float *inverse)
{
    const double share = pop_row_share(s);
    for (int q = 0; q < rows; q += POP_FOUR) {
        pop_four_d of;
        memcpy(&of, sums + q, sizeof of);
        of = (of * share + s->epsilon) * s->factor;
        for (int k = 0; k < POP_FOUR; k++) of[k] = sqrt(of[k]);
        const pop_four_f made = __builtin_convertvector(1.0 / of, pop_four_f);
        memcpy(inverse + q, &made, sizeof made);
    }
}
POP_INLINE void pop_rows_means_of(const pop_rows *s, const double *sums, int rows, float *mean)
{
    const double share = pop_row_share(s);
    for (int q = 0; q < rows; q += POP_FOUR) {
        pop_four_d of;
        memcpy(&of, sums + q, sizeof of);
        const pop_four_f made = __builtin_convertvector(of * share, pop_four_f);
        memcpy(mean + q, &made, sizeof made);
    }
}
/* A sum of grad times what x became: that of what x is apart, rounded, times the inverse deviation, which segments await in FP32. */
POP_INLINE float pop_row_product(double sum, float inverse) { return (float)sum * inverse; }

/* Means of rows at once, of operand k. Where there is `near`, numbers go there too, row after row. */
POP_INLINE void pop_rows_means_in(const pop_row *row, const pop_format *f, int k, float *near, pop_moments *m)
{
    const pop_rows *s = row->spec;
    const int64_t lines = pop_row_lines(row), step = pop_row_line_step(row, k), length = pop_row_length(row);
    const int parts = s->segments > 1;
    const char *x = (const char *)row->at[k];
    double all[POP_FOUR] = {0.0}, own[POP_ROWS_MOST];
    if (s->mode != POP_CENTRED) memset(m->mean, 0, sizeof m->mean);
    if (s->mode != POP_CENTRED) return;
    for (int64_t first = 0; first < lines; first += POP_FOUR) {
        if (near)
            POP_FOUR_FOLDED(&POP_F32, own + (parts ? 0 : first), first, lines, length, ({
                                const pop_v_f number = pop_row_read(f, x + q * step, i, part);
                                pop_row_store(near + q * length, i, number, part);
                                lane + number;
                            }));
        else POP_FOUR_FOLDED(f, own + (parts ? 0 : first), first, lines, length, lane + POP_ROW_READ(f, x + q * step));
        for (int64_t q = 0; parts && q < POP_FOUR && q < lines - first; q++) all[0] += own[q];
    }
    pop_rows_means_of(s, parts ? all : own, row->rows, m->mean);
    for (int q = 1; parts && q < POP_FOUR; q++) m->mean[q] = m->mean[0]; /* its segments' */
}
/* Lanes of squares of what numbers of four lines of one stretch, of whole groups, are apart from their means. A product waits for the
 * last one of its lane: where there are registers, two lines take turns. Lines at `ahead`, in the format f, are prefetched meanwhile. */
POP_INLINE void pop_four_squares(const pop_format *f, const pop_format *of_x, const char *x, int64_t step, int64_t n, const float *mean,
                                 uintptr_t ahead, int64_t ahead_step, pop_v_f *made)
{
    _Pragma("GCC unroll 4") for (int q = 0; q < POP_FOUR; q += POP_TURNS) {
        const char *line = x + q * step, *other = line + step;
        const uintptr_t next = ahead + (uintptr_t)(q * ahead_step), other_next = next + (uintptr_t)ahead_step;
        const pop_v_f less = pop_v_splat(mean[q]), other_less = pop_v_splat(mean[q + POP_TURNS - 1]);
        pop_lanes squares = pop_lanes_of(0.0f), others = squares;
        const int halves = POP_ROW_HALVES(of_x);
        int64_t i = 0;
        POP_ROW_WHOLE(n,
                      pop_row_prefetch(f, next, i, k, 0);
                      const pop_v_f d = POP_ROW_READ(of_x, line) - less;
                      squares.v[k] = pop_v_fma(d, d, squares.v[k]);
                      if (POP_TURNS > 1) {
                          pop_row_prefetch(f, other_next, i, k, 0);
                          const pop_v_f e = POP_ROW_READ(of_x, other) - other_less;
                          others.v[k] = pop_v_fma(e, e, others.v[k]);
                      })
        made[q] = pop_lanes_plus_of(&squares, halves);
        if (POP_TURNS > 1) made[q + POP_TURNS - 1] = pop_lanes_plus_of(&others, halves);
    }
}
POP_INLINE void pop_rows_inverses_in(const pop_row *row, const pop_format *f, const float *near, pop_moments *m)
{
    const pop_rows *s = row->spec;
    const pop_format *of_x = near ? &POP_F32 : f;
    const int64_t lines = pop_row_lines(row), length = pop_row_length(row), line_step = pop_row_line_step(row, 0);
    const int64_t step = near ? length * (int64_t)sizeof *near : line_step;
    const int parts = s->segments > 1;
    const char *x = near ? (const char *)near : (const char *)row->at[0];
    const uintptr_t ahead = pop_beyond(row->at[0], row->rows * row->step[0]);
    const int prefetches = pop_row_prefetches(row, length);
    const pop_four_d none = {0.0};
    double all[POP_FOUR] = {0.0}, *own = m->squares;
    for (int q = 0; q < POP_ROWS_MOST && s->mode == POP_NO_STATISTICS; q++) m->inverse[q] = 1.0f;
    if (s->mode == POP_NO_STATISTICS) return;
    for (int64_t first = 0; first < lines; first += POP_FOUR) {
        const float *mean = m->mean + (parts ? 0 : first);
        const char *at = x + first * step;
        const uintptr_t next = ahead + (uintptr_t)(first * line_step);
        double *to = own + (parts ? 0 : first);
        pop_v_f last[POP_FOUR];
        if (pop_row_whole(length) && lines - first >= POP_FOUR) {
            pop_four_squares(f, of_x, at, step, length, mean, next, line_step, last);
            pop_four_sums(last, &none, to);
        } else
            POP_FOUR_PARTS(to, 0, lines - first, length, ({
                               if (prefetches) pop_row_prefetch(f, next + (uintptr_t)(q * line_step), i, k, 0);
                               const pop_v_f less = pop_v_splat(mean[q]);
                               const pop_v_f d = pop_row_else(pop_row_read(of_x, at + q * step, i, part) - less, 0.0f, part);
                               pop_v_fma(d, d, lane);
                           }));
        for (int64_t q = 0; parts && q < POP_FOUR && q < lines - first; q++) all[0] += own[q];
    }
    if (parts) memcpy(own, all, sizeof all);
    pop_rows_inverses_of(s, own, row->rows, m->inverse);
}

#define POP_ROWS_MOMENTS_OF(suffix, format)                                                                            \
    POP_ROWS_SHARED void pop_rows_means_##suffix(const pop_row *row, int k, float *near, pop_moments *m)               \
    {                                                                                                                  \
        if (near && !pop_is_f32(&POP_##format)) pop_rows_means_in(row, &POP_##format, k, near, m);                     \
        else pop_rows_means_in(row, &POP_##format, k, NULL, m);                                                        \
    }                                                                                                                  \
    POP_ROWS_SHARED void pop_rows_inverses_##suffix(const pop_row *row, const float *near, pop_moments *m)             \
    {                                                                                                                  \
        if (near && !pop_is_f32(&POP_##format)) pop_rows_inverses_in(row, &POP_##format, near, m);                     \
        else pop_rows_inverses_in(row, &POP_##format, NULL, m);                                                        \
    }
POP_ROWS_FORMATS(POP_ROWS_MOMENTS_OF)

/* Short rows that have means are decoded once where that takes longer than to read what was decoded, with what else the first-level cache
 * holds: at AVX2 those of BF16 that are not of whole groups (of these gradients take as long either way), else those of FP16. Where, or NULL. */
POP_INLINE float *pop_row_near(const pop_row *row, const pop_format *f)
{
    const pop_rows *s = row->spec;
    const int slow = POP_LANES == 8 ? pop_row_is_bf16(f) && !pop_row_whole(s->n) : pop_is_f16(f);
    return slow && s->mode == POP_CENTRED && s->segments == 1 && s->n <= POP_ROWS_SHORT ? row->room : NULL;
}

/* Places of a line from `begin` to `end`, or of POP_LINES, from x to `to`: what they are apart from the mean, times the inverse
 * deviation and gamma, or their product where that is one number, plus beta. Where the next rows are written is prefetched. */
POP_INLINE void pop_row_normed(const pop_row *row, const pop_format *f, const float *near, int64_t line, const int lines,
                               const pop_moments *m, int64_t begin, int64_t end, const int weighed, const int shifted)
{
    const float *gamma = weighed ? (const float *)(const void *)pop_row_line(row, 1, line) + begin : NULL;
    const float *beta = shifted ? (const float *)(const void *)pop_row_line(row, 2, line) + begin : NULL;
    const int64_t n = end - begin, offset = begin * pop_bytes(f), next = row->rows * row->step[3];
    const char *x[POP_LINES];
    char *to[POP_LINES];
    pop_v_f less[POP_LINES], by[POP_LINES];
    for (int q = 0; q < lines; q++) {
        const int own = pop_row_of_line(row, line + q);
        const float outer = weighed ? 1.0f : pop_row_line_number(row, 1, line + q, 1.0f);
        x[q] = pop_row_line(row, 0, line + q) + offset, to[q] = pop_row_line(row, 3, line + q) + offset;
        less[q] = pop_v_splat(m->mean[own]), by[q] = pop_v_splat(m->inverse[own] * outer);
    }
    const int prefetches = pop_row_prefetches(row, pop_row_length(row));
    const pop_v_f shift = pop_v_splat(shifted ? 0.0f : pop_row_line_number(row, 2, line, -0.0f));
    POP_ROW_WRITTEN_OF(!near && POP_ROW_HALVES(f), f, to[0], n,
                    const pop_v_f times = weighed ? POP_ROW_LOAD(gamma) : by[0];
                    const pop_v_f plus = shifted ? POP_ROW_LOAD(beta) : shift;
                    pop_v_f made[POP_LINES];
                    POP_LINES_EACH(lines) {
                        if (prefetches) pop_row_prefetch(f, pop_beyond(to[q], next), i, k, 1);
                        pop_v_f y = near ? pop_row_load(near + (line + q) * n, i, part) : POP_ROW_READ(f, x[q]);
                        y = y - less[q];
                        if (weighed) y = y * by[q];
                        made[q] = pop_v_fma(y, times, plus);
                    }
                    POP_ROWS_PUT(f, to, lines, made););
}
/* Long rows are written part by part, whose gammas and betas stay in the first cache. */
POP_INLINE void pop_row_norm_of(const pop_row *row, const pop_format *f, const float *near, const pop_moments *m)
{
    const pop_rows_operand *o = row->spec->operands;
    const int equal = row->spec->segments == 1 && !row->step[1] && !row->step[2];
    const int64_t n = pop_row_length(row), lines = pop_row_lines(row), width = row->spec->segments > 1 ? n : 2 * POP_ROWS_SHORT;
    for (int64_t begin = 0, end; begin < n; begin = end) {
        end = n - begin < width ? n : begin + width;
        for (int64_t line = 0, here; line < lines; line += here) {
            const int weighed = !o[1].single && row->at[1], shifted = !o[2].single && row->at[2];
            here = weighed && shifted && equal && lines - line >= POP_LINES ? POP_LINES : 1;
            if (here > 1) pop_row_normed(row, f, near, line, POP_LINES, m, begin, end, 1, 1);
            else if (weighed && shifted) pop_row_normed(row, f, near, line, 1, m, begin, end, 1, 1);
            else if (!weighed && !shifted) pop_row_normed(row, f, near, line, 1, m, begin, end, 0, 0);
            else if (weighed) pop_row_normed(row, f, near, line, 1, m, begin, end, 1, 0);
            else pop_row_normed(row, f, near, line, 1, m, begin, end, 0, 1);
        }
    }
}

/* What a sum of squares is apart from the mean, at least 0. */
POP_INLINE double pop_row_squares_apart(const pop_rows *s, double squares, float mean)
{
    const double apart = squares - (double)s->n * ((double)mean * (double)mean);
    return apart < 0.0 ? 0.0 : apart;
}
/* As what makes them of given means, of the squares themselves, from which these means' are taken. */
POP_ROWS_SHARED void pop_rows_raw(const pop_row *row, const float *near, void (*inverses)(const pop_row *, const float *, pop_moments *),
                                  pop_moments *m)
{
    pop_moments own = {.mean = {0.0f}};
    inverses(row, near, &own);
    for (int q = 0; q < POP_ROWS_MOST; q++) m->squares[q] = q < row->rows ? pop_row_squares_apart(row->spec, own.squares[q], m->mean[q]) : 0.0;
    pop_rows_inverses_of(row->spec, m->squares, row->rows, m->inverse);
}
/* Means and variances, to 4 and 5. */
POP_ROWS_SHARED void pop_rows_told(const pop_row *row, const pop_moments *m)
{
    const double share = pop_row_share(row->spec);
    for (int q = 0; q < row->rows; q++) {
        *(float *)(void *)pop_row_line(row, 4, q) = m->mean[q];
        *(float *)(void *)pop_row_line(row, 5, q) = (float)(m->squares[q] * share);
    }
}

/* Whether rows take turns: those of 16 bits that are neither short nor long, of whole groups, scaled and shifted alike. */
POP_INLINE int pop_norm_turns(const pop_rows *s, const pop_format *f)
{
    const pop_rows_operand *gamma = s->operands + 1, *beta = s->operands + 2;
    const int alike = gamma->operand >= 0 && !gamma->single && gamma->constant && beta->operand >= 0 && !beta->single && beta->constant;
    return POP_LANES == 16 && !pop_is_f32(f) && s->mode == POP_CENTRED && s->segments == 1 && s->n > POP_ROWS_EIGHTS && s->n <= POP_ROWS_SHORT &&
           s->n % POP_ROW_LANES == 0 && alike && s->operands[4].operand < 0 && !s->raw;
}
/* Lanes of sums of the two rows at x, which go to `near` where there is one; and of squares of what the two at `before` are apart from
 * their means. The two rows after x are prefetched. */
POP_INLINE void pop_turn_sums(const pop_format *f, const char *x, int64_t step, float *near, const char *before, int64_t before_step,
                              const float *mean, int64_t n, pop_v_f *made)
{
    const pop_format *of_before = near ? &POP_F32 : f;
    const char *other = x + step, *other_before = before + before_step;
    const pop_v_f less = pop_v_splat(mean[0]), other_less = pop_v_splat(mean[1]);
    pop_lanes sums = pop_lanes_of(0.0f), other_sums = sums, squares = sums, other_squares = sums;
    int64_t i = 0;
    POP_ROW_WHOLE(n,
                  const pop_v_f d = pop_row_read(of_before, before, i, part) - less;
                  const pop_v_f e = pop_row_read(of_before, other_before, i, part) - other_less;
                  squares.v[k] = pop_v_fma(d, d, squares.v[k]), other_squares.v[k] = pop_v_fma(e, e, other_squares.v[k]);
                  pop_row_prefetch(f, pop_beyond(x, 2 * step), i, k, 0), pop_row_prefetch(f, pop_beyond(other, 2 * step), i, k, 0);
                  const pop_v_f own = pop_row_read(f, x, i, part), others = pop_row_read(f, other, i, part);
                  if (near) pop_row_store(near, i, own, part), pop_row_store(near + n, i, others, part);
                  sums.v[k] = sums.v[k] + own, other_sums.v[k] = other_sums.v[k] + others;)
    made[0] = pop_lanes_plus(&sums), made[1] = pop_lanes_plus(&other_sums);
    made[2] = pop_lanes_plus(&squares), made[3] = pop_lanes_plus(&other_squares);
}
/* Two rows are summed while squares of the two before are, and then the two before these are written: nothing waits for means, for
 * roots or for memory. There is room for six rows nearby. */
POP_INLINE void pop_rows_turns(const pop_row *row, const pop_format *f, float *near)
{
    const pop_rows *s = row->spec;
    const int64_t n = s->n, pairs = row->rows / 2, step = row->step[0], line = near ? n * (int64_t)sizeof *near : step;
    const pop_four_d none = {0.0};
    pop_moments m[3];
    pop_row pair = *row;
    pair.rows = 2;
    POP_ROWS_OF(pop_rows_means, f)(&pair, 0, near, m);
    for (int64_t t = 1; t < pairs + 2; t++) {
        pop_moments *summed = m + t % 3, *squared = m + (t + 2) % 3, *written = m + (t + 1) % 3;
        float *const near_summed = near ? near + (summed - m) * 2 * n : NULL, *const near_written = near ? near + (written - m) * 2 * n : NULL;
        if (t <= pairs) {
            const char *x = (const char *)row->at[0] + (t < pairs ? t : t - 1) * 2 * step; /* after the last are none: any do */
            const char *before = near ? (const char *)(near + (squared - m) * 2 * n) : (const char *)row->at[0] + (t - 1) * 2 * step;
            pop_v_f last[POP_FOUR];
            double sums[POP_FOUR];
            float made[POP_FOUR];
            pop_turn_sums(f, x, step, near_summed, before, line, squared->mean, n, last);
            pop_four_sums(last, &none, sums);
            pop_rows_means_of(s, sums, POP_FOUR, made), memcpy(summed->mean, made, 2 * sizeof *made);
            pop_rows_inverses_of(s, sums, POP_FOUR, made), memcpy(squared->inverse, made + 2, 2 * sizeof *made);
        }
        if (t < 2) continue;
        pair.at[0] = (char *)row->at[0] + (t - 2) * 2 * step, pair.at[3] = (char *)row->at[3] + (t - 2) * 2 * row->step[3];
        pop_row_normed(&pair, f, near_written, 0, 2, written, 0, n, 1, 1);
    }
}

/* x, gamma, beta, result, mean, variance; x alone need be there: times one and plus minus zero change no bit. */
POP_INLINE void pop_row_norm_at_once(const pop_row *row, const pop_format *f, float *near)
{
    pop_moments m;
    POP_ROWS_OF(pop_rows_means, f)(row, 0, near, &m);
    if (row->spec->raw) pop_rows_raw(row, near, POP_ROWS_OF(pop_rows_inverses, f), &m);
    else POP_ROWS_OF(pop_rows_inverses, f)(row, near, &m);
    if (row->at[4]) pop_rows_told(row, &m);
    if (!row->at[3]) return;
    if (near) pop_row_norm_of(row, f, near, &m);
    else pop_row_norm_of(row, f, NULL, &m);
}
POP_INLINE void pop_row_norm(pop_row *row, const pop_format *f)
{
    float *near = pop_row_near(row, f);
    if (pop_norm_turns(row->spec, f) && row->rows > POP_ROWS_NEARBY) {
        const int even = row->rows / 2 * 2;
        if (!pop_is_f16(f)) pop_rows_turns(row, f, NULL);
        else if (near) pop_rows_turns(row, f, near);
        if (row->rows == even) return;
        row->rows -= even;
        for (int k = 0; k < 4; k++) row->at[k] = pop_row_line(row, k, even);
        pop_row_norm_at_once(row, f, near);
        row->rows += even;
    } else
        pop_row_norm_at_once(row, f, near);
}

/* Sums that gradients are made of: of squares of what x is apart from its mean, of d, which is grad, times gamma where each place
 * has its own, and of d times what x is apart. */
enum { POP_BACK_SQUARES, POP_BACK_GRADS, POP_BACK_PRODUCTS, POP_BACK_SUMS };

typedef struct pop_norm_back {
    double sums[POP_BACK_SUMS][POP_ROWS_MOST];
    pop_moments m;
    const float *gamma; /* of each place, or NULL */
    float *near;        /* x as pop_row_near has it, or NULL */
    uintptr_t next_x;   /* where the next rows' lines of x are, */
    int64_t line;       /* so far apart */
} pop_norm_back;

/* Lanes of such sums of a stretch. */
POP_INLINE void pop_row_lanes_back(const pop_format *f, const pop_format *of_x, const char *g, const char *x, const float *gamma, float mean, int64_t begin,
                                   int64_t end, uintptr_t next_g, uintptr_t next_x, pop_v_f *made, int64_t apart)
{
    const pop_v_f less = pop_v_splat(mean);
    pop_lanes squares = pop_lanes_of(0.0f), grads = squares, products = squares;
    _Pragma("GCC unroll 2") for (int at = 0; at < POP_ROW_VECTORS; at += POP_ROW_THREE)
        POP_ROW_EACH_OF(at, at + POP_ROW_THREE, begin, end,
                        pop_row_prefetch(f, next_g, i, k, 0), pop_row_prefetch(f, next_x, i, k, 0);
                        const pop_v_f d = pop_row_else(pop_row_read(of_x, x, i, part) - less, 0.0f, part);
                        pop_v_f own = pop_row_read(f, g, i, part);
                        if (gamma) own = own * pop_row_load(gamma, i, part);
                        squares.v[k] = pop_v_fma(d, d, squares.v[k]);
                        grads.v[k] = grads.v[k] + own;
                        products.v[k] = pop_v_fma(own, d, products.v[k]););
    made[0] = pop_lanes_plus(&squares), made[apart] = pop_lanes_plus(&grads), made[2 * apart] = pop_lanes_plus(&products);
}

/* Of `some` lines from `first` on, to `own`. */
POP_INLINE void pop_rows_lines_back(const pop_row *row, const pop_format *f, const pop_format *of_x, const pop_norm_back *b,
                                    int64_t first, int some, double own[POP_BACK_SUMS][POP_ROWS_MOST])
{
    const int64_t n = pop_row_length(row);
    pop_v_f last[POP_BACK_SUMS][POP_ROWS_MOST];
    pop_four_d before[POP_BACK_SUMS][POP_ROWS_MOST / POP_FOUR];
    memset(before, 0, sizeof before);
    for (int q = 0; q < some; q++) {
        const char *g = pop_row_line(row, 0, first + q), *x = pop_row_line(row, 1, first + q);
        const uintptr_t next_g = pop_beyond(g, row->rows * row->step[0]), next_x = b->next_x + (uintptr_t)((first + q) * b->line);
        const float mean = b->m.mean[pop_row_of_line(row, q)];
        for (int64_t begin = 0; begin < n; begin += POP_STRETCH) {
            const int64_t end = n - begin < POP_STRETCH ? n : begin + POP_STRETCH;
            if (b->gamma) pop_row_lanes_back(f, of_x, g, x, b->gamma, mean, begin, end, next_g, next_x, last[0] + q, POP_ROWS_MOST);
            else pop_row_lanes_back(f, of_x, g, x, NULL, mean, begin, end, next_g, next_x, last[0] + q, POP_ROWS_MOST);
            for (int t = 0; t < POP_BACK_SUMS && end < n; t++)
                before[t][q / POP_FOUR][q % POP_FOUR] += (double)pop_lane_sum(last[t][q]);
        }
    }
    for (int t = 0; t < POP_BACK_SUMS; t++) {
        for (int q = n ? some : 0; q < some || q % POP_FOUR; q++) last[t][q] = pop_v_splat(0.0f);
        for (int q = 0; q < some; q += POP_FOUR) pop_four_sums(last[t] + q, before[t] + q / POP_FOUR, own[t] + q);
    }
}

/* The rows' sums, those of segments by their gammas, and moments. At 4 and 5 sums of each segment of grad times what x became, and
 * of grad. */
POP_INLINE void pop_rows_sums_back_in(const pop_row *row, const pop_format *f, pop_norm_back *b)
{
    const int64_t lines = pop_row_lines(row);
    const int weighed = row->spec->operands[2].single == POP_EACH_SEGMENT, parts = row->spec->operands[4].single == POP_EACH_SEGMENT;
    double own[POP_BACK_SUMS][POP_ROWS_MOST];
    pop_row read = *row;
    memset(b->sums, 0, sizeof b->sums);
    b->next_x = pop_beyond(row->at[1], row->rows * row->step[1]), b->line = pop_row_line_step(row, 1);
    POP_ROWS_OF(pop_rows_means, f)(row, 1, b->near, &b->m);
    if (b->near) read.at[1] = b->near, read.step[1] = row->spec->n * (int64_t)sizeof *b->near;
    for (int64_t first = 0; first < lines; first += POP_ROWS_MOST) {
        const int some = lines - first < POP_ROWS_MOST ? (int)(lines - first) : POP_ROWS_MOST;
        if (b->near) pop_rows_lines_back(&read, f, &POP_F32, b, first, some, own);
        else pop_rows_lines_back(row, f, f, b, first, some, own);
        for (int q = 0; q < some; q++)
            for (int t = 0; t < POP_BACK_SUMS; t++) {
                const double by = weighed && t != POP_BACK_SQUARES ? (double)pop_row_line_number(row, 2, first + q, 1.0f) : 1.0;
                b->sums[t][pop_row_of_line(row, q)] += by * own[t][q];
            }
        for (int q = 0; q < some && parts; q++) {
            *(float *)(void *)pop_row_line(row, 4, first + q) = (float)own[POP_BACK_PRODUCTS][q];
            *(float *)(void *)pop_row_line(row, 5, first + q) = (float)own[POP_BACK_GRADS][q];
        }
    }
    pop_rows_inverses_of(row->spec, b->sums[POP_BACK_SQUARES], row->rows, b->m.inverse);
    for (int64_t line = 0; line < lines && parts; line++)
        *(float *)(void *)pop_row_line(row, 4, line) *= b->m.inverse[pop_row_of_line(row, line)];
}
#define POP_ROWS_BACK_OF(suffix, format)                                                                               \
    POP_ROWS_SHARED void pop_rows_sums_back_##suffix(const pop_row *row, pop_norm_back *b) { pop_rows_sums_back_in(row, &POP_##format, b); }
POP_ROWS_FORMATS(POP_ROWS_BACK_OF)

#define POP_BACK_LINES 2 /* that are done at once */
/* What makes a line's gradient: grad times `scale`, which is the inverse deviation, times gamma where a line has one, less `share`
 * of what x became, less `mean`. */
typedef struct pop_line_back {
    const char *g, *x;
    char *to;
    uintptr_t next_to;
    float less, inverse, scale, share, mean;
} pop_line_back;

POP_INLINE void pop_line_back_of(const pop_row *row, const pop_norm_back *b, double part, int64_t line, pop_line_back *l)
{
    const pop_rows *s = row->spec;
    const int q = pop_row_of_line(row, line), outside = !b->gamma && s->operands[2].single == 1;
    const float gamma = b->gamma ? 1.0f : pop_row_line_number(row, 2, line, 1.0f);
    const double outer = outside ? (double)gamma : 1.0, inverse = (double)b->m.inverse[q];
    const char *g = pop_row_line(row, 0, line), *x = pop_row_line(row, 1, line);
    char *to = pop_row_line(row, 3, line);
    *l = (pop_line_back){
        g, b->near ? (const char *)(b->near + line * s->n) : x, to, pop_beyond(to, row->rows * row->step[3]), b->m.mean[q], b->m.inverse[q],
        b->m.inverse[q] * gamma,
        -(float)(outer * b->sums[POP_BACK_PRODUCTS][q] * inverse * part * s->scale * inverse),
        s->mode == POP_CENTRED ? -(float)(outer * b->sums[POP_BACK_GRADS][q] * part * inverse) : -0.0f};
}

/* Gradients of one line or of POP_BACK_LINES, of equal gammas where each place has its own. `blocks`: for each place sums over lines of
 * grad times what x became, and of grad, that are added to. Lines may lie whole pages apart: all are read, then written. */
POP_INLINE void pop_lines_back(const pop_format *f, const pop_format *of_x, const pop_line_back *of, int lines, int64_t n,
                               const float *gamma, float *blocks, const int adds)
{
    pop_v_f less[POP_BACK_LINES], by[POP_BACK_LINES], share[POP_BACK_LINES], mean[POP_BACK_LINES], scale[POP_BACK_LINES];
    char *to[POP_BACK_LINES];
    for (int q = 0; q < lines; q++) {
        to[q] = of[q].to;
        less[q] = pop_v_splat(of[q].less), by[q] = pop_v_splat(of[q].inverse), share[q] = pop_v_splat(of[q].share);
        mean[q] = pop_v_splat(of[q].mean), scale[q] = pop_v_splat(of[q].scale);
    }
    POP_ROW_WRITTEN(f, of->to, n,
                    pop_v_f product = pop_v_splat(0.0f), total = product, made[POP_BACK_LINES];
                    if (adds) product = pop_row_load(blocks, i, part), total = pop_row_load(blocks + n, i, part);
                    for (int q = 0; q < lines; q++) {
                        pop_row_prefetch(f, of[q].next_to, i, k, 1);
                        const pop_v_f g = pop_row_read(f, of[q].g, i, part);
                        const pop_v_f y = (pop_row_read(of_x, of[q].x, i, part) - less[q]) * by[q];
                        const pop_v_f d = gamma ? g * pop_row_load(gamma, i, part) : g;
                        made[q] = pop_v_fma(d, scale[q], pop_v_fma(y, share[q], mean[q]));
                        product = pop_v_fma(g, y, product), total = total + g;
                    }
                    POP_ROWS_PUT(f, to, lines, made);
                    if (adds) pop_row_store(blocks, i, product, part), pop_row_store(blocks + n, i, total, part););
}

/* Lines of rows that are done at once. */
POP_INLINE void pop_rows_back(const pop_row *row, const pop_format *f, const pop_format *of_x, const pop_norm_back *b, float *blocks, const int adds)
{
    const double part = pop_row_share(row->spec);
    const int64_t lines = pop_row_lines(row), length = pop_row_length(row);
    pop_line_back own[POP_BACK_LINES];
    for (int64_t line = 0, here; line < lines; line += here) {
        here = adds && lines - line >= POP_BACK_LINES ? POP_BACK_LINES : 1;
        for (int q = 0; q < here; q++) pop_line_back_of(row, b, part, line + q, own + q);
        if (b->gamma && here > 1) pop_lines_back(f, of_x, own, POP_BACK_LINES, length, b->gamma, blocks, adds);
        else if (b->gamma) pop_lines_back(f, of_x, own, 1, length, b->gamma, blocks, adds);
        else if (here > 1) pop_lines_back(f, of_x, own, POP_BACK_LINES, length, NULL, blocks, adds);
        else pop_lines_back(f, of_x, own, 1, length, NULL, blocks, adds);
    }
}

/* grad, x, gamma, result; at 6 and 7 the rows' sums of grad times what x became, and of grad, or at 4 and 5 segments'. */
POP_INLINE void pop_row_norm_grad(pop_row *row, const pop_format *f)
{
    pop_norm_back b = {.gamma = row->spec->operands[2].single ? NULL : (const float *)row->at[2]};
    POP_ROWS_OF(pop_rows_sums_back, f)(row, &b);
    for (int q = 0; q < row->rows && row->at[6]; q++) {
        *(float *)(void *)pop_row_line(row, 6, q) = pop_row_product(b.sums[POP_BACK_PRODUCTS][q], b.m.inverse[q]);
        *(float *)(void *)pop_row_line(row, 7, q) = (float)b.sums[POP_BACK_GRADS][q];
    }
    pop_rows_back(row, f, f, &b, NULL, 0);
}

#define POP_BLOCK_ROWS 32 /* that are added in FP32 */

/* grad, x, gamma, result, sums of blocks of rows: of grad times what x became, then of grad, for each place of a row. */
POP_INLINE void pop_row_norm_grad_blocks(pop_row *row, const pop_format *f)
{
    const int64_t n = row->spec->n;
    float *blocks = (float *)row->at[4] + row->number / POP_BLOCK_ROWS * 2 * n;
    pop_norm_back b = {.gamma = row->spec->operands[2].single ? NULL : (const float *)row->at[2], .near = pop_row_near(row, f)};
    if (row->number % POP_BLOCK_ROWS == 0) memset(blocks, 0, 2 * (size_t)n * sizeof *blocks);
    POP_ROWS_OF(pop_rows_sums_back, f)(row, &b);
    if (b.near) pop_rows_back(row, f, &POP_F32, &b, blocks, 1);
    else pop_rows_back(row, f, f, &b, blocks, 1);
}
#endif
