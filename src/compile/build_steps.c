/* SPDX-License-Identifier: Apache-2.0 */
/* build_steps.c: from groups to steps, and slots for what they read and write. */
#include "compile/program.h"
#include "graph/op/origin.h"
#include "ops/control/control.h"
#include "passes/pass.h"

#include <stdio.h>

typedef struct {
    flxi_program *m;
    flxi_routine *l;
    const flx_graph *g;
    flxi_grouping grouping;
    const char **refused;    /* by node: why there is no kernel with it; or NULL */
    bool *is_defect;         /* likewise: there should be one */
    flxi_group_kernel *made; /* by group */
    FLXI_VEC(flxi_slot) slots;
    FLXI_VEC(flxi_step) steps;
    FLXI_VEC(uint32_t) list; /* slots of the step being made */
    const flxi_allocator *mem;
    flx_error *err;
} builder;

/* ---- Slots ---- */

static flxi_slot describe(const builder *b, uint32_t value)
{
    flxi_slot s = {.value = value, .segment = SEGMENT_ARENA};
    uint32_t i = flxi_value_at(b->g, value)->node;
    const flxi_node *n = flxi_node_at(b->g, i);
    flxi_static_bytes(flxi_type_at(b->g, value), &s.nbytes);
    if (flxi_is_const(n)) {
        s.segment = SEGMENT_CONST;
        s.data = flxi_const_data(n)->data;
    } else if (b->grouping.kind[i] == NODE_HELD) {
        s.segment = SEGMENT_INPUT;
        while (b->g->leaves.at[s.index] != value)
            s.index++;
    }
    return s;
}

/* The slot of a value's memory, made when it is first wanted. */
static flx_code slot_of(builder *b, uint32_t value, uint32_t *slot)
{
    uint32_t real = b->grouping.alias_of[value] ? b->grouping.alias_of[value] : value;
    if (!b->l->slot_of[real]) {
        if (!flxi_push(b->mem, &b->slots, describe(b, real)))
            return flxi_oom(b->err, "slots");
        b->l->slot_of[real] = (uint32_t)b->slots.n;
    }
    *slot = b->l->slot_of[real] - 1;
    return FLX_OK;
}

static flx_code list_slot(builder *b, uint32_t value, bool is_written)
{
    uint32_t slot;
    FLXI_TRY(slot_of(b, value, &slot));
    flxi_slot *s = &b->slots.at[slot];
    uint32_t now = (uint32_t)b->steps.n;
    if (is_written)
        s->from = now;
    if (s->to < now)
        s->to = now;
    return flxi_push(b->mem, &b->list, slot) ? FLX_OK : flxi_oom(b->err, "slots");
}

static flx_code add_step(builder *b, flxi_step *s)
{
    s->num_slots = (uint32_t)b->list.n;
    s->slots = flxi_dup(&b->l->arena, uint32_t, b->list.at, b->list.n);
    b->list.n = 0;
    return s->slots && flxi_push(b->mem, &b->steps, *s) ? FLX_OK : flxi_oom(b->err, "steps");
}

/* ---- Kernels ---- */

static flx_code add_kernel(builder *b, const flxi_group *group, uint32_t number)
{
    flxi_group_kernel *r = &b->made[number];
    flxi_step s = {.kind = STEP_KERNEL,
                   .node = group->nodes[group->num_nodes - 1],
                   .group = number,
                   .lanes = r->lanes,
                   .nodes = flxi_dup(&b->l->arena, uint32_t, group->nodes, group->num_nodes),
                   .num_nodes = group->num_nodes};
    memcpy(s.grid, r->grid, sizeof s.grid);
    if (!s.nodes)
        return flxi_oom(b->err, "steps");
    for (uint32_t i = 0; i < r->num_values; i++) {
        s.work += flxi_count_at(b->g, r->values[i]);
        FLXI_TRY(list_slot(b, r->values[i], r->kernel->buffers[i + 1].access != FLX_KERNEL_READ));
    }
    for (uint32_t i = 0; i < group->num_nodes; i++) { /* what is reduced in the kernel may be far larger */
        int64_t inside = flxi_count_at(b->g, flxi_node_at(b->g, group->nodes[i])->first);
        s.work = inside > s.work ? inside : s.work;
    }
    FLXI_TRY(flxi_program_keep(b->m, r, &s.kernel, b->err));
    return add_step(b, &s);
}

