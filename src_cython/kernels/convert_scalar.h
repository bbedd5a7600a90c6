/* The vocabulary of convert_body.h for one element. Included for `pop_s_*`, and for `pop_v_*` at the portable level. */
typedef float POP_OP(f);
typedef int32_t POP_OP(i);
typedef int POP_OP(m); /* 0 or 1 */

POP_INLINE int32_t POP_OP(set)(int32_t x) { return x; }
POP_INLINE int32_t POP_OP(bits)(float x) { int32_t u; memcpy(&u, &x, 4); return u; }
POP_INLINE float POP_OP(float)(int32_t u) { float x; memcpy(&x, &u, 4); return x; }

POP_INLINE int32_t POP_OP(add)(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
POP_INLINE int32_t POP_OP(sub)(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
POP_INLINE int32_t POP_OP(and)(int32_t a, int32_t b) { return a & b; }
POP_INLINE int32_t POP_OP(or)(int32_t a, int32_t b) { return a | b; }
POP_INLINE int32_t POP_OP(sll)(int32_t a, int n) { return (int32_t)((uint32_t)a << n); }
POP_INLINE int32_t POP_OP(srl)(int32_t a, int n) { return (int32_t)((uint32_t)a >> n); }
/* Shifts by each lane's own count; counts outside 0..31 give 0, as the vector instructions do. */
POP_INLINE int32_t POP_OP(sllv)(int32_t a, int32_t n) { return (uint32_t)n < 32 ? (int32_t)((uint32_t)a << n) : 0; }
POP_INLINE int32_t POP_OP(srlv)(int32_t a, int32_t n) { return (uint32_t)n < 32 ? (int32_t)((uint32_t)a >> n) : 0; }
POP_INLINE int32_t POP_OP(maximum)(int32_t a, int32_t b) { return a > b ? a : b; }
POP_INLINE float POP_OP(add_f)(float a, float b) { return a + b; }
POP_INLINE float POP_OP(sub_f)(float a, float b) { return a - b; }

POP_INLINE int POP_OP(gt)(int32_t a, int32_t b) { return a > b; }
POP_INLINE int POP_OP(eq)(int32_t a, int32_t b) { return a == b; }
POP_INLINE int POP_OP(carries)(int32_t a, int32_t b) { return (uint32_t)a + (uint32_t)b < (uint32_t)a; }
POP_INLINE int POP_OP(any)(int m) { return m; }
/* b where m, else a. */
POP_INLINE int32_t POP_OP(select)(int m, int32_t a, int32_t b) { return m ? b : a; }
POP_INLINE int32_t POP_OP(keep)(int m, int32_t a) { return m ? a : 0; }

POP_INLINE int32_t POP_OP(load)(const void *p, int64_t bytes, int n)
{
    uint32_t u = 0;
    if (n) memcpy(&u, p, (size_t)bytes);
    return (int32_t)u;
}

POP_INLINE void POP_OP(store)(void *p, int64_t bytes, int32_t a, int n)
{
    if (n) memcpy(p, &a, (size_t)bytes);
}
