/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c: exchanges between processes. There is one process so far, so every op is an identity (or the start of a
   count) and decomposes into one; its derivatives are still written as exchanges, so they hold for any number of
   processes.

   The convention assumes a loss of which every process has a copy (the losses are equal, and one is differentiated):
   the cotangent of a sum over processes is the sum of the cotangents. */
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "graph/op/infer.h"
#include "graph/op/site.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"

typedef struct {
    const char *axis_name;
    int64_t op; /* a word of REDUCTIONS */
    int64_t axis, concat_axis;
    int64_t process;
    const flx_type *type;
} collective_attrs;

#define REDUCTIONS "sum max min mean"
enum { REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_MEAN };

#define A_PROCESS(text, required)                                                                        \
    {                                                                                                    \
        .name = text, .kind = ATTR_INT, .offset = offsetof(collective_attrs, process), .flags = required \
    }
#define A_AXIS(text)                                                               \
    {                                                                              \
        .name = text, .kind = ATTR_INT, .offset = offsetof(collective_attrs, axis) \
    }

/* ---- Inference ---- */

static flx_code check_mesh_axis(flxi_infer *f)
{
    const collective_attrs *a = f->attrs;
    if (!*a->axis_name)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "for example axis_name=\"data\"", "axis_name must not be empty");
    if (a->process < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "processes are counted from 0", "%lld is not a process",
                               (long long)a->process);
    return FLX_OK;
}

static flx_code infer_same(flxi_infer *f)
{
    FLXI_TRY(check_mesh_axis(f));
    return flxi_infer_same(f);
}

static flx_code infer_along(flxi_infer *f)
{
    collective_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    return infer_same(f);
}

static flx_code infer_all_to_all(flxi_infer *f)
{
    collective_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "split_axis", &a->axis, f->in[0]->rank));
    FLXI_TRY(flxi_norm_axis(f, "concat_axis", &a->concat_axis, f->in[0]->rank));
    return infer_same(f);
}

static flx_code infer_recv(flxi_infer *f)
{
    f->out[0] = *((const collective_attrs *)f->attrs)->type;
    return check_mesh_axis(f);
}

static flx_code infer_barrier(flxi_infer *f)
{
    FLXI_TRY(flxi_results(f, f->nin));
    for (uint32_t k = 0; k < f->nin; k++)
        f->out[k] = *f->in[k];
    return FLX_OK;
}

static flx_code infer_index(flxi_infer *f)
{
    f->out[0] = (flx_type){.dtype = FLX_I32};
    return check_mesh_axis(f);
}

/* ---- Evaluation by one process ---- */

static flx_code eval_alone(flxi_eval *e)
{
    const collective_attrs *a = e->attrs;
    if (a && a->process > 0)
        return flxi_eval_fail(e, FLX_E_CHECK, "the program runs alone: its only process is 0",
                              "axis '%s' of the mesh has no process %lld", a->axis_name, (long long)a->process);
    for (uint32_t k = 0; k < e->nin; k++)
        flxi_stop_copy(e->out[k]->data, e->in[k]->data, e->out[k]->nbytes);
    return FLX_OK;
}

static void decompose_identity(flxi_site *s, flx_val *y)
{
    for (uint32_t k = 0; k < s->nin; k++)
        y[k] = s->x[k];
}

static void decompose_index(flxi_site *s, flx_val *y)
{
    y[0] = flxi_zeros(s, &(flx_type){.dtype = FLX_I32});
}

/* ---- Derivatives ---- */

static flx_val exchanged(flxi_site *s, const char *op, flx_val x, flx_attr *attrs, size_t n)
{
    attrs[0] = flx_attr_string("axis_name", ((const collective_attrs *)s->attrs)->axis_name);
    return flx_op1(s->g, op, &x, flxi_is_none(x) ? 0 : 1, attrs, n);
}

static flx_val reduced(flxi_site *s, flx_val x, const char *op)
{
    flx_attr attrs[2] = {{0}, flx_attr_word("op", op)};
    return exchanged(s, "all_reduce", x, attrs, 2);
}

/* All processes that have the largest value share the cotangent. */
static flx_val share_of_winners(flxi_site *s, flx_val here, flx_val arriving)
{
    flx_val wins = flx_eq(s->g, here, s->y[0]);
    flx_val number = reduced(s, flx_cast(s->g, wins, (flx_dtype)flxi_typeof(s, here)->dtype), "sum");
    return flxi_masked(s, wins, flx_div(s->g, arriving, number));
}

