/* cmd_show.c: `flx show`: a graph as text. */
#include "args.h"
#include "commands.h"
#include "json_writer.h"
#include "load.h"
#include "report.h"

#include <stdio.h>
#include <string.h>

static const char *const stages[] = {"hir", "mir", "lir", "c", "cuda", NULL};

/* The graphs of a file are at the stage mir; the compiler makes no other yet. */
static int check_stage(const char *stage)
{
    for (const char *const *s = stages; *s; s++) {
        if (strcmp(*s, stage) != 0)
            continue;
        if (strcmp(stage, "mir") == 0)
            return STATUS_OK;
        int status = fail(FLX_E_UNSUPPORTED, "stage '%s' cannot be shown by this version", stage);
        hint("--stage mir shows the graphs of the file");
        return status;
    }
    int status = fail(FLX_E_USAGE, "unknown stage '%s'", stage);
    hint_list_begin("stages");
    for (const char *const *s = stages; *s; s++)
        list_item(*s);
    hint_list_end();
    return status;
}

static int show(const model *m, const args *a)
{
    flx_buffer text = {0};
    flx_error err = {0};
    if (flx_module_print(m->module, &text, &err))
        return report(&err, m->name);
    if (args_has(a, "--json")) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_text(&j, "graph", flx_graph_name(m->graph));
        json_text(&j, "stage", "mir");
        json_text(&j, "text", text.data);
        json_object_end(&j);
    } else {
        fwrite(text.data, 1, text.size, stdout);
    }
    flx_buffer_free(&text);
    return STATUS_OK;
}

static int run_show(const args *a)
{
    const char *stage = args_value(a, "--stage");
    int status = stage ? check_stage(stage) : STATUS_OK;
    if (status)
        return status;
    model m;
    status = model_open(&m, a->operand);
    if (!status)
        status = show(&m, a);
    model_close(&m);
    return status;
}

static const option options[] = {
    {"--stage", "STAGE", "hir, mir, lir, c or cuda; only mir, the graphs of the file, so far", MAY_BE_GIVEN},
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx show examples/mlp.flx",
    "flx show examples/newton.flx | flx check -",
    NULL,
};

const command command_show = {
    .name = "show",
    .operand = "FILE",
    .summary = "print a graph as text",
    .about = "Prints every graph of the file, one op per line, bodies before the graphs that use them.\n"
             "The text reads back to exactly the same graphs. Binary files are shown as text too.",
    .options = options,
    .examples = examples,
    .run = run_show,
};
