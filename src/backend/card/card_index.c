/* SPDX-License-Identifier: Apache-2.0 */
/* card_index.c: gather and scatter_add on a card. gather moves words. scatter_add sorts the indices together with
   their positions, and then 32 threads for each row of the result add the row's updates in the order of their positions
   and write the row, zeros or not: no atomics, the same bits every time. Blocks of keys are sorted in shared memory,
   then merged in passes, where each key finds its place by a binary search in the run beside its own. */
#include "backend/card/card_keys.h"
#include "backend/card/card_numbers.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

/* The table of a node. */
typedef struct {
    int64_t outer, extent, inner; /* of the table, or of the result of scatter_add: [outer, extent, inner] elements */
    int64_t count;                /* indices */
    int32_t index, number;
    uint32_t size;   /* bytes of an element */
    uint32_t oob;    /* a flxi_oob */
    uint32_t padded; /* indices as they are sorted: a power of two (card_keys.h); 0: gather */
} index_table;

/* ---- Texts ---- */

static const char index_body[] =
    "KERNEL(SORTERS) sort_keys(GLOBAL const I *idx, GLOBAL u64 *keys, i64 count, i64 extent, u32 oob, "
    "GLOBAL finding *t, u64 node)\n{\n"
    "    SHARED u64 s[1024];\n"
    "    for (u32 j = OWN; j < 1024u; j += SORTERS) {\n"
    "        const i64 i = (i64)GROUP * 1024 + j;\n"
    "        const i64 k = i < count ? resolve(idx[i], extent, oob, t, node) : -1;\n"
    "        s[j] = k < 0 ? ~(u64)0 : (u64)k << 32 | (u64)i;\n    }\n"
    "    sort_block(s);\n"
    "    for (u32 j = OWN; j < 1024u; j += SORTERS)\n"
    "        keys[(u64)GROUP * 1024u + j] = s[j];\n}\n";

static const char gather_body[] =
    "KERNEL(256) NAMED(gather)(GLOBAL const W *x, GLOBAL const I *idx, GLOBAL W *y, u64 words, i64 extent, i64 count, "
    "u64 all, u32 oob, GLOBAL finding *t, u64 node)\n{\n"
    "    const u64 at = (u64)GROUP * 256u + OWN;\n    if (at >= all)\n        return;\n"
    "    const u64 row = at / words, place = at - row * words;\n"
    "    const i64 o = (i64)(row / count), i = (i64)(row - (u64)o * count);\n"
    "    const i64 k = resolve(idx[i], extent, oob, t, node);\n"
    "    W none = NOTHING(W);\n    y[at] = k < 0 ? none : x[(u64)(o * extent + k) * words + place];\n}\n";

/* The first update of a row, and the end of its updates. The lanes of a warp look for them together, 32 keys at a time,
   so that few loads wait for each other. */
static const char by_warps[] =
    "FUNCTION u64 begin_of(const u64 *keys, u64 n, u64 key, u32 lane)\n{\n    u64 low = 0;\n"
    "    while (n > 0) {\n        const u64 step = (n + 31) / 32, at = lane * step;\n"
    "        const u32 before = __popc(__ballot_sync(~0u, at < n && keys[low + at] < key));\n"
    "        if (before == 0)\n            break;\n"
    "        const u64 passed = (before - 1) * step + 1, left = n - passed;\n"
    "        low += passed;\n        n = left < step - 1 ? left : step - 1;\n    }\n    return low;\n}\n"
    "FUNCTION u64 end_of(const u64 *keys, u64 n, u64 first, u64 row, u32 lane)\n{\n"
    "    for (;; first += 32) {\n"
    "        const u32 own = __ballot_sync(~0u, first + lane < n && keys[first + lane] >> 32 == row);\n"
    "        if (own != ~0u)\n            return first + __popc(own);\n    }\n}\n";

static const char by_threads[] =
    "FUNCTION u64 begin_of(GLOBAL const u64 *keys, u64 n, u64 key, u32 lane)\n{ return first_of(keys, n, key); }\n"
    "FUNCTION u64 end_of(GLOBAL const u64 *keys, u64 n, u64 first, u64 row, u32 lane)\n"
    "{ return row == 0xffffffffu ? n : first_of(keys, n, (row + 1) << 32); }\n";

