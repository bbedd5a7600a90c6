/* Functions of 16-bit codes from a table of all 65,536 results, which the kernel of the arithmetic fills on the first call
 * of many elements: so the bits are that kernel's. A lookup takes as long for every function, and less than arithmetic of
 * a dozen steps while the codes that occur fit the first-level cache: of BF16 those of one octave and sign take 256 bytes. */
#ifndef POP_ELEMENTWISE_CODE_TABLE_H
#define POP_ELEMENTWISE_CODE_TABLE_H
#include "kernels/abi.h"
#include "kernels/elementwise/call.h"

#define POP_TABLE_LEAST 4096 /* elements: fewer might spend the time on bringing lines of the table */

enum { POP_TABLE_NONE, POP_TABLE_BEGUN, POP_TABLE_READY };

typedef struct pop_code_table {
    int state; /* who has begun fills it; nobody waits for it */
    uint16_t result[1 << 16] __attribute__((aligned(64)));
} pop_code_table;

static __attribute__((noinline)) void pop_code_table_fill(pop_code_table *t, pop_elementwise function)
{
    int none = POP_TABLE_NONE;
    const void *in[1] = {t->result};
    void *out[1] = {t->result};
    if (!__atomic_compare_exchange_n(&t->state, &none, POP_TABLE_BEGUN, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    for (int i = 0; i < 1 << 16; i++) t->result[i] = (uint16_t)i;
    function(in, out, 1 << 16);
    __atomic_store_n(&t->state, POP_TABLE_READY, __ATOMIC_RELEASE);
}

POP_INLINE uint16_t pop_code_looked_up(const uint16_t *table, const char *from, int64_t i)
{
    uint16_t code;
    memcpy(&code, from + 2 * i, sizeof code);
    return table[code];
}

/* Eight at a time, in two halves that do not wait for each other: a third faster than one by one, and than gathering. */
static void pop_code_table_look_up(const uint16_t *table, const char *from, char *to, int64_t n)
{
    typedef uint16_t eight __attribute__((vector_size(16)));
#define POP_LOOKED_UP(k) pop_code_looked_up(table, from, i + (k))
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const eight low = {POP_LOOKED_UP(0), POP_LOOKED_UP(1), POP_LOOKED_UP(2), POP_LOOKED_UP(3)};
        const eight high = {0, 0, 0, 0, POP_LOOKED_UP(4), POP_LOOKED_UP(5), POP_LOOKED_UP(6), POP_LOOKED_UP(7)};
        const eight both = low | high;
        memcpy(to + 2 * i, &both, sizeof both);
    }
    for (; i < n; i++) {
        const uint16_t result = POP_LOOKED_UP(0);
        memcpy(to + 2 * i, &result, sizeof result);
    }
#undef POP_LOOKED_UP
}

static void pop_by_code_table(pop_code_table *t, pop_elementwise function, const void *const *in, void *const *out, int64_t n)
{
    if (n >= POP_TABLE_LEAST) {
        if (__atomic_load_n(&t->state, __ATOMIC_ACQUIRE) == POP_TABLE_NONE) pop_code_table_fill(t, function);
        if (__atomic_load_n(&t->state, __ATOMIC_ACQUIRE) == POP_TABLE_READY) {
            pop_code_table_look_up(t->result, (const char *)in[0], (char *)out[0], n);
            return;
        }
    }
    function(in, out, n);
}
#endif
