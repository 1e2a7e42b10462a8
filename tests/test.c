/* SPDX-License-Identifier: Apache-2.0 */
/* test.c: the runner of test.h.

   Tests register themselves before main starts. The runner sorts them by name, runs those that the filters select, and
   prints only failures, then a line with the number of table rows tried and the line `N passed, N failed`. A test that
   crashes or hangs ends the program, but its name and rerun command are printed first. */
#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef FLX_SOURCE_DIR
#define FLX_SOURCE_DIR "."
#endif

enum {
    max_reports = 20, /* failures printed per test; the rest are counted */
};

static struct {
    test_case *tests;
    const char *program;
    const test_case *current;
    atomic_int failures; /* of the current test */
    atomic_long cases;
    char context[512];
    char rerun[512]; /* made before a test starts: a signal handler may print it, but not format it */
    pthread_t thread;
    jmp_buf end;
    char temp_dir[512];
} run;

/* The lock separates reports of several threads. */
static pthread_mutex_t report_lock = PTHREAD_MUTEX_INITIALIZER;

void test_register(test_case *t)
{
    t->next = run.tests;
    run.tests = t;
}

/* ---- Reports ---- */

void test_report(const char *file, int line, const char *text, const char *fmt, va_list args)
{
    pthread_mutex_lock(&report_lock);
    int before = atomic_fetch_add(&run.failures, 1);
    if (before == 0)
        printf("FAILED %s\n", run.current ? run.current->name : "(outside a test)");
    if (before < max_reports) {
        printf("  %s:%d: %s\n", file, line, text);
        if (fmt) {
            printf("    ");
            vprintf(fmt, args);
            printf("\n");
        }
        if (run.context[0])
            printf("    with: %s\n", run.context);
        if (before == 0)
            printf("    rerun: %s\n", run.rerun);
    } else if (before == max_reports) {
        printf("  further failures of this test are not shown\n");
    }
    fflush(stdout);
    pthread_mutex_unlock(&report_lock);
}

void test_end(void)
{
    if (run.current && pthread_equal(pthread_self(), run.thread))
        longjmp(run.end, 1);
}

/* ---- For use inside a test ---- */

void test_fail_context(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(run.context, sizeof run.context, fmt, args);
    va_end(args);
}

void test_count_case(void)
{
    atomic_fetch_add(&run.cases, 1);
}

bool test_failed(void)
{
    return atomic_load(&run.failures) > 0;
}

static uint64_t seed_offset(void)
{
    const char *text = getenv("FLX_TEST_SEED");
    return text ? strtoull(text, NULL, 0) : 0;
}

const char *test_name(void)
{
    return run.current ? run.current->name : "";
}

uint64_t test_seed(void)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *p = test_name(); *p; p++)
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    return hash + seed_offset();
}

const char *test_case_wanted(void)
{
    const char *text = getenv("FLX_TEST_CASE");
    return text && text[0] ? text : NULL;
}

bool test_case_seed(uint64_t *seed)
{
    const char *text = test_case_wanted();
    if (!text || strspn(text, "0123456789") != strlen(text))
        return false;
    *seed = strtoull(text, NULL, 10);
    return true;
}

