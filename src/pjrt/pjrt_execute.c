/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_execute.c: one execution. Arguments are held while it runs, results are new storages, and a donated argument
   gives its memory to its result where nothing else refers to it. When it has succeeded, donated arguments have lost
   their storages, whether or not the memory was used; when it fails, nothing has changed, unless a result had begun to
   overwrite a donated argument, which is then lost too.

   A short one runs before the call returns: another thread would need longer to begin. A long one, and one whose
   arguments are pending, is handed to the queue; its results are pending until then, and fail with it. One that calls
   back into the host always runs at once: the host may wait for results with the lock that the callback needs. */
#include "pjrt/pjrt.h"

#include "base/error.h"

#include "pjrt/pjrt_callback.h"

#include <time.h>

enum { FEW = 24 }; /* arguments or results that need no allocation of lists */

typedef struct {
    pjrt_executable *x;
    pjrt_buffer *const *args;
    pjrt_device *device;
    const pjrt_execute_options *options;
    size_t room;            /* of each list */
    pjrt_storage **held;    /* by argument */
    pjrt_storage **written; /* by result */
    pjrt_buffer **made;     /* by result */
    const void **inputs;    /* by position in the graph */
    void **outputs;
    pjrt_event *done; /* of one that runs later, held for the caller; NULL: it has run */
} execution;

/* ---- Donation ---- */

static bool is_kept(const pjrt_execute_options *o, size_t arg)
{
    if (!o || !PJRT_HAS(o, num_kept_inputs))
        return false;
    for (size_t i = 0; i < o->num_kept_inputs; i++)
        if (o->kept_inputs[i] == (int64_t)arg)
            return true;
    return false;
}

bool flxi_pjrt_is_donated(const pjrt_executable *x, const pjrt_execute_options *o, size_t arg)
{
    return x->args[arg].is_donated && !is_kept(o, arg);
}

static bool is_donated(const execution *r, size_t arg)
{
    return flxi_pjrt_is_donated(r->x, r->options, arg);
}

/* Whether one buffer is given twice shows in the holders of its storage: the buffer, and this execution once. */
static pjrt_error *check_donations(const execution *r)
{
    for (size_t i = 0; i < r->x->num_args; i++) {
        if (!is_donated(r, i) || atomic_load(&r->held[i]->holders) <= 2)
            continue;
        for (size_t k = 0; k < r->x->num_args; k++)
            if (k != i && r->args[k] == r->args[i])
                return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT,
                                      "Attempt to donate the same buffer twice in Execute(), or to use a buffer that "
                                      "is donated: arguments %zu and %zu are one array, as in f(donate(a), a)",
                                      i, k);
    }
    return NULL;
}

/* Its holders are then the buffer and this execution. */
static bool may_overwrite(const execution *r, size_t arg)
{
    const pjrt_slot *a = &r->x->args[arg];
    pjrt_storage *s = r->held[arg];
    if (!a->shared || !is_donated(r, arg) || !s->block || atomic_load(&s->holders) != 2 || atomic_load(&s->external) ||
        atomic_load(&s->state) != STORAGE_READY)
        return false;
    const pjrt_slot *result = &r->x->results[a->shared - 1];
    return result->nbytes == a->nbytes && !r->written[a->shared - 1] &&
           flx_exec_may_share(r->x->exec, a->position, result->position);
}

/* ---- Arguments and results ---- */

pjrt_error *flxi_pjrt_hold_argument(const pjrt_executable *x, pjrt_buffer *b, size_t arg, pjrt_storage **out)
{
    const pjrt_slot *slot = &x->args[arg];
    pjrt_storage *s = *out = flxi_pjrt_buffer_hold(b);
    if (!s)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "argument %zu has been deleted or donated", arg);
    if (slot->type != PJRT_TOKEN && (s->nbytes != slot->nbytes || b->type != slot->type))
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT,
                              "argument %zu is an array of %zu bytes and element type %d, expected %zu bytes and %d",
                              arg, s->nbytes, (int)b->type, slot->nbytes, (int)slot->type);
    return NULL;
}

