/* SPDX-License-Identifier: Apache-2.0 */
/* transform_untaken.c: the branch that an example does not take has no influence on its derivatives, in whatever order
   transforms are applied. Every function f(x, w) of scalars here has a branch that has no finite derivative, or never
   ends, on the examples that take the other one. All compositions of grad, jvp, hvp and vmap up to depth 3 must give
   the derivative of the right order, example by example; the reference differentiates one example at a time, where a
   conditional runs one branch only. */
#include "autodiff/transform_text.h"

#include <math.h>

enum { EXAMPLES = 4, DEPTH = 3, MAX_ORDER = 4 };

static const char *const by_x[] = {"x"};
static const char *const by_w[] = {"w"};
static const double points[EXAMPLES] = {0.5, -1.5, 0.0, 2.0};
static const double w_point = 1.25;

typedef struct {
    const char *name;
    const char *text;
} function;

static const function functions[] = {
    {"log", "graph a(x: f64[], w: f64[]) { return mul(w, log(x)) }\n"
            "graph b(x: f64[], w: f64[]) { return mul(w, mul(x, x)) }\n"
            "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@a, else=@b) }"},
    {"square root", "graph a(x: f64[], w: f64[]) { return sqrt(mul(w, x)) }\n"
                    "graph b(x: f64[], w: f64[]) { return mul(w, exp(x)) }\n"
                    "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@a, else=@b) }"},
    {"a finite first and an infinite second derivative",
     "graph a(x: f64[], w: f64[]) { return mul(w, pow(x, 1.5)) }\n"
     "graph b(x: f64[], w: f64[]) { return mul(w, sin(x)) }\n"
     "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@a, else=@b) }"},
    {"quotient", "graph a(x: f64[], w: f64[]) { return div(w, x) }\n"
                 "graph b(x: f64[], w: f64[]) { return div(x, add(w, x)) }\n"
                 "graph f(x: f64[], w: f64[]) { return if(ne(x, 0), x, w, then=@a, else=@b) }"},
    {"nested", "graph a(x: f64[], w: f64[]) { return log(sub(x, w)) }\n"
               "graph b(x: f64[], w: f64[]) { return log(sub(w, x)) }\n"
               "graph c(x: f64[], w: f64[]) { return if(gt(x, w), x, w, then=@a, else=@b) }\n"
               "graph d(x: f64[], w: f64[]) { return mul(w, exp(x)) }\n"
               "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@c, else=@d) }"},
    {"three branches",
     "graph a(x: f64[], w: f64[]) { return log(neg(mul(x, w))) }\n"
     "graph b(x: f64[], w: f64[]) { return mul(w, cos(x)) }\n"
     "graph c(x: f64[], w: f64[]) { return mul(w, rsqrt(x)) }\n"
     "graph f(x: f64[], w: f64[]) { return case(add(cast(ge(x, 0), to=i32), cast(gt(x, 0), to=i32)), x, w, "
     "branches=[@a, @b, @c]) }"},
    {"where", "graph f(x: f64[], w: f64[]) { return where(gt(x, 0), mul(w, log(x)), mul(w, where(lt(x, 0), "
              "div(1, x), x))) }"},
    {"a product of matrices",
     "graph a(x: f64[], w: f64[]) { m = expand(log(x), shape=[2, 2]) return reduce_sum(matmul(m, mul(m, w))) }\n"
     "graph b(x: f64[], w: f64[]) { return mul(w, x) }\n"
     "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@a, else=@b) }"},
    {"a linear system", "graph a(x: f64[], w: f64[]) { m = mul(const(f64[2, 2], [[2, 0], [1, 1]]), x)\n"
                        "  return reduce_sum(solve(m, mul(const(f64[2], [1, 3]), w))) }\n"
                        "graph b(x: f64[], w: f64[]) { return mul(w, exp(x)) }\n"
                        "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@a, else=@b) }"},
    {"a loop that ends for some examples alone",
     "graph few(c: f64[], x: f64[], w: f64[]) { return lt(c, 20) }\n"
     "graph grow(c: f64[], x: f64[], w: f64[]) { return mul(c, add(x, w)), x, w }\n"
     "graph a(x: f64[], w: f64[]) { c, y, z = while(w, x, w, cond=@few, body=@grow, max_iterations=100) return c }\n"
     "graph b(x: f64[], w: f64[]) { return mul(w, exp(x)) }\n"
     "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@a, else=@b) }"},
    {"a scan", "graph root(c: f64[], x: f64[]) { return sqrt(mul(c, x)) }\n"
               "graph a(x: f64[], w: f64[]) { return scan(w, x, body=@root, num_bcast=1, length=3) }\n"
               "graph b(x: f64[], w: f64[]) { return mul(w, exp(x)) }\n"
               "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@a, else=@b) }"},
    {"a function with a rule of its own",
     "graph v(x: f64[]) { return log(x) }\n"
     "graph r(x: f64[], y: f64[], d: f64[]) { return div(d, x) }\n"
     "graph a(x: f64[], w: f64[]) { return mul(w, custom_fn(x, fwd_body=@v, vjp_body=@r)) }\n"
     "graph b(x: f64[], w: f64[]) { return mul(w, exp(x)) }\n"
     "graph f(x: f64[], w: f64[]) { return if(gt(x, 0), x, w, then=@a, else=@b) }"},
};

