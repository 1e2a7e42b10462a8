/* SPDX-License-Identifier: Apache-2.0 */
/* export.c: a graph as a StableHLO module: the walk over its nodes, rewriting where it must be, and regions. See
   export.h. */
#include "stablehlo/export/export.h"
#include "stablehlo/bytecode/bytecode.h"

#include <fluxion/stablehlo.h>
#include <fluxion/transform.h>
#include <stdio.h>

enum { MAX_DEPTH = 256 }; /* a few levels for each level of bodies; more is a cycle among rewrites */

/* ---- What decompositions ask of transforms ---- */

static flx_graph *made_or_failed(flxi_site *s, flx_graph *g, const flx_error *err)
{
    if (!g)
        flxi_graph_fail(s->g, err);
    return g;
}

/* Names of the chosen leaves; how many there are in *n. */
static const char **chosen_names(flxi_site *s, const flx_graph *body, const bool *chosen, size_t *n)
{
    const char **names = flxi_rule_new(s, const char *, body->leaves.n);
    *n = 0;
    for (size_t i = 0; names && i < body->leaves.n; i++)
        if (chosen[i])
            names[(*n)++] = flxi_value_at(body, body->leaves.at[i])->name;
    return names;
}

static flx_graph *reversed_body(flxi_site *s, const flx_graph *body, const bool *seeded, const bool *wanted)
{
    static const flx_grad_options options = {.struct_size = sizeof options,
                                             .flags = FLX_GRAD_SEED_INPUT | FLX_GRAD_MISSING_ZERO};
    flx_error err = {0};
    size_t n;
    const char **names = chosen_names(s, body, wanted, &n);
    if (!names)
        return NULL;
    if (body->outputs.n != 1 || !seeded[0]) {
        flxi_site_fail(s, FLX_E_UNSUPPORTED, "differentiate the graph first, then export it",
                       "it contains a derivative that cannot be taken here");
        return NULL;
    }
    return made_or_failed(s, flx_grad(body, names, n, &options, &err), &err);
}

static flx_graph *pushed_body(flxi_site *s, const flx_graph *body, const bool *active)
{
    flx_error err = {0};
    size_t n;
    const char **names = chosen_names(s, body, active, &n);
    return names ? made_or_failed(s, flx_jvp(body, names, n, &err), &err) : NULL;
}

/* Every output gets the batch axis, whatever it depends on. */
static flx_graph *batched_body(flxi_site *s, const flx_graph *body, const bool *batched, bool *out, bool is_fixed)
{
    flx_error err = {0};
    flx_vmap_axis *axes = flxi_rule_new(s, flx_vmap_axis, body->leaves.n);
    (void)is_fixed;
    if (!axes)
        return NULL;
    for (size_t i = 0; i < body->leaves.n; i++)
        axes[i] = (flx_vmap_axis){flxi_value_at(body, body->leaves.at[i])->name, batched[i] ? 0 : FLX_NO_AXIS};
    for (size_t k = 0; k < body->outputs.n; k++)
        out[k] = true;
    return made_or_failed(s, flx_vmap(body, axes, body->leaves.n, NULL, 0, s->size, &err), &err);
}

static bool not_split(flxi_site *s, const flx_graph *body, const bool *wanted, flxi_split_body *out)
{
    (void)s, (void)body, (void)wanted;
    *out = (flxi_split_body){0};
    return true;
}

static flx_graph *as_it_is(flxi_site *s, flx_graph *body)
{
    (void)s;
    return body;
}

/* What decompositions ask for; the rest is for derivatives of custom functions. */
static const flxi_body_transforms transforms = {
    .vjp = reversed_body, .jvp = pushed_body, .vmap = batched_body, .split = not_split, .simplify = as_it_is};

/* ---- Nodes ---- */

static bool is_plain(const export_row *row, const export_query *q)
{
    return row->write && (!row->plain || row->plain(q));
}

