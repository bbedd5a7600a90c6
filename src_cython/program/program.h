/* What a vertex sees. A program is a list of loops, most of one turn; a loop is a list of compute sets; a compute set is a
 * list of segments; a segment is one vertex (a compiled function) and a table of work items that share its layout. Items
 * name operands by number and hold offsets, never addresses, so that one program serves every call and every thread. */
#ifndef POP_PROGRAM_H
#define POP_PROGRAM_H
#include <stdint.h>

typedef struct pop_tile {
    char *const *operands; /* base addresses: the call's operands, then the program's workspace */
    char *scratch;         /* this thread's own temporary memory, aligned to a cache line */
    int64_t scratch_bytes;
    int32_t thread;
    int32_t turn; /* of the loop, from 0 */
} pop_tile;

typedef void (*pop_vertex)(const void *item, const pop_tile *tile);

typedef struct pop_segment {
    pop_vertex vertex;
    const char *items;
    int64_t item_bytes;
    const int64_t *shares; /* first item of each thread's share, then the end of the last */
    int64_t turn_shares;   /* from the shares of a turn to those of the next; 0 where all turns have the same items */
} pop_segment;
#endif
