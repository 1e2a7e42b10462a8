/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_transfer.c: arrays of the host to buffers and back. Memory of the host may have any strides, also negative ones
   and 0; buffers are dense and row-major. A dense array that the caller keeps unchanged becomes the buffer's storage
   without a copy, if it is large: copying a small one costs less than the event that reports the end of its use. */
#include "pjrt/pjrt.h"

enum { LEAST_SHARED = 1 << 14 }; /* bytes; below, copying takes less than a microsecond */

/* ---- Strided copies ---- */

static void copy_axis(const pjrt_strided_copy *c, size_t axis, const char *from, char *to)
{
    if (axis == c->rank) {
        memcpy(to, from, c->element);
        return;
    }
    bool is_row = axis + 1 == c->rank && c->from_strides[axis] == (int64_t)c->element &&
                  c->to_strides[axis] == (int64_t)c->element;
    if (is_row) {
        memcpy(to, from, c->element * (size_t)c->dims[axis]);
        return;
    }
    for (int64_t i = 0; i < c->dims[axis]; i++)
        copy_axis(c, axis + 1, from + i * c->from_strides[axis], to + i * c->to_strides[axis]);
}

void flxi_pjrt_copy_strided(const pjrt_strided_copy *c)
{
    copy_axis(c, 0, c->from, c->to);
}

void flxi_pjrt_dense_strides(const int64_t *dims, size_t rank, size_t element, int64_t *out)
{
    int64_t step = (int64_t)element;
    for (size_t i = rank; i-- > 0;) {
        out[i] = step;
        step *= dims[i];
    }
}

/* Whether elements are in row-major order without gaps; axes of one element may have any stride. */
static bool is_dense(const int64_t *dims, size_t rank, size_t element, const int64_t *strides)
{
    int64_t expected[FLX_MAX_RANK];
    flxi_pjrt_dense_strides(dims, rank, element, expected);
    for (size_t i = 0; i < rank; i++)
        if (dims[i] != 1 && strides[i] != expected[i])
            return false;
    return true;
}

/* ---- From the host ---- */

static pjrt_error *copy_from_host(const pjrt_from_host_args *a, bool is_flat, size_t nbytes, pjrt_storage **out)
{
    pjrt_storage *s = flxi_pjrt_storage_new(a->client, nbytes);
    if (!s)
        return flxi_pjrt_oom();
    if (is_flat && nbytes) {
        memcpy(s->data, a->data, nbytes);
    } else if (nbytes) {
        pjrt_strided_copy c = {.from = a->data, .to = s->data, .rank = a->num_dims, .dims = a->dims};
        c.element = flxi_pjrt_type_size(a->type);
        memcpy(c.from_strides, a->byte_strides, a->num_dims * sizeof *a->byte_strides);
        flxi_pjrt_dense_strides(a->dims, a->num_dims, c.element, c.to_strides);
        flxi_pjrt_copy_strided(&c);
    }
    *out = s;
    return NULL;
}

/* The event fires when the storage is freed. NULL storage without an error: nothing is shared. */
static pjrt_storage *share_host(const pjrt_from_host_args *a, size_t nbytes, pjrt_event **done)
{
    size_t alignment = flxi_pjrt_type_size(a->type) < 16 ? flxi_pjrt_type_size(a->type) : 8;
    if (nbytes < LEAST_SHARED || (uintptr_t)a->data % alignment)
        return NULL;
    pjrt_storage *s = flxi_pjrt_storage_wrap(a->client, (void *)(uintptr_t)a->data, nbytes);
    pjrt_event *e = s ? flxi_pjrt_event_pending() : NULL;
    if (!e) {
        flxi_pjrt_storage_release(s);
        return NULL;
    }
    s->done = e;
    *done = e;
    return s;
}

