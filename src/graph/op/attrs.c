/* SPDX-License-Identifier: Apache-2.0 */
/* attrs.c: all work on attributes goes through the schema of the op: checking and filling in the given values, copying
   to another graph, comparing, hashing and visiting. Printing is in print.c, the binary form in binary.c. */
#include "graph/graph.h"

#include "graph/op/opcode.h"
#include "graph/op/own_attrs.h"

#include <math.h>
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

typedef struct {
    flx_graph *g;
    const flxi_op *op;
    const flxi_attr *attr;
    const flx_attr *given;
    char *field;
    flx_error *err;
} filling;

static const char *kind_text[] = {
    [ATTR_INT] = "an integer",
    [ATTR_BOOL] = "true or false",
    [ATTR_REAL] = "a number",
    [ATTR_WORD] = "one of its words",
    [ATTR_DTYPE] = "a dtype such as f32",
    [ATTR_DIM] = "an integer or a dimension",
    [ATTR_INTS] = "a list of integers",
    [ATTR_BOOLS] = "a list of true and false",
    [ATTR_DIMS] = "a list of integers or dimensions",
    [ATTR_PAIRS] = "a list of integers or [low, high] pairs",
    [ATTR_REALS] = "a list of numbers",
    [ATTR_STRING] = "a string",
    [ATTR_TYPE] = "a type such as f32[2, 3]",
    [ATTR_TYPES] = "a list of types",
    [ATTR_GRAPH] = "a graph, written @name",
    [ATTR_GRAPHS] = "a list of graphs",
    [ATTR_COMBINE] = "a word or a graph",
    [ATTR_DATA] = "a literal",
    [ATTR_VALUE] = "a number",
};

/* The given value, for a message: ", not 'wrap'"; empty where it does not fit in a few characters. */
static void describe_given(const flx_attr *given, char *buffer, size_t size)
{
    char text[40];
    buffer[0] = 0;
    if ((given->kind == FLX_ATTR_WORD || given->kind == FLX_ATTR_STRING) && given->as.s)
        snprintf(buffer, size, ", not '%s'", flxi_printable(text, sizeof text, given->as.s, strlen(given->as.s)));
    else if (given->kind == FLX_ATTR_INT && flxi_dim_is_number(given->as.i))
        snprintf(buffer, size, ", not %lld", (long long)given->as.i);
}

static flx_code wrong_kind(filling *s)
{
    char hint[120] = "";
    char found[60];
    if (s->attr->words)
        snprintf(hint, sizeof hint, "one of: %s", s->attr->words);
    describe_given(s->given, found, sizeof found);
    return flxi_fail_hint(s->err, FLX_E_ATTRIBUTE, hint, "%s: attribute '%s' must be %s%s", s->op->name, s->attr->name,
                          kind_text[s->attr->kind], found);
}

static bool given_word(const filling *s, const char **word, size_t *n)
{
    if ((s->given->kind != FLX_ATTR_WORD && s->given->kind != FLX_ATTR_STRING) || !s->given->as.s)
        return false;
    *word = s->given->as.s;
    *n = strlen(*word);
    return true;
}

/* The values that the text form can express too. */
static bool is_legal_dim(const filling *s, flx_dim d)
{
    return d <= FLXI_DIM_LARGEST && flxi_dim_is_known(s->g->ctx, d);
}

static flx_code out_of_range(filling *s)
{
    return flxi_fail(s->err, FLX_E_ATTRIBUTE, "%s: attribute '%s' is out of range", s->op->name, s->attr->name);
}

static flx_code fill_int(filling *s)
{
    if (s->given->kind != FLX_ATTR_INT)
        return wrong_kind(s);
    int64_t v = s->given->as.i;
    if (s->attr->kind == ATTR_INT && !flxi_dim_is_number(v))
        return wrong_kind(s);
    if (v == FLXI_ABSENT || (s->attr->kind == ATTR_DIM && !is_legal_dim(s, v)))
        return out_of_range(s);
    *(int64_t *)(void *)s->field = v;
    return FLX_OK;
}

