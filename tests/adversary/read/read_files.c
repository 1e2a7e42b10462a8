/* SPDX-License-Identifier: Apache-2.0 */
/* read_files.c: attacks on the readers of arrays, of data for training and of recordings. */
#include "readers.h"

#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/recording.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
