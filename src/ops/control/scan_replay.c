/* SPDX-License-Identifier: Apache-2.0 */
/* scan_replay.c: scan_replay_backward, the vjp of a scan that keeps few carries and recomputes the rest.

   With s checkpoints a range of L steps is reversed as follows: run ahead to a step in the middle, keep the carries
   there, reverse the steps after it with s − 1 checkpoints, drop them, reverse the steps before it. Where the middle
   is chosen by the binomial rule (Griewank), no step is run ahead more than r times, r being the least number with C(s
   + r, s) ≥ L: the optimum. At most s checkpoints, the start and the current carries are alive at any time. The
   values are those of the plain backward scan. The op's decomposition, for compiled code, for derivatives of higher
   order and for batching, keeps few carries too: scan_segments.c. */
#include "base/host/stop.h"
#include "ops/control/control.h"
#include "ops/rule/body/bodies.h"

static const flxi_attr replay_schema[] = {
    A_GRAPH_AS(scan_backward_attrs, scan.body, "body"),
    A_GRAPH_AS(scan_backward_attrs, body_vjp, "body_vjp"),
    {.name = "num_carry",
     .kind = ATTR_INT,
     .offset = offsetof(scan_backward_attrs, scan.num_carry),
     .flags = ATTR_REQUIRED},
    {.name = "num_bcast",
     .kind = ATTR_INT,
     .offset = offsetof(scan_backward_attrs, scan.num_bcast),
     .flags = ATTR_REQUIRED},
    {.name = "length", .kind = ATTR_DIM, .offset = offsetof(scan_backward_attrs, scan.length), .flags = ATTR_REQUIRED},
    {.name = "reverse", .kind = ATTR_BOOL, .offset = offsetof(scan_backward_attrs, scan.reverse)},
    {.name = "num_checkpoints",
     .kind = ATTR_INT,
     .offset = offsetof(scan_backward_attrs, scan.num_checkpoints),
     .flags = ATTR_REQUIRED},
    A_INTS_REQ(scan_backward_attrs, wanted),
    A_INTS_REQ(scan_backward_attrs, seeded),
    A_END,
};

/* ---- Inference ---- */

static bool flag(const flx_ints *list, size_t i)
{
    return list->v[i] != 0;
}

static flx_code check_counts(flxi_infer *f, const scan_backward_attrs *a)
{
    size_t inputs = flxi_body_inputs(a->scan.body);
    size_t outputs = flxi_body_outputs(a->scan.body);
    if (f->nin < inputs)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "the body has %zu inputs, but there are %u operands", inputs,
                               f->nin);
    if (a->wanted.n != inputs || a->seeded.n != outputs)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                               "wanted and seeded need an entry per input and output of the body");
    if (a->scan.num_carry < 0 || a->scan.num_bcast < 0 || (size_t)a->scan.num_carry > inputs ||
        (size_t)a->scan.num_bcast > inputs - (size_t)a->scan.num_carry || (size_t)a->scan.num_carry > outputs)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_carry and num_bcast do not fit the body");
    if (flxi_dim_is_number(a->scan.length) && a->scan.length < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "length=%lld is negative", (long long)a->scan.length);
    for (size_t i = 0; i < (size_t)a->scan.num_carry; i++) {
        bool varies = flxi_can_vary(f->in[i]);
        if (flag(&a->wanted, i) != varies || flag(&a->seeded, i) != varies)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "exactly the floating carries must be wanted and seeded");
    }
    size_t cotangents = 0;
    for (size_t k = 0; k < outputs; k++)
        cotangents += flag(&a->seeded, k);
    if (f->nin != inputs + cotangents)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "expected %zu operands and %zu cotangents, got %u in total",
                               inputs, cotangents, f->nin);
    return FLX_OK;
}

static bool has_rows(const scan_backward_attrs *a, size_t i)
{
    return i >= (size_t)(a->scan.num_carry + a->scan.num_bcast);
}

static flx_code row_type(flxi_infer *f, const scan_backward_attrs *a, const flx_type *t, flx_type *row)
{
    flxi_type_text text;
    if (t->rank == 0 || !flxi_dims_may_equal(f, t->dims[0], a->scan.length))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "a sequence is %s, which does not have the length of the scan",
                               flxi_type_str(f->ctx, t, &text));
    *row = flx_type_make((flx_dtype)t->dtype, t->rank - 1, t->dims + 1);
    return FLX_OK;
}

