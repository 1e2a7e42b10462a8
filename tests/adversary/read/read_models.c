/* SPDX-License-Identifier: Apache-2.0 */
/* read_models.c: attacks on the readers of models in binary forms: StableHLO bytecode, ONNX, GGUF. Those that the
   library writes are read too: random graphs in the form of the reader. */
#include "readers.h"

#include "random/random_graph.h"

#include <fluxion/gguf.h>
#include <fluxion/onnx.h>
#include <fluxion/stablehlo.h>

static const char *const bytecode_corpus[] = {"tests/fuzz/corpus/bytecode", NULL};
static const char *const onnx_corpus[] = {"tests/fuzz/corpus/onnx", NULL};
static const char *const gguf_corpus[] = {"tests/fuzz/corpus/gguf", NULL};

typedef flx_code (*graph_writer)(const flx_graph *g, flx_buffer *out, flx_error *err);

/* A random graph as a file; 0 when the seed gives none, or it cannot be written. */
static size_t written_graph(graph_writer write)
{
    subject s;
    flx_module *module;
    flx_buffer bytes = {0};
    size_t n = 0;
    if (!(pick_below(3) ? random_subject : random_control_subject)(&s, pick_bits(), &module))
        return 0;
    flx_graph *bound = flx_specialise(s.g, s.dims, s.num_dims, NULL);
    if (bound && write(bound, &bytes, NULL) == FLX_OK && bytes.size <= sizeof input / 2)
        n = begin_with(bytes.data, bytes.size);
    flx_buffer_free(&bytes);
    flx_graph_release(bound);
    random_subject_free(&s, module);
    return n;
}

static size_t seed_file_of(seed_list *l, const char *const *corpus)
{
    if (!l->n)
        *l = load_seeds(corpus, "", NULL);
    const seed_file *f = pick_seed(l);
    return begin_with(f->bytes, f->size);
}

/* ---- StableHLO bytecode ---- */

static bool is_bytecode(const uint8_t *data, size_t size)
{
    return is_stablehlo((const char *)data, size);
}

void attack_bytecode(uint64_t seed)
{
    static seed_list programs;
    mutate_begin(seed);
    size_t n = pick_below(3) == 0 ? written_graph(flx_export_stablehlo_bytecode) : 0;
    n = n ? n : seed_file_of(&programs, bytecode_corpus);
    n = change_bytes(input, n, sizeof input, mutate_mlir, is_bytecode);
    note_accepted(is_bytecode(input, n));
    check(check_bytecode_input, n);
}

/* ---- ONNX ---- */

static bool is_onnx(const uint8_t *data, size_t size)
{
    case_input(data, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20, .node_limit = 20000});
    flx_onnx *m = flx_onnx_decode(ctx, data, size, NULL, NULL, NULL);
    flx_onnx_free(m);
    flx_context_free(ctx);
    return m != NULL;
}

static flx_code write_onnx(const flx_graph *g, flx_buffer *out, flx_error *err)
{
    return flx_onnx_encode(g, NULL, 0, out, err);
}

void attack_onnx(uint64_t seed)
{
    static seed_list models;
    mutate_begin(seed);
    size_t n = pick_below(3) == 0 ? written_graph(write_onnx) : 0;
    n = n ? n : seed_file_of(&models, onnx_corpus);
    n = change_bytes(input, n, sizeof input, mutate_protobuf, is_onnx);
    note_accepted(is_onnx(input, n));
    check(check_onnx_input, n);
}

/* ---- GGUF ---- */

static bool is_gguf(const uint8_t *data, size_t size)
{
    case_input(data, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_gguf *f = flx_gguf_decode(ctx, data, size, "file", NULL);
    flx_gguf_free(f);
    flx_context_free(ctx);
    return f != NULL;
}

void attack_gguf(uint64_t seed)
{
    static seed_list models;
    mutate_begin(seed);
    size_t n = seed_file_of(&models, gguf_corpus);
    n = change_bytes(input, n, sizeof input, mutate_gguf, is_gguf);
    note_accepted(is_gguf(input, n));
    check(check_gguf_input, n);
}
