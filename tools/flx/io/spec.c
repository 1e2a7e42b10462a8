/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c: from a SPEC to a tensor. Rules that fill (a number, iota, normal, uniform) are run as a graph of that one op,
   so that `--in x=normal:7` is by construction what `rng_normal(seed=7)` gives. */
#include "io/spec.h"

#include "args.h"
#include "io/elements.h"
#include "report.h"

#include <fluxion/run.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the library reports of the value of an input. */
static int input_failed(const char *input, const flx_error *err)
{
    int status = fail(err->code, "input '%s': %s", input, err->message);
    if (err->hint[0])
        hint("%s", err->hint);
    return status;
}

/* ---- Files ---- */

static flx_tensor *read_npy(flx_context *ctx, const char *path, const char *key, flx_error *err)
{
    (void)key;
    return flx_npy_read(ctx, path, err);
}

typedef struct {
    const char *extension;
    bool has_keys;
    flx_tensor *(*read)(flx_context *ctx, const char *path, const char *key, flx_error *err);
} file_format;

static const file_format formats[] = {
    {".npy", false, read_npy},
    {".npz", true, flx_npz_read},
    {".safetensors", true, flx_safetensors_read},
    {".safetensors.index.json", true, flx_weights_read},
    {".pt", true, flx_weights_read},
    {".pth", true, flx_weights_read},
};

/* The format whose extension `spec` has, and where the path ends: `path.npy` or `path.npz:key`. */
static const file_format *format_of(const char *spec, size_t *path_length)
{
    size_t n = strlen(spec);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        size_t k = strlen(formats[i].extension);
        if (n > k && strcmp(spec + n - k, formats[i].extension) == 0) {
            *path_length = n;
            return &formats[i];
        }
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const char *at = strstr(spec, formats[i].extension);
        size_t k = strlen(formats[i].extension);
        if (formats[i].has_keys && at && at[k] == ':') {
            *path_length = (size_t)(at - spec) + k;
            return &formats[i];
        }
    }
    return NULL;
}

bool spec_has_shape(const char *spec)
{
    size_t n;
    return format_of(spec, &n) || strchr(spec, ',');
}

int spec_convert(const char *input, const char *source, int32_t dtype, flx_tensor **t)
{
    int32_t from = flx_tensor_type(*t)->dtype;
    if (from == dtype || dtype == FLX_DTYPE_NONE)
        return STATUS_OK;
    bool floats = kind_of(from) == KIND_FLOAT && kind_of(dtype) == KIND_FLOAT;
    bool integers = kind_is_integer(kind_of(from)) && kind_is_integer(kind_of(dtype));
    bool complexes = kind_of(from) == KIND_COMPLEX && kind_of(dtype) == KIND_COMPLEX;
    if (!floats && !integers && !complexes) {
        int status = fail(FLX_E_DTYPE, "input '%s' is %s, but %s holds %s", input, flx_dtype_name(dtype), source,
                          flx_dtype_name(from));
        hint("only another float, complex or integer width is converted; add a cast to the graph or convert the file");
        return status;
    }
    int64_t count = flx_tensor_count(*t);
    for (int64_t i = 0; integers && i < count; i++) {
        integer v = element_integer(*t, i);
        if (!integer_fits(v, dtype))
            return fail(FLX_E_DTYPE, "input '%s' is %s, which cannot hold %s%llu, element %lld of %s", input,
                        flx_dtype_name(dtype), v.negative ? "-" : "", (unsigned long long)v.magnitude, (long long)i,
                        source);
    }
    flx_error err = {0};
    flx_tensor *converted = flx_tensor_cast(*t, (flx_dtype)dtype, &err);
    if (!converted)
        return input_failed(input, &err);
    flx_tensor_release(*t);
    *t = converted;
    return STATUS_OK;
}

/* ---- Lists ---- */

