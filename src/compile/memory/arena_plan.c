/* SPDX-License-Identifier: Apache-2.0 */
/* arena_plan.c: packing of intervals of time, each with a size, into as few bytes as possible. The problem (dynamic
   storage allocation) is NP-hard, so several cheap heuristics are tried and the least peak wins:

     fit     intervals in some order, each into the tightest gap between the intervals that are already placed and
     overlap it
             in time: the largest first, the longest-lived first, the largest area first. Sees the whole of time, packs
             best.
     first   the same, the largest first, into the lowest gap instead of the tightest.
     sweep   forward or backward in time, as a heap would serve the same requests. O(n log n) whatever overlaps what.
     again   a fit whose order is mended: what was placed on top comes first in the next attempt.

   A fit has to look at every overlap, of which there may be n^2 / 2. It therefore works on an allowance; the intervals
   that are left when it is spent (the smallest, or the shortest-lived) are swept into a region of their own above the
   others. The search ends early when a plan is as small as the most that is live at one step, which no plan can beat.

   Sizes and offsets are counted in units of the alignment, so every offset is aligned and sums of two cannot wrap. */
#include "compile/memory/arena_plan.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    SHELF_MAX = 8192,    /* placed intervals that are kept in order of their offsets */
    WORK_MAX = 8000000,  /* what one fit may spend, about a nanosecond each */
    AGAIN_ROUNDS = 100,  /* new attempts with the last first ... */
    AGAIN_MAX = 3000000, /* ... and what they may spend together */
    BIN_STEPS = 8,       /* bins of gaps per power of two */
    BIN_COUNT = 64 * BIN_STEPS,
    BIN_LOOK = 16, /* gaps of one bin that are compared */
};

typedef struct {
    uint64_t size, offset; /* in units */
    uint32_t from, to;
    uint32_t source; /* position in the caller's array */
    bool placed;
} item;

typedef struct {
    uint64_t a, b;
    uint32_t id;
} sort_key;

typedef struct {
    uint64_t begin, end;
} range;

typedef struct {
    uint32_t from, to;
    range room;
} shelf_entry;

typedef struct {
    uint32_t node, first, width; /* the leaves below it */
} subtree;

/* A piece of the sweep's heap, used or free. Pieces are chained by address, free ones also in the bin of their size. */
typedef struct {
    uint64_t offset, size;
    uint32_t before, after; /* neighbours; 0: none */
    uint32_t prev, next;    /* in the bin; 0: none */
    bool is_free;
} piece;

typedef struct {
    item *at;
    uint32_t n;
    uint64_t limit;     /* units that can be addressed */
    uint64_t lower;     /* most that is live at one step */
    uint64_t best_peak; /* a plan that reaches it is given up; limit + 1 before the first */
    uint64_t *best;     /* offsets of the best plan */
    sort_key *keys;
    uint32_t *by_from, *by_to; /* items in these orders */
    uint32_t *order;           /* in which a fit places the items */

    /* Fit. The tree has a leaf per item in the order of by_from; a node holds the latest end of the placed ones below
       it, plus one. */
    uint64_t *tree;
    uint32_t leaves;    /* power of two */
    uint32_t *leaf_of;  /* by item */
    shelf_entry *shelf; /* the placed items by offset, while they are at most SHELF_MAX */
    range *found;       /* ranges of the overlapping items */
    uint32_t placed, shelved, num_found;
    uint64_t peak;
    uint64_t work;

    /* Sweep. */
    piece *pieces; /* 0 is unused */
    uint32_t num_pieces, last;
    uint32_t *piece_of; /* by item */
    uint32_t bins[BIN_COUNT];
    uint64_t filled[BIN_COUNT / 64]; /* bins that hold a gap */
} planner;

/* ---- Orders ---- */

static int compare_keys(const void *x, const void *y)
{
    const sort_key *p = x;
    const sort_key *q = y;
    if (p->a != q->a)
        return p->a < q->a ? -1 : 1;
    if (p->b != q->b)
        return p->b < q->b ? -1 : 1;
    return p->id < q->id ? -1 : p->id > q->id;
}

typedef void key_fn(const item *x, sort_key *key);

static void key_from(const item *x, sort_key *key)
{
    key->a = x->from;
    key->b = ~x->size;
}

static void key_to(const item *x, sort_key *key)
{
    key->a = x->to;
    key->b = x->size;
}

static void key_size(const item *x, sort_key *key)
{
    key->a = ~x->size;
    key->b = x->from;
}

static void key_life(const item *x, sort_key *key)
{
    key->a = ~(uint64_t)(x->to - x->from);
    key->b = ~x->size;
}

