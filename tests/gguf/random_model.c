/* SPDX-License-Identifier: Apache-2.0 */
/* random_model.c: see random_model.h. Codes are random bytes; only the scales of a block are chosen, so that its
   numbers have a sensible size whatever the codes are. */
#include "gguf/random_model.h"

#include "base/half.h"
#include "gguf/gguf_types.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEADS = 4, KV_HEADS = 2, HEAD_DIM = 64, HIDDEN = 256, MOST_TENSORS = 64, MOST_PAIRS = 40 };

/* Where the scales of a block are, and about how large a number is for a scale of 1. */
static const struct {
    const char *type;
    int at[2];
    double size[2];
} scales[] = {
    {"q4_0", {0, -1}, {4, 0}},      {"q4_1", {0, 2}, {8, -1}},    {"q5_0", {0, -1}, {9, 0}},
    {"q5_1", {0, 2}, {16, -1}},     {"q8_0", {0, -1}, {74, 0}},   {"q2_k", {80, 82}, {12, 8}},
    {"q3_k", {108, -1}, {37, 0}},   {"q4_k", {0, 2}, {240, 32}},  {"q5_k", {0, 2}, {500, 32}},
    {"q6_k", {208, -1}, {1300, 0}}, {"iq4_nl", {0, -1}, {65, 0}}, {"iq4_xs", {0, -1}, {1200, 0}},
    {"iq3_xxs", {0, -1}, {120, 0}}, {"iq3_s", {0, -1}, {130, 0}}, {"iq2_xxs", {0, -1}, {50, 0}},
    {"iq2_xs", {0, -1}, {50, 0}},   {"iq2_s", {0, -1}, {50, 0}},  {"iq1_s", {0, -1}, {6, 0}},
    {"tq1_0", {52, -1}, {1, 0}},    {"tq2_0", {64, -1}, {1, 0}},
};

static void put_half(uint8_t *at, double x)
{
    uint16_t bits = flxi_to_f16(x);
    at[0] = (uint8_t)(bits & 255);
    at[1] = (uint8_t)(bits >> 8);
}

/* The sum of four uniform numbers, of variance 1: the same everywhere, without a library's logarithm. */
static double bell(uint64_t *state)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += test_uniform(state) - 0.5;
    return sum * 1.7320508075688772;
}

static void fill_block(const flxi_gguf_type *t, uint8_t *b, double size, uint64_t *state)
{
    for (int i = 0; i < t->nbytes; i++)
        b[i] = (uint8_t)(test_random(state) >> 24);
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
        for (int i = 0; strcmp(scales[k].type, t->name) == 0 && i < 2 && scales[k].at[i] >= 0; i++)
            put_half(b + scales[k].at[i], scales[k].size[i] < 0 ? -size : size / scales[k].size[i]);
    if (strcmp(t->name, "iq1_m") == 0)
        for (int i = 0; i < 4; i++)
            b[49 + 2 * i] = (uint8_t)((b[49 + 2 * i] & 15) | (flxi_to_f16(size / 6) >> 4 * i & 15) << 4);
    if (strcmp(t->name, "mxfp4") == 0)
        b[0] = 122;
    if (strcmp(t->name, "q8_k") == 0)
        memcpy(b, &(float){(float)(size / 74)}, 4);
    if (t->count == 1) {
        float x = (float)(size * bell(state));
        if (t->nbytes == 4)
            memcpy(b, &x, 4);
        else if (strcmp(t->name, "f16") == 0)
            put_half(b, (double)x);
        else
            memcpy(b, &(uint16_t){flxi_to_bf16((double)x)}, 2);
    }
}

