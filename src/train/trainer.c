/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c: a compiled training step and the memory that persists from step to step: sets of parameters and of state.
   A tensor that the step can update in place has one buffer; the others have a second one, which they exchange for the
   first when a step has succeeded. All memory and all tables are allocated with the trainer, or with the first step of
   a set of extents, so that a step only looks up names and sets pointers.

   A device with memory of its own keeps parameters and state from step to step. Their tensors then say that the trainer
   has newer elements (flxi_keeper), which are copied when someone asks for them. */
#include "train/train.h"

#include "base/options.h"
#include "graph/input_hint.h"
#include "passes/pass.h"
#include "train/params.h"

#include <fluxion/mesh.h>
#include <math.h>
#include <stdio.h>

/* What a leaf of the training graph is bound to. */
typedef struct {
    flxi_param *param;       /* NULL: an input, given in each step */
    flx_tensor *next;        /* NULL: updated in place, or never */
    uint64_t fed;            /* INPUT: the step that gave it last … */
    const flx_tensor *value; /* … and what it gave */
} held_leaf;

struct flx_trainer {
    flxi_keeper keeper;
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_training training;
    flx_train_options o; /* its lists are those of the caller, not used after making */
    flx_exec *exec;
    const char *device; /* or NULL: the usual one */
    flx_params *params, *state, *averages;
    flxi_arena arena;
    held_leaf *leaves;
    flx_tensor **results; /* the loss and other outputs */
    flx_tensor *norm;     /* of the gradients, if steps are guarded by it */
    flx_tensor *rate;     /* if the step computes it */
    flx_tensor *squares;  /* of the gradient of each trained parameter, if the step computes them */
    double last_rate, last_norm;
    bool is_skipped;
    size_t rate_leaf; /* 1 + the input that is the rate; 0: none */
    const void **in;  /* by leaf */
    void **out;       /* by output */
    uint8_t *kept;    /* by leaf: the device has it since the last step */
    uint8_t *left;    /* by output: the device keeps it for the next step */
    uint64_t step;    /* calls of flx_trainer_step(), to see which inputs were given */
    /* Of a graph with symbolic dimensions: */
    flx_dim_binding *dims; /* by symbol; extent -1: not known yet */
    bool *is_known;        /* by symbol, in this step */
    bool is_prepared;      /* results and the following are for these extents */
    bool *in_place;        /* by updated leaf: the step may overwrite it */
};

/* ---- What a device keeps ---- */

/* Everything is here afterwards, as new as it can be: what is lost is lost. */
static flx_code fetch_all(flxi_keeper *k, flx_error *err)
{
    flx_trainer *t = (flx_trainer *)(void *)k;
    flx_code code = flx_exec_fetch(t->exec, err);
    for (size_t i = 0; i < t->training.g->leaves.n; i++) {
        flx_tensor *value = t->leaves[i].param ? t->leaves[i].param->value : NULL;
        if (!value || value->keeper != k)
            continue;
        value->is_behind = false;
        if (code != FLX_OK)
            value->keeper = NULL;
    }
    return code;
}

/* Before the trainer ends. */
static void leave_params(flx_trainer *t)
{
    if (!t->exec || !t->leaves)
        return;
    fetch_all(&t->keeper, NULL);
    for (size_t i = 0; i < t->training.g->leaves.n; i++)
        if (t->leaves[i].param && t->leaves[i].param->value->keeper == &t->keeper)
            t->leaves[i].param->value->keeper = NULL;
}

/* Before a step: what others have is brought here. */
static flx_code take_params(flx_trainer *t, flx_error *err)
{
    for (size_t i = 0; i < t->training.g->leaves.n; i++) {
        flx_tensor *value = t->leaves[i].param ? t->leaves[i].param->value : NULL;
        if (value && value->keeper && value->keeper != &t->keeper)
            FLXI_TRY(flxi_tensor_take(value, err));
        t->kept[i] = value && value->keeper == &t->keeper;
    }
    return FLX_OK;
}

/* After it. */
static void keep_params(flx_trainer *t)
{
    const flxi_training *s = &t->training;
    for (size_t i = 0; i < s->g->leaves.n; i++)
        if (t->leaves[i].param)
            t->leaves[i].param->value->keeper = &t->keeper;
    for (size_t j = 0; j < s->num_updated; j++) {
        flx_tensor *value = t->leaves[s->updated[j]].param->value;
        value->is_behind = t->in_place[j];
        if (!t->in_place[j])
            value->keeper = NULL;
    }
}

