/* SPDX-License-Identifier: Apache-2.0 */
/* sort_route.c: sort, argsort, topk and top_k of one key, by partitions in vectors (sort_quick.h), or digit by digit
   (numeric/radix_sort.h) where the machine has no instructions for these.

   Elements become unsigned integers in whose order they sort (sort_keys.h). Where only the sorted operand is wanted,
   these are sorted alone and turned back; zeros and NaNs, which are alike and yet may differ in their bits, are then
   copied in the order in which they came. Else each has its position with it, and keys of 64 bits are sorted by their
   upper half, which is mostly enough. A few largest are picked by insertion, without sorting the rest, and many short
   rows are sorted together (sort_lanes.h): a position makes its item unlike all others, so these and partitions need
   no stable order. Threads divide the rows, or where these are few the elements of each. */
#include "backend/cpu/routes/routes.h"
#include "backend/cpu/routes/sort/sort_keys.h"
#include "backend/cpu/routes/sort/sort_lanes.h"
#include "backend/cpu/routes/sort/sort_quick.h"
#include "base/host/stop.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

#include <string.h>

enum {
    FEW = 32,
    SHORT = 32,    /* of rows, for which lanes are better than partitions */
    POLL = 1 << 16 /* elements between two questions whether to stop */
};

typedef struct {
    uint64_t key;
    int64_t at; /* position */
} picked;

typedef struct {
    const flxi_route_node *n;
    flxi_split split; /* of the key */
    int64_t take;     /* results have the first `take` positions of each row */
    uint64_t flip;    /* of keys, for descending order */
    uint32_t values;  /* the first results are operands in the new order, this many */
    int positions;    /* the result that holds positions, or -1 */
    bool picks;       /* few are taken */
    const flxi_sort_keys *key;
    flxi_radix_kind kind;
    const flxi_quick *quick; /* or NULL: by digits */
    bool is_long;            /* keys of 64 bits have positions: items hold one half of them */
    int64_t rows, slots;     /* rows are distributed among that many slots … */
    int parts;               /* … or each row is divided into that many parts */
    int64_t lanes;           /* rows that are sorted together; 1: each by its digits */
    int64_t steps;           /* of a lane, padded */
    size_t items;            /* bytes of the items of a row, or of all lanes, rounded up */
    size_t counts;           /* where those of the digits are, after items, spare and keys */
} sorting;

static bool is_top(const flxi_route_node *n)
{
    return n->op == OP_topk || n->op == OP_top_k;
}

static int64_t axis_of(const flxi_route_node *n)
{
    return n->op == OP_topk ? n->in_types[0]->rank - 1 : flxi_route_int(n, "axis");
}

/* Lanes pay where at least a quarter of them has a row. Rows that are not neighbours need to be moved into lanes, which
   pays for short ones. */
static void choose_lanes(sorting *s)
{
    int64_t lanes = (int64_t)(FLXI_LANES_BYTES / flxi_radix_item(s->kind));
    s->lanes = 1;
    s->steps = s->split.n;
    int64_t most = s->quick && s->split.inner < lanes ? SHORT : FLXI_LANES_MOST;
    if (s->picks || s->is_long || s->split.n > most || s->rows < lanes / 4)
        return;
    s->lanes = lanes;
    for (s->steps = 16; s->steps < s->split.n;)
        s->steps *= 2;
}

static sorting sorting_of(const flxi_route_node *n, int threads)
{
    int64_t axis = axis_of(n);
    sorting s = {.n = n, .split = flxi_split_at(n->in_types[0], axis), .take = n->out_types[0]->dims[axis]};
    s.key = flxi_sort_keys_of(n->in_types[0]->dtype);
    s.rows = s.split.outer * s.split.inner;
    s.flip = is_top(n) || flxi_route_int(n, "descending") ? UINT64_MAX >> (64 - s.key->bits) : 0;
    s.values = n->op == OP_sort ? n->nin : n->op == OP_top_k ? 1 : 0;
    s.positions = n->op == OP_sort ? -1 : n->op == OP_top_k ? 1 : 0;
    s.picks = s.take <= FEW && s.take < s.split.n;
    bool is_alone = s.picks || (n->op == OP_sort && n->nin == 1);
    s.is_long = s.key->bits == 64 && !is_alone;
    s.kind = !is_alone ? FLXI_PAIR_32 : s.key->bits == 64 ? FLXI_KEY_64 : FLXI_KEY_32;
    s.quick = flxi_quick_of(flxi_radix_item(s.kind));
    s.parts = s.rows < threads && !s.picks ? flxi_radix_parts(s.split.n, threads) : 1;
    s.slots = s.parts > 1 ? 1 : threads < s.rows ? threads : s.rows;
    choose_lanes(&s);
    s.items = ((size_t)(s.steps * s.lanes) * flxi_radix_item(s.kind) + 63) / 64 * 64;
    s.counts = (s.is_long ? 3 : 2) * s.items;
    return s;
}

