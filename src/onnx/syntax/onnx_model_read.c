/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_model_read.c: attributes, nodes, graphs, functions, models. */
#include "base/half.h"
#include "onnx/syntax/onnx_model.h"

/* ---- Attributes ---- */

static double bits_to_float(uint64_t bits)
{
    return (double)flxi_f32_of(bits);
}

#define NEW_PART(r, T) flxi_new((r)->arena, T, 1)

static bool read_attr_tensor(onnx_reader *r, onnx_span s, onnx_attr *a)
{
    onnx_tensor *t = NEW_PART(r, onnx_tensor);
    a->t = t;
    return t ? flxi_onnx_read_tensor(r, s, t) : flxi_onnx_starved(r);
}

static bool read_attr_graph(onnx_reader *r, onnx_span s, onnx_attr *a)
{
    onnx_graph *g = NEW_PART(r, onnx_graph);
    a->g = g;
    return g ? flxi_onnx_read_graph(r, s, g) : flxi_onnx_starved(r);
}

static bool read_attr_sparse(onnx_reader *r, onnx_span s, onnx_attr *a)
{
    onnx_sparse *p = NEW_PART(r, onnx_sparse);
    a->sparse = p;
    return p ? flxi_onnx_read_sparse(r, s, p) : flxi_onnx_starved(r);
}

static bool read_attr_type(onnx_reader *r, onnx_span s, onnx_attr *a)
{
    onnx_type *t = NEW_PART(r, onnx_type);
    a->type = t;
    return t ? flxi_onnx_read_type(r, s, t) : flxi_onnx_starved(r);
}

static bool read_attr_part(onnx_reader *r, const onnx_field *f, onnx_attr *a)
{
    switch (f->number) {
    case 1: a->name = flxi_onnx_text(r, f->bytes); return a->name != NULL;
    case 4: /* bytes that need not be text: cut at a zero */
        a->s = flxi_arena_text(r->arena, (const char *)f->bytes.at, f->bytes.size);
        return a->s ? true : flxi_onnx_starved(r);
    case 5: return read_attr_tensor(r, f->bytes, a);
    case 6: return read_attr_graph(r, f->bytes, a);
    case 14: return read_attr_type(r, f->bytes, a);
    case 21: a->ref = flxi_onnx_text(r, f->bytes); return a->ref != NULL;
    case 22: return read_attr_sparse(r, f->bytes, a);
    default: return true;
    }
}

static bool read_attr_floats(onnx_reader *r, onnx_span s, onnx_attr *a)
{
    const uint64_t *bits;
    size_t n;
    if (!flxi_onnx_read_numbers(r, s, 7, 4, &bits, &n))
        return false;
    double *v = flxi_new(r->arena, double, n + 1);
    if (!v)
        return flxi_onnx_starved(r);
    for (size_t i = 0; i < n; i++)
        v[i] = bits_to_float(bits[i]);
    a->floats = v;
    a->num_floats = n;
    return true;
}

static bool read_attr_lists(onnx_reader *r, onnx_span s, onnx_attr *a)
{
    const uint64_t *ints;
    if (!read_attr_floats(r, s, a) || !flxi_onnx_read_numbers(r, s, 8, 0, &ints, &a->num_ints))
        return false;
    a->ints = (const int64_t *)ints;
    return flxi_onnx_read_texts(r, s, 9, &a->strings, &a->num_strings);
}

/* Old files leave the kind out: it follows from the field that is present. */
static int32_t kind_of(const onnx_attr *a, uint64_t seen)
{
    static const int32_t by_field[] = {0,
                                       0,
                                       ONNX_A_FLOAT,
                                       ONNX_A_INT,
                                       ONNX_A_STRING,
                                       ONNX_A_TENSOR,
                                       ONNX_A_GRAPH,
                                       ONNX_A_FLOATS,
                                       ONNX_A_INTS,
                                       ONNX_A_STRINGS};
    for (int32_t i = 2; i < 10 && a->kind == 0; i++)
        if (seen >> i & 1)
            return by_field[i];
    return a->kind;
}

bool flxi_onnx_read_attr(onnx_reader *r, onnx_span s, onnx_attr *a)
{
    onnx_span rest = s;
    uint64_t seen = 0;
    *a = (onnx_attr){.name = "", .s = ""};
    for (onnx_field f; flxi_onnx_next(&r->wire, &rest, &f);) {
        seen |= f.number < 64 ? UINT64_C(1) << f.number : 0;
        if (f.kind == ONNX_BYTES && !read_attr_part(r, &f, a))
            return false;
        if (f.number == 2)
            a->f = bits_to_float(f.value);
        if (f.number == 3)
            a->i = (int64_t)f.value;
        if (f.number == 20)
            a->kind = (int32_t)(f.value & 0xff);
    }
    a->kind = kind_of(a, seen);
    return r->wire.err->code == FLX_OK && read_attr_lists(r, s, a);
}

