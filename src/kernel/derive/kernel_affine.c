/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_affine.c: proofs that different invocations access different elements.

   An index is written as offset + sum of factor * term, where the terms are ids and loop variables. Seen as digits of a
   number, smallest factor first, the digits are determined by the number if each factor exceeds the largest sum of the
   smaller ones. Then an element determines which invocation accessed it. A factor may be an unknown number S (such as a
   row length), as long as it is the same for all invocations and the digits below are known to stay below S. Since u32
   wraps around, all values of the index must also fit within 2^32: either ranges prove it, or a condition is left to be
   checked at run time. */
#include "kernel/derive/kernel_affine.h"

#include "kernel/derive/kernel_normalise.h"
#include "kernel/derive/kernel_wrap.h"

enum { MAX_TERMS = 12, MAX_NESTING = 40, LARGE_FACTOR = 1 << 24 };

typedef enum { TERM_INVOCATION, TERM_GROUP, TERM_LOCAL, TERM_LOOP } term_kind;

typedef struct {
    term_kind kind;
    uint32_t which; /* axis, or the loop's variable */
    int64_t factor;
    uint32_t symbol; /* leaf that also multiplies it, or 0 */
} term;

typedef struct {
    int64_t offset;
    size_t n;
    term terms[MAX_TERMS];
    uint32_t distinct;       /* the index is an element of this buffer without repetitions … */
    uint32_t distinct_index; /* … at this leaf, and nothing else */
} affine;

/* ---- Reading an index ---- */

static bool add_term(affine *f, term t)
{
    for (size_t i = 0; i < f->n; i++) {
        term *u = &f->terms[i];
        if (u->kind == t.kind && u->which == t.which && u->symbol == t.symbol)
            return !__builtin_add_overflow(u->factor, t.factor, &u->factor);
    }
    if (f->n == MAX_TERMS)
        return false;
    f->terms[f->n++] = t;
    return true;
}

static bool add_scaled(affine *f, const affine *g, int64_t scale)
{
    int64_t offset;
    if (g->distinct || __builtin_mul_overflow(g->offset, scale, &offset) ||
        __builtin_add_overflow(f->offset, offset, &f->offset))
        return false;
    for (size_t i = 0; i < g->n; i++) {
        term t = g->terms[i];
        if (__builtin_mul_overflow(t.factor, scale, &t.factor) || !add_term(f, t))
            return false;
    }
    return true;
}

/* The same for every invocation of the dispatch, whenever it is read. */
static bool is_common(const flxi_kflow *w, uint32_t expr, int depth)
{
    const flxi_kx *e = &w->k->exprs[expr];
    if (depth > MAX_NESTING)
        return false;
    switch ((flxi_kx_kind)e->kind) {
    case KX_LITERAL:
    case KX_LENGTH: return true;
    case KX_ID: return e->op == FLX_KERNEL_NUM_WORKGROUPS;
    case KX_VAR:
        return !w->vars[e->ref].is_assigned && w->vars[e->ref].value && is_common(w, w->vars[e->ref].value, depth + 1);
    case KX_LOAD: {
        const flxi_kbuffer *b = &w->k->buffers[e->ref];
        bool is_fixed = w->buffers[e->ref].last_write == 0 && b->access != FLX_KERNEL_PRIVATE;
        return is_fixed && is_common(w, e->x[0], depth + 1);
    }
    case KX_UNARY:
    case KX_CAST: return is_common(w, e->x[0], depth + 1);
    case KX_BINARY: return is_common(w, e->x[0], depth + 1) && is_common(w, e->x[1], depth + 1);
    default: return false;
    }
}

static bool read_index(const flxi_kflow *w, uint32_t expr, affine *f, int depth);

