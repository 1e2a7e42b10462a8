/* SPDX-License-Identifier: Apache-2.0 */
/* architectures.c: see architectures.h. Keys of sizes begin with the name of the architecture: llama.block_count. */
#include "gguf/architectures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const flxi_architecture architectures[] = {
#define ARCHITECTURE(name, rotation, activation, is_layer_norm, scales_embedding, local_layers, local_theta) \
    {#name, rotation, activation, is_layer_norm, scales_embedding, local_layers, local_theta},
#include "gguf/architectures.def"
#undef ARCHITECTURE
};

static flx_code find_architecture(const flx_gguf *f, flxi_model_sizes *m, flx_error *err)
{
    size_t size = 0;
    char text[40];
    const char *name = flx_gguf_string(f, flx_gguf_find(f, "general.architecture"), 0, &size);
    if (!name)
        return flxi_fail(err, FLX_E_NAME, "the file does not name an architecture (general.architecture)");
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (strlen(architectures[i].name) == size && memcmp(architectures[i].name, name, size) == 0) {
            m->facts = &architectures[i];
            return FLX_OK;
        }
    return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "docs/formats.md lists those that are supported",
                          "models of the architecture '%s' are not supported",
                          flxi_printable(text, sizeof text, name, size));
}

static double number(const flx_gguf *f, const flxi_model_sizes *m, const char *key, double none)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%s", m->facts->name, key);
    return flxi_gguf_element(flxi_gguf_get(f, full), 0, none);
}

/* A size that the file must give, or `usual`; 1 … 2^31 - 1. */
static flx_code size_of(const flx_gguf *f, const flxi_model_sizes *m, const char *key, double usual, int64_t *out,
                        flx_error *err)
{
    double x = number(f, m, key, usual);
    if (isnan(x))
        return flxi_fail(err, FLX_E_NAME, "the file does not give %s.%s", m->facts->name, key);
    if (!(x >= 1 && x <= INT32_MAX) || x != floor(x))
        return flxi_fail(err, FLX_E_SIZE, "%s.%s must be a positive integer, got %g", m->facts->name, key, x);
    *out = (int64_t)x;
    return FLX_OK;
}

static flx_code read_heads(const flx_gguf *f, flxi_model_sizes *m, flx_error *err)
{
    FLXI_TRY(size_of(f, m, "attention.head_count", (double)NAN, &m->heads, err));
    FLXI_TRY(size_of(f, m, "attention.head_count_kv", (double)m->heads, &m->kv_heads, err));
    FLXI_TRY(size_of(f, m, "attention.key_length", (double)(m->width / m->heads), &m->head_dim, err));
    FLXI_TRY(size_of(f, m, "rope.dimension_count", (double)m->head_dim, &m->rotated, err));
    int64_t value_dim;
    FLXI_TRY(size_of(f, m, "attention.value_length", (double)m->head_dim, &value_dim, err));
    if (value_dim != m->head_dim)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "keys of %lld and values of %lld numbers are not supported",
                         (long long)m->head_dim, (long long)value_dim);
    if (m->heads % m->kv_heads != 0 || m->rotated > m->head_dim || m->rotated % 2 != 0)
        return flxi_fail(err, FLX_E_SHAPE, "%lld heads, %lld heads of keys, %lld of %lld numbers rotated: do not fit",
                         (long long)m->heads, (long long)m->kv_heads, (long long)m->rotated, (long long)m->head_dim);
    return FLX_OK;
}

/* The factor of linear scaling; others, which change each frequency, are not supported unless the file has them as the
   tensor rope_freqs. */
