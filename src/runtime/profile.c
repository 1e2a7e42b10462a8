/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c: the steps of an executable, and how long each takes in a run. */
#include "runtime/exec.h"

#include <pthread.h>
#include <time.h>

flx_code flx_exec_step(const flx_exec *e, size_t i, flx_step *out)
{
    if (!e || !out)
        return FLX_E_USAGE;
    const flxi_program *m = flxi_exec_program(e);
    if (!m || i >= m->all_steps.n)
        return FLX_E_NAME;
    const flxi_routine *l = m->all_steps.at[i].routine;
    const flxi_step *s = &l->steps[m->all_steps.at[i].step];
    *out = (flx_step){
        .kind = flxi_step_kind_name(l, s),
        .name = s->name,
        .routine = l->g->name,
        .computes = s->computes,
        .why = s->why,
        .depth = (int32_t)l->depth,
        .bytes = s->bytes,
        .flops = s->flops,
    };
    return FLX_OK;
}

/* ---- Profile ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void begin_steps(flx_run_trace *p, const flxi_program *m)
{
    p->num_steps = m->all_steps.n;
    for (size_t i = 0; i < p->num_steps && i < p->step_capacity; i++) {
        const flxi_routine *l = m->all_steps.at[i].routine;
        const flxi_step *s = &l->steps[m->all_steps.at[i].step];
        p->steps[i] =
            (flx_step_time){.name = s->name, .bytes = s->bytes, .flops = s->flops, .depth = (int32_t)l->depth};
    }
}

enum { MAX_THREADS = 256 };

/* The steps of an independent loop are run by several threads, which all report here. */
typedef struct {
    flx_run_trace *trace;
    pthread_mutex_t lock;
    pthread_t threads[MAX_THREADS]; /* in the order in which they reported first */
    uint32_t num_threads;
} observer;

static uint32_t number_of_thread(observer *o)
{
    pthread_t self = pthread_self();
    for (uint32_t i = 0; i < o->num_threads; i++)
        if (pthread_equal(o->threads[i], self))
            return i;
    if (o->num_threads == MAX_THREADS)
        return MAX_THREADS;
    o->threads[o->num_threads] = self;
    return o->num_threads++;
}

static void observe(void *user, const flxi_routine *l, unsigned char *base, uint32_t step, int64_t time_ns)
{
    observer *o = user;
    flx_run_trace *p = o->trace;
    uint32_t i = l->steps[step].number;
    int64_t start_ns = now_ns() - time_ns;
    (void)base;
    pthread_mutex_lock(&o->lock);
    if (p->num_steps == 0)
        begin_steps(p, l->program);
    if (i < p->step_capacity) {
        p->steps[i].runs++;
        p->steps[i].time_ns += time_ns;
    }
    if (p->num_events < p->event_capacity)
        p->events[p->num_events] =
            (flx_step_event){.start_ns = start_ns, .time_ns = time_ns, .step = i, .thread = number_of_thread(o)};
    p->num_events++;
    pthread_mutex_unlock(&o->lock);
}

/* Times since the first step began. */
static void count_from_start(flx_run_trace *p)
{
    size_t n = p->num_events < p->event_capacity ? p->num_events : p->event_capacity;
    int64_t first = n ? p->events[0].start_ns : 0;
    for (size_t i = 1; i < n; i++)
        first = p->events[i].start_ns < first ? p->events[i].start_ns : first;
    for (size_t i = 0; i < n; i++)
        p->events[i].start_ns -= first;
}

static flx_code run_observed(const char *function, flx_exec *e, const flxi_run_call *call, flx_run_trace *trace,
                             flx_error *err)
{
    flx_error local = {0};
    flx_run_options o;
    flx_code code = flxi_exec_check_run(function, e, call, &o, &local);
    if (code == FLX_OK && ((trace->step_capacity && !trace->steps) || (trace->event_capacity && !trace->events)))
        code = flxi_fail(&local, FLX_E_USAGE, "%s: where to write the steps must be given", function);
    trace->num_steps = trace->num_events = 0;
    if (code == FLX_OK) {
        observer watcher = {.trace = trace, .lock = PTHREAD_MUTEX_INITIALIZER, .threads = {pthread_self()}};
        watcher.num_threads = 1;
        flxi_run_setup setup = flxi_exec_setup(e, &o);
        setup.observe = observe;
        setup.observe_user = &watcher;
        code = flxi_exec_run_named(e, &setup, call->feeds, call->num_feeds, call->outputs, &local);
        pthread_mutex_destroy(&watcher.lock);
        count_from_start(trace);
    }
    if (code != FLX_OK && err)
        *err = local;
    return code;
}

flx_code flx_exec_profile(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                          flx_tensor **outputs, flx_step_time *steps, size_t capacity, size_t *count, flx_error *err)
{
    flx_run_trace trace = {.steps = steps, .step_capacity = capacity};
    const flxi_run_call call = {options, feeds, num_feeds, outputs};
    flx_code code = run_observed("flx_exec_profile", e, &call, &trace, err);
    if (count)
        *count = trace.num_steps;
    return code;
}

flx_code flx_exec_trace(flx_exec *e, const flx_run_options *options, const flx_feed *feeds, size_t num_feeds,
                        flx_tensor **outputs, flx_run_trace *trace, flx_error *err)
{
    if (!trace)
        return flxi_fail(err, FLX_E_USAGE, "flx_exec_trace: where to write the trace must be given");
    return run_observed("flx_exec_trace", e, &(flxi_run_call){options, feeds, num_feeds, outputs}, trace, err);
}
