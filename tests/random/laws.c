/* SPDX-License-Identifier: Apache-2.0 */
/* laws.c: see laws.h. Tolerances: two ways through the same arithmetic differ by rounding only, which sums of
   cancelling terms magnify, hence in double 1e-10 (first order) and 1e-8 (second) of the size of the terms;
   finite differences extrapolated once have an error of h^4 times a fifth derivative, and are trusted, to 1e-5, only
   where two step sizes agree to that much: a kink nearby makes them differ by about as much as their error. Finite
   differences are taken of the plain subject, in double and with the values of stop_gradient as inputs. A graph of
   single precision is compared with it: its values are within 3e-6 of the plain ones, or it would not have been
   generated, and its derivatives may lose three more digits. */
#include "law_values.h"

#include "passes/calls.h"
#include "passes/pass.h"
#include "plain_subject.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Structure and values ---- */

static bool verifies(const subject *s, char *detail)
{
    flx_error err = {0};
    return flx_graph_verify(s->g, &err) == FLX_OK || law_broken(detail, "verify", &err);
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
        law_broken(detail, "round trip", &err);
    else if (flx_graph_hash(flx_module_main(a)) != hash || flx_graph_hash(flx_module_main(b)) != hash)
        ok = snprintf(detail, LAW_DETAIL, "round trip: the hash changes") < 0;
    flx_module_free(a);
    flx_module_free(b);
    flx_buffer_free(&text);
    flx_buffer_free(&bytes);
    return ok;
}

static flx_code fuse_exactly(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    const flx_rewrite_options o = {sizeof o, FLX_REWRITE_EXACT | FLX_REWRITE_REGIONS};
    (void)remap;
    *out = flx_rewrite_patterns(in, &o, NULL, err);
    return *out ? FLX_OK : (flx_code)err->code;
}

static flx_code lower_by(flx_policy policy, const flx_graph *in, flx_graph **out, flx_error *err)
{
    *out = flx_lower(in, policy, err);
    return *out ? FLX_OK : (flx_code)err->code;
}

static flx_code lower_direct(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    (void)remap;
    return lower_by(FLX_POLICY_DIRECT, in, out, err);
}

static flx_code lower_fusable(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    (void)remap;
    return lower_by(FLX_POLICY_FUSABLE, in, out, err);
}

static flx_code lower_for_autodiff(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    (void)remap;
    return lower_by(FLX_POLICY_FOR_AUTODIFF, in, out, err);
}

/* Passes keep every bit, also of values that are not finite. */
static bool passes_keep_values(const subject *s, char *detail)
{
    static const struct {
        const char *name;
        flxi_pass run;
    } passes[] = {{"simplify", flxi_simplify},
                  {"cse", flxi_pass_cse},
                  {"dce", flxi_pass_dce},
                  {"fuse", fuse_exactly},
                  {"lower, direct", lower_direct},
                  {"lower, fusable", lower_fusable},
                  {"lower, for autodiff", lower_for_autodiff},
                  {"prune calls", flxi_pass_prune_calls},
                  {"inline calls", flxi_pass_inline_calls}};
    flx_tensor *before[MAX_OUT] = {0};
    flx_error err = {0};
    law_point p = law_here(s, false);
    size_t n = flx_graph_output_count(s->g);
    if (n > MAX_OUT || !law_run(s, s->g, &p, before, &err))
        return true;
    bool ok = true;
    for (size_t i = 0; ok && i < sizeof passes / sizeof *passes; i++) {
        flx_graph *g = NULL;
        flx_tensor *after[MAX_OUT] = {0};
        ok = passes[i].run(s->g, &g, NULL, &err) == FLX_OK && flx_graph_verify(g, &err) == FLX_OK &&
             law_run(s, g, &p, after, &err);
        ok = ok ? law_same_bits(before, after, n, detail, passes[i].name) : law_broken(detail, passes[i].name, &err);
        law_release(after, n);
        flx_graph_release(g);
    }
    law_release(before, n);
    return ok;
}

/* ---- First order ---- */

