/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_meshes.c: meshes and shardings of Shardy against each other and against the values they are about, before the
   import reads them. Both are text here (import_mesh.c). What this does not know how to read is let through: the import
   leaves it out. Axes past the first MOST_AXES of a list are not compared. */
#include "base/error.h"
#include "base/hash.h"
#include "base/text/count_words.h"
#include "stablehlo/import/import_scope.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_AXES = 64, NAME_TEXT = 60, WHO_TEXT = 100 };

/* A name as the program writes it, which may hold anything. */
typedef struct {
    const char *at;
    size_t n;
} piece;

typedef struct {
    piece axes[MOST_AXES];
    int num_axes;
    bool is_known; /* these are all of its axes */
} axis_list;

typedef struct {
    const hlo_module *m;
    const char *file;
    flx_error *err;
    flxi_index meshes;  /* by the hash of their names */
    char who[WHO_TEXT]; /* what is checked */
    hlo_location at;    /* … and where */
    const hlo_source *source;
} checker;

static flx_code fail(checker *c, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);

static flx_code fail(checker *c, flx_code code, const char *hint, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    flxi_fail_hint(c->err, code, hint, "%s: %s", c->who, text);
    flxi_hlo_locate(c->err, c->file, c->at);
    flxi_hlo_add_source(c->err, c->source);
    return code;
}

/* ---- Text ---- */

static const char *skip_space(const char *s)
{
    return s + strspn(s, " \t\r\n");
}

static const char *printable(piece p, char out[NAME_TEXT])
{
    return flxi_printable(out, NAME_TEXT, p.at, p.n < NAME_TEXT ? p.n : NAME_TEXT - 1);
}

static bool is_same(piece a, piece b)
{
    return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

/* "name"; what follows it, NULL: there is no name. */
static const char *read_quoted(const char *s, piece *out)
{
    const char *end = *s == '"' ? strchr(s + 1, '"') : NULL;
    if (!end)
        return NULL;
    *out = (piece){s + 1, (size_t)(end - s) - 1};
    return skip_space(end + 1);
}

/* ---- Meshes ---- */

static flx_code check_size(checker *c, piece axis, const char *s, const char **end)
{
    char name[NAME_TEXT];
    char *after;
    errno = 0;
    long long size = strtoll(s, &after, s[0] == '0' && s[1] == 'x' ? 16 : 10);
    *end = skip_space(after);
    if (after == s || (**end != ',' && **end != ']'))
        return fail(c, FLX_E_SYNTAX, "a mesh is written <[\"data\"=4, \"model\"=2]>",
                    "the size of axis \"%s\" is not a number", printable(axis, name));
    if (errno == ERANGE)
        return fail(c, FLX_E_SIZE, NULL, "the size of axis \"%s\" does not fit 64 bits", printable(axis, name));
    if (size < 1)
        return fail(c, FLX_E_ATTRIBUTE, NULL, "axis \"%s\" has size %lld, but must have 1 or more",
                    printable(axis, name), size);
    return FLX_OK;
}

static flx_code add_axis(checker *c, axis_list *out, piece axis)
{
    char name[NAME_TEXT];
    for (int i = 0; i < out->num_axes; i++)
        if (is_same(out->axes[i], axis))
            return fail(c, FLX_E_DUP_NAME, NULL, "two axes are called \"%s\"", printable(axis, name));
    if (out->num_axes < MOST_AXES)
        out->axes[out->num_axes++] = axis;
    else
        out->is_known = false;
    return FLX_OK;
}

/* ["data"=2, "model"=2] */
static flx_code read_mesh(checker *c, const char *text, axis_list *out)
{
    const char *s = skip_space(text);
    piece axis;
    *out = (axis_list){.num_axes = 0};
    if (*s != '[')
        return FLX_OK;
    out->is_known = true;
    for (s = skip_space(s + 1); *s != ']'; s = skip_space(s + (*s == ','))) {
        s = read_quoted(s, &axis);
        if (!s || *s != '=') {
            out->is_known = false;
            return FLX_OK;
        }
        FLXI_TRY(check_size(c, axis, skip_space(s + 1), &s));
        FLXI_TRY(add_axis(c, out, axis));
    }
    return FLX_OK;
}

static const hlo_named_mesh *find_mesh(const checker *c, piece name)
{
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&c->meshes, flxi_hash_bytes(FLXI_HASH_SEED, name.at, name.n));
         flxi_index_next(&c->meshes, &p, &i);)
        if (is_same((piece){c->m->meshes[i].name, strlen(c->m->meshes[i].name)}, name))
            return &c->m->meshes[i];
    return NULL;
}

static flx_code check_mesh(checker *c, const flxi_allocator *mem, size_t i)
{
    const hlo_named_mesh *mesh = &c->m->meshes[i];
    const piece name = {mesh->name, strlen(mesh->name)};
    char text[NAME_TEXT];
    axis_list axes;
    c->at = mesh->at;
    snprintf(c->who, sizeof c->who, "mesh @%s", printable(name, text));
    if (find_mesh(c, name))
        return fail(c, FLX_E_DUP_NAME, NULL, "it is defined twice");
    if (i >= UINT32_MAX ||
        !flxi_index_add(mem, &c->meshes, flxi_hash_bytes(FLXI_HASH_SEED, name.at, name.n), (uint32_t)i))
        return flxi_oom(c->err, "the meshes of a program");
    return read_mesh(c, mesh->text, &axes);
}

