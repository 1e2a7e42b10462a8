/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: writing a run to a file. The text of recording.txt is a line for each fact:

       fluxion recording 1
       compile FLAGS THREADS OPTIMISATION
       run FLAGS
       dim NAME EXTENT          for each symbolic dimension
       failure CODE MESSAGE     when the run failed

   Inputs are numbered as the graph declares them. */
#include "format/npy.h"
#include "format/zip.h"
#include "runtime/recording.h"

#include <stdio.h>

static void write_facts(const flx_exec *e, const flx_run_options *options, const flxi_feeding *f,
                        const flx_error *failure, flxi_strbuf *out)
{
    char text[sizeof failure->message];
    flxi_add_text(out, "fluxion recording 1\n");
    flxi_addf(out, "compile %u %d %d\n", e->options.flags, e->options.threads, e->options.optimisation);
    flxi_addf(out, "run %u\n", options ? options->flags : 0);
    for (size_t i = 0; i < f->bound.n; i++)
        flxi_addf(out, "dim %.200s %lld\n", f->bound.at[i].name, (long long)f->bound.at[i].extent);
    if (failure && failure->code)
        flxi_addf(out, "failure %d %s\n", failure->code,
                  flxi_printable(text, sizeof text, failure->message, strlen(failure->message)));
}

static flx_code add_input(flxi_zip_writer *w, size_t i, const flx_tensor *t, flx_error *err)
{
    char header[FLXI_NPY_HEADER_MAX], name[40];
    flx_tensor *version = NULL;
    snprintf(name, sizeof name, "input_%zu.npy", i);
    FLXI_TRY(flxi_npy_version(t, &version, err));
    flxi_piece pieces[2] = {{header, flxi_npy_header(&version->type, header)}, {version->data, version->nbytes}};
    flx_code code = flxi_zip_write_entry(w, name, pieces, 2, err);
    flx_tensor_release(version);
    return code;
}

static flx_code add_entries(flxi_zip_writer *w, const flxi_strbuf *facts, const flx_buffer *graph,
                            const flxi_feeding *f, flx_error *err)
{
    FLXI_TRY(flxi_zip_write_entry(w, "recording.txt", &(flxi_piece){facts->at, facts->n}, 1, err));
    FLXI_TRY(flxi_zip_write_entry(w, "graph.flxb", &(flxi_piece){graph->data, graph->size}, 1, err));
    for (size_t i = 0; i < f->g->leaves.n; i++)
        FLXI_TRY(add_input(w, i, f->in[i], err));
    return FLX_OK;
}

static flx_code write_archive(const flx_exec *e, const flxi_strbuf *facts, const flx_buffer *graph,
                              const flxi_feeding *f, const char *path, flx_error *err)
{
    flxi_zip_writer w;
    FLXI_TRY(flxi_zip_write_begin(&w, e->mem, path, err));
    flx_code code = add_entries(&w, facts, graph, f, err);
    if (code == FLX_OK)
        return flxi_zip_write_end(&w, err);
    flxi_zip_write_abandon(&w);
    return code;
}

flx_code flxi_recording_write(const flx_exec *e, const flx_run_options *options, const flxi_feeding *f,
                              const flx_error *failure, const char *path, flx_error *err)
{
    flx_buffer graph = {0};
    flxi_strbuf facts;
    FLXI_TRY(flx_graph_encode(e->g, &graph, err));
    flxi_strbuf_init(&facts, e->mem);
    write_facts(e, options, f, failure, &facts);
    flx_code code = facts.failed ? flxi_oom(err, "a recording") : write_archive(e, &facts, &graph, f, path, err);
    flxi_strbuf_free(&facts);
    flx_buffer_free(&graph);
    return code;
}

void flxi_record_failure(const flx_exec *e, const flx_run_options *options, const flxi_feeding *f, flx_error *failure)
{
    flx_error err = {0};
    const char *path = e->options.record_path;
    if (flxi_recording_write(e, options, f, failure, path, &err) != FLX_OK)
        flxi_hint(failure, "it could not be recorded: %.80s", err.message);
    else if (!failure->hint[0])
        flxi_hint(failure, "recorded: flx replay %.90s", path);
}
