/* SPDX-License-Identifier: Apache-2.0 */
/* readers.c: attacks on everything that reads bytes from outside: valid files are changed, and given to the checks of
   the fuzz targets. */
#include "adversary.h"
#include "base/hash.h"
#include "kernel/wire/kernel_wire.h"
#include "mutate.h"
#include "random/random_graph.h"
#include "targets.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/kernel.h>
#include <fluxion/onnx.h>
#include <fluxion/recording.h>
#include <fluxion/stablehlo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t input[MUTATE_ROOM];

/* A file that was given instead of the seed's input. */
static bool read_given(size_t *size)
{
    const char *path = case_given_input();
    if (!path)
        return false;
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s cannot be read", path);
    *size = fread(input, 1, sizeof input, f);
    fclose(f);
    return true;
}

/* The input in memory of exactly its size, so that a sanitizer sees a read past its end. */
static void check(target_check target, size_t size)
{
    read_given(&size);
    case_input(input, size);
    uint8_t *exact = malloc(size ? size : 1);
    CHECK(exact);
    memcpy(exact, input, size);
    target(exact, size);
    free(exact);
}

/* The seed's own input, of at most half of the room: changes may make it longer. */
static size_t begin_with(const void *bytes, size_t size)
{
    size = size < sizeof input / 2 ? size : sizeof input / 2;
    memcpy(input, bytes, size);
    return size;
}

/* ---- Texts ---- */

static const char *const graph_folders[] = {"tests/golden", "tests/errors", "tests/regress", "examples", NULL};
static const char *const graph_corpus[] = {"tests/fuzz/corpus/text", NULL};
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

typedef struct {
    const char *suffix, *comment, *words;
    const char *const *corpus;
    bool (*accepts)(const char *text, size_t size);
    language l; /* loaded when it is first used */
    seed_list seeds;
    word_list dictionary;
} text_form;

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

static bool is_stablehlo(const char *text, size_t size)
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

static const language *language_of(text_form *f)
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

static void note_accepted(bool accepted)
{
    if (accepted)
        case_accepted();
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

/* ---- Guided changes to bytes ---- */

typedef size_t (*byte_change)(uint8_t *data, size_t size, size_t room);
typedef bool (*byte_check)(const uint8_t *data, size_t size);

/* Several changes, most of which the reader accepts; then perhaps one that it may not. */
static size_t change_bytes(uint8_t *data, size_t size, size_t room, byte_change change, byte_check accepts)
{
    static uint8_t before[MUTATE_ROOM];
    for (size_t n = pick_below(5); n > 0; n--) {
        size_t old = size;
        memcpy(before, data, old);
        for (int tries = 0; tries < 6; tries++) {
            size = change(data, size, room);
            if (accepts(data, size))
                break;
            memcpy(data, before, old);
            size = old;
        }
    }
    return pick_below(2) ? change(data, size, room) : size;
}

/* ---- StableHLO bytecode ---- */

static const char *const bytecode_corpus[] = {"tests/fuzz/corpus/bytecode", NULL};

static bool is_bytecode(const uint8_t *data, size_t size)
{
    return is_stablehlo((const char *)data, size);
}

void attack_bytecode(uint64_t seed)
{
    static seed_list programs;
    mutate_begin(seed);
    if (!programs.n)
        programs = load_seeds(bytecode_corpus, "", NULL);
    const seed_file *f = pick_seed(&programs);
    size_t n = begin_with(f->bytes, f->size);
    n = change_bytes(input, n, sizeof input, LLVMFuzzerMutate, is_bytecode);
    note_accepted(is_bytecode(input, n));
    check(check_bytecode_input, n);
}

/* ---- ONNX ---- */

static const char *const onnx_corpus[] = {"tests/fuzz/corpus/onnx", NULL};

static bool is_onnx(const uint8_t *data, size_t size)
{
    case_input(data, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20, .node_limit = 20000});
    flx_onnx *m = flx_onnx_decode(ctx, data, size, NULL, NULL, NULL);
    flx_onnx_free(m);
    flx_context_free(ctx);
    return m != NULL;
}

void attack_onnx(uint64_t seed)
{
    static seed_list models;
    mutate_begin(seed);
    if (!models.n)
        models = load_seeds(onnx_corpus, "", NULL);
    const seed_file *f = pick_seed(&models);
    size_t n = begin_with(f->bytes, f->size);
    n = change_bytes(input, n, sizeof input, LLVMFuzzerMutate, is_onnx);
    note_accepted(is_onnx(input, n));
    check(check_onnx_input, n);
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

/* ---- Arrays ---- */

static text_form array_form = {.suffix = ".flx", .comment = "#", .words = "npy.dict", .corpus = graph_corpus};
static const char *const array_corpus[] = {"tests/fuzz/corpus/npy", NULL};

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s cannot be read", path);
    uint8_t *bytes = malloc(MUTATE_ROOM);
    CHECK(bytes);
    *size = fread(bytes, 1, MUTATE_ROOM / 2, f);
    fclose(f);
    return bytes;
}

