/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c: executables: options, parameters, and the ways to run one. What runs is a variant (variant.c). */
#include "runtime/exec.h"

#include "backend/devices.h"
#include "base/host/float_mode.h"
#include "base/host/stop.h"
#include "base/options.h"
#include "runtime/caller_memory.h"
#include "runtime/recording.h"

/* ---- Options ---- */

static flx_code check_shares(const char *function, const flx_graph *g, const flx_compile_options *o, flx_error *err)
{
    if (o->num_shares && !o->shares)
        return flxi_fail(err, FLX_E_USAGE, "%s: shares are missing", function);
    for (size_t i = 0; i < o->num_shares; i++)
        if (o->shares[i].input >= g->leaves.n || o->shares[i].output >= g->outputs.n)
            return flxi_fail_hint(
                err, FLX_E_USAGE, "both are positions, counted from 0",
                "%s: shares[%zu] is input %zu and output %zu, but there are %zu inputs and %zu outputs", function, i,
                o->shares[i].input, o->shares[i].output, g->leaves.n, g->outputs.n);
    return FLX_OK;
}

flx_code flxi_compile_options_read(const char *function, const flx_graph *g, const flx_compile_options *given,
                                   flx_compile_options *o, flx_error *err)
{
    FLXI_TRY(FLXI_READ_GROWN_OPTIONS(flx_compile_options, stop, o, given, err));
    if (o->flags & ~(uint32_t)FLXI_COMPILE_FLAGS)
        return flxi_fail_hint(err, FLX_E_USAGE, "flags: 0 or a sum of FLX_COMPILE_...", "%s: unknown flags 0x%x",
                              function, (unsigned)(o->flags & ~(uint32_t)FLXI_COMPILE_FLAGS));
    if (o->threads < 0 || o->threads > 64 || o->optimisation < 0 || o->optimisation > 4 || o->cache < 0 ||
        o->cache > 2 || o->reserved)
        return flxi_fail_hint(err, FLX_E_USAGE, "threads 0 to 64, optimisation 0 to 4, cache 0 to 2, reserved 0",
                              "%s: threads %d, optimisation %d, cache %d, reserved %d", function, (int)o->threads,
                              (int)o->optimisation, (int)o->cache, (int)o->reserved);
    if (o->num_dims && !o->dims)
        return flxi_fail(err, FLX_E_USAGE, "%s: dims are missing", function);
    FLXI_TRY(check_shares(function, g, o, err));
    if (o->memory_budget < 0)
        return flxi_fail_hint(err, FLX_E_USAGE, "give a number of bytes, or 0 for no budget",
                              "%s: memory_budget is %lld", function, (long long)o->memory_budget);
    FLXI_TRY(flxi_check_limits(function, o->time_limit, o->memory_limit, err));
    return flxi_check_symbols(g->symbols.at, g->symbols.n, g->name, o->dims, o->num_dims, err);
}

static flx_code keep_text(flx_exec *e, const char **text, flx_error *err)
{
    if (!*text)
        return FLX_OK;
    *text = flxi_arena_text(&e->arena, *text, strlen(*text));
    return *text ? FLX_OK : flxi_oom(err, "options");
}

/* ---- Making and freeing ---- */

static bool all_bound(const flx_exec *e)
{
    for (size_t i = 0; i < e->g->symbols.n; i++)
        if (!flxi_binding_of(e->options.dims, e->options.num_dims, e->g->symbols.at[i]))
            return false;
    return true;
}

static flx_code check_guard(const flx_exec *e, flx_error *err)
{
    size_t guard = e->options.guard;
    if (!guard)
        return FLX_OK;
    const flx_type *t = guard <= e->g->outputs.n ? flxi_type_at(e->g, e->g->outputs.at[guard - 1].val) : NULL;
    if (t && flxi_is_float(t->dtype) && t->rank == 0)
        return FLX_OK;
    return flxi_fail(err, FLX_E_USAGE, "flx_compile: guard is %zu, but there is no output %zu that is a real scalar",
                     guard, guard - 1);
}

