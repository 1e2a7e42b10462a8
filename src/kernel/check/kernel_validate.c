/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_validate.c: the rules of statements and functions, and the validation as a whole.

   One walk over the text reports everything in text order. What a rule must know about the text after it (how often a
   buffer is used, whether a tag is waited for, where control flow diverges) is computed first. Names are looked up by
   the pointer of their text, which a program stores once, so validation takes time linear in the program's size. */
#include "kernel/check/kernel_validate.h"

#include "base/options.h"
#include "kernel/check/kernel_check_buffer.h"
#include "kernel/check/kernel_check_expr.h"

#include <stdio.h>

/* ---- Facts that the rules need ---- */

static void count_uses(flxi_kchecker *c, uint32_t expr)
{
    const flxi_kx *e = &c->k->exprs[expr <= c->k->num_exprs ? expr : 0];
    if ((e->kind == KX_LOAD || e->kind == KX_ATOMIC) && e->ref <= c->k->num_buffers)
        c->uses[e->ref]++;
    for (int i = 0; i < flxi_kx_operands(e); i++)
        count_uses(c, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        count_uses(c, e->args[i]);
}

static void survey(flxi_kchecker *c, flxi_klist list, bool *has_grid_barrier)
{
    for (size_t i = 0; i < list.n && !c->failed; i++) {
        const flxi_ks *s = &list.at[i];
        c->statement++;
        count_uses(c, s->a);
        count_uses(c, s->b);
        if (s->kind == KS_STORE || s->kind == KS_INDIRECT || s->kind == KS_ASYNC_LOAD || s->kind == KS_ASYNC_STORE ||
            s->kind == KS_COLLECTIVE)
            c->uses[s->buffer <= c->k->num_buffers ? s->buffer : 0]++;
        if (s->kind == KS_ASYNC_LOAD || s->kind == KS_ASYNC_STORE || s->kind == KS_COLLECTIVE)
            c->uses[s->target <= c->k->num_buffers ? s->target : 0]++;
        if (s->kind == KS_ASYNC_WAIT)
            flxi_kname_of(c, s->text)->last_wait = c->statement;
        *has_grid_barrier |= s->kind == KS_BARRIER && s->order == FLX_KERNEL_GRID;
        survey(c, s->body, has_grid_barrier);
        survey(c, s->other, has_grid_barrier);
    }
}

/* ---- Scopes ---- */

static void check_declared(flxi_kchecker *c, uint32_t var, uint32_t list)
{
    const flxi_kvar *v = &c->k->vars[var];
    flxi_kname *name = flxi_kname_of(c, v->name);
    if (!name->var)
        return;
    flxi_kshown shown = flxi_kshow(v->name);
    if (c->vars[name->var].list == list)
        flxi_kfind(c, "K11", "assign to it, or choose another name", "'%s' is declared twice in one list", shown.at);
    else if (!(c->target.flags & FLX_KERNEL_ALLOWS_SHADOWING))
        flxi_kfind(c, "K12", "choose another name", "'%s' hides a variable of the same name in an outer scope",
                   shown.at);
}

/* Brings the variable into scope; `list` is the number of the list that declares it. */
static void declare(flxi_kchecker *c, uint32_t var, uint32_t list)
{
    if (var == 0 || var > c->k->num_vars || c->vars[var].is_visible) {
        flxi_kfind(c, "K11", "give each declaration a variable of its own", "a variable has two declarations");
        return;
    }
    flxi_kcheck_name(c, "variable", c->k->vars[var].name);
    check_declared(c, var, list);
    uint32_t number = flxi_kname_number(c, c->k->vars[var].name);
    c->vars[var] = (flxi_kscoped){.name = number, .list = list, .outer = c->names.at[number].var, .is_visible = true};
    c->names.at[number].var = var;
    c->visible[c->num_visible++] = var;
}

static void leave_scope(flxi_kchecker *c, size_t mark)
{
    while (c->num_visible > mark) {
        flxi_kscoped *v = &c->vars[c->visible[--c->num_visible]];
        c->names.at[v->name].var = v->outer;
        v->is_visible = false;
    }
}

/* ---- Assignments and stores ---- */

static void check_assign(flxi_kchecker *c, const flxi_ks *s)
{
    uint32_t type = flxi_kcheck_expr(c, s->a);
    uint32_t var = s->var <= c->k->num_vars ? s->var : 0;
    const flxi_kvar *v = &c->k->vars[var];
    flxi_kshown name = flxi_kshow(v->name);
    if (!c->vars[var].is_visible)
        flxi_kfind(c, "K13", "declare it: let name = value", "assignment to '%s', which is not declared here", name.at);
    else if (v->kind != KVAR_LET)
        flxi_kfind(c, "K14", "copy it with let and assign to the copy", "assignment to the %s '%s'",
                   v->kind == KVAR_LOOP ? "loop variable" : "parameter", name.at);
    else if (type && v->type && type != v->type)
        flxi_kfind(c, "K22", "cast the value", "'%s' is %s and cannot be assigned %s", name.at,
                   flxi_ktype_shown(v->type), flxi_ktype_shown(type));
}

static void check_store(flxi_kchecker *c, const flxi_ks *s)
{
    flxi_kcheck_expr(c, s->a);
    uint32_t type = flxi_kcheck_expr(c, s->b);
    flxi_kcheck_element(c, s->buffer, s->a, "store", false);
    const flxi_kbuffer *b = &c->k->buffers[s->buffer <= c->k->num_buffers ? s->buffer : 0];
    flxi_kcheck_value(c, b, type, "store");
    if (b->access == FLX_KERNEL_READ || b->access == FLX_KERNEL_UNIFORM)
        flxi_kfind(c, "K40", "declare it write or read_write", "store to buffer '%s', which is %s",
                   flxi_kshow(b->name).at, b->access == FLX_KERNEL_READ ? "read-only" : "uniform");
}

static void check_effect(flxi_kchecker *c, const flxi_ks *s)
{
    flxi_kcheck_expr(c, s->a);
    if (s->a <= c->k->num_exprs && c->k->exprs[s->a].kind != KX_ATOMIC)
        flxi_kfind(c, "K24", "bind the value with let", "a statement evaluates an expression that is not an atomic");
}

/* ---- Control ---- */

static void check_barrier(flxi_kchecker *c, const flxi_ks *s)
{
    bool is_grid = s->order == FLX_KERNEL_GRID;
    if (s->order == FLX_KERNEL_RELAXED || s->order >= FLX_KERNEL_ORDER_COUNT)
        flxi_kfind(c, "K45", "acquire, release, acq_rel, seq_cst or grid", "a barrier with ordering %s",
                   s->order ? "?" : "relaxed");
    if (is_grid && !(c->target.flags & FLX_KERNEL_HAS_GRID_BARRIER))
        flxi_kfind(c, "K52", "split the kernel into two dispatches", "the target does not support grid barriers");
    if (!flxi_kchecker_is_uniform(c, is_grid ? &c->gridwide : &c->uniform))
        flxi_kfind(c, "K50", "move it out of ifs, loops and early returns that depend on the invocation",
                   "not all invocations of the %s may reach this barrier together", is_grid ? "grid" : "workgroup");
    c->interval++;
}

static void check_bounds(flxi_kchecker *c, const flxi_ks *s)
{
    flxi_kcheck_u32(c, s->a, "K26", "the lower bound of a loop");
    flxi_kcheck_u32(c, s->b, "K26", "the upper bound of a loop");
    bool atomics = false;
    for (int i = 0; i < 2; i++) {
        uint32_t e = i ? s->b : s->a;
        atomics |= e <= c->k->num_exprs && (c->k->exprs[e].does & KX_ATOMICS);
    }
    if (atomics)
        flxi_kfind(c, "K47", "bind it with let before the loop", "an atomic is not allowed in a loop bound");
}

static void check_region(flxi_kchecker *c, const flxi_ks *s)
{
    flxi_kcheck_text(c, "the generator of a region", s->text);
    flxi_kcheck_text(c, "the source of a region", s->source);
    flxi_kname *name = flxi_kname_of(c, s->text);
    bool once = (s->flags & FLX_KERNEL_REGION_ONCE) != 0;
    if (name->is_region && (once || name->is_once))
        flxi_kfind(c, "K73", "keep one of them", "region '%s' is allowed once in a program and occurs again",
                   flxi_kshow(s->text).at);
    name->is_region = true;
    name->is_once |= once;
}

/* ---- Rare statements ---- */

static void check_indirect(flxi_kchecker *c, const flxi_ks *s)
{
    const flxi_kbuffer *b = flxi_kcheck_buffer(c, s->buffer, "indirect_dispatch");
    if (b == &c->k->buffers[0])
        return;
    flxi_kshown name = flxi_kshow(b->name);
    uint64_t size = b->count ? flxi_ktype_bytes(b->element, b->count) : UINT64_MAX;
    if (!flxi_kbuffer_is_bound(b))
        flxi_kfind(c, "K49", "keep the triple in storage",
                   "indirect_dispatch from buffer '%s', whose memory ends with the dispatch", name.at);
    else if (s->offset % 4 != 0)
        flxi_kfind(c, "K49", "the offset is in bytes, a multiple of 4",
                   "indirect_dispatch at offset %llu of buffer '%s'", (unsigned long long)s->offset, name.at);
    else if (size < 12 || s->offset > size - 12)
        flxi_kfind(c, "K49", "three u32 must fit after the offset",
                   "indirect_dispatch at offset %llu of buffer '%s', which has %llu bytes",
                   (unsigned long long)s->offset, name.at, (unsigned long long)size);
}

static void check_started(flxi_kchecker *c, const flxi_ks *s)
{
    flxi_kname *tag = flxi_kname_of(c, s->text);
    flxi_kshown shown = flxi_kshow(s->text);
    if (!s->text[0])
        flxi_kfind(c, "K48", "give each copy a tag", "a copy has an empty tag");
    else if (tag->is_started)
        flxi_kfind(c, "K48", "give each copy a tag of its own", "tag '%s' is started twice", shown.at);
    else if (tag->last_wait < c->statement)
        flxi_kfind(c, "K48", "wait for it: async_wait(tag)", "tag '%s' is never waited for", shown.at);
    tag->is_started = true;
}

static void check_readable(flxi_kchecker *c, const flxi_kbuffer *b, const char *what)
{
    if (b->access == FLX_KERNEL_WRITE || b->access == FLX_KERNEL_PRIVATE)
        flxi_kfind(c, "K41", "copy from storage or workgroup memory that may be read",
                   "%s from buffer '%s', which is %s", what, flxi_kshow(b->name).at,
                   b->access == FLX_KERNEL_WRITE ? "write-only" : "private");
}

static void check_writable(flxi_kchecker *c, const flxi_kbuffer *b, const char *what)
{
    if (b->access == FLX_KERNEL_READ || b->access == FLX_KERNEL_UNIFORM || b->access == FLX_KERNEL_PRIVATE)
        flxi_kfind(c, "K40", "copy to storage or workgroup memory that may be written",
                   "%s to buffer '%s', which is %s", what, flxi_kshow(b->name).at, flxi_kaccess_names[b->access]);
}

static void check_copy(flxi_kchecker *c, const flxi_ks *s)
{
    const char *what = s->kind == KS_ASYNC_LOAD ? "async_load" : "async_store";
    const flxi_kbuffer *from = flxi_kcheck_buffer(c, s->buffer, what);
    const flxi_kbuffer *to = flxi_kcheck_buffer(c, s->target, what);
    flxi_kcheck_text(c, "the tag", s->text);
    flxi_kcheck_u32(c, s->a, "K20", "the offset of an async copy");
    flxi_kcheck_u32(c, s->b, "K20", "the size of an async copy");
    check_readable(c, from, what);
    check_writable(c, to, what);
    if (s->kind == KS_ASYNC_LOAD && from->access == FLX_KERNEL_WORKGROUP)
        flxi_kfind(c, "K41", "async_store copies from workgroup memory", "async_load from workgroup buffer '%s'",
                   flxi_kshow(from->name).at);
    if (s->kind == KS_ASYNC_STORE && to->access == FLX_KERNEL_WORKGROUP)
        flxi_kfind(c, "K40", "async_load copies to workgroup memory", "async_store to workgroup buffer '%s'",
                   flxi_kshow(to->name).at);
    check_started(c, s);
}

static void check_wait(flxi_kchecker *c, const flxi_ks *s)
{
    flxi_kcheck_text(c, "the tag", s->text);
    if (!s->text[0])
        flxi_kfind(c, "K48", "give the tag of a copy", "async_wait with an empty tag");
    else if (!flxi_kname_of(c, s->text)->is_started)
        flxi_kfind(c, "K48", "start a copy with this tag first", "tag '%s' is waited for but not started",
                   flxi_kshow(s->text).at);
}

static void check_collective(flxi_kchecker *c, const flxi_ks *s)
{
    static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast"};
    const char *what = s->order < FLX_KERNEL_COLLECTIVE_COUNT ? names[s->order] : "collective";
    const flxi_kbuffer *b[2] = {flxi_kcheck_buffer(c, s->buffer, what), flxi_kcheck_buffer(c, s->target, what)};
    if (!(c->target.flags & FLX_KERNEL_HAS_COLLECTIVES))
        flxi_kfind(c, "K53", "exchange data between dispatches", "%s: the target does not support collectives", what);
    for (int i = 0; i < 2; i++)
        if (!flxi_kbuffer_is_bound(b[i]))
            flxi_kfind(c, "K53", "collectives work on storage", "%s on buffer '%s', which is %s", what,
                       flxi_kshow(b[i]->name).at, flxi_kaccess_names[b[i]->access]);
    if (b[0]->element && b[1]->element && b[0]->element != b[1]->element)
        flxi_kfind(c, "K53", "use buffers of one element type", "%s from %s to %s elements", what,
                   flxi_ktype_shown(b[0]->element), flxi_ktype_shown(b[1]->element));
    if (b[0]->access == FLX_KERNEL_WRITE)
        check_readable(c, b[0], what);
    if (b[1]->access != FLX_KERNEL_PRIVATE)
        check_writable(c, b[1], what);
    c->interval++;
}

static void check_resume(flxi_kchecker *c, const flxi_ks *s)
{
    flxi_kcheck_text(c, "the tag", s->text);
    if (!(c->target.flags & FLX_KERNEL_HAS_RESUME))
        flxi_kfind(c, "K53", "split the kernel at this point", "resume: the target cannot continue after a trap");
}

/* ---- Lists ---- */

static void check_list(flxi_kchecker *c, flxi_klist list, bool in_else, uint32_t loop_var);

static bool leaves(flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].kind == KS_RETURN || list.at[i].kind == KS_TRAP || leaves(list.at[i].body) ||
            leaves(list.at[i].other))
            return true;
    return false;
}

