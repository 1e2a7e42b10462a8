/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_checkpoint.c: checkpoints in parts. Each process writes the parts that it has to a checkpoint of its own; parts
   that several have are written by the first of them. The index says how the writers' mesh was and how each value was
   cut, so that any other mesh can read it: each process copies what its parts overlap. The index is written last, once
   all processes have written theirs; parts have a number in their names, so those of the checkpoint before stay until
   then. The index has the checksum of each part, which a part of another checkpoint does not have. */
#include "base/error.h"
#include "base/strbuf.h"
#include "format/checkpoint.h"
#include "passes/partition/partition.h"
#include "train/params.h"
#include "train/train.h"

#include <errno.h>
#include <fluxion/data.h>
#include <fluxion/mesh.h>
#include <stdio.h>
#include <unistd.h>

static const char index_name[] = "index.safetensors", mesh_key[] = "parts.mesh", number_key[] = "parts.number",
                  epoch_key[] = "loader.epoch", row_key[] = "loader.row";

enum { PATH_BYTES = 4096 };

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
    flxi_partition of; /* its axes */
    int64_t ranks;
} mesh_axes;

static flx_code read_mesh(const char *text, mesh_axes *m, flx_error *err)
{
    m->ranks = 0;
    return flxi_mesh_read_axes(text, &m->ranks, m->of.axes, &m->of.num_axes, err);
}

typedef struct {
    int64_t begin[FLX_MAX_RANK], extent[FLX_MAX_RANK];
    bool is_first; /* of the ranks that have it */
} region;

/* The region of the whole value that a rank has. */
static flx_code find_region(const mesh_axes *m, const char *text, const flx_type *whole, int64_t rank, region *out,
                            flx_error *err)
{
    flxi_cuts cuts;
    flxi_along cut = 0;
    if (flxi_read_cuts(&m->of, text, whole, "", &cuts, NULL) != FLX_OK)
        return flxi_fail(err, FLX_E_SYNTAX, "the checkpoint says a cut '%.60s' that its mesh cannot have", text);
    const flx_type part = flxi_part_type(&m->of, whole, &cuts);
    for (int k = 0; k < whole->rank; k++) {
        out->extent[k] = part.dims[k];
        out->begin[k] = flxi_along_index(&m->of, cuts.at[k], rank) * part.dims[k];
        cut |= cuts.at[k];
    }
    out->is_first = flxi_along_index(&m->of, (flxi_along)~cut, rank) == 0;
    return FLX_OK;
}

