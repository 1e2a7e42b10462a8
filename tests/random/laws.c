/* laws.c: see laws.h. Everything is in f64. Tolerances: two ways through the same arithmetic differ by rounding only, which
   sums of cancelling terms magnify, hence 1e-10 (first order) and 1e-8 (second) of the size of the terms; differences extrapolated
   once have an error of h^4 times a fifth derivative, and are believed only where two step sizes tell the same story. */
#include "laws.h"

#include "../test.h"
#include "passes/pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUT = 24, BATCH = 2 };

/* ---- Running ---- */

typedef struct {
    const flx_tensor *x[RANDOM_MAX_INPUTS];
    const flx_tensor *t[RANDOM_MAX_INPUTS];
} place;

static place here(const subject *s, bool along_u)
{
    place p = {0};
    for (size_t i = 0; i < s->n; i++) {
        p.x[i] = s->in[i].x;
        p.t[i] = along_u ? s->in[i].u : s->in[i].t;
    }
    return p;
}

static bool broken(char *detail, const char *what, const flx_error *err)
{
    snprintf(detail, LAW_DETAIL, "%s: %s: %s (%s)", what, flx_code_name(err->code), err->message, err->where);
    return false;
}

static void release(flx_tensor **out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        flx_tensor_release(out[i]);
        out[i] = NULL;
    }
}

/* The inputs of g are those of the subject and their tangents. */
static bool run_at(const subject *s, const flx_graph *g, const place *p, flx_tensor **out, flx_error *err)
{
    flx_feed feeds[RANDOM_MAX_INPUTS * 2];
    size_t n = flx_graph_input_count(g);
    for (size_t k = 0; k < n; k++) {
        const char *name = flx_val_name(g, flx_graph_input(g, k));
        bool tangent = strncmp(name, "tangent_", 8) == 0;
        feeds[k] = (flx_feed){name, NULL};
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->in[i].name, tangent ? name + 8 : name) == 0)
                feeds[k].value = tangent ? p->t[i] : p->x[i];
    }
    return flx_run(g, NULL, feeds, n, out, err) == FLX_OK;
}

static bool all_finite(flx_tensor *const *v, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (int64_t i = 0; i < flx_tensor_count(v[k]); i++)
            if (!isfinite(flx_tensor_get(v[k], i)))
                return false;
    return true;
}

/* The values at a place; false when they say nothing. */
static bool values(const subject *s, const flx_graph *g, const place *p, flx_tensor **out)
{
    flx_error err = {0};
    size_t n = flx_graph_output_count(g);
    if (n > MAX_OUT || !run_at(s, g, p, out, &err))
        return false;
    if (all_finite(out, n))
        return true;
    release(out, n);
    return false;
}

/* ---- Arithmetic on tensors ---- */

static double inner(const flx_tensor *a, const flx_tensor *b)
{
    double sum = 0.0;
    const double *p = flx_tensor_bytes(a);
    const double *q = flx_tensor_bytes(b);
    for (int64_t i = 0; i < flx_tensor_count(a); i++)
        sum += p[i] * q[i];
    return sum;
}

static bool near(double a, double b, double tolerance, double size)
{
    return fabs(a - b) <= tolerance * (1.0 + size + fabs(a) + fabs(b));
}

static double largest(const flx_tensor *a)
{
    double most = 0.0;
    for (int64_t i = 0; i < flx_tensor_count(a); i++)
        most = fmax(most, fabs(flx_tensor_get(a, i)));
    return most;
}