/* ---- Shardings ---- */

/* A sharding while it is read. */
typedef struct {
    axis_list mesh;
    char mesh_text[NAME_TEXT + 8]; /* for messages */
    piece used[MOST_AXES];         /* axes, and what is after their names: :(1)2 for a part of one */
    piece parts[MOST_AXES];
    int num_used;
} sharding;

/* @mesh or mesh<["x"=2]>; *s moves after it, to NULL when it is something else. */
static flx_code read_mesh_of(checker *c, const char **s, sharding *out)
{
    static const char own[] = "mesh<";
    const char *at = skip_space(*s);
    *s = NULL;
    if (strncmp(at, own, sizeof own - 1) == 0) {
        FLXI_TRY(read_mesh(c, at + sizeof own - 1, &out->mesh));
        *s = strchr(at, '>');
        *s = *s ? *s + 1 : NULL;
        snprintf(out->mesh_text, sizeof out->mesh_text, "its mesh");
        return FLX_OK;
    }
    char text[NAME_TEXT];
    piece name = {at + 1, 0};
    if (*at != '@')
        return FLX_OK;
    if (at[1] == '"' && !(at = read_quoted(at + 1, &name)))
        return FLX_OK;
    if (!name.n) {
        name.n = strcspn(name.at, ",> \t\r\n");
        at = name.at + name.n;
    }
    const hlo_named_mesh *mesh = find_mesh(c, name);
    if (!mesh)
        return fail(c, FLX_E_NAME, "a mesh is defined in the module: sdy.mesh @mesh = <[\"data\"=4, \"model\"=2]>",
                    "there is no mesh @%s", printable(name, text));
    snprintf(out->mesh_text, sizeof out->mesh_text, "mesh @%s", printable(name, text));
    *s = at;
    return read_mesh(c, mesh->text, &out->mesh);
}

/* A whole axis has all its parts; two different parts of one are let through. */
static flx_code use_axis(checker *c, sharding *d, piece axis, piece part)
{
    char name[NAME_TEXT];
    bool is_there = !d->mesh.is_known;
    for (int i = 0; i < d->mesh.num_axes && !is_there; i++)
        is_there = is_same(d->mesh.axes[i], axis);
    if (!is_there)
        return fail(c, FLX_E_NAME, NULL, "%s has no axis \"%s\"", d->mesh_text, printable(axis, name));
    for (int i = 0; i < d->num_used; i++)
        if (is_same(d->used[i], axis) && (!part.n || !d->parts[i].n || is_same(d->parts[i], part)))
            return fail(c, FLX_E_DUP_NAME, "a sharding has each axis of the mesh once at most",
                        "axis \"%s\" is used twice", printable(axis, name));
    if (d->num_used < MOST_AXES) {
        d->used[d->num_used] = axis;
        d->parts[d->num_used++] = part;
    }
    return FLX_OK;
}

/* {"x", "y":(1)2, ?}; *s moves after it, to NULL when it is something else. */
static flx_code read_axes(checker *c, sharding *d, const char **s)
{
    const char *at = *s;
    *s = NULL;
    if (*at != '{')
        return FLX_OK;
    for (at = skip_space(at + 1); *at != '}'; at = skip_space(at + (*at == ','))) {
        piece axis, part;
        if (*at == '?') {
            at = skip_space(at + 1);
        } else {
            at = read_quoted(at, &axis);
            if (!at)
                return FLX_OK;
            part = (piece){at, *at == ':' ? strcspn(at, ",}") : 0};
            at += part.n;
            if (*at == ',' || *at == '}')
                FLXI_TRY(use_axis(c, d, axis, part));
        }
        if (*at != ',' && *at != '}')
            return FLX_OK;
    }
    *s = at + 1;
    return FLX_OK;
}

/* [{"x"}, {?}p1]: one list for each axis of the value; *s moves after it, to NULL when it is something else. A mesh
   without axes is that of one device, whose shardings have no lists. */
static flx_code read_dimensions(checker *c, sharding *d, const hlo_type *t, const char **s)
{
    const char *at = skip_space(*s);
    int n = 0;
    *s = NULL;
    if (*at != ',' || *(at = skip_space(at + 1)) != '[')
        return FLX_OK;
    for (at = skip_space(at + 1); *at != ']'; at = skip_space(at + (*at == ','))) {
        FLXI_TRY(read_axes(c, d, &at));
        if (!at)
            return FLX_OK;
        at += *at == 'p' ? 1 + strspn(at + 1, "0123456789") : 0;
        at = skip_space(at);
        if (*at != ',' && *at != ']')
            return FLX_OK;
        n++;
    }
    *s = at + 1;
    if (t && t->kind == HLO_TENSOR && !t->is_unranked && n != t->rank && d->mesh.num_axes)
        return fail(c, FLX_E_SHAPE, "a sharding has one {} for each axis of the value",
                    "the sharding is for %d axes, the value has %d", n, t->rank);
    return FLX_OK;
}

