/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c: a loop of known length over carries and sequences.

   Operands are num_carry carries, then num_bcast inputs that every step reads as a whole, then sequences of which step
   t reads row t. `reverse` walks t from the end; row t of every stack still belongs to step t. With save_trajectory a
   carry's result is the stack of its values after each step. num_checkpoints = K then thins it to K rows: counted in
   walking order, the values after steps ⌈(k+1)L/K⌉ − 1, the last one being the final carry; rows are stacked in order
   of t. Without save_trajectory num_checkpoints does not change any value: it is a hint for differentiation. */
#include "base/host/stop.h"
#include "ops/control/control.h"
#include "ops/rule/axis/extent.h"
#include "ops/rule/body/bodies.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

static const flxi_attr scan_schema[] = {
    A_GRAPH_AS(scan_attrs, body, "body"),
    A_INT(scan_attrs, num_carry, 1),
    A_INT(scan_attrs, num_bcast, 0),
    A_INT_OPT(scan_attrs, num_xs, "the rest"),
    A_DIM_OPT(scan_attrs, length, "extent of the xs"),
    A_BOOL(scan_attrs, reverse, 0),
    A_BOOL(scan_attrs, save_trajectory, 0),
    A_INT(scan_attrs, num_checkpoints, 0),
    A_END,
};

/* ---- Inference ---- */

static flx_code check_counts(flxi_infer *f, const scan_attrs *a, uint32_t *shared)
{
    if (a->num_carry < 0 || a->num_bcast < 0 || a->num_carry > f->nin || a->num_bcast > f->nin - a->num_carry)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_carry=%lld and num_bcast=%lld do not fit %u operands",
                               (long long)a->num_carry, (long long)a->num_bcast, f->nin);
    *shared = (uint32_t)(a->num_carry + a->num_bcast);
    if (a->num_xs != FLXI_ABSENT && a->num_xs != f->nin - *shared)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_xs=%lld, but %u operands are left for the sequences",
                               (long long)a->num_xs, f->nin - *shared);
    if (a->num_checkpoints < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_checkpoints=%lld is negative",
                               (long long)a->num_checkpoints);
    return FLX_OK;
}

/* All sequences have one leading extent, and `length`, if given, is it too. */
static flx_code find_length(flxi_infer *f, const scan_attrs *a, uint32_t shared, flx_dim *length)
{
    *length = a->length;
    for (uint32_t i = shared; i < f->nin; i++) {
        flxi_type_text text;
        if (f->in[i]->rank == 0)
            return flxi_infer_fail(f, FLX_E_SHAPE, "num_carry and num_bcast say which operands are not sequences",
                                   "operand %u, %s, is a sequence, but has no leading axis", i,
                                   flxi_type_str(f->ctx, f->in[i], &text));
        if (*length == FLXI_ABSENT)
            *length = f->in[i]->dims[0];
        flxi_dim_text want;
        if (!flxi_dims_may_equal(f, *length, f->in[i]->dims[0]))
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "operand %u is %s, expected a sequence of length %s", i,
                                   flxi_type_str(f->ctx, f->in[i], &text), flxi_dim_str(f->ctx, *length, &want));
        *length = flxi_agreed_dim(*length, f->in[i]->dims[0]);
    }
    if (*length == FLXI_ABSENT)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "length must be given where there is no sequence");
    if (flxi_dim_is_number(*length) && *length < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "length=%lld is negative", (long long)*length);
    return FLX_OK;
}

static flx_code match_step(flxi_infer *f, const scan_attrs *a, uint32_t shared)
{
    const flx_type **step = flxi_new(f->arena, const flx_type *, f->nin);
    flx_type *rows = flxi_new(f->arena, flx_type, f->nin - shared);
    if (!step || !rows)
        return flxi_oom(f->err, "types");
    for (uint32_t i = 0; i < f->nin; i++) {
        step[i] = f->in[i];
        if (i < shared)
            continue;
        flx_type *row = &rows[i - shared];
        *row = flx_type_make((flx_dtype)f->in[i]->dtype, f->in[i]->rank - 1, f->in[i]->dims + 1);
        step[i] = row;
    }
    FLXI_TRY(flxi_match_body(f, "body", a->body, step, f->nin));
    return flxi_match_carries(f, a->body, f->in, (size_t)a->num_carry);
}