static flx_code fill_bool(filling *s)
{
    const char *word;
    size_t n;
    int64_t v = -1;
    if (given_word(s, &word, &n))
        v = flxi_word_find("false true", word, n);
    else if (s->given->kind == FLX_ATTR_INT)
        v = s->given->as.i;
    if (v != 0 && v != 1)
        return wrong_kind(s);
    *(int64_t *)(void *)s->field = v;
    return FLX_OK;
}

static flx_code fill_real(filling *s)
{
    double v;
    if (s->given->kind == FLX_ATTR_REAL)
        v = s->given->as.r;
    else if (s->given->kind == FLX_ATTR_INT && flxi_dim_is_number(s->given->as.i))
        v = (double)s->given->as.i;
    else
        return wrong_kind(s);
    *(double *)(void *)s->field = isnan(v) ? NAN : v; /* one NaN for all, so that equal attributes have equal bits */
    return FLX_OK;
}

static flx_code fill_word(filling *s)
{
    const char *word;
    size_t n;
    int64_t v = given_word(s, &word, &n) ? flxi_word_find(s->attr->words, word, n) : -1;
    if (v < 0)
        return wrong_kind(s);
    *(int64_t *)(void *)s->field = v;
    return FLX_OK;
}

static flx_code fill_dtype(filling *s)
{
    const char *word;
    size_t n;
    int64_t v = 0;
    if (given_word(s, &word, &n))
        v = flx_dtype_parse(word);
    else if (s->given->kind == FLX_ATTR_INT)
        v = s->given->as.i;
    if (v <= 0 || v >= FLX_DTYPE_COUNT)
        return wrong_kind(s);
    *(int64_t *)(void *)s->field = v;
    return FLX_OK;
}

/* An empty list keeps a pointer that is not NULL: NULL means absent. */
static flx_code keep_list(filling *s, const int64_t *v, size_t n, size_t times)
{
    flx_ints *list = (void *)s->field;
    int64_t *copy = flxi_new(&s->g->arena, int64_t, n * times);
    if (!copy)
        return flxi_oom(s->err, "attributes");
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < times; k++)
            copy[i * times + k] = v[i];
    *list = (flx_ints){copy, n * times};
    return FLX_OK;
}

static flx_code fill_ints(filling *s)
{
    bool pairs = s->attr->kind == ATTR_PAIRS;
    if (s->given->kind != FLX_ATTR_INTS && !(pairs && s->given->kind == FLX_ATTR_PAIRS))
        return wrong_kind(s);
    flx_ints given = s->given->as.ints;
    if (given.n > SIZE_MAX / 64 || (given.n && !given.v))
        return wrong_kind(s);
    for (size_t i = 0; i < given.n; i++) {
        if (s->attr->kind != ATTR_DIMS && !flxi_dim_is_number(given.v[i]))
            return wrong_kind(s);
        if (s->attr->kind == ATTR_BOOLS && given.v[i] != 0 && given.v[i] != 1)
            return wrong_kind(s);
        if (!is_legal_dim(s, given.v[i]))
            return out_of_range(s);
    }
    if (s->given->kind == FLX_ATTR_PAIRS && given.n % 2)
        return wrong_kind(s);
    return keep_list(s, given.v, given.n, pairs && s->given->kind == FLX_ATTR_INTS ? 2 : 1);
}

static flx_code fill_reals(filling *s)
{
    flx_reals *list = (void *)s->field;
    if (s->given->kind != FLX_ATTR_REALS && s->given->kind != FLX_ATTR_INTS)
        return wrong_kind(s);
    bool reals = s->given->kind == FLX_ATTR_REALS;
    size_t n = reals ? s->given->as.reals.n : s->given->as.ints.n;
    if (n && !(reals ? (const void *)s->given->as.reals.v : s->given->as.ints.v))
        return wrong_kind(s);
    double *copy = flxi_new(&s->g->arena, double, n);
    if (!copy)
        return flxi_oom(s->err, "attributes");
    for (size_t i = 0; i < n; i++)
        copy[i] = reals ? s->given->as.reals.v[i] : (double)s->given->as.ints.v[i];
    *list = (flx_reals){copy, n};
    return FLX_OK;
}

