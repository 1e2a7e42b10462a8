/* SPDX-License-Identifier: Apache-2.0 */
/* trained.c: see trained.h. */
#include "train/trained.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls `read` with FOLDER/NAME; a file that is not there is left out if it may be. */
static int read_part(trained *t, const char *folder, const char *name, bool may_lack,
                     int (*read)(trained *t, const char *path))
{
    char *path = path_in(folder, name);
    int status = !path ? fail_memory() : may_lack && access(path, F_OK) != 0 ? STATUS_OK : read(t, path);
    free(path);
    return status;
}

static int read_settings(trained *t, const char *path)
{
    int status = settings_read(&t->p.settings, path);
    t->p.settings.file = "settings.train"; /* the path is freed */
    if (!status)
        t->p.inputs = settings_take(&t->p.settings.root, "inputs");
    return status;
}

/* Where a setting made the loss, the main graph of the model predicts, whatever it is called. */
static flx_graph *main_but_loss(const flx_module *m)
{
    flx_graph *found = flx_module_find(m, "main");
    for (size_t i = 0; !found && i < flx_module_count(m); i++) {
        flx_graph *g = flx_module_graph(m, flx_module_count(m) - 1 - i);
        found = strcmp(flx_graph_name(g), "loss") != 0 ? g : NULL;
    }
    return found;
}

static int read_model(trained *t, const char *path)
{
    const char *name = "predict";
    const setting *loss = settings_take(&t->p.settings.root, "loss");
    int status = model_open(&t->p.model, path);
    t->p.model.path = t->p.model.name = "the model"; /* likewise */
    if (!status)
        status = settings_text(&t->p.settings, &t->p.settings.root, "predict", &name);
    if (status)
        return status;
    t->p.predict = flx_module_find(t->p.model.module, name);
    if (!t->p.predict && loss && loss->kind == SETTING_CALL)
        t->p.predict = main_but_loss(t->p.model.module);
    if (t->p.predict)
        return STATUS_OK;
    status = fail(FLX_E_NAME, "%s has no graph '%s'", path, name);
    hint("it takes inputs without the label or what follows, and returns logits or numbers");
    return status;
}

static int read_weights(trained *t, const char *path)
{
    flx_error err = {0};
    t->weights = flx_params_of(t->p.predict, 0, &err);
    if (!t->weights || flx_params_load(t->weights, path, FLX_PARAMS_SURPLUS, &err) != FLX_OK)
        return report(&err, path);
    return STATUS_OK;
}

static int read_tokeniser(trained *t, const char *path)
{
    flx_error err = {0};
    t->p.data.tokeniser = flx_tokeniser_read(t->p.model.ctx, path, &err);
    return t->p.data.tokeniser ? STATUS_OK : report(&err, path);
}

/* The lines of a file. */
static int read_lines(const char *path, char ***names, size_t *count)
{
    file_bytes bytes = {0};
    int status = file_read(path, &bytes);
    size_t lines = 0;
    for (size_t i = 0; !status && i < bytes.size; i++)
        lines += bytes.data[i] == '\n';
    *names = status ? NULL : calloc(lines + 1, sizeof **names);
    if (!status && !*names)
        status = fail_memory();
    const char *at = bytes.data;
    while (!status && *count < lines) {
        size_t n = (size_t)((char *)memchr(at, '\n', bytes.size - (size_t)(at - bytes.data)) - at);
        char *name = (*names)[*count] = strndup(at, n);
        at += n + 1;
        if (!name)
            status = fail_memory();
        else
            ++*count;
    }
    free(bytes.data);
    return status;
}

static void free_lines(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

static int read_classes(trained *t, const char *path)
{
    return read_lines(path, &t->classes, &t->num_classes);
}

static int read_features(trained *t, const char *path)
{
    return read_lines(path, &t->features, &t->num_features);
}

int trained_open(trained *t, const char *folder)
{
    *t = (trained){0};
    int status = read_part(t, folder, "settings.train", true, read_settings);
    if (!status)
        status = read_part(t, folder, "model.flx", false, read_model);
    if (!status)
        status = read_part(t, folder, "weights.safetensors", false, read_weights);
    if (!status)
        status = read_part(t, folder, "tokeniser.json", true, read_tokeniser);
    if (!status)
        status = read_part(t, folder, "features.txt", true, read_features);
    return status ? status : read_part(t, folder, "classes.txt", true, read_classes);
}

void trained_close(trained *t)
{
    free_lines(t->classes, t->num_classes);
    free_lines(t->features, t->num_features);
    flx_params_release(t->weights);
    plan_free(&t->p);
    *t = (trained){0};
}
