/* SPDX-License-Identifier: Apache-2.0 */
/* vhlo_write.c: a program as a portable artifact: operations, regions, and the sections of the file. Numbers of values
   count as vhlo_ir.c describes; functions and the module are marked as isolated. */
#include "stablehlo/bytecode/bytecode.h"
#include "stablehlo/bytecode/vhlo_writer.h"

#include <stdio.h>

#define VERSION "1.4.0"

enum { HAS_RESULTS = 0x02, HAS_OPERANDS = 0x04, HAS_REGIONS = 0x10, HAS_PROPERTIES = 0x40 };
enum { LOCATION = 0 }; /* the first attribute: an unknown location */

/* ---- Names ---- */

static uint64_t put_name(vhlo_writer *w, vhlo_dialect dialect, const char *name)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, flxi_vhlo_put_string(w, name, strlen(name)) << 1 | 1);
    return flxi_vhlo_intern(w, &w->names, dialect, &b);
}

/* The name with its version; false for an operation that VHLO does not have. */
static bool versioned_name(const char *name, char *out, size_t size)
{
    static const char *const second[] = {"gather", "scatter", "dynamic_gather", "dynamic_conv"};
    static const char prefix[] = "stablehlo.";
    const char *base = strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : NULL;
    if (strcmp(name, "func.call") == 0 || strcmp(name, "func.return") == 0)
        base = name + 5;
    if (!base)
        return false;
    int version = 1;
    for (size_t i = 0; i < sizeof second / sizeof *second; i++)
        if (strcmp(base, second[i]) == 0)
            version = 2;
    return snprintf(out, size, "%s_v%d", base, version) < (int)size;
}

/* ---- Operations ---- */

static void put_region(vhlo_writer *w, flxi_strbuf *b, const hlo_region *r, uint32_t first);

static void put_values(vhlo_writer *w, flxi_strbuf *b, const hlo_op *op)
{
    if (op->num_results) {
        flxi_vhlo_put_varint(b, op->num_results);
        for (size_t i = 0; i < op->num_results; i++)
            flxi_vhlo_put_varint(b, flxi_vhlo_put_type(w, op->results[i]->type));
    }
    if (op->num_operands) {
        flxi_vhlo_put_varint(b, op->num_operands);
        for (size_t i = 0; i < op->num_operands; i++)
            flxi_vhlo_put_varint(b, w->numbers[op->operands[i]->number]);
    }
}

/* `next`: the first number that is free for the values of its regions. */
static void put_op(vhlo_writer *w, flxi_strbuf *b, const hlo_op *op, uint32_t next)
{
    char name[80];
    if (!versioned_name(op->name, name, sizeof name)) {
        flxi_vhlo_writer_fail(w, op->at, FLX_E_UNSUPPORTED, "export to .mlir instead",
                              "%.80s has no portable form: bytecode holds operations of StableHLO only", op->name);
        return;
    }
    const vhlo_row *row = flxi_vhlo_row(name);
    if (!flxi_vhlo_has_all(w, op, row))
        return;
    unsigned mask = (row ? HAS_PROPERTIES : 0) | (op->num_results ? HAS_RESULTS : 0) |
                    (op->num_operands ? HAS_OPERANDS : 0) | (op->num_regions ? HAS_REGIONS : 0);
    flxi_vhlo_put_varint(b, put_name(w, VHLO_VHLO, name));
    flxi_add_char(b, (char)mask);
    flxi_vhlo_put_varint(b, LOCATION);
    if (row)
        flxi_vhlo_put_varint(b, flxi_vhlo_put_properties(w, op, row));
    put_values(w, b, op);
    if (op->num_regions)
        flxi_vhlo_put_varint(b, (uint64_t)op->num_regions << 1);
    for (size_t i = 0; i < op->num_regions; i++)
        put_region(w, b, &op->regions[i], next);
}

