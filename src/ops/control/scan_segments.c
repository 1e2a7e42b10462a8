/* SPDX-License-Identifier: Apache-2.0 */
/* scan_segments.c: scan_replay_backward as scans over segments.

   The steps are cut into segments of equal length. A first scan runs the segments and keeps the carries before each; a
   second one walks back over the segments, and its body reverses one of them from its first carries in the same way, or
   if it is short with all carries in memory. With k checkpoints at most max(k, the cube root of the length) carries are
   kept at each level, twice as many in a last one, and there are about three levels at most, so that the text of the
   body is not repeated without end. Each level computes the steps once more: cutting 40 steps for 25 checkpoints would
   save 15 carries and cost as much as another forward pass. The steps after the last whole segment are reversed first,
   as a segment of their own.

   The scan itself, where it is still in the graph and has no stacked outputs, becomes the first of these scans: its
   steps are not computed apart from those of the segments.

   The sums of the cotangents of broadcast inputs are carried through all segments: the additions, and so the bits, are
   those of the plain backward scan. It is what compiled code runs, and what is differentiated and batched. */
#include "ops/control/control.h"
#include "ops/opcode.h"
#include "ops/rule/body/bodies.h"

typedef struct {
    const scan_backward_attrs *a;
    const flxi_backward_plan *p;
    uint32_t inputs, carries, bcasts, outputs; /* of the body */
    uint32_t cotangents;                       /* of its wanted inputs */
    int64_t most;                              /* steps whose carries may all be kept */
} replay;

/* Steps that are to be reversed: the site's operands are the carries before them, the broadcast inputs, and the rows of
   the sequences. */
typedef struct {
    flx_dim length;      /* a number, unless all carries are kept */
    const flx_val *dy;   /* by output of the body: of the carries after them, and of the rows of stacked outputs */
    const flx_val *sums; /* of broadcast inputs so far, by wanted one; NULL: zeros */
    bool is_segment;     /* not the whole scan */
} stretch;

typedef struct {
    int64_t count, steps; /* of segments, of each */
    int64_t first, rest;  /* rows: where the segments begin, where the rest does */
    int64_t num_rest;
} cut;

static void reverse_steps(const replay *r, flxi_site *s, const stretch *t, flx_val *y);

static const flx_type *input_type(const flx_graph *body, uint32_t i)
{
    return flxi_type_at(body, body->leaves.at[i]);
}

/* ---- Segments ---- */

/* Segments that leave no rest need no copies of the sequences: a length that divides the steps is worth a search. */
static cut cut_of(const replay *r, int64_t length)
{
    int64_t steps = (length + r->most - 1) / r->most;
    for (int64_t n = steps; n <= 2 * steps && n < length; n++)
        if (length % n == 0) {
            steps = n;
            break;
        }
    cut c = {.count = length / steps, .steps = steps, .num_rest = length % steps};
    c.first = r->a->scan.reverse ? c.num_rest : 0;
    c.rest = r->a->scan.reverse ? 0 : c.count * steps;
    return c;
}

/* Values do not exist where memory was exhausted on the way to them. */
static flx_val rows(flxi_site *s, flx_val v, int64_t from, int64_t count)
{
    if (!v.id)
        return FLX_NONE;
    return flxi_typeof(s, v)->dims[0] == count ? v : flx_narrow(s->g, v, 0, from, count);
}

static flx_type with_leading(const flx_type *t, int64_t extent)
{
    flx_type out = {.dtype = t->dtype, .rank = t->rank + 1, .dims = {extent}};
    memcpy(out.dims + 1, t->dims, (size_t)t->rank * sizeof *t->dims);
    return out;
}

/* [steps, …] as [count, steps, …] */
static flx_val segments(flxi_site *s, const cut *c, flx_val v)
{
    flx_val x = rows(s, v, c->first, c->count * c->steps);
    if (!x.id)
        return FLX_NONE;
    flx_type t = with_leading(flxi_typeof(s, x), c->count);
    t.dims[1] = c->steps;
    return flxi_reshape_to(s, x, t.rank, t.dims);
}

