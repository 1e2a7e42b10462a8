/* SPDX-License-Identifier: Apache-2.0 */
/* print.c: graphs as text that reads back to the same graph.

   One statement per node, in order. A scalar constant that is used once, has no name of its own and comes right before
   its user is written as a bare number inside the call, if the parser would give it the same dtype; the parser makes
   such constants at the same position (parse_expr.c), so the ids are the same after reading. Names: leaves keep theirs;
   an output's name is the name of its variable where possible, otherwise `name = variable` is written before the
   return. A pinned value whose statement cannot express it (a leaf, or one of several results) gets the line `pin _ =
   variable`. */
#include "base/number.h"
#include "graph/initialisation.h"
#include "graph/module.h"
#include "graph/names.h"
#include "graph/op/eval.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>

enum { LIST_LIMIT = 32 }; /* larger literals are written as hexadecimal bytes */

typedef struct {
    const flx_graph *g;
    flxi_strbuf *out;
    flxi_arena scratch;
    const char **names;    /* by id: the variable, NULL for a constant written inline */
    uint32_t *uses;        /* by id */
    bool *inlined;         /* by id */
    flxi_names taken;      /* names in use in this graph */
    uint32_t *repeats;     /* by id: how many outputs so far took their names from the value's variable */
    const char **returned; /* by output: what is written after `return` */
    const flxi_graph_list *list;
    const char *const *graph_names; /* by position in list */
} printer;

/* ---- Numbers and literals ---- */

static bool is_plain_nan(int32_t dtype, const void *data, int64_t i)
{
    unsigned char canonical[16] = {0};
    size_t size = flx_dtype_size(dtype);
    flxi_store_double(dtype, canonical, 0, NAN);
    return memcmp(canonical, (const char *)data + (size_t)i * size, size) == 0;
}

/* Can element i be written as a decimal number and read back to the same bits? */
static bool is_writable(int32_t dtype, const void *data, int64_t i)
{
    if (flxi_is_complex(dtype))
        return is_writable(flxi_part_dtype(dtype), data, 2 * i) && is_writable(flxi_part_dtype(dtype), data, 2 * i + 1);
    if (!flxi_is_float(dtype))
        return true;
    return !isnan(flxi_load_double(dtype, data, i)) || is_plain_nan(dtype, data, i);
}

static void write_real(flxi_strbuf *out, int32_t dtype, const void *data, int64_t i)
{
    char text[FLXI_NUMBER_MAX];
    if (dtype == FLX_BOOL) {
        flxi_add_text(out, flxi_load_int(dtype, data, i) ? "true" : "false");
    } else if (dtype == FLX_U64) {
        flxi_addf(out, "%llu", (unsigned long long)flxi_load_int(dtype, data, i));
    } else if (flxi_is_int(dtype)) {
        flxi_addf(out, "%lld", (long long)flxi_load_int(dtype, data, i));
    } else {
        flxi_write_double(text, flxi_load_double(dtype, data, i), flxi_mantissa_bits(dtype));
        flxi_add_text(out, text);
    }
}

void flxi_write_element(flxi_strbuf *out, int32_t dtype, const void *data, int64_t i)
{
    if (!flxi_is_complex(dtype)) {
        write_real(out, dtype, data, i);
        return;
    }
    flxi_add_char(out, '[');
    write_real(out, flxi_part_dtype(dtype), data, 2 * i);
    flxi_add_text(out, ", ");
    write_real(out, flxi_part_dtype(dtype), data, 2 * i + 1);
    flxi_add_char(out, ']');
}

static void write_nested(flxi_strbuf *out, const flx_tensor *t, int axis, int64_t *at)
{
    if (axis == t->type.rank) {
        flxi_write_element(out, t->type.dtype, t->data, (*at)++);
        return;
    }
    flxi_add_char(out, '[');
    for (int64_t i = 0; i < t->type.dims[axis]; i++) {
        if (i)
            flxi_add_text(out, ", ");
        write_nested(out, t, axis + 1, at);
    }
    flxi_add_char(out, ']');
}

