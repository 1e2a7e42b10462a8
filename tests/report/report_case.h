/* SPDX-License-Identifier: Apache-2.0 */
/* report_case.h: what the tests of reports share. */
#ifndef FLX_REPORT_CASE_H
#define FLX_REPORT_CASE_H

#include <fluxion/fluxion.h>
#include <fluxion/report.h>

/* A clock that advances by the same amount with each look. */
typedef struct {
    double now, step;
} report_clock;

flx_report *report_new(flx_context *ctx, const char *title, report_clock *clock);

/* A file of examples/. */
flx_module *report_read_example(flx_context *ctx, const char *name);
flx_module *report_parse(flx_context *ctx, const char *text);

/* A graph of static types, compiled and run once on simple values, with what it took. */
typedef struct {
    flx_exec *exec;
    flx_run_trace trace;
} report_run;

report_run report_run_graph(const flx_graph *g, uint32_t compile_flags);
void report_run_free(report_run *run);

/* The page as text that the caller frees; also written to NAME.html of the folder FLX_TEST_KEEP, if there is one. */
char *report_page(const flx_report *r, const char *name);

/* A form of a report, or a drawing, as text that the caller frees. */
char *report_text(const flx_report *r, flx_report_form form, size_t *size);
char *report_drawing(const flx_report_graph *what, flx_drawing form);

/* Fails unless tags are balanced, attributes quoted, the data is JSON without markup, and nothing but the data and one
   script is in script elements. */
void report_check_page(const char *page);
/* The same for SVG and other XML: tags are balanced, attributes quoted, no stray & or <. */
void report_check_xml(const char *text);
/* Fails unless it is JSON. */
void report_check_json(const char *text, size_t size);

/* The data of a page; its length goes to *size. */
const char *report_data(const char *page, size_t *size);

/* How often a text occurs. */
size_t report_count(const char *text, const char *part);

#endif
