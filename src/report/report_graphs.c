/* SPDX-License-Identifier: Apache-2.0 */
/* report_graphs.c: graphs and executables in a report, and as drawings and traces of their own. */
#include "base/options.h"
#include "graph/module.h"
#include "report/exec_view.h"
#include "report/graph_draw.h"
#include "report/report_data.h"
#include "report/report_text.h"
#include "report/view_json.h"
#include "runtime/exec.h"

typedef struct {
    const flx_report_graph *what;
    const flxi_program *program; /* or NULL */
    flx_context *ctx;
    flxi_strbuf *out;
    bool is_first; /* no view is written yet */
    flx_error *err;
} graph_work;

static flx_code read_request(const char *function, const flx_report_graph *given, flx_report_graph *o,
                             const flxi_program **program, flx_error *err)
{
    FLXI_TRY(FLXI_READ_OPTIONS(flx_report_graph, o, given, err));
    *program = o->exec ? flxi_exec_program(o->exec) : NULL;
    if (o->flags)
        return flxi_fail(err, FLX_E_USAGE, "%s: unknown flags %u", function, o->flags);
    if (!o->graph && !*program)
        return flxi_fail(err, FLX_E_USAGE, "%s: a graph, or an executable that was compiled, must be given", function);
    return o->graph ? flx_graph_error(o->graph, err) : FLX_OK;
}

/* ---- Views ---- */

static flx_code add_view(graph_work *w, const flx_graph *g, const flxi_view_steps *steps, const char *kind)
{
    flxi_graph_view v;
    flx_code code = flxi_graph_view_make(&v, g, steps, w->err);
    if (code == FLX_OK) {
        flxi_add_text(w->out, w->is_first ? "\n" : ",\n");
        flxi_view_json(&v, kind, w->out);
        w->is_first = false;
    }
    flxi_graph_view_free(&v);
    return code;
}

/* A graph as it was written, then the bodies that it uses. */
static flx_code add_written(graph_work *w, const flx_graph *root)
{
    const flxi_allocator *mem = flxi_context_mem(w->ctx);
    flxi_graph_list list = {0};
    flxi_arena arena;
    flxi_arena_init(&arena, mem);
    flx_code code = flxi_collect_graphs(mem, root, &list);
    if (code != FLX_OK)
        code = flxi_oom(w->err, "a report");
    for (size_t i = list.graphs.n; code == FLX_OK && i-- > 0;) { /* the root is last */
        flxi_view_steps steps;
        if (w->program)
            code = flxi_steps_by_name(w->program, list.graphs.at[i], &arena, &steps, w->err);
        if (code == FLX_OK)
            code = add_view(w, list.graphs.at[i], w->program ? &steps : NULL, "written");
    }
    flxi_graph_list_free(mem, &list);
    flxi_arena_free(&arena);
    return code;
}

static flx_code add_routine(graph_work *w, const flxi_routine *l)
{
    flxi_arena arena;
    flxi_view_steps steps;
    flxi_arena_init(&arena, flxi_context_mem(w->ctx));
    flx_code code = flxi_steps_of_routine(w->program, l, &arena, &steps, w->err);
    if (code == FLX_OK)
        code = add_view(w, l->g, &steps, "compiled");
    flxi_arena_free(&arena);
    return code;
}

/* The routines of a program are met in the order of its steps. */
static flx_code add_compiled(graph_work *w)
{
    const flxi_program *m = w->program;
    const flxi_allocator *mem = flxi_context_mem(w->ctx);
    bool *is_done = flxi_alloc(mem, m->num_routines, sizeof *is_done);
    if (!is_done)
        return flxi_oom(w->err, "a report");
    flx_code code = add_routine(w, m->main);
    is_done[m->main->number] = true;
    for (size_t i = 0; code == FLX_OK && i < m->all_steps.n; i++) {
        const flxi_routine *l = m->all_steps.at[i].routine;
        if (!is_done[l->number])
            code = add_routine(w, l);
        is_done[l->number] = true;
    }
    flxi_free(mem, is_done, m->num_routines, sizeof *is_done);
    return code;
}

static flx_code add_views(graph_work *w)
{
    flxi_add_text(w->out, ",\"views\":[");
    if (w->what->graph)
        FLXI_TRY(add_written(w, w->what->graph));
    if (w->program)
        FLXI_TRY(add_compiled(w));
    flxi_add_char(w->out, ']');
    return FLX_OK;
}

