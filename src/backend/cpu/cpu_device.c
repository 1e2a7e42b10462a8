/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_device.c: device "cpu": kernels as machine code through a C compiler (jit/), nodes by hand-written routes
   (routes/), steps on the threads of a pool. */
#include "backend/compile_request.h"
#include "backend/cpu/cpu_facts.h"
#include "backend/cpu/jit/general_code.h"
#include "backend/cpu/jit/kernel_cpu.h"
#include "backend/cpu/jit/native.h"
#include "backend/cpu/jit/shared_pool.h"
#include "backend/cpu/routes/routes.h"
#include "backend/host_memory.h"
#include "backend/kernel_status.h"
#include "base/host/stop.h"

/* ---- Nodes ---- */

static bool route_at(size_t i, const char **op, const char **name)
{
    size_t count;
    const flxi_route *list = flxi_route_list(&count);
    if (i >= count)
        return false;
    *op = flxi_ops[list[i].op].name;
    *name = list[i].name;
    return true;
}

static void accept_node(const flxi_device_node *n, int threads, flxi_node_way *way)
{
    flxi_route_node node = flxi_route_node_of(n);
    flxi_route_reasons reasons;
    const flxi_route *route = flxi_route_find(&node, &reasons);
    *way = (flxi_node_way){.code = route, .num_refused = reasons.count};
    for (int i = 0; i < reasons.count; i++) {
        way->refused[i].name = reasons.at[i].route;
        way->refused[i].why = reasons.at[i].why;
        way->is_small |= reasons.at[i].why == flxi_route_too_small;
    }
    if (!route)
        return;
    way->name = route->name;
    way->is_in_place = route->is_in_place;
    way->is_preferred = route->is_preferred && route->is_preferred(&node);
    way->scratch = route->scratch(&node, threads);
    way->table_bytes = route->kept ? route->kept(&node) : 0;
}

static flx_code prepare_node(const flxi_device_node *n, const flxi_node_way *way, void *table,
                             const flxi_allocator *mem, flx_error *err)
{
    flxi_route_node node = flxi_route_node_of(n);
    node.err = err;
    return ((const flxi_route *)way->code)->prepare(&node, table, mem);
}

/* ---- Compiling ---- */

struct flxi_device_code {
    flxi_arena arena;
    flxi_native *kernels;
    flxi_chain_code *chains;
    flxi_native_code *native;
    flxi_general_code *general; /* … or this */
};

static void free_code(flxi_device_code *c)
{
    if (!c)
        return;
    const flxi_allocator *mem = c->arena.mem;
    flxi_native_free(c->native);
    flxi_general_free(c->general);
    flxi_arena_free(&c->arena);
    flxi_free(mem, c, 1, sizeof *c);
}

static flx_code make_chains(flxi_device_code *c, const flxi_compile_request *q, flxi_chain_code **out, flx_error *err)
{
    flxi_chain_code *chains = *out = flxi_new(&c->arena, flxi_chain_code, q->num_chains);
    if (!chains)
        return flxi_oom(err, "kernels");
    for (size_t i = 0; i < q->num_chains; i++) {
        const flxi_chain *chain = q->chains[i];
        flxi_small_product *products = flxi_new(&c->arena, flxi_small_product, chain->n);
        if (!products)
            return flxi_oom(err, "kernels");
        for (uint32_t k = 0; k < chain->n; k++)
            if (chain->steps[k].kind == CHAIN_NODE)
                flxi_chain_product(&chain->steps[k], chain->threads, &products[k]);
        chains[i] = (flxi_chain_code){.chain = chain, .products = products};
    }
    return FLX_OK;
}

static flxi_native_options native_options(const flx_compile_options *o)
{
    return (flxi_native_options){
        .level = (flxi_c_level)o->optimisation, .is_scalar = o->flags & FLX_COMPILE_SCALAR, .dump_dir = o->dump_dir};
}

/* Less than the usual limit, if the caller sets one; but no compiler starts with less than this. */
static uint64_t compiler_bytes(const flx_compile_options *o)
{
    static const uint64_t least = (uint64_t)256 << 20, usual = (uint64_t)8 << 30;
    uint64_t bytes = (uint64_t)o->memory_limit;
    return !bytes || bytes > usual ? 0 : bytes < least ? least : bytes;
}

typedef struct {
    flxi_device_code *code;
    const flxi_compile_request *request;
} sampling;

static flx_code sample_program(void *user, size_t i, flxi_native_program *out, flx_error *err)
{
    const sampling *s = user;
    const flxi_compile_request *q;
    flxi_chain_code *chains;
    FLXI_TRY(s->request->sample(s->request->sample_user, i, &q, err));
    *out = (flxi_native_program){.n = SIZE_MAX};
    if (!q)
        return FLX_OK;
    FLXI_TRY(make_chains(s->code, q, &chains, err));
    *out = (flxi_native_program){q->kernels, q->is_call, q->num_kernels, chains, q->num_chains};
    return FLX_OK;
}

