/* SPDX-License-Identifier: Apache-2.0 */
/* compile_service.c: compiling C: several texts at once, compilers that misbehave, calls and allocations that fail. */
#include "backend/cache_fixture.h"
#include "fault.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const flxi_allocator plain = {flxi_default_alloc, NULL};

/* ---- Compiling ---- */

TEST(compile_service_makes_a_batch)
{
    enum { COUNT = 5 };
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    char texts[COUNT][120];
    flxi_c_unit units[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "double cos(double); int answer(void) { return %d + (int)cos(%d); }", i, i);
        units[i] = (flxi_c_unit){.text = texts[i], .n = strlen(texts[i])};
    }
    flxi_compile_service *s = new_service(&f, NULL);
    flx_error err = {0};
    for (int round = 0; round < 2; round++) {
        CHECK_OK(flxi_compile_c(s, units, COUNT - (size_t)!round, FLXI_C_USUAL, 0, &err), &err);
        for (int i = 0; i < COUNT - !round; i++) {
            int (*fn)(void);
            *(void **)&fn = flxi_object_symbol(units[i].object, "answer");
            CHECK(fn);
            CHECK_EQ_I64(fn(), i + (int)cos(i));
            CHECK(!flxi_object_symbol(units[i].object, "no_such_function"));
            flxi_object_free(units[i].object);
        }
    }
    CHECK_EQ_U64(stats_of(s).hits, COUNT - 1); /* a batch may come in part from the cache */
    CHECK_EQ_U64(stats_of(s).misses, COUNT);
    CHECK_OK(flxi_compile_c(s, units, 0, FLXI_C_USUAL, 0, &err), &err);
    flxi_compile_service_free(s);
    flxi_compile_service_free(NULL);
    flxi_object_free(NULL);
    cache_fixture_end(&f);
}

/* All or none, and the message is that of the one that failed. */
TEST(compile_service_gives_up_a_batch_with_an_error)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    flxi_compile_service *s = new_service(&f, NULL);
    const char *wrong = "int answer(void) { return wrong_name; }";
    flx_error err = {0};
    for (size_t bad = 0; bad < 4; bad++) {
        flxi_c_unit units[4];
        for (size_t i = 0; i < 4; i++)
            units[i] = (flxi_c_unit){.text = i == bad ? wrong : answer_text};
        for (size_t i = 0; i < 4; i++)
            units[i].n = strlen(units[i].text);
        CHECK_CODE(flxi_compile_c(s, units, 4, FLXI_C_O0, 0, &err), FLX_E_DEVICE, &err);
        CHECK_MSG(strstr(err.message, "failed: ") && strstr(err.message, "wrong_name"), "%s", err.message);
        for (size_t i = 0; i < 4; i++)
            CHECK(!units[i].object);
    }
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

TEST(compile_service_contracts_only_when_told)
{
    static const char text[] = "double multiply_add(double a, double b, double c) { return a * b + c; }";
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    flxi_compile_service *s = new_service(&f, NULL);
    flx_error err = {0};
    volatile double a = 1 + 0x1p-30, c = -1 - 0x1p-29; /* a * a is 1 + 2^-29 + 2^-60, which is rounded */
    for (unsigned flags = 0; flags <= FLXI_C_CONTRACT; flags++) {
        for (flxi_c_level level = FLXI_C_USUAL; level <= FLXI_C_O3; level++) {
            flxi_c_unit u = {.text = text, .n = sizeof text - 1};
            double (*fn)(double, double, double);
            CHECK_OK(flxi_compile_c(s, &u, 1, level, flags, &err), &err);
            *(void **)&fn = flxi_object_symbol(u.object, "multiply_add");
            double y = fn(a, a, c);
            test_fail_context("level %d flags %u", level, flags);
            CHECK(y == 0 || (flags && y == 0x1p-60)); /* a processor may have no such operation */
            flxi_object_free(u.object);
        }
    }
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

static void *compile_often(void *arg)
{
    flxi_compile_service *s = arg;
    size_t wrong = 0;
    for (int i = 0; i < 10; i++) {
        char text[80];
        int answer;
        snprintf(text, sizeof text, "int answer(void) { return 42; } /* %d */\n", i % 3);
        wrong += compile_answer(s, text, &answer, NULL) != FLX_OK || answer != 42;
    }
    return (void *)(uintptr_t)wrong;
}

TEST(compile_service_is_shared_by_threads)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    flxi_compile_service *s = new_service(&f, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, compile_often, s) == 0);
    for (int i = 0; i < 4; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        CHECK(!wrong);
    }
    CHECK_EQ_U64(stats_of(s).hits + stats_of(s).misses, 40);
    CHECK(stats_of(s).misses >= 3 && stats_of(s).misses <= 12);
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif

