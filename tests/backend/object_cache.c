/* SPDX-License-Identifier: Apache-2.0 */
/* object_cache.c: the cache of compiled objects: what is corrupted is compiled again and never loaded, processes may
   race, directories that others can write to are refused, and the oldest go. */
#include "backend/cache_fixture.h"
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char other_text[] = "int answer(void) { return 7; }\n";

/* ---- Hits ---- */

TEST(object_cache_serves_what_was_compiled_before)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan *plan = system_plan_set(&(system_plan){0});
    size_t descriptors = count_descriptors();
    flx_error err = {0};
    int answer;
    for (int round = 0; round < 3; round++) {
        flxi_compile_service *s = new_service(&f, NULL);
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_I64(answer, 42);
        CHECK_OK(compile_answer(s, other_text, &answer, &err), &err);
        CHECK_EQ_I64(answer, 7);
        flxi_compile_stats t = stats_of(s);
        CHECK_EQ_U64(t.hits, round ? 2 : 0);
        CHECK_EQ_U64(t.misses, round ? 0 : 2);
        CHECK_EQ_U64(t.cache.stored, round ? 0 : 4); /* with the compiler's version, and that it was used last */
        CHECK_EQ_U64(t.cache.rejected, 0);
        CHECK((t.compile_seconds > 0) == (round == 0));
        CHECK_EQ_STR(t.cache.note, "");
        flxi_compile_service_free(s);
    }
    CHECK_EQ_I64(plan->compilers, 2);
    CHECK_EQ_U64(count_in(f.dir), 4);
    CHECK_EQ_U64(count_descriptors(), descriptors);
    struct stat st;
    CHECK(stat(f.dir, &st) == 0 && (st.st_mode & 0777) == 0700);
    cache_fixture_end(&f);
}

/* What a compiler made serves where there is none; what was never compiled does not. */
TEST(object_cache_serves_without_a_compiler)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    flx_error err = {0};
    int answer;
    char missing[800];
    snprintf(missing, sizeof missing, "%s/no_compiler", f.temp);
    for (int round = 0; round < 2; round++) {
        flxi_compile_service *s = new_service(&f, NULL);
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        flxi_compile_service_free(s);
        char *old = set_variable("FLX_CC", missing);
        s = new_service(&f, NULL);
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_I64(answer, 42);
        CHECK_EQ_I64(err.code, FLX_OK);
        CHECK_EQ_U64(stats_of(s).hits, 1);
        CHECK_CODE(compile_answer(s, other_text, &answer, &err), FLX_E_DEVICE, &err);
        CHECK_MSG(strstr(err.message, "which is not a program"), "%s", err.message);
        flxi_compile_service_free(s);
        put_variable("FLX_CC", old);
        err = (flx_error){0};
    }
    cache_fixture_end(&f);
}

/* Everything that goes into an object goes into its key. */
TEST(object_cache_tells_apart_what_differs)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan *plan = system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
    flxi_compile_service *s = new_service(&f, NULL);
    flx_error err = {0};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 10; i++) {
            bool is_usual = i == 8, is_shorter = i == 9;
            flxi_c_unit u = {.text = answer_text, .n = strlen(answer_text) - is_shorter};
            flxi_c_level level = is_usual ? FLXI_C_USUAL : (flxi_c_level)(FLXI_C_O0 + i % 4);
            CHECK_OK(flxi_compile_c(s, &u, 1, level, i / 4 == 1 ? FLXI_C_CONTRACT : 0, &err), &err);
            flxi_object_free(u.object);
        }
    CHECK_EQ_I64(plan->compilers, 9); /* the usual level of a compiler is one of the others */
    CHECK_EQ_U64(stats_of(s).hits, 11);
    char link[800];
    snprintf(link, sizeof link, "%.700s/../compiler", f.dir);
    CHECK(symlink("/bin/true", link) == 0);
    setenv("FLX_CC", link, 1);
    int answer;
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK_EQ_I64(plan->compilers, 10);
    flxi_compile_service_free(s);
    unlink(link);
    cache_fixture_end(&f);
}

