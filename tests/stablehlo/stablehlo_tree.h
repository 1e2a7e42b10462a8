/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_tree.h: the tree of a StableHLO program as text, for tests: everything that the two ways of writing an
   operation must agree on. Values are numbers, attributes are in the order of their names; locations and names of
   values are left out. */
#ifndef FLX_STABLEHLO_TREE_H
#define FLX_STABLEHLO_TREE_H

#include "base/half.h"
#include "base/number.h"
#include "stablehlo/syntax/syntax.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const flxi_allocator plain_memory = {flxi_default_alloc, NULL};

static inline void tree_type(FILE *o, const hlo_type *t)
{
    char text[512];
    CHECK(flxi_hlo_type_print(t, text, sizeof text) < sizeof text);
    fputs(text, o);
}

static inline void tree_real(FILE *o, double x)
{
    char text[FLXI_NUMBER_MAX];
    flxi_write_double(text, x, 53);
    fputs(text, o);
}

static inline double real_at(flx_dtype carrier, const unsigned char *at)
{
    uint16_t half;
    float single;
    double wide;
    memcpy(&half, at, sizeof half);
    switch (carrier) {
    case FLX_F16: return flxi_from_f16(half);
    case FLX_BF16: return flxi_from_bf16(half);
    case FLX_F32:
    case FLX_C64: memcpy(&single, at, sizeof single); return (double)single;
    default: memcpy(&wide, at, sizeof wide); return wide;
    }
}

static inline int64_t int_at(flx_dtype carrier, const unsigned char *at)
{
#define TREE_INT(DTYPE, T)        \
    case DTYPE: {                 \
        T v;                      \
        memcpy(&v, at, sizeof v); \
        return (int64_t)v;        \
    }
    switch (carrier) {
        TREE_INT(FLX_I8, int8_t)
        TREE_INT(FLX_I16, int16_t)
        TREE_INT(FLX_I32, int32_t)
        TREE_INT(FLX_U8, uint8_t)
        TREE_INT(FLX_U16, uint16_t)
        TREE_INT(FLX_U32, uint32_t)
        TREE_INT(FLX_BOOL, uint8_t)
    default: {
        int64_t v;
        memcpy(&v, at, sizeof v);
        return v;
    }
    }
#undef TREE_INT
}

static inline void tree_element(FILE *o, flx_dtype carrier, const unsigned char *at)
{
    switch (carrier) {
    case FLX_F16:
    case FLX_BF16:
    case FLX_F32:
    case FLX_F64: tree_real(o, real_at(carrier, at)); break;
    case FLX_C64:
    case FLX_C128:
        fputc('(', o);
        tree_real(o, real_at(carrier, at));
        fputc(',', o);
        tree_real(o, real_at(carrier, at + flx_dtype_size(carrier) / 2));
        fputc(')', o);
        break;
    case FLX_U64: fprintf(o, "%llu", (unsigned long long)int_at(carrier, at)); break;
    default: fprintf(o, "%lld", (long long)int_at(carrier, at)); break;
    }
}

static inline void tree_dense(FILE *o, const hlo_attr *a)
{
    flx_dtype carrier = flxi_hlo_element(a->type->element)->carrier;
    size_t size = flx_dtype_size(carrier);
    CHECK(a->bytes != NULL && a->num_bytes % size == 0);
    fputs(a->is_splat ? "splat<" : "dense<", o);
    for (size_t i = 0; i * size < a->num_bytes; i++) {
        fputs(i ? " " : "", o);
        tree_element(o, carrier, (const unsigned char *)a->bytes + i * size);
    }
    fputs("> ", o);
    tree_type(o, a->type);
}

static inline void tree_attr(FILE *o, const hlo_attr *a);

static inline int compare_entries(const void *a, const void *b)
{
    return strcmp(((const hlo_entry *)a)->name, ((const hlo_entry *)b)->name);
}

static inline void tree_entries(FILE *o, const hlo_entry *entries, size_t n)
{
    hlo_entry *sorted = malloc((n + 1) * sizeof *sorted);
    CHECK(sorted != NULL);
    if (n)
        memcpy(sorted, entries, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_entries);
    for (size_t i = 0; i < n; i++) {
        fprintf(o, "%s%s = ", i ? ", " : "", sorted[i].name);
        tree_attr(o, sorted[i].value);
    }
    free(sorted);
}

static inline void tree_list(FILE *o, const hlo_attr *a)
{
    fputs("list<", o);
    tree_type(o, a->type);
    for (size_t i = 0; i < a->num_numbers; i++) {
        fputs(i ? ", " : ": ", o);
        if (a->ints)
            fprintf(o, "%lld", (long long)a->ints[i]);
        else
            tree_real(o, a->reals[i]);
    }
    fputc('>', o);
}

