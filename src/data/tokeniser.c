/* SPDX-License-Identifier: Apache-2.0 */
/* tokeniser.c: byte-pair tokens (Gage, "A new algorithm for data compression", 1994). The text is split into pieces of
   at most PIECE_MAX bytes; inside of a piece the pair that was learned first is joined first, until no known pair is
   left. A piece takes at most PIECE_MAX² small steps however its bytes are, so encoding is linear in the text, for
   hostile texts too.

   Learning counts every distinct piece once, with its frequency. The pairs are in a heap by (count, numbers). Counts in
   the heap may be out of date, but never too low: joining a pair creates pairs with a token that is new, and takes
   occurrences away from all others. So the top of the heap is the best pair if its count is right, and is put back with
   the right count if not. */
#include "base/context.h"
#include "base/error.h"
#include "base/host/stop.h"
#include "format/file.h"
#include "format/json.h"
#include "graph/type/tensor.h"

#include <fluxion/data.h>

enum { BYTES = 256, PIECE_MAX = 64, VOCABULARY_MAX = 1 << 20 };

typedef struct {
    uint32_t left, right;
} pair;

struct flx_tokeniser {
    flx_context *ctx;
    const flxi_allocator *mem;
    FLXI_VEC(pair) joins;   /* token 256 + i is joins[i] */
    FLXI_VEC(uint8_t) size; /* bytes of each of them */
    flxi_index index;       /* from a pair to its position in joins */
};

/* ---- Pairs ---- */

static uint64_t pair_hash(pair p)
{
    uint64_t x = ((uint64_t)p.left << 32 | p.right) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static bool is_equal(pair a, pair b)
{
    return a.left == b.left && a.right == b.right;
}

/* The position of a pair in joins, UINT32_MAX for none. */
static uint32_t find_join(const flx_tokeniser *t, pair p)
{
    uint32_t i;
    for (flxi_probe probe = flxi_index_first(&t->index, pair_hash(p)); flxi_index_next(&t->index, &probe, &i);)
        if (is_equal(t->joins.at[i], p))
            return i;
    return UINT32_MAX;
}

static size_t token_bytes(const flx_tokeniser *t, uint32_t token)
{
    return token < BYTES ? 1 : t->size.at[token - BYTES];
}

/* Both tokens exist, and together have at most PIECE_MAX bytes. */
static flx_code add_join(flx_tokeniser *t, pair p, flx_error *err)
{
    uint8_t size = (uint8_t)(token_bytes(t, p.left) + token_bytes(t, p.right));
    bool ok = flxi_index_add(t->mem, &t->index, pair_hash(p), (uint32_t)t->joins.n) &&
              flxi_push(t->mem, &t->size, size) && flxi_push(t->mem, &t->joins, p);
    return ok ? FLX_OK : flxi_oom(err, "a tokeniser");
}

static flx_tokeniser *new_tokeniser(flx_context *ctx, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_tokeniser *t = flxi_alloc(mem, 1, sizeof *t);
    if (!t) {
        flxi_oom(err, "a tokeniser");
        return NULL;
    }
    t->ctx = ctx;
    t->mem = mem;
    return t;
}

void flx_tokeniser_free(flx_tokeniser *t)
{
    if (!t)
        return;
    flxi_vec_free(t->mem, &t->joins);
    flxi_vec_free(t->mem, &t->size);
    flxi_index_free(t->mem, &t->index);
    flxi_free(t->mem, t, 1, sizeof *t);
}

int64_t flx_tokeniser_size(const flx_tokeniser *t)
{
    return t ? BYTES + (int64_t)t->joins.n : 0;
}

/* ---- Pieces ---- */

enum { LETTER, DIGIT, SPACE, SIGN };

static int kind_of(char c)
{
    unsigned char u = (unsigned char)c;
    if ((u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u >= 128)
        return LETTER;
    if (u >= '0' && u <= '9')
        return DIGIT;
    return u == ' ' || (u >= 9 && u <= 13) ? SPACE : SIGN;
}

/* Length of the piece at the beginning of s, where n is not 0: a run of one kind, with the blank before it. White space
   that is followed by something else leaves its last blank to that. */
static size_t piece_length(const char *s, size_t n)
{
    size_t room = n < PIECE_MAX ? n : PIECE_MAX;
    bool has_blank = s[0] == ' ' && n > 1 && kind_of(s[1]) != SPACE;
    size_t i = has_blank ? 1 : 0;
    int kind = kind_of(s[i]);
    while (i < room && kind_of(s[i]) == kind)
        i++;
    if (kind == SPACE && i > 1 && i < n && s[i - 1] == ' ' && kind_of(s[i]) != SPACE)
        i--;
    return i;
}

/* Joins known pairs in the tokens, first learned first; returns how many tokens are left. */
static size_t join_piece(const flx_tokeniser *t, uint32_t *tokens, size_t n)
{
    uint32_t rank[PIECE_MAX]; /* of the pair (i, i + 1) */
    for (size_t i = 0; i + 1 < n; i++)
        rank[i] = find_join(t, (pair){tokens[i], tokens[i + 1]});
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == UINT32_MAX)
            break;
        tokens[best] = BYTES + rank[best];
        memmove(tokens + best + 1, tokens + best + 2, (n - best - 2) * sizeof *tokens);
        n--;
        if (best + 1 < n)
            memmove(rank + best, rank + best + 1, (n - 1 - best) * sizeof *rank);
        if (best + 1 < n)
            rank[best] = find_join(t, (pair){tokens[best], tokens[best + 1]});
        if (best > 0)
            rank[best - 1] = find_join(t, (pair){tokens[best - 1], tokens[best]});
    }
    return n;
}