static flx_code stacked(flxi_infer *f, flx_dim rows, const flx_type *t, flx_type *out)
{
    FLXI_TRY(flxi_need_result_rank(f, (size_t)t->rank + 1));
    *out = (flx_type){.dtype = t->dtype, .rank = t->rank + 1, .dims = {rows}};
    memcpy(out->dims + 1, t->dims, (size_t)t->rank * sizeof(flx_dim));
    return FLX_OK;
}

/* Rows of a saved trajectory. */
static flx_code trajectory_rows(flxi_infer *f, const scan_attrs *a, flx_dim length, flx_dim *rows)
{
    *rows = length;
    if (!a->save_trajectory || a->num_checkpoints == 0)
        return FLX_OK;
    flxi_dim_text text;
    if (!flxi_dim_is_number(length))
        return flxi_infer_fail(f, FLX_E_UNBOUND_DIM, "bind the length before thinning the trajectory",
                               "num_checkpoints with save_trajectory needs a length that is a number, not %s",
                               flxi_dim_str(f->ctx, length, &text));
    if (a->num_checkpoints > length)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_checkpoints=%lld is more than the length %lld",
                               (long long)a->num_checkpoints, (long long)length);
    *rows = a->num_checkpoints;
    return FLX_OK;
}

static flx_code infer_scan(flxi_infer *f)
{
    scan_attrs *a = f->attrs;
    uint32_t shared = 0;
    flx_dim length;
    flx_dim rows;
    FLXI_TRY(check_counts(f, a, &shared));
    FLXI_TRY(find_length(f, a, shared, &length));
    FLXI_TRY(match_step(f, a, shared));
    FLXI_TRY(trajectory_rows(f, a, length, &rows));
    size_t outputs = flxi_body_outputs(a->body);
    if (outputs == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "the op would have no result");
    FLXI_TRY(flxi_results(f, outputs));
    for (size_t i = 0; i < outputs; i++) {
        const flx_type *t = flxi_body_output(a->body, i);
        if (i < (size_t)a->num_carry && !a->save_trajectory)
            f->out[i] = *t;
        else
            FLXI_TRY(stacked(f, i < (size_t)a->num_carry ? rows : length, t, &f->out[i]));
    }
    a->num_xs = FLXI_ABSENT; /* normal form: what the operands determine is omitted */
    if (shared < f->nin && a->length == f->in[shared]->dims[0])
        a->length = FLXI_ABSENT;
    return FLX_OK;
}

/* ---- Evaluation ---- */

__extension__ typedef __int128 wide; /* products of two lengths */

typedef struct {
    flxi_eval *e;
    const scan_attrs *a;
    int64_t length;
    uint32_t carries, shared; /* operands that are carries; that are carries or broadcast */
    size_t outputs;
    flx_tensor **carry; /* held */
    const flx_tensor **in;
    flx_tensor **out;
} scanning;

int64_t flxi_trajectory_row(const scan_attrs *a, int64_t length, int64_t step)
{
    int64_t k = a->num_checkpoints;
    if (!a->save_trajectory)
        return -1;
    if (k == 0 || k == length)
        return a->reverse ? length - 1 - step : step;
    /* step = ⌈(row+1) L/K⌉ − 1 for some row: the candidate is ⌊(step+1) K/L⌋ − 1. */
    int64_t row = (int64_t)(((wide)(step + 1) * k) / length) - 1;
    int64_t at = row < 0 ? -1 : (int64_t)((((wide)row + 1) * length + k - 1) / k) - 1;
    if (at != step)
        return -1;
    return a->reverse ? k - 1 - row : row;
}

