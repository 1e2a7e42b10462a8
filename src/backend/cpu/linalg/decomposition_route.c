/* SPDX-License-Identifier: Apache-2.0 */
/* decomposition_route.c: qr, eigh, eig, svd, pinv, cond and expm of real matrices by dense_work.h, in f64: elements are
   widened when they are loaded and rounded once when they are stored, as in the definitions. polar and lstsq consist of
   these.

   Matrices are scaled by a power of two, so that squares neither overflow nor underflow. As long as there are fewer
   matrices than threads, they are computed one after the other by all threads, else each thread has matrices of its
   own; both give the same bits. */
#include "backend/cpu/linalg/decomposition.h"
#include "base/host/stop.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "graph/type/tensor.h"
#include "ops/linalg/matrix_function.h"
#include "ops/linalg/matrix_rules.h"
#include "ops/opcode.h"

#include <float.h>
#include <math.h>

/* What one op does with matrix i; without memory in the work, it only takes what it needs. */
typedef struct flxi_method {
    flxi_opcode op;
    void (*run)(const flxi_decomposing *s, flxi_workspace *w, int64_t i);
} method;

/* Of one matrix, found when the node is compiled: too long to find out in every run. */
typedef struct {
    size_t most, bytes; /* without and with what products want of one thread */
} kept_sizes;

/* ---- Storing ---- */

/* Rows z[order[j]] times sign[j], `count` of them. */
typedef struct {
    const double *z;
    int64_t step, count, width;
    const int64_t *order;
    const double *sign;
} signed_rows;

/* As result [count, width] number `which`; or its transpose. */
static void store_rows(const flxi_decomposing *s, int result, int64_t which, const signed_rows *r, bool turned)
{
    int64_t first = which * r->count * r->width;
    for (int64_t j0 = 0; j0 < r->count && !flxi_stopped(); j0 += FLXI_TILE)
        for (int64_t i0 = 0; i0 < r->width; i0 += FLXI_TILE)
            for (int64_t j = j0; j < r->count && j < j0 + FLXI_TILE; j++)
                for (int64_t i = i0; i < r->width && i < i0 + FLXI_TILE; i++)
                    flxi_store_element(s, result, first + (turned ? i * r->count + j : j * r->width + i),
                                       r->z[r->order[j] * r->step + i] * r->sign[j]);
}

/* ---- qr ---- */

static void qr_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    int64_t m = s->rows, n = s->cols, k = s->least;
    int64_t step = flxi_row_step(m);
    double *a = flxi_take_numbers(w, n * step);
    double *q = flxi_take_numbers(w, k * step);
    flxi_reflections r = {.step = step, .count = k, .width = m};
    r.h = flxi_take_numbers(w, k * step);
    r.tau = flxi_take_numbers(w, k);
    int64_t *order = flxi_take(w, (size_t)k * sizeof *order);
    double *sign = flxi_take_numbers(w, k);
    int exponent = 0;
    if (!flxi_space_counts(w)) {
        flxi_find_scale(s, which, &exponent);
        flxi_load_matrix(s, which, exponent, a, step, true);
    }
    flxi_reflect_columns(w, a, step, m, n, &r);
    flxi_reflections_product(w, &r, q, step, k);
    if (flxi_space_counts(w))
        return;
    flxi_power p = flxi_power_of(exponent);
    for (int64_t i = 0; i < k && !flxi_stopped(); i++) {
        order[i] = i;
        sign[i] = a[i * step + i] < 0 ? -1 : 1;
        for (int64_t j = 0; j < n; j++)
            flxi_store_element(s, 1, (which * k + i) * n + j, j < i ? 0 : flxi_times(sign[i] * a[j * step + i], p));
    }
    if (!flxi_stopped())
        store_rows(s, 0, which, &(signed_rows){q, step, k, m, order, sign}, true);
}

/* ---- Order and signs of vectors ---- */

/* The sign that makes the first element of at least half the largest modulus positive (jacobi.h). */
static double anchor_sign(const double *row, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabs(row[i]) > most ? fabs(row[i]) : most;
    for (int64_t i = 0; i < count; i++)
        if (fabs(row[i]) >= 0.5 * most && most > 0)
            return row[i] < 0 ? -1 : 1;
    return 1;
}

typedef struct {
    int64_t *at, *room;
    double *sign;
} ordering;

