/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_type.c: types of StableHLO text: read, compared, printed. Programs repeat few tensor types very often, so those
   are found again by their text; equal types are mostly the same pointer, but need not be. */
#include "stablehlo/syntax/hlo_number.h"

#include "base/number.h"

#include <math.h>
#include <stdio.h>

static const hlo_element_info elements[HLO_ELEMENT_COUNT] = {
#define HLO_ELEMENT_ROW(name, text, carrier, bits) [HLO_##name] = {text, carrier, bits},
    HLO_ELEMENT_MAP(HLO_ELEMENT_ROW)
#undef HLO_ELEMENT_ROW
};

const hlo_element_info *flxi_hlo_element(hlo_element e)
{
    return &elements[e < HLO_ELEMENT_COUNT ? e : HLO_I1];
}

/* ---- Making ---- */

hlo_type *flxi_hlop_new_type(hlo_parser *p, hlo_type_kind kind)
{
    hlo_type *t = flxi_new(p->arena, hlo_type, 1);
    if (!t)
        flxi_hlop_oom(p);
    else
        t->kind = kind;
    return t;
}

const hlo_type *flxi_hlop_scalar_of(hlo_parser *p, hlo_element element)
{
    hlo_type *t = flxi_hlop_new_type(p, HLO_SCALAR);
    if (t)
        t->element = element;
    return t;
}

const hlo_type *flxi_hlop_tensor_of(hlo_parser *p, hlo_element element, int rank, const int64_t *dims)
{
    hlo_type *t = flxi_hlop_new_type(p, HLO_TENSOR);
    if (!t)
        return NULL;
    t->element = element;
    t->rank = rank;
    t->dims = flxi_hlop_take(p, dims, (size_t)rank, sizeof *dims);
    return t->dims ? t : NULL;
}

/* ---- Elements ---- */

static bool find_element(hlo_span word, hlo_element *out)
{
    for (int e = 0; e < HLO_ELEMENT_COUNT; e++)
        if (flxi_hlop_is(word, elements[e].text)) {
            *out = (hlo_element)e;
            return true;
        }
    return false;
}

static flx_code unknown_type(hlo_parser *p, hlo_location at, hlo_span word)
{
    char text[64];
    flxi_printable(text, sizeof text, word.at, word.length > 60 ? 60 : word.length);
    return flxi_hlop_fail_at(p, at, FLX_E_UNSUPPORTED, NULL, "unknown type '%s'", text);
}

/* f32, i64, complex<f32>, index … */
static flx_code parse_element(hlo_parser *p, hlo_element *out)
{
    hlo_location at = flxi_hlop_position(p);
    hlo_span word = flxi_hlop_word(p);
    if (word.length == 0)
        return flxi_hlop_expected(p, "an element type");
    if (!flxi_hlop_is(word, "complex"))
        return find_element(word, out) ? FLX_OK : unknown_type(p, at, word);
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    hlo_span part = flxi_hlop_word(p);
    FLXI_TRY(flxi_hlop_expect(p, ">"));
    if (!flxi_hlop_is(part, "f32") && !flxi_hlop_is(part, "f64"))
        return flxi_hlop_fail_at(p, at, FLX_E_UNSUPPORTED, NULL, "complex elements have parts of type f32 or f64");
    *out = flxi_hlop_is(part, "f32") ? HLO_C64 : HLO_C128;
    return FLX_OK;
}

/* ---- Quantised elements ---- */

static flx_code parse_i64(hlo_parser *p, int64_t *out)
{
    hlo_numeral n;
    FLXI_TRY(flxi_hlop_numeral(p, &n));
    return flxi_hlop_to_int(p, &n, HLO_I64, out);
}

