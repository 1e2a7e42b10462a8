/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_client.c: the client, its options, and the topology, which is the client itself.

   Options of Client_Create, each also an environment variable:
     devices        FLX_PJRT_DEVICES    number of virtual devices (1)
     threads        FLX_PJRT_THREADS    threads of an execution (0: one for each core)
     mode           FLX_PJRT_MODE       auto: interpret, and compile in the background what takes long; interpret;
                                        compile: before the first run
     asynchronous   FLX_PJRT_ASYNC      1: what takes long is computed after the call has returned; 0: nothing is;
                                        2: everything that does not call back
     device         FLX_PJRT_DEVICE     what computes: cpu, cuda or opencl; values stay in the processor's memory
     platform_name                      what JAX calls the platform (fluxion) */
#include "pjrt/pjrt.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Options ---- */

bool flxi_pjrt_parse_mode(const char *text, size_t size, pjrt_mode *out)
{
    static const char *const names[] = {"auto", "interpret", "compile"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == size && memcmp(names[i], text, size) == 0) {
            *out = (pjrt_mode)i;
            return true;
        }
    return false;
}

static pjrt_error *set_number(const char *name, int64_t value, int64_t least, int64_t most, int64_t *out)
{
    if (value < least || value > most)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "option %s must be a number from %lld to %lld, got %lld", name,
                              (long long)least, (long long)most, (long long)value);
    *out = value;
    return NULL;
}

typedef struct {
    int64_t devices, threads, lateness;
} numbers;

static pjrt_error *set_mode(pjrt_client *c, const char *text, size_t size)
{
    if (flxi_pjrt_parse_mode(text, size, &c->mode))
        return NULL;
    return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "option mode must be auto, interpret or compile, got '%.*s'",
                          size < 60 ? (int)size : 60, text);
}

static pjrt_error *set_device(pjrt_client *c, const char *text, size_t size)
{
    flx_error err = {0};
    if (size == 0 || size >= sizeof c->computes_on)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "option device must be cpu, cuda or opencl");
    memcpy(c->computes_on, text, size);
    c->computes_on[size] = 0;
    return flx_device_check(c->computes_on, &err) == FLX_OK ? NULL : flxi_pjrt_from(&err);
}

static pjrt_error *set_platform(pjrt_client *c, const char *text, size_t size)
{
    if (size == 0 || size >= sizeof c->platform)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "option platform_name must have 1 to %zu characters",
                              sizeof c->platform - 1);
    memcpy(c->platform, text, size);
    c->platform[size] = 0;
    return NULL;
}

static bool is_called(const pjrt_named_value *v, const char *name, int32_t type)
{
    return v->type == type && v->name_size == strlen(name) && memcmp(v->name, name, v->name_size) == 0;
}

static pjrt_error *read_option(pjrt_client *c, numbers *n, const pjrt_named_value *v)
{
    if (is_called(v, "devices", PJRT_VALUE_INT))
        return set_number("devices", v->integer, 1, PJRT_MAX_DEVICES, &n->devices);
    if (is_called(v, "threads", PJRT_VALUE_INT))
        return set_number("threads", v->integer, 0, 1024, &n->threads);
    if (is_called(v, "asynchronous", PJRT_VALUE_INT))
        return set_number("asynchronous", v->integer, PJRT_NEVER_LATER, PJRT_ALL_LATER, &n->lateness);
    if (is_called(v, "mode", PJRT_VALUE_STRING))
        return set_mode(c, v->string, v->size);
    if (is_called(v, "device", PJRT_VALUE_STRING))
        return set_device(c, v->string, v->size);
    if (is_called(v, "platform_name", PJRT_VALUE_STRING))
        return set_platform(c, v->string, v->size);
    return flxi_pjrt_fail(
        PJRT_INVALID_ARGUMENT,
        "unknown option '%.*s', or not of its type; there are devices, threads, asynchronous (numbers), "
        "mode, device and platform_name (texts)",
        v->name_size < 60 ? (int)v->name_size : 60, v->name);
}

