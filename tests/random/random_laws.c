/* SPDX-License-Identifier: Apache-2.0 */
/* random_laws.c: many random graphs, all laws. A graph that violates one is shrunk and printed as a file for
   tests/regress, with the seed and the finding.

   Effort random_graphs: how many. FLX_TEST_CASE=SEED: only the graph of this seed. */
#include "graph/graph.h"
#include "laws.h"
#include "ops/opcode.h"
#include "plain_subject.h"
#include "shrink.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    subject s;
    const law *law;
} trial;

static bool breaks_law(void *user, const flx_graph *g)
{
    const trial *t = user;
    char detail[LAW_DETAIL] = "";
    subject s = t->s;
    s.g = g;
    return !t->law->holds(&s, detail);
}

static void print_values(FILE *f, const char *what, const flx_tensor *t)
{
    int32_t dtype = flx_tensor_type(t)->dtype;
    int64_t parts = dtype == FLX_C128 || dtype == FLX_C64 ? 2 : 1;
    flx_tensor *wide = flx_tensor_cast(t, parts == 2 ? FLX_C128 : FLX_F64, NULL);
    CHECK(wide != NULL);
    fprintf(f, "#   %s = [", what);
    for (int64_t i = 0; i < flx_tensor_count(t) * parts; i++)
        fprintf(f, "%s%.17g", i ? ", " : "", ((const double *)flx_tensor_const_data(wide))[i]);
    fprintf(f, "]\n");
    flx_tensor_release(wide);
}

static void report(const subject *s, const law *l, const char *found)
{
    trial t = {*s, l};
    char detail[LAW_DETAIL] = "";
    char *text = NULL;
    size_t size = 0;
    flx_buffer graph = {0};
    flx_error err = {0};
    flx_graph *small = shrink_graph(s->g, breaks_law, &t);
    subject shrunk = *s;
    shrunk.g = small;
    l->holds(&shrunk, detail);
    FILE *f = open_memstream(&text, &size);
    CHECK(f != NULL);
    fprintf(f, "# Law: %s. Seed %llu.\n# Found: %s\n# Of the small graph: %s\n", l->name, (unsigned long long)s->seed,
            found, detail);
    if (s->num_dims)
        fprintf(f, "#   %s = %lld\n", s->dims[0].name, (long long)s->dims[0].extent);
    for (size_t i = 0; i < s->n; i++)
        if (flx_graph_find(small, s->in[i].name).id) {
            print_values(f, s->in[i].name, s->in[i].x);
            if (s->in[i].t)
                print_values(f, "t", s->in[i].t);
        }
    if (flx_graph_print(small, &graph, &err) == FLX_OK)
        fprintf(f, "%s", graph.data);
    else
        fprintf(f, "# cannot be printed: %s\n", err.message);
    fclose(f);
    EXPECT_MSG(false, "%s; rerun with FLX_TEST_CASE=%llu\n%s", l->name, (unsigned long long)s->seed, text);
    free(text);
    flx_buffer_free(&graph);
    flx_graph_release(small);
}

bool random_laws_try(uint64_t seed, bool every_law, bool control)
{
    subject s;
    flx_module *module;
    test_fail_context("FLX_TEST_CASE=%llu", (unsigned long long)seed);
    if (!(control ? random_control_subject : random_subject)(&s, seed, &module))
        return false;
    uint64_t state = seed;
    for (size_t i = 0; i < num_laws; i++) {
        char detail[LAW_DETAIL] = "";
        bool chosen = test_random(&state) % (uint64_t)laws[i].one_in == 0;
        if ((chosen || every_law) && !laws[i].holds(&s, detail))
            report(&s, &laws[i], detail);
    }
    random_subject_free(&s, module);
    test_count_case();
    return true;
}

TEST(random_graphs_obey_the_laws)
{
    int64_t wanted = effort(EFFORT_random_graphs);
    int64_t made = 0;
    uint64_t only;
    if (test_case_seed(&only)) {
        CHECK(random_laws_try(only, true, false));
        return;
    }
    for (int64_t i = 0; i < wanted; i++)
        made += random_laws_try(test_seed() + (uint64_t)i, false, false);
    test_fail_context("all seeds");
    CHECK_MSG(made * 20 >= wanted * 19, "only %lld of %lld seeds gave a graph", (long long)made, (long long)wanted);
}

