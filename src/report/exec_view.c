/* SPDX-License-Identifier: Apache-2.0 */
/* exec_view.c: see exec_view.h. */
#include "report/exec_view.h"

#include "base/hash.h"
#include "graph/op/origin.h"
#include "report/report_text.h"

static const flxi_step *step_at(const flxi_program *m, size_t i)
{
    return &m->all_steps.at[i].routine->steps[m->all_steps.at[i].step];
}

/* ---- Which step computes a node ---- */

/* Calls fn for each node that the step computes. A copy computes none. */
static void each_node(const flxi_step *s, void (*fn)(void *user, uint32_t node, uint32_t step), void *user)
{
    for (uint32_t k = 0; k < s->num_nodes; k++)
        fn(user, s->nodes[k], s->number);
    if (s->num_nodes == 0 && s->kind != STEP_COPY)
        fn(user, s->node, s->number);
}

static flx_code begin_steps(const flxi_program *m, uint32_t nodes, flxi_arena *arena, uint32_t **step_of,
                            bool has_kernels, flxi_view_steps *out, flx_error *err)
{
    const char **names = flxi_new(arena, const char *, m->all_steps.n + 1);
    *step_of = flxi_new(arena, uint32_t, nodes + 1);
    if (!names || !*step_of)
        return flxi_oom(err, "a report");
    for (uint32_t i = 0; i < nodes; i++)
        (*step_of)[i] = FLXI_VIEW_NONE;
    *out = (flxi_view_steps){*step_of, names, (uint32_t)m->all_steps.n};
    for (uint32_t i = 0; i < out->num_steps; i++)
        names[i] = has_kernels && step_at(m, i)->num_nodes > 1 ? step_at(m, i)->name : NULL;
    return FLX_OK;
}

static void note_step(void *user, uint32_t node, uint32_t step)
{
    uint32_t *step_of = user;
    step_of[node] = step;
}

flx_code flxi_steps_of_routine(const flxi_program *m, const flxi_routine *l, flxi_arena *arena, flxi_view_steps *out,
                               flx_error *err)
{
    uint32_t *step_of;
    FLXI_TRY(begin_steps(m, l->g->node_count, arena, &step_of, true, out, err));
    for (uint32_t i = 0; i < l->num_views; i++)
        step_of[l->views[i]] = FLXI_VIEW_IN_PLACE;
    for (uint32_t i = 0; i < l->num_steps; i++)
        each_node(&l->steps[i], note_step, step_of);
    return FLX_OK;
}

/* ---- By name ---- */

typedef struct {
    const flxi_allocator *mem;
    const flx_graph *g; /* of the current routine */
    flxi_index index;   /* of names: the step */
    bool ok;
} named_steps;

static uint64_t name_hash(const char *name)
{
    return flxi_hash_text(FLXI_HASH_SEED, name);
}

/* The last step of a name counts: it gives the value, the others what it needs. */
static void note_name(void *user, uint32_t node, uint32_t step)
{
    named_steps *s = user;
    const flxi_node *n = flxi_node_at(s->g, node);
    const char *label = flxi_node_label(s->g, n);
    if (!label && n->origin)
        label = n->origin->label;
    if (label && n->nin)
        s->ok = s->ok && flxi_index_add(s->mem, &s->index, name_hash(label), step);
}

flx_code flxi_steps_by_name(const flxi_program *m, const flx_graph *g, flxi_arena *arena, flxi_view_steps *out,
                            flx_error *err)
{
    named_steps s = {.mem = arena->mem, .ok = true};
    uint32_t *step_of;
    FLXI_TRY(begin_steps(m, g->node_count, arena, &step_of, false, out, err));
    for (uint32_t i = 0; i < out->num_steps; i++) {
        s.g = m->all_steps.at[i].routine->g;
        each_node(step_at(m, i), note_name, &s);
    }
    for (uint32_t i = 0; s.ok && i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        const char *label = n->nin ? flxi_node_label(g, n) : NULL;
        flxi_probe p = flxi_index_first(&s.index, label ? name_hash(label) : 0);
        for (uint32_t step; label && flxi_index_next(&s.index, &p, &step);)
            step_of[i] = step_of[i] == FLXI_VIEW_NONE || step > step_of[i] ? step : step_of[i];
    }
    flxi_index_free(arena->mem, &s.index);
    return s.ok ? FLX_OK : flxi_oom(err, "a report");
}

