/* Arithmetic of FP32 numbers in one pass: a number goes from step to step in registers, and each step rounds by itself.
 *
 * A plan is words: how many steps and constants, the first operand, then of each step what it does and its operands, three
 * always, then which of the call's numbers the constants are: bits of FP32 in the lower halves of these. An operand is an
 * array's place among the inputs, or ~k, the constant k. */
#ifndef POP_ELEMENTWISE_ARITHMETIC_H
#define POP_ELEMENTWISE_ARITHMETIC_H
#include "kernels/elementwise/loops.h"
#include "records/enums.h"
#include "simd/math.h"

/* What a step does is a word of the plan, and besides which operands are constants: the last one, or of a step that begins with
 * a product with x, a for the first of these and b for the second. */
enum {
    POP_ARITHMETIC_WORDS = POP_ARITHMETIC_TIMES_SUBTRACT_FROM_PRODUCT + 1,
    POP_OF_CONSTANT = POP_ARITHMETIC_WORDS, POP_OF_SECOND_CONSTANT = 2 * POP_ARITHMETIC_WORDS
};

typedef struct pop_arithmetic_operand {
    const char *at;
    int64_t along; /* all bits set; none for a constant, a vector of which is read again and again */
} pop_arithmetic_operand;

typedef struct pop_arithmetic_step {
    int what;
    float number, more; /* the constants in these places */
    pop_arithmetic_operand a, b, c;
} pop_arithmetic_step;

typedef struct pop_arithmetic_run {
    pop_arithmetic_operand first;
    const pop_arithmetic_step *steps, *end;
} pop_arithmetic_run;

POP_INLINE pop_v_f pop_arithmetic_read(const char *at, int64_t i, int j, int n)
{
    return pop_step_read(&POP_F32, at, i + j * POP_LANES, n);
}

/* An operand that may be a constant: where it lies from the i-th element on, and how far apart its vectors are. */
typedef struct pop_arithmetic_line {
    const char *at;
    int64_t step;
} pop_arithmetic_line;
POP_INLINE pop_arithmetic_line pop_arithmetic_from(const pop_arithmetic_operand *o, int64_t i)
{
    return (pop_arithmetic_line){o->at + (4 * i & o->along), POP_VECTOR_BYTES & o->along};
}
POP_INLINE pop_v_f pop_arithmetic_take(pop_arithmetic_line o, int j, int n) { return pop_step_read(&POP_F32, o.at + j * o.step, 0, n); }

/* What a step does to all vectors of a block. */
#define POP_VECTORS(body)                                                                                           \
    _Pragma("GCC unroll 8") for (int j = 0; j < vectors; j++) { body; }                                             \
    break;
#define POP_OF_A(body) POP_VECTORS(const pop_v_f a = pop_arithmetic_read(t->a.at, i, j, n); x[j] = body)
#define POP_OF_NUMBER(body) POP_VECTORS(x[j] = body)
#define POP_OF_PRODUCT(body)                                                                                        \
    POP_VECTORS(const pop_v_f p = pop_arithmetic_read(t->a.at, i, j, n) * pop_arithmetic_read(t->b.at, i, j, n); x[j] = body)
#define POP_OF_MULTIPLE(body) POP_VECTORS(const pop_v_f p = pop_arithmetic_read(t->a.at, i, j, n) * c; x[j] = body)
#define POP_TIMES(a_value, b_value, body)                                                                           \
    POP_VECTORS(const pop_v_f b = b_value; const pop_v_f p = x[j] * (a_value); x[j] = body)
#define POP_READ(operand) pop_arithmetic_read(t->operand.at, i, j, n)
#define POP_EACH_TIMES(what, body)                                                                                  \
    case POP_ARITHMETIC_##what: POP_TIMES(POP_READ(a), POP_READ(b), body)                                           \
    case POP_ARITHMETIC_##what + POP_OF_CONSTANT: POP_TIMES(c, POP_READ(b), body)                                   \
    case POP_ARITHMETIC_##what + POP_OF_SECOND_CONSTANT: POP_TIMES(POP_READ(a), e, body)                            \
    case POP_ARITHMETIC_##what + POP_OF_CONSTANT + POP_OF_SECOND_CONSTANT: POP_TIMES(c, e, body)
