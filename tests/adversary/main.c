/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: flx_adversary: the parts, the options, the totals.

     flx_adversary [PART...] [--seconds=S] [--cases=N] [--seed=N] [--jobs=N] [--found=FOLDER] [--max-failures=N]
     flx_adversary --quick | --list | PART --input=FILE

   --seconds is shared by the parts; without it and without --cases each part takes 60. The last line is
   `N passed, N failed`; before it there is one line of totals for each part, as words KEY=VALUE. */
#include "runner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const part parts[] = {
    {"text", "graphs as text", 60, 200, 20, attack_text},
    {"binary", "graphs as bytes", 60, 200, 20, attack_binary},
    {"kernel-text", "kernels as text", 60, 200, 20, attack_kernel_text},
    {"kernel-wire", "kernels as bytes", 60, 200, 20, attack_kernel_wire},
    {"stablehlo", "StableHLO text", 60, 200, 20, attack_stablehlo},
    {"bytecode", "StableHLO bytecode", 60, 200, 20, attack_bytecode},
    {"onnx", "ONNX models", 60, 200, 20, attack_onnx},
    {"gguf", "GGUF files", 60, 200, 20, attack_gguf},
    {"arrays", "npy, npz, safetensors, DEFLATE, JSON", 200, 1000, 20, attack_arrays},
    {"data", "tables, images, sound, tokenisers, checkpoints", 200, 1000, 20, attack_data},
    {"recordings", "recordings, and the names in archives", 60, 200, 20, attack_recordings},
    {"calls", "calls of the building functions", 60, 200, 20, attack_calls},
    {"command", "arguments of flx", 6, 20, 120, attack_command},
    {"graphs", "laws of random graphs", 10, 50, 120, attack_graphs},
    {"control", "laws of random nested control flow", 10, 50, 120, attack_control},
    {"kernels", "laws of random kernels", 2, 50, 120, attack_kernels},
    {"emitted", "random kernels as C and as vectors", 1, 10, 600, attack_emitted},
    {"compiled", "random graphs compiled in all ways", 1, 10, 600, attack_compiled},
    {"extents", "symbolic graphs, compiled once for several extents", 1, 10, 600, attack_extents},
    {"standalone", "random graphs as C files", 1, 10, 600, attack_standalone},
    {"partition", "random graphs on meshes of processes", 4, 50, 120, attack_partition},
    {"training", "settings, checkpoints and folders of flx train", 3, 20, 300, attack_training},
    {"memory", "failing allocations in random programs", 2, 20, 300, attack_memory},
    {"cache", "damaged entries of the object cache", 1, 10, 300, attack_cache},
    {"race", "processes that share an object cache", 1, 5, 300, attack_race},
    {"compilers", "C compilers that misbehave", 2, 10, 300, attack_compilers},
};
const size_t num_parts = sizeof parts / sizeof *parts;

typedef struct {
    run_options run;
    bool chosen[sizeof parts / sizeof *parts];
    size_t num_chosen;
    bool quick, is_seeded;
} request;

static int usage(const char *wrong)
{
    fprintf(stderr, "flx_adversary: %s\n", wrong);
    fprintf(stderr, "usage: flx_adversary [PART...] [--seconds=S] [--cases=N] [--seed=N] [--jobs=N] [--found=FOLDER]\n"
                    "                     [--max-failures=N] [--memory=MIB] [--slow=FACTOR]\n"
                    "       flx_adversary --quick | --list | PART --input=FILE\n");
    return 2;
}

static const char *value_of(const char *argument, const char *option)
{
    size_t n = strlen(option);
    return strncmp(argument, option, n) == 0 && argument[n] == '=' ? argument + n + 1 : NULL;
}

static bool read_number(const char *text, double least, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return text[0] && !*end && !errno && *out >= least && *out < 1e15;
}

static bool read_option(request *r, const char *a)
{
    run_options *o = &r->run;
    const char *v;
    double x;
    if ((v = value_of(a, "--seconds")))
        return read_number(v, 0, &o->seconds);
    if ((v = value_of(a, "--cases")) && read_number(v, 1, &x))
        return (o->cases = (int64_t)x) > 0;
    if ((v = value_of(a, "--seed"))) {
        char *end;
        errno = 0;
        o->seed = strtoull(v, &end, 10);
        return r->is_seeded = v[0] >= '0' && v[0] <= '9' && !*end && !errno;
    }
    if ((v = value_of(a, "--jobs")) && read_number(v, 1, &x) && x <= 4096)
        return (o->jobs = (int)x) > 0;
    if ((v = value_of(a, "--max-failures")) && read_number(v, 1, &x))
        return (o->max_failures = (int64_t)x) > 0;
    if ((v = value_of(a, "--memory")) && read_number(v, 64, &x))
        return (o->memory_mib = (int64_t)x) > 0;
    if ((v = value_of(a, "--slow")))
        return read_number(v, 1, &o->limit_factor);
    if ((v = value_of(a, "--found")) && v[0])
        return (o->found = v) != NULL;
    if ((v = value_of(a, "--input")) && v[0])
        return (o->input = v) != NULL;
    return strcmp(a, "--quick") == 0 && (r->quick = true);
}