/* The branches of an `if` or loop: whether they run is not certain, and neither is what follows if they may return. The
   search for returns happens only where flow is certain, so each statement is visited once. */
static void check_branches(flxi_kchecker *c, const flxi_ks *s)
{
    bool was_certain = c->is_certain;
    c->is_certain = false;
    check_list(c, s->body, false, s->kind == KS_LOOP ? s->var : 0);
    check_list(c, s->other, true, 0);
    c->is_certain = was_certain && !leaves(s->body) && !leaves(s->other);
}

/* K64 for a statement that is not allowed in a function. */
static void check_allowed(flxi_kchecker *c, const flxi_ks *s)
{
    static const char *const names[KS_KIND_COUNT] = {
        [KS_STORE] = "a store",           [KS_EFFECT] = "an atomic",           [KS_BARRIER] = "a barrier",
        [KS_RETURN] = "a return",         [KS_INDIRECT] = "indirect_dispatch", [KS_ASYNC_LOAD] = "async_load",
        [KS_ASYNC_STORE] = "async_store", [KS_ASYNC_WAIT] = "async_wait",      [KS_TRAP] = "trap",
        [KS_RESUME] = "resume",           [KS_COLLECTIVE] = "a collective",    [KS_OPAQUE] = "an extension",
    };
    if (c->function && names[s->kind])
        flxi_kfind(c, "K64", "keep it in the kernel's body", "function '%s' is not pure: %s",
                   flxi_kshow(c->k->fns[c->function].name).at, names[s->kind]);
}

