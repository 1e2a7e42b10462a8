/* SPDX-License-Identifier: Apache-2.0 */
/* decoder_graph.c: builds the graph of a decoder. One step takes the tokens [T] at the positions from `position` on; T
   and the room C of the caches are symbolic, so that one graph serves prompts and single tokens, short texts and long
   ones.

   Weights of products stay packed: dequant_matmul reads them as they are in the file. Parts that only some
   architectures have (biases, norms of queries and keys, norms after a part, gates, several matrices in one) are
   built where the file has their tensors.

   A graph of a whole text has no caches: its tokens begin at position 0 and attend to each other, and it returns the
   logits of all of them. Its products may have adapters: (x A^T) B^T is added, with narrow matrices A and B that are
   trained while the packed ones stay as they are.

   Scores are products of a query and a key, which do not change when the numbers of both are put into another order. So
   where neighbours are rotated together, queries and keys are put into the order of halves first, and stay in it. */
#include "gguf/decoder_graph.h"

#include "numeric/gguf_codes.h"

#include <fluxion/ops.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const flx_gguf *f;
    const flxi_model_sizes *m;
    flx_graph *g;
    uint8_t *used; /* may be NULL */
    int64_t block; /* the current one; -1: none */
    flx_val tokens, position;
    flx_dim T, C;
    flx_val cosines[2], sines[2]; /* of blocks that see everything, and of local ones */
    flx_val masks[2];
    bool is_whole; /* a whole text, without caches */
    bool has_loss;
    bool is_rounded; /* products with packed integers round the other side to 8 bits */
    int64_t rank;    /* of adapters; 0: none */
    double adapter_scale;
    flx_error *err; /* the first error that is not the graph's */
} building;

/* ---- Tensors of the file ---- */

/* The full name of a tensor: of the current block, or of the model. */
static int64_t find(building *b, const char *part, char name[80])
{
    if (b->block >= 0)
        snprintf(name, 80, "blk.%d.%s", (int)b->block, part);
    else
        snprintf(name, 80, "%s", part);
    return flx_gguf_find_tensor(b->f, name);
}

static bool has(building *b, const char *part)
{
    char name[80];
    return find(b, part, name) >= 0;
}

static const flxi_gguf_entry *need(building *b, const char *part, uint8_t use)
{
    char name[80];
    int64_t i = find(b, part, name);
    if (i < 0) {
        if (!b->err->code)
            flxi_fail(b->err, FLX_E_NAME, "the file has no tensor '%s'", name);
        return NULL;
    }
    if (b->used)
        b->used[i] = use;
    return &b->f->tensors.at[i];
}

static bool fits(building *b, const flxi_gguf_entry *t, int rank, int64_t rows, int64_t row)
{
    bool ok =
        t && t->rank == rank && t->dims[rank - 1] == row && (rank == 1 || t->dims[0] == rows) && t->type->format >= 0;
    if (t && !ok && !b->err->code)
        flxi_fail(b->err, FLX_E_SHAPE,
                  "the tensor '%.60s' has rank %d and rows of %lld numbers; [%lld, %lld] is needed", t->name, t->rank,
                  (long long)t->dims[t->rank ? t->rank - 1 : 0], (long long)rows, (long long)row);
    return ok;
}

/* A vector in f32; FLX_NONE where the file does not have it and `may_lack`. */
static flx_val vector(building *b, const char *part, int64_t count, bool may_lack)
{
    if (may_lack && !has(b, part))
        return FLX_NONE;
    const flxi_gguf_entry *t = need(b, part, FLXI_TENSOR_F32);
    if (!fits(b, t, 1, 1, count))
        return FLX_NONE;
    flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){count});
    return flx_param(b->g, t->name, &type);
}

