/* SPDX-License-Identifier: Apache-2.0 */
/* compilers.c: C compilers that die, hang, lie and make a mess. flx prints the right result, computed without machine
   code, or a clear error; it ends in time, and leaves neither files nor processes. */
#include "adversary.h"
#include "exact_graph.h"
#include "mutate/mutate.h"
#include "process.h"
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* $real compiles; $out is the file after -o; $pids collects processes that must not outlive flx. */
static const char preamble[] = "#!/bin/sh\n"
                               "real=cc\n"
                               "out=\n"
                               "last=\n"
                               "for a in \"$@\"; do [ \"$last\" = -o ] && out=$a; last=$a; done\n"
                               "echo $$ >>\"$FLX_ADVERSARY_PIDS\"\n";

typedef struct {
    const char *what;
    const char *script;
    bool ends_late; /* it is given a time limit, and may be an error */
} compiler;

static const char versioned[] = "case \"$*\" in *--version*) exec $real \"$@\" ;; esac\n";

/* `V` at the beginning: an honest answer to --version. */
static const compiler compilers[] = {
    {"dies", "Vkill -9 $$\n", false},
    {"dies of a bug", "Vkill -SEGV $$\n", false},
    {"dies after a good object", "V$real \"$@\"\nkill -9 $$\n", false},
    {"fails after a good object", "V$real \"$@\"\nexit 1\n", false},
    {"hangs", "Vexec sleep 1000\n", true},
    {"hangs in a process of its own", "Vsleep 1000 &\necho $! >>\"$FLX_ADVERSARY_PIDS\"\nwait\n", true},
    {"stops itself", "Vkill -STOP $$\n", true},
    {"ignores signals and hangs", "Vtrap '' TERM INT HUP\nwhile :; do sleep 1; done\n", true},
    {"prints garbage and fails", "Vhead -c 3000000 /dev/urandom\nhead -c 3000000 /dev/urandom >&2\nexit 1\n", false},
    {"prints garbage and succeeds", "Vhead -c 3000000 /dev/urandom >&2\nexec $real \"$@\"\n", false},
    {"prints without end", "Vexec yes >&2\n", true},
    {"writes half an object", "V$real \"$@\"\ntruncate -s 3000 \"$out\"\n", false},
    {"writes an object of zeros", "V$real \"$@\"\nn=$(wc -c <\"$out\")\nhead -c $n /dev/zero >\"$out\"\n", false},
    {"writes nothing", "Vexit 0\n", false},
    {"writes an empty file", "V: >\"$out\"\n", false},
    {"writes text", "Vecho 'words' >\"$out\"\n", false},
    {"makes a folder", "Vmkdir \"$out\"\n", false},
    {"makes a link to nothing", "Vln -s /nowhere/at/all \"$out\"\n", false},
    {"makes a pipe", "Vmkfifo \"$out\"\n", false},
    {"makes an object without functions", "Vecho 'int other;' | $real -shared -fPIC -o \"$out\" -x c -\n", false},
    {"removes its folder", "Vrm -rf \"$(dirname \"$out\")\"\n", false},
    {"leaves files",
     "V: >\"$(dirname \"$out\")/left\"\nmkdir -p \"$(dirname \"$out\")/more/and/more\"\nexec $real \"$@\"\n", false},
    {"leaves a process", "Vsleep 1000 >/dev/null 2>&1 &\nexec $real \"$@\"\n", false},
    {"has a long version",
     "case \"$*\" in *--version*) yes version | head -c 5000000; exit 0 ;; esac\nexec $real \"$@\"\n", false},
    {"has no version", "case \"$*\" in *--version*) exit 1 ;; esac\nexec $real \"$@\"\n", false},
    {"has a version of garbage",
     "case \"$*\" in *--version*) head -c 4000 /dev/urandom; exit 0 ;; esac\nexec $real \"$@\"\n", false},
    {"hangs when asked for its version", "case \"$*\" in *--version*) exec sleep 1000 ;; esac\nexec $real \"$@\"\n",
     true},
    {"fails at random", "V[ $(($(od -An -N1 -tu1 /dev/urandom) % 2)) = 0 ] && exit 1\nexec $real \"$@\"\n", false},
    {"is slow", "Vsleep 1\nexec $real \"$@\"\n", false},
};
enum { COMPILERS = sizeof compilers / sizeof *compilers };

static void write_compiler(const char *path, const compiler *c)
{
    char text[4000];
    bool is_honest = c->script[0] == 'V';
    snprintf(text, sizeof text, "%s%s%s", preamble, is_honest ? versioned : "", c->script + is_honest);
    write_file(path, text, strlen(text), 0700);
}

static bool is_alive(pid_t pid)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    bool ok = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    const char *state = ok ? strrchr(line, ')') : NULL;
    return state && state[1] && state[2] != 'Z' && state[2] != 'X';
}

/* Processes that the compiler noted are gone soon. */
static void check_processes(const char *path, const char *what)
{
    FILE *f = fopen(path, "r");
    int pid;
    while (f && fscanf(f, "%d", &pid) == 1) {
        bool alive = is_alive(pid);
        for (int i = 0; alive && i < 100; i++) {
            nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
            alive = is_alive(pid);
        }
        if (alive)
            kill(pid, SIGKILL);
        CHECK_MSG(!alive, "a compiler that %s: process %d outlives flx", what, pid);
    }
    if (f)
        fclose(f);
}

void attack_compilers(uint64_t seed)
{
    static char expected[OUTPUT_ROOM];
    static process_result r;
    static const char *const limited[] = {"run", "g.flx", "--in", "v0=iota", "--timeout", "2", NULL};
    scene s;
    char path[800], cc[900], pids[900];
    mutate_begin(seed);
    scene_begin(&s);
    const compiler *c = &compilers[seed % COMPILERS];
    write_exact_graph(s.dir);
    expect_exact(s.dir, expected);
    snprintf(path, sizeof path, "%s/compiler", s.dir);
    write_compiler(path, c);
    snprintf(cc, sizeof cc, "FLX_CC=%s", path);
    snprintf(path, sizeof path, "%s/pids", s.dir);
    snprintf(pids, sizeof pids, "FLX_ADVERSARY_PIDS=%s", path);
    scene_add(&s, cc);
    scene_add(&s, pids);
    for (int round = 0; round < 2; round++) { /* the second with what the first left in the cache */
        run_flx(s.dir, c->ends_late ? limited : exact_run, s.env, &r);
        test_fail_context("a compiler that %s, round %d", c->what, round);
        need_sane(&r, c->what);
        if (r.status == 0)
            CHECK_MSG(strcmp(r.out, expected) == 0, "printed\n%s\ninstead of\n%s\n%s", r.out, expected, r.err);
        else
            CHECK_MSG(c->ends_late && strstr(r.err, "[TIMEOUT]"), "status %d: %s", r.status, r.err);
        need_no_leftovers(&s, c->what);
        check_processes(path, c->what);
    }
    case_accepted();
}
