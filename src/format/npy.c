/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c: NumPy's .npy: a magic string, the version, and a Python dictionary as text with dtype, order and shape; then
   the elements. The format is described in NumPy's NEP 1; versions 1.0, 2.0 and 3.0 differ only in the width of the
   length field and the encoding of the text. A small scanner reads the dictionary; it accepts the three known keys in
   any order and with any spacing, and nothing else. */
#include "format/npy.h"

#include "base/number.h"
#include "format/endian.h"
#include "graph/type/tensor.h"

#include <stdio.h>

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Plain arrays need about a hundred bytes; long headers belong to structured dtypes, which are not supported. */
static const uint64_t header_max = 1 << 16;

/* ---- Dtypes ---- */

static const struct {
    char kind;
    unsigned size;
    int32_t dtype;
} codes[] = {
    {'f', 8, FLX_F64}, {'f', 4, FLX_F32}, {'f', 2, FLX_F16}, {'c', 8, FLX_C64},  {'c', 16, FLX_C128},
    {'i', 8, FLX_I64}, {'i', 4, FLX_I32}, {'i', 2, FLX_I16}, {'i', 1, FLX_I8},   {'u', 8, FLX_U64},
    {'u', 4, FLX_U32}, {'u', 2, FLX_U16}, {'u', 1, FLX_U8},  {'b', 1, FLX_BOOL},
};
enum { num_codes = sizeof codes / sizeof *codes };

/* "<f8": byte order ('<' '>', or '=' '|' or nothing for this machine's), kind, bytes. */
static flx_code parse_descr(const char *s, size_t n, flxi_array *a, flx_error *err)
{
    char shown[32];
    size_t i = n > 0 && s[0] && strchr("<>=|", s[0]) ? 1 : 0;
    a->is_big_endian = i && (s[0] == '<' || s[0] == '>') ? s[0] == '>' : flxi_host_is_big_endian();
    uint64_t size;
    if (n < i + 2 || !flxi_read_u64(s + i + 1, n - i - 1, &size))
        size = 0;
    for (int k = 0; k < num_codes; k++) {
        if (n > i && s[i] == codes[k].kind && size == codes[k].size) {
            a->type.dtype = codes[k].dtype;
            return FLX_OK;
        }
    }
    flxi_printable(shown, sizeof shown, s, n);
    return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "save it as a float, complex, integer or bool array; bf16 as float32",
                          "arrays of NumPy dtype '%s' are not supported", shown);
}

static const char *descr_of(int32_t dtype, char out[8])
{
    for (int k = 0; k < num_codes; k++) {
        if (codes[k].dtype == dtype) {
            char order = codes[k].size == 1 ? '|' : flxi_host_is_big_endian() ? '>' : '<';
            snprintf(out, 8, "%c%c%u", order, codes[k].kind, codes[k].size);
            return out;
        }
    }
    return "";
}

/* ---- The dictionary ---- */

typedef struct {
    const char *at, *end;
} scanner;

static flx_code malformed(flx_error *err, const char *what)
{
    return flxi_fail(err, FLX_E_SYNTAX, "the .npy header is malformed: %s", what);
}

