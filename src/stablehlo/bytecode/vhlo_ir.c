/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_ir.c: operations, regions and values.

   Values have no names in the bytes but numbers, which count as follows. A region says how many values it defines
   itself; it takes as many numbers, the next ones that are free, for its arguments and the results of its operations.
   Regions within begin after all of these and give their numbers back at their end. Within an operation that is marked
   as isolated, because its regions use nothing from outside, numbers begin at 0 again. */
#include "stablehlo/bytecode/vhlo_reader.h"

enum { SECTION_IR = 4 };
enum {
    HAS_ATTRIBUTES = 0x01,
    HAS_RESULTS = 0x02,
    HAS_OPERANDS = 0x04,
    HAS_SUCCESSORS = 0x08,
    HAS_REGIONS = 0x10,
    HAS_USE_ORDERS = 0x20,
    HAS_PROPERTIES = 0x40
};

/* An operation up to its regions. */
typedef struct {
    const vhlo_name *name;
    const unsigned char *at;
    const hlo_source *source;
    vhlo_bytes results; /* numbers of types */
    size_t num_results, num_operands;
    const hlo_value *const *operands;
    const hlo_entry *attrs;
    size_t num_attrs;
    size_t num_regions;
    bool is_isolated;
} op_header;

/* The numbers that a region has for values it defines. */
typedef struct {
    size_t next, end; /* positions in r->values */
    bool is_function;
} number_space;

/* ---- Parts of an operation ---- */

/* A count and that many numbers. */
static vhlo_bytes skip_numbers(vhlo_bytes *b, size_t *n)
{
    *n = flxi_vhlo_count(b);
    vhlo_bytes numbers = *b;
    for (size_t i = 0; i < *n; i++)
        flxi_vhlo_varint(b);
    return numbers;
}

static flx_code read_operands(vhlo_reader *r, vhlo_bytes *b, op_header *h)
{
    size_t n = flxi_vhlo_count(b);
    const hlo_value **operands = flxi_new(r->p.arena, const hlo_value *, n);
    if (!operands)
        return flxi_hlop_oom(&r->p);
    for (size_t i = 0; i < n; i++) {
        uint64_t number = flxi_vhlo_varint(b);
        operands[i] = number < r->values.n - r->base ? r->values.at[r->base + number] : NULL;
        if (!operands[i])
            return flxi_vhlo_fail(r, b->at, FLX_E_NAME, NULL, "%.80s uses value %llu, which is not defined",
                                  h->name->name, (unsigned long long)number);
    }
    h->operands = operands;
    h->num_operands = n;
    return FLX_OK;
}

/* In which order the uses of values are linked; nothing here depends on it. */
static void skip_use_orders(vhlo_bytes *b, size_t num_values)
{
    size_t n = num_values == 1 ? 1 : flxi_vhlo_count(b);
    for (size_t i = 0; i < n && !b->failed; i++) {
        if (num_values != 1)
            flxi_vhlo_varint(b);
        uint64_t k = flxi_vhlo_varint(b) >> 1;
        if (k > flxi_vhlo_left(b))
            b->failed = true;
        for (uint64_t j = 0; j < k && !b->failed; j++)
            flxi_vhlo_varint(b);
    }
}

/* The attributes of the entry, decoded once for each operation that uses it after another one did. */
static flx_code read_properties(vhlo_reader *r, const unsigned char *at, uint64_t number, const vhlo_name *name,
                                vhlo_property **out)
{
    if (number >= r->num_properties)
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "there are no properties %llu", (unsigned long long)number);
    vhlo_property *p = &r->properties[number];
    *out = p;
    if (p->name == name)
        return FLX_OK;
    size_t base = r->p.entries.n;
    FLXI_TRY(flxi_vhlo_properties(r, name, (vhlo_bytes){p->at, p->at + p->size, false}));
    p->entries = HLO_TAKE(&r->p, hlo_entry, entries, base, &p->num_entries);
    if (!p->entries)
        return FLX_E_OOM;
    p->name = name;
    return flxi_vhlo_charge(r, at, p->size);
}

