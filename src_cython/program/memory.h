/* Temporary memory, counted. Every byte that an operation needs beside its operands and its result comes from here, so
 * that a test can hold the bytes really taken against availableMemoryProportion. Freed blocks are kept for the next call
 * of about that size: a network's layers have sizes of their own (shelf.h). What is counted is what was asked for. */
#ifndef POP_MEMORY_H
#define POP_MEMORY_H
#include <malloc.h>
#include <pthread.h>

#include "shelf.h"

#ifdef __SANITIZE_ADDRESS__
#define POP_KEPT_BYTES 0ll /* a block used after it was given back must be seen */
#else
#define POP_KEPT_BYTES (64ll << 20)
#endif
/* From here on a block lies in huge pages, the last one whole: in pages of 4 KiB the panels of a product outgrow the first
 * level of the TLB (4 % of the time of a square of 4096). */
#define POP_WHOLE_PAGES (256ll << 10)

static struct pop_memory_state {
    pthread_mutex_t lock;
    int64_t in_use, peak;
    pop_shelf shelf;
} pop_memory = {PTHREAD_MUTEX_INITIALIZER, 0, 0, {POP_KEPT_BYTES}};

static void pop_memory_lock(void) { pthread_mutex_lock(&pop_memory.lock); }
static void pop_memory_unlock(void) { pthread_mutex_unlock(&pop_memory.lock); }

static inline int64_t pop_rounded(int64_t bytes) { return (bytes + 63) & ~63ll; }

/* The bytes of a fresh block for so many, a multiple of 64; and of one that malloc made room for, with what it had to spare. */
static inline int64_t pop_memory_class(int64_t bytes)
{
    return bytes < POP_WHOLE_PAGES || bytes > POP_KEPT_BYTES ? bytes : (bytes + POP_HUGE_PAGE - 1) & -POP_HUGE_PAGE;
}
static inline int64_t pop_memory_room(int64_t usable)
{
    if (!POP_KEPT_BYTES || usable < POP_WHOLE_PAGES) return usable & -64;
    return usable < POP_HUGE_PAGE ? POP_WHOLE_PAGES - 64 : usable & -POP_HUGE_PAGE;
}

/* At least `bytes`, aligned to a cache line, or NULL. Zero bytes give NULL too. */
static void *pop_memory_take(int64_t bytes)
{
    if (bytes <= 0 || bytes > INT64_MAX / 4) return NULL;
    bytes = pop_rounded(bytes);
    const int64_t made = pop_memory_class(bytes);
    pop_memory_lock();
    void *block = pop_shelf_take(&pop_memory.shelf, made, 2 * made);
    pop_memory_unlock();
    if (!block && !(block = pop_fresh(made, made <= POP_KEPT_BYTES))) return NULL;
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
    const int64_t room = pop_memory_room((int64_t)malloc_usable_size(block)); /* it may have been made for more than `bytes` */
    pop_memory_lock();
    pop_memory.in_use -= pop_rounded(bytes);
    int n = pop_shelf_put(&pop_memory.shelf, block, room, leaving);
    pop_memory_unlock();
    while (n) free(leaving[--n]);
}
#endif
