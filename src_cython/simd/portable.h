/* The vocabulary of simd.h in the compiler's own vectors, for any CPU. Masks are vectors of 0 and -1. */
typedef pop_v_i pop_v_m;
typedef pop_h_i pop_h_m;

#define POP_EACH_LANE for (int l = 0; l < POP_LANES; l++)
#define POP_EACH_HALF_LANE for (int l = 0; l < POP_LANES / 2; l++)

POP_INLINE pop_v_i pop_v_sll(pop_v_i a, int n) { return n < 32 ? (pop_v_i)((pop_v_u)a << n) : pop_v_set(0); }
POP_INLINE pop_v_i pop_v_srl(pop_v_i a, int n) { return n < 32 ? (pop_v_i)((pop_v_u)a >> n) : pop_v_set(0); }
POP_INLINE pop_v_i pop_v_sllv(pop_v_i a, pop_v_i n) { POP_EACH_LANE a[l] = pop_s_sllv(a[l], n[l]); return a; }
POP_INLINE pop_v_i pop_v_srlv(pop_v_i a, pop_v_i n) { POP_EACH_LANE a[l] = pop_s_srlv(a[l], n[l]); return a; }
POP_INLINE pop_v_f pop_v_fma(pop_v_f a, pop_v_f b, pop_v_f c) { POP_EACH_LANE c[l] = fmaf(a[l], b[l], c[l]); return c; }
POP_INLINE pop_v_f pop_v_sqrt(pop_v_f x) { POP_EACH_LANE x[l] = sqrtf(x[l]); return x; }

POP_INLINE pop_v_i pop_v_gt(pop_v_i a, pop_v_i b) { return a > b; }
POP_INLINE pop_v_i pop_v_eq(pop_v_i a, pop_v_i b) { return a == b; }
POP_INLINE pop_v_i pop_v_lt_f(pop_v_f a, pop_v_f b) { return a < b; }
POP_INLINE pop_v_i pop_v_gt_f(pop_v_f a, pop_v_f b) { return a > b; }
POP_INLINE pop_v_i pop_v_eq_f(pop_v_f a, pop_v_f b) { return a == b; }
POP_INLINE pop_v_i pop_v_carries(pop_v_i a, pop_v_i b) { return (pop_v_i)((pop_v_u)pop_v_add(a, b) < (pop_v_u)a); }
POP_INLINE int pop_v_any(pop_v_i m) { return (m[0] | m[1] | m[2] | m[3]) != 0; }
POP_INLINE pop_v_i pop_v_select(pop_v_i m, pop_v_i a, pop_v_i b) { return (m & b) | (~m & a); }
POP_INLINE pop_v_i pop_v_keep(pop_v_i m, pop_v_i a) { return m & a; }
typedef int pop_v_part; /* how many */
POP_INLINE int pop_v_first(int64_t n) { return n >= 4 ? 4 : (int)n; }
POP_INLINE pop_v_i pop_v_mask(int part) { return pop_v_set(part) > (pop_v_i){0, 1, 2, 3}; }
POP_INLINE int pop_v_is_all(int part) { return part == 4; }
POP_INLINE pop_v_i pop_v_maximum(pop_v_i a, pop_v_i b) { return pop_v_select(a > b, b, a); }
POP_INLINE pop_v_f pop_v_min_f(pop_v_f a, pop_v_f b) { return (pop_v_f)pop_v_select(a < b, (pop_v_i)b, (pop_v_i)a); }
POP_INLINE pop_v_f pop_v_max_f(pop_v_f a, pop_v_f b) { return (pop_v_f)pop_v_select(a > b, (pop_v_i)b, (pop_v_i)a); }