/* i8 or u8 (so quantised types write ui8), with the range <-128:127>. */
static flx_code parse_storage(hlo_parser *p, hlo_quant *q)
{
    hlo_location at = flxi_hlop_position(p);
    hlo_span word = flxi_hlop_word(p);
    char text[16];
    if (word.length > 1 && word.length < 8 && word.at[0] == 'u' && word.at[1] != 'i') {
        snprintf(text, sizeof text, "ui%.*s", (int)word.length - 1, word.at + 1);
        word = (hlo_span){text, strlen(text)};
    }
    if (!find_element(word, &q->storage) || q->storage > HLO_UI32 || q->storage == HLO_I1 || q->storage == HLO_I64)
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "quantised values are stored in integers of 2 to 32 bits");
    q->min = flxi_hlop_least(q->storage);
    q->max = flxi_hlop_greatest(q->storage);
    if (!flxi_hlop_eat(p, "<"))
        return FLX_OK;
    int64_t least = q->min;
    int64_t greatest = q->max;
    FLXI_TRY(parse_i64(p, &q->min));
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(parse_i64(p, &q->max));
    if (q->min >= q->max || q->min < least || q->max > greatest)
        return flxi_hlop_fail_at(p, at, FLX_E_SIZE, NULL, "the range of the stored values is not one of their type");
    return flxi_hlop_expect(p, ">");
}

/* 0.5 or 0.5:3 */
static flx_code parse_scale(hlo_parser *p, const hlo_quant *q)
{
    hlo_numeral n;
    double scale;
    int64_t zero = 0;
    FLXI_TRY(flxi_hlop_numeral(p, &n));
    FLXI_TRY(flxi_hlop_to_real(p, &n, HLO_F64, &scale));
    if (!(scale > 0) || !isfinite(scale))
        return flxi_hlop_fail_at(p, n.at, FLX_E_SYNTAX, NULL, "a scale is a positive number");
    if (flxi_hlop_eat(p, ":")) {
        hlo_location at = flxi_hlop_position(p);
        FLXI_TRY(parse_i64(p, &zero));
        if (zero < q->min || zero > q->max)
            return flxi_hlop_fail_at(p, at, FLX_E_SIZE, NULL,
                                     "the zero point is outside the range of the stored values");
    }
    HLO_PUSH(p, reals, scale);
    HLO_PUSH(p, ints, zero);
    return FLX_OK;
}

/* The number that is quantised, and the axis if scales are along one. */
static flx_code parse_expressed(hlo_parser *p, hlo_quant *q)
{
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(parse_element(p, &q->expressed));
    if (!flxi_hlop_is_float(q->expressed))
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "quantised values express floating-point numbers");
    at = flxi_hlop_position(p);
    q->axis = -1;
    if (!flxi_hlop_eat(p, ":"))
        return FLX_OK;
    if (flxi_hlop_peek(p) == '{')
        return flxi_hlop_fail_at(p, at, FLX_E_UNSUPPORTED, NULL, "quantisation in blocks is not supported");
    FLXI_TRY(parse_i64(p, &q->axis));
    return q->axis >= 0 ? FLX_OK : flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "the quantised axis is negative");
}

/* After !quant.uniform */
static flx_code parse_quant(hlo_parser *p, const hlo_quant **out)
{
    hlo_quant *q = flxi_new(p->arena, hlo_quant, 1);
    if (!q)
        return flxi_hlop_oom(p);
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    FLXI_TRY(parse_storage(p, q));
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    FLXI_TRY(parse_expressed(p, q));
    FLXI_TRY(flxi_hlop_expect(p, ","));
    size_t reals = p->reals.n;
    size_t ints = p->ints.n;
    hlo_location at = flxi_hlop_position(p);
    if (flxi_hlop_eat(p, "{")) {
        do
            FLXI_TRY(parse_scale(p, q));
        while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, "}"));
        if (q->axis < 0)
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "several scales need the axis they belong to");
    } else {
        if (q->axis >= 0)
            return flxi_hlop_expected(p, "'{' and the scales along the axis");
        FLXI_TRY(parse_scale(p, q));
    }
    q->scales = HLO_TAKE(p, double, reals, reals, &q->num_scales);
    q->zero_points = HLO_TAKE(p, int64_t, ints, ints, &q->num_scales);
    *out = q;
    return q->scales && q->zero_points ? flxi_hlop_expect(p, ">") : FLX_E_OOM;
}

/* ---- Tensors ---- */

