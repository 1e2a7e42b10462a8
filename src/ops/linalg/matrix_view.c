/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_view.c: see matrix_view.h. */
#include "ops/linalg/matrix_view.h"

#include "base/host/stop.h"

static int64_t element_of(const flxi_matrix_view *v, int64_t i, int64_t j)
{
    return v->first + i * v->row + j * v->col;
}

void flxi_matrix_load(void *to, const flxi_matrix_view *from, int64_t rows, int64_t cols)
{
    bool is_complex = flxi_is_complex(from->dtype);
    double *x = to;
    double _Complex *z = to;
    for (int64_t i = 0; i < rows && !flxi_stopped(); i++)
        for (int64_t j = 0; j < cols; j++)
            if (is_complex)
                z[i * cols + j] = flxi_load_complex(from->dtype, from->data, element_of(from, i, j));
            else
                x[i * cols + j] = flxi_load_double(from->dtype, from->data, element_of(from, i, j));
}

void flxi_matrix_store(const flxi_matrix_view *to, const void *from, int64_t rows, int64_t cols)
{
    bool is_complex = flxi_is_complex(to->dtype);
    const double *x = from;
    const double _Complex *z = from;
    for (int64_t i = 0; i < rows && !flxi_stopped(); i++)
        for (int64_t j = 0; j < cols; j++)
            if (is_complex)
                flxi_store_complex(to->dtype, to->data, element_of(to, i, j), z[i * cols + j]);
            else
                flxi_store_double(to->dtype, to->data, element_of(to, i, j), x[i * cols + j]);
}

flx_code flxi_eval_with_scratch(flxi_eval *e, flx_code (*rule)(flxi_eval *e, flxi_arena *scratch))
{
    flxi_arena scratch;
    flxi_arena_init(&scratch, e->mem);
    flx_code code = rule(e, &scratch);
    flxi_arena_free(&scratch);
    return code;
}
