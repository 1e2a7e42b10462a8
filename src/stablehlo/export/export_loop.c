/* SPDX-License-Identifier: Apache-2.0 */
/* export_loop.c: see export_loop.h. */
#include "stablehlo/export/export_loop.h"

#include <stdio.h>

bool flxi_loop_begin(export_loop *l, flxi_site *s, uint32_t room)
{
    *l = (export_loop){.s = s, .room = room + 1};
    l->init = flxi_rule_new(s, flx_val, l->room);
    l->in_cond = flxi_rule_new(s, flx_val, l->room);
    l->in_body = flxi_rule_new(s, flx_val, l->room);
    l->out = flxi_rule_new(s, flx_val, l->room);
    l->cond = flx_graph_new(s->ctx, "cond");
    l->body = flx_graph_new(s->ctx, "body");
    if (!l->cond || !l->body)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
    return l->init && l->in_cond && l->in_body && l->out && l->cond && l->body;
}

uint32_t flxi_loop_carry(export_loop *l, flx_val init)
{
    uint32_t i = l->count;
    char name[24];
    if (i == l->room)
        return i - 1;
    const flx_type *t = flxi_typeof(l->s, init);
    snprintf(name, sizeof name, "c%u", i);
    l->init[i] = init;
    l->in_cond[i] = flx_input(l->cond, name, t);
    l->in_body[i] = l->out[i] = flx_input(l->body, name, t);
    l->count++;
    return i;
}

uint32_t flxi_loop_counter(export_loop *l)
{
    return flxi_loop_carry(l, flx_scalar(l->s->g, FLX_I64, 0.0));
}

void flxi_loop_count(export_loop *l)
{
    l->out[EXPORT_COUNTER] = flx_add(l->body, l->in_body[EXPORT_COUNTER], flx_scalar(l->body, FLX_I64, 1.0));
}

flx_val flxi_loop_below(export_loop *l, int64_t bound)
{
    return flx_lt(l->cond, l->in_cond[EXPORT_COUNTER], flx_scalar(l->cond, FLX_I64, (double)bound));
}

void flxi_loop_end(export_loop *l, flx_val going, flx_val *y)
{
    flx_graph *g = l->s->g;
    flx_output(l->cond, going, NULL);
    for (uint32_t i = 0; i < l->count; i++)
        flx_output(l->body, l->out[i], NULL);
    if (l->cond->error.code)
        flxi_graph_fail(g, &l->cond->error);
    if (l->body->error.code)
        flxi_graph_fail(g, &l->body->error);
    flx_while(g, l->init, l->count, y, l->count, l->cond, l->body, FLX_DEFAULT);
}

void flxi_loop_free(export_loop *l)
{
    flx_graph_release(l->cond);
    flx_graph_release(l->body);
}
