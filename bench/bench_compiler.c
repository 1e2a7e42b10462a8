/* SPDX-License-Identifier: Apache-2.0 */
/* bench_compiler.c: how fast the compiler's own front end is, and that its cost grows linearly: building through the
   API, printing, parsing, verifying, hashing, encoding, decoding, specialising and transforming graphs of 10^3 … 10^6
   simple nodes.

       bench_compiler [LARGEST]      (default 1000000)

   Prints seconds and nodes per second for each size, and bytes per node. */
#include "bench.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>

static void report(const char *what, size_t nodes, double seconds)
{
    printf("  %-12s %9.4f s  %8.2f M nodes/s\n", what, seconds, (double)nodes / seconds * 1e-6);
}

static void fail(const flx_error *err)
{
    fprintf(stderr, "error: %s\n", err->message);
    exit(3);
}

/* A chain in which each node also uses an earlier one, with a constant and an attribute now and then. */
static flx_graph *build(flx_context *ctx, size_t nodes)
{
    flx_dim dims[] = {flx_dim_symbol(ctx, "N"), 16};
    flx_type type = flx_type_make(FLX_F32, 2, dims);
    flx_graph *g = flx_graph_new(ctx, "chain");
    flx_val x = flx_input(g, "x", &type);
    flx_val earlier = x;
    for (size_t i = 1; i < nodes; i++) {
        flx_val y;
        switch (i % 4) {
        case 0: y = flx_tanh(g, x); break;
        case 1: y = flx_add(g, x, earlier); break;
        case 2: y = flx_mul(g, x, earlier); break;
        default: y = flx_softmax(g, x, -1); break;
        }
        earlier = x;
        x = y;
    }
    flx_output(g, x, "y");
    return g;
}

/* The loss is the sum of the last value; the gradient with respect to x passes through every node. */
static void measure_transforms(const flx_graph *g, size_t nodes)
{
    static const char *const wrt[] = {"x"};
    flx_error err = {0};
    flx_grad_options seed = {.flags = FLX_GRAD_SEED_INPUT};
    flx_vmap_axis axis = {"x", 0};

    double t = now();
    flx_graph *d = flx_grad(g, wrt, 1, &seed, &err);
    if (!d)
        fail(&err);
    report("grad", nodes, now() - t);
    printf("  %-12s %9.2f nodes per node\n", "", (double)flx_graph_node_count(d) / (double)nodes);
    flx_graph_release(d);

    t = now();
    d = flx_jvp(g, wrt, 1, &err);
    if (!d)
        fail(&err);
    report("jvp", nodes, now() - t);
    printf("  %-12s %9.2f nodes per node\n", "", (double)flx_graph_node_count(d) / (double)nodes);
    flx_graph_release(d);

    t = now();
    d = flx_vmap(g, &axis, 1, NULL, 0, 8, &err);
    if (!d)
        fail(&err);
    report("vmap", nodes, now() - t);
    flx_graph_release(d);
}

static flx_module *measure_text(flx_context *ctx, const flx_graph *g, size_t nodes)
{
    flx_error err = {0};
    flx_buffer text = {0};
    double t = now();
    if (flx_graph_print(g, &text, &err) != FLX_OK)
        fail(&err);
    report("print", nodes, now() - t);
    t = now();
    flx_module *m = flx_parse(ctx, text.data, text.size, "chain", &err);
    if (!m)
        fail(&err);
    report("parse", nodes, now() - t);
    flx_buffer_free(&text);
    return m;
}

static void measure_bytes(flx_context *ctx, const flx_graph *g, size_t nodes)
{
    flx_error err = {0};
    flx_buffer bytes = {0};
    double t = now();
    if (flx_graph_encode(g, &bytes, &err) != FLX_OK)
        fail(&err);
    report("encode", nodes, now() - t);
    t = now();
    flx_module *decoded = flx_decode(ctx, bytes.data, bytes.size, "chain", &err);
    if (!decoded)
        fail(&err);
    report("decode", nodes, now() - t);
    flx_module_free(decoded);
    flx_buffer_free(&bytes);
}

static void measure(size_t nodes)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_dim_binding binding = {"N", 32};
    printf("%zu nodes\n", nodes);
    double t = now();
    flx_graph *g = build(ctx, nodes);
    report("build", nodes, now() - t);
    if (flx_graph_error(g, &err) != FLX_OK)
        fail(&err);
    printf("  %-12s %9zu bytes per node\n", "memory", flx_graph_memory(g) / nodes);
    flx_module *m = measure_text(ctx, g, nodes);

    t = now();
    if (flx_graph_verify(g, &err) != FLX_OK)
        fail(&err);
    report("verify", nodes, now() - t);

    t = now();
    uint64_t hash = flx_graph_hash(g);
    report("hash", nodes, now() - t);
    if (hash != flx_graph_hash(flx_module_main(m)))
        fprintf(stderr, "error: the text reads back to another graph\n");
    measure_bytes(ctx, g, nodes);

    t = now();
    flx_graph *special = flx_specialise(g, &binding, 1, &err);
    if (!special)
        fail(&err);
    report("specialise", nodes, now() - t);

    measure_transforms(g, nodes);
    flx_graph_release(special);
    flx_module_free(m);
    flx_graph_release(g);
    flx_context_free(ctx);
}

int main(int argc, char **argv)
{
    size_t largest = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
    for (size_t nodes = 1000; nodes <= largest; nodes *= 10)
        measure(nodes);
    return 0;
}
