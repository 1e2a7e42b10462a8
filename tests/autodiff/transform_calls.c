/* SPDX-License-Identifier: Apache-2.0 */
/* transform_calls.c: functions through the transforms, the compiler and StableHLO. Programs whose functions use each
   other twice at every level stand for 2^LEVELS uses of the innermost one; everything that is made of them must grow
   with the number of levels instead. */
#include "autodiff/transform_text.h"

#include "graph/module.h"
#include "passes/calls.h"

#include <fluxion/stablehlo.h>
#include <math.h>

static const char *const by_x[] = {"x"};

/* ---- Programs ---- */

enum { LEVELS = 30, MOST_NODES = 40000, TEXT_SIZE = 20000 };

/* A function of tensors or of scalars, one level in terms of the one before, and a program that uses the last one. */
typedef struct {
    const char *first, *level, *last;
} kind;

#define NEVER "graph never(x: f64[3]) { return lt(reduce_sum(mul(x, x)), 0) }\n"
#define TENSOR "graph f0(x: f64[3]) { return mul(sin(x), x) }\n"
#define SCALAR "graph f0(x: f64[]) { return mul(sin(x), x) }\n"
#define PAIR "graph f0(a: f64[], x: f64[]) { return add(mul(sin(a), x), a) }\n"
#define CALLED "graph main(x: f64[3]) { y = call(x, body=@f%d) return reduce_sum(y) }\n"

