/* SPDX-License-Identifier: Apache-2.0 */
/* sparse_elimination.c: see sparse_elimination.h. Real matrices use complex arithmetic too: following the lists costs
   more than the arithmetic. */
#include "numeric/linalg/sparse_elimination.h"

#include "base/complex_arith.h"
#include "base/host/stop.h"

typedef struct {
    int64_t col;
    double _Complex value;
} entry;

typedef FLXI_VEC(entry) row; /* ascending columns */

enum { NO_ROW = -1 };

typedef struct {
    flxi_sparse_system *s;
    const flxi_allocator *mem;
    row *rows;
    int64_t *first; /* by column: a row that begins with it; NO_ROW: none */
    int64_t *next;  /* by row: another that begins with the same column */
    int64_t *pivot; /* by column: the row that it was eliminated with */
} elimination;

static double size_of(double _Complex z)
{
    return fabs(creal(z)) + fabs(cimag(z));
}

/* Adds to the entry of a column; creates it where there is none. */
static bool add_entry(const flxi_allocator *mem, row *r, int64_t col, double _Complex value)
{
    size_t at = r->n;
    while (at > 0 && r->at[at - 1].col > col)
        at--;
    if (at > 0 && r->at[at - 1].col == col) {
        r->at[at - 1].value += value;
        return true;
    }
    if (!flxi_push(mem, r, ((entry){col, value})))
        return false;
    memmove(r->at + at + 1, r->at + at, (r->n - 1 - at) * sizeof *r->at);
    r->at[at] = (entry){col, value};
    return true;
}

static void file_row(elimination *e, int64_t i)
{
    if (e->rows[i].n == 0)
        return; /* a row of zeros: a pivot will be missing */
    int64_t col = e->rows[i].at[0].col;
    e->next[i] = e->first[col];
    e->first[col] = i;
}

/* target - factor * source without their first entries, whose difference is 0 by the choice of the factor. */
static bool subtract_row(const flxi_allocator *mem, row *target, double _Complex factor, const row *source)
{
    row made = {0};
    size_t i = 1;
    size_t j = 1;
    bool ok = true;
    while (ok && (i < target->n || j < source->n)) {
        int64_t a = i < target->n ? target->at[i].col : INT64_MAX;
        int64_t b = j < source->n ? source->at[j].col : INT64_MAX;
        entry x = {a < b ? a : b, a <= b ? target->at[i].value : 0.0};
        if (b <= a)
            x.value -= flxi_cmul(factor, source->at[j].value);
        i += a <= b;
        j += b <= a;
        ok = flxi_push(mem, &made, x);
    }
    flxi_vec_free(mem, target);
    *target = made;
    return ok;
}

/* The row with the largest first entry of those that begin with this column; NO_ROW where all are zero. */
static int64_t choose_pivot(const elimination *e, int64_t col)
{
    int64_t best = NO_ROW;
    double largest = 0.0;
    for (int64_t i = e->first[col]; i != NO_ROW; i = e->next[i]) {
        double size = size_of(e->rows[i].at[0].value);
        if (size > largest || isnan(size) || (size == largest && best != NO_ROW && i < best)) {
            best = i;
            largest = size;
        }
    }
    return best;
}

static bool eliminate_column(elimination *e, int64_t col)
{
    int64_t p = e->pivot[col] = choose_pivot(e, col);
    int64_t k = e->s->sides;
    bool ok = true;
    for (int64_t i = e->first[col], after; ok && i != NO_ROW && !flxi_stopped(); i = after) {
        static const row nothing = {0};
        after = e->next[i];
        if (i == p)
            continue;
        const row *source = p == NO_ROW ? &nothing : &e->rows[p];
        double _Complex factor = p == NO_ROW ? 0.0 : flxi_cdiv(e->rows[i].at[0].value, source->at[0].value);
        ok = subtract_row(e->mem, &e->rows[i], factor, source);
        for (int64_t c = 0; ok && p != NO_ROW && c < k; c++)
            e->s->b[i * k + c] -= flxi_cmul(factor, e->s->b[p * k + c]);
        if (ok)
            file_row(e, i);
    }
    return ok;
}

/* From the last column to the first; x is written to scratch of b's size. */
static void substitute(const elimination *e, double _Complex *x)
{
    int64_t k = e->s->sides;
    for (int64_t col = e->s->n; col-- > 0 && !flxi_stopped();) {
        const row *r = &e->rows[e->pivot[col]];
        for (int64_t c = 0; c < k; c++) {
            double _Complex sum = e->s->b[e->pivot[col] * k + c];
            for (size_t j = 1; j < r->n; j++)
                sum -= flxi_cmul(r->at[j].value, x[r->at[j].col * k + c]);
            x[col * k + c] = flxi_cdiv(sum, r->at[0].value);
        }
    }
    memcpy(e->s->b, x, (size_t)(e->s->n * k) * sizeof *x);
}

static bool fill_rows(elimination *e)
{
    const flxi_sparse_system *s = e->s;
    for (int64_t i = 0; i < s->n; i++)
        e->first[i] = NO_ROW;
    for (size_t i = 0; i < s->count; i++)
        if (!add_entry(e->mem, &e->rows[s->rows[i]], s->cols[i], s->values[i]))
            return false;
    for (int64_t i = 0; i < s->n; i++)
        file_row(e, i);
    return true;
}

static bool solve_rows(elimination *e, double _Complex *x)
{
    flxi_sparse_system *s = e->s;
    s->regular = true;
    if (!fill_rows(e))
        return false;
    for (int64_t col = 0; col < s->n; col++) {
        if (flxi_stopped())
            return true; /* without pivots for the rest, which substitute() would follow */
        if (!eliminate_column(e, col))
            return false;
        s->regular = s->regular && e->pivot[col] != NO_ROW;
    }
    if (s->regular)
        substitute(e, x);
    for (int64_t i = 0; i < s->n * s->sides && !s->regular; i++)
        s->b[i] = flxi_cmake(NAN, NAN);
    return true;
}

flx_code flxi_eliminate(flxi_sparse_system *s, const flxi_allocator *mem, flx_error *err)
{
    size_t n = (size_t)s->n;
    size_t numbers = n * (size_t)s->sides;
    elimination e = {.s = s,
                     .mem = mem,
                     .rows = flxi_alloc(mem, n, sizeof *e.rows),
                     .first = flxi_alloc(mem, n, sizeof *e.first),
                     .next = flxi_alloc(mem, n, sizeof *e.next),
                     .pivot = flxi_alloc(mem, n, sizeof *e.pivot)};
    double _Complex *x = flxi_alloc(mem, numbers, sizeof *x);
    bool ok = e.rows && e.first && e.next && e.pivot && x && solve_rows(&e, x);
    for (size_t i = 0; e.rows && i < n; i++)
        flxi_vec_free(mem, &e.rows[i]);
    flxi_free(mem, e.rows, n, sizeof *e.rows);
    flxi_free(mem, e.first, n, sizeof *e.first);
    flxi_free(mem, e.next, n, sizeof *e.next);
    flxi_free(mem, e.pivot, n, sizeof *e.pivot);
    flxi_free(mem, x, numbers, sizeof *x);
    return ok ? FLX_OK : flxi_oom(err, "solving");
}
