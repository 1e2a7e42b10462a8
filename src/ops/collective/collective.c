/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c: exchanges between the processes of a mesh (graph/mesh.h). In a context without a mesh every op is an
   identity, or the start of a count.

   All processes together compute one function, from the operands of all to the results of all, and the rules are those
   of that function: the cotangent of an operand is the sum of what the results of all processes contribute. So a
   gradient is that of the sum of the losses of all processes; with a loss that is a mean over them (op=mean) it is the
   gradient of that mean, times the number of processes that have a copy of it. */
#include "base/host/stop.h"
#include "graph/mesh.h"
#include "graph/op/infer.h"
#include "graph/op/site.h"
#include "ops/collective/exchange.h"
#include "ops/rule/link.h"
#include "ops/rule/rule_lists.h"

#include <stdlib.h>

typedef struct {
    const char *axis_name;
    int64_t op; /* a word of REDUCTIONS */
    int64_t axis, concat_axis;
    int64_t size; /* processes along the axis of the mesh; of all_reduce 0: any number */
    int64_t process;
    flx_ints sources, targets;
    const flx_type *type;
    const char *spec;
} collective_attrs;

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
    size_t length = strlen(a->axis_name);
    if (!length || a->axis_name[0] == ',' || a->axis_name[length - 1] == ',' || strstr(a->axis_name, ",,"))
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "for example axis_name=\"data\", or \"data,model\" for two axes",
                               "no name in axis_name may be empty: it is '%.60s'", a->axis_name);
    if (a->process < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "processes are counted from 0", "%lld is not a process",
                               (long long)a->process);
    return FLX_OK;
}

static flx_code check_size(flxi_infer *f, int64_t least)
{
    int64_t size = ((const collective_attrs *)f->attrs)->size;
    if (size < least || size > INT32_MAX)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "size is the number of processes along the axis of the mesh",
                               "%lld is not a number of processes", (long long)size);
    return FLX_OK;
}

static flx_code infer_same(flxi_infer *f)
{
    FLXI_TRY(check_mesh_axis(f));
    return flxi_infer_same(f);
}

static flx_code infer_all_reduce(flxi_infer *f)
{
    const collective_attrs *a = f->attrs;
    int32_t dtype = f->in[0]->dtype;
    bool is_ordered = a->op == REDUCE_MAX || a->op == REDUCE_MIN,
         is_logical = a->op == REDUCE_AND || a->op == REDUCE_OR;
    bool has_fractions = flxi_in(FLXI_FLOATS | FLXI_COMPLEX, dtype);
    if ((is_ordered && flxi_is_complex(dtype)) || (is_logical && has_fractions) ||
        (a->op == REDUCE_MEAN && !has_fractions))
        return flxi_infer_fail(f, FLX_E_DTYPE,
                               "max and min need an order, mean needs fractions, and/or take bool and integers",
                               "this reduction is not defined for %s", flx_dtype_name(dtype));
    FLXI_TRY(check_size(f, 0));
    return infer_same(f);
}

/* Result 0 is the operand with `axis` times, or divided by, the number of processes. */
static flx_code scale_axis(flxi_infer *f, int64_t axis, bool is_divided)
{
    int64_t size = ((const collective_attrs *)f->attrs)->size;
    flx_dim *dim = &f->out[0].dims[axis];
    if (size == 1)
        return FLX_OK;
    if (is_divided && flx_dim_is_static(*dim) && *dim % size != 0)
        return flxi_infer_fail(f, FLX_E_SHAPE, "each process gets an equal part",
                               "extent %lld of axis %lld is not a multiple of the %lld processes", (long long)*dim,
                               (long long)axis, (long long)size);
    *dim = is_divided ? flx_dim_div(f->ctx, *dim, size) : flx_dim_mul(f->ctx, *dim, size);
    return FLX_OK;
}

static flx_code infer_along(flxi_infer *f, bool is_divided)
{
    collective_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "axis", &a->axis, f->in[0]->rank));
    FLXI_TRY(check_size(f, 1));
    FLXI_TRY(infer_same(f));
    return scale_axis(f, a->axis, is_divided);
}

static flx_code infer_all_gather(flxi_infer *f)
{
    return infer_along(f, false);
}

