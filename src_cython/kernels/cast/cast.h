/* The cast family: decoders (a format to FP32), encoders (FP32 to a format) and the walk over strided arrays that
 * puts one of each together. A cast that needs both goes through a chunk of FP32 numbers that stays in L1, so n formats
 * take 2 n kernels and not n * n. */
#ifndef POP_KERNELS_CAST_H
#define POP_KERNELS_CAST_H
#include "kernels/convert.h"
#include "kernels/random/aox.h"

typedef struct pop_cast {
    pop_format from, to;
    int32_t rounding, overflow, random_bits;
} pop_cast;

typedef void (*pop_decoder)(const pop_cast *cast, const void *codes, float *numbers, int64_t n);
/* `words`: a random word for each element, read for POP_STOCHASTIC only. */
typedef void (*pop_encoder)(const pop_cast *cast, const float *numbers, void *codes, int64_t n, const uint32_t *words);
/* The random words of elements first .. first + n - 1, which depend on nothing but the seed and `first`. */
typedef void (*pop_drawer)(pop_aox *stream, int64_t first, int64_t n, uint32_t *words);

/* Keeps the noise of a cast apart from numbers drawn with the same seed. */
#define POP_CAST_SUBSTREAM 0xca57

/* How many of n numbers lie before the first vector that does not cross a cache line. NumPy's arrays begin in the middle
 * of one, and then every 64-byte store would cost two. */
POP_INLINE int pop_unaligned_head(const float *numbers, int64_t n)
{
    int head = (int)((0 - (uintptr_t)numbers) / 4 % POP_LANES);
    return n >= 8 * POP_LANES ? head : 0;
}

#define POP_CAST_DIMS 64
#define POP_CAST_CHUNK 1024

/* Scales of an array: extents of the blocks that share one, and how far apart their exponents lie. */
typedef struct pop_cast_scales {
    int64_t block[POP_CAST_DIMS], stride[POP_CAST_DIMS];
    int64_t varies; /* 0: one scale for the whole array */
} pop_cast_scales;

/* All that the items of one cast share. Strides are in bytes. */
typedef struct pop_cast_layout {
    pop_cast cast;
    int32_t ndim, in_bytes, out_bytes;
    pop_decoder decode; /* NULL: the input is FP32 */
    pop_encoder encode; /* NULL: the output is FP32 */
    pop_drawer draw;    /* read for POP_STOCHASTIC only */
    int64_t extents[POP_CAST_DIMS], in_strides[POP_CAST_DIMS], out_strides[POP_CAST_DIMS];
    pop_cast_scales in_scales, out_scales;
} pop_cast_layout;

/* A range of elements in the order of the layout's dimensions, the last running fastest. */
typedef struct pop_cast_item {
    int64_t first, count;
} pop_cast_item;
#endif