/* ---- Called nodes ---- */

/* How control flow is compiled, by what its node does with its first body: STEP_EVALUATE where it is not. */
static flxi_step_kind kind_of_step(const builder *b, const flxi_node *n)
{
    flxi_body first;
    const flxi_rules *r = flxi_ops[n->op].rules;
    if (!r->bodies || !r->bodies(b->g, n, 0, &first))
        return STEP_EVALUATE;
    switch (first.role) {
    case BODY_FUNCTION: return STEP_CALL;
    case BODY_BRANCH: return STEP_BRANCH;
    case BODY_TEST: return STEP_WHILE;
    case BODY_ROUND: return STEP_SCAN;
    default: return STEP_EVALUATE;
    }
}

static uint32_t count_bodies(const builder *b, const flxi_node *n)
{
    flxi_body body;
    uint32_t i = 0;
    while (flxi_ops[n->op].rules->bodies(b->g, n, i, &body))
        i++;
    return i;
}

/* Labels too: messages name them. */
static bool is_same_body(const flx_graph *a, const flx_graph *b)
{
    if (a == b)
        return true;
    bool same = flxi_graphs_alike(a, b);
    for (uint32_t id = 1; same && id <= a->value_count; id++) {
        const char *x = flxi_value_at(a, id)->name, *y = flxi_value_at(b, id)->name;
        same = x && y ? strcmp(x, y) == 0 : x == y;
    }
    return same;
}

static flxi_routine *find_shared(const flxi_program *m, const flxi_shared_routine *want)
{
    uint32_t i;
    flxi_probe p = flxi_index_first(&m->routine_index, flx_graph_hash(want->body));
    while (flxi_index_next(&m->routine_index, &p, &i)) {
        const flxi_shared_routine *have = &m->routines.at[i];
        if (have->carries == want->carries && have->shared == want->shared && have->threads == want->threads &&
            is_same_body(have->body, want->body))
            return have->routine;
    }
    return NULL;
}

static flx_code share(flxi_program *m, flxi_shared_routine made, flx_error *err)
{
    if (!flxi_reserve(m->mem, &m->routines) ||
        !flxi_index_add(m->mem, &m->routine_index, flx_graph_hash(made.body), (uint32_t)m->routines.n))
        return flxi_oom(err, "steps");
    flx_graph_retain(made.body);
    made.routine->num_uses++;
    m->routines.at[m->routines.n++] = made;
    return FLX_OK;
}

/* The next body of the step, into `room`, which s->bodies is. A body's code depends on the loop around it. */
static flx_code compile_body(builder *b, const flx_graph *body, const flxi_body *scan, flxi_routine **room,
                             flxi_step *s)
{
    flxi_shared_routine want = {.body = (flx_graph *)(uintptr_t)body,
                                .carries = scan ? scan->carries + 1 : 0,
                                .shared = scan ? scan->shared : 0,
                                .threads = b->m->threads};
    flxi_routine *known = find_shared(b->m, &want);
    if (known) {
        known->num_uses++;
        room[s->num_bodies++] = known;
        return FLX_OK;
    }
    FLXI_TRY(flxi_routine_compile(b->m, body, &want.routine, b->err));
    room[s->num_bodies++] = want.routine;
    return share(b->m, want, b->err);
}

static flx_code compile_bodies(builder *b, const flxi_node *n, flxi_routine **room, flxi_step *s)
{
    flxi_body body;
    while (flxi_ops[n->op].rules->bodies(b->g, n, s->num_bodies, &body))
        FLXI_TRY(compile_body(b, body.graph, NULL, room, s));
    return FLX_OK;
}

/* Whether the op's own evaluation runs the node's bodies, and nothing else would: then they are routines as well. */
static bool calls_bodies(const builder *b, const flxi_node *n)
{
    flxi_body body;
    const flxi_rules *r = flxi_ops[n->op].rules;
    uint32_t k = 0;
    for (; r->bodies && r->bodies(b->g, n, k, &body); k++)
        if (body.role != BODY_CALLED)
            return false;
    return k > 0 && b->m->device->uses_host_memory;
}

static void free_bodies(const flxi_step *s)
{
    for (uint32_t k = 0; k < s->num_bodies; k++)
        flxi_routine_free(s->bodies[k]);
}