static void key_area(const item *x, sort_key *key)
{
    double area = (double)x->size * ((double)(x->to - x->from) + 1.0);
    memcpy(&key->a, &area, sizeof area); /* the bits of positive numbers are in their order */
    key->a = ~key->a;
    key->b = x->from;
}

static void sort_items(planner *p, key_fn *key, uint32_t *order)
{
    for (uint32_t i = 0; i < p->n; i++) {
        key(&p->at[i], &p->keys[i]);
        p->keys[i].id = i;
    }
    qsort(p->keys, p->n, sizeof *p->keys, compare_keys);
    for (uint32_t i = 0; i < p->n; i++)
        order[i] = p->keys[i].id;
}

/* ---- The lower bound ---- */

/* Sizes are at most `limit` and the sum is cut there, so nothing wraps. False: it lies beyond. */
static bool find_lower_bound(planner *p)
{
    uint64_t live = 0;
    uint32_t ended = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        const item *x = &p->at[p->by_from[k]];
        while (p->at[p->by_to[ended]].to < x->from)
            live -= p->at[p->by_to[ended++]].size;
        live += x->size;
        if (live > p->limit)
            return false;
        if (live > p->lower)
            p->lower = live;
    }
    return true;
}

/* ---- Fit: what is placed ---- */

static void tree_raise(planner *p, uint32_t id)
{
    uint64_t end = (uint64_t)p->at[id].to + 1;
    for (uint32_t k = p->leaves + p->leaf_of[id]; k && p->tree[k] < end; k /= 2)
        p->tree[k] = end;
}

/* Collects the placed items among the first `count` leaves that end at or after `from`; false as soon as they are more
   than `most`. */
static bool tree_collect(planner *p, uint32_t from, uint32_t count, uint32_t most)
{
    subtree stack[64]; /* one sibling per level waits */
    uint32_t depth = 0;
    stack[depth++] = (subtree){1, 0, p->leaves};
    while (depth) {
        subtree t = stack[--depth];
        if (t.first >= count || p->tree[t.node] <= from)
            continue;
        if (t.width > 1) {
            uint32_t half = t.width / 2;
            stack[depth++] = (subtree){t.node * 2 + 1, t.first + half, half};
            stack[depth++] = (subtree){t.node * 2, t.first, half};
            continue;
        }
        if (p->num_found == most)
            return false;
        const item *x = &p->at[p->by_from[t.first]];
        p->found[p->num_found++] = (range){x->offset, x->offset + x->size};
    }
    return true;
}

/* Shell's sort: the ranges are few, and nothing is allocated. */
static void sort_found(planner *p)
{
    static const uint32_t steps[] = {88573, 29524, 9841, 3280, 1093, 364, 121, 40, 13, 4, 1};
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++)
        for (uint32_t i = steps[s]; i < p->num_found; i++) {
            range r = p->found[i];
            uint32_t k = i;
            for (; k >= steps[s] && p->found[k - steps[s]].begin > r.begin; k -= steps[s])
                p->found[k] = p->found[k - steps[s]];
            p->found[k] = r;
        }
}

/* The same from the shelf, where they are in order already. */
static void shelf_collect(planner *p, const item *x)
{
    for (uint32_t k = 0; k < p->shelved; k++) {
        const shelf_entry *e = &p->shelf[k];
        p->found[p->num_found] = e->room;
        p->num_found +=
            (e->from <= x->to) & (e->to >= x->from); /* no branch: it would be guessed wrong half the time */
    }
}

static void shelf_insert(planner *p, const item *x)
{
    uint32_t low = 0;
    for (uint32_t high = p->shelved; low < high;) {
        uint32_t mid = low + (high - low) / 2;
        if (p->shelf[mid].room.begin < x->offset)
            low = mid + 1;
        else
            high = mid;
    }
    memmove(&p->shelf[low + 1], &p->shelf[low], (p->shelved - low) * sizeof *p->shelf);
    p->shelf[low] = (shelf_entry){x->from, x->to, {x->offset, x->offset + x->size}};
    p->shelved++;
}