/* The bytes of a matrix, u8 [rows, bytes of a row]; the same parameter where it is used twice. */
static flx_val packed(building *b, const char *part, int64_t rows, int64_t row, const flxi_gguf_type **type)
{
    const flxi_gguf_entry *t = need(b, part, FLXI_TENSOR_PACKED);
    if (!fits(b, t, 2, rows, row))
        return FLX_NONE;
    *type = t->type;
    flx_val known = flx_graph_find(b->g, t->name);
    if (known.id)
        return known;
    flx_type bytes = flx_type_make(FLX_U8, 2, (flx_dim[]){rows, row / t->type->count * t->type->nbytes});
    return flx_param(b->g, t->name, &bytes);
}

static flx_attr scheme(const flxi_gguf_type *t)
{
    static const char *const words[FLXI_GGUF_COUNT] = {
#define WORD(name, count, nbytes) "gguf_" #name,
        FLXI_GGUF_MAP(WORD)
#undef WORD
    };
    return flx_attr_word("scheme", words[t->format]);
}

static flx_val scaled(building *b, flx_val x, double factor)
{
    return factor == 1 ? x : flx_mul(b->g, x, flx_scalar(b->g, FLX_F32, factor));
}

/* A new parameter `name` + `end`, f32 [rows, row]. */
static flx_val adapter_matrix(building *b, const char *name, const char *end, int64_t rows, int64_t row, int32_t kind)
{
    char full[100];
    snprintf(full, sizeof full, "%.80s%s", name, end);
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){rows, row});
    flx_val v = flx_param(b->g, full, &type);
    return flx_set_init(b->g, v, (flx_init){.kind = kind, .scale = 1 / sqrt((double)row)});
}

/* y + scale (x A^T) B^T; B begins as zero, so that training begins with the model of the file. */
static flx_val adapted(building *b, const char *name, flx_val x, flx_val y, int64_t rows, int64_t row)
{
    flx_graph *g = b->g;
    flx_val narrow = adapter_matrix(b, name, ".lora_a", b->rank, row, FLX_INIT_NORMAL);
    flx_val wide = adapter_matrix(b, name, ".lora_b", rows, b->rank, FLX_INIT_ZEROS);
    x = flx_matmul(g, x, flx_transpose(g, narrow, FLX_INTS(1, 0)));
    x = flx_matmul(g, x, flx_transpose(g, wide, FLX_INTS(1, 0)));
    return flx_add(g, y, scaled(b, x, b->adapter_scale));
}

/* x W^T + bias, where the file has a bias; with an adapter in blocks. */
static flx_val project(building *b, const char *part, flx_val x, int64_t rows, int64_t row)
{
    char name[64];
    const flxi_gguf_type *type;
    snprintf(name, sizeof name, "%s.weight", part);
    flx_val w = packed(b, name, rows, row, &type);
    if (!w.id)
        return FLX_NONE;
    const flx_attr attrs[] = {scheme(type), flx_attr_int("x_bits", 8)};
    const bool is_rounded = b->is_rounded && flxi_gguf_grids[type->format].count > 0;
    flx_val y = flx_op1(b->g, "dequant_matmul", (flx_val[]){x, w}, 2, attrs, is_rounded ? 2 : 1);
    if (b->rank && b->block >= 0)
        y = adapted(b, flx_val_name(b->g, w), x, y, rows, row);
    snprintf(name, sizeof name, "%s.bias", part);
    flx_val bias = vector(b, name, rows, true);
    return bias.id ? flx_add(b->g, y, bias) : y;
}

/* ---- Parts ---- */

/* limit * tanh(x / limit) */
static flx_val capped(building *b, flx_val x, double limit)
{
    return limit == 0 ? x : scaled(b, flx_tanh(b->g, scaled(b, x, 1 / limit)), limit);
}

/* Numbers that follow from their position, f32 [count]. */
static flx_val constants(building *b, int64_t count, double (*number)(const building *b, int64_t i, const void *user),
                         const void *user)
{
    flx_type type = flx_type_make(FLX_F32, 1, &count);
    flx_tensor *t = flx_tensor_new(b->f->ctx, &type, NULL, b->err);
    if (!t)
        return FLX_NONE;
    for (int64_t i = 0; i < count; i++)
        ((float *)flx_tensor_data(t))[i] = (float)number(b, i, user);
    flx_val v = flx_const(b->g, &type, t);
    flx_tensor_release(t);
    return v;
}

