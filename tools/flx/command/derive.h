/* SPDX-License-Identifier: Apache-2.0 */
/* derive.h: what the commands that make a graph of a graph share: reading FILE, the names of --wrt, writing the result
   to OUT. Each command brings one function that calls the library. */
#ifndef FLX_DERIVE_H
#define FLX_DERIVE_H

#include "args.h"
#include "io/load.h"

#include <fluxion/transform.h>

/* Calls the library: NULL with `err` filled on failure. `request` is what the command read from its options. */
typedef flx_graph *(*derive_fn)(const model *m, const void *request, flx_error *err);

/* All but the options: opens the file, makes the graph, writes it. */
int derive_run(const args *a, derive_fn make, const void *request);

/* Its first part: refuses a name for -o that says another format than that of graphs. */
int derive_check_output(const args *a);

/* Its last part: writes a graph to where -o says. */
int derive_write(const flx_graph *g, const args *a);

/* A list like `a,b,c`. */
typedef struct {
    char *text; /* cut at the commas */
    const char **items;
    size_t count;
} text_list;

/* Reads the list that an option was given; none of its items may be empty. `form` shows how it should look. Free with
   list_free(), also after a failure. */
int list_read(text_list *list, const char *option_name, const char *text, const char *form);
void list_free(text_list *list);

/* No item may occur twice. */
int list_check_unique(const text_list *list, const char *option_name);

/* The names of --wrt, which must be given, each once. */
int wrt_read(text_list *wrt, const args *a);

/* The output that --output names, without it (NULL) the first. That is often not what is wanted when another output is
   a derivative, as where the gradient of a graph with several outputs is differentiated again: a note says so. */
flx_code loss_find(const flx_graph *g, const char *name, flx_val *out, flx_error *err);

/* Which of the words the option has: its position, the first one when it was not given. -1 when it is another, which
   has been reported. `words` is ended by NULL. */
int choice_read(const args *a, const char *option_name, const char *const *words);

/* How many directions of a Jacobian are followed at a time: --chunk and --budget. */
int limits_read(const args *a, flx_jacobian_options *options);

#define OPTIONS_OF_LIMITS                                                                                            \
    {"--chunk", "N", "at most this many directions at a time; all at once unless given", MAY_BE_GIVEN},              \
    {                                                                                                                \
        "--budget", "BYTES",                                                                                         \
            "as many directions at a time as fit into this much memory, by estimate,\nand at least one; K, M and G " \
            "may follow the number",                                                                                 \
            MAY_BE_GIVEN                                                                                             \
    }

#define OPTION_WRT                                                                                                 \
    {                                                                                                              \
        "--wrt", "NAMES", "the inputs and parameters to differentiate with respect to, as in a,b;\nmust be given", \
            MUST_BE_GIVEN                                                                                          \
    }
#define OPTION_LOSS(others)                                                                                \
    {                                                                                                      \
        "--output", "NAME", "the output to differentiate; the first one unless given" others, MAY_BE_GIVEN \
    }
#define OPTION_OUTPUT                                                                                    \
    {                                                                                                    \
        "-o", "OUT",                                                                                     \
            "where the graph goes: a file, in binary form if it ends in .flxb, or -,\nstandard output, " \
            "which is the default",                                                                      \
            MAY_BE_GIVEN                                                                                 \
    }

#endif