static void check_rare(flxi_kchecker *c, const flxi_ks *s)
{
    switch ((flxi_ks_kind)s->kind) {
    case KS_INDIRECT: check_indirect(c, s); break;
    case KS_ASYNC_LOAD:
    case KS_ASYNC_STORE: check_copy(c, s); break;
    case KS_ASYNC_WAIT: check_wait(c, s); break;
    case KS_TRAP:
        flxi_kcheck_u32(c, s->a, "K20", "the address of trap");
        flxi_kcheck_text(c, "the tag", s->text);
        c->is_certain = false;
        break;
    case KS_RESUME: check_resume(c, s); break;
    case KS_COLLECTIVE: check_collective(c, s); break;
    case KS_OPAQUE:
        flxi_kcheck_opaque(c, s->opaque, NULL);
        c->interval++;
        break;
    default: break;
    }
}

static void check_statement(flxi_kchecker *c, const flxi_ks *s)
{
    check_allowed(c, s);
    switch ((flxi_ks_kind)s->kind) {
    case KS_LET:
        flxi_kcheck_expr(c, s->a);
        declare(c, s->var, c->list);
        break;
    case KS_ASSIGN: check_assign(c, s); break;
    case KS_STORE: check_store(c, s); break;
    case KS_EFFECT: check_effect(c, s); break;
    case KS_IF:
        flxi_kcheck_condition(c, s->a, "if");
        check_branches(c, s);
        break;
    case KS_LOOP:
        check_bounds(c, s);
        check_branches(c, s);
        break;
    case KS_BARRIER:
        if (!c->function)
            check_barrier(c, s);
        break;
    case KS_REGION:
        check_region(c, s);
        check_list(c, s->body, false, 0);
        break;
    case KS_BLOCK: check_list(c, s->body, false, 0); break;
    case KS_RETURN: c->is_certain = false; break;
    default: check_rare(c, s); break;
    }
}

