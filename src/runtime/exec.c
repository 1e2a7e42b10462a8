/* exec.c: executables: one program for each binding of the symbolic dimensions, states for the runs that are going on, and
   parameters. */
#include "runtime/exec.h"

#include "backend/cpu/shared_pool.h"
#include "passes/pass.h"
#include "runtime/feeds.h"

/* ---- What an executable is ---- */

typedef struct {
    int64_t *extents; /* by symbol of the graph */
    flxi_program program;
    flx_graph *g;                  /* with these extents: what inputs must be */
    FLXI_VEC(flxi_state *) states; /* that no run uses; guarded by the executable's lock */
} variant;

struct flx_exec {
    flx_context *ctx;
    const flxi_allocator *mem;
    flx_graph *g; /* a copy */
    flx_compile_options options;
    flxi_arena arena; /* texts of the options */
    flxi_pool *pool;  /* NULL: runs stay on the caller */
    bool owns_pool;
    pthread_mutex_t lock;
    FLXI_VEC(variant *) variants;
    flx_tensor **params; /* by leaf; NULL: not set */
};

/* ---- Options ---- */

static flx_code check_options(const flx_compile_options *o, flx_error *err)
{
    if (o->device && strcmp(o->device, "cpu") != 0)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "graphs are compiled for: cpu",
                              "graphs cannot be compiled for the device '%.40s'", o->device);
    if (o->threads < 0 || o->threads > 64 || o->optimisation < 0 || o->optimisation > 4 || o->cache < 0 || o->cache > 2 ||
        (o->flags & ~(uint32_t)(FLX_COMPILE_UNFUSED | FLX_COMPILE_INTERPRET | FLX_COMPILE_SCALAR)))
        return flxi_fail_hint(err, FLX_E_USAGE, "threads 0 to 64, optimisation 0 to 4, cache 0 to 2",
                              "flx_compile: an option has a value that does not exist");
    if (o->num_dims && !o->dims)
        return flxi_fail(err, FLX_E_USAGE, "flx_compile: dims are missing");
    return flxi_check_bindings(o->dims, o->num_dims, err);
}

static flx_code keep_text(flx_exec *e, const char **text, flx_error *err)
{
    if (!*text)
        return FLX_OK;
    *text = flxi_arena_text(&e->arena, *text, strlen(*text));
    return *text ? FLX_OK : flxi_oom(err, "options");
}

/* ---- Variants ---- */

static void free_variant(flx_exec *e, variant *v)
{
    for (size_t i = 0; i < v->states.n; i++)
        flxi_state_free(v->states.at[i]);
    flxi_vec_free(e->mem, &v->states);
    flxi_program_free(&v->program);
    flx_graph_free(v->g);
    if (v->extents)
        flxi_free(e->mem, v->extents, e->g->symbols.n, sizeof *v->extents);
    flxi_free(e->mem, v, 1, sizeof *v);
}

static const int64_t *extent_of(const flx_dim_binding *b, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(b[i].name, name) == 0)
            return &b[i].extent;
    return NULL;
}

static bool has_extents(const flx_exec *e, const variant *v, const flx_dim_binding *b, size_t n)
{
    for (size_t i = 0; i < e->g->symbols.n; i++) {
        const int64_t *x = extent_of(b, n, e->g->symbols.at[i]);
        if (!x || *x != v->extents[i])
            return false;
    }
    return true;
}

static flx_code make_variant(flx_exec *e, const flx_dim_binding *b, size_t n, variant *v, flx_error *err)
{
    v->extents = flxi_alloc(e->mem, e->g->symbols.n, sizeof *v->extents);
    if (!v->extents)
        return flxi_oom(err, "an executable");
    for (size_t i = 0; i < e->g->symbols.n; i++) {
        const int64_t *x = extent_of(b, n, e->g->symbols.at[i]);
        v->extents[i] = x ? *x : 0;
    }
    if (e->g->symbols.n)
        FLXI_TRY(flxi_specialise(e->g, b, n, &v->g, NULL, err));
    else
        FLXI_TRY(flxi_pass_dce(e->g, &v->g, NULL, err));
    return flxi_program_make(&v->program, v->g, &e->options, err);
}

