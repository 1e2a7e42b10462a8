/* SPDX-License-Identifier: Apache-2.0 */
/* export_text.c: the text of StableHLO: values, types, constants, lines. See export.h. */
#include "base/half.h"
#include "base/number.h"
#include "graph/op/eval.h"
#include "stablehlo/export/export.h"

#include <math.h>

enum { LIST_LIMIT = 64 }; /* larger literals are written as hexadecimal bytes */

void flxi_export_fail(exporter *w, flx_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    if (w->error.code)
        return;
    va_start(args, fmt);
    flxi_fail_va(&w->error, code, hint, fmt, args);
    va_end(args);
}

/* ---- Values and types ---- */

void flxi_export_line(exporter *w)
{
    flxi_add_char(&w->out, '\n');
    for (int i = 0; i < w->indent; i++)
        flxi_add_text(&w->out, "  ");
}

void flxi_export_value(exporter *w, uint32_t number)
{
    size_t leaves = w->main->leaves.n;
    if (number < leaves)
        flxi_addf(&w->out, "%%%s", flxi_value_at(w->main, w->main->leaves.at[number])->name);
    else
        flxi_addf(&w->out, "%%%u", number - (uint32_t)leaves);
}

void flxi_export_values(exporter *w, const export_val *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        flxi_add_text(&w->out, i ? ", " : "");
        flxi_export_value(w, v[i].number);
    }
}

static const char *element_name(int32_t dtype)
{
    static const char *const names[FLX_DTYPE_COUNT] = {
        [FLX_F64] = "f64",   [FLX_F32] = "f32",          [FLX_F16] = "f16",
        [FLX_BF16] = "bf16", [FLX_C64] = "complex<f32>", [FLX_C128] = "complex<f64>",
        [FLX_I64] = "i64",   [FLX_I32] = "i32",          [FLX_I16] = "i16",
        [FLX_I8] = "i8",     [FLX_U64] = "ui64",         [FLX_U32] = "ui32",
        [FLX_U16] = "ui16",  [FLX_U8] = "ui8",           [FLX_BOOL] = "i1",
    };
    return names[dtype];
}

void flxi_export_type(exporter *w, const flx_type *t)
{
    flxi_add_text(&w->out, "tensor<");
    for (int i = 0; i < t->rank; i++)
        flxi_addf(&w->out, "%lldx", (long long)t->dims[i]);
    flxi_addf(&w->out, "%s>", element_name(t->dtype));
}

void flxi_export_types(exporter *w, const export_val *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        flxi_add_text(&w->out, i ? ", " : "");
        flxi_export_type(w, v[i].type);
    }
}

void flxi_export_list(exporter *w, const int64_t *v, size_t n)
{
    flxi_add_char(&w->out, '[');
    for (size_t i = 0; i < n; i++)
        flxi_addf(&w->out, "%s%lld", i ? ", " : "", (long long)v[i]);
    flxi_add_char(&w->out, ']');
}

void flxi_export_array(exporter *w, const char *name, const int64_t *v, size_t n)
{
    flxi_addf(&w->out, "%s = array<i64", name);
    for (size_t i = 0; i < n; i++)
        flxi_addf(&w->out, "%s%lld", i ? ", " : ": ", (long long)v[i]);
    flxi_add_char(&w->out, '>');
}

/* ---- Lines ---- */

void flxi_export_results(exporter *w, export_val *v, uint32_t n)
{
    flxi_export_line(w);
    for (uint32_t i = 0; i < n; i++)
        v[i].number = w->next++;
    flxi_export_values(w, v, n);
    if (n)
        flxi_add_text(&w->out, " = ");
}

void flxi_export_signature(exporter *w, const export_val *in, uint32_t nin, const export_val *out, uint32_t nout)
{
    flxi_add_text(&w->out, " : (");
    flxi_export_types(w, in, nin);
    flxi_add_text(&w->out, nout == 1 ? ") -> " : ") -> (");
    flxi_export_types(w, out, nout);
    flxi_add_text(&w->out, nout == 1 ? "" : ")");
}

void flxi_export_generic(exporter *w, const char *name, const export_val *in, uint32_t nin, export_val *out,
                         uint32_t nout)
{
    flxi_export_results(w, out, nout);
    flxi_addf(&w->out, "\"%s\"(", name);
    flxi_export_values(w, in, nin);
    flxi_add_char(&w->out, ')');
}

void flxi_export_open(exporter *w, const char *name, const export_val *in, uint32_t nin, export_val *out)
{
    flxi_export_results(w, out, 1);
    flxi_addf(&w->out, "%s ", name);
    flxi_export_values(w, in, nin);
}

/* ---- Constants ---- */

static bool is_special(double x)
{
    return isnan(x) || isinf(x);
}

/* A float that has no decimal form: its bits. */
static void write_bits(exporter *w, int32_t dtype, const void *data, int64_t i)
{
    size_t size = flx_dtype_size(dtype);
    const unsigned char *bytes = (const unsigned char *)data + (size_t)i * size;
    flxi_add_text(&w->out, "0x");
    for (size_t k = size; k-- > 0;)
        flxi_addf(&w->out, "%02X", bytes[k]);
}

