/* SPDX-License-Identifier: Apache-2.0 */
/* step_order.c: see step_order.h. Each step is compared with all before it, the nearest first, except those that it
   waits for already because another one does. */
#include "runtime/step_order.h"

enum { MOST_STEPS = 2048 }; /* the time grows with the square */

/* Memory that a step touches. */
typedef struct {
    uintptr_t begin, end;
    bool is_written;
} reach;

typedef struct {
    const flxi_routine *l;
    const flxi_allocator *mem;
    FLXI_VEC(reach) reaches;
    FLXI_VEC(uint32_t) after;
    uint32_t *first_reach;
    uint64_t *before; /* by step: a bit for each step that has ended when it begins */
    size_t words;     /* of one step */
    uint32_t from;
} ordering;

static flx_code add_reach(ordering *o, const void *at, size_t nbytes, bool is_written, flx_error *err)
{
    const reach r = {(uintptr_t)at, (uintptr_t)at + nbytes, is_written};
    return !nbytes || flxi_push(o->mem, &o->reaches, r) ? FLX_OK : flxi_oom(err, "the order of steps");
}

static flx_code add_reaches(ordering *o, const flxi_step *s, void *const *at, const unsigned char *base, flx_error *err)
{
    for (uint32_t k = 0; k < s->num_slots; k++) {
        uint32_t slot = s->slots[k];
        FLXI_TRY(add_reach(o, at[slot], o->l->slots[slot].nbytes, flxi_step_writes(o->l->program, s, k), err));
    }
    return add_reach(o, base + s->scratch_offset, s->scratch, true, err);
}

/* The device may do anything for steps of other kinds: nothing runs beside them. */
static bool is_alone(const flxi_step *s)
{
    return s->num_bodies || (s->kind != STEP_KERNEL && s->kind != STEP_ROUTE && s->kind != STEP_COPY);
}

static bool touch(const ordering *o, uint32_t i, uint32_t j)
{
    const reach *at = o->reaches.at;
    for (uint32_t x = o->first_reach[i]; x < o->first_reach[i + 1]; x++)
        for (uint32_t y = o->first_reach[j]; y < o->first_reach[j + 1]; y++)
            if ((at[x].is_written || at[y].is_written) && at[x].begin < at[y].end && at[y].begin < at[x].end)
                return true;
    return false;
}

static flx_code order_step(ordering *o, uint32_t i, flx_error *err)
{
    const flxi_step *steps = o->l->steps + o->from;
    uint64_t *own = o->before + i * o->words;
    for (uint32_t j = i; j-- > 0;) {
        if (own[j / 64] >> (j % 64) & 1 || (!is_alone(&steps[i]) && !is_alone(&steps[j]) && !touch(o, i, j)))
            continue;
        if (!flxi_push(o->mem, &o->after, j))
            return flxi_oom(err, "the order of steps");
        for (size_t w = 0; w < o->words; w++)
            own[w] |= o->before[j * o->words + w];
        own[j / 64] |= UINT64_C(1) << (j % 64);
    }
    return FLX_OK;
}

static flx_code order_steps(ordering *o, void *const *at, const unsigned char *base, flxi_step_order *out,
                            flx_error *err)
{
    for (uint32_t i = 0; i < out->n; i++) {
        o->first_reach[i] = (uint32_t)o->reaches.n;
        FLXI_TRY(add_reaches(o, &o->l->steps[o->from + i], at, base, err));
    }
    o->first_reach[out->n] = (uint32_t)o->reaches.n;
    for (uint32_t i = 0; i < out->n; i++) {
        out->first[i] = (uint32_t)o->after.n;
        FLXI_TRY(order_step(o, i, err));
    }
    out->first[out->n] = (uint32_t)o->after.n;
    return FLX_OK;
}

/* The list as an array of its own. */
static flx_code keep_list(const ordering *o, flxi_step_order *out, flx_error *err)
{
    out->num_after = o->after.n;
    out->after = flxi_alloc(o->mem, o->after.n + 1, sizeof *out->after);
    if (!out->after)
        return flxi_oom(err, "the order of steps");
    if (o->after.n)
        memcpy(out->after, o->after.at, o->after.n * sizeof *out->after);
    return FLX_OK;
}

flx_code flxi_step_order_make(const flxi_routine *l, void *const *at, const unsigned char *base, uint32_t from,
                              uint32_t to, const flxi_allocator *mem, flxi_step_order *out, flx_error *err)
{
    size_t n = to - from, words = (n + 63) / 64;
    ordering o = {.l = l, .mem = mem, .words = words, .from = from};
    *out = (flxi_step_order){.from = from};
    if (n == 0 || n > MOST_STEPS)
        return FLX_OK;
    out->n = (uint32_t)n;
    out->first = flxi_alloc(mem, n + 1, sizeof *out->first);
    o.first_reach = flxi_alloc(mem, n + 1, sizeof *o.first_reach);
    o.before = flxi_alloc(mem, n * words, sizeof *o.before);
    bool ok = out->first && o.first_reach && o.before;
    flx_code code = ok ? order_steps(&o, at, base, out, err) : flxi_oom(err, "the order of steps");
    if (code == FLX_OK)
        code = keep_list(&o, out, err);
    if (o.first_reach)
        flxi_free(mem, o.first_reach, n + 1, sizeof *o.first_reach);
    if (o.before)
        flxi_free(mem, o.before, n * words, sizeof *o.before);
    flxi_vec_free(mem, &o.reaches);
    flxi_vec_free(mem, &o.after);
    if (code != FLX_OK)
        flxi_step_order_free(out, mem);
    return code;
}

void flxi_step_order_free(flxi_step_order *o, const flxi_allocator *mem)
{
    if (o->first)
        flxi_free(mem, o->first, o->n + 1, sizeof *o->first);
    if (o->after)
        flxi_free(mem, o->after, o->num_after + 1, sizeof *o->after);
    *o = (flxi_step_order){0};
}
