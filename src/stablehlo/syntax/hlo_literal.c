/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_literal.c: dense<…> : tensor<…> and dense_resource<…>. The type comes after the data, so the data is skipped once
   to find it and then read into elements of that type. A literal of one number stays one number, whatever the size of
   its tensor; otherwise there is text for every element, so that a short text cannot ask for much memory. */
#include "stablehlo/syntax/hlo_number.h"

typedef struct {
    const hlo_type *type;
    hlo_element element;
    size_t count;       /* of elements */
    size_t size;        /* of one in memory */
    unsigned char *out; /* the next one */
} literal;

/* Bytes in the arena, aligned for any element; NULL with the error set. */
static unsigned char *aligned_room(hlo_parser *p, size_t num_bytes)
{
    unsigned char *room = flxi_arena_alloc(p->arena, num_bytes, 1, _Alignof(max_align_t));
    if (!room)
        flxi_hlop_oom(p);
    return room;
}

/* ---- Hexadecimal data ---- */

static const signed char hex_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* Two digits per byte; false when one is not a digit. */
static bool decode_hex(unsigned char *out, const char *s, size_t num_bytes)
{
    int worst = 1;
    for (size_t i = 0; i < num_bytes; i++) {
        int high = hex_values[(unsigned char)s[2 * i]];
        int low = hex_values[(unsigned char)s[2 * i + 1]];
        worst &= high != 0 && low != 0;
        out[i] = (unsigned char)((high - 1) * 16 + (low - 1));
    }
    return worst;
}

/* Bytes of one element in hexadecimal data. */
static size_t stored_size(hlo_element e)
{
    return (size_t)(flxi_hlo_element(e)->bits + 7) / 8;
}

static uint64_t get_bytes(const unsigned char *s, size_t n)
{
    uint64_t v = 0;
    for (size_t i = n; i-- > 0;)
        v = v << 8 | s[i];
    return v;
}

/* One number of the data, lowest byte first, as an element in memory. */
static void store_part(hlo_element e, unsigned char *out, const unsigned char *s)
{
    uint64_t v = get_bytes(s, stored_size(e));
    if (e == HLO_I1) {
        *out = v != 0;
    } else if (!flxi_hlop_is_float(e)) {
        int unused = 64 - flxi_hlo_element(e)->bits;
        bool is_signed = flxi_hlop_least(e) < 0;
        flxi_hlop_store_int(e, out, is_signed ? (int64_t)(v << unused) >> unused : (int64_t)(v << unused >> unused));
    } else if (stored_size(e) == flx_dtype_size(flxi_hlo_element(e)->carrier)) {
        flxi_hlop_store_int(e, out, (int64_t)v); /* the bits themselves, NaNs with their payloads */
    } else {
        flxi_hlop_store_real(e, out, flxi_hlop_decode(e, v));
    }
}

static bool is_little_endian(void)
{
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* Whether the data is the elements, as they are in memory. */
static bool is_as_in_memory(hlo_element e)
{
    hlo_element part = flxi_hlop_part(e);
    size_t size = stored_size(part);
    return size == flx_dtype_size(flxi_hlo_element(part)->carrier) && flxi_hlo_element(part)->bits == (int)(8 * size) &&
           is_little_endian();
}

/* `count` elements of the data. */
static void store_elements(const literal *l, const unsigned char *s, size_t count)
{
    hlo_element part = flxi_hlop_part(l->element);
    size_t parts = flxi_hlop_is_complex(l->element) ? 2 * count : count;
    size_t from = stored_size(part);
    size_t to = flx_dtype_size(flxi_hlo_element(part)->carrier);
    for (size_t i = 0; i < parts; i++)
        store_part(part, l->out + i * to, s + i * from);
}

/* What is stored of a literal: all elements or one for all, i1 in a bit or a byte each. */
typedef enum { no_layout, every_element, one_element, packed_bits, one_bit } layout;

static layout layout_of(const literal *l, const unsigned char *s, size_t num_bytes)
{
    size_t size = stored_size(l->element);
    if (l->element == HLO_I1 && num_bytes == (l->count + 7) / 8 && l->count)
        return packed_bits;
    if (l->element == HLO_I1 && num_bytes == 1)
        return s[0] == 0 || s[0] == 0xff || s[0] == 1 ? one_bit : no_layout;
    if (l->count <= SIZE_MAX / size && num_bytes == l->count * size)
        return every_element;
    return num_bytes == size ? one_element : no_layout;
}

static flx_code wrong_size(hlo_parser *p, hlo_location at, const literal *l, size_t num_bytes)
{
    return flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL, "there are %zu bytes of data for %zu elements of type %s",
                             num_bytes, l->count, flxi_hlo_element(l->element)->text);
}