/* Attributes that are not the operation's own follow those that are. */
static flx_code add_notes(vhlo_reader *r, const unsigned char *at, uint64_t number, op_header *h)
{
    const hlo_attr *notes;
    size_t base = r->p.entries.n;
    FLXI_TRY(flxi_vhlo_attr(r, at, number, &notes));
    if (notes->kind != HLO_A_DICT || notes->num_entries == 0)
        return FLX_OK;
    FLXI_TRY(flxi_vhlo_charge(r, at, h->num_attrs + notes->num_entries));
    for (size_t i = 0; i < h->num_attrs; i++)
        HLO_PUSH(&r->p, entries, h->attrs[i]);
    for (size_t i = 0; i < notes->num_entries; i++) {
        for (size_t k = base; k < base + h->num_attrs; k++)
            if (strcmp(r->p.entries.at[k].name, notes->entries[i].name) == 0)
                return flxi_vhlo_fail(r, at, FLX_E_ATTRIBUTE, NULL, "the attribute %.60s is given twice",
                                      notes->entries[i].name);
        if (notes->entries[i].value->kind != HLO_A_OPAQUE) /* of another dialect, of which the text is not known */
            HLO_PUSH(&r->p, entries, notes->entries[i]);
    }
    const hlo_entry *all = HLO_TAKE(&r->p, hlo_entry, entries, base, &h->num_attrs);
    h->attrs = all;
    return all ? FLX_OK : FLX_E_OOM;
}

static flx_code read_attributes(vhlo_reader *r, vhlo_bytes *b, unsigned mask, op_header *h)
{
    const unsigned char *at = b->at;
    uint64_t notes = mask & HAS_ATTRIBUTES ? flxi_vhlo_varint(b) : 0;
    if (mask & HAS_PROPERTIES) {
        vhlo_property *p = NULL;
        FLXI_TRY(read_properties(r, at, flxi_vhlo_varint(b), h->name, &p));
        h->attrs = p->entries;
        h->num_attrs = p->num_entries;
    } else if (h->name->row) {
        return flxi_vhlo_fail(r, at, FLX_E_ATTRIBUTE, NULL, "%.80s has no attributes", h->name->name);
    }
    return mask & HAS_ATTRIBUTES ? add_notes(r, at, notes, h) : FLX_OK;
}

static flx_code read_header(vhlo_reader *r, vhlo_bytes *b, op_header *h)
{
    *h = (op_header){.at = b->at};
    uint64_t name = flxi_vhlo_varint(b);
    unsigned mask = flxi_vhlo_byte(b);
    const unsigned char *at = b->at;
    uint64_t location = flxi_vhlo_varint(b);
    FLXI_TRY(flxi_vhlo_check(r, b, "an operation"));
    if (name >= r->num_names)
        return flxi_vhlo_fail(r, h->at, FLX_E_SYNTAX, NULL, "there is no name %llu", (unsigned long long)name);
    h->name = &r->names[name];
    FLXI_TRY(flxi_vhlo_source(r, at, location, &h->source));
    FLXI_TRY(read_attributes(r, b, mask, h));
    if (mask & HAS_RESULTS)
        h->results = skip_numbers(b, &h->num_results);
    if (mask & HAS_OPERANDS)
        FLXI_TRY(read_operands(r, b, h));
    if (mask & HAS_SUCCESSORS)
        return flxi_vhlo_fail(r, h->at, FLX_E_UNSUPPORTED, NULL, "operations with successors are not supported");
    if (mask & HAS_USE_ORDERS)
        skip_use_orders(b, h->num_results);
    if (mask & HAS_REGIONS) {
        uint64_t flagged = flxi_vhlo_varint(b);
        h->num_regions = (size_t)(flagged >> 1);
        h->is_isolated = flagged & 1;
        if (h->num_regions > flxi_vhlo_left(b))
            b->failed = true;
    }
    return flxi_vhlo_check(r, b, "an operation");
}

/* ---- Values ---- */

static flx_code define(vhlo_reader *r, const unsigned char *at, number_space *numbers, const hlo_value *v)
{
    if (numbers->next >= numbers->end)
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "a region defines more values than it says");
    r->values.at[numbers->next++] = v;
    return FLX_OK;
}

