/* Temporary memory, counted. Every byte that an operation needs beside its operands and its result comes from here, so
 * that a test can hold the bytes really taken against availableMemoryProportion. Freed blocks are kept for the next call
 * of the same size (shelf.h). */
#ifndef POP_MEMORY_H
#define POP_MEMORY_H
#include <pthread.h>

#include "shelf.h"

#ifdef __SANITIZE_ADDRESS__
#define POP_KEPT_BYTES 0ll /* a block used after it was given back must be seen */
#else
#define POP_KEPT_BYTES (64ll << 20)
#endif
/* From here on a block lies in huge pages, the last one whole: in pages of 4 KiB the panels of a product outgrow the first
 * level of the TLB (4 % of the time of a square of 4096). What is counted is what was asked for. */
#define POP_WHOLE_PAGES (256ll << 10)

static struct pop_memory_state {
    pthread_mutex_t lock;
    int64_t in_use, peak;
    pop_shelf shelf;
} pop_memory = {PTHREAD_MUTEX_INITIALIZER, 0, 0, {POP_KEPT_BYTES}};

static void pop_memory_lock(void) { pthread_mutex_lock(&pop_memory.lock); }
static void pop_memory_unlock(void) { pthread_mutex_unlock(&pop_memory.lock); }

static inline int64_t pop_rounded(int64_t bytes) { return (bytes + 63) & ~63ll; }

/* At least `bytes`, aligned to a cache line, or NULL. Zero bytes give NULL too. */
static void *pop_memory_take(int64_t bytes)
{
    if (bytes <= 0 || bytes > INT64_MAX - POP_HUGE_PAGE) return NULL;
    bytes = pop_rounded(bytes);
    pop_memory_lock();
    void *block = pop_shelf_take(&pop_memory.shelf, bytes);
    pop_memory_unlock();
    if (!block) {
        int kept = bytes <= POP_KEPT_BYTES, whole = kept && bytes >= POP_WHOLE_PAGES;
        block = pop_fresh(whole ? (bytes + POP_HUGE_PAGE - 1) & -POP_HUGE_PAGE : bytes, kept);
        if (!block) return NULL;
    }
    pop_memory_lock();
    pop_memory.in_use += bytes;
    if (pop_memory.in_use > pop_memory.peak) pop_memory.peak = pop_memory.in_use;
    pop_memory_unlock();
    return block;
}

static void pop_memory_give(void *block, int64_t bytes)
{
    void *leaving[POP_SHELF_PLACES + 1];
    if (!block) return;
    bytes = pop_rounded(bytes);
    pop_memory_lock();
    pop_memory.in_use -= bytes;
    int n = pop_shelf_put(&pop_memory.shelf, block, bytes, leaving);
    pop_memory_unlock();
    while (n) free(leaving[--n]);
}
#endif
