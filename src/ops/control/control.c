/* SPDX-License-Identifier: Apache-2.0 */
/* control.c: branches, loops and user-defined functions. Bodies are graphs of their own and see only their inputs,
   which bind to the operands by position. Only the branch that is taken runs; a predicate holds when it is nonzero and
   not NaN. */
#include "ops/control/control.h"
#include "base/host/stop.h"
#include "ops/rule/body/bodies.h"
#include "ops/rule/link.h"
#include "ops/rule/shard.h"

#include <fluxion/run.h>
#include <math.h>

/* ---- Shared checks ---- */

static bool has_one_element(const flx_type *t)
{
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] != 1)
            return false;
    return true;
}

static flx_code need_one_element(flxi_infer *f, const char *what)
{
    flxi_type_text text;
    if (has_one_element(f->in[0]))
        return FLX_OK;
    return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "%s must have one element, but it is %s", what,
                           flxi_type_str(f->ctx, f->in[0], &text));
}

/* The results are the outputs of the first branch; all others must return the same types. `names` are the attributes
   that hold the first branch and the others. */
static flx_code infer_branches(flxi_infer *f, const char *const names[2], const flx_graph *const *bodies, size_t n)
{
    flxi_type_text a;
    flxi_type_text b;
    for (size_t i = 0; i < n; i++) {
        FLXI_TRY(flxi_match_body(f, names[i > 0], bodies[i], f->in + 1, f->nin - 1));
        if (flxi_body_outputs(bodies[i]) != flxi_body_outputs(bodies[0]))
            return flxi_infer_fail(f, FLX_E_ARITY, NULL, "branches return %zu and %zu results",
                                   flxi_body_outputs(bodies[0]), flxi_body_outputs(bodies[i]));
        for (size_t k = 0; k < flxi_body_outputs(bodies[i]); k++) {
            const flx_type *first = flxi_body_output(bodies[0], k);
            const flx_type *mine = flxi_body_output(bodies[i], k);
            if (!flxi_type_equal(first, mine))
                return flxi_infer_fail(f, first->dtype == mine->dtype ? FLX_E_SHAPE : FLX_E_DTYPE, NULL,
                                       "branches return different types for result %zu: %s and %s", k,
                                       flxi_type_str(f->ctx, first, &a), flxi_type_str(f->ctx, mine, &b));
        }
    }
    return flxi_body_results(f, bodies[0], 0, flxi_body_outputs(bodies[0]));
}

/* ---- if ---- */

static const flxi_attr if_schema[] = {
    A_GRAPH_AS(if_attrs, then_body, "then"),
    A_GRAPH_AS(if_attrs, else_body, "else"),
    A_END,
};

static flx_code infer_if(flxi_infer *f)
{
    const if_attrs *a = f->attrs;
    const flx_graph *bodies[] = {a->then_body, a->else_body};
    FLXI_TRY(need_one_element(f, "the predicate"));
    return infer_branches(f, (const char *const[]){"then", "else"}, bodies, 2);
}

static flx_code eval_if(flxi_eval *e)
{
    const if_attrs *a = e->attrs;
    bool holds = flxi_load_truth(e->in[0]->type.dtype, e->in[0]->data, 0);
    return flxi_eval_body(e, holds ? a->then_body : a->else_body, e->in + 1);
}

#define TWO_BRANCHES                               \
    "graph double(x: T[2]) { return add(x, x) }\n" \
    "graph same(x: T[2]) { return reverse(x, axes=[0]) }\n"

static const flxi_sample samples_if[] = {
    {"bool[], T[2]", "then=@double, else=@same", TWO_BRANCHES, FLX_OK},
    {"f32[1], T[2]", "then=@double, else=@same", TWO_BRANCHES, FLX_OK},
    {"bool[], f32[N]", "then=@a, else=@b",
     "graph a(x: f32[N]) { s = reduce_sum(x) return s, x }\ngraph b(x: f32[N]) { m = reduce_max(x) return m, neg(x) "
     "}\n",
     FLX_OK},
    {"bool[2], T[2]", "then=@double, else=@same", TWO_BRANCHES, FLX_E_SHAPE},
    {"bool[], T[3]", "then=@double, else=@same", TWO_BRANCHES, FLX_E_SHAPE},
    {"bool[]", "then=@double, else=@same", TWO_BRANCHES, FLX_E_ARITY},
    {"bool[], f32[2]", "then=@a, else=@b",
     "graph a(x: f32[2]) { return x }\ngraph b(x: f32[2]) { return reduce_sum(x) }\n", FLX_E_SHAPE},
    {"bool[], f32[2]", "then=@a, else=@b", "graph a(x: f32[2]) { return x }\ngraph b(x: f32[2]) { return x, neg(x) }\n",
     FLX_E_ARITY},
    {0},
};

