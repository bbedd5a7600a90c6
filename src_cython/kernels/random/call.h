/* What the kernels of the random family read: of the program, and of the call. */
#ifndef POP_RANDOM_CALL_H
#define POP_RANDOM_CALL_H
#include <stdint.h>

/* Where a call draws: its own words. Before they are made ready (src_cython/random/_stream.pyx) the first three are the
 * seed, its modifier and the logical index of element 0. */
typedef struct pop_random_place {
    uint64_t start[2];     /* lane 0 of the stream at row 0, see aox.h */
    int64_t first, count;  /* logical index of element 0, and elements, as the kernel counts them */
    int64_t per_row, unit; /* elements of a row; of the kernel's for one of the caller's */
} pop_random_place;

/* A distribution with its numbers, at a place of the stream; distributions say what they read. */
typedef struct pop_random_call {
    uint64_t start[2];             /* the call's own words */
    int64_t first, count;
    float scale, shift, low, high; /* result = scale * draw + shift, kept within low .. high */
    float slope, intercept;        /* quantiles: q becomes slope * q + intercept, in units of 2^-31 */
    uint32_t bound, one;           /* masks: an element is kept where its word <= bound; the code of one */
    uint64_t range, threshold;     /* integers: how many; 2^64 modulo range */
    int64_t offset;                /* integers: the least */
} pop_random_call;

typedef struct pop_random_item {
    int64_t share, shares;
    pop_random_call law; /* its place is the call's */
} pop_random_item;
#endif
