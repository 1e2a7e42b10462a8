/* kernel_reverse.c: the reverse of a normalised program, in one body: the forward part, then its statements backwards.

   Values. In the emitted code a variable's successive values are separate variables, so that overwriting harms nothing.
   What stands inside an if or a loop is out of scope when its reverse comes, so the reverse of a branch or of an iteration
   first runs a copy of it again (without stores and barriers) from the values at its entry. For a branch these are still in
   scope; for an iteration they come from a tape, written while the loop ran. A loop inside is replayed with its iteration,
   so its tape is used again: memory adds up over nesting levels instead of multiplying. Loads from memory that may have
   changed since are not repeated: their values were taped, one slot per time they were executed.

   Adjoints. Each active variable has one adjoint; an assignment takes it, clears it and passes it on. Since a branch or an
   iteration is reversed in the same way, joins need nothing of their own: the adjoint is a variable that lives outside. */
#include "kernel/kernel_reverse.h"

#include "kernel/kernel_affine.h"
#include "kernel/kernel_normalise.h"

#include <stdio.h>

typedef enum {
    MODE_FORWARD, /* the real run: stores, barriers, recording of loads */
    MODE_REPLAY,  /* once more, from recorded values */
    MODE_COUNT,   /* the real run, only to count trips */
} emit_mode;

/* What a statement read and made when it was emitted, for its reverse. */
typedef struct {
    uint32_t x[3];
    uint32_t *args;
    uint32_t z;
    uint32_t from, trips;          /* of a loop */
    uint32_t *reads, *writes;      /* of an if or loop: values at its entry of the variables that its step lists */
    size_t tape;                   /* of a loop: the first of its tapes, one per variable in writes */
} past;

typedef struct {
    const flxi_kreverse_request *q;
    const flx_kernel *k;
    const flxi_kflow *w;
    flxi_arena *arena;
    flxi_kb *b;
    emit_mode mode;
    uint32_t *now;        /* of variables: the value, in the emitted program */
    uint32_t *bar;        /* of variables: the adjoint; 0 is zero */
    uint32_t *iteration;  /* of loops: the number of the iteration being emitted, from 0 */
    uint32_t *radix;      /* of loops: bound of its trips, an expression, made when needed */
    uint32_t *primal;     /* of buffers: the same in the emitted program, or 0 */
    uint32_t *adjoint;    /* of buffers: where its adjoint is, or 0 */
    uint8_t *is_plain;    /* of buffers: additions to its adjoint need no atomics */
    uint8_t *is_written_once; /* of buffers: stores need not clear the adjoint */
    uint8_t *keeps_stores;    /* of buffers: the forward part must write it */
    FLXI_VEC(uint32_t) asked; /* buffers of the emitted program whose contents matter afterwards */
    size_t *site_tapes;   /* of variables: number + 1 of the tape that keeps the load it is bound to */
    uint32_t counts;      /* the buffer with counted trips, or 0 */
    uint32_t overflow;    /* the buffer with the overflow flag, or 0 */
    uint32_t self, total; /* number of the invocation and how many there are, made when needed */
    uint32_t shared[2];   /* workgroup buffers for sums of f32 and f64, made when needed */
    FLXI_VEC(flxi_ktape) tapes;
} reverser;

static bool ok(const reverser *g)
{
    return flxi_kb_ok(g->b);
}

static void *scratch_failed(reverser *g, void *p)
{
    if (!p && ok(g))
        flxi_oom(&g->b->err, "the derivative of a kernel");
    return p;
}

#define SCRATCH(g, T, n) ((T *)scratch_failed((g), flxi_new((g)->arena, T, (n))))

/* ---- Small things to emit ---- */

static uint32_t let(reverser *g, const char *name, uint32_t value)
{
    if (!value || flxi_kx_is_leaf(flxi_kb_expr(g->b, value)))
        return value;
    return flxi_kb_var(g->b, flxi_kb_let(g->b, flxi_kb_fresh_name(g->b, name), value));
}

/* A variable of its own, also for a leaf. Gives its number. */
static uint32_t new_var(reverser *g, const char *name, uint32_t value)
{
    return flxi_kb_let(g->b, flxi_kb_fresh_name(g->b, name), value);
}

static uint32_t zero_of(reverser *g, uint32_t type)
{
    return flxi_kb_literal(g->b, type, 0);
}

static const char *name_of(const reverser *g, uint32_t var)
{
    return g->k->vars[var].name;
}

static uint32_t bar_type(const reverser *g, uint32_t var)
{
    return flxi_kernel_adjoint_type(g->k->vars[var].type);
}

static const char *bar_name(const reverser *g, uint32_t var, char *buffer, size_t size)
{
    snprintf(buffer, size, "bar_%.100s", name_of(g, var));
    return buffer;
}

/* ---- Tapes ---- */

/* What a variable that is never assigned stands for; anything else stands for itself. */
static const flxi_kx *definition(const flxi_kflow *w, const flxi_kx *e)
{
    if (e->kind != KX_VAR || w->vars[e->ref].is_assigned || !w->vars[e->ref].value)
        return e;
    return &w->k->exprs[w->vars[e->ref].value];
}

uint64_t flxi_kernel_trip_bound(const flxi_kflow *w, const flxi_kstep *loop)
{
    const flx_kernel *k = w->k;
    const flxi_kx *from = &k->exprs[loop->s->a], *to = &k->exprs[loop->s->b];
    if (from->kind == KX_LITERAL && to->kind == KX_LITERAL)
        return to->bits > from->bits ? to->bits - from->bits : 0;
    if (to->kind == KX_LITERAL)
        return to->bits;
    /* to = from + min(n, …), as cutting a loop into pieces makes it */
    const flxi_kx *sum = definition(w, to);
    if (sum->kind != KX_BINARY || sum->op != KBIN_add || sum->x[0] != loop->s->a)
        return UINT64_MAX;
    const flxi_kx *least = definition(w, &k->exprs[sum->x[1]]);
    if (least->kind != KX_BINARY || least->op != KBIN_min || k->exprs[least->x[0]].kind != KX_LITERAL)
        return UINT64_MAX;
    return k->exprs[least->x[0]].bits;
}

/* Adds the trips of one more loop to a tape's length. */
static void multiply_slots(reverser *g, flxi_ktape *t, const flxi_kstep *loop, uint32_t *counters)
{
    uint64_t trips = flxi_kernel_trip_bound(g->w, loop), slots;
    if (trips == UINT64_MAX && g->q->options->max_trips)
        trips = g->q->options->max_trips;
    if (trips == UINT64_MAX)
        counters[t->num_counters++] = loop->number;
    else if (!__builtin_mul_overflow(t->slots, trips ? trips : 1, &slots))
        t->slots = slots;
    else
        t->slots = UINT64_MAX;
}

