/* What a call for random numbers gives to every share of it; distributions say what they read. */
#ifndef POP_RANDOM_CALL_H
#define POP_RANDOM_CALL_H
#include <stdint.h>

typedef struct pop_random_call {
    uint64_t start[2];             /* lane 0 of the stream at row 0, see aox.h */
    int64_t first, count;          /* logical index of element 0; elements */
    float scale, shift, low, high; /* result = scale * draw + shift, kept within low .. high */
    float slope, intercept;        /* quantiles: q becomes slope * q + intercept, in units of 2^-31 */
    uint32_t bound, one;           /* masks: an element is kept where its word <= bound; the code of one */
    uint64_t range, threshold;     /* integers: how many; 2^64 modulo range */
    int64_t offset;                /* integers: the least */
} pop_random_call;
#endif
