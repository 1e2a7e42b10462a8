/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_checks.h: what holds for every StableHLO program that a reader accepts: in its tree every value is defined
   before it is used and every region ends with its terminator; its import gives graphs that verify, or an error. */
#ifndef FLX_STABLEHLO_CHECKS_H
#define FLX_STABLEHLO_CHECKS_H

#include "fuzz_checks.h"
#include "graph/mesh.h"
#include "stablehlo/syntax/syntax.h"
#include "transform_checks.h"

#include <fluxion/stablehlo.h>

static void check_error(const flx_error *err)
{
    need(err->code != FLX_OK && err->code != FLX_E_INTERNAL && err->message[0]);
    need(strncmp(err->where, "fuzz:", 5) == 0 || err->code == FLX_E_OOM);
}

/* Which values of a function are defined so far, by number. */
typedef struct {
    unsigned char *is_defined;
    uint32_t count;
} defined;

static void define(defined *d, const hlo_value *const *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        need(values[i]->number < d->count && !d->is_defined[values[i]->number] && values[i]->type && values[i]->name);
        d->is_defined[values[i]->number] = 1;
    }
}

static void check_dense(const hlo_attr *a)
{
    size_t count = a->is_splat ? 1 : a->num_bytes / flx_dtype_size(flxi_hlo_element(a->type->element)->carrier);
    for (int i = 0; !a->is_splat && i < a->type->rank && count; i++)
        need(a->type->dims[i] > 0 && count % (size_t)a->type->dims[i] == 0);
    unsigned char sum = 0; /* reads all of it */
    for (size_t i = 0; i < a->num_bytes; i++)
        sum ^= ((const unsigned char *)a->bytes)[i];
    volatile unsigned char seen = sum;
    (void)seen;
}

static void check_region(defined *d, const hlo_region *r)
{
    define(d, r->args, r->num_args);
    const hlo_op *last = NULL;
    for (const hlo_op *op = r->first; op; op = op->next) {
        for (size_t i = 0; i < op->num_operands; i++)
            need(op->operands[i]->number < d->count && d->is_defined[op->operands[i]->number]);
        for (size_t i = 0; i < op->num_attrs; i++) {
            need(op->attrs[i].value && flxi_hlo_attr(op, op->attrs[i].name) == op->attrs[i].value);
            if (op->attrs[i].value->kind == HLO_A_DENSE)
                check_dense(op->attrs[i].value);
        }
        for (size_t i = 0; i < op->num_regions; i++)
            check_region(d, &op->regions[i]);
        define(d, op->results, op->num_results);
        last = op;
    }
    need(!last || strstr(last->name, "return") || strstr(last->name, "yield"));
}

static void check_module(const hlo_module *m, size_t size)
{
    need(m->arena.held < 1024 * (size + 64));
    for (size_t i = 0; i < m->num_functions; i++) {
        const hlo_function *f = &m->functions[i];
        need(flxi_hlo_find(m, f->name) == f && (f->body.first || f->is_declared_only));
        defined d = {calloc(f->num_values + 1u, 1), f->num_values};
        need(d.is_defined != NULL);
        check_region(&d, &f->body);
        free(d.is_defined);
    }
}

/* The mesh that it names is one, and names of arguments change nothing but names. */
static void check_names_and_mesh(flx_context *ctx, const char *text, size_t size, const flx_module *plain)
{
    flx_error err = {0};
    flx_buffer axes = {0};
    flxi_mesh_axis list[FLXI_MESH_AXES];
    int num_axes;
    int64_t ranks = 0;
    flx_module *m = flx_import_stablehlo_with(ctx, text, size, "fuzz", FLX_STABLEHLO_NAMES, &err);
    need(m || err.code == FLX_E_OOM || err.code == FLX_E_SIZE);
    need(!m || flx_graph_node_count(flx_module_main(m)) == flx_graph_node_count(flx_module_main(plain)));
    flx_module_free(m);
    need(flx_stablehlo_mesh(ctx, text, size, "fuzz", &axes, &err) == FLX_OK || err.code == FLX_E_OOM);
    if (axes.size)
        need(flxi_mesh_read_axes(axes.data, &ranks, list, &num_axes, &err) == FLX_OK && ranks > 1);
    flx_buffer_free(&axes);
}

static void check_import(const char *text, size_t size)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = FUZZ_ALLOC, .memory_limit = 64 << 20});
    flx_module *m = flx_import_stablehlo(ctx, text, size, "fuzz", &err);
    if (!m)
        need(err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0]);
    for (size_t i = 0; i < flx_module_count(m); i++)
        need(flx_graph_verify(flx_module_graph(m, i), &err) == FLX_OK);
    if (m)
        check_names_and_mesh(ctx, text, size, m);
    if (m)
        check_uses(flx_module_main(m));
    flx_module_free(m);
    flx_context_free(ctx);
}

#endif
