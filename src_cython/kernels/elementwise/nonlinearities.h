/* Non-linearities of neural networks that have no polynomial of their own in simd/math.h, and their gradients: in FP32 alone,
 * worked in float64 and rounded once. A body takes a, b and c, as many as it has; a gradient what comes back, then x. */
#ifndef POP_ELEMENTWISE_NONLINEARITIES_H
#define POP_ELEMENTWISE_NONLINEARITIES_H
#include "kernels/elementwise/gradients.h"

#define POP_SELU_SCALE 0x1.0cfabd98ecbdcp0
#define POP_SELU_ALPHA 0x1.ac5afad35fc0cp0
#define POP_ALPHA 0x1.9884533d43651p-1 /* sqrt(2 / pi) */
#define POP_BETA 0.044715

#define POP_ONE_BY_HALVES(function, x) pop_h_narrow(function(pop_h_widen(x, 0)), function(pop_h_widen(x, 1)))
#define POP_THREE_BY_HALVES(function, x, y, z)                                                                     \
    pop_h_narrow(function(pop_h_widen(x, 0), pop_h_widen(y, 0), pop_h_widen(z, 0)),                                 \
                 function(pop_h_widen(x, 1), pop_h_widen(y, 1), pop_h_widen(z, 1)))

POP_INLINE pop_h_m pop_h_positive(pop_h_f x) { return pop_h_lt(pop_h_splat(0.0), x); }

/* e^x where it counts beside 1; 1 / (1 + e^-x); max(x, -1000), beyond which what multiplies x is nothing. */
POP_INLINE pop_h_f pop_h_bounded_exp(pop_h_f x) { return pop_h_exp(pop_h_clamp(x, -200.0, 200.0)); }
POP_INLINE pop_h_f pop_h_share(pop_h_f x) { return 1.0 / (1.0 + pop_h_bounded_exp(-x)); }
POP_INLINE pop_h_f pop_h_not_endless(pop_h_f x) { return pop_h_max(pop_h_splat(-1000.0), x); }

POP_INLINE pop_h_f pop_h_elu(pop_h_f x, pop_h_f alpha) { return pop_h_select(pop_h_positive(x), alpha * pop_h_expm1(x), x); }
POP_INLINE pop_h_f pop_h_selu(pop_h_f x) { return POP_SELU_SCALE * pop_h_elu(x, pop_h_splat(POP_SELU_ALPHA)); }

/* log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|; what the sum 1 + u loses is given back. */
POP_INLINE pop_h_f pop_h_softplus(pop_h_f x)
{
    pop_h_f e, f;
    const pop_h_f u = pop_h_bounded_exp(-pop_h_abs(x)), sum = 1.0 + u;
    pop_h_log_parts(sum, &e, &f);
    const pop_h_f log = pop_h_fma(e, pop_h_splat(POP_LN2_D), pop_h_log_fraction(f));
    return pop_h_max(pop_h_splat(0.0), x) + (log + (u - (sum - 1.0)) / sum);
}

/* tanh(log(1 + e^x)) = n / (n + 2), n = e^x (e^x + 2) */
POP_INLINE pop_h_f pop_h_mish_part(pop_h_f x, pop_h_f *power)
{
    *power = pop_h_exp(pop_h_clamp(x, -200.0, 40.0));
    return *power * (*power + 2.0);
}
POP_INLINE pop_h_f pop_h_mish(pop_h_f x)
{
    pop_h_f power, n = pop_h_mish_part(x, &power);
    return pop_h_not_endless(x) * (n / (n + 2.0));
}
POP_INLINE pop_h_f pop_h_hard_sigmoid(pop_h_f x) { return pop_h_clamp(x * 0.2 + 0.5, 0.0, 1.0); }
POP_INLINE pop_h_f pop_h_hard_swish(pop_h_f x) { return pop_h_not_endless(x) * pop_h_clamp(x + 3.0, 0.0, 6.0) / 6.0; }

