/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reverse.c: the reverse of a normalised program, in one body: the forward part, then its statements backwards.

   Values. In the emitted code the successive values of a variable are separate variables, so overwriting does no harm.
   Variables inside an if or a loop are out of scope in its reverse, so the reverse of a branch or of an iteration first
   runs a copy of it again (without stores and barriers) from the values at its entry. For a branch these are still in
   scope; for an iteration they come from a tape, written while the loop ran. A loop inside is replayed with its
   iteration, so its tape is reused: memory adds up over nesting levels instead of multiplying. Loads from memory that
   may have changed since are not repeated: their values are taped, one slot per execution.

   Adjoints. Each active variable has one adjoint; an assignment takes it, clears it and passes it on. Since a branch or
   an iteration is reversed in the same way, joins need no special treatment: the adjoint is a variable that lives
   outside. */
#include "kernel/derive/reverse/kernel_reverser.h"

/* ---- Adding to adjoints ---- */

/* Variable 0 means none: the target of the term has no derivative. */
static void add_bar(flxi_kreverser *g, uint32_t var, uint32_t term)
{
    char name[120];
    if (!flxi_krev_ok(g) || !var || !term)
        return;
    uint32_t sum = g->bar[var] ? flxi_kb_binary(g->b, KBIN_add, g->bar[var], term) : term;
    g->bar[var] = flxi_krev_let(g, flxi_krev_bar_name(g, var, name, sizeof name), sum);
}

/* Sums value over the workgroup in shared memory; the first invocation holds the sum. */
static uint32_t workgroup_sum(flxi_kreverser *g, uint32_t value)
{
    flxi_kb *b = g->b;
    uint32_t type = flxi_kb_type(b, value), size = flxi_kernel_workgroup(g->k);
    uint32_t *shared = &g->shared[type == FLX_F64];
    if (*shared)
        flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    else
        *shared = flxi_kb_buffer(b, &(flxi_kbuffer){.name = flxi_kb_fresh_name(b, "sums"),
                                                    .access = FLX_KERNEL_WORKGROUP,
                                                    .element = (uint8_t)type,
                                                    .count = size});
    uint32_t local[3];
    for (uint32_t a = 0; a < 3; a++)
        local[a] = flxi_kb_id(b, FLX_KERNEL_LOCAL_ID, a);
    uint32_t plane =
        flxi_kb_binary(b, KBIN_add, flxi_kb_binary(b, KBIN_mul, local[2], flxi_kb_u32(b, g->k->size[1])), local[1]);
    uint32_t row = flxi_kb_binary(b, KBIN_mul, plane, flxi_kb_u32(b, g->k->size[0]));
    uint32_t lane = flxi_krev_let(g, "lane", flxi_kb_binary(b, KBIN_add, row, local[0]));
    flxi_kb_store(b, *shared, lane, value);
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    uint32_t levels = 0;
    while ((UINT32_C(1) << levels) < size)
        levels++;
    uint32_t level = flxi_kb_loop(b, flxi_kb_fresh_name(b, "level"), flxi_kb_u32(b, 0), flxi_kb_u32(b, levels));
    uint32_t one = flxi_kb_u32(b, 1);
    uint32_t reach = flxi_krev_let(g, "reach", flxi_kb_binary(b, KBIN_shl, one, flxi_kb_var(b, level)));
    uint32_t partner = flxi_krev_let(g, "partner", flxi_kb_binary(b, KBIN_add, lane, reach));
    uint32_t below = flxi_kb_binary(b, KBIN_sub, flxi_kb_binary(b, KBIN_shl, reach, one), one);
    uint32_t leads = flxi_kb_binary(b, KBIN_eq, flxi_kb_binary(b, KBIN_bit_and, lane, below), flxi_kb_u32(b, 0));
    flxi_kb_if(b,
               flxi_kb_binary(b, KBIN_logical_and, leads, flxi_kb_binary(b, KBIN_lt, partner, flxi_kb_u32(b, size))));
    flxi_kb_store(b, *shared, lane,
                  flxi_kb_binary(b, KBIN_add, flxi_kb_load(b, *shared, lane), flxi_kb_load(b, *shared, partner)));
    flxi_kb_end(b);
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    flxi_kb_end(b);
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_eq, lane, flxi_kb_u32(b, 0)));
    return flxi_kb_load(b, *shared, flxi_kb_u32(b, 0));
}