/* A tensor of any dtype and a small shape. */
static flx_tensor *some_tensor(flx_context *ctx)
{
    flx_type t = {.dtype = (int32_t)(1 + pick_below(FLX_DTYPE_COUNT - 1)), .rank = (int32_t)pick_below(4)};
    for (int i = 0; i < t.rank; i++)
        t.dims[i] = (int64_t)pick_below(4);
    flx_tensor *x = flx_tensor_new(ctx, &t, NULL, NULL);
    CHECK(x);
    for (size_t i = 0; t.dtype != FLX_BOOL && i < flx_tensor_nbytes(x); i++)
        ((uint8_t *)flx_tensor_data(x))[i] = (uint8_t)pick_bits();
    return x;
}

/* A file of arrays written by the library: npy, npz or safetensors (0, 1, 2). */
static size_t written_arrays(int kind)
{
    static const char *const keys[] = {"a", "b/c", "d.e"};
    char path[700];
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_tensor *x[3];
    size_t size, n = 1 + pick_below(3);
    for (size_t i = 0; i < 3; i++)
        x[i] = some_tensor(ctx);
    snprintf(path, sizeof path, "%s/arrays", case_folder());
    flx_code code = kind == 0   ? flx_npy_write(x[0], path, &err)
                    : kind == 1 ? flx_npz_write(path, keys, (const flx_tensor *const *)x, n, &err)
                                : flx_safetensors_write(path, keys, (const flx_tensor *const *)x, n, &err);
    uint8_t *bytes = NULL;
    if (code == FLX_OK) {
        bytes = read_file(path, &size);
        size = begin_with(bytes, size);
    } else { /* a dtype that the format does not have */
        CHECK_MSG(code == FLX_E_DTYPE || code == FLX_E_UNSUPPORTED, "%s", err.message);
        size = 0;
    }
    free(bytes);
    for (size_t i = 0; i < 3; i++)
        flx_tensor_release(x[i]);
    flx_context_free(ctx);
    return size;
}

