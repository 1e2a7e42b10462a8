/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_attr.c: attributes of StableHLO text. Those of the dialects stablehlo and chlo become words and structures; those
   of other dialects are kept as written, since nothing here depends on them. */
#include "stablehlo/syntax/hlo_number.h"

/* ---- Making ---- */

hlo_attr *flxi_hlop_new_attr(hlo_parser *p, hlo_attr_kind kind, hlo_location at)
{
    hlo_attr *a = flxi_new(p->arena, hlo_attr, 1);
    if (!a) {
        flxi_hlop_oom(p);
        return NULL;
    }
    a->kind = kind;
    a->at = at;
    return a;
}

static flx_code make_text(hlo_parser *p, hlo_attr_kind kind, hlo_location at, const char *text, size_t length,
                          const hlo_attr **out)
{
    hlo_attr *a = text ? flxi_hlop_new_attr(p, kind, at) : NULL;
    if (!a)
        return FLX_E_OOM;
    a->text = text;
    a->length = length;
    *out = a;
    return FLX_OK;
}

static flx_code make_kept(hlo_parser *p, hlo_attr_kind kind, hlo_location at, hlo_span text, const hlo_attr **out)
{
    return make_text(p, kind, at, flxi_hlop_keep(p, text), text.length, out);
}

flx_code flxi_hlop_add_attr(hlo_parser *p, const char *name, const hlo_attr *value)
{
    HLO_PUSH(p, entries, ((hlo_entry){name, value}));
    return FLX_OK;
}

const hlo_attr *flxi_hlo_entry(const hlo_attr *dict, const char *name)
{
    if (dict && dict->kind == HLO_A_DICT)
        for (size_t i = 0; i < dict->num_entries; i++)
            if (strcmp(dict->entries[i].name, name) == 0)
                return dict->entries[i].value;
    return NULL;
}

/* The entries above `base` as a dictionary. */
static flx_code take_dict(hlo_parser *p, hlo_location at, size_t base, const char *struct_name, const hlo_attr **out)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_DICT, at);
    if (!a)
        return FLX_E_OOM;
    a->entries = HLO_TAKE(p, hlo_entry, entries, base, &a->num_entries);
    a->struct_name = struct_name;
    *out = a;
    return a->entries ? FLX_OK : FLX_E_OOM;
}

/* The numbers above `base` as a list. */
static flx_code take_list(hlo_parser *p, hlo_location at, hlo_element element, size_t base, const hlo_attr **out)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_LIST, at);
    if (!a)
        return FLX_E_OOM;
    if (flxi_hlop_is_float(element))
        a->reals = HLO_TAKE(p, double, reals, base, &a->num_numbers);
    else
        a->ints = HLO_TAKE(p, int64_t, ints, base, &a->num_numbers);
    a->type = flxi_hlop_scalar_of(p, element);
    *out = a;
    return (a->ints || a->reals) && a->type ? FLX_OK : FLX_E_OOM;
}

/* ---- Aliases ---- */

hlo_alias *flxi_hlop_find_alias(const hlo_parser *p, hlo_alias_kind kind, hlo_span name)
{
    uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED, name.at, name.length);
    uint32_t i;
    for (flxi_probe probe = flxi_index_first(&p->alias_index, hash); flxi_index_next(&p->alias_index, &probe, &i);) {
        hlo_alias *a = &p->aliases.at[i];
        if (a->kind == kind && a->length == name.length && memcmp(a->text, name.at, name.length) == 0)
            return a;
    }
    return NULL;
}

flx_code flxi_hlop_add_alias(hlo_parser *p, hlo_alias a)
{
    uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED, a.text, a.length);
    if (p->aliases.n >= UINT32_MAX || !flxi_index_add(p->mem, &p->alias_index, hash, (uint32_t)p->aliases.n))
        return flxi_hlop_oom(p);
    HLO_PUSH(p, aliases, a);
    return FLX_OK;
}

