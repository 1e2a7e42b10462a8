/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_function.c: functions of square matrices: expm, whose algorithm is in numeric/linalg/matrix_exponential.c. */
#include "ops/linalg/matrix_function.h"

#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/linalg/matrix_rules.h"
#include "ops/linalg/matrix_view.h"
#include "ops/linalg/matrix_work.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

typedef double _Complex cplx;

/* ---- Evaluation ---- */

/* b becomes the solution of a x = b; a is destroyed. */
static void solve(int64_t n, cplx *a, cplx *b, int64_t *pivots)
{
    const flxi_dense *d = flxi_dense_of(true);
    d->lu(a, n, n, pivots);
    for (int64_t k = 0; k < n && !flxi_stopped(); k++)
        for (int64_t j = 0; pivots[k] != k && j < n; j++) {
            cplx t = b[k * n + j];
            b[k * n + j] = b[pivots[k] * n + j];
            b[pivots[k] * n + j] = t;
        }
    d->triangular(a, &(flxi_triangle){.n = n, .row = n, .col = 1, .lower = true, .unit = true}, b, n);
    d->triangular(a, &(flxi_triangle){.n = n, .row = n, .col = 1}, b, n);
}

void flxi_expm(int64_t n, cplx *m, int64_t *pivots)
{
    flxi_matrix_exponential(n, m, pivots, solve);
}

static flx_code eval_expm(flxi_eval *e)
{
    const flx_type *t = &e->in[0]->type;
    int64_t n = t->dims[t->rank - 1];
    if (e->in[0]->count == 0)
        return FLX_OK;
    size_t room = flxi_expm_room(n);
    cplx *m = flxi_alloc(e->mem, room, sizeof *m);
    int64_t *pivots = flxi_alloc(e->mem, (size_t)n, sizeof *pivots);
    flx_code code = m && pivots ? FLX_OK : flxi_oom(e->err, e->op->name);
    for (int64_t b = 0; code == FLX_OK && b < flxi_matrix_count(t) && !flxi_stopped(); b++) {
        for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
            m[i] = flxi_load_complex(t->dtype, e->in[0]->data, b * n * n + i);
        flxi_expm(n, m, pivots);
        for (int64_t i = 0; i < n * n && !flxi_stopped_by_now(); i++)
            flxi_store_complex(t->dtype, e->out[0]->data, b * n * n + i, m[i]);
    }
    flxi_free(e->mem, m, room, sizeof *m);
    flxi_free(e->mem, pivots, (size_t)n, sizeof *pivots);
    return code;
}

/* ---- Derivatives ---- */

/* The upper right block of expm([[a, t], [0, a]]): the derivative of expm at a along t. */
static flx_val along(flxi_site *s, flx_val a, flx_val t)
{
    flx_graph *g = s->g;
    flx_type type = *flxi_typeof(s, a);
    if (type.rank < 2)
        return FLX_NONE;
    int64_t columns = type.rank - 1;
    int64_t rows = type.rank - 2;
    flx_dim n = type.dims[columns];
    flx_val upper = flx_concat(g, ((const flx_val[]){a, t}), 2, columns);
    flx_val lower = flx_concat(g, ((const flx_val[]){flxi_zeros(s, &type), a}), 2, columns);
    flx_val block = flx_concat(g, ((const flx_val[]){upper, lower}), 2, rows);
    flx_val y = flxi_emit1(s, NULL, &block, 1);
    return flx_narrow(g, flx_narrow(g, y, rows, 0, n), columns, n, n);
}

static void jvp_expm(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = along(s, s->x[0], tx[0]);
}

static void vjp_expm(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = along(s, flxi_adjoint(s, s->x[0]), dy[0]);
}

static const flxi_sample samples_expm[] = {
    {"T[3, 3]", NULL, NULL, FLX_OK},
    {"T[1, 1]", NULL, NULL, FLX_OK},
    {"T[2, 2, 2]{-0.5..0.5}", NULL, NULL, FLX_OK},
    {"T[N, N]", NULL, NULL, FLX_OK},
    {"T[0, 0]", NULL, NULL, FLX_OK},
    {"T[0, 2, 2]", NULL, NULL, FLX_OK},
    {"T[3]", NULL, NULL, FLX_E_SHAPE},
    {"T[2, 3]", NULL, NULL, FLX_E_SHAPE},
    {"f16[2, 2]", NULL, NULL, FLX_E_DTYPE},
    {0},
};

const flxi_rules flxi_rules_expm = {
    .infer = flxi_infer_square,
    .eval = eval_expm,
    .vjp = vjp_expm,
    .jvp = jvp_expm,
    .batch = flxi_batch_matrices,
    .samples = samples_expm,
    .work = flxi_work_expm,
    .link = flxi_link_matrices,
    .shard = &flxi_shard_linked,
};