/* How many parts a scan may have. A thinned trajectory is written step by step, where parts cost a device time that has
   no threads for them. */
static int most_parts(const flxi_program *m, const flxi_node *scan)
{
    const scan_attrs *a = flxi_scan_attrs(scan);
    bool is_thinned = a->save_trajectory && a->num_checkpoints;
    return !m->device->loop_parts ? m->threads : is_thinned ? 1 : m->device->loop_parts;
}

/* The examples of a scan are cut into as many equal parts as threads can run, or as the device says. */
static flx_code split_scan(builder *b, const flxi_node *n, const flxi_body *round, flx_graph **made, flxi_step *s)
{
    bool *is_shared = flxi_new(&b->l->arena, bool, n->nin + 1);
    s->parts = 1;
    if (!is_shared)
        return flxi_oom(b->err, "steps");
    for (uint32_t i = 0; i < n->nin; i++)
        is_shared[i] = i >= round->carries && i < round->carries + round->shared;
    bool groups = !b->m->grouping.evaluate_all && !b->m->grouping.keep_apart;
    for (int parts = most_parts(b->m, n); groups && parts > 1 && !*made; parts--) {
        FLXI_TRY(flxi_split_examples(round->graph, is_shared, parts, made, b->err));
        s->parts = *made ? (uint32_t)parts : 1;
    }
    return FLX_OK;
}

/* Bytes that a run of the routine needs at most; its memory is not planned yet. */
static double most_bytes(const flxi_routine *l)
{
    double sum = 0;
    for (uint32_t i = 0; i < l->num_slots; i++)
        sum += l->slots[i].segment == SEGMENT_ARENA ? (double)l->slots[i].nbytes : 0;
    for (uint32_t i = 0; i < l->num_steps; i++) {
        const flxi_step *s = &l->steps[i];
        sum += (double)s->scratch;
        for (uint32_t k = 0; k < s->num_bodies; k++)
            sum += most_bytes(s->bodies[k]) * (s->workers ? s->workers : 1);
        for (uint32_t k = 0; s->kind == STEP_SCAN && k < s->num_reads; k++)
            sum += 2 * (double)l->slots[s->slots[k]].nbytes; /* more than its carries take */
    }
    return sum;
}

/* Whether nothing of the routine is seen before its results are: no output, and no status of the run. */
static bool runs_unseen(const flxi_routine *l)
{
    for (uint32_t i = 0; i < l->num_steps; i++) {
        const flxi_step *s = &l->steps[i];
        if (s->kind == STEP_EVALUATE || s->kind == STEP_WHILE || s->kind == STEP_DISPATCH)
            return false;
        for (uint32_t k = 0; k < s->num_bodies; k++)
            if (!runs_unseen(s->bodies[k]))
                return false;
    }
    return true;
}

/* Memory that steps at the same time may take together. */
static const double most_apart = 256 << 20;

/* The steps of a loop without carries are independent: each thread takes the next one. So it need not wait for the
   others in every step of the body, and what the body computes stays in the thread's own cache. */
static flx_code compile_apart(builder *b, const flxi_node *n, const flxi_body *round, flxi_routine **room, flxi_step *s)
{
    int threads = b->m->threads;
    bool groups = !b->m->grouping.evaluate_all && !b->m->grouping.keep_apart, is_chain = false;
    if (!b->m->device->run_apart || !groups || round->carries || threads < 2 || round->runs < 2 ||
        2 * round->runs < threads)
        return FLX_OK;
    b->m->threads = 1;
    flx_code code = compile_body(b, round->graph, round, room, s);
    b->m->threads = threads;
    if (code != FLX_OK)
        return code;
    uint32_t workers = round->runs < threads ? (uint32_t)round->runs : (uint32_t)threads;
    FLXI_TRY(flxi_routine_is_loop_chain(b->m, s->bodies[0], n, &is_chain, b->err));
    if (!is_chain && runs_unseen(s->bodies[0]) && most_bytes(s->bodies[0]) * workers <= most_apart) {
        s->workers = workers;
        s->parts = 1;
        return FLX_OK;
    }
    free_bodies(s);
    s->num_bodies = 0;
    return FLX_OK;
}

