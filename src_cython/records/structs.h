/* Records that C, Cython and NumPy know. Each has its fields in one list, a .def file beside this one:
 *
 *     RECORD(pop_x)
 *         FIELD(int64_t, rows)
 *         FIELD(pop_format, format)        another record
 *         ARRAY(pop_format, formats, 3)    so many, in digits
 *         POINTER(const char *, data)      an address, of data or of a function
 *     END(pop_x)
 *
 * From the list follow the C struct (here), the Cython declaration (pop_records.pxd, which setup.py writes) and the
 * NumPy dtype (`poplibs_py.kernels.records.dtype_of`, every offset compared with C's). A file of several lists is expanded by
 *
 *     #define POP_RECORDS "records/x.def"
 *     #include "records/structs.h"
 *
 * in the one header that its users include. Its name goes to all.def. */
#define RECORD(record) typedef struct record {
#define FIELD(type, field) type field;
#define ARRAY(type, field, count) type field[count];
#define POINTER(type, field) type field;
#define END(record) } record;
#include POP_RECORDS
#undef RECORD
#undef FIELD
#undef ARRAY
#undef POINTER
#undef END
#undef POP_RECORDS
