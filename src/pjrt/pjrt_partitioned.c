/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_partitioned.c: an execution on several devices. They are one processor, so that dividing the work among them
   gains nothing: the parts of each argument are put together, the program runs once with whole values, and its results
   are cut. Where it says what each device computes (shard_map), every device has a thread that runs it: there the
   threads take their parts of the values, meet in exchanges over the transport `local`, and put the results together
   again. When one of them fails, the others end with it. */
#include "pjrt/pjrt.h"

#include "graph/mesh.h"
#include "pjrt/pjrt_callback.h"

#include <fluxion/mesh.h>

static const double no_time_limit = 1e8; /* seconds: one may wait for another that computes */

typedef struct {
    const pjrt_execute_args *a;
    pjrt_executable *x;
    size_t n, num_runs; /* devices; and how often the program runs: once, or on each of them */
    flxi_arena arena;
    pjrt_storage **held;    /* by device, by argument */
    pjrt_storage **joined;  /* by argument: the whole of one that is cut */
    pjrt_storage **written; /* by run, by result: whole */
    pjrt_buffer **made;     /* by device, by result */
    flx_local_mesh *mesh;
} parts_run;

typedef struct {
    parts_run *r;
    size_t index;
    const void **inputs;
    void **outputs;
    pthread_t thread;
    bool has_thread;
    flx_error err;
    pjrt_error *raised; /* by a call back into the host */
} one_run;

static pjrt_storage **held_of(const parts_run *r, size_t device)
{
    return r->held + device * r->x->num_args;
}

static pjrt_storage **written_of(const parts_run *r, size_t run)
{
    return r->written + run * r->x->num_results;
}

/* ---- Parts ---- */

/* Copies what a device has of a whole value from it, or to it. */
static void copy_part(const pjrt_slot *slot, size_t device, void *whole, void *part, bool is_cut)
{
    int64_t steps[FLX_MAX_RANK], own[FLX_MAX_RANK], offset = 0;
    size_t element = flxi_pjrt_type_size(slot->type);
    flxi_pjrt_dense_strides(slot->whole_dims, slot->rank, element, steps);
    flxi_pjrt_dense_strides(slot->dims, slot->rank, element, own);
    for (size_t k = 0; k < slot->rank; k++)
        offset += slot->at[device * slot->rank + k] * slot->dims[k] * steps[k];
    char *inside = (char *)whole + offset;
    pjrt_strided_copy c = {.from = is_cut ? inside : part, .to = is_cut ? part : inside, .rank = slot->rank};
    c.dims = slot->dims;
    c.element = element;
    memcpy(c.from_strides, is_cut ? steps : own, sizeof steps);
    memcpy(c.to_strides, is_cut ? own : steps, sizeof own);
    if (slot->nbytes)
        flxi_pjrt_copy_strided(&c);
}

static pjrt_error *hold_arguments(parts_run *r)
{
    pjrt_error *e = NULL;
    for (size_t d = 0; d < r->n && !e; d++)
        for (size_t i = 0; i < r->x->num_args && !e; i++)
            e = flxi_pjrt_hold_argument(r->x, r->a->arguments[d][i], i, &held_of(r, d)[i]);
    for (size_t i = 0; i < r->n * r->x->num_args && !e; i++)
        e = flxi_pjrt_storage_wait(r->held[i]);
    return e;
}

/* One of the summands of an argument, or the whole of one that has no others. */
static pjrt_storage *join_summand(parts_run *r, size_t i, int64_t summand)
{
    const pjrt_slot *slot = &r->x->args[i];
    pjrt_storage *s = flxi_pjrt_storage_new(r->x->client, slot->whole_nbytes);
    for (size_t d = 0; s && d < r->n; d++)
        if (slot->summand[d] == summand)
            copy_part(slot, d, s->data, held_of(r, d)[i]->data, false);
    return s;
}

static pjrt_storage *join_argument(parts_run *r, size_t i)
{
    const pjrt_slot *slot = &r->x->args[i];
    pjrt_storage *summands[PJRT_MAX_DEVICES] = {NULL}, *sum = NULL;
    const void *parts[PJRT_MAX_DEVICES];
    size_t n = 0;
    if (slot->summands == 1)
        return join_summand(r, i, 0);
    for (; n < (size_t)slot->summands && (summands[n] = join_summand(r, i, (int64_t)n)); n++)
        parts[n] = summands[n]->data;
    if (n == (size_t)slot->summands)
        sum = flxi_pjrt_storage_new(r->x->client, slot->whole_nbytes);
    if (sum)
        flxi_reduce_parts(slot->dtype, REDUCE_SUM, parts, n, slot->whole_nbytes / flxi_pjrt_type_size(slot->type),
                          sum->data);
    for (size_t k = 0; k < n; k++)
        flxi_pjrt_storage_release(summands[k]);
    return sum;
}

