/* The record that every compiled kernel registers with. One line under the kernel's body fills it; dispatch, tests,
 * benchmarks and the documentation's table all read it. */
#ifndef POP_KERNELS_ABI_H
#define POP_KERNELS_ABI_H
#include <stdint.h>

/* The build says which level a module holds the kernels of (the portable one's number is 0), and numbers the levels. */
#ifndef POP_LEVEL
#error "setup.py defines POP_LEVEL, and POP_LEVEL_AVX2 and so on from the lines of cpu/levels.def"
#endif

#define POP_INLINE static inline __attribute__((always_inline))

#define POP_CONSISTENT 1u /* flags of a kernel: same bits as the portable kernel of the same op and formats */
#define POP_LONG 2u       /* takes longer than memory does, or wants many elements to a call: no result of it is streamed */

typedef void (*pop_function)(void);

typedef struct pop_kernel {
    const char *op;      /* what it does within its family, for example "multiply" */
    const char *formats; /* what it selects by, for example "float16,float16->float32" */
    const char *name;    /* unique within the family and level */
    pop_function function;
    int64_t grain[3];    /* rows, columns, depth of the least unit; operands are padded to it */
    int64_t block[3];    /* rows, columns, depth of the unrolled unit */
    uint32_t flags;
} pop_kernel;

/* What GCC would load anew for each operation is loaded once. An emulated vector of 64 bytes has no register. */
#ifdef POP_EMULATE_AVX512
#define POP_IN_REGISTER(v) ((void)(v))
#else
#define POP_IN_REGISTER(v) __asm__("" : "+v"(v))
#endif

#define POP_FUNCTION(f) ((pop_function)(f))
#endif
