/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_pretty.c: operations written without quotes. Their forms are data (operations.def), read item by item. */
#include "stablehlo/syntax/hlo_pretty.h"

#include "stablehlo/operations.h"

/* ---- Attributes by kind ---- */

static flx_code kind_i64(hlo_parser *p, const hlo_attr **out)
{
    return flxi_hlop_int(p, HLO_I64, out);
}

static flx_code kind_i32(hlo_parser *p, const hlo_attr **out)
{
    return flxi_hlop_int(p, HLO_I32, out);
}

/* [A, B] */
static flx_code kind_words(hlo_parser *p, const hlo_attr **out)
{
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_ARRAY, flxi_hlop_position(p));
    if (!a)
        return FLX_E_OOM;
    size_t base = p->items.n;
    FLXI_TRY(flxi_hlop_expect(p, "["));
    if (!flxi_hlop_eat(p, "]")) {
        do {
            const hlo_attr *word;
            FLXI_TRY(flxi_hlop_word_attr(p, &word));
            HLO_PUSH(p, items, word);
        } while (flxi_hlop_eat(p, ","));
        FLXI_TRY(flxi_hlop_expect(p, "]"));
    }
    a->items = (const hlo_attr *const *)HLO_TAKE(p, void *, items, base, &a->num_items);
    *out = a;
    return a->items ? FLX_OK : FLX_E_OOM;
}

/* An attribute that must be of one kind. */
flx_code flxi_hlop_attr_of(hlo_parser *p, hlo_attr_kind kind, const char *what, const hlo_attr **out)
{
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(flxi_hlop_attr(p, out));
    if ((*out)->kind != kind)
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "expected %s", what);
    return FLX_OK;
}

static flx_code kind_bool(hlo_parser *p, const hlo_attr **out)
{
    if (!flxi_hlop_at_word(p, "true") && !flxi_hlop_at_word(p, "false"))
        return flxi_hlop_expected(p, "true or false");
    return flxi_hlop_attr(p, out);
}

static flx_code kind_string(hlo_parser *p, const hlo_attr **out)
{
    return flxi_hlop_attr_of(p, HLO_A_STRING, "a string", out);
}

static flx_code kind_symbol(hlo_parser *p, const hlo_attr **out)
{
    return flxi_hlop_attr_of(p, HLO_A_SYMBOL, "a symbol such as @name", out);
}

/* The target of a custom call: @name, kept as the string it is in the generic form. */
static flx_code kind_target(hlo_parser *p, const hlo_attr **out)
{
    if (flxi_hlop_peek(p) == '"')
        return kind_string(p, out);
    FLXI_TRY(kind_symbol(p, out));
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_STRING, (*out)->at);
    if (!a)
        return FLX_E_OOM;
    a->text = (*out)->text;
    a->length = (*out)->length;
    *out = a;
    return FLX_OK;
}

/* <@mesh, [{"x"}, {}]>, which the generic form writes with the name of the attribute before it */
static flx_code kind_sharding(hlo_parser *p, const hlo_attr **out)
{
    static const char name[] = "#sdy.sharding";
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_OPAQUE, flxi_hlop_position(p));
    if (!a)
        return FLX_E_OOM;
    const char *start = p->c.at;
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    FLXI_TRY(flxi_hlop_skip_balanced(p, '>'));
    a->length = sizeof name - 1 + (size_t)(p->c.at - start);
    char *text = flxi_new(p->arena, char, a->length + 1);
    if (!text)
        return flxi_hlop_oom(p);
    memcpy(text, name, sizeof name - 1);
    memcpy(text + sizeof name - 1, start, (size_t)(p->c.at - start));
    a->text = text;
    *out = a;
    return FLX_OK;
}

static flx_code kind_struct(hlo_parser *p, const hlo_attr **out)
{
    return flxi_hlop_struct(p, "dot_algorithm", out);
}

static const struct {
    const char *name;
    flx_code (*parse)(hlo_parser *p, const hlo_attr **out);
} kinds[] = {
    {"i64", kind_i64},
    {"i32", kind_i32},
    {"bool", kind_bool},
    {"string", kind_string},
    {"word", flxi_hlop_word_attr},
    {"words", kind_words},
    {"ints", flxi_hlop_int_list},
    {"symbol", kind_symbol},
    {"target", kind_target},
    {"conv", flxi_hlop_conv_dims},
    {"struct", kind_struct},
    {"sharding", kind_sharding},
    {"attr", flxi_hlop_attr},
};