static size_t depth_of(const flxi_kstep *loop)
{
    size_t n = 0;
    for (; loop; loop = loop->loop)
        n++;
    return n;
}

/* One more tape, of one slot; number + 1. */
static size_t add_tape(reverser *g, uint32_t type, const flxi_kstep *innermost, bool only_innermost)
{
    size_t number = g->tapes.n;
    flxi_ktape t = {.type = type, .slots = 1, .is_kept = true, .loop = only_innermost ? innermost : NULL};
    uint32_t *counters = SCRATCH(g, uint32_t, depth_of(innermost) + 1);
    if (!counters)
        return 0;
    t.counters = counters;
    for (const flxi_kstep *l = innermost; l; l = only_innermost ? NULL : l->loop)
        multiply_slots(g, &t, l, counters);
    if (g->q->kept) {
        t.is_kept = g->q->kept[number];
        t.is_private = g->q->is_private[number];
    }
    if (!flxi_push(flxi_kernel_mem(g->k), &g->tapes, t))
        scratch_failed(g, NULL);
    return number + 1;
}

static uint32_t linear_extent(reverser *g, uint32_t axis)
{
    uint32_t groups = flxi_kb_id(g->b, FLX_KERNEL_NUM_WORKGROUPS, axis);
    return flxi_kb_binary(g->b, KBIN_mul, groups, flxi_kb_u32(g->b, g->k->size[axis]));
}

/* The invocation's number, x fastest, and the number of invocations. Stands at the very top. Axes that the program does
   not mention have one invocation. */
static void find_self(reverser *g)
{
    flxi_kb *b = g->b;
    for (uint32_t a = 3; a-- > 0;) {
        if (!flxi_kernel_mentions_axis(g->k, a))
            continue;
        uint32_t id = flxi_kb_id(b, FLX_KERNEL_INVOCATION_ID, a), extent = linear_extent(g, a);
        g->self = g->self ? flxi_kb_binary(b, KBIN_add, flxi_kb_binary(b, KBIN_mul, g->self, extent), id) : id;
        g->total = g->total ? flxi_kb_binary(b, KBIN_mul, g->total, extent) : extent;
    }
    g->self = g->self ? let(g, "self", g->self) : flxi_kb_u32(b, 0);
    g->total = g->total ? let(g, "total", g->total) : flxi_kb_u32(b, 1);
}

static uint32_t tape_buffer(reverser *g, size_t tape)
{
    flxi_ktape *t = &g->tapes.at[tape];
    if (t->buffer)
        return t->buffer;
    char name[40];
    snprintf(name, sizeof name, "tape_%zu", tape);
    flxi_kbuffer buffer = {
        .name = flxi_kb_fresh_name(g->b, name),
        .access = t->is_private ? FLX_KERNEL_PRIVATE : FLX_KERNEL_READ_WRITE,
        .element = (uint8_t)t->type,
        .flags = t->is_private ? 0 : FLX_KERNEL_EXCLUSIVE,
        .count = t->is_private ? t->slots : 0,
        .binding = (uint32_t)g->b->buffers.n,
    };
    t->buffer = flxi_kb_buffer(g->b, &buffer);
    return t->buffer;
}

static uint32_t tape_index(reverser *g, size_t tape, uint32_t slot)
{
    if (g->tapes.at[tape].is_private)
        return slot;
    uint32_t row = flxi_kb_binary(g->b, KBIN_mul, slot, g->total);
    return let(g, "at", flxi_kb_binary(g->b, KBIN_add, row, g->self));
}

static void record(reverser *g, size_t tape, uint32_t slot, uint32_t value)
{
    if (ok(g) && g->tapes.at[tape].is_kept)
        flxi_kb_store(g->b, tape_buffer(g, tape), tape_index(g, tape, slot), value);
}

static uint32_t restore(reverser *g, size_t tape, uint32_t slot, const char *name)
{
    if (!ok(g) || !g->tapes.at[tape].is_kept)
        return ok(g) ? zero_of(g, g->tapes.at[tape].type) : 0;
    return let(g, name, flxi_kb_load(g->b, tape_buffer(g, tape), tape_index(g, tape, slot)));
}

/* At most this many trips, as an expression. */
static uint32_t radix_of(reverser *g, const flxi_kstep *loop)
{
    uint64_t trips = flxi_kernel_trip_bound(g->w, loop);
    if (trips == UINT64_MAX && g->q->options->max_trips)
        trips = g->q->options->max_trips;
    if (trips != UINT64_MAX)
        return flxi_kb_u32(g->b, (uint32_t)trips);
    return g->radix[loop->number];
}

/* Which of its slots a load uses now: the numbers of the iterations around it, read as digits. */
static uint32_t site_slot(reverser *g, const flxi_kstep *loop)
{
    if (!loop)
        return flxi_kb_u32(g->b, 0);
    uint32_t own = g->iteration[loop->number];
    if (!loop->loop)
        return own;
    uint32_t outer = site_slot(g, loop->loop);
    uint32_t row = flxi_kb_binary(g->b, KBIN_mul, outer, radix_of(g, loop));
    return let(g, "slot", flxi_kb_binary(g->b, KBIN_add, row, own));
}

/* ---- The forward part ---- */

static uint32_t length_of(reverser *g, uint32_t buffer)
{
    uint32_t same = g->primal[buffer] ? g->primal[buffer] : g->adjoint[buffer];
    return flxi_kb_length(g->b, same);
}

static uint32_t leaf(reverser *g, uint32_t expr)
{
    const flxi_kx *e = &g->k->exprs[expr];
    if (e->kind == KX_VAR)
        return g->now[e->ref];
    if (e->kind == KX_LENGTH)
        return length_of(g, e->ref);
    return expr ? flxi_kb_rebuild(g->b, e, NULL, NULL) : 0;
}

static bool read_operands(reverser *g, const flxi_kx *e, past *p)
{
    for (int i = 0; i < flxi_kx_operands(e); i++)
        p->x[i] = leaf(g, e->x[i]);
    if (e->num_args == 0)
        return true;
    p->args = SCRATCH(g, uint32_t, e->num_args);
    for (size_t i = 0; p->args && i < e->num_args; i++)
        p->args[i] = leaf(g, e->args[i]);
    return p->args != NULL;
}

/* The value of an expression of a let, from operands that are read already. */
static uint32_t value_of(reverser *g, const flxi_kx *e, const past *p)
{
    flxi_kx there = *e;
    if (e->kind == KX_LOAD || e->kind == KX_ATOMIC)
        there.ref = g->primal[e->ref];
    return flxi_kb_rebuild(g->b, &there, p->x, p->args);
}

