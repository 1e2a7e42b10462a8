/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_properties.c: the attributes of operations, from VHLO to StableHLO. VHLO has no defaults and no structures:
   every attribute is there, and members of structures are attributes of their own. What StableHLO writes in another
   way is converted here, so that the tree is that of the text. */
#include "stablehlo/bytecode/vhlo_reader.h"

#include <stdlib.h>

/* ---- Table ---- */

static const vhlo_row rows[] = {
#define VHLO_OP(name, attributes) {name, NULL, NULL, attributes},
#define VHLO_STRUCT(name, attribute, structure, attributes) {name, attribute, structure, attributes},
#include "stablehlo/bytecode/vhlo_operations.def"
};

static int compare_name(const void *name, const void *row)
{
    return strcmp(name, ((const vhlo_row *)row)->name);
}

const vhlo_row *flxi_vhlo_row(const char *name)
{
    return bsearch(name, rows, sizeof rows / sizeof *rows, sizeof *rows, compare_name);
}

/* ---- Conversions of single attributes ---- */

static flx_code to_symbol(vhlo_reader *r, const hlo_attr *a, const hlo_attr **out)
{
    if (a->kind != HLO_A_STRING)
        return FLX_OK;
    hlo_attr *symbol = flxi_hlop_new_attr(&r->p, HLO_A_SYMBOL, a->at);
    if (!symbol)
        return FLX_E_OOM;
    symbol->text = a->text;
    symbol->length = a->length;
    *out = symbol;
    return FLX_OK;
}

static flx_code convert_symbol(vhlo_reader *r, hlo_entry *e)
{
    return to_symbol(r, e->value, &e->value);
}

static flx_code convert_symbols(vhlo_reader *r, hlo_entry *e)
{
    const hlo_attr *list = e->value;
    if (list->kind != HLO_A_ARRAY)
        return FLX_OK;
    FLXI_TRY(flxi_vhlo_charge(r, r->start + list->at.column, list->num_items));
    hlo_attr *symbols = flxi_hlop_new_attr(&r->p, HLO_A_ARRAY, list->at);
    const hlo_attr **items = symbols ? flxi_new(r->p.arena, const hlo_attr *, list->num_items) : NULL;
    if (!items)
        return flxi_hlop_oom(&r->p);
    for (size_t i = 0; i < list->num_items; i++) {
        items[i] = list->items[i];
        FLXI_TRY(to_symbol(r, items[i], &items[i]));
    }
    symbols->items = items;
    symbols->num_items = list->num_items;
    e->value = symbols;
    return FLX_OK;
}

static flx_code convert_flag(vhlo_reader *r, hlo_entry *e)
{
    e->value = flxi_hlop_new_attr(&r->p, HLO_A_UNIT, e->value->at);
    return e->value ? FLX_OK : FLX_E_OOM;
}

/* The number of a channel; its type is added by an attribute that follows. */
static flx_code convert_channel(vhlo_reader *r, hlo_entry *e)
{
    hlo_attr *handle = flxi_hlop_new_attr(&r->p, HLO_A_DICT, e->value->at);
    hlo_attr *type = flxi_hlop_new_attr(&r->p, HLO_A_INT, e->value->at);
    if (!handle || !type || !(type->type = flxi_hlop_scalar_of(&r->p, HLO_I64)))
        return flxi_hlop_oom(&r->p);
    hlo_entry members[] = {{"handle", e->value}, {"type", type}};
    handle->struct_name = "channel_handle";
    handle->entries = flxi_hlop_take(&r->p, members, 2, sizeof *members);
    handle->num_entries = 2;
    *e = (hlo_entry){"channel_handle", handle};
    return handle->entries ? FLX_OK : FLX_E_OOM;
}

static const struct {
    const char *name;
    flx_code (*convert)(vhlo_reader *r, hlo_entry *e);
} conversions[] = {
    {"callee", convert_symbol},        {"called_computations", convert_symbols}, {"channel_id", convert_channel},
    {"decomposition", convert_symbol}, {"use_global_device_ids", convert_flag},
};

static flx_code convert(vhlo_reader *r, hlo_entry *e)
{
    for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++)
        if (strcmp(e->name, conversions[i].name) == 0)
            return conversions[i].convert(r, e);
    return flxi_hlop_modernise(&r->p, e);
}

/* ---- Defaults ---- */

static bool is_empty(const hlo_attr *a)
{
    return (a->kind == HLO_A_ARRAY && a->num_items == 0) || (a->kind == HLO_A_DICT && a->num_entries == 0) ||
           (a->kind == HLO_A_STRING && a->length == 0);
}

