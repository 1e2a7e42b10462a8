/* SPDX-License-Identifier: Apache-2.0 */
/* attr_kinds.c: see attr_kinds.h. */
#include "graph/op/attr_kinds.h"

#include "base/number.h"

#include <math.h>
#include <stdio.h>

/* ---- Defaults ---- */

static void default_int(const flxi_attr *a, void *field)
{
    *(int64_t *)field = a->fallback;
}

static void default_real(const flxi_attr *a, void *field)
{
    *(double *)field = a->real;
}

static void default_string(const flxi_attr *a, void *field)
{
    (void)a;
    *(const char **)field = "";
}

static bool is_default_int(const flxi_attr *a, const void *field)
{
    return *(const int64_t *)field == a->fallback;
}

static bool is_default_real(const flxi_attr *a, const void *field)
{
    double x = *(const double *)field;
    return memcmp(&x, &a->real, sizeof x) == 0 || (isnan(x) && isnan(a->real));
}

static bool is_default_string(const flxi_attr *a, const void *field)
{
    (void)a;
    return **(const char *const *)field == 0;
}

static bool is_default_graph(const flxi_attr *a, const void *field)
{
    (void)a;
    return *(const flx_graph *const *)field == NULL;
}

static bool is_default_combine(const flxi_attr *a, const void *field)
{
    const flxi_combine *c = field;
    (void)a;
    return c->graph == NULL && c->word == 0;
}

/* These are always given. */
static bool is_default_never(const flxi_attr *a, const void *field)
{
    (void)a;
    (void)field;
    return false;
}

#define IS_DEFAULT_LIST(name, T)                                         \
    static bool is_default_##name(const flxi_attr *a, const void *field) \
    {                                                                    \
        (void)a;                                                         \
        return ((const T *)field)->v == NULL;                            \
    }
IS_DEFAULT_LIST(list, flx_ints)
IS_DEFAULT_LIST(reals, flx_reals)
IS_DEFAULT_LIST(types, flx_types)
IS_DEFAULT_LIST(graphs, flx_graphs)

/* ---- Copying ---- */

static flx_code map_dim(flxi_cloning *c, flx_dim *d)
{
    if (c->map->dim && !flxi_dim_is_number(*d))
        *d = c->map->dim(c->map->user, *d, c->err);
    return *d == FLX_DIM_INVALID ? (c->err && c->err->code ? (flx_code)c->err->code : FLX_E_SHAPE) : FLX_OK;
}

static flx_code map_body(flxi_cloning *c, const flx_graph **body)
{
    if (*body && c->map->body) {
        *body = c->map->body(c->map->user, *body, c->err);
        if (!*body)
            return c->err && c->err->code ? (flx_code)c->err->code : FLX_E_OOM;
    }
    return FLX_OK;
}

static int32_t map_dtype(const flxi_cloning *c, int32_t dtype)
{
    return c->map->dtype && dtype != FLX_DTYPE_NONE ? c->map->dtype(c->map->user, dtype) : dtype;
}

static flx_code clone_dtype(flxi_cloning *c, void *field)
{
    int64_t *dtype = field;
    *dtype = map_dtype(c, (int32_t)*dtype);
    return FLX_OK;
}

static flx_code clone_dim(flxi_cloning *c, void *field)
{
    return *(flx_dim *)field == FLXI_ABSENT ? FLX_OK : map_dim(c, field);
}

static flx_code clone_ints(flxi_cloning *c, void *field)
{
    flx_ints *list = field;
    if (!list->v)
        return FLX_OK;
    list->v = flxi_dup(&c->to->arena, int64_t, list->v, list->n);
    return list->v ? FLX_OK : flxi_oom(c->err, "attributes");
}

static flx_code clone_dims(flxi_cloning *c, void *field)
{
    flx_ints *list = field;
    if (!list->v)
        return FLX_OK;
    int64_t *copy = flxi_dup(&c->to->arena, int64_t, list->v, list->n);
    if (!copy)
        return flxi_oom(c->err, "attributes");
    for (size_t i = 0; i < list->n; i++)
        FLXI_TRY(map_dim(c, &copy[i]));
    list->v = copy;
    return FLX_OK;
}

static flx_code clone_reals(flxi_cloning *c, void *field)
{
    flx_reals *list = field;
    if (!list->v)
        return FLX_OK;
    list->v = flxi_dup(&c->to->arena, double, list->v, list->n);
    return list->v ? FLX_OK : flxi_oom(c->err, "attributes");
}

