/* The best of a row of codes of 16 or 32 bits that lie one after another, expanded for both: see best.h. `down`: greater keys are
 * better. A line is 64 bytes of codes at every level. */

typedef POP_B_CODE POP_B(line) __attribute__((vector_size(POP_LINE_BYTES), aligned(4)));
typedef POP_B_SIGNED POP_B(signed_line) __attribute__((vector_size(POP_LINE_BYTES), aligned(4)));

#define POP_B_LANES ((int64_t)(POP_LINE_BYTES / sizeof(POP_B_CODE)))
#define POP_B_ONES ((POP_B_CODE)-1)

POP_INLINE POP_B(line) POP_B(load)(const POP_B_CODE *codes)
{
    POP_B(line) v;
    memcpy(&v, codes, sizeof v);
#if POP_LEVEL >= POP_LEVEL_AVX512
    POP_IN_REGISTER(v); /* once: GCC would load it again for each operation, and two lines of the cache each time */
#endif
    return v;
}

/* The first n codes of a line. */
POP_INLINE POP_B(line) POP_B(load_some)(const POP_B_CODE *codes, int64_t n)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    return (POP_B(line))POP_B_LOAD(((uint32_t)1 << n) - 1, codes);
#else
    POP_B(line) v = {0};
    memcpy(&v, codes, (size_t)n * sizeof *codes);
    return v;
#endif
}

/* The keys of a line, zeros and NaNs not yet one. */
POP_INLINE POP_B(line) POP_B(keys)(pop_coding c, POP_B(line) v)
{
    v ^= (POP_B(line))((POP_B(signed_line))v >> (8 * (int)sizeof(POP_B_CODE) - 1)) & (POP_B_CODE)c.flips;
    return v + (POP_B_CODE)(c.sign - c.turn);
}

POP_INLINE POP_B(line) POP_B(better)(POP_B(line) a, POP_B(line) b, int down)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    return (POP_B(line))(down ? POP_B_MAX((__m512i)a, (__m512i)b) : POP_B_MIN((__m512i)a, (__m512i)b));
#else
    const POP_B(line) first = down ? (POP_B(line))(a > b) : (POP_B(line))(a < b);
    return (a & first) | (b & ~first);
#endif
}

/* In each lane the best key of a block. */
POP_INLINE POP_B(line) POP_B(block)(pop_coding c, const POP_B_CODE *codes, int64_t span, int down)
{
    POP_B(line) best = POP_B(keys)(c, POP_B(load)(codes));
    for (int64_t i = 1; i < span; i++)
        best = POP_B(better)(best, POP_B(keys)(c, POP_B(load)(codes + i * POP_B_LANES)), down);
    return best;
}

#if POP_LEVEL >= POP_LEVEL_AVX512
/* The better of what two shuffles of two vectors put into each lane. */
#define POP_B_JOIN(a, b, first, second) (__m512i) POP_B(better)((POP_B(line))first(a, b), (POP_B(line))second(a, b), down)
#define POP_B_EVEN(a, b) _mm512_shuffle_i32x4(a, b, 0x88)
#define POP_B_ODD(a, b) _mm512_shuffle_i32x4(a, b, 0xdd)

/* Of 16 blocks from b on, or of the last as many times as there are fewer, the best of each. */
POP_INLINE __m512i POP_B(sixteen)(pop_coding c, const POP_B_CODE *codes, int64_t b, int64_t last, int64_t span, int down)
{
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        const int64_t at = b + i < last ? b + i : last;
        v[i] = (__m512i)POP_B(block)(c, codes + at * span * POP_B_LANES, span, down);
        if (i & 1) v[i / 2] = POP_B_JOIN(v[i - 1], v[i], _mm512_unpacklo_epi32, _mm512_unpackhi_epi32);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) v[i] = POP_B_JOIN(v[2 * i], v[2 * i + 1], _mm512_unpacklo_epi64, _mm512_unpackhi_epi64);
    v[0] = POP_B_JOIN(v[0], v[1], POP_B_EVEN, POP_B_ODD), v[1] = POP_B_JOIN(v[2], v[3], POP_B_EVEN, POP_B_ODD);
    v[0] = POP_B_JOIN(v[0], v[1], POP_B_EVEN, POP_B_ODD);
    if (sizeof(POP_B_CODE) == 4) return v[0];
    v[0] = (__m512i)POP_B(better)((POP_B(line))v[0], (POP_B(line))_mm512_srli_epi32(v[0], 16), down);
    return _mm512_and_si512(v[0], _mm512_set1_epi32(POP_B_ONES));
}
#endif