/* Parts are for loops that the device runs as a chain: the steps of others are cut among threads one by one. */
static flx_code compile_scan(builder *b, const flxi_node *n, flxi_routine **room, flxi_step *s)
{
    flxi_body round;
    flx_graph *made = NULL;
    bool is_chain = false;
    flxi_ops[n->op].rules->bodies(b->g, n, 0, &round);
    FLXI_TRY(compile_apart(b, n, &round, room, s));
    if (s->workers)
        return FLX_OK;
    flx_code code = split_scan(b, n, &round, &made, s);
    if (code == FLX_OK)
        code = compile_body(b, made ? made : round.graph, &round, room, s);
    flx_graph_release(made);
    if (code == FLX_OK && s->parts > 1)
        code = flxi_routine_is_loop_chain(b->m, s->bodies[0], n, &is_chain, b->err);
    if (code != FLX_OK || s->parts == 1 || is_chain)
        return code;
    free_bodies(s);
    s->num_bodies = 0;
    s->parts = 1;
    return compile_body(b, round.graph, &round, room, s);
}

static flx_code compile_control(builder *b, const flxi_node *n, flxi_step *s)
{
    flxi_routine **room = flxi_new(&b->l->arena, flxi_routine *, count_bodies(b, n));
    if (!room)
        return flxi_oom(b->err, "steps");
    s->bodies = room;
    return s->kind == STEP_SCAN ? compile_scan(b, n, room, s) : compile_bodies(b, n, room, s);
}

/* The node as the device sees it; lives as long as the steps. */
static flx_code describe_node(builder *b, const flxi_node *n, flxi_step *s)
{
    flxi_device_node *d = flxi_new(&b->l->arena, flxi_device_node, 1);
    const flx_type **types = flxi_new(&b->l->arena, const flx_type *, (size_t)n->nin + n->nout);
    if (!d || !types)
        return flxi_oom(b->err, "steps");
    for (uint32_t k = 0; k < n->nin; k++)
        types[k] = flxi_type_at(b->g, n->in[k]);
    for (uint32_t k = 0; k < n->nout; k++)
        types[n->nin + k] = flxi_type_at(b->g, n->first + k);
    *d = (flxi_device_node){.ctx = b->g->ctx,
                            .op = n->op,
                            .attrs = n->attrs,
                            .nin = n->nin,
                            .nout = n->nout,
                            .in_types = types,
                            .out_types = types + n->nin,
                            .label = flxi_node_label(b->g, n),
                            .origin = n->origin,
                            .is_fast = (b->m->options.flags & FLX_COMPILE_FAST) != 0};
    s->described = d;
    return FLX_OK;
}

/* The device's own way to compute the node, if it has one. */
static flx_code find_way(builder *b, const flxi_node *n, flxi_step *s)
{
    const flxi_device *device = b->m->device;
    FLXI_TRY(describe_node(b, n, s));
    flxi_node_way *way = flxi_new(&b->l->arena, flxi_node_way, 1);
    if (!way)
        return flxi_oom(b->err, "steps");
    device->accept_node(s->described, b->m->threads, way);
    s->way = way;
    if (!way->code)
        return FLX_OK;
    s->kind = STEP_ROUTE;
    s->scratch = way->scratch;
    if (!way->table_bytes)
        return FLX_OK;
    void *table = flxi_arena_alloc(&b->l->arena, way->table_bytes, 1, 64);
    if (!table)
        return flxi_oom(b->err, "the tables of a route");
    way->table = table;
    return device->prepare_node(s->described, way, table, b->mem, b->err);
}

/* A kernel of the user becomes part of the program. What cannot be compiled, or has an error that belongs to a run, is
   left to the evaluator, with the reason. */