static void put_region(vhlo_writer *w, flxi_strbuf *b, const hlo_region *r, uint32_t first)
{
    uint32_t next = first;
    size_t num_ops = 0;
    for (size_t i = 0; i < r->num_args; i++)
        w->numbers[r->args[i]->number] = next++;
    for (const hlo_op *op = r->first; op; op = op->next, num_ops++)
        for (size_t i = 0; i < op->num_results; i++)
            w->numbers[op->results[i]->number] = next++;
    flxi_vhlo_put_varint(b, 1); /* one block */
    flxi_vhlo_put_varint(b, next - first);
    flxi_vhlo_put_varint(b, (uint64_t)num_ops << 1 | (r->num_args != 0));
    if (r->num_args) {
        flxi_vhlo_put_varint(b, r->num_args);
        for (size_t i = 0; i < r->num_args; i++)
            flxi_vhlo_put_varint(b, flxi_vhlo_put_type(w, r->args[i]->type) << 1);
        flxi_add_char(b, 0);
    }
    for (const hlo_op *op = r->first; op && w->code == FLX_OK; op = op->next)
        put_op(w, b, op, next);
}

/* ---- Functions and the module ---- */

static void put_section(vhlo_writer *w, flxi_strbuf *b, unsigned id, flxi_strbuf *contents)
{
    flxi_add_char(b, (char)id);
    flxi_vhlo_put_varint(b, contents->n);
    flxi_add_bytes(b, contents->at, contents->n);
    if (contents->failed && w->code == FLX_OK)
        w->code = flxi_oom(w->err, "a StableHLO program");
    flxi_strbuf_free(contents);
}

/* A dictionary for each argument or result; nothing where all are empty. */
static uint64_t put_notes(vhlo_writer *w, const hlo_attr *const *attrs, size_t n)
{
    static const hlo_attr empty = {.kind = HLO_A_DICT};
    bool any = false;
    for (size_t i = 0; attrs && i < n; i++)
        any |= attrs[i] != NULL;
    if (!any)
        return flxi_vhlo_put_array(w, NULL, 0);
    uint64_t *items = flxi_new(&w->scratch, uint64_t, n);
    if (!items) {
        w->code = flxi_oom(w->err, "a StableHLO program");
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        items[i] = flxi_vhlo_put_attr(w, "attributes", attrs[i] ? attrs[i] : &empty);
    return flxi_vhlo_put_array(w, items, n);
}

/* arg_attrs, function_type, res_attrs, sym_name, sym_visibility */
static uint64_t put_signature(vhlo_writer *w, const hlo_function *f)
{
    const hlo_type **args = flxi_new(&w->scratch, const hlo_type *, f->body.num_args);
    flxi_strbuf b = flxi_vhlo_buffer(w);
    if (!args) {
        w->code = flxi_oom(w->err, "a StableHLO program");
        return 0;
    }
    for (size_t i = 0; i < f->body.num_args; i++)
        args[i] = f->body.args[i]->type;
    hlo_type type = {.kind = HLO_FUNCTION,
                     .parts = args,
                     .num_parts = f->body.num_args,
                     .results = f->results,
                     .num_results = f->num_results};
    flxi_vhlo_put_varint(&b, put_notes(w, f->arg_attrs, f->body.num_args));
    flxi_vhlo_put_varint(&b, flxi_vhlo_put_type_attr(w, &type));
    flxi_vhlo_put_varint(&b, put_notes(w, f->result_attrs, f->num_results));
    flxi_vhlo_put_varint(&b, flxi_vhlo_put_text(w, f->name));
    flxi_vhlo_put_varint(&b, flxi_vhlo_put_text(w, f->is_public ? "public" : "private"));
    return flxi_vhlo_intern(w, &w->properties, VHLO_VHLO, &b);
}

static void put_function(vhlo_writer *w, flxi_strbuf *b, const hlo_function *f)
{
    flxi_strbuf body = flxi_vhlo_buffer(w);
    w->numbers = flxi_new(&w->scratch, uint32_t, f->num_values);
    if (!w->numbers) {
        w->code = flxi_oom(w->err, "a StableHLO program");
        return;
    }
    flxi_vhlo_put_varint(b, put_name(w, VHLO_VHLO, "func_v1"));
    flxi_add_char(b, HAS_PROPERTIES | HAS_REGIONS);
    flxi_vhlo_put_varint(b, LOCATION);
    flxi_vhlo_put_varint(b, put_signature(w, f));
    flxi_vhlo_put_varint(b, 1 << 1 | 1); /* one region, isolated */
    put_region(w, &body, &f->body, 0);
    put_section(w, b, 4, &body);
}

/* A string of the builtin dialect. */
static uint64_t put_module_name(vhlo_writer *w, const char *name)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, 2);
    flxi_vhlo_put_varint(&b, flxi_vhlo_put_string(w, name, strlen(name)));
    return flxi_vhlo_intern(w, &w->attrs, VHLO_BUILTIN, &b);
}

