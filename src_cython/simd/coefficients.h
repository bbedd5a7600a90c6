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

/* tanh t, 0 <= t <= 9.2; in the first interval less t; within 2^-27.8 */
static const pop_curve POP_CURVE_TANH = {1.625f, 1.0f, 9.2f, 21, {
    {
        0x1.8cb13cp-1f, 0x1.11e4ecp+0f, 0x1.62c276p+0f, 0x1.b1db14p+0f,
        0x1.13b13cp+1f, 0x1.642ec4p+1f, 0x1.b06c4ep+1f, 0x1.00dc4ep+2f,
        0x1.394p+2f, 0x1.88ec4ep+2f, 0x1.d8713cp+2f, 0x1.142334p+3f,
        0x0p+0f, 0x1.d689d8p-3f, 0x1.88b628p-2f, 0x1.14f13cp-1f,
    },
    {
        0x1.4ca642p-1f, 0x1.942f4ap-1f, 0x1.c3b4d2p-1f, 0x1.de977ap-1f,
        0x1.f2653cp-1f, 0x1.fc1848p-1f, 0x1.fecf7p-1f, 0x1.ffaa6cp-1f,
        0x1.fff14ep-1f, 0x1.fffec8p-1f, 0x1.ffffe6p-1f, 0x1.fffffep-1f,
        0x0p+0f, 0x1.ce6e1cp-3f, 0x1.76870cp-2f, 0x1.f984fp-2f,
    },
    {
        0x1.27e02ep-1f, 0x1.81dab6p-2f, 0x1.c5f2c8p-3f, 0x1.028bf6p-3f,
        0x1.ad8fc8p-5f, 0x1.f1f41p-7f, 0x1.30357ap-8f, 0x1.56336ep-10f,
        0x1.d64142p-13f, 0x1.37fd7ap-16f, 0x1.9ff66cp-20f, 0x1.121f1ep-23f,
        0x1.662628p-32f, 0x1.e5e574p-1f, 0x1.bb8224p-1f, 0x1.833848p-1f,
    },
    {
        -0x1.8076ep-2f, -0x1.309a38p-2f, -0x1.907dacp-3f, -0x1.e35a5p-4f,
        -0x1.a225bep-5f, -0x1.ee27e8p-7f, -0x1.2f8082p-8f, -0x1.55fd3p-10f,
        -0x1.d6274ap-13f, -0x1.37e3fcp-16f, -0x1.9f2694p-20f, -0x1.5c6da2p-22f,
        -0x1.49214cp-23f, -0x1.b6da78p-3f, -0x1.446d12p-2f, -0x1.7e519p-2f,
    },
    {
        0x1.a43256p-5f, 0x1.bf5dcap-4f, 0x1.94089cp-4f, 0x1.17732cp-4f,
        0x1.07ddb8p-5f, 0x1.446088p-7f, 0x1.92bdcp-9f, 0x1.c75b08p-11f,
        0x1.38adc4p-13f, 0x1.9f72f6p-17f, 0x1.151b28p-20f, 0x1.7a6c22p-24f,
        -0x1.555246p-2f, -0x1.126728p-2f, -0x1.6204d6p-3f, -0x1.15a0cap-4f,
    },
    {
        0x1.78127ep-4f, 0x1.a7ee0cp-7f, -0x1.65d66p-6f, -0x1.90690ep-6f,
        -0x1.d5eb28p-7f, -0x1.3a593ep-8f, -0x1.8f0946p-10f, -0x1.c4ed7cp-12f,
        -0x1.399386p-14f, -0x1.a1c1f6p-18f, -0x1.1f60bcp-21f, 0x1.582368p-20f,
        -0x1.55c494p-12f, 0x1.0e09ccp-3f, 0x1.59d86p-3f, 0x1.437174p-3f,
    },
    {
        -0x1.01ddfcp-4f, -0x1.394dc2p-5f, -0x1.22ccfep-7f, 0x1.747318p-9f,
        0x1.1ca768p-8f, 0x1.dbe3ep-10f, 0x1.3d745ep-11f, 0x1.6d055ep-13f,
        0x1.09c816p-15f, 0x1.5e12dap-19f, 0x1.ce53e4p-23f, 0x1.4c866cp-27f,
        0x1.198424p-3f, 0x1.533bbap-4f, 0x1.e0863p-7f, -0x1.3a44cap-5f,
    },
    {
        0x1.3cfc0ap-9f, 0x1.370f56p-6f, 0x1.5d948ep-7f, 0x1.7aa63ap-9f,
        -0x1.2e1f6p-11f, -0x1.166d94p-11f, -0x1.92ba6cp-13f, -0x1.1331eep-14f,
        -0x1.4ef768p-17f, -0x1.b289bcp-21f, -0x1.5e9274p-25f, -0x1.2c9018p-19f,
        -0x1.8c887cp-6f, -0x1.d7df8ep-5f, -0x1.285a82p-4f, -0x1.6715f6p-5f,
    },
}};

