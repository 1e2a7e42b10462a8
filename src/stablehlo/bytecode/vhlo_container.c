/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_container.c: the container of MLIR bytecode: numbers, sections, strings, names of operations, and where each
   attribute and type is. The sections may come in any order and refer to each other, so they are all found first. */
#include "base/text/count_words.h"
#include "stablehlo/bytecode/bytecode.h"
#include "stablehlo/bytecode/vhlo_reader.h"

enum { BYTECODE_VERSION = 6 };
enum {
    SECTION_STRINGS,
    SECTION_DIALECTS,
    SECTION_ATTRIBUTES,
    SECTION_OFFSETS,
    SECTION_IR,
    SECTION_VERSIONS = 7,
    SECTION_PROPERTIES = 8
};

static const unsigned char magic[] = {0x4d, 0x4c, 0xef, 0x52};

bool flxi_hlo_is_bytecode(const char *bytes, size_t length)
{
    return length >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

/* ---- Cursor ---- */

uint64_t flxi_vhlo_long_varint(vhlo_bytes *b)
{
    size_t left = flxi_vhlo_left(b);
    unsigned first = left ? *b->at : 1;
    size_t further = first ? (size_t)__builtin_ctz(first) : 8;
    if (left <= further) {
        b->failed = true;
        b->at = b->end;
        return 0;
    }
    uint64_t v = 0;
    for (size_t i = further; i > 0; i--)
        v = v << 8 | b->at[i];
    if (further < 8)
        v = (v << 8 | first) >> (further + 1);
    b->at += further + 1;
    return v;
}

size_t flxi_vhlo_count(vhlo_bytes *b)
{
    uint64_t n = flxi_vhlo_varint(b);
    if (n <= flxi_vhlo_left(b))
        return (size_t)n;
    b->failed = true;
    return 0;
}

vhlo_bytes flxi_vhlo_part(vhlo_bytes *b, uint64_t n)
{
    if (n > flxi_vhlo_left(b)) {
        b->failed = true;
        return (vhlo_bytes){b->end, b->end, true};
    }
    vhlo_bytes part = {b->at, b->at + n, false};
    b->at += n;
    return part;
}

/* ---- Errors ---- */

hlo_location flxi_vhlo_position(const vhlo_reader *r, const unsigned char *at)
{
    return (hlo_location){.line = 0, .column = (uint32_t)(at - r->start)};
}

flx_code flxi_vhlo_fail(vhlo_reader *r, const unsigned char *at, flx_code code, const char *hint, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    return flxi_hlop_fail_at(&r->p, flxi_vhlo_position(r, at), code, hint, "%s", text);
}

flx_code flxi_vhlo_enter(vhlo_reader *r, const unsigned char *at)
{
    if (++r->p.depth <= HLO_MAX_DEPTH)
        return FLX_OK;
    return flxi_vhlo_fail(r, at, FLX_E_SIZE, NULL, "nested deeper than %d levels", HLO_MAX_DEPTH);
}

flx_code flxi_vhlo_charge(vhlo_reader *r, const unsigned char *at, size_t items)
{
    enum { per_byte = 16, at_least = 4096 };
    r->spent += items;
    if (r->spent / per_byte <= (size_t)(r->file_end - r->start) + at_least)
        return FLX_OK;
    return flxi_vhlo_fail(r, at, FLX_E_SIZE, NULL, "the file uses its parts too often for its size");
}

flx_code flxi_vhlo_check(vhlo_reader *r, const vhlo_bytes *b, const char *what)
{
    if (!b->failed)
        return FLX_OK;
    return flxi_vhlo_fail(r, b->at, FLX_E_SYNTAX, NULL, "the bytes of %s end too early", what);
}

/* ---- Sections ---- */

flx_code flxi_vhlo_section(vhlo_reader *r, vhlo_bytes *b, unsigned *id, vhlo_bytes *contents)
{
    unsigned first = flxi_vhlo_byte(b);
    uint64_t length = flxi_vhlo_varint(b);
    *id = first & 127;
    if (first & 128) {
        uint64_t alignment = flxi_vhlo_varint(b);
        uint64_t excess = alignment ? (uint64_t)(b->at - r->start) % alignment : 0;
        flxi_vhlo_part(b, excess ? alignment - excess : 0);
    }
    *contents = flxi_vhlo_part(b, length);
    return flxi_vhlo_check(r, b, "a section");
}

static flx_code find_sections(vhlo_reader *r, vhlo_bytes b)
{
    while (b.at < b.end) {
        const unsigned char *at = b.at;
        unsigned id;
        vhlo_bytes contents;
        FLXI_TRY(flxi_vhlo_section(r, &b, &id, &contents));
        if (id >= VHLO_NUM_SECTIONS || id == SECTION_VERSIONS || r->sections[id].at)
            return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "section %u is unknown or appears twice", id);
        r->sections[id] = contents;
    }
    static const unsigned needed[] = {SECTION_STRINGS, SECTION_DIALECTS, SECTION_ATTRIBUTES, SECTION_OFFSETS,
                                      SECTION_IR};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!r->sections[needed[i]].at)
            return flxi_vhlo_fail(r, b.end, FLX_E_SYNTAX, NULL, "section %u is missing", needed[i]);
    return FLX_OK;
}

