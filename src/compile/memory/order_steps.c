/* SPDX-License-Identifier: Apache-2.0 */
/* order_steps.c: an order of the steps that needs less memory than that of the groups.

   A step whose results are larger than its operands, such as a cast of a weight, which is there anyway, runs right
   before the first step that reads a result: until then its operands take less memory. But a step that is the last to
   read something may run as soon as its operands are there, although its own result is wanted much later: in a training
   step, gradients of weights end the life of what the forward pass left for them. Whether that pays depends on the
   graph, so several orders are tried, and that with the lowest peak is taken. Steps with effects keep their order. */
#include "compile/program.h"

/* With less memory there is little to gain: other orders are not even looked at. */
static const size_t min_peak = 32 << 20;

/* Readers of one slot that may run early because it changes. */
enum { MOST_READERS = 16 };

/* Steps that wait for a reader and read what others like them compute: chains of them are no longer than this. */
enum { MOST_LATE = 4 };

typedef struct {
    const flxi_routine *l;
    const flxi_program *m;
    const flxi_allocator *mem;
    uint32_t *first, *readers; /* by slot: where its readers begin in the list of all */
    uint32_t *writer;          /* by slot: its step + 1; 0: it is there before the run */
    uint8_t *late;             /* by step: its position in a chain of steps that wait for readers; 0: it does not */
    bool *is_tied;             /* by step: it keeps its order among those that are */
    uint32_t *left;            /* by slot: readers that have not run */
    bool *is_there, *has_run;  /* by slot; by step */
    uint32_t *order, n;        /* steps that ran */
    size_t live, peak;         /* bytes */
    bool waits;                /* steps that are better late are */
    size_t share;              /* a route runs early if this many times what it frees is what it needs; 0: none does */
    FLXI_VEC(uint32_t) waiting;
    bool lacks_memory;
} schedule;

static size_t bytes_of(const schedule *x, uint32_t slot)
{
    const flxi_slot *s = &x->l->slots[slot];
    return s->segment == SEGMENT_ARENA ? (s->nbytes + 63) / 64 * 64 : 0;
}

/* Whether the k-th slot of the step is read, and was not met before. */
static bool reads_first(const schedule *x, const flxi_step *s, uint32_t k)
{
    for (uint32_t j = 0; j < k; j++)
        if (s->slots[j] == s->slots[k])
            return false;
    return !flxi_step_writes(x->m, s, k);
}

/* ---- What is known before ---- */

static bool has_effect(const flxi_routine *l, const flxi_step *s)
{
    bool has = s->kind == STEP_COPY || flxi_has_effect(flxi_node_at(l->g, s->node));
    for (uint32_t k = 0; k < s->num_nodes; k++)
        has |= flxi_has_effect(flxi_node_at(l->g, s->nodes[k]));
    return has;
}

/* Whether it is better to have the operands of the step in memory than what it computes, which others read. */
static bool waits_for_reader(const schedule *x, const flxi_step *s)
{
    size_t in = 0, out = 0;
    for (uint32_t k = 0; k < s->num_slots; k++) {
        uint32_t slot = s->slots[k];
        bool is_read = x->first[slot] < x->first[slot + 1];
        if (flxi_step_writes(x->m, s, k) && !is_read)
            return false;
        if (flxi_step_writes(x->m, s, k))
            out += bytes_of(x, slot);
        else if (reads_first(x, s, k))
            in += bytes_of(x, slot);
    }
    return (s->kind == STEP_KERNEL || s->kind == STEP_ROUTE) && in < out;
}

/* The position of the step in a chain of such steps; 0: it does not wait. */
static uint8_t late_position(const schedule *x, const flxi_step *s)
{
    uint8_t longest = 0;
    if (has_effect(x->l, s) || !waits_for_reader(x, s))
        return 0;
    for (uint32_t k = 0; k < s->num_slots; k++) {
        uint32_t writer = x->writer[s->slots[k]];
        if (!flxi_step_writes(x->m, s, k) && writer && x->late[writer - 1] > longest)
            longest = x->late[writer - 1];
    }
    return longest < MOST_LATE ? longest + 1 : 0;
}