/* Adjoints are computed in f32 or f64, whatever the element type of their buffer. */
static uint32_t load_adjoint(flxi_kreverser *g, uint32_t buffer, uint32_t index)
{
    uint32_t type = flxi_kernel_adjoint_type(g->k->buffers[buffer].element);
    return flxi_kb_cast(g->b, type, flxi_kb_load(g->b, g->adjoint[buffer], index));
}

static void store_adjoint(flxi_kreverser *g, uint32_t buffer, uint32_t index, uint32_t value)
{
    uint32_t element = flxi_ktype_of(g->b->buffers.at[g->adjoint[buffer]].element)->value;
    flxi_kb_store(g->b, g->adjoint[buffer], index, flxi_kb_cast(g->b, element, value));
}

/* Without float atomics: kept for a kernel that adds in order, which runs too late if this one reads the sum. */
static void add_later(flxi_kreverser *g, const flxi_kstep *step, uint32_t buffer, uint32_t index, uint32_t term)
{
    if (g->w->buffers[buffer].last_write == 0) {
        flxi_krev_contribute(g, step, g->adjoint[buffer], index, term);
        return;
    }
    flxi_kernel_fail(&g->b->err, "deterministic", "drop the option, or let each invocation use different elements",
                     "'%.80s' is written, and its adjoint receives contributions from several invocations",
                     g->k->buffers[buffer].name);
}

/* adjoint[index] += term, in whichever way is safe. */
static void add_to_buffer(flxi_kreverser *g, const flxi_kstep *step, uint32_t buffer, uint32_t index, uint32_t term)
{
    flxi_kb *b = g->b;
    uint32_t to = g->adjoint[buffer];
    if (!flxi_krev_ok(g) || !to)
        return;
    if (g->is_plain[buffer]) {
        bool overwrites = (g->q->options->flags & FLX_KERNEL_OVERWRITE) && g->q->inputs[buffer];
        uint32_t sum = overwrites ? term : flxi_kb_binary(b, KBIN_add, load_adjoint(g, buffer, index), term);
        store_adjoint(g, buffer, index, sum);
        return;
    }
    /* A load at the top reads one element for the whole workgroup: one addition serves all. */
    bool is_shared = !step->parent && flxi_kernel_workgroup(g->k) > 1 &&
                     flxi_kernel_is_group_leaf(g->w, g->k->exprs[step->s->a].x[0]);
    if (is_shared)
        term = workgroup_sum(g, term);
    if (g->q->options->flags & FLX_KERNEL_DETERMINISTIC)
        add_later(g, step, buffer, index, term);
    else
        flxi_kb_effect(b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_ADD, to, index, term, 0, FLX_KERNEL_RELAXED));
    if (is_shared)
        flxi_kb_end(b);
}

/* ---- The reverse part ---- */

static void refuse_expr(flxi_kreverser *g, const flxi_kstep *step, const flxi_kx *e)
{
    char path[120];
    if (!flxi_krev_ok(g))
        return;
    flxi_kernel_refuse(g->k, e, &g->b->err);
    flxi_at(&g->b->err, "%s", flxi_kflow_path(g->w, step, path, sizeof path));
}

