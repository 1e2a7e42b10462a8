/* SPDX-License-Identifier: Apache-2.0 */
/* shards.c: the index of a .safetensors file in parts: a JSON object whose `weight_map` names the file of each tensor.
   Files are names in the folder of the index; anything else would let an index read files elsewhere. */
#include "format/json.h"
#include "format/key_list.h"
#include "format/keys.h"
#include "format/weights/weights.h"
#include "graph/type/tensor.h"

#include <stdio.h>

/* The most bytes of an index: that of a model of 10^5 tensors has 10^7. */
static const uint64_t largest_index = 100000000;

typedef struct {
    const flxi_allocator *mem;
    const flxi_source *source;
    void *copy; /* the text where it is not that of the source */
    flxi_json json;
} shard_index;

static flx_code malformed(const shard_index *x, const char *what, flx_error *err)
{
    flxi_fail(err, FLX_E_SYNTAX, "the index is malformed: %s", x->json.error ? x->json.error : what);
    return flxi_source_at(x->source, x->json.at, err);
}

static flx_code open_index(shard_index *x, flx_context *ctx, const flxi_source *s, flx_error *err)
{
    *x = (shard_index){.mem = flxi_context_mem(ctx), .source = s};
    if (s->size > largest_index)
        return flxi_fail(err, FLX_E_SIZE, "an index of %llu bytes; at most %llu are read", (unsigned long long)s->size,
                         (unsigned long long)largest_index);
    if (!s->bytes) {
        x->copy = flxi_alloc(x->mem, (size_t)s->size, 1);
        if (!x->copy)
            return flxi_oom(err, "an index of tensors");
        FLXI_TRY(flxi_source_read(s, 0, x->copy, (size_t)s->size, err));
    }
    x->json = flxi_json_begin(x->copy ? x->copy : (const char *)s->bytes, (size_t)s->size);
    return FLX_OK;
}

static void close_index(shard_index *x)
{
    flxi_free(x->mem, x->copy, (size_t)x->source->size, 1);
}

/* Called for each tensor; the key was just read, and the name of its file comes next. */
typedef flx_code (*visit_fn)(void *user, shard_index *x, flx_error *err);

static flx_code walk_map(shard_index *x, visit_fn visit, void *user, flx_error *err)
{
    flxi_json_token t;
    if (flxi_json_next(&x->json) != FLXI_JSON_OBJECT)
        return malformed(x, "weight_map is not an object", err);
    while ((t = flxi_json_next(&x->json)) == FLXI_JSON_KEY) {
        FLXI_TRY(visit(user, x, err));
        if (flxi_json_next(&x->json) != FLXI_JSON_STRING)
            return malformed(x, "the file of a tensor is not a string", err);
    }
    return t == FLXI_JSON_OBJECT_END ? FLX_OK : malformed(x, "", err);
}

static flx_code walk_index(shard_index *x, visit_fn visit, void *user, flx_error *err)
{
    flxi_json_token t;
    bool has_map = false;
    if (flxi_json_next(&x->json) != FLXI_JSON_OBJECT)
        return malformed(x, "it is not an object", err);
    while ((t = flxi_json_next(&x->json)) == FLXI_JSON_KEY) {
        bool is_map = flxi_json_is(&x->json, "weight_map");
        if (is_map && has_map)
            return malformed(x, "weight_map is listed twice", err);
        has_map |= is_map;
        if (is_map)
            FLXI_TRY(walk_map(x, visit, user, err));
        else if (!flxi_json_skip(&x->json, flxi_json_next(&x->json)))
            return malformed(x, "", err);
    }
    if (t != FLXI_JSON_OBJECT_END || flxi_json_next(&x->json) != FLXI_JSON_END)
        return malformed(x, "", err);
    if (has_map)
        return FLX_OK;
    return flxi_fail_hint(err, FLX_E_SYNTAX, "the index of a .safetensors file in parts has one",
                          "the file is JSON without a weight_map");
}

static flx_code add_key(void *user, shard_index *x, flx_error *err)
{
    size_t size = flxi_json_text(&x->json, NULL, 0);
    char *key = flxi_keys_room(user, size, err);
    if (!key)
        return FLX_E_OOM;
    flxi_json_text(&x->json, key, size + 1);
    return FLX_OK;
}

flx_code flxi_shard_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err)
{
    shard_index x;
    flx_code code = open_index(&x, ctx, s, err);
    if (code == FLX_OK)
        code = walk_index(&x, add_key, out, err);
    close_index(&x);
    return code;
}

/* ---- One tensor ---- */

typedef struct {
    const char *key;
    flxi_key_list known;
    bool has;
    char file[256];
} search;

/* The name of the file is read from a copy of the reader, which stays before it. */
static flx_code compare_key(void *user, shard_index *x, flx_error *err)
{
    search *s = user;
    char name[64];
    flxi_key_list_add(&s->known, name, flxi_json_text(&x->json, name, sizeof name));
    if (!flxi_json_is(&x->json, s->key))
        return FLX_OK;
    if (s->has)
        return malformed(x, "a tensor is listed twice", err);
    flxi_json ahead = x->json;
    s->has = true;
    if (flxi_json_next(&ahead) != FLXI_JSON_STRING)
        return malformed(x, "the file of a tensor is not a string", err);
    size_t n = flxi_json_text(&ahead, s->file, sizeof s->file);
    if (n == 0 || n >= sizeof s->file || strlen(s->file) != n || strchr(s->file, '/') || strcmp(s->file, ".") == 0 ||
        strcmp(s->file, "..") == 0)
        return malformed(x, "a file must be a name in the folder of the index", err);
    return FLX_OK;
}

static flx_tensor *read_part(flx_context *ctx, const char *path, const search *s, flx_error *err)
{
    char part[FLXI_PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = snprintf(part, sizeof part, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, s->file);
    if (n < 0 || (size_t)n >= sizeof part) {
        flxi_fail(err, FLX_E_IO, "the path of '%s' is too long", s->file);
        return NULL;
    }
    flx_tensor *t = flx_safetensors_read(ctx, part, s->key, err);
    if (!t && err && err->code == FLX_E_NAME) /* the index says that it has it: not a name to search elsewhere */
        flxi_fail(err, FLX_E_SYNTAX, "the index says that %.80s has '%.80s', which it has not", s->file, s->key);
    return t;
}

flx_tensor *flxi_shard_load(flx_context *ctx, const flxi_source *s, const char *path, const char *key, flx_error *err)
{
    shard_index x;
    search found = {.key = key};
    char shown[64];
    flx_code code = open_index(&x, ctx, s, err);
    if (code == FLX_OK)
        code = walk_index(&x, compare_key, &found, err);
    close_index(&x);
    if (code != FLX_OK)
        return NULL;
    if (!found.has) {
        flxi_fail(err, FLX_E_NAME, "the index has no tensor named '%s'",
                  flxi_printable(shown, sizeof shown, key, strlen(key)));
        flxi_key_list_hint(&found.known, err);
        return NULL;
    }
    if (!path) {
        flxi_fail(err, FLX_E_UNSUPPORTED, "the parts of an index in memory cannot be found");
        return NULL;
    }
    return read_part(ctx, path, &found, err);
}
