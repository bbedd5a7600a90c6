/* Written by make_power.py, which says what these are. */
#define POP_POWER_LEAST 0x3f360000
static const float POP_POWER_INVERSE[32] = {
    0x1.680000p+0f, 0x1.600000p+0f, 0x1.580000p+0f, 0x1.500000p+0f, 0x1.480000p+0f, 0x1.400000p+0f,
    0x1.380000p+0f, 0x1.380000p+0f, 0x1.300000p+0f, 0x1.280000p+0f, 0x1.280000p+0f, 0x1.200000p+0f,
    0x1.180000p+0f, 0x1.180000p+0f, 0x1.100000p+0f, 0x1.100000p+0f, 0x1.080000p+0f, 0x1.080000p+0f,
    0x1.000000p+0f, 0x1.f00000p-1f, 0x1.e00000p-1f, 0x1.d80000p-1f, 0x1.c80000p-1f, 0x1.b80000p-1f,
    0x1.b00000p-1f, 0x1.a80000p-1f, 0x1.980000p-1f, 0x1.900000p-1f, 0x1.880000p-1f, 0x1.800000p-1f,
    0x1.780000p-1f, 0x1.700000p-1f,
};
static const float POP_POWER_HIGH[32] = {
    -0x1.f7a800p-2f, -0x1.d67400p-2f, -0x1.b48000p-2f, -0x1.91bc00p-2f, -0x1.6e2400p-2f, -0x1.49a800p-2f,
    -0x1.244000p-2f, -0x1.244000p-2f, -0x1.fbc000p-3f, -0x1.acf800p-3f, -0x1.acf800p-3f, -0x1.5c0000p-3f,
    -0x1.08c800p-3f, -0x1.08c800p-3f, -0x1.664000p-4f, -0x1.664000p-4f, -0x1.6ba000p-5f, -0x1.6ba000p-5f,
    -0x0.0p+0f, 0x1.774000p-5f, 0x1.7d6000p-4f, 0x1.e0b000p-4f, 0x1.564000p-3f, 0x1.bfc800p-3f,
    0x1.f60000p-3f, 0x1.169c00p-2f, 0x1.4f7000p-2f, 0x1.6cb000p-2f, 0x1.8a8800p-2f, 0x1.a90000p-2f,
    0x1.c81800p-2f, 0x1.e7e000p-2f,
};
static const float POP_POWER_LOW[32] = {
    -0x1.5a32c2p-20f, -0x1.3e032ep-18f, 0x1.408c78p-18f, 0x1.5db83ap-20f, 0x1.e32630p-18f, 0x1.ed0cbap-20f,
    -0x1.eac382p-20f, -0x1.eac382p-20f, -0x1.6b9026p-19f, 0x1.0e9258p-18f, 0x1.0e9258p-18f, -0x1.a39fbep-19f,
    0x1.3b992cp-18f, 0x1.3b992cp-18f, 0x1.20a6dep-21f, 0x1.20a6dep-21f, -0x1.a6eb1ep-18f, -0x1.a6eb1ep-18f,
    0x0.0p+0f, -0x1.acd89ap-19f, 0x1.25b3eep-22f, 0x1.ae8f30p-20f, -0x1.1eb002p-18f, -0x1.858000p-19f,
    -0x1.3ab7cep-18f, 0x1.4d8fc6p-24f, -0x1.134c4ep-20f, 0x1.ed0cbap-19f, 0x1.80abfcp-18f, -0x1.a39fbep-20f,
    0x1.dc2d46p-18f, -0x1.40358ep-19f,
};
static const float POP_POWER_REST[4] = {
    0x1.555554p-2f, -0x1.fffffep-3f, 0x1.99c1e8p-3f, -0x1.55816cp-3f,
};
static const float POP_POWER_SHORT_LOG[32] = {
    -0x1.f7a856p-2f, -0x1.d6753ep-2f, -0x1.b47ec0p-2f, -0x1.91bba8p-2f, -0x1.6e221cp-2f, -0x1.49a784p-2f,
    -0x1.24407ap-2f, -0x1.24407ap-2f, -0x1.fbc16cp-3f, -0x1.acf5e2p-3f, -0x1.acf5e2p-3f, -0x1.5c01a4p-3f,
    -0x1.08c588p-3f, -0x1.08c588p-3f, -0x1.663f70p-4f, -0x1.663f70p-4f, -0x1.6bad38p-5f, -0x1.6bad38p-5f,
    -0x0.0p+0f, 0x1.77394cp-5f, 0x1.7d604ap-4f, 0x1.e0b1aep-4f, 0x1.563dc2p-3f, 0x1.bfc67ap-3f,
    0x1.f5fd8ap-3f, 0x1.169c06p-2f, 0x1.4f6fbcp-2f, 0x1.6cb0f6p-2f, 0x1.8a8980p-2f, 0x1.a8ff98p-2f,
    0x1.c819dcp-2f, 0x1.e7df60p-2f,
};
static const float POP_POWER_SHORT_REST[4] = {
    0x1.715476p+0f, -0x1.715476p-1f, 0x1.ec9952p-2f, -0x1.717edep-2f,
};
static const float POP_POWER_ROOT[16] = {
    0x1.000000p+0f, 0x1.fb5586p-1f, 0x1.f72b84p-1f, 0x1.f387a6p-1f, 0x1.f06fe0p-1f, 0x1.edea64p-1f,
    0x1.ebfdaep-1f, 0x1.eab07ep-1f, 0x1.ea09e6p-1f, 0x1.ea1148p-1f, 0x1.eace54p-1f, 0x1.ec4918p-1f,
    0x1.ee89fap-1f, 0x1.f199bep-1f, 0x1.f5818ep-1f, 0x1.fa4afap-1f,
};
static const float POP_POWER_LOST[16] = {
    0x0.0p+0f, 0x1.8d96d4p-25f, -0x1.9c0c22p-27f, 0x1.964904p-25f, 0x1.125002p-25f, 0x1.370be4p-25f,
    -0x1.0a3550p-25f, -0x1.00d8acp-27f, 0x1.26055cp-26f, -0x1.05cb44p-25f, 0x1.67a1cap-28f, 0x1.a3b5e4p-28f,
    -0x1.f9c304p-27f, -0x1.6961b4p-28f, -0x1.a5217cp-28f, 0x1.61428ep-28f,
};
static const float POP_POWER_CURVE[3] = {
    0x1.62e430p-1f, 0x1.ebff92p-3f, 0x1.c6b348p-5f,
};
