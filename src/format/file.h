/* SPDX-License-Identifier: Apache-2.0 */
/* file.h: reading ranges of files and saving files whole.

   A source is something that bytes can be read from at any offset: memory, a part of another source, or a file. Only
   the requested bytes are read, so one tensor of a large file costs no more than that tensor; pipes, which cannot seek,
   are read to their end first. Files are never mapped: a file that shrinks while it is read is an error, not a signal.

   A save writes to a new file in the same folder and moves it into place when everything is written and synced, so
   others see the old file or the new one, never a part. */
#ifndef FLXI_FILE_H
#define FLXI_FILE_H

#include "base/error.h"
#include "base/strbuf.h"

#include <sys/stat.h>
#include <sys/types.h>

/* ---- Reading ---- */

typedef struct {
    const unsigned char *bytes; /* memory; NULL for a file */
    int fd;                     /* file */
    uint64_t base, size;        /* base: where it begins in the whole file */
    const char *name;           /* of the file, for errors; the path that was opened, or "file" */
    flxi_strbuf kept;           /* the contents of a pipe */
} flxi_source;

flxi_source flxi_source_memory(const void *bytes, size_t size);

/* [at, at + size) of a source, which must outlive it and contain the range. Not to be closed. */
flxi_source flxi_source_part(const flxi_source *s, uint64_t at, uint64_t size);

/* Opens a regular file or a pipe for reading; a pipe may hold at most `limit` bytes (0: any number). */
flx_code flxi_source_open(flxi_source *s, const flxi_allocator *mem, const char *path, int64_t limit, flx_error *err);
void flxi_source_close(flxi_source *s);

/* Adds FILE:OFFSET of the byte `at` to the error; returns its code. */
flx_code flxi_source_at(const flxi_source *s, uint64_t at, flx_error *err);

/* Reads exactly n bytes at `at`. SYNTAX if the source ends earlier. */
flx_code flxi_source_read(const flxi_source *s, uint64_t at, void *out, size_t n, flx_error *err);

/* The whole of a small file in memory; free it after a successful read. */
typedef struct {
    const flxi_allocator *mem;
    void *bytes; /* never NULL */
    size_t size;
} flxi_file_bytes;

/* A file of more than `limit` bytes is SIZE (0: no limit). */
flx_code flxi_file_read(flxi_file_bytes *f, const flxi_allocator *mem, const char *path, int64_t limit, flx_error *err);
void flxi_file_free(flxi_file_bytes *f);

/* ---- Saving ---- */

#define FLXI_PATH_MAX 4096

typedef struct {
    int fd;
    int lock; /* another descriptor of the temporary file, which keeps its lock until it is moved into place; or -1 */
    bool direct; /* the target is a device or pipe: nothing to move into place */
    uint64_t written;
    char path[FLXI_PATH_MAX]; /* links followed */
    char temp[FLXI_PATH_MAX];
} flxi_save;

/* After a successful begin, call either end or abandon; if end fails, nothing is left over and the old file is kept. */
flx_code flxi_save_begin(flxi_save *s, const char *path, flx_error *err);
flx_code flxi_save_bytes(flxi_save *s, const void *data, size_t n, flx_error *err);
flx_code flxi_save_end(flxi_save *s, flx_error *err);
void flxi_save_abandon(flxi_save *s);

/* Removes the temporary files of programs that were killed from the folder of `path`: those on which no one has the
   lock that a save holds. */
void flxi_save_sweep(const char *path);

/* ---- The system calls, in one table so that tests can make each of them fail ---- */

typedef struct {
    int (*open)(const char *path, int flags, mode_t mode);
    int (*stat)(const char *path, struct stat *out);
    int (*fstat)(int fd, struct stat *out);
    ssize_t (*read)(int fd, void *out, size_t n);
    ssize_t (*pread)(int fd, void *out, size_t n, off_t at);
    ssize_t (*write)(int fd, const void *data, size_t n);
    int (*fchmod)(int fd, mode_t mode);
    int (*fsync)(int fd);
    int (*close)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
} flxi_file_calls;

extern flxi_file_calls flxi_file_system; /* written by tests only */

#endif
