/* laws.c: see laws.h. Tolerances: two ways through the same arithmetic differ by rounding only, which sums of cancelling terms
   magnify, hence in double 1e-10 (first order) and 1e-8 (second) of the size of the terms; differences extrapolated once have an
   error of h^4 times a fifth derivative, and are believed only where two step sizes tell the same story. Differences are taken of
   the plain subject, in double and with what stop_gradient holds as inputs. A graph of single precision is held against it: its
   values are within 3e-6 of the plain ones, or it would not have been made, and its derivatives may lose three digits more. */
#include "laws.h"

#include "../test.h"
#include "passes/pass.h"
#include "plain_subject.h"

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

/* How much of a tolerance for double a graph needs. */
static double tolerance(const flx_graph *g, double in_double)
{
    return graph_is_single(g) ? 3e-3 : in_double;
}

/* The inputs of g are those of the subject and their tangents. */
static bool run_at(const subject *s, const flx_graph *g, const place *p, flx_tensor **out, flx_error *err)
{
    flx_feed feeds[RANDOM_MAX_INPUTS * 2];
    flx_run_options o = {.dims = s->dims, .num_dims = s->num_dims};
    size_t n = flx_graph_input_count(g);
    for (size_t k = 0; k < n; k++) {
        const char *name = flx_val_name(g, flx_graph_input(g, k));
        bool tangent = strncmp(name, "tangent_", 8) == 0;
        feeds[k] = (flx_feed){name, NULL};
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->in[i].name, tangent ? name + 8 : name) == 0)
                feeds[k].value = tangent ? p->t[i] : p->x[i];
    }
    return flx_run(g, &o, feeds, n, out, err) == FLX_OK;
}

/* The numbers of a tensor of any dtype; a complex one is two. */
typedef struct {
    flx_tensor *held;
    const double *p;
    int64_t n;
} numbers;

static numbers numbers_of(const flx_tensor *t)
{
    int32_t dtype = flx_tensor_type(t)->dtype;
    bool is_complex = dtype == FLX_C64 || dtype == FLX_C128;
    numbers x = {flx_tensor_cast(t, is_complex ? FLX_C128 : FLX_F64, NULL), NULL,
                 flx_tensor_count(t) * (is_complex ? 2 : 1)};
    CHECK(x.held != NULL);
    x.p = flx_tensor_bytes(x.held);
    return x;
}

static bool is_finite(const flx_tensor *t)
{
    bool ok = true;
    numbers x = numbers_of(t);
    for (int64_t i = 0; ok && i < x.n; i++)
        ok = isfinite(x.p[i]);
    flx_tensor_release(x.held);
    return ok;
}

static bool all_finite(flx_tensor *const *v, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (!is_finite(v[k]))
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

/* Re <a, b> */
static double inner(const flx_tensor *a, const flx_tensor *b)
{
    double sum = 0.0;
    numbers p = numbers_of(a);
    numbers q = numbers_of(b);
    for (int64_t i = 0; i < p.n; i++)
        sum += p.p[i] * q.p[i];
    flx_tensor_release(p.held);
    flx_tensor_release(q.held);
    return sum;
}

static bool near(double a, double b, double tolerance, double size)
{
    return fabs(a - b) <= tolerance * (1.0 + size + fabs(a) + fabs(b));
}

static double largest(const flx_tensor *a)
{
    double most = 0.0;
    numbers x = numbers_of(a);
    for (int64_t i = 0; i < x.n; i++)
        most = fmax(most, fabs(x.p[i]));
    flx_tensor_release(x.held);
    return most;
}

/* Elementwise, relative to the largest element. */
static bool near_tensors(const flx_tensor *a, const flx_tensor *b, double tolerance, char *detail, const char *what)
{
    double size = largest(b);
    numbers p = numbers_of(a);
    numbers q = numbers_of(b);
    bool ok = p.n == q.n;
    if (!ok)
        snprintf(detail, LAW_DETAIL, "%s: types differ", what);
    for (int64_t i = 0; ok && i < p.n; i++) {
        ok = near(p.p[i], q.p[i], tolerance, size);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "%s: number %lld is %.17g and %.17g", what, (long long)i, p.p[i], q.p[i]);
    }
    flx_tensor_release(p.held);
    flx_tensor_release(q.held);
    return ok;
}