static void write_real(exporter *w, int32_t dtype, const void *data, int64_t i)
{
    char text[FLXI_NUMBER_MAX];
    double x = flxi_load_double(dtype, data, i);
    if (is_special(x)) {
        write_bits(w, dtype, data, i);
        return;
    }
    flxi_write_double(text, x, flxi_mantissa_bits(dtype));
    size_t digits = strcspn(text, ".e"); /* a point is required before the exponent */
    flxi_add_bytes(&w->out, text, digits);
    flxi_add_text(&w->out, text[digits] == '.' ? "" : ".0");
    flxi_add_text(&w->out, text + digits);
}

static void write_element(exporter *w, int32_t dtype, const void *data, int64_t i)
{
    if (dtype == FLX_BOOL) {
        flxi_add_text(&w->out, flxi_load_int(dtype, data, i) ? "true" : "false");
    } else if (dtype == FLX_U64) {
        flxi_addf(&w->out, "%llu", (unsigned long long)flxi_load_int(dtype, data, i));
    } else if (flxi_is_int(dtype)) {
        flxi_addf(&w->out, "%lld", (long long)flxi_load_int(dtype, data, i));
    } else if (flxi_is_complex(dtype)) {
        flxi_add_char(&w->out, '(');
        write_real(w, flxi_part_dtype(dtype), data, 2 * i);
        flxi_add_text(&w->out, ", ");
        write_real(w, flxi_part_dtype(dtype), data, 2 * i + 1);
        flxi_add_char(&w->out, ')');
    } else {
        write_real(w, dtype, data, i);
    }
}

static void write_nested(exporter *w, const flx_type *t, int axis, const void *data, int64_t *at)
{
    if (axis == t->rank) {
        write_element(w, t->dtype, data, (*at)++);
        return;
    }
    flxi_add_char(&w->out, '[');
    for (int64_t i = 0; i < t->dims[axis]; i++) {
        flxi_add_text(&w->out, i ? ", " : "");
        write_nested(w, t, axis + 1, data, at);
    }
    flxi_add_char(&w->out, ']');
}

static void write_hex(exporter *w, const void *data, size_t nbytes)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *bytes = data;
    flxi_add_text(&w->out, "\"0x");
    for (size_t i = 0; i < nbytes && !w->out.failed; i++) {
        char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        flxi_add_bytes(&w->out, pair, 2);
    }
    flxi_add_char(&w->out, '"');
}

static bool is_repeated(const char *data, int64_t count, size_t size)
{
    return count > 1 && memcmp(data, data + size, (size_t)(count - 1) * size) == 0;
}

void flxi_export_constant(exporter *w, const flx_type *t, const void *data, bool is_splat, export_val *out)
{
    int64_t count = flxi_static_extent(t, 0, t->rank);
    size_t size = flx_dtype_size(t->dtype);
    int64_t at = 0;
    flxi_export_results(w, out, 1);
    flxi_add_text(&w->out, "stablehlo.constant dense<");
    if (count == 0)
        ;
    else if (is_splat || is_repeated(data, count, size))
        write_element(w, t->dtype, data, 0);
    else if (count <= LIST_LIMIT || t->dtype == FLX_BOOL) /* bits of bools would be packed */
        write_nested(w, t, 0, data, &at);
    else
        write_hex(w, data, (size_t)count * size);
    flxi_add_text(&w->out, "> : ");
    flxi_export_type(w, t);
}

void flxi_export_splat(exporter *w, const flx_type *t, double x, export_val *out)
{
    unsigned char element[16] = {0};
    if (flxi_is_complex(t->dtype))
        flxi_store_complex(t->dtype, element, 0, x);
    else
        flxi_store_double(t->dtype, element, 0, x);
    flxi_export_constant(w, t, element, true, out);
}

export_val flxi_export_number(exporter *w, const flx_type *scalar, double x)
{
    export_val v = {.type = scalar};
    flxi_export_splat(w, scalar, x, &v);
    return v;
}

/* ---- Shapes ---- */

static const flx_type *new_type(exporter *w, const flx_type *like)
{
    static const flx_type none = {.dtype = FLX_F32};
    flx_type *t = flxi_dup(&w->scratch, flx_type, like, 1);
    if (!t)
        flxi_export_fail(w, FLX_E_OOM, NULL, "out of memory: exporting");
    return t ? t : &none;
}

export_val flxi_export_broadcast(exporter *w, export_val v, const flx_type *to)
{
    flx_type t = *to;
    int64_t dims[FLX_MAX_RANK];
    t.dtype = v.type->dtype;
    if (flxi_type_equal(v.type, &t))
        return v;
    export_val out = {.type = new_type(w, &t)};
    for (int i = 0; i < v.type->rank; i++)
        dims[i] = to->rank - v.type->rank + i;
    flxi_export_open(w, "stablehlo.broadcast_in_dim", &v, 1, &out);
    flxi_add_text(&w->out, ", dims = ");
    flxi_export_list(w, dims, (size_t)v.type->rank);
    flxi_export_signature(w, &v, 1, &out, 1);
    return out;
}

export_val flxi_export_convert(exporter *w, export_val v, int32_t dtype)
{
    flx_type t = *v.type;
    t.dtype = dtype;
    if (v.type->dtype == dtype)
        return v;
    export_val out = {.type = new_type(w, &t)};
    flxi_export_open(w, "stablehlo.convert", &v, 1, &out);
    flxi_export_signature(w, &v, 1, &out, 1);
    return out;
}