static double zero(const building *b, int64_t i, const void *user)
{
    (void)b;
    (void)i;
    (void)user;
    return 0;
}

static flx_val norm(building *b, const char *part, flx_val x, int64_t width)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", part);
    flx_val gamma = vector(b, name, width, false);
    snprintf(name, sizeof name, "%s.bias", part);
    flx_val beta = vector(b, name, width, true);
    if (b->m->facts->is_layer_norm) {
        if (!beta.id)
            beta = constants(b, width, zero, NULL);
        return flx_layer_norm(b->g, x, gamma, beta, .eps = b->m->eps);
    }
    return flx_rms_norm(b->g, x, gamma, beta, .eps = b->m->eps);
}

static flx_val maybe_norm(building *b, const char *part, flx_val x, int64_t width)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", part);
    return has(b, name) ? norm(b, part, x, width) : x;
}

/* The rows of the packed embedding that the tokens name, decoded: [T, width]. */
static flx_val embed(building *b)
{
    const flxi_gguf_type *type;
    flx_graph *g = b->g;
    flx_val table = packed(b, "token_embd.weight", b->m->vocabulary, b->m->width, &type);
    if (!table.id)
        return FLX_NONE;
    flx_val rows = flx_gather(g, table, b->tokens, .axis = 0);
    flx_attr attrs[] = {scheme(type), flx_attr_int("E", 1), flx_attr_int("K", b->m->width), flx_attr_int("N", b->T)};
    flx_val x = flx_op1(g, "dequant_moe_weights", &rows, 1, attrs, 4); /* [1, width, T] */
    const flx_dim flat[] = {b->m->width, b->T};
    x = flx_transpose(g, flx_reshape(g, x, (flx_ints){flat, 2}), FLX_INTS(1, 0));
    return scaled(b, x, b->m->embedding_scale);
}

/* ---- Positions ---- */

/* Integers `first`, `first` + 1 … of that many, as a column [count, 1] or a row [1, count]. */
static flx_val counted(building *b, flx_dim count, flx_val first, bool is_column)
{
    flx_type type = flx_type_make(FLX_I32, 1, &count);
    flx_val v = flx_iota(b->g, &type, FLX_DEFAULT);
    if (first.id)
        v = flx_add(b->g, v, first);
    return is_column ? flx_unsqueeze(b->g, v, FLX_INTS(1)) : flx_unsqueeze(b->g, v, FLX_INTS(0));
}

/* theta^(-2i / n) */
static double frequency(const building *b, int64_t i, const void *theta)
{
    return pow(*(const double *)theta, -2.0 * (double)i / (double)b->m->rotated) / b->m->theta_scale;
}

/* The frequencies, divided by the factors of the file where it has them. */
static flx_val frequencies(building *b, double theta)
{
    flx_val v = constants(b, b->m->rotated / 2, frequency, &theta);
    flx_val factors = vector(b, "rope_freqs.weight", b->m->rotated / 2, true);
    return factors.id ? flx_div(b->g, v, factors) : v;
}

static void add_positions(building *b)
{
    flx_graph *g = b->g;
    flx_val p = flx_cast(g, counted(b, b->T, b->position, true), FLX_F32);
    const double local = b->m->facts->local_theta;
    for (int i = 0; i < 2; i++) {
        if (i == 1 && (local == 0 || local == b->m->theta)) {
            b->cosines[1] = b->cosines[0];
            b->sines[1] = b->sines[0];
            return;
        }
        flx_val a = flx_mul(g, p, frequencies(b, i == 1 ? local : b->m->theta));
        b->cosines[i] = flx_cos(g, a);
        b->sines[i] = flx_sin(g, a);
    }
}