/* Room for a table; fails with OOM from the function that uses it. */
#define NEW_TABLE(r, table, T, n)                             \
    do {                                                      \
        if (!((table) = flxi_new(&(r)->scratch, T, (n) + 1))) \
            return flxi_hlop_oom(&(r)->p);                    \
    } while (0)

/* ---- Strings ---- */

/* The sizes come first, those of the last string before the others. */
static flx_code read_strings(vhlo_reader *r)
{
    vhlo_bytes b = r->sections[SECTION_STRINGS];
    size_t n = flxi_vhlo_count(&b);
    NEW_TABLE(r, r->strings, const char *, n);
    NEW_TABLE(r, r->lengths, size_t, n);
    for (size_t i = n; i-- > 0;)
        r->lengths[i] = (size_t)flxi_vhlo_varint(&b);
    for (size_t i = 0; i < n; i++) {
        vhlo_bytes text = flxi_vhlo_part(&b, r->lengths[i]);
        FLXI_TRY(flxi_vhlo_check(r, &b, "the strings"));
        if (text.at == text.end || text.end[-1] != 0)
            return flxi_vhlo_fail(r, text.at, FLX_E_SYNTAX, NULL, "a string does not end with a 0");
        r->strings[i] = (const char *)text.at;
        r->lengths[i]--;
    }
    r->num_strings = n;
    return flxi_vhlo_check(r, &b, "the strings");
}

static flx_code string_at(vhlo_reader *r, const unsigned char *at, uint64_t number, hlo_span *out)
{
    if (number >= r->num_strings)
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "there is no string %llu", (unsigned long long)number);
    *out = (hlo_span){r->strings[number], r->lengths[number]};
    return FLX_OK;
}

flx_code flxi_vhlo_string(vhlo_reader *r, vhlo_bytes *b, hlo_span *out)
{
    const unsigned char *at = b->at;
    return string_at(r, at, flxi_vhlo_varint(b), out);
}

/* ---- Dialects and names of operations ---- */