#define POP_TIMES_OF_PRODUCT(body) POP_TIMES(POP_READ(a), POP_READ(b) * POP_READ(c), body)
#define POP_CHOICE(compare, if_so, if_not)                                                                          \
    left = pop_arithmetic_from(&t->a, i), right = pop_arithmetic_from(&t->b, i), other = pop_arithmetic_from(&t->c, i); \
    POP_VECTORS(const pop_v_f a = pop_arithmetic_take(left, j, n); const pop_v_f b = pop_arithmetic_take(right, j, n); \
                const pop_v_f d = pop_arithmetic_take(other, j, n); x[j] = pop_v_select_f(compare, if_not, if_so))

/* Vectors of n lanes from the i-th element on; so many that latencies overlap, or the one before or behind those. */
POP_INLINE void pop_arithmetic_block(const pop_arithmetic_run *r, char *out, int64_t i, const int vectors, int n)
{
    pop_v_f x[8];
    pop_arithmetic_line left = pop_arithmetic_from(&r->first, i), right, other;
    do { POP_VECTORS(x[j] = pop_arithmetic_take(left, j, n)) } while (0);
    for (const pop_arithmetic_step *t = r->steps; t < r->end; t++) {
        const pop_v_f c = pop_v_splat(t->number), e = pop_v_splat(t->more);
        switch (t->what) {
        case POP_ARITHMETIC_ADD: POP_OF_A(x[j] + a)
        case POP_ARITHMETIC_SUBTRACT: POP_OF_A(x[j] - a)
        case POP_ARITHMETIC_SUBTRACT_FROM: POP_OF_A(a - x[j])
        case POP_ARITHMETIC_MULTIPLY: POP_OF_A(x[j] * a)
        case POP_ARITHMETIC_ADD_PRODUCT: POP_OF_PRODUCT(x[j] + p)
        case POP_ARITHMETIC_SUBTRACT_PRODUCT: POP_OF_PRODUCT(x[j] - p)
        case POP_ARITHMETIC_SUBTRACT_FROM_PRODUCT: POP_OF_PRODUCT(p - x[j])
        case POP_ARITHMETIC_ADD + POP_OF_CONSTANT: POP_OF_NUMBER(x[j] + c)
        case POP_ARITHMETIC_SUBTRACT + POP_OF_CONSTANT: POP_OF_NUMBER(x[j] - c)
        case POP_ARITHMETIC_SUBTRACT_FROM + POP_OF_CONSTANT: POP_OF_NUMBER(c - x[j])
        case POP_ARITHMETIC_MULTIPLY + POP_OF_CONSTANT: POP_OF_NUMBER(x[j] * c)
        case POP_ARITHMETIC_ADD_PRODUCT + POP_OF_CONSTANT: POP_OF_MULTIPLE(x[j] + p)
        case POP_ARITHMETIC_SUBTRACT_PRODUCT + POP_OF_CONSTANT: POP_OF_MULTIPLE(x[j] - p)
        case POP_ARITHMETIC_SUBTRACT_FROM_PRODUCT + POP_OF_CONSTANT: POP_OF_MULTIPLE(p - x[j])
        case POP_ARITHMETIC_NEGATE: POP_OF_NUMBER(pop_v_float(pop_v_bits(x[j]) ^ INT32_MIN))
        case POP_ARITHMETIC_RELU: POP_OF_NUMBER(pop_v_max_f(pop_v_splat(0.0f), x[j]))
        case POP_ARITHMETIC_IF_GREATER: POP_CHOICE(pop_v_gt_f(a, b), d, x[j])
        case POP_ARITHMETIC_IF_GREATER_OR_EQUAL: POP_CHOICE(pop_v_gt_f(a, b) | pop_v_eq_f(a, b), d, x[j])
        case POP_ARITHMETIC_IF_EQUAL: POP_CHOICE(pop_v_eq_f(a, b), d, x[j])
        case POP_ARITHMETIC_UNLESS_GREATER: POP_CHOICE(pop_v_gt_f(a, b), x[j], d)
        case POP_ARITHMETIC_UNLESS_GREATER_OR_EQUAL: POP_CHOICE(pop_v_gt_f(a, b) | pop_v_eq_f(a, b), x[j], d)
        case POP_ARITHMETIC_UNLESS_EQUAL: POP_CHOICE(pop_v_eq_f(a, b), x[j], d)
        POP_EACH_TIMES(TIMES_ADD, p + b)
        POP_EACH_TIMES(TIMES_SUBTRACT, p - b)
        POP_EACH_TIMES(TIMES_SUBTRACT_FROM, b - p)
        case POP_ARITHMETIC_TIMES_ADD_PRODUCT: POP_TIMES_OF_PRODUCT(p + b)
        case POP_ARITHMETIC_TIMES_SUBTRACT_PRODUCT: POP_TIMES_OF_PRODUCT(p - b)
        default: POP_TIMES_OF_PRODUCT(b - p)
        }
    }
    do { POP_VECTORS(pop_step_write(&POP_F32, out, i + j * POP_LANES, x[j], n)) } while (0);
}
#undef POP_VECTORS
#undef POP_OF_A
#undef POP_OF_NUMBER
#undef POP_OF_PRODUCT
#undef POP_OF_MULTIPLE
#undef POP_TIMES
#undef POP_READ
#undef POP_EACH_TIMES
#undef POP_TIMES_OF_PRODUCT
#undef POP_CHOICE

