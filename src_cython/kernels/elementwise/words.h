/* Operations on integers and truth values: a line each, from which kernels for all widths expand. Plain loops, of which the
 * compiler makes vectors. Sums, differences, products, powers and what is the opposite of the least integer wrap.
 *
 * What does not depend on the sign is written once for a width, with a, b and c unsigned and at least 32 bits wide; the rest
 * once for a type. An output may lie exactly where an input does, so that no iteration waits for another: what `ivdep` says. */
#ifndef POP_ELEMENTWISE_WORDS_H
#define POP_ELEMENTWISE_WORDS_H
#include "kernels/abi.h"
#include "kernels/elementwise/call.h"

/* bits; the unsigned type, and the one to compute in */
#define POP_EACH_WORD(X, OPS) OPS(X, 8, uint8_t, uint32_t) OPS(X, 16, uint16_t, uint32_t) OPS(X, 32, uint32_t, uint32_t) OPS(X, 64, uint64_t, uint64_t)
/* suffix, bits and name; the type; unsigned, to compute in; whether it has a sign, and real numbers that hold its quotients */
#define POP_EACH_SIGNED(X, OPS)                                                                                     \
    OPS(X, i8, "int8", int8_t, uint32_t, 1) OPS(X, i16, "int16", int16_t, uint32_t, 1)                              \
    OPS(X, i32, "int32", int32_t, uint32_t, 1) OPS(X, i64, "int64", int64_t, uint64_t, 1)
#define POP_EACH_INTEGER(X, OPS)                                                                                    \
    POP_EACH_SIGNED(X, OPS)                                                                                         \
    OPS(X, u8, "uint8", uint8_t, uint32_t, 0) OPS(X, u16, "uint16", uint16_t, uint32_t, 0)                          \
    OPS(X, u32, "uint32", uint32_t, uint32_t, 0) OPS(X, u64, "uint64", uint64_t, uint64_t, 0)

/* Quotients, truncated: real numbers hold those of narrow types, and the CPU divides vectors of real numbers. A quotient that
 * is no whole number is farther from the next one than its rounding. */
POP_INLINE int8_t pop_quotient_i8(int8_t a, int8_t b) { return (int8_t)((float)a / (float)b); }
POP_INLINE uint8_t pop_quotient_u8(uint8_t a, uint8_t b) { return (uint8_t)((float)a / (float)b); }
POP_INLINE int16_t pop_quotient_i16(int16_t a, int16_t b) { return (int16_t)((float)a / (float)b); }
POP_INLINE uint16_t pop_quotient_u16(uint16_t a, uint16_t b) { return (uint16_t)((float)a / (float)b); }
POP_INLINE int32_t pop_quotient_i32(int32_t a, int32_t b) { return (int32_t)((double)a / (double)b); }
POP_INLINE uint32_t pop_quotient_u32(uint32_t a, uint32_t b) { return (uint32_t)((double)a / (double)b); }
POP_INLINE int64_t pop_quotient_i64(int64_t a, int64_t b) { return a / b; }
POP_INLINE uint64_t pop_quotient_u64(uint64_t a, uint64_t b) { return a / b; }

POP_INLINE uint64_t pop_integer_power(uint64_t base, uint64_t exponent)
{
    uint64_t power = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) power *= base;
    return power;
}

POP_INLINE uint64_t pop_integer_root(uint64_t x)
{
    uint64_t root = (uint64_t)__builtin_sqrt((double)x); /* may be one off where float64 does not hold x */
    if (root > UINT32_MAX) root = UINT32_MAX;
    while (root * root > x) root--;
    while (root < UINT32_MAX && (root + 1) * (root + 1) <= x) root++;
    return root;
}

