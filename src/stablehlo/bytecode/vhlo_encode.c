/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_encode.c: numbers, types and attributes as bytes; the reverse of vhlo_types.c and vhlo_attrs.c. */
#include "stablehlo/bytecode/vhlo_writer.h"
#include "stablehlo/syntax/hlo_number.h"

#include <stdio.h>

/* ---- Numbers ---- */

void flxi_vhlo_put_varint(flxi_strbuf *b, uint64_t v)
{
    int further = 0;
    while (further < 8 && v >> (7 * (further + 1)))
        further++;
    if (further == 8) {
        flxi_add_char(b, 0);
        for (int i = 0; i < 8; i++)
            flxi_add_char(b, (char)(v >> (8 * i)));
        return;
    }
    uint64_t all = (v << 1 | 1) << further;
    for (int i = 0; i <= further; i++)
        flxi_add_char(b, (char)(all >> (8 * i)));
}

void flxi_vhlo_put_svarint(flxi_strbuf *b, int64_t v)
{
    flxi_vhlo_put_varint(b, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

/* ---- Pools ---- */

flxi_strbuf flxi_vhlo_buffer(const vhlo_writer *w)
{
    flxi_strbuf b;
    flxi_strbuf_init(&b, w->mem);
    return b;
}

void flxi_vhlo_writer_fail(vhlo_writer *w, hlo_location at, flx_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    if (w->code != FLX_OK)
        return;
    va_start(args, fmt);
    w->code = flxi_fail_va(w->err, code, hint, fmt, args);
    va_end(args);
    (void)at;
}

static void fail_memory(vhlo_writer *w)
{
    if (w->code == FLX_OK)
        w->code = flxi_oom(w->err, "a StableHLO program");
}

static size_t start_of(const vhlo_pool *pool, size_t i)
{
    return i ? pool->ends.at[i - 1] : 0;
}

static uint64_t add_to(vhlo_writer *w, vhlo_pool *pool, vhlo_dialect dialect, const flxi_strbuf *bytes, uint64_t hash)
{
    size_t n = pool->ends.n;
    if (!pool->bytes.mem)
        flxi_strbuf_init(&pool->bytes, w->mem);
    flxi_add_bytes(&pool->bytes, bytes->at, bytes->n);
    if (pool->bytes.failed || n >= UINT32_MAX || !flxi_push(w->mem, &pool->ends, pool->bytes.n) ||
        !flxi_push(w->mem, &pool->dialects, (unsigned char)dialect) ||
        !flxi_index_add(w->mem, &pool->index, hash, (uint32_t)n))
        fail_memory(w);
    return n;
}

uint64_t flxi_vhlo_intern(vhlo_writer *w, vhlo_pool *pool, vhlo_dialect dialect, flxi_strbuf *bytes)
{
    uint32_t i;
    uint64_t found = UINT64_MAX;
    if (bytes->failed)
        fail_memory(w);
    if (w->code != FLX_OK) {
        flxi_strbuf_free(bytes);
        return 0;
    }
    uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED + dialect, bytes->at, bytes->n);
    for (flxi_probe p = flxi_index_first(&pool->index, hash); flxi_index_next(&pool->index, &p, &i);) {
        size_t start = start_of(pool, i);
        if (pool->dialects.at[i] == (unsigned char)dialect && pool->ends.at[i] - start == bytes->n &&
            (bytes->n == 0 || memcmp(pool->bytes.at + start, bytes->at, bytes->n) == 0))
            found = i;
    }
    if (found == UINT64_MAX)
        found = add_to(w, pool, dialect, bytes, hash);
    flxi_strbuf_free(bytes);
    return found;
}

uint64_t flxi_vhlo_put_string(vhlo_writer *w, const char *text, size_t n)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_add_bytes(&b, text, n);
    flxi_add_char(&b, 0);
    return flxi_vhlo_intern(w, &w->strings, VHLO_VHLO, &b);
}

static uint64_t put_attr(vhlo_writer *w, flxi_strbuf *b)
{
    return flxi_vhlo_intern(w, &w->attrs, VHLO_VHLO, b);
}

/* ---- Types ---- */

