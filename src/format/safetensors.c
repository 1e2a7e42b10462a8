/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c: .safetensors files: eight bytes with the length of a header, the header as JSON, then the bytes of all
   tensors, little-endian and row-major. For each tensor the header has dtype, shape, and begin and end offsets in the
   data. The whole header is checked for every request: it must be JSON, every tensor must be described completely, and
   all must be within the data. Only the requested tensor is read. Written files have no gaps, and their data begins at
   a multiple of eight. */
#include "format/safetensors.h"

#include "base/text/utf8.h"
#include "format/endian.h"
#include "format/json.h"
#include "format/key_list.h"
#include "format/keys.h"
#include "graph/type/tensor.h"

/* The format's own limit. */
static const uint64_t header_max = 100000000;

static const struct {
    const char *name;
    int32_t dtype;
} dtypes[] = {
    {"F64", FLX_F64}, {"F32", FLX_F32}, {"F16", FLX_F16}, {"BF16", FLX_BF16}, {"C64", FLX_C64},
    {"I64", FLX_I64}, {"I32", FLX_I32}, {"I16", FLX_I16}, {"I8", FLX_I8},     {"U64", FLX_U64},
    {"U32", FLX_U32}, {"U16", FLX_U16}, {"U8", FLX_U8},   {"BOOL", FLX_BOOL},
};

typedef struct {
    char dtype[24]; /* as written, truncated */
    flx_type type;
    int64_t rank; /* as written; type.rank stops at FLX_MAX_RANK */
    uint64_t begin, end;
    unsigned seen; /* bit per field */
} description;

enum { saw_dtype = 1, saw_shape = 2, saw_offsets = 4, saw_all = 7 };

/* ---- The header ---- */

static flx_code malformed(const flxi_json *j, const char *what, flx_error *err)
{
    return flxi_fail(err, FLX_E_SYNTAX, "the safetensors header is malformed at byte %zu: %s", j->at,
                     j->error ? j->error : what);
}

/* The elements of an array of integers, one per call; *more is false at its end. */
static flx_code next_integer(flxi_json *j, uint64_t *out, bool *more, flx_error *err)
{
    flxi_json_token t = flxi_json_next(j);
    *more = t != FLXI_JSON_ARRAY_END;
    if (!*more)
        return FLX_OK;
    if (t != FLXI_JSON_NUMBER || !flxi_json_u64(j, out))
        return malformed(j, "expected a size", err);
    return FLX_OK;
}

static flx_code parse_shape(flxi_json *j, description *d, flx_error *err)
{
    for (;;) {
        uint64_t dim = 0;
        bool more;
        FLXI_TRY(next_integer(j, &dim, &more, err));
        if (!more)
            return FLX_OK;
        if (dim > INT64_MAX)
            return malformed(j, "a dimension is too large", err);
        if (d->type.rank < FLX_MAX_RANK)
            d->type.dims[d->type.rank++] = (int64_t)dim;
        d->rank++;
    }
}

static flx_code parse_offsets(flxi_json *j, description *d, flx_error *err)
{
    uint64_t extra;
    bool one, two, three;
    FLXI_TRY(next_integer(j, &d->begin, &one, err));
    if (one) {
        FLXI_TRY(next_integer(j, &d->end, &two, err));
        if (two) {
            FLXI_TRY(next_integer(j, &extra, &three, err));
            if (!three)
                return FLX_OK;
        }
    }
    return malformed(j, "data_offsets must be two numbers", err);
}

/* The field whose key was just read. Unknown fields are skipped. */
static flx_code parse_field(flxi_json *j, description *d, flx_error *err)
{
    unsigned field = flxi_json_is(j, "dtype")          ? saw_dtype
                     : flxi_json_is(j, "shape")        ? saw_shape
                     : flxi_json_is(j, "data_offsets") ? saw_offsets
                                                       : 0;
    if (d->seen & field)
        return malformed(j, "a field is listed twice", err);
    d->seen |= field;
    flxi_json_token t = flxi_json_next(j);
    if (field == 0)
        return flxi_json_skip(j, t) ? FLX_OK : malformed(j, "", err);
    if (t != (field == saw_dtype ? FLXI_JSON_STRING : FLXI_JSON_ARRAY))
        return malformed(j, field == saw_dtype ? "the dtype is not a string" : "expected a list", err);
    if (field == saw_shape)
        return parse_shape(j, d, err);
    if (field == saw_offsets)
        return parse_offsets(j, d, err);
    flxi_json_text(j, d->dtype, sizeof d->dtype);
    return FLX_OK;
}