/* Code for all extents if that is wanted and possible. */
static flx_code build_with(flxi_device_code *c, const flxi_compile_request *q, flxi_compile_service *s, flx_error *err)
{
    const flxi_native_options native = native_options(q->options);
    const flxi_native_program p = {q->kernels, q->is_call, q->num_kernels, c->chains, q->num_chains};
    if (!q->sample)
        return flxi_native_build(s, &p, &native, c->kernels, &c->native, err);
    sampling from = {c, q};
    const flxi_native_samples samples = {sample_program, &from};
    return flxi_general_build(s, &p, &native, &samples, c->kernels, &c->general, err);
}

static flx_code build(flxi_device_code *c, const flxi_compile_request *q, flx_error *err)
{
    const flxi_service_options options = {.cache = flxi_cache_options_of(q->options),
                                          .memory_bytes = compiler_bytes(q->options)};
    flxi_compile_service *s = flxi_compile_service_new(flxi_context_mem(q->ctx), &options);
    if (!s)
        return flxi_oom(err, "a compiler");
    flx_code code = build_with(c, q, s, err);
    flxi_compile_stats stats;
    flxi_compile_service_stats(s, &stats);
    if (code == FLX_OK)
        flxi_log_cache(q, "cpu", stats.hits, stats.misses, &stats.cache);
    flxi_compile_service_free(s);
    return code;
}

static flx_code compile(const flxi_compile_request *q, flxi_kernel_code *kernels, flxi_device_code **out,
                        flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(q->ctx);
    flxi_device_code *c = flxi_alloc(mem, 1, sizeof *c);
    *out = NULL;
    if (!c)
        return flxi_oom(err, "kernels");
    flxi_arena_init(&c->arena, mem);
    c->kernels = flxi_new(&c->arena, flxi_native, q->num_kernels);
    flx_code code = c->kernels ? make_chains(c, q, &c->chains, err) : flxi_oom(err, "kernels");
    if (code == FLX_OK)
        code = build(c, q, err);
    if (code != FLX_OK) {
        free_code(c);
        return code;
    }
    for (size_t i = 0; i < q->num_kernels; i++)
        kernels[i] = (flxi_kernel_code){.code = &c->kernels[i],
                                        .scratch = c->kernels[i].scratch * (size_t)q->threads,
                                        .scalar = c->kernels[i].scalar};
    for (size_t i = 0; i < q->num_chains; i++)
        q->chains[i]->code = c->chains[i].run ? &c->chains[i] : NULL;
    *out = c;
    return FLX_OK;
}

static flx_code check_kernel(const flx_kernel *k, flx_error *err)
{
    flxi_strbuf text;
    flxi_kentry entry;
    flx_kernel *const list[] = {(flx_kernel *)(uintptr_t)k};
    flxi_native_program p = {.kernels = list, .n = 1};
    flxi_strbuf_init(&text, flxi_kernel_mem(k));
    flx_code code = flxi_native_text(&p, &(flxi_native_options){0}, &text, &entry, NULL, err);
    flxi_strbuf_free(&text);
    return code;
}

static flx_code check_call(const flx_kernel *k, flx_error *err)
{
    return flxi_kernel_check_target(k, &flxi_target_c, err);
}

static flx_code write_source(const flxi_compile_request *q, flxi_strbuf *out, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(q->ctx);
    const flxi_native_options native = native_options(q->options);
    flxi_kentry *entries = flxi_alloc(mem, q->num_kernels, sizeof *entries);
    if (!entries)
        return flxi_oom(err, "text");
    flxi_native_program p = {.kernels = q->kernels, .is_call = q->is_call, .n = q->num_kernels};
    flx_code code = flxi_native_text(&p, &native, out, entries, NULL, err);
    flxi_free(mem, entries, q->num_kernels, sizeof *entries);
    return code;
}

/* ---- Threads ---- */

struct flxi_queue {
    const flxi_allocator *mem;
    flxi_pool *pool; /* NULL: there are no threads, and everything runs on the caller */
    bool owns_pool;
};

static int count_threads(flx_context *ctx, int threads)
{
    if (threads > 0)
        return threads;
    flxi_pool *pool = flxi_shared_pool(ctx);
    return pool ? flxi_pool_threads(pool) : 1;
}

static flx_code open_queue(flx_context *ctx, int threads, flxi_queue **out, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    *out = NULL;
    if (threads == 1)
        return FLX_OK;
    flxi_queue *q = flxi_alloc(mem, 1, sizeof *q);
    if (!q)
        return flxi_oom(err, "threads");
    *q = (flxi_queue){.mem = mem, .owns_pool = threads > 1};
    q->pool = q->owns_pool ? flxi_pool_new(mem, threads) : flxi_shared_pool(ctx);
    *out = q;
    return FLX_OK;
}

static void close_queue(flxi_queue *q)
{
    if (!q)
        return;
    if (q->owns_pool)
        flxi_pool_free(q->pool);
    flxi_free(q->mem, q, 1, sizeof *q);
}

static flxi_pool *pool_of(const flxi_device_run *r)
{
    return r->queue ? r->queue->pool : NULL;
}