/* The same for what a body ignores: an operand that has no finite derivative, or no finite value, has no influence if
   the branch that is taken, or all rounds, leave it out. */
#define TAKE "graph take(z: f64[], x: f64[], w: f64[]) { return mul(z, w) }\n"
#define LEAVE "graph leave(z: f64[], x: f64[], w: f64[]) { return mul(w, exp(x)) }\n"
#define CHOOSE "graph choose(z: f64[], x: f64[], w: f64[]) { return if(gt(x, 0), z, x, w, then=@take, else=@leave) }\n"

static const function ignoring[] = {
    {"if", TAKE LEAVE "graph f(x: f64[], w: f64[]) { z = log(x) return if(gt(x, 0), z, x, w, then=@take, "
                      "else=@leave) }"},
    {"if of a number", TAKE LEAVE "graph f(x: f64[], w: f64[]) { z = sqrt(x) return if(mul(2, cast(le(x, 0), to=f64)), "
                                  "z, x, w, then=@leave, else=@take) }"},
    {"case", TAKE LEAVE "graph other(z: f64[], x: f64[], w: f64[]) { return mul(w, mul(x, x)) }\n"
                        "graph f(x: f64[], w: f64[]) { z = div(1, x) return case(add(cast(ge(x, 0), to=i32), "
                        "cast(gt(x, 0), to=i32)), z, x, w, branches=[@take, @leave, @other]) }"},
    {"an if in an if", TAKE LEAVE CHOOSE
     "graph f(x: f64[], w: f64[]) { z = log(x) return if(gt(x, -1), z, x, w, then=@choose, else=@leave) }"},
    {"an if in a function",
     TAKE LEAVE CHOOSE "graph f(x: f64[], w: f64[]) { z = log(x) return call(z, x, w, body=@choose) }"},
    {"an if in a function of the user",
     TAKE LEAVE CHOOSE "graph f(x: f64[], w: f64[]) { z = log(x) return custom_fn(z, x, w, fwd_body=@choose) }"},
    {"an if in one that recomputes", TAKE LEAVE CHOOSE
     "graph f(x: f64[], w: f64[]) { z = log(x) return custom_fn(z, x, w, fwd_body=@choose, recompute=true) }"},
    {"a function that ignores it",
     LEAVE "graph f(x: f64[], w: f64[]) { z = log(mul(0, x)) return call(z, x, w, body=@leave) }"},
    {"two conditionals", TAKE LEAVE CHOOSE
     "graph far(z: f64[], x: f64[], w: f64[]) { return if(gt(x, 1), z, x, w, then=@take, else=@leave) }\n"
     "graph f(x: f64[], w: f64[]) { z = log(x) return mul(call(z, x, w, body=@choose), call(z, x, w, body=@far)) }"},
    {"a chain of operations",
     TAKE LEAVE "graph f(x: f64[], w: f64[]) { z = mul(sqrt(x), log(sqrt(x))) return if(gt(x, 0), z, x, w, then=@take, "
                "else=@leave) }"},
    {"where of one predicate in a function",
     "graph select(z: f64[], x: f64[], w: f64[]) { return where(gt(x, 0), mul(z, w), mul(w, x)) }\n"
     "graph f(x: f64[], w: f64[]) { z = log(x) return call(z, x, w, body=@select) }"},
    {"a shared operand of a scan", TAKE LEAVE CHOOSE
     "graph step(c: f64[], z: f64[], x: f64[], w: f64[]) { return add(mul(c, 0.5), call(z, x, w, body=@choose)) }\n"
     "graph f(x: f64[], w: f64[]) { z = log(x) return scan(w, z, x, w, body=@step, num_bcast=3, length=3) }"},
    {"rows of a scan", TAKE LEAVE CHOOSE
     "graph step(c: f64[], w: f64[], z: f64[], x: f64[]) { return add(mul(c, x), call(z, x, w, body=@choose)) }\n"
     "graph f(x: f64[], w: f64[]) { r = mul(x, const(f64[3], [1, -1, 0])) return scan(w, w, log(r), r, body=@step, "
     "num_bcast=1) }"},
    {"a carry that the first round replaces",
     "graph step(c: f64[], x: f64[]) { return mul(x, 2) }\n"
     "graph f(x: f64[], w: f64[]) { z = log(mul(0, x)) return mul(w, scan(z, x, body=@step, num_bcast=1, "
     "length=2)) }"},
    {"a carry of a loop that ignores it",
     "graph few(c: f64[], i: i32[], z: f64[], x: f64[]) { return lt(i, 3) }\n"
     "graph grow(c: f64[], i: i32[], z: f64[], x: f64[]) { return mul(c, x), add(i, 1), z, x }\n"
     "graph f(x: f64[], w: f64[]) { z = log(x) c, i, y, v = while(w, const(i32[], 0), z, x, cond=@few, body=@grow, "
     "max_iterations=5) return c }"},
    {"a carry of a loop with a condition", TAKE LEAVE CHOOSE
     "graph few(c: f64[], i: i32[], z: f64[], x: f64[]) { return lt(i, 3) }\n"
     "graph grow(c: f64[], i: i32[], z: f64[], x: f64[]) { return call(z, x, mul(c, x), body=@choose), add(i, 1), z, x "
     "}\n"
     "graph f(x: f64[], w: f64[]) { z = log(x) c, i, y, v = while(w, const(i32[], 0), z, x, cond=@few, body=@grow, "
     "max_iterations=5) return c }"},
    {"a map", TAKE LEAVE CHOOSE "graph f(x: f64[], w: f64[]) { z = log(x) return map(z, x, w, body=@choose) }"},
};

