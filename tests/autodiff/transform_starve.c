/* SPDX-License-Identifier: Apache-2.0 */
/* transform_starve.c: memory runs out while a transform works on control flow. Whichever request fails, alone or with
   all later ones, the transform ends with OOM or, where it does not need the memory, with its usual result; nothing
   leaks, and the given graph is unchanged.

   Each pair of transform and text makes thousands of requests. Of many requests only some, spread evenly, are tried:
   the effort starved_transforms says how many; 1000000 tries every one. */
#include "autodiff/transform_text.h"

/* ---- What is transformed ---- */

static const char *const texts[] = {
    "graph step(c: f64[2], w: f64[2], x: f64[2]) { n = tanh(add(mul(c, w), x)) return n, n }\n"
    "graph f(x: f64[3, 2], w: f64[2]) {\n"
    "  c, ys = scan(full(f64[2], 0), w, x, body=@step, num_bcast=1)\n  return reduce_sum(mul(softmax(ys), "
    "exp(c)))\n}\n",

    "graph step(c: f64[2], x: f64[2]) { return mul(c, sin(x)) }\n"
    "graph f(x: f64[4, 2]) { return reduce_sum(scan(full(f64[2], 1), x, body=@step, num_checkpoints=2)) }\n",

    "graph more(i: i32[], x: f64[2]) { return lt(i, 3) }\n"
    "graph next(i: i32[], x: f64[2]) { return add(i, 1), mul(x, x) }\n"
    "graph f(x: f64[2]) {\n"
    "  i, y = while(const(i32[], 0), x, cond=@more, body=@next, max_iterations=5)\n  return reduce_sum(y)\n}\n",

    "graph a(x: f64[2]) { return exp(x) }\ngraph b(x: f64[2]) { return sin(x) }\n"
    "graph f(x: f64[2]) {\n"
    "  y = if(gt(reduce_sum(x), 0), x, then=@a, else=@b)\n  z = case(argmax(x, axis=0), y, branches=[@b, @a])\n"
    "  return reduce_prod(z)\n}\n",

    "graph fwd(x: f64[2]) { s = sin(x) return mul(s, x), s }\n"
    "graph back(x: f64[2], y: f64[2], s: f64[2], g: f64[2]) { return mul(g, add(s, cos(x))) }\n"
    "graph push(x: f64[2], t: f64[2], y: f64[2]) { return mul(t, cos(y)) }\n"
    "graph plain(x: f64[2]) { return tanh(mul(x, x)) }\n"
    "graph f(x: f64[2]) {\n"
    "  a = custom_fn(x, fwd_body=@fwd, vjp_body=@back, num_residuals=1)\n"
    "  b = custom_fn(a, fwd_body=@plain, jvp_body=@push)\n"
    "  c = custom_fn(b, fwd_body=@plain, recompute=true)\n"
    "  d = custom_fn(c, fwd_body=@fwd, vjp_body=@back, num_residuals=1, recompute=true)\n"
    "  return reduce_sum(d)\n}\n",

    "graph f(x: f64[N, 2]) {\n"
    "  y = mul(narrow(x, axis=0, start=0, len=N - 1), narrow(x, axis=0, start=1, len=N - 1))\n"
    "  return reduce_sum(reshape(concat(y, y, axis=1), shape=[-1]))\n}\n",
};

/* ---- How ---- */

static const char *const by_x[] = {"x"};

static flx_graph *make_grad(const flx_graph *g, flx_error *err)
{
    return flx_grad(g, by_x, 1, &(flx_grad_options){.flags = FLX_GRAD_VALUE}, err);
}

static flx_graph *make_jvp(const flx_graph *g, flx_error *err)
{
    return flx_jvp(g, by_x, 1, err);
}

static flx_graph *make_hvp(const flx_graph *g, flx_error *err)
{
    return flx_hvp(g, by_x, 1, NULL, err);
}

static flx_graph *make_vmap(const flx_graph *g, flx_error *err)
{
    flx_vmap_axis axis = {"x", 1};
    return flx_vmap(g, &axis, 1, NULL, 0, 3, err);
}

