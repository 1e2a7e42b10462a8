/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_attrs.c: attributes of VHLO and of MLIR's builtin dialect as attributes of the tree. Those of sdy are in
   vhlo_sharding.c; those of other dialects are notes that nothing here depends on. */
#include "stablehlo/bytecode/vhlo_reader.h"
#include "stablehlo/syntax/hlo_number.h"

/* ---- Making ---- */

static hlo_attr *new_attr(vhlo_reader *r, hlo_attr_kind kind, const vhlo_encoded *e)
{
    return flxi_hlop_new_attr(&r->p, kind, flxi_vhlo_position(r, e->at));
}

flx_code flxi_vhlo_read_attr(vhlo_reader *r, vhlo_bytes *b, const hlo_attr **out)
{
    const unsigned char *at = b->at;
    uint64_t number = flxi_vhlo_varint(b);
    return flxi_vhlo_attr(r, at, number, out);
}

/* What every decoder sees: the cursor after the code, and the attribute to fill in. */
typedef struct {
    vhlo_reader *r;
    vhlo_encoded *e;
    vhlo_bytes *b;
    hlo_attr *a;
    const char *words; /* decode_word: those of the enumeration */
    uint64_t code;
} attr_site;

static flx_code set_text(attr_site *s, hlo_attr_kind kind, hlo_span text)
{
    s->a->kind = kind;
    s->a->text = text.at;
    s->a->length = text.length;
    return FLX_OK;
}

/* ---- Lists ---- */

static flx_code decode_array(attr_site *s)
{
    size_t n = flxi_vhlo_count(s->b);
    const hlo_attr **items = flxi_new(s->r->p.arena, const hlo_attr *, n);
    if (!items)
        return flxi_hlop_oom(&s->r->p);
    for (size_t i = 0; i < n; i++)
        FLXI_TRY(flxi_vhlo_read_attr(s->r, s->b, &items[i]));
    s->a->kind = HLO_A_ARRAY;
    s->a->items = items;
    s->a->num_items = n;
    return FLX_OK;
}

static flx_code decode_dictionary(attr_site *s)
{
    const unsigned char *at = s->b->at;
    size_t n = flxi_vhlo_count(s->b);
    if (n > HLO_MOST_ENTRIES)
        return flxi_vhlo_fail(s->r, at, FLX_E_SIZE, NULL, "more than %d attributes in one list", HLO_MOST_ENTRIES);
    hlo_entry *entries = flxi_new(s->r->p.arena, hlo_entry, n);
    if (!entries)
        return flxi_hlop_oom(&s->r->p);
    for (size_t i = 0; i < n; i++) {
        const hlo_attr *name;
        at = s->b->at;
        FLXI_TRY(flxi_vhlo_read_attr(s->r, s->b, &name));
        FLXI_TRY(flxi_vhlo_read_attr(s->r, s->b, &entries[i].value));
        if (name->kind != HLO_A_STRING)
            return flxi_vhlo_fail(s->r, at, FLX_E_SYNTAX, NULL, "the name of an attribute is not a string");
        entries[i].name = name->text;
        for (size_t k = 0; k < i; k++)
            if (strcmp(entries[k].name, name->text) == 0)
                return flxi_vhlo_fail(s->r, at, FLX_E_ATTRIBUTE, NULL, "the attribute %.60s is given twice",
                                      name->text);
    }
    s->a->kind = HLO_A_DICT;
    s->a->entries = entries;
    s->a->num_entries = n;
    return FLX_OK;
}

/* The integers above `base` of the stack as a list. */
static flx_code take_ints(vhlo_reader *r, hlo_element element, size_t base, hlo_attr *a)
{
    a->kind = HLO_A_LIST;
    a->ints = HLO_TAKE(&r->p, int64_t, ints, base, &a->num_numbers);
    a->type = flxi_hlop_scalar_of(&r->p, element);
    return a->ints && a->type ? FLX_OK : FLX_E_OOM;
}

static flx_code read_int_list(attr_site *s, hlo_attr *a)
{
    size_t base = s->r->p.ints.n;
    FLXI_TRY(flxi_vhlo_read_ints(s->r, s->b));
    return take_ints(s->r, HLO_I64, base, a);
}

/* ---- Numbers ---- */

/* Up to 8 bits are a byte; other numbers are written as if they were signed. */
static uint64_t read_bits(vhlo_bytes *b, int width)
{
    if (width <= 8)
        return flxi_vhlo_byte(b);
    uint64_t v = (uint64_t)flxi_vhlo_svarint(b);
    return width < 64 ? v & ((UINT64_C(1) << width) - 1) : v;
}