flx_code flx_report_add_graph(flx_report *r, const flx_report_graph *graph, flx_error *err)
{
    flx_report_graph o;
    const flxi_program *program;
    if (!r || !graph)
        return flxi_fail(err, FLX_E_USAGE, "flx_report_add_graph: an argument is NULL");
    FLXI_TRY(read_request("flx_report_add_graph", graph, &o, &program, err));
    flxi_strbuf b;
    flxi_strbuf_init(&b, r->mem);
    graph_work w = {.what = &o, .program = program, .ctx = r->ctx, .out = &b, .is_first = true, .err = err};
    flxi_add_text(&b, "{\"title\":");
    flxi_json_string(&b, o.title ? o.title : o.graph ? o.graph->name : program->main->g->name);
    flx_code code = add_views(&w);
    if (code != FLX_OK) {
        flxi_strbuf_free(&b);
        return code;
    }
    if (program) {
        flxi_addf(&b, ",\n\"device\":\"%s\",\"threads\":%d,\"steps\":", program->device->name, program->threads);
        flxi_steps_json(program, o.trace, &b);
        flxi_add_text(&b, ",\n\"memory\":");
        flxi_memory_json(program, &b);
    }
    if (program && o.trace && o.trace->events) {
        flxi_add_text(&b, ",\n\"events\":");
        flxi_events_json(program, o.trace, &b);
    }
    flxi_add_char(&b, '}');
    return flxi_report_append(r, FLXI_REPORT_GRAPHS, &b, err);
}

/* ---- Drawings ---- */

flx_code flx_report_draw(const flx_report_graph *graph, flx_drawing form, flx_buffer *out, flx_error *err)
{
    flx_report_graph o;
    const flxi_program *program;
    flxi_graph_view v = {0};
    flxi_view_steps steps;
    flxi_strbuf text;
    if (!graph || !out || (form != FLX_DRAWING_SVG && form != FLX_DRAWING_DOT))
        return flxi_fail(err, FLX_E_USAGE, "flx_report_draw: a graph, a form and where to write must be given");
    FLXI_TRY(read_request("flx_report_draw", graph, &o, &program, err));
    const flx_graph *g = program ? program->main->g : o.graph;
    flxi_arena arena;
    flxi_arena_init(&arena, flxi_context_mem(g->ctx));
    flxi_strbuf_init(&text, flxi_context_mem(g->ctx));
    flx_code code = program ? flxi_steps_of_routine(program, program->main, &arena, &steps, err) : FLX_OK;
    if (code == FLX_OK)
        code = flxi_graph_view_make(&v, g, program ? &steps : NULL, err);
    if (code == FLX_OK && form == FLX_DRAWING_SVG)
        code = flxi_draw_svg(&v, o.title ? o.title : g->name, &text, err);
    else if (code == FLX_OK)
        flxi_draw_dot(&v, o.title ? o.title : g->name, &text);
    flxi_graph_view_free(&v);
    flxi_arena_free(&arena);
    if (code == FLX_OK)
        return flxi_buffer_finish(&text, g->ctx, out, err);
    flxi_strbuf_free(&text);
    return code;
}

/* ---- Traces ---- */

static void add_event(const flxi_program *m, const flx_step_event *e, flxi_strbuf *out)
{
    const flxi_routine *l = m->all_steps.at[e->step].routine;
    const flxi_step *s = &l->steps[m->all_steps.at[e->step].step];
    flxi_add_text(out, ",\n{\"ph\":\"X\",\"pid\":1,\"name\":");
    flxi_json_string(out, s->name);
    flxi_addf(out, ",\"cat\":\"%s\",\"tid\":%u,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,\"args\":{\"computes\":",
              flxi_step_kind_name(l, s), e->thread, (long long)(e->start_ns / 1000), (long long)(e->start_ns % 1000),
              (long long)(e->time_ns / 1000), (long long)(e->time_ns % 1000));
    flxi_json_string(out, s->computes);
    flxi_addf(out, ",\"bytes\":%lld,\"flops\":%lld}}", (long long)s->bytes, (long long)s->flops);
}

flx_code flx_report_trace(const flx_exec *e, const flx_run_trace *trace, flx_buffer *out, flx_error *err)
{
    const flxi_program *m = e ? flxi_exec_program(e) : NULL;
    flxi_strbuf text;
    if (!m || !trace || !out || (trace->num_events && trace->event_capacity && !trace->events))
        return flxi_fail(err, FLX_E_USAGE,
                         "flx_report_trace: an executable, its trace and where to write must be given");
    size_t n = trace->num_events < trace->event_capacity ? trace->num_events : trace->event_capacity;
    flxi_strbuf_init(&text, flxi_context_mem(m->ctx));
    flxi_add_text(&text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,"
                         "\"name\":\"process_name\",\"args\":{\"name\":");
    flxi_json_string(&text, m->main->g->name);
    flxi_add_text(&text, "}}");
    for (size_t i = 0; i < n; i++)
        if (trace->events[i].step < m->all_steps.n)
            add_event(m, &trace->events[i], &text);
    flxi_add_text(&text, "\n]}\n");
    return flxi_buffer_finish(&text, m->ctx, out, err);
}
