/* SPDX-License-Identifier: Apache-2.0 */
/* exact_graph.c: see exact_graph.h. */
#include "exact_graph.h"

#include "mutate/mutate.h"
#include "process.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_line(FILE *f, size_t i)
{
    static const char *const unary[] = {"neg", "abs", "relu", "square"};
    size_t from = pick_below(i + 1), other = pick_below(i + 1);
    int k = (int)pick_below(7) - 3;
    switch (pick_below(5)) {
    case 0: fprintf(f, "  v%zu = min(%s(v%zu), 50)\n", i + 1, unary[pick_below(4)], from); break;
    case 1: fprintf(f, "  v%zu = max(min(add(v%zu, v%zu), 90), -90)\n", i + 1, from, other); break;
    case 2: fprintf(f, "  v%zu = max(min(mul(v%zu, %d), 70), -70)\n", i + 1, from, k); break;
    case 3: fprintf(f, "  v%zu = where(gt(v%zu, %d), v%zu, sub(v%zu, 1))\n", i + 1, from, k, other, from); break;
    default: fprintf(f, "  v%zu = sub(v%zu, %d)\n", i + 1, other, k); break;
    }
}

void write_exact_graph(const char *dir)
{
    char *text = NULL, path[900];
    size_t size = 0, n = 2 + pick_below(6);
    FILE *f = open_memstream(&text, &size);
    CHECK(f);
    fprintf(f, "graph f(v0: f32[%zu, %zu]) {\n", 1 + pick_below(9), 1 + pick_below(20));
    for (size_t i = 0; i < n; i++)
        say_line(f, i);
    fprintf(f, "  return v%zu, reduce_sum(v%zu, axes=[%zu]), reduce_max(v%zu)\n}\n", n, pick_below(n + 1),
            pick_below(2), pick_below(n + 1));
    fclose(f);
    snprintf(path, sizeof path, "%s/g.flx", dir);
    write_file(path, text, size, 0600);
    free(text);
}

const char *const exact_run[] = {"run", "g.flx", "--in", "v0=iota", NULL};

void expect_exact(const char *dir, char *out)
{
    static process_result r;
    static const char *const by_definition[] = {"run", "g.flx", "--in", "v0=iota", "--device", "ref", NULL};
    run_flx(dir, by_definition, NULL, &r);
    need_sane(&r, "the reference");
    CHECK_MSG(r.status == 0, "%s", r.err);
    memcpy(out, r.out, sizeof r.out);
}