/* The best key of each block, inverted where the greatest are best, and of the last some more times up to a whole sixteen. */
POP_INLINE void POP_B(blocks)(pop_coding c, const POP_B_CODE *codes, const pop_blocks *some, int down, uint32_t *best)
{
    const uint32_t invert = down ? POP_B_ONES : 0;
#if POP_LEVEL >= POP_LEVEL_AVX512
    const __m512i inverted = _mm512_set1_epi32((int)invert);
    for (int64_t b = 0; b < some->count; b += 16) {
        const __m512i all = some->span == 1 && b + 16 <= some->count
                                ? POP_B(sixteen)(c, codes, b, INT64_MAX, 1, down)
                                : POP_B(sixteen)(c, codes, b, some->count - 1, some->span, down);
        _mm512_storeu_si512(best + b, _mm512_xor_si512(all, inverted));
    }
#else
    for (int64_t b = 0; b < some->count; b++) {
        const POP_B(line) keys = POP_B(block)(c, codes + b * some->span * POP_B_LANES, some->span, down);
        uint32_t least = UINT32_MAX;
        for (int64_t j = 0; j < POP_B_LANES; j++) least = (keys[j] ^ invert) < least ? keys[j] ^ invert : least;
        best[b] = least;
    }
#endif
}

/* The worst code's key that is as good as a word's. */
POP_INLINE POP_B_CODE POP_B(limit)(pop_coding c, uint32_t word_key, int down)
{
    const POP_B_CODE key = (POP_B_CODE)(word_key ^ (down ? POP_B_ONES : 0));
    if (key > c.last) return down ? (POP_B_CODE)(c.last + 1) : POP_B_ONES;
    if (key - c.minus_zero <= c.zero_step) return (POP_B_CODE)(c.minus_zero + (down ? 0 : c.zero_step));
    return key;
}

/* Lanes whose keys are no worse than a limit, a bit each. */
POP_INLINE uint32_t POP_B(hits)(POP_B(line) keys, POP_B_CODE limit, int down)
{
#if POP_LEVEL >= POP_LEVEL_AVX512
    const __m512i bound = POP_B_SPLAT(limit);
    return down ? POP_B_GE((__m512i)keys, bound) : POP_B_LE((__m512i)keys, bound);
#else
    const POP_B(line) some = down ? (POP_B(line))(keys >= limit) : (POP_B(line))(keys <= limit);
    uint64_t parts[POP_LINE_BYTES / 8], any = 0;
    memcpy(parts, &some, sizeof parts);
    for (int i = 0; i < POP_LINE_BYTES / 8; i++) any |= parts[i];
    uint32_t hits = 0;
    for (int64_t j = 0; any && j < POP_B_LANES; j++) hits |= (uint32_t)(some[j] & 1) << j;
    return hits;
#endif
}

POP_INLINE uint32_t POP_B(word_key)(pop_coding c, POP_B_CODE code, int down)
{
    return pop_key(c, code, sizeof code, 1) ^ (down ? POP_B_ONES : 0);
}

/* The worst key that is still wanted. */
POP_INLINE void POP_B(set_worst)(pop_coding c, uint32_t worst, int down, pop_kept *k)
{
    k->worst = worst;
    k->limit = POP_B(limit)(c, worst, down);
}

POP_INLINE void POP_B(drop)(pop_coding c, int down, pop_kept *k)
{
    if (k->count < k->room) return;
    const uint32_t key = pop_drop(k);
    k->full = key == 0;
    POP_B(set_worst)(c, key - 1, down, k);
}

/* Keep elements from place `first` on, a bit each, as words where they are still wanted. */
POP_INLINE void POP_B(keep_hits)(pop_coding c, const POP_B_CODE *codes, int64_t first, uint64_t hits, int down, pop_kept *k)
{
    int64_t count = k->count;
    for (; hits; hits &= hits - 1) {
        const int64_t place = first + __builtin_ctzll(hits);
        const uint32_t key = POP_B(word_key)(c, codes[place], down);
        k->words[count] = (uint64_t)key << 32 | (uint64_t)place;
        count += key <= k->worst;
    }
    k->count = count;
    POP_B(drop)(c, down, k);
}