/* Branches see the operands after the one that chooses. */
static flxi_body branch(const flx_graph *body, const flxi_node *n)
{
    return (flxi_body){.graph = body, .role = BODY_BRANCH, .first = 1, .shared = n->nin - 1, .runs = FLXI_ABSENT};
}

static bool bodies_if(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const if_attrs *a = n->attrs;
    (void)g;
    *out = branch(i == 0 ? a->then_body : a->else_body, n);
    return i < 2;
}

const flxi_rules flxi_rules_if = {.infer = infer_if,
                                  .eval = eval_if,
                                  .schema = if_schema,
                                  .attrs_size = sizeof(if_attrs),
                                  .vjp = flxi_vjp_if,
                                  .jvp = flxi_jvp_if,
                                  .batch = flxi_batch_if,
                                  .samples = samples_if,
                                  .bodies = bodies_if,
                                  .link = flxi_link_dense,
                                  .shard = &flxi_shard_bodies};

/* ---- case ---- */

static const flxi_attr case_schema[] = {A_LIST_REQ(case_attrs, branches, ATTR_GRAPHS), A_END};

static flx_code infer_case(flxi_infer *f)
{
    const case_attrs *a = f->attrs;
    if (a->branches.n == 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "branches must list at least one graph");
    FLXI_TRY(need_one_element(f, "the index"));
    return infer_branches(f, (const char *const[]){"branches", "branches"}, a->branches.v, a->branches.n);
}

uint32_t flxi_case_branch(int32_t dtype, const void *index, uint32_t branches)
{
    int64_t i = flxi_load_int(dtype, index, 0);
    double x = flxi_load_double(dtype, index, 0);
    bool is_inside = i >= 0 && i < branches && !(flxi_is_float(dtype) && x != trunc(x));
    return is_inside ? (uint32_t)i : branches - 1;
}

static flx_code eval_case(flxi_eval *e)
{
    const case_attrs *a = e->attrs;
    uint32_t chosen = flxi_case_branch(e->in[0]->type.dtype, e->in[0]->data, (uint32_t)a->branches.n);
    return flxi_eval_body(e, a->branches.v[chosen], e->in + 1);
}

static const flxi_sample samples_case[] = {
    {"i32[]{-1..2}, T[2]", "branches=[@double, @same]", TWO_BRANCHES, FLX_OK},
    {"i64[1], T[2]", "branches=[@same]", TWO_BRANCHES, FLX_OK},
    {"i32[2], T[2]", "branches=[@same]", TWO_BRANCHES, FLX_E_SHAPE},
    {"i32[], T[2]", "branches=[]", TWO_BRANCHES, FLX_E_ATTRIBUTE},
    {0},
};

static bool bodies_case(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const case_attrs *a = n->attrs;
    (void)g;
    if (i < a->branches.n)
        *out = branch(a->branches.v[i], n);
    return i < a->branches.n;
}

const flxi_rules flxi_rules_case = {.infer = infer_case,
                                    .eval = eval_case,
                                    .schema = case_schema,
                                    .attrs_size = sizeof(case_attrs),
                                    .vjp = flxi_vjp_case,
                                    .jvp = flxi_jvp_case,
                                    .batch = flxi_batch_case,
                                    .samples = samples_case,
                                    .bodies = bodies_case,
                                    .link = flxi_link_dense,
                                    .shard = &flxi_shard_bodies};

/* ---- while ---- */

static const flxi_attr while_schema[] = {
    A_GRAPH_AS(while_attrs, cond, "cond"),
    A_GRAPH_AS(while_attrs, body, "body"),
    A_INT_OPT(while_attrs, max_iterations, "none"),
    A_END,
};

