/* SPDX-License-Identifier: Apache-2.0 */
/* grouping.c: sorting nodes into groups.

   First every node gets its kind, and the accesses of each are found (access.c). Then, in the order of the graph, each
   node tries to join the groups of its producers, and afterwards groups that read the same memory try to join. Two
   groups join if their spaces agree, every access between them is at the current element or row, and no path leads from
   one to the other through a third (the merged group would have to run both before and after it). For that test the
   groups are kept in an order in which they can run: a path from one to another passes only those between them. The
   order is a list whose members have ascending numbers, so that a group moves without the others. What others read is
   stored. */
#include "compile/grouping.h"

#include "compile/access.h"
#include "compile/light_nodes.h"
#include "ops/express/express.h"

#include <stdlib.h>

/* Larger groups cost compile time more than linearly, and spill registers. */
static const uint32_t usual_max_nodes = 64;
/* A node with more operands than this counts as several. */
enum { FEW_OPERANDS = 8 };
/* A search for paths gives up, and the groups stay apart. */
enum { MAX_VISITS = 1000 };
/* Rules of views call each other: chains longer than this are cut by storing a link. */
enum { MAX_VIEWS = 16 };
/* With fewer rows than this, threads and lanes stay idle; then only small work joins a fold. */
static const int64_t min_rows = 8, small_count = 32768;
/* Rows of fewer elements do not run along the lanes, and only those that do can be folded by columns. */
static const int64_t min_line = 32;
/* More rows than this are not added up in one chain. */
static const int64_t most_column_rows = 256;

typedef struct {
    flxi_space space; /* without rows: outer holds all */
    bool has_rows;
    int64_t column_rows;
    uint32_t first, last;     /* members, chained by `next` */
    uint64_t position;        /* ascends in the order */
    uint32_t before, after;   /* neighbours in the order, + 1 */
    uint32_t size, weight;    /* members; what they count against the limit */
    uint32_t earliest, bound; /* the first step of a member, and the last of a copy */
} group;

typedef struct {
    uint64_t position;
    uint32_t group;
} visited;

typedef struct {
    flxi_grouping *f;
    const flx_graph *g;
    const flxi_grouping_options *o;
    const flxi_allocator *mem;
    flxi_arena *scratch;
    flxi_accesses *reads; /* by node */
    uint32_t *users_from; /* by value: where its users begin in `users`; one more than there are values */
    uint32_t *users;      /* nodes that read it, through views */
    uint32_t *parent;     /* by node: towards the root of its group */
    uint32_t *next;       /* by node: the group's next member + 1 */
    group *groups;        /* by their root */
    uint32_t head;        /* of the order, + 1 */
    uint32_t *after;      /* by node: the next one with effects, + 1; it must run later */
    uint32_t *mark, now;  /* by node: visited in search number `now` */
    FLXI_VEC(uint32_t) stack;
    bool lacks_memory; /* a search has ended for lack of it */
    visited *visits;   /* of the last search, where it began first */
    int num_visits;
    uint32_t failed; /* a node whose rule failed, + 1 */
    flx_error *err;
} maker;

/* ---- Kinds ---- */

/* Positions in kernels are u32, complex elements take two, and a last workgroup may reach beyond the end. The index
   along one axis is a signed number for some rules. Extents of empty tensors count too: products of some of them must
   not overflow. */
static bool can_index(const flx_type *t)
{
    const int64_t most = (int64_t)UINT32_MAX - 4096;
    int64_t n = flxi_is_complex(t->dtype) ? 2 : 1;
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k] > INT32_MAX || (t->dims[k] > 1 && (__builtin_mul_overflow(n, t->dims[k], &n) || n > most)))
            return false;
    return true;
}

bool flxi_can_index(const flx_graph *g, const flxi_node *n)
{
    bool fits = true;
    for (uint32_t k = 0; k < n->nout; k++)
        fits &= can_index(flxi_type_at(g, n->first + k));
    for (uint32_t k = 0; k < n->nin; k++)
        fits &= can_index(flxi_type_at(g, n->in[k]));
    return fits;
}

