/* Streaming stores: for results that pass the last-level cache, where an ordinary store first reads the line that it
 * overwrites. Kernels fill a chunk in L1 and `pop_stream` takes it to memory past the caches. Measured on Zen 5, 128 MiB of
 * float32 numbers: 32 GB/s by ordinary stores, 43 streamed, which is all that memory takes, from one core or from two. */
#ifndef POP_KERNELS_STREAM_H
#define POP_KERNELS_STREAM_H
#include <stdint.h>
#include <string.h>

#include "kernels/abi.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* How many bytes make streaming pay: all who decide it ask here, Python's planners by way of kernels/records.py.
 *   BYTES   of input and output, each once: what is written pushes what will be read out of the cache; thrice if nothing is read
 *   TILES   the same where a tile of results reads inputs that neighbours read again: these lose the cache at half as many
 *   ROWS    of results whose inputs are read many times meanwhile: more than a core's own cache holds beside them */
#ifdef POP_SMALL_CACHES /* of tests: arrays of a few hundred bytes take the ways of large ones */
#define POP_CACHE 512ll
#define POP_STREAM_ROWS 128ll
#define POP_COPY_FROM 64
#else
#define POP_CACHE (32ll << 20) /* the last level: what is larger lies in memory, which is no question of streaming alone */
#define POP_STREAM_ROWS (1ll << 20)
#define POP_COPY_FROM 2048
#endif
#define POP_STREAM_BYTES(has_input) ((has_input) ? POP_CACHE : 3 * POP_CACHE)
#define POP_STREAM_TILES (POP_CACHE / 2)

/* Copy `bytes` to memory that nothing reads soon. The thread calls `pop_stream_end` before others may read it. */
static inline void pop_stream(char *to, const char *from, int64_t bytes)
{
#if defined(__x86_64__)
    int64_t head = (int64_t)(-(uintptr_t)to % 64), i = head;
    if (bytes >= 128) {
        memcpy(to, from, (size_t)head);
        for (; i + 64 <= bytes; i += 64) {
#if POP_LEVEL >= POP_LEVEL_AVX512
            _mm512_stream_si512((void *)(to + i), _mm512_loadu_si512(from + i));
#else
            for (int j = 0; j < 64; j += 16)
                _mm_stream_si128((__m128i *)(to + i + j), _mm_loadu_si128((const __m128i *)(from + i + j)));
#endif
        }
        to += i, from += i, bytes -= i;
    }
#endif
    memcpy(to, from, (size_t)bytes);
}

/* Copy bytes that do not overlap. From 2 KiB on the C library takes the string instruction, which on AMD's cores moves a byte a cycle where
 * `to` begins within 64 bytes behind `from`, pages not counted; of much more it goes past the caches. */
static inline void pop_copy(char *to, const char *from, int64_t bytes)
{
#if defined(__x86_64__)
    typedef char part __attribute__((vector_size(32), aligned(1), may_alias));
    if (bytes >= POP_COPY_FROM && bytes < 1 << 20) {
        const int64_t head = 32 - (int64_t)((uintptr_t)to % 32); /* lines begin where whole parts do */
        memcpy(to, from, 32);
        for (to += head, from += head, bytes -= head; bytes >= 64; bytes -= 64, to += 64, from += 64) {
            const part a = *(const part *)from, b = *(const part *)(from + 32);
            *(part *)to = a, *(part *)(to + 32) = b;
            __asm__ volatile("" ::: "memory"); /* or the compiler makes of it that very call */
        }
    }
#endif
    memcpy(to, from, (size_t)bytes);
}

static inline void pop_stream_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}
#endif