static flx_graph *make_jacobian(const flx_graph *g, flx_error *err)
{
    flx_jacobian_options o = {.mode = FLX_JACOBIAN_REVERSE};
    return flx_jacobian(g, by_x, 1, &o, err);
}

static flx_graph *make_hessian(const flx_graph *g, flx_error *err)
{
    flx_jacobian_options o = {.mode = FLX_JACOBIAN_FORWARD, .chunk = 2, .budget = 10000};
    return flx_hessian(g, by_x, 1, &o, err);
}

static flx_graph *make_taylor(const flx_graph *g, flx_error *err)
{
    return flx_taylor(g, by_x, 1, 2, err);
}

static flx_graph *make_nth_grad(const flx_graph *g, flx_error *err)
{
    return flx_nth_grad(g, "x", 2, err);
}

static flx_graph *make_force_energy_loss(const flx_graph *g, flx_error *err)
{
    return flx_force_energy_loss(g, "x", NULL, err);
}

typedef flx_graph *(*transform_fn)(const flx_graph *g, flx_error *err);

/* Fails request n; false when the transform makes fewer. */
static bool starve_once(const char *text, transform_fn transform, size_t n, bool forever)
{
    fault f = {0};
    text_bench b = bench_open(text, &f);
    uint64_t hash = flx_graph_hash(b.g);
    f.fail_at = f.calls + n;
    f.forever = forever;
    flx_error err = {0};
    flx_graph *made = transform(b.g, &err);
    bool failed = f.failed > 0;
    f.fail_at = 0;
    f.forever = false;
    test_fail_context("request %zu fails%s\n%s", n, forever ? ", and all later ones" : "", text);
    CHECK_CODE(made ? FLX_OK : err.code, failed ? FLX_E_OOM : FLX_OK, &err);
    CHECK_MSG(!failed || (strncmp(err.message, "out of memory", 13) == 0 && !strchr(err.message, '%')),
              "the message is '%s'", err.message);
    CHECK_EQ_U64(flx_graph_hash(b.g), hash);
    CHECK_OK(flx_graph_verify(b.g, &b.err), &b.err);
    flx_graph_release(made);
    bench_close(&b);
    CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
    return failed;
}

/* How many requests the transform makes. */
static size_t count_requests(const char *text, transform_fn transform)
{
    fault f = {0};
    text_bench b = bench_open(text, &f);
    size_t before = f.calls;
    flx_graph *made = transform(b.g, &b.err);
    CHECK_MSG(made != NULL, "%s (%s)\n%s", b.err.message, b.err.where, text);
    size_t n = f.calls - before;
    flx_graph_release(made);
    bench_close(&b);
    return n;
}

static void starve(transform_fn transform)
{
    uint64_t state = test_seed();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t requests = count_requests(texts[i], transform);
        size_t stride = requests / (size_t)effort(EFFORT_starved_transforms) + 1; /* each once and for good */
        for (size_t n = 1 + (size_t)(test_uniform(&state) * (double)stride); n <= requests; n += stride)
            for (int forever = 0; forever < 2; forever++) {
                CHECK_MSG(starve_once(texts[i], transform, n, forever != 0), "request %zu of %zu is not made", n,
                          requests);
                test_count_case();
            }
    }
}

TEST(starved_grad_fails_with_oom)
{
    starve(make_grad);
}

TEST(starved_jvp_fails_with_oom)
{
    starve(make_jvp);
}

TEST(starved_hvp_fails_with_oom)
{
    starve(make_hvp);
}

TEST(starved_vmap_fails_with_oom)
{
    starve(make_vmap);
}

TEST(starved_jacobian_fails_with_oom)
{
    starve(make_jacobian);
}

TEST(starved_hessian_fails_with_oom)
{
    starve(make_hessian);
}

TEST(starved_taylor_fails_with_oom)
{
    starve(make_taylor);
}

TEST(starved_nth_grad_fails_with_oom)
{
    starve(make_nth_grad);
}

TEST(starved_force_energy_loss_fails_with_oom)
{
    starve(make_force_energy_loss);
}
