/* Sums of R rows x NZ vectors in registers: cleared, fed by lines of a block, written. */
#ifndef POP_SPARSE_ROWS_H
#define POP_SPARSE_ROWS_H
#include "kernels/sparse/vector.h"

POP_INLINE void put(float *y, vec v, lanes m, int64_t stream)
{
    if (!pop_v_is_all(m)) pop_v_store_f_some(y, v, m);
    else if (stream && !((uintptr_t)y % sizeof(vec))) pop_v_stream_f(y, v);
    else pop_v_store_f(y, v);
}

/* STEP lines of a block, added to R rows x NZ vectors of sums. WHOLE: no vector is masked. */
POP_INLINE void add_lines(const int R, const int NZ, const int STEP, const int WHOLE, const int kind, const char *w,
                          int64_t down, int64_t along, const char *x, int64_t ldx, lanes m, vec acc[8][8])
{
    const int64_t bytes = VL * (kind == POP_X_FP32 ? 4 : 2);
#pragma GCC unroll 4
    for (int k = 0; k < STEP; k++, x += ldx, w += along) {
        const char *w4 = w + 4 * down;
        vec v[8];
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++)
            v[z] = WHOLE || z < NZ - 1 ? pop_load(kind, x + z * bytes) : pop_load_some(kind, x + z * bytes, m);
#pragma GCC unroll 8
        for (int i = 0; i < R; i++) {
            const vec b = pop_broadcast(i < 4 ? w + i * down : w4 + (i - 4) * down);
#pragma GCC unroll 8
            for (int z = 0; z < NZ; z++) acc[i][z] = pop_v_fma(b, v[z], acc[i][z]);
        }
    }
}

POP_INLINE void clear_rows(const int R, const int NZ, vec acc[8][8])
{
#pragma GCC unroll 8
    for (int i = 0; i < R; i++)
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++) acc[i][z] = (vec){0};
}

POP_INLINE void put_rows(const int R, const int NZ, const int WHOLE, float *y, int64_t y_row, lanes m, int64_t stream,
                         vec acc[8][8])
{
#pragma GCC unroll 8
    for (int i = 0; i < R; i++, y += y_row)
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++) {
            if (!WHOLE) put(y + z * VL, acc[i][z], z < NZ - 1 ? pop_v_first(VL) : m, stream);
            else if (stream) pop_v_stream_f(y + z * VL, acc[i][z]);
            else pop_v_store_f(y + z * VL, acc[i][z]);
        }
}
#endif
