/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: which transforms a graph went through, and how error messages report them. The name of a transform's
   result records it: `mlp.grad.vmap` is a batched gradient of `mlp`. Text and bytes keep names, so the history survives
   a pipe, and an error says "vmap of grad of 'mlp'". */
#include "autodiff/autodiff.h"

#include <stdio.h>

typedef struct {
    const char *suffix; /* of a name */
    const char *word;   /* in a message */
} transform_row;

static const transform_row transforms[] = {
    {"grad", "grad"},     {"jvp", "jvp"},           {"hvp", "hvp"},
    {"vmap", "vmap"},     {"jac", "jacobian"},      {"hessian", "hessian"},
    {"taylor", "taylor"}, {"nth_grad", "nth_grad"}, {"train", "training step"},
};

const char *flxi_derived_name(const flx_graph *g, const char *suffix, flxi_name *name)
{
    snprintf(name->s, sizeof name->s, "%.250s.%s", g->name, suffix);
    return name->s;
}

flx_graph *flxi_derived_graph(const flx_graph *g, const char *suffix)
{
    flxi_name name;
    flx_graph *made = flx_graph_new(g->ctx, flxi_derived_name(g, suffix, &name));
    if (made)
        made->is_lowered = g->is_lowered;
    return made;
}

static const transform_row *find_transform(const char *suffix, size_t n)
{
    for (size_t i = 0; i < sizeof transforms / sizeof transforms[0]; i++)
        if (strlen(transforms[i].suffix) == n && memcmp(transforms[i].suffix, suffix, n) == 0)
            return &transforms[i];
    return NULL;
}

/* The part of a name after its last dot; NULL when there is none. */
static const char *last_part(const char *name, size_t n)
{
    while (n > 0 && name[n - 1] != '.')
        n--;
    return n ? name + n : NULL;
}

/* "vmap of grad of 'mlp'" for a transform called vmap of mlp.grad. A history too long to read is cut in the middle. */
static void put_history(char *text, size_t size, const char *suffix, const char *name)
{
    enum { READABLE = 45 };
    bool is_cut = false;
    size_t n = strlen(name);
    const transform_row *row = find_transform(suffix, strlen(suffix));
    size_t at = (size_t)snprintf(text, size, "%s of ", row ? row->word : suffix);
    for (const char *part; (part = last_part(name, n)) != NULL; n = (size_t)(part - 1 - name)) {
        row = find_transform(part, n - (size_t)(part - name));
        if (!row)
            break;
        if (at < READABLE)
            at += (size_t)snprintf(text + at, size - at, "%s of ", row->word);
        else if (!is_cut) {
            is_cut = true;
            at += (size_t)snprintf(text + at, size - at, "%s", "... of ");
        }
    }
    snprintf(text + at, size - at, "'%.*s'", n < 40 ? (int)n : 40, name);
}

/* A transform built from others reports their location under its own name. */
static const char *innermost_position(const char *where)
{
    const char *at = strstr(where, ", at ");
    return at ? at + 5 : strstr(where, " of '") ? "" : where;
}

static void add_transform(flx_error *err, const char *suffix, const flx_graph *g)
{
    char position[64];
    char history[120];
    snprintf(position, sizeof position, "%.63s", innermost_position(err->where));
    put_history(history, sizeof history, suffix, flx_graph_name(g));
    snprintf(err->where, sizeof err->where, position[0] ? "%.50s, at %s" : "%s%s", history, position);
}

flx_graph *flxi_transformed(flx_graph *out, const flx_graph *g, const char *suffix, flx_error *local, flx_error *err)
{
    if (!local->code)
        return out;
    flx_graph_release(out);
    add_transform(local, suffix, g);
    if (err)
        *err = *local;
    return NULL;
}

/* ---- Values in messages ---- */

const char *flxi_value_str(const flx_graph *g, uint32_t id, const char *name, flxi_value_text *text)
{
    const flxi_value *v = flxi_value_at(g, id);
    const char *shown = name ? name : v->name;
    flxi_type_text type;
    const char *op = flxi_ops[flxi_node_at(g, v->node)->op].name;
    flxi_type_str(g->ctx, v->type, &type);
    if (shown)
        snprintf(text->s, sizeof text->s, "%s '%.40s' (%.60s)", op, shown, type.text);
    else
        snprintf(text->s, sizeof text->s, "%s (%.60s)", op, type.text);
    return text->s;
}

flx_code flxi_no_rule(flx_error *err, const flx_graph *g, const flxi_node *n, const char *mode)
{
    enum { SHOWN = 3 };
    const flxi_op *op = &flxi_ops[n->op];
    flxi_node_name name;
    char from[150] = "";
    size_t at = 0;
    flxi_type_text type;
    for (uint32_t k = 0; k < n->nin && k < SHOWN; k++)
        at += (size_t)snprintf(from + at, sizeof from - at, "%s%.40s", k ? ", " : "",
                               flxi_type_str(g->ctx, flxi_type_at(g, n->in[k]), &type));
    if (n->nin > SHOWN)
        snprintf(from + at, sizeof from - at, ", ...");
    return flxi_fail_hint(
        err, FLX_E_NO_RULE, op->rules->undefined ? op->rules->undefined : "stop_gradient(x) excludes this path",
        "%s (%s to %.40s) has no derivative in %s mode", flxi_name_node(&name, op, flxi_node_label(g, n), n->origin),
        from, n->nout ? flxi_type_str(g->ctx, flxi_type_at(g, n->first), &type) : "nothing", mode);
}

/* Whether the name is that of a value which is not an input. */
static bool is_computed(const flx_graph *g, const char *name)
{
    for (uint32_t id = 1; id <= g->value_count; id++) {
        const char *label = flxi_value_at(g, id)->name;
        if (label && strcmp(label, name) == 0)
            return true;
    }
    return flx_graph_find(g, name).id != 0;
}

flx_code flxi_no_input(flx_error *err, const flx_graph *g, const char *name)
{
    char text[60];
    char list[41] = ""; /* as much as the hint shows */
    size_t at = 0;
    flxi_printable(text, sizeof text, name, strlen(name));
    for (size_t i = 0; i < g->leaves.n && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "",
                               flxi_value_at(g, g->leaves.at[i])->name);
    flxi_fail(err, FLX_E_NAME, "the graph '%.100s' has no input called '%s'", g->name, text);
    if (is_computed(g, name))
        flxi_hint(err, "it is computed, and the inputs are: %.40s; grad and taylor also take a value that is pinned",
                  at ? list : "none");
    else
        flxi_hint_input(err, g, name);
    return FLX_E_NAME;
}

void flxi_without_options(flx_error *err)
{
    if (err->code == FLX_E_NON_SCALAR)
        flxi_hint(err, "reduce it to one element");
    if (err->code == FLX_E_NO_GRAD_PATH)
        flxi_hint(err, "choose only inputs that the loss depends on");
}