static bool can_lower(const maker *m, const flxi_node *n)
{
    const flx_type *few[8];
    const flx_type **in = n->nin <= 8 ? few : flxi_new(m->scratch, const flx_type *, n->nin);
    for (uint32_t k = 0; in && k < n->nin; k++)
        in[k] = flxi_type_at(m->g, n->in[k]);
    return in && n->nout == 1 && !flxi_has_effect(n) && flxi_can_index(m->g, n) &&
           flxi_can_express(&flxi_ops[n->op], n->attrs, in, n->nin);
}

/* Reading such a node's elements where they are used costs next to nothing. */
static bool is_movement(const flxi_op *op)
{
    return op->rules->pull &&
           (op->op_class == CLASS_SHAPE || op->op_class == CLASS_LEAF || op->op_class == CLASS_IDENTITY);
}

static flxi_node_kind kind_of(const maker *m, uint32_t i)
{
    const flxi_node *n = flxi_node_at(m->g, i);
    const flxi_op *op = &flxi_ops[n->op];
    flxi_space space;
    if ((op->traits & TRAIT_DECLARED) || flxi_is_const(n))
        return NODE_HELD;
    if (!can_lower(m, n) || m->o->evaluate_all || (m->o->refused && m->o->refused[i]))
        return NODE_CALLED;
    if (op->rules->fold)
        return flxi_fold_space(m->g, n, &space) ? NODE_FOLDED : NODE_CALLED;
    return is_movement(op) && !m->o->keep_apart ? NODE_VIEW : NODE_POINTWISE;
}

/* How many views the longest chain has that ends with node i. */
static uint8_t chain_of(const maker *m, const uint8_t *chain, uint32_t i)
{
    const flxi_node *n = flxi_node_at(m->g, i);
    uint8_t longest = 0;
    for (uint32_t k = 0; k < n->nin; k++) {
        uint8_t c = chain[flxi_value_at(m->g, n->in[k])->node];
        longest = c > longest ? c : longest;
    }
    return (uint8_t)(longest + 1);
}

static flx_code find_accesses(maker *m, uint32_t i, uint32_t result, flxi_accesses *out)
{
    flx_code code = flxi_find_accesses(m->g, m->f->kind, i, result, m->scratch, out, m->err);
    m->failed = code == FLX_OK || code == FLX_E_OOM ? 0 : i + 1;
    return code;
}

/* The memory that a view is under another shape; 0: none. */
static flx_code find_alias(maker *m, uint32_t value, uint32_t *alias)
{
    uint32_t i = flxi_value_at(m->g, value)->node;
    const flxi_node *n = flxi_node_at(m->g, i);
    flxi_accesses a;
    FLXI_TRY(find_accesses(m, i, value - n->first, &a));
    const flx_type *t = flxi_type_at(m->g, value);
    bool is_same = a.n == 1 && a.at[0].kind == ACCESS_SAME &&
                   flxi_count_at(m->g, a.at[0].value) == flxi_count_at(m->g, value) &&
                   flxi_type_at(m->g, a.at[0].value)->dtype == t->dtype && n->nout == 1 && a.is_plain;
    *alias = is_same ? a.at[0].value : 0;
    return FLX_OK;
}

/* A view of a view in the same order, such as the blocks of a tile as one axis: it is the memory of the inner one,
   which is computed along its own axes, without dividing an index. */
static flx_code find_inner(maker *m, uint32_t value, uint32_t *alias)
{
    const flxi_node *n = flxi_node_of(m->g, value);
    uint32_t inner = n->nin == 1 ? n->in[0] : 0, j = inner ? flxi_value_at(m->g, inner)->node : 0;
    if (!inner || m->f->kind[j] != NODE_VIEW || m->f->alias_of[inner] || m->o->keep_apart)
        return FLX_OK;
    m->f->kind[j] = NODE_POINTWISE;
    flx_code code = find_alias(m, value, alias);
    if (code != FLX_OK || *alias != inner) {
        m->f->kind[j] = NODE_VIEW;
        *alias = 0;
    }
    return code;
}

/* A view that is needed in memory: either it is memory that is there already, under another shape, or it is
   computed, by the device's own way if that is faster than a kernel. */