static flx_code infer_while(flxi_infer *f)
{
    const while_attrs *a = f->attrs;
    flxi_type_text text;
    if (f->nin == 0)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "at least one carry is needed");
    if (a->max_iterations < 0)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "max_iterations=%lld is negative",
                               (long long)a->max_iterations);
    FLXI_TRY(flxi_match_body(f, "cond", a->cond, f->in, f->nin));
    FLXI_TRY(flxi_match_body(f, "body", a->body, f->in, f->nin));
    if (flxi_body_outputs(a->cond) != 1)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "cond must return one result, not %zu",
                               flxi_body_outputs(a->cond));
    if (!has_one_element(flxi_body_output(a->cond, 0)))
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "cond must return one element, but returns %s",
                               flxi_type_str(f->ctx, flxi_body_output(a->cond, 0), &text));
    if (flxi_body_outputs(a->body) != f->nin)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "body returns %zu results, expected %u, one for each carry",
                               flxi_body_outputs(a->body), f->nin);
    FLXI_TRY(flxi_match_carries(f, a->body, f->in, f->nin));
    return flxi_body_results(f, a->body, 0, f->nin);
}

static flx_code test_cond(flxi_eval *e, const flx_graph *cond, flx_tensor *const *carries, bool *holds)
{
    flx_tensor *y = NULL;
    FLXI_TRY(e->run_body(e, cond, (const flx_tensor *const *)carries, &y));
    *holds = flxi_load_truth(y->type.dtype, y->data, 0);
    flx_tensor_release(y);
    return FLX_OK;
}

/* Two sets of carries, the current one and the next, are swapped after each step. */
static flx_code loop_while(flxi_eval *e, flx_tensor **now, flx_tensor **next)
{
    const while_attrs *a = e->attrs;
    for (int64_t i = 0;; i++) {
        bool holds = false;
        FLXI_TRY(test_cond(e, a->cond, now, &holds));
        if (!holds)
            return FLX_OK;
        if (i == a->max_iterations) { /* absent is the largest number */
            e->report(e, FLX_RUN_LOOP_CUT);
            return FLX_OK;
        }
        FLXI_TRY(e->run_body(e, a->body, (const flx_tensor *const *)now, next));
        for (uint32_t k = 0; k < e->nin; k++) {
            flx_tensor_release(now[k]);
            now[k] = next[k];
            next[k] = NULL;
        }
    }
}

static flx_code eval_while(flxi_eval *e)
{
    flx_tensor **carries = flxi_alloc(e->mem, 2 * (size_t)e->nin, sizeof *carries);
    if (!carries)
        return flxi_oom(e->err, "carries");
    for (uint32_t k = 0; k < e->nin; k++) /* only the reference is ours */
        carries[k] = flx_tensor_retain((flx_tensor *)(uintptr_t)e->in[k]);
    flx_code code = loop_while(e, carries, carries + e->nin);
    for (uint32_t k = 0; code == FLX_OK && k < e->nin; k++)
        if (e->out[k]->nbytes)
            flxi_stop_copy(e->out[k]->data, carries[k]->data, e->out[k]->nbytes);
    for (size_t k = 0; k < 2 * (size_t)e->nin; k++)
        flx_tensor_release(carries[k]);
    flxi_free(e->mem, carries, 2 * (size_t)e->nin, sizeof *carries);
    return code;
}

#define COUNT_TO_FIVE                                     \
    "graph more(i: i32[], x: T[2]) { return lt(i, 5) }\n" \
    "graph next(i: i32[], x: T[2]) { return add(i, 1), add(x, x) }\n"

static const flxi_sample samples_while[] = {
    {"i32[]{0..3}, T[2]", "cond=@more, body=@next", COUNT_TO_FIVE, FLX_OK},
    {"i32[]{0..3}, T[2]", "cond=@more, body=@next, max_iterations=2", COUNT_TO_FIVE, FLX_OK},
    {"i32[]{0..3}, T[2]", "cond=@more, body=@next, max_iterations=0", COUNT_TO_FIVE, FLX_OK},
    {"f32[N]{1..2}", "cond=@small, body=@grow",
     "graph small(x: f32[N]) { return lt(reduce_sum(x), 100) }\ngraph grow(x: f32[N]) { return mul(x, 2) }\n", FLX_OK},
    {"i32[], T[2]", "cond=@more, body=@next, max_iterations=-1", COUNT_TO_FIVE, FLX_E_ATTRIBUTE},
    {"i32[]", "cond=@more, body=@next", COUNT_TO_FIVE, FLX_E_ARITY},
    {"i32[], T[3]", "cond=@more, body=@next", COUNT_TO_FIVE, FLX_E_SHAPE},
    {"f32[2]", "cond=@c, body=@b", "graph c(x: f32[2]) { return gt(x, 0) }\ngraph b(x: f32[2]) { return x }\n",
     FLX_E_SHAPE},
    {"f32[2]", "cond=@c, body=@b",
     "graph c(x: f32[2]) { return gt(reduce_sum(x), 0) }\ngraph b(x: f32[2]) { return reduce_sum(x) }\n", FLX_E_SHAPE},
    {0},
};

