/* SPDX-License-Identifier: Apache-2.0 */
/* graph_view.c: see graph_view.h. The tree is made in steps: groups by phase and name, inside of them the kernels that
   compute several nodes; then groups of one item are dissolved, large ones are cut into parts, edges are found between
   the items of each group, and each group gets a layout of its own. */
#include "report/graph_view.h"

#include "report/name_groups.h"
#include "report/phases.h"
#include "report/report_text.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *name;
    uint32_t parent;
    uint8_t phase;
    uint32_t step; /* of a kernel */
    bool is_kernel;
    bool is_named; /* by a layer */
    bool is_gone;
    uint32_t number; /* among those that stay */
} making_group;

typedef struct {
    uint32_t group, from, to; /* items */
} making_edge;

typedef struct {
    flxi_graph_view *v;
    const flx_graph *g;
    const flxi_view_steps *steps; /* or NULL */
    const flxi_allocator *mem;
    flxi_arena scratch;
    uint8_t *phases;
    flxi_name_groups names;
    FLXI_VEC(making_group) groups; /* 0 contains everything */
    uint32_t *parent_of;           /* by node: a group; FLXI_VIEW_NONE: not drawn */
    uint32_t *same[FLXI_PHASES];   /* by group of names: the group + 1 for it in each phase */
    FLXI_VEC(making_edge) edges;
    flx_error *err;
} making;

static flx_code oom(const making *m)
{
    return flxi_oom(m->err, "a view of a graph");
}

static uint32_t producer(const flx_graph *g, uint32_t value)
{
    return flxi_value_at(g, value)->node;
}

/* The printer calls values without a name v0, v1, v2_2 …; such names say nothing. */
static bool is_automatic(const char *name)
{
    if (name[0] != 'v' || name[1] < '0' || name[1] > '9')
        return false;
    return name[1 + strspn(name + 1, "0123456789_")] == 0;
}

const char *flxi_view_name(const flx_graph *g, uint32_t node)
{
    const flxi_node *n = flxi_node_at(g, node);
    const char *name = n->nout ? flxi_value_at(g, n->first)->name : NULL;
    bool is_leaf = flxi_is_input(n) || flxi_is_param(n);
    return name && (is_leaf || !is_automatic(name)) ? name : NULL;
}

/* ---- Groups by phase and name ---- */

static uint32_t add_group(making *m, const making_group *group)
{
    return flxi_push(m->mem, &m->groups, *group) ? (uint32_t)m->groups.n - 1 : FLXI_VIEW_NONE;
}

/* The group of a phase and a name; FLXI_VIEW_NONE when memory is exhausted. */
static uint32_t group_for(making *m, uint8_t phase, uint32_t name)
{
    static const char *const phase_names[] = {"forward", "backward", "update"};
    uint32_t *same = m->same[phase];
    if (same[name])
        return same[name] - 1;
    making_group group = {.phase = phase, .step = FLXI_VIEW_NONE};
    if (name == 0 && !m->v->has_phases) {
        same[0] = 1;
        return 0;
    }
    if (name == 0) {
        group.name = phase_names[phase];
    } else {
        group.name = m->names.groups.at[name].name;
        group.is_named = true;
        group.parent = group_for(m, phase, m->names.groups.at[name].parent);
        if (group.parent == FLXI_VIEW_NONE)
            return FLXI_VIEW_NONE;
    }
    uint32_t made = add_group(m, &group);
    if (made != FLXI_VIEW_NONE)
        same[name] = made + 1;
    return made;
}

/* Constants are part of what reads them, unless they are an output. */
static void hide_constants(making *m)
{
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(m->g, i);
        bool is_leaf = flxi_is_input(n) || flxi_is_param(n);
        m->parent_of[i] = n->nin == 0 && n->nout > 0 && !is_leaf ? FLXI_VIEW_NONE : 0;
    }
    for (size_t i = 0; i < m->g->outputs.n; i++)
        m->parent_of[producer(m->g, m->g->outputs.at[i].val)] = 0;
}

