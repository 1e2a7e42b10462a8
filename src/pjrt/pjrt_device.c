/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_device.c: virtual devices and their memories. All of them are the processor; a device has a memory of each kind
   that JAX knows, "device" being the default. A description is the device itself. */
#include "pjrt/pjrt.h"

#include <stdio.h>
#include <unistd.h>

/* ---- What JAX keeps with a memory ---- */

static void *get_user_data(pjrt_memory *m, const void *key)
{
    void *data = NULL;
    pthread_mutex_lock(&m->device->client->lock);
    for (int i = 0; i < PJRT_MAX_USER_DATA; i++)
        if (m->user[i].data && m->user[i].key == key)
            data = m->user[i].data;
    pthread_mutex_unlock(&m->device->client->lock);
    return data;
}

/* Under the same key new data replace the old; with all entries taken they are not kept, which costs JAX a lookup. */
static void set_user_data(pjrt_memory *m, const void *key, void *data, void (*discard)(void *data))
{
    int free_entry = -1;
    int own_entry = -1;
    pthread_mutex_lock(&m->device->client->lock);
    for (int i = 0; i < PJRT_MAX_USER_DATA; i++) {
        if (m->user[i].data && m->user[i].key == key)
            own_entry = i;
        else if (!m->user[i].data && free_entry < 0)
            free_entry = i;
    }
    int at = own_entry >= 0 ? own_entry : free_entry;
    void *old = own_entry >= 0 ? m->user[at].data : at < 0 ? data : NULL;
    void (*old_discard)(void *) = own_entry >= 0 ? m->user[at].discard : discard;
    if (at >= 0) {
        m->user[at].key = key;
        m->user[at].data = data;
        m->user[at].discard = discard;
    }
    pthread_mutex_unlock(&m->device->client->lock);
    if (old && old_discard)
        old_discard(old);
}

static const pjrt_memory_table memory_table = {
    .struct_size = sizeof(pjrt_memory_table),
    .instance_size = sizeof(const pjrt_memory_table *),
    .get_user_data = get_user_data,
    .set_user_data = set_user_data,
};

/* ---- Kinds of memory ---- */

static const char *const kind_names[PJRT_NUM_KINDS] = {"device", "pinned_host", "unpinned_host"};

const char *flxi_pjrt_kind_name(pjrt_memory_kind kind)
{
    return kind_names[kind];
}

bool flxi_pjrt_find_kind(const char *name, size_t size, pjrt_memory_kind *out)
{
    for (int k = 0; k < PJRT_NUM_KINDS; k++)
        if (strlen(kind_names[k]) == size && memcmp(kind_names[k], name, size) == 0) {
            *out = (pjrt_memory_kind)k;
            return true;
        }
    return false;
}

pjrt_memory *flxi_pjrt_memory_of(pjrt_client *c, pjrt_device *device, pjrt_memory *memory)
{
    return memory ? memory : device ? &device->memory[0] : &c->devices[0].memory[0];
}

void flxi_pjrt_init_device(pjrt_client *c, int32_t id)
{
    pjrt_device *d = &c->devices[id];
    d->client = c;
    d->id = id;
    d->text_size = (size_t)snprintf(d->text, sizeof d->text, "FluxionDevice(id=%d)", (int)id);
    for (int k = 0; k < PJRT_NUM_KINDS; k++) {
        pjrt_memory *m = &d->memory[k];
        m->table = &memory_table;
        m->device = d;
        m->kind = (pjrt_memory_kind)k;
        m->text_size = (size_t)snprintf(m->text, sizeof m->text, "%s memory of %s", kind_names[k], d->text);
        d->memories[k] = c->memory_list[id * PJRT_NUM_KINDS + k] = m;
    }
    c->device_list[id] = d;
}

/* ---- Calls about devices ---- */

pjrt_error *flxi_pjrt_device_description_id(void *args)
{
    pjrt_int_args *a = args;
    a->value = ((pjrt_device *)a->handle)->id;
    return NULL;
}

pjrt_error *flxi_pjrt_device_description_process_index(void *args)
{
    ((pjrt_int_args *)args)->value = 0;
    return NULL;
}

pjrt_error *flxi_pjrt_device_description_attributes(void *args)
{
    pjrt_attributes_args *a = args;
    a->count = 0;
    a->list = NULL;
    return NULL;
}

static pjrt_error *answer_text(void *args, const char *text, size_t size)
{
    pjrt_text_args *a = args;
    a->text = text;
    a->size = size;
    return NULL;
}

pjrt_error *flxi_pjrt_device_description_kind(void *args)
{
    return answer_text(args, "fluxion-cpu", strlen("fluxion-cpu"));
}

pjrt_error *flxi_pjrt_device_description_to_string(void *args)
{
    const pjrt_device *d = ((pjrt_text_args *)args)->handle;
    return answer_text(args, d->text, d->text_size);
}

