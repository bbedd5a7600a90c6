/* Running sums, products and extremes along rows: numbers in float64, each rounded to FP32 once; integers in 64 bits, which wrap.
 *
 * Order. Sums are those of fours, begun anew for each: a, a + b, (a + b) + c, (a + b) + (c + d), on top of what came before the
 * four. So a register holds a four, and fours wait for each other once. Products and extremes are taken one element after another.
 * The bits are the row's alone, at each level and whether rows or columns are walked. */
#ifndef POP_REDUCE_SCAN_H
#define POP_REDUCE_SCAN_H
#include "kernels/reduce/walk.h"

#define POP_SCAN_ROWS 4
#define POP_SCAN_FOURS 8 /* fours of a row at a time */
#define POP_SCAN_ELEMENTS (8 * POP_STRIP) /* of a row, at a time */

/* Four lanes at all levels: where registers are wider, what crosses their halves takes longer than twice as many. */
typedef double pop_scan_doubles __attribute__((vector_size(32)));
typedef uint64_t pop_scan_words __attribute__((vector_size(32)));
typedef int64_t pop_scan_index __attribute__((vector_size(32)));
typedef float pop_scan_floats __attribute__((vector_size(16)));

POP_INLINE pop_scan_doubles pop_scan_wide_floats(const char *p)
{
    pop_scan_floats x;
    memcpy(&x, p, sizeof x);
#if POP_LEVEL >= POP_LEVEL_AVX2
    return _mm256_cvtps_pd(x); /* the compiler converts halves */
#else
    return __builtin_convertvector(x, pop_scan_doubles);
#endif
}
POP_INLINE void pop_scan_narrow_floats(char *p, pop_scan_doubles y)
{
    const pop_scan_floats x = __builtin_convertvector(y, pop_scan_floats);
    memcpy(p, &x, sizeof x);
}
/* The sum of a, which is its product with one, and b: where the product is made there are units that add nothing else. */
POP_INLINE pop_scan_doubles pop_scan_plus(pop_scan_doubles a, pop_scan_doubles b, pop_scan_doubles one)
{
#if POP_LEVEL >= POP_LEVEL_AVX2
    return _mm256_fmadd_pd(a, one, b);
#else
    (void)one;
    return a + b;
#endif
}
POP_INLINE pop_scan_words pop_scan_wide_words(const char *p) { pop_scan_words x; memcpy(&x, p, sizeof x); return x; }
POP_INLINE void pop_scan_narrow_words(char *p, pop_scan_words y) { memcpy(p, &y, sizeof y); }

/* Of a type of elements: what is held before the first, and rows and four rows of columns from what is held on. */
typedef struct pop_scan_type {
    void (*begin)(int state, void *held, int64_t n);
    void (*row)(int state, void *held, const char *x, char *y, int64_t n);
    void (*columns)(int state, void *held, const char *const *x, char *const *y, int64_t rows, int64_t n);
    int64_t bytes;
} pop_scan_type;

#define POP_SCAN(name) pop_scan_##name##_f64
#define POP_ELEMENT float
#define POP_HELD double
#define POP_FOUR pop_scan_doubles
#define POP_WIDE pop_scan_wide_floats
#define POP_NARROW pop_scan_narrow_floats
#define POP_PLUS pop_scan_plus
#define POP_COMPARED double
#define POP_LOWEST -INFINITY
#define POP_HIGHEST INFINITY
#include "kernels/reduce/scan_rows.h"

#define POP_SCAN(name) pop_scan_##name##_i64
#define POP_COMPARED int64_t
#define POP_LOWEST INT64_MIN
#define POP_HIGHEST INT64_MAX
#define POP_ELEMENT uint64_t
#define POP_HELD uint64_t
#define POP_FOUR pop_scan_words
#define POP_WIDE pop_scan_wide_words
#define POP_NARROW pop_scan_narrow_words
#define POP_PLUS(a, b, one) ((void)(one), (a) + (b))
#include "kernels/reduce/scan_rows.h"

#define POP_SCAN(name) pop_scan_##name##_u64
#define POP_COMPARED uint64_t
#define POP_LOWEST 0
#define POP_HIGHEST UINT64_MAX
#define POP_ELEMENT uint64_t
#define POP_HELD uint64_t
#define POP_FOUR pop_scan_words
#define POP_WIDE pop_scan_wide_words
#define POP_NARROW pop_scan_narrow_words
#define POP_PLUS(a, b, one) ((void)(one), (a) + (b))
#include "kernels/reduce/scan_rows.h"

/* Elements of a row, or four rows of a strip: decoded, and joined in place. */
typedef struct pop_scan_room {
    char numbers[8 * POP_SCAN_ELEMENTS], codes[8 * POP_SCAN_ELEMENTS], held[8 * POP_STRIP];
} pop_scan_room;

/* n elements at `codes` as they are joined: there, or decoded to `numbers`. */
static const char *pop_scan_read(const pop_reduce *s, const char *codes, char *numbers, int64_t n)
{
    if (!s->decode) return codes;
    ((pop_decoder)s->decode)(&s->read, codes, (float *)(void *)numbers, n);
    return numbers;
}

/* Where n results go that are made one after another: to `numbers`, or where they belong. */
static char *pop_scan_to(const pop_reduce *s, const pop_scan_type *does, char *out, int64_t step, char *numbers)
{
    return s->encode || step != 1 || s->out_bytes != does->bytes ? numbers : out;
}