/* The node's meaning as a graph on inputs of the operands' types; NULL with the error in w. */
static flx_graph *rewritten(exporter *w, const export_row *row, const flxi_op *op, const flxi_node *n,
                            const flx_graph *g)
{
    void (*rule)(flxi_site *, flx_val *) = row->rewrite ? row->rewrite : op->rules->decompose;
    flx_graph *t = flx_graph_new(w->ctx, op->name);
    flx_val *x = t ? flxi_new(&t->arena, flx_val, n->nin) : NULL;
    flx_val *y = t ? flxi_new(&t->arena, flx_val, n->nout) : NULL;
    char name[24];
    if (!x || !y) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        flx_graph_release(t);
        return NULL;
    }
    for (uint32_t i = 0; i < n->nin; i++) {
        snprintf(name, sizeof name, "x%u", i);
        x[i] = flx_input(t, name, flxi_type_at(g, n->in[i]));
    }
    flxi_site s = {.g = t,
                   .ctx = w->ctx,
                   .op = op,
                   .attrs = n->attrs,
                   .nin = n->nin,
                   .nout = n->nout,
                   .x = x,
                   .bodies = &transforms};
    if (!t->error.code)
        rule(&s, y);
    for (uint32_t k = 0; k < n->nout && !t->error.code; k++) {
        const flx_type *made = flx_val_type(t, y[k]);
        if (made && !flxi_type_equal(made, flxi_type_at(g, n->first + k)))
            flxi_export_fail(w, FLX_E_INTERNAL, NULL, "%s: the exported form has another type", op->name);
        flx_output(t, y[k], NULL);
    }
    if (t->error.code && !w->error.code)
        w->error = t->error;
    if (!w->error.code)
        return t;
    flx_graph_release(t);
    return NULL;
}

static void write_rewritten(exporter *w, const flx_graph *g, const flxi_node *n, const export_row *row,
                            const uint32_t *in, uint32_t *out)
{
    const flxi_op *op = &flxi_ops[n->op];
    if (!row->rewrite && !op->rules->decompose) {
        flxi_export_fail(w, FLX_E_UNSUPPORTED, "the manual lists the ops that have no counterpart (docs/stablehlo.md)",
                         "%s cannot be written as StableHLO", op->name);
        return;
    }
    if (w->depth == MAX_DEPTH) {
        flxi_export_fail(w, FLX_E_INTERNAL, NULL, "%s: rewriting does not end", op->name);
        return;
    }
    flx_graph *t = rewritten(w, row, op, n, g);
    flxi_opcode outer = w->wrapped;
    w->wrapped = row->wraps ? n->op : OP_NONE;
    w->depth++;
    if (t)
        flxi_export_graph_nodes(w, t, in, out);
    w->depth--;
    w->wrapped = outer;
    flx_graph_release(t);
}

static export_val *values_of(exporter *w, const flx_graph *g, const uint32_t *ids, uint32_t first, uint32_t n,
                             const uint32_t *number)
{
    export_val *v = flxi_new(&w->scratch, export_val, n);
    for (uint32_t i = 0; v && i < n; i++) {
        uint32_t id = ids ? ids[i] : first + i;
        v[i] = (export_val){number[id], flxi_type_at(g, id)};
    }
    if (!v)
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
    return v;
}

static void write_node(exporter *w, const flx_graph *g, const flxi_node *n, uint32_t *number)
{
    const flxi_op *op = &flxi_ops[n->op];
    const export_row *row = flxi_export_row(n->op);
    flxi_mark mark = flxi_arena_mark(&w->scratch);
    export_val *in = values_of(w, g, n->in, 0, n->nin, number);
    export_val *out = values_of(w, g, NULL, n->first, n->nout, number);
    const flx_type **types = flxi_new(&w->scratch, const flx_type *, n->nin);
    uint32_t *numbers = flxi_new(&w->scratch, uint32_t, n->nin + n->nout);
    if (!in || !out || !types || !numbers) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    for (uint32_t i = 0; i < n->nin; i++) {
        types[i] = in[i].type;
        numbers[i] = in[i].number;
    }
    export_query q = {.op = op, .attrs = n->attrs, .nin = n->nin, .in = types};
    if (n->op == w->wrapped || is_plain(row, &q)) {
        export_node node = {.w = w,
                            .op = op,
                            .attrs = n->attrs,
                            .name = row->name,
                            .nin = n->nin,
                            .nout = n->nout,
                            .in = in,
                            .out = out};
        row->write(&node);
        for (uint32_t k = 0; k < n->nout; k++)
            number[n->first + k] = out[k].number;
    } else {
        write_rewritten(w, g, n, row, numbers, numbers + n->nin);
        for (uint32_t k = 0; k < n->nout; k++)
            number[n->first + k] = numbers[n->nin + k];
    }
    const char *label = n->nout ? flxi_value_at(g, n->first)->name : NULL;
    if (w->error.code && w->depth == 0)
        flxi_at(&w->error, "%s/%s", g->name, label ? label : op->name);
    flxi_arena_rewind(&w->scratch, mark);
}

