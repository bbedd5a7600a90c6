/* Connectionist temporal classification: loss and gradient (loss.h), decoding (beams.h).
 *
 * Numerics. Elements of 16 bits are decoded exactly. Probabilities of paths are FP32 numbers with exponents of their own
 * (wide.h): each sum of two or three terms, and each product, rounds the last place. Sums over classes and states are 16
 * chains, folded by halves. All levels give the same bits. */
#ifndef POP_CTC_H
#define POP_CTC_H
#include "kernels/ctc/beams.h"
#include "kernels/ctc/loss.h"

#define POP_ANY_OF "float32|float16|bfloat16"
static const pop_kernel POP_CTC_KERNELS[] = {
    {"loss", POP_ANY_OF "->" POP_ANY_OF, "ctc_loss", POP_FUNCTION(loss_share), {1, 1, 1}, {1, POP_STEP, 1}, POP_CONSISTENT},
    {"beams", POP_ANY_OF "->float32", "ctc_beams", POP_FUNCTION(beams_share), {1, 1, 1}, {1, POP_STEP, 1}, POP_CONSISTENT},
    {"best", POP_ANY_OF "->float32", "ctc_best_path", POP_FUNCTION(best_share), {1, 1, 1}, {1, POP_STEP, 1}, POP_CONSISTENT},
};
#endif