static bool read_attr_item(onnx_reader *r, onnx_span s, void *out)
{
    return flxi_onnx_read_attr(r, s, out);
}

/* ---- Nodes ---- */

/* The texts of a message that has them in the fields with these numbers. */
typedef struct {
    uint32_t number;
    const char **out;
} text_field;

static bool read_text_fields(onnx_reader *r, onnx_span s, const text_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *fields[i].out = "";
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);)
        for (size_t i = 0; i < n; i++)
            if (fields[i].number == f.number && f.kind == ONNX_BYTES && !(*fields[i].out = flxi_onnx_text(r, f.bytes)))
                return false;
    return r->wire.err->code == FLX_OK;
}

/* The standard domain has two names. */
static void plain_domain(const char **domain)
{
    if (strcmp(*domain, "ai.onnx") == 0)
        *domain = "";
}

static bool read_node(onnx_reader *r, onnx_span s, void *out)
{
    onnx_node *n = out;
    const text_field fields[] = {{3, &n->name}, {4, &n->op}, {7, &n->domain}, {8, &n->overload}};
    n->offset = (size_t)(s.at - r->wire.base);
    if (!read_text_fields(r, s, fields, 4) || !flxi_onnx_read_texts(r, s, 1, &n->inputs, &n->num_inputs) ||
        !flxi_onnx_read_texts(r, s, 2, &n->outputs, &n->num_outputs))
        return false;
    plain_domain(&n->domain);
    n->attributes = flxi_onnx_read_list(r, s, 5, sizeof(onnx_attr), read_attr_item, &n->num_attrs);
    return n->attributes != NULL;
}

/* ---- Graphs ---- */

static bool read_tensor_item(onnx_reader *r, onnx_span s, void *out)
{
    return flxi_onnx_read_tensor(r, s, out);
}

static bool read_sparse_item(onnx_reader *r, onnx_span s, void *out)
{
    return flxi_onnx_read_sparse(r, s, out);
}

static bool read_value_info(onnx_reader *r, onnx_span s, void *out)
{
    onnx_value_info *v = out;
    const text_field fields[] = {{1, &v->name}};
    if (!read_text_fields(r, s, fields, 1))
        return false;
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);)
        if (f.number == 2 && f.kind == ONNX_BYTES && !flxi_onnx_read_type(r, f.bytes, &v->type))
            return false;
    return r->wire.err->code == FLX_OK;
}

bool flxi_onnx_read_graph(onnx_reader *r, onnx_span s, onnx_graph *g)
{
    *g = (onnx_graph){.name = ""};
    if (++r->depth > ONNX_MAX_DEPTH)
        return flxi_onnx_malformed(&r->wire, s.at, "graphs are nested more than %d deep", ONNX_MAX_DEPTH);
    const text_field fields[] = {{2, &g->name}};
    bool ok = read_text_fields(r, s, fields, 1);
    ok = ok && (g->nodes = flxi_onnx_read_list(r, s, 1, sizeof(onnx_node), read_node, &g->num_nodes));
    ok = ok &&
         (g->initialisers = flxi_onnx_read_list(r, s, 5, sizeof(onnx_tensor), read_tensor_item, &g->num_initialisers));
    ok = ok && (g->sparse = flxi_onnx_read_list(r, s, 15, sizeof(onnx_sparse), read_sparse_item, &g->num_sparse));
    ok = ok && (g->inputs = flxi_onnx_read_list(r, s, 11, sizeof(onnx_value_info), read_value_info, &g->num_inputs));
    ok = ok && (g->outputs = flxi_onnx_read_list(r, s, 12, sizeof(onnx_value_info), read_value_info, &g->num_outputs));
    r->depth--;
    return ok;
}

/* ---- Functions and models ---- */

static bool read_opset(onnx_reader *r, onnx_span s, void *out)
{
    onnx_opset *o = out;
    const text_field fields[] = {{1, &o->domain}};
    if (!read_text_fields(r, s, fields, 1))
        return false;
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);)
        if (f.number == 2)
            o->version = (int64_t)f.value;
    plain_domain(&o->domain);
    return r->wire.err->code == FLX_OK;
}