static flx_code settle_view(maker *m, uint32_t value)
{
    flxi_grouping *f = m->f;
    uint32_t i = flxi_value_at(m->g, value)->node, alias;
    if (f->kind[i] != NODE_VIEW || f->alias_of[value])
        return FLX_OK;
    FLXI_TRY(find_alias(m, value, &alias));
    if (!alias)
        FLXI_TRY(find_inner(m, value, &alias));
    if (alias) {
        f->alias_of[value] = alias;
        return FLX_OK;
    }
    bool is_called = m->o->preferred && m->o->preferred[i];
    f->kind[i] = is_called ? NODE_CALLED : NODE_POINTWISE;
    const flxi_node *n = flxi_node_at(m->g, i);
    for (uint32_t k = 0; is_called && k < n->nin; k++)
        FLXI_TRY(settle_view(m, n->in[k]));
    return FLX_OK;
}

static flx_code find_kinds(maker *m)
{
    const flx_graph *g = m->g;
    uint8_t *chain = flxi_new(m->scratch, uint8_t, g->node_count);
    bool groups = !m->o->keep_apart && !m->o->evaluate_all;
    const bool *is_light = groups ? flxi_find_light_nodes(g, !m->o->form, m->scratch) : NULL;
    if (!chain || (groups && !is_light))
        return flxi_oom(m->err, "groups");
    for (uint32_t i = 0; i < g->node_count; i++) {
        flxi_node_kind kind = kind_of(m, i);
        if (kind == NODE_POINTWISE && is_light && is_light[i])
            kind = NODE_VIEW;
        if (kind == NODE_VIEW && (chain[i] = chain_of(m, chain, i)) > MAX_VIEWS) {
            kind = NODE_POINTWISE;
            chain[i] = 0;
        }
        m->f->kind[i] = (uint8_t)kind;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const flxi_node *n = flxi_node_at(g, i);
        for (uint32_t k = 0; m->f->kind[i] == NODE_CALLED && k < n->nin; k++)
            FLXI_TRY(settle_view(m, n->in[k]));
    }
    for (size_t k = 0; k < g->outputs.n; k++)
        FLXI_TRY(settle_view(m, g->outputs.at[k].val));
    return FLX_OK;
}

static bool is_in_group(const maker *m, uint32_t i)
{
    return m->f->kind[i] == NODE_POINTWISE || m->f->kind[i] == NODE_FOLDED;
}

/* ---- Who reads what ---- */

static uint32_t node_of(const maker *m, uint32_t value)
{
    return flxi_value_at(m->g, value)->node;
}

static uint32_t real_value(const maker *m, uint32_t value)
{
    return m->f->alias_of[value] ? m->f->alias_of[value] : value;
}

static flx_code find_reads(maker *m, uint32_t i)
{
    const flxi_node *n = flxi_node_at(m->g, i);
    flxi_accesses *r = &m->reads[i];
    if (m->f->kind[i] == NODE_CALLED) {
        r->n = n->nin;
        r->at = flxi_new(m->scratch, flxi_access, n->nin);
        if (!r->at)
            return flxi_oom(m->err, "groups");
        for (uint32_t k = 0; k < n->nin; k++)
            r->at[k] = (flxi_access){.value = real_value(m, n->in[k]), .kind = ACCESS_OTHER};
        return FLX_OK;
    }
    if (!is_in_group(m, i))
        return FLX_OK;
    return find_accesses(m, i, 0, r);
}

static flx_code list_users(maker *m)
{
    size_t total = 0;
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        FLXI_TRY(find_reads(m, i));
        for (uint32_t k = 0; k < m->reads[i].n; k++)
            m->users_from[m->reads[i].at[k].value + 1]++;
        total += m->reads[i].n;
    }
    m->users = flxi_new(m->scratch, uint32_t, total);
    uint32_t *fill = flxi_new(m->scratch, uint32_t, m->g->value_count + 2);
    if (!m->users || !fill)
        return flxi_oom(m->err, "groups");
    for (uint32_t v = 0; v <= m->g->value_count; v++)
        m->users_from[v + 1] += m->users_from[v];
    for (uint32_t i = 0; i < m->g->node_count; i++)
        for (uint32_t k = 0; k < m->reads[i].n; k++) {
            uint32_t v = m->reads[i].at[k].value;
            m->users[m->users_from[v] + fill[v]++] = i;
        }
    return FLX_OK;
}

/* ---- Groups in the making; a called node is one too, which nothing joins ---- */

static uint32_t root_of(maker *m, uint32_t i)
{
    while (m->parent[i] != i) {
        m->parent[i] = m->parent[m->parent[i]];
        i = m->parent[i];
    }
    return i;
}

static int64_t elements(const group *c)
{
    return c->space.outer * c->space.extent * c->space.inner;
}

