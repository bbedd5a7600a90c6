/* What kernels of attention and their plan agree on: Python has it from kernels/records.py. */
#ifndef POP_ATTENTION_CONSTANTS_H
#define POP_ATTENTION_CONSTANTS_H
enum {
    POP_ATTENTION_PIECES = 32 /* tiles of keys whose scores are held side by side */
};
#endif