/* The loader must not take an object for another one that was loaded under the same descriptor before. */
TEST(object_cache_loads_many_at_once)
{
    enum { COUNT = 300 };
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    static flxi_c_unit units[COUNT];
    static char texts[COUNT][64];
    flxi_compile_service *s = new_service(&f, NULL);
    size_t descriptors = count_descriptors();
    flx_error err = {0};
    int answer;
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK_OK(compile_answer(s, other_text, &answer, &err), &err);
    for (int i = 0; i < COUNT; i++) {
        const char *text = i % 3 ? answer_text : other_text;
        snprintf(texts[i], sizeof texts[i], "%s", text);
        units[i] = (flxi_c_unit){.text = texts[i], .n = strlen(text)};
    }
    CHECK_OK(flxi_compile_c(s, units, COUNT, FLXI_C_O0, 0, &err), &err);
    CHECK_EQ_U64(stats_of(s).hits, COUNT);
    CHECK_EQ_U64(count_descriptors(), descriptors); /* a loaded object holds none */
    for (int i = 0; i < COUNT; i++) {
        int (*fn)(void);
        *(void **)&fn = flxi_object_symbol(units[i].object, "answer");
        CHECK(fn);
        CHECK_EQ_I64(fn(), i % 3 ? 42 : 7);
        if (i % 2)
            flxi_object_free(units[i].object);
    }
    for (int i = 0; i < COUNT; i += 2)
        flxi_object_free(units[i].object);
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

/* ---- Corruption ---- */

typedef struct {
    const cache_fixture *f;
    char path[900]; /* of the entry */
    unsigned char *good, *evil, *other;
    size_t n, num_evil, num_other;
    uint64_t random;
} victim;

enum { HEADER = 88, DIGEST = 56, LENGTH = 16 };

/* The header of the entry over an object with other contents, with the right length and, on request, digest. */
static unsigned char *forge(const victim *v, bool with_digest, size_t *n)
{
    unsigned char *bytes = malloc(HEADER + v->num_evil);
    uint64_t length = v->num_evil;
    memcpy(bytes, v->good, HEADER);
    memcpy(bytes + LENGTH, &length, sizeof length);
    memcpy(bytes + HEADER, v->evil, v->num_evil);
    if (with_digest)
        flxi_sha256_of(v->evil, v->num_evil, bytes + DIGEST);
    *n = HEADER + v->num_evil;
    return bytes;
}

static void flip_bit(victim *v)
{
    unsigned char *bytes = malloc(v->n);
    memcpy(bytes, v->good, v->n);
    size_t bit = (size_t)(test_random(&v->random) % (v->n * 8));
    if (test_random(&v->random) % 3 == 0)
        bit %= HEADER * 8;
    bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    write_bytes(v->path, bytes, v->n);
    free(bytes);
}

static void cut(victim *v)
{
    size_t n = test_random(&v->random) % (test_random(&v->random) % 2 ? v->n : HEADER + 2);
    write_bytes(v->path, v->good, n);
}

static void extend(victim *v)
{
    unsigned char *bytes = calloc(v->n + 100, 1);
    memcpy(bytes, v->good, v->n);
    write_bytes(v->path, bytes, v->n + 1 + test_random(&v->random) % 99);
    free(bytes);
}

static void swap_entry(victim *v)
{
    write_bytes(v->path, v->other, v->num_other);
}

static void put_foreign_file(victim *v)
{
    unsigned char *bytes = malloc(v->num_evil);
    memcpy(bytes, v->evil, v->num_evil);
    write_bytes(v->path, bytes, v->num_evil);
    free(bytes);
}

static void replace_object(victim *v)
{
    size_t n;
    unsigned char *bytes = forge(v, false, &n);
    write_bytes(v->path, bytes, n);
    free(bytes);
}

/* All as it should be, but of a version that this one does not know. */
static void change_version(victim *v)
{
    size_t n;
    unsigned char *bytes = forge(v, true, &n);
    bytes[8 + test_random(&v->random) % 8] ^= (unsigned char)(1 + test_random(&v->random) % 255);
    write_bytes(v->path, bytes, n);
    free(bytes);
}

static void put_link(victim *v)
{
    char target[900];
    size_t n;
    unsigned char *bytes = forge(v, true, &n);
    snprintf(target, sizeof target, "%.700s/../target", v->f->dir);
    write_bytes(target, bytes, n);
    unlink(v->path);
    CHECK(symlink(target, v->path) == 0);
    free(bytes);
}

static void open_to_others(victim *v)
{
    static const mode_t modes[] = {0620, 0602, 0666, 0777};
    size_t n;
    unsigned char *bytes = forge(v, true, &n);
    write_bytes(v->path, bytes, n);
    CHECK(chmod(v->path, modes[test_random(&v->random) % 4]) == 0);
    free(bytes);
}

/* Only the superuser can give files away; for others it is one more of the kind above. */
static void give_away(victim *v)
{
    open_to_others(v);
    if (chown(v->path, 12345, 12345) == 0)
        CHECK(chmod(v->path, 0644) == 0);
}

static void put_pipe(victim *v)
{
    unlink(v->path);
    CHECK(mkfifo(v->path, 0600) == 0);
}

/* The entry is refused and replaced. */
static void check_corruption(flxi_compile_service *s, const char *path)
{
    flx_error err = {0};
    int answer;
    struct stat st;
    flxi_compile_stats before = stats_of(s);
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    flxi_compile_stats after = stats_of(s);
    CHECK_EQ_I64(answer, 42);
    CHECK(!was_evil_loaded());
    CHECK_EQ_U64(after.cache.rejected, before.cache.rejected + 1);
    CHECK_EQ_U64(after.misses, before.misses + 1);
    CHECK_MSG(strstr(after.cache.note, "rejected"), "%s", after.cache.note);
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK_EQ_U64(stats_of(s).hits, before.hits + 1);
    CHECK(lstat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0600);
}

/* The evil object does leave its trace, if it is loaded. */
static void check_evil(const victim *v)
{
    unsigned char digest[FLXI_SHA256_BYTES];
    flx_error err = {0};
    flxi_object *o;
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    flxi_sha256_of(v->evil, v->num_evil, digest);
    CHECK_OK(flxi_object_load(&mem, v->evil, v->num_evil, digest, NULL, &o, &err), &err);
    CHECK(was_evil_loaded());
    unsetenv("FLX_EVIL_WAS_LOADED");
    flxi_object_free(o);
    digest[3] ^= 1; /* the bytes that would be mapped are not those that were promised */
    CHECK_CODE(flxi_object_load(&mem, v->evil, v->num_evil, digest, NULL, &o, &err), FLX_E_DEVICE, &err);
    CHECK(!was_evil_loaded());
}

TEST(object_cache_never_loads_a_corrupted_entry)
{
    static void (*const corruptions[])(victim *) = {
        flip_bit,       cut,      extend,         swap_entry, put_foreign_file, replace_object,
        change_version, put_link, open_to_others, give_away,  put_pipe,         flip_bit,
    };
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
    victim v = {.f = &f, .random = test_seed()};
    flxi_compile_service *s = new_service(&f, NULL);
    flx_error err = {0};
    int answer;
    CHECK_OK(compile_answer(s, other_text, &answer, &err), &err);
    find_entry(&f, v.path);
    v.other = read_bytes(v.path, &v.num_other);
    unlink(v.path);
    v.evil = read_bytes(f.evil, &v.num_evil);
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    find_entry(&f, v.path);
    v.good = read_bytes(v.path, &v.n);
    for (int i = 0; i < 1000; i++) {
        corruptions[i % 12](&v);
        test_fail_context("corruption %d of kind %d", i, i % 12);
        check_corruption(s, v.path);
    }
    check_evil(&v);
    free(v.good);
    free(v.evil);
    free(v.other);
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

/* An entry that is in order but does not load is compiled again. */
TEST(object_cache_replaces_an_entry_that_does_not_load)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    flxi_compile_service *s = new_service(&f, NULL);
    flx_error err = {0};
    int answer;
    char path[900];
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    find_entry(&f, path);
    size_t n;
    unsigned char *bytes = read_bytes(path, &n);
    memset(bytes + HEADER, 'x', n - HEADER);
    flxi_sha256_of(bytes + HEADER, n - HEADER, bytes + DIGEST);
    write_bytes(path, bytes, n);
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK_EQ_I64(answer, 42);
    CHECK_EQ_U64(stats_of(s).cache.rejected, 1);
    CHECK_MSG(strstr(stats_of(s).cache.note, "not a complete shared object"), "%s", stats_of(s).cache.note);
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK_EQ_U64(stats_of(s).hits, 1);
    unlink(path);
    CHECK(mkdir(path, 0700) == 0); /* cannot be replaced, so it stays a miss */
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK_EQ_I64(answer, 42);
    CHECK_MSG(strstr(stats_of(s).cache.note, "cannot write"), "%s", stats_of(s).cache.note);
    free(bytes);
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

/* ---- Several processes ---- */

/* What one of the processes does; its exit status. */
static int race(const cache_fixture *f, int texts)
{
    flxi_compile_service *s = new_service(f, NULL);
    int wrong = 0;
    for (int i = 0; i < texts; i++) {
        char text[80];
        int answer;
        snprintf(text, sizeof text, "int answer(void) { return 42; } /* %d */\n", i);
        wrong += compile_answer(s, text, &answer, NULL) != FLX_OK || answer != 42;
    }
    wrong += stats_of(s).cache.rejected > 0 || stats_of(s).cache.note[0];
    flxi_compile_service_free(s);
    return wrong;
}

static void race_once(const cache_fixture *f, int texts)
{
    pid_t children[8];
    fflush(stdout);
    for (int i = 0; i < 8; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0)
            _exit(race(f, texts));
    }
    for (int i = 0; i < 8; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        CHECK_EQ_I64(status, 0);
    }
    CHECK_EQ_U64(count_in(f->dir), (size_t)texts + 2); /* nothing but entries and what is known of the compiler */
    setenv("FLX_CACHE", "read-only", 1);
    flxi_compile_service *s = new_service(f, NULL);
    for (int i = 0; i < texts; i++) {
        char text[80];
        int answer;
        snprintf(text, sizeof text, "int answer(void) { return 42; } /* %d */\n", i);
        CHECK_OK(compile_answer(s, text, &answer, NULL), NULL);
    }
    CHECK_EQ_U64(stats_of(s).hits, texts);
    flxi_compile_service_free(s);
    unsetenv("FLX_CACHE");
}

TEST(object_cache_serves_racing_processes)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    race_once(&f, 2); /* with a real compiler */
    system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
    for (int round = 0; round < 20; round++) {
        empty_dir(f.dir);
        rmdir(f.dir);
        test_fail_context("round %d", round);
        race_once(&f, 4);
    }
    cache_fixture_end(&f);
}

