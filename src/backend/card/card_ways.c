/* SPDX-License-Identifier: Apache-2.0 */
/* card_ways.c: tables of ways, launches, and what steps find. */
#include "backend/card/card_way.h"
#include "graph/op/eval.h"
#include "ops/index/gather_nd.h"
#include "ops/opcode.h"

const flxi_card_way *flxi_card_way_of(const flxi_card_row *rows, size_t n, flxi_opcode op)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].op == op)
            return rows[i].way;
    return NULL;
}

bool flxi_card_route(const flxi_card_row *rows, size_t n, size_t i, const char **op, const char **name)
{
    if (i >= n)
        return false;
    *op = flxi_ops[rows[i].op].name;
    *name = rows[i].way->name;
    return true;
}

void flxi_card_accept(const flxi_card_way *w, const char *lacks, const flxi_device_node *n, flxi_node_way *way)
{
    _Alignas(64) unsigned char table[FLXI_CARD_MOST_TABLE];
    *way = (flxi_node_way){0};
    if (!w)
        return;
    const char *why = lacks ? lacks : w->refuse(n);
    if (why) {
        way->refused[way->num_refused].name = w->name;
        way->refused[way->num_refused++].why = why;
        return;
    }
    *way = (flxi_node_way){.code = w,
                           .name = w->name,
                           .table_bytes = w->table_bytes,
                           .scratch = w->prepare(n, table),
                           .is_in_place = w->is_in_place};
}

flx_code flxi_card_prepare(const flxi_device_node *n, const flxi_node_way *way, void *table, const flxi_allocator *mem,
                           flx_error *err)
{
    (void)mem;
    (void)err;
    ((const flxi_card_way *)way->code)->prepare(n, table);
    return FLX_OK;
}

/* ---- Launching ---- */

flx_code flxi_card_launch_line(const flxi_launcher *on, const flxi_card_text *text, int32_t variant, const char *name,
                               uint64_t threads, const flxi_card_argument *arguments, uint32_t num_arguments,
                               flx_error *err)
{
    const flxi_card_launch l = {text, variant, name, (threads + 255) / 256, 256, 1, arguments, num_arguments};
    return on->launch(on, &l, err);
}

/* ---- Findings ---- */

static flx_code fail_start(const flxi_card_finding *t, flx_error *err)
{
    const flxi_device_node *n = t->node;
    int64_t axis = flxi_nd_attrs_of(n->op, n->attrs)->start_index_map.v[t->component];
    const flxi_nd_start s = {FLX_I64, &t->value, 0, axis, n->in_types[0]->dims[axis], t->extent};
    return flxi_nd_start_fail(&flxi_ops[n->op], n->label, n->origin, &s, err);
}

flx_code flxi_card_fail(const flxi_card_finding *t, flx_error *err)
{
    const flxi_device_node *n = t->node;
    if (n->op == OP_gather_nd || n->op == OP_scatter_nd)
        return fail_start(t, err);
    return flxi_index_fail((flxi_index_reader){&flxi_ops[n->op], n->label, n->origin}, FLX_I64, &t->value, 0, t->extent,
                           err);
}
