/* How fast rows of a table can be read, written and added to in any order where nothing else is done: no bounds are looked at, no
 * format is asked for, rows are whole lines. How far ahead rows are prefetched is the caller's to try. */
#ifndef POP_PEAK_ROWS_H
#define POP_PEAK_ROWS_H
#include "kernels/prefetch.h"
#include <immintrin.h>

#define POP_RECORDS "records/peak.def"
#include "records/structs.h"

POP_INLINE char *pop_peak_row(const pop_peak_rows *t, int64_t i)
{
    if (i + t->ahead < t->count)
        pop_prefetch_l2_lines(pop_beyond(t->table, t->list[i + t->ahead] * t->bytes), t->bytes);
    char *row = t->table + t->list[i] * t->bytes;
    if (t->begins && t->bytes >= 256) (void)*(const volatile char *)(row + 64), (void)*(const volatile char *)(row + 192);
    return row;
}

POP_INLINE void pop_peak_copy(char *to, const char *from, int64_t bytes)
{
    for (int64_t o = 0; o < bytes; o += 64) _mm512_stream_si512((void *)(to + o), _mm512_load_si512(from + o));
}

POP_INLINE void pop_peak_add_to(char *to, const char *from, int64_t bytes)
{
    for (int64_t o = 0; o < bytes; o += 64) _mm512_store_ps(to + o, _mm512_add_ps(_mm512_load_ps(to + o), _mm512_load_ps(from + o)));
}

static int64_t pop_peak_gather(const pop_peak_rows *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        const char *from = pop_peak_row(t, i);
        pop_peak_copy(t->rows + i * t->bytes, from, t->bytes);
    }
    _mm_sfence();
    return t->count * t->bytes;
}

static int64_t pop_peak_scatter(const pop_peak_rows *t)
{
    for (int64_t i = 0; i < t->count; i++)
        pop_peak_copy(t->table + t->list[i] * t->bytes, t->rows + i * t->bytes, t->bytes);
    _mm_sfence();
    return t->count * t->bytes;
}

static int64_t pop_peak_add(const pop_peak_rows *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        char *to = pop_peak_row(t, i);
        const char *from = t->rows + i * t->bytes;
        pop_peak_add_to(to, from, t->bytes);
    }
    return t->count * t->bytes;
}

/* Four lines of a bag's rows at a time, whose sums stay in registers. Rows are whole times as many, and bags too. */
static int64_t pop_peak_bags(const pop_peak_rows *t)
{
    for (int64_t first = 0; first < t->count; first += t->bag)
        for (int64_t o = 0; o < t->bytes; o += 256) {
            __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
            for (int64_t i = first; i < first + t->bag; i++) {
                const char *row = o ? t->table + t->list[i] * t->bytes : pop_peak_row(t, i);
                for (int k = 0; k < 4; k++) sums[k] = _mm512_add_ps(sums[k], _mm512_load_ps(row + o + 64 * k));
            }
            for (int k = 0; k < 4; k++) _mm512_store_ps(t->rows + first / t->bag * t->bytes + o + 64 * k, sums[k]);
        }
    return t->count * t->bytes;
}

#define POP_PEAK_ROWS(name) {"rows", #name, "rows_" #name, POP_FUNCTION(pop_peak_##name), {1, 64, 1}, {1, 64, 1}, 0}
#endif
