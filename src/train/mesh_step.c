/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_step.c: a training step that is cut for a mesh. Nothing is special about training here: parameters, gradients
   and the state of the optimiser are values of one graph, and the partition finds the exchanges. State that is cut
   along the axis of the batches makes sums of gradients reduce_scatters, and parameters are gathered once they are
   updated; parameters that are cut, too, are gathered where they are used. */
#include "base/error.h"
#include "graph/mesh.h"
#include "train/train.h"

#include <fluxion/mesh.h>
#include <stdio.h>

enum { CUT_TEXT = FLX_MAX_RANK * (FLXI_MESH_NAME + 1) };

typedef struct {
    flxi_training *t;
    const flx_train_options *o;
    flxi_mesh_axis axes[FLXI_MESH_AXES];
    int num_axes;
    const flxi_mesh_axis *data; /* what `zero` cuts along; or NULL */
    bool *is_used;              /* by sharding of the options */
    flx_error *err;
} cutting;

static const char *leaf_name(const flxi_training *t, size_t leaf)
{
    return flxi_value_at(t->g, t->g->leaves.at[leaf])->name;
}

static const flx_type *leaf_type(const flxi_training *t, size_t leaf)
{
    return flxi_type_at(t->g, t->g->leaves.at[leaf]);
}

/* ---- Words ---- */

static const char *keep(const cutting *c, const char *text)
{
    return flxi_arena_text(&c->t->whole->arena, text, strlen(text));
}

static const char *whole_cuts(const cutting *c, const flx_type *type)
{
    char text[2 * FLX_MAX_RANK + 1] = "";
    for (int k = 0; k < type->rank; k++)
        strcat(text, k ? ",-" : "-");
    return keep(c, text);
}

static bool names_axis(const char *cuts, const char *axis)
{
    size_t n = strlen(axis);
    for (const char *s = cuts; *s; s += strcspn(s, ",+"), s += *s != 0)
        if (strncmp(s, axis, n) == 0 && (s[n] == ',' || s[n] == '+' || !s[n]))
            return true;
    return false;
}

/* Also cut along the axis of the batches, where an axis of the value is whole and can be cut. */
static const char *cut_more(const cutting *c, const char *cuts, const flx_type *type)
{
    char text[CUT_TEXT] = "";
    bool is_done = !c->data || c->data->size == 1 || names_axis(cuts, c->data->name);
    const char *s = cuts;
    for (int k = 0; k < type->rank; k++) {
        size_t n = strcspn(s, ",");
        bool takes = !is_done && n == 1 && *s == '-' && type->dims[k] > 0 && type->dims[k] % c->data->size == 0;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s", k ? "," : "",
                 takes ? (int)sizeof c->data->name : (int)n, takes ? c->data->name : s);
        is_done |= takes;
        s += n + (s[n] == ',');
    }
    return keep(c, text);
}

/* ---- Leaves ---- */

/* By the name of the leaf, or a pattern; later ones prevail. */
static const char *listed_cuts(const cutting *c, const char *name)
{
    const char *found = NULL;
    for (size_t i = 0; i < c->o->num_shardings; i++)
        if (flx_name_matches(c->o->shardings[i].name, name)) {
            found = c->o->shardings[i].spec;
            c->is_used[i] = true;
        }
    return found;
}

/* The trained parameter that a state belongs to: "state_<p>_m" with its shape. The longest name prevails. */
static bool find_owner(const flxi_training *t, size_t state, size_t *owner)
{
    const char *name = leaf_name(t, state);
    const flx_type *type = leaf_type(t, state);
    size_t longest = 0;
    for (size_t j = 0; j < t->num_trained && strncmp(name, "state_", 6) == 0; j++) {
        const char *p = leaf_name(t, t->updated[j]);
        const flx_type *of = leaf_type(t, t->updated[j]);
        size_t n = strlen(p);
        bool is_same = n > longest && strncmp(name + 6, p, n) == 0 && name[6 + n] == '_' && of->rank == type->rank &&
                       memcmp(of->dims, type->dims, sizeof *type->dims * (size_t)type->rank) == 0;
        if (is_same) {
            longest = n;
            *owner = t->updated[j];
        }
    }
    return longest > 0;
}

static bool is_trained(const flxi_training *t, size_t leaf)
{
    for (size_t j = 0; j < t->num_trained; j++)
        if (t->updated[j] == leaf)
            return true;
    return false;
}

static flx_code choose_cuts(const cutting *c)
{
    flxi_training *t = c->t;
    for (size_t i = 0; i < t->g->leaves.n; i++) {
        const flx_type *type = leaf_type(t, i);
        const char *cuts = listed_cuts(c, leaf_name(t, i));
        size_t owner;
        bool is_state = i >= t->first_state && find_owner(t, i, &owner);
        if (!cuts)
            cuts = is_state ? t->cuts[owner] : whole_cuts(c, type);
        if (cuts && (is_state ? c->o->zero > 0 : c->o->zero == 3 && is_trained(t, i)))
            cuts = cut_more(c, cuts, type);
        if (!(t->cuts[i] = cuts))
            return flxi_oom(c->err, "a training step");
    }
    return FLX_OK;
}

