/* SPDX-License-Identifier: Apache-2.0 */
/* import_host_calls.c: calls of functions of the process that runs the program. They become the op `custom` of an
   operation that the process has registered in the context: fluxion.callback, or fluxion.pure_callback where the call
   has no effect. Its attributes are the number of the function and the types of the results: dtype, rank and extents of
   each. */
#include "stablehlo/import/call/import_custom_call.h"

enum { MAX_HOST_RESULTS = 16 };

/* A call without results returns a flag that is not used: an op has at least one result. */
static bool result_types(hlo_site *s, flx_ints *out)
{
    int64_t *v = flxi_hlo_new(s, int64_t, (FLX_MAX_RANK + 2) * (MAX_HOST_RESULTS + 1));
    if (!v)
        return false;
    *out = (flx_ints){v, 0};
    for (size_t i = 0; i < s->op->num_results; i++) {
        flx_type t;
        if (flxi_hlo_parts(flxi_hlo_result_type(s, i)) == 0)
            continue; /* a token */
        if (!flxi_hlo_static_result(s, i, &t))
            return false;
        v[out->n++] = t.dtype;
        v[out->n++] = t.rank;
        for (int k = 0; k < t.rank; k++)
            v[out->n++] = t.dims[k];
    }
    if (out->n == 0) {
        v[0] = FLX_BOOL;
        v[1] = 0;
        out->n = 2;
    }
    return true;
}

static void callback(hlo_site *s)
{
    flx_ints types;
    flx_val unused;
    bool has_effect = flxi_hlo_flag(s, "has_side_effect", false);
    if (s->ny > MAX_HOST_RESULTS) {
        flxi_hlo_unsupported(s, "a host callback with %zu results: at most %d", s->ny, MAX_HOST_RESULTS);
        return;
    }
    if (!result_types(s, &types))
        return;
    flx_attr attrs[] = {
        {.key = "name", .kind = FLX_ATTR_STRING, .as.s = has_effect ? "fluxion.callback" : "fluxion.pure_callback"},
        {.key = "id",
         .kind = FLX_ATTR_INT,
         .as.i =
             flxi_hlo_member_int(s, "mhlo.backend_config", "id", flxi_hlo_member_int(s, "backend_config", "id", -1))},
        {.key = "types", .kind = FLX_ATTR_INTS, .as.ints = types},
    };
    flx_op(s->g, "custom", s->x, s->nx, attrs, 3, s->ny ? s->y : &unused, s->ny ? s->ny : 1);
}

/* Keeps its operands alive in other compilers; nothing to do. */
static void sink(hlo_site *s)
{
    (void)s;
}

const hlo_call_target flxi_hlo_host_targets[] = {
    {"fluxion_callback", callback},
    {"dce_sink", sink},
    {0},
};