static flx_code parse_description(flxi_json *j, uint64_t data_size, description *d, flx_error *err)
{
    *d = (description){.rank = 0};
    if (flxi_json_next(j) != FLXI_JSON_OBJECT)
        return malformed(j, "expected the description of a tensor", err);
    flxi_json_token t;
    while ((t = flxi_json_next(j)) == FLXI_JSON_KEY)
        FLXI_TRY(parse_field(j, d, err));
    if (t != FLXI_JSON_OBJECT_END)
        return malformed(j, "", err);
    if (d->seen != saw_all)
        return malformed(j, "dtype, shape or data_offsets is missing", err);
    if (d->begin > d->end || d->end > data_size)
        return malformed(j, "a tensor extends past the end of the file", err);
    return FLX_OK;
}

/* Calls `visit` for each tensor of the header; the reader has just read its key. */
typedef flx_code (*visit_fn)(void *user, flxi_json *j, flx_error *err);

/* The text of the file; the reader has just read its key. */
static flx_code skip_text(void *user, flxi_json *j, flx_error *err)
{
    (void)user;
    return flxi_json_skip(j, flxi_json_next(j)) ? FLX_OK : malformed(j, "", err);
}

static flx_code walk_header(flxi_json *j, visit_fn visit, visit_fn visit_text, void *user, flx_error *err)
{
    flxi_json_token t;
    if (j->size == 0 || j->text[0] != '{' || flxi_json_next(j) != FLXI_JSON_OBJECT)
        return malformed(j, "it does not begin with {", err);
    while ((t = flxi_json_next(j)) == FLXI_JSON_KEY)
        FLXI_TRY((flxi_json_is(j, "__metadata__") ? visit_text : visit)(user, j, err));
    return t == FLXI_JSON_OBJECT_END && flxi_json_next(j) == FLXI_JSON_END ? FLX_OK : malformed(j, "", err);
}

typedef struct {
    const char *key;
    uint64_t data_size;
    flxi_key_list known;
    bool have;
    description *found;
} search;

static flx_code visit_for_search(void *user, flxi_json *j, flx_error *err)
{
    search *s = user;
    char name[64];
    size_t n = flxi_json_text(j, name, sizeof name);
    bool wanted = flxi_json_is(j, s->key);
    flxi_key_list_add(&s->known, name, n);
    if (wanted && s->have)
        return malformed(j, "the tensor is listed twice", err);
    description d;
    FLXI_TRY(parse_description(j, s->data_size, &d, err));
    s->have |= wanted;
    if (wanted)
        *s->found = d;
    return FLX_OK;
}

/* Walks the header and picks the description of `key`. */
static flx_code find_tensor(flxi_json *j, uint64_t data_size, const char *key, description *found, flx_error *err)
{
    search s = {.key = key, .data_size = data_size, .found = found};
    FLXI_TRY(walk_header(j, visit_for_search, skip_text, &s, err));
    if (s.have)
        return FLX_OK;
    char shown[64];
    flxi_printable(shown, sizeof shown, key, strlen(key));
    flxi_fail(err, FLX_E_NAME, "the file has no tensor named '%s'", shown);
    flxi_key_list_hint(&s.known, err);
    return FLX_E_NAME;
}

static flx_code to_array(const description *d, uint64_t data_at, flxi_array *a, flx_error *err)
{
    *a = (flxi_array){.type = d->type, .at = data_at + d->begin, .size = d->end - d->begin};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, d->dtype) == 0)
            a->type.dtype = dtypes[i].dtype;
    if (a->type.dtype == FLX_DTYPE_NONE) {
        char shown[sizeof d->dtype];
        flxi_printable(shown, sizeof shown, d->dtype, strlen(d->dtype));
        return flxi_fail(err, FLX_E_UNSUPPORTED, "tensors of dtype '%s' are not supported", shown);
    }
    if (d->rank > FLX_MAX_RANK)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "the tensor has %lld dimensions, the limit is %d", (long long)d->rank,
                         FLX_MAX_RANK);
    return FLX_OK;
}

/* ---- Reading ---- */