static void skip_space(scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static bool next_is(scanner *s, char c)
{
    skip_space(s);
    return s->at < s->end && *s->at == c;
}

static bool accept(scanner *s, char c)
{
    bool found = next_is(s, c);
    s->at += found;
    return found;
}

/* A string in either kind of quotes; none of the valid ones has escapes. */
static bool accept_string(scanner *s, const char **text, size_t *n)
{
    char quote = next_is(s, '"') ? '"' : '\'';
    if (!accept(s, quote))
        return false;
    *text = s->at;
    while (s->at < s->end && *s->at != quote && *s->at != '\\')
        s->at++;
    *n = (size_t)(s->at - *text);
    return s->at < s->end && *s->at++ == quote;
}

static bool accept_word(scanner *s, const char *word)
{
    size_t n = strlen(word);
    skip_space(s);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static flx_code parse_dim(scanner *s, flxi_array *a, flx_error *err)
{
    skip_space(s);
    const char *start = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    int64_t dim;
    if (s->at == start)
        return malformed(err, "the shape contains something other than dimensions");
    if (!flxi_read_i64(start, (size_t)(s->at - start), &dim))
        return flxi_fail(err, FLX_E_SIZE, "a dimension of the array is too large");
    if (s->at < s->end && *s->at == 'L') /* written by Python 2 */
        s->at++;
    if (a->type.rank == FLX_MAX_RANK)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "the array has more than %d dimensions", FLX_MAX_RANK);
    a->type.dims[a->type.rank++] = dim;
    return FLX_OK;
}

/* A tuple: (), (3,), (3, 4), (3, 4,). */
static flx_code parse_shape(scanner *s, flxi_array *a, flx_error *err)
{
    bool comma = false;
    if (!accept(s, '('))
        return malformed(err, "the shape is not a tuple");
    while (!next_is(s, ')')) {
        if (a->type.rank > 0 && !comma)
            return malformed(err, "the shape lacks a comma");
        FLXI_TRY(parse_dim(s, a, err));
        comma = accept(s, ',');
    }
    accept(s, ')');
    if (a->type.rank == 1 && !comma)
        return malformed(err, "the shape is not a tuple");
    return FLX_OK;
}

static flx_code parse_descr_value(scanner *s, flxi_array *a, flx_error *err)
{
    const char *text;
    size_t n;
    if (next_is(s, '[') || next_is(s, '('))
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "save each field as a separate array",
                              "arrays of structures are not supported");
    if (!accept_string(s, &text, &n))
        return malformed(err, "the dtype is not a string");
    return parse_descr(text, n, a, err);
}

static flx_code parse_order(scanner *s, flxi_array *a, flx_error *err)
{
    a->is_fortran = accept_word(s, "True");
    return a->is_fortran || accept_word(s, "False") ? FLX_OK : malformed(err, "fortran_order must be True or False");
}

static const struct {
    const char *name;
    flx_code (*parse)(scanner *s, flxi_array *a, flx_error *err);
} keys[] = {{"descr", parse_descr_value}, {"fortran_order", parse_order}, {"shape", parse_shape}};
enum { num_keys = 3 };

static flx_code parse_header(scanner *s, flxi_array *a, flx_error *err)
{
    unsigned seen = 0;
    bool comma = true;
    if (!accept(s, '{'))
        return malformed(err, "expected a dictionary");
    while (!next_is(s, '}')) {
        const char *text;
        size_t n;
        if (!comma || !accept_string(s, &text, &n) || !accept(s, ':'))
            return malformed(err, "expected a key");
        int k = 0;
        while (k < num_keys && !(strlen(keys[k].name) == n && memcmp(keys[k].name, text, n) == 0))
            k++;
        if (k == num_keys || (seen >> k & 1))
            return malformed(err, k == num_keys ? "unknown key" : "duplicate key");
        seen |= 1u << k;
        FLXI_TRY(keys[k].parse(s, a, err));
        comma = accept(s, ',');
    }
    accept(s, '}');
    skip_space(s);
    if (s->at != s->end)
        return malformed(err, "data follows the dictionary");
    if (seen != (1u << num_keys) - 1)
        return malformed(err, "descr, fortran_order or shape is missing");
    return FLX_OK;
}

/* ---- Reading ---- */

/* Reads the fixed part and locates the text: [*at, *at + *size). */
static flx_code read_preamble(const flxi_source *s, uint64_t *at, size_t *size, flx_error *err)
{
    unsigned char head[12] = {0};
    if (s->size < 10)
        return flxi_fail(err, FLX_E_SYNTAX, "not a .npy file: it has only %llu bytes", (unsigned long long)s->size);
    FLXI_TRY(flxi_source_read(s, 0, head, s->size < sizeof head ? 10 : sizeof head, err));
    if (memcmp(head, magic, sizeof magic) != 0)
        return flxi_fail(err, FLX_E_SYNTAX, "not a .npy file: it does not begin with \\x93NUMPY");
    unsigned major = head[6];
    unsigned minor = head[7];
    if (major < 1 || major > 3 || minor != 0)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "version %u.%u of the .npy format is not supported", major, minor);
    *at = major == 1 ? 10 : 12;
    uint64_t length = major == 1 ? flxi_get16(head + 8) : flxi_get32(head + 8);
    if (*at > s->size || length > s->size - *at)
        return flxi_fail(err, FLX_E_SYNTAX, "the .npy file ends inside its header");
    if (length > header_max)
        return flxi_fail(err, FLX_E_SIZE, "the .npy header has %llu bytes, the limit is %llu",
                         (unsigned long long)length, (unsigned long long)header_max);
    *size = (size_t)length;
    return FLX_OK;
}

