/* SPDX-License-Identifier: Apache-2.0 */
/* layered_layout.c: the method of Sugiyama, Tagawa and Toda (1981), in five phases:

     cycles     a depth-first search reverses the edges that lead back to an open vertex
     layers     longest paths from the top; then everything that has more edges below than above moves down, so that
                parameters are next to what reads them
     ways       an edge that passes layers gets a vertex in each of them, within a budget; longer ones have none
     order      the vertices of a layer are sorted by the mean position of their neighbours, alternately down and up;
                the order with the fewest crossings is kept
     positions  each vertex wants to be at the mean of its neighbours. Given the order and the widths of a layer, the
                positions closest to that are an isotonic regression, which pooling adjacent violators solves exactly
                in linear time; swept alternately down and up. */
#include "report/layered_layout.h"

#include <stdlib.h>

enum { ORDER_ROUNDS = 14, POSITION_ROUNDS = 10, WAY_WIDTH = 8 };

typedef struct {
    uint32_t above, below; /* vertices */
} segment;

typedef struct {
    flxi_layout *l;
    flxi_arena *arena;
    uint32_t n;         /* vertices: boxes, then waypoints */
    uint32_t *layer;    /* by vertex */
    double *width, *x;  /* by vertex */
    uint32_t *position; /* by vertex: in its layer */
    uint32_t *first;    /* by layer: where it begins in `order`; one more at the end */
    uint32_t *order;    /* vertices, layer by layer */
    uint32_t *best;     /* the order with the fewest crossings so far */
    segment *segments;  /* edges between adjacent layers */
    uint32_t num_segments;
    uint32_t *up_first, *up;     /* neighbours in the layer above, by vertex */
    uint32_t *down_first, *down; /* … and below */
} drawing;

/* ---- Adjacency ---- */

/* Lists by vertex: `first` (n + 1) and `list` (m), from the ends of edges. */
static bool make_lists(flxi_arena *arena, uint32_t n, const segment *s, uint32_t m, bool of_below, uint32_t **first,
                       uint32_t **list)
{
    uint32_t *f = flxi_new(arena, uint32_t, n + 2), *v = flxi_new(arena, uint32_t, m);
    if (!f || !v)
        return false;
    for (uint32_t i = 0; i < m; i++)
        f[(of_below ? s[i].above : s[i].below) + 2]++;
    for (uint32_t i = 2; i < n + 2; i++)
        f[i] += f[i - 1];
    for (uint32_t i = 0; i < m; i++)
        v[f[(of_below ? s[i].above : s[i].below) + 1]++] = of_below ? s[i].below : s[i].above;
    *first = f;
    *list = v;
    return true;
}

/* ---- Cycles ---- */

typedef struct {
    uint32_t vertex, next;
} visit;

/* Marks the edges that lead back. `out` lists edges by their start. */
static bool break_cycles(drawing *d, const uint32_t *first, const uint32_t *out)
{
    flxi_layout *l = d->l;
    unsigned char *state = flxi_new(d->arena, unsigned char, l->n); /* 0 new, 1 open, 2 done */
    visit *stack = flxi_new(d->arena, visit, l->n + 1);
    if (!state || !stack)
        return false;
    for (uint32_t root = 0; root < l->n; root++) {
        uint32_t depth = 0;
        if (state[root])
            continue;
        stack[depth++] = (visit){root, first[root]};
        state[root] = 1;
        while (depth) {
            visit *at = &stack[depth - 1];
            if (at->next == first[at->vertex + 1]) {
                state[at->vertex] = 2;
                depth--;
                continue;
            }
            flxi_layout_edge *e = &l->edges[out[at->next++]];
            e->is_reversed = state[e->to] == 1;
            if (state[e->to] == 0) {
                state[e->to] = 1;
                stack[depth++] = (visit){e->to, first[e->to]};
            }
        }
    }
    return true;
}

/* Edges by the box they start from. */
static bool edges_by_start(drawing *d, uint32_t **first, uint32_t **out)
{
    const flxi_layout *l = d->l;
    uint32_t *f = flxi_new(d->arena, uint32_t, l->n + 2), *v = flxi_new(d->arena, uint32_t, l->num_edges);
    if (!f || !v)
        return false;
    for (uint32_t i = 0; i < l->num_edges; i++)
        f[l->edges[i].from + 2]++;
    for (uint32_t i = 2; i < l->n + 2; i++)
        f[i] += f[i - 1];
    for (uint32_t i = 0; i < l->num_edges; i++)
        v[f[l->edges[i].from + 1]++] = i;
    *first = f;
    *out = v;
    return true;
}

/* ---- Layers ---- */

static segment directed(const flxi_layout_edge *e)
{
    return e->is_reversed ? (segment){e->to, e->from} : (segment){e->from, e->to};
}

