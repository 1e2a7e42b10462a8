/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_work.c: see matrix_work.h. */
#include "ops/linalg/matrix_work.h"

#include "graph/op/work.h"

static const flx_type *matrix_of(const flx_graph *g, const flxi_node *n)
{
    return flxi_type_at(g, n->in[0]);
}

static int64_t extent_of(const flx_type *a, int from_end)
{
    return flxi_work_extent(a->dims[a->rank - from_end]);
}

/* `sixths` / 6 of the cube of the extent for each matrix, and half a product of the matrix with the right-hand sides
   for each triangle. */
static void eliminate(const flx_graph *g, const flxi_node *n, int64_t sixths, int64_t triangles, flxi_work *w)
{
    const flx_type *a = matrix_of(g, n);
    const flx_type *y = flxi_type_at(g, n->first);
    int64_t extent = extent_of(a, 1);
    int64_t factors = flxi_times(flxi_times(flxi_work_count(a), extent), sixths) / 6;
    int64_t sides = flxi_times(flxi_times(flxi_work_count(y), extent), triangles) / 2;
    w->flops = flxi_work_pairs(y, flxi_plus(factors, sides));
}

void flxi_work_lu(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    eliminate(g, n, 2, 0, w);
}

void flxi_work_cholesky(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    eliminate(g, n, 1, 0, w);
}

void flxi_work_solve(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    eliminate(g, n, 2, 2, w);
}

void flxi_work_triangular(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    eliminate(g, n, 0, 1, w);
}

/* times · (m n² − n³/3) pairs for each matrix of m rows and n columns, or of n and m. */
static void reflect(const flx_graph *g, const flxi_node *n, int64_t times, flxi_work *w)
{
    const flx_type *a = matrix_of(g, n);
    int64_t rows = extent_of(a, 2), columns = extent_of(a, 1);
    int64_t less = rows < columns ? rows : columns;
    int64_t more = rows < columns ? columns : rows;
    int64_t each = more ? flxi_times(flxi_work_count(a), more - less / 3) / more : 0;
    w->flops = flxi_work_pairs(a, flxi_times(times, flxi_times(each, less)));
}

void flxi_work_qr(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    reflect(g, n, 1, w);
}

void flxi_work_svd(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    reflect(g, n, 2, w);
}

void flxi_work_expm(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    eliminate(g, n, 2 + 6, 2, w);
}

void flxi_work_eigh(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    eliminate(g, n, 4, 0, w);
}

void flxi_work_eig(const flx_graph *g, const flxi_node *n, flxi_work *w)
{
    eliminate(g, n, 10, 0, w);
}
