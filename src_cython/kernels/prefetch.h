/* Prefetches of what is read or written soon, where the hardware does not see it coming. Places are numbers: they may be beyond an
 * array. */
#ifndef POP_KERNELS_PREFETCH_H
#define POP_KERNELS_PREFETCH_H
#include <stdint.h>

#include "kernels/abi.h"

#define POP_CACHE_LINE 64

POP_INLINE uintptr_t pop_beyond(const void *p, int64_t bytes) { return (uintptr_t)p + (uintptr_t)bytes; }

/* A line, and all lines of so many bytes that begin one. */
#define POP_PREFETCHES(name, writes, locality)                                                                             \
    POP_INLINE void name(uintptr_t place) { __builtin_prefetch((const void *)place, writes, locality); }                   \
    POP_INLINE void name##_lines(uintptr_t place, int64_t bytes)                                                           \
    {                                                                                                                      \
        for (int64_t i = 0; i < bytes; i += POP_CACHE_LINE) name(place + (uintptr_t)i);                                    \
    }
POP_PREFETCHES(pop_prefetch, 0, 3)
POP_PREFETCHES(pop_prefetch_to_write, 1, 3)
POP_PREFETCHES(pop_prefetch_once, 0, 0) /* to be read once */
POP_PREFETCHES(pop_prefetch_l2, 0, 2) /* where the first-level cache is full */
POP_PREFETCHES(pop_prefetch_l2_to_write, 1, 2)
#endif
