/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c: the names of the tensors of a file. */
#include "format/keys.h"

#include "format/weights/weights.h"
#include "graph/type/tensor.h"

struct flx_keys {
    flxi_arena arena;
    const flxi_allocator *mem;
    FLXI_VEC(char *) at;
};

char *flxi_keys_room(flx_keys *k, size_t size, flx_error *err)
{
    char *key = flxi_new(&k->arena, char, size + 1);
    if (!key || !flxi_push(k->mem, &k->at, key)) {
        flxi_oom(err, "the keys of a file");
        return NULL;
    }
    return key;
}

flx_code flxi_keys_add(flx_keys *k, const char *name, size_t size, flx_error *err)
{
    char *key = flxi_keys_room(k, size, err);
    if (!key)
        return FLX_E_OOM;
    memcpy(key, name, size);
    return FLX_OK;
}

static flx_keys *load(flx_context *ctx, const flxi_source *s, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_keys *k = flxi_alloc(mem, 1, sizeof *k);
    if (!k) {
        flxi_oom(err, "the keys of a file");
        return NULL;
    }
    k->mem = mem;
    flxi_arena_init(&k->arena, mem);
    if (flxi_weights_keys(ctx, s, k, err) == FLX_OK)
        return k;
    flx_keys_free(k);
    return NULL;
}

flx_keys *flx_keys_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_keys_decode: context and bytes must be given");
        return NULL;
    }
    flxi_source s = flxi_source_memory(bytes, size);
    return load(ctx, &s, err);
}

flx_keys *flx_keys_read(flx_context *ctx, const char *path, flx_error *err)
{
    flxi_source s;
    flx_keys *k = NULL;
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_keys_read: context and path must be given");
        return NULL;
    }
    if (flxi_source_open(&s, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        k = load(ctx, &s, err);
        flxi_source_close(&s);
    }
    if (!k)
        flxi_at(err, "%s", path);
    return k;
}

void flx_keys_free(flx_keys *k)
{
    if (!k)
        return;
    const flxi_allocator *mem = k->mem;
    flxi_vec_free(mem, &k->at);
    flxi_arena_free(&k->arena);
    flxi_free(mem, k, 1, sizeof *k);
}

size_t flx_keys_count(const flx_keys *k)
{
    return k ? k->at.n : 0;
}

const char *flx_keys_at(const flx_keys *k, size_t i)
{
    return i < flx_keys_count(k) ? k->at.at[i] : NULL;
}