/* `x`, `yi`, or `x+yi` and `x-yi`, as complex numbers are printed. */
static bool read_complex(const char *text, void *element)
{
    double *z = element;
    char real[48];
    size_t n = strlen(text), at = n;
    z[1] = 0;
    if (read_number(text, &z[0]))
        return true;
    z[0] = 0;
    if (n < 2 || n >= sizeof real || text[n - 1] != 'i')
        return false;
    memcpy(real, text, n);
    real[n - 1] = 0;
    if (read_number(real, &z[1]))
        return true;
    do
        at--;
    while (at > 1 && (!strchr("+-", real[at - 1]) || strchr("eE", real[at - 2])));
    if (at < 2 || !read_number(real + at - 1, &z[1]))
        return false;
    real[at - 1] = 0;
    return read_number(real, &z[0]);
}

static bool read_bool(const char *text, void *element)
{
    bool is_true = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    *(uint8_t *)element = is_true;
    return is_true || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

static bool read_float(const char *text, void *element)
{
    return read_number(text, element);
}

static bool read_unsigned(const char *text, void *element)
{
    integer v;
    if (!read_integer(text, &v.negative, &v.magnitude))
        return false;
    *(uint64_t *)element = integer_bits(v);
    return !v.negative || !v.magnitude;
}

static bool read_signed(const char *text, void *element)
{
    return read_i64(text, element);
}

/* How the elements of a list are read for an input. */
typedef struct {
    flx_dtype dtype;
    bool (*read)(const char *text, void *element);
    const char *what;
} item_kind;

static item_kind items_for(int32_t dtype)
{
    dtype_kind kind = dtype == FLX_DTYPE_NONE ? KIND_SIGNED : kind_of(dtype);
    if (kind == KIND_COMPLEX)
        return (item_kind){FLX_C128, read_complex, "numbers like 1+2i"};
    if (kind == KIND_BOOL)
        return (item_kind){FLX_BOOL, read_bool, "0, 1, false or true"};
    if (kind == KIND_FLOAT)
        return (item_kind){FLX_F64, read_float, "numbers"};
    return dtype == FLX_U64 ? (item_kind){FLX_U64, read_unsigned, "integers from 0"}
                            : (item_kind){FLX_I64, read_signed, "integers"};
}

/* What is before the next comma as an element; false when it does not fit. */
static bool read_item(const char *text, size_t size, const item_kind *kind, void *element)
{
    char item[80];
    while (size && *text == ' ') {
        text++;
        size--;
    }
    while (size && text[size - 1] == ' ')
        size--;
    if (size >= sizeof item)
        return false;
    memcpy(item, text, size);
    item[size] = 0;
    return kind->read(item, element);
}

int spec_read_list(flx_context *ctx, const char *input, const char *text, int32_t dtype, flx_tensor **out)
{
    flx_dim count = 1;
    flx_error err = {0};
    for (const char *s = text; (s = strchr(s, ',')) != NULL; s++)
        count++;
    const item_kind kind = items_for(dtype);
    flx_type type = flx_type_make(kind.dtype, 1, &count);
    *out = flx_tensor_new(ctx, &type, NULL, &err);
    if (!*out)
        return input_failed(input, &err);
    const char *s = text;
    for (int64_t i = 0; i < count; i++) {
        size_t size = strcspn(s, ",");
        void *element = (char *)flx_tensor_data(*out) + (size_t)i * flx_dtype_size(kind.dtype);
        if (!read_item(s, size, &kind, element)) {
            flx_tensor_release(*out);
            *out = NULL;
            return fail(FLX_E_USAGE, "input '%s': a file, or %s with commas between them, are needed, got '%s'", input,
                        kind.what, text);
        }
        s += size + 1;
    }
    return spec_convert(input, "the list", dtype, out);
}

bool spec_has_texts(const char *spec)
{
    return spec[0] == '"';
}

/* The next text of the list; NULL where the list is malformed. *at is then after it and its comma. */
static const char *next_text(const char **at, size_t *length)
{
    const char *from = *at + 1, *end = **at == '"' ? strchr(from, '"') : NULL;
    if (!end || (end[1] && (end[1] != ',' || end[2] != '"')))
        return NULL;
    *length = (size_t)(end - from);
    *at = end[1] ? end + 2 : end + 1;
    return from;
}

int spec_read_texts(flx_context *ctx, const char *input, const char *spec, flx_tensor **out)
{
    flx_dim dims[2] = {0, 1};
    size_t length = 0;
    flx_error err = {0};
    for (const char *at = spec; *at; dims[0]++) {
        if (!next_text(&at, &length))
            return fail(FLX_E_USAGE, "input '%s': texts are in quotes with commas between them, got '%s'", input, spec);
        dims[1] = (flx_dim)length > dims[1] ? (flx_dim)length : dims[1];
    }
    flx_type type = flx_type_make(FLX_U8, 2, dims);
    *out = flx_tensor_new(ctx, &type, NULL, &err);
    if (!*out)
        return input_failed(input, &err);
    char *bytes = flx_tensor_data(*out);
    memset(bytes, 0, flx_tensor_nbytes(*out));
    for (const char *at = spec; *at; bytes += dims[1]) {
        const char *text = next_text(&at, &length);
        memcpy(bytes, text, length);
    }
    return STATUS_OK;
}

int spec_read(flx_context *ctx, const char *input, const char *spec, int32_t dtype, flx_tensor **out)
{
    size_t n = 0;
    const file_format *format = format_of(spec, &n);
    if (!format)
        return spec_read_list(ctx, input, spec, dtype, out);
    const char *key = spec[n] ? spec + n + 1 : "";
    if (format->has_keys && !*key) {
        int status = fail(FLX_E_USAGE, "input '%s': %.*s holds several tensors", input, (int)n, spec);
        hint("name one: --in %s=%.*s:KEY", input, (int)n, spec);
        return status;
    }
    char *path = strndup(spec, n);
    if (!path)
        return fail_memory();
    flx_error err = {0};
    *out = format->read(ctx, path, key, &err);
    int status = STATUS_OK;
    if (!*out) {
        status = fail(err.code, "input '%s': %s: %s", input, path, err.message);
        if (err.hint[0])
            hint("%s", err.hint);
    }
    free(path);
    return status ? status : spec_convert(input, spec, dtype, out);
}

/* Whether `type` has as many elements as a list of `count`, and the extents then; one of them may be unknown. */
static bool fit_list(flx_type *type, int64_t count)
{
    int64_t known = 1;
    int32_t unknown = -1;
    for (int32_t k = 0; k < type->rank; k++) {
        bool is_known = flx_dim_is_static(type->dims[k]);
        if (is_known ? __builtin_mul_overflow(known, type->dims[k], &known) : unknown >= 0)
            return false;
        unknown = is_known ? unknown : k;
    }
    if (unknown < 0)
        return known == count;
    if (!known || count % known)
        return false;
    type->dims[unknown] = count / known;
    return true;
}

/* The same elements in the shape of `type`, where that has as many. */
static int shape_list(flx_context *ctx, const char *input, const flx_type *type, flx_tensor **t)
{
    flx_type shaped = *type;
    flx_error err = {0};
    shaped.dtype = flx_tensor_type(*t)->dtype;
    if (!fit_list(&shaped, flx_tensor_count(*t)))
        return STATUS_OK;
    flx_tensor *copy = flx_tensor_new(ctx, &shaped, flx_tensor_const_data(*t), &err);
    if (!copy)
        return input_failed(input, &err);
    flx_tensor_release(*t);
    *t = copy;
    return STATUS_OK;
}

int spec_read_as(flx_context *ctx, const char *input, const char *spec, const flx_type *type, flx_tensor **out)
{
    size_t n;
    int status = spec_read(ctx, input, spec, type->dtype, out);
    return status || format_of(spec, &n) ? status : shape_list(ctx, input, type, out);
}

/* ---- Rules that fill ---- */

typedef struct {
    flx_context *ctx;
    const char *input;
    const char *spec;
    const flx_type *type;
} filling;

/* Runs the op, which has no operands, and gives its result the shape of the input. */
static int run_op(const filling *f, const char *op, const flx_attr *attrs, size_t num_attrs, flx_tensor **out)
{
    flx_graph *g = flx_graph_new(f->ctx, "fill");
    if (!g)
        return fail_memory();
    flx_val made = FLX_NONE;
    flx_val shaped = FLX_NONE;
    flx_op(g, op, NULL, 0, attrs, num_attrs, &made, 1);
    flx_attr shape = {.key = "shape", .kind = FLX_ATTR_INTS, .as.ints = {f->type->dims, (size_t)f->type->rank}};
    flx_op(g, "reshape", &made, 1, &shape, 1, &shaped, 1);
    flx_output(g, shaped, "y");
    flx_error err = {0};
    flx_code code = flx_run(g, &(flx_run_options){.device = "ref"}, NULL, 0, out, &err);
    flx_graph_release(g);
    return code ? input_failed(f->input, &err) : STATUS_OK;
}

static int fill_iota(const filling *f, flx_tensor **out)
{
    flx_dim count = 1;
    for (int32_t i = 0; i < f->type->rank; i++)
        if (__builtin_mul_overflow(count, f->type->dims[i], &count))
            return fail(FLX_E_SIZE, "input '%s': its number of elements overflows", f->input);
    flx_type flat = flx_type_make((flx_dtype)f->type->dtype, 1, &count);
    flx_attr attr = {.key = "type", .kind = FLX_ATTR_TYPE, .as.type = &flat};
    return run_op(f, "iota", &attr, 1, out);
}

static int fill_random(const filling *f, const char *op, const char *seed_text, flx_tensor **out)
{
    int64_t seed = 0;
    if (kind_of(f->type->dtype) != KIND_FLOAT) {
        int status = fail(FLX_E_DTYPE, "input '%s' is %s: '%s' is for floating inputs", f->input,
                          flx_dtype_name(f->type->dtype), f->spec);
        hint("zeros, ones, iota, a number or a file");
        return status;
    }
    if (seed_text && !read_i64(seed_text, &seed))
        return fail(FLX_E_USAGE, "input '%s': the seed '%s' is not a 64-bit integer", f->input, seed_text);
    const flx_attr attrs[] = {
        {.key = "shape", .kind = FLX_ATTR_INTS, .as.ints = {f->type->dims, (size_t)f->type->rank}},
        {.key = "dtype", .kind = FLX_ATTR_WORD, .as.s = flx_dtype_name(f->type->dtype)},
        {.key = "seed", .kind = FLX_ATTR_INT, .as.i = seed},
    };
    return run_op(f, op, attrs, sizeof attrs / sizeof attrs[0], out);
}

/* One element of an integer or bool type from the number as it was written: a double could not hold them all. */
static int make_integer(const filling *f, const char *text, double x, flx_tensor **out)
{
    flx_type scalar = flx_type_make((flx_dtype)f->type->dtype, 0, NULL);
    integer v = {0};
    bool is_integer = read_integer(text, &v.negative, &v.magnitude);
    if (!is_integer && trunc(x) == x && fabs(x) < 0x1p64) {
        v = (integer){x < 0, (uint64_t)fabs(x)};
        is_integer = true;
    }
    v.negative = v.negative && v.magnitude > 0;
    if (!is_integer || !integer_fits(v, f->type->dtype))
        return fail(FLX_E_DTYPE, "input '%s' is %s, which cannot hold %s", f->input, flx_dtype_name(f->type->dtype),
                    text);
    uint64_t bits = integer_bits(v);
    uint8_t bytes8 = (uint8_t)bits;
    uint16_t bytes16 = (uint16_t)bits;
    uint32_t bytes32 = (uint32_t)bits;
    const void *const data[] = {[1] = &bytes8, [2] = &bytes16, [4] = &bytes32, [8] = &bits};
    flx_error err = {0};
    *out = flx_tensor_new(f->ctx, &scalar, data[flx_dtype_size(f->type->dtype)], &err);
    return *out ? STATUS_OK : input_failed(f->input, &err);
}

/* Of a float or complex type. */
static int make_float(const filling *f, const double z[2], flx_tensor **out)
{
    flx_type scalar = flx_type_make(kind_of(f->type->dtype) == KIND_COMPLEX ? FLX_C128 : FLX_F64, 0, NULL);
    flx_error err = {0};
    flx_tensor *wide = flx_tensor_new(f->ctx, &scalar, z, &err);
    *out = wide ? flx_tensor_cast(wide, (flx_dtype)f->type->dtype, &err) : NULL;
    flx_tensor_release(wide);
    return *out ? STATUS_OK : input_failed(f->input, &err);
}

/* z: the number; its imaginary part is 0 unless the input is complex. */
static int fill_number(const filling *f, const char *text, const double z[2], flx_tensor **out)
{
    dtype_kind kind = kind_of(f->type->dtype);
    flx_tensor *value = NULL;
    int status =
        kind == KIND_FLOAT || kind == KIND_COMPLEX ? make_float(f, z, &value) : make_integer(f, text, z[0], &value);
    if (status)
        return status;
    const flx_attr attrs[] = {
        {.key = "type", .kind = FLX_ATTR_TYPE, .as.type = f->type},
        {.key = "value", .kind = FLX_ATTR_TENSOR, .as.tensor = value},
    };
    status = run_op(f, "full", attrs, sizeof attrs / sizeof attrs[0], out);
    flx_tensor_release(value);
    return status;
}

/* The text after `word`: "" when the SPEC is just that, after the ':' when there is one, NULL when it is another. */
static const char *after_word(const char *spec, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(spec, word, n) != 0 || (spec[n] && spec[n] != ':'))
        return NULL;
    return spec[n] ? spec + n + 1 : spec + n;
}