/* bool [1, 1, T, C]: which keys of the cache the tokens attend to. */
static void add_masks(building *b)
{
    flx_graph *g = b->g;
    flx_val token = counted(b, b->T, b->position, true), key = counted(b, b->C, FLX_NONE, false);
    flx_val before = flx_le(g, key, token);
    b->masks[0] = b->masks[1] = flx_unsqueeze(g, before, FLX_INTS(0, 1));
    if (b->m->window) {
        flx_val first = flx_sub(g, token, flx_scalar(g, FLX_I32, (double)b->m->window));
        b->masks[1] = flx_unsqueeze(g, flx_and(g, before, flx_gt(g, key, first)), FLX_INTS(0, 1));
    }
}

/* ---- Attention ---- */

/* [T, heads * head_dim] -> the same, with the numbers 2i and 2i + 1 of a head at i and n / 2 + i. */
static flx_val to_halves(building *b, flx_val x, int64_t heads)
{
    flx_graph *g = b->g;
    int64_t n = b->m->rotated, rest = b->m->head_dim - n;
    const flx_dim all[] = {b->T, heads, b->m->head_dim}, pairs[] = {b->T, heads, n / 2, 2}, part[] = {b->T, heads, n};
    const flx_dim flat[] = {b->T, heads * b->m->head_dim};
    x = flx_reshape(g, x, (flx_ints){all, 3});
    flx_val y = rest ? flx_narrow(g, x, 2, 0, n) : x;
    y = flx_transpose(g, flx_reshape(g, y, (flx_ints){pairs, 4}), FLX_INTS(0, 1, 3, 2));
    y = flx_reshape(g, y, (flx_ints){part, 3});
    if (rest)
        y = flx_concat(g, ((flx_val[]){y, flx_narrow(g, x, 2, n, rest)}), 2, 2);
    return flx_reshape(g, y, (flx_ints){flat, 2});
}

/* Queries or keys: normalised, rotated, as [1, T, heads * head_dim]. */
static flx_val rotated(building *b, flx_val x, int64_t heads, const char *norm_name)
{
    flx_graph *g = b->g;
    const flx_dim dims[] = {1, b->T, heads * b->m->head_dim}, each[] = {b->T, heads, b->m->head_dim};
    const flx_dim flat[] = {b->T, heads * b->m->head_dim};
    char name[64];
    int local = flxi_is_local(b->m, b->block);
    snprintf(name, sizeof name, "%s.weight", norm_name);
    if (has(b, name)) {
        char full[80];
        bool of_all = b->f->tensors.at[find(b, name, full)].dims[0] == heads * b->m->head_dim && heads > 1;
        if (!of_all)
            x = flx_reshape(g, x, (flx_ints){each, 3});
        x = norm(b, norm_name, x, of_all ? heads * b->m->head_dim : b->m->head_dim);
        x = flx_reshape(g, x, (flx_ints){flat, 2});
    }
    if (b->m->facts->rotation == ROTATE_NEIGHBOURS)
        x = to_halves(b, x, heads);
    x = flx_reshape(g, x, (flx_ints){dims, 3});
    return flx_rope(g, x, b->cosines[local], b->sines[local], "bsd", b->m->head_dim, b->m->rotated, heads);
}

/* The cache of this block with the new tokens at their positions; it becomes an output. A whole text needs none. */
static flx_val cached(building *b, const char *kind, flx_val x)
{
    flx_graph *g = b->g;
    char name[40];
    if (b->is_whole)
        return x;
    flx_type type = flx_type_make(FLX_F32, 3, (flx_dim[]){1, b->C, b->m->kv_heads * b->m->head_dim});
    snprintf(name, sizeof name, "%s%d", kind, (int)b->block);
    flx_val zero = flx_scalar(g, FLX_I32, 0);
    const flx_val operands[] = {flx_input(g, name, &type), x, zero, b->position, zero};
    return flx_dynamic_update_slice(g, operands, 5);
}