static void write_hex(flxi_strbuf *out, const flx_tensor *t)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = t->data;
    flxi_add_char(out, '"');
    for (size_t i = 0; i < t->nbytes && !out->failed; i++) {
        char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        flxi_add_bytes(out, pair, 2);
    }
    flxi_add_char(out, '"');
}

static void write_literal(flxi_strbuf *out, const flx_tensor *t)
{
    bool as_list = t->count > 0 && t->count <= LIST_LIMIT;
    for (int64_t i = 0; as_list && i < t->count; i++)
        as_list = is_writable(t->type.dtype, t->data, i);
    int64_t at = 0;
    if (as_list)
        write_nested(out, t, 0, &at);
    else
        write_hex(out, t);
}

/* ---- Attributes ---- */

static void write_graph(printer *p, const flx_graph *body)
{
    size_t i = flxi_graph_position(p->list, body);
    flxi_add_char(p->out, '@');
    flxi_add_text(p->out, i == SIZE_MAX ? body->name : p->graph_names[i]);
}

static void write_word(flxi_strbuf *out, const char *words, int64_t i)
{
    size_t n = 0;
    const char *s = flxi_word_at(words, i, &n);
    flxi_add_bytes(out, s ? s : "", n);
}

static void write_list(printer *p, const flxi_attr *a, const void *field)
{
    const flx_ints *list = field;
    flxi_strbuf *out = p->out;
    bool pairs = a->kind == ATTR_PAIRS;
    flxi_add_char(out, '[');
    for (size_t i = 0; i < list->n; i += pairs ? 2 : 1) {
        if (i)
            flxi_add_text(out, ", ");
        if (a->kind == ATTR_BOOLS) {
            flxi_add_text(out, list->v[i] ? "true" : "false");
        } else if (pairs && list->v[i] != list->v[i + 1]) {
            flxi_addf(out, "[%lld, %lld]", (long long)list->v[i], (long long)list->v[i + 1]);
        } else {
            flxi_dim_write(p->g->ctx, list->v[i], out);
        }
    }
    flxi_add_char(out, ']');
}

/* A symbol may be called none, which is how an absent attribute is written. */
static void write_dim(printer *p, flx_dim d)
{
    size_t start = p->out->n;
    flxi_dim_write(p->g->ctx, d, p->out);
    if (!p->out->failed && strcmp(p->out->at + start, "none") == 0) {
        p->out->n = start;
        flxi_add_text(p->out, "(none)");
    }
}

static void write_number(flxi_strbuf *out, double x)
{
    char text[FLXI_NUMBER_MAX];
    flxi_write_double(text, x, 53);
    flxi_add_text(out, text);
}

/* ---- Attributes by kind ---- */

static void attr_int(printer *p, const flxi_attr *a, const void *field)
{
    (void)a;
    flxi_addf(p->out, "%lld", (long long)*(const int64_t *)field);
}

static void attr_bool(printer *p, const flxi_attr *a, const void *field)
{
    (void)a;
    flxi_add_text(p->out, *(const int64_t *)field ? "true" : "false");
}

static void attr_real(printer *p, const flxi_attr *a, const void *field)
{
    (void)a;
    write_number(p->out, *(const double *)field);
}

static void attr_word(printer *p, const flxi_attr *a, const void *field)
{
    write_word(p->out, a->words, *(const int64_t *)field);
}

static void attr_dtype(printer *p, const flxi_attr *a, const void *field)
{
    (void)a;
    flxi_add_text(p->out, flx_dtype_name((int32_t) * (const int64_t *)field));
}

static void attr_dim(printer *p, const flxi_attr *a, const void *field)
{
    (void)a;
    write_dim(p, *(const flx_dim *)field);
}

static void attr_reals(printer *p, const flxi_attr *a, const void *field)
{
    const flx_reals *list = field;
    (void)a;
    flxi_add_char(p->out, '[');
    for (size_t i = 0; i < list->n; i++) {
        flxi_add_text(p->out, i ? ", " : "");
        write_number(p->out, list->v[i]);
    }
    flxi_add_char(p->out, ']');
}

static void attr_string(printer *p, const flxi_attr *a, const void *field)
{
    if (a->flags & ATTR_OWN)
        flxi_add_text(p->out, *(const char *const *)field);
    else
        flxi_add_quoted(p->out, *(const char *const *)field);
}