/* ---- Directories and modes ---- */

static void check_refused(cache_fixture *f, const char *note)
{
    flxi_compile_service *s = new_service(f, NULL);
    flx_error err = {0};
    int answer;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_I64(answer, 42);
    }
    CHECK_EQ_U64(stats_of(s).hits, 0);
    CHECK_MSG(strstr(stats_of(s).cache.note, note), "note: %s", stats_of(s).cache.note);
    flxi_compile_service_free(s);
}

TEST(object_cache_refuses_directories_of_others)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
    CHECK(mkdir(f.dir, 0700) == 0);
    CHECK(chmod(f.dir, 0720) == 0);
    check_refused(&f, "others may write to it");
    CHECK(chmod(f.dir, 0702) == 0);
    check_refused(&f, "others may write to it");
    CHECK(chmod(f.dir, 0700) == 0);
    if (chown(f.dir, 12345, 12345) == 0) {
        check_refused(&f, "belongs to another user");
        CHECK(chown(f.dir, geteuid(), getegid()) == 0);
    }
    CHECK_EQ_U64(count_in(f.dir), 0);
    cache_fixture link = f;
    snprintf(link.dir, sizeof link.dir, "%.600s-link", f.dir);
    CHECK(symlink(f.dir, link.dir) == 0);
    check_refused(&link, "a link or no directory");
    strcat(link.dir, "//"); /* a slash at the end would follow it */
    check_refused(&link, "a link or no directory");
    CHECK_EQ_U64(count_in(f.dir), 0);
    cache_fixture file = f;
    snprintf(file.dir, sizeof file.dir, "%.650s", f.dummy);
    check_refused(&file, "a link or no directory");
    snprintf(file.dir, sizeof file.dir, "%.650s/below", f.dummy);
    check_refused(&file, "no cache in");
    cache_fixture_end(&f);
}