static void forward_let(reverser *g, const flxi_kstep *step, past *p)
{
    const flxi_ks *s = step->s;
    const flxi_kx *e = &g->k->exprs[s->a];
    if (flxi_kx_is_leaf(e)) {
        p->x[0] = p->z = g->now[s->var] = leaf(g, s->a);
        return;
    }
    if (!read_operands(g, e, p))
        return;
    size_t tape = g->site_tapes[s->var];
    if (tape && g->mode == MODE_REPLAY) {
        g->now[s->var] = restore(g, tape - 1, site_slot(g, step->loop), name_of(g, s->var));
    } else {
        g->now[s->var] = let(g, name_of(g, s->var), value_of(g, e, p));
        if (tape && g->mode == MODE_FORWARD && g->tapes.at[tape - 1].is_kept)
            record(g, tape - 1, site_slot(g, step->loop), g->now[s->var]);
    }
    p->z = g->now[s->var];
}

static void forward_store(reverser *g, const flxi_kstep *step, past *p)
{
    const flxi_ks *s = step->s;
    p->x[0] = leaf(g, s->a);
    p->x[1] = leaf(g, s->b);
    if (g->mode != MODE_REPLAY && g->keeps_stores[s->buffer])
        flxi_kb_store(g->b, g->primal[s->buffer], p->x[0], p->x[1]);
}

static void forward_effect(reverser *g, const flxi_kstep *step, past *p)
{
    const flxi_kx *e = &g->k->exprs[step->s->a];
    if (!read_operands(g, e, p))
        return;
    if (g->mode != MODE_REPLAY && e->kind == KX_ATOMIC && g->keeps_stores[e->ref])
        flxi_kb_effect(g->b, value_of(g, e, p));
}

static uint32_t *values_now(reverser *g, flxi_knumbers vars)
{
    uint32_t *values = SCRATCH(g, uint32_t, vars.n);
    for (size_t i = 0; values && i < vars.n; i++)
        values[i] = g->now[vars.at[i]];
    return values;
}

static void forward_list(reverser *g, flxi_ksteps steps, past *trace);

/* Gives each variable its value at entry, runs the body, and hands the new values to the variables outside. */
static void forward_branch(reverser *g, const flxi_kstep *step, flxi_ksteps body, const past *p, const uint32_t *joined)
{
    for (size_t i = 0; i < step->writes.n; i++)
        g->now[step->writes.at[i]] = p->writes[i];
    forward_list(g, body, NULL);
    for (size_t i = 0; i < step->writes.n; i++)
        if (g->now[step->writes.at[i]] != p->writes[i])
            flxi_kb_assign(g->b, joined[i], g->now[step->writes.at[i]]);
}

static uint32_t *new_joined(reverser *g, const flxi_kstep *step)
{
    uint32_t *joined = SCRATCH(g, uint32_t, step->writes.n);
    for (size_t i = 0; joined && i < step->writes.n; i++) {
        uint32_t var = step->writes.at[i];
        joined[i] = new_var(g, name_of(g, var), g->now[var]);
    }
    return joined;
}

static void take_joined(reverser *g, const flxi_kstep *step, const uint32_t *joined)
{
    for (size_t i = 0; i < step->writes.n; i++)
        g->now[step->writes.at[i]] = flxi_kb_var(g->b, joined[i]);
}

static bool keep_entry(reverser *g, const flxi_kstep *step, past *p)
{
    p->reads = values_now(g, step->reads);
    p->writes = values_now(g, step->writes);
    return p->reads && p->writes;
}

static void forward_if(reverser *g, const flxi_kstep *step, past *p)
{
    p->x[0] = leaf(g, step->s->a);
    uint32_t *joined = keep_entry(g, step, p) ? new_joined(g, step) : NULL;
    if (!joined)
        return;
    flxi_kb_if(g->b, p->x[0]);
    forward_branch(g, step, step->body, p, joined);
    if (step->other.n) {
        flxi_kb_else(g->b);
        forward_branch(g, step, step->other, p, joined);
    }
    flxi_kb_end(g->b);
    take_joined(g, step, joined);
}

/* max(to - from, 0) */
static uint32_t trips_of(reverser *g, uint32_t from, uint32_t to)
{
    flxi_kb *b = g->b;
    const flxi_kx *f = flxi_kb_expr(b, from), *t = flxi_kb_expr(b, to);
    if (f->kind == KX_LITERAL && t->kind == KX_LITERAL)
        return flxi_kb_u32(b, t->bits > f->bits ? (uint32_t)(t->bits - f->bits) : 0);
    if (f->kind == KX_LITERAL && f->bits == 0)
        return to;
    uint32_t more = flxi_kb_binary(b, KBIN_gt, to, from);
    return let(g, "trips", flxi_kb_select(b, more, flxi_kb_binary(b, KBIN_sub, to, from), flxi_kb_u32(b, 0)));
}

/* Trips that are not known beforehand are counted, or compared with what the caller said. */
static void watch_trips(reverser *g, const flxi_kstep *step, uint32_t trips)
{
    flxi_kb *b = g->b;
    if (flxi_kernel_trip_bound(g->w, step) != UINT64_MAX)
        return;
    if (g->mode == MODE_COUNT) {
        uint32_t at = flxi_kb_u32(b, step->number - 1);
        flxi_kb_effect(b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_MAX, g->counts, at, trips, 0, FLX_KERNEL_RELAXED));
    } else if (g->mode == MODE_FORWARD && g->overflow) {
        flxi_kb_if(b, flxi_kb_binary(b, KBIN_gt, trips, flxi_kb_u32(b, g->q->options->max_trips)));
        flxi_kb_effect(b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_MAX, g->overflow, flxi_kb_u32(b, 0), trips, 0,
                                         FLX_KERNEL_RELAXED));
        flxi_kb_end(b);
    }
}

static void record_entry(reverser *g, const flxi_kstep *step, const past *p)
{
    for (size_t i = 0; i < step->writes.n && ok(g); i++)
        record(g, p->tape + i, g->iteration[step->number], g->now[step->writes.at[i]]);
}

/* The tapes of a loop are made where its reverse follows: once. */
static void add_loop_tapes(reverser *g, const flxi_kstep *step, past *p)
{
    p->tape = g->tapes.n;
    for (size_t i = 0; i < step->writes.n && ok(g); i++)
        add_tape(g, g->k->vars[step->writes.at[i]].type, step, true);
}

static void enter_iteration(reverser *g, const flxi_kstep *step, uint32_t from, uint32_t var)
{
    uint32_t v = flxi_kb_var(g->b, var);
    const flxi_kx *f = flxi_kb_expr(g->b, from);
    bool from_zero = f->kind == KX_LITERAL && f->bits == 0;
    g->now[step->s->var] = v;
    g->iteration[step->number] = from_zero ? v : let(g, "k", flxi_kb_binary(g->b, KBIN_sub, v, from));
}