/* erf t, 0 <= t <= 4; in the first interval less t; within 2^-28.4 */
static const pop_curve POP_CURVE_ERF = {3.7421875f, 1.0f, 4.0f, 21, {
    {
        0x1.53a414p-2f, 0x1.e0915ep-2f, 0x1.348268p-1f, 0x1.78088ep-1f,
        0x1.e1a748p-1f, 0x1.33fbbap+0f, 0x1.787bfep+0f, 0x1.bbdba8p+0f,
        0x1.121672p+1f, 0x1.56f6eap+1f, 0x1.9a96b6p+1f, 0x1.df39d2p+1f,
        0x0p+0f, 0x1.a0bc2p-4f, 0x1.55dcbap-3f, 0x1.dc133ep-3f,
    },
    {
        0x1.71a452p-2f, 0x1.f8f34ep-2f, 0x1.36341cp-1f, 0x1.66ee0ep-1f,
        0x1.a21ad4p-1f, 0x1.d27f8p-1f, 0x1.ecc712p-1f, 0x1.f8b9e4p-1f,
        0x1.febd9ep-1f, 0x1.ffec32p-1f, 0x1.ffff4p-1f, 0x1.fffffcp-1f,
        0x0p+0f, 0x1.d49e1p-4f, 0x1.7e3276p-3f, 0x1.07d606p-2f,
    },
    {
        0x1.02c5a6p+0f, 0x1.cf866p-1f, 0x1.91d4b8p-1f, 0x1.50df58p-1f,
        0x1.dce368p-2f, 0x1.0fc14cp-2f, 0x1.09c3e8p-3f, 0x1.c966dcp-5f,
        0x1.79333ep-7f, 0x1.c2f478p-11f, 0x1.41c846p-15f, 0x1.ef4cfep-21f,
        0x1.06eba8p-3f, 0x1.1de3ecp+0f, 0x1.18ed6p+0f, 0x1.11ab8p+0f,
    },
    {
        -0x1.57519ep-2f, -0x1.b31194p-2f, -0x1.e440ap-2f, -0x1.eed34ap-2f,
        -0x1.c09f7p-2f, -0x1.46f00ap-2f, -0x1.86d878p-3f, -0x1.8c86cp-4f,
        -0x1.93d986p-6f, -0x1.2e124ep-9f, -0x1.02062p-13f, -0x1.cf7044p-19f,
        0x1.367d0cp-22f, -0x1.d164bap-4f, -0x1.77267cp-3f, -0x1.fcef68p-3f,
    },
    {
        -0x1.0d1132p-2f, -0x1.59c764p-3f, -0x1.257e3cp-4f, 0x1.1b684cp-6f,
        0x1.e98ceap-4f, 0x1.574366p-3f, 0x1.269ba4p-3f, 0x1.7e1c38p-4f,
        0x1.00e2dap-5f, 0x1.f59e8cp-9f, 0x1.058504p-12f, 0x1.15046p-17f,
        -0x1.812d9ap-2f, -0x1.752f6cp-2f, -0x1.61914cp-2f, -0x1.458c92p-2f,
    },
    {
        0x1.3e3f6ap-3f, 0x1.7332e2p-3f, 0x1.6f093cp-3f, 0x1.3cdc7p-3f,
        0x1.6fe784p-4f, 0x1.6fb3acp-8f, -0x1.59605p-5f, -0x1.8e20dep-5f,
        -0x1.9f8db8p-6f, -0x1.1dbb7cp-8f, -0x1.790c3cp-12f, -0x1.e04136p-17f,
        0x1.ad804p-11f, 0x1.d8a168p-5f, 0x1.728c22p-4f, 0x1.ea587cp-4f,
    },
    {
        0x1.987f8ep-5f, 0x1.f6940cp-7f, -0x1.3e3804p-6f, -0x1.b368cep-5f,
        -0x1.1b2f62p-4f, -0x1.b0f6f2p-5f, -0x1.2e2aep-6f, 0x1.6a7756p-8f,
        0x1.8c5342p-7f, 0x1.d90b06p-9f, 0x1.b07e94p-12f, 0x1.602d08p-16f,
        0x1.9cbfd4p-4f, 0x1.aaa69ep-6f, 0x1.04badep-7f, 0x1.305cap-3f,
    },
    {
        -0x1.903f0ep-5f, -0x1.b79df6p-5f, -0x1.4d087ep-5f, -0x1.be9a1cp-6f,
        -0x1.4ff55ep-9f, 0x1.3d31c2p-6f, 0x1.4989a6p-6f, 0x1.3919bep-7f,
        -0x1.d0c2fep-10f, -0x1.08fab8p-9f, -0x1.5e463ap-12f, -0x1.74cfeep-16f,
        0x1.00126ep-4f, -0x1.2c426p+0f, -0x1.d28b28p-2f, -0x1.3d023ep-3f,
    },
}};

