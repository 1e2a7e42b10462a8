/* SPDX-License-Identifier: Apache-2.0 */
/* report_case.c: see report_case.h. */
#include "report/report_case.h"

#include "format/json.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double tick(void *user)
{
    report_clock *c = user;
    return c->now += c->step;
}

flx_report *report_new(flx_context *ctx, const char *title, report_clock *clock)
{
    flx_error err = {0};
    const flx_report_options options = {
        .struct_size = sizeof options, .title = title, .about = "Made by a test.", .clock = tick, .clock_user = clock};
    flx_report *r = flx_report_new(ctx, &options, &err);
    CHECK_MADE(r, &err);
    return r;
}

flx_module *report_parse(flx_context *ctx, const char *text)
{
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "report", &err);
    CHECK_MADE(m, &err);
    return m;
}

flx_module *report_read_example(flx_context *ctx, const char *name)
{
    char path[512];
    static char text[1 << 16];
    snprintf(path, sizeof path, "%s/examples/%s", test_source_dir(), name);
    FILE *in = fopen(path, "rb");
    CHECK_MSG(in != NULL, "%s", path);
    size_t n = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    text[n] = 0;
    return report_parse(ctx, text);
}

/* ---- Runs ---- */

enum { MAX_LEAVES = 256, MAX_STEPS = 1 << 14 };

static flx_tensor *simple_value(const flx_graph *g, flx_val leaf)
{
    flx_error err = {0};
    const flx_type *type = flx_val_type(g, leaf);
    flx_tensor *t = flx_tensor_new(flx_graph_context(g), type, NULL, &err);
    CHECK_MADE(t, &err);
    float *data = flx_tensor_data(t);
    for (int64_t i = 0; type->dtype == FLX_F32 && i < flx_tensor_count(t); i++)
        data[i] = 0.01f * (float)(i % 17) + 0.02f;
    return t;
}

