/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c: an object cache whose entries, or folder, are not what the library wrote: cut off, changed, of other
   objects, of other kinds of files. Results stay right, and the run ends. */
#include "adversary.h"
#include "base/sha256.h"
#include "exact_graph.h"
#include "mutate.h"
#include "process.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 88, KEY = 24, DIGEST = 56, MAX_FOUND = 16 };

typedef struct {
    char path[1200];
    unsigned char *bytes;
    size_t size;
} cache_file;

static size_t list_entries(const char *folder, cache_file *found)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    CHECK_MSG(d != NULL, "%s: %s", folder, strerror(errno));
    for (struct dirent *e; (e = readdir(d)) != NULL && n < MAX_FOUND;)
        if (strstr(e->d_name, ".flxo"))
            snprintf(found[n++].path, sizeof found->path, "%s/%s", folder, e->d_name);
    closedir(d);
    return n;
}

static void load(cache_file *f)
{
    FILE *in = fopen(f->path, "rb");
    CHECK_MSG(in != NULL, "%s: %s", f->path, strerror(errno));
    f->bytes = malloc(1 << 20);
    CHECK(f->bytes);
    f->size = fread(f->bytes, 1, 1 << 20, in);
    fclose(in);
    CHECK_MSG(f->size > HEADER, "%s has %zu bytes", f->path, f->size);
}

/* An entry with everything as it should be, but another object. */
static void write_sealed(const cache_file *f, const void *object, size_t n)
{
    unsigned char *entry = malloc(HEADER + n);
    CHECK(entry);
    memcpy(entry, f->bytes, HEADER);
    for (int i = 0; i < 8; i++)
        entry[16 + i] = (unsigned char)((uint64_t)n >> (8 * i));
    flxi_sha256_of(object, n, entry + DIGEST);
    memcpy(entry + HEADER, object, n);
    write_file(f->path, entry, HEADER + n, 0600);
    free(entry);
}

static const char *damage_entry(const cache_file *f, const cache_file *other, const char *dir)
{
    char aside[900];
    snprintf(aside, sizeof aside, "%s/aside", dir);
    unsigned char *copy = malloc(1 << 20);
    CHECK(copy);
    memcpy(copy, f->bytes, f->size);
    const char *what = "";
    unlink(f->path);
    switch (pick_below(13)) {
    case 0:
        write_file(f->path, copy, pick_below(f->size), 0600);
        what = "cut off";
        break;
    case 1:
        copy[pick_below(f->size)] ^= (unsigned char)(1 << pick_below(8));
        write_file(f->path, copy, f->size, 0600);
        what = "with another bit";
        break;
    case 2:
        copy[pick_below(HEADER)] ^= (unsigned char)(1 + pick_below(255));
        write_file(f->path, copy, f->size, 0600);
        what = "with another header";
        break;
    case 3:
        write_file(f->path, other->bytes, other->size, 0600);
        what = "of another key";
        break;
    case 4:
        memset(copy, (int)pick_below(256), f->size);
        write_sealed(f, copy, pick_below(f->size));
        what = "with garbage as its object";
        break;
    case 5:
        write_file(f->path, copy, f->size, 0);
        what = "that may not be read";
        break;
    case 6:
        write_file(f->path, copy, f->size, 0666);
        what = "that others may write";
        break;
    case 7:
        write_file(aside, copy, f->size, 0600);
        CHECK(symlink(aside, f->path) == 0);
        what = "that is a link";
        break;
    case 8:
        CHECK(symlink("nowhere", f->path) == 0);
        what = "that is a link to nothing";
        break;
    case 9:
        CHECK(mkdir(f->path, 0700) == 0);
        what = "that is a folder";
        break;
    case 10:
        CHECK(mkfifo(f->path, 0600) == 0);
        what = "that is a pipe";
        break;
    case 11:
        write_file(f->path, copy, f->size, 0600);
        CHECK(truncate(f->path, (off_t)1 << 32) == 0);
        what = "of 4 GiB";
        break;
    default:
        write_file(f->path, copy, f->size, 0600);
        memset(copy, 0, HEADER);
        write_file(f->path, copy, f->size + pick_below(100), 0600);
        what = "with bytes after its end, and no header";
        break;
    }
    free(copy);
    return what;
}

