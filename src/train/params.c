/* SPDX-License-Identifier: Apache-2.0 */
/* params.c: sets of named tensors. The tensor of an entry is made once and stays, so that executables and other
   trainers can hold it; a trainer changes its elements, or exchanges its memory for that of the next values. */
#include "train/params.h"

#include "base/error.h"

#include <stdio.h>

/* ---- Making ---- */

flx_params *flx_params_new(flx_context *ctx, flx_error *err)
{
    if (!ctx) {
        flxi_fail(err, FLX_E_USAGE, "flx_params_new: the context must be given");
        return NULL;
    }
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_params *s = flxi_alloc(mem, 1, sizeof *s);
    if (!s) {
        flxi_oom(err, "a set of parameters");
        return NULL;
    }
    s->ctx = ctx;
    s->mem = mem;
    atomic_init(&s->refs, 1);
    flxi_arena_init(&s->arena, mem);
    return s;
}

flx_params *flx_params_retain(flx_params *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

/* Removes entries from position n on; what the index says of them is ignored, because it is compared with entries. */
static void cut_entries(flx_params *s, size_t n)
{
    while (s->entries.n > n)
        flx_tensor_release(s->entries.at[--s->entries.n]->value);
}

void flx_params_release(flx_params *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    cut_entries(s, 0);
    flxi_vec_free(s->mem, &s->entries);
    flxi_index_free(s->mem, &s->index);
    flxi_arena_free(&s->arena);
    flxi_free(s->mem, s, 1, sizeof *s);
}

flxi_param *flxi_params_find(const flx_params *s, const char *name)
{
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&s->index, flxi_hash_text(FLXI_HASH_SEED, name));
         flxi_index_next(&s->index, &p, &i);)
        if (i < s->entries.n && strcmp(s->entries.at[i]->name, name) == 0)
            return s->entries.at[i];
    return NULL;
}

flx_code flxi_params_hold(flx_params *s, const char *name, flx_tensor *value, bool is_set, flx_error *err)
{
    flxi_param *p = flxi_new(&s->arena, flxi_param, 1);
    char *copy = p ? flxi_arena_text(&s->arena, name, strlen(name)) : NULL;
    if (!copy || s->entries.n >= UINT32_MAX || !flxi_reserve(s->mem, &s->entries) ||
        !flxi_index_add(s->mem, &s->index, flxi_hash_text(FLXI_HASH_SEED, name), (uint32_t)s->entries.n))
        return flxi_oom(err, "a set of parameters");
    *p = (flxi_param){copy, flx_tensor_retain(value), is_set};
    s->entries.at[s->entries.n++] = p;
    return FLX_OK;
}

