/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c: checkpoints: .safetensors files with a checksum. It is the first pair of `__metadata__`, the first
   entry of the header, so its position is fixed when the file is written; it is the SHA-256 of all bytes of the file,
   with zeros in the positions of its own digits. */
#include "format/checkpoint.h"

#include "base/number.h"
#include "format/key_list.h"
#include "format/safetensors.h"
#include "graph/type/tensor.h"

#include <stdio.h>

#define RESERVED "fluxion."
#define CHECKSUM_KEY "fluxion.sha256"
#define VERSION_KEY "fluxion.checkpoint"

static const char no_checksum[] = "0000000000000000000000000000000000000000000000000000000000000000";
static const char before_checksum[] =
    "12345678{\"__metadata__\":{\"" CHECKSUM_KEY "\":\""; /* 8 bytes of length first */

enum { DIGITS = FLXI_SHA256_TEXT - 1, CHUNK = 1 << 16, VERSION = 1 };

struct flx_checkpoint {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_arena arena; /* names and texts */
    FLXI_VEC(const char *) names;
    FLXI_VEC(flx_tensor *) tensors; /* held */
    FLXI_VEC(flxi_text_pair) pairs;
    flxi_index by_name, by_key;
    char checksum[FLXI_SHA256_TEXT]; /* of the file that was read */
};

/* ---- Making ---- */

flx_checkpoint *flx_checkpoint_new(flx_context *ctx, flx_error *err)
{
    if (!ctx) {
        flxi_fail(err, FLX_E_USAGE, "flx_checkpoint_new: the context must be given");
        return NULL;
    }
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_checkpoint *c = flxi_alloc(mem, 1, sizeof *c);
    if (!c) {
        flxi_oom(err, "a checkpoint");
        return NULL;
    }
    c->ctx = ctx;
    c->mem = mem;
    flxi_arena_init(&c->arena, mem);
    return c;
}

void flx_checkpoint_free(flx_checkpoint *c)
{
    if (!c)
        return;
    const flxi_allocator *mem = c->mem;
    for (size_t i = 0; i < c->tensors.n; i++)
        flx_tensor_release(c->tensors.at[i]);
    flxi_vec_free(mem, &c->names);
    flxi_vec_free(mem, &c->tensors);
    flxi_vec_free(mem, &c->pairs);
    flxi_index_free(mem, &c->by_name);
    flxi_index_free(mem, &c->by_key);
    flxi_arena_free(&c->arena);
    flxi_free(mem, c, 1, sizeof *c);
}

static size_t find_tensor(const flx_checkpoint *c, const char *name)
{
    uint32_t i;
    flxi_probe p = flxi_index_first(&c->by_name, flxi_hash_text(FLXI_HASH_SEED, name));
    while (flxi_index_next(&c->by_name, &p, &i))
        if (strcmp(c->names.at[i], name) == 0)
            return i;
    return SIZE_MAX;
}

static size_t find_pair(const flx_checkpoint *c, const char *key)
{
    uint32_t i;
    flxi_probe p = flxi_index_first(&c->by_key, flxi_hash_text(FLXI_HASH_SEED, key));
    while (flxi_index_next(&c->by_key, &p, &i))
        if (strcmp(c->pairs.at[i].key, key) == 0)
            return i;
    return SIZE_MAX;
}

static flx_code check_name(const char *name, bool is_taken, flx_error *err)
{
    char shown[64];
    flxi_printable(shown, sizeof shown, name, strlen(name));
    if (name[0] == 0)
        return flxi_fail(err, FLX_E_NAME, "a name in a checkpoint must not be empty");
    return is_taken ? flxi_fail(err, FLX_E_DUP_NAME, "the checkpoint has '%s' already", shown) : FLX_OK;
}

flx_code flx_checkpoint_add(flx_checkpoint *c, const char *name, flx_tensor *tensor, flx_error *err)
{
    if (!c || !name || !tensor)
        return flxi_fail(err, FLX_E_USAGE, "flx_checkpoint_add: checkpoint, name and tensor must not be NULL");
    FLXI_TRY(check_name(name, find_tensor(c, name) != SIZE_MAX, err));
    const char *copy = flxi_arena_text(&c->arena, name, strlen(name));
    bool ok = copy && c->names.n < UINT32_MAX - 1 && flxi_reserve(c->mem, &c->tensors) &&
              flxi_reserve(c->mem, &c->names) &&
              flxi_index_add(c->mem, &c->by_name, flxi_hash_text(FLXI_HASH_SEED, name), (uint32_t)c->names.n);
    if (!ok)
        return flxi_oom(err, "a checkpoint");
    c->names.at[c->names.n++] = copy;
    c->tensors.at[c->tensors.n++] = flx_tensor_retain(tensor);
    return FLX_OK;
}

