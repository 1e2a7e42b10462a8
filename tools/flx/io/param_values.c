/* SPDX-License-Identifier: Apache-2.0 */
/* param_values.c: see param_values.h. */
#include "io/param_values.h"

#include "io/output.h"
#include "report.h"

#include <fluxion/tensor.h>
#include <stdlib.h>
#include <string.h>

static bool has_type(const flx_tensor *t, const flx_type *want)
{
    const flx_type *got = flx_tensor_type(t);
    return got->dtype == want->dtype && got->rank == want->rank &&
           memcmp(got->dims, want->dims, (size_t)want->rank * sizeof *want->dims) == 0;
}

/* Of the file of weights, or else of an ONNX model. A value of another type belongs to something else. */
static flx_tensor *value_of(const param_values *p, const model *m, const char *name, const flx_type *type)
{
    flx_tensor *t = flx_weights_read(m->ctx, p->from, name, NULL);
    t = t ? t : flx_tensor_retain(model_param(m, name));
    if (!t || has_type(t, type))
        return t;
    flx_tensor_release(t);
    return NULL;
}

int param_values_read(param_values *p, const model *m, const flx_graph *g)
{
    size_t n = flx_graph_input_count(g);
    *p = (param_values){.feeds = calloc(n + 1, sizeof *p->feeds), .from = weights_find(m->path)};
    if (!p->feeds || !p->from)
        return fail_memory();
    for (size_t i = 0; i < n; i++) {
        flx_val v = flx_graph_input(g, i);
        if (!flx_graph_input_is_param(g, i))
            continue;
        flx_tensor *t = value_of(p, m, flx_val_name(g, v), flx_val_type(g, v));
        if (t)
            p->feeds[p->count++] = (flx_feed){flx_val_name(g, v), t};
        else
            p->missing++;
    }
    return STATUS_OK;
}

void param_values_free(param_values *p)
{
    for (size_t i = 0; i < p->count; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)p->feeds[i].value);
    free(p->feeds);
    free(p->from);
    *p = (param_values){0};
}

int param_values_write(const param_values *p, const char *path)
{
    const char **names = calloc(p->count + 1, sizeof *names);
    const flx_tensor **values = calloc(p->count + 1, sizeof(const flx_tensor *));
    char *beside = weights_path(path);
    flx_error err = {0};
    int status = names && values && beside ? STATUS_OK : fail_memory();
    for (size_t i = 0; !status && i < p->count; i++) {
        names[i] = p->feeds[i].name;
        values[i] = p->feeds[i].value;
    }
    if (!status && p->count && !output_is_same(beside, p->from) &&
        flx_safetensors_write(beside, names, values, p->count, &err) != FLX_OK)
        status = output_failed(beside, &err);
    free(names);
    free(values);
    free(beside);
    return status;
}