/* Long sums; pieces that are put together are chosen from, and cost little. */
static uint32_t weight_of(const flxi_node *n)
{
    return n->nin > FEW_OPERANDS && flxi_ops[n->op].op_class == CLASS_POINTWISE ? n->nin / 2 : 1;
}

static void start_group(maker *m, uint32_t i)
{
    const flxi_node *n = flxi_node_at(m->g, i);
    group *c = &m->groups[i];
    *c = (group){.first = i, .last = i, .before = i, .size = 1, .weight = weight_of(n)};
    c->after = i + 1 < m->g->node_count ? i + 2 : 0;
    m->parent[i] = i;
    if (m->o->positions) {
        c->earliest = m->o->positions[i].step;
        c->bound = m->o->positions[i].is_copy || m->o->positions[i].is_apart ? c->earliest : 0;
    }
    if (m->f->kind[i] == NODE_FOLDED) {
        flxi_fold_space(m->g, n, &c->space);
        c->has_rows = true;
        m->f->level[i] = LEVEL_ROW;
    } else if (m->f->kind[i] == NODE_POINTWISE) {
        c->space = (flxi_space){flxi_count_at(m->g, n->first), 1, 1};
    }
}

static bool spaces_equal(const flxi_space *a, const flxi_space *b)
{
    return a->outer == b->outer && a->extent == b->extent && a->inner == b->inner;
}

/* ---- Whether two groups fit ---- */

typedef struct {
    uint32_t a, b; /* roots */
    flxi_space space;
    bool has_rows;
    int lowered;     /* 0: none; 1: a's elements are rows of b; 2: the other way round */
    bool by_columns; /* b is a fold over rows of a */
} proposal;

static flxi_level level_in(maker *m, const proposal *p, uint32_t i)
{
    uint32_t r = root_of(m, i);
    if (p->by_columns && r == p->b)
        return LEVEL_COLUMN;
    if ((p->lowered == 1 && r == p->a) || (p->lowered == 2 && r == p->b))
        return LEVEL_ROW;
    return (flxi_level)m->f->level[i];
}

static bool access_fits(maker *m, const proposal *p, uint32_t reader, const flxi_access *a)
{
    if (flxi_value_at(m->g, a->value)->pinned)
        return false; /* it is complete before anything reads it */
    flxi_level from = level_in(m, p, node_of(m, a->value));
    flxi_level to = m->f->kind[reader] == NODE_FOLDED ? LEVEL_ELEMENT : level_in(m, p, reader);
    if (a->kind == ACCESS_SAME)
        return from == to;
    return a->kind == ACCESS_SPREAD && from == LEVEL_ROW && to == LEVEL_ELEMENT && p->has_rows &&
           spaces_equal(&a->space, &p->space);
}

/* Every access of a member of `to` to a member of `from`. */
static bool accesses_fit(maker *m, const proposal *p, uint32_t from, uint32_t to)
{
    for (uint32_t i = m->groups[to].first + 1; i; i = m->next[i - 1]) {
        const flxi_accesses *r = &m->reads[i - 1];
        for (uint32_t k = 0; k < r->n; k++) {
            uint32_t source = node_of(m, r->at[k].value);
            if (is_in_group(m, source) && root_of(m, source) == from && !access_fits(m, p, i - 1, &r->at[k]))
                return false;
        }
    }
    return true;
}

static bool join_spaces(const maker *m, proposal *p)
{
    const group *a = &m->groups[p->a], *b = &m->groups[p->b];
    const group *with_rows = a->has_rows ? a : b;
    if (elements(a) == 0 || elements(b) == 0) /* nothing to gain, and spaces of nothing agree without being the same */
        return false;
    p->space = with_rows->space;
    p->has_rows = a->has_rows || b->has_rows;
    if (p->lowered == 1)
        return !a->has_rows && b->has_rows && elements(a) == flxi_space_rows(&b->space);
    if (p->lowered == 2)
        return !b->has_rows && a->has_rows && elements(b) == flxi_space_rows(&a->space);
    return elements(a) == elements(b) && (!a->has_rows || !b->has_rows || spaces_equal(&a->space, &b->space));
}

static bool is_worth_it(const proposal *p)
{
    int64_t n = p->space.outer * p->space.extent * p->space.inner;
    return !p->has_rows || flxi_space_rows(&p->space) >= min_rows || n <= small_count;
}

