/* SPDX-License-Identifier: Apache-2.0 */
/* minimise.c: a graph as a function of one vector: compiled gradients and products with the Hessian, evaluated on
   tensors of their own, so that the set changes only when the method has ended. The methods are in
   minimise_methods.c. */
#include "train/minimise.h"

#include "autodiff/autodiff.h"
#include "base/distinct.h"
#include "base/options.h"
#include "passes/pass.h"

#include <fluxion/ops.h>
#include <math.h>

/* ---- Vectors ---- */

double *flxi_new_vector(flxi_minimising *m)
{
    return flxi_new(&m->arena, double, m->n);
}

/* The order of the sum is fixed, so results do not depend on threads. */
double flxi_inner_product(const flxi_minimising *m, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < m->n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void store(flx_tensor *t, const double *x)
{
    for (int64_t i = 0; i < t->count; i++)
        if (t->type.dtype == FLX_F64)
            ((double *)t->data)[i] = x[i];
        else
            ((float *)t->data)[i] = (float)x[i];
}

static void load(const flx_tensor *t, double *x)
{
    for (int64_t i = 0; i < t->count; i++)
        x[i] = flx_tensor_get(t, i);
}

/* ---- Running ---- */

static flx_code run(flxi_minimising *m, flxi_function *f)
{
    const flx_run_options o = {.struct_size = sizeof o, .stop = m->o.stop};
    m->r.evaluations++;
    return flx_exec_run(f->exec, &o, f->feeds, f->num_feeds, f->outputs, m->err);
}

static void release_outputs(flxi_function *f)
{
    for (size_t i = 0; i < f->num_outputs; i++) {
        flx_tensor_release(f->outputs[i]);
        f->outputs[i] = NULL;
    }
}

flx_code flxi_value_and_gradient(flxi_minimising *m, double *x, double *f, double *d)
{
    for (size_t i = 0; i < m->num_params; i++) {
        store(m->point[i], x + m->begin[i]);
        load(m->point[i], x + m->begin[i]);
    }
    FLXI_TRY(run(m, &m->value));
    *f = flx_tensor_get(m->value.outputs[0], 0);
    for (size_t i = 0; i < m->num_params; i++)
        load(m->value.outputs[1 + i], d + m->begin[i]);
    release_outputs(&m->value);
    return FLX_OK;
}

flx_code flxi_curvature_times(flxi_minimising *m, const double *v, double *out)
{
    for (size_t i = 0; i < m->num_params; i++) {
        store(m->point[i], m->x + m->begin[i]);
        store(m->tangent[i], v + m->begin[i]);
    }
    FLXI_TRY(run(m, &m->product));
    for (size_t i = 0; i < m->num_params; i++)
        load(m->product.outputs[i], out + m->begin[i]);
    release_outputs(&m->product);
    return FLX_OK;
}

static double largest(const flxi_minimising *m, const double *d)
{
    double most = 0;
    for (size_t i = 0; i < m->n; i++)
        most = fabs(d[i]) > most ? fabs(d[i]) : most;
    return most;
}

bool flxi_accept_point(flxi_minimising *m, const double *x, double f, const double *d)
{
    double decrease = m->f - f;
    memmove(m->x, x, m->n * sizeof *x);
    memmove(m->d, d, m->n * sizeof *d);
    m->r.gradient = largest(m, d);
    m->r.iterations++;
    m->f = f;
    if (m->r.gradient <= m->o.tolerance)
        m->r.reason = FLX_MINIMISE_GRADIENT;
    else if (decrease <= m->o.step_tolerance * fmax(fabs(f), 1e-300))
        m->r.reason = FLX_MINIMISE_STEP;
    else if (m->r.iterations >= m->o.max_iterations)
        m->r.reason = FLX_MINIMISE_LIMIT;
    else
        return false;
    return true;
}

/* ---- Making ---- */

/* Every name or pattern must match a parameter. */
static flx_code check_names(const flxi_minimising *m, const flx_graph *g)
{
    for (size_t k = 0; k < m->o.num_params; k++) {
        bool is_found = false;
        for (size_t i = 0; i < g->leaves.n; i++) {
            const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
            is_found |= flxi_is_param(flxi_node_at(g, v->node)) && flx_name_matches(m->o.params[k], v->name);
        }
        if (!is_found)
            return flxi_fail(m->err, FLX_E_NAME, "flx_minimise: no parameter of '%.60s' matches '%.60s'", g->name,
                             m->o.params[k]);
    }
    for (size_t i = 0; i < m->num_given; i++) {
        size_t leaf;
        if (m->given[i].name && !flxi_find_leaf(g, m->given[i].name, &leaf))
            return flxi_no_input(m->err, g, m->given[i].name);
    }
    FLXI_TRY(flxi_check_distinct(&g->ctx->mem, "flx_minimise: two values for", m->given, m->num_given, sizeof *m->given,
                                 m->err));
    return flxi_check_distinct(&g->ctx->mem, "flx_minimise: the list has twice", m->o.params, m->o.num_params,
                               sizeof *m->o.params, m->err);
}

static flx_code list_params(flxi_minimising *m, const flx_graph *g)
{
    FLXI_TRY(check_names(m, g));
    m->names = flxi_new(&m->arena, const char *, g->leaves.n);
    m->begin = flxi_new(&m->arena, size_t, g->leaves.n + 1);
    m->point = flxi_new(&m->arena, flx_tensor *, g->leaves.n);
    m->tangent = flxi_new(&m->arena, flx_tensor *, g->leaves.n);
    if (!m->names || !m->begin || !m->point || !m->tangent)
        return flxi_oom(m->err, "a minimisation");
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
        bool is_chosen = !m->o.params && flxi_is_float(v->type->dtype);
        for (size_t k = 0; m->o.params && k < m->o.num_params; k++)
            is_chosen |= flx_name_matches(m->o.params[k], v->name) != 0;
        if (!flxi_is_param(flxi_node_at(g, v->node)) || !is_chosen)
            continue;
        if (v->type->dtype != FLX_F64 && v->type->dtype != FLX_F32)
            return flxi_fail(m->err, FLX_E_DTYPE, "flx_minimise: the parameter '%.60s' is neither f32 nor f64",
                             v->name);
        const flx_tensor *now = flx_params_find(m->set, v->name);
        if (!now)
            return flxi_fail(m->err, FLX_E_NAME, "flx_minimise: the set has no value of the parameter '%.60s'",
                             v->name);
        FLXI_TRY(flxi_tensor_fetch(now, m->err));
        m->names[m->num_params] = v->name;
        m->begin[m->num_params + 1] = m->begin[m->num_params] + (size_t)now->count;
        m->point[m->num_params++] = flx_tensor_new(g->ctx, &now->type, now->data, m->err);
        if (!m->point[m->num_params - 1])
            return (flx_code)m->err->code;
    }
    m->n = m->begin[m->num_params];
    if (!m->num_params)
        return flxi_fail(m->err, FLX_E_USAGE, "flx_minimise: the graph '%.60s' has no parameter to change", g->name);
    return FLX_OK;
}

