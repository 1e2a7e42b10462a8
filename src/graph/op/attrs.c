/* SPDX-License-Identifier: Apache-2.0 */
/* attrs.c: all work on attributes goes through the schema of the op: checking and filling in the given values, copying
   to another graph, comparing, hashing and visiting. Printing is in print.c, the binary form in binary.c. */
#include "graph/graph.h"

#include "graph/op/attr_kinds.h"
#include "graph/op/foreign_names.h"
#include "graph/op/own_attrs.h"

#include <stdio.h>

/* ---- Words ---- */

const char *flxi_word_at(const char *words, int64_t i, size_t *n)
{
    const char *s = words;
    for (; s && i > 0; i--) {
        s = strchr(s, ' ');
        s = s ? s + 1 : NULL;
    }
    if (!s || i < 0)
        return NULL;
    *n = strcspn(s, " ");
    return s;
}

int64_t flxi_word_find(const char *words, const char *s, size_t n)
{
    size_t k;
    const char *w;
    for (int64_t i = 0; (w = flxi_word_at(words, i, &k)) != NULL; i++)
        if (k == n && memcmp(w, s, n) == 0)
            return i;
    return -1;
}

/* ---- Filling ---- */

/* "first" comes before the list, unless it is "". */
static void hint_known(const flxi_op *op, const char *first, flx_error *err)
{
    char known[120] = "";
    size_t at = 0;
    const char *meaning = flxi_foreign_meaning(op->name);
    for (const flxi_attr *a = op->rules->schema; a && a->name && at < sizeof known - 1; a++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", a->name);
    if (meaning && !first[0])
        flxi_hint(err, "%s", meaning);
    else if (at)
        flxi_hint(err, "%s%sknown attributes: %.*s", first, first[0] ? "; " : "", first[0] ? 80 : 100, known);
    else
        flxi_hint(err, "%s has no attributes: %s", op->name, flxi_op_signature(op, known, sizeof known));
}

/* How the value of an attribute is written: lists in brackets. */
static const char *value_form(const flxi_op *op, const char *name)
{
    const flxi_attr *a = op->rules->schema;
    while (strcmp(a->name, name) != 0)
        a++;
    return flxi_attr_is_list(a->kind) ? "[…]" : "…";
}

flx_code flxi_unknown_attr(const flxi_op *op, const char *key, flx_error *err)
{
    char name[40];
    flxi_printable(name, sizeof name, key, strlen(key));
    flxi_fail(err, FLX_E_ATTRIBUTE, "%s: unknown attribute '%s'", op->name, name);
    const char *ours = flxi_foreign_attr(op, key);
    char instead[80] = "";
    if (ours)
        snprintf(instead, sizeof instead, "write %s=%s", ours, value_form(op, ours));
    hint_known(op, instead, err);
    return FLX_E_ATTRIBUTE;
}

static flx_code missing_attr(const flxi_op *op, const flxi_attr *a, flx_error *err)
{
    flxi_fail(err, FLX_E_ATTRIBUTE, "%s: attribute '%s' must be given: %s", op->name, a->name,
              flxi_attr_kinds[a->kind].text);
    char instead[80];
    snprintf(instead, sizeof instead, "write %s=%s", a->name, value_form(op, a->name));
    if (a->note)
        flxi_hint(err, "%s", a->note);
    else
        hint_known(op, instead, err);
    return FLX_E_ATTRIBUTE;
}

static const flxi_attr *own_attr_of(const flxi_op *op)
{
    const flxi_attr *a = op->rules->schema;
    while (a && a->name && !(a->flags & ATTR_OWN))
        a++;
    return a && a->name ? a : NULL;
}

bool flxi_has_own_attrs(const flxi_op *op)
{
    return own_attr_of(op);
}

/* Collects the attributes that the schema does not know, as text; or reads them from such a text in a file. */
static flx_code fill_own(flx_graph *g, const flxi_op *op, const flxi_attr *own, flx_attr *given, size_t n, char *attrs,
                         flx_error *err)
{
    const char **field = (const char **)(void *)(attrs + own->offset);
    flx_attr *list = given;
    if (**field && n)
        return flxi_fail(err, FLX_E_ATTRIBUTE, "%s: '%s' cannot be combined with attributes of its own", op->name,
                         own->name);
    if (**field)
        FLXI_TRY(flxi_own_attrs_read(op->name, *field, &g->arena, &list, &n, err));
    flxi_strbuf text;
    flxi_strbuf_init(&text, g->arena.mem);
    flx_code code = flxi_own_attrs_write(op->name, list, n, &text, err);
    if (code == FLX_OK && n && !(*field = flxi_arena_text(&g->arena, text.at, text.n)))
        code = flxi_oom(err, "attributes");
    flxi_strbuf_free(&text);
    return code;
}

/* "none" leaves an optional attribute absent, unless it is one of its words. */
static bool is_none(const flxi_attr *attr, const flx_attr *given)
{
    return given->kind == FLX_ATTR_WORD && given->as.s && strcmp(given->as.s, "none") == 0 && attr->note &&
           !(attr->flags & ATTR_REQUIRED) && (!attr->words || flxi_word_find(attr->words, "none", 4) < 0);
}

/* What flxi_attrs_fill() has gathered. */
typedef struct {
    flx_graph *g;
    const flxi_op *op;
    char *attrs;
    uint64_t seen;        /* a bit for each attribute of the schema */
    const flxi_attr *own; /* takes the attributes that the schema does not name, if any */
    flx_attr *others;
    size_t num_others;
} gathering;

static flx_code begin_gathering(gathering *f, size_t n, flx_error *err)
{
    const flxi_attr *schema = f->op->rules->schema;
    f->own = own_attr_of(f->op);
    f->others = f->own ? flxi_new(&f->g->arena, flx_attr, n + 1) : NULL;
    if (schema)
        f->attrs = flxi_arena_alloc(&f->g->arena, 1, f->op->rules->attrs_size, _Alignof(max_align_t));
    if ((f->own && !f->others) || (schema && !f->attrs))
        return flxi_oom(err, "attributes");
    for (const flxi_attr *a = schema; a && a->name; a++)
        if (flxi_attr_kinds[a->kind].set_default)
            flxi_attr_kinds[a->kind].set_default(a, f->attrs + a->offset);
    return FLX_OK;
}

static flx_code gather(gathering *f, const flx_attr *given, flx_error *err)
{
    const flxi_attr *schema = f->op->rules->schema, *a = schema;
    const char *key = flxi_attr_name_of(f->op, given->key);
    while (a && a->name && strcmp(a->name, key) != 0)
        a++;
    if ((!a || !a->name) && f->own) {
        f->others[f->num_others++] = *given;
        return FLX_OK;
    }
    if (!a || !a->name)
        return flxi_unknown_attr(f->op, given->key, err);
    uint64_t bit = UINT64_C(1) << (a - schema);
    if (f->seen & bit)
        return flxi_fail(err, FLX_E_ATTRIBUTE, "%s: attribute '%s' is given twice", f->op->name, a->name);
    f->seen |= bit;
    if (is_none(a, given))
        return FLX_OK;
    flxi_filling s = {f->g, f->op, a, given, f->attrs + a->offset, err};
    return flxi_attr_kinds[a->kind].fill(&s);
}

flx_code flxi_attrs_fill(flx_graph *g, const flxi_op *op, const flx_attr *given, size_t n, void **out, flx_error *err)
{
    gathering f = {.g = g, .op = op};
    *out = NULL;
    FLXI_TRY(begin_gathering(&f, n, err));
    for (size_t i = 0; i < n; i++) {
        if (!given[i].key)
            return flxi_fail(err, FLX_E_USAGE, "%s: attribute %zu has no name", op->name, i);
        FLXI_TRY(gather(&f, &given[i], err));
    }
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++)
        if ((a->flags & ATTR_REQUIRED) && !(f.seen >> (a - op->rules->schema) & 1))
            return missing_attr(op, a, err);
    if (f.own)
        FLXI_TRY(fill_own(g, op, f.own, f.others, f.num_others, f.attrs, err));
    *out = f.attrs;
    return FLX_OK;
}