static flx_code header_size(const flxi_source *s, int64_t limit, size_t *size, flx_error *err)
{
    unsigned char head[8];
    if (s->size < sizeof head)
        return flxi_fail(err, FLX_E_SYNTAX, "not a safetensors file: it has only %llu bytes",
                         (unsigned long long)s->size);
    FLXI_TRY(flxi_source_read(s, 0, head, sizeof head, err));
    uint64_t n = flxi_get64(head);
    if (n > s->size - sizeof head)
        return flxi_fail(err, FLX_E_SYNTAX, "not a safetensors file: its header would have %llu bytes",
                         (unsigned long long)n);
    if (n > header_max || (limit > 0 && n > (uint64_t)limit))
        return flxi_fail(err, FLX_E_SIZE, "the safetensors header has %llu bytes, more than the limit",
                         (unsigned long long)n);
    *size = (size_t)n;
    return FLX_OK;
}

/* The n bytes of the header: those of the source, or a copy, which *copy holds for the caller to free. */
static flx_code read_header(const flxi_allocator *mem, const flxi_source *s, size_t n, char **copy, flxi_json *out,
                            flx_error *err)
{
    *copy = NULL;
    if (!s->bytes) {
        *copy = flxi_alloc(mem, n, 1);
        if (!*copy)
            return flxi_oom(err, "a safetensors header");
        FLXI_TRY(flxi_source_read(s, 8, *copy, n, err));
    }
    *out = flxi_json_begin(*copy ? *copy : (const char *)s->bytes + 8, n);
    return FLX_OK;
}

static flx_code locate(const flxi_allocator *mem, const flxi_source *s, size_t n, const char *key, flxi_array *a,
                       flx_error *err)
{
    uint64_t data_at = 8 + (uint64_t)n;
    description d = {.rank = 0};
    flxi_json j;
    char *copy;
    flx_code code = read_header(mem, s, n, &copy, &j, err);
    if (code == FLX_OK)
        code = find_tensor(&j, s->size - data_at, key, &d, err);
    if (code == FLX_OK)
        code = to_array(&d, data_at, a, err);
    flxi_free(mem, copy, n, 1);
    return code;
}

typedef struct {
    flx_keys *out;
    uint64_t data_size;
} listing;

static flx_code visit_for_keys(void *user, flxi_json *j, flx_error *err)
{
    const listing *l = user;
    description d;
    size_t size = flxi_json_text(j, NULL, 0);
    char *key = flxi_keys_room(l->out, size, err);
    if (!key)
        return FLX_E_OOM;
    flxi_json_text(j, key, size + 1);
    return parse_description(j, l->data_size, &d, err);
}

flx_code flxi_safetensors_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    size_t n = 0;
    flxi_json j;
    char *copy = NULL;
    FLXI_TRY(header_size(s, flxi_context_limit(ctx), &n, err));
    listing l = {out, s->size - 8 - n};
    flx_code code = read_header(mem, s, n, &copy, &j, err);
    if (code == FLX_OK)
        code = walk_header(&j, visit_for_keys, skip_text, &l, err);
    flxi_free(mem, copy, n, 1);
    return code;
}

/* ---- Reading everything ---- */

typedef struct {
    const flxi_safetensors_visitor *v;
    flxi_strbuf name, value;
    uint64_t data_at, data_size;
} visit;

/* The decoded key or string just read, which is not longer than it was written. */
static flx_code take_text(const flxi_json *j, flxi_strbuf *b, flx_error *err)
{
    b->n = 0;
    flxi_add_bytes(b, j->start, j->length);
    if (b->failed)
        return flxi_oom(err, "the text of a safetensors file");
    b->n = flxi_json_text(j, b->at, j->length + 1);
    return FLX_OK;
}

static flx_code visit_tensor(void *user, flxi_json *j, flx_error *err)
{
    visit *u = user;
    description d;
    flxi_array a;
    FLXI_TRY(take_text(j, &u->name, err));
    FLXI_TRY(parse_description(j, u->data_size, &d, err));
    FLXI_TRY(to_array(&d, u->data_at, &a, err));
    return u->v->tensor(u->v->user, u->name.at, u->name.n, &a, err);
}

static flx_code visit_text(void *user, flxi_json *j, flx_error *err)
{
    visit *u = user;
    flxi_json_token t;
    if (flxi_json_next(j) != FLXI_JSON_OBJECT)
        return malformed(j, "__metadata__ is not an object", err);
    while ((t = flxi_json_next(j)) == FLXI_JSON_KEY) {
        FLXI_TRY(take_text(j, &u->name, err));
        if (flxi_json_next(j) != FLXI_JSON_STRING)
            return malformed(j, "a value of __metadata__ is not a string", err);
        FLXI_TRY(take_text(j, &u->value, err));
        FLXI_TRY(u->v->pair(u->v->user, u->name.at, u->name.n, u->value.at, u->value.n,
                            8 + (uint64_t)(j->start - j->text), err));
    }
    return t == FLXI_JSON_OBJECT_END ? FLX_OK : malformed(j, "", err);
}