/* One row, and where its elements are. */
typedef struct {
    const sorting *s;
    int64_t in, out; /* of the first element */
    char *items;     /* then as many again */
    const void *sorted;
    int64_t step;       /* between the items of the row there */
    int64_t width;      /* neighbouring columns, whose items are neighbours there too */
    const picked *best; /* instead of sorted items, or NULL */
} sorted_row;

static sorted_row row_of(const sorting *s, int64_t row, char *scratch)
{
    flxi_split d = s->split;
    return (sorted_row){.s = s,
                        .in = row / d.inner * d.n * d.inner + row % d.inner,
                        .out = row / d.inner * s->take * d.inner + row % d.inner,
                        .items = scratch,
                        .step = 1,
                        .width = 1};
}

static bool has_keys_alone(const sorting *s)
{
    return s->kind == FLXI_KEY_32 || s->kind == FLXI_KEY_64;
}

/* ---- Items ---- */

static const char *element(const sorting *s, uint32_t operand, int64_t at)
{
    return (const char *)s->n->in[operand] + (size_t)at * flx_dtype_size(s->n->in_types[operand]->dtype);
}

static char *result(const sorting *s, uint32_t number, int64_t at)
{
    return (char *)s->n->out[number] + (size_t)at * flx_dtype_size(s->n->out_types[number]->dtype);
}

/* Calls fn for one block of the range after the other until the work is stopped. */
static void each_block(const sorted_row *r, int64_t begin, int64_t end,
                       void (*fn)(const sorted_row *r, int64_t begin, int64_t end))
{
    for (int64_t i = begin; i < end && !flxi_stopped(); i += POLL)
        fn(r, i, end - i < POLL ? end : i + POLL);
}

static void make_block(const sorted_row *r, int64_t begin, int64_t end)
{
    const sorting *s = r->s;
    const void *x = element(s, 0, r->in + begin * s->split.inner);
    void *to = r->items + (size_t)begin * flxi_radix_item(s->kind);
    if (has_keys_alone(s))
        s->key->keys(x, s->split.inner, end - begin, s->flip, to);
    else
        s->key->pairs(x, s->split.inner, end - begin, s->flip, begin, to);
}

static void make_items(void *user, int64_t begin, int64_t end)
{
    each_block(user, begin, end, make_block);
}

static int64_t position_of(const sorted_row *r, int64_t k, int64_t column)
{
    return r->best ? r->best[k].at : (int64_t)(uint32_t)((const uint64_t *)r->sorted)[k * r->step + column];
}

/* ---- Results ---- */

#define MOVE(name, T)                                                                             \
    static void name(const sorted_row *r, const char *from, char *to, int64_t begin, int64_t end) \
    {                                                                                             \
        const T *x = (const T *)(const void *)from;                                               \
        T *y = (T *)(void *)to;                                                                   \
        const int64_t step = r->s->split.inner, width = r->width;                                 \
        for (int64_t k = begin; k < end; k++)                                                     \
            for (int64_t i = 0; i < width; i++)                                                   \
                y[k * step + i] = x[position_of(r, k, i) * step + i];                             \
    }
typedef struct {
    uint64_t part[2];
} bytes16;
MOVE(move_1, uint8_t)
MOVE(move_2, uint16_t)
MOVE(move_4, uint32_t)
MOVE(move_8, uint64_t)
MOVE(move_16, bytes16)

static void put_operand(const sorted_row *r, uint32_t j, int64_t begin, int64_t end)
{
    const sorting *s = r->s;
    const char *from = element(s, j, r->in);
    char *to = result(s, j, r->out);
    switch (flx_dtype_size(s->n->in_types[j]->dtype)) {
    case 1: move_1(r, from, to, begin, end); break;
    case 2: move_2(r, from, to, begin, end); break;
    case 4: move_4(r, from, to, begin, end); break;
    case 8: move_8(r, from, to, begin, end); break;
    default: move_16(r, from, to, begin, end); break;
    }
}