/* The way back, with the rows of the rest where they belong. */
static flx_val joined(const replay *r, flxi_site *s, const cut *c, flx_val v, flx_val rest)
{
    if (!v.id)
        return FLX_NONE;
    const flx_type *t = flxi_typeof(s, v);
    flx_dim dims[FLX_MAX_RANK];
    memcpy(dims, t->dims + 1, (size_t)(t->rank - 1) * sizeof *dims);
    dims[0] = c->count * c->steps;
    flx_val x = flxi_reshape_to(s, v, t->rank - 1, dims);
    flx_val both[] = {r->a->scan.reverse ? rest : x, r->a->scan.reverse ? x : rest};
    return c->num_rest ? flx_concat(s->g, both, 2, 0) : x;
}

static flx_type segment_type(const replay *r, const cut *c, uint32_t input)
{
    const flx_type *t = input_type(r->a->scan.body, input);
    return input < r->carries + r->bcasts ? *t : with_leading(t, c->steps);
}

static flx_scan_attrs attrs_of(const replay *r, const flx_graph *body, uint32_t carries, int64_t length)
{
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    a.body = body;
    a.num_carry = carries;
    a.num_bcast = r->bcasts;
    a.length = length;
    a.reverse = (int)r->a->scan.reverse;
    return a;
}

/* ---- Forward ---- */

/* The body with its carries alone. */
static flx_graph *advancing_body(const replay *r, flxi_site *s)
{
    flx_graph *g = flxi_new_body(s, r->a->scan.body->name);
    flx_val *in = flxi_rule_new(s, flx_val, r->inputs);
    flx_val *out = flxi_rule_new(s, flx_val, r->outputs);
    if (!g || !in || !out) {
        flx_graph_release(g);
        return NULL;
    }
    for (uint32_t i = 0; i < r->inputs; i++)
        in[i] = flxi_declare(g, 's', input_type(r->a->scan.body, i));
    flxi_inline(g, r->a->scan.body, in, out);
    for (uint32_t i = 0; i < r->carries; i++)
        flx_output(g, out[i], NULL);
    return flxi_finish_body(s, g);
}

/* (c…; b…; x…) → c'…, c…: the steps of a segment, and the carries before them. */
static flx_graph *segment_body(const replay *r, flxi_site *s, const cut *c)
{
    flx_graph *g = flxi_new_body(s, "segment"), *body = advancing_body(r, s);
    flx_val *in = flxi_rule_new(s, flx_val, r->inputs);
    flx_val *out = flxi_rule_new(s, flx_val, r->carries);
    if (!g || !body || !in || !out) {
        flx_graph_release(g);
        flx_graph_release(body);
        return NULL;
    }
    for (uint32_t i = 0; i < r->inputs; i++) {
        flx_type t = segment_type(r, c, i);
        in[i] = flxi_declare(g, 's', &t);
    }
    flx_scan_attrs a = attrs_of(r, body, r->carries, c->steps);
    flx_scan_with(g, in, r->inputs, out, r->carries, &a);
    for (uint32_t i = 0; i < r->carries; i++)
        flx_output(g, out[i], NULL);
    for (uint32_t i = 0; i < r->carries; i++)
        flx_output(g, in[i], NULL);
    flx_graph_release(body);
    return flxi_finish_body(s, g);
}

/* Runs all segments: `out` receives the carries after the last one, then the stacks of those before each. */
static bool run_segments(const replay *r, flxi_site *s, const cut *c, flx_val *out)
{
    flx_val *in = flxi_rule_new(s, flx_val, r->inputs);
    flx_graph *body = in ? segment_body(r, s, c) : NULL;
    if (!body)
        return false;
    for (uint32_t i = 0; i < r->inputs; i++)
        in[i] = i < r->carries + r->bcasts ? s->x[i] : segments(s, c, s->x[i]);
    flx_scan_attrs a = attrs_of(r, body, r->carries, c->count);
    flx_scan_with(s->g, in, r->inputs, out, 2 * r->carries, &a);
    flx_graph_release(body);
    return true;
}

/* ---- Backward ---- */