/* Longest paths in topological order, then down again where that shortens edges or leaves their sum as it is. */
static bool assign_layers(drawing *d)
{
    flxi_layout *l = d->l;
    segment *edges = flxi_new(d->arena, segment, l->num_edges);
    uint32_t *above_first, *above, *below_first, *below;
    uint32_t *left = flxi_new(d->arena, uint32_t, l->n), *sorted = flxi_new(d->arena, uint32_t, l->n);
    l->layer = flxi_new(d->arena, uint32_t, l->n);
    if (!edges || !left || !sorted || !l->layer)
        return false;
    for (uint32_t i = 0; i < l->num_edges; i++)
        edges[i] = directed(&l->edges[i]);
    if (!make_lists(d->arena, l->n, edges, l->num_edges, false, &above_first, &above) ||
        !make_lists(d->arena, l->n, edges, l->num_edges, true, &below_first, &below))
        return false;
    uint32_t n = 0;
    for (uint32_t v = 0; v < l->n; v++)
        if ((left[v] = above_first[v + 1] - above_first[v]) == 0)
            sorted[n++] = v;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = sorted[i];
        for (uint32_t k = below_first[v]; k < below_first[v + 1]; k++) {
            uint32_t to = below[k];
            l->layer[to] = l->layer[to] > l->layer[v] + 1 ? l->layer[to] : l->layer[v] + 1;
            if (--left[to] == 0)
                sorted[n++] = to;
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        uint32_t v = sorted[i], lowest = UINT32_MAX;
        uint32_t num_below = below_first[v + 1] - below_first[v], num_above = above_first[v + 1] - above_first[v];
        for (uint32_t k = below_first[v]; k < below_first[v + 1]; k++)
            lowest = l->layer[below[k]] < lowest ? l->layer[below[k]] : lowest;
        if (num_below && num_below >= num_above)
            l->layer[v] = lowest - 1;
    }
    for (uint32_t v = 0; v < l->n; v++)
        l->num_layers = l->layer[v] >= l->num_layers ? l->layer[v] + 1 : l->num_layers;
    return true;
}

/* ---- Ways ---- */

static uint32_t span_of(const flxi_layout *l, const flxi_layout_edge *e)
{
    uint32_t a = l->layer[e->from], b = l->layer[e->to];
    return a < b ? b - a : a - b;
}

/* The longest span for which all edges up to it are within the budget of waypoints. */
static bool longest_way(drawing *d, uint32_t *longest)
{
    const flxi_layout *l = d->l;
    uint32_t *count = flxi_new(d->arena, uint32_t, l->num_layers + 1);
    uint64_t budget = 400 + 4 * (uint64_t)l->n, sum = 0;
    if (!count)
        return false;
    for (uint32_t i = 0; i < l->num_edges; i++)
        count[span_of(l, &l->edges[i])]++;
    for (*longest = 1; *longest + 1 < l->num_layers; ++*longest) {
        sum += (uint64_t)count[*longest + 1] * *longest;
        if (sum > budget)
            break;
    }
    return true;
}

static bool make_ways(drawing *d)
{
    flxi_layout *l = d->l;
    uint32_t longest, n = l->n, m = 0;
    if (!longest_way(d, &longest))
        return false;
    for (uint32_t i = 0; i < l->num_edges; i++) {
        uint32_t span = span_of(l, &l->edges[i]);
        l->edges[i].is_long = span > longest;
        l->edges[i].num_way = span > longest ? 0 : span - 1;
        n += l->edges[i].num_way;
        m += span > longest ? 0 : span;
    }
    d->n = n;
    d->layer = flxi_new(d->arena, uint32_t, n);
    d->width = flxi_new(d->arena, double, n);
    d->segments = flxi_new(d->arena, segment, m);
    if (!d->layer || !d->width || !d->segments)
        return false;
    for (uint32_t v = 0; v < l->n; v++) {
        d->layer[v] = l->layer[v];
        d->width[v] = l->width[v];
    }
    n = l->n;
    for (uint32_t i = 0; i < l->num_edges; i++) {
        const flxi_layout_edge *e = &l->edges[i];
        segment s = directed(e);
        uint32_t at = s.above;
        if (e->is_long)
            continue;
        for (uint32_t k = 0; k < e->num_way; k++) {
            d->layer[n] = d->layer[at] + 1;
            d->width[n] = WAY_WIDTH;
            d->segments[d->num_segments++] = (segment){at, n};
            at = n++;
        }
        d->segments[d->num_segments++] = (segment){at, s.below};
    }
    return make_lists(d->arena, d->n, d->segments, d->num_segments, false, &d->up_first, &d->up) &&
           make_lists(d->arena, d->n, d->segments, d->num_segments, true, &d->down_first, &d->down);
}

/* ---- Order ---- */