/* The adjoint of values that lanes read from this one. */
static uint32_t reverse_shuffle(flxi_kreverser *g, uint32_t lane_read, uint32_t bar)
{
    flxi_kb *b = g->b;
    uint32_t own = flxi_krev_let(g, "lane", flxi_kb_lane(b));
    uint32_t sum = flxi_krev_new_var(g, "from_lanes", flxi_krev_zero(g, flxi_kb_type(b, bar)));
    uint32_t reader =
        flxi_kb_var(b, flxi_kb_loop(b, flxi_kb_fresh_name(b, "reader"), flxi_kb_u32(b, 0), flxi_kb_lanes(b)));
    uint32_t reads = flxi_krev_let(g, "reads", flxi_kb_subgroup_shuffle(b, lane_read, reader));
    uint32_t theirs = flxi_krev_let(g, "theirs", flxi_kb_subgroup_shuffle(b, bar, reader));
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_eq, reads, own));
    flxi_kb_assign(b, sum, flxi_kb_binary(b, KBIN_add, flxi_kb_var(b, sum), theirs));
    flxi_kb_end(b);
    flxi_kb_end(b);
    return flxi_kb_var(b, sum);
}

static void reverse_call(flxi_kreverser *g, const flxi_kstep *step, const flxi_kx *e, const flxi_kpast *p, uint32_t bar)
{
    const flxi_kfn *f = &g->k->fns[e->ref];
    uint32_t *args = SCRATCH(g, uint32_t, f->num_params + 2);
    if (!args)
        return;
    memcpy(args, p->args, f->num_params * sizeof *args);
    args[f->num_params] = p->z;
    for (uint32_t i = 0; i < e->num_args; i++) {
        uint32_t to = flxi_kflow_active_leaf(g->w, e->args[i]);
        uint32_t fn = flxi_kernel_adjoint_fn(g->k, e->ref, i);
        if (to && !fn) {
            refuse_expr(g, step, e);
            return;
        }
        if (!to)
            continue;
        const flxi_kfn *rule = &g->k->fns[fn];
        args[f->num_params + 1] = flxi_kb_cast(g->b, g->k->vars[rule->params[f->num_params + 1]].type, bar);
        uint32_t term = flxi_kernel_inline_call(g->b, g->k, fn, args, &g->b->err);
        add_bar(g, to, flxi_kb_cast(g->b, flxi_krev_bar_type(g, to), term));
    }
}

/* The caller's copy of a value, if any. */
static uint32_t saved_value(const flxi_kreverser *g, uint32_t value)
{
    const flxi_kx *e = flxi_kb_expr(g->b, value);
    for (size_t i = g->saved.n; e->kind == KX_VAR && i-- > 0;)
        if (g->saved.at[i].var == e->ref)
            return g->saved.at[i].value;
    return value;
}

/* Operands and result in the type that derivatives are computed in. */
static flxi_ksite site_of(flxi_kreverser *g, const flxi_kx *e, const flxi_kpast *p)
{
    flxi_ksite s = {.b = g->b, .e = e, .type = flxi_kernel_adjoint_type(e->type)};
    s.ties_left = (g->q->options->flags & FLX_KERNEL_TIES_LEFT) != 0;
    for (int i = 0; i < flxi_kx_operands(e); i++) {
        bool is_float = flxi_ktype_is_float(flxi_kb_type(g->b, p->x[i]));
        s.x[i] =
            is_float && e->kind != KX_CAST ? flxi_krev_let(g, "wide", flxi_kb_cast(g->b, s.type, p->x[i])) : p->x[i];
    }
    s.z = flxi_krev_let(g, "wide", flxi_kb_cast(g->b, s.type, saved_value(g, p->z)));
    return s;
}

static void reverse_operation(flxi_kreverser *g, const flxi_kstep *step, const flxi_kx *e, const flxi_kpast *p,
                              uint32_t bar)
{
    flxi_ksite site = site_of(g, e, p);
    for (int i = 0; i < flxi_kx_operands(e) && flxi_krev_ok(g); i++) {
        uint32_t to = flxi_kflow_active_leaf(g->w, e->x[i]);
        flxi_kpass pass = to ? flxi_kernel_pass(g->k, e, i) : KPASS_NONE;
        if (pass == KPASS_REFUSED)
            refuse_expr(g, step, e);
        if (pass == KPASS_RULE)
            add_bar(g, to, flxi_kb_cast(g->b, flxi_krev_bar_type(g, to), flxi_kernel_partial(&site, i, bar)));
    }
}