/* Reverse against forward: <grad, t> = jvp(t). Forward against finite differences, for each output. */
static bool modes_agree(const subject *s, const flx_tensor *forward, const wrt_list *w, char *detail)
{
    flx_error err = {0};
    law_point p = law_here(s, false);
    size_t aux = flx_graph_output_count(s->g) - 1;
    flx_tensor *out[MAX_OUT + RANDOM_MAX_INPUTS] = {0};
    flx_graph *d = law_gradient(s->g, w, detail);
    bool ok = d != NULL;
    if (ok && !law_run(s, d, &p, out, &err))
        ok = law_broken(detail, "running the gradient", &err);
    if (ok) {
        double reverse = 0.0;
        double size = 0.0;
        for (size_t i = 0; i < w->n; i++) {
            double term = law_inner(out[aux + i], p.t[w->input[i]]);
            reverse += term;
            size += fabs(term) + sqrt(law_inner(out[aux + i], out[aux + i]));
        }
        double by_jvp = flx_tensor_get(forward, 0);
        ok = law_near(reverse, by_jvp, 1e-10, size);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "reverse mode gives %.17g, forward mode %.17g", reverse, by_jvp);
    }
    law_release(out, aux + w->n);
    flx_graph_release(d);
    return ok;
}

static bool differences_agree(flx_tensor *at[4][MAX_OUT], size_t k, const flx_tensor *tangent, char *detail)
{
    double h = random_steps[1];
    numbers t = law_numbers_of(tangent);
    numbers y[4];
    bool ok = true;
    for (int j = 0; j < 4; j++)
        y[j] = law_numbers_of(at[j][k]);
    for (int64_t i = 0; ok && i < t.n; i++) {
        double wide = (y[0].p[i] - y[1].p[i]) / (2 * h);
        double narrow = (y[2].p[i] - y[3].p[i]) / h;
        double d = (4 * narrow - wide) / 3;
        ok = fabs(wide - narrow) > 1e-5 * (1 + fabs(narrow)) || law_near(d, t.p[i], 1e-5, 0.0);
        if (!ok)
            snprintf(detail, LAW_DETAIL,
                     "output %zu, number %lld: forward mode gives %.15g, the finite difference is %.12g", k,
                     (long long)i, t.p[i], d);
    }
    for (int j = 0; j < 4; j++)
        flx_tensor_release(y[j].held);
    flx_tensor_release(t.held);
    return ok;
}

/* The law for the plain subject; it does not apply to one that cannot be made or run. */
static bool on_plain(const subject *s, char *detail, bool (*holds)(const subject *, char *))
{
    plain_subject p;
    flx_error err = {0};
    if (!law_has_loss(s) || !plain_subject_begin(&p, s, &err))
        return true;
    bool ok = holds(&p.s, detail);
    plain_subject_end(&p);
    return ok;
}

static bool plain_first_order(const subject *s, char *detail)
{
    flx_error err = {0};
    law_point p = law_here(s, false);
    wrt_list w = law_wrt(s);
    size_t n = flx_graph_output_count(s->g);
    flx_tensor *y[MAX_OUT] = {0};
    flx_tensor *out[MAX_OUT * 2] = {0};
    flx_tensor *at[4][MAX_OUT] = {{0}};
    if (!law_applies(s, &w, y))
        return true;
    flx_graph *jvp = flx_jvp(s->g, w.names, w.n, &err);
    bool ok = jvp && flx_graph_verify(jvp, &err) == FLX_OK && law_run(s, jvp, &p, out, &err);
    if (!ok)
        law_broken(detail, "jvp", &err);
    for (size_t k = 0; ok && k < n; k++)
        ok = law_near_tensors(out[k], y[k], 1e-12, detail, "the value next to its tangent");
    ok = ok && modes_agree(s, out[n], &w, detail);
    bool comparable = ok;
    for (int k = 0; comparable && k < 4; k++)
        comparable = law_values_at_step(s, s->g, random_steps[k + 1], at[k]);
    for (size_t k = 0; ok && comparable && k < n; k++)
        if (flx_tensor_type(y[k])->dtype == FLX_F64 || flx_tensor_type(y[k])->dtype == FLX_C128)
            ok = differences_agree(at, k, out[n + k], detail);
    for (int k = 0; k < 4; k++)
        law_release(at[k], n);
    law_release(y, n);
    law_release(out, 2 * n);
    flx_graph_release(jvp);
    return ok;
}

static bool first_order(const subject *s, char *detail)
{
    return on_plain(s, detail, plain_first_order);
}

/* ---- Second order ---- */

