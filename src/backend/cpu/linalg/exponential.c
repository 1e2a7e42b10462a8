/* SPDX-License-Identifier: Apache-2.0 */
/* exponential.c: the exponential of a matrix by scaling, a diagonal Padé approximant and squaring (Higham 2005), and
   its derivative along another matrix by the same steps on pairs (Al-Mohy and Higham 2009): the pair (A, E) stands for
   [[A, E], [0, A]], so that (A, E) (B, F) = (A B, A F + E B).

   The degree is the least one that is accurate to the last bit of f64 for the given norm. The derivative is linear in
   E, which is scaled to the size of A: a large E costs neither squarings nor accuracy. */
#include "backend/cpu/linalg/dense_work.h"
#include "backend/cpu/linalg/factor_engine.h"
#include "base/host/stop.h"
#include "graph/type/type.h"

#include <math.h>
#include <string.h>

enum { DEGREES = 5, EVEN_POWERS = 4 };

/* Coefficients of the numerator, from the constant on; the denominator is the same with the odd signs changed. */
static const struct {
    int degree;
    double bound, pair_bound; /* of the norm, for a matrix and for a pair */
    double b[14];
} approximants[DEGREES] = {
    {3, 1.495585217958292e-2, 1.08e-2, {120, 60, 12, 1}},
    {5, 2.539398330063230e-1, 2.00e-1, {30240, 15120, 3360, 420, 30, 1}},
    {7, 9.504178996162932e-1, 7.83e-1, {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}},
    {9,
     2.097847961257068,
     1.78,
     {17643225600, 8821612800, 2075673600, 302702400, 30270240, 2162160, 110880, 3960, 90, 1}},
    {13,
     5.371920351148152,
     4.74,
     {64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
      670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1}},
};

typedef struct {
    flxi_workspace *w;
    int64_t n, size; /* size: numbers of one matrix */
    int parts;
    double *power[EVEN_POWERS]; /* a^2, a^4, a^6, a^8 */
    double *u, *v, *room;
    int64_t *pivots;
    int64_t *perm;
} expanding;

static flxi_part dense(const expanding *x, const double *a, int part)
{
    return (flxi_part){a ? (double *)(uintptr_t)(a + part * x->size) : NULL, x->n, 1};
}

static void multiply(const expanding *x, const double *a, const double *b, double *y)
{
    int64_t n = x->n;
    flxi_multiply(x->w, dense(x, y, 0), dense(x, a, 0), dense(x, b, 0), n, n, n, false);
    if (x->parts == 1)
        return;
    flxi_multiply(x->w, dense(x, y, 1), dense(x, a, 0), dense(x, b, 1), n, n, n, false);
    flxi_multiply(x->w, dense(x, y, 1), dense(x, a, 1), dense(x, b, 0), n, n, n, true);
}

/* ---- Sums of powers ---- */

typedef struct {
    const expanding *x;
    const double *terms[EVEN_POWERS + 1];
    double factors[EVEN_POWERS + 1], unit; /* unit: times the identity */
    int count;
    double *y;
} summing;

enum { CHUNK = 4096 };

static void sum_chunk(void *user, int64_t begin, int64_t end)
{
    const summing *s = user;
    int64_t next = s->x->n + 1;
    memset(s->y + begin, 0, (size_t)(end - begin) * sizeof *s->y);
    for (int k = 0; k < s->count; k++)
        s->x->w->rows->combine(s->y + begin, s->terms[k] + begin, 0, 1, &s->factors[k], end - begin);
    for (int64_t i = (begin + next - 1) / next * next; i < end && i < s->x->size; i += next)
        s->y[i] += s->unit;
}

static void sum_up(const summing *s)
{
    int64_t count = s->x->size * s->x->parts;
    if (!flxi_space_counts(s->x->w))
        flxi_pool_run(count <= CHUNK ? NULL : s->x->w->pool, count, CHUNK, sum_chunk, (void *)(uintptr_t)s);
}

