/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_checkpoint.c: checkpoints in parts. Each process writes the parts that it has to a checkpoint of its own; parts
   that several have are written by the first of them. The index says how the writers' mesh was and how each value was
   cut, so that any other mesh can read it: each process copies what its parts overlap. The index is written last, once
   all processes have written theirs; parts have a number in their names, so those of the checkpoint before stay until
   then. */
#include "base/error.h"
#include "graph/mesh.h"
#include "train/params.h"
#include "train/train.h"

#include <fluxion/checkpoint.h>
#include <fluxion/data.h>
#include <fluxion/mesh.h>
#include <stdio.h>
#include <unistd.h>

static const char index_name[] = "index.safetensors", mesh_key[] = "parts.mesh", number_key[] = "parts.number",
                  epoch_key[] = "loader.epoch", row_key[] = "loader.row";

enum { PATH_BYTES = 4096, CUT_KEY = 320 };

/* ---- Values of a trainer ---- */

/* The sets of a trainer one after the other. */
static flxi_param *value_at(const flx_trainer *t, size_t i)
{
    const flx_params *p = flx_trainer_params(t), *s = flx_trainer_state(t);
    if (i < p->entries.n)
        return p->entries.at[i];
    return i - p->entries.n < s->entries.n ? s->entries.at[i - p->entries.n] : NULL;
}

static flx_context *context_of(const flx_trainer *t)
{
    return flx_trainer_params(t)->ctx;
}

/* A mesh of one process where there is none. */
static const char *axes_of(const flx_trainer *t)
{
    const char *axes = flxi_trainer_training(t)->axes;
    return axes ? axes : "data=1";
}

/* Values of the set that the step does not have are whole. */
static const char *cuts_of(const flx_trainer *t, const flxi_param *p, char room[2 * FLX_MAX_RANK])
{
    const char *cuts = flx_trainer_cut(t, p->name);
    if (cuts)
        return cuts;
    room[0] = 0;
    for (int k = 0; k < p->value->type.rank; k++)
        strcat(room, k ? ",-" : "-");
    return room;
}

/* ---- Where a part is ---- */

typedef struct {
    flxi_mesh_axis axes[FLXI_MESH_AXES];
    int num_axes;
    int64_t ranks;
} mesh_axes;

static flx_code read_mesh(const char *text, mesh_axes *m, flx_error *err)
{
    m->ranks = 0;
    return flxi_mesh_read_axes(text, &m->ranks, m->axes, &m->num_axes, err);
}

typedef struct {
    int64_t begin[FLX_MAX_RANK], extent[FLX_MAX_RANK];
    bool is_first; /* of the ranks that have it */
} region;

static const flxi_mesh_axis *find_axis(const mesh_axes *m, const char *name, size_t n)
{
    for (int i = 0; i < m->num_axes; i++)
        if (strlen(m->axes[i].name) == n && memcmp(m->axes[i].name, name, n) == 0)
            return &m->axes[i];
    return NULL;
}

/* The region of the whole value that a rank has. */
static flx_code find_region(const mesh_axes *m, const char *cuts, const flx_type *whole, int64_t rank, region *out,
                            flx_error *err)
{
    bool is_cut[FLXI_MESH_AXES] = {false};
    const char *s = cuts;
    for (int k = 0; k < whole->rank; k++) {
        size_t n = strcspn(s, ",");
        const flxi_mesh_axis *a = n == 1 && *s == '-' ? NULL : find_axis(m, s, n);
        int64_t parts = a ? a->size : 1;
        if ((!a && (n != 1 || *s != '-')) || whole->dims[k] % parts)
            return flxi_fail(err, FLX_E_SYNTAX, "the checkpoint says a cut '%.60s' that its mesh cannot have", cuts);
        out->extent[k] = whole->dims[k] / parts;
        out->begin[k] = a ? rank / a->stride % parts * out->extent[k] : 0;
        if (a)
            is_cut[a - m->axes] = true;
        s += n + (s[n] == ',');
    }
    out->is_first = true;
    for (int i = 0; i < m->num_axes; i++)
        out->is_first &= is_cut[i] || rank / m->axes[i].stride % m->axes[i].size == 0;
    return FLX_OK;
}

