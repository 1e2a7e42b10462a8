/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.c: reads the tokens of a model from its file. See vocabulary.h. */
#include "gguf/tokens/vocabulary.h"

#include "base/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lookup ---- */

int32_t flxi_vocabulary_lookup(const flx_vocabulary *v, const char *text, size_t size)
{
    uint32_t i;
    uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED, text, size);
    for (flxi_probe p = flxi_index_first(&v->by_text, hash); flxi_index_next(&v->by_text, &p, &i);)
        if (v->tokens[i].size == size && memcmp(v->tokens[i].text, text, size) == 0)
            return (int32_t)i;
    return -1;
}

int32_t flx_vocabulary_find(const flx_vocabulary *v, const char *name)
{
    return v && name ? flxi_vocabulary_lookup(v, name, strlen(name)) : -1;
}

int64_t flx_vocabulary_size(const flx_vocabulary *v)
{
    return v ? (int64_t)v->count : 0;
}

/* ---- Tokens ---- */

static const flxi_gguf_value *strings_of(const flx_gguf *f, const char *key)
{
    const flxi_gguf_value *x = flxi_gguf_get(f, key);
    return x && x->kind == FLX_GGUF_ARRAY && x->element == FLX_GGUF_STRING ? x : NULL;
}

static flx_code read_tokens(flx_vocabulary *v, const flx_gguf *f, flx_error *err)
{
    const flxi_gguf_value *texts = strings_of(f, "tokenizer.ggml.tokens");
    const flxi_gguf_value *scores = flxi_gguf_get(f, "tokenizer.ggml.scores");
    const flxi_gguf_value *types = flxi_gguf_get(f, "tokenizer.ggml.token_type");
    if (!texts || texts->count == 0 || texts->count > INT32_MAX)
        return flxi_fail(err, FLX_E_NAME, "the file has no list of tokens (tokenizer.ggml.tokens)");
    if (!types)
        snprintf(v->warning, sizeof v->warning,
                 "the file does not say which tokens are control tokens (tokenizer.ggml.token_type): all are text");
    v->tokens = flxi_alloc(v->mem, (size_t)texts->count, sizeof *v->tokens);
    if (!v->tokens)
        return flxi_oom(err, "a vocabulary");
    v->count = (size_t)texts->count;
    const unsigned char *at = texts->at;
    for (size_t i = 0; i < v->count; i++) {
        size_t size;
        flxi_token *t = &v->tokens[i];
        t->text = flxi_gguf_next_string(&at, &size);
        t->size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
        t->score = (float)flxi_gguf_element(scores, i, 0);
        double type = flxi_gguf_element(types, i, TOKEN_NORMAL);
        t->type = type >= TOKEN_NORMAL && type <= TOKEN_BYTE ? (uint8_t)type : TOKEN_NORMAL;
        v->least_score = t->score < v->least_score ? t->score : v->least_score;
        v->longest = t->size > v->longest ? t->size : v->longest;
        uint64_t hash = flxi_hash_bytes(FLXI_HASH_SEED, t->text, t->size);
        if (flxi_vocabulary_lookup(v, t->text, t->size) < 0 && !flxi_index_add(v->mem, &v->by_text, hash, (uint32_t)i))
            return flxi_oom(err, "a vocabulary");
    }
    const uint32_t most = 256; /* longer tokens are never found; dividing a text takes time in proportion */
    v->longest = v->longest > most ? most : v->longest;
    return FLX_OK;
}

/* ---- Bytes ---- */

/* The text of a byte in vocabularies of byte pairs: visible characters of Latin-1 are themselves, others
   are the code points from 256 on, in order. */
static size_t byte_text(int byte, char out[3])
{
    static const int hidden_below[] = {0x21, 0x7f, 0xa1, 0xad, 0xae};
    int code = byte;
    if (byte < hidden_below[0])
        code = 256 + byte;
    else if (byte >= hidden_below[1] && byte < hidden_below[2])
        code = 256 + 33 + byte - hidden_below[1];
    else if (byte == hidden_below[3])
        code = 256 + 33 + 34;
    if (code < 128) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
}

static void find_bytes(flx_vocabulary *v)
{
    static const char digits[] = "0123456789ABCDEF";
    for (int i = 0; i < 256; i++) {
        char text[8] = {'<', '0', 'x', digits[i >> 4], digits[i & 15], '>'};
        size_t size = v->kind == VOCABULARY_PAIRS ? byte_text(i, text) : 6;
        v->bytes[i] = flxi_vocabulary_lookup(v, text, size);
    }
}

/* ---- Pairs ---- */