/* #name = attribute or !name = type; the mark has been read already. Locations name arguments alone. */
flx_code flxi_hlop_define_alias(hlo_parser *p, char mark)
{
    hlo_location at = flxi_hlop_position(p);
    hlo_span name = flxi_hlop_suffix(p);
    if (name.length == 0)
        return flxi_hlop_expected(p, "the name of an alias");
    FLXI_TRY(flxi_hlop_expect(p, "="));
    if (flxi_hlop_at_word(p, "loc")) {
        hlo_alias location = {HLO_ALIAS_LOCATION, .text = name.at, .length = name.length, .data = p->c};
        FLXI_TRY(flxi_hlop_skip_location(p));
        return flxi_hlop_find_alias(p, HLO_ALIAS_LOCATION, name) ? FLX_OK : flxi_hlop_add_alias(p, location);
    }
    hlo_alias_kind kind = mark == '!' ? HLO_ALIAS_TYPE : HLO_ALIAS_ATTR;
    if (flxi_hlop_find_alias(p, kind, name))
        return flxi_hlop_fail_at(p, at, FLX_E_DUP_NAME, NULL, "the alias %c%.*s is defined twice", mark,
                                 (int)(name.length > 60 ? 60 : name.length), name.at);
    hlo_alias a = {.kind = kind, .text = name.at, .length = name.length};
    if (kind == HLO_ALIAS_TYPE)
        FLXI_TRY(flxi_hlop_alias_type(p, &a.type));
    else
        FLXI_TRY(flxi_hlop_attr(p, &a.attr));
    return flxi_hlop_add_alias(p, a);
}

/* ---- Numbers and lists ---- */

flx_code flxi_hlop_int(hlo_parser *p, hlo_element element, const hlo_attr **out)
{
    hlo_numeral n;
    FLXI_TRY(flxi_hlop_numeral(p, &n));
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_INT, n.at);
    if (!a)
        return FLX_E_OOM;
    FLXI_TRY(flxi_hlop_to_int(p, &n, element, &a->integer));
    a->type = flxi_hlop_scalar_of(p, element);
    *out = a;
    return a->type ? FLX_OK : FLX_E_OOM;
}

/* 3, 3 : i32, 1.5 : f32, 0x7FC00000 : f32 */
static flx_code parse_number(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    hlo_numeral n;
    FLXI_TRY(flxi_hlop_numeral(p, &n));
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_INT, at);
    if (!a)
        return FLX_E_OOM;
    hlo_location type_at = flxi_hlop_position(p);
    if (flxi_hlop_eat(p, ":")) {
        FLXI_TRY(flxi_hlop_type(p, &a->type));
    } else {
        a->type = flxi_hlop_scalar_of(p, n.is_real ? HLO_F64 : HLO_I64);
        if (!a->type)
            return FLX_E_OOM;
    }
    if (a->type->kind != HLO_SCALAR || flxi_hlop_is_complex(a->type->element))
        return flxi_hlop_fail_at(p, type_at, FLX_E_SYNTAX, NULL, "a number has the type of an integer or a float");
    *out = a;
    if (!flxi_hlop_is_float(a->type->element))
        return flxi_hlop_to_int(p, &n, a->type->element, &a->integer);
    a->kind = HLO_A_REAL;
    return flxi_hlop_to_real(p, &n, a->type->element, &a->real);
}

static bool eat_bool(hlo_parser *p, int64_t *out)
{
    bool is_true = flxi_hlop_eat_word(p, "true");
    if (!is_true && !flxi_hlop_eat_word(p, "false"))
        return false;
    *out = is_true;
    return true;
}

flx_code flxi_hlop_int_list(hlo_parser *p, const hlo_attr **out)
{
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(flxi_hlop_expect(p, "["));
    size_t base = p->ints.n;
    hlo_element element = HLO_I64;
    if (!flxi_hlop_eat(p, "]")) {
        do {
            int64_t v = HLO_DYNAMIC;
            if (eat_bool(p, &v)) {
                element = HLO_I1;
            } else if (!flxi_hlop_eat(p, "?")) {
                hlo_numeral n;
                FLXI_TRY(flxi_hlop_numeral(p, &n));
                FLXI_TRY(flxi_hlop_to_int(p, &n, HLO_I64, &v));
            }
            HLO_PUSH(p, ints, v);
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, "]"));
    }
    return take_list(p, at, element, base, out);
}