static bool bodies_while(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const while_attrs *a = n->attrs;
    (void)g;
    *out = (flxi_body){.graph = i == 0 ? a->cond : a->body,
                       .role = i == 0 ? BODY_TEST : BODY_ROUND,
                       .carries = n->nin,
                       .runs = FLXI_ABSENT};
    return i < 2;
}

const flxi_rules flxi_rules_while = {.infer = infer_while,
                                     .eval = eval_while,
                                     .schema = while_schema,
                                     .attrs_size = sizeof(while_attrs),
                                     .vjp = flxi_vjp_while,
                                     .jvp = flxi_jvp_while,
                                     .batch = flxi_batch_while,
                                     .samples = samples_while,
                                     .bodies = bodies_while,
                                     .link = flxi_link_dense,
                                     .shard = &flxi_shard_bodies};

/* ---- Loops with other bodies ---- */

bool flxi_can_loop_again(const flxi_node *n)
{
    return flxi_scan_attrs(n) || flxi_while_attrs(n);
}

void flxi_loop_again(flxi_site *s, const flx_graph *round, const flx_graph *test, uint32_t carries, const flx_val *in,
                     uint32_t nin, flx_val *out, uint32_t nout)
{
    if (test) {
        const while_attrs *w = s->attrs;
        int64_t most = w->max_iterations == FLXI_ABSENT ? FLX_DEFAULT : w->max_iterations;
        flx_while(s->g, in, nin, out, nout, test, round, most);
        return;
    }
    const scan_attrs *a = s->attrs;
    flx_scan_attrs again = FLX_SCAN_ATTRS;
    again.body = round;
    again.num_carry = carries;
    again.num_bcast = a->num_bcast;
    again.length = a->length == FLXI_ABSENT ? FLX_DEFAULT : a->length;
    again.reverse = (int)a->reverse;
    flx_scan_with(s->g, in, nin, out, nout, &again);
}

/* ---- custom_fn ---- */

static const flxi_attr custom_schema[] = {
    A_GRAPH_AS(custom_attrs, fwd_body, "fwd_body"),
    A_GRAPH_OPT(custom_attrs, vjp_body),
    A_GRAPH_OPT(custom_attrs, jvp_body),
    A_INT(custom_attrs, num_residuals, 0),
    A_INTS(custom_attrs, zero_grads, "[]"),
    A_BOOL(custom_attrs, recompute, 0),
    A_END,
};

/* A list of types under construction: the required types of a body's inputs. */
typedef struct {
    const flx_type **v;
    size_t n;
} type_list;

static void add_operands(type_list *l, const flxi_infer *f)
{
    for (uint32_t i = 0; i < f->nin; i++)
        l->v[l->n++] = f->in[i];
}

static void add_outputs(type_list *l, const flx_graph *body, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        l->v[l->n++] = flxi_body_output(body, i);
}

static bool has_cotangent(const flxi_infer *f, const custom_attrs *a, uint32_t i)
{
    for (size_t k = 0; k < a->zero_grads.n; k++)
        if (a->zero_grads.v[k] == i)
            return false;
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, f->in[i]->dtype);
}

static flx_code match_rule(flxi_infer *f, const char *name, const flx_graph *body, const type_list *l,
                           const char *takes)
{
    flx_code code = flxi_match_body(f, name, body, l->v, l->n);
    if (code == FLX_E_ARITY)
        flxi_hint(f->err, "%s", takes);
    return code;
}