static void put_positions(const sorted_row *r, int64_t begin, int64_t end)
{
    const sorting *s = r->s;
    uint32_t number = (uint32_t)s->positions;
    int32_t dtype = s->n->out_types[number]->dtype;
    int64_t step = s->split.inner;
    void *y = result(s, number, r->out);
    if (dtype == FLX_I32)
        for (int64_t k = begin; k < end; k++)
            for (int64_t i = 0; i < r->width; i++)
                ((int32_t *)y)[k * step + i] = (int32_t)position_of(r, k, i);
    else
        for (int64_t k = begin; k < end; k++)
            for (int64_t i = 0; i < r->width; i++)
                flxi_store_int(dtype, y, k * step + i, position_of(r, k, i));
}

static void put_block(const sorted_row *r, int64_t begin, int64_t end)
{
    const sorting *s = r->s;
    if (has_keys_alone(s) && !r->best) {
        const char *keys = (const char *)r->sorted + (size_t)begin * flxi_radix_item(s->kind);
        s->key->values(keys, end - begin, s->flip, result(s, 0, r->out + begin * s->split.inner), s->split.inner);
        return;
    }
    for (uint32_t j = 0; j < s->values; j++)
        put_operand(r, j, begin, end);
    if (s->positions >= 0)
        put_positions(r, begin, end);
}

static void put_results(void *user, int64_t begin, int64_t end)
{
    each_block(user, begin, end, put_block);
}

static uint64_t key_at(const sorted_row *r, int64_t k)
{
    k *= r->step;
    return r->s->kind == FLXI_KEY_32 ? ((const uint32_t *)r->sorted)[k] : ((const uint64_t *)r->sorted)[k];
}

/* The first of the sorted keys that is not below `key`. */
static int64_t first_from(const sorted_row *r, uint64_t key)
{
    int64_t first = 0;
    for (int64_t n = r->s->split.n; n > 0;) {
        const bool is_below = key_at(r, first + n / 2) < key;
        first = is_below ? first + n / 2 + 1 : first; /* no branch: either is as likely */
        n = is_below ? n - n / 2 - 1 : n / 2;
    }
    return first;
}

/* Zeros and NaNs get their own bits, in the order in which they came. */
static void restore_bits(const sorted_row *r)
{
    const sorting *s = r->s;
    uint64_t all = UINT64_MAX >> (64 - s->key->bits), zero = (all / 2 + 1) ^ s->flip, nan = all ^ s->flip;
    int64_t n = s->split.n, zeros = first_from(r, zero);
    bool has_zero = zeros < n && key_at(r, zeros) == zero, has_nan = key_at(r, s->flip ? 0 : n - 1) == nan;
    int64_t nans = has_nan ? first_from(r, nan) : n;
    if (has_zero || has_nan)
        s->key->restore(element(s, 0, r->in), s->split.inner, n, result(s, 0, r->out), s->split.inner, zeros, nans);
}

/* ---- Rows ---- */

/* The first `take` of n keys in order, of which there are few. A block that has none of them is left at once. */
#define PICK(name, K)                                                                  \
    static int64_t name(const K *restrict keys, int64_t n, picked *best, int64_t take) \
    {                                                                                  \
        enum { BLOCK = 16 };                                                           \
        int64_t held = 0;                                                              \
        for (int64_t i = 0; i < n && !flxi_stopped_by_now(); i += BLOCK) {             \
            int64_t end = i + BLOCK < n ? i + BLOCK : n;                               \
            if (held == take && end - i == BLOCK) {                                    \
                const K worst = (K)best[held - 1].key;                                 \
                int below = 0;                                                         \
                for (int64_t j = i; j < i + BLOCK; j++)                                \
                    below |= keys[j] < worst;                                          \
                if (!below)                                                            \
                    continue;                                                          \
            }                                                                          \
            for (int64_t j = i; j < end; j++) {                                        \
                if (held == take && keys[j] >= best[held - 1].key)                     \
                    continue;                                                          \
                int64_t at = held < take ? held++ : held - 1;                          \
                for (; at > 0 && best[at - 1].key > keys[j]; at--)                     \
                    best[at] = best[at - 1];                                           \
                best[at] = (picked){keys[j], j};                                       \
            }                                                                          \
        }                                                                              \
        return held;                                                                   \
    }