/* Elements are loaded V at a time. */
static const char sum_body[] =
    "typedef struct {\n    T e[V];\n} ALIGNED(V * sizeof(T)) NAMED(pack);\n"
    "FUNCTION void NAMED(add)(GLOBAL const T *RESTRICT x, GLOBAL const u64 *RESTRICT keys, GLOBAL T *RESTRICT y, "
    "u64 n, u64 rows, u64 inner)\n{\n"
    "    const u64 row = (u64)GROUP * 8u + OWN / 32u, packs = inner / V;\n"
    "    const u32 lane = OWN % 32u;\n    if (row >= rows)\n        return;\n"
    "    const u64 low = begin_of(keys, n, row << 32, lane), end = end_of(keys, n, low, row, lane);\n"
    "    for (u64 q = lane; q < packs; q += 32u) {\n        A sum[V];\n        NAMED(pack) p;\n"
    "        for (int v = 0; v < V; v++)\n            sum[v] = ZERO;\n"
    "        for (u64 i = low; i < end; i++) {\n"
    "            p = ((GLOBAL const NAMED(pack) *)x)[(keys[i] & 0xffffffffu) * packs + q];\n"
    "            for (int v = 0; v < V; v++)\n                sum[v] = sum[v] + LOAD(p.e[v]);\n        }\n"
    "        for (int v = 0; v < V; v++)\n            p.e[v] = SAVE(sum[v]);\n"
    "        ((GLOBAL NAMED(pack) *)y)[row * packs + q] = p;\n    }\n}\n"
    "KERNEL(256) NAMED(sum)(GLOBAL const T *x, GLOBAL const u64 *keys, GLOBAL T *y, u64 n, u64 rows, u64 inner)\n"
    "{ NAMED(add)(x, keys, y, n, rows, inner); }\n";

static void write_index(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_card_add_index(variant, out);
    flxi_add_text(out, flxi_card_block_sort);
    flxi_add_text(out, flxi_card_resolve);
    flxi_add_text(out, index_body);
    flxi_card_add_for_words(gather_body, 5, out);
}

/* Complex numbers are summed as twice as many real ones. */
static void write_sum(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    int32_t dtype = flxi_card_number_at(variant);
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, flxi_card_number_text(dtype));
    if (language == FLXI_CARD_OPENCL)
        flxi_add_text(out, flxi_card_key_search);
    flxi_add_text(out, language == FLXI_CARD_CUDA ? by_warps : by_threads);
    flxi_add_text(out, "#define V 1\n#define NAMED(name) name##_rows\n");
    flxi_add_text(out, sum_body);
    flxi_addf(out, "#undef V\n#undef NAMED\n#define V %d\n#define NAMED(name) name##_packs\n",
              (int)(16 / flx_dtype_size((flx_dtype)dtype)));
    flxi_add_text(out, sum_body);
}

enum { NUM_REAL = FLXI_CARD_NUM_NUMBERS - 2 };

const flxi_card_text flxi_card_index_text = {write_index, FLXI_CARD_NUM_INDICES};
const flxi_card_text flxi_card_sum_text = {write_sum, NUM_REAL};

/* ---- Nodes ---- */

/* A complex number is two real ones. */
static int32_t part_of(int32_t dtype)
{
    return dtype == FLX_C64 ? FLX_F32 : dtype == FLX_C128 ? FLX_F64 : dtype;
}

static const char *refuse(const flxi_device_node *n)
{
    int64_t count = 0;
    if (flxi_card_index_number(n->in_types[1]->dtype) < 0)
        return "for indices of signed and of short integers";
    for (int i = 0; i < 3; i++)
        if (!flxi_static_count(i < 2 ? n->in_types[i] : n->out_types[0], &count) || count > INT32_MAX || count == 0)
            return "for fewer than 2^31 elements, and not for none";
    if (n->op == OP_scatter_add && flxi_card_number_of(n->out_types[0]->dtype) < 0)
        return "for numbers";
    return NULL;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    const flxi_op *op = &flxi_ops[n->op];
    const flx_type *t = n->op == OP_gather ? n->in_types[0] : n->out_types[0];
    int axis = n->op == OP_gather ? (int)flxi_attr_int(op, n->attrs, "axis") : 0;
    index_table p = {.outer = flxi_static_extent(t, 0, axis),
                     .extent = t->dims[axis],
                     .inner = flxi_static_extent(t, axis + 1, t->rank),
                     .index = flxi_card_index_number(n->in_types[1]->dtype),
                     .number = flxi_card_number_of(part_of(t->dtype)),
                     .size = (uint32_t)flx_dtype_size(part_of(t->dtype)),
                     .oob = (uint32_t)flxi_attr_int(op, n->attrs, "oob")};
    flxi_static_count(n->in_types[1], &p.count);
    p.inner *= part_of(t->dtype) == t->dtype ? 1 : 2;
    if (n->op == OP_scatter_add)
        p.padded = (uint32_t)flxi_card_padded_keys((uint64_t)p.count);
    memcpy(table, &p, sizeof p);
    return flxi_card_keys_bytes(p.padded);
}

