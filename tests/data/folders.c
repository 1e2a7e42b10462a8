/* SPDX-License-Identifier: Apache-2.0 */
/* folders.c: folders with one class in each sub-folder. */
#include "test.h"
#include "test_folder.h"

#include "fault.h"
#include "format/endian.h"

#include <fluxion/data.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void add_class(const char *name)
{
    CHECK(mkdir(test_folder_path(name), 0777) == 0);
}

static void add_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(test_folder_path(name), "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n);
    fclose(f);
}

static void add_text(const char *name, const char *text)
{
    add_file(name, text, strlen(text));
}

static void add_sound(const char *name, size_t samples)
{
    unsigned char bytes[200] = "RIFF\0\0\0\0WAVEfmt \20\0\0\0\1\0\1\0\100\37\0\0\200\76\0\0\2\0\20\0data";
    flxi_put32(bytes + 40, (uint32_t)(2 * samples));
    for (size_t i = 0; i < samples; i++)
        flxi_put16(bytes + 44 + 2 * i, (uint32_t)(i + 1) << 8);
    add_file(name, bytes, 44 + 2 * samples);
}

TEST(folder_of_images_has_classes_in_order)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    test_folder_begin("images");
    add_class("dog");
    add_class("cat");
    add_class(".hidden");
    add_class("empty");
    add_text("cat/b.pgm", "P2 2 1 255 20 21");
    add_text("cat/a.pgm", "P2 2 1 255 10 11");
    add_text("cat/notes.txt", "not an image");
    add_text("cat/.c.pgm", "hidden");
    add_text("dog/z.pnm", "P2 2 1 255 255 0");
    add_text("readme.pgm", "not in a class");
    flx_dataset *d = flx_folder_read(ctx, test_folder, NULL, &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_rows(d) == 3 && flx_dataset_classes(d) == 3);
    CHECK_EQ_STR(flx_dataset_class(d, 0), "cat");
    CHECK_EQ_STR(flx_dataset_class(d, 1), "dog");
    CHECK_EQ_STR(flx_dataset_class(d, 2), "empty");
    flx_tensor *x = flx_dataset_gather(d, "x", (int64_t[]){0, 1, 2}, 3, &err);
    flx_tensor *y = flx_dataset_gather(d, "label", (int64_t[]){0, 1, 2}, 3, &err);
    static const double pixels[] = {10, 11, 20, 21, 255, 0};
    CHECK(x && flx_tensor_type(x)->dtype == FLX_F32 && flx_tensor_type(x)->rank == 4);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR(flx_tensor_get(x, i), pixels[i] / 255, 1e-7);
    CHECK(memcmp(flx_tensor_const_data(y), (int32_t[]){0, 0, 1}, 12) == 0);
    flx_tensor_release(x);
    flx_tensor_release(y);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(folder_converts_channels_and_lengths)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    test_folder_begin("mixed");
    add_class("a");
    add_text("a/1.pgm", "P2 1 1 255 100");
    add_text("a/2.ppm", "P3 1 1 255 255 0 100");
    CHECK(!flx_folder_read(ctx, test_folder, NULL, &err) && err.code == FLX_E_SHAPE);
    CHECK_EQ_STR(err.where, test_folder_path("a/2.ppm"));
    CHECK_MSG(strstr(err.message, "the file is u8[3, 1, 1], but ") && strstr(err.message, "is u8[1, 1, 1]"), "%s",
              err.message);
    static const double grey[] = {100, 88}, rgb[] = {100, 100, 100, 255, 0, 100};
    for (int32_t channels = 1; channels <= 3; channels += 2) {
        const flx_folder_options o = {.struct_size = sizeof o, .channels = channels};
        flx_dataset *d = flx_folder_read(ctx, test_folder, &o, &err);
        CHECK_MADE(d, &err);
        flx_tensor *x = flx_dataset_gather(d, "x", (int64_t[]){0, 1}, 2, &err);
        for (int i = 0; i < 2 * channels; i++)
            CHECK_NEAR(flx_tensor_get(x, i) * 255, (channels == 1 ? grey : rgb)[i], 1e-4);
        flx_tensor_release(x);
        flx_dataset_free(d);
    }
    test_folder_begin("sounds");
    add_class("a");
    add_sound("a/1.wav", 3);
    add_sound("a/2.wav", 5);
    CHECK(!flx_folder_read(ctx, test_folder, NULL, &err) && err.code == FLX_E_SHAPE);
    CHECK_EQ_STR(err.hint, "give the number of samples, to which files are cut");
    const flx_folder_options o = {.struct_size = sizeof o, .samples = 4};
    flx_dataset *d = flx_folder_read(ctx, test_folder, &o, &err);
    CHECK_MADE(d, &err);
    flx_tensor *x = flx_dataset_gather(d, "x", (int64_t[]){0, 1}, 2, &err);
    static const double samples[] = {1, 2, 3, 0, 1, 2, 3, 4};
    for (int i = 0; i < 8; i++)
        CHECK_NEAR(flx_tensor_get(x, i) * 128, samples[i], 0);
    flx_tensor_release(x);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(folder_errors_name_the_file)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    CHECK(!flx_folder_read(ctx, test_missing_path("images"), NULL, &err) && err.code == FLX_E_IO);
    CHECK_EQ_STR(err.where, test_missing_path("images"));
    test_folder_begin("wrong");
    CHECK(!flx_folder_read(ctx, test_folder, NULL, &err) && err.code == FLX_E_IO);
    CHECK_EQ_STR(err.message, "the folder has no images and no sound");
    CHECK_EQ_STR(err.where, test_folder);
    add_class("a");
    add_text("a/1.pgm", "P2 1 1 255 100");
    add_text("a/2.pgm", "P2 1 1 255 x");
    CHECK(!flx_folder_read(ctx, test_folder, NULL, &err) && err.code == FLX_E_SYNTAX);
    CHECK_EQ_STR(err.where, test_folder_path("a/2.pgm"));
    CHECK(!flx_folder_read(ctx, test_folder, &(flx_folder_options){.channels = 2}, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_folder_read(ctx, test_folder, &(flx_folder_options){.samples = -1}, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_folder_read(NULL, test_folder, NULL, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_folder_read(ctx, NULL, NULL, &err) && err.code == FLX_E_USAGE);
    flx_context_free(ctx);
}

TEST(folder_survives_failing_allocations)
{
    test_folder_begin("faults");
    add_class("a");
    add_class("b");
    add_text("a/1.pgm", "P2 1 1 255 100");
    add_text("b/2.ppm", "P3 1 1 255 255 0 100");
    const flx_folder_options o = {.struct_size = sizeof o, .channels = 1};
    size_t calls = 1;
    for (size_t at = 0; at <= calls; at++) {
        fault f = {.fail_at = at};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_dataset *d = ctx ? flx_folder_read(ctx, test_folder, &o, &err) : NULL;
        CHECK(at ? !d && (!ctx || err.code == FLX_E_OOM) : d != NULL);
        flx_dataset_free(d);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        calls = at ? calls : f.calls;
    }
    CHECK(calls > 10);
}