static const struct {
    const char *word;
    const char *op;
} random_rules[] = {{"normal", "rng_normal"}, {"uniform", "rng_uniform"}};

/* The numbers that the SPEC means: a number, or a word for one. False where it is neither. */
static bool read_filling(const char *spec, dtype_kind kind, const char **number, double z[2])
{
    static const struct {
        const char *word;
        const char *number;
        bool is_bool;
    } words[] = {{"zeros", "0", false}, {"ones", "1", false}, {"false", "0", true}, {"true", "1", true}};
    *number = spec;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(spec, words[i].word) == 0 && (!words[i].is_bool || kind == KIND_BOOL))
            *number = words[i].number;
    return kind == KIND_COMPLEX ? read_complex(*number, z) : read_number(*number, &z[0]);
}

int spec_check_filling(const char *input, const char *spec, int32_t dtype)
{
    const char *number;
    double z[2] = {0, 0};
    bool is_known = strcmp(spec, "iota") == 0 || read_filling(spec, kind_of(dtype), &number, z);
    for (size_t i = 0; i < sizeof random_rules / sizeof random_rules[0]; i++)
        is_known |= after_word(spec, random_rules[i].word) != NULL;
    if (is_known)
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "input '%s': '%s' is neither a value nor a file", input, spec);
    hint("path.npy, path.npz:key, path.safetensors:key, path.pt:key, a number, 1,2,3, zeros, ones, iota, normal[:SEED] "
         "or "
         "uniform[:SEED]");
    return status;
}

int spec_fill(flx_context *ctx, const char *input, const char *spec, const flx_type *type, flx_tensor **out)
{
    filling f = {ctx, input, spec, type};
    for (size_t i = 0; i < sizeof random_rules / sizeof random_rules[0]; i++) {
        const char *seed = after_word(spec, random_rules[i].word);
        if (seed)
            return fill_random(&f, random_rules[i].op, spec[strlen(random_rules[i].word)] ? seed : NULL, out);
    }
    if (strcmp(spec, "iota") == 0)
        return fill_iota(&f, out);
    const char *number;
    double z[2] = {0, 0};
    return read_filling(spec, kind_of(type->dtype), &number, z) ? fill_number(&f, number, z, out)
                                                                : spec_check_filling(input, spec, type->dtype);
}
