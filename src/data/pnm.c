/* SPDX-License-Identifier: Apache-2.0 */
/* pnm.c: images of the netpbm family: PGM (P2 as text, P5 binary) and PPM (P3, P6). The header has width, height and
   the largest value as text, with comments from # to the end of the line. A value is a number with blanks, or one byte,
   or with a maximum above 255 two bytes with the high one first. */
#include "data/image.h"

#include "base/context.h"
#include "base/error.h"
#include "graph/type/tensor.h"

typedef struct {
    const unsigned char *p;
    size_t n, at;
    int kind; /* the digit after P */
    uint32_t width, height, most;
} image;

static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= 9 && c <= 13);
}

static void skip_blanks(image *m)
{
    while (m->at < m->n && (is_blank(m->p[m->at]) || m->p[m->at] == '#')) {
        if (m->p[m->at] == '#')
            while (m->at < m->n && m->p[m->at] != '\n')
                m->at++;
        else
            m->at++;
    }
}

/* A decimal number up to `most`, after blanks. */
static flx_code read_number(image *m, uint32_t most, const char *what, uint32_t *out, flx_error *err)
{
    skip_blanks(m);
    size_t first = m->at;
    uint64_t v = 0;
    while (m->at < m->n && m->p[m->at] >= '0' && m->p[m->at] <= '9' && v <= most)
        v = 10 * v + (m->p[m->at++] - '0');
    if (m->at == first)
        return flxi_fail(err, FLX_E_SYNTAX, "the image %s at byte %zu, expected %s",
                         m->at == m->n ? "ends" : "has something else", m->at, what);
    if (v > most)
        return flxi_fail(err, FLX_E_SYNTAX, "%s of the image at byte %zu is larger than %u", what, first,
                         (unsigned)most);
    *out = (uint32_t)v;
    return FLX_OK;
}

static flx_code read_header(image *m, flx_error *err)
{
    if (m->n < 3 || m->p[0] != 'P' || m->p[1] < '1' || m->p[1] > '6' || !(is_blank(m->p[2]) || m->p[2] == '#'))
        return flxi_fail(err, FLX_E_SYNTAX, "not an image: neither PNG nor PGM nor PPM");
    m->kind = m->p[1] - '0';
    m->at = 2;
    if (m->kind == 1 || m->kind == 4)
        return flxi_fail_hint(err, FLX_E_UNSUPPORTED, "convert it to PGM", "bitmaps (P%d) are not supported", m->kind);
    FLXI_TRY(read_number(m, INT32_MAX, "the width", &m->width, err));
    FLXI_TRY(read_number(m, INT32_MAX, "the height", &m->height, err));
    FLXI_TRY(read_number(m, 65535, "the largest value", &m->most, err));
    if (m->width == 0 || m->height == 0 || m->most == 0)
        return flxi_fail(err, FLX_E_SYNTAX, "the image has width %u, height %u and largest value %u",
                         (unsigned)m->width, (unsigned)m->height, (unsigned)m->most);
    if (m->at == m->n || !is_blank(m->p[m->at]))
        return flxi_fail(err, FLX_E_SYNTAX, "the image has no blank after its header");
    m->at++;
    return FLX_OK;
}

static bool is_text(const image *m)
{
    return m->kind < 4;
}

/* The file is long enough for its pixels: as text a value takes two bytes, but the last one. */
static flx_code check_size(const image *m, uint32_t channels, flx_error *err)
{
    uint64_t count = (uint64_t)m->width * m->height; /* below 2^62 */
    uint64_t width = is_text(m) || m->most > 255 ? 2 : 1;
    uint64_t left = (uint64_t)(m->n - m->at) + is_text(m);
    if (left / (channels * width) < count)
        return flxi_fail(err, FLX_E_SYNTAX, "the image is %u by %u, but the file ends after %zu bytes",
                         (unsigned)m->width, (unsigned)m->height, m->n);
    return FLX_OK;
}

static flx_code next_value(image *m, uint32_t *out, flx_error *err)
{
    if (is_text(m))
        return read_number(m, m->most, "a value", out, err);
    *out = m->p[m->at++];
    if (m->most > 255)
        *out = *out << 8 | m->p[m->at++];
    if (*out > m->most)
        return flxi_fail(err, FLX_E_SYNTAX, "a value of the image is %u, but the largest is %u", (unsigned)*out,
                         (unsigned)m->most);
    return FLX_OK;
}

static flx_code fill(image *m, uint32_t channels, flx_tensor *t, flx_error *err)
{
    size_t area = (size_t)m->width * m->height;
    bool is_wide = t->type.dtype == FLX_U16;
    uint32_t full = is_wide ? 65535 : 255;
    for (size_t i = 0; i < area; i++)
        for (uint32_t c = 0; c < channels; c++) {
            uint32_t v;
            FLXI_TRY(next_value(m, &v, err));
            v = (v * full + m->most / 2) / m->most; /* below 2^32: 65535 * 65535 + 32767 */
            if (is_wide)
                ((uint16_t *)t->data)[c * area + i] = (uint16_t)v;
            else
                ((uint8_t *)t->data)[c * area + i] = (uint8_t)v;
        }
    return FLX_OK;
}

flx_tensor *flxi_pnm_decode(flx_context *ctx, const unsigned char *p, size_t n, flx_error *err)
{
    image m = {.p = p, .n = n};
    if (read_header(&m, err) != FLX_OK)
        return NULL;
    uint32_t channels = m.kind == 3 || m.kind == 6 ? 3 : 1;
    if (check_size(&m, channels, err) != FLX_OK)
        return NULL;
    const flx_type type = flx_type_make(m.most > 255 ? FLX_U16 : FLX_U8, 3, (flx_dim[]){channels, m.height, m.width});
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, err);
    if (t && fill(&m, channels, t, err) != FLX_OK) {
        flx_tensor_release(t);
        return NULL;
    }
    return t;
}
