/* SPDX-License-Identifier: Apache-2.0 */
/* origins.c: an error of a graph that was differentiated, batched or decomposed names the node that the user wrote; an
   error of a graph that a program builds names the op. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const char *text;  /* an input z to differentiate, integers k that are out of range */
    const char *named; /* what the message begins with */
} family;

static const family families[] = {
    {"graph f(z: f32[2, 10], k: i32[2]) {\n"
     "  loss = softmax_cross_entropy_with_logits(z, k)\n"
     "  return reduce_mean(loss)\n}",
     "softmax_cross_entropy_with_logits 'loss': index 10 of labels is out of range for an axis of extent 10"},
    {"graph f(z: f32[4, 3], k: i32[2]) { loss = gather(z, k) return reduce_sum(square(loss)) }",
     "gather 'loss': index 10"},
    {"graph f(z: f32[4, 3], k: i32[2, 3]) { loss = take_along(z, k, axis=0) return reduce_sum(square(loss)) }",
     "take_along 'loss': index 10"},
    {"graph f(z: f32[2, 3], k: i32[2]) { loss = scatter_add(z, k, R=4) return reduce_sum(square(loss)) }",
     "scatter_add 'loss': index 10"},
    {"graph f(z: f32[2, 3], w: f32[2, 3], k: i32[2]) {\n"
     "  h = gather(w, k)\n"
     "  return reduce_sum(mul(square(z), square(h)))\n}",
     "gather 'h': index 10"},
    {"graph step(c: f32[3], z: f32[4, 3], i: i32[]) { loss = gather(z, i) return add(c, square(loss)) }\n"
     "graph f(z: f32[4, 3], k: i32[5]) {\n"
     "  s = scan(full(f32[3], 0), z, k, body=@step, num_carry=1, num_bcast=1)\n"
     "  return reduce_sum(s)\n}",
     "gather 'loss': index 10"},
};
enum { NUM_FAMILIES = sizeof families / sizeof *families };

/* Runs with ones and tens. */
static flx_code run(const flx_graph *g, const char *device, flx_error *err)
{
    flx_context *ctx = flx_graph_context(g);
    flx_feed feeds[8];
    flx_tensor *out[8] = {NULL};
    size_t n = flx_graph_input_count(g);
    CHECK(n <= 8 && flx_graph_output_count(g) <= 8);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *t = flx_tensor_new(ctx, flx_val_type(g, v), NULL, err);
        CHECK_MADE(t, err);
        int64_t count = (int64_t)(flx_tensor_nbytes(t) / 4);
        for (int64_t k = 0; k < count; k++) {
            if (flx_tensor_type(t)->dtype == FLX_I32)
                ((int32_t *)flx_tensor_data(t))[k] = 10;
            else
                ((float *)flx_tensor_data(t))[k] = 1;
        }
        feeds[i] = (flx_feed){flx_val_name(g, v), t};
    }
    const flx_run_options o = {.struct_size = sizeof o, .device = device};
    flx_code code = flx_run(g, &o, feeds, n, out, err);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    for (size_t i = 0; i < 8; i++)
        flx_tensor_release(out[i]);
    return code;
}

static void check_names(const flx_graph *g, const family *f, const char *how)
{
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        flx_error err = {0};
        test_fail_context("%s on %s: %.200s", how, devices[d], f->text);
        CHECK_CODE(run(g, devices[d], &err), FLX_E_INDEX, &err);
        CHECK_MSG(strncmp(err.message, f->named, strlen(f->named)) == 0, "%s", err.message);
        test_count_case();
    }
}

static flx_graph *batched(const flx_graph *g, const char *in, flx_error *err)
{
    int64_t axes[8] = {0};
    const flx_vmap_axis both[] = {{"z", 0}, {in, 0}};
    return flx_vmap(g, both, 2, axes, flx_graph_output_count(g), 3, err);
}

