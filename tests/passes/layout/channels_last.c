/* SPDX-License-Identifier: Apache-2.0 */
/* channels_last.c: the pass that stores channels last: what it moves, what it leaves and where it transposes; that
   networks and their gradients compute the same, random ones too, for any batch; and how it fails without memory. */
#include "autodiff/transform_text.h"
#include "backend/devices.h"
#include "compile/pipeline.h"
#include "graph/graph.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "passes/layout/layout.h"

#include <math.h>

/* Moves what can be moved, and what is worth it for few channels. */
static const flxi_layout_limits eager = {.least_channels = 1, .transpose_cost = 0},
                                careful = {.least_channels = 1, .transpose_cost = 3};

static flx_graph *moved(const flx_graph *g, const flxi_layout_limits *limits, flx_error *err)
{
    flx_graph *out = NULL, *clean = NULL;
    CHECK_OK(flxi_channels_last(g, limits, &out, NULL, err), err);
    CHECK_OK(flx_graph_verify(out, err), err);
    CHECK_OK(flxi_simplify(out, &clean, NULL, err), err);
    flx_graph_release(out);
    return clean;
}

/* Composites and batch norms as what they consist of. */
static flx_graph *prepared(const flx_graph *g, flx_error *err)
{
    static const char *const names[] = {"inline calls", "lower", "drop stops", "simplify", "decompose", "simplify"};
    const flxi_device *cpu = NULL;
    flx_graph *now = flx_graph_retain((flx_graph *)(uintptr_t)g), *next = NULL;
    CHECK_OK(flxi_device_find("cpu", &cpu, err), err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t k = 0;
        while (strcmp(flxi_compile_pass_name(k), names[i]))
            k++;
        CHECK_OK(flxi_compile_pass(k, cpu, now, &next, err), err);
        flx_graph_release(now);
        now = next;
    }
    return now;
}

static size_t elements(const flx_type *t)
{
    return (size_t)flxi_static_extent(t, 0, t->rank);
}

/* Transposes of more elements than a kernel has. */
static int transposes(const flx_graph *g, size_t more_than)
{
    int n = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *node = flxi_node_at(g, i);
        n += node->op == OP_transpose && elements(flxi_type_at(g, node->first)) > more_than;
    }
    return n;
}

/* Results of convolutions whose channels are last. */
static int moved_convs(const flx_graph *g)
{
    int n = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *node = flxi_node_at(g, i);
        if (node->op == OP_conv)
            n += flxi_node_ints(node, "output_axes")->v[1] == flxi_type_at(g, node->first)->rank - 1;
    }
    return n;
}

/* ---- Values ---- */

enum { FEEDS = 64 };

static size_t feed_all(flx_context *ctx, const flx_graph *g, flx_feed *feeds)
{
    flx_error err = {0};
    size_t n = flx_graph_input_count(g);
    CHECK(n <= FEEDS);
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        flx_tensor *t = flx_tensor_new(ctx, flx_val_type(g, v), NULL, &err);
        CHECK_MADE(t, &err);
        for (int64_t k = 0; k < flx_tensor_count(t); k++)
            flxi_store_double(t->type.dtype, t->data, k, sin((double)(k * 7 + (int64_t)i * 131) * 0.61803398875));
        feeds[i] = (flx_feed){flx_val_name(g, v), t};
    }
    return n;
}

static void expect_near(const flx_graph *g, flx_tensor *const *a, flx_tensor *const *b, double bound)
{
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        double most = 0;
        CHECK(flxi_type_equal(flx_tensor_type(a[i]), flx_tensor_type(b[i])));
        for (int64_t k = 0; k < flx_tensor_count(a[i]); k++)
            most = fmax(most, fabs(flx_tensor_get(a[i], k)));
        for (int64_t k = 0; k < flx_tensor_count(a[i]); k++) {
            double x = flx_tensor_get(a[i], k), y = flx_tensor_get(b[i], k);
            CHECK_MSG(x == y || fabs(x - y) <= bound * most || (isnan(x) && isnan(y)),
                      "output %zu at %lld: %.17g before, %.17g with channels last", i, (long long)k, x, y);
        }
    }
}

