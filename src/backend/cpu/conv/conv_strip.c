/* SPDX-License-Identifier: Apache-2.0 */
/* conv_strip.c: copies of parts of the input for conv_direct.h, and what its two files share. */
#include "backend/cpu/conv/conv_direct.h"
#include "backend/cpu/gemm/gemm_turn.h"

#include "base/host/stop.h"

#include <stdatomic.h>

const flxi_gemm_kernels *flxi_conv_kernels(const flxi_conv_problem *p)
{
    const flxi_gemm_kernels *k = flxi_gemm_kernels_of(flxi_gemm_kind_of(p->dtype), (flxi_isa)p->isa);
    return k ? k : flxi_gemm_kernels_of(flxi_gemm_kind_of(p->dtype), FLXI_ISA_BEST);
}

int32_t flxi_conv_sum_dtype(int32_t dtype)
{
    return flxi_gemm_packed_size(dtype) == 8 ? FLX_F64 : FLX_F32;
}

bool flxi_conv_is_by_lane(const flxi_conv_problem *p)
{
    return p->groups > 1 && p->channels == 1 && p->features == 1;
}

void flxi_conv_join_lanes(flxi_conv_problem *p, int64_t lanes)
{
    p->x.inner = p->x.group;
    p->w.outer = p->w.group;
    p->z.inner = p->z.group;
    p->x.group *= lanes;
    p->w.group *= lanes;
    p->z.group *= lanes;
    p->channels = p->features = lanes;
    p->groups = flxi_conv_parts(p->groups, lanes);
}

/* ---- Strips ---- */

typedef struct {
    int64_t begin, count, every; /* indices of the strip that meet the input */
    int64_t at, step;            /* where the first is in the input, and how far apart they are there */
} strip_run;

static strip_run run_of(const flxi_strip_axis *x)
{
    strip_run r = {.every = x->spread == 1 ? 1 : x->spread, .step = x->spread == 1 ? x->sample : 1};
    int64_t u = x->first >= 0 ? 0 : (-x->first + x->sample - 1) / x->sample;
    while (u < x->count && (x->first + u * x->sample) % x->spread != 0)
        u++;
    int64_t at = (x->first + u * x->sample) / x->spread;
    if (u >= x->count || at >= x->in)
        return r;
    int64_t fit = (x->count - u + r.every - 1) / r.every;
    int64_t there = (x->in - at + r.step - 1) / r.step;
    r.begin = u;
    r.at = at;
    r.count = fit < there ? fit : there;
    return r;
}

/* One row of the strip from one of the input; `run` says which columns meet it. */
static void fill_row(const flxi_conv_problem *p, const flxi_strip *s, const strip_run *run, const char *from, char *to)
{
    size_t in = flx_dtype_size(p->dtype);
    size_t size = flxi_gemm_packed_size(p->dtype);
    int64_t c = s->channels;
    int64_t width = s->axis[1].count;
    int64_t end = run->count ? run->begin + (run->count - 1) * run->every + 1 : 0;
    if (run->every > 1) {
        memset(to, 0, (size_t)(width * c) * size);
    } else {
        memset(to, 0, (size_t)(run->begin * c) * size);
        memset(to + (size_t)(end * c) * size, 0, (size_t)((width - end) * c) * size);
    }
    if (run->count == 0)
        return;
    int64_t step = run->step * p->x.at[1];
    from += run->at * p->x.at[1] * (int64_t)in;
    to += (size_t)(run->begin * c) * size;
    if (in == size && p->x.inner == 1 && step == c && run->every == 1)
        memcpy(to, from, (size_t)(run->count * c) * size);
    else
        flxi_turn_block(p->dtype, (flxi_isa)p->isa, &(flxi_gemm_view){from, c, p->x.inner, run->count, step}, to,
                        run->every * c);
}

/* Whether rows follow each other in the input as in the strip, without padding. */
static bool is_one_run(const flxi_conv_problem *p, const flxi_strip *s, const strip_run *rows, const strip_run *columns)
{
    return rows->every == 1 && columns->every == 1 && rows->count == s->axis[0].count &&
           columns->count == s->axis[1].count && rows->step * p->x.at[0] == columns->count * columns->step * p->x.at[1];
}

void flxi_strip_fill(const flxi_conv_problem *p, const flxi_strip *s, const char *from, char *to)
{
    int64_t in = (int64_t)flx_dtype_size(p->dtype);
    size_t row = (size_t)(s->axis[1].count * s->channels) * flxi_gemm_packed_size(p->dtype);
    strip_run rows = run_of(&s->axis[0]);
    strip_run columns = run_of(&s->axis[1]);
    flxi_strip lines = *s;
    if (is_one_run(p, s, &rows, &columns)) { /* all rows in one go */
        columns.count = lines.axis[1].count = s->axis[0].count * s->axis[1].count;
        for (int64_t i = 0; i < s->images; i++)
            fill_row(p, &lines, &columns, from + (i * p->x.outer + rows.at * p->x.at[0]) * in,
                     to + (size_t)(i * s->axis[0].count) * row);
        return;
    }
    for (int64_t i = 0; i < s->images; i++)
        for (int64_t u = 0; u < s->axis[0].count; u++, to += row) {
            int64_t at = u - rows.begin;
            bool meets = at >= 0 && at % rows.every == 0 && at / rows.every < rows.count;
            if (meets)
                fill_row(p, s, &columns,
                         from + (i * p->x.outer + (rows.at + at / rows.every * rows.step) * p->x.at[0]) * in, to);
            else
                memset(to, 0, row);
        }
}

bool flxi_strip_is_there(const flxi_conv_problem *p, const flxi_strip *s)
{
    if (p->x.inner != 1 || !flxi_gemm_is_native(p->dtype))
        return false;
    for (int k = 0; k < 2; k++) {
        const flxi_strip_axis *x = &s->axis[k];
        if (x->spread != 1 || x->first < 0 || x->first + (x->count - 1) * x->sample >= x->in)
            return false;
    }
    return true;
}

/* ---- Tasks ---- */

static void draw_tasks(void *user, int64_t begin, int64_t end)
{
    flxi_conv_job *w = user;
    (void)end;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
        if (i >= w->tasks || flxi_stopped())
            return;
        w->task(w->plan, i, w->own + (size_t)begin * w->own_bytes);
    }
}

void flxi_conv_tasks(const void *plan, int64_t tasks, void (*task)(const void *plan, int64_t task, char *own),
                     flxi_pool *pool, char *own, size_t own_bytes)
{
    flxi_conv_job w = {.task = task, .plan = plan, .tasks = tasks, .own = own, .own_bytes = own_bytes};
    flxi_pool_run(pool, flxi_conv_least(flxi_pool_threads(pool), tasks), 1, draw_tasks, &w);
}

flxi_pool *flxi_conv_pool(const flxi_conv_problem *p, flxi_pool *pool)
{
    double work = (double)p->images * (double)p->channels * (double)p->features * (double)p->groups;
    for (int k = 0; k < 2; k++)
        work *= (double)p->axis[k].out * (double)p->axis[k].taps;
    return work < 200000 ? NULL : pool;
}