static flx_code make_tangents(flxi_minimising *m)
{
    for (size_t i = 0; i < m->num_params; i++)
        if (!(m->tangent[i] = flx_tensor_new(m->set->ctx, &m->point[i]->type, NULL, m->err)))
            return (flx_code)m->err->code;
    return FLX_OK;
}

static flx_tensor *given_value(const flxi_minimising *m, const char *name)
{
    for (size_t i = 0; i < m->num_params; i++)
        if (strcmp(m->names[i], name) == 0)
            return m->point[i];
    for (size_t i = 0; i < m->num_given; i++)
        if (m->given[i].name && strcmp(m->given[i].name, name) == 0)
            return (flx_tensor *)(uintptr_t)m->given[i].value;
    return flx_params_find(m->set, name);
}

/* Compiles a graph whose leaves are those of the problem, then one for each part of the direction. */
static flx_code make_function(flxi_minimising *m, flxi_function *f, const flx_graph *g, size_t num_leaves)
{
    const flx_compile_options o = {.struct_size = sizeof o, .stop = m->o.stop};
    f->feeds = flxi_new(&m->arena, flx_feed, g->leaves.n);
    f->num_feeds = g->leaves.n;
    f->num_outputs = g->outputs.n;
    f->outputs = flxi_new(&m->arena, flx_tensor *, g->outputs.n);
    if (!f->feeds || !f->outputs)
        return flxi_oom(m->err, "a minimisation");
    for (size_t i = 0; i < g->leaves.n; i++) {
        const char *name = flxi_arena_text(&m->arena, flxi_value_at(g, g->leaves.at[i])->name,
                                           strlen(flxi_value_at(g, g->leaves.at[i])->name));
        const flx_tensor *value = name && i < num_leaves ? given_value(m, name) : m->tangent[i - num_leaves];
        if (!name)
            return flxi_oom(m->err, "a minimisation");
        if (!value)
            return flxi_fail(m->err, FLX_E_MISSING_INPUT, "the input '%.60s' has no value", name);
        f->feeds[i] = (flx_feed){name, value};
    }
    f->exec = flx_compile(g, &o, m->err);
    return f->exec ? FLX_OK : (flx_code)m->err->code;
}