/* ---- Copying ---- */

flx_code flxi_attrs_clone(flx_graph *to, const flxi_op *op, const void *attrs, const flxi_attr_map *map, void **out,
                          flx_error *err)
{
    static const flxi_attr_map identity = {0};
    flxi_cloning c = {.to = to, .map = map ? map : &identity, .err = err};
    *out = NULL;
    if (!attrs)
        return FLX_OK;
    char *copy = flxi_arena_copy(&to->arena, attrs, 1, op->rules->attrs_size, _Alignof(max_align_t));
    if (!copy)
        return flxi_oom(err, "attributes");
    for (c.attr = op->rules->schema; c.attr->name; c.attr++)
        if (flxi_attr_kinds[c.attr->kind].clone)
            FLXI_TRY(flxi_attr_kinds[c.attr->kind].clone(&c, copy + c.attr->offset));
    *out = copy;
    return FLX_OK;
}

/* ---- Comparing, hashing, visiting ---- */

static bool is_same_graph(const flx_graph *a, const flx_graph *b, void *user)
{
    (void)user;
    return a == b;
}

bool flxi_attrs_alike(const flxi_op *op, const void *a, const void *b, flxi_same_body same, void *user)
{
    if (!a || !b)
        return a == b;
    for (const flxi_attr *s = op->rules->schema; s->name; s++)
        if (!flxi_attr_kinds[s->kind].equal((const char *)a + s->offset, (const char *)b + s->offset, same, user))
            return false;
    return true;
}