static flx_code make_exec(flx_exec *e, const flx_graph *g, flx_error *err)
{
    FLXI_TRY(flxi_pass_dce(g, &e->g, NULL, err));
    FLXI_TRY(keep_text(e, &e->options.cache_dir, err));
    FLXI_TRY(keep_text(e, &e->options.dump_dir, err));
    FLXI_TRY(keep_text(e, &e->options.record_path, err));
    flx_dim_binding *dims = flxi_new(&e->arena, flx_dim_binding, e->options.num_dims);
    e->params = flxi_alloc(e->mem, e->g->leaves.n, sizeof *e->params);
    if (!dims || !e->params)
        return flxi_oom(err, "an executable");
    for (size_t i = 0; i < e->options.num_dims; i++) {
        dims[i] = e->options.dims[i];
        FLXI_TRY(keep_text(e, &dims[i].name, err));
    }
    e->options.dims = dims;
    e->options.shares = flxi_dup(&e->arena, flx_share, e->options.shares, e->options.num_shares);
    if (e->options.num_shares && !e->options.shares)
        return flxi_oom(err, "an executable");
    e->options.device = NULL;
    FLXI_TRY(check_guard(e, err));
    e->symbols = flxi_dup(&e->arena, const char *, g->symbols.at, g->symbols.n);
    e->num_symbols = g->symbols.n;
    if (e->num_symbols && !e->symbols)
        return flxi_oom(err, "an executable");
    FLXI_TRY(e->device->open_queue(e->ctx, e->options.threads, &e->queue, err));
    if (!all_bound(e))
        return FLX_OK;
    e->is_fixing = true;
    FLXI_TRY(flxi_variant_for(e, e->options.dims, e->options.num_dims, &e->fixed, err));
    e->is_fixing = false;
    flxi_variant_leave(e->fixed);
    return FLX_OK;
}

static flx_exec *new_exec(flx_context *ctx)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_exec *e = flxi_alloc(mem, 1, sizeof *e);
    if (!e)
        return NULL;
    bool has_lock = pthread_mutex_init(&e->lock, NULL) == 0;
    if (!has_lock || pthread_cond_init(&e->compiled, NULL) != 0) {
        if (has_lock)
            pthread_mutex_destroy(&e->lock);
        flxi_free(mem, e, 1, sizeof *e);
        return NULL;
    }
    e->ctx = ctx;
    e->mem = mem;
    flxi_arena_init(&e->arena, mem);
    return e;
}

flx_exec *flx_compile(const flx_graph *g, const flx_compile_options *options, flx_error *err)
{
    flx_error local = {0};
    flx_exec *e = NULL;
    const flxi_device *device = NULL;
    flx_code code = flx_graph_error(g, &local);
    flx_compile_options o;
    if (code == FLX_OK)
        code = flxi_compile_options_read("flx_compile", g, options, &o, &local);
    if (code == FLX_OK)
        code = flxi_device_for_programs(o.device, &device, &local);
    if (code == FLX_OK) {
        e = new_exec(g->ctx);
        code = e ? FLX_OK : flxi_oom(&local, "an executable");
    }
    if (e) {
        flxi_stop_scope scope;
        e->options = o;
        e->options.stop = NULL;
        e->device = device;
        flxi_stop_enter(&scope, o.stop, o.time_limit);
        code = make_exec(e, g, &local);
        if (code == FLX_OK)
            code = flxi_stop_check(&local);
        flxi_stop_leave(&scope);
    }
    if (code == FLX_OK)
        return e;
    flx_exec_free(e);
    if (err)
        *err = local;
    return NULL;
}

