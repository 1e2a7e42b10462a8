/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_check_expr.c: see kernel_check_expr.h. An operand without a type has been reported already, so the rules
   ignore it: one mistake gives one finding. */
#include "kernel/check/kernel_check_expr.h"

#include "kernel/check/kernel_check_buffer.h"
#include "kernel/program/kernel_extension.h"

#include <stdio.h>

static const flxi_kx *expr_of(const flxi_kchecker *c, uint32_t e)
{
    return &c->k->exprs[e <= c->k->num_exprs ? e : 0];
}

static uint32_t type_of(const flxi_kchecker *c, uint32_t e)
{
    return expr_of(c, e)->type;
}

static const char *kinds_shown(unsigned kinds)
{
    switch (kinds) {
    case TAKES_BOOL: return "bool";
    case TAKES_WORD: return "u32";
    case TAKES_TRUTH: return "bool or u32";
    case TAKES_UNSIGNED: return "unsigned integers (u8, u16, u32, u64)";
    case TAKES_INT: return "integers (u8 to u64, i8 to i64)";
    case TAKES_FLOAT: return "floats (f16, bf16, f32, f64)";
    case TAKES_NUMBER: return "integers or floats";
    default: return "bool, integers or floats";
    }
}

/* ---- Accesses ---- */

static bool is_same_for_all(const flxi_kchecker *c, uint32_t index)
{
    return c->uniform.exprs[index] && expr_of(c, index)->does == 0;
}

/* The record of an element, or NULL when the element is not known statically. */
static flxi_ktouched *touch(flxi_kchecker *c, uint32_t buffer, uint32_t index)
{
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, (uint64_t)buffer << 32 | index);
    uint32_t found;
    for (flxi_probe p = flxi_index_first(&c->touched_index, h); flxi_index_next(&c->touched_index, &p, &found);)
        if (c->touched.at[found].buffer == buffer && c->touched.at[found].index == index)
            return &c->touched.at[found];
    flxi_ktouched fresh = {.buffer = buffer, .index = index, .interval = c->interval};
    if (c->failed || !flxi_push(c->mem, &c->touched, fresh) ||
        !flxi_index_add(c->mem, &c->touched_index, h, (uint32_t)c->touched.n - 1)) {
        c->failed = true;
        return NULL;
    }
    return &c->touched.at[c->touched.n - 1];
}

/* Certain means: at least two invocations of a workgroup get here, and all of them access the same element. */
static void check_mixture(flxi_kchecker *c, uint32_t buffer, uint32_t index, bool is_atomic)
{
    const flxi_kbuffer *b = &c->k->buffers[buffer];
    bool others = b->access != FLX_KERNEL_PRIVATE && !(b->flags & FLX_KERNEL_EXCLUSIVE);
    if (!c->is_certain || !others || flxi_kernel_workgroup(c->k) < 2 || !is_same_for_all(c, index))
        return;
    flxi_ktouched *t = touch(c, buffer, index);
    if (!t)
        return;
    if (t->interval != c->interval)
        *t = (flxi_ktouched){.buffer = buffer, .index = index, .interval = c->interval};
    bool was_mixed = t->atomic && t->plain;
    t->atomic |= is_atomic;
    t->plain |= !is_atomic;
    if (t->atomic && t->plain && !was_mixed)
        flxi_kfind(c, "K54", "put a barrier between them, or make both atomic",
                   "buffer '%s': an atomic and a plain access to the same element, with no barrier between them",
                   flxi_kshow(b->name).at);
}

void flxi_kcheck_element(flxi_kchecker *c, uint32_t buffer, uint32_t index, const char *what, bool is_atomic)
{
    const flxi_kbuffer *b = flxi_kcheck_buffer(c, buffer, what);
    const flxi_kx *i = expr_of(c, index);
    if (i->type && i->type != FLX_U32)
        flxi_kfind(c, "K20", "cast it: cast<u32>(e)", "%s of buffer '%s': the index is %s, not u32", what,
                   flxi_kshow(b->name).at, flxi_ktype_shown(i->type));
    if (b == &c->k->buffers[0])
        return;
    if (flxi_ktype_of(b->element)->kind == 0)
        flxi_kfind(c, "K34", "declare it with an element type that kernels compute with",
                   "%s of buffer '%s', whose elements are %s", what, flxi_kshow(b->name).at,
                   flxi_ktype_shown(b->element));
    if (b->count && i->kind == KX_LITERAL && i->type == FLX_U32 && i->bits >= b->count)
        flxi_kfind(c, "K46", "indices begin at 0", "%s of buffer '%s' at index %llu, but it has %llu elements", what,
                   flxi_kshow(b->name).at, (unsigned long long)i->bits, (unsigned long long)b->count);
    check_mixture(c, buffer, index, is_atomic);
}

