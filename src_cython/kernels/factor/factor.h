/* Factorisations of many small matrices, POP_LANES of them side by side (lanes.h); systems whose right-hand sides fill vectors are
 * solved one after another (solve_rows.h), and so are LU factors made of larger matrices, and of those of whole vectors (lu.h).
 *
 * Numerics. Elements of 16 bits are decoded exactly, everything is FP32, results are rounded once. Each sum is one chain of
 * fused multiply-adds in ascending order; a quotient is a product with the reciprocal that was rounded once (a quotient where the
 * pivot, or in a solve the diagonal, is below 2^-126 or above 2^126). All levels give the same bits.
 *
 * Measured on one Zen 4 core at AVX-512, batches of 2 MiB and more in the third-level cache, GFLOP/s of orders 8, 16, 32, 64:
 * Cholesky 8.7, 19, 22, 31; solves with as many right-hand sides 19, 34, 38, 42; QR with Q 24, 35, 35, 36. Transposing the matrices to
 * lanes and back is what small orders wait for. On one Zen 3 core at AVX2 systems one after another take 0.8, 0.5, 0.6, 0.35 of the time
 * of lanes; LU takes 1.6 of it at order 8, 1.9 at 12, 0.85 at 16, 1.25 at 20 and less from 21 on.
 *
 * Lines of the next matrices are prefetched a few after each step (`prefetch_ahead`): all at once would be slower, and a few cost
 * little where the caches hold them. Where others had the caches that leaves 0.5 to 0.8 of the time at orders 8 and 16. */
#ifndef POP_FACTOR_H
#define POP_FACTOR_H
#include "kernels/factor/cholesky.h"
#include "kernels/factor/lu.h"
#include "kernels/factor/qr.h"
#include "kernels/factor/small_lu.h"
#include "kernels/factor/solve.h"
#include "kernels/factor/solve_rows.h"

#define POP_ANY_OF "float32|float16|bfloat16"
/* The block: matrices side by side; of `solve_rows`, one, and right-hand sides at a time, whose grain is a vector of them. */
#define POP_FACTOR_ROW(name, op, formats, grain, ...)                                                                 \
    {#op, formats, #name, POP_FUNCTION(name##_share), {1, grain, 1}, {__VA_ARGS__, 1}, POP_CONSISTENT}
#define POP_FACTOR_LANES(op, formats) POP_FACTOR_ROW(op, op, formats, 1, POP_LANES, POP_BLOCK)
static const pop_kernel POP_FACTOR_KERNELS[] = {
    POP_FACTOR_LANES(cholesky, POP_ANY_OF "->" POP_ANY_OF),
    POP_FACTOR_LANES(solve, POP_ANY_OF "," POP_ANY_OF "->" POP_ANY_OF),
    POP_FACTOR_ROW(solve_rows, solve, POP_ANY_OF "," POP_ANY_OF "->" POP_ANY_OF, POP_CELL, 1, POP_SIDES),
    POP_FACTOR_ROW(lu, lu, POP_ANY_OF "->" POP_ANY_OF, 1, 1, POP_EIGHT),
    POP_FACTOR_LANES(small_lu, POP_ANY_OF "->" POP_ANY_OF),
    POP_FACTOR_LANES(qr, POP_ANY_OF "->" POP_ANY_OF),
};
#endif