/* How many items begin at or before a step. */
static uint32_t begun(const planner *p, uint32_t step)
{
    uint32_t low = 0;
    for (uint32_t high = p->n; low < high;) {
        uint32_t mid = low + (high - low) / 2;
        if (p->at[p->by_from[mid]].from <= step)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Finds what overlaps an item, by offset. Few overlaps are fastest found in the tree and sorted, many on the shelf. */
static void collect(planner *p, const item *x)
{
    bool has_shelf = p->shelved == p->placed;
    uint32_t most = has_shelf ? p->placed / 16 : p->placed;
    p->num_found = 0;
    if (tree_collect(p, x->from, begun(p, x->to), most)) {
        sort_found(p);
        p->work += 64 + (uint64_t)p->num_found * 24;
        return;
    }
    p->num_found = 0;
    shelf_collect(p, x);
    p->work += 64 + (uint64_t)most * 16 + p->placed;
}

/* ---- Fit: placing ---- */

/* The tightest gap between the ranges found, or the lowest; above them all where none is wide enough. */
static uint64_t find_gap(const planner *p, uint64_t size, bool lowest)
{
    uint64_t cursor = 0;
    uint64_t at = 0;
    uint64_t tightest = UINT64_MAX; /* none */
    for (uint32_t k = 0; k < p->num_found; k++) {
        const range *r = &p->found[k];
        if (r->begin > cursor && r->begin - cursor >= size && r->begin - cursor < tightest) {
            tightest = r->begin - cursor;
            at = cursor;
            if (lowest)
                break;
        }
        if (r->end > cursor)
            cursor = r->end;
    }
    return tightest == UINT64_MAX ? cursor : at;
}

static void place(planner *p, uint32_t id, bool lowest)
{
    item *x = &p->at[id];
    collect(p, x);
    x->offset = find_gap(p, x->size, lowest);
    x->placed = true;
    if (x->offset + x->size > p->peak)
        p->peak = x->offset + x->size;
    tree_raise(p, id);
    if (p->shelved == p->placed && p->shelved < SHELF_MAX)
        shelf_insert(p, x);
    p->placed++;
}

/* ---- Sweep: a heap with bins of gaps ---- */

/* Sizes of one bin agree in their leading bits; bins are in order of size. */
static uint32_t bin_of(uint64_t size)
{
    if (size < BIN_STEPS)
        return (uint32_t)size;
    uint32_t log = 63 - (uint32_t)__builtin_clzll(size);
    return (log - 2) * BIN_STEPS + ((uint32_t)(size >> (log - 3)) & (BIN_STEPS - 1));
}

static void bin_insert(planner *p, uint32_t k)
{
    uint32_t bin = bin_of(p->pieces[k].size);
    p->pieces[k].is_free = true;
    p->pieces[k].prev = 0;
    p->pieces[k].next = p->bins[bin];
    if (p->bins[bin])
        p->pieces[p->bins[bin]].prev = k;
    p->bins[bin] = k;
    p->filled[bin / 64] |= UINT64_C(1) << bin % 64;
}

static void bin_remove(planner *p, uint32_t k)
{
    piece *x = &p->pieces[k];
    x->is_free = false;
    if (x->next)
        p->pieces[x->next].prev = x->prev;
    if (x->prev) {
        p->pieces[x->prev].next = x->next;
        return;
    }
    uint32_t bin = bin_of(x->size);
    p->bins[bin] = x->next;
    if (!x->next)
        p->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

/* The tightest of the first gaps of a bin, or 0. */
static uint32_t bin_search(const planner *p, uint32_t bin, uint64_t size)
{
    uint32_t best = 0;
    uint32_t k = p->bins[bin];
    for (uint32_t look = 0; k && look < BIN_LOOK; look++, k = p->pieces[k].next)
        if (p->pieces[k].size >= size && (!best || p->pieces[k].size < p->pieces[best].size))
            best = k;
    return best;
}

static uint32_t gap_search(const planner *p, uint64_t size)
{
    uint32_t bin = bin_of(size);
    uint32_t k = bin_search(p, bin, size);
    if (k)
        return k;
    uint64_t mask = ~UINT64_C(0) << bin % 64 << 1; /* bins above this one: all their gaps are wide enough */
    for (uint32_t word = bin / 64; word < BIN_COUNT / 64; word++, mask = ~UINT64_C(0)) {
        uint64_t above = p->filled[word] & mask;
        if (above)
            return bin_search(p, word * 64 + (uint32_t)__builtin_ctzll(above), size);
    }
    return 0;
}

/* A new piece after k. */
static uint32_t piece_after(planner *p, uint32_t k, uint64_t offset, uint64_t size)
{
    uint32_t made = ++p->num_pieces;
    uint32_t after = k ? p->pieces[k].after : 0;
    p->pieces[made] = (piece){.offset = offset, .size = size, .before = k, .after = after};
    if (k)
        p->pieces[k].after = made;
    if (after)
        p->pieces[after].before = made;
    else
        p->last = made;
    return made;
}

/* Joins a piece with the next one, which vanishes. */
static void piece_join(planner *p, uint32_t k)
{
    uint32_t gone = p->pieces[k].after;
    p->pieces[k].size += p->pieces[gone].size;
    p->pieces[k].after = p->pieces[gone].after;
    if (p->pieces[k].after)
        p->pieces[p->pieces[k].after].before = k;
    else
        p->last = k;
}

static uint32_t heap_take(planner *p, uint64_t size)
{
    uint32_t k = gap_search(p, size);
    if (k) {
        bin_remove(p, k);
        if (p->pieces[k].size > size) {
            uint32_t rest = piece_after(p, k, p->pieces[k].offset + size, p->pieces[k].size - size);
            p->pieces[k].size = size;
            bin_insert(p, rest);
        }
        return k;
    }
    k = p->last;
    if (k && p->pieces[k].is_free) { /* the end of the heap grows */
        bin_remove(p, k);
        p->pieces[k].size = size;
        return k;
    }
    return piece_after(p, k, k ? p->pieces[k].offset + p->pieces[k].size : 0, size);
}

static void heap_give(planner *p, uint32_t k)
{
    uint32_t after = p->pieces[k].after;
    uint32_t before = p->pieces[k].before;
    if (after && p->pieces[after].is_free) {
        bin_remove(p, after);
        piece_join(p, k);
    }
    if (before && p->pieces[before].is_free) {
        bin_remove(p, before);
        piece_join(p, before);
        k = before;
    }
    bin_insert(p, k);
}

/* Places what is not placed yet above the peak, in the order of time or against it. */
static void sweep(planner *p, bool backward)
{
    uint64_t base = p->peak;
    uint32_t ended = 0;
    p->num_pieces = p->last = 0;
    memset(p->bins, 0, sizeof p->bins);
    memset(p->filled, 0, sizeof p->filled);
    for (uint32_t i = 0; i < p->n && p->peak < p->best_peak; i++) {
        uint32_t id = backward ? p->by_to[p->n - 1 - i] : p->by_from[i];
        item *x = &p->at[id];
        if (x->placed)
            continue;
        for (;; ended++) { /* x itself has not ended, so this stops */
            uint32_t e = backward ? p->by_from[p->n - 1 - ended] : p->by_to[ended];
            const item *y = &p->at[e];
            if (backward ? y->from <= x->to : y->to >= x->from)
                break;
            if (!y->placed)
                heap_give(p, p->piece_of[e]);
        }
        p->piece_of[id] = heap_take(p, x->size);
        x->offset = base + p->pieces[p->piece_of[id]].offset;
        if (x->offset + x->size > p->peak)
            p->peak = x->offset + x->size;
    }
}

/* ---- Plans ---- */

static void begin_plan(planner *p)
{
    p->peak = p->work = 0;
    p->placed = p->shelved = 0;
    memset(p->tree, 0, 2 * (size_t)p->leaves * sizeof *p->tree);
    for (uint32_t i = 0; i < p->n; i++)
        p->at[i].placed = false;
}

/* Keeps the plan if it is the best so far; true when none can be better. */
static bool end_plan(planner *p)
{
    if (p->peak < p->best_peak) {
        p->best_peak = p->peak;
        for (uint32_t i = 0; i < p->n; i++)
            p->best[i] = p->at[i].offset;
    }
    return p->best_peak == p->lower;
}

static bool plan_sweep(planner *p, bool backward)
{
    begin_plan(p);
    sweep(p, backward);
    return end_plan(p);
}

/* Fits in the order of p->order. */
static bool plan_order(planner *p, bool lowest)
{
    begin_plan(p);
    for (uint32_t i = 0; i < p->n && p->work < WORK_MAX && p->peak < p->best_peak; i++)
        place(p, p->order[i], lowest);
    sweep(p, false);
    return end_plan(p);
}

static bool plan_fit(planner *p, key_fn *key, bool lowest)
{
    sort_items(p, key, p->order);
    return plan_order(p, lowest);
}

/* The items at the top are those that came too late for a good offset: they come first, and all is placed again. */
static bool plan_again(planner *p)
{
    uint64_t spent = 0;
    sort_items(p, key_size, p->order);
    for (uint32_t round = 0; round < AGAIN_ROUNDS && spent < AGAIN_MAX; round++) {
        if (plan_order(p, false))
            return true;
        spent += p->work;
        uint32_t kept = p->n;
        uint32_t moved = 0;
        for (uint32_t i = p->n; i-- > 0;) { /* from the end: `keys` holds those to move */
            uint32_t id = p->order[i];
            if (p->at[id].placed && p->at[id].offset + p->at[id].size >= p->best_peak)
                p->keys[moved++].id = id;
            else
                p->order[--kept] = id;
        }
        for (uint32_t i = 0; i < moved; i++)
            p->order[moved - 1 - i] = p->keys[i].id;
    }
    return false;
}

static void plan_all(planner *p)
{
    if (plan_sweep(p, false) || plan_sweep(p, true) || plan_fit(p, key_size, false) || plan_fit(p, key_life, false) ||
        plan_fit(p, key_area, false) || plan_fit(p, key_size, true))
        return;
    plan_again(p);
}

static bool take_scratch(planner *p, flxi_arena *scratch)
{
    size_t n = p->n;
    for (p->leaves = 1; p->leaves < n;)
        p->leaves *= 2;
    p->best = flxi_new(scratch, uint64_t, n);
    p->keys = flxi_new(scratch, sort_key, n);
    p->by_from = flxi_new(scratch, uint32_t, n);
    p->by_to = flxi_new(scratch, uint32_t, n);
    p->order = flxi_new(scratch, uint32_t, n);
    p->tree = flxi_new(scratch, uint64_t, 2 * (size_t)p->leaves);
    p->leaf_of = flxi_new(scratch, uint32_t, n);
    p->shelf = flxi_new(scratch, shelf_entry, n < SHELF_MAX ? n : SHELF_MAX);
    p->found = flxi_new(scratch, range, n + 1);
    p->pieces = flxi_new(scratch, piece, n + 1); /* every item makes one at most: its own, or the rest of a gap */
    p->piece_of = flxi_new(scratch, uint32_t, n);
    return p->best && p->keys && p->by_from && p->by_to && p->order && p->tree && p->leaf_of && p->shelf && p->found &&
           p->pieces && p->piece_of;
}

/* The intervals that need room. */
static flx_code read_items(planner *p, const flxi_interval *v, size_t n, flx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].from > v[i].to)
            return flxi_fail(err, FLX_E_INTERNAL,
                             "memory plan: interval %zu ends at step %" PRIu32 ", before step %" PRIu32, i, v[i].to,
                             v[i].from);
        if (v[i].nbytes > SIZE_MAX - (FLXI_ARENA_ALIGN - 1))
            return flxi_fail(err, FLX_E_SIZE, "memory plan: a buffer of %zu bytes cannot be addressed", v[i].nbytes);
        uint64_t size = (v[i].nbytes + (FLXI_ARENA_ALIGN - 1)) / FLXI_ARENA_ALIGN;
        if (size)
            p->at[p->n++] = (item){.size = size, .from = v[i].from, .to = v[i].to, .source = (uint32_t)i};
    }
    return FLX_OK;
}