static void forward_loop(reverser *g, const flxi_kstep *step, past *p, bool is_reversed)
{
    const flxi_ks *s = step->s;
    p->from = leaf(g, s->a);
    uint32_t to = leaf(g, s->b);
    p->trips = trips_of(g, p->from, to);
    watch_trips(g, step, p->trips);
    if (is_reversed)
        add_loop_tapes(g, step, p);
    uint32_t *carried = keep_entry(g, step, p) ? new_joined(g, step) : NULL;
    if (!carried)
        return;
    uint32_t var = flxi_kb_loop(g->b, flxi_kb_fresh_name(g->b, name_of(g, s->var)), p->from, to);
    enter_iteration(g, step, p->from, var);
    for (size_t i = 0; i < step->writes.n; i++) { /* a copy: the variable is assigned at the end, maybe before it is read */
        uint32_t v = step->writes.at[i];
        g->now[v] = flxi_kb_var(g->b, new_var(g, name_of(g, v), flxi_kb_var(g->b, carried[i])));
    }
    if (is_reversed)
        record_entry(g, step, p);
    forward_list(g, step->body, NULL);
    for (size_t i = 0; i < step->writes.n; i++)
        flxi_kb_assign(g->b, carried[i], g->now[step->writes.at[i]]);
    flxi_kb_end(g->b);
    take_joined(g, step, carried);
}

static void refuse_statement(reverser *g, const flxi_kstep *step, const char *what)
{
    char path[120];
    if (!ok(g))
        return;
    flxi_kernel_fail(&g->b->err, "unsupported statement", "rewrite the kernel without it", "%s has no derivative", what);
    flxi_at(&g->b->err, "%s", flxi_kflow_path(g->w, step, path, sizeof path));
}

static const char *const statement_names[KS_KIND_COUNT] = {
    [KS_INDIRECT] = "indirect_dispatch", [KS_ASYNC_LOAD] = "async_load",   [KS_ASYNC_STORE] = "async_store",
    [KS_ASYNC_WAIT] = "async_wait",      [KS_RESUME] = "resume",           [KS_COLLECTIVE] = "a collective",
    [KS_OPAQUE] = "an opaque statement",
};

static void forward_step(reverser *g, const flxi_kstep *step, past *p, bool is_reversed)
{
    const flxi_ks *s = step->s;
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET: forward_let(g, step, p); break;
    case KS_ASSIGN: p->x[0] = g->now[s->var] = leaf(g, s->a); break;
    case KS_STORE: forward_store(g, step, p); break;
    case KS_EFFECT: forward_effect(g, step, p); break;
    case KS_IF: forward_if(g, step, p); break;
    case KS_LOOP: forward_loop(g, step, p, is_reversed); break;
    case KS_BARRIER:
        if (s->order == FLX_KERNEL_GRID)
            refuse_statement(g, step, "a grid barrier inside a kernel");
        else if (g->mode != MODE_REPLAY)
            flxi_kb_barrier(g->b, (flx_kernel_order)s->order);
        break;
    case KS_TRAP:
        if (g->mode != MODE_REPLAY) {
            flxi_ks t = *s;
            t.a = leaf(g, s->a);
            flxi_kb_simple(g->b, &t);
        }
        break;
    default: refuse_statement(g, step, statement_names[s->kind] ? statement_names[s->kind] : "this statement");
    }
}

/* With a trace, the reverse of the list follows in the same scope. */
static void forward_list(reverser *g, flxi_ksteps steps, past *trace)
{
    for (size_t i = 0; i < steps.n && ok(g); i++) {
        past unused = {0};
        forward_step(g, &steps.at[i], trace ? &trace[i] : &unused, trace != NULL);
    }
}

/* ---- Adding to adjoints ---- */

static void add_bar(reverser *g, uint32_t var, uint32_t term)
{
    char name[120];
    if (!ok(g) || !term)
        return;
    uint32_t sum = g->bar[var] ? flxi_kb_binary(g->b, KBIN_add, g->bar[var], term) : term;
    g->bar[var] = let(g, bar_name(g, var, name, sizeof name), sum);
}

/* Sums value over the workgroup in shared memory; the first invocation holds the sum. */
static uint32_t workgroup_sum(reverser *g, uint32_t value)
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
    uint32_t plane = flxi_kb_binary(b, KBIN_add, flxi_kb_binary(b, KBIN_mul, local[2], flxi_kb_u32(b, g->k->size[1])),
                                    local[1]);
    uint32_t row = flxi_kb_binary(b, KBIN_mul, plane, flxi_kb_u32(b, g->k->size[0]));
    uint32_t lane = let(g, "lane", flxi_kb_binary(b, KBIN_add, row, local[0]));
    flxi_kb_store(b, *shared, lane, value);
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    uint32_t levels = 0;
    while ((UINT32_C(1) << levels) < size)
        levels++;
    uint32_t level = flxi_kb_loop(b, flxi_kb_fresh_name(b, "level"), flxi_kb_u32(b, 0), flxi_kb_u32(b, levels));
    uint32_t one = flxi_kb_u32(b, 1);
    uint32_t reach = let(g, "reach", flxi_kb_binary(b, KBIN_shl, one, flxi_kb_var(b, level)));
    uint32_t partner = let(g, "partner", flxi_kb_binary(b, KBIN_add, lane, reach));
    uint32_t below = flxi_kb_binary(b, KBIN_sub, flxi_kb_binary(b, KBIN_shl, reach, one), one);
    uint32_t leads = flxi_kb_binary(b, KBIN_eq, flxi_kb_binary(b, KBIN_bit_and, lane, below), flxi_kb_u32(b, 0));
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_logical_and, leads,
                                 flxi_kb_binary(b, KBIN_lt, partner, flxi_kb_u32(b, size))));
    flxi_kb_store(b, *shared, lane,
                  flxi_kb_binary(b, KBIN_add, flxi_kb_load(b, *shared, lane), flxi_kb_load(b, *shared, partner)));
    flxi_kb_end(b);
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    flxi_kb_end(b);
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_eq, lane, flxi_kb_u32(b, 0)));
    return flxi_kb_load(b, *shared, flxi_kb_u32(b, 0));
}

/* adjoint[index] += term, by whichever way is safe. */
static void add_to_buffer(reverser *g, const flxi_kstep *step, uint32_t buffer, uint32_t index, uint32_t term)
{
    flxi_kb *b = g->b;
    uint32_t to = g->adjoint[buffer];
    if (!ok(g) || !to)
        return;
    if (g->is_plain[buffer]) {
        bool overwrites = (g->q->options->flags & FLX_KERNEL_OVERWRITE) && g->q->inputs[buffer];
        uint32_t sum = overwrites ? term : flxi_kb_binary(b, KBIN_add, flxi_kb_load(b, to, index), term);
        flxi_kb_store(b, to, index, sum);
        return;
    }
    /* A load at the top has one element for the whole workgroup: one addition serves all. */
    bool is_shared = !step->parent && flxi_kernel_workgroup(g->k) > 1 &&
                     flxi_kernel_is_group_leaf(g->w, g->k->exprs[step->s->a].x[0]);
    if (is_shared)
        term = workgroup_sum(g, term);
    flxi_kb_effect(b, flxi_kb_atomic(b, FLX_KERNEL_ATOMIC_ADD, to, index, term, 0, FLX_KERNEL_RELAXED));
    if (is_shared)
        flxi_kb_end(b);
}