void flx_exec_free(flx_exec *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->variants.n; i++)
        flxi_variant_free(e->variants.at[i]);
    flxi_vec_free(e->mem, &e->variants);
    for (size_t i = 0; e->params && i < e->g->leaves.n; i++)
        flx_tensor_release(e->params[i]);
    if (e->params)
        flxi_free(e->mem, e->params, e->g->leaves.n, sizeof *e->params);
    e->device->close_queue(e->queue);
    flx_graph_release(e->g);
    flxi_arena_free(&e->arena);
    pthread_cond_destroy(&e->compiled);
    pthread_mutex_destroy(&e->lock);
    flxi_free(e->mem, e, 1, sizeof *e);
}

/* ---- Running ---- */

flxi_run_setup flxi_exec_setup(const flx_exec *e, const flx_run_options *options)
{
    return (flxi_run_setup){.options = options,
                            .queue = e->queue,
                            .checks_finite = options && (options->flags & FLX_RUN_CHECK_FINITE),
                            .guard = e->options.guard,
                            .flushes = e->options.flags & FLX_COMPILE_FLUSH};
}

static flx_code make_outputs(flx_exec *e, const flxi_variant *v, flx_tensor **outputs, void **out, flx_error *err)
{
    for (size_t i = 0; i < v->g->outputs.n; i++) {
        outputs[i] = flx_tensor_new(e->ctx, flxi_type_at(v->g, v->g->outputs.at[i].val), NULL, err);
        if (!outputs[i])
            return err && err->code ? (flx_code)err->code : FLX_E_OOM;
        out[i] = outputs[i]->data;
    }
    return FLX_OK;
}

/* Everything that a run allocates is known before it. */
static flx_code check_memory(const flxi_variant *v, const flx_run_options *o, flx_error *err)
{
    int64_t limit = o ? o->memory_limit : 0;
    size_t need = limit ? flxi_variant_memory(v) : 0, nbytes;
    for (size_t i = 0; limit && i < v->g->outputs.n; i++)
        if (!flxi_static_bytes(flxi_type_at(v->g, v->g->outputs.at[i].val), &nbytes) ||
            !flxi_add_size(need, nbytes, &need))
            need = SIZE_MAX;
    if (!limit || need <= (uint64_t)limit)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_SIZE, "raise --memory-limit (flx_run_options.memory_limit)",
                          "the run needs %zu bytes, more than its limit of %lld", need, (long long)limit);
}

static flx_code run_variant(flxi_variant *v, flxi_feeding *f, const flxi_run_setup *setup, flx_tensor **outputs,
                            flx_error *err)
{
    flx_exec *e = v->exec;
    FLXI_TRY(check_memory(v, setup->options, err));
    size_t room = e->g->leaves.n + e->g->outputs.n;
    const void **in = flxi_alloc(e->mem, room, sizeof *in);
    if (!in)
        return flxi_oom(err, "inputs");
    void **out = (void **)in + e->g->leaves.n;
    for (size_t i = 0; i < e->g->leaves.n; i++)
        in[i] = f->in[i]->data;
    flx_code code = make_outputs(e, v, outputs, out, err);
    if (code == FLX_OK)
        code = flxi_variant_run(v, setup, in, out, err);
    for (size_t i = 0; code != FLX_OK && i < e->g->outputs.n; i++) {
        flx_tensor_release(outputs[i]);
        outputs[i] = NULL;
    }
    flxi_free(e->mem, in, room, sizeof *in);
    return code;
}

static flx_code run_fed(flx_exec *e, flxi_feeding *f, const flxi_run_setup *setup, flx_tensor **outputs, flx_error *err)
{
    flxi_variant *v;
    FLXI_TRY(flxi_feeding_check(f));
    FLXI_TRY(flxi_variant_for(e, f->bound.at, f->bound.n, &v, err));
    if (setup->observe) /* the observer keeps texts of the steps */
        flxi_variant_pin(v);
    flx_code code = run_variant(v, f, setup, outputs, err);
    flxi_variant_leave(v);
    return code;
}