/* ---- JSON ---- */

void flxi_steps_json(const flxi_program *m, const flx_run_trace *trace, flxi_strbuf *out)
{
    flxi_add_char(out, '[');
    for (size_t i = 0; i < m->all_steps.n; i++) {
        const flxi_routine *l = m->all_steps.at[i].routine;
        const flxi_step *s = step_at(m, i);
        bool has_time = trace && trace->steps && i < trace->num_steps && i < trace->step_capacity;
        const flx_step_time *t = has_time ? &trace->steps[i] : NULL;
        flxi_add_text(out, i ? ",\n{\"k\":" : "\n{\"k\":");
        flxi_json_string(out, flxi_step_kind_name(l, s));
        flxi_add_text(out, ",\"n\":");
        flxi_json_string(out, s->name);
        flxi_addf(out, ",\"d\":%u,\"b\":%lld,\"f\":%lld", l->depth, (long long)s->bytes, (long long)s->flops);
        if (s->why[0]) {
            flxi_add_text(out, ",\"y\":");
            flxi_json_string(out, s->why);
        }
        if (t)
            flxi_addf(out, ",\"r\":%lld,\"t\":%lld", (long long)t->runs, (long long)t->time_ns);
        flxi_add_char(out, '}');
    }
    flxi_add_char(out, ']');
}

void flxi_events_json(const flxi_program *m, const flx_run_trace *trace, flxi_strbuf *out)
{
    size_t n = trace->num_events < trace->event_capacity ? trace->num_events : trace->event_capacity, written = 0;
    flxi_add_char(out, '[');
    for (size_t i = 0; i < n && written < FLXI_VIEW_EVENTS; i++) {
        const flx_step_event *e = &trace->events[i];
        if (e->step >= m->all_steps.n) /* the trace is of another executable */
            continue;
        flxi_addf(out, "%s%lld,%lld,%u,%u", written ? "," : "", (long long)e->start_ns, (long long)e->time_ns, e->step,
                  e->thread);
        written++;
    }
    flxi_addf(out, "],\"left_out\":%zu", trace->num_events - written);
}

static void add_slot(const flxi_routine *l, const flxi_slot *s, flxi_strbuf *out)
{
    const flxi_value *v = flxi_value_at(l->g, s->value);
    flxi_type_text type;
    flxi_addf(out, "[%zu,%zu,%u,%u,%u,", s->offset, s->nbytes, s->from, s->to, v->node);
    flxi_json_string(out, v->name ? v->name : flxi_ops[flxi_node_at(l->g, v->node)->op].name);
    flxi_add_char(out, ',');
    flxi_json_string(out, flxi_type_str(l->g->ctx, v->type, &type));
    flxi_add_char(out, ']');
}

void flxi_memory_json(const flxi_program *m, flxi_strbuf *out)
{
    const flxi_routine *l = m->main;
    bool is_first = true;
    flxi_addf(out, "{\"bytes\":%zu,\"live\":%zu,\"steps\":[", l->arena_bytes, l->max_live);
    for (uint32_t i = 0; i < l->num_steps; i++)
        flxi_addf(out, "%s%u", i ? "," : "", l->steps[i].number);
    flxi_add_text(out, "],\"slots\":[");
    for (uint32_t i = 0; i < l->num_slots; i++) {
        if (l->slots[i].segment != SEGMENT_ARENA || l->slots[i].nbytes == 0)
            continue;
        flxi_add_text(out, is_first ? "\n" : ",\n");
        add_slot(l, &l->slots[i], out);
        is_first = false;
    }
    for (uint32_t i = 0; i < l->num_steps; i++) {
        if (l->steps[i].scratch == 0)
            continue;
        flxi_addf(out, "%s[%zu,%zu,%u,%u,%u,\"scratch\",\"\"]", is_first ? "\n" : ",\n", l->steps[i].scratch_offset,
                  l->steps[i].scratch, i, i, l->steps[i].node);
        is_first = false;
    }
    flxi_add_text(out, "]}");
}
