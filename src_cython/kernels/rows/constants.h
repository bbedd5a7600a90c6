/* What kernels of rows and their lowering agree on: Python has it from kernels/records.py. */
#ifndef POP_ROWS_CONSTANTS_H
#define POP_ROWS_CONSTANTS_H
enum {
    POP_EACH_SEGMENT = 2,  /* `single`: one for each of a row's segments */
    /* `mode`: 0, or of a norm, of a loss, of powers */
    POP_CENTRED = 1,       /* the mean is taken away */
    POP_NO_STATISTICS = 2, /* numbers are scaled and shifted as they are */
    POP_CROSS_ENTROPY = 1, /* not squares */
    POP_BRIEF = 2,         /* numbers were FP16 or BF16 */
    POP_FOUR = 4,
    POP_STRETCH = 2048,    /* elements of a row that are added in FP32 */
    POP_ROWS_MOST = 32,    /* that may be done at once: of up to half of POP_ROWS_EIGHTS elements; half as many of up to these, else four */
    POP_ROWS_EIGHTS = 256,
    POP_ROWS_NEAR = 131072, /* elements of all rows that a norm takes at once: they stay in the second cache */
    POP_ROWS_TURNS = 512,  /* rows that take turns, at once */
    POP_ROWS_NEARBY = 6,   /* of these, for which there is room beside */
    POP_ROWS_SHORT = 1024  /* elements of rows of which several passes take several: they stay in the first cache */
};
#endif