static flx_code fill_string(filling *s)
{
    if (s->given->kind != FLX_ATTR_STRING || !s->given->as.s)
        return wrong_kind(s);
    const char *copy = flxi_arena_text(&s->g->arena, s->given->as.s, strlen(s->given->as.s));
    if (!copy)
        return flxi_oom(s->err, "attributes");
    *(const char **)(void *)s->field = copy;
    return FLX_OK;
}

static flx_code fill_type(filling *s)
{
    if (s->given->kind != FLX_ATTR_TYPE || !s->given->as.type)
        return wrong_kind(s);
    FLXI_TRY(flxi_type_check(s->g->ctx, s->given->as.type, s->err));
    const flx_type *t = flxi_graph_type(s->g, s->given->as.type);
    if (!t)
        return flxi_oom(s->err, "attributes");
    *(const flx_type **)(void *)s->field = t;
    return FLX_OK;
}

static flx_code fill_types(filling *s)
{
    if (s->given->kind != FLX_ATTR_TYPES)
        return wrong_kind(s);
    flx_types given = s->given->as.types;
    if (given.n && !given.v)
        return wrong_kind(s);
    for (size_t i = 0; i < given.n; i++)
        FLXI_TRY(flxi_type_check(s->g->ctx, &given.v[i], s->err));
    const flx_type *copy = flxi_dup(&s->g->arena, flx_type, given.v, given.n);
    if (!copy)
        return flxi_oom(s->err, "attributes");
    *(flx_types *)(void *)s->field = (flx_types){copy, given.n};
    return FLX_OK;
}

static flx_code check_body(filling *s, const flx_graph *body)
{
    if (!flxi_graph_alive(body))
        return flxi_fail(s->err, FLX_E_USAGE, "%s: attribute '%s' is NULL or a freed graph", s->op->name,
                         s->attr->name);
    if (body == s->g)
        return flxi_fail(s->err, FLX_E_USAGE, "%s: a graph cannot be its own body", s->op->name);
    if (body->ctx != s->g->ctx)
        return flxi_fail(s->err, FLX_E_USAGE, "%s: the graph '%s' belongs to another context", s->op->name, body->name);
    if (body->error.code) {
        if (s->err)
            *s->err = body->error;
        return (flx_code)body->error.code;
    }
    if (body->nesting >= FLXI_MAX_NESTING)
        return flxi_fail(s->err, FLX_E_SIZE, "%s: graphs nest deeper than %d", s->op->name, FLXI_MAX_NESTING);
    return FLX_OK;
}

static flx_code fill_graph(filling *s)
{
    if (s->given->kind != FLX_ATTR_GRAPH)
        return wrong_kind(s);
    FLXI_TRY(check_body(s, s->given->as.graph));
    *(const flx_graph **)(void *)s->field = s->given->as.graph;
    return FLX_OK;
}

static flx_code fill_graphs(filling *s)
{
    if (s->given->kind != FLX_ATTR_GRAPHS)
        return wrong_kind(s);
    flx_graphs given = s->given->as.graphs;
    if (given.n && !given.v)
        return wrong_kind(s);
    for (size_t i = 0; i < given.n; i++)
        FLXI_TRY(check_body(s, given.v[i]));
    const flx_graph **copy = flxi_dup(&s->g->arena, const flx_graph *, given.v, given.n);
    if (!copy)
        return flxi_oom(s->err, "attributes");
    *(flx_graphs *)(void *)s->field = (flx_graphs){copy, given.n};
    return FLX_OK;
}

