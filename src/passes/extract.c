/* SPDX-License-Identifier: Apache-2.0 */
/* extract.c: the part of a graph that computes chosen values. A copy gets them as its only outputs and dead code
   elimination drops the rest; inputs and parameters stay, needed or not, so that the part takes the same feeds as the
   whole. */
#include "passes/pass.h"

#include <fluxion/transform.h>

static flx_code check_value(const flx_graph *g, flx_val v, flx_error *err)
{
    return flx_val_type(g, v)
               ? FLX_OK
               : flxi_fail(err, FLX_E_USAGE, "flx_extract: a value is FLX_NONE or belongs to another graph");
}

static flx_code copy_part(const flx_graph *g, const flx_val *values, size_t count, flx_graph **out, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, g, err);
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++)
        code = flxi_copy_node(&c, i);
    for (size_t k = 0; code == FLX_OK && k < count; k++)
        if (flx_output(c.to, (flx_val){c.remap.id[values[k].id], c.to->serial}, NULL) != FLX_OK)
            code = flx_graph_error(c.to, err);
    if (code == FLX_OK)
        code = flxi_pass_dce(c.to, out, NULL, err);
    flx_graph_release(c.to);
    flxi_remap_free(&c.remap);
    return code;
}

flx_graph *flx_extract(const flx_graph *g, const flx_val *values, size_t count, flx_error *err)
{
    flx_error local = {0};
    flx_graph *out = NULL;
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK && (!values || !count))
        code = flxi_fail(&local, FLX_E_USAGE, "flx_extract: no value given");
    for (size_t k = 0; code == FLX_OK && k < count; k++)
        code = check_value(g, values[k], &local);
    if (code == FLX_OK)
        code = copy_part(g, values, count, &out, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code == FLX_OK ? out : NULL;
}