/* The variant for these extents, made if it is new. One thread at a time compiles. */
static flx_code variant_for(flx_exec *e, const flx_dim_binding *b, size_t n, variant **out, flx_error *err)
{
    flx_code code = FLX_OK;
    *out = NULL;
    pthread_mutex_lock(&e->lock);
    for (size_t i = 0; !*out && i < e->variants.n; i++)
        if (has_extents(e, e->variants.at[i], b, n))
            *out = e->variants.at[i];
    if (!*out) {
        variant *v = flxi_alloc(e->mem, 1, sizeof *v);
        code = v ? make_variant(e, b, n, v, err) : flxi_oom(err, "an executable");
        if (code == FLX_OK && !flxi_push(e->mem, &e->variants, v))
            code = flxi_oom(err, "an executable");
        if (code == FLX_OK)
            *out = v;
        else if (v)
            free_variant(e, v);
    }
    pthread_mutex_unlock(&e->lock);
    return code;
}

/* ---- States ---- */

static flx_code take_state(flx_exec *e, variant *v, flxi_state **s, flx_error *err)
{
    pthread_mutex_lock(&e->lock);
    *s = v->states.n ? v->states.at[--v->states.n] : NULL;
    pthread_mutex_unlock(&e->lock);
    return *s ? FLX_OK : flxi_state_new(&v->program.module, s, err);
}

static void give_state(flx_exec *e, variant *v, flxi_state *s)
{
    pthread_mutex_lock(&e->lock);
    bool kept = flxi_push(e->mem, &v->states, s);
    pthread_mutex_unlock(&e->lock);
    if (!kept)
        flxi_state_free(s);
}

/* ---- Making and freeing ---- */

static flx_code all_bound(const flx_exec *e)
{
    for (size_t i = 0; i < e->g->symbols.n; i++)
        if (!extent_of(e->options.dims, e->options.num_dims, e->g->symbols.at[i]))
            return FLX_E_UNBOUND_DIM;
    return FLX_OK;
}

static flx_code make_exec(flx_exec *e, const flx_graph *g, flx_error *err)
{
    FLXI_TRY(flxi_pass_dce(g, &e->g, NULL, err));
    FLXI_TRY(keep_text(e, &e->options.cache_dir, err));
    FLXI_TRY(keep_text(e, &e->options.dump_dir, err));
    flx_dim_binding *dims = flxi_new(&e->arena, flx_dim_binding, e->options.num_dims);
    e->params = flxi_alloc(e->mem, e->g->leaves.n, sizeof *e->params);
    if (!dims || !e->params)
        return flxi_oom(err, "an executable");
    for (size_t i = 0; i < e->options.num_dims; i++) {
        dims[i] = e->options.dims[i];
        FLXI_TRY(keep_text(e, &dims[i].name, err));
    }
    e->options.dims = dims;
    e->options.device = NULL;
    e->owns_pool = e->options.threads > 1;
    if (e->options.threads != 1)
        e->pool = e->owns_pool ? flxi_pool_new(e->mem, e->options.threads) : flxi_shared_pool(e->ctx);
    variant *v;
    return all_bound(e) == FLX_OK ? variant_for(e, e->options.dims, e->options.num_dims, &v, err) : FLX_OK;
}