static pjrt_error *read_environment(pjrt_client *c, numbers *n)
{
    const char *devices = getenv("FLX_PJRT_DEVICES");
    const char *threads = getenv("FLX_PJRT_THREADS");
    const char *lateness = getenv("FLX_PJRT_ASYNC");
    const char *mode = getenv("FLX_PJRT_MODE");
    const char *device = getenv("FLX_PJRT_DEVICE");
    pjrt_error *e = NULL;
    if (devices && *devices)
        e = set_number("FLX_PJRT_DEVICES", strtoll(devices, NULL, 10), 1, PJRT_MAX_DEVICES, &n->devices);
    if (!e && threads && *threads)
        e = set_number("FLX_PJRT_THREADS", strtoll(threads, NULL, 10), 0, 1024, &n->threads);
    if (!e && lateness && *lateness)
        e = set_number("FLX_PJRT_ASYNC", strtoll(lateness, NULL, 10), PJRT_NEVER_LATER, PJRT_ALL_LATER, &n->lateness);
    if (!e && mode && *mode)
        e = set_mode(c, mode, strlen(mode));
    if (!e && device && *device)
        e = set_device(c, device, strlen(device));
    return e;
}

static pjrt_error *read_options(pjrt_client *c, const pjrt_client_create_args *a)
{
    numbers n = {.devices = 1, .lateness = PJRT_LONG_LATER};
    pjrt_error *e = read_environment(c, &n);
    for (size_t i = 0; i < a->num_options && !e; i++)
        e = read_option(c, &n, &a->options[i]);
    c->num_devices = (size_t)n.devices;
    c->threads = (int32_t)n.threads;
    c->lateness = (pjrt_lateness)n.lateness;
    return e;
}

/* ---- Life ---- */

static void free_client(pjrt_client *c)
{
    flxi_pjrt_queue_close(&c->queue);
    for (size_t i = 0; i < c->num_devices * PJRT_NUM_KINDS; i++)
        for (int k = 0; c->memory_list[i] && k < PJRT_MAX_USER_DATA; k++)
            if (c->memory_list[i]->user[k].data && c->memory_list[i]->user[k].discard)
                c->memory_list[i]->user[k].discard(c->memory_list[i]->user[k].data);
    flx_context_free(c->ctx);
    pthread_mutex_destroy(&c->lock);
    flxi_free(&flxi_pjrt_mem, c, 1, sizeof *c);
}

static pjrt_error *open_client(pjrt_client *c, const pjrt_client_create_args *a)
{
    flx_error err = {0};
    memcpy(c->platform, "fluxion", sizeof "fluxion");
    memcpy(c->computes_on, "cpu", sizeof "cpu");
    pjrt_error *e = read_options(c, a);
    if (e)
        return e;
    c->ctx = flx_context_new(NULL);
    if (!c->ctx)
        return flxi_pjrt_oom();
    if (flxi_pjrt_register_callback(c->ctx, &err) != FLX_OK)
        return flxi_pjrt_from(&err);
    for (size_t i = 0; i < c->num_devices; i++)
        flxi_pjrt_init_device(c, (int32_t)i);
    return NULL;
}

pjrt_error *flxi_pjrt_client_create(void *args)
{
    pjrt_client_create_args *a = args;
    pjrt_client *c = flxi_alloc(&flxi_pjrt_mem, 1, sizeof *c);
    if (!c)
        return flxi_pjrt_oom();
    pthread_mutex_init(&c->lock, NULL);
    flxi_pjrt_queue_open(&c->queue);
    pjrt_error *e = open_client(c, a);
    if (e)
        free_client(c);
    else
        a->client = c;
    return e;
}

pjrt_error *flxi_pjrt_client_destroy(void *args)
{
    pjrt_client *c = ((pjrt_handle_args *)args)->handle;
    if (c)
        free_client(c);
    return NULL;
}

/* ---- What it is ---- */

pjrt_error *flxi_pjrt_client_platform_name(void *args)
{
    pjrt_text_args *a = args;
    a->text = ((const pjrt_client *)a->handle)->platform;
    a->size = strlen(a->text);
    return NULL;
}

pjrt_error *flxi_pjrt_client_platform_version(void *args)
{
    static const char text[] = "fluxion " FLX_VERSION;
    pjrt_text_args *a = args;
    a->text = text;
    a->size = sizeof text - 1;
    return NULL;
}