/* After `array`: <i64: 1, 2> */
static flx_code parse_array(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    hlo_location type_at = flxi_hlop_position(p);
    const hlo_type *type;
    FLXI_TRY(flxi_hlop_type(p, &type));
    if (type->kind != HLO_SCALAR || flxi_hlop_is_complex(type->element))
        return flxi_hlop_fail_at(p, type_at, FLX_E_SYNTAX, NULL, "an array holds integers or floats");
    bool is_float = flxi_hlop_is_float(type->element);
    size_t base = is_float ? p->reals.n : p->ints.n;
    if (flxi_hlop_eat(p, ":")) {
        do {
            int64_t v = 0;
            double x = 0;
            hlo_numeral n;
            if (type->element != HLO_I1 || !eat_bool(p, &v)) {
                FLXI_TRY(flxi_hlop_numeral(p, &n));
                FLXI_TRY(is_float ? flxi_hlop_to_real(p, &n, type->element, &x)
                                  : flxi_hlop_to_int(p, &n, type->element, &v));
            }
            if (is_float)
                HLO_PUSH(p, reals, x);
            else
                HLO_PUSH(p, ints, v);
        } while (flxi_hlop_eat(p, ","));
    }
    FLXI_TRY(flxi_hlop_expect(p, ">"));
    return take_list(p, at, type->element, base, out);
}

/* ---- Structures of the dialect ---- */

flx_code flxi_hlop_word_attr(hlo_parser *p, const hlo_attr **out)
{
    hlo_location at = flxi_hlop_position(p);
    hlo_span word = flxi_hlop_word(p);
    if (word.length == 0)
        return flxi_hlop_expected(p, "a word");
    return make_kept(p, HLO_A_WORD, at, word, out);
}

static flx_code parse_struct(hlo_parser *p, hlo_location at, const char *name, const hlo_attr **out);

/* What follows name = in a structure: [0, 1], <…>, or any attribute. */
static flx_code parse_member(hlo_parser *p, const hlo_attr **out)
{
    hlo_location at = flxi_hlop_position(p);
    char c = flxi_hlop_peek(p);
    if (c == '<') {
        FLXI_TRY(flxi_hlop_enter(p));
        FLXI_TRY(parse_struct(p, at, NULL, out));
        flxi_hlop_leave(p);
        return FLX_OK;
    }
    if (c == '[') {
        hlo_cursor start = p->c;
        p->c.at++;
        char first = flxi_hlop_peek(p);
        bool is_list = first == ']' || first == '?' || flxi_hlop_at_number(p) || flxi_hlop_at_word(p, "true") ||
                       flxi_hlop_at_word(p, "false");
        p->c = start;
        if (is_list)
            return flxi_hlop_int_list(p, out);
    }
    return flxi_hlop_attr(p, out);
}

/* Names are kept once, so equal ones are one pointer. */
static flx_code check_entry(hlo_parser *p, hlo_location at, size_t base, const char *name)
{
    for (size_t i = base; i < p->entries.n; i++)
        if (p->entries.at[i].name == name)
            return flxi_hlop_fail_at(p, at, FLX_E_ATTRIBUTE, NULL, "the attribute %.60s is given twice", name);
    if (p->entries.n - base >= HLO_MOST_ENTRIES)
        return flxi_hlop_fail_at(p, at, FLX_E_SIZE, NULL, "more than %d attributes in one list", HLO_MOST_ENTRIES);
    return FLX_OK;
}

