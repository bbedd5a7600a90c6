/* How elementwise kernels are called: n elements of each operand, one after another. */
#ifndef POP_ELEMENTWISE_CALL_H
#define POP_ELEMENTWISE_CALL_H
#include <stdint.h>

/* An output may lie exactly where an input does: a kernel reads a vector of every input before it writes that of any output. */
typedef void (*pop_elementwise)(const void *const *in, void *const *out, int64_t n);

/* Steps of arithmetic: see arithmetic.h for the words of a plan, and what numbers are. */
#define POP_ARITHMETIC_STEPS 16
typedef void (*pop_arithmetic_kernel)(const int32_t *plan, const uint64_t *numbers, const void *const *in, void *const *out, int64_t n);
#endif
