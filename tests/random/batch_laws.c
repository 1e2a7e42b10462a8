/* SPDX-License-Identifier: Apache-2.0 */
/* batch_laws.c: a batch is a loop over its examples, bit for bit and with the batch axis anywhere; and the gradient
   of the summed losses is that of the examples, each its own for a batched input and added up for a shared one. */
#include "law_values.h"

#include "passes/pass.h"
#include "test.h"

#include <fluxion/transform.h>
#include <math.h>
#include <string.h>

enum { BATCH = 2 };

typedef struct {
    flx_vmap_axis axes[RANDOM_MAX_INPUTS];
    size_t n;
    bool batched[RANDOM_MAX_INPUTS]; /* by input of the subject */
    int axis[RANDOM_MAX_INPUTS];     /* where the batch axis is in it */
    int64_t out_axes[MAX_OUT];
} batch_plan;

/* All inputs of the graph, or those that the seed chooses; with the batch axis leading or where the seed says. */
static batch_plan plan_batch(const subject *s, bool anywhere)
{
    batch_plan b = {0};
    uint64_t state = s->seed ^ 0x5bd1e995u;
    bool all = test_random(&state) % 2 == 0;
    for (size_t i = 0; i < s->n; i++) {
        bool chosen = all || test_random(&state) % 2 == 0;
        if (chosen && flx_graph_find(s->g, s->in[i].name).id) {
            uint64_t positions = (uint64_t)flx_tensor_type(s->in[i].x)->rank + 1;
            b.axis[i] = anywhere ? (int)(test_random(&state) % positions) : 0;
            b.axes[b.n++] = (flx_vmap_axis){s->in[i].name, b.axis[i]};
            b.batched[i] = true;
        }
    }
    for (size_t k = 0; anywhere && k < flx_graph_output_count(s->g) && k < MAX_OUT; k++) {
        uint64_t positions = (uint64_t)flx_val_type(s->g, flx_graph_output(s->g, k))->rank + 1;
        b.out_axes[k] = (int64_t)(test_random(&state) % positions);
    }
    return b;
}