void flxi_kcheck_value(flxi_kchecker *c, const flxi_kbuffer *b, uint32_t type, const char *what)
{
    uint32_t wanted = flxi_ktype_of(b->element)->value;
    if (type && wanted && type != wanted)
        flxi_kfind(c, "K21", "cast the value", "%s of buffer '%s' takes %s, not %s", what, flxi_kshow(b->name).at,
                   flxi_ktype_shown(wanted), flxi_ktype_shown(type));
}

static void check_load(flxi_kchecker *c, const flxi_kx *e)
{
    flxi_kcheck_element(c, e->ref, e->x[0], "load", false);
    if (e->ref <= c->k->num_buffers && c->k->buffers[e->ref].access == FLX_KERNEL_WRITE)
        flxi_kfind(c, "K41", "declare it read_write", "load of buffer '%s', which is write-only",
                   flxi_kshow(c->k->buffers[e->ref].name).at);
}

static bool atomic_takes(uint8_t op, uint32_t element)
{
    if (element == FLX_U32 || element == FLX_I32 || element == FLX_U64 || element == FLX_I64)
        return true;
    return (element == FLX_F32 || element == FLX_F64) &&
           (op == FLX_KERNEL_ATOMIC_ADD || op == FLX_KERNEL_ATOMIC_EXCHANGE || op == FLX_KERNEL_ATOMIC_MIN ||
            op == FLX_KERNEL_ATOMIC_MAX);
}

static void check_atomic(flxi_kchecker *c, const flxi_kx *e)
{
    char what[40];
    const char *op = e->op < FLX_KERNEL_ATOMIC_COUNT ? flxi_katomic_names[e->op] : "?";
    snprintf(what, sizeof what, "atomic_%s", op);
    flxi_kcheck_element(c, e->ref, e->x[0], what, true);
    const flxi_kbuffer *b = &c->k->buffers[e->ref <= c->k->num_buffers ? e->ref : 0];
    flxi_kcheck_value(c, b, type_of(c, e->x[1]), what);
    if (e->x[2])
        flxi_kcheck_value(c, b, type_of(c, e->x[2]), what);
    if (e->ref && b->access != FLX_KERNEL_READ_WRITE && b->access != FLX_KERNEL_WORKGROUP)
        flxi_kfind(c, "K42", "atomics need read_write or workgroup buffers", "%s on buffer '%s', which is %s", what,
                   flxi_kshow(b->name).at, flxi_kaccess_names[b->access]);
    if (e->ref && flxi_ktype_of(b->element)->kind && !atomic_takes(e->op, b->element))
        flxi_kfind(c, "K43", "u32, i32, u64, i64; add, exchange, min and max also f32 and f64",
                   "%s does not work on %s elements (buffer '%s')", what, flxi_ktype_shown(b->element),
                   flxi_kshow(b->name).at);
    bool compares = e->op == FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE;
    if (compares != (e->x[2] != 0))
        flxi_kfind(c, "K44", "only compare_exchange takes an expected value", "%s %s an expected value", what,
                   compares ? "without" : "with");
    if (e->order >= FLX_KERNEL_GRID)
        flxi_kfind(c, "K45", "relaxed, acquire, release, acq_rel or seq_cst", "%s with ordering %s", what,
                   e->order < FLX_KERNEL_ORDER_COUNT ? flxi_korder_names[e->order] : "?");
}

/* ---- Operations ---- */

static void check_unary(flxi_kchecker *c, const flxi_kx *e)
{
    uint32_t type = type_of(c, e->x[0]);
    if (e->op == KUN_NONE || e->op >= KUN_COUNT)
        flxi_kfind(c, "K60", "use one of the unary ops", "unary op number %u does not exist", (unsigned)e->op);
    else if (type && !flxi_ktype_fits(type, flxi_kunaries[e->op].kinds))
        flxi_kfind(c, "K24", "cast the operand", "%s takes %s, not %s", flxi_kunaries[e->op].name,
                   kinds_shown(flxi_kunaries[e->op].kinds), flxi_ktype_shown(type));
}