static bool reads_as_array(int kind, const uint8_t *data, size_t size)
{
    case_input(data, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_tensor *t = kind == 0   ? flx_npy_decode(ctx, data, size, NULL)
                    : kind == 1 ? flx_npz_decode(ctx, data, size, "a", NULL)
                                : flx_safetensors_decode(ctx, data, size, "a", NULL);
    flx_tensor_release(t);
    flx_context_free(ctx);
    return t != NULL;
}

static bool is_npy(const uint8_t *data, size_t size)
{
    return reads_as_array(0, data, size);
}

static bool is_npz(const uint8_t *data, size_t size)
{
    return reads_as_array(1, data, size);
}

static bool is_safetensors(const uint8_t *data, size_t size)
{
    return reads_as_array(2, data, size);
}

static size_t change_npy(uint8_t *data, size_t size, size_t room)
{
    return mutate_npy(data, size, room, language_of(&array_form));
}

static size_t change_zip(uint8_t *data, size_t size, size_t room)
{
    return mutate_zip(data, size, room, language_of(&array_form));
}

static size_t change_safetensors(uint8_t *data, size_t size, size_t room)
{
    return mutate_safetensors(data, size, room, language_of(&array_form));
}

void attack_arrays(uint64_t seed)
{
    static seed_list corpus;
    mutate_begin(seed);
    if (!corpus.n)
        corpus = load_seeds(array_corpus, "", NULL);
    const seed_file *f = pick_seed(&corpus);
    int kind = (int)((uint8_t)f->bytes[0] % 5); /* as the target selects it */
    size_t n = 0;
    if (pick_below(2)) {
        kind = (int)pick_below(3);
        n = written_arrays(kind);
    }
    if (n == 0)
        n = begin_with(f->bytes + 1, f->size - 1);
    switch (kind) {
    case 0: n = change_bytes(input, n, sizeof input / 2, change_npy, is_npy); break;
    case 1: n = change_bytes(input, n, sizeof input / 2, change_zip, is_npz); break;
    case 2: n = change_bytes(input, n, sizeof input / 2, change_safetensors, is_safetensors); break;
    default: n = LLVMFuzzerMutate(input, n, sizeof input / 2); break;
    }
    if (kind < 3)
        note_accepted(reads_as_array(kind, input, n));
    memmove(input + 1, input, n);
    input[0] = (uint8_t)kind;
    check(check_npy_input, n + 1);
}

/* ---- Data for training ---- */

static text_form data_form = {.suffix = ".flx", .comment = "#", .words = "data.dict", .corpus = graph_corpus};
static const char *const data_corpus[] = {"tests/fuzz/corpus/data", NULL};

/* As the target selects them. */
enum { DATA_TABLE = 0, DATA_TOKENISER = 4, DATA_CHECKPOINT = 5, DATA_KINDS = 7 };

/* The first byte selects the reader and its options: it stays. */
static size_t change_data(uint8_t *data, size_t size, size_t room)
{
    static char fresh[MUTATE_ROOM];
    int kind = data[0] % DATA_KINDS;
    if (kind >= DATA_CHECKPOINT)
        return 1 + mutate_safetensors(data + 1, size - 1, room - 1, language_of(&data_form));
    if ((kind != DATA_TABLE && kind != DATA_TOKENISER) || pick_below(4) == 0)
        return 1 + LLVMFuzzerMutate(data + 1, size - 1, room - 1);
    size_t n = mutate_text(language_of(&data_form), (char *)data + 1, size - 1, fresh, room - 1);
    memcpy(data + 1, fresh, n);
    return 1 + n;
}

static bool is_accepted_data(const uint8_t *data, size_t size)
{
    case_input(data, size);
    return accepts_data_input(data, size);
}

void attack_data(uint64_t seed)
{
    static seed_list corpus;
    mutate_begin(seed);
    if (!corpus.n)
        corpus = load_seeds(data_corpus, "", NULL);
    const seed_file *f = pick_seed(&corpus);
    size_t n = begin_with(f->bytes, f->size);
    n = change_bytes(input, n, sizeof input / 2, change_data, is_accepted_data);
    note_accepted(is_accepted_data(input, n));
    check(check_data_input, n);
}

/* ---- Recordings ---- */

/* A recording that the library writes of one of a few graphs. */
static size_t written_recording(void)
{
    static const char loop[] = "graph s(c: f32[], x: f32[]) { return add(c, x), mul(c, x) }\n"
                               "graph f(x: f32[N]) { c, ys = scan(full(f32[], 0), x, body=@s) return c, ys }\n";
    static const char *const graphs[] = {
        "graph f(x: f32[2, 3], param w: f32[3]) { return reduce_sum(mul(x, w), axes=[1]) }\n",
        "graph f(x: f64[4]) { return sort(x) }\n", loop,
        "graph f(i: i32[3], b: bool[3], z: c64[2]) { return where(b, i, neg(i)), real(z) }\n"};
    char path[700];
    flx_error err = {0};
    flx_feed feeds[4];
    flx_tensor *x[4];
    size_t size;
    const char *text = graphs[pick_below(sizeof graphs / sizeof *graphs)];
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "graph", &err);
    CHECK_MADE(m, &err);
    flx_graph *g = flx_module_main(m);
    flx_exec *e = flx_compile(g, &(flx_compile_options){.flags = FLX_COMPILE_INTERPRET, .threads = 1}, &err);
    CHECK_MADE(e, &err);
    size_t n = flx_graph_input_count(g);
    for (size_t i = 0; i < n; i++) {
        flx_type t = *flx_val_type(g, flx_graph_input(g, i));
        for (int k = 0; k < t.rank; k++)
            t.dims[k] = flx_dim_is_static(t.dims[k]) ? t.dims[k] : 3;
        x[i] = flx_tensor_new(ctx, &t, NULL, &err);
        CHECK_MADE(x[i], &err);
        feeds[i] = (flx_feed){flx_val_name(g, flx_graph_input(g, i)), x[i]};
    }
    snprintf(path, sizeof path, "%s/recording", case_folder());
    CHECK_OK(flx_exec_record(e, NULL, feeds, n, path, &err), &err);
    uint8_t *bytes = read_file(path, &size);
    size = begin_with(bytes, size);
    free(bytes);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(x[i]);
    flx_exec_free(e);
    flx_module_free(m);
    flx_context_free(ctx);
    return size;
}

static bool is_recording(const uint8_t *data, size_t size)
{
    case_input(data, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_recording *r = flx_recording_decode(ctx, data, size, NULL);
    flx_recording_free(r);
    flx_context_free(ctx);
    return r != NULL;
}

static bool has_names(const uint8_t *data, size_t size)
{
    case_input(data, size);
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    flx_keys *keys = flx_keys_decode(ctx, data, size, NULL);
    flx_keys_free(keys);
    flx_context_free(ctx);
    return keys != NULL;
}

void attack_recordings(uint64_t seed)
{
    mutate_begin(seed);
    size_t n, kind = pick_below(6);
    byte_check accepts = kind < 2 ? has_names : is_recording;
    if (kind == 0)
        n = change_bytes(input, written_arrays(1), sizeof input / 2, change_zip, accepts);
    else if (kind == 1)
        n = change_bytes(input, written_arrays(2), sizeof input / 2, change_safetensors, accepts);
    else
        n = change_bytes(input, written_recording(), sizeof input / 2, change_zip, accepts);
    note_accepted(accepts(input, n));
    check(check_recording_input, n);
}

/* ---- Calls ---- */

/* The target reads its input as calls of the building functions; bytes of any value are calls. */
void attack_calls(uint64_t seed)
{
    mutate_begin(seed);
    size_t n = 20 + pick_below(600);
    for (size_t i = 0; i < n; i++) /* mostly small numbers, which mean ordinary things */
        input[i] = (uint8_t)(pick_below(8) ? pick_below(64) : pick_bits());
    check(check_graph_input, n);
    case_accepted();
}