static bool same_bits(flx_tensor *const *a, flx_tensor *const *b, size_t n, char *detail, const char *what)
{
    for (size_t k = 0; k < n; k++)
        if (flx_tensor_size(a[k]) != flx_tensor_size(b[k]) ||
            memcmp(flx_tensor_bytes(a[k]), flx_tensor_bytes(b[k]), flx_tensor_size(a[k])) != 0) {
            snprintf(detail, LAW_DETAIL, "%s: output %zu changes, from %.17g to %.17g", what, k,
                     flx_tensor_get(a[k], 0), flx_tensor_get(b[k], 0));
            return false;
        }
    return true;
}

/* Outputs at step k along t. */
static bool values_at_step(const subject *s, const flx_graph *g, double h, flx_tensor **out)
{
    place p = here(s, false);
    flx_tensor *x[RANDOM_MAX_INPUTS] = {0};
    for (size_t i = 0; i < s->n; i++)
        if (s->in[i].t)
            p.x[i] = x[i] = random_moved(s->in[i].x, s->in[i].t, h);
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
    numbers t = numbers_of(tangent);
    numbers y[4];
    bool ok = true;
    for (int j = 0; j < 4; j++)
        y[j] = numbers_of(at[j][k]);
    for (int64_t i = 0; ok && i < t.n; i++) {
        double wide = (y[0].p[i] - y[1].p[i]) / (2 * h);
        double narrow = (y[2].p[i] - y[3].p[i]) / h;
        double d = (4 * narrow - wide) / 3;
        ok = fabs(wide - narrow) > 1e-4 * (1 + fabs(narrow)) || near(d, t.p[i], 1e-5, 0.0);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "output %zu, number %lld: forward mode gives %.15g, differences %.12g", k,
                     (long long)i, t.p[i], d);
    }
    for (int j = 0; j < 4; j++)
        flx_tensor_release(y[j].held);
    flx_tensor_release(t.held);
    return ok;
}

/* The law for the plain subject; one that cannot be made or run is not spoken about. */
static bool on_plain(const subject *s, char *detail, bool (*holds)(const subject *, char *))
{
    plain_subject p;
    flx_error err = {0};
    if (!has_loss(s) || !plain_subject_begin(&p, s, &err))
        return true;
    bool ok = holds(&p.s, detail);
    plain_subject_end(&p);
    return ok;
}

static bool plain_first_order(const subject *s, char *detail)
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
        if (flx_tensor_type(y[k])->dtype == FLX_F64 || flx_tensor_type(y[k])->dtype == FLX_C128)
            ok = differences_agree(at, k, out[n + k], detail);
    for (int k = 0; k < 4; k++)
        release(at[k], n);
    release(y, n);
    release(out, 2 * n);
    flx_graph_free(jvp);
    return ok;
}

