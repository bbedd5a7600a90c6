/* What this CPU can run: CPUID leaves, the vector state that the operating system saves (XCR0), and the permission for
 * AMX tile data, which Linux grants per process. Everything is asked once, at import; nothing here is hot. */
#ifndef POP_CPU_H
#define POP_CPU_H
#include <stdint.h>
#include <unistd.h>

#include "cpu/levels.def"

#define POP_LEVEL_NAME(constant, name, ...) name,
static const char *const POP_LEVEL_NAMES[] = {POP_LEVELS(POP_LEVEL_NAME)};
enum { POP_LEVEL_COUNT = sizeof POP_LEVEL_NAMES / sizeof *POP_LEVEL_NAMES };

/* Words that tell what a CPU can run: registers of CPUID leaves, and the low half of XCR0. */
enum { POP_1_ECX, POP_7_EBX, POP_7_ECX, POP_7_EDX, POP_7_1_EAX, POP_EXTENDED_ECX, POP_XCR0, POP_CPU_WORDS };

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>

/* What each level needs beside those before it. */
#define POP_LEVEL_WORDS(constant, name, flags, ...) {__VA_ARGS__},
static const uint32_t POP_CPU_NEEDS[][POP_CPU_WORDS] = {POP_LEVELS(POP_LEVEL_WORDS)};

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

/* How many levels such words allow, from the lowest on. */
static int pop_cpu_levels(const uint32_t words[POP_CPU_WORDS])
{
    int level = 0;
    for (; level < POP_LEVEL_COUNT; level++)
        for (int k = 0; k < POP_CPU_WORDS; k++)
            if (POP_CPU_NEEDS[level][k] & ~words[k]) return level;
    return level;
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
static int pop_cpu_levels(const uint32_t words[POP_CPU_WORDS]) { return (void)words, 1; }
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
