/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_oracle.c: see compiled_oracle.h. */
#include "compiled_oracle.h"

#include "compile/error_bound.h"
#include "fixture.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "passes/pass.h"
#include "test.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 250, NAME = 100 };

typedef struct {
    char name[NAME];
    size_t n;
    flx_tensor **answers;
    char (*results)[NAME], (*scales)[NAME]; /* names of outputs */
} late_case;

static void check_cases(bundle *b, size_t way);

static bundle_spread now = {.most = PIECES, .check = check_cases};
static late_case late[WAY_COUNT][PIECES]; /* by way and piece */

/* ---- Adding ---- */

static late_case late_case_of(flx_context *ctx, const char *case_name, const flx_graph *g, flx_tensor *const *answers,
                              const flx_graph *scales)
{
    flx_error err = {0};
    late_case c = {.n = flx_graph_output_count(g)};
    snprintf(c.name, sizeof c.name, "%s", case_name);
    c.answers = calloc(c.n + 1, sizeof *c.answers);
    c.results = calloc(c.n + 1, sizeof *c.results);
    c.scales = calloc(c.n + 1, sizeof *c.scales);
    CHECK(c.answers && c.results && c.scales);
    for (size_t i = 0; i < c.n; i++) {
        c.answers[i] = flx_tensor_new(ctx, flx_tensor_type(answers[i]), flx_tensor_const_data(answers[i]), &err);
        CHECK_MSG(c.answers[i], "%s", err.message);
        snprintf(c.results[i], NAME, "%s", flx_graph_output_name(g, i));
        if (scales)
            snprintf(c.scales[i], NAME, "%s", flx_graph_output_name(scales, i));
    }
    return c;
}

static void free_case(late_case *c)
{
    for (size_t i = 0; i < c->n; i++)
        flx_tensor_release(c->answers[i]);
    free(c->answers);
    free(c->results);
    free(c->scales);
}

void compiled_oracle_add(const char *case_name, const flx_graph *g, bundle_find find, const void *user,
                         flx_tensor *const *answers, const flx_graph *scales)
{
    for (size_t way = 0; way < WAY_COUNT; way++) {
        if (!way_takes(way, case_name))
            continue;
        bundle *b = bundle_spread_open(&now, way);
        size_t n = bundle_size(b);
        CHECK_MSG(bundle_add_copy(b, g, find, user, case_name), "%s: does not run", case_name);
        late[way][n] = late_case_of(now.at[way].ctx, case_name, g, answers, scales);
    }
}

/* ---- Constants as inputs ---- */

const flx_tensor *oracle_constant(const void *user, const char *name)
{
    return flxi_const_data(flxi_node_at(user, (uint32_t)atoi(name + 1)));
}

/* Input c<i> stands for node i. */
static flx_code lift(const flx_graph *g, flx_graph **out, flx_error *err)
{
    flxi_copy c;
    FLXI_TRY(flxi_copy_begin(&c, g, err));
    flx_code code = FLX_OK;
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        char name[20];
        snprintf(name, sizeof name, "c%u", i);
        if (n->op == OP_const)
            flxi_copy_replace(&c, n->first, flx_input(c.to, name, flxi_type_at(g, n->first)).id);
        else
            code = flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, NULL);
}

enum { MOST = 64 /* outputs, and inputs */ };

flx_graph *oracle_open(const flx_graph *g, flx_graph **constants)
{
    flx_error err = {0};
    flx_val computed[MOST];
    flx_graph *open = NULL;
    size_t n = 0;
    for (size_t i = 0; i + 1 < flx_graph_output_count(g) && n < MOST; i += 2, n++)
        computed[n] = flx_graph_output(g, i);
    *constants = flx_extract(g, computed, n, &err);
    CHECK_MSG(*constants, "%s: %s", flx_graph_name(g), err.message);
    CHECK_OK(lift(*constants, &open, &err), &err);
    if (flx_graph_input_count(open) <= MOST)
        return open;
    flx_graph_release(open);
    flx_graph_release(*constants);
    return NULL;
}

void compiled_oracle_add_pairs(const flx_graph *g, flx_tensor *const *outputs)
{
    flx_tensor *answers[MOST];
    flx_graph *constants, *open = oracle_open(g, &constants);
    if (!open)
        return;
    for (size_t i = 0; i < flx_graph_output_count(open); i++)
        answers[i] = outputs[2 * i + 1];
    compiled_oracle_add(flx_graph_name(g), open, oracle_constant, constants, answers, NULL);
    flx_graph_release(open);
    flx_graph_release(constants);
}

/* ---- Comparing ---- */

typedef struct {
    bundle *b;
    const late_case *cases;
} comparison;

static double *whole_bounds(const flx_tensor *expected, const double *noise)
{
    int32_t dtype = flx_tensor_type(expected)->dtype;
    double *bounds = calloc((size_t)flx_tensor_count(expected) + 1, sizeof *bounds);
    CHECK(bounds);
    for (int64_t i = 0; i < flx_tensor_count(expected); i++) {
        double size = cabs(flxi_load_complex(dtype, flx_tensor_const_data(expected), i));
        bounds[i] = (isfinite(size) ? element_bound(dtype, size) : 0) + noise[i];
    }
    return bounds;
}

/* Noise is computed only where the tolerance of the fixture is not enough. */
static void compare(void *user, size_t piece, flx_tensor *const *out)
{
    const comparison *by = user;
    const late_case *c = &by->cases[piece];
    for (size_t i = 0; i < c->n; i++) {
        int64_t bad = fixture_first_difference(c->name, out[i], c->answers[i], c->scales[i], NULL);
        const double *noise = bad >= 0 ? bundle_bounds(by->b, piece)[i] : NULL;
        if (noise) {
            double *more = whole_bounds(out[i], noise);
            bad = fixture_first_difference(c->name, out[i], c->answers[i], c->scales[i], more);
            free(more);
        }
        fixture_report(c->name, c->results[i], out[i], c->answers[i], bad);
    }
}

static void check_cases(bundle *b, size_t way)
{
    size_t n = bundle_size(b);
    test_fail_context("%s: %zu cases compiled, %s", test_name(), n, way_name(way));
    bundle_check_and(b, way, compare, &(comparison){b, late[way]});
    for (size_t i = 0; i < n; i++)
        free_case(&late[way][i]);
}

void compiled_oracle_end(void)
{
    bundle_spread_end(&now);
}