/* New values with pointers to them. */
static flx_code new_values(vhlo_reader *r, size_t n, hlo_value **values, const hlo_value ***pointers)
{
    *values = flxi_new(r->p.arena, hlo_value, n);
    *pointers = *values ? flxi_new(r->p.arena, const hlo_value *, n) : NULL;
    if (!*pointers)
        return flxi_hlop_oom(&r->p);
    for (size_t i = 0; i < n; i++) {
        (*values)[i].name = "";
        (*values)[i].number = r->p.num_values++;
        (*pointers)[i] = &(*values)[i];
    }
    return FLX_OK;
}

static flx_code define_results(vhlo_reader *r, op_header *h, number_space *numbers, hlo_op *op)
{
    hlo_value *values;
    const hlo_value **pointers;
    FLXI_TRY(new_values(r, h->num_results, &values, &pointers));
    for (size_t i = 0; i < h->num_results; i++) {
        FLXI_TRY(flxi_vhlo_read_type(r, &h->results, &values[i].type));
        FLXI_TRY(define(r, h->at, numbers, &values[i]));
    }
    op->results = pointers;
    op->num_results = h->num_results;
    return FLX_OK;
}

static flx_code read_arguments(vhlo_reader *r, vhlo_bytes *b, number_space *numbers, hlo_region *out)
{
    size_t n = flxi_vhlo_count(b);
    hlo_value *values;
    const hlo_value **pointers;
    FLXI_TRY(new_values(r, n, &values, &pointers));
    for (size_t i = 0; i < n; i++) {
        const unsigned char *at = b->at;
        uint64_t flagged = flxi_vhlo_varint(b);
        if (flagged & 1) {
            const hlo_source *source;
            FLXI_TRY(flxi_vhlo_source(r, at, flxi_vhlo_varint(b), &source));
            values[i].source = source ? source->name : NULL;
        }
        FLXI_TRY(flxi_vhlo_type(r, at, flagged >> 1, &values[i].type));
        FLXI_TRY(define(r, at, numbers, &values[i]));
    }
    if (flxi_vhlo_byte(b))
        skip_use_orders(b, n);
    out->args = pointers;
    out->num_args = n;
    return flxi_vhlo_check(r, b, "the arguments of a region");
}

/* ---- Regions ---- */

static flx_code read_region(vhlo_reader *r, vhlo_bytes *b, bool is_function, hlo_region *out);

static flx_code read_regions(vhlo_reader *r, vhlo_bytes *b, op_header *h, const hlo_region **out)
{
    hlo_region *regions = flxi_new(r->p.arena, hlo_region, h->num_regions);
    size_t base = r->base;
    vhlo_bytes inner = *b;
    if (!regions)
        return flxi_hlop_oom(&r->p);
    if (h->is_isolated && h->num_regions) {
        unsigned id;
        FLXI_TRY(flxi_vhlo_section(r, b, &id, &inner));
        if (id != SECTION_IR)
            return flxi_vhlo_fail(r, h->at, FLX_E_SYNTAX, NULL, "the regions of %.80s are missing", h->name->name);
        r->base = r->values.n;
    }
    for (size_t i = 0; i < h->num_regions; i++)
        FLXI_TRY(read_region(r, &inner, h->name->role == VHLO_FUNCTION, &regions[i]));
    if (!h->is_isolated)
        *b = inner;
    r->base = base;
    *out = regions;
    return FLX_OK;
}

/* The results of a cast are its operands under other numbers. */
static flx_code pass_on(vhlo_reader *r, const op_header *h, number_space *numbers)
{
    if (h->num_results != h->num_operands || h->num_regions)
        return flxi_vhlo_fail(r, h->at, FLX_E_UNSUPPORTED, NULL, "%.80s has %zu results for %zu operands",
                              h->name->name, h->num_results, h->num_operands);
    for (size_t i = 0; i < h->num_results; i++)
        FLXI_TRY(define(r, h->at, numbers, h->operands[i]));
    return FLX_OK;
}

