/* SPDX-License-Identifier: Apache-2.0 */
/* import_host_calls.c: calls of functions of the process that runs the program: jax.debug.print, jax.pure_callback and
   the like. They become the op `custom` of an operation that the process has registered in the context:
   fluxion.callback, or fluxion.pure_callback where the call has no effect. Its attributes are the number of the
   function and the types of the results: dtype, rank and extents of each.

   In a process that has registered neither, a call without results does nothing, and one with results ends the run when
   it is reached: what checks of Equinox do (error_if) is in a branch that is taken when they fail. */
#include "ops/custom/host_op.h"
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

/* The number of the function: `index` in programs of JAX for a CPU. */
static int64_t function_number(hlo_site *s)
{
    static const char *const dictionaries[] = {"mhlo.backend_config", "backend_config"};
    static const char *const names[] = {"id", "index"};
    int64_t number = -1;
    for (size_t i = 0; i < 4 && number < 0; i++)
        number = flxi_hlo_member_int(s, dictionaries[i / 2], names[i % 2], -1);
    return number;
}

/* Zeros that no run gets to see. */
static void refuse_to_run(hlo_site *s)
{
    flx_graph *g = s->g;
    for (size_t i = 0; i < s->ny; i++) {
        flx_type t;
        if (!flxi_hlo_static_result(s, i, &t))
            return;
        flx_val zeros = flxi_hlo_fill(s, flx_scalar(g, (flx_dtype)t.dtype, 0), &t);
        s->y[i] = flx_check(g, zeros, flx_scalar(g, FLX_BOOL, 0),
                            .message = "the program calls back into Python here, and no function is registered for it");
    }
}

static void callback(hlo_site *s)
{
    flx_ints types;
    flx_val unused;
    bool has_effect = flxi_hlo_flag(s, "has_side_effect", false);
    if (!flxi_custom_is_registered(s->g->ctx, has_effect ? "fluxion.callback" : "fluxion.pure_callback")) {
        refuse_to_run(s);
        return;
    }
    if (s->ny > MAX_HOST_RESULTS) {
        flxi_hlo_unsupported(s, "a host callback with %zu results: at most %d", s->ny, MAX_HOST_RESULTS);
        return;
    }
    if (!result_types(s, &types))
        return;
    flx_attr attrs[] = {
        {.key = "name", .kind = FLX_ATTR_STRING, .as.s = has_effect ? "fluxion.callback" : "fluxion.pure_callback"},
        {.key = "id", .kind = FLX_ATTR_INT, .as.i = function_number(s)},
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
    {"xla_python_cpu_callback", callback},
    {"xla_buffer_python_cpu_callback", callback},
    {"xla_ffi_python_cpu_callback", callback},
    {"xla_ffi_partitioned_python_cpu_callback", callback},
    {"xla_python_gpu_callback", callback},
    {"xla_buffer_python_gpu_callback", callback},
    {"xla_ffi_python_gpu_callback", callback},
    {"xla_ffi_partitioned_python_gpu_callback", callback},
    {"dce_sink", sink},
    {0},
};
