/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_plans.c: what a plan says of exchanges is what processes that are threads send, for every kind of exchange, with
   pieces of unequal size, in loops and on several axes; and times follow from the numbers of the machine. */
#include "../backend/collective/local_ranks.h"
#include "../test.h"

#include <fluxion/exec.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *axes, *text;
    int64_t ranks;
    flx_mesh_traffic sent[MAX_RANKS];
} plan_case;

static void run_rank(local_rank *r)
{
    plan_case *c = r->user;
    double in[64], out[512];
    for (int i = 0; i < 64; i++)
        in[i] = i;
    CHECK_OK(local_rank_text(r, c->text, NULL, "ref", in, out), &r->err);
    c->sent[r->rank].struct_size = sizeof c->sent[0];
    CHECK_OK(flx_mesh_sent(r->ctx, &c->sent[r->rank], &r->err), &r->err);
}

static void check_case(plan_case *c)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, c->text, strlen(c->text), "test", &err);
    CHECK_MADE(m, &err);
    flx_plan_exchange list[8];
    flx_mesh_plan plan = {.struct_size = sizeof plan, .list = list, .capacity = 8};
    CHECK_OK(flx_plan_mesh(flx_module_main(m), c->axes, NULL, &plan, &err), &err);
    local_ranks_run(c->ranks, c->axes, 60, run_rank, c);
    int64_t messages = 0, bytes = 0, listed = 0;
    for (int64_t r = 0; r < c->ranks; r++) {
        CHECK_EQ_I64(plan.exchanges, c->sent[r].exchanges);
        messages = c->sent[r].messages > messages ? c->sent[r].messages : messages;
        bytes = c->sent[r].bytes > bytes ? c->sent[r].bytes : bytes;
    }
    CHECK_EQ_I64(plan.ranks, c->ranks);
    CHECK_EQ_I64(plan.messages, messages);
    CHECK_EQ_I64(plan.bytes, bytes);
    CHECK(plan.exchange_seconds == 0 && plan.count <= 8);
    for (size_t i = 0; i < plan.count; i++)
        listed += list[i].bytes;
    CHECK_EQ_I64(listed, bytes);
    flx_module_free(m);
    flx_context_free(ctx);
}

#define GRAPH(body) "graph f(x: f64[8]) { " body " }"

/* Pieces of more than a message: the sums are those of one message. */
static void sum_large(local_rank *r)
{
    enum { COUNT = 400001 };
    static const char text[] = "graph f(x: f64[400001]) { return all_reduce(x, axis_name=\"data\") }";
    double *in = malloc(COUNT * sizeof *in), *out = malloc(COUNT * sizeof *out);
    CHECK(in && out);
    for (int i = 0; i < COUNT; i++)
        in[i] = sin(i + (double)r->rank);
    CHECK_OK(local_rank_text(r, text, NULL, "ref", in, out), &r->err);
    bool is_right = true;
    for (int i = 0; i < COUNT; i++)
        is_right &= out[i] == sin(i) + sin(i + 1.0);
    CHECK(is_right);
    flx_mesh_traffic sent = {.struct_size = sizeof sent};
    CHECK_OK(flx_mesh_sent(r->ctx, &sent, &r->err), &r->err);
    CHECK_EQ_I64(sent.messages, 4); /* two chunks, in two rounds */
    CHECK_EQ_I64(sent.bytes, 8 * COUNT);
    free(in);
    free(out);
    flx_mesh_plan plan = {.struct_size = sizeof plan};
    flx_module *m = flx_parse(r->ctx, text, sizeof text - 1, "test", &r->err);
    CHECK_OK(flx_plan_mesh(flx_module_main(m), "data=2", NULL, &plan, &r->err), &r->err);
    CHECK_EQ_I64(plan.messages, 4);
    flx_module_free(m);
}

TEST(mesh_plans_know_chunks_of_large_sums)
{
    local_ranks_run(2, "data=2", 60, sum_large, NULL);
}