static bool read_product(const flxi_kflow *w, const flxi_kx *e, affine *f, int depth)
{
    for (int side = 0; side < 2; side++) {
        affine a = {0}, c = {0};
        if (!read_index(w, e->x[side], &a, depth))
            continue;
        if (read_index(w, e->x[1 - side], &c, depth) && c.n == 0 && !c.distinct)
            return add_scaled(f, &a, c.offset);
        bool can_scale = a.offset == 0 && !a.distinct && is_common(w, e->x[1 - side], 0);
        for (size_t i = 0; i < a.n; i++)
            can_scale &= a.terms[i].symbol == 0;
        if (!can_scale || a.n == 0)
            continue;
        for (size_t i = 0; i < a.n; i++)
            a.terms[i].symbol = e->x[1 - side];
        return add_scaled(f, &a, 1);
    }
    return false;
}

static bool read_binary(const flxi_kflow *w, const flxi_kx *e, affine *f, int depth)
{
    affine a = {0}, c = {0};
    switch ((flxi_kbinary)e->op) {
    case KBIN_add:
    case KBIN_wrapping_add:
        return read_index(w, e->x[0], &a, depth) && read_index(w, e->x[1], &c, depth) && add_scaled(f, &a, 1) &&
               add_scaled(f, &c, 1);
    case KBIN_sub:
    case KBIN_wrapping_sub:
        return read_index(w, e->x[0], &a, depth) && read_index(w, e->x[1], &c, depth) && add_scaled(f, &a, 1) &&
               add_scaled(f, &c, -1);
    case KBIN_mul: return read_product(w, e, f, depth);
    case KBIN_shl:
        return read_index(w, e->x[0], &a, depth) && read_index(w, e->x[1], &c, depth) && c.n == 0 && !c.distinct &&
               c.offset >= 0 && c.offset < 32 && add_scaled(f, &a, INT64_C(1) << c.offset);
    default: return false;
    }
}

static bool read_var(const flxi_kflow *w, uint32_t var, affine *f, int depth)
{
    const flxi_kvar_facts *v = &w->vars[var];
    if (w->k->vars[var].kind == KVAR_LOOP)
        return add_term(f, (term){TERM_LOOP, var, 1, 0});
    return v->value && !v->is_assigned && read_index(w, v->value, f, depth + 1);
}

static bool read_index(const flxi_kflow *w, uint32_t expr, affine *f, int depth)
{
    const flxi_kx *e = &w->k->exprs[expr];
    if (depth > MAX_NESTING || e->type != FLX_U32)
        return false;
    switch ((flxi_kx_kind)e->kind) {
    case KX_LITERAL: return !__builtin_add_overflow(f->offset, (int64_t)(int32_t)(uint32_t)e->bits, &f->offset);
    case KX_ID:
        if (e->op == FLX_KERNEL_NUM_WORKGROUPS)
            return false;
        return add_term(f, (term){e->op == FLX_KERNEL_INVOCATION_ID  ? TERM_INVOCATION
                                  : e->op == FLX_KERNEL_WORKGROUP_ID ? TERM_GROUP
                                                                     : TERM_LOCAL,
                                  e->ref, 1, 0});
    case KX_VAR: return read_var(w, e->ref, f, depth);
    case KX_BINARY: return read_binary(w, e, f, depth + 1);
    case KX_LOAD:
        if (!(w->k->buffers[e->ref].flags & FLX_KERNEL_DISTINCT) || w->buffers[e->ref].last_write || f->n || f->offset)
            return false;
        f->distinct = e->ref;
        f->distinct_index = e->x[0];
        return true;
    default: return false;
    }
}

/* ---- What conditions around an access imply ---- */

typedef struct {
    int64_t extent;  /* number of values of the term; 0: unknown */
    uint32_t symbol; /* … or it stays below this leaf */
} extent;

static bool is_term(const flxi_kflow *w, uint32_t leaf, const term *t)
{
    affine f = {0};
    return read_index(w, leaf, &f, 0) && f.n == 1 && f.offset == 0 && f.terms[0].kind == t->kind &&
           f.terms[0].which == t->which && f.terms[0].factor == 1 && f.terms[0].symbol == 0;
}