/* The code of each element type. */
static const unsigned char codes[HLO_ELEMENT_COUNT] = {
    [HLO_I1] = 0,          [HLO_BF16] = 2,        [HLO_F16] = 3,
    [HLO_F32] = 4,         [HLO_F64] = 5,         [HLO_F8E4M3FN] = 6,
    [HLO_F8E5M2] = 7,      [HLO_INDEX] = 9,       [HLO_I4] = 10,
    [HLO_I8] = 11,         [HLO_I16] = 12,        [HLO_I32] = 13,
    [HLO_I64] = 14,        [HLO_UI4] = 15,        [HLO_UI8] = 16,
    [HLO_UI16] = 17,       [HLO_UI32] = 18,       [HLO_UI64] = 19,
    [HLO_F8E4M3FNUZ] = 27, [HLO_F8E5M2FNUZ] = 28, [HLO_F8E4M3B11FNUZ] = 29,
    [HLO_I2] = 31,         [HLO_UI2] = 32,        [HLO_TF32] = 34,
    [HLO_F8E4M3] = 35,     [HLO_F8E3M4] = 36,     [HLO_F4E2M1FN] = 37,
    [HLO_F6E2M3FN] = 38,   [HLO_F6E3M2FN] = 39,   [HLO_F8E8M0FNU] = 40,
};

static uint64_t put_element(vhlo_writer *w, hlo_element e)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    if (flxi_hlop_is_complex(e)) {
        uint64_t part = put_element(w, flxi_hlop_part(e));
        flxi_vhlo_put_varint(&b, 1);
        flxi_vhlo_put_varint(&b, part);
    } else {
        flxi_vhlo_put_varint(&b, codes[e]);
    }
    return flxi_vhlo_intern(w, &w->types, VHLO_VHLO, &b);
}

static uint64_t put_tensor(vhlo_writer *w, hlo_element element, int rank, const int64_t *dims)
{
    uint64_t e = put_element(w, element);
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, 20);
    flxi_vhlo_put_varint(&b, (uint64_t)rank);
    for (int i = 0; i < rank; i++)
        flxi_vhlo_put_svarint(&b, dims[i] == HLO_DYNAMIC ? INT64_MIN : dims[i]);
    flxi_vhlo_put_varint(&b, e);
    return flxi_vhlo_intern(w, &w->types, VHLO_VHLO, &b);
}

static void put_types(vhlo_writer *w, flxi_strbuf *b, const hlo_type *const *types, size_t n)
{
    flxi_vhlo_put_varint(b, n);
    for (size_t i = 0; i < n; i++)
        flxi_vhlo_put_varint(b, flxi_vhlo_put_type(w, types[i]));
}

uint64_t flxi_vhlo_put_type(vhlo_writer *w, const hlo_type *t)
{
    if (t->quant || t->is_unranked || t->bounds || t->kind == HLO_FUTURE) {
        flxi_vhlo_writer_fail(w, (hlo_location){0}, FLX_E_UNSUPPORTED, NULL, "types of this kind are not written");
        return 0;
    }
    if (t->kind == HLO_SCALAR)
        return put_element(w, t->element);
    if (t->kind == HLO_TENSOR)
        return put_tensor(w, t->element, t->rank, t->dims);
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, t->kind == HLO_TOKEN ? 22 : t->kind == HLO_TUPLE ? 23 : t->kind == HLO_FUNCTION ? 8 : 33);
    if (t->kind == HLO_TUPLE || t->kind == HLO_FUNCTION)
        put_types(w, &b, t->parts, t->num_parts);
    if (t->kind == HLO_FUNCTION)
        put_types(w, &b, t->results, t->num_results);
    return flxi_vhlo_intern(w, &w->types, VHLO_VHLO, &b);
}

/* ---- Attributes ---- */

uint64_t flxi_vhlo_put_coded(vhlo_writer *w, unsigned code, uint64_t v)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, code);
    flxi_vhlo_put_varint(&b, v);
    return put_attr(w, &b);
}

uint64_t flxi_vhlo_put_text(vhlo_writer *w, const char *text)
{
    return flxi_vhlo_put_coded(w, 14, flxi_vhlo_put_string(w, text, strlen(text)));
}

uint64_t flxi_vhlo_put_type_attr(vhlo_writer *w, const hlo_type *t)
{
    return flxi_vhlo_put_coded(w, 17, flxi_vhlo_put_type(w, t));
}