/* ---- The reverse part ---- */

static void refuse_expr(reverser *g, const flxi_kstep *step, const flxi_kx *e)
{
    char path[120];
    if (!ok(g))
        return;
    const char *hint = e->kind == KX_ATOMIC ? "reduce in workgroup memory and store the result, or write a custom rule"
                                            : "wrap it in stop_gradient, or give its function an adjoint";
    flxi_kernel_fail(&g->b->err, "not differentiable", hint, "%s%s%s has no derivative", flxi_kx_name(e),
                     e->kind == KX_ATOMIC ? "_" : "", e->kind == KX_ATOMIC ? flxi_katomic_names[e->op] : "");
    flxi_at(&g->b->err, "%s", flxi_kflow_path(g->w, step, path, sizeof path));
}

/* The adjoint of what lanes read from this one. */
static uint32_t reverse_shuffle(reverser *g, uint32_t lane_read, uint32_t bar)
{
    flxi_kb *b = g->b;
    uint32_t own = let(g, "lane", flxi_kb_lane(b));
    uint32_t sum = new_var(g, "from_lanes", zero_of(g, flxi_kb_type(b, bar)));
    uint32_t reader = flxi_kb_var(b, flxi_kb_loop(b, flxi_kb_fresh_name(b, "reader"), flxi_kb_u32(b, 0), flxi_kb_lanes(b)));
    uint32_t reads = let(g, "reads", flxi_kb_subgroup_shuffle(b, lane_read, reader));
    uint32_t theirs = let(g, "theirs", flxi_kb_subgroup_shuffle(b, bar, reader));
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_eq, reads, own));
    flxi_kb_assign(b, sum, flxi_kb_binary(b, KBIN_add, flxi_kb_var(b, sum), theirs));
    flxi_kb_end(b);
    flxi_kb_end(b);
    return flxi_kb_var(b, sum);
}

static void reverse_call(reverser *g, const flxi_kstep *step, const flxi_kx *e, const past *p, uint32_t bar)
{
    const flxi_kfn *f = &g->k->fns[e->ref];
    uint32_t *args = SCRATCH(g, uint32_t, f->num_params + 2);
    if (!args)
        return;
    memcpy(args, p->args, f->num_params * sizeof *args);
    args[f->num_params] = p->z;
    args[f->num_params + 1] = bar;
    for (uint32_t i = 0; i < e->num_args; i++) {
        uint32_t to = flxi_kflow_active_leaf(g->w, e->args[i]);
        uint32_t fn = flxi_kernel_adjoint_fn(g->k, e->ref, i);
        if (to && !fn) {
            refuse_expr(g, step, e);
            return;
        }
        if (to)
            add_bar(g, to, flxi_kernel_inline_call(g->b, g->k, fn, args, &g->b->err));
    }
}

/* Operands and result in the type that derivatives are computed in. */
static flxi_ksite site_of(reverser *g, const flxi_kx *e, const past *p)
{
    flxi_ksite s = {.b = g->b, .e = e, .type = flxi_kernel_adjoint_type(e->type)};
    s.ties_left = (g->q->options->flags & FLX_KERNEL_TIES_LEFT) != 0;
    for (int i = 0; i < flxi_kx_operands(e); i++) {
        bool is_float = flxi_ktype_is_float(flxi_kb_type(g->b, p->x[i]));
        s.x[i] = is_float && e->kind != KX_CAST ? let(g, "wide", flxi_kb_cast(g->b, s.type, p->x[i])) : p->x[i];
    }
    s.z = let(g, "wide", flxi_kb_cast(g->b, s.type, p->z));
    return s;
}

static void reverse_operation(reverser *g, const flxi_kstep *step, const flxi_kx *e, const past *p, uint32_t bar)
{
    flxi_ksite site = site_of(g, e, p);
    for (int i = 0; i < flxi_kx_operands(e) && ok(g); i++) {
        uint32_t to = flxi_kflow_active_leaf(g->w, e->x[i]);
        flxi_kpass pass = to ? flxi_kernel_pass(g->k, e, i) : KPASS_NONE;
        if (pass == KPASS_REFUSED)
            refuse_expr(g, step, e);
        if (pass == KPASS_RULE)
            add_bar(g, to, flxi_kb_cast(g->b, bar_type(g, to), flxi_kernel_partial(&site, i, bar)));
    }
}

static void reverse_let(reverser *g, const flxi_kstep *step, const past *p)
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
    case KX_SUBGROUP_ADD: add_bar(g, from, let(g, "sum", flxi_kb_subgroup_add(g->b, bar))); break;
    case KX_SUBGROUP_SHUFFLE: add_bar(g, from, reverse_shuffle(g, p->x[1], bar)); break;
    case KX_CALL: reverse_call(g, step, e, p, bar); break;
    case KX_ATOMIC:
    case KX_OPAQUE: refuse_expr(g, step, e); break;
    default: reverse_operation(g, step, e, p, bar);
    }
}

static void reverse_assign(reverser *g, const flxi_kstep *step)
{
    uint32_t bar = g->bar[step->s->var];
    uint32_t to = flxi_kflow_active_leaf(g->w, step->s->a);
    g->bar[step->s->var] = 0;
    if (bar && to)
        add_bar(g, to, bar);
}

static void reverse_store(reverser *g, const flxi_kstep *step, const past *p)
{
    const flxi_ks *s = step->s;
    uint32_t to = flxi_kflow_active_leaf(g->w, s->b), from = g->adjoint[s->buffer];
    if (!from)
        return;
    uint32_t bar = 0;
    if (to && !flxi_ktype_of(g->k->buffers[s->buffer].element)->storage) {
        char name[120];
        bar = let(g, bar_name(g, to, name, sizeof name), flxi_kb_load(g->b, from, p->x[0]));
    }
    if (!g->is_written_once[s->buffer])
        flxi_kb_store(g->b, from, p->x[0], zero_of(g, flxi_kernel_adjoint_type(g->k->buffers[s->buffer].element)));
    add_bar(g, to, bar);
}

/* Only additions whose result nobody uses pass derivatives on. */
static void reverse_atomic(reverser *g, const flxi_kstep *step, const past *p)
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
    uint32_t bar = flxi_kb_load(g->b, g->adjoint[e->ref], p->x[0]);
    add_bar(g, to, e->op == FLX_KERNEL_ATOMIC_SUB ? flxi_kb_unary(g->b, KUN_neg, bar) : bar);
}

/* ---- Reversing branches and loops ---- */

