/* SPDX-License-Identifier: Apache-2.0 */
/* torch_file.c: see torch_file.h. The archive has a folder with `data.pkl`, which describes the tensors, `data/KEY`
   with the elements of each storage, and `byteorder`. Entries are found by name, and names are never used as paths.

   Values of a pickle may refer to each other, so a few bytes can stand for a deep, an endless or a very large tree: it
   is walked to a bounded depth, and a bounded number of values is visited. */
#include "format/weights/torch_file.h"

#include "format/array.h"
#include "format/key_list.h"
#include "format/weights/pickle.h"
#include "format/zip.h"
#include "graph/type/tensor.h"

enum { DEEPEST = 32, MOST_VISITS = 1 << 22 };

static const char pickle_name[] = "data.pkl";

typedef struct {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_zip zip;
    const char *folder; /* of the archive, up to its last / */
    size_t folder_size;
    flxi_source pickled;
    void *block, *copy; /* the bytes of the pickle where they are not those of the source */
    flxi_pickle pickle;
    bool is_big_endian;
} archive;

/* ---- Entries ---- */

static bool ends_with(const flxi_zip_entry *e, const char *end)
{
    size_t n = strlen(end);
    return e->name_size >= n && memcmp(e->name + e->name_size - n, end, n) == 0;
}

/* `data.pkl`, or that of a folder. */
static bool is_pickle(const flxi_zip_entry *e)
{
    size_t n = sizeof pickle_name - 1;
    return ends_with(e, pickle_name) && (e->name_size == n || e->name[e->name_size - n - 1] == '/');
}

static flx_code find_pickle(const flxi_zip *z, flxi_zip_entry *out, bool *found, flx_error *err)
{
    size_t at = 0;
    bool more = true;
    *found = false;
    while (more && !*found) {
        FLXI_TRY(flxi_zip_next(z, &at, out, &more, err));
        *found = more && is_pickle(out);
    }
    return FLX_OK;
}

flx_code flxi_torch_is(const flxi_allocator *mem, const flxi_source *s, bool *is, flx_error *err)
{
    flxi_zip z;
    flxi_zip_entry e;
    FLXI_TRY(flxi_zip_open(&z, mem, s, err));
    flx_code code = find_pickle(&z, &e, is, err);
    flxi_zip_close(&z);
    return code;
}

/* The entry `name` in `sub` of the archive's folder; *found is false when there is none. */
static flx_code find_entry(const archive *a, const char *sub, const char *name, size_t size, flxi_zip_entry *out,
                           bool *found, flx_error *err)
{
    size_t at = 0, n = strlen(sub);
    bool more = true;
    *found = false;
    while (more && !*found) {
        FLXI_TRY(flxi_zip_next(&a->zip, &at, out, &more, err));
        *found = more && out->name_size == a->folder_size + n + size &&
                 memcmp(out->name, a->folder, a->folder_size) == 0 && memcmp(out->name + a->folder_size, sub, n) == 0 &&
                 (size == 0 || memcmp(out->name + a->folder_size + n, name, size) == 0);
    }
    return FLX_OK;
}

/* ---- Opening ---- */

static flx_code read_byte_order(archive *a, flx_error *err)
{
    flxi_zip_entry e;
    flxi_source content;
    void *block;
    bool found;
    char text[3] = "";
    FLXI_TRY(find_entry(a, "byteorder", "", 0, &e, &found, err));
    if (!found)
        return FLX_OK;
    FLXI_TRY(flxi_zip_content(&a->zip, &e, flxi_context_limit(a->ctx), &content, &block, err));
    flx_code code = content.size >= sizeof text ? flxi_source_read(&content, 0, text, sizeof text, err) : FLX_OK;
    a->is_big_endian = memcmp(text, "big", sizeof text) == 0;
    flxi_free(a->mem, block, (size_t)content.size, 1);
    return code;
}

/* The bytes of the pickle in memory. */
static flx_code take_pickle(archive *a, const flxi_zip_entry *e, const unsigned char **bytes, flx_error *err)
{
    FLXI_TRY(flxi_zip_content(&a->zip, e, flxi_context_limit(a->ctx), &a->pickled, &a->block, err));
    *bytes = a->pickled.bytes;
    if (*bytes)
        return FLX_OK;
    a->copy = flxi_alloc(a->mem, (size_t)a->pickled.size, 1);
    if (!a->copy)
        return flxi_oom(err, "a pickle");
    *bytes = a->copy;
    return flxi_source_read(&a->pickled, 0, a->copy, (size_t)a->pickled.size, err);
}

