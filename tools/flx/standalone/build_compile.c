/* SPDX-License-Identifier: Apache-2.0 */
/* build_compile.c: see build_compile.h. An object is made first, whatever the result is: compilers say then what its
   functions need of the stack (-fstack-usage). */
#include "standalone/build_compile.h"

#include "io/load.h"
#include "io/output.h"
#include "report.h"
#include "standalone/build_measure.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs a program and waits for it. A child that could not become the program says why through the pipe. Quiet: neither
   it nor this says why it failed. */
static int run_program(const char *const *words, bool is_quiet)
{
    int status = 0, cause = 0, ends[2];
    if (pipe(ends))
        return fail(FLX_E_DEVICE, "cannot run '%s': %s", words[0], strerror(errno));
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    pid_t child = fork();
    if (child == 0) {
        int nowhere = is_quiet ? open("/dev/null", O_WRONLY) : -1;
        if (nowhere >= 0)
            dup2(nowhere, STDERR_FILENO);
        execvp(words[0], (char *const *)(uintptr_t)words);
        cause = errno;
        _exit(write(ends[1], &cause, sizeof cause) == sizeof cause ? 127 : 126);
    }
    cause = child < 0 ? errno : 0;
    close(ends[1]);
    if (child > 0 && read(ends[0], &cause, sizeof cause) != sizeof cause)
        cause = 0;
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (!cause && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return STATUS_OK;
    if (is_quiet)
        return STATUS_SYSTEM;
    int failed = cause ? fail(FLX_E_DEVICE, "cannot run '%s': %s", words[0], strerror(cause))
                       : fail(FLX_E_DEVICE, "'%s' failed", words[0]);
    hint("$CC names the C compiler; -o OUT.c writes the text alone");
    return failed;
}

enum { MOST_WORDS = 64 }; /* of a command */

/* The words of $CC, which may have a launcher and flags: `text` is cut at blanks. */
static size_t split_words(char *text, const char **words)
{
    size_t n = 0;
    for (char *rest = NULL, *word = strtok_r(text, " \t", &rest); word && n < MOST_WORDS / 2;
         word = strtok_r(NULL, " \t", &rest))
        words[n++] = word;
    return n;
}

/* Files beside the result, allocated. */
typedef struct {
    char *text, *object, *usage, *include;
} files;

static char *join(const char *a, const char *b)
{
    char *text = malloc(strlen(a) + strlen(b) + 1);
    if (text)
        sprintf(text, "%s%s", a, b);
    return text;
}

/* The flag with which the compiler finds the header. */
static char *include_of(const char *header)
{
    char *flag = join("-I", header ? header : "."), *slash = flag ? strrchr(flag, '/') : NULL;
    if (slash)
        slash[slash == flag + 2] = 0;
    else if (flag)
        strcpy(flag, "-I.");
    return flag;
}

/* An object of the text. `measures`: the compiler also says what functions need of the stack, if it can. */
static int compile_object(const build_compilation *c, const files *f, bool measures)
{
    static const char *const usual[] = {"-std=c99", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fPIC"};
    const char *words[MOST_WORDS], *own[MOST_WORDS], *given = getenv("CC");
    char *cc = strdup(given ? given : "");
    if (!cc)
        return fail_memory();
    size_t num_own = split_words(cc, own), n = 0, at = 0;
    while (at < num_own && own[at][0] != '-')
        words[n++] = own[at++];
    if (n == 0)
        words[n++] = "cc";
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        words[n++] = usual[i];
    for (const char *const *flag = c->machine; *flag; flag++)
        words[n++] = *flag;
    if (c->threads)
        words[n++] = c->threads == FLX_BUILD_OPENMP ? "-fopenmp" : "-pthread";
    while (at < num_own) /* the user's flags have the last word */
        words[n++] = own[at++];
    if (measures)
        words[n++] = "-fstack-usage";
    const char *const last[] = {f->include, "-c", "-o", f->object, f->text, NULL};
    memcpy(words + n, last, sizeof last);
    int status = run_program(words, measures);
    free(cc);
    return status;
}

/* A shared object of the object, by the same compiler. */
static int link_shared(const build_compilation *c, const char *object)
{
    const char *words[MOST_WORDS], *own[MOST_WORDS], *given = getenv("CC");
    char *cc = strdup(given && *given ? given : "cc");
    if (!cc)
        return fail_memory();
    size_t num_own = split_words(cc, own), n = 0;
    for (; n < num_own; n++)
        words[n] = own[n];
    if (n == 0)
        words[n++] = "cc";
    if (c->threads)
        words[n++] = c->threads == FLX_BUILD_OPENMP ? "-fopenmp" : "-pthread";
    const char *const last[] = {"-shared", "-o", c->out, object, "-lm", NULL};
    memcpy(words + n, last, sizeof last);
    int status = run_program(words, false);
    free(cc);
    return status;
}

/* What is not known stays so: it is no failure. */
static void measure(const files *f, const flx_buffer *source, build_measures *m)
{
    file_bytes object = {0}, usage = {0};
    if (access(f->object, R_OK) == 0 && file_read(f->object, &object) == STATUS_OK)
        m->code_bytes = measure_code(&object);
    if (access(f->usage, R_OK) == 0 && file_read(f->usage, &usage) == STATUS_OK)
        m->stack_bytes = measure_stack(source->data, source->size, &usage);
    free(object.data);
    free(usage.data);
}

static int compile_files(const build_compilation *c, const files *f, const flx_buffer *source, build_measures *m)
{
    int status = output_write(f->text, source);
    if (!status && compile_object(c, f, true) != STATUS_OK)
        status = compile_object(c, f, false);
    if (status)
        return status;
    measure(f, source, m);
    switch (c->kind) {
    case OUT_SHARED: return link_shared(c, f->object);
    case OUT_ARCHIVE: return run_program((const char *const[]){"ar", "rcs", c->out, f->object, NULL}, false);
    case OUT_OBJECT:
        return rename(f->object, c->out) == 0 ? STATUS_OK
                                              : fail(FLX_E_IO, "cannot write %s: %s", c->out, strerror(errno));
    default: return STATUS_OK;
    }
}

int build_compile(const build_compilation *c, const flx_buffer *source, build_measures *m)
{
    const files f = {join(c->out, ".tmp.c"), join(c->out, ".tmp.o"), join(c->out, ".tmp.su"), include_of(c->header)};
    bool is_whole = f.text && f.object && f.usage && f.include;
    int status = is_whole ? compile_files(c, &f, source, m) : fail_memory();
    char *const made[] = {f.text, f.object, f.usage};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        if (made[i])
            remove(made[i]);
        free(made[i]);
    }
    free(f.include);
    return status;
}