/* t P(Z > t), 0 <= t <= 17.4; in the first four intervals less t / 2, in the last sixteen over e^(-t^2/2); within 2^-28.2 */
static const pop_wide_curve POP_CURVE_GELU = {1.71484375f, 2.0f, 17.4f, 20, {
    {
        0x0p+0f, 0x1.c66a22p-3f, 0x1.7414fep-2f, 0x1.0458a4p-1f,
        0x1.4ed0c4p-1f, 0x1.9ba9b2p-1f, 0x1.e4cd44p-1f, 0x1.18874ap+0f,
        0x1.50c19ap+0f, 0x1.99e2d8p+0f, 0x1.e4e498p+0f, 0x1.185778p+1f,
        0x1.3d778cp+1f, 0x1.62c77p+1f, 0x1.881054p+1f, 0x1.adb1dcp+1f,
        0x1.e4874ap+1f, 0x1.17858ap+2f, 0x1.3c99f4p+2f, 0x1.631c92p+2f,
        0x1.8804aap+2f, 0x1.acbbc6p+2f, 0x1.d2a21ep+2f, 0x1.f6f74p+2f,
        0x1.17a9b2p+3f, 0x1.3cef16p+3f, 0x1.61b306p+3f, 0x1.8845fap+3f,
        0x1.ad066ap+3f, 0x1.d2dfeep+3f, 0x1.f74ebap+3f, 0x1.0de646p+4f,
    },
    {
        0x0p+0f, -0x1.3f2ba8p-6f, -0x1.a62fc4p-5f, -0x1.94fbccp-4f,
        0x1.579f7ap-3f, 0x1.5aeee4p-3f, 0x1.4d40ep-3f, 0x1.328444p-3f,
        0x1.fb71aep-4f, 0x1.66923cp-4f, 0x1.c39c24p-5f, 0x1.ff8ecap-6f,
        0x1.0ac892p-6f, 0x1.fa742ep-8f, 0x1.b7e07ap-9f, 0x1.5ab52ap-10f,
        0x1.8089ap-2f, 0x1.85cf9ap-2f, 0x1.898a64p-2f, 0x1.8c5e4p-2f,
        0x1.8e669ep-2f, 0x1.8ff69ap-2f, 0x1.913ad6p-2f, 0x1.923348p-2f,
        0x1.935da2p-2f, 0x1.94793ep-2f, 0x1.954084p-2f, 0x1.95d9d6p-2f,
        0x1.9647f6p-2f, 0x1.969fcap-2f, 0x1.96e29ap-2f, 0x1.97189cp-2f,
    },
    {
        -0x1.a9c338p-39f, -0x1.64af9p-3f, -0x1.1c316p-2f, -0x1.7da56ap-2f,
        0x1.782142p-5f, -0x1.5fe8fep-6f, -0x1.1c5e6ap-4f, -0x1.a6e456p-4f,
        -0x1.038f9ap-3f, -0x1.f6301ap-4f, -0x1.8b91bcp-4f, -0x1.0aca2ap-4f,
        -0x1.40583ep-5f, -0x1.573f6ap-6f, -0x1.4b9548p-7f, -0x1.1fabb2p-8f,
        0x1.5a0e5cp-7f, 0x1.e36afap-8f, 0x1.5ddfdp-8f, 0x1.01b6e2p-8f,
        0x1.8a074ap-9f, 0x1.33d6bep-9f, 0x1.e60fe8p-10f, 0x1.897ecap-10f,
        0x1.22e3f8p-10f, 0x1.961594p-11f, 0x1.276ffep-11f, 0x1.b4e4d6p-12f,
        0x1.500a8ap-12f, 0x1.060eb8p-12f, 0x1.a3eccep-13f, 0x1.556f2ap-13f,
    },
    {
        -0x1.988454p-2f, -0x1.84c5aep-2f, -0x1.652c7p-2f, -0x1.38910cp-2f,
        -0x1.0357d6p-2f, -0x1.90393ap-3f, -0x1.1fe9c2p-3f, -0x1.6635dap-4f,
        -0x1.72e11ep-6f, 0x1.ff2ffp-6f, 0x1.af7f18p-5f, 0x1.9f41c8p-5f,
        0x1.391cb8p-5f, 0x1.8ead8cp-6f, 0x1.bad402p-7f, 0x1.b0ced6p-8f,
        -0x1.c17166p-9f, -0x1.1b05acp-9f, -0x1.745a1p-10f, -0x1.f45116p-11f,
        -0x1.605792p-11f, -0x1.fe165cp-12f, -0x1.760ee6p-12f, -0x1.1b57b8p-12f,
        -0x1.7ca0bep-13f, -0x1.d99646p-14f, -0x1.36f1dap-14f, -0x1.a0e20ep-15f,
        -0x1.266e8cp-15f, -0x1.a747fap-16f, -0x1.3b5f9ap-16f, -0x1.df268ep-17f,
    },
    {
        0x1.83bf16p-21f, 0x1.d1dc5p-5f, 0x1.665cp-4f, 0x1.c74e3ep-4f,
        0x1.00df16p-3f, 0x1.09c1ep-3f, 0x1.ff28c6p-4f, 0x1.ca46bp-4f,
        0x1.564798p-4f, 0x1.5bb082p-5f, 0x1.1b048ep-7f, -0x1.597eccp-7f,
        -0x1.0c4d6ap-6f, -0x1.dd6518p-7f, -0x1.49a2d4p-7f, -0x1.7bd16cp-8f,
        0x1.f405bap-11f, 0x1.1d876cp-11f, 0x1.5702cp-12f, 0x1.a60aa2p-13f,
        0x1.12a28ap-13f, 0x1.714bf2p-14f, 0x1.f82e9p-15f, 0x1.65eep-15f,
        0x1.b5d748p-16f, 0x1.e69538p-17f, 0x1.20c5a8p-17f, 0x1.5f819ap-18f,
        0x1.c82988p-19f, 0x1.2e9442p-19f, 0x1.a37a62p-20f, 0x1.29d8d8p-20f,
    },
    {
        0x1.10498ap-4f, 0x1.e5ec46p-5f, 0x1.8a5a76p-5f, 0x1.0e0648p-5f,
        0x1.05e3f6p-6f, -0x1.53cb32p-10f, -0x1.006e02p-6f, -0x1.bae11p-6f,
        -0x1.2568e2p-5f, -0x1.16a9dap-5f, -0x1.7554a4p-6f, -0x1.450dd6p-7f,
        -0x1.eaf05ap-11f, 0x1.b03d9cp-9f, 0x1.076966p-8f, 0x1.958bd8p-9f,
        -0x1.f87076p-13f, -0x1.06438cp-13f, -0x1.20956ap-14f, -0x1.45a642p-15f,
        -0x1.8a7f8ep-16f, -0x1.f2c438p-17f, -0x1.39ba2p-17f, -0x1.a1dc44p-18f,
        -0x1.d3be7cp-19f, -0x1.d2dbbep-20f, -0x1.f76302p-21f, -0x1.28f5c8p-21f,
        -0x1.25a72ep-22f, -0x1.a87748p-23f, -0x1.0cde9ep-23f, -0x1.5ec078p-24f,
    },
    {
        0x1.af22cap-14f, -0x1.97405ap-7f, -0x1.4acbbep-6f, -0x1.788c48p-6f,
        -0x1.7f66e6p-6f, -0x1.658492p-6f, -0x1.20c988p-6f, -0x1.8ce8eep-7f,
        -0x1.d85d9p-9f, 0x1.59f9d8p-8f, 0x1.25dd8ep-7f, 0x1.fd1aa4p-8f,
        0x1.26c678p-8f, 0x1.86b7c2p-10f, -0x1.0794b8p-12f, -0x1.b445e8p-11f,
        0x1.dc4f96p-15f, 0x1.c4e11ep-16f, 0x1.ccaddep-17f, 0x1.d6acc6p-18f,
        0x1.091c96p-18f, 0x1.377dep-19f, 0x1.6e64acp-20f, 0x1.db874cp-21f,
        0x1.db6ad6p-22f, 0x1.a9cd46p-23f, 0x1.a11462p-24f, 0x1.a3ff64p-25f,
        0x1.c451cp-26f, 0x1.f64026p-27f, 0x1.39e7d6p-27f, 0x1.8a5decp-28f,
    },
    {
        -0x1.4e59cep-7f, -0x1.e02eaep-8f, -0x1.a9c3ep-8f, -0x1.0f36aep-9f,
        -0x1.fdd2cep-10f, 0x1.076988p-8f, 0x1.efd2d8p-8f, 0x1.f060aep-8f,
        0x1.a3055p-8f, 0x1.f1c8c4p-9f, 0x1.cb7504p-12f, -0x1.9b0a76p-10f,
        -0x1.fe4742p-10f, -0x1.695bap-10f, -0x1.43b4a4p-11f, -0x1.761a5ep-14f,
        -0x1.8b3f0ep-17f, -0x1.89fa32p-18f, -0x1.bf95e6p-19f, -0x1.24d53ap-19f,
        -0x1.c85924p-22f, 0x1.e170a6p-21f, -0x1.0dc8p-22f, -0x1.a6457ep-23f,
        -0x1.89d526p-25f, -0x1.9cd22ap-28f, 0x1.0854ap-28f, 0x1.25f9c8p-24f,
        -0x1.1df662p-24f, 0x1.20f8dp-26f, 0x1.bcd8cp-28f, 0x1.2772a4p-29f,
    },
}};