/* Parameters that were set stand in for those that are not given. */
static flx_code feed_params(const flx_exec *e, const flx_feed *feeds, size_t n, flx_feed *all, size_t *count)
{
    if (n)
        memcpy(all, feeds, n * sizeof *feeds);
    *count = n;
    for (size_t i = 0; i < e->g->leaves.n; i++) {
        const char *name = flxi_value_at(e->g, e->g->leaves.at[i])->name;
        bool is_given = false;
        for (size_t k = 0; k < n; k++)
            is_given |= feeds[k].name && strcmp(feeds[k].name, name) == 0;
        if (e->params[i] && !is_given)
            all[(*count)++] = (flx_feed){name, e->params[i]};
    }
    return FLX_OK;
}

/* What a run is given, and what it is done with. */
typedef flx_code (*use_fn)(flx_exec *e, flxi_feeding *f, const flxi_run_setup *setup, void *user, flx_error *err);

static flx_code with_feeds(flx_exec *e, const flxi_run_setup *setup, const flx_feed *feeds, size_t num_feeds,
                           use_fn use, void *user, flx_error *err)
{
    size_t room = num_feeds + e->g->leaves.n, count;
    flx_feed *all = flxi_alloc(e->mem, room, sizeof *all);
    if (!all)
        return flxi_oom(err, "inputs");
    feed_params(e, feeds, num_feeds, all, &count);
    flx_run_options o = setup->options ? *setup->options : (flx_run_options){0};
    if (!o.dims) {
        o.dims = e->options.dims;
        o.num_dims = e->options.num_dims;
    }
    flxi_feeding f;
    flx_code code = flxi_feeding_begin(&f, e->g, &o, all, count, err);
    if (code == FLX_OK)
        code = use(e, &f, setup, user, err);
    flxi_feeding_end(&f);
    flxi_free(e->mem, all, room, sizeof *all);
    return code == FLX_OK ? FLX_OK : flxi_at(err, "%s", e->g->name);
}

static flx_code use_for_running(flx_exec *e, flxi_feeding *f, const flxi_run_setup *setup, void *user, flx_error *err)
{
    flx_code code = run_fed(e, f, setup, user, err);
    if (code != FLX_OK && e->options.record_path && !flxi_stopped())
        flxi_record_failure(e, setup->options, f, err);
    return code;
}

flx_code flxi_exec_run_named(flx_exec *e, const flxi_run_setup *setup, const flx_feed *feeds, size_t num_feeds,
                             flx_tensor **outputs, flx_error *err)
{
    const flx_run_options *o = setup->options;
    flxi_stop_scope scope;
    flxi_stop_enter(&scope, o ? o->stop : NULL, o ? o->time_limit : 0);
    flx_code code = with_feeds(e, setup, feeds, num_feeds, use_for_running, outputs, err);
    flxi_stop_leave(&scope);
    return code;
}

/* An executable is for one device, and for the dimensions of its graph. */
static flx_code read_run_options(const char *function, const flx_exec *e, const flx_run_options *given,
                                 flx_run_options *out, flx_error *err)
{
    char name[60];
    FLXI_TRY(flxi_run_options_read(given, out, err));
    if (out->device && strcmp(out->device, e->device->name) != 0)
        return flxi_fail_hint(err, FLX_E_USAGE, "compile for it (flx_compile_options.device), or use flx_run()",
                              "%s: the executable runs on device '%s', not on '%s'", function, e->device->name,
                              flxi_printable(name, sizeof name, out->device, strlen(out->device)));
    return flxi_check_symbols(e->symbols, e->num_symbols, e->g->name, out->dims, out->num_dims, err);
}

static flx_code use_for_recording(flx_exec *e, flxi_feeding *f, const flxi_run_setup *setup, void *user, flx_error *err)
{
    return flxi_recording_write(e, setup->options, f, NULL, user, err);
}

