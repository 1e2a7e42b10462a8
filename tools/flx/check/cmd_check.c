/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_check.c: `flx check`: read, infer, verify, and say what the graph takes, gives and consists of. */
#include "args.h"
#include "commands.h"
#include "io/json_writer.h"
#include "io/load.h"
#include "io/summary.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *op;
    size_t count;
} op_count;

typedef struct {
    op_count *ops; /* most frequent first, then by name */
    size_t num_ops;
    const flx_graph **bodies; /* the sub-graphs used, each once, in order of first use */
    size_t num_bodies;
    size_t nodes; /* of the graph and its bodies; declarations of inputs are none */
} census;

/* ---- Counting ---- */

static int count_op(census *c, const char *op)
{
    c->nodes++;
    for (size_t i = 0; i < c->num_ops; i++) {
        if (strcmp(c->ops[i].op, op) == 0) {
            c->ops[i].count++;
            return STATUS_OK;
        }
    }
    op_count *more = realloc(c->ops, (c->num_ops + 1) * sizeof *more);
    if (!more)
        return fail_memory();
    c->ops = more;
    c->ops[c->num_ops++] = (op_count){op, 1};
    return STATUS_OK;
}

static int note_body(census *c, const flx_graph *body)
{
    for (size_t i = 0; i < c->num_bodies; i++)
        if (c->bodies[i] == body)
            return STATUS_OK;
    const flx_graph **more = realloc(c->bodies, (c->num_bodies + 1) * sizeof *more);
    if (!more)
        return fail_memory();
    c->bodies = more;
    c->bodies[c->num_bodies++] = body;
    return STATUS_OK;
}

/* Declared inputs are nodes of the library's graph, but not of the user's: they are listed by name instead. */
static bool is_declaration(const char *op)
{
    return strcmp(op, "input") == 0 || strcmp(op, "param") == 0;
}

static int count_graph(census *c, const flx_graph *g)
{
    int status = STATUS_OK;
    size_t n = flx_graph_node_count(g);
    for (size_t i = 0; !status && i < n; i++) {
        flx_node_view node;
        if (flx_graph_node(g, i, &node) != FLX_OK || is_declaration(node.op))
            continue;
        status = count_op(c, node.op);
        for (uint32_t k = 0; !status && k < node.num_graphs; k++)
            status = note_body(c, flx_node_graph(g, i, k));
    }
    return status;
}

static int by_count(const void *a, const void *b)
{
    const op_count *x = a;
    const op_count *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return strcmp(x->op, y->op);
}

/* A body found while counting is counted in its turn, so the loop covers bodies of bodies. */
static int count_all(census *c, const flx_graph *g)
{
    int status = count_graph(c, g);
    for (size_t i = 0; !status && i < c->num_bodies; i++)
        status = count_graph(c, c->bodies[i]);
    if (!status && c->num_ops)
        qsort(c->ops, c->num_ops, sizeof *c->ops, by_count);
    return status;
}

/* ---- As text ---- */

static void print_value(const model *m, const char *name, const flx_type *type)
{
    char *text = type_text(m->ctx, type);
    printf("  %s: %s\n", name, text ? text : "");
    free(text);
}

static void print_inputs(const model *m, const char *heading, int params)
{
    bool any = false;
    for (size_t i = 0; i < flx_graph_input_count(m->graph); i++) {
        flx_val v = flx_graph_input(m->graph, i);
        if (!flx_graph_input_is_param(m->graph, i) != !params)
            continue;
        if (!any)
            printf("%s:\n", heading);
        any = true;
        print_value(m, flx_val_name(m->graph, v), flx_val_type(m->graph, v));
    }
}

static void print_outputs(const model *m)
{
    size_t n = flx_graph_output_count(m->graph);
    if (n)
        puts("outputs:");
    for (size_t i = 0; i < n; i++)
        print_value(m, flx_graph_output_name(m->graph, i), flx_val_type(m->graph, flx_graph_output(m->graph, i)));
}

static void print_symbols(const model *m)
{
    const char *symbol;
    for (size_t i = 0; (symbol = flx_graph_symbol(m->graph, i)) != NULL; i++)
        printf("%s%s", i ? ", " : "symbols: ", symbol);
    if (flx_graph_symbol(m->graph, 0))
        putchar('\n');
}