const char *test_keep_dir(void)
{
    const char *dir = getenv("FLX_TEST_KEEP");
    return dir && dir[0] ? dir : NULL;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

static void remove_temp_dir(void)
{
    if (run.temp_dir[0])
        nftw(run.temp_dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *test_temp_dir(void)
{
    if (run.temp_dir[0])
        return run.temp_dir;
    const char *base = getenv("TMPDIR");
    char path[sizeof run.temp_dir];
    snprintf(path, sizeof path, "%s/flx_tests.XXXXXX", base && base[0] ? base : "/tmp");
    CHECK_MSG(mkdtemp(path) != NULL, "%s: %s", path, strerror(errno));
    memcpy(run.temp_dir, path, sizeof path);
    atexit(remove_temp_dir);
    return run.temp_dir;
}

/* The text of the path is the same for the same name, and lives until the program ends. */
static const char *path_in(const char *folder, const char *name)
{
    enum { PATH_BYTES = sizeof run.temp_dir + 64 };
    static char paths[256][PATH_BYTES];
    static size_t count;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s%s", test_temp_dir(), folder, name);
    for (size_t i = 0; i < count; i++)
        if (strcmp(paths[i], path) == 0)
            return paths[i];
    CHECK(count < sizeof paths / sizeof *paths);
    memcpy(paths[count], path, sizeof path);
    return paths[count++];
}

const char *test_temp_path(const char *name)
{
    return path_in("", name);
}

const char *test_missing_path(const char *name)
{
    return path_in("missing/", name);
}

/* ---- Probing ---- */

enum { PROBE_REFUSED = 1, PROBE_FAILED = 2, PROBE_SECONDS = 60 };

static test_probe *probes;

void test_register_probe(test_probe *p)
{
    p->next = probes;
    probes = p;
}

static const test_probe *find_probe(const char *name)
{
    const test_probe *p = probes;
    while (p && strcmp(p->name, name) != 0)
        p = p->next;
    return p;
}

/* The process of a probe: a crash is quiet, and the reason, or the output of a CHECK that failed, is what it prints.
   What the driver leaks is its own matter. */
static void run_probe(const char *name)
{
    const test_case as_test = {.name = name, .file = __FILE__};
    static const test_probe *p; /* setjmp() may lose what is in registers */
    char reason[400] = "";
    p = find_probe(name);
    if (!p)
        _exit(PROBE_FAILED);
    run.current = &as_test;
    alarm(PROBE_SECONDS);
    if (setjmp(run.end) == 0 && p->run(reason, sizeof reason))
        _exit(0);
    printf("%s", reason);
    fflush(stdout);
    _exit(test_failed() ? PROBE_FAILED : PROBE_REFUSED);
}

/* Only calls that are allowed in a process that was forked from one with threads. */
static pid_t start_probe(const char *option, int output)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    dup2(output, STDOUT_FILENO);
    execl("/proc/self/exe", run.program, option, (char *)NULL);
    _exit(PROBE_FAILED);
}

bool test_survives(const char *probe, char *reason, size_t size)
{
    int status = 0;
    char option[80];
    FILE *output = tmpfile();
    CHECK(output != NULL);
    snprintf(option, sizeof option, "--probe=%s", probe);
    pid_t child = start_probe(option, fileno(output));
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    rewind(output);
    reason[fread(reason, 1, size - 1, output)] = 0;
    fclose(output);
    CHECK_MSG(!WIFEXITED(status) || WEXITSTATUS(status) < PROBE_FAILED, "the probe %s failed: %s", probe, reason);
    if (WIFSIGNALED(status))
        snprintf(reason, size, "it ended a process with signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- Running ---- */

/* Only calls that are allowed in a signal handler. The default action then ends the program as if there were no
   handler, so that a core dump or an exit status still shows the signal. */
static void on_signal(int sig)
{
    const char *parts[] = {sig == SIGALRM ? "HANGS " : "CRASHED ",
                           run.current ? run.current->name : "(no test)",
                           "\n    with: ",
                           run.context,
                           "\n    rerun: ",
                           run.rerun,
                           "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (write(STDOUT_FILENO, parts[i], strlen(parts[i])) < 0)
            break;
    signal(sig, SIG_DFL);
    raise(sig);
}

/* AddressSanitizer's own report of a crash says more, and a request for too much memory must fail, as with malloc,
   instead of ending the program. It keeps six callers of each allocation instead of 30, and 64 MiB of freed memory
   instead of 256: a seventh of the time of tests that allocate much. */
#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
static const bool has_address_sanitizer = true;
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:malloc_context_size=6:quarantine_size_mb=64";
}

/* The leak checker of LLVM 14 takes a block of thread-local memory that begins 16 bytes into a page for one with a
   header of glibc 2.19, reads a wrong address from it and crashes when it scans it: seen with the TLS of an OpenCL
   driver, whose blocks are wherever malloc() puts them. Without that scan no leak is hidden: what only thread-local
   memory refers to would be reported. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "use_tls=0:print_suppressions=0";
}

/* What only thread-local memory points to, in libraries that tests load: as in tests/leak_suppressions, which says
   more. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:pthread_setspecific\nleak:_dlerror_run\nleak:ld-linux\nleak:libgomp.so";
}
#else
static const bool has_address_sanitizer = false;
#endif

static void catch_signals(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    signal(SIGALRM, on_signal);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0] && !has_address_sanitizer; i++)
        signal(crashes[i], on_signal);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(int who)
{
    struct rusage r;
    getrusage(who, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + 1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static bool run_test(const test_case *t, bool verbose)
{
    double start = now(), own = seconds_of(RUSAGE_SELF), children = seconds_of(RUSAGE_CHILDREN);
    run.current = t;
    run.context[0] = 0;
    atomic_store(&run.failures, 0);
    const char *seed = getenv("FLX_TEST_SEED");
    snprintf(run.rerun, sizeof run.rerun, "%s%s%s%s %s", seed ? "FLX_TEST_SEED=" : "", seed ? seed : "",
             seed ? " " : "", run.program, t->name);
    alarm((unsigned)effort(EFFORT_timeout));
    if (setjmp(run.end) == 0)
        t->run();
    alarm(0);
    run.current = NULL;
    bool ok = !test_failed();
    if (verbose) /* on a busy machine processor time is the only measure */
        printf("%-6s %9.3f s, processor %9.3f s, compilers %9.3f s  %s\n", ok ? "ok" : "FAILED", now() - start,
               seconds_of(RUSAGE_SELF) - own, seconds_of(RUSAGE_CHILDREN) - children, t->name);
    fflush(stdout);
    return ok;
}

/* Names that contain the text of an option --except are skipped. */
static bool is_excepted(const char *name, char **options, int count)
{
    for (int i = 0; i < count; i++)
        if (strncmp(options[i], "--except=", 9) == 0 && strstr(name, options[i] + 9))
            return true;
    return false;
}

static bool is_selected(const char *name, char **filters, int count)
{
    for (int i = 0; i < count; i++) {
        bool exact = false;
        for (const test_case *t = run.tests; t && !exact; t = t->next)
            exact = strcmp(t->name, filters[i]) == 0;
        if (exact ? strcmp(name, filters[i]) == 0 : strstr(name, filters[i]) != NULL)
            return true;
    }
    return count == 0;
}

/* Merge sort by name. */
static test_case *sort_tests(test_case *list)
{
    if (!list || !list->next)
        return list;
    test_case *half = list;
    for (test_case *end = list->next; end && end->next; end = end->next->next)
        half = half->next;
    test_case *b = sort_tests(half->next);
    half->next = NULL;
    test_case *a = sort_tests(list);
    test_case *head = NULL;
    test_case **tail = &head;
    while (a && b) {
        test_case **least = strcmp(a->name, b->name) <= 0 ? &a : &b;
        *tail = *least;
        tail = &(*least)->next;
        *least = *tail;
    }
    *tail = a ? a : b;
    return head;
}

static bool names_are_unique(void)
{
    bool ok = true;
    for (const test_case *t = run.tests; t && t->next; t = t->next) {
        if (strcmp(t->name, t->next->name) != 0)
            continue;
        fprintf(stderr, "flx_tests: two tests are called %s: %s and %s\n", t->name, t->file, t->next->file);
        ok = false;
    }
    return ok;
}

/* ---- Several processes ---- */

enum { MAX_JOBS = 64 };

/* State shared by the processes of one run. */
typedef struct {
    atomic_int next; /* test to be taken up */
    atomic_int passed, failed;
    atomic_long cases;
} shared_run;

/* Random tests take longest; they start first, so that no process is left with one at the end. */
static int by_length(const void *a, const void *b)
{
    const test_case *const *x = a, *const *y = b;
    int long_x = strstr((*x)->name, "random") != NULL, long_y = strstr((*y)->name, "random") != NULL;
    return long_x != long_y ? long_y - long_x : strcmp((*x)->name, (*y)->name);
}

static void run_share(shared_run *s, const test_case **tests, int count, bool verbose)
{
    for (int i; (i = atomic_fetch_add(&s->next, 1)) < count;)
        atomic_fetch_add(run_test(tests[i], verbose) ? &s->passed : &s->failed, 1);
    atomic_fetch_add(&s->cases, atomic_load(&run.cases));
    fflush(stdout);
}

static void show(FILE *f)
{
    char text[4096];
    rewind(f);
    for (size_t n; (n = fread(text, 1, sizeof text, f)) > 0;)
        fwrite(text, 1, n, stdout);
    fclose(f);
}

/* Each process takes the next test until none is left; its output is shown when it has ended. A process that dies
   counts as a failure. */
static void run_in_processes(shared_run *s, const test_case **tests, int count, int jobs, bool verbose)
{
    FILE *outputs[MAX_JOBS];
    pid_t processes[MAX_JOBS];
    qsort(tests, (size_t)count, sizeof *tests, by_length);
    fflush(stdout);
    for (int i = 0; i < jobs; i++) {
        outputs[i] = tmpfile();
        processes[i] = outputs[i] ? fork() : -1;
        if (processes[i] == 0) {
            dup2(fileno(outputs[i]), STDOUT_FILENO);
            run.thread = pthread_self();
            run_share(s, tests, count, verbose);
            exit(0); /* runs the final checks of sanitizers */
        }
    }
    for (int i = 0; i < jobs; i++) {
        int status = -1;
        if (processes[i] < 0 || waitpid(processes[i], &status, 0) < 0 || status != 0) {
            atomic_fetch_add(&s->failed, 1);
            printf("FAILED: a process of the run ended with status %d\n", status);
        }
        if (outputs[i])
            show(outputs[i]);
    }
}

static int run_selected(const test_case **tests, int count, int jobs, bool verbose, bool is_filtered)
{
    shared_run *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return 2;
    if (jobs > 1)
        run_in_processes(s, tests, count, jobs, verbose);
    else
        run_share(s, tests, count, verbose);
    int passed = atomic_load(&s->passed), failed = atomic_load(&s->failed);
    if (passed + failed == 0 && is_filtered)
        fprintf(stderr, "flx_tests: no test has such a name\n");
    if (atomic_load(&s->cases) > 0)
        printf("%ld cases\n", atomic_load(&s->cases));
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || (passed == 0 && is_filtered);
}

/* What the command line says; filters begin at argv[first]. */
typedef struct {
    bool is_list, is_verbose, wants_amounts;
    const char *probe; /* test_survives() starts its own program so */
    int jobs, first;
} arguments;

static bool read_arguments(arguments *a, int argc, char **argv)
{
    *a = (arguments){.jobs = 1, .first = 1};
    for (; a->first < argc && argv[a->first][0] == '-'; a->first++) {
        const char *s = argv[a->first];
        if (strcmp(s, "--list") == 0)
            a->is_list = true;
        else if (strcmp(s, "--verbose") == 0)
            a->is_verbose = true;
        else if (strcmp(s, "--amounts") == 0)
            a->wants_amounts = true;
        else if (strncmp(s, "--probe=", 8) == 0)
            a->probe = s + 8;
        else if (strncmp(s, "--jobs=", 7) == 0 && atoi(s + 7) > 0)
            a->jobs = atoi(s + 7) < MAX_JOBS ? atoi(s + 7) : MAX_JOBS;
        else if (strncmp(s, "--except=", 9) != 0)
            return false;
    }
    return true;
}

/* The tests that the command line selects, ended by NULL. */
static const test_case **select_tests(const arguments *a, int argc, char **argv, int *count)
{
    int n = 0;
    for (const test_case *t = run.tests; t; t = t->next)
        n++;
    const test_case **selected = calloc((size_t)n + 1, sizeof *selected);
    *count = 0;
    for (const test_case *t = run.tests; selected && t; t = t->next)
        if (is_selected(t->name, argv + a->first, argc - a->first) && !is_excepted(t->name, argv + 1, a->first - 1))
            selected[(*count)++] = t;
    return selected;
}

int main(int argc, char **argv)
{
    arguments a;
    if (!read_arguments(&a, argc, argv)) {
        fprintf(stderr, "usage: %s [--list] [--verbose] [--amounts] [--jobs=N] [--except=TEXT]... [FILTER...]\n",
                argv[0]);
        return 2;
    }
    if (a.wants_amounts) {
        effort_print();
        return effort_is_valid(stderr) ? 0 : 2;
    }
    /* Compiled code is compiled now, not by an earlier version, unless a test or the caller wants the cache. */
    setenv("FLX_CACHE", "off", 0);
    setenv("FLX_DEVICE", "ref", 0); /* runs without a device go by the definition; others name theirs */
    run.program = argv[0];
    run.thread = pthread_self();
    if (a.probe)
        run_probe(a.probe);
    run.tests = sort_tests(run.tests);
    if (!names_are_unique() || !effort_is_valid(stderr))
        return 2;

    catch_signals();
    int count;
    const test_case **selected = select_tests(&a, argc, argv, &count);
    if (!selected)
        return 2;
    for (int i = 0; a.is_list && i < count; i++)
        puts(selected[i]->name);
    int status = a.is_list ? 0 : run_selected(selected, count, a.jobs, a.is_verbose, argc > a.first);
    free(selected);
    return status;
}
