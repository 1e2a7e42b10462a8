/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_plan.c: `flx plan`: what a run on a mesh would take, on paper. */
#include "args.h"
#include "commands.h"
#include "io/inputs.h"
#include "io/json_writer.h"
#include "io/profile_table.h"
#include "mesh/machine_file.h"
#include "mesh/mesh_cuts.h"
#include "report.h"

#include <fluxion/train.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *axes;
    int32_t zero;
    const machine_file *file; /* NULL: no times */
    const flx_graph *whole;   /* with static types, of one process */
    flx_graph *part;          /* of a rank */
    flx_partition_report counts;
    flx_mesh_plan plan, alone; /* alone: of one process; ranks 0: not known */
    double link_bytes[MACHINE_LINKS];
    flx_plan_exchange *list;
} planned;

/* ---- Planning ---- */

static const flx_machine *machine_of(const planned *p)
{
    return p->file ? &p->file->machine : NULL;
}

static int plan_part(planned *p)
{
    flx_error err = {0};
    p->plan = (flx_mesh_plan){.struct_size = sizeof p->plan};
    flx_code code = flx_plan_mesh(p->part, p->axes, machine_of(p), &p->plan, &err);
    if (code)
        return report(&err, NULL);
    p->list = calloc(p->plan.count + 1, sizeof *p->list);
    if (!p->list)
        return fail_memory();
    p->plan.list = p->list;
    p->plan.capacity = p->plan.count;
    p->plan.link_bytes = p->link_bytes;
    code = flx_plan_mesh(p->part, p->axes, machine_of(p), &p->plan, &err);
    return code ? report(&err, NULL) : STATUS_OK;
}

/* A graph that has exchanges already is not one for a single process. */
static void plan_alone(planned *p)
{
    p->alone = (flx_mesh_plan){.struct_size = sizeof p->alone};
    if (p->whole == p->part || flx_plan_mesh(p->whole, NULL, machine_of(p), &p->alone, NULL))
        p->alone.ranks = 0;
}

/* With --zero the options of the training cut the step, which becomes p->part. */
static int training_step(planned *p, const mesh_cuts *cuts, const args *a, flx_graph **g)
{
    const char *name = args_value(a, "--optimiser");
    flx_error err = {0};
    if (!name)
        return STATUS_OK;
    flx_train_options o = {.struct_size = sizeof o, .optimiser = flx_optimiser_find(name)};
    if (o.optimiser < 0) {
        int status = fail(FLX_E_NAME, "there is no optimiser '%s'", name);
        hint_list_begin("known are");
        for (int32_t i = 0; flx_optimiser_name(i); i++)
            list_item(flx_optimiser_name(i));
        hint_list_end();
        return status;
    }
    flx_graph *step = flx_training_graph(*g, &o, &err);
    if (step && p->zero) {
        o.mesh = p->axes;
        o.shardings = cuts->list;
        o.num_shardings = cuts->count;
        o.data_axis = "data";
        o.zero = p->zero;
        p->part = flx_training_graph(*g, &o, &err);
    }
    flx_graph_release(*g);
    *g = step;
    return step && (p->part || !p->zero) ? STATUS_OK : report(&err, NULL);
}

static int make_whole(planned *p, const mesh_cuts *cuts, const model *m, const args *a, flx_graph **out)
{
    inputs in = {0};
    flx_error err = {0};
    int status = inputs_read_dims(&in, m, a);
    if (!status) {
        *out = flx_specialise(m->graph, in.dims, in.num_dims, &err);
        status = *out ? training_step(p, cuts, a, out) : report(&err, m->name);
    }
    inputs_free(&in);
    return status;
}

/* ---- Telling ---- */