static flx_code fill_combine(filling *s)
{
    flxi_combine *c = (void *)s->field;
    if (s->given->kind == FLX_ATTR_GRAPH) {
        FLXI_TRY(check_body(s, s->given->as.graph));
        *c = (flxi_combine){-1, s->given->as.graph};
        return FLX_OK;
    }
    const char *word;
    size_t n;
    int64_t v = given_word(s, &word, &n) ? flxi_word_find(s->attr->words, word, n) : -1;
    if (v < 0)
        return wrong_kind(s);
    *c = (flxi_combine){v, NULL};
    return FLX_OK;
}

static flx_code fill_tensor(filling *s)
{
    if (s->given->kind != FLX_ATTR_TENSOR || !s->given->as.tensor)
        return wrong_kind(s);
    if (s->given->as.tensor->ctx != s->g->ctx)
        return flxi_fail(s->err, FLX_E_USAGE, "%s: the data belongs to another context", s->op->name);
    *(const flx_tensor **)(void *)s->field = s->given->as.tensor;
    return FLX_OK;
}

static flx_code (*const fillers[])(filling *) = {
    [ATTR_INT] = fill_int,         [ATTR_BOOL] = fill_bool,   [ATTR_REAL] = fill_real,    [ATTR_WORD] = fill_word,
    [ATTR_DTYPE] = fill_dtype,     [ATTR_DIM] = fill_int,     [ATTR_INTS] = fill_ints,    [ATTR_BOOLS] = fill_ints,
    [ATTR_DIMS] = fill_ints,       [ATTR_PAIRS] = fill_ints,  [ATTR_REALS] = fill_reals,  [ATTR_STRING] = fill_string,
    [ATTR_TYPE] = fill_type,       [ATTR_TYPES] = fill_types, [ATTR_GRAPH] = fill_graph,  [ATTR_GRAPHS] = fill_graphs,
    [ATTR_COMBINE] = fill_combine, [ATTR_DATA] = fill_tensor, [ATTR_VALUE] = fill_tensor,
};

static void fill_default(const flxi_attr *attr, char *field)
{
    switch (attr->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_WORD:
    case ATTR_DTYPE:
    case ATTR_DIM:
        *(int64_t *)(void *)field = attr->fallback;
        break;
    case ATTR_REAL:
        *(double *)(void *)field = attr->real;
        break;
    case ATTR_STRING:
        *(const char **)(void *)field = "";
        break;
    default:
        break; /* zeroed: an absent list or graph, the first word of a combine */
    }
}

