/* SPDX-License-Identifier: Apache-2.0 */
/* experiment.c: see experiment.h. */
#include "experiment.h"

#include "graph/op/site.h"
#include "ops/opcode.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Named values ---- */

void bag_put(bag *b, const char *name, flx_tensor *t)
{
    CHECK(b->n < MAX_LEAVES && t);
    snprintf(b->name[b->n], sizeof b->name[0], "%s", name);
    b->value[b->n++] = t;
}

flx_tensor *bag_get(const bag *b, const char *name)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->name[i], name) == 0)
            return b->value[i];
    return NULL;
}

void bag_free(bag *b)
{
    release_all(b->value, b->n);
    b->n = 0;
}

void release_all(flx_tensor **t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        flx_tensor_release(t[i]);
        t[i] = NULL;
    }
}

/* ---- Numbers ---- */

int experiment_parts(int32_t dtype)
{
    return flxi_is_complex(dtype) ? 2 : 1;
}

double experiment_pair(const flx_tensor *a, const flx_tensor *b)
{
    double sum = 0.0;
    int64_t n = flx_tensor_count(a) * experiment_parts(flx_tensor_type(a)->dtype);
    const double *p = flx_tensor_const_data(a);
    const double *q = flx_tensor_const_data(b);
    for (int64_t i = 0; i < n; i++)
        sum += p[i] * q[i];
    return sum;
}

flx_tensor *experiment_random(flx_context *ctx, const flx_type *type, uint64_t *state)
{
    flx_tensor *t = flx_tensor_new(ctx, type, NULL, NULL);
    CHECK(t != NULL);
    double *p = flx_tensor_data(t);
    for (int64_t i = 0; i < flx_tensor_count(t) * experiment_parts(type->dtype); i++)
        p[i] = 2.0 * test_uniform(state) - 1.0;
    return t;
}

bool experiment_close(double a, double b, double tolerance, double size)
{
    return a == b || fabs(a - b) <= tolerance * (1.0 + size + fabs(a) + fabs(b)) || (isnan(a) && isnan(b));
}

bool experiment_same(const flx_tensor *a, const flx_tensor *b, double tolerance, const char *what)
{
    const flx_type *t = flx_tensor_type(a);
    double size = 0.0;
    if (!EXPECT_MSG(flxi_type_equal(t, flx_tensor_type(b)), "%s: the types differ", what))
        return false;
    int64_t n = flx_tensor_count(a) * experiment_parts(t->dtype);
    const double *p = flx_tensor_const_data(a);
    const double *q = flx_tensor_const_data(b);
    for (int64_t i = 0; i < n; i++)
        size = isfinite(p[i]) ? fmax(size, fabs(p[i])) : size;
    for (int64_t i = 0; i < n; i++)
        if (!EXPECT_MSG(experiment_close(p[i], q[i], tolerance, size), "%s: number %lld is %.17g and %.17g", what,
                        (long long)i, p[i], q[i]))
            return false;
    return true;
}

/* ---- The loss ---- */

/* L(a…, w…) around the op's graph. Elements that are not finite (empty folds) are excluded: they have no finite
   differences. */
static flx_graph *make_loss(const experiment *x)
{
    const flx_graph *g = x->g;
    flx_graph *l = flx_graph_new(x->ctx, "loss");
    flx_val in[MAX_LEAVES];
    flx_val y[MAX_OUT];
    flx_val w[MAX_OUT];
    flx_val total = FLX_NONE;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        in[i] = flx_input(l, flx_val_name(g, v), flx_val_type(g, v));
    }
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        char name[32];
        const flx_type *t = flx_val_type(g, flx_graph_output(g, k));
        snprintf(name, sizeof name, "w%zu", k);
        w[k] = x->weighs[k] ? flx_input(l, name, t) : FLX_NONE;
    }
    flxi_inline(l, g, in, y);
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        if (!w[k].id)
            continue;
        const flx_type *t = flx_val_type(l, w[k]);
        flx_val finite = flx_where(l, flx_is_finite(l, y[k]), y[k], flx_scalar(l, (flx_dtype)t->dtype, 0.0));
        flx_val p = flxi_is_complex(t->dtype) ? flx_real(l, flx_mul(l, flx_conjugate(l, w[k]), finite))
                                              : flx_mul(l, w[k], finite);
        flx_val sum = flx_reduce_sum(l, p, FLX_ALL, 0);
        flx_dtype dtype =
            (flx_dtype)flx_val_type(l, total.id ? total : sum)->dtype; /* results of a narrow op may differ */
        total = total.id ? flx_add(l, total, flx_cast(l, sum, dtype)) : sum;
    }
    if (total.id)
        flx_output(l, total, "loss");
    return l;
}

