/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_interpret.c: the reference interpreter: schedules invocations and implements barriers and subgroups.

   Some workgroups are resident at a time: one in schedules that run an invocation as far as it gets, more in schedules
   that switch between statements, so that workgroups are interleaved too, and all of them where a grid barrier needs
   it. A pass runs every ready lane of the resident workgroups until it waits. Then lanes whose wait is over are made
   ready: a subgroup op when no lane of its subgroup can come any closer, a barrier when all lanes that have not
   returned have reached it. When a pass changes nothing, all lanes are done, or they wait at different barriers.

   A kernel without barriers and subgroup ops, in a schedule that does not switch, needs only one lane. */
#include "kernel/interpret/kernel_machine.h"

#include "base/host/stop.h"
#include "base/number.h"
#include "kernel/program/kernel_scalar.h"

/* Lanes that take turns in schedules that switch between statements; more if a workgroup is larger. */
static const uint64_t mixed_lanes = 2048;
/* Limit for registers and memory of all resident lanes. */
static const size_t max_resident_bytes = (size_t)1 << 31;

typedef struct {
    flxi_kmachine m;
    flxi_arena arena;
    uint32_t size;       /* lanes of a workgroup */
    uint64_t num_groups; /* in the grid */
    uint64_t resident;   /* workgroups at a time */
    bool is_alone;       /* one lane serves all invocations of a workgroup */
    bool switches;       /* between statements */
    flxi_kgroup *groups; /* resident */
    flxi_klane *lanes;   /* of the resident workgroups, one after the other */
    flxi_klane **order;  /* order in which they run */
    size_t num_lanes;
    size_t lane_bytes, group_bytes, group_shadows; /* memory of one lane, one workgroup */
    uint64_t random;
    uint64_t next, stride; /* a shuffled schedule: the next workgroup, and the step to the one after it */
} run;

/* ---- Setting up ---- */