/* Elementwise, relative to the largest element. */
static bool near_tensors(const flx_tensor *a, const flx_tensor *b, double tolerance, char *detail, const char *what)
{
    double size = largest(b);
    if (flx_tensor_count(a) != flx_tensor_count(b) || flx_tensor_type(a)->dtype != flx_tensor_type(b)->dtype) {
        snprintf(detail, LAW_DETAIL, "%s: types differ", what);
        return false;
    }
    for (int64_t i = 0; i < flx_tensor_count(a); i++) {
        double p = flx_tensor_get(a, i);
        double q = flx_tensor_get(b, i);
        if (!near(p, q, tolerance, size)) {
            snprintf(detail, LAW_DETAIL, "%s: element %lld is %.17g and %.17g", what, (long long)i, p, q);
            return false;
        }
    }
    return true;
}

static bool same_bits(flx_tensor *const *a, flx_tensor *const *b, size_t n, char *detail, const char *what)
{
    for (size_t k = 0; k < n; k++)
        if (flx_tensor_size(a[k]) != flx_tensor_size(b[k]) ||
            memcmp(flx_tensor_bytes(a[k]), flx_tensor_bytes(b[k]), flx_tensor_size(a[k])) != 0) {
            snprintf(detail, LAW_DETAIL, "%s: output %zu changes, from %.17g to %.17g", what, k, flx_tensor_get(a[k], 0),
                     flx_tensor_get(b[k], 0));
            return false;
        }
    return true;
}

static flx_tensor *moved(const flx_tensor *x, const flx_tensor *t, double h)
{
    flx_tensor *y = flx_tensor_cast(x, FLX_F64, NULL);
    double *p = flx_tensor_data(y);
    const double *q = flx_tensor_bytes(t);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        p[i] += h * q[i];
    return y;
}

/* Outputs at step k along t. */
static bool values_at_step(const subject *s, const flx_graph *g, double h, flx_tensor **out)
{
    place p = here(s, false);
    flx_tensor *x[RANDOM_MAX_INPUTS] = {0};
    for (size_t i = 0; i < s->n; i++)
        if (s->in[i].t)
            p.x[i] = x[i] = moved(s->in[i].x, s->in[i].t, h);
    bool ok = values(s, g, &p, out);
    release(x, s->n);
    return ok;
}

/* ---- What is differentiated ---- */

typedef struct {
    const char *names[RANDOM_MAX_INPUTS];
    size_t input[RANDOM_MAX_INPUTS]; /* of the subject */
    size_t n;
} wrt_list;

static wrt_list wrt_of(const subject *s)
{
    wrt_list w = {0};
    for (size_t i = 0; i < s->n; i++)
        if (s->in[i].t && flx_graph_find(s->g, s->in[i].name).id) {
            w.input[w.n] = i;
            w.names[w.n++] = s->in[i].name;
        }
    return w;
}

static bool has_loss(const subject *s)
{
    const flx_type *t = flx_val_type(s->g, flx_graph_output(s->g, 0));
    return t && t->dtype == FLX_F64 && t->rank == 0;
}

/* Whether the laws of derivatives speak about the graph; its values in `out`. */
static bool applies(const subject *s, const wrt_list *w, flx_tensor **out)
{
    place p = here(s, false);
    return has_loss(s) && w->n > 0 && values(s, s->g, &p, out);
}

static flx_graph *gradient(const flx_graph *g, const wrt_list *w, char *detail)
{
    flx_error err = {0};
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *d = flx_grad(g, w->names, w->n, &o, &err);
    if (d && flx_graph_verify(d, &err) == FLX_OK)
        return d;
    broken(detail, "grad", &err);
    flx_graph_free(d);
    return NULL;
}

/* ---- Structure and values ---- */

static bool verifies(const subject *s, char *detail)
{
    flx_error err = {0};
    return flx_graph_verify(s->g, &err) == FLX_OK || broken(detail, "verify", &err);
}

