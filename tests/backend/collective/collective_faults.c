/* SPDX-License-Identifier: Apache-2.0 */
/* collective_faults.c: a process that differs, hangs, leaves or fails ends the exchange in all processes, within the
   time limit and with a message that names it. */
#include "../../test.h"
#include "backend/transport.h"
#include "local_ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const char *text[3]; /* by rank; NULL: it does what `fault` says */
    int64_t step;
    uint32_t flags; /* of the mesh */
    void (*fault)(local_rank *r);
    flx_error err[3];
    flx_code again[3]; /* of an exchange after that */
    double seconds[3];
} fault_case;

static void run_fault(local_rank *r)
{
    fault_case *c = r->user;
    const double in[4] = {1, 2, 3, 4};
    double out[64];
    int64_t start = flxi_transport_clock();
    flx_mesh_set_step(r->ctx, c->step);
    if (c->text[r->rank])
        local_rank_text(r, c->text[r->rank], NULL, "ref", in, out);
    else
        c->fault(r);
    c->seconds[r->rank] = (double)(flxi_transport_clock() - start) * 1e-9;
    c->err[r->rank] = r->err;
    if (c->text[r->rank])
        c->again[r->rank] = flx_mesh_agree(r->ctx, "the end", 1, &r->err);
}

/* All processes that run a text fail with the code, and with this message. */
static void check_fault(fault_case *c, flx_code code, const char *message, double limit)
{
    double timeout = code == FLX_E_TIMEOUT ? 0.25 : 30;
    local_ranks_run_with(&(flx_mesh_options){.timeout = timeout, .flags = c->flags}, 3, run_fault, c);
    for (int r = 0; r < 3; r++)
        if (c->text[r]) {
            test_fail_context("rank %d: %s", r, c->err[r].message);
            CHECK_EQ_I64(c->err[r].code, code);
            CHECK_MSG(strstr(c->err[r].message, message), "expected '%s'", message);
            CHECK_MSG(c->seconds[r] < limit, "it took %g s", c->seconds[r]);
            CHECK_EQ_I64(c->again[r], FLX_E_DEVICE); /* a mesh that failed stays failed */
        }
}

#define SUM(type) "graph f(x: f64[4]) { return all_reduce(cast(x, to=" type "), axis_name=\"data\") }"
#define PART(n) "graph f(x: f64[4]) { return all_reduce(narrow(x, axis=0, start=0, len=" #n "), axis_name=\"data\") }"

TEST(collective_faults_other_dtype)
{
    fault_case c = {.text = {SUM("f64"), SUM("f32"), SUM("f64")}, .step = 7};
    check_fault(
        &c, FLX_E_CHECK,
        "rank 1 differs in step 7: it has all_reduce of 4 f32 along 'data', rank 0 has all_reduce of 4 f64 along "
        "'data'",
        15);
}

TEST(collective_faults_other_shape)
{
    fault_case c = {.text = {PART(3), PART(3), PART(2)}};
    check_fault(&c, FLX_E_CHECK, "rank 2 differs in exchange 1: it has all_reduce of 2 f64", 15);
}

TEST(collective_faults_other_reduction)
{
    fault_case c = {
        .text = {SUM("f64"), SUM("f64"), "graph f(x: f64[4]) { return all_reduce(x, axis_name=\"data\", op=max) }"}};
    check_fault(&c, FLX_E_CHECK, "rank 2 differs in exchange 1: it has all_reduce of 4 f64 along 'data' with other",
                15);
}

static void sleep_long(local_rank *r)
{
    (void)r;
    usleep(1500000);
}

static void leave(local_rank *r)
{
    usleep(20000);
    flx_mesh_leave(r->ctx);
}

TEST(collective_faults_process_that_hangs)
{
    fault_case c = {.text = {SUM("f64"), NULL, SUM("f64")}, .step = 3, .fault = sleep_long};
    check_fault(&c, FLX_E_TIMEOUT, "rank 1 gave no sign for 0.25 s in step 3", 3);
}

TEST(collective_faults_first_process_hangs)
{
    fault_case c = {.text = {NULL, SUM("f64"), SUM("f64")}, .fault = sleep_long};
    check_fault(&c, FLX_E_TIMEOUT, "rank 0 gave no sign for 0.75 s in exchange 1", 3);
}

TEST(collective_faults_two_processes_hang)
{
    fault_case c = {.text = {SUM("f64"), NULL, NULL}, .step = 3, .fault = sleep_long};
    check_fault(&c, FLX_E_TIMEOUT, "ranks 1 and 2 gave no sign for 0.25 s in step 3", 3);
}

TEST(collective_faults_process_that_leaves)
{
    fault_case c = {.text = {SUM("f64"), SUM("f64"), NULL}, .step = 5, .fault = leave};
    check_fault(&c, FLX_E_DEVICE, "rank 2 has left the mesh in step 5", 15);
}