pjrt_error *flxi_pjrt_client_process_index(void *args)
{
    ((pjrt_int_args *)args)->value = 0;
    return NULL;
}

pjrt_error *flxi_pjrt_client_devices(void *args)
{
    pjrt_list_args *a = args;
    pjrt_client *c = a->handle;
    a->list = c->device_list;
    a->count = c->num_devices;
    return NULL;
}

pjrt_error *flxi_pjrt_client_addressable_devices(void *args)
{
    return flxi_pjrt_client_devices(args);
}

pjrt_error *flxi_pjrt_client_addressable_memories(void *args)
{
    pjrt_list_args *a = args;
    pjrt_client *c = a->handle;
    a->list = c->memory_list;
    a->count = c->num_devices * PJRT_NUM_KINDS;
    return NULL;
}

pjrt_error *flxi_pjrt_client_lookup_device(void *args)
{
    pjrt_lookup_args *a = args;
    if (a->id < 0 || (size_t)a->id >= a->client->num_devices)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "there is no device %d: there are %zu", (int)a->id,
                              a->client->num_devices);
    a->device = &a->client->devices[a->id];
    return NULL;
}

pjrt_error *flxi_pjrt_client_lookup_addressable_device(void *args)
{
    return flxi_pjrt_client_lookup_device(args);
}

pjrt_error *flxi_pjrt_client_default_device_assignment(void *args)
{
    pjrt_assignment_args *a = args;
    int64_t count = (int64_t)a->num_replicas * a->num_partitions;
    if (a->num_replicas < 1 || a->num_partitions < 1 || count > (int64_t)a->client->num_devices ||
        (size_t)count > a->size)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "%d replicas and %d partitions do not fit on %zu devices",
                              (int)a->num_replicas, (int)a->num_partitions, a->client->num_devices);
    for (int32_t i = 0; i < (int32_t)count; i++)
        a->assignment[i] = i;
    return NULL;
}

/* Memory is the processor's already. */
pjrt_error *flxi_pjrt_client_dma_map(void *args)
{
    (void)args;
    return NULL;
}

pjrt_error *flxi_pjrt_client_dma_unmap(void *args)
{
    (void)args;
    return NULL;
}

/* ---- Topology ---- */

pjrt_error *flxi_pjrt_client_topology_description(void *args)
{
    pjrt_object_args *a = args;
    a->result = a->handle;
    return NULL;
}

pjrt_error *flxi_pjrt_topology_description_destroy(void *args)
{
    (void)args; /* it is the client's */
    return NULL;
}

pjrt_error *flxi_pjrt_topology_description_platform_name(void *args)
{
    return flxi_pjrt_client_platform_name(args);
}

pjrt_error *flxi_pjrt_topology_description_platform_version(void *args)
{
    return flxi_pjrt_client_platform_version(args);
}

pjrt_error *flxi_pjrt_topology_description_get_device_descriptions(void *args)
{
    return flxi_pjrt_client_devices(args);
}

static void free_nothing(void *owner)
{
    (void)owner;
}

pjrt_error *flxi_pjrt_topology_description_serialize(void *args)
{
    static const char text[] = "fluxion " FLX_VERSION;
    pjrt_topology_bytes_args *a = args;
    a->bytes = text;
    a->size = sizeof text - 1;
    a->owner = NULL;
    a->free_owner = free_nothing;
    return NULL;
}

pjrt_error *flxi_pjrt_topology_description_attributes(void *args)
{
    pjrt_list_args *a = args;
    a->list = NULL;
    a->count = 0;
    return NULL;
}

pjrt_error *flxi_pjrt_topology_description_fingerprint(void *args)
{
    pjrt_size_args *a = args;
    a->value =
        flxi_hash_u64(flxi_hash_text(FLXI_HASH_SEED, "fluxion " FLX_VERSION), ((pjrt_client *)a->handle)->num_devices);
    return NULL;
}

/* What a program is given by its caller: nothing here. */
pjrt_error *flxi_pjrt_execute_context_create(void *args)
{
    static char context;
    ((pjrt_handle_args *)args)->handle = &context;
    return NULL;
}

pjrt_error *flxi_pjrt_execute_context_destroy(void *args)
{
    (void)args;
    return NULL;
}