static int64_t sign_extended(uint64_t v, hlo_element e)
{
    int unused = 64 - flxi_hlo_element(e)->bits;
    return flxi_hlop_least(e) < 0 && e != HLO_I1 ? (int64_t)(v << unused) >> unused : (int64_t)(v << unused >> unused);
}

static flx_code decode_number(attr_site *s)
{
    const unsigned char *at = s->b->at;
    FLXI_TRY(flxi_vhlo_read_type(s->r, s->b, &s->a->type));
    const hlo_type *t = s->a->type;
    if (t->kind != HLO_SCALAR || flxi_hlop_is_complex(t->element) || t->quant)
        return flxi_vhlo_fail(s->r, at, FLX_E_SYNTAX, NULL, "a number has the type of an integer or a float");
    uint64_t v = read_bits(s->b, flxi_hlo_element(t->element)->bits);
    if (flxi_hlop_is_float(t->element)) {
        s->a->kind = HLO_A_REAL;
        s->a->real = flxi_hlop_decode(t->element, v);
    } else if (t->element == HLO_I1) {
        s->a->kind = HLO_A_BOOL;
        s->a->type = NULL;
        s->a->integer = v & 1;
    } else {
        s->a->kind = HLO_A_INT;
        s->a->integer = sign_extended(v, t->element);
    }
    return FLX_OK;
}

static flx_code decode_boolean(attr_site *s)
{
    s->a->kind = HLO_A_BOOL;
    s->a->integer = flxi_vhlo_varint(s->b) != 0;
    return FLX_OK;
}

/* A literal; its elements stay in the file where they need no conversion. */
static flx_code decode_tensor(attr_site *s)
{
    const hlo_type *type;
    FLXI_TRY(flxi_vhlo_read_type(s->r, s->b, &type));
    uint64_t size = flxi_vhlo_varint(s->b);
    vhlo_bytes data = flxi_vhlo_part(s->b, size);
    FLXI_TRY(flxi_vhlo_check(s->r, s->b, "a literal"));
    s->a->kind = HLO_A_DENSE;
    return flxi_hlop_literal(&s->r->p, flxi_vhlo_position(s->r, s->e->at), type, data.at, flxi_vhlo_left(&data), s->a);
}

/* array<…> of the builtin dialect: its elements as in a literal. */
static flx_code decode_builtin_array(attr_site *s)
{
    const unsigned char *at = s->b->at;
    const hlo_type *type;
    FLXI_TRY(flxi_vhlo_read_type(s->r, s->b, &type));
    uint64_t count = flxi_vhlo_varint(s->b);
    uint64_t size = flxi_vhlo_varint(s->b);
    vhlo_bytes data = flxi_vhlo_part(s->b, size);
    FLXI_TRY(flxi_vhlo_check(s->r, s->b, "an array"));
    if (type->kind != HLO_SCALAR || type->quant || flxi_hlop_is_float(type->element) ||
        flxi_hlop_is_complex(type->element))
        return set_text(s, HLO_A_OPAQUE, (hlo_span){"array", 5});
    size_t width = (size_t)(flxi_hlo_element(type->element)->bits + 7) / 8;
    if (count > size || count * width != size)
        return flxi_vhlo_fail(s->r, at, FLX_E_SYNTAX, NULL, "%llu bytes for an array of %llu numbers",
                              (unsigned long long)size, (unsigned long long)count);
    size_t base = s->r->p.ints.n;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t v = 0;
        for (size_t k = width; k-- > 0;)
            v = v << 8 | data.at[i * width + k];
        HLO_PUSH(&s->r->p, ints, sign_extended(v, type->element));
    }
    return take_ints(s->r, type->element, base, s->a);
}

/* ---- Strings, symbols, types ---- */

static flx_code decode_string(attr_site *s)
{
    hlo_span text;
    FLXI_TRY(flxi_vhlo_string(s->r, s->b, &text));
    return set_text(s, HLO_A_STRING, text);
}

/* @name; what is inside of other symbols is not used here. */
static flx_code decode_symbol(attr_site *s)
{
    const unsigned char *at = s->b->at;
    const hlo_attr *name;
    FLXI_TRY(flxi_vhlo_read_attr(s->r, s->b, &name));
    if (name->kind != HLO_A_STRING && name->kind != HLO_A_SYMBOL)
        return flxi_vhlo_fail(s->r, at, FLX_E_SYNTAX, NULL, "the name of a symbol is not a string");
    return set_text(s, HLO_A_SYMBOL, (hlo_span){name->text, name->length});
}