/* ---- Making ---- */

static bool is_input(const flx_trainer *t, size_t leaf)
{
    const flx_graph *g = t->training.g;
    return flxi_is_input(flxi_node_of(g, g->leaves.at[leaf]));
}

/* Dimensions of inputs may stay symbolic: each step then has extents of its own. */
static flx_code check_params(const flx_trainer *t, flx_error *err)
{
    const flx_graph *g = t->training.g;
    flxi_type_text text;
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flx_type *type = flxi_type_at(g, g->leaves.at[i]);
        if (!is_input(t, i) && !flxi_type_is_static(type))
            return flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "bind its dimensions in flx_compile_options.dims",
                                  "the parameter '%.60s' is %s, but parameters need static types",
                                  flxi_value_at(g, g->leaves.at[i])->name, flxi_type_str(t->ctx, type, &text));
    }
    return FLX_OK;
}

static flx_code bind_dims(flx_trainer *t, const flx_compile_options *o, flx_error *err)
{
    flx_graph *bound = NULL;
    if (!t->training.g->symbols.n)
        return FLX_OK;
    if (o->num_dims) {
        FLXI_TRY(flxi_specialise(t->training.g, o->dims, o->num_dims, &bound, NULL, err));
        flx_graph_release(t->training.g);
        t->training.g = bound;
    }
    return check_params(t, err);
}

static flx_code new_tensor(flx_trainer *t, uint32_t value, flx_tensor **out, flx_error *err)
{
    flx_error local = {0};
    *out = flx_tensor_new(t->ctx, flxi_type_at(t->training.g, value), NULL, &local);
    if (!*out && err)
        *err = local;
    return *out ? FLX_OK : (flx_code)local.code;
}

/* A second buffer for each updated leaf that cannot be overwritten. */
static flx_code make_second_buffers(flx_trainer *t, const flx_run_options *options, flx_error *err)
{
    const flxi_training *s = &t->training;
    for (size_t j = 0; j < s->num_updated; j++) {
        held_leaf *l = &t->leaves[s->updated[j]];
        int may = 0;
        FLXI_TRY(flx_exec_may_share_at(t->exec, options, s->updated[j], s->num_results + j, &may, err));
        t->in_place[j] = may;
        if (!may && !l->next)
            FLXI_TRY(new_tensor(t, s->g->leaves.at[s->updated[j]], &l->next, err));
    }
    return FLX_OK;
}

static flx_code make_tables(flx_trainer *t, flx_error *err)
{
    const flx_graph *g = t->training.g;
    t->leaves = flxi_new(&t->arena, held_leaf, g->leaves.n);
    t->in = flxi_new(&t->arena, const void *, g->leaves.n);
    t->out = flxi_new(&t->arena, void *, g->outputs.n);
    t->kept = flxi_new(&t->arena, uint8_t, g->leaves.n);
    t->left = flxi_new(&t->arena, uint8_t, g->outputs.n);
    t->results = flxi_new(&t->arena, flx_tensor *, t->training.num_results);
    t->in_place = flxi_new(&t->arena, bool, t->training.num_updated);
    t->dims = flxi_new(&t->arena, flx_dim_binding, g->symbols.n);
    t->is_known = flxi_new(&t->arena, bool, g->symbols.n);
    if (!t->leaves || !t->in || !t->out || !t->kept || !t->left || !t->results || !t->in_place || !t->dims ||
        !t->is_known)
        return flxi_oom(err, "a trainer");
    for (size_t i = 0; i < g->symbols.n; i++)
        t->dims[i] = (flx_dim_binding){g->symbols.at[i], -1};
    return FLX_OK;
}

