/* SPDX-License-Identifier: Apache-2.0 */
/* traits.c: what rows claim about their ops, held against what the ops compute: that they are linear in some operands,
   copy, select, invert or read shapes alone, and that their derivatives are finite. Transforms rely on these claims
   without knowing any op. */
#include "../test.h"
#include "graph/op/site.h"
#include "ops/opcode.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Runs of a sample on values of our own ---- */

typedef struct {
    flx_context *ctx;
    flx_module *m;
    flx_graph *g; /* symbols bound */
    const flxi_node *n;
    size_t num_inputs;
    flx_tensor *in[SAMPLE_MAX_OPERANDS];
    flx_error err;
} trial;

static const flxi_node *node_of(const flx_graph *g, flxi_opcode op)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (flxi_node_at(g, i)->op == op)
            return flxi_node_at(g, i);
    return NULL;
}

/* False where the sample is none with the dtype that replaces its f32. */
static bool open_trial(trial *t, const sample_case *c)
{
    uint64_t state = sample_seed(c);
    *t = (trial){.ctx = flx_context_new(NULL)};
    t->m = sample_parse(t->ctx, c, &t->err);
    CHECK_MSG(t->m || c->real, "%s", t->err.message);
    if (!t->m) {
        flx_context_free(t->ctx);
        return false;
    }
    const flx_graph *g = flx_module_find(t->m, "sample");
    flx_dim_binding dims[8];
    size_t num_dims = 0;
    for (const char *s; num_dims < 8 && (s = flx_graph_symbol(g, num_dims)) != NULL; num_dims++)
        dims[num_dims] = (flx_dim_binding){s, SAMPLE_EXTENT};
    t->g = flx_specialise(g, dims, num_dims, &t->err);
    CHECK_MSG(t->g, "%s", t->err.message);
    t->n = node_of(t->g, c->op);
    t->num_inputs = flx_graph_input_count(t->g);
    CHECK(t->num_inputs <= SAMPLE_MAX_OPERANDS);
    for (size_t i = 0; i < t->num_inputs; i++) {
        const flx_type *type = flx_val_type(t->g, flx_graph_input(t->g, i));
        t->in[i] = sample_value(t->ctx, c, i, type, FILL_RANDOM, &state, &t->err);
        CHECK_MSG(t->in[i], "%s", t->err.message);
    }
    return true;
}

static void close_trial(trial *t)
{
    for (size_t i = 0; i < t->num_inputs; i++)
        flx_tensor_release(t->in[i]);
    flx_graph_release(t->g);
    flx_module_free(t->m);
    flx_context_free(t->ctx);
}

/* The caller frees what it returns with release_all(); NULL where the values are not valid operands. */
static flx_tensor **run_trial(trial *t)
{
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    flx_tensor **out = calloc(flx_graph_output_count(t->g) + 1, sizeof *out);
    for (size_t i = 0; i < t->num_inputs; i++)
        feeds[i] = (flx_feed){flx_val_name(t->g, flx_graph_input(t->g, i)), t->in[i]};
    if (out && flx_run(t->g, ON_REF, feeds, t->num_inputs, out, &t->err) == FLX_OK)
        return out;
    free(out);
    return NULL;
}

static void release_all(const trial *t, flx_tensor **out)
{
    for (size_t k = 0; out && k < flx_graph_output_count(t->g); k++)
        flx_tensor_release(out[k]);
    free(out);
}

static bool has_trait(const sample_case *c, int trait)
{
    return c->sample->error == FLX_OK && (flxi_ops[c->op].traits & trait);
}

/* ---- Linear in some operands ---- */

static bool is_real(const flx_tensor *t)
{
    return flx_tensor_type(t)->dtype == FLX_F64;
}

static void scale(flx_tensor *t, double by)
{
    double *x = flx_tensor_data(t);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        x[i] *= by;
}

/* Whether it is found linear in the operands of the set; an op without a derivative is linear in none. */
static bool is_found_linear(const trial *t, unsigned set)
{
    bool in[SAMPLE_MAX_OPERANDS] = {false};
    for (size_t i = 0; i < t->num_inputs; i++)
        in[i] = set >> i & 1;
    flx_graph *g = flx_graph_new(t->ctx, "judge");
    flxi_site s = flxi_plain_site(g);
    s.op = &flxi_ops[t->n->op];
    bool found = flxi_bodies.check_linear(&s, t->g, in, "it");
    flx_graph_release(g);
    return found;
}