static void reverse_let(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    const flxi_ks *s = step->s;
    const flxi_kx *e = &g->k->exprs[s->a];
    uint32_t bar = g->bar[s->var];
    g->bar[s->var] = 0;
    if (!bar)
        return;
    uint32_t from = flxi_kflow_active_leaf(g->w, flxi_kx_is_leaf(e) ? s->a : e->x[0]);
    switch ((flxi_kx_kind)e->kind) {
    case KX_VAR: add_bar(g, from, bar); break;
    case KX_LOAD:
        if (flxi_kflow_buffer_is_active(g->w, e->ref))
            add_to_buffer(g, step, e->ref, p->x[0], bar);
        break;
    case KX_SUBGROUP_ADD: add_bar(g, from, flxi_krev_let(g, "sum", flxi_kb_subgroup_add(g->b, bar))); break;
    case KX_SUBGROUP_SHUFFLE: add_bar(g, from, reverse_shuffle(g, p->x[1], bar)); break;
    case KX_CALL: reverse_call(g, step, e, p, bar); break;
    case KX_ATOMIC:
    case KX_OPAQUE: refuse_expr(g, step, e); break;
    default: reverse_operation(g, step, e, p, bar);
    }
}

static void reverse_assign(flxi_kreverser *g, const flxi_kstep *step)
{
    uint32_t bar = g->bar[step->s->var];
    uint32_t to = flxi_kflow_active_leaf(g->w, step->s->a);
    g->bar[step->s->var] = 0;
    if (bar && to)
        add_bar(g, to, bar);
}

static void reverse_store(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    const flxi_ks *s = step->s;
    uint32_t to = flxi_kflow_active_leaf(g->w, s->b), from = g->adjoint[s->buffer];
    if (!from)
        return;
    uint32_t bar = 0;
    if (to && !flxi_ktype_of(g->k->buffers[s->buffer].element)->storage) {
        char name[120];
        bar = flxi_krev_let(g, flxi_krev_bar_name(g, to, name, sizeof name), load_adjoint(g, s->buffer, p->x[0]));
    }
    if (!g->is_written_once[s->buffer])
        store_adjoint(g, s->buffer, p->x[0],
                      flxi_krev_zero(g, flxi_kernel_adjoint_type(g->k->buffers[s->buffer].element)));
    add_bar(g, to, bar);
}

/* Only additions whose result is not used propagate derivatives. */
static void reverse_atomic(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    const flxi_kx *e = &g->k->exprs[step->s->a];
    bool is_sum = e->op == FLX_KERNEL_ATOMIC_ADD || e->op == FLX_KERNEL_ATOMIC_SUB;
    if (!is_sum || (step->s->kind == KS_LET && flxi_kflow_var_is_active(g->w, step->s->var))) {
        refuse_expr(g, step, e);
        return;
    }
    uint32_t to = flxi_kflow_active_leaf(g->w, e->x[1]);
    if (!to || !g->adjoint[e->ref])
        return;
    uint32_t bar = load_adjoint(g, e->ref, p->x[0]);
    add_bar(g, to, e->op == FLX_KERNEL_ATOMIC_SUB ? flxi_kb_unary(g->b, KUN_neg, bar) : bar);
}

/* ---- Reversing branches and loops ---- */

static void reverse_list(flxi_kreverser *g, flxi_ksteps steps, const flxi_kpast *trace);

/* Active variables from outside that a body reads or assigns: their adjoints change in its reverse. */
static flxi_knumbers touched_by(flxi_kreverser *g, const flxi_kstep *step)
{
    uint32_t *list = SCRATCH(g, uint32_t, step->reads.n + step->writes.n);
    size_t n = 0;
    for (size_t i = 0; list && i < step->writes.n; i++)
        if (flxi_kflow_var_is_active(g->w, step->writes.at[i]))
            list[n++] = step->writes.at[i];
    size_t written = n;
    for (size_t i = 0; list && i < step->reads.n; i++) {
        bool is_new = flxi_kflow_var_is_active(g->w, step->reads.at[i]);
        for (size_t j = 0; j < written; j++)
            is_new &= list[j] != step->reads.at[i];
        if (is_new)
            list[n++] = step->reads.at[i];
    }
    return (flxi_knumbers){list, n};
}