static ordering take_ordering(flxi_workspace *w, int64_t n)
{
    ordering o = {.at = flxi_take(w, (size_t)n * sizeof *o.at), .room = flxi_take(w, (size_t)n * sizeof *o.room)};
    o.sign = flxi_take_numbers(w, n);
    return o;
}

static void find_order(const ordering *o, const double *d, int64_t n, bool descending, const double *z, int64_t step,
                       int64_t width)
{
    flxi_sort_values(d, n, descending, o->at, o->room);
    for (int64_t j = 0; j < n && !flxi_stopped(); j++)
        o->sign[j] = anchor_sign(z + o->at[j] * step, width);
}

/* ---- eigh ---- */

/* a = (a + a^T) / 2, as the definition rounds it. */
static void make_symmetric(double *a, int64_t step, int64_t n)
{
    for (int64_t i0 = 0; i0 < n && !flxi_stopped(); i0 += FLXI_TILE)
        for (int64_t j0 = i0; j0 < n; j0 += FLXI_TILE)
            for (int64_t i = i0; i < n && i < i0 + FLXI_TILE; i++)
                for (int64_t j = j0 > i ? j0 : i + 1; j < n && j < j0 + FLXI_TILE; j++)
                    a[i * step + j] = a[j * step + i] = 0.5 * a[i * step + j] + 0.5 * a[j * step + i];
}

static void eigh_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    int64_t n = s->rows, step = flxi_row_step(n);
    double *a = flxi_take_numbers(w, n * step);
    double *d = flxi_take_numbers(w, n);
    ordering o = take_ordering(w, n);
    int exponent = 0;
    bool is_found = true;
    if (!flxi_space_counts(w)) {
        is_found = flxi_find_scale(s, which, &exponent);
        flxi_load_matrix(s, which, exponent, a, step, false);
        make_symmetric(a, step, n);
    }
    is_found = is_found && flxi_symmetric_eigen(w, a, step, n, d);
    if (flxi_space_counts(w) || flxi_stopped())
        return;
    if (!is_found) {
        flxi_fill_nan(s, 0, which, n);
        flxi_fill_nan(s, 1, which, n * n);
        return;
    }
    flxi_power p = flxi_power_of(exponent);
    find_order(&o, d, n, false, a, step, n);
    for (int64_t j = 0; j < n; j++)
        flxi_store_element(s, 0, which * n + j, flxi_times(d[o.at[j]], p));
    store_rows(s, 1, which, &(signed_rows){a, step, n, n, o.at, o.sign}, true);
}

/* ---- svd and pinv ---- */

/* The rows of `u` and `v` are singular vectors of the matrix; tall: of the transpose if it has more columns. */
typedef struct {
    double *u, *v, *d;
    int64_t u_step, v_step;
    ordering o;
    int exponent;
    bool is_found;
} singular;

/* A tall matrix is Q R, and what is decomposed is R: it goes to `square`; Q to `q`, unless that is NULL, whose memory
   is not there yet while the work is only counted. */
static void reduce_tall(const flxi_decomposing *s, flxi_workspace *w, int64_t which, int exponent, flxi_part square,
                        double *const *q)
{
    size_t used = w->used;
    int64_t k = s->least, tall = s->rows > s->cols ? s->rows : s->cols, q_step = flxi_row_step(tall);
    double *a = flxi_take_numbers(w, k * q_step);
    flxi_reflections r = {.step = q_step, .count = k, .width = tall};
    r.h = flxi_take_numbers(w, k * q_step);
    r.tau = flxi_take_numbers(w, k);
    if (!flxi_space_counts(w))
        flxi_load_matrix(s, which, exponent, a, q_step, s->rows > s->cols);
    flxi_reflect_columns(w, a, q_step, tall, k, &r);
    for (int64_t j = 0; j < k && !flxi_space_counts(w) && !flxi_stopped(); j++)
        for (int64_t i = 0; i < k; i++)
            square.at[i * square.row + j] = i <= j ? a[j * q_step + i] : 0;
    if (q)
        flxi_reflections_product(w, &r, *q, q_step, k);
    w->used = used;
}

