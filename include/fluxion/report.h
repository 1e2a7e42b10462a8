/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/report.h: what a training or a run did, as files that people look at. Experimental: more may be added.

   A report collects curves, texts, images, tables, confusion matrices and graphs while a program works. It is written
   as one HTML file that needs nothing else and reaches no network, as CSV, or as an event file of TensorBoard. */
#ifndef FLUXION_REPORT_H
#define FLUXION_REPORT_H

#include <fluxion/exec.h>
#include <fluxion/tensor.h>

FLX_BEGIN_DECLS

typedef struct flx_report flx_report;

/* Seconds since 1970. */
typedef double (*flx_clock_fn)(void *user);

typedef struct flx_report_options {
    uint32_t struct_size; /* sizeof(flx_report_options); 0: all of it */
    uint32_t flags;       /* none yet; must be 0 */
    const char *title;    /* NULL: "Fluxion report" */
    const char *about;    /* a sentence below the title; NULL: none */
    flx_clock_fn clock;   /* gives the time of each value; NULL: the system's clock. With a clock that repeats itself
                             the files are the same byte for byte */
    void *clock_user;     /* passed to clock */
} flx_report_options;

/** A new empty report; options may be NULL. NULL on failure; free with flx_report_free(), before the context. One
    thread at a time may use a report. */
FLX_API flx_report *flx_report_new(flx_context *ctx, const flx_report_options *options, flx_error *err);
FLX_API void flx_report_free(flx_report *r); /* NULL is fine */

/* ---- Collecting. Everything is copied. Texts are UTF-8; other bytes are replaced when they are written. ---- */

/** Adds a point to the curve called `series`, which begins with its first point. Series whose names have the same text
    before a slash ("loss/train", "loss/test") share one chart. Any value is accepted; one that is not finite is a gap
    of the curve. */
FLX_API flx_code flx_report_add_value(flx_report *r, const char *series, int64_t step, double value, flx_error *err);

/** Adds a fact to the head of the report, such as "parameters" and "1.2 M". The same name again replaces it. */
FLX_API flx_code flx_report_add_fact(flx_report *r, const char *name, const char *value, flx_error *err);

/** Adds a text, such as what a model generated at this step. Samples of one title are shown together. */
FLX_API flx_code flx_report_add_text(flx_report *r, const char *title, int64_t step, const char *text, flx_error *err);

/** Adds an image: [height, width] or [height, width, 1] is grey, [height, width, 3] is RGB; u8, bool, or floats from 0
    to 1. At most 2048 pixels high and wide: SIZE otherwise. Images of one title are shown together. */
FLX_API flx_code flx_report_add_image(flx_report *r, const char *title, int64_t step, const flx_tensor *image,
                                      flx_error *err);

/** Adds a table of num_rows × num_columns cells, row by row. */
FLX_API flx_code flx_report_add_table(flx_report *r, const char *title, const char *const *columns, size_t num_columns,
                                      const char *const *cells, size_t num_rows, flx_error *err);

/** Adds a confusion matrix: counts[true class * num_classes + predicted class]. `classes` are their names; NULL: 0, 1 …
    At most 1000 classes. */
FLX_API flx_code flx_report_add_confusion(flx_report *r, const char *title, const char *const *classes,
                                          size_t num_classes, const int64_t *counts, flx_error *err);

/* A graph to show. Needed while the function that takes it runs, not longer. */
typedef struct flx_report_graph {
    uint32_t struct_size;   /* sizeof(flx_report_graph); 0: all of it */
    uint32_t flags;         /* none yet; must be 0 */
    const char *title;      /* NULL: the name of the graph */
    const flx_graph *graph; /* as it was written; NULL: only the compiled one */
    const flx_exec *exec;   /* adds the compiled graph, with the step of each node, and the memory plan; NULL: none */
    const flx_run_trace *trace; /* of a run of exec (flx_exec_trace()); NULL: no times */
} flx_report_graph;

/** Adds a graph and the graphs that it uses. USAGE when there is neither a graph nor an executable that was compiled;
    an executable of a graph with symbolic dimensions is compiled by its first run. */
FLX_API flx_code flx_report_add_graph(flx_report *r, const flx_report_graph *graph, flx_error *err);

/* ---- Writing ---- */

typedef enum flx_report_form {
    FLX_REPORT_HTML = 1,  /* everything, in one file */
    FLX_REPORT_CSV = 2,   /* the curves: series,step,time,value */
    FLX_REPORT_EVENTS = 3 /* the curves, for TensorBoard: the name of the file must contain "tfevents" */
} flx_report_form;

/** Writes the report to memory. It may grow afterwards and be written again. */
FLX_API flx_code flx_report_print(const flx_report *r, flx_report_form form, flx_buffer *out, flx_error *err);
/** Writes the report to a file, which appears whole or not at all. */
FLX_API flx_code flx_report_write(const flx_report *r, flx_report_form form, const char *path, flx_error *err);

/* ---- Drawings and traces without a report ---- */

typedef enum flx_drawing {
    FLX_DRAWING_SVG = 1, /* a picture; large graphs are drawn with their inner groups closed */
    FLX_DRAWING_DOT = 2  /* a description for Graphviz, with every node */
} flx_drawing;

/** Draws the compiled graph where there is an executable, else the graph as it was written. */
FLX_API flx_code flx_report_draw(const flx_report_graph *graph, flx_drawing form, flx_buffer *out, flx_error *err);

/** Writes the events of a traced run as JSON of the trace event format, which Perfetto and Chrome show. */
FLX_API flx_code flx_report_trace(const flx_exec *e, const flx_run_trace *trace, flx_buffer *out, flx_error *err);

FLX_END_DECLS
#endif