static void check_statements(flxi_kchecker *c, flxi_klist list, bool in_else)
{
    flxi_kpath_open(&c->path, in_else);
    for (size_t i = 0; i < list.n && !c->failed; i++) {
        const flxi_ks *s = &list.at[i];
        c->path.at[c->path.n - 1].index = (uint32_t)i;
        c->position = s->position;
        if (!c->function)
            c->statement++;
        if (i > 0 && s[-1].kind == KS_RETURN)
            flxi_kfind(c, "K16", "remove them", "statements after a return are never reached");
        check_statement(c, s);
    }
    flxi_kpath_close(&c->path);
}

static void check_list(flxi_kchecker *c, flxi_klist list, bool in_else, uint32_t loop_var)
{
    size_t mark = c->num_visible;
    uint32_t outer = c->list;
    if (loop_var)
        declare(c, loop_var, ++c->num_lists);
    c->list = ++c->num_lists;
    check_statements(c, list, in_else);
    c->list = outer;
    leave_scope(c, mark);
}

/* ---- Functions ---- */

static void check_adjoint(flxi_kchecker *c, const flxi_kfn *fn)
{
    uint32_t of = fn->adjoint_of - 1;
    if (of == 0 || of >= c->function || c->k->fns[of].adjoint_of) {
        flxi_kfind(c, "K60", "declare the function first", "a derivative of an unknown function");
        return;
    }
    const flxi_kfn *base = &c->k->fns[of];
    flxi_kshown name = flxi_kshow(base->name);
    if (fn->adjoint_param >= base->num_params || fn->num_params != base->num_params + 2) {
        flxi_kfind(c, "K61", "its parameters are those of the function, its result and the factor",
                   "the derivative of '%s' has %u parameters, expected %u", name.at, (unsigned)fn->num_params,
                   (unsigned)base->num_params + 2);
        return;
    }
    for (uint32_t i = 0; i <= base->num_params; i++) {
        uint32_t type = c->k->vars[fn->params[i]].type;
        uint32_t wanted = i < base->num_params ? c->k->vars[base->params[i]].type : base->type;
        if (type != wanted)
            flxi_kfind(c, "K62", "give it the function's types", "parameter %u of the derivative of '%s' is %s, not %s",
                       (unsigned)i + 1, name.at, flxi_ktype_shown(type), flxi_ktype_shown(wanted));
    }
    uint32_t factor = c->k->vars[fn->params[fn->num_params - 1]].type;
    if (!flxi_ktype_is_float(factor) || !flxi_ktype_is_float(fn->type))
        flxi_kfind(c, "K62", "derivatives are floats", "the derivative of '%s' takes %s and returns %s", name.at,
                   flxi_ktype_shown(factor), flxi_ktype_shown(fn->type));
}

