/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_execute.c: one execution. Arguments are held while it runs, results are new storages, and a donated argument
   gives its memory to its result where nothing else refers to it. When it has succeeded, donated arguments have lost
   their storages, whether or not the memory was used; when it fails, nothing has changed, unless a result had begun to
   overwrite a donated argument, which is then lost too. */
#include "pjrt/pjrt.h"

#include "pjrt/pjrt_callback.h"

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
    if (!a->shared || !is_donated(r, arg) || !s->block || atomic_load(&s->holders) != 2 || atomic_load(&s->external))
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

static pjrt_error *run(execution *r)
{
    flx_error err = {0};
    pjrt_error *e = make_results(r, true);
    if (e)
        return e;
    flxi_pjrt_forget_callback_error();
    flx_code code = flx_exec_run_at(r->x->exec, r->inputs, r->outputs, &err);
    if (code == FLX_E_USAGE) { /* compiled meanwhile to something that shares less */
        drop_results(r);
        e = make_results(r, false);
        if (e)
            return e;
        code = flx_exec_run_at(r->x->exec, r->inputs, r->outputs, &err);
    }
    if (code == FLX_OK)
        return NULL;
    e = flxi_pjrt_callback_error();
    return e ? e : flxi_pjrt_from(&err);
}

static pjrt_error *make_buffers(execution *r)
{
    for (size_t i = 0; i < r->x->num_results; i++) {
        const pjrt_slot *slot = &r->x->results[i];
        r->made[i] = flxi_pjrt_buffer_new(r->device, slot->type, slot->dims, slot->rank, r->written[i]);
        r->written[i] = NULL; /* the buffer's, or released */
        if (!r->made[i])
            return flxi_pjrt_oom();
    }
    return NULL;
}

static pjrt_error *perform(execution *r)
{
    pjrt_error *e = NULL;
    for (size_t i = 0; i < r->x->num_args && !e; i++)
        e = hold_argument(r, i);
    if (!e)
        e = check_donations(r);
    if (!e)
        e = run(r);
    if (!e)
        e = make_buffers(r);
    for (size_t i = 0; i < r->x->num_args && !e; i++)
        if (is_donated(r, i))
            flxi_pjrt_buffer_drop(r->args[i]);
    return e;
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
        a->complete_events[0] = flxi_pjrt_ready_event();
    return e;
}
