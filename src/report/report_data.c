/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.c: collecting a report. */
#include "report/report_data.h"

#include "base/options.h"
#include "format/file.h"
#include "report/report_text.h"

#include <fluxion/types.h>
#include <time.h>

enum { MAX_PIXELS = 2048, MAX_CLASSES = 1000 };

static double system_clock(void *user)
{
    struct timespec t;
    (void)user;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- The report ---- */

static const char *kept_text(flx_report *r, const char *text)
{
    return flxi_arena_text(&r->arena, text, strlen(text));
}

flx_report *flx_report_new(flx_context *ctx, const flx_report_options *options, flx_error *err)
{
    flx_report_options o;
    if (!ctx) {
        flxi_fail(err, FLX_E_USAGE, "flx_report_new: a context must be given");
        return NULL;
    }
    if (FLXI_READ_OPTIONS(flx_report_options, &o, options, err) != FLX_OK)
        return NULL;
    if (o.flags) {
        flxi_fail(err, FLX_E_USAGE, "flx_report_new: unknown flags %u", o.flags);
        return NULL;
    }
    const flxi_allocator *mem = flxi_context_mem(ctx);
    flx_report *r = flxi_alloc(mem, 1, sizeof *r);
    if (!r) {
        flxi_oom(err, "a report");
        return NULL;
    }
    *r = (flx_report){.ctx = ctx, .mem = mem, .clock = o.clock ? o.clock : system_clock, .clock_user = o.clock_user};
    flxi_arena_init(&r->arena, mem);
    r->series_names.arena = &r->arena;
    for (int i = 0; i < FLXI_REPORT_LISTS; i++)
        flxi_strbuf_init(&r->lists[i], mem);
    r->title = kept_text(r, o.title ? o.title : "Fluxion report");
    r->about = kept_text(r, o.about ? o.about : "");
    if (r->title && r->about)
        return r;
    flx_report_free(r);
    flxi_oom(err, "a report");
    return NULL;
}

void flx_report_free(flx_report *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->series.n; i++)
        flxi_vec_free(r->mem, &r->series.at[i].points);
    flxi_vec_free(r->mem, &r->series);
    flxi_strings_free(&r->series_names);
    for (size_t i = 0; i < r->facts.n; i++)
        flxi_free(r->mem, r->facts.at[i].value, r->facts.at[i].room, 1);
    flxi_vec_free(r->mem, &r->facts);
    for (int i = 0; i < FLXI_REPORT_LISTS; i++)
        flxi_strbuf_free(&r->lists[i]);
    flxi_arena_free(&r->arena);
    flxi_free(r->mem, r, 1, sizeof *r);
}

flx_code flxi_report_append(flx_report *r, flxi_report_list list, flxi_strbuf *object, flx_error *err)
{
    flxi_strbuf *to = &r->lists[list];
    size_t before = to->n;
    bool ok = !object->failed;
    if (ok) {
        flxi_add_text(to, before ? ",\n" : "");
        flxi_add_bytes(to, object->at, object->n);
        ok = !to->failed;
    }
    if (!ok) {
        to->n = before;
        to->failed = false;
    }
    flxi_strbuf_free(object);
    return ok ? FLX_OK : flxi_oom(err, "a report");
}

static flx_code check(const flx_report *r, const char *function, const void *a, const void *b, flx_error *err)
{
    return r && a && b ? FLX_OK : flxi_fail(err, FLX_E_USAGE, "%s: an argument is NULL", function);
}

/* ---- Curves and facts ---- */

flx_code flx_report_add_value(flx_report *r, const char *series, int64_t step, double value, flx_error *err)
{
    FLXI_TRY(check(r, "flx_report_add_value", series, series, err));
    if (!flxi_reserve(r->mem, &r->series))
        return flxi_oom(err, "a report");
    size_t i = flxi_intern_number(&r->series_names, series, strlen(series));
    if (i == SIZE_MAX)
        return flxi_oom(err, "a report");
    if (i == r->series.n)
        r->series.at[r->series.n++] = (flxi_report_series){.name = r->series_names.texts.at[i]};
    flxi_report_point p = {step, value, r->clock(r->clock_user)};
    return flxi_push(r->mem, &r->series.at[i].points, p) ? FLX_OK : flxi_oom(err, "a report");
}