static void list_readers(schedule *x)
{
    const flxi_routine *l = x->l;
    uint32_t *fill = x->left; /* until a schedule begins */
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < l->num_steps; i++)
            for (uint32_t k = 0; k < l->steps[i].num_slots; k++) {
                uint32_t slot = l->steps[i].slots[k];
                if (flxi_step_writes(x->m, &l->steps[i], k))
                    x->writer[slot] = i + 1;
                else if (reads_first(x, &l->steps[i], k) && pass == 0)
                    x->first[slot + 1]++;
                else if (reads_first(x, &l->steps[i], k))
                    x->readers[x->first[slot] + fill[slot]++] = i;
            }
        for (uint32_t i = 0; pass == 0 && i < l->num_slots; i++)
            x->first[i + 1] += x->first[i];
    }
    for (uint32_t i = 0; i < l->num_steps; i++) {
        x->is_tied[i] = has_effect(l, &l->steps[i]);
        x->late[i] = late_position(x, &l->steps[i]);
    }
}

/* ---- A schedule ---- */

static bool is_late(const schedule *x, uint32_t i)
{
    return x->waits && x->late[i];
}

static bool is_ready(const schedule *x, const flxi_step *s)
{
    for (uint32_t k = 0; k < s->num_slots; k++) {
        uint32_t slot = s->slots[k];
        if (flxi_step_writes(x->m, s, k) || x->is_there[slot])
            continue;
        uint32_t writer = x->writer[slot] - 1;
        if (!is_late(x, writer) || !is_ready(x, &x->l->steps[writer])) /* MOST_LATE deep */
            return false;
    }
    return true;
}

/* Whether it is worth its result to run the step early. */
static bool pays(const schedule *x, const flxi_step *s)
{
    size_t freed = 0, needed = 0;
    for (uint32_t k = 0; k < s->num_slots; k++) {
        uint32_t slot = s->slots[k];
        if (flxi_step_writes(x->m, s, k))
            needed += x->left[slot] ? bytes_of(x, slot) : 0;
        else if (reads_first(x, s, k) && x->left[slot] == 1)
            freed += bytes_of(x, slot);
    }
    return freed > 0 && freed * (s->kind == STEP_KERNEL ? 1 : x->share) >= needed;
}

static void run_alone(schedule *x, uint32_t i)
{
    const flxi_step *s = &x->l->steps[i];
    x->has_run[i] = true;
    x->order[x->n++] = i;
    for (uint32_t k = 0; k < s->num_slots; k++)
        if (flxi_step_writes(x->m, s, k)) {
            x->is_there[s->slots[k]] = true;
            x->live += bytes_of(x, s->slots[k]);
        }
    x->peak = x->live + s->scratch > x->peak ? x->live + s->scratch : x->peak;
    for (uint32_t k = 0; k < s->num_slots; k++) {
        uint32_t slot = s->slots[k];
        bool is_last = flxi_step_writes(x->m, s, k) ? !x->left[slot] : reads_first(x, s, k) && !--x->left[slot];
        x->live -= is_last ? bytes_of(x, slot) : 0;
    }
}

/* The step, after those that it waits for: late ones, MOST_LATE deep. Other steps that read the same, or what they
   compute, may run early now. */
static void run(schedule *x, uint32_t i)
{
    const flxi_step *s = &x->l->steps[i];
    for (uint32_t k = 0; k < s->num_slots; k++) {
        uint32_t writer = flxi_step_writes(x->m, s, k) ? 0 : x->writer[s->slots[k]];
        if (writer && is_late(x, writer - 1) && !x->has_run[writer - 1])
            run(x, writer - 1);
    }
    run_alone(x, i);
    for (uint32_t k = 0; x->share && k < s->num_slots; k++) {
        uint32_t slot = s->slots[k], seen = 0;
        for (uint32_t r = x->first[slot]; r < x->first[slot + 1] && seen < MOST_READERS; r++) {
            uint32_t reader = x->readers[r];
            if (x->has_run[reader] || x->is_tied[reader])
                continue;
            seen++;
            x->lacks_memory |= !flxi_push(x->mem, &x->waiting, reader);
        }
    }
}

static void run_waiting(schedule *x)
{
    for (size_t next = 0; next < x->waiting.n; next++) {
        uint32_t i = x->waiting.at[next];
        if (!x->has_run[i] && is_ready(x, &x->l->steps[i]) && pays(x, &x->l->steps[i]))
            run(x, i);
    }
    x->waiting.n = 0;
}