static double along(flx_tensor *const *h, const law_point *p, const wrt_list *w, double *size)
{
    double sum = 0.0;
    for (size_t i = 0; i < w->n; i++) {
        sum += law_inner(h[i], p->t[w->input[i]]);
        *size += sqrt(law_inner(h[i], h[i]));
    }
    return sum;
}

/* u'Ht = t'Hu */
static bool plain_second_order(const subject *s, char *detail)
{
    flx_error err = {0};
    wrt_list w = law_wrt(s);
    law_point t = law_here(s, false);
    law_point u = law_here(s, true);
    flx_tensor *y[MAX_OUT] = {0};
    flx_tensor *ht[MAX_OUT] = {0};
    flx_tensor *hu[MAX_OUT] = {0};
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    if (!law_applies(s, &w, y))
        return true;
    law_release(y, flx_graph_output_count(s->g));
    flx_graph *hvp = flx_hvp(s->g, w.names, w.n, &o, &err);
    bool ok =
        hvp && flx_graph_verify(hvp, &err) == FLX_OK && law_run(s, hvp, &t, ht, &err) && law_run(s, hvp, &u, hu, &err);
    if (!ok) {
        law_broken(detail, "hvp", &err);
    } else {
        double size = 0.0;
        double a = along(ht, &u, &w, &size);
        double b = along(hu, &t, &w, &size);
        ok = law_near(a, b, 1e-8, size);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "u'Ht is %.17g, t'Hu is %.17g", a, b);
    }
    size_t n = hvp ? flx_graph_output_count(hvp) : 0;
    law_release(ht, n);
    law_release(hu, n);
    flx_graph_release(hvp);
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
    wrt_list w = law_wrt(s);
    law_point t = law_here(s, false);
    law_point u = law_here(s, true);
    size_t aux = flx_graph_output_count(s->g) - 1;
    flx_tensor *y[MAX_OUT] = {0};
    flx_tensor *ht[MAX_OUT] = {0};
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    double slope[4] = {0};
    double size = 0.0;
    if (!law_applies(s, &w, y))
        return true;
    law_release(y, aux + 1);
    flx_graph *d = law_gradient(s->g, &w, detail);
    flx_graph *hvp = d ? flx_hvp(s->g, w.names, w.n, &o, &err) : NULL;
    bool ok = hvp && law_run(s, hvp, &t, ht, &err);
    bool comparable = ok;
    if (d && !ok)
        law_broken(detail, "hvp", &err);
    for (int k = 0; comparable && k < 4; k++) {
        flx_tensor *g[MAX_OUT] = {0};
        comparable = law_values_at_step(s, d, random_steps[k + 1], g);
        if (comparable)
            slope[k] = along(g + aux, &u, &w, &size);
        law_release(g, MAX_OUT);
    }
    if (comparable) {
        double h = random_steps[1];
        double wide = (slope[0] - slope[1]) / (2 * h);
        double narrow = (slope[2] - slope[3]) / h;
        double by_difference = (4 * narrow - wide) / 3;
        double by_hvp = along(ht, &u, &w, &size);
        ok = fabs(wide - narrow) > 1e-5 * (1 + fabs(narrow)) || law_near(by_hvp, by_difference, 1e-5, size);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "u'Ht is %.15g, the finite difference of gradients is %.12g", by_hvp,
                     by_difference);
    }
    law_release(ht, MAX_OUT);
    flx_graph_release(hvp);
    flx_graph_release(d);
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
    law_point p = law_here(s, false);
    d->g = how(s->g, w, &err);
    d->n = d->g ? flx_graph_output_count(d->g) : 0;
    return (d->g && flx_graph_verify(d->g, &err) == FLX_OK && law_run(s, d->g, &p, d->out, &err)) ||
           law_broken(detail, "a derivative", &err);
}

static void derivative_free(derivative *d)
{
    law_release(d->out, d->n);
    flx_graph_release(d->g);
}

/* Derivatives of a function are those of the plain one: stop_gradient is a constant, single precision is less
   accurate. */