static void bound_below(const flxi_kflow *w, uint32_t leaf, extent *x, int64_t more)
{
    const flxi_kx *e = &w->k->exprs[leaf];
    if (e->kind == KX_LITERAL) {
        int64_t n = (int64_t)e->bits + more;
        if (x->extent == 0 || n < x->extent)
            x->extent = n > 0 ? n : 1;
    } else if (more == 0 && is_common(w, leaf, 0)) {
        x->symbol = leaf;
    }
}

/* What `condition` being `holds` implies about the term. */
static void learn(const flxi_kflow *w, uint32_t condition, bool holds, const term *t, extent *x, int depth)
{
    const flxi_kx *e = &w->k->exprs[condition];
    if (e->kind == KX_VAR && !w->vars[e->ref].is_assigned && w->vars[e->ref].value)
        e = &w->k->exprs[w->vars[e->ref].value];
    if (depth > MAX_NESTING)
        return;
    if (e->kind == KX_UNARY && e->op == KUN_logical_not) {
        learn(w, e->x[0], !holds, t, x, depth + 1);
        return;
    }
    if (e->kind != KX_BINARY)
        return;
    if ((e->op == KBIN_logical_and && holds) || (e->op == KBIN_logical_or && !holds)) {
        learn(w, e->x[0], holds, t, x, depth + 1);
        learn(w, e->x[1], holds, t, x, depth + 1);
        return;
    }
    flxi_kbinary op = (flxi_kbinary)e->op;
    if (((op == KBIN_lt && holds) || (op == KBIN_ge && !holds)) && is_term(w, e->x[0], t))
        bound_below(w, e->x[1], x, 0);
    else if (((op == KBIN_gt && holds) || (op == KBIN_le && !holds)) && is_term(w, e->x[1], t))
        bound_below(w, e->x[0], x, 0);
    else if (((op == KBIN_le && holds) || (op == KBIN_gt && !holds)) && is_term(w, e->x[0], t))
        bound_below(w, e->x[1], x, 1);
    else if (((op == KBIN_ge && holds) || (op == KBIN_lt && !holds)) && is_term(w, e->x[1], t))
        bound_below(w, e->x[0], x, 1);
}

/* `id == constant` around the access leaves only one invocation. */
static bool is_fixed_by(const flxi_kflow *w, uint32_t condition, bool holds, const term *t, int depth)
{
    const flxi_kx *e = &w->k->exprs[condition];
    if (e->kind == KX_VAR && !w->vars[e->ref].is_assigned && w->vars[e->ref].value)
        e = &w->k->exprs[w->vars[e->ref].value];
    if (e->kind != KX_BINARY || depth > MAX_NESTING)
        return false;
    if (e->op == KBIN_logical_and && holds)
        return is_fixed_by(w, e->x[0], holds, t, depth + 1) || is_fixed_by(w, e->x[1], holds, t, depth + 1);
    if (!(e->op == KBIN_eq && holds) && !(e->op == KBIN_ne && !holds))
        return false;
    return (is_term(w, e->x[0], t) && is_common(w, e->x[1], 0)) || (is_term(w, e->x[1], t) && is_common(w, e->x[0], 0));
}

static bool is_fixed(const flxi_kflow *w, const flxi_kstep *at, const term *t)
{
    for (const flxi_kstep *p = at; p->parent; p = p->parent)
        if (p->parent->s->kind == KS_IF && is_fixed_by(w, p->parent->s->a, !p->in_else, t, 0))
            return true;
    return false;
}

static extent extent_of(const flxi_kflow *w, const flxi_kstep *at, const term *t)
{
    extent x = {0};
    if (t->kind == TERM_LOCAL)
        x.extent = w->k->size[t->which];
    if (t->kind == TERM_LOOP)
        bound_below(w, w->vars[t->which].step->s->b, &x, 0);
    for (const flxi_kstep *p = at; p->parent; p = p->parent)
        if (p->parent->s->kind == KS_IF)
            learn(w, p->parent->s->a, !p->in_else, t, &x, 0);
    return x;
}