TEST(api_errors_name_the_node_of_the_user)
{
    for (int i = 0; i < NUM_FAMILIES; i++) {
        const family *f = &families[i];
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_module *m = flx_parse(ctx, f->text, strlen(f->text), "f", &err);
        CHECK_MADE(m, &err);
        flx_graph *g = flx_module_find(m, "f");
        CHECK(g);
        const char *wrt[] = {"z"};
        flx_graph *grad = flx_grad(g, wrt, 1, NULL, &err), *jvp = grad ? flx_jvp(g, wrt, 1, &err) : NULL;
        flx_graph *hvp = jvp ? flx_hvp(g, wrt, 1, NULL, &err) : NULL;
        flx_graph *rows = hvp ? batched(g, "k", &err) : NULL;
        flx_graph *grads = rows ? batched(grad, "k", &err) : NULL;
        CHECK_MADE(grads, &err);
        check_names(g, f, "itself");
        check_names(grad, f, "grad");
        check_names(jvp, f, "jvp");
        check_names(hvp, f, "hvp");
        check_names(rows, f, "vmap");
        check_names(grads, f, "vmap of grad");
        flx_graph_release(grad);
        flx_graph_release(jvp);
        flx_graph_release(hvp);
        flx_graph_release(rows);
        flx_graph_release(grads);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

TEST(api_not_finite_values_name_the_node_of_the_user)
{
    static const char text[] = "graph f(z: f32[2]) { y = rsqrt(z) return reduce_sum(y) }";
    static const char *const devices[] = {"ref", "cpu"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "f", &err);
    CHECK_MADE(m, &err);
    flx_graph *grad = flx_grad(flx_module_main(m), (const char *[]){"z"}, 1, NULL, &err);
    CHECK_MADE(grad, &err);
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){2});
    flx_tensor *z = flx_tensor_new(ctx, &type, NULL, &err), *y = NULL;
    for (int d = 0; d < 2; d++) {
        const flx_run_options o = {.struct_size = sizeof o, .device = devices[d], .flags = FLX_RUN_CHECK_FINITE};
        CHECK_CODE(flx_run(grad, &o, &(flx_feed){"z", z}, 1, &y, &err), FLX_E_NUMERIC, &err);
        CHECK_MSG(strncmp(err.message, "rsqrt 'y'", 9) == 0, "%s", err.message);
    }
    flx_tensor_release(z);
    flx_graph_release(grad);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(api_errors_of_built_graphs_name_the_op)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = flx_graph_new(ctx, "mlp");
    const flx_type a = flx_type_make(FLX_F32, 2, (flx_dim[]){2, 3});
    flx_val x = flx_input(g, "x", &a), w = flx_input(g, "w", &a);
    flx_named(g, flx_matmul(g, flx_exp(g, x), w), "h");
    CHECK_CODE(flx_graph_error(g, &err), FLX_E_SHAPE, &err);
    CHECK_EQ_STR(err.where, "mlp/matmul, node 3");
    CHECK_MSG(strstr(err.hint, "matmul(a, transpose(w, perm=[1, 0]))"), "%s", err.hint);
    flx_graph_release(g);

    g = flx_graph_new(ctx, "mlp");
    x = flx_input(g, "x", &a);
    flx_reduce_sum(g, x, .axes = FLX_INTS(4));
    CHECK_CODE(flx_graph_error(g, &err), FLX_E_ATTRIBUTE, &err);
    CHECK_EQ_STR(err.where, "mlp/reduce_sum, node 1");
    flx_graph_release(g);

    g = flx_graph_new(ctx, "mlp");
    flx_val other = flx_input(g, "x", &a);
    flx_graph *g2 = flx_graph_new(ctx, "second");
    flx_exp(g2, other);
    CHECK_CODE(flx_graph_error(g2, &err), FLX_E_USAGE, &err);
    CHECK_EQ_STR(err.where, "second/exp, node 0");
    flx_graph_release(g2);
    flx_graph_release(g);

    g = flx_graph_new(ctx, "mlp");
    flx_attr axis = {.key = "dim", .kind = FLX_ATTR_INT, .as.i = 1};
    x = flx_input(g, "x", &a);
    flx_op(g, "softmax", &x, 1, &axis, 1, NULL, 0);
    CHECK_CODE(flx_graph_error(g, &err), FLX_E_ATTRIBUTE, &err);
    CHECK_EQ_STR(err.where, "mlp/softmax, node 1");
    CHECK_MSG(strncmp(err.hint, "write axis=", 11) == 0, "%s", err.hint);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(api_is_default_holds_for_completed_attributes)
{
    static const struct {
        const char *text, *key;
        int is_default;
    } cases[] = {
        {"reduce_sum(x)", "axes", 1},
        {"reduce_sum(x, axes=[0, 1])", "axes", 1},
        {"reduce_sum(x, axes=[-1, 0])", "axes", 1},
        {"reduce_sum(x, axes=[1])", "axes", 0},
        {"reduce_sum(x, keep_dims=false)", "keep_dims", 1},
        {"reduce_sum(x, keep_dims=true)", "keep_dims", 0},
        {"softmax(x)", "axis", 1},
        {"softmax(x, axis=1)", "axis", 1},
        {"softmax(x, axis=0)", "axis", 0},
        {"transpose(x)", "perm", 1},
        {"transpose(x, perm=[1, 0])", "perm", 1},
        {"transpose(x, perm=[0, 1])", "perm", 0},
        {"argmax(x)", "axis", 1},
        {"argmax(x, axis=0)", "axis", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_error err = {0};
        char text[120];
        flx_node_attr_view view;
        flx_context *ctx = flx_context_new(NULL);
        snprintf(text, sizeof text, "graph f(x: f32[2, 3]) { return %s }", cases[i].text);
        flx_module *m = flx_parse(ctx, text, strlen(text), "f", &err);
        CHECK_MADE(m, &err);
        test_fail_context("%s", cases[i].text);
        CHECK_OK(flx_node_attr_find(flx_module_main(m), 1, cases[i].key, &view), NULL);
        CHECK_EQ_I64(view.is_default, cases[i].is_default);
        flx_module_free(m);
        flx_context_free(ctx);
        test_count_case();
    }
}