static flx_code infer_reduce_scatter(flxi_infer *f)
{
    return infer_along(f, true);
}

static flx_code infer_all_to_all(flxi_infer *f)
{
    collective_attrs *a = f->attrs;
    FLXI_TRY(flxi_need_rank(f, 0, 1));
    FLXI_TRY(flxi_norm_axis(f, "split_axis", &a->axis, f->in[0]->rank));
    FLXI_TRY(flxi_norm_axis(f, "concat_axis", &a->concat_axis, f->in[0]->rank));
    FLXI_TRY(check_size(f, 1));
    FLXI_TRY(infer_same(f));
    FLXI_TRY(scale_axis(f, a->axis, true));
    return scale_axis(f, a->concat_axis, false);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* None is negative or there twice. */
static flx_code check_distinct(flxi_infer *f, const flx_ints *list)
{
    int64_t *sorted = flxi_new(f->arena, int64_t, list->n + 1);
    bool is_fine = true;
    if (!sorted)
        return flxi_oom(f->err, "processes");
    if (list->n)
        memcpy(sorted, list->v, list->n * sizeof *sorted);
    qsort(sorted, list->n, sizeof *sorted, by_number);
    for (size_t i = 0; i < list->n; i++)
        is_fine &= sorted[i] >= 0 && (i == 0 || sorted[i] != sorted[i - 1]);
    return is_fine ? FLX_OK
                   : flxi_infer_fail(f, FLX_E_ATTRIBUTE, "each process sends once and receives once at most",
                                     "sources and targets must be distinct processes, counted from 0");
}

static flx_code infer_permute(flxi_infer *f)
{
    const collective_attrs *a = f->attrs;
    if (a->sources.n != a->targets.n)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "process sources[i] sends to process targets[i]",
                               "there are %zu sources and %zu targets", a->sources.n, a->targets.n);
    FLXI_TRY(check_distinct(f, &a->sources));
    FLXI_TRY(check_distinct(f, &a->targets));
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

/* One word for each axis of x: an axis of the mesh, or -. */
static flx_code infer_shard(flxi_infer *f)
{
    const char *spec = ((const collective_attrs *)f->attrs)->spec;
    int words = *spec != 0;
    bool has_empty = false;
    for (const char *s = spec; *s; s++) {
        words += *s == ',';
        has_empty |= *s == ',' && (s == spec || s[1] == ',' || !s[1]);
    }
    if (has_empty || words != f->in[0]->rank)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "for example spec=\"data,-\" for a matrix whose rows are cut",
                               "spec must have a word for each of the %d axes of x", f->in[0]->rank);
    return flxi_infer_same(f);
}

static flx_code infer_index(flxi_infer *f)
{
    f->out[0] = (flx_type){.dtype = FLX_I32};
    return check_mesh_axis(f);
}

/* ---- Evaluation ---- */

static int64_t last_process(const collective_attrs *a)
{
    int64_t last = a->process;
    for (size_t i = 0; i < a->sources.n; i++) {
        last = a->sources.v[i] > last ? a->sources.v[i] : last;
        last = a->targets.v[i] > last ? a->targets.v[i] : last;
    }
    return last;
}

/* A process that runs alone is a mesh of one. */
static flx_code eval_alone(flxi_eval *e, const collective_attrs *a, bool copies)
{
    if (a->size > 1)
        return flxi_eval_fail(e, FLX_E_CHECK, "start it on a mesh, with flx_mesh_join() or flx train --mpi",
                              "made for %lld processes along '%s', but the program runs alone", (long long)a->size,
                              a->axis_name);
    if (last_process(a) > 0)
        return flxi_eval_fail(e, FLX_E_CHECK, "the program runs alone: its only process is 0",
                              "axis '%s' of the mesh has no process %lld", a->axis_name, (long long)last_process(a));
    for (uint32_t k = 0; copies && k < e->nin; k++)
        flxi_stop_copy(e->out[k]->data, e->in[k]->data, e->out[k]->nbytes);
    if (!copies || !e->nin)
        flxi_stop_clear(e->out[0]->data, e->out[0]->nbytes);
    return FLX_OK;
}

static size_t count_elements(const flx_type *t)
{
    int64_t n = 1;
    for (int k = 0; k < t->rank; k++)
        n *= t->dims[k];
    return (size_t)n;
}