/* One in eight as many: a graph has many levels. */
TEST(random_control_flow_obeys_the_laws)
{
    int64_t wanted = 1 + effort(EFFORT_random_graphs) / 8;
    int64_t made = 0;
    uint64_t only;
    if (test_case_seed(&only)) {
        CHECK(random_laws_try(only, true, true));
        return;
    }
    for (int64_t i = 0; i < wanted; i++)
        made += random_laws_try(test_seed() + (uint64_t)i, false, true);
    test_fail_context("all seeds");
    CHECK_MSG(made * 20 >= wanted * 18, "only %lld of %lld seeds gave a graph", (long long)made, (long long)wanted);
}

/* ---- The test itself ---- */

static void note_ops(const flx_graph *g, bool *seen)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        seen[flxi_node_at(g, i)->op] = true;
    for (size_t i = 0; i < g->bodies.n; i++)
        note_ops(g->bodies.at[i], seen);
}

typedef struct {
    bool seen[OP_COUNT];
    uint32_t largest; /* nodes */
    int made, single, complex, stopped, symbolic;
} census;

static bool has_complex(const flx_graph *g)
{
    for (uint32_t id = 1; id <= g->value_count; id++)
        if (flxi_is_complex(flxi_type_at(g, id)->dtype))
            return true;
    return false;
}

static bool has_symbol(const flx_graph *g)
{
    for (uint32_t id = 1; id <= g->value_count; id++)
        for (int i = 0; i < flxi_type_at(g, id)->rank; i++)
            if (!flx_dim_is_static(flxi_type_at(g, id)->dims[i]))
                return true;
    return false;
}

static void count_graph(census *c, const flx_graph *g)
{
    c->made++;
    c->single += graph_is_single(g);
    c->complex += has_complex(g);
    c->stopped += graph_has_stops(g);
    c->symbolic += has_symbol(g);
    c->largest = g->node_count > c->largest ? g->node_count : c->largest;
    note_ops(g, c->seen);
}

TEST(random_graphs_are_of_all_sizes_and_kinds_and_use_most_ops)
{
    enum { SEEDS = 400 };
    census c = {0};
    int ops = 0;
    for (uint64_t i = 0; i < SEEDS; i++) {
        subject s;
        flx_module *module;
        if (!random_subject(&s, test_seed() + i, &module))
            continue;
        flx_graph *g = flx_simplify(s.g, NULL); /* dead code does not count */
        CHECK(g != NULL);
        count_graph(&c, g);
        flx_graph_release(g);
        random_subject_free(&s, module);
    }
    for (int op = 0; op < OP_COUNT; op++)
        ops += c.seen[op];
    CHECK_MSG(ops >= 120, "%d ops", ops);
    CHECK_MSG(c.largest >= 60, "at most %u nodes", c.largest);
    CHECK_MSG(c.made * 20 >= SEEDS * 19, "only %d of %d seeds gave a graph", c.made, SEEDS);
    CHECK_MSG(c.single * 4 >= c.made && c.complex * 4 >= c.made && c.stopped * 10 >= c.made &&
                  c.symbolic * 10 >= c.made,
              "of %d graphs %d have single precision, %d complex numbers, %d stop_gradient, %d symbols", c.made,
              c.single, c.complex, c.stopped, c.symbolic);
}

static int depth_of(const flx_graph *g)
{
    int most = 0;
    for (size_t i = 0; i < g->bodies.n; i++) {
        int d = 1 + depth_of(g->bodies.at[i]);
        most = d > most ? d : most;
    }
    return most;
}