/* rows[k, tall] of vectors = small [k, k] q [k, tall] */
static singular find_singular(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    int64_t k = s->least, tall = s->rows > s->cols ? s->rows : s->cols;
    int64_t step = flxi_row_step(k), tall_step = flxi_row_step(tall);
    bool is_wide = s->rows < s->cols, is_square = s->rows == s->cols;
    singular y = {.is_found = true};
    double *u = flxi_take_numbers(w, k * step);
    double *v = flxi_take_numbers(w, k * step);
    double *full = is_square ? NULL : flxi_take_numbers(w, k * tall_step);
    y.d = flxi_take_numbers(w, k);
    y.o = take_ordering(w, k);
    size_t used = w->used;
    double *q = is_square ? NULL : flxi_take_numbers(w, k * tall_step);
    double *a = flxi_take_numbers(w, k * step);
    if (!flxi_space_counts(w))
        y.is_found = flxi_find_scale(s, which, &y.exponent);
    if (!y.is_found)
        return y;
    if (!is_square)
        reduce_tall(s, w, which, y.exponent, (flxi_part){a, step, 1}, &q);
    else if (!flxi_space_counts(w))
        flxi_load_matrix(s, which, y.exponent, a, step, false);
    y.is_found = flxi_square_singular(w, a, step, k, u, y.d, v);
    if (!is_square)
        flxi_multiply(w, (flxi_part){full, tall_step, 1}, (flxi_part){u, step, 1}, (flxi_part){q, tall_step, 1}, k,
                      tall, k, false);
    w->used = used;
    double *long_rows = is_square ? u : full;
    int64_t long_step = is_square ? step : tall_step;
    y.u = is_wide ? v : long_rows;
    y.v = is_wide ? long_rows : v;
    y.u_step = is_wide ? step : long_step;
    y.v_step = is_wide ? long_step : step;
    if (!flxi_space_counts(w))
        find_order(&y.o, y.d, k, true, y.u, y.u_step, s->rows);
    return y;
}

static void svd_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    int64_t k = s->least;
    singular y = find_singular(s, w, which);
    if (flxi_space_counts(w) || flxi_stopped())
        return;
    if (!y.is_found) {
        flxi_fill_nan(s, 0, which, s->rows * k);
        flxi_fill_nan(s, 1, which, k);
        flxi_fill_nan(s, 2, which, k * s->cols);
        return;
    }
    flxi_power p = flxi_power_of(y.exponent);
    for (int64_t j = 0; j < k; j++)
        flxi_store_element(s, 1, which * k + j, flxi_times(y.d[y.o.at[j]], p));
    store_rows(s, 0, which, &(signed_rows){y.u, y.u_step, k, s->rows, y.o.at, y.o.sign}, true);
    store_rows(s, 2, which, &(signed_rows){y.v, y.v_step, k, s->cols, y.o.at, y.o.sign}, false);
}

/* Singular values up to that, relative to the largest, count as 0. */
static double pinv_cutoff(const flxi_decomposing *s)
{
    const double *rcond = flxi_attr_field(&flxi_ops[s->n->op], s->n->attrs, "rcond", STORED_REAL);
    double eps = s->dtype == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    double extent = (double)(s->rows > s->cols ? s->rows : s->cols);
    return !rcond || isnan(*rcond) ? eps * extent : *rcond;
}

/* v^T diag(1 / d) u, where rows of u and v are vectors. */
static void pinv_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    int64_t k = s->least, m = s->rows, n = s->cols;
    singular y = find_singular(s, w, which);
    double *inverse = flxi_take_numbers(w, n * m);
    bool is_computed = !flxi_space_counts(w) && !flxi_stopped() && y.is_found;
    if (!flxi_space_counts(w) && !y.is_found)
        flxi_fill_nan(s, 0, which, n * m);
    double least = is_computed ? pinv_cutoff(s) * y.d[y.o.at[0]] : 0;
    for (int64_t j = 0; j < k && is_computed; j++)
        for (int64_t i = 0; i < n; i++)
            y.v[j * y.v_step + i] = y.d[j] <= least ? 0 : y.v[j * y.v_step + i] / y.d[j];
    if (is_computed || flxi_space_counts(w))
        flxi_multiply(w, (flxi_part){inverse, m, 1}, (flxi_part){y.v, 1, y.v_step}, (flxi_part){y.u, y.u_step, 1}, n, m,
                      k, false);
    flxi_power p = flxi_power_of(-y.exponent);
    for (int64_t i = 0; i < n * m && is_computed && !flxi_stopped_by_now(); i++)
        flxi_store_element(s, 0, which * n * m + i, flxi_times(inverse[i], p));
}