TEST(collective_faults_at_a_meeting)
{
    fault_case other = {.text = {SUM("f64"), SUM("f32"), SUM("f64")}, .step = 7, .flags = FLX_MESH_MEET};
    check_fault(&other, FLX_E_CHECK, "rank 1 differs in step 7: it has all_reduce of 4 f32 along 'data', rank 0 has",
                15);
    fault_case first = {.text = {NULL, SUM("f64"), SUM("f64")}, .flags = FLX_MESH_MEET, .fault = sleep_long};
    check_fault(&first, FLX_E_TIMEOUT, "rank 0 gave no sign for 0.25 s in exchange 1", 3);
    fault_case two = {.text = {SUM("f64"), NULL, NULL}, .step = 3, .flags = FLX_MESH_MEET, .fault = sleep_long};
    check_fault(&two, FLX_E_TIMEOUT, "ranks 1 and 2 gave no sign for 0.25 s in step 3", 3);
    fault_case gone = {.text = {SUM("f64"), SUM("f64"), NULL}, .step = 5, .flags = FLX_MESH_MEET, .fault = leave};
    check_fault(&gone, FLX_E_DEVICE, "rank 2 has left the mesh in step 5", 15);
}

static void agree(local_rank *r)
{
    flx_code code = flx_mesh_agree(r->ctx, "the graph", r->rank == 1 ? 0xabc : 0xdef, &r->err);
    CHECK_CODE(code, FLX_E_CHECK, &r->err);
    CHECK_EQ_STR(r->err.message,
                 "rank 1 differs in exchange 1: it has the graph 0000000000000abc, rank 0 has the graph "
                 "0000000000000def");
}

TEST(collective_faults_other_graph)
{
    local_ranks_run(3, NULL, 5, agree, NULL);
}

static void run_sized(local_rank *r)
{
    const double in[4] = {1, 2, 3, 4};
    double out[16];
    CHECK_CODE(local_rank_text(r, "graph f(x: f64[4]) { return all_gather(x, axis_name=\"data\", size=2) }", NULL,
                               "ref", in, out),
               FLX_E_CHECK, &r->err);
    CHECK_EQ_STR(r->err.message, "all_gather: made for 2 processes along 'data', but the mesh has 3");
}

TEST(collective_faults_mesh_of_another_size)
{
    local_ranks_run(3, NULL, 5, run_sized, NULL);
}

TEST(collective_faults_alone)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    local_rank r = {.ctx = ctx};
    const double in[4] = {1, 2, 3, 4};
    double out[16];
    CHECK_CODE(local_rank_text(&r, "graph f(x: f64[4]) { return all_gather(x, axis_name=\"data\", size=2) }", NULL,
                               "ref", in, out),
               FLX_E_CHECK, &r.err);
    CHECK_EQ_STR(r.err.message, "all_gather: made for 2 processes along 'data', but the program runs alone");
    CHECK_OK(flx_mesh_agree(ctx, "the graph", 3, &err), &err);
    CHECK_EQ_I64(flx_mesh_rank(ctx), 0);
    CHECK_EQ_I64(flx_mesh_size(ctx), 1);
    flx_mesh_leave(ctx);
    flx_context_free(ctx);
}

/* ---- Joining ---- */

TEST(collective_faults_joining)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL), *other = flx_context_new(NULL);
    flx_local_mesh *mesh = flx_local_mesh_new(ctx, 2, &err);
    CHECK_MADE(mesh, &err);
    flx_mesh_options o = {.struct_size = sizeof o, .local = mesh, .rank = 2};
    CHECK_CODE(flx_mesh_join(ctx, &o, &err), FLX_E_USAGE, &err);
    CHECK_EQ_STR(err.message, "the mesh has processes 0 to 1, not 2");
    o.rank = 1;
    o.axes = "data=3";
    CHECK_CODE(flx_mesh_join(ctx, &o, &err), FLX_E_USAGE, &err);
    CHECK_EQ_STR(err.message, "the mesh data=3 has 3 processes, but 2 were started");
    o.rank = 0;
    o.axes = "data=2";
    CHECK_OK(flx_mesh_join(ctx, &o, &err), &err);
    CHECK_CODE(flx_mesh_join(ctx, &o, &err), FLX_E_USAGE, &err);
    CHECK_EQ_STR(err.message, "the context has a mesh already");
    CHECK_CODE(flx_mesh_join(other, &o, &err), FLX_E_USAGE, &err);
    CHECK_EQ_STR(err.message, "process 0 of the mesh has joined before");
    o.transport = "pigeon";
    CHECK_CODE(flx_mesh_join(other, &o, &err), FLX_E_NAME, &err);
    CHECK(!flx_local_mesh_new(ctx, 0, &err) && err.code == FLX_E_USAGE);
    flx_context_free(other);
    flx_mesh_leave(ctx);
    flx_local_mesh_free(mesh);
    flx_context_free(ctx);
}