bool flxi_attrs_equal(const flxi_op *op, const void *a, const void *b)
{
    return flxi_attrs_alike(op, a, b, is_same_graph, NULL);
}

typedef struct {
    uint64_t h;
    flx_context *ctx;
    uint64_t (*body_hash)(const flx_graph *);
} hashing;

static flx_code hash_graph(void *user, const flx_graph *body)
{
    hashing *s = user;
    s->h = flxi_hash_u64(s->h, s->body_hash(body));
    return FLX_OK;
}

static flx_code hash_tensor(void *user, const flx_tensor *t)
{
    hashing *s = user;
    s->h = flxi_hash_bytes(s->h, t->data, t->nbytes);
    return FLX_OK;
}

static flx_code hash_dim(void *user, flx_dim d)
{
    hashing *s = user;
    s->h = flxi_dim_hash(s->ctx, s->h, d);
    return FLX_OK;
}

uint64_t flxi_attrs_hash(flx_context *ctx, const flxi_op *op, const void *attrs, uint64_t h,
                         uint64_t (*body_hash)(const flx_graph *))
{
    if (!attrs)
        return h;
    for (const flxi_attr *a = op->rules->schema; a->name; a++) {
        h = flxi_hash_text(h, a->name);
        if (flxi_attr_kinds[a->kind].hash)
            h = flxi_attr_kinds[a->kind].hash((const char *)attrs + a->offset, h);
    }
    hashing s = {h, ctx, body_hash};
    flxi_attr_visitor v = {body_hash ? hash_graph : NULL, hash_tensor, hash_dim, &s};
    flxi_attrs_visit(op, attrs, &v);
    return s.h;
}

bool flxi_attr_is_default(const flxi_attr *a, const void *field)
{
    return !(a->flags & ATTR_REQUIRED) && flxi_attr_kinds[a->kind].is_default(a, field);
}

flx_code flxi_attrs_visit(const flxi_op *op, const void *attrs, const flxi_attr_visitor *v)
{
    for (const flxi_attr *a = op->rules->schema; attrs && a && a->name; a++)
        if (flxi_attr_kinds[a->kind].visit)
            FLXI_TRY(flxi_attr_kinds[a->kind].visit((const char *)attrs + a->offset, v));
    return FLX_OK;
}

const flx_tensor *flxi_const_data(const flxi_node *n)
{
    const flxi_attr *a = flxi_ops[n->op].rules->schema;
    while (a->kind != ATTR_DATA)
        a++;
    return *(const flx_tensor *const *)(const void *)((const char *)n->attrs + a->offset);
}

static flx_code note_tensor(void *user, const flx_tensor *t)
{
    const flx_tensor **first = user;
    *first = *first ? *first : t;
    return FLX_OK;
}

const flx_tensor *flxi_held_tensor(const flxi_node *n)
{
    const flx_tensor *first = NULL;
    const flxi_attr_visitor v = {.tensor = note_tensor, .user = &first};
    if (n->attrs)
        flxi_attrs_visit(&flxi_ops[n->op], n->attrs, &v);
    return first;
}