/* The error of a mesh as that of the node. */
static flx_code said_by_mesh(flxi_eval *e, flx_code code, const flx_error *why)
{
    return code == FLX_OK ? FLX_OK : flxi_eval_fail(e, code, why->hint[0] ? why->hint : NULL, "%s", why->message);
}

/* What the op does to a value like x, whose result is like y. */
static flxi_collective described(flxi_collect_kind kind, const flxi_op *op, const collective_attrs *a,
                                 const flx_type *x, const flx_type *y)
{
    bool has_axes = kind == COLLECT_ALL_GATHER || kind == COLLECT_REDUCE_SCATTER || kind == COLLECT_ALL_TO_ALL;
    flxi_collective c = {.kind = kind,
                         .op = op->name,
                         .axis_name = a->axis_name,
                         .size = a->size,
                         .reduction = (flxi_reduce_kind)a->op,
                         .process = a->process,
                         .sources = a->sources.v,
                         .targets = a->targets.v,
                         .num_pairs = a->sources.n,
                         .dtype = x->dtype,
                         .elements = count_elements(x)};
    if (has_axes) {
        c.from = flxi_split_at(x, a->axis);
        c.to = flxi_split_at(y, kind == COLLECT_ALL_TO_ALL ? a->concat_axis : a->axis);
        c.value = (uint64_t)(a->axis * FLX_MAX_RANK + a->concat_axis);
    }
    return c;
}

static flx_code exchange(flxi_eval *e, flxi_collect_kind kind)
{
    const collective_attrs *a = e->attrs;
    flxi_mesh *mesh = flxi_mesh_of(e->out[0]->ctx);
    bool is_moved = kind != COLLECT_PERMUTE || a->sources.n > 0;
    if (!mesh)
        return eval_alone(e, a, is_moved);
    const flx_tensor *x = e->nin ? e->in[0] : e->out[0], *y = e->out[0];
    flxi_collective c = described(kind, e->op, a, &x->type, &y->type);
    c.in = x->data;
    c.out = y->data;
    flx_error why = {0};
    flx_code code = e->started ? mesh->start(mesh, &c, e->started, &why) : mesh->collect(mesh, &c, &why);
    return said_by_mesh(e, code, &why);
}

flx_code flxi_exchange_finish(flxi_eval *e, flx_context *ctx, uint64_t exchange)
{
    flxi_mesh *mesh = flxi_mesh_of(ctx);
    flx_error why = {0};
    flx_code code = mesh && exchange ? mesh->finish(mesh, exchange, &why) : FLX_OK;
    return said_by_mesh(e, code, &why);
}

#define EXCHANGE(name, kind)                  \
    static flx_code eval_##name(flxi_eval *e) \
    {                                         \
        return exchange(e, kind);             \
    }

EXCHANGE(all_reduce, COLLECT_ALL_REDUCE)
EXCHANGE(all_gather, COLLECT_ALL_GATHER)
EXCHANGE(reduce_scatter, COLLECT_REDUCE_SCATTER)
EXCHANGE(all_to_all, COLLECT_ALL_TO_ALL)
EXCHANGE(broadcast, COLLECT_BROADCAST)
EXCHANGE(permute, COLLECT_PERMUTE)
EXCHANGE(send, COLLECT_SEND)
EXCHANGE(recv, COLLECT_RECV)

static flx_code eval_barrier(flxi_eval *e)
{
    flxi_mesh *mesh = e->nout ? flxi_mesh_of(e->out[0]->ctx) : NULL;
    const flxi_collective c = {.kind = COLLECT_BARRIER, .op = "barrier", .axis_name = ""};
    for (uint32_t k = 0; k < e->nin; k++)
        flxi_stop_copy(e->out[k]->data, e->in[k]->data, e->out[k]->nbytes);
    flx_error why = {0};
    flx_code code = mesh ? mesh->collect(mesh, &c, &why) : FLX_OK;
    return said_by_mesh(e, code, &why);
}

static flx_code eval_index(flxi_eval *e)
{
    const collective_attrs *a = e->attrs;
    const flxi_mesh *mesh = flxi_mesh_of(e->out[0]->ctx);
    int64_t index = 0, size = 1;
    flx_error why = {0};
    flx_code code = mesh ? mesh->locate(mesh, a->axis_name, &index, &size, &why) : FLX_OK;
    if (code == FLX_OK)
        flxi_store_int(FLX_I32, e->out[0]->data, 0, index);
    return said_by_mesh(e, code, &why);
}

