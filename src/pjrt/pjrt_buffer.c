/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_buffer.c: storages and buffers.

   A storage is counted memory: a buffer holds it, an execution that reads it, and all external references together. It
   is aligned to 64 bytes, or it is memory of the host, as it is. Only where a buffer is its one holder may an execution
   write a result to it. */
#include "pjrt/pjrt.h"

enum { ALIGNMENT = 64 };

/* ---- Storages ---- */

static void count_bytes(pjrt_client *c, size_t nbytes)
{
    pjrt_statistics *s = &c->statistics;
    long long now = atomic_fetch_add(&s->in_use, (long long)nbytes) + (long long)nbytes;
    long long peak = atomic_load(&s->peak);
    while (now > peak && !atomic_compare_exchange_weak(&s->peak, &peak, now)) {
    }
    long long largest = atomic_load(&s->largest);
    while ((long long)nbytes > largest && !atomic_compare_exchange_weak(&s->largest, &largest, (long long)nbytes)) {
    }
    atomic_fetch_add(&s->count, 1);
}

pjrt_storage *flxi_pjrt_storage_wrap(pjrt_client *c, void *data, size_t nbytes)
{
    pjrt_storage *s = flxi_alloc(&flxi_pjrt_mem, 1, sizeof *s);
    if (!s)
        return NULL;
    atomic_init(&s->holders, 1);
    s->client = c;
    s->data = data;
    s->nbytes = nbytes;
    return s;
}

/* The elements are not initialised. */
pjrt_storage *flxi_pjrt_storage_new(pjrt_client *c, size_t nbytes)
{
    size_t size;
    pjrt_storage *s = flxi_pjrt_storage_wrap(c, NULL, nbytes);
    if (!s)
        return NULL;
    s->block = flxi_add_size(nbytes, ALIGNMENT, &size) ? flxi_pjrt_mem.fn(flxi_pjrt_mem.user, NULL, 0, size) : NULL;
    if (!s->block) {
        flxi_free(&flxi_pjrt_mem, s, 1, sizeof *s);
        return NULL;
    }
    s->block_size = size;
    s->data = (char *)s->block + (ALIGNMENT - (uintptr_t)s->block % ALIGNMENT) % ALIGNMENT;
    count_bytes(c, nbytes);
    return s;
}

void flxi_pjrt_storage_release(pjrt_storage *s)
{
    if (!s || atomic_fetch_sub(&s->holders, 1) != 1)
        return;
    if (s->block) {
        atomic_fetch_sub(&s->client->statistics.in_use, (long long)s->nbytes);
        flxi_pjrt_mem.fn(flxi_pjrt_mem.user, s->block, s->block_size, 0);
    }
    if (s->on_delete)
        s->on_delete(s->data, s->user);
    if (s->done)
        flxi_pjrt_event_fire(s->done, NULL);
    flxi_pjrt_event_release(s->ready);
    flxi_free(&flxi_pjrt_mem, s, 1, sizeof *s);
}

pjrt_error *flxi_pjrt_storage_wait(const pjrt_storage *s)
{
    return atomic_load(&s->state) == STORAGE_READY ? NULL : flxi_pjrt_event_wait(s->ready);
}

/* ---- Buffers ---- */

pjrt_buffer *flxi_pjrt_buffer_new(pjrt_memory *memory, int32_t type, const int64_t *dims, size_t rank,
                                  pjrt_storage *storage)
{
    pjrt_buffer *b = flxi_alloc(&flxi_pjrt_mem, sizeof *b + rank * sizeof *dims, 1);
    if (!b) {
        flxi_pjrt_storage_release(storage);
        return NULL;
    }
    b->device = memory->device;
    b->memory = memory;
    b->storage = storage;
    b->type = type;
    b->rank = (int32_t)rank;
    if (rank)
        memcpy(b->dims, dims, rank * sizeof *dims);
    return b;
}

