/* Quicksort of words, a vector at a time, expanded for words of 32 and of 64 bits: see quick.h, which says what it is made of.
 *
 * A part is split by a pivot: what is less goes to the front as it is read, what is not to `tmp`, and then behind. No branch
 * depends on a comparison. Parts of up to 16 vectors are sorted in registers. */

/* Each lane beside the one whose number differs in the bits `with`: the lesser stays, in lanes of `up` the greater. */
POP_INLINE __m512i POP_Q(beside)(__m512i v, int with)
{
    return POP_Q_PERMUTE(_mm512_xor_si512(POP_Q_IOTA, POP_Q_SPLAT(with)), v);
}
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
POP_INLINE void POP_Q(network)(POP_Q_WORD *a, int64_t n, int count)
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
    for (int i = 0; i < count; i++) POP_Q_STORE(a + i * POP_Q_LANES, POP_Q(part)(n - i * POP_Q_LANES), v[i]);
}

static __attribute__((noinline)) void POP_Q(few1)(POP_Q_WORD *a, int64_t n) { POP_Q(network)(a, n, 1); }
static __attribute__((noinline)) void POP_Q(few2)(POP_Q_WORD *a, int64_t n) { POP_Q(network)(a, n, 2); }
static __attribute__((noinline)) void POP_Q(few4)(POP_Q_WORD *a, int64_t n) { POP_Q(network)(a, n, 4); }
static __attribute__((noinline)) void POP_Q(few8)(POP_Q_WORD *a, int64_t n) { POP_Q(network)(a, n, 8); }
static __attribute__((noinline)) void POP_Q(few16)(POP_Q_WORD *a, int64_t n) { POP_Q(network)(a, n, 16); }

static void POP_Q(few)(POP_Q_WORD *a, int64_t n)
{
    if (n <= POP_Q_LANES) POP_Q(few1)(a, n);
    else if (n <= 2 * POP_Q_LANES) POP_Q(few2)(a, n);
    else if (n <= 4 * POP_Q_LANES) POP_Q(few4)(a, n);
    else if (n <= 8 * POP_Q_LANES) POP_Q(few8)(a, n);
    else POP_Q(few16)(a, n);
}

/* The middle of words here and there. */
static POP_Q_WORD POP_Q(pivot)(const POP_Q_WORD *a, int64_t n)
{
    POP_Q_WORD some[64];
    const int64_t count = n < 1024 ? 16 : 64;
    for (int64_t i = 0; i < count; i++) some[i] = a[(i * n + n / 2) / count];
    POP_Q(few)(some, count);
    return some[count / 2];
}

/* What is less than p to the front, and the rest behind; return how many that are. */
static int64_t POP_Q(split)(POP_Q_WORD *a, int64_t n, POP_Q_WORD p, POP_Q_WORD *tmp)
{
    const __m512i pivot = POP_Q_SPLAT(p);
    int64_t less = 0, rest = 0, i = 0;
    for (; i + POP_Q_LANES <= n; i += POP_Q_LANES) {
        const __m512i v = _mm512_loadu_si512(a + i);
        const POP_Q_MASK m = POP_Q_LESS(v, pivot);
        const int64_t count = __builtin_popcount(m);
        _mm512_storeu_si512(a + less, POP_Q_COMPRESS(m, v)); /* less <= i: nothing unread is written over */
        _mm512_storeu_si512(tmp + rest, POP_Q_COMPRESS((POP_Q_MASK)~m, v));
        less += count;
        rest += POP_Q_LANES - count;
    }
    if (i < n) {
        const POP_Q_MASK here = POP_Q(part)(n - i);
        const __m512i v = POP_Q_LOAD(_mm512_setzero_si512(), here, a + i);
        const POP_Q_MASK m = POP_Q_LESS(v, pivot) & here, more = here & (POP_Q_MASK)~m;
        POP_Q_STORE(a + less, POP_Q(part)(__builtin_popcount(m)), POP_Q_COMPRESS(m, v));
        _mm512_storeu_si512(tmp + rest, POP_Q_COMPRESS(more, v));
        less += __builtin_popcount(m);
        rest += __builtin_popcount(more);
    }
    memcpy(a + less, tmp, (size_t)rest * sizeof *a);
    return less;
}

/* n words, of which the least k are put in order; `tmp` has room for n and a vector more. */
static void POP_Q(quick)(POP_Q_WORD *a, int64_t n, int64_t k, POP_Q_WORD *tmp, int depth)
{
    while (n > 16 * POP_Q_LANES) {
        if (depth-- == 0) {
            POP_Q_RADIX(a, n, tmp, 0);
            return;
        }
        const POP_Q_WORD p = POP_Q(pivot)(a, n);
        int64_t less = POP_Q(split)(a, n, p, tmp);
        if (less == 0) { /* p is the least: those equal to it go in front */
            if (p == (POP_Q_WORD)-1) return;
            less = POP_Q(split)(a, n, p + 1, tmp);
            if (less >= k) return;
            a += less, n -= less, k -= less;
        } else if (less >= k) {
            n = less;
        } else if (less < n - less) {
            POP_Q(quick)(a, less, less, tmp, depth);
            a += less, n -= less, k -= less;
        } else {
            POP_Q(quick)(a + less, n - less, k - less, tmp, depth);
            n = k = less;
        }
    }
    POP_Q(few)(a, n);
}