/* Marks `r`, which runs after what was visited last; false when the search has to end. */
static bool visit(maker *m, uint32_t r)
{
    if (m->mark[r] == m->now)
        return true;
    m->mark[r] = m->now;
    if (m->num_visits == MAX_VISITS)
        return false;
    m->visits[m->num_visits++] = (visited){m->groups[r].position, r};
    bool ok = flxi_push(m->mem, &m->stack, r);
    m->lacks_memory |= !ok;
    return ok;
}

/* Whether what is computed again stays in its position. */
static bool positions_fit(const maker *m, const proposal *p)
{
    const group *a = &m->groups[p->a], *b = &m->groups[p->b];
    return a->earliest >= b->bound && b->earliest >= a->bound;
}

/* Whether `to`, which comes later, can be reached from `from` through others. If not, `visits` has `from` and those
   between them that can be reached from it. */
static bool is_reachable(maker *m, uint32_t from, uint32_t to)
{
    m->now++;
    m->stack.n = 0;
    m->num_visits = 0;
    if (!visit(m, from))
        return true;
    while (m->stack.n > 0) {
        uint32_t c = m->stack.at[--m->stack.n];
        for (uint32_t i = m->groups[c].first + 1; i; i = m->next[i - 1]) {
            const flxi_node *n = flxi_node_at(m->g, i - 1);
            uint32_t end = n->nout ? m->users_from[n->first + n->nout] : 0;
            for (uint32_t u = n->nout ? m->users_from[n->first] : 0; u < end + (m->after[i - 1] ? 1 : 0); u++) {
                uint32_t r = root_of(m, u < end ? m->users[u] : m->after[i - 1] - 1);
                if (r == to && c != from)
                    return true;
                if (m->groups[r].position < m->groups[to].position && !visit(m, r))
                    return true;
            }
        }
    }
    return false;
}

/* ---- The order ---- */

static void take_out(maker *m, uint32_t c)
{
    const group *k = &m->groups[c];
    if (k->before)
        m->groups[k->before - 1].after = k->after;
    else
        m->head = k->after;
    if (k->after)
        m->groups[k->after - 1].before = k->before;
}

static void put_after(maker *m, uint32_t c, uint32_t before)
{
    group *k = &m->groups[c], *b = &m->groups[before];
    k->before = before + 1;
    k->after = b->after;
    if (b->after)
        m->groups[b->after - 1].before = c + 1;
    b->after = c + 1;
}

/* With equal distances, as large as there is room for. */
static void number_groups(maker *m)
{
    uint64_t step = UINT64_MAX / ((uint64_t)m->g->node_count + 2), now = 0;
    for (uint32_t c = m->head; c; c = m->groups[c - 1].after)
        m->groups[c - 1].position = now += step;
}

/* The distance of `n` numbers between the group's and that of the next. */
static uint64_t room_after(const maker *m, uint32_t c, uint64_t n)
{
    const group *k = &m->groups[c];
    uint64_t next = k->after ? m->groups[k->after - 1].position : UINT64_MAX;
    return (next - k->position) / (n + 1);
}