/* ---- Running ---- */

/* In the widest words that rows and addresses permit. */
static flx_code run_gather(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    static const char *const names[] = {"gather_1", "gather_2", "gather_4", "gather_8", "gather_16"};
    const index_table *p = s->way->table;
    uint64_t bytes = (uint64_t)p->inner * p->size, words;
    uintptr_t all_bits = bytes | (uintptr_t)s->in[0] | (uintptr_t)s->out[0];
    int width = 4;
    while (all_bits & (((uintptr_t)1 << width) - 1))
        width--;
    words = bytes >> width;
    uint64_t all = (uint64_t)p->outer * (uint64_t)p->count * words;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[0]), FLXI_ADDRESS(s->in[1]), FLXI_ADDRESS(s->out[0]),
                                            FLXI_VALUE(words),      FLXI_VALUE(p->extent),  FLXI_VALUE(p->count),
                                            FLXI_VALUE(all),        FLXI_VALUE(p->oob),     FLXI_ADDRESS(on->finding),
                                            FLXI_VALUE(s->node)};
    return flxi_card_launch_line(on, &flxi_card_index_text, p->index, names[width], all, arguments,
                                 FLXI_CARD_COUNT(arguments), err);
}

/* The sorted keys, in one half of the scratch or the other. */
static flx_code sort_keys(const flxi_launcher *on, const flxi_node_step *s, void **sorted, flx_error *err)
{
    const index_table *p = s->way->table;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[1]), FLXI_ADDRESS(s->scratch), FLXI_VALUE(p->count),
                                            FLXI_VALUE(p->extent),  FLXI_VALUE(p->oob),       FLXI_ADDRESS(on->finding),
                                            FLXI_VALUE(s->node)};
    const flxi_card_launch l = {.text = &flxi_card_index_text,
                                .variant = p->index,
                                .name = "sort_keys",
                                .blocks = p->padded / FLXI_CARD_BLOCK_KEYS,
                                .wide = flxi_card_sorters(on->language),
                                .high = 1,
                                .arguments = arguments,
                                .num_arguments = FLXI_CARD_COUNT(arguments)};
    FLXI_TRY(on->launch(on, &l, err));
    return flxi_card_merge_keys(on, s->scratch, p->padded, p->padded, sorted, err);
}

static flx_code run_scatter(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const index_table *p = s->way->table;
    void *keys = NULL;
    uint64_t n = p->padded, rows = (uint64_t)p->extent;
    bool is_packed = ((uintptr_t)s->in[0] | (uintptr_t)s->out[0] | (uint64_t)p->inner * p->size) % 16 == 0;
    FLXI_TRY(sort_keys(on, s, &keys, err));
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[0]), FLXI_ADDRESS(keys), FLXI_ADDRESS(s->out[0]),
                                            FLXI_VALUE(n),          FLXI_VALUE(rows),   FLXI_VALUE(p->inner)};
    return flxi_card_launch_line(on, &flxi_card_sum_text, p->number, is_packed ? "sum_packs" : "sum_rows", 32 * rows,
                                 arguments, FLXI_CARD_COUNT(arguments), err);
}

const flxi_card_way flxi_card_words = {
    .name = "words", .refuse = refuse, .table_bytes = sizeof(index_table), .prepare = prepare, .run = run_gather};
const flxi_card_way flxi_card_sums = {
    .name = "sorted", .refuse = refuse, .table_bytes = sizeof(index_table), .prepare = prepare, .run = run_scatter};
