/* SPDX-License-Identifier: Apache-2.0 */
/* explain_steps.c: what is said about the steps of a block to people: which nodes each computes, why no better way was
   taken, and how much work it is. */
#include "compile/flops.h"
#include "compile/program.h"
#include "ops/express/express.h"

#include <stdio.h>

typedef struct {
    flxi_program *m;
    flxi_routine *l;
    flxi_strbuf text; /* the one being written */
    flx_error *err;
} explainer;

static const char *keep(explainer *x)
{
    const char *kept = x->text.failed ? NULL : flxi_arena_text(&x->l->arena, x->text.n ? x->text.at : "", x->text.n);
    x->text.n = 0;
    return kept;
}

static void add_node(explainer *x, uint32_t node)
{
    const flxi_node *n = flxi_node_at(x->l->g, node);
    const char *name = n->nout ? flxi_value_at(x->l->g, n->first)->name : NULL;
    flxi_add_text(&x->text, x->text.n ? ", " : "");
    flxi_add_text(&x->text, flxi_ops[n->op].name);
    if (name) {
        flxi_add_char(&x->text, ' ');
        flxi_add_text(&x->text, name);
    }
    if (x->l->positions && x->l->positions[node].is_copy)
        flxi_add_text(&x->text, " again");
}

static void add_reason(explainer *x, const char *subject, const char *why)
{
    flxi_add_text(&x->text, x->text.n ? "; " : "");
    flxi_add_text(&x->text, subject);
    flxi_add_text(&x->text, ": ");
    flxi_add_text(&x->text, why);
}

/* ---- Reasons ---- */

static const char *why_no_kernel(const explainer *x, const flxi_step *s)
{
    const flxi_node *n = flxi_node_at(x->l->g, s->node);
    const flxi_rules *r = flxi_ops[n->op].rules;
    if (x->m->grouping.evaluate_all)
        return "the compiler is not used";
    if (s->no_kernel)
        return s->no_kernel;
    if (!r->element && !r->pull && !r->fold)
        return "the op has no form for kernels";
    if (!flxi_can_index(x->l->g, n))
        return "more elements than kernels can index";
    return "the form for kernels does not serve these types and attributes";
}

static void add_reasons(explainer *x, const flxi_step *s)
{
    if (s->kind == STEP_KERNEL && x->m->compiled && x->m->compiled[s->kernel].scalar)
        add_reason(x, "one invocation at a time", x->m->compiled[s->kernel].scalar);
    for (int i = 0; s->way && i < s->way->num_refused; i++) {
        char route[60];
        snprintf(route, sizeof route, "no route %s", s->way->refused[i].name);
        add_reason(x, route, s->way->refused[i].why);
    }
    if (s->called)
        add_reason(x, "called in every step of the loop", s->called);
    if (s->kind == STEP_EVALUATE)
        add_reason(x, "no kernel", why_no_kernel(x, s));
    if (s->kind == STEP_COPY)
        add_reason(x, "an output", "its value is an input, a constant or another output");
}

/* ---- Steps ---- */

static void add_name(explainer *x, const flxi_step *s)
{
    if (s->kind == STEP_KERNEL || s->kind == STEP_DISPATCH) {
        flxi_add_text(&x->text, x->m->kernels.at[s->kernel].kernel->name);
        return;
    }
    flxi_add_text(&x->text, s->kind == STEP_COPY ? "copy" : flxi_ops[flxi_node_at(x->l->g, s->node)->op].name);
    if (flxi_step_is_emitted(x->l, s))
        flxi_add_text(&x->text, " in the function of its block");
    else if (s->kind == STEP_ROUTE) {
        flxi_add_text(&x->text, " by ");
        flxi_add_text(&x->text, s->way->name);
    }
}

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static flx_code explain_step(explainer *x, uint32_t i)
{
    flxi_step *s = &x->l->steps[i];
    s->number = (uint32_t)x->m->all_steps.n;
    if (!flxi_push(x->m->mem, &x->m->all_steps, ((flxi_step_ref){x->l, i})))
        return flxi_oom(x->err, "a report");
    add_name(x, s);
    s->name = keep(x);
    for (uint32_t k = 0; k < s->num_nodes; k++) {
        add_node(x, s->nodes[k]);
        s->flops = plus(s->flops, flxi_node_flops(x->l->g, s->nodes[k]));
    }
    if (s->num_nodes == 0) {
        add_node(x, s->node);
        s->flops = s->kind == STEP_COPY ? 0 : flxi_node_flops(x->l->g, s->node);
    }
    s->computes = keep(x);
    add_reasons(x, s);
    s->why = keep(x);
    for (uint32_t k = 0; k < s->num_slots; k++)
        s->bytes = plus(s->bytes, (int64_t)x->l->slots[s->slots[k]].nbytes);
    for (uint32_t k = 0; k < s->num_bodies; k++) {
        if (!s->bodies[k]->is_explained)
            s->bodies[k]->depth = x->l->depth + 1;
        FLXI_TRY(flxi_routine_explain(x->m, s->bodies[k], x->err));
    }
    return s->name && s->computes && s->why ? FLX_OK : flxi_oom(x->err, "a report");
}

flx_code flxi_routine_explain(flxi_program *m, flxi_routine *l, flx_error *err)
{
    explainer x = {.m = m, .l = l, .err = err};
    flx_code code = FLX_OK;
    if (l->is_explained)
        return FLX_OK;
    l->is_explained = true;
    flxi_strbuf_init(&x.text, m->mem);
    for (uint32_t i = 0; code == FLX_OK && i < l->num_steps; i++)
        code = explain_step(&x, i);
    flxi_strbuf_free(&x.text);
    return code;
}