static flx_code open_archive(archive *a, const flxi_source *s, flx_error *err)
{
    flxi_zip_entry e;
    bool found;
    const unsigned char *bytes = NULL;
    size_t offset = 0;
    FLXI_TRY(flxi_zip_open(&a->zip, a->mem, s, err));
    FLXI_TRY(find_pickle(&a->zip, &e, &found, err));
    if (!found)
        return flxi_fail(err, FLX_E_SYNTAX, "the archive has no pickle (data.pkl)");
    a->folder = e.name;
    a->folder_size = e.name_size - (sizeof pickle_name - 1);
    FLXI_TRY(read_byte_order(a, err));
    FLXI_TRY(take_pickle(a, &e, &bytes, err));
    flx_code code = flxi_pickle_read(&a->pickle, a->mem, bytes, (size_t)a->pickled.size, &offset, err);
    if (code != FLX_OK)
        flxi_source_at(&a->pickled, offset, err);
    return code;
}

static void close_archive(archive *a)
{
    if (a->pickle.arena.mem)
        flxi_pickle_free(&a->pickle);
    flxi_free(a->mem, a->block, (size_t)a->pickled.size, 1);
    flxi_free(a->mem, a->copy, (size_t)a->pickled.size, 1);
    if (a->zip.mem)
        flxi_zip_close(&a->zip);
}

/* ---- Names ---- */

typedef flx_code (*visit_fn)(void *user, const char *name, size_t size, const flxi_pickle_tensor *t, flx_error *err);

typedef struct {
    flxi_strbuf name;
    int64_t visits;
    visit_fn visit;
    void *user;
    flx_error *err;
} walk;

static flx_code walk_value(walk *w, const flxi_pickle_value *v, int depth);

/* A value under a further name: a text, or a number. */
static flx_code walk_named(walk *w, const flxi_pickle_value *key, int64_t number, const flxi_pickle_value *v, int depth)
{
    size_t before = w->name.n;
    if (before)
        flxi_add_char(&w->name, '.');
    if (key && key->kind == FLXI_PICKLE_TEXT)
        flxi_add_bytes(&w->name, key->text, key->size);
    else
        flxi_addf(&w->name, "%lld", (long long)(key ? key->number : number));
    if (w->name.failed)
        return flxi_oom(w->err, "the name of a tensor");
    if (memchr(w->name.at + before, 0, w->name.n - before))
        return flxi_fail(w->err, FLX_E_SYNTAX, "the name of a tensor contains a byte 0");
    FLXI_TRY(walk_value(w, v, depth + 1));
    w->name.n = before;
    return FLX_OK;
}

static flx_code walk_value(walk *w, const flxi_pickle_value *v, int depth)
{
    if (depth > DEEPEST || ++w->visits > MOST_VISITS)
        return flxi_fail(w->err, FLX_E_SIZE, "its values are nested more than %d deep, or are more than %d", DEEPEST,
                         MOST_VISITS);
    if (v->kind == FLXI_PICKLE_TENSOR)
        return w->name.n ? w->visit(w->user, w->name.at, w->name.n, v->tensor, w->err)
                         : w->visit(w->user, "tensor", 6, v->tensor, w->err);
    if (v->kind == FLXI_PICKLE_LIST || v->kind == FLXI_PICKLE_TUPLE)
        for (size_t i = 0; i < v->items.n; i++)
            FLXI_TRY(walk_named(w, NULL, (int64_t)i, v->items.at[i], depth));
    for (size_t i = 0; v->kind == FLXI_PICKLE_DICT && i + 1 < v->items.n; i += 2) {
        flxi_pickle_kind kind = v->items.at[i]->kind;
        if (kind == FLXI_PICKLE_TEXT || kind == FLXI_PICKLE_NUMBER)
            FLXI_TRY(walk_named(w, v->items.at[i], 0, v->items.at[i + 1], depth));
    }
    return FLX_OK;
}

static flx_code walk_tensors(archive *a, visit_fn visit, void *user, flx_error *err)
{
    walk w = {.visit = visit, .user = user, .err = err};
    flxi_strbuf_init(&w.name, a->mem);
    flx_code code = walk_value(&w, a->pickle.root, 0);
    flxi_strbuf_free(&w.name);
    return code;
}