TEST(random_control_flow_is_nested_and_of_all_kinds)
{
    enum { SEEDS = 100 };
    static const flxi_opcode kinds[] = {OP_if, OP_case, OP_while, OP_scan, OP_call, OP_map, OP_custom_fn};
    bool seen[OP_COUNT] = {0};
    int deep = 0, made = 0;
    for (uint64_t i = 0; i < SEEDS; i++) {
        subject s;
        flx_module *module;
        if (!random_control_subject(&s, test_seed() + i, &module))
            continue;
        made++;
        deep += depth_of(s.g) >= 3;
        note_ops(s.g, seen);
        random_subject_free(&s, module);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        EXPECT_MSG(seen[kinds[k]], "there is no %s", flxi_ops[kinds[k]].name);
    CHECK_MSG(deep * 4 >= made && made * 10 >= SEEDS * 9, "of %d graphs %d have three levels", made, deep);
}

/* Custom functions whose reverse rules lack something, in the middle of other things: a factor, where values are
   doubles, singles and of symbolic shape, and a conjugate. The laws detect it, and shrinking leaves little more than
   the call. */
static const struct {
    const char *what, *text;
} wrong_rules[] = {
    {"a factor", "graph f(a: f64[3]) {\n  return mul(a, sin(a))\n}\n"
                 "graph wrong(a: f64[3], y: f64[3], dy: f64[3]) {\n  return mul(dy, add(sin(a), cos(a)))\n}\n"
                 "graph main(v0: f64[3], v1: f64[]) {\n"
                 "  v2 = custom_fn(mul(v0, v1), fwd_body=@f, vjp_body=@wrong)\n"
                 "  v3 = exp(softmax(v2))\n"
                 "  return reduce_sum(mul(v3, v0)), v2\n"
                 "}\n"},
    {"two percent, in single precision",
     "graph f(a: f32[3]) {\n  return mul(a, sin(a))\n}\n"
     "graph wrong(a: f32[3], y: f32[3], dy: f32[3]) {\n  return mul(mul(1.02, dy), add(sin(a), mul(a, cos(a))))\n}\n"
     "graph main(v0: f64[3], v1: f64[]) {\n"
     "  v2 = custom_fn(cast(mul(v0, v1), to=f32), fwd_body=@f, vjp_body=@wrong)\n"
     "  v3 = exp(cast(mul(3, v2), to=f64))\n"
     "  return reduce_sum(mul(v3, v0)), v2\n"
     "}\n"},
    {"a conjugate",
     "graph f(a: c128[3]) {\n  return mul(a, sin(a))\n}\n"
     "graph wrong(a: c128[3], y: c128[3], dy: c128[3]) {\n  return mul(dy, add(sin(a), mul(a, cos(a))))\n}\n"
     "graph main(v0: f64[3], v1: f64[]) {\n"
     "  v2 = custom_fn(complex(v0, v1), fwd_body=@f, vjp_body=@wrong)\n"
     "  v3 = exp(mul(0.2, conjugate(v2)))\n"
     "  return reduce_sum(real(mul(v3, complex(v1, v0)))), v2\n"
     "}\n"},
    {"a factor, in a symbolic shape",
     "graph f(a: f64[N]) {\n  return mul(a, sin(a))\n}\n"
     "graph wrong(a: f64[N], y: f64[N], dy: f64[N]) {\n  return mul(dy, add(sin(a), cos(a)))\n}\n"
     "graph main(v0: f64[N], v1: f64[]) {\n"
     "  v2 = custom_fn(mul(v0, v1), fwd_body=@f, vjp_body=@wrong)\n"
     "  v3 = exp(softmax(v2))\n"
     "  return reduce_mean(mul(v3, v0)), v2\n"
     "}\n"},
};

/* Two inputs, v0 of three elements and v1 of one. */
static flx_module *fixed_subject(subject *s, const char *text)
{
    static const double numbers[][3] = {{0.3, -0.8, 1.2}, {0.5, -0.2, 0.7}, {-0.4, 0.9, 0.1}};
    flx_error err = {0};
    *s = (subject){.ctx = flx_context_new(NULL), .n = 2, .dims = {{"N", 3}}, .num_dims = strstr(text, "[N]") != NULL};
    flx_module *m = flx_parse(s->ctx, text, strlen(text), "fixed", &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    s->g = flx_module_main(m);
    for (size_t i = 0; i < 2; i++) {
        flx_type type = {.dtype = FLX_F64, .rank = i == 0, .dims = {3}};
        subject_input *in = &s->in[i];
        snprintf(in->name, sizeof in->name, "v%zu", i);
        in->x = flx_tensor_new(s->ctx, &type, numbers[0], &err);
        in->t = flx_tensor_new(s->ctx, &type, numbers[1], &err);
        in->u = flx_tensor_new(s->ctx, &type, numbers[2], &err);
        in->other = flx_tensor_new(s->ctx, &type, numbers[2], &err);
        CHECK(in->x && in->t && in->u && in->other);
    }
    return m;
}

TEST(random_laws_notice_a_wrong_rule)
{
    for (size_t k = 0; k < sizeof wrong_rules / sizeof *wrong_rules; k++) {
        trial t = {0};
        int broken = 0;
        test_fail_context("%s", wrong_rules[k].what);
        flx_module *m = fixed_subject(&t.s, wrong_rules[k].text);
        for (size_t i = 0; i < num_laws; i++) {
            t.law = &laws[i];
            if (!breaks_law(&t, t.s.g))
                continue;
            flx_graph *small = shrink_graph(t.s.g, breaks_law, &t);
            CHECK_MSG(breaks_law(&t, small) && small->node_count <= 8, "%s: %u nodes are left", laws[i].name,
                      small->node_count);
            flx_graph_release(small);
            broken++;
        }
        CHECK_MSG(broken >= 1, "no law is broken");
        random_subject_free(&t.s, m);
    }
}

/* Finite differences are taken of the plain subject, in which a stopped value does not change. */
TEST(random_laws_hold_beside_stop_gradient)
{
    static const char text[] =
        "graph main(v0: f64[3], v1: f64[]) {\n"
        "  v2 = stop_gradient(mul(v0, v1))\n"
        "  return reduce_sum(mul(mul(v2, v0), cast(stop_gradient(cast(v0, to=f32)), to=f64))), v2\n"
        "}\n";
    char detail[LAW_DETAIL] = "";
    flx_error err = {0};
    subject s;
    plain_subject p;
    flx_module *m = fixed_subject(&s, text);
    for (size_t i = 0; i < num_laws; i++)
        CHECK_MSG(laws[i].holds(&s, detail), "%s: %s", laws[i].name, detail);
    CHECK_MSG(plain_subject_begin(&p, &s, &err), "%s", err.message);
    CHECK(p.g && !graph_is_single(p.g) && !graph_has_stops(p.g));
    CHECK_EQ_U64(p.s.n, s.n + 2);
    plain_subject_end(&p);
    random_subject_free(&s, m);
}

/* ---- Shrinking ---- */

static bool has_sin_of_product(void *user, const flx_graph *g)
{
    (*(int *)user)++;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        if (n->op == OP_sin && flxi_node_of(g, n->in[0])->op == OP_mul)
            return true;
    }
    return false;
}

TEST(random_shrinking_finds_the_smallest_failing_graph)
{
    static const char text[] = "graph f(x: f64[2, 3], y: f64[3], z: i32[4], w: f64[]) {\n"
                               "  a = exp(add(x, y))\n"
                               "  b = mul(a, softmax(x))\n"
                               "  c = sin(mul(tanh(b), relu(a)))\n"
                               "  d, i = top_k(c, k=2)\n"
                               "  e = add(reduce_sum(d), mul(w, reduce_mean(cos(c))))\n"
                               "  return e, i, gather(y, z, oob=clamp), c\n"
                               "}\n";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    int asked = 0;
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "shrink", &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    flx_graph *g = shrink_graph(flx_module_main(m), has_sin_of_product, &asked);
    CHECK(has_sin_of_product(&asked, g));
    CHECK_OK(flx_graph_verify(g, &err), &err);
    CHECK_EQ_U64(g->outputs.n, 1);
    CHECK_MSG(g->node_count <= 4, "%u nodes are left", g->node_count); /* x, mul(x, x), sin and perhaps a sum */
    CHECK_EQ_U64(g->leaves.n, 1);
    CHECK(asked < 200);
    flx_graph_release(g);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* What no step can make smaller stays, with everything it needs. */
static bool has_every_node(void *user, const flx_graph *g)
{
    return g->node_count >= *(uint32_t *)user;
}

TEST(random_shrinking_keeps_a_graph_that_needs_all_its_nodes)
{
    static const char text[] = "graph f(x: f64[2]) {\n  return reduce_sum(sin(x))\n}\n";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    uint32_t count = 3;
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "shrink", &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    flx_graph *g = shrink_graph(flx_module_main(m), has_every_node, &count);
    CHECK_EQ_U64(flx_graph_hash(g), flx_graph_hash(flx_module_main(m)));
    flx_graph_release(g);
    flx_module_free(m);
    flx_context_free(ctx);
}
