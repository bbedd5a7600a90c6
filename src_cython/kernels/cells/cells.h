/* What recurrent cells do between products: gates, states and their gradients, a step at a time.
 *
 * Numerics. Products arrive as FP32 sums; everything between is FP32, each operation rounded once, sums and products of a
 * line fused where they are written with `fma`; elementary functions are those of simd/math.h. What is kept (gates after
 * their non-linearities, states, gradients of gates) is rounded to the states' format where it comes to be, so that what
 * the gradients read is what the step computed with. All levels give the same bits. */
#ifndef POP_CELLS_H
#define POP_CELLS_H
#include "kernels/cells/backward.h"
#include "kernels/cells/forward.h"

#define POP_CELLS_ROW(op) {#op, "float32|float16|bfloat16", #op, POP_FUNCTION(op##_step), {1, POP_LANES, 1}, {1, POP_CHUNK, 1}, POP_CONSISTENT}
static const pop_kernel POP_CELLS_KERNELS[] = {
    POP_CELLS_ROW(lstm), POP_CELLS_ROW(lstm_again), POP_CELLS_ROW(gru), POP_CELLS_ROW(rnn), POP_CELLS_ROW(project),
    POP_CELLS_ROW(lstm_grad), POP_CELLS_ROW(gru_grad), POP_CELLS_ROW(rnn_grad),
    POP_CELLS_ROW(project_grad),
};
#endif