/* A variable for each adjoint, initialised to its value before the body's reverse. */
static uint32_t *outer_bars(flxi_kreverser *g, flxi_knumbers touched)
{
    uint32_t *outer = SCRATCH(g, uint32_t, touched.n);
    for (size_t i = 0; outer && i < touched.n; i++) {
        char name[120];
        uint32_t var = touched.at[i];
        uint32_t bar = g->bar[var] ? g->bar[var] : flxi_krev_zero(g, flxi_krev_bar_type(g, var));
        outer[i] = flxi_krev_new_var(g, flxi_krev_bar_name(g, var, name, sizeof name), bar);
    }
    return outer;
}

/* Replays a body from its entry values, which `now` holds, and reverses it. */
static void reverse_body(flxi_kreverser *g, flxi_ksteps body, flxi_knumbers touched, const uint32_t *outer)
{
    flxi_kpast *trace = SCRATCH(g, flxi_kpast, body.n);
    uint32_t *entry = SCRATCH(g, uint32_t, touched.n);
    if (!trace || !entry)
        return;
    for (size_t i = 0; i < touched.n; i++) {
        char name[120];
        uint32_t var = touched.at[i];
        uint32_t copy =
            flxi_krev_new_var(g, flxi_krev_bar_name(g, var, name, sizeof name), flxi_kb_var(g->b, outer[i]));
        g->bar[var] = entry[i] = flxi_kb_var(g->b, copy);
    }
    flxi_krev_mode before = g->mode;
    g->mode = MODE_REPLAY;
    flxi_krev_forward(g, body, trace);
    reverse_list(g, body, trace);
    g->mode = before;
    for (size_t i = 0; i < touched.n && flxi_krev_ok(g); i++) {
        uint32_t var = touched.at[i];
        uint32_t bar = g->bar[var] ? g->bar[var] : flxi_krev_zero(g, flxi_krev_bar_type(g, var));
        if (bar != entry[i])
            flxi_kb_assign(g->b, outer[i], bar);
    }
}

static void enter_values(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    for (size_t i = 0; i < step->reads.n; i++)
        g->now[step->reads.at[i]] = p->reads[i];
    for (size_t i = 0; i < step->writes.n; i++)
        g->now[step->writes.at[i]] = p->writes[i];
}

static void take_bars(flxi_kreverser *g, flxi_knumbers touched, const uint32_t *outer)
{
    for (size_t i = 0; i < touched.n; i++)
        g->bar[touched.at[i]] = flxi_kb_var(g->b, outer[i]);
}

static void reverse_if(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    flxi_knumbers touched = touched_by(g, step);
    uint32_t *outer = touched.at ? outer_bars(g, touched) : NULL;
    if (!outer)
        return;
    flxi_kb_if(g->b, p->x[0]);
    enter_values(g, step, p);
    reverse_body(g, step->body, touched, outer);
    flxi_kb_else(g->b);
    enter_values(g, step, p);
    reverse_body(g, step->other, touched, outer);
    flxi_kb_end(g->b);
    take_bars(g, touched, outer);
}