static flx_code place_nodes(making *m)
{
    uint32_t counts[FLXI_PHASES] = {0};
    hide_constants(m);
    for (uint32_t i = 0; i < m->g->node_count; i++)
        counts[m->phases[i]] += m->parent_of[i] != FLXI_VIEW_NONE;
    m->v->has_phases = counts[FLXI_BACKWARD] + counts[FLXI_UPDATE] > 0;
    for (int p = 0; p < FLXI_PHASES; p++)
        if (!(m->same[p] = flxi_new(&m->scratch, uint32_t, m->names.groups.n)))
            return oom(m);
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        if (m->parent_of[i] == FLXI_VIEW_NONE)
            continue;
        m->parent_of[i] = group_for(m, m->phases[i], m->names.of[i]);
        if (m->parent_of[i] == FLXI_VIEW_NONE)
            return oom(m);
    }
    return FLX_OK;
}

/* ---- Kernels ---- */

typedef struct {
    uint32_t count; /* nodes that are drawn */
    uint32_t name;  /* the group of names that contains them all */
    uint8_t phase;
    uint32_t group; /* + 1, once it is made */
} kernel_group;

/* The kernel of a node, NULL where there is none. */
static kernel_group *kernel_of(const making *m, kernel_group *kernels, uint32_t node)
{
    uint32_t s = m->steps->step_of[node];
    bool is_kernel = s < m->steps->num_steps && m->steps->kernel_names[s] && m->parent_of[node] != FLXI_VIEW_NONE;
    return is_kernel ? &kernels[s] : NULL;
}

/* A kernel may compute nodes of several phases. It belongs to the first of them, or where it reads results of a later
   one, to that. */
static void find_kernel_phases(const making *m, kernel_group *kernels)
{
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        const flxi_node *n = flxi_node_at(m->g, i);
        kernel_group *own = kernel_of(m, kernels, i);
        for (uint32_t k = 0; own && k < n->nin; k++) {
            uint32_t p = producer(m->g, n->in[k]);
            const kernel_group *other = kernel_of(m, kernels, p);
            uint8_t phase = other ? other->phase : m->phases[p];
            if (other != own && flxi_node_at(m->g, p)->nin && phase > own->phase)
                own->phase = phase;
        }
    }
}

/* Nodes that one kernel computes are in a group of its own, inside of the group that contains them all. */
static flx_code group_kernels(making *m)
{
    kernel_group *kernels = flxi_new(&m->scratch, kernel_group, m->steps->num_steps + 1);
    if (!kernels)
        return oom(m);
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        kernel_group *k = kernel_of(m, kernels, i);
        if (!k)
            continue;
        k->name = k->count ? flxi_common_group(&m->names, k->name, m->names.of[i]) : m->names.of[i];
        k->phase = k->count && k->phase < m->phases[i] ? k->phase : m->phases[i];
        k->count++;
    }
    find_kernel_phases(m, kernels);
    for (uint32_t i = 0; i < m->g->node_count; i++) {
        kernel_group *k = kernel_of(m, kernels, i);
        if (!k || k->count < 2)
            continue;
        if (!k->group) {
            uint32_t s = m->steps->step_of[i], parent = group_for(m, k->phase, k->name);
            making_group group = {.name = m->steps->kernel_names[s], .parent = parent, .phase = k->phase, .step = s};
            group.is_kernel = true;
            uint32_t made = parent == FLXI_VIEW_NONE ? parent : add_group(m, &group);
            if (made == FLXI_VIEW_NONE)
                return oom(m);
            k->group = made + 1;
        }
        m->parent_of[i] = k->group - 1;
    }
    return FLX_OK;
}

/* ---- Dissolving and cutting ---- */

/* How many items a group has, and the sum of their numbers: that of the only one where there is one. */
typedef struct {
    uint32_t count;
    uint64_t sum;
} contents;

