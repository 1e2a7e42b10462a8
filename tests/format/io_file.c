/* SPDX-License-Identifier: Apache-2.0 */
/* io_file.c: reading and saving files when a system call does less than requested, is interrupted, or fails. */
#include "test.h"

#include "failing_calls.h"
#include "fault.h"
#include "format/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fluxion/tensor.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const flxi_allocator mem = {flxi_default_alloc, NULL};

/* ---- A system that misbehaves ---- */

static flxi_file_calls real; /* the original calls */

static failing_calls plan;

static bool fails(void)
{
    return call_fails(&plan);
}

/* Reading and writing, and opening, which may wait. */
static bool gives_up(void)
{
    return call_is_interrupted(&plan) || fails();
}

static int bad_open(const char *path, int flags, mode_t mode)
{
    return gives_up() ? -1 : real.open(path, flags, mode);
}
static int bad_stat(const char *path, struct stat *out)
{
    return fails() ? -1 : real.stat(path, out);
}
static int bad_fstat(int fd, struct stat *out)
{
    return fails() ? -1 : real.fstat(fd, out);
}
static ssize_t bad_read(int fd, void *out, size_t n)
{
    return gives_up() ? -1 : real.read(fd, out, call_moves(&plan, n));
}
static ssize_t bad_pread(int fd, void *out, size_t n, off_t at)
{
    return gives_up() ? -1 : real.pread(fd, out, call_moves(&plan, n), at);
}
static ssize_t bad_write(int fd, const void *data, size_t n)
{
    return gives_up() ? -1 : real.write(fd, data, call_moves(&plan, n));
}
static int bad_fchmod(int fd, mode_t mode)
{
    return fails() ? -1 : real.fchmod(fd, mode);
}
static int bad_fsync(int fd)
{
    return fails() ? -1 : real.fsync(fd);
}
static int bad_close(int fd)
{
    return call_result(&plan, real.close(fd));
}
static int bad_rename(const char *from, const char *to)
{
    return fails() ? -1 : real.rename(from, to);
}
static int bad_unlink(const char *path)
{
    return real.unlink(path); /* cleaning up always works: there is no fallback after it */
}

/* A test that fails in between leaves its plan active, so each test begins by clearing it. */
static void lift_plan(void)
{
    if (real.open)
        flxi_file_system = real;
}

static void set_plan(int fail_at, int error, bool slow, bool interrupt)
{
    lift_plan();
    real = flxi_file_system;
    plan = (failing_calls){.fail_at = fail_at, .error = error, .is_slow = slow, .is_interrupted = interrupt};
    flxi_file_system = (flxi_file_calls){bad_open,   bad_stat,  bad_fstat, bad_read,   bad_pread, bad_write,
                                         bad_fchmod, bad_fsync, bad_close, bad_rename, bad_unlink};
}

/* ---- Small tools ---- */

/* The test's own folder, so that leftovers are visible. */
static const char *folder(void)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/io_file", test_temp_dir());
    mkdir(path, 0777);
    return path;
}

static const char *path_of(const char *name)
{
    static char path[2][700];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder(), name);
    return path[turn];
}