/* In a program with these checks objects have them too when sanitizing_cc compiles them: an access out of bounds, or a
   sum that overflows, ends it. */
#if HAS_FEATURE(address_sanitizer)
static bool survives(const char *compiler, int element, int term)
{
    static const char text[] = "int get(const int *x, long i, int y) { return x[i] + y; }";
    cache_fixture f;
    cache_fixture_begin(&f, compiler);
    flxi_compile_service *s = new_service(&f, NULL);
    flx_error err = {0};
    flxi_c_unit u = {.text = text, .n = sizeof text - 1};
    int (*get)(const int *, long, int);
    int status;
    CHECK_OK(flxi_compile_c(s, &u, 1, FLXI_C_O1, 0, &err), &err);
    *(void **)&get = flxi_object_symbol(u.object, "get");
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int *x = calloc(4, sizeof *x);
        if (!x || !freopen("/dev/null", "w", stderr))
            _exit(2);
        x[0] = 1;
        volatile int value = get(x, element, term);
        (void)value;
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    flxi_object_free(u.object);
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
    return status == 0;
}

TEST(compile_service_objects_have_the_compilers_checks)
{
    char checking[1000];
    snprintf(checking, sizeof checking, "%.900s/tests/sanitizing_cc", test_source_dir());
    CHECK(survives("clang", 5, 0) && survives("clang", 0, INT_MAX));
    CHECK(survives(checking, 3, INT_MAX) && !survives(checking, 5, 0) && !survives(checking, 0, INT_MAX));
}
#endif

/* ---- Compilers that misbehave ---- */

/* With a script as the compiler; `said` must be in the message, and nothing is left. */
static void check_bad_compiler(const cache_fixture *f, const char *script, const char *said)
{
    char path[800];
    flxi_service_options o = {.cache.dir = f->dir, .time_ms = 300, .object_bytes = 100000, .memory_bytes = 1 << 30};
    flxi_compile_service *s = flxi_compile_service_new(&plain, &o);
    flx_error err = {0};
    size_t descriptors = count_descriptors();
    int answer;
    CHECK(s);
    snprintf(path, sizeof path, "%.700s/../bad compiler; exit", f->temp);
    write_script(path, script);
    setenv("FLX_CC", path, 1);
    flx_code code = compile_answer(s, answer_text, &answer, &err);
    unsetenv("FLX_CC");
    test_fail_context("compiler: %s", script);
    CHECK_CODE(code, FLX_E_DEVICE, &err);
    CHECK_MSG(strstr(err.message, said), "message: %s", err.message);
    CHECK_MSG(err.hint[0], "no hint with: %s", err.message);
    CHECK(!has_leftovers(f));
    CHECK_EQ_U64(count_descriptors(), descriptors);
    CHECK_EQ_U64(stats_of(s).hits, 0);
    flxi_compile_service_free(s);
}

#define VERSION "[ $1 = --version ] && exec cc --version\n"
/* Finds the object that is wanted. */
#define OBJECT "while [ $1 != -o ]; do shift; done; shift\n"

/* Where the part of an object ends that the loader reads first. */
static size_t dynamic_end(const char *path)
{
    size_t n, end = 0;
    unsigned char *bytes = read_bytes(path, &n);
    ElfW(Ehdr) e;
    memcpy(&e, bytes, sizeof e);
    for (size_t i = 0; i < e.e_phnum; i++) {
        ElfW(Phdr) p;
        memcpy(&p, bytes + e.e_phoff + i * sizeof p, sizeof p);
        if (p.p_type == PT_DYNAMIC)
            end = (size_t)(p.p_offset + p.p_filesz);
    }
    free(bytes);
    CHECK(end > 0 && end < n);
    return end;
}

