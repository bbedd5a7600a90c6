/* What a call for random numbers gives to every share of it. */
#ifndef POP_RANDOM_CALL_H
#define POP_RANDOM_CALL_H
#include <stdint.h>

#define POP_RECORDS "records/random.def"
#include "records/structs.h"
#endif