PICK(pick_32, uint32_t)
PICK(pick_64, uint64_t)

static void pick_row(sorted_row *r)
{
    const sorting *s = r->s;
    picked best[FEW];
    make_items(r, 0, s->split.n);
    int64_t held = s->kind == FLXI_KEY_32 ? pick_32((const uint32_t *)(void *)r->items, s->split.n, best, s->take)
                                          : pick_64((const uint64_t *)(void *)r->items, s->split.n, best, s->take);
    r->best = best;
    if (!flxi_stopped())
        put_results(r, 0, held);
}

static void *sort_items(const sorted_row *r, int bits, flxi_pool *pool)
{
    const sorting *s = r->s;
    if (s->quick) {
        flxi_quick_sort(s->quick, r->items, s->split.n, r->items + s->items, pool);
        return r->items;
    }
    return flxi_radix_sort(&(flxi_radix){.kind = s->kind,
                                         .bits = bits,
                                         .items = r->items,
                                         .spare = r->items + s->items,
                                         .n = s->split.n,
                                         .counts = r->items + s->counts,
                                         .pool = pool,
                                         .parts = s->parts});
}

/* Orders the n items of equal upper halves by the lower ones; they are few. */
static void insert_ties(uint64_t *items, int64_t n, const uint64_t *keys)
{
    for (int64_t i = 1; i < n; i++) {
        uint64_t x = items[i];
        int64_t k = i;
        for (; k > 0 && keys[(uint32_t)items[k - 1]] > keys[(uint32_t)x]; k--)
            items[k] = items[k - 1];
        items[k] = x;
    }
}

static uint64_t *long_keys(const sorted_row *r)
{
    return (uint64_t *)(void *)(r->items + 2 * r->s->items);
}

/* The same for many, by partitions: positions make items of equal lower halves differ. */
static void sort_ties(const sorted_row *r, uint64_t *items, int64_t n)
{
    const uint64_t *keys = long_keys(r);
    for (int64_t i = 0; i < n; i++)
        items[i] = keys[(uint32_t)items[i]] << 32 | (uint32_t)items[i];
    flxi_quick_sort(r->s->quick, items, n, r->items + r->s->items, NULL);
}

/* Orders items of equal keys, sorted by the upper halves; false where too many are equal for that. */
static bool resolve_ties(const sorted_row *r, uint64_t *items)
{
    const int64_t n = r->s->split.n, most = r->s->quick ? n : FEW;
    for (int64_t i = 0, end; i < n && !flxi_stopped_by_now(); i = end) {
        for (end = i + 1; end < n && items[end] >> 32 == items[i] >> 32 && end - i <= most; end++)
            ;
        if (end - i > most)
            return false;
        if (end - i > FEW)
            sort_ties(r, items + i, end - i);
        else if (end - i > 1)
            insert_ties(items + i, end - i, long_keys(r));
    }
    return true;
}

static void items_by_upper_half(const sorted_row *r, int64_t begin, int64_t end)
{
    const sorting *s = r->s;
    uint64_t *items = (uint64_t *)(void *)r->items, *keys = long_keys(r);
    s->key->keys(element(s, 0, r->in + begin * s->split.inner), s->split.inner, end - begin, s->flip, keys + begin);
    for (int64_t i = begin; i < end; i++)
        items[i] = (keys[i] & ~(uint64_t)UINT32_MAX) | (uint64_t)i;
}

static void items_by_lower_half(const sorted_row *r, int64_t begin, int64_t end)
{
    uint64_t *items = (uint64_t *)(void *)r->items;
    const uint64_t *keys = long_keys(r);
    for (int64_t i = begin; i < end; i++)
        items[i] = keys[i] << 32 | (uint64_t)i;
}

/* Of items sorted by the lower half. These may be r->items themselves: each is read before it is written. */
static void items_again_by_upper_half(const sorted_row *r, int64_t begin, int64_t end)
{
    uint64_t *items = (uint64_t *)(void *)r->items;
    const uint64_t *lower = r->sorted, *keys = long_keys(r);
    for (int64_t i = begin; i < end; i++) {
        uint64_t at = (uint32_t)lower[i];
        items[i] = (keys[at] & ~(uint64_t)UINT32_MAX) | at;
    }
}