/* y = unit 1 + Σ_k b[2 k] a^2k for `count` powers, plus `rest` if it is not NULL. */
static void sum_powers(const expanding *x, double unit, const double *b, int count, const double *rest, double *y)
{
    summing s = {.x = x, .unit = unit, .y = y};
    if (rest) {
        s.terms[s.count] = rest;
        s.factors[s.count++] = 1;
    }
    for (int k = 0; k < count; k++) {
        s.terms[s.count] = x->power[k];
        s.factors[s.count++] = b[2 * k];
    }
    sum_up(&s);
}

/* y = p a + q b */
static void sum_two(const expanding *x, double p, const double *a, double q, const double *b, double *y)
{
    summing s = {.x = x, .terms = {a, b}, .factors = {p, q}, .count = 2, .y = y};
    sum_up(&s);
}

/* u and v, the odd and the even part of the numerator. */
static void find_parts(expanding *x, const double *a, int which)
{
    const double *b = approximants[which].b;
    int degree = approximants[which].degree;
    multiply(x, a, a, x->power[0]);
    if (degree > 3)
        multiply(x, x->power[0], x->power[0], x->power[1]);
    if (degree > 5)
        multiply(x, x->power[1], x->power[0], x->power[2]);
    if (degree == 9)
        multiply(x, x->power[1], x->power[1], x->power[3]);
    if (degree < 13) {
        sum_powers(x, b[1], b + 3, degree / 2, NULL, x->room);
        multiply(x, a, x->room, x->u);
        sum_powers(x, b[0], b + 2, degree / 2, NULL, x->v);
        return;
    }
    sum_powers(x, 0, b + 9, 3, NULL, x->v);
    multiply(x, x->power[2], x->v, x->u);
    sum_powers(x, b[1], b + 3, 3, x->u, x->room);
    multiply(x, a, x->room, x->u);
    sum_powers(x, 0, b + 8, 3, NULL, x->room);
    multiply(x, x->power[2], x->room, x->v);
    sum_powers(x, b[0], b + 2, 3, x->v, x->room);
    double *v = x->room;
    x->room = x->v;
    x->v = v;
}

/* ---- The quotient ---- */

static void solve_factored(const expanding *x, const double *lu, const double *b, double *y)
{
    int64_t n = x->n;
    flxi_factor_job j = {.dtype = FLX_F64, .pool = x->w->pool, .scratch = x->w->products};
    for (int64_t i = 0; i < n; i++)
        memcpy(y + i * n, b + x->perm[i] * n, (size_t)n * sizeof *y);
    flxi_block_engine.triangular(&j, lu, &(flxi_triangle){.n = n, .row = n, .col = 1, .lower = true, .unit = true}, y,
                                 n);
    flxi_block_engine.triangular(&j, lu, &(flxi_triangle){.n = n, .row = n, .col = 1}, y, n);
}

static size_t quotient_bytes(int64_t n, int threads)
{
    flxi_triangle upper = {.n = n, .row = n, .col = 1};
    flxi_triangle lower = {.n = n, .row = n, .col = 1, .lower = true, .unit = true};
    size_t bytes[3] = {flxi_block_engine.lu_scratch(FLX_F64, n, n, threads),
                       flxi_block_engine.triangular_scratch(FLX_F64, &upper, n, threads),
                       flxi_block_engine.triangular_scratch(FLX_F64, &lower, n, threads)};
    size_t most = bytes[0] > bytes[1] ? bytes[0] : bytes[1];
    return bytes[2] > most ? bytes[2] : most;
}

/* a = (v - u)^-1 (v + u); of a pair, the second part solves the same system after what the first part gives is
   subtracted. */
static void divide(const expanding *x, double *a)
{
    int64_t n = x->n;
    double *above = x->room, *below = x->power[0];
    flxi_factor_job j = {.dtype = FLX_F64, .pool = x->w->pool, .scratch = x->w->products};
    if (!flxi_space_counts(x->w)) {
        sum_two(x, 1, x->v, 1, x->u, above);
        sum_two(x, 1, x->v, -1, x->u, below);
        for (int64_t i = x->size; i < x->size * x->parts; i++)
            below[i] = -below[i];
        flxi_block_engine.lu(&j, below, n, n, x->pivots);
        flxi_permutation_of(x->pivots, n, n, x->perm);
        solve_factored(x, below, above, a);
    }
    if (x->parts == 1)
        return;
    flxi_multiply(x->w, dense(x, above, 1), dense(x, below, 1), dense(x, a, 0), n, n, n, true);
    if (!flxi_space_counts(x->w))
        solve_factored(x, below, above + x->size, a + x->size);
}