static bool read_function(onnx_reader *r, onnx_span s, void *out)
{
    onnx_function *f = out;
    const text_field fields[] = {{1, &f->name}, {10, &f->domain}, {13, &f->overload}};
    f->offset = (size_t)(s.at - r->wire.base);
    bool ok = read_text_fields(r, s, fields, 3) && flxi_onnx_read_texts(r, s, 4, &f->inputs, &f->num_inputs) &&
              flxi_onnx_read_texts(r, s, 5, &f->outputs, &f->num_outputs);
    ok = ok && (f->nodes = flxi_onnx_read_list(r, s, 7, sizeof(onnx_node), read_node, &f->num_nodes));
    ok = ok && (f->opsets = flxi_onnx_read_list(r, s, 9, sizeof(onnx_opset), read_opset, &f->num_opsets));
    ok = ok && (f->defaults = flxi_onnx_read_list(r, s, 11, sizeof(onnx_attr), read_attr_item, &f->num_defaults));
    if (ok)
        plain_domain(&f->domain);
    return ok;
}

static bool read_model(onnx_reader *r, onnx_span s, onnx_model *m)
{
    onnx_graph *g = NEW_PART(r, onnx_graph);
    bool has_graph = false;
    onnx_span rest = s;
    if (!g)
        return flxi_onnx_starved(r);
    m->opsets = flxi_onnx_read_list(r, s, 8, sizeof(onnx_opset), read_opset, &m->num_opsets);
    if (!m->opsets)
        return false;
    for (onnx_field f; flxi_onnx_next(&r->wire, &rest, &f);) {
        if (f.number != 7 || f.kind != ONNX_BYTES)
            continue;
        if (!flxi_onnx_read_graph(r, f.bytes, g))
            return false;
        has_graph = true;
    }
    m->graph = g;
    m->functions = flxi_onnx_read_list(r, s, 25, sizeof(onnx_function), read_function, &m->num_functions);
    if (m->functions && !has_graph)
        return flxi_onnx_malformed(&r->wire, s.at, "the file holds no ONNX graph");
    return m->functions != NULL;
}

flx_code flxi_onnx_parse(const flxi_allocator *mem, const void *bytes, size_t size, const char *file, onnx_model *out,
                         flx_error *err)
{
    flx_error local = {0};
    onnx_reader r = {.wire = {.base = bytes, .file = file, .err = &local}, .arena = &out->arena};
    *out = (onnx_model){0};
    flxi_arena_init(&out->arena, mem);
    read_model(&r, (onnx_span){bytes, size}, out);
    if (local.code != FLX_OK && err)
        *err = local;
    return (flx_code)local.code;
}

void flxi_onnx_model_free(onnx_model *m)
{
    flxi_arena_free(&m->arena);
}

/* ---- Values in files of their own ---- */

static bool read_datum(onnx_reader *r, onnx_span s, const onnx_type *type, onnx_datum *out);

/* SequenceProto has its items in a field that depends on their kind. */
static bool read_items(onnx_reader *r, onnx_span s, const onnx_type *item, onnx_datum *out)
{
    uint32_t number = item->kind == ONNX_T_TENSOR ? 3 : item->kind == ONNX_T_SEQUENCE ? 5 : 7;
    if (out->kind == ONNX_T_SEQUENCE && item->kind == ONNX_T_OPTIONAL)
        number = 7;
    size_t n = flxi_onnx_count(&r->wire, s, number);
    out->items = flxi_new(r->arena, onnx_datum, n + 1);
    if (!out->items)
        return flxi_onnx_starved(r);
    for (onnx_field f; flxi_onnx_next(&r->wire, &s, &f);)
        if (f.number == number && f.kind == ONNX_BYTES && !read_datum(r, f.bytes, item, &out->items[out->n++]))
            return false;
    return r->wire.err->code == FLX_OK;
}

static bool read_datum(onnx_reader *r, onnx_span s, const onnx_type *type, onnx_datum *out)
{
    *out = (onnx_datum){.kind = type->kind};
    if (type->kind == ONNX_T_TENSOR)
        return flxi_onnx_read_tensor(r, s, &out->tensor);
    if (!type->item || type->kind == ONNX_T_OTHER)
        return flxi_onnx_malformed(&r->wire, s.at, "a value of this type cannot be read");
    return read_items(r, s, type->item, out);
}

flx_code flxi_onnx_parse_datum(flxi_arena *arena, const void *bytes, size_t size, const char *file,
                               const onnx_type *type, onnx_datum *out, flx_error *err)
{
    flx_error local = {0};
    onnx_reader r = {.wire = {.base = bytes, .file = file, .err = &local}, .arena = arena};
    read_datum(&r, (onnx_span){bytes, size}, type, out);
    if (local.code != FLX_OK && err)
        *err = local;
    return (flx_code)local.code;
}
