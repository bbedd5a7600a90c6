/* The constants of enums.def. */
#ifndef POP_RECORDS_ENUMS_H
#define POP_RECORDS_ENUMS_H
#define ENUM(choice) enum {
#define VALUE(constant, word) constant,
#define END(choice) };
#include "records/enums.def"
#undef ENUM
#undef VALUE
#undef END
#endif