/* The elements of the attribute; the bytes themselves where they are equal. */
static flx_code set_bytes(hlo_parser *p, hlo_location at, literal *l, const unsigned char *s, size_t num_bytes,
                          hlo_attr *a)
{
    layout how = layout_of(l, s, num_bytes);
    if (how == no_layout)
        return wrong_size(p, at, l, num_bytes);
    a->is_splat = how == one_element || how == one_bit;
    size_t count = a->is_splat ? 1 : l->count;
    a->num_bytes = count * l->size;
    a->bytes = s;
    if (how != packed_bits && how != one_bit && is_as_in_memory(l->element))
        return FLX_OK;
    l->out = aligned_room(p, a->num_bytes);
    if (!l->out)
        return FLX_E_OOM;
    a->bytes = l->out;
    if (how == one_bit)
        l->out[0] = s[0] != 0;
    else if (how == packed_bits)
        for (size_t i = 0; i < count; i++)
            l->out[i] = s[i / 8] >> (i % 8) & 1;
    else
        store_elements(l, s, count);
    return FLX_OK;
}

/* "0x…" after dense<, or the data of a resource without its first `skip` bytes. */
static flx_code parse_hex(hlo_parser *p, literal *l, size_t skip, hlo_attr *a)
{
    hlo_location at = flxi_hlop_position(p);
    hlo_span text;
    FLXI_TRY(flxi_hlop_raw_string(p, &text));
    if (text.length < 2 || text.at[0] != '0' || text.at[1] != 'x' || text.length % 2)
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL,
                                 "expected data as \"0x\" and an even number of hexadecimal digits");
    size_t num_bytes = text.length / 2 - 1;
    if (num_bytes < skip)
        return wrong_size(p, at, l, num_bytes);
    num_bytes -= skip;
    unsigned char *s = aligned_room(p, num_bytes);
    if (!s)
        return FLX_E_OOM;
    if (!decode_hex(s, text.at + 2 + 2 * skip, num_bytes))
        return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL,
                                 "the data holds a character that is not a hexadecimal digit");
    return set_bytes(p, at, l, s, num_bytes, a);
}

/* ---- Numbers ---- */

static flx_code parse_part(hlo_parser *p, hlo_element e, unsigned char *out)
{
    hlo_numeral n;
    bool is_true = flxi_hlop_at_word(p, "true");
    if (is_true || flxi_hlop_at_word(p, "false")) {
        if (e != HLO_I1)
            return flxi_hlop_fail_at(p, flxi_hlop_position(p), FLX_E_SYNTAX, NULL,
                                     "true and false are elements of type i1, not %s", flxi_hlo_element(e)->text);
        flxi_hlop_word(p);
        *out = is_true;
        return FLX_OK;
    }
    FLXI_TRY(flxi_hlop_numeral(p, &n));
    if (flxi_hlop_is_float(e)) {
        double x;
        FLXI_TRY(flxi_hlop_to_real(p, &n, e, &x));
        flxi_hlop_store_real(e, out, x);
        return FLX_OK;
    }
    int64_t v;
    FLXI_TRY(flxi_hlop_to_int(p, &n, e, &v));
    flxi_hlop_store_int(e, out, v);
    return FLX_OK;
}