/* Numbers are encoded; of integers the low bytes are kept. */
static void pop_scan_write(const pop_reduce *s, const pop_scan_type *does, const char *made, char *out, int64_t step, int64_t n,
                           char *codes)
{
    if (made == out) return;
    if (!s->encode) {
        pop_copy_row(s->out_bytes, out, step * s->out_bytes, made, does->bytes, n);
        return;
    }
    char *to = step == 1 ? out : codes;
    ((pop_encoder)s->encode)(&s->write, (const float *)(const void *)made, to, n, NULL);
    if (to == codes) pop_copy_row(s->out_bytes, out, step * s->out_bytes, codes, s->out_bytes, n);
}

static void pop_scan_rows(const pop_reduce *s, const pop_scan_type *does, const pop_tile *tile, int64_t output)
{
    pop_scan_room *room = (pop_scan_room *)(void *)tile->scratch;
    int64_t index[POP_REDUCE_AXES], within[POP_REDUCE_AXES], first = 0;
    const char *row = tile->operands[0] + pop_reduce_offset(s->kept, s->kept_count, output, index);
    const int64_t step = s->reduced[s->reduced_count - 1].out;
    for (int d = 0; d < s->kept_count; d++) first += index[d] * s->kept[d].out;
    does->begin(s->state, room->held, 1);
    for (int64_t r = 0, n; r < s->n; r += n) {
        n = pop_least(POP_SCAN_ELEMENTS, s->n - r);
        char *out = tile->operands[1] + (first + r * step) * s->out_bytes, *y = pop_scan_to(s, does, out, step, room->numbers);
        const char *codes = room->codes;
        if (s->run >= s->n) codes = row + pop_reduce_offset(s->reduced, s->reduced_count, r, within);
        else pop_reduce_gather(s, row, r, n, room->codes);
        does->row(s->state, room->held, pop_scan_read(s, codes, room->numbers, n), y, n);
        pop_scan_write(s, does, y, out, step, n, room->codes);
    }
}

/* Lines of `bytes` into the second-level cache, to be read or written. */
POP_INLINE void pop_scan_prefetch(const char *p, int64_t bytes, int writes)
{
    if (writes) pop_prefetch_l2_to_write_lines(pop_beyond(p, 0), bytes);
    else pop_prefetch_l2_lines(pop_beyond(p, 0), bytes);
}

static void pop_scan_strip(const pop_reduce *s, const pop_scan_type *does, const pop_tile *tile, int64_t unit)
{
    pop_scan_room *room = (pop_scan_room *)(void *)tile->scratch;
    const pop_reduce_axis *inner = s->kept + s->kept_count - 1;
    const int64_t strips = (inner->extent + POP_STRIP - 1) / POP_STRIP, column = unit % strips * POP_STRIP;
    const int64_t width = pop_least(POP_STRIP, inner->extent - column), step = s->reduced[s->reduced_count - 1].out;
    int64_t index[POP_REDUCE_AXES], first = column * inner->out;
    const char *base = tile->operands[0] + pop_reduce_offset(s->kept, s->kept_count - 1, unit / strips, index);
    for (int d = 0; d < s->kept_count - 1; d++) first += index[d] * s->kept[d].out;
    does->begin(s->state, room->held, POP_STRIP);
    for (int64_t r = 0; r < s->n; r += POP_SCAN_ROWS) {
        const int64_t rows = pop_least(POP_SCAN_ROWS, s->n - r);
        const char *x[POP_SCAN_ROWS], *x_next[POP_SCAN_ROWS];
        char *out[POP_SCAN_ROWS], *y[POP_SCAN_ROWS];
        pop_reduce_addresses(s, base + column * s->code_bytes, r, rows, x);
        for (int64_t i = 0; i < POP_SCAN_ROWS; i++) {
            char *numbers = room->numbers + i * POP_STRIP * does->bytes;
            out[i] = tile->operands[1] + (first + (r + pop_least(i, rows - 1)) * step) * s->out_bytes;
            x[i] = i < rows ? pop_scan_read(s, x[i], numbers, width) : x[0];
            y[i] = i < rows ? pop_scan_to(s, does, out[i], inner->out, numbers) : numbers;
        }
        const int64_t next = pop_least(POP_SCAN_ROWS, s->n - r - rows);
        if (next > 0) pop_reduce_addresses(s, base + column * s->code_bytes, r + rows, next, x_next);
        for (int64_t i = 0; i < next; i++) {
            pop_scan_prefetch(x_next[i], width * s->code_bytes, 0);
            if (inner->out == 1) pop_scan_prefetch(out[i] + POP_SCAN_ROWS * step * s->out_bytes, width * s->out_bytes, 1);
        }
        does->columns(s->state, room->held, x, y, rows, width);
        for (int64_t i = 0; i < rows; i++) pop_scan_write(s, does, y[i], out[i], inner->out, width, room->codes);
    }
}

static void pop_scan_vertex(const void *work, const pop_tile *tile, const pop_scan_type *does)
{
    const pop_reduce_item *item = (const pop_reduce_item *)work;
    for (int64_t i = 0; i < item->count; i++) {
        if (item->spec->by_columns) pop_scan_strip(item->spec, does, tile, item->first + i);
        else pop_scan_rows(item->spec, does, tile, item->first + i);
    }
}

static void pop_scan_floats_vertex(const void *work, const pop_tile *tile) { pop_scan_vertex(work, tile, &pop_scan_type_f64); }
static void pop_scan_signed_vertex(const void *work, const pop_tile *tile) { pop_scan_vertex(work, tile, &pop_scan_type_i64); }
static void pop_scan_unsigned_vertex(const void *work, const pop_tile *tile) { pop_scan_vertex(work, tile, &pop_scan_type_u64); }
#endif