void flxi_pjrt_buffer_drop(pjrt_buffer *b)
{
    pthread_mutex_lock(&b->device->client->lock);
    pjrt_storage *s = b->storage;
    b->storage = NULL;
    pthread_mutex_unlock(&b->device->client->lock);
    flxi_pjrt_storage_release(s);
}

void flxi_pjrt_buffer_free(pjrt_buffer *b)
{
    if (!b)
        return;
    flxi_pjrt_buffer_drop(b);
    flxi_free(&flxi_pjrt_mem, b, sizeof *b + (size_t)b->rank * sizeof *b->dims, 1);
}

pjrt_storage *flxi_pjrt_buffer_hold(pjrt_buffer *b)
{
    pthread_mutex_lock(&b->device->client->lock);
    pjrt_storage *s = b->storage;
    if (s)
        atomic_fetch_add(&s->holders, 1);
    pthread_mutex_unlock(&b->device->client->lock);
    return s;
}

static pjrt_error *deleted(void)
{
    return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the array has been deleted or donated");
}

/* ---- What a buffer is ---- */

pjrt_error *flxi_pjrt_buffer_destroy(void *args)
{
    flxi_pjrt_buffer_free(((pjrt_handle_args *)args)->handle);
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_element_type(void *args)
{
    pjrt_int_args *a = args;
    a->value = ((pjrt_buffer *)a->handle)->type;
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_dimensions(void *args)
{
    pjrt_list_args *a = args;
    pjrt_buffer *b = a->handle;
    a->list = b->dims;
    a->count = (size_t)b->rank;
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_unpadded_dimensions(void *args)
{
    return flxi_pjrt_buffer_dimensions(args);
}

pjrt_error *flxi_pjrt_buffer_dynamic_dimension_indices(void *args)
{
    pjrt_list_args *a = args;
    a->list = NULL;
    a->count = 0;
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_get_memory_layout(void *args)
{
    static const int64_t axes[FLX_MAX_RANK] = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    pjrt_buffer_layout_args *a = args;
    size_t rank = (size_t)a->buffer->rank;
    a->layout = (pjrt_layout){.struct_size = sizeof a->layout, .type = PJRT_LAYOUT_TILED};
    a->layout.tiled.struct_size = sizeof a->layout.tiled;
    a->layout.tiled.minor_to_major = axes + FLX_MAX_RANK - rank;
    a->layout.tiled.num_axes = rank;
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_on_device_size_in_bytes(void *args)
{
    pjrt_size_args *a = args;
    pjrt_buffer *b = a->handle;
    return flxi_pjrt_array_size(b->type, b->dims, (size_t)b->rank, &a->value);
}

pjrt_error *flxi_pjrt_buffer_device(void *args)
{
    pjrt_object_args *a = args;
    a->result = ((pjrt_buffer *)a->handle)->device;
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_memory(void *args)
{
    pjrt_object_args *a = args;
    a->result = ((pjrt_buffer *)a->handle)->memory;
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_is_on_cpu(void *args)
{
    ((pjrt_bool_args *)args)->value = true; /* NumPy reads the memory itself */
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_delete(void *args)
{
    flxi_pjrt_buffer_drop(((pjrt_handle_args *)args)->handle);
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_is_deleted(void *args)
{
    pjrt_bool_args *a = args;
    pjrt_buffer *b = a->handle;
    pthread_mutex_lock(&b->device->client->lock);
    a->value = !b->storage;
    pthread_mutex_unlock(&b->device->client->lock);
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_ready_event(void *args)
{
    pjrt_object_args *a = args;
    pjrt_storage *s = flxi_pjrt_buffer_hold(a->handle);
    bool is_ready = !s || atomic_load(&s->state) == STORAGE_READY;
    a->result = is_ready ? flxi_pjrt_ready_event() : flxi_pjrt_event_retain(s->ready);
    flxi_pjrt_storage_release(s);
    return NULL;
}

/* ---- External references: of the storage, which may outlive the buffer's use of it ---- */

pjrt_error *flxi_pjrt_buffer_increase_external_reference_count(void *args)
{
    pjrt_buffer *b = ((pjrt_handle_args *)args)->handle;
    pjrt_storage *s = flxi_pjrt_buffer_hold(b);
    if (!s)
        return deleted();
    atomic_fetch_add(&s->external, 1);
    pthread_mutex_lock(&b->device->client->lock);
    b->exported = s;
    pthread_mutex_unlock(&b->device->client->lock);
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_decrease_external_reference_count(void *args)
{
    pjrt_buffer *b = ((pjrt_handle_args *)args)->handle;
    pthread_mutex_lock(&b->device->client->lock);
    pjrt_storage *s = b->exported;
    pthread_mutex_unlock(&b->device->client->lock);
    if (s && atomic_load(&s->external) > 0) {
        atomic_fetch_sub(&s->external, 1);
        flxi_pjrt_storage_release(s);
    }
    return NULL;
}

static pjrt_error *address_of(pjrt_buffer *b, void **out)
{
    pjrt_storage *s = flxi_pjrt_buffer_hold(b);
    if (!s)
        return deleted();
    *out = s->data;
    flxi_pjrt_storage_release(s);
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_unsafe_pointer(void *args)
{
    pjrt_object_args *a = args;
    return address_of(a->handle, &a->result);
}

pjrt_error *flxi_pjrt_buffer_opaque_device_memory_data_pointer(void *args)
{
    return flxi_pjrt_buffer_unsafe_pointer(args);
}

/* ---- Copies and new buffers ---- */

/* The copy shares the storage, whatever its device and memory: buffers are not written, except where a storage has one
   holder. */
static pjrt_error *copy_to(pjrt_buffer *b, pjrt_memory *memory, pjrt_buffer **out)
{
    pjrt_storage *s = flxi_pjrt_buffer_hold(b);
    if (!s)
        return deleted();
    *out = flxi_pjrt_buffer_new(memory, b->type, b->dims, (size_t)b->rank, s);
    return *out ? NULL : flxi_pjrt_oom();
}

pjrt_error *flxi_pjrt_buffer_copy_to_device(void *args)
{
    pjrt_copy_args *a = args;
    return copy_to(a->buffer, &((pjrt_device *)a->target)->memory[0], &a->copy);
}

pjrt_error *flxi_pjrt_buffer_copy_to_memory(void *args)
{
    pjrt_copy_args *a = args;
    return copy_to(a->buffer, a->target, &a->copy);
}

pjrt_error *flxi_pjrt_client_create_view_of_device_buffer(void *args)
{
    pjrt_view_args *a = args;
    size_t nbytes;
    pjrt_error *e = flxi_pjrt_array_size(a->type, a->dims, a->num_dims, &nbytes);
    if (e)
        return e;
    pjrt_storage *s = flxi_pjrt_storage_wrap(a->client, a->data, nbytes);
    if (!s)
        return flxi_pjrt_oom();
    pjrt_memory *memory = flxi_pjrt_memory_of(a->client, a->device, PJRT_HAS(a, memory) ? a->memory : NULL);
    a->buffer = flxi_pjrt_buffer_new(memory, a->type, a->dims, a->num_dims, s);
    if (!a->buffer)
        return flxi_pjrt_oom();
    s->on_delete = a->on_delete;
    s->user = a->user;
    return NULL;
}

pjrt_error *flxi_pjrt_client_create_uninitialized_buffer(void *args)
{
    pjrt_uninitialised_args *a = args;
    size_t nbytes;
    pjrt_error *e = flxi_pjrt_array_size(a->type, a->dims, a->num_dims, &nbytes);
    if (e)
        return e;
    pjrt_storage *s = flxi_pjrt_storage_new(a->client, nbytes);
    if (!s)
        return flxi_pjrt_oom();
    pjrt_memory *memory = flxi_pjrt_memory_of(a->client, a->device, a->memory);
    a->buffer = flxi_pjrt_buffer_new(memory, a->type, a->dims, a->num_dims, s);
    return a->buffer ? NULL : flxi_pjrt_oom();
}
