/* The ternary operations of numbers: a line each, as in binary.h, of three vectors. */
#ifndef POP_ELEMENTWISE_TERNARY_H
#define POP_ELEMENTWISE_TERNARY_H
#include "simd/math.h"

/* First b from below, then c from above, which wins where they cross. A NaN stays, and a bound that is one bounds nothing: of
 * each pair the second is taken where either is NaN or they are equal. */
POP_INLINE pop_v_f pop_v_clamped(pop_v_f a, pop_v_f b, pop_v_f c) { return pop_v_min_f(c, pop_v_max_f(b, a)); }

#define POP_ELEMENTWISE_TERNARY(X) X(clamp, pop_v_clamped(a, b, c))
#endif
