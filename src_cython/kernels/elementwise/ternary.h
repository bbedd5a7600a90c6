/* The ternary operations of numbers: a line each, as in binary.h, of three vectors. */
#ifndef POP_ELEMENTWISE_TERNARY_H
#define POP_ELEMENTWISE_TERNARY_H
#include "simd/math.h"

/* First b from below, then c from above, which wins where they cross. A NaN stays, and a bound that is one bounds nothing. */
POP_INLINE pop_v_f pop_v_clamped(pop_v_f a, pop_v_f b, pop_v_f c)
{
    const pop_v_f raised = pop_v_select_f(pop_v_lt_f(a, b), a, b);
    return pop_v_select_f(pop_v_gt_f(raised, c), raised, c);
}

#define POP_ELEMENTWISE_TERNARY(X) X(clamp, pop_v_clamped(a, b, c))
#endif