/* Whether the leaf is the number of invocations along the axis. */
static bool is_axis_total(const flxi_kflow *w, uint32_t leaf, uint32_t axis)
{
    const flxi_kx *e = &w->k->exprs[leaf];
    if (e->kind == KX_VAR && !w->vars[e->ref].is_assigned && w->vars[e->ref].value)
        e = &w->k->exprs[w->vars[e->ref].value];
    uint32_t size = w->k->size[axis];
    if (e->kind == KX_ID && e->op == FLX_KERNEL_NUM_WORKGROUPS && e->ref == axis)
        return size == 1;
    for (int side = 0; e->kind == KX_BINARY && e->op == KBIN_mul && side < 2; side++) {
        const flxi_kx *groups = &w->k->exprs[e->x[side]], *literal = &w->k->exprs[e->x[1 - side]];
        if (groups->kind == KX_ID && groups->op == FLX_KERNEL_NUM_WORKGROUPS && groups->ref == axis &&
            literal->kind == KX_LITERAL && literal->bits == size)
            return true;
    }
    return false;
}

/* ---- Digits ---- */

bool flxi_kernel_mentions_axis(const flx_kernel *k, uint32_t axis)
{
    for (uint32_t i = 1; i <= k->num_exprs; i++) {
        const flxi_kx *e = &k->exprs[i];
        if (e->kind == KX_ID && e->op != FLX_KERNEL_NUM_WORKGROUPS && e->ref == axis)
            return true;
    }
    return k->size[axis] > 1;
}

/* group * size + local is the invocation. */
static void join_ids(const flxi_kflow *w, affine *f, bool in_workgroup)
{
    for (size_t i = 0; i < f->n; i++) {
        term *t = &f->terms[i];
        if (in_workgroup && t->kind == TERM_INVOCATION)
            t->kind = TERM_LOCAL;
        if (in_workgroup && t->kind == TERM_GROUP)
            *t = f->terms[--f->n], i--;
    }
    for (size_t i = 0; i < f->n; i++)
        for (size_t j = 0; j < f->n; j++) {
            term *group = &f->terms[i], *local = &f->terms[j];
            if (group->kind != TERM_GROUP || local->kind != TERM_LOCAL || group->which != local->which ||
                group->symbol != local->symbol || group->factor != local->factor * w->k->size[local->which])
                continue;
            local->kind = TERM_INVOCATION;
            *group = f->terms[--f->n];
            i = j = 0;
        }
    for (size_t i = 0; i < f->n; i++)
        if (f->terms[i].kind == TERM_GROUP && w->k->size[f->terms[i].which] == 1)
            f->terms[i].kind = TERM_INVOCATION;
}

static bool names_axis(const affine *f, term_kind kind, uint32_t axis)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->terms[i].which == axis && f->terms[i].factor != 0 && f->terms[i].kind == kind)
            return true;
    return false;
}

/* Every id that distinguishes invocations is in the index, or has only one possible value. */
static bool names_all_ids(const flxi_kflow *w, const affine *f, const flxi_kstep *at, bool in_workgroup)
{
    for (uint32_t axis = 0; axis < 3; axis++) {
        if (in_workgroup ? w->k->size[axis] == 1 : !w->has_axis[axis])
            continue;
        term invocation = {TERM_INVOCATION, axis, 1, 0}, local = {TERM_LOCAL, axis, 1, 0};
        term group = {TERM_GROUP, axis, 1, 0};
        bool has_local = names_axis(f, TERM_LOCAL, axis) || is_fixed(w, at, &local) || w->k->size[axis] == 1;
        bool has_group = names_axis(f, TERM_GROUP, axis) || is_fixed(w, at, &group);
        bool has_both = names_axis(f, TERM_INVOCATION, axis) || is_fixed(w, at, &invocation);
        if (!has_both && !(has_local && (in_workgroup || has_group)))
            return false;
    }
    return true;
}

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

static void sort_terms(affine *f)
{
    for (size_t i = 1; i < f->n; i++)
        for (size_t j = i; j > 0; j--) {
            term *a = &f->terms[j - 1], *b = &f->terms[j];
            bool is_in_order =
                (a->symbol == 0) != (b->symbol == 0) ? a->symbol == 0 : magnitude(a->factor) <= magnitude(b->factor);
            if (is_in_order)
                break;
            term t = *a;
            *a = *b;
            *b = t;
        }
}