static void attr_type(printer *p, const flxi_attr *a, const void *field)
{
    (void)a;
    flxi_type_write(p->g->ctx, *(const flx_type *const *)field, p->out);
}

static void attr_types(printer *p, const flxi_attr *a, const void *field)
{
    const flx_types *list = field;
    (void)a;
    flxi_add_char(p->out, '[');
    for (size_t i = 0; i < list->n; i++) {
        flxi_add_text(p->out, i ? ", " : "");
        flxi_type_write(p->g->ctx, &list->v[i], p->out);
    }
    flxi_add_char(p->out, ']');
}

static void attr_graph(printer *p, const flxi_attr *a, const void *field)
{
    (void)a;
    write_graph(p, *(const flx_graph *const *)field);
}

static void attr_graphs(printer *p, const flxi_attr *a, const void *field)
{
    const flx_graphs *list = field;
    (void)a;
    flxi_add_char(p->out, '[');
    for (size_t i = 0; i < list->n; i++) {
        flxi_add_text(p->out, i ? ", " : "");
        write_graph(p, list->v[i]);
    }
    flxi_add_char(p->out, ']');
}

static void attr_combine(printer *p, const flxi_attr *a, const void *field)
{
    const flxi_combine *c = field;
    if (c->graph)
        write_graph(p, c->graph);
    else
        write_word(p->out, a->words, c->word);
}

static void attr_data(printer *p, const flxi_attr *a, const void *field)
{
    (void)a;
    write_literal(p->out, *(const flx_tensor *const *)field);
}

#define attr_ints write_list
#define attr_bools write_list
#define attr_dims write_list
#define attr_pairs write_list
#define attr_value attr_data

/* A kind without a function here does not compile. */
static void (*const printers[])(printer *p, const flxi_attr *a, const void *field) = {
#define PRINTER(NAME, name) [ATTR_##NAME] = attr_##name,
    FLXI_ATTR_KINDS(PRINTER)
#undef PRINTER
};

static void write_attr(printer *p, const flxi_attr *a, const void *field)
{
    printers[a->kind](p, a, field);
}

/* ---- Constants written inline ---- */

static bool inline_candidate(const printer *p, uint32_t id, uint32_t expected_node)
{
    const flxi_value *v = flxi_value_at(p->g, id);
    const flxi_node *n = flxi_node_at(p->g, v->node);
    if (!flxi_is_const(n) || v->type->rank != 0 || v->name || v->pinned || p->uses[id] != 1)
        return false;
    const flx_tensor *t = flxi_const_data(n);
    if (v->node != expected_node || !is_writable(t->type.dtype, t->data, 0))
        return false;
    double imag = flxi_is_complex(t->type.dtype) ? cimag(flxi_load_complex(t->type.dtype, t->data, 0)) : 0.0;
    return imag == 0.0 && !signbit(imag);
}

static bool is_bare(const void *user, uint32_t k)
{
    return ((const bool *)user)[k];
}

/* The dtype that the parser gives to a bare number as operand k. */
static int32_t reader_dtype(const printer *p, const flxi_node *n, uint32_t k, const bool *bare)
{
    uint32_t anchor = flxi_number_anchor(&flxi_ops[n->op], k, n->nin, is_bare, bare);
    if (anchor != UINT32_MAX)
        return flxi_type_at(p->g, n->in[anchor])->dtype;
    return flxi_number_dtype(&flxi_ops[n->op], k, flxi_type_at(p->g, n->in[k])->dtype == FLX_BOOL);
}

/* The node before node i, ignoring leaves, which are all declared first in the text; UINT32_MAX: there is none. */
static uint32_t node_before(const printer *p, uint32_t i)
{
    while (i-- > 0 && (flxi_ops[flxi_node_at(p->g, i)->op].traits & TRAIT_DECLARED))
        ;
    return i;
}