flx_code flxi_safetensors_walk(flx_context *ctx, const flxi_source *s, const flxi_safetensors_visitor *v,
                               flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    size_t n = 0;
    flxi_json j;
    char *copy = NULL;
    FLXI_TRY(header_size(s, flxi_context_limit(ctx), &n, err));
    visit u = {.v = v, .data_at = 8 + (uint64_t)n, .data_size = s->size - 8 - n};
    flxi_strbuf_init(&u.name, mem);
    flxi_strbuf_init(&u.value, mem);
    flx_code code = read_header(mem, s, n, &copy, &j, err);
    if (code == FLX_OK)
        code = walk_header(&j, visit_tensor, visit_text, &u, err);
    flxi_strbuf_free(&u.name);
    flxi_strbuf_free(&u.value);
    flxi_free(mem, copy, n, 1);
    return code;
}

/* ---- Reading one tensor ---- */

flx_tensor *flxi_safetensors_load(flx_context *ctx, const flxi_source *s, const char *key, flx_error *err)
{
    size_t n = 0;
    flxi_array a = {.at = 0};
    if (header_size(s, flxi_context_limit(ctx), &n, err) != FLX_OK ||
        locate(flxi_context_mem(ctx), s, n, key, &a, err) != FLX_OK)
        return NULL;
    return flxi_array_load(ctx, &a, s, err);
}

flx_tensor *flx_safetensors_decode(flx_context *ctx, const void *bytes, size_t size, const char *key, flx_error *err)
{
    if (!ctx || (!bytes && size) || !key) {
        flxi_fail(err, FLX_E_USAGE, "flx_safetensors_decode: context, bytes and key must not be NULL");
        return NULL;
    }
    flxi_source s = flxi_source_memory(bytes, size);
    return flxi_safetensors_load(ctx, &s, key, err);
}