/* 4x?x on `ints`; *unranked for *x. */
static flx_code parse_dims(hlo_parser *p, bool *unranked)
{
    size_t base = p->ints.n;
    int64_t count = 1;
    *unranked = flxi_hlop_eat(p, "*");
    if (*unranked)
        return flxi_hlop_expect(p, "x");
    for (;;) {
        hlo_location at = flxi_hlop_position(p);
        int64_t extent = HLO_DYNAMIC;
        if (!flxi_hlop_eat(p, "?")) {
            if (p->c.at < p->end && *p->c.at == '-')
                return flxi_hlop_fail_at(p, at, FLX_E_SIZE, NULL, "an extent is negative");
            if (!flxi_hlop_at_number(p))
                return FLX_OK;
            /* "0x1" would be read as one hexadecimal number */
            hlo_numeral n = {.at = at, .digits = p->c.at};
            while (p->c.at < p->end && *p->c.at >= '0' && *p->c.at <= '9')
                p->c.at++;
            n.length = (size_t)(p->c.at - n.digits);
            if (!flxi_read_i64(n.digits, n.length, &extent))
                return flxi_hlop_fail_at(p, at, FLX_E_SIZE, NULL, "an extent does not fit into 64 bits");
            if (extent && __builtin_mul_overflow(count, extent, &count))
                return flxi_hlop_fail_at(p, at, FLX_E_SIZE, NULL, "the tensor has too many elements");
        }
        FLXI_TRY(flxi_hlop_expect(p, "x"));
        HLO_PUSH(p, ints, extent);
        if (p->ints.n - base > FLX_MAX_RANK)
            return flxi_hlop_fail_at(p, at, FLX_E_SIZE, NULL, "more than %d axes", FLX_MAX_RANK);
    }
}

flx_code flxi_hlop_encoding(hlo_parser *p, hlo_location at, const hlo_attr *a, hlo_type *t)
{
    if (a->kind == HLO_A_DICT && a->struct_name && strcmp(a->struct_name, "type_extensions") == 0)
        a = flxi_hlo_entry(a, "bounds");
    if (!a || a->kind != HLO_A_LIST || !a->ints)
        return FLX_OK;
    if (t->is_unranked || a->num_numbers != (size_t)t->rank)
        return flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL, "%zu bounds for %d axes", a->num_numbers, t->rank);
    for (int i = 0; i < t->rank; i++)
        if (a->ints[i] < HLO_DYNAMIC || (a->ints[i] != HLO_DYNAMIC && t->dims[i] != HLO_DYNAMIC))
            return flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL, "axis %d has a bound and a fixed extent", i);
    t->bounds = t->rank ? a->ints : NULL;
    return FLX_OK;
}

flx_code flxi_hlop_check_quantised(hlo_parser *p, hlo_location at, const hlo_type *t)
{
    const hlo_quant *q = t->quant;
    if (!q || q->axis < 0 || t->is_unranked)
        return FLX_OK;
    if (q->axis >= t->rank)
        return flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL, "the quantised axis %lld is not among %d axes",
                                 (long long)q->axis, t->rank);
    int64_t extent = t->dims[q->axis];
    if (extent != HLO_DYNAMIC && (uint64_t)extent != q->num_scales)
        return flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL, "%zu scales for the extent %lld", q->num_scales,
                                 (long long)extent);
    return FLX_OK;
}

static flx_code parse_dialect_type(hlo_parser *p, const hlo_type **out);

/* After `tensor`. */
static flx_code parse_tensor(hlo_parser *p, const hlo_type **out)
{
    hlo_type *t = flxi_hlop_new_type(p, HLO_TENSOR);
    if (!t)
        return FLX_E_OOM;
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    size_t base = p->ints.n;
    FLXI_TRY(parse_dims(p, &t->is_unranked));
    size_t rank;
    t->dims = HLO_TAKE(p, int64_t, ints, base, &rank);
    if (!t->dims)
        return FLX_E_OOM;
    t->rank = (int)rank;
    hlo_location at = flxi_hlop_position(p);
    if (flxi_hlop_peek(p) == '!') {
        const hlo_type *element;
        FLXI_TRY(parse_dialect_type(p, &element));
        if (element->kind != HLO_SCALAR)
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "a tensor cannot have elements of this type");
        t->element = element->element;
        t->quant = element->quant;
    } else {
        FLXI_TRY(parse_element(p, &t->element));
    }
    FLXI_TRY(flxi_hlop_check_quantised(p, at, t));
    if (flxi_hlop_eat(p, ",")) {
        const hlo_attr *encoding;
        at = flxi_hlop_position(p);
        FLXI_TRY(flxi_hlop_attr(p, &encoding));
        FLXI_TRY(flxi_hlop_encoding(p, at, encoding, t));
    }
    *out = t;
    return flxi_hlop_expect(p, ">");
}