/* The types one step sees: rows of the sequences and of the cotangents of stacked outputs. */
static flx_code step_types(flxi_infer *f, const scan_backward_attrs *a, const flx_type **step)
{
    size_t inputs = flxi_body_inputs(a->scan.body);
    flx_type *rows = flxi_new(f->arena, flx_type, f->nin);
    size_t at = inputs;
    if (!rows)
        return flxi_oom(f->err, "types");
    for (size_t i = 0; i < f->nin; i++)
        step[i] = f->in[i];
    for (size_t i = 0; i < inputs; i++)
        if (has_rows(a, i)) {
            FLXI_TRY(row_type(f, a, f->in[i], &rows[i]));
            step[i] = &rows[i];
        }
    for (size_t k = 0; k < a->seeded.n; k++) {
        if (!flag(&a->seeded, k))
            continue;
        if (k >= (size_t)a->scan.num_carry || a->scan.save_trajectory) {
            FLXI_TRY(row_type(f, a, f->in[at], &rows[at]));
            step[at] = &rows[at];
        }
        at++;
    }
    return FLX_OK;
}

flx_code flxi_check_backward(flxi_infer *f, const scan_backward_attrs *a, const flx_type **step)
{
    FLXI_TRY(check_counts(f, a));
    FLXI_TRY(step_types(f, a, step));
    size_t inputs = flxi_body_inputs(a->scan.body);
    FLXI_TRY(flxi_match_body(f, "body", a->scan.body, step, inputs));
    FLXI_TRY(flxi_match_body(f, "body_vjp", a->body_vjp, step, f->nin));
    size_t n = 0;
    for (size_t i = 0; i < inputs; i++)
        n += flag(&a->wanted, i);
    if (n == 0 || n != flxi_body_outputs(a->body_vjp))
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "body_vjp returns %zu cotangents, expected %zu",
                               flxi_body_outputs(a->body_vjp), n);
    for (size_t i = 0, at = 0; i < inputs; i++)
        if (flag(&a->wanted, i) && !flxi_type_equal(flxi_body_output(a->body_vjp, at++), step[i]))
            return flxi_infer_fail(f, FLX_E_SHAPE, NULL,
                                   "body_vjp returns a cotangent of a different type than input %zu", i);
    return FLX_OK;
}

static flx_code infer_replay(flxi_infer *f)
{
    scan_backward_attrs *a = f->attrs;
    const flx_type **step = flxi_new(f->arena, const flx_type *, f->nin);
    if (!step)
        return flxi_oom(f->err, "types");
    if (a->scan.num_checkpoints < 1)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_checkpoints must be at least 1");
    a->scan.num_xs = FLXI_ABSENT;
    a->scan.save_trajectory = 0;
    FLXI_TRY(flxi_check_backward(f, a, step));
    FLXI_TRY(flxi_results(f, flxi_body_outputs(a->body_vjp)));
    for (size_t i = 0, at = 0; i < a->wanted.n; i++)
        if (flag(&a->wanted, i))
            f->out[at++] = *f->in[i];
    return FLX_OK;
}

/* ---- Evaluation ---- */

typedef struct {
    flxi_eval *e;
    const scan_backward_attrs *a;
    uint32_t inputs, carries, outputs; /* of the body */
    int64_t length;
    flx_tensor **d;        /* cotangents of the floating carries, held */
    const flx_tensor **in; /* of a step: scratch */
    flx_tensor **out;
} replaying;

static flx_tensor *row_of(const flx_tensor *stack, int64_t t, flx_error *err)
{
    flx_type type = flx_type_make((flx_dtype)stack->type.dtype, stack->type.rank - 1, stack->type.dims + 1);
    size_t nbytes = stack->type.dims[0] ? stack->nbytes / (size_t)stack->type.dims[0] : 0;
    return flx_tensor_new(stack->ctx, &type, (const char *)stack->data + (size_t)t * nbytes, err);
}

static void drop(const flx_tensor *t)
{
    flx_tensor_release((flx_tensor *)(uintptr_t)t);
}

/* The step at position p of the walk belongs to row t. */
static int64_t row_at(const replaying *r, int64_t p)
{
    return r->a->scan.reverse ? r->length - 1 - p : p;
}