static flxi_strbuf put_module(vhlo_writer *w, const hlo_module *m)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_strbuf contents = flxi_vhlo_buffer(w);
    flxi_strbuf names = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, 1 << 1); /* one operation, no arguments */
    flxi_vhlo_put_varint(&b, put_name(w, VHLO_BUILTIN, "module"));
    flxi_add_char(&b, HAS_PROPERTIES | HAS_REGIONS);
    flxi_vhlo_put_varint(&b, LOCATION);
    flxi_vhlo_put_varint(&names, m->name ? put_module_name(w, m->name) << 1 | 1 : 0);
    flxi_vhlo_put_varint(&names, 0); /* no visibility */
    flxi_vhlo_put_varint(&b, flxi_vhlo_intern(w, &w->properties, VHLO_BUILTIN, &names));
    flxi_vhlo_put_varint(&b, 1 << 1 | 1);
    flxi_vhlo_put_varint(&contents, 1); /* one block without values */
    flxi_vhlo_put_varint(&contents, 0);
    flxi_vhlo_put_varint(&contents, (uint64_t)m->num_functions << 1);
    for (size_t i = 0; i < m->num_functions && w->code == FLX_OK; i++)
        put_function(w, &contents, &m->functions[i]);
    put_section(w, &b, 4, &contents);
    return b;
}

/* ---- Sections ---- */

static size_t size_in(const vhlo_pool *p, size_t i)
{
    return p->ends.at[i] - (i ? p->ends.at[i - 1] : 0);
}

/* Things that follow each other and belong to one dialect: from i on, how many. */
static size_t run_length(const vhlo_pool *p, size_t i)
{
    size_t n = 1;
    while (i + n < p->ends.n && p->dialects.at[i + n] == p->dialects.at[i])
        n++;
    return n;
}

static flxi_strbuf put_dialects(vhlo_writer *w)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, 2); /* in the order of vhlo_dialect */
    flxi_vhlo_put_varint(&b, flxi_vhlo_put_string(w, "builtin", 7) << 1);
    flxi_vhlo_put_varint(&b, flxi_vhlo_put_string(w, "vhlo", 4) << 1);
    flxi_vhlo_put_varint(&b, w->names.ends.n);
    for (size_t i = 0; i < w->names.ends.n;) {
        size_t n = run_length(&w->names, i);
        flxi_vhlo_put_varint(&b, w->names.dialects.at[i]);
        flxi_vhlo_put_varint(&b, n);
        for (; n > 0; n--, i++)
            flxi_add_bytes(&b, w->names.bytes.at + w->names.ends.at[i] - size_in(&w->names, i), size_in(&w->names, i));
    }
    return b;
}

static void put_sizes(flxi_strbuf *b, const vhlo_pool *p)
{
    for (size_t i = 0; i < p->ends.n;) {
        size_t n = run_length(p, i);
        flxi_vhlo_put_varint(b, p->dialects.at[i]);
        flxi_vhlo_put_varint(b, n);
        for (; n > 0; n--, i++)
            flxi_vhlo_put_varint(b, (uint64_t)size_in(p, i) << 1 | 1);
    }
}