static bool begin_order(drawing *d)
{
    uint32_t layers = d->l->num_layers;
    d->first = flxi_new(d->arena, uint32_t, layers + 2);
    d->order = flxi_new(d->arena, uint32_t, d->n);
    d->best = flxi_new(d->arena, uint32_t, d->n);
    d->position = flxi_new(d->arena, uint32_t, d->n);
    if (!d->first || !d->order || !d->best || !d->position)
        return false;
    for (uint32_t v = 0; v < d->n; v++)
        d->first[d->layer[v] + 2]++;
    for (uint32_t i = 2; i < layers + 2; i++)
        d->first[i] += d->first[i - 1];
    for (uint32_t v = 0; v < d->n; v++)
        d->order[d->first[d->layer[v] + 1]++] = v;
    for (uint32_t i = 0; i < layers; i++)
        for (uint32_t k = d->first[i]; k < d->first[i + 1]; k++)
            d->position[d->order[k]] = k - d->first[i];
    return true;
}

typedef struct {
    double key;
    uint32_t position, vertex;
} sort_entry;

static int compare_entries(const void *x, const void *y)
{
    const sort_entry *a = x, *b = y;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static uint32_t layer_size(const drawing *d, uint32_t layer)
{
    return d->first[layer + 1] - d->first[layer];
}

/* Sorts a layer by the mean position of the neighbours in the layer `other`; those without any keep their share. */
static void sort_layer(drawing *d, uint32_t layer, uint32_t other, sort_entry *room)
{
    const uint32_t *first = other < layer ? d->up_first : d->down_first, *list = other < layer ? d->up : d->down;
    uint32_t n = layer_size(d, layer), *order = d->order + d->first[layer];
    double scale = (double)layer_size(d, other) / (double)n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = order[i], count = first[v + 1] - first[v];
        double sum = 0;
        for (uint32_t k = first[v]; k < first[v + 1]; k++)
            sum += d->position[list[k]] + 0.5;
        room[i] = (sort_entry){count ? sum / count : ((double)i + 0.5) * scale, i, v};
    }
    qsort(room, n, sizeof *room, compare_entries);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = room[i].vertex;
        d->position[order[i]] = i;
    }
}

static int compare_numbers(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

/* Crossings of the segments between a layer and the next: pairs in the order of the one and against that of the other,
   counted by a tree of partial sums. */
static uint64_t crossings_below(const drawing *d, uint32_t layer, uint32_t *sums, uint32_t *ends)
{
    uint32_t below = layer_size(d, layer + 1), seen = 0;
    uint64_t crossings = 0;
    memset(sums, 0, (below + 1) * sizeof *sums);
    for (uint32_t i = d->first[layer]; i < d->first[layer + 1]; i++) {
        uint32_t v = d->order[i], n = d->down_first[v + 1] - d->down_first[v];
        for (uint32_t k = 0; k < n; k++)
            ends[k] = d->position[d->down[d->down_first[v] + k]];
        qsort(ends, n, sizeof *ends, compare_numbers);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t before = 0;
            for (uint32_t at = ends[k] + 1; at; at &= at - 1)
                before += sums[at];
            crossings += seen - before;
        }
        for (uint32_t k = 0; k < n; k++, seen++)
            for (uint32_t at = ends[k] + 1; at <= below; at += at & -at)
                sums[at]++;
    }
    return crossings;
}

static bool sort_layers(drawing *d)
{
    uint32_t layers = d->l->num_layers;
    sort_entry *room = flxi_new(d->arena, sort_entry, d->n);
    uint32_t *sums = flxi_new(d->arena, uint32_t, d->n + 1), *ends = flxi_new(d->arena, uint32_t, d->num_segments);
    uint64_t fewest = UINT64_MAX;
    if (!room || !sums || !ends)
        return false;
    for (int round = 0; round < ORDER_ROUNDS && fewest; round++) {
        for (uint32_t i = 1; round && i < layers; i++) {
            uint32_t layer = round % 2 ? i : layers - 1 - i;
            sort_layer(d, layer, round % 2 ? layer - 1 : layer + 1, room);
        }
        uint64_t crossings = 0;
        for (uint32_t i = 0; i + 1 < layers; i++)
            crossings += crossings_below(d, i, sums, ends);
        if (crossings < fewest) {
            fewest = crossings;
            memcpy(d->best, d->order, d->n * sizeof *d->best);
        }
    }
    memcpy(d->order, d->best, d->n * sizeof *d->best);
    for (uint32_t i = 0; i < layers; i++)
        for (uint32_t k = 0; k < layer_size(d, i); k++)
            d->position[d->order[d->first[i] + k]] = k;
    return true;
}

/* ---- Positions ---- */

typedef struct {
    double sum, weight; /* of a pool: its members have one value, sum / weight */
    uint32_t count;
} pool;