/* ---- Graphs ---- */

/* The nodes that effects and outputs need, each after what it reads: an order that follows from the graph alone. That
   in which nodes were made does not: a C compiler chooses the order in which the arguments of nested builders are
   evaluated. */
typedef struct {
    const flx_graph *g;
    bool *seen;      /* by node */
    uint32_t *stack; /* nodes that wait for their operands */
    uint32_t *next;  /* operand that each of them waits for */
    uint32_t *order;
    uint32_t n;
} node_order;

static bool order_new(exporter *w, const flx_graph *g, node_order *o)
{
    size_t n = (size_t)g->node_count + 1;
    *o = (node_order){.g = g,
                      .seen = flxi_new(&w->scratch, bool, n),
                      .stack = flxi_new(&w->scratch, uint32_t, n),
                      .next = flxi_new(&w->scratch, uint32_t, n),
                      .order = flxi_new(&w->scratch, uint32_t, n)};
    return o->seen && o->stack && o->next && o->order;
}

static void order_visit(node_order *o, uint32_t root)
{
    size_t depth = 0;
    if (o->seen[root])
        return;
    o->seen[root] = true;
    o->stack[depth++] = root;
    while (depth) {
        uint32_t i = o->stack[depth - 1];
        const flxi_node *n = flxi_node_at(o->g, i);
        if (o->next[i] == n->nin) {
            o->order[o->n++] = i;
            depth--;
            continue;
        }
        uint32_t operand = flxi_value_at(o->g, n->in[o->next[i]++])->node;
        if (!o->seen[operand]) {
            o->seen[operand] = true;
            o->stack[depth++] = operand;
        }
    }
}

static void order_fill(node_order *o)
{
    for (uint32_t i = 0; i < o->g->node_count; i++)
        if (flxi_has_effect(flxi_node_at(o->g, i)))
            order_visit(o, i);
    for (size_t k = 0; k < o->g->outputs.n; k++)
        order_visit(o, flxi_value_at(o->g, o->g->outputs.at[k].val)->node);
}

