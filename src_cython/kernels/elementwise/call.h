/* How elementwise kernels are called: n elements of each operand, one after another. */
#ifndef POP_ELEMENTWISE_CALL_H
#define POP_ELEMENTWISE_CALL_H
#include <stdint.h>

/* An output may lie exactly where an input does: a kernel reads a vector of every input before it writes that of any output. */
typedef void (*pop_elementwise)(const void *const *in, void *const *out, int64_t n);
#endif