static const char *time_text(char text[24], double seconds)
{
    static const struct {
        double least;
        const char *unit;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    size_t i = 0;
    while (i + 1 < sizeof units / sizeof *units && seconds < units[i].least)
        i++;
    snprintf(text, 24, "%.3g %s", seconds / units[i].least, units[i].unit);
    return text;
}

/* The largest number means that or more. */
static bool is_open(int64_t n)
{
    return n == INT64_MAX;
}

typedef struct {
    char text[48];
} amount;

static amount amount_of(double n, const char *unit, bool is_open)
{
    char scaled[24];
    amount a;
    snprintf(a.text, sizeof a.text, "%s%s", is_open ? "at least " : "", scaled_text(scaled, n, unit));
    return a;
}

static amount sum_of(int64_t n, const char *unit)
{
    return amount_of((double)n, unit, is_open(n));
}

static amount count_of(int64_t n)
{
    amount a;
    snprintf(a.text, sizeof a.text, "%s%" PRId64, is_open(n) ? "at least " : "", n);
    return a;
}

static void print_memory(const planned *p)
{
    double sum = (double)p->plan.values + (double)p->plan.work;
    bool is_more = is_open(p->plan.values) || is_open(p->plan.work);
    printf("memory     %s: %s of values, %s to work in\n", amount_of(sum, "B", is_more).text,
           sum_of(p->plan.values, "B").text, sum_of(p->plan.work, "B").text);
    if (p->file && p->file->memory > 0 && sum > p->file->memory)
        printf("           more than the %s of a rank\n", amount_of(p->file->memory, "B", false).text);
}

static void print_exchanges(const planned *p)
{
    char time[24];
    printf("exchanges  %s, in which a rank sends %s in %s messages\n", count_of(p->plan.exchanges).text,
           sum_of(p->plan.bytes, "B").text, count_of(p->plan.messages).text);
    for (size_t i = 0; i < p->plan.count; i++) {
        const flx_plan_exchange *x = &p->list[i];
        printf("  %-18s %-12s %6s %-5s %10s%s%s\n", x->op, x->axis_name[0] ? x->axis_name : "all",
               count_of(x->count).text, plural(x->count, "time", "times"), sum_of(x->bytes, "B").text,
               p->file ? "  " : "", p->file ? time_text(time, x->seconds) : "");
    }
}

static void print_links(const planned *p)
{
    char bytes[24], time[24];
    for (uint32_t i = 0; i < p->file->machine.num_links; i++) {
        const flx_link *l = &p->file->links[i];
        printf("link       of %" PRId64 " %s: at most %s on a connection, %s\n", l->ranks,
               plural(l->ranks, "rank", "ranks"), scaled_text(bytes, p->link_bytes[i], "B"),
               time_text(time, p->link_bytes[i] / l->bandwidth));
    }
}

static void print_times(const planned *p)
{
    char all[24], computing[24], exchanging[24];
    double own = p->plan.run_seconds, alone = p->alone.run_seconds;
    double both = p->plan.compute_seconds + p->plan.exchange_seconds;
    printf("time       %s: computing %s, exchanging %s", time_text(all, own),
           time_text(computing, p->plan.compute_seconds), time_text(exchanging, p->plan.exchange_seconds));
    if (both - own > 1e-6 * both)
        printf(", %s of both at once", time_text(all, both - own));
    printf("\n");
    if (p->alone.ranks && own > 0)
        printf("one rank   %s: %" PRId64 " ranks are %.3g times as fast\n", time_text(all, alone), p->plan.ranks,
               alone / own);
}

static void print_plan(const planned *p)
{
    printf("mesh       %s: %" PRId64 " %s\n", p->axes, p->plan.ranks, plural(p->plan.ranks, "rank", "ranks"));
    if (!p->zero)
        printf("nodes      %" PRId64 " on parts, %" PRId64 " on whole values, of which %" PRId64 " were gathered\n",
               p->counts.cut, p->counts.whole, p->counts.gathered);
    printf("work       %s of a rank, %s read and written\n", sum_of(p->plan.flops, "FLOP").text,
           sum_of(p->plan.traffic, "B").text);
    print_memory(p);
    print_exchanges(p);
    if (p->file) {
        print_links(p);
        print_times(p);
    }
    if (p->plan.open_loops)
        printf("note       %" PRId64 " %s as one round each\n", p->plan.open_loops,
               plural(p->plan.open_loops, "loop, whose rounds depend on values, counts",
                      "loops, whose rounds depend on values, count"));
    if (p->plan.choices)
        printf("note       %" PRId64
               " choices between branches, which depend on values, count as the most that a branch "
               "takes\n",
               p->plan.choices);
}

static void json_plan(json *j, const planned *p)
{
    json_text(j, "mesh", p->axes);
    json_integer(j, "ranks", p->plan.ranks);
    if (!p->zero) {
        json_integer(j, "cut", p->counts.cut);
        json_integer(j, "whole", p->counts.whole);
        json_integer(j, "gathered", p->counts.gathered);
    }
    json_integer(j, "flops", p->plan.flops);
    json_integer(j, "traffic", p->plan.traffic);
    json_integer(j, "values", p->plan.values);
    json_integer(j, "work", p->plan.work);
    json_integer(j, "exchanges", p->plan.exchanges);
    json_integer(j, "messages", p->plan.messages);
    json_integer(j, "bytes", p->plan.bytes);
    json_integer(j, "open_loops", p->plan.open_loops);
    json_integer(j, "choices", p->plan.choices);
}

static void json_lists(json *j, const planned *p)
{
    json_array_begin(j, "by_op");
    for (size_t i = 0; i < p->plan.count; i++) {
        json_object_begin(j, NULL);
        json_text(j, "op", p->list[i].op);
        json_text(j, "axis_name", p->list[i].axis_name);
        json_integer(j, "count", p->list[i].count);
        json_integer(j, "messages", p->list[i].messages);
        json_integer(j, "bytes", p->list[i].bytes);
        if (p->file)
            json_number(j, "seconds", p->list[i].seconds, 24);
        json_object_end(j);
    }
    json_array_end(j);
    if (!p->file)
        return;
    json_array_begin(j, "links");
    for (uint32_t i = 0; i < p->file->machine.num_links; i++) {
        json_object_begin(j, NULL);
        json_integer(j, "ranks", p->file->links[i].ranks);
        json_number(j, "bytes", p->link_bytes[i], 53);
        json_number(j, "seconds", p->link_bytes[i] / p->file->links[i].bandwidth, 24);
        json_object_end(j);
    }
    json_array_end(j);
    json_number(j, "compute_seconds", p->plan.compute_seconds, 24);
    json_number(j, "exchange_seconds", p->plan.exchange_seconds, 24);
    json_number(j, "run_seconds", p->plan.run_seconds, 24);
    if (p->alone.ranks)
        json_number(j, "alone_seconds", p->alone.run_seconds, 24);
    if (p->file->memory > 0)
        json_bool(j, "fits", (double)p->plan.values + (double)p->plan.work <= p->file->memory);
}

static void tell(const planned *p, bool as_json)
{
    if (!as_json) {
        print_plan(p);
        return;
    }
    json j = {0};
    json_object_begin(&j, NULL);
    json_plan(&j, p);
    json_lists(&j, p);
    json_object_end(&j);
}

/* ---- The command ---- */

static int plan_model(const model *m, const args *a, const machine_file *file)
{
    planned p = {.axes = args_value(a, "--mesh"), .file = file, .counts = {.struct_size = sizeof p.counts}};
    flx_graph *whole = NULL;
    mesh_cuts cuts;
    int status = mesh_cuts_read(&cuts, a);
    int64_t zero = 0;
    const char *given = args_value(a, "--zero");
    if (!status && given && (!read_i64(given, &zero) || zero < 0 || zero > 3))
        status = fail(FLX_E_USAGE, "--zero must be 0, 1, 2 or 3, got '%s'", given);
    if (!status && given && !args_has(a, "--optimiser"))
        status = fail(FLX_E_USAGE, "--zero needs --optimiser: it is about a training step");
    p.zero = (int32_t)zero;
    if (!status)
        status = make_whole(&p, &cuts, m, a, &whole);
    p.whole = whole;
    if (!status)
        status = mesh_cuts_add_said(&cuts, whole);
    if (!status && !p.part)
        status = mesh_cuts_partition(&cuts, whole, p.axes, &p.part, &p.counts);
    if (!status)
        status = plan_part(&p);
    if (!status) {
        plan_alone(&p);
        mesh_cuts_note(m, p.axes);
        tell(&p, args_has(a, "--json"));
    }
    free(p.list);
    flx_graph_release(p.part);
    flx_graph_release(whole);
    mesh_cuts_free(&cuts);
    return status;
}

static int run_plan(const args *a)
{
    machine_file file = {0};
    model m = {0};
    const char *path = args_value(a, "--machine");
    if (!args_has(a, "--mesh")) {
        int status = fail(FLX_E_USAGE, "--mesh must be given");
        hint("for example --mesh data=4,model=2");
        return status;
    }
    int status = path ? machine_file_read(&file, path) : STATUS_OK;
    if (!status)
        status = model_open_chosen(&m, a);
    if (!status)
        status = plan_model(&m, a, path ? &file : NULL);
    model_close(&m);
    machine_file_free(&file);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    {"--mesh", "AXES", "the mesh, such as data=4,model=2; up to 8 axes and 1048576 ranks", MUST_BE_GIVEN},
    OPTION_SHARD,
    {"--optimiser", "NAME", "plan a training step of the graph, whose first output is the loss: sgd, adamw ...",
     MAY_BE_GIVEN},
    {"--zero", "N",
     "of a training step: the state of the optimiser (1, 2), parameters too (3), are\nalso cut along the axis data",
     MAY_BE_GIVEN},
    {"--machine", "FILE", "what a rank computes in a second and what joins the ranks; without it there\nare no times",
     MAY_BE_GIVEN},
    OPTION_SET,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx plan examples/mlp.flx --set N=64 --mesh data=4 --shard x=data,-",
    "flx plan examples/mlp.flx --set N=1048576 --mesh data=16 --shard x=data,- --optimiser adamw "
    "--machine examples/cluster.machine",
    "flx plan examples/mlp.flx --set N=64 --mesh data=2,model=2 --shard x=data,- --shard w1=-,model "
    "--shard w2=model,- --json",
    NULL,
};

const command command_plan = {
    .name = "plan",
    .operand = "FILE",
    .summary = "what a run on a mesh would take: bytes, memory and time",
    .about = "Cuts the main graph for a mesh, as flx run --mesh does, and adds up what a run takes on each rank, from\n"
             "types alone: nothing is run. The mesh may be larger than what this machine could run.\n"
             "\n"
             "The bytes are those that the rank with most sends to others. The memory is that of values, where a\n"
             "parameter and its next value count once, and what the steps work in. With --machine a step takes as\n"
             "long as its arithmetic or its memory, whichever is longer; an exchange takes as long as its busiest\n"
             "connection, beside steps that do not need its result. docs/distributed.md has the form of the file.\n"
             "\n"
             "--shard cuts inputs, parameters and outputs; with --optimiser also the state, as in\n"
             "state_w1_m=data,- and new_state_w1_m=data,-. With --zero names may be patterns, such as block*.w, and\n"
             "state is cut as its parameter.",
    .options = options,
    .examples = examples,
    .run = run_plan,
};