flx_tensor *random_blocks(flx_context *ctx, const char *type, int64_t rows, int64_t row, uint64_t *state)
{
    const flxi_gguf_type *t = flxi_gguf_type_named(type);
    flx_type bytes = flx_type_make(FLX_U8, 2, (flx_dim[]){rows, row / t->count * t->nbytes});
    flx_tensor *out = flx_tensor_new(ctx, &bytes, NULL, NULL);
    uint8_t *b = flx_tensor_data(out);
    for (int64_t i = 0; i < rows * (row / t->count); i++, b += t->nbytes)
        fill_block(t, b, 1 / sqrt((double)row), state);
    return out;
}

/* ---- Files ---- */

typedef struct {
    flx_context *ctx;
    const char *architecture, *type;
    uint64_t state;
    char names[MOST_TENSORS][48], keys[MOST_PAIRS][64];
    flx_gguf_source tensors[MOST_TENSORS];
    flx_tensor *values[MOST_TENSORS];
    flx_gguf_pair pairs[MOST_PAIRS];
    uint32_t numbers[MOST_PAIRS];
    float reals[MOST_PAIRS];
    size_t num_tensors, num_pairs;
} file;

static void add_tensor(file *f, const char *name, const char *type, flx_tensor *value)
{
    size_t i = f->num_tensors++;
    snprintf(f->names[i], sizeof f->names[i], "%s", name);
    f->values[i] = value;
    f->tensors[i] = (flx_gguf_source){f->names[i], type, value};
}

static void add_matrix(file *f, const char *name, int64_t rows, int64_t row)
{
    add_tensor(f, name, f->type, random_blocks(f->ctx, f->type, rows, row, &f->state));
}

static void add_vector(file *f, const char *name, int64_t count, double around)
{
    flx_type type = flx_type_make(FLX_F32, 1, &count);
    flx_tensor *t = flx_tensor_new(f->ctx, &type, NULL, NULL);
    for (int64_t i = 0; i < count; i++)
        ((float *)flx_tensor_data(t))[i] = (float)(around + 0.1 * bell(&f->state));
    add_tensor(f, name, "f32", t);
}

static size_t add_key(file *f, const char *key, bool is_own)
{
    size_t i = f->num_pairs++;
    snprintf(f->keys[i], sizeof f->keys[i], "%s%s%s", is_own ? f->architecture : "", is_own ? "." : "", key);
    f->pairs[i].key = f->keys[i];
    f->pairs[i].count = 1;
    return i;
}

static void add_number(file *f, const char *key, uint32_t value)
{
    size_t i = add_key(f, key, true);
    f->numbers[i] = value;
    f->pairs[i].kind = FLX_GGUF_U32;
    f->pairs[i].data = &f->numbers[i];
}

static void add_real(file *f, const char *key, double value)
{
    size_t i = add_key(f, key, true);
    f->reals[i] = (float)value;
    f->pairs[i].kind = FLX_GGUF_F32;
    f->pairs[i].data = &f->reals[i];
}

static void add_text(file *f, const char *key, const char *const *value)
{
    size_t i = add_key(f, key, false);
    f->pairs[i].kind = FLX_GGUF_STRING;
    f->pairs[i].data = value;
}

