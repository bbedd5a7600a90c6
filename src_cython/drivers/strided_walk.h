/* The strided driver: a vertex that takes a range of elements of any number of arrays, of any formats and strides, through
 * elementwise kernels.
 *
 * Elements go by chunks that fit L1: decoded to FP32, taken through one step after another, encoded once. What one step
 * leaves to another stays in buffers there. What lies one after another in memory, and
 * needs no codec, is read and written where it is; where that is so of all operands, a chunk is a whole row. Other elements
 * are gathered before and scattered after. Rows too short to be worth a kernel call are taken together. Where scales
 * vary, a chunk ends with its block. A kernel is never called with more elements than are left: nothing is padded. */
#ifndef POP_DRIVERS_STRIDED_WALK_H
#define POP_DRIVERS_STRIDED_WALK_H
#include "drivers/strided_rows.h"
#include "kernels/stream.h"
#include "program/program.h"

typedef struct pop_strided_walk {
    const pop_strided *spec;
    char *const *operands;
    char *buffers;
    const uint32_t *words; /* random words of the chunk */
    uint64_t *numbers;
    int in_place; /* an output lies where an input does: its lines are in the cache, and nothing streams */
    char *at[POP_STRIDED_OPERANDS];             /* the next element of each operand */
    const char *spread[POP_STRIDED_OPERANDS];   /* the repeated value that fills the lanes of each input */
    const pop_cast *casts[POP_STRIDED_OPERANDS]; /* of each operand at this place */
    pop_cast scaled[POP_STRIDED_OPERANDS];      /* and of those whose scales vary, the bias moved */
    void *slots[POP_STRIDED_SLOTS];             /* the chunk's elements of inputs, outputs and buffers */
    int64_t index[POP_STRIDED_AXES];            /* of the next element */
} pop_strided_walk;

static void pop_strided_place(pop_strided_walk *w)
{
    const pop_strided *s = w->spec;
    for (int i = 0; i < s->inputs + s->outputs; i++) {
        const pop_strided_operand *o = s->operands + i;
        int64_t offset = o->first;
        for (int d = 0; d < s->axes_count; d++) offset += w->index[d] * s->axes[d].strides[i];
        w->at[i] = (o->number < 0 ? w->operands[i] : (char *)w->numbers + 8 * (int64_t)o->number) + offset;
    }
}

static void pop_strided_advance(pop_strided_walk *w, int64_t n)
{
    const pop_strided *s = w->spec;
    const int last = s->axes_count - 1;
    if (last == 0 || w->index[last] + n < s->axes[last].extent) {
        w->index[last] += n;
        for (int i = 0; i < s->inputs + s->outputs; i++) w->at[i] += n * s->axes[last].strides[i];
        return;
    }
    for (int d = last; d >= 0; d--) {
        const int64_t extent = s->axes[d].extent;
        n += w->index[d];
        w->index[d] = n;
        if (d == 0 || n < extent) break;
        w->index[d] = n % extent;
        n /= extent;
    }
    pop_strided_place(w);
}

static void pop_strided_scale(pop_strided_walk *w, int operand)
{
    const pop_strided_operand *o = w->spec->operands + operand;
    const int8_t *exponents = (const int8_t *)w->operands[o->scales];
    pop_cast *cast = w->scaled + operand;
    int64_t offset = 0;
    for (int d = 0; d < w->spec->axes_count; d++) offset += w->index[d] / o->blocks[d].extent * o->blocks[d].stride;
    *cast = o->cast;
    if (operand < w->spec->inputs) cast->from.bias -= exponents[offset];
    else cast->to.bias -= exponents[offset];
    w->casts[operand] = cast;
}

