/* Elements of a format from and to vectors as wide as one part of the generator's row. */
#ifndef POP_RANDOM_LANES_H
#define POP_RANDOM_LANES_H
#include "formats/codec.h"
#include "kernels/random/aox.h"

_Static_assert(POP_AOX_BYTES == POP_VECTOR_BYTES, "a part of a row is a vector");

/* What is too large becomes infinity, or the largest number where f has none. */
POP_INLINE void pop_r_encode(const pop_format *f, char *p, pop_v_f x)
{
    pop_v_encode(f, f->specials == POP_IEEE ? POP_OVERFLOW_INFINITY : POP_SATURATE, p, x);
}
#endif