static flx_code map_type(flxi_cloning *c, const flx_type *from, flx_type *to)
{
    *to = *from;
    to->dtype = map_dtype(c, to->dtype);
    for (int i = 0; i < to->rank; i++)
        FLXI_TRY(map_dim(c, &to->dims[i]));
    return FLX_OK;
}

static flx_code clone_type(flxi_cloning *c, void *field)
{
    flx_type t;
    const flx_type **type = field;
    FLXI_TRY(map_type(c, *type, &t));
    *type = flxi_graph_type(c->to, &t);
    return *type ? FLX_OK : flxi_oom(c->err, "attributes");
}

static flx_code clone_types(flxi_cloning *c, void *field)
{
    flx_types *list = field;
    if (!list->v)
        return FLX_OK;
    flx_type *copy = flxi_new(&c->to->arena, flx_type, list->n);
    if (!copy)
        return flxi_oom(c->err, "attributes");
    for (size_t i = 0; i < list->n; i++)
        FLXI_TRY(map_type(c, &list->v[i], &copy[i]));
    list->v = copy;
    return FLX_OK;
}

static flx_code clone_graph(flxi_cloning *c, void *field)
{
    return map_body(c, field);
}

static flx_code clone_graphs(flxi_cloning *c, void *field)
{
    flx_graphs *list = field;
    if (!list->v)
        return FLX_OK;
    const flx_graph **copy = flxi_dup(&c->to->arena, const flx_graph *, list->v, list->n);
    if (!copy)
        return flxi_oom(c->err, "attributes");
    for (size_t i = 0; i < list->n; i++)
        FLXI_TRY(map_body(c, &copy[i]));
    list->v = copy;
    return FLX_OK;
}

static flx_code clone_combine(flxi_cloning *c, void *field)
{
    return map_body(c, &((flxi_combine *)field)->graph);
}

static flx_code clone_tensor(flxi_cloning *c, void *field)
{
    const flx_tensor **t = field;
    if (c->map->tensor)
        *t = c->map->tensor(c->map->user, *t, c->err);
    return *t ? FLX_OK : c->err && c->err->code ? (flx_code)c->err->code : FLX_E_OOM;
}

static flx_code keep_text(flxi_cloning *c, const char *from, size_t n, const char **to)
{
    *to = flxi_arena_text(&c->to->arena, from, n);
    return *to ? FLX_OK : flxi_oom(c->err, "attributes");
}

static flx_code clone_string(flxi_cloning *c, void *field)
{
    const char **s = field;
    if (!(c->attr->flags & ATTR_KERNEL) || !(*s)[0] || !c->map->kernel)
        return keep_text(c, *s, strlen(*s), s);
    flx_buffer text = {0};
    flx_code code = c->map->kernel(c->map->user, *s, &text, c->err);
    code = code == FLX_OK ? keep_text(c, text.data, text.size, s) : code;
    flx_buffer_free(&text);
    return code;
}

/* ---- Comparing ---- */

/* Numbers by their bits. */
static bool equal_bits(const void *x, const void *y, flxi_same_body same, void *user)
{
    (void)same;
    (void)user;
    return memcmp(x, y, 8) == 0;
}

static bool equal_ints(const void *x, const void *y, flxi_same_body same, void *user)
{
    const flx_ints *a = x;
    const flx_ints *b = y;
    (void)same;
    (void)user;
    return a->n == b->n && !a->v == !b->v && (!a->n || memcmp(a->v, b->v, a->n * sizeof(int64_t)) == 0);
}

static bool equal_reals(const void *x, const void *y, flxi_same_body same, void *user)
{
    const flx_reals *a = x;
    const flx_reals *b = y;
    (void)same;
    (void)user;
    return a->n == b->n && !a->v == !b->v && (!a->n || memcmp(a->v, b->v, a->n * sizeof(double)) == 0);
}

static bool equal_string(const void *x, const void *y, flxi_same_body same, void *user)
{
    (void)same;
    (void)user;
    return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
}

static bool equal_type(const void *x, const void *y, flxi_same_body same, void *user)
{
    (void)same;
    (void)user;
    return flxi_type_equal(*(const flx_type *const *)x, *(const flx_type *const *)y);
}

static bool equal_types(const void *x, const void *y, flxi_same_body same, void *user)
{
    const flx_types *a = x;
    const flx_types *b = y;
    bool is_alike = a->n == b->n;
    (void)same;
    (void)user;
    for (size_t i = 0; is_alike && i < a->n; i++)
        is_alike = flxi_type_equal(&a->v[i], &b->v[i]);
    return is_alike;
}