static uint64_t random_next(run *r)
{
    uint64_t z = (r->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* A step size coprime to the number of workgroups visits each of them once. */
static void start_shuffle(run *r)
{
    uint64_t n = r->num_groups;
    r->next = n ? random_next(r) % n : 0;
    r->stride = 1;
    if (n > 2)
        do
            r->stride = 1 + random_next(r) % (n - 1);
        while (flxi_common_divisor((int64_t)r->stride, (int64_t)n) != 1);
}

/* Elements are at multiples of 8 bytes. */
static bool reserve(size_t *total, size_t size, size_t *offset)
{
    *offset = *total;
    return flxi_add_size(*total, size, total) && flxi_add_size(*total, (0 - *total) % 8, total);
}

static bool place_buffer(run *r, uint32_t i, bool watch)
{
    const flxi_kbuffer *b = &r->m.d->kernel->buffers[i];
    flxi_kstore *s = &r->m.stores[i];
    s->space = KSPACE_BOUND;
    s->data = r->m.d->bound[i].data;
    s->count = r->m.d->bound[i].count;
    s->size = flxi_ktype_bytes(b->element, s->count);
    watch = watch && flxi_kcode_is_watched(b);
    if (b->access == FLX_KERNEL_PRIVATE) {
        s->space = KSPACE_LANE;
        return reserve(&r->lane_bytes, s->size, &s->offset);
    }
    if (b->access == FLX_KERNEL_WORKGROUP) {
        s->space = KSPACE_GROUP;
        s->shadow_offset = r->group_shadows;
        r->group_shadows += watch ? (size_t)s->count : 0;
        return reserve(&r->group_bytes, s->size, &s->offset);
    }
    if (watch)
        s->shadows = flxi_new(&r->arena, flxi_kshadow, s->count);
    return !watch || s->shadows;
}

static flx_code place_buffers(run *r)
{
    const flx_kernel *k = r->m.d->kernel;
    bool watch = r->m.d->options.flags & FLX_KERNEL_DETECT_RACES;
    r->m.stores = flxi_new(&r->arena, flxi_kstore, k->num_buffers + 1);
    bool fits = r->m.stores != NULL;
    for (uint32_t i = 1; fits && i <= k->num_buffers; i++)
        fits = place_buffer(r, i, watch);
    return fits ? FLX_OK : flxi_oom(r->m.err, "the buffers of a kernel");
}

/* How many workgroups and lanes are resident, and whether their state fits the limit. */
static flx_code choose_residents(run *r)
{
    bool waits = r->m.code.has_barrier || r->m.code.has_subgroup;
    uint64_t n = 1;
    r->is_alone = !waits && !r->switches;
    if (r->switches && mixed_lanes > r->size)
        n = mixed_lanes / r->size;
    if (r->m.code.has_grid_barrier || n > r->num_groups)
        n = r->num_groups;
    r->resident = n;
    size_t each =
        r->m.code.num_registers * sizeof(uint64_t) + r->lane_bytes + sizeof(flxi_klane) + sizeof(flxi_klane *);
    size_t lanes, bytes, groups;
    if (!flxi_mul_size((size_t)n, r->is_alone ? 1 : r->size, &lanes) || !flxi_mul_size(lanes, each, &bytes) ||
        !flxi_mul_size((size_t)n, sizeof(flxi_kgroup) + r->group_bytes + r->group_shadows * sizeof(flxi_kshadow),
                       &groups) ||
        !flxi_add_size(bytes, groups, &bytes) || bytes > max_resident_bytes)
        return flxi_fail_hint(r->m.err, FLX_E_SIZE, "use a smaller grid, less private memory, or fewer variables",
                              "kernel '%.60s': the state of %llu resident workgroups is too large",
                              r->m.d->kernel->name, (unsigned long long)n);
    r->num_lanes = lanes;
    return FLX_OK;
}

static flx_code make_lanes(run *r)
{
    uint32_t num_registers = r->m.code.num_registers;
    size_t n = r->num_lanes, groups = (size_t)r->resident;
    uint64_t *regs = flxi_new(&r->arena, uint64_t, n * num_registers);
    unsigned char *lane_memory = flxi_arena_alloc(&r->arena, n, r->lane_bytes, 8);
    unsigned char *group_memory = flxi_arena_alloc(&r->arena, groups, r->group_bytes, 8);
    flxi_kshadow *shadows = flxi_new(&r->arena, flxi_kshadow, groups * r->group_shadows);
    r->lanes = flxi_new(&r->arena, flxi_klane, n);
    r->order = flxi_new(&r->arena, flxi_klane *, n);
    r->groups = flxi_new(&r->arena, flxi_kgroup, groups);
    if (!regs || !lane_memory || !group_memory || !shadows || !r->lanes || !r->order || !r->groups)
        return flxi_oom(r->m.err, "the invocations of a kernel");
    for (size_t i = 0; i < groups; i++) {
        r->groups[i].memory = group_memory + i * r->group_bytes;
        r->groups[i].shadows = shadows + i * r->group_shadows;
    }
    for (size_t i = 0; i < n; i++) {
        flxi_klane *l = r->order[i] = &r->lanes[i];
        l->regs = regs + i * num_registers;
        l->memory = lane_memory + i * r->lane_bytes;
        for (size_t c = 0; c < r->m.code.constants.n; c++)
            l->regs[r->m.code.constants.at[c].reg] = r->m.code.constants.at[c].bits;
    }
    bool reverse = r->m.d->options.schedule == FLX_KERNEL_REVERSE && !r->is_alone;
    for (size_t i = 0; reverse && i < n; i++) /* in each workgroup: the workgroups are in reverse order already */
        r->order[i] = &r->lanes[i - i % r->size + (r->size - 1 - i % r->size)];
    return FLX_OK;
}

/* ---- Starting ---- */

static void start_lane(run *r, flxi_klane *l, flxi_kgroup *g, uint32_t local)
{
    const uint32_t *size = r->m.d->kernel->size;
    uint32_t rest = local;
    l->group = g;
    l->local = local;
    l->pc = 0;
    l->state = KLANE_READY;
    for (int a = 0; a < 3; a++) {
        uint32_t id = rest % size[a];
        rest /= size[a];
        l->regs[KREG_LOCAL + a] = id;
        l->regs[KREG_WORKGROUP + a] = g->id[a];
        l->regs[KREG_INVOCATION + a] = g->id[a] * size[a] + id;
    }
    l->regs[KREG_LANE] = local % r->m.d->options.subgroup_size;
    for (size_t i = 0; i < r->m.code.copies.n; i++)
        l->regs[r->m.code.copies.at[i].registers] = 0;
    memset(l->memory, 0, r->lane_bytes);
}

static void start_group(run *r, flxi_kgroup *g, uint64_t number)
{
    const uint32_t *grid = r->m.d->grid;
    g->number = number;
    g->interval = 0;
    for (int a = 0; a < 3; a++) {
        g->id[a] = (uint32_t)(number % grid[a]);
        number /= grid[a];
    }
    memset(g->memory, 0, r->group_bytes);
    if (r->group_shadows)
        memset(g->shadows, 0, r->group_shadows * sizeof *g->shadows);
}

/* The workgroup that follows `done` others. */
static uint64_t next_group(run *r, uint64_t done)
{
    switch (r->m.d->options.schedule) {
    case FLX_KERNEL_REVERSE: return r->num_groups - 1 - done;
    case FLX_KERNEL_SHUFFLED: {
        uint64_t number = r->next;
        uint64_t to_end = r->num_groups - r->next;
        r->next = r->stride < to_end ? r->next + r->stride : r->stride - to_end;
        return number;
    }
    default: return done;
    }
}

/* ---- Subgroups ---- */

/* Which of two lanes at subgroup ops comes earlier in program order: negative for the first. The outermost common loop
   in which their iterations differ decides, else the text. */
static int compare_progress(const flxi_kmachine *m, const flxi_klane *x, const flxi_klane *y)
{
    const flxi_kcode_loop *loops = m->code.loops.at;
    uint32_t a = m->code.instrs.at[x->pc].c, b = m->code.instrs.at[y->pc].c;
    int order = (x->pc > y->pc) - (x->pc < y->pc);
    while (loops[a].depth > loops[b].depth)
        a = loops[a].outer;
    while (loops[b].depth > loops[a].depth)
        b = loops[b].outer;
    while (a != b) {
        a = loops[a].outer;
        b = loops[b].outer;
    }
    for (; a; a = loops[a].outer) {
        uint64_t i = x->regs[loops[a].var] - x->regs[loops[a].begin];
        uint64_t j = y->regs[loops[a].var] - y->regs[loops[a].begin];
        if (i != j)
            order = i < j ? -1 : 1;
    }
    return order;
}

/* The result of the op for lane `lane`, among those in `active`. */
static uint64_t subgroup_result(const flxi_kinstr *i, const flxi_klane *lanes, uint32_t n, uint32_t active,
                                uint32_t lane)
{
    bool is_float = flxi_ktype_is_float(i->type);
    uint64_t from = lanes[lane].regs[i->b];
    /* -0 is the zero of floating addition: it keeps the sign of a sum of zeros. */
    uint64_t result = i->code == KI_SUBGROUP_ADD && is_float ? UINT64_C(1) << (flxi_ktype_of(i->type)->bits - 1) : 0;
    if (i->code == KI_SUBGROUP_SHUFFLE)
        return from < n && active >> from & 1 ? lanes[from].regs[i->a] : 0;
    for (uint32_t l = 0; l < n; l++) {
        if (!(active >> l & 1))
            continue;
        uint64_t x = lanes[l].regs[i->a];
        if (i->code == KI_SUBGROUP_BALLOT)
            result |= (uint64_t)(x != 0) << l;
        else
            result = flxi_kscalar_binary(KBIN_add, i->type, result, x);
    }
    return result;
}

/* The lanes that are farthest back, all at the same op in the same iterations, execute it together. */
static bool settle_subgroup(const flxi_kmachine *m, flxi_klane *lanes, uint32_t n)
{
    const flxi_klane *first = NULL;
    for (uint32_t l = 0; l < n; l++) {
        if (lanes[l].state == KLANE_READY)
            return false;
        if (lanes[l].state == KLANE_AT_SUBGROUP && (!first || compare_progress(m, &lanes[l], first) < 0))
            first = &lanes[l];
    }
    if (!first)
        return false;
    uint64_t results[32];
    uint32_t active = 0;
    const flxi_kinstr *i = &m->code.instrs.at[first->pc];
    for (uint32_t l = 0; l < n; l++)
        if (lanes[l].state == KLANE_AT_SUBGROUP && compare_progress(m, &lanes[l], first) == 0)
            active |= UINT32_C(1) << l;
    for (uint32_t l = 0; l < n; l++) /* the result may overwrite an operand: compute all, then write */
        if (active >> l & 1)
            results[l] = subgroup_result(i, lanes, n, active, l);
    for (uint32_t l = 0; l < n; l++)
        if (active >> l & 1) {
            lanes[l].regs[i->to] = results[l];
            lanes[l].pc++;
            lanes[l].state = KLANE_READY;
        }
    return true;
}

/* ---- Barriers ---- */

static flx_code fail_divergent(run *r, const flxi_klane *l, const flxi_klane *other)
{
    const flx_kernel *k = r->m.d->kernel;
    char path[48];
    const flxi_kcode *code = &r->m.code;
    const flxi_ks *s = code->statements.at[code->instrs.at[other->pc].statement];
    return flxi_kmachine_fail(
        &r->m, l, "divergent barrier", "let all invocations of a workgroup reach the same barriers",
        "in kernel '%.40s': others wait at %s", k->name, flxi_kcode_path(k, s, path, sizeof path));
}

/* None of `n` lanes is ready: passes a barrier in `state` if all that have not returned are at it. */
static flx_code pass_barrier(run *r, flxi_klane *lanes, size_t n, flxi_klane_state state, bool *passed)
{
    const flxi_klane *first = NULL;
    *passed = false;
    for (size_t i = 0; i < n; i++) {
        if (lanes[i].state == KLANE_DONE)
            continue;
        if (!first)
            first = &lanes[i];
        if (lanes[i].pc != first->pc)
            return fail_divergent(r, &lanes[i], first);
    }
    if (!first || first->state != state)
        return FLX_OK;
    for (size_t i = 0; i < n; i++)
        if (lanes[i].state != KLANE_DONE) {
            lanes[i].pc++;
            lanes[i].state = KLANE_READY;
        }
    *passed = true;
    return FLX_OK;
}

/* Makes lanes of the workgroup ready if what they wait for has happened. */
static flx_code settle_group(run *r, flxi_kgroup *g, flxi_klane *lanes, bool *changed)
{
    uint32_t width = r->m.d->options.subgroup_size;
    bool is_ready = false, passed;
    for (uint32_t l = 0; r->m.code.has_subgroup && l < r->size; l += width)
        is_ready |= settle_subgroup(&r->m, lanes + l, r->size - l < width ? r->size - l : width);
    for (uint32_t l = 0; l < r->size && !is_ready; l++)
        is_ready = lanes[l].state == KLANE_READY;
    if (!is_ready) {
        FLXI_TRY(pass_barrier(r, lanes, r->size, KLANE_AT_BARRIER, &passed));
        g->interval += passed;
        is_ready = passed;
    }
    *changed |= is_ready;
    return FLX_OK;
}

static flx_code settle_grid(run *r, size_t num_lanes, size_t num_groups, bool *changed)
{
    bool passed;
    FLXI_TRY(pass_barrier(r, r->lanes, num_lanes, KLANE_AT_GRID_BARRIER, &passed));
    if (passed) {
        r->m.epoch++;
        for (size_t i = 0; i < num_groups; i++)
            r->groups[i].interval++;
    }
    *changed = passed;
    return FLX_OK;
}

/* ---- Schedules ---- */

static void shuffle_order(run *r, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)(random_next(r) % i);
        flxi_klane *l = r->order[i - 1];
        r->order[i - 1] = r->order[j];
        r->order[j] = l;
    }
}

