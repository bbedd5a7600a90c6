/* Gradients of the operations of one number: what comes back, a or g, times the derivative at b or x. In float64 where a
 * derivative could be too small for FP32 and the product is not, and rounded once. */
#ifndef POP_ELEMENTWISE_GRADIENTS_H
#define POP_ELEMENTWISE_GRADIENTS_H
#include "simd/math.h"

POP_INLINE pop_h_f pop_h_size(pop_h_f x) { return pop_h_max(x, -x); }
POP_INLINE pop_h_f pop_h_power_of_e(pop_h_f x) { return pop_h_exp(pop_h_clamp(x, -300.0, 300.0)); }
POP_INLINE pop_h_f pop_h_square_grad(pop_h_f g, pop_h_f x) { return g * (x + x); }
POP_INLINE pop_h_f pop_h_cube_grad(pop_h_f g, pop_h_f x) { return g * (x * x * 3.0); }
POP_INLINE pop_h_f pop_h_inv_grad(pop_h_f g, pop_h_f x) { return -g / (x * x); }
POP_INLINE pop_h_f pop_h_exp_grad(pop_h_f g, pop_h_f x) { return g * pop_h_power_of_e(x); }
POP_INLINE pop_h_f pop_h_exp2_grad(pop_h_f g, pop_h_f x) { return g * 0x1.62e42fefa39efp-1 * pop_h_power_of_e(x * 0x1.62e42fefa39efp-1); }
POP_INLINE pop_h_f pop_h_log_grad(pop_h_f g, pop_h_f x) { return g / x; }
POP_INLINE pop_h_f pop_h_log2_grad(pop_h_f g, pop_h_f x) { return g * 0x1.71547652b82fep0 / x; }
POP_INLINE pop_h_f pop_h_log1p_grad(pop_h_f g, pop_h_f x) { return g / (1.0 + x); }
POP_INLINE pop_h_f pop_h_sin_grad(pop_h_f g, pop_h_f x) { return g * pop_h_sine(x, 1); }
POP_INLINE pop_h_f pop_h_cos_grad(pop_h_f g, pop_h_f x) { return -g * pop_h_sine(x, 0); }
POP_INLINE pop_h_f pop_h_tan_grad(pop_h_f g, pop_h_f x)
{
    const pop_h_f cosine = pop_h_sine(x, 1);
    return g / (cosine * cosine);
}
POP_INLINE pop_h_f pop_h_sigmoid_grad(pop_h_f g, pop_h_f x)
{
    const pop_h_f small = pop_h_power_of_e(-pop_h_size(x)), sum = 1.0 + small;
    return g * small / (sum * sum);
}
POP_INLINE pop_h_f pop_h_tanh_grad(pop_h_f g, pop_h_f x) { return pop_h_sigmoid_grad(g, x + x) * 4.0; }
POP_INLINE pop_h_f pop_h_erf_grad(pop_h_f g, pop_h_f x) { return g * 0x1.20dd750429b6dp0 * pop_h_power_of_e(-x * x); }

/* Times a factor that FP32 holds well. */
POP_INLINE pop_h_f pop_h_half_times(pop_h_f g, pop_h_f factor) { return g * 0.5 * factor; }
POP_INLINE pop_h_f pop_h_cbrt_times(pop_h_f g, pop_h_f root) { return g / (root * root * 3.0); }
POP_INLINE pop_h_f pop_h_rsqrt_times(pop_h_f g, pop_h_f root) { return g * -0.5 * (root * root * root); }

#define POP_ELEMENTWISE_GRADIENTS(X)                                                                                \
    X(abs_grad, a * pop_v_float(pop_v_keep(pop_v_gt_f(pop_v_abs(b), pop_v_splat(0.0f)),                             \
                                           pop_v_sign(b) | pop_v_bits(pop_v_splat(1.0f)))))                         \
    X(square_grad, POP_PAIR_BY_HALVES(pop_h_square_grad, a, b))                                                     \
    X(cube_grad, POP_PAIR_BY_HALVES(pop_h_cube_grad, a, b))                                                         \
    X(sqrt_grad, POP_PAIR_BY_HALVES(pop_h_half_times, a, pop_v_rsqrt(b)))                                           \
    X(rsqrt_grad, POP_PAIR_BY_HALVES(pop_h_rsqrt_times, a, pop_v_rsqrt(b)))                                         \
    X(inv_grad, POP_PAIR_BY_HALVES(pop_h_inv_grad, a, b))                                                           \
    X(cbrt_grad, POP_PAIR_BY_HALVES(pop_h_cbrt_times, a, pop_v_cbrt(b)))                                            \
    X(exp_grad, POP_PAIR_BY_HALVES(pop_h_exp_grad, a, b))                                                           \
    X(exp2_grad, POP_PAIR_BY_HALVES(pop_h_exp2_grad, a, b))                                                         \
    X(expm1_grad, POP_PAIR_BY_HALVES(pop_h_exp_grad, a, b))                                                         \
    X(log_grad, POP_PAIR_BY_HALVES(pop_h_log_grad, a, b))                                                           \
    X(log2_grad, POP_PAIR_BY_HALVES(pop_h_log2_grad, a, b))                                                         \
    X(log1p_grad, POP_PAIR_BY_HALVES(pop_h_log1p_grad, a, b))                                                       \
    X(sin_grad, POP_PAIR_BY_HALVES(pop_h_sin_grad, a, b))                                                           \
    X(cos_grad, POP_PAIR_BY_HALVES(pop_h_cos_grad, a, b))                                                           \
    X(tan_grad, POP_PAIR_BY_HALVES(pop_h_tan_grad, a, b))                                                           \
    X(tanh_grad, POP_PAIR_BY_HALVES(pop_h_tanh_grad, a, b))                                                         \
    X(erf_grad, POP_PAIR_BY_HALVES(pop_h_erf_grad, a, b))                                                           \
    X(sigmoid_grad, POP_PAIR_BY_HALVES(pop_h_sigmoid_grad, a, b))                                                   \
    X(relu_grad, pop_v_select_f(pop_v_gt_f(b, pop_v_splat(0.0f)), pop_v_splat(0.0f), a))
#endif