uint64_t flxi_vhlo_put_array(vhlo_writer *w, const uint64_t *items, size_t n)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, 1);
    flxi_vhlo_put_varint(&b, n);
    for (size_t i = 0; i < n; i++)
        flxi_vhlo_put_varint(&b, items[i]);
    return put_attr(w, &b);
}

/* Up to 8 bits are a byte; other numbers are written as if they were signed, cut to their width. */
static void put_bits(flxi_strbuf *b, int width, uint64_t v)
{
    if (width <= 8)
        flxi_add_char(b, (char)v);
    else
        flxi_vhlo_put_svarint(b, (int64_t)(width < 64 ? v & ((UINT64_C(1) << width) - 1) : v));
}

static uint64_t put_number(vhlo_writer *w, unsigned code, hlo_element element, uint64_t bits)
{
    uint64_t type = put_element(w, element);
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, code);
    flxi_vhlo_put_varint(&b, type);
    put_bits(&b, flxi_hlo_element(element)->bits, bits);
    return put_attr(w, &b);
}

uint64_t flxi_vhlo_put_int(vhlo_writer *w, hlo_element element, int64_t v)
{
    return put_number(w, 9, element, (uint64_t)v);
}

static uint64_t put_real(vhlo_writer *w, const hlo_attr *a)
{
    uint64_t bits = 0;
    hlo_element e = a->type->element;
    float single = (float)a->real;
    if (e == HLO_F64)
        memcpy(&bits, &a->real, sizeof a->real);
    else if (e == HLO_F32)
        memcpy(&bits, &single, sizeof single);
    else
        flxi_vhlo_writer_fail(w, a->at, FLX_E_UNSUPPORTED, NULL, "numbers of type %s are not written as attributes",
                              flxi_hlo_element(e)->text);
    return put_number(w, 8, e, bits);
}

/* A literal: its type and the bytes of its elements, i1 as bits. */
static uint64_t put_tensor_attr(vhlo_writer *w, uint64_t type, const void *bytes, size_t n)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, 15);
    flxi_vhlo_put_varint(&b, type);
    flxi_vhlo_put_varint(&b, n);
    flxi_add_bytes(&b, bytes, n);
    return put_attr(w, &b);
}

static uint64_t put_flags(vhlo_writer *w, uint64_t type, const unsigned char *flags, size_t count, bool is_splat)
{
    flxi_strbuf bits = flxi_vhlo_buffer(w);
    if (is_splat)
        flxi_add_char(&bits, flags[0] ? (char)0xff : 0);
    for (size_t i = 0; i < count && !is_splat; i += 8) {
        unsigned byte = 0;
        for (size_t k = 0; k < 8 && i + k < count; k++)
            byte |= (unsigned)(flags[i + k] != 0) << k;
        flxi_add_char(&bits, (char)byte);
    }
    if (bits.failed)
        fail_memory(w);
    uint64_t number = bits.failed ? 0 : put_tensor_attr(w, type, bits.at, bits.n);
    flxi_strbuf_free(&bits);
    return number;
}

uint64_t flxi_vhlo_put_ints(vhlo_writer *w, hlo_element element, const int64_t *v, int rank, const int64_t *dims)
{
    uint64_t type = put_tensor(w, element, rank, dims);
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    bool is_splat = n > 0;
    for (size_t i = 1; i < n; i++)
        is_splat = is_splat && v[i] == v[0];
    if (element == HLO_I64)
        return put_tensor_attr(w, type, v, (is_splat ? 1 : n) * sizeof *v);
    unsigned char flags[FLX_MAX_RANK] = {0};
    for (size_t i = 0; i < n && i < FLX_MAX_RANK; i++)
        flags[i] = v[i] != 0;
    return put_flags(w, type, flags, n < FLX_MAX_RANK ? n : FLX_MAX_RANK, is_splat);
}

static uint64_t put_dense(vhlo_writer *w, const hlo_attr *a)
{
    hlo_element e = flxi_hlop_part(a->type->element);
    uint64_t type = flxi_vhlo_put_type(w, a->type);
    bool is_plain = flxi_hlo_element(e)->bits == (int)(8 * flx_dtype_size(flxi_hlo_element(e)->carrier));
    if (e == HLO_I1)
        return put_flags(w, type, a->bytes, a->num_bytes, a->is_splat || a->num_bytes == 1);
    if (!is_plain)
        flxi_vhlo_writer_fail(w, a->at, FLX_E_UNSUPPORTED, NULL, "literals of type %s are not written",
                              flxi_hlo_element(e)->text);
    return put_tensor_attr(w, type, a->bytes, a->num_bytes);
}

