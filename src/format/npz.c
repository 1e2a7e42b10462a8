/* SPDX-License-Identifier: Apache-2.0 */
/* npz.c: NumPy's .npz, a zip archive with a .npy file for each array; array `w` is the entry `w.npy`. */
#include "format/key_list.h"
#include "format/keys.h"
#include "format/npy.h"
#include "format/zip.h"
#include "graph/type/tensor.h"

/* ---- Reading ---- */

static bool has_suffix(const char *name, size_t n)
{
    return n >= 4 && memcmp(name + n - 4, ".npy", 4) == 0;
}

/* Two for `key.npy`, one for an entry named just `key`, zero for others. */
static int match(const flxi_zip_entry *e, const char *key, size_t n)
{
    if (e->name_size == n && memcmp(e->name, key, n) == 0)
        return 1;
    return e->name_size == n + 4 && has_suffix(e->name, e->name_size) && memcmp(e->name, key, n) == 0 ? 2 : 0;
}

static flx_code find_entry(const flxi_zip *z, const char *key, flxi_zip_entry *found, flx_error *err)
{
    flxi_key_list known = {0};
    size_t at = 0;
    size_t n = strlen(key);
    int best = 0;
    bool twice = false;
    for (;;) {
        flxi_zip_entry e;
        bool more;
        FLXI_TRY(flxi_zip_next(z, &at, &e, &more, err));
        if (!more)
            break;
        int m = match(&e, key, n);
        twice = m == best ? twice || m > 0 : twice && m < best;
        if (m > best) {
            best = m;
            *found = e;
        }
        flxi_key_list_add(&known, e.name, has_suffix(e.name, e.name_size) ? e.name_size - 4 : e.name_size);
    }
    char shown[64];
    flxi_printable(shown, sizeof shown, key, n);
    if (best == 0) {
        flxi_fail(err, FLX_E_NAME, "the archive has no array named '%s'", shown);
        flxi_key_list_hint(&known, err);
        return FLX_E_NAME;
    }
    return twice ? flxi_fail(err, FLX_E_SYNTAX, "the archive contains '%s' twice", shown) : FLX_OK;
}

flx_code flxi_npz_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err)
{
    flxi_zip zip;
    flxi_zip_entry e;
    size_t at = 0;
    bool more = true;
    FLXI_TRY(flxi_zip_open(&zip, flxi_context_mem(ctx), s, err));
    flx_code code = FLX_OK;
    while (code == FLX_OK && more) {
        code = flxi_zip_next(&zip, &at, &e, &more, err);
        if (code == FLX_OK && more)
            code = flxi_keys_add(out, e.name, has_suffix(e.name, e.name_size) ? e.name_size - 4 : e.name_size, err);
    }
    flxi_zip_close(&zip);
    return code;
}

flx_tensor *flxi_npz_load(flx_context *ctx, const flxi_source *s, const char *key, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flxi_zip zip;
    flxi_zip_entry entry = {0};
    flxi_source content;
    void *block;
    flx_tensor *t = NULL;
    if (flxi_zip_open(&zip, mem, s, err) != FLX_OK)
        return NULL;
    if (find_entry(&zip, key, &entry, err) == FLX_OK &&
        flxi_zip_content(&zip, &entry, flxi_context_limit(ctx), &content, &block, err) == FLX_OK) {
        t = flxi_npy_load(ctx, &content, err);
        flxi_free(mem, block, (size_t)content.size, 1);
    }
    flxi_zip_close(&zip);
    return t;
}

flx_tensor *flx_npz_decode(flx_context *ctx, const void *bytes, size_t size, const char *key, flx_error *err)
{
    if (!ctx || (!bytes && size) || !key) {
        flxi_fail(err, FLX_E_USAGE, "flx_npz_decode: context, bytes and key must not be NULL");
        return NULL;
    }
    flxi_source s = flxi_source_memory(bytes, size);
    return flxi_npz_load(ctx, &s, key, err);
}

flx_tensor *flx_npz_read(flx_context *ctx, const char *path, const char *key, flx_error *err)
{
    flxi_source s;
    flx_tensor *t = NULL;
    if (!ctx || !path || !key) {
        flxi_fail(err, FLX_E_USAGE, "flx_npz_read: context, path and key must not be NULL");
        return NULL;
    }
    if (flxi_source_open(&s, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        t = flxi_npz_load(ctx, &s, key, err);
        flxi_source_close(&s);
    }
    if (!t)
        flxi_at(err, "%s", path);
    return t;
}

/* ---- Writing ---- */

static flx_code write_entry(flxi_zip_writer *w, const char *key, const flx_tensor *t, flx_error *err)
{
    char header[FLXI_NPY_HEADER_MAX];
    flxi_strbuf name;
    flxi_strbuf_init(&name, w->directory.mem);
    flxi_add_text(&name, key);
    flxi_add_text(&name, ".npy");
    flx_tensor *version = NULL;
    flx_code code = name.failed ? flxi_oom(err, "the name of an archive entry") : flxi_npy_version(t, &version, err);
    if (code == FLX_OK)
        code = flxi_tensor_fetch(version, err);
    if (code == FLX_OK) {
        flxi_piece pieces[2] = {{header, flxi_npy_header(&version->type, header)}, {version->data, version->nbytes}};
        code = flxi_zip_write_entry(w, name.at, pieces, 2, err);
    }
    flx_tensor_release(version);
    flxi_strbuf_free(&name);
    return code;
}

static flx_code write_archive(const flxi_allocator *mem, const char *path, const char *const *keys,
                              const flx_tensor *const *tensors, size_t count, flx_error *err)
{
    flxi_zip_writer w;
    FLXI_TRY(flxi_keys_check(mem, keys, count, err));
    FLXI_TRY(flxi_zip_write_begin(&w, mem, path, err));
    for (size_t i = 0; i < count; i++) {
        flx_code code = write_entry(&w, keys[i], tensors[i], err);
        if (code != FLX_OK) {
            flxi_zip_write_abandon(&w);
            return code;
        }
    }
    return flxi_zip_write_end(&w, err);
}

flx_code flx_npz_write(const char *path, const char *const *keys, const flx_tensor *const *tensors, size_t count,
                       flx_error *err)
{
    static const flxi_allocator fallback = {flxi_default_alloc, NULL}; /* an empty archive has no context */
    FLXI_TRY(flxi_keyed_check("flx_npz_write", path, keys, tensors, count, err));
    const flxi_allocator *mem = count ? flxi_context_mem(tensors[0]->ctx) : &fallback;
    flx_code code = write_archive(mem, path, keys, tensors, count, err);
    if (code != FLX_OK)
        flxi_at(err, "%s", path);
    return code;
}