static flx_code whole_type(const mesh_axes *m, const char *cuts, const flx_type *part, flx_type *out, flx_error *err)
{
    const char *s = cuts;
    *out = *part;
    for (int k = 0; k < part->rank; k++) {
        size_t n = strcspn(s, ",");
        const flxi_mesh_axis *a = n == 1 && *s == '-' ? NULL : find_axis(m, s, n);
        if (!a && (n != 1 || *s != '-'))
            return flxi_fail(err, FLX_E_INTERNAL, "a training step has the cut '%.60s'", cuts);
        out->dims[k] *= a ? a->size : 1;
        s += n + (s[n] == ',');
    }
    return FLX_OK;
}

/* Rows of the last axis that are in both regions, from one part to the other. */
static void copy_overlap(const flx_type *type, const region *from, const char *source, const region *to, char *target)
{
    int last = type->rank - 1;
    size_t size = flx_dtype_size(type->dtype);
    int64_t begin[FLX_MAX_RANK], extent[FLX_MAX_RANK], rows = 1;
    for (int k = 0; k < type->rank; k++) {
        int64_t a = from->begin[k] + from->extent[k], b = to->begin[k] + to->extent[k];
        begin[k] = from->begin[k] > to->begin[k] ? from->begin[k] : to->begin[k];
        extent[k] = (a < b ? a : b) - begin[k];
        if (extent[k] <= 0)
            return;
        rows *= k < last ? extent[k] : 1;
    }
    for (int64_t r = 0; r < rows; r++) {
        int64_t rest = r, at[2] = {0, 0}, step[2] = {1, 1};
        for (int k = last; k >= 0; k--) {
            int64_t index = begin[k] + (k < last ? rest % extent[k] : 0);
            rest = k < last ? rest / extent[k] : rest;
            at[0] += (index - from->begin[k]) * step[0];
            at[1] += (index - to->begin[k]) * step[1];
            step[0] *= from->extent[k];
            step[1] *= to->extent[k];
        }
        memcpy(target + (size_t)at[1] * size, source + (size_t)at[0] * size,
               (last < 0 ? 1 : (size_t)extent[last]) * size);
    }
}

/* ---- Names ---- */

static flx_code part_path(char path[PATH_BYTES], const char *folder, int64_t number, int64_t rank, flx_error *err)
{
    int n = snprintf(path, PATH_BYTES, "%s/part-%lld-%lld.safetensors", folder, (long long)number, (long long)rank);
    return n < PATH_BYTES ? FLX_OK : flxi_fail(err, FLX_E_USAGE, "the name of the folder is too long");
}

static flx_code index_path(char path[PATH_BYTES], const char *folder, flx_error *err)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s", folder, index_name);
    return n < PATH_BYTES ? FLX_OK : flxi_fail(err, FLX_E_USAGE, "the name of the folder is too long");
}

static void key_of(char key[CUT_KEY], const char *name)
{
    snprintf(key, CUT_KEY, "cut.%.300s", name);
}

/* ---- Writing ---- */

typedef struct {
    const flx_trainer *t;
    const char *folder;
    mesh_axes mesh;
    int64_t rank, number, before_number, before_ranks; /* before: of the checkpoint that is replaced; 0 ranks: none */
} writing;

static flx_code add_value(const writing *w, flx_checkpoint *c, flxi_param *p, flx_error *err)
{
    char room[2 * FLX_MAX_RANK];
    const char *cuts = cuts_of(w->t, p, room);
    flx_type whole;
    region r;
    if (!p->is_set)
        return flxi_fail(err, FLX_E_MISSING_INPUT, "the parameter '%.100s' has no value yet", p->name);
    FLXI_TRY(whole_type(&w->mesh, cuts, &p->value->type, &whole, err));
    FLXI_TRY(find_region(&w->mesh, cuts, &whole, w->rank, &r, err));
    return r.is_first ? flx_checkpoint_add(c, p->name, p->value, err) : FLX_OK;
}

static flx_code write_part(const writing *w, flx_error *err)
{
    char path[PATH_BYTES];
    FLXI_TRY(part_path(path, w->folder, w->number, w->rank, err));
    flx_checkpoint *c = flx_checkpoint_new(context_of(w->t), err);
    flx_code code = c ? FLX_OK : FLX_E_OOM;
    flxi_param *p;
    for (size_t i = 0; code == FLX_OK && (p = value_at(w->t, i)); i++)
        code = add_value(w, c, p, err);
    if (code == FLX_OK)
        code = flx_checkpoint_write(c, path, err);
    flx_checkpoint_free(c);
    return code;
}