static flx_code add_pair(flx_checkpoint *c, const char *key, const char *text, flx_error *err)
{
    FLXI_TRY(check_name(key, find_pair(c, key) != SIZE_MAX, err));
    flxi_text_pair p = {flxi_arena_text(&c->arena, key, strlen(key)), flxi_arena_text(&c->arena, text, strlen(text))};
    bool ok = p.key && p.value && c->pairs.n < UINT32_MAX - 1 && flxi_reserve(c->mem, &c->pairs) &&
              flxi_index_add(c->mem, &c->by_key, flxi_hash_text(FLXI_HASH_SEED, key), (uint32_t)c->pairs.n);
    if (!ok)
        return flxi_oom(err, "a checkpoint");
    c->pairs.at[c->pairs.n++] = p;
    return FLX_OK;
}

flx_code flx_checkpoint_set(flx_checkpoint *c, const char *key, const char *text, flx_error *err)
{
    if (!c || !key || !text)
        return flxi_fail(err, FLX_E_USAGE, "flx_checkpoint_set: checkpoint, key and text must not be NULL");
    if (strncmp(key, RESERVED, strlen(RESERVED)) == 0)
        return flxi_fail(err, FLX_E_NAME, "keys that begin with '%s' are reserved", RESERVED);
    return add_pair(c, key, text, err);
}

flx_code flx_checkpoint_set_number(flx_checkpoint *c, const char *key, int64_t number, flx_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return flx_checkpoint_set(c, key, text, err);
}

/* ---- What it has ---- */

size_t flx_checkpoint_tensors(const flx_checkpoint *c)
{
    return c ? c->names.n : 0;
}

const char *flx_checkpoint_name(const flx_checkpoint *c, size_t i)
{
    return i < flx_checkpoint_tensors(c) ? c->names.at[i] : NULL;
}

flx_tensor *flx_checkpoint_tensor(const flx_checkpoint *c, const char *name, flx_error *err)
{
    if (!c || !name) {
        flxi_fail(err, FLX_E_USAGE, "flx_checkpoint_tensor: checkpoint and name must not be NULL");
        return NULL;
    }
    size_t i = find_tensor(c, name);
    if (i != SIZE_MAX)
        return c->tensors.at[i];
    char shown[64];
    flxi_key_list known = {0};
    for (size_t k = 0; k < c->names.n; k++)
        flxi_key_list_add(&known, c->names.at[k], strlen(c->names.at[k]));
    flxi_printable(shown, sizeof shown, name, strlen(name));
    flxi_fail(err, FLX_E_NAME, "the checkpoint has no tensor named '%s'", shown);
    flxi_key_list_hint(&known, err);
    return NULL;
}

size_t flx_checkpoint_texts(const flx_checkpoint *c)
{
    return c ? c->pairs.n : 0;
}

const char *flx_checkpoint_key(const flx_checkpoint *c, size_t i)
{
    return i < flx_checkpoint_texts(c) ? c->pairs.at[i].key : NULL;
}

const char *flx_checkpoint_text(const flx_checkpoint *c, const char *key)
{
    size_t i = c && key ? find_pair(c, key) : SIZE_MAX;
    return i == SIZE_MAX ? NULL : c->pairs.at[i].value;
}