/* Inputs of the body at position p; rows are new tensors, to be dropped by the caller. */
static flx_code load_step(replaying *r, int64_t p, flx_tensor *const *carry)
{
    for (uint32_t i = 0; i < r->inputs; i++) {
        r->in[i] = i < r->carries ? carry[i] : r->e->in[i];
        if (!has_rows(r->a, i))
            continue;
        r->in[i] = row_of(r->e->in[i], row_at(r, p), r->e->err);
        if (!r->in[i]) {
            for (uint32_t k = 0; k < i; k++)
                if (has_rows(r->a, k))
                    drop(r->in[k]);
            return FLX_E_OOM;
        }
    }
    return FLX_OK;
}

static void drop_step(replaying *r)
{
    for (uint32_t i = 0; i < r->inputs; i++)
        if (has_rows(r->a, i))
            drop(r->in[i]);
}

static void release_carries(const replaying *r, flx_tensor **carry)
{
    for (uint32_t i = 0; i < r->carries; i++) {
        flx_tensor_release(carry[i]);
        carry[i] = NULL;
    }
}

/* Runs the body from position `from` to `to`; `carry` is replaced. */
static flx_code advance(replaying *r, int64_t from, int64_t to, flx_tensor **carry)
{
    for (int64_t p = from; p < to; p++) {
        FLXI_TRY(load_step(r, p, carry));
        flx_code code = r->e->run_body(r->e, r->a->scan.body, r->in, r->out);
        drop_step(r);
        FLXI_TRY(code);
        release_carries(r, carry);
        for (uint32_t k = 0; k < r->outputs; k++) {
            if (k < r->carries)
                carry[k] = r->out[k];
            else
                flx_tensor_release(r->out[k]);
        }
    }
    return FLX_OK;
}

/* Adds a step's cotangent to a broadcast input's sum, or stores it in its row. */
static void deliver(replaying *r, uint32_t input, uint32_t result, int64_t t, const flx_tensor *value)
{
    flx_tensor *y = r->e->out[result];
    const flxi_arith *ar = flxi_arith_of(y->type.dtype);
    if (has_rows(r->a, input)) {
        if (value->nbytes)
            flxi_stop_copy((char *)y->data + (size_t)t * value->nbytes, value->data, value->nbytes);
        return;
    }
    for (int64_t i = 0; i < y->count; i++)
        ar->store(y->data, i, ar->add(ar->load(y->data, i), ar->load(value->data, i)));
}

/* The cotangents that the vjp of step p takes, after the values of the step. Those from `rows` to `end` are rows of
   stacked cotangents, which belong to the step, also after a failure. */
static flx_code load_cotangents(replaying *r, int64_t p, uint32_t *rows, uint32_t *end)
{
    uint32_t operand = r->inputs;
    *rows = *end = r->inputs;
    for (uint32_t k = 0; k < r->outputs; k++) {
        if (!flag(&r->a->seeded, k))
            continue;
        if (k < r->carries) {
            r->in[*end] = r->d[*end - r->inputs];
            *rows = *end + 1;
        } else if (!(r->in[*end] = row_of(r->e->in[operand], row_at(r, p), r->e->err))) {
            return FLX_E_OOM;
        }
        ++*end;
        operand++;
    }
    return FLX_OK;
}

/* What the vjp of step p returns: d is replaced, the other cotangents are delivered. */
static void take_results(replaying *r, int64_t p)
{
    uint32_t result = 0;
    for (uint32_t i = 0; i < r->inputs; i++) {
        if (!flag(&r->a->wanted, i))
            continue;
        if (i < r->carries) {
            flx_tensor_release(r->d[result]);
            r->d[result] = r->out[result];
        } else {
            deliver(r, i, result, row_at(r, p), r->out[result]);
            flx_tensor_release(r->out[result]);
        }
        result++;
    }
}

/* The vjp of one step. */
static flx_code step_back(replaying *r, int64_t p, flx_tensor *const *carry)
{
    uint32_t rows, end;
    FLXI_TRY(load_step(r, p, carry));
    flx_code code = load_cotangents(r, p, &rows, &end);
    if (code == FLX_OK)
        code = r->e->run_body(r->e, r->a->body_vjp, r->in, r->out);
    for (uint32_t k = rows; k < end; k++)
        drop(r->in[k]);
    drop_step(r);
    if (code == FLX_OK)
        take_results(r, p);
    return code;
}