static flxi_report_fact *find_fact(flx_report *r, const char *name)
{
    for (size_t i = 0; i < r->facts.n; i++)
        if (strcmp(r->facts.at[i].name, name) == 0)
            return &r->facts.at[i];
    return NULL;
}

flx_code flx_report_add_fact(flx_report *r, const char *name, const char *value, flx_error *err)
{
    FLXI_TRY(check(r, "flx_report_add_fact", name, value, err));
    size_t room = strlen(value) + 1;
    char *copy = flxi_alloc(r->mem, room, 1);
    if (!copy)
        return flxi_oom(err, "a report");
    memcpy(copy, value, room);
    flxi_report_fact *f = find_fact(r, name);
    if (f) {
        flxi_free(r->mem, f->value, f->room, 1);
        f->value = copy;
        f->room = room;
        return FLX_OK;
    }
    flxi_report_fact made = {kept_text(r, name), copy, room};
    if (made.name && flxi_push(r->mem, &r->facts, made))
        return FLX_OK;
    flxi_free(r->mem, copy, room, 1);
    return flxi_oom(err, "a report");
}

/* ---- Texts, images, tables, matrices ---- */

static flxi_strbuf begin_object(const flx_report *r, const char *title)
{
    flxi_strbuf b;
    flxi_strbuf_init(&b, r->mem);
    flxi_add_text(&b, "{\"title\":");
    flxi_json_string(&b, title);
    return b;
}

flx_code flx_report_add_text(flx_report *r, const char *title, int64_t step, const char *text, flx_error *err)
{
    FLXI_TRY(check(r, "flx_report_add_text", title, text, err));
    flxi_strbuf b = begin_object(r, title);
    flxi_addf(&b, ",\"step\":%lld,\"text\":", (long long)step);
    flxi_json_string(&b, text);
    flxi_add_char(&b, '}');
    return flxi_report_append(r, FLXI_REPORT_TEXTS, &b, err);
}

static unsigned char shade(const flx_tensor *t, int64_t i)
{
    double x = flx_tensor_get(t, i);
    if (flx_tensor_type(t)->dtype != FLX_U8)
        x *= 255;
    return (unsigned char)(x >= 255 ? 255 : x > 0 ? (int)(x + 0.5) : 0); /* NaN is black */
}

static flx_code check_image(const flx_tensor *image, flx_error *err)
{
    const flx_type *t = flx_tensor_type(image);
    bool is_plain = t->dtype == FLX_U8 || t->dtype == FLX_BOOL || t->dtype == FLX_F16 || t->dtype == FLX_BF16 ||
                    t->dtype == FLX_F32 || t->dtype == FLX_F64;
    if (!is_plain)
        return flxi_fail(err, FLX_E_DTYPE, "an image is u8, bool or a float dtype, not %s", flx_dtype_name(t->dtype));
    if (t->rank != 2 && !(t->rank == 3 && (t->dims[2] == 1 || t->dims[2] == 3)))
        return flxi_fail(err, FLX_E_SHAPE, "an image is [height, width], [height, width, 1] or [height, width, 3]");
    if (t->dims[0] < 1 || t->dims[1] < 1 || t->dims[0] > MAX_PIXELS || t->dims[1] > MAX_PIXELS)
        return flxi_fail(err, FLX_E_SIZE, "an image of %lld x %lld pixels: from 1 to %d are shown each way",
                         (long long)t->dims[0], (long long)t->dims[1], MAX_PIXELS);
    return FLX_OK;
}

flx_code flx_report_add_image(flx_report *r, const char *title, int64_t step, const flx_tensor *image, flx_error *err)
{
    FLXI_TRY(check(r, "flx_report_add_image", title, image, err));
    FLXI_TRY(check_image(image, err));
    const flx_type *t = flx_tensor_type(image);
    size_t n = (size_t)flx_tensor_count(image);
    unsigned char *pixels = flxi_alloc(r->mem, n, 1);
    if (!pixels)
        return flxi_oom(err, "an image");
    for (size_t i = 0; i < n; i++)
        pixels[i] = shade(image, (int64_t)i);
    flxi_strbuf b = begin_object(r, title);
    flxi_addf(&b, ",\"step\":%lld,\"h\":%lld,\"w\":%lld,\"c\":%lld,\"pixels\":\"", (long long)step,
              (long long)t->dims[0], (long long)t->dims[1], (long long)(t->rank == 3 ? t->dims[2] : 1));
    flxi_add_base64(&b, pixels, n);
    flxi_add_text(&b, "\"}");
    flxi_free(r->mem, pixels, n, 1);
    return flxi_report_append(r, FLXI_REPORT_IMAGES, &b, err);
}