/* Bare numbers are the last nodes before their user, in operand order; so they are found from the end. */
static void mark_inlined(printer *p, uint32_t i, bool *bare)
{
    const flxi_node *n = flxi_node_at(p->g, i);
    uint32_t expected = n->nin ? node_before(p, i) : UINT32_MAX;
    uint32_t found = 0;
    for (uint32_t k = n->nin; k-- > 0;) {
        bare[k] = inline_candidate(p, n->in[k], expected);
        if (bare[k]) {
            expected = node_before(p, expected);
            found++;
        }
    }
    for (uint32_t k = 0; found && k < n->nin; k++)
        if (bare[k] && reader_dtype(p, n, k, bare) != flxi_type_at(p->g, n->in[k])->dtype)
            found = 0; /* then none is inlined: the order of the others would no longer hold */
    for (uint32_t k = 0; found && k < n->nin; k++)
        if (bare[k])
            p->inlined[n->in[k]] = true;
}

/* ---- Names ---- */

static bool name_values(printer *p)
{
    const flx_graph *g = p->g;
    for (size_t i = 0; i < g->leaves.n; i++) {
        const char *name = flxi_value_at(g, g->leaves.at[i])->name;
        p->names[g->leaves.at[i]] = flxi_intern(&p->taken.pool, name, strlen(name));
        if (!p->names[g->leaves.at[i]])
            return false;
    }
    for (size_t i = 0; i < g->outputs.n; i++) { /* an output's name is reserved for it */
        const flxi_output *o = &g->outputs.at[i];
        const char *kept = flxi_intern(&p->taken.pool, o->name, strlen(o->name));
        if (!kept)
            return false;
        if (!p->names[o->val])
            p->names[o->val] = kept;
    }
    uint32_t counter = 0;
    for (uint32_t id = 1; id <= g->value_count; id++) {
        char text[24];
        const char *label = flxi_value_at(g, id)->name;
        if (p->names[id] || p->inlined[id])
            continue;
        if (!label) {
            do
                snprintf(text, sizeof text, "v%u", counter++);
            while (flxi_is_interned(&p->taken.pool, text));
            label = text;
        }
        p->names[id] = flxi_unique_name(&p->taken, label);
        if (!p->names[id])
            return false;
    }
    return true;
}

/* ---- Statements ---- */

static void write_call(printer *p, const flxi_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    const char *separator = "";
    flxi_add_text(p->out, op->name);
    flxi_add_char(p->out, '(');
    for (uint32_t k = 0; k < n->nin; k++) {
        flxi_add_text(p->out, separator);
        separator = ", ";
        if (p->inlined[n->in[k]]) {
            const flx_tensor *t = flxi_const_data(flxi_node_of(p->g, n->in[k]));
            write_real(p->out, flxi_part_dtype(t->type.dtype), t->data, 0);
        } else {
            flxi_add_text(p->out, p->names[n->in[k]]);
        }
    }
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++) {
        const void *field = (const char *)n->attrs + a->offset;
        if (flxi_attr_is_default(a, field))
            continue;
        flxi_add_text(p->out, separator);
        separator = ", ";
        if (!(a->flags & (ATTR_POSITIONAL | ATTR_OWN))) {
            flxi_add_text(p->out, a->name);
            flxi_add_char(p->out, '=');
        }
        write_attr(p, a, field);
    }
    flxi_add_char(p->out, ')');
}

static uint32_t count_pinned(const printer *p, const flxi_node *n)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < n->nout; k++)
        count += flxi_value_at(p->g, n->first + k)->pinned != 0;
    return count;
}

static void write_pins(printer *p, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nout; k++) {
        if (!flxi_value_at(p->g, n->first + k)->pinned)
            continue;
        flxi_add_text(p->out, "  pin _ = ");
        flxi_add_text(p->out, p->names[n->first + k]);
        flxi_add_char(p->out, '\n');
    }
}

static void write_statement(printer *p, const flxi_node *n)
{
    uint32_t pinned = count_pinned(p, n);
    if ((flxi_ops[n->op].traits & TRAIT_DECLARED) || p->inlined[n->first])
        return;
    flxi_add_text(p->out, pinned == n->nout ? "  pin " : "  ");
    for (uint32_t k = 0; k < n->nout; k++) {
        flxi_add_text(p->out, k ? ", " : "");
        flxi_add_text(p->out, p->names[n->first + k]);
    }
    flxi_add_text(p->out, " = ");
    write_call(p, n);
    flxi_add_char(p->out, '\n');
    if (pinned < n->nout)
        write_pins(p, n);
}