pjrt_error *flxi_pjrt_client_buffer_from_host_buffer(void *args)
{
    pjrt_from_host_args *a = args;
    pjrt_event *done = flxi_pjrt_ready_event();
    pjrt_storage *s = NULL;
    size_t nbytes;
    pjrt_error *e = flxi_pjrt_array_size(a->type, a->dims, a->num_dims, &nbytes);
    if (e)
        return e;
    if (a->num_byte_strides && a->num_byte_strides != a->num_dims)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "%zu strides for an array of rank %zu", a->num_byte_strides,
                              a->num_dims);
    bool is_flat =
        !a->num_byte_strides || is_dense(a->dims, a->num_dims, flxi_pjrt_type_size(a->type), a->byte_strides);
    if (is_flat && a->semantics == PJRT_HOST_ZERO_COPY)
        s = share_host(a, nbytes, &done);
    if (!s)
        e = copy_from_host(a, is_flat, nbytes, &s);
    if (e)
        return e;
    pjrt_memory *memory = flxi_pjrt_memory_of(a->client, a->device, a->memory);
    a->buffer = flxi_pjrt_buffer_new(memory, a->type, a->dims, a->num_dims, s);
    if (!a->buffer) {
        pjrt_handle_args event = {.handle = done};
        flxi_pjrt_event_destroy(&event);
        return flxi_pjrt_oom();
    }
    a->done_with_host_buffer = done;
    return NULL;
}

/* ---- To the host ---- */

/* Strides of the host's array; only orders of axes and strides are known, no tiles. */
static pjrt_error *host_strides(const pjrt_buffer *b, const pjrt_layout *layout, size_t element, int64_t *out)
{
    size_t rank = (size_t)b->rank;
    flxi_pjrt_dense_strides(b->dims, rank, element, out);
    if (!layout)
        return NULL;
    if (layout->type == PJRT_LAYOUT_STRIDES) {
        if (layout->strided.num_axes != rank)
            return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the layout has another rank than the array");
        if (rank)
            memcpy(out, layout->strided.byte_strides, rank * sizeof *out);
        return NULL;
    }
    if (layout->tiled.num_tiles)
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "layouts with tiles are not supported");
    if (layout->tiled.num_axes != rank)
        return layout->tiled.num_axes ? flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the layout has another rank") : NULL;
    int64_t step = (int64_t)element;
    for (size_t i = 0; i < rank; i++) {
        int64_t axis = layout->tiled.minor_to_major[i];
        if (axis < 0 || (size_t)axis >= rank)
            return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "axis %lld of a layout is out of range", (long long)axis);
        out[axis] = step;
        step *= b->dims[axis];
    }
    return NULL;
}

static pjrt_error *copy_to_host(const pjrt_buffer *b, const pjrt_storage *s, const pjrt_layout *layout, void *data)
{
    pjrt_strided_copy c = {.from = s->data, .to = data, .rank = (size_t)b->rank, .dims = b->dims};
    c.element = flxi_pjrt_type_size(b->type);
    pjrt_error *e = host_strides(b, layout, c.element, c.to_strides);
    if (e)
        return e;
    if (is_dense(b->dims, c.rank, c.element, c.to_strides)) {
        memcpy(data, s->data, s->nbytes);
        return NULL;
    }
    flxi_pjrt_dense_strides(b->dims, c.rank, c.element, c.from_strides);
    flxi_pjrt_copy_strided(&c);
    return NULL;
}

pjrt_error *flxi_pjrt_buffer_to_host_buffer(void *args)
{
    pjrt_to_host_args *a = args;
    pjrt_storage *s = flxi_pjrt_buffer_hold(a->buffer);
    pjrt_error *e = NULL;
    if (!s)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the array has been deleted or donated");
    a->event = NULL;
    if (!a->data) {
        a->size = s->nbytes;
    } else {
        e = flxi_pjrt_storage_wait(s);
        if (!e && s->nbytes)
            e = copy_to_host(a->buffer, s, a->host_layout, a->data);
        a->event = e ? NULL : flxi_pjrt_ready_event();
    }
    flxi_pjrt_storage_release(s);
    return e;
}

pjrt_error *flxi_pjrt_buffer_copy_raw_to_host(void *args)
{
    pjrt_raw_copy_args *a = args;
    pjrt_storage *s = flxi_pjrt_buffer_hold(a->buffer);
    if (!s)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "the array has been deleted or donated");
    bool fits = a->offset >= 0 && a->size >= 0 && (uint64_t)a->offset <= s->nbytes &&
                (uint64_t)a->size <= s->nbytes - (uint64_t)a->offset;
    pjrt_error *e = fits ? flxi_pjrt_storage_wait(s) : NULL;
    if (fits && !e && a->size)
        memcpy(a->data, (const char *)s->data + a->offset, (size_t)a->size);
    size_t nbytes = s->nbytes;
    flxi_pjrt_storage_release(s);
    if (e)
        return e;
    if (!fits)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "%lld bytes from offset %lld are outside of an array of %zu bytes",
                              (long long)a->size, (long long)a->offset, nbytes);
    a->event = flxi_pjrt_ready_event();
    return NULL;
}
