/* Operations on elements of 1, 2, 4 and 8 bytes as they are: plain loops, of which the compiler makes vectors.
 *
 * An output may lie exactly where an input does, so that no iteration waits for another: what `ivdep` says. */
#ifndef POP_ELEMENTWISE_WORDS_H
#define POP_ELEMENTWISE_WORDS_H
#include "kernels/elementwise/call.h"

#define POP_EACH_WORD(X) X(8, uint8_t) X(16, uint16_t) X(32, uint32_t) X(64, uint64_t)

/* a where c is true, else b */
#define POP_SELECT_KERNEL(bits, type)                                                                               \
    static void pop_select_##bits(const void *const *in, void *const *out, int64_t n)                               \
    {                                                                                                               \
        const type *a = (const type *)in[0], *b = (const type *)in[1];                                              \
        const uint8_t *c = (const uint8_t *)in[2];                                                                  \
        type *to = (type *)out[0];                                                                                  \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) to[i] = c[i] ? a[i] : b[i];                            \
    }
POP_EACH_WORD(POP_SELECT_KERNEL)

#define POP_WORDS_8 "bool|int8|uint8"
#define POP_WORDS_16 "float16|bfloat16|int16|uint16"
#define POP_WORDS_32 "float32|int32|uint32"
#define POP_WORDS_64 "int64|uint64"
#define POP_SELECT_ROW(bits, type)                                                                                  \
    POP_ELEMENTWISE_ROW("select", POP_WORDS_##bits "," POP_WORDS_##bits ",bool->" POP_WORDS_##bits, "select_" #bits, \
                        pop_select_##bits)
#endif
