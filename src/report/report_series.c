/* SPDX-License-Identifier: Apache-2.0 */
/* report_series.c: the curves of a report as CSV and as an event file of TensorBoard.

   An event file is a list of records (TFRecord): the length of the data as 8 bytes, its checksum, the data, and the
   checksum of that, lowest byte first. Checksums are CRC-32C, masked: rotated right by 15 bits, plus 0xa282ead8. The
   data is a protocol buffer of the message Event (wall_time = 1, step = 2, file_version = 3, summary = 5) with a
   Summary (value = 1) of one Value (tag = 1, simple_value = 2). */
#include "base/half.h"
#include "format/endian.h"
#include "report/report_data.h"
#include "report/report_text.h"

#include "base/number.h"

/* ---- CSV (RFC 4180) ---- */

static void add_csv_text(flxi_strbuf *out, const char *s)
{
    if (!s[strcspn(s, ",\"\r\n")]) {
        flxi_add_text(out, s);
        return;
    }
    flxi_add_char(out, '"');
    for (; *s; s++) {
        flxi_add_char(out, *s);
        if (*s == '"')
            flxi_add_char(out, '"');
    }
    flxi_add_char(out, '"');
}

static void add_real(flxi_strbuf *out, double x)
{
    char text[FLXI_NUMBER_MAX];
    flxi_write_double(text, x, 53);
    flxi_add_text(out, text);
}

void flxi_report_write_csv(const flx_report *r, flxi_strbuf *out)
{
    flxi_add_text(out, "series,step,time,value\r\n");
    for (size_t i = 0; i < r->series.n; i++) {
        const flxi_report_series *s = &r->series.at[i];
        for (size_t k = 0; k < s->points.n; k++) {
            add_csv_text(out, s->name);
            flxi_addf(out, ",%lld,", (long long)s->points.at[k].step);
            add_real(out, s->points.at[k].time);
            flxi_add_char(out, ',');
            add_real(out, s->points.at[k].value);
            flxi_add_text(out, "\r\n");
        }
    }
}

/* ---- TensorBoard ---- */

/* CRC-32C (Castagnoli, reflected), four bits at a time. */
static uint32_t crc32c(const void *data, size_t n)
{
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const unsigned char *p = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        crc = table[crc & 15] ^ crc >> 4;
        crc = table[crc & 15] ^ crc >> 4;
    }
    return ~crc;
}

static void add_masked_crc(flxi_strbuf *out, const void *data, size_t n)
{
    uint32_t crc = crc32c(data, n);
    unsigned char bytes[4];
    flxi_put32(bytes, (crc >> 15 | crc << 17) + 0xa282ead8u);
    flxi_add_bytes(out, bytes, 4);
}

static void add_record(flxi_strbuf *out, const flxi_strbuf *data)
{
    unsigned char length[8];
    out->failed |= data->failed;
    if (out->failed)
        return;
    flxi_put64(length, data->n);
    flxi_add_bytes(out, length, 8);
    add_masked_crc(out, length, 8);
    flxi_add_bytes(out, data->at, data->n);
    add_masked_crc(out, data->at, data->n);
}

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void add_varint(flxi_strbuf *out, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        flxi_add_char(out, (char)(v | 128));
    flxi_add_char(out, (char)v);
}

static void add_key(flxi_strbuf *out, unsigned field, unsigned wire)
{
    add_varint(out, field << 3 | wire);
}

static void add_double(flxi_strbuf *out, unsigned field, double x)
{
    unsigned char bytes[8];
    flxi_put64(bytes, flxi_f64_bits(x));
    add_key(out, field, WIRE_64);
    flxi_add_bytes(out, bytes, 8);
}

static void add_float(flxi_strbuf *out, unsigned field, float x)
{
    unsigned char bytes[4];
    flxi_put32(bytes, flxi_f32_bits(x));
    add_key(out, field, WIRE_32);
    flxi_add_bytes(out, bytes, 4);
}

static void add_field(flxi_strbuf *out, unsigned field, const void *data, size_t n)
{
    add_key(out, field, WIRE_BYTES);
    add_varint(out, n);
    flxi_add_bytes(out, data, n);
}

static void add_point(flxi_strbuf *out, const char *name, const flxi_report_point *p, flxi_strbuf room[3])
{
    flxi_strbuf *value = &room[0], *summary = &room[1], *event = &room[2];
    value->n = summary->n = event->n = 0;
    add_field(value, 1, name, strlen(name));
    add_float(value, 2, (float)p->value);
    out->failed |= value->failed;
    if (!value->failed)
        add_field(summary, 1, value->at, value->n);
    add_double(event, 1, p->time);
    if (p->step) { /* a field that is zero is left out */
        add_key(event, 2, WIRE_VARINT);
        add_varint(event, (uint64_t)p->step);
    }
    out->failed |= summary->failed;
    if (!out->failed)
        add_field(event, 5, summary->at, summary->n);
    add_record(out, event);
}

void flxi_report_write_events(const flx_report *r, flxi_strbuf *out)
{
    static const char version[] = "brain.Event:2";
    flxi_strbuf room[3];
    for (int i = 0; i < 3; i++)
        flxi_strbuf_init(&room[i], r->mem);
    double first = 0;
    for (size_t i = 0; i < r->series.n; i++)
        if (r->series.at[i].points.n && (first == 0 || r->series.at[i].points.at[0].time < first))
            first = r->series.at[i].points.at[0].time;
    add_double(&room[2], 1, first);
    add_field(&room[2], 3, version, sizeof version - 1);
    add_record(out, &room[2]);
    for (size_t i = 0; i < r->series.n; i++)
        for (size_t k = 0; k < r->series.at[i].points.n; k++)
            add_point(out, r->series.at[i].name, &r->series.at[i].points.at[k], room);
    for (int i = 0; i < 3; i++)
        flxi_strbuf_free(&room[i]);
}