flx_code flx_compile(const flx_graph *g, const flx_compile_options *options, flx_exec **out, flx_error *err)
{
    flx_error local = {0};
    flx_exec *e = NULL;
    flx_code code = flx_graph_error(g, &local);
    flx_compile_options o = options ? *options : (flx_compile_options){0};
    if (code == FLX_OK && !out)
        code = flxi_fail(&local, FLX_E_USAGE, "flx_compile: there is no place for the result");
    if (out)
        *out = NULL;
    if (code == FLX_OK)
        code = check_options(&o, &local);
    if (code == FLX_OK) {
        e = flxi_alloc(flxi_context_mem(g->ctx), 1, sizeof *e);
        if (!e || pthread_mutex_init(&e->lock, NULL) != 0) {
            if (e)
                flxi_free(flxi_context_mem(g->ctx), e, 1, sizeof *e);
            e = NULL;
            code = flxi_oom(&local, "an executable");
        }
    }
    if (e) {
        e->ctx = g->ctx;
        e->mem = flxi_context_mem(g->ctx);
        e->options = o;
        flxi_arena_init(&e->arena, e->mem);
        code = make_exec(e, g, &local);
    }
    if (code == FLX_OK)
        *out = e;
    else
        flx_exec_free(e);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

void flx_exec_free(flx_exec *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->variants.n; i++)
        free_variant(e, e->variants.at[i]);
    flxi_vec_free(e->mem, &e->variants);
    for (size_t i = 0; e->params && i < e->g->leaves.n; i++)
        flx_tensor_release(e->params[i]);
    if (e->params)
        flxi_free(e->mem, e->params, e->g->leaves.n, sizeof *e->params);
    if (e->owns_pool)
        flxi_pool_free(e->pool);
    flx_graph_free(e->g);
    flxi_arena_free(&e->arena);
    pthread_mutex_destroy(&e->lock);
    flxi_free(e->mem, e, 1, sizeof *e);
}

/* ---- Running ---- */

static flx_code run_variant(flx_exec *e, variant *v, const flxi_run_setup *setup, const void *const *in,
                            void *const *out, flx_error *err)
{
    flxi_state *s;
    FLXI_TRY(take_state(e, v, &s, err));
    flx_code code = flxi_state_run(s, setup, in, out, err);
    give_state(e, v, s);
    return code;
}

static flx_code make_outputs(flx_exec *e, const variant *v, flx_tensor **outputs, void **out, flx_error *err)
{
    for (size_t i = 0; i < v->g->outputs.n; i++) {
        outputs[i] = flx_tensor_new(e->ctx, flxi_type_at(v->g, v->g->outputs.at[i].val), NULL, err);
        if (!outputs[i])
            return err && err->code ? (flx_code)err->code : FLX_E_OOM;
        out[i] = outputs[i]->data;
    }
    return FLX_OK;
}

static flx_code run_fed(flx_exec *e, flxi_feeding *f, flxi_run_setup *setup, flx_tensor **outputs, flx_error *err)
{
    variant *v;
    FLXI_TRY(variant_for(e, f->bound.at, f->bound.n, &v, err));
    FLXI_TRY(flxi_feeding_check(f, v->g));
    size_t room = e->g->leaves.n + e->g->outputs.n;
    const void **in = flxi_alloc(e->mem, room, sizeof *in);
    if (!in)
        return flxi_oom(err, "inputs");
    void **out = (void **)in + e->g->leaves.n;
    for (size_t i = 0; i < e->g->leaves.n; i++)
        in[i] = f->in[i]->data;
    flx_code code = make_outputs(e, v, outputs, out, err);
    if (code == FLX_OK)
        code = run_variant(e, v, setup, in, out, err);
    for (size_t i = 0; code != FLX_OK && i < e->g->outputs.n; i++) {
        flx_tensor_release(outputs[i]);
        outputs[i] = NULL;
    }
    flxi_free(e->mem, in, room, sizeof *in);
    return code;
}

/* Parameters that were set stand in for those that are not given. */
static flx_code feed_params(const flx_exec *e, const flx_feed *feeds, size_t n, flx_feed *all, size_t *count)
{
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

static flx_code run_named(flx_exec *e, flxi_run_setup *setup, const flx_feed *feeds, size_t num_feeds,
                          flx_tensor **outputs, flx_error *err)
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
        code = run_fed(e, &f, setup, outputs, err);
    flxi_feeding_end(&f);
    flxi_free(e->mem, all, room, sizeof *all);
    return code;
}

