/* SPDX-License-Identifier: Apache-2.0 */
/* zero_bytes.c: what each rank keeps and sends when the state of the optimiser, and parameters, are cut among the ranks
   that share a batch (zero = 0 … 3): bytes that are counted in a training of four ranks, and what a plan of the same
   step says of them. */
#include "../backend/collective/local_ranks.h"
#include "../test.h"

#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, ROWS = 16, WIDTH = 64, INSIDE = 256, PARAMS = 2 * WIDTH * INSIDE * 4 /* bytes */ };

static const char text[] = "graph loss(x: f32[16, 64], param v: f32[64, 256] ~ xavier_normal,\n"
                           "           param w: f32[256, 64] ~ xavier_normal) {\n"
                           "  return reduce_mean(square(sub(matmul(tanh(matmul(x, v)), w), x)))\n}\n";

typedef struct {
    int64_t params, state, memory, work, sent;
    double loss;
} numbers;

typedef struct {
    int32_t zero;
    numbers of[RANKS];
    flx_mesh_plan plan; /* of the same step, by rank 0 */
} zero_case;

static int64_t bytes_of(const flx_params *s)
{
    int64_t sum = 0;
    for (size_t i = 0; i < flx_params_count(s); i++)
        sum += (int64_t)flx_tensor_nbytes(flx_params_at(s, i));
    return sum;
}

static int64_t sent_by(local_rank *r)
{
    flx_mesh_traffic sent = {.struct_size = sizeof sent};
    CHECK_OK(flx_mesh_sent(r->ctx, &sent, &r->err), &r->err);
    return sent.bytes;
}

static flx_tensor *rows_of(local_rank *r)
{
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){ROWS, WIDTH});
    flx_tensor *whole = flx_tensor_new(r->ctx, &type, NULL, &r->err);
    CHECK_MADE(whole, &r->err);
    for (int i = 0; i < ROWS * WIDTH; i++)
        ((float *)flx_tensor_data(whole))[i] = sinf((float)i);
    flx_tensor *part = flx_mesh_part(r->ctx, whole, "data=4", "data,-", r->rank, &r->err);
    flx_tensor_release(whole);
    return part;
}

static void plan_step(local_rank *r, const flx_graph *loss, const flx_train_options *o)
{
    zero_case *c = r->user;
    flx_graph *step = flx_training_graph(loss, o, &r->err);
    CHECK_MADE(step, &r->err);
    c->plan.struct_size = sizeof c->plan;
    CHECK_OK(flx_plan_mesh(step, "data=4", NULL, &c->plan, &r->err), &r->err);
    flx_graph_release(step);
}

static void train(local_rank *r)
{
    zero_case *c = r->user;
    numbers *n = &c->of[r->rank];
    const flx_sharding cuts[] = {{"x", "data,-"}};
    const flx_train_options o = {.struct_size = sizeof o,
                                 .optimiser = FLX_ADAMW,
                                 .rate = 0.01,
                                 .mesh = "data=4",
                                 .data_axis = "data",
                                 .shardings = cuts,
                                 .num_shardings = 1,
                                 .zero = c->zero};
    const flx_compile_options one = {.struct_size = sizeof one, .threads = 1};
    flx_module *m = flx_parse(r->ctx, text, sizeof text - 1, "test", &r->err);
    CHECK_MADE(m, &r->err);
    if (r->rank == 0)
        plan_step(r, flx_module_main(m), &o);
    flx_trainer *t = flx_compile_training(flx_module_main(m), &o, &one, &r->err);
    CHECK_MADE(t, &r->err);
    flx_feed x = {"x", rows_of(r)};
    for (int i = 0; i < 3; i++) {
        n->sent = sent_by(r);
        CHECK_OK(flx_trainer_step(t, &x, 1, &n->loss, &r->err), &r->err);
        n->sent = sent_by(r) - n->sent;
    }
    n->params = bytes_of(flx_trainer_params(t));
    n->state = bytes_of(flx_trainer_state(t));
    n->memory = (int64_t)flx_trainer_memory(t);
    n->work = (int64_t)flx_exec_memory(flx_trainer_exec(t));
    flx_tensor_release((flx_tensor *)(uintptr_t)x.value);
    flx_trainer_free(t);
    flx_module_free(m);
}

/* All ranks have the same numbers. A few scalars beside the parts: the loss, the count of steps. */
static numbers numbers_of(int32_t zero)
{
    zero_case c = {.zero = zero};
    local_ranks_run(RANKS, "data=4", 60, train, &c);
    for (int r = 1; r < RANKS; r++) {
        CHECK(llabs(c.of[r].sent - c.of[0].sent) <= 64); /* scalars are cut into pieces of unequal size */
        c.of[r].sent = c.of[0].sent;
        CHECK(memcmp(&c.of[r], &c.of[0], sizeof c.of[0]) == 0);
    }
    int64_t all = c.of[0].memory + c.of[0].work, planned = c.plan.values + c.plan.work;
    CHECK_MSG(llabs(planned - all) <= all / 32, "%lld bytes were planned, %lld are taken", (long long)planned,
              (long long)all);
    CHECK_MSG(llabs(c.plan.bytes - c.of[0].sent) <= 64, "%lld bytes were planned, %lld are sent",
              (long long)c.plan.bytes, (long long)c.of[0].sent);
    return c.of[0];
}

static bool is_near(int64_t bytes, int64_t want)
{
    return bytes >= want && bytes <= want + 256;
}

TEST(zero_bytes_of_each_rank)
{
    /* In quarters of the bytes of all parameters; what is sent in eighths. Sums of parts and whole values are three
       quarters each. With parameters in parts, w is gathered for the loss and once more for its gradient; nothing needs
       v a second time. */
    static const struct {
        int64_t params, state, sent;
    } want[] = {{4, 8, 12}, {4, 2, 12}, {4, 2, 12}, {1, 2, 15}};
    numbers all[4];
    for (int32_t zero = 0; zero < 4; zero++) {
        numbers *n = &all[zero];
        *n = numbers_of(zero);
        test_fail_context("zero %d: %lld bytes of parameters, %lld of state, %lld of both, %lld to work in, %lld sent",
                          zero, (long long)n->params, (long long)n->state, (long long)n->memory, (long long)n->work,
                          (long long)n->sent);
        CHECK(n->params == want[zero].params * PARAMS / 4);
        CHECK(is_near(n->state, want[zero].state * PARAMS / 4));
        CHECK(is_near(n->sent, want[zero].sent * PARAMS / 8));
        CHECK(fabs(n->loss - all[0].loss) <= 1e-5);
        test_count_case();
    }
    int64_t taken[4];
    for (int zero = 0; zero < 4; zero++)
        taken[zero] = all[zero].memory + all[zero].work;
    CHECK(taken[1] < taken[0] && taken[2] == taken[1] && taken[3] <= taken[0] / 2);
}