static flx_code run_pass(run *r, size_t num_lanes, bool *changed)
{
    bool shuffled = r->m.d->options.schedule == FLX_KERNEL_SHUFFLED;
    if (shuffled)
        shuffle_order(r, num_lanes);
    for (size_t i = 0; i < num_lanes; i++) {
        if (r->order[i]->state != KLANE_READY)
            continue;
        FLXI_TRY(flxi_kmachine_step(&r->m, r->order[i], shuffled ? 1 + (uint32_t)(random_next(r) % 8) : 1));
        *changed = true;
    }
    return FLX_OK;
}

/* Runs the next `n` workgroups at the same time. */
static flx_code run_residents(run *r, uint64_t done, size_t n)
{
    size_t num_lanes = n * r->size;
    for (size_t g = 0; g < n; g++) {
        start_group(r, &r->groups[g], next_group(r, done + g));
        for (uint32_t l = 0; l < r->size; l++)
            start_lane(r, &r->lanes[g * r->size + l], &r->groups[g], l);
    }
    for (size_t i = 0; n < r->resident && i < num_lanes; i++)
        r->order[i] = &r->lanes[i]; /* the last round of a mixed schedule has fewer */
    for (bool changed = true; changed;) {
        changed = false;
        FLXI_TRY(run_pass(r, num_lanes, &changed));
        for (size_t g = 0; g < n; g++)
            FLXI_TRY(settle_group(r, &r->groups[g], &r->lanes[g * r->size], &changed));
        if (!changed)
            FLXI_TRY(settle_grid(r, num_lanes, n, &changed));
    }
    return FLX_OK;
}

