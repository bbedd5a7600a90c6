/* The elementwise family: operations on n elements that lie one after another.
 *
 * A body of numbers is written once, over the vocabulary of vectors, and computed in FP32. Each operation is compiled for
 * FP32, and for FP16 and BF16 as they lie: decoded and encoded in registers, rounded once to nearest even, too large numbers
 * to infinity; long functions of many 16-bit numbers look such results up. Other formats and roundings the strided driver decodes
 * before and encodes after. All levels give the same bits. Gradients, most non-linearities, and functions that are no
 * operation, have an FP32 kernel only. */
#ifndef POP_ELEMENTWISE_H
#define POP_ELEMENTWISE_H
#include "kernels/elementwise/arithmetic.h"
#include "kernels/elementwise/binary.h"
#include "kernels/elementwise/code_table.h"
#include "kernels/elementwise/gradients.h"
#include "kernels/elementwise/loops.h"
#include "kernels/elementwise/nonlinearities.h"
#include "kernels/elementwise/ternary.h"
#include "kernels/elementwise/unary.h"
#include "kernels/elementwise/words.h"

#define POP_EACH_NUMBER(X, op) X(op, f32, F32, "float32") X(op, f16, F16, "float16") X(op, bf16, BF16, "bfloat16")

#define POP_A(constant) pop_step_read(&POP_##constant, p->a, i, n)
#define POP_B(constant) pop_step_read(&POP_##constant, p->b, i, n)
#define POP_C(constant) pop_step_read(&POP_##constant, p->c, i, n)

#define POP_PAIR_OF(constant, operand) pop_pair_read(&POP_##constant, p->operand, i)