static void print_text(const model *m, const census *c)
{
    printf("graph %s\n", flx_graph_name(m->graph));
    print_inputs(m, "inputs", 0);
    print_inputs(m, "parameters", 1);
    print_outputs(m);
    print_symbols(m);
    for (size_t i = 0; i < c->num_bodies; i++)
        printf("%s%s", i ? ", " : "sub-graphs: ", flx_graph_name(c->bodies[i]));
    if (c->num_bodies)
        putchar('\n');
    printf("nodes: %zu\n", c->nodes);
    for (size_t i = 0; i < c->num_ops; i++)
        printf("  %zu %s\n", c->ops[i].count, c->ops[i].op);
}

/* ---- As JSON ---- */

static void json_value(json *j, const model *m, const char *name, const flx_type *type)
{
    json_object_begin(j, NULL);
    json_text(j, "name", name);
    type_json(j, m->ctx, type);
    json_object_end(j);
}

static void json_inputs(json *j, const model *m, const char *key, int params)
{
    json_array_begin(j, key);
    for (size_t i = 0; i < flx_graph_input_count(m->graph); i++) {
        flx_val v = flx_graph_input(m->graph, i);
        if (!flx_graph_input_is_param(m->graph, i) == !params)
            json_value(j, m, flx_val_name(m->graph, v), flx_val_type(m->graph, v));
    }
    json_array_end(j);
}

static void print_json(const model *m, const census *c)
{
    json j = {0};
    json_object_begin(&j, NULL);
    json_text(&j, "graph", flx_graph_name(m->graph));
    json_inputs(&j, m, "inputs", 0);
    json_inputs(&j, m, "parameters", 1);
    json_array_begin(&j, "outputs");
    for (size_t i = 0; i < flx_graph_output_count(m->graph); i++)
        json_value(&j, m, flx_graph_output_name(m->graph, i), flx_val_type(m->graph, flx_graph_output(m->graph, i)));
    json_array_end(&j);
    json_array_begin(&j, "symbols");
    const char *symbol;
    for (size_t i = 0; (symbol = flx_graph_symbol(m->graph, i)) != NULL; i++)
        json_text(&j, NULL, symbol);
    json_array_end(&j);
    json_array_begin(&j, "subgraphs");
    for (size_t i = 0; i < c->num_bodies; i++)
        json_text(&j, NULL, flx_graph_name(c->bodies[i]));
    json_array_end(&j);
    json_unsigned(&j, "nodes", c->nodes);
    json_object_begin(&j, "ops");
    for (size_t i = 0; i < c->num_ops; i++)
        json_unsigned(&j, c->ops[i].op, c->ops[i].count);
    json_object_end(&j);
    json_object_end(&j);
}

/* ---- The command ---- */

static int check(const model *m, const args *a)
{
    flx_error err = {0};
    for (size_t i = 0; i < flx_module_count(m->module); i++)
        if (flx_graph_verify(flx_module_graph(m->module, i), &err))
            return report(&err, m->name);
    census c = {0};
    int status = count_all(&c, m->graph);
    if (!status) {
        if (args_has(a, "--json"))
            print_json(m, &c);
        else
            print_text(m, &c);
    }
    free(c.ops);
    free(c.bodies);
    return status;
}

static int run_check(const args *a)
{
    model m;
    int status = model_open(&m, a->operand);
    if (!status)
        status = check(&m, a);
    model_close(&m);
    return status;
}

static const option options[] = {OPTION_JSON, {0}};

static const char *const examples[] = {
    "flx check examples/mlp.flx",
    "flx check --json examples/mlp.flx",
    "echo 'graph f(x: f32[3]) { return exp(x) }' | flx check -",
    NULL,
};

const command command_check = {
    .name = "check",
    .operand = "FILE",
    .summary = "read, infer and verify a graph",
    .about = "Reads the file, infers every type, verifies every graph in it, and prints of the main graph\n"
             "its inputs, parameters, outputs, symbolic dimensions, sub-graphs and how often it uses each op,\n"
             "sub-graphs included. The main graph is the one called main, otherwise the last one.",
    .options = options,
    .examples = examples,
    .run = run_check,
};
