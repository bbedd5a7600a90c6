/* The cast family: decoders (a format to FP32) and encoders (FP32 to a format). The strided driver puts one of each
 * together, by way of a chunk of FP32 numbers that stays in L1, so n formats take 2 n kernels and not n * n. */
#ifndef POP_KERNELS_CAST_H
#define POP_KERNELS_CAST_H
#include "formats/codec.h"
#include "kernels/random/aox.h"

#define POP_RECORDS "records/cast.def"
#include "records/structs.h"

typedef void (*pop_decoder)(const pop_cast *cast, const void *codes, float *numbers, int64_t n);
/* `words`: a random word for each element, read for POP_STOCHASTIC only. */
typedef void (*pop_encoder)(const pop_cast *cast, const float *numbers, void *codes, int64_t n, const uint32_t *words);
/* The random words of elements first .. first + n - 1, which depend on nothing but the seed and `first`. */
typedef void (*pop_drawer)(pop_aox *stream, int64_t first, int64_t n, uint32_t *words);
/* Codes to memory past the caches: see kernels/stream.h. */
typedef void (*pop_streamer)(char *to, const char *codes, int64_t bytes);
/* Values of rows, over all their elements: see kernels/cast/spread.h. */
typedef void (*pop_spreader)(int64_t bytes, char *lanes, int64_t rows, int64_t row, int64_t rest, int64_t n);

/* How many of n numbers lie before the first vector that does not cross a cache line. NumPy's arrays begin in the middle
 * of one, and then every 64-byte store would cost two. */
POP_INLINE int pop_unaligned_head(const float *numbers, int64_t n)
{
    int head = (int)((0 - (uintptr_t)numbers) / 4 % POP_LANES);
    return n >= 8 * POP_LANES ? head : 0;
}
#endif
