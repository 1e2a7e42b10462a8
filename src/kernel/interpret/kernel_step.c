/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_step.c: runs the code of one invocation until it waits for others. */
#include "kernel/interpret/kernel_machine.h"

#include "base/host/stop.h"
#include "base/text/count_words.h"
#include "kernel/program/kernel_extension.h"
#include "kernel/program/kernel_scalar.h"

/* ---- Failing ---- */

flx_code flxi_kmachine_fail(flxi_kmachine *m, const flxi_klane *l, const char *word, const char *hint, const char *fmt,
                            ...)
{
    char text[240], path[48];
    uint32_t id[3];
    va_list args;
    va_start(args, fmt);
    flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    const flx_kernel *k = m->d->kernel;
    uint32_t statement = m->code.instrs.at[l->pc].statement;
    flxi_krace_id(m->d, l->group->number * flxi_kernel_workgroup(k) + l->local, id);
    flxi_kernel_fail(m->err, word, hint, "%s", text);
    if (statement < m->code.statements.n)
        flxi_at(m->err, "kernel %.30s: %s, invocation [%u, %u, %u]", k->name,
                flxi_kcode_path(k, m->code.statements.at[statement], path, sizeof path), id[0], id[1], id[2]);
    return FLX_E_KERNEL;
}

static flx_code fail_steps(flxi_kmachine *m, const flxi_klane *l)
{
    return flxi_kmachine_fail(m, l, "steps", "raise max_steps if the kernel is not endless",
                              "the budget of %llu evaluated nodes is exhausted",
                              (unsigned long long)m->d->options.max_steps);
}

static flx_code fail_checked(flxi_kmachine *m, const flxi_klane *l, const flxi_kinstr *i, const char *fault)
{
    const flxi_kop *op = i->code == KI_CHECKED_UNARY ? &flxi_kunaries[i->op] : &flxi_kbinaries[i->op];
    return flxi_kmachine_fail(m, l, "checked",
                              "use wrapping_ or saturating_ ops if this is intended, or test operands first",
                              "%s in %s of %s", fault, op->name, flxi_ktype_of(i->type)->name);
}

/* ---- Race detection ---- */

static flx_code watch(flxi_kmachine *m, const flxi_klane *l, uint32_t buffer, uint64_t index, flxi_ktouch_kind kind)
{
    const flxi_kstore *s = &m->stores[buffer];
    if (index >= s->count)
        return FLX_OK; /* nothing is accessed */
    uint64_t number = l->group->number * flxi_kernel_workgroup(m->d->kernel) + l->local;
    flxi_kaccess a = {.kind = kind,
                      .touch = {(uint32_t)number + 1, m->code.instrs.at[l->pc].statement},
                      .interval = l->group->interval,
                      .epoch = m->epoch,
                      .buffer = buffer,
                      .index = index};
    flxi_kshadow *at = s->space == KSPACE_BOUND ? s->shadows : l->group->shadows + s->shadow_offset;
    return flxi_krace_access(&at[index], m->d, &m->code, &a, m->err);
}

/* Bytes of a buffer, as its elements. */
static flx_code watch_bytes(flxi_kmachine *m, const flxi_klane *l, uint32_t buffer, size_t begin, size_t size,
                            flxi_ktouch_kind kind)
{
    const flxi_kbuffer *b = &m->d->kernel->buffers[buffer];
    bool is_watched = (m->d->options.flags & FLX_KERNEL_DETECT_RACES) && flxi_kcode_is_watched(b);
    if (!is_watched || !size)
        return FLX_OK;
    unsigned bits = b->element == FLX_BOOL ? 32 : flxi_ktype_of(b->element)->bits;
    uint64_t first = (uint64_t)begin * 8 / bits, last = ((uint64_t)(begin + size) * 8 - 1) / bits;
    for (uint64_t i = first; i <= last; i++)
        FLXI_TRY(watch(m, l, buffer, i, kind));
    return FLX_OK;
}

/* ---- Copies ---- */