/* Whether the parser gives output i its name when the value's variable is returned. It does for the variable's own
   name, and `return z, z, z` makes z, z_2 and z_3; any other name needs an alias. Must be called once per output, in
   order. */
static bool reader_names_it(printer *p, size_t i)
{
    const flxi_output *o = &p->g->outputs.at[i];
    const char *base = p->names[o->val];
    uint32_t *repeats = &p->repeats[o->val];
    char suffix[16] = "";
    if (*repeats)
        snprintf(suffix, sizeof suffix, "_%u", *repeats + 1);
    size_t length = strlen(base);
    bool same = strncmp(o->name, base, length) == 0 && strcmp(o->name + length, suffix) == 0;
    *repeats += same;
    return same;
}

static void write_returns(printer *p)
{
    const flx_graph *g = p->g;
    for (size_t i = 0; i < g->outputs.n; i++) {
        const flxi_output *o = &g->outputs.at[i];
        p->returned[i] = p->names[o->val];
        if (reader_names_it(p, i))
            continue;
        p->returned[i] = o->name;
        flxi_add_text(p->out, "  ");
        flxi_add_text(p->out, o->name);
        flxi_add_text(p->out, " = ");
        flxi_add_text(p->out, p->names[o->val]);
        flxi_add_char(p->out, '\n');
    }
    flxi_add_text(p->out, "  return");
    for (size_t i = 0; i < g->outputs.n; i++) {
        flxi_add_text(p->out, i ? ", " : " ");
        flxi_add_text(p->out, p->returned[i]);
    }
    flxi_add_text(p->out, "\n}\n");
}

static void write_init(printer *p, uint32_t id)
{
    flx_init init = flxi_leaf_init(p->g, id);
    size_t n = 0;
    if (!init.kind)
        return;
    const char *name = flxi_init_name(init.kind, &n);
    flxi_add_text(p->out, " ~ ");
    flxi_add_bytes(p->out, name, n);
    if (init.scale == 1 && init.kind != FLX_INIT_CONSTANT)
        return;
    flxi_add_char(p->out, '(');
    write_number(p->out, init.scale);
    flxi_add_char(p->out, ')');
}

static void write_header(printer *p, const char *name)
{
    flxi_add_text(p->out, "graph ");
    flxi_add_text(p->out, name);
    flxi_add_char(p->out, '(');
    for (size_t i = 0; i < p->g->leaves.n; i++) {
        uint32_t id = p->g->leaves.at[i];
        flxi_add_text(p->out, i ? ", " : "");
        if (flx_graph_input_is_param(p->g, i))
            flxi_add_text(p->out, "param ");
        flxi_add_text(p->out, p->names[id]);
        flxi_add_text(p->out, ": ");
        flxi_type_write(p->g->ctx, flxi_type_at(p->g, id), p->out);
        write_init(p, id);
    }
    flxi_add_text(p->out, ") {\n");
    for (size_t i = 0; i < p->g->leaves.n; i++)
        write_pins(p, flxi_node_of(p->g, p->g->leaves.at[i]));
}

static bool prepare(printer *p)
{
    const flx_graph *g = p->g;
    size_t ids = (size_t)g->value_count + 1;
    p->names = flxi_new(&p->scratch, const char *, ids);
    p->uses = flxi_new(&p->scratch, uint32_t, ids);
    p->inlined = flxi_new(&p->scratch, bool, ids);
    p->repeats = flxi_new(&p->scratch, uint32_t, ids);
    p->returned = flxi_new(&p->scratch, const char *, g->outputs.n);
    if (!p->names || !p->uses || !p->inlined || !p->repeats || !p->returned)
        return false;
    uint32_t widest = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        widest = n->nin > widest ? n->nin : widest;
        for (uint32_t k = 0; k < n->nin; k++)
            p->uses[n->in[k]]++;
    }
    for (size_t i = 0; i < g->outputs.n; i++)
        p->uses[g->outputs.at[i].val] += 2; /* never inlined */
    bool *bare = flxi_new(&p->scratch, bool, widest);
    for (uint32_t i = 0; bare && i < g->node_count; i++)
        mark_inlined(p, i, bare);
    return bare && name_values(p);
}