/* ---- Setting up ---- */

/* Of the dtypes that have a derivative, those in which finite differences are meaningful. */
static bool is_wide(int32_t dtype)
{
    return dtype == FLX_F64 || dtype == FLX_C128;
}

static bool may_differentiate(const experiment *x, size_t i, const flx_type *t)
{
    flxi_role role = flxi_operand_role(flxi_operands_of(&flxi_ops[x->c->op]), (uint32_t)i);
    bool is_splat = x->c->op == OP_gaussian_splat_render || x->c->op == OP_gaussian_splat_render_backward;
    bool undefined = i == 0 && x->c->op == OP_polygamma; /* tests/ops/elementwise/special.c */
    undefined |= i == 6 && is_splat;                     /* tests/ops/splat/splat.c */
    return is_wide(t->dtype) && !undefined && (role == ROLE_SAME || role == ROLE_ANY || role == ROLE_PAIR);
}

static void add_wrt(experiment *x, const char *name)
{
    snprintf(x->wrt[x->count], sizeof x->wrt[0], "%s", name);
    x->names[x->count] = x->wrt[x->count];
    x->count++;
}

static void add_direction(experiment *x, const char *name, const char *suffix, const flx_type *t, uint64_t *state)
{
    char tangent[80];
    snprintf(tangent, sizeof tangent, "tangent_%s%s", name, suffix);
    bag_put(&x->in, tangent, experiment_random(x->ctx, t, state));
}

static bool fill_inputs(experiment *x)
{
    flx_error err = {0};
    uint64_t state = sample_seed(x->c);
    flx_graph *bound = flx_specialise(x->loss, x->dims, x->num_dims, &err);
    if (!EXPECT_MSG(bound != NULL, "%s", err.message))
        return false;
    size_t operands = flx_graph_input_count(x->g);
    for (size_t i = 0; i < flx_graph_input_count(bound); i++) {
        flx_val v = flx_graph_input(bound, i);
        const flx_type *t = flx_val_type(bound, v);
        const char *name = flx_val_name(bound, v);
        bag_put(&x->in, name,
                i < operands ? sample_value(x->ctx, x->c, i, t, FILL_RANDOM, &state, &err)
                             : experiment_random(x->ctx, t, &state));
        if (i < operands && may_differentiate(x, i, t)) {
            add_wrt(x, name);
            add_direction(x, name, "", t, &state);
            add_direction(x, name, "_2", t, &state);
        }
    }
    flx_graph_release(bound);
    return true;
}

bool experiment_parse(experiment *x, const sample_case *c)
{
    flx_error err = {0};
    *x = (experiment){.c = c, .ctx = flx_context_new(NULL)};
    x->m = sample_parse(x->ctx, c, &err);
    x->g = flx_module_main(x->m);
    for (const char *s; x->m && x->num_dims < 8 && (s = flx_graph_symbol(x->g, x->num_dims)) != NULL; x->num_dims++)
        x->dims[x->num_dims] = (flx_dim_binding){s, SAMPLE_EXTENT};
    return x->m && flx_graph_output_count(x->g) <= MAX_OUT && flx_graph_input_count(x->g) <= MAX_OPERANDS;
}

bool experiment_begin(experiment *x, const sample_case *c)
{
    bool any = false;
    if (!experiment_parse(x, c))
        return false;
    for (size_t k = 0; k < flx_graph_output_count(x->g); k++)
        any |= x->weighs[k] = is_wide(flx_val_type(x->g, flx_graph_output(x->g, k))->dtype);
    if (!any)
        return false;
    x->loss = make_loss(x);
    return fill_inputs(x) && x->count > 0;
}

