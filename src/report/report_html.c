/* SPDX-License-Identifier: Apache-2.0 */
/* report_html.c: a report as one page. The page has the style and the script of src/report/page/, and the data as JSON
   in a script element that is not executed. Its content security policy names the two by their hashes: nothing else
   runs, and nothing is fetched. */
#include "base/sha256.h"
#include "report/page_files.h"
#include "report/report_data.h"
#include "report/report_text.h"

enum { MAX_POINTS = 6000 }; /* of a curve; others are left out, but no peak */

static void add_hash(flxi_strbuf *out, const void *data, size_t n)
{
    unsigned char digest[FLXI_SHA256_BYTES];
    flxi_sha256_of(data, n, digest);
    flxi_add_text(out, "'sha256-");
    flxi_add_base64(out, digest, sizeof digest);
    flxi_add_text(out, "'");
}

static void add_head(const flx_report *r, flxi_strbuf *out)
{
    flxi_add_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
                       "form-action 'none'; style-src ");
    add_hash(out, flxi_page_style, flxi_page_style_size);
    flxi_add_text(out, "; script-src ");
    add_hash(out, flxi_page_script, flxi_page_script_size);
    flxi_add_text(out, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=\"generator\" content=\"Fluxion " FLX_VERSION "\">\n<title>");
    flxi_add_xml(out, r->title);
    flxi_add_text(out, "</title>\n<style>");
    flxi_add_bytes(out, flxi_page_style, flxi_page_style_size);
    flxi_add_text(out, "</style>\n</head>\n<body>\n<main id=\"page\">\n<h1>");
    flxi_add_xml(out, r->title);
    flxi_add_text(out, "</h1>\n<noscript><p>The curves and graphs of this report need JavaScript. Nothing is "
                       "loaded from a network.</p></noscript>\n</main>\n");
}

/* ---- Curves ---- */

static void add_points(flxi_strbuf *out, const flxi_report_series *s, const size_t *kept, size_t n, double start)
{
    flxi_add_text(out, ",\"steps\":[");
    for (size_t i = 0; i < n; i++)
        flxi_addf(out, "%s%lld", i ? "," : "", (long long)s->points.at[kept[i]].step);
    flxi_add_text(out, "],\"values\":[");
    for (size_t i = 0; i < n; i++) {
        flxi_add_text(out, i ? "," : "");
        flxi_json_number(out, s->points.at[kept[i]].value);
    }
    flxi_add_text(out, "],\"times\":[");
    for (size_t i = 0; i < n; i++) {
        flxi_add_text(out, i ? "," : "");
        flxi_add_fixed(out, s->points.at[kept[i]].time - start, 2);
    }
    flxi_add_char(out, ']');
}

/* Of each stretch of the curve the lowest and the highest point are kept, and the first and last of all. */
static size_t choose_points(const flxi_report_series *s, size_t *kept)
{
    size_t n = s->points.n, stretches = MAX_POINTS / 2 - 1, count = 0;
    if (n <= MAX_POINTS) {
        for (size_t i = 0; i < n; i++)
            kept[i] = i;
        return n;
    }
    kept[count++] = 0;
    for (size_t k = 0; k < stretches; k++) {
        size_t from = 1 + (n - 2) * k / stretches, to = 1 + (n - 2) * (k + 1) / stretches, low = from, high = from;
        for (size_t i = from; i < to; i++) {
            low = s->points.at[i].value < s->points.at[low].value ? i : low;
            high = s->points.at[i].value > s->points.at[high].value ? i : high;
        }
        kept[count++] = low < high ? low : high;
        if (low != high)
            kept[count++] = low < high ? high : low;
    }
    kept[count++] = n - 1;
    return count;
}

static void add_series(const flx_report *r, flxi_strbuf *out)
{
    size_t *kept = flxi_alloc(r->mem, MAX_POINTS, sizeof *kept);
    double start = 0;
    out->failed |= !kept;
    for (size_t i = 0; i < r->series.n; i++)
        if (r->series.at[i].points.n && (start == 0 || r->series.at[i].points.at[0].time < start))
            start = r->series.at[i].points.at[0].time;
    flxi_add_text(out, ",\n\"series\":[");
    for (size_t i = 0; kept && i < r->series.n; i++) {
        const flxi_report_series *s = &r->series.at[i];
        flxi_add_text(out, i ? ",\n{\"name\":" : "\n{\"name\":");
        flxi_json_string(out, s->name);
        flxi_addf(out, ",\"count\":%zu", s->points.n);
        add_points(out, s, kept, choose_points(s, kept), start);
        flxi_add_char(out, '}');
    }
    flxi_add_char(out, ']');
    if (kept)
        flxi_free(r->mem, kept, MAX_POINTS, sizeof *kept);
}

/* ---- The page ---- */

static void add_data(const flx_report *r, flxi_strbuf *out)
{
    static const char *const keys[FLXI_REPORT_LISTS] = {"texts", "images", "tables", "matrices", "graphs"};
    flxi_add_text(out, "{\"title\":");
    flxi_json_string(out, r->title);
    flxi_add_text(out, ",\"about\":");
    flxi_json_string(out, r->about);
    flxi_add_text(out, ",\n\"facts\":[");
    for (size_t i = 0; i < r->facts.n; i++) {
        flxi_add_text(out, i ? ",[" : "[");
        flxi_json_string(out, r->facts.at[i].name);
        flxi_add_char(out, ',');
        flxi_json_string(out, r->facts.at[i].value);
        flxi_add_char(out, ']');
    }
    flxi_add_char(out, ']');
    add_series(r, out);
    for (int i = 0; i < FLXI_REPORT_LISTS; i++) {
        flxi_addf(out, ",\n\"%s\":[", keys[i]);
        flxi_add_bytes(out, r->lists[i].at, r->lists[i].n);
        flxi_add_char(out, ']');
    }
    flxi_add_char(out, '}');
}

void flxi_report_write_html(const flx_report *r, flxi_strbuf *out)
{
    add_head(r, out);
    flxi_add_text(out, "<script type=\"application/json\" id=\"data\">\n");
    add_data(r, out);
    flxi_add_text(out, "\n</script>\n<script>");
    flxi_add_bytes(out, flxi_page_script, flxi_page_script_size);
    flxi_add_text(out, "</script>\n</body>\n</html>\n");
}