static void vjp_all_reduce(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const collective_attrs *a = s->attrs;
    flx_val total = reduced(s, dy[0], a->op == REDUCE_MEAN ? "mean" : "sum");
    dx[0] = a->op == REDUCE_SUM || a->op == REDUCE_MEAN ? total : share_of_winners(s, s->x[0], total);
}

static void jvp_all_reduce(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const collective_attrs *a = s->attrs;
    bool is_linear = a->op == REDUCE_SUM || a->op == REDUCE_MEAN;
    ty[0] = reduced(s, is_linear ? tx[0] : share_of_winners(s, s->x[0], tx[0]), a->op == REDUCE_MEAN ? "mean" : "sum");
}

static void vjp_all_gather(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_attr attrs[2] = {{0}, flx_attr_int("axis", ((const collective_attrs *)s->attrs)->axis)};
    dx[0] = exchanged(s, "reduce_scatter", dy[0], attrs, 2);
}

static void vjp_reduce_scatter(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_attr attrs[2] = {{0}, flx_attr_int("axis", ((const collective_attrs *)s->attrs)->axis)};
    dx[0] = exchanged(s, "all_gather", dy[0], attrs, 2);
}

static void vjp_all_to_all(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const collective_attrs *a = s->attrs;
    flx_attr attrs[3] = {{0}, flx_attr_int("split_axis", a->concat_axis), flx_attr_int("concat_axis", a->axis)};
    dx[0] = exchanged(s, "all_to_all", dy[0], attrs, 3);
}

/* The sum of all cotangents, for the process whose x it was. */
static void vjp_broadcast(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    flx_attr attrs[1];
    flx_val here = exchanged(s, "axis_index", FLX_NONE, attrs, 1);
    flx_val is_root = flx_eq(s->g, here, flxi_number(s, here, (double)((const collective_attrs *)s->attrs)->process));
    dx[0] = flxi_masked(s, is_root, reduced(s, dy[0], "sum"));
}

/* The receiver's cotangent is sent back to the sender. */
static void vjp_send(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const collective_attrs *a = s->attrs;
    flx_attr attrs[3] = {{0}, flx_attr_int("from", a->process), flx_attr_type("type", flxi_typeof(s, s->x[0]))};
    dx[0] = flx_add(s->g, dy[0], exchanged(s, "recv", FLX_NONE, attrs, 3));
}

static void jvp_send(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    ty[0] = flxi_emit1(s, NULL, tx, 1);
}

static void vjp_barrier(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    for (uint32_t k = 0; k < s->nin; k++)
        dx[k] = dy[k];
}

/* ---- Batching ---- */

static void batch_same(flxi_site *s, flx_val *by)
{
    flxi_append(s, NULL, s->x, s->nin, by);
    for (uint32_t k = 0; k < s->nin; k++)
        s->by_batched[k] = s->batched[k];
}

static void batch_along(flxi_site *s, flx_val *by)
{
    collective_attrs *a = flxi_site_attrs(s);
    if (!a)
        return;
    a->axis++;
    a->concat_axis++;
    flxi_append(s, a, s->x, s->nin, by);
}

/* ---- Rules ---- */

static const flxi_attr reduce_schema[] = {A_STRING_REQ(collective_attrs, axis_name),
                                          A_WORD(collective_attrs, op, REDUCTIONS), A_END};
static const flxi_attr along_schema[] = {A_STRING_REQ(collective_attrs, axis_name), A_AXIS("axis"), A_END};
static const flxi_attr exchange_schema[] = {A_STRING_REQ(collective_attrs, axis_name), A_AXIS("split_axis"),
                                            A_INT(collective_attrs, concat_axis, 0), A_END};
static const flxi_attr root_schema[] = {A_STRING_REQ(collective_attrs, axis_name), A_PROCESS("root", 0), A_END};
static const flxi_attr send_schema[] = {A_STRING_REQ(collective_attrs, axis_name), A_PROCESS("to", ATTR_REQUIRED),
                                        A_END};
static const flxi_attr recv_schema[] = {
    A_STRING_REQ(collective_attrs, axis_name),
    A_PROCESS("from", ATTR_REQUIRED),
    {.name = "type", .kind = ATTR_TYPE, .offset = offsetof(collective_attrs, type), .flags = ATTR_REQUIRED},
    A_END};