static flx_graph *finished(flx_graph *g, flx_error *err)
{
    if (g && flx_graph_error(g, err) == FLX_OK)
        return g;
    flx_graph_release(g);
    return NULL;
}

/* Half the sum of squares of output 0. */
static flx_graph *half_squares(const flx_graph *residual, flx_error *err)
{
    flx_graph *g = flxi_derived_graph(residual, "squares");
    flx_val r = FLX_NONE;
    if (!g) {
        flxi_oom(err, "a minimisation");
        return NULL;
    }
    flx_inline(g, residual, NULL, 0, &r, 1);
    const flx_type *type = flx_val_type(g, r);
    flx_val half = flx_scalar(g, type ? (flx_dtype)type->dtype : FLX_F64, 0.5);
    flx_output(g, flx_mul(g, half, flx_reduce_sum(g, flx_mul(g, r, r), FLX_ALL, 0)), "value");
    return finished(g, err);
}

/* The values of a body's leaves in a graph that has leaves of these names; leaf `n`, the last, is `extra`. */
static flx_code leaves_of(flxi_minimising *m, flx_graph *g, const flx_graph *body, flx_val extra, flx_val **out)
{
    *out = flxi_new(&m->arena, flx_val, body->leaves.n);
    if (!*out)
        return flxi_oom(m->err, "a minimisation");
    for (size_t i = 0; i < body->leaves.n; i++) {
        const flxi_value *v = flxi_value_at(body, body->leaves.at[i]);
        bool is_extra = extra.id && i + 1 == body->leaves.n;
        (*out)[i] = is_extra ? extra : flx_graph_find(g, v->name);
    }
    return FLX_OK;
}

/* Output: J' (J v) for each parameter. */
static flx_code append_products(flxi_minimising *m, flx_graph *g, const flx_graph *forward, const flx_graph *back)
{
    flx_val pair[2] = {FLX_NONE, FLX_NONE}, *inputs;
    flx_val *products = flxi_new(&m->arena, flx_val, back->outputs.n);
    if (!products)
        return flxi_oom(m->err, "a minimisation");
    flx_inline(g, forward, NULL, 0, pair, 2);
    FLXI_TRY(leaves_of(m, g, back, pair[1], &inputs));
    flx_inline(g, back, inputs, back->leaves.n, products, back->outputs.n);
    for (size_t i = 0; i < back->outputs.n; i++)
        flx_output(g, products[i], NULL);
    return flx_graph_error(g, m->err);
}

static flx_graph *gauss_newton_product(flxi_minimising *m, const flx_graph *residual)
{
    const flx_grad_options seeded = {.struct_size = sizeof seeded,
                                     .flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO};
    flx_graph *forward = flx_jvp(residual, m->names, m->num_params, m->err);
    flx_graph *back = forward ? flx_grad(residual, m->names, m->num_params, &seeded, m->err) : NULL;
    flx_graph *g = back ? flxi_derived_graph(residual, "product") : NULL;
    if (back && !g)
        flxi_oom(m->err, "a minimisation");
    if (g && append_products(m, g, forward, back) != FLX_OK) {
        flx_graph_release(g);
        g = NULL;
    }
    flx_graph_release(forward);
    flx_graph_release(back);
    return g;
}

static flx_code make_product(flxi_minimising *m, const flx_graph *only, const flx_graph *value)
{
    const flx_grad_options zero = {.struct_size = sizeof zero, .flags = FLX_GRAD_MISSING_ZERO};
    if (m->o.method == FLX_LBFGS)
        return FLX_OK;
    FLXI_TRY(make_tangents(m));
    flx_graph *g = m->o.method == FLX_NEWTON_CG ? flx_hvp(value, m->names, m->num_params, &zero, m->err)
                                                : gauss_newton_product(m, only);
    flx_code code = g ? make_function(m, &m->product, g, value->leaves.n) : (flx_code)m->err->code;
    flx_graph_release(g);
    return code;
}

static flx_code make_problem(flxi_minimising *m, const flx_graph *g)
{
    const flx_grad_options both = {.struct_size = sizeof both, .flags = FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO};
    flx_val first = flx_graph_output(g, 0);
    FLXI_TRY(flxi_check_loss(g, m->err));
    FLXI_TRY(list_params(m, g));
    flx_graph *only = flx_extract(g, &first, 1, m->err);
    flx_graph *value = !only                             ? NULL
                       : m->o.method == FLX_GAUSS_NEWTON ? half_squares(only, m->err)
                                                         : flx_graph_retain(only);
    flx_graph *grad = value ? flx_grad(value, m->names, m->num_params, &both, m->err) : NULL;
    flx_code code = grad ? make_function(m, &m->value, grad, grad->leaves.n) : (flx_code)m->err->code;
    if (code == FLX_OK)
        code = make_product(m, only, value);
    flx_graph_release(only);
    flx_graph_release(value);
    flx_graph_release(grad);
    return code;
}

