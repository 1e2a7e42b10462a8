/* SPDX-License-Identifier: Apache-2.0 */
/* symbolic_plan.c: the arenas of all samples, laid out in the same way. Values share a buffer when they are not needed
   at the same time and one is the larger for all extents. Sizes are rounded up to polynomials whose coefficients are
   multiples of 16, so that every offset is a polynomial and every buffer is aligned for every extent. */
#include "ops/control/control.h"
#include "standalone/symbolic/symbolic.h"

typedef struct {
    flxi_sa_poly size;
    uint32_t last; /* the last step that needs it */
    size_t offset[FLXI_SA_MAX_SAMPLES];
} pool;

typedef struct {
    flxi_sa_model *const *models;
    const flxi_sa_points *p;
    flxi_routine *l[FLXI_SA_MAX_SAMPLES]; /* the routine of each sample */
    bool **planned;                       /* by sample: by number of the routine */
    FLXI_VEC(pool) pools;
    const flxi_allocator *mem;
    flx_error *err;
} planner;

static flx_code differ(planner *x, const flxi_step *s)
{
    const flxi_routine *l = x->l[0];
    flxi_fail(x->err, FLX_E_UNSUPPORTED, "%.100s has other steps for other extents of '%.60s'",
              s && s->computes ? s->computes : "the graph", x->p->names[0]);
    flxi_hint(x->err, "give the extent: --set %.60s=INT (flx_build_options.dims)", x->p->names[0]);
    if (s)
        flxi_at_node(x->err, l->g, flxi_node_at(l->g, s->node));
    return FLX_E_UNSUPPORTED;
}

/* ---- Pools ---- */

/* Whether a is at least b for all extents but 0: every coefficient but the constant is, and so is the sum of all,
   which is the value for extents of 1. */
static bool is_larger(const flxi_sa_poly *a, const flxi_sa_poly *b)
{
    int64_t sum = a->c[0] - b->c[0];
    for (size_t t = 1; t < FLXI_SA_MAX_TERMS; t++) {
        if (a->c[t] < b->c[t])
            return false;
        sum += a->c[t] - b->c[t];
    }
    return sum >= 0;
}

/* A pool for something that steps from … to need. */
static flx_code take(planner *x, flxi_sa_poly size, uint32_t from, uint32_t to, size_t *number)
{
    for (*number = 0; *number < x->pools.n; ++*number) {
        pool *q = &x->pools.at[*number];
        bool grows = is_larger(&size, &q->size);
        if (q->last >= from || (!grows && !is_larger(&q->size, &size)))
            continue;
        q->size = grows ? size : q->size;
        q->last = to;
        return FLX_OK;
    }
    pool q = {.size = size, .last = to};
    return flxi_push(x->mem, &x->pools, q) ? FLX_OK : flxi_oom(x->err, "C text");
}

/* Writers find the room of a size by the size itself. */
static flx_code keep(planner *x, const int64_t *bytes, const flxi_sa_poly *room, bool is_body)
{
    for (size_t i = 0; i < x->p->n; i++) {
        flxi_sa_file *f = &x->models[i]->f;
        int64_t value = 0;
        bool is_known = false;
        flxi_sa_poly_at(x->p, room, x->p->at[i], &value);
        const flxi_sa_pad pad = {(size_t)bytes[i], (size_t)value, is_body};
        for (size_t k = 0; k < f->pads.n; k++)
            is_known |= f->pads.at[k].bytes == pad.bytes && f->pads.at[k].padded == pad.padded &&
                        f->pads.at[k].is_body == is_body;
        if (!is_known && !flxi_push(f->mem, &f->pads, pad))
            return flxi_oom(x->err, "C text");
    }
    return FLX_OK;
}

/* The padded polynomial of sizes. */
static flx_code padded(planner *x, const int64_t *bytes, const flxi_step *s, flxi_sa_poly *out)
{
    if (!flxi_sa_fit(x->p, bytes, out))
        return differ(x, s);
    *out = flxi_sa_poly_padded(*out);
    return keep(x, bytes, out, false);
}

/* ---- Scratch ---- */

static flx_code plan_routine(planner *outer, flxi_routine *const *l);