static const kind kinds[] = {
    {TENSOR, "graph f%d(x: f64[3]) { a = call(x, body=@f%d) return call(a, body=@f%d) }\n", CALLED},
    {TENSOR,
     "graph f%d(x: f64[3]) { a = if(gt(reduce_sum(x), 0), x, then=@f%d, else=@f0) "
     "return if(lt(reduce_sum(a), 1), a, then=@f%d, else=@f0) }\n",
     CALLED},
    {NEVER TENSOR,
     "graph f%d(x: f64[3]) { a = while(x, cond=@never, body=@f%d) return while(a, cond=@never, body=@f%d) }\n", CALLED},
    {TENSOR,
     "graph f%d(x: f64[3]) { a = scan(x, body=@f%d, num_carry=1, length=1) "
     "return scan(a, body=@f%d, num_carry=1, length=1) }\n",
     CALLED},
    {TENSOR, "graph f%d(x: f64[3]) { a = custom_fn(x, fwd_body=@f%d) return custom_fn(a, fwd_body=@f%d) }\n", CALLED},
    {SCALAR, "graph f%d(x: f64[]) { return while(x, cond=@f%d, body=@f%d) }\n",
     "graph main(x: f64[]) { return call(x, body=@f%d) }\n"},
    {SCALAR, "graph f%d(x: f64[]) { a = map(x, body=@f%d) return map(a, body=@f%d) }\n",
     "graph main(x: f64[3]) { y = map(x, body=@f%d) return reduce_sum(y) }\n"},
    {SCALAR,
     "graph f%d(x: f64[]) { a = if(gt(x, 0), x, then=@f%d, else=@f0) b = map(a, body=@f0) "
     "return map(b, body=@f%d) }\n",
     "graph main(x: f64[3]) { y = map(x, body=@f%d) return reduce_sum(y) }\n"},
    {PAIR,
     "graph f%d(a: f64[], x: f64[]) { b = reduce(reshape(x, shape=[1]), a, body=@f%d) "
     "return reduce(reshape(x, shape=[1]), b, body=@f%d) }\n",
     "graph main(x: f64[3]) { return reduce(x, 0, body=@f%d) }\n"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void write_program(char *text, const kind *k, int count)
{
    size_t n = (size_t)snprintf(text, TEXT_SIZE, "%s", k->first);
    for (int i = 1; i <= count; i++)
        n += (size_t)snprintf(text + n, TEXT_SIZE - n, k->level, i, i - 1, i - 1);
    n += (size_t)snprintf(text + n, TEXT_SIZE - n, k->last, count);
    CHECK(n < TEXT_SIZE);
}

/* ---- Sizes ---- */

static size_t total_nodes(const flx_graph *g)
{
    const flxi_allocator *mem = &g->ctx->mem;
    flxi_graph_list list = {0};
    size_t nodes = 0;
    CHECK(flxi_collect_graphs(mem, g, &list) == FLX_OK);
    for (size_t i = 0; i < list.graphs.n; i++)
        nodes += list.graphs.at[i]->node_count;
    flxi_graph_list_free(mem, &list);
    return nodes;
}

static void check_size(text_bench *b, const flx_graph *g, const char *what)
{
    CHECK_MSG(g, "%s: %s", what, b->err.message);
    CHECK_OK(flx_graph_verify(g, &b->err), &b->err);
    EXPECT_MSG(total_nodes(g) <= MOST_NODES, "%s: %zu nodes", what, total_nodes(g));
    test_count_case();
}

/* Steps of the program, without running a compiler. */
static void check_steps(text_bench *b, const flx_graph *g, const char *what)
{
    flx_compile_options o = {.device = "cpu", .flags = FLX_COMPILE_INTERPRET};
    flx_exec *e = flx_compile(g, &o, &b->err);
    CHECK_MSG(e, "%s: %s", what, b->err.message);
    flx_buffer text = {0};
    CHECK_OK(flx_exec_report(e, &text, &b->err), &b->err);
    EXPECT_MSG(text.size < 10000000, "%s: a report of %zu bytes", what, text.size);
    EXPECT_MSG(flx_exec_memory(e) < 1000000, "%s: an arena of %zu bytes", what, flx_exec_memory(e));
    flx_buffer_free(&text);
    flx_exec_free(e);
    test_count_case();
}

static void check_trips(text_bench *b, const flx_graph *g)
{
    flx_buffer hlo = {0}, bytes = {0};
    CHECK_OK(flx_export_stablehlo(g, &hlo, &b->err), &b->err);
    EXPECT_MSG(hlo.size < 2000000, "exported: %zu bytes", hlo.size);
    flx_module *m = flx_import_stablehlo(b->ctx, hlo.data, hlo.size, "trip", &b->err);
    CHECK_MSG(m, "%s", b->err.message);
    check_size(b, flx_module_main(m), "read back");
    flx_module_free(m);
    flx_buffer_free(&hlo);
    CHECK_OK(flx_export_stablehlo_bytecode(g, &hlo, &b->err), &b->err);
    EXPECT_MSG(hlo.size < 500000, "exported as bytecode: %zu bytes", hlo.size);
    m = flx_import_stablehlo(b->ctx, hlo.data, hlo.size, "trip", &b->err);
    CHECK_MSG(m, "%s", b->err.message);
    check_size(b, flx_module_main(m), "read back from bytecode");
    flx_module_free(m);
    CHECK_OK(flx_graph_encode(g, &bytes, &b->err), &b->err);
    EXPECT_MSG(bytes.size < 200000, "encoded: %zu bytes", bytes.size);
    flx_buffer_free(&hlo);
    flx_buffer_free(&bytes);
}

static void check_kind(const kind *k)
{
    char text[TEXT_SIZE];
    write_program(text, k, LEVELS);
    text_bench b = bench_open(text, NULL);
    flx_vmap_axis axes[] = {{"x", 0}};
    flx_graph *made[] = {
        flx_grad(b.g, by_x, 1, NULL, &b.err),
        flx_jvp(b.g, by_x, 1, &b.err),
        flx_vmap(b.g, axes, 1, NULL, 0, 4, &b.err),
        flx_hvp(b.g, by_x, 1, NULL, &b.err),
        flx_lower(b.g, FLX_POLICY_FOR_AUTODIFF, &b.err),
    };
    check_size(&b, b.g, "the program");
    check_trips(&b, b.g);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        check_size(&b, made[i], made[i] ? flx_graph_name(made[i]) : "?");
        if (i < 3)
            check_steps(&b, made[i], flx_graph_name(made[i]));
        flx_graph_release(made[i]);
    }
    bench_close(&b);
}

TEST(calls_twice_at_every_level_stay_small)
{
    for (size_t i = 0; i < KINDS; i++) {
        test_fail_context("%s", kinds[i].level);
        check_kind(&kinds[i]);
    }
}

/* Bodies inside of bodies as deep as they may be: decomposing the innermost takes a round for each level. */
TEST(calls_of_bodies_nested_deeply_decompose)
{
    static const char *const deep[] = {
        "graph f%d(x: f64[]) { return map(x, body=@f%d) }\n",
        "graph f%d(x: f64[]) { return custom_fn(x, fwd_body=@f%d) }\n",
    };
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        char text[TEXT_SIZE];
        size_t n = (size_t)snprintf(text, TEXT_SIZE, "%s", SCALAR);
        for (int k = 1; k <= 50; k++)
            n += (size_t)snprintf(text + n, TEXT_SIZE - n, deep[i], k, k - 1);
        snprintf(text + n, TEXT_SIZE - n, "graph main(x: f64[]) { return call(x, body=@f50) }\n");
        text_bench b = bench_open(text, NULL);
        bench_feed_number(&b, "x", 2.0);
        bench_feed_number(&b, "tangent_x", 1.0);
        flx_graph *g = flx_grad(b.g, by_x, 1, NULL, &b.err);
        check_size(&b, g, deep[i]);
        check_steps(&b, g, deep[i]);
        CHECK_NEAR(bench_number(&b, g, 0), sin(2.0) + 2 * cos(2.0), 1e-14);
        CHECK_NEAR(bench_number(&b, flx_jvp(b.g, by_x, 1, &b.err), 1), sin(2.0) + 2 * cos(2.0), 1e-14);
        bench_close(&b);
    }
}

