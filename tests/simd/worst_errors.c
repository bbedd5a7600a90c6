/* The greatest error of an FP32 function over a range of argument codes, against libm in float64. Compiled by
 * worst_errors.py. Errors are in units of the last place of the exact value's binade, subnormal ones having the least. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef void (*function)(const void *const *in, void *const *out, int64_t n);

typedef struct worst {
    double error;      /* greatest, in ulp */
    double doubt;      /* greatest difference of the references in float64 and long double, in FP32's ulp */
    uint32_t at;       /* the argument's code */
    uint32_t wrong_at; /* the last argument with a wrong infinity, NaN or sign of zero */
    int64_t wrong;     /* how many */
} worst;

#define GELU_SLOPE 1.59576912160573071176L /* 2 sqrt(2 / pi) */
#define SQRT_HALF 0.70710678118654752440L

/* Each reference in float64 and, with the suffix l, in long double. -0 is the limit of silu and gelu. */
#define REFERENCES(T, S)                                                                                              \
    static T exp_ref##S(T x) { return exp##S(x); }                                                                    \
    static T exp2_ref##S(T x) { return exp2##S(x); }                                                                  \
    static T expm1_ref##S(T x) { return expm1##S(x); }                                                                \
    static T log_ref##S(T x) { return log##S(x); }                                                                    \
    static T log2_ref##S(T x) { return log2##S(x); }                                                                  \
    static T log1p_ref##S(T x) { return log1p##S(x); }                                                                \
    static T tanh_ref##S(T x) { return tanh##S(x); }                                                                  \
    static T erf_ref##S(T x) { return erf##S(x); }                                                                    \
    static T sqrt_ref##S(T x) { return sqrt##S(x); }                                                                  \
    static T rsqrt_ref##S(T x) { return 1 / sqrt##S(x); }                                                             \
    static T reciprocal_ref##S(T x) { return 1 / x; }                                                                 \
    static T sin_ref##S(T x) { return sin##S(x); }                                                                    \
    static T cos_ref##S(T x) { return cos##S(x); }                                                                    \
    static T tan_ref##S(T x) { return tan##S(x); }                                                                    \
    static T asin_ref##S(T x) { return asin##S(x); }                                                                  \
    static T acos_ref##S(T x) { return acos##S(x); }                                                                  \
    static T atan_ref##S(T x) { return atan##S(x); }                                                                  \
    static T sinh_ref##S(T x) { return sinh##S(x); }                                                                  \
    static T cosh_ref##S(T x) { return cosh##S(x); }                                                                  \
    static T cbrt_ref##S(T x) { return cbrt##S(x); }                                                                  \
    static T sigmoid_ref##S(T x) { return 1 / (1 + exp##S(-x)); }                                                     \
    static T silu_ref##S(T x) { return x < -500 ? -(T)0 : x / (1 + exp##S(-x)); }                                     \
    static T gelu_tanh_ref##S(T x)                                                                                    \
    {                                                                                                                 \
        return x < -20 ? -(T)0 : x / (1 + exp##S(-(T)GELU_SLOPE * (x + (T)0.044715L * x * x * x)));                   \
    }                                                                                                                 \
    static T gelu_erf_ref##S(T x) { return x < -30 ? -(T)0 : x * erfc##S(-x * (T)SQRT_HALF) / 2; }
REFERENCES(double, )
REFERENCES(long double, l)

#define EACH(X)                                                                                                       \
    X(exp) X(exp2) X(expm1) X(log) X(log2) X(log1p) X(tanh) X(erf) X(sqrt) X(rsqrt) X(reciprocal) X(sin) X(cos)       \
    X(sigmoid) X(silu) X(gelu_tanh) X(gelu_erf) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(cbrt)
#define ROW(name) {#name, name##_ref, name##_refl},
static const struct {
    const char *name;
    double (*reference)(double);
    long double (*check)(long double);
} FUNCTIONS[] = {EACH(ROW)};

/* Functions of two arguments. */
static const struct {
    const char *name;
    double (*reference)(double, double);
    long double (*check)(long double, long double);
} PAIRS[] = {{"pow", pow, powl}, {"atan2", atan2, atan2l}};

static double ulp(double x)
{
    int64_t bits;
    memcpy(&bits, &x, 8);
    int64_t exponent = (bits >> 52 & 0x7ff) - 1023;
    bits = ((exponent < -126 ? -126 : exponent) - 23 + 1023) << 52;
    memcpy(&x, &bits, 8);
    return x;
}

/* The error of one result, or -1 where it is wrong in kind. An infinity counts as 2^128. */
static double error_of(float got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : -1;
    if (isnan(got) || ((want == 0 || got == 0) && !signbit(got) != !signbit(want))) return -1;
    if (isinf(want)) return got == want ? 0 : -1;
    if (fabs(want) >= 0x1p128) return isinf(got) && (got > 0) == (want > 0) ? 0 : -1;
    return fabs((isinf(got) ? copysign(0x1p128, got) : (double)got) - want) / ulp(want);
}

static int place_of(const char *name)
{
    for (unsigned i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
        if (!strcmp(FUNCTIONS[i].name, name)) return (int)i;
    return -1;
}

/* The references of n numbers; 1 where the name is unknown. */
int reference_of(const char *name, const float *x, double *y, int64_t n)
{
    int which = place_of(name);
    for (int64_t i = 0; which >= 0 && i < n; i++) y[i] = FUNCTIONS[which].reference(x[i]);
    return which < 0;
}

/* Codes first, first + step, ..., `count` of them; 1 where the name is unknown. Every 4096th is checked in long double. */
int find_worst(const char *name, function f, uint32_t first, uint32_t step, int64_t count, worst *found)
{
    enum { chunk = 2048 };
    float x[chunk], y[chunk];
    const int which = place_of(name);
    if (which < 0) return 1;
    memset(found, 0, sizeof *found);
    for (int64_t done = 0; done < count; done += chunk) {
        int n = count - done < chunk ? (int)(count - done) : chunk;
        for (int i = 0; i < n; i++) {
            uint32_t code = first + (uint32_t)(done + i) * step;
            memcpy(x + i, &code, 4);
        }
        f((const void *const[]){x}, (void *const[]){y}, n);
        for (int i = 0; i < n; i++) {
            double want = FUNCTIONS[which].reference(x[i]), error = error_of(y[i], want);
            uint32_t code = first + (uint32_t)(done + i) * step;
            if (error < 0) {
                found->wrong++;
                found->wrong_at = code;
            } else if (error > found->error) {
                found->error = error;
                found->at = code;
            }
            if ((done + i) % 4096 == 0 && isfinite(want)) {
                double doubt = (double)fabsl(FUNCTIONS[which].check(x[i]) - want) / ulp(want);
                if (doubt > found->doubt) found->doubt = doubt;
            }
        }
    }
    return 0;
}

/* The same of a function of two arguments, of n pairs of them; every 64th is checked in long double. */
int find_worst_pair(const char *name, function f, const float *x, const float *y, float *z, int64_t n, worst *found)
{
    memset(found, 0, sizeof *found);
    for (unsigned p = 0; p < sizeof PAIRS / sizeof *PAIRS; p++) {
        if (strcmp(PAIRS[p].name, name)) continue;
        f((const void *const[]){x, y}, (void *const[]){z}, n);
        for (int64_t i = 0; i < n; i++) {
            double want = PAIRS[p].reference(x[i], y[i]), error = error_of(z[i], want);
            if (error < 0) {
                found->wrong++;
                found->wrong_at = (uint32_t)i;
            } else if (error > found->error) {
                found->error = error;
                found->at = (uint32_t)i;
            }
            if (i % 64 == 0 && isfinite(want)) {
                double doubt = (double)fabsl(PAIRS[p].check(x[i], y[i]) - want) / ulp(want);
                if (doubt > found->doubt) found->doubt = doubt;
            }
        }
        return 0;
    }
    return 1;
}