TEST(object_cache_keeps_to_its_mode)
{
    static const struct {
        const char *variable;
        flx_cache_mode mode;
        bool writes, reads;
    } rows[] = {
        {NULL, FLX_CACHE_ON, true, true},         {NULL, FLX_CACHE_READ_ONLY, false, true},
        {NULL, FLX_CACHE_OFF, false, false},      {"on", FLX_CACHE_OFF, true, true},
        {"read-only", FLX_CACHE_ON, false, true}, {"off", FLX_CACHE_ON, false, false},
        {"nonsense", FLX_CACHE_ON, false, false}, {"", FLX_CACHE_ON, true, true},
    };
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        flxi_service_options o = {.cache = {.dir = f.dir, .mode = rows[i].mode}};
        flxi_compile_service *s = flxi_compile_service_new(&mem, &o), *filler = new_service(&f, NULL);
        flx_error err = {0};
        int answer;
        empty_dir(f.dir);
        rmdir(f.dir);
        free(set_variable("FLX_CACHE", rows[i].variable));
        test_fail_context("row %zu", i);
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_U64(count_in(f.dir), rows[i].writes ? 3 : SIZE_MAX);
        unsetenv("FLX_CACHE");
        CHECK_OK(compile_answer(filler, answer_text, &answer, &err), &err);
        free(set_variable("FLX_CACHE", rows[i].variable));
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_U64(stats_of(s).hits, rows[i].reads);
        CHECK_OK(compile_answer(s, other_text, &answer, &err), &err);
        CHECK_EQ_U64(count_in(f.dir), rows[i].writes ? 4 : 3);
        CHECK((strstr(stats_of(s).cache.note, "not on, read-only or off") != NULL) == (i == 6));
        flxi_compile_service_free(s);
        flxi_compile_service_free(filler);
        unsetenv("FLX_CACHE");
    }
    cache_fixture_end(&f);
}