static const flxi_attr name_schema[] = {A_STRING_REQ(collective_attrs, axis_name), A_END};

static const flxi_sample samples_reduce[] = {
    {"T[3, 4]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[N]", "axis_name=\"data\", op=max", NULL, FLX_OK},
    {"T[]", "axis_name=\"d\", op=min", NULL, FLX_OK},
    {"T[0, 2]", "axis_name=\"d\", op=mean", NULL, FLX_OK},
    {"T[2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"\"", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"d\", op=prod", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_along[] = {
    {"T[3, 4]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[N, 2]", "axis_name=\"data\", axis=-1", NULL, FLX_OK},
    {"T[0]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[]", "axis_name=\"data\"", NULL, FLX_E_SHAPE},
    {"T[2]", "axis_name=\"data\", axis=1", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_exchange[] = {
    {"T[3, 4]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[N, 2]", "axis_name=\"data\", split_axis=-1, concat_axis=0", NULL, FLX_OK},
    {"T[2]", "axis_name=\"data\", split_axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"data\", concat_axis=-2", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_root[] = {
    {"T[3, 4]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[N]", "axis_name=\"data\", root=0", NULL, FLX_OK},
    {"T[N]", "axis_name=\"data\", root=-1", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_send[] = {
    {"T[3, 4]", "axis_name=\"data\", to=0", NULL, FLX_OK},
    {"T[N]", "axis_name=\"data\", to=0", NULL, FLX_OK},
    {"T[N]", "axis_name=\"data\"", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_recv[] = {
    {"", "axis_name=\"data\", from=0, type=T[3, 2]", NULL, FLX_OK},
    {"", "axis_name=\"data\", from=0, type=T[]", NULL, FLX_OK},
    {"", "axis_name=\"data\", from=-1, type=f32[2]", NULL, FLX_E_ATTRIBUTE},
    {"", "axis_name=\"data\", from=0", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_barrier[] = {
    {"T[3, 4]", NULL, NULL, FLX_OK},
    {"T[2], i32[N]", NULL, NULL, FLX_OK},
    {"T[2]", "axis_name=\"data\"", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_index[] = {
    {"", "axis_name=\"data\"", NULL, FLX_OK},
    {"", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

#define COLLECTIVE(op, infer_rule, list, sample_list, ...)                      \
    const flxi_rules flxi_rules_##op = {.infer = infer_rule,                    \
                                        .eval = eval_alone,                     \
                                        .schema = list,                         \
                                        .link = flxi_link_dense,                \
                                        .attrs_size = sizeof(collective_attrs), \
                                        .samples = sample_list,                 \
                                        __VA_ARGS__};

COLLECTIVE(all_reduce, infer_same, reduce_schema, samples_reduce, .vjp = vjp_all_reduce, .jvp = jvp_all_reduce,
           .batch = batch_same, .decompose = decompose_identity)
COLLECTIVE(all_gather, infer_along, along_schema, samples_along, .vjp = vjp_all_gather, .batch = batch_along,
           .decompose = decompose_identity)
COLLECTIVE(reduce_scatter, infer_along, along_schema, samples_along, .vjp = vjp_reduce_scatter, .batch = batch_along,
           .decompose = decompose_identity)
COLLECTIVE(all_to_all, infer_all_to_all, exchange_schema, samples_exchange, .vjp = vjp_all_to_all, .batch = batch_along,
           .decompose = decompose_identity)
COLLECTIVE(broadcast, infer_same, root_schema, samples_root, .vjp = vjp_broadcast, .batch = batch_same)
COLLECTIVE(send, infer_same, send_schema, samples_send, .vjp = vjp_send, .jvp = jvp_send, .batch = batch_same)
COLLECTIVE(recv, infer_recv, recv_schema, samples_recv, .undefined = NULL)
COLLECTIVE(axis_index, infer_index, name_schema, samples_index, .decompose = decompose_index)

const flxi_rules flxi_rules_barrier = {
    .infer = infer_barrier,
    .eval = eval_alone,
    .vjp = vjp_barrier,
    .jvp = vjp_barrier,
    .batch = batch_same,
    .samples = samples_barrier,
    .link = flxi_link_dense,
};
