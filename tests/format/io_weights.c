/* SPDX-License-Identifier: Apache-2.0 */
/* io_weights.c: files of named tensors, whatever their form is: those that PyTorch 2.15 wrote (the corpus of the fuzz
   target), hand-made pickles with everything that is refused, and the index of a file in parts. */
#include "test.h"

#include "base/memory.h"
#include "damage.h"
#include "format/weights/pickle.h"

#include <fluxion/tensor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *corpus(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/weights/%s", test_source_dir(), name);
    return path;
}

static void check_values(flx_context *ctx, const char *path, const char *key, int32_t dtype, const char *dims,
                         const char *values)
{
    flx_error err = {0};
    test_fail_context("%s: %s", path, key);
    flx_tensor *t = flx_weights_read(ctx, path, key, &err);
    CHECK_MADE(t, &err);
    const flx_type *type = flx_tensor_type(t);
    char text[300] = "", shape[100] = "";
    for (int i = 0; i < type->rank; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%d", i ? " " : "", (int)type->dims[i]);
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%g", i ? " " : "", flx_tensor_get(t, i));
    CHECK_EQ_I64(type->dtype, dtype);
    CHECK_EQ_STR(shape, dims);
    CHECK_EQ_STR(text, values);
    flx_tensor_release(t);
}

/* ---- Files of PyTorch ---- */

TEST(weights_of_pytorch_have_the_names_and_values_of_their_module)
{
    static const char *const names[] = {"fc1.weight",
                                        "fc1.bias",
                                        "norm.weight",
                                        "norm.bias",
                                        "norm.running_mean",
                                        "norm.running_var",
                                        "norm.num_batches_tracked"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_keys *keys = flx_keys_read(ctx, corpus("state.pt"), &err);
    CHECK_MADE(keys, &err);
    CHECK_EQ_I64(flx_keys_count(keys), 7);
    for (size_t i = 0; i < 7; i++)
        CHECK_EQ_STR(flx_keys_at(keys, i), names[i]);
    flx_keys_free(keys);
    check_values(ctx, corpus("state.pt"), "fc1.weight", FLX_F32, "2 3", "0 1 2 3 4 5");
    check_values(ctx, corpus("state.pt"), "norm.bias", FLX_F32, "2", "30 31");
    check_values(ctx, corpus("state.pt"), "norm.num_batches_tracked", FLX_I64, "", "0");
    check_values(ctx, corpus("proto4.pt"), "w", FLX_F32, "2", "1 1");
    check_values(ctx, corpus("one.pt"), "tensor", FLX_I8, "3", "1 2 3");
    CHECK(!flx_weights_read(ctx, corpus("state.pt"), "fc2.weight", &err) && err.code == FLX_E_NAME);
    CHECK(strstr(err.hint, "fc1.weight") != NULL);
    flx_context_free(ctx);
}

TEST(weights_of_pytorch_may_be_views_in_nested_values)
{
    flx_context *ctx = flx_context_new(NULL);
    const char *path = corpus("views.pt");
    check_values(ctx, path, "model.w", FLX_F64, "2 3", "6 8 10 12 14 16");
    check_values(ctx, path, "model.t", FLX_F64, "6 4", "0 6 12 18 1 7 13 19 2 8 14 20 3 9 15 21 4 10 16 22 5 11 17 23");
    check_values(ctx, path, "model.h", FLX_BF16, "2", "1.5 -2");
    check_values(ctx, path, "steps.0", FLX_I64, "", "7");
    check_values(ctx, path, "steps.1.0", FLX_BOOL, "2", "1 0");
    check_values(ctx, path, "3", FLX_U16, "2", "1 2");
    check_values(ctx, path, "param", FLX_C64, "1", "2");
    check_values(ctx, path, "empty", FLX_F32, "0 4", "");
    flx_context_free(ctx);
}

/* FILE:OFFSET of an error. */
static void check_place(const flx_error *err, const char *path)
{
    size_t n = strlen(path);
    CHECK_MSG(strncmp(err->where, path, n < 90 ? n : 90) == 0 && strrchr(err->where, ':') > strrchr(err->where, '/'),
              "%s", err->where);
}

TEST(weights_of_pytorch_run_nothing)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    CHECK(!flx_keys_read(ctx, corpus("evil.pt"), &err) && err.code == FLX_E_UNSUPPORTED);
    CHECK(strstr(err.message, "posix.system") && strstr(err.hint, "state_dict"));
    check_place(&err, corpus("evil.pt"));
    CHECK(!flx_keys_read(ctx, corpus("module.pt"), &err) && err.code == FLX_E_UNSUPPORTED);
    CHECK(strstr(err.message, "torch.nn.modules.container.Sequential"));
    flx_context_free(ctx);
}

/* ---- Pickles ---- */

static flx_code read_pickle(const char *bytes, size_t size, size_t *offset, flx_error *err)
{
    static const flxi_allocator mem = {flxi_default_alloc, NULL};
    flxi_pickle p;
    flx_code code = flxi_pickle_read(&p, &mem, (const unsigned char *)bytes, size, offset, err);
    flxi_pickle_free(&p);
    return code;
}

#define STORAGE "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpuK\4tQ"
#define TENSOR "ctorch._utils\n_rebuild_tensor_v2\n("

TEST(pickles_that_are_not_tensors_are_refused)
{
    static const struct {
        const char *bytes;
        size_t size;
        flx_code code;
        size_t offset;
    } cases[] = {
#define CASE(text, code, offset) {text, sizeof text - 1, code, offset},
        CASE("\x80\2}.", FLX_OK, 3) CASE("\x80\2" STORAGE ".", FLX_OK, 53) CASE("", FLX_E_SYNTAX, 0)
            CASE("\x80\x9}.", FLX_E_SYNTAX, 0) CASE("\x80\2.", FLX_E_SYNTAX, 2) /* nothing on the stack */
        CASE("\x80\2cos\nsystem\n.", FLX_E_UNSUPPORTED, 2)                      /* GLOBAL */
        CASE("\x80\4\x8c\2os\x8c\6system\x93.", FLX_E_UNSUPPORTED, 14)          /* STACK_GLOBAL */
        CASE("\x80\2i", FLX_E_UNSUPPORTED, 2)                                   /* INST */
        CASE("\x80\2}\x81", FLX_E_UNSUPPORTED, 3)                               /* NEWOBJ */
        CASE("\x80\2(o", FLX_E_UNSUPPORTED, 3)                                  /* OBJ */
        CASE("\x80\2}P1\n.", FLX_E_UNSUPPORTED, 3)                              /* PERSID */
        CASE("\x80\2\x82\1", FLX_E_UNSUPPORTED, 2)                              /* EXT1 */
        CASE("\x80\2}Q.", FLX_E_SYNTAX, 3)                                      /* not a storage */
        CASE("\x80\2})R.", FLX_E_UNSUPPORTED, 4)                                /* calls a dict */
        CASE("\x80\2ccollections\nOrderedDict\n}\x85R.", FLX_E_UNSUPPORTED, 29)
            CASE("\x80\2(u", FLX_E_SYNTAX, 3)              /* no dict below the mark */
        CASE("\x80\2}(K\1u", FLX_E_SYNTAX, 6)              /* a key without a value */
        CASE("\x80\2}}b}K\1b.", FLX_E_SYNTAX, 9)           /* two values are left */
        CASE("\x80\2K\1}b.", FLX_E_SYNTAX, 5)              /* attributes of a number */
        CASE("\x80\2}r\xff\xff\xff\xff.", FLX_E_SYNTAX, 3) /* stored far away */
        CASE("\x80\2h\0.", FLX_E_SYNTAX, 2)                /* never stored */
        CASE("\x80\2X\xff\xff\xff\x7f"
             "a",
             FLX_E_SYNTAX, 2) /* longer than the file */
        CASE("\x80\2\x8a\x9"
             "123456789.",
             FLX_E_SYNTAX, 2) /* an integer of 9 bytes */
        CASE("\x80\2" TENSOR STORAGE "K\0K\4\x85K\1\x85\x89}tR.", FLX_OK, 99)
            CASE("\x80\2" TENSOR STORAGE "K\1K\4\x85K\1\x85\x89}tR.", FLX_E_SYNTAX, 98) /* past the end */
        CASE("\x80\2" TENSOR STORAGE "K\0K\5\x85K\0\x85\x89}tR.", FLX_E_SYNTAX, 98)     /* more elements */
        CASE("\x80\2" TENSOR STORAGE "K\0K\2\x85K\4\x85\x89}tR.", FLX_E_SYNTAX, 98)     /* a stride too long */
        CASE("\x80\2" TENSOR STORAGE "K\0J\xff\xff\xff\xff\x85K\1\x85\x89}tR.", FLX_E_SYNTAX, 101)
            CASE("\x80\2" TENSOR "K\0K\0K\4\x85K\1\x85\x89}tR.", FLX_E_SYNTAX, 49) /* not of a storage */
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_error err = {0};
        size_t offset = 0;
        flx_code code = read_pickle(cases[i].bytes, cases[i].size, &offset, &err);
        test_count_case();
        EXPECT_MSG(code == cases[i].code, "case %zu: %s %s", i, flx_code_name(code), err.message);
        EXPECT_MSG(offset == cases[i].offset, "case %zu: offset %zu, not %zu", i, offset, cases[i].offset);
    }
}

static flx_tensor *decode_weights(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    return flx_weights_decode(ctx, bytes, size, "tensor", err);
}

static size_t read_corpus(const char *name, unsigned char *out, size_t room)
{
    FILE *f = fopen(corpus(name), "rb");
    CHECK(f);
    size_t n = fread(out, 1, room, f);
    fclose(f);
    return n;
}

TEST(weights_of_pytorch_withstand_lack_of_memory)
{
    static unsigned char bytes[8192];
    damage_allocations(decode_weights, bytes, read_corpus("one.pt", bytes, sizeof bytes));
}

/* ---- Files in parts ---- */

static const char *in_temp(const char *name)
{
    static char path[2][600];
    static int k;
    k = !k;
    snprintf(path[k], sizeof path[k], "%s/%s", test_temp_dir(), name);
    return path[k];
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void write_part(flx_context *ctx, const char *name, const char *key, float value)
{
    flx_error err = {0};
    flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){1});
    flx_tensor *t = flx_tensor_new(ctx, &type, &value, &err);
    CHECK_OK(flx_safetensors_write(in_temp(name), &key, (const flx_tensor *const[]){t}, 1, &err), &err);
    flx_tensor_release(t);
}