/* Bodies that decompositions make come and go while those of other bodies are lowered. */
TEST(calls_of_solvers_inside_of_solvers_are_lowered)
{
    static const char level[] =
        "graph f%d(x: f64[3], t: f64[]) { a = gather(odeint(x, const(f64[2], [0, 1]), body=@f%d), const(i32[], 1), "
        "axis=0) return gather(odeint(a, const(f64[2], [0, 1]), body=@f%d), const(i32[], 1), axis=0) }\n";
    char text[TEXT_SIZE];
    const kind k = {"graph f0(x: f64[3], t: f64[]) { return mul(sin(x), 0.5) }\n", level,
                    "graph main(x: f64[3]) { y = call(x, full(f64[], 0), body=@f%d) return reduce_sum(y) }\n"};
    write_program(text, &k, 6);
    text_bench b = bench_open(text, NULL);
    flx_graph *g = flx_lower(b.g, FLX_POLICY_FOR_AUTODIFF, &b.err);
    CHECK_MSG(g, "%s", b.err.message);
    EXPECT_MSG(total_nodes(g) <= 200000, "%zu nodes", total_nodes(g));
    flx_graph_release(g);
    bench_close(&b);
}

/* ---- Meaning: a program with calls is the program with its calls inlined ---- */

static const char with_calls[] =
    "graph layer(x: f64[4, 3], w: f64[3, 3], s: f64[]) { h = tanh(matmul(x, w)) return add(h, x), reduce_sum(mul(h, "
    "s)) }\n"
    "graph two(x: f64[4, 3], w: f64[3, 3], s: f64[]) { a, p = call(x, w, s, body=@layer) b, q = call(a, w, p, "
    "body=@layer) return b, add(p, q) }\n"
    "graph main(x: f64[4, 3], w: f64[3, 3], s: f64[]) { a, p = call(x, w, s, body=@two) b, q = call(a, w, s, "
    "body=@two) return add(reduce_sum(mul(b, b)), mul(p, q)) }\n";

static flx_graph *inlined(text_bench *b, const flx_graph *g)
{
    flx_graph *flat = flx_graph_new(b->ctx, "flat");
    flx_val y;
    CHECK_EQ_U64(flx_inline(flat, g, NULL, 0, &y, 1), 1);
    flx_output(flat, y, "y");
    flx_graph *out = NULL;
    CHECK_OK(flxi_pass_inline_calls(flat, &out, NULL, &b->err), &b->err);
    flx_graph_release(flat);
    for (uint32_t i = 0; i < out->node_count; i++)
        CHECK(!flxi_called(out, flxi_node_at(out, i)));
    return out;
}

static void check_same(text_bench *b, flx_graph *g, flx_graph *flat, const char *device)
{
    flx_tensor *a[TEXT_OUTPUTS] = {0}, *c[TEXT_OUTPUTS] = {0};
    flx_run_options o = {.device = device};
    CHECK_MSG(g && flat, "%s", b->err.message);
    flx_feed feeds[TEXT_FEEDS];
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        if (flx_graph_find(g, b->feeds[i].name).id)
            feeds[n++] = b->feeds[i];
    CHECK_OK(flx_run(g, &o, feeds, n, a, &b->err), &b->err);
    CHECK_OK(flx_run(flat, ON_REF, feeds, n, c, &b->err), &b->err);
    for (size_t k = 0; k < flx_graph_output_count(g); k++) {
        for (int64_t i = 0; i < flx_tensor_count(a[k]); i++) {
            double x = flx_tensor_get(a[k], i), y = flx_tensor_get(c[k], i);
            EXPECT_MSG(fabs(x - y) <= 1e-11 * (1 + fabs(y)), "%s on %s: output %zu[%lld] is %.17g, not %.17g",
                       flx_graph_name(g), device, k, (long long)i, x, y);
        }
        test_count_case();
    }
    bench_release(g, a);
    bench_release(flat, c);
    flx_graph_release(g);
    flx_graph_release(flat);
}

static const char *const by_xw[] = {"x", "w"};

