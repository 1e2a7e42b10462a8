/* SPDX-License-Identifier: Apache-2.0 */
/* drop_stops.c: stop_gradient(x) is x where nothing is differentiated any more. A choice between both, by which a
   derivative is stopped for some elements, such as those of stages of a pipeline that have not begun, is then a choice
   between equal values, which simplify.c drops with what decides it. */
#include "ops/opcode.h"
#include "passes/pass.h"

flx_code flxi_pass_drop_stops(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        if (n->op == OP_stop_gradient)
            flxi_copy_replace(&c, n->first, c.remap.id[n->in[0]]);
        else
            code = flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}
