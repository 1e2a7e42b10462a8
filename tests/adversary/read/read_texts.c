/* SPDX-License-Identifier: Apache-2.0 */
/* read_texts.c: attacks on the readers of graphs, kernels and StableHLO as text, and of graphs and kernels as bytes. */
#include "readers.h"

#include "base/hash.h"
#include "kernel/wire/kernel_wire.h"
#include "random/random_graph.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/kernel.h>
#include <fluxion/stablehlo.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts ---- */

static const char *const graph_folders[] = {"tests/golden", "tests/errors", "examples", NULL};
const char *const graph_corpus[] = {"tests/fuzz/corpus/text", NULL};
static const char *const kernel_corpus[] = {"tests/fuzz/corpus/kernel_text", NULL};
static const char *const mlir_corpus[] = {"tests/fuzz/corpus/stablehlo", NULL};

static seed_list joined(seed_list a, seed_list b)
{
    a.files = realloc(a.files, (a.n + b.n) * sizeof *a.files);
    CHECK(a.files);
    memcpy(a.files + a.n, b.files, b.n * sizeof *b.files);
    a.n += b.n;
    free(b.files);
    return a;
}

/* Readers may fail here already: each text is the input of the case for the time being. */
static bool is_graph(const char *text, size_t size)
{
    case_input(text, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_module *m = flx_parse(ctx, text, size, "text", NULL);
    flx_module_free(m);
    flx_context_free(ctx);
    return m != NULL;
}

static bool is_kernel(const char *text, size_t size)
{
    case_input(text, size);
    flx_context *ctx = flx_context_new(NULL);
    flx_kernel *k = flx_kernel_parse(ctx, text, size, "text", NULL);
    flx_kernel_release(k);
    flx_context_free(ctx);
    return k != NULL;
}

bool is_stablehlo(const char *text, size_t size)
{
    case_input(text, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_module *m = flx_import_stablehlo(ctx, text, size, "text", NULL);
    flx_module_free(m);
    flx_context_free(ctx);
    return m != NULL;
}

static text_form graph_form = {
    .suffix = ".flx", .comment = "#", .words = "text.dict", .corpus = graph_corpus, .accepts = is_graph};
static text_form kernel_form = {
    .suffix = ".flk", .comment = "#", .words = "kernel_text.dict", .corpus = kernel_corpus, .accepts = is_kernel};
static text_form mlir_form = {
    .suffix = ".mlir", .comment = "//", .words = "stablehlo.dict", .corpus = mlir_corpus, .accepts = is_stablehlo};

const language *language_of(text_form *f)
{
    if (!f->l.seeds) {
        f->seeds = joined(load_seeds(graph_folders, f->suffix, f->comment), load_seeds(f->corpus, "", NULL));
        f->dictionary = load_words(f->words);
        f->l = (language){&f->dictionary, &f->seeds, f->accepts};
    }
    return &f->l;
}

/* A random graph as text, or as StableHLO; NULL when the seed gives none, or it cannot be exported. */
static char *random_text(bool as_stablehlo, size_t *size)
{
    subject s;
    flx_module *module;
    flx_buffer text = {0};
    char *copy = NULL;
    bool control = pick_below(3) == 0;
    if (!(control ? random_control_subject : random_subject)(&s, pick_bits(), &module))
        return NULL;
    flx_graph *bound = flx_specialise(s.g, s.dims, s.num_dims, NULL);
    flx_code code = !as_stablehlo ? flx_module_print(module, &text, NULL)
                    : bound       ? flx_export_stablehlo(bound, &text, NULL)
                                  : FLX_E_UNBOUND_DIM;
    if (code == FLX_OK) {
        copy = malloc(text.size + 1);
        CHECK(copy);
        memcpy(copy, text.data, text.size);
        *size = text.size;
        flx_buffer_free(&text);
    }
    flx_graph_release(bound);
    random_subject_free(&s, module);
    return copy;
}

/* One of the files, or a random graph, changed. */
static size_t changed_text(text_form *f)
{
    const language *l = language_of(f);
    size_t size, n;
    char *made = f != &kernel_form && pick_below(4) == 0 ? random_text(f == &mlir_form, &size) : NULL;
    if (made) {
        n = mutate_text(l, made, size, (char *)input, sizeof input);
        free(made);
        return n;
    }
    const seed_file *from = pick_text(l);
    return mutate_text(l, from->bytes, from->size, (char *)input, sizeof input);
}

void attack_text(uint64_t seed)
{
    mutate_begin(seed);
    size_t n = changed_text(&graph_form);
    if (pick_below(3) == 0) /* the mutator of the fuzz target knows the attributes of ops */
        n = mutate_text_input(input, n, sizeof input, (unsigned)pick_bits());
    note_accepted(is_graph((char *)input, n));
    check(check_text_input, n);
}

void attack_kernel_text(uint64_t seed)
{
    mutate_begin(seed);
    size_t n = changed_text(&kernel_form);
    if (pick_below(3) == 0)
        n = mutate_kernel_text_input(input, n, sizeof input, (unsigned)pick_bits());
    note_accepted(is_kernel((char *)input, n));
    check(check_kernel_text_input, n);
}

void attack_stablehlo(uint64_t seed)
{
    mutate_begin(seed);
    size_t n = changed_text(&mlir_form);
    note_accepted(is_stablehlo((char *)input, n));
    check(check_stablehlo_input, n);
}

/* ---- Graphs as bytes ---- */

enum { BINARY_HEADER = 24 };

/* The payload of a graph: of a file, or of a changed one that is still valid. */
static size_t encoded_graph(uint8_t *out, size_t room)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_module *m = NULL;
    flx_buffer bytes = {0};
    size_t n = 0;
    for (int tries = 0; !m && tries < 200; tries++) {
        const seed_file *f = pick_text(language_of(&graph_form));
        size_t size = pick_below(2) ? changed_text(&graph_form) : begin_with(f->bytes, f->size);
        m = flx_parse(ctx, (char *)input, size, "text", NULL);
        if (m && flx_graph_encode(flx_module_main(m), &bytes, NULL) == FLX_OK && bytes.size <= room / 2) {
            n = bytes.size - BINARY_HEADER;
            memcpy(out, bytes.data + BINARY_HEADER, n);
        }
        flx_buffer_free(&bytes);
    }
    flx_module_free(m);
    flx_context_free(ctx);
    return n;
}

static bool decodes_as_graph(const uint8_t *payload, size_t size)
{
    case_input(payload, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_module *m = NULL;
    uint8_t *file = malloc(BINARY_HEADER + size);
    CHECK(file);
    uint64_t sum = flxi_hash_bytes(FLXI_HASH_SEED, payload, size);
    memcpy(file, "FLXB\1\0\0\0", 8);
    for (int i = 0; i < 8; i++) {
        file[8 + i] = (uint8_t)((uint64_t)size >> (8 * i));
        file[16 + i] = (uint8_t)(sum >> (8 * i));
    }
    if (size)
        memcpy(file + BINARY_HEADER, payload, size);
    m = flx_decode(ctx, file, BINARY_HEADER + size, "bytes", NULL);
    flx_module_free(m);
    flx_context_free(ctx);
    free(file);
    return m != NULL;
}

void attack_binary(uint64_t seed)
{
    mutate_begin(seed);
    static uint8_t payload[MUTATE_ROOM];
    size_t n = encoded_graph(payload, sizeof payload - 1);
    n = change_bytes(payload, n, sizeof payload - 1, mutate_graph_payload, decodes_as_graph);
    note_accepted(decodes_as_graph(payload, n));
    input[0] = 1; /* the target adds a header */
    memcpy(input + 1, payload, n);
    check(check_binary_input, n + 1);
}

/* ---- Kernels as bytes ---- */

/* Whether it is a kernel once length and checksum are correct. */
static bool is_wire(const uint8_t *data, size_t size)
{
    size &= ~(size_t)3;
    if (size < WIRE_HEADER_BYTES)
        return false;
    uint8_t *file = malloc(size);
    CHECK(file);
    memcpy(file, data, size);
    uint64_t sum = flxi_hash_bytes(FLXI_HASH_SEED, file + WIRE_HEADER_BYTES, size - WIRE_HEADER_BYTES);
    memcpy(file, "FLXK\1\0\0\0\0\0\0\0", 12);
    for (int i = 0; i < 8; i++) {
        file[16 + i] = (uint8_t)(sum >> (8 * i));
        if (i < 4)
            file[12 + i] = (uint8_t)(size / 4 >> (8 * i));
    }
    flx_context *ctx = flx_context_new(NULL);
    flx_kernel *k = flx_kernel_decode(ctx, file, size, NULL);
    flx_kernel_release(k);
    flx_context_free(ctx);
    free(file);
    return k != NULL;
}

/* The same with the mark of the target before it. */
static bool is_marked_wire(const uint8_t *data, size_t size)
{
    case_input(data, size);
    return size > 0 && data[0] % 2 && is_wire(data + 1, size - 1);
}

static size_t change_wire(uint8_t *data, size_t size, size_t room)
{
    return mutate_kernel_wire_input(data, size, room, (unsigned)pick_bits());
}

void attack_kernel_wire(uint64_t seed)
{
    mutate_begin(seed);
    flx_context *ctx = flx_context_new(NULL);
    flx_kernel *k = NULL;
    flx_buffer bytes = {0};
    size_t n = 1;
    for (int tries = 0; !k && tries < 200; tries++) {
        const seed_file *f = pick_text(language_of(&kernel_form));
        size_t size = pick_below(2) ? changed_text(&kernel_form) : begin_with(f->bytes, f->size);
        k = flx_kernel_parse(ctx, (char *)input, size, "text", NULL);
    }
    if (k && flx_kernel_encode(k, &bytes, NULL) == FLX_OK && bytes.size < sizeof input / 2) {
        memcpy(input + 1, bytes.data, bytes.size);
        n = 1 + bytes.size;
    }
    flx_buffer_free(&bytes);
    flx_kernel_release(k);
    flx_context_free(ctx);
    input[0] = pick_below(8) != 0; /* 1: length and checksum are corrected */
    n = change_bytes(input, n, sizeof input, change_wire, is_marked_wire);
    note_accepted(is_marked_wire(input, n));
    check(check_kernel_wire_input, n);
}
