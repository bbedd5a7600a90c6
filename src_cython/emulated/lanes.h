/* Vectors of 512 bits by their lanes, and what functions of lanes have in common. */
#ifndef POP_EMULATED_LANES_H
#define POP_EMULATED_LANES_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef float __m512 __attribute__((vector_size(64), may_alias));
typedef double __m512d __attribute__((vector_size(64), may_alias));
typedef long long __m512i __attribute__((vector_size(64), may_alias));
typedef short __m512bh __attribute__((vector_size(64), may_alias));
typedef short __m256bh __attribute__((vector_size(32), may_alias));
typedef uint8_t __mmask8;
typedef uint16_t __mmask16;
typedef uint32_t __mmask32;
typedef uint64_t __mmask64;

typedef enum {
    _MM_CMPINT_EQ, _MM_CMPINT_LT, _MM_CMPINT_LE, _MM_CMPINT_UNUSED, _MM_CMPINT_NE, _MM_CMPINT_NLT, _MM_CMPINT_NLE
} _MM_CMPINT_ENUM;

/* A vector by lanes. */
#define POP_LOOP_LANES(bytes) \
    int8_t i8[bytes]; uint8_t u8[bytes]; int16_t i16[bytes / 2]; uint16_t u16[bytes / 2]; int32_t i32[bytes / 4]; \
    uint32_t u32[bytes / 4]; int64_t i64[bytes / 8]; uint64_t u64[bytes / 8]; float f32[bytes / 4]; double f64[bytes / 8];
typedef union {
    __m512 f;
    __m512d d;
    __m512i i;
    __m512bh h;
    __m256 f256[2];
    __m256i i256[2];
    __m128 f128[4];
    __m128i i128[4];
    POP_LOOP_LANES(64)
} pop_512;
typedef union { __m256 f; __m256i i; __m256bh h; __m128i i128[2]; POP_LOOP_LANES(32) } pop_256;
typedef union { __m128 f; __m128i i; POP_LOOP_LANES(16) } pop_128;

/* Not inlined: kernels are unrolled, and as many loops in one function keep the compiler long. */
#define POP_EMULATED static __attribute__((unused, noinline))
#define POP_LOOP(n) for (int i = 0; i < (n); i++)

/* The masks of lanes by their names, and how many lanes a vector has. */
#define POP_LOOP_MASK_i8 __mmask64
#define POP_LOOP_MASK_u8 __mmask64
#define POP_LOOP_MASK_i16 __mmask32
#define POP_LOOP_MASK_u16 __mmask32
#define POP_LOOP_MASK_i32 __mmask16
#define POP_LOOP_MASK_u32 __mmask16
#define POP_LOOP_MASK_i64 __mmask8
#define POP_LOOP_MASK_u64 __mmask8
#define POP_LOOP_MASK_f32 __mmask16
#define POP_LOOP_MASK_f64 __mmask8
#define POP_LOOP_MASK(lane) POP_LOOP_MASK_##lane
#define POP_LOOP_COUNT(lane) ((int)(sizeof((pop_512 *)0)->lane / sizeof *((pop_512 *)0)->lane))

/* Functions whose lane i is `value`, of lanes of a, b and c; with masks of both kinds. k: the vectors' kind. */
#define POP_LOOP_TYPE_i __m512i
#define POP_LOOP_TYPE_f __m512
#define POP_LOOP_TYPE_d __m512d
#define POP_LOOP_MASKED(op, k, lane, PARAMETERS, ARGUMENTS) \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_mask_##op(POP_LOOP_TYPE_##k from, POP_LOOP_MASK(lane) m, POP_LOOP_UNPACK PARAMETERS) \
    { \
        pop_512 r = {.k = _mm512_##op ARGUMENTS}, s = {.k = from}; \
        POP_LOOP(POP_LOOP_COUNT(lane)) if (!(m >> i & 1)) r.lane[i] = s.lane[i]; \
        return r.k; \
    } \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_maskz_##op(POP_LOOP_MASK(lane) m, POP_LOOP_UNPACK PARAMETERS) \
    { \
        pop_512 r = {.k = _mm512_##op ARGUMENTS}; \
        POP_LOOP(POP_LOOP_COUNT(lane)) if (!(m >> i & 1)) r.lane[i] = 0; \
        return r.k; \
    }
#define POP_LOOP_UNPACK(...) __VA_ARGS__
#define POP_LOOP_UNARY(op, k, lane, value) \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_##op(POP_LOOP_TYPE_##k x) \
    { \
        pop_512 a = {.k = x}, r; \
        POP_LOOP(POP_LOOP_COUNT(lane)) r.lane[i] = value; \
        return r.k; \
    } \
    POP_LOOP_MASKED(op, k, lane, (POP_LOOP_TYPE_##k x), (x))
#define POP_LOOP_BINARY(op, k, lane, value) \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_##op(POP_LOOP_TYPE_##k x, POP_LOOP_TYPE_##k y) \
    { \
        pop_512 a = {.k = x}, b = {.k = y}, r; \
        POP_LOOP(POP_LOOP_COUNT(lane)) r.lane[i] = value; \
        return r.k; \
    } \
    POP_LOOP_MASKED(op, k, lane, (POP_LOOP_TYPE_##k x, POP_LOOP_TYPE_##k y), (x, y))
#define POP_LOOP_TERNARY(op, k, lane, value) \
    POP_EMULATED POP_LOOP_TYPE_##k _mm512_##op(POP_LOOP_TYPE_##k x, POP_LOOP_TYPE_##k y, POP_LOOP_TYPE_##k z) \
    { \
        pop_512 a = {.k = x}, b = {.k = y}, c = {.k = z}, r; \
        POP_LOOP(POP_LOOP_COUNT(lane)) r.lane[i] = value; \
        return r.k; \
    }
#define POP_LOOP_COUNTED(op, lane, type, count, value) \
    POP_EMULATED __m512i _mm512_##op(__m512i x, type by) \
    { \
        const uint64_t n = count; \
        pop_512 a = {.i = x}, r; \
        POP_LOOP(POP_LOOP_COUNT(lane)) r.lane[i] = value; \
        return r.i; \
    }
#endif
