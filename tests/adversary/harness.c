/* SPDX-License-Identifier: Apache-2.0 */
/* harness.c: the process of a batch: its limits, the cases one by one, and test.h for code that was written for
   flx_tests. A check that fails prints what it found to the log of the process and ends it: the process may hold
   anything at that point. */
#include "runner.h"
#include "sanitizer.h"
#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef FLX_SOURCE_DIR
#define FLX_SOURCE_DIR "."
#endif

static struct {
    slot *s;
    const part *p;
    uint64_t seed;
    char folder[600]; /* "" before it is used */
    char context[1024];
    bool failed;
    const run_options *o;
} now;

/* ---- Sanitizers ---- */

#if HAS_ASAN
int __lsan_do_recoverable_leak_check(void);
const char *__asan_default_options(void);

/* A request that fails is part of the attack; leaks are looked for at the end of a batch. */
__attribute__((visibility("default"), no_sanitize("address"))) const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:detect_leaks=1:handle_abort=1:leak_check_at_exit=0:max_allocation_size_mb=4096";
}

static bool has_leaks(void)
{
    return __lsan_do_recoverable_leak_check() != 0;
}
#else
static bool has_leaks(void)
{
    return false;
}
#endif

/* With a sanitizer, whose shadow is larger than any limit on the address space, the resident memory is checked after
   each case instead. */
static void limit_memory(const run_options *o)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    struct rlimit memory = {(rlim_t)o->memory_mib << 20, (rlim_t)o->memory_mib << 20};
    if (!HAS_ASAN)
        setrlimit(RLIMIT_AS, &memory);
}

static void check_memory(const run_options *o)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    CHECK_MSG(u.ru_maxrss / 1024 < o->memory_mib, "the process takes %ld MiB of memory", u.ru_maxrss / 1024);
}

/* ---- Folders ---- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)where;
    (void)kind;
    remove(path); /* a failure shows in the search for leftovers */
    return 0;
}

static int open_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)where;
    if (kind == FTW_D || kind == FTW_DNR)
        chmod(path, (st->st_mode & 07777) | 0700);
    return 0;
}

void remove_folder(const char *path)
{
    nftw(path, open_entry, 8, FTW_PHYS);
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *case_folder(void)
{
    if (now.folder[0])
        return now.folder;
    char path[sizeof now.folder];
    snprintf(path, sizeof path, "%s/case.XXXXXX", now.o->work);
    CHECK_MSG(mkdtemp(path) != NULL, "%s: %s", path, strerror(errno));
    memcpy(now.folder, path, sizeof path);
    return now.folder;
}

static void drop_folder(void)
{
    if (now.folder[0])
        remove_folder(now.folder);
    now.folder[0] = 0;
}

const char *sibling_program(const char *name)
{
    static char path[1024];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(n > 0);
    path[n] = 0;
    char *slash = strrchr(path, '/');
    CHECK(slash && (size_t)(slash - path) + strlen(name) + 2 < sizeof path);
    memcpy(slash + 1, name, strlen(name) + 1);
    CHECK_MSG(access(path, X_OK) == 0, "there is no %s: build the target %s", path, name);
    return path;
}

/* ---- Cases ---- */

void case_input(const void *bytes, size_t size)
{
    memcpy(now.s->input, bytes, size < INPUT_ROOM ? size : INPUT_ROOM);
    atomic_store(&now.s->input_size, size < INPUT_ROOM ? size : INPUT_ROOM);
}

void case_accepted(void)
{
    atomic_fetch_add(&now.s->accepted, 1);
}

const char *case_given_input(void)
{
    return now.o->input;
}

uint64_t case_seed(void)
{
    return now.seed;
}

static void fail_case(void)
{
    fflush(NULL);
    drop_folder();
    _exit(CASE_FAILED);
}

void run_batch(const part *p, slot *s, uint64_t seed, int64_t n, int64_t deadline, const run_options *o)
{
    now.s = s;
    now.p = p;
    now.o = o;
    limit_memory(o);
    for (int64_t i = 0; i < n && (i == 0 || now_ms() < deadline); i++) {
        now.seed = seed + (uint64_t)i;
        now.context[0] = 0;
        atomic_store(&s->input_size, 0);
        atomic_store(&s->seed, now.seed);
        atomic_store(&s->started, now_ms());
        p->run(now.seed);
        check_memory(o);
        if (now.failed)
            fail_case();
        drop_folder();
        atomic_fetch_add(&s->done, 1);
    }
    atomic_store(&s->started, now_ms());
    if (has_leaks())
        _exit(BATCH_LEAKED);
    atomic_store(&s->is_finished, true);
}

/* ---- test.h ---- */

static test_case *registered;

void test_register(test_case *t)
{
    t->next = registered;
    registered = t;
}

void run_test(const char *name)
{
    for (const test_case *t = registered; t; t = t->next)
        if (strcmp(t->name, name) == 0) {
            t->run();
            return;
        }
    FAIL("this program has no test %s", name);
}

void test_report(const char *file, int line, const char *text, const char *fmt, va_list args)
{
    now.failed = true;
    printf("  %s:%d: %s\n", file, line, text);
    if (fmt) {
        printf("    ");
        vprintf(fmt, args);
        printf("\n");
    }
    if (now.context[0])
        printf("    with: %s\n", now.context);
    fflush(stdout);
}

void test_end(void)
{
    fail_case();
}

void test_fail_context(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(now.context, sizeof now.context, fmt, args);
    va_end(args);
}

void test_count_case(void)
{
}

bool test_failed(void)
{
    return now.failed;
}

const char *test_name(void)
{
    return now.p->name;
}

/* Far from those of other cases: tests take many seeds from here on. */
uint64_t test_seed(void)
{
    uint64_t state = now.seed;
    return test_random(&state) >> 8;
}

const char *test_case_wanted(void)
{
    return NULL;
}

/* Tests of many seeds take the one of the case. */
bool test_case_seed(uint64_t *seed)
{
    *seed = now.seed;
    return true;
}

const char *test_keep_dir(void)
{
    return NULL;
}

const char *test_temp_dir(void)
{
    return case_folder();
}

const char *test_missing_path(const char *name)
{
    static char path[800];
    snprintf(path, sizeof path, "%s/missing/%s", case_folder(), name);
    return path;
}

/* Devices with drivers of their own are not part of an attack. */
void test_register_probe(test_probe *p)
{
    (void)p;
}

bool test_survives(const char *probe, char *reason, size_t size)
{
    (void)probe;
    snprintf(reason, size, "not tried");
    return false;
}