/* ---- cond ---- */

/* The number as the op's dtype has it. */
static double rounded(const flxi_decomposing *s, double x)
{
    return s->dtype == FLX_F64 ? x : (double)(float)x;
}

/* The quotient of the largest and the smallest singular value; no vectors. */
static void cond_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    int64_t k = s->least, step = flxi_row_step(k);
    double *a = flxi_take_numbers(w, k * step);
    double *d = flxi_take_numbers(w, k);
    double most = 0, least = INFINITY;
    int exponent = 0;
    bool is_found = flxi_space_counts(w) || flxi_find_scale(s, which, &exponent);
    if (is_found && s->rows != s->cols)
        reduce_tall(s, w, which, exponent, (flxi_part){a, step, 1}, NULL);
    else if (is_found && !flxi_space_counts(w))
        flxi_load_matrix(s, which, exponent, a, step, false);
    is_found = is_found && flxi_square_singular_values(w, a, step, k, d);
    if (flxi_space_counts(w) || flxi_stopped())
        return;
    for (int64_t j = 0; j < k && is_found; j++) {
        most = d[j] > most ? d[j] : most;
        least = d[j] < least ? d[j] : least;
    }
    flxi_power p = flxi_power_of(exponent);
    flxi_store_element(s, 0, which,
                       is_found ? rounded(s, flxi_times(most, p)) / rounded(s, flxi_times(least, p)) : NAN);
}

/* ---- expm ---- */

/* Whether it is [[a, e], [0, a]], as the derivative of expm makes it. */
static bool is_pair(const flxi_decomposing *s, int64_t which)
{
    int64_t n = s->rows, half = n / 2, first = flxi_first_of(s, which);
    bool is = n % 2 == 0;
    for (int64_t i = 0; i < half && is; i++)
        for (int64_t j = 0; j < half && is; j++) {
            double x = flxi_load_element(s, first + i * n + j),
                   y = flxi_load_element(s, first + (half + i) * n + half + j);
            is = flxi_load_element(s, first + (half + i) * n + j) == 0 && x == y;
        }
    return is;
}

static void load_pair(const flxi_decomposing *s, int64_t which, double *a)
{
    int64_t n = s->rows, half = n / 2, first = flxi_first_of(s, which);
    for (int64_t i = 0; i < half && !flxi_stopped(); i++)
        for (int64_t j = 0; j < n; j++)
            a[(j / half) * half * half + i * half + j % half] = flxi_load_element(s, first + i * n + j);
}

static void store_pair(const flxi_decomposing *s, int64_t which, const double *a)
{
    int64_t n = s->rows, half = n / 2, first = flxi_first_of(s, which);
    for (int64_t i = 0; i < n && !flxi_stopped(); i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t at = i % half * half + j % half;
            double x = j / half == i / half ? a[at] : i < half ? a[half * half + at] : 0;
            flxi_store_element(s, 0, first + i * n + j, x);
        }
}

/* Where results leave the range of double, the definition finds which are infinite. */
static void expm_widely(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    int64_t n = s->rows, first = flxi_first_of(s, which);
    double _Complex *m = flxi_take(w, flxi_expm_room(n) * sizeof *m);
    int64_t *pivots = flxi_take(w, (size_t)n * sizeof *pivots);
    if (flxi_space_counts(w))
        return;
    for (int64_t i = 0; i < n * n; i++)
        m[i] = flxi_load_element(s, first + i);
    flxi_expm(n, m, pivots);
    for (int64_t i = 0; i < n * n; i++)
        flxi_store_element(s, 0, first + i, __real__ m[i]);
}