static void check_meaning(const flx_graph *g, const flx_graph *other, const char *device, double bound)
{
    flx_feed feeds[FEEDS];
    flx_tensor *a[FEEDS], *b[FEEDS];
    flx_error err = {0};
    const flx_run_options ref = {.device = "ref"}, second = {.device = device};
    size_t n = feed_all(flx_graph_context(g), g, feeds);
    CHECK_OK(flx_run(g, &ref, feeds, n, a, &err), &err);
    CHECK_OK(flx_run(other, &second, feeds, n, b, &err), &err);
    expect_near(g, a, b, bound);
    bench_release(g, a);
    bench_release(g, b);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
}

/* ---- What is moved ---- */

typedef struct {
    const char *what, *text;
    int convs, transposes; /* moved ones; large ones that are needed */
} row;

#define X "x: f64[2, 3, 6, 5]"
#define K "k: f64[4, 3, 3, 3]"
#define L "l: f64[4, 4, 3, 3]"

static const row rows[] = {
    {"a chain that ends in a mean",
     "graph g(" X ", " K ", " L ") {\n"
     "  h = relu(conv(x, k, padding=[1, 1]))\n  return reduce_mean(conv(h, l), axes=[2, 3]) }",
     2, 0},
    {"an output is written as it is",
     "graph g(" X ", " K ", " L ") {\n"
     "  h = relu(conv(x, k, padding=[1, 1]))\n  return conv(h, l) }",
     1, 0},
    {"a bias, a scale for each channel, and one for each position",
     "graph g(" X ", " K ", " L ", b: f64[4], s: f64[6, 5]) {\n"
     "  h = add(conv(x, k, padding=[1, 1]), unsqueeze(b, axes=[1, 2]))\n  return conv(mul(h, s), l) }",
     1, 0},
    {"a pool",
     "graph g(" X ", " K ", " L ") {\n"
     "  return conv(pool(conv(x, k, padding=[1, 1]), kind=max, kernel_size=[2, 2], stride=[1, 1]), l) }",
     1, 0},
    {"a residual sum of an input needs the input in both orders",
     "graph g(h: f64[2, 4, 6, 5], " L ") {\n"
     "  a = add(h, conv(h, l, padding=[1, 1]))\n  b = add(a, conv(a, l, padding=[1, 1]))\n"
     "  c = add(b, conv(b, l, padding=[1, 1]))\n  return reduce_mean(c, axes=[2, 3]) }",
     3, 1},
    {"channels joined, padded and cut",
     "graph g(" X ", " K ", m: f64[4, 8, 3, 3]) {\n"
     "  h = conv(x, k, padding=[1, 1])\n  j = concat(h, pad(narrow(h, axis=2, start=1, len=4), 0, low=[0, 0, 1, 0],"
     " high=[0, 0, 1, 0]), axis=1)\n  return conv(j, m) }",
     1, 0},
    {"a sum over channels",
     "graph g(" X ", " K ", " L ") {\n"
     "  h = conv(x, k, padding=[1, 1])\n"
     "  return conv(mul(h, reduce_max(h, axes=[1], keep_dims=true)), l), reduce_sum(h, axes=[1]) }",
     1, 0},
    {"transposes that are there cancel",
     "graph g(x: f64[2, 6, 5, 3], " K ", " L ") {\n"
     "  h = relu(conv(transpose(x, perm=[0, 3, 1, 2]), k, padding=[1, 1]))\n  y = relu(conv(h, l))\n"
     "  return transpose(y, perm=[0, 2, 3, 1]) }",
     2, 1},
    {"one axis",
     "graph g(x: f64[2, 3, 9], k: f64[4, 3, 3], l: f64[5, 4, 2]) {\n"
     "  return reduce_mean(conv(tanh(conv(x, k, stride=[2])), l), axes=[2]) }",
     2, 0},
    /* what stays */
    {"elements counted one by one",
     "graph g(" X ", " K ") {\n"
     "  return reshape(relu(conv(x, k)), shape=[2, -1]) }",
     0, 0},
    {"a sum along an axis of the plane", "graph g(" X ", " K ") { return cumsum(relu(conv(x, k)), axis=3) }", 0, 0},
    {"depthwise",
     "graph g(" X ", k: f64[3, 1, 3, 3]) {\n"
     "  return reduce_sum(conv(relu(conv(x, k, groups=3)), k, groups=3), axes=[2, 3]) }",
     0, 0},
    {"channels that are last",
     "graph g(x: f64[2, 6, 5, 3], " K ") {\n"
     "  h = relu(conv(x, k, padding=[1, 1], input_axes=[0, 3, 1, 2], output_axes=[0, 3, 1, 2]))\n"
     "  return reduce_mean(h, axes=[1, 2]) }",
     1, 0},
    {"integers",
     "graph g(x: i32[2, 3, 6, 5], k: i32[4, 3, 3, 3]) {\n"
     "  return reduce_sum(abs(conv(x, k)), axes=[2, 3]) }",
     0, 0},
};