/* One operation; *out is NULL for one that is not needed. */
static flx_code read_op(vhlo_reader *r, vhlo_bytes *b, number_space *numbers, hlo_op **out)
{
    op_header h;
    *out = NULL;
    FLXI_TRY(read_header(r, b, &h));
    if (h.name->role == VHLO_CAST)
        return pass_on(r, &h, numbers);
    if (h.name->role != VHLO_OPERATION && h.name->role != VHLO_RETURN)
        return flxi_vhlo_fail(r, h.at, FLX_E_UNSUPPORTED, NULL, "%.80s is not allowed in functions", h.name->name);
    hlo_op *op = flxi_new(r->p.arena, hlo_op, 1);
    if (!op)
        return flxi_hlop_oom(&r->p);
    op->name = h.name->role == VHLO_RETURN && numbers->is_function ? "func.return" : h.name->name;
    op->at = flxi_vhlo_position(r, h.at);
    op->source = h.source;
    op->operands = h.operands;
    op->num_operands = h.num_operands;
    op->attrs = h.attrs;
    op->num_attrs = h.num_attrs;
    op->num_regions = h.num_regions;
    if (h.num_regions)
        FLXI_TRY(read_regions(r, b, &h, &op->regions));
    *out = op;
    return define_results(r, &h, numbers, op);
}

static flx_code read_ops(vhlo_reader *r, vhlo_bytes *b, uint64_t n, number_space *numbers, hlo_region *out)
{
    const hlo_op **link = &out->first;
    const hlo_op *last = NULL;
    for (uint64_t i = 0; i < n; i++) {
        const unsigned char *at = b->at;
        hlo_op *op;
        FLXI_TRY(read_op(r, b, numbers, &op));
        if (last && flxi_hlop_is_terminator(last->name))
            return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "an operation follows %.80s", last->name);
        if (!op)
            continue;
        *link = last = op;
        link = &op->next;
    }
    if (!last || !flxi_hlop_is_terminator(last->name))
        return flxi_vhlo_fail(r, b->at, FLX_E_SYNTAX, NULL, "the region does not end with a return");
    return FLX_OK;
}

/* Numbers for the values of a region, after those of the regions around it. */
static flx_code open_numbers(vhlo_reader *r, vhlo_bytes *b, number_space *numbers)
{
    const unsigned char *at = b->at;
    size_t n = flxi_vhlo_count(b);
    r->num_claimed += n;
    if (b->failed || r->num_claimed > (size_t)(r->file_end - r->start))
        return flxi_vhlo_fail(r, at, FLX_E_SYNTAX, NULL, "a region says that it defines too many values");
    numbers->next = r->values.n;
    for (size_t i = 0; i < n; i++)
        if (!flxi_push(r->p.mem, &r->values, NULL))
            return flxi_hlop_oom(&r->p);
    numbers->end = r->values.n;
    return FLX_OK;
}

static flx_code read_region(vhlo_reader *r, vhlo_bytes *b, bool is_function, hlo_region *out)
{
    const unsigned char *at = b->at;
    size_t outer = r->values.n;
    uint64_t num_blocks = flxi_vhlo_varint(b);
    number_space numbers = {.is_function = is_function};
    if (num_blocks == 0)
        return flxi_vhlo_check(r, b, "a region");
    if (num_blocks > 1)
        return flxi_vhlo_fail(r, at, FLX_E_UNSUPPORTED, NULL, "a region has one block here");
    FLXI_TRY(flxi_vhlo_enter(r, at));
    FLXI_TRY(open_numbers(r, b, &numbers));
    uint64_t flagged = flxi_vhlo_varint(b);
    if (flagged & 1)
        FLXI_TRY(read_arguments(r, b, &numbers, out));
    FLXI_TRY(read_ops(r, b, flagged >> 1, &numbers, out));
    r->values.n = outer;
    flxi_hlop_leave(&r->p);
    return FLX_OK;
}

/* ---- Functions and the module ---- */