/* C(n, k), or a huge number where it is larger than any length. */
static int64_t binomial(int64_t n, int64_t k)
{
    int64_t c = 1;
    for (int64_t i = 1; i <= k; i++) {
        if (__builtin_mul_overflow(c, n - k + i, &c))
            return INT64_MAX;
        c /= i;
    }
    return c;
}

/* How many of `length` steps to run ahead before the next checkpoint, with `slots` of them free. */
static int64_t split(int64_t length, int64_t slots)
{
    int64_t sweeps = 1;
    while (binomial(slots + sweeps, slots) < length)
        sweeps++;
    int64_t behind = binomial(slots + sweeps - 1, slots - 1); /* what slots - 1 can reverse in as many sweeps */
    int64_t ahead = behind >= length ? 1 : length - behind;
    return ahead < length ? ahead : length - 1;
}

/* Reverses positions [from, to), whose carries at `from` are given; recursion is as deep as there are checkpoints. */
static flx_code reverse_range(replaying *r, int64_t from, int64_t to, flx_tensor *const *start, int64_t slots)
{
    flx_tensor **moving = flxi_alloc(r->e->mem, r->carries, sizeof *moving);
    flx_code code = moving ? FLX_OK : flxi_oom(r->e->err, "checkpoints");
    while (code == FLX_OK && to > from) {
        int64_t length = to - from;
        int64_t middle = length == 1 ? from : slots > 0 ? from + split(length, slots) : to - 1;
        for (uint32_t i = 0; i < r->carries; i++)
            moving[i] = flx_tensor_retain(start[i]);
        code = advance(r, from, middle, moving);
        if (code == FLX_OK)
            code = to - middle == 1 ? step_back(r, middle, moving) : reverse_range(r, middle, to, moving, slots - 1);
        release_carries(r, moving);
        to = middle; /* the steps before it are next, with all slots free again */
        if (length == 1)
            break;
    }
    flxi_free(r->e->mem, moving, r->carries, sizeof *moving);
    return code;
}

static flx_code replay(replaying *r)
{
    uint32_t varying = 0;
    for (uint32_t i = 0; i < r->carries; i++)
        varying += flag(&r->a->wanted, i);
    for (uint32_t i = 0; i < varying; i++)
        r->d[i] = flx_tensor_retain((flx_tensor *)(uintptr_t)r->e->in[r->inputs + i]);
    flx_code code =
        reverse_range(r, 0, r->length, (flx_tensor *const *)(uintptr_t)r->e->in, r->a->scan.num_checkpoints);
    for (uint32_t i = 0; i < varying; i++) {
        if (code == FLX_OK && r->e->out[i]->nbytes)
            flxi_stop_copy(r->e->out[i]->data, r->d[i]->data, r->e->out[i]->nbytes);
        flx_tensor_release(r->d[i]);
    }
    return code;
}

static flx_code eval_replay(flxi_eval *e)
{
    const scan_backward_attrs *a = e->attrs;
    replaying r = {.e = e,
                   .a = a,
                   .inputs = (uint32_t)flxi_body_inputs(a->scan.body),
                   .carries = (uint32_t)a->scan.num_carry,
                   .outputs = (uint32_t)flxi_body_outputs(a->scan.body),
                   .length = a->scan.length};
    size_t most = e->nin > r.outputs ? e->nin : r.outputs;
    size_t room = 2 * most + r.carries;
    flx_tensor **block = flxi_alloc(e->mem, room, sizeof *block);
    if (!block)
        return flxi_oom(e->err, "checkpoints");
    r.in = (const flx_tensor **)block;
    r.out = block + most;
    r.d = block + 2 * most;
    flx_code code = replay(&r);
    flxi_free(e->mem, block, room, sizeof *block);
    return code;
}

/* ---- Decomposition ---- */

bool flxi_plan_of(flxi_site *s, const scan_backward_attrs *a, flxi_backward_plan *p)
{
    size_t inputs = a->scan.body->leaves.n;
    size_t carries = (size_t)a->scan.num_carry;
    *p = (flxi_backward_plan){.varies = flxi_rule_new(s, bool, carries),
                              .seeded = flxi_rule_new(s, bool, a->seeded.n),
                              .wanted = flxi_rule_new(s, bool, inputs),
                              .has_rows = flxi_rule_new(s, bool, carries)};
    if (!p->varies || !p->seeded || !p->wanted || !p->has_rows)
        return false;
    for (size_t k = 0; k < a->seeded.n; k++)
        p->seeded[k] = flag(&a->seeded, k);
    for (size_t i = 0; i < inputs; i++) {
        p->wanted[i] = flag(&a->wanted, i);
        if (i < carries) {
            p->dcarries += p->varies[i] = p->wanted[i];
            p->has_rows[i] = p->varies[i] && a->scan.save_trajectory;
        } else if (!has_rows(a, i)) {
            p->dbcasts += p->wanted[i];
        }
    }
    return true;
}