report_run report_run_graph(const flx_graph *g, uint32_t compile_flags)
{
    flx_error err = {0};
    report_run run = {0};
    const flx_compile_options options = {
        .struct_size = sizeof options, .device = "cpu", .flags = compile_flags, .threads = 2, .cache = FLX_CACHE_OFF};
    flx_feed feeds[MAX_LEAVES];
    size_t leaves = flx_graph_input_count(g), outputs = flx_graph_output_count(g);
    CHECK(leaves <= MAX_LEAVES);
    run.exec = flx_compile(g, &options, &err);
    CHECK_MADE(run.exec, &err);
    for (size_t i = 0; i < leaves; i++)
        feeds[i] = (flx_feed){flx_val_name(g, flx_graph_input(g, i)), simple_value(g, flx_graph_input(g, i))};
    run.trace.step_capacity = run.trace.event_capacity = MAX_STEPS;
    run.trace.steps = calloc(MAX_STEPS, sizeof *run.trace.steps);
    run.trace.events = calloc(MAX_STEPS, sizeof *run.trace.events);
    flx_tensor **results = calloc(outputs + 1, sizeof *results);
    CHECK(run.trace.steps && run.trace.events && results);
    CHECK_OK(flx_exec_trace(run.exec, NULL, feeds, leaves, results, &run.trace, &err), &err);
    for (size_t i = 0; i < outputs; i++)
        flx_tensor_release(results[i]);
    for (size_t i = 0; i < leaves; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    free(results);
    return run;
}

void report_run_free(report_run *run)
{
    flx_exec_free(run->exec);
    free(run->trace.steps);
    free(run->trace.events);
}

/* ---- Texts ---- */

static char *copied(flx_buffer *b, size_t *size)
{
    char *text = malloc(b->size + 1);
    CHECK(text != NULL);
    memcpy(text, b->data, b->size + 1);
    if (size)
        *size = b->size;
    flx_buffer_free(b);
    return text;
}

char *report_text(const flx_report *r, flx_report_form form, size_t *size)
{
    flx_error err = {0};
    flx_buffer b = {0};
    CHECK_OK(flx_report_print(r, form, &b, &err), &err);
    return copied(&b, size);
}

char *report_drawing(const flx_report_graph *what, flx_drawing form)
{
    flx_error err = {0};
    flx_buffer b = {0};
    CHECK_OK(flx_report_draw(what, form, &b, &err), &err);
    return copied(&b, NULL);
}

char *report_page(const flx_report *r, const char *name)
{
    char *page = report_text(r, FLX_REPORT_HTML, NULL);
    if (test_keep_dir()) {
        flx_error err = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/%s.html", test_keep_dir(), name);
        CHECK_OK(flx_report_write(r, FLX_REPORT_HTML, path, &err), &err);
    }
    return page;
}

size_t report_count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

void report_check_json(const char *text, size_t size)
{
    flxi_json j = flxi_json_begin(text, size);
    flxi_json_token t;
    while ((t = flxi_json_next(&j)) > FLXI_JSON_END)
        continue;
    CHECK_MSG(t == FLXI_JSON_END, "%s at '%.60s'", j.error, text + (j.at > 30 ? j.at - 30 : 0));
}

/* ---- Markup ---- */

enum { MAX_NESTING = 64 };

typedef struct {
    const char *at;
    char open[MAX_NESTING][24];
    size_t depth;
    bool is_html;
} markup;

static bool is_void(const markup *m, const char *name)
{
    return m->is_html && (strcmp(name, "meta") == 0 || strcmp(name, "br") == 0);
}

static void read_name(markup *m, char name[24])
{
    size_t n = strspn(m->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    CHECK_MSG(n > 0 && n < 24, "a tag without a name: '%.40s'", m->at);
    snprintf(name, 24, "%.*s", (int)n, m->at);
    m->at += n;
}

static void read_attributes(markup *m)
{
    while (*m->at == ' ') {
        m->at += 1 + strcspn(m->at + 1, "= >/\"'");
        CHECK_MSG(m->at[0] == '=' && m->at[1] == '"', "an attribute is not quoted: '%.40s'", m->at);
        const char *end = m->at + 2 + strcspn(m->at + 2, "\"<");
        CHECK_MSG(*end == '"', "an attribute does not end: '%.40s'", m->at);
        m->at = end + 1;
    }
}

/* The contents of script and style are not markup: they end at the first end tag. */
static void skip_raw(markup *m, const char *name)
{
    char end[32];
    snprintf(end, sizeof end, "</%s>", name);
    m->at = strstr(m->at, end);
    CHECK_MSG(m->at != NULL, "<%s> does not end", name);
}

static void read_tag(markup *m)
{
    char name[24];
    bool is_end = *m->at == '/';
    m->at += is_end;
    read_name(m, name);
    if (is_end) {
        CHECK_MSG(m->depth && strcmp(m->open[m->depth - 1], name) == 0, "</%s> ends <%s>", name,
                  m->depth ? m->open[m->depth - 1] : "");
        m->depth--;
        CHECK(*m->at++ == '>');
        return;
    }
    read_attributes(m);
    if (m->at[0] == '/' && m->at[1] == '>') {
        CHECK(!m->is_html);
        m->at += 2;
        return;
    }
    CHECK_MSG(*m->at == '>', "a tag does not end: '%.40s'", m->at);
    m->at++;
    if (is_void(m, name))
        return;
    CHECK(m->depth < MAX_NESTING);
    snprintf(m->open[m->depth++], 24, "%s", name);
    if (strcmp(name, "script") == 0 || strcmp(name, "style") == 0)
        skip_raw(m, name);
}

static void check_entity(const char *at)
{
    static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0)
            return;
    FAIL("a stray &: '%.40s'", at);
}

static void check_markup(const char *text, bool is_html)
{
    markup m = {.at = text, .is_html = is_html};
    while (*m.at) {
        m.at += strcspn(m.at, "<&");
        if (*m.at == '&')
            check_entity(m.at++);
        else if (*m.at == '<') {
            m.at++;
            read_tag(&m);
        }
    }
    CHECK_MSG(m.depth == 0, "<%s> is not closed", m.depth ? m.open[m.depth - 1] : "");
}

void report_check_xml(const char *text)
{
    check_markup(text, false);
}

const char *report_data(const char *page, size_t *size)
{
    static const char begin[] = "<script type=\"application/json\" id=\"data\">";
    const char *at = strstr(page, begin);
    CHECK(at != NULL);
    at += strlen(begin);
    const char *end = strstr(at, "</script>");
    CHECK(end != NULL);
    *size = (size_t)(end - at);
    return at;
}

void report_check_page(const char *page)
{
    static const char start[] = "<!DOCTYPE html>\n";
    size_t size;
    CHECK(strncmp(page, start, strlen(start)) == 0);
    check_markup(page + strlen(start), true);
    const char *data = report_data(page, &size);
    report_check_json(data, size);
    CHECK(memchr(data, '<', size) == NULL && memchr(data, '&', size) == NULL);
    CHECK(strstr(page, "Content-Security-Policy") && strstr(page, "default-src 'none'"));
    CHECK_EQ_U64(report_count(page, "</script>"), 2);
    CHECK(strstr(page, "unsafe-inline") == NULL);
}