/* Keep what is still wanted of elements `at` to `end`, lines or less than one. */
POP_INLINE void POP_B(keep)(pop_coding c, const POP_B_CODE *codes, int64_t at, int64_t end, int down, pop_kept *k)
{
    for (int64_t first = at; at + POP_B_LANES <= end && !k->full; first = at) {
        uint64_t hits = 0;
        for (; at + POP_B_LANES <= end && at - first < 64; at += POP_B_LANES)
            hits |= (uint64_t)POP_B(hits)(POP_B(keys)(c, POP_B(load)(codes + at)), (POP_B_CODE)k->limit, down) << (at - first);
        POP_B(keep_hits)(c, codes, first, hits, down, k);
    }
    if (at == end || k->full) return;
    const POP_B(line) keys = POP_B(keys)(c, POP_B(load_some)(codes + at, end - at));
    const uint32_t some = ((uint32_t)1 << (end - at)) - 1;
    POP_B(keep_hits)(c, codes, at, POP_B(hits)(keys, (POP_B_CODE)k->limit, down) & some, down, k);
}

/* Keep the first n elements. */
POP_INLINE void POP_B(keep_all)(pop_coding c, const POP_B_CODE *restrict codes, int64_t n, int down, pop_kept *k)
{
    uint64_t *restrict words = k->words;
    for (int64_t i = 0; i < n; i++) words[i] = (uint64_t)POP_B(word_key)(c, codes[i], down) << 32 | (uint64_t)i;
    k->count = n;
    POP_B(drop)(c, down, k);
}

/* The best of a row of a line or more, and the first of those that are equal to it: the last line may have a part of another. */
POP_INLINE uint64_t POP_B(first_best)(pop_coding c, const POP_B_CODE *codes, int64_t n, int down)
{
    const int64_t last = n - POP_B_LANES;
    POP_B(line) lanes = POP_B(keys)(c, POP_B(load)(codes + last));
#pragma GCC unroll 4
    for (int64_t at = 0; at < last; at += POP_B_LANES) lanes = POP_B(better)(lanes, POP_B(keys)(c, POP_B(load)(codes + at)), down);
    POP_B_CODE best = down ? 0 : POP_B_ONES;
    for (int64_t j = 0; j < POP_B_LANES; j++) best = (down ? lanes[j] > best : lanes[j] < best) ? lanes[j] : best;
    const uint32_t word_key = pop_equal_key(c, best) ^ (down ? POP_B_ONES : 0);
    const POP_B_CODE limit = POP_B(limit)(c, word_key, down);
    for (int64_t at = 0;; at = at + POP_B_LANES < last ? at + POP_B_LANES : last) {
        const uint32_t hits = POP_B(hits)(POP_B(keys)(c, POP_B(load)(codes + at)), limit, down);
        if (hits) return (uint64_t)word_key << 32 | (uint64_t)(at + __builtin_ctz(hits));
    }
}

/* Words of the best k and perhaps of more, in no order. */
POP_INLINE void POP_B(best_words)(const pop_sort *s, const POP_B_CODE *codes, int down, pop_kept *k, uint32_t *best)
{
    const pop_coding c = pop_coding_of(s);
    const pop_blocks blocks = pop_blocks_of(s->n / POP_B_LANES, s->k);
    const int64_t elements = blocks.span * POP_B_LANES;
    const uint32_t invert = down ? POP_B_ONES : 0;
    if (k->k == 1 && s->n >= POP_B_LANES && s->n <= POP_TWICE_BYTES / (int64_t)sizeof *codes) {
        k->words[0] = POP_B(first_best)(c, codes, s->n, down);
        k->count = 1;
        return;
    }
    POP_B(set_worst)(c, POP_B_ONES, down, k);
    if (blocks.count == 0 || k->room > s->n) {
        const int64_t some = k->room < POP_CHUNK ? POP_CHUNK : k->room, first = some < s->n ? some : s->n;
        POP_B(keep_all)(c, codes, first, down, k);
        POP_B(keep)(c, codes, first, s->n, down, k);
        return;
    }
    POP_B(blocks)(c, codes, &blocks, down, best);
    POP_B(set_worst)(c, pop_equal_key(c, pop_kth(best, blocks.count, k) ^ invert) ^ invert, down, k);
    for (int64_t b = 0; b < blocks.count; b += 64) {
        uint64_t hits = pop_no_worse(best + b, blocks.count - b, k->limit ^ invert);
        for (; hits && !k->full; hits &= hits - 1) {
            const int64_t at = (b + __builtin_ctzll(hits)) * elements;
            POP_B(keep)(c, codes, at, at + elements, down, k);
        }
    }
    POP_B(keep)(c, codes, blocks.count * elements, s->n, down, k);
}
#undef POP_B_LANES
#undef POP_B_ONES
#undef POP_B_JOIN
#undef POP_B_EVEN
#undef POP_B_ODD
