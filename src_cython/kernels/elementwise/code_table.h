/* Functions of 16-bit codes from a table of all 65,536 results, which the kernel of the arithmetic fills on the first call
 * of many elements: so the bits are that kernel's. A lookup takes as long for every function, and less than arithmetic of
 * a dozen steps while the codes that occur fit the first-level cache: those of one octave and sign take 256 bytes of BF16,
 * 2 KiB of FP16. */
#ifndef POP_ELEMENTWISE_CODE_TABLE_H
#define POP_ELEMENTWISE_CODE_TABLE_H
#include "kernels/abi.h"
#include "kernels/elementwise/call.h"

#define POP_TABLE_LEAST 4096 /* elements: fewer might spend the time on bringing lines of the table */

enum { POP_TABLE_NONE, POP_TABLE_BEGUN, POP_TABLE_READY };

typedef struct pop_code_table {
    int state; /* who has begun fills it; nobody waits for it */
    uint16_t result[(1 << 16) + 2] __attribute__((aligned(64))); /* a lookup takes a word, of which the next result is cut off */
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

typedef uint32_t pop_four_words __attribute__((vector_size(16)));
typedef uint16_t pop_eight_codes __attribute__((vector_size(16)));

POP_INLINE pop_eight_codes pop_code_looked_up(const uint16_t *table, uint64_t code)
{
    uint32_t word;
    memcpy(&word, table + code, sizeof word);
    return (pop_eight_codes)(pop_four_words){word};
}

/* Four codes of a word, to the first four places. */
POP_INLINE pop_four_words pop_codes_looked_up(const uint16_t *table, const char *from)
{
    uint64_t codes;
    memcpy(&codes, from, sizeof codes);
    const pop_eight_codes a = pop_code_looked_up(table, codes & 0xffff), b = pop_code_looked_up(table, (uint32_t)codes >> 16);
    const pop_eight_codes c = pop_code_looked_up(table, codes >> 32 & 0xffff), d = pop_code_looked_up(table, codes >> 48);
    const pop_eight_codes zipped = {0, 8, 1, 9, 2, 10, 3, 11};
    return __builtin_shuffle((pop_four_words)__builtin_shuffle(a, b, zipped), (pop_four_words)__builtin_shuffle(c, d, zipped),
                             (pop_four_words){0, 4, 1, 5});
}

/* Eight at a time, read four to a word and joined in pairs: a third faster than one by one, and than gathering. */
static void pop_code_table_look_up(const uint16_t *table, const char *from, char *to, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const pop_four_words low = pop_codes_looked_up(table, from + 2 * i), high = pop_codes_looked_up(table, from + 2 * i + 8);
        const pop_four_words both = __builtin_shuffle(low, high, (pop_four_words){0, 1, 4, 5});
        memcpy(to + 2 * i, &both, sizeof both);
    }
    for (; i < n; i++) {
        uint16_t code;
        memcpy(&code, from + 2 * i, sizeof code);
        memcpy(to + 2 * i, table + code, sizeof code);
    }
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