static pjrt_error *hold_argument(execution *r, size_t i)
{
    const pjrt_slot *slot = &r->x->args[i];
    pjrt_error *e = flxi_pjrt_hold_argument(r->x, r->args[i], i, &r->held[i]);
    if (!e && slot->type != PJRT_TOKEN)
        r->inputs[slot->position] = r->held[i]->data;
    return e;
}

static pjrt_error *make_results(execution *r, bool shares)
{
    const pjrt_executable *x = r->x;
    for (size_t i = 0; i < x->num_args && shares; i++)
        if (x->args[i].type != PJRT_TOKEN && may_overwrite(r, i)) {
            r->written[x->args[i].shared - 1] = r->held[i];
            atomic_fetch_add(&r->held[i]->holders, 1);
        }
    for (size_t i = 0; i < x->num_results; i++) {
        const pjrt_slot *slot = &x->results[i];
        if (!r->written[i])
            r->written[i] = flxi_pjrt_storage_new(x->client, slot->nbytes);
        if (!r->written[i])
            return flxi_pjrt_oom();
        if (slot->type != PJRT_TOKEN)
            r->outputs[slot->position] = r->written[i]->data;
    }
    return NULL;
}

static void drop_results(execution *r)
{
    for (size_t i = 0; i < r->x->num_results; i++) {
        flxi_pjrt_storage_release(r->written[i]);
        r->written[i] = NULL;
    }
}

/* ---- Running ---- */

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

flx_code flxi_pjrt_run(pjrt_executable *x, const void *const *inputs, void *const *outputs, flx_error *err)
{
    long long start = now_ns();
    flx_code code = flx_exec_run_at(x->exec, inputs, outputs, err);
    atomic_store(&x->last_ns, now_ns() - start);
    return code;
}

static pjrt_error *run(execution *r)
{
    flx_error err = {0};
    pjrt_error *e = make_results(r, true);
    if (e)
        return e;
    flxi_pjrt_forget_callback_error();
    flx_code code = flxi_pjrt_run(r->x, r->inputs, r->outputs, &err);
    if (code == FLX_E_USAGE) { /* compiled meanwhile to something that shares less */
        drop_results(r);
        e = make_results(r, false);
        if (e)
            return e;
        code = flxi_pjrt_run(r->x, r->inputs, r->outputs, &err);
    }
    if (code == FLX_OK)
        return NULL;
    e = flxi_pjrt_callback_error();
    return e ? e : flxi_pjrt_from(&err);
}

/* One that gives its memory to a result was ready, and is pending as that result. */
static pjrt_error *wait_for_arguments(const execution *r)
{
    pjrt_error *e = NULL;
    for (size_t i = 0; i < r->x->num_args && !e; i++) {
        size_t shared = r->x->args[i].shared;
        if (!shared || r->written[shared - 1] != r->held[i])
            e = flxi_pjrt_storage_wait(r->held[i]);
    }
    return e;
}

static pjrt_error *make_buffers(execution *r)
{
    for (size_t i = 0; i < r->x->num_results; i++) {
        const pjrt_slot *slot = &r->x->results[i];
        pjrt_memory *memory = &r->device->memory[slot->kind];
        r->made[i] = flxi_pjrt_buffer_new(memory, slot->type, slot->dims, slot->rank, r->written[i]);
        r->written[i] = NULL; /* the buffer's, or released */
        if (!r->made[i])
            return flxi_pjrt_oom();
    }
    return NULL;
}

static void drop_donated(const execution *r)
{
    for (size_t i = 0; i < r->x->num_args; i++)
        if (is_donated(r, i))
            flxi_pjrt_buffer_drop(r->args[i]);
}

/* ---- Later ---- */

typedef struct {
    pjrt_job job; /* first */
    size_t size;
    execution r;      /* without what the caller owns: buffers and options */
    pjrt_event *done; /* held by each result and by this job */
} postponed;

