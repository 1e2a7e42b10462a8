/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gguf.c: GGUF files. What the reader accepts is used completely: values, tensors, the vocabulary on a text, and
   the graph of the model. What it rejects has an error with a location. */
#include "gguf/decoder_graph.h"

#include <fluxion/decoder.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile double gguf_sink; /* so that the values are really read */

static void gguf_need(int holds)
{
    if (!holds)
        abort();
}

static void use_pairs(const flx_gguf *f)
{
    for (size_t i = 0; i < flx_gguf_pair_count(f); i++) {
        flx_gguf_pair p;
        gguf_need(flx_gguf_pair_at(f, i, &p) == FLX_OK && p.key);
        gguf_need(flx_gguf_find(f, p.key) == (int64_t)i);
        size_t n = 0;
        gguf_sink += flx_gguf_number(f, (int64_t)i, p.count - 1, 0);
        const char *s = flx_gguf_string(f, (int64_t)i, p.count ? p.count - 1 : 0, &n);
        gguf_sink += s && n ? s[n - 1] : 0;
    }
}

static void use_tensors(const flx_gguf *f)
{
    for (size_t i = 0; i < flx_gguf_tensor_count(f); i++) {
        flx_error err = {0};
        flx_tensor *t = flx_gguf_tensor_f32(f, i, &err);
        gguf_need(t || (err.code != FLX_OK && err.code != FLX_E_INTERNAL));
        if (t)
            gguf_sink += flx_tensor_get(t, flx_tensor_count(t) - 1);
        flx_tensor_release(t);
    }
}

static void use_vocabulary(const flx_gguf *f)
{
    static const char text[] = "the \xe2\x96\x81 H\xc3\xa9llo 12345 don't\n\n  \xff<s> end";
    flx_error err = {0};
    flx_vocabulary *v = flx_vocabulary_new(f, &err);
    gguf_need(v || (err.code != FLX_OK && err.code != FLX_E_INTERNAL));
    flx_tensor *t = v ? flx_vocabulary_encode(v, text, sizeof text - 1, 3, &err) : NULL;
    flx_buffer back = {0};
    if (t)
        gguf_need(flx_vocabulary_decode(v, flx_tensor_const_data(t), (size_t)flx_tensor_count(t), &back, &err) ==
                  FLX_OK);
    flx_buffer_free(&back);
    flx_tensor_release(t);
    flx_vocabulary_free(v);
}

/* Built, not compiled: a compiler is too slow for each input. */
static void use_graph(const flx_gguf *f)
{
    flx_error err = {0};
    flxi_model_sizes m;
    int64_t table = flx_gguf_find_tensor(f, "token_embd.weight");
    if (flxi_model_sizes_read(f, &m, &err) != FLX_OK || table < 0 || f->tensors.at[table].rank != 2)
        return;
    m.vocabulary = f->tensors.at[table].dims[0];
    uint8_t *used = calloc(f->tensors.n + 1, 1);
    int activation_bits = f->tensors.n % 2 ? 8 : 32;
    flx_graph *g = used ? flxi_decoder_graph(f, &m, activation_bits, used, &err) : NULL;
    gguf_need(g || (err.code != FLX_OK && err.code != FLX_E_INTERNAL));
    gguf_need(!g || flx_graph_verify(g, &err) == FLX_OK);
    flx_graph_release(g);
    free(used);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_error err = {0};
    flx_gguf *f = flx_gguf_decode(ctx, data, size, "fuzz", &err);
    if (f) {
        use_pairs(f);
        use_tensors(f);
        use_vocabulary(f);
        use_graph(f);
    } else {
        gguf_need(err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0]);
        gguf_need(err.code == FLX_E_OOM || strncmp(err.where, "fuzz:", 5) == 0);
    }
    flx_gguf_free(f);
    flx_context_free(ctx);
    return 0;
}
