/* The records of the strided driver: what a program of an elementwise operation tells it. They are made once, by
 * poplibs_py.popops.strided.lower, and held by the program; a call brings addresses alone.
 *
 * The operands of a call are the inputs, the outputs, then the exponents of those whose scales vary, the seed of stochastic
 * rounding, and the words that numbers are made of. Strides and offsets are in bytes; axes run from the outermost to the innermost. */
#ifndef POP_DRIVERS_STRIDED_H
#define POP_DRIVERS_STRIDED_H
#include "kernels/cast/cast.h"
#include "kernels/elementwise/call.h"

#define POP_STRIDED_OPERANDS 24 /* inputs and outputs together */
#define POP_STRIDED_SLOTS 64    /* and buffers */
#define POP_STRIDED_AXES 64
#define POP_STRIDED_STACK 4608 /* bytes of buffers that a vertex has on its stack: small arrays take no scratch */

/* How the elements of a chunk lie in memory. */
#define POP_DIRECT 0   /* one after another: read and written where they are */
#define POP_GATHERED 1 /* gathered into a buffer, or scattered from one */
#define POP_REPEATED 2 /* inputs: one value for the whole innermost axis, decoded once and spread over a buffer */

/* What a step calls. */
#define POP_STEP_COMPUTE 0
#define POP_STEP_DECODE 1
#define POP_STEP_ENCODE 2
#define POP_STEP_COPY 3 /* nothing */
#define POP_STEP_ARITHMETIC 4 /* a pop_arithmetic_kernel, whose plan is behind the slots */

#define POP_RECORDS "records/strided.def"
#include "records/structs.h"
#endif
