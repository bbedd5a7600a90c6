/* What the kernels of the random family read: of the program, and of the call. */
#ifndef POP_RANDOM_CALL_H
#define POP_RANDOM_CALL_H
#include <stdint.h>

#define POP_RECORDS "records/random.def"
#include "records/structs.h"
#endif
