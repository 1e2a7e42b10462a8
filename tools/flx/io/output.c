/* SPDX-License-Identifier: Apache-2.0 */
/* output.c: results in files. */
#include "io/output.h"

#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_bytes(FILE *f, const char *path, const flx_buffer *bytes)
{
    bool ok = fwrite(bytes->data, 1, bytes->size, f) == bytes->size && fflush(f) == 0;
    int why = errno;
    if (fclose(f) != 0 && ok) {
        ok = false;
        why = errno;
    }
    return ok ? STATUS_OK : fail_write(path, strerror(why));
}

/* A pipe or a device is written as it is. */
static int write_special(const char *path, const flx_buffer *bytes)
{
    FILE *f = fopen(path, "wb");
    return f ? write_bytes(f, path, bytes) : fail_write(path, strerror(errno));
}

/* The file appears whole or not at all: it is written beside its place and then moved there. */
static int write_regular(const char *path, const flx_buffer *bytes)
{
    char *beside = NULL;
    if (asprintf(&beside, "%s.%ld.part", path, (long)getpid()) < 0)
        return fail_memory();
    FILE *f = fopen(beside, "wbx");
    int status = f ? write_bytes(f, path, bytes) : fail_write(path, strerror(errno));
    if (!status && rename(beside, path) != 0)
        status = fail_write(path, strerror(errno));
    if (f && status)
        unlink(beside);
    free(beside);
    return status;
}

int output_write(const char *path, const flx_buffer *bytes)
{
    struct stat s;
    bool special = stat(path, &s) == 0 && !S_ISREG(s.st_mode);
    return special ? write_special(path, bytes) : write_regular(path, bytes);
}

int output_make_folder(const char *path)
{
    char *part = strdup(path);
    if (!part)
        return fail_memory();
    int status = STATUS_OK;
    for (char *s = part; !status && *s;) {
        s += strspn(s, "/");
        s += strcspn(s, "/");
        char end = *s;
        *s = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            status = fail_write(part, strerror(errno));
        *s = end;
    }
    free(part);
    return status;
}

/* An output's name becomes the name of a file. Names that the text form allows are safe. */
static bool is_file_name(const char *name)
{
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

char *output_path(const char *folder, const char *name)
{
    char *path = NULL;
    size_t n = strlen(folder);
    bool slash = n && folder[n - 1] != '/';
    return asprintf(&path, "%s%s%s.npy", folder, slash ? "/" : "", name) < 0 ? NULL : path;
}

/* Whether the folders of two files are the same, and their names in them. */
static bool is_same_location(const char *a, const char *b)
{
    const char *const paths[] = {a, b};
    const char *names[2];
    struct stat folders[2];
    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(paths[i], '/');
        char *folder = slash ? strndup(paths[i], (size_t)(slash - paths[i]) + 1) : strdup(".");
        bool exists = folder && stat(folder, &folders[i]) == 0;
        free(folder);
        if (!exists)
            return false;
        names[i] = slash ? slash + 1 : paths[i];
    }
    return folders[0].st_dev == folders[1].st_dev && folders[0].st_ino == folders[1].st_ino &&
           strcmp(names[0], names[1]) == 0;
}

bool output_is_same(const char *a, const char *b)
{
    struct stat x, y;
    if (!a || !b || strcmp(a, "-") == 0 || strcmp(b, "-") == 0)
        return false;
    bool has_a = stat(a, &x) == 0, has_b = stat(b, &y) == 0;
    if (has_a && has_b)
        return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    return has_a == has_b && (strcmp(a, b) == 0 || is_same_location(a, b));
}

int output_check_distinct(const args *a, const char *const *options)
{
    for (size_t i = 0; options[i]; i++)
        for (size_t k = 0; k < i; k++) {
            const char *one = args_value(a, options[k]), *other = args_value(a, options[i]);
            bool are_printed = one && other && strcmp(one, "-") == 0 && strcmp(other, "-") == 0;
            if (are_printed || output_is_same(one, other))
                return fail(FLX_E_USAGE, "%s and %s are %s", options[k], options[i],
                            are_printed ? "both standard output" : "the same file");
        }
    return STATUS_OK;
}

const char *output_extension(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strrchr(slash ? slash : path, '.');
}

int output_failed(const char *path, const flx_error *err)
{
    int status = report(err, path);
    return err->code == FLX_E_IO ? STATUS_SYSTEM : status;
}

int output_write_npy(const char *folder, const char *name, const flx_tensor *t)
{
    if (!is_file_name(name))
        return fail(FLX_E_NAME, "output '%s' cannot be the name of a file", name);
    char *path = output_path(folder, name);
    if (!path)
        return fail_memory();
    flx_error err = {0};
    int status = flx_npy_write(t, path, &err) ? output_failed(path, &err) : STATUS_OK;
    free(path);
    return status;
}