pjrt_error *flxi_pjrt_device_description_debug_string(void *args)
{
    return flxi_pjrt_device_description_to_string(args);
}

pjrt_error *flxi_pjrt_device_get_description(void *args)
{
    pjrt_object_args *a = args;
    a->result = a->handle;
    return NULL;
}

pjrt_error *flxi_pjrt_device_is_addressable(void *args)
{
    ((pjrt_bool_args *)args)->value = true;
    return NULL;
}

pjrt_error *flxi_pjrt_device_local_hardware_id(void *args)
{
    return flxi_pjrt_device_description_id(args);
}

pjrt_error *flxi_pjrt_device_addressable_memories(void *args)
{
    pjrt_list_args *a = args;
    a->list = ((pjrt_device *)a->handle)->memories;
    a->count = PJRT_NUM_KINDS;
    return NULL;
}

pjrt_error *flxi_pjrt_device_default_memory(void *args)
{
    pjrt_object_args *a = args;
    a->result = &((pjrt_device *)a->handle)->memory[0];
    return NULL;
}

static pjrt_statistic known(long long value)
{
    return (pjrt_statistic){.value = value, .is_set = true};
}

/* The memory of the machine; 0: the system does not say. */
static long long memory_of_machine(void)
{
    long long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? pages * size : 0;
}

/* All devices share one memory, so each reports the whole, and may reserve an equal part. */
pjrt_error *flxi_pjrt_device_memory_stats(void *args)
{
    pjrt_memory_stats_args *a = args;
    pjrt_statistics *s = &a->device->client->statistics;
    pjrt_statistic unknown = {0};
    a->bytes_in_use = atomic_load(&s->in_use);
    a->peak_bytes_in_use = known(atomic_load(&s->peak));
    a->num_allocs = known(atomic_load(&s->count));
    a->largest_alloc_size = known(atomic_load(&s->largest));
    long long limit = memory_of_machine();
    a->bytes_limit = a->bytes_reservable_limit = (pjrt_statistic){.value = limit, .is_set = limit > 0};
    a->bytes_reservable_limit.value /= (long long)a->device->client->num_devices;
    a->bytes_reserved = a->peak_bytes_reserved = unknown;
    a->largest_free_block_bytes = unknown;
    if (PJRT_HAS(a, pool_bytes.is_set))
        a->pool_bytes = unknown;
    if (a->struct_size >= offsetof(pjrt_memory_stats_args, peak_pool_bytes) + sizeof(int64_t) + 1)
        a->peak_pool_bytes.is_set = false;
    return NULL;
}

pjrt_error *flxi_pjrt_device_clear_memory_stats(void *args)
{
    pjrt_statistics *s = &((pjrt_device *)((pjrt_handle_args *)args)->handle)->client->statistics;
    atomic_store(&s->peak, atomic_load(&s->in_use));
    atomic_store(&s->largest, 0);
    atomic_store(&s->count, 0);
    return NULL;
}

static void free_nothing(void *owner)
{
    (void)owner;
}

pjrt_error *flxi_pjrt_device_get_attributes(void *args)
{
    pjrt_device_attributes_args *a = args;
    a->list = NULL;
    a->count = 0;
    a->owner = NULL;
    a->free_owner = free_nothing;
    return NULL;
}

/* ---- Calls about memories ---- */

pjrt_error *flxi_pjrt_memory_id(void *args)
{
    pjrt_int_args *a = args;
    const pjrt_memory *m = a->handle;
    a->value = m->device->id * PJRT_NUM_KINDS + (int32_t)m->kind;
    return NULL;
}

pjrt_error *flxi_pjrt_memory_kind(void *args)
{
    const char *name = kind_names[((const pjrt_memory *)((pjrt_text_args *)args)->handle)->kind];
    return answer_text(args, name, strlen(name));
}

pjrt_error *flxi_pjrt_memory_kind_id(void *args)
{
    pjrt_int_args *a = args;
    a->value = 1 + (int32_t)((const pjrt_memory *)a->handle)->kind;
    return NULL;
}

pjrt_error *flxi_pjrt_memory_to_string(void *args)
{
    const pjrt_memory *m = ((pjrt_text_args *)args)->handle;
    return answer_text(args, m->text, m->text_size);
}

pjrt_error *flxi_pjrt_memory_debug_string(void *args)
{
    return flxi_pjrt_memory_to_string(args);
}

pjrt_error *flxi_pjrt_memory_addressable_by_devices(void *args)
{
    pjrt_list_args *a = args;
    const pjrt_device *d = ((pjrt_memory *)a->handle)->device;
    a->list = &d->client->device_list[d->id];
    a->count = 1;
    return NULL;
}