/* The part of the `wanted` bytes that is within both buffers, after the offsets. */
static size_t clip(const flxi_kstore *from, size_t from_offset, const flxi_kstore *to, size_t to_offset,
                   uint64_t wanted)
{
    size_t n = from_offset < from->size ? from->size - from_offset : 0;
    size_t room = to_offset < to->size ? to->size - to_offset : 0;
    n = n < room ? n : room;
    return wanted < n ? (size_t)wanted : n;
}

static flx_code copy(flxi_kmachine *m, flxi_klane *l, const flxi_ks *s, const size_t offsets[2], uint64_t wanted)
{
    const flxi_kstore *from = &m->stores[s->buffer], *to = &m->stores[s->target];
    size_t n = clip(from, offsets[0], to, offsets[1], wanted);
    m->steps_left -= (int64_t)(n / 4);
    FLXI_TRY(watch_bytes(m, l, s->buffer, offsets[0], n, KTOUCH_LOAD));
    FLXI_TRY(watch_bytes(m, l, s->target, offsets[1], n, KTOUCH_STORE));
    if (n)
        memmove(flxi_kstore_at(to, l) + offsets[1], flxi_kstore_at(from, l) + offsets[0], n);
    return FLX_OK;
}

/* The offset is in storage: in the source of a load, in the target of a store. The other side begins at 0. */
static flx_code finish_copy(flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    const flxi_ks *start = m->code.copies.at[i->d].start;
    uint64_t *state = &l->regs[i->to];
    size_t offsets[2] = {0, 0};
    if (!state[0])
        return FLX_OK;
    state[0] = 0;
    offsets[start->kind == KS_ASYNC_STORE] = (size_t)state[1];
    return copy(m, l, start, offsets, state[2]);
}

static flx_code start_copy(flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    uint64_t *state = &l->regs[i->to];
    if (state[0])
        return flxi_kmachine_fail(m, l, "async", "wait for it before starting it again",
                                  "the copy '%.60s' is started while it is outstanding",
                                  m->code.copies.at[i->d].start->text);
    state[0] = 1;
    state[1] = l->regs[i->a];
    state[2] = l->regs[i->b];
    return FLX_OK;
}

static flx_code end_lane(flxi_kmachine *m, flxi_klane *l)
{
    for (size_t i = 0; i < m->code.copies.n; i++)
        if (l->regs[m->code.copies.at[i].registers])
            return flxi_kmachine_fail(m, l, "async", "wait for the copy on every path to the end",
                                      "the copy '%.60s' is outstanding at the end", m->code.copies.at[i].start->text);
    l->state = KLANE_DONE;
    return FLX_OK;
}

/* ---- Rare statements ---- */

/* This device is the only participant. */
static flx_code run_collective(flxi_kmachine *m, flxi_klane *l, const flxi_ks *s)
{
    const size_t offsets[2] = {0, 0};
    if (s->order == FLX_KERNEL_BROADCAST && s->offset != 0)
        return flxi_kmachine_fail(m, l, "collective", "the interpreter is one device, number 0",
                                  "broadcast from device %llu, which does not take part",
                                  (unsigned long long)s->offset);
    return copy(m, l, s, offsets, UINT64_MAX);
}

/* The grid is read after the dispatch, as the next stage would. */
static flx_code ask_for_stage(flxi_kmachine *m, flxi_klane *l, const flxi_ks *s)
{
    if (m->indirect && (m->indirect->buffer != s->buffer || m->indirect->offset != s->offset))
        return flxi_kmachine_fail(m, l, "indirect", "use the same buffer and offset in all invocations",
                                  "a dispatch has one next stage, and '%.60s' at %llu was already requested",
                                  m->d->kernel->buffers[m->indirect->buffer].name,
                                  (unsigned long long)m->indirect->offset);
    m->indirect = s;
    return FLX_OK;
}