POP_INLINE pop_v_i pop_v_load_some(const void *p, int64_t bytes, int part)
{
    pop_v_i a = {0};
    for (int l = 0; l < part; l++) a[l] = pop_s_load((const char *)p + l * bytes, bytes);
    return a;
}
POP_INLINE void pop_v_store_some(void *p, int64_t bytes, pop_v_i a, int part)
{
    for (int l = 0; l < part; l++) pop_s_store((char *)p + l * bytes, bytes, a[l]);
}
POP_INLINE pop_v_i pop_v_load(const void *p, int64_t bytes)
{
    pop_v_i a;
    if (bytes != 4) return pop_v_load_some(p, bytes, POP_LANES);
    memcpy(&a, p, sizeof a);
    return a;
}
POP_INLINE void pop_v_store(void *p, int64_t bytes, pop_v_i a)
{
    if (bytes == 4) memcpy(p, &a, sizeof a);
    else pop_v_store_some(p, bytes, a, POP_LANES);
}

/* value where word <= bound, as unsigned, else 0 */
POP_INLINE pop_v_u pop_v_keep_up_to(pop_v_u bound, pop_v_u word, pop_v_u value) { return value & (pop_v_u)(word <= bound); }

POP_INLINE pop_v_f pop_v_lookup(const float *table, pop_v_u index)
{
    pop_v_f found;
    POP_EACH_LANE found[l] = table[index[l] & 31];
    return found;
}
POP_INLINE pop_v_f pop_v_lookup16(const float *table, pop_v_u index)
{
    pop_v_f found;
    POP_EACH_LANE found[l] = table[index[l] & 15];
    return found;
}

/* x * 2^n rounded once, given a power of two times 1/2 to 2: the product that can round is the second. */
POP_INLINE pop_v_f pop_v_scale(pop_v_f x, pop_v_f n)
{
    const pop_v_i whole = __builtin_convertvector(n, pop_v_i), half = whole >> 1;
    return x * (pop_v_f)((half + 127) << 23) * (pop_v_f)((whole - half + 127) << 23);
}
/* The same where what n less than `least` gives is 0. */
POP_INLINE pop_v_f pop_v_scale_from(pop_v_f x, pop_v_f n, float least)
{
    (void)least;
    return pop_v_scale(x, n);
}
POP_INLINE pop_v_f pop_v_scale_normal(pop_v_f x, pop_v_f n)
{
    return (pop_v_f)((pop_v_i)x + (__builtin_convertvector(n, pop_v_i) << 23));
}
POP_INLINE pop_v_f pop_v_floor(pop_v_f x) { POP_EACH_LANE x[l] = floorf(x[l]); return x; }

POP_INLINE pop_h_f pop_h_fma(pop_h_f a, pop_h_f b, pop_h_f c) { POP_EACH_HALF_LANE c[l] = fma(a[l], b[l], c[l]); return c; }
POP_INLINE pop_h_f pop_h_sqrt(pop_h_f x) { POP_EACH_HALF_LANE x[l] = sqrt(x[l]); return x; }
POP_INLINE pop_h_i pop_h_lt(pop_h_f a, pop_h_f b) { return a < b; }
POP_INLINE pop_h_i pop_h_eq(pop_h_i a, pop_h_i b) { return a == b; }
POP_INLINE int pop_h_any(pop_h_i m) { return (m[0] | m[1]) != 0; }
POP_INLINE pop_h_f pop_h_select(pop_h_i m, pop_h_f a, pop_h_f b) { return (pop_h_f)((m & (pop_h_i)b) | (~m & (pop_h_i)a)); }
POP_INLINE pop_h_f pop_h_min(pop_h_f a, pop_h_f b) { return pop_h_select(a < b, b, a); }
POP_INLINE pop_h_f pop_h_max(pop_h_f a, pop_h_f b) { return pop_h_select(a > b, b, a); }
POP_INLINE pop_h_f pop_h_widen(pop_v_f x, int half)
{
    pop_h_f y;
    POP_EACH_HALF_LANE y[l] = x[half * POP_LANES / 2 + l];
    return y;
}
POP_INLINE pop_v_f pop_h_narrow(pop_h_f low, pop_h_f high)
{
    pop_v_f y;
    POP_EACH_HALF_LANE y[l] = (float)low[l], y[POP_LANES / 2 + l] = (float)high[l];
    return y;
}