static flx_graph *transform(text_bench *b, const flx_graph *g, int which)
{
    flx_vmap_axis axes[] = {{"x", FLX_NO_AXIS}, {"s", 0}};
    switch (which) {
    case 0: return flx_grad(g, by_xw, 2, NULL, &b->err);
    case 1: return flx_grad(g, by_xw + 1, 1, &(flx_grad_options){.flags = FLX_GRAD_VALUE}, &b->err);
    case 2: return flx_hvp(g, by_xw, 2, NULL, &b->err);
    case 3: return flx_jvp(g, by_xw + 1, 1, &b->err);
    default: return flx_vmap(g, axes, 2, NULL, 0, 2, &b->err);
    }
}

TEST(calls_mean_what_they_inline_to)
{
    static const char *const devices[] = {"ref", "cpu"};
    for (int which = 0; which < 5; which++)
        for (size_t d = 0; d < 2; d++) {
            text_bench b = bench_open(with_calls, NULL);
            double x[12], w[9], two[] = {0.7, -0.4};
            for (int i = 0; i < 12; i++)
                x[i] = sin(1.0 + i);
            for (int i = 0; i < 9; i++)
                w[i] = cos(2.0 * i) / 2;
            bench_feed(&b, "x", 2, (const flx_dim[]){4, 3}, x);
            bench_feed(&b, "w", 2, (const flx_dim[]){3, 3}, w);
            bench_feed(&b, "tangent_x", 2, (const flx_dim[]){4, 3}, x);
            bench_feed(&b, "tangent_w", 2, (const flx_dim[]){3, 3}, w);
            bench_feed(&b, "s", which == 4, (const flx_dim[]){2}, two);
            flx_graph *flat = inlined(&b, b.g);
            check_same(&b, transform(&b, b.g, which), transform(&b, flat, which), devices[d]);
            flx_graph_release(flat);
            bench_close(&b);
        }
}

/* A result without a cotangent contributes nothing, however bad its derivative is there. */
TEST(calls_give_no_derivative_of_results_that_are_not_used)
{
    text_bench b = bench_open("graph f(x: f64[]) { return mul(x, x), log(x) }\n"
                              "graph main(x: f64[]) { y, unused = call(x, body=@f) return y }\n",
                              NULL);
    bench_feed_number(&b, "x", 0.0);
    CHECK_NEAR(bench_number(&b, flx_grad(b.g, by_x, 1, NULL, &b.err), 0), 0.0, 0.0);
    bench_close(&b);
}

/* ---- Compiling ---- */

/* A model of equal layers, as large as one that is not inlined. */
static flx_exec *compile_layers(text_bench *b, int layers)
{
    static char text[200000];
    size_t n = (size_t)snprintf(text, sizeof text, "graph layer(x: f64[8], w: f64[8]) {\n  v0 = mul(x, w)\n");
    for (int i = 1; i < 100; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "  v%d = add(mul(sin(v%d), w), x)\n", i, i - 1);
    n += (size_t)snprintf(text + n, sizeof text - n, "  return v99\n}\ngraph main(x: f64[8], w: f64[8]) {\n  h0 = x\n");
    for (int i = 0; i < layers; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "  h%d = call(h%d, w, body=@layer)\n", i + 1, i);
    n += (size_t)snprintf(text + n, sizeof text - n, "  return reduce_sum(h%d)\n}\n", layers);
    CHECK(n < sizeof text);
    *b = bench_open(text, NULL);
    flx_graph *g = flx_grad(b->g, by_xw, 2, NULL, &b->err);
    CHECK_MSG(g, "%s", b->err.message);
    flx_exec *e = flx_compile(g, &(flx_compile_options){.device = "cpu"}, &b->err);
    CHECK_MSG(e, "%s", b->err.message);
    flx_graph_release(g);
    return e;
}

static size_t kernels_of(const flx_exec *e)
{
    flx_buffer text = {0};
    flx_error err = {0};
    size_t kernels = 0;
    CHECK_OK(flx_exec_report(e, &text, &err), &err);
    const char *at = strstr(text.data, " different kernel");
    CHECK(at);
    while (at > text.data && at[-1] >= '0' && at[-1] <= '9')
        at--;
    kernels = strtoul(at, NULL, 10);
    flx_buffer_free(&text);
    return kernels;
}

TEST(calls_of_equal_layers_compile_like_one)
{
    text_bench few, many;
    flx_exec *a = compile_layers(&few, 24), *c = compile_layers(&many, 48);
    size_t first = kernels_of(a), second = kernels_of(c);
    EXPECT_MSG(second <= first + 2, "24 layers need %zu kernels, 48 need %zu", first, second);
    flx_exec_free(a);
    flx_exec_free(c);
    bench_close(&few);
    bench_close(&many);
}