/* t / (1 + e^t), 0 <= t <= 8; in the first interval less t / 2; within 2^-27.3 */
static const pop_curve POP_CURVE_SILU = {0.12451171875f, 1.0f, 8.0f, 19, {
    {
        0x0p+0f, 0x1.7c5454p-1f, 0x1.406868p+0f, 0x1.c3c7c8p+0f,
        0x1.228e8ep+1f, 0x1.60aeaep+1f, 0x1.a25252p+1f, 0x1.e0ececp+1f,
        0x1.106a6ap+2f, 0x1.31b4b4p+2f, 0x1.510a0ap+2f, 0x1.712c2cp+2f,
        0x1.91cbccp+2f, 0x1.b18b8cp+2f, 0x1.d26a6ap+2f, 0x1.f04696p+2f,
    },
    {
        0x0p+0f, 0x1.ea735cp-3f, 0x1.1d10f2p-2f, 0x1.0830dcp-2f,
        0x1.b35346p-3f, 0x1.515e7ep-3f, 0x1.eb045ep-4f, 0x1.5f1f9ep-4f,
        0x1.e741d4p-5f, 0x1.46e2bep-5f, 0x1.bb2f96p-6f, 0x1.266bp-6f,
        0x1.816b3p-7f, 0x1.fad572p-8f, 0x1.466622p-8f, 0x1.b3b9dcp-9f,
    },
    {
        -0x1.a51a58p-29f, 0x1.47e8acp-3f, 0x1.868a24p-8f, -0x1.2f7578p-4f,
        -0x1.95926cp-4f, -0x1.858374p-4f, -0x1.42c336p-4f, -0x1.f351bep-5f,
        -0x1.6df978p-5f, -0x1.ff712p-6f, -0x1.64c0dep-6f, -0x1.e4ebaap-7f,
        -0x1.434e26p-7f, -0x1.af6faep-8f, -0x1.196376p-8f, -0x1.7b5906p-9f,
    },
    {
        -0x1.ffffcap-3f, -0x1.845d3p-3f, -0x1.ce4cf4p-4f, -0x1.8014a8p-5f,
        -0x1.af79bcp-8f, 0x1.883708p-7f, 0x1.29ae5ap-6f, 0x1.21a118p-6f,
        0x1.e28b8cp-7f, 0x1.6e0766p-7f, 0x1.0ceeb2p-7f, 0x1.7bd178p-8f,
        0x1.04b3d8p-8f, 0x1.63a1ep-9f, 0x1.d86eep-10f, 0x1.42d4bep-10f,
    },
    {
        -0x1.2163d8p-17f, 0x1.82ae7ap-5f, 0x1.946b6cp-5f, 0x1.1e4644p-5f,
        0x1.32e29cp-6f, 0x1.f49158p-8f, 0x1.3be9e2p-10f, -0x1.7d6486p-10f,
        -0x1.29857p-9f, -0x1.1fa0bep-9f, -0x1.dccf36p-10f, -0x1.6b9232p-10f,
        -0x1.06fe8p-10f, -0x1.7424d4p-11f, -0x1.fcad0ep-12f, -0x1.62be7ep-12f,
    },
    {
        0x1.566dc4p-6f, 0x1.e615c2p-8f, -0x1.19a3fep-8f, -0x1.1524bap-7f,
        -0x1.cedeb6p-8f, -0x1.1dbd4cp-8f, -0x1.0f9bfep-9f, -0x1.986238p-11f,
        -0x1.040c52p-13f, 0x1.3668bep-13f, 0x1.c557e8p-13f, 0x1.b067aep-13f,
        0x1.60d01cp-13f, 0x1.0c62f4p-13f, 0x1.820994p-14f, 0x1.166c26p-14f,
    },
    {
        -0x1.d646ecp-13f, -0x1.6354aep-8f, -0x1.a5c4a4p-9f, -0x1.03641cp-12f,
        0x1.0cb5e6p-10f, 0x1.16379ep-10f, 0x1.6ff9ecp-11f, 0x1.8cd218p-12f,
        0x1.61b1fap-13f, 0x1.d7f112p-15f, 0x1.099322p-17f, -0x1.8423bp-17f,
        -0x1.0e67acp-16f, -0x1.ffa0eap-17f, -0x1.a08434p-17f, -0x1.441bc2p-17f,
    },
    {
        -0x1.d4c946p-10f, 0x1.bbc02cp-14f, 0x1.1c6524p-10f, 0x1.7ffde4p-11f,
        0x1.52be42p-13f, -0x1.6399bep-14f, -0x1.0d58bap-13f, -0x1.7a7294p-14f,
        -0x1.a37c92p-15f, -0x1.95b1cp-16f, -0x1.6250dep-17f, -0x1.d8340ep-19f,
        -0x1.8e4ceap-22f, 0x1.a95be6p-21f, 0x1.1f0d8p-20f, 0x1.21e074p-20f,
    },
}};