static vhlo_dialect dialect_of(hlo_span name)
{
    static const struct {
        const char *name;
        vhlo_dialect dialect;
    } known[] = {{"builtin", VHLO_BUILTIN}, {"vhlo", VHLO_VHLO}, {"sdy", VHLO_SDY}, {"stablehlo", VHLO_STABLEHLO}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (flxi_hlop_is(name, known[i].name))
            return known[i].dialect;
    return VHLO_OTHER;
}

static flx_code read_dialect(vhlo_reader *r, vhlo_bytes *b, size_t i)
{
    const unsigned char *at = b->at;
    uint64_t flagged = flxi_vhlo_varint(b);
    hlo_span name;
    FLXI_TRY(string_at(r, at, flagged >> 1, &name));
    r->dialects[i] = dialect_of(name);
    r->dialect_names[i] = name.at;
    if (flagged & 1) {
        unsigned id;
        vhlo_bytes version;
        FLXI_TRY(flxi_vhlo_section(r, b, &id, &version));
    }
    return FLX_OK;
}

/* "add_v1" is stablehlo.add. */
static const char *stable_name(vhlo_reader *r, hlo_span name)
{
    static const char prefix[] = "stablehlo.";
    size_t n = name.length;
    while (n > 0 && name.at[n - 1] >= '0' && name.at[n - 1] <= '9')
        n--;
    n = n >= 2 && n < name.length && name.at[n - 1] == 'v' && name.at[n - 2] == '_' ? n - 2 : name.length;
    char *text = flxi_new(r->p.arena, char, sizeof prefix + n);
    if (!text)
        return NULL;
    memcpy(text, prefix, sizeof prefix - 1);
    memcpy(text + sizeof prefix - 1, name.at, n);
    return text;
}

static const char *joined_name(vhlo_reader *r, const char *dialect, hlo_span name)
{
    size_t n = strlen(dialect);
    char *text = flxi_new(r->p.arena, char, n + name.length + 2);
    if (!text)
        return NULL;
    memcpy(text, dialect, n);
    text[n] = '.';
    memcpy(text + n + 1, name.at, name.length);
    return text;
}

static flx_code read_name(vhlo_reader *r, vhlo_bytes *b, size_t dialect, vhlo_name *out)
{
    static const struct {
        const char *name, *ours;
        vhlo_role role;
    } special[] = {
        {"builtin.module", NULL, VHLO_MODULE},
        {"builtin.unrealized_conversion_cast", NULL, VHLO_CAST},
        {"sdy.mesh", NULL, VHLO_MESH},
        {"stablehlo.func", "func.func", VHLO_FUNCTION},
        {"stablehlo.call", "func.call", VHLO_OPERATION},
        {"stablehlo.return", "stablehlo.return", VHLO_RETURN},
    };
    const unsigned char *at = b->at;
    hlo_span name;
    FLXI_TRY(string_at(r, at, flxi_vhlo_varint(b) >> 1, &name));
    *out = (vhlo_name){.dialect = r->dialects[dialect]};
    if (out->dialect == VHLO_STABLEHLO)
        return flxi_vhlo_fail(r, at, FLX_E_UNSUPPORTED,
                              "write a portable artifact: jax.export, or stablehlo-translate --serialize",
                              "bytecode of the dialect stablehlo changes with every release");
    if (out->dialect == VHLO_VHLO) {
        out->row = flxi_vhlo_row(name.at);
        out->name = stable_name(r, name);
    } else {
        out->name = joined_name(r, r->dialect_names[dialect], name);
    }
    if (!out->name)
        return flxi_hlop_oom(&r->p);
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strcmp(out->name, special[i].name) == 0) {
            out->role = special[i].role;
            out->name = special[i].ours ? special[i].ours : out->name;
            break;
        }
    return FLX_OK;
}

/* A dialect, and how many things of it follow. */
static flx_code read_group(vhlo_reader *r, vhlo_bytes *b, size_t most, size_t *dialect, size_t *n)
{
    const unsigned char *at = b->at;
    uint64_t number = flxi_vhlo_varint(b);
    *n = flxi_vhlo_count(b);
    FLXI_TRY(flxi_vhlo_check(r, b, "a list of names"));
    if (number >= r->num_dialects || *n > most)
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "a group of %zu names of dialect %llu is not one of this file",
                              *n, (unsigned long long)number);
    *dialect = (size_t)number;
    return FLX_OK;
}

static flx_code read_dialects(vhlo_reader *r)
{
    vhlo_bytes b = r->sections[SECTION_DIALECTS];
    size_t n = flxi_vhlo_count(&b);
    NEW_TABLE(r, r->dialects, vhlo_dialect, n);
    NEW_TABLE(r, r->dialect_names, const char *, n);
    for (size_t i = 0; i < n; i++)
        FLXI_TRY(read_dialect(r, &b, i));
    r->num_dialects = n;
    size_t total = flxi_vhlo_count(&b);
    NEW_TABLE(r, r->names, vhlo_name, total);
    while (b.at < b.end) {
        size_t dialect;
        FLXI_TRY(read_group(r, &b, total - r->num_names, &dialect, &n));
        for (size_t i = 0; i < n; i++)
            FLXI_TRY(read_name(r, &b, dialect, &r->names[r->num_names++]));
    }
    return flxi_vhlo_check(r, &b, "the names of operations");
}

/* ---- Where attributes and types are ---- */

