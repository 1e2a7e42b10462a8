/* SPDX-License-Identifier: Apache-2.0 */
/* report_data.h: what a report has collected. Curves are kept as numbers, since they are written in several forms;
   everything else is kept as the JSON that it becomes. */
#ifndef FLXI_REPORT_DATA_H
#define FLXI_REPORT_DATA_H

#include "base/context.h"
#include "base/error.h"

#include <fluxion/report.h>

typedef struct {
    int64_t step;
    double value, time; /* seconds since 1970 */
} flxi_report_point;

typedef struct {
    const char *name;
    FLXI_VEC(flxi_report_point) points;
} flxi_report_series;

typedef struct {
    const char *name;
    char *value;
    size_t room; /* bytes of value */
} flxi_report_fact;

/* Lists of JSON objects. */
typedef enum {
    FLXI_REPORT_TEXTS,
    FLXI_REPORT_IMAGES,
    FLXI_REPORT_TABLES,
    FLXI_REPORT_MATRICES,
    FLXI_REPORT_GRAPHS,
    FLXI_REPORT_LISTS
} flxi_report_list;

struct flx_report {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_arena arena; /* names */
    const char *title, *about;
    flx_clock_fn clock;
    void *clock_user;
    FLXI_VEC(flxi_report_series) series;
    flxi_strings series_names; /* by number: a series */
    FLXI_VEC(flxi_report_fact) facts;
    flxi_strbuf lists[FLXI_REPORT_LISTS];
};

/* Appends a finished object to a list and frees it; a failure leaves the list as it was. */
flx_code flxi_report_append(flx_report *r, flxi_report_list list, flxi_strbuf *object, flx_error *err);

/* The forms (report_html.c, report_series.c). */
void flxi_report_write_html(const flx_report *r, flxi_strbuf *out);
void flxi_report_write_csv(const flx_report *r, flxi_strbuf *out);
void flxi_report_write_events(const flx_report *r, flxi_strbuf *out);

#endif
