/* SPDX-License-Identifier: Apache-2.0 */
/* collective_overlap.c: exchanges that run beside the steps after them: that they do, that the bits are those of
   exchanges in order, and that a failure is reported as without it. */
#include "../../test.h"
#include "local_ranks.h"

#include <fluxion/custom.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- That steps run meanwhile ---- */

/* Rank 1 comes to the exchange once rank 0 has run the step after it. */
static const char meeting[] = "graph f(x: f64[4]) {\n"
                              "  y = all_reduce(custom(x, name=\"arrive\"), axis_name=\"data\")\n"
                              "  z = custom(x, name=\"signal\")\n"
                              "  return add(mul(y, 2), z)\n}\n";

typedef struct {
    atomic_int signals;
    flx_code code[2];
    flx_error err[2];
    double out[2][4];
} meeting_case;

typedef struct {
    meeting_case *c;
    int64_t rank;
} meeting_rank;

static flx_code infer_same(void *user, const flx_custom_call *c, flx_type *results, size_t *n, flx_error *err)
{
    (void)user;
    (void)err;
    results[0] = *flx_custom_input(c, 0);
    *n = 1;
    return FLX_OK;
}

static flx_code eval_arrive(void *user, const flx_custom_call *c, const void *const *in, void *const *out,
                            flx_error *err)
{
    const meeting_rank *r = user;
    (void)c;
    (void)err;
    for (int i = 0; i < 2000 && r->rank == 1 && !atomic_load(&r->c->signals); i++)
        usleep(1000);
    memcpy(out[0], in[0], 4 * sizeof(double));
    return FLX_OK;
}

static flx_code eval_signal(void *user, const flx_custom_call *c, const void *const *in, void *const *out,
                            flx_error *err)
{
    const meeting_rank *r = user;
    (void)c;
    (void)err;
    if (r->rank == 0)
        atomic_store(&r->c->signals, 1);
    memcpy(out[0], in[0], 4 * sizeof(double));
    return FLX_OK;
}

static void meet(local_rank *r)
{
    meeting_case *c = r->user;
    meeting_rank own = {c, r->rank};
    const double in[4] = {1, 2, 3, 4};
    const flx_custom_op ops[] = {
        {.struct_size = sizeof *ops, .name = "arrive", .user = &own, .infer = infer_same, .eval = eval_arrive},
        {.struct_size = sizeof *ops, .name = "signal", .user = &own, .infer = infer_same, .eval = eval_signal}};
    for (int k = 0; k < 2; k++)
        CHECK_OK(flx_register_custom(r->ctx, &ops[k], &r->err), &r->err);
    c->code[r->rank] = local_rank_text(r, meeting, NULL, "cpu", in, c->out[r->rank]);
    c->err[r->rank] = r->err;
}

TEST(collective_overlap_steps_run_during_an_exchange)
{
    meeting_case c = {.signals = 0};
    local_ranks_run(2, NULL, 1, meet, &c);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(c.code[r], &c.err[r]);
        for (int i = 0; i < 4; i++)
            CHECK(c.out[r][i] == 5.0 * (i + 1));
    }
}

/* Without it rank 0 waits, and rank 1 waits for rank 0: the time is over. */
TEST(collective_overlap_can_be_switched_off)
{
    for (int way = 0; way < 2; way++) {
        meeting_case c = {.signals = 0};
        if (way)
            setenv("FLX_MESH_OVERLAP", "0", 1);
        local_ranks_run_with(&(flx_mesh_options){.timeout = 0.25, .flags = way ? 0 : FLX_MESH_IN_ORDER}, 2, meet, &c);
        unsetenv("FLX_MESH_OVERLAP");
        CHECK_CODE(c.code[0], FLX_E_TIMEOUT, &c.err[0]);
        CHECK_EQ_STR(c.err[0].message, "all_reduce 'y': rank 1 gave no sign for 0.25 s in exchange 1");
    }
}

/* ---- Bits ---- */

/* Exchanges that others depend on, in a loop, beside steps that need much memory, and more than run at a time. */
static const char many[] = "graph round(c: f64[64, 1], x: f64[]) {\n"
                           "  y = all_reduce(mul(c, x), axis_name=\"data\", op=mean)\n"
                           "  return add(add(sin(y), 0.5), reduce_sum(mul(c, c)))\n}\n"
                           "graph f(x: f64[64, 1], w: f64[64, 64]) {\n"
                           "  xs = const(f64[3], [1, 0.5, 0.25])\n"
                           "  a = matmul(w, x)\n  b = all_reduce(a, axis_name=\"data\")\n"
                           "  c = tanh(matmul(w, a))\n  d = all_reduce(mul(c, 3), axis_name=\"data\", op=mean)\n"
                           "  e = tanh(matmul(w, c))\n  h = reduce_scatter(e, axis_name=\"data\", size=@)\n"
                           "  k = tanh(matmul(w, e))\n  l = all_reduce(k, axis_name=\"data\", op=max)\n"
                           "  m = tanh(matmul(w, k))\n  n = all_reduce(m, axis_name=\"data\")\n"
                           "  p = tanh(matmul(w, m))\n  q = all_reduce(p, axis_name=\"data\")\n"
                           "  r = tanh(matmul(w, p))\n  s = all_gather(r, axis_name=\"data\", size=@)\n"
                           "  t = scan(r, xs, num_carry=1, body=@round)\n"
                           "  u = all_reduce(matmul(w, b), axis_name=\"data\")\n"
                           "  return add(add(u, d), add(l, t)), add(n, q), h, s\n}\n";