/* Bytes of an example after the position of the batch axis. */
static size_t bytes_behind(const flx_type *t, int axis)
{
    size_t n = flx_dtype_size(t->dtype);
    for (int i = axis; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    return n;
}

static flx_tensor *stacked(const subject *s, const flx_tensor *a, const flx_tensor *b, int axis)
{
    flx_type t = *flx_tensor_type(a);
    size_t n = bytes_behind(&t, axis);
    memmove(t.dims + axis + 1, t.dims + axis, (size_t)(t.rank - axis) * sizeof(flx_dim));
    t.dims[axis] = BATCH;
    t.rank++;
    flx_tensor *y = flx_tensor_new(s->ctx, &t, NULL, NULL);
    CHECK(y != NULL);
    char *to = flx_tensor_data(y);
    for (size_t at = 0; at < flx_tensor_nbytes(a); at += n, to += 2 * n) {
        memcpy(to, (const char *)flx_tensor_const_data(a) + at, n);
        memcpy(to + n, (const char *)flx_tensor_const_data(b) + at, n);
    }
    return y;
}

static flx_tensor *row_of(const subject *s, const flx_tensor *t, const flx_tensor *like, int64_t axis, size_t b)
{
    const flx_type *type = flx_tensor_type(like);
    size_t n = bytes_behind(type, (int)axis);
    flx_tensor *y = flx_tensor_new(s->ctx, type, NULL, NULL);
    CHECK(y && flx_tensor_nbytes(t) == BATCH * flx_tensor_nbytes(like));
    for (size_t at = 0; at < flx_tensor_nbytes(like); at += n)
        memcpy((char *)flx_tensor_data(y) + at, (const char *)flx_tensor_const_data(t) + BATCH * at + b * n, n);
    return y;
}

static law_point example(const subject *s, const batch_plan *b, size_t i)
{
    law_point p = law_here(s, false);
    for (size_t k = 0; i > 0 && k < s->n; k++)
        if (b->batched[k])
            p.x[k] = s->in[k].other;
    return p;
}

/* The points of both examples and of the batch; `held` is to be released. */
static law_point whole_batch(const subject *s, const batch_plan *b, flx_tensor **held)
{
    law_point p = law_here(s, false);
    for (size_t k = 0; k < s->n; k++)
        if (b->batched[k])
            p.x[k] = held[k] = stacked(s, s->in[k].x, s->in[k].other, b->axis[k]);
    return p;
}

/* Bit for bit. */
bool law_of_loops(const subject *s, char *detail)
{
    flx_error err = {0};
    batch_plan b = plan_batch(s, true);
    flx_tensor *held[RANDOM_MAX_INPUTS] = {0};
    flx_tensor *all[MAX_OUT] = {0};
    size_t n = flx_graph_output_count(s->g);
    if (b.n == 0 || n > MAX_OUT)
        return true;
    flx_graph *v = flx_vmap(s->g, b.axes, b.n, b.out_axes, n, BATCH, &err);
    law_point p = whole_batch(s, &b, held);
    bool ok = v && flx_graph_verify(v, &err) == FLX_OK;
    if (!ok)
        law_broken(detail, "vmap", &err);
    bool ran = ok && law_run(s, v, &p, all, &err);
    for (size_t e = 0; ok && e < BATCH; e++) {
        flx_tensor *one[MAX_OUT] = {0};
        law_point q = example(s, &b, e);
        if (!law_values(s, s->g, &q, one))
            continue;
        if (!ran)
            ok = law_broken(detail, "running the batch", &err);
        for (size_t k = 0; ok && k < n; k++) {
            flx_tensor *r = row_of(s, all[k], one[k], b.out_axes[k], e);
            ok = law_same_bits(&one[k], &r, 1, detail, "batched");
            flx_tensor_release(r);
        }
        law_release(one, n);
    }
    law_release(all, ran ? n : 0);
    law_release(held, s->n);
    flx_graph_release(v);
    return ok;
}

/* Σ over the batch of the loss, as a graph of its own. */
static flx_graph *summed_batch(const subject *s, const batch_plan *b, flx_error *err)
{
    flx_graph *v = flx_vmap(s->g, b->axes, b->n, NULL, 0, BATCH, err);
    flx_val loss = v ? flx_graph_output(v, 0) : FLX_NONE;
    flxi_copy c;
    flx_graph *sum = NULL;
    if (!v)
        return NULL;
    flx_code code = flxi_copy_begin(&c, v, err);
    for (uint32_t i = 0; code == FLX_OK && i < v->node_count; i++)
        code = flxi_copy_node(&c, i);
    if (code == FLX_OK) {
        flx_val total = flx_reduce_sum(c.to, ((flx_val){c.remap.id[loss.id], c.to->serial}), FLX_ALL, 0);
        flx_output(c.to, total, "total");
        code = flx_graph_error(c.to, err);
    }
    if (code == FLX_OK)
        sum = flx_graph_retain(c.to);
    flx_graph_release(c.to);
    flxi_remap_free(&c.remap);
    flx_graph_release(v);
    return sum;
}

static bool gradient_is_sum(const subject *s, const batch_plan *b, const wrt_list *w, flx_tensor *const *all,
                            flx_tensor *one[BATCH][MAX_OUT], char *detail)
{
    size_t aux = flx_graph_output_count(s->g) - 1;
    bool ok = true;
    double slack = law_tolerance(s->g, 1e-9);
    for (size_t i = 0; ok && i < w->n; i++) {
        numbers g = law_numbers_of(all[i]);
        numbers p = law_numbers_of(one[0][aux + i]);
        numbers q = law_numbers_of(one[1][aux + i]);
        double size = fmax(law_largest(one[0][aux + i]), law_largest(one[1][aux + i]));
        for (int64_t k = 0; ok && k < p.n; k++) {
            double a = p.p[k];
            double c = q.p[k];
            ok = b->batched[w->input[i]] ? law_near(g.p[k], a, slack, size) && law_near(g.p[p.n + k], c, slack, size)
                                         : law_near(g.p[k], a + c, slack, size);
            if (!ok)
                snprintf(detail, LAW_DETAIL,
                         "gradient of the summed batch with respect to %s, number %lld: %.17g; examples %.17g, %.17g",
                         w->names[i], (long long)k, g.p[k], a, c);
        }
        flx_tensor_release(g.held);
        flx_tensor_release(p.held);
        flx_tensor_release(q.held);
    }
    return ok;
}

bool law_of_sums(const subject *s, char *detail)
{
    flx_error err = {0};
    batch_plan b = plan_batch(s, false);
    wrt_list w = law_wrt(s);
    flx_tensor *held[RANDOM_MAX_INPUTS] = {0};
    flx_tensor *all[MAX_OUT] = {0};
    flx_tensor *one[BATCH][MAX_OUT] = {{0}};
    flx_tensor *y[MAX_OUT] = {0};
    size_t n = flx_graph_output_count(s->g);
    if (b.n == 0 || !law_applies(s, &w, y))
        return true;
    law_release(y, n);
    flx_graph *d = law_gradient(s->g, &w, detail);
    bool usable = d != NULL;
    for (size_t e = 0; usable && e < BATCH; e++) {
        law_point q = example(s, &b, e);
        usable = law_values(s, d, &q, one[e]);
        for (size_t i = 0; usable && i < w.n; i++)
            usable = law_largest(one[e][n - 1 + i]) < 1e6;
    }
    bool ok = d != NULL;
    if (usable) {
        flx_graph *sum = summed_batch(s, &b, &err);
        flx_graph *dsum = sum ? law_gradient(sum, &w, detail) : NULL;
        law_point p = whole_batch(s, &b, held);
        if (!sum)
            ok = law_broken(detail, "vmap", &err);
        else if (!dsum)
            ok = false;
        else if (!law_run(s, dsum, &p, all, &err))
            ok = law_broken(detail, "running the gradient of the batch", &err);
        else
            ok = gradient_is_sum(s, &b, &w, all, one, detail);
        law_release(all, w.n);
        flx_graph_release(dsum);
        flx_graph_release(sum);
    }
    law_release(held, s->n);
    for (size_t e = 0; e < BATCH; e++)
        law_release(one[e], MAX_OUT);
    flx_graph_release(d);
    return ok;
}
