/* SPDX-License-Identifier: Apache-2.0 */
/* wav.c: sound in RIFF WAVE files: chunks of which `fmt ` says how samples are stored and `data` has them, the channels
   of one instant next to each other. Integers become floats by an exact division by a power of two. */
#include "base/context.h"
#include "base/error.h"
#include "format/endian.h"
#include "format/file.h"
#include "graph/type/tensor.h"

#include <fluxion/data.h>
#include <math.h>

enum { PCM = 1, FLOATS = 3, EXTENSIBLE = 0xfffe };

typedef struct {
    uint32_t format, channels, rate, bits;
    const unsigned char *data; /* NULL: not found yet */
    size_t size;
} wave;

static flx_code read_format(wave *w, const unsigned char *p, size_t n, flx_error *err)
{
    if (n < 16)
        return flxi_fail(err, FLX_E_SYNTAX, "the WAV file has a format of only %zu bytes", n);
    w->format = flxi_get16(p);
    w->channels = flxi_get16(p + 2);
    w->rate = flxi_get32(p + 4);
    uint32_t frame = flxi_get16(p + 12);
    w->bits = flxi_get16(p + 14);
    if (w->format == EXTENSIBLE && n >= 26)
        w->format = flxi_get16(p + 24); /* the real one */
    bool is_known = (w->format == PCM && (w->bits == 8 || w->bits == 16 || w->bits == 24 || w->bits == 32)) ||
                    (w->format == FLOATS && w->bits == 32);
    if (!is_known)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "convert it to PCM with 16 bits",
                              "WAV format %u with %u bits is not supported", (unsigned)w->format, (unsigned)w->bits);
    if (w->channels == 0 || frame != w->channels * (w->bits / 8))
        return flxi_fail(err, FLX_E_SYNTAX, "the WAV file has %u channels of %u bits in frames of %u bytes",
                         (unsigned)w->channels, (unsigned)w->bits, (unsigned)frame);
    return FLX_OK;
}

/* Finds the chunks; others than these two are skipped. An odd chunk is followed by a byte of padding. */
static flx_code read_chunks(wave *w, const unsigned char *p, size_t n, flx_error *err)
{
    if (n < 12 || memcmp(p, "RIFF", 4) != 0 || memcmp(p + 8, "WAVE", 4) != 0)
        return flxi_fail(err, FLX_E_SYNTAX, "not a WAV file: it does not begin with RIFF and WAVE");
    for (size_t at = 12; n - at >= 8 && !w->data;) {
        size_t size = flxi_get32(p + at + 4);
        const unsigned char *content = p + at + 8;
        if (size > n - at - 8)
            return flxi_fail(err, FLX_E_SYNTAX, "the WAV file ends inside of a chunk of %zu bytes", size);
        if (memcmp(p + at, "fmt ", 4) == 0)
            FLXI_TRY(read_format(w, content, size, err));
        if (memcmp(p + at, "data", 4) == 0) {
            w->data = content;
            w->size = size;
        }
        at += 8 + size;
        at += size % 2 && at < n;
    }
    if (w->channels == 0 || !w->data)
        return flxi_fail(err, FLX_E_SYNTAX, "the WAV file has no %s", w->channels ? "data" : "format before its data");
    if (w->size % (w->channels * (w->bits / 8)))
        return flxi_fail(err, FLX_E_SYNTAX, "the WAV file ends inside of a sample");
    return FLX_OK;
}

static float sample_at(const wave *w, const unsigned char *p)
{
    float x;
    uint32_t bits = flxi_get16(p);
    switch (w->bits) {
    case 16: return (float)(int16_t)(uint16_t)bits / 32768.0f;
    case 24: return (float)((int32_t)((bits | (uint32_t)p[2] << 16) << 8) / 256) / 8388608.0f;
    default: break;
    }
    bits = flxi_get32(p);
    if (w->format == PCM)
        return (float)(int32_t)bits / 2147483648.0f;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static flx_code fill(const wave *w, int64_t frames, float *out, flx_error *err)
{
    size_t width = w->bits / 8, step = w->channels * width;
    for (uint32_t c = 0; c < w->channels; c++)
        for (int64_t i = 0; i < frames; i++) {
            const unsigned char *p = w->data + (size_t)i * step + c * width;
            float x = width == 1 ? ((float)*p - 128.0f) / 128.0f : sample_at(w, p);
            if (!isfinite(x))
                return flxi_fail(err, FLX_E_NUMERIC, "sample %lld of the WAV file is not finite", (long long)i);
            *out++ = x;
        }
    return FLX_OK;
}

flx_tensor *flx_wav_decode(flx_context *ctx, const void *bytes, size_t size, int64_t *rate, flx_error *err)
{
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_wav_decode: context and bytes must not be NULL");
        return NULL;
    }
    wave w = {0};
    if (read_chunks(&w, size ? bytes : (const void *)"", size, err) != FLX_OK)
        return NULL;
    int64_t frames = (int64_t)(w.size / (w.channels * (w.bits / 8)));
    const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){w.channels, frames});
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, err);
    if (t && fill(&w, frames, t->data, err) != FLX_OK) {
        flx_tensor_release(t);
        return NULL;
    }
    if (t && rate)
        *rate = w.rate;
    return t;
}

flx_tensor *flx_wav_read(flx_context *ctx, const char *path, int64_t *rate, flx_error *err)
{
    flxi_file_bytes file;
    flx_tensor *t = NULL;
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "flx_wav_read: context and path must not be NULL");
        return NULL;
    }
    if (flxi_file_read(&file, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        t = flx_wav_decode(ctx, file.bytes, file.size, rate, err);
        flxi_file_free(&file);
    }
    if (!t)
        flxi_at(err, "%s", path);
    return t;
}