/* Positions in the order of keys of 64 bits: by the upper half, and where digits leave too many equal, by the lower
   half and then by the upper one. NULL when the work is stopped: then positions are not complete. */
static const void *sort_long(sorted_row *r, flxi_pool *pool)
{
    int64_t n = r->s->split.n;
    each_block(r, 0, n, items_by_upper_half);
    void *sorted = sort_items(r, 32, pool);
    if (!sorted || flxi_stopped())
        return NULL;
    if (resolve_ties(r, sorted))
        return sorted;
    each_block(r, 0, n, items_by_lower_half);
    r->sorted = sort_items(r, 32, pool);
    if (!r->sorted || flxi_stopped())
        return NULL;
    each_block(r, 0, n, items_again_by_upper_half);
    return sort_items(r, 32, pool);
}

static void sort_row(const sorting *s, int64_t row, char *scratch, flxi_pool *pool)
{
    sorted_row r = row_of(s, row, scratch);
    if (s->picks) {
        pick_row(&r);
        return;
    }
    if (!s->is_long)
        flxi_pool_run(pool, s->split.n, 1 << 14, make_items, &r);
    r.sorted = s->is_long ? sort_long(&r, pool) : sort_items(&r, s->key->bits, pool);
    if (!r.sorted || flxi_stopped()) /* positions are not complete */
        return;
    flxi_pool_run(pool, s->take, 1 << 14, put_results, &r);
    if (s->key->is_float && has_keys_alone(s))
        restore_bits(&r);
}

/* ---- Lanes ---- */

#define LANE_COPIES(suffix, T)                                                             \
    static void into_lane_##suffix(const void *from, void *items, int64_t lane, int64_t n) \
    {                                                                                      \
        enum { LANES = FLXI_LANES_BYTES / sizeof(T) };                                     \
        const T *x = from;                                                                 \
        T *y = (T *)items + lane;                                                          \
        for (int64_t k = 0; k < n; k++)                                                    \
            y[k * LANES] = x[k];                                                           \
    }                                                                                      \
    static void from_lane_##suffix(const void *items, int64_t lane, int64_t n, void *to)   \
    {                                                                                      \
        enum { LANES = FLXI_LANES_BYTES / sizeof(T) };                                     \
        const T *x = (const T *)items + lane;                                              \
        T *y = to;                                                                         \
        for (int64_t k = 0; k < n; k++)                                                    \
            y[k] = x[k * LANES];                                                           \
    }
LANE_COPIES(4, uint32_t)
LANE_COPIES(8, uint64_t)

/* Neighbouring columns: a step of the lanes is dense in x. */
static void fill_columns(const sorting *s, int64_t in, int64_t rows, char *items)
{
    for (int64_t k = 0; k < s->split.n; k++) {
        const void *x = element(s, 0, in + k * s->split.inner);
        char *to = items + k * FLXI_LANES_BYTES;
        if (has_keys_alone(s)) {
            s->key->keys(x, 1, rows, s->flip, to);
            continue;
        }
        s->key->pairs(x, 1, rows, s->flip, 0, to);
        for (int64_t i = 0; i < rows; i++)
            ((uint64_t *)(void *)to)[i] += (uint64_t)(k - i); /* they have the position k, not i */
    }
}

/* Rows anywhere, one after the other. */
static void fill_lanes(const sorting *s, int64_t row, int64_t rows, char *items)
{
    bool is_short = flxi_radix_item(s->kind) == sizeof(uint32_t);
    for (int64_t i = 0; i < rows; i++) {
        sorted_row r = row_of(s, row + i, items + s->items);
        make_items(&r, 0, s->split.n);
        (is_short ? into_lane_4 : into_lane_8)(r.items, items, i, s->split.n);
    }
}

/* The lanes of neighbouring columns, step by step. */
static void put_columns(const sorting *s, int64_t row, int64_t rows, char *items)
{
    sorted_row r = row_of(s, row, NULL);
    r.sorted = items;
    r.step = s->lanes;
    r.width = rows;
    if (!has_keys_alone(s)) {
        put_results(&r, 0, s->take);
        return;
    }
    for (int64_t k = 0; k < s->take; k++)
        s->key->values(items + k * FLXI_LANES_BYTES, rows, s->flip, result(s, 0, r.out + k * s->split.inner), 1);
    for (int64_t i = 0; s->key->is_float && i < rows; i++) {
        sorted_row own = row_of(s, row + i, NULL);
        own.sorted = items + i * (int64_t)flxi_radix_item(s->kind);
        own.step = s->lanes;
        restore_bits(&own);
    }
}

