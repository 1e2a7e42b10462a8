/* safetensors.c: reading .safetensors: eight bytes with the length of a header, the header as JSON, then all tensors'
   bytes, little-endian and row-major. For each tensor the header has dtype, shape and where in the data it begins and
   ends. The whole header is checked whichever tensor is asked for: it must be JSON, every tensor must be described in
   full, and none may lie outside the data. Only the tensor asked for is read. */
#include "io/array.h"
#include "io/endian.h"
#include "io/json.h"
#include "io/key_list.h"
#include "ir/tensor.h"

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
    char dtype[24]; /* as written, cut */
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
        return malformed(j, "a size is expected", err);
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
    return malformed(j, "data_offsets are not two numbers", err);
}

/* The field whose key was just read. Unknown fields are passed over. */
static flx_code parse_field(flxi_json *j, description *d, flx_error *err)
{
    unsigned field = flxi_json_is(j, "dtype")          ? saw_dtype
                     : flxi_json_is(j, "shape")        ? saw_shape
                     : flxi_json_is(j, "data_offsets") ? saw_offsets
                                                       : 0;
    if (d->seen & field)
        return malformed(j, "a field stands there twice", err);
    d->seen |= field;
    flxi_json_token t = flxi_json_next(j);
    if (field == 0)
        return flxi_json_skip(j, t) ? FLX_OK : malformed(j, "", err);
    if (t != (field == saw_dtype ? FLXI_JSON_STRING : FLXI_JSON_ARRAY))
        return malformed(j, field == saw_dtype ? "the dtype is not a string" : "a list is expected", err);
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
        return malformed(j, "a tensor's description is expected", err);
    flxi_json_token t;
    while ((t = flxi_json_next(j)) == FLXI_JSON_KEY)
        FLXI_TRY(parse_field(j, d, err));
    if (t != FLXI_JSON_OBJECT_END)
        return malformed(j, "", err);
    if (d->seen != saw_all)
        return malformed(j, "dtype, shape or data_offsets is missing", err);
    if (d->begin > d->end || d->end > data_size)
        return malformed(j, "a tensor lies outside the file", err);
    return FLX_OK;
}

/* Walks the header and picks the description of `key`. */
static flx_code find_tensor(flxi_json *j, uint64_t data_size, const char *key, description *found, flx_error *err)
{
    flxi_key_list known = {0};
    bool have = false;
    flxi_json_token t;
    if (j->size == 0 || j->text[0] != '{' || flxi_json_next(j) != FLXI_JSON_OBJECT)
        return malformed(j, "it does not begin with {", err);
    while ((t = flxi_json_next(j)) == FLXI_JSON_KEY) {
        if (flxi_json_is(j, "__metadata__")) {
            if (!flxi_json_skip(j, flxi_json_next(j)))
                return malformed(j, "", err);
            continue;
        }
        char name[64];
        size_t n = flxi_json_text(j, name, sizeof name);
        bool wanted = flxi_json_is(j, key);
        flxi_key_list_add(&known, name, n);
        if (wanted && have)
            return malformed(j, "the tensor stands there twice", err);
        description d;
        FLXI_TRY(parse_description(j, data_size, &d, err));
        have |= wanted;
        if (wanted)
            *found = d;
    }
    if (t != FLXI_JSON_OBJECT_END || flxi_json_next(j) != FLXI_JSON_END)
        return malformed(j, "", err);
    if (have)
        return FLX_OK;
    char shown[64];
    flxi_printable(shown, sizeof shown, key, strlen(key));
    flxi_fail(err, FLX_E_NAME, "the file has no tensor named '%s'", shown);
    flxi_key_list_hint(&known, err);
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
        return flxi_fail(err, FLX_E_UNSUPPORTED, "tensors of dtype '%s' cannot be read", shown);
    }
    if (d->rank > FLX_MAX_RANK)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "the tensor has %lld dimensions, more than %d", (long long)d->rank,
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

static flx_code locate(const flxi_allocator *mem, const flxi_source *s, size_t n, const char *key, flxi_array *a,
                       flx_error *err)
{
    uint64_t data_at = 8 + (uint64_t)n;
    description d = {.rank = 0};
    char *copy = NULL;
    flx_code code = FLX_OK;
    if (!s->bytes) {
        copy = flxi_alloc(mem, n, 1);
        code = copy ? flxi_source_read(s, 8, copy, n, err) : flxi_oom(err, "a safetensors header");
    }
    if (code == FLX_OK) {
        flxi_json j = flxi_json_begin(copy ? copy : (const char *)s->bytes + 8, n);
        code = find_tensor(&j, s->size - data_at, key, &d, err);
    }
    if (code == FLX_OK)
        code = to_array(&d, data_at, a, err);
    flxi_free(mem, copy, n, 1);
    return code;
}

static flx_tensor *load(flx_context *ctx, const flxi_source *s, const char *key, flx_error *err)
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
        flxi_fail(err, FLX_E_USAGE, "flx_safetensors_decode: context, bytes and key must be given");
        return NULL;
    }
    flxi_source s = flxi_source_memory(bytes, size);
    return load(ctx, &s, key, err);
}

flx_tensor *flx_safetensors_read(flx_context *ctx, const char *path, const char *key, flx_error *err)
{
    flxi_source s;
    flx_tensor *t = NULL;
    if (!ctx || !path || !key) {
        flxi_fail(err, FLX_E_USAGE, "flx_safetensors_read: context, path and key must be given");
        return NULL;
    }
    if (flxi_source_open(&s, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        t = load(ctx, &s, key, err);
        flxi_source_close(&s);
    }
    if (!t)
        flxi_at(err, "%s", path);
    return t;
}
