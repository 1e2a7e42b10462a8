/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_values.c: the named values of a GGUF file. */
#include "base/half.h"
#include "format/endian.h"
#include "gguf/gguf_file.h"

#include <string.h>

static double float_at(const unsigned char *p)
{
    return (double)flxi_f32_of(flxi_get32(p));
}

static double double_at(const unsigned char *p)
{
    return flxi_f64_of(flxi_get64(p));
}

double flxi_gguf_element(const flxi_gguf_value *v, uint64_t i, double none)
{
    if (!v || i >= v->count)
        return none;
    switch ((flx_gguf_kind)v->element) {
    case FLX_GGUF_U8: return v->at[i];
    case FLX_GGUF_I8: return (int8_t)v->at[i];
    case FLX_GGUF_U16: return flxi_get16(v->at + 2 * i);
    case FLX_GGUF_I16: return (int16_t)flxi_get16(v->at + 2 * i);
    case FLX_GGUF_U32: return flxi_get32(v->at + 4 * i);
    case FLX_GGUF_I32: return (int32_t)flxi_get32(v->at + 4 * i);
    case FLX_GGUF_F32: return float_at(v->at + 4 * i);
    case FLX_GGUF_BOOL: return v->at[i] != 0;
    case FLX_GGUF_U64: return (double)flxi_get64(v->at + 8 * i);
    case FLX_GGUF_I64: return (double)(int64_t)flxi_get64(v->at + 8 * i);
    case FLX_GGUF_F64: return double_at(v->at + 8 * i);
    case FLX_GGUF_STRING:
    case FLX_GGUF_ARRAY:
    case FLX_GGUF_KIND_SIGNED: break;
    }
    return none;
}

const flxi_gguf_value *flxi_gguf_get(const flx_gguf *f, const char *key)
{
    int64_t i = flx_gguf_find(f, key);
    return i < 0 ? NULL : &f->values.at[i];
}

size_t flx_gguf_pair_count(const flx_gguf *f)
{
    return f ? f->values.n : 0;
}

flx_code flx_gguf_pair_at(const flx_gguf *f, size_t i, flx_gguf_pair *out)
{
    if (!f || !out)
        return FLX_E_USAGE;
    if (i >= f->values.n)
        return FLX_E_NAME;
    const flxi_gguf_value *v = &f->values.at[i];
    *out = (flx_gguf_pair){.key = v->key, .kind = v->kind, .element = v->element, .count = v->count};
    return FLX_OK;
}

static const flxi_gguf_value *value_at(const flx_gguf *f, int64_t i)
{
    return f && i >= 0 && (uint64_t)i < f->values.n ? &f->values.at[i] : NULL;
}

double flx_gguf_number(const flx_gguf *f, int64_t i, uint64_t at, double none)
{
    return flxi_gguf_element(value_at(f, i), at, none);
}

const char *flx_gguf_string(const flx_gguf *f, int64_t i, uint64_t at, size_t *size)
{
    const flxi_gguf_value *v = value_at(f, i);
    size_t n = 0;
    if (!v || v->element != FLX_GGUF_STRING || at >= v->count)
        return NULL;
    const unsigned char *p = v->at;
    const char *text = flxi_gguf_next_string(&p, &n);
    for (uint64_t k = 0; k < at; k++)
        text = flxi_gguf_next_string(&p, &n);
    if (size)
        *size = n;
    return text;
}