/* Results that are where arguments are go to memory of their own first. */
static flx_code run_apart(execution *r, flx_error *err)
{
    flx_code code = FLX_OK;
    pjrt_storage **own = flxi_alloc(&flxi_pjrt_mem, r->x->num_results, sizeof *own);
    if (!own)
        return flxi_oom(err, "results");
    for (size_t i = 0; i < r->x->num_results && code == FLX_OK; i++) {
        own[i] = flxi_pjrt_storage_new(r->x->client, r->written[i]->nbytes);
        if (!own[i])
            code = flxi_oom(err, "results");
        else if (r->x->results[i].type != PJRT_TOKEN)
            r->outputs[r->x->results[i].position] = own[i]->data;
    }
    if (code == FLX_OK)
        code = flxi_pjrt_run(r->x, r->inputs, r->outputs, err);
    for (size_t i = 0; i < r->x->num_results; i++) {
        if (code == FLX_OK && own[i]->nbytes)
            memcpy(r->written[i]->data, own[i]->data, own[i]->nbytes);
        flxi_pjrt_storage_release(own[i]);
    }
    flxi_free(&flxi_pjrt_mem, own, r->x->num_results, sizeof *own);
    return code;
}

static void free_postponed(postponed *p)
{
    execution *r = &p->r;
    pjrt_executable *x = r->x;
    for (size_t i = 0; i < x->num_args; i++)
        flxi_pjrt_storage_release(r->held[i]);
    drop_results(r);
    flxi_free(&flxi_pjrt_mem, p, p->size, 1);
    flxi_pjrt_executable_release(x);
}

static void run_postponed(pjrt_job *job)
{
    postponed *p = (postponed *)job;
    execution *r = &p->r;
    flx_error err = {0};
    pjrt_error *e = wait_for_arguments(r);
    if (!e) {
        flx_code code = flxi_pjrt_run(r->x, r->inputs, r->outputs, &err);
        if (code == FLX_E_USAGE) /* as in run() */
            code = run_apart(r, &err);
        e = code == FLX_OK ? NULL : flxi_pjrt_from(&err);
    }
    for (size_t i = 0; i < r->x->num_results; i++)
        atomic_store(&r->written[i]->state, e ? STORAGE_FAILED : STORAGE_READY);
    pjrt_event *done = p->done;
    free_postponed(p);
    flxi_pjrt_event_fire(done, e);
}

/* A copy of the execution with room for its lists. */
static postponed *copy_execution(const execution *r)
{
    size_t room = r->room, head = (sizeof(postponed) + 15) / 16 * 16;
    size_t size = head + room * (2 * sizeof(pjrt_storage *) + 2 * sizeof(void *));
    postponed *p = flxi_alloc(&flxi_pjrt_mem, size, 1);
    pjrt_event *done = p ? flxi_pjrt_event_pending() : NULL;
    if (!done) {
        if (p)
            flxi_free(&flxi_pjrt_mem, p, size, 1);
        return NULL;
    }
    void *lists = (char *)p + head;
    *p = (postponed){.job = {.run = run_postponed}, .size = size, .r = {.x = r->x, .room = room}, .done = done};
    p->r.held = lists;
    p->r.written = p->r.held + room;
    p->r.inputs = (const void **)(uintptr_t)(p->r.written + room);
    p->r.outputs = (void **)(uintptr_t)(p->r.inputs + room);
    memcpy(p->r.held, r->held, room * sizeof *r->held);
    memcpy(p->r.written, r->written, room * sizeof *r->written);
    memcpy(p->r.inputs, r->inputs, room * sizeof *r->inputs);
    memcpy(p->r.outputs, r->outputs, room * sizeof *r->outputs);
    atomic_fetch_add(&r->x->holders, 1);
    memset(r->held, 0, room * sizeof *r->held); /* the job's */
    return p;
}

/* From here on its results are pending; it fails only where there is no memory. */
static pjrt_error *postpone(execution *r)
{
    pjrt_error *e = make_results(r, true);
    postponed *p = e ? NULL : copy_execution(r);
    if (e || !p)
        return e ? e : flxi_pjrt_oom();
    for (size_t i = 0; i < r->x->num_results; i++) {
        pjrt_storage *s = p->r.written[i];
        atomic_fetch_add(&s->holders, 1); /* of the buffer */
        flxi_pjrt_event_release(s->ready);
        s->ready = flxi_pjrt_event_retain(p->done);
        atomic_store(&s->state, STORAGE_PENDING);
    }
    e = make_buffers(r);
    r->done = p->done;
    if (e) {
        pjrt_event *done = p->done;
        free_postponed(p);
        flxi_pjrt_event_fire(done, NULL);
        return e;
    }
    drop_donated(r);
    if (!flxi_pjrt_queue_add(&r->x->client->queue, &p->job))
        run_postponed(&p->job);
    return NULL;
}