/* The folder itself; false when it stays as it is. */
static const char *damage_folder(const char *cache, const char *dir)
{
    char aside[900];
    snprintf(aside, sizeof aside, "%s/aside-folder", dir);
    switch (pick_below(5)) {
    case 0: CHECK(rename(cache, aside) == 0 && symlink(aside, cache) == 0); return "a folder that is a link";
    case 1:
        CHECK(rename(cache, aside) == 0);
        write_file(cache, "", 0, 0600);
        return "a folder that is a file";
    case 2: CHECK(chmod(cache, 0777) == 0); return "a folder that others may write";
    case 3: CHECK(chmod(cache, 0500) == 0); return "a folder that may not be written";
    default: CHECK(rename(cache, aside) == 0); return "a folder that is gone";
    }
}

static void run_and_compare(const char *dir, const char *const *env, const char *expected, const char *what)
{
    static process_result r;
    run_flx(dir, exact_run, env, &r);
    need_sane(&r, what);
    CHECK_MSG(r.status == 0 && strcmp(r.out, expected) == 0, "%s: status %d, printed\n%s\ninstead of\n%s\n%s", what,
              r.status, r.out, expected, r.err);
}

void attack_cache(uint64_t seed)
{
    static char expected[OUTPUT_ROOM], other_expected[OUTPUT_ROOM];
    mutate_begin(seed);
    const char *dir = case_folder();
    char cache[800], setting[900], graph[800], tmp[800], tmp_setting[900];
    snprintf(cache, sizeof cache, "%s/cache", dir);
    snprintf(setting, sizeof setting, "FLX_CACHE_DIR=%s", cache);
    snprintf(graph, sizeof graph, "%s/g.flx", dir);
    snprintf(tmp, sizeof tmp, "%s/tmp", dir);
    snprintf(tmp_setting, sizeof tmp_setting, "TMPDIR=%s", tmp);
    CHECK(mkdir(tmp, 0700) == 0);
    const char *const env[] = {setting, tmp_setting, NULL};

    write_exact_graph(graph); /* another one, whose entry is foreign to the first */
    expect_exact(dir, other_expected);
    run_and_compare(dir, env, other_expected, "another graph");
    write_exact_graph(graph);
    expect_exact(dir, expected);
    run_and_compare(dir, env, expected, "an empty cache");
    static cache_file found[MAX_FOUND];
    size_t n = list_entries(cache, found);
    CHECK_MSG(n >= 1, "nothing is in the cache");
    for (size_t i = 0; i < n; i++)
        load(&found[i]);
    for (int round = 0; round < 3; round++) {
        char what[300] = "";
        bool is_folder = round == 2 && pick_below(2);
        if (is_folder)
            snprintf(what, sizeof what, "%s", damage_folder(cache, dir));
        for (size_t i = 0; i < n && !is_folder; i++) {
            const char *one = damage_entry(&found[i], &found[pick_below(n)], dir);
            size_t used = strlen(what);
            snprintf(what + used, sizeof what - used, "%san entry %s", used ? ", " : "", one);
        }
        run_and_compare(dir, env, expected, what);
        run_and_compare(dir, env, expected, "the run after it");
        for (size_t i = 0; i < n && !is_folder; i++) /* what the library could not replace */
            if (rmdir(found[i].path) != 0)
                unlink(found[i].path);
        CHECK_MSG(count_names(cache, ".tmp-") == 0, "%s: a temporary file is left in the cache", what);
        CHECK_MSG(count_names(tmp, "") == 0, "%s: something is left in the folder of temporary files", what);
    }
    for (size_t i = 0; i < n; i++)
        free(found[i].bytes);
    case_accepted();
}