static flx_code read_joins(flx_vocabulary *v, const flx_gguf *f, flx_error *err)
{
    const flxi_gguf_value *merges = strings_of(f, "tokenizer.ggml.merges");
    if (!merges || merges->count > INT32_MAX)
        return flxi_fail(err, FLX_E_NAME, "the file has no list of byte pairs (tokenizer.ggml.merges)");
    v->num_joins = (size_t)merges->count;
    v->joins = flxi_alloc(v->mem, v->num_joins, sizeof *v->joins);
    if (!v->joins)
        return flxi_oom(err, "a vocabulary");
    const unsigned char *at = merges->at;
    for (size_t i = 0; i < v->num_joins; i++) {
        size_t size;
        char joined[512];
        const char *text = flxi_gguf_next_string(&at, &size);
        const char *blank = size > 1 ? memchr(text + 1, ' ', size - 1) : NULL;
        v->joins[i] = (flxi_join){-1, -1, -1};
        if (!blank || size > sizeof joined)
            continue;
        size_t left = (size_t)(blank - text), right = size - left - 1;
        memcpy(joined, text, left);
        memcpy(joined + left, blank + 1, right);
        flxi_join j = {flxi_vocabulary_lookup(v, text, left), flxi_vocabulary_lookup(v, blank + 1, right),
                       flxi_vocabulary_lookup(v, joined, left + right)};
        if (j.left < 0 || j.right < 0 || j.token < 0)
            continue; /* it can never be used */
        v->joins[i] = j;
        uint64_t hash = flxi_hash_u64(FLXI_HASH_SEED, (uint64_t)(uint32_t)j.left << 32 | (uint32_t)j.right);
        if (!flxi_index_add(v->mem, &v->by_pair, hash, (uint32_t)i))
            return flxi_oom(err, "a vocabulary");
    }
    return FLX_OK;
}

/* How texts are divided before pairs are joined. */
static const struct {
    const char *name;
    bool is_gpt2;
    int digits;
} divisions[] = {
    {"default", true, 0},
    {"gpt-2", true, 0},
    {"gpt2", true, 0},
    {"phi-2", true, 0},
    {"olmo", true, 0},
    {"starcoder", true, 1},
    {"refact", true, 1},
    {"command-r", true, 1},
    {"smollm", true, 1},
    {"codeshell", true, 1},
    {"llama-bpe", false, 3},
    {"llama3", false, 3},
    {"llama-v3", false, 3},
    {"smaug-bpe", false, 3},
    {"dbrx", false, 3},
    {"qwen2", false, 1},
    {"qwen3", false, 1},
    {"stablelm2", false, 1},
    {"deepseek-r1-qwen", false, 1},
};

/* An unknown division is taken as that of gpt-2, with a warning: texts have tokens then, though perhaps others. */
static void read_division(flx_vocabulary *v, const flx_gguf *f)
{
    size_t size;
    const char *name = flx_gguf_string(f, flx_gguf_find(f, "tokenizer.ggml.pre"), 0, &size);
    if (!name) {
        name = "default";
        size = strlen(name);
    }
    for (size_t i = 0; i < sizeof divisions / sizeof *divisions; i++)
        if (strlen(divisions[i].name) == size && memcmp(divisions[i].name, name, size) == 0) {
            v->is_gpt2 = divisions[i].is_gpt2;
            v->digits = divisions[i].digits;
            return;
        }
    char text[40];
    v->is_gpt2 = true;
    snprintf(v->warning, sizeof v->warning,
             "the division '%s' of texts (tokenizer.ggml.pre) is not known, that of gpt-2 is used: tokens may differ",
             flxi_printable(text, sizeof text, name, size));
}

/* ---- Roles and special tokens ---- */

static int32_t token_of_key(const flx_vocabulary *v, const flx_gguf *f, const char *key, double usual)
{
    double x = flxi_gguf_element(flxi_gguf_get(f, key), 0, usual);
    return x >= 0 && x < (double)v->count ? (int32_t)x : -1;
}

static void read_roles(flx_vocabulary *v, const flx_gguf *f)
{
    static const struct {
        flxi_token_role role;
        const char *key;
        double usual; /* of SentencePiece */
    } roles[] = {{ROLE_BOS, "tokenizer.ggml.bos_token_id", 1},
                 {ROLE_EOS, "tokenizer.ggml.eos_token_id", 2},
                 {ROLE_UNK, "tokenizer.ggml.unknown_token_id", 0},
                 {ROLE_EOT, "tokenizer.ggml.eot_token_id", -1},
                 {ROLE_EOM, "tokenizer.ggml.eom_token_id", -1}};
    bool is_piece = v->kind == VOCABULARY_SCORES;
    for (size_t i = 0; i < NUM_ROLES; i++)
        v->roles[roles[i].role] = token_of_key(v, f, roles[i].key, is_piece ? roles[i].usual : -1);
    v->adds_bos = flxi_gguf_element(flxi_gguf_get(f, "tokenizer.ggml.add_bos_token"), 0, is_piece) != 0;
    v->adds_eos =
        flxi_gguf_element(flxi_gguf_get(f, "tokenizer.ggml.add_eos_token"), 0, v->kind == VOCABULARY_PATHS) != 0;
    v->adds_space =
        flxi_gguf_element(flxi_gguf_get(f, "tokenizer.ggml.add_space_prefix"), 0, v->kind != VOCABULARY_PAIRS) != 0;
}