/* ---- Transforms of a graph with inputs x and w and one output ---- */

/* Declares the inputs of g in another graph, except for `tangent_x`, which is ones; returns the outputs. */
static flx_graph *around(text_bench *b, const flx_graph *g, flx_val *out)
{
    flx_graph *t = flx_graph_new(b->ctx, "around");
    flx_val in[4];
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        const flx_type *type = flx_val_type(g, v);
        bool is_tangent = strncmp(flx_val_name(g, v), "tangent_", 8) == 0;
        flx_val one = flx_scalar(t, FLX_F64, 1.0);
        in[i] = is_tangent ? flx_expand(t, one, (flx_ints){type->dims, (size_t)type->rank})
                           : flx_input(t, flx_val_name(g, v), type);
    }
    flx_inline(t, g, in, flx_graph_input_count(g), out, flx_graph_output_count(g));
    CHECK_OK(flx_graph_error(t, &b->err), &b->err);
    return t;
}

static flx_graph *keep_output(text_bench *b, flx_graph *g, size_t k)
{
    flx_val out[4];
    CHECK_MSG(g != NULL, "%s (%s)", b->err.message, b->err.where);
    flx_graph *t = around(b, g, out);
    flx_output(t, out[k], "y");
    flx_graph_release(g);
    return t;
}

static flx_graph *summed(text_bench *b, const flx_graph *g)
{
    flx_val out[4];
    flx_graph *t = around(b, g, out);
    flx_output(t, flx_reduce_sum(t, out[0], FLX_ALL, 0), "y");
    return t;
}

static flx_graph *apply(text_bench *b, const flx_graph *g, char transform)
{
    flx_graph *sum = summed(b, g);
    flx_grad_options zero = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *y = NULL;
    switch (transform) {
    case 'g': y = keep_output(b, flx_grad(sum, by_x, 1, &zero, &b->err), 0); break;
    case 'h': y = keep_output(b, flx_hvp(sum, by_x, 1, &zero, &b->err), 0); break;
    case 'j': y = keep_output(b, flx_jvp(g, by_x, 1, &b->err), 1); break;
    default: {
        const flx_vmap_axis axes[] = {{"x", 0}};
        y = keep_output(b, flx_vmap(g, axes, 1, NULL, 0, EXAMPLES, &b->err), 0);
    }
    }
    flx_graph_release(sum);
    return y;
}

static int order_of(const char *word)
{
    int order = 0;
    for (; *word; word++)
        order += *word == 'h' ? 2 : *word == 'g' || *word == 'j';
    return order;
}

/* ---- Values ---- */