static flx_code decode_type(attr_site *s)
{
    s->a->kind = HLO_A_TYPE;
    return flxi_vhlo_read_type(s->r, s->b, &s->a->type);
}

static flx_code decode_unit(attr_site *s)
{
    s->a->kind = HLO_A_UNIT;
    return FLX_OK;
}

static flx_code decode_note(attr_site *s)
{
    return set_text(s, HLO_A_OPAQUE, (hlo_span){"", 0});
}

static flx_code decode_sharding(attr_site *s)
{
    return flxi_vhlo_sharding(s->r, s->code, s->b, s->a);
}

/* ---- Enumerators ---- */

static flx_code decode_word(attr_site *s)
{
    const unsigned char *at = s->b->at;
    uint64_t number = flxi_vhlo_varint(s->b);
    const char *word = s->words;
    for (uint64_t i = 0; i < number && word; i++) {
        word = strchr(word, ' ');
        word = word ? word + 1 : NULL;
    }
    if (!word)
        return flxi_vhlo_fail(s->r, at, FLX_E_UNSUPPORTED, NULL, "unknown enumerator %llu; known are %.100s",
                              (unsigned long long)number, s->words);
    size_t n = strcspn(word, " ");
    const char *kept = flxi_hlop_keep(&s->r->p, (hlo_span){word, n});
    return kept ? set_text(s, HLO_A_WORD, (hlo_span){kept, n}) : FLX_E_OOM;
}

/* 0 to 4, which text writes as a number too. */
static flx_code decode_api_version(attr_site *s)
{
    s->a->kind = HLO_A_INT;
    s->a->integer = (int64_t)flxi_vhlo_varint(s->b);
    s->a->type = flxi_hlop_scalar_of(&s->r->p, HLO_I32);
    return s->a->type ? FLX_OK : FLX_E_OOM;
}

/* ---- Structures ---- */

static flx_code set_struct(attr_site *s, const char *name, const hlo_entry *entries, size_t n)
{
    s->a->kind = HLO_A_DICT;
    s->a->entries = flxi_hlop_take(&s->r->p, entries, n, sizeof *entries);
    s->a->num_entries = n;
    s->a->struct_name = name;
    return s->a->entries ? FLX_OK : FLX_E_OOM;
}

static flx_code decode_alias(attr_site *s)
{
    static const char *const names[] = {"output_tuple_indices", "operand_index", "operand_tuple_indices"};
    hlo_entry entries[3];
    for (size_t i = 0; i < 3; i++) {
        hlo_attr *a = new_attr(s->r, HLO_A_INT, s->e);
        if (!a)
            return FLX_E_OOM;
        if (i == 1) {
            a->integer = flxi_vhlo_svarint(s->b);
            a->type = flxi_hlop_scalar_of(&s->r->p, HLO_I64);
        } else {
            FLXI_TRY(read_int_list(s, a));
        }
        if (!a->type)
            return FLX_E_OOM;
        entries[i] = (hlo_entry){names[i], a};
    }
    return set_struct(s, "output_operand_alias", entries, 3);
}

/* The bounds of dynamic extents. */
static flx_code decode_extensions(attr_site *s)
{
    size_t base = s->r->p.ints.n;
    FLXI_TRY(flxi_vhlo_read_ints(s->r, s->b));
    for (size_t i = base; i < s->r->p.ints.n; i++)
        if (s->r->p.ints.at[i] == INT64_MIN)
            s->r->p.ints.at[i] = HLO_DYNAMIC;
    return take_ints(s->r, HLO_I64, base, s->a);
}

static flx_code decode_accuracy(attr_site *s)
{
    static const char *const names[] = {"atol", "rtol", "ulps", "mode"};
    hlo_entry entries[4];
    for (size_t i = 0; i < 3; i++) {
        hlo_attr *a = new_attr(s->r, i < 2 ? HLO_A_REAL : HLO_A_INT, s->e);
        if (!a)
            return FLX_E_OOM;
        int64_t bits = flxi_vhlo_svarint(s->b);
        if (i < 2)
            memcpy(&a->real, &bits, sizeof bits);
        else
            a->integer = bits;
        a->type = flxi_hlop_scalar_of(&s->r->p, i < 2 ? HLO_F64 : HLO_I64);
        if (!a->type)
            return FLX_E_OOM;
        entries[i] = (hlo_entry){names[i], a};
    }
    entries[3].name = names[3];
    FLXI_TRY(flxi_vhlo_read_attr(s->r, s->b, &entries[3].value));
    return set_struct(s, "result_accuracy", entries, 4);
}