/* The parts of parameters that the set lacks, of whole values that are initialised as in one process. */
static flx_code add_parts(flx_trainer *t, flx_error *err)
{
    const flx_graph *whole = t->training.whole;
    flx_params *all = flx_params_new(t->ctx, err);
    flx_code code = all ? flxi_params_join(all, whole, t->training.first_state, t->o.seed, err) : FLX_E_OOM;
    for (size_t i = 0; code == FLX_OK && i < t->training.first_state; i++) {
        const char *name = flxi_value_at(whole, whole->leaves.at[i])->name;
        const flxi_param *p = is_input(t, i) ? NULL : flxi_params_find(all, name);
        if (!p || flxi_params_find(t->params, name))
            continue;
        flx_tensor *part = flx_mesh_part(t->ctx, p->value, t->training.axes, flxi_training_cut_of(&t->training, i),
                                         flx_mesh_rank(t->ctx), err);
        code = part ? flxi_params_hold(t->params, p->name, part, p->is_set, err) : FLX_E_OOM;
        flx_tensor_release(part);
    }
    flx_params_release(all);
    return code;
}

/* The set that the caller gave, or one of its own; and the tensors of the state. */
static flx_code make_sets(flx_trainer *t, flx_error *err)
{
    const flx_graph *g = t->training.g;
    t->params = t->o.set ? flx_params_retain(t->o.set) : flx_params_new(t->ctx, err);
    t->state = flx_params_new(t->ctx, err);
    t->averages = t->training.first_ema ? flx_params_new(t->ctx, err) : NULL;
    if (!t->params || !t->state || (t->training.first_ema && !t->averages))
        return (flx_code)err->code;
    if (t->training.axes)
        FLXI_TRY(add_parts(t, err));
    FLXI_TRY(flxi_params_join(t->params, g, t->training.first_state, t->o.seed, err));
    for (size_t i = 0; i < g->leaves.n; i++) {
        const char *name = flxi_value_at(g, g->leaves.at[i])->name;
        bool is_state = i >= t->training.first_state;
        if (is_input(t, i)) {
            t->rate_leaf = is_state ? i + 1 : t->rate_leaf;
            continue;
        }
        if (is_state) /* which starts at zero */
            FLXI_TRY(flxi_params_zeros(t->state, name, flxi_type_at(g, g->leaves.at[i]), true, err));
        t->leaves[i].param = flxi_params_find(is_state ? t->state : t->params, name);
    }
    for (size_t i = 0; t->averages && i < t->training.num_trained; i++)
        FLXI_TRY(flxi_params_hold(t->averages, t->leaves[t->training.updated[i]].param->name,
                                  t->leaves[t->training.updated[t->training.first_ema + i]].param->value, true, err));
    return FLX_OK;
}

/* Memory of a number, or of several, that the step computes, `output` - 1; 0: none. */
static flx_code make_scalar(flx_trainer *t, size_t output, flx_tensor **out, flx_error *err)
{
    if (!output)
        return FLX_OK;
    FLXI_TRY(new_tensor(t, t->training.g->outputs.at[output - 1].val, out, err));
    t->out[output - 1] = (*out)->data;
    return FLX_OK;
}

/* Results of static types; others are made with the extents of a step. */
static flx_code make_memory(flx_trainer *t, flx_error *err)
{
    const flx_graph *g = t->training.g;
    FLXI_TRY(make_tables(t, err));
    for (size_t i = 0; i < t->training.num_results; i++)
        if (flxi_type_is_static(flxi_type_at(g, g->outputs.at[i].val))) {
            FLXI_TRY(new_tensor(t, g->outputs.at[i].val, &t->results[i], err));
            t->out[i] = t->results[i]->data;
        }
    FLXI_TRY(make_scalar(t, t->training.guard, &t->norm, err));
    FLXI_TRY(make_scalar(t, t->training.rate, &t->rate, err));
    FLXI_TRY(make_scalar(t, t->training.norms, &t->squares, err));
    FLXI_TRY(make_sets(t, err));
    t->is_prepared = g->symbols.n == 0;
    return t->is_prepared ? make_second_buffers(t, NULL, err) : FLX_OK;
}