static void count_contents(const making *m, contents *in)
{
    for (uint32_t i = 0; i < m->g->node_count; i++)
        if (m->parent_of[i] != FLXI_VIEW_NONE) {
            in[m->parent_of[i]].count++;
            in[m->parent_of[i]].sum += i;
        }
    for (uint32_t i = 1; i < m->groups.n; i++)
        if (!m->groups.at[i].is_gone) {
            in[m->groups.at[i].parent].count++;
            in[m->groups.at[i].parent].sum += m->g->node_count + i;
        }
}

static void set_parent(making *m, uint32_t item, uint32_t group)
{
    if (item < m->g->node_count)
        m->parent_of[item] = group;
    else
        m->groups.at[item - m->g->node_count].parent = group;
}

/* A group of one item says nothing that the item does not say. Groups come after those that contain them, so inner ones
   are dissolved first. */
static flx_code dissolve(making *m)
{
    contents *in = flxi_new(&m->scratch, contents, m->groups.n);
    if (!in)
        return oom(m);
    count_contents(m, in);
    for (uint32_t i = (uint32_t)m->groups.n; i-- > 1;) {
        making_group *g = &m->groups.at[i];
        if (in[i].count > 1)
            continue;
        g->is_gone = true;
        in[g->parent].sum -= m->g->node_count + i;
        in[g->parent].count -= in[i].count == 0;
        if (in[i].count == 1) {
            in[g->parent].sum += in[i].sum;
            set_parent(m, (uint32_t)in[i].sum, g->parent);
        }
    }
    return FLX_OK;
}

typedef struct {
    uint32_t key, item;
} keyed_item;

static int compare_keyed(const void *x, const void *y)
{
    const keyed_item *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->item < b->item ? -1 : a->item > b->item;
}

/* By item: when it is computed, by the number of a node. A leaf is next to what reads it first, a group has the number
   of its first node that is not a leaf. */
static uint32_t *order_keys(making *m)
{
    uint32_t nodes = m->g->node_count;
    uint32_t *key = flxi_new(&m->scratch, uint32_t, nodes + m->groups.n);
    if (!key)
        return NULL;
    for (size_t i = 0; i < nodes + m->groups.n; i++)
        key[i] = UINT32_MAX;
    for (uint32_t i = 0; i < nodes; i++) {
        const flxi_node *n = flxi_node_at(m->g, i);
        for (uint32_t k = 0; k < n->nin; k++) {
            uint32_t p = producer(m->g, n->in[k]);
            if (flxi_node_at(m->g, p)->nin == 0 && key[p] == UINT32_MAX)
                key[p] = i;
        }
        key[i] = n->nin ? i : key[i];
        for (uint32_t at = n->nin ? m->parent_of[i] : 0; at != 0 && at != FLXI_VIEW_NONE;) {
            uint32_t *own = &key[nodes + at];
            if (*own <= i)
                break;
            *own = i;
            at = m->groups.at[at].parent;
        }
    }
    return key;
}

/* Cuts the items of a group, which are sorted, into consecutive parts, and these again where they are large. */
static flx_code cut_group(making *m, uint32_t group, const keyed_item *items, uint32_t n)
{
    enum { HALF = FLXI_VIEW_MOST / 2 };
    uint32_t parts = n / HALF < HALF ? n / HALF : HALF;
    for (uint32_t i = 0; n <= FLXI_VIEW_MOST && i < n; i++)
        set_parent(m, items[i].item, group);
    for (uint32_t p = 0; n > FLXI_VIEW_MOST && p < parts; p++) {
        uint32_t from = (uint32_t)((uint64_t)n * p / parts), to = (uint32_t)((uint64_t)n * (p + 1) / parts);
        char name[40];
        snprintf(name, sizeof name, "part %u of %u", p + 1, parts);
        making_group made = {.name = flxi_arena_text(&m->scratch, name, strlen(name)), .parent = group};
        made.phase = m->groups.at[group].phase;
        made.step = FLXI_VIEW_NONE;
        uint32_t number = made.name ? add_group(m, &made) : FLXI_VIEW_NONE;
        if (number == FLXI_VIEW_NONE)
            return oom(m);
        FLXI_TRY(cut_group(m, number, items + from, to - from));
    }
    return FLX_OK;
}