/* The derivative of this order at one example, by reverse mode alone. */
static double at_one(text_bench *b, const flx_graph *f, int order, double x)
{
    flx_graph *g = summed(b, f);
    for (int i = 0; i < order; i++) {
        flx_graph *next = apply(b, g, 'g');
        flx_graph_release(g);
        g = next;
    }
    b->n = 0;
    bench_feed_number(b, "x", x);
    bench_feed_number(b, "w", w_point);
    double y = bench_number(b, g, 0);
    for (size_t i = 0; i < b->n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)b->feeds[i].value);
    b->n = 0;
    return y;
}

static void compare(text_bench *b, const flx_graph *g, const char *word, const char *name, const double *want)
{
    flx_tensor *out[TEXT_OUTPUTS] = {0};
    bench_run(b, g, out);
    CHECK_EQ_I64(flx_tensor_count(out[0]), EXAMPLES);
    for (int i = 0; i < EXAMPLES; i++) {
        double y = flx_tensor_get(out[0], i);
        EXPECT_MSG(fabs(y - want[i]) <= 1e-9 * (1 + fabs(want[i])), "%s of %s at example %d: %g, expected %g", word,
                   name, i, y, want[i]);
    }
    bench_release(g, out);
}

/* All words of up to DEPTH transforms, applied from left to right, with one vmap. */
static void try_words(text_bench *b, const flx_graph *g, const char *word, const char *name,
                      double want[MAX_ORDER + 1][EXAMPLES])
{
    static const char letters[] = "gjhv";
    size_t n = strlen(word);
    bool is_batched = strchr(word, 'v') != NULL;
    if (is_batched)
        compare(b, g, word, name, want[order_of(word)]);
    for (int i = 0; i < 4 && n < DEPTH; i++) {
        char longer[DEPTH + 2];
        snprintf(longer, sizeof longer, "%s%c", word, letters[i]);
        if ((is_batched && letters[i] == 'v') || order_of(longer) > MAX_ORDER)
            continue;
        flx_graph *next = apply(b, g, letters[i]);
        try_words(b, next, longer, name, want);
        flx_graph_release(next);
    }
}

static void try_function(const function *f)
{
    text_bench b = bench_open(f->text, NULL);
    double want[MAX_ORDER + 1][EXAMPLES];
    for (int k = 0; k <= MAX_ORDER; k++)
        for (int i = 0; i < EXAMPLES; i++) {
            want[k][i] = at_one(&b, b.g, k, points[i]);
            CHECK_MSG(isfinite(want[k][i]), "%s: the reference is not finite", f->name);
        }
    bench_feed(&b, "x", 1, (const flx_dim[]){EXAMPLES}, points);
    bench_feed_number(&b, "w", w_point);
    flx_graph *g = summed(&b, b.g);
    try_words(&b, g, "", f->name, want);
    flx_graph_release(g);
    bench_close(&b);
}

TEST(untaken_branches_do_not_leak_in_any_order_of_transforms)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        try_function(&functions[i]);
}

TEST(operands_that_bodies_ignore_do_not_leak_in_any_order_of_transforms)
{
    for (size_t i = 0; i < sizeof ignoring / sizeof *ignoring; i++)
        try_function(&ignoring[i]);
}

/* The derivative with respect to w, which all examples share: the sum of theirs. */
static double by_shared(text_bench *b, const flx_graph *f, const double *x, int count)
{
    flx_graph *sum = summed(b, f);
    flx_graph *g = flx_grad(sum, by_w, 1, NULL, &b->err);
    b->n = 0;
    if (count)
        bench_feed(b, "x", 1, (const flx_dim[]){count}, x);
    else
        bench_feed_number(b, "x", *x);
    bench_feed_number(b, "w", w_point);
    double y = bench_number(b, g, 0);
    flx_graph_release(sum);
    for (size_t i = 0; i < b->n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)b->feeds[i].value);
    b->n = 0;
    return y;
}

/* Also for batches in which no example takes one of the branches. */
TEST(untaken_branches_do_not_leak_into_shared_operands)
{
    static const double batches[][EXAMPLES] = {{0.5, -1.5, 0.0, 2.0}, {-1, -2, -0.5, -3}, {0.5, 1, 2, 0.25}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
            text_bench b = bench_open(functions[i].text, NULL);
            double want = 0;
            for (int e = 0; e < EXAMPLES; e++)
                want += by_shared(&b, b.g, &batches[k][e], 0);
            flx_graph *batched = apply(&b, b.g, 'v');
            double y = by_shared(&b, batched, batches[k], EXAMPLES);
            CHECK_MSG(fabs(y - want) <= 1e-9 * (1 + fabs(want)), "%s, batch %zu: %g, expected %g", functions[i].name, k,
                      y, want);
            flx_graph_release(batched);
            bench_close(&b);
        }
}