TEST(channels_move_where_that_pays)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const row *r = &rows[i];
        text_bench b = bench_open(r->text, NULL);
        test_fail_context("%s", r->what);
        flx_graph *plain = prepared(b.g, &b.err), *last = moved(plain, &careful, &b.err);
        EXPECT_MSG(moved_convs(last) == r->convs, "%d convolutions", moved_convs(last));
        EXPECT_MSG(transposes(last, 4 * 4 * 9) == r->transposes, "%d transposes", transposes(last, 4 * 4 * 9));
        check_meaning(plain, last, "ref", 1e-12);
        flx_graph_release(last);
        flx_graph_release(plain);
        bench_close(&b);
        test_count_case();
    }
}

/* ---- Networks ---- */

static flx_graph *gradient(const flx_graph *g, flx_error *err)
{
    const char *wrt[FEEDS];
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++)
        wrt[i] = flx_val_name(g, flx_graph_input(g, i));
    const flx_grad_options zeros = {.struct_size = sizeof zeros, .flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *d = flx_grad(g, wrt, n, &zeros, err);
    CHECK_MADE(d, err);
    return d;
}

#define NORM(to, from, k) to ", _, _ = batch_norm_training(" from ", g" k ", c" k ")\n  "

/* A stem, a residual block that halves the image, and one that does not, as in ResNet. */
static const char residual[] =
    "graph net(x: f64[N, 3, 9, 8], k0: f64[4, 3, 3, 3], g0: f64[4], c0: f64[4], k1: f64[6, 4, 3, 3], g1: f64[6],"
    " c1: f64[6], k2: f64[6, 6, 3, 3], g2: f64[6], c2: f64[6], k3: f64[6, 4, 1, 1], g3: f64[6], c3: f64[6],"
    " k4: f64[6, 6, 3, 3], g4: f64[6], c4: f64[6]) {\n"
    "  " NORM("n0", "conv(x, k0, padding=[1, 1])",
              "0") "h0 = relu(n0)\n"
                   "  " NORM("n1", "conv(h0, k1, stride=[2, 2], padding=[1, 1])",
                             "1") NORM("n2", "conv(relu(n1), k2, padding=[1, 1])", "2")
                       NORM("n3", "conv(h0, k3, stride=[2, 2])", "3") "h1 = relu(add(n2, n3))\n  " NORM(
                           "n4", "conv(h1, k4, padding=[1, 1])", "4") "h2 = relu(add(n4, h1))\n  y = reduce_mean(h2, "
                                                                      "axes=[2, 3])\n  return reduce_sum(mul(y, y)) }";

TEST(channels_of_a_residual_network_need_no_transposes)
{
    for (int64_t batch = 1; batch <= 3; batch++) {
        text_bench b = bench_open(residual, NULL);
        flx_graph *bound = flx_specialise(b.g, &(flx_dim_binding){"N", batch}, 1, &b.err);
        CHECK_MADE(bound, &b.err);
        flx_graph *d = gradient(bound, &b.err), *plain = prepared(d, &b.err), *last = moved(plain, &careful, &b.err);
        CHECK_EQ_I64(transposes(last, 6 * 6 * 9), 0);
        /* Five forward, four towards their inputs; the first writes the gradient of x as it is. */
        CHECK_EQ_I64(moved_convs(last), 9);
        check_meaning(plain, last, "ref", 1e-10);
        flx_graph_release(last);
        flx_graph_release(plain);
        flx_graph_release(d);
        flx_graph_release(bound);
        bench_close(&b);
        test_count_case();
    }
}

