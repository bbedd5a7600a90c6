/* The lists of records, choices and formats as rows that Python reads. */
#ifndef POP_RECORDS_ROWS_H
#define POP_RECORDS_ROWS_H
#include <stddef.h>
#include <string.h>

#include "formats/formats.h"

/* A record, whose size it gives, or with `record` NULL a field of the last. `count` is 0 for what is no array. */
typedef struct pop_record_row {
    const char *record, *field, *type;
    int64_t offset, bytes, count;
} pop_record_row;

/* Write a row for each record and field, if there is room, and return how many there are. */
static int pop_record_rows(pop_record_row *rows)
{
    int n = 0;
/* The structs once more: what their addresses point to is the kernels' affair. */
#define RECORD(record) typedef struct record {
#define FIELD(type, field) type field;
#define ARRAY(type, field, count) type field[count];
#define POINTER(type, field) void *field;
#define END(record) } record;
#include "records/all.def"
#undef RECORD
#undef FIELD
#undef ARRAY
#undef POINTER
#undef END
#define POP_FIELD(type, field, count) {NULL, #field, type, offsetof(self, field), sizeof(((self *)0)->field), count},
#define RECORD(record)        \
    {                         \
        typedef record self;  \
        static const pop_record_row own[] = {{#record, NULL, "", 0, sizeof(self), 0},
#define FIELD(type, field) POP_FIELD(#type, field, 0)
#define ARRAY(type, field, count) POP_FIELD(#type, field, count)
#define POINTER(type, field) POP_FIELD("pointer", field, 0)
#define END(record)                                  \
    };                                               \
    if (rows) memcpy(rows + n, own, sizeof own);     \
    n += (int)(sizeof own / sizeof *own);            \
    }
#include "records/all.def"
#undef RECORD
#undef FIELD
#undef ARRAY
#undef POINTER
#undef END
    return n;
}

/* A constant of a choice, the word for it and its number. */
typedef struct pop_choice_row {
    const char *choice, *word;
    int64_t number;
} pop_choice_row;

#define ENUM(choice)
#define VALUE(constant, word) {NULL, word, constant},
#define END(choice) {#choice, NULL, 0},
static const pop_choice_row POP_CHOICE_ROWS[] = { /* each choice's values, then the row that names it */
#include "records/enums.def"
};
#undef ENUM
#undef VALUE
#undef END

typedef struct pop_format_row {
    const char *name;
    pop_format facts;
    int64_t bytes, number;
} pop_format_row;

#define POP_FORMAT_ROW(size, constant, function, label, ...) {label, {__VA_ARGS__}, size, POP_IS_##constant},
static const pop_format_row POP_FORMAT_ROWS[] = {POP_FORMATS(POP_FORMAT_ROW)};
#undef POP_FORMAT_ROW
#endif