/* a = 1, b = [2] up to the '>', which is consumed. */
static flx_code parse_members(hlo_parser *p, hlo_location at, const char *struct_name, const hlo_attr **out)
{
    size_t base = p->entries.n;
    if (!flxi_hlop_eat(p, ">")) {
        do {
            hlo_location name_at = flxi_hlop_position(p);
            hlo_span name = flxi_hlop_word(p);
            if (name.length == 0)
                return flxi_hlop_expected(p, "the name of a member");
            const char *kept = flxi_hlop_keep(p, name);
            const hlo_attr *value;
            if (!kept)
                return FLX_E_OOM;
            FLXI_TRY(check_entry(p, name_at, base, kept));
            FLXI_TRY(flxi_hlop_expect(p, "="));
            FLXI_TRY(parse_member(p, &value));
            FLXI_TRY(flxi_hlop_add_attr(p, kept, value));
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, ">"));
    }
    return take_dict(p, at, base, struct_name, out);
}

/* <4, ?> as a list */
static flx_code parse_bounds(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    size_t base = p->ints.n;
    if (!flxi_hlop_eat(p, ">")) {
        do {
            int64_t v = HLO_DYNAMIC;
            if (!flxi_hlop_eat(p, "?")) {
                hlo_numeral n;
                FLXI_TRY(flxi_hlop_numeral(p, &n));
                FLXI_TRY(flxi_hlop_to_int(p, &n, HLO_I64, &v));
                if (v < 0)
                    return flxi_hlop_fail_at(p, n.at, FLX_E_SIZE, NULL, "a bound is negative");
            }
            HLO_PUSH(p, ints, v);
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, ">"));
    }
    return take_list(p, at, HLO_I64, base, out);
}

/* <WORD>, <a = 1, …> or, of a convolution, <[b, 0, f]x…> */
static flx_code parse_struct(hlo_parser *p, hlo_location at, const char *name, const hlo_attr **out)
{
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    if (name && strcmp(name, "bounds") == 0)
        return parse_bounds(p, at, out);
    if (flxi_hlop_peek(p) == '[') {
        FLXI_TRY(flxi_hlop_conv_dims(p, out));
        return flxi_hlop_expect(p, ">");
    }
    if (name && strcmp(name, "conv") == 0)
        flxi_hlop_eat_word(p, "raw");
    hlo_cursor start = p->c;
    hlo_span word = flxi_hlop_word(p);
    if (word.length && flxi_hlop_eat(p, ">"))
        return make_kept(p, HLO_A_WORD, at, word, out);
    p->c = start;
    return parse_members(p, at, name, out);
}

flx_code flxi_hlop_struct(hlo_parser *p, const char *name, const hlo_attr **out)
{
    return parse_struct(p, flxi_hlop_position(p), name, out);
}

/* <comparison_direction EQ>, <dot<…>> */
static flx_code parse_short_dialect(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    hlo_span kind = flxi_hlop_word(p);
    if (kind.length == 0)
        return flxi_hlop_expected(p, "the kind of an attribute");
    const char *name = flxi_hlop_keep(p, kind);
    if (!name)
        return FLX_E_OOM;
    if (flxi_hlop_peek(p) == '<')
        FLXI_TRY(parse_struct(p, at, name, out));
    else
        FLXI_TRY(flxi_hlop_word_attr(p, out));
    return flxi_hlop_expect(p, ">");
}

/* ---- Convolutions ---- */

typedef struct {
    const char *first, *second; /* letters and what they name */
    char first_letter, second_letter;
    const char *spatial;
} conv_side;

static const conv_side conv_sides[] = {
    {"input_batch_dimension", "input_feature_dimension", 'b', 'f', "input_spatial_dimensions"},
    {"kernel_input_feature_dimension", "kernel_output_feature_dimension", 'i', 'o', "kernel_spatial_dimensions"},
    {"output_batch_dimension", "output_feature_dimension", 'b', 'f', "output_spatial_dimensions"},
};

static flx_code add_int(hlo_parser *p, hlo_location at, const char *name, int64_t v)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_INT, at);
    if (!a)
        return FLX_E_OOM;
    a->integer = v;
    a->type = flxi_hlop_scalar_of(p, HLO_I64);
    return a->type ? flxi_hlop_add_attr(p, name, a) : FLX_E_OOM;
}