static void copy_row(flx_tensor *stack, int64_t row, const flx_tensor *value)
{
    if (value->nbytes)
        flxi_stop_copy((char *)stack->data + (size_t)row * value->nbytes, value->data, value->nbytes);
}

static flx_code slice_rows(scanning *s, int64_t t)
{
    for (uint32_t i = s->shared; i < s->e->nin; i++) {
        const flx_tensor *xs = s->e->in[i];
        flx_type row = flx_type_make((flx_dtype)xs->type.dtype, xs->type.rank - 1, xs->type.dims + 1);
        size_t nbytes = xs->nbytes / (size_t)s->length;
        flx_tensor *x = flx_tensor_new(xs->ctx, &row, (const char *)xs->data + (size_t)t * nbytes, s->e->err);
        if (!x)
            return s->e->err && s->e->err->code ? (flx_code)s->e->err->code : FLX_E_OOM;
        s->in[i] = x;
    }
    return FLX_OK;
}

static void drop_rows(scanning *s)
{
    for (uint32_t i = s->shared; i < s->e->nin; i++) {
        flx_tensor_release((flx_tensor *)(uintptr_t)s->in[i]);
        s->in[i] = NULL;
    }
}

static void keep_step(scanning *s, int64_t step, int64_t t)
{
    for (size_t i = 0; i < s->outputs; i++) {
        if (i < s->carries) {
            int64_t row = flxi_trajectory_row(s->a, s->length, step);
            if (row >= 0)
                copy_row(s->e->out[i], row, s->out[i]);
            flx_tensor_release(s->carry[i]);
            s->carry[i] = s->out[i];
        } else {
            copy_row(s->e->out[i], t, s->out[i]);
            flx_tensor_release(s->out[i]);
        }
        s->out[i] = NULL;
    }
}

static flx_code run_steps(scanning *s)
{
    for (int64_t step = 0; step < s->length; step++) {
        int64_t t = s->a->reverse ? s->length - 1 - step : step;
        for (uint32_t i = 0; i < s->carries; i++)
            s->in[i] = s->carry[i];
        for (uint32_t i = s->carries; i < s->shared; i++)
            s->in[i] = s->e->in[i];
        flx_code code = slice_rows(s, t);
        if (code == FLX_OK)
            code = s->e->run_body(s->e, s->a->body, s->in, s->out);
        drop_rows(s);
        FLXI_TRY(code);
        keep_step(s, step, t);
    }
    for (uint32_t i = 0; i < s->carries && !s->a->save_trajectory; i++)
        copy_row(s->e->out[i], 0, s->carry[i]);
    return FLX_OK;
}

static int64_t scan_length(const flxi_eval *e, const scan_attrs *a, uint32_t shared)
{
    return a->length != FLXI_ABSENT ? a->length : e->in[shared]->type.dims[0];
}

static flx_code eval_scan(flxi_eval *e)
{
    const scan_attrs *a = e->attrs;
    scanning s = {.e = e, .a = a, .carries = (uint32_t)a->num_carry, .outputs = flxi_body_outputs(a->body)};
    s.shared = s.carries + (uint32_t)a->num_bcast;
    s.length = scan_length(e, a, s.shared);
    size_t room = s.carries + (size_t)e->nin + s.outputs;
    flx_tensor **block = flxi_alloc(e->mem, room, sizeof *block);
    if (!block)
        return flxi_oom(e->err, "carries");
    s.carry = block;
    s.in = (const flx_tensor **)block + s.carries;
    s.out = block + s.carries + e->nin;
    for (uint32_t i = 0; i < s.carries; i++) /* only the reference is ours */
        s.carry[i] = flx_tensor_retain((flx_tensor *)(uintptr_t)e->in[i]);
    flx_code code = run_steps(&s);
    for (uint32_t i = 0; i < s.carries; i++)
        flx_tensor_release(s.carry[i]);
    flxi_free(e->mem, block, room, sizeof *block);
    return code;
}