/* The values of the backward scan in the order of its operands: cotangents of carries, sums, broadcast inputs, carries
   before each segment, sequences, cotangents of stacked outputs. */
typedef struct {
    flx_val *dy, *sums, *x; /* as in a stretch and its site */
} step_values;

static bool new_values(const replay *r, flxi_site *s, step_values *v)
{
    v->dy = flxi_rule_new(s, flx_val, r->outputs);
    v->sums = flxi_rule_new(s, flx_val, r->bcasts + 1);
    v->x = flxi_rule_new(s, flx_val, r->inputs);
    return v->dy && v->sums && v->x;
}

/* Calls visit() for each in that order. `row` is its type inside of one segment. */
static void each_value(const replay *r, const cut *c, const step_values *v, void *user,
                       void (*visit)(void *user, flx_val *v, const flx_type *row))
{
    const flx_graph *body = r->a->scan.body;
    uint32_t shared = r->carries + r->bcasts;
    for (uint32_t i = 0; i < r->carries; i++)
        if (r->p->varies[i])
            visit(user, &v->dy[i], input_type(body, i));
    for (uint32_t i = r->carries, at = 0; i < shared; i++)
        if (r->p->wanted[i])
            visit(user, &v->sums[at++], input_type(body, i));
    for (uint32_t i = r->carries; i < shared; i++)
        visit(user, &v->x[i], input_type(body, i));
    for (uint32_t i = 0; i < r->inputs; i++)
        if (i < r->carries || i >= shared) {
            flx_type t = segment_type(r, c, i);
            visit(user, &v->x[i], &t);
        }
    for (uint32_t k = r->carries; k < r->outputs; k++)
        if (r->p->seeded[k]) {
            flx_type t = with_leading(flxi_body_output(body, k), c->steps);
            visit(user, &v->dy[k], &t);
        }
}

static void declare_value(void *g, flx_val *v, const flx_type *row)
{
    *v = flxi_declare(g, 's', row);
}

static flx_graph *back_body(const replay *r, flxi_site *s, const cut *c)
{
    flx_graph *g = flxi_new_body(s, "back");
    flxi_site inner = *s;
    step_values v;
    flx_val *y = flxi_rule_new(s, flx_val, r->inputs);
    if (!g || !y || !new_values(r, s, &v)) {
        flx_graph_release(g);
        return NULL;
    }
    each_value(r, c, &v, g, declare_value);
    inner.g = g;
    inner.x = v.x;
    inner.nin = r->inputs;
    reverse_steps(r, &inner, &(stretch){c->steps, v.dy, v.sums, true}, y);
    for (uint32_t k = 0; k < r->cotangents; k++)
        flx_output(g, y[k], NULL);
    return flxi_finish_body(s, g);
}

typedef struct {
    flx_val *v;
    uint32_t n;
} operands;

static void add_operand(void *user, flx_val *v, const flx_type *row)
{
    operands *o = user;
    (void)row;
    o->v[o->n++] = *v;
}

/* The backward scan over the segments, from the values after them. */
static void back_over_segments(const replay *r, flxi_site *s, const cut *c, const step_values *v, flx_val *y)
{
    operands in = {.v = flxi_rule_new(s, flx_val, 3 * r->inputs + 2 * r->outputs)};
    flx_graph *body = in.v ? back_body(r, s, c) : NULL;
    if (!body)
        return;
    each_value(r, c, v, &in, add_operand);
    flx_scan_attrs a = attrs_of(r, body, r->p->dcarries + r->p->dbcasts, c->count);
    a.reverse = !r->a->scan.reverse;
    flx_scan_with(s->g, in.v, in.n, y, r->cotangents, &a);
    flx_graph_release(body);
}

