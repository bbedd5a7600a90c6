/* What this CPU can run: CPUID leaves, the vector state that the operating system saves (XCR0), and the permission for
 * AMX tile data, which Linux grants per process. Everything is asked once, at import; nothing here is hot. */
#ifndef POP_CPU_H
#define POP_CPU_H
#include <stdint.h>
#include <unistd.h>

enum {
    POP_CPU_AVX2_FMA_F16C = 1u << 0,
    POP_CPU_AVX512 = 1u << 1,      /* F, BW, CD, DQ, VL: the psABI's x86-64-v4 */
    POP_CPU_AVX512_BF16 = 1u << 2, /* and VBMI, VBMI2, VNNI */
    POP_CPU_AVX512_FP16 = 1u << 3,
    POP_CPU_AMX = 1u << 4          /* TILE and BF16, enabled by the system; permission is asked separately */
};

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>

static uint64_t pop_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0)); /* xgetbv */
    return ((uint64_t)high << 32) | low;
}

static int pop_has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

static uint32_t pop_cpu_features(void)
{
    uint32_t a, b, c, d, b7, c7, d7, a71, unused, found = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return 0;
    if (!__get_cpuid_count(7, 1, &a71, &unused, &unused, &unused)) a71 = 0;
    uint64_t state = pop_xcr0();
    if ((state & 0x6) == 0x6 && pop_has(c, bit_AVX | bit_FMA | bit_F16C) && pop_has(b7, bit_AVX2 | bit_BMI2))
        found |= POP_CPU_AVX2_FMA_F16C;
    if (!(found & POP_CPU_AVX2_FMA_F16C) || (state & 0xe6) != 0xe6) return found;
    if (!pop_has(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL)) return found;
    found |= POP_CPU_AVX512;
    if (pop_has(c7, bit_AVX512VBMI | bit_AVX512VBMI2 | bit_AVX512VNNI) && (a71 & (1u << 5)))
        found |= POP_CPU_AVX512_BF16;
    if (d7 & (1u << 23)) found |= POP_CPU_AVX512_FP16;
    if ((state & 0x60000) == 0x60000 && pop_has(d7, (1u << 22) | (1u << 24))) found |= POP_CPU_AMX;
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
static uint32_t pop_cpu_features(void) { return 0; }
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