static void pop_arithmetic(const int32_t *plan, const uint64_t *numbers, const void *const *in, void *const *out, int64_t n)
{
    pop_arithmetic_step steps[POP_ARITHMETIC_STEPS];
    pop_v_f constants[POP_ARITHMETIC_STEPS];
    const int count = plan[0];
    const int32_t *word = plan + 3, *which = word + 4 * count;
    int32_t bits[POP_ARITHMETIC_STEPS];
    for (int k = 0; k < plan[1]; k++) {
        bits[k] = (int32_t)numbers[which[k]];
        constants[k] = pop_v_float(pop_v_set(bits[k]));
    }
#define POP_OPERAND(word)                                                                                           \
    ((pop_arithmetic_operand){(word) < 0 ? (const char *)(constants + ~(word)) : (const char *)in[word], (word) < 0 ? 0 : -1})
    for (int s = 0; s < count; s++, word += 4) {
        pop_arithmetic_step *t = steps + s;
        *t = (pop_arithmetic_step){word[0], 0, 0, POP_OPERAND(word[1]), POP_OPERAND(word[2]), POP_OPERAND(word[3])};
        const int times = word[0] >= POP_ARITHMETIC_TIMES_ADD, alone = !times && word[0] >= POP_ARITHMETIC_NEGATE;
        const int last = times || word[0] < POP_ARITHMETIC_ADD_PRODUCT ? word[1] : word[2];
        if (!alone && last < 0) memcpy(&t->number, bits + ~last, sizeof t->number), t->what += POP_OF_CONSTANT;
        if (times && word[2] < 0) memcpy(&t->more, bits + ~word[2], sizeof t->more), t->what += POP_OF_SECOND_CONSTANT;
    }
    const pop_arithmetic_run run = {POP_OPERAND(plan[2]), steps, steps + count};
#undef POP_OPERAND
    char *to = (char *)out[0];
    for (int64_t i = 0, part = pop_elementwise_head(4, to, n);; i += part, part = 0) {
        if (part == 0) {
            for (; i + 8 * POP_LANES <= n; i += 8 * POP_LANES) pop_arithmetic_block(&run, to, i, 8, POP_LANES);
            part = n - i < POP_LANES ? n - i : POP_LANES;
        }
        if (part == 0) return;
        pop_arithmetic_block(&run, to, i, 1, (int)part);
    }
}
#endif