/* The text of a tensor type from its '<' on; length 0 where its end is not plain to see. */
static hlo_span tensor_text(const hlo_parser *p)
{
    int depth = 0;
    for (const char *s = p->c.at; s < p->end; s++) {
        if (*s == '<')
            depth++;
        else if (*s == '>' && --depth == 0)
            return (hlo_span){p->c.at, (size_t)(s + 1 - p->c.at)};
        else if (depth == 0 || *s == '\n' || *s == '-' || *s == '"' || *s == '/')
            break;
    }
    return (hlo_span){p->c.at, 0};
}

static flx_code parse_known_tensor(hlo_parser *p, const hlo_type **out)
{
    hlo_span text = tensor_text(p);
    if (text.length == 0)
        return parse_tensor(p, out);
    const hlo_alias *known = flxi_hlop_find_alias(p, HLO_ALIAS_TYPE, text);
    if (known) {
        p->c.at += text.length;
        *out = known->type;
        return FLX_OK;
    }
    FLXI_TRY(parse_tensor(p, out));
    return flxi_hlop_add_alias(
        p, (hlo_alias){.kind = HLO_ALIAS_TYPE, .text = text.at, .length = text.length, .type = *out});
}

/* ---- Other types ---- */

flx_code flxi_hlop_types_until(hlo_parser *p, const char *close)
{
    if (flxi_hlop_eat(p, close))
        return FLX_OK;
    do {
        const hlo_type *t;
        FLXI_TRY(flxi_hlop_type(p, &t));
        HLO_PUSH(p, items, t);
    } while (flxi_hlop_eat(p, ","));
    return flxi_hlop_expect(p, close);
}

flx_code flxi_hlop_function_type(hlo_parser *p, const hlo_type **out)
{
    hlo_type *t = flxi_hlop_new_type(p, HLO_FUNCTION);
    if (!t)
        return FLX_E_OOM;
    size_t base = p->items.n;
    FLXI_TRY(flxi_hlop_expect(p, "("));
    FLXI_TRY(flxi_hlop_types_until(p, ")"));
    t->parts = (const hlo_type *const *)HLO_TAKE(p, void *, items, base, &t->num_parts);
    FLXI_TRY(flxi_hlop_expect(p, "->"));
    if (flxi_hlop_eat(p, "(")) {
        FLXI_TRY(flxi_hlop_types_until(p, ")"));
    } else {
        const hlo_type *result;
        FLXI_TRY(flxi_hlop_type(p, &result));
        HLO_PUSH(p, items, result);
    }
    t->results = (const hlo_type *const *)HLO_TAKE(p, void *, items, base, &t->num_results);
    *out = t;
    return t->parts && t->results ? FLX_OK : FLX_E_OOM;
}

/* tuple<…>, future<…> */
static flx_code parse_parts(hlo_parser *p, hlo_type_kind kind, const hlo_type **out)
{
    hlo_type *t = flxi_hlop_new_type(p, kind);
    if (!t)
        return FLX_E_OOM;
    size_t base = p->items.n;
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    FLXI_TRY(flxi_hlop_types_until(p, ">"));
    t->parts = (const hlo_type *const *)HLO_TAKE(p, void *, items, base, &t->num_parts);
    *out = t;
    return t->parts ? FLX_OK : FLX_E_OOM;
}

/* !dialect.name<…> or !alias */
static flx_code parse_dialect_type(hlo_parser *p, const hlo_type **out)
{
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(flxi_hlop_expect(p, "!"));
    hlo_span name = flxi_hlop_suffix(p);
    if (flxi_hlop_is(name, "quant.uniform")) {
        hlo_type *t = flxi_hlop_new_type(p, HLO_SCALAR);
        if (!t)
            return FLX_E_OOM;
        FLXI_TRY(parse_quant(p, &t->quant));
        t->element = t->quant->storage;
        *out = t;
        return FLX_OK;
    }
    if (flxi_hlop_is(name, "stablehlo.future") || flxi_hlop_is(name, "mhlo.future"))
        return parse_parts(p, HLO_FUTURE, out);
    if (flxi_hlop_is(name, "stablehlo.token") || flxi_hlop_is(name, "mhlo.token")) {
        *out = flxi_hlop_new_type(p, HLO_TOKEN);
        return *out ? FLX_OK : FLX_E_OOM;
    }
    const hlo_alias *alias = flxi_hlop_find_alias(p, HLO_ALIAS_TYPE, name);
    if (!alias)
        return unknown_type(p, at, (hlo_span){name.at - 1, name.length + 1});
    *out = alias->type;
    return FLX_OK;
}