/* [b, 0, 1, f]: the position of each letter and each number, or -1. */
typedef struct {
    int64_t rank, letters[2], axis_of[FLX_MAX_RANK];
} conv_axes;

/* The element of axes that the next word or number of the list belongs to, or NULL. */
static flx_code find_conv_axis(hlo_parser *p, const conv_side *side, conv_axes *axes, int64_t **slot)
{
    *slot = NULL;
    if (flxi_hlop_at_number(p)) {
        hlo_numeral n;
        int64_t v;
        FLXI_TRY(flxi_hlop_numeral(p, &n));
        FLXI_TRY(flxi_hlop_to_int(p, &n, HLO_I64, &v));
        if (v >= 0 && v < FLX_MAX_RANK)
            *slot = &axes->axis_of[v];
        return FLX_OK;
    }
    hlo_span word = flxi_hlop_word(p);
    if (word.length == 1 && *word.at == side->first_letter)
        *slot = &axes->letters[0];
    else if (word.length == 1 && *word.at == side->second_letter)
        *slot = &axes->letters[1];
    return FLX_OK;
}

static flx_code parse_conv_axes(hlo_parser *p, const conv_side *side, conv_axes *axes)
{
    hlo_location at = flxi_hlop_position(p);
    *axes = (conv_axes){.letters = {-1, -1}};
    for (int i = 0; i < FLX_MAX_RANK; i++)
        axes->axis_of[i] = -1;
    FLXI_TRY(flxi_hlop_expect(p, "["));
    do {
        hlo_location here = flxi_hlop_position(p);
        int64_t *slot;
        FLXI_TRY(find_conv_axis(p, side, axes, &slot));
        if (!slot || *slot >= 0)
            return flxi_hlop_fail_at(p, here, FLX_E_SYNTAX, NULL,
                                     "expected '%c', '%c' or the number of a spatial axis, each once",
                                     side->first_letter, side->second_letter);
        *slot = axes->rank++;
    } while (flxi_hlop_eat(p, ","));
    FLXI_TRY(flxi_hlop_expect(p, "]"));
    if (axes->letters[0] < 0 || axes->letters[1] < 0)
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "the axes '%c' and '%c' are required", side->first_letter,
                                 side->second_letter);
    return FLX_OK;
}

static flx_code parse_conv_side(hlo_parser *p, const conv_side *side)
{
    conv_axes axes;
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(parse_conv_axes(p, side, &axes));
    size_t base = p->ints.n;
    for (int64_t i = 0; i < axes.rank - 2; i++) {
        if (axes.axis_of[i] < 0)
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "the spatial axis %lld is missing", (long long)i);
        HLO_PUSH(p, ints, axes.axis_of[i]);
    }
    const hlo_attr *spatial;
    FLXI_TRY(take_list(p, at, HLO_I64, base, &spatial));
    FLXI_TRY(add_int(p, at, side->first, axes.letters[0]));
    FLXI_TRY(add_int(p, at, side->second, axes.letters[1]));
    return flxi_hlop_add_attr(p, side->spatial, spatial);
}

flx_code flxi_hlop_conv_dims(hlo_parser *p, const hlo_attr **out)
{
    hlo_location at = flxi_hlop_position(p);
    size_t base = p->entries.n;
    FLXI_TRY(parse_conv_side(p, &conv_sides[0]));
    FLXI_TRY(flxi_hlop_expect(p, "x"));
    FLXI_TRY(parse_conv_side(p, &conv_sides[1]));
    FLXI_TRY(flxi_hlop_expect(p, "->"));
    FLXI_TRY(parse_conv_side(p, &conv_sides[2]));
    return take_dict(p, at, base, "conv", out);
}

/* ---- Symbols, dialects, dictionaries ---- */

