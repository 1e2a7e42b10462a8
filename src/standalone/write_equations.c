/* SPDX-License-Identifier: Apache-2.0 */
/* write_equations.c: what a function computes, as the comment before it: an equation for each value that has a name or
   that several others need, in the words of the graph. */
#include "base/number.h"
#include "graph/op/eval.h"
#include "graph/op/origin.h"
#include "standalone/standalone.h"

#include <math.h>

enum { MOST_LINES = 24, MOST_COLUMNS = 110, ENOUGH = 1000, MOST_NODES = 100 };

typedef struct {
    flxi_sa_file *f;
    const flxi_routine *l;
    const flxi_step *s;
    flxi_strbuf out;
    size_t lines, line_at;
} equations;

/* The nodes of the step in order; those of kernels may be many. */
static uint32_t node_count(const flxi_step *s)
{
    return s->nodes ? s->num_nodes : 1;
}

static uint32_t node_of(const flxi_step *s, uint32_t i)
{
    return s->nodes ? s->nodes[i] : s->node;
}

static bool is_inside(const equations *x, uint32_t node)
{
    for (uint32_t i = 0; i < node_count(x->s); i++)
        if (node_of(x->s, i) == node)
            return true;
    return false;
}

/* Whether the value is only here: then what it is must be said. */
static bool is_hidden(const equations *x, uint32_t value)
{
    uint32_t node = flxi_value_at(x->l->g, value)->node;
    return is_inside(x, node) || (!x->l->slot_of[value] && flxi_node_at(x->l->g, node)->nin > 0);
}

static size_t uses_of(const equations *x, uint32_t value)
{
    size_t uses = 0;
    for (uint32_t i = 0; i < node_count(x->s); i++) {
        const flxi_node *n = flxi_node_at(x->l->g, node_of(x->s, i));
        for (uint32_t k = 0; k < n->nin; k++)
            uses += n->in[k] == value;
    }
    return uses;
}

/* Whether the value has a line of its own. */
static bool has_line(const equations *x, uint32_t value)
{
    const flxi_value *v = flxi_value_at(x->l->g, value);
    return is_inside(x, v->node) && (v->name || uses_of(x, value) != 1 || x->l->slot_of[value]);
}

/* A scalar constant by its value. */
static bool add_scalar(equations *x, const flxi_node *n, const flxi_value *v)
{
    char text[FLXI_NUMBER_MAX];
    if (!flxi_is_const(n) || v->type->rank != 0 || flxi_is_complex(v->type->dtype))
        return false;
    double value = flxi_load_double(v->type->dtype, flxi_const_data(n)->data, 0);
    if (x->f->num_symbols && !(fabs(value) < 100 && value * 64 == floor(value * 64)))
        return false; /* it may depend on an extent */
    flxi_write_double(text, value, v->type->dtype == FLX_F64 ? 53 : 24);
    flxi_add_text(&x->out, text);
    return true;
}

static void add_name(equations *x, uint32_t value)
{
    const flxi_value *v = flxi_value_at(x->l->g, value);
    if (v->name)
        flxi_add_text(&x->out, v->name);
    else if (add_scalar(x, flxi_node_at(x->l->g, v->node), v))
        return;
    else
        flxi_addf(&x->out, "%s_%u", flxi_ops[flxi_node_at(x->l->g, v->node)->op].name, value);
}

static void add_node(equations *x, const flxi_node *n, int depth);

static void add_operand(equations *x, uint32_t value, int depth)
{
    const flxi_value *v = flxi_value_at(x->l->g, value);
    if (depth < 8 && x->out.n - x->line_at < MOST_COLUMNS && is_hidden(x, value) && !has_line(x, value))
        add_node(x, flxi_node_at(x->l->g, v->node), depth + 1);
    else
        add_name(x, value);
}

static void add_node(equations *x, const flxi_node *n, int depth)
{
    flxi_addf(&x->out, "%s(", flxi_ops[n->op].name);
    for (uint32_t k = 0; k < n->nin; k++) {
        flxi_add_text(&x->out, k ? ", " : "");
        add_operand(x, n->in[k], depth);
    }
    flxi_add_char(&x->out, ')');
}

/* name, other = op(x, y) */
static void add_line(equations *x, const flxi_node *n)
{
    flxi_add_text(&x->out, x->lines ? "\n" : "");
    x->lines++;
    x->line_at = x->out.n;
    for (uint32_t k = 0; k < n->nout; k++) {
        flxi_add_text(&x->out, k ? ", " : "");
        add_name(x, n->first + k);
    }
    flxi_add_text(&x->out, " = ");
    add_node(x, n, 0);
}

const char *flxi_sa_equations(flxi_sa_file *f, const flxi_routine *l, const flxi_step *s)
{
    equations x = {.f = f, .l = l, .s = s};
    bool fits = node_count(s) <= MOST_NODES;
    const char *text = NULL, *other = s->computes ? s->computes : "";
    flxi_strbuf_init(&x.out, f->mem);
    for (uint32_t i = 0; fits && i < node_count(s); i++) {
        const flxi_node *n = flxi_node_at(l->g, node_of(s, i));
        bool is_shown = false;
        for (uint32_t k = 0; k < n->nout; k++)
            is_shown |= has_line(&x, n->first + k);
        if (is_shown)
            add_line(&x, n);
        fits = x.lines <= MOST_LINES && x.out.n < (x.lines + 1) * ENOUGH && x.out.n - x.line_at <= MOST_COLUMNS + 40;
    }
    if (fits && x.lines && x.out.at && !x.out.failed)
        text = flxi_arena_text(&f->arena, x.out.at, x.out.n);
    f->failed |= x.out.failed;
    flxi_strbuf_free(&x.out);
    return text ? text : other;
}