/* ---- By number ---- */

typedef struct {
    flx_code (*decode)(attr_site *s);
    const char *words; /* of an enumeration, separated by spaces, from number 0 on */
} decoder;

static const decoder vhlo_decoders[] = {
    [1] = {decode_array, NULL},
    [2] = {decode_boolean, NULL},
    [3] = {decode_word, "EQ NE GE GT LE LT"},
    [4] = {decode_word, "NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED"},
    [5] = {decode_api_version, NULL},
    [6] = {decode_dictionary, NULL},
    [7] = {decode_word, "FFT IFFT RFFT IRFFT"},
    [8] = {decode_number, NULL},
    [9] = {decode_number, NULL},
    [10] = {decode_alias, NULL},
    [11] = {decode_word, "DEFAULT HIGH HIGHEST"},
    [12] = {decode_word, "DEFAULT THREE_FRY PHILOX"},
    [13] = {decode_word, "NONE UNIFORM NORMAL"},
    [14] = {decode_string, NULL},
    [15] = {decode_tensor, NULL},
    [16] = {decode_word, "TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT"},
    [17] = {decode_type, NULL},
    [18] = {decode_extensions, NULL},
    [19] = {decode_word, "DEFAULT HIGHEST TOLERANCE"},
    [20] = {decode_accuracy, NULL},
    [21] = {decode_note, NULL},
    [22] = {decode_note, NULL},
    [23] = {decode_note, NULL},
    [24] = {decode_note, NULL},
    [25] = {decode_note, NULL},
};

static const decoder builtin_decoders[] = {
    [0] = {decode_array, NULL},   [1] = {decode_dictionary, NULL}, [2] = {decode_string, NULL},
    [3] = {decode_string, NULL},  [4] = {decode_symbol, NULL},     [5] = {decode_symbol, NULL},
    [6] = {decode_type, NULL},    [7] = {decode_unit, NULL},       [8] = {decode_number, NULL},
    [9] = {decode_number, NULL},  [10] = {decode_note, NULL},      [11] = {decode_note, NULL},
    [12] = {decode_note, NULL},   [13] = {decode_note, NULL},      [14] = {decode_note, NULL},
    [15] = {decode_note, NULL},   [16] = {decode_note, NULL},      [17] = {decode_builtin_array, NULL},
    [18] = {decode_tensor, NULL}, [19] = {decode_note, NULL},      [20] = {decode_note, NULL},
    [21] = {decode_note, NULL},   [22] = {decode_note, NULL},
};

static decoder find_decoder(vhlo_dialect dialect, uint64_t code)
{
    const decoder none = {NULL, NULL};
    if (dialect == VHLO_VHLO)
        return code < sizeof vhlo_decoders / sizeof *vhlo_decoders ? vhlo_decoders[code] : none;
    if (dialect == VHLO_BUILTIN)
        return code < sizeof builtin_decoders / sizeof *builtin_decoders ? builtin_decoders[code] : none;
    return (decoder){dialect == VHLO_SDY ? decode_sharding : decode_note, NULL};
}

static flx_code decode(vhlo_reader *r, vhlo_encoded *e)
{
    vhlo_bytes b = {e->at, e->at + e->size, false};
    if (e->is_text) {
        flxi_hlop_set_text(&r->p, (const char *)e->at, e->size && e->at[e->size - 1] == 0 ? e->size - 1 : e->size);
        return flxi_hlop_attr(&r->p, &e->attr);
    }
    uint64_t code = flxi_vhlo_varint(&b);
    decoder d = find_decoder(e->dialect, code);
    if (!d.decode)
        return flxi_vhlo_fail(r, e->at, FLX_E_UNSUPPORTED, NULL, "unknown attribute %llu", (unsigned long long)code);
    attr_site s = {r, e, &b, new_attr(r, HLO_A_UNIT, e), d.words, code};
    if (!s.a)
        return FLX_E_OOM;
    FLXI_TRY(d.decode(&s));
    e->attr = s.a;
    return flxi_vhlo_check(r, &b, "an attribute");
}