static flx_code run_alone(run *r, uint64_t done)
{
    flxi_klane *lane = &r->lanes[0];
    bool reverse = r->m.d->options.schedule == FLX_KERNEL_REVERSE;
    start_group(r, &r->groups[0], next_group(r, done));
    for (uint32_t i = 0; i < r->size; i++) {
        start_lane(r, lane, &r->groups[0], reverse ? r->size - 1 - i : i);
        FLXI_TRY(flxi_kmachine_step(&r->m, lane, 1));
    }
    return FLX_OK;
}

static flx_code run_groups(run *r)
{
    for (uint64_t done = 0; done < r->num_groups;) {
        FLXI_TRY(flxi_stop_check(r->m.err));
        uint64_t left = r->num_groups - done;
        uint64_t n = r->resident < left ? r->resident : left;
        if (r->is_alone)
            FLXI_TRY(run_alone(r, done));
        else
            FLXI_TRY(run_residents(r, done, (size_t)n));
        done += n;
    }
    return FLX_OK;
}

/* ---- The whole ---- */

static flx_code count_groups(run *r)
{
    const uint32_t *grid = r->m.d->grid;
    uint64_t invocations, most = r->m.d->options.flags & FLX_KERNEL_DETECT_RACES ? UINT32_MAX : UINT64_MAX;
    r->num_groups = (uint64_t)grid[0] * grid[1];
    if (__builtin_mul_overflow(r->num_groups, grid[2], &r->num_groups) ||
        __builtin_mul_overflow(r->num_groups, r->size, &invocations) || invocations >= most)
        return flxi_fail_hint(r->m.err, FLX_E_SIZE, "split it into several dispatches",
                              "a grid of [%u, %u, %u] workgroups is too large for the interpreter", grid[0], grid[1],
                              grid[2]);
    return FLX_OK;
}