POP_INLINE pop_h_f pop_h_elu_grad(pop_h_f g, pop_h_f x, pop_h_f alpha)
{
    return pop_h_select(pop_h_positive(x), g * alpha * pop_h_power_of_e(x), g);
}
POP_INLINE pop_h_f pop_h_selu_grad(pop_h_f g, pop_h_f x)
{
    return POP_SELU_SCALE * pop_h_elu_grad(g, x, pop_h_splat(POP_SELU_ALPHA));
}
POP_INLINE pop_h_f pop_h_softplus_grad(pop_h_f g, pop_h_f x) { return g * pop_h_share(x); }
POP_INLINE pop_h_f pop_h_mish_grad(pop_h_f g, pop_h_f x)
{
    pop_h_f power, n = pop_h_mish_part(x, &power), below = n + 2.0, bounded = pop_h_clamp(x, -200.0, 40.0);
    return g * (n / below + bounded * (4.0 * (n + 1.0) / (below * below)) * (power / (1.0 + power)));
}
POP_INLINE pop_h_f pop_h_hard_sigmoid_grad(pop_h_f g, pop_h_f x)
{
    const pop_h_f none = pop_h_splat(0.0);
    return pop_h_select(pop_h_lt(pop_h_splat(2.5), pop_h_abs(x)), g * 0.2, none);
}
POP_INLINE pop_h_f pop_h_hard_swish_grad(pop_h_f g, pop_h_f x)
{
    pop_h_f slope = (2.0 * x + 3.0) / 6.0;
    slope = pop_h_select(pop_h_lt(x, pop_h_splat(-3.0)), slope, pop_h_splat(0.0));
    return g * pop_h_select(pop_h_lt(pop_h_splat(3.0), x), slope, pop_h_splat(1.0));
}
POP_INLINE pop_h_f pop_h_silu_grad(pop_h_f g, pop_h_f x)
{
    const pop_h_f bounded = pop_h_clamp(x, -200.0, 200.0), power = pop_h_exp(-bounded), share = 1.0 / (1.0 + power);
    return g * (share * (1.0 + bounded * (power * share)));
}
/* s + x s (1 - s) 2z', s = 1 / (1 + e^-2z), z = alpha x (1 + beta x^2). */
POP_INLINE pop_h_f pop_h_gelu_tanh_grad(pop_h_f g, pop_h_f x)
{
    const pop_h_f bounded = pop_h_clamp(x, -40.0, 40.0), square = bounded * bounded * POP_BETA;
    const pop_h_f power = pop_h_bounded_exp(-2.0 * POP_ALPHA * bounded * (1.0 + square)), share = 1.0 / (1.0 + power);
    return g * (share + bounded * (share * (power * share)) * (2.0 * POP_ALPHA) * (1.0 + 3.0 * square));
}
/* As PopLibs' model of its host has it: the density of the normal distribution in the second part. */
POP_INLINE pop_h_f pop_h_gelu_tanh_grad_poplibs(pop_h_f g, pop_h_f x)
{
    const pop_h_f bounded = pop_h_clamp(x, -40.0, 40.0), square = bounded * bounded;
    const pop_h_f share = pop_h_share(2.0 * POP_ALPHA * bounded * (1.0 + square * POP_BETA));
    return g * (share + bounded * (0.5 * POP_ALPHA) * pop_h_power_of_e(square * -0.5));
}

/* P(Z < x) + x p(x), Z a standard normal number of density p: the first as gelu gives it. */
POP_INLINE pop_h_f pop_h_gelu_erf_grad(pop_h_f g, pop_h_f share, pop_h_f x)
{
    const pop_h_f bounded = pop_h_clamp(x, -30.0, 30.0);
    return g * (share + bounded * (0.5 * POP_ALPHA) * pop_h_power_of_e(bounded * bounded * -0.5));
}
POP_INLINE pop_v_f pop_v_gelu_erf_grad(pop_v_f g, pop_v_f x)
{
    const pop_v_m small = pop_v_lt_f(pop_v_abs(x), pop_v_splat(0x1p-30f));
    const pop_v_f bounded = pop_v_clamp(x, -30.0f, 30.0f);
    const pop_v_f share = pop_v_select_f(small, pop_v_gelu_erf(bounded) / bounded, pop_v_splat(0.5f));
    return POP_THREE_BY_HALVES(pop_h_gelu_erf_grad, g, share, x);
}

#define POP_NONLINEARITIES(X)                                                                                       \
    X(selu, POP_ONE_BY_HALVES(pop_h_selu, x))                                                                       \
    X(softplus, POP_ONE_BY_HALVES(pop_h_softplus, x))                                                               \
    X(mish, POP_ONE_BY_HALVES(pop_h_mish, x))                                                                       \
    X(hard_sigmoid, POP_ONE_BY_HALVES(pop_h_hard_sigmoid, x))                                                       \
    X(hard_swish, POP_ONE_BY_HALVES(pop_h_hard_swish, x))

#define POP_NONLINEARITIES_OF_TWO(X)                                                                                \
    X(leaky_relu, pop_v_select_f(pop_v_gt_f(a, pop_v_splat(0.0f)), a * b, a))                                       \
    X(leaky_relu_slope_grad, pop_v_select_f(pop_v_gt_f(b, pop_v_splat(0.0f)), a * b, pop_v_splat(0.0f)))            \
    X(elu, POP_PAIR_BY_HALVES(pop_h_elu, a, b))                                                                     \
    X(selu_grad, POP_PAIR_BY_HALVES(pop_h_selu_grad, a, b))                                                         \
    X(softplus_grad, POP_PAIR_BY_HALVES(pop_h_softplus_grad, a, b))                                                 \
    X(mish_grad, POP_PAIR_BY_HALVES(pop_h_mish_grad, a, b))                                                         \
    X(hard_sigmoid_grad, POP_PAIR_BY_HALVES(pop_h_hard_sigmoid_grad, a, b))                                         \
    X(hard_swish_grad, POP_PAIR_BY_HALVES(pop_h_hard_swish_grad, a, b))                                             \
    X(silu_grad, POP_PAIR_BY_HALVES(pop_h_silu_grad, a, b))                                                         \
    X(gelu_tanh_grad, POP_PAIR_BY_HALVES(pop_h_gelu_tanh_grad, a, b))                                               \
    X(gelu_tanh_grad_poplibs, POP_PAIR_BY_HALVES(pop_h_gelu_tanh_grad_poplibs, a, b))                               \
    X(gelu_erf_grad, pop_v_gelu_erf_grad(a, b))

#define POP_NONLINEARITIES_OF_THREE(X)                                                                              \
    X(leaky_relu_grad, pop_v_select_f(pop_v_gt_f(b, pop_v_splat(0.0f)), a * c, a))                                  \
    X(elu_grad, POP_THREE_BY_HALVES(pop_h_elu_grad, a, b, c))
#endif