TEST(compile_service_survives_bad_compilers)
{
    cache_fixture f;
    cache_fixture_begin(&f, test_missing_path("cc"));
    char text[2000];
    flx_error err = {0};
    int answer;
    flxi_compile_service *s = new_service(&f, NULL);
    CHECK_CODE(compile_answer(s, answer_text, &answer, &err), FLX_E_DEVICE, &err);
    snprintf(text, sizeof text, "FLX_CC is '%s', which is not a program", test_missing_path("cc"));
    CHECK_EQ_STR(err.message, text);
    unsetenv("FLX_CC");
    check_bad_compiler(&f, "#!/bin/sh\nkill -9 $$\n", "was ended by signal 9");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "kill -11 $$\n", "was ended by signal 11");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "exec sleep 100\n", "takes longer than 0.3 seconds");
    check_bad_compiler(&f, "#!/bin/sh\nexec sleep 100\n", "takes longer than 0.3 seconds");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "exec >&- 2>&-; exec sleep 100\n", "takes longer than 0.3 seconds");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "exec yes\n", "takes longer than 0.3 seconds");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "echo >$TMPDIR/left; exec sleep 100\n", "takes longer than");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "echo some words >&2; exit 3\n", "failed: some words");
    check_bad_compiler(&f, "#!/no/such/shell\n", "cannot start the compiler");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION ":\n", "cannot load what");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION OBJECT ": >$1\n", "not a complete shared object");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION OBJECT "head -c 9999 /dev/urandom >$1\n",
                       "not a complete shared object");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION OBJECT "mkdir $1; rmdir $1; ln -s /bin/sh $1\n", "cannot load what");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION OBJECT "mkdir $1; echo >$1/left\n", "cannot load what");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "mkdir -p $TMPDIR/a/b; echo >$TMPDIR/a/b/left; echo no >&2; exit 3\n",
                       "failed: no");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION OBJECT "head -c 100001 /dev/zero >$1\n", "100000 are the limit");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "sleep 0.1; ulimit -v >&2; exit 1\n", "failed: 1048576");
    check_bad_compiler(&f, "#!/bin/sh\n" VERSION "sleep 0.1\n" OBJECT "exec head -c 1700000 /dev/zero >$1\n", "signal");
    for (size_t bytes = 64, end = dynamic_end(f.dummy); bytes; bytes = bytes + 2500 < end ? bytes + 2500 : 0) {
        snprintf(text, sizeof text, "#!/bin/sh\n" VERSION OBJECT "head -c %zu %s >$1\n", bytes, f.dummy);
        check_bad_compiler(&f, text, "not a complete shared object");
    }
    snprintf(text, sizeof text, "#!/bin/sh\n" VERSION OBJECT "head -c %zu %s >$1\n", dynamic_end(f.dummy) - 1, f.dummy);
    check_bad_compiler(&f, text, "not a complete shared object");
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err); /* with a good one all is well */
    CHECK_EQ_I64(answer, 42);
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

/* A host may ignore its children, and a thread may block signals: neither disturbs the compiler. */
TEST(compile_service_bears_hosts_with_odd_signals)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    free(set_variable("FLX_CACHE", "off"));
    flxi_compile_service *s = new_service(&f, NULL);
    flx_error err = {0};
    sigset_t all, before;
    int answer;
    signal(SIGCHLD, SIG_IGN);
    flx_code code = compile_answer(s, answer_text, &answer, &err);
    signal(SIGCHLD, SIG_DFL);
    CHECK_OK(code, &err);
    CHECK_EQ_I64(answer, 42);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    code = compile_answer(s, answer_text, &answer, &err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK_OK(code, &err);
    CHECK_EQ_I64(answer, 42);
    flxi_compile_service_free(s);
    /* It starts with no signal blocked, and those that it lives by are not ignored; some above 31 are, by the C
       library. */
    char log[800], script[1200];
    size_t n;
    snprintf(log, sizeof log, "%.700s/../signals", f.temp);
    snprintf(script, sizeof script,
             "#!/bin/sh\ngrep -E '^SigBlk:.*[1-9a-f]|^SigIgn:.*[1-9a-f].{0,6}$' /proc/self/status >%s; exit 1\n", log);
    const int terminal[] = {SIGHUP, SIGINT, SIGQUIT}; /* nohup and shells may have these ignored, and so they stay */
    void (*was[3])(int);
    for (int i = 0; i < 3; i++)
        was[i] = signal(terminal[i], SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    check_bad_compiler(&f, script, "cannot load what");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < 3; i++)
        signal(terminal[i], was[i]);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    char *found = (char *)read_bytes(log, &n);
    CHECK_MSG(n == 0, "%.*s", (int)n, found);
    free(found);
    cache_fixture_end(&f);
}

/* Of a compiler that is late no process keeps running. */
TEST(compile_service_kills_all_that_a_compiler_started)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    char script[1200], log[800], stat_path[64], state = 0;
    snprintf(log, sizeof log, "%.700s/../pid", f.temp);
    snprintf(script, sizeof script, "#!/bin/sh\n" VERSION "sleep 100 & echo $! >%s\nwait\n", log);
    check_bad_compiler(&f, script, "takes longer than 0.3 seconds");
    size_t n;
    char *text = (char *)read_bytes(log, &n);
    snprintf(stat_path, sizeof stat_path, "/proc/%ld/stat", strtol(text, NULL, 10));
    free(text);
    for (int i = 0; i < 200;
         i++) { /* it dies in a moment; the process that takes over orphans may be slow to collect it */
        FILE *in = fopen(stat_path, "r");
        bool runs = in && fscanf(in, "%*d (%*[^)]) %c", &state) == 1 && state != 'Z' && state != 'X';
        if (in)
            fclose(in);
        if (!runs)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        CHECK(i < 199);
    }
    cache_fixture_end(&f);
}