/* The bodies of a step share memory, which is large enough for each of them whatever the extents. */
static flx_code body_room(planner *x, uint32_t step, flxi_sa_poly *out)
{
    int64_t most[FLXI_SA_MAX_SAMPLES] = {0}, bytes[FLXI_SA_MAX_SAMPLES];
    const flxi_step *s = &x->l[0]->steps[step];
    *out = (flxi_sa_poly){0};
    for (uint32_t k = 0; k < s->num_bodies; k++) {
        flxi_sa_poly one;
        for (size_t i = 0; i < x->p->n; i++) {
            bytes[i] = (int64_t)x->l[i]->steps[step].bodies[k]->arena_bytes;
            most[i] = bytes[i] > most[i] ? bytes[i] : most[i];
        }
        if (!flxi_sa_fit(x->p, bytes, &one))
            return differ(x, s);
        flxi_sa_poly_raise(out, &one);
    }
    return keep(x, most, out, true);
}

static uint32_t carries_of(const flxi_routine *l, const flxi_step *s)
{
    if (s->kind == STEP_WHILE)
        return s->num_reads;
    return s->kind == STEP_SCAN ? (uint32_t)flxi_scan_attrs(flxi_node_at(l->g, s->node))->num_carry : 0;
}

/* What the step needs of its own, without bodies and carries. */
static size_t own_bytes(const flxi_program *m, const flxi_step *s)
{
    switch (s->kind) {
    case STEP_KERNEL: return m->compiled ? m->compiled[s->kernel].scratch : 0;
    case STEP_DISPATCH: return (m->compiled ? (m->compiled[s->kernel].scratch + 63) / 64 * 64 : 0) + s->call->own_bytes;
    case STEP_ROUTE: {
        const flxi_sa_part *part = s->way->code;
        return part->scratch ? part->scratch(s->described) : 0;
    }
    case STEP_WHILE: return 64; /* what the condition says */
    default: return 0;
    }
}

/* Whether each thread has that memory for itself. */
static bool is_by_threads(const flxi_sa_file *f, const flxi_step *s)
{
    return s->kind == STEP_ROUTE && flxi_sa_cuts_in(f, s->way->code, s->described).units > 1;
}

static void add_poly(flxi_sa_poly *to, const flxi_sa_poly *by, int64_t times)
{
    for (size_t t = 0; t < FLXI_SA_MAX_TERMS; t++)
        to->c[t] += times * by->c[t];
}

static flx_code scratch_of(planner *x, uint32_t step, flxi_sa_poly *out)
{
    int64_t bytes[FLXI_SA_MAX_SAMPLES];
    const flxi_step *s = &x->l[0]->steps[step];
    flxi_sa_poly part;
    for (uint32_t k = 0; k < s->num_bodies; k++) {
        flxi_routine *bodies[FLXI_SA_MAX_SAMPLES];
        for (size_t i = 0; i < x->p->n; i++)
            bodies[i] = x->l[i]->steps[step].bodies[k];
        FLXI_TRY(plan_routine(x, bodies));
    }
    for (size_t i = 0; i < x->p->n; i++)
        bytes[i] = (int64_t)own_bytes(x->l[i]->program, &x->l[i]->steps[step]);
    FLXI_TRY(padded(x, bytes, s, out));
    if (is_by_threads(&x->models[0]->f, s)) {
        part = *out;
        add_poly(out, &part, FLXI_SA_MAX_THREADS - 1);
    }
    FLXI_TRY(body_room(x, step, &part));
    add_poly(out, &part, 1);
    for (uint32_t k = 0; k < carries_of(x->l[0], s); k++) {
        for (size_t i = 0; i < x->p->n; i++)
            bytes[i] = (int64_t)x->l[i]->slots[x->l[i]->steps[step].slots[k]].nbytes;
        FLXI_TRY(padded(x, bytes, s, &part));
        add_poly(out, &part, 2);
    }
    return FLX_OK;
}

/* ---- Routines ---- */

static uint32_t owner_of(const flxi_routine *l, uint32_t slot)
{
    while (l->slots[slot].taken_over)
        slot = l->slots[slot].taken_over - 1;
    return slot;
}

/* The same slots and steps, at the same times. */
static flx_code compare(planner *x)
{
    const flxi_routine *a = x->l[0];
    for (size_t i = 1; i < x->p->n; i++) {
        const flxi_routine *b = x->l[i];
        if (a->num_slots != b->num_slots || a->num_steps != b->num_steps)
            return differ(x, NULL);
        for (uint32_t k = 0; k < a->num_slots; k++)
            if (a->slots[k].segment != b->slots[k].segment || a->slots[k].from != b->slots[k].from ||
                a->slots[k].to != b->slots[k].to || a->slots[k].taken_over != b->slots[k].taken_over)
                return differ(x, a->num_steps ? &a->steps[a->slots[k].from] : NULL);
        for (uint32_t k = 0; k < a->num_steps; k++)
            if (a->steps[k].kind != b->steps[k].kind || a->steps[k].num_bodies != b->steps[k].num_bodies)
                return differ(x, &a->steps[k]);
    }
    return FLX_OK;
}

