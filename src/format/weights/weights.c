/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c: see weights.h. The first bytes of a file decide what it is: a zip archive has a mark, the index of a file
   in parts is JSON, and everything else is .safetensors, whose reader says what is wrong with it. */
#include "format/weights/weights.h"

#include "format/keys.h"
#include "format/weights/torch_file.h"
#include "graph/type/tensor.h"

typedef enum { FORM_SAFETENSORS, FORM_INDEX, FORM_NPZ, FORM_TORCH } form;

/* A zip archive begins with an entry, or with its end where it has none. The eight bytes cannot be the length of a
   .safetensors header: a version and flags follow the mark, so the length would be larger than the format allows. */
static bool is_zip(const unsigned char head[8])
{
    return (memcmp(head, "PK\3\4", 4) == 0 && (head[4] || head[5] || head[6] || head[7])) ||
           memcmp(head, "PK\5\6", 4) == 0;
}

/* Eight bytes of JSON text are a length above the limit of the format too. */
static bool is_json(const unsigned char head[8])
{
    size_t i = 0;
    while (i < 7 && (head[i] == ' ' || head[i] == '\n' || head[i] == '\r' || head[i] == '\t'))
        i++;
    return head[i] == '{' && head[7] != 0;
}

/* Archives of PyTorch before 1.6 are a series of pickles. */
static bool is_bare_pickle(const unsigned char head[8])
{
    return head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 && head[7] != 0;
}

static flx_code form_of(flx_context *ctx, const flxi_source *s, form *out, flx_error *err)
{
    unsigned char head[8] = "";
    bool is_torch;
    if (s->size >= sizeof head)
        FLXI_TRY(flxi_source_read(s, 0, head, sizeof head, err));
    *out = is_json(head) ? FORM_INDEX : FORM_SAFETENSORS;
    if (is_bare_pickle(head))
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "load and save it again with PyTorch 1.6 or later",
                              "the file is a pickle, not an archive");
    if (!is_zip(head))
        return FLX_OK;
    FLXI_TRY(flxi_torch_is(flxi_context_mem(ctx), s, &is_torch, err));
    *out = is_torch ? FORM_TORCH : FORM_NPZ;
    return FLX_OK;
}

flx_code flxi_weights_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err)
{
    static flx_code (*const list[])(flx_context *, const flxi_source *, flx_keys *, flx_error *) = {
        [FORM_SAFETENSORS] = flxi_safetensors_keys,
        [FORM_INDEX] = flxi_shard_keys,
        [FORM_NPZ] = flxi_npz_keys,
        [FORM_TORCH] = flxi_torch_keys,
    };
    form f;
    FLXI_TRY(form_of(ctx, s, &f, err));
    return list[f](ctx, s, out, err);
}

/* `path` NULL: the source is in memory. */
static flx_tensor *load(flx_context *ctx, const flxi_source *s, const char *path, const char *key, flx_error *err)
{
    form f;
    if (form_of(ctx, s, &f, err) != FLX_OK)
        return NULL;
    return f == FORM_INDEX   ? flxi_shard_load(ctx, s, path, key, err)
           : f == FORM_NPZ   ? flxi_npz_load(ctx, s, key, err)
           : f == FORM_TORCH ? flxi_torch_load(ctx, s, key, err)
                             : flxi_safetensors_load(ctx, s, key, err);
}

flx_tensor *flx_weights_decode(flx_context *ctx, const void *bytes, size_t size, const char *key, flx_error *err)
{
    if (!ctx || (!bytes && size) || !key) {
        flxi_fail(err, FLX_E_USAGE, "flx_weights_decode: context, bytes and key must not be NULL");
        return NULL;
    }
    flxi_source s = flxi_source_memory(bytes, size);
    return load(ctx, &s, NULL, key, err);
}

flx_tensor *flx_weights_read(flx_context *ctx, const char *path, const char *key, flx_error *err)
{
    flxi_source s;
    flx_tensor *t = NULL;
    if (!ctx || !path || !key) {
        flxi_fail(err, FLX_E_USAGE, "flx_weights_read: context, path and key must not be NULL");
        return NULL;
    }
    if (flxi_source_open(&s, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        t = load(ctx, &s, path, key, err);
        flxi_source_close(&s);
    }
    if (!t)
        flxi_at(err, "%s", path);
    return t;
}
