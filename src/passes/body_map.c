/* SPDX-License-Identifier: Apache-2.0 */
/* body_map.c: see body_map.h. */
#include "passes/body_map.h"

static flx_graph *map_body(void *user, const flx_graph *body, flx_error *err)
{
    flxi_body_map *b = user;
    flxi_mapped_body made = {.from = (flx_graph *)(uintptr_t)body}; /* only the count changes */
    for (size_t i = 0; i < b->done.n; i++)
        if (b->done.at[i].from == body)
            return b->done.at[i].to;
    if (b->map(b->user, body, &made.to, err) != FLX_OK)
        return NULL;
    if (!flxi_push(b->mem, &b->done, made)) {
        flx_graph_release(made.to);
        flxi_oom(err, "mapping bodies");
        return NULL;
    }
    flx_graph_retain(made.from);
    return made.to;
}

flx_code flxi_map_bodies(flxi_body_map *b, const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, in, err);
    c.attrs = (flxi_attr_map){.body = map_body, .user = b};
    for (uint32_t i = 0; code == FLX_OK && i < in->node_count; i++)
        code = flxi_copy_node(&c, i);
    return flxi_copy_end(&c, code, out, remap);
}

void flxi_body_map_free(flxi_body_map *b)
{
    for (size_t i = 0; i < b->done.n; i++) {
        flx_graph_release(b->done.at[i].from);
        flx_graph_release(b->done.at[i].to);
    }
    flxi_vec_free(b->mem, &b->done);
}