static int64_t pop_strided_next(pop_strided_walk *w, int64_t left)
{
    const pop_strided *s = w->spec;
    const int last = s->axes_count - 1;
    int64_t n = pop_least(left, s->chunk);
    if (!s->straddles) n = pop_least(n, s->axes[last].extent - w->index[last]);
    for (int i = 0; i < s->inputs + s->outputs; i++) {
        if (!s->operands[i].blocks) continue;
        const int64_t block = s->operands[i].blocks[last].extent;
        n = pop_least(n, block - w->index[last] % block);
        pop_strided_scale(w, i);
        w->spread[i] = NULL;
    }
    return n;
}

/* The lanes of a repeated input. */
static const void *pop_strided_repeat(pop_strided_walk *w, int operand, int64_t n)
{
    const pop_strided *s = w->spec;
    const pop_strided_operand *o = s->operands + operand;
    const int last = s->axes_count - 1;
    const int64_t extent = s->axes[last].extent, rest = extent - w->index[last];
    const int64_t rows = n <= rest ? 1 : (n - rest + extent - 1) / extent + 1, met = n <= rest ? 1 : n;
    char *lanes = w->buffers + o->lanes;
    if (rows == 1) {
        if (w->spread[operand] == w->at[operand]) return lanes;
        w->spread[operand] = w->at[operand];
        n = pop_least(s->chunk, extent); /* what the chunks to come of this row, and of other rows of this value, need too */
    } else {
        w->spread[operand] = NULL;
    }
    char *packed = o->codec ? w->buffers + o->packed : NULL;
    char *values = lanes + (n - rows) * o->lane_bytes;
    pop_move_values(s, operand, w->index, w->at[operand], packed ? packed : values, met);
    if (packed) ((pop_decoder)o->codec)(w->casts[operand], packed, (float *)values, rows);
    s->spread(o->lane_bytes, lanes, rows, extent, rows == 1 ? n : rest, n);
    return lanes;
}

/* n elements of an input as the kernel takes them; what is gathered or decoded goes to `lanes`. */
static const void *pop_strided_read(pop_strided_walk *w, int operand, char *lanes, int64_t n)
{
    const pop_strided_operand *o = w->spec->operands + operand;
    const char *codes = w->at[operand];
    if (o->mode == POP_REPEATED) return pop_strided_repeat(w, operand, n);
    if (o->mode == POP_GATHERED) {
        char *packed = o->codec ? w->buffers + o->packed : lanes;
        pop_move_rows(w->spec, operand, w->index, w->at[operand], packed, n, 0);
        codes = packed;
    }
    if (!o->codec) return codes;
    ((pop_decoder)o->codec)(w->casts[operand], codes, (float *)lanes, n);
    return lanes;
}

static void pop_strided_write(pop_strided_walk *w, int operand, const void *lanes, int64_t n)
{
    const pop_strided_operand *o = w->spec->operands + operand;
    char *codes = (char *)lanes;
    if (o->codec) {
        codes = o->mode == POP_DIRECT && !o->streams ? w->at[operand] : w->buffers + o->packed;
        ((pop_encoder)o->codec)(w->casts[operand], (const float *)lanes, codes, n, w->words);
    }
    if (o->mode == POP_GATHERED) pop_move_rows(w->spec, operand, w->index, w->at[operand], codes, n, 1);
    else if (o->streams && !w->in_place) w->spec->stream(w->at[operand], codes, n * o->code_bytes);
    else if (codes != w->at[operand]) pop_copy(w->at[operand], codes, n * o->code_bytes); /* the identity */
}

/* Elements by which the first input that is read where it lies begins behind a cache line. Results that will stream lie so
 * in their buffer, for a kernel takes whole lines of these: in memory half lines cost a quarter of the time. */
static int64_t pop_strided_behind(const pop_strided_walk *w)
{
    const pop_strided *s = w->spec;
    for (int i = 0; i < s->inputs; i++)
        if (s->operands[i].mode == POP_DIRECT && !s->operands[i].codec)
            return (int64_t)((uintptr_t)w->at[i] % 64) / s->operands[i].code_bytes;
    return 0;
}