static flx_code describe(const writing *w, const flx_loader *loader, flx_checkpoint *c, flx_error *err)
{
    flxi_param *p;
    FLXI_TRY(flx_checkpoint_set(c, mesh_key, axes_of(w->t), err));
    FLXI_TRY(flx_checkpoint_set_number(c, number_key, w->number, err));
    for (size_t i = 0; (p = value_at(w->t, i)); i++) {
        char room[2 * FLX_MAX_RANK], key[CUT_KEY];
        key_of(key, p->name);
        FLXI_TRY(flx_checkpoint_set(c, key, cuts_of(w->t, p, room), err));
    }
    if (!loader)
        return FLX_OK;
    int64_t epoch, row;
    flx_loader_position(loader, &epoch, &row);
    FLXI_TRY(flx_checkpoint_set_number(c, epoch_key, epoch, err));
    return flx_checkpoint_set_number(c, row_key, row, err);
}

static flx_code write_index(const writing *w, const flx_loader *loader, flx_error *err)
{
    char path[PATH_BYTES];
    FLXI_TRY(index_path(path, w->folder, err));
    flx_checkpoint *c = flx_checkpoint_new(context_of(w->t), err);
    flx_code code = c ? describe(w, loader, c, err) : FLX_E_OOM;
    if (code == FLX_OK)
        code = flx_checkpoint_write(c, path, err);
    flx_checkpoint_free(c);
    return code;
}

/* What the index names now; a folder without one, or with a damaged one, begins with number 1. */
static void find_before(writing *w)
{
    char path[PATH_BYTES];
    mesh_axes m;
    flx_checkpoint *c =
        index_path(path, w->folder, NULL) == FLX_OK ? flx_checkpoint_read(context_of(w->t), path, NULL) : NULL;
    const char *mesh = c ? flx_checkpoint_text(c, mesh_key) : NULL;
    if (mesh && flx_checkpoint_number(c, number_key, &w->before_number, NULL) == FLX_OK &&
        read_mesh(mesh, &m, NULL) == FLX_OK)
        w->before_ranks = m.ranks;
    flx_checkpoint_free(c);
    w->number = w->before_ranks ? w->before_number + 1 : 1;
}

static void remove_parts(const writing *w, int64_t number, int64_t ranks)
{
    char path[PATH_BYTES];
    for (int64_t r = 0; r < ranks; r++)
        if (part_path(path, w->folder, number, r, NULL) == FLX_OK)
            unlink(path);
}

flx_code flx_trainer_save_parts(const flx_trainer *t, const flx_loader *loader, const char *folder, flx_error *err)
{
    if (!t || !folder)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_save_parts: trainer and folder must not be NULL");
    flx_context *ctx = context_of(t);
    writing w = {.t = t, .folder = folder, .rank = flxi_trainer_training(t)->axes ? flx_mesh_rank(ctx) : 0};
    bool is_shared = flxi_trainer_training(t)->axes;
    flx_error own = {0};
    find_before(&w);
    if (is_shared) /* all have read the index before one of them replaces it */
        FLXI_TRY(flx_mesh_agree(ctx, "the number of the checkpoint", (uint64_t)w.number, err));
    if (read_mesh(axes_of(t), &w.mesh, &own) == FLX_OK)
        write_part(&w, &own);
    flx_code code = is_shared ? flx_mesh_agree_on(ctx, &own, err) : (flx_code)own.code;
    if (code == FLX_OK && w.rank == 0)
        write_index(&w, loader, &own);
    if (code == FLX_OK)
        code = is_shared ? flx_mesh_agree_on(ctx, &own, err) : (flx_code)own.code;
    if (w.rank == 0)
        remove_parts(&w, code == FLX_OK ? w.before_number : w.number, code == FLX_OK ? w.before_ranks : w.mesh.ranks);
    if (!is_shared && code != FLX_OK && err)
        *err = own;
    return code;
}

/* ---- Reading ---- */

typedef struct {
    flx_trainer *t;
    const char *folder;
    flx_checkpoint *index;
    mesh_axes mesh, from; /* of the trainer, and of the checkpoint */
    int64_t rank, number;
    flx_tensor **values; /* by position: the new parts */
    size_t count;
} reading;

