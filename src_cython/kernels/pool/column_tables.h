/* Windows of 2 and 3 by 2 where lanes are positions, at levels of eight lanes: where rows and columns begin, which is the same for all
 * channels, and found once. */
#ifndef POP_POOL_COLUMN_TABLES_H
#define POP_POOL_COLUMN_TABLES_H

#define POP_POOL_COLUMNS 32     /* of eight results, of a row */
#define POP_POOL_COLUMN_ROWS 512
#define POP_POOL_COLUMN_BYTES (1 << 14) /* of the operand, before the next column begins at the same rows */

/* Eight results, or sixteen of a gradient. What they take begins at element f of a row: vectors begin at f, f + 8 and f + 10, within the
 * row; those of a gradient at windows w and w + 1. */
typedef struct pop_pool_column {
    int64_t from[3], made, count; /* the first result's place in a row, and how many are in it */
    int whole;                    /* nothing is beyond the row; else lanes are put in order, and `there` */
    __m256i order[3];
    __m256 there[3], divisors;
} pop_pool_column;

/* Sixteen results, or fifteen of three each, of codes: what they take begins at two elements of a row, sixteen each. Lanes are put in order
 * within halves and across, and have the least word where nothing is. */
typedef struct pop_pool_code_column {
    int64_t from[2], made, count;
    int whole; /* as they are */
    __m256i own[2], other[2], none[2];
    __m128i last[2]; /* the last eight results' bytes, of the first eight and of the others */
} pop_pool_code_column;

typedef struct pop_pool_column_row {
    int64_t count, at[3], made; /* rows that it is made of, the elements that they begin at, and the one that it begins at */
    float divisor, weights[2];  /* of an average; of a gradient's rows */
} pop_pool_column_row;

typedef struct pop_pool_columns {
    const pop_pool_segment *segment; /* of the unit that they are found for, and its rows */
    int64_t row, rows;
    int64_t count, code_count; /* 0: not this way */
    int64_t some;  /* rows after which the next column begins */
    int kind;      /* of a gradient, vectors of windows: 0: one for all elements; of two 1: even ones take the first alone, 2: odd ones the last */
    int single;    /* of a gradient: whether no element meets more than one window */
    pop_pool_column column[POP_POOL_COLUMNS];
    pop_pool_code_column codes[POP_POOL_COLUMNS];
    pop_pool_column_row near[POP_POOL_COLUMN_ROWS];
} pop_pool_columns;

/* Vector v begins at element `first` of a row, or is put in order from one within it. */
static void pop_pool_column_vector(pop_pool_column *c, int v, int64_t first, int64_t reads)
{
    int32_t order[POP_LANES], there[POP_LANES];
    c->from[v] = first < 0 ? 0 : pop_least(first, reads - POP_LANES);
    for (int l = 0; l < POP_LANES; l++) {
        const int64_t at = first + l;
        there[l] = at >= 0 && at < reads ? -1 : 0, order[l] = (int32_t)(at - c->from[v]);
        if (!there[l]) c->whole = 0;
    }
    c->order[v] = _mm256_loadu_si256((const __m256i *)(const void *)order);
    c->there[v] = _mm256_loadu_ps((const float *)(const void *)there);
}

/* Whether columns are those of a unit already. */
POP_INLINE int pop_pool_is_found(const pop_pool_unit *u, const pop_pool_columns *columns)
{
    return columns->segment == u->segment && columns->row == u->row && columns->rows == u->rows;
}

static void pop_pool_code_vector(pop_pool_code_column *c, int v, int64_t first, int64_t reads)
{
    uint8_t own[32], other[32], none[32];
    c->from[v] = first < 0 ? 0 : pop_least(first, reads - 16);
    if (c->from[v] != first) c->whole = 0;
    for (int k = 0; k < 32; k++) {
        const int64_t at = first + k / 2, place = at - c->from[v];
        const int there = at >= 0 && at < reads, same = place / 8 == k / 16;
        const uint8_t byte = (uint8_t)(2 * (place & 7) + k % 2);
        own[k] = there && same ? byte : 0x80, other[k] = there && !same ? byte : 0x80, none[k] = !there && k % 2 ? 0x80 : 0;
    }
    c->own[v] = _mm256_loadu_si256((const __m256i *)(const void *)own);
    c->other[v] = _mm256_loadu_si256((const __m256i *)(const void *)other);
    c->none[v] = _mm256_loadu_si256((const __m256i *)(const void *)none);
}
/* Columns of codes, where rows are found and wide enough. */
static void pop_pool_find_code_columns(const pop_pool_unit *u, pop_pool_columns *columns)
{
    const pop_pool_segment *g = u->segment;
    const int64_t each = u->spec->kernel == 3 ? 15 : 16;
    if (columns->count == 0 || g->reads < 16 || g->makes < POP_LANES) return;
    for (int64_t m = 0; m < g->makes; m += each) {
        pop_pool_code_column *c = columns->codes + columns->code_count++;
        const int64_t i = m + each <= g->makes || m == 0 ? m : g->makes - each, first = 2 * (g->shift + i) - g->place;
        uint8_t last[2][16];
        c->made = i, c->count = pop_least(each, g->makes - i), c->whole = 1;
        for (int k = 0; k < 16; k++) {
            const int64_t at = 2 * c->count - 16 + k;
            last[0][k] = at < 16 ? (uint8_t)at : 0x80, last[1][k] = at < 16 ? 0x80 : (uint8_t)(at - 16);
        }
        for (int v = 0; v < 2; v++) c->last[v] = _mm_loadu_si128((const __m128i *)(const void *)last[v]);
        for (int v = 0; v < 2; v++) pop_pool_code_vector(c, v, first + v * (each == 15 ? 16 : 2 * c->count - 16), g->reads);
    }
}

