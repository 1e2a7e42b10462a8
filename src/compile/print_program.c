/* SPDX-License-Identifier: Apache-2.0 */
/* print_program.c: steps as text: which kernel, route or op each is, what it reads and writes, and where; and
   the report that says why. */
#include "compile/budget/fit_memory.h"
#include "compile/program.h"

static const char *const kind_names[] = {
    [STEP_KERNEL] = "kernel", [STEP_ROUTE] = "route", [STEP_EVALUATE] = "evaluate",
    [STEP_COPY] = "copy",     [STEP_SCAN] = "scan",   [STEP_WHILE] = "while",
    [STEP_BRANCH] = "branch", [STEP_CALL] = "call",   [STEP_DISPATCH] = "dispatch",
};

const char *flxi_step_kind_name(const flxi_routine *l, const flxi_step *s)
{
    return flxi_step_is_emitted(l, s) ? "emitted" : kind_names[s->kind];
}

static const char *op_name(const flxi_routine *l, uint32_t node)
{
    return flxi_ops[flxi_node_at(l->g, node)->op].name;
}

static void print_slot(const flxi_routine *l, uint32_t slot, flxi_strbuf *out)
{
    static const char *const segments[] = {"arena", "input", "const", "output"};
    const flxi_slot *s = &l->slots[slot];
    const char *name = flxi_value_at(l->g, s->value)->name;
    flxi_type_text text;
    flxi_addf(out, "%%%u", slot);
    if (name)
        flxi_addf(out, " %s", name);
    flxi_addf(out, ": %s @%s", flxi_type_str(l->g->ctx, flxi_type_at(l->g, s->value), &text), segments[s->segment]);
    if (s->segment == SEGMENT_ARENA)
        flxi_addf(out, "+%zu", s->offset);
    else if (s->segment != SEGMENT_CONST)
        flxi_addf(out, " %u", s->index);
}

static void print_slots(const flxi_program *m, const flxi_routine *l, const flxi_step *s, bool written,
                        flxi_strbuf *out)
{
    bool is_first = true;
    for (uint32_t k = 0; k < s->num_slots; k++) {
        if (flxi_step_writes(m, s, k) != written)
            continue;
        flxi_add_text(out, is_first ? "" : ", ");
        print_slot(l, s->slots[k], out);
        is_first = false;
    }
}

static void indent(int depth, flxi_strbuf *out)
{
    for (int i = 0; i < depth; i++)
        flxi_add_text(out, "  ");
}

typedef struct {
    const flxi_program *m;
    bool is_explained;
    bool *is_printed; /* by routine */
    flxi_strbuf *out;
} printing;

static void print_block(const printing *p, const flxi_routine *l, int depth);

static void explain(const flxi_step *s, int depth, flxi_strbuf *out)
{
    indent(depth, out);
    flxi_add_text(out, "computes ");
    flxi_add_text(out, s->computes);
    flxi_add_char(out, '\n');
    if (!s->why[0])
        return;
    indent(depth, out);
    flxi_add_text(out, "because ");
    flxi_add_text(out, s->why);
    flxi_add_char(out, '\n');
}

static void print_step(const printing *p, const flxi_routine *l, uint32_t i, int depth)
{
    const flxi_step *s = &l->steps[i];
    const flxi_program *m = p->m;
    flxi_strbuf *out = p->out;
    indent(depth, out);
    flxi_addf(out, "%u: ", i);
    print_slots(m, l, s, true, out);
    flxi_addf(out, " = %s ", flxi_step_kind_name(l, s));
    if (s->kind == STEP_KERNEL || s->kind == STEP_DISPATCH)
        flxi_addf(out, "%u '%s' grid [%u, %u, %u]", s->kernel, m->kernels.at[s->kernel].kernel->name, s->grid[0],
                  s->grid[1], s->grid[2]);
    else if (s->kind == STEP_ROUTE && !flxi_step_is_emitted(l, s))
        flxi_addf(out, "%s by %s", op_name(l, s->node), s->way->name);
    else
        flxi_add_text(out, op_name(l, s->node));
    flxi_add_text(out, "(");
    print_slots(m, l, s, false, out);
    flxi_add_text(out, ")");
    if (s->parts > 1)
        flxi_add_counts(out, " in %u parts of the examples", s->parts);
    if (s->workers)
        flxi_add_counts(out, ", %u steps at a time", s->workers);
    if (s->ends_before)
        flxi_addf(out, " beside steps up to %u", s->ends_before - 1);
    if (s->scratch)
        flxi_addf(out, " scratch %zu @arena+%zu", s->scratch, s->scratch_offset);
    flxi_add_char(out, '\n');
    if (p->is_explained)
        explain(s, depth + 2, out);
    for (uint32_t k = 0; k < s->num_bodies; k++)
        print_block(p, s->bodies[k], depth + 1);
}

