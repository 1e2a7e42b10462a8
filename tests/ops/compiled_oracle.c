/* compiled_oracle.c: see compiled_oracle.h. */
#include "compiled_oracle.h"

#include "fixture.h"
#include "ir/opcode.h"
#include "passes/pass.h"
#include "test.h"

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

static struct {
    flx_context *ctx;
    bundle *pieces;
    late_case cases[PIECES];
    size_t n;
} now;

/* ---- Adding ---- */

static late_case late_case_of(const char *case_name, const flx_graph *g, flx_tensor *const *answers,
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
        c.answers[i] = flx_tensor_new(now.ctx, flx_tensor_type(answers[i]), flx_tensor_bytes(answers[i]), &err);
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
    if (now.n == PIECES)
        compiled_oracle_end();
    if (!now.pieces) {
        now.ctx = flx_context_new(NULL);
        now.pieces = bundle_new(now.ctx);
    }
    CHECK_MSG(bundle_add_copy(now.pieces, g, find, user, case_name, &bundle_usual), "%s: does not run", case_name);
    now.cases[now.n++] = late_case_of(case_name, g, answers, scales);
}

/* ---- Constants as inputs ---- */

static const flx_tensor *constant_by_name(const void *user, const char *name)
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

void compiled_oracle_add_pairs(const flx_graph *g, flx_tensor *const *outputs)
{
    enum { MOST = 64 };
    flx_error err = {0};
    flx_val computed[MOST];
    flx_tensor *answers[MOST];
    size_t n = 0;
    for (size_t i = 0; i + 1 < flx_graph_output_count(g) && n < MOST; i += 2, n++) {
        computed[n] = flx_graph_output(g, i);
        answers[n] = outputs[i + 1];
    }
    flx_graph *part = flx_extract(g, computed, n, &err);
    CHECK_MSG(part, "%s: %s", flx_graph_name(g), err.message);
    flx_graph *open = NULL;
    CHECK_OK(lift(part, &open, &err), &err);
    if (flx_graph_input_count(open) <= MOST)
        compiled_oracle_add(flx_graph_name(g), open, constant_by_name, part, answers, NULL);
    flx_graph_free(open);
    flx_graph_free(part);
}

/* ---- Comparing ---- */

static void compare(void *user, size_t piece, flx_tensor *const *out)
{
    const late_case *c = &now.cases[piece];
    (void)user;
    for (size_t i = 0; i < c->n; i++)
        fixture_agree_within(c->name, c->results[i], out[i], c->answers[i], c->scales[i], bundle_usual.element,
                             bundle_usual.overall);
    test_count_case();
}

void compiled_oracle_end(void)
{
    if (!now.pieces)
        return;
    test_fail_context("%s: %zu cases compiled", test_name(), now.n);
    bundle_run(now.pieces, &(flx_compile_options){.threads = 1, .optimisation = 1}, compare, NULL);
    for (size_t i = 0; i < now.n; i++)
        free_case(&now.cases[i]);
    bundle_free(now.pieces);
    flx_context_free(now.ctx);
    now.pieces = NULL;
    now.n = 0;
}