flx_tensor *flxi_npy_load(flx_context *ctx, const flxi_source *s, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    uint64_t at = 0;
    size_t n = 0;
    if (read_preamble(s, &at, &n, err) != FLX_OK)
        return NULL;
    char *text = flxi_alloc(mem, n, 1);
    if (!text) {
        flxi_oom(err, "a .npy header");
        return NULL;
    }
    flxi_array a = {.at = at + n, .size = s->size - at - n};
    flx_code code = flxi_source_read(s, at, text, n, err);
    if (code == FLX_OK)
        code = parse_header(&(scanner){text, text + n}, &a, err);
    flxi_free(mem, text, n, 1);
    return code == FLX_OK ? flxi_array_load(ctx, &a, s, err) : NULL;
}

flx_tensor *flx_npy_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_npy_decode: context and bytes must not be NULL");
        return NULL;
    }
    flxi_source s = flxi_source_memory(bytes, size);
    return flxi_npy_load(ctx, &s, err);
}

flx_tensor *flx_npy_read(flx_context *ctx, const char *path, flx_error *err)
{
    flxi_source s;
    flx_tensor *t = NULL;
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_npy_read: context and path must not be NULL");
        return NULL;
    }
    if (flxi_source_open(&s, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        t = flxi_npy_load(ctx, &s, err);
        flxi_source_close(&s);
    }
    if (!t)
        flxi_at(err, "%s", path);
    return t;
}

/* ---- Writing ---- */

/* The text is padded with spaces so that the data begins at a multiple of 64 bytes. */
size_t flxi_npy_header(const flx_type *t, char out[FLXI_NPY_HEADER_MAX])
{
    char descr[8];
    char shape[FLX_MAX_RANK * 22 + 1] = "";
    size_t k = 0;
    for (int i = 0; i < t->rank; i++)
        k += (size_t)snprintf(shape + k, sizeof shape - k, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    int n =
        snprintf(out + 10, FLXI_NPY_HEADER_MAX - 10 - 64, "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                 descr_of(t->dtype, descr), shape, t->rank == 1 ? "," : "");
    size_t total = (10 + (size_t)n + 1 + 63) / 64 * 64;
    memset(out + 10 + n, ' ', total - 10 - (size_t)n);
    out[total - 1] = '\n';
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    flxi_put16((unsigned char *)out + 8, (uint32_t)(total - 10));
    return total;
}

flx_code flxi_npy_version(const flx_tensor *t, flx_tensor **out, flx_error *err)
{
    flx_error own;
    flx_error *e = err ? err : &own; /* the code is needed even if the caller passes NULL */
    *out = t->type.dtype == FLX_BF16 ? flx_tensor_cast(t, FLX_F32, e) : flx_tensor_retain((flx_tensor *)t);
    return *out ? FLX_OK : (flx_code)e->code;
}

static flx_code write_array(const flx_tensor *t, const char *path, flx_error *err)
{
    flxi_save save;
    char header[FLXI_NPY_HEADER_MAX];
    size_t n = flxi_npy_header(&t->type, header);
    FLXI_TRY(flxi_tensor_fetch(t, err));
    FLXI_TRY(flxi_save_begin(&save, path, err));
    flx_code code = flxi_save_bytes(&save, header, n, err);
    if (code == FLX_OK)
        code = flxi_save_bytes(&save, t->data, t->nbytes, err);
    if (code == FLX_OK)
        return flxi_save_end(&save, err);
    flxi_save_abandon(&save);
    return code;
}

flx_code flx_npy_write(const flx_tensor *t, const char *path, flx_error *err)
{
    if (!t || !path)
        return flxi_fail(err, FLX_E_USAGE, "flx_npy_write: tensor and path must not be NULL");
    flx_tensor *version;
    flx_code code = flxi_npy_version(t, &version, err);
    if (code == FLX_OK)
        code = write_array(version, path, err);
    flx_tensor_release(version);
    if (code != FLX_OK)
        flxi_at(err, "%s", path);
    return code;
}