static flx_code parse_type(hlo_parser *p, const hlo_type **out)
{
    char c = flxi_hlop_peek(p);
    if (c == '!')
        return parse_dialect_type(p, out);
    if (c == '(')
        return flxi_hlop_function_type(p, out);
    if (flxi_hlop_eat_word(p, "tensor"))
        return parse_known_tensor(p, out);
    if (flxi_hlop_eat_word(p, "tuple"))
        return parse_parts(p, HLO_TUPLE, out);
    if (flxi_hlop_eat_word(p, "none")) {
        *out = flxi_hlop_new_type(p, HLO_NONE);
        return *out ? FLX_OK : FLX_E_OOM;
    }
    if (flxi_hlop_peek_word(p).length == 0)
        return flxi_hlop_expected(p, "a type");
    hlo_element e;
    FLXI_TRY(parse_element(p, &e));
    *out = flxi_hlop_scalar_of(p, e);
    return *out ? FLX_OK : FLX_E_OOM;
}

flx_code flxi_hlop_type(hlo_parser *p, const hlo_type **out)
{
    FLXI_TRY(flxi_hlop_enter(p));
    FLXI_TRY(parse_type(p, out));
    flxi_hlop_leave(p);
    return FLX_OK;
}

enum { largest_alias = 256 }; /* types that an alias may consist of */

/* How many types a type consists of; counting ends above `most`. */
static size_t weigh(const hlo_type *t, size_t most)
{
    size_t weight = 1;
    for (size_t i = 0; i < t->num_parts && weight <= most; i++)
        weight += weigh(t->parts[i], most - weight);
    for (size_t i = 0; i < t->num_results && weight <= most; i++)
        weight += weigh(t->results[i], most - weight);
    return weight;
}

flx_code flxi_hlop_alias_type(hlo_parser *p, const hlo_type **out)
{
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(flxi_hlop_type(p, out));
    if (weigh(*out, largest_alias) > largest_alias)
        return flxi_hlop_fail_at(p, at, FLX_E_SIZE, NULL, "the alias consists of more than %d types", largest_alias);
    return FLX_OK;
}

bool flxi_hlop_at_type(hlo_parser *p)
{
    char c = flxi_hlop_peek(p);
    if (c == '!' || c == '(')
        return true;
    hlo_element ignored;
    hlo_span word = flxi_hlop_peek_word(p);
    return flxi_hlop_is(word, "tensor") || flxi_hlop_is(word, "tuple") || flxi_hlop_is(word, "none") ||
           flxi_hlop_is(word, "complex") || find_element(word, &ignored);
}

/* ---- Comparing ---- */

static bool same_types(const hlo_type *const *a, const hlo_type *const *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!flxi_hlop_same_type(a[i], b[i]))
            return false;
    return true;
}

static bool same_quant(const hlo_quant *a, const hlo_quant *b)
{
    if (a == b)
        return true;
    return a && b && a->storage == b->storage && a->expressed == b->expressed && a->min == b->min && a->max == b->max &&
           a->axis == b->axis && a->num_scales == b->num_scales &&
           memcmp(a->scales, b->scales, a->num_scales * sizeof *a->scales) == 0 &&
           memcmp(a->zero_points, b->zero_points, a->num_scales * sizeof *a->zero_points) == 0;
}

static bool same_numbers(const int64_t *a, const int64_t *b, int n)
{
    return a == b || (a && b && memcmp(a, b, (size_t)n * sizeof *a) == 0);
}