static bool reads_back(const subject *s, char *detail)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_buffer bytes = {0};
    flx_module *a = NULL;
    flx_module *b = NULL;
    uint64_t hash = flx_graph_hash(s->g);
    bool ok = flx_graph_print(s->g, &text, &err) == FLX_OK && flx_graph_encode(s->g, &bytes, &err) == FLX_OK &&
              (a = flx_parse(s->ctx, text.data, text.size, "text", &err)) != NULL &&
              (b = flx_decode(s->ctx, bytes.data, bytes.size, "bytes", &err)) != NULL;
    if (!ok)
        broken(detail, "round trip", &err);
    else if (flx_graph_hash(flx_module_main(a)) != hash || flx_graph_hash(flx_module_main(b)) != hash)
        ok = snprintf(detail, LAW_DETAIL, "round trip: the hash changes") < 0;
    flx_module_free(a);
    flx_module_free(b);
    flx_buffer_free(&text);
    flx_buffer_free(&bytes);
    return ok;
}

/* Passes keep every bit, also of values that are not finite. */
static bool passes_keep_values(const subject *s, char *detail)
{
    static const struct {
        const char *name;
        flxi_pass run;
    } passes[] = {{"simplify", flxi_simplify}, {"cse", flxi_pass_cse}, {"dce", flxi_pass_dce}};
    flx_tensor *before[MAX_OUT] = {0};
    flx_error err = {0};
    place p = here(s, false);
    size_t n = flx_graph_output_count(s->g);
    if (n > MAX_OUT || !run_at(s, s->g, &p, before, &err))
        return true;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof passes / sizeof *passes; i++) {
        flx_graph *g = NULL;
        flx_tensor *after[MAX_OUT] = {0};
        ok = passes[i].run(s->g, &g, NULL, &err) == FLX_OK && flx_graph_verify(g, &err) == FLX_OK &&
             run_at(s, g, &p, after, &err);
        ok = ok ? same_bits(before, after, n, detail, passes[i].name) : broken(detail, passes[i].name, &err);
        release(after, n);
        flx_graph_free(g);
    }
    release(before, n);
    return ok;
}

/* ---- First order ---- */

/* Reverse against forward: <grad, t> = jvp(t). Forward against differences, for each output. */
static bool modes_agree(const subject *s, const flx_tensor *forward, const wrt_list *w, char *detail)
{
    flx_error err = {0};
    place p = here(s, false);
    size_t aux = flx_graph_output_count(s->g) - 1;
    flx_tensor *out[MAX_OUT + RANDOM_MAX_INPUTS] = {0};
    flx_graph *d = gradient(s->g, w, detail);
    bool ok = d != NULL;
    if (ok && !run_at(s, d, &p, out, &err))
        ok = broken(detail, "running the gradient", &err);
    if (ok) {
        double reverse = 0.0;
        double size = 0.0;
        for (size_t i = 0; i < w->n; i++) {
            double term = inner(out[aux + i], p.t[w->input[i]]);
            reverse += term;
            size += fabs(term) + sqrt(inner(out[aux + i], out[aux + i]));
        }
        double by_jvp = flx_tensor_get(forward, 0);
        ok = near(reverse, by_jvp, 1e-10, size);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "reverse mode gives %.17g, forward mode %.17g", reverse, by_jvp);
    }
    release(out, aux + w->n);
    flx_graph_free(d);
    return ok;
}

static bool differences_agree(flx_tensor *at[4][MAX_OUT], size_t k, const flx_tensor *tangent, char *detail)
{
    double h = random_steps[1];
    for (int64_t i = 0; i < flx_tensor_count(tangent); i++) {
        double wide = (flx_tensor_get(at[0][k], i) - flx_tensor_get(at[1][k], i)) / (2 * h);
        double narrow = (flx_tensor_get(at[2][k], i) - flx_tensor_get(at[3][k], i)) / h;
        double d = (4 * narrow - wide) / 3;
        double y = flx_tensor_get(tangent, i);
        if (fabs(wide - narrow) <= 1e-4 * (1 + fabs(narrow)) && !near(d, y, 1e-5, 0.0)) {
            snprintf(detail, LAW_DETAIL, "output %zu, element %lld: forward mode gives %.15g, differences %.12g", k,
                     (long long)i, y, d);
            return false;
        }
    }
    return true;
}

