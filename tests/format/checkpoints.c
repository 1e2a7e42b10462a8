/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoints.c: checkpoints: round trips, files that other programs read, damage, disks that are full, folders that
   are read-only, and programs that are killed while they write. */
#include "test.h"
#include "test_folder.h"

#include "damage.h"
#include "fault.h"
#include "format/endian.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fluxion/checkpoint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int count_files(void)
{
    DIR *d = opendir(test_folder);
    CHECK(d);
    int n = -2; /* . and .. */
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static flx_tensor *filled(flx_context *ctx, int64_t n, float value)
{
    flx_error err = {0};
    const flx_type type = flx_type_make(FLX_F32, 1, &n);
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, &err);
    CHECK_MADE(t, &err);
    for (int64_t i = 0; i < n; i++)
        ((float *)flx_tensor_data(t))[i] = value + (float)i;
    return t;
}

/* A checkpoint of one state of a training: everything in it depends on the step. */
static flx_checkpoint *state_of(flx_context *ctx, int64_t step, int64_t size)
{
    flx_error err = {0};
    flx_checkpoint *c = flx_checkpoint_new(ctx, &err);
    CHECK_MADE(c, &err);
    flx_tensor *w = filled(ctx, size, (float)step), *b = filled(ctx, 3, (float)-step);
    CHECK_OK(flx_checkpoint_add(c, "w", w, &err), &err);
    CHECK_OK(flx_checkpoint_add(c, "state/b \"quoted\" \xc3\xa9", b, &err), &err);
    CHECK_OK(flx_checkpoint_set_number(c, "step", step, &err), &err);
    CHECK_OK(flx_checkpoint_set(c, "configuration", "rate = 0.1\n\ttext \"x\" \\ \x01", &err), &err);
    flx_tensor_release(w);
    flx_tensor_release(b);
    return c;
}

/* The step of a checkpoint, after everything in it was compared. */
static int64_t check_state(const flx_checkpoint *c)
{
    flx_error err = {0};
    int64_t step;
    CHECK_OK(flx_checkpoint_number(c, "step", &step, &err), &err);
    flx_tensor *w = flx_checkpoint_tensor(c, "w", &err),
               *b = flx_checkpoint_tensor(c, "state/b \"quoted\" \xc3\xa9", &err);
    CHECK(w && b && flx_tensor_count(b) == 3);
    for (int64_t i = 0; i < flx_tensor_count(w); i += 97)
        CHECK(flx_tensor_get(w, i) == (double)((float)step + (float)i));
    CHECK(flx_tensor_get(b, 2) == (double)(2 - step));
    CHECK_EQ_STR(flx_checkpoint_text(c, "configuration"), "rate = 0.1\n\ttext \"x\" \\ \x01");
    return step;
}

static int64_t read_step(flx_context *ctx, const char *path)
{
    flx_error err = {0};
    flx_checkpoint *c = flx_checkpoint_read(ctx, path, &err);
    CHECK_MADE(c, &err);
    int64_t step = check_state(c);
    flx_checkpoint_free(c);
    return step;
}

static void write_step(flx_context *ctx, int64_t step, int64_t size, const char *path)
{
    flx_error err = {0};
    flx_checkpoint *c = state_of(ctx, step, size);
    CHECK_OK(flx_checkpoint_write(c, path, &err), &err);
    flx_checkpoint_free(c);
}

TEST(checkpoint_is_written_and_read)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    test_folder_begin("checkpoint");
    write_step(ctx, 41, 1000, test_folder_path("a.safetensors"));
    write_step(ctx, 42, 500, test_folder_path("a.safetensors"));
    CHECK_EQ_I64(read_step(ctx, test_folder_path("a.safetensors")), 42);
    CHECK_EQ_I64(count_files(), 1);
    flx_checkpoint *c = flx_checkpoint_read(ctx, test_folder_path("a.safetensors"), &err);
    CHECK(flx_checkpoint_tensors(c) == 2 && flx_checkpoint_texts(c) == 2);
    CHECK_EQ_STR(flx_checkpoint_name(c, 0), "w");
    CHECK_EQ_STR(flx_checkpoint_key(c, 0), "step");
    CHECK(!flx_checkpoint_name(c, 2) && !flx_checkpoint_key(c, 2) && !flx_checkpoint_text(c, "x"));
    CHECK(!flx_checkpoint_tensor(c, "x", &err) && err.code == FLX_E_NAME);
    CHECK_MSG(strncmp(err.hint, "available: w, ", 14) == 0, "%s", err.hint);
    flx_checkpoint_free(c);
    c = flx_checkpoint_new(ctx, &err); /* nothing in it */
    CHECK_OK(flx_checkpoint_write(c, test_folder_path("b"), &err), &err);
    flx_checkpoint_free(c);
    c = flx_checkpoint_read(ctx, test_folder_path("b"), &err);
    CHECK(c && flx_checkpoint_tensors(c) == 0 && flx_checkpoint_texts(c) == 0);
    flx_checkpoint_free(c);
    flx_context_free(ctx);
}

