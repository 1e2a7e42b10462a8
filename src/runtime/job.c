/* SPDX-License-Identifier: Apache-2.0 */
/* job.c: runs that proceed while the caller does something else: a thread for each. Jobs of one executable take states
   of their own, as runs on several threads do; their parallel loops take turns on the pool. */
#include "base/host/quiet_thread.h"
#include "base/host/stop.h"
#include "runtime/exec.h"

struct flx_job {
    flx_exec *exec;
    flxi_arena arena; /* names and dims of the caller */
    flx_run_options options;
    flx_feed *feeds; /* their values are held */
    size_t num_feeds;
    flx_tensor **outputs;
    flx_error err;
    pthread_t thread;
    bool is_started, is_joined, is_taken; /* taken: the outputs are the caller's */
    flx_stop stop;
    atomic_bool is_done;
};

static void *run_job(void *user)
{
    flx_job *j = user;
    flxi_run_setup setup = flxi_exec_setup(j->exec, &j->options);
    flxi_stop_swap(&j->stop);
    flx_code code = flxi_exec_run_named(j->exec, &setup, j->feeds, j->num_feeds, j->outputs, &j->err);
    j->err.code = (int32_t)code;
    atomic_store(&j->is_done, true);
    return NULL;
}

/* ---- Starting ---- */

static flx_code keep_feeds(flx_job *j, const flx_feed *feeds, size_t n, flx_error *err)
{
    j->feeds = flxi_new(&j->arena, flx_feed, n);
    if (!j->feeds)
        return flxi_oom(err, "a job");
    for (size_t i = 0; i < n; i++) {
        if (!feeds[i].name || !feeds[i].value)
            return flxi_fail(err, FLX_E_USAGE, "feed %zu has no name or no value", i);
        j->feeds[i].name = flxi_arena_text(&j->arena, feeds[i].name, strlen(feeds[i].name));
        if (!j->feeds[i].name)
            return flxi_oom(err, "a job");
        j->feeds[i].value = flx_tensor_retain((flx_tensor *)(uintptr_t)feeds[i].value);
        j->num_feeds++;
    }
    return FLX_OK;
}

static flx_code keep_dims(flx_job *j, flx_error *err)
{
    flx_dim_binding *dims = flxi_dup(&j->arena, flx_dim_binding, j->options.dims, j->options.num_dims);
    if (!dims)
        return flxi_oom(err, "a job");
    FLXI_TRY(flxi_check_bindings(j->options.dims, j->options.num_dims, err));
    for (size_t i = 0; i < j->options.num_dims; i++) {
        dims[i].name = flxi_arena_text(&j->arena, dims[i].name, strlen(dims[i].name));
        if (!dims[i].name)
            return flxi_oom(err, "a job");
    }
    j->options.dims = j->options.num_dims ? dims : NULL;
    return FLX_OK;
}

static flx_code start(flx_job *j, const flx_run_options *options, const flx_feed *feeds, size_t n, flx_error *err)
{
    flx_exec *e = j->exec;
    j->outputs = flxi_new(&j->arena, flx_tensor *, e->g->outputs.n);
    if (!j->outputs)
        return flxi_oom(err, "a job");
    FLXI_TRY(
        flxi_exec_check_run("flx_exec_start", e, &(flxi_run_call){options, feeds, n, j->outputs}, &j->options, err));
    FLXI_TRY(keep_dims(j, err));
    FLXI_TRY(keep_feeds(j, feeds, n, err));
    j->is_started = flxi_thread_start(&j->thread, run_job, j);
    return j->is_started ? FLX_OK : flxi_fail(err, FLX_E_DEVICE, "no thread could be started to run on");
}

flx_job *flx_exec_start(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                        flx_error *err)
{
    flx_error local = {0};
    if (!e) {
        flxi_fail(err, FLX_E_USAGE, "flx_exec_start: the executable must be given");
        return NULL;
    }
    flx_job *j = flxi_alloc(e->mem, 1, sizeof *j);
    if (!j) {
        flxi_oom(err, "a job");
        return NULL;
    }
    j->exec = e;
    flxi_arena_init(&j->arena, e->mem);
    atomic_init(&j->is_done, false);
    atomic_init(&j->stop.code, 0);
    if (start(j, options, feeds, num_feeds, &local) == FLX_OK)
        return j;
    flx_job_free(j);
    if (err)
        *err = local;
    return NULL;
}

/* ---- Afterwards ---- */

static void join(flx_job *j)
{
    if (j->is_started && !j->is_joined)
        pthread_join(j->thread, NULL);
    j->is_joined = true;
}

int flx_job_is_done(const flx_job *j)
{
    return j && atomic_load(&j->is_done);
}

flx_code flx_job_wait(flx_job *j, flx_tensor **outputs, flx_error *err)
{
    if (!j || (!outputs && j->exec->g->outputs.n))
        return flxi_fail(err, FLX_E_USAGE, "flx_job_wait: the job and where to write its outputs must be given");
    join(j);
    size_t n = j->exec->g->outputs.n;
    for (size_t i = 0; i < n; i++)
        outputs[i] = NULL;
    if (j->err.code) {
        if (err)
            *err = j->err;
        return (flx_code)j->err.code;
    }
    if (j->is_taken)
        return flxi_fail(err, FLX_E_USAGE, "flx_job_wait: the outputs of this job were returned before");
    for (size_t i = 0; i < n; i++) {
        outputs[i] = j->outputs[i];
        j->outputs[i] = NULL;
    }
    j->is_taken = true;
    return FLX_OK;
}

void flx_job_cancel(flx_job *j)
{
    if (j)
        flx_stop_request(&j->stop);
}

void flx_job_free(flx_job *j)
{
    if (!j)
        return;
    flx_exec *e = j->exec;
    flx_job_cancel(j);
    join(j);
    for (size_t i = 0; j->outputs && i < e->g->outputs.n; i++)
        flx_tensor_release(j->outputs[i]);
    for (size_t i = 0; i < j->num_feeds; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)j->feeds[i].value);
    flxi_arena_free(&j->arena);
    flxi_free(e->mem, j, 1, sizeof *j);
}
