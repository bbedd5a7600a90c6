/* Memory of result arrays, through NumPy's own door for it (NEP 49): an array made while this handler is set owns its
 * memory as any other does, and gives it back here when it dies. It goes on a shelf for the next result of its size
 * class. Results are not temporary memory: memory.h does not count them.
 *
 * Nothing here needs the GIL or Python at all: an array may die on any thread, in a forked child, or at exit. NumPy says
 * how large an array was, which gives the class; malloc_usable_size says whether that can be true. */
#ifndef POP_RESULTS_H
#define POP_RESULTS_H
#include <malloc.h>
#include <pthread.h>
#include <string.h>

#include "shelf.h"

/* From as many bytes on malloc maps fresh pages and gives back the end of its heap; what is smaller it keeps. To set the
 * handler costs a quarter of a microsecond. */
#define POP_LEAST_RESULT (128ll << 10)

#ifdef __SANITIZE_ADDRESS__
#define POP_SANITIZED 1
#else
#define POP_SANITIZED 0
#endif

static struct pop_results_state {
    pthread_mutex_t lock;
    int64_t reused, fresh; /* buffers handed out since the start, from the shelf and not */
    pop_shelf shelf;
} pop_results = {PTHREAD_MUTEX_INITIALIZER};

static void pop_results_lock(void) { pthread_mutex_lock(&pop_results.lock); }
static void pop_results_unlock(void) { pthread_mutex_unlock(&pop_results.lock); }

/* The bytes of a buffer for an array of so many: up to the next eighth between two powers of two, so that at most an
 * eighth is spare. To the byte where the sanitizer watches the end. */
static inline int64_t pop_result_class(size_t bytes)
{
    if (POP_SANITIZED || bytes < POP_LEAST_RESULT) return bytes ? (int64_t)bytes : 1;
    int64_t step = 1ll << (60 - __builtin_clzll(bytes));
    return ((int64_t)bytes + step - 1) & -step;
}

static void *pop_results_malloc(void *context, size_t size)
{
    if (size > INT64_MAX / 4) return NULL;
    int64_t bytes = pop_result_class(size);
    pop_results_lock();
    void *block = pop_shelf_take(&pop_results.shelf, bytes, bytes);
    *(block ? &pop_results.reused : &pop_results.fresh) += 1;
    int will_be_kept = bytes <= pop_results.shelf.limit;
    pop_results_unlock();
    return block ? block : pop_fresh(bytes, will_be_kept);
}

static void *pop_results_calloc(void *context, size_t items, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(items, size, &bytes)) return NULL;
    void *block = pop_results_malloc(context, bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

static void pop_results_free(void *context, void *block, size_t size)
{
    void *leaving[POP_SHELF_PLACES + 1];
    int n = 1;
    int64_t bytes = pop_result_class(size);
    if (!block) return;
    leaving[0] = block;
    if (bytes >= POP_LEAST_RESULT && (size_t)bytes <= malloc_usable_size(block)) {
        pop_results_lock();
        n = pop_shelf_put(&pop_results.shelf, block, bytes, leaving);
        pop_results_unlock();
    }
    while (n) free(leaving[--n]);
}

/* Always moves, for how much of the buffer was in use is not told. */
static void *pop_results_realloc(void *context, void *block, size_t size)
{
    size_t room = block ? malloc_usable_size(block) : 0;
    void *moved = pop_results_malloc(context, size);
    if (!moved) return size <= room ? block : NULL;
    memcpy(moved, block, size < room ? size : room);
    free(block);
    return moved;
}

/* Keep at most `bytes` from now on; what is more is freed, the oldest first. */
static void pop_results_limit(int64_t bytes)
{
    void *leaving[POP_SHELF_PLACES];
    int n = 0;
    pop_results_lock();
    pop_results.shelf.limit = bytes;
    while (pop_results.shelf.bytes > bytes) leaving[n++] = pop_shelf_remove(&pop_results.shelf, 0).at;
    pop_results_unlock();
    while (n) free(leaving[--n]);
}
#endif