static void run_opaque(flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    const flx_kernel *k = m->d->kernel;
    const flxi_kx *e = &k->exprs[i->d];
    uint32_t types[FLXI_KEXTENSION_MAX_ARGS] = {0};
    for (size_t n = 0; n < e->num_args && n < FLXI_KEXTENSION_MAX_ARGS; n++)
        types[n] = k->exprs[e->args[n]].type;
    uint64_t value = flxi_kextension_eval(&k->opaques[i->c], types, l->regs + i->a, e->num_args);
    if (i->d)
        l->regs[i->to] = value;
}

static flx_code run_rare(flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    const flxi_ks *s = m->code.statements.at[i->statement];
    switch ((flxi_kinstr_op)i->code) {
    case KI_COPY_START: return start_copy(m, l, i);
    case KI_COPY_WAIT: return finish_copy(m, l, i);
    case KI_COLLECTIVE: return run_collective(m, l, s);
    case KI_INDIRECT: return ask_for_stage(m, l, s);
    case KI_OPAQUE: run_opaque(m, l, i); return FLX_OK;
    case KI_TRAP:
        return flxi_kmachine_fail(m, l, "trap", "the kernel ended the dispatch itself", "'%.60s' at address %llu",
                                  s->text, (unsigned long long)l->regs[i->a]);
    case KI_RESUME:
        return flxi_kmachine_fail(m, l, "resume", "run it on a device that can replay traps",
                                  "'%.60s': the interpreter cannot replay", s->text);
    default: return flxi_fail(m->err, FLX_E_INTERNAL, "the interpreter does not know instruction %d", i->code);
    }
}

static flx_code run_checked(flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    uint64_t *r = l->regs;
    const char *fault;
    if (i->code == KI_CHECKED_UNARY) {
        fault = flxi_kscalar_unary_fault((flxi_kunary)i->op, i->type, r[i->a]);
        r[i->to] = flxi_kscalar_unary((flxi_kunary)i->op, i->type, r[i->a]);
    } else {
        fault = flxi_kscalar_binary_fault((flxi_kbinary)i->op, i->type, r[i->a], r[i->b]);
        r[i->to] = flxi_kscalar_binary((flxi_kbinary)i->op, i->type, r[i->a], r[i->b]);
    }
    return fault ? fail_checked(m, l, i, fault) : FLX_OK;
}

/* ---- Memory ---- */

static inline void load(const flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    const flxi_kstore *s = &m->stores[i->d];
    uint64_t index = l->regs[i->a];
    l->regs[i->to] = index < s->count ? flxi_kscalar_load(i->element, flxi_kstore_at(s, l), index) : 0;
}

static inline void store(const flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    const flxi_kstore *s = &m->stores[i->d];
    uint64_t index = l->regs[i->a];
    if (index < s->count)
        flxi_kscalar_store(i->element, flxi_kstore_at(s, l), index, l->regs[i->b]);
}

static void change(const flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    const flxi_kstore *s = &m->stores[i->d];
    uint64_t *r = l->regs, index = r[i->a], old = 0;
    if (index < s->count) {
        unsigned char *at = flxi_kstore_at(s, l);
        old = flxi_kscalar_load(i->element, at, index);
        uint64_t changed = flxi_kscalar_atomic((flx_kernel_atomic)i->op, i->type, old, r[i->b], r[i->c]);
        flxi_kscalar_store(i->element, at, index, changed);
    }
    r[i->to] = old;
}

static flx_code run_watched(flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i)
{
    uint64_t index = l->regs[i->a];
    switch ((flxi_kinstr_op)i->code) {
    case KI_WATCHED_LOAD:
        FLXI_TRY(watch(m, l, i->d, index, KTOUCH_LOAD));
        load(m, l, i);
        break;
    case KI_WATCHED_STORE:
        FLXI_TRY(watch(m, l, i->d, index, KTOUCH_STORE));
        store(m, l, i);
        break;
    default:
        FLXI_TRY(watch(m, l, i->d, index, KTOUCH_ATOMIC));
        change(m, l, i);
        break;
    }
    return FLX_OK;
}

/* ---- The loop ---- */

