/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the command line of Fluxion. This file knows the list of commands and what all of them share: --help,
   --version, the suggestion for a misspelt command, and that a result which could not be written is a failure. */
#include "args.h"
#include "command/cmd_help.h"
#include "commands.h"
#include "interrupt.h"
#include "kernel/cmd_kernel.h"
#include "report.h"
#include "suggest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const command *const commands[] = {
    &command_check,     &command_show,     &command_run,
    &command_grad,      &command_jvp,      &command_hvp,
    &command_vmap,      &command_pipeline, &command_jac,
    &command_hessian,   &command_taylor,   &command_lower,
    &command_mixed,     &command_quantise, &command_rewrite,
    &command_import,    &command_export,   &command_build,
    &command_gradcheck, &command_compare,  &command_bench,
    &command_replay,    &command_model,    &command_plan,
    &command_train,     &command_predict,  &command_generate,
    &command_chat,      &command_kernel,   &command_ops,
    &command_devices,   &command_help,     NULL,
};

static const command *find_command(const char *name)
{
    for (const command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

static int unknown_command(const char *name)
{
    bool is_option = name[0] == '-';
    int status = fail(FLX_E_USAGE, "unknown %s '%s'", is_option ? "option" : "command", name);
    suggestion s = suggest_begin(name);
    for (const command *const *c = commands; *c && !is_option; c++)
        suggest_consider(&s, (*c)->name);
    if (s.best)
        hint("did you mean 'flx %s'?", s.best);
    else
        hint(is_option ? "options come after the command: flx COMMAND [OPTIONS] FILE" : "flx help lists the commands");
    return status;
}

/* Whether one of the arguments asks for help; after `--` they are file names. */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run_command(const command *c, int argc, char **argv)
{
    if (asks_for_help(argc, argv)) {
        help_page(c);
        return STATUS_OK;
    }
    args a;
    int status = args_parse(&a, c, argc, argv);
    if (!status)
        status = c->run(&a);
    args_free(&a);
    return status;
}

/* `flx help kernel run`; a command that does not exist is reported by `flx kernel`. */
static int help_kernel(char **argv)
{
    const command *c = kernel_command_find(argv[3]);
    if (!c)
        return run_command(&command_kernel, 1, argv + 3);
    help_page(c);
    return STATUS_OK;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stderr);
        return STATUS_BAD_INPUT;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("flx %s (libfluxion %s)\n", FLX_VERSION, flx_version());
        return STATUS_OK;
    }
    if (asks_for_help(1, argv + 1)) {
        help_overview(stdout);
        return STATUS_OK;
    }
    const command *c = find_command(argv[1]);
    const command *inner = c == &command_kernel && argc > 2 ? kernel_command_find(argv[2]) : NULL;
    if (inner)
        return run_command(inner, argc - 3, argv + 3);
    if (c == &command_kernel && argc > 2 && argv[2][0] != '-') /* the other arguments do not matter */
        return run_command(c, 1, argv + 2);
    if (c == &command_help && argc == 4 && strcmp(argv[2], command_kernel.name) == 0)
        return help_kernel(argv);
    return c ? run_command(c, argc - 2, argv + 2) : unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
    interrupt_begin();
    int status = dispatch(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && !interrupt_has_no_reader())
        status = fail_write("standard output", strerror(errno));
    interrupt_end();
    return status;
}
