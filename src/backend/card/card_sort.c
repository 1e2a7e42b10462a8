/* SPDX-License-Identifier: Apache-2.0 */
/* card_sort.c: sort, argsort, topk and top_k of one key on the card. An element of at most 32 bits becomes the upper
   half of a number in whose order it sorts, and its position the lower half, so that no two are equal and ties keep
   their order. Blocks sort 1024 of these numbers in their memory; longer rows are merged in passes, where each number
   finds its place by a binary search in the run beside its own. Then elements are copied by position. */
#include "backend/card/card_keys.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

enum { MOST_OPERANDS = 8 };

typedef struct {
    flxi_split split;
    int64_t take;    /* results have the first of each row */
    uint64_t padded; /* numbers of a row as they are sorted: a power of two, at least FLXI_CARD_BLOCK_KEYS */
    int32_t variant;
    uint32_t flip;     /* the order is descending */
    uint32_t values;   /* the first results are operands in the new order, this many */
    int32_t positions; /* the result that holds positions, or -1 */
    uint32_t size[MOST_OPERANDS];
    uint32_t position_size;
} sort_table;

/* ---- Text ---- */

/* The key of an element x of unsigned type U: in its order, in 32 bits. NaN is last and zeros are equal. */
static const struct {
    int32_t dtype;
    const char *element, *key;
} keys[] = {
    {FLX_F32, "u32", "float_key(x, 0x80000000u, 0x7f800000u)"},
    {FLX_BF16, "u16", "float_key((u32)x << 16, 0x80000000u, 0x7f800000u)"},
    {FLX_F16, "u16", "float_key((u32)x << 16, 0x80000000u, 0x7c000000u)"},
    {FLX_I8, "i8", "(u32)x ^ 0x80000000u"},
    {FLX_I16, "i16", "(u32)x ^ 0x80000000u"},
    {FLX_I32, "i32", "(u32)x ^ 0x80000000u"},
    {FLX_U8, "u8", "(u32)x"},
    {FLX_BOOL, "u8", "(u32)x"},
    {FLX_U16, "u16", "(u32)x"},
    {FLX_U32, "u32", "x"},
};

enum { NUM_KEYS = sizeof keys / sizeof *keys };

static const char head[] = "FUNCTION u32 float_key(u32 x, u32 sign, u32 inf)\n"
                           "{ return (x & ~sign) > inf ? ~0u : (x & ~sign) == 0 ? sign : x & sign ? ~x : x | sign; }\n";

static const char blocks[] =
    "KERNEL(SORTERS) sort_rows(GLOBAL const T *x, GLOBAL u64 *keys, u64 n, u64 inner, u64 padded, u32 flip)\n{\n"
    "    SHARED u64 s[1024];\n"
    "    const u64 first = (u64)GROUP * 1024u, row = first / padded, begin = first - row * padded;\n"
    "    const u64 base = row / inner * n * inner + row % inner;\n"
    "    for (u32 j = OWN; j < 1024u; j += SORTERS)\n"
    "        s[j] = begin + j < n ? (u64)(key_of(x[base + (begin + j) * inner]) ^ flip) << 32 | (begin + j) : "
    "~(u64)0;\n"
    "    sort_block(s);\n"
    "    for (u32 j = OWN; j < 1024u; j += SORTERS)\n        keys[first + j] = s[j];\n}\n";

static const char moves[] =
    "KERNEL(256) NAMED(move)(GLOBAL const W *x, GLOBAL W *y, GLOBAL const u64 *keys, u64 n, u64 inner, u64 padded, "
    "u64 take, u64 all)\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN;\n    if (i >= all)\n        return;\n"
    "    const u64 row = i / take, k = i - row * take, outer = row / inner, column = row - outer * inner;\n"
    "    const u64 from = keys[row * padded + k] & 0xffffffffu, to = (outer * take + k) * inner + column;\n"
    "    y[to] = x ? x[(outer * n + from) * inner + column] : (W)from;\n}\n";

static void write_sort(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, head);
    flxi_addf(out, "typedef %s T;\nFUNCTION u32 key_of(T x) { return %s; }\n", keys[variant].element,
              keys[variant].key);
    flxi_add_text(out, flxi_card_block_sort);
    flxi_add_text(out, blocks);
    flxi_card_add_for_words(moves, 4, out);
}

const flxi_card_text flxi_card_sort_text = {write_sort, NUM_KEYS};

/* ---- Nodes ---- */

static bool is_top(const flxi_device_node *n)
{
    return n->op == OP_topk || n->op == OP_top_k;
}

static int64_t axis_of(const flxi_device_node *n)
{
    return n->op == OP_topk ? n->in_types[0]->rank - 1 : flxi_attr_int(&flxi_ops[n->op], n->attrs, "axis");
}

static int32_t key_of(int32_t dtype)
{
    for (int32_t i = 0; i < NUM_KEYS; i++)
        if (keys[i].dtype == dtype)
            return i;
    return -1;
}