static flx_code read_function(vhlo_reader *r, vhlo_bytes *b, op_header *h)
{
    hlo_function f = {.at = flxi_vhlo_position(r, h->at), .source = h->source};
    const hlo_region *body;
    size_t base = r->p.entries.n;
    r->p.num_values = 0;
    if (h->num_regions != 1 || !h->is_isolated || !h->name->row)
        return flxi_vhlo_fail(r, h->at, FLX_E_SYNTAX, NULL,
                              "a function has one region, which uses nothing from outside");
    FLXI_TRY(read_regions(r, b, h, &body));
    f.body = *body;
    f.is_declared_only = !body->first;
    for (size_t i = 0; i < h->num_attrs; i++)
        if (h->attrs[i].value->kind == HLO_A_TYPE)
            FLXI_TRY(
                flxi_vhlo_charge(r, h->at, h->attrs[i].value->type->num_parts + h->attrs[i].value->type->num_results));
    for (size_t i = 0; i < h->num_attrs; i++)
        HLO_PUSH(&r->p, entries, h->attrs[i]);
    FLXI_TRY(flxi_hlop_describe_function(&r->p, base, &f));
    r->p.entries.n = base;
    FLXI_TRY(flxi_hlop_check_return(&r->p, &f));
    f.num_values = r->p.num_values;
    return flxi_hlop_add_function(&r->p, &f);
}

static flx_code read_mesh(vhlo_reader *r, const op_header *h)
{
    const hlo_attr *name = NULL, *mesh = NULL;
    for (size_t i = 0; i < h->num_attrs; i++) {
        name = strcmp(h->attrs[i].name, "sym_name") == 0 ? h->attrs[i].value : name;
        mesh = strcmp(h->attrs[i].name, "mesh") == 0 ? h->attrs[i].value : mesh;
    }
    if (h->name->role != VHLO_MESH || h->num_regions || h->num_results)
        return flxi_vhlo_fail(r, h->at, FLX_E_UNSUPPORTED, NULL, "%.80s is not allowed outside of functions",
                              h->name->name);
    return flxi_hlop_add_mesh(&r->p, flxi_vhlo_position(r, h->at), name, mesh);
}

/* The functions of the module, and the meshes of devices. */
static flx_code read_contents(vhlo_reader *r, vhlo_bytes *b)
{
    number_space numbers = {0};
    if (flxi_vhlo_varint(b) != 1)
        return flxi_vhlo_fail(r, b->at, FLX_E_SYNTAX, NULL, "a module has one block");
    FLXI_TRY(open_numbers(r, b, &numbers));
    uint64_t flagged = flxi_vhlo_varint(b);
    if (flagged & 1)
        return flxi_vhlo_fail(r, b->at, FLX_E_SYNTAX, NULL, "a module has no arguments");
    for (uint64_t i = 0; i < flagged >> 1; i++) {
        op_header h;
        FLXI_TRY(read_header(r, b, &h));
        if (h.name->role == VHLO_FUNCTION)
            FLXI_TRY(read_function(r, b, &h));
        else
            FLXI_TRY(read_mesh(r, &h));
    }
    return flxi_vhlo_check(r, b, "the module");
}

flx_code flxi_vhlo_module(vhlo_reader *r, hlo_module *out)
{
    vhlo_bytes b = r->sections[SECTION_IR];
    op_header h;
    uint64_t flagged = flxi_vhlo_varint(&b);
    if (flagged != 2)
        return flxi_vhlo_fail(r, b.at, FLX_E_SYNTAX, NULL, "the file does not consist of one module");
    FLXI_TRY(read_header(r, &b, &h));
    if (h.name->role != VHLO_MODULE || h.num_regions != 1 || h.num_results || h.num_operands)
        return flxi_vhlo_fail(r, h.at, FLX_E_SYNTAX, NULL, "the file does not consist of one module");
    for (size_t i = 0; i < h.num_attrs; i++)
        if (strcmp(h.attrs[i].name, "sym_name") == 0 && h.attrs[i].value->kind == HLO_A_STRING)
            out->name = h.attrs[i].value->text;
    vhlo_bytes inner = b;
    unsigned id = SECTION_IR;
    if (h.is_isolated)
        FLXI_TRY(flxi_vhlo_section(r, &b, &id, &inner));
    if (id != SECTION_IR)
        return flxi_vhlo_fail(r, h.at, FLX_E_SYNTAX, NULL, "the contents of the module are missing");
    FLXI_TRY(read_contents(r, &inner));
    out->meshes = HLO_TAKE(&r->p, hlo_named_mesh, meshes, 0, &out->num_meshes);
    out->functions = HLO_TAKE(&r->p, hlo_function, functions, 0, &out->num_functions);
    return out->functions && out->meshes ? FLX_OK : FLX_E_OOM;
}