static void decompose_replay(flxi_site *s, flx_val *y)
{
    const scan_backward_attrs *a = s->attrs;
    flxi_backward_plan p;
    if (flxi_plan_of(s, a, &p))
        flxi_decompose_replay(s, &p, y);
}

#define STEP_AND_BACK                                                                                  \
    "graph step(c: f32[2], b: f32[2], x: f32[2]) { n = sin(add(mul(c, b), x)) return n, mul(n, x) }\n" \
    "graph back(c: f32[2], b: f32[2], x: f32[2], d: f32[2], dy: f32[2]) {\n"                           \
    "  z = add(mul(c, b), x)\n  g = mul(add(d, mul(dy, x)), cos(z))\n"                                 \
    "  return mul(g, b), mul(g, c), add(g, mul(dy, sin(z)))\n}\n"
#define COMPLEX_STEP_AND_BACK                                                                     \
    "graph step(c: c64[2], b: c64[2], x: c64[2]) { n = add(mul(c, b), x) return n, mul(n, x) }\n" \
    "graph back(c: c64[2], b: c64[2], x: c64[2], d: c64[2], dy: c64[2]) {\n"                      \
    "  n = add(mul(c, b), x)\n  g = add(d, mul(dy, conjugate(x)))\n"                              \
    "  return mul(g, conjugate(b)), mul(g, conjugate(c)), add(g, mul(dy, conjugate(n)))\n}\n"
#define REPLAY(rest) "body=@step, body_vjp=@back, num_carry=1, num_bcast=1, wanted=[1, 1, 1], seeded=[1, 1], " rest

static const flxi_sample samples_replay[] = {
    {"f32[2], f32[2], f32[7, 2], f32[2], f32[7, 2]", REPLAY("length=7, num_checkpoints=2"), STEP_AND_BACK, FLX_OK},
    {"f32[2], f32[2], f32[7, 2], f32[2], f32[7, 2]", REPLAY("length=7, num_checkpoints=9, reverse=true"), STEP_AND_BACK,
     FLX_OK},
    {"f32[2], f32[2], f32[N, 2], f32[2], f32[N, 2]", REPLAY("length=N, num_checkpoints=1"), STEP_AND_BACK, FLX_OK},
    {"f32[2], f32[2], f32[0, 2], f32[2], f32[0, 2]", REPLAY("length=0, num_checkpoints=1"), STEP_AND_BACK, FLX_OK},
    {"c64[2], c64[2], c64[4, 2], c64[2], c64[4, 2]", REPLAY("length=4, num_checkpoints=2"), COMPLEX_STEP_AND_BACK,
     FLX_OK},
    {"f32[2], f32[2], f32[7, 2], f32[2], f32[7, 2]", REPLAY("length=7, num_checkpoints=0"), STEP_AND_BACK,
     FLX_E_ATTRIBUTE},
    {"f32[2], f32[2], f32[7, 2], f32[2]", REPLAY("length=7, num_checkpoints=2"), STEP_AND_BACK, FLX_E_ARITY},
    {"f32[2], f32[2], f32[7, 3], f32[2], f32[7, 2]", REPLAY("length=7, num_checkpoints=2"), STEP_AND_BACK, FLX_E_SHAPE},
    {0},
};

static bool bodies_replay(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const scan_backward_attrs *a = n->attrs;
    (void)g;
    *out = (flxi_body){.graph = i == 0 ? a->scan.body : a->body_vjp, .role = BODY_CALLED, .runs = a->scan.length};
    return i < 2;
}

const flxi_rules flxi_rules_scan_replay_backward = {.infer = infer_replay,
                                                    .eval = eval_replay,
                                                    .schema = replay_schema,
                                                    .attrs_size = sizeof(scan_backward_attrs),
                                                    .decompose = decompose_replay,
                                                    .samples = samples_replay,
                                                    .bodies = bodies_replay};
