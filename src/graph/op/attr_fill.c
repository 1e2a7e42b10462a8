/* SPDX-License-Identifier: Apache-2.0 */
/* attr_fill.c: what a builder, a file or a text gives for an attribute, checked and put into the op's struct. */
#include "graph/op/attr_kinds.h"
#include "graph/op/foreign_names.h"

#include <math.h>
#include <stdio.h>

/* What was given, for a message: ", not 'wrap'"; empty where it does not fit in a few characters. */
static void describe_given(const flx_attr *given, char *buffer, size_t size)
{
    char text[40];
    buffer[0] = 0;
    if ((given->kind == FLX_ATTR_WORD || given->kind == FLX_ATTR_STRING) && given->as.s)
        snprintf(buffer, size, ", not '%s'", flxi_printable(text, sizeof text, given->as.s, strlen(given->as.s)));
    else if (given->kind == FLX_ATTR_INT && flxi_dim_is_number(given->as.i))
        snprintf(buffer, size, ", not %lld", (long long)given->as.i);
}

static flx_code wrong_kind(flxi_filling *s)
{
    char hint[120] = "";
    char found[60];
    const flx_attr *given = s->given;
    const char *dtype = s->attr->kind == ATTR_DTYPE && given->kind == FLX_ATTR_WORD && given->as.s
                            ? flxi_foreign_dtype(given->as.s, strlen(given->as.s))
                            : NULL;
    const char *word = given->kind == FLX_ATTR_WORD && given->as.s ? given->as.s : "";
    bool is_truth = s->attr->kind == ATTR_BOOL && (strcmp(word, "True") == 0 || strcmp(word, "False") == 0);
    if (is_truth)
        snprintf(hint, sizeof hint, "write %s=%s", s->attr->name, word[0] == 'T' ? "true" : "false");
    else if (strcmp(word, "None") == 0 && !(s->attr->flags & ATTR_REQUIRED))
        snprintf(hint, sizeof hint, "leave %s out", s->attr->name);
    else if (s->attr->words)
        snprintf(hint, sizeof hint, "one of: %s", s->attr->words);
    else if (dtype)
        snprintf(hint, sizeof hint, "write %s=%s", s->attr->name, dtype);
    else if (s->attr->kind == ATTR_GRAPH && given->kind == FLX_ATTR_WORD && given->as.s)
        snprintf(hint, sizeof hint, "write %s=@%s", s->attr->name,
                 flxi_printable(found, sizeof found, given->as.s, strlen(given->as.s)));
    else if (flxi_attr_is_list(s->attr->kind) && given->kind == FLX_ATTR_INT && flxi_dim_is_number(given->as.i))
        snprintf(hint, sizeof hint, "write %s=[%lld]", s->attr->name, (long long)given->as.i);
    else if (s->attr->kind == ATTR_INT && given->kind == FLX_ATTR_INTS && given->as.ints.n == 1 &&
             flxi_dim_is_number(given->as.ints.v[0]))
        snprintf(hint, sizeof hint, "write %s=%lld", s->attr->name, (long long)given->as.ints.v[0]);
    describe_given(s->given, found, sizeof found);
    return flxi_fail_hint(s->err, FLX_E_ATTRIBUTE, hint, "%s: attribute '%s' must be %s%s", s->op->name, s->attr->name,
                          flxi_attr_kinds[s->attr->kind].text, found);
}

static bool given_word(const flxi_filling *s, const char **word, size_t *n)
{
    if ((s->given->kind != FLX_ATTR_WORD && s->given->kind != FLX_ATTR_STRING) || !s->given->as.s)
        return false;
    *word = s->given->as.s;
    *n = strlen(*word);
    return true;
}

/* What text can say too. */
static bool is_legal_dim(const flxi_filling *s, flx_dim d)
{
    return d <= FLXI_DIM_LARGEST && flxi_dim_is_known(s->g->ctx, d);
}

static flx_code out_of_range(flxi_filling *s)
{
    return flxi_fail(s->err, FLX_E_ATTRIBUTE, "%s: attribute '%s' is out of range", s->op->name, s->attr->name);
}

flx_code flxi_fill_int(flxi_filling *s)
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

flx_code flxi_fill_bool(flxi_filling *s)
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

flx_code flxi_fill_real(flxi_filling *s)
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

flx_code flxi_fill_word(flxi_filling *s)
{
    const char *word;
    size_t n;
    int64_t v = given_word(s, &word, &n) ? flxi_word_find(s->attr->words, word, n) : -1;
    if (v < 0)
        return wrong_kind(s);
    *(int64_t *)(void *)s->field = v;
    return FLX_OK;
}

flx_code flxi_fill_dtype(flxi_filling *s)
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
static flx_code keep_list(flxi_filling *s, const int64_t *v, size_t n, size_t times)
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

flx_code flxi_fill_ints(flxi_filling *s)
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

flx_code flxi_fill_reals(flxi_filling *s)
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

flx_code flxi_fill_string(flxi_filling *s)
{
    if (s->given->kind != FLX_ATTR_STRING || !s->given->as.s)
        return wrong_kind(s);
    const char *copy = flxi_arena_text(&s->g->arena, s->given->as.s, strlen(s->given->as.s));
    if (!copy)
        return flxi_oom(s->err, "attributes");
    *(const char **)(void *)s->field = copy;
    return FLX_OK;
}

flx_code flxi_fill_type(flxi_filling *s)
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

flx_code flxi_fill_types(flxi_filling *s)
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

static flx_code check_body(flxi_filling *s, const flx_graph *body)
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

flx_code flxi_fill_graph(flxi_filling *s)
{
    if (s->given->kind != FLX_ATTR_GRAPH)
        return wrong_kind(s);
    FLXI_TRY(check_body(s, s->given->as.graph));
    *(const flx_graph **)(void *)s->field = s->given->as.graph;
    return FLX_OK;
}

flx_code flxi_fill_graphs(flxi_filling *s)
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

flx_code flxi_fill_combine(flxi_filling *s)
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

flx_code flxi_fill_tensor(flxi_filling *s)
{
    if (s->given->kind != FLX_ATTR_TENSOR || !s->given->as.tensor)
        return wrong_kind(s);
    if (s->given->as.tensor->ctx != s->g->ctx)
        return flxi_fail(s->err, FLX_E_USAGE, "%s: the data belongs to another context", s->op->name);
    *(const flx_tensor **)(void *)s->field = s->given->as.tensor;
    return FLX_OK;
}
