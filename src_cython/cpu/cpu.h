/* What this CPU can run: CPUID leaves, the vector state that the operating system saves (XCR0), and the permission for
 * AMX tile data, which Linux grants per process. Everything is asked once, at import; nothing here is hot.
 *
 * A level needs every bit that its compiler flags in setup.py allow, for the compiler may use any of them, and a
 * virtual machine can hide single ones: POP_CPU_NEEDS lists them. */
#ifndef POP_CPU_H
#define POP_CPU_H
#include <stdint.h>
#include <unistd.h>

enum {
    POP_CPU_AVX2 = 1u << 0,        /* the psABI's x86-64-v3: FMA, F16C, BMI1, BMI2, LZCNT, MOVBE, ... */
    POP_CPU_AVX512 = 1u << 1,      /* the psABI's x86-64-v4: F, BW, CD, DQ, VL */
    POP_CPU_AVX512_BF16 = 1u << 2, /* and VBMI, VBMI2, VNNI */
    POP_CPU_AMX = 1u << 3          /* TILE and BF16, enabled by the system; permission is asked separately */
};

/* Words that tell what a CPU can run: registers of CPUID leaves, and the low half of XCR0. */
enum { POP_1_ECX, POP_7_EBX, POP_7_ECX, POP_7_EDX, POP_7_1_EAX, POP_EXTENDED_ECX, POP_XCR0, POP_CPU_WORDS };

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>

static const struct {
    uint32_t feature, words[POP_CPU_WORDS];
} POP_CPU_NEEDS[] = { /* each beside those before it */
    {POP_CPU_AVX2,
     {[POP_1_ECX] = bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 | bit_SSE4_2 | bit_MOVBE | bit_POPCNT |
                    bit_OSXSAVE | bit_AVX | bit_F16C | bit_FMA,
      [POP_7_EBX] = bit_AVX2 | bit_BMI | bit_BMI2,
      [POP_EXTENDED_ECX] = bit_LAHF_LM | bit_LZCNT,
      [POP_XCR0] = 0x6}},
    {POP_CPU_AVX512,
     {[POP_7_EBX] = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL, [POP_XCR0] = 0xe0}},
    {POP_CPU_AVX512_BF16,
     {[POP_7_ECX] = bit_AVX512VBMI | bit_AVX512VBMI2 | bit_AVX512VNNI, [POP_7_1_EAX] = 1u << 5}},
    {POP_CPU_AMX, {[POP_7_EDX] = 1u << 22 | 1u << 24, [POP_XCR0] = 0x60000}},
};

static void pop_cpu_words(uint32_t words[POP_CPU_WORDS])
{
    uint32_t unused, high;
    for (int i = 0; i < POP_CPU_WORDS; i++) words[i] = 0;
    if (!__get_cpuid(1, &unused, &unused, &words[POP_1_ECX], &unused)) return;
    __get_cpuid_count(7, 0, &unused, &words[POP_7_EBX], &words[POP_7_ECX], &words[POP_7_EDX]);
    __get_cpuid_count(7, 1, &words[POP_7_1_EAX], &unused, &unused, &unused);
    __get_cpuid(0x80000001u, &unused, &unused, &words[POP_EXTENDED_ECX], &unused);
    if (words[POP_1_ECX] & bit_OSXSAVE)
        __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(words[POP_XCR0]), "=d"(high) : "c"(0)); /* xgetbv */
}

/* The features that such words allow. */
static uint32_t pop_cpu_features(const uint32_t words[POP_CPU_WORDS])
{
    uint32_t found = 0;
    for (unsigned i = 0; i < sizeof POP_CPU_NEEDS / sizeof *POP_CPU_NEEDS; i++) {
        for (int k = 0; k < POP_CPU_WORDS; k++)
            if (POP_CPU_NEEDS[i].words[k] & ~words[k]) return found;
        found |= POP_CPU_NEEDS[i].feature;
    }
    return found;
}

/* 1 when the system lets this process use AMX tile data (XCOMP component 18). */
static int pop_request_amx(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

static void pop_cpu_brand(char text[49])
{
    uint32_t *words = (uint32_t *)text, a, b, c, d;
    text[0] = text[48] = 0;
    if (!__get_cpuid(0x80000000u, &a, &b, &c, &d) || a < 0x80000004u) return;
    for (uint32_t leaf = 0; leaf < 3; leaf++)
        __get_cpuid(0x80000002u + leaf, words + 4 * leaf, words + 4 * leaf + 1, words + 4 * leaf + 2,
                    words + 4 * leaf + 3);
}
/* How this thread rounds, and whether it flushes subnormals: MXCSR without its sticky exception flags. */
static uint32_t pop_float_control(void) { return __builtin_ia32_stmxcsr() & ~0x3fu; }
#else
static void pop_cpu_words(uint32_t words[POP_CPU_WORDS])
{
    for (int i = 0; i < POP_CPU_WORDS; i++) words[i] = 0;
}
static uint32_t pop_cpu_features(const uint32_t words[POP_CPU_WORDS]) { return (void)words, 0; }
static uint32_t pop_float_control(void) { return 0; }
static int pop_request_amx(void) { return 0; }
static void pop_cpu_brand(char text[49]) { text[0] = 0; }
#endif

/* Bytes of one core's cache of this level (1 stands for L1 data); 0 when the system does not say. */
static int64_t pop_cache_bytes(int level)
{
    long bytes = 0;
#ifdef _SC_LEVEL1_DCACHE_SIZE
    bytes = sysconf(level == 1 ? _SC_LEVEL1_DCACHE_SIZE : level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
#endif
    return bytes > 0 ? bytes : 0;
}
#endif