static uint32_t list_items(const making *m, uint32_t group, const uint32_t *key, uint32_t num_groups, keyed_item *out)
{
    uint32_t n = 0, nodes = m->g->node_count;
    for (uint32_t i = 0; i < nodes; i++)
        if (m->parent_of[i] == group)
            out[n++] = (keyed_item){key[i], i};
    for (uint32_t i = 1; i < num_groups; i++)
        if (m->groups.at[i].parent == group && !m->groups.at[i].is_gone)
            out[n++] = (keyed_item){key[nodes + i], nodes + i};
    qsort(out, n, sizeof *out, compare_keyed);
    return n;
}

static flx_code cut_large_groups(making *m)
{
    uint32_t num_groups = (uint32_t)m->groups.n;
    uint32_t *key = order_keys(m);
    contents *in = flxi_new(&m->scratch, contents, num_groups);
    keyed_item *room = flxi_new(&m->scratch, keyed_item, (size_t)m->g->node_count + num_groups);
    if (!key || !in || !room)
        return oom(m);
    count_contents(m, in);
    for (uint32_t i = 0; i < num_groups; i++)
        if (in[i].count > FLXI_VIEW_MOST && !m->groups.at[i].is_gone)
            FLXI_TRY(cut_group(m, i, room, list_items(m, i, key, num_groups, room)));
    return FLX_OK;
}

/* ---- Items ---- */

static void describe_group(making *m, flxi_view_item *item, const making_group *g, flxi_strbuf *text)
{
    text->n = 0;
    flxi_addf(text, "%s%u %s", g->is_kernel ? "kernel, " : "", item->num_inside, item->num_inside == 1 ? "op" : "ops");
    item->detail = text->failed ? NULL : flxi_arena_text(&m->v->arena, text->at, text->n);
    item->title = flxi_arena_text(&m->v->arena, g->name ? g->name : m->g->name, strlen(g->name ? g->name : m->g->name));
}

/* The name of a node without the names of the groups around it: "w" for layer0.q.w in q in layer0. */
static const char *short_name(making *m, uint32_t i, const char *name, flxi_strbuf *text)
{
    const char *plain = flxi_plain_name(name), *end = strrchr(plain, '.');
    size_t prefix = (size_t)(plain - name);
    uint32_t at = m->parent_of[i];
    while (end && at != FLXI_VIEW_NONE && at != 0 && !m->groups.at[at].is_named)
        at = m->groups.at[at].parent;
    if (!end || at == FLXI_VIEW_NONE || at == 0)
        return name;
    const char *group = m->groups.at[at].name;
    size_t n = strlen(group);
    if ((size_t)(end - plain) < n || strncmp(end - n, group, n) != 0 ||
        (end - n > plain && end[-(ptrdiff_t)n - 1] != '.'))
        return name;
    text->n = 0;
    flxi_add_bytes(text, name, prefix);
    flxi_add_text(text, end + 1);
    return text->failed ? NULL : flxi_arena_text(&m->v->arena, text->at, text->n);
}

static void describe_node(making *m, flxi_view_item *item, uint32_t i, flxi_strbuf *text)
{
    const flxi_node *n = flxi_node_at(m->g, i);
    const char *op = flxi_ops[n->op].name, *name = flxi_view_name(m->g, i);
    bool is_leaf = flxi_is_input(n) || flxi_is_param(n);
    flxi_type_text type;
    item->title = name ? short_name(m, i, name, text) : op;
    text->n = 0;
    if (name && !is_leaf) {
        flxi_add_text(text, op);
        flxi_add_char(text, ' ');
    }
    if (n->nout)
        flxi_add_text(text, flxi_type_str(m->g->ctx, flxi_type_at(m->g, n->first), &type));
    item->detail = text->failed ? NULL : flxi_arena_text(&m->v->arena, text->n ? text->at : "", text->n);
}