/* One @name or @"name". */
static flx_code parse_symbol_part(hlo_parser *p, hlo_span *out)
{
    FLXI_TRY(flxi_hlop_expect(p, "@"));
    if (p->c.at < p->end && *p->c.at == '"')
        return flxi_hlop_string(p, out);
    *out = flxi_hlop_suffix(p);
    return out->length ? FLX_OK : flxi_hlop_expected(p, "the name of a symbol");
}

/* @a or @a::@b, the text of which is "a::b" */
static flx_code parse_symbol(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    hlo_span name;
    FLXI_TRY(parse_symbol_part(p, &name));
    const char *text = flxi_hlop_keep(p, name);
    size_t length = name.length;
    while (text && flxi_hlop_eat(p, "::")) {
        FLXI_TRY(parse_symbol_part(p, &name));
        char *longer = flxi_new(p->arena, char, length + name.length + 3);
        if (!longer)
            return flxi_hlop_oom(p);
        memcpy(longer, text, length);
        memcpy(longer + length, "::", 2);
        memcpy(longer + length + 2, name.at, name.length);
        text = longer;
        length += name.length + 2;
    }
    return make_text(p, HLO_A_SYMBOL, at, text, length, out);
}

/* From `start` to here, as written. */
static flx_code make_opaque(hlo_parser *p, hlo_location at, const char *start, const hlo_attr **out)
{
    size_t length = (size_t)(p->c.at - start);
    const char *text = flxi_arena_text(p->arena, start, length);
    if (!text)
        return flxi_hlop_oom(p);
    return make_text(p, HLO_A_OPAQUE, at, text, length, out);
}

/* After a word that opens a bracket of another syntax: affine_map<…>, loc(…). */
static flx_code parse_foreign(hlo_parser *p, hlo_location at, const char *start, const hlo_attr **out)
{
    if (flxi_hlop_eat(p, "["))
        FLXI_TRY(flxi_hlop_skip_balanced(p, ']'));
    if (flxi_hlop_eat(p, "<"))
        FLXI_TRY(flxi_hlop_skip_balanced(p, '>'));
    else if (flxi_hlop_eat(p, "("))
        FLXI_TRY(flxi_hlop_skip_balanced(p, ')'));
    return make_opaque(p, at, start, out);
}

/* #alias, #stablehlo<…>, #stablehlo.gather<…>, #sdy.sharding<…> */
static flx_code parse_marked(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    const char *start = p->c.at;
    FLXI_TRY(flxi_hlop_expect(p, "#"));
    hlo_span name = flxi_hlop_suffix(p);
    const char *point = memchr(name.at, '.', name.length);
    size_t dialect = point ? (size_t)(point - name.at) : name.length;
    bool is_ours =
        flxi_hlop_is((hlo_span){name.at, dialect}, "stablehlo") || flxi_hlop_is((hlo_span){name.at, dialect}, "chlo");
    bool opens = p->c.at < p->end && *p->c.at == '<';
    if (is_ours && opens) {
        if (!point)
            return parse_short_dialect(p, at, out);
        const char *kind = flxi_hlop_keep(p, (hlo_span){point + 1, name.length - dialect - 1});
        return kind ? parse_struct(p, at, kind, out) : FLX_E_OOM;
    }
    if (point || opens)
        return parse_foreign(p, at, start, out);
    const hlo_alias *alias = flxi_hlop_find_alias(p, HLO_ALIAS_ATTR, name);
    if (!alias)
        return flxi_hlop_fail_at(p, at, FLX_E_NAME, "an alias is defined before it is used: #name = ...",
                                 "unknown alias #%.*s", (int)(name.length > 60 ? 60 : name.length), name.at);
    *out = alias->attr;
    return FLX_OK;
}

