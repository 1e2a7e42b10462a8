/* SPDX-License-Identifier: Apache-2.0 */
/* random_compiled.c: random graphs and their gradients, each compiled in one of the ways, against the reference
   evaluator.

   Efforts: compiled_graphs of them; compiled_all: in all ways. FLX_TEST_CASE=SEED: only the graph of this seed. */
#include "compile/random_compiled.h"

#include "compile/bundle.h"
#include "graph/graph.h"
#include "random/plain_subject.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where graphs go: all to one bundle, or each to that of its way. */
typedef struct {
    bundle *one; /* or NULL */
    bundle_spread *spread;
} destination;

static void add_graph(const destination *to, const flx_graph *g, const subject *s, const char *about)
{
    bool runs = to->one ? bundle_add_copy(to->one, g, subject_value, s, about)
                        : bundle_spread_copy(to->spread, g, subject_value, s, about);
    CHECK_MSG(runs, "%s: does not run", about);
}

/* Every third is of nested control flow. */
static void add_subject(const destination *to, uint64_t seed)
{
    subject s;
    flx_module *module;
    flx_error err = {0};
    if (!(seed % 3 ? random_subject : random_control_subject)(&s, seed, &module))
        return;
    flx_graph *bound = flx_specialise(s.g, s.dims, known_dims(s.g, s.dims, s.num_dims), &err);
    CHECK_MSG(bound, "%s", err.message);
    char about[80];
    snprintf(about, sizeof about, "FLX_TEST_CASE=%llu", (unsigned long long)seed);
    add_graph(to, bound, &s, about);
    flx_graph *grad = subject_gradient(bound, &s);
    if (grad) {
        snprintf(about, sizeof about, "FLX_TEST_CASE=%llu, gradient", (unsigned long long)seed);
        add_graph(to, grad, &s, about);
        flx_graph_release(grad);
    }
    flx_graph_release(bound);
    random_subject_free(&s, module);
}

/* ---- Integers ---- */

/* The integers and bools among the values of the graph; NULL when there are none. */
static flx_graph *integers_of(const flx_graph *g)
{
    enum { MOST = 64 };
    flx_error err = {0};
    flx_val found[MOST];
    size_t n = 0;
    for (uint32_t id = 1; id <= g->value_count && n < MOST; id++) {
        const flxi_op *op = &flxi_ops[flxi_node_of(g, id)->op];
        if (flxi_type_at(g, id)->dtype >= FLX_I64 && op->op_class != CLASS_LEAF)
            found[n++] = (flx_val){id, g->serial};
    }
    return n ? flx_extract(g, found, n, &err) : NULL;
}

/* Comparisons, roundings and indices of random graphs do not lie near a step, so they are what the reference says. */
TEST(random_integers_compiled_are_exact)
{
    uint64_t first = test_seed() % 1000000;
    flx_context *ctx = bundle_context();
    bundle *b = bundle_new(ctx);
    for (uint64_t seed = first; seed < first + 400 && bundle_size(b) < 24; seed++) {
        subject s;
        flx_module *module;
        flx_error err = {0};
        if (!random_subject(&s, seed, &module))
            continue;
        flx_graph *bound = flx_specialise(s.g, s.dims, known_dims(s.g, s.dims, s.num_dims), &err);
        CHECK_MSG(bound, "%s", err.message);
        flx_graph *integers = integers_of(bound);
        char about[80];
        snprintf(about, sizeof about, "seed %llu, integers", (unsigned long long)seed);
        if (integers)
            CHECK_MSG(bundle_add_copy(b, integers, subject_value, &s, about), "%s: does not run", about);
        flx_graph_release(integers);
        flx_graph_release(bound);
        random_subject_free(&s, module);
    }
    CHECK(bundle_size(b) >= 12);
    bundle_check(b, WAY_without_optimisation);
    bundle_check(b, WAY_ungrouped);
    bundle_free(b);
    flx_context_free(ctx);
}

void random_compiled_try(uint64_t first, uint64_t n, size_t way)
{
    flx_context *ctx = bundle_context();
    bundle *b = bundle_new(ctx);
    for (uint64_t i = 0; i < n; i++)
        add_subject(&(destination){.one = b}, first + i);
    if (bundle_size(b) > 0)
        bundle_check(b, way);
    bundle_free(b);
    flx_context_free(ctx);
}

TEST(random_graphs_compiled_agree_with_the_reference)
{
    uint64_t first = test_seed() % 1000000;
    uint64_t n = test_case_seed(&first) ? 1 : (uint64_t)effort(EFFORT_compiled_graphs);
    bundle_spread b = {.most = 12, .check = bundle_check};
    for (uint64_t i = 0; i < n; i++)
        add_subject(&(destination){.spread = &b}, first + i);
    bundle_spread_end(&b);
}