static bool first_order(const subject *s, char *detail)
{
    flx_error err = {0};
    place p = here(s, false);
    wrt_list w = wrt_of(s);
    size_t n = flx_graph_output_count(s->g);
    flx_tensor *y[MAX_OUT] = {0};
    flx_tensor *out[MAX_OUT * 2] = {0};
    flx_tensor *at[4][MAX_OUT] = {{0}};
    if (!applies(s, &w, y))
        return true;
    flx_graph *jvp = flx_jvp(s->g, w.names, w.n, &err);
    bool ok = jvp && flx_graph_verify(jvp, &err) == FLX_OK && run_at(s, jvp, &p, out, &err);
    if (!ok)
        broken(detail, "jvp", &err);
    for (size_t k = 0; ok && k < n; k++)
        ok = near_tensors(out[k], y[k], 1e-12, detail, "the value beside its tangent");
    ok = ok && modes_agree(s, out[n], &w, detail);
    bool comparable = ok;
    for (int k = 0; comparable && k < 4; k++)
        comparable = values_at_step(s, s->g, random_steps[k + 1], at[k]);
    for (size_t k = 0; ok && comparable && k < n; k++)
        if (flx_tensor_type(y[k])->dtype == FLX_F64)
            ok = differences_agree(at, k, out[n + k], detail);
    for (int k = 0; k < 4; k++)
        release(at[k], n);
    release(y, n);
    release(out, 2 * n);
    flx_graph_free(jvp);
    return ok;
}

/* ---- Second order ---- */

static double along(flx_tensor *const *h, const place *p, const wrt_list *w, double *size)
{
    double sum = 0.0;
    for (size_t i = 0; i < w->n; i++) {
        sum += inner(h[i], p->t[w->input[i]]);
        *size += sqrt(inner(h[i], h[i]));
    }
    return sum;
}

/* u'Ht = t'Hu */
static bool second_order(const subject *s, char *detail)
{
    flx_error err = {0};
    wrt_list w = wrt_of(s);
    place t = here(s, false);
    place u = here(s, true);
    flx_tensor *y[MAX_OUT] = {0};
    flx_tensor *ht[MAX_OUT] = {0};
    flx_tensor *hu[MAX_OUT] = {0};
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    if (!applies(s, &w, y))
        return true;
    release(y, flx_graph_output_count(s->g));
    flx_graph *hvp = flx_hvp(s->g, w.names, w.n, &o, &err);
    bool ok = hvp && flx_graph_verify(hvp, &err) == FLX_OK && run_at(s, hvp, &t, ht, &err) && run_at(s, hvp, &u, hu, &err);
    if (!ok) {
        broken(detail, "hvp", &err);
    } else {
        double size = 0.0;
        double a = along(ht, &u, &w, &size);
        double b = along(hu, &t, &w, &size);
        ok = near(a, b, 1e-8, size);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "u'Ht is %.17g, t'Hu is %.17g", a, b);
    }
    size_t n = hvp ? flx_graph_output_count(hvp) : 0;
    release(ht, n);
    release(hu, n);
    flx_graph_free(hvp);
    return ok;
}

