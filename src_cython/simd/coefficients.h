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
    0x1.62e43p-1f, 0x1.ebfbdcp-3f, 0x1.c6af7cp-5f, 0x1.3b2dep-7f,
    0x1.5f0838p-10f, 0x1.416b7ep-13f,
};

/* log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2); within 2^-27.8 */
static const float POP_FIT_LOG[9] = {
    -0x1.fffff8p-2f, 0x1.55554ep-2f, -0x1.000434p-2f, 0x1.99a52cp-3f,
    -0x1.542652p-3f, 0x1.225a62p-3f, -0x1.0f2778p-3f, 0x1.08cee4p-3f,
    -0x1.39c1f4p-4f,
};

/* log2(1 + f) = f + f q(f), sqrt(1/2) <= 1 + f <= sqrt(2); within 2^-27.0 */
static const float POP_FIT_LOG2[10] = {
    0x1.c551dap-2f, -0x1.715476p-1f, 0x1.ec7022p-2f, -0x1.7156c6p-2f,
    0x1.278bbp-2f, -0x1.eb6c08p-3f, 0x1.a21cf2p-3f, -0x1.818b8cp-3f,
    0x1.7eb342p-3f, -0x1.dcc07p-4f,
};

/* sin r = r + r^3 s(r^2), |r| <= pi/4; within 2^-27.9 */
static const float POP_FIT_SINE[3] = {
    -0x1.555546p-3f, 0x1.110778p-7f, -0x1.9954p-13f,
};

/* cos r = 1 + r^2 c(r^2), |r| <= pi/4; within 2^-33.0 */
static const float POP_FIT_COSINE[4] = {
    -0x1p-1f, 0x1.55554ap-5f, -0x1.6c0c28p-10f, 0x1.99e80cp-16f,
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

/* log(1 + f) = f + f^2 q(f), sqrt(1/2) <= 1 + f <= sqrt(2); within 2^-38.4 */
static const double POP_FIT_LOG1P_FINE[13] = {
    -0x1.fffffffeedfe1p-2, 0x1.555555651e2f4p-2, -0x1.00000158a28dfp-2, 0x1.999988aa85762p-3,
    -0x1.555468ea1505ep-3, 0x1.2494e102f50c2p-3, -0x1.0022a83a6fcd4p-3, 0x1.c6e48bb80caf4p-4,
    -0x1.94b57200b4ed3p-4, 0x1.71de8835ee121p-4, -0x1.7da65abe3d8b4p-4, 0x1.77c91e4577505p-4,
    -0x1.8c94345d4aea7p-5,
};

/* sin r = r + r^3 s(r^2), |r| <= pi/4; within 2^-37.5 */
static const double POP_FIT_SIN[4] = {
    -0x1.5555554c6ff9ep-3, 0x1.1111086909d87p-7, -0x1.a00f7e130baa6p-13, 0x1.6cd1b02d6fa9p-19,
};

/* cos r = 1 + r^2 c(r^2), |r| <= pi/4; within 2^-33.9 */
static const double POP_FIT_COS[4] = {
    -0x1.ffffffcb77d22p-2, 0x1.55553c74adfe8p-5, -0x1.6c07efdc87a65p-10, 0x1.99164256a44d9p-16,
};

/* atan t = t + t^3 a(t^2), 0 <= t <= 1; within 2^-33.9 */
static const double POP_FIT_ATAN[11] = {
    -0x1.555554873efc1p-2, 0x1.999937f1f624cp-3, -0x1.248a2ca83d6a6p-3, 0x1.c66e4c53fddbcp-4,
    -0x1.700b227e29966p-4, 0x1.2958a82be2cf2p-4, -0x1.be98027a5e922p-5, 0x1.1a6cd7861219dp-5,
    -0x1.0b0c64ba7e492p-6, 0x1.42d9c8e825631p-8, -0x1.6ded1f9c7668cp-11,
};

/* asin t = t + t^3 a(t^2), 0 <= t <= 1/2; within 2^-35.8 */
static const double POP_FIT_ASIN[7] = {
    0x1.555556066065ap-3, 0x1.3332a9a227ba5p-4, 0x1.6ddad646c8967p-5, 0x1.ed5ad0d94e011p-6,
    0x1.932e7c72f344p-6, 0x1.eb6645339aeb4p-8, 0x1.1bf01a613d8bfp-5,
};

#endif