static void pop_pool_find_columns(const pop_pool_unit *u, pop_pool_columns *columns)
{
    const pop_pool *s = u->spec;
    const pop_pool_segment *g = columns->segment = u->segment;
    const pop_pool_axis axis = pop_pool_only_axis(s);
    const int64_t row_bytes = 2 * axis.read_stride * s->operands->bytes;
    columns->row = u->row, columns->rows = u->rows, columns->count = columns->code_count = 0;
    columns->some = row_bytes > 0 && row_bytes < POP_POOL_COLUMN_BYTES ? POP_POOL_COLUMN_BYTES / row_bytes : 1;
    if (axis.first == NULL || axis.weights || s->by_channel || s->stride != 2 || (s->kernel != 2 && s->kernel != 3) || s->dilation != 1 ||
        s->row_limit > 3 || g->reads < POP_LANES || g->makes > POP_POOL_COLUMNS * POP_LANES || u->rows > POP_POOL_COLUMN_ROWS)
        return;
    for (int64_t k = 0; k < u->rows; k++) {
        const pop_pool_near near = pop_pool_near_rows(u, &axis, 1, u->row + k);
        pop_pool_column_row *row = columns->near + k;
        *row = (pop_pool_column_row){near.count, {0}, near.made, near.divisor, {1.0f, 1.0f}};
        if (near.count == 0) return;
        for (int64_t j = 0; j < near.count; j++) row->at[j] = near.at[j] * near.step;
    }
    for (int64_t m = 0; m < g->makes; m += POP_LANES) {
        pop_pool_column *c = columns->column + columns->count++;
        const int64_t i = pop_pool_block(m, g->makes), first = 2 * (g->shift + i) - g->place;
        const int64_t ahead[3] = {0, POP_LANES, POP_LANES + 2};
        float divisors[POP_LANES];
        c->made = i, c->count = pop_least(POP_LANES, g->makes - i), c->whole = 1;
        for (int v = 0; v < s->kernel; v++) pop_pool_column_vector(c, v, first + ahead[v], g->reads);
        for (int l = 0; l < POP_LANES; l++) divisors[l] = s->divisors && l < c->count ? s->divisors[g->made + i + l] : 1.0f;
        c->divisors = _mm256_loadu_ps(divisors);
    }
}

/* Of a gradient of windows of 2 and 3 by 2 over two axes, of which at most two rows meet a row of the field: sixteen elements of each row. */
static void pop_pool_find_pairs(const pop_pool_unit *u, const pop_pool_reach *r, pop_pool_columns *columns)
{
    const pop_pool *s = u->spec;
    const pop_pool_axis axis = pop_pool_only_axis(s);
    const pop_pool_segment *g = columns->segment = u->segment;
    const int64_t odd = g->shift & 1, taps = r->taps[odd], others = r->taps[!odd], last = g->makes - 2 * POP_LANES;
    const int64_t row_bytes = axis.made_stride * s->operands[3].bytes;
    columns->row = u->row, columns->rows = u->rows, columns->count = 0, columns->kind = taps == 2 ? 2 : others == 2;
    columns->single = columns->kind == 0;
    columns->some = row_bytes > 0 && row_bytes < POP_POOL_COLUMN_BYTES / 2 ? POP_POOL_COLUMN_BYTES / 2 / row_bytes : 1;
    if (axis.first == NULL || !r->lanes || r->phases != 2 || s->row_limit > 2 || s->kernel > 3 || s->dilation != 1 || taps == 0 || others == 0 ||
        (odd && s->kernel == 2) || g->makes < 2 * POP_LANES || g->makes % 2 || g->reads < POP_LANES ||
        g->makes > 2 * POP_LANES * POP_POOL_COLUMNS || u->rows > POP_POOL_COLUMN_ROWS)
        return;
    for (int64_t k = 0; k < u->rows; k++) {
        const int64_t from = axis.first[u->row + k], met = axis.first[u->row + k + 1] - from;
        pop_pool_column_row *row = columns->near + k;
        *row = (pop_pool_column_row){met, {0}, (u->row + k) * axis.made_stride, 1.0f, {1.0f, 1.0f}};
        for (int64_t j = 0; j < met; j++) {
            row->at[j] = axis.coordinates[from + j] * axis.read_stride;
            if (axis.weights) row->weights[j] = axis.weights[from + j];
        }
        columns->single &= met < 2;
    }
    for (int64_t m = 0; m < g->makes; m += 2 * POP_LANES) {
        pop_pool_column *c = columns->column + columns->count++;
        c->made = pop_least(m, last), c->whole = 1;
        const int64_t window = ((c->made + g->shift) >> 1) + r->at[odd][0] - g->place;
        for (int v = 0; v < 1 + (columns->kind > 0); v++) pop_pool_column_vector(c, v, window + v, g->reads);
    }
}
#endif