/* ---- The step ---- */

/* Next values are cut as the leaves that they replace. Other outputs are in the list by their names. */
static size_t list_all(const cutting *c, flx_sharding *list)
{
    const flxi_training *t = c->t;
    size_t n = 0;
    for (size_t i = 0; i < t->g->leaves.n; i++)
        list[n++] = (flx_sharding){leaf_name(t, i), t->cuts[i]};
    for (size_t j = 0; j < t->num_updated; j++)
        list[n++] = (flx_sharding){t->g->outputs.at[t->num_results + j].name, t->cuts[t->updated[j]]};
    for (size_t i = 0; i < c->o->num_shardings; i++)
        for (size_t k = 0; k < t->num_results; k++)
            if (strcmp(c->o->shardings[i].name, t->g->outputs.at[k].name) == 0) {
                list[n++] = c->o->shardings[i];
                c->is_used[i] = true;
            }
    return n;
}

static flx_code check_mesh(const cutting *c)
{
    flx_context *ctx = c->t->g->ctx;
    for (int i = 0; i < c->num_axes; i++) {
        int64_t size = 1;
        FLXI_TRY(flx_mesh_axis(ctx, c->axes[i].name, NULL, &size, c->err));
        if (size != c->axes[i].size)
            return flxi_fail_hint(c->err, FLX_E_CHECK, "join it with these axes: flx_mesh_join()",
                                  "training: the mesh is %.60s, but %lld processes are along '%s'", c->o->mesh,
                                  (long long)size, c->axes[i].name);
    }
    return FLX_OK;
}

static flx_code find_data_axis(cutting *c)
{
    for (int i = 0; i < c->num_axes && c->o->data_axis; i++)
        if (strcmp(c->axes[i].name, c->o->data_axis) == 0)
            c->data = &c->axes[i];
    if (c->o->data_axis && !c->data)
        return flxi_fail(c->err, FLX_E_NAME, "training: the mesh %.60s has no axis '%.40s'", c->o->mesh,
                         c->o->data_axis);
    return FLX_OK;
}

static flx_code cut_step(cutting *c)
{
    flxi_training *t = c->t;
    flxi_arena *arena = &t->whole->arena;
    size_t room = t->g->leaves.n + t->g->outputs.n + c->o->num_shardings * (t->num_results + 1) + 1;
    flx_sharding *list = flxi_new(arena, flx_sharding, room);
    t->cuts = flxi_new(arena, const char *, t->g->leaves.n + 1);
    t->axes = flxi_arena_text(arena, c->o->mesh, strlen(c->o->mesh));
    c->is_used = flxi_new(arena, bool, c->o->num_shardings + 1);
    if (!list || !t->cuts || !t->axes || !c->is_used)
        return flxi_oom(c->err, "a training step");
    FLXI_TRY(choose_cuts(c));
    size_t n = list_all(c, list);
    for (size_t i = 0; i < c->o->num_shardings; i++)
        if (!c->is_used[i])
            return flxi_fail(c->err, FLX_E_NAME, "training: no input, parameter or output matches the sharding '%.60s'",
                             c->o->shardings[i].name);
    flx_graph *part = flx_partition(t->whole, c->o->mesh, list, n, NULL, c->err);
    if (!part)
        return c->err->code ? (flx_code)c->err->code : FLX_E_OOM;
    flx_graph_release(t->g);
    t->g = part;
    return FLX_OK;
}

flx_code flxi_training_cut(flxi_training *t, const flx_train_options *o, bool is_run, flx_error *err)
{
    flx_error local = {0};
    cutting c = {.t = t, .o = o, .err = &local};
    int64_t size = 0;
    if (!o->mesh)
        return FLX_OK;
    flx_code code = flxi_mesh_read_axes(o->mesh, &size, c.axes, &c.num_axes, &local);
    if (code == FLX_OK && is_run)
        code = check_mesh(&c);
    if (code == FLX_OK)
        code = find_data_axis(&c);
    if (code == FLX_OK) {
        t->whole = flx_graph_retain(t->g);
        code = cut_step(&c);
    }
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

const char *flxi_training_cut_of(const flxi_training *t, size_t leaf)
{
    static const char words[2 * FLX_MAX_RANK] = "-,-,-,-,-,-,-,-,-,-,-,-,-,-,-,-";
    int rank = leaf_type(t, leaf)->rank;
    return t->cuts ? t->cuts[leaf] : words + (rank ? 2 * (FLX_MAX_RANK - rank) : 2 * FLX_MAX_RANK - 1);
}