/* The end, waiting, and what may fail. Returns whether the next instruction follows. */
static bool run_slow(flxi_kmachine *m, flxi_klane *l, const flxi_kinstr *i, flx_code *failed)
{
    l->pc = (uint32_t)(i - m->code.instrs.at);
    switch ((flxi_kinstr_op)i->code) {
    case KI_END: *failed = end_lane(m, l); break;
    case KI_SUBGROUP_ADD:
    case KI_SUBGROUP_SHUFFLE:
    case KI_SUBGROUP_BALLOT: l->state = KLANE_AT_SUBGROUP; break;
    case KI_BARRIER: l->state = KLANE_AT_BARRIER; break;
    case KI_GRID_BARRIER: l->state = KLANE_AT_GRID_BARRIER; break;
    case KI_WATCHED_LOAD:
    case KI_WATCHED_STORE:
    case KI_WATCHED_ATOMIC: *failed = run_watched(m, l, i); break;
    case KI_CHECKED_UNARY:
    case KI_CHECKED_BINARY: *failed = run_checked(m, l, i); break;
    default: *failed = run_rare(m, l, i); break;
    }
    return *failed == FLX_OK && l->state == KLANE_READY;
}

/* What ended a step that did not fail: the budget, a stop that KI_NEXT has seen, or nothing. */
static flx_code end_step(flxi_kmachine *m, const flxi_klane *l, const flxi_kinstr *i)
{
    if (m->steps_left < 0)
        return fail_steps(m, l);
    return i->code == KI_NEXT ? flxi_stop_check(m->err) : FLX_OK;
}

static inline const flxi_kinstr *enter(uint64_t *r, const flxi_kinstr *code, const flxi_kinstr *i)
{
    r[i->to] = r[i->a];
    return r[i->a] < r[i->b] ? i : code + i->d - 1;
}

/* Every loop of the code passes KI_NEXT, so checking the budget there and at the end is enough. */
flx_code flxi_kmachine_step(flxi_kmachine *m, flxi_klane *l, uint32_t turns)
{
    const flxi_kinstr *code = m->code.instrs.at, *i = code + l->pc;
    uint64_t *r = l->regs;
    flx_code failed = FLX_OK;
    for (;; i++) {
        m->steps_left -= i->cost;
        switch ((flxi_kinstr_op)i->code) {
        case KI_JUMP: i = code + i->d - 1; continue;
        case KI_UNLESS: i = r[i->a] ? i : code + i->d - 1; continue;
        case KI_ENTER: i = enter(r, code, i); continue;
        case KI_NEXT:
            if (++r[i->to] >= r[i->b])
                continue;
            if (m->steps_left < 0 || flxi_stopped_by_now())
                break;
            i = code + i->d - 1;
            continue;
        case KI_MOVE: r[i->to] = r[i->a]; continue;
        case KI_UNARY: r[i->to] = flxi_kscalar_unary((flxi_kunary)i->op, i->type, r[i->a]); continue;
        case KI_BINARY: r[i->to] = flxi_kscalar_binary((flxi_kbinary)i->op, i->type, r[i->a], r[i->b]); continue;
        case KI_SELECT: r[i->to] = r[i->a] ? r[i->b] : r[i->c]; continue;
        case KI_FMA: r[i->to] = flxi_kscalar_fma(i->type, r[i->a], r[i->b], r[i->c]); continue;
        case KI_CAST: r[i->to] = flxi_kscalar_cast(i->type, i->op, r[i->a]); continue;
        case KI_LOAD: load(m, l, i); continue;
        case KI_STORE: store(m, l, i); continue;
        case KI_ATOMIC: change(m, l, i); continue;
        case KI_TURN:
            if (turns-- > 0)
                continue;
            m->steps_left += i->cost; /* it runs again at its next turn */
            break;
        default:
            if (run_slow(m, l, i, &failed))
                continue;
        }
        break;
    }
    l->pc = (uint32_t)(i - code);
    return failed == FLX_OK ? end_step(m, l, i) : failed;
}
