/* Temporary memory, counted. Every byte that an operation needs beside its operands comes from here, so that a test can
 * hold the bytes really taken against availableMemoryProportion. Freed blocks are kept for the next call of the same
 * size: fresh pages would cost more than many of the operations. */
#ifndef POP_MEMORY_H
#define POP_MEMORY_H
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define POP_KEPT_BLOCKS 16
#ifdef __SANITIZE_ADDRESS__
#define POP_KEPT_BYTES 0ll /* a block used after it was given back must be seen */
#else
#define POP_KEPT_BYTES (64ll << 20)
#endif
#define POP_HUGE_PAGE (2ll << 20)

static struct pop_memory_state {
    pthread_mutex_t lock;
    int64_t in_use, peak, kept_bytes;
    int kept;
    struct { void *block; int64_t bytes; } keep[POP_KEPT_BLOCKS]; /* oldest first */
} pop_memory = {PTHREAD_MUTEX_INITIALIZER};

static void pop_memory_lock(void) { pthread_mutex_lock(&pop_memory.lock); }
static void pop_memory_unlock(void) { pthread_mutex_unlock(&pop_memory.lock); }

static inline int64_t pop_rounded(int64_t bytes) { return (bytes + 63) & ~63ll; }

static void *pop_memory_kept(int64_t bytes)
{
    for (int i = pop_memory.kept - 1; i >= 0; i--) {
        if (pop_memory.keep[i].bytes != bytes) continue;
        void *block = pop_memory.keep[i].block;
        for (int j = i + 1; j < pop_memory.kept; j++) pop_memory.keep[j - 1] = pop_memory.keep[j];
        pop_memory.kept--;
        pop_memory.kept_bytes -= bytes;
        return block;
    }
    return NULL;
}

/* At least `bytes`, aligned to a cache line, or NULL. Zero bytes give NULL too. */
static void *pop_memory_take(int64_t bytes)
{
    if (bytes <= 0 || bytes > INT64_MAX - POP_HUGE_PAGE) return NULL;
    bytes = pop_rounded(bytes);
    pthread_mutex_lock(&pop_memory.lock);
    void *block = pop_memory_kept(bytes);
    pthread_mutex_unlock(&pop_memory.lock);
    if (!block) {
        block = aligned_alloc(bytes >= POP_HUGE_PAGE ? POP_HUGE_PAGE : 64,
                              bytes >= POP_HUGE_PAGE ? (bytes + POP_HUGE_PAGE - 1) & -POP_HUGE_PAGE : bytes);
        if (!block) return NULL;
        if (bytes >= POP_HUGE_PAGE) madvise(block, (size_t)bytes, MADV_HUGEPAGE);
    }
    pthread_mutex_lock(&pop_memory.lock);
    pop_memory.in_use += bytes;
    if (pop_memory.in_use > pop_memory.peak) pop_memory.peak = pop_memory.in_use;
    pthread_mutex_unlock(&pop_memory.lock);
    return block;
}

static void pop_memory_give(void *block, int64_t bytes)
{
    void *victims[POP_KEPT_BLOCKS + 1];
    int n = 0;
    if (!block) return;
    bytes = pop_rounded(bytes);
    pthread_mutex_lock(&pop_memory.lock);
    pop_memory.in_use -= bytes;
    if (bytes > POP_KEPT_BYTES) {
        victims[n++] = block;
    } else {
        while (pop_memory.kept == POP_KEPT_BLOCKS || pop_memory.kept_bytes + bytes > POP_KEPT_BYTES) {
            int64_t oldest = pop_memory.keep[0].bytes;
            victims[n++] = pop_memory.keep[0].block;
            for (int j = 1; j < pop_memory.kept; j++) pop_memory.keep[j - 1] = pop_memory.keep[j];
            pop_memory.kept--;
            pop_memory.kept_bytes -= oldest;
        }
        pop_memory.keep[pop_memory.kept].block = block;
        pop_memory.keep[pop_memory.kept++].bytes = bytes;
        pop_memory.kept_bytes += bytes;
    }
    pthread_mutex_unlock(&pop_memory.lock);
    while (n) free(victims[--n]);
}
#endif
