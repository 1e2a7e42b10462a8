/* SPDX-License-Identifier: Apache-2.0 */
/* share.c: see share.h. All processes read the same batches in the same order, so the numbers of a training do not
   depend on how data are stored; a process then uses rows of its own. */
#include "train/data/share.h"

#include "report.h"
#include "train/mesh_setting.h"

#include <fluxion/mesh.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char axis[] = "data";

bool share_is_alone(const train_plan *p)
{
    return flx_mesh_size(p->model.ctx) == 1;
}

bool share_writes(const train_plan *p)
{
    return flx_mesh_rank(p->model.ctx) == 0;
}

/* Batches are shared by all processes, without cutting the step. */
static int share_batches(train_plan *p)
{
    int64_t size = flx_mesh_size(p->model.ctx);
    if (p->batch % size)
        return fail(FLX_E_USAGE, "batch = %" PRId64 " cannot be shared equally by %" PRId64 " processes", p->batch,
                    size);
    p->options.data_axis = axis;
    return STATUS_OK;
}

int share_begin(train_plan *p, const char *transport)
{
    flx_error err = {0};
    const flx_mesh_options options = {.struct_size = sizeof options, .transport = transport, .axes = p->mesh};
    if (flx_mesh_join(p->model.ctx, &options, &err) != FLX_OK)
        return report(&err, NULL);
    int status = p->mesh ? STATUS_OK : share_batches(p);
    if (!status && !share_writes(p) && !freopen("/dev/null", "w", stdout))
        status = fail(FLX_E_IO, "/dev/null cannot be opened");
    return status;
}

int share_begin_thread(train_plan *p, flx_local_mesh *local, int64_t rank)
{
    flx_error err = {0};
    const flx_mesh_options options = {.struct_size = sizeof options, .axes = p->mesh, .local = local, .rank = rank};
    return flx_mesh_join(p->model.ctx, &options, &err) ? report(&err, NULL) : STATUS_OK;
}

int share_check(const train_plan *p, const flx_graph *trained)
{
    flx_error err = {0};
    if (flx_mesh_agree(p->model.ctx, "the training graph", flx_graph_hash(trained), &err) != FLX_OK)
        return report(&err, NULL);
    return STATUS_OK;
}

void share_end(const train_plan *p, int status)
{
    if (status == STATUS_OK || !p->model.ctx || share_is_alone(p))
        return;
    fflush(NULL);
    flx_mesh_abort(p->model.ctx, status);
}

/* A number of each rank, joined along every axis of the mesh: the first one is that of rank 0. */
int share_number(const train_plan *p, int32_t any, int32_t *number)
{
    flx_error err = {0};
    flx_type type = {.dtype = FLX_I32};
    char spec[300] = "";
    for (const char *s = p->mesh; *s; s += strcspn(s, ","), s += *s == ',') {
        snprintf(spec + strlen(spec), sizeof spec - strlen(spec), "%s%.*s", type.rank ? "," : "", (int)strcspn(s, "="),
                 s);
        type.dims[type.rank++] = 1;
    }
    flx_tensor *part = flx_tensor_new(p->model.ctx, &type, number, &err);
    flx_tensor *all = part ? flx_mesh_whole(p->model.ctx, part, p->mesh, spec, &err) : NULL;
    if (all)
        *number = (int32_t)flx_tensor_get(all, 0);
    for (int64_t i = 0; all && i < flx_tensor_count(all); i++)
        *number |= (int32_t)flx_tensor_get(all, i) & any;
    int status = all ? STATUS_OK : report(&err, NULL);
    flx_tensor_release(all);
    flx_tensor_release(part);
    return status;
}

/* ---- Batches ---- */

void share_free(share_part *s)
{
    for (size_t i = 0; i < s->num_feeds; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)s->feeds[i].value);
    free(s->feeds);
    *s = (share_part){0};
}

static flx_tensor *rows_of(const flx_tensor *whole, flx_context *ctx, flx_error *err)
{
    int64_t size = flx_mesh_size(ctx), rank = flx_mesh_rank(ctx);
    flx_type type = *flx_tensor_type(whole);
    size_t nbytes = flx_tensor_nbytes(whole) / (size_t)size;
    type.dims[0] /= size;
    return flx_tensor_new(ctx, &type, (const char *)flx_tensor_const_data(whole) + (size_t)rank * nbytes, err);
}

static flx_tensor *part_of(const train_plan *p, const flx_feed *f, flx_error *err)
{
    const char *cuts = p->options.mesh ? mesh_setting_cut(p, f->name) : NULL;
    flx_context *ctx = p->model.ctx;
    if (cuts)
        return flx_mesh_part(ctx, f->value, p->mesh, cuts, flx_mesh_rank(ctx), err);
    return p->options.mesh ? flx_tensor_retain((flx_tensor *)(uintptr_t)f->value) : rows_of(f->value, ctx, err);
}

flx_code share_take(share_part *s, const train_plan *p, flx_batch *batch, flx_error *err)
{
    share_free(s);
    if ((share_is_alone(p) && !p->options.mesh) || !batch->num_feeds)
        return FLX_OK;
    if (!p->options.mesh && batch->examples % flx_mesh_size(p->model.ctx)) {
        *err = (flx_error){.code = FLX_E_USAGE, .hint = "write drop_last = true"};
        snprintf(err->message, sizeof err->message,
                 "the last batch has %" PRId64 " %s, which the processes cannot share equally", batch->examples,
                 plural(batch->examples, "example", "examples"));
        return FLX_E_USAGE;
    }
    s->feeds = calloc(batch->num_feeds, sizeof *s->feeds);
    for (size_t i = 0; s->feeds && i < batch->num_feeds; i++) {
        flx_tensor *part = part_of(p, &batch->feeds[i], err);
        if (!part)
            return (flx_code)err->code;
        s->feeds[s->num_feeds++] = (flx_feed){batch->feeds[i].name, part};
    }
    batch->feeds = s->feeds;
    return s->feeds ? FLX_OK : FLX_E_OOM;
}