static void check_signature(flxi_kchecker *c, const flxi_kfn *fn)
{
    flxi_kname *name = flxi_kname_of(c, fn->name);
    flxi_kcheck_type(c, "result", fn->type);
    if (fn->adjoint_of) {
        check_adjoint(c, fn);
        return;
    }
    if (name->function)
        flxi_kfind(c, "K02", "give each function a name of its own", "a second function is named '%s'",
                   flxi_kshow(fn->name).at);
    name->function = c->function;
    flxi_kcheck_name(c, "function", fn->name);
}

static void check_function(flxi_kchecker *c, uint32_t number)
{
    const flxi_kfn *fn = &c->k->fns[number];
    char root[80];
    uint32_t of = fn->adjoint_of && fn->adjoint_of <= c->k->num_fns ? fn->adjoint_of - 1 : number;
    snprintf(root, sizeof root, "%s %s", fn->adjoint_of ? "adjoint" : "fn", flxi_kshow(c->k->fns[of].name).at);
    c->path.root = root;
    c->position = fn->position;
    c->function = number;
    c->call_depth[number] = 1;
    check_signature(c, fn);
    uint32_t params = ++c->num_lists;
    for (uint32_t i = 0; i < fn->num_params; i++) {
        declare(c, fn->params[i], params);
        flxi_kcheck_type(c, "parameter", c->k->vars[fn->params[i]].type);
    }
    c->list = ++c->num_lists;
    check_statements(c, fn->body, false);
    uint32_t type = flxi_kcheck_expr(c, fn->result);
    if (type && type != fn->type)
        flxi_kfind(c, "K62", "cast the result, or declare its type", "function '%s' returns %s, not %s",
                   flxi_kshow(fn->name).at, flxi_ktype_shown(type), flxi_ktype_shown(fn->type));
    leave_scope(c, 0);
    c->function = 0;
}