static flx_code make_trainer(flx_trainer *t, const flx_graph *loss, const flx_train_options *options,
                             const flx_compile_options *compile, flx_error *err)
{
    flx_compile_options o;
    FLXI_TRY(FLXI_READ_GROWN_OPTIONS(flx_compile_options, stop, &o, compile, err));
    if (o.num_shares)
        return flxi_fail_hint(err, FLX_E_USAGE, "leave shares empty: a trainer shares what it updates",
                              "flx_compile_training: shares are given");
    if (o.guard)
        return flxi_fail_hint(err, FLX_E_USAGE, "leave guard 0: a trainer guards what it updates",
                              "flx_compile_training: guard is given");
    if (o.num_dims && !o.dims)
        return flxi_fail(err, FLX_E_USAGE, "flx_compile_training: dims are missing");
    FLXI_TRY(flxi_check_symbols(loss->symbols.at, loss->symbols.n, loss->name, o.dims, o.num_dims, err));
    FLXI_TRY(flxi_train_options_read(&t->o, options, err));
    FLXI_TRY(flxi_training_make(&t->training, loss, &t->o, true, err));
    FLXI_TRY(bind_dims(t, &o, err));
    FLXI_TRY(flxi_training_cut(&t->training, &t->o, true, err));
    o.dims = NULL; /* all are bound by now */
    o.num_dims = 0;
    /* Gradients that fade away pass through subnormal numbers, which slow processors down many times over. */
    if (!compile)
        o.flags = FLX_COMPILE_FLUSH;
    flx_share *shares = flxi_new(&t->arena, flx_share, t->training.num_updated);
    t->device = o.device ? flxi_arena_text(&t->arena, o.device, strlen(o.device)) : NULL;
    if (!shares || (o.device && !t->device))
        return flxi_oom(err, "a trainer");
    for (size_t j = 0; j < t->training.num_updated; j++)
        shares[j] = (flx_share){t->training.updated[j], t->training.num_results + j};
    o.flags |= FLX_COMPILE_ATOMIC;
    o.guard = t->training.guard;
    o.shares = shares;
    o.num_shares = t->training.num_updated;
    t->exec = flx_compile(t->training.g, &o, err);
    return t->exec ? make_memory(t, err) : (flx_code)err->code;
}

flx_trainer *flx_compile_training(const flx_graph *loss, const flx_train_options *options,
                                  const flx_compile_options *compile, flx_error *err)
{
    flx_error local = {0};
    flx_trainer *t = NULL;
    flx_code code = flx_graph_error(loss, &local);
    if (code == FLX_OK && !(t = flxi_alloc(flxi_context_mem(loss->ctx), 1, sizeof *t)))
        code = flxi_oom(&local, "a trainer");
    if (t) {
        t->ctx = loss->ctx;
        t->keeper.fetch = fetch_all;
        t->last_rate = t->last_norm = NAN;
        t->mem = flxi_context_mem(loss->ctx);
        flxi_arena_init(&t->arena, t->mem);
        code = make_trainer(t, loss, options, compile, &local);
    }
    if (code == FLX_OK)
        return t;
    flx_trainer_free(t);
    if (err)
        *err = local;
    return NULL;
}

void flx_trainer_free(flx_trainer *t)
{
    if (!t)
        return;
    leave_params(t);
    for (size_t i = 0; t->leaves && i < t->training.g->leaves.n; i++)
        flx_tensor_release(t->leaves[i].next);
    for (size_t i = 0; t->results && i < t->training.num_results; i++)
        flx_tensor_release(t->results[i]);
    flx_tensor_release(t->norm);
    flx_tensor_release(t->rate);
    flx_tensor_release(t->squares);
    flx_params_release(t->params);
    flx_params_release(t->state);
    flx_params_release(t->averages);
    flx_exec_free(t->exec);
    flxi_training_free(&t->training);
    flxi_arena_free(&t->arena);
    flxi_free(t->mem, t, 1, sizeof *t);
}

/* ---- Parameters ---- */

static flx_code check_value(const flx_trainer *t, size_t leaf, const flx_tensor *value, const char *what,
                            flx_error *err)
{
    const flx_graph *g = t->training.g;
    const flx_type *type = flxi_type_at(g, g->leaves.at[leaf]);
    flxi_type_text want, got;
    if (flxi_type_equal(type, &value->type))
        return FLX_OK;
    return flxi_fail(err, type->dtype == value->type.dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                     "the %s '%.60s' is declared %s, but the value is %s", what,
                     flxi_value_at(g, g->leaves.at[leaf])->name, flxi_type_str(t->ctx, type, &want),
                     flxi_type_str(t->ctx, &value->type, &got));
}

static flx_code find_param(const flx_trainer *t, const char *name, size_t *leaf, flx_error *err)
{
    char text[60];
    if (flxi_find_leaf(t->training.g, name, leaf) && t->leaves[*leaf].param)
        return FLX_OK;
    return flxi_fail(err, FLX_E_NAME, "the training step '%.60s' has no parameter called '%s'", t->training.g->name,
                     flxi_printable(text, sizeof text, name, strlen(name)));
}