typedef struct {
    double at, weight;
} wish;

static void add_wishes(const drawing *d, uint32_t v, const uint32_t *first, const uint32_t *list, wish *w)
{
    for (uint32_t k = first[v]; k < first[v + 1]; k++) {
        bool is_way = v >= d->l->n, is_other_way = list[k] >= d->l->n;
        double weight = is_way && is_other_way ? 8 : is_way || is_other_way ? 2 : 1; /* long edges are straight */
        weight *= is_way ? 1 : d->l->pull[v];
        weight *= is_other_way ? 1 : d->l->pull[list[k]];
        w->at += weight * d->x[list[k]];
        w->weight += weight;
    }
}

/* Moves the vertices of a layer towards their neighbours above, below or on both sides. */
static void move_layer(drawing *d, uint32_t layer, bool looks_up, bool looks_down, pool *pools, double *offset)
{
    uint32_t n = layer_size(d, layer), num_pools = 0;
    const uint32_t *order = d->order + d->first[layer];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = order[i];
        wish w = {0.01 * d->x[v], 0.01};
        if (looks_up)
            add_wishes(d, v, d->up_first, d->up, &w);
        if (looks_down)
            add_wishes(d, v, d->down_first, d->down, &w);
        bool is_way = i && v >= d->l->n && order[i - 1] >= d->l->n;
        double apart = i ? (d->width[order[i - 1]] + d->width[v]) / 2 + (is_way ? 4 : FLXI_LAYOUT_GAP) : 0;
        offset[i] = i ? offset[i - 1] + apart : 0;
        pool p = {w.at - w.weight * offset[i], w.weight, 1};
        while (num_pools && pools[num_pools - 1].sum * p.weight > p.sum * pools[num_pools - 1].weight) {
            const pool *before = &pools[--num_pools];
            p = (pool){p.sum + before->sum, p.weight + before->weight, p.count + before->count};
        }
        pools[num_pools++] = p;
    }
    for (uint32_t p = 0, i = 0; p < num_pools; p++)
        for (uint32_t k = 0; k < pools[p].count; k++, i++)
            d->x[order[i]] = pools[p].sum / pools[p].weight + offset[i];
}

static bool place_vertices(drawing *d)
{
    uint32_t layers = d->l->num_layers;
    pool *pools = flxi_new(d->arena, pool, d->n);
    double *offset = flxi_new(d->arena, double, d->n);
    d->x = flxi_new(d->arena, double, d->n);
    if (!pools || !offset || !d->x)
        return false;
    for (uint32_t i = 0; i < layers; i++)
        move_layer(d, i, true, false, pools, offset);
    for (int round = 0; round < POSITION_ROUNDS; round++)
        for (uint32_t i = 0; i < layers; i++) {
            bool is_up = round % 2 == 0, is_last = round + 2 >= POSITION_ROUNDS;
            move_layer(d, is_up ? layers - 1 - i : i, !is_up || is_last, is_up || is_last, pools, offset);
        }
    return true;
}

static bool give_results(drawing *d, flxi_arena *out)
{
    flxi_layout *l = d->l;
    uint32_t *layer = flxi_new(out, uint32_t, l->n), way = l->n;
    double left = 0, right = 0;
    l->x = flxi_new(out, double, l->n);
    if (!l->x || !layer)
        return false;
    for (uint32_t v = 0; v < d->n; v++) {
        double from = d->x[v] - d->width[v] / 2, to = d->x[v] + d->width[v] / 2;
        left = v == 0 || from < left ? from : left;
        right = v == 0 || to > right ? to : right;
    }
    for (uint32_t v = 0; v < l->n; v++) {
        layer[v] = l->layer[v];
        l->x[v] = d->x[v] - left;
    }
    l->layer = layer;
    l->total_width = right - left;
    for (uint32_t i = 0; i < l->num_edges; i++) {
        flxi_layout_edge *e = &l->edges[i];
        e->way = flxi_new(out, double, e->num_way);
        if (!e->way)
            return false;
        for (uint32_t k = 0; k < e->num_way; k++)
            e->way[k] = d->x[way++] - left;
    }
    return true;
}

flx_code flxi_layout_layers(flxi_layout *l, flxi_arena *arena, flx_error *err)
{
    flxi_arena scratch;
    flxi_arena_init(&scratch, arena->mem);
    drawing d = {.l = l, .arena = &scratch};
    uint32_t *first = NULL, *out = NULL;
    bool ok = edges_by_start(&d, &first, &out) && break_cycles(&d, first, out) && assign_layers(&d) && make_ways(&d) &&
              begin_order(&d) && sort_layers(&d) && place_vertices(&d) && give_results(&d, arena);
    flxi_arena_free(&scratch);
    return ok ? FLX_OK : flxi_oom(err, "a layout");
}
