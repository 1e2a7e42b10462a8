/* SPDX-License-Identifier: Apache-2.0 */
/* drawing.c: see drawing.h. */
#include "io/drawing.h"

#include "io/output.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

/* Takes ownership of the text. */
static int write_text(flx_buffer *text, const char *path)
{
    int status = STATUS_OK;
    if (strcmp(path, "-") == 0)
        fwrite(text->data, 1, text->size, stdout);
    else
        status = output_write(path, text);
    flx_buffer_free(text);
    return status;
}

int drawing_write_html(flx_context *ctx, const flx_report_graph *what, const char *path)
{
    flx_error err = {0};
    flx_buffer text = {0};
    const flx_report_options options = {
        .struct_size = sizeof options,
        .title = what->title ? what->title : flx_graph_name(what->graph),
    };
    flx_report *r = flx_report_new(ctx, &options, &err);
    flx_code code = r ? flx_report_add_graph(r, what, &err) : (flx_code)err.code;
    if (code == FLX_OK)
        code = flx_report_print(r, FLX_REPORT_HTML, &text, &err);
    flx_report_free(r);
    return code ? report(&err, NULL) : write_text(&text, path);
}

int drawing_write(const flx_report_graph *what, flx_drawing form, const char *path)
{
    flx_error err = {0};
    flx_buffer text = {0};
    return flx_report_draw(what, form, &text, &err) ? report(&err, NULL) : write_text(&text, path);
}

int drawing_write_trace(const flx_exec *e, const flx_run_trace *trace, const char *path)
{
    flx_error err = {0};
    flx_buffer text = {0};
    return flx_report_trace(e, trace, &text, &err) ? report(&err, NULL) : write_text(&text, path);
}
