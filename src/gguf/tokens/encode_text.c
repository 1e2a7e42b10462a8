/* SPDX-License-Identifier: Apache-2.0 */
/* encode_text.c: texts to tokens and back. Names of special tokens are found first; what is between them is divided by
   the model's own rule. SentencePiece writes a blank as U+2581; vocabularies of byte pairs write every byte as a
   visible character (vocabulary.c). */
#include "base/text/utf8.h"
#include "gguf/tokens/vocabulary.h"

#include <string.h>

static const char blank_text[] = "\xe2\x96\x81";

typedef struct {
    const flx_vocabulary *v;
    flxi_token_list tokens;
    flxi_strbuf work;
    flx_error *err;
} encoding;

static flx_code no_memory(const encoding *e)
{
    return flxi_oom(e->err, "the tokens of a text");
}

static flx_code add(encoding *e, int32_t token)
{
    return flxi_push(e->v->mem, &e->tokens, token) ? FLX_OK : no_memory(e);
}

/* ---- Joining ---- */

static int32_t join_pair(void *user, const flxi_symbol *left, const flxi_symbol *right, double *rank)
{
    const flx_vocabulary *v = ((const encoding *)user)->v;
    uint64_t hash = flxi_hash_u64(FLXI_HASH_SEED, (uint64_t)(uint32_t)left->token << 32 | (uint32_t)right->token);
    uint32_t i;
    for (flxi_probe p = flxi_index_first(&v->by_pair, hash); flxi_index_next(&v->by_pair, &p, &i);)
        if (v->joins[i].left == left->token && v->joins[i].right == right->token) {
            *rank = i;
            return v->joins[i].token;
        }
    return -1;
}

/* Two pieces become one where their text is a token; the most probable first. */
static int32_t join_piece(void *user, const flxi_symbol *left, const flxi_symbol *right, double *rank)
{
    const encoding *e = user;
    int32_t token = flxi_vocabulary_lookup(e->v, e->work.at + left->at, (size_t)left->size + right->size);
    if (token >= 0)
        *rank = -(double)e->v->tokens[token].score;
    return token;
}

static flx_code add_bytes(encoding *e, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int32_t byte = e->v->bytes[(unsigned char)s[i]];
        int32_t token = byte >= 0 ? byte : e->v->roles[ROLE_UNK];
        if (token >= 0)
            FLXI_TRY(add(e, token));
    }
    return FLX_OK;
}

static flx_code add_symbols(encoding *e, const flxi_symbol *symbols, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        const flxi_symbol *s = &symbols[i];
        if (s->size && s->token >= 0)
            FLXI_TRY(add(e, s->token));
        else if (s->size)
            FLXI_TRY(add_bytes(e, text + s->at, s->size));
    }
    return FLX_OK;
}

/* Joins the symbols of text [0, n) and adds what they become. A symbol is a byte, or a character of e->work. */
static flx_code join_text(encoding *e, const char *text, size_t n, bool by_bytes)
{
    flxi_symbol *symbols = flxi_alloc(e->v->mem, n, sizeof *symbols);
    size_t count = 0;
    if (!symbols)
        return no_memory(e);
    for (size_t i = 0, size; i < n; i += size) {
        size = by_bytes ? 1 : flxi_utf8_length(text + i, n - i);
        size = size ? size : 1;
        int32_t token = by_bytes ? e->v->bytes[(unsigned char)text[i]] : flxi_vocabulary_lookup(e->v, text + i, size);
        symbols[count++] = (flxi_symbol){.token = token, .at = (uint32_t)i, .size = (uint32_t)size};
    }
    flx_code code = flxi_merge_symbols(e->v->mem, symbols, count, by_bytes ? join_pair : join_piece, e, e->err);
    if (code == FLX_OK)
        code = add_symbols(e, symbols, count, text);
    flxi_free(e->v->mem, symbols, n, sizeof *symbols);
    return code;
}

/* ---- The parts of a text ---- */

static flx_code add_words(encoding *e, const char *s, size_t n)
{
    for (size_t i = 0, size; i < n; i += size) {
        size = flxi_word_length(e->v, s + i, n - i);
        FLXI_TRY(join_text(e, s + i, size, true));
    }
    return FLX_OK;
}

static flx_code add_pieces(encoding *e, const char *s, size_t n, bool is_first)
{
    e->work.n = 0;
    if (e->v->adds_space && is_first)
        flxi_add_text(&e->work, blank_text);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == ' ')
            flxi_add_text(&e->work, blank_text);
        else
            flxi_add_char(&e->work, s[i]);
    }
    if (e->work.failed)
        return no_memory(e);
    return e->v->kind == VOCABULARY_SCORES ? join_text(e, e->work.at, e->work.n, false)
                                           : flxi_best_path(e->v, e->work.at, e->work.n, &e->tokens, e->err);
}

static flx_code add_part(encoding *e, const char *s, size_t n, bool is_first)
{
    if (n == 0)
        return FLX_OK;
    return e->v->kind == VOCABULARY_PAIRS ? add_words(e, s, n) : add_pieces(e, s, n, is_first);
}

/* The longest special token at the beginning of s, -1 for none. */
static int32_t special_at(const flx_vocabulary *v, const char *s, size_t n, uint32_t flags)
{
    int32_t best = -1;
    for (size_t i = 0; i < v->specials.n; i++) {
        int32_t token = v->specials.at[i];
        const flxi_token *t = &v->tokens[token];
        if (t->type == TOKEN_CONTROL && !(flags & FLX_ENCODE_CONTROLS))
            continue;
        if (t->size <= n && t->text[0] == s[0] && memcmp(t->text, s, t->size) == 0 &&
            (best < 0 || t->size > v->tokens[best].size))
            best = token;
    }
    return best;
}