flx_code flx_trainer_set_param(flx_trainer *t, const char *name, const flx_tensor *value, flx_error *err)
{
    size_t leaf;
    if (!t || !name || !value)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_set_param: the trainer, a name and a value must be given");
    FLXI_TRY(find_param(t, name, &leaf, err));
    return flx_params_set(leaf < t->training.first_state ? t->params : t->state, name, value, err);
}

flx_tensor *flx_trainer_param(const flx_trainer *t, const char *name, flx_error *err)
{
    size_t leaf;
    if (!t || !name) {
        flxi_fail(err, FLX_E_USAGE, "flx_trainer_param: the trainer and a name must be given");
        return NULL;
    }
    if (find_param(t, name, &leaf, err) != FLX_OK)
        return NULL;
    if (!t->leaves[leaf].param->is_set) {
        flxi_fail_hint(err, FLX_E_MISSING_INPUT, "flx_trainer_set_param() gives it one",
                       "the parameter '%.60s' has no value yet", name);
        return NULL;
    }
    const flx_tensor *now = t->leaves[leaf].param->value;
    if (flxi_tensor_fetch(now, err) != FLX_OK)
        return NULL;
    return flx_tensor_new(t->ctx, &now->type, now->data, err);
}

/* ---- Steps ---- */

static flx_code feed(flx_trainer *t, const flx_feed *f, flx_error *err)
{
    size_t leaf;
    char text[60];
    if (!f->name || !f->value)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_step: a name or value is NULL");
    flxi_printable(text, sizeof text, f->name, strlen(f->name));
    if (!flxi_find_leaf(t->training.g, f->name, &leaf)) {
        flxi_fail(err, FLX_E_NAME, "the training step '%.60s' has no input called '%s'", t->training.g->name, text);
        flxi_hint_fed_input(err, t->training.g, f->name);
        return FLX_E_NAME;
    }
    if (t->leaves[leaf].param)
        return flxi_fail_hint(err, FLX_E_NAME, "flx_trainer_set_param() sets it", "'%s' is a parameter, not an input",
                              text);
    if (t->leaves[leaf].fed == t->step)
        return flxi_fail(err, FLX_E_DUP_NAME, "the input '%s' is given twice", text);
    if (flxi_type_is_static(flxi_type_at(t->training.g, t->training.g->leaves.at[leaf])))
        FLXI_TRY(check_value(t, leaf, f->value, "input", err));
    FLXI_TRY(flxi_tensor_fetch(f->value, err));
    t->leaves[leaf].fed = t->step;
    t->leaves[leaf].value = f->value;
    t->in[leaf] = f->value->data;
    return FLX_OK;
}

static flx_code feed_all(flx_trainer *t, const flx_feed *feeds, size_t num_feeds, flx_error *err)
{
    const flx_graph *g = t->training.g;
    t->step++;
    for (size_t i = 0; i < num_feeds; i++)
        FLXI_TRY(feed(t, &feeds[i], err));
    for (size_t i = 0; i < g->leaves.n; i++) {
        const held_leaf *l = &t->leaves[i];
        const char *name = flxi_value_at(g, g->leaves.at[i])->name;
        if (l->param && !l->param->is_set)
            return flxi_fail_hint(err, FLX_E_MISSING_INPUT, "flx_trainer_set_param() gives it one",
                                  "the parameter '%.60s' has no value", name);
        if (!l->param && l->fed != t->step)
            return flxi_fail(err, FLX_E_MISSING_INPUT, "the input '%.60s' has no value", name);
    }
    return FLX_OK;
}

/* ---- Extents of a step ---- */

static flx_code bind_type(const flx_trainer *t, const flx_type *type, flx_type *out, flx_error *err)
{
    *out = *type;
    for (int k = 0; k < type->rank; k++) {
        out->dims[k] = flxi_dim_bind(t->ctx, type->dims[k], t->dims, t->training.g->symbols.n, err);
        if (out->dims[k] == FLX_DIM_INVALID)
            return err && err->code ? (flx_code)err->code : FLX_E_SHAPE;
    }
    return FLX_OK;
}