/* ---- The whole ---- */

/* Limits of the interpreter, which supports everything else. */
static const flx_kernel_target interpreter = {
    .struct_size = sizeof(flx_kernel_target),
    .flags =
        FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_HAS_GRID_BARRIER | FLX_KERNEL_HAS_COLLECTIVES | FLX_KERNEL_HAS_RESUME,
    .max_workgroup_bytes = 1 << 20,
    .max_private_bytes = 1 << 20,
};

static flx_kernel_target with_defaults(const flx_kernel_target *target)
{
    flx_kernel_target t = target ? *target : interpreter;
    if (!t.max_workgroup)
        t.max_workgroup = 1024;
    if (!t.subgroup_size)
        t.subgroup_size = 32;
    if (!t.max_workgroup_bytes)
        t.max_workgroup_bytes = 48 << 10;
    if (!t.max_private_bytes)
        t.max_private_bytes = 64 << 10;
    return t;
}

static bool start(flxi_kchecker *c)
{
    const flx_kernel *k = c->k;
    c->mem = flxi_kernel_mem(k);
    flxi_arena_init(&c->scratch, c->mem);
    c->vars = flxi_new(&c->scratch, flxi_kscoped, k->num_vars + 1u);
    c->visible = flxi_new(&c->scratch, uint32_t, k->num_vars + 1u);
    c->uses = flxi_new(&c->scratch, uint64_t, k->num_buffers + 1u);
    c->call_depth = flxi_new(&c->scratch, uint32_t, k->num_fns + 1u);
    return c->vars && c->visible && c->uses && c->call_depth && flxi_push(c->mem, &c->names, (flxi_kname){.text = ""});
}