POP_INLINE char *pop_strided_lanes(const pop_strided_walk *w, int operand)
{
    const pop_strided_operand *o = w->spec->operands + operand;
    if (o->streams && !o->codec) return w->buffers + o->lanes + pop_strided_behind(w) * o->lane_bytes;
    return o->mode == POP_DIRECT && !o->codec && !(o->held && w->in_place) ? w->at[operand] : w->buffers + o->lanes;
}

static void pop_strided_copy(pop_strided_walk *w, int64_t n)
{
    const pop_strided *s = w->spec;
    const pop_strided_operand *o = s->operands;
    const pop_strided_axis *inner = s->axes + s->axes_count - 1;
    if (o[0].codec || o[1].codec || s->straddles)
        pop_strided_write(w, 1, pop_strided_read(w, 0, pop_strided_lanes(w, 1), n), n);
    else if (w->at[0] != w->at[1]) /* an array copied to itself lies as it does */
        pop_copy_row(o->code_bytes, w->at[1], inner->strides[1], w->at[0], inner->strides[0], n);
}

static void pop_strided_step_on(const pop_strided_step *t, const uint64_t *numbers, void *const *in, void *const *out,
                                int64_t n)
{
    if (t->kind == POP_STEP_COMPUTE) ((pop_elementwise)t->run)((const void *const *)in, out, n);
    else if (t->kind == POP_STEP_ARITHMETIC)
        ((pop_arithmetic_kernel)t->run)(t->slots + t->inputs + t->outputs, numbers, (const void *const *)in, out, n);
    else if (t->kind == POP_STEP_DECODE) ((pop_decoder)t->run)(t->cast, in[0], out[0], n);
    else if (t->kind == POP_STEP_ENCODE) ((pop_encoder)t->run)(t->cast, in[0], out[0], n, NULL);
    else if (in[0] != out[0]) memcpy(out[0], in[0], (size_t)(n * t->bytes));
}

static void pop_strided_chunk(pop_strided_walk *w, int64_t n)
{
    const pop_strided *s = w->spec;
    void **slots = w->slots;
    const int inputs = s->inputs, outputs = s->outputs;
    for (int i = 0; i < inputs; i++) slots[i] = (void *)pop_strided_read(w, i, w->buffers + s->operands[i].lanes, n);
    for (int i = inputs; i < inputs + outputs; i++) slots[i] = pop_strided_lanes(w, i);
    for (const pop_strided_step *t = s->steps, *end = t + s->steps_count; t < end; t++) {
        void *chosen[POP_STRIDED_SLOTS];
        if (t->slots) {
            for (int i = 0; i < t->inputs + t->outputs; i++) chosen[i] = slots[t->slots[i]];
            pop_strided_step_on(t, w->numbers, chosen, chosen + t->inputs, n);
        } else {
            pop_strided_step_on(t, w->numbers, slots, slots + t->inputs, n);
        }
    }
    for (int i = inputs; i < inputs + outputs; i++) pop_strided_write(w, i, slots[i], n);
}

/* The bits of a number. What is encoded is rounded to FP32 to odd before: as if it were rounded once. */
static uint64_t pop_strided_bits(const pop_strided_number *t, char *const *operands)
{
    if (t->operand < 0) return t->bits;
    uint64_t bits = 0;
    int64_t word;
    double x, back;
    memcpy(&word, operands[t->operand] + 8 * (int64_t)t->word, sizeof word);
    if (!t->real) return (uint64_t)word;
    if (t->whole) x = (double)word;
    else memcpy(&x, &word, sizeof x);
    float nearest = (float)x;
    memcpy(&bits, &nearest, sizeof nearest);
    if (!t->encode) return bits;
    back = nearest;
    bits = (bits - (__builtin_fabs(back) > __builtin_fabs(x))) | (back != x);
    memcpy(&nearest, &bits, sizeof nearest);
    bits = 0;
    ((pop_encoder)t->encode)(t->cast, &nearest, &bits, 1, NULL);
    return bits;
}