/* ---- The whole ---- */

static flx_code begin(flxi_minimising *m)
{
    bool is_wide = true;
    for (size_t i = 0; i < m->num_params; i++)
        is_wide &= m->point[i]->type.dtype == FLX_F64;
    if (m->o.tolerance == 0)
        m->o.tolerance = is_wide ? 1e-8 : 1e-5;
    if (m->o.step_tolerance == 0)
        m->o.step_tolerance = is_wide ? 1e-15 : 1e-7;
    m->x = flxi_new_vector(m);
    m->d = flxi_new_vector(m);
    if (!m->x || !m->d)
        return flxi_oom(m->err, "a minimisation");
    for (size_t i = 0; i < m->num_params; i++)
        load(m->point[i], m->x + m->begin[i]);
    FLXI_TRY(flxi_value_and_gradient(m, m->x, &m->f, m->d));
    m->r.first = m->f;
    m->r.gradient = largest(m, m->d);
    if (!isfinite(m->f) || !isfinite(flxi_inner_product(m, m->d, m->d)))
        return flxi_fail(m->err, FLX_E_NUMERIC, "flx_minimise: the value or its gradient is not finite at the start");
    return FLX_OK;
}

static void put_back(flxi_minimising *m)
{
    m->r.value = m->f;
    for (size_t i = 0; i < m->num_params; i++)
        store(flxi_params_find(m->set, m->names[i])->value, m->x + m->begin[i]);
}

static flx_code minimise(flxi_minimising *m, const flx_graph *g)
{
    flx_code (*const methods[])(flxi_minimising *) = {flxi_lbfgs, flxi_newton_cg, flxi_gauss_newton};
    FLXI_TRY(make_problem(m, g));
    FLXI_TRY(begin(m));
    flx_code code = m->r.gradient > m->o.tolerance ? methods[m->o.method](m) : FLX_OK;
    put_back(m);
    return code;
}

static flx_code check(flx_minimise_options *o, flx_error *err)
{
    if (o->method < FLX_LBFGS || o->method > FLX_GAUSS_NEWTON)
        return flxi_fail(err, FLX_E_USAGE, "flx_minimise: unknown method %d", (int)o->method);
    if (o->max_iterations < 0 || o->history < 0 || o->history > 1000 || !(o->tolerance >= 0) ||
        !(o->step_tolerance >= 0))
        return flxi_fail_hint(err, FLX_E_USAGE, "0 means the default", "flx_minimise: an option is out of range");
    if (o->num_params && !o->params)
        return flxi_fail(err, FLX_E_USAGE, "flx_minimise: the list of parameters is missing");
    for (size_t i = 0; i < o->num_params; i++)
        if (!o->params[i])
            return flxi_fail(err, FLX_E_USAGE, "flx_minimise: the name of a parameter is NULL");
    o->max_iterations = o->max_iterations ? o->max_iterations : 200;
    o->history = o->history ? o->history : 10;
    return FLX_OK;
}

static void free_all(flxi_minimising *m)
{
    for (size_t i = 0; i < m->num_params; i++) {
        flx_tensor_release(m->point[i]);
        flx_tensor_release(m->tangent[i]);
    }
    flx_exec_free(m->value.exec);
    flx_exec_free(m->product.exec);
    flxi_arena_free(&m->arena);
}

flx_code flx_minimise(const flx_graph *g, flx_params *set, const flx_feed *feeds, size_t num_feeds,
                      const flx_minimise_options *options, flx_minimise_result *result, flx_error *err)
{
    flx_error local = {0};
    flxi_minimising m = {.set = set, .given = feeds, .num_given = num_feeds, .err = &local};
    FLXI_TRY(flx_graph_error(g, err));
    if (!set || (num_feeds && !feeds))
        return flxi_fail(err, FLX_E_USAGE, "flx_minimise: the set and feeds must be given");
    FLXI_TRY(FLXI_READ_OPTIONS(flx_minimise_options, &m.o, options, err));
    FLXI_TRY(check(&m.o, err));
    flxi_arena_init(&m.arena, set->mem);
    flx_code code = minimise(&m, g);
    if (result)
        *result = m.r;
    free_all(&m);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