static flx_code print_graph(const flxi_graph_list *list, const char *const *graph_names, size_t i, flxi_strbuf *out)
{
    const flx_graph *g = list->graphs.at[i];
    printer p = {.g = g, .out = out, .list = list, .graph_names = graph_names};
    flxi_arena_init(&p.scratch, &g->ctx->mem);
    flxi_names_init(&p.taken, &p.scratch);
    bool is_ready = prepare(&p);
    if (is_ready) {
        write_header(&p, graph_names[i]);
        for (uint32_t k = 0; k < g->node_count && !out->failed; k++)
            write_statement(&p, flxi_node_at(g, k));
        write_returns(&p);
    }
    flxi_names_free(&p.taken);
    flxi_arena_free(&p.scratch);
    return is_ready ? FLX_OK : FLX_E_OOM;
}

/* ---- Files ---- */

/* The parser takes the last graph as the main one unless one is called main, so the main graph comes last even if
   others use it as a body. */
static flx_code print_graphs(const flxi_graph_list *list, const flx_graph *main_graph, const char *const *names,
                             flxi_strbuf *out)
{
    size_t main_at = flxi_graph_position(list, main_graph);
    size_t n = list->graphs.n;
    bool moved = strcmp(names[main_at], "main") != 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = moved && i >= main_at ? (i + 1 < n ? i + 1 : main_at) : i;
        if (i)
            flxi_add_char(out, '\n');
        FLXI_TRY(print_graph(list, names, at, out));
    }
    return FLX_OK;
}

static flx_code print_list(const flxi_graph_list *list, const flx_graph *main_graph, flx_context *ctx, flx_buffer *out,
                           flx_error *err)
{
    flxi_arena arena;
    flxi_strbuf text;
    flxi_arena_init(&arena, &ctx->mem);
    flxi_strbuf_init(&text, &ctx->mem);
    const char **names = flxi_new(&arena, const char *, list->graphs.n);
    flx_code code = names ? flxi_name_graphs(list, main_graph, &arena, names) : FLX_E_OOM;
    if (code == FLX_OK && main_graph)
        code = print_graphs(list, main_graph, names, &text);
    flxi_arena_free(&arena);
    if (code != FLX_OK) {
        flxi_strbuf_free(&text);
        return flxi_oom(err, "printing");
    }
    return flxi_buffer_finish(&text, ctx, out, err);
}

static flx_code check_printable(const flx_graph *g, const flx_buffer *out, flx_error *err)
{
    if (!flxi_graph_alive(g) || !out)
        return flxi_fail(err, FLX_E_USAGE, "printing: graph and buffer must be given");
    return flx_graph_error(g, err);
}

flx_code flx_graph_print(const flx_graph *g, flx_buffer *out, flx_error *err)
{
    flxi_graph_list list = {0};
    FLXI_TRY(check_printable(g, out, err));
    *out = (flx_buffer){0};
    flx_code code = flxi_collect_graphs(&g->ctx->mem, g, &list);
    code = code == FLX_OK ? print_list(&list, g, g->ctx, out, err) : flxi_oom(err, "printing");
    flxi_graph_list_free(&g->ctx->mem, &list);
    return code;
}

flx_code flx_module_print(const flx_module *m, flx_buffer *out, flx_error *err)
{
    flxi_graph_list list = {0};
    if (!m || !out)
        return flxi_fail(err, FLX_E_USAGE, "printing: module and buffer must be given");
    *out = (flx_buffer){0};
    flx_code code = FLX_OK;
    for (size_t i = 0; code == FLX_OK && i < m->graphs.n; i++)
        if (m->graphs.at[i] != flx_module_main(m))
            code = flxi_collect_graphs(&m->ctx->mem, m->graphs.at[i], &list);
    if (code == FLX_OK && m->graphs.n)
        code = flxi_collect_graphs(&m->ctx->mem, flx_module_main(m), &list);
    code = code == FLX_OK ? print_list(&list, flx_module_main(m), m->ctx, out, err) : flxi_oom(err, "printing");
    flxi_graph_list_free(&m->ctx->mem, &list);
    return code;
}