static void expm_slice(const flxi_decomposing *s, flxi_workspace *w, int64_t which)
{
    int64_t n = s->rows, first = flxi_first_of(s, which);
    size_t used = w->used;
    double *a = flxi_take_numbers(w, n * n);
    bool counts = flxi_space_counts(w);
    bool pair = counts ? n % 2 == 0 : is_pair(s, which);
    bool is_finite = true;
    if (pair && !counts)
        load_pair(s, which, a);
    if (pair)
        is_finite = flxi_exponential(w, a, n / 2, 2);
    if (!pair || counts) {
        for (int64_t i = 0; i < n * n && !counts; i++)
            a[i] = flxi_load_element(s, first + i);
        is_finite = flxi_exponential(w, a, n, 1);
    }
    if (!counts && is_finite && pair)
        store_pair(s, which, a);
    for (int64_t i = 0; i < n * n && !counts && is_finite && !pair; i++)
        flxi_store_element(s, 0, first + i, a[i]);
    w->used = used;
    if (counts || !is_finite)
        expm_widely(s, w, which);
    w->used = used;
}

/* ---- The route ---- */

static const method methods[] = {
    {OP_qr, qr_slice},     {OP_eigh, eigh_slice}, {OP_svd, svd_slice},      {OP_pinv, pinv_slice},
    {OP_cond, cond_slice}, {OP_expm, expm_slice}, {OP_eig, flxi_eig_slice}, {OP_eig_pairs, flxi_eig_pairs_slice},
};

static flxi_decomposing make(const flxi_route_node *n, int threads)
{
    const flx_type *a = n->in_types[0];
    flxi_decomposing s = {.n = n,
                          .dtype = a->dtype,
                          .rows = a->dims[a->rank - 2],
                          .cols = a->dims[a->rank - 1],
                          .count = flxi_matrix_count(a)};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++)
        s.how = methods[k].op == n->op ? &methods[k] : s.how;
    s.least = s.rows < s.cols ? s.rows : s.cols;
    s.slots = s.count >= threads ? threads : 1;
    return s;
}

static kept_sizes sizes_with(const flxi_decomposing *s, int threads)
{
    flxi_workspace w = flxi_space_count(threads);
    s->how->run(s, &w, 0);
    return (kept_sizes){w.most, flxi_space_bytes(&w)};
}

const char *flxi_decompose_applies(const flxi_route_node *n)
{
    enum { LEAST = 4 }; /* for less, the definition is as fast */
    const flx_type *a = n->in_types[0];
    if (a->dtype != FLX_F32 && a->dtype != FLX_F64)
        return "only f32 and f64";
    if (flxi_route_count(a) == 0)
        return "nothing to compute";
    return a->dims[a->rank - 2] < LEAST || a->dims[a->rank - 1] < LEAST ? flxi_route_too_small : NULL;
}

size_t flxi_decompose_kept(const flxi_route_node *n)
{
    (void)n;
    return sizeof(kept_sizes);
}

flx_code flxi_decompose_prepare(const flxi_route_node *n, void *kept, const flxi_allocator *mem)
{
    (void)mem;
    flxi_decomposing s = make(n, 1);
    *(kept_sizes *)kept = sizes_with(&s, 1);
    return FLX_OK;
}

/* Fewer threads than these may run: each with matrices of its own, or all on one. */
size_t flxi_decompose_scratch(const flxi_route_node *n, int threads)
{
    flxi_decomposing s = make(n, threads);
    int64_t most_slots = s.count < threads ? s.count : threads;
    size_t apart = (size_t)most_slots * sizes_with(&s, 1).bytes;
    size_t together = sizes_with(&s, threads).bytes;
    return apart > together ? apart : together;
}

static void run_slot(void *user, int64_t begin, int64_t end)
{
    const flxi_decomposing *s = user;
    const kept_sizes *sizes = s->n->kept;
    for (int64_t k = begin; k < end; k++)
        for (int64_t i = k * s->count / s->slots; i < (k + 1) * s->count / s->slots && !flxi_stopped(); i++) {
            char *memory = (char *)s->n->scratch + (size_t)k * sizes->bytes;
            flxi_workspace w = flxi_space_in(memory, sizes->most, NULL);
            s->how->run(s, &w, i);
        }
}

flx_code flxi_decompose_route(const flxi_route_node *n)
{
    flxi_decomposing s = make(n, flxi_pool_threads(n->pool));
    if (s.slots > 1) {
        flxi_pool_run(n->pool, s.slots, 1, run_slot, &s);
        return FLX_OK;
    }
    for (int64_t i = 0; i < s.count && !flxi_stopped(); i++) {
        flxi_workspace w = flxi_space_in(n->scratch, ((const kept_sizes *)n->kept)->most, n->pool);
        s.how->run(&s, &w, i);
    }
    return FLX_OK;
}