static void reverse_list(reverser *g, flxi_ksteps steps, const past *trace);

/* Active variables from outside that a body reads or assigns: their adjoints change in its reverse. */
static flxi_knumbers touched_by(reverser *g, const flxi_kstep *step)
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

/* A variable for each adjoint, holding what it is before the body's reverse. */
static uint32_t *outer_bars(reverser *g, flxi_knumbers touched)
{
    uint32_t *outer = SCRATCH(g, uint32_t, touched.n);
    for (size_t i = 0; outer && i < touched.n; i++) {
        char name[120];
        uint32_t var = touched.at[i];
        uint32_t bar = g->bar[var] ? g->bar[var] : zero_of(g, bar_type(g, var));
        outer[i] = new_var(g, bar_name(g, var, name, sizeof name), bar);
    }
    return outer;
}

/* Replays a body from its entry values, which `now` holds, and reverses it. */
static void reverse_body(reverser *g, flxi_ksteps body, flxi_knumbers touched, const uint32_t *outer)
{
    past *trace = SCRATCH(g, past, body.n);
    uint32_t *entry = SCRATCH(g, uint32_t, touched.n);
    if (!trace || !entry)
        return;
    for (size_t i = 0; i < touched.n; i++) {
        char name[120];
        uint32_t var = touched.at[i];
        uint32_t copy = new_var(g, bar_name(g, var, name, sizeof name), flxi_kb_var(g->b, outer[i]));
        g->bar[var] = entry[i] = flxi_kb_var(g->b, copy);
    }
    emit_mode before = g->mode;
    g->mode = MODE_REPLAY;
    forward_list(g, body, trace);
    reverse_list(g, body, trace);
    g->mode = before;
    for (size_t i = 0; i < touched.n && ok(g); i++) {
        uint32_t var = touched.at[i];
        uint32_t bar = g->bar[var] ? g->bar[var] : zero_of(g, bar_type(g, var));
        if (bar != entry[i])
            flxi_kb_assign(g->b, outer[i], bar);
    }
}

static void enter_values(reverser *g, const flxi_kstep *step, const past *p)
{
    for (size_t i = 0; i < step->reads.n; i++)
        g->now[step->reads.at[i]] = p->reads[i];
    for (size_t i = 0; i < step->writes.n; i++)
        g->now[step->writes.at[i]] = p->writes[i];
}

static void take_bars(reverser *g, flxi_knumbers touched, const uint32_t *outer)
{
    for (size_t i = 0; i < touched.n; i++)
        g->bar[touched.at[i]] = flxi_kb_var(g->b, outer[i]);
}

static void reverse_if(reverser *g, const flxi_kstep *step, const past *p)
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

static void reverse_loop(reverser *g, const flxi_kstep *step, const past *p)
{
    flxi_kb *b = g->b;
    flxi_knumbers touched = touched_by(g, step);
    uint32_t *outer = touched.at ? outer_bars(g, touched) : NULL;
    if (!outer)
        return;
    uint32_t back = flxi_kb_loop(b, flxi_kb_fresh_name(b, "back"), flxi_kb_u32(b, 0), p->trips);
    uint32_t last = flxi_kb_binary(b, KBIN_sub, p->trips, flxi_kb_u32(b, 1));
    uint32_t k = let(g, "k", flxi_kb_binary(b, KBIN_sub, last, flxi_kb_var(b, back)));
    enter_values(g, step, p);
    g->iteration[step->number] = k;
    const flxi_kx *from = flxi_kb_expr(b, p->from);
    bool from_zero = from->kind == KX_LITERAL && from->bits == 0;
    g->now[step->s->var] = from_zero ? k : let(g, name_of(g, step->s->var), flxi_kb_binary(b, KBIN_add, p->from, k));
    for (size_t i = 0; i < step->writes.n && ok(g); i++)
        g->now[step->writes.at[i]] = restore(g, p->tape + i, k, name_of(g, step->writes.at[i]));
    reverse_body(g, step->body, touched, outer);
    flxi_kb_end(b);
    take_bars(g, touched, outer);
}

static void reverse_step(reverser *g, const flxi_kstep *step, const past *p)
{
    const flxi_ks *s = step->s;
    if (s->kind == KS_BARRIER || (step->has_barrier && !step->is_active)) {
        flxi_kb_barrier(g->b, FLX_KERNEL_ACQ_REL);
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

static void reverse_list(reverser *g, flxi_ksteps steps, const past *trace)
{
    for (size_t i = steps.n; i-- > 0 && ok(g);)
        reverse_step(g, &steps.at[i], &trace[i]);
}

/* ---- Buffers ---- */

typedef FLXI_VEC(flxi_kaccess) access_list;

/* Loads of an active buffer: each adds to its adjoint. Stores, if asked for. */
static bool list_accesses(reverser *g, flxi_ksteps steps, uint32_t buffer, bool stores, access_list *list)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_kstep *step = &steps.at[i];
        const flxi_kx *e = &g->k->exprs[step->s->a];
        bool adds = step->s->kind == KS_LET && e->kind == KX_LOAD && e->ref == buffer &&
                    flxi_kflow_var_is_active(g->w, step->s->var);
        if (!stores && adds && !flxi_push(flxi_kernel_mem(g->k), list, ((flxi_kaccess){step, e->x[0]})))
            return false;
        bool writes = step->s->kind == KS_STORE && step->s->buffer == buffer;
        if (stores && writes && !flxi_push(flxi_kernel_mem(g->k), list, ((flxi_kaccess){step, step->s->a})))
            return false;
        if (!list_accesses(g, step->body, buffer, stores, list) || !list_accesses(g, step->other, buffer, stores, list))
            return false;
    }
    return true;
}

static bool decide_buffer(reverser *g, uint32_t i)
{
    const flxi_kbuffer_facts *f = &g->w->buffers[i];
    const flxi_allocator *mem = flxi_kernel_mem(g->k);
    access_list loads = {0}, stores = {0};
    bool done = list_accesses(g, g->w->top, i, false, &loads) && list_accesses(g, g->w->top, i, true, &stores);
    if (done) {
        g->is_plain[i] = flxi_kernel_is_injective(g->w, i, loads.at, loads.n);
        g->is_written_once[i] = f->num_loads == 0 && f->num_atomics == 0 && stores.n <= 1 &&
                                (stores.n == 0 || flxi_kernel_is_single(g->w, i, stores.at));
    }
    flxi_vec_free(mem, &loads);
    flxi_vec_free(mem, &stores);
    return done;
}

static bool uses_atomic_result(const reverser *g, uint32_t buffer)
{
    for (uint32_t v = 1; v <= g->k->num_vars; v++) {
        const flxi_kx *e = &g->k->exprs[g->w->vars[v].value];
        if (e->kind == KX_ATOMIC && e->ref == buffer)
            return true;
    }
    return false;
}

