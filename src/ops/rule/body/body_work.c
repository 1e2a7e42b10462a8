/* SPDX-License-Identifier: Apache-2.0 */
/* body_work.c: shared by the derivative and batching rules of control flow. */
#include "ops/control/control.h"

#include <stdio.h>

bool flxi_can_vary(const flx_type *t)
{
    return flxi_in(FLXI_FLOATS | FLXI_COMPLEX, t->dtype);
}

flx_graph *flxi_new_body(flxi_site *s, const char *name)
{
    flx_graph *g = s->g->error.code ? NULL : flx_graph_new(s->ctx, name);
    if (!g && !s->g->error.code)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a body");
    return g;
}

flx_graph *flxi_finish_body(flxi_site *s, flx_graph *body)
{
    if (body && body->error.code) {
        flxi_graph_fail(s->g, &body->error);
        flx_graph_release(body);
        return NULL;
    }
    return body;
}

flx_val flxi_declare(flx_graph *g, char letter, const flx_type *t)
{
    char name[32];
    snprintf(name, sizeof name, "%c%zu", letter, g->leaves.n);
    return flx_input(g, name, t);
}