static flx_code run_code(run *r)
{
    bool watch = r->m.d->options.flags & FLX_KERNEL_DETECT_RACES;
    FLXI_TRY(place_buffers(r));
    FLXI_TRY(choose_residents(r));
    FLXI_TRY(make_lanes(r));
    start_shuffle(r);
    if (watch)
        FLXI_TRY(flxi_krace_check_distinct(r->m.d, false, r->m.err));
    FLXI_TRY(run_groups(r));
    if (watch)
        FLXI_TRY(flxi_krace_check_distinct(r->m.d, true, r->m.err));
    return r->m.indirect ? flxi_kernel_report_stage(r->m.d, r->m.indirect, r->m.err) : FLX_OK;
}

flx_code flxi_kernel_interpret(const flxi_kdispatch *d, flx_error *err)
{
    run r = {.m = {.d = d, .err = err}, .size = flxi_kernel_workgroup(d->kernel), .random = d->options.seed};
    uint32_t schedule = d->options.schedule;
    uint64_t budget = d->options.max_steps;
    r.m.steps_left = budget < INT64_MAX ? (int64_t)budget : INT64_MAX;
    r.switches = schedule == FLX_KERNEL_INTERLEAVED || schedule == FLX_KERNEL_SHUFFLED;
    unsigned flags = (r.switches ? KCODE_TURNS : 0) | (d->options.flags & FLX_KERNEL_CHECKED ? KCODE_CHECKED : 0) |
                     (d->options.flags & FLX_KERNEL_DETECT_RACES ? KCODE_WATCHED : 0);
    FLXI_TRY(count_groups(&r));
    if (r.num_groups == 0)
        return FLX_OK;
    flxi_arena_init(&r.arena, flxi_kernel_mem(d->kernel));
    flx_code code = flxi_kcode_make(&r.m.code, d, flags, err);
    if (code == FLX_OK)
        code = run_code(&r);
    flxi_kcode_free(&r.m.code);
    flxi_arena_free(&r.arena);
    return code;
}