/* What division by zero, and by -1 the least integer, come to: 0 and 0 rest; the opposite, which wraps, and 0. */
#define POP_DIVISION(suffix, type, wide, sign)                                                                      \
    POP_INLINE type pop_div_of_##suffix(type a, type b)                                                             \
    {                                                                                                               \
        const int opposite = (sign) && b == (type)-1, odd = b == 0 || opposite;                                     \
        const type q = pop_quotient_##suffix(a, odd ? (type)1 : b);                                                 \
        return b == 0 ? (type)0 : opposite ? (type)(0 - (wide)a) : q;                                               \
    }                                                                                                               \
    POP_INLINE type pop_rem_of_##suffix(type a, type b)                                                             \
    {                                                                                                               \
        const int odd = b == 0 || ((sign) && b == (type)-1);                                                        \
        const type d = odd ? (type)1 : b;                                                                           \
        return (type)((wide)a - (wide)pop_quotient_##suffix(a, d) * (wide)d);                                       \
    }                                                                                                               \
    POP_INLINE int pop_rounds_down_##suffix(type rest, type b) { return (sign) && rest != 0 && (rest < 0) != (b < 0); }
#define POP_DIVISION_OF(X, suffix, name, type, wide, sign) POP_DIVISION(suffix, type, wide, sign)
POP_EACH_INTEGER(, POP_DIVISION_OF)

#define POP_WORD_UNARY(X, bits, type, wide)                                                                         \
    X(neg, bits, type, wide, 0 - a)                                                                                 \
    X(square, bits, type, wide, a * a)                                                                              \
    X(cube, bits, type, wide, a * a * a)                                                                            \
    X(bitwise_not, bits, type, wide, ~a)                                                                            \
    X(popcount, bits, type, wide, __builtin_popcountll(a))                                                          \
    X(count_leading_zeros, bits, type, wide, a ? __builtin_clzll(a) - (64 - bits) : bits)
#define POP_WORD_BINARY(X, bits, type, wide)                                                                        \
    X(add, bits, type, wide, a + b)                                                                                 \
    X(sub, bits, type, wide, a - b)                                                                                 \
    X(mul, bits, type, wide, a * b)                                                                                 \
    X(bitwise_and, bits, type, wide, a & b)                                                                         \
    X(bitwise_or, bits, type, wide, a | b)                                                                          \
    X(bitwise_xor, bits, type, wide, a ^ b)                                                                         \
    X(bitwise_xnor, bits, type, wide, ~(a ^ b))                                                                     \
    X(shift_left, bits, type, wide, b < bits ? a << (b & (bits - 1)) : 0)                                           \
    X(shift_right, bits, type, wide, b < bits ? a >> (b & (bits - 1)) : 0)
#define POP_WORD_COMPARISONS(X, bits, type, wide)                                                                   \
    X(eq, bits, type, wide, a == b)                                                                                 \
    X(neq, bits, type, wide, a != b)
#define POP_WORD_SELECT(X, bits, type, wide) X(select, bits, type, wide, c ? a : b) /* a where c is true, else b */

#define POP_INTEGER_UNARY(X, t, name, type, wide, sign)                                                             \
    X(abs, t, name, type, wide, a < 0 ? 0 - (wide)a : (wide)a)                                                      \
    X(signum, t, name, type, wide, (a > 0) - (a < 0))                                                               \
    X(sqrt, t, name, type, wide, a > 0 ? pop_integer_root((uint64_t)a) : 0) /* truncated; 0 below zero */
#define POP_INTEGER_BINARY(X, t, name, type, wide, sign)                                                            \
    X(div, t, name, type, wide, pop_div_of_##t(a, b))                                                               \
    X(rem, t, name, type, wide, pop_rem_of_##t(a, b))                                                               \
    X(floor_divide, t, name, type, wide, (wide)pop_div_of_##t(a, b) - pop_rounds_down_##t(pop_rem_of_##t(a, b), b)) \
    X(remainder, t, name, type, wide,                                                                               \
      (wide)pop_rem_of_##t(a, b) + (pop_rounds_down_##t(pop_rem_of_##t(a, b), b) ? (wide)b : 0))                    \
    X(pow, t, name, type, wide, b < 0 ? 0 : pop_integer_power((uint64_t)a, (uint64_t)b))                            \
    X(maximum, t, name, type, wide, a > b ? a : b)                                                                  \
    X(minimum, t, name, type, wide, a < b ? a : b)
#define POP_INTEGER_SHIFT(X, t, name, type, wide, sign)                                                             \
    X(shift_right_sign_extend, t, name, type, wide, a >> ((wide)b < 8 * sizeof(type) ? (wide)b : 8 * sizeof(type) - 1))
#define POP_INTEGER_COMPARISONS(X, t, name, type, wide, sign)                                                       \
    X(gt, t, name, type, wide, a > b)                                                                               \
    X(gteq, t, name, type, wide, a >= b)                                                                            \
    X(lt, t, name, type, wide, a < b)                                                                               \
    X(lteq, t, name, type, wide, a <= b)
#define POP_INTEGER_CLAMP(X, t, name, type, wide, sign)                                                             \
    X(clamp, t, name, type, wide, (a < b ? b : a) > c ? c : a < b ? b : a)

/* Truth values are bytes, true where they are not 0. */
#define POP_TRUTH_UNARY(X) X(logical_not, !a)
#define POP_TRUTH_BINARY(X)                                                                                         \
    X(logical_and, a & b)                                                                                           \
    X(logical_or, a | b)                                                                                            \
    X(eq, a == b)                                                                                                   \
    X(neq, a != b)                                                                                                  \
    X(gt, a > b)                                                                                                    \
    X(gteq, a >= b)                                                                                                 \
    X(lt, a < b)                                                                                                    \
    X(lteq, a <= b)

/* Pointers: the inputs `x`, `y` and `z`, the output `to`. Arrays need not be aligned. */
#define POP_WORD_KERNEL(name, type, third, out_type, body)                                                          \
    static void name(const void *const *in, void *const *out, int64_t n)                                            \
    {                                                                                                               \
        typedef type __attribute__((aligned(1), may_alias)) word;                                                   \
        typedef out_type __attribute__((aligned(1), may_alias)) made;                                               \
        const word *x = (const word *)in[0];                                                                        \
        made *to = (made *)out[0];                                                                                  \
        third;                                                                                                      \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) to[i] = (out_type)(body);                              \
    }
#define POP_SECOND const word *y = (const word *)in[1]
#define POP_THIRD POP_SECOND, *z = (const word *)in[2]
#define POP_LANE(type, name, pointer) const type name = (type)pointer[i]
#define POP_ONE(type, body) ({ POP_LANE(type, a, x); body; })
#define POP_TWO(type, body) ({ POP_LANE(type, a, x); POP_LANE(type, b, y); body; })
#define POP_THREE(type, last, body) ({ POP_LANE(type, a, x); POP_LANE(type, b, y); POP_LANE(last, c, z); body; })

#define POP_WORD_UNARY_KERNEL(op, bits, type, wide, body) POP_WORD_KERNEL(pop_##op##_##bits, type, , type, POP_ONE(wide, body))
#define POP_WORD_BINARY_KERNEL(op, bits, type, wide, body)                                                          \
    POP_WORD_KERNEL(pop_##op##_##bits, type, POP_SECOND, type, POP_TWO(wide, body))
#define POP_WORD_COMPARISON_KERNEL(op, bits, type, wide, body)                                                      \
    POP_WORD_KERNEL(pop_##op##_##bits, type, POP_SECOND, uint8_t, POP_TWO(wide, body))
#define POP_WORD_SELECT_KERNEL(op, bits, type, wide, body)                                                          \
    POP_WORD_KERNEL(pop_##op##_##bits, type, POP_SECOND; const uint8_t *z = (const uint8_t *)in[2], type,           \
                    POP_THREE(type, uint8_t, body))
#define POP_INTEGER_UNARY_KERNEL(op, t, name, type, wide, body) POP_WORD_KERNEL(pop_##op##_##t, type, , type, POP_ONE(type, body))
#define POP_INTEGER_BINARY_KERNEL(op, t, name, type, wide, body)                                                    \
    POP_WORD_KERNEL(pop_##op##_##t, type, POP_SECOND, type, POP_TWO(type, body))
#define POP_INTEGER_COMPARISON_KERNEL(op, t, name, type, wide, body)                                                \
    POP_WORD_KERNEL(pop_##op##_##t, type, POP_SECOND, uint8_t, POP_TWO(type, body))
#define POP_INTEGER_CLAMP_KERNEL(op, t, name, type, wide, body)                                                     \
    POP_WORD_KERNEL(pop_##op##_##t, type, POP_THIRD, type, POP_THREE(type, type, body))
#define POP_TRUE(x) ((x) != 0)
#define POP_TRUTH_UNARY_KERNEL(op, body)                                                                            \
    POP_WORD_KERNEL(pop_##op##_bool, uint8_t, , uint8_t, ({ const int a = POP_TRUE(x[i]); body; }))
#define POP_TRUTH_BINARY_KERNEL(op, body)                                                                           \
    POP_WORD_KERNEL(pop_##op##_bool, uint8_t, POP_SECOND, uint8_t,                                                  \
                    ({ const int a = POP_TRUE(x[i]), b = POP_TRUE(y[i]); body; }))

POP_EACH_WORD(POP_WORD_UNARY_KERNEL, POP_WORD_UNARY)
POP_EACH_WORD(POP_WORD_BINARY_KERNEL, POP_WORD_BINARY)
POP_EACH_WORD(POP_WORD_COMPARISON_KERNEL, POP_WORD_COMPARISONS)
POP_EACH_WORD(POP_WORD_SELECT_KERNEL, POP_WORD_SELECT)
POP_EACH_INTEGER(POP_INTEGER_UNARY_KERNEL, POP_INTEGER_UNARY)
POP_EACH_INTEGER(POP_INTEGER_BINARY_KERNEL, POP_INTEGER_BINARY)
POP_EACH_SIGNED(POP_INTEGER_BINARY_KERNEL, POP_INTEGER_SHIFT)
POP_EACH_INTEGER(POP_INTEGER_COMPARISON_KERNEL, POP_INTEGER_COMPARISONS)
POP_EACH_INTEGER(POP_INTEGER_CLAMP_KERNEL, POP_INTEGER_CLAMP)
POP_TRUTH_UNARY(POP_TRUTH_UNARY_KERNEL)
POP_TRUTH_BINARY(POP_TRUTH_BINARY_KERNEL)

/* A function is registered once for all types that it serves, of which one call has one. */
#define POP_WORDS_8 "int8|uint8"
#define POP_WORDS_16 "int16|uint16"
#define POP_WORDS_32 "int32|uint32"
#define POP_WORDS_64 "int64|uint64"
#define POP_COPIED_8 "bool|" POP_WORDS_8
#define POP_COPIED_16 "float16|bfloat16|" POP_WORDS_16
#define POP_COPIED_32 "float32|" POP_WORDS_32
#define POP_COPIED_64 POP_WORDS_64
#define POP_WORD_ROW(op, suffix, formats) POP_ELEMENTWISE_ROW(#op, formats, #op "_" #suffix, pop_##op##_##suffix)

#define POP_WORD_UNARY_ROW(op, bits, ...) POP_WORD_ROW(op, bits, POP_WORDS_##bits "->=")
#define POP_WORD_BINARY_ROW(op, bits, ...) POP_WORD_ROW(op, bits, POP_WORDS_##bits ",=->=")
#define POP_WORD_COMPARISON_ROW(op, bits, ...) POP_WORD_ROW(op, bits, POP_WORDS_##bits ",=->bool")
#define POP_WORD_SELECT_ROW(op, bits, ...) POP_WORD_ROW(op, bits, POP_COPIED_##bits ",=,bool->=")
#define POP_INTEGER_UNARY_ROW(op, t, name, ...) POP_WORD_ROW(op, t, name "->" name)
#define POP_INTEGER_BINARY_ROW(op, t, name, ...) POP_WORD_ROW(op, t, name "," name "->" name)
#define POP_INTEGER_COMPARISON_ROW(op, t, name, ...) POP_WORD_ROW(op, t, name "," name "->bool")
#define POP_INTEGER_CLAMP_ROW(op, t, name, ...) POP_WORD_ROW(op, t, name "," name "," name "->" name)
#define POP_TRUTH_UNARY_ROW(op, body) POP_WORD_ROW(op, bool, "bool->bool")
#define POP_TRUTH_BINARY_ROW(op, body) POP_WORD_ROW(op, bool, "bool,bool->bool")

#define POP_WORD_ROWS                                                                                               \
    POP_EACH_WORD(POP_WORD_UNARY_ROW, POP_WORD_UNARY)                                                               \
    POP_EACH_WORD(POP_WORD_BINARY_ROW, POP_WORD_BINARY)                                                             \
    POP_EACH_WORD(POP_WORD_COMPARISON_ROW, POP_WORD_COMPARISONS)                                                    \
    POP_EACH_WORD(POP_WORD_SELECT_ROW, POP_WORD_SELECT)                                                             \
    POP_EACH_INTEGER(POP_INTEGER_UNARY_ROW, POP_INTEGER_UNARY)                                                      \
    POP_EACH_INTEGER(POP_INTEGER_BINARY_ROW, POP_INTEGER_BINARY)                                                    \
    POP_EACH_SIGNED(POP_INTEGER_BINARY_ROW, POP_INTEGER_SHIFT)                                                      \
    POP_EACH_INTEGER(POP_INTEGER_COMPARISON_ROW, POP_INTEGER_COMPARISONS)                                           \
    POP_EACH_INTEGER(POP_INTEGER_CLAMP_ROW, POP_INTEGER_CLAMP)                                                      \
    POP_TRUTH_UNARY(POP_TRUTH_UNARY_ROW)                                                                            \
    POP_TRUTH_BINARY(POP_TRUTH_BINARY_ROW)
#endif
