/* Written by make_coefficients.py, which says how. Lowest first. */
#ifndef POP_SIMD_COEFFICIENTS_H
#define POP_SIMD_COEFFICIENTS_H

/* e^r = 1 + r + r^2 q(r), |r| <= ln 2 / 2; within 2^-28.3 */
static const float POP_FIT_EXP[5] = {
    0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558aap-5f, 0x1.12396ep-7f,
    0x1.6a524ep-10f,
};

/* 2^r = 1 + r s(r), |r| <= 1/2; within 2^-28.3 */
static const float POP_FIT_EXP2[6] = {
    0x1.62e430p-1f, 0x1.ebfbdcp-3f, 0x1.c6af7cp-5f, 0x1.3b2de0p-7f,
    0x1.5f0838p-10f, 0x1.416b7ep-13f,
};

/* log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2); within 2^-27.8 */
static const float POP_FIT_LOG[9] = {
    -0x1.fffff8p-2f, 0x1.55554ep-2f, -0x1.000434p-2f, 0x1.99a52cp-3f,
    -0x1.542652p-3f, 0x1.225a62p-3f, -0x1.0f2778p-3f, 0x1.08cee4p-3f,
    -0x1.39c1f4p-4f,
};

/* erf(x) = x + x p(x^2), |x| <= 7/8; within 2^-30.1 */
static const float POP_FIT_ERF_NEAR[7] = {
    0x1.06eba8p-3f, -0x1.812742p-2f, 0x1.ce2dfep-4f, -0x1.b80f94p-6f,
    0x1.54df44p-8f, -0x1.ab6df0p-11f, 0x1.61d11ap-14f,
};

/* 1 - erf(7/8 + u) = 2^(-2 - q(u)), 0 <= u <= 25/8; within 2^-31.1 */
static const float POP_FIT_ERF_FAR[8] = {
    0x1.b0f18cp-3f, 0x1.c0c6c4p+1f, 0x1.314450p+0f, 0x1.151e80p-4f,
    -0x1.0bf99ep-6f, 0x1.9f84eap-9f, -0x1.b47b48p-12f, 0x1.aecf36p-16f,
};

/* e^r - 1 = r + r^2 q(r), |r| <= ln 2 / 2; within 2^-32.0 */
static const double POP_FIT_EXPM1[6] = {
    0x1.00000025efbd6p-1, 0x1.555554ef8f44cp-3, 0x1.5554b12edcb6cp-5, 0x1.11118966b1a93p-7,
    0x1.6d71f7787466cp-10, 0x1.a032bf40b9b44p-13,
};

/* log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2); within 2^-30.4 */
static const double POP_FIT_LOG1P[10] = {
    -0x1.ffffffd5a7d26p-2, 0x1.555546380fa0fp-2, -0x1.0000113f6c809p-2, 0x1.99a53d48eeb01p-3,
    -0x1.555ab19d68c32p-3, 0x1.232d96f74d994p-3, -0x1.fc3457f4b0c32p-4, 0x1.e7769dc4ae67ep-4,
    -0x1.de40766086483p-4, 0x1.13757a3252b9bp-4,
};

/* sin r = r + r^3 s(r^2), |r| <= pi/4; within 2^-37.5 */
static const double POP_FIT_SIN[4] = {
    -0x1.5555554c6ff9ep-3, 0x1.1111086909d87p-7, -0x1.a00f7e130baa6p-13, 0x1.6cd1b02d6fa90p-19,
};

/* cos r = 1 + r^2 c(r^2), |r| <= pi/4; within 2^-33.9 */
static const double POP_FIT_COS[4] = {
    -0x1.ffffffcb77d22p-2, 0x1.55553c74adfe8p-5, -0x1.6c07efdc87a65p-10, 0x1.99164256a44d9p-16,
};

/* P(Z > t) = e^(-t^2/2) y p(y), y = 1 / (t + 3), 0 <= t <= 14.5; within 2^-30.0 */
static const double POP_FIT_TAIL[11] = {
    0x1.98857c53b5e1dp-2, 0x1.324707ffd4444p+0, 0x1.9ad7f7cc6e8b8p+1, 0x1.af6e09f90c04ap+2,
    0x1.2bcd998c5345bp+4, -0x1.f1008c361a17dp+5, 0x1.b6caca1d7adbap+8, -0x1.215accc88232bp+11,
    0x1.638dcb95f354bp+12, -0x1.a9a8a36c6557cp+12, 0x1.9b95dc23a503ap+11,
};

#endif
