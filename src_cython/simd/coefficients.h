/* Written by make_coefficients.py, which says how. Lowest first. */
#ifndef POP_SIMD_COEFFICIENTS_H
#define POP_SIMD_COEFFICIENTS_H

/* e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2; within 2^-28.3 */
static const float POP_EXP[5] = {
    0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558aap-5f, 0x1.12396ep-7f,
    0x1.6a524ep-10f,
};

/* 2^r = 1 + r s(r), |r| <= 1/2; within 2^-28.3 */
static const float POP_EXP2[6] = {
    0x1.62e430p-1f, 0x1.ebfbdcp-3f, 0x1.c6af7cp-5f, 0x1.3b2de0p-7f,
    0x1.5f0838p-10f, 0x1.416b7ep-13f,
};

/* log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2); within 2^-27.8 */
static const float POP_LOG[9] = {
    -0x1.fffff8p-2f, 0x1.55554ep-2f, -0x1.000434p-2f, 0x1.99a52cp-3f,
    -0x1.542652p-3f, 0x1.225a62p-3f, -0x1.0f2778p-3f, 0x1.08cee4p-3f,
    -0x1.39c1f4p-4f,
};

/* erf(x) = x + x p(x^2), |x| <= 1; within 2^-29.4 */
static const float POP_ERF_NEAR[7] = {
    0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2ce6p-4f, -0x1.b7f71ap-6f,
    0x1.53f224p-8f, -0x1.a3515ep-11f, 0x1.4771fep-14f,
};

/* 1 - erf(x) = 2^(-q(x)), 1 <= x <= 4; within 2^-34.8 */
static const float POP_ERF_FAR[8] = {
    -0x1.1d1bd2p-12f, 0x1.a13014p+0f, 0x1.d3bb4cp-1f, 0x1.405900p-3f,
    -0x1.29f2bap-5f, 0x1.8d98fep-8f, -0x1.4dea5ap-11f, 0x1.0693f4p-15f,
};

/* e^r - 1 = r + r^2 q(r), |r| <= ln 2 / 2; within 2^-32.0 */
static const double POP_EXPM1[6] = {
    0x1.00000025efbd6p-1, 0x1.555554ef8f44cp-3, 0x1.5554b12edcb6cp-5, 0x1.11118966b1a93p-7,
    0x1.6d71f7787466cp-10, 0x1.a032bf40b9b44p-13,
};

/* log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2); within 2^-33.1 */
static const double POP_LOG1P[11] = {
    -0x1.000000186933ap-1, 0x1.5555546d4ba58p-2, -0x1.ffffacf009f54p-3, 0x1.999a1b107308bp-3,
    -0x1.5568872311f59p-3, 0x1.2492336c25ba2p-3, -0x1.fc6bfcd6e447ep-4, 0x1.c36c80ad92d49p-4,
    -0x1.bd418b5ba0162p-4, 0x1.b76104471e80fp-4, -0x1.eb0a7917663b6p-5,
};

/* sin r = r + r^3 s(r^2), |r| <= pi/4; within 2^-37.5 */
static const double POP_SIN[4] = {
    -0x1.5555554c6ff9ep-3, 0x1.1111086909d87p-7, -0x1.a00f7e130baa6p-13, 0x1.6cd1b02d6fa90p-19,
};

/* cos r = 1 + r^2 c(r^2), |r| <= pi/4; within 2^-33.9 */
static const double POP_COS[4] = {
    -0x1.ffffffcb77d22p-2, 0x1.55553c74adfe8p-5, -0x1.6c07efdc87a65p-10, 0x1.99164256a44d9p-16,
};

/* P(Z > t) = e^(-t^2/2) y p(y), y = 1 / (t + 3), 0 <= t <= 14.5; within 2^-30.0 */
static const double POP_TAIL[11] = {
    0x1.98857c53b5e1dp-2, 0x1.324707ffd4444p+0, 0x1.9ad7f7cc6e8b8p+1, 0x1.af6e09f90c04ap+2,
    0x1.2bcd998c5345bp+4, -0x1.f1008c361a17dp+5, 0x1.b6caca1d7adbap+8, -0x1.215accc88232bp+11,
    0x1.638dcb95f354bp+12, -0x1.a9a8a36c6557cp+12, 0x1.9b95dc23a503ap+11,
};

#endif