/* The numbers, the places of the buffers, and those that numbers fill in as many elements as any chunk takes. */
static void pop_strided_prepare(pop_strided_walk *w, int64_t n)
{
    const pop_strided *s = w->spec;
    uint64_t *numbers = (uint64_t *)(void *)(w->buffers + s->numbers_at);
    w->numbers = numbers;
    for (int64_t i = 0; i < s->numbers_count; i++) numbers[i] = pop_strided_bits(s->numbers + i, w->operands);
    for (int i = 0; i < s->buffers_count; i++) {
        const pop_strided_buffer *b = s->buffers + i;
        char *lanes = w->buffers + b->offset;
        w->slots[s->inputs + s->outputs + i] = lanes;
        if (b->number < 0) continue;
        memcpy(lanes + (n - 1) * b->bytes, numbers + b->number, (size_t)b->bytes);
        s->spread(b->bytes, lanes, 1, n, n, n);
    }
}

/* Elements of the first chunk: so many that the next ones begin with a cache line of an output that is written where it
 * lies, or past the caches. Kernels see to that themselves where a row is a chunk. */
static int64_t pop_strided_first(const pop_strided_walk *w)
{
    const pop_strided *s = w->spec;
    const int out = s->inputs;
    const pop_strided_operand *o = s->operands + out;
    if (!o->streams && (!s->buffers_count || o->mode != POP_DIRECT || o->codec || (o->held && w->in_place))) return s->chunk;
    return s->chunk - (int64_t)((uintptr_t)w->at[out] % 64) / o->code_bytes;
}

static void pop_strided_vertex(const void *work, const pop_tile *tile)
{
    const pop_strided_item *item = (const pop_strided_item *)work;
    const pop_strided *s = item->spec;
    char stack[POP_STRIDED_STACK] __attribute__((aligned(64)));
    pop_strided_walk w;
    pop_aox stream;
    if (!item->count) return; /* a share without elements has no chunk to prepare */
    w.spec = s;
    w.operands = tile->operands;
    w.buffers = tile->scratch_bytes ? tile->scratch : stack;
    w.words = NULL, w.numbers = NULL;
    w.in_place = 0;
    for (int i = 0; i < s->inputs; i++)
        for (int j = s->inputs; j < s->inputs + s->outputs; j++) w.in_place |= w.operands[i] == w.operands[j];
    for (int d = 0; d < s->axes_count; d++) w.index[d] = 0;
    for (int i = 0; i < s->inputs + s->outputs; i++) {
        w.spread[i] = NULL;
        w.casts[i] = &s->operands[i].cast;
    }
    if (s->buffers_count || s->numbers_count) pop_strided_prepare(&w, pop_least(s->chunk, item->count));
    pop_strided_place(&w);
    if (item->first) pop_strided_advance(&w, item->first);
    if (s->seed >= 0) {
        uint64_t seed;
        memcpy(&seed, w.operands[s->seed], sizeof seed);
        pop_aox_open_cast(&stream, seed);
        w.words = (const uint32_t *)(w.buffers + s->words);
    }
    for (int64_t left = item->count, most = pop_strided_first(&w); left > 0; most = s->chunk) {
        const int64_t n = pop_strided_next(&w, pop_least(left, most));
        if (w.words) s->draw(&stream, item->first + item->count - left, n, (uint32_t *)(w.buffers + s->words));
        if (s->steps_count) pop_strided_chunk(&w, n);
        else pop_strided_copy(&w, n);
        left -= n;
        if (left) pop_strided_advance(&w, n);
    }
    if (s->stream) pop_stream_end();
}

static const pop_kernel POP_STRIDED_KERNELS[] = {
    {"walk", "any", "strided", POP_FUNCTION(pop_strided_vertex), {1, 1, 1}, {1, 1, 1}, POP_CONSISTENT},
};
#endif
