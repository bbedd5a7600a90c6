/* Forward steps. */
#ifndef POP_CELLS_FORWARD_H
#define POP_CELLS_FORWARD_H
#include "kernels/cells/rows.h"

enum { FWD_INPUT, FWD_PRODUCT, FWD_BIAS, FWD_CELL, FWD_LAST, FWD_OUT, FWD_SAVED, FWD_LENGTHS, FWD_ATTENTION, FWD_RESET_STATE,
       FWD_SECOND, FWD_OLD };

/* A gate: the non-linearity of input, product and bias. `room` holds three rows. */
static void gate_of(const cell_place *p, int plane, int product_side, int product_plane, int64_t activation, float *x, float *room)
{
    const float *input = row_of(p, FWD_INPUT, plane, room), *product = row_of(p, product_side, product_plane, room + POP_CHUNK);
    apply_to_sum(activation, x, input, product, row_of(p, FWD_BIAS, plane, room + 2 * POP_CHUNK), p->n);
    round_row(p->item->format, x, p->n);
    write_row(p, FWD_SAVED, plane, x);
}

static void gate(const cell_place *p, int plane, int64_t activation, float *x, float *room)
{
    gate_of(p, plane, FWD_PRODUCT, plane, activation, x, room);
}

/* The new state c = f c' + i g, and its non-linearity; the old one is kept. */
static void next_cell(const cell_place *p, const float *f, const float *i, const float *g, float *c, float *t, float *room)
{
    const float *old = row_of(p, FWD_CELL, 0, room);
    write_row(p, FWD_OLD, 1, old);
    POP_ALONG(k, p->n) pop_v_store_f(c + k, pop_v_fma(at(i + k), at(g + k), at(f + k) * at(old + k)));
    round_row(p->item->format, c, p->n);
    write_row(p, FWD_CELL, 0, c);
    memcpy(t, c, POP_CHUNK * sizeof *t);
    apply(p->item->activation, t, p->n);
    round_row(p->item->format, t, p->n);
    write_row(p, FWD_OLD, 0, t);
}

/* Planes forget, input, candidate, output; saved: these, the non-linearity of the new cell state, the old cell state. */
static void lstm_body(const cell_place *p, float *w, int active)
{
    float *f = w, *i = w + POP_CHUNK, *g = w + 2 * POP_CHUNK, *o = w + 3 * POP_CHUNK, *c = w + 4 * POP_CHUNK, *t = w + 5 * POP_CHUNK,
          *room = w + 6 * POP_CHUNK;
    if (!active) {
        clear_rows(p, FWD_OUT, 1);
        clear_rows(p, FWD_SAVED, 4);
        clear_rows(p, FWD_OLD, 2);
        return;
    }
    gate(p, 0, p->item->recurrent, f, room);
    gate(p, 1, p->item->recurrent, i, room);
    gate(p, 2, p->item->activation, g, room);
    gate(p, 3, p->item->recurrent, o, room);
    next_cell(p, f, i, g, c, t, room);
    times_rows(o, o, t, p->n);
    write_row(p, FWD_OUT, 0, o);
    write_row(p, FWD_LAST, 0, o);
}
static void lstm_step(const void *item, const pop_tile *tile) { walk(item, tile, FWD_LENGTHS, lstm_body); }

/* The cell states of an LSTM again, from the gates that were saved. */
static void lstm_again_body(const cell_place *p, float *w, int active)
{
    if (!active) {
        clear_rows(p, FWD_OLD, 2);
        return;
    }
    const float *f = row_of(p, FWD_SAVED, 0, w), *i = row_of(p, FWD_SAVED, 1, w + POP_CHUNK);
    const float *g = row_of(p, FWD_SAVED, 2, w + 2 * POP_CHUNK);
    next_cell(p, f, i, g, w + 3 * POP_CHUNK, w + 4 * POP_CHUNK, w + 5 * POP_CHUNK);
}
static void lstm_again_step(const void *item, const pop_tile *tile) { walk(item, tile, FWD_LENGTHS, lstm_again_body); }

