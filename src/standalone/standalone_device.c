/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_device.c: the device whose programs become text. It accepts what the writers can write: every kernel in
   plain C, and the nodes that parts.def has a part for. It has no queue and no memory: nothing runs here. */
#include "standalone/standalone.h"

#include "emit/kernel_emit.h"

static size_t scratch_of(const flxi_sa_part *p, const flxi_device_node *n, bool has_threads)
{
    const flxi_sa_cuts cuts = has_threads ? flxi_sa_cuts_of(p, n) : (flxi_sa_cuts){0};
    return cuts.units > 1 ? flxi_sa_cuts_bytes(&cuts) : p->scratch ? p->scratch(n) : 0;
}

static void accept_part(const flxi_device_node *n, bool has_vectors, bool has_threads, flxi_node_way *way)
{
    const char *why = NULL;
    const flxi_sa_part *p = flxi_sa_part_find(n, has_vectors, &why);
    *way = (flxi_node_way){.code = p};
    if (p) {
        way->name = p->name;
        way->calls_bodies = p->calls_bodies;
        way->is_in_place = flxi_sa_part_is_in_place(p);
        way->scratch = (scratch_of(p, n, has_threads) + 63) / 64 * 64;
    } else if (why) {
        way->refused[0].name = "part";
        way->refused[0].why = why;
        way->num_refused = 1;
    }
}

#define ACCEPT(name, has_vectors, has_threads)                                   \
    static void name(const flxi_device_node *n, int threads, flxi_node_way *way) \
    {                                                                            \
        (void)threads;                                                           \
        accept_part(n, has_vectors, has_threads, way);                           \
    }
ACCEPT(accept_plain, false, false)
ACCEPT(accept_vectors, true, false)
ACCEPT(accept_threads, false, true)
ACCEPT(accept_vectors_threads, true, true)

static flx_code check_kernel(const flx_kernel *k, flx_error *err)
{
    return flxi_kernel_check_target(k, &flxi_target_c, err);
}

static flx_code compile(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **code,
                        flx_error *err)
{
    *code = NULL;
    for (size_t i = 0; i < q->num_kernels; i++) {
        kernels[i] = (flxi_kernel_code){.code = q->kernels[i]};
        FLXI_TRY(check_kernel(q->kernels[i], err));
        bool is_call = q->is_call && q->is_call[i];
        FLXI_TRY(flxi_sa_kernel_scratch(q->kernels[i], is_call, flxi_context_mem(q->ctx), &kernels[i].scratch, err));
    }
    return FLX_OK;
}

#define TEXT_DEVICE(accept, scalar)                                                                          \
    {                                                                                                        \
        .name = "standalone", .about = "C text", .accept_node = accept, .check_kernel = check_kernel,        \
        .check_call = check_kernel, .compile = compile, .min_parallel = INT64_MAX, .uses_host_memory = true, \
        .has_scalar_rows = (scalar),                                                                         \
    }

const flxi_device flxi_device_standalone = TEXT_DEVICE(accept_plain, true);
const flxi_device flxi_device_standalone_vectors = TEXT_DEVICE(accept_vectors, false);
const flxi_device flxi_device_standalone_threads = TEXT_DEVICE(accept_threads, true);
const flxi_device flxi_device_standalone_vectors_threads = TEXT_DEVICE(accept_vectors_threads, false);
