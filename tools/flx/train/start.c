/* SPDX-License-Identifier: Apache-2.0 */
/* start.c: see start.h. A file must have all parameters of the loss and nothing that no graph takes, unless the setting
   says otherwise: a name that is spelt in two ways would be trained from new values in silence. */
#include "train/start.h"

#include "io/spec.h"
#include "report.h"
#include "suggest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const train_plan *p;
    start_values *s;
    char *path;     /* of the file; NULL: the values of the model alone */
    flx_keys *keys; /* that it has */
} reading;

/* ---- Which file ---- */

/* m.safetensors beside the model, if there is one. */
static int find_beside(reading *r)
{
    const setting *given = settings_take((setting *)&r->p->settings.root, "model");
    char *whole = given ? path_in(r->p->folder, given->text) : NULL, *beside = whole ? weights_path(whole) : NULL;
    bool is_there = beside && access(beside, F_OK) == 0;
    int status = given && !beside ? fail_memory() : STATUS_OK;
    free(whole);
    if (is_there)
        r->path = beside;
    else
        free(beside);
    return status;
}

static int find_file(reading *r)
{
    flx_error err = {0};
    int status = STATUS_OK;
    if (r->p->start)
        status = (r->path = path_in(r->p->folder, r->p->start)) ? STATUS_OK : fail_memory();
    else
        status = find_beside(r);
    if (!status && r->path && !(r->keys = flx_keys_read(r->p->model.ctx, r->path, &err)))
        status = report(&err, r->path);
    return status;
}

/* ---- Names ---- */

static bool has_key(const reading *r, const char *name)
{
    for (size_t i = 0; i < flx_keys_count(r->keys); i++)
        if (strcmp(flx_keys_at(r->keys, i), name) == 0)
            return true;
    return false;
}

/* Whether a graph of the model has a parameter of this name; `decode` has some that the loss lacks. */
static bool is_param(const reading *r, const char *name)
{
    for (size_t k = 0; k < flx_module_count(r->p->model.module); k++) {
        const flx_graph *g = flx_module_graph(r->p->model.module, k);
        for (size_t i = 0; i < flx_graph_input_count(g); i++)
            if (flx_graph_input_is_param(g, i) && strcmp(flx_val_name(g, flx_graph_input(g, i)), name) == 0)
                return true;
    }
    return false;
}

static void hint_name(const reading *r, const suggestion *guess, const char *whose, const char *allowed)
{
    if (guess->best)
        hint("%s '%.60s'; start = weights(\"FILE\", %s) allows it", whose, guess->best, allowed);
    else
        hint("start = weights(\"FILE\", %s) allows it, start = new begins with new values%s", allowed,
             r->p->start ? "" : ", start = \"FILE\" with those of another file");
}

static int missing(const reading *r, const char *name)
{
    suggestion guess = suggest_begin(name);
    for (size_t i = 0; i < flx_keys_count(r->keys); i++)
        if (!is_param(r, flx_keys_at(r->keys, i)))
            suggest_consider(&guess, flx_keys_at(r->keys, i));
    int status = fail(FLX_E_NAME, "%s lacks the parameter '%.60s'", r->path, name);
    hint_name(r, &guess, "it has", "missing=new");
    return status;
}

static int surplus(const reading *r, const char *name)
{
    suggestion guess = suggest_begin(name);
    for (size_t i = 0; i < flx_params_count(r->s->set); i++)
        suggest_consider(&guess, flx_params_name(r->s->set, i));
    int status = fail(FLX_E_NAME, "%s has '%.60s', which is not a parameter of the model", r->path, name);
    hint_name(r, &guess, "the model has", "surplus=ignore");
    return status;
}

/* ---- Values ---- */

static const flx_type *type_of(const reading *r, const char *name)
{
    return flx_val_type(r->p->loss, flx_graph_find(r->p->loss, name));
}

static bool is_float(const flx_type *t)
{
    return t->dtype == FLX_F16 || t->dtype == FLX_BF16 || t->dtype == FLX_F32 || t->dtype == FLX_F64;
}

static int set_from_file(const reading *r, const char *name)
{
    flx_error err = {0};
    flx_tensor *value = flx_weights_read(r->p->model.ctx, r->path, name, &err);
    int status = value ? spec_convert(name, r->path, type_of(r, name)->dtype, &value) : report(&err, r->path);
    if (!status && flx_params_set(r->s->set, name, value, &err) != FLX_OK)
        status = report(&err, r->path);
    flx_tensor_release(value);
    return status;
}

/* Of the file, or else of an ONNX model. What is not a float, such as a random key, may keep its new value. */
static int set_param(const reading *r, const char *name)
{
    flx_error err = {0};
    const flx_tensor *own = r->p->start ? NULL : model_param(&r->p->model, name);
    if (has_key(r, name))
        return set_from_file(r, name);
    if (!own && r->path && is_float(type_of(r, name))) {
        r->s->num_new++;
        return r->p->may_lack ? STATUS_OK : missing(r, name);
    }
    if (!own)
        return STATUS_OK;
    return flx_params_set(r->s->set, name, own, &err) == FLX_OK ? STATUS_OK : report(&err, r->p->model.name);
}

static int set_all(const reading *r)
{
    flx_error err = {0};
    if (!(r->s->set = flx_params_of(r->p->loss, (uint64_t)r->p->seed, &err)))
        return report(&err, r->p->model.name);
    int status = STATUS_OK;
    for (size_t i = 0; !status && i < flx_params_count(r->s->set); i++)
        status = set_param(r, flx_params_name(r->s->set, i));
    for (size_t i = 0; !status && i < flx_keys_count(r->keys); i++)
        if (!r->p->may_exceed && !is_param(r, flx_keys_at(r->keys, i)))
            status = surplus(r, flx_keys_at(r->keys, i));
    if (!status && r->path && r->s->num_new == flx_params_count(r->s->set))
        status = fail(FLX_E_NAME, "%s has no parameter of the model", r->path);
    return status;
}

int start_read(start_values *s, const train_plan *p)
{
    reading r = {.p = p, .s = s};
    *s = (start_values){0};
    if (p->is_new)
        return STATUS_OK;
    int status = find_file(&r);
    if (!status && (r.path || flx_onnx_param_count(p->model.onnx))) {
        status = set_all(&r);
        s->from = strdup(r.path ? r.path : p->model.name);
        if (!status && !s->from)
            status = fail_memory();
    }
    flx_keys_free(r.keys);
    free(r.path);
    return status;
}

int start_set_parts(const start_values *s, const train_plan *p, flx_trainer *t)
{
    flx_error err = {0};
    flx_context *ctx = p->model.ctx;
    for (size_t i = 0; i < flx_params_count(s->set); i++) {
        const char *name = flx_params_name(s->set, i), *cuts = flx_trainer_cut(t, name);
        const flx_tensor *whole = flx_params_at(s->set, i);
        flx_tensor *part = cuts ? flx_mesh_part(ctx, whole, p->mesh, cuts, flx_mesh_rank(ctx), &err) : NULL;
        bool is_set = !cuts || (part && flx_trainer_set_param(t, name, part, &err) == FLX_OK);
        flx_tensor_release(part);
        if (!is_set)
            return report(&err, s->from);
    }
    return STATUS_OK;
}

void start_free(start_values *s)
{
    flx_params_release(s->set);
    free(s->from);
    *s = (start_values){0};
}
