/* Weights of convolutions with few channels in a group, as the kernels read them. */
#ifndef POP_DRIVERS_CONV_PACK_H
#define POP_DRIVERS_CONV_PACK_H

POP_INLINE void pop_conv_gather_of(int64_t item, const char *from, const int64_t *taps, int64_t inner, int64_t step,
                                   int64_t first, int64_t n, char *codes)
{
    int64_t tap = first / inner, channel = first % inner;
    for (int64_t i = 0; i < n; i++) {
        memcpy(codes + i * item, from + taps[tap] + channel * step, (size_t)item);
        if (++channel == inner) channel = 0, tap++;
    }
}

/* Numbers [first, first + n) of an output channel's depth, (taps, input channels); `taps` are bytes to each tap. */
static void pop_conv_gather(const pop_conv_spec *p, const char *from, const int64_t *taps, int64_t first, int64_t n,
                            char *codes)
{
    const int64_t inner = p->x.inner << p->pairs;
    if (p->w.item == 4) pop_conv_gather_of(4, from, taps, inner, p->w_inner, first, n, codes);
    else if (p->w.item == 2) pop_conv_gather_of(2, from, taps, inner, p->w_inner, first, n, codes);
    else pop_conv_gather_of(1, from, taps, inner, p->w_inner, first, n, codes);
}

/* The weights of `depth` numbers, 16 each, to words of two BF16 numbers, of which they are both: numbers i and i + `apart`
 * of each 2 * apart, or i and zeros where those are `rows` * apart and end; returns the words' end. */
static char *pop_conv_pair(char *panel, int64_t depth, int64_t apart, int64_t rows)
{
    char *to = panel;
    for (int64_t first = 0; first < depth; first += rows * apart)
        for (int64_t row = 0; row < rows; row += 2)
            for (int64_t i = 0; i < apart; i++, to += 64) {
                const char *from = panel + 64 * (first + row * apart + i);
                uint32_t words[2][POP_CONV_WIDE] = {{0}};
                memcpy(words[0], from, 64);
                if (row + 1 < rows) memcpy(words[1], from + 64 * apart, 64);
                for (int64_t lane = 0; lane < POP_CONV_WIDE; lane++)
                    words[0][lane] = words[0][lane] >> 16 | (words[1][lane] & 0xffff0000u);
                memcpy(to, words, 64);
            }
    return to;
}

/* Bytes to the weights of each tap. */
static int64_t *pop_conv_taps_at(const pop_conv_walk *w)
{
    const pop_conv_spec *p = w->p;
    int64_t *taps = (int64_t *)(void *)(w->tile->scratch + p->tables_at);
    int64_t zero[POP_CONV_DIMS] = {0}, at[POP_CONV_DIMS] = {0}, extent[POP_CONV_DIMS];
    for (int64_t d = 0; d < p->rank; d++) extent[d] = p->dims[d].taps;
    for (int64_t tap = 0; tap < p->taps; tap++) {
        taps[tap] = 0;
        for (int64_t d = 0; d < p->rank; d++) taps[tap] += at[d] * p->dims[d].w;
        pop_conv_next(at, zero, extent, p->rank);
    }
    return taps;
}

/* The same where lanes are input channels: of each block, tap and vector of those the weights of each output channel. */
static void pop_conv_pack_dots(const pop_conv_walk *w)
{
    const pop_conv_spec *p = w->p;
    const int64_t *taps = pop_conv_taps_at(w), inner = p->x.inner, cell = p->x.cell;
    char *room = w->tile->scratch + p->room_at, *codes = room + 4 * POP_CONV_LINE, *to = w->tile->scratch + p->w.at;
    for (int64_t k = 0; k < w->item->blocks * p->taps; k++, to += inner * cell * p->channels) {
        const char *from = w->weights + k / p->taps * p->w.group + taps[k % p->taps];
        for (int64_t c = 0; c < p->channels; c++)
            for (int64_t i = 0; i < inner; i += POP_CONV_LINE) {
                const int64_t part = pop_conv_least(inner - i, POP_CONV_LINE);
                pop_conv_line(&p->w, from + c * p->w_lane + i * p->w_inner, p->w_inner, part, room, codes);
                for (int64_t b = 0; b < part * cell; b += 64) memcpy(to + (i * cell + b) * p->channels + 64 * c, room + b, 64);
            }
    }
}

/* Words of two BF16 numbers of each of 16 lanes: those at `low`, and those at `high`. */
static void pop_conv_interleave(const char *low, const char *high, char *to)
{
    uint16_t first[POP_CONV_WIDE], second[POP_CONV_WIDE];
    uint32_t words[POP_CONV_WIDE];
    memcpy(first, low, sizeof first);
    memcpy(second, high, sizeof second);
    for (int64_t lane = 0; lane < POP_CONV_WIDE; lane++) words[lane] = first[lane] | (uint32_t)second[lane] << 16;
    memcpy(to, words, sizeof words);
}

