/* SPDX-License-Identifier: Apache-2.0 */
/* fourier_route.c: fft, in the precision of its operand. Tables are made when the node is compiled and kept with it;
   rows are what threads share. Several short rows are transformed side by side, as lanes of one transform, so that
   vectors run across rows; a row comes out the same, to the bit, whatever the other rows are. Error:
   numeric/fourier.h. */
#include "backend/cpu/routes/routes.h"
#include "base/host/stop.h"
#include "numeric/fourier.h"

typedef struct {
    const flxi_route_node *n;
    flxi_fourier plan;
    bool is_complex, is_wide, inverse;
    double scale;
    int64_t rows, lanes;
    int64_t slots; /* groups of lanes are distributed among that many */
} transforming;

enum { LANES = 8 };

static bool make(const flxi_route_node *n, int threads, transforming *t)
{
    const flx_type *x = n->in_types[0];
    int64_t count = flxi_route_count(x);
    int64_t last = x->dims[x->rank - 1];
    *t = (transforming){.n = n,
                        .is_complex = flxi_is_complex(x->dtype),
                        .is_wide = x->dtype == FLX_F64 || x->dtype == FLX_C128,
                        .inverse = flxi_route_int(n, "inverse")};
    if (count == 0 || !flxi_fourier_plan(t->is_complex ? last : last / 2, &t->plan))
        return false;
    t->scale = flxi_fourier_scale(flxi_route_int(n, "norm"), t->inverse, t->plan.n);
    t->rows = count / last;
    bool is_short = t->plan.inner <= 128; /* longer rows have long passes of their own, and need no transposing */
    t->lanes = t->rows < LANES || !is_short ? 1 : LANES;
    int64_t groups = (t->rows + t->lanes - 1) / t->lanes;
    t->slots = threads < groups ? threads : groups;
    return true;
}

static size_t real_size(const transforming *t)
{
    return t->is_wide ? sizeof(double) : sizeof(float);
}

/* Numbers of scratch for one slot: both parts of all lanes, and what the transform asks for. */
static size_t slot_count(const transforming *t)
{
    return (2 * (size_t)t->plan.n + flxi_fourier_work_count(&t->plan)) * (size_t)t->lanes;
}

/* `lanes` rows from `first` on. Lanes past the last row repeat it. */
#define GROUP(name, REAL, transform)                                                              \
    static void name(const transforming *t, int64_t first, REAL *re)                              \
    {                                                                                             \
        int64_t n = t->plan.n, lanes = t->lanes;                                                  \
        int64_t step = t->is_complex ? 2 : 1, other = t->is_complex ? 1 : n;                      \
        const REAL scale = (REAL)t->scale;                                                        \
        REAL *im = re + n * lanes, *work = im + n * lanes;                                        \
        for (int64_t l = 0; l < lanes; l++) {                                                     \
            int64_t row = first + l < t->rows ? first + l : t->rows - 1;                          \
            const REAL *x = (const REAL *)t->n->in[0] + 2 * n * row;                              \
            for (int64_t k = 0; k < n && !flxi_stopped_by_now(); k++) {                           \
                re[k * lanes + l] = x[k * step];                                                  \
                im[k * lanes + l] = x[k * step + other];                                          \
            }                                                                                     \
        }                                                                                         \
        transform(&t->plan, t->n->kept, t->inverse ? im : re, t->inverse ? re : im, lanes, work); \
        for (int64_t l = 0; l < lanes && first + l < t->rows; l++) {                              \
            REAL *y = (REAL *)t->n->out[0] + 2 * n * (first + l);                                 \
            for (int64_t k = 0; k < n && !flxi_stopped_by_now(); k++) {                           \
                y[k * step] = re[k * lanes + l] * scale;                                          \
                y[k * step + other] = im[k * lanes + l] * scale;                                  \
            }                                                                                     \
        }                                                                                         \
    }
GROUP(transform_f32, float, flxi_fourier_f32)
GROUP(transform_f64, double, flxi_fourier_f64)

/* Slot i takes groups i, i + slots …, with scratch of its own. */
static void transform_groups(void *user, int64_t begin, int64_t end)
{
    const transforming *t = user;
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t first = slot * t->lanes; first < t->rows && !flxi_stopped(); first += t->slots * t->lanes) {
            size_t at = (size_t)slot * slot_count(t);
            if (t->is_wide)
                transform_f64(t, first, (double *)t->n->scratch + at);
            else
                transform_f32(t, first, (float *)t->n->scratch + at);
        }
}

/* ---- The route ---- */

const char *flxi_fourier_applies(const flxi_route_node *n)
{
    transforming t;
    return make(n, 1, &t) || flxi_route_count(n->in_types[0]) == 0 ? NULL : "the transform is too long";
}

size_t flxi_fourier_scratch(const flxi_route_node *n, int threads)
{
    transforming t;
    return make(n, threads, &t) ? (size_t)t.slots * slot_count(&t) * real_size(&t) : 0;
}

size_t flxi_fourier_kept(const flxi_route_node *n)
{
    transforming t;
    return make(n, 1, &t) ? flxi_fourier_table_count(&t.plan) * real_size(&t) : 0;
}

flx_code flxi_fourier_prepare(const flxi_route_node *n, void *kept, const flxi_allocator *mem)
{
    transforming t;
    return make(n, 1, &t) ? flxi_fourier_fill(&t.plan, t.is_wide ? FLX_F64 : FLX_F32, kept, mem, n->err) : FLX_OK;
}

flx_code flxi_fourier_route(const flxi_route_node *n)
{
    transforming t;
    if (!make(n, flxi_pool_threads(n->pool), &t))
        return FLX_OK;
    bool is_small = flxi_route_count(n->in_types[0]) < 4096; /* not worth waking a thread */
    flxi_pool_run(is_small ? NULL : n->pool, t.slots, 1, transform_groups, &t);
    return FLX_OK;
}