POP_INLINE float attention_of(const cell_place *p, int side)
{
    const pop_cell_side *s = &p->item->sides[side];
    float a;
    memcpy(&a, p->tile->operands[s->operand] + p->row * s->row + p->step * s->step, sizeof a);
    return a;
}

/* u - a u */
static void attend(const cell_place *p, int side, float *u)
{
    if (!has(p, side)) return;
    const pop_v_f a = pop_v_splat(attention_of(p, side));
    POP_ALONG(k, p->n) pop_v_store_f(u + k, pop_v_fma(-a, at(u + k), at(u + k)));
    round_row(p->item->format, u, p->n);
}

/* Planes reset, update, candidate, and the recurrent candidate where the reset comes after its product. A GRU that resets
 * before has two parts: the gates, then, after the candidate's own product, the rest; the update gate waits in the product. */
static void gru_body(const cell_place *p, float *w, int active)
{
    float *r = w, *z = w + POP_CHUNK, *c = w + 2 * POP_CHUNK, *made = w + 3 * POP_CHUNK, *again = w + 4 * POP_CHUNK,
          *room = w + 6 * POP_CHUNK;
    const pop_cell_item *item = p->item;
    const float *u = z;
    if (!active) {
        if (item->phase) clear_rows(p, FWD_OUT, 1);
        if (item->phase) clear_rows(p, FWD_SAVED, 3 + (item->reset_after != 0));
        else clear_rows(p, FWD_RESET_STATE, 1);
        return;
    }
    const float *h = row_of(p, FWD_LAST, 0, w + 5 * POP_CHUNK);
    if (item->reset_after || !item->phase) {
        gate(p, 0, item->recurrent, r, room);
        gate(p, 1, item->recurrent, z, room);
        attend(p, FWD_ATTENTION, z);
    }
    if (!item->phase) {
        times_rows(r, r, h, p->n);
        write_row(p, FWD_RESET_STATE, 0, r);
        write_row(p, FWD_PRODUCT, 1, z);
        return;
    }
    if (item->reset_after) {
        add_rows(again, row_of(p, FWD_PRODUCT, 2, room), row_of(p, FWD_BIAS, 3, room + POP_CHUNK), p->n);
        round_row(item->format, again, p->n);
        write_row(p, FWD_SAVED, 3, again);
        add_rows(c, row_of(p, FWD_INPUT, 2, room), row_of(p, FWD_BIAS, 2, room + POP_CHUNK), p->n);
        POP_ALONG(k, p->n) pop_v_store_f(c + k, pop_v_fma(at(r + k), at(again + k), at(c + k)));
        apply(item->activation, c, p->n);
        round_row(item->format, c, p->n);
        write_row(p, FWD_SAVED, 2, c);
    } else {
        gate_of(p, 2, FWD_SECOND, 0, item->activation, c, room);
        u = row_of(p, FWD_PRODUCT, 1, z);
    }
    POP_ALONG(k, p->n) pop_v_store_f(made + k, pop_v_fma(at(u + k), at(h + k) - at(c + k), at(c + k)));
    write_row(p, FWD_OUT, 0, made);
    write_row(p, FWD_LAST, 0, made);
}
static void gru_step(const void *item, const pop_tile *tile) { walk(item, tile, FWD_LENGTHS, gru_body); }

static void rnn_body(const cell_place *p, float *w, int active)
{
    if (!active) {
        clear_rows(p, FWD_OUT, 1);
        return;
    }
    gate(p, 0, p->item->activation, w, w + POP_CHUNK);
    write_row(p, FWD_OUT, 0, w);
    write_row(p, FWD_LAST, 0, w);
}
static void rnn_step(const void *item, const pop_tile *tile) { walk(item, tile, FWD_LENGTHS, rnn_body); }

/* A state that is a product: the projection of what a cell gives. */
static void project_body(const cell_place *p, float *w, int active)
{
    if (!active) {
        clear_rows(p, FWD_OUT, 1);
        return;
    }
    const float *x = row_of(p, FWD_SECOND, 0, w);
    write_row(p, FWD_OUT, 0, x);
    write_row(p, FWD_LAST, 0, x);
}
static void project_step(const void *item, const pop_tile *tile) { walk(item, tile, FWD_LENGTHS, project_body); }
#endif
