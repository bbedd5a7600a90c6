/* Buffers that were given back and are kept for whoever needs one of about that size next: fresh pages cost more than
 * many of the operations that write them (measured: 60 to 250 ns for each 4 KiB).
 *
 * A shelf is bounded in bytes and in number; what was put there first goes first. It has no lock of its own: whoever
 * uses it holds the one of the state that it is part of, and frees what it evicts after letting that lock go. */
#ifndef POP_SHELF_H
#define POP_SHELF_H
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define POP_SHELF_PLACES 64
#define POP_PAGE 4096ll
#define POP_HUGE_PAGE (2ll << 20)

typedef struct pop_buffer {
    void *at;
    int64_t bytes;
} pop_buffer;

typedef struct pop_shelf {
    int64_t limit, bytes; /* the most that may be kept, and what is */
    int kept;
    pop_buffer place[POP_SHELF_PLACES]; /* in the order they were put there */
} pop_shelf;

/* Fresh memory for free(), or NULL: aligned to a page or, if smaller, to a cache line. What will be kept and holds a huge
 * page is aligned to one; what will not is not, for malloc must cut it from its heap each time. */
static void *pop_fresh(int64_t bytes, int will_be_kept)
{
    void *block;
    size_t alignment = bytes < POP_PAGE ? 64 : bytes >= POP_HUGE_PAGE && will_be_kept ? POP_HUGE_PAGE : POP_PAGE;
    if (bytes <= 0 || posix_memalign(&block, alignment, (size_t)bytes)) return NULL;
    if (bytes >= 2 * POP_HUGE_PAGE || alignment == POP_HUGE_PAGE) madvise(block, (size_t)bytes, MADV_HUGEPAGE);
    return block;
}

static pop_buffer pop_shelf_remove(pop_shelf *shelf, int i)
{
    pop_buffer buffer = shelf->place[i];
    for (int j = i + 1; j < shelf->kept; j++) shelf->place[j - 1] = shelf->place[j];
    shelf->kept--;
    shelf->bytes -= buffer.bytes;
    return buffer;
}

/* The smallest buffer of at least `bytes` and at most `most`, of several the last that came, which the caches may still
 * hold; NULL if there is none. */
static void *pop_shelf_take(pop_shelf *shelf, int64_t bytes, int64_t most)
{
    int best = -1;
    for (int i = shelf->kept - 1; i >= 0 && most >= bytes; i--)
        if (shelf->place[i].bytes >= bytes && shelf->place[i].bytes <= most) most = shelf->place[best = i].bytes - 1;
    return best < 0 ? NULL : pop_shelf_remove(shelf, best).at;
}

/* The buffer that must leave before one of `bytes` can come; NULL once there is room. */
static void *pop_shelf_evict(pop_shelf *shelf, int64_t bytes)
{
    if (!shelf->kept || (shelf->kept < POP_SHELF_PLACES && shelf->bytes <= shelf->limit - bytes)) return NULL;
    return pop_shelf_remove(shelf, 0).at;
}

/* Put a buffer on the shelf; what has to leave for it, or the buffer itself if it is too large, goes to `leaving`, which
 * has room for one more than POP_SHELF_PLACES. Returns how many leave. */
static int pop_shelf_put(pop_shelf *shelf, void *at, int64_t bytes, void **leaving)
{
    int n = 0;
    if (bytes > shelf->limit) {
        leaving[0] = at;
        return 1;
    }
    while ((leaving[n] = pop_shelf_evict(shelf, bytes))) n++;
    shelf->place[shelf->kept++] = (pop_buffer){at, bytes};
    shelf->bytes += bytes;
    return n;
}
#endif