TEST(object_cache_finds_its_place_by_the_environment)
{
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
    char *old[3] = {set_variable("FLX_CACHE_DIR", f.dir), set_variable("XDG_CACHE_HOME", f.dir),
                    set_variable("HOME", f.dir)};
    static const char *const folders[] = {"", "/fluxion", "/.cache/fluxion", NULL};
    static const char *const variables[] = {NULL, "FLX_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
    flxi_compile_service *s = flxi_compile_service_new(&mem, NULL);
    CHECK(s);
    for (int i = 0; i < 4; i++) {
        char folder[800];
        flx_error err = {0};
        int answer;
        if (variables[i])
            unsetenv(variables[i]);
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        snprintf(folder, sizeof folder, "%s%s", f.dir, folders[i] ? folders[i] : "/");
        test_fail_context("without %s", variables[i] ? variables[i] : "nothing");
        if (folders[i])
            CHECK(count_in(folder) >= 1);
        else
            CHECK_MSG(strstr(stats_of(s).cache.note, "HOME"), "%s", stats_of(s).cache.note);
    }
    flxi_compile_service_free(s);
    put_variable("FLX_CACHE_DIR", old[0]);
    put_variable("XDG_CACHE_HOME", old[1]);
    put_variable("HOME", old[2]);
    cache_fixture_end(&f);
}

/* A directory that cannot be written to still serves. Permissions do not stop the superuser, so writing is made to
   fail. */
TEST(object_cache_serves_from_a_full_disk)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan_set(&(system_plan){.object = f.dummy});
    flxi_compile_service *s = new_service(&f, NULL);
    flx_error err = {0};
    int answer;
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK(chmod(f.dir, 0500) == 0);
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK_EQ_U64(stats_of(s).hits, 1);
    CHECK_OK(compile_answer(s, other_text, &answer, &err), &err);
    if (geteuid() != 0) {
        CHECK_MSG(strstr(stats_of(s).cache.note, "cannot write"), "%s", stats_of(s).cache.note);
        CHECK_EQ_U64(count_in(f.dir), 3);
    }
    CHECK(chmod(f.dir, 0700) == 0);
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}

