/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_text.c: what a program for several devices is to each of them, as text: the graph that flx_partition() gives,
   with its exchanges. A program without manual computations does not run in this form here, where all
   devices are one processor (pjrt_partitioned.c): the text is for those who want to see what their shardings lead to,
   and says so. */
#include "pjrt/pjrt_callback.h"
#include "stablehlo/import/import_program.h"

static flx_code process_graph(flx_context *ctx, const char *program, size_t size, flx_buffer *out, bool *is_run,
                              flx_error *err)
{
    hlo_module m;
    flx_code code = flxi_pjrt_register_callback(ctx, err);
    if (code == FLX_OK)
        code = flxi_hlo_read(ctx, program, size, "program", &m, err);
    if (code != FLX_OK)
        return code;
    *is_run = flxi_hlo_uses(&m, "sdy.manual_computation", NULL);
    flx_graph *g = flxi_hlo_process_graph(ctx, &m, "program", err);
    code = g ? flx_graph_print(g, out, err) : (flx_code)err->code;
    flx_graph_release(g);
    flxi_hlo_module_free(&m);
    return code;
}

static void write_text(pjrt_writer write, const char *text)
{
    write(text, strlen(text));
}

int flxi_pjrt_write_process(const char *bytes, size_t size, pjrt_writer write)
{
    const char *program;
    size_t program_size, options_size;
    flx_buffer text = {0};
    flx_error err = {0};
    bool is_run = false;
    pjrt_error *e = flxi_pjrt_open_serialised(bytes, size, &program, &program_size, &options_size);
    flx_context *ctx = e ? NULL : flx_context_new(NULL);
    flx_code code = ctx ? process_graph(ctx, program, program_size, &text, &is_run, &err) : FLX_E_USAGE;
    if (code == FLX_OK) {
        write_text(write, is_run ? "# What each device runs.\n"
                                 : "# The part of each of several devices. Virtual devices run the whole program.\n");
        write(text.data, text.size);
    } else {
        write_text(write, e ? "the bytes are not an executable of fluxion" : err.message);
    }
    flx_buffer_free(&text);
    flx_context_free(ctx);
    flxi_pjrt_error_free(e);
    return code != FLX_OK;
}