/* ---- A system that misbehaves ---- */

TEST(compile_service_bears_slow_and_interrupted_calls)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    flx_error err = {0};
    int answer;
    for (int i = 0; i < 2; i++) {
        system_plan_set(&(system_plan){.failing = {.is_slow = true, .is_interrupted = true}, .object = f.dummy});
        flxi_compile_service *s = new_service(&f, NULL);
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_I64(answer, 42);
        CHECK_EQ_U64(stats_of(s).hits, i);
        CHECK_EQ_STR(stats_of(s).cache.note, "");
        flxi_compile_service_free(s);
    }
    cache_fixture_end(&f);
}

TEST(compile_service_works_without_anonymous_memory)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    flx_error err = {0};
    int answer;
    flxi_compile_service *s = new_service(&f, NULL);
    system_plan_set(&(system_plan){.refuse_memory = true});
    for (int i = 0; i < 2; i++) {
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_I64(answer, 42);
    }
    CHECK_EQ_U64(stats_of(s).misses, 2); /* what is in the cache is never mapped from there */
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

/* Every call fails once, on an empty cache and on one that has the object. Then either the cache was bypassed, or the
   error names the cause; nothing is left. */
TEST(compile_service_survives_every_failing_call)
{
    static const int errors[] = {EIO, ENOSPC, EACCES, EMFILE};
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    for (int is_warm = 0; is_warm < 2; is_warm++) {
        int calls = 1, failed = 0;
        for (int n = 0; n <= calls; n++) {
            fault memory = {0};
            const flxi_allocator mem = {fault_alloc, &memory};
            flx_error err = {0};
            int answer, error = errors[n % 4];
            system_plan_lift();
            empty_dir(f.dir);
            rmdir(f.dir);
            system_plan *plan = system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
            flxi_compile_service *s = new_service(&f, &mem);
            if (is_warm)
                CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
            flxi_compile_service_free(s);
            s = new_service(&f, &mem);
            size_t descriptors = count_descriptors();
            plan = system_plan_set(
                &(system_plan){.object = f.dummy, .skip_sync = true, .failing = {.fail_at = n, .error = error}});
            flx_code code = compile_answer(s, answer_text, &answer, &err);
            calls = n == 0 ? plan->failing.calls : calls;
            test_fail_context("%s, call %d of %d fails: %s", is_warm ? "warm" : "cold", n, calls, err.message);
            CHECK(code == FLX_OK || code == FLX_E_DEVICE);
            CHECK(code == FLX_OK ? answer == 42 : strstr(err.message, strerror(error)) != NULL);
            CHECK(code == FLX_OK || (n > 0 && !is_warm));
            failed += code != FLX_OK;
            flxi_compile_service_free(s);
            CHECK_EQ_U64(count_descriptors(), descriptors);
            CHECK(!has_leftovers(&f));
            CHECK(fault_is_clean(&memory));
            s = new_service(&f, NULL); /* whatever happened, the next one is in order */
            system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
            CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
            CHECK_EQ_I64(answer, 42);
            flxi_compile_service_free(s);
        }
        CHECK_MSG(calls > (is_warm ? 15 : 50), "%d calls", calls);
        CHECK(is_warm ? failed == 0 : failed > 5 && failed < calls / 2);
    }
    cache_fixture_end(&f);
}

/* Every allocation fails once, or all from some point on. */
TEST(compile_service_survives_failing_allocations)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    for (int kind = 0; kind < 4; kind++) {
        bool done = false, is_warm = kind & 1, forever = kind & 2;
        for (size_t n = 1; !done; n++) {
            fault memory = {.fail_at = n, .forever = forever};
            const flxi_allocator mem = {fault_alloc, &memory};
            flx_error err = {0};
            int answer = 42;
            system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
            if (!is_warm)
                empty_dir(f.dir);
            flxi_compile_service *s = new_service(&f, &mem);
            flx_code code = s ? compile_answer(s, answer_text, &answer, &err) : FLX_E_OOM;
            test_fail_context("allocation %zu, warm %d, forever %d: %s", n, is_warm, forever, err.message);
            CHECK(code == FLX_OK ? answer == 42 : code == FLX_E_OOM);
            done = memory.failed == 0;
            CHECK(!done || code == FLX_OK);
            flxi_compile_service_free(s);
            CHECK(fault_is_clean(&memory));
            CHECK(!has_leftovers(&f));
        }
    }
    cache_fixture_end(&f);
}