/* Leaves it to the run to check that the index stays within 2^32; t is its largest digit and `known` the reach of the
   smaller ones, if the factor of t is a number. A factor large enough to wrap around intentionally is left alone. */
static bool is_bounded(const flxi_kflow *w, const term *t, const extent *x, uint64_t known)
{
    flxi_kwrap c = {.known = t->symbol ? 0 : known, .factor = (uint64_t)magnitude(t->factor), .symbol = t->symbol};
    uint64_t most = 1;
    if (x->extent > 0)
        most = (uint64_t)x->extent;
    else if (t->kind == TERM_LOOP)
        c.extent = x->symbol;
    else if (t->kind == TERM_INVOCATION)
        most = w->k->size[t->which];
    bool by_axis = x->extent == 0 && !c.extent;
    if (!w->wraps || (by_axis && t->kind == TERM_LOOP) || __builtin_mul_overflow(c.factor, most, &c.factor) ||
        c.factor > LARGE_FACTOR)
        return false;
    if (x->extent > 0 && t->symbol) /* only the factor is unknown */
        c.extent = t->symbol, c.symbol = 0;
    c.axis = by_axis ? t->which : 0;
    flxi_kwraps_add(w->wraps, flxi_kernel_mem(w->k), &c);
    return true;
}

/* Unknown trip counts may make the index wrap around: modulo a power of two the digits below are unchanged. */
static bool is_harmless(const term *t, bool all_loops)
{
    uint64_t factor = (uint64_t)magnitude(t->factor);
    return t->kind == TERM_LOOP && !all_loops && !t->symbol && (factor & (factor - 1)) == 0 && factor <= UINT32_MAX;
}

/* Whether the number determines the digits; `spread` is what constants add below them. */
static bool digits_are_separate(const flxi_kflow *w, affine *f, const flxi_kstep *at, int64_t spread, bool all_loops)
{
    sort_terms(f);
    int64_t span = spread;    /* the largest difference of the digits so far … */
    uint32_t span_symbol = 0; /* … or their difference is below this leaf */
    term top = {0};           /* the term responsible for it */
    bool is_last = false;
    for (size_t i = 0; i < f->n; i++) {
        const term *t = &f->terms[i];
        if (t->factor == 0)
            continue;
        if (is_last)
            return false;
        bool fits = t->symbol == 0 ? !span_symbol && magnitude(t->factor) > span : span_symbol == t->symbol;
        if (!fits && span_symbol && t->symbol && top.kind == TERM_INVOCATION)
            fits = is_axis_total(w, t->symbol, top.which);
        if (!fits)
            return false;
        extent x = extent_of(w, at, t);
        bool is_plain_unit = magnitude(t->factor) == 1 && t->symbol == 0 && span == 0;
        if (t->symbol) {
            is_last = true;
            if (!is_bounded(w, t, &x, 0))
                return false;
        } else if (is_plain_unit && (x.symbol || t->kind == TERM_INVOCATION) && i + 1 < f->n &&
                   f->terms[i + 1].symbol) {
            span_symbol = x.symbol ? x.symbol : UINT32_MAX;
            top = *t;
        } else if (x.extent > 0) {
            int64_t more;
            if (__builtin_mul_overflow(magnitude(t->factor), x.extent - 1, &more) ||
                __builtin_add_overflow(span, more, &span))
                return false;
        } else {
            is_last = true;
            bool is_id = t->kind != TERM_LOOP && is_plain_unit; /* at most 2^32 of them */
            if (!is_id && !is_harmless(t, all_loops) && !is_bounded(w, t, &x, (uint64_t)span))
                return false;
        }
    }
    return span <= UINT32_MAX;
}

/* ---- Queries ---- */

bool flxi_kernel_is_group_leaf(const flxi_kflow *w, uint32_t leaf)
{
    const flxi_kx *e = &w->k->exprs[leaf];
    return is_common(w, leaf, 0) || (e->kind == KX_ID && e->op == FLX_KERNEL_WORKGROUP_ID);
}