/* $name:kind */
static flx_code parse_attr_item(hlo_parser *p, hlo_span item)
{
    const char *colon = memchr(item.at, ':', item.length);
    hlo_span name = {item.at + 1, (size_t)(colon - item.at - 1)};
    hlo_span kind = {colon + 1, item.length - name.length - 2};
    const char *kept = flxi_hlop_keep(p, name);
    if (!kept)
        return FLX_E_OOM;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!flxi_hlop_is(kind, kinds[i].name))
            continue;
        hlo_entry e = {.name = kept};
        FLXI_TRY(kinds[i].parse(p, &e.value));
        return flxi_hlop_add_attr(p, e.name, e.value);
    }
    return flxi_hlop_fail_at(p, flxi_hlop_position(p), FLX_E_INTERNAL, NULL, "unknown item in a format");
}

/* ---- Formats ---- */

static hlo_span next_item(const char **format)
{
    const char *s = *format + strspn(*format, " ");
    size_t n = strcspn(s, " ");
    *format = s + n;
    return (hlo_span){s, n};
}

static bool is_word_item(hlo_span item)
{
    return (item.at[0] | 32) >= 'a' && (item.at[0] | 32) <= 'z';
}

/* A word or mark that appears in the text as it is. */
static bool is_literal(hlo_span item)
{
    return item.length && !strchr("%$&:", item.at[0]) && !flxi_hlop_is(item, "{}") && !flxi_hlop_is(item, "?(") &&
           !flxi_hlop_is(item, ")?");
}

static bool eat_literal(hlo_parser *p, hlo_span item)
{
    char text[32] = {0};
    memcpy(text, item.at, item.length < sizeof text ? item.length : sizeof text - 1);
    return is_word_item(item) ? flxi_hlop_eat_word(p, text) : flxi_hlop_eat(p, text);
}

static flx_code expect_literal(hlo_parser *p, hlo_span item)
{
    char text[32] = {0};
    memcpy(text, item.at, item.length < sizeof text ? item.length : sizeof text - 1);
    return is_word_item(item) ? flxi_hlop_expect_word(p, text) : flxi_hlop_expect(p, text);
}

/* Whether the text continues with the literals at the beginning of a group. */
static bool group_follows(hlo_parser *p, const char *format)
{
    hlo_cursor start = p->c;
    bool follows = true;
    for (hlo_span item = next_item(&format); follows && is_literal(item); item = next_item(&format))
        follows = eat_literal(p, item);
    p->c = start;
    return follows;
}

static flx_code parse_operand_item(hlo_parser *p, hlo_span item)
{
    if (flxi_hlop_is(item, "%"))
        return flxi_hlop_use(p);
    if (flxi_hlop_is(item, "%*"))
        return flxi_hlop_uses(p);
    while (flxi_hlop_peek(p) == '%') {
        FLXI_TRY(flxi_hlop_use(p));
        FLXI_TRY(flxi_hlop_expect(p, ","));
    }
    return FLX_OK;
}

static flx_code parse_part(hlo_parser *p, hlo_draft *d, hlo_span item)
{
    const hlo_part *part = item.at[0] == ':' ? flxi_hlop_endings : flxi_hlop_parts;
    for (; part->name; part++)
        if (flxi_hlop_is((hlo_span){item.at + 1, item.length - 1}, part->name))
            return part->parse(p, d);
    return flxi_hlop_fail_at(p, flxi_hlop_position(p), FLX_E_INTERNAL, NULL, "unknown item in a format");
}

static flx_code parse_format(hlo_parser *p, hlo_draft *d, const char *format)
{
    for (hlo_span item = next_item(&format); item.length; item = next_item(&format)) {
        if (flxi_hlop_is(item, "?(")) {
            if (!group_follows(p, format))
                format = strstr(format, ")?") + 2;
        } else if (flxi_hlop_is(item, "{}")) {
            FLXI_TRY(flxi_hlop_optional_dict(p, d));
        } else if (item.at[0] == '%') {
            FLXI_TRY(parse_operand_item(p, item));
        } else if (item.at[0] == '$') {
            FLXI_TRY(parse_attr_item(p, item));
        } else if (item.at[0] == '&' || item.at[0] == ':') {
            FLXI_TRY(parse_part(p, d, item));
        } else if (!flxi_hlop_is(item, ")?")) {
            FLXI_TRY(expect_literal(p, item));
        }
    }
    return FLX_OK;
}

flx_code flxi_hlop_pretty(hlo_parser *p, hlo_draft *d)
{
    const hlo_operation *row = flxi_hlo_operation(d->name);
    if (row && row->form)
        return parse_format(p, d, row->form);
    return flxi_hlop_fail_at(p, d->at, FLX_E_UNSUPPORTED,
                             "any operation can be written in the generic form: \"dialect.op\"(%a) : (type) -> type",
                             "%.80s has no known short form", d->name);
}
