/* SPDX-License-Identifier: Apache-2.0 */
/* card_along.c: take_along on the card: a thread has an element of the result, y[p, i, q] = x[p, idx[p, i, q], q]. */
#include "backend/card/card_keys.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

typedef struct {
    uint64_t all, inner, count; /* elements of the result; after the axis; along it */
    int64_t extent;             /* of x along the axis */
    int32_t index;
    uint32_t oob, size;
} along_table;

/* oob: 0 error, 1 zero, 2 clamp. */
static const char body[] =
    "KERNEL(256) NAMED(take)(GLOBAL const W *x, GLOBAL const I *idx, GLOBAL W *y, u64 all, u64 inner, u64 count, "
    "i64 extent, u32 oob, GLOBAL finding *t, u64 node)\n{\n"
    "    const u64 at = (u64)GROUP * 256u + OWN;\n    if (at >= all)\n        return;\n"
    "    const u64 outer = at / inner / count, q = at % inner;\n    i64 k = (i64)idx[at];\n    W none = NOTHING(W);\n"
    "    if (k < 0 || k >= extent) {\n        if (oob == 2 && extent > 0)\n            k = k < 0 ? 0 : extent - 1;\n"
    "        else {\n            if (oob != 1)\n                found(t, k, extent, 0, node);\n"
    "            y[at] = none;\n            return;\n        }\n    }\n"
    "    y[at] = x[(outer * extent + k) * inner + q];\n}\n";

static void write_along(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_card_add_index(variant, out);
    flxi_card_add_for_words(body, 5, out);
}

const flxi_card_text flxi_card_along_text = {write_along, FLXI_CARD_NUM_INDICES};

static const char *refuse(const flxi_device_node *n)
{
    int64_t count = 0;
    if (flxi_card_index_number(n->in_types[1]->dtype) < 0)
        return "for indices of signed and of short integers";
    if (!flx_dtype_size((flx_dtype)n->in_types[0]->dtype))
        return "for elements of whole bytes";
    bool is_static = flxi_static_count(n->in_types[0], &count) && flxi_static_count(n->out_types[0], &count);
    return is_static ? NULL : "for known extents";
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    const flxi_op *op = &flxi_ops[n->op];
    const flx_type *y = n->out_types[0];
    int axis = (int)flxi_attr_int(op, n->attrs, "axis");
    int64_t all = 0;
    flxi_static_count(y, &all);
    const along_table t = {.all = (uint64_t)all,
                           .inner = (uint64_t)flxi_static_extent(y, axis + 1, y->rank),
                           .count = (uint64_t)y->dims[axis],
                           .extent = n->in_types[0]->dims[axis],
                           .index = flxi_card_index_number(n->in_types[1]->dtype),
                           .oob = (uint32_t)flxi_attr_int(op, n->attrs, "oob"),
                           .size = (uint32_t)flx_dtype_size((flx_dtype)y->dtype)};
    memcpy(table, &t, sizeof t);
    return 0;
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    static const char *const names[] = {"take_1", "take_2", "take_4", "take_8", "take_16"};
    along_table t = *(const along_table *)s->way->table;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[0]), FLXI_ADDRESS(s->in[1]), FLXI_ADDRESS(s->out[0]),
                                            FLXI_VALUE(t.all),      FLXI_VALUE(t.inner),    FLXI_VALUE(t.count),
                                            FLXI_VALUE(t.extent),   FLXI_VALUE(t.oob),      FLXI_ADDRESS(on->finding),
                                            FLXI_VALUE(s->node)};
    return flxi_card_launch_line(on, &flxi_card_along_text, t.index, names[flxi_card_word(t.size)], t.all, arguments,
                                 FLXI_CARD_COUNT(arguments), err);
}

const flxi_card_way flxi_card_along = {
    .name = "words", .refuse = refuse, .table_bytes = sizeof(along_table), .prepare = prepare, .run = run};