static flx_code whole_type(const mesh_axes *m, const char *text, const flx_type *part, flx_type *out, flx_error *err)
{
    flxi_cuts cuts;
    *out = *part;
    FLXI_TRY(flxi_read_part_cuts(&m->of, text, part, &cuts, err));
    for (int k = 0; k < part->rank; k++)
        out->dims[k] *= flxi_along_size(&m->of, cuts.at[k]);
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

/* The key of a part's checksum. */
enum { CHECKSUM_KEY = 48 };
static void checksum_key(char key[CHECKSUM_KEY], int64_t rank)
{
    snprintf(key, CHECKSUM_KEY, "parts.sha256.%lld", (long long)rank);
}

/* The key of a value's cuts, in `room`; NULL when memory is exhausted. */
static const char *key_of(flxi_strbuf *room, const char *name)
{
    room->n = 0;
    flxi_addf(room, "cut.%s", name);
    return room->failed ? NULL : room->at;
}

/* The number that the index says; one that no checkpoint has is damage. */
static flx_code read_number(const flx_checkpoint *index, int64_t *number, flx_error *err)
{
    FLXI_TRY(flx_checkpoint_number(index, number_key, number, err));
    if (*number < 1 || *number == INT64_MAX)
        return flxi_fail(err, FLX_E_SYNTAX, "%s says number %lld", index_name, (long long)*number);
    return FLX_OK;
}

/* ---- Writing ---- */

typedef struct {
    const flx_trainer *t;
    const char *folder;
    mesh_axes mesh;
    flx_checkpoint *index;                             /* what the caller wants in the index, or NULL */
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

static flx_code describe_cuts(const writing *w, flx_checkpoint *c, flx_error *err)
{
    flxi_strbuf key;
    flxi_param *p;
    flx_code code = FLX_OK;
    flxi_strbuf_init(&key, &context_of(w->t)->mem);
    for (size_t i = 0; code == FLX_OK && (p = value_at(w->t, i)); i++) {
        char room[2 * FLX_MAX_RANK];
        code = key_of(&key, p->name) ? flx_checkpoint_set(c, key.at, cuts_of(w->t, p, room), err)
                                     : flxi_oom(err, "a checkpoint");
    }
    flxi_strbuf_free(&key);
    return code;
}

/* A part that this process cannot see is on a disk of its own, and goes without. */
static flx_code describe_part(const writing *w, int64_t rank, flx_checkpoint *c, flx_error *err)
{
    char path[PATH_BYTES], key[CHECKSUM_KEY], checksum[FLXI_SHA256_TEXT];
    FLXI_TRY(part_path(path, w->folder, w->number, rank, err));
    if (access(path, F_OK) != 0)
        return FLX_OK;
    FLXI_TRY(flxi_checkpoint_read_checksum(context_of(w->t), path, checksum, err));
    checksum_key(key, rank);
    return flx_checkpoint_set(c, key, checksum, err);
}

static flx_code describe(const writing *w, const flx_loader *loader, flx_checkpoint *c, flx_error *err)
{
    FLXI_TRY(flx_checkpoint_set(c, mesh_key, axes_of(w->t), err));
    FLXI_TRY(flx_checkpoint_set_number(c, number_key, w->number, err));
    FLXI_TRY(flxi_store_optimiser(w->t, c, err));
    FLXI_TRY(describe_cuts(w, c, err));
    for (int64_t rank = 0; rank < w->mesh.ranks; rank++)
        FLXI_TRY(describe_part(w, rank, c, err));
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
    flx_checkpoint *c = w->index ? w->index : flx_checkpoint_new(context_of(w->t), err);
    flx_code code = c ? describe(w, loader, c, err) : FLX_E_OOM;
    if (code == FLX_OK)
        code = flx_checkpoint_write(c, path, err);
    if (!w->index)
        flx_checkpoint_free(c);
    return code;
}

/* What the index names now; a folder without one, or with a damaged one, begins with number 1. An index that cannot be
   read now may be fine: its parts must stay. */
static flx_code find_before(writing *w, flx_error *err)
{
    char path[PATH_BYTES];
    mesh_axes m;
    flx_error why = {0};
    w->number = 1;
    FLXI_TRY(index_path(path, w->folder, err));
    if (access(w->folder, W_OK | X_OK) != 0) /* before the processes compare what they have found */
        return flxi_fail(err, FLX_E_IO, "%.300s: %s", w->folder, strerror(errno));
    if (access(path, F_OK) != 0)
        return FLX_OK;
    flx_checkpoint *c = flx_checkpoint_read(context_of(w->t), path, &why);
    const char *mesh = c ? flx_checkpoint_text(c, mesh_key) : NULL;
    if (mesh && read_number(c, &w->before_number, NULL) == FLX_OK && read_mesh(mesh, &m, NULL) == FLX_OK) {
        w->before_ranks = m.ranks;
        w->number = w->before_number + 1;
    }
    flx_checkpoint_free(c);
    if (!c && why.code != FLX_E_SYNTAX && err)
        *err = why;
    return c || why.code == FLX_E_SYNTAX ? FLX_OK : (flx_code)why.code;
}

static void remove_parts(const writing *w, int64_t number, int64_t ranks)
{
    char path[PATH_BYTES];
    for (int64_t r = 0; r < ranks; r++)
        if (part_path(path, w->folder, number, r, NULL) == FLX_OK)
            unlink(path);
}

/* Fails if any process has failed; a trainer without a mesh is the only one. */
static flx_code agree(const writing *w, const flx_error *own, flx_error *err)
{
    if (flxi_trainer_training(w->t)->axes)
        return flx_mesh_agree_on(context_of(w->t), own, err);
    if (own->code && err)
        *err = *own;
    return (flx_code)own->code;
}

/* The writing of an index may fail when it is in its place already: parts that it may name stay. */
static void remove_unnamed(const writing *w)
{
    writing now = *w;
    flx_error err;
    if (find_before(&now, &err) == FLX_OK && now.number != w->number + 1)
        remove_parts(w, w->number, w->mesh.ranks);
}

static flx_code write_all(writing *w, const flx_loader *loader, flx_error *err)
{
    flx_error own = {0};
    find_before(w, &own);
    FLXI_TRY(agree(w, &own, err));
    if (flxi_trainer_training(w->t)->axes) /* all have read the index before one of them replaces it */
        FLXI_TRY(flx_mesh_agree(context_of(w->t), "the number of the checkpoint", (uint64_t)w->number, err));
    if (read_mesh(axes_of(w->t), &w->mesh, &own) == FLX_OK)
        write_part(w, &own);
    flx_code code = agree(w, &own, err);
    if (code == FLX_OK && w->rank == 0)
        write_index(w, loader, &own);
    if (code == FLX_OK)
        code = agree(w, &own, err);
    if (w->rank == 0 && code == FLX_OK)
        remove_parts(w, w->before_number, w->before_ranks);
    else if (w->rank == 0)
        remove_unnamed(w);
    return code;
}

flx_code flx_trainer_save_parts(const flx_trainer *t, const flx_loader *loader, const char *folder, flx_error *err)
{
    if (!t || !folder)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_save_parts: trainer and folder must not be NULL");
    writing w = {.t = t, .folder = folder};
    w.rank = flxi_trainer_training(t)->axes ? flx_mesh_rank(context_of(t)) : 0;
    return write_all(&w, loader, err);
}

flx_code flx_trainer_store_parts(const flx_trainer *t, flx_checkpoint *index, const char *folder, flx_error *err)
{
    if (!t || !index || !folder)
        return flxi_fail(err, FLX_E_USAGE, "flx_trainer_store_parts: trainer, index and folder must not be NULL");
    writing w = {.t = t, .folder = folder, .index = index};
    w.rank = flxi_trainer_training(t)->axes ? flx_mesh_rank(context_of(t)) : 0;
    return write_all(&w, NULL, err);
}

/* ---- Reading ---- */

/* A value of the trainer, and how it was cut. */
typedef struct {
    const char *name, *cuts;
    flx_type whole;
    region own;       /* what this process needs of it */
    flx_tensor *part; /* its elements, new */
} wanted;

typedef struct {
    flx_trainer *t;
    const char *folder;
    flx_checkpoint *index;
    mesh_axes mesh, from; /* of the trainer, and of the checkpoint */
    int64_t rank, number;
    wanted *values; /* by position */
    size_t count;
} reading;

static flx_code want_value(reading *r, size_t i, flxi_strbuf *key, flx_error *err)
{
    char room[2 * FLX_MAX_RANK];
    const flxi_param *p = value_at(r->t, i);
    const char *new_cuts = cuts_of(r->t, p, room);
    wanted *v = &r->values[i];
    if (!key_of(key, p->name))
        return flxi_oom(err, "a checkpoint");
    v->name = p->name;
    v->cuts = flx_checkpoint_text(r->index, key->at);
    if (!v->cuts)
        return flxi_fail_hint(err, FLX_E_NAME, "it was written with other options of the training",
                              "the checkpoint has no '%.60s'", p->name);
    FLXI_TRY(whole_type(&r->mesh, new_cuts, &p->value->type, &v->whole, err));
    FLXI_TRY(find_region(&r->mesh, new_cuts, &v->whole, r->rank, &v->own, err));
    v->part = flx_tensor_new(context_of(r->t), &p->value->type, NULL, err);
    return v->part ? FLX_OK : FLX_E_OOM;
}

/* The part of a rank, if it is the one that the index means; indices of older versions do not say. */
static flx_checkpoint *open_part(const reading *r, int64_t rank, flx_error *err)
{
    char path[PATH_BYTES], key[CHECKSUM_KEY];
    if (part_path(path, r->folder, r->number, rank, err) != FLX_OK)
        return NULL;
    checksum_key(key, rank);
    const char *meant = flx_checkpoint_text(r->index, key);
    flx_checkpoint *part = flx_checkpoint_read(context_of(r->t), path, err);
    if (!part || !meant || strcmp(meant, flxi_checkpoint_checksum(part)) == 0)
        return part;
    flxi_fail(err, FLX_E_SYNTAX, "the checkpoint is damaged: this part is of another one");
    flx_checkpoint_free(part);
    return NULL;
}

/* Which part it is that cannot be read. */
static flx_code name_part(const reading *r, int64_t rank, flx_error *err)
{
    const flx_error why = *err;
    char path[PATH_BYTES];
    flxi_fail_hint(err, (flx_code)why.code, why.hint, "part-%lld-%lld.safetensors: %s", (long long)r->number,
                   (long long)rank, why.message);
    if (part_path(path, r->folder, r->number, rank, NULL) == FLX_OK)
        flxi_at(err, "%s", path);
    return (flx_code)why.code;
}

/* The elements of a value that a rank of the checkpoint has and this process needs. The rank's file is read whole for
   the first of them, since its checksum is that of all it has. */
static flx_code take_part(const reading *r, const wanted *v, int64_t rank, flx_checkpoint **file, flx_error *err)
{
    region theirs;
    FLXI_TRY(find_region(&r->from, v->cuts, &v->whole, rank, &theirs, err));
    bool overlaps = theirs.is_first;
    for (int k = 0; k < v->whole.rank; k++)
        overlaps &= theirs.begin[k] < v->own.begin[k] + v->own.extent[k] &&
                    v->own.begin[k] < theirs.begin[k] + theirs.extent[k];
    if (!overlaps)
        return FLX_OK;
    if (!*file && !(*file = open_part(r, rank, err)))
        return name_part(r, rank, err);
    const flx_tensor *part = flx_checkpoint_tensor(*file, v->name, err);
    if (!part)
        return (flx_code)err->code;
    bool fits = part->type.rank == v->whole.rank && part->type.dtype == v->whole.dtype;
    for (int k = 0; fits && k < v->whole.rank; k++)
        fits = part->type.dims[k] == theirs.extent[k];
    if (!fits)
        return flxi_fail(err, FLX_E_SHAPE, "'%.60s' of rank %lld has another type in the checkpoint", v->name,
                         (long long)rank);
    copy_overlap(&v->whole, &theirs, part->data, &v->own, v->part->data);
    return FLX_OK;
}

static flx_code read_parts(const reading *r, flx_error *err)
{
    flx_code code = FLX_OK;
    for (int64_t rank = 0; code == FLX_OK && rank < r->from.ranks; rank++) {
        flx_checkpoint *file = NULL;
        for (size_t i = 0; code == FLX_OK && i < r->count; i++)
            code = take_part(r, &r->values[i], rank, &file, err);
        flx_checkpoint_free(file);
    }
    return code;
}

/* What can fail is done before the first value is set. */
static flx_code take_over(reading *r, flx_loader *loader, flx_error *err)
{
    int64_t epoch, row;
    for (size_t i = 0; i < r->count; i++)
        FLXI_TRY(flxi_tensor_take(value_at(r->t, i)->value, err));
    if (loader) {
        FLXI_TRY(flx_checkpoint_number(r->index, epoch_key, &epoch, err));
        FLXI_TRY(flx_checkpoint_number(r->index, row_key, &row, err));
        FLXI_TRY(flx_loader_seek(loader, epoch, row, err));
    }
    for (size_t i = 0; i < r->count; i++) {
        flx_params *p = flx_trainer_params(r->t);
        flx_params *set = i < p->entries.n ? p : flx_trainer_state(r->t);
        FLXI_TRY(flx_params_set(set, r->values[i].name, r->values[i].part, err));
    }
    return FLX_OK;
}

static flx_code read_all(reading *r, flx_loader *loader, flx_error *err)
{
    flxi_strbuf key;
    const char *mesh = flx_checkpoint_text(r->index, mesh_key);
    if (!mesh)
        return flxi_fail(err, FLX_E_SYNTAX, "%s is not the index of a checkpoint in parts", index_name);
    FLXI_TRY(read_mesh(mesh, &r->from, err));
    FLXI_TRY(read_mesh(axes_of(r->t), &r->mesh, err));
    FLXI_TRY(read_number(r->index, &r->number, err));
    FLXI_TRY(flxi_check_optimiser(r->t, r->index, err));
    flx_code code = FLX_OK;
    flxi_strbuf_init(&key, &context_of(r->t)->mem);
    for (size_t i = 0; code == FLX_OK && i < r->count; i++)
        code = want_value(r, i, &key, err);
    flxi_strbuf_free(&key);
    if (code == FLX_OK)
        code = read_parts(r, err);
    return code == FLX_OK ? take_over(r, loader, err) : code;
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
        flx_tensor_release(r.values[i].part);
    flxi_free(&ctx->mem, r.values, r.count + 1, sizeof *r.values);
    flx_checkpoint_free(r.index);
    if (code != FLX_OK && err)
        *err = own;
    return code;
}
