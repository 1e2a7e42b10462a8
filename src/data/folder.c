/* SPDX-License-Identifier: Apache-2.0 */
/* folder.c: datasets from several arrays of one file, and from a folder with one sub-folder for each class. Files are
   read one after the other into memory that grows with what was really read: a folder with a thousand names and one
   large image allocates no thousand images. */
#include "data/dataset.h"

#include "base/host/stop.h"
#include "base/options.h"
#include "graph/type/tensor.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- Arrays ---- */

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), k = strlen(suffix);
    return n >= k && memcmp(name + n - k, suffix, k) == 0;
}

static flx_code add_arrays(flx_dataset *d, const char *path, flx_error *err)
{
    if (ends_with(path, ".npy"))
        return flxi_dataset_own(d, "x", flx_npy_read(d->ctx, path, err), err);
    flx_keys *keys = flx_keys_read(d->ctx, path, err);
    if (!keys)
        return err ? (flx_code)err->code : FLX_E_IO;
    flx_code code = FLX_OK;
    for (size_t i = 0; code == FLX_OK && i < flx_keys_count(keys); i++) {
        const char *key = flx_keys_at(keys, i);
        code = flxi_dataset_own(d, key, flx_weights_read(d->ctx, path, key, err), err);
    }
    flx_keys_free(keys);
    return code;
}

flx_dataset *flx_arrays_read(flx_context *ctx, const char *path, flx_error *err)
{
    flx_error own = {0};
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_arrays_read: context and path must not be NULL");
        return NULL;
    }
    if (!ends_with(path, ".npy") && !ends_with(path, ".npz") && !ends_with(path, ".safetensors")) {
        flxi_fail(err, FLX_E_USAGE, "arrays are read from .npy, .npz and .safetensors files");
        flxi_at(err, "%s", path);
        return NULL;
    }
    flx_dataset *d = flx_dataset_new(ctx, err);
    if (!d)
        return NULL;
    d = flxi_dataset_if(d, add_arrays(d, path, &own));
    if (!d) {
        flxi_at(&own, "%s", path);
        if (err)
            *err = own;
    }
    return d;
}

/* ---- Lists of names ---- */

typedef struct {
    const flxi_allocator *mem;
    flxi_arena *arena;
    FLXI_VEC(char *) at;
} names;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *join(flxi_arena *arena, const char *folder, const char *name)
{
    size_t n = strlen(folder), k = strlen(name);
    char *path = flxi_new(arena, char, n + k + 2);
    if (path) {
        memcpy(path, folder, n);
        path[n] = '/';
        memcpy(path + n + 1, name, k);
    }
    return path;
}

static flx_code cannot_read(const char *path, flx_error *err)
{
    flxi_fail(err, FLX_E_IO, "cannot read the folder: %s", strerror(errno));
    flxi_at(err, "%s", path);
    return FLX_E_IO;
}

static bool is_sample(const char *name)
{
    static const char *const suffixes[] = {".pgm", ".ppm", ".pnm", ".png", ".wav"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (ends_with(name, suffixes[i]))
            return true;
    return false;
}

/* Names in a folder, sorted: those of its folders, or of the files that can be read here. */
static flx_code list_folder(const char *path, bool wants_folders, names *out, flx_error *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return cannot_read(path, err);
    flx_code code = FLX_OK;
    for (struct dirent *e; code == FLX_OK && (errno = 0, e = readdir(dir)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, 0) != 0)
            continue;
        if (wants_folders ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode) || !is_sample(e->d_name))
            continue;
        char *name = flxi_arena_text(out->arena, e->d_name, strlen(e->d_name));
        if (!name || !flxi_push(out->mem, &out->at, name))
            code = flxi_oom(err, "the names in a folder");
    }
    if (code == FLX_OK && errno)
        code = cannot_read(path, err);
    closedir(dir);
    if (out->at.n)
        qsort(out->at.at, out->at.n, sizeof *out->at.at, by_name);
    return code;
}

/* ---- Samples ---- */

typedef struct {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_arena arena;
    flx_folder_options o;
    flx_type type;     /* of the first sample; rank 0: none yet */
    char *first;       /* its path */
    flxi_strbuf bytes; /* of all samples */
    flxi_strbuf labels;
} collection;