static bool equal_graph(const void *x, const void *y, flxi_same_body same, void *user)
{
    return same(*(const flx_graph *const *)x, *(const flx_graph *const *)y, user);
}

static bool equal_graphs(const void *x, const void *y, flxi_same_body same, void *user)
{
    const flx_graphs *a = x;
    const flx_graphs *b = y;
    bool is_alike = a->n == b->n;
    for (size_t i = 0; is_alike && i < a->n; i++)
        is_alike = same(a->v[i], b->v[i], user);
    return is_alike;
}

static bool equal_combine(const void *x, const void *y, flxi_same_body same, void *user)
{
    const flxi_combine *a = x;
    const flxi_combine *b = y;
    return a->word == b->word && same(a->graph, b->graph, user);
}

static bool equal_tensor(const void *x, const void *y, flxi_same_body same, void *user)
{
    const flx_tensor *a = *(const flx_tensor *const *)x;
    const flx_tensor *b = *(const flx_tensor *const *)y;
    (void)same;
    (void)user;
    return a == b || (flxi_type_equal(&a->type, &b->type) && memcmp(a->data, b->data, a->nbytes) == 0);
}

/* ---- Hashing: graphs, constants and dimensions are hashed by a visit ---- */

static uint64_t hash_number(const void *field, uint64_t h)
{
    return flxi_hash_u64(h, *(const uint64_t *)field);
}

static uint64_t hash_string(const void *field, uint64_t h)
{
    return flxi_hash_text(h, *(const char *const *)field);
}

static uint64_t hash_length(const void *field, uint64_t h)
{
    const flx_ints *list = field;
    return flxi_hash_u64(h, list->v ? list->n : UINT64_MAX);
}

static uint64_t hash_ints(const void *field, uint64_t h)
{
    const flx_ints *list = field;
    h = hash_length(field, h);
    for (size_t i = 0; i < list->n; i++)
        h = flxi_hash_u64(h, (uint64_t)list->v[i]);
    return h;
}

static uint64_t hash_reals(const void *field, uint64_t h)
{
    const flx_reals *list = field;
    return flxi_hash_bytes(flxi_hash_u64(h, list->n), list->v, list->n * sizeof(double));
}