static void add_strings(flxi_strbuf *b, const char *const *texts, size_t n)
{
    flxi_add_char(b, '[');
    for (size_t i = 0; i < n; i++) {
        flxi_add_text(b, i ? "," : "");
        flxi_json_string(b, texts[i]);
    }
    flxi_add_char(b, ']');
}

static bool has_null(const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!texts[i])
            return true;
    return false;
}

flx_code flx_report_add_table(flx_report *r, const char *title, const char *const *columns, size_t num_columns,
                              const char *const *cells, size_t num_rows, flx_error *err)
{
    FLXI_TRY(check(r, "flx_report_add_table", title, columns, err));
    size_t n;
    if (!num_columns || !flxi_mul_size(num_columns, num_rows, &n))
        return flxi_fail(err, FLX_E_USAGE, "flx_report_add_table: a table has at least one column");
    if ((n && !cells) || has_null(columns, num_columns) || has_null(cells, n))
        return flxi_fail(err, FLX_E_USAGE, "flx_report_add_table: a cell is NULL");
    flxi_strbuf b = begin_object(r, title);
    flxi_add_text(&b, ",\"columns\":");
    add_strings(&b, columns, num_columns);
    flxi_add_text(&b, ",\"rows\":[");
    for (size_t i = 0; i < num_rows; i++) {
        flxi_add_text(&b, i ? ",\n" : "");
        add_strings(&b, cells + i * num_columns, num_columns);
    }
    flxi_add_text(&b, "]}");
    return flxi_report_append(r, FLXI_REPORT_TABLES, &b, err);
}

flx_code flx_report_add_confusion(flx_report *r, const char *title, const char *const *classes, size_t num_classes,
                                  const int64_t *counts, flx_error *err)
{
    FLXI_TRY(check(r, "flx_report_add_confusion", title, counts, err));
    if (num_classes < 1 || num_classes > MAX_CLASSES)
        return flxi_fail(err, FLX_E_SIZE, "a confusion matrix has from 1 to %d classes, not %zu", MAX_CLASSES,
                         num_classes);
    if (classes && has_null(classes, num_classes))
        return flxi_fail(err, FLX_E_USAGE, "flx_report_add_confusion: the name of a class is NULL");
    flxi_strbuf b = begin_object(r, title);
    flxi_add_text(&b, ",\"classes\":");
    if (classes)
        add_strings(&b, classes, num_classes);
    else
        flxi_add_text(&b, "null");
    flxi_addf(&b, ",\"n\":%zu,\"counts\":[", num_classes);
    for (size_t i = 0; i < num_classes * num_classes; i++)
        flxi_addf(&b, "%s%lld", i ? "," : "", (long long)counts[i]);
    flxi_add_text(&b, "]}");
    return flxi_report_append(r, FLXI_REPORT_MATRICES, &b, err);
}

/* ---- Writing ---- */

flx_code flx_report_print(const flx_report *r, flx_report_form form, flx_buffer *out, flx_error *err)
{
    FLXI_TRY(check(r, "flx_report_print", out, out, err));
    flxi_strbuf b;
    flxi_strbuf_init(&b, r->mem);
    switch (form) {
    case FLX_REPORT_HTML: flxi_report_write_html(r, &b); break;
    case FLX_REPORT_CSV: flxi_report_write_csv(r, &b); break;
    case FLX_REPORT_EVENTS: flxi_report_write_events(r, &b); break;
    default: return flxi_fail(err, FLX_E_USAGE, "flx_report_print: %d is not a form of a report", (int)form);
    }
    return flxi_buffer_finish(&b, r->ctx, out, err);
}

flx_code flx_report_write(const flx_report *r, flx_report_form form, const char *path, flx_error *err)
{
    flx_buffer text = {0};
    flxi_save save;
    FLXI_TRY(check(r, "flx_report_write", path, path, err));
    FLXI_TRY(flx_report_print(r, form, &text, err));
    flx_code code = flxi_save_begin(&save, path, err);
    if (code == FLX_OK) {
        code = flxi_save_bytes(&save, text.data, text.size, err);
        if (code == FLX_OK)
            code = flxi_save_end(&save, err);
        else
            flxi_save_abandon(&save);
    }
    flx_buffer_free(&text);
    return code;
}
