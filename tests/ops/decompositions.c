/* SPDX-License-Identifier: Apache-2.0 */
/* decompositions.c: an op and its decomposition give the same values, on every sample of the table, in f64 and c128
   (where both round the same way) and, for pointwise ops, on NaN, infinities and zeros as well. */
#include "autodiff/autodiff.h"
#include "sample.h"
#include "test.h"

#include <math.h>

enum { MAX_RESULTS = 16 };

/* A copy of g in which the op of the sample is decomposed once. */
static flx_graph *decomposed(const flx_graph *g, flxi_opcode op, flx_error *err)
{
    flxi_copy c;
    flx_graph *out = NULL;
    flx_code code = flxi_copy_begin(&c, g, err);
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (n->op != (uint32_t)op) {
            code = flxi_copy_node(&c, i);
            continue;
        }
        flx_val y[MAX_RESULTS] = {0};
        flxi_site s = flxi_site_of(c.to, g, i, c.remap.id);
        s.op->rules->decompose(&s, y);
        code = flxi_built(c.to, err);
        for (uint32_t k = 0; code == FLX_OK && k < n->nout; k++) {
            const flx_type *made = flx_val_type(c.to, y[k]);
            EXPECT_MSG(made && flxi_type_equal(made, flxi_type_at(g, n->first + k)), "result %u has another type", k);
            flxi_copy_replace(&c, n->first + k, y[k].id);
        }
    }
    code = flxi_copy_end(&c, code, &out, NULL);
    return code == FLX_OK ? out : NULL;
}

static bool near_enough(double a, double b)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-12 * (1 + fabs(a));
}

static void compare(const flx_tensor *a, const flx_tensor *b, size_t result)
{
    const flx_type *t = flx_tensor_type(a);
    flx_dtype wide = flxi_is_complex(t->dtype) ? FLX_C128 : FLX_F64;
    flx_tensor *p = flx_tensor_cast(a, wide, NULL);
    flx_tensor *q = flx_tensor_cast(b, wide, NULL);
    const double *x = flx_tensor_const_data(p);
    const double *y = flx_tensor_const_data(q);
    int64_t n = flx_tensor_count(a) * (wide == FLX_C128 ? 2 : 1);
    for (int64_t i = 0; i < n; i++)
        if (!EXPECT_MSG(near_enough(x[i], y[i]), "result %zu, number %lld: the op gives %.17g, its decomposition %.17g",
                        result, (long long)i, x[i], y[i]))
            break;
    flx_tensor_release(p);
    flx_tensor_release(q);
}

static void compare_on(const sample_case *c, const flx_graph *g, const flx_graph *d, sample_fill fill)
{
    flx_error err = {0};
    flx_tensor *a[MAX_RESULTS] = {0};
    flx_tensor *b[MAX_RESULTS] = {0};
    if (EXPECT_MSG(sample_run(g, c, fill, a, &err) == FLX_OK, "%s", err.message) &&
        EXPECT_MSG(sample_run(d, c, fill, b, &err) == FLX_OK, "decomposed: %s", err.message))
        for (size_t k = 0; k < flx_graph_output_count(g); k++)
            compare(a[k], b[k], k);
    for (size_t k = 0; k < MAX_RESULTS; k++) {
        flx_tensor_release(a[k]);
        flx_tensor_release(b[k]);
    }
    test_count_case();
}

static void decompose_sample(const sample_case *sample)
{
    sample_case c = *sample;
    const flxi_op *op = &flxi_ops[c.op];
    flx_error err = {0};
    bool exact = c.dtype == FLX_F64 || c.dtype == FLX_C128 || c.dtype == FLX_I64;
    c.real = c.dtype == FLX_DTYPE_NONE ? FLX_F64 : FLX_DTYPE_NONE;
    if (!op->rules->decompose || c.sample->error || !(exact || c.real))
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, &c, &err);
    const flx_graph *g = flx_module_main(m);
    if (m && flx_graph_output_count(g) <= MAX_RESULTS) {
        flx_graph *d = decomposed(g, c.op, &err);
        if (EXPECT_MSG(d != NULL, "%s", err.message)) {
            EXPECT_MSG(flx_graph_verify(d, &err) == FLX_OK, "%s", err.message);
            compare_on(&c, g, d, FILL_RANDOM);
            if (op->op_class == CLASS_POINTWISE)
                compare_on(&c, g, d, FILL_SPECIAL);
        }
        flx_graph_release(d);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(decomposition_equals_the_op)
{
    sample_each(decompose_sample);
}