flx_code flx_checkpoint_number(const flx_checkpoint *c, const char *key, int64_t *out, flx_error *err)
{
    if (!c || !key || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_checkpoint_number: checkpoint, key and result must not be NULL");
    char shown[64];
    const char *text = flx_checkpoint_text(c, key);
    flxi_printable(shown, sizeof shown, key, strlen(key));
    if (!text)
        return flxi_fail(err, FLX_E_NAME, "the checkpoint has no text '%s'", shown);
    if (!flxi_read_i64(text, strlen(text), out))
        return flxi_fail(err, FLX_E_SYNTAX, "the text '%s' of the checkpoint is not an integer", shown);
    return FLX_OK;
}

/* ---- Writing ---- */

static flx_code take_hash(void *user, const void *bytes, size_t size, flx_error *err)
{
    (void)err;
    flxi_sha256_add(user, bytes, size);
    return FLX_OK;
}

/* Replaces the zeros in the header by the checksum. */
static flx_code seal(flxi_strbuf *header, const flxi_safetensors_content *content, flx_error *err)
{
    flxi_sha256 h;
    unsigned char digest[FLXI_SHA256_BYTES];
    char text[FLXI_SHA256_TEXT];
    flxi_sha256_init(&h);
    flxi_sha256_add(&h, header->at, header->n);
    for (size_t i = 0; i < content->count; i++)
        FLXI_TRY(flxi_safetensors_elements(content->tensors[i], take_hash, &h, err));
    flxi_sha256_end(&h, digest);
    flxi_sha256_text(digest, text);
    memcpy(header->at + strlen(before_checksum), text, DIGITS);
    return FLX_OK;
}

static flx_code write_file(const flx_checkpoint *c, const flxi_text_pair *pairs, const char *path, flx_error *err)
{
    const flxi_safetensors_content content = {.keys = c->names.at,
                                              .tensors = (const flx_tensor *const *)c->tensors.at,
                                              .count = c->names.n,
                                              .pairs = pairs,
                                              .num_pairs = c->pairs.n + 2};
    flxi_strbuf header;
    flxi_strbuf_init(&header, c->mem);
    flx_code code = flxi_safetensors_header(&header, &content, err);
    if (code == FLX_OK)
        code = seal(&header, &content, err);
    if (code == FLX_OK)
        code = flxi_safetensors_save(path, &header, &content, err);
    flxi_strbuf_free(&header);
    return code;
}

flx_code flx_checkpoint_write(const flx_checkpoint *c, const char *path, flx_error *err)
{
    if (!c || !path)
        return flxi_fail(err, FLX_E_USAGE, "flx_checkpoint_write: checkpoint and path must not be NULL");
    size_t n = c->pairs.n + 2;
    flxi_text_pair *pairs = flxi_alloc(c->mem, n, sizeof *pairs);
    if (!pairs)
        return flxi_oom(err, "a checkpoint");
    pairs[0] = (flxi_text_pair){CHECKSUM_KEY, no_checksum};
    pairs[1] = (flxi_text_pair){VERSION_KEY, "1"};
    if (c->pairs.n)
        memcpy(pairs + 2, c->pairs.at, c->pairs.n * sizeof *pairs);
    flxi_save_sweep(path);
    flx_code code = write_file(c, pairs, path, err);
    flxi_free(c->mem, pairs, n, sizeof *pairs);
    if (code != FLX_OK)
        flxi_at(err, "%s", path);
    return code;
}

/* ---- Reading ---- */

typedef struct {
    flx_checkpoint *c;
    const flxi_source *s;
    char version[24];
    uint64_t checksum_at; /* 0: none */
} reading;

static flx_code damaged(flx_error *err, const char *what)
{
    return flxi_fail(err, FLX_E_SYNTAX, "the checkpoint is damaged: %s", what);
}

static flx_code visit_pair(void *user, const char *key, size_t key_size, const char *value, size_t value_size,
                           uint64_t at, flx_error *err)
{
    reading *r = user;
    if (strlen(key) != key_size || strlen(value) != value_size)
        return damaged(err, "a text has a zero character");
    if (strcmp(key, CHECKSUM_KEY) == 0 && !r->checksum_at) {
        if (value_size != DIGITS)
            return damaged(err, "its checksum has a wrong length");
        memcpy(r->c->checksum, value, DIGITS);
        r->checksum_at = at;
        return FLX_OK;
    }
    if (strcmp(key, VERSION_KEY) == 0 && !r->version[0]) {
        flxi_printable(r->version, sizeof r->version, value, value_size);
        return FLX_OK;
    }
    if (strncmp(key, RESERVED, strlen(RESERVED)) == 0) /* of a newer version; or one of the above, twice */
        return FLX_OK;
    return add_pair(r->c, key, value, err);
}

static flx_code skip_tensor(void *user, const char *name, size_t size, const flxi_array *a, flx_error *err)
{
    (void)user, (void)name, (void)size, (void)a, (void)err;
    return FLX_OK;
}

static flx_code skip_pair(void *user, const char *key, size_t key_size, const char *value, size_t value_size,
                          uint64_t at, flx_error *err)
{
    (void)user, (void)key, (void)key_size, (void)value, (void)value_size, (void)at, (void)err;
    return FLX_OK;
}

static flx_code visit_tensor(void *user, const char *name, size_t size, const flxi_array *a, flx_error *err)
{
    reading *r = user;
    if (strlen(name) != size)
        return damaged(err, "a name has a zero character");
    flx_tensor *t = flxi_array_load(r->c->ctx, a, r->s, err);
    if (!t)
        return err ? (flx_code)err->code : FLX_E_SYNTAX;
    flx_code code = flx_checkpoint_add(r->c, name, t, err);
    flx_tensor_release(t);
    return code;
}

/* The bytes [begin, end) of the file. */
static flx_code hash_range(const flxi_source *s, uint64_t begin, uint64_t end, flxi_sha256 *h, flx_error *err)
{
    unsigned char chunk[CHUNK];
    while (begin < end) {
        size_t n = end - begin < CHUNK ? (size_t)(end - begin) : CHUNK;
        FLXI_TRY(flxi_source_read(s, begin, chunk, n, err));
        flxi_sha256_add(h, chunk, n);
        begin += n;
    }
    return FLX_OK;
}

static flx_code check_checksum(const reading *r, flx_error *err)
{
    flxi_sha256 h;
    unsigned char digest[FLXI_SHA256_BYTES];
    char text[FLXI_SHA256_TEXT];
    flxi_sha256_init(&h);
    FLXI_TRY(hash_range(r->s, 0, r->checksum_at, &h, err));
    flxi_sha256_add(&h, no_checksum, DIGITS);
    FLXI_TRY(hash_range(r->s, r->checksum_at + DIGITS, r->s->size, &h, err));
    flxi_sha256_end(&h, digest);
    flxi_sha256_text(digest, text);
    return strcmp(text, r->c->checksum) == 0 ? FLX_OK : damaged(err, "its checksum is wrong");
}

/* The text, which says what the file is. */
static flx_code read_texts(reading *r, flx_error *err)
{
    const flxi_safetensors_visitor texts = {r, skip_tensor, visit_pair};
    FLXI_TRY(flxi_safetensors_walk(r->c->ctx, r->s, &texts, err));
    if (!r->version[0] || !r->checksum_at)
        return flxi_fail_hint(err, FLX_E_SYNTAX, "flx_safetensors_read() reads tensors from files of other programs",
                              "the file is not a checkpoint");
    if (strcmp(r->version, "1") != 0)
        return flxi_fail(err, FLX_E_VERSION, "the checkpoint has version %s, this library reads version %d", r->version,
                         VERSION);
    return FLX_OK;
}

static flx_code read_all(reading *r, flx_error *err)
{
    const flxi_safetensors_visitor tensors = {r, visit_tensor, skip_pair};
    FLXI_TRY(read_texts(r, err));
    FLXI_TRY(check_checksum(r, err));
    return flxi_safetensors_walk(r->c->ctx, r->s, &tensors, err);
}

/* What `read` reads of a source. */
static flx_checkpoint *load(flx_context *ctx, const flxi_source *s, flx_code (*read)(reading *r, flx_error *err),
                            flx_error *err)
{
    flx_error own = {0}; /* the caller's may be NULL */
    flx_checkpoint *c = flx_checkpoint_new(ctx, err);
    if (!c)
        return NULL;
    reading r = {.c = c, .s = s};
    if (read(&r, &own) == FLX_OK)
        return c;
    if (err)
        *err = own;
    flx_checkpoint_free(c);
    return NULL;
}

flx_checkpoint *flx_checkpoint_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_checkpoint_decode: context and bytes must not be NULL");
        return NULL;
    }
    flxi_source s = flxi_source_memory(bytes, size);
    return load(ctx, &s, read_all, err);
}

static flx_checkpoint *load_file(flx_context *ctx, const char *path, flx_code (*read)(reading *r, flx_error *err),
                                 flx_error *err)
{
    flxi_source s;
    flx_checkpoint *c = NULL;
    if (flxi_source_open(&s, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        c = load(ctx, &s, read, err);
        flxi_source_close(&s);
    }
    if (!c)
        flxi_at(err, "%s", path);
    return c;
}

flx_checkpoint *flx_checkpoint_read(flx_context *ctx, const char *path, flx_error *err)
{
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_checkpoint_read: context and path must not be NULL");
        return NULL;
    }
    return load_file(ctx, path, read_all, err);
}

/* ---- Checksums ---- */

const char *flxi_checkpoint_checksum(const flx_checkpoint *c)
{
    return c->checksum;
}

flx_code flxi_checkpoint_read_checksum(flx_context *ctx, const char *path, char out[FLXI_SHA256_TEXT], flx_error *err)
{
    flx_error own = {0};
    flx_checkpoint *c = load_file(ctx, path, read_texts, &own);
    if (c)
        memcpy(out, c->checksum, sizeof c->checksum);
    else if (err)
        *err = own;
    flx_checkpoint_free(c);
    return (flx_code)own.code;
}