static void reverse_loop(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    flxi_kb *b = g->b;
    flxi_knumbers touched = touched_by(g, step);
    uint32_t *outer = touched.at ? outer_bars(g, touched) : NULL;
    if (!outer)
        return;
    uint32_t back = flxi_kb_loop(b, flxi_kb_fresh_name(b, "back"), flxi_kb_u32(b, 0), p->trips);
    uint32_t last = flxi_kb_binary(b, KBIN_sub, p->trips, flxi_kb_u32(b, 1));
    uint32_t k = flxi_krev_let(g, "k", flxi_kb_binary(b, KBIN_sub, last, flxi_kb_var(b, back)));
    enter_values(g, step, p);
    g->iteration[step->number] = k;
    const flxi_kx *from = flxi_kb_expr(b, p->from);
    bool from_zero = from->kind == KX_LITERAL && from->bits == 0;
    g->now[step->s->var] =
        from_zero ? k : flxi_krev_let(g, flxi_krev_name(g, step->s->var), flxi_kb_binary(b, KBIN_add, p->from, k));
    bool is_rerun = flxi_krev_is_rerun(step);
    if (is_rerun)
        flxi_krev_rerun(g, step, p);
    for (size_t i = 0; !is_rerun && i < step->writes.n && flxi_krev_ok(g); i++)
        g->now[step->writes.at[i]] = flxi_krev_restore(g, p->tape + i, k, flxi_krev_name(g, step->writes.at[i]));
    reverse_body(g, step->body, touched, outer);
    flxi_kb_end(b);
    take_bars(g, touched, outer);
}

static void reverse_step(flxi_kreverser *g, const flxi_kstep *step, const flxi_kpast *p)
{
    const flxi_ks *s = step->s;
    if (s->kind == KS_BARRIER || (step->has_barrier && !step->is_active)) {
        flxi_kb_barrier(g->b, step->has_grid_barrier ? FLX_KERNEL_GRID : FLX_KERNEL_ACQ_REL);
        return;
    }
    if (!step->is_active)
        return;
    if (g->k->exprs[s->a].kind == KX_ATOMIC && s->kind != KS_STORE) {
        reverse_atomic(g, step, p);
        return;
    }
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET: reverse_let(g, step, p); break;
    case KS_ASSIGN: reverse_assign(g, step); break;
    case KS_STORE: reverse_store(g, step, p); break;
    case KS_IF: reverse_if(g, step, p); break;
    case KS_LOOP: reverse_loop(g, step, p); break;
    default: break;
    }
}

static void reverse_list(flxi_kreverser *g, flxi_ksteps steps, const flxi_kpast *trace)
{
    for (size_t i = steps.n; i-- > 0 && flxi_krev_ok(g);)
        reverse_step(g, &steps.at[i], &trace[i]);
}

/* ---- The whole ---- */

static bool start(flxi_kreverser *g, flx_error *err)
{
    const flx_kernel *k = g->k;
    g->b = flxi_kb_like(k, err);
    if (!g->b)
        return false;
    g->now = SCRATCH(g, uint32_t, k->num_vars + 1);
    g->bar = SCRATCH(g, uint32_t, k->num_vars + 1);
    g->site_tapes = SCRATCH(g, size_t, k->num_vars + 1);
    g->iteration = SCRATCH(g, uint32_t, g->w->num_loops + 1);
    g->radix = SCRATCH(g, uint32_t, g->w->num_loops + 1);
    g->primal = SCRATCH(g, uint32_t, k->num_buffers + 1);
    g->adjoint = SCRATCH(g, uint32_t, k->num_buffers + 1);
    g->is_plain = SCRATCH(g, uint8_t, k->num_buffers + 1);
    g->is_written_once = SCRATCH(g, uint8_t, k->num_buffers + 1);
    g->keeps_stores = SCRATCH(g, uint8_t, k->num_buffers + 1);
    for (uint32_t i = 1; i <= k->num_buffers; i++) /* reserve the names of all forward buffers */
        flxi_kb_text(g->b, k->buffers[i].name, strlen(k->buffers[i].name));
    if (flxi_krev_ok(g))
        flxi_krev_decide_buffers(g);
    if (flxi_krev_ok(g))
        flxi_krev_declare_buffers(g);
    flxi_kb_copy_opaques(g->b, k);
    if (flxi_krev_ok(g))
        flxi_kernel_copy_functions(g->b, k);
    return true;
}

static void load_radices(flxi_kreverser *g, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n && flxi_krev_ok(g); i++) {
        const flxi_kstep *step = &steps.at[i];
        if (step->s->kind == KS_LOOP && flxi_kernel_trip_bound(g->w, step) == UINT64_MAX)
            g->radix[step->number] =
                flxi_krev_let(g, "most", flxi_kb_load(g->b, g->counts, flxi_kb_u32(g->b, step->number - 1)));
        load_radices(g, step->body);
        load_radices(g, step->other);
    }
}

