/* SPDX-License-Identifier: Apache-2.0 */
/* transposed.c: the rule of one mode from that of the other. A vjp is linear in the cotangent u, so its derivative with
   respect to u, applied to the tangent, is the tangent of the result. A jvp is linear in the tangents, so its
   derivative with respect to them, applied to the cotangent, is the cotangent of the operands. Both are the rule as a
   graph of its own, differentiated in reverse mode. */
#include "autodiff/autodiff.h"

/* The rule's graph while it is built: inputs x…, y… and then u… or t…. */
typedef struct {
    flx_graph *g;
    flx_val *x, *y; /* operands and results of the node, as leaves */
    flx_val *given; /* cotangents or tangents, as leaves; FLX_NONE: none */
    flx_val *made;  /* what the rule gives for them */
    bool *wanted;   /* by operand */
    flxi_site site;
} rule_graph;

static bool carries_derivative(const flx_type *t)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

static bool open_rule(flxi_site *s, rule_graph *r, const char *name, uint32_t given, uint32_t made)
{
    *r = (rule_graph){.g = flx_graph_new(s->ctx, name)};
    r->x = flxi_rule_new(s, flx_val, s->nin);
    r->y = flxi_rule_new(s, flx_val, s->nout);
    r->given = flxi_rule_new(s, flx_val, given);
    r->made = flxi_rule_new(s, flx_val, made);
    r->wanted = flxi_rule_new(s, bool, s->nin);
    if (!r->g && !s->g->error.code)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
    if (!r->g || !r->x || !r->y || !r->given || !r->made || !r->wanted)
        return false;
    for (uint32_t k = 0; k < s->nin; k++)
        r->x[k] = flxi_new_leaf(r->g, "x", "", flxi_typeof(s, s->x[k]));
    for (uint32_t k = 0; k < s->nout; k++)
        r->y[k] = flxi_new_leaf(r->g, "y", "", flxi_typeof(s, s->y[k]));
    r->site = *s;
    r->site.g = r->g;
    r->site.x = r->x;
    r->site.y = r->y;
    r->site.wanted = r->wanted;
    return true;
}

/* What was made for `like` has its type: a complex number for a real one keeps its real part. */
static void put_output(rule_graph *r, flx_val v, flx_val like)
{
    flxi_site *s = &r->site;
    const flx_type *t = flxi_typeof(s, like);
    v = flxi_unbroadcast(s, flxi_or_zeros(s, v, like), t);
    if (flxi_typeof(s, v)->dtype != t->dtype)
        v = flx_cast(r->g, v, (flx_dtype)t->dtype);
    if (!r->g->error.code && !flxi_type_equal(flxi_typeof(s, v), t))
        flxi_site_fail(s, FLX_E_SHAPE, NULL, "the type of a derivative differs from that of its value");
    flx_output(r->g, v, NULL);
}

/* The rule's graph in reverse, appended to s->g: `in` are its leaves and then the seeds. */
static bool append_reversed(flxi_site *s, rule_graph *r, const bool *seeded, const bool *wanted, const flx_val *in,
                            flx_val *out)
{
    if (r->g->error.code) {
        flxi_graph_fail(s->g, &r->g->error);
        return false;
    }
    flx_graph *reversed = s->bodies->vjp(s, r->g, seeded, wanted);
    if (reversed)
        flxi_inline(s->g, reversed, in, out);
    flx_graph_release(reversed);
    return reversed != NULL;
}

static uint32_t put_leaves(flxi_site *s, flx_val *in)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->nin; k++)
        in[n++] = s->x[k];
    for (uint32_t k = 0; k < s->nout; k++)
        in[n++] = s->y[k];
    return n;
}

/* ---- Forward mode from the vjp ---- */

void flxi_jvp_from_vjp(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    rule_graph r;
    uint32_t leaves = s->nin + 2 * s->nout;
    bool *seeded = flxi_rule_new(s, bool, s->nin);
    bool *wanted = flxi_rule_new(s, bool, leaves);
    flx_val *in = flxi_rule_new(s, flx_val, leaves + s->nin);
    flx_val *out = flxi_rule_new(s, flx_val, s->nout);
    if (seeded && wanted && in && out && open_rule(s, &r, "vjp", s->nout, s->nin)) {
        uint32_t n = put_leaves(s, in);
        uint32_t seeds = 0;
        for (uint32_t k = 0; k < s->nout; k++)
            if (carries_derivative(flxi_typeof(s, s->y[k]))) {
                wanted[n] = true;
                in[n++] = flxi_zeros_like(s, s->y[k]); /* linear in u: the derivative does not depend on it */
                r.given[k] = flxi_new_leaf(r.g, "u", "", flxi_typeof(s, s->y[k]));
            }
        for (uint32_t k = 0; k < s->nin; k++) {
            r.wanted[k] = !flxi_is_none(tx[k]);
            if (r.wanted[k]) {
                seeded[seeds++] = true;
                in[n++] = tx[k];
            }
        }
        s->op->rules->vjp(&r.site, r.given, r.made);
        for (uint32_t k = 0; k < s->nin; k++)
            if (r.wanted[k])
                put_output(&r, r.made[k], r.x[k]);
        if (append_reversed(s, &r, seeded, wanted, in, out))
            for (uint32_t k = 0, at = 0; k < s->nout; k++)
                if (!flxi_is_none(r.given[k]))
                    ty[k] = out[at++];
        flx_graph_release(r.g);
    }
}

/* ---- Reverse mode from the jvp ---- */

void flxi_vjp_from_jvp(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    rule_graph r;
    uint32_t leaves = 2 * s->nin + s->nout;
    bool *seeded = flxi_rule_new(s, bool, s->nout);
    bool *wanted = flxi_rule_new(s, bool, leaves);
    flx_val *in = flxi_rule_new(s, flx_val, leaves + s->nout);
    flx_val *out = flxi_rule_new(s, flx_val, s->nin);
    if (seeded && wanted && in && out && open_rule(s, &r, "jvp", s->nin, s->nout)) {
        uint32_t n = put_leaves(s, in);
        uint32_t seeds = 0;
        for (uint32_t k = 0; k < s->nin; k++)
            if (s->wanted[k]) {
                wanted[n] = true;
                in[n++] = flxi_zeros_like(s, s->x[k]);
                r.given[k] = flxi_new_leaf(r.g, "t", "", flxi_typeof(s, s->x[k]));
            }
        for (uint32_t k = 0; k < s->nout; k++)
            if (!flxi_is_none(dy[k])) {
                seeded[seeds++] = true;
                in[n++] = dy[k];
            }
        s->op->rules->jvp(&r.site, r.given, r.made);
        for (uint32_t k = 0; k < s->nout; k++)
            if (!flxi_is_none(dy[k]))
                put_output(&r, r.made[k], r.y[k]);
        bool is_linear = r.g->error.code || flxi_check_linear(s, r.g, wanted, "its jvp");
        if (is_linear && append_reversed(s, &r, seeded, wanted, in, out))
            for (uint32_t k = 0, at = 0; k < s->nin; k++)
                if (s->wanted[k])
                    dx[k] = out[at++];
        flx_graph_release(r.g);
    }
}