static flx_code add_key(void *user, const char *name, size_t size, const flxi_pickle_tensor *t, flx_error *err)
{
    (void)t;
    return flxi_keys_add(user, name, size, err);
}

flx_code flxi_torch_keys(flx_context *ctx, const flxi_source *s, flx_keys *out, flx_error *err)
{
    archive a = {.ctx = ctx, .mem = flxi_context_mem(ctx)};
    flx_code code = open_archive(&a, s, err);
    if (code == FLX_OK)
        code = walk_tensors(&a, add_key, out, err);
    close_archive(&a);
    return code;
}

/* ---- One tensor ---- */

typedef struct {
    const char *key;
    size_t size;
    flxi_key_list known;
    const flxi_pickle_tensor *found;
} search;

static flx_code compare_key(void *user, const char *name, size_t size, const flxi_pickle_tensor *t, flx_error *err)
{
    search *s = user;
    (void)err;
    flxi_key_list_add(&s->known, name, size);
    if (!s->found && size == s->size && memcmp(name, s->key, size) == 0)
        s->found = t;
    return FLX_OK;
}

static bool is_row_major(const flxi_pickle_tensor *t)
{
    int64_t step = 1;
    for (int i = t->type.rank - 1; i >= 0; i--) {
        if (t->type.dims[i] > 1 && t->strides[i] != step)
            return false;
        step *= t->type.dims[i];
    }
    return true;
}

/* The bytes from the first to the last element; the pickle was checked, so nothing overflows a storage. */
static flxi_array array_of(const archive *a, const flxi_pickle_tensor *t)
{
    uint64_t size = flx_dtype_size(t->type.dtype), last = 0;
    bool is_empty = false;
    for (int i = 0; i < t->type.rank; i++) {
        is_empty |= t->type.dims[i] == 0;
        last += t->type.dims[i] ? (uint64_t)((t->type.dims[i] - 1) * t->strides[i]) : 0;
    }
    flxi_array out = {
        .type = t->type, .is_big_endian = a->is_big_endian, .strides = is_row_major(t) ? NULL : t->strides};
    if (!is_empty) {
        out.at = (uint64_t)t->offset * size;
        out.size = (last + 1) * size;
    }
    return out;
}

static flx_tensor *load_tensor(const archive *a, const flxi_pickle_tensor *t, flx_error *err)
{
    const flxi_pickle_storage *s = t->storage;
    flxi_zip_entry e;
    flxi_source content;
    void *block;
    bool found;
    char shown[60];
    if (find_entry(a, "data/", s->entry, s->entry_size, &e, &found, err) != FLX_OK)
        return NULL;
    if (!found) {
        flxi_fail(err, FLX_E_SYNTAX, "the archive lacks the storage '%s'",
                  flxi_printable(shown, sizeof shown, s->entry, s->entry_size));
        return NULL;
    }
    uint64_t size = s->dtype ? flx_dtype_size(s->dtype) : 1;
    if ((uint64_t)s->count > e.size / size) {
        flxi_fail(err, FLX_E_SYNTAX, "the storage '%s' has fewer bytes than its elements need",
                  flxi_printable(shown, sizeof shown, s->entry, s->entry_size));
        return NULL;
    }
    if (flxi_zip_content(&a->zip, &e, flxi_context_limit(a->ctx), &content, &block, err) != FLX_OK)
        return NULL;
    flxi_array array = array_of(a, t);
    flx_tensor *out = flxi_array_load(a->ctx, &array, &content, err);
    flxi_free(a->mem, block, (size_t)content.size, 1);
    return out;
}

static flx_tensor *find_and_load(archive *a, const flxi_source *source, const char *key, flx_error *err)
{
    search s = {.key = key, .size = strlen(key)};
    char shown[64];
    if (open_archive(a, source, err) != FLX_OK || walk_tensors(a, compare_key, &s, err) != FLX_OK)
        return NULL;
    if (s.found)
        return load_tensor(a, s.found, err);
    flxi_fail(err, FLX_E_NAME, "the archive has no tensor named '%s'",
              flxi_printable(shown, sizeof shown, key, s.size));
    flxi_key_list_hint(&s.known, err);
    return NULL;
}

flx_tensor *flxi_torch_load(flx_context *ctx, const flxi_source *s, const char *key, flx_error *err)
{
    archive a = {.ctx = ctx, .mem = flxi_context_mem(ctx)};
    flx_tensor *t = find_and_load(&a, s, key, err);
    close_archive(&a);
    return t;
}