static flx_code make_call(builder *b, const flxi_node *n, flxi_step *s)
{
    flx_error why = {0};
    flxi_group_kernel r = {.is_call = true};
    flxi_call_plan *p = flxi_new(&b->l->arena, flxi_call_plan, 1);
    if (!p)
        return flxi_oom(b->err, "steps");
    flx_code code = flxi_call_plan_make(b->g, n, &b->l->arena, p, &why);
    const char *needs_host = code == FLX_OK && !b->m->device->uses_host_memory ? flxi_call_needs_host(p) : NULL;
    if (needs_host)
        code = flxi_fail(&why, FLX_E_UNSUPPORTED, "%s", needs_host);
    if (code == FLX_OK)
        code = b->m->device->check_call(p->kernel, &why);
    if (code == FLX_OK)
        code = flx_kernel_encode(p->kernel, &r.wire, &why);
    if (code == FLX_E_OOM)
        flxi_oom(b->err, "kernels");
    if (code != FLX_OK) {
        flx_kernel_release(p->kernel);
        s->no_kernel = flxi_dup(&b->l->arena, char, why.message, strlen(why.message) + 1);
        return code == FLX_E_OOM || !s->no_kernel ? flxi_oom(b->err, "steps") : FLX_OK;
    }
    r.kernel = p->kernel;
    s->kind = STEP_DISPATCH;
    s->call = p;
    memcpy(s->grid, p->grid, sizeof s->grid);
    FLXI_TRY(flxi_program_keep(b->m, &r, &s->kernel, b->err));
    p->kernel = b->m->kernels.at[s->kernel].kernel;
    int64_t invocations = 1;
    for (int a = 0; a < 3; a++)
        if (__builtin_mul_overflow(invocations, (int64_t)p->grid[a] * p->kernel->size[a], &invocations))
            invocations = INT64_MAX;
    s->work = invocations > s->work ? invocations : s->work;
    return FLX_OK;
}

static flx_code add_control(builder *b, const flxi_node *n, flxi_step *s)
{
    flx_code code = compile_control(b, n, s);
    if (code == FLX_OK)
        code = add_step(b, s);
    if (code != FLX_OK)
        free_bodies(s);
    return code;
}

static flx_code add_called(builder *b, uint32_t i, uint32_t number)
{
    const flxi_node *n = flxi_node_at(b->g, i);
    flxi_step s = {.kind = (uint8_t)kind_of_step(b, n), .node = i, .group = number, .num_reads = n->nin};
    for (uint32_t k = 0; k < n->nin; k++)
        FLXI_TRY(list_slot(b, n->in[k], false));
    for (uint32_t k = 0; k < n->nout; k++) {
        FLXI_TRY(list_slot(b, n->first + k, true));
        s.work += flxi_count_at(b->g, n->first + k);
    }
    if (s.kind != STEP_EVALUATE)
        return add_control(b, n, &s);
    if (flxi_is_kernel_call(n) && b->m->device->check_call && !b->m->grouping.evaluate_all)
        FLXI_TRY(make_call(b, n, &s));
    if (s.kind == STEP_DISPATCH)
        return add_step(b, &s);
    FLXI_TRY(find_way(b, n, &s));
    if (b->refused && b->refused[i]) {
        s.no_kernel = b->refused[i];
        s.is_defect = b->is_defect[i];
    }
    bool has_bodies = s.kind == STEP_EVALUATE ? calls_bodies(b, n) : s.way->calls_bodies;
    return has_bodies ? add_control(b, n, &s) : add_step(b, &s);
}

/* ---- Outputs ---- */

/* The memory of a computed value becomes the output itself; an input, a constant or a value that is an output already
   is copied. */
static flx_code bind_output(builder *b, uint32_t k)
{
    uint32_t value = b->g->outputs.at[k].val, slot;
    FLXI_TRY(slot_of(b, value, &slot));
    if (b->slots.at[slot].segment == SEGMENT_ARENA) {
        b->slots.at[slot].segment = SEGMENT_OUTPUT;
        b->slots.at[slot].index = k;
        b->l->outputs[k] = slot;
        return FLX_OK;
    }
    flxi_step s = {.kind = STEP_COPY, .node = flxi_value_at(b->g, value)->node, .num_reads = 1};
    flxi_slot copy = {.value = value,
                      .segment = SEGMENT_OUTPUT,
                      .index = k,
                      .nbytes = b->slots.at[slot].nbytes,
                      .from = (uint32_t)b->steps.n,
                      .to = (uint32_t)b->steps.n};
    b->slots.at[slot].to = (uint32_t)b->steps.n;
    s.work = (int64_t)copy.nbytes;
    b->l->outputs[k] = (uint32_t)b->slots.n;
    if (!flxi_push(b->mem, &b->slots, copy) || !flxi_push(b->mem, &b->list, slot) ||
        !flxi_push(b->mem, &b->list, b->l->outputs[k]))
        return flxi_oom(b->err, "slots");
    return add_step(b, &s);
}

/* ---- Groups ---- */