static flx_code read_offsets(vhlo_reader *r)
{
    vhlo_bytes b = r->sections[SECTION_OFFSETS];
    vhlo_bytes data = r->sections[SECTION_ATTRIBUTES];
    r->num_attrs = flxi_vhlo_count(&b);
    r->num_types = flxi_vhlo_count(&b);
    FLXI_TRY(flxi_vhlo_check(r, &b, "the list of attributes"));
    size_t total = r->num_attrs + r->num_types;
    vhlo_encoded *all;
    NEW_TABLE(r, all, vhlo_encoded, total);
    r->attrs = all;
    r->types = all + r->num_attrs;
    size_t done = 0;
    while (done < total) {
        size_t dialect;
        size_t n;
        FLXI_TRY(read_group(r, &b, total - done, &dialect, &n));
        for (size_t i = 0; i < n; i++) {
            uint64_t flagged = flxi_vhlo_varint(&b);
            vhlo_bytes part = flxi_vhlo_part(&data, flagged >> 1);
            all[done++] = (vhlo_encoded){.at = part.at,
                                         .size = flxi_vhlo_left(&part),
                                         .dialect = r->dialects[dialect],
                                         .is_text = !(flagged & 1)};
        }
        if (n == 0)
            return flxi_vhlo_fail(r, b.at, FLX_E_SYNTAX, NULL, "a group of attributes is empty");
    }
    FLXI_TRY(flxi_vhlo_check(r, &b, "the list of attributes"));
    return flxi_vhlo_check(r, &data, "the attributes");
}

static flx_code read_property_offsets(vhlo_reader *r)
{
    vhlo_bytes b = r->sections[SECTION_PROPERTIES];
    if (!b.at)
        return FLX_OK;
    size_t n = flxi_vhlo_count(&b);
    NEW_TABLE(r, r->properties, vhlo_property, n);
    for (size_t i = 0; i < n; i++) {
        vhlo_bytes part = flxi_vhlo_part(&b, flxi_vhlo_varint(&b));
        r->properties[i] = (vhlo_property){.at = part.at, .size = flxi_vhlo_left(&part)};
    }
    r->num_properties = n;
    return flxi_vhlo_check(r, &b, "the properties");
}

/* ---- Entry ---- */

static flx_code read_header(vhlo_reader *r, vhlo_bytes *b)
{
    flxi_vhlo_part(b, sizeof magic);
    const unsigned char *at = b->at;
    uint64_t version = flxi_vhlo_varint(b);
    FLXI_TRY(flxi_vhlo_check(r, b, "the file"));
    if (version != BYTECODE_VERSION)
        return flxi_vhlo_fail(r, at, FLX_E_VERSION, "write it again with StableHLO 1.0 or later",
                              "MLIR bytecode of version %llu; version %d is read", (unsigned long long)version,
                              BYTECODE_VERSION);
    while (flxi_vhlo_byte(b)) /* the producer, which ends with a 0 */
        ;
    return flxi_vhlo_check(r, b, "the file");
}

static flx_code read_all(vhlo_reader *r, vhlo_bytes b, hlo_module *out)
{
    FLXI_TRY(read_header(r, &b));
    FLXI_TRY(find_sections(r, b));
    FLXI_TRY(read_strings(r));
    FLXI_TRY(read_dialects(r));
    FLXI_TRY(read_offsets(r));
    FLXI_TRY(read_property_offsets(r));
    r->sections[SECTION_IR].failed = false;
    return flxi_vhlo_module(r, out);
}

flx_code flxi_hlo_read_bytecode(const flxi_allocator *mem, const char *bytes, size_t length, const char *file,
                                hlo_module *out, flx_error *err)
{
    *out = (hlo_module){0};
    flxi_arena_init(&out->arena, mem);
    vhlo_reader r = {.start = (const unsigned char *)bytes, .file_end = (const unsigned char *)bytes + length};
    flxi_hlop_init(&r.p, mem, &out->arena, file, err);
    flxi_arena_init(&r.scratch, mem);
    vhlo_bytes all = {r.start, r.file_end, false};
    flx_code code = flxi_hlo_is_bytecode(bytes, length)
                        ? read_all(&r, all, out)
                        : flxi_vhlo_fail(&r, r.start, FLX_E_SYNTAX, NULL, "this is not MLIR bytecode");
    flxi_hlop_free(&r.p);
    flxi_vec_free(mem, &r.values);
    flxi_arena_free(&r.scratch);
    if (code != FLX_OK)
        flxi_hlo_module_free(out);
    return code;
}