/* Enough channels for the limits of the compiler, extents that are not known, on the device. */
TEST(channels_last_compiled_for_any_batch)
{
    static const char text[] =
        "graph net(x: f32[N, 3, 10, 9], k: f32[16, 3, 3, 3], l: f32[32, 16, 3, 3], b: f32[16]) {\n"
        "  h = relu(add(conv(x, k, padding=[1, 1]), unsqueeze(b, axes=[1, 2])))\n"
        "  p = pool(h, kind=max, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])\n"
        "  y = tanh(conv(p, l, padding=[1, 1]))\n"
        "  return reduce_sum(mul(reduce_mean(y, axes=[2, 3]), reduce_max(y, axes=[2, 3]))) }";
    text_bench b = bench_open(text, NULL);
    flx_graph *d = gradient(b.g, &b.err);
    const flxi_device *cpu = NULL;
    CHECK_OK(flxi_device_find("cpu", &cpu, &b.err), &b.err);
    for (int64_t batch = 1; batch <= 5; batch += 2) {
        flx_graph *bound = flx_specialise(d, &(flx_dim_binding){"N", batch}, 1, &b.err), *last = NULL;
        CHECK_MADE(bound, &b.err);
        bool left_out = false;
        CHECK_OK(flxi_optimise(bound, cpu, true, &last, &left_out, &b.err), &b.err);
        CHECK(!left_out);
        CHECK(moved_convs(last) >= 3);
        check_meaning(bound, bound, "cpu", 1e-5);
        flx_graph_release(last);
        flx_graph_release(bound);
    }
    flx_graph_release(d);
    bench_close(&b);
}

/* ---- Random networks ---- */

typedef struct {
    char head[4096], body[8192];
    size_t head_n, body_n;
    int values, params, channels[32], rows[32], columns[32];
    uint64_t *state;
} network;

static int draw(network *w, int n)
{
    return (int)(test_uniform(w->state) * n) % n;
}

static void say(network *w, const char *form, ...)
{
    va_list list;
    va_start(list, form);
    w->body_n += (size_t)vsnprintf(w->body + w->body_n, sizeof w->body - w->body_n, form, list);
    va_end(list);
}

/* A new parameter; its number. */
static int param(network *w, const char *form, ...)
{
    va_list list;
    va_start(list, form);
    w->head_n += (size_t)snprintf(w->head + w->head_n, sizeof w->head - w->head_n, ", p%d: f64[", w->params);
    w->head_n += (size_t)vsnprintf(w->head + w->head_n, sizeof w->head - w->head_n, form, list);
    w->head_n += (size_t)snprintf(w->head + w->head_n, sizeof w->head - w->head_n, "]");
    va_end(list);
    return w->params++;
}

static void push(network *w, int channels, int rows_now, int columns)
{
    w->channels[w->values] = channels;
    w->rows[w->values] = rows_now;
    w->columns[w->values] = columns;
    w->values++;
}

/* Any convolution of value v, with groups, strides, dilations. */
static void add_conv(network *w, int v)
{
    int c = w->channels[v], h = w->rows[v], s = w->columns[v], size = 1 + draw(w, 3), pad = draw(w, 3);
    int groups = draw(w, 3) || c % 2 ? 1 : draw(w, 2) ? c : 2, stride = 1 + draw(w, 2), dilation = 1 + draw(w, 2);
    int features = groups * (1 + draw(w, 3)), reach = (size - 1) * dilation;
    int high = (h + 2 * pad - reach - 1) / stride + 1, wide = (s + 2 * pad - reach - 1) / stride + 1;
    if (h + 2 * pad <= reach || s + 2 * pad <= reach || high > 9 || wide > 9 || high < 1 || wide < 1)
        return;
    int p = param(w, "%d, %d, %d, %d", features, c / groups, size, size);
    say(w, "  v%d = conv(v%d, p%d, stride=[%d, %d], padding=[%d, %d], dilation=[%d, %d], groups=%d)\n", w->values, v, p,
        stride, stride, pad, pad, dilation, dilation, groups);
    push(w, features, high, wide);
}