/* All steps; returns the peak. */
static size_t run_all(schedule *x, bool waits, size_t share)
{
    const flxi_routine *l = x->l;
    x->waits = waits;
    x->share = share;
    x->n = 0;
    x->live = x->peak = 0;
    memset(x->has_run, 0, l->num_steps * sizeof *x->has_run);
    for (uint32_t i = 0; i < l->num_slots; i++) {
        x->left[i] = x->first[i + 1] - x->first[i];
        x->is_there[i] = !x->writer[i];
    }
    for (uint32_t i = 0; i < l->num_steps; i++) {
        if (!x->has_run[i] && !is_late(x, i))
            run(x, i);
        run_waiting(x);
    }
    return x->peak;
}

/* ---- The best of some ---- */

static flx_code apply(flxi_routine *l, const schedule *x, flx_error *err)
{
    flxi_step *steps = flxi_new(&l->arena, flxi_step, l->num_steps);
    if (!steps)
        return flxi_oom(err, "steps");
    for (uint32_t i = 0; i < l->num_slots; i++)
        l->slots[i].from = l->slots[i].to = 0;
    for (uint32_t i = 0; i < l->num_steps; i++) {
        steps[i] = l->steps[x->order[i]];
        for (uint32_t k = 0; k < steps[i].num_slots; k++) {
            flxi_slot *slot = &l->slots[steps[i].slots[k]];
            slot->to = i;
            if (flxi_step_writes(x->m, &steps[i], k))
                slot->from = i;
        }
    }
    l->steps = steps;
    return FLX_OK;
}

static flx_code choose(flxi_routine *l, schedule *x, flx_error *err)
{
    static const struct {
        bool waits;
        size_t share;
    } ways[] = {{false, 0}, {true, 0}, {true, 1}, {true, 8}};
    size_t best = 0, least = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        size_t peak = run_all(x, ways[i].waits, ways[i].share);
        if (i > 0 && peak >= least - least / 32)
            continue;
        best = i;
        least = peak;
    }
    if (best)
        run_all(x, ways[best].waits, ways[best].share);
    if (x->lacks_memory)
        return flxi_oom(err, "an order of steps");
    return best ? apply(l, x, err) : FLX_OK;
}

static bool allocate(schedule *x, flxi_arena *scratch)
{
    const flxi_routine *l = x->l;
    size_t uses = 0;
    for (uint32_t i = 0; i < l->num_steps; i++)
        uses += l->steps[i].num_slots;
    x->first = flxi_new(scratch, uint32_t, l->num_slots + 1);
    x->readers = flxi_new(scratch, uint32_t, uses);
    x->writer = flxi_new(scratch, uint32_t, l->num_slots);
    x->late = flxi_new(scratch, uint8_t, l->num_steps);
    x->is_tied = flxi_new(scratch, bool, l->num_steps);
    x->left = flxi_new(scratch, uint32_t, l->num_slots);
    x->is_there = flxi_new(scratch, bool, l->num_slots);
    x->has_run = flxi_new(scratch, bool, l->num_steps);
    x->order = flxi_new(scratch, uint32_t, l->num_steps);
    return x->first && x->readers && x->writer && x->late && x->is_tied && x->left && x->is_there && x->has_run &&
           x->order;
}

flx_code flxi_routine_order(flxi_routine *l, const flxi_allocator *mem, flx_error *err)
{
    size_t all = 0;
    schedule x = {.l = l, .m = l->program, .mem = mem};
    for (uint32_t i = 0; i < l->num_slots; i++)
        all += bytes_of(&x, i);
    if (all < min_peak || l->positions || l->g->has_exchanges || !x.m->device->uses_host_memory)
        return FLX_OK;
    flxi_arena scratch;
    flxi_arena_init(&scratch, mem);
    flx_code code = allocate(&x, &scratch) ? FLX_OK : flxi_oom(err, "an order of steps");
    if (code == FLX_OK) {
        list_readers(&x);
        code = choose(l, &x, err);
    }
    flxi_vec_free(mem, &x.waiting);
    flxi_arena_free(&scratch);
    return code;
}
