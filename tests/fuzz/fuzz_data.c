/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_data.c: the readers of data for training. The first byte of the input selects one: tables, images, PNG images
   whose checksums are corrected, sound, tokenisers, checkpoints, checkpoints whose checksum is corrected. What they
   return is used completely. */
#include "base/sha256.h"
#include "format/crc32.h"

#include <fluxion/checkpoint.h>
#include <fluxion/data.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TABLE, IMAGE, SEALED_PNG, SOUND, TOKENISER, CHECKPOINT, SEALED_CHECKPOINT, NUM_KINDS };

static volatile unsigned char data_sink; /* so that the bytes are really read */

static void data_need(int holds)
{
    if (!holds)
        abort();
}

static void need_error(const void *object, const flx_error *err)
{
    data_need(object || (err->code != FLX_OK && err->code != FLX_E_INTERNAL && err->message[0]));
}

static void use_values(flx_tensor *t)
{
    const unsigned char *bytes = flx_tensor_const_data(t);
    unsigned char sum = 0;
    for (size_t i = 0; i < flx_tensor_nbytes(t); i++)
        sum ^= bytes[i];
    data_sink = sum;
    flx_tensor_release(t);
}

/* ---- Tables ---- */

/* Batches of all rows, in random order. */
static void use_dataset(flx_dataset *d)
{
    const flx_loader_options o = {.struct_size = sizeof o, .flags = FLX_LOADER_SHUFFLE, .batch = 3, .epochs = 1};
    flx_error err = {0};
    flx_loader *l = flx_loader_new(d, &o, &err);
    need_error(l, &err);
    const flx_feed *feeds = NULL;
    size_t n;
    int64_t rows = 0;
    do {
        data_need(!l || flx_loader_next(l, &feeds, &n, &err) == FLX_OK);
        rows += feeds ? flx_tensor_type(feeds[0].value)->dims[0] : 0;
    } while (feeds);
    data_need(!l || rows == flx_dataset_rows(d));
    flx_loader_free(l);
}

/* The byte that selects the reader selects its options too. */
static int read_table(flx_context *ctx, unsigned options, const uint8_t *data, size_t size)
{
    flx_error err = {0};
    const flx_csv_options o = {.struct_size = sizeof o,
                               .flags = options & 1 ? FLX_CSV_NO_HEADER : 0,
                               .label = options & 2 ? options & 1 ? "c1" : "k" : NULL,
                               .features = options & 4 ? "x" : NULL};
    flx_dataset *d = flx_csv_decode(ctx, data, size, &o, &err);
    need_error(d, &err);
    if (d)
        use_dataset(d);
    flx_dataset_free(d);
    return d != NULL;
}

/* ---- Images ---- */

static void correct_chunks(uint8_t *png, size_t size)
{
    for (size_t at = 8; size >= 12 && at <= size - 12;) {
        size_t n = (size_t)png[at] << 24 | (size_t)png[at + 1] << 16 | (size_t)png[at + 2] << 8 | png[at + 3];
        if (n > size - at - 12)
            return;
        flxi_crc32 crc;
        flxi_crc32_begin(&crc);
        flxi_crc32_add(&crc, png + at + 4, n + 4);
        uint32_t sum = flxi_crc32_end(&crc);
        for (size_t i = 0; i < 4; i++)
            png[at + 8 + n + i] = (uint8_t)(sum >> (24 - 8 * i));
        at += n + 12;
    }
}