static flx_code wrong_input(const flx_trainer *t, size_t leaf, const flx_type *bound, flx_error *err)
{
    flxi_type_text text;
    flx_code code = check_value(t, leaf, t->leaves[leaf].value, "input", err);
    if (bound)
        flxi_hint(err, "the other inputs make it %s", flxi_type_str(t->ctx, bound, &text));
    return code;
}

static void set_extent(flx_trainer *t, const char *name, int64_t extent)
{
    for (size_t i = 0; i < t->training.g->symbols.n; i++)
        if (strcmp(t->dims[i].name, name) == 0 && !t->is_known[i]) {
            t->is_prepared &= t->dims[i].extent == extent;
            t->dims[i].extent = extent;
            t->is_known[i] = true;
        }
}

/* From what the options say, and from the inputs. */
static flx_code find_extents(flx_trainer *t, const flx_run_options *options, flx_error *err)
{
    const flx_graph *g = t->training.g;
    memset(t->is_known, 0, g->symbols.n * sizeof *t->is_known);
    for (size_t i = 0; i < options->num_dims; i++)
        set_extent(t, options->dims[i].name, options->dims[i].extent);
    for (size_t i = 0; i < g->leaves.n; i++) {
        const flx_type *type = flxi_type_at(g, g->leaves.at[i]);
        const flx_tensor *value = t->leaves[i].value;
        if (!is_input(t, i))
            continue;
        if (type->rank != value->type.rank || type->dtype != value->type.dtype)
            return wrong_input(t, i, NULL, err);
        for (int k = 0; k < type->rank; k++) {
            int64_t extent;
            const char *name = flxi_dim_solve(t->ctx, type->dims[k], value->type.dims[k], &extent);
            if (name && extent < 0)
                return wrong_input(t, i, NULL, err);
            if (name)
                set_extent(t, name, extent);
        }
    }
    return FLX_OK;
}

static flx_code check_extents(const flx_trainer *t, flx_error *err)
{
    const flx_graph *g = t->training.g;
    flx_type bound;
    for (size_t i = 0; i < g->symbols.n; i++)
        if (!t->is_known[i])
            return flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "give it in flx_run_options.dims of flx_trainer_step_with()",
                                  "no input shows the extent of the dimension %s", g->symbols.at[i]);
    for (size_t i = 0; i < g->leaves.n; i++) {
        if (!is_input(t, i))
            continue;
        FLXI_TRY(bind_type(t, flxi_type_at(g, g->leaves.at[i]), &bound, err));
        if (!flxi_type_equal(&bound, &t->leaves[i].value->type))
            return wrong_input(t, i, &bound, err);
    }
    return FLX_OK;
}

static flx_code make_results(flx_trainer *t, flx_error *err)
{
    const flx_graph *g = t->training.g;
    for (size_t i = 0; i < t->training.num_results; i++) {
        const flx_type *type = flxi_type_at(g, g->outputs.at[i].val);
        flx_type bound;
        if (flxi_type_is_static(type))
            continue;
        FLXI_TRY(bind_type(t, type, &bound, err));
        flx_tensor *made = flx_tensor_new(t->ctx, &bound, NULL, err);
        if (!made)
            return err && err->code ? (flx_code)err->code : FLX_E_OOM;
        flx_tensor_release(t->results[i]);
        t->results[i] = made;
        t->out[i] = made->data;
    }
    return FLX_OK;
}

/* Prepares for the extents of this step, unless they are those of the last one. */
static flx_code prepare(flx_trainer *t, flx_run_options *o, flx_error *err)
{
    const flx_graph *g = t->training.g;
    size_t n = g->symbols.n;
    if (o->num_dims && !o->dims)
        return flxi_fail(err, FLX_E_USAGE, "flx_run_options: num_dims is %zu, but dims is NULL", o->num_dims);
    FLXI_TRY(flxi_check_symbols(g->symbols.at, n, g->name, o->dims, o->num_dims, err));
    if (n == 0)
        return FLX_OK;
    flx_code code = find_extents(t, o, err);
    if (code == FLX_OK)
        code = check_extents(t, err);
    if (code != FLX_OK) {
        t->is_prepared = false;
        return code;
    }
    o->dims = t->dims;
    o->num_dims = n;
    if (t->is_prepared)
        return FLX_OK;
    FLXI_TRY(make_results(t, err));
    FLXI_TRY(make_second_buffers(t, o, err));
    t->is_prepared = true;
    return FLX_OK;
}