void flxi_export_graph_nodes(exporter *w, const flx_graph *g, const uint32_t *args, uint32_t *results)
{
    flxi_mark mark = flxi_arena_mark(&w->scratch);
    uint32_t *number = flxi_new(&w->scratch, uint32_t, (size_t)g->value_count + 1);
    node_order o;
    if (!number || !order_new(w, g, &o)) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    order_fill(&o);
    for (size_t i = 0; i < g->leaves.n; i++)
        number[g->leaves.at[i]] = args[i];
    for (uint32_t i = 0; i < o.n && !w->error.code && !w->out.failed; i++) {
        const flxi_node *n = flxi_node_at(g, o.order[i]);
        if (!(flxi_ops[n->op].traits & TRAIT_DECLARED))
            write_node(w, g, n, number);
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        results[k] = number[g->outputs.at[k].val];
    flxi_arena_rewind(&w->scratch, mark);
}

/* ---- Regions ---- */

void flxi_export_return(exporter *w, const char *op, const export_val *v, uint32_t n)
{
    flxi_export_line(w);
    flxi_add_text(&w->out, op);
    if (n == 0)
        return;
    flxi_add_char(&w->out, ' ');
    flxi_export_values(w, v, n);
    flxi_add_text(&w->out, " : ");
    flxi_export_types(w, v, n);
}

static void open_region(exporter *w, const export_val *args, uint32_t n)
{
    flxi_add_char(&w->out, '{');
    if (n) {
        flxi_export_line(w);
        flxi_add_text(&w->out, "^bb0(");
        for (uint32_t i = 0; i < n; i++) {
            flxi_add_text(&w->out, i ? ", " : "");
            flxi_export_value(w, args[i].number);
            flxi_add_text(&w->out, ": ");
            flxi_export_type(w, args[i].type);
        }
        flxi_add_text(&w->out, "):");
    }
    w->indent++;
}

static void close_region(exporter *w, const export_val *results, uint32_t n)
{
    flxi_export_return(w, "stablehlo.return", results, n);
    w->indent--;
    flxi_export_line(w);
    flxi_add_char(&w->out, '}');
}

static void call_body(exporter *w, const flx_graph *body, const uint32_t *args, uint32_t *results)
{
    uint32_t nin = (uint32_t)body->leaves.n, nout = (uint32_t)body->outputs.n;
    export_val *v = flxi_new(&w->scratch, export_val, nin + nout + 1);
    if (!v) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    for (uint32_t i = 0; i < nin; i++)
        v[i] = (export_val){args[i], flxi_type_at(body, body->leaves.at[i])};
    for (uint32_t k = 0; k < nout; k++)
        v[nin + k].type = flxi_type_at(body, body->outputs.at[k].val);
    flxi_export_call(w, body, v, nin, v + nin, nout);
    for (uint32_t k = 0; k < nout; k++)
        results[k] = v[nin + k].number;
}

void flxi_export_region(exporter *w, const flx_graph *body, const uint32_t *bound, const bool *dropped)
{
    uint32_t nin = (uint32_t)body->leaves.n;
    uint32_t nout = (uint32_t)body->outputs.n;
    flxi_mark mark = flxi_arena_mark(&w->scratch);
    uint32_t *numbers = flxi_new(&w->scratch, uint32_t, nin + nout);
    export_val *v = flxi_new(&w->scratch, export_val, nin + nout);
    uint32_t n = 0;
    if (!numbers || !v) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    for (uint32_t i = 0; i < nin; i++) {
        bool is_arg = !bound || bound[i] == EXPORT_UNBOUND;
        numbers[i] = is_arg ? w->next++ : bound[i];
        if (is_arg)
            v[n++] = (export_val){numbers[i], flxi_type_at(body, body->leaves.at[i])};
    }
    open_region(w, v, n);
    if (flxi_export_is_called(w, body))
        call_body(w, body, numbers, numbers + nin);
    else
        flxi_export_graph_nodes(w, body, numbers, numbers + nin);
    n = 0;
    for (uint32_t k = 0; k < nout; k++)
        if (!dropped || !dropped[k])
            v[n++] = (export_val){numbers[nin + k], flxi_type_at(body, body->outputs.at[k].val)};
    close_region(w, v, n);
    flxi_arena_rewind(&w->scratch, mark);
}

void flxi_export_word_region(exporter *w, const char *word, int32_t dtype)
{
    flx_type scalar = flx_type_make((flx_dtype)dtype, 0, NULL);
    flx_graph *g = flx_graph_new(w->ctx, word);
    if (!g) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    flx_val x[2] = {flx_input(g, "a", &scalar), flx_input(g, "b", &scalar)};
    flx_output(g, strcmp(word, "set") == 0 ? x[1] : flx_op1(g, word, x, 2, NULL, 0), NULL);
    if (g->error.code && !w->error.code)
        w->error = g->error;
    if (!w->error.code)
        flxi_export_region(w, g, NULL, NULL);
    flx_graph_release(g);
}

/* ---- The module ---- */

static void write_leaf(exporter *w, uint32_t i)
{
    flxi_add_text(&w->out, i ? ", " : "");
    flxi_export_value(w, i);
    flxi_add_text(&w->out, ": ");
    flxi_export_type(w, flxi_type_at(w->main, w->main->leaves.at[i]));
}

static void write_function(exporter *w, uint32_t *args, uint32_t *results, export_val *returned)
{
    const flx_graph *g = w->main;
    flxi_export_line(w);
    flxi_add_text(&w->out, "func.func public @main(");
    for (uint32_t i = 0; i < g->leaves.n; i++) {
        args[i] = w->next++;
        write_leaf(w, i);
    }
    flxi_add_text(&w->out, ") -> (");
    for (size_t k = 0; k < g->outputs.n; k++) {
        flxi_add_text(&w->out, k ? ", " : "");
        flxi_export_type(w, flxi_type_at(g, g->outputs.at[k].val));
        flxi_add_text(&w->out, " {jax.result_info = ");
        flxi_add_quoted(&w->out, g->outputs.at[k].name);
        flxi_add_char(&w->out, '}');
    }
    flxi_add_text(&w->out, ") {");
    w->indent++;
    flxi_export_graph_nodes(w, g, args, results);
    for (size_t k = 0; k < g->outputs.n; k++)
        returned[k] = (export_val){results[k], flxi_type_at(g, g->outputs.at[k].val)};
    flxi_export_return(w, "func.return", returned, (uint32_t)g->outputs.n);
    w->indent--;
    flxi_export_line(w);
    flxi_add_char(&w->out, '}');
}

static void write_module(exporter *w)
{
    const flx_graph *g = w->main;
    uint32_t *numbers = flxi_new(&w->scratch, uint32_t, g->leaves.n + g->outputs.n);
    export_val *returned = flxi_new(&w->scratch, export_val, g->outputs.n);
    if (!numbers || !returned) {
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
        return;
    }
    flxi_addf(&w->out, "module @");
    if (flxi_is_name(g->name, strlen(g->name)))
        flxi_add_text(&w->out, g->name);
    else
        flxi_add_quoted(&w->out, g->name);
    flxi_add_text(&w->out, " {");
    w->indent = 1;
    write_function(w, numbers, numbers + g->leaves.n, returned);
    flxi_export_functions(w);
    flxi_add_text(&w->out, "\n}\n");
}

static flx_code check_exportable(const flx_graph *g, const flx_buffer *out, flx_error *err)
{
    if (!g || !out)
        return flxi_fail(err, FLX_E_USAGE, "exporting: graph and buffer must be given");
    FLXI_TRY(flxi_graph_check(g, err));
    if (g->symbols.n)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "give it an extent: flx_specialise, or --set of flx export",
                              "graph '%s' has the symbolic dimension %s; StableHLO text needs numbers", g->name,
                              g->symbols.at[0]);
    return FLX_OK;
}