/* u'Ht is how fast <grad, u> changes along t. */
static bool second_differences(const subject *s, char *detail)
{
    flx_error err = {0};
    wrt_list w = wrt_of(s);
    place t = here(s, false);
    place u = here(s, true);
    size_t aux = flx_graph_output_count(s->g) - 1;
    flx_tensor *y[MAX_OUT] = {0};
    flx_tensor *ht[MAX_OUT] = {0};
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    double slope[4] = {0};
    double size = 0.0;
    if (!applies(s, &w, y))
        return true;
    release(y, aux + 1);
    flx_graph *d = gradient(s->g, &w, detail);
    flx_graph *hvp = d ? flx_hvp(s->g, w.names, w.n, &o, &err) : NULL;
    bool ok = hvp && run_at(s, hvp, &t, ht, &err);
    bool comparable = ok;
    if (d && !ok)
        broken(detail, "hvp", &err);
    for (int k = 0; comparable && k < 4; k++) {
        flx_tensor *g[MAX_OUT] = {0};
        comparable = values_at_step(s, d, random_steps[k + 1], g);
        if (comparable)
            slope[k] = along(g + aux, &u, &w, &size);
        release(g, MAX_OUT);
    }
    if (comparable) {
        double h = random_steps[1];
        double wide = (slope[0] - slope[1]) / (2 * h);
        double narrow = (slope[2] - slope[3]) / h;
        double by_difference = (4 * narrow - wide) / 3;
        double by_hvp = along(ht, &u, &w, &size);
        ok = fabs(wide - narrow) > 1e-4 * (1 + fabs(narrow)) || near(by_hvp, by_difference, 1e-5, size);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "u'Ht is %.15g, differences of the gradient %.12g", by_hvp, by_difference);
    }
    release(ht, MAX_OUT);
    flx_graph_free(hvp);
    flx_graph_free(d);
    return ok;
}

/* ---- Batches ---- */

typedef struct {
    flx_vmap_axis axes[RANDOM_MAX_INPUTS];
    size_t n;
    bool batched[RANDOM_MAX_INPUTS]; /* by input of the subject */
} batch_plan;

/* All inputs of the graph, or those that the seed chooses. */
static batch_plan plan_batch(const subject *s)
{
    batch_plan b = {0};
    uint64_t state = s->seed ^ 0x5bd1e995u;
    bool all = test_random(&state) % 2 == 0;
    for (size_t i = 0; i < s->n; i++) {
        bool chosen = all || test_random(&state) % 2 == 0;
        if (chosen && flx_graph_find(s->g, s->in[i].name).id) {
            b.axes[b.n++] = (flx_vmap_axis){s->in[i].name, 0};
            b.batched[i] = true;
        }
    }
    return b;
}

static flx_tensor *stacked(const subject *s, const flx_tensor *a, const flx_tensor *b)
{
    flx_type t = *flx_tensor_type(a);
    memmove(t.dims + 1, t.dims, (size_t)t.rank * sizeof(flx_dim));
    t.dims[0] = BATCH;
    t.rank++;
    flx_tensor *y = flx_tensor_new(s->ctx, &t, NULL, NULL);
    CHECK(y != NULL);
    memcpy(flx_tensor_data(y), flx_tensor_bytes(a), flx_tensor_size(a));
    memcpy((char *)flx_tensor_data(y) + flx_tensor_size(a), flx_tensor_bytes(b), flx_tensor_size(b));
    return y;
}

static flx_tensor *row_of(const subject *s, const flx_tensor *t, const flx_tensor *like, size_t b)
{
    if (flx_tensor_size(t) != BATCH * flx_tensor_size(like))
        return flx_tensor_new(s->ctx, flx_tensor_type(t), flx_tensor_bytes(t), NULL);
    return flx_tensor_new(s->ctx, flx_tensor_type(like), (const char *)flx_tensor_bytes(t) + b * flx_tensor_size(like), NULL);
}

static place example(const subject *s, const batch_plan *b, size_t i)
{
    place p = here(s, false);
    for (size_t k = 0; i > 0 && k < s->n; k++)
        if (b->batched[k])
            p.x[k] = s->in[k].other;
    return p;
}

/* The places of both examples and of the batch; `held` is to be released. */
static place whole_batch(const subject *s, const batch_plan *b, flx_tensor **held)
{
    place p = here(s, false);
    for (size_t k = 0; k < s->n; k++)
        if (b->batched[k])
            p.x[k] = held[k] = stacked(s, s->in[k].x, s->in[k].other);
    return p;
}

