/* SPDX-License-Identifier: Apache-2.0 */
/* passes_constants.c: constants that become parameters. */
#include "fault.h"
#include "graph/graph_text.h"

#include <stdio.h>

static const char whole[] = "graph step(c: f32[2]) {\n"
                            "  return add(c, const(f32[2], [5, 6]))\n"
                            "}\n"
                            "\n"
                            "graph f(x: f32[2], weight0: f32[]) {\n"
                            "  w = const(f32[2], [1, 2])\n"
                            "  x_2 = mul(x, const(f32[2], [3, 4]))\n"
                            "  y = add(mul(w, x_2), weight0)\n"
                            "  z = scan(y, body=@step, length=2)\n"
                            "  return z, mul(y, 0.5)\n"
                            "}\n";

typedef struct {
    size_t min_bytes, asked;
    char names[100];
    flx_tensor *kept[4];
    size_t num_kept;
} chosen;

static int at_least(void *user, const char *name, flx_tensor *value)
{
    chosen *c = user;
    c->asked++;
    if (flx_tensor_nbytes(value) < c->min_bytes)
        return 0;
    snprintf(c->names + strlen(c->names), sizeof c->names - strlen(c->names), "%s ", name);
    c->kept[c->num_kept++] = flx_tensor_retain(value);
    return 1;
}

static void release(chosen *c)
{
    while (c->num_kept)
        flx_tensor_release(c->kept[--c->num_kept]);
    c->names[0] = 0;
}

TEST(constants_become_parameters)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, whole);
    chosen c = {.min_bytes = 8};
    flx_graph *moved = flx_constants_to_params(g, at_least, &c, &err);
    CHECK_MSG(moved != NULL, "%s", err.message);
    CHECK_EQ_STR(c.names, "w weight1 ");
    CHECK_EQ_U64(c.asked, 3); /* the half too, but not the constant in the body */
    flx_buffer text = text_of(moved);
    CHECK_EQ_STR(text.data, "graph step(c: f32[2]) {\n"
                            "  v0 = const(f32[2], [5, 6])\n"
                            "  out0 = add(c, v0)\n"
                            "  return out0\n"
                            "}\n"
                            "\n"
                            "graph f(x: f32[2], weight0: f32[], param w: f32[2], param weight1: f32[2]) {\n"
                            "  x_2 = mul(x, weight1)\n"
                            "  v0 = mul(w, x_2)\n"
                            "  y = add(v0, weight0)\n"
                            "  z = scan(y, body=@step, length=2)\n"
                            "  out1 = mul(y, 0.5)\n"
                            "  return z, out1\n"
                            "}\n");
    flx_buffer_free(&text);
    flx_type pair = flx_type_make(FLX_F32, 1, (const int64_t[]){2});
    flx_type one = flx_type_make(FLX_F32, 0, NULL);
    flx_tensor *x = flx_tensor_new(ctx, &pair, (const float[]){1, -1}, &err);
    flx_tensor *w = flx_tensor_new(ctx, &one, (const float[]){0.5f}, &err);
    flx_feed feeds[4] = {{"x", x}, {"weight0", w}, {"w", c.kept[0]}, {"weight1", c.kept[1]}};
    flx_tensor *before[2];
    flx_tensor *after[2];
    CHECK_OK(flx_run(g, ON_REF, feeds, 2, before, &err), &err);
    CHECK_OK(flx_run(moved, ON_REF, feeds, 4, after, &err), &err);
    for (int k = 0; k < 2; k++) {
        CHECK(memcmp(flx_tensor_const_data(before[k]), flx_tensor_const_data(after[k]), 8) == 0);
        flx_tensor_release(before[k]);
        flx_tensor_release(after[k]);
    }
    flx_tensor_release(x);
    flx_tensor_release(w);
    release(&c);
    flx_graph_release(moved);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(constants_that_are_not_chosen_stay)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, whole);
    chosen c = {.min_bytes = 9};
    flx_graph *same = flx_constants_to_params(g, at_least, &c, &err);
    CHECK_MSG(same != NULL, "%s", err.message);
    CHECK_EQ_U64(flx_graph_hash(same), flx_graph_hash(g));
    CHECK(flx_constants_to_params(g, NULL, NULL, &err) == NULL && err.code == FLX_E_USAGE);
    CHECK(flx_constants_to_params(NULL, at_least, &c, &err) == NULL);
    flx_graph_release(same);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(constants_without_memory)
{
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_graph *g = graph_of(ctx, whole);
    chosen c = {.min_bytes = 8};
    size_t before = f.calls;
    flx_graph_release(flx_constants_to_params(g, at_least, &c, NULL));
    size_t calls = f.calls - before;
    release(&c);
    CHECK(calls > 3);
    for (size_t n = 1; n <= calls; n++) {
        flx_error err = {0};
        f.fail_at = f.calls + n;
        flx_graph *made = flx_constants_to_params(g, at_least, &c, &err);
        f.fail_at = 0;
        release(&c);
        test_fail_context("allocation %zu of %zu fails", n, calls);
        CHECK(made || err.code == FLX_E_OOM);
        flx_graph_release(made);
    }
    flx_graph_release(g);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}