bool flxi_hlop_same_type(const hlo_type *a, const hlo_type *b)
{
    if (a == b)
        return true;
    return a->kind == b->kind && a->element == b->element && same_quant(a->quant, b->quant) &&
           a->is_unranked == b->is_unranked && a->rank == b->rank && same_numbers(a->dims, b->dims, a->rank) &&
           same_numbers(a->bounds, b->bounds, a->rank) && a->num_parts == b->num_parts &&
           a->num_results == b->num_results && same_types(a->parts, b->parts, a->num_parts) &&
           same_types(a->results, b->results, a->num_results);
}

/* ---- Printing ---- */

/* Like snprintf: counts what does not fit. */
typedef struct {
    char *at;
    size_t size, n;
} printer;

static void put(printer *o, const char *text)
{
    for (; *text; text++, o->n++)
        if (o->n + 1 < o->size)
            o->at[o->n] = *text;
}

static void put_number(printer *o, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)v);
    put(o, text);
}

static void put_extent(printer *o, int64_t v)
{
    if (v == HLO_DYNAMIC)
        put(o, "?");
    else
        put_number(o, v);
}

static void put_scale(printer *o, const hlo_quant *q, size_t i)
{
    char text[FLXI_NUMBER_MAX];
    flxi_write_double(text, q->scales[i], 53);
    put(o, text);
    if (q->zero_points[i]) {
        put(o, ":");
        put_number(o, q->zero_points[i]);
    }
}

static void put_quant(printer *o, const hlo_quant *q)
{
    put(o, "!quant.uniform<");
    put(o, elements[q->storage].text);
    if (q->min != flxi_hlop_least(q->storage) || q->max != flxi_hlop_greatest(q->storage)) {
        put(o, "<");
        put_number(o, q->min);
        put(o, ":");
        put_number(o, q->max);
        put(o, ">");
    }
    put(o, ":");
    put(o, elements[q->expressed].text);
    if (q->axis >= 0) {
        put(o, ":");
        put_number(o, q->axis);
    }
    put(o, q->axis >= 0 ? ", {" : ", ");
    for (size_t i = 0; i < q->num_scales; i++) {
        put(o, i ? ", " : "");
        put_scale(o, q, i);
    }
    put(o, q->axis >= 0 ? "}>" : ">");
}

static void put_element(printer *o, const hlo_type *t)
{
    if (t->quant)
        put_quant(o, t->quant);
    else
        put(o, elements[t->element].text);
}

static void put_tensor(printer *o, const hlo_type *t)
{
    put(o, t->is_unranked ? "tensor<*x" : "tensor<");
    for (int i = 0; i < t->rank; i++) {
        put_extent(o, t->dims[i]);
        put(o, "x");
    }
    put_element(o, t);
    if (t->bounds) {
        put(o, ", #stablehlo.bounds<");
        for (int i = 0; i < t->rank; i++) {
            put(o, i ? ", " : "");
            put_extent(o, t->bounds[i]);
        }
        put(o, ">");
    }
    put(o, ">");
}

static void put_type(printer *o, const hlo_type *t);

static void put_types(printer *o, const char *open, const hlo_type *const *types, size_t n, const char *close)
{
    put(o, open);
    for (size_t i = 0; i < n; i++) {
        put(o, i ? ", " : "");
        put_type(o, types[i]);
    }
    put(o, close);
}

static void put_type(printer *o, const hlo_type *t)
{
    switch (t->kind) {
    case HLO_TENSOR: put_tensor(o, t); break;
    case HLO_SCALAR: put_element(o, t); break;
    case HLO_TOKEN: put(o, "!stablehlo.token"); break;
    case HLO_TUPLE: put_types(o, "tuple<", t->parts, t->num_parts, ">"); break;
    case HLO_FUTURE: put_types(o, "!stablehlo.future<", t->parts, t->num_parts, ">"); break;
    case HLO_FUNCTION:
        put_types(o, "(", t->parts, t->num_parts, ") -> ");
        put_types(o, "(", t->results, t->num_results, ")");
        break;
    case HLO_NONE: put(o, "none"); break;
    }
}

size_t flxi_hlo_type_print(const hlo_type *type, char *buffer, size_t size)
{
    printer o = {buffer, size, 0};
    put_type(&o, type);
    if (size)
        buffer[o.n < size ? o.n : size - 1] = 0;
    return o.n;
}