static flx_code read_scaling(const flx_gguf *f, flxi_model_sizes *m, flx_error *err)
{
    char key[80], text[40];
    size_t size = 0;
    snprintf(key, sizeof key, "%s.rope.scaling.type", m->facts->name);
    const char *type = flx_gguf_string(f, flx_gguf_find(f, key), 0, &size);
    m->theta_scale = 1;
    if (!type || (size == 4 && memcmp(type, "none", 4) == 0))
        return FLX_OK;
    if (size != 6 || memcmp(type, "linear", 6) != 0)
        return flxi_fail(err, FLX_E_UNSUPPORTED, "positions with the scaling '%s' are not supported",
                         flxi_printable(text, sizeof text, type, size));
    m->theta_scale = number(f, m, "rope.scaling.factor", 1);
    if (!(m->theta_scale > 0) || !isfinite(m->theta_scale))
        return flxi_fail(err, FLX_E_NUMERIC, "%s.rope.scaling.factor must be positive", m->facts->name);
    return FLX_OK;
}

static void read_scales(const flx_gguf *f, flxi_model_sizes *m)
{
    m->eps = number(f, m, m->facts->is_layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                    1e-5);
    m->theta = number(f, m, "rope.freq_base", 10000);
    m->window = (int64_t)fmin(fmax(number(f, m, "attention.sliding_window", 0), 0), INT32_MAX);
    m->attention_softcap = number(f, m, "attn_logit_softcapping", 0);
    m->final_softcap = number(f, m, "final_logit_softcapping", 0);
    m->residual_scale = number(f, m, "residual_scale", 1);
    m->logit_scale = number(f, m, "logit_scale", 1);
    m->attention_scale = number(f, m, "attention.scale", 0);
    m->embedding_scale = number(f, m, "embedding_scale", 1);
    if (m->facts->scales_embedding)
        m->embedding_scale = (double)(float)sqrt((double)m->width);
}

static flx_code check_scales(const flxi_model_sizes *m, flx_error *err)
{
    const double all[] = {m->eps,         m->theta,           m->attention_softcap, m->final_softcap, m->residual_scale,
                          m->logit_scale, m->attention_scale, m->embedding_scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!isfinite(all[i]) || all[i] < 0)
            return flxi_fail(err, FLX_E_NUMERIC, "a scale of the model is %g; it must be finite and not negative",
                             all[i]);
    return m->theta > 0 ? FLX_OK : flxi_fail(err, FLX_E_NUMERIC, "%s.rope.freq_base must be positive", m->facts->name);
}

static flx_code read_vocabulary(const flx_gguf *f, flxi_model_sizes *m, flx_error *err)
{
    int64_t table = flx_gguf_find_tensor(f, "token_embd.weight");
    if (table < 0 || f->tensors.at[table].rank != 2 || f->tensors.at[table].dims[0] > INT32_MAX ||
        f->tensors.at[table].dims[0] < 1)
        return flxi_fail(err, FLX_E_NAME, "the file has no matrix 'token_embd.weight'");
    m->vocabulary = f->tensors.at[table].dims[0];
    return FLX_OK;
}

flx_code flxi_model_sizes_read(const flx_gguf *f, flxi_model_sizes *out, flx_error *err)
{
    flxi_model_sizes *m = out;
    *m = (flxi_model_sizes){0};
    FLXI_TRY(find_architecture(f, m, err));
    FLXI_TRY(size_of(f, m, "context_length", (double)NAN, &m->context, err));
    FLXI_TRY(size_of(f, m, "embedding_length", (double)NAN, &m->width, err));
    FLXI_TRY(size_of(f, m, "block_count", (double)NAN, &m->blocks, err));
    if (m->blocks > 1000)
        return flxi_fail(err, FLX_E_SIZE, "a model of %lld blocks; at most 1000 are supported", (long long)m->blocks);
    FLXI_TRY(read_heads(f, m, err));
    FLXI_TRY(read_scaling(f, m, err));
    read_scales(f, m);
    FLXI_TRY(check_scales(m, err));
    return read_vocabulary(f, m, err);
}

bool flxi_is_local(const flxi_model_sizes *m, int64_t i)
{
    if (m->window == 0)
        return false;
    return m->facts->local_layers == 0 || i % (m->facts->local_layers + 1) != m->facts->local_layers;
}