static bool same_ids(const affine *f, const affine *g)
{
    size_t in_f = 0, in_g = 0;
    for (size_t j = 0; j < g->n; j++)
        in_g += g->terms[j].kind != TERM_LOOP;
    for (size_t i = 0; i < f->n; i++) {
        if (f->terms[i].kind == TERM_LOOP)
            continue;
        in_f++;
        bool found = false;
        for (size_t j = 0; j < g->n; j++)
            found |= f->terms[i].kind == g->terms[j].kind && f->terms[i].which == g->terms[j].which &&
                     f->terms[i].factor == g->terms[j].factor && f->terms[i].symbol == g->terms[j].symbol;
        if (!found)
            return false;
    }
    return in_f == in_g;
}

static bool one_is_injective(const flxi_kflow *w, uint32_t buffer, const flxi_kaccess *access, bool all_loops)
{
    affine f = {0};
    bool in_workgroup = w->k->buffers[buffer].access == FLX_KERNEL_WORKGROUP;
    if (!read_index(w, access->index, &f, 0))
        return false;
    if (f.distinct) {
        flxi_kaccess inner = {access->at, f.distinct_index};
        return one_is_injective(w, buffer, &inner, all_loops);
    }
    join_ids(w, &f, in_workgroup);
    for (const flxi_kstep *l = access->at->loop; all_loops && l; l = l->loop)
        if (!names_axis(&f, TERM_LOOP, l->s->var))
            return false;
    return names_all_ids(w, &f, access->at, in_workgroup) && digits_are_separate(w, &f, access->at, 0, all_loops);
}

/* Moves the contribution of loops to an index into the range [low, high] of its constant part. */
static bool loops_to_range(const flxi_kflow *w, affine *f, const flxi_kstep *at, int64_t *low, int64_t *high)
{
    *low = *high = f->offset;
    for (size_t i = 0; i < f->n; i++) {
        term t = f->terms[i];
        if (t.kind != TERM_LOOP)
            continue;
        int64_t count = extent_of(w, at, &t).extent, reach;
        if (count == 0 || t.symbol || __builtin_mul_overflow(t.factor, count - 1, &reach) ||
            __builtin_add_overflow(reach < 0 ? *low : *high, reach, reach < 0 ? low : high))
            return false;
        f->terms[i--] = f->terms[--f->n];
    }
    return true;
}

bool flxi_kernel_is_injective(const flxi_kflow *w, uint32_t buffer, const flxi_kaccess *accesses, size_t n)
{
    const flxi_kbuffer *b = &w->k->buffers[buffer];
    if (n == 0 || b->access == FLX_KERNEL_PRIVATE || (b->flags & FLX_KERNEL_EXCLUSIVE))
        return true;
    if (n == 1)
        return one_is_injective(w, buffer, accesses, false);
    bool in_workgroup = b->access == FLX_KERNEL_WORKGROUP;
    affine first = {0};
    int64_t lowest = INT64_MAX, highest = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        affine f = {0};
        int64_t low, high;
        if (!read_index(w, accesses[i].index, &f, 0) || f.distinct)
            return false;
        join_ids(w, &f, in_workgroup);
        if (!names_all_ids(w, &f, accesses[i].at, in_workgroup) || !loops_to_range(w, &f, accesses[i].at, &low, &high))
            return false;
        if (i == 0)
            first = f;
        if (!same_ids(&f, &first))
            return false;
        lowest = low < lowest ? low : lowest;
        highest = high > highest ? high : highest;
    }
    int64_t spread;
    if (__builtin_sub_overflow(highest, lowest, &spread))
        return false;
    for (size_t i = 0; i < n; i++) /* extents hold at the access, so they must hold everywhere */
        if (!digits_are_separate(w, &first, accesses[i].at, spread, false))
            return false;
    return true;
}

bool flxi_kernel_is_single(const flxi_kflow *w, uint32_t buffer, const flxi_kaccess *access)
{
    return one_is_injective(w, buffer, access, true);
}