static bool is_word(const hlo_attr *a, const char *word)
{
    return a->kind == HLO_A_WORD && strcmp(a->text, word) == 0;
}

static bool is_zero(const hlo_attr *a)
{
    return ((a->kind == HLO_A_INT || a->kind == HLO_A_BOOL) && a->integer == 0) ||
           (a->kind == HLO_A_REAL && a->real == 0);
}

static bool is_no_type(const hlo_attr *a)
{
    return is_word(a, "NOTYPE");
}

static bool is_all_default(const hlo_attr *a)
{
    if (a->kind != HLO_A_ARRAY)
        return false;
    for (size_t i = 0; i < a->num_items; i++)
        if (!is_word(a->items[i], "DEFAULT"))
            return false;
    return true;
}

static bool is_default_accuracy(const hlo_attr *a)
{
    if (a->kind != HLO_A_DICT)
        return false;
    for (size_t i = 0; i < a->num_entries; i++)
        if (!is_zero(a->entries[i].value) && !is_word(a->entries[i].value, "DEFAULT"))
            return false;
    return true;
}

static bool is_original(const hlo_attr *a)
{
    return a->kind == HLO_A_INT && a->integer == 1;
}

/* A literal of integers that are all `n`. */
static bool is_all(const hlo_attr *a, int64_t n)
{
    if (a->kind != HLO_A_DENSE || (a->type->element != HLO_I64 && a->type->element != HLO_I1))
        return false;
    size_t size = a->type->element == HLO_I64 ? sizeof(int64_t) : 1;
    for (size_t i = 0; i < a->num_bytes / size; i++) {
        int64_t v = ((const unsigned char *)a->bytes)[i];
        if (size > 1)
            memcpy(&v, (const unsigned char *)a->bytes + i * size, size);
        if (v != n)
            return false;
    }
    return true;
}

static bool is_all_one(const hlo_attr *a)
{
    return is_all(a, 1);
}

static bool is_all_zero(const hlo_attr *a)
{
    return is_all(a, 0);
}

/* What StableHLO leaves out. */
static const struct {
    const char *name;
    bool (*is_default)(const hlo_attr *a);
} defaults[] = {
    {"api_version", is_original},
    {"backend_config", is_empty},
    {"base_dilations", is_all_one},
    {"called_computations", is_empty},
    {"channel_id", is_zero},
    {"compare_type", is_no_type},
    {"composite_attributes", is_empty},
    {"has_side_effect", is_zero},
    {"indices_are_sorted", is_zero},
    {"is_stable", is_zero},
    {"lhs_dilation", is_all_one},
    {"operand_layouts", is_empty},
    {"output_operand_aliases", is_empty},
    {"padding", is_all_zero},
    {"precision_config", is_all_default},
    {"result_accuracy", is_default_accuracy},
    {"result_layouts", is_empty},
    {"result_tilings", is_empty},
    {"rhs_dilation", is_all_one},
    {"sym_visibility", is_empty},
    {"unique_indices", is_zero},
    {"use_global_device_ids", is_zero},
    {"window_dilations", is_all_one},
    {"window_reversal", is_all_zero},
    {"window_strides", is_all_one},
};

static bool is_left_out(const hlo_entry *e)
{
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(e->name, defaults[i].name) == 0)
            return defaults[i].is_default(e->value);
    return false;
}

/* ---- Structures ---- */

static bool is_empty_list(const hlo_attr *a)
{
    return a->kind == HLO_A_LIST && a->num_numbers == 0;
}

static bool is_none(const hlo_attr *a)
{
    return a->kind == HLO_A_TYPE && a->type->kind == HLO_NONE;
}

/* Members of a structure while the attributes of one operation are read: at most as many as an operation has. */
enum { MOST_MEMBERS = 20 };
typedef struct {
    hlo_entry at[MOST_MEMBERS];
    size_t n;
} member_list;

/* Integers are lists. What text leaves out is left out: empty lists, the index vector in axis 0, and an algorithm whose
   types are none. */
static flx_code add_member(vhlo_reader *r, member_list *members, hlo_entry e)
{
    if (e.value->kind == HLO_A_DENSE)
        FLXI_TRY(flxi_hlop_dense_to_list(&r->p, e.value, &e.value));
    bool is_default = strcmp(e.name, "index_vector_dim") == 0 && is_zero(e.value);
    if (!is_empty_list(e.value) && !is_none(e.value) && !is_default && members->n < MOST_MEMBERS)
        members->at[members->n++] = e;
    return FLX_OK;
}

