/* SPDX-License-Identifier: Apache-2.0 */
/* seeds.c: the valid files that attacks begin with: golden files, examples, the seeds of the fuzz targets. */
#include "mutate.h"
#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    seed_list list;
    const char *suffix, *comment;
} loading;

static bool ends_with(const char *text, const char *suffix)
{
    size_t n = strlen(text), k = strlen(suffix);
    return n >= k && strcmp(text + n - k, suffix) == 0;
}

static char *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s cannot be read", path);
    char *bytes = malloc(MUTATE_ROOM + 1);
    CHECK(bytes);
    *size = fread(bytes, 1, MUTATE_ROOM, f);
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

/* Removes the lines that begin with the mark of comments. */
static size_t without_comments(char *text, size_t size, const char *mark)
{
    size_t kept = 0, n = strlen(mark);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - (text + at)) + 1 : size - at;
        if (length < n || memcmp(text + at, mark, n) != 0) {
            memmove(text + kept, text + at, length);
            kept += length;
        }
        at += length;
    }
    return kept;
}

static int load_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)where;
    if (kind != FTW_F || !ends_with(path, loading.suffix))
        return 0;
    seed_list *l = &loading.list;
    l->files = realloc(l->files, (l->n + 1) * sizeof *l->files);
    CHECK(l->files);
    seed_file *f = &l->files[l->n++];
    f->path = strdup(path);
    f->validity = 0;
    f->bytes = read_whole(path, &f->size);
    if (loading.comment)
        f->size = without_comments(f->bytes, f->size, loading.comment);
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const seed_file *)a)->path, ((const seed_file *)b)->path);
}

seed_list load_seeds(const char *const *folders, const char *suffix, const char *comment)
{
    loading.list = (seed_list){0};
    loading.suffix = suffix;
    loading.comment = comment;
    for (size_t i = 0; folders[i]; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", test_source_dir(), folders[i]);
        nftw(path, load_one, 16, FTW_PHYS);
    }
    CHECK_MSG(loading.list.n > 0, "there are no files *%s in %s/%s", suffix, test_source_dir(), folders[0]);
    qsort(loading.list.files, loading.list.n, sizeof *loading.list.files, by_path);
    return loading.list;
}

const seed_file *pick_seed(const seed_list *l)
{
    return &l->files[pick_below(l->n)];
}

const seed_file *pick_text(const language *l)
{
    for (int tries = 0; tries < 20; tries++) {
        seed_file *f = &l->seeds->files[pick_below(l->seeds->n)];
        if (l->accepts && !f->validity)
            f->validity = l->accepts(f->bytes, f->size) ? 1 : 2;
        if (f->validity < 2 || pick_below(10) == 0)
            return f;
    }
    return pick_seed(l->seeds);
}

word_list load_words(const char *name)
{
    char path[1024];
    size_t size;
    word_list l = {0};
    snprintf(path, sizeof path, "%s/tests/fuzz/%s", test_source_dir(), name);
    char *text = read_whole(path, &size);
    l.words = calloc(size / 2 + 1, sizeof *l.words);
    CHECK(l.words);
    for (char *p = text; (p = strchr(p, '"')) != NULL;) {
        char *end = strpbrk(p + 1, "\"\n");
        if (end && *end == '"' && end > p + 1 && !memchr(p + 1, '\\', (size_t)(end - p - 1)))
            l.words[l.n++] = strndup(p + 1, (size_t)(end - p - 1));
        p = end ? end + 1 : p + 1;
    }
    free(text);
    CHECK_MSG(l.n > 0, "%s has no words", path);
    return l;
}
