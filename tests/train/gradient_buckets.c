/* SPDX-License-Identifier: Apache-2.0 */
/* gradient_buckets.c: the gradients of a data-parallel step travel during the backward pass. The pass of rank 0 comes
   to its end, which it tells, while rank 1 has not yet brought the first gradient. */
#include "../backend/collective/local_ranks.h"
#include "../test.h"

#include <fluxion/custom.h>
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = (4 << 20) + 8 }; /* more than a bucket has */

/* The gradient of `last` comes first, and the pass ends with that of `first`, which depends on more. Values begin near
   zero. */
static const char text[] =
    "graph same(x: f32[4194312]) { return x }\n"
    "graph come(x: f32[4194312], y: f32[4194312], dy: f32[4194312]) { return custom(dy, name=\"come\") }\n"
    "graph end(x: f32[4194312], y: f32[4194312], dy: f32[4194312]) { return custom(dy, name=\"end\") }\n"
    "graph loss(x: f32[4], param first: f32[4194312], param last: f32[4194312]) {\n"
    "  a = custom_fn(first, fwd_body=@same, vjp_body=@end)\n"
    "  b = custom_fn(last, fwd_body=@same, vjp_body=@come)\n"
    "  return mul(reduce_sum(x), add(reduce_sum(mul(sin(sin(a)), 2)), reduce_sum(mul(b, 3))))\n}\n";

typedef struct {
    atomic_int has_ended;
    double timeout;
    flx_code code[2];
    flx_error err[2];
    float first[2], last[2]; /* after a step */
} step_case;

typedef struct {
    step_case *c;
    int64_t rank;
} step_rank;

static flx_code infer_same(void *user, const flx_custom_call *c, flx_type *results, size_t *n, flx_error *err)
{
    (void)user;
    (void)err;
    results[0] = *flx_custom_input(c, 0);
    *n = 1;
    return FLX_OK;
}

static flx_code eval_come(void *user, const flx_custom_call *c, const void *const *in, void *const *out, flx_error *err)
{
    const step_rank *r = user;
    (void)c;
    (void)err;
    for (int i = 0; i < (int)(3000 * r->c->timeout) && r->rank == 1 && !atomic_load(&r->c->has_ended); i++)
        usleep(1000);
    memcpy(out[0], in[0], WIDTH * sizeof(float));
    return FLX_OK;
}

static flx_code eval_end(void *user, const flx_custom_call *c, const void *const *in, void *const *out, flx_error *err)
{
    const step_rank *r = user;
    (void)c;
    (void)err;
    if (r->rank == 0)
        atomic_store(&r->c->has_ended, 1);
    memcpy(out[0], in[0], WIDTH * sizeof(float));
    return FLX_OK;
}

static float first_element(flx_trainer *t, const char *name, flx_error *err)
{
    flx_tensor *p = flx_trainer_param(t, name, err);
    CHECK_MADE(p, err);
    float x = ((const float *)flx_tensor_const_data(p))[0];
    flx_tensor_release(p);
    return x;
}

static void step(local_rank *r)
{
    step_case *c = r->user;
    step_rank own = {c, r->rank};
    const flx_custom_op ops[] = {
        {.struct_size = sizeof *ops, .name = "come", .user = &own, .infer = infer_same, .eval = eval_come},
        {.struct_size = sizeof *ops, .name = "end", .user = &own, .infer = infer_same, .eval = eval_end}};
    for (int k = 0; k < 2; k++)
        CHECK_OK(flx_register_custom(r->ctx, &ops[k], &r->err), &r->err);
    flx_module *m = flx_parse(r->ctx, text, sizeof text - 1, "test", &r->err);
    CHECK_MADE(m, &r->err);
    const flx_train_options o = {
        .struct_size = sizeof o, .optimiser = FLX_SGD, .rate = 0.5, .momentum = 0, .data_axis = "data"};
    const flx_compile_options one = {.struct_size = sizeof one, .device = "cpu", .threads = 1};
    flx_trainer *t = flx_compile_training(flx_module_main(m), &o, &one, &r->err);
    CHECK_MADE(t, &r->err);
    flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){4});
    flx_feed x = {"x", flx_tensor_new(r->ctx, &type, (const float[]){1, 1, 1, (float)r->rank}, &r->err)};
    c->code[r->rank] = flx_trainer_step(t, &x, 1, NULL, &c->err[r->rank]);
    if (c->code[r->rank] == FLX_OK) {
        c->first[r->rank] = first_element(t, "first", &r->err);
        c->last[r->rank] = first_element(t, "last", &r->err);
    }
    flx_tensor_release((flx_tensor *)(uintptr_t)x.value);
    flx_trainer_free(t);
    flx_module_free(m);
}

TEST(gradient_buckets_travel_during_the_backward_pass)
{
    step_case c = {.timeout = 20};
    local_ranks_run(2, "data=2", c.timeout, step, &c);
    for (int r = 0; r < 2; r++) {
        CHECK_OK(c.code[r], &c.err[r]);
        CHECK_MSG(fabsf(c.first[r] + 3.5f) < 0.02f && fabsf(c.last[r] + 5.25f) < 0.02f, "%g and %g", (double)c.first[r],
                  (double)c.last[r]);
    }
}

/* With exchanges in order the pass of rank 0 waits for rank 1: so the test above can fail. */
TEST(gradient_buckets_in_order_wait)
{
    step_case c = {.timeout = 0.5};
    local_ranks_run_with(&(flx_mesh_options){.axes = "data=2", .timeout = c.timeout, .flags = FLX_MESH_IN_ORDER}, 2,
                         step, &c);
    CHECK_CODE(c.code[0], FLX_E_TIMEOUT, &c.err[0]);
}