/* ---- Scaling ---- */

/* The largest column sum times 2^-128, which cannot overflow; negative: an element is not finite. */
static double norm_of(const expanding *x, const double *a)
{
    double most = 0;
    double *sums = x->room;
    memset(sums, 0, (size_t)x->n * sizeof *sums);
    for (int64_t i = 0; i < x->n && !flxi_stopped(); i++)
        for (int64_t j = 0; j < x->n; j++)
            sums[j] += fabs(a[i * x->n + j]) * 0x1p-128;
    for (int64_t j = 0; j < x->n; j++) {
        if (!(sums[j] < INFINITY))
            return -1;
        most = sums[j] > most ? sums[j] : most;
    }
    return most;
}

static void scale(double *a, int64_t count, int exponent)
{
    for (int64_t i = 0; i < count && !flxi_stopped_by_now(); i++)
        a[i] = ldexp(a[i], exponent);
}

static double bound_of(const expanding *x, int which)
{
    return x->parts == 2 ? approximants[which].pair_bound : approximants[which].bound;
}

/* How often to halve, and the approximant to use then. */
static int halvings_for(const expanding *x, double norm, int *which)
{
    int exponent = 0;
    for (*which = 0; *which < DEGREES; ++*which)
        if (norm <= bound_of(x, *which) * 0x1p-128)
            return 0;
    *which = DEGREES - 1;
    frexp(norm / bound_of(x, *which), &exponent);
    return exponent + 128 > 0 ? exponent + 128 : 0;
}

static bool is_finite(const expanding *x, const double *a)
{
    bool is = true;
    for (int64_t i = 0; i < x->size * x->parts; i++)
        is = is && isfinite(a[i]);
    return is;
}

static void take_memory(expanding *x)
{
    int64_t count = x->size * x->parts;
    for (int k = 0; k < EVEN_POWERS; k++)
        x->power[k] = flxi_take_numbers(x->w, count);
    x->u = flxi_take_numbers(x->w, count);
    x->v = flxi_take_numbers(x->w, count);
    x->room = flxi_take_numbers(x->w, count);
    x->pivots = flxi_take(x->w, (size_t)x->n * sizeof *x->pivots);
    x->perm = flxi_take(x->w, (size_t)x->n * sizeof *x->perm);
}

/* What products want: one approximant needs those that all do. */
static void count_products(expanding *x)
{
    find_parts(x, NULL, DEGREES - 1);
    divide(x, NULL);
    flxi_space_want(x->w, quotient_bytes(x->n, x->w->threads));
}

bool flxi_exponential(flxi_workspace *w, double *a, int64_t n, int parts)
{
    size_t used = w->used;
    int which = 0, direction = 0;
    expanding x = {.w = w, .n = n, .size = n * n, .parts = parts};
    take_memory(&x);
    w->used = used;
    if (flxi_space_counts(w)) {
        count_products(&x);
        return true;
    }
    double norm = norm_of(&x, a);
    double other = parts == 2 ? norm_of(&x, a + x.size) : 0;
    if (norm < 0 || other < 0)
        return false;
    int times = halvings_for(&x, norm, &which);
    scale(a, x.size, -times);
    if (parts == 2 && other > 0) {
        frexp(other, &direction);
        direction += 128;
        scale(a + x.size, x.size, -direction - times);
    }
    find_parts(&x, a, which);
    divide(&x, a);
    for (int k = 0; k < times && !flxi_stopped(); k++) {
        multiply(&x, a, a, x.room);
        flxi_stop_copy(a, x.room, (size_t)(x.size * parts) * sizeof *a);
    }
    if (parts == 2)
        scale(a + x.size, x.size, direction);
    return flxi_stopped() || is_finite(&x, a);
}