/* ---- Encoding and decoding ---- */

flx_tensor *flx_tokeniser_encode(const flx_tokeniser *t, const char *text, size_t size, flx_error *err)
{
    if (!t || (!text && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_tokeniser_encode: tokeniser and text must not be NULL");
        return NULL;
    }
    flxi_strbuf out;
    flxi_strbuf_init(&out, t->mem);
    for (size_t at = 0; at < size && !out.failed && !flxi_stopped_by_now();) {
        uint32_t tokens[PIECE_MAX];
        size_t n = piece_length(text + at, size - at);
        for (size_t i = 0; i < n; i++)
            tokens[i] = (unsigned char)text[at + i];
        flxi_add_bytes(&out, tokens, join_piece(t, tokens, n) * sizeof *tokens);
        at += n;
    }
    flx_tensor *result = NULL;
    const flx_type type = flx_type_make(FLX_I32, 1, (flx_dim[]){(int64_t)(out.n / sizeof(int32_t))});
    if (out.failed)
        flxi_oom(err, "the tokens of a text");
    else if (flxi_stop_check(err) == FLX_OK)
        result = flx_tensor_new(t->ctx, &type, out.at, err);
    flxi_strbuf_free(&out);
    return result;
}

/* The bytes of a token, written from the end: `at` is where its last byte belongs. The stack holds left halves that are
   still to be written; a token has at most PIECE_MAX bytes, so there are never more. */
static void write_token(const flx_tokeniser *t, uint32_t token, char *end)
{
    uint32_t stack[PIECE_MAX];
    size_t depth = 0;
    for (;;) {
        while (token >= BYTES) {
            stack[depth++] = t->joins.at[token - BYTES].left;
            token = t->joins.at[token - BYTES].right;
        }
        *--end = (char)token;
        if (depth == 0)
            return;
        token = stack[--depth];
    }
}

flx_code flx_tokeniser_decode(const flx_tokeniser *t, const int32_t *tokens, size_t count, flx_buffer *out,
                              flx_error *err)
{
    if (!t || (!tokens && count) || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_tokeniser_decode: tokeniser, tokens and buffer must not be NULL");
    flxi_strbuf text;
    flxi_strbuf_init(&text, t->mem);
    for (size_t i = 0; i < count && !text.failed; i++) {
        char bytes[PIECE_MAX];
        if (tokens[i] < 0 || tokens[i] >= flx_tokeniser_size(t)) {
            flxi_strbuf_free(&text);
            return flxi_fail(err, FLX_E_INDEX, "token %zu is %ld, but there are %lld tokens", i, (long)tokens[i],
                             (long long)flx_tokeniser_size(t));
        }
        size_t n = token_bytes(t, (uint32_t)tokens[i]);
        write_token(t, (uint32_t)tokens[i], bytes + n);
        flxi_add_bytes(&text, bytes, n);
    }
    flxi_add_bytes(&text, "", 0);
    return flxi_buffer_finish(&text, t->ctx, out, err);
}

/* ---- Learning ---- */

typedef struct {
    size_t first; /* of its tokens */
    uint32_t size, count;
    size_t text; /* where it is in the text */
} piece;

typedef struct {
    pair p;
    uint64_t count; /* as it was when the entry was made */
} candidate;

/* What is known about a pair: how often it occurs, and in which pieces; these may be listed twice, or no longer have
   it. */
typedef struct {
    pair p;
    uint64_t count;
    FLXI_VEC(uint32_t) pieces;
} statistic;

typedef struct {
    const flxi_allocator *mem;
    FLXI_VEC(piece) pieces;
    flxi_index by_text;
    FLXI_VEC(uint32_t) tokens;
    FLXI_VEC(statistic) pairs;
    flxi_index by_pair;
    FLXI_VEC(candidate) heap;
} learner;

static void learner_free(learner *l)
{
    for (size_t i = 0; i < l->pairs.n; i++)
        flxi_vec_free(l->mem, &l->pairs.at[i].pieces);
    flxi_vec_free(l->mem, &l->pairs);
    flxi_vec_free(l->mem, &l->pieces);
    flxi_vec_free(l->mem, &l->tokens);
    flxi_vec_free(l->mem, &l->heap);
    flxi_index_free(l->mem, &l->by_text);
    flxi_index_free(l->mem, &l->by_pair);
}

static bool count_piece(learner *l, const char *text, size_t at, size_t n)
{
    uint64_t h = flxi_hash_bytes(FLXI_HASH_SEED, text + at, n);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&l->by_text, h); flxi_index_next(&l->by_text, &p, &i);) {
        piece *old = &l->pieces.at[i];
        if (old->size == n && memcmp(text + old->text, text + at, n) == 0) {
            old->count += old->count < UINT32_MAX;
            return true;
        }
    }
    piece fresh = {.first = l->tokens.n, .size = (uint32_t)n, .count = 1, .text = at};
    for (size_t k = 0; k < n; k++)
        if (!flxi_push(l->mem, &l->tokens, (unsigned char)text[at + k]))
            return false;
    return l->pieces.n < UINT32_MAX - 1 && flxi_index_add(l->mem, &l->by_text, h, (uint32_t)l->pieces.n) &&
           flxi_push(l->mem, &l->pieces, fresh);
}