static flx_code refuse(builder *b, const uint32_t *nodes, uint32_t n, const char *why, bool is_defect)
{
    if (!b->refused) {
        b->refused = flxi_new(&b->l->arena, const char *, b->g->node_count);
        b->is_defect = flxi_new(&b->l->arena, bool, b->g->node_count);
    }
    why = why ? flxi_dup(&b->l->arena, char, why, strlen(why) + 1) : NULL;
    if (!b->refused || !b->is_defect || !why)
        return flxi_oom(b->err, "groups");
    for (uint32_t i = 0; i < n; i++) {
        b->refused[nodes[i]] = why;
        b->is_defect[nodes[i]] = is_defect;
    }
    return FLX_OK;
}

/* What could not be compiled is no reason not to run: these nodes are computed one by one. */
static flx_code refuse_defect(builder *b, const uint32_t *nodes, uint32_t n, const flx_error *why)
{
    char text[300];
    snprintf(text, sizeof text, "the compiler cannot compile its group: %.220s", why->message);
    return refuse(b, nodes, n, text, true);
}

static void free_made(builder *b)
{
    for (uint32_t i = 0; b->made && i < b->grouping.num_groups; i++)
        flxi_group_kernel_free(&b->made[i]);
    b->made = NULL;
}

/* The kernel of group i, or why there is none. */
static flx_code make_kernel(builder *b, uint32_t i, bool *is_refused)
{
    const flxi_device *device = b->m->device;
    const flxi_group *group = &b->grouping.groups[i];
    flx_error why = {0};
    if (group->called)
        return FLX_OK;
    flx_code code = flxi_group_to_kernel(&b->grouping, group, &b->l->arena, &b->made[i], &why);
    if (code == FLX_OK && b->m->checks_kernels && device->check_kernel)
        code = device->check_kernel(b->made[i].kernel, &why);
    if (code == FLX_E_OOM)
        return flxi_oom(b->err, "kernels");
    if (code != FLX_OK) {
        *is_refused = true;
        return refuse_defect(b, group->nodes, group->num_nodes, &why);
    }
    const char *reason = device->refuse_kernel ? device->refuse_kernel(b->made[i].kernel) : NULL;
    *is_refused |= reason != NULL;
    return reason ? refuse(b, group->nodes, group->num_nodes, reason, false) : FLX_OK;
}

static flx_code make_kernels(builder *b, bool *is_refused)
{
    b->made = flxi_new(&b->l->arena, flxi_group_kernel, b->grouping.num_groups);
    if (!b->made)
        return flxi_oom(b->err, "kernels");
    for (uint32_t i = 0; i < b->grouping.num_groups; i++)
        FLXI_TRY(make_kernel(b, i, is_refused));
    return FLX_OK;
}

/* ---- The whole ---- */

static flx_code list_views(builder *b)
{
    uint32_t n = b->g->node_count;
    b->l->views = flxi_new(&b->l->arena, uint32_t, n);
    if (!b->l->views)
        return flxi_oom(b->err, "steps");
    for (uint32_t i = 0; i < n; i++)
        if (b->grouping.kind[i] == NODE_VIEW)
            b->l->views[b->l->num_views++] = i;
    return FLX_OK;
}

/* A node whose rule fails is in no group. */
static flx_code group_nodes(builder *b, const flxi_grouping_options *o, bool *is_refused)
{
    flx_error why = {0};
    uint32_t failed;
    flx_code code = flxi_form_groups(b->g, o, &b->grouping, &failed, &why);
    if (code == FLX_OK)
        return make_kernels(b, is_refused);
    *is_refused = true;
    uint32_t node = failed - 1;
    if (failed)
        return refuse_defect(b, &node, 1, &why);
    if (b->err)
        *b->err = why;
    return code;
}

/* Folds over windows and random numbers that the device computes faster than any kernel are in no group; movements,
   where they are needed in memory. */
static flx_code find_preferred(builder *b, flxi_grouping_options *o)
{
    bool *preferred = flxi_new(&b->l->arena, bool, b->g->node_count);
    if (!preferred)
        return flxi_oom(b->err, "steps");
    for (uint32_t i = 0; i < b->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(b->g, i);
        flxi_class class = flxi_ops[n->op].op_class;
        flxi_step s = {0};
        flxi_node_way way = {0};
        if ((class != CLASS_WINDOW && class != CLASS_SHAPE && class != CLASS_RANDOM) || n->nout != 1)
            continue;
        FLXI_TRY(describe_node(b, n, &s));
        b->m->device->accept_node(s.described, b->m->threads, &way);
        preferred[i] = way.code && way.is_preferred;
        if (preferred[i] && class != CLASS_SHAPE)
            FLXI_TRY(refuse(b, &i, 1, "the device has a faster way", false));
    }
    o->preferred = preferred;
    return FLX_OK;
}