static void print_views(const flxi_routine *l, int depth, flxi_strbuf *out)
{
    for (uint32_t i = 0; i < l->num_views; i++) {
        const char *name = flxi_value_at(l->g, flxi_node_at(l->g, l->views[i])->first)->name;
        if (i == 0)
            indent(depth, out);
        flxi_add_text(out, i == 0 ? "read in place: " : ", ");
        flxi_add_text(out, op_name(l, l->views[i]));
        flxi_add_text(out, name ? " " : "");
        flxi_add_text(out, name ? name : "");
    }
    if (l->num_views)
        flxi_add_char(out, '\n');
}

/* What runs the block at once, if something does. */
static const char *function_of(const flxi_routine *l)
{
    if (!l->chain || !l->chain->code)
        return "";
    return l->chain->loop ? ", one function with the loop around it" : ", one function";
}

static void print_block(const printing *p, const flxi_routine *l, int depth)
{
    indent(depth, p->out);
    if (p->is_printed[l->number]) {
        flxi_addf(p->out, "block %s: as above\n", l->g->name);
        return;
    }
    p->is_printed[l->number] = true;
    flxi_add_counts(p->out, "block %s: %u steps%s, arena %zu bytes (%zu alive at most)\n", l->g->name, l->num_steps,
                    function_of(l), l->arena_bytes, l->max_live);
    for (uint32_t i = 0; i < l->num_steps; i++)
        print_step(p, l, i, depth + 1);
    if (p->is_explained)
        print_views(l, depth + 1, p->out);
}

void flxi_routine_print(const flxi_program *m, const flxi_routine *l, bool is_explained, flxi_strbuf *out)
{
    bool *is_printed = flxi_alloc(m->mem, m->num_routines, sizeof *is_printed);
    out->failed |= !is_printed;
    if (is_printed)
        print_block(&(printing){m, is_explained, is_printed, out}, l, 0);
    flxi_free(m->mem, is_printed, m->num_routines, sizeof *is_printed);
}

/* ---- Report ---- */

enum { COUNT_EMITTED = STEP_DISPATCH + 1, COUNTS };

static void count_steps(const flxi_program *m, uint32_t counts[COUNTS])
{
    for (size_t i = 0; i < m->all_steps.n; i++) {
        const flxi_routine *l = m->all_steps.at[i].routine;
        const flxi_step *s = &l->steps[m->all_steps.at[i].step];
        counts[flxi_step_is_emitted(l, s) ? COUNT_EMITTED : s->kind]++;
    }
}

static void print_budget(const flxi_program *m, flxi_strbuf *out)
{
    uint32_t values;
    int64_t flops;
    flxi_routine_recomputed(m->main, &values, &flops);
    flxi_add_counts(
        out, "budget %lld bytes: %u values are computed again, %lld operations on floats more; %zu bytes without\n",
        (long long)m->options.memory_budget, values, (long long)flops, m->usual_bytes);
}

void flxi_program_report(const flxi_program *m, flxi_strbuf *out)
{
    uint32_t counts[COUNTS] = {0};
    count_steps(m, counts);
    flxi_add_counts(out, "device %s, %d threads, %zu different kernels, arena %zu bytes\n", m->device->name, m->threads,
                    m->kernels.n, m->main->arena_bytes);
    if (m->usual_bytes)
        print_budget(m, out);
    if (m->note[0])
        flxi_addf(out, "note: %s\n", m->note);
    for (int k = 0; k < COUNTS; k++)
        if (counts[k])
            flxi_addf(out, "%6u %s steps\n", counts[k], k == COUNT_EMITTED ? "emitted" : kind_names[k]);
    flxi_routine_print(m, m->main, true, out);
}
