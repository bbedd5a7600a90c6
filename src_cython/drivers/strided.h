/* The records of the strided driver: what a program of an elementwise operation tells it. They are made once, by
 * poplibs_py.popops._strided, and held by the program; a call brings addresses alone.
 *
 * The operands of a call are the inputs, the outputs, then the exponents of those whose scales vary and the seed of
 * stochastic rounding. Strides and offsets are in bytes; axes run from the outermost to the innermost. */
#ifndef POP_DRIVERS_STRIDED_H
#define POP_DRIVERS_STRIDED_H
#include "kernels/cast/cast.h"
#include "kernels/elementwise/call.h"

#define POP_STRIDED_OPERANDS 8 /* inputs and outputs together */
#define POP_STRIDED_AXES 64
#define POP_STRIDED_STACK 4096 /* bytes of buffers that a vertex has on its stack: small arrays take no scratch */

/* How the elements of a chunk lie in memory. */
#define POP_DIRECT 0   /* one after another: read and written where they are */
#define POP_GATHERED 1 /* gathered into a buffer, or scattered from one */
#define POP_REPEATED 2 /* inputs: one value for the whole innermost axis, decoded once and spread over a buffer */

typedef struct pop_strided_axis {
    int64_t extent;
    int64_t strides[POP_STRIDED_OPERANDS];
} pop_strided_axis;

/* Along one axis: elements that share a scale, and how far apart their exponents lie. */
typedef struct pop_strided_block {
    int64_t extent, stride;
} pop_strided_block;

typedef struct pop_strided_operand {
    pop_cast cast;      /* for the codec; a scale that all elements share is off its bias */
    int32_t code_bytes; /* of an element in memory */
    int32_t lane_bytes; /* of an element as the kernel sees it: 4, of a float, where there is a codec */
    int32_t mode;       /* POP_DIRECT ... */
    int32_t scales;     /* which operand of the call holds the exponents of its blocks */
    int32_t unused;
    int64_t first;  /* offset of the element that the walk begins with */
    int64_t lanes;  /* offset of its buffer of kernel elements, where it needs one */
    int64_t packed; /* offset of its buffer of codes, where it needs one */
    pop_function codec; /* a pop_decoder or pop_encoder; NULL where the kernel takes the codes as they are */
    const pop_strided_block *blocks; /* for each axis; NULL where scales do not vary */
} pop_strided_operand;

typedef struct pop_strided {
    int32_t inputs, outputs, axes_count;
    int32_t straddles;      /* chunks run on over the ends of the innermost axis */
    int32_t seed;           /* which operand of the call holds the seed; -1 unless rounding is stochastic */
    int32_t unused;
    int64_t chunk;          /* the most elements to take at once */
    int64_t words;          /* offset of the buffer of random words */
    pop_elementwise kernel; /* NULL: the identity, of one input and one output */
    pop_drawer draw;
    const pop_strided_axis *axes;
    pop_strided_operand operands[POP_STRIDED_OPERANDS];
} pop_strided;

/* A range of elements in the order of the axes, the innermost running fastest. */
typedef struct pop_strided_item {
    const pop_strided *spec;
    int64_t first, count;
} pop_strided_item;
#endif