/* Formats with few exponents overflow: what is not finite is not compared. */
static void check_scaling(trial *t, unsigned set)
{
    flx_tensor **once = run_trial(t);
    for (size_t i = 0; i < t->num_inputs; i++)
        if (set >> i & 1)
            scale(t->in[i], 2.0);
    flx_tensor **twice = run_trial(t);
    for (size_t i = 0; i < t->num_inputs; i++)
        if (set >> i & 1)
            scale(t->in[i], 0.5);
    for (size_t k = 0; once && twice && k < flx_graph_output_count(t->g); k++)
        for (int64_t i = 0; is_real(once[k]) && i < flx_tensor_count(once[k]); i++) {
            double a = 2.0 * flx_tensor_get(once[k], i), b = flx_tensor_get(twice[k], i);
            if (!EXPECT_MSG(fabs(a - b) <= 1e-9 * (1.0 + fabs(a)) || !isfinite(a) || !isfinite(b),
                            "linear in operands %#x, but result %zu is %g, expected %g", set, k, b, a))
                break;
        }
    release_all(t, once);
    release_all(t, twice);
}

static void check_linear_sample(const sample_case *c)
{
    trial t;
    if (c->sample->error || (c->dtype != FLX_F64 && c->dtype != FLX_DTYPE_NONE))
        return;
    sample_case wide = *c;
    wide.real = c->dtype ? 0 : FLX_F64;
    if (!open_trial(&t, &wide))
        return;
    unsigned reals = 0;
    for (size_t i = 0; i < t.num_inputs; i++)
        reals |= is_real(t.in[i]) ? 1u << i : 0;
    unsigned most = t.num_inputs <= 4 ? 1u << t.num_inputs : 0;
    for (unsigned set = 1; set < most; set++)
        if ((set & ~reals) == 0 && is_found_linear(&t, set)) {
            check_scaling(&t, set);
            test_count_case();
        }
    for (size_t i = 0; most == 0 && i < t.num_inputs; i++)
        if ((reals >> i & 1) && is_found_linear(&t, 1u << i)) {
            check_scaling(&t, 1u << i);
            test_count_case();
        }
    close_trial(&t);
}

TEST(traits_what_is_found_linear_scales)
{
    sample_each(check_linear_sample);
}

/* ---- Elements that are copied, shapes that are read ---- */

static bool contains(const flx_tensor *t, const char *element, size_t size)
{
    const char *x = flx_tensor_const_data(t);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        if (memcmp(x + (size_t)i * size, element, size) == 0)
            return true;
    return false;
}

static void check_copies(const sample_case *c)
{
    trial t;
    if (!has_trait(c, TRAIT_COPIES))
        return;
    open_trial(&t, c);
    CHECK_EQ_I64(t.n->nin, 1);
    flx_tensor **out = run_trial(&t);
    CHECK_MSG(out, "%s", t.err.message);
    size_t size = flx_dtype_size(flx_tensor_type(t.in[0])->dtype);
    for (size_t k = 0; k < flx_graph_output_count(t.g); k++)
        for (int64_t i = 0; i < flx_tensor_count(out[k]); i++)
            EXPECT_MSG(contains(t.in[0], (const char *)flx_tensor_const_data(out[k]) + (size_t)i * size, size),
                       "element %lld of result %zu is not one of the operand", (long long)i, k);
    release_all(&t, out);
    close_trial(&t);
    test_count_case();
}

TEST(traits_ops_that_copy_make_no_new_elements)
{
    sample_each(check_copies);
}

static void check_shape_only(const sample_case *c)
{
    trial t;
    if (!has_trait(c, TRAIT_SHAPE_ONLY))
        return;
    open_trial(&t, c);
    flx_tensor **out = run_trial(&t);
    for (size_t i = 0; i < t.num_inputs; i++)
        memset(flx_tensor_data(t.in[i]), 0, flx_tensor_nbytes(t.in[i]));
    flx_tensor **again = run_trial(&t);
    CHECK_MSG(out && again, "%s", t.err.message);
    for (size_t k = 0; k < flx_graph_output_count(t.g); k++)
        EXPECT_MSG(memcmp(flx_tensor_const_data(out[k]), flx_tensor_const_data(again[k]), flx_tensor_nbytes(out[k])) ==
                       0,
                   "result %zu depends on elements", k);
    release_all(&t, out);
    release_all(&t, again);
    close_trial(&t);
    test_count_case();
}

TEST(traits_ops_of_shapes_ignore_elements)
{
    sample_each(check_shape_only);
}

/* ---- Choices ---- */