/* Groups without a kernel are taken apart: their nodes are computed one by one. That may leave other groups, so it is
   repeated until all have one; each time there are fewer nodes to group. */
static flx_code form_groups(builder *b)
{
    flxi_grouping_options o = b->m->grouping;
    bool is_refused;
    FLXI_TRY(find_preferred(b, &o));
    o.refused = b->refused;
    o.positions = b->l->positions;
    do {
        is_refused = false;
        free_made(b);
        flxi_grouping_free(&b->grouping);
        FLXI_TRY(group_nodes(b, &o, &is_refused));
        o.refused = b->refused;
    } while (is_refused);
    return FLX_OK;
}

static flx_code build(builder *b)
{
    flxi_routine *l = b->l;
    FLXI_TRY(form_groups(b));
    l->slot_of = flxi_new(&l->arena, uint32_t, b->g->value_count + 1);
    l->outputs = flxi_new(&l->arena, uint32_t, b->g->outputs.n);
    if (!l->slot_of || !l->outputs)
        return flxi_oom(b->err, "slots");
    for (uint32_t i = 0; i < b->grouping.num_groups; i++) {
        const flxi_group *group = &b->grouping.groups[i];
        FLXI_TRY(group->called ? add_called(b, group->called - 1, i) : add_kernel(b, group, i));
    }
    for (uint32_t k = 0; k < b->g->outputs.n; k++)
        FLXI_TRY(bind_output(b, k));
    return list_views(b);
}

static flx_code finish(builder *b)
{
    flxi_routine *l = b->l;
    l->num_slots = (uint32_t)b->slots.n;
    l->slots = flxi_dup(&l->arena, flxi_slot, b->slots.at, b->slots.n);
    l->num_steps = (uint32_t)b->steps.n;
    l->steps = flxi_dup(&l->arena, flxi_step, b->steps.at, b->steps.n);
    if (!l->slots || !l->steps) {
        l->num_steps = 0;
        return flxi_oom(b->err, "steps");
    }
    FLXI_TRY(flxi_routine_order(l, b->mem, b->err));
    return flxi_routine_overlap(l, b->mem, b->err);
}

flx_code flxi_routine_build(flxi_program *m, flx_graph *g, const flxi_position *positions, flxi_routine **out,
                            flx_error *err)
{
    flxi_routine *l = flxi_alloc(m->mem, 1, sizeof *l);
    *out = NULL;
    if (!l) {
        flx_graph_release(g);
        return flxi_oom(err, "steps");
    }
    l->g = g;
    l->program = m;
    l->number = m->num_routines++;
    l->num_uses = 1;
    flxi_arena_init(&l->arena, m->mem);
    builder b = {.m = m, .l = l, .g = g, .mem = m->mem, .err = err};
    l->positions = positions ? flxi_dup(&l->arena, flxi_position, positions, g->node_count) : NULL;
    flx_code code = positions && !l->positions ? flxi_oom(err, "steps") : build(&b);
    if (code == FLX_OK)
        code = finish(&b);
    for (size_t i = 0; code != FLX_OK && l->num_steps == 0 && i < b.steps.n; i++)
        free_bodies(&b.steps.at[i]);
    flxi_vec_free(b.mem, &b.slots);
    flxi_vec_free(b.mem, &b.steps);
    flxi_vec_free(b.mem, &b.list);
    free_made(&b);
    flxi_grouping_free(&b.grouping);
    if (code == FLX_OK)
        *out = l;
    else
        flxi_routine_free(l);
    return code;
}

void flxi_routine_free(flxi_routine *l)
{
    if (!l || --l->num_uses)
        return;
    const flxi_allocator *mem = l->arena.mem;
    for (uint32_t i = 0; i < l->num_steps; i++)
        free_bodies(&l->steps[i]);
    flx_graph_release(l->g);
    flxi_arena_free(&l->arena);
    flxi_free(mem, l, 1, sizeof *l);
}