static void hint_known(const flxi_op *op, flx_error *err)
{
    char known[100] = "";
    size_t at = 0;
    for (const flxi_attr *a = op->rules->schema; a && a->name && at < sizeof known - 1; a++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", a->name);
    if (at)
        flxi_hint(err, "known attributes: %s", known);
    else
        flxi_hint(err, "%s has no attributes", op->name);
}

flx_code flxi_unknown_attr(const flxi_op *op, const char *key, flx_error *err)
{
    char name[40];
    flxi_printable(name, sizeof name, key, strlen(key));
    flxi_fail(err, FLX_E_ATTRIBUTE, "%s: unknown attribute '%s'", op->name, name);
    hint_known(op, err);
    return FLX_E_ATTRIBUTE;
}

static flx_code missing_attr(const flxi_op *op, const flxi_attr *a, flx_error *err)
{
    flxi_fail(err, FLX_E_ATTRIBUTE, "%s: attribute '%s' must be given: %s", op->name, a->name, kind_text[a->kind]);
    hint_known(op, err);
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
           (!attr->words || flxi_word_find(attr->words, "none", 4) < 0);
}

flx_code flxi_attrs_fill(flx_graph *g, const flxi_op *op, const flx_attr *given, size_t n, void **out, flx_error *err)
{
    const flxi_attr *schema = op->rules->schema;
    uint64_t seen = 0;
    *out = NULL;
    char *attrs = NULL;
    if (schema) {
        attrs = flxi_arena_alloc(&g->arena, 1, op->rules->attrs_size, _Alignof(max_align_t));
        if (!attrs)
            return flxi_oom(err, "attributes");
        for (const flxi_attr *a = schema; a->name; a++)
            fill_default(a, attrs + a->offset);
    }
    const flxi_attr *own = own_attr_of(op);
    flx_attr *others = own ? flxi_new(&g->arena, flx_attr, n + 1) : NULL;
    size_t num_others = 0;
    if (own && !others)
        return flxi_oom(err, "attributes");
    for (size_t i = 0; i < n; i++) {
        if (!given[i].key)
            return flxi_fail(err, FLX_E_USAGE, "%s: attribute %zu has no name", op->name, i);
        const char *key = flxi_attr_name_of(op, given[i].key);
        const flxi_attr *a = schema;
        while (a && a->name && strcmp(a->name, key) != 0)
            a++;
        if ((!a || !a->name) && own) {
            others[num_others++] = given[i];
            continue;
        }
        if (!a || !a->name)
            return flxi_unknown_attr(op, given[i].key, err);
        uint64_t bit = UINT64_C(1) << (a - schema);
        if (seen & bit)
            return flxi_fail(err, FLX_E_ATTRIBUTE, "%s: attribute '%s' is given twice", op->name, a->name);
        seen |= bit;
        if (is_none(a, &given[i]))
            continue;
        filling s = {g, op, a, &given[i], attrs + a->offset, err};
        FLXI_TRY(fillers[a->kind](&s));
    }
    for (const flxi_attr *a = schema; a && a->name; a++)
        if ((a->flags & ATTR_REQUIRED) && !(seen >> (a - schema) & 1))
            return missing_attr(op, a, err);
    if (own)
        FLXI_TRY(fill_own(g, op, own, others, num_others, attrs, err));
    *out = attrs;
    return FLX_OK;
}

/* ---- Copying ---- */

typedef struct {
    flx_graph *to;
    const flxi_attr_map *map;
    flx_error *err;
} cloning;

static flx_code clone_dim(cloning *c, flx_dim *d)
{
    if (c->map->dim && !flxi_dim_is_number(*d))
        *d = c->map->dim(c->map->user, *d, c->err);
    return *d == FLX_DIM_INVALID ? (c->err && c->err->code ? (flx_code)c->err->code : FLX_E_SHAPE) : FLX_OK;
}

static flx_code clone_body(cloning *c, const flx_graph **body)
{
    if (*body && c->map->body) {
        *body = c->map->body(c->map->user, *body, c->err);
        if (!*body)
            return c->err && c->err->code ? (flx_code)c->err->code : FLX_E_OOM;
    }
    return FLX_OK;
}

static flx_code clone_list(cloning *c, const flxi_attr *a, flx_ints *list)
{
    if (!list->v)
        return FLX_OK;
    int64_t *copy = flxi_dup(&c->to->arena, int64_t, list->v, list->n);
    if (!copy)
        return flxi_oom(c->err, "attributes");
    if (a->kind == ATTR_DIMS)
        for (size_t i = 0; i < list->n; i++)
            FLXI_TRY(clone_dim(c, &copy[i]));
    list->v = copy;
    return FLX_OK;
}

static flx_code clone_type(cloning *c, const flx_type *from, flx_type *to)
{
    *to = *from;
    for (int i = 0; i < to->rank; i++)
        FLXI_TRY(clone_dim(c, &to->dims[i]));
    return FLX_OK;
}

static flx_code clone_types(cloning *c, flx_types *list)
{
    if (!list->v)
        return FLX_OK;
    flx_type *copy = flxi_new(&c->to->arena, flx_type, list->n);
    if (!copy)
        return flxi_oom(c->err, "attributes");
    for (size_t i = 0; i < list->n; i++)
        FLXI_TRY(clone_type(c, &list->v[i], &copy[i]));
    list->v = copy;
    return FLX_OK;
}

static flx_code clone_graphs(cloning *c, flx_graphs *list)
{
    if (!list->v)
        return FLX_OK;
    const flx_graph **copy = flxi_dup(&c->to->arena, const flx_graph *, list->v, list->n);
    if (!copy)
        return flxi_oom(c->err, "attributes");
    for (size_t i = 0; i < list->n; i++)
        FLXI_TRY(clone_body(c, &copy[i]));
    list->v = copy;
    return FLX_OK;
}

static flx_code clone_text(cloning *c, const char **s)
{
    *s = flxi_arena_text(&c->to->arena, *s, strlen(*s));
    return *s ? FLX_OK : flxi_oom(c->err, "attributes");
}

static flx_code clone_field(cloning *c, const flxi_attr *a, void *field)
{
    switch (a->kind) {
    case ATTR_DIM:
        return *(flx_dim *)field == FLXI_ABSENT ? FLX_OK : clone_dim(c, field);
    case ATTR_INTS:
    case ATTR_BOOLS:
    case ATTR_DIMS:
    case ATTR_PAIRS:
        return clone_list(c, a, field);
    case ATTR_REALS: {
        flx_reals *list = field;
        if (!list->v)
            return FLX_OK;
        list->v = flxi_dup(&c->to->arena, double, list->v, list->n);
        return list->v ? FLX_OK : flxi_oom(c->err, "attributes");
    }
    case ATTR_STRING:
        return clone_text(c, field);
    case ATTR_TYPE: {
        flx_type t;
        FLXI_TRY(clone_type(c, *(const flx_type **)field, &t));
        *(const flx_type **)field = flxi_graph_type(c->to, &t);
        return *(const flx_type **)field ? FLX_OK : flxi_oom(c->err, "attributes");
    }
    case ATTR_TYPES:
        return clone_types(c, field);
    case ATTR_GRAPH:
        return clone_body(c, field);
    case ATTR_GRAPHS:
        return clone_graphs(c, field);
    case ATTR_COMBINE:
        return clone_body(c, &((flxi_combine *)field)->graph);
    default:
        return FLX_OK; /* plain numbers, and tensors, which graphs share */
    }
}

flx_code flxi_attrs_clone(flx_graph *to, const flxi_op *op, const void *attrs, const flxi_attr_map *map, void **out,
                          flx_error *err)
{
    static const flxi_attr_map identity = {0};
    cloning c = {to, map ? map : &identity, err};
    *out = NULL;
    if (!attrs)
        return FLX_OK;
    char *copy = flxi_arena_copy(&to->arena, attrs, 1, op->rules->attrs_size, _Alignof(max_align_t));
    if (!copy)
        return flxi_oom(err, "attributes");
    for (const flxi_attr *a = op->rules->schema; a->name; a++)
        FLXI_TRY(clone_field(&c, a, copy + a->offset));
    *out = copy;
    return FLX_OK;
}

/* ---- Comparing, hashing, visiting ---- */

static bool lists_equal(const flx_ints *a, const flx_ints *b)
{
    return a->n == b->n && !a->v == !b->v && (!a->n || memcmp(a->v, b->v, a->n * sizeof(int64_t)) == 0);
}

static bool tensors_equal(const flx_tensor *a, const flx_tensor *b)
{
    return a == b || (flxi_type_equal(&a->type, &b->type) && memcmp(a->data, b->data, a->nbytes) == 0);
}

static bool is_same_graph(const flx_graph *a, const flx_graph *b, void *user)
{
    (void)user;
    return a == b;
}

static bool field_equal(const flxi_attr *a, const void *x, const void *y, flxi_same_body same, void *user)
{
    switch (a->kind) {
    case ATTR_INTS:
    case ATTR_BOOLS:
    case ATTR_DIMS:
    case ATTR_PAIRS:
        return lists_equal(x, y);
    case ATTR_REALS: {
        const flx_reals *p = x;
        const flx_reals *q = y;
        return p->n == q->n && !p->v == !q->v && (!p->n || memcmp(p->v, q->v, p->n * sizeof(double)) == 0);
    }
    case ATTR_STRING:
        return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
    case ATTR_TYPE:
        return flxi_type_equal(*(const flx_type *const *)x, *(const flx_type *const *)y);
    case ATTR_TYPES: {
        const flx_types *p = x;
        const flx_types *q = y;
        bool alike = p->n == q->n;
        for (size_t i = 0; alike && i < p->n; i++)
            alike = flxi_type_equal(&p->v[i], &q->v[i]);
        return alike;
    }
    case ATTR_GRAPHS: {
        const flx_graphs *p = x;
        const flx_graphs *q = y;
        bool alike = p->n == q->n;
        for (size_t i = 0; alike && i < p->n; i++)
            alike = same(p->v[i], q->v[i], user);
        return alike;
    }
    case ATTR_GRAPH:
        return same(*(const flx_graph *const *)x, *(const flx_graph *const *)y, user);
    case ATTR_COMBINE: {
        const flxi_combine *p = x;
        const flxi_combine *q = y;
        return p->word == q->word && same(p->graph, q->graph, user);
    }
    case ATTR_DATA:
    case ATTR_VALUE:
        return tensors_equal(*(const flx_tensor *const *)x, *(const flx_tensor *const *)y);
    default:
        return memcmp(x, y, 8) == 0; /* numbers by their bits */
    }
}

bool flxi_attrs_alike(const flxi_op *op, const void *a, const void *b, flxi_same_body same, void *user)
{
    if (!a || !b)
        return a == b;
    for (const flxi_attr *s = op->rules->schema; s->name; s++)
        if (!field_equal(s, (const char *)a + s->offset, (const char *)b + s->offset, same, user))
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

static uint64_t hash_plain(const flxi_attr *a, const void *field, uint64_t h)
{
    switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_WORD:
    case ATTR_DTYPE:
    case ATTR_REAL:
    case ATTR_COMBINE:
        return flxi_hash_u64(h, *(const uint64_t *)field);
    case ATTR_STRING:
        return flxi_hash_text(h, *(const char *const *)field);
    case ATTR_INTS:
    case ATTR_BOOLS:
    case ATTR_PAIRS: {
        const flx_ints *list = field;
        h = flxi_hash_u64(h, list->v ? list->n : UINT64_MAX);
        for (size_t i = 0; i < list->n; i++)
            h = flxi_hash_u64(h, (uint64_t)list->v[i]);
        return h;
    }
    case ATTR_DIMS: {
        const flx_ints *list = field;
        return flxi_hash_u64(h, list->v ? list->n : UINT64_MAX);
    }
    case ATTR_REALS: {
        const flx_reals *list = field;
        return flxi_hash_bytes(flxi_hash_u64(h, list->n), list->v, list->n * sizeof(double));
    }
    case ATTR_TYPE: {
        const flx_type *t = *(const flx_type *const *)field;
        return flxi_hash_u64(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
    }
    case ATTR_TYPES: {
        const flx_types *list = field;
        h = flxi_hash_u64(h, list->n);
        for (size_t i = 0; i < list->n; i++)
            h = flxi_hash_u64(h, (uint64_t)list->v[i].dtype << 8 | (uint64_t)list->v[i].rank);
        return h;
    }
    case ATTR_GRAPHS:
        return flxi_hash_u64(h, ((const flx_graphs *)field)->n);
    case ATTR_GRAPH:
        return flxi_hash_u64(h, *(const flx_graph *const *)field != NULL);
    default:
        return h;
    }
}

uint64_t flxi_attrs_hash(flx_context *ctx, const flxi_op *op, const void *attrs, uint64_t h,
                         uint64_t (*body_hash)(const flx_graph *))
{
    if (!attrs)
        return h;
    for (const flxi_attr *a = op->rules->schema; a->name; a++)
        h = hash_plain(a, (const char *)attrs + a->offset, flxi_hash_text(h, a->name));
    hashing s = {h, ctx, body_hash};
    flxi_attr_visitor v = {body_hash ? hash_graph : NULL, hash_tensor, hash_dim, &s};
    flxi_attrs_visit(op, attrs, &v);
    return s.h;
}

bool flxi_attr_is_default(const flxi_attr *a, const void *field)
{
    if (a->flags & ATTR_REQUIRED)
        return false;
    switch (a->kind) {
    case ATTR_INT:
    case ATTR_BOOL:
    case ATTR_WORD:
    case ATTR_DTYPE:
    case ATTR_DIM:
        return *(const int64_t *)field == a->fallback;
    case ATTR_REAL: {
        double x = *(const double *)field;
        return memcmp(&x, &a->real, sizeof x) == 0 || (isnan(x) && isnan(a->real));
    }
    case ATTR_STRING:
        return **(const char *const *)field == 0;
    case ATTR_GRAPH:
        return *(const flx_graph *const *)field == NULL;
    case ATTR_COMBINE:
        return ((const flxi_combine *)field)->graph == NULL && ((const flxi_combine *)field)->word == 0;
    case ATTR_REALS:
        return ((const flx_reals *)field)->v == NULL;
    case ATTR_TYPES:
        return ((const flx_types *)field)->v == NULL;
    case ATTR_GRAPHS:
        return ((const flx_graphs *)field)->v == NULL;
    default:
        return ((const flx_ints *)field)->v == NULL;
    }
}

static flx_code visit_type(const flxi_attr_visitor *v, const flx_type *t)
{
    for (int i = 0; v->dim && i < t->rank; i++)
        FLXI_TRY(v->dim(v->user, t->dims[i]));
    return FLX_OK;
}

static flx_code visit_field(const flxi_attr *a, const void *field, const flxi_attr_visitor *v)
{
    switch (a->kind) {
    case ATTR_DIM:
        return v->dim ? v->dim(v->user, *(const flx_dim *)field) : FLX_OK;
    case ATTR_DIMS: {
        const flx_ints *list = field;
        for (size_t i = 0; v->dim && i < list->n; i++)
            FLXI_TRY(v->dim(v->user, list->v[i]));
        return FLX_OK;
    }
    case ATTR_TYPE:
        return visit_type(v, *(const flx_type *const *)field);
    case ATTR_TYPES: {
        const flx_types *list = field;
        for (size_t i = 0; i < list->n; i++)
            FLXI_TRY(visit_type(v, &list->v[i]));
        return FLX_OK;
    }
    case ATTR_GRAPH: {
        const flx_graph *body = *(const flx_graph *const *)field;
        return body && v->graph ? v->graph(v->user, body) : FLX_OK;
    }
    case ATTR_COMBINE: {
        const flx_graph *body = ((const flxi_combine *)field)->graph;
        return body && v->graph ? v->graph(v->user, body) : FLX_OK;
    }
    case ATTR_GRAPHS: {
        const flx_graphs *list = field;
        for (size_t i = 0; v->graph && i < list->n; i++)
            FLXI_TRY(v->graph(v->user, list->v[i]));
        return FLX_OK;
    }
    case ATTR_DATA:
    case ATTR_VALUE:
        return v->tensor ? v->tensor(v->user, *(const flx_tensor *const *)field) : FLX_OK;
    default:
        return FLX_OK;
    }
}

flx_code flxi_attrs_visit(const flxi_op *op, const void *attrs, const flxi_attr_visitor *v)
{
    for (const flxi_attr *a = op->rules->schema; attrs && a && a->name; a++)
        FLXI_TRY(visit_field(a, (const char *)attrs + a->offset, v));
    return FLX_OK;
}

const flx_tensor *flxi_const_data(const flxi_node *n)
{
    const flxi_attr *schema = flxi_ops[OP_const].rules->schema;
    while (schema->kind != ATTR_DATA)
        schema++;
    return *(const flx_tensor *const *)(const void *)((const char *)n->attrs + schema->offset);
}