/* The elements of one tensor become those of the other. Both own their memory, and have one type. */
static void exchange(flx_tensor *a, flx_tensor *b)
{
    void *block = a->block, *data = a->data;
    size_t size = a->block_size;
    a->block = b->block;
    a->data = b->data;
    a->block_size = b->block_size;
    b->block = block;
    b->data = data;
    b->block_size = size;
}

/* Other trainers may have exchanged the memory of parameters since the last step. */
static void set_pointers(flx_trainer *t)
{
    const flxi_training *s = &t->training;
    for (size_t i = 0; i < s->g->leaves.n; i++)
        if (t->leaves[i].param)
            t->in[i] = t->leaves[i].param->value->data;
    for (size_t j = 0; j < s->num_updated; j++) {
        const held_leaf *l = &t->leaves[s->updated[j]];
        t->out[s->num_results + j] = t->in_place[j] ? l->param->value->data : l->next->data;
        t->left[s->num_results + j] = t->in_place[j];
    }
}

static void note_numbers(flx_trainer *t)
{
    double norm = t->norm ? flx_tensor_get(t->norm, 0) : NAN;
    t->last_norm = norm >= 0 ? norm : NAN;
    t->is_skipped = norm < 0;
    t->last_rate = t->rate        ? flx_tensor_get(t->rate, 0)
                   : t->rate_leaf ? flx_tensor_get(t->leaves[t->rate_leaf - 1].value, 0)
                                  : t->o.rate;
}

/* Results become the parameters when the step has succeeded. Those that it writes in place it writes last, when nothing
   can fail any more (FLX_COMPILE_ATOMIC). */
static flx_code run_step(flx_trainer *t, const flx_run_options *options, flx_error *err)
{
    const flxi_training *s = &t->training;
    flx_run_options o;
    FLXI_TRY(FLXI_READ_GROWN_OPTIONS(flx_run_options, stop, &o, options, err));
    FLXI_TRY(prepare(t, &o, err));
    FLXI_TRY(take_params(t, err));
    set_pointers(t);
    o.kept_inputs = t->kept;
    o.left_outputs = t->left;
    FLXI_TRY(flx_exec_run_at_with(t->exec, &o, t->in, t->out, err));
    keep_params(t);
    for (size_t j = 0; j < s->num_updated; j++)
        if (!t->in_place[j])
            exchange(t->leaves[s->updated[j]].param->value, t->leaves[s->updated[j]].next);
    note_numbers(t);
    return FLX_OK;
}

/* In the words of the user: the guard is an output that the step has of its own. */
static void explain_numeric(const flx_trainer *t, flx_error *err)
{
    char own[80] = "";
    if (t->training.guard)
        snprintf(own, sizeof own, "'%.60s' is not finite", flx_graph_output_name(t->training.g, t->training.guard - 1));
    if (strcmp(err->message, own) == 0)
        flxi_fail_hint(err, FLX_E_NUMERIC,
                       "nothing was changed; FLX_RUN_CHECK_FINITE names the first op that gives it, "
                       "FLX_TRAIN_UNGUARDED takes such steps",
                       "the loss or a gradient of the step is not finite");
    else
        flxi_hint(err, "nothing was changed; FLX_TRAIN_UNGUARDED takes such steps");
}

flx_code flx_trainer_step_with(flx_trainer *t, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                               double *loss, flx_error *err)
{
    if (!t || (num_feeds && !feeds))
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_step: the trainer and feeds must be given");
    FLXI_TRY(feed_all(t, feeds, num_feeds, err));
    flx_error local = {0};
    flx_code code = run_step(t, options, &local);
    if (code == FLX_E_NUMERIC)
        explain_numeric(t, &local);
    if (code != FLX_OK && err)
        *err = local;
    if (code == FLX_OK && loss)
        *loss = flx_tensor_get(t->results[0], 0);
    return code;
}

flx_code flx_trainer_step(flx_trainer *t, const flx_feed *feeds, size_t num_feeds, double *loss, flx_error *err)
{
    return flx_trainer_step_with(t, NULL, feeds, num_feeds, loss, err);
}

/* ---- Questions ---- */

