/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c: `flx help`, made from the tables of the commands. */
#include "command/cmd_help.h"

#include "args.h"
#include "commands.h"
#include "kernel/cmd_kernel.h"
#include "report.h"
#include "suggest.h"

#include <string.h>

static const int head_width = 18; /* of the column with the names of options */

void help_overview(FILE *f)
{
    fputs("usage: flx COMMAND [OPTIONS] [FILE]\n\n", f);
    for (const command *const *c = commands; *c; c++)
        fprintf(f, "  %-9s %s\n", (*c)->name, (*c)->summary);
    fputs("\n"
          "flx help COMMAND tells more about one; flx --version prints the version.\n"
          "FILE is a graph as text (.flx) or in binary form, StableHLO as text (.mlir) or bytecode (.mlirbc), an "
          "ONNX\n"
          "model (.onnx) or a language model (.gguf); - reads standard input.\n"
          "Results go to standard output, errors to standard error. Exit status: 0 success,\n"
          "1 what was checked does not hold, 2 bad usage or input, 3 the system failed.\n",
          f);
}

static void print_usage(const command *c)
{
    printf("usage: flx %s", c->name);
    if (c->operand[0])
        printf(" %s", c->operand);
    for (const option *o = c->options; o->name; o++)
        printf(o->use == MUST_BE_GIVEN ? " %s%s%s"
               : o->use == MAY_REPEAT  ? " [%s%s%s]..."
                                       : " [%s%s%s]",
               o->name, o->value ? " " : "", o->value ? o->value : "");
    putchar('\n');
}

/* The text of an option may have several lines; the later ones are put below the first. All are below a name that fills
   its column. */
static void print_option(const option *o)
{
    char head[60];
    int width = snprintf(head, sizeof head, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    if (width > head_width)
        printf("  %s\n", head);
    for (const char *line = o->about; *line;) {
        size_t n = strcspn(line, "\n");
        printf("  %-*s %.*s\n", head_width, line == o->about && width <= head_width ? head : "", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

void help_page(const command *c)
{
    printf("flx %s: %s\n\n", c->name, c->summary);
    print_usage(c);
    printf("\n%s\n", c->about);
    if (c->options->name)
        fputs("\noptions:\n", stdout);
    for (const option *o = c->options; o->name; o++)
        print_option(o);
    if (*c->examples)
        fputs("\nexamples:\n", stdout);
    for (const char *const *e = c->examples; *e; e++)
        printf("  %s\n", *e);
}

/* The command of that name; a near one goes to the suggestion. */
static const command *find(const command *const *list, const char *name, suggestion *s)
{
    for (const command *const *c = list; *c; c++) {
        if (strcmp((*c)->name, name) == 0)
            return *c;
        suggest_consider(s, (*c)->name);
    }
    return NULL;
}

static int run_help(const args *a)
{
    if (!a->operand) {
        help_overview(stdout);
        return STATUS_OK;
    }
    suggestion s = suggest_begin(a->operand);
    const command *c = find(commands, a->operand, &s);
    if (!c)
        c = find(kernel_commands, a->operand, &s);
    if (c) {
        help_page(c);
        return STATUS_OK;
    }
    int status = fail(FLX_E_USAGE, "unknown command '%s'", a->operand);
    if (s.best)
        hint("did you mean 'flx help %s'?", s.best);
    else
        hint("flx help lists the commands");
    return status;
}

static const option options[] = {{0}};

static const char *const examples[] = {"flx help", "flx help run", "flx help kernel run", "flx run --help", NULL};

const command command_help = {
    .name = "help",
    .operand = "[COMMAND]",
    .summary = "list the commands, or explain one",
    .about = "Prints the commands, or with a COMMAND what it does, its options and examples.\n"
             "flx COMMAND --help is the same.",
    .options = options,
    .examples = examples,
    .run = run_help,
};