static statistic *statistic_of(learner *l, pair p)
{
    uint32_t i;
    uint64_t h = pair_hash(p);
    for (flxi_probe probe = flxi_index_first(&l->by_pair, h); flxi_index_next(&l->by_pair, &probe, &i);)
        if (is_equal(l->pairs.at[i].p, p))
            return &l->pairs.at[i];
    bool ok = l->pairs.n < UINT32_MAX - 1 && flxi_index_add(l->mem, &l->by_pair, h, (uint32_t)l->pairs.n) &&
              flxi_push(l->mem, &l->pairs, ((statistic){.p = p}));
    return ok ? &l->pairs.at[l->pairs.n - 1] : NULL;
}

/* Adds the pairs of a piece to the statistics. Pairs below `first_new` list the piece already. */
static bool add_pairs(learner *l, uint32_t number, size_t first_new)
{
    piece p = l->pieces.at[number];
    for (size_t i = 0; i + 1 < p.size; i++) {
        const uint32_t *tokens = l->tokens.at + p.first;
        statistic *s = statistic_of(l, (pair){tokens[i], tokens[i + 1]});
        if (!s)
            return false;
        s->count += p.count;
        bool is_listed =
            (size_t)(s - l->pairs.at) < first_new || (s->pieces.n && s->pieces.at[s->pieces.n - 1] == number);
        if (!is_listed && !flxi_push(l->mem, &s->pieces, number))
            return false;
    }
    return true;
}