/* Rows of another length: cut, or zeros added. */
static flx_tensor *with_length(flx_tensor *t, int64_t length, flx_error *err)
{
    int64_t have = t->type.dims[1], keep = have < length ? have : length;
    const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){t->type.dims[0], length});
    flx_tensor *out = flx_tensor_new(t->ctx, &type, NULL, err);
    for (int64_t c = 0; out && c < t->type.dims[0]; c++)
        memcpy((float *)out->data + c * length, (const float *)t->data + c * have, (size_t)keep * sizeof(float));
    flx_tensor_release(t);
    return out;
}

static uint32_t element(const flx_tensor *t, size_t i)
{
    return t->type.dtype == FLX_U16 ? ((const uint16_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
}

static void set_element(flx_tensor *t, size_t i, uint32_t v)
{
    if (t->type.dtype == FLX_U16)
        ((uint16_t *)t->data)[i] = (uint16_t)v;
    else
        ((uint8_t *)t->data)[i] = (uint8_t)v;
}

/* Grey or RGB; what is transparent is ignored. Grey is 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601). */
static flx_tensor *with_channels(flx_tensor *t, int32_t channels, flx_error *err)
{
    size_t area = (size_t)(t->type.dims[1] * t->type.dims[2]);
    bool is_grey = t->type.dims[0] < 3;
    flx_type type = t->type;
    type.dims[0] = channels;
    flx_tensor *out = flx_tensor_new(t->ctx, &type, NULL, err);
    for (size_t i = 0; out && i < area; i++) {
        uint32_t r = element(t, i);
        uint32_t g = is_grey ? r : element(t, area + i), b = is_grey ? r : element(t, 2 * area + i);
        if (channels == 1) {
            set_element(out, i, (299 * r + 587 * g + 114 * b + 500) / 1000);
            continue;
        }
        set_element(out, i, r);
        set_element(out, area + i, g);
        set_element(out, 2 * area + i, b);
    }
    flx_tensor_release(t);
    return out;
}

static flx_tensor *read_sample(const collection *c, const char *path, flx_error *err)
{
    if (ends_with(path, ".wav")) {
        flx_tensor *t = flx_wav_read(c->ctx, path, NULL, err);
        bool is_other = t && c->o.samples && t->type.dims[1] != c->o.samples;
        return is_other ? with_length(t, c->o.samples, err) : t;
    }
    flx_tensor *t = flx_image_read(c->ctx, path, err);
    bool is_other = t && c->o.channels && t->type.dims[0] != c->o.channels;
    return is_other ? with_channels(t, c->o.channels, err) : t;
}

static flx_code check_type(collection *c, const flx_tensor *t, const char *path, flx_error *err)
{
    if (!c->first) {
        c->first = flxi_arena_text(&c->arena, path, strlen(path));
        c->type = t->type;
        return c->first ? FLX_OK : flxi_oom(err, "a folder");
    }
    if (flxi_type_equal(&c->type, &t->type))
        return FLX_OK;
    flxi_type_text here, there;
    flxi_fail_hint(err, FLX_E_SHAPE,
                   t->type.dtype == FLX_F32 ? "give the number of samples, to which files are cut"
                                            : "give the number of channels, or convert the files to one size",
                   "the file is %s, but '%.80s' is %s", flxi_type_str(c->ctx, &t->type, &here), c->first,
                   flxi_type_str(c->ctx, &c->type, &there));
    flxi_at(err, "%s", path);
    return FLX_E_SHAPE;
}

static flx_code add_sample(collection *c, const char *path, int32_t label, flx_error *err)
{
    flx_tensor *t = read_sample(c, path, err);
    if (!t) {
        flxi_at(err, "%s", path);
        return err ? (flx_code)err->code : FLX_E_IO;
    }
    flx_code code = check_type(c, t, path, err);
    int64_t limit = flxi_context_limit(c->ctx);
    if (code == FLX_OK && limit > 0 && c->bytes.n + t->nbytes > (size_t)limit)
        code = flxi_fail(err, FLX_E_SIZE, "the files of the folder are larger than the limit");
    if (code == FLX_OK) {
        flxi_add_bytes(&c->bytes, t->data, t->nbytes);
        flxi_add_bytes(&c->labels, &label, sizeof label);
    }
    flx_tensor_release(t);
    if (code == FLX_OK && (c->bytes.failed || c->labels.failed))
        code = flxi_oom(err, "the files of a folder");
    return code == FLX_OK ? flxi_stop_check(err) : code;
}

static flx_code add_class(collection *c, flx_dataset *d, const char *folder, const char *name, flx_error *err)
{
    char *path = join(&c->arena, folder, name);
    names files = {.mem = c->mem, .arena = &c->arena};
    flx_code code = path ? list_folder(path, false, &files, err) : flxi_oom(err, "a folder");
    for (size_t i = 0; code == FLX_OK && i < files.at.n; i++) {
        char *file = join(&c->arena, path, files.at.at[i]);
        code = file ? add_sample(c, file, (int32_t)d->classes.n, err) : flxi_oom(err, "a folder");
    }
    flxi_vec_free(c->mem, &files.at);
    return code == FLX_OK ? flxi_dataset_add_class(d, name, strlen(name), err) : code;
}

static flx_code add_columns(const collection *c, flx_dataset *d, flx_error *err)
{
    int64_t rows = (int64_t)(c->labels.n / sizeof(int32_t));
    flx_type type = {.dtype = c->type.dtype, .rank = c->type.rank + 1};
    const flx_type label = flx_type_make(FLX_I32, 1, &rows);
    type.dims[0] = rows;
    for (int i = 0; i < c->type.rank; i++)
        type.dims[i + 1] = c->type.dims[i];
    FLXI_TRY(flxi_dataset_own(d, "x", flx_tensor_new(c->ctx, &type, c->bytes.at, err), err));
    FLXI_TRY(flxi_dataset_own(d, "label", flx_tensor_new(c->ctx, &label, c->labels.at, err), err));
    if (type.dtype == FLX_F32)
        return FLX_OK;
    return flx_dataset_convert(d, "x", FLX_F32, 1.0 / (type.dtype == FLX_U8 ? 255 : 65535), 0, err);
}

static flx_code read_classes(collection *c, flx_dataset *d, const char *path, flx_error *err)
{
    names classes = {.mem = c->mem, .arena = &c->arena};
    flx_code code = list_folder(path, true, &classes, err);
    for (size_t i = 0; code == FLX_OK && i < classes.at.n; i++)
        code = add_class(c, d, path, classes.at.at[i], err);
    flxi_vec_free(c->mem, &classes.at);
    FLXI_TRY(code);
    if (!c->first)
        return flxi_fail_hint(err, FLX_E_IO,
                              "it needs a sub-folder for each class, with .png, .pgm, .ppm or .wav files",
                              "the folder has no images and no sound");
    return add_columns(c, d, err);
}

flx_dataset *flx_folder_read(flx_context *ctx, const char *path, const flx_folder_options *options, flx_error *err)
{
    collection c = {.ctx = ctx};
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_folder_read: context and path must not be NULL");
        return NULL;
    }
    if (FLXI_READ_OPTIONS(flx_folder_options, &c.o, options, err) != FLX_OK)
        return NULL;
    if ((c.o.channels != 0 && c.o.channels != 1 && c.o.channels != 3) || c.o.samples < 0) {
        flxi_fail(err, FLX_E_USAGE, "flx_folder_options: channels are 0, 1 or 3, and samples are not negative");
        return NULL;
    }
    flx_dataset *d = flx_dataset_new(ctx, err);
    if (!d)
        return NULL;
    flx_error own = {0};
    c.mem = d->mem;
    flxi_arena_init(&c.arena, c.mem);
    flxi_strbuf_init(&c.bytes, c.mem);
    flxi_strbuf_init(&c.labels, c.mem);
    flx_code code = read_classes(&c, d, path, &own);
    flxi_strbuf_free(&c.bytes);
    flxi_strbuf_free(&c.labels);
    flxi_arena_free(&c.arena);
    if (code != FLX_OK) {
        flxi_at(&own, "%s", path);
        if (err)
            *err = own;
    }
    return flxi_dataset_if(d, code);
}
