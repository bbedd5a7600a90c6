/* What becomes of the sums of a convolution with few channels in a group: bias, activation, results. */
#ifndef POP_DRIVERS_CONV_EMIT_H
#define POP_DRIVERS_CONV_EMIT_H

/* The bias of the item's blocks, in the order of the results. */
static void pop_conv_take_bias(const pop_conv_walk *w)
{
    const pop_conv_spec *p = w->p;
    const int64_t wide = POP_CONV_WIDE / p->together;
    const char *from = w->tile->operands[3] + w->item->bias;
    char *to = w->tile->scratch + p->bias_at, *codes = w->tile->scratch + p->room_at;
    for (int64_t k = 0; k < w->item->blocks * p->vectors; k++, to += 64) {
        memset(codes, 0, 64);
        for (int64_t lane = 0; lane < POP_CONV_WIDE; lane++) {
            const int64_t g = k / p->vectors * p->together + lane / wide, c = k % p->vectors * wide + lane % wide;
            if (g < w->groups && c < p->channels)
                memcpy(codes + lane * p->bias_item, from + g * p->bias_group + c * p->bias_channel, (size_t)p->bias_item);
        }
        const pop_format *format = (const pop_format *)(uintptr_t)p->bias_format;
        POP_CALL(pop_conv_decode, p->bias_decode)(format, codes, to, NULL, POP_CONV_WIDE);
    }
}

/* Sums of n positions, `pitch` bytes apart, to their results: `cols` of them, `at` bytes from `out`. */
static void pop_conv_emit(const pop_conv_walk *w, pop_epilogue *e, const char *sums, int64_t pitch, const int64_t *at,
                          int64_t n, char *out, int64_t cols)
{
    for (int64_t i = 0, run; i < n; i += run) {
        const int64_t step = i + 1 < n ? at[i + 1] - at[i] : 0;
        for (run = 1; i + run < n && at[i + run] - at[i + run - 1] == step; run++) {}
        e->out = out + at[i];
        e->out_row = step;
        const float *lanes = (const float *)(const void *)(sums + i * pitch);
        POP_CALL(pop_epilogue_kernel, w->p->epilogue)(e, lanes, pitch / 4, run, cols);
    }
}

/* Sums of a gradient of weights, input channel by input channel of `pitch` bytes a kernel element, to lines of input channels. */
static void pop_conv_emit_turned(const pop_conv_walk *w, pop_epilogue *e, const char *sums, int64_t pitch, const int64_t *at,
                                 char *out, int64_t lanes)
{
    const pop_conv_spec *p = w->p;
    char *room = w->tile->scratch + p->room_at;
    e->out_col = p->out_inner;
    e->out_row = p->out_channel;
    for (int64_t i = 0; i < p->positions; i++) {
        POP_CALL(pop_conv_turn, p->transpose)(sums + i * pitch, p->positions * pitch, p->x.inner, POP_CONV_WIDE, room, 64);
        e->out = out + at[i];
        POP_CALL(pop_epilogue_kernel, p->epilogue)(e, (const float *)(const void *)room, 16, lanes, p->x.inner);
    }
}

POP_INLINE pop_epilogue pop_conv_epilogue(const pop_conv_spec *p, const pop_tile *tile)
{
    return (pop_epilogue){.format = (const pop_format *)(uintptr_t)p->out_format, .overflow = p->overflow,
                          .activation = p->activation, .alpha = pop_multiplier_of(&p->alpha, tile), .beta = pop_multiplier_of(&p->beta, tile),
                          .out_col = p->out_channel};
}

/* The same of one vector of a block. */
static void pop_conv_emit_vector(const pop_conv_walk *w, int64_t k, const char *sums, int64_t pitch, const int64_t *at,
                                 int64_t n, char *out)
{
    const pop_conv_spec *p = w->p;
    const int64_t wide = POP_CONV_WIDE / p->together, group = k / p->vectors * p->together, channel = k % p->vectors * wide;
    const int64_t groups = pop_conv_least(p->together, w->groups - group);
    const int64_t channels = pop_conv_least(wide, p->channels - channel);
    const char *at_bias = w->tile->scratch + p->bias_at + 64 * k;
    const float *bias = p->bias_decode ? (const float *)(const void *)at_bias : NULL;
    pop_epilogue e = pop_conv_epilogue(p, w->tile);
    out += group * p->out_group + channel * p->out_channel;
    e.bias = bias;
    if (p->turned) {
        pop_conv_emit_turned(w, &e, sums, pitch, at, out, groups * channels);
        return;
    }
    if (p->compact) {
        pop_conv_emit(w, &e, sums, pitch, at, n, out, groups * channels);
        return;
    }
    for (int64_t j = 0; j < groups; j++) {
        e.bias = bias ? bias + j * wide : NULL;
        pop_conv_emit(w, &e, sums + 4 * j * wide, pitch, at, n, out + j * p->out_group, channels);
    }
}
#endif