static void check_binary(flxi_kchecker *c, const flxi_kx *e)
{
    uint32_t x = type_of(c, e->x[0]);
    uint32_t y = type_of(c, e->x[1]);
    if (e->op == KBIN_NONE || e->op >= KBIN_COUNT) {
        flxi_kfind(c, "K60", "use one of the binary ops", "binary op number %u does not exist", (unsigned)e->op);
        return;
    }
    const flxi_kop *op = &flxi_kbinaries[e->op];
    bool may_differ = e->op == KBIN_logical_and || e->op == KBIN_logical_or;
    const flxi_kx *divisor = expr_of(c, e->x[1]);
    if (x && y && x != y && !may_differ)
        flxi_kfind(c, "K23", "cast one of them", "the operands of %s are %s and %s", op->name, flxi_ktype_shown(x),
                   flxi_ktype_shown(y));
    else if (x && !flxi_ktype_fits(x, op->kinds))
        flxi_kfind(c, "K24", "cast the operands", "%s takes %s, not %s", op->name, kinds_shown(op->kinds),
                   flxi_ktype_shown(x));
    else if (y && !flxi_ktype_fits(y, op->kinds))
        flxi_kfind(c, "K24", "cast the operands", "%s takes %s, not %s", op->name, kinds_shown(op->kinds),
                   flxi_ktype_shown(y));
    else if ((e->op == KBIN_div || e->op == KBIN_mod) && divisor->kind == KX_LITERAL && divisor->bits == 0 &&
             flxi_ktype_fits(divisor->type, TAKES_INT))
        flxi_kfind(c, "K32", "divide by something else", "%s of %s by the literal 0", op->name, flxi_ktype_shown(y));
}

static void check_select(flxi_kchecker *c, const flxi_kx *e)
{
    uint32_t x = type_of(c, e->x[1]);
    uint32_t y = type_of(c, e->x[2]);
    uint32_t condition = type_of(c, e->x[0]);
    if (condition && !flxi_ktype_fits(condition, TAKES_TRUTH))
        flxi_kfind(c, "K25", "compare it with something", "the condition of select is %s, not bool or u32",
                   flxi_ktype_shown(condition));
    if (x && y && x != y)
        flxi_kfind(c, "K27", "cast one of them", "the arms of select are %s and %s", flxi_ktype_shown(x),
                   flxi_ktype_shown(y));
    if ((expr_of(c, e->x[1])->does | expr_of(c, e->x[2])->does) & KX_ATOMICS)
        flxi_kfind(c, "K47", "bind it with let first, or use an if", "an atomic is not allowed in an arm of select");
}

static void check_fma(flxi_kchecker *c, const flxi_kx *e)
{
    uint32_t t[3];
    for (int i = 0; i < 3; i++)
        t[i] = type_of(c, e->x[i]);
    if (!t[0] || !t[1] || !t[2])
        return;
    if (t[0] != t[1] || t[0] != t[2] || !flxi_ktype_is_float(t[0]))
        flxi_kfind(c, "K28", "fma takes three floats of one type", "the operands of fma are %s, %s and %s",
                   flxi_ktype_shown(t[0]), flxi_ktype_shown(t[1]), flxi_ktype_shown(t[2]));
}

static bool is_narrowing(uint32_t from, uint32_t to)
{
    if (from == FLX_BOOL || to == FLX_BOOL)
        return false;
    bool halves = (from == FLX_F16 && to == FLX_BF16) || (from == FLX_BF16 && to == FLX_F16);
    return halves || flxi_ktype_of(to)->bits < flxi_ktype_of(from)->bits;
}

static bool is_arithmetic(uint32_t type)
{
    return flxi_ktype_fits(type, TAKES_ANY);
}

static void check_cast(flxi_kchecker *c, const flxi_kx *e)
{
    uint32_t from = type_of(c, e->x[0]);
    const char *name = e->kind == KX_CAST ? "cast" : "bitcast";
    flxi_kcheck_type(c, name, e->type);
    if (!is_arithmetic(e->type))
        flxi_kfind(c, "K29", "cast to a type that kernels compute with", "%s to %s", name, flxi_ktype_shown(e->type));
    else if (from && e->kind == KX_BITCAST && flxi_ktype_of(from)->bits != flxi_ktype_of(e->type)->bits)
        flxi_kfind(c, "K29", "bitcast keeps the width; cast converts", "bitcast of %s (%u bits) to %s (%u bits)",
                   flxi_ktype_shown(from), (unsigned)flxi_ktype_of(from)->bits, flxi_ktype_shown(e->type),
                   (unsigned)flxi_ktype_of(e->type)->bits);
    else if (from && e->kind == KX_CAST && is_narrowing(from, e->type))
        flxi_kwarn(c, "K30", "make sure that the values fit", "cast of %s to %s loses bits", flxi_ktype_shown(from),
                   flxi_ktype_shown(e->type));
}