/* @mesh, [{"x"}, {}], replicated={"y"}> after its <; *s moves after the >, to NULL when it is something else. */
static flx_code check_sharding(checker *c, const hlo_type *t, const char **s)
{
    sharding d = {.num_used = 0};
    FLXI_TRY(read_mesh_of(c, s, &d));
    if (*s)
        FLXI_TRY(read_dimensions(c, &d, t, s));
    while (*s && *(*s = skip_space(*s)) == ',') {
        *s = strchr(*s, '=');
        *s = *s ? skip_space(*s + 1) : NULL;
        if (*s)
            FLXI_TRY(read_axes(c, &d, s));
    }
    *s = *s && **s == '>' ? *s + 1 : NULL;
    return FLX_OK;
}

static const char *after(const char *text, const char *start)
{
    size_t n = strlen(start);
    return strncmp(text, start, n) == 0 ? text + n : NULL;
}

/* #sdy.sharding<…> of one value, or #sdy.sharding_per_value<[<…>, <…>]> of several. */
static flx_code check_attribute(checker *c, const hlo_attr *a, const hlo_type *const *types, size_t n)
{
    const char *s = after(a->text, "#sdy.sharding<");
    if (s)
        return check_sharding(c, n == 1 ? types[0] : NULL, &s);
    s = after(a->text, "#sdy.sharding_per_value<[");
    for (size_t i = 0; s && *(s = skip_space(s)) == '<'; i++) {
        s++;
        FLXI_TRY(check_sharding(c, i < n ? types[i] : NULL, &s));
        s = s ? skip_space(s) : NULL;
        s = s && *s == ',' ? s + 1 : NULL;
    }
    return FLX_OK;
}

/* ---- The program ---- */

static flx_code check_op(checker *c, const hlo_op *op)
{
    enum { MOST_VALUES = 64 };
    for (size_t i = 0; i < op->num_attrs; i++) {
        const hlo_attr *a = op->attrs[i].value;
        const hlo_type *types[MOST_VALUES];
        if (a->kind != HLO_A_OPAQUE)
            continue;
        bool takes = strcmp(op->attrs[i].name, "in_shardings") == 0;
        size_t n = takes ? op->num_operands : op->num_results;
        for (size_t k = 0; k < n && k < MOST_VALUES; k++)
            types[k] = (takes ? op->operands : op->results)[k]->type;
        c->at = a->at.column ? a->at : op->at;
        c->source = op->source;
        snprintf(c->who, sizeof c->who, "%.80s", op->name);
        FLXI_TRY(check_attribute(c, a, types, n < MOST_VALUES ? n : MOST_VALUES));
    }
    return FLX_OK;
}

static flx_code check_region(checker *c, const hlo_region *r)
{
    for (const hlo_op *op = r->first; op; op = op->next) {
        FLXI_TRY(check_op(c, op));
        for (size_t i = 0; i < op->num_regions; i++)
            FLXI_TRY(check_region(c, &op->regions[i]));
    }
    return FLX_OK;
}

static flx_code check_border(checker *c, const hlo_function *f, const char *kind, size_t i, const hlo_attr *dict,
                             const hlo_type *type)
{
    const hlo_attr *a = dict ? flxi_hlo_entry(dict, "sdy.sharding") : NULL;
    if (!a || a->kind != HLO_A_OPAQUE)
        return FLX_OK;
    char name[NAME_TEXT];
    c->at = a->at.column ? a->at : f->at;
    c->source = f->source;
    snprintf(c->who, sizeof c->who, "%s %zu of @%s", kind, i, printable((piece){f->name, strlen(f->name)}, name));
    return check_attribute(c, a, &type, 1);
}

static flx_code check_function(checker *c, const hlo_function *f)
{
    for (size_t i = 0; f->arg_attrs && i < f->body.num_args; i++)
        FLXI_TRY(check_border(c, f, "argument", i, f->arg_attrs[i], f->body.args[i]->type));
    for (size_t i = 0; f->result_attrs && i < f->num_results; i++)
        FLXI_TRY(check_border(c, f, "result", i, f->result_attrs[i], f->results[i]));
    return check_region(c, &f->body);
}

flx_code flxi_hlo_check_meshes(const flxi_allocator *mem, const hlo_module *m, const char *file, flx_error *err)
{
    checker c = {.m = m, .file = file, .err = err};
    flx_code code = FLX_OK;
    for (size_t i = 0; code == FLX_OK && i < m->num_meshes; i++)
        code = check_mesh(&c, mem, i);
    for (size_t i = 0; code == FLX_OK && i < m->num_functions; i++)
        code = check_function(&c, &m->functions[i]);
    flxi_index_free(mem, &c.meshes);
    return code;
}