static int by_position(const void *a, const void *b)
{
    const visited *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

/* The joined group goes where the later one is; those between the two that depend on the first, which the search has
   visited, follow it. */
static void reorder(maker *m, uint32_t first, uint32_t last, uint32_t joined)
{
    uint32_t before = joined;
    size_t later = (size_t)m->num_visits - 1;
    take_out(m, first);
    if (joined != last) {
        put_after(m, joined, last);
        m->groups[joined].position = m->groups[last].position;
        take_out(m, last);
    }
    qsort(m->visits + 1, later, sizeof *m->visits, by_position);
    uint64_t room = room_after(m, joined, later);
    if (later && room == 0) {
        number_groups(m);
        room = room_after(m, joined, later);
    }
    for (size_t i = 1; i <= later; i++) {
        uint32_t c = m->visits[i].group;
        take_out(m, c);
        put_after(m, c, before);
        m->groups[c].position = m->groups[before].position + room;
        before = c;
    }
}

/* ---- Joining ---- */

static void join(maker *m, const proposal *p)
{
    group *a = &m->groups[p->a], *b = &m->groups[p->b];
    uint32_t lowered = p->lowered == 1 ? p->a : p->b;
    for (uint32_t i = p->lowered ? m->groups[lowered].first + 1 : 0; i; i = m->next[i - 1])
        m->f->level[i - 1] = LEVEL_ROW;
    m->next[a->last] = b->first + 1;
    a->last = b->last;
    a->size += b->size;
    a->weight += b->weight;
    a->earliest = b->earliest < a->earliest ? b->earliest : a->earliest;
    a->bound = b->bound > a->bound ? b->bound : a->bound;
    a->space = p->space;
    a->has_rows = p->has_rows;
    m->parent[p->b] = p->a;
}

static bool join_unless_reachable(maker *m, const proposal *p)
{
    bool is_in_order = m->groups[p->a].position < m->groups[p->b].position;
    uint32_t first = is_in_order ? p->a : p->b, last = is_in_order ? p->b : p->a;
    if (!positions_fit(m, p) || is_reachable(m, first, last))
        return false;
    reorder(m, first, last, p->a);
    join(m, p);
    return true;
}

static void try_join(maker *m, uint32_t x, uint32_t y)
{
    proposal p = {.a = root_of(m, x), .b = root_of(m, y)};
    uint32_t limit = m->o->max_nodes ? m->o->max_nodes : usual_max_nodes;
    if (p.a == p.b || m->groups[p.a].weight + m->groups[p.b].weight > limit)
        return;
    for (; p.lowered < 3; p.lowered++)
        if (join_spaces(m, &p) && accesses_fit(m, &p, p.a, p.b) && accesses_fit(m, &p, p.b, p.a) && is_worth_it(&p))
            break;
    if (p.lowered < 3)
        join_unless_reachable(m, &p);
}

static void join_producers(maker *m)
{
    for (uint32_t i = 0; i < m->g->node_count; i++)
        for (uint32_t k = 0; is_in_group(m, i) && k < m->reads[i].n; k++) {
            uint32_t source = node_of(m, m->reads[i].at[k].value);
            if (is_in_group(m, source) && m->reads[i].at[k].kind != ACCESS_OTHER)
                try_join(m, source, i);
        }
}

static bool reads_same(const maker *m, uint32_t i, uint32_t value)
{
    for (uint32_t k = 0; k < m->reads[i].n; k++)
        if (m->reads[i].at[k].value == value && m->reads[i].at[k].kind == ACCESS_SAME)
            return true;
    return false;
}

/* Both are the same cast to 16 bits, which was made again on purpose: neither is to wait for the reader of the other
   (passes/repeat_casts.c). */
static bool is_repeated(const maker *m, uint32_t i, uint32_t j)
{
    const flxi_node *a = flxi_node_at(m->g, i), *b = flxi_node_at(m->g, j);
    const flx_type *t = flxi_type_at(m->g, a->first);
    return a->op == b->op && a->nin == 1 && a->in[0] == b->in[0] && m->f->kind[i] == NODE_POINTWISE &&
           (t->dtype == FLX_F16 || t->dtype == FLX_BF16) && flxi_type_equal(t, flxi_type_at(m->g, b->first));
}

/* Readers of the same memory: what is loaded once need not be loaded again. */
static void join_siblings(maker *m)
{
    for (uint32_t v = 1; v <= m->g->value_count; v++) {
        uint32_t before = 0; /* + 1 */
        for (uint32_t u = m->users_from[v]; u < m->users_from[v + 1]; u++) {
            uint32_t i = m->users[u];
            if (!is_in_group(m, i) || !reads_same(m, i, v) || (before && is_repeated(m, before - 1, i)))
                continue;
            if (before)
                try_join(m, before - 1, i);
            before = i + 1;
        }
    }
}

/* ---- Folds by columns ---- */

/* What is summed up in memory has the result's dtype: it must not be wider. */
static bool folds_in_memory(const maker *m, uint32_t i)
{
    const flxi_node *n = flxi_node_at(m->g, i);
    if (m->f->kind[i] != NODE_FOLDED)
        return false;
    int32_t dtype = flxi_type_at(m->g, n->first)->dtype;
    return dtype == FLX_F32 || dtype == FLX_F64;
}

/* The fold of group b takes whole rows of a, in parts of the same number. */
static bool columns_fit(const maker *m, proposal *p)
{
    const group *a = &m->groups[p->a], *b = &m->groups[p->b];
    const flxi_space *s = &b->space;
    p->space = (flxi_space){s->outer * s->extent, s->inner, 1};
    bool is_same = a->has_rows ? spaces_equal(&a->space, &p->space) : elements(a) == elements(b);
    bool has_work = elements(b) > 0 && (s->outer >= min_rows || elements(b) <= small_count);
    return is_same && has_work && s->inner >= min_line && s->extent <= most_column_rows &&
           (!a->column_rows || a->column_rows == s->extent);
}

static void try_columns(maker *m, uint32_t x, uint32_t fold)
{
    proposal p = {.a = root_of(m, x), .b = root_of(m, fold), .has_rows = true, .by_columns = true};
    uint32_t limit = m->o->max_nodes ? m->o->max_nodes : usual_max_nodes;
    if (p.a == p.b || m->groups[p.b].size > 1 || m->groups[p.a].weight >= limit || !columns_fit(m, &p) ||
        !accesses_fit(m, &p, p.a, p.b) || !accesses_fit(m, &p, p.b, p.a))
        return;
    int64_t rows = m->groups[p.b].space.extent;
    if (!join_unless_reachable(m, &p))
        return;
    m->groups[p.a].column_rows = rows;
    m->f->level[fold] = LEVEL_COLUMN;
}

/* With the group that computes what is folded, or else with one that reads it at the same element. */
static void join_columns(maker *m)
{
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        if (!folds_in_memory(m, i) || m->reads[i].n != 1 || m->reads[i].at[0].kind != ACCESS_SAME)
            continue;
        uint32_t v = m->reads[i].at[0].value;
        if (is_in_group(m, node_of(m, v)))
            try_columns(m, node_of(m, v), i);
        for (uint32_t u = m->users_from[v]; u < m->users_from[v + 1] && m->f->level[i] != LEVEL_COLUMN; u++)
            if (is_in_group(m, m->users[u]) && m->f->kind[m->users[u]] == NODE_POINTWISE &&
                reads_same(m, m->users[u], v))
                try_columns(m, m->users[u], i);
    }
}