flx_code flx_exec_record(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                         const char *path, flx_error *err)
{
    flx_error local = {0};
    flx_run_options o;
    if (!e || !path || (num_feeds && !feeds))
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_record: the executable, feeds and a path must be given");
    flx_code code = read_run_options("flx_exec_record", e, options, &o, &local);
    flxi_run_setup setup = flxi_exec_setup(e, &o);
    if (code == FLX_OK)
        code = with_feeds(e, &setup, feeds, num_feeds, use_for_recording, (void *)(uintptr_t)path, &local);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

flx_code flxi_exec_check_run(const char *function, const flx_exec *e, const flxi_run_call *c, flx_run_options *out,
                             flx_error *err)
{
    if (!e || (c->num_feeds && !c->feeds) || (e->g->outputs.n && !c->outputs))
        return flxi_fail(err, FLX_E_USAGE, "%s: the executable, feeds and outputs must be given", function);
    for (size_t i = 0; i < e->g->outputs.n; i++)
        c->outputs[i] = NULL;
    FLXI_TRY(read_run_options(function, e, c->options, out, err));
    if (out->status)
        *out->status = 0;
    return FLX_OK;
}

flx_code flx_exec_run(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                      flx_tensor **outputs, flx_error *err)
{
    flx_error local = {0};
    flx_run_options o;
    const flxi_run_call call = {options, feeds, num_feeds, outputs};
    flx_code code = flxi_exec_check_run("flx_exec_run", e, &call, &o, &local);
    if (code == FLX_OK) {
        flxi_run_setup setup = flxi_exec_setup(e, &o);
        code = flxi_exec_run_named(e, &setup, feeds, num_feeds, outputs, &local);
    }
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

/* The extents of a run whose values have no shapes: those of its options, else those of the executable's. */
static flx_code extents_at(const flx_exec *e, const flx_run_options *o, flx_dim_binding *out, flx_error *err)
{
    for (size_t i = 0; i < e->g->symbols.n; i++) {
        const char *name = e->g->symbols.at[i];
        const flx_dim_binding *found = flxi_binding_of(o ? o->dims : NULL, o ? o->num_dims : 0, name);
        if (!found)
            found = flxi_binding_of(e->options.dims, e->options.num_dims, name);
        if (!found)
            return flxi_fail_hint(err, FLX_E_UNBOUND_DIM,
                                  "bind it in flx_run_options.dims, or in flx_compile_options.dims",
                                  "the dimension %s has no extent", name);
        out[i] = *found;
    }
    return FLX_OK;
}

/* What runs for these options, until leave_at(). */
static flx_code variant_at(flx_exec *e, const flx_run_options *o, flxi_variant **out, flx_error *err)
{
    enum { FEW = 16 };
    flx_dim_binding few[FEW];
    size_t n = e->g->symbols.n;
    *out = e->fixed;
    if (e->fixed && !(o && o->num_dims))
        return FLX_OK;
    flx_dim_binding *dims = n <= FEW ? few : flxi_alloc(e->mem, n, sizeof *dims);
    if (!dims)
        return flxi_oom(err, "dimensions");
    flx_code code = extents_at(e, o, dims, err);
    if (code == FLX_OK)
        code = flxi_variant_for(e, dims, n, out, err);
    if (dims != few)
        flxi_free(e->mem, dims, n, sizeof *dims);
    return code;
}

static void leave_at(flxi_variant *v)
{
    if (v != v->exec->fixed) /* which never goes */
        flxi_variant_leave(v);
}

static flx_code run_variant_at(flxi_variant *v, const flx_run_options *o, const void *const *inputs,
                               void *const *outputs, flx_error *err)
{
    enum { FEW = 64 };
    const void *in[FEW];
    flx_exec *e = v->exec;
    bool has_params = false;
    for (size_t i = 0; i < e->g->leaves.n; i++)
        has_params |= !inputs[i];
    FLXI_TRY(flxi_check_caller_memory(v, inputs, outputs, err));
    FLXI_TRY(check_memory(v, o, err));
    flxi_run_setup setup = flxi_exec_setup(e, o);
    if (!has_params)
        return flxi_variant_run(v, &setup, inputs, outputs, err);
    const void **all = e->g->leaves.n <= FEW ? in : flxi_alloc(e->mem, e->g->leaves.n, sizeof *all);
    if (!all)
        return flxi_oom(err, "inputs");
    flx_code code = FLX_OK;
    for (size_t i = 0; i < e->g->leaves.n && code == FLX_OK; i++) {
        code = inputs[i] ? FLX_OK : flxi_tensor_fetch(e->params[i], err);
        all[i] = inputs[i] ? inputs[i] : e->params[i]->data;
    }
    if (code == FLX_OK)
        code = flxi_variant_run(v, &setup, all, outputs, err);
    if (all != in)
        flxi_free(e->mem, all, e->g->leaves.n, sizeof *all);
    return code;
}

static flx_code run_at(flx_exec *e, const flx_run_options *o, const void *const *inputs, void *const *outputs,
                       flx_error *err)
{
    flxi_variant *v;
    if (!e || (!inputs && e->g->leaves.n) || (!outputs && e->g->outputs.n))
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_run_at: inputs and outputs must be given");
    for (size_t i = 0; i < e->g->leaves.n; i++)
        if (!inputs[i] && !e->params[i])
            return flxi_fail(err, FLX_E_MISSING_INPUT, "the input '%s' has no value",
                             flxi_value_at(e->g, e->g->leaves.at[i])->name);
    for (size_t k = 0; k < e->g->outputs.n; k++)
        if (!outputs[k])
            return flxi_fail(err, FLX_E_USAGE, "flx_exec_run_at: there is no memory for the output '%s'",
                             e->g->outputs.at[k].name);
    FLXI_TRY(variant_at(e, o, &v, err));
    flx_code code = run_variant_at(v, o, inputs, outputs, err);
    leave_at(v);
    return code;
}

flx_code flx_exec_run_at(flx_exec *e, const void *const *inputs, void *const *outputs, flx_error *err)
{
    return run_at(e, NULL, inputs, outputs, err);
}

flx_code flx_exec_run_at_with(flx_exec *e, const flx_run_options *options, const void *const *inputs,
                              void *const *outputs, flx_error *err)
{
    flx_run_options o;
    flxi_stop_scope scope;
    if (!e)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_run_at_with: the executable must be given");
    FLXI_TRY(read_run_options("flx_exec_run_at_with", e, options, &o, err));
    if (o.status)
        *o.status = 0;
    flxi_stop_enter(&scope, o.stop, o.time_limit);
    flx_code code = run_at(e, &o, inputs, outputs, err);
    flxi_stop_leave(&scope);
    return code;
}

/* ---- Parameters ---- */

static bool is_param_at(const flx_exec *e, size_t leaf)
{
    return flxi_is_param(flxi_node_of(e->g, e->g->leaves.at[leaf]));
}

/* The leaf of a parameter that may have this value. */
static flx_code check_param(const flx_exec *e, const char *name, const flx_tensor *value, size_t *leaf, flx_error *err)
{
    char text[60];
    if (!flxi_find_leaf(e->g, name, leaf) || !is_param_at(e, *leaf))
        return flxi_fail(err, FLX_E_NAME, "the graph '%s' has no parameter called '%s'", e->g->name,
                         flxi_printable(text, sizeof text, name, strlen(name)));
    const flx_type *t = flxi_type_at(e->g, e->g->leaves.at[*leaf]);
    flxi_type_text want, got;
    if (t->dtype != value->type.dtype || t->rank != value->type.rank ||
        (flxi_type_is_static(t) && !flxi_type_equal(t, &value->type)))
        return flxi_fail(err, t->dtype == value->type.dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                         "the parameter '%s' is declared %s, but the value is %s", name,
                         flxi_type_str(e->ctx, t, &want), flxi_type_str(e->ctx, &value->type, &got));
    return FLX_OK;
}

flx_code flx_exec_set_param(flx_exec *e, const char *name, const flx_tensor *value, flx_error *err)
{
    size_t i;
    if (!e || !name || !value)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_set_param: the executable, a name and a value must be given");
    FLXI_TRY(check_param(e, name, value, &i, err));
    FLXI_TRY(flxi_tensor_fetch(value, err));
    flx_tensor *copy = flx_tensor_new(e->ctx, &value->type, value->data, err);
    if (!copy)
        return FLX_E_OOM;
    flx_tensor_release(e->params[i]);
    e->params[i] = copy;
    return FLX_OK;
}

flx_code flx_exec_share_param(flx_exec *e, const char *name, flx_tensor *value, flx_error *err)
{
    size_t i;
    if (!e || !name || !value)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_share_param: the executable, a name and a value must be given");
    FLXI_TRY(check_param(e, name, value, &i, err));
    flx_tensor *before = e->params[i];
    e->params[i] = flx_tensor_retain(value);
    flx_tensor_release(before);
    return FLX_OK;
}

const char *flx_exec_param_name(const flx_exec *e, size_t i)
{
    for (size_t k = 0; e && k < e->g->leaves.n; k++)
        if (is_param_at(e, k) && i-- == 0)
            return flxi_value_at(e->g, e->g->leaves.at[k])->name;
    return NULL;
}

flx_tensor *flx_exec_param(const flx_exec *e, const char *name)
{
    size_t i;
    return e && name && flxi_find_leaf(e->g, name, &i) ? flx_tensor_retain(e->params[i]) : NULL;
}

/* ---- Questions ---- */

/* While another tier is being compiled the answer may change, so it is no. */
int flx_exec_may_share(const flx_exec *e, size_t input, size_t output)
{
    if (!e || !e->fixed || !flx_exec_is_ready(e))
        return 0;
    return flxi_variant_may_share(e->fixed, input, output);
}

/* A variant that is compiled in the background may go and come back without code, which shares less. */
flx_code flx_exec_may_share_at(flx_exec *e, const flx_run_options *options, size_t input, size_t output, int *may,
                               flx_error *err)
{
    flx_run_options o;
    flxi_variant *v;
    flxi_stop_scope scope;
    if (!e || !may)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_may_share_at: the executable and a result must be given");
    *may = 0;
    FLXI_TRY(read_run_options("flx_exec_may_share_at", e, options, &o, err));
    flxi_stop_enter(&scope, o.stop, o.time_limit);
    flx_code code = variant_at(e, &o, &v, err);
    flxi_stop_leave(&scope);
    FLXI_TRY(code);
    *may = v == e->fixed                               ? flx_exec_may_share(e, input, output)
           : e->options.flags & FLX_COMPILE_BACKGROUND ? 0
                                                       : flxi_variant_may_share(v, input, output);
    leave_at(v);
    return FLX_OK;
}

/* With the lock held. */
static void report_variant(const flx_exec *e, const flxi_variant *v, flxi_strbuf *out)
{
    const flxi_program *p = &v->on->program;
    flxi_program_report(p, out);
    if (e->options.flags & FLX_COMPILE_BACKGROUND)
        flxi_addf(out, "tier: %s%.200s\n",
                  p == &v->later.program ? "compiled in the background"
                  : v->is_compiling      ? "interpreted, while the background compiles"
                  : v->failure.code      ? "interpreted: "
                                         : "interpreted",
                  v->failure.message);
}

flx_code flx_exec_report(const flx_exec *e, flx_buffer *out, flx_error *err)
{
    if (!e || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_report: the executable and where to write the text must be given");
    flxi_strbuf text;
    flxi_strbuf_init(&text, e->mem);
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&e->lock;
    pthread_mutex_lock(lock);
    for (size_t i = 0; i < e->variants.n; i++)
        report_variant(e, e->variants.at[i], &text);
    pthread_mutex_unlock(lock);
    flxi_addf(&text, "subnormal numbers are %s\n",
              !(e->options.flags & FLX_COMPILE_FLUSH) ? "kept"
              : FLXI_FLUSH_EXISTS                     ? "flushed to zero"
                                                      : "kept: this machine cannot flush them");
    return flxi_buffer_finish(&text, e->ctx, out, err);
}