static inline void tree_attr(FILE *o, const hlo_attr *a)
{
    switch (a->kind) {
    case HLO_A_UNIT: fputs("unit", o); break;
    case HLO_A_BOOL: fputs(a->integer ? "true" : "false", o); break;
    case HLO_A_INT:
        fprintf(o, "%lld : ", (long long)a->integer);
        tree_type(o, a->type);
        break;
    case HLO_A_REAL:
        tree_real(o, a->real);
        fputs(" : ", o);
        tree_type(o, a->type);
        break;
    case HLO_A_STRING:
        CHECK(a->text[a->length] == 0);
        fprintf(o, "\"%s\"", a->text);
        break;
    case HLO_A_SYMBOL: fprintf(o, "@%s", a->text); break;
    case HLO_A_WORD: fprintf(o, "word %s", a->text); break;
    case HLO_A_OPAQUE: fprintf(o, "opaque %s", a->text); break;
    case HLO_A_TYPE:
        fputs("type ", o);
        tree_type(o, a->type);
        break;
    case HLO_A_ARRAY:
        fputc('[', o);
        for (size_t i = 0; i < a->num_items; i++) {
            fputs(i ? ", " : "", o);
            tree_attr(o, a->items[i]);
        }
        fputc(']', o);
        break;
    case HLO_A_LIST: tree_list(o, a); break;
    case HLO_A_DICT:
        fprintf(o, "%s{", a->struct_name ? a->struct_name : "");
        tree_entries(o, a->entries, a->num_entries);
        fputc('}', o);
        break;
    case HLO_A_DENSE: tree_dense(o, a); break;
    }
}

static inline void tree_values(FILE *o, const hlo_value *const *values, size_t n, bool with_types)
{
    fputc('(', o);
    for (size_t i = 0; i < n; i++) {
        fprintf(o, "%s%%%u", i ? ", " : "", values[i]->number);
        if (with_types) {
            fputs(": ", o);
            tree_type(o, values[i]->type);
        }
    }
    fputc(')', o);
}

static inline void tree_region(FILE *o, const hlo_region *r);

static inline void tree_op(FILE *o, const hlo_op *op)
{
    tree_values(o, op->results, op->num_results, true);
    fprintf(o, " = %s", op->name);
    tree_values(o, op->operands, op->num_operands, false);
    fputs(" {", o);
    tree_entries(o, op->attrs, op->num_attrs);
    fputc('}', o);
    for (size_t i = 0; i < op->num_regions; i++)
        tree_region(o, &op->regions[i]);
    fputc('\n', o);
}

static inline void tree_region(FILE *o, const hlo_region *r)
{
    tree_values(o, r->args, r->num_args, true);
    fputs(" {\n", o);
    for (const hlo_op *op = r->first; op; op = op->next)
        tree_op(o, op);
    fputs("}", o);
}

static inline void tree_attrs_of(FILE *o, const char *what, const hlo_attr *const *attrs, size_t n)
{
    for (size_t i = 0; attrs && i < n; i++)
        if (attrs[i]) {
            fprintf(o, " %s %zu ", what, i);
            tree_attr(o, attrs[i]);
        }
}

static inline void tree_function(FILE *o, const hlo_function *f)
{
    fprintf(o, "%s%s @%s ", f->is_public ? "public" : "private", f->is_declared_only ? " declared" : "", f->name);
    tree_region(o, &f->body);
    fputs(" ->", o);
    for (size_t i = 0; i < f->num_results; i++) {
        fputc(' ', o);
        tree_type(o, f->results[i]);
    }
    tree_attrs_of(o, "argument", f->arg_attrs, f->body.num_args);
    tree_attrs_of(o, "result", f->result_attrs, f->num_results);
    fprintf(o, " of %u values\n", f->num_values);
}

static inline void tree_module(FILE *o, const hlo_module *m)
{
    if (m->name)
        fprintf(o, "module @%s\n", m->name);
    for (size_t i = 0; i < m->num_functions; i++)
        tree_function(o, &m->functions[i]);
}

/* The tree of a text, which must parse. Released with free(). */
static inline char *tree_of(const char *text)
{
    hlo_module m;
    flx_error err = {0};
    char *printed = NULL;
    size_t size = 0;
    flx_code code = flxi_hlo_parse(&plain_memory, text, strlen(text), "t", &m, &err);
    CHECK_MSG(code == FLX_OK, "%s: %s\n%s", err.where, err.message, text);
    FILE *o = open_memstream(&printed, &size);
    CHECK(o != NULL);
    tree_module(o, &m);
    CHECK(fclose(o) == 0);
    flxi_hlo_module_free(&m);
    return printed;
}

#endif