/* ---- What is stored ---- */

static void store(maker *m, uint32_t value)
{
    m->f->is_stored[real_value(m, value)] = true;
}

static void find_stored(maker *m)
{
    for (uint32_t i = 0; i < m->g->node_count; i++)
        for (uint32_t k = 0; k < m->reads[i].n; k++) {
            uint32_t v = m->reads[i].at[k].value, source = node_of(m, v);
            if (!is_in_group(m, source) || !is_in_group(m, i) || root_of(m, source) != root_of(m, i))
                store(m, v);
        }
    for (size_t k = 0; k < m->g->outputs.n; k++)
        store(m, m->g->outputs.at[k].val);
}

/* ---- What comes out ---- */

static bool is_step(const maker *m, uint32_t i)
{
    return is_in_group(m, i) || m->f->kind[i] == NODE_CALLED;
}

static int compare_nodes(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static flx_code append_group(maker *m, uint32_t c)
{
    flxi_grouping *f = m->f;
    const group *k = &m->groups[c];
    flxi_group *out = &f->groups[f->num_groups++];
    *out = (flxi_group){.space = k->space, .has_rows = k->has_rows, .column_rows = k->column_rows};
    if (f->kind[c] == NODE_CALLED) {
        out->called = c + 1;
        f->group_of[c] = f->num_groups;
        return FLX_OK;
    }
    uint32_t *nodes = flxi_new(&f->arena, uint32_t, k->size);
    if (!nodes)
        return flxi_oom(m->err, "groups");
    for (uint32_t i = k->first + 1; i; i = m->next[i - 1]) {
        nodes[out->num_nodes++] = i - 1;
        f->group_of[i - 1] = f->num_groups;
        for (uint32_t r = 0; r < m->reads[i - 1].n; r++) {
            const flxi_access *a = &m->reads[i - 1].at[r];
            out->needs_axes |= a->kind != ACCESS_SAME && flxi_count_at(m->g, a->value) != 1;
        }
        const flxi_op *op = &flxi_ops[flxi_node_at(m->g, i - 1)->op];
        out->needs_axes |= op->rules->pull && !m->reads[i - 1].n;
    }
    qsort(nodes, out->num_nodes, sizeof *nodes, compare_nodes);
    out->nodes = nodes;
    return FLX_OK;
}

/* Nothing reads what a view leaves out, as the operand of a concat that has no elements: then there is nothing to
   compute. */
static bool stores_something(const maker *m, uint32_t c)
{
    for (uint32_t i = m->groups[c].first + 1; i; i = m->next[i - 1]) {
        const flxi_node *n = flxi_node_at(m->g, i - 1);
        for (uint32_t r = 0; r < n->nout; r++)
            if (m->f->is_stored[n->first + r])
                return true;
    }
    return false;
}

static flx_code append_groups(maker *m)
{
    uint32_t steps = 0;
    for (uint32_t i = 0; i < m->g->node_count; i++)
        steps += is_step(m, i) && root_of(m, i) == i;
    m->f->groups = flxi_new(&m->f->arena, flxi_group, steps);
    if (!m->f->groups)
        return flxi_oom(m->err, "groups");
    for (uint32_t c = m->head; c; c = m->groups[c - 1].after)
        if (is_step(m, c - 1) && (m->f->kind[c - 1] == NODE_CALLED || stores_something(m, c - 1)))
            FLXI_TRY(append_group(m, c - 1));
    return FLX_OK;
}

/* ---- The whole ---- */

static flx_code form_groups(maker *m)
{
    FLXI_TRY(find_kinds(m));
    FLXI_TRY(list_users(m));
    uint32_t last_effect = 0;
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        start_group(m, i);
        if (flxi_has_effect(flxi_node_at(m->g, i))) {
            if (last_effect)
                m->after[last_effect - 1] = i + 1;
            last_effect = i + 1;
        }
    }
    m->head = m->g->node_count ? 1 : 0;
    number_groups(m);
    if (!m->o->keep_apart) {
        join_producers(m);
        join_siblings(m);
        if (!m->o->form)
            join_columns(m);
    }
    if (m->lacks_memory)
        return flxi_oom(m->err, "groups");
    find_stored(m);
    return append_groups(m);
}