static size_t scratch_of(const flxi_split *d)
{
    return (size_t)(d->outer * d->inner) * flxi_card_keys_bytes(flxi_card_padded_keys((uint64_t)d->n));
}

static const char *refuse(const flxi_device_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    if (n->op == OP_sort && flxi_attr_graph(op, n->attrs, "compare"))
        return "the order is given by a graph";
    if (n->op == OP_sort && flxi_attr_int(op, n->attrs, "num_keys") != 1)
        return "more than one key";
    if (key_of(n->in_types[0]->dtype) < 0)
        return "for keys of at most 32 bits";
    flxi_split d = flxi_split_at(n->in_types[0], axis_of(n));
    if (d.n > INT32_MAX || d.outer * d.inner > INT32_MAX / FLXI_CARD_BLOCK_KEYS || scratch_of(&d) > (size_t)8 << 30)
        return "for fewer elements";
    for (uint32_t i = 0; i < n->nin; i++)
        if (n->nin > MOST_OPERANDS || flx_dtype_size(n->in_types[i]->dtype) > 8)
            return "for few operands of at most 64 bits";
    return NULL;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    const flxi_op *op = &flxi_ops[n->op];
    int64_t axis = axis_of(n);
    sort_table t = {.split = flxi_split_at(n->in_types[0], axis),
                    .take = n->out_types[0]->dims[axis],
                    .variant = key_of(n->in_types[0]->dtype),
                    .values = n->op == OP_sort    ? n->nin
                              : n->op == OP_top_k ? 1
                                                  : 0,
                    .positions = n->op == OP_sort    ? -1
                                 : n->op == OP_top_k ? 1
                                                     : 0};
    t.flip = is_top(n) || flxi_attr_int(op, n->attrs, "descending") ? ~0u : 0;
    t.padded = flxi_card_padded_keys((uint64_t)t.split.n);
    for (uint32_t i = 0; i < t.values; i++)
        t.size[i] = (uint32_t)flx_dtype_size(n->in_types[i]->dtype);
    if (t.positions >= 0)
        t.position_size = (uint32_t)flx_dtype_size(n->out_types[t.positions]->dtype);
    memcpy(table, &t, sizeof t);
    return scratch_of(&t.split);
}

/* ---- Running ---- */

typedef struct {
    const flxi_launcher *on;
    sort_table t;
    uint64_t rows;
    flx_error *err;
} sorting;

/* The sorted numbers, in one half of the scratch or the other. */
static flx_code sort_rows(sorting *s, const void *x, void *scratch, void **sorted)
{
    sort_table *t = &s->t;
    uint64_t all = s->rows * t->padded;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(x),        FLXI_ADDRESS(scratch),
                                            FLXI_VALUE(t->split.n), FLXI_VALUE(t->split.inner),
                                            FLXI_VALUE(t->padded),  FLXI_VALUE(t->flip)};
    const flxi_card_launch l = {&flxi_card_sort_text,
                                t->variant,
                                "sort_rows",
                                all / FLXI_CARD_BLOCK_KEYS,
                                flxi_card_sorters(s->on->language),
                                1,
                                arguments,
                                FLXI_CARD_COUNT(arguments)};
    FLXI_TRY(s->on->launch(s->on, &l, s->err));
    return flxi_card_merge_keys(s->on, scratch, all, t->padded, sorted, s->err);
}

/* Elements of an operand in the new order, or positions where x is NULL. */
static flx_code move(sorting *s, const void *x, void *y, uint32_t size, void *sorted)
{
    static const char *const names[] = {"move_1", "move_2", "move_4", "move_8"};
    sort_table *t = &s->t;
    uint64_t all = s->rows * (uint64_t)t->take;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(x),
                                            FLXI_ADDRESS(y),
                                            FLXI_ADDRESS(sorted),
                                            FLXI_VALUE(t->split.n),
                                            FLXI_VALUE(t->split.inner),
                                            FLXI_VALUE(t->padded),
                                            FLXI_VALUE(t->take),
                                            FLXI_VALUE(all)};
    return flxi_card_launch_line(s->on, &flxi_card_sort_text, t->variant, names[flxi_card_word(size)], all, arguments,
                                 FLXI_CARD_COUNT(arguments), s->err);
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *step, flx_error *err)
{
    sorting s = {.on = on, .t = *(const sort_table *)step->way->table, .err = err};
    void *sorted = NULL;
    s.rows = (uint64_t)s.t.split.outer * (uint64_t)s.t.split.inner;
    if (s.rows == 0 || s.t.take == 0)
        return FLX_OK;
    FLXI_TRY(sort_rows(&s, step->in[0], step->scratch, &sorted));
    for (uint32_t i = 0; i < s.t.values; i++)
        FLXI_TRY(move(&s, step->in[i], step->out[i], s.t.size[i], sorted));
    return s.t.positions < 0 ? FLX_OK : move(&s, NULL, step->out[s.t.positions], s.t.position_size, sorted);
}

const flxi_card_way flxi_card_sorting = {
    .name = "sorted", .refuse = refuse, .table_bytes = sizeof(sort_table), .prepare = prepare, .run = run};