/* The panel of a vector whose lanes lie one after another: those of each group, or of groups of one channel all. */
static void pop_conv_pack_lanes(const pop_conv_walk *w, int64_t group, int64_t channel, const int64_t *taps, char *to)
{
    const pop_conv_spec *p = w->p;
    const int one = p->together == POP_CONV_WIDE;
    const int64_t inner = p->x.inner << p->pairs, cell = 4 >> p->pairs, wide = POP_CONV_WIDE / p->together;
    const int64_t there = pop_conv_least(p->together, w->groups - group), pieces = one ? 1 : there;
    const int64_t lanes = one ? there : pop_conv_least(wide, p->channels - channel);
    const char *from = w->weights + group * p->w.group + channel * p->w_lane;
    char *room = w->tile->scratch + p->room_at;
    for (int64_t tap = 0; tap < p->taps; tap++)
        for (int64_t i = 0; i < inner; i++) {
            char *panel = to + 16 * cell * (tap * inner + i), *row = p->pairs ? room + 64 * (i & 1) : panel;
            if (pieces * lanes < POP_CONV_WIDE) memset(row, 0, 64);
            for (int64_t g = 0; g < pieces; g++)
                POP_CALL(pop_conv_decode, p->w.decode)((const pop_format *)(uintptr_t)p->w.format,
                                                       from + g * p->w.group + taps[tap] + i * p->w_inner,
                                                       row + g * wide * cell, NULL, lanes);
            if (p->pairs && i & 1) pop_conv_interleave(room, room + 64, panel - 16 * cell);
        }
}

/* The panel of a vector by lines of its lanes' depth, 64 numbers at a time, transposed; words of two BF16 numbers stay so. */
static void pop_conv_pack_depth(const pop_conv_walk *w, int64_t group, int64_t channel, const int64_t *taps, char *to)
{
    const pop_conv_spec *p = w->p;
    const int64_t depth = p->taps * (p->x.inner << p->pairs), wide = POP_CONV_WIDE / p->together;
    const int in_order = p->slide && p->pairs; /* lanes as results lie, or groups run fastest */
    char *room = w->tile->scratch + p->room_at, *codes = room + 4 * POP_CONV_WIDE * POP_CONV_LINE;
    for (int64_t i = 0; i < depth; i += POP_CONV_LINE) {
        const int64_t part = pop_conv_least(depth - i, POP_CONV_LINE);
        for (int64_t lane = 0; lane < POP_CONV_WIDE; lane++) {
            const int64_t g = group + (in_order ? lane / wide : lane % p->together);
            const int64_t c = channel + (in_order ? lane % wide : lane / p->together);
            char *row = room + lane * 4 * POP_CONV_LINE;
            const char *line = w->weights + g * p->w.group + c * p->w_lane;
            if (g >= w->groups || c >= p->channels) {
                memset(row, 0, (size_t)(4 * part));
                continue;
            }
            if (p->w_lines == POP_CONV_DEPTH_IN_LINE) line += i * p->w.item;
            else pop_conv_gather(p, line, taps, i, part, codes), line = codes;
            POP_CALL(pop_conv_decode, p->w.decode)((const pop_format *)(uintptr_t)p->w.format, line, row, NULL, part);
        }
        POP_CALL(pop_conv_turn, p->transpose)(room, 4 * POP_CONV_LINE, POP_CONV_WIDE, part >> p->pairs,
                                              to + (64 * i >> p->pairs), 64);
    }
}

/* Where the item's weights are: if they are decoded in one go, in scratch. */
static const char *pop_conv_take_weights(const pop_conv_walk *w)
{
    const pop_conv_spec *p = w->p;
    if (!p->run) return w->tile->operands[1] + w->item->w;
    char *to = w->tile->scratch + p->run_at;
    POP_CALL(pop_conv_decode, p->run_decode)((const pop_format *)(uintptr_t)p->run_format, w->tile->operands[1] + p->run_first,
                                             to, NULL, p->run);
    return to + w->item->w;
}

/* The panels of the item's blocks: for each vector of each block, 16 weights, or words of two, for every one of the depth. */
static void pop_conv_pack(const pop_conv_walk *w)
{
    const pop_conv_spec *p = w->p;
    const int64_t depth = p->taps * p->x.inner, wide = POP_CONV_WIDE / p->together;
    const int64_t apart = p->rank > 1 ? p->dims[p->rank - 1].taps : 1; /* from a tap to the one it is joined with */
    const int64_t *taps = pop_conv_taps_at(w);
    char *to = w->tile->scratch + p->w.at;
    for (int64_t k = 0; k < w->item->blocks * p->vectors; k++) {
        const int64_t group = k / p->vectors * p->together, channel = k % p->vectors * wide;
        if (p->w_lines == POP_CONV_LANES_IN_LINE) pop_conv_pack_lanes(w, group, channel, taps, to);
        else pop_conv_pack_depth(w, group, channel, taps, to);
        if (p->row_pairs) to = pop_conv_pair(to, depth, apart, p->dims[p->rank > 1 ? p->rank - 2 : 0].taps);
        else to += 64 * depth;
    }
}
#endif