const flx_tensor *flx_trainer_output(const flx_trainer *t, const char *name)
{
    size_t i;
    return t && name && flxi_find_output(t->training.g, name, &i) && i < t->training.num_results ? t->results[i] : NULL;
}

flx_params *flx_trainer_params(const flx_trainer *t)
{
    return t ? t->params : NULL;
}

flx_params *flx_trainer_state(const flx_trainer *t)
{
    return t ? t->state : NULL;
}

flx_params *flx_trainer_averages(const flx_trainer *t)
{
    return t ? t->averages : NULL;
}

double flx_trainer_rate(const flx_trainer *t)
{
    return t ? t->last_rate : NAN;
}

double flx_trainer_norm_of(const flx_trainer *t, const char *pattern)
{
    double sum = 0;
    bool is_found = false;
    for (size_t i = 0; t && t->squares && isfinite(t->last_rate) && i < t->training.num_trained; i++)
        if (!pattern || flx_name_matches(pattern, t->leaves[t->training.updated[i]].param->name)) {
            sum += flx_tensor_get(t->squares, (int64_t)i);
            is_found = true;
        }
    return is_found ? sqrt(sum) : NAN;
}

double flx_trainer_norm(const flx_trainer *t)
{
    return t ? t->last_norm : NAN;
}

int flx_trainer_skipped(const flx_trainer *t)
{
    return t && t->is_skipped;
}

const flx_graph *flxi_trainer_graph(const flx_trainer *t)
{
    return t->training.g;
}

const char *flxi_trainer_device(const flx_trainer *t)
{
    return t->device;
}

size_t flxi_trainer_results(const flx_trainer *t)
{
    return t->training.num_results;
}

size_t flx_trainer_memory(const flx_trainer *t)
{
    size_t sum = 0;
    for (size_t i = 0; t && i < t->training.g->leaves.n; i++) {
        sum += t->leaves[i].param ? t->leaves[i].param->value->nbytes : 0;
        sum += t->leaves[i].next ? t->leaves[i].next->nbytes : 0;
    }
    return sum;
}

/* The leaf that has the average of parameter i of the set; without averages its own. */
static const flxi_param *value_of(const flx_trainer *t, size_t i, bool takes_averages, const char **name)
{
    const flxi_param *p = t->params->entries.at[i];
    *name = p->name;
    for (size_t j = 0; takes_averages && t->averages && j < t->training.num_trained; j++)
        if (t->leaves[t->training.updated[j]].param == p)
            return t->leaves[t->training.updated[t->training.first_ema + j]].param;
    return p;
}

static flx_code add_whole(const flx_trainer *t, const char *name, const flxi_param *p, flx_params *out, flx_error *err)
{
    const char *cuts = t->training.axes ? flx_trainer_cut(t, p->name) : NULL;
    FLXI_TRY(flxi_tensor_fetch(p->value, err));
    flx_tensor *whole =
        cuts ? flx_mesh_whole(t->ctx, p->value, t->training.axes, cuts, err) : flx_tensor_retain(p->value);
    flx_code code = whole ? flx_params_add(out, name, whole, err) : (flx_code)err->code;
    flx_tensor_release(whole);
    return code;
}

flx_params *flx_trainer_whole(const flx_trainer *t, int averages, flx_error *err)
{
    flx_error local = {0};
    flx_params *out = t ? flx_params_new(t->ctx, &local) : NULL;
    if (!t)
        flxi_fail(&local, FLX_E_USAGE, "flx_trainer_whole: the trainer must not be NULL");
    for (size_t i = 0; out && local.code == FLX_OK && i < t->params->entries.n; i++) {
        const char *name;
        const flxi_param *p = value_of(t, i, averages, &name);
        if (t->params->entries.at[i]->is_set)
            add_whole(t, name, p, out, &local);
    }
    if (local.code && err)
        *err = local;
    if (local.code == FLX_OK)
        return out;
    flx_params_release(out);
    return NULL;
}

const char *flx_trainer_cut(const flx_trainer *t, const char *name)
{
    size_t leaf;
    return t && name && flxi_find_leaf(t->training.g, name, &leaf) ? flxi_training_cut_of(&t->training, leaf) : NULL;
}

const flxi_training *flxi_trainer_training(const flx_trainer *t)
{
    return &t->training;
}

const flx_exec *flx_trainer_exec(const flx_trainer *t)
{
    return t ? t->exec : NULL;
}