/* A copy of the bytes whose checksums are corrected, or not. */
static uint8_t *sealed(const uint8_t *data, size_t size, void (*seal)(uint8_t *copy, size_t size))
{
    uint8_t *copy = malloc(size ? size : 1);
    data_need(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    if (seal)
        seal(copy, size);
    return copy;
}

static int read_picture(flx_context *ctx, int is_sealed, const uint8_t *data, size_t size)
{
    flx_error err = {0};
    uint8_t *copy = sealed(data, size, is_sealed ? correct_chunks : NULL);
    flx_tensor *t = flx_image_decode(ctx, copy, size, &err);
    need_error(t, &err);
    if (t)
        use_values(t);
    free(copy);
    return t != NULL;
}

/* ---- Tokenisers ---- */

static void check_round_trip(const flx_tokeniser *t, const uint8_t *text, size_t size)
{
    flx_error err = {0};
    flx_buffer back = {0};
    flx_tensor *tokens = flx_tokeniser_encode(t, (const char *)text, size, &err);
    data_need(tokens != NULL);
    data_need(flx_tokeniser_decode(t, flx_tensor_const_data(tokens), (size_t)flx_tensor_count(tokens), &back, &err) ==
              FLX_OK);
    data_need(back.size == size && (size == 0 || memcmp(back.data, text, size) == 0));
    flx_buffer_free(&back);
    flx_tensor_release(tokens);
}

/* The input as a file and as a text to learn from. */
static int read_tokeniser(flx_context *ctx, const uint8_t *data, size_t size)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_tokeniser *t = flx_tokeniser_parse(ctx, (const char *)data, size, &err);
    int is_file = t != NULL;
    need_error(t, &err);
    if (t) {
        check_round_trip(t, data, size);
        data_need(flx_tokeniser_print(t, &text, &err) == FLX_OK);
        flx_tokeniser *again = flx_tokeniser_parse(ctx, text.data, text.size, &err);
        data_need(again && flx_tokeniser_size(again) == flx_tokeniser_size(t));
        flx_tokeniser_free(again);
        flx_buffer_free(&text);
        flx_tokeniser_free(t);
    }
    t = flx_tokeniser_train(ctx, (const char *)data, size, 300, &err);
    data_need(t != NULL);
    check_round_trip(t, data, size);
    flx_tokeniser_free(t);
    return is_file;
}

/* ---- Checkpoints ---- */

/* Writes the checksum that the file would have, where one seems to be. */
static void correct_checksum(uint8_t *file, size_t size)
{
    static const char key[] = "\"fluxion.sha256\":\"";
    uint8_t *at = memmem(file, size, key, sizeof key - 1);
    if (!at || (size_t)(file + size - at) < sizeof key - 1 + 64)
        return;
    unsigned char digest[FLXI_SHA256_BYTES];
    char text[FLXI_SHA256_TEXT];
    at += sizeof key - 1;
    memset(at, '0', 64);
    flxi_sha256_of(file, size, digest);
    flxi_sha256_text(digest, text);
    memcpy(at, text, 64);
}

static int read_checkpoint(flx_context *ctx, int is_sealed, const uint8_t *data, size_t size)
{
    flx_error err = {0};
    uint8_t *copy = sealed(data, size, is_sealed ? correct_checksum : NULL);
    flx_checkpoint *c = flx_checkpoint_decode(ctx, copy, size, &err);
    free(copy);
    need_error(c, &err);
    for (size_t i = 0; i < flx_checkpoint_tensors(c); i++) {
        flx_tensor *t = flx_checkpoint_tensor(c, flx_checkpoint_name(c, i), &err);
        data_need(t != NULL);
        use_values(flx_tensor_retain(t));
    }
    for (size_t i = 0; i < flx_checkpoint_texts(c); i++)
        data_need(flx_checkpoint_text(c, flx_checkpoint_key(c, i)) != NULL);
    flx_checkpoint_free(c);
    return c != NULL;
}

static int read_sound(flx_context *ctx, const uint8_t *data, size_t size)
{
    flx_error err = {0};
    int64_t rate;
    flx_tensor *t = flx_wav_decode(ctx, data, size, &rate, &err);
    need_error(t, &err);
    if (t)
        use_values(t);
    return t != NULL;
}

/* Whether the input was accepted. */
static int read_data(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    flx_context *ctx = flx_context_new(&(flx_context_options){.memory_limit = 64 << 20});
    int is_accepted = 0, kind = data[0] % NUM_KINDS;
    switch (kind) {
    case TABLE: is_accepted = read_table(ctx, data[0] / NUM_KINDS, data + 1, size - 1); break;
    case IMAGE:
    case SEALED_PNG: is_accepted = read_picture(ctx, kind == SEALED_PNG, data + 1, size - 1); break;
    case SOUND: is_accepted = read_sound(ctx, data + 1, size - 1); break;
    case TOKENISER: is_accepted = read_tokeniser(ctx, data + 1, size - 1); break;
    default: is_accepted = read_checkpoint(ctx, kind == SEALED_CHECKPOINT, data + 1, size - 1); break;
    }
    flx_context_free(ctx);
    return is_accepted;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)read_data(data, size);
    return 0;
}