static void put_lane(const sorting *s, int64_t row, int64_t lane, char *items)
{
    sorted_row r = row_of(s, row, items + s->items);
    bool is_short = flxi_radix_item(s->kind) == sizeof(uint32_t);
    (is_short ? from_lane_4 : from_lane_8)(items, lane, s->split.n, r.items);
    r.sorted = r.items;
    put_results(&r, 0, s->take);
    if (s->key->is_float && has_keys_alone(s))
        restore_bits(&r);
}

/* At most as many rows as there are lanes. */
static void sort_lanes(const sorting *s, int64_t row, int64_t rows, char *items)
{
    flxi_split d = s->split;
    bool are_columns = row % d.inner + rows <= d.inner && rows > 1;
    if (rows < s->lanes)
        memset(items, 0, (size_t)d.n * FLXI_LANES_BYTES);
    memset(items + d.n * FLXI_LANES_BYTES, 0xff, (size_t)(s->steps - d.n) * FLXI_LANES_BYTES);
    if (are_columns)
        fill_columns(s, row_of(s, row, NULL).in, rows, items);
    else
        fill_lanes(s, row, rows, items);
    flxi_lanes_sort_of(flxi_radix_item(s->kind))(items, s->steps);
    if (are_columns)
        put_columns(s, row, rows, items);
    for (int64_t i = 0; !are_columns && i < rows; i++)
        put_lane(s, row + i, i, items);
}

/* ---- Slots ---- */

static size_t slot_bytes(const sorting *s)
{
    return s->counts + flxi_radix_counts(s->parts);
}

/* Each slot has neighbouring rows and scratch of its own. */
static void sort_rows(void *user, int64_t begin, int64_t end)
{
    const sorting *s = user;
    for (int64_t slot = begin; slot < end; slot++) {
        char *scratch = (char *)s->n->scratch + (size_t)slot * slot_bytes(s);
        int64_t groups = (s->rows + s->lanes - 1) / s->lanes;
        for (int64_t g = groups * slot / s->slots; g < groups * (slot + 1) / s->slots && !flxi_stopped(); g++) {
            int64_t row = g * s->lanes, rows = s->rows - row < s->lanes ? s->rows - row : s->lanes;
            if (s->lanes > 1)
                sort_lanes(s, row, rows, scratch);
            else
                sort_row(s, row, scratch, NULL);
        }
    }
}

/* ---- The route ---- */

const char *flxi_sort_applies(const flxi_route_node *n)
{
    if (n->op == OP_sort && flxi_route_has_graph(n, "compare"))
        return "the order is given by a graph";
    if (n->op == OP_sort && flxi_route_int(n, "num_keys") != 1)
        return "more than one key";
    if (flxi_split_at(n->in_types[0], axis_of(n)).n > UINT32_MAX)
        return "positions have more than 32 bits";
    return NULL;
}

size_t flxi_sort_scratch(const flxi_route_node *n, int threads)
{
    if (flxi_route_count(n->in_types[0]) == 0)
        return 0;
    sorting s = sorting_of(n, threads);
    s.parts = flxi_radix_parts(s.split.n, threads); /* with fewer threads, slots may be more and parts fewer */
    return (size_t)(threads < s.rows ? threads : s.rows) * slot_bytes(&s);
}

flx_code flxi_sort_route(const flxi_route_node *n)
{
    if (flxi_route_count(n->in_types[0]) == 0 || flxi_route_count(n->out_types[0]) == 0)
        return FLX_OK;
    sorting s = sorting_of(n, flxi_pool_threads(n->pool));
    bool is_small = flxi_route_count(n->in_types[0]) < 4096; /* not worth waking a thread */
    if (s.parts == 1) {
        flxi_pool_run(is_small ? NULL : n->pool, s.slots, 1, sort_rows, &s);
        return FLX_OK;
    }
    for (int64_t row = 0; row < s.rows && !flxi_stopped(); row++)
        sort_row(&s, row, n->scratch, n->pool);
    return FLX_OK;
}
