/* SPDX-License-Identifier: Apache-2.0 */
/* custom_kernel_batch.c: batching of kernel_call: the kernel itself is made to run all examples, side by side along an
   axis of the grid. */
#include "kernel/derive/kernel_batch.h"
#include "ops/custom/custom_kernel.h"

typedef struct {
    flxi_site *s;
    const flxi_kernel_call *a;
    flxi_kernel_binding m;
    uint8_t *batched; /* by buffer of the kernel */
    uint32_t axis;
    uint32_t groups; /* along it, of one example; 0: not known */
    uint64_t size;   /* 0: not known */
} batching;

static bool is_written(const flxi_kbuffer *b)
{
    return b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_READ_WRITE;
}

static flx_dim extent(const flxi_kernel_call *a, uint32_t axis)
{
    return axis < a->grid.n ? a->grid.v[axis] : 1;
}

/* The examples run along the last axis that one example does not use, else along one whose extent is known; where no
   extent is known, the number of examples must be. */
static bool choose_axis(batching *b)
{
    flx_dim size = b->s->size;
    b->size = flx_dim_is_static(size) && size > 0 && size <= UINT32_MAX ? (uint64_t)size : 0;
    uint32_t known = 3;
    for (uint32_t axis = 3; axis-- > 0;) {
        flx_dim n = extent(b->a, axis);
        if (n == 1) {
            b->axis = axis;
            b->groups = 1;
            return true;
        }
        if (known == 3 && flx_dim_is_static(n) && n > 0 && n <= UINT32_MAX)
            known = axis;
    }
    b->axis = known < 3 ? known : 2;
    b->groups = known < 3 ? (uint32_t)extent(b->a, known) : 0;
    return b->groups || b->size;
}

/* Which buffers hold all examples. A user's own reverse kernel returns a gradient per example, so with one every
   operand is batched, and the sum over examples for a shared operand comes from its expansion. */
static bool choose_buffers(batching *b)
{
    const flx_kernel *k = b->m.k;
    b->batched = flxi_rule_new(b->s, uint8_t, k->num_buffers + 1);
    for (uint32_t i = 1; b->batched && i <= k->num_buffers; i++) {
        uint32_t in = flxi_kernel_call_input(&b->m, i);
        bool needs = is_written(&k->buffers[i]) || b->a->backward[0] || (in != UINT32_MAX && b->s->batched[in]);
        b->batched[i] = flxi_kbuffer_is_bound(&k->buffers[i]) && needs;
    }
    return b->batched != NULL;
}

/* The text of k for all examples, kept with the graph; NULL where k cannot be batched, or after an error. */
static const char *batch_text(batching *b, const flx_kernel *k, const uint8_t *batched)
{
    flx_error err = {0};
    flx_buffer text = {0};
    char *kept = NULL;
    flx_kernel *plain = flxi_kernel_batch(k, &(flxi_kbatch){batched, b->axis, b->groups, b->size}, &err);
    flx_kernel *many =
        plain ? flx_kernel_optimise(plain, NULL, &err) : NULL; /* simplifying removes most guards of indices */
    if (many && flx_kernel_print(many, &text, &err) == FLX_OK && (kept = flxi_rule_new(b->s, char, text.size + 1)))
        memcpy(kept, text.data, text.size);
    if (err.code == FLX_E_OOM)
        flxi_site_fail(b->s, FLX_E_OOM, NULL, "%.120s", err.message);
    flx_buffer_free(&text);
    flx_kernel_release(many);
    flx_kernel_release(plain);
    return kept;
}

static const char *batch_backward(batching *b)
{
    flx_error err = {0};
    flx_kernel *k = flx_kernel_parse(b->s->ctx, b->a->backward, strlen(b->a->backward), "backward", &err);
    const char *text = NULL;
    uint8_t *batched = k ? flxi_rule_new(b->s, uint8_t, k->num_buffers + 1) : NULL;
    for (uint32_t i = 1; batched && i <= k->num_buffers; i++)
        batched[i] = flxi_kbuffer_is_bound(&k->buffers[i]);
    if (batched)
        text = batch_text(b, k, batched);
    if (!k)
        flxi_site_fail(b->s, (flx_code)err.code, err.hint, "backward: %.160s", err.message);
    flx_kernel_release(k);
    return text;
}

static flx_types result_types(batching *b)
{
    size_t n = b->m.num_outputs;
    flx_type *types = flxi_rule_new(b->s, flx_type, n + 1);
    for (size_t i = 0; types && i < n; i++) {
        flx_type one = flxi_kernel_call_type(&b->m, b->a, i);
        if (one.rank == FLX_MAX_RANK)
            return (flx_types){NULL, 0};
        types[i] = one;
        types[i].rank = one.rank + 1;
        types[i].dims[0] = b->s->size;
        memcpy(types[i].dims + 1, one.dims, (size_t)one.rank * sizeof *one.dims);
    }
    return (flx_types){types, types ? n : 0};
}

static flx_ints whole_grid(batching *b)
{
    int64_t *grid = flxi_rule_new(b->s, int64_t, 3);
    for (uint32_t i = 0; grid && i < 3; i++)
        grid[i] = i == b->axis ? flx_dim_mul(b->s->ctx, extent(b->a, i), b->s->size) : extent(b->a, i);
    return (flx_ints){grid, grid ? 3 : 0};
}

/* A call without lists of buffers needs none now either: their order is the same. */
static void append_call(batching *b, flx_val *by)
{
    flxi_site *s = b->s;
    flxi_kernel_call *a = flxi_site_attrs(s);
    flx_val *x = flxi_rule_new(s, flx_val, s->nin + 1);
    if (!a || !x || !choose_buffers(b))
        return;
    const char *kernel = batch_text(b, b->m.k, b->batched);
    const char *backward = kernel && a->backward[0] ? batch_backward(b) : "";
    flx_types types = result_types(b);
    flx_ints grid = whole_grid(b);
    if (!kernel || !backward || !types.n || !grid.n)
        return;
    a->kernel = kernel;
    a->backward = backward;
    a->outputs = types;
    a->grid = grid;
    for (uint32_t i = 0; i < s->nin; i++)
        x[i] = b->batched[b->m.inputs[i]] ? flxi_lift(s, i) : s->x[i];
    flxi_append(s, a, x, s->nin, by);
}

void flxi_kernel_call_batch(flxi_site *s, flx_val *by)
{
    batching b = {.s = s, .a = s->attrs};
    if (b.a->scratch[0]) /* its length depends on the example */
        return;
    if (!flxi_kernel_call_bind_site(s, b.a, &b.m))
        return;
    if (choose_axis(&b))
        append_call(&b, by);
    flx_kernel_release(b.m.k);
}