static flx_code add_text(encoding *e, const char *s, size_t n, uint32_t flags)
{
    size_t from = 0;
    bool is_first = true; /* SentencePiece: also after a special token */
    for (size_t i = 0; i < n;) {
        int32_t token = special_at(e->v, s + i, n - i, flags);
        if (token < 0) {
            i++;
            continue;
        }
        FLXI_TRY(add_part(e, s + from, i - from, is_first));
        FLXI_TRY(add(e, token));
        i += e->v->tokens[token].size;
        from = i;
    }
    return add_part(e, s + from, n - from, is_first);
}

static flx_code encode(encoding *e, const char *s, size_t n, uint32_t flags)
{
    const flx_vocabulary *v = e->v;
    bool ends = flags & FLX_ENCODE_ENDS;
    if (n > INT32_MAX / 8)
        return flxi_fail(e->err, FLX_E_SIZE, "a text of %zu bytes is too long", n);
    if (ends && v->adds_bos && v->roles[ROLE_BOS] >= 0)
        FLXI_TRY(add(e, v->roles[ROLE_BOS]));
    FLXI_TRY(add_text(e, s, n, flags));
    if (ends && v->adds_eos && v->roles[ROLE_EOS] >= 0)
        FLXI_TRY(add(e, v->roles[ROLE_EOS]));
    return FLX_OK;
}

flx_tensor *flx_vocabulary_encode(const flx_vocabulary *v, const char *text, size_t size, uint32_t flags,
                                  flx_error *err)
{
    const uint32_t known = FLX_ENCODE_ENDS | FLX_ENCODE_CONTROLS;
    if (!v || (!text && size) || (flags & ~known)) {
        flxi_fail(err, FLX_E_USAGE, "flx_vocabulary_encode: a vocabulary and a text must be given, and known flags");
        return NULL;
    }
    encoding e = {.v = v, .err = err};
    flx_tensor *out = NULL;
    flxi_strbuf_init(&e.work, v->mem);
    if (encode(&e, text, size, flags) == FLX_OK) {
        flx_type type = flx_type_make(FLX_I32, 1, (flx_dim[]){(flx_dim)e.tokens.n});
        out = flx_tensor_new(v->ctx, &type, e.tokens.at, err);
    }
    flxi_vec_free(v->mem, &e.tokens);
    flxi_strbuf_free(&e.work);
    return out;
}

/* ---- Back to text ---- */

/* The byte that a character of a vocabulary of byte pairs means, -1 for none. */
static int byte_of(const char *s, size_t size)
{
    int code = size == 1 ? (unsigned char)s[0] : size == 2 ? (s[0] & 31) << 6 | (s[1] & 63) : -1;
    if (code >= 256 + 67)
        return code == 256 + 67 ? 0xad : -1;
    if (code >= 256 + 33)
        return code - 256 - 33 + 0x7f;
    return code >= 256 ? code - 256 : code;
}

static void decode_pairs(flxi_strbuf *out, const flxi_token *t)
{
    for (size_t i = 0, size; i < t->size; i += size) {
        size = flxi_utf8_length(t->text + i, t->size - i);
        int byte = size ? byte_of(t->text + i, size) : -1;
        if (byte >= 0)
            flxi_add_char(out, (char)byte);
        else
            flxi_add_bytes(out, t->text + i, size ? size : 1);
        size = size ? size : 1;
    }
}

static void decode_pieces(flxi_strbuf *out, const flxi_token *t)
{
    for (size_t i = 0; i < t->size; i++) {
        bool is_blank = t->size - i >= 3 && memcmp(t->text + i, blank_text, 3) == 0;
        flxi_add_char(out, is_blank ? ' ' : t->text[i]);
        i += is_blank ? 2 : 0;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 0;
}

static void decode_token(const flx_vocabulary *v, flxi_strbuf *out, const flxi_token *t)
{
    if (t->type == TOKEN_CONTROL || t->type == TOKEN_UNKNOWN || t->type == TOKEN_UNUSED)
        return;
    if (t->type == TOKEN_USER)
        flxi_add_bytes(out, t->text, t->size);
    else if (v->kind == VOCABULARY_PAIRS)
        decode_pairs(out, t);
    else if (t->type == TOKEN_BYTE && t->size == 6)
        flxi_add_char(out, (char)(hex_digit(t->text[3]) << 4 | hex_digit(t->text[4])));
    else
        decode_pieces(out, t);
}

flx_code flx_vocabulary_decode(const flx_vocabulary *v, const int32_t *tokens, size_t count, flx_buffer *out,
                               flx_error *err)
{
    flxi_strbuf b;
    if (!v || (!tokens && count) || !out)
        return flxi_fail(err, FLX_E_USAGE, "flx_vocabulary_decode: a vocabulary, tokens and a buffer must be given");
    flxi_strbuf_init(&b, v->mem);
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || (size_t)tokens[i] >= v->count) {
            flxi_strbuf_free(&b);
            return flxi_fail(err, FLX_E_INDEX, "token %ld is not one of the %zu tokens of the vocabulary",
                             (long)tokens[i], v->count);
        }
        decode_token(v, &b, &v->tokens[tokens[i]]);
    }
    return flxi_buffer_finish(&b, v->ctx, out, err);
}