flx_code flxi_hlop_dict_entries(hlo_parser *p, const char *close)
{
    size_t base = p->entries.n;
    if (flxi_hlop_eat(p, close))
        return FLX_OK;
    do {
        hlo_location at = flxi_hlop_position(p);
        hlo_span name;
        if (flxi_hlop_peek(p) == '"')
            FLXI_TRY(flxi_hlop_string(p, &name));
        else
            name = flxi_hlop_word(p);
        if (name.length == 0)
            return flxi_hlop_expected(p, "the name of an attribute");
        const char *kept = flxi_hlop_keep(p, name);
        const hlo_attr *value;
        if (!kept)
            return FLX_E_OOM;
        FLXI_TRY(check_entry(p, at, base, kept));
        if (flxi_hlop_eat(p, "=")) {
            FLXI_TRY(flxi_hlop_attr(p, &value));
        } else {
            value = flxi_hlop_new_attr(p, HLO_A_UNIT, at);
            if (!value)
                return FLX_E_OOM;
        }
        FLXI_TRY(flxi_hlop_add_attr(p, kept, value));
    } while (flxi_hlop_eat(p, ","));
    return flxi_hlop_expect(p, close);
}

static flx_code parse_dict(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    size_t base = p->entries.n;
    FLXI_TRY(flxi_hlop_expect(p, "{"));
    FLXI_TRY(flxi_hlop_dict_entries(p, "}"));
    return take_dict(p, at, base, NULL, out);
}

static flx_code parse_items(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    size_t base = p->items.n;
    FLXI_TRY(flxi_hlop_expect(p, "["));
    if (!flxi_hlop_eat(p, "]")) {
        do {
            const hlo_attr *item;
            FLXI_TRY(flxi_hlop_attr(p, &item));
            HLO_PUSH(p, items, item);
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, "]"));
    }
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_ARRAY, at);
    if (!a)
        return FLX_E_OOM;
    a->items = (const hlo_attr *const *)HLO_TAKE(p, void *, items, base, &a->num_items);
    *out = a;
    return a->items ? FLX_OK : FLX_E_OOM;
}

static flx_code parse_string(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    hlo_span text;
    FLXI_TRY(flxi_hlop_string(p, &text));
    const char *kept = flxi_arena_text(p->arena, text.at, text.length);
    return kept ? make_text(p, HLO_A_STRING, at, kept, text.length, out) : flxi_hlop_oom(p);
}

static flx_code parse_type_attr(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_TYPE, at);
    if (!a)
        return FLX_E_OOM;
    *out = a;
    return flxi_hlop_type(p, &a->type);
}

