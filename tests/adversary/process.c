/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: see process.h. */
#include "process.h"

#include "adversary.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void write_file(const char *path, const void *bytes, size_t size, unsigned mode)
{
    FILE *f = fopen(path, "wb");
    CHECK_MSG(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0, "%s: %s", path, strerror(errno));
    CHECK(chmod(path, mode) == 0);
}

static void output_path(char *path, size_t size, const char *dir, const char *name, const char *suffix)
{
    snprintf(path, size, "%s/%s.%s", dir, name, suffix);
}

pid_t start_flx(const char *dir, const char *name, const char *const *args, const char *const *env)
{
    const char *program = sibling_program("flx");
    char out[800], err[800], *argv[MAX_ARGS + 2] = {(char *)(uintptr_t) "flx"};
    for (size_t i = 0; args[i] && i < MAX_ARGS; i++)
        argv[i + 1] = (char *)(uintptr_t)args[i];
    output_path(out, sizeof out, dir, name, "out");
    output_path(err, sizeof err, dir, name, "err");
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    int to_out = open(out, O_CREAT | O_TRUNC | O_WRONLY, 0600), to_err = open(err, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (chdir(dir) != 0 || dup2(to_out, 1) < 0 || dup2(to_err, 2) < 0)
        _exit(126);
    for (size_t i = 0; env && env[i]; i++)
        putenv((char *)(uintptr_t)env[i]);
    execv(program, argv);
    _exit(127);
}

void wait_patiently(pid_t pid, int seconds, bool *interrupted)
{
    siginfo_t info;
    for (int i = 0; i < 20 * (seconds + 40); i++) {
        info.si_pid = 0;
        CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0);
        if (info.si_pid == pid)
            return;
        if (i == 20 * seconds) {
            *interrupted = true;
            kill(pid, SIGINT);
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    kill(pid, SIGKILL);
    FAIL("flx does not end 40 seconds after an interrupt");
}

static void read_output(const char *dir, const char *name, const char *suffix, char *out)
{
    char path[800];
    output_path(path, sizeof path, dir, name, suffix);
    FILE *f = fopen(path, "rb");
    out[0] = 0;
    if (!f) /* it was killed before it began to run */
        return;
    size_t n = fread(out, 1, OUTPUT_ROOM - 1, f);
    out[n] = 0;
    for (size_t i = 0; i < n; i++) /* texts, whatever was printed */
        out[i] = out[i] ? out[i] : '?';
    fclose(f);
    unlink(path);
}

void end_flx(pid_t pid, const char *dir, const char *name, process_result *r)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_output(dir, name, "out", r->out);
    read_output(dir, name, "err", r->err);
}

void run_flx(const char *dir, const char *const *args, const char *const *env, process_result *r)
{
    end_flx(start_flx(dir, "flx", args, env), dir, "flx", r);
}

void run_flx_patiently(const char *dir, const char *const *args, const char *const *env, process_result *r)
{
    char line[1000] = "flx";
    bool interrupted = false;
    for (size_t i = 0; args[i]; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s", args[i]);
    pid_t pid = start_flx(dir, "flx", args, env);
    wait_patiently(pid, 20, &interrupted);
    end_flx(pid, dir, "flx", r);
    if (!(interrupted && r->status == 128 + SIGINT))
        need_sane(r, line);
}

size_t count_names(const char *folder, const char *prefix)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
             strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    if (d)
        closedir(d);
    return n;
}

void need_sane(const process_result *r, const char *what)
{
    bool is_sane = r->status >= 0 && r->status <= 3 && !strstr(r->err, "[INTERNAL]") && !strstr(r->err, "Sanitizer") &&
                   !strstr(r->err, "runtime error:");
    CHECK_MSG(is_sane, "%s: status %d\n%s\n%s", what, r->status, r->err, r->out);
    CHECK_MSG(r->status == 0 || r->err[0] || r->out[0], "%s: status %d without a message", what, r->status);
}

void scene_begin(scene *s)
{
    s->dir = case_folder();
    s->num_env = 0;
    snprintf(s->cache, sizeof s->cache, "%s/cache", s->dir);
    snprintf(s->tmp, sizeof s->tmp, "%s/tmp", s->dir);
    snprintf(s->cache_setting, sizeof s->cache_setting, "FLX_CACHE_DIR=%s", s->cache);
    snprintf(s->tmp_setting, sizeof s->tmp_setting, "TMPDIR=%s", s->tmp);
    CHECK(mkdir(s->tmp, 0700) == 0);
    scene_add(s, s->cache_setting);
    scene_add(s, s->tmp_setting);
}

void scene_add(scene *s, const char *setting)
{
    CHECK(s->num_env + 1 < MAX_ENV);
    s->env[s->num_env++] = setting;
    s->env[s->num_env] = NULL;
}

void need_no_leftovers(const scene *s, const char *what)
{
    size_t in_cache = count_names(s->cache, ".tmp-"), in_tmp = count_names(s->tmp, "");
    CHECK_MSG(in_cache == 0, "%s: %zu temporary files are left in the cache", what, in_cache);
    CHECK_MSG(in_tmp == 0, "%s: %zu names are left in the folder of temporary files", what, in_tmp);
}