static bool is_one_of(const file *f, const char *names)
{
    size_t n = strlen(f->architecture);
    for (const char *at = names; (at = strstr(at, f->architecture)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}

static void add_sizes(file *f)
{
    add_number(f, "context_length", 512);
    add_number(f, "embedding_length", MODEL_WIDTH);
    add_number(f, "block_count", MODEL_BLOCKS);
    add_number(f, "feed_forward_length", HIDDEN);
    add_number(f, "attention.head_count", HEADS);
    add_number(f, "attention.head_count_kv", KV_HEADS);
    add_number(f, "attention.key_length", HEAD_DIM);
    add_number(f, "attention.value_length", HEAD_DIM);
    add_number(f, "rope.dimension_count", HEAD_DIM);
    add_real(f, "rope.freq_base", 10000);
    add_real(f,
             is_one_of(f, "starcoder2 stablelm") ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
             1e-5);
    if (is_one_of(f, "gemma2 gemma3"))
        add_number(f, "attention.sliding_window", 8);
    if (is_one_of(f, "granite")) {
        add_real(f, "attention.scale", 0.1);
        add_real(f, "embedding_scale", 3);
        add_real(f, "residual_scale", 0.7);
        add_real(f, "logit_scale", 2);
    }
    if (is_one_of(f, "gemma2")) {
        add_real(f, "attn_logit_softcapping", 50);
        add_real(f, "final_logit_softcapping", 30);
    }
}

/* Tokens <unk> <s> </s>, the bytes, and some words. */
static void add_tokens(file *f)
{
    static const char *model = "llama",
                      *words[] = {"\xe2\x96\x81", "e", "t", "h", "he", "\xe2\x96\x81t", "\xe2\x96\x81the"};
    static char texts[MODEL_VOCABULARY][12];
    static const char *list[MODEL_VOCABULARY];
    static float scores[MODEL_VOCABULARY];
    static int32_t types[MODEL_VOCABULARY];
    const int num_words = sizeof words / sizeof *words;
    for (int i = 0; i < MODEL_VOCABULARY; i++) {
        int word = i - 259;
        if (i < 3)
            snprintf(texts[i], sizeof texts[i], "%s", i == 0 ? "<unk>" : i == 1 ? "<s>" : "</s>");
        else if (word < 0)
            snprintf(texts[i], sizeof texts[i], "<0x%02X>", (unsigned)(i - 3));
        else if (word < num_words)
            snprintf(texts[i], sizeof texts[i], "%s", words[word]);
        else
            snprintf(texts[i], sizeof texts[i], "<%d>", i);
        list[i] = texts[i];
        scores[i] = word >= 0 ? (float)-word : 0;
        types[i] = i == 0 ? 2 : i < 3 ? 3 : word < 0 ? 6 : 1;
    }
    add_text(f, "tokenizer.ggml.model", &model);
    const struct {
        const char *key;
        int32_t element;
        const void *data;
    } lists[] = {{"tokenizer.ggml.tokens", FLX_GGUF_STRING, list},
                 {"tokenizer.ggml.scores", FLX_GGUF_F32, scores},
                 {"tokenizer.ggml.token_type", FLX_GGUF_I32, types}};
    for (int k = 0; k < 3; k++) {
        size_t i = add_key(f, lists[k].key, false);
        f->pairs[i] = (flx_gguf_pair){f->keys[i], FLX_GGUF_ARRAY, lists[k].element, MODEL_VOCABULARY, lists[k].data};
    }
}

static const char *part(char name[48], int block, const char *rest)
{
    snprintf(name, 48, "blk.%d.%s", block, rest);
    return name;
}

static void add_block(file *f, int i)
{
    char n[48];
    bool has_layer_norm = is_one_of(f, "starcoder2 stablelm"), has_biases = is_one_of(f, "starcoder2");
    if (!is_one_of(f, "olmo2")) {
        add_vector(f, part(n, i, "attn_norm.weight"), MODEL_WIDTH, 1);
        add_vector(f, part(n, i, "ffn_norm.weight"), MODEL_WIDTH, 1);
    }
    if (has_layer_norm) {
        add_vector(f, part(n, i, "attn_norm.bias"), MODEL_WIDTH, 0);
        add_vector(f, part(n, i, "ffn_norm.bias"), MODEL_WIDTH, 0);
    }
    if (is_one_of(f, "phi3")) {
        add_matrix(f, part(n, i, "attn_qkv.weight"), (HEADS + 2 * KV_HEADS) * HEAD_DIM, MODEL_WIDTH);
    } else {
        add_matrix(f, part(n, i, "attn_q.weight"), HEADS * HEAD_DIM, MODEL_WIDTH);
        add_matrix(f, part(n, i, "attn_k.weight"), KV_HEADS * HEAD_DIM, MODEL_WIDTH);
        add_matrix(f, part(n, i, "attn_v.weight"), KV_HEADS * HEAD_DIM, MODEL_WIDTH);
    }
    if (has_biases || is_one_of(f, "qwen2")) {
        add_vector(f, part(n, i, "attn_q.bias"), HEADS * HEAD_DIM, 0);
        add_vector(f, part(n, i, "attn_k.bias"), KV_HEADS * HEAD_DIM, 0);
        add_vector(f, part(n, i, "attn_v.bias"), KV_HEADS * HEAD_DIM, 0);
    }
    if (is_one_of(f, "qwen3 gemma3")) {
        add_vector(f, part(n, i, "attn_q_norm.weight"), HEAD_DIM, 1);
        add_vector(f, part(n, i, "attn_k_norm.weight"), HEAD_DIM, 1);
    }
    if (is_one_of(f, "olmo2")) { /* over all heads at once */
        add_vector(f, part(n, i, "attn_q_norm.weight"), HEADS * HEAD_DIM, 1);
        add_vector(f, part(n, i, "attn_k_norm.weight"), KV_HEADS * HEAD_DIM, 1);
    }
    add_matrix(f, part(n, i, "attn_output.weight"), MODEL_WIDTH, HEADS * HEAD_DIM);
    if (is_one_of(f, "gemma2 gemma3 olmo2")) {
        add_vector(f, part(n, i, "post_attention_norm.weight"), MODEL_WIDTH, 1);
        add_vector(f, part(n, i, "post_ffw_norm.weight"), MODEL_WIDTH, 1);
    }
    if (!is_one_of(f, "phi3 starcoder2"))
        add_matrix(f, part(n, i, "ffn_gate.weight"), HIDDEN, MODEL_WIDTH);
    add_matrix(f, part(n, i, "ffn_up.weight"), (is_one_of(f, "phi3") ? 2 : 1) * HIDDEN, MODEL_WIDTH);
    add_matrix(f, part(n, i, "ffn_down.weight"), MODEL_WIDTH, HIDDEN);
    if (has_biases) {
        add_vector(f, part(n, i, "attn_output.bias"), MODEL_WIDTH, 0);
        add_vector(f, part(n, i, "ffn_up.bias"), HIDDEN, 0);
        add_vector(f, part(n, i, "ffn_down.bias"), MODEL_WIDTH, 0);
    }
}

static void add_all(file *f)
{
    add_text(f, "general.architecture", &f->architecture);
    add_sizes(f);
    add_tokens(f);
    flx_tensor *table = random_blocks(f->ctx, "q8_0", MODEL_VOCABULARY, MODEL_WIDTH, &f->state);
    uint8_t *b = flx_tensor_data(table);
    for (size_t at = 0; at < flx_tensor_nbytes(table); at += 34)
        put_half(b + at, 1 / 74.0);
    add_tensor(f, "token_embd.weight", "q8_0", table);
    add_vector(f, "output_norm.weight", MODEL_WIDTH, 1);
    if (is_one_of(f, "starcoder2 stablelm"))
        add_vector(f, "output_norm.bias", MODEL_WIDTH, 0);
    if (!is_one_of(f, "gemma gemma2 gemma3"))
        add_matrix(f, "output.weight", MODEL_VOCABULARY, MODEL_WIDTH);
    for (int i = 0; i < MODEL_BLOCKS; i++)
        add_block(f, i);
}

flx_code random_model_write(flx_context *ctx, const char *path, const char *architecture, const char *type,
                            flx_error *err)
{
    static file f;
    f = (file){.ctx = ctx, .architecture = architecture, .type = type, .state = 7};
    add_all(&f);
    flx_code code = flx_gguf_write(path, f.pairs, f.num_pairs, f.tensors, f.num_tensors, err);
    for (size_t i = 0; i < f.num_tensors; i++)
        flx_tensor_release(f.values[i]);
    return code;
}
