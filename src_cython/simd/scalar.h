/* The vocabulary of simd.h for one element, `pop_s_*`: what formats/codec_body.h needs for tails. */
typedef float pop_s_f;
typedef int32_t pop_s_i;
typedef int pop_s_m; /* 0 or 1 */

POP_INLINE int32_t pop_s_set(int32_t x) { return x; }
POP_INLINE int32_t pop_s_bits(float x) { int32_t u; memcpy(&u, &x, 4); return u; }
POP_INLINE float pop_s_float(int32_t u) { float x; memcpy(&x, &u, 4); return x; }
/* The power of two that brings a normal number's magnitude to 2^to, and less than twice that; no greater than FP32 has. */
POP_INLINE float pop_s_power_to(float x, int to)
{
    const int exponent = to + 2 * 127 - (pop_s_bits(x) >> 23 & 0xff);
    return pop_s_float((exponent < 254 ? exponent : 254) << 23);
}

POP_INLINE int32_t pop_s_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
POP_INLINE int32_t pop_s_sub(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
POP_INLINE int32_t pop_s_and(int32_t a, int32_t b) { return a & b; }
POP_INLINE int32_t pop_s_or(int32_t a, int32_t b) { return a | b; }
POP_INLINE int32_t pop_s_sll(int32_t a, int n) { return (int32_t)((uint32_t)a << n); }
POP_INLINE int32_t pop_s_srl(int32_t a, int n) { return (int32_t)((uint32_t)a >> n); }
POP_INLINE int32_t pop_s_sllv(int32_t a, int32_t n) { return (uint32_t)n < 32 ? (int32_t)((uint32_t)a << n) : 0; }
POP_INLINE int32_t pop_s_srlv(int32_t a, int32_t n) { return (uint32_t)n < 32 ? (int32_t)((uint32_t)a >> n) : 0; }
POP_INLINE int32_t pop_s_maximum(int32_t a, int32_t b) { return a > b ? a : b; }

POP_INLINE int pop_s_gt(int32_t a, int32_t b) { return a > b; }
POP_INLINE int pop_s_eq(int32_t a, int32_t b) { return a == b; }
POP_INLINE int pop_s_carries(int32_t a, int32_t b) { return (uint32_t)a + (uint32_t)b < (uint32_t)a; }
POP_INLINE int pop_s_any(int m) { return m; }
POP_INLINE int32_t pop_s_select(int m, int32_t a, int32_t b) { return m ? b : a; }
POP_INLINE int32_t pop_s_keep(int m, int32_t a) { return m ? a : 0; }

typedef int pop_s_part; /* 1, or 0: none */
POP_INLINE int pop_s_first(int64_t n) { return n > 0; }
POP_INLINE int32_t pop_s_load(const void *p, int64_t bytes)
{
    uint32_t u = 0;
    memcpy(&u, p, (size_t)bytes);
    return (int32_t)u;
}
POP_INLINE int32_t pop_s_load_some(const void *p, int64_t bytes, int part) { return part ? pop_s_load(p, bytes) : 0; }
POP_INLINE void pop_s_store(void *p, int64_t bytes, int32_t a) { memcpy(p, &a, (size_t)bytes); }
POP_INLINE void pop_s_store_some(void *p, int64_t bytes, int32_t a, int part) { if (part) pop_s_store(p, bytes, a); }

/* b where either is NaN, as in vectors */
POP_INLINE float pop_s_max_f(float a, float b) { return a > b ? a : b; }
