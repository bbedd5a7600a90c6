/* Quicksort of words, a vector at a time, expanded for words of 32 and of 64 bits: see quick.h, which says what it is made of.
 *
 * A part is split by a pivot: what is less goes to the front as it is read, what is not to `tmp`, and then behind. No branch
 * depends on a comparison. Parts of up to POP_Q_MOST vectors are sorted in registers by a bitonic network. */

/* Each lane beside the one whose number differs in the bits `with`: the lesser stays, in lanes of `up` the greater. */
POP_INLINE __m512i POP_Q(step)(__m512i v, int with, uint32_t up)
{
    const __m512i beside = POP_Q_PERMUTE(_mm512_xor_si512(POP_Q_IOTA, POP_Q_SPLAT(with)), v);
    return POP_Q_MASK_MAX(POP_Q_MIN(v, beside), (POP_Q_MASK)up, v, beside);
}

/* A vector whose lanes first rise and then fall, or the other way round, in order. */
POP_INLINE __m512i POP_Q(clean)(__m512i v)
{
#if POP_Q_LANES == 16
    v = POP_Q(step)(v, 8, 0xff00);
#endif
    v = POP_Q(step)(v, 4, 0xf0f0);
    v = POP_Q(step)(v, 2, 0xcccc);
    return POP_Q(step)(v, 1, 0xaaaa);
}

POP_INLINE __m512i POP_Q(lanes)(__m512i v)
{
    v = POP_Q(step)(v, 1, 0xaaaa);
    v = POP_Q(step)(v, 3, 0xcccc);
    v = POP_Q(step)(v, 1, 0xaaaa);
    v = POP_Q(step)(v, 7, 0xf0f0);
    v = POP_Q(step)(v, 2, 0xcccc);
    v = POP_Q(step)(v, 1, 0xaaaa);
#if POP_Q_LANES == 16
    v = POP_Q(step)(v, 15, 0xff00);
    v = POP_Q(step)(v, 4, 0xf0f0);
    v = POP_Q(step)(v, 2, 0xcccc);
    v = POP_Q(step)(v, 1, 0xaaaa);
#endif
    return v;
}

/* Vectors `apart` from each other, lane by lane. */
POP_INLINE void POP_Q(across)(__m512i *v, int count, int apart)
{
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        if (!(i & apart)) {
            const __m512i low = POP_Q_MIN(v[i], v[i + apart]);
            v[i + apart] = POP_Q_MAX(v[i], v[i + apart]);
            v[i] = low;
        }
}

/* Sorted runs of `half` vectors, two and two, to runs of twice as many. */
POP_INLINE void POP_Q(merge)(__m512i *v, int count, int half)
{
    __m512i back[8];
#pragma GCC unroll 16
    for (int i = 0; i < count; i += 2 * half) {
#pragma GCC unroll 8
        for (int j = 0; j < half; j++)
            back[j] = POP_Q_PERMUTE(POP_Q_REVERSED, v[i + 2 * half - 1 - j]);
#pragma GCC unroll 8
        for (int j = 0; j < half; j++) {
            v[i + half + j] = POP_Q_MAX(v[i + j], back[j]);
            v[i + j] = POP_Q_MIN(v[i + j], back[j]);
        }
    }
    if (half >= 8) POP_Q(across)(v, count, 4);
    if (half >= 4) POP_Q(across)(v, count, 2);
    if (half >= 2) POP_Q(across)(v, count, 1);
#pragma GCC unroll 16
    for (int i = 0; i < count; i++) v[i] = POP_Q(clean)(v[i]);
}

POP_INLINE POP_Q_MASK POP_Q(part)(int64_t n)
{
    return n >= POP_Q_LANES ? (POP_Q_MASK)-1 : n <= 0 ? (POP_Q_MASK)0 : (POP_Q_MASK)((1u << n) - 1);
}

/* n words, `count` vectors at most. */
POP_INLINE void POP_Q(network)(POP_Q_WORD *a, int64_t n, int count)
{
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        v[i] = POP_Q(lanes)(POP_Q_LOAD(_mm512_set1_epi64(-1), POP_Q(part)(n - i * POP_Q_LANES), a + i * POP_Q_LANES));
    if (count >= 2) POP_Q(merge)(v, count, 1);
    if (count >= 4) POP_Q(merge)(v, count, 2);
    if (count >= 8) POP_Q(merge)(v, count, 4);
    if (count >= 16) POP_Q(merge)(v, count, 8);
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
    while (n > POP_Q_MOST * POP_Q_LANES) {
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