/* The elements of one value that a rank of the checkpoint has and this process needs. */
static flx_code take_part(reading *r, size_t i, const char *cuts, const flx_type *whole, int64_t rank,
                          const region *own, flx_error *err)
{
    char path[PATH_BYTES];
    const char *name = value_at(r->t, i)->name;
    region theirs;
    FLXI_TRY(find_region(&r->from, cuts, whole, rank, &theirs, err));
    bool overlaps = theirs.is_first;
    for (int k = 0; k < whole->rank; k++)
        overlaps &=
            theirs.begin[k] < own->begin[k] + own->extent[k] && own->begin[k] < theirs.begin[k] + theirs.extent[k];
    if (!overlaps)
        return FLX_OK;
    FLXI_TRY(part_path(path, r->folder, r->number, rank, err));
    flx_tensor *part = flx_safetensors_read(context_of(r->t), path, name, err);
    if (!part)
        return err && err->code ? (flx_code)err->code : FLX_E_OOM;
    bool fits = part->type.rank == whole->rank && part->type.dtype == whole->dtype;
    for (int k = 0; fits && k < whole->rank; k++)
        fits = part->type.dims[k] == theirs.extent[k];
    if (fits)
        copy_overlap(whole, &theirs, part->data, own, r->values[i]->data);
    flx_tensor_release(part);
    return fits ? FLX_OK
                : flxi_fail(err, FLX_E_SHAPE, "'%.60s' of rank %lld has another type in the checkpoint", name,
                            (long long)rank);
}

static flx_code read_value(reading *r, size_t i, flx_error *err)
{
    char room[2 * FLX_MAX_RANK], key[CUT_KEY];
    const flxi_param *p = value_at(r->t, i);
    flx_type whole;
    region own;
    key_of(key, p->name);
    const char *cuts = flx_checkpoint_text(r->index, key), *new_cuts = cuts_of(r->t, p, room);
    if (!cuts)
        return flxi_fail_hint(err, FLX_E_NAME, "it was written with other options of the training",
                              "the checkpoint has no '%.60s'", p->name);
    FLXI_TRY(whole_type(&r->mesh, new_cuts, &p->value->type, &whole, err));
    FLXI_TRY(find_region(&r->mesh, new_cuts, &whole, r->rank, &own, err));
    r->values[i] = flx_tensor_new(context_of(r->t), &p->value->type, NULL, err);
    if (!r->values[i])
        return FLX_E_OOM;
    for (int64_t rank = 0; rank < r->from.ranks; rank++)
        FLXI_TRY(take_part(r, i, cuts, &whole, rank, &own, err));
    return FLX_OK;
}

static flx_code read_all(reading *r, flx_loader *loader, flx_error *err)
{
    int64_t epoch, row;
    const char *mesh = flx_checkpoint_text(r->index, mesh_key);
    if (!mesh)
        return flxi_fail(err, FLX_E_SYNTAX, "%s is not the index of a checkpoint in parts", index_name);
    FLXI_TRY(read_mesh(mesh, &r->from, err));
    FLXI_TRY(read_mesh(axes_of(r->t), &r->mesh, err));
    FLXI_TRY(flx_checkpoint_number(r->index, number_key, &r->number, err));
    for (size_t i = 0; i < r->count; i++)
        FLXI_TRY(read_value(r, i, err));
    if (loader) {
        FLXI_TRY(flx_checkpoint_number(r->index, epoch_key, &epoch, err));
        FLXI_TRY(flx_checkpoint_number(r->index, row_key, &row, err));
        FLXI_TRY(flx_loader_seek(loader, epoch, row, err));
    }
    for (size_t i = 0; i < r->count; i++) {
        flx_params *p = flx_trainer_params(r->t);
        flx_params *set = i < p->entries.n ? p : flx_trainer_state(r->t);
        FLXI_TRY(flx_params_set(set, value_at(r->t, i)->name, r->values[i], err));
    }
    return FLX_OK;
}

flx_code flx_trainer_load_parts(flx_trainer *t, flx_loader *loader, const char *folder, flx_error *err)
{
    char path[PATH_BYTES];
    flx_error own = {0};
    if (!t || !folder)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_load_parts: trainer and folder must not be NULL");
    FLXI_TRY(index_path(path, folder, err));
    flx_context *ctx = context_of(t);
    reading r = {.t = t, .folder = folder, .rank = flxi_trainer_training(t)->axes ? flx_mesh_rank(ctx) : 0};
    while (value_at(t, r.count))
        r.count++;
    r.values = flxi_alloc(&ctx->mem, r.count + 1, sizeof *r.values);
    if (!r.values)
        return flxi_oom(err, "a checkpoint");
    r.index = flx_checkpoint_read(ctx, path, &own);
    flx_code code = r.index ? read_all(&r, loader, &own) : (flx_code)own.code;
    for (size_t i = 0; i < r.count; i++)
        flx_tensor_release(r.values[i]);
    flxi_free(&ctx->mem, r.values, r.count + 1, sizeof *r.values);
    flx_checkpoint_free(r.index);
    if (code != FLX_OK && err)
        *err = own;
    return code;
}