static bool uses_length(const reverser *g, uint32_t buffer)
{
    for (uint32_t i = 1; i <= g->k->num_exprs; i++)
        if (g->k->exprs[i].kind == KX_LENGTH && g->k->exprs[i].ref == buffer)
            return true;
    return false;
}

static flxi_kneed need_of(const reverser *g, const char *name, uint32_t forward, flx_kernel_role role, uint32_t element)
{
    (void)g;
    return (flxi_kneed){.name = name,
                        .forward = forward,
                        .role = (uint8_t)role,
                        .element = (uint8_t)element,
                        .length = {.forward = forward, .slots = 1}};
}

/* Whoever runs or differentiates the kernel without its manifest learns from it how long its own buffers are. */
static void tell_length(reverser *g, const char *buffer, const char *value)
{
    char key[1200];
    snprintf(key, sizeof key, "length %.1100s", buffer);
    flxi_kb_meta(g->b, key, value);
}

static void ask_for(reverser *g, uint32_t buffer)
{
    if (!flxi_push(flxi_kernel_mem(g->k), &g->asked, buffer))
        scratch_failed(g, NULL);
}

static void add_need(reverser *g, const flxi_kneed *need)
{
    if (g->q->kept && g->mode == MODE_FORWARD && ok(g) && !flxi_kernel_derived_add_need(g->q->d, need))
        scratch_failed(g, NULL);
}

/* A forward buffer as the derivative sees it: with its initial contents, or a copy that is written as the kernel goes. */
static void declare_primal(reverser *g, uint32_t i)
{
    const flxi_kbuffer_facts *f = &g->w->buffers[i];
    flxi_kbuffer buffer = g->k->buffers[i];
    bool is_bound = buffer.access != FLX_KERNEL_WORKGROUP && buffer.access != FLX_KERNEL_PRIVATE;
    bool shows_result = (g->q->options->flags & FLX_KERNEL_WITH_FORWARD) && g->q->outputs[i];
    bool is_read = f->num_loads > 0 || uses_atomic_result(g, i);
    g->keeps_stores[i] = (f->num_stores + f->num_atomics > 0) && (is_read || shows_result);
    bool is_active_bound = is_bound && (g->q->inputs[i] || g->q->outputs[i] || flxi_kflow_buffer_is_active(g->w, i));
    bool has_adjoint = is_active_bound && g->mode != MODE_COUNT;
    if (!is_read && !shows_result && (has_adjoint || !uses_length(g, i)))
        return;
    bool is_output = (buffer.flags & FLX_KERNEL_OUTPUT) != 0;
    if (is_bound) {
        if (buffer.access != FLX_KERNEL_UNIFORM)
            buffer.access = g->keeps_stores[i] ? FLX_KERNEL_READ_WRITE : FLX_KERNEL_READ;
        buffer.flags &= FLX_KERNEL_DISTINCT | FLX_KERNEL_STOP_GRADIENT | FLX_KERNEL_EXCLUSIVE;
        buffer.binding = (uint32_t)g->b->buffers.n;
        buffer.usage = 0;
        buffer.range_begin = buffer.range_end = 0;
    }
    g->primal[i] = flxi_kb_buffer(g->b, &buffer);
    if (shows_result)
        ask_for(g, g->primal[i]);
    if (!is_bound)
        return;
    flx_kernel_role role = shows_result            ? FLX_KERNEL_RESULT
                           : g->keeps_stores[i] ? FLX_KERNEL_SCRATCH
                                                  : FLX_KERNEL_PRIMAL;
    flxi_kneed need = need_of(g, buffer.name, i, role, buffer.element);
    need.flags = is_output && g->keeps_stores[i] ? FLX_KERNEL_NEED_ZERO : 0;
    add_need(g, &need);
}

static void declare_adjoint(reverser *g, uint32_t i, const char *prefix, flx_kernel_role role)
{
    const flxi_kbuffer *f = &g->k->buffers[i];
    bool is_bound = f->access != FLX_KERNEL_WORKGROUP && f->access != FLX_KERNEL_PRIVATE;
    char name[1100];
    snprintf(name, sizeof name, "%s_%.1024s", prefix, f->name);
    flxi_kbuffer buffer = {
        .name = flxi_kb_fresh_name(g->b, name),
        .access = f->access,
        .element = (uint8_t)flxi_kernel_adjoint_type(f->element),
        .count = f->count,
        .flags = f->flags & FLX_KERNEL_EXCLUSIVE,
        .binding = (uint32_t)g->b->buffers.n,
    };
    bool is_read_only = role == FLX_KERNEL_COTANGENT && g->is_written_once[i] && !g->q->inputs[i] &&
                        g->w->buffers[i].num_loads == 0;
    if (is_bound)
        buffer.access = is_read_only ? FLX_KERNEL_READ : FLX_KERNEL_READ_WRITE;
    g->adjoint[i] = flxi_kb_buffer(g->b, &buffer);
    if (role != FLX_KERNEL_ADJOINT)
        ask_for(g, g->adjoint[i]);
    if (!is_bound)
        return;
    flxi_kneed need = need_of(g, buffer.name, i, role, buffer.element);
    need.flags = (role == FLX_KERNEL_COTANGENT ? 0 : FLX_KERNEL_NEED_ZERO) | (g->is_plain[i] ? 0 : FLX_KERNEL_NEED_ATOMIC);
    if (role == FLX_KERNEL_COTANGENT && !is_read_only && !g->q->inputs[i])
        need.flags |= FLX_KERNEL_NEED_CONSUMED;
    if (role == FLX_KERNEL_COTANGENT && (g->q->options->flags & FLX_KERNEL_SEED_ONES))
        need.flags |= FLX_KERNEL_NEED_ONES;
    add_need(g, &need);
    if (role == FLX_KERNEL_ADJOINT) {
        snprintf(name, sizeof name, "buf_len(%.1024s)", f->name);
        tell_length(g, buffer.name, name);
    }
}

static void declare_buffers(reverser *g)
{
    const flx_kernel *k = g->k;
    for (uint32_t i = 1; i <= k->num_buffers && ok(g); i++)
        declare_primal(g, i);
    if (g->mode == MODE_COUNT)
        return;
    for (uint32_t i = 1; i <= k->num_buffers && ok(g); i++)
        if (g->q->outputs[i])
            declare_adjoint(g, i, "grad", FLX_KERNEL_COTANGENT);
    for (uint32_t i = 1; i <= k->num_buffers && ok(g); i++)
        if (g->q->inputs[i] && !g->q->outputs[i])
            declare_adjoint(g, i, "grad", FLX_KERNEL_GRADIENT);
    for (uint32_t i = 1; i <= k->num_buffers && ok(g); i++)
        if (flxi_kflow_buffer_is_active(g->w, i) && !g->adjoint[i])
            declare_adjoint(g, i, "adj", FLX_KERNEL_ADJOINT);
}

