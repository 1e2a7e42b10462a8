/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_open.c: opens GGUF files, whole or split, and finds values and tensors by name. The parts of a split file are
   called NAME-00001-of-00003.gguf and so on; the first has all named values, and each has tensors of its own. The path
   of a part is made from the path of the first alone, so a file cannot name another one. */
#include "gguf/gguf_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names ---- */

static int by_name(const void *a, const void *b)
{
    const flxi_gguf_name *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* Sorts the names; one that occurs twice is an error. */
static flx_code sort_names(const flx_gguf *f, flxi_gguf_name *names, size_t count, const char *what, flx_error *err)
{
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1].name, names[i].name) == 0) {
            flxi_fail(err, FLX_E_DUP_NAME, "GGUF: the %s '%.80s' occurs twice", what, names[i].name);
            return flxi_at(err, "%s:0", f->images.at[0]->name);
        }
    return FLX_OK;
}

static flx_code index_names(flx_gguf *f, flx_error *err)
{
    f->keys = flxi_new(&f->arena, flxi_gguf_name, f->values.n);
    f->names = flxi_new(&f->arena, flxi_gguf_name, f->tensors.n);
    if (!f->keys || !f->names)
        return flxi_oom(err, "a GGUF file");
    for (size_t i = 0; i < f->values.n; i++)
        f->keys[i] = (flxi_gguf_name){f->values.at[i].key, (uint32_t)i};
    for (size_t i = 0; i < f->tensors.n; i++)
        f->names[i] = (flxi_gguf_name){f->tensors.at[i].name, (uint32_t)i};
    FLXI_TRY(sort_names(f, f->keys, f->values.n, "key", err));
    return sort_names(f, f->names, f->tensors.n, "tensor", err);
}

static int64_t find_name(const flxi_gguf_name *names, size_t count, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(names[middle].name, name);
        if (order == 0)
            return names[middle].at;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

int64_t flx_gguf_find(const flx_gguf *f, const char *key)
{
    return f && key ? find_name(f->keys, f->values.n, key) : -1;
}

int64_t flx_gguf_find_tensor(const flx_gguf *f, const char *name)
{
    return f && name ? find_name(f->names, f->tensors.n, name) : -1;
}

/* ---- Parts ---- */

/* The parts that a path names: "…-00001-of-00003.gguf". 1 when it names none. */
static unsigned parts_of(const char *path)
{
    static const char form[] = "-00001-of-";
    size_t n = strlen(path);
    const size_t tail = sizeof form - 1 + 5 + 5; /* ".gguf" */
    if (n < tail || strcmp(path + n - 5, ".gguf") != 0 || strncmp(path + n - tail, form, sizeof form - 1) != 0)
        return 1;
    unsigned parts = 0;
    for (const char *p = path + n - 10; p < path + n - 5; p++) {
        if (*p < '0' || *p > '9')
            return 1;
        parts = 10 * parts + (unsigned)(*p - '0');
    }
    return parts;
}

static flx_code add_image(flx_gguf *f, flxi_gguf_image *m, flx_error *err)
{
    if (!m)
        return (flx_code)err->code;
    if (flxi_push(flxi_context_mem(f->ctx), &f->images, m))
        return FLX_OK;
    flxi_gguf_drop(m);
    return flxi_oom(err, "a GGUF file");
}

/* What the first part says about their number, if it does. */
static flx_code check_parts(const flx_gguf *f, unsigned parts, flx_error *err)
{
    double stated = flxi_gguf_element(flxi_gguf_get(f, "split.count"), 0, 0);
    if (stated == 0 || stated == parts)
        return FLX_OK;
    flxi_fail_hint(err, FLX_E_SYNTAX, "name the first part: NAME-00001-of-0000N.gguf",
                   "GGUF: the file is one of %.0f parts, its name says %u", stated, parts);
    return flxi_at(err, "%s:0", f->images.at[0]->name);
}

static flx_code open_part(flx_gguf *f, const char *path, unsigned part, flx_error *err)
{
    char number[8];
    flxi_strbuf b;
    flxi_strbuf_init(&b, flxi_context_mem(f->ctx));
    flxi_add_text(&b, path);
    if (b.failed)
        return flxi_oom(err, "a path");
    snprintf(number, sizeof number, "%05u", part);
    memcpy(b.at + b.n - 19, number, 5); /* 00001-of-00003.gguf */
    flx_code code = add_image(f, flxi_gguf_map(f->ctx, b.at, err), err);
    flxi_strbuf_free(&b);
    return code;
}

static flx_code open_parts(flx_gguf *f, const char *path, flx_error *err)
{
    unsigned parts = parts_of(path);
    if (parts < 1 || parts > FLXI_GGUF_MAX_PARTS)
        return flxi_fail(err, FLX_E_SIZE, "GGUF: a file of %u parts; at most %d are supported", parts,
                         FLXI_GGUF_MAX_PARTS);
    FLXI_TRY(add_image(f, flxi_gguf_map(f->ctx, path, err), err));
    FLXI_TRY(flxi_gguf_read_image(f, 0, true, err));
    for (unsigned part = 1; part < parts; part++) {
        FLXI_TRY(open_part(f, path, part + 1, err));
        FLXI_TRY(flxi_gguf_read_image(f, part, false, err));
    }
    FLXI_TRY(index_names(f, err));
    return check_parts(f, parts, err);
}

static flx_code open_bytes(flx_gguf *f, const void *bytes, size_t size, const char *file, flx_error *err)
{
    FLXI_TRY(add_image(f, flxi_gguf_borrow(f->ctx, bytes, size, file, err), err));
    FLXI_TRY(flxi_gguf_read_image(f, 0, true, err));
    return index_names(f, err);
}

/* ---- Files ---- */

static flx_gguf *new_file(flx_context *ctx, flx_error *err)
{
    flx_gguf *f = flxi_alloc(flxi_context_mem(ctx), 1, sizeof *f);
    if (!f) {
        flxi_oom(err, "a GGUF file");
        return NULL;
    }
    f->ctx = ctx;
    flxi_arena_init(&f->arena, flxi_context_mem(ctx));
    return f;
}

static flx_gguf *finish(flx_gguf *f, flx_code code, const flx_error *from, flx_error *err)
{
    if (code == FLX_OK)
        return f;
    flx_gguf_free(f);
    if (err)
        *err = *from;
    return NULL;
}

flx_gguf *flx_gguf_read(flx_context *ctx, const char *path, flx_error *err)
{
    flx_error local = {0};
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_gguf_read: a context and a path must be given");
        return NULL;
    }
    flx_gguf *f = new_file(ctx, err);
    return f ? finish(f, open_parts(f, path, &local), &local, err) : NULL;
}

flx_gguf *flx_gguf_decode(flx_context *ctx, const void *bytes, size_t size, const char *file, flx_error *err)
{
    flx_error local = {0};
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_gguf_decode: a context and bytes must be given");
        return NULL;
    }
    flx_gguf *f = new_file(ctx, err);
    return f ? finish(f, open_bytes(f, bytes ? bytes : "", size, file ? file : "gguf", &local), &local, err) : NULL;
}

void flx_gguf_free(flx_gguf *f)
{
    if (!f)
        return;
    const flxi_allocator *mem = flxi_context_mem(f->ctx);
    for (size_t i = 0; i < f->images.n; i++)
        flxi_gguf_drop(f->images.at[i]);
    flxi_vec_free(mem, &f->images);
    flxi_vec_free(mem, &f->values);
    flxi_vec_free(mem, &f->tensors);
    flxi_arena_free(&f->arena);
    flxi_free(mem, f, 1, sizeof *f);
}
