/* The lists of records, choices and formats as rows that Python reads. */
#ifndef POP_RECORDS_ROWS_H
#define POP_RECORDS_ROWS_H
#include <stddef.h>

#include "formats/formats.h"

/* A field, or with `field` NULL a record, whose size it gives. `count` is 0 for what is no array. */
typedef struct pop_record_row {
    const char *record, *field, *type;
    int64_t offset, bytes, count;
} pop_record_row;

#define POP_ROW(...)                                           \
    {                                                          \
        if (rows) rows[n] = (pop_record_row){__VA_ARGS__};     \
        n++;                                                   \
    }

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
#define RECORD(record)                  \
    {                                   \
        typedef record self;            \
        const char *const name = #record; \
        POP_ROW(name, NULL, "", 0, sizeof(self), 0)
#define FIELD(type, field) POP_ROW(name, #field, #type, offsetof(self, field), sizeof(((self *)0)->field), 0)
#define ARRAY(type, field, count) POP_ROW(name, #field, #type, offsetof(self, field), sizeof(((self *)0)->field), count)
#define POINTER(type, field) POP_ROW(name, #field, "pointer", offsetof(self, field), sizeof(((self *)0)->field), 0)
#define END(record) }
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