/* The rest: what it gives takes the place of the cotangents and sums in `v`; `dx` receives those of its rows. */
static void reverse_rest(const replay *r, flxi_site *s, const cut *c, const flx_val *after, const stretch *t,
                         step_values *v, flx_val *dx)
{
    flxi_site inner = *s;
    step_values part;
    if (!new_values(r, s, &part))
        return;
    for (uint32_t i = 0; i < r->inputs; i++)
        part.x[i] = i < r->carries               ? after[i]
                    : i < r->carries + r->bcasts ? s->x[i]
                                                 : rows(s, s->x[i], c->rest, c->num_rest);
    for (uint32_t k = 0; k < r->outputs; k++)
        part.dy[k] = k < r->carries || !r->p->seeded[k] ? t->dy[k] : rows(s, t->dy[k], c->rest, c->num_rest);
    inner.x = part.x;
    inner.nin = r->inputs;
    reverse_steps(r, &inner, &(stretch){c->num_rest, part.dy, t->sums, true}, dx);
    uint32_t at = 0;
    for (uint32_t i = 0; i < r->carries; i++)
        if (r->p->varies[i])
            v->dy[i] = dx[at++];
    for (uint32_t i = 0; i < r->p->dbcasts; i++)
        v->sums[i] = dx[at++];
}

/* What the segments are reversed from, where nothing comes after them. */
static void start_values(const replay *r, flxi_site *s, const cut *c, const flx_val *after, const stretch *t,
                         step_values *v)
{
    uint32_t shared = r->carries + r->bcasts;
    for (uint32_t i = 0; i < r->inputs; i++)
        v->x[i] = i < r->carries ? after[r->carries + i] : i < shared ? s->x[i] : segments(s, c, s->x[i]);
    for (uint32_t i = 0; i < r->carries; i++)
        if (r->p->varies[i])
            v->dy[i] = flxi_or_zeros(s, t->dy[i], s->x[i]);
    for (uint32_t k = r->carries; k < r->outputs; k++)
        if (r->p->seeded[k])
            v->dy[k] = segments(s, c, t->dy[k]);
    for (uint32_t i = r->carries, at = 0; i < shared; i++)
        if (r->p->wanted[i]) {
            v->sums[at] = t->sums ? t->sums[at] : flxi_zeros_like(s, s->x[i]);
            at++;
        }
}

static void reverse_segments(const replay *r, flxi_site *s, const stretch *t, flx_val *y)
{
    cut c = cut_of(r, t->length);
    step_values v;
    flx_val *after = flxi_rule_new(s, flx_val, 2 * r->carries);
    flx_val *dx = flxi_rule_new(s, flx_val, r->inputs);
    if (!after || !dx || !new_values(r, s, &v) || !run_segments(r, s, &c, after))
        return;
    start_values(r, s, &c, after, t, &v);
    if (c.num_rest)
        reverse_rest(r, s, &c, after, t, &v, dx);
    back_over_segments(r, s, &c, &v, y);
    for (uint32_t k = r->p->dcarries + r->p->dbcasts; k < r->cotangents; k++)
        y[k] = joined(r, s, &c, y[k], dx[k]);
}

/* ---- All of it ---- */

static void reverse_steps(const replay *r, flxi_site *s, const stretch *t, flx_val *y)
{
    if ((t->is_segment ? t->length / 2 : t->length) > r->most) {
        reverse_segments(r, s, t, y);
        return;
    }
    scan_backward_attrs a = *r->a;
    flxi_site inner = *s;
    flx_val *saved = flxi_rule_new(s, flx_val, r->carries);
    a.scan.length = t->length;
    inner.attrs = &a;
    if (!saved)
        return;
    flxi_scan_record(&inner, saved);
    flxi_scan_back(&inner, r->p, r->a->body_vjp, saved, t->dy, t->sums, y);
}

/* Of a length that is not known, all carries are kept; so they are where a sequence cannot have one axis more.
   `in`: the operands of the backward op in g. */
static int64_t most_steps(const scan_attrs *a, const flx_graph *g, const uint32_t *in, uint32_t nin)
{
    int64_t root = 1;
    if (!flxi_dim_is_number(a->length) || a->num_carry == 0)
        return INT64_MAX;
    for (uint32_t i = (uint32_t)(a->num_carry + a->num_bcast); i < nin; i++)
        if (flxi_type_at(g, in[i])->rank >= FLX_MAX_RANK)
            return INT64_MAX;
    while (root < 2097152 && root * root * root < a->length)
        root++;
    return a->num_checkpoints > root ? a->num_checkpoints : root;
}