flx_code flxi_params_zeros(flx_params *s, const char *name, const flx_type *type, bool is_set, flx_error *err)
{
    flx_error local = {0};
    flx_tensor *value = flx_tensor_new(s->ctx, type, NULL, &local);
    flx_code code = value ? flxi_params_hold(s, name, value, is_set, &local) : (flx_code)local.code;
    flx_tensor_release(value);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

flx_code flxi_param_fits(const flx_params *s, const flxi_param *p, const flx_type *type, flx_error *err)
{
    flxi_type_text want, got;
    if (flxi_type_equal(&p->value->type, type))
        return FLX_OK;
    return flxi_fail(err, type->dtype == p->value->type.dtype ? FLX_E_SHAPE : FLX_E_DTYPE,
                     "the parameter '%.60s' is declared %s, but the value is %s", p->name,
                     flxi_type_str(s->ctx, &p->value->type, &want), flxi_type_str(s->ctx, type, &got));
}

flx_code flx_params_add(flx_params *s, const char *name, const flx_tensor *value, flx_error *err)
{
    if (!s || !name || !value)
        return flxi_fail(err, FLX_E_USAGE, "flx_params_add: the set, a name and a value must be given");
    if (flxi_params_find(s, name))
        return flxi_fail(err, FLX_E_DUP_NAME, "the set already has a parameter called '%.60s'", name);
    FLXI_TRY(flxi_params_zeros(s, name, &value->type, false, err));
    return flx_params_set(s, name, value, err);
}

/* ---- The parameters of a graph ---- */

bool flxi_find_update(const flx_graph *g, size_t leaf, size_t *output)
{
    char name[300];
    const flxi_value *v = flxi_value_at(g, g->leaves.at[leaf]);
    if (!flxi_is_param(flxi_node_at(g, v->node)) || strlen(v->name) > 250)
        return false;
    snprintf(name, sizeof name, "new_%s", v->name);
    return flxi_find_output(g, name, output) && flxi_type_equal(flxi_type_at(g, g->outputs.at[*output].val), v->type);
}

/* The seed of a parameter: by its name, so that it does not depend on which others there are. */
static uint64_t seed_of(const char *name, uint64_t seed)
{
    return flxi_hash_u64(flxi_hash_text(FLXI_HASH_SEED, name), seed);
}

static bool is_key(const flx_type *t)
{
    return t->dtype == FLX_U32 && t->rank == 1 && t->dims[0] == 2;
}

/* What is not floating has no value unless the graph says how it begins, or it is a state. */
static flx_code initialise(flx_params *s, const flx_graph *g, size_t leaf, uint64_t seed, flx_error *err)
{
    const flxi_value *v = flxi_value_at(g, g->leaves.at[leaf]);
    flx_init init = flx_graph_input_init(g, leaf);
    size_t output;
    bool is_said = flxi_leaf_init(g, g->leaves.at[leaf]).kind != FLX_INIT_USUAL;
    if (!is_said && is_key(v->type))
        init.kind = FLX_INIT_KEY;
    else if (!is_said && !flxi_is_float(v->type->dtype) && !flxi_find_update(g, leaf, &output))
        return flxi_params_zeros(s, v->name, v->type, false, err);
    flx_tensor *value = flx_init_tensor(s->ctx, v->type, init, seed_of(v->name, seed), err);
    flx_code code = value ? flxi_params_hold(s, v->name, value, true, err) : (flx_code)err->code;
    flx_tensor_release(value);
    return code;
}

static flx_code check_leaf(const flx_params *s, const flx_graph *g, size_t leaf, flx_error *err)
{
    const flxi_value *v = flxi_value_at(g, g->leaves.at[leaf]);
    const flxi_param *p = flxi_params_find(s, v->name);
    flxi_type_text text;
    if (!flxi_type_is_static(v->type))
        return flxi_fail_hint(err, FLX_E_UNBOUND_DIM, "give the extents: --set DIM=INT (flx_specialise())",
                              "the parameter '%.60s' is %s, but parameters need static types", v->name,
                              flxi_type_str(s->ctx, v->type, &text));
    return p ? flxi_param_fits(s, p, v->type, err) : FLX_OK;
}

static flx_code join(flx_params *s, const flx_graph *g, size_t num_leaves, uint64_t seed, flx_error *err)
{
    for (int adds = 0; adds < 2; adds++)
        for (size_t i = 0; i < num_leaves; i++) {
            const flxi_value *v = flxi_value_at(g, g->leaves.at[i]);
            if (!flxi_is_param(flxi_node_at(g, v->node)))
                continue;
            if (!adds)
                FLXI_TRY(check_leaf(s, g, i, err));
            else if (!flxi_params_find(s, v->name))
                FLXI_TRY(initialise(s, g, i, seed, err));
        }
    return FLX_OK;
}

flx_code flxi_params_join(flx_params *s, const flx_graph *g, size_t num_leaves, uint64_t seed, flx_error *err)
{
    flx_error local = {0};
    size_t before = s->entries.n;
    flx_code code = g->ctx == s->ctx ? join(s, g, num_leaves, seed, &local)
                                     : flxi_fail(&local, FLX_E_USAGE,
                                                 "the set and the graph '%.60s' have different "
                                                 "contexts",
                                                 g->name);
    if (code != FLX_OK)
        cut_entries(s, before);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

flx_code flx_params_join(flx_params *s, const flx_graph *g, uint64_t seed, flx_error *err)
{
    if (!s)
        return flxi_fail(err, FLX_E_USAGE, "flx_params_join: the set must be given");
    FLXI_TRY(flx_graph_error(g, err));
    return flxi_params_join(s, g, g->leaves.n, seed, err);
}

flx_params *flx_params_of(const flx_graph *g, uint64_t seed, flx_error *err)
{
    if (flx_graph_error(g, err) != FLX_OK)
        return NULL;
    flx_params *s = flx_params_new(g->ctx, err);
    if (s && flx_params_join(s, g, seed, err) != FLX_OK) {
        flx_params_release(s);
        s = NULL;
    }
    return s;
}

/* ---- Reading and setting ---- */

size_t flx_params_count(const flx_params *s)
{
    return s ? s->entries.n : 0;
}

const char *flx_params_name(const flx_params *s, size_t i)
{
    return s && i < s->entries.n ? s->entries.at[i]->name : NULL;
}

flx_tensor *flx_params_at(const flx_params *s, size_t i)
{
    return s && i < s->entries.n && s->entries.at[i]->is_set ? s->entries.at[i]->value : NULL;
}

flx_tensor *flx_params_find(const flx_params *s, const char *name)
{
    const flxi_param *p = s && name ? flxi_params_find(s, name) : NULL;
    return p && p->is_set ? p->value : NULL;
}

flx_code flx_params_set(flx_params *s, const char *name, const flx_tensor *value, flx_error *err)
{
    char text[60];
    if (!s || !name || !value)
        return flxi_fail(err, FLX_E_USAGE, "flx_params_set: the set, a name and a value must be given");
    flxi_param *p = flxi_params_find(s, name);
    if (!p)
        return flxi_fail(err, FLX_E_NAME, "the set has no parameter called '%s'",
                         flxi_printable(text, sizeof text, name, strlen(name)));
    FLXI_TRY(flxi_param_fits(s, p, &value->type, err));
    FLXI_TRY(flxi_tensor_fetch(value, err));
    FLXI_TRY(flxi_tensor_take(p->value, err));
    if (value->nbytes)
        memmove(p->value->data, value->data, value->nbytes);
    p->is_set = true;
    return FLX_OK;
}

/* After a mismatch the search continues with the latest * standing for one character more, so it takes at most
   |pattern| |name| steps. */
int flx_name_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *resume = NULL;
    if (!pattern || !name)
        return 0;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return 0;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

int64_t flx_params_elements(const flx_params *s, const char *pattern)
{
    int64_t sum = 0;
    for (size_t i = 0; i < flx_params_count(s); i++)
        if (!pattern || flx_name_matches(pattern, s->entries.at[i]->name))
            sum += s->entries.at[i]->value->count;
    return sum;
}

/* ---- Executables ---- */

size_t flx_params_feeds(const flx_params *s, const flx_graph *g, flx_feed *feeds, size_t capacity)
{
    size_t n = 0;
    for (size_t i = 0; s && i < flx_graph_input_count(g); i++) {
        const char *name = flx_val_name(g, flx_graph_input(g, i));
        const flx_tensor *value = flx_graph_input_is_param(g, i) ? flx_params_find(s, name) : NULL;
        if (!value)
            continue;
        if (n < capacity && feeds)
            feeds[n] = (flx_feed){name, value};
        n++;
    }
    return n;
}

static flx_code no_value(const char *name, const flxi_param *p, flx_error *err)
{
    return flxi_fail(err, p ? FLX_E_MISSING_INPUT : FLX_E_NAME,
                     p ? "the parameter '%.60s' has no value" : "the set has no parameter called '%.60s'", name);
}

flx_code flx_params_bind(const flx_params *s, flx_exec *e, flx_error *err)
{
    const char *name;
    if (!s || !e)
        return flxi_fail(err, FLX_E_USAGE, "flx_params_bind: the set and the executable must be given");
    for (size_t i = 0; (name = flx_exec_param_name(e, i)); i++) {
        const flxi_param *p = flxi_params_find(s, name);
        if (!p || !p->is_set)
            return no_value(name, p, err);
    }
    for (size_t i = 0; (name = flx_exec_param_name(e, i)); i++)
        FLXI_TRY(flx_exec_share_param(e, name, flx_params_find(s, name), err));
    return FLX_OK;
}

/* ---- Files ---- */

flx_code flx_params_save(const flx_params *s, const char *path, flx_error *err)
{
    if (!s || !path)
        return flxi_fail(err, FLX_E_USAGE, "flx_params_save: the set and a path must be given");
    size_t n = s->entries.n;
    const char **keys = flxi_alloc(s->mem, n, sizeof *keys);
    const flx_tensor **values = flxi_alloc(s->mem, n, sizeof *values);
    flx_code code = keys && values ? FLX_OK : flxi_oom(err, "a file of parameters");
    for (size_t i = 0; code == FLX_OK && i < n; i++) {
        keys[i] = s->entries.at[i]->name;
        values[i] = s->entries.at[i]->value;
        if (!s->entries.at[i]->is_set)
            code = no_value(keys[i], s->entries.at[i], err);
    }
    if (code == FLX_OK)
        code = flx_safetensors_write(path, keys, values, n, err);
    if (keys)
        flxi_free(s->mem, keys, n, sizeof *keys);
    if (values)
        flxi_free(s->mem, values, n, sizeof *values);
    return code;
}

/* Names for a message: the first few, then how many more there are. */
typedef struct {
    size_t count, used;
    char text[260];
} name_list;

static void list_name(name_list *l, const char *name)
{
    char printable[50];
    if (l->count++ < 4)
        l->used += (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s'%s'", l->used ? ", " : "",
                                    flxi_printable(printable, sizeof printable, name, strlen(name)));
}

static const char *list_text(name_list *l)
{
    if (l->count > 4)
        snprintf(l->text + l->used, sizeof l->text - l->used, " and %zu more", l->count - 4);
    return l->text;
}

/* A file that is being read: everything is read and checked before anything is changed. */
typedef struct {
    flx_params *s;
    const char *path;
    flx_keys *keys;
    flx_tensor **values; /* by entry */
    flx_error *err;
} file_load;

static bool has_key(const flx_keys *k, const char *name)
{
    for (size_t i = 0; i < flx_keys_count(k); i++)
        if (strcmp(flx_keys_at(k, i), name) == 0)
            return true;
    return false;
}

static flx_code check_names(file_load *l, uint32_t flags)
{
    name_list missing = {0}, surplus = {0};
    for (size_t i = 0; i < l->s->entries.n; i++)
        if (!has_key(l->keys, l->s->entries.at[i]->name))
            list_name(&missing, l->s->entries.at[i]->name);
    for (size_t i = 0; i < flx_keys_count(l->keys); i++)
        if (!flxi_params_find(l->s, flx_keys_at(l->keys, i)))
            list_name(&surplus, flx_keys_at(l->keys, i));
    if (missing.count && !(flags & FLX_PARAMS_MISSING))
        return flxi_fail_hint(l->err, FLX_E_NAME, "FLX_PARAMS_MISSING keeps their values",
                              "the file lacks the parameters %s", list_text(&missing));
    if (surplus.count && !(flags & FLX_PARAMS_SURPLUS))
        return flxi_fail_hint(l->err, FLX_E_NAME, "FLX_PARAMS_SURPLUS ignores them",
                              "the file has tensors that are not parameters: %s", list_text(&surplus));
    return FLX_OK;
}

static flx_code load(file_load *l, uint32_t flags)
{
    flx_params *s = l->s;
    if (!(l->keys = flx_keys_read(s->ctx, l->path, l->err)))
        return (flx_code)l->err->code;
    FLXI_TRY(check_names(l, flags));
    if (!(l->values = flxi_alloc(s->mem, s->entries.n, sizeof *l->values)))
        return flxi_oom(l->err, "parameters of a file");
    for (size_t i = 0; i < s->entries.n; i++) {
        const char *name = s->entries.at[i]->name;
        if (!has_key(l->keys, name))
            continue;
        l->values[i] = flx_weights_read(s->ctx, l->path, name, l->err);
        if (!l->values[i])
            return (flx_code)l->err->code;
        FLXI_TRY(flxi_param_fits(s, s->entries.at[i], &l->values[i]->type, l->err));
    }
    for (size_t i = 0; i < s->entries.n; i++)
        if (l->values[i])
            FLXI_TRY(flx_params_set(s, s->entries.at[i]->name, l->values[i], l->err));
    return FLX_OK;
}

flx_code flx_params_load(flx_params *s, const char *path, uint32_t flags, flx_error *err)
{
    flx_error local = {0};
    if (!s || !path)
        return flxi_fail(err, FLX_E_USAGE, "flx_params_load: the set and a path must be given");
    if (flags & ~(uint32_t)(FLX_PARAMS_MISSING | FLX_PARAMS_SURPLUS))
        return flxi_fail(err, FLX_E_USAGE, "flx_params_load: unknown flags 0x%x", (unsigned)flags);
    file_load l = {.s = s, .path = path, .err = &local};
    flx_code code = load(&l, flags);
    for (size_t i = 0; l.values && i < s->entries.n; i++)
        flx_tensor_release(l.values[i]);
    if (l.values)
        flxi_free(s->mem, l.values, s->entries.n, sizeof *l.values);
    flx_keys_free(l.keys);
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

/* ---- States of a graph ---- */

flx_val flx_update(flx_graph *g, flx_val param, flx_val next)
{
    char name[300];
    if (flx_graph_error(g, NULL) != FLX_OK)
        return FLX_NONE;
    const flx_type *is = flx_val_type(g, param), *becomes = flx_val_type(g, next);
    flxi_type_text want, got;
    if (!is || !becomes) {
        flxi_graph_failf(g, FLX_E_USAGE, NULL, "flx_update: a parameter and a value of this graph must be given");
        return FLX_NONE;
    }
    if (!flxi_is_param(flxi_node_of(g, param.id))) {
        flxi_graph_failf(g, FLX_E_USAGE, "declare it with flx_param()", "flx_update: the value is not a parameter");
        return FLX_NONE;
    }
    if (!flxi_type_equal(is, becomes)) {
        flxi_graph_failf(g, is->dtype == becomes->dtype ? FLX_E_SHAPE : FLX_E_DTYPE, NULL,
                         "the parameter '%.60s' is %s and cannot become %s", flx_val_name(g, param),
                         flxi_type_str(g->ctx, is, &want), flxi_type_str(g->ctx, becomes, &got));
        return FLX_NONE;
    }
    size_t output;
    snprintf(name, sizeof name, "new_%.250s", flx_val_name(g, param));
    if (flxi_find_output(g, name, &output)) {
        flxi_graph_failf(g, FLX_E_DUP_NAME, NULL, "flx_update: there is an output '%.60s' already", name);
        return FLX_NONE;
    }
    return flxi_output_update(g, param, next) == FLX_OK ? next : FLX_NONE;
}
