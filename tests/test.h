/* SPDX-License-Identifier: Apache-2.0 */
/* test.h: the test harness. A test is a function that registers itself:

       #include "test.h"

       TEST(shape_broadcast_rejects_unequal_dims)
       {
           test_fail_context("seed %llu", (unsigned long long)test_seed());
           CHECK(shape.rank == 2);
           CHECK_EQ_STR(text, "f32[2, 3]");
       }

   A CHECK that fails prints the location, the values, the context and the command that reruns this one test, then ends
   the test at once (longjmp to the runner), at any call depth: helpers may return values. Resources of the test are
   leaked. An EXPECT that fails prints the same and continues; use it in table-driven tests where every row matters.
   Called from a thread other than the runner's, CHECK marks the test as failed and continues.

   The program: flx_tests [--list] [--verbose] [--amounts] [--jobs=N] [--except=TEXT]... [FILTER...]. A filter selects
   the tests whose name contains it, or only the one test of exactly that name. Tests run in the order of their names,
   or with jobs in any order, shared by that many processes; they must not depend on it.

   Environment variables: FLX_TEST_EFFORT sets how much is tried (effort.h), FLX_TEST_SEED varies random tests,
   FLX_TEST_CASE=relu or =4711 selects cases inside tests (test_case_wanted), FLX_TEST_KEEP=FOLDER keeps texts for other
   programs, FLX_TEST_UPDATE=FOLDER writes the pages that tests check to FOLDER/docs instead (script/generate). */
#ifndef FLX_TEST_H
#define FLX_TEST_H

#include "effort.h"

#include <fluxion/types.h>
#include <stdarg.h>
#include <stdbool.h>

/* ---- Defining tests ---- */

typedef struct test_case {
    const char *name;
    const char *file;
    void (*run)(void);
    struct test_case *next;
} test_case;