static flx_code parse_element(hlo_parser *p, literal *l)
{
    hlo_element part = flxi_hlop_part(l->element);
    if (part == l->element) {
        FLXI_TRY(parse_part(p, part, l->out));
    } else {
        FLXI_TRY(flxi_hlop_expect(p, "("));
        FLXI_TRY(parse_part(p, part, l->out));
        FLXI_TRY(flxi_hlop_expect(p, ","));
        FLXI_TRY(parse_part(p, part, l->out + l->size / 2));
        FLXI_TRY(flxi_hlop_expect(p, ")"));
    }
    l->out += l->size;
    return FLX_OK;
}

/* The lists of axis `axis` and those within them; as many items as the axis is long. */
static flx_code parse_list(hlo_parser *p, literal *l, int axis)
{
    if (axis == l->type->rank)
        return parse_element(p, l);
    hlo_location at = flxi_hlop_position(p);
    FLXI_TRY(flxi_hlop_expect(p, "["));
    int64_t extent = l->type->dims[axis];
    for (int64_t i = 0; i < extent; i++) {
        if ((i && !flxi_hlop_eat(p, ",")) || flxi_hlop_peek(p) == ']')
            return flxi_hlop_peek(p) != ']'
                       ? flxi_hlop_expect(p, ",")
                       : flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL,
                                           "axis %d of the literal has %lld items, its type says %lld", axis,
                                           (long long)i, (long long)extent);
        FLXI_TRY(parse_list(p, l, axis + 1));
    }
    if (flxi_hlop_eat(p, "]"))
        return FLX_OK;
    return flxi_hlop_fail_at(p, flxi_hlop_position(p), FLX_E_SHAPE, NULL,
                             "axis %d of the literal has more items than the %lld of its type", axis,
                             (long long)extent);
}

/* ---- The literal ---- */

/* Skips the data to the '>' after it. Most of it is numbers, which need no closer look. */
static flx_code skip_data(hlo_parser *p)
{
    hlo_location at = flxi_hlop_position(p);
    for (;;) {
        const char *s = p->c.at;
        while (s < p->end && *s != '>' && *s != '"' && *s != '/' && *s != '\n')
            s++;
        p->c.at = s;
        char c = flxi_hlop_peek(p); /* passes over lines and comments */
        hlo_span ignored;
        if (c == '>')
            return FLX_OK;
        if (p->c.at == p->end)
            return flxi_hlop_fail_at(p, at, FLX_E_SYNTAX, NULL, "the literal does not end");
        if (c == '"')
            FLXI_TRY(flxi_hlop_raw_string(p, &ignored));
        else if (p->c.at == s)
            p->c.at++;
    }
}

static flx_code set_type(hlo_parser *p, hlo_location at, const hlo_type *t, literal *l)
{
    bool is_static = t->kind == HLO_TENSOR && !t->is_unranked;
    l->type = t;
    l->count = 1;
    for (int i = 0; is_static && i < t->rank; i++) {
        is_static = t->dims[i] != HLO_DYNAMIC;
        l->count *= is_static ? (size_t)t->dims[i] : 1; /* at most INT64_MAX, or 0: the type was checked */
    }
    if (!is_static)
        return flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL, "a literal has the type of a tensor of known shape");
    l->element = t->element;
    l->size = flx_dtype_size(flxi_hlo_element(t->element)->carrier);
    return FLX_OK;
}

/* > : type */
static flx_code parse_literal_type(hlo_parser *p, literal *l)
{
    FLXI_TRY(flxi_hlop_expect(p, ">"));
    FLXI_TRY(flxi_hlop_expect(p, ":"));
    hlo_location at = flxi_hlop_position(p);
    const hlo_type *t;
    FLXI_TRY(flxi_hlop_type(p, &t));
    return set_type(p, at, t, l);
}