/* vjp_body: x…, y…, residuals, cotangents of y → a cotangent for each operand that can have one. */
static flx_code check_vjp(flxi_infer *f, const custom_attrs *a, size_t m, type_list *l)
{
    size_t outputs = flxi_body_outputs(a->fwd_body);
    flxi_type_text wanted;
    flxi_type_text found;
    l->n = 0;
    add_operands(l, f);
    add_outputs(l, a->fwd_body, 0, outputs);
    add_outputs(l, a->fwd_body, 0, m);
    FLXI_TRY(match_rule(f, "vjp_body", a->vjp_body, l,
                        "vjp_body takes the operands, the results, the residuals and a cotangent of each result"));
    size_t k = 0;
    for (uint32_t i = 0; i < f->nin; i++) {
        if (!has_cotangent(f, a, i))
            continue;
        const flx_type *made = k < flxi_body_outputs(a->vjp_body) ? flxi_body_output(a->vjp_body, k) : NULL;
        if (made && !flxi_type_equal(made, f->in[i]))
            return flxi_infer_fail(f, made->dtype == f->in[i]->dtype ? FLX_E_SHAPE : FLX_E_DTYPE, NULL,
                                   "vjp_body returns %s for operand %u, which is %s",
                                   flxi_type_str(f->ctx, made, &found), i, flxi_type_str(f->ctx, f->in[i], &wanted));
        k++;
    }
    if (k != flxi_body_outputs(a->vjp_body))
        return flxi_infer_fail(f, FLX_E_ARITY, "operands listed in zero_grads and integer operands get no cotangent",
                               "vjp_body returns %zu cotangents, expected %zu", flxi_body_outputs(a->vjp_body), k);
    return FLX_OK;
}

/* jvp_body: x…, tangents of x, y… → tangents of y. */
static flx_code check_jvp(flxi_infer *f, const custom_attrs *a, size_t m, type_list *l)
{
    l->n = 0;
    add_operands(l, f);
    add_operands(l, f);
    add_outputs(l, a->fwd_body, 0, m);
    FLXI_TRY(match_rule(f, "jvp_body", a->jvp_body, l,
                        "jvp_body takes the operands, a tangent of each operand, and the results"));
    if (flxi_body_outputs(a->jvp_body) != m)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "jvp_body returns %zu tangents, expected %zu",
                               flxi_body_outputs(a->jvp_body), m);
    flxi_type_text found;
    flxi_type_text wanted;
    for (size_t i = 0; i < m; i++) {
        const flx_type *made = flxi_body_output(a->jvp_body, i);
        const flx_type *result = flxi_body_output(a->fwd_body, i);
        if (!flxi_type_equal(made, result))
            return flxi_infer_fail(f, made->dtype == result->dtype ? FLX_E_SHAPE : FLX_E_DTYPE, NULL,
                                   "jvp_body returns %s for result %zu, which is %s",
                                   flxi_type_str(f->ctx, made, &found), i, flxi_type_str(f->ctx, result, &wanted));
    }
    return FLX_OK;
}

static flx_code infer_custom(flxi_infer *f)
{
    custom_attrs *a = f->attrs;
    FLXI_TRY(flxi_match_body(f, "fwd_body", a->fwd_body, f->in, f->nin));
    size_t outputs = flxi_body_outputs(a->fwd_body);
    if (a->num_residuals < 0 || (uint64_t)a->num_residuals > outputs)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "num_residuals=%lld, but fwd_body returns %zu outputs",
                               (long long)a->num_residuals, outputs);
    if (a->zero_grads.v)
        for (size_t i = 0; i < a->zero_grads.n; i++)
            if (a->zero_grads.v[i] < 0 || a->zero_grads.v[i] >= f->nin)
                return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL,
                                       "zero_grads lists operand %lld, but there are %u operands",
                                       (long long)a->zero_grads.v[i], f->nin);
    size_t m = outputs - (size_t)a->num_residuals;
    type_list l = {.v = flxi_new(f->arena, const flx_type *, 2 * (f->nin + outputs))};
    if (!l.v)
        return flxi_oom(f->err, "types");
    if (a->vjp_body)
        FLXI_TRY(check_vjp(f, a, m, &l));
    if (a->jvp_body)
        FLXI_TRY(check_jvp(f, a, m, &l));
    return flxi_body_results(f, a->fwd_body, 0, m);
}

static flx_code eval_custom(flxi_eval *e)
{
    const custom_attrs *a = e->attrs;
    return flxi_eval_body(e, a->fwd_body, e->in);
}