TEST(mesh_plans_say_what_ranks_send)
{
    static plan_case cases[] = {
        {"data=2", GRAPH("return all_reduce(x, axis_name=\"data\")"), 2, {{0}}},
        {"data=3", GRAPH("return all_reduce(x, axis_name=\"data\", op=max)"), 3, {{0}}},
        {"data=8", GRAPH("return all_reduce(narrow(x, axis=0, start=0, len=3), axis_name=\"data\")"), 8, {{0}}},
        {"data=4", GRAPH("return all_gather(x, axis_name=\"data\", size=4)"), 4, {{0}}},
        {"data=4", GRAPH("return reduce_scatter(x, axis_name=\"data\", size=4)"), 4, {{0}}},
        {"data=4",
         "graph f(x: f64[2, 8]) { return all_to_all(x, axis_name=\"data\", split_axis=1, concat_axis=0, size=4) }",
         4,
         {{0}}},
        {"data=5", GRAPH("return broadcast(x, axis_name=\"data\", root=3)"), 5, {{0}}},
        {"data=3", GRAPH("return collective_permute(x, axis_name=\"data\", sources=[0, 1], targets=[1, 2])"), 3, {{0}}},
        {"data=1", GRAPH("return all_reduce(x, axis_name=\"data\")"), 1, {{0}}},
        {"data=2,model=4",
         GRAPH("y = all_reduce(x, axis_name=\"model\") return all_reduce(y, axis_name=\"data\")"),
         8,
         {{0}}},
        {"data=2,model=2", GRAPH("y = all_reduce(x, axis_name=\"data,model\") return barrier(y)"), 4, {{0}}},
        {"data=2",
         "graph round(c: f64[8]) { d = all_reduce(sin(c), axis_name=\"data\") return d } "
         "graph f(x: f64[8]) { return scan(x, body=@round, length=5, num_carry=1) }",
         2,
         {{0}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_fail_context("case %zu: %s", i, cases[i].text);
        check_case(&cases[i]);
        test_count_case();
    }
}

static flx_code plan_text(const char *text, const char *axes, const flx_machine *machine, flx_mesh_plan *plan,
                          flx_error *err)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", err);
    plan->struct_size = sizeof *plan;
    flx_code code = m ? flx_plan_mesh(flx_module_main(m), axes, machine, plan, err) : (flx_code)err->code;
    flx_module_free(m);
    flx_context_free(ctx);
    return code;
}

/* An all_reduce of 64 bytes by 4 ranks, two of which are joined by an inner link: pieces of 16 bytes, in two rounds. */
TEST(mesh_plans_add_up_links_and_seconds)
{
    const flx_link links[] = {{2, 1000, 0.125}, {4, 100, 0.5}};
    const flx_machine machine = {
        .struct_size = sizeof machine, .num_links = 2, .links = links, .flops = 1e9, .bandwidth = 10, .message = 0.25};
    double bytes[2] = {0};
    flx_error err = {0};
    flx_mesh_plan plan = {.link_bytes = bytes};
    CHECK_OK(plan_text(GRAPH("return all_reduce(x, axis_name=\"data\")"), "data=4", &machine, &plan, &err), &err);
    CHECK(bytes[0] == 2 * 3 * 16);     /* from one rank to the three others */
    CHECK(bytes[1] == 2 * 2 * 2 * 16); /* from two ranks to the two others */
    double moved = 128.0 / 100, waited = 2 * 0.5, handled = 2 * 2 * 3 * 0.25, summed = (8 + 2) * 8 / 10.0;
    double agreed = 2 * 0.5 + 3 * sizeof(flx_error) / 100.0 + 2 * 3 * 0.25;
    double seconds = moved + waited + handled + summed + agreed;
    CHECK_MSG(fabs(plan.exchange_seconds - seconds) < 1e-9 * seconds, "%g s instead of %g", plan.exchange_seconds,
              seconds);
    CHECK_OK(
        plan_text("graph f(x: f64[10, 20], y: f64[20, 30]) { return matmul(x, y) }", "data=4", &machine, &plan, &err),
        &err);
    CHECK_EQ_I64(plan.flops, 2 * 10 * 20 * 30);
    CHECK_EQ_I64(plan.traffic, (200 + 600 + 300) * 8);
    CHECK_EQ_I64(plan.values, (200 + 600 + 300) * 8);
    CHECK(plan.compute_seconds == 8800.0 / 10 && plan.exchange_seconds == 0);
}

/* A product of 880 seconds after the start of an exchange, or before it. */
TEST(mesh_plans_run_exchanges_beside_steps)
{
    const flx_link links[] = {{4, 1, 0.5}};
    const flx_machine machine = {
        .struct_size = sizeof machine, .num_links = 1, .links = links, .flops = 1e9, .bandwidth = 10};
    static const struct {
        const char *text;
        int exchanges; /* that the product is not beside of */
    } cases[] = {
        {"y = all_reduce(exp(x), axis_name=\"data\") return matmul(a, b), y, exp(a)", 0},
        {"y = all_reduce(x, axis_name=\"data\") return matmul(mul(a, reduce_sum(y)), b)", 1},
        {"c = matmul(a, b) return all_reduce(reshape(narrow(c, axis=0, start=0, len=1), shape=[30]), "
         "axis_name=\"data\")",
         1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        flx_error err = {0};
        flx_mesh_plan plan = {.list = NULL};
        snprintf(text, sizeof text, "graph f(x: f64[8], a: f64[10, 20], b: f64[20, 30]) { %s }", cases[i].text);
        CHECK_OK(plan_text(text, "data=4", &machine, &plan, &err), &err);
        double all = plan.compute_seconds + plan.exchange_seconds;
        double least = plan.compute_seconds > plan.exchange_seconds ? plan.compute_seconds : plan.exchange_seconds;
        double want = cases[i].exchanges ? all : least;
        CHECK(plan.exchange_seconds > 100 && plan.compute_seconds >= 880);
        CHECK_MSG(fabs(plan.run_seconds - want) < 0.02 * want, "case %zu: %g s instead of %g, of %g", i,
                  plan.run_seconds, want, all);
    }
}

TEST(mesh_plans_of_large_meshes)
{
    const flx_link links[] = {{8, 2e11, 2e-6}, {16384, 5e10, 1e-5}};
    const flx_machine machine = {.struct_size = sizeof machine, .num_links = 2, .links = links, .flops = 1e14};
    double bytes[2] = {0};
    flx_error err = {0};
    flx_mesh_plan plan = {.link_bytes = bytes};
    CHECK_OK(plan_text("graph f(x: f32[16384, 64]) { return all_reduce(x, axis_name=\"data\") }", "data=2048,model=8",
                       &machine, &plan, &err),
             &err);
    int64_t piece = 16384 / 2048 * 64 * 4;
    CHECK_EQ_I64(plan.ranks, 16384);
    CHECK_EQ_I64(plan.bytes, 2 * 2047 * piece);
    CHECK(bytes[0] == 2.0 * 2047 * (double)piece && bytes[1] == 8 * bytes[0]);
}

/* A parameter that is overwritten by its next value counts once. */
TEST(mesh_plans_count_updated_parameters_once)
{
    flx_error err = {0};
    flx_mesh_plan plan = {0};
    CHECK_OK(plan_text("graph f(x: f32[100], param p: f32[100]) { new_p = add(p, x) return new_p }", NULL, NULL, &plan,
                       &err),
             &err);
    CHECK_EQ_I64(plan.values, 800);
    CHECK_OK(plan_text("graph f(x: f32[100], param p: f32[100]) { q = add(p, x) return q }", NULL, NULL, &plan, &err),
             &err);
    CHECK_EQ_I64(plan.values, 1200);
}

/* The memory of a plan is that of the executable, and a loop without an end is said to count once. */
TEST(mesh_plans_know_memory_and_open_loops)
{
    static const char text[] =
        "graph go(c: f32[256]) { return lt(reduce_sum(c), 5) } "
        "graph next(c: f32[256]) { d = add(c, 1) return d } "
        "graph f(x: f32[256]) { y = while(x, cond=@go, body=@next) return reverse(y, axes=[0]) }";
    flx_error err = {0};
    flx_mesh_plan plan = {0};
    CHECK_OK(plan_text(text, NULL, NULL, &plan, &err), &err);
    CHECK_EQ_I64(plan.open_loops, 1);
    static const char plain[] = "graph f(x: f32[64, 64]) { return matmul(reverse(exp(x), axes=[0]), sin(x)) }";
    CHECK_OK(plan_text(plain, NULL, NULL, &plan, &err), &err);
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, plain, sizeof plain - 1, "test", &err);
    const flx_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    flx_exec *e = flx_compile(flx_module_main(m), &o, &err);
    CHECK_MADE(e, &err);
    CHECK(plan.work > 0);
    CHECK_EQ_I64(plan.work, (int64_t)flx_exec_memory(e));
    flx_exec_free(e);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* Which branch runs depends on values: of each quantity the most that one of them takes. */
TEST(mesh_plans_bound_branches)
{
    static const char graphs[] = "graph sum(x: f64[8]) { return all_reduce(x, axis_name=\"data\") }\n"
                                 "graph join(x: f64[8]) { return slice(all_gather(x, axis_name=\"data\", size=2), "
                                 "start=[0], limit=[8], stride=[1]) }\n"
                                 "graph work(x: f64[8]) { return reduce_sum(matmul(unsqueeze(x, axes=[1]), "
                                 "unsqueeze(x, axes=[0])), axes=[0]) }\n";
    static const char *const orders[] = {"sum, @join, @work", "work, @sum, @join", "join, @work, @sum"};
    flx_link links[] = {{2, 1e6, 1e-3}};
    flx_machine machine = {.struct_size = sizeof machine, .num_links = 1, .links = links, .flops = 1e6};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        char text[1500];
        flx_error err = {0};
        flx_plan_exchange list[4];
        flx_mesh_plan plan = {.struct_size = sizeof plan, .list = list, .capacity = 4};
        snprintf(text, sizeof text, "%sgraph f(i: i32[], x: f64[8]) { return case(i, x, branches=[@%s]) }", graphs,
                 orders[i]);
        test_fail_context("%s", text);
        CHECK_OK(plan_text(text, "data=2", &machine, &plan, &err), &err);
        CHECK_EQ_I64(plan.choices, 1);
        CHECK_EQ_I64(plan.count, 2);
        CHECK_EQ_I64(plan.exchanges, 2);
        CHECK_EQ_I64(plan.bytes, 64 + 64); /* half of the values twice; all of them */
        CHECK(plan.flops >= 2 * 64 && plan.exchange_seconds >= list[0].seconds &&
              plan.exchange_seconds >= list[1].seconds);
    }
}

TEST(mesh_plans_refuse_numbers_of_no_machine)
{
    static const struct {
        double flops, bandwidth, message, link_bandwidth, latency;
        const char *says;
    } cases[] = {{NAN, 1, 0, 1, 0, "nan flops"},
                 {INFINITY, 1, 0, 1, 0, "inf flops"},
                 {1, NAN, 0, 1, 0, "bandwidth nan"},
                 {1, 1, INFINITY, 1, 0, "message inf"},
                 {1, 1, NAN, 1, 0, "message nan"},
                 {1, 1, 0, -3, 0, "bandwidth of -3"},
                 {1, 1, 0, INFINITY, 0, "bandwidth of inf"},
                 {1, 1, 0, 1, -5, "latency of -5"},
                 {1, 1, 0, 1, NAN, "latency of nan"},
                 {1, 1, 0, 1, INFINITY, "latency of inf"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_error err = {0};
        flx_mesh_plan plan = {0};
        flx_link link = {2, cases[i].link_bandwidth, cases[i].latency};
        flx_machine machine = {.struct_size = sizeof machine,
                               .num_links = 1,
                               .links = &link,
                               .flops = cases[i].flops,
                               .bandwidth = cases[i].bandwidth,
                               .message = cases[i].message};
        CHECK_CODE(plan_text(GRAPH("return exp(x)"), "data=2", &machine, &plan, &err), FLX_E_USAGE, &err);
        CHECK_MSG(strstr(err.message, cases[i].says), "'%s' lacks '%s'", err.message, cases[i].says);
    }
}

TEST(mesh_plans_refuse_wrong_machines)
{
    flx_link links[2] = {{2, 1, 0}, {4, 1, 0}};
    flx_machine machine = {.struct_size = sizeof machine, .num_links = 2, .links = links, .flops = 1};
    flx_error err = {0};
    flx_mesh_plan plan = {0};
    static const char text[] = GRAPH("return all_reduce(x, axis_name=\"data\")");
    CHECK_OK(plan_text(text, "data=4", &machine, &plan, &err), &err);
    CHECK_CODE(plan_text(text, "data=8", &machine, &plan, &err), FLX_E_USAGE, &err);
    CHECK_EQ_STR(err.message, "the links of the machine join 4 ranks, but the mesh has 8");
    CHECK_CODE(plan_text(text, "model=4", &machine, &plan, &err), FLX_E_NAME, &err);
    links[1].ranks = 3;
    CHECK_CODE(plan_text(text, "data=2", &machine, &plan, &err), FLX_E_USAGE, &err);
    machine.flops = 0;
    CHECK_CODE(plan_text(text, "data=2", &machine, &plan, &err), FLX_E_USAGE, &err);
    CHECK_CODE(plan_text("graph f(x: f64[N]) { return exp(x) }", "data=2", NULL, &plan, &err), FLX_E_UNBOUND_DIM, &err);
    CHECK_CODE(plan_text(GRAPH("return all_gather(x, axis_name=\"data\", size=4)"), "data=2", NULL, &plan, &err),
               FLX_E_CHECK, &err);
}

/* A ring of many ranks: each knows its only neighbour, without a search among all. */
TEST(mesh_plans_of_long_rings_take_linear_time)
{
    enum { RANKS = 1 << 16, ROOM = 16 * RANKS };
    flx_error err = {0};
    flx_mesh_plan plan = {0};
    char *text = malloc(ROOM);
    CHECK(text);
    size_t n =
        (size_t)snprintf(text, ROOM, "graph f(x: f64[8]) { return collective_permute(x, axis_name=\"ring\", sources=[");
    for (int i = 0; i < RANKS; i++)
        n += (size_t)snprintf(text + n, ROOM - n, "%s%d", i ? "," : "", i);
    n += (size_t)snprintf(text + n, ROOM - n, "], targets=[");
    for (int i = 0; i < RANKS; i++)
        n += (size_t)snprintf(text + n, ROOM - n, "%s%d", i ? "," : "", (i + 1) % RANKS);
    n += (size_t)snprintf(text + n, ROOM - n, "]) }");
    CHECK(n < ROOM);
    CHECK_OK(plan_text(text, "copies=16,ring=65536", NULL, &plan, &err), &err);
    CHECK_EQ_I64(plan.messages, 1);
    CHECK_EQ_I64(plan.bytes, 64);
    free(text);
}

/* Types alone are planned: their sizes may be beyond all numbers. */
TEST(mesh_plans_of_sizes_beyond_memory_do_not_overflow)
{
    static const char *const bodies[] = {"all_reduce(x, axis_name=\"data\")",
                                         "broadcast(x, axis_name=\"data\", root=1)",
                                         "send(x, axis_name=\"data\", to=1)",
                                         "all_to_all(x, axis_name=\"data\", split_axis=0, concat_axis=0, size=1024)",
                                         "reduce_scatter(x, axis_name=\"data\", size=1024)",
                                         "all_gather(x, axis_name=\"data\", size=1024)"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (int bits = 40; bits < 63; bits++) {
            char text[300];
            flx_error err = {0};
            flx_mesh_plan plan = {0};
            snprintf(text, sizeof text, "graph f(x: f64[%lld]) { return %s }", 1LL << bits, bodies[i]);
            test_fail_context("%s", text);
            flx_code code = plan_text(text, "data=1024", NULL, &plan, &err);
            CHECK_MSG(code == FLX_OK ? plan.bytes > 0 : code == FLX_E_SIZE, "%s", err.message);
            CHECK(bits > 40 || code == FLX_OK);
        }
}

TEST(mesh_plans_refuse_processes_that_the_mesh_does_not_have)
{
    static const char *const bodies[] = {
        "broadcast(x, axis_name=\"data\", root=2)", "broadcast(x, axis_name=\"data\", root=4611686018427387903)",
        "send(x, axis_name=\"data\", to=4)", "collective_permute(x, axis_name=\"data\", sources=[0], targets=[2])",
        "collective_permute(x, axis_name=\"data\", sources=[3], targets=[1])"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[200];
        flx_error err = {0};
        flx_mesh_plan plan = {0};
        snprintf(text, sizeof text, "graph f(x: f64[8]) { return %s }", bodies[i]);
        test_fail_context("%s", text);
        CHECK_CODE(plan_text(text, "data=2", NULL, &plan, &err), FLX_E_CHECK, &err);
        CHECK_MSG(strstr(err.message, "of the mesh has no process"), "%s", err.message);
    }
}