static bool opens_foreign(hlo_span word)
{
    static const char *const words[] = {"affine_map", "affine_set", "loc", "strided", "distinct"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (flxi_hlop_is(word, words[i]))
            return true;
    return false;
}

/* An attribute that begins with a word. */
static flx_code parse_worded(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    if (flxi_hlop_at_type(p))
        return parse_type_attr(p, at, out);
    hlo_span word = flxi_hlop_word(p);
    if (word.length == 0)
        return flxi_hlop_expected(p, "an attribute");
    bool is_true = flxi_hlop_is(word, "true");
    if (is_true || flxi_hlop_is(word, "false") || flxi_hlop_is(word, "unit")) {
        hlo_attr *a = flxi_hlop_new_attr(p, *word.at == 'u' ? HLO_A_UNIT : HLO_A_BOOL, at);
        if (!a)
            return FLX_E_OOM;
        a->integer = is_true;
        *out = a;
        return FLX_OK;
    }
    if (flxi_hlop_is(word, "dense"))
        return flxi_hlop_dense(p, at, out);
    if (flxi_hlop_is(word, "dense_resource"))
        return flxi_hlop_dense_resource(p, at, out);
    if (flxi_hlop_is(word, "array"))
        return parse_array(p, at, out);
    if (opens_foreign(word))
        return parse_foreign(p, at, word.at, out);
    if (flxi_hlop_is(word, "sparse"))
        return flxi_hlop_fail_at(p, at, FLX_E_UNSUPPORTED, NULL, "sparse literals are not supported");
    return make_kept(p, HLO_A_WORD, at, word, out);
}

static flx_code parse_attr(hlo_parser *p, const hlo_attr **out)
{
    hlo_location at = flxi_hlop_position(p);
    switch (flxi_hlop_peek(p)) {
    case '"': return parse_string(p, at, out);
    case '[': return parse_items(p, at, out);
    case '{': return parse_dict(p, at, out);
    case '@': return parse_symbol(p, at, out);
    case '#': return parse_marked(p, at, out);
    default: return flxi_hlop_at_number(p) ? parse_number(p, at, out) : parse_worded(p, at, out);
    }
}

flx_code flxi_hlop_attr(hlo_parser *p, const hlo_attr **out)
{
    FLXI_TRY(flxi_hlop_enter(p));
    FLXI_TRY(parse_attr(p, out));
    flxi_hlop_leave(p);
    return FLX_OK;
}

/* ---- Older spellings ---- */

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

flx_code flxi_hlop_dense_to_list(hlo_parser *p, const hlo_attr *dense, const hlo_attr **out)
{
    const hlo_type *t = dense->type;
    size_t base = p->ints.n;
    if (t->rank != 1 || t->dims[0] > FLX_MAX_RANK || (t->element != HLO_I64 && t->element != HLO_I1))
        return FLX_OK;
    size_t size = t->element == HLO_I64 ? sizeof(int64_t) : 1;
    for (int64_t i = 0; i < t->dims[0]; i++) {
        const unsigned char *at = (const unsigned char *)dense->bytes + (dense->is_splat ? 0 : (size_t)i * size);
        int64_t v = *at;
        if (size > 1)
            memcpy(&v, at, sizeof v);
        HLO_PUSH(p, ints, v);
    }
    return take_list(p, dense->at, t->element, base, out);
}

/* "LT" became #stablehlo<comparison_direction LT>. */
static flx_code string_to_word(hlo_parser *p, const hlo_attr *a, const hlo_attr **out)
{
    if (a->kind == HLO_A_STRING)
        return make_text(p, HLO_A_WORD, a->at, a->text, a->length, out);
    if (a->kind != HLO_A_ARRAY)
        return FLX_OK;
    size_t base = p->items.n;
    for (size_t i = 0; i < a->num_items; i++) {
        const hlo_attr *item = a->items[i];
        if (item->kind == HLO_A_STRING)
            FLXI_TRY(string_to_word(p, item, &item));
        HLO_PUSH(p, items, item);
    }
    hlo_attr *words = flxi_hlop_new_attr(p, HLO_A_ARRAY, a->at);
    if (!words)
        return FLX_E_OOM;
    words->items = (const hlo_attr *const *)HLO_TAKE(p, void *, items, base, &words->num_items);
    *out = words;
    return words->items ? FLX_OK : FLX_E_OOM;
}

flx_code flxi_hlop_modernise(hlo_parser *p, hlo_entry *e)
{
    static const char *const lists[] = {"broadcast_dimensions",
                                        "broadcast_sizes",
                                        "dimensions",
                                        "permutation",
                                        "slice_sizes",
                                        "start_indices",
                                        "limit_indices",
                                        "strides",
                                        "window_dimensions",
                                        "window_strides",
                                        "base_dilations",
                                        "window_dilations",
                                        "lhs_dilation",
                                        "rhs_dilation",
                                        "window_reversal",
                                        "edge_padding_low",
                                        "edge_padding_high",
                                        "interior_padding",
                                        "fft_length",
                                        "known_expanding_dimensions",
                                        "known_nonexpanding_dimensions",
                                        NULL};
    static const char *const words[] = {"comparison_direction",
                                        "compare_type",
                                        "rng_distribution",
                                        "rng_algorithm",
                                        "fft_type",
                                        "transpose_a",
                                        "precision_config",
                                        NULL};
    if (e->value->kind == HLO_A_DENSE && is_one_of(e->name, lists))
        return flxi_hlop_dense_to_list(p, e->value, &e->value);
    if ((e->value->kind == HLO_A_STRING || e->value->kind == HLO_A_ARRAY) && is_one_of(e->name, words))
        return string_to_word(p, e->value, &e->value);
    return FLX_OK;
}