static pjrt_error *join_arguments(parts_run *r)
{
    for (size_t i = 0; i < r->x->num_args; i++)
        if (r->x->args[i].is_cut) {
            r->joined[i] = join_argument(r, i);
            if (!r->joined[i])
                return flxi_pjrt_oom();
        }
    return NULL;
}

/* ---- Runs ---- */

static pjrt_error *prepare(one_run *o)
{
    parts_run *r = o->r;
    o->inputs = flxi_new(&r->arena, const void *, r->x->num_inputs + 1);
    o->outputs = flxi_new(&r->arena, void *, r->x->num_outputs + 1);
    if (!o->inputs || !o->outputs)
        return flxi_pjrt_oom();
    for (size_t i = 0; i < r->x->num_args; i++) {
        const pjrt_storage *s = r->joined[i] ? r->joined[i] : held_of(r, o->index)[i];
        if (r->x->args[i].type != PJRT_TOKEN)
            o->inputs[r->x->args[i].position] = s->data;
    }
    for (size_t i = 0; i < r->x->num_results; i++) {
        const pjrt_slot *slot = &r->x->results[i];
        pjrt_storage *s = written_of(r, o->index)[i] = flxi_pjrt_storage_new(r->x->client, slot->whole_nbytes);
        if (!s)
            return flxi_pjrt_oom();
        if (slot->type != PJRT_TOKEN)
            o->outputs[slot->position] = s->data;
    }
    return NULL;
}

static void run_once(one_run *o)
{
    flxi_pjrt_forget_callback_error();
    if (flxi_pjrt_run(o->r->x, o->inputs, o->outputs, &o->err) != FLX_OK)
        o->raised = flxi_pjrt_callback_error();
}

/* A process of the mesh; without `runs` it only leaves, so that the others do not wait for it. */
static void run_process(one_run *o, bool runs)
{
    parts_run *r = o->r;
    flx_mesh_options options = {.struct_size = sizeof options,
                                .axes = r->x->mesh,
                                .local = r->mesh,
                                .rank = (int64_t)o->index,
                                .timeout = no_time_limit,
                                .flags = FLX_MESH_IN_ORDER | FLX_MESH_MEET};
    flx_error ignored;
    if (flx_mesh_join_thread(r->x->client->ctx, &options, runs ? &o->err : &ignored) != FLX_OK)
        return;
    if (runs)
        run_once(o);
    flx_mesh_leave_thread(r->x->client->ctx);
}

static void *run_thread(void *user)
{
    run_process(user, true);
    return NULL;
}

/* The error that is the reason for the others: not that another process has left. */
static pjrt_error *first_reason(one_run *all, size_t n)
{
    const flx_error *reason = NULL;
    pjrt_error *raised = NULL;
    for (size_t i = 0; i < n; i++) {
        bool is_own = all[i].err.code && all[i].err.code != FLX_E_DEVICE;
        if (all[i].err.code && (!reason || (is_own && reason->code == FLX_E_DEVICE)))
            reason = &all[i].err;
        if (raised)
            flxi_pjrt_error_free(all[i].raised);
        else
            raised = all[i].raised;
    }
    return raised ? raised : reason ? flxi_pjrt_from(reason) : NULL;
}

static pjrt_error *run_processes(one_run *all, size_t n)
{
    parts_run *r = all->r;
    flx_error err = {0};
    r->mesh = flx_local_mesh_new(r->x->client->ctx, (int64_t)n, &err);
    if (!r->mesh)
        return flxi_pjrt_from(&err);
    for (size_t i = 1; i < n; i++)
        all[i].has_thread = pthread_create(&all[i].thread, NULL, run_thread, &all[i]) == 0;
    for (size_t i = 1; i < n; i++)
        if (!all[i].has_thread)
            run_process(&all[i], false);
    run_process(&all[0], true);
    bool has_all = true;
    for (size_t i = 1; i < n; i++) {
        if (all[i].has_thread)
            pthread_join(all[i].thread, NULL);
        has_all &= all[i].has_thread;
    }
    flx_local_mesh_free(r->mesh);
    pjrt_error *e = first_reason(all, n);
    return e || has_all ? e : flxi_pjrt_fail(PJRT_RESOURCE_EXHAUSTED, "no more threads can be started");
}