static uint64_t hash_one_type(const flx_type *t, uint64_t h)
{
    return flxi_hash_u64(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
}

static uint64_t hash_type(const void *field, uint64_t h)
{
    return hash_one_type(*(const flx_type *const *)field, h);
}

static uint64_t hash_types(const void *field, uint64_t h)
{
    const flx_types *list = field;
    h = flxi_hash_u64(h, list->n);
    for (size_t i = 0; i < list->n; i++)
        h = hash_one_type(&list->v[i], h);
    return h;
}

static uint64_t hash_graph(const void *field, uint64_t h)
{
    return flxi_hash_u64(h, *(const flx_graph *const *)field != NULL);
}

static uint64_t hash_graphs(const void *field, uint64_t h)
{
    return flxi_hash_u64(h, ((const flx_graphs *)field)->n);
}

/* ---- Visiting ---- */

static flx_code visit_dim(const void *field, const flxi_attr_visitor *v)
{
    return v->dim ? v->dim(v->user, *(const flx_dim *)field) : FLX_OK;
}

static flx_code visit_dims(const void *field, const flxi_attr_visitor *v)
{
    const flx_ints *list = field;
    for (size_t i = 0; v->dim && i < list->n; i++)
        FLXI_TRY(v->dim(v->user, list->v[i]));
    return FLX_OK;
}

static flx_code visit_one_type(const flx_type *t, const flxi_attr_visitor *v)
{
    for (int i = 0; v->dim && i < t->rank; i++)
        FLXI_TRY(v->dim(v->user, t->dims[i]));
    return FLX_OK;
}

static flx_code visit_type(const void *field, const flxi_attr_visitor *v)
{
    return visit_one_type(*(const flx_type *const *)field, v);
}

static flx_code visit_types(const void *field, const flxi_attr_visitor *v)
{
    const flx_types *list = field;
    for (size_t i = 0; i < list->n; i++)
        FLXI_TRY(visit_one_type(&list->v[i], v));
    return FLX_OK;
}

static flx_code visit_one_graph(const flx_graph *body, const flxi_attr_visitor *v)
{
    return body && v->graph ? v->graph(v->user, body) : FLX_OK;
}

static flx_code visit_graph(const void *field, const flxi_attr_visitor *v)
{
    return visit_one_graph(*(const flx_graph *const *)field, v);
}

static flx_code visit_combine(const void *field, const flxi_attr_visitor *v)
{
    return visit_one_graph(((const flxi_combine *)field)->graph, v);
}

static flx_code visit_graphs(const void *field, const flxi_attr_visitor *v)
{
    const flx_graphs *list = field;
    for (size_t i = 0; i < list->n; i++)
        FLXI_TRY(visit_one_graph(list->v[i], v));
    return FLX_OK;
}

static flx_code visit_tensor(const void *field, const flxi_attr_visitor *v)
{
    return v->tensor ? v->tensor(v->user, *(const flx_tensor *const *)field) : FLX_OK;
}

/* ---- Defaults as the manual states them ---- */

static void write_int(const flxi_attr *a, char *buffer, size_t size)
{
    snprintf(buffer, size, "%lld", (long long)a->fallback);
}

static void write_bool(const flxi_attr *a, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s", a->fallback ? "true" : "false");
}

static void write_real(const flxi_attr *a, char *buffer, size_t size)
{
    char number[FLXI_NUMBER_MAX];
    flxi_write_double(number, a->real, 53);
    snprintf(buffer, size, "%s", number);
}

static void write_word(const flxi_attr *a, char *buffer, size_t size)
{
    size_t n;
    const char *word = flxi_word_at(a->words, a->fallback, &n);
    snprintf(buffer, size, "%.*s", (int)n, word);
}

static void write_dtype(const flxi_attr *a, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s", flx_dtype_name((int32_t)a->fallback));
}

static void write_string(const flxi_attr *a, char *buffer, size_t size)
{
    (void)a;
    snprintf(buffer, size, "\"\"");
}

/* ---- The table ---- */

const flxi_attr_kind_row flxi_attr_kinds[ATTR_KINDS] = {
    [ATTR_INT] = {.name = "int",
                  .text = "an integer",
                  .storage = STORED_INT,
                  .fill = flxi_fill_int,
                  .set_default = default_int,
                  .is_default = is_default_int,
                  .equal = equal_bits,
                  .hash = hash_number,
                  .view = flxi_view_int,
                  .write_default = write_int},
    [ATTR_BOOL] = {.name = "bool",
                   .text = "true or false",
                   .storage = STORED_INT,
                   .fill = flxi_fill_bool,
                   .set_default = default_int,
                   .is_default = is_default_int,
                   .equal = equal_bits,
                   .hash = hash_number,
                   .view = flxi_view_int,
                   .write_default = write_bool},
    [ATTR_REAL] = {.name = "real",
                   .text = "a number",
                   .storage = STORED_REAL,
                   .fill = flxi_fill_real,
                   .set_default = default_real,
                   .is_default = is_default_real,
                   .equal = equal_bits,
                   .hash = hash_number,
                   .view = flxi_view_real,
                   .write_default = write_real},
    [ATTR_WORD] = {.name = "word",
                   .text = "one of its words",
                   .storage = STORED_INT,
                   .fill = flxi_fill_word,
                   .set_default = default_int,
                   .is_default = is_default_int,
                   .equal = equal_bits,
                   .hash = hash_number,
                   .view = flxi_view_word,
                   .write_default = write_word},
    [ATTR_DTYPE] = {.name = "dtype",
                    .text = "a dtype such as f32",
                    .storage = STORED_INT,
                    .fill = flxi_fill_dtype,
                    .set_default = default_int,
                    .is_default = is_default_int,
                    .clone = clone_dtype,
                    .equal = equal_bits,
                    .hash = hash_number,
                    .view = flxi_view_dtype,
                    .write_default = write_dtype},
    [ATTR_DIM] = {.name = "dim",
                  .text = "an integer or a dimension",
                  .storage = STORED_INT,
                  .fill = flxi_fill_int,
                  .set_default = default_int,
                  .is_default = is_default_int,
                  .clone = clone_dim,
                  .equal = equal_bits,
                  .visit = visit_dim,
                  .view = flxi_view_int,
                  .write_default = write_int},
    [ATTR_INTS] = {.name = "ints",
                   .text = "a list of integers",
                   .storage = STORED_INTS,
                   .fill = flxi_fill_ints,
                   .is_default = is_default_list,
                   .clone = clone_ints,
                   .equal = equal_ints,
                   .hash = hash_ints,
                   .view = flxi_view_ints,
                   .write_default = write_int},
    [ATTR_BOOLS] = {.name = "bools",
                    .text = "a list of true and false",
                    .storage = STORED_INTS,
                    .fill = flxi_fill_ints,
                    .is_default = is_default_list,
                    .clone = clone_ints,
                    .equal = equal_ints,
                    .hash = hash_ints,
                    .view = flxi_view_ints,
                    .write_default = write_int},
    [ATTR_DIMS] = {.name = "dims",
                   .text = "a list of integers or dimensions",
                   .storage = STORED_INTS,
                   .fill = flxi_fill_ints,
                   .is_default = is_default_list,
                   .clone = clone_dims,
                   .equal = equal_ints,
                   .hash = hash_length,
                   .visit = visit_dims,
                   .view = flxi_view_ints,
                   .write_default = write_int},
    [ATTR_PAIRS] = {.name = "pairs",
                    .text = "a list of integers or [low, high] pairs",
                    .storage = STORED_INTS,
                    .fill = flxi_fill_ints,
                    .is_default = is_default_list,
                    .clone = clone_ints,
                    .equal = equal_ints,
                    .hash = hash_ints,
                    .view = flxi_view_pairs,
                    .write_default = write_int},
    [ATTR_REALS] = {.name = "reals",
                    .text = "a list of numbers",
                    .storage = STORED_REALS,
                    .fill = flxi_fill_reals,
                    .is_default = is_default_reals,
                    .clone = clone_reals,
                    .equal = equal_reals,
                    .hash = hash_reals,
                    .view = flxi_view_reals,
                    .write_default = write_int},
    [ATTR_STRING] = {.name = "string",
                     .text = "a string",
                     .storage = STORED_STRING,
                     .fill = flxi_fill_string,
                     .set_default = default_string,
                     .is_default = is_default_string,
                     .clone = clone_string,
                     .equal = equal_string,
                     .hash = hash_string,
                     .view = flxi_view_string,
                     .write_default = write_string},
    [ATTR_TYPE] = {.name = "type",
                   .text = "a type such as f32[2, 3]",
                   .storage = STORED_TYPE,
                   .fill = flxi_fill_type,
                   .is_default = is_default_never,
                   .clone = clone_type,
                   .equal = equal_type,
                   .hash = hash_type,
                   .visit = visit_type,
                   .view = flxi_view_type,
                   .write_default = write_int},
    [ATTR_TYPES] = {.name = "types",
                    .text = "a list of types",
                    .storage = STORED_TYPES,
                    .fill = flxi_fill_types,
                    .is_default = is_default_types,
                    .clone = clone_types,
                    .equal = equal_types,
                    .hash = hash_types,
                    .visit = visit_types,
                    .view = flxi_view_types,
                    .write_default = write_int},
    [ATTR_GRAPH] = {.name = "graph",
                    .text = "a graph, written @name",
                    .storage = STORED_GRAPH,
                    .fill = flxi_fill_graph,
                    .is_default = is_default_graph,
                    .clone = clone_graph,
                    .equal = equal_graph,
                    .hash = hash_graph,
                    .visit = visit_graph,
                    .view = flxi_view_graph,
                    .write_default = write_int},
    [ATTR_GRAPHS] = {.name = "graphs",
                     .text = "a list of graphs",
                     .storage = STORED_GRAPHS,
                     .fill = flxi_fill_graphs,
                     .is_default = is_default_graphs,
                     .clone = clone_graphs,
                     .equal = equal_graphs,
                     .hash = hash_graphs,
                     .visit = visit_graphs,
                     .view = flxi_view_graphs,
                     .write_default = write_int},
    [ATTR_COMBINE] = {.name = "combine",
                      .text = "a word or a graph",
                      .storage = STORED_COMBINE,
                      .fill = flxi_fill_combine,
                      .is_default = is_default_combine,
                      .clone = clone_combine,
                      .equal = equal_combine,
                      .hash = hash_number,
                      .visit = visit_combine,
                      .view = flxi_view_combine,
                      .write_default = write_word},
    [ATTR_DATA] = {.name = "data",
                   .text = "a literal",
                   .storage = STORED_TENSOR,
                   .fill = flxi_fill_tensor,
                   .is_default = is_default_never,
                   .clone = clone_tensor,
                   .equal = equal_tensor,
                   .visit = visit_tensor,
                   .view = flxi_view_tensor,
                   .write_default = write_int},
    [ATTR_VALUE] = {.name = "value",
                    .text = "a number",
                    .storage = STORED_TENSOR,
                    .fill = flxi_fill_tensor,
                    .is_default = is_default_never,
                    .clone = clone_tensor,
                    .equal = equal_tensor,
                    .visit = visit_tensor,
                    .view = flxi_view_tensor,
                    .write_default = write_int},
};
