/* Numbers that sums are multiplied by, which may be a call's own (records/multiplier.def). */
#ifndef POP_MULTIPLIER_H
#define POP_MULTIPLIER_H
#include "program/program.h"

#define POP_RECORDS "records/multiplier.def"
#include "records/structs.h"

static inline float pop_multiplier_of(const pop_multiplier *m, const pop_tile *tile)
{
    if (!m->words) return (float)m->value;
    const char *word = tile->operands[m->words] + 8 * m->at;
    return (float)(m->whole ? (double)*(const int64_t *)(const void *)word : *(const double *)(const void *)word);
}
#endif