/* The words of attributes that have some: name, code, words from number 0 on. */
static const struct {
    const char *name;
    unsigned code;
    const char *words;
} enumerations[] = {
    {"comparison_direction", 3, "EQ NE GE GT LE LT"},
    {"compare_type", 4, "NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED"},
    {"fft_type", 7, "FFT IFFT RFFT IRFFT"},
    {"precision_config", 11, "DEFAULT HIGH HIGHEST"},
    {"rng_algorithm", 12, "DEFAULT THREE_FRY PHILOX"},
    {"rng_distribution", 13, "NONE UNIFORM NORMAL"},
    {"transpose_a", 16, "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT"},
};

static uint64_t put_word(vhlo_writer *w, const char *name, const hlo_attr *a)
{
    for (size_t i = 0; i < sizeof enumerations / sizeof *enumerations; i++) {
        if (strcmp(name, enumerations[i].name) != 0)
            continue;
        uint64_t number = 0;
        for (const char *word = enumerations[i].words; word; number++) {
            size_t n = strcspn(word, " ");
            if (n == a->length && memcmp(word, a->text, n) == 0)
                return flxi_vhlo_put_coded(w, enumerations[i].code, number);
            word = word[n] ? word + n + 1 : NULL;
        }
    }
    flxi_vhlo_writer_fail(w, a->at, FLX_E_UNSUPPORTED, NULL, "the word %.40s of %.60s is not written", a->text, name);
    return 0;
}

static uint64_t put_items(vhlo_writer *w, const char *name, const hlo_attr *a)
{
    uint64_t *items = flxi_new(&w->scratch, uint64_t, a->num_items);
    if (!items) {
        fail_memory(w);
        return 0;
    }
    for (size_t i = 0; i < a->num_items; i++)
        items[i] = flxi_vhlo_put_attr(w, name, a->items[i]);
    return flxi_vhlo_put_array(w, items, a->num_items);
}

static uint64_t put_dictionary(vhlo_writer *w, const hlo_attr *a)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, 6);
    flxi_vhlo_put_varint(&b, a->num_entries);
    for (size_t i = 0; i < a->num_entries; i++) {
        flxi_vhlo_put_varint(&b, flxi_vhlo_put_text(w, a->entries[i].name));
        flxi_vhlo_put_varint(&b, flxi_vhlo_put_attr(w, a->entries[i].name, a->entries[i].value));
    }
    return put_attr(w, &b);
}

uint64_t flxi_vhlo_put_attr(vhlo_writer *w, const char *name, const hlo_attr *a)
{
    switch (a->kind) {
    case HLO_A_UNIT: return flxi_vhlo_put_coded(w, 2, 1);
    case HLO_A_BOOL: return flxi_vhlo_put_coded(w, 2, (uint64_t)a->integer);
    case HLO_A_INT:
        if (strcmp(name, "api_version") == 0)
            return flxi_vhlo_put_coded(w, 5, (uint64_t)a->integer);
        return flxi_vhlo_put_int(w, a->type->element, a->integer);
    case HLO_A_REAL: return put_real(w, a);
    case HLO_A_STRING:
    case HLO_A_SYMBOL: return flxi_vhlo_put_coded(w, 14, flxi_vhlo_put_string(w, a->text, a->length));
    case HLO_A_WORD: return put_word(w, name, a);
    case HLO_A_TYPE: return flxi_vhlo_put_type_attr(w, a->type);
    case HLO_A_ARRAY: return put_items(w, name, a);
    case HLO_A_LIST: {
        int64_t n = (int64_t)a->num_numbers;
        if (a->ints && (a->type->element == HLO_I64 || a->type->element == HLO_I1))
            return flxi_vhlo_put_ints(w, a->type->element, a->ints, 1, &n);
        break;
    }
    case HLO_A_DICT:
        if (!a->struct_name)
            return put_dictionary(w, a);
        break;
    case HLO_A_DENSE: return put_dense(w, a);
    case HLO_A_OPAQUE: break;
    }
    flxi_vhlo_writer_fail(w, a->at, FLX_E_UNSUPPORTED, NULL, "the attribute %.60s is not written", name);
    return 0;
}