static void add_transposed(network *w, int v)
{
    int c = w->channels[v], h = w->rows[v], s = w->columns[v], stride = 1 + draw(w, 2), features = 1 + draw(w, 4);
    if ((h - 1) * stride + 2 > 9 || (s - 1) * stride + 2 > 9)
        return;
    int p = param(w, "%d, %d, 2, 2", c, features);
    say(w, "  v%d = conv_transpose(v%d, p%d, stride=[%d, %d])\n", w->values, v, p, stride, stride);
    push(w, features, (h - 1) * stride + 2, (s - 1) * stride + 2);
}

static void add_pool(network *w, int v)
{
    static const char *const kinds[] = {"max", "mean", "sum", "min"};
    int stride = 1 + draw(w, 2), pad = draw(w, 2), h = w->rows[v] + 2 * pad - 2, s = w->columns[v] + 2 * pad - 2;
    if (h < 0 || s < 0)
        return;
    say(w, "  v%d = pool(v%d, kind=%s, kernel_size=[2, 2], stride=[%d, %d], padding=[%d, %d])\n", w->values, v,
        kinds[draw(w, 4)], stride, stride, pad, pad);
    push(w, w->channels[v], h / stride + 1, s / stride + 1);
}

static int same_shape(network *w, int v)
{
    for (int tries = 0; tries < 8; tries++) {
        int other = draw(w, w->values);
        if (w->channels[other] == w->channels[v] && w->rows[other] == w->rows[v] && w->columns[other] == w->columns[v])
            return other;
    }
    return v;
}

/* Nodes with one shape; the result is v%d. */
static void add_elements(network *w, int v)
{
    int c = w->channels[v], h = w->rows[v], s = w->columns[v], y = w->values;
    switch (draw(w, 9)) {
    case 0: say(w, "  v%d = tanh(v%d)\n", y, v); break;
    case 1: say(w, "  v%d = add(v%d, v%d)\n", y, v, same_shape(w, v)); break;
    case 2: say(w, "  v%d = add(v%d, unsqueeze(p%d, axes=[1, 2]))\n", y, v, param(w, "%d", c)); break;
    case 3: say(w, "  v%d = mul(v%d, p%d)\n", y, v, param(w, "%d, %d", h, s)); break;
    case 4:
        say(w, "  v%d = mul(v%d, sigmoid(reduce_mean(v%d, axes=[2, 3], keep_dims=true)))\n", y, v, same_shape(w, v));
        break;
    case 5: say(w, "  v%d = mul(v%d, reduce_max(v%d, axes=[1], keep_dims=true))\n", y, v, v); break;
    case 6:
        say(w, "  v%d, _, _ = batch_norm_training(v%d, p%d, p%d)\n", y, v, param(w, "%d", c), param(w, "%d", c));
        break;
    case 7: say(w, "  v%d = where(gt(v%d, 0), v%d, p%d)\n", y, v, same_shape(w, v), param(w, "%d", s)); break;
    default: say(w, "  v%d = transpose(sin(transpose(v%d, perm=[0, 2, 3, 1])), perm=[0, 3, 1, 2])\n", y, v); break;
    }
    push(w, c, h, s);
}

static void add_movement(network *w, int v)
{
    int c = w->channels[v], h = w->rows[v], s = w->columns[v], y = w->values;
    if (c > 6 || h > 7) {
        say(w, "  v%d = slice(v%d, start=[0, 0, 0, 0], limit=[2, %d, %d, %d], stride=[1, 2, 2, 1])\n", y, v, c, h, s);
        push(w, (c + 1) / 2, (h + 1) / 2, s);
    } else if (draw(w, 2)) {
        say(w, "  v%d = concat(v%d, reverse(v%d, axes=[2]), axis=1)\n", y, v, same_shape(w, v));
        push(w, 2 * c, h, s);
    } else {
        say(w, "  v%d = pad(v%d, 0.5, low=[0, 0, 1, 0], high=[0, 0, 0, 1])\n", y, v);
        push(w, c, h + 1, s + 1);
    }
}