static void remove_pairs(learner *l, uint32_t number)
{
    piece p = l->pieces.at[number];
    const uint32_t *tokens = l->tokens.at + p.first;
    for (size_t i = 0; i + 1 < p.size; i++)
        statistic_of(l, (pair){tokens[i], tokens[i + 1]})->count -= p.count; /* they are all known */
}

/* ---- The heap: the largest count first, then the lower numbers ---- */

static bool is_before(candidate a, candidate b)
{
    if (a.count != b.count)
        return a.count > b.count;
    return a.p.left != b.p.left ? a.p.left < b.p.left : a.p.right < b.p.right;
}

static bool heap_push(learner *l, candidate c)
{
    if (!flxi_push(l->mem, &l->heap, c))
        return false;
    size_t i = l->heap.n - 1;
    for (; i > 0 && is_before(c, l->heap.at[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap.at[i] = l->heap.at[(i - 1) / 2];
    l->heap.at[i] = c;
    return true;
}

static candidate heap_pop(learner *l)
{
    candidate top = l->heap.at[0], last = l->heap.at[--l->heap.n];
    size_t i = 0, n = l->heap.n;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            break;
        child += child + 1 < n && is_before(l->heap.at[child + 1], l->heap.at[child]);
        if (!is_before(l->heap.at[child], last))
            break;
        l->heap.at[i] = l->heap.at[child];
        i = child;
    }
    if (n)
        l->heap.at[i] = last;
    return top;
}

/* The pair that occurs most often, at least twice. */
static bool best_pair(learner *l, pair *out)
{
    while (l->heap.n) {
        candidate c = heap_pop(l);
        statistic *s = statistic_of(l, c.p); /* exists */
        if (s->count < 2)
            continue;
        if (s->count == c.count) {
            *out = c.p;
            return true;
        }
        c.count = s->count;
        heap_push(l, c); /* one was taken out, so there is room */
    }
    return false;
}

/* Replaces the pair in all pieces that have it by `token`; pairs that are new become candidates. */
static bool replace_pair(learner *l, pair p, uint32_t token)
{
    size_t first_new = l->pairs.n;
    size_t at = (size_t)(statistic_of(l, p) - l->pairs.at);
    for (size_t i = 0; i < l->pairs.at[at].pieces.n; i++) {
        uint32_t number = l->pairs.at[at].pieces.at[i];
        piece *q = &l->pieces.at[number];
        uint32_t *tokens = l->tokens.at + q->first;
        remove_pairs(l, number);
        uint32_t n = 0;
        for (uint32_t k = 0; k < q->size; n++) {
            bool is_it = k + 1 < q->size && tokens[k] == p.left && tokens[k + 1] == p.right;
            tokens[n] = is_it ? token : tokens[k];
            k += is_it ? 2 : 1;
        }
        q->size = n;
        if (!add_pairs(l, number, first_new))
            return false;
    }
    flxi_vec_free(l->mem, &l->pairs.at[at].pieces);
    for (size_t i = first_new; i < l->pairs.n; i++)
        if (!heap_push(l, (candidate){l->pairs.at[i].p, l->pairs.at[i].count}))
            return false;
    return true;
}

static flx_code learn(learner *l, flx_tokeniser *t, const char *text, size_t size, int64_t vocabulary, flx_error *err)
{
    for (size_t at = 0; at < size;) {
        size_t n = piece_length(text + at, size - at);
        if (!count_piece(l, text, at, n))
            return flxi_oom(err, "the pieces of a text");
        at += n;
    }
    for (size_t i = 0; i < l->pieces.n; i++)
        if (!add_pairs(l, (uint32_t)i, 0))
            return flxi_oom(err, "the pairs of a text");
    for (size_t i = 0; i < l->pairs.n; i++)
        if (!heap_push(l, (candidate){l->pairs.at[i].p, l->pairs.at[i].count}))
            return flxi_oom(err, "the pairs of a text");
    pair p;
    while (flx_tokeniser_size(t) < vocabulary && best_pair(l, &p)) {
        FLXI_TRY(flxi_stop_check(err));
        uint32_t token = (uint32_t)flx_tokeniser_size(t);
        FLXI_TRY(add_join(t, p, err));
        if (!replace_pair(l, p, token))
            return flxi_oom(err, "the pairs of a text");
    }
    return FLX_OK;
}

flx_tokeniser *flx_tokeniser_train(flx_context *ctx, const char *text, size_t size, int64_t vocabulary, flx_error *err)
{
    if (!ctx || (!text && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_tokeniser_train: context and text must not be NULL");
        return NULL;
    }
    if (vocabulary < BYTES || vocabulary > VOCABULARY_MAX) {
        flxi_fail(err, FLX_E_USAGE, "flx_tokeniser_train: a vocabulary has %d to %d tokens, not %lld", BYTES,
                  VOCABULARY_MAX, (long long)vocabulary);
        return NULL;
    }
    flx_tokeniser *t = new_tokeniser(ctx, err);
    if (!t)
        return NULL;
    learner l = {.mem = t->mem};
    flx_code code = learn(&l, t, text, size, vocabulary, err);
    learner_free(&l);
    if (code == FLX_OK)
        return t;
    flx_tokeniser_free(t);
    return NULL;
}

/* ---- As text ---- */

flx_code flx_tokeniser_print(const flx_tokeniser *t, flx_buffer *out, flx_error *err)
{
    if (!t || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_tokeniser_print: tokeniser and buffer must not be NULL");
    flxi_strbuf text;
    flxi_strbuf_init(&text, t->mem);
    flxi_add_text(&text, "{\"format\": \"fluxion tokeniser\", \"version\": 1, \"pairs\": [");
    for (size_t i = 0; i < t->joins.n; i++)
        flxi_addf(&text, "%s\n[%u, %u]", i ? "," : "", (unsigned)t->joins.at[i].left, (unsigned)t->joins.at[i].right);
    flxi_add_text(&text, "\n]}\n");
    return flxi_buffer_finish(&text, t->ctx, out, err);
}

static flx_code malformed(const flxi_json *j, const char *what, flx_error *err)
{
    return flxi_fail(err, FLX_E_SYNTAX, "not a tokeniser: at byte %zu: %s", j->at, j->error ? j->error : what);
}

static flx_code parse_pair(flxi_json *j, flx_tokeniser *t, flx_error *err)
{
    uint64_t v[2];
    for (int i = 0; i < 2; i++)
        if (flxi_json_next(j) != FLXI_JSON_NUMBER || !flxi_json_u64(j, &v[i]) ||
            v[i] >= (uint64_t)flx_tokeniser_size(t))
            return malformed(j, "a pair is two numbers of earlier tokens", err);
    if (flxi_json_next(j) != FLXI_JSON_ARRAY_END)
        return malformed(j, "a pair is two numbers of earlier tokens", err);
    pair p = {(uint32_t)v[0], (uint32_t)v[1]};
    if (token_bytes(t, p.left) + token_bytes(t, p.right) > PIECE_MAX)
        return malformed(j, "a token has more than 64 bytes", err);
    if (find_join(t, p) != UINT32_MAX)
        return malformed(j, "a pair is listed twice", err);
    if (flx_tokeniser_size(t) >= VOCABULARY_MAX)
        return malformed(j, "there are more than 1048576 tokens", err);
    return add_join(t, p, err);
}

static flx_code parse_pairs(flxi_json *j, flx_tokeniser *t, flx_error *err)
{
    if (flxi_json_next(j) != FLXI_JSON_ARRAY)
        return malformed(j, "pairs must be a list", err);
    flxi_json_token token;
    while ((token = flxi_json_next(j)) == FLXI_JSON_ARRAY)
        FLXI_TRY(parse_pair(j, t, err));
    return token == FLXI_JSON_ARRAY_END ? FLX_OK : malformed(j, "pairs must be a list of lists", err);
}

/* The fields come in this order, as they are written. */
static flx_code parse(flxi_json *j, flx_tokeniser *t, flx_error *err)
{
    uint64_t version;
    if (flxi_json_next(j) != FLXI_JSON_OBJECT || flxi_json_next(j) != FLXI_JSON_KEY || !flxi_json_is(j, "format") ||
        flxi_json_next(j) != FLXI_JSON_STRING || !flxi_json_is(j, "fluxion tokeniser"))
        return malformed(j, "it does not begin with {\"format\": \"fluxion tokeniser\"", err);
    if (flxi_json_next(j) != FLXI_JSON_KEY || !flxi_json_is(j, "version") || flxi_json_next(j) != FLXI_JSON_NUMBER ||
        !flxi_json_u64(j, &version))
        return malformed(j, "expected the version", err);
    if (version != 1)
        return flxi_fail(err, FLX_E_VERSION, "the tokeniser has version %llu, this library reads version 1",
                         (unsigned long long)version);
    if (flxi_json_next(j) != FLXI_JSON_KEY || !flxi_json_is(j, "pairs"))
        return malformed(j, "expected the pairs", err);
    FLXI_TRY(parse_pairs(j, t, err));
    if (flxi_json_next(j) != FLXI_JSON_OBJECT_END || flxi_json_next(j) != FLXI_JSON_END)
        return malformed(j, "expected the end", err);
    return FLX_OK;
}

flx_tokeniser *flx_tokeniser_parse(flx_context *ctx, const char *text, size_t size, flx_error *err)
{
    if (!ctx || (!text && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_tokeniser_parse: context and text must not be NULL");
        return NULL;
    }
    flx_tokeniser *t = new_tokeniser(ctx, err);
    if (!t)
        return NULL;
    flxi_json j = flxi_json_begin(size ? text : "", size);
    if (parse(&j, t, err) == FLX_OK)
        return t;
    flx_tokeniser_free(t);
    return NULL;
}

flx_tokeniser *flx_tokeniser_read(flx_context *ctx, const char *path, flx_error *err)
{
    flxi_file_bytes file;
    flx_tokeniser *t = NULL;
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_tokeniser_read: context and path must not be NULL");
        return NULL;
    }
    if (flxi_file_read(&file, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        t = flx_tokeniser_parse(ctx, file.bytes, file.size, err);
        flxi_file_free(&file);
    }
    if (!t)
        flxi_at(err, "%s", path);
    return t;
}

flx_code flx_tokeniser_write(const flx_tokeniser *t, const char *path, flx_error *err)
{
    flx_buffer text = {0};
    flxi_save out;
    if (!t || !path)
        return flxi_fail(err, FLX_E_USAGE, "flx_tokeniser_write: tokeniser and path must not be NULL");
    FLXI_TRY(flx_tokeniser_print(t, &text, err));
    flx_code code = flxi_save_begin(&out, path, err);
    if (code == FLX_OK) {
        code = flxi_save_bytes(&out, text.data, text.size, err);
        if (code == FLX_OK)
            code = flxi_save_end(&out, err);
        else
            flxi_save_abandon(&out);
    }
    flx_buffer_free(&text);
    if (code != FLX_OK)
        flxi_at(err, "%s", path);
    return code;
}