static pjrt_error *run_all(parts_run *r)
{
    pjrt_error *e = NULL;
    one_run *all = flxi_new(&r->arena, one_run, r->num_runs);
    if (!all)
        return flxi_pjrt_oom();
    for (size_t i = 0; i < r->num_runs && !e; i++) {
        all[i].r = r;
        all[i].index = i;
        e = prepare(&all[i]);
    }
    if (e)
        return e;
    if (r->num_runs > 1)
        return run_processes(all, r->num_runs);
    run_once(all);
    return first_reason(all, 1);
}

/* ---- Results ---- */

static pjrt_storage *result_part(parts_run *r, size_t device, size_t i)
{
    const pjrt_slot *slot = &r->x->results[i];
    pjrt_storage *whole = written_of(r, r->num_runs > 1 ? device : 0)[i];
    if (!slot->is_cut) {
        atomic_fetch_add(&whole->holders, 1);
        return whole;
    }
    pjrt_storage *part = flxi_pjrt_storage_new(r->x->client, slot->nbytes);
    if (part && slot->summand[device] > 0) /* the first summand is all of it */
        memset(part->data, 0, part->nbytes);
    else if (part)
        copy_part(slot, device, whole->data, part->data, true);
    return part;
}

static pjrt_error *make_buffers(parts_run *r)
{
    for (size_t d = 0; d < r->n; d++)
        for (size_t i = 0; i < r->x->num_results; i++) {
            const pjrt_slot *slot = &r->x->results[i];
            pjrt_storage *s = result_part(r, d, i);
            pjrt_memory *memory = &r->x->devices[d]->memory[slot->kind];
            pjrt_buffer *b = s ? flxi_pjrt_buffer_new(memory, slot->type, slot->dims, slot->rank, s) : NULL;
            if (!b)
                return flxi_pjrt_oom();
            r->made[d * r->x->num_results + i] = b;
        }
    return NULL;
}

static void hand_over(parts_run *r)
{
    for (size_t d = 0; d < r->n; d++) {
        for (size_t i = 0; i < r->x->num_results; i++)
            r->a->outputs[d][i] = r->made[d * r->x->num_results + i];
        for (size_t i = 0; i < r->x->num_args; i++)
            if (flxi_pjrt_is_donated(r->x, r->a->options, i))
                flxi_pjrt_buffer_drop(r->a->arguments[d][i]);
        if (r->a->complete_events)
            r->a->complete_events[d] = flxi_pjrt_ready_event();
    }
}

static void release_all(pjrt_storage **list, size_t n)
{
    for (size_t i = 0; list && i < n; i++)
        flxi_pjrt_storage_release(list[i]);
}

static pjrt_error *perform(parts_run *r)
{
    const pjrt_executable *x = r->x;
    r->held = flxi_new(&r->arena, pjrt_storage *, r->n * x->num_args + 1);
    r->joined = flxi_new(&r->arena, pjrt_storage *, x->num_args + 1);
    r->written = flxi_new(&r->arena, pjrt_storage *, r->num_runs * x->num_results + 1);
    r->made = flxi_new(&r->arena, pjrt_buffer *, r->n * x->num_results + 1);
    if (!r->held || !r->joined || !r->written || !r->made)
        return flxi_pjrt_oom();
    pjrt_error *e = hold_arguments(r);
    if (!e)
        e = join_arguments(r);
    if (!e)
        e = run_all(r);
    return e ? e : make_buffers(r);
}

pjrt_error *flxi_pjrt_execute_parts(const pjrt_execute_args *a)
{
    pjrt_executable *x = a->executable;
    parts_run r = {.a = a, .x = x, .n = x->num_devices, .num_runs = x->mesh ? x->num_devices : 1};
    flxi_arena_init(&r.arena, &flxi_pjrt_mem);
    pjrt_error *e = perform(&r);
    if (!e)
        hand_over(&r);
    for (size_t i = 0; e && r.made && i < r.n * x->num_results; i++)
        flxi_pjrt_buffer_free(r.made[i]);
    release_all(r.held, r.held ? r.n * x->num_args : 0);
    release_all(r.joined, x->num_args);
    release_all(r.written, r.num_runs * x->num_results);
    flxi_arena_free(&r.arena);
    return e;
}
