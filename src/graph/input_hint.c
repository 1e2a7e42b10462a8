/* SPDX-License-Identifier: Apache-2.0 */
/* input_hint.c: what a name that no input has was meant to be. */
#include "graph/input_hint.h"

#include "graph/graph.h"
#include "graph/text/typo.h"

#include <stdio.h>

enum { LONGEST_SHOWN = 40 };

static void hint_leaf(flx_error *err, const flx_graph *g, const char *name, bool is_fed)
{
    char list[100] = "";
    size_t at = 0;
    size_t n = strlen(name);
    flxi_typo typo = flxi_typo_begin(name, n, n / 3);
    for (size_t i = 0; i < g->leaves.n; i++) {
        const char *input = flxi_value_at(g, g->leaves.at[i])->name;
        if (is_fed && flx_graph_input_is_param(g, i))
            continue;
        flxi_typo_consider(&typo, input, strlen(input));
        if (at < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", input);
    }
    bool has_all = at < sizeof list;
    if (typo.best && (!has_all || at > LONGEST_SHOWN))
        flxi_hint(err, "did you mean '%s'?", typo.best);
    else if (typo.best)
        flxi_hint(err, "did you mean '%s'? its inputs: %s", typo.best, list);
    else if (has_all)
        flxi_hint(err, "its inputs: %s", at ? list : "none");
    else
        flxi_hint(err, "its inputs: %.90s...", list);
}

void flxi_hint_input(flx_error *err, const flx_graph *g, const char *name)
{
    hint_leaf(err, g, name, false);
}

void flxi_hint_fed_input(flx_error *err, const flx_graph *g, const char *name)
{
    hint_leaf(err, g, name, true);
}