static flx_code find_specials(flx_vocabulary *v, flx_error *err)
{
    for (size_t i = 0; i < v->count; i++) {
        int type = v->tokens[i].type;
        if ((type == TOKEN_CONTROL || type == TOKEN_USER) && v->tokens[i].size > 0 &&
            !flxi_push(v->mem, &v->specials, (int32_t)i))
            return flxi_oom(err, "a vocabulary");
    }
    return FLX_OK;
}

int flx_vocabulary_is_end(const flx_vocabulary *v, int32_t token)
{
    static const char *const names[] = {"<|im_end|>",    "<|eot_id|>", "<end_of_turn>", "<|end|>",
                                        "<|endoftext|>", "<|eom_id|>", "</s>",          "<|end_of_text|>"};
    if (!v || token < 0 || (size_t)token >= v->count)
        return 0;
    if (token == v->roles[ROLE_EOS] || token == v->roles[ROLE_EOT] || token == v->roles[ROLE_EOM])
        return 1;
    for (size_t i = 0; v->tokens[token].type == TOKEN_CONTROL && i < sizeof names / sizeof *names; i++)
        if (flx_vocabulary_find(v, names[i]) == token)
            return 1;
    return 0;
}

const char *flx_vocabulary_warning(const flx_vocabulary *v)
{
    return v && v->warning[0] ? v->warning : NULL;
}

/* ---- The vocabulary ---- */

static flx_code read_kind(flx_vocabulary *v, const flx_gguf *f, flx_error *err)
{
    static const struct {
        const char *name;
        flxi_vocabulary_kind kind;
    } kinds[] = {{"gpt2", VOCABULARY_PAIRS}, {"llama", VOCABULARY_SCORES}, {"t5", VOCABULARY_PATHS}};
    size_t size;
    const char *name = flx_gguf_string(f, flx_gguf_find(f, "tokenizer.ggml.model"), 0, &size);
    if (!name)
        return flxi_fail(err, FLX_E_NAME, "the file has no tokenizer (tokenizer.ggml.model)");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == size && memcmp(kinds[i].name, name, size) == 0) {
            v->kind = kinds[i].kind;
            return FLX_OK;
        }
    char text[40];
    return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "supported: gpt2, llama, t5", "the tokenizer '%s' is not supported",
                          flxi_printable(text, sizeof text, name, size));
}

static flx_code read_all(flx_vocabulary *v, const flx_gguf *f, flx_error *err)
{
    FLXI_TRY(read_kind(v, f, err));
    FLXI_TRY(read_tokens(v, f, err));
    find_bytes(v);
    read_roles(v, f);
    if (v->kind == VOCABULARY_PAIRS) {
        read_division(v, f);
        FLXI_TRY(read_joins(v, f, err));
    }
    return find_specials(v, err);
}

flx_vocabulary *flx_vocabulary_new(const flx_gguf *f, flx_error *err)
{
    if (!f) {
        flxi_fail(err, FLX_E_USAGE, "flx_vocabulary_new: a file must be given");
        return NULL;
    }
    const flxi_allocator *mem = flxi_context_mem(f->ctx);
    flx_vocabulary *v = flxi_alloc(mem, 1, sizeof *v);
    if (!v) {
        flxi_oom(err, "a vocabulary");
        return NULL;
    }
    v->ctx = f->ctx;
    v->mem = mem;
    v->image = flxi_gguf_hold(f->images.at[0]);
    if (read_all(v, f, err) == FLX_OK)
        return v;
    flx_vocabulary_free(v);
    return NULL;
}

void flx_vocabulary_free(flx_vocabulary *v)
{
    if (!v)
        return;
    if (v->tokens)
        flxi_free(v->mem, v->tokens, v->count, sizeof *v->tokens);
    if (v->joins)
        flxi_free(v->mem, v->joins, v->num_joins, sizeof *v->joins);
    flxi_index_free(v->mem, &v->by_text);
    flxi_index_free(v->mem, &v->by_pair);
    flxi_vec_free(v->mem, &v->specials);
    flxi_gguf_drop(v->image);
    flxi_free(v->mem, v, 1, sizeof *v);
}
