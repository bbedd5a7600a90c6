/* Backward steps. What reaches a step's output comes through the products of the step after it (carried), past them (held)
 * and from outside; gradients are of what the non-linearities take. */
#ifndef POP_CELLS_BACKWARD_H
#define POP_CELLS_BACKWARD_H
#include "kernels/cells/forward.h"

enum { BWD_GRADS, BWD_CARRIED, BWD_HELD, BWD_CELL, BWD_SAVED, BWD_OLD, BWD_OUT_GRAD, BWD_LENGTHS, BWD_OUT, BWD_INIT,
       BWD_ATTENTION, BWD_ATTENTION_GRAD, BWD_RESET };

/* The gradient of a step's output. */
static void output_grad(const cell_place *p, float *g, float *room, int active)
{
    add_rows(g, row_of(p, BWD_CARRIED, 0, g), row_of(p, BWD_HELD, 0, room), p->n);
    if (active && has(p, BWD_OUT_GRAD)) add_rows(g, g, row_of(p, BWD_OUT_GRAD, 0, room), p->n);
}

/* Past a row's length states stand still, and their gradients too. */
static void stand_still(const cell_place *p, float *w, int planes)
{
    output_grad(p, w, w + POP_CHUNK, 0);
    write_row(p, BWD_HELD, 0, w);
    clear_rows(p, BWD_GRADS, planes);
}

/* to = a b times a slope at y, to a plane of the gradients. */
static void gate_grad(const cell_place *p, int plane, int64_t activation, const float *a, const float *b, const float *y, float *to)
{
    times_slope(p->item, activation, to, a, b, y, p->n);
    write_row(p, BWD_GRADS, plane, to);
}

static void lstm_grad_body(const cell_place *p, float *w, int active)
{
    float *h = w + 5 * POP_CHUNK, *c = w + 6 * POP_CHUNK, *room = w + 7 * POP_CHUNK;
    const pop_cell_item *item = p->item;
    if (!active) {
        stand_still(p, w, 4);
        return;
    }
    output_grad(p, h, room, 1);
    const float *f = row_of(p, BWD_SAVED, 0, w), *i = row_of(p, BWD_SAVED, 1, w + POP_CHUNK);
    const float *g = row_of(p, BWD_SAVED, 2, w + 2 * POP_CHUNK), *o = row_of(p, BWD_SAVED, 3, w + 3 * POP_CHUNK);
    const float *t = row_of(p, BWD_OLD, 0, w + 4 * POP_CHUNK);
    gate_grad(p, 3, item->recurrent, t, h, o, room);
    times_slope(item, item->activation, h, o, h, t, p->n);
    add_rows(c, row_of(p, BWD_CELL, 0, c), h, p->n);
    gate_grad(p, 1, item->recurrent, g, c, i, room);
    gate_grad(p, 2, item->activation, i, c, g, room);
    gate_grad(p, 0, item->recurrent, row_of(p, BWD_OLD, 1, w + 4 * POP_CHUNK), c, f, room);
    times_rows(c, f, c, p->n);
    write_row(p, BWD_CELL, 0, c);
    clear_rows(p, BWD_HELD, 1);
}
static void lstm_grad_step(const void *item, const pop_tile *tile) { walk(item, tile, BWD_LENGTHS, lstm_grad_body); }

static const float *old_output(const cell_place *p, float *room)
{
    if (p->step) return row_from(p, BWD_OUT, plane_at(p, BWD_OUT, 0, p->step - 1), room);
    return row_from(p, BWD_INIT, plane_at(p, BWD_INIT, 0, 0), room);
}

/* The sum of products of a row, 16 partial sums side by side at every level. */
static float row_product(const float *x, const float *y, int64_t n)
{
    float sums[16] = {0};
    for (int64_t k = 0; k < n; k++) sums[k & 15] += x[k] * y[k];
    for (int half = 8; half; half /= 2)
        for (int k = 0; k < half; k++) sums[k] += sums[k + half];
    return sums[0];
}

static void attention_grad(const cell_place *p, float value)
{
    const pop_cell_side *s = &p->item->sides[BWD_ATTENTION_GRAD];
    char *to = p->tile->operands[s->operand] + p->row * s->row + p->step * s->step;
    float old = 0.0f;
    if (p->column) memcpy(&old, to, sizeof old);
    old += value;
    memcpy(to, &old, sizeof old);
}

/* The gradients of a GRU's gates: planes candidate, reset, update, and the recurrent candidate where the reset comes after
 * its product. Where it comes before there are two parts, with the product of the candidate's between them. */