static bool read_argument(request *r, const char *a)
{
    if (a[0] == '-')
        return read_option(r, a);
    for (size_t i = 0; i < num_parts; i++)
        if (strcmp(a, parts[i].name) == 0) {
            r->num_chosen += !r->chosen[i];
            return r->chosen[i] = true;
        }
    return false;
}

/* The cases must not depend on the user's caches and settings, nor leave anything there. */
static void set_environment(const char *work)
{
    char path[600];
    static const char *const unset[] = {"FLX_CC", "FLX_CACHE", "FLX_BLAS", "FLX_LAPACK", "FLX_TEST_EFFORT"};
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        unsetenv(unset[i]);
    snprintf(path, sizeof path, "%s/cache", work);
    setenv("FLX_CACHE_DIR", path, 1);
    setenv("FLX_DEVICE", "cpu", 1); /* small graphs are compiled, too */
    setenv("TMPDIR", work, 1);
    setenv("LC_ALL", "C", 1);
    setenv("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=0:soft_rss_limit_mb=4096",
           0); /* of programs that are started */
}

static run_totals run_one(const request *r, size_t i)
{
    run_options o = r->run;
    if (r->quick && !o.cases)
        o.cases = parts[i].quick;
    else if (!o.cases && o.seconds <= 0)
        o.seconds = 60.0 * (double)r->num_chosen;
    o.seconds /= (double)r->num_chosen;
    run_totals t = run_part(&parts[i], &o);
    printf("part=%s seed=%" PRIu64 " cases=%" PRId64 " accepted=%" PRId64 " failed=%" PRId64
           " seconds=%.1f cpu_seconds=%.1f\n",
           parts[i].name, o.seed, t.done + t.failed, t.accepted, t.failed, t.seconds, t.cpu_seconds);
    fflush(stdout);
    return t;
}

static int run_all(const request *r)
{
    int64_t passed = 0, failed = 0;
    for (size_t i = 0; i < num_parts; i++)
        if (r->chosen[i]) {
            run_totals t = run_one(r, i);
            passed += t.done;
            failed += t.failed;
        }
    printf("%" PRId64 " passed, %" PRId64 " failed\n", passed, failed);
    return failed ? 1 : 0;
}

static int list_parts(void)
{
    for (size_t i = 0; i < num_parts; i++)
        printf("%-12s %s\n", parts[i].name, parts[i].about);
    return 0;
}

int main(int argc, char **argv)
{
    request r = {.run = {.jobs = 1,
                         .max_failures = 50,
                         .found = "adversary-found",
                         .program = argv[0],
                         .memory_mib = 4096,
                         .limit_factor = 1}};
    char work[500];
    const char *base = getenv("TMPDIR");
    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list_parts();
    for (int i = 1; i < argc; i++)
        if (!read_argument(&r, argv[i])) {
            char wrong[300];
            snprintf(wrong, sizeof wrong, "'%s' is not a part or a valid option", argv[i]);
            return usage(wrong);
        }
    for (size_t i = 0; r.num_chosen == 0 && i < num_parts; i++)
        r.chosen[i] = true;
    r.num_chosen = r.num_chosen ? r.num_chosen : num_parts;
    if (r.run.input && r.num_chosen != 1)
        return usage("--input needs one part");
    if (r.run.input)
        r.run.cases = 1;
    if (!r.is_seeded)
        r.run.seed = r.quick || r.run.input ? 1 : (uint64_t)time(NULL) * 1000000;
    snprintf(work, sizeof work, "%s/flx_adversary.XXXXXX", base && base[0] ? base : "/tmp");
    if (!mkdtemp(work)) {
        perror("flx_adversary: cannot make a folder for temporary files");
        return 2;
    }
    r.run.work = work;
    set_environment(work);
    bool works = !r.quick || runner_works(&r.run);
    int status = works ? run_all(&r) : 2;
    remove_folder(work);
    return status;
}
