/* SPDX-License-Identifier: Apache-2.0 */
/* body_map.c: passes remember what they made of a body. A new body must not be mistaken for one that is gone and had
   its address: lowering maps the bodies of graphs that live only as long as the pass works on them. */
#include "passes/body_map.h"

#include "recycle.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <string.h>

static flx_code copy_body(void *user, const flx_graph *body, flx_graph **out, flx_error *err)
{
    return flxi_map_bodies(user, body, out, NULL, err);
}

TEST(body_map_tells_a_new_body_from_one_that_is_gone)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = recycle_alloc});
    CHECK(ctx);
    flxi_body_map map = {.mem = &ctx->mem, .map = copy_body};
    map.user = &map;
    for (int k = 0; k < 8; k++) {
        char text[200];
        flx_error err = {0};
        flx_graph *mapped = NULL;
        snprintf(text, sizeof text,
                 "graph b(x: f32[2]) { return add(x, %d) }\n"
                 "graph f(x: f32[2]) { return call(x, body=@b) }\n",
                 k);
        flx_module *m = flx_parse(ctx, text, strlen(text), "text", &err);
        CHECK_MADE(m, &err);
        CHECK_OK(flxi_map_bodies(&map, flx_module_find(m, "f"), &mapped, NULL, &err), &err);
        CHECK_EQ_U64(flx_graph_hash(mapped), flx_graph_hash(flx_module_find(m, "f")));
        flx_graph_release(mapped);
        flx_module_free(m);
    }
    flxi_body_map_free(&map);
    flx_context_free(ctx);
}
