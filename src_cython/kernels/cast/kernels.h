/* The registration lines of the cast family. Formats of users serve by their width alone. */
#include "kernels/cast/decode.h"
#include "kernels/cast/encode.h"

static void pop_draw_words(pop_aox *stream, int64_t first, int64_t n, uint32_t *words)
{
    pop_aox_read(stream, first, n, words);
}

#define POP_CAST_KERNEL(op, formats, function)                                                                      \
    {op, formats, #function, POP_FUNCTION(function), {1, 1, 1}, {4 * POP_LANES, 1, 1}, POP_CONSISTENT}

static const pop_kernel POP_CAST_KERNELS[] = {
    POP_CAST_KERNEL("decode", "float64->float32", pop_decode_f64),
    POP_CAST_KERNEL("decode", "float16->float32", pop_decode_f16),
    POP_CAST_KERNEL("decode", "bfloat16->float32", pop_decode_bf16),
    POP_CAST_KERNEL("decode", "f143->float32", pop_decode_f143),
    POP_CAST_KERNEL("decode", "f152->float32", pop_decode_f152),
    POP_CAST_KERNEL("decode", "e4m3->float32", pop_decode_e4m3),
    POP_CAST_KERNEL("decode", "e5m2->float32", pop_decode_e5m2),
    POP_CAST_KERNEL("decode", "any->float32", pop_decode_any),
    POP_CAST_KERNEL("encode", "float32->float16", pop_encode_f16),
    POP_CAST_KERNEL("encode", "float32->bfloat16", pop_encode_bf16),
    POP_CAST_KERNEL("encode", "float32->f143", pop_encode_f143),
    POP_CAST_KERNEL("encode", "float32->f152", pop_encode_f152),
    POP_CAST_KERNEL("encode", "float32->e4m3", pop_encode_e4m3),
    POP_CAST_KERNEL("encode", "float32->e5m2", pop_encode_e5m2),
    POP_CAST_KERNEL("encode", "float32->any", pop_encode_any),
    POP_CAST_KERNEL("draw", "uint32", pop_draw_words),
};

enum { POP_CAST_KERNEL_COUNT = sizeof POP_CAST_KERNELS / sizeof *POP_CAST_KERNELS };