enum { ELEMENTS = 64, OUTPUTS = ELEMENTS * (2 + 1 + MAX_RANKS) };

typedef struct {
    char text[2000];
    double out[MAX_RANKS][OUTPUTS];
} bits_case;

static void run_many(local_rank *r)
{
    bits_case *c = r->user;
    static const size_t size = ELEMENTS * (ELEMENTS + 1);
    double *in = malloc(size * sizeof *in);
    uint64_t seed = 7 + (uint64_t)r->rank;
    for (size_t i = 0; i < size; i++)
        in[i] = (double)(int64_t)(test_random(&seed) % 2001) * 1e-3 - 1;
    CHECK_OK(local_rank_text(r, c->text, NULL, "cpu", in, c->out[r->rank]), &r->err);
    free(in);
}

TEST(collective_overlap_has_the_same_bits)
{
    for (int64_t ranks = 2; ranks <= 4; ranks *= 2) {
        static bits_case c[2];
        memset(c, 0, sizeof c);
        for (int way = 0; way < 2; way++) {
            snprintf(c[way].text, sizeof c[way].text, "%s", many);
            for (char *at = strstr(c[way].text, "=@)"); at; at = strstr(at, "=@)"))
                at[1] = (char)('0' + ranks);
            local_ranks_run_with(&(flx_mesh_options){.timeout = 60, .flags = way ? 0 : FLX_MESH_IN_ORDER}, ranks,
                                 run_many, &c[way]);
        }
        CHECK(c[0].out[0][0] != 0 && memcmp(c[0].out, c[1].out, sizeof c[0].out) == 0);
        test_count_case();
    }
}

/* ---- Faults ---- */

/* The step of rank 1 after the exchange fails, or rank 1 does not come to the exchange. */
typedef struct {
    bool comes;
    flx_code code[2], again[2];
    flx_error err[2];
} fault_case;

static const char faulty[] = "graph f(x: f64[4]) {\n"
                             "  y = all_reduce(x, axis_name=\"data\")\n"
                             "  z = all_reduce(mul(x, 2), axis_name=\"data\")\n"
                             "  w = custom(x, name=\"fail\")\n"
                             "  return add(add(y, z), w)\n}\n";

static flx_code eval_fail(void *user, const flx_custom_call *c, const void *const *in, void *const *out, flx_error *err)
{
    (void)c;
    memcpy(out[0], in[0], 4 * sizeof(double));
    if (*(const int64_t *)user == 0)
        return FLX_OK;
    strcpy(err->message, "as requested");
    return FLX_E_NUMERIC;
}

static void run_faulty(local_rank *r)
{
    fault_case *c = r->user;
    const double in[4] = {1, 2, 3, 4};
    double out[4];
    const flx_custom_op op = {
        .struct_size = sizeof op, .name = "fail", .user = &r->rank, .infer = infer_same, .eval = eval_fail};
    CHECK_OK(flx_register_custom(r->ctx, &op, &r->err), &r->err);
    flx_mesh_set_step(r->ctx, 9);
    if (r->rank == 1 && !c->comes) {
        usleep(1200000);
        return;
    }
    c->code[r->rank] = local_rank_text(r, faulty, NULL, "cpu", in, out);
    c->err[r->rank] = r->err;
    c->again[r->rank] = flx_mesh_agree(r->ctx, "the end", 1, &r->err);
}

/* Exchanges that have begun are ended first: rank 0 has what it needs, and the mesh is as before. */
TEST(collective_overlap_a_step_that_fails_ends_its_exchanges)
{
    fault_case c = {.comes = true};
    local_ranks_run(2, NULL, 30, run_faulty, &c);
    CHECK_OK(c.code[0], &c.err[0]);
    CHECK_CODE(c.code[1], FLX_E_NUMERIC, &c.err[1]);
    CHECK(strstr(c.err[1].message, "as requested"));
    CHECK_EQ_I64(c.again[0], FLX_OK);
    CHECK_EQ_I64(c.again[1], FLX_OK);
}

TEST(collective_overlap_names_the_process_that_hangs)
{
    fault_case c = {.comes = false};
    local_ranks_run(2, NULL, 0.25, run_faulty, &c);
    CHECK_CODE(c.code[0], FLX_E_TIMEOUT, &c.err[0]);
    CHECK_EQ_STR(c.err[0].message, "all_reduce 'y': rank 1 gave no sign for 0.25 s in step 9");
    CHECK_EQ_I64(c.again[0], FLX_E_DEVICE); /* a mesh that failed stays failed */
}