static flx_tensor *narrowed(flx_context *ctx, const flx_tensor *t, int32_t dtype)
{
    flx_tensor *same = flx_tensor_new(ctx, flx_tensor_type(t), flx_tensor_const_data(t), NULL);
    flx_tensor *y = same ? flx_tensor_cast(same, (flx_dtype)dtype, NULL) : NULL;
    flx_tensor_release(same);
    CHECK(y != NULL);
    return y;
}

bool experiment_begin_narrow(experiment *x, const sample_case *c, const experiment *wide)
{
    if (!experiment_parse(x, c))
        return false;
    memcpy(x->weighs, wide->weighs, sizeof x->weighs);
    x->loss = make_loss(x);
    for (size_t i = 0; i < wide->count; i++)
        add_wrt(x, wide->names[i]);
    for (size_t i = 0; i < wide->in.n; i++) {
        const char *name = wide->in.name[i];
        const char *of = strncmp(name, "tangent_", 8) == 0 ? name + 8 : name; /* a direction has its operand's type */
        char base[64];
        snprintf(base, sizeof base, "%.*s", (int)strcspn(of, "_"), of);
        const flx_type *t = flx_val_type(x->loss, flx_graph_find(x->loss, base));
        if (!t)
            return false;
        bag_put(&x->in, name, narrowed(x->ctx, wide->in.value[i], t->dtype));
    }
    return true;
}

void experiment_end(experiment *x)
{
    bag_free(&x->in);
    flx_graph_release(x->loss);
    flx_module_free(x->m);
    flx_context_free(x->ctx);
}

bool experiment_is_wide(sample_case *c)
{
    if (c->sample->error)
        return false;
    if (c->dtype == FLX_DTYPE_NONE) {
        c->real = FLX_F64;
        return true;
    }
    return c->dtype == FLX_F64 || c->dtype == FLX_C128;
}

/* ---- Running ---- */

bool experiment_run(const experiment *x, const flx_graph *g, const bag *values, flx_tensor **out)
{
    flx_feed feeds[MAX_LEAVES * 2];
    flx_error err = {0};
    flx_run_options options = {.device = "ref", .dims = x->dims, .num_dims = x->num_dims};
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        feeds[i] = (flx_feed){name, bag_get(values, name)};
        if (!EXPECT_MSG(feeds[i].value, "no value for input '%s'", name))
            return false;
    }
    return EXPECT_MSG(flx_run(g, &options, feeds, n, out, &err) == FLX_OK, "%s: %s", flx_graph_name(g), err.message);
}

flx_graph *experiment_gradient(const experiment *x, const flx_graph *l, flx_error *err)
{
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    return flx_grad(l, x->names, x->count, &o, err);
}

bool experiment_made(const flx_graph *g, const char *what, const flx_error *err)
{
    flx_error found = {0};
    return EXPECT_MSG(g != NULL, "%s: %s (%s)", what, err->message, err->where) &&
           EXPECT_MSG(flx_graph_verify(g, &found) == FLX_OK, "%s: %s", what, found.message);
}

/* ---- Laws ---- */

static op_law law_under_way;

bool law_is_its_turn(void)
{
    static uint64_t turn, seed;
    int64_t n = effort(EFFORT_laws_share);
    if (seed != test_seed()) { /* another test: which cases are tried does not depend on the tests before */
        seed = test_seed();
        turn = 0;
    }
    return (turn++ + seed) % (uint64_t)(n > 0 ? n : 1) == 0;
}

static void try_sample(const sample_case *c)
{
    if (!law_is_its_turn())
        return;
    size_t expected = law_under_way(c, true);
    size_t tried = law_under_way(c, false);
    EXPECT_MSG(tried == expected, "%zu cases are tried and %zu counted", tried, expected);
    for (size_t i = 0; i < tried; i++)
        test_count_case();
}

void try_law(op_law law)
{
    law_under_way = law;
    sample_each(try_sample);
}