/* Threads of a run with large steps stay awake between them. */
static void begin(const flxi_device_run *r)
{
    if (r->is_large && pool_of(r))
        flxi_pool_wake(pool_of(r));
}

static void end(const flxi_device_run *r)
{
    if (r->is_large && pool_of(r))
        flxi_pool_rest(pool_of(r));
}

/* ---- Steps ---- */

static flx_code run_kernel(const flxi_device_run *r, const flxi_kernel_step *s)
{
    const flxi_native *k = s->code;
    flxi_native_args args = {s->data, NULL, {s->grid[0], s->grid[1], s->grid[2]}, s->lanes, k->sizes};
    int64_t least = r->min_parallel ? r->min_parallel : FLXI_MIN_PARALLEL;
    flxi_native_run(k, &args, s->work, s->work >= least ? pool_of(r) : NULL, s->scratch);
    return FLX_OK;
}

static flx_code run_call(const flxi_device_run *r, const flxi_call_step *s)
{
    enum { SUBGROUP = 32 }; /* as the interpreter has it */
    uint32_t status[KSTATUS_WORDS] = {0};
    const flxi_native *k = s->code;
    flxi_native_args args = {s->data, s->count, {s->grid[0], s->grid[1], s->grid[2]}, SUBGROUP, k->sizes};
    int64_t least = r->min_parallel ? r->min_parallel : FLXI_MIN_PARALLEL;
    flxi_native_call(k, &args, s->work >= least ? pool_of(r) : NULL, s->scratch, status);
    flxi_kdispatch d = {.kernel = s->kernel};
    return status[KSTATUS_TRAPPED] ? flxi_kernel_report_status(&d, status, r->err) : FLX_OK;
}

static flx_code run_node(const flxi_device_run *r, const flxi_node_step *s)
{
    flxi_route_node n = flxi_route_node_of(s->node);
    n.in = s->in;
    n.out = s->out;
    n.pool = pool_of(r);
    n.kept = s->way->table;
    n.scratch = s->scratch;
    n.err = r->err;
    n.status = r->status;
    return ((const flxi_route *)s->way->code)->run(&n);
}

static flx_code run_chain(const flxi_device_run *r, const flxi_chain *c, void *const *at)
{
    (void)r;
    ((const flxi_chain_code *)c->code)->run(at);
    return FLX_OK;
}

/* Steps of a loop between two looks at whether the run is stopped. */
static const int64_t steps_at_once = 64;

typedef struct {
    const flxi_chain_code *code;
    const flxi_loop_part *parts;
    int64_t length;
} looping;

static void run_parts(void *user, int64_t begin_part, int64_t end_part)
{
    const looping *l = user;
    for (const flxi_loop_part *p = l->parts + begin_part; p < l->parts + end_part; p++)
        for (int64_t from = 0, to; from < l->length; from = to) {
            to = l->length - from > steps_at_once ? from + steps_at_once : l->length;
            if (flxi_stopped())
                return;
            l->code->run_loop(p->at, p->rows, p->carries, from, to);
        }
}

static flx_code run_loop(const flxi_device_run *r, const flxi_chain *c, const flxi_loop_part *parts, uint32_t num_parts,
                         int64_t length)
{
    looping l = {c->code, parts, length};
    flxi_pool_run(num_parts > 1 ? pool_of(r) : NULL, num_parts, 1, run_parts, &l);
    return FLX_OK;
}

typedef struct {
    void (*fn)(void *user, int64_t i);
    void *user;
} apart;

static void call_apart(void *user, int64_t begin_call, int64_t end_call)
{
    const apart *a = user;
    for (int64_t i = begin_call; i < end_call; i++)
        a->fn(a->user, i);
}

static void run_apart(const flxi_device_run *r, int64_t count, void (*fn)(void *user, int64_t i), void *user)
{
    apart a = {fn, user};
    flxi_pool_run(pool_of(r), count, 1, call_apart, &a);
}

extern const flxi_device flxi_device_cpu; /* devices.def */

const flxi_device flxi_device_cpu = {
    .name = "cpu",
    .about = "compiled code for this machine, on all cores",
    .facts = flxi_cpu_facts,
    .route = route_at,
    .run_dispatch = flxi_kernel_run_cpu,
    .check_kernel = check_kernel,
    .check_call = check_call,
    .accept_node = accept_node,
    .prepare_node = prepare_node,
    .accept_chain = flxi_chain_accept,
    .compile = compile,
    .free_code = free_code,
    .write_source = write_source,
    .count_threads = count_threads,
    .open_queue = open_queue,
    .close_queue = close_queue,
    .min_parallel = FLXI_MIN_PARALLEL,
    .uses_host_memory = true,
    .allocate = flxi_host_allocate,
    .release = flxi_host_release,
    .copy = flxi_host_copy,
    .begin = begin,
    .end = end,
    .run_kernel = run_kernel,
    .run_call = run_call,
    .run_node = run_node,
    .run_chain = run_chain,
    .run_loop = run_loop,
    .run_apart = run_apart,
};