/* ---- Lanes, calls, extensions ---- */

static void check_subgroup(flxi_kchecker *c, const flxi_kx *e)
{
    static const char *const names[] = {[KX_LANE] = "subgroup_lane",
                                        [KX_LANES] = "subgroup_size",
                                        [KX_SUBGROUP_ADD] = "subgroup_add",
                                        [KX_SUBGROUP_SHUFFLE] = "subgroup_shuffle",
                                        [KX_SUBGROUP_BALLOT] = "subgroup_ballot"};
    uint32_t x = type_of(c, e->x[0]);
    uint32_t lane = type_of(c, e->x[1]);
    if (!(c->target.flags & FLX_KERNEL_HAS_SUBGROUPS))
        flxi_kfind(c, "K51", "use workgroup memory and barriers", "%s: the target does not support subgroups",
                   names[e->kind]);
    else if ((c->target.flags & FLX_KERNEL_NEEDS_CONVERGENCE) && e->kind != KX_LANE && e->kind != KX_LANES &&
             !c->function && !flxi_kchecker_is_uniform(c, &c->uniform))
        flxi_kfind(c, "K51", "move it out of the branch or loop, or run the kernel on the CPU",
                   "%s in divergent control flow: the target requires all invocations of the workgroup to reach it",
                   names[e->kind]);
    if (e->kind == KX_SUBGROUP_ADD && x && !flxi_ktype_fits(x, TAKES_NUMBER))
        flxi_kfind(c, "K24", "cast the operand", "subgroup_add takes %s, not %s", kinds_shown(TAKES_NUMBER),
                   flxi_ktype_shown(x));
    if (e->kind == KX_SUBGROUP_BALLOT && x && x != FLX_BOOL)
        flxi_kfind(c, "K24", "compare it with something", "subgroup_ballot takes bool, not %s", flxi_ktype_shown(x));
    if (e->kind == KX_SUBGROUP_SHUFFLE && lane && lane != FLX_U32)
        flxi_kfind(c, "K20", "cast it: cast<u32>(e)", "the lane of subgroup_shuffle is %s, not u32",
                   flxi_ktype_shown(lane));
}

/* The function that is being checked calls `fn`. Only the call that exceeds the limit is reported. */
static void deepen(flxi_kchecker *c, uint32_t fn)
{
    uint32_t *depth = &c->call_depth[c->function];
    if (c->call_depth[fn] < *depth)
        return;
    *depth = c->call_depth[fn] < FLXI_KERNEL_MAX_CALLS ? c->call_depth[fn] + 1 : FLXI_KERNEL_MAX_CALLS + 1;
    if (c->call_depth[fn] == FLXI_KERNEL_MAX_CALLS)
        flxi_kfind(
            c, "K63", "inline the innermost functions", "function '%s' calls '%s': calls are nested more than %d deep",
            flxi_kshow(c->k->fns[c->function].name).at, flxi_kshow(c->k->fns[fn].name).at, FLXI_KERNEL_MAX_CALLS);
}

static void check_call(flxi_kchecker *c, const flxi_kx *e)
{
    if (e->ref == 0 || e->ref > c->k->num_fns) {
        flxi_kfind(c, "K60", "declare the function before its use", "call of an unknown function");
        return;
    }
    const flxi_kfn *fn = &c->k->fns[e->ref];
    flxi_kshown name = flxi_kshow(fn->name);
    if (fn->adjoint_of)
        flxi_kfind(c, "K60", "only transforms use derivatives", "the derivative of a function cannot be called");
    if (c->function && e->ref >= c->function)
        flxi_kfind(c, "K63", "functions call only those declared before them", "function '%s' calls '%s'%s",
                   flxi_kshow(c->k->fns[c->function].name).at, name.at,
                   e->ref == c->function ? ": it is recursive" : ", which is declared later");
    else if (c->function)
        deepen(c, e->ref);
    if (e->num_args != fn->num_params) {
        flxi_kfind(c, "K61", "give one argument for each parameter", "function '%s' takes %u arguments, got %u",
                   name.at, (unsigned)fn->num_params, (unsigned)e->num_args);
        return;
    }
    for (uint32_t i = 0; i < fn->num_params; i++) {
        uint32_t wanted = c->k->vars[fn->params[i]].type;
        uint32_t type = type_of(c, e->args[i]);
        if (type && type != wanted)
            flxi_kfind(c, "K62", "cast the argument", "argument %u of function '%s' is %s, not %s", (unsigned)i + 1,
                       name.at, flxi_ktype_shown(type), flxi_ktype_shown(wanted));
    }
}