static flx_code add_struct(vhlo_reader *r, hlo_location at, const char *attribute, const char *structure,
                           const member_list *members)
{
    hlo_attr *a = flxi_hlop_new_attr(&r->p, HLO_A_DICT, at);
    if (!a)
        return FLX_E_OOM;
    a->struct_name = structure;
    a->num_entries = members->n;
    a->entries = flxi_hlop_take(&r->p, members->at, members->n, sizeof *members->at);
    return a->entries ? flxi_hlop_add_attr(&r->p, attribute, a) : FLX_E_OOM;
}

/* ---- Properties ---- */

/* The next name of a row with its mark; it stays in the arena. */
static const char *next_word(vhlo_reader *r, const char **words, char *mark)
{
    *mark = **words == '.' || **words == '+' ? *(*words)++ : 0;
    size_t n = strcspn(*words, " ");
    const char *name = flxi_hlop_keep(&r->p, (hlo_span){*words, n});
    *words += n;
    *words += **words == ' ';
    return name;
}

static flx_code read_row(vhlo_reader *r, const vhlo_row *row, vhlo_bytes *b)
{
    hlo_location position = flxi_vhlo_position(r, b->at);
    member_list members = {.n = 0};
    member_list algorithm = {.n = 0};
    for (const char *words = row->properties; *words;) {
        char mark;
        hlo_entry e = {.name = next_word(r, &words, &mark)};
        if (!e.name)
            return FLX_E_OOM;
        FLXI_TRY(flxi_vhlo_read_attr(r, b, &e.value));
        if (mark) {
            FLXI_TRY(add_member(r, mark == '.' ? &members : &algorithm, e));
        } else if (!is_left_out(&e)) {
            FLXI_TRY(convert(r, &e));
            FLXI_TRY(flxi_hlop_add_attr(&r->p, e.name, e.value));
        }
    }
    if (row->attribute)
        FLXI_TRY(add_struct(r, position, row->attribute, row->structure, &members));
    return algorithm.n ? add_struct(r, position, "algorithm", "dot_algorithm", &algorithm) : FLX_OK;
}

/* "name" and "visibility" of the module. */
static flx_code read_module(vhlo_reader *r, vhlo_bytes *b)
{
    static const char *const names[] = {"sym_name", "sym_visibility"};
    for (size_t i = 0; i < 2; i++) {
        const unsigned char *at = b->at;
        uint64_t flagged = flxi_vhlo_varint(b);
        const hlo_attr *a;
        if (!(flagged & 1))
            continue;
        FLXI_TRY(flxi_vhlo_attr(r, at, flagged >> 1, &a));
        FLXI_TRY(flxi_hlop_add_attr(&r->p, names[i], a));
    }
    return FLX_OK;
}

/* Of the operations of sdy those that the importer looks at; what others say of devices is not needed. */
static flx_code read_sdy(vhlo_reader *r, const vhlo_name *name, vhlo_bytes *b)
{
    static const char *const names[][4] = {
        {"sdy.mesh", "mesh", "sym_name", NULL},
        {"sdy.sharding_constraint", "sharding", NULL, NULL},
        {"sdy.reshard", "sharding", NULL, NULL},
        {"sdy.manual_computation", "in_shardings", "manual_axes", "out_shardings"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 1; k < 4 && names[i][k] && strcmp(name->name, names[i][0]) == 0; k++) {
            const hlo_attr *a;
            FLXI_TRY(flxi_vhlo_read_attr(r, b, &a));
            FLXI_TRY(flxi_hlop_add_attr(&r->p, names[i][k], a));
        }
    return flxi_vhlo_check(r, b, name->name);
}

flx_code flxi_vhlo_properties(vhlo_reader *r, const vhlo_name *name, vhlo_bytes b)
{
    if (name->dialect == VHLO_SDY)
        return read_sdy(r, name, &b);
    if (name->role == VHLO_MODULE)
        FLXI_TRY(read_module(r, &b));
    else if (name->row)
        FLXI_TRY(read_row(r, name->row, &b));
    FLXI_TRY(flxi_vhlo_check(r, &b, name->name));
    if (b.at < b.end)
        return flxi_vhlo_fail(r, b.at, FLX_E_VERSION, "write it for StableHLO 1.17 or earlier",
                              "%.80s has attributes that are not known here", name->name);
    return FLX_OK;
}