static int count_files(void)
{
    DIR *d = opendir(folder());
    CHECK(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void clear_folder(void)
{
    lift_plan();
    DIR *d = opendir(folder());
    CHECK(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlink(path_of(e->d_name));
    closedir(d);
}

static void put_file(const char *path, const char *text)
{
    FILE *out = fopen(path, "wb");
    CHECK(out);
    fputs(text, out);
    fclose(out);
}

static const char *get_file(const char *path)
{
    static char text[256];
    FILE *in = fopen(path, "rb");
    if (!in)
        return NULL;
    text[fread(text, 1, sizeof text - 1, in)] = 0;
    fclose(in);
    return text;
}

static flx_code save_text(const char *path, const char *text, flx_error *err)
{
    flxi_save s;
    FLXI_TRY(flxi_save_begin(&s, path, err));
    flx_code code = flxi_save_bytes(&s, text, strlen(text), err);
    if (code == FLX_OK)
        return flxi_save_end(&s, err);
    flxi_save_abandon(&s);
    return code;
}

static flx_code load_text(const char *path, char *out, size_t n, flx_error *err)
{
    flxi_source s;
    FLXI_TRY(flxi_source_open(&s, &mem, path, 0, err));
    flx_code code = flxi_source_read(&s, 0, out, n, err);
    flxi_source_close(&s);
    return code;
}

/* ---- Sources ---- */

TEST(source_reads_ranges)
{
    clear_folder();
    put_file(path_of("f"), "0123456789");
    flxi_source file;
    flx_error err;
    CHECK_EQ_I64(flxi_source_open(&file, &mem, path_of("f"), 3, &err), FLX_OK); /* the limit is for pipes */
    flxi_source memory = flxi_source_memory("0123456789", 10);
    flxi_source *both[2] = {&file, &memory};
    for (int i = 0; i < 2; i++) {
        char out[16] = "";
        flxi_source part = flxi_source_part(both[i], 2, 5);
        flxi_source inner = flxi_source_part(&part, 1, 3);
        CHECK_EQ_I64(both[i]->size, 10);
        CHECK_EQ_I64(flxi_source_read(both[i], 3, out, 4, &err), FLX_OK);
        CHECK_EQ_STR(out, "3456");
        CHECK_EQ_I64(flxi_source_read(&inner, 0, out, 3, &err), FLX_OK);
        CHECK_EQ_STR(out, "3456");
        CHECK_EQ_I64(flxi_source_read(&inner, 1, out, 2, &err), FLX_OK);
        CHECK_EQ_STR(out, "4556");
        CHECK_EQ_I64(flxi_source_read(both[i], 10, NULL, 0, &err), FLX_OK);
        CHECK_EQ_I64(flxi_source_read(&inner, 0, out, 4, &err), FLX_E_SYNTAX);
        CHECK_EQ_I64(flxi_source_read(both[i], 11, out, 0, &err), FLX_E_SYNTAX);
        CHECK_EQ_I64(flxi_source_read(both[i], UINT64_MAX, out, 2, &err), FLX_E_SYNTAX);
        CHECK_EQ_I64(flxi_source_read(both[i], 1, out, SIZE_MAX, &err), FLX_E_SYNTAX);
    }
    flxi_source_close(&file);
    flxi_source_close(&file);
}

TEST(source_refuses_what_is_no_file)
{
    lift_plan();
    flxi_source s;
    flx_error err;
    CHECK_EQ_I64(flxi_source_open(&s, &mem, "/no/such/file", 0, &err), FLX_E_IO);
    CHECK_EQ_I64(flxi_source_open(&s, &mem, "", 0, &err), FLX_E_IO);
    CHECK_EQ_I64(flxi_source_open(&s, &mem, folder(), 0, &err), FLX_E_IO);
    CHECK_MSG(strstr(err.message, "directory"), "%s", err.message);
    CHECK_EQ_I64(flxi_source_open(&s, &mem, "/dev/zero", 0, &err), FLX_E_IO); /* has no end */
}

TEST(source_notices_a_file_that_shrinks)
{
    clear_folder();
    char out[10];
    flxi_source s;
    flx_error err;
    put_file(path_of("f"), "0123456789");
    CHECK_EQ_I64(flxi_source_open(&s, &mem, path_of("f"), 0, &err), FLX_OK);
    CHECK(truncate(path_of("f"), 4) == 0);
    CHECK_EQ_I64(flxi_source_read(&s, 0, out, 10, &err), FLX_E_IO);
    CHECK_MSG(strstr(err.message, "truncated"), "%s", err.message);
    flxi_source_close(&s);
}

static void *feed_pipe(void *arg)
{
    static char block[100000];
    memset(block, 'x', sizeof block);
    int fd = open(arg, O_WRONLY | O_CLOEXEC);
    for (size_t n = 0; fd >= 0 && n < sizeof block;) {
        ssize_t k = write(fd, block + n, sizeof block - n);
        if (k <= 0)
            break;
        n += (size_t)k;
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

TEST(source_reads_a_pipe_to_its_end)
{
    clear_folder();
    char path[700];
    snprintf(path, sizeof path, "%s", path_of("pipe"));
    CHECK(mkfifo(path, 0600) == 0);
    for (int limited = 0; limited < 2; limited++) {
        pthread_t feeder;
        flxi_source s;
        flx_error err;
        sigset_t blocked, before; /* the reader leaves early when limited: no signal for the writer */
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &blocked, &before);
        CHECK(pthread_create(&feeder, NULL, feed_pipe, path) == 0);
        flx_code code = flxi_source_open(&s, &mem, path, limited ? 5000 : 100000, &err);
        if (code != FLX_OK)
            CHECK_EQ_I64(code, FLX_E_SIZE);
        CHECK_EQ_I64(code, limited ? FLX_E_SIZE : FLX_OK);
        if (code == FLX_OK) {
            char tail[2];
            CHECK_EQ_U64(s.size, 100000);
            CHECK_EQ_I64(flxi_source_read(&s, 99998, tail, 2, &err), FLX_OK);
            CHECK(tail[0] == 'x' && tail[1] == 'x');
            flxi_source_close(&s);
        }
        pthread_join(feeder, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
}

/* Files that do not report their size are read like pipes. */
TEST(source_reads_a_file_of_unknown_size)
{
    clear_folder();
    static const char path[] = "/proc/version";
    char out[5] = "";
    flx_error err;
    if (access(path, R_OK) != 0)
        return;
    set_plan(0, 0, true, true);
    flx_code code = load_text(path, out, 4, &err);
    lift_plan();
    CHECK_EQ_I64(code, FLX_OK);
    CHECK(strlen(out) == 4);
    set_plan(4, EIO, true, false); /* open, fstat, the first read, the second */
    code = load_text(path, out, 4, &err);
    lift_plan();
    CHECK_EQ_I64(code, FLX_E_IO);
    fault f = {.fail_at = 1};
    flxi_allocator failing = {fault_alloc, &f};
    flxi_source s;
    CHECK_EQ_I64(flxi_source_open(&s, &failing, path, 0, &err), FLX_E_OOM);
    CHECK_EQ_I64(flxi_source_open(&s, &failing, path, 3, &err), FLX_E_SIZE);
    CHECK(fault_is_clean(&f));
}

TEST(source_survives_every_failing_call)
{
    clear_folder();
    put_file(path_of("f"), "0123456789");
    int calls = 1;
    for (int n = 0; n <= calls; n++) {
        char out[10];
        flx_error err = {0};
        set_plan(n, EIO, false, false);
        flx_code code = load_text(path_of("f"), out, 10, &err);
        calls = n == 0 ? plan.calls : calls;
        bool only_close = n == calls;
        lift_plan();
        test_fail_context("call %d of %d fails", n, calls);
        CHECK_EQ_I64(code, n == 0 || only_close ? FLX_OK : FLX_E_IO);
        if (code != FLX_OK)
            CHECK_MSG(strstr(err.message, strerror(EIO)), "%s", err.message);
    }
    CHECK_EQ_I64(calls, 4); /* open, fstat, pread, close */
}

TEST(source_and_save_cope_with_short_and_interrupted_calls)
{
    clear_folder();
    flx_error err;
    char out[11] = "";
    for (int k = 1; k < 4; k++) {
        set_plan(0, 0, k & 1, k & 2);
        flx_code saved = save_text(path_of("f"), "0123456789", &err);
        flx_code loaded = load_text(path_of("f"), out, 10, &err);
        lift_plan();
        CHECK_EQ_I64(saved, FLX_OK);
        CHECK_EQ_I64(loaded, FLX_OK);
        CHECK_EQ_STR(out, "0123456789");
        CHECK_EQ_I64(count_files(), 1);
    }
}

/* ---- Saving ---- */

TEST(save_replaces_whole_files)
{
    clear_folder();
    flx_error err;
    CHECK_EQ_I64(save_text(path_of("f"), "one", &err), FLX_OK);
    CHECK_EQ_STR(get_file(path_of("f")), "one");
    CHECK(chmod(path_of("f"), 0640) == 0);
    CHECK_EQ_I64(save_text(path_of("f"), "two", &err), FLX_OK);
    CHECK_EQ_STR(get_file(path_of("f")), "two");
    struct stat st;
    CHECK(stat(path_of("f"), &st) == 0 && (st.st_mode & 0777) == 0640);
    flxi_save s;
    CHECK_EQ_I64(flxi_save_begin(&s, path_of("f"), &err), FLX_OK);
    CHECK_EQ_I64(flxi_save_bytes(&s, "three", 5, &err), FLX_OK);
    CHECK_EQ_STR(get_file(path_of("f")), "two"); /* until the end */
    flxi_save_abandon(&s);
    CHECK_EQ_STR(get_file(path_of("f")), "two");
    CHECK_EQ_I64(count_files(), 1);
}

TEST(save_in_the_current_folder)
{
    clear_folder();
    flx_error err;
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(here >= 0 && chdir(folder()) == 0);
    flx_code code = save_text("plain", "text", &err);
    CHECK(fchdir(here) == 0);
    close(here);
    CHECK_EQ_I64(code, FLX_OK);
    CHECK_EQ_STR(get_file(path_of("plain")), "text");
    CHECK_EQ_I64(count_files(), 1);
}

TEST(save_follows_links)
{
    clear_folder();
    flx_error err;
    put_file(path_of("real"), "old");
    CHECK(symlink("real", path_of("link")) == 0);
    CHECK_EQ_I64(save_text(path_of("link"), "new", &err), FLX_OK);
    CHECK_EQ_STR(get_file(path_of("real")), "new");
    struct stat st;
    CHECK(lstat(path_of("link"), &st) == 0 && S_ISLNK(st.st_mode));
}

TEST(save_writes_devices_in_place)
{
    clear_folder();
    flx_error err;
    struct stat st;
    CHECK_EQ_I64(save_text("/dev/null", "gone", &err), FLX_OK);
    CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    if (stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode)) {
        CHECK_EQ_I64(save_text("/dev/full", "no room", &err), FLX_E_IO);
        CHECK_MSG(strstr(err.message, strerror(ENOSPC)), "%s", err.message);
    }
}

TEST(save_refuses_impossible_paths)
{
    clear_folder();
    flx_error err;
    static char longest[FLXI_PATH_MAX + 10];
    memset(longest, 'x', sizeof longest - 1);
    CHECK_EQ_I64(save_text(longest, "x", &err), FLX_E_IO);
    longest[FLXI_PATH_MAX - 1] = 0;
    CHECK_EQ_I64(save_text(longest, "x", &err), FLX_E_IO);
    CHECK_EQ_I64(save_text("", "x", &err), FLX_E_IO);
    CHECK_EQ_I64(save_text(folder(), "x", &err), FLX_E_IO);
    CHECK_EQ_I64(save_text("/no/such/folder/f", "x", &err), FLX_E_IO);
    put_file(path_of("file"), "x");
    CHECK_EQ_I64(save_text(path_of("file/below"), "x", &err), FLX_E_IO);
    CHECK_EQ_I64(count_files(), 1);
}

TEST(save_steps_over_leftovers)
{
    clear_folder();
    flx_error err;
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, ".flx-%ld-%d.tmp", (long)getpid(), i);
        put_file(path_of(name), "left by a program that was killed");
    }
    CHECK_EQ_I64(save_text(path_of("f"), "text", &err), FLX_OK);
    CHECK_EQ_STR(get_file(path_of("f")), "text");
    CHECK_EQ_I64(count_files(), 4);
}

/* Whichever call fails, the old or the new text is there, complete, and nothing else. */
TEST(save_survives_every_failing_call)
{
    static const int errors[] = {EIO, ENOSPC, EACCES};
    for (int existing = 0; existing < 2; existing++) {
        int calls = 1;
        for (int n = 0; n <= calls; n++) {
            clear_folder();
            if (existing)
                put_file(path_of("f"), "old");
            flx_error err = {0};
            set_plan(n, errors[n % 3], false, false);
            flx_code code = save_text(path_of("f"), "new text", &err);
            calls = n == 0 ? plan.calls : calls;
            lift_plan();
            const char *text = get_file(path_of("f"));
            test_fail_context("call %d of %d fails, %s", n, calls, code == FLX_OK ? "saved" : err.message);
            if (code == FLX_OK)
                CHECK_EQ_STR(text, "new text");
            else
                CHECK_EQ_STR(text, existing ? "old" : NULL);
            CHECK(code == FLX_OK || code == FLX_E_IO);
            CHECK(code == FLX_OK || strstr(err.message, strerror(errors[n % 3])));
            CHECK_EQ_I64(count_files(), text != NULL);
            /* Only syncing the folder, the last three calls, may fail unnoticed. */
            CHECK((code == FLX_OK) == (n == 0 || n > calls - 3));
        }
        CHECK_EQ_I64(calls, existing ? 10 : 9);
    }
}

static flx_code write_npy(const flx_tensor *t, flx_error *err)
{
    return flx_npy_write(t, path_of("t"), err);
}

static flx_code write_npz(const flx_tensor *t, flx_error *err)
{
    return flx_npz_write(path_of("t"), (const char *const[]){"a", "b"}, (const flx_tensor *const[]){t, t}, 2, err);
}

static flx_code write_safetensors(const flx_tensor *t, flx_error *err)
{
    return flx_safetensors_write(path_of("t"), (const char *const[]){"a", "b"}, (const flx_tensor *const[]){t, t}, 2,
                                 err);
}

TEST(writers_survive_every_failing_call)
{
    flx_code (*const writers[])(const flx_tensor *, flx_error *) = {write_npy, write_npz, write_safetensors};
    flx_context *ctx = flx_context_new(NULL);
    flx_type type = flx_type_make(FLX_F32, 1, (const int64_t[]){3});
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, NULL);
    CHECK(t);
    for (size_t k = 0; k < sizeof writers / sizeof *writers; k++) {
        int calls = 1;
        for (int n = 0; n <= calls; n++) {
            clear_folder();
            flx_error err = {0};
            set_plan(n, ENOSPC, false, false);
            flx_code code = writers[k](t, &err);
            calls = n == 0 ? plan.calls : calls;
            lift_plan();
            test_fail_context("writer %zu, call %d of %d fails", k, n, calls);
            CHECK((code == FLX_OK) == (n == 0 || n > calls - 3));
            CHECK_EQ_I64(count_files(), code == FLX_OK);
        }
        CHECK(calls > 8);
    }
    flx_tensor_release(t);
    flx_context_free(ctx);
}
