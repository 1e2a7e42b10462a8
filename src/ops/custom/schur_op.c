/* SPDX-License-Identifier: Apache-2.0 */
/* schur_op.c: the operation fluxion.schur of the op `custom`, which imported programs use: a = z t z^H with z unitary
   and t upper triangular, of the matrices of the last two axes. Of a real matrix both are real, and t has a block of
   two rows for each conjugate pair of eigenvalues. NaN for a matrix that is not finite. It has no derivative: the order
   of eigenvalues is that of an iteration. */
#include "ops/custom/host_op.h"

#include "base/error.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "numeric/linalg/schur.h"

#include <complex.h>

static flx_code infer(void *user, const flx_custom_call *c, flx_type *results, size_t *num_results, flx_error *err)
{
    const flx_type *t = flx_custom_input(c, 0);
    bool fits = flx_custom_num_inputs(c) == 1 && t->rank >= 2 && t->dims[t->rank - 1] == t->dims[t->rank - 2];
    (void)user;
    if (!fits || (!flxi_is_complex(t->dtype) && t->dtype != FLX_F32 && t->dtype != FLX_F64))
        return flxi_fail(err, FLX_E_SHAPE, "fluxion.schur: a square matrix of f32, f64, c64 or c128 is needed");
    results[0] = results[1] = *t;
    *num_results = 2;
    return FLX_OK;
}

/* Matrices are arrays of columns: double for real ones, else double _Complex. */
typedef struct {
    int64_t n;
    int32_t dtype;
    bool is_complex;
    double *a, *z, *room;
} matrix;

static void load(const matrix *m, const void *x, int64_t first)
{
    for (int64_t k = 0; k < m->n * m->n && !flxi_stopped(); k++) {
        double _Complex v = flxi_load_complex(m->dtype, x, first + k % m->n * m->n + k / m->n);
        if (m->is_complex)
            ((double _Complex *)m->a)[k] = v;
        else
            m->a[k] = creal(v);
    }
}

static void store(const matrix *m, const double *from, void *y, int64_t first)
{
    for (int64_t k = 0; k < m->n * m->n && !flxi_stopped(); k++) {
        double _Complex v = m->is_complex ? ((const double _Complex *)from)[k] : from[k];
        flxi_store_complex(m->dtype, y, first + k % m->n * m->n + k / m->n, v);
    }
}

static flx_code eval(void *user, const flx_custom_call *c, const void *const *inputs, void *const *results,
                     flx_error *err)
{
    const flx_type *t = flx_custom_input(c, 0);
    matrix m = {.n = t->dims[t->rank - 1], .dtype = t->dtype, .is_complex = flxi_is_complex(t->dtype)};
    size_t square = (size_t)m.n * (size_t)m.n * (m.is_complex ? 2 : 1), count = 3 * square + 1;
    const flxi_allocator *mem = user;
    int64_t matrices = 1;
    for (int i = 0; i + 2 < t->rank; i++)
        matrices *= t->dims[i];
    m.a = flxi_alloc(mem, count, sizeof *m.a);
    if (!m.a)
        return flxi_oom(err, "fluxion.schur");
    m.z = m.a + square;
    m.room = m.z + square;
    for (int64_t i = 0; i < matrices && m.n && !flxi_stopped(); i++) {
        load(&m, inputs[0], i * m.n * m.n);
        if (m.is_complex)
            flxi_schur_form(m.n, (double _Complex *)m.a, (double _Complex *)m.z, (double _Complex *)m.room);
        else
            flxi_real_schur_form(m.n, m.a, m.z, m.room);
        store(&m, m.a, results[0], i * m.n * m.n);
        store(&m, m.z, results[1], i * m.n * m.n);
    }
    flxi_free(mem, m.a, count, sizeof *m.a);
    return flxi_stop_check(err);
}

const flx_custom_op flxi_schur_op = {
    .struct_size = sizeof(flx_custom_op), .name = "fluxion.schur", .infer = infer, .eval = eval};
