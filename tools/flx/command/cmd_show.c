/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_show.c: `flx show`: a graph as text or as a drawing, at any stage of compiling. */
#include "args.h"
#include "command/cmd_devices.h"
#include "commands.h"
#include "compiling.h"
#include "gguf/show_gguf.h"
#include "io/drawing.h"
#include "io/inputs.h"
#include "io/json_writer.h"
#include "io/load.h"
#include "io/output.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

/* ---- Texts ---- */

/* Writes the text of a stage. */
typedef flx_code (*stage_fn)(const model *m, const flx_compile_options *o, flx_buffer *text, flx_error *err);

static flx_code write_file(const model *m, const flx_compile_options *o, flx_buffer *text, flx_error *err)
{
    (void)o;
    return m->is_chosen ? flx_graph_print(m->graph, text, err) : flx_module_print(m->module, text, err);
}

static flx_code write_mir(const model *m, const flx_compile_options *o, flx_buffer *text, flx_error *err)
{
    return flx_show_stage(m->graph, FLX_STAGE_MIR, o, text, err);
}

static flx_code write_lir(const model *m, const flx_compile_options *o, flx_buffer *text, flx_error *err)
{
    return flx_show_stage(m->graph, FLX_STAGE_LIR, o, text, err);
}

static flx_code write_c(const model *m, const flx_compile_options *o, flx_buffer *text, flx_error *err)
{
    return flx_show_stage(m->graph, FLX_STAGE_C, o, text, err);
}

/* Needs no card. */
static flx_code write_for(const char *device, const model *m, const flx_compile_options *o, flx_buffer *text,
                          flx_error *err)
{
    flx_compile_options for_card = *o;
    for_card.device = device;
    return flx_show_stage(m->graph, FLX_STAGE_C, &for_card, text, err);
}

static flx_code write_cuda(const model *m, const flx_compile_options *o, flx_buffer *text, flx_error *err)
{
    return write_for("cuda", m, o, text, err);
}

static flx_code write_opencl(const model *m, const flx_compile_options *o, flx_buffer *text, flx_error *err)
{
    return write_for("opencl", m, o, text, err);
}

static const struct {
    const char *name;
    stage_fn write; /* NULL: shown in a way of its own */
} stages[] = {
    {"hir", write_file},  {"mir", write_mir},       {"lir", write_lir}, {"c", write_c},
    {"cuda", write_cuda}, {"opencl", write_opencl}, {"report", NULL},   {0},
};

static int show_text(const model *m, const args *a, const char *stage, stage_fn write, const flx_compile_options *o)
{
    flx_buffer text = {0};
    flx_error err = {0};
    if (write(m, o, &text, &err))
        return report(&err, m->name);
    if (args_has(a, "--json")) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_text(&j, "graph", flx_graph_name(m->graph));
        json_text(&j, "stage", stage);
        json_text(&j, "text", text.data);
        json_object_end(&j);
    } else {
        fwrite(text.data, 1, text.size, stdout);
    }
    flx_buffer_free(&text);
    return STATUS_OK;
}

/* ---- The report ---- */

static void print_steps(const flx_exec *e)
{
    flx_step s;
    for (size_t i = 0; flx_exec_step(e, i, &s) == FLX_OK; i++) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_integer(&j, "step", (int64_t)i);
        json_text(&j, "routine", s.routine);
        json_integer(&j, "depth", s.depth);
        json_text(&j, "kind", s.kind);
        json_text(&j, "name", s.name);
        json_text(&j, "computes", s.computes);
        json_text(&j, "why", s.why);
        json_integer(&j, "bytes", s.bytes);
        json_integer(&j, "flops", s.flops);
        json_object_end(&j);
    }
}

static int tell_unbound(const model *m, const inputs *in)
{
    fail_list_begin("graph '%s' has dimensions without an extent", flx_graph_name(m->graph));
    const char *symbol;
    for (size_t i = 0; (symbol = flx_graph_symbol(m->graph, i)) != NULL; i++) {
        bool is_known = false;
        for (size_t k = 0; k < in->num_dims; k++)
            is_known |= strcmp(in->dims[k].name, symbol) == 0;
        if (!is_known)
            list_item(symbol);
    }
    int status = fail_list_end(FLX_E_UNBOUND_DIM);
    hint("give --set DIM=INT for each");
    return status;
}

