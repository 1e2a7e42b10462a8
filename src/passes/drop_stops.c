/* SPDX-License-Identifier: Apache-2.0 */
/* drop_stops.c: what only derivatives see is dropped where nothing is differentiated any more.

   stop_gradient(x) is x. A choice between both, by which a derivative is stopped for some elements, such as those of
   stages of a pipeline that have not begun, is then a choice between equal values, which simplify.c drops with what
   decides it. max(x, -inf) is x in all bits, NaN included, and differs in its derivative where x is -inf: imported
   softmaxes have one, which hides that scores of masked columns are below all others (blocks/block_parts.c). */
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "passes/pass.h"

#include <math.h>

/* The operand that the node returns as it is; 0: there is none. */
static uint32_t same_value(const flx_graph *g, const flxi_node *n)
{
    if (n->op == OP_stop_gradient)
        return n->in[0];
    if (n->op != OP_max && n->op != OP_min)
        return 0;
    for (int k = 0; k < 2; k++) {
        const flx_tensor *bound = flxi_uniform(g, n->in[k]);
        bool is_float = bound && flxi_is_float(bound->type.dtype);
        double least = n->op == OP_max ? -INFINITY : INFINITY;
        if (is_float && flxi_load_double(bound->type.dtype, bound->data, 0) == least &&
            flxi_type_equal(flxi_type_at(g, n->in[1 - k]), flxi_type_at(g, n->first)))
            return n->in[1 - k];
    }
    return 0;
}

flx_code flxi_pass_drop_stops(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++) {
        const flxi_node *n = flxi_node_at(in, i);
        uint32_t same = same_value(in, n);
        if (same)
            flxi_copy_replace(&c, n->first, c.remap.id[same]);
        else
            code = flxi_copy_node(&c, i);
    }
    return flxi_copy_end(&c, code, out, remap);
}