static void stop(flxi_kchecker *c)
{
    flxi_kuniform_free(&c->uniform);
    flxi_kuniform_free(&c->gridwide);
    flxi_index_free(c->mem, &c->name_index);
    flxi_vec_free(c->mem, &c->names);
    flxi_index_free(c->mem, &c->touched_index);
    flxi_vec_free(c->mem, &c->touched);
    flxi_arena_free(&c->scratch);
}

static flx_code check_all(flxi_kchecker *c, flx_error *err)
{
    const flx_kernel *k = c->k;
    bool has_grid_barrier = false;
    FLXI_TRY(flxi_kuniform_find(k, KUNIFORM_WORKGROUP, &c->uniform, err));
    survey(c, k->body, &has_grid_barrier);
    if (has_grid_barrier)
        FLXI_TRY(flxi_kuniform_find(k, KUNIFORM_GRID, &c->gridwide, err));
    c->statement = 0;
    flxi_kcheck_declarations(c);
    for (uint32_t i = 1; i <= k->num_fns && !c->failed; i++)
        check_function(c, i);
    c->path.root = "body";
    c->is_certain = true;
    check_list(c, k->body, false, 0);
    return c->failed ? flxi_oom(err, "validation") : FLX_OK;
}

static flx_code check(flxi_kchecker *c, flx_error *err)
{
    flx_code code = start(c) ? check_all(c, err) : flxi_oom(err, "validation");
    stop(c);
    if (code != FLX_OK)
        return code;
    if (c->errors && err)
        *err = c->first;
    return c->errors ? FLX_E_KERNEL : FLX_OK;
}

static flx_code read_target(const flx_kernel_target *given, flx_kernel_target *t, flx_error *err)
{
    const uint32_t known = FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_HAS_GRID_BARRIER | FLX_KERNEL_HAS_COLLECTIVES |
                           FLX_KERNEL_HAS_RESUME | FLX_KERNEL_LACKS_F64 | FLX_KERNEL_LACKS_F16 |
                           FLX_KERNEL_ALLOWS_SHADOWING | FLX_KERNEL_NEEDS_CONVERGENCE;
    FLXI_TRY(FLXI_READ_OPTIONS(flx_kernel_target, t, given, err));
    if (t->flags & ~known)
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_validate: unknown flags 0x%x in the target",
                         (unsigned)(t->flags & ~known));
    if (t->subgroup_size > 32)
        return flxi_fail_hint(err, FLX_E_USAGE, "subgroup_ballot returns one bit per lane in a u32",
                              "flx_kernel_validate: subgroup size %u: at most 32", (unsigned)t->subgroup_size);
    return FLX_OK;
}

flx_code flx_kernel_validate(const flx_kernel *k, const flx_kernel_target *target, flx_kernel_finding *findings,
                             size_t room, size_t *found, flx_error *err)
{
    if (found)
        *found = 0;
    if (!k || (room && !findings))
        return flxi_fail(err, FLX_E_USAGE, "flx_kernel_validate: %s",
                         k ? "the findings are NULL" : "the kernel is NULL");
    flx_kernel_target read;
    FLXI_TRY(read_target(target, &read, err));
    flxi_kchecker c = {.k = k, .target = with_defaults(target ? &read : NULL), .findings = findings, .room = room};
    flx_code code = check(&c, err);
    if (found && (code == FLX_OK || code == FLX_E_KERNEL))
        *found = c.found;
    return code;
}

flx_code flxi_kernel_check_position(const flx_kernel *k, uint32_t *position, flx_error *err)
{
    flxi_kchecker c = {.k = k, .target = with_defaults(NULL)};
    flx_code code = check(&c, err);
    *position = c.first_position;
    return code;
}

flx_code flxi_kernel_check(const flx_kernel *k, flx_error *err)
{
    uint32_t position;
    return flxi_kernel_check_position(k, &position, err);
}
