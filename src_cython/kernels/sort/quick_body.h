/* Quicksort of words, a vector at a time, expanded for words of 32 and of 64 bits: see quick.h, which says what it is made of.
 *
 * A part is split by a pivot: what is less goes to the front of other memory, what is not to its end, and each is split back from
 * there. No branch depends on a comparison. Parts of up to 16 vectors are sorted in registers. */

/* For each lane the one whose number differs in the bits `with`: within 16 bytes in less time. */
POP_INLINE __m512i POP_Q(beside)(__m512i v, int with)
{
#if POP_Q_LANES == 16
    if (with == 1) return _mm512_shuffle_epi32(v, 0xb1);
    if (with == 2) return _mm512_shuffle_epi32(v, 0x4e);
    if (with == 3) return _mm512_shuffle_epi32(v, 0x1b);
#else
    if (with == 1) return _mm512_shuffle_epi32(v, 0x4e);
#endif
    return POP_Q_PERMUTE(_mm512_xor_si512(POP_Q_IOTA, POP_Q_SPLAT(with)), v);
}

/* The lesser of a lane and the one beside it, in lanes of `up` the greater. */
POP_INLINE __m512i POP_Q(step)(__m512i v, int with, uint32_t up)
{
    const __m512i other = POP_Q(beside)(v, with);
    return POP_Q_MASK_MAX(POP_Q_MIN(v, other), (POP_Q_MASK)up, v, other);
}

POP_INLINE void POP_Q(swap)(__m512i *v, int i, int j)
{
    const __m512i low = POP_Q_MIN(v[i], v[j]);
    v[j] = POP_Q_MAX(v[i], v[j]);
    v[i] = low;
}

/* Rows of each block beside each other, the last beside the first, with lanes of each group the other way round. */
POP_INLINE void POP_Q(flip)(__m512i *v, int count, int block, int group)
{
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        if ((i & (block - 1)) < block / 2) {
            const int j = i ^ (block - 1);
            const __m512i other = POP_Q(beside)(v[j], group - 1);
            v[j] = POP_Q_MAX(v[i], other);
            v[i] = POP_Q_MIN(v[i], other);
        }
}

/* Groups of lanes whose halves are in order, row by row, are put in order: a bitonic merge whose second half lies backwards. */
POP_INLINE void POP_Q(widen)(__m512i *v, int count, int group, uint32_t up)
{
    if (count >= 16) POP_Q(flip)(v, count, 16, group);
    if (count >= 8) POP_Q(flip)(v, count, 8, group);
    if (count >= 4) POP_Q(flip)(v, count, 4, group);
    if (count >= 2) POP_Q(flip)(v, count, 2, group);
#pragma GCC unroll 16
    for (int i = 0; i < count; i++) {
        v[i] = POP_Q(step)(v[i], group - 1, up);
        if (group >= 16) v[i] = POP_Q(step)(v[i], 4, 0xf0f0);
        if (group >= 8) v[i] = POP_Q(step)(v[i], 2, 0xcccc);
        if (group >= 4) v[i] = POP_Q(step)(v[i], 1, 0xaaaa);
    }
}

POP_INLINE POP_Q_MASK POP_Q(part)(int64_t n)
{
    return n >= POP_Q_LANES ? (POP_Q_MASK)-1 : n <= 0 ? (POP_Q_MASK)0 : (POP_Q_MASK)((1u << n) - 1);
}

/* n words, `count` vectors at most: lanes are sorted by themselves, then merged. */
POP_INLINE void POP_Q(network)(const POP_Q_WORD *a, int64_t n, POP_Q_WORD *to, int count)
{
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        v[i] = POP_Q_LOAD(_mm512_set1_epi64(-1), POP_Q(part)(n - i * POP_Q_LANES), a + i * POP_Q_LANES);
#define POP_Q_SWAP(i, j) POP_Q(swap)(v, i, j);
    if (count == 2) { POP_ROWS_2(POP_Q_SWAP) }
    if (count == 4) { POP_ROWS_4(POP_Q_SWAP) }
    if (count == 8) { POP_ROWS_8(POP_Q_SWAP) }
    if (count == 16) { POP_ROWS_16(POP_Q_SWAP) }
#undef POP_Q_SWAP
    POP_Q(widen)(v, count, 2, 0xaaaa);
    POP_Q(widen)(v, count, 4, 0xcccc);
    POP_Q(widen)(v, count, 8, 0xf0f0);
#if POP_Q_LANES == 16
    POP_Q(widen)(v, count, 16, 0xff00);
#endif
#pragma GCC unroll 16
    for (int i = 0; i < count; i++) POP_Q_STORE(to + i * POP_Q_LANES, POP_Q(part)(n - i * POP_Q_LANES), v[i]);
}