/* q, k and v, from one matrix or from three. */
static void project_heads(building *b, flx_val x, flx_val out[3])
{
    flx_graph *g = b->g;
    int64_t nq = b->m->heads * b->m->head_dim, nk = b->m->kv_heads * b->m->head_dim;
    if (!has(b, "attn_qkv.weight")) {
        out[0] = project(b, "attn_q", x, nq, b->m->width);
        out[1] = project(b, "attn_k", x, nk, b->m->width);
        out[2] = project(b, "attn_v", x, nk, b->m->width);
        return;
    }
    flx_val all = project(b, "attn_qkv", x, nq + 2 * nk, b->m->width);
    out[0] = flx_narrow(g, all, 1, 0, nq);
    out[1] = flx_narrow(g, all, 1, nq, nk);
    out[2] = flx_narrow(g, all, 1, nq + nk, nk);
}

static flx_val attend(building *b, flx_val x, flx_val new_cache[2])
{
    flx_graph *g = b->g;
    const flxi_model_sizes *m = b->m;
    const flx_dim values[] = {1, b->T, m->kv_heads * m->head_dim}, flat[] = {b->T, m->heads * m->head_dim};
    flx_val qkv[3];
    project_heads(b, x, qkv);
    flx_val q = rotated(b, qkv[0], m->heads, "attn_q_norm");
    flx_val k = cached(b, "keys", rotated(b, qkv[1], m->kv_heads, "attn_k_norm"));
    flx_val v = cached(b, "values", flx_reshape(g, qkv[2], (flx_ints){values, 3}));
    new_cache[0] = k;
    new_cache[1] = v;
    flx_attention_attrs a = FLX_ATTENTION_ATTRS;
    a.layout = "bsd";
    a.num_heads = m->heads;
    a.num_kv_heads = m->kv_heads;
    a.head_dim = m->head_dim;
    a.mask_kind = "custom";
    if (m->attention_scale > 0)
        a.score_scale = m->attention_scale;
    if (m->attention_softcap > 0)
        a.softcap = m->attention_softcap;
    flx_val y = flx_attention_with(g, q, k, v, b->masks[flxi_is_local(m, b->block)], &a);
    y = flx_reshape(g, y, (flx_ints){flat, 2});
    return project(b, "attn_output", y, m->width, m->heads * m->head_dim);
}

/* ---- Blocks ---- */

static int64_t rows_of(building *b, const char *part)
{
    char name[80];
    int64_t i = find(b, part, name);
    return i < 0 || b->f->tensors.at[i].rank != 2 ? 0 : b->f->tensors.at[i].dims[0];
}

static flx_val feed_forward(building *b, flx_val x)
{
    flx_graph *g = b->g;
    int64_t rows = rows_of(b, "ffn_up.weight");
    bool is_gated = has(b, "ffn_gate.weight"), is_joint = !is_gated && rows_of(b, "ffn_down.weight") && !b->err->code;
    flx_val up = project(b, "ffn_up", x, rows, b->m->width), gate = FLX_NONE;
    char name[80];
    int64_t down = find(b, "ffn_down.weight", name);
    int64_t hidden = down >= 0 && b->f->tensors.at[down].rank == 2 ? b->f->tensors.at[down].dims[1] : rows;
    if (is_gated) {
        gate = project(b, "ffn_gate", x, hidden, b->m->width);
    } else if (is_joint && rows == 2 * hidden) {
        gate = flx_narrow(g, up, 1, 0, hidden);
        up = flx_narrow(g, up, 1, hidden, hidden);
    }
    flx_val act = gate.id ? gate : up;
    act = flx_op1(g, b->m->facts->activation, &act, 1, NULL, 0);
    return project(b, "ffn_down", gate.id ? flx_mul(g, act, up) : act, b->m->width, hidden);
}

static flx_val add_block(building *b, flx_val x, flx_val new_cache[2])
{
    flx_graph *g = b->g;
    int64_t width = b->m->width;
    flx_val y = attend(b, maybe_norm(b, "attn_norm", x, width), new_cache);
    y = maybe_norm(b, "post_attention_norm", y, width);
    x = flx_add(g, x, scaled(b, y, b->m->residual_scale));
    y = feed_forward(b, maybe_norm(b, "ffn_norm", x, width));
    y = maybe_norm(b, "post_ffw_norm", y, width);
    return flx_add(g, x, scaled(b, y, b->m->residual_scale));
}