#define POP_UNARY_KERNEL(op, suffix, constant, name)                                                                \
    POP_STEP_KERNEL(op##_##suffix, pop_bytes(&POP_##constant), 1,                                                   \
                    pop_step_write(&POP_##constant, p->out, i, pop_body_##op(POP_A(constant)), n),                  \
                    const pop_pair x = POP_PAIR_OF(constant, a);                                                        \
                    pop_pair_write(&POP_##constant, p->out, i, pop_body_##op(x.even), pop_body_##op(x.odd)))
#define POP_BINARY_KERNEL(op, suffix, constant, name)                                                               \
    POP_STEP_KERNEL(op##_##suffix, pop_bytes(&POP_##constant), 2,                                                   \
                    pop_step_write(&POP_##constant, p->out, i, pop_body_##op(POP_A(constant), POP_B(constant)), n), \
                    const pop_pair x = POP_PAIR_OF(constant, a); const pop_pair y = POP_PAIR_OF(constant, b);               \
                    pop_pair_write(&POP_##constant, p->out, i, pop_body_##op(x.even, y.even), pop_body_##op(x.odd, y.odd)))
#define POP_TERNARY_KERNEL(op, suffix, constant, name)                                                              \
    POP_STEP_KERNEL(op##_##suffix, pop_bytes(&POP_##constant), 3,                                                   \
                    pop_step_write(&POP_##constant, p->out, i,                                                      \
                                   pop_body_##op(POP_A(constant), POP_B(constant), POP_C(constant)), n),            \
                    const pop_pair x = POP_PAIR_OF(constant, a); const pop_pair y = POP_PAIR_OF(constant, b);               \
                    const pop_pair z = POP_PAIR_OF(constant, c);                                                        \
                    pop_pair_write(&POP_##constant, p->out, i, pop_body_##op(x.even, y.even, z.even),               \
                                   pop_body_##op(x.odd, y.odd, z.odd)))

/* Truth values, a vector after another. */
#define POP_TELLING_KERNEL(name, inputs, truth)                                                                     \
    POP_INLINE void pop_tell_##name(const pop_places *p, int64_t i, int n) { pop_step_tell(p->out, i, truth, n); }  \
    POP_STEP_KERNEL(name, 1, inputs, pop_tell_##name(p, i, n),                                                      \
                    pop_tell_##name(p, i, POP_LANES); pop_tell_##name(p, i + POP_LANES, POP_LANES))
#define POP_QUESTION_KERNEL(op, suffix, constant, name)                                                             \
    POP_TELLING_KERNEL(op##_##suffix, 1, pop_body_##op(POP_A(constant)))
#define POP_COMPARISON_KERNEL(op, suffix, constant, name)                                                           \
    POP_TELLING_KERNEL(op##_##suffix, 2, pop_body_##op(POP_A(constant), POP_B(constant)))

#define POP_FUNCTION_KERNEL(op, body)                                                                               \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f x) { return body; }                                                    \
    POP_UNARY_KERNEL(op, f32, F32, "float32")
#define POP_GRADIENT_KERNEL(op, body)                                                                               \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f a, pop_v_f b) { return body; }                                         \
    POP_BINARY_KERNEL(op, f32, F32, "float32")
#define POP_UNARY_KERNELS(op, body)                                                                                 \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f x) { return body; }                                                    \
    POP_EACH_NUMBER(POP_UNARY_KERNEL, op)
#define POP_CURVE_KERNEL(op, suffix, constant, name)                                                                \
    POP_FOUR_KERNEL(op##_##suffix, pop_bytes(&POP_##constant), 1,                                                   \
                    pop_step_write(&POP_##constant, p->out, i, pop_body_##op(POP_A(constant)), n),                  \
                    pop_four_numbers(&POP_##constant, p, i, pop_many_##op))
#define POP_TABLE_KERNEL(op, suffix, constant, name)                                                                \
    static void pop_##op##_##suffix(const void *const *in, void *const *out, int64_t n)                             \
    {                                                                                                               \
        static pop_code_table table;                                                                                \
        pop_by_code_table(&table, pop_##op##_worked_##suffix, in, out, n);                                          \
    }
#define POP_WORKED_KERNEL(op, suffix, constant, name)                                                               \
    POP_UNARY_KERNEL(op, worked_##suffix, constant, name)                                                           \
    POP_TABLE_KERNEL(op, suffix, constant, name)
#define POP_WORKED_CURVE_KERNEL(op, suffix, constant, name)                                                         \
    POP_CURVE_KERNEL(op, worked_##suffix, constant, name)                                                           \
    POP_TABLE_KERNEL(op, suffix, constant, name)
#define POP_SHORT_KERNELS(op, body)                                                                                 \
    POP_FUNCTION_KERNEL(op, body)                                                                                   \
    POP_UNARY_KERNEL(op, f16, F16, "float16")                                                                       \
    POP_WORKED_KERNEL(op, bf16, BF16, "bfloat16")
#define POP_ELEMENTARY_KERNELS(op, body)                                                                            \
    POP_FUNCTION_KERNEL(op, body)                                                                                   \
    POP_WORKED_KERNEL(op, f16, F16, "float16")                                                                      \
    POP_WORKED_KERNEL(op, bf16, BF16, "bfloat16")
#define POP_CURVE_KERNELS(op, many)                                                                                 \
    POP_INLINE void pop_many_##op(pop_v_f *x, const int vectors) { many(x, vectors); }                              \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f x) { many(&x, 1); return x; }                                          \
    POP_CURVE_KERNEL(op, f32, F32, "float32")                                                                       \
    POP_WORKED_CURVE_KERNEL(op, f16, F16, "float16")                                                                \
    POP_WORKED_CURVE_KERNEL(op, bf16, BF16, "bfloat16")
#define POP_QUESTION_KERNELS(op, body)                                                                              \
    POP_INLINE pop_v_m pop_body_##op(pop_v_f x) { return body; }                                                    \
    POP_EACH_NUMBER(POP_QUESTION_KERNEL, op)
#define POP_BINARY_KERNELS(op, body)                                                                                \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f a, pop_v_f b) { return body; }                                         \
    POP_EACH_NUMBER(POP_BINARY_KERNEL, op)
#define POP_COMPARISON_KERNELS(op, body)                                                                            \
    POP_INLINE pop_v_m pop_body_##op(pop_v_f a, pop_v_f b) { return body; }                                         \
    POP_EACH_NUMBER(POP_COMPARISON_KERNEL, op)
#define POP_TERNARY_KERNELS(op, body)                                                                               \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f a, pop_v_f b, pop_v_f c) { return body; }                              \
    POP_EACH_NUMBER(POP_TERNARY_KERNEL, op)
#define POP_TRIPLE_KERNEL(op, body)                                                                                   \
    POP_INLINE pop_v_f pop_body_##op(pop_v_f a, pop_v_f b, pop_v_f c) { return body; }                              \
    POP_TERNARY_KERNEL(op, f32, F32, "float32")

#define POP_SIGN_KERNELS(op, body, bits)                                                                            \
    POP_FUNCTION_KERNEL(op, body)                                                                                   \
    POP_WORD_KERNEL(pop_##op##_f16, uint16_t, , uint16_t, bits)                                                     \
    POP_WORD_KERNEL(pop_##op##_bf16, uint16_t, , uint16_t, bits)

POP_ELEMENTWISE_SIGNS(POP_SIGN_KERNELS)
POP_ELEMENTWISE_UNARY(POP_UNARY_KERNELS)
POP_ELEMENTWISE_SHORT(POP_SHORT_KERNELS)
POP_ELEMENTWISE_ELEMENTARY(POP_ELEMENTARY_KERNELS)
POP_ELEMENTWISE_CURVES(POP_CURVE_KERNELS)
POP_ELEMENTWISE_QUESTIONS(POP_QUESTION_KERNELS)
POP_ELEMENTWISE_FUNCTIONS(POP_FUNCTION_KERNEL)
POP_ELEMENTWISE_GRADIENTS(POP_GRADIENT_KERNEL)
POP_NONLINEARITIES(POP_FUNCTION_KERNEL)
POP_NONLINEARITIES_OF_TWO(POP_GRADIENT_KERNEL)
POP_NONLINEARITIES_OF_THREE(POP_TRIPLE_KERNEL)
POP_ELEMENTWISE_BINARY(POP_BINARY_KERNELS)
POP_ELEMENTWISE_LONG_BINARY(POP_BINARY_KERNELS)
POP_GRADIENT_KERNEL(pow, pop_v_pow(a, b))
POP_BINARY_KERNEL(pow, f16, F16, "float16")
POP_INLINE pop_v_f pop_body_short_pow(pop_v_f a, pop_v_f b) { return pop_v_pow_for_bf16(a, b); }
POP_BINARY_KERNEL(short_pow, bf16, BF16, "bfloat16")
POP_ELEMENTWISE_COMPARISONS(POP_COMPARISON_KERNELS)
POP_ELEMENTWISE_TERNARY(POP_TERNARY_KERNELS)

#define POP_ELEMENTWISE_ROW(op, formats, name, function)                                                            \
    {op, formats, name, POP_FUNCTION(function), {1, 1, 1}, {4 * POP_LANES, 1, 1}, POP_CONSISTENT},
/* What takes longer than memory does, or looks much BF16 up (code_table.h). */
#define POP_LONG_ROW(op, formats, name, function)                                                                   \
    {op, formats, name, POP_FUNCTION(function), {1, 1, 1}, {4 * POP_LANES, 1, 1}, POP_CONSISTENT | POP_LONG},
#define POP_ELEMENTARY_ROW(op, suffix, constant, name)                                                              \
    POP_LONG_ROW(#op, name "->" name, #op "_" #suffix, pop_##op##_##suffix)
#define POP_LONG_BINARY_ROW(op, suffix, constant, name)                                                             \
    POP_LONG_ROW(#op, name "," name "->" name, #op "_" #suffix, pop_##op##_##suffix)
#define POP_LONG_TERNARY_ROW(op, suffix, constant, name)                                                            \
    POP_LONG_ROW(#op, name "," name "," name "->" name, #op "_" #suffix, pop_##op##_##suffix)
#define POP_UNARY_ROW(op, suffix, constant, name)                                                                   \
    POP_ELEMENTWISE_ROW(#op, name "->" name, #op "_" #suffix, pop_##op##_##suffix)
#define POP_QUESTION_ROW(op, suffix, constant, name)                                                                \
    POP_ELEMENTWISE_ROW(#op, name "->bool", #op "_" #suffix, pop_##op##_##suffix)
#define POP_BINARY_ROW(op, suffix, constant, name)                                                                  \
    POP_ELEMENTWISE_ROW(#op, name "," name "->" name, #op "_" #suffix, pop_##op##_##suffix)
#define POP_COMPARISON_ROW(op, suffix, constant, name)                                                              \
    POP_ELEMENTWISE_ROW(#op, name "," name "->bool", #op "_" #suffix, pop_##op##_##suffix)
#define POP_TERNARY_ROW(op, suffix, constant, name)                                                                 \
    POP_ELEMENTWISE_ROW(#op, name "," name "," name "->" name, #op "_" #suffix, pop_##op##_##suffix)

#define POP_GRADIENT_ROW(op, body) POP_BINARY_ROW(op, f32, F32, "float32")
#define POP_FUNCTION_ROW(op, body) POP_UNARY_ROW(op, f32, F32, "float32")
#define POP_LONG_FUNCTION_ROW(op, body) POP_ELEMENTARY_ROW(op, f32, F32, "float32")
#define POP_LONG_PAIR_ROW(op, body) POP_LONG_BINARY_ROW(op, f32, F32, "float32")
#define POP_SIGN_ROWS(op, body, bits)                                                                               \
    POP_FUNCTION_ROW(op, body)                                                                                      \
    POP_ELEMENTWISE_ROW(#op, "float16->float16", #op "_f16", pop_##op##_f16)                                        \
    POP_ELEMENTWISE_ROW(#op, "bfloat16->bfloat16", #op "_bf16", pop_##op##_bf16)
#define POP_ELEMENTARY_ROWS(op, body) POP_EACH_NUMBER(POP_ELEMENTARY_ROW, op)
#define POP_UNARY_ROWS(op, body) POP_EACH_NUMBER(POP_UNARY_ROW, op)
#define POP_QUESTION_ROWS(op, body) POP_EACH_NUMBER(POP_QUESTION_ROW, op)
#define POP_BINARY_ROWS(op, body) POP_EACH_NUMBER(POP_BINARY_ROW, op)
#define POP_LONG_BINARY_ROWS(op, body) POP_EACH_NUMBER(POP_LONG_BINARY_ROW, op)
#define POP_COMPARISON_ROWS(op, body) POP_EACH_NUMBER(POP_COMPARISON_ROW, op)
#define POP_TERNARY_ROWS(op, body) POP_EACH_NUMBER(POP_TERNARY_ROW, op)
#define POP_TRIPLE_ROW(op, body) POP_LONG_TERNARY_ROW(op, f32, F32, "float32")

static const pop_kernel POP_ELEMENTWISE_KERNELS[] = {
    POP_ELEMENTWISE_SIGNS(POP_SIGN_ROWS)
    POP_ELEMENTWISE_UNARY(POP_UNARY_ROWS)
    POP_ELEMENTWISE_SHORT(POP_ELEMENTARY_ROWS)
    POP_ELEMENTWISE_ELEMENTARY(POP_ELEMENTARY_ROWS)
    POP_ELEMENTWISE_CURVES(POP_ELEMENTARY_ROWS)
    POP_ELEMENTWISE_QUESTIONS(POP_QUESTION_ROWS)
    POP_ELEMENTWISE_FUNCTIONS(POP_LONG_FUNCTION_ROW)
    POP_ELEMENTWISE_GRADIENTS(POP_GRADIENT_ROW)
    POP_NONLINEARITIES(POP_LONG_FUNCTION_ROW)
    POP_NONLINEARITIES_OF_TWO(POP_LONG_PAIR_ROW)
    POP_NONLINEARITIES_OF_THREE(POP_TRIPLE_ROW)
    POP_ELEMENTWISE_BINARY(POP_BINARY_ROWS)
    POP_ELEMENTWISE_LONG_BINARY(POP_LONG_BINARY_ROWS)
    POP_LONG_BINARY_ROW(pow, f32, F32, "float32")
    POP_LONG_BINARY_ROW(pow, f16, F16, "float16")
    POP_LONG_ROW("pow", "bfloat16,bfloat16->bfloat16", "pow_bf16", pop_short_pow_bf16)
    POP_ELEMENTWISE_COMPARISONS(POP_COMPARISON_ROWS)
    POP_ELEMENTWISE_TERNARY(POP_TERNARY_ROWS)
    POP_ELEMENTWISE_ROW("arithmetic", "float32", "arithmetic_f32", pop_arithmetic)
    POP_WORD_ROWS
};
#endif
