/* SPDX-License-Identifier: Apache-2.0 */
/* static_program.c: a graph of static types with its machine code, or with the reference evaluator where there is
   none. */
#include "backend/cpu/jit/shared_pool.h"
#include "compile/log_program.h"
#include "compile/pipeline.h"

#include <stdio.h>

static flxi_compile_service *make_service(flx_context *ctx, const flx_compile_options *o)
{
    static const flxi_cache_mode modes[] = {FLXI_CACHE_ON, FLXI_CACHE_READ_ONLY, FLXI_CACHE_OFF};
    flxi_compile_options options = {.cache = {.mode = modes[o->cache], .dir = o->cache_dir}};
    return flxi_compile_service_new(flxi_context_mem(ctx), &options);
}

static int threads_of(flx_context *ctx, const flx_compile_options *o)
{
    if (o->threads > 0)
        return o->threads;
    flxi_pool *pool = flxi_shared_pool(ctx);
    return pool ? flxi_pool_threads(pool) : 1;
}

static flx_code compile(flxi_static_program *p, const flx_graph *g, const flx_compile_options *o, flx_error *err)
{
    flxi_native_options native = {
        .level = (flxi_c_level)o->optimisation, .is_scalar = o->flags & FLX_COMPILE_SCALAR, .dump_dir = o->dump_dir};
    flxi_program_init(&p->program, g->ctx);
    p->program.threads = threads_of(g->ctx, o);
    p->program.shares = o->shares;
    p->program.num_shares = o->num_shares;
    p->program.fusion.keep_apart = o->flags & FLX_COMPILE_UNGROUPED;
    p->program.fusion.evaluate_all = o->flags & FLX_COMPILE_INTERPRET;
    flxi_compile_service *s = make_service(g->ctx, o);
    int64_t begin = flxi_log_clock();
    flx_code code = s ? flxi_program_compile(&p->program, g, s, &native, err) : flxi_oom(err, "a compiler");
    if (code == FLX_OK) {
        flxi_compile_stats stats;
        flxi_compile_service_stats(s, &stats);
        flxi_log_program(&p->program, g->name, flxi_log_clock() - begin, stats.hits, stats.misses);
    }
    flxi_compile_service_free(s);
    return code;
}

flx_code flxi_static_program_compile(flxi_static_program *p, const flx_graph *g, const flx_compile_options *o,
                                     flx_error *err)
{
    flx_error why = {0};
    *p = (flxi_static_program){0};
    flx_code code = compile(p, g, o, &why);
    if (code != FLX_E_DEVICE) {
        if (code != FLX_OK && err)
            *err = why;
        return code;
    }
    flx_compile_options plain = *o;
    plain.flags |= FLX_COMPILE_INTERPRET;
    flxi_static_program_free(p);
    flxi_log(g->ctx, FLX_LOG_FALLBACK, g->name, "no machine code: %.300s", why.message);
    code = compile(p, g, &plain, err);
    snprintf(p->note, sizeof p->note, "no machine code: %.180s", why.message);
    return code;
}

void flxi_static_program_free(flxi_static_program *p)
{
    if (p->program.mem)
        flxi_program_free(&p->program);
    *p = (flxi_static_program){0};
}
