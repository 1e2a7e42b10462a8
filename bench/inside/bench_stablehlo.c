/* SPDX-License-Identifier: Apache-2.0 */
/* bench_stablehlo.c: how fast StableHLO text is parsed, in MB/s of text: of files, and of text made for it where most
   is operations, decimals or hexadecimal data.

       bench_stablehlo [FILE...] */
#include "inside.h"
#include "stablehlo/syntax/syntax.h"

#include <stdio.h>
#include <stdlib.h>

enum { rounds = 7 };

typedef struct {
    char *at;
    size_t size;
} text;

static void parse(const char *name, const text *t, size_t *held)
{
    hlo_module m;
    flx_error err = {0};
    if (flxi_hlo_parse(&mem, t->at, t->size, name, &m, &err) != FLX_OK) {
        fprintf(stderr, "%s: %s\n", err.where, err.message);
        exit(2);
    }
    *held += m.arena.held;
    flxi_hlo_module_free(&m);
}

/* The best of several rounds over all texts. */
/* Processor time: the parser never waits, and other processes may be running. */
static void measure(const char *name, const text *texts, size_t n)
{
    double best = 1e30;
    size_t bytes = 0;
    size_t held = 0;
    for (size_t i = 0; i < n; i++)
        bytes += texts[i].size;
    for (int r = 0; r < rounds; r++) {
        double start = seconds_by(CLOCK_PROCESS_CPUTIME_ID);
        held = 0;
        for (size_t i = 0; i < n; i++)
            parse(name, &texts[i], &held);
        double spent = seconds_by(CLOCK_PROCESS_CPUTIME_ID) - start;
        best = spent < best ? spent : best;
    }
    printf("%-24s %8.2f MB %10.1f MB/s, tree %.2f times the text\n", name, (double)bytes * 1e-6,
           (double)bytes * 1e-6 / best, (double)held / (double)bytes);
}

static text read_file(const char *path)
{
    text t = {0};
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    FILE *o = open_memstream(&t.at, &t.size);
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        fwrite(block, 1, n, o);
    fclose(f);
    fclose(o);
    return t;
}

static void write_ops(FILE *o)
{
    for (int i = 0; i < 20000; i++)
        fprintf(o, "    %%%d = stablehlo.%s %%x, %%x : tensor<8x16xf32>\n", i, i % 2 ? "add" : "multiply");
}

static void write_decimals(FILE *o)
{
    fputs("    %0 = stablehlo.constant dense<[", o);
    for (int i = 0; i < 100000; i++)
        fprintf(o, "%s%.6e", i ? ", " : "", (i - 50000) * 1.2345e-3);
    fputs("]> : tensor<100000xf32>\n", o);
}

static void write_data(FILE *o)
{
    fputs("    %0 = stablehlo.constant dense<\"0x", o);
    for (int i = 0; i < 1000000; i++)
        fprintf(o, "%08X", (unsigned)i * 2654435761u);
    fputs("\"> : tensor<1000000xf32>\n", o);
}

static void measure_made(const char *name, void (*write)(FILE *o))
{
    text t = {0};
    FILE *o = open_memstream(&t.at, &t.size);
    if (!o)
        exit(3);
    fputs("module {\n  func.func @main(%x: tensor<8x16xf32>) {\n", o);
    write(o);
    fputs("    return\n  }\n}\n", o);
    fclose(o);
    measure(name, &t, 1);
    free(t.at);
}

int main(int argc, char **argv)
{
    measure_made("operations", write_ops);
    measure_made("decimals", write_decimals);
    measure_made("hexadecimal data", write_data);
    if (argc == 1)
        return 0;
    size_t n = (size_t)argc - 1;
    text *texts = calloc(n, sizeof *texts);
    if (!texts)
        return 3;
    for (size_t i = 0; i < n; i++)
        texts[i] = read_file(argv[i + 1]);
    char name[32];
    snprintf(name, sizeof name, "%zu files", n);
    measure(name, texts, n);
    for (size_t i = 0; i < n; i++)
        free(texts[i].at);
    free(texts);
    return 0;
}