#define CUMULATE "graph step(c: T[2], x: T[2]) { n = add(c, x) return n, add(n, n) }\n"
#define WITH_BCAST                                       \
    "graph step(c: T[2], k: i32[], b: T[2], x: T[]) {\n" \
    "  n = add(add(c, b), x)\n  return n, add(k, 1), x\n}\n"

static const flxi_sample samples_scan[] = {
    {"T[2], T[3, 2]", "body=@step", CUMULATE, FLX_OK},
    {"T[2], T[3, 2]", "body=@step, reverse=true, save_trajectory=true", CUMULATE, FLX_OK},
    {"T[2], T[7, 2]", "body=@step, save_trajectory=true, num_checkpoints=3", CUMULATE, FLX_OK},
    {"T[2], T[0, 2]", "body=@step", CUMULATE, FLX_OK},
    {"T[2], T[N, 2]", "body=@step, num_checkpoints=2", CUMULATE, FLX_OK},
    {"T[2], i32[], T[2], T[3]", "body=@step, num_carry=2, num_bcast=1, num_xs=1, length=3", WITH_BCAST, FLX_OK},
    {"f32[]", "body=@twice, length=4", "graph twice(c: f32[]) { return mul(c, 2) }\n", FLX_OK},
    {"f32[4]", "body=@map, num_carry=0", "graph map(x: f32[]) { return exp(x) }\n", FLX_OK},
    {"f32[]", "body=@twice", "graph twice(c: f32[]) { return mul(c, 2) }\n", FLX_E_ATTRIBUTE},
    {"T[2], T[3, 2]", "body=@step, length=4", CUMULATE, FLX_E_SHAPE},
    {"T[2], T[3, 2]", "body=@step, num_carry=3", CUMULATE, FLX_E_ATTRIBUTE},
    {"T[2], T[3, 2]", "body=@step, num_xs=2", CUMULATE, FLX_E_ATTRIBUTE},
    {"T[2], T[3, 4]", "body=@step", CUMULATE, FLX_E_SHAPE},
    {"T[2], T[]", "body=@step", CUMULATE, FLX_E_SHAPE},
    {"T[2], T[3, 2]", "body=@step, save_trajectory=true, num_checkpoints=9", CUMULATE, FLX_E_ATTRIBUTE},
    {"f32[2], f32[3]", "body=@bad", "graph bad(c: f32[2], x: f32[]) { return x }\n", FLX_E_SHAPE},
    {"f32[2], f32[3]", "body=@bad", "graph bad(c: f32[2], x: f32[]) { return }\n", FLX_E_ARITY},
    {0},
};

static bool bodies_scan(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const scan_attrs *a = n->attrs;
    uint32_t before = (uint32_t)(a->num_carry + a->num_bcast);
    *out = (flxi_body){.graph = a->body,
                       .role = BODY_ROUND,
                       .carries = (uint32_t)a->num_carry,
                       .shared = (uint32_t)a->num_bcast,
                       .rows = n->nin - before,
                       .runs = n->nin > before ? flxi_type_at(g, n->in[before])->dims[0] : a->length};
    return i == 0;
}

const flxi_rules flxi_rules_scan = {.infer = infer_scan,
                                    .eval = eval_scan,
                                    .schema = scan_schema,
                                    .attrs_size = sizeof(scan_attrs),
                                    .primal = flxi_primal_scan,
                                    .num_saved = flxi_saved_scan,
                                    .vjp = flxi_vjp_scan,
                                    .backward_vjp = flxi_backward_vjp_scan,
                                    .jvp = flxi_jvp_scan,
                                    .batch = flxi_batch_scan,
                                    .samples = samples_scan,
                                    .bodies = bodies_scan,
                                    .link = flxi_link_dense,
                                    .shard = &flxi_shard_bodies};
