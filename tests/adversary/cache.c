/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c: an object cache whose entries, or folder, are not what the library wrote: cut off, changed, of other
   objects, of other kinds of files. Results stay right, and the run ends. */
#include "adversary.h"
#include "base/sha256.h"
#include "exact_graph.h"
#include "mutate/mutate.h"
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

/* ---- Damage ---- */

typedef struct {
    const cache_file *entry, *other;
    unsigned char *copy; /* of the entry */
    const char *dir;
} damage;

static void cut_off(damage *d)
{
    write_file(d->entry->path, d->copy, pick_below(d->entry->size), 0600);
}

static void change_bit(damage *d)
{
    d->copy[pick_below(d->entry->size)] ^= (unsigned char)(1 << pick_below(8));
    write_file(d->entry->path, d->copy, d->entry->size, 0600);
}

static void change_header(damage *d)
{
    d->copy[pick_below(HEADER)] ^= (unsigned char)(1 + pick_below(255));
    write_file(d->entry->path, d->copy, d->entry->size, 0600);
}

static void take_another(damage *d)
{
    write_file(d->entry->path, d->other->bytes, d->other->size, 0600);
}

static void seal_garbage(damage *d)
{
    memset(d->copy, (int)pick_below(256), d->entry->size);
    write_sealed(d->entry, d->copy, pick_below(d->entry->size));
}

static void forbid_reading(damage *d)
{
    write_file(d->entry->path, d->copy, d->entry->size, 0);
}

static void allow_writing(damage *d)
{
    write_file(d->entry->path, d->copy, d->entry->size, 0666);
}

static void link_aside(damage *d)
{
    char aside[900];
    snprintf(aside, sizeof aside, "%s/aside", d->dir);
    write_file(aside, d->copy, d->entry->size, 0600);
    CHECK(symlink(aside, d->entry->path) == 0);
}

static void link_to_nothing(damage *d)
{
    CHECK(symlink("nowhere", d->entry->path) == 0);
}

static void make_folder(damage *d)
{
    CHECK(mkdir(d->entry->path, 0700) == 0);
}

static void make_pipe(damage *d)
{
    CHECK(mkfifo(d->entry->path, 0600) == 0);
}

static void make_huge(damage *d)
{
    write_file(d->entry->path, d->copy, d->entry->size, 0600);
    CHECK(truncate(d->entry->path, (off_t)1 << 32) == 0);
}

static void clear_header(damage *d)
{
    memset(d->copy, 0, HEADER);
    write_file(d->entry->path, d->copy, d->entry->size + pick_below(100), 0600);
}

static const struct {
    const char *what;
    void (*make)(damage *d);
} damages[] = {{"cut off", cut_off},
               {"with another bit", change_bit},
               {"with another header", change_header},
               {"of another key", take_another},
               {"with garbage as its object", seal_garbage},
               {"that may not be read", forbid_reading},
               {"that others may write", allow_writing},
               {"that is a link", link_aside},
               {"that is a link to nothing", link_to_nothing},
               {"that is a folder", make_folder},
               {"that is a pipe", make_pipe},
               {"of 4 GiB", make_huge},
               {"with bytes after its end, and no header", clear_header}};

static const char *damage_entry(const cache_file *f, const cache_file *other, const char *dir)
{
    damage d = {f, other, malloc(1 << 20), dir};
    size_t kind = pick_below(sizeof damages / sizeof *damages);
    CHECK(d.copy);
    memset(d.copy, 0, 1 << 20);
    memcpy(d.copy, f->bytes, f->size);
    unlink(f->path);
    damages[kind].make(&d);
    free(d.copy);
    return damages[kind].what;
}

/* The folder itself. */
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

/* Every entry, or sometimes the folder, is damaged; `what` says how. True for the folder. */
static bool damage_all(const scene *s, const cache_file *found, size_t n, bool may_be_folder, char *what, size_t size)
{
    what[0] = 0;
    if (may_be_folder && pick_below(2)) {
        snprintf(what, size, "%s", damage_folder(s->cache, s->dir));
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        const char *one = damage_entry(&found[i], &found[pick_below(n)], s->dir);
        size_t used = strlen(what);
        snprintf(what + used, size - used, "%san entry %s", used ? ", " : "", one);
    }
    return false;
}

/* Two graphs: entries of one are foreign to the other. */
static size_t fill_cache(const scene *s, cache_file *found, char *expected)
{
    for (int i = 0; i < 2; i++) {
        write_exact_graph(s->dir);
        expect_exact(s->dir, expected);
        run_and_compare(s->dir, s->env, expected, "a cache without damage");
    }
    size_t n = list_entries(s->cache, found);
    CHECK_MSG(n >= 1, "nothing is in the cache");
    for (size_t i = 0; i < n; i++)
        load(&found[i]);
    return n;
}

void attack_cache(uint64_t seed)
{
    static char expected[OUTPUT_ROOM];
    static cache_file found[MAX_FOUND];
    scene s;
    mutate_begin(seed);
    scene_begin(&s);
    size_t n = fill_cache(&s, found, expected);
    for (int round = 0; round < 3; round++) {
        char what[600];
        bool is_folder = damage_all(&s, found, n, round == 2, what, sizeof what);
        run_and_compare(s.dir, s.env, expected, what);
        run_and_compare(s.dir, s.env, expected, "the run after it");
        for (size_t i = 0; i < n && !is_folder; i++) /* what the library could not replace */
            if (rmdir(found[i].path) != 0)
                unlink(found[i].path);
        need_no_leftovers(&s, what);
    }
    for (size_t i = 0; i < n; i++)
        free(found[i].bytes);
    case_accepted();
}
