/* Forward steps. */
#ifndef POP_CELLS_FORWARD_H
#define POP_CELLS_FORWARD_H
#include "kernels/cells/rows.h"

enum { FWD_INPUT, FWD_PRODUCT, FWD_BIAS, FWD_CELL, FWD_LAST, FWD_OUT, FWD_SAVED, FWD_LENGTHS, FWD_ATTENTION, FWD_RESET_STATE,
       FWD_SECOND, FWD_OLD };

/* What a plane's non-linearity takes: input, product and bias. */
static void gather(const cell_place *p, int plane, int product_side, int product_plane, float *x, float *room)
{
    read_row(p, FWD_INPUT, plane, x);
    read_row(p, product_side, product_plane, room);
    add_row(x, room, p->n);
    read_row(p, FWD_BIAS, plane, room);
    add_row(x, room, p->n);
}

static void gate(const cell_place *p, int plane, int64_t activation, float *x, float *room)
{
    gather(p, plane, FWD_PRODUCT, plane, x, room);
    apply(activation, x, p->n);
    round_row(p->item->format, x, p->n);
    write_row(p, FWD_SAVED, plane, x);
}

/* The new state c = f c + i g, and its non-linearity. */
static void next_cell(const cell_place *p, const float *f, const float *i, const float *g, float *c, float *t)
{
    POP_ALONG(k, p->n) pop_v_store_f(c + k, pop_v_fma(at(i + k), at(g + k), at(f + k) * at(c + k)));
    round_row(p->item->format, c, p->n);
    memcpy(t, c, POP_CHUNK * sizeof *t);
    apply(p->item->activation, t, p->n);
    round_row(p->item->format, t, p->n);
}

/* Planes forget, input, candidate, output; saved: these, the non-linearity of the new cell state, the old cell state. */
static void lstm_body(const cell_place *p, float *w, int active)
{
    float *f = w, *i = w + POP_CHUNK, *g = w + 2 * POP_CHUNK, *o = w + 3 * POP_CHUNK, *c = w + 4 * POP_CHUNK, *t = w + 5 * POP_CHUNK;
    if (!active) {
        clear_rows(p, FWD_OUT, 1);
        clear_rows(p, FWD_SAVED, 4);
        clear_rows(p, FWD_OLD, 2);
        return;
    }
    gate(p, 0, p->item->recurrent, f, t);
    gate(p, 1, p->item->recurrent, i, t);
    gate(p, 2, p->item->activation, g, t);
    gate(p, 3, p->item->recurrent, o, t);
    read_row(p, FWD_CELL, 0, c);
    write_row(p, FWD_OLD, 1, c);
    next_cell(p, f, i, g, c, t);
    write_row(p, FWD_CELL, 0, c);
    write_row(p, FWD_OLD, 0, t);
    POP_ALONG(k, p->n) pop_v_store_f(o + k, at(o + k) * at(t + k));
    write_row(p, FWD_OUT, 0, o);
    write_row(p, FWD_LAST, 0, o);
}
static void lstm_step(const void *item, const pop_tile *tile) { walk(item, tile, FWD_LENGTHS, lstm_body); }

/* The cell states of an LSTM again, from the gates that were saved. */
static void lstm_again_body(const cell_place *p, float *w, int active)
{
    float *f = w, *i = w + POP_CHUNK, *g = w + 2 * POP_CHUNK, *c = w + 3 * POP_CHUNK, *t = w + 4 * POP_CHUNK;
    if (!active) {
        clear_rows(p, FWD_OLD, 2);
        return;
    }
    read_row(p, FWD_SAVED, 0, f);
    read_row(p, FWD_SAVED, 1, i);
    read_row(p, FWD_SAVED, 2, g);
    read_row(p, FWD_CELL, 0, c);
    write_row(p, FWD_OLD, 1, c);
    next_cell(p, f, i, g, c, t);
    write_row(p, FWD_CELL, 0, c);
    write_row(p, FWD_OLD, 0, t);
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
    float *r = w, *u = w + POP_CHUNK, *c = w + 2 * POP_CHUNK, *h = w + 3 * POP_CHUNK, *room = w + 4 * POP_CHUNK;
    const pop_cell_item *item = p->item;
    if (!active) {
        if (item->phase) clear_rows(p, FWD_OUT, 1);
        if (item->phase) clear_rows(p, FWD_SAVED, 3 + (item->reset_after != 0));
        else clear_rows(p, FWD_RESET_STATE, 1);
        return;
    }
    read_row(p, FWD_LAST, 0, h);
    if (item->reset_after || !item->phase) {
        gate(p, 0, item->recurrent, r, room);
        gate(p, 1, item->recurrent, u, room);
        attend(p, FWD_ATTENTION, u);
    }
    if (!item->phase) {
        POP_ALONG(k, p->n) pop_v_store_f(r + k, at(r + k) * at(h + k));
        write_row(p, FWD_RESET_STATE, 0, r);
        write_row(p, FWD_PRODUCT, 1, u);
        return;
    }
    if (item->reset_after) {
        float *again = w + 5 * POP_CHUNK;
        read_row(p, FWD_PRODUCT, 2, again);
        read_row(p, FWD_BIAS, 3, room);
        add_row(again, room, p->n);
        round_row(item->format, again, p->n);
        write_row(p, FWD_SAVED, 3, again);
        read_row(p, FWD_INPUT, 2, c);
        read_row(p, FWD_BIAS, 2, room);
        add_row(c, room, p->n);
        POP_ALONG(k, p->n) pop_v_store_f(c + k, pop_v_fma(at(r + k), at(again + k), at(c + k)));
    } else {
        gather(p, 2, FWD_SECOND, 0, c, room);
        read_row(p, FWD_PRODUCT, 1, u);
    }
    apply(item->activation, c, p->n);
    round_row(item->format, c, p->n);
    write_row(p, FWD_SAVED, 2, c);
    POP_ALONG(k, p->n) pop_v_store_f(h + k, pop_v_fma(at(u + k), at(h + k) - at(c + k), at(c + k)));
    write_row(p, FWD_OUT, 0, h);
    write_row(p, FWD_LAST, 0, h);
}
static void gru_step(const void *item, const pop_tile *tile) { walk(item, tile, FWD_LENGTHS, gru_body); }

static void rnn_body(const cell_place *p, float *w, int active)
{
    float *h = w, *room = w + POP_CHUNK;
    if (!active) {
        clear_rows(p, FWD_OUT, 1);
        return;
    }
    gather(p, 0, FWD_PRODUCT, 0, h, room);
    apply(p->item->activation, h, p->n);
    write_row(p, FWD_OUT, 0, h);
    write_row(p, FWD_LAST, 0, h);
}
static void rnn_step(const void *item, const pop_tile *tile) { walk(item, tile, FWD_LENGTHS, rnn_body); }
#endif