#define TEST(test_name)                                                                        \
    static void test_body_##test_name(void);                                                   \
    static test_case test_case_##test_name = {#test_name, __FILE__, test_body_##test_name, 0}; \
    __attribute__((constructor)) static void test_register_##test_name(void)                   \
    {                                                                                          \
        test_register(&test_case_##test_name);                                                 \
    }                                                                                          \
    static void test_body_##test_name(void)

void test_register(test_case *t);

/* A probe asks foreign code that may crash or hang, such as a driver, and gives false with a reason:

       PROBE(opencl) { ... snprintf(reason, size, "no device"); return false; }

   It runs in a process that was started for it: one that was only forked would have the memory of libraries which an
   earlier test has used, without their threads. */
typedef struct test_probe {
    const char *name;
    bool (*run)(char *reason, size_t size);
    struct test_probe *next;
} test_probe;

#define PROBE(probe_name)                                                             \
    static bool probe_body_##probe_name(char *reason, size_t size);                   \
    static test_probe probe_##probe_name = {#probe_name, probe_body_##probe_name, 0}; \
    __attribute__((constructor)) static void probe_register_##probe_name(void)        \
    {                                                                                 \
        test_register_probe(&probe_##probe_name);                                     \
    }                                                                                 \
    static bool probe_body_##probe_name(char *reason, size_t size)

void test_register_probe(test_probe *p);

/* Options of flx_run() for results by definition: the device that runs by default compiles. */
#define ON_REF (&(const flx_run_options){.device = "ref"})

/* ---- Checks ---- */

#define CHECK(cond) test_require(__FILE__, __LINE__, (cond), #cond, 0)

/* CHECK_MSG(n == 3, "n is %d", n) */
#define CHECK_MSG(cond, ...) test_require(__FILE__, __LINE__, (cond), #cond, __VA_ARGS__)

/* Like CHECK_MSG, but continues; returns the value of the condition. */
#define EXPECT_MSG(cond, ...) test_expect(__FILE__, __LINE__, (cond), #cond, __VA_ARGS__)

#define CHECK_EQ_I64(a, b) test_require_i64(__FILE__, __LINE__, #a, #b, (int64_t)(a), (int64_t)(b))
#define CHECK_EQ_U64(a, b) test_require_u64(__FILE__, __LINE__, #a, #b, (uint64_t)(a), (uint64_t)(b))

/* Either may be NULL; NULL equals only NULL. */
#define CHECK_EQ_STR(a, b) test_require_str(__FILE__, __LINE__, #a, #b, (a), (b))

/* |a - b| <= tolerance; equal infinities are near, and so are two NaNs. */
#define CHECK_NEAR(a, b, tolerance) test_require_near(__FILE__, __LINE__, #a, #b, (a), (b), (tolerance))

/* Checks the code that `call` returns; `err`, a flx_error * or NULL, is printed when it differs. */
#define CHECK_CODE(call, code, err) test_require_code(__FILE__, __LINE__, #call, (call), (code), (err))
#define CHECK_OK(call, err) CHECK_CODE(call, FLX_OK, err)

/* That an object was made; `err` is printed when it was not. */
#define CHECK_MADE(object, err) CHECK_MSG((object) != NULL, "%s: %s", flx_code_name((err)->code), (err)->message)

/* Fails without a condition. */
#define FAIL(...) test_require(__FILE__, __LINE__, false, "reached code that must not be reached", __VA_ARGS__)

/* ---- For use inside a test ---- */

/* Describes the current case (op, shape, dtype, seed); printed with each failure until the next call or the end of the
   test. */
void test_fail_context(const char *fmt, ...) FLX_PRINTF(1, 2);

/* Counts one row of a table-driven test; the total is printed before the last line. */
void test_count_case(void);

/* Whether the test has failed so far. */
bool test_failed(void);

/* The name of the current test. */
const char *test_name(void);

/* A seed derived from the test's name and the variable FLX_TEST_SEED, so that a run repeats but a soak can vary it. */
uint64_t test_seed(void);

/* The value of FLX_TEST_CASE, or NULL: tests of many cases try only those that it selects, by a part of the name of an
   op or an oracle's case, or by a seed. If it is a number, test_case_seed() returns it. */
const char *test_case_wanted(void);
bool test_case_seed(uint64_t *seed);

/* The folder of FLX_TEST_KEEP, where tests write files that other programs can check: CUDA text, StableHLO; NULL for
   none. */
const char *test_keep_dir(void);

/* The next of a random sequence (splitmix64); `state` starts as the seed. test_uniform() is in [0, 1). */
uint64_t test_random(uint64_t *state);
double test_uniform(uint64_t *state);

/* The repository's root, so that tests find their files: FLX_SOURCE_DIR of the environment, or of the build. */
const char *test_source_dir(void);

/* A folder for the files that a test writes; created on first use, removed with its contents when the program ends. */
const char *test_temp_dir(void);

/* A path in this folder. The text lives until the program ends. */
const char *test_temp_path(const char *name);

/* Calls the probe of that name in a new process and returns its result. If it is false, `reason` receives what the
   probe wrote there, or which signal ended the process. */
bool test_survives(const char *probe, char *reason, size_t size);

/* Whether the shell finds a program; says what is left out if not. */
bool test_has_program(const char *name);

/* A path that does not exist, in a folder that does not: no fixed name is certain to be free on every machine. The text
   lives until the program ends. */
const char *test_missing_path(const char *name);

/* ---- What the macros call ---- */

void test_require(const char *file, int line, bool ok, const char *text, const char *fmt, ...) FLX_PRINTF(5, 6);
bool test_expect(const char *file, int line, bool ok, const char *text, const char *fmt, ...) FLX_PRINTF(5, 6);
void test_require_i64(const char *file, int line, const char *ta, const char *tb, int64_t a, int64_t b);
void test_require_u64(const char *file, int line, const char *ta, const char *tb, uint64_t a, uint64_t b);
void test_require_str(const char *file, int line, const char *ta, const char *tb, const char *a, const char *b);
void test_require_near(const char *file, int line, const char *ta, const char *tb, double a, double b,
                       double tolerance);
void test_require_code(const char *file, int line, const char *text, int32_t code, int32_t expected,
                       const flx_error *err);

/* ---- What a program with tests does for them ---- */

/* Prints what failed, and marks the test as failed. */
void test_report(const char *file, int line, const char *text, const char *fmt, va_list args);
/* Ends the test, if it may be ended on this thread. */
void test_end(void);

#endif