static flx_code check_run(const flx_exec *e, const flx_feed *feeds, size_t num_feeds, flx_tensor **outputs, flx_error *err)
{
    if (!e || (num_feeds && !feeds) || (e->g->outputs.n && !outputs))
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_run: the executable, feeds and outputs must be given");
    for (size_t i = 0; i < e->g->outputs.n; i++)
        outputs[i] = NULL;
    return FLX_OK;
}

flx_code flx_exec_run(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                      flx_tensor **outputs, flx_error *err)
{
    flx_error local = {0};
    flx_code code = check_run(e, feeds, num_feeds, outputs, &local);
    if (code == FLX_OK && options && options->status)
        *options->status = 0;
    if (code == FLX_OK) {
        flxi_run_setup setup = {.options = options, .pool = e->pool};
        code = run_named(e, &setup, feeds, num_feeds, outputs, &local);
    }
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

flx_code flx_exec_run_at(flx_exec *e, const void *const *inputs, void *const *outputs, flx_error *err)
{
    enum { FEW = 64 };
    const void *in[FEW];
    if (!e || (!inputs && e->g->leaves.n) || (!outputs && e->g->outputs.n))
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_run_at: inputs and outputs must be given");
    if (e->variants.n != 1)
        return flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "bind the dimensions in flx_compile_options.dims",
                              "flx_exec_run_at needs static types");
    bool has_params = false;
    for (size_t i = 0; i < e->g->leaves.n; i++) {
        if (!inputs[i] && !e->params[i])
            return flxi_fail(err, FLX_E_MISSING_INPUT, "the input '%s' has no value",
                             flxi_value_at(e->g, e->g->leaves.at[i])->name);
        has_params |= !inputs[i];
    }
    flxi_run_setup setup = {.pool = e->pool};
    if (!has_params)
        return run_variant(e, e->variants.at[0], &setup, inputs, outputs, err);
    const void **all = e->g->leaves.n <= FEW ? in : flxi_alloc(e->mem, e->g->leaves.n, sizeof *all);
    if (!all)
        return flxi_oom(err, "inputs");
    for (size_t i = 0; i < e->g->leaves.n; i++)
        all[i] = inputs[i] ? inputs[i] : e->params[i]->data;
    flx_code code = run_variant(e, e->variants.at[0], &setup, all, outputs, err);
    if (all != in)
        flxi_free(e->mem, all, e->g->leaves.n, sizeof *all);
    return code;
}

flx_code flxi_run_compiled(const flx_graph *g, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                           flx_tensor **outputs, flx_error *err)
{
    flx_exec *e;
    flx_compile_options o = {.dims = options ? options->dims : NULL, .num_dims = options ? options->num_dims : 0};
    FLXI_TRY(flx_compile(g, &o, &e, err));
    flx_code code = flx_exec_run(e, options, feeds, num_feeds, outputs, err);
    flx_exec_free(e);
    return code;
}

/* ---- Parameters ---- */

flx_code flx_exec_set_param(flx_exec *e, const char *name, const flx_tensor *value, flx_error *err)
{
    size_t i;
    char text[60];
    if (!e || !name || !value)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_set_param: the executable, a name and a value must be given");
    if (!flxi_find_leaf(e->g, name, &i) || flxi_node_at(e->g, flxi_value_at(e->g, e->g->leaves.at[i])->node)->op != OP_param)
        return flxi_fail(err, FLX_E_NAME, "the graph '%s' has no parameter called '%s'", e->g->name,
                         flxi_printable(text, sizeof text, name, strlen(name)));
    const flx_type *t = flxi_type_at(e->g, e->g->leaves.at[i]);
    flxi_type_text want, got;
    if (t->dtype != value->type.dtype || t->rank != value->type.rank ||
        (flxi_type_is_static(t) && !flxi_type_equal(t, &value->type)))
        return flxi_fail(err, t->dtype == value->type.dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                         "the parameter '%s' is declared %s, but the value is %s", name, flxi_type_str(e->ctx, t, &want),
                         flxi_type_str(e->ctx, &value->type, &got));
    flx_tensor *copy = flx_tensor_new(e->ctx, &value->type, value->data, err);
    if (!copy)
        return FLX_E_OOM;
    flx_tensor_release(e->params[i]);
    e->params[i] = copy;
    return FLX_OK;
}