static void random_network(network *w, char *to, size_t room)
{
    say(w, "  v0 = mul(x, 1.5)\n");
    push(w, 3, 6, 5);
    for (int left = 4 + draw(w, 8); left && w->values < 30; left--) {
        int v = draw(w, 3) ? w->values - 1 : draw(w, w->values), kind = draw(w, 9);
        if (kind < 4)
            add_conv(w, v);
        else if (kind == 4)
            add_transposed(w, v);
        else if (kind == 5)
            add_pool(w, v);
        else if (kind == 6)
            add_movement(w, v);
        else
            add_elements(w, v);
    }
    const char *end = draw(w, 2) ? "reduce_mean(mul(v%d, v%d), axes=[0, 2, 3])" : "mul(v%d, v%d)";
    char last[128];
    snprintf(last, sizeof last, end, w->values - 1, draw(w, 2) ? w->values - 1 : same_shape(w, w->values - 1));
    snprintf(to, room, "graph net(x: f64[2, 3, 6, 5]%s) {\n%s  return reduce_sum(%s)\n}\n", w->head, w->body, last);
}

TEST(channels_last_keeps_the_meaning_of_random_networks)
{
    uint64_t state = test_seed();
    int with_moves = 0;
    for (int i = 0; i < 120; i++) {
        network w = {.state = &state};
        char text[16384];
        random_network(&w, text, sizeof text);
        test_fail_context("%s", text);
        text_bench b = bench_open(text, NULL);
        flx_graph *d = gradient(b.g, &b.err);
        const flx_graph *const both[] = {b.g, d};
        for (int k = 0; k < 2; k++) {
            flx_graph *plain = prepared(both[k], &b.err);
            flx_graph *last = moved(plain, i % 4 ? &eager : &careful, &b.err);
            with_moves += moved_convs(last) > 0;
            check_meaning(plain, last, "ref", 1e-9);
            flx_graph_release(last);
            flx_graph_release(plain);
            test_count_case();
        }
        flx_graph_release(d);
        bench_close(&b);
    }
    CHECK_MSG(with_moves > 100, "only %d graphs were changed", with_moves);
}

/* ---- Without memory ---- */

TEST(channels_last_without_memory)
{
    static const char text[] = "graph g(" X ", k: f64[4, 1, 3, 3], " L ", d: f64[2, 4, 6, 5]) {\n"
                               "  s = conv_backward_input(mul(d, 2), k, input_size=[8, 7], groups=2)\n"
                               "  p = pool(add(s, reduce_max(s, axes=[1], keep_dims=true)), kind=max,"
                               " kernel_size=[2, 2], stride=[1, 1])\n"
                               "  q = conv(concat(p, p, axis=1), l)\n  return conv_backward_weight(d, tanh(conv(d, l)),"
                               " kernel_size=[3, 3]), q, cumsum(q, axis=2) }";
    fault counting = {0};
    text_bench b = bench_open(text, &counting);
    size_t before = counting.calls;
    flx_graph *g = NULL;
    CHECK_OK(flxi_channels_last(b.g, &eager, &g, NULL, &b.err), &b.err);
    size_t requests = counting.calls - before;
    CHECK(moved_convs(g) > 0);
    flx_graph_release(g);
    bench_close(&b);
    CHECK(fault_is_clean(&counting));
    for (size_t n = 1; n <= requests; n++) {
        fault starved = {0};
        b = bench_open(text, &starved);
        starved.fail_at = starved.calls + n;
        flx_error err = {0};
        g = NULL;
        flx_code code = flxi_channels_last(b.g, &eager, &g, NULL, &err);
        bool failed = starved.failed > 0;
        starved.fail_at = 0;
        test_fail_context("request %zu of %zu fails", n, requests);
        CHECK_CODE(code, failed ? FLX_E_OOM : FLX_OK, &err);
        if (code == FLX_OK)
            flx_graph_release(g);
        bench_close(&b);
        CHECK_MSG(fault_is_clean(&starved), "%zu blocks leaked, %zu errors", starved.live_blocks, starved.errors);
        test_count_case();
    }
}