/* Element i of what the op gives for these operands. */
static double element_of(const char *op, const char *operands, int64_t i)
{
    char text[400];
    flx_error err = {0};
    flx_tensor *y = NULL;
    flx_context *ctx = flx_context_new(NULL);
    snprintf(text, sizeof text, "graph g() { return %s(%s) }", op, operands);
    flx_module *m = flx_parse(ctx, text, strlen(text), NULL, &err);
    CHECK_MSG(m, "%s: %s", text, err.message);
    CHECK_OK(flx_run(flx_module_main(m), ON_REF, NULL, 0, &y, &err), &err);
    double value = flx_tensor_get(y, i);
    flx_tensor_release(y);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
    return value;
}

TEST(traits_ops_that_select_and_invert)
{
    int num_select = 0, num_invert = 0;
    static const char choice[] = "const(bool[2], [true, false]), const(f64[2], [1, 2]), const(f64[2], [3, 4])";
    static const char truth[] = "const(bool[2], [true, false])";
    for (int op = 1; op < OP_COUNT; op++) {
        const char *name = flxi_ops[op].name;
        if (flxi_ops[op].traits & TRAIT_SELECTS) {
            CHECK_NEAR(element_of(name, choice, 0), 1, 0);
            CHECK_NEAR(element_of(name, choice, 1), 4, 0);
            num_select++;
        }
        if (flxi_ops[op].traits & TRAIT_INVERTS) {
            CHECK_NEAR(element_of(name, truth, 0), 0, 0);
            CHECK_NEAR(element_of(name, truth, 1), 1, 0);
            num_invert++;
        }
    }
    CHECK(num_select > 0 && num_invert > 0);
}

/* ---- Derivatives that are finite ---- */

/* An op of x and one constant, as text; `at` is the position of x. */
static void write_graph(char *text, size_t size, const flxi_op *op, uint32_t at, const char *constant)
{
    int n = flxi_operands_of(op)->count;
    size_t used = (size_t)snprintf(text, size, "graph g(x: f64[5]) { return %s(", op->name);
    for (int k = 0; k < n; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", k ? ", " : "",
                                 (uint32_t)k == at ? "x" : "expand(const(f64[1], [", (uint32_t)k == at ? "" : constant,
                                 (uint32_t)k == at ? "" : "]), shape=[5])");
    snprintf(text + used, size - used, "%s) }", n == 1 ? ", to=f64" : "");
}

/* A tangent of zero stays zero at every x where the derivative is said to be finite. Returns whether it is. */
static bool check_tame(const flxi_op *op, uint32_t at, const char *constant)
{
    static const double points[5] = {0, -0.0, INFINITY, -INFINITY, 1e300};
    static const double zeros[5] = {0};
    const flx_dim five = 5;
    flx_type type = flx_type_make(FLX_F64, 1, &five);
    flx_error err = {0};
    char text[600];
    write_graph(text, sizeof text, op, at, constant);
    test_fail_context("%s", text);
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), NULL, &err);
    CHECK_MSG(m, "%s", err.message);
    const flx_graph *g = flx_module_main(m);
    bool is_tame = op->rules->is_tame(g, node_of(g, (flxi_opcode)(op - flxi_ops)), at);
    flx_graph *pushed = flx_jvp(g, (const char *[]){"x"}, 1, &err);
    CHECK_MSG(pushed, "%s", err.message);
    flx_tensor *x = flx_tensor_new(ctx, &type, points, &err), *tx = flx_tensor_new(ctx, &type, zeros, &err);
    flx_tensor *out[2] = {NULL, NULL};
    const flx_feed feeds[] = {{"x", x}, {"tangent_x", tx}};
    CHECK_OK(flx_run(pushed, ON_REF, feeds, 2, out, &err), &err);
    for (int64_t i = 0; is_tame && i < 5; i++)
        EXPECT_MSG(flx_tensor_get(out[1], i) == 0.0, "the tangent at %g is %g", points[i], flx_tensor_get(out[1], i));
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    flx_tensor_release(x);
    flx_tensor_release(tx);
    flx_graph_release(pushed);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
    return is_tame;
}

TEST(traits_tame_derivatives_are_finite)
{
    static const char *const constants[] = {"2", "0", "1e-300", "inf", "nan"};
    int num_tame = 0, num_wild = 0;
    for (int op = 1; op < OP_COUNT; op++)
        for (uint32_t at = 0; flxi_ops[op].rules->is_tame && at < (uint32_t)flxi_operands_of(&flxi_ops[op])->count;
             at++)
            for (size_t k = 0; k < sizeof constants / sizeof *constants; k++)
                *(check_tame(&flxi_ops[op], at, constants[k]) ? &num_tame : &num_wild) += 1;
    CHECK_MSG(num_tame >= 5 && num_wild >= 5, "%d tame, %d not", num_tame, num_wild);
}
