/* What blocks come to, and how those of a row are merged: in float64, in ascending order, so that the error of a row is that
 * of its blocks. A state is two numbers for each result, `a` and `b`:
 *   sums, products, extremes   a
 *   moments                    the mean, and the sum of squares of what lies apart from it (Chan, Golub and LeVeque)
 *   logarithms                 the greatest element, and the sum of exponentials of the elements less that
 *   places of extremes         the number, and which element of the row it is
 * All levels give the same bits: every operation is rounded once. */
#ifndef POP_REDUCE_STATE_H
#define POP_REDUCE_STATE_H
#include "kernels/reduce/blocks.h"
#include "records/enums.h"

#define POP_RECORDS "records/reduce.def"
#include "records/structs.h"

#define POP_ABREAST 4 /* results that are merged side by side */

typedef struct pop_state {
    double a[POP_STRIP], b[POP_STRIP];
} pop_state;

/* What a pass over blocks gives: both accumulators, the shift, and where the first such number is. */
typedef struct pop_block_results {
    float first[POP_STRIP], second[POP_STRIP], shift[POP_STRIP];
    int32_t place[POP_STRIP];
} pop_block_results;

/* The states of `count` blocks of n elements, of which the first is element `begin` of its row. */
static void pop_state_begin(int state, pop_state *s, const pop_block_results *r, int64_t n, int64_t begin, int64_t count)
{
    if (state == POP_STATE_MOMENTS) {
        const double size = (double)n;
        for (int64_t i = 0; i < count; i++) {
            const double apart = r->first[i], moment = r->second[i] - apart * apart / size;
            s->a[i] = r->shift[i] + apart / size;
            s->b[i] = moment < 0.0 ? 0.0 : moment; /* squares may have underflowed */
        }
    } else if (state == POP_STATE_LOG) {
        for (int64_t i = 0; i < count; i++) {
            s->a[i] = r->first[i] == 0.0f ? -INFINITY : r->shift[i]; /* of nothing but minus infinity */
            s->b[i] = r->first[i];
        }
    } else if (state == POP_STATE_COMPENSATED) {
        for (int64_t i = 0; i < count; i++) {
            const double lost = r->second[i] == r->second[i] ? r->second[i] : 0.0; /* infinities have no error */
            s->a[i] = r->first[i] + lost;
        }
    } else {
        for (int64_t i = 0; i < count; i++) s->a[i] = r->first[i];
        if (state == POP_STATE_ARGMAX || state == POP_STATE_ARGMIN)
            for (int64_t i = 0; i < count; i++) s->b[i] = (double)(begin + r->place[i]);
    }
}

POP_INLINE double pop_state_exp(double x)
{
    return pop_h_exp(pop_h_splat(x > -500.0 ? x : x == x ? -500.0 : x))[0];
}

static void pop_merge_log(double *a, double *b, double a2, double b2)
{
    const double top = a2 > *a ? a2 : *a;
    if (top > -INFINITY) {
        *b = *b * pop_state_exp(*a - top) + b2 * pop_state_exp(a2 - top);
        *a = top;
    }
}

POP_INLINE int pop_is_better(double x, double best, int least)
{
    if (x != x) return best == best;
    return least ? x < best : x > best;
}

/* Merge the state of n more elements, at i of `more`, into that of `held` ones, at `to` of s. */
POP_INLINE void pop_state_merge(int state, pop_state *s, int64_t to, double held, const pop_state *more, int64_t i, double n)
{
    double *a = s->a + to, *b = s->b + to;
    const double a2 = more->a[i], b2 = more->b[i];
    if (state == POP_STATE_PRODUCT) {
        *a *= a2;
    } else if (state == POP_STATE_MAX || state == POP_STATE_MIN) {
        if (pop_is_better(a2, *a, state == POP_STATE_MIN)) *a = a2;
    } else if (state == POP_STATE_MOMENTS) {
        const double all = held + n, apart = a2 - *a;
        *a += apart * (n / all);
        *b += b2 + apart * apart * (held * (n / all));
    } else if (state == POP_STATE_LOG) {
        pop_merge_log(a, b, a2, b2);
    } else if (state == POP_STATE_ARGMAX || state == POP_STATE_ARGMIN) {
        if (pop_is_better(a2, *a, state == POP_STATE_ARGMIN)) *a = a2, *b = b2;
    } else {
        *a += a2;
    }
}

/* Of each result, the state of n more elements into that of `held` ones. */
static void pop_state_merge_all(int state, pop_state *s, int64_t held, const pop_state *more, int64_t n, int64_t count)
{
    const double before = (double)held, size = (double)n;
    if (held == 0) {
        memcpy(s->a, more->a, (size_t)count * sizeof *s->a);
        memcpy(s->b, more->b, (size_t)count * sizeof *s->b);
    } else if (state == POP_STATE_SUM || state == POP_STATE_COMPENSATED) {
        for (int64_t i = 0; i < count; i++) s->a[i] += more->a[i];
    } else if (state == POP_STATE_MOMENTS) {
        for (int64_t i = 0; i < count; i++) pop_state_merge(POP_STATE_MOMENTS, s, i, before, more, i, size);
    } else {
        for (int64_t i = 0; i < count; i++) pop_state_merge(state, s, i, before, more, i, size);
    }
}