TEST(checkpoint_is_a_safetensors_file)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    test_folder_begin("checkpoint_plain");
    write_step(ctx, 7, 10, test_folder_path("a"));
    flx_tensor *w = flx_safetensors_read(ctx, test_folder_path("a"), "w", &err);
    CHECK_MADE(w, &err);
    CHECK(flx_tensor_get(w, 9) == 16.0);
    const flx_tensor *only = w;
    CHECK_OK(flx_safetensors_write(test_folder_path("b"), (const char *const[]){"w"}, &only, 1, &err), &err);
    CHECK(!flx_checkpoint_read(ctx, test_folder_path("b"), &err) && err.code == FLX_E_SYNTAX);
    CHECK_EQ_STR(err.message, "the file is not a checkpoint");
    CHECK_EQ_STR(err.where, test_folder_path("b"));
    CHECK_CODE(flx_safetensors_write(test_folder_path("b"), (const char *const[]){"\xff"}, &only, 1, &err), FLX_E_NAME,
               &err);
    CHECK(!flx_checkpoint_read(ctx, test_missing_path("c"), &err) && err.code == FLX_E_IO);
    flx_tensor_release(w);
    flx_context_free(ctx);
}

TEST(checkpoint_wrong_arguments_are_refused)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    int64_t n;
    test_folder_begin("checkpoint_misuse");
    flx_checkpoint *c = state_of(ctx, 1, 1);
    flx_tensor *w = flx_checkpoint_tensor(c, "w", &err);
    CHECK_CODE(flx_checkpoint_add(c, "w", w, &err), FLX_E_DUP_NAME, &err);
    CHECK_CODE(flx_checkpoint_add(c, "", w, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_checkpoint_add(c, NULL, w, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_checkpoint_add(c, "x", NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_checkpoint_add(NULL, "x", w, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_checkpoint_set(c, "step", "1", &err), FLX_E_DUP_NAME, &err);
    CHECK_CODE(flx_checkpoint_set(c, "fluxion.x", "1", &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_checkpoint_set(c, "x", NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_checkpoint_set_number(NULL, "x", 1, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_checkpoint_number(c, "x", &n, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_checkpoint_number(c, "configuration", &n, &err), FLX_E_SYNTAX, &err);
    CHECK_CODE(flx_checkpoint_number(c, "step", NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_checkpoint_write(c, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_checkpoint_write(NULL, "a", &err), FLX_E_USAGE, &err);
    CHECK(!flx_checkpoint_new(NULL, &err) && !flx_checkpoint_read(ctx, NULL, &err));
    CHECK(!flx_checkpoint_decode(ctx, NULL, 1, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_checkpoint_tensor(c, NULL, &err) && err.code == FLX_E_USAGE);
    flx_checkpoint_free(NULL);
    CHECK_OK(flx_checkpoint_set(c, "note", "\xff", &err), &err); /* found when it is written */
    CHECK_CODE(flx_checkpoint_write(c, test_folder_path("a"), &err), FLX_E_SYNTAX, &err);
    CHECK_EQ_I64(count_files(), 0);
    flx_checkpoint_free(c);
    flx_context_free(ctx);
}

/* ---- Damage ---- */

static unsigned char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    CHECK(f);
    unsigned char *bytes = malloc(1 << 16);
    CHECK(bytes);
    *n = fread(bytes, 1, 1 << 16, f);
    fclose(f);
    return bytes;
}

static flx_tensor *decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    flx_checkpoint *c = flx_checkpoint_decode(ctx, bytes, size, err);
    flx_tensor *w = c ? flx_tensor_retain(flx_checkpoint_tensor(c, "w", err)) : NULL;
    flx_checkpoint_free(c);
    return w;
}

/* Unlike other formats, no change at all goes unnoticed. */
TEST(checkpoint_notices_every_changed_bit)
{
    flx_context *ctx = flx_context_new(NULL);
    size_t n;
    test_folder_begin("checkpoint_damage");
    write_step(ctx, 7, 2, test_folder_path("a"));
    unsigned char *bytes = read_file(test_folder_path("a"), &n);
    damage_allocations(decode, bytes, n);
    for (size_t size = 0; size < n; size++)
        CHECK(!flx_checkpoint_decode(ctx, bytes, size, NULL));
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            flx_error err = {0};
            bytes[i] ^= (unsigned char)(1 << bit);
            test_fail_context("bit %d of byte %zu of %zu", bit, i, n);
            CHECK(!flx_checkpoint_decode(ctx, bytes, n, &err));
            CHECK(err.code != FLX_E_INTERNAL && err.code != FLX_E_OOM && err.message[0]);
            bytes[i] ^= (unsigned char)(1 << bit);
        }
    CHECK(flx_checkpoint_decode(ctx, bytes, n + 1, NULL) == NULL); /* a byte more */
    free(bytes);
    flx_context_free(ctx);
}

static void check_header(flx_context *ctx, const char *header, flx_code code, const char *message)
{
    flx_error err = {0};
    unsigned char file[600] = "";
    flxi_put64(file, strlen(header));
    memcpy(file + 8, header, strlen(header));
    CHECK(!flx_checkpoint_decode(ctx, file, 8 + strlen(header), &err));
    CHECK_MSG(err.code == code && strstr(err.message, message), "%s: %s", flx_code_name(err.code), err.message);
}

TEST(checkpoint_of_another_kind_is_refused)
{
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
#define SUM "\"fluxion.sha256\":\"" ZEROS "\""
    flx_context *ctx = flx_context_new(NULL);
    check_header(ctx, "{}", FLX_E_SYNTAX, "the file is not a checkpoint");
    check_header(ctx, "{\"__metadata__\":{}}", FLX_E_SYNTAX, "the file is not a checkpoint");
    check_header(ctx, "{\"__metadata__\":{" SUM "}}", FLX_E_SYNTAX, "the file is not a checkpoint");
    check_header(ctx, "{\"__metadata__\":[]}", FLX_E_SYNTAX, "__metadata__ is not an object");
    check_header(ctx, "{\"__metadata__\":{\"a\":1}}", FLX_E_SYNTAX, "is not a string");
    check_header(ctx, "{\"__metadata__\":{" SUM ",\"fluxion.checkpoint\":\"2\"}}", FLX_E_VERSION, "version 2");
    check_header(ctx, "{\"__metadata__\":{" SUM ",\"fluxion.checkpoint\":\"1\"}}", FLX_E_SYNTAX, "checksum is wrong");
    check_header(ctx, "{\"__metadata__\":{\"fluxion.sha256\":\"0\"}}", FLX_E_SYNTAX, "a wrong length");
    check_header(ctx, "{\"__metadata__\":{\"a\":\"x\\u0000\"}}", FLX_E_SYNTAX, "zero character");
    check_header(ctx, "{\"__metadata__\":{\"a\":\"x\",\"a\":\"y\"}}", FLX_E_DUP_NAME, "has 'a' already");
    flx_context_free(ctx);
}

TEST(checkpoint_survives_failing_allocations)
{
    test_folder_begin("checkpoint_memory");
    size_t calls = 1;
    for (size_t at = 0; at <= calls; at++) {
        fault f = {.fail_at = at};
        flx_error err = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_checkpoint *c = ctx ? flx_checkpoint_new(ctx, &err) : NULL;
        flx_code code = c ? flx_checkpoint_set(c, "a", "b", &err) : FLX_E_OOM;
        const flx_type type = flx_type_make(FLX_F32, 0, NULL);
        flx_tensor *t = ctx ? flx_tensor_new(ctx, &type, NULL, &err) : NULL;
        if (code == FLX_OK)
            code = t ? flx_checkpoint_add(c, "t", t, &err) : FLX_E_OOM;
        if (code == FLX_OK)
            code = flx_checkpoint_write(c, test_folder_path("a"), &err);
        CHECK(at ? code == FLX_E_OOM : code == FLX_OK);
        flx_tensor_release(t);
        flx_checkpoint_free(c);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        calls = at ? calls : f.calls;
    }
    CHECK_EQ_I64(count_files(), 1);
}

/* ---- Disks and folders ---- */

/* Runs in a process of its own, since limits cannot be lifted again. */
static void in_child(void (*act)(void))
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        act();
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
}

/* What the parent sees as a failed check. */
static void need(bool holds, int status)
{
    if (!holds)
        _exit(status);
}

static void write_to_full_disk(void)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_checkpoint *c = flx_checkpoint_new(ctx, NULL);
    const flx_type type = flx_type_make(FLX_U8, 1, (flx_dim[]){100000});
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, NULL);
    need(flx_checkpoint_add(c, "w", t, &err) == FLX_OK, 2);
    signal(SIGXFSZ, SIG_IGN); /* or the system ends the program */
    for (rlim_t limit = 0; limit < 100000; limit += 9999) {
        need(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, RLIM_INFINITY}) == 0, 3);
        need(flx_checkpoint_write(c, test_folder_path("a"), &err) == FLX_E_IO, 4);
        need(strstr(err.message, "cannot write: File too large") != NULL, 5);
        need(strcmp(err.where, test_folder_path("a")) == 0, 6);
    }
    need(flx_checkpoint_write(c, "/dev/full", &err) == FLX_E_IO, 7);
    need(strstr(err.message, "No space left") != NULL, 8);
    flx_tensor_release(t);
    flx_checkpoint_free(c);
    flx_context_free(ctx);
}

TEST(checkpoint_on_a_full_disk_leaves_the_old_file)
{
    flx_context *ctx = flx_context_new(NULL);
    test_folder_begin("checkpoint_full");
    write_step(ctx, 7, 100, test_folder_path("a"));
    in_child(write_to_full_disk);
    CHECK_EQ_I64(read_step(ctx, test_folder_path("a")), 7);
    CHECK_EQ_I64(count_files(), 1);
    flx_context_free(ctx);
}

static void write_to_closed_folder(void)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_checkpoint *c = flx_checkpoint_new(ctx, NULL);
    if (geteuid() == 0)
        need(seteuid(65534) == 0, 2); /* the superuser may write everywhere */
    need(flx_checkpoint_write(c, test_folder_path("a"), &err) == FLX_E_IO, 3);
    need(strstr(err.message, "cannot create a temporary file in the same folder: Permission denied") != NULL, 4);
    flx_checkpoint_free(c);
    flx_context_free(ctx);
}

TEST(checkpoint_in_a_read_only_folder_leaves_the_old_file)
{
    flx_context *ctx = flx_context_new(NULL);
    test_folder_begin("checkpoint_closed");
    write_step(ctx, 7, 100, test_folder_path("a"));
    for (char *slash = test_folder + 1; (slash = strchr(slash + 1, '/')) != NULL;) { /* the way to it must be open */
        *slash = 0;
        (void)!chmod(test_folder, 0755);
        *slash = '/';
    }
    CHECK(chmod(test_folder, 0555) == 0);
    in_child(write_to_closed_folder);
    CHECK(chmod(test_folder, 0755) == 0);
    CHECK_EQ_I64(read_step(ctx, test_folder_path("a")), 7);
    CHECK_EQ_I64(count_files(), 1);
    flx_context_free(ctx);
}

/* ---- Killed programs ---- */

/* Writes states with odd and even steps, without end. */
static void write_for_ever(int64_t first)
{
    flx_context *ctx = flx_context_new(NULL);
    for (int64_t step = first;; step++) {
        flx_checkpoint *c = state_of(ctx, step, 1 << 16);
        if (flx_checkpoint_write(c, test_folder_path("a"), NULL) != FLX_OK)
            _exit(1);
        flx_checkpoint_free(c);
    }
}

static void kill_after(pid_t pid, long microseconds)
{
    int status;
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %#x", (unsigned)status);
}

/* A program that saves is killed at a random instant, again and again. The file is then whole, of the step before or
   after, and what is left over of the killed program is removed by the next. */
TEST(checkpoint_survives_kill_at_any_instant)
{
    flx_context *ctx = flx_context_new(NULL);
    uint64_t state = test_seed();
    int interrupted = 0, moved = 0;
    test_folder_begin("checkpoint_killed");
    write_step(ctx, 0, 1 << 16, test_folder_path("a"));
    int64_t step = 0;
    int64_t kills = effort(EFFORT_kills);
    for (int64_t i = 0; i < kills; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            write_for_ever(step + 1);
        kill_after(pid, (long)(test_random(&state) % 12000));
        int files = count_files();
        CHECK_MSG(files == 1 || files == 2, "%d files after kill %lld", files, (long long)i);
        interrupted += files == 2;
        int64_t now = read_step(ctx, test_folder_path("a"));
        CHECK_MSG(now >= step && now < step + 1000, "step %lld after %lld", (long long)now, (long long)step);
        moved += now > step;
        step = now;
    }
    CHECK_MSG(interrupted > 0 && moved > 0, "%d of %lld were interrupted, %d wrote", interrupted, (long long)kills,
              moved);
    write_step(ctx, step + 1, 10, test_folder_path("a"));
    CHECK_EQ_I64(count_files(), 1);
    flx_context_free(ctx);
}

/* A save in progress is not swept away by another one in the same folder. */
TEST(checkpoint_sweep_leaves_files_in_use)
{
    flx_context *ctx = flx_context_new(NULL);
    test_folder_begin("checkpoint_shared");
    enum { WRITERS = 3, EACH = 30 };
    pid_t pids[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            for (int64_t step = 0; step < EACH; step++) {
                char name[20];
                flx_error err = {0};
                snprintf(name, sizeof name, "f%d", i);
                flx_checkpoint *c = state_of(ctx, step, 4096);
                need(flx_checkpoint_write(c, test_folder_path(name), &err) == FLX_OK, 1);
                flx_checkpoint_free(c);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        CHECK(waitpid(pids[i], &status, 0) == pids[i]);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", (unsigned)status);
    }
    CHECK_EQ_I64(count_files(), WRITERS);
    CHECK_EQ_I64(read_step(ctx, test_folder_path("f1")), EACH - 1);
    flx_context_free(ctx);
}