/* t / (1 + e^2z), z = sqrt(2 / pi) (t + 0.044715 t^3), 0 <= t <= 3.5; in the first two intervals less t / 2; within 2^-28.7 */
static const pop_curve POP_CURVE_GELU_TANH = {0.28515625f, 1.0f, 3.5f, 19, {
    {
        0x0p+0f, 0x1.510a86p-2f, 0x1.1773bap-1f, 0x1.877e4p-1f,
        0x1.fb2694p-1f, 0x1.3542a2p+0f, 0x1.6c42a2p+0f, 0x1.a408c4p+0f,
        0x1.dce232p+0f, 0x1.0a9f9p+1f, 0x1.26188cp+1f, 0x1.4347e4p+1f,
        0x1.5eb038p+1f, 0x1.7aacb6p+1f, 0x1.96c0ep+1f, 0x1.b2f996p+1f,
    },
    {
        0x0p+0f, -0x1.5bbb4ap-5f, 0x1.471e7ep-3f, 0x1.5c2dbap-3f,
        0x1.46d35cp-3f, 0x1.1949p-3f, 0x1.c3f35ap-4f, 0x1.538d66p-4f,
        0x1.dced1p-5f, 0x1.3c705cp-5f, 0x1.90b90ep-6f, 0x1.cf37bcp-7f,
        0x1.04883ap-7f, 0x1.0fd29cp-8f, 0x1.08a0d4p-9f, 0x1.de16aap-11f,
    },
    {
        -0x1.f029b2p-35f, -0x1.03660ep-2f, 0x1.aeaa6cp-4f, -0x1.539d0ep-8f,
        -0x1.4a4b44p-4f, -0x1.e5bf7p-4f, -0x1.082b76p-3f, -0x1.ed502ap-4f,
        -0x1.9c3abp-4f, -0x1.3c120cp-4f, -0x1.c5225p-5f, -0x1.272786p-5f,
        -0x1.706e7p-6f, -0x1.a8e9bep-7f, -0x1.c7351p-8f, -0x1.c2e3aep-9f,
    },
    {
        -0x1.988452p-2f, -0x1.6dd5fep-2f, -0x1.2b38c4p-2f, -0x1.af0fdcp-3f,
        -0x1.fdf69cp-4f, -0x1.ae5c2ap-5f, 0x1.d4e39p-11f, 0x1.1f413ep-5f,
        0x1.a42d1cp-5f, 0x1.b61aap-5f, 0x1.841652p-5f, 0x1.2df8eep-5f,
        0x1.b23ac4p-6f, 0x1.1cae94p-6f, 0x1.56f8c4p-7f, 0x1.7b0e7p-8f,
    },
    {
        -0x1.e88952p-21f, 0x1.4b980cp-4f, 0x1.daa536p-4f, 0x1.08decap-3f,
        0x1.efcd92p-4f, 0x1.900bfcp-4f, 0x1.1501cp-4f, 0x1.333cd6p-5f,
        0x1.97b79cp-7f, -0x1.232586p-8f, -0x1.b6850cp-7f, -0x1.0d414ap-6f,
        -0x1.f71756p-7f, -0x1.92ac5cp-7f, -0x1.1dbd5p-7f, -0x1.6c2258p-8f,
    },
    {
        0x1.11c214p-4f, 0x1.a3a0e2p-5f, 0x1.d035b8p-6f, 0x1.5114dep-9f,
        -0x1.4243a2p-6f, -0x1.0a288cp-5f, -0x1.26e52ep-5f, -0x1.074352p-5f,
        -0x1.86d4a2p-6f, -0x1.dc5ddep-7f, -0x1.b02f32p-8f, -0x1.20ddecp-11f,
        0x1.629bcap-9f, 0x1.072db4p-8f, 0x1.02a4c8p-8f, 0x1.9dff44p-9f,
    },
    {
        -0x1.fb4ea2p-14f, -0x1.1d9ecep-6f, -0x1.7e3fcep-6f, -0x1.714596p-6f,
        -0x1.067f04p-6f, -0x1.e977bep-8f, 0x1.87fa22p-12f, 0x1.87c65ep-8f,
        0x1.119ae2p-7f, 0x1.0ad034p-7f, 0x1.a7bd88p-8f, 0x1.0bb7bep-8f,
        0x1.09c7eap-9f, 0x1.ea6a0ep-12f, -0x1.ef5ee6p-12f, -0x1.c4b2e8p-11f,
    },
    {
        -0x1.429836p-7f, -0x1.9260aap-8f, -0x1.0db3a8p-9f, 0x1.61e2d6p-9f,
        0x1.992d24p-8f, 0x1.b929dep-8f, 0x1.69078ap-8f, 0x1.75e41ap-9f,
        0x1.b9cebp-11f, -0x1.eb01e8p-11f, -0x1.a2ed76p-10f, -0x1.c2d878p-10f,
        -0x1.77c5c6p-10f, -0x1.ffd82cp-11f, -0x1.09b122p-11f, -0x1.ee121p-14f,
    },
}};