/* What the extension specifies about operands and type. */
static void check_operands(flxi_kchecker *c, const flxi_kopaque *o, const flxi_kx *e)
{
    const flx_kernel_extension *x = &o->known->is;
    uint32_t types[FLXI_KEXTENSION_MAX_ARGS] = {0};
    flxi_kshown name = flxi_kshow(x->name);
    if (e->num_args != x->num_args) {
        flxi_kfind(c, "K61", "give it the number of operands that it was registered with",
                   "extension '%s' takes %u operands, got %u", name.at, (unsigned)x->num_args, (unsigned)e->num_args);
        return;
    }
    for (uint32_t i = 0; i < x->num_args; i++) {
        types[i] = type_of(c, e->args[i]);
        if (!types[i])
            return;
    }
    uint32_t type = x->type(x->user, types, x->num_args);
    if (!is_arithmetic(type))
        flxi_kfind(c, "K62", "cast the operands", "extension '%s' does not take operands of these types%s%s", name.at,
                   x->num_args ? ", the first is " : "", x->num_args ? flxi_ktype_shown(types[0]) : "");
    else if (type != o->type)
        flxi_kfind(c, "K64", "declare the type that it returns for these operands", "extension '%s' returns %s, not %s",
                   name.at, flxi_ktype_shown(type), flxi_ktype_shown(o->type));
}

/* What the extension specifies otherwise. */
static void check_known(flxi_kchecker *c, const flxi_kopaque *o, const flxi_kx *e)
{
    const flx_kernel_extension *x = &o->known->is;
    flxi_kshown name = flxi_kshow(x->name);
    char why[160] = "";
    bool is_pure = flxi_kextension_is_pure(o->known);
    if (flxi_kextension_is_statement(o->known) == (e != NULL))
        flxi_kfind(c, "K64", "use it as it was registered", "extension '%s' is %s", name.at,
                   e ? "a statement, not an expression" : "an expression, not a statement");
    else if ((e || o->fingerprint) && o->fingerprint != x->fingerprint)
        flxi_kfind(c, "K64", "the kernel was written for another version of it",
                   "extension '%s' has fingerprint 0x%llx here, but 0x%llx is registered", name.at,
                   (unsigned long long)o->fingerprint, (unsigned long long)x->fingerprint);
    else if (e && !o->pure == is_pure)
        flxi_kfind(c, "K64", "declare it as it is registered", "extension '%s' is %s", name.at,
                   is_pure ? "pure" : "impure");
    else if (x->check && x->check(x->user, o->payload, o->payload_size, why, sizeof why) != 0)
        flxi_kfind(c, "K64", "give it a payload that it accepts", "extension '%s' rejects its payload: %s", name.at,
                   flxi_kshow(why).at);
    else if (e)
        check_operands(c, o, e);
}

void flxi_kcheck_opaque(flxi_kchecker *c, uint32_t opaque, const flxi_kx *e)
{
    bool is_expression = e != NULL;
    const flxi_kopaque *o = &c->k->opaques[opaque <= c->k->num_opaques ? opaque : 0];
    flxi_kcheck_text(c, "the extension", o->extension);
    if (!o->extension[0])
        flxi_kfind(c, "K64", "give the kind of the extension", "an extension has no kind");
    else if (is_expression && !is_arithmetic(o->type))
        flxi_kfind(c, "K64", "give it a type that kernels compute with", "extension '%s' has no type",
                   flxi_kshow(o->extension).at);
    else if (is_expression && o->fingerprint == 0)
        flxi_kfind(c, "K64", "give it a fingerprint other than 0", "extension '%s' has no fingerprint",
                   flxi_kshow(o->extension).at);
    else if (o->known)
        check_known(c, o, e);
}

/* ---- Leaves ---- */

static void check_variable(flxi_kchecker *c, uint32_t var)
{
    const flxi_kvar *v = &c->k->vars[var <= c->k->num_vars ? var : 0];
    if (!c->vars[var <= c->k->num_vars ? var : 0].is_visible)
        flxi_kfind(c, "K10", "declare it with let in this list or around it", "no variable '%s' is in scope",
                   flxi_kshow(v->name).at);
}

