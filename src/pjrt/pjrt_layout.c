/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_layout.c: the layouts of arrays, as JAX asks for them (arr.format, compiled.output_formats). All are row-major:
   JAX refuses a program that wants another one, since it compares it with the answer. A layout is its text, the axes
   from the fastest one on. */
#include "pjrt/pjrt.h"

struct pjrt_layout_text {
    const char *text;
    size_t size;
};

#define TEXT(t)            \
    {                      \
        (t), sizeof(t) - 1 \
    }
static pjrt_layout_text by_rank[FLX_MAX_RANK + 1] = {
    TEXT("{}"),
    TEXT("{0}"),
    TEXT("{1,0}"),
    TEXT("{2,1,0}"),
    TEXT("{3,2,1,0}"),
    TEXT("{4,3,2,1,0}"),
    TEXT("{5,4,3,2,1,0}"),
    TEXT("{6,5,4,3,2,1,0}"),
    TEXT("{7,6,5,4,3,2,1,0}"),
    TEXT("{8,7,6,5,4,3,2,1,0}"),
    TEXT("{9,8,7,6,5,4,3,2,1,0}"),
    TEXT("{10,9,8,7,6,5,4,3,2,1,0}"),
    TEXT("{11,10,9,8,7,6,5,4,3,2,1,0}"),
    TEXT("{12,11,10,9,8,7,6,5,4,3,2,1,0}"),
    TEXT("{13,12,11,10,9,8,7,6,5,4,3,2,1,0}"),
    TEXT("{14,13,12,11,10,9,8,7,6,5,4,3,2,1,0}"),
    TEXT("{15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0}"),
};

static pjrt_error *destroy(void *args)
{
    (void)args;
    return NULL;
}

static void free_nothing(void *owner)
{
    (void)owner;
}

static pjrt_error *serialize(void *args)
{
    pjrt_layout_bytes_args *a = args;
    a->bytes = a->layout->text;
    a->size = a->layout->size;
    a->owner = NULL;
    a->free_owner = free_nothing;
    return NULL;
}

static pjrt_error *default_layout(void *args)
{
    pjrt_default_layout_args *a = args;
    if (a->num_dims > FLX_MAX_RANK)
        return flxi_pjrt_fail(PJRT_INVALID_ARGUMENT, "an array of rank %zu: at most %d", a->num_dims, FLX_MAX_RANK);
    a->layout = &by_rank[a->num_dims];
    return NULL;
}

static pjrt_error *buffer_layout(void *args)
{
    pjrt_object_args *a = args;
    a->result = &by_rank[((const pjrt_buffer *)a->handle)->rank];
    return NULL;
}

pjrt_error *flxi_pjrt_list_layouts(pjrt_executable *x, const pjrt_slot *slots, size_t n, int which)
{
    pjrt_layout_text **list = flxi_new(&x->arena, pjrt_layout_text *, n + 1);
    for (size_t i = 0; list && i < n; i++)
        list[i] = &by_rank[slots[i].rank];
    x->layouts[which] = list;
    return list ? NULL : flxi_pjrt_oom();
}

static pjrt_error *output_layouts(void *args)
{
    pjrt_layouts_args *a = args;
    a->count = a->executable->num_results;
    a->layouts = a->executable->layouts[1];
    return NULL;
}

static pjrt_error *parameter_layouts(void *args)
{
    pjrt_layouts_args *a = args;
    a->count = a->executable->num_args;
    a->layouts = a->executable->layouts[0];
    return NULL;
}

pjrt_layouts_extension flxi_pjrt_layouts_extension = {
    .struct_size = sizeof(pjrt_layouts_extension),
    .type = PJRT_EXTENSION_LAYOUTS,
    .next = &flxi_pjrt_shardings_extension,
    .destroy = destroy,
    .serialize = serialize,
    .client_default = default_layout,
    .buffer = buffer_layout,
    .topology_default = default_layout,
    .outputs = output_layouts,
    .parameters = parameter_layouts,
};