static flxi_strbuf put_offsets(const vhlo_writer *w)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, w->attrs.ends.n);
    flxi_vhlo_put_varint(&b, w->types.ends.n);
    put_sizes(&b, &w->attrs);
    put_sizes(&b, &w->types);
    return b;
}

static flxi_strbuf put_strings(const vhlo_writer *w)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&b, w->strings.ends.n);
    for (size_t i = w->strings.ends.n; i-- > 0;)
        flxi_vhlo_put_varint(&b, size_in(&w->strings, i));
    flxi_add_bytes(&b, w->strings.bytes.at, w->strings.bytes.n);
    return b;
}

static flxi_strbuf put_property_list(const vhlo_writer *w)
{
    flxi_strbuf b = flxi_vhlo_buffer(w);
    const vhlo_pool *p = &w->properties;
    flxi_vhlo_put_varint(&b, p->ends.n);
    for (size_t i = 0; i < p->ends.n; i++) {
        flxi_vhlo_put_varint(&b, size_in(p, i));
        flxi_add_bytes(&b, p->bytes.at + p->ends.at[i] - size_in(p, i), size_in(p, i));
    }
    return b;
}

static void put_file(vhlo_writer *w, const hlo_module *m, flxi_strbuf *out)
{
    flxi_strbuf unknown = flxi_vhlo_buffer(w);
    flxi_vhlo_put_varint(&unknown, 15);
    flxi_vhlo_intern(w, &w->attrs, VHLO_BUILTIN, &unknown);
    flxi_strbuf ir = put_module(w, m);
    if (w->code != FLX_OK) {
        flxi_strbuf_free(&ir);
        return;
    }
    flxi_strbuf dialects = put_dialects(w);
    flxi_strbuf offsets = put_offsets(w);
    flxi_strbuf encodings = flxi_vhlo_buffer(w);
    flxi_strbuf strings = put_strings(w);
    flxi_strbuf properties = put_property_list(w);
    flxi_strbuf none = flxi_vhlo_buffer(w);
    flxi_strbuf no_resources = flxi_vhlo_buffer(w);
    flxi_add_bytes(&encodings, w->attrs.bytes.at, w->attrs.bytes.n);
    flxi_add_bytes(&encodings, w->types.bytes.at, w->types.bytes.n);
    flxi_vhlo_put_varint(&no_resources, 0);
    flxi_add_bytes(out,
                   "ML\xefR\x0d"
                   "StableHLO_v" VERSION,
                   16 + sizeof VERSION);
    put_section(w, out, 1, &dialects);
    put_section(w, out, 3, &offsets);
    put_section(w, out, 2, &encodings);
    put_section(w, out, 4, &ir);
    put_section(w, out, 6, &no_resources);
    put_section(w, out, 5, &none);
    put_section(w, out, 0, &strings);
    put_section(w, out, 8, &properties);
}

/* ---- Entry ---- */

static void free_pool(vhlo_writer *w, vhlo_pool *p)
{
    flxi_strbuf_free(&p->bytes);
    flxi_vec_free(w->mem, &p->ends);
    flxi_vec_free(w->mem, &p->dialects);
    flxi_index_free(w->mem, &p->index);
}

flx_code flxi_hlo_write_bytecode(const hlo_module *m, flxi_strbuf *out, flx_error *err)
{
    vhlo_writer w = {.mem = out->mem, .err = err};
    vhlo_pool *pools[] = {&w.strings, &w.names, &w.attrs, &w.types, &w.properties};
    flxi_arena_init(&w.scratch, w.mem);
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        flxi_strbuf_init(&pools[i]->bytes, w.mem);
    put_file(&w, m, out);
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        free_pool(&w, pools[i]);
    flxi_arena_free(&w.scratch);
    if (w.code == FLX_OK && out->failed)
        w.code = flxi_oom(err, "a StableHLO program");
    return w.code;
}