static int show_report(const model *m, const args *a, const flx_compile_options *o)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_exec *e = flx_compile(m->graph, o, &err);
    int status = e ? STATUS_OK : compiling_failed(&err);
    if (!status && args_has(a, "--json")) {
        print_steps(e);
    } else if (!status) {
        status = flx_exec_report(e, &text, &err) ? report(&err, m->name) : STATUS_OK;
        fwrite(text.data ? text.data : "", 1, text.size, stdout);
    }
    flx_buffer_free(&text);
    flx_exec_free(e);
    return status;
}

/* ---- Drawings ---- */

static const struct {
    const char *option;
    int form; /* a flx_drawing; 0: a page */
} drawings[] = {{"--html", 0}, {"--svg", FLX_DRAWING_SVG}, {"--dot", FLX_DRAWING_DOT}, {0}};

static int write_drawings(const model *m, const args *a, const flx_report_graph *what)
{
    int status = STATUS_OK;
    for (size_t i = 0; !status && drawings[i].option; i++) {
        const char *path = args_value(a, drawings[i].option);
        if (path && drawings[i].form)
            status = drawing_write(what, (flx_drawing)drawings[i].form, path);
        else if (path)
            status = drawing_write_html(m->ctx, what, path);
    }
    return status;
}

static bool is_drawn(const args *a)
{
    for (size_t i = 0; drawings[i].option; i++)
        if (args_has(a, drawings[i].option))
            return true;
    return false;
}

/* The graph after all passes is known as text, which reads back to the same graph. */
static int draw_mir(const model *m, const args *a, const flx_compile_options *o)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_module *module = NULL;
    if (write_mir(m, o, &text, &err) == FLX_OK)
        module = flx_parse(m->ctx, text.data, text.size, m->name, &err);
    const flx_report_graph what = {
        .struct_size = sizeof what, .title = flx_graph_name(m->graph), .graph = flx_module_main(module)};
    int status = module ? write_drawings(m, a, &what) : report(&err, m->name);
    flx_module_free(module);
    flx_buffer_free(&text);
    return status;
}

static int draw_program(const model *m, const args *a, const flx_compile_options *o)
{
    flx_error err = {0};
    flx_exec *e = flx_compile(m->graph, o, &err);
    const flx_report_graph what = {
        .struct_size = sizeof what, .title = flx_graph_name(m->graph), .graph = m->graph, .exec = e};
    int status = e ? write_drawings(m, a, &what) : compiling_failed(&err);
    flx_exec_free(e);
    return status;
}

static int draw(const model *m, const args *a, size_t stage, const flx_compile_options *o)
{
    const flx_report_graph written = {
        .struct_size = sizeof written, .title = flx_graph_name(m->graph), .graph = m->graph};
    if (stages[stage].write == write_file)
        return write_drawings(m, a, &written);
    if (stages[stage].write == write_mir)
        return draw_mir(m, a, o);
    if (stages[stage].write == write_lir || strcmp(stages[stage].name, "report") == 0)
        return draw_program(m, a, o);
    int status = fail(FLX_E_USAGE, "the stage '%s' is text and cannot be drawn", stages[stage].name);
    hint("stages that can be drawn: hir, mir, lir, report");
    return status;
}

/* ---- The command ---- */

static int unknown_stage(const char *stage)
{
    int status = fail(FLX_E_USAGE, "unknown stage '%s'", stage);
    hint_list_begin("stages");
    for (size_t i = 0; stages[i].name; i++)
        list_item(stages[i].name);
    hint_list_end();
    return status;
}

