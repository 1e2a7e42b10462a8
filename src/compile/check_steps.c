/* SPDX-License-Identifier: Apache-2.0 */
/* check_steps.c: questions about steps; looking at what one wrote, for runs that want the first value that is not
   finite. */
#include "compile/program.h"
#include "graph/op/origin.h"
#include "graph/type/finite.h"

bool flxi_step_is_emitted(const flxi_routine *l, const flxi_step *s)
{
    return l->chain && l->chain->code && s->kind != STEP_KERNEL;
}

bool flxi_step_is_slow(const flxi_routine *l, const flxi_step *s)
{
    const flxi_node *n = s->kind == STEP_EVALUATE && !s->num_bodies ? flxi_node_at(l->g, s->node) : NULL;
    if (n && n->nin == 0 && (flxi_ops[n->op].traits & TRAIT_OPAQUE)) /* what only the process knows: its index */
        return false;
    return n && !flxi_has_effect(n) && !flxi_has_exchange(n) && !(s->way && s->way->is_small);
}

bool flxi_step_writes(const flxi_program *m, const flxi_step *s, uint32_t k)
{
    if (s->kind == STEP_KERNEL)
        return m->kernels.at[s->kernel].kernel->buffers[k + 1].access != FLX_KERNEL_READ;
    return k >= s->num_reads;
}

/* `ops` are names with commas between them; as many as fit. */
static void hint_group(flx_error *err, const char *ops)
{
    enum { ROOM = 50 };
    size_t n = strlen(ops);
    bool is_cut = n > ROOM;
    for (n = is_cut ? ROOM : n; is_cut && n && ops[n] != ','; n--)
        ;
    flxi_hint(err, "one kernel computes %.*s%s; ungrouped, the first of them is named", (int)n, ops,
              is_cut ? " and more" : "");
}

flx_code flxi_step_check_finite(const flxi_routine *l, const flxi_step *s, uint32_t k, const void *data, flx_error *err)
{
    const flxi_value *v = flxi_value_at(l->g, l->slots[s->slots[k]].value);
    const flxi_node *n = flxi_node_at(l->g, v->node);
    flxi_node_name name;
    flx_code code = flxi_check_finite(v->type, data, flxi_name_node(&name, &flxi_ops[n->op], v->name, n->origin), err);
    if (code != FLX_OK && s->num_nodes > 1 && s->computes)
        hint_group(err, s->computes);
    return code;
}