static void gru_reset_body(const cell_place *p, float *w, int active)
{
    float *made = w + 4 * POP_CHUNK;
    if (!active) return;
    const float *r = row_of(p, BWD_SAVED, 0, w), *h = old_output(p, w + POP_CHUNK), *d = row_of(p, BWD_RESET, 0, w + 2 * POP_CHUNK);
    gate_grad(p, 1, p->item->recurrent, d, h, r, made);
    const float *held = row_of(p, BWD_HELD, 0, w + 3 * POP_CHUNK);
    POP_ALONG(k, p->n) pop_v_store_f(made + k, pop_v_fma(at(d + k), at(r + k), at(held + k)));
    write_row(p, BWD_HELD, 0, made);
}

static void gru_grad_body(const cell_place *p, float *w, int active)
{
    float *u = w, *g = w + POP_CHUNK, *d = w + 2 * POP_CHUNK, *kept = w + 3 * POP_CHUNK, *room = w + 4 * POP_CHUNK;
    const pop_cell_item *item = p->item;
    if (item->phase) {
        gru_reset_body(p, w, active);
        return;
    }
    if (!active) {
        stand_still(p, w, 3 + (item->reset_after != 0));
        if (has(p, BWD_ATTENTION)) attention_grad(p, 0.0f);
        return;
    }
    output_grad(p, g, room, 1);
    const float *saved = row_of(p, BWD_SAVED, 1, room), *c = row_of(p, BWD_SAVED, 2, w + 5 * POP_CHUNK);
    const float *h = old_output(p, w + 6 * POP_CHUNK);
    memcpy(u, saved, (size_t)p->n * sizeof *u);
    attend(p, BWD_ATTENTION, u);
    POP_ALONG(k, p->n)
    {
        const pop_v_f given = at(g + k);
        pop_v_store_f(d + k, (at(h + k) - at(c + k)) * given);
        pop_v_store_f(kept + k, at(u + k) * given);
        pop_v_store_f(g + k, 1.0f - at(u + k));
        pop_v_store_f(u + k, given);
    }
    write_row(p, BWD_HELD, 0, kept);
    times_slope(item, item->activation, g, g, u, c, p->n);
    round_row(item->format, g, p->n);
    write_row(p, BWD_GRADS, 0, g);
    if (has(p, BWD_ATTENTION)) {
        const float score = attention_of(p, BWD_ATTENTION);
        attention_grad(p, -row_product(d, saved, p->n));
        POP_ALONG(k, p->n) pop_v_store_f(d + k, pop_v_fma(pop_v_splat(-score), at(d + k), at(d + k)));
    }
    POP_ALONG(k, p->n) pop_v_store_f(u + k, pop_v_splat(1.0f));
    gate_grad(p, 2, item->recurrent, d, u, saved, kept);
    if (!item->reset_after) return;
    const float *r = row_of(p, BWD_SAVED, 0, room), *again = row_of(p, BWD_SAVED, 3, w + 5 * POP_CHUNK);
    gate_grad(p, 1, item->recurrent, g, again, r, kept);
    times_rows(g, g, r, p->n);
    write_row(p, BWD_GRADS, 3, g);
}
static void gru_grad_step(const void *item, const pop_tile *tile) { walk(item, tile, BWD_LENGTHS, gru_grad_body); }

static void rnn_grad_body(const cell_place *p, float *w, int active)
{
    float *g = w, *one = w + POP_CHUNK;
    if (!active) {
        stand_still(p, w, 1);
        return;
    }
    output_grad(p, g, one, 1);
    POP_ALONG(k, p->n) pop_v_store_f(one + k, pop_v_splat(1.0f));
    gate_grad(p, 0, p->item->activation, g, one, row_of(p, BWD_OUT, 0, w + 2 * POP_CHUNK), g);
    clear_rows(p, BWD_HELD, 1);
}
static void rnn_grad_step(const void *item, const pop_tile *tile) { walk(item, tile, BWD_LENGTHS, rnn_grad_body); }

/* The gradient of a projection, which its product takes. */
static void project_grad_body(const cell_place *p, float *w, int active)
{
    if (!active) {
        stand_still(p, w, 1);
        return;
    }
    output_grad(p, w, w + POP_CHUNK, 1);
    write_row(p, BWD_GRADS, 0, w);
    clear_rows(p, BWD_HELD, 1);
}
static void project_grad_step(const void *item, const pop_tile *tile) { walk(item, tile, BWD_LENGTHS, project_grad_body); }
#endif
