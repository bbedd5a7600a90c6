/* Rows and columns of one type of elements, included by scan.h for each. Given are POP_SCAN(name), the name of its own; POP_ELEMENT,
 * how it lies in memory; POP_HELD, how it is held; POP_FOUR, four of those; POP_WIDE, how four elements become them; POP_PLUS, their sums;
 * POP_COMPARED, as extremes are compared; POP_LOWEST and POP_HIGHEST. */

POP_INLINE POP_HELD POP_SCAN(at)(const char *p, int64_t i)
{
    POP_ELEMENT x;
    memcpy(&x, p + i * (int64_t)sizeof x, sizeof x);
    return (POP_HELD)x;
}

POP_INLINE void POP_SCAN(put)(char *p, int64_t i, POP_HELD y)
{
    const POP_ELEMENT x = (POP_ELEMENT)y;
    memcpy(p + i * (int64_t)sizeof x, &x, sizeof x);
}

/* Of extremes the first NaN, else the first of the best, which seldom changes. */
POP_INLINE POP_HELD POP_SCAN(join)(int state, POP_HELD a, POP_HELD b)
{
    if (state == POP_STATE_PRODUCT) return a * b;
    const POP_COMPARED l = (POP_COMPARED)a, r = (POP_COMPARED)b;
    const int keeps = state == POP_STATE_MIN ? r >= l : r <= l;
    return __builtin_expect(keeps, 1) || !(l == l) ? a : b;
}

static void POP_SCAN(begin)(int state, void *held, int64_t n)
{
    const POP_HELD first = state == POP_STATE_SUM ? (POP_HELD)-0.0 : state == POP_STATE_PRODUCT ? 1
                           : state == POP_STATE_MIN ? (POP_HELD)POP_HIGHEST : (POP_HELD)POP_LOWEST;
    for (int64_t i = 0; i < n; i++) ((POP_HELD *)held)[i] = first;
}

/* So many fours; what each comes to is read back from memory, which takes no shuffle. */
POP_INLINE void POP_SCAN(fours)(POP_FOUR *before, const char *x, char *y, POP_FOUR one, int count)
{
    const POP_HELD none = (POP_HELD)-0.0;
    const POP_FOUR nothing = {none, none, none, none};
    POP_FOUR fours[POP_SCAN_FOURS];
    POP_HELD sums[POP_SCAN_FOURS][4] __attribute__((aligned(32)));
#pragma GCC unroll 8
    for (int k = 0; k < count; k++) {
        POP_FOUR four = POP_WIDE(x + 4 * k * (int64_t)sizeof(POP_ELEMENT));
        four = POP_PLUS(__builtin_shuffle(nothing, four, (pop_scan_index){0, 4, 2, 6}), four, one);
        four = POP_PLUS(__builtin_shuffle(nothing, four, (pop_scan_index){0, 1, 5, 5}), four, one);
        fours[k] = four;
        memcpy(sums[k], &four, sizeof four);
    }
    __asm__("" : "+m"(sums));
#pragma GCC unroll 8
    for (int k = 0; k < count; k++) {
        const POP_HELD sum = sums[k][3];
        POP_NARROW(y + 4 * k * (int64_t)sizeof(POP_ELEMENT), POP_PLUS(*before, fours[k], one));
        *before += (POP_FOUR){sum, sum, sum, sum};
    }
}

/* n elements of a row, from the first of a four on; `held` is what came before. */
static void POP_SCAN(sums)(POP_HELD *held, const char *x, char *y, int64_t n)
{
    POP_FOUR before = {*held, *held, *held, *held}, one = {1, 1, 1, 1};
    __asm__("" : "+x"(one)); /* so that a product with it is not left out */
    int64_t i = 0;
    for (; i + 4 * POP_SCAN_FOURS <= n; i += 4 * POP_SCAN_FOURS)
        POP_SCAN(fours)(&before, x + i * (int64_t)sizeof(POP_ELEMENT), y + i * (int64_t)sizeof(POP_ELEMENT), one, POP_SCAN_FOURS);
    for (; i + 4 <= n; i += 4)
        POP_SCAN(fours)(&before, x + i * (int64_t)sizeof(POP_ELEMENT), y + i * (int64_t)sizeof(POP_ELEMENT), one, 1);
    *held = before[0];
    if (i == n) return;
    const POP_HELD a = POP_SCAN(at)(x, i), b = i + 1 < n ? a + POP_SCAN(at)(x, i + 1) : a, c = i + 2 < n ? b + POP_SCAN(at)(x, i + 2) : b;
    POP_SCAN(put)(y, i, *held + a);
    if (i + 1 < n) POP_SCAN(put)(y, i + 1, *held + b);
    if (i + 2 < n) POP_SCAN(put)(y, i + 2, *held + c);
}