enum { WORTH_A_THREAD_NS = 300000 };

static bool runs_later(const execution *r)
{
    pjrt_lateness lateness = r->x->client->lateness;
    if (lateness == PJRT_NEVER_LATER || r->x->calls_host)
        return false;
    for (size_t i = 0; i < r->x->num_args; i++)
        if (atomic_load(&r->held[i]->state) == STORAGE_PENDING)
            return true;
    return lateness == PJRT_ALL_LATER || atomic_load(&r->x->last_ns) > WORTH_A_THREAD_NS;
}

static pjrt_error *perform_now(execution *r)
{
    pjrt_error *e = wait_for_arguments(r);
    if (!e)
        e = run(r);
    if (!e)
        e = make_buffers(r);
    if (!e)
        drop_donated(r);
    return e;
}

static pjrt_error *perform(execution *r)
{
    pjrt_error *e = NULL;
    for (size_t i = 0; i < r->x->num_args && !e; i++)
        e = hold_argument(r, i);
    if (!e)
        e = check_donations(r);
    if (e)
        return e;
    return runs_later(r) ? postpone(r) : perform_now(r);
}

static void finish(execution *r, pjrt_error *e, pjrt_buffer **outputs)
{
    for (size_t i = 0; i < r->x->num_args; i++)
        flxi_pjrt_storage_release(r->held[i]);
    drop_results(r);
    for (size_t i = 0; i < r->x->num_results; i++) {
        if (e)
            flxi_pjrt_buffer_free(r->made[i]);
        else
            outputs[i] = r->made[i];
    }
}

static pjrt_error *execute_with(execution *r, pjrt_buffer **outputs, pjrt_storage **storages, const void **addresses)
{
    r->held = storages;
    r->written = storages + r->room;
    r->inputs = addresses;
    r->outputs = (void **)(uintptr_t)(addresses + r->room);
    r->made = (pjrt_buffer **)(uintptr_t)(addresses + 2 * r->room);
    pjrt_error *e = perform(r);
    finish(r, e, outputs);
    return e;
}

static pjrt_error *execute(execution *r, pjrt_buffer **outputs)
{
    size_t most = r->x->num_args > r->x->num_results ? r->x->num_args : r->x->num_results;
    if (most <= FEW) {
        pjrt_storage *storages[2 * FEW] = {0};
        const void *addresses[3 * FEW] = {0};
        r->room = FEW;
        return execute_with(r, outputs, storages, addresses);
    }
    pjrt_storage **storages = flxi_alloc(&flxi_pjrt_mem, 2 * most, sizeof *storages);
    const void **addresses = flxi_alloc(&flxi_pjrt_mem, 3 * most, sizeof *addresses);
    r->room = most;
    pjrt_error *e = storages && addresses ? execute_with(r, outputs, storages, addresses) : flxi_pjrt_oom();
    if (storages)
        flxi_free(&flxi_pjrt_mem, storages, 2 * most, sizeof *storages);
    if (addresses)
        flxi_free(&flxi_pjrt_mem, addresses, 3 * most, sizeof *addresses);
    return e;
}

pjrt_error *flxi_pjrt_loaded_executable_execute(void *args)
{
    pjrt_execute_args *a = args;
    pjrt_executable *x = a->executable;
    if (atomic_load(&x->is_deleted))
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the executable has been deleted");
    if (a->num_devices != x->num_devices || a->num_args != x->num_args)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT,
                              "%zu arguments on %zu devices, but the program takes %zu on %zu devices", a->num_args,
                              a->num_devices, x->num_args, x->num_devices);
    if (x->num_devices > 1)
        return flxi_pjrt_execute_parts(a);
    execution r = {.x = x,
                   .args = x->num_args ? a->arguments[0] : NULL,
                   .device = a->execute_device ? a->execute_device : x->devices[0],
                   .options = a->options};
    pjrt_error *e = execute(&r, x->num_results ? a->outputs[0] : NULL);
    if (!e && a->complete_events)
        a->complete_events[0] = r.done ? r.done : flxi_pjrt_ready_event();
    else
        flxi_pjrt_event_release(r.done);
    return e;
}