static void emit_gradient(flxi_kreverser *g)
{
    bool is_open = flxi_krev_has_unknown_trips(g->w, g->w->top);
    if (is_open && g->q->options->max_trips)
        g->overflow = flxi_krev_declare_words(g, FLXI_KERNEL_OVERFLOW, FLX_KERNEL_READ_WRITE, 0, 1);
    else if (is_open)
        g->counts = flxi_krev_declare_words(g, FLXI_KERNEL_COUNTS, FLX_KERNEL_READ, 0, g->w->num_loops);
    flxi_krev_find_sites(g, g->w->top);
    if (!flxi_krev_ok(g))
        return;
    flxi_krev_find_self(g);
    if (g->counts)
        load_radices(g, g->w->top);
    flxi_kpast *trace = SCRATCH(g, flxi_kpast, g->w->top.n);
    if (!trace)
        return;
    flxi_krev_forward(g, g->w->top, trace);
    reverse_list(g, g->w->top, trace);
    for (size_t i = 0; i < g->tapes.n && flxi_krev_ok(g); i++)
        flxi_krev_tell_tape_length(g, &g->tapes.at[i]);
}

static flx_kernel *make_gradient(const flxi_kreverse_request *q, flxi_arena *arena, flxi_kreverse_result *out,
                                 flx_error *err)
{
    flxi_kreverser g = {.q = q, .k = q->k, .w = q->w, .arena = arena, .mode = MODE_FORWARD};
    if (!start(&g, err))
        return NULL;
    if (flxi_krev_ok(&g))
        emit_gradient(&g);
    out->num_tapes = g.tapes.n;
    out->tapes = flxi_dup(arena, flxi_ktape, g.tapes.at, g.tapes.n);
    out->is_scratch = SCRATCH(&g, uint8_t, g.b->buffers.n);
    flxi_krev_check(&g, out->tapes);
    for (size_t i = 1; out->is_scratch && i < g.b->buffers.n; i++)
        out->is_scratch[i] = 1;
    for (size_t i = 0; out->is_scratch && i < g.asked.n; i++)
        out->is_scratch[g.asked.at[i]] = 0;
    flxi_vec_free(flxi_kernel_mem(q->k), &g.asked);
    flxi_vec_free(flxi_kernel_mem(q->k), &g.saved);
    flxi_vec_free(flxi_kernel_mem(q->k), &g.tapes);
    return flxi_kb_finish(g.b, err);
}

static flx_kernel *make_counting(const flxi_kreverse_request *q, flxi_arena *arena, flx_error *err)
{
    flxi_kreverser g = {.q = q, .k = q->k, .w = q->w, .arena = arena, .mode = MODE_COUNT};
    if (!start(&g, err))
        return NULL;
    if (flxi_krev_ok(&g)) {
        g.counts =
            flxi_krev_declare_words(&g, FLXI_KERNEL_COUNTS, FLX_KERNEL_READ_WRITE, FLX_KERNEL_OUTPUT, q->w->num_loops);
        flxi_krev_forward(&g, q->w->top, NULL);
    }
    flxi_vec_free(flxi_kernel_mem(q->k), &g.asked);
    return flxi_kb_finish(g.b, err);
}

flx_code flxi_kernel_reverse(const flxi_kreverse_request *q, flxi_arena *arena, flxi_kreverse_result *out,
                             flx_error *err)
{
    flx_error local = {0};
    *out = (flxi_kreverse_result){0};
    out->gradient = make_gradient(q, arena, out, &local);
    if (out->gradient && q->kept && !q->options->max_trips && flxi_krev_has_unknown_trips(q->w, q->w->top)) {
        out->counting = make_counting(q, arena, &local);
        if (!out->counting) {
            flx_kernel_release(out->gradient);
            out->gradient = NULL;
        }
    }
    if (err)
        *err = local;
    return (flx_code)local.code;
}
