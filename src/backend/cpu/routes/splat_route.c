/* SPDX-License-Identifier: Apache-2.0 */
/* splat_route.c: images of Gaussian splats and their cotangents, computed by the renderer of the definition, with
   splats left out of pixels that they cannot reach. Threads share the rows of the image; cotangents are summed in one
   order, by one thread. */
#include "backend/cpu/routes/routes.h"
#include "ops/splat/splat.h"

static flxi_scene scene_of(const flxi_route_node *n)
{
    flxi_scene s = {.count = flxi_route_count(n->in_types[SPLAT_OPACITY]), .dtype = n->in_types[0]->dtype};
    for (int i = 0; n->in && i < SPLAT_PARTS; i++)
        s.part[i] = n->in[i];
    s.bands = s.count ? flxi_route_count(n->in_types[SPLAT_HARMONICS]) / (3 * s.count) : 0;
    return s;
}

typedef struct {
    flxi_view view;
    void *image;
} drawing;

static void draw_rows(void *user, int64_t begin, int64_t end)
{
    const drawing *d = user;
    flxi_splat_draw(&d->view, true, begin, end, d->image);
}

size_t flxi_splat_render_scratch(const flxi_route_node *n, int threads)
{
    (void)threads;
    return flxi_view_bytes(scene_of(n).count);
}

flx_code flxi_splat_render_route(const flxi_route_node *n)
{
    const flxi_splat_attrs *a = flxi_splat_attrs_of(n->op, n->attrs);
    drawing d = {.image = n->out[0]};
    flxi_scene s = scene_of(n);
    if (!a)
        return flxi_fail(n->err, FLX_E_UNSUPPORTED, "%s renders no splats", flxi_ops[n->op].name);
    flxi_view_open(&d.view, a, &s, n->scratch);
    flxi_pool_run(n->pool, a->height, 1, draw_rows, &d);
    return FLX_OK;
}

size_t flxi_splat_backward_scratch(const flxi_route_node *n, int threads)
{
    flxi_view v = {.scene = scene_of(n)};
    return flxi_splat_render_scratch(n, threads) + flxi_splat_backward_bytes(&v);
}

flx_code flxi_splat_backward_route(const flxi_route_node *n)
{
    const flxi_splat_attrs *a = flxi_splat_backward_attrs_of(n->op, n->attrs);
    flxi_view v;
    flxi_scene s = scene_of(n);
    if (!a)
        return flxi_fail(n->err, FLX_E_UNSUPPORTED, "%s renders no splats", flxi_ops[n->op].name);
    flxi_view_open(&v, a, &s, n->scratch);
    flxi_splat_backward(&v, n->in[SPLAT_PARTS], n->out[0], (char *)n->scratch + flxi_view_bytes(s.count));
    return FLX_OK;
}