static bool first_order(const subject *s, char *detail)
{
    return on_plain(s, detail, plain_first_order);
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
static bool plain_second_order(const subject *s, char *detail)
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
    bool ok =
        hvp && flx_graph_verify(hvp, &err) == FLX_OK && run_at(s, hvp, &t, ht, &err) && run_at(s, hvp, &u, hu, &err);
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

static bool second_order(const subject *s, char *detail)
{
    return on_plain(s, detail, plain_second_order);
}

/* u'Ht is how fast <grad, u> changes along t. */
static bool plain_second_differences(const subject *s, char *detail)
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

static bool second_differences(const subject *s, char *detail)
{
    return on_plain(s, detail, plain_second_differences);
}

/* ---- Single precision and stop_gradient ---- */

typedef struct {
    flx_graph *g;
    flx_tensor *out[MAX_OUT + RANDOM_MAX_INPUTS];
    size_t n;
} derivative;

typedef flx_graph *(*differentiate)(const flx_graph *g, const wrt_list *w, flx_error *err);

static flx_graph *by_grad(const flx_graph *g, const wrt_list *w, flx_error *err)
{
    return flx_grad(g, w->names, w->n, &(flx_grad_options){.flags = FLX_GRAD_MISSING_ZERO}, err);
}

static flx_graph *by_jvp(const flx_graph *g, const wrt_list *w, flx_error *err)
{
    return flx_jvp(g, w->names, w->n, err);
}

static flx_graph *by_hvp(const flx_graph *g, const wrt_list *w, flx_error *err)
{
    return flx_hvp(g, w->names, w->n, &(flx_grad_options){.flags = FLX_GRAD_MISSING_ZERO}, err);
}

static bool derive(derivative *d, const subject *s, differentiate how, const wrt_list *w, char *detail)
{
    flx_error err = {0};
    place p = here(s, false);
    d->g = how(s->g, w, &err);
    d->n = d->g ? flx_graph_output_count(d->g) : 0;
    return (d->g && flx_graph_verify(d->g, &err) == FLX_OK && run_at(s, d->g, &p, d->out, &err)) ||
           broken(detail, "a derivative", &err);
}

static void derivative_free(derivative *d)
{
    release(d->out, d->n);
    flx_graph_free(d->g);
}

/* Derivatives of a function are those of the plain one: stop_gradient is a constant, single precision is less precise. */
static bool are_plain(const subject *s, const differentiate *ways, int num_ways, char *detail)
{
    flx_error err = {0};
    plain_subject p;
    wrt_list w = wrt_of(s);
    flx_tensor *y[MAX_OUT] = {0};
    if (!applies(s, &w, y))
        return true;
    release(y, flx_graph_output_count(s->g));
    if (!plain_subject_begin(&p, s, &err))
        return true;
    bool ok = true;
    for (int k = 0; ok && p.g && k < num_ways; k++) {
        derivative a = {0};
        derivative b = {0};
        ok = derive(&a, s, ways[k], &w, detail) && derive(&b, &p.s, ways[k], &w, detail);
        for (size_t i = 0; ok && i < a.n; i++)
            ok = near_tensors(a.out[i], b.out[i], tolerance(s->g, 1e-10), detail, "beside the plain function");
        derivative_free(&a);
        derivative_free(&b);
    }
    plain_subject_end(&p);
    return ok;
}

static bool plain_derivatives(const subject *s, char *detail)
{
    return are_plain(s, (differentiate[]){by_grad, by_jvp}, 2, detail);
}

static bool plain_hessians(const subject *s, char *detail)
{
    return are_plain(s, (differentiate[]){by_hvp}, 1, detail);
}

/* ---- Symbols ---- */

static flx_graph *by_vmap(const flx_graph *g, const wrt_list *w, flx_error *err)
{
    flx_vmap_axis axes[RANDOM_MAX_INPUTS];
    for (size_t i = 0; i < w->n; i++)
        axes[i] = (flx_vmap_axis){w->names[i], FLX_NO_AXIS};
    return flx_vmap(g, axes, w->n, NULL, 0, BATCH, err);
}

/* A transform of the graph with a symbol is that of the graph without; a rule may take a shorter way where extents are numbers. */
static bool symbols_commute(const subject *s, char *detail)
{
    static const differentiate ways[] = {by_grad, by_jvp, by_vmap};
    flx_error err = {0};
    subject bound = *s;
    wrt_list w = wrt_of(s);
    flx_tensor *y[MAX_OUT] = {0};
    if (!s->num_dims || !applies(s, &w, y))
        return true;
    release(y, flx_graph_output_count(s->g));
    flx_graph *g = flx_specialise(s->g, s->dims, s->num_dims, &err);
    bool ok = g || broken(detail, "specialise", &err);
    bound.g = g;
    for (int k = 0; ok && k < 3; k++) {
        derivative a = {0};
        derivative b = {0};
        ok = derive(&a, s, ways[k], &w, detail) && derive(&b, &bound, ways[k], &w, detail);
        for (size_t i = 0; ok && i < a.n; i++)
            ok = near_tensors(a.out[i], b.out[i], tolerance(s->g, 1e-11), detail, "binding the symbol before");
        derivative_free(&a);
        derivative_free(&b);
    }
    flx_graph_free(g);
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
    return flx_tensor_new(s->ctx, flx_tensor_type(like), (const char *)flx_tensor_bytes(t) + b * flx_tensor_size(like),
                          NULL);
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
            ok = near_tensors(r, one[k], tolerance(s->g, 1e-10), detail, "batch against example");
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
    bool ok = true;
    double slack = tolerance(s->g, 1e-9);
    for (size_t i = 0; ok && i < w->n; i++) {
        numbers g = numbers_of(all[i]);
        numbers p = numbers_of(one[0][aux + i]);
        numbers q = numbers_of(one[1][aux + i]);
        double size = fmax(largest(one[0][aux + i]), largest(one[1][aux + i]));
        for (int64_t k = 0; ok && k < p.n; k++) {
            double a = p.p[k];
            double c = q.p[k];
            ok = b->batched[w->input[i]] ? near(g.p[k], a, slack, size) && near(g.p[p.n + k], c, slack, size)
                                         : near(g.p[k], a + c, slack, size);
            if (!ok)
                snprintf(detail, LAW_DETAIL,
                         "gradient of the summed batch by %s, number %lld: %.17g; examples %.17g, %.17g", w->names[i],
                         (long long)k, g.p[k], a, c);
        }
        flx_tensor_release(g.held);
        flx_tensor_release(p.held);
        flx_tensor_release(q.held);
    }
    return ok;
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

/* Integers have no Jacobian, complex numbers none that is one matrix, and large ones take long. */
static bool has_small_jacobian(const subject *s, const wrt_list *w, flx_tensor *const *y)
{
    int64_t rows = 0;
    int64_t columns = 0;
    for (size_t k = 0; k < flx_graph_output_count(s->g); k++) {
        int32_t dtype = flx_tensor_type(y[k])->dtype;
        rows += flx_tensor_count(y[k]);
        if (dtype != FLX_F64 && dtype != FLX_F32)
            return false;
    }
    for (size_t i = 0; i < w->n; i++) {
        const flx_tensor *x = s->in[w->input[i]].x;
        columns += flx_tensor_count(x);
        if (flx_tensor_type(x)->dtype == FLX_C128)
            return false;
    }
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
    if (!applies(s, &w, y))
        return true;
    bool small = has_small_jacobian(s, &w, y);
    release(y, flx_graph_output_count(s->g));
    if (!small)
        return true;
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
        ok = near_tensors(by[0][i], by[1][i], tolerance(s->g, 1e-10), detail, "forward against reverse jacobian");
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
    {"second derivatives are symmetric", second_order, 3},
    {"second derivatives are differences of the gradient", second_differences, 6},
    {"stop_gradient is a constant, single precision less precise", plain_derivatives, 2},
    {"the same for second derivatives", plain_hessians, 8},
    {"binding a symbol before or after a transform is the same", symbols_commute, 2},
    {"a batch is a loop over its examples", batch_is_loop, 1},
    {"the gradient of a summed batch is that of its examples", batch_gradients_add_up, 3},
    {"forward and reverse jacobians agree", jacobians_agree, 6},
};
const size_t num_laws = sizeof laws / sizeof *laws;