flx_tensor *flx_safetensors_read(flx_context *ctx, const char *path, const char *key, flx_error *err)
{
    flxi_source s;
    flx_tensor *t = NULL;
    if (!ctx || !path || !key) {
        flxi_fail(err, FLX_E_USAGE, "flx_safetensors_read: context, path and key must not be NULL");
        return NULL;
    }
    if (flxi_source_open(&s, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        t = flxi_safetensors_load(ctx, &s, key, err);
        flxi_source_close(&s);
    }
    if (!t)
        flxi_at(err, "%s", path);
    return t;
}

/* ---- Writing ---- */

static const char *dtype_name(int32_t dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

static void add_json_string(flxi_strbuf *b, const char *s)
{
    flxi_add_char(b, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 32)
            flxi_addf(b, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            flxi_addf(b, "\\%c", c);
        else
            flxi_add_char(b, *s);
    }
    flxi_add_char(b, '"');
}

/* Describes one tensor, whose data begins at `at`. */
static flx_code add_description(flxi_strbuf *b, const char *key, const flx_tensor *t, uint64_t at, flx_error *err)
{
    const char *dtype = dtype_name(t->type.dtype);
    if (!dtype)
        return flxi_fail_hint(
            err, FLX_E_UNSUPPORTED, ".npz files can hold it: flx run --out NAME.npz, in C flx_npz_write()",
            "tensor '%.100s' is %s, which safetensors files do not support", key, flx_dtype_name(t->type.dtype));
    if (strcmp(key, "__metadata__") == 0)
        return flxi_fail(err, FLX_E_NAME, "a tensor must not be named __metadata__");
    if (!flxi_is_utf8(key, strlen(key)))
        return flxi_fail(err, FLX_E_NAME, "the name of a tensor is not UTF-8, as the format requires");
    add_json_string(b, key);
    flxi_addf(b, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
    for (int32_t i = 0; i < t->type.rank; i++)
        flxi_addf(b, "%s%lld", i ? "," : "", (long long)t->type.dims[i]);
    flxi_addf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + t->nbytes));
    return FLX_OK;
}

static flx_code add_pair(flxi_strbuf *b, const flxi_text_pair *p, flx_error *err)
{
    if (!flxi_is_utf8(p->key, strlen(p->key)) || !flxi_is_utf8(p->value, strlen(p->value)))
        return flxi_fail(err, FLX_E_SYNTAX, "the text of '%.60s' is not UTF-8", p->key);
    add_json_string(b, p->key);
    flxi_add_char(b, ':');
    add_json_string(b, p->value);
    return FLX_OK;
}

static flx_code add_content(flxi_strbuf *b, const flxi_safetensors_content *c, flx_error *err)
{
    uint64_t at = 0;
    flxi_add_char(b, '{');
    for (size_t i = 0; i < c->num_pairs; i++) {
        flxi_add_text(b, i ? "," : "\"__metadata__\":{");
        FLXI_TRY(add_pair(b, &c->pairs[i], err));
    }
    if (c->num_pairs)
        flxi_add_char(b, '}');
    for (size_t i = 0; i < c->count; i++) {
        if (i || c->num_pairs)
            flxi_add_char(b, ',');
        FLXI_TRY(add_description(b, c->keys[i], c->tensors[i], at, err));
        at += c->tensors[i]->nbytes;
    }
    flxi_add_char(b, '}');
    return FLX_OK;
}

flx_code flxi_safetensors_header(flxi_strbuf *b, const flxi_safetensors_content *c, flx_error *err)
{
    unsigned char size[8] = "";
    flxi_add_bytes(b, size, sizeof size);
    FLXI_TRY(add_content(b, c, err));
    while (b->n % 8 && !b->failed)
        flxi_add_char(b, ' ');
    if (b->failed)
        return flxi_oom(err, "a safetensors header");
    if (b->n - sizeof size > header_max)
        return flxi_fail(err, FLX_E_SIZE, "the header would have more than %llu bytes", (unsigned long long)header_max);
    flxi_put64(size, b->n - sizeof size);
    memcpy(b->at, size, sizeof size);
    return FLX_OK;
}

/* On a big-endian machine a converted copy. */
flx_code flxi_safetensors_elements(const flx_tensor *t, flxi_take_bytes take, void *user, flx_error *err)
{
    FLXI_TRY(flxi_tensor_fetch(t, err));
    if (!flxi_host_is_big_endian())
        return take(user, t->data, t->nbytes, err);
    flxi_source s = flxi_source_memory(t->data, t->nbytes);
    flx_tensor *turned = flxi_array_load(t->ctx, &(flxi_array){.type = t->type, .size = t->nbytes}, &s, err);
    flx_code code = turned ? take(user, turned->data, turned->nbytes, err) : FLX_E_OOM;
    flx_tensor_release(turned);
    return code;
}

static flx_code take_save(void *user, const void *bytes, size_t size, flx_error *err)
{
    return flxi_save_bytes(user, bytes, size, err);
}

static flx_code save_all(flxi_save *out, const flxi_strbuf *header, const flxi_safetensors_content *c, flx_error *err)
{
    FLXI_TRY(flxi_save_bytes(out, header->at, header->n, err));
    for (size_t i = 0; i < c->count; i++)
        FLXI_TRY(flxi_safetensors_elements(c->tensors[i], take_save, out, err));
    return FLX_OK;
}

flx_code flxi_safetensors_save(const char *path, const flxi_strbuf *header, const flxi_safetensors_content *c,
                               flx_error *err)
{
    flxi_save out;
    FLXI_TRY(flxi_save_begin(&out, path, err));
    flx_code code = save_all(&out, header, c, err);
    if (code == FLX_OK)
        return flxi_save_end(&out, err);
    flxi_save_abandon(&out);
    return code;
}

flx_code flx_safetensors_write(const char *path, const char *const *keys, const flx_tensor *const *tensors,
                               size_t count, flx_error *err)
{
    static const flxi_allocator fallback = {flxi_default_alloc, NULL}; /* an empty file has no context */
    FLXI_TRY(flxi_keyed_check("flx_safetensors_write", path, keys, tensors, count, err));
    const flxi_allocator *mem = count ? flxi_context_mem(tensors[0]->ctx) : &fallback;
    const flxi_safetensors_content c = {.keys = keys, .tensors = tensors, .count = count};
    flxi_strbuf header;
    flxi_strbuf_init(&header, mem);
    flx_code code = flxi_keys_check(mem, keys, count, err);
    if (code == FLX_OK)
        code = flxi_safetensors_header(&header, &c, err);
    if (code == FLX_OK)
        code = flxi_safetensors_save(path, &header, &c, err);
    flxi_strbuf_free(&header);
    if (code != FLX_OK)
        flxi_at(err, "%s", path);
    return code;
}