static bool batch_is_loop(const subject *s, char *detail)
{
    flx_error err = {0};
    batch_plan b = plan_batch(s);
    flx_tensor *held[RANDOM_MAX_INPUTS] = {0};
    flx_tensor *all[MAX_OUT] = {0};
    size_t n = flx_graph_output_count(s->g);
    if (b.n == 0 || n > MAX_OUT)
        return true;
    flx_graph *v = flx_vmap(s->g, b.axes, b.n, NULL, 0, BATCH, &err);
    place p = whole_batch(s, &b, held);
    bool ok = v && flx_graph_verify(v, &err) == FLX_OK;
    if (!ok)
        broken(detail, "vmap", &err);
    bool ran = ok && run_at(s, v, &p, all, &err);
    for (size_t e = 0; ok && e < BATCH; e++) {
        flx_tensor *one[MAX_OUT] = {0};
        place q = example(s, &b, e);
        if (!values(s, s->g, &q, one))
            continue;
        if (!ran)
            ok = broken(detail, "running the batch", &err);
        for (size_t k = 0; ok && k < n; k++) {
            flx_tensor *r = row_of(s, all[k], one[k], e);
            ok = near_tensors(r, one[k], 1e-10, detail, "batch against example");
            flx_tensor_release(r);
        }
        release(one, n);
    }
    release(all, ran ? n : 0);
    release(held, s->n);
    flx_graph_free(v);
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
        flx_val total = flx_reduce_sum(c.to, (flx_val){c.remap.id[loss.id], c.to->serial}, FLX_ALL, 0);
        flx_output(c.to, total, "total");
        code = flx_graph_error(c.to, err);
    }
    if (code == FLX_OK)
        sum = flx_graph_retain(c.to);
    flx_graph_free(c.to);
    flxi_remap_free(&c.remap);
    flx_graph_free(v);
    return sum;
}

static bool gradient_is_sum(const subject *s, const batch_plan *b, const wrt_list *w, flx_tensor *const *all,
                            flx_tensor *one[BATCH][MAX_OUT], char *detail)
{
    size_t aux = flx_graph_output_count(s->g) - 1;
    for (size_t i = 0; i < w->n; i++) {
        const double *g = flx_tensor_bytes(all[i]);
        size_t n = (size_t)flx_tensor_count(one[0][aux + i]);
        double size = fmax(largest(one[0][aux + i]), largest(one[1][aux + i]));
        for (size_t k = 0; k < n; k++) {
            double a = flx_tensor_get(one[0][aux + i], (int64_t)k);
            double c = flx_tensor_get(one[1][aux + i], (int64_t)k);
            bool ok = b->batched[w->input[i]] ? near(g[k], a, 1e-9, size) && near(g[n + k], c, 1e-9, size)
                                              : near(g[k], a + c, 1e-9, size);
            if (!ok) {
                snprintf(detail, LAW_DETAIL, "gradient of the summed batch by %s, element %zu: %.17g; examples %.17g, %.17g",
                         w->names[i], k, g[k], a, c);
                return false;
            }
        }
    }
    return true;
}