static double box_width(const flxi_view_item *item)
{
    size_t title = flxi_text_length(item->title), detail = flxi_text_length(item->detail);
    title = title > FLXI_VIEW_TITLE ? FLXI_VIEW_TITLE : title;
    detail = detail > FLXI_VIEW_DETAIL ? FLXI_VIEW_DETAIL : detail;
    double a = 7.3 * (double)title, b = 6.1 * (double)detail, width = (a > b ? a : b) + 26;
    return width < 64 ? 64 : width;
}

static void make_node_items(making *m)
{
    flxi_graph_view *v = m->v;
    for (uint32_t i = 0; i < v->num_nodes; i++) {
        flxi_view_item *item = &v->items[i];
        bool is_drawn = m->parent_of[i] != FLXI_VIEW_NONE;
        item->parent = is_drawn ? m->groups.at[m->parent_of[i]].number : FLXI_VIEW_NONE;
        item->phase = m->phases[i];
        item->step = m->steps ? m->steps->step_of[i] : FLXI_VIEW_NONE;
        for (uint32_t at = m->parent_of[i]; is_drawn; at = m->groups.at[at].parent) {
            v->items[v->num_nodes + m->groups.at[at].number].num_inside += flxi_node_at(m->g, i)->nin > 0;
            if (at == 0)
                break;
        }
    }
}

static flx_code make_items(making *m)
{
    flxi_graph_view *v = m->v;
    v->num_nodes = m->g->node_count;
    for (size_t i = 0; i < m->groups.n; i++)
        if (!m->groups.at[i].is_gone)
            m->groups.at[i].number = v->num_groups++;
    v->items = flxi_new(&v->arena, flxi_view_item, (size_t)v->num_nodes + v->num_groups);
    v->groups = flxi_new(&v->arena, flxi_view_group, v->num_groups);
    if (!v->items || !v->groups)
        return oom(m);
    make_node_items(m);
    flxi_strbuf text;
    flxi_strbuf_init(&text, m->mem);
    bool ok = true;
    for (size_t i = 0; i < m->groups.n; i++) {
        const making_group *g = &m->groups.at[i];
        flxi_view_item *item = &v->items[v->num_nodes + g->number];
        if (g->is_gone)
            continue;
        item->parent = i == 0 ? FLXI_VIEW_NONE : m->groups.at[g->parent].number;
        item->phase = g->phase;
        item->step = i == 0 ? FLXI_VIEW_NONE : g->step;
        describe_group(m, item, g, &text);
    }
    for (uint32_t i = 0; i < v->num_nodes; i++)
        describe_node(m, &v->items[i], i, &text);
    for (uint32_t i = 0; i < v->num_nodes + v->num_groups; i++) {
        ok = ok && v->items[i].title && v->items[i].detail;
        v->items[i].width = ok ? box_width(&v->items[i]) : 0;
    }
    flxi_strbuf_free(&text);
    return ok ? FLX_OK : oom(m);
}

static flx_code list_children(making *m)
{
    flxi_graph_view *v = m->v;
    uint32_t total = v->num_nodes + v->num_groups;
    for (uint32_t i = 0; i < total; i++)
        if (flxi_view_is_drawn(v, i))
            v->groups[v->items[i].parent].num_items++;
    for (uint32_t i = 0; i < v->num_groups; i++) {
        v->groups[i].items = flxi_new(&v->arena, uint32_t, v->groups[i].num_items);
        if (!v->groups[i].items)
            return oom(m);
        v->groups[i].num_items = 0;
    }
    for (uint32_t i = 0; i < total; i++)
        if (flxi_view_is_drawn(v, i)) {
            flxi_view_group *g = &v->groups[v->items[i].parent];
            g->items[g->num_items++] = i;
        }
    return FLX_OK;
}

/* ---- Edges ---- */

static uint32_t parent_item(const flxi_graph_view *v, uint32_t item)
{
    return v->num_nodes + v->items[item].parent;
}