/* Whatever the program's umask is, what was written can be read. */
TEST(object_cache_works_under_any_umask)
{
    static const mode_t masks[] = {0, 022, 077, 0777};
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    for (int i = 0; i < 4; i++) {
        flx_error err = {0};
        int answer;
        struct stat st;
        char path[900];
        system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
        flxi_compile_service *s = new_service(&f, NULL);
        CHECK(i == 0 || mkdir(f.dir, 0700) == 0); /* the mask would lock us out of our own */
        mode_t before = umask(masks[i] == 0777 ? 0577 : masks[i]);
        flx_code code = compile_answer(s, answer_text, &answer, &err);
        umask(before);
        CHECK_OK(code, &err);
        find_entry(&f, path);
        CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
        CHECK(stat(f.dir, &st) == 0 && (st.st_mode & 0777) == 0700);
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_U64(stats_of(s).hits, 1);
        flxi_compile_service_free(s);
        empty_dir(f.dir);
        rmdir(f.dir);
    }
    cache_fixture_end(&f);
}

/* ---- What killed processes leave ---- */

TEST(object_cache_sweeps_leftovers_at_the_first_write)
{
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
    char stale[800], fresh[800];
    flx_error err = {0};
    int answer;
    CHECK(mkdir(f.dir, 0700) == 0);
    snprintf(stale, sizeof stale, "%s/.tmp-1-2", f.dir);
    snprintf(fresh, sizeof fresh, "%s/.tmp-1-3", f.dir);
    write_bytes(stale, "x", 1);
    write_bytes(fresh, "x", 1);
    const struct timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
    CHECK(utimensat(AT_FDCWD, stale, long_ago, 0) == 0);
    flxi_compile_service *s = new_service(&f, NULL);
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    CHECK(access(stale, F_OK) != 0 && access(fresh, F_OK) == 0);
    flxi_compile_service_free(s);
    unlink(fresh);
    cache_fixture_end(&f);
}

/* ---- The bound ---- */

TEST(object_cache_drops_the_oldest)
{
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    cache_fixture f;
    cache_fixture_begin(&f, NULL);
    system_plan *plan = system_plan_set(&(system_plan){.object = f.dummy, .skip_sync = true});
    size_t size;
    char stale[800], foreign[800], path[900];
    free(read_bytes(f.dummy, &size));
    flxi_cache_options cache = {.dir = f.dir, .max_bytes = size * 8};
    flxi_compile_service *s = flxi_compile_service_new(&mem, &(flxi_service_options){.cache = cache});
    flx_error err = {0};
    int answer;
    CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
    find_entry(&f, path);
    snprintf(stale, sizeof stale, "%s/.tmp-1-2", f.dir);
    snprintf(foreign, sizeof foreign, "%s/readme", f.dir);
    write_bytes(stale, "x", 1);
    write_bytes(foreign, "x", 1);
    const struct timespec long_ago[2] = {{1000000000, 0}, {1000000000, 0}};
    CHECK(utimensat(AT_FDCWD, stale, long_ago, 0) == 0);
    CHECK(utimensat(AT_FDCWD, foreign, long_ago, 0) == 0);
    for (int i = 0; i < 40; i++) {
        char text[80];
        snprintf(text, sizeof text, "int answer(void) { return 42; } /* %d */\n", i);
        CHECK_OK(compile_answer(s, text, &answer, &err), &err);
        CHECK_MSG(count_in(f.dir) <= 8 + 3, "%zu files", count_in(f.dir));
        /* The first is old, but in use. */
        CHECK(utimensat(AT_FDCWD, path, long_ago, 0) == 0);
        int before = plan->compilers;
        CHECK_OK(compile_answer(s, answer_text, &answer, &err), &err);
        CHECK_EQ_I64(plan->compilers, before);
    }
    CHECK(stats_of(s).cache.evicted >= 32);
    CHECK(access(stale, F_OK) != 0 && access(foreign, F_OK) == 0);
    flxi_compile_service_free(s);
    cache.max_bytes = size / 2; /* too small for anything but the version */
    s = flxi_compile_service_new(&mem, &(flxi_service_options){.cache = cache});
    CHECK_OK(compile_answer(s, "int answer(void) { return 42; }", &answer, &err), &err);
    CHECK_EQ_I64(answer, 42);
    CHECK_MSG(strstr(stats_of(s).cache.note, "too large"), "%s", stats_of(s).cache.note);
    flxi_compile_service_free(s);
    cache_fixture_end(&f);
}
