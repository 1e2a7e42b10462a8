/* SPDX-License-Identifier: Apache-2.0 */
/* build_steps.c: from groups to steps, and slots for what they read and write. */
#include "compile/program.h"
#include "graph/op/origin.h"
#include "passes/pass.h"

typedef struct {
    flxi_program *m;
    flxi_routine *l;
    const flx_graph *g;
    flxi_grouping grouping;
    const char **refused; /* by node: why the device takes no kernel with it; or NULL */
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

static int64_t count_of(const flx_graph *g, uint32_t value)
{
    int64_t n = 0;
    flxi_static_count(flxi_type_at(g, value), &n);
    return n;
}

static flx_code add_kernel(builder *b, const flxi_group *group, uint32_t number)
{
    flxi_group_kernel r;
    FLXI_TRY(flxi_group_to_kernel(&b->grouping, group, &b->l->arena, &r, b->err));
    flxi_step s = {.kind = STEP_KERNEL,
                   .node = group->nodes[group->num_nodes - 1],
                   .group = number,
                   .lanes = r.lanes,
                   .nodes = flxi_dup(&b->l->arena, uint32_t, group->nodes, group->num_nodes),
                   .num_nodes = group->num_nodes};
    memcpy(s.grid, r.grid, sizeof s.grid);
    flx_code code = s.nodes ? FLX_OK : flxi_oom(b->err, "steps");
    for (uint32_t i = 0; code == FLX_OK && i < r.num_values; i++) {
        bool is_written = r.kernel->buffers[i + 1].access != FLX_KERNEL_READ;
        s.work += count_of(b->g, r.values[i]);
        code = list_slot(b, r.values[i], is_written);
    }
    if (code != FLX_OK) {
        flx_kernel_release(r.kernel);
        return code;
    }
    FLXI_TRY(flxi_program_keep(b->m, &r, &s.kernel, b->err));
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
        if (have->carries == want->carries && have->shared == want->shared && is_same_body(have->body, want->body))
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
                                .shared = scan ? scan->shared : 0};
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

static void free_bodies(const flxi_step *s)
{
    for (uint32_t k = 0; k < s->num_bodies; k++)
        flxi_routine_free(s->bodies[k]);
}

/* The examples of a scan are cut into as many equal parts as threads can run. */
static flx_code split_scan(builder *b, const flxi_node *n, const flxi_body *round, flx_graph **made, flxi_step *s)
{
    bool *is_shared = flxi_new(&b->l->arena, bool, n->nin + 1);
    s->parts = 1;
    if (!is_shared)
        return flxi_oom(b->err, "steps");
    for (uint32_t i = 0; i < n->nin; i++)
        is_shared[i] = i >= round->carries && i < round->carries + round->shared;
    bool groups = !b->m->grouping.evaluate_all && !b->m->grouping.keep_apart;
    for (int parts = b->m->threads; groups && parts > 1 && !*made; parts--) {
        FLXI_TRY(flxi_split_examples(round->graph, is_shared, parts, made, b->err));
        s->parts = *made ? (uint32_t)parts : 1;
    }
    return FLX_OK;
}

/* Parts are for loops that the device runs as a chain: the steps of others are cut among threads one by one. */
static flx_code compile_scan(builder *b, const flxi_node *n, flxi_routine **room, flxi_step *s)
{
    flxi_body round;
    flx_graph *made = NULL;
    bool is_chain = false;
    flxi_ops[n->op].rules->bodies(b->g, n, 0, &round);
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
    *d = (flxi_device_node){.op = n->op,
                            .attrs = n->attrs,
                            .nin = n->nin,
                            .nout = n->nout,
                            .in_types = types,
                            .out_types = types + n->nin,
                            .label = flxi_node_label(b->g, n),
                            .origin = n->origin};
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

static flx_code add_called(builder *b, uint32_t i, uint32_t number)
{
    const flxi_node *n = flxi_node_at(b->g, i);
    flxi_step s = {.kind = (uint8_t)kind_of_step(b, n), .node = i, .group = number, .num_reads = n->nin};
    for (uint32_t k = 0; k < n->nin; k++)
        FLXI_TRY(list_slot(b, n->in[k], false));
    for (uint32_t k = 0; k < n->nout; k++) {
        FLXI_TRY(list_slot(b, n->first + k, true));
        s.work += count_of(b->g, n->first + k);
    }
    if (s.kind != STEP_EVALUATE) {
        flx_code code = compile_control(b, n, &s);
        if (code == FLX_OK)
            code = add_step(b, &s);
        if (code != FLX_OK)
            free_bodies(&s);
        return code;
    }
    FLXI_TRY(find_way(b, n, &s));
    s.no_kernel = b->refused ? b->refused[i] : NULL;
    return add_step(b, &s);
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

static flx_code refuse_group(builder *b, const flxi_group *group, const char *why)
{
    if (!b->refused)
        b->refused = flxi_new(&b->l->arena, const char *, b->g->node_count);
    if (!b->refused)
        return flxi_oom(b->err, "groups");
    for (uint32_t i = 0; i < group->num_nodes; i++)
        b->refused[group->nodes[i]] = why;
    return FLX_OK;
}

static flx_code ask_about_groups(builder *b, bool *is_refused)
{
    const char *(*refuse)(const flx_kernel *) = b->m->device->refuse_kernel;
    *is_refused = false;
    for (uint32_t i = 0; refuse && i < b->grouping.num_groups; i++) {
        const flxi_group *group = &b->grouping.groups[i];
        flxi_group_kernel r;
        if (group->called)
            continue;
        FLXI_TRY(flxi_group_to_kernel(&b->grouping, group, &b->l->arena, &r, b->err));
        const char *why = refuse(r.kernel);
        flx_kernel_release(r.kernel);
        if (why)
            FLXI_TRY(refuse_group(b, group, why));
        *is_refused |= why != NULL;
    }
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

/* Groups that the device refuses are taken apart: their nodes are computed one by one. That may leave other groups, so
   it is repeated until the device takes all; each time there are fewer nodes to group. */
static flx_code form_groups(builder *b)
{
    flxi_grouping_options o = b->m->grouping;
    bool is_refused = false;
    do {
        flxi_grouping_free(&b->grouping);
        FLXI_TRY(flxi_form_groups(b->g, &o, &b->grouping, b->err));
        FLXI_TRY(ask_about_groups(b, &is_refused));
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
    if (l->slots && l->steps)
        return FLX_OK;
    l->num_steps = 0;
    return flxi_oom(b->err, "steps");
}

flx_code flxi_routine_build(flxi_program *m, flx_graph *g, flxi_routine **out, flx_error *err)
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
    flx_code code = build(&b);
    if (code == FLX_OK)
        code = finish(&b);
    for (size_t i = 0; code != FLX_OK && l->num_steps == 0 && i < b.steps.n; i++)
        free_bodies(&b.steps.at[i]);
    flxi_vec_free(b.mem, &b.slots);
    flxi_vec_free(b.mem, &b.steps);
    flxi_vec_free(b.mem, &b.list);
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
