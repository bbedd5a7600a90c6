/* The registration lines of the cast family. Formats of users serve by their width alone. What widens is called as decoders
 * are. */
#include "kernels/cast/decode.h"
#include "kernels/cast/encode.h"
#include "kernels/cast/spread.h"
#include "kernels/cast/widen.h"
#include "kernels/stream.h"

static void pop_draw_words(pop_aox *stream, int64_t first, int64_t n, uint32_t *words)
{
    pop_aox_read(stream, first, n, words);
}

#define POP_CAST_KERNEL(op, formats, function)                                                                      \
    {op, formats, #function, POP_FUNCTION(function), {1, 1, 1}, {4 * POP_LANES, 1, 1}, POP_CONSISTENT}

#define POP_CAST_ROWS_4(function, name)
#define POP_CAST_ROWS_2(function, name)                                                                             \
    POP_CAST_KERNEL("decode", name "->float32", pop_decode_##function),                                             \
    POP_CAST_KERNEL("encode", "float32->" name, pop_encode_##function),
#define POP_CAST_ROWS_1 POP_CAST_ROWS_2
#define POP_WIDEN_ROW(suffix, to, from, type, formats) POP_CAST_KERNEL("widen", formats, pop_widen_##suffix##_##to),
#define POP_CAST_ROWS(bytes, constant, function, name, ...) POP_CAST_ROWS_##bytes(function, name)

static const pop_kernel POP_CAST_KERNELS[] = {
    POP_CAST_KERNEL("decode", "float64->float32", pop_decode_f64),
    POP_FORMATS(POP_CAST_ROWS)
    POP_CAST_ROWS_2(any, "any")
    POP_TO_FLOAT(POP_WIDEN_ROW)
    POP_TO_WIDER(POP_WIDEN_ROW)
    POP_TRUTH_TO(POP_WIDEN_ROW)
    POP_CAST_KERNEL("draw", "uint32", pop_draw_words),
    POP_CAST_KERNEL("stream", "any", pop_stream),
    POP_CAST_KERNEL("spread", "any", pop_spread),
};