static bool are_plain(const subject *s, const differentiate *ways, int num_ways, char *detail)
{
    flx_error err = {0};
    plain_subject p;
    wrt_list w = law_wrt(s);
    flx_tensor *y[MAX_OUT] = {0};
    if (!law_applies(s, &w, y))
        return true;
    law_release(y, flx_graph_output_count(s->g));
    if (!plain_subject_begin(&p, s, &err))
        return true;
    bool ok = true;
    for (int k = 0; ok && p.g && k < num_ways; k++) {
        derivative a = {0};
        derivative b = {0};
        ok = derive(&a, s, ways[k], &w, detail) && derive(&b, &p.s, ways[k], &w, detail);
        for (size_t i = 0; ok && i < a.n; i++)
            ok = law_near_tensors(a.out[i], b.out[i], law_tolerance(s->g, 1e-10), detail,
                                  "compared with the plain function");
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

/* A transform of the graph with a symbol equals that of the graph without; a rule may simplify where extents are
   numbers. */
static bool symbols_commute(const subject *s, char *detail)
{
    static const differentiate ways[] = {by_grad, by_jvp};
    flx_error err = {0};
    subject bound = *s;
    wrt_list w = law_wrt(s);
    flx_tensor *y[MAX_OUT] = {0};
    if (!s->num_dims || !law_applies(s, &w, y))
        return true;
    law_release(y, flx_graph_output_count(s->g));
    flx_graph *g = flx_specialise(s->g, s->dims, known_dims(s->g, s->dims, s->num_dims), &err);
    bool ok = g || law_broken(detail, "specialise", &err);
    bound.g = g;
    for (int k = 0; ok && k < 2; k++) {
        derivative a = {0};
        derivative b = {0};
        ok = derive(&a, s, ways[k], &w, detail) && derive(&b, &bound, ways[k], &w, detail);
        for (size_t i = 0; ok && i < a.n; i++)
            ok = law_near_tensors(a.out[i], b.out[i], law_tolerance(s->g, 1e-11), detail, "binding the symbol before");
        derivative_free(&a);
        derivative_free(&b);
    }
    flx_graph_release(g);
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
    wrt_list w = law_wrt(s);
    law_point p = law_here(s, false);
    flx_tensor *y[MAX_OUT] = {0};
    flx_tensor *by[2][MAX_OUT * RANDOM_MAX_INPUTS] = {{0}};
    flx_graph *jac[2] = {NULL, NULL};
    if (!law_applies(s, &w, y))
        return true;
    bool small = has_small_jacobian(s, &w, y);
    law_release(y, flx_graph_output_count(s->g));
    if (!small)
        return true;
    bool ok = true;
    for (uint32_t k = 0; ok && k < 2; k++) {
        flx_jacobian_options o = {.mode = k ? FLX_JACOBIAN_REVERSE : FLX_JACOBIAN_FORWARD};
        jac[k] = flx_jacobian(s->g, w.names, w.n, &o, &err);
        ok = jac[k] && flx_graph_verify(jac[k], &err) == FLX_OK && law_run(s, jac[k], &p, by[k], &err);
        if (!ok)
            law_broken(detail, k ? "reverse jacobian" : "forward jacobian", &err);
    }
    size_t n = ok ? flx_graph_output_count(jac[0]) : 0;
    for (size_t i = 0; ok && i < n; i++)
        ok = law_near_tensors(by[0][i], by[1][i], law_tolerance(s->g, 1e-10), detail,
                              "forward against reverse jacobian");
    for (int k = 0; k < 2; k++) {
        law_release(by[k], MAX_OUT * RANDOM_MAX_INPUTS);
        flx_graph_release(jac[k]);
    }
    return ok;
}

const law laws[] = {
    {"the graph verifies", verifies, 1},
    {"text and bytes read back to the same graph", reads_back, 1},
    {"passes and lowering keep every bit", passes_keep_values, 1},
    {"reverse mode, forward mode and finite differences agree", first_order, 1},
    {"second derivatives are symmetric", second_order, 3},
    {"second derivatives are finite differences of gradients", second_differences, 6},
    {"stop_gradient is a constant, single precision less precise", plain_derivatives, 2},
    {"the same for second derivatives", plain_hessians, 8},
    {"binding a symbol before or after a transform is the same", symbols_commute, 2},
    {"a batch is a loop over its examples", law_of_loops, 1},
    {"the gradient of a summed batch is that of its examples", law_of_sums, 3},
    {"forward and reverse jacobians agree", jacobians_agree, 6},
};
const size_t num_laws = sizeof laws / sizeof *laws;