static bool batch_gradients_add_up(const subject *s, char *detail)
{
    flx_error err = {0};
    batch_plan b = plan_batch(s);
    wrt_list w = wrt_of(s);
    flx_tensor *held[RANDOM_MAX_INPUTS] = {0};
    flx_tensor *all[MAX_OUT] = {0};
    flx_tensor *one[BATCH][MAX_OUT] = {{0}};
    flx_tensor *y[MAX_OUT] = {0};
    size_t n = flx_graph_output_count(s->g);
    if (b.n == 0 || !applies(s, &w, y))
        return true;
    release(y, n);
    flx_graph *d = gradient(s->g, &w, detail);
    bool usable = d != NULL;
    for (size_t e = 0; usable && e < BATCH; e++) {
        place q = example(s, &b, e);
        usable = values(s, d, &q, one[e]);
        for (size_t i = 0; usable && i < w.n; i++)
            usable = largest(one[e][n - 1 + i]) < 1e6;
    }
    bool ok = d != NULL;
    if (usable) {
        flx_graph *sum = summed_batch(s, &b, &err);
        flx_graph *dsum = sum ? gradient(sum, &w, detail) : NULL;
        place p = whole_batch(s, &b, held);
        if (!sum)
            ok = broken(detail, "vmap", &err);
        else if (!dsum)
            ok = false;
        else if (!run_at(s, dsum, &p, all, &err))
            ok = broken(detail, "running the gradient of the batch", &err);
        else
            ok = gradient_is_sum(s, &b, &w, all, one, detail);
        release(all, w.n);
        flx_graph_free(dsum);
        flx_graph_free(sum);
    }
    release(held, s->n);
    for (size_t e = 0; e < BATCH; e++)
        release(one[e], MAX_OUT);
    flx_graph_free(d);
    return ok;
}

/* ---- Jacobians ---- */

/* Integers have no Jacobian, and large ones take long. */
static bool has_small_jacobian(const subject *s, const wrt_list *w)
{
    int64_t rows = 0;
    int64_t columns = 0;
    for (size_t k = 0; k < flx_graph_output_count(s->g); k++) {
        const flx_type *t = flx_val_type(s->g, flx_graph_output(s->g, k));
        int64_t n = 1;
        for (int i = 0; i < t->rank; i++)
            n *= t->dims[i];
        rows += n;
        if (t->dtype != FLX_F64)
            return false;
    }
    for (size_t i = 0; i < w->n; i++)
        columns += flx_tensor_count(s->in[w->input[i]].x);
    return rows <= 24 && columns <= 24;
}

static bool jacobians_agree(const subject *s, char *detail)
{
    flx_error err = {0};
    wrt_list w = wrt_of(s);
    place p = here(s, false);
    flx_tensor *y[MAX_OUT] = {0};
    flx_tensor *by[2][MAX_OUT * RANDOM_MAX_INPUTS] = {{0}};
    flx_graph *jac[2] = {NULL, NULL};
    if (!has_small_jacobian(s, &w) || !applies(s, &w, y))
        return true;
    release(y, flx_graph_output_count(s->g));
    bool ok = true;
    for (uint32_t k = 0; ok && k < 2; k++) {
        flx_jacobian_options o = {.mode = k ? FLX_JACOBIAN_REVERSE : FLX_JACOBIAN_FORWARD};
        jac[k] = flx_jacobian(s->g, w.names, w.n, &o, &err);
        ok = jac[k] && flx_graph_verify(jac[k], &err) == FLX_OK && run_at(s, jac[k], &p, by[k], &err);
        if (!ok)
            broken(detail, k ? "reverse jacobian" : "forward jacobian", &err);
    }
    size_t n = ok ? flx_graph_output_count(jac[0]) : 0;
    for (size_t i = 0; ok && i < n; i++)
        ok = near_tensors(by[0][i], by[1][i], 1e-10, detail, "forward against reverse jacobian");
    for (int k = 0; k < 2; k++) {
        release(by[k], MAX_OUT * RANDOM_MAX_INPUTS);
        flx_graph_free(jac[k]);
    }
    return ok;
}

const law laws[] = {
    {"the graph verifies", verifies, 1},
    {"text and bytes read back to the same graph", reads_back, 1},
    {"simplify, cse and dce keep every bit", passes_keep_values, 1},
    {"reverse mode, forward mode and differences agree", first_order, 1},
    {"second derivatives are symmetric", second_order, 1},
    {"second derivatives are differences of the gradient", second_differences, 4},
    {"a batch is a loop over its examples", batch_is_loop, 1},
    {"the gradient of a summed batch is that of its examples", batch_gradients_add_up, 3},
    {"forward and reverse jacobians agree", jacobians_agree, 6},
};
const size_t num_laws = sizeof laws / sizeof *laws;