/* Slots in the order of the steps that write them, each before the scratch of the step. */
static flx_code place_slots(planner *x, uint32_t step, size_t *pool_of)
{
    const flxi_routine *a = x->l[0];
    for (uint32_t k = 0; k < a->num_slots; k++) {
        int64_t bytes[FLXI_SA_MAX_SAMPLES];
        flxi_sa_poly size;
        uint32_t to = a->slots[k].to;
        if (a->slots[k].segment != SEGMENT_ARENA || owner_of(a, k) != k || a->slots[k].from != step)
            continue;
        for (uint32_t j = 0; j < a->num_slots; j++)
            if (a->slots[j].segment == SEGMENT_ARENA && owner_of(a, j) == k && a->slots[j].to > to)
                to = a->slots[j].to;
        for (size_t i = 0; i < x->p->n; i++)
            bytes[i] = (int64_t)x->l[i]->slots[k].nbytes;
        FLXI_TRY(padded(x, bytes, &a->steps[step], &size));
        FLXI_TRY(take(x, size, step, to, &pool_of[k]));
    }
    return FLX_OK;
}

/* Offsets of pools, which are multiples of 16, and of everything in them. */
static void set_offsets(planner *x, const size_t *pool_of, const size_t *scratch_pool)
{
    for (size_t i = 0; i < x->p->n; i++) {
        flxi_routine *l = x->l[i];
        size_t at = 0;
        for (size_t q = 0; q < x->pools.n; q++) {
            int64_t size = 0;
            flxi_sa_poly_at(x->p, &x->pools.at[q].size, x->p->at[i], &size);
            x->pools.at[q].offset[i] = at;
            at += (size_t)size;
        }
        for (uint32_t k = 0; k < l->num_slots; k++)
            if (l->slots[k].segment == SEGMENT_ARENA)
                l->slots[k].offset = x->pools.at[pool_of[owner_of(l, k)]].offset[i];
        for (uint32_t s = 0; s < l->num_steps; s++)
            l->steps[s].scratch_offset = scratch_pool[s] ? x->pools.at[scratch_pool[s] - 1].offset[i] : 0;
        l->arena_bytes = at;
    }
}

static bool is_zero(const flxi_sa_poly *f)
{
    for (size_t t = 0; t < FLXI_SA_MAX_TERMS; t++)
        if (f->c[t])
            return false;
    return true;
}

static flx_code place_all(planner *x)
{
    const flxi_routine *a = x->l[0];
    flxi_arena *arena = &x->models[0]->f.arena;
    size_t *pool_of = flxi_new(arena, size_t, a->num_slots + 1), *scratch = flxi_new(arena, size_t, a->num_steps + 1);
    if (!pool_of || !scratch)
        return flxi_oom(x->err, "C text");
    for (uint32_t s = 0; s < a->num_steps; s++) {
        flxi_sa_poly size;
        FLXI_TRY(place_slots(x, s, pool_of));
        FLXI_TRY(scratch_of(x, s, &size));
        if (is_zero(&size))
            continue;
        FLXI_TRY(take(x, size, s, s, &scratch[s]));
        scratch[s]++;
    }
    set_offsets(x, pool_of, scratch);
    return FLX_OK;
}

static flx_code plan_routine(planner *outer, flxi_routine *const *l)
{
    planner x = *outer;
    if (x.planned[0][l[0]->number])
        return FLX_OK;
    memset(&x.pools, 0, sizeof x.pools);
    for (size_t i = 0; i < x.p->n; i++) {
        x.l[i] = l[i];
        x.planned[0][l[0]->number] = true;
    }
    flx_code code = compare(&x);
    if (code == FLX_OK)
        code = place_all(&x);
    flxi_vec_free(x.mem, &x.pools);
    return code;
}

flx_code flxi_sa_plan_together(flxi_sa_model *const *models, const flxi_sa_points *p, flx_error *err)
{
    planner x = {.models = models, .p = p, .mem = models[0]->f.mem, .err = err};
    for (size_t k = 0; k < models[0]->num_functions; k++) {
        flxi_routine *l[FLXI_SA_MAX_SAMPLES];
        bool *planned = flxi_new(&models[0]->f.arena, bool, models[0]->functions[k].program.num_routines + 1);
        if (!planned)
            return flxi_oom(err, "C text");
        x.planned = &planned;
        for (size_t i = 0; i < p->n; i++)
            l[i] = x.l[i] = models[i]->functions[k].program.main;
        FLXI_TRY(plan_routine(&x, l));
    }
    return FLX_OK;
}