flx_code flxi_hlop_literal(hlo_parser *p, hlo_location at, const hlo_type *type, const unsigned char *bytes,
                           size_t num_bytes, hlo_attr *a)
{
    literal l = {0};
    FLXI_TRY(set_type(p, at, type, &l));
    a->type = type;
    FLXI_TRY(set_bytes(p, at, &l, bytes, num_bytes, a));
    bool is_bit = l.element == HLO_I1 && num_bytes == 1 && (bytes[0] == 0 || bytes[0] == 0xff);
    if (l.count == 1 || (l.count && is_bit)) {
        a->is_splat = true;
        a->num_bytes = l.size;
    }
    return FLX_OK;
}

/* Room for the elements of a list written in `length` characters: each takes one and a comma. */
static flx_code make_room(hlo_parser *p, hlo_location at, literal *l, size_t length, hlo_attr *a)
{
    size_t count = a->is_splat ? 1 : l->count;
    if (!a->is_splat && count > length / 2 + 1)
        return flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL, "the literal has fewer than the %zu elements of its type",
                                 count);
    a->num_bytes = count * l->size;
    l->out = aligned_room(p, a->num_bytes);
    a->bytes = l->out;
    return l->out ? FLX_OK : FLX_E_OOM;
}

static flx_code parse_data(hlo_parser *p, literal *l, size_t length, hlo_attr *a)
{
    hlo_location at = flxi_hlop_position(p);
    char c = flxi_hlop_peek(p);
    if (c == '"')
        return parse_hex(p, l, 0, a);
    a->is_splat = c != '[' && c != '>';
    if (c == '>' && l->count)
        return flxi_hlop_fail_at(p, at, FLX_E_SHAPE, NULL, "the literal has no elements, its type %zu", l->count);
    FLXI_TRY(make_room(p, at, l, length, a));
    if (a->is_splat)
        return parse_element(p, l);
    hlo_cursor start = p->c;
    if (c == '>' || (l->count == 0 && flxi_hlop_eat(p, "[") && flxi_hlop_eat(p, "]")))
        return FLX_OK;
    p->c = start;
    return parse_list(p, l, 0);
}

flx_code flxi_hlop_dense(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    literal l = {0};
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_DENSE, at);
    if (!a)
        return FLX_E_OOM;
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    hlo_cursor data = p->c;
    FLXI_TRY(skip_data(p));
    size_t length = (size_t)(p->c.at - data.at);
    FLXI_TRY(parse_literal_type(p, &l));
    hlo_cursor behind = p->c;
    p->c = data;
    FLXI_TRY(parse_data(p, &l, length, a));
    if (flxi_hlop_peek(p) != '>')
        return flxi_hlop_expected(p, "'>' after the elements");
    p->c = behind;
    a->type = l.type;
    *out = a;
    return FLX_OK;
}

/* ---- Resources ---- */

/* A name in the block, bare or in quotes. */
static flx_code parse_key(hlo_parser *p, hlo_span *out)
{
    if (flxi_hlop_peek(p) == '"')
        return flxi_hlop_raw_string(p, out);
    *out = flxi_hlop_suffix(p);
    return out->length ? FLX_OK : flxi_hlop_expected(p, "the name of a resource");
}

/* Skips a value of the block: a string, a number or a dictionary. */
static flx_code skip_value(hlo_parser *p)
{
    hlo_span ignored;
    if (flxi_hlop_eat(p, "{"))
        return flxi_hlop_skip_balanced(p, '}');
    if (flxi_hlop_peek(p) == '"')
        return flxi_hlop_raw_string(p, &ignored);
    if (flxi_hlop_at_number(p)) {
        hlo_numeral n;
        return flxi_hlop_numeral(p, &n);
    }
    return flxi_hlop_word(p).length ? FLX_OK : flxi_hlop_expected(p, "a value");
}