static flx_code make_plan(planner *p, flxi_arena *scratch, flx_error *err)
{
    if (!take_scratch(p, scratch))
        return flxi_oom(err, "planning memory");
    sort_items(p, key_from, p->by_from);
    sort_items(p, key_to, p->by_to);
    for (uint32_t k = 0; k < p->n; k++)
        p->leaf_of[p->by_from[k]] = k;
    p->best_peak = p->limit + 1;
    if (find_lower_bound(p))
        plan_all(p);
    if (p->best_peak > p->limit)
        return flxi_fail_hint(err, FLX_E_SIZE, "use smaller shapes or a smaller batch",
                              "memory plan: the buffers of a run do not fit into the address space");
    return FLX_OK;
}

flx_code flxi_plan_arena(const flxi_allocator *mem, flxi_interval *v, size_t n, flxi_arena_size *out, flx_error *err)
{
    if (n > UINT32_MAX / 4)
        return flxi_fail(err, FLX_E_SIZE, "memory plan: %zu buffers are too many", n);
    flxi_arena scratch;
    flxi_arena_init(&scratch, mem);
    planner p = {.limit = SIZE_MAX / FLXI_ARENA_ALIGN, .at = flxi_new(&scratch, item, n)};
    flx_code code = p.at ? read_items(&p, v, n, err) : flxi_oom(err, "planning memory");
    if (code == FLX_OK)
        code = make_plan(&p, &scratch, err);
    if (code == FLX_OK) {
        for (size_t i = 0; i < n; i++)
            v[i].offset = 0;
        for (uint32_t i = 0; i < p.n; i++)
            v[p.at[i].source].offset = (size_t)p.best[i] * FLXI_ARENA_ALIGN;
        *out = (flxi_arena_size){(size_t)p.best_peak * FLXI_ARENA_ALIGN, (size_t)p.lower * FLXI_ARENA_ALIGN};
    }
    flxi_arena_free(&scratch);
    return code;
}