/* The text is the one description of how ops are written, so the bytes are made from it. */
flx_code flx_export_stablehlo_bytecode(const flx_graph *g, flx_buffer *out, flx_error *err)
{
    flx_buffer text = {0};
    hlo_module m = {0};
    flxi_strbuf bytes;
    FLXI_TRY(flx_export_stablehlo(g, out ? &text : NULL, err));
    *out = (flx_buffer){0};
    flxi_strbuf_init(&bytes, &g->ctx->mem);
    flx_code code = flxi_hlo_parse(&g->ctx->mem, text.data, text.size, "exported", &m, err);
    if (code == FLX_OK) {
        code = flxi_hlo_write_bytecode(&m, &bytes, err);
        flxi_hlo_module_free(&m);
    }
    flx_buffer_free(&text);
    if (code == FLX_OK)
        return flxi_buffer_finish(&bytes, g->ctx, out, err);
    flxi_strbuf_free(&bytes);
    return code == FLX_E_OOM ? flxi_oom(err, "exporting") : code;
}

flx_code flx_export_stablehlo(const flx_graph *g, flx_buffer *out, flx_error *err)
{
    FLXI_TRY(check_exportable(g, out, err));
    *out = (flx_buffer){0};
    exporter w = {.ctx = g->ctx, .main = g};
    flxi_strbuf_init(&w.out, &g->ctx->mem);
    flxi_arena_init(&w.scratch, &g->ctx->mem);
    write_module(&w);
    flxi_export_functions_free(&w);
    flxi_arena_free(&w.scratch);
    if (w.error.code) {
        flxi_strbuf_free(&w.out);
        if (err)
            *err = w.error;
        return (flx_code)w.error.code;
    }
    return flxi_buffer_finish(&w.out, g->ctx, out, err);
}