/* The best of `best` and of numbers from i on. Comparisons that no branch waits for pass over NaN, which is looked for apart. */
POP_INLINE double pop_best_of_run(double best, const double *x, int64_t i, int64_t end, int least)
{
    const double before = best;
    int nan = 0;
    for (int64_t k = i; k < end; k++) {
        nan |= x[k] != x[k];
        best = (least ? x[k] < best : x[k] > best) ? x[k] : best;
    }
    if (!nan) return best;
    for (best = before; i < end; i++)
        if (pop_is_better(x[i], best, least)) best = x[i];
    return best;
}

/* Of one result, at `to` of s: the states of `count` blocks of n elements one after another, from i of `more` on. */
static void pop_state_merge_run(int state, pop_state *s, int64_t to, int64_t held, const pop_state *more, int64_t i, int64_t n,
                                int64_t count)
{
    count += i;
    if (held == 0) {
        s->a[to] = more->a[i], s->b[to] = more->b[i];
        i++, held = n;
    }
    if (state == POP_STATE_SUM || state == POP_STATE_COMPENSATED) {
        double sum = s->a[to];
        for (; i < count; i++) sum += more->a[i];
        s->a[to] = sum;
        return;
    }
    if (state == POP_STATE_MAX || state == POP_STATE_MIN) {
        const int least = state == POP_STATE_MIN;
        s->a[to] = least ? pop_best_of_run(s->a[to], more->a, i, count, 1) : pop_best_of_run(s->a[to], more->a, i, count, 0);
        return;
    }
    for (; i < count; i++, held += n) pop_state_merge(state, s, to, (double)held, more, i, (double)n);
}

/* Of each of `count` results, the states of `blocks` blocks of n elements: those of a result one after another in `more`. */
static void pop_state_merge_runs(int state, pop_state *s, const pop_state *more, int64_t n, int64_t blocks, int64_t count)
{
    int64_t i = 0;
    if (state == POP_STATE_SUM || state == POP_STATE_COMPENSATED) /* sums side by side: each waits for the addition before */
        for (; i + POP_ABREAST <= count; i += POP_ABREAST) {
            double sum[POP_ABREAST];
            const double *a = more->a + i * blocks;
            for (int r = 0; r < POP_ABREAST; r++) sum[r] = a[r * blocks];
            for (int64_t k = 1; k < blocks; k++)
                for (int r = 0; r < POP_ABREAST; r++) sum[r] += a[r * blocks + k];
            memcpy(s->a + i, sum, sizeof sum);
        }
    for (; i < count; i++) pop_state_merge_run(state, s, i, 0, more, i * blocks, n, blocks);
}

/* Natural logarithms of numbers from 1 on; of 0, infinity and NaN too. Whole vectors: there is room for them. */
static void pop_state_log(double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += POP_LANES / 2) {
        pop_h_f u, e, f;
        memcpy(&u, x + i, sizeof u);
        pop_h_log_parts(u, &e, &f);
        pop_h_f y = pop_h_fma(e, pop_h_splat(0x1.62e42fefa39efp-1), pop_h_log_fraction(f));
        y = pop_h_select(pop_h_lt(u, pop_h_splat(INFINITY)), u, y);
        y = pop_h_select(pop_h_lt(pop_h_splat(0.0), u), pop_h_select(pop_h_eq((pop_h_i)u, (pop_h_i)u * 0), u, pop_h_splat(-INFINITY)), y);
        memcpy(x + i, &y, sizeof y);
    }
}

static void pop_finish_logs(const pop_reduce *spec, pop_state *s, const float *before, float *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        s->a[i] = s->b[i] == 0.0 ? -INFINITY : s->a[i] + spec->scale;
        if (before) pop_merge_log(s->a + i, s->b + i, before[i], before[i] > -INFINITY ? 1.0 : 0.0);
    }
    pop_state_log(s->b, count);
    for (int64_t i = 0; i < count; i++) out[i] = (float)(s->b[i] == -INFINITY ? s->b[i] : s->a[i] + s->b[i]);
}

/* Results in FP32 from the states of whole rows; `before`: what the results hold, where that is added. */
static void pop_finish(const pop_reduce *spec, pop_state *s, const float *before, float *out, int64_t count)
{
    const double scale = spec->scale;
    const int root = spec->finish == POP_FINISH_SQRT || spec->finish == POP_FINISH_DEVIATION;
    if (spec->finish == POP_FINISH_LOG) {
        pop_finish_logs(spec, s, before, out, count);
        return;
    }
    const double *from = spec->finish == POP_FINISH_SPREAD || spec->finish == POP_FINISH_DEVIATION ? s->b : s->a;
    if (root) for (int64_t i = 0; i < count; i++) out[i] = (float)__builtin_sqrt(from[i] * scale);
    else for (int64_t i = 0; i < count; i++) out[i] = (float)(from[i] * scale);
    if (before) for (int64_t i = 0; i < count; i++) out[i] = before[i] + out[i];
}
#endif