static void decompose_shard(flxi_site *s, flx_val *y)
{
    y[0] = s->x[0];
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

/* The operands of all processes in a new first axis. */
static flx_val stacked(flxi_site *s, flx_val x)
{
    flx_attr attrs[2] = {{0}, flx_attr_int("size", ((const collective_attrs *)s->attrs)->size)};
    return exchanged(s, "all_gather", flx_unsqueeze(s->g, x, FLX_INTS(0)), attrs, 2);
}

/* For each process the product of the operands of the others: exact where some are zero, to any order. */
static flx_val products_of_others(flxi_site *s)
{
    if (((const collective_attrs *)s->attrs)->size < 1) {
        flxi_site_fail(s, FLX_E_NO_RULE, "write all_reduce(x, axis_name=\"data\", op=prod, size=4)",
                       "the derivative of a product needs the number of processes");
        return FLX_NONE;
    }
    flx_val all = stacked(s, s->x[0]), sides[2];
    for (int k = 0; k < 2; k++) {
        const flx_attr attrs[] = {flx_attr_int("axis", 0), flx_attr_int("exclusive", 1), flx_attr_int("reverse", k)};
        sides[k] = flx_op1(s->g, "cumprod", &all, 1, attrs, 3);
    }
    flx_val others = flx_mul(s->g, sides[0], sides[1]);
    return others;
}

static void vjp_product(flxi_site *s, flx_val dy, flx_val *dx)
{
    flx_attr attrs[2] = {{0}, flx_attr_int("size", ((const collective_attrs *)s->attrs)->size)};
    flx_val others = products_of_others(s);
    if (flxi_is_none(others))
        return;
    if (flxi_is_complex(flxi_typeof(s, dy)->dtype))
        others = flx_conjugate(s->g, others);
    flx_val parts = flx_mul(s->g, flx_unsqueeze(s->g, dy, FLX_INTS(0)), others);
    *dx = flx_squeeze(s->g, exchanged(s, "reduce_scatter", parts, attrs, 2), FLX_INTS(0));
}

static void jvp_product(flxi_site *s, flx_val tx, flx_val *ty)
{
    flx_val others = products_of_others(s);
    if (!flxi_is_none(others))
        *ty = flx_reduce_sum(s->g, flx_mul(s->g, stacked(s, tx), others), FLX_INTS(0), 0);
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
    if (a->op == REDUCE_PROD) {
        vjp_product(s, dy[0], dx);
        return;
    }
    flx_val total = reduced(s, dy[0], a->op == REDUCE_MEAN ? "mean" : "sum");
    dx[0] = a->op == REDUCE_SUM || a->op == REDUCE_MEAN ? total : share_of_winners(s, s->x[0], total);
}

static void jvp_all_reduce(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const collective_attrs *a = s->attrs;
    bool is_linear = a->op == REDUCE_SUM || a->op == REDUCE_MEAN;
    if (a->op == REDUCE_PROD) {
        jvp_product(s, tx[0], ty);
        return;
    }
    ty[0] = reduced(s, is_linear ? tx[0] : share_of_winners(s, s->x[0], tx[0]), a->op == REDUCE_MEAN ? "mean" : "sum");
}

static flx_val exchanged_along(flxi_site *s, const char *op, flx_val x)
{
    const collective_attrs *a = s->attrs;
    flx_attr attrs[3] = {{0}, flx_attr_int("axis", a->axis), flx_attr_int("size", a->size)};
    return exchanged(s, op, x, attrs, 3);
}

static void vjp_all_gather(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = exchanged_along(s, "reduce_scatter", dy[0]);
}

static void vjp_reduce_scatter(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    dx[0] = exchanged_along(s, "all_gather", dy[0]);
}

static void vjp_all_to_all(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const collective_attrs *a = s->attrs;
    flx_attr attrs[4] = {{0},
                         flx_attr_int("split_axis", a->concat_axis),
                         flx_attr_int("concat_axis", a->axis),
                         flx_attr_int("size", a->size)};
    dx[0] = exchanged(s, "all_to_all", dy[0], attrs, 4);
}

/* The way back. */
static void vjp_permute(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const collective_attrs *a = s->attrs;
    flx_attr attrs[3] = {{0}, flx_attr_ints("sources", a->targets), flx_attr_ints("targets", a->sources)};
    dx[0] = exchanged(s, "collective_permute", dy[0], attrs, 3);
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
                                          A_WORD(collective_attrs, op, FLXI_REDUCTIONS),
                                          A_INT(collective_attrs, size, 0), A_END};
static const flxi_attr along_schema[] = {A_STRING_REQ(collective_attrs, axis_name), A_AXIS("axis"),
                                         A_INT(collective_attrs, size, 1), A_END};
static const flxi_attr exchange_schema[] = {A_STRING_REQ(collective_attrs, axis_name), A_AXIS("split_axis"),
                                            A_INT(collective_attrs, concat_axis, 0), A_INT(collective_attrs, size, 1),
                                            A_END};
static const flxi_attr permute_schema[] = {A_STRING_REQ(collective_attrs, axis_name),
                                           A_INTS_REQ(collective_attrs, sources), A_INTS_REQ(collective_attrs, targets),
                                           A_END};
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
    {"T[N]", "axis_name=\"data\", op=prod, size=1", NULL, FLX_OK},
    {"f32[N]", "axis_name=\"data\", op=max", NULL, FLX_OK},
    {"i32[]", "axis_name=\"d\", op=min", NULL, FLX_OK},
    {"f64[0, 2]", "axis_name=\"d\", op=mean", NULL, FLX_OK},
    {"bool[2]", "axis_name=\"d\", op=and", NULL, FLX_OK},
    {"u8[2]", "axis_name=\"d\", op=or", NULL, FLX_OK},
    {"c64[2]", "axis_name=\"d\", op=max", NULL, FLX_E_DTYPE},
    {"i32[2]", "axis_name=\"d\", op=mean", NULL, FLX_E_DTYPE},
    {"f32[2]", "axis_name=\"d\", op=and", NULL, FLX_E_DTYPE},
    {"T[2]", "axis_name=\"d\", size=-1", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", NULL, NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"\"", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"d\", op=average", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_along[] = {
    {"T[3, 4]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[N, 2]", "axis_name=\"data\", axis=-1", NULL, FLX_OK},
    {"T[0]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[]", "axis_name=\"data\"", NULL, FLX_E_SHAPE},
    {"T[2]", "axis_name=\"data\", axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"data\", size=0", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_exchange[] = {
    {"T[3, 4]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[N, 2]", "axis_name=\"data\", split_axis=-1, concat_axis=0", NULL, FLX_OK},
    {"T[2]", "axis_name=\"data\", split_axis=1", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"data\", concat_axis=-2", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 2]", "axis_name=\"data\", split_axis=0, concat_axis=1, size=2", NULL, FLX_E_SHAPE},
    {0},
};
static const flxi_sample samples_root[] = {
    {"T[3, 4]", "axis_name=\"data\"", NULL, FLX_OK},
    {"T[N]", "axis_name=\"data\", root=0", NULL, FLX_OK},
    {"T[N]", "axis_name=\"data\", root=-1", NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_permute[] = {
    {"T[3, 4]", "axis_name=\"data\", sources=[0], targets=[0]", NULL, FLX_OK},
    {"T[N]", "axis_name=\"data\", sources=[], targets=[]", NULL, FLX_OK},
    {"T[2]", "axis_name=\"data\", sources=[0, 1], targets=[0]", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"data\", sources=[0, 0], targets=[0, 1]", NULL, FLX_E_ATTRIBUTE},
    {"T[2]", "axis_name=\"data\", sources=[0], targets=[-1]", NULL, FLX_E_ATTRIBUTE},
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
static const flxi_attr shard_schema[] = {A_STRING_REQ(collective_attrs, spec), A_END};
static const flxi_sample samples_shard[] = {
    {"T[3, 4]", "spec=\"data,-\"", NULL, FLX_OK},
    {"T[]", "spec=\"\"", NULL, FLX_OK},
    {"T[N]", "spec=\"-\"", NULL, FLX_OK},
    {"T[3, 4]", "spec=\"data\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3, 4]", "spec=\"data,\"", NULL, FLX_E_ATTRIBUTE},
    {"T[3]", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};
static const flxi_sample samples_index[] = {
    {"", "axis_name=\"data\"", NULL, FLX_OK},
    {"", NULL, NULL, FLX_E_ATTRIBUTE},
    {0},
};

#define COLLECTIVE(op, infer_rule, eval_rule, list, sample_list, ...)           \
    const flxi_rules flxi_rules_##op = {.infer = infer_rule,                    \
                                        .eval = eval_rule,                      \
                                        .schema = list,                         \
                                        .link = flxi_link_dense,                \
                                        .attrs_size = sizeof(collective_attrs), \
                                        .samples = sample_list,                 \
                                        __VA_ARGS__};

COLLECTIVE(all_reduce, infer_all_reduce, eval_all_reduce, reduce_schema, samples_reduce, .vjp = vjp_all_reduce,
           .jvp = jvp_all_reduce, .batch = batch_same)
COLLECTIVE(all_gather, infer_all_gather, eval_all_gather, along_schema, samples_along, .vjp = vjp_all_gather,
           .batch = batch_along)
COLLECTIVE(reduce_scatter, infer_reduce_scatter, eval_reduce_scatter, along_schema, samples_along,
           .vjp = vjp_reduce_scatter, .batch = batch_along)
COLLECTIVE(all_to_all, infer_all_to_all, eval_all_to_all, exchange_schema, samples_exchange, .vjp = vjp_all_to_all,
           .batch = batch_along)
COLLECTIVE(broadcast, infer_same, eval_broadcast, root_schema, samples_root, .vjp = vjp_broadcast, .batch = batch_same)
COLLECTIVE(collective_permute, infer_permute, eval_permute, permute_schema, samples_permute, .vjp = vjp_permute,
           .batch = batch_same)
COLLECTIVE(send, infer_same, eval_send, send_schema, samples_send, .vjp = vjp_send, .jvp = jvp_send,
           .batch = batch_same)
COLLECTIVE(recv, infer_recv, eval_recv, recv_schema, samples_recv, .undefined = NULL)
COLLECTIVE(shard, infer_shard, flxi_eval_copy, shard_schema, samples_shard, .decompose = decompose_shard)
COLLECTIVE(axis_index, infer_index, eval_index, name_schema, samples_index, .undefined = NULL)

const flxi_rules flxi_rules_barrier = {
    .infer = infer_barrier,
    .eval = eval_barrier,
    .vjp = vjp_barrier,
    .jvp = vjp_barrier,
    .batch = batch_same,
    .samples = samples_barrier,
    .link = flxi_link_dense,
};

/* ---- For code that plans exchanges ---- */

static const struct {
    const flxi_rules *rules;
    flxi_collect_kind kind;
} kinds[] = {
    {&flxi_rules_all_reduce, COLLECT_ALL_REDUCE},
    {&flxi_rules_all_gather, COLLECT_ALL_GATHER},
    {&flxi_rules_reduce_scatter, COLLECT_REDUCE_SCATTER},
    {&flxi_rules_all_to_all, COLLECT_ALL_TO_ALL},
    {&flxi_rules_broadcast, COLLECT_BROADCAST},
    {&flxi_rules_collective_permute, COLLECT_PERMUTE},
    {&flxi_rules_send, COLLECT_SEND},
    {&flxi_rules_recv, COLLECT_RECV},
};

bool flxi_exchange_of(const flx_graph *g, const flxi_node *n, flxi_collective *out)
{
    const flxi_op *op = &flxi_ops[n->op];
    if (op->rules == &flxi_rules_barrier) {
        *out = (flxi_collective){.kind = COLLECT_BARRIER, .op = op->name, .axis_name = ""};
        return true;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (op->rules == kinds[i].rules) {
            const flx_type *y = flxi_type_at(g, n->first), *x = n->nin ? flxi_type_at(g, n->in[0]) : y;
            *out = described(kinds[i].kind, op, n->attrs, x, y);
            return true;
        }
    return false;
}

bool flxi_exchange_sums(const flxi_node *n)
{
    const flxi_rules *rules = flxi_ops[n->op].rules;
    return rules == &flxi_rules_all_reduce || rules == &flxi_rules_reduce_scatter;
}