static flx_code add_edge(making *m, const uint32_t *depth, uint32_t from, uint32_t to)
{
    const flxi_graph_view *v = m->v;
    while (v->items[from].parent != v->items[to].parent) {
        bool is_deeper = depth[from] > depth[to];
        if (depth[from] >= depth[to])
            from = parent_item(v, from);
        if (!is_deeper)
            to = parent_item(v, to);
    }
    return flxi_push(m->mem, &m->edges, ((making_edge){v->items[from].parent, from, to})) ? FLX_OK : oom(m);
}

static int compare_edges(const void *x, const void *y)
{
    const making_edge *a = x, *b = y;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

static flx_code find_edges(making *m)
{
    flxi_graph_view *v = m->v;
    uint32_t total = v->num_nodes + v->num_groups;
    uint32_t *depth = flxi_new(&m->scratch, uint32_t, total);
    if (!depth)
        return oom(m);
    for (uint32_t i = 0; i < total; i++)
        for (uint32_t at = i; flxi_view_is_drawn(v, at); at = parent_item(v, at))
            depth[i]++;
    for (uint32_t i = 0; i < v->num_nodes; i++) {
        const flxi_node *n = flxi_node_at(m->g, i);
        for (uint32_t k = 0; flxi_view_is_drawn(v, i) && k < n->nin; k++) {
            uint32_t p = producer(m->g, n->in[k]);
            if (flxi_view_is_drawn(v, p))
                FLXI_TRY(add_edge(m, depth, p, i));
        }
    }
    if (m->edges.n)
        qsort(m->edges.at, m->edges.n, sizeof *m->edges.at, compare_edges);
    size_t n = 0;
    for (size_t i = 0; i < m->edges.n; i++)
        if (n == 0 || compare_edges(&m->edges.at[n - 1], &m->edges.at[i]) != 0)
            m->edges.at[n++] = m->edges.at[i];
    m->edges.n = n;
    return FLX_OK;
}

/* ---- Layouts ---- */

static flx_code layout_group(making *m, uint32_t group, const making_edge *edges, uint32_t num_edges, uint32_t *index)
{
    flxi_graph_view *v = m->v;
    flxi_view_group *g = &v->groups[group];
    flxi_layout l = {.n = g->num_items, .num_edges = num_edges};
    double *width = flxi_new(&v->arena, double, g->num_items), *pull = flxi_new(&v->arena, double, g->num_items);
    l.edges = flxi_new(&v->arena, flxi_layout_edge, num_edges);
    if (!width || !pull || !l.edges)
        return oom(m);
    for (uint32_t i = 0; i < g->num_items; i++) {
        bool is_leaf = g->items[i] < v->num_nodes && flxi_node_at(m->g, g->items[i])->nin == 0;
        width[i] = v->items[g->items[i]].width;
        pull[i] = is_leaf ? 0.02 : 1; /* parameters are beside the way of the data */
        index[g->items[i]] = i;
    }
    for (uint32_t i = 0; i < num_edges; i++)
        l.edges[i] = (flxi_layout_edge){.from = index[edges[i].from], .to = index[edges[i].to]};
    l.width = width;
    l.pull = pull;
    FLXI_TRY(flxi_layout_layers(&l, &v->arena, m->err));
    for (uint32_t i = 0; i < g->num_items; i++) {
        v->items[g->items[i]].layer = l.layer[i];
        v->items[g->items[i]].x = l.x[i];
    }
    for (uint32_t i = 0; i < num_edges; i++) {
        l.edges[i].from = edges[i].from;
        l.edges[i].to = edges[i].to;
    }
    g->edges = l.edges;
    g->num_edges = num_edges;
    g->num_layers = l.num_layers;
    g->width = l.total_width;
    return FLX_OK;
}

static flx_code layout_all(making *m)
{
    flxi_graph_view *v = m->v;
    uint32_t *index = flxi_new(&m->scratch, uint32_t, (size_t)v->num_nodes + v->num_groups);
    size_t at = 0;
    if (!index)
        return oom(m);
    for (uint32_t i = 0; i < v->num_groups; i++) {
        size_t begin = at;
        while (at < m->edges.n && m->edges.at[at].group == i)
            at++;
        FLXI_TRY(layout_group(m, i, m->edges.at ? m->edges.at + begin : NULL, (uint32_t)(at - begin), index));
    }
    return FLX_OK;
}

/* Where no group is small enough and there are few of them, the first is opened: people want to see the ops. */
static void open_first(flxi_graph_view *v)
{
    uint32_t first = 0;
    bool is_any_open = v->groups[0].num_items > 12;
    for (uint32_t i = v->num_groups; i-- > 1;) {
        const flxi_view_item *item = &v->items[v->num_nodes + i];
        is_any_open |= v->groups[i].is_open;
        if (item->parent == 0 && item->step == FLXI_VIEW_NONE && item->layer == 0)
            first = i;
    }
    v->groups[first].is_open |= !is_any_open;
}

/* Opens groups level by level while what is visible can be read at a glance; kernels stay closed. */
static flx_code open_groups(making *m)
{
    flxi_graph_view *v = m->v;
    uint32_t visible = v->groups[0].num_items;
    bool *was_open = flxi_new(&m->scratch, bool, v->num_groups), goes_on = true;
    if (!was_open)
        return oom(m);
    v->groups[0].is_open = true;
    while (goes_on) {
        bool is_whole = true; /* all of the level fit */
        goes_on = false;
        for (uint32_t i = 0; i < v->num_groups; i++)
            was_open[i] = v->groups[i].is_open;
        for (uint32_t i = 1; i < v->num_groups; i++) {
            const flxi_view_item *item = &v->items[v->num_nodes + i];
            bool is_kernel = item->step != FLXI_VIEW_NONE;
            uint32_t more = v->groups[i].num_items - 1;
            if (was_open[i] || is_kernel || !was_open[item->parent])
                continue;
            is_whole = is_whole && visible + more <= FLXI_VIEW_OPEN;
            if (visible + more > FLXI_VIEW_OPEN)
                continue;
            v->groups[i].is_open = goes_on = true;
            visible += more;
        }
        goes_on = goes_on && is_whole;
    }
    open_first(v);
    return FLX_OK;
}

/* ---- The whole ---- */

static flx_code make_view(making *m)
{
    FLXI_TRY(flxi_find_phases(m->g, &m->scratch, &m->phases, m->err));
    FLXI_TRY(flxi_find_name_groups(&m->names, m->g, m->phases, &m->scratch, m->err));
    m->parent_of = flxi_new(&m->scratch, uint32_t, m->g->node_count + 1);
    if (!m->parent_of || add_group(m, &(making_group){.step = FLXI_VIEW_NONE}) == FLXI_VIEW_NONE)
        return oom(m);
    FLXI_TRY(place_nodes(m));
    if (m->steps)
        FLXI_TRY(group_kernels(m));
    FLXI_TRY(dissolve(m));
    FLXI_TRY(cut_large_groups(m));
    FLXI_TRY(make_items(m));
    FLXI_TRY(list_children(m));
    FLXI_TRY(find_edges(m));
    FLXI_TRY(layout_all(m));
    return open_groups(m);
}

flx_code flxi_graph_view_make(flxi_graph_view *v, const flx_graph *g, const flxi_view_steps *steps, flx_error *err)
{
    const flxi_allocator *mem = flxi_context_mem(g->ctx);
    *v = (flxi_graph_view){.g = g};
    flxi_arena_init(&v->arena, mem);
    making m = {.v = v, .g = g, .steps = steps, .mem = mem, .err = err};
    flxi_arena_init(&m.scratch, mem);
    flx_code code = make_view(&m);
    flxi_name_groups_free(&m.names);
    flxi_vec_free(mem, &m.groups);
    flxi_vec_free(mem, &m.edges);
    flxi_arena_free(&m.scratch);
    return code;
}

void flxi_graph_view_free(flxi_graph_view *v)
{
    if (v->arena.mem)
        flxi_arena_free(&v->arena);
    *v = (flxi_graph_view){0};
}