/* key: value, … of a dictionary: goes to the value of `wanted`, or (NULL) records where the value of each key is. */
static flx_code read_keys(hlo_parser *p, const char *wanted, bool *found)
{
    while (flxi_hlop_peek(p) != '}' && flxi_hlop_peek(p) != '#') {
        hlo_span key;
        FLXI_TRY(parse_key(p, &key));
        FLXI_TRY(flxi_hlop_expect(p, ":"));
        *found = wanted && flxi_hlop_is(key, wanted);
        if (*found)
            return FLX_OK;
        hlo_alias a = {.kind = HLO_ALIAS_RESOURCE, .text = key.at, .length = key.length, .data = p->c};
        if (!wanted)
            FLXI_TRY(flxi_hlop_add_alias(p, a));
        FLXI_TRY(skip_value(p));
        if (!flxi_hlop_eat(p, ","))
            break;
    }
    return FLX_OK;
}

/* Moves past the last {-#: the resources follow the program that uses them. False when there are none. */
static bool go_to_resources(hlo_parser *p)
{
    const char *found = NULL;
    const char *s = p->text;
    while ((s = memmem(s, (size_t)(p->end - s), "{-#", 3))) {
        found = s;
        s += 3;
    }
    if (!found)
        return false;
    p->c = (hlo_cursor){.at = found + 3, .line_start = p->text, .line = 1};
    for (const char *line = p->text; (line = memchr(line, '\n', (size_t)(found - line)));) {
        p->c.line_start = ++line;
        p->c.line++;
    }
    return true;
}

/* {-# dialect_resources: { builtin: { key: "0x…", … } } #-}, read when the first of them is needed. */
static flx_code read_resources(hlo_parser *p)
{
    static const char *const path[] = {"dialect_resources", "builtin", NULL};
    if (p->has_resources)
        return FLX_OK;
    hlo_cursor here = p->c;
    p->has_resources = true;
    bool found = go_to_resources(p);
    for (size_t i = 0; found && i < 3; i++) {
        found = false;
        if (i)
            FLXI_TRY(flxi_hlop_expect(p, "{"));
        FLXI_TRY(read_keys(p, path[i], &found));
    }
    p->c = here;
    return FLX_OK;
}

enum { resource_header = 4 }; /* bytes before the data: how it is aligned */

/* The data of a resource, read at its first use and shared by later ones. */
static flx_code parse_resource(hlo_parser *p, hlo_location at, literal *l, hlo_alias *resource, hlo_attr *a)
{
    const hlo_attr *known = resource->attr;
    if (known && !flxi_hlop_same_type(known->type, l->type))
        return flxi_hlop_fail_at(p, at, FLX_E_UNSUPPORTED, NULL, "the resource '%.*s' is used with two types",
                                 (int)(resource->length > 60 ? 60 : resource->length), resource->text);
    a->type = l->type;
    resource->attr = a;
    if (known) {
        a->bytes = known->bytes;
        a->num_bytes = known->num_bytes;
        a->is_splat = known->is_splat;
        return FLX_OK;
    }
    hlo_cursor behind = p->c;
    p->c = resource->data;
    hlo_location data_at = flxi_hlop_position(p);
    FLXI_TRY(parse_hex(p, l, resource_header, a));
    if (a->is_splat)
        return wrong_size(p, data_at, l, a->num_bytes);
    p->c = behind;
    return FLX_OK;
}

flx_code flxi_hlop_dense_resource(hlo_parser *p, hlo_location at, const hlo_attr **out)
{
    literal l = {0};
    hlo_span key;
    hlo_attr *a = flxi_hlop_new_attr(p, HLO_A_DENSE, at);
    if (!a)
        return FLX_E_OOM;
    FLXI_TRY(flxi_hlop_expect(p, "<"));
    FLXI_TRY(parse_key(p, &key));
    FLXI_TRY(parse_literal_type(p, &l));
    FLXI_TRY(read_resources(p));
    hlo_alias *resource = flxi_hlop_find_alias(p, HLO_ALIAS_RESOURCE, key);
    if (!resource)
        return flxi_hlop_fail_at(p, at, FLX_E_NAME, "the data is in {-# dialect_resources: ... #-} after the program",
                                 "the text has no resource '%.*s'", (int)(key.length > 60 ? 60 : key.length), key.at);
    *out = a;
    return parse_resource(p, at, &l, resource, a);
}