static replay replay_of(const scan_backward_attrs *a)
{
    return (replay){.a = a,
                    .inputs = (uint32_t)a->scan.body->leaves.n,
                    .carries = (uint32_t)a->scan.num_carry,
                    .bcasts = (uint32_t)a->scan.num_bcast,
                    .outputs = (uint32_t)a->scan.body->outputs.n};
}

void flxi_decompose_replay(flxi_site *s, const flxi_backward_plan *p, flx_val *y)
{
    const scan_backward_attrs *a = s->attrs;
    replay r = replay_of(a);
    uint32_t *in = flxi_rule_new(s, uint32_t, s->nin);
    r.p = p;
    flx_val *dy = flxi_rule_new(s, flx_val, r.outputs);
    uint32_t at = r.inputs;
    if (!dy || !in)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[i] = s->x[i].id;
    for (uint32_t i = 0; i < r.inputs; i++)
        r.cotangents += p->wanted[i];
    for (uint32_t k = 0; k < r.outputs; k++)
        if (p->seeded[k])
            dy[k] = s->x[at++];
    r.most = most_steps(&a->scan, s->g, in, s->nin);
    reverse_steps(&r, s, &(stretch){a->scan.length, dy, NULL, false}, y);
}

/* ---- The scan itself ---- */

/* Whether the backward op reverses these steps, and its segments are several. */
static bool is_cut_by(const flx_graph *g, const flxi_node *n, const flxi_node *back)
{
    const scan_attrs *a = n->attrs, *b = &((const scan_backward_attrs *)back->attrs)->scan;
    return back->nin >= n->nin && a->body == b->body && a->num_carry == b->num_carry && a->num_bcast == b->num_bcast &&
           a->reverse == b->reverse && a->num_checkpoints == b->num_checkpoints &&
           memcmp(n->in, back->in, n->nin * sizeof *n->in) == 0 && b->length > most_steps(b, g, back->in, back->nin);
}

/* The scan as its segments, which are those of the backward op: it has the same attributes and operands. */
static void run_in_segments(flxi_site *s, flx_val *y)
{
    scan_backward_attrs a = {.scan = *(const scan_attrs *)s->attrs};
    uint32_t shared = (uint32_t)(a.scan.num_carry + a.scan.num_bcast);
    uint32_t *in = flxi_rule_new(s, uint32_t, s->nin);
    flx_val *after = flxi_rule_new(s, flx_val, 2 * (size_t)a.scan.num_carry), *x = flxi_rule_new(s, flx_val, s->nin);
    if (!in || !after || !x)
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        in[i] = s->x[i].id;
    if (a.scan.length == FLXI_ABSENT)
        a.scan.length = flxi_typeof(s, s->x[shared])->dims[0];
    replay r = replay_of(&a);
    r.most = most_steps(&a.scan, s->g, in, s->nin);
    const cut c = cut_of(&r, a.scan.length);
    if (!run_segments(&r, s, &c, after))
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        x[i] = i < r.carries ? after[i] : i < shared || !c.num_rest ? s->x[i] : rows(s, s->x[i], c.rest, c.num_rest);
    if (c.num_rest) {
        const flx_scan_attrs rest = attrs_of(&r, a.scan.body, r.carries, c.num_rest);
        flx_scan_with(s->g, x, s->nin, y, r.carries, &rest);
    } else {
        memcpy(y, after, r.carries * sizeof *y);
    }
}

flxi_expansion flxi_scan_beside_replay(const flx_graph *g, uint32_t node, uint32_t *partner)
{
    const flxi_node *n = flxi_node_at(g, node);
    const scan_attrs *a = flxi_scan_attrs(n);
    if (!a || a->num_checkpoints <= 0 || a->save_trajectory || a->num_carry < 1 || n->nout != (uint32_t)a->num_carry)
        return NULL;
    for (uint32_t i = node + 1; i < g->node_count; i++) {
        *partner = i;
        if (flxi_node_at(g, i)->op == OP_scan_replay_backward && is_cut_by(g, n, flxi_node_at(g, i)))
            return run_in_segments;
    }
    return NULL;
}