flx_code flxi_form_groups(const flx_graph *g, const flxi_grouping_options *o, flxi_grouping *out, uint32_t *failed,
                          flx_error *err)
{
    static const flxi_grouping_options usual = {0};
    flxi_arena scratch;
    flxi_arena_init(&scratch, &g->ctx->mem);
    *out = (flxi_grouping){.g = g};
    flxi_arena_init(&out->arena, &g->ctx->mem);
    out->form = o ? o->form : NULL;
    out->has_scalar_rows = o && o->has_scalar_rows;
    out->free_extents = o ? o->free_extents : NULL;
    maker m = {.f = out, .g = g, .o = o ? o : &usual, .mem = &g->ctx->mem, .scratch = &scratch, .err = err};
    size_t nodes = (size_t)g->node_count + 1, values = (size_t)g->value_count + 2;
    out->kind = flxi_new(&out->arena, uint8_t, nodes);
    out->level = flxi_new(&out->arena, uint8_t, nodes);
    out->group_of = flxi_new(&out->arena, uint32_t, nodes);
    out->alias_of = flxi_new(&out->arena, uint32_t, values);
    out->is_stored = flxi_new(&out->arena, bool, values);
    m.reads = flxi_new(&scratch, flxi_accesses, nodes);
    m.users_from = flxi_new(&scratch, uint32_t, values + 1);
    m.parent = flxi_new(&scratch, uint32_t, nodes);
    m.next = flxi_new(&scratch, uint32_t, nodes);
    m.groups = flxi_new(&scratch, group, nodes);
    m.mark = flxi_new(&scratch, uint32_t, nodes);
    m.after = flxi_new(&scratch, uint32_t, nodes);
    m.visits = flxi_new(&scratch, visited, MAX_VISITS);
    bool ok = out->kind && out->level && out->group_of && out->alias_of && out->is_stored && m.reads && m.users_from &&
              m.parent && m.next && m.groups && m.mark && m.after && m.visits;
    flx_code code = ok ? form_groups(&m) : flxi_oom(err, "groups");
    *failed = m.failed;
    flxi_vec_free(m.mem, &m.stack);
    flxi_arena_free(&scratch);
    if (code != FLX_OK)
        flxi_grouping_free(out);
    return code;
}

void flxi_grouping_free(flxi_grouping *f)
{
    flxi_arena_free(&f->arena);
    *f = (flxi_grouping){0};
}
