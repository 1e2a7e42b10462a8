/* SPDX-License-Identifier: Apache-2.0 */
/* import_custom_call.c: custom_call by the name of its target. */
#include "stablehlo/import/call/import_custom_call.h"

#include <string.h>

static const hlo_call_target *const target_tables[] = {flxi_hlo_check_targets,  flxi_hlo_jax_targets,
                                                       flxi_hlo_lapack_targets, flxi_hlo_dynamic_targets,
                                                       flxi_hlo_host_targets,   flxi_hlo_rule_targets};

/* Drops operands that only repeat the extents of results. */
static bool drop_shape_operands(hlo_site *s)
{
    flx_ints drop = flxi_hlo_ints(s, "indices_of_shape_operands");
    hlo_op *op = flxi_hlo_new(s, hlo_op, 1);
    flx_val *x = flxi_hlo_new(s, flx_val, s->nx);
    const hlo_value **operands = flxi_hlo_new(s, const hlo_value *, s->op->num_operands);
    if (!op || !x || !operands || flxi_hlo_failed(s))
        return false;
    *op = *s->op;
    op->num_operands = 0;
    for (size_t i = 0; i < s->nx; i++) {
        bool is_shape = false;
        for (size_t k = 0; k < drop.n; k++)
            is_shape |= drop.v[k] == (int64_t)i;
        if (is_shape)
            continue;
        x[op->num_operands] = s->x[i];
        operands[op->num_operands++] = s->op->operands[i];
    }
    op->operands = operands;
    s->op = op;
    s->x = x;
    s->nx = op->num_operands;
    return true;
}

void flxi_hlo_import_custom_call(hlo_site *s)
{
    hlo_site whole = *s;
    if (s->nx == s->op->num_operands && flxi_hlo_has(s, "indices_of_shape_operands") && drop_shape_operands(&whole))
        s = &whole;
    const char *target = flxi_hlo_word(s, "call_target_name", "");
    for (size_t t = 0; t < sizeof target_tables / sizeof *target_tables; t++)
        for (const hlo_call_target *row = target_tables[t]; row->target; row++)
            if (strcmp(row->target, target) == 0) {
                row->import(s);
                return;
            }
    flxi_hlo_unsupported(s, "the function @%.100s is not known", target);
}