/* What is not allowed in a function: its result must depend on its arguments only. */
static void check_purity(flxi_kchecker *c, const flxi_kx *e)
{
    static const char *const names[KX_KIND_COUNT] = {
        [KX_LOAD] = "a load",
        [KX_LENGTH] = "the length of a buffer",
        [KX_ID] = "an id",
        [KX_LANE] = "the lane",
        [KX_LANES] = "the subgroup size",
        [KX_ATOMIC] = "an atomic",
        [KX_SUBGROUP_ADD] = "subgroup_add",
        [KX_SUBGROUP_SHUFFLE] = "subgroup_shuffle",
        [KX_SUBGROUP_BALLOT] = "subgroup_ballot",
    };
    bool impure = e->kind == KX_OPAQUE && e->ref <= c->k->num_opaques && !c->k->opaques[e->ref].pure;
    const char *name = impure ? "an impure extension" : names[e->kind];
    if (c->function && name)
        flxi_kfind(c, "K64", "pass it as an argument", "function '%s' is not pure: %s",
                   flxi_kshow(c->k->fns[c->function].name).at, name);
}

/* ---- The tree ---- */

static void check_node(flxi_kchecker *c, const flxi_kx *e)
{
    check_purity(c, e);
    switch ((flxi_kx_kind)e->kind) {
    case KX_LITERAL: flxi_kcheck_type(c, "literal", e->type); break;
    case KX_VAR: check_variable(c, e->ref); break;
    case KX_LOAD: check_load(c, e); break;
    case KX_LENGTH: flxi_kcheck_buffer(c, e->ref, "length"); break;
    case KX_ID:
        if (e->ref > 2)
            flxi_kfind(c, "K33", "axes are 0, 1 and 2", "%s(%u): the axis is out of range",
                       e->op < FLX_KERNEL_ID_COUNT ? flxi_kid_names[e->op] : "?", (unsigned)e->ref);
        break;
    case KX_UNARY: check_unary(c, e); break;
    case KX_BINARY: check_binary(c, e); break;
    case KX_SELECT: check_select(c, e); break;
    case KX_FMA: check_fma(c, e); break;
    case KX_CAST:
    case KX_BITCAST: check_cast(c, e); break;
    case KX_CALL: check_call(c, e); break;
    case KX_ATOMIC: check_atomic(c, e); break;
    case KX_LANE:
    case KX_LANES:
    case KX_SUBGROUP_ADD:
    case KX_SUBGROUP_SHUFFLE:
    case KX_SUBGROUP_BALLOT: check_subgroup(c, e); break;
    case KX_OPAQUE:
        flxi_kcheck_type(c, "extension", e->type);
        flxi_kcheck_opaque(c, e->ref, e);
        break;
    case KX_NONE:
    case KX_KIND_COUNT: break;
    }
}

uint32_t flxi_kcheck_expr(flxi_kchecker *c, uint32_t expr)
{
    const flxi_kx *e = expr_of(c, expr);
    if (e->kind == KX_NONE || e->kind >= KX_KIND_COUNT) {
        flxi_kfind(c, "K24", "give the operand", "an operand is missing");
        return 0;
    }
    for (int i = 0; i < flxi_kx_operands(e); i++)
        flxi_kcheck_expr(c, e->x[i]);
    for (size_t i = 0; i < e->num_args; i++)
        flxi_kcheck_expr(c, e->args[i]);
    check_node(c, e);
    if (e->type == 0 && c->errors == 0)
        flxi_kfind(c, "K24", "give each operation operands of its types", "an expression has no type");
    return e->type;
}

void flxi_kcheck_u32(flxi_kchecker *c, uint32_t expr, const char *code, const char *what)
{
    uint32_t type = flxi_kcheck_expr(c, expr);
    if (type && type != FLX_U32)
        flxi_kfind(c, code, "cast it: cast<u32>(e)", "%s is %s, not u32", what, flxi_ktype_shown(type));
}

void flxi_kcheck_condition(flxi_kchecker *c, uint32_t expr, const char *what)
{
    uint32_t type = flxi_kcheck_expr(c, expr);
    if (type && !flxi_ktype_fits(type, TAKES_TRUTH))
        flxi_kfind(c, "K25", "compare it with something", "the condition of %s is %s, not bool or u32", what,
                   flxi_ktype_shown(type));
}