TEST(weights_in_parts_are_found_by_their_index)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    write_part(ctx, "p1.safetensors", "a", 1);
    write_part(ctx, "p2.safetensors", "b", 2);
    const char *path = in_temp("w.safetensors.index.json");
    write_text(path, "\n{\"metadata\": {\"x\": [1]}, \"weight_map\": {\"a\": \"p1.safetensors\", \"b\": "
                     "\"p2.safetensors\", \"c\": \"p2.safetensors\", \"d\": \"p3.safetensors\"}}");
    check_values(ctx, path, "a", FLX_F32, "1", "1");
    check_values(ctx, path, "b", FLX_F32, "1", "2");
    flx_keys *keys = flx_keys_read(ctx, path, &err);
    CHECK(flx_keys_count(keys) == 4 && strcmp(flx_keys_at(keys, 1), "b") == 0);
    flx_keys_free(keys);
    CHECK(!flx_weights_read(ctx, path, "c", &err) && err.code == FLX_E_SYNTAX); /* p2 does not have it */
    CHECK(!flx_weights_read(ctx, path, "d", &err) && err.code == FLX_E_IO);
    CHECK(!flx_weights_read(ctx, path, "e", &err) && err.code == FLX_E_NAME);
    flx_context_free(ctx);
}

TEST(weights_in_parts_stay_in_their_folder)
{
    static const char *const bad[] = {"/etc/passwd", "../p1.safetensors", "x/../../p1", "..", ".", "", "p\\u0000"};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[200];
        const char *path = in_temp("bad.safetensors.index.json");
        snprintf(text, sizeof text, "{\"weight_map\": {\"a\": \"%s\"}}", bad[i]);
        write_text(path, text);
        CHECK_MSG(!flx_weights_read(ctx, path, "a", &err) && err.code == FLX_E_SYNTAX, "%s: %s", bad[i], err.message);
        check_place(&err, path);
    }
    flx_context_free(ctx);
}