flx_tensor *flx_exec_param(const flx_exec *e, const char *name)
{
    size_t i;
    return e && name && flxi_find_leaf(e->g, name, &i) ? flx_tensor_retain(e->params[i]) : NULL;
}

/* ---- Questions ---- */

size_t flx_exec_memory(const flx_exec *e)
{
    return e && e->variants.n ? e->variants.at[e->variants.n - 1]->program.module.main->arena_bytes : 0;
}

int flx_exec_may_share(const flx_exec *e, size_t input, size_t output)
{
    if (!e || e->variants.n != 1)
        return 0;
    const flxi_module *m = &e->variants.at[0]->program.module;
    return flxi_lir_may_share(m, m->main, input, output);
}

flx_code flx_exec_report(const flx_exec *e, flx_buffer *out, flx_error *err)
{
    if (!e || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_report: the executable and a place for the text must be given");
    flxi_strbuf text;
    flxi_strbuf_init(&text, e->mem);
    for (size_t i = 0; i < e->variants.n; i++)
        flxi_program_report(&e->variants.at[i]->program, &text);
    return flxi_buffer_finish(&text, e->ctx, out, err);
}

flx_code flx_exec_step(const flx_exec *e, size_t i, flx_step *out)
{
    if (!e || !out)
        return FLX_E_USAGE;
    const flxi_module *m = e->variants.n ? &e->variants.at[e->variants.n - 1]->program.module : NULL;
    if (!m || i >= m->places.n)
        return FLX_E_NAME;
    const flxi_lir *l = m->places.at[i].block;
    const flxi_step *s = &l->steps[m->places.at[i].step];
    *out = (flx_step){
        .kind = flxi_step_kind_name((flxi_step_kind)s->kind),
        .name = s->name,
        .block = l->g->name,
        .computes = s->computes,
        .why = s->why,
        .depth = (int32_t)l->depth,
        .bytes = s->bytes,
        .flops = s->flops,
    };
    return FLX_OK;
}

/* ---- Profile ---- */

typedef struct {
    flx_step_time *times;
    size_t n, capacity;
} profile;

static void begin_profile(profile *p, const flxi_module *m)
{
    p->n = m->places.n;
    for (size_t i = 0; i < p->n && i < p->capacity; i++) {
        const flxi_lir *l = m->places.at[i].block;
        const flxi_step *s = &l->steps[m->places.at[i].step];
        p->times[i] =
            (flx_step_time){.name = s->name, .bytes = s->bytes, .flops = s->flops, .depth = (int32_t)l->depth};
    }
}

static void observe(void *user, const flxi_lir *l, unsigned char *base, uint32_t step, int64_t time_ns)
{
    profile *p = user;
    size_t i = l->steps[step].number;
    (void)base;
    if (p->n == 0)
        begin_profile(p, l->module);
    if (i >= p->capacity)
        return;
    p->times[i].runs++;
    p->times[i].time_ns += time_ns;
}

flx_code flx_exec_profile(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                          flx_tensor **outputs, flx_step_time *steps, size_t capacity, size_t *count, flx_error *err)
{
    flx_error local = {0};
    flx_code code = check_run(e, feeds, num_feeds, outputs, &local);
    if (code == FLX_OK && capacity && !steps)
        code = flxi_fail(&local, FLX_E_USAGE, "flx_exec_profile: there is no place for the steps");
    if (code == FLX_OK && options && options->status)
        *options->status = 0;
    profile p = {.times = steps, .capacity = capacity};
    if (code == FLX_OK) {
        flxi_run_setup setup = {.options = options, .pool = e->pool, .observe = observe, .observe_user = &p};
        code = run_named(e, &setup, feeds, num_feeds, outputs, &local);
    }
    if (count)
        *count = p.n;
    if (code != FLX_OK && err)
        *err = local;
    return code;
}
