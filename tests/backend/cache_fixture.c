/* SPDX-License-Identifier: Apache-2.0 */
/* cache_fixture.c: see cache_fixture.h. */
#include "backend/cache_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const flxi_allocator plain = {flxi_default_alloc, NULL};

const char answer_text[] = "int answer(void) { return 42; }\n";

static const char evil_text[] =
    "int setenv(const char *, const char *, int);\n"
    "__attribute__((constructor)) static void leave_trace(void) { setenv(\"FLX_EVIL_WAS_LOADED\", \"1\", 1); }\n"
    "int answer(void) { return 666; }\n";

char *set_variable(const char *name, const char *value)
{
    const char *was = getenv(name);
    char *kept = was ? strdup(was) : NULL;
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    return kept;
}

void put_variable(const char *name, char *kept)
{
    free(set_variable(name, kept));
    free(kept);
}

unsigned char *read_bytes(const char *path, size_t *n)
{
    FILE *in = fopen(path, "rb");
    CHECK_MSG(in, "%s", path);
    unsigned char *bytes = malloc(1 << 20);
    *n = fread(bytes, 1, 1 << 20, in);
    fclose(in);
    return bytes;
}

void write_bytes(const char *path, const void *bytes, size_t n)
{
    unlink(path); /* cutting an old file short makes some file systems wait for the disk */
    FILE *out = fopen(path, "wb");
    CHECK_MSG(out, "%s", path);
    fwrite(bytes, 1, n, out);
    fclose(out);
    CHECK(chmod(path, 0600) == 0);
}

void write_script(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
    CHECK(chmod(path, 0700) == 0);
}

/* Entries of a directory that satisfy `is_wanted`; the last of them in `path`. */
static size_t walk(const char *dir, bool (*is_wanted)(const char *path), char path[900])
{
    DIR *d = opendir(dir);
    size_t n = 0;
    if (!d)
        return SIZE_MAX;
    for (struct dirent *e; (e = readdir(d));) {
        char here[900];
        snprintf(here, sizeof here, "%.600s/%.255s", dir, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || (is_wanted && !is_wanted(here)))
            continue;
        if (path)
            memcpy(path, here, sizeof here);
        n++;
    }
    closedir(d);
    return n;
}

size_t count_in(const char *dir)
{
    return walk(dir, NULL, NULL);
}

size_t count_descriptors(void)
{
    return count_in("/proc/self/fd");
}

static bool remove_path(const char *path)
{
    return remove(path) == 0;
}

void empty_dir(const char *dir)
{
    walk(dir, remove_path, NULL);
}

static bool is_temporary(const char *path)
{
    return strstr(path, "/.tmp-") != NULL;
}

bool has_leftovers(const cache_fixture *f)
{
    size_t n = walk(f->dir, is_temporary, NULL);
    return count_in(f->temp) > 0 || (n > 0 && n != SIZE_MAX);
}

static bool is_large(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size > 2000;
}

void find_entry(const cache_fixture *f, char path[900])
{
    CHECK_EQ_U64(walk(f->dir, is_large, path), 1);
}

/* By the system's compiler, with the arguments that the service gives, so that no service is needed. */
static void make_object(const char *text, const char *path)
{
    char source[900], command[2000];
    snprintf(source, sizeof source, "%s.c", path);
    write_bytes(source, text, strlen(text));
    snprintf(command, sizeof command, "cc -w -O0 -fPIC -shared -o '%.850s' '%.850s'", path, source);
    CHECK(system(command) == 0);
}

void cache_fixture_begin(cache_fixture *f, const char *compiler)
{
    static int number;
    system_plan_lift();
    const char *base = test_temp_dir();
    number++;
    snprintf(f->dir, sizeof f->dir, "%.500s/cache-%d", base, number);
    snprintf(f->temp, sizeof f->temp, "%.500s/temp-%d", base, number);
    snprintf(f->dummy, sizeof f->dummy, "%.500s/dummy.so", base);
    snprintf(f->evil, sizeof f->evil, "%.500s/evil.so", base);
    CHECK(mkdir(f->temp, 0700) == 0);
    if (access(f->dummy, F_OK) != 0) {
        make_object(answer_text, f->dummy);
        make_object(evil_text, f->evil);
    }
    f->old_cache = set_variable("FLX_CACHE", NULL);
    f->old_temp = set_variable("TMPDIR", f->temp);
    f->old_cc = set_variable("FLX_CC", compiler);
}

void cache_fixture_end(cache_fixture *f)
{
    system_plan_lift();
    CHECK(!has_leftovers(f));
    put_variable("FLX_CACHE", f->old_cache);
    put_variable("TMPDIR", f->old_temp);
    put_variable("FLX_CC", f->old_cc);
}

flxi_compile_service *new_service(const cache_fixture *f, const flxi_allocator *mem)
{
    flxi_compile_service *s =
        flxi_compile_service_new(mem ? mem : &plain, &(flxi_service_options){.cache.dir = f->dir, .jobs = 2});
    CHECK(mem || s);
    return s;
}

flxi_compile_stats stats_of(flxi_compile_service *s)
{
    flxi_compile_stats stats;
    flxi_compile_service_stats(s, &stats);
    return stats;
}

flx_code compile_answer(flxi_compile_service *s, const char *text, int *answer, flx_error *err)
{
    flxi_c_unit u = {.text = text, .n = strlen(text)};
    int (*fn)(void) = NULL;
    *answer = -1;
    flx_code code = flxi_compile_c(s, &u, 1, FLXI_C_O0, 0, err);
    CHECK((code == FLX_OK) == (u.object != NULL));
    if (code != FLX_OK)
        return code;
    *(void **)&fn = flxi_object_symbol(u.object, "answer");
    if (fn)
        *answer = fn();
    flxi_object_free(u.object);
    return code;
}

bool was_evil_loaded(void)
{
    return getenv("FLX_EVIL_WAS_LOADED") != NULL;
}
