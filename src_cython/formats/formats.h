/* Number formats as C sees them: what a format is, and from the lines of formats.def the constants and their numbers. */
#ifndef POP_FORMATS_H
#define POP_FORMATS_H
#include <stdint.h>

#include "formats/formats.def"
#include "records/enums.h"

#define POP_RECORDS "records/format.def"
#include "records/structs.h"

#define POP_FORMAT_FACTS(bytes, constant, function, name, ...) static const pop_format POP_##constant = {__VA_ARGS__};
POP_FORMATS(POP_FORMAT_FACTS)
#undef POP_FORMAT_FACTS

/* The number that work records carry for a format. */
#define POP_FORMAT_NUMBER(bytes, constant, ...) POP_IS_##constant,
enum { POP_FORMATS(POP_FORMAT_NUMBER) };
#undef POP_FORMAT_NUMBER

/* The names of the formats of 1 byte, each after a bar: every value of theirs is a BF16 value. */
#define POP_BYTE_NAME_4(name)
#define POP_BYTE_NAME_2(name)
#define POP_BYTE_NAME_1(name) "|" name
#define POP_BYTE_NAME(bytes, constant, function, name, ...) POP_BYTE_NAME_##bytes(name)
#define POP_BYTE_NAMES POP_FORMATS(POP_BYTE_NAME)
#endif