#define SQUARE_BODIES                                                                                     \
    "graph f(x: f32[3], s: f32[3]) { return mul(x, s), add(x, s) }\n"                                     \
    "graph back(x: f32[3], s: f32[3], y: f32[3], r: f32[3], g: f32[3]) { return mul(g, s), mul(g, x) }\n" \
    "graph push(x: f32[3], s: f32[3], tx: f32[3], ts: f32[3], y: f32[3]) { return add(mul(tx, s), mul(x, ts)) }\n"

static const flxi_sample samples_custom[] = {
    {"T[4]", "fwd_body=@f", "graph f(x: T[4]) { return add(x, x) }\n", FLX_OK},
    {"f32[3], f32[3]", "fwd_body=@f, vjp_body=@back, jvp_body=@push, num_residuals=1", SQUARE_BODIES, FLX_OK},
    {"T[4]", "fwd_body=@f, recompute=true", "graph f(x: T[4]) { y = mul(x, x) return add(y, x) }\n", FLX_OK},
    {"f32[3], f32[3]", "fwd_body=@f, vjp_body=@back, num_residuals=1, recompute=true", SQUARE_BODIES, FLX_OK},
    {"f32[3], f32[3]", "fwd_body=@f, jvp_body=@push, num_residuals=1, recompute=true", SQUARE_BODIES, FLX_OK},
    {"f32[N], i32[]", "fwd_body=@f, vjp_body=@back",
     "graph f(x: f32[N], i: i32[]) { return neg(x) }\n"
     "graph back(x: f32[N], i: i32[], y: f32[N], g: f32[N]) { return neg(g) }\n",
     FLX_OK},
    {"f32[3], f32[3]", "fwd_body=@f, num_residuals=3", SQUARE_BODIES, FLX_E_ATTRIBUTE},
    {"f32[3], f32[3]", "fwd_body=@f, vjp_body=@push, num_residuals=1", SQUARE_BODIES, FLX_E_ARITY},
    {"f32[3], f32[3]", "fwd_body=@f, vjp_body=@back, num_residuals=1, zero_grads=[1]", SQUARE_BODIES, FLX_E_ARITY},
    {"f32[3], f32[3]", "fwd_body=@f, zero_grads=[2]", SQUARE_BODIES, FLX_E_ATTRIBUTE},
    {"f32[4], f32[3]", "fwd_body=@f", SQUARE_BODIES, FLX_E_SHAPE},
    {"f32[3], f32[3]", NULL, SQUARE_BODIES, FLX_E_ATTRIBUTE},
    {0},
};

/* Its value, without its rules for derivatives. */
static void decompose_custom(flxi_site *s, flx_val *y)
{
    const custom_attrs *a = s->attrs;
    flx_val *out = flxi_new(&s->g->arena, flx_val, flxi_body_outputs(a->fwd_body));
    if (!out) {
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: custom_fn");
        return;
    }
    flxi_inline_or_call(s->g, a->fwd_body, FLXI_INLINE_TOGETHER, s->x, out);
    memcpy(y, out, s->nout * sizeof *y);
}

static bool bodies_custom(const flx_graph *g, const flxi_node *n, uint32_t i, flxi_body *out)
{
    const custom_attrs *a = n->attrs;
    const flx_graph *list[3] = {a->fwd_body};
    uint32_t count = 1;
    (void)g;
    if (a->vjp_body)
        list[count++] = a->vjp_body;
    if (a->jvp_body)
        list[count++] = a->jvp_body;
    if (i >= count)
        return false;
    *out = (flxi_body){.graph = list[i], .role = BODY_RULE, .runs = 0};
    if (i == 0)
        *out = (flxi_body){.graph = list[i], .role = BODY_CALLED, .shared = n->nin, .runs = 1};
    return true;
}

const flxi_rules flxi_rules_custom_fn = {.infer = infer_custom,
                                         .eval = eval_custom,
                                         .schema = custom_schema,
                                         .attrs_size = sizeof(custom_attrs),
                                         .primal = flxi_primal_custom,
                                         .num_saved = flxi_saved_custom,
                                         .vjp = flxi_vjp_custom,
                                         .jvp = flxi_jvp_custom,
                                         .batch = flxi_batch_custom,
                                         .decompose = decompose_custom,
                                         .samples = samples_custom,
                                         .bodies = bodies_custom,
                                         .link = flxi_link_dense};