static int show_stage(const model *m, const args *a, size_t stage)
{
    inputs in;
    flx_compile_options options;
    int status = inputs_read_dims(&in, m, a);
    if (!status)
        status = compiling_read(a, "cpu", &options);
    if (!status) {
        options.dims = in.dims;
        options.num_dims = in.num_dims;
    }
    size_t symbols = 0;
    while (flx_graph_symbol(m->graph, symbols))
        symbols++;
    bool is_bound = in.num_dims == symbols;
    if (!status && !is_bound && stages[stage].write != write_file && stages[stage].write != write_mir)
        status = tell_unbound(m, &in);
    if (!status && is_drawn(a))
        status = draw(m, a, stage, &options);
    else if (!status)
        status = stages[stage].write ? show_text(m, a, stages[stage].name, stages[stage].write, &options)
                                     : show_report(m, a, &options);
    inputs_free(&in);
    return status;
}

static int run_show(const args *a)
{
    static const char *const written[] = {"--html", "--svg", "--dot", NULL};
    const char *name = args_value(a, "--stage");
    size_t stage = 0;
    while (name && stages[stage].name && strcmp(stages[stage].name, name) != 0)
        stage++;
    if (!stages[stage].name)
        return unknown_stage(name);
    if (output_check_distinct(a, written))
        return STATUS_BAD_INPUT;
    if (is_gguf(a->operand))
        return show_gguf(a->operand, args_has(a, "--json"));
    model m;
    int status = model_open_chosen(&m, a);
    if (!status)
        status = show_stage(&m, a, stage);
    model_close(&m);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    {"--stage", "STAGE", "hir, mir, lir, c, cuda, opencl or report; hir, the graphs of the file, unless given",
     MAY_BE_GIVEN},
    {"--html", "OUT", "write a page with the graph to look at in a browser; it needs no network", MAY_BE_GIVEN},
    {"--svg", "OUT", "write a picture", MAY_BE_GIVEN},
    {"--dot", "OUT", "write a description for Graphviz", MAY_BE_GIVEN},
    OPTION_SET,
    OPTION_MEMORY,
    OPTION_NO_GROUPING,
    OPTION_NO_COMPILER,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx show examples/mlp.flx",
    "flx show examples/newton.flx | flx check -",
    "flx show examples/mlp.flx --stage mir --set N=4 | flx check - --json",
    "flx show examples/newton.flx --stage lir",
    "flx show examples/newton.flx --stage c | grep -c 'void flxk_'",
    "flx show examples/newton.flx --stage report --no-compiler --json",
    "flx show examples/gpt2.flx --html gpt2.html --svg gpt2.svg",
    "flx grad examples/mlp.flx --wrt w1,w2 --value | flx show - --dot - | grep -c subgraph",
    NULL,
};

const command command_show = {
    .name = "show",
    .operand = "FILE",
    .summary = "print a graph as text or draw it, at any stage of compiling",
    .about = "Prints every graph of the file, one op per line, bodies before the graphs that use them.\n"
             "The text reads back to exactly the same graphs. Binary files are shown as text too. With --graph\n"
             "only that graph is printed, after those that it uses.\n"
             "\n"
             "--stage shows the main graph at a stage of the compiler:\n"
             "  hir     the graphs of the file, as they are\n"
             "  mir     the graph after all passes, which reads back too; with dimensions that have no extent,\n"
             "          the graph as flx lower writes it\n"
             "  lir     steps in order, each a kernel, a route, a loop or one op by the reference evaluator, and\n"
             "          where in memory it reads and writes\n"
             "  c       the C text of the kernels\n"
             "  cuda, opencl\n"
             "          CUDA C or OpenCL C that the kernels become for a card, which need not be there\n"
             "  report  like lir, with the ops that each step computes and why no better way was taken\n"
             "All but hir and mir need the extents of all symbolic dimensions.\n"
             "\n"
             "--html, --svg and --dot draw the main graph instead; OUT is a file, or - for standard output. Of the\n"
             "stages lir and report the page shows the graph as written and as compiled, which kernel each op\n"
             "went to, and the memory plan.\n"
             "\n"
             "Of a GGUF file (.gguf) the named values and a table of the tensors are printed.",
    .options = options,
    .examples = examples,
    .run = run_show,
};