POP_INLINE void POP_SCAN(others)(int state, POP_HELD *held, const char *x, char *y, int64_t n)
{
    POP_HELD s = *held;
    for (int64_t i = 0; i < n; i++) POP_SCAN(put)(y, i, s = POP_SCAN(join)(state, s, POP_SCAN(at)(x, i)));
    *held = s;
}

static void POP_SCAN(row)(int state, void *held, const char *x, char *y, int64_t n)
{
    if (state == POP_STATE_SUM) POP_SCAN(sums)(held, x, y, n);
    else if (state == POP_STATE_PRODUCT) POP_SCAN(others)(POP_STATE_PRODUCT, held, x, y, n);
    else if (state == POP_STATE_MAX) POP_SCAN(others)(POP_STATE_MAX, held, x, y, n);
    else POP_SCAN(others)(POP_STATE_MIN, held, x, y, n);
}

POP_INLINE void POP_SCAN(other_columns)(int state, POP_HELD *held, const char *x, char *y, int64_t n)
{
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) POP_SCAN(put)(y, i, held[i] = POP_SCAN(join)(state, held[i], POP_SCAN(at)(x, i)));
}

/* Four columns of four rows. */
POP_INLINE void POP_SCAN(block)(POP_HELD *held, const char *const *x, char *const *y, int64_t at)
{
    POP_FOUR s, a = POP_WIDE(x[0] + at), b = a + POP_WIDE(x[1] + at), c = POP_WIDE(x[2] + at), d = c + POP_WIDE(x[3] + at);
    memcpy(&s, held, sizeof s);
    POP_NARROW(y[0] + at, s + a);
    POP_NARROW(y[1] + at, s + b);
    POP_NARROW(y[2] + at, s + (b + c));
    s += b + d;
    POP_NARROW(y[3] + at, s);
    memcpy(held, &s, sizeof s);
}

static void POP_SCAN(sums_of_columns)(POP_HELD *held, const char *const *x, char *const *y, int64_t n)
{
    const char *from[POP_SCAN_ROWS] = {x[0], x[1], x[2], x[3]};
    char *to[POP_SCAN_ROWS] = {y[0], y[1], y[2], y[3]}, room[POP_SCAN_ROWS][4 * sizeof(POP_ELEMENT)] = {{0}};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) POP_SCAN(block)(held + i, from, to, i * (int64_t)sizeof(POP_ELEMENT));
    if (i == n) return;
    const int64_t at = i * (int64_t)sizeof(POP_ELEMENT), bytes = (n - i) * (int64_t)sizeof(POP_ELEMENT);
    for (int k = 0; k < POP_SCAN_ROWS; k++) memcpy(room[k], x[k] + at, (size_t)bytes), from[k] = to[k] = room[k];
    POP_SCAN(block)(held + i, from, to, 0);
    for (int k = 0; k < POP_SCAN_ROWS; k++) memcpy(y[k] + at, room[k], (size_t)bytes);
}

/* Four rows of n columns, or the last few; sums read and write what is given in the place of others. */
static void POP_SCAN(columns)(int state, void *held, const char *const *x, char *const *y, int64_t rows, int64_t n)
{
    if (state == POP_STATE_SUM) {
        POP_SCAN(sums_of_columns)(held, x, y, n);
        return;
    }
    for (int64_t k = 0; k < rows; k++) {
        if (state == POP_STATE_PRODUCT) POP_SCAN(other_columns)(POP_STATE_PRODUCT, held, x[k], y[k], n);
        else if (state == POP_STATE_MAX) POP_SCAN(other_columns)(POP_STATE_MAX, held, x[k], y[k], n);
        else POP_SCAN(other_columns)(POP_STATE_MIN, held, x[k], y[k], n);
    }
}

static const pop_scan_type POP_SCAN(type) = {POP_SCAN(begin), POP_SCAN(row), POP_SCAN(columns), sizeof(POP_ELEMENT)};
#undef POP_SCAN
#undef POP_ELEMENT
#undef POP_HELD
#undef POP_FOUR
#undef POP_WIDE
#undef POP_NARROW
#undef POP_PLUS
#undef POP_COMPARED
#undef POP_LOWEST
#undef POP_HIGHEST