static flx_code check_number(vhlo_reader *r, const unsigned char *at, uint64_t number)
{
    if (number < r->num_attrs)
        return FLX_OK;
    return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "there is no attribute %llu", (unsigned long long)number);
}

flx_code flxi_vhlo_attr(vhlo_reader *r, const unsigned char *at, uint64_t number, const hlo_attr **out)
{
    FLXI_TRY(check_number(r, at, number));
    vhlo_encoded *e = &r->attrs[number];
    if (!e->attr) {
        FLXI_TRY(flxi_vhlo_enter(r, at));
        FLXI_TRY(decode(r, e));
        flxi_hlop_leave(&r->p);
    }
    *out = e->attr;
    return FLX_OK;
}

/* ---- Locations ---- */

enum { LOC_CALL_SITE = 10, LOC_FILE, LOC_FUSED, LOC_FUSED_WITH, LOC_NAME, LOC_UNKNOWN, LOC_RANGE = 22 };

static const hlo_source no_source = {0};

/* A location by number, from the cursor; a name that is known already stays. */
static flx_code next_source(vhlo_reader *r, vhlo_bytes *b, hlo_source *out)
{
    const unsigned char *at = b->at;
    const char *name = out->name;
    uint64_t number = flxi_vhlo_varint(b);
    const hlo_source *found;
    FLXI_TRY(flxi_vhlo_source(r, at, number, &found));
    if (found)
        *out = *found;
    out->name = name ? name : out->name;
    return FLX_OK;
}

/* The first of several that names a file. */
static flx_code first_source(vhlo_reader *r, vhlo_bytes *b, hlo_source *out)
{
    size_t n = flxi_vhlo_count(b);
    for (size_t i = 0; i < n && !out->file; i++)
        FLXI_TRY(next_source(r, b, out));
    return FLX_OK;
}

static flx_code read_file_line(vhlo_reader *r, vhlo_bytes *b, bool is_range, hlo_source *out)
{
    const hlo_attr *file;
    FLXI_TRY(flxi_vhlo_read_attr(r, b, &file));
    size_t n = is_range ? flxi_vhlo_count(b) : 2; /* of a range as many numbers as are known */
    if (file->kind == HLO_A_STRING)
        out->file = file->text;
    out->line = n > 0 ? (uint32_t)flxi_vhlo_varint(b) : 0;
    out->column = n > 1 ? (uint32_t)flxi_vhlo_varint(b) : 0;
    return FLX_OK;
}

/* "jit(f)/add" around the place that it was called from; the innermost name is not needed. */
static flx_code read_named(vhlo_reader *r, vhlo_bytes *b, hlo_source *out)
{
    const hlo_attr *name;
    FLXI_TRY(flxi_vhlo_read_attr(r, b, &name));
    if (name->kind == HLO_A_STRING && !out->name)
        out->name = name->text;
    return next_source(r, b, out);
}

static flx_code read_source(vhlo_reader *r, const vhlo_encoded *e, hlo_source *out)
{
    vhlo_bytes b = {e->at, e->at + e->size, false};
    switch (flxi_vhlo_varint(&b)) {
    case LOC_CALL_SITE: FLXI_TRY(next_source(r, &b, out)); break;
    case LOC_FILE: FLXI_TRY(read_file_line(r, &b, false, out)); break;
    case LOC_RANGE: FLXI_TRY(read_file_line(r, &b, true, out)); break;
    case LOC_FUSED:
    case LOC_FUSED_WITH: FLXI_TRY(first_source(r, &b, out)); break;
    case LOC_NAME: FLXI_TRY(read_named(r, &b, out)); break;
    default: break;
    }
    return flxi_vhlo_check(r, &b, "a location");
}

flx_code flxi_vhlo_source(vhlo_reader *r, const unsigned char *at, uint64_t number, const hlo_source **out)
{
    FLXI_TRY(check_number(r, at, number));
    vhlo_encoded *e = &r->attrs[number];
    if (!e->source) {
        hlo_source found = {0};
        FLXI_TRY(flxi_vhlo_enter(r, at));
        if (!e->is_text && e->dialect == VHLO_BUILTIN)
            FLXI_TRY(read_source(r, e, &found));
        flxi_hlop_leave(&r->p);
        e->source = found.file || found.name ? flxi_hlop_take(&r->p, &found, 1, sizeof found) : &no_source;
        if (!e->source)
            return FLX_E_OOM;
    }
    *out = e->source == &no_source ? NULL : e->source;
    return FLX_OK;
}