/* Loads that must be taped: of memory that may have changed, results of atomics, and what lanes told each other. */
static void find_sites(reverser *g, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n && ok(g); i++) {
        const flxi_kstep *step = &steps.at[i];
        const flxi_kx *e = &g->k->exprs[step->s->a];
        bool is_taped = e->kind == KX_ATOMIC || e->kind == KX_SUBGROUP_ADD || e->kind == KX_SUBGROUP_SHUFFLE ||
                        e->kind == KX_SUBGROUP_BALLOT || (e->kind == KX_LOAD && flxi_kflow_may_change(g->w, step));
        if (step->s->kind == KS_LET && is_taped)
            g->site_tapes[step->s->var] = add_tape(g, g->k->vars[step->s->var].type, step->loop, false);
        find_sites(g, step->body);
        find_sites(g, step->other);
    }
}

static bool has_unknown_trips(const reverser *g, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n; i++) {
        const flxi_kstep *step = &steps.at[i];
        if (step->s->kind == KS_LOOP && flxi_kernel_trip_bound(g->w, step) == UINT64_MAX)
            return true;
        if (has_unknown_trips(g, step->body) || has_unknown_trips(g, step->other))
            return true;
    }
    return false;
}

static void load_radices(reverser *g, flxi_ksteps steps)
{
    for (size_t i = 0; i < steps.n && ok(g); i++) {
        const flxi_kstep *step = &steps.at[i];
        if (step->s->kind == KS_LOOP && flxi_kernel_trip_bound(g->w, step) == UINT64_MAX)
            g->radix[step->number] =
                let(g, "most", flxi_kb_load(g->b, g->counts, flxi_kb_u32(g->b, step->number - 1)));
        load_radices(g, step->body);
        load_radices(g, step->other);
    }
}

static uint32_t declare_words(reverser *g, const char *name, uint8_t access, uint32_t flags, uint64_t count)
{
    flxi_kbuffer buffer = {.name = flxi_kb_fresh_name(g->b, name),
                           .access = access,
                           .flags = flags,
                           .element = FLX_U32,
                           .count = count,
                           .binding = (uint32_t)g->b->buffers.n};
    flxi_kneed need = need_of(g, buffer.name, 0, FLX_KERNEL_COUNTER, FLX_U32);
    need.length.slots = count;
    need.flags = access == FLX_KERNEL_READ ? 0 : FLX_KERNEL_NEED_ZERO;
    add_need(g, &need);
    if (access != FLX_KERNEL_READ)
        tell_length(g, buffer.name, "1");
    uint32_t number = flxi_kb_buffer(g->b, &buffer);
    if (access != FLX_KERNEL_READ)
        ask_for(g, number);
    return number;
}

/* ---- The whole ---- */

static bool start(reverser *g, flx_error *err)
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
    for (uint32_t i = 1; i <= k->num_buffers && ok(g); i++)
        if (!decide_buffer(g, i))
            scratch_failed(g, NULL);
    if (ok(g))
        declare_buffers(g);
    if (ok(g))
        flxi_kernel_copy_functions(g->b, k);
    return true;
}

static void tell_tape_length(reverser *g, const flxi_ktape *t)
{
    char value[60];
    if (!t->buffer || t->is_private || t->num_counters)
        return;
    snprintf(value, sizeof value, "%llu * invocations", (unsigned long long)t->slots);
    tell_length(g, g->b->buffers.at[t->buffer].name, value);
}

static void emit_gradient(reverser *g)
{
    bool is_open = has_unknown_trips(g, g->w->top);
    if (is_open && g->q->options->max_trips)
        g->overflow = declare_words(g, FLXI_KERNEL_OVERFLOW, FLX_KERNEL_READ_WRITE, 0, 1);
    else if (is_open)
        g->counts = declare_words(g, FLXI_KERNEL_COUNTS, FLX_KERNEL_READ, 0, g->w->num_loops);
    find_sites(g, g->w->top);
    if (!ok(g))
        return;
    find_self(g);
    if (g->counts)
        load_radices(g, g->w->top);
    past *trace = SCRATCH(g, past, g->w->top.n);
    if (!trace)
        return;
    forward_list(g, g->w->top, trace);
    reverse_list(g, g->w->top, trace);
    for (size_t i = 0; i < g->tapes.n && ok(g); i++)
        tell_tape_length(g, &g->tapes.at[i]);
}

static flx_kernel *make_gradient(const flxi_kreverse_request *q, flxi_arena *arena, flxi_kreverse_result *out,
                                 flx_error *err)
{
    reverser g = {.q = q, .k = q->k, .w = q->w, .arena = arena, .mode = MODE_FORWARD};
    if (!start(&g, err))
        return NULL;
    if (ok(&g))
        emit_gradient(&g);
    out->num_tapes = g.tapes.n;
    out->tapes = flxi_dup(arena, flxi_ktape, g.tapes.at, g.tapes.n);
    out->is_scratch = SCRATCH(&g, uint8_t, g.b->buffers.n);
    scratch_failed(&g, out->tapes);
    for (size_t i = 1; out->is_scratch && i < g.b->buffers.n; i++)
        out->is_scratch[i] = 1;
    for (size_t i = 0; out->is_scratch && i < g.asked.n; i++)
        out->is_scratch[g.asked.at[i]] = 0;
    flxi_vec_free(flxi_kernel_mem(q->k), &g.asked);
    flxi_vec_free(flxi_kernel_mem(q->k), &g.tapes);
    return flxi_kb_finish(g.b, err);
}

static flx_kernel *make_counting(const flxi_kreverse_request *q, flxi_arena *arena, flx_error *err)
{
    reverser g = {.q = q, .k = q->k, .w = q->w, .arena = arena, .mode = MODE_COUNT};
    if (!start(&g, err))
        return NULL;
    if (ok(&g)) {
        g.counts = declare_words(&g, FLXI_KERNEL_COUNTS, FLX_KERNEL_READ_WRITE, FLX_KERNEL_OUTPUT, q->w->num_loops);
        forward_list(&g, q->w->top, NULL);
    }
    flxi_vec_free(flxi_kernel_mem(q->k), &g.asked);
    return flxi_kb_finish(g.b, err);
}

flx_code flxi_kernel_reverse(const flxi_kreverse_request *q, flxi_arena *arena, flxi_kreverse_result *out, flx_error *err)
{
    flx_error local = {0};
    *out = (flxi_kreverse_result){0};
    out->gradient = make_gradient(q, arena, out, &local);
    reverser probe = {.w = q->w};
    if (out->gradient && q->kept && !q->options->max_trips && has_unknown_trips(&probe, q->w->top)) {
        out->counting = make_counting(q, arena, &local);
        if (!out->counting) {
            flx_kernel_free(out->gradient);
            out->gradient = NULL;
        }
    }
    if (err)
        *err = local;
    return (flx_code)local.code;
}