/* ---- The graph ---- */

static void add_inputs(building *b)
{
    flx_graph *g = b->g;
    b->T = flx_dim_symbol(b->f->ctx, "T");
    b->C = b->is_whole ? b->T : flx_dim_symbol(b->f->ctx, "C");
    flx_type tokens = flx_type_make(FLX_I32, 1, &b->T), number = flx_type_make(FLX_I32, 0, NULL);
    b->tokens = flx_input(g, "tokens", &tokens);
    b->position = b->is_whole ? flx_scalar(g, FLX_I32, 0) : flx_input(g, "position", &number);
}

static flx_val row_at(building *b, flx_val x, flx_val at)
{
    const flx_val operands[] = {x, at, flx_scalar(b->g, FLX_I32, 0)};
    return flx_dynamic_slice(b->g, operands, 3, FLX_INTS(1, b->m->width));
}

/* The logits of each row. */
static flx_val add_logits(building *b, flx_val x)
{
    b->block = -1;
    x = norm(b, "output_norm", x, b->m->width);
    x = project(b, has(b, "output.weight") ? "output" : "token_embd", x, b->m->vocabulary, b->m->width);
    if (b->m->logit_scale > 0)
        x = scaled(b, x, 1 / b->m->logit_scale);
    return capped(b, x, b->m->final_softcap);
}

static void add_loss(building *b, flx_val logits)
{
    flx_type type = flx_type_make(FLX_I32, 1, &b->T);
    const flx_val operands[] = {logits, flx_input(b->g, "next", &type)};
    flx_val each = flx_op1(b->g, "softmax_cross_entropy", operands, 2, NULL, 0);
    flx_output(b->g, flx_op1(b->g, "reduce_mean", &each, 1, NULL, 0), "loss");
}

static void build(building *b)
{
    flx_graph *g = b->g;
    flx_type number = flx_type_make(FLX_I32, 0, NULL);
    flx_val caches[2000];
    add_inputs(b);
    flx_val last = b->is_whole ? FLX_NONE : flx_input(g, "last", &number);
    flx_val x = embed(b);
    add_positions(b);
    add_masks(b);
    for (b->block = 0; b->block < b->m->blocks && !b->err->code; b->block++)
        x = add_block(b, x, caches + 2 * b->block);
    int64_t blocks = b->block;
    x = add_logits(b, b->is_whole ? x : row_at(b, x, last));
    if (b->has_loss)
        add_loss(b, x);
    flx_output(g, x, "logits");
    for (int64_t i = 0; !b->is_whole && i < 2 * blocks && !b->err->code; i++) {
        char name[40];
        snprintf(name, sizeof name, "new_%s%d", i % 2 ? "values" : "keys", (int)(i / 2));
        flx_output(g, caches[i], name);
    }
}

static flx_graph *build_graph(building *b)
{
    b->g = flx_graph_new(b->f->ctx, "decoder");
    if (!b->g) {
        flxi_oom(b->err, "a graph");
        return NULL;
    }
    build(b);
    if (b->err->code || flx_graph_error(b->g, b->err) != FLX_OK) {
        flx_graph_release(b->g);
        return NULL;
    }
    return b->g;
}

flx_graph *flxi_decoder_graph(const flx_gguf *f, const flxi_model_sizes *m, int activation_bits, uint8_t *used,
                              flx_error *err)
{
    building b = {.f = f, .m = m, .used = used, .block = -1, .err = err, .is_rounded = activation_bits == 8};
    return build_graph(&b);
}

flx_graph *flxi_text_graph(const flx_gguf *f, const flxi_model_sizes *m, const flx_text_graph_options *o,
                           flx_error *err)
{
    building b = {.f = f, .m = m, .block = -1, .err = err, .is_whole = true, .is_rounded = o->activation_bits == 8};
    b.has_loss = o->flags & FLX_TEXT_LOSS;
    b.rank = o->adapter_rank;
    b.adapter_scale = o->adapter_scale == 0 ? 1 : o->adapter_scale;
    return build_graph(&b);
}