/* 1 / (1 + e^t), 0 <= t <= 10.4; within 2^-28.1 */
static const pop_curve POP_CURVE_SIGMOID = {0.09609375f, 1.0f, 10.4f, 19, {
    {
        0x1.435556p-2f, 0x1.f1c3a4p-1f, 0x1.a3f064p+0f, 0x1.24976ap+1f,
        0x1.757ef6p+1f, 0x1.ca432p+1f, 0x1.0f166p+2f, 0x1.3769ap+2f,
        0x1.625598p+2f, 0x1.8bcc3ap+2f, 0x1.b58d02p+2f, 0x1.de0b3p+2f,
        0x1.03d46cp+3f, 0x1.1970c8p+3f, 0x1.2dd8d8p+3f, 0x1.42e1e4p+3f,
    },
    {
        0x1.afd4e6p-2f, 0x1.19079ap-2f, 0x1.4c9ee4p-3f, 0x1.7a0f7ap-4f,
        0x1.a4094ap-5f, 0x1.bc4124p-6f, 0x1.d35c6p-7f, 0x1.f52032p-8f,
        0x1.013964p-8f, 0x1.0da4ep-9f, 0x1.192344p-10f, 0x1.2ace42p-11f,
        0x1.37fdp-12f, 0x1.3da41ep-13f, 0x1.4fc618p-14f, 0x1.5c05fp-15f,
    },
    {
        -0x1.f37282p-3f, -0x1.97ce5ep-3f, -0x1.169954p-3f, -0x1.572a5ep-4f,
        -0x1.8e7fd6p-5f, -0x1.b0355cp-6f, -0x1.ccb1ecp-7f, -0x1.f14b3cp-8f,
        -0x1.0036fp-8f, -0x1.0d16dep-9f, -0x1.18d614p-10f, -0x1.2aa2aap-11f,
        -0x1.37e53cp-12f, -0x1.3d97cep-13f, -0x1.4fbf36p-14f, -0x1.5c023ep-15f,
    },
    {
        0x1.38cfd6p-6f, 0x1.6fef1cp-5f, 0x1.7834cap-5f, 0x1.17d134p-5f,
        0x1.65a25ap-6f, 0x1.98c50ap-7f, 0x1.bf8db2p-8f, 0x1.e9b04ep-9f,
        0x1.fc682p-10f, 0x1.0bfb6ep-10f, 0x1.183bdep-11f, 0x1.2a4b82p-12f,
        0x1.37b5b6p-13f, 0x1.3d7f2ep-14f, 0x1.4fb172p-15f, 0x1.5bfadap-16f,
    },
    {
        0x1.34741ep-6f, 0x1.a7a18cp-8f, -0x1.111012p-8f, -0x1.c71bc6p-8f,
        -0x1.78425ep-8f, -0x1.e511cep-9f, -0x1.1938dcp-9f, -0x1.3c6eaep-10f,
        -0x1.4d9a8ep-11f, -0x1.625d58p-12f, -0x1.740a78p-13f, -0x1.8cd082p-14f,
        -0x1.9f1e28p-15f, -0x1.a710aap-16f, -0x1.bf7238p-17f, -0x1.cfe464p-18f,
    },
    {
        -0x1.91cf66p-9f, -0x1.54cef2p-8f, -0x1.3d4c78p-9f, -0x1.ff6bf8p-17f,
        0x1.8cddbap-11f, 0x1.747b8ep-11f, 0x1.f00ea6p-12f, 0x1.28b9f6p-12f,
        0x1.430682p-13f, 0x1.5c8406p-14f, 0x1.70d97ep-15f, 0x1.8b05c8p-16f,
        0x1.9e2944p-17f, 0x1.a689f8p-18f, 0x1.bf2c42p-19f, 0x1.cfbb6p-20f,
    },
    {
        -0x1.ae881cp-10f, 0x1.62d4dp-12f, 0x1.fa21c6p-11f, 0x1.ee007ap-12f,
        0x1.35392ap-14f, -0x1.0917a8p-14f, -0x1.271c58p-14f, -0x1.9e457ap-15f,
        -0x1.e4ccdcp-16f, -0x1.0e4734p-16f, -0x1.22c06ep-17f, -0x1.3a8cecp-18f,
        -0x1.4aa812p-19f, -0x1.530a34p-20f, -0x1.666838p-21f, -0x1.7436e2p-22f,
    },
    {
        0x1.af3156p-12f, 0x1.ad498ap-12f, -0x1.d747aap-15f, -0x1.29bd9ep-13f,
        -0x1.08babap-14f, -0x1.84a362p-17f, 0x1.1d95dap-18f, 0x1.8d5b68p-18f,
        0x1.194facp-18f, 0x1.4dbcb6p-19f, 0x1.74b4b4p-20f, 0x1.980602p-21f,
        0x1.ab842ap-22f, 0x1.c55788p-23f, 0x1.d9519p-24f, 0x1.f1f0ecp-25f,
    },
}};

#endif