#define POP_Q_FEW(count)                                                                                                  \
    static __attribute__((noinline)) void POP_Q(few##count)(const POP_Q_WORD *a, int64_t n, POP_Q_WORD *to)               \
    {                                                                                                                     \
        POP_Q(network)(a, n, to, count);                                                                                  \
    }
POP_Q_FEW(1)
POP_Q_FEW(2)
POP_Q_FEW(4)
POP_Q_FEW(8)
POP_Q_FEW(16)
#undef POP_Q_FEW

static void POP_Q(few)(const POP_Q_WORD *a, int64_t n, POP_Q_WORD *to)
{
    if (n <= POP_Q_LANES) POP_Q(few1)(a, n, to);
    else if (n <= 2 * POP_Q_LANES) POP_Q(few2)(a, n, to);
    else if (n <= 4 * POP_Q_LANES) POP_Q(few4)(a, n, to);
    else if (n <= 8 * POP_Q_LANES) POP_Q(few8)(a, n, to);
    else POP_Q(few16)(a, n, to);
}

/* The middle of words here and there. */
static POP_Q_WORD POP_Q(pivot)(const POP_Q_WORD *a, int64_t n)
{
    POP_Q_WORD some[64];
    const int64_t count = n < 1024 ? 16 : 64;
    for (int64_t i = 0; i < count; i++) some[i] = a[(i * n + n / 2) / count];
    POP_Q(few)(some, count, some);
    return some[count / 2];
}

/* What is less than p to the front of `to`, the rest to its end; return how many are less. */
static int64_t POP_Q(split)(const POP_Q_WORD *a, int64_t n, POP_Q_WORD p, POP_Q_WORD *to)
{
    const __m512i pivot = POP_Q_SPLAT(p);
    int64_t low = 0, high = n, i = 0;
    for (; i + 2 * POP_Q_LANES <= n; i += POP_Q_LANES) { /* n - i words are still free: the two stores cannot meet */
        const __m512i v = _mm512_loadu_si512(a + i);
        const POP_Q_MASK m = POP_Q_LESS(v, pivot);
        const int count = __builtin_popcount(m);
        const __m512i parted = POP_Q_PARTED(m, v, count);
        _mm512_storeu_si512(to + low, parted);
        _mm512_storeu_si512(to + high - POP_Q_LANES, parted);
        low += count;
        high -= POP_Q_LANES - count;
    }
    for (; i < n; i += POP_Q_LANES) {
        const POP_Q_MASK here = POP_Q(part)(n - i);
        const __m512i v = POP_Q_LOAD(_mm512_setzero_si512(), here, a + i);
        const POP_Q_MASK m = POP_Q_LESS(v, pivot) & here, more = here & (POP_Q_MASK)~m;
        const int count = __builtin_popcount(m), others = __builtin_popcount(more);
        POP_Q_STORE(to + low, POP_Q(part)(count), POP_Q_COMPRESS(m, v));
        POP_Q_STORE(to + high - others, POP_Q(part)(others), POP_Q_COMPRESS(more, v));
        low += count;
        high -= others;
    }
    return low;
}

/* n words at a, of which the least k are put in order: at a where they are at `home`, else at b, which has as much room. */
static void POP_Q(quick)(POP_Q_WORD *a, int64_t n, int64_t k, POP_Q_WORD *b, int home, int depth)
{
    POP_Q_WORD *held;
    while (n > 16 * POP_Q_LANES) {
        if (depth-- == 0) {
            POP_Q_RADIX(a, n, b, 0);
            if (!home) memcpy(b, a, (size_t)n * sizeof *a);
            return;
        }
        const POP_Q_WORD p = POP_Q(pivot)(a, n);
        int64_t less = POP_Q(split)(a, n, p, b);
        held = a, a = b, b = held, home = !home;
        if (less == 0) { /* p is the least: how many are equal to it? */
            less = p == (POP_Q_WORD)-1 ? n : POP_Q(split)(a, n, p + 1, b);
            if (less < n) held = a, a = b, b = held, home = !home;
            for (int64_t i = 0; i < less; i++) (home ? a : b)[i] = p;
            if (less >= k) return;
            a += less, b += less, n -= less, k -= less;
        } else if (less >= k) {
            n = less;
        } else if (less < n - less) {
            POP_Q(quick)(a, less, less, b, home, depth);
            a += less, b += less, n -= less, k -= less;
        } else {
            POP_Q(quick)(a + less, n - less, k - less, b + less, home, depth);
            n = k = less;
        }
    }
    POP_Q(few)(a, n, home ? a : b);
}

/* The word that sorting would put at place k; b and c have as much room. */
static POP_Q_WORD POP_Q(word_at)(const POP_Q_WORD *a, int64_t n, int64_t k, POP_Q_WORD *b, POP_Q_WORD *c)
{
    for (int depth = 128; n > 16 * POP_Q_LANES; depth--) {
        if (depth == 0) {
            memcpy(b, a, (size_t)n * sizeof *a);
            POP_Q_RADIX(b, n, c, 0);
            return b[k];
        }
        const POP_Q_WORD p = POP_Q(pivot)(a, n);
        int64_t less = POP_Q(split)(a, n, p, b);
        POP_Q_WORD *held = b;
        a = b, b = c, c = held;
        if (less == 0) {
            less = p == (POP_Q_WORD)-1 ? n : POP_Q(split)(a, n, p + 1, b);
            if (k < less) return p;
            held = b, a = b, b = c, c = held;
        } else if (k < less) {
            n = less;
            continue;
        }
        a += less, b += less, c += less, n -= less, k -= less;
    }
    POP_Q(few)(a, n, b);
    return b[k];
}
