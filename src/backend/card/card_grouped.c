/* SPDX-License-Identifier: Apache-2.0 */
/* card_grouped.c: grouped_matmul and its transposes on the card. Rows are sorted by the matrix that they meet, together
   with their positions. Towards rows a block has 32 of them in that order, and 32 columns: it multiplies them by one
   matrix after the other of those that they meet. Towards the weights a block has a tile of one matrix and adds the
   rows that meet it. Orders are fixed, so that the bits are the same every time. */
#include "backend/card/card_keys.h"
#include "backend/card/card_numbers.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

/* The kernels know this layout. A matrix is [depth, columns] as rows meet it: element (k, j) is at k w_depth +
   j w_column. */
typedef struct {
    uint64_t rows, groups, depth, columns, padded;
    uint64_t w_depth, w_column;
} grouped_form;

typedef struct {
    grouped_form form;
    int32_t index, number;
    uint32_t oob;
    bool to_weight;
} grouped_table;

/* ---- Texts ---- */

static const char form_text[] =
    "typedef struct {\n    u64 rows, groups, depth, columns, padded, w_depth, w_column;\n} grouped;\n";

/* Rows that meet no matrix come after all others. */
static const char keys_text[] =
    "KERNEL(256) group_keys(GLOBAL const I *idx, GLOBAL u64 *keys, FORM(grouped), u32 oob, GLOBAL finding *t, "
    "u64 node)\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN;\n    if (i >= form.padded)\n        return;\n"
    "    if (i >= form.rows) {\n        keys[i] = ~(u64)0;\n        return;\n    }\n"
    "    const i64 n = (i64)form.groups, e = resolve(idx[i], n, oob, t, node);\n"
    "    keys[i] = (u64)(e < 0 ? n : e) << 32 | i;\n}\n";

/* Blocks of 32 x 8 threads; each thread has four elements of a tile, in one column. */
static const char body[] =
    "TILE_KERNEL grouped_rows(GLOBAL const T *RESTRICT x, GLOBAL const T *RESTRICT w, "
    "GLOBAL const u64 *RESTRICT keys, GLOBAL T *RESTRICT y, FORM(grouped))\n{\n"
    "    SHARED A xs[32][33], ws[32][33];\n    SHARED u64 key[32];\n"
    "    const u32 tx = OWN, ty = LINE, wide = (u32)((form.columns + 31) / 32);\n"
    "    const u64 top = (u64)(GROUP / wide) * 32u, col = (u64)(GROUP % wide) * 32u + tx;\n"
    "    A sum[4] = {ZERO, ZERO, ZERO, ZERO};\n"
    "    if (ty == 0)\n        key[tx] = top + tx < form.rows ? keys[top + tx] : ~(u64)0;\n    MEET;\n"
    "    for (u32 first = 0; first < 32u && key[first] >> 32 < form.groups;) {\n"
    "        const u64 g = key[first] >> 32;\n        u32 end = first + 1;\n"
    "        while (end < 32u && key[end] >> 32 == g)\n            end++;\n"
    "        GLOBAL const T *m = w + g * form.depth * form.columns;\n"
    "        for (u64 k = 0; k < form.depth; k += 32) {\n"
    "            for (u32 r = ty; r < 32u; r += 8u) {\n"
    "                const u64 row = key[r] & 0xffffffffu;\n"
    "                xs[r][tx] = r >= first && r < end && k + tx < form.depth ? LOAD(x[row * form.depth + k + tx]) : "
    "ZERO;\n"
    "                ws[r][tx] = col < form.columns && k + r < form.depth ? "
    "LOAD(m[(k + r) * form.w_depth + col * form.w_column]) : ZERO;\n"
    "            }\n            MEET;\n"
    "            const u32 n = form.depth - k < 32 ? (u32)(form.depth - k) : 32u;\n"
    "            for (int i = 0; i < 4; i++)\n                if (ty + 8 * i >= first && ty + 8 * i < end)\n"
    "                    for (u32 j = 0; j < n; j++)\n"
    "                        sum[i] = STEP(sum[i], xs[ty + 8 * i][j], ws[j][tx]);\n"
    "            MEET;\n        }\n        first = end;\n    }\n"
    "    for (int i = 0; i < 4; i++)\n        if (key[ty + 8 * i] != ~(u64)0 && col < form.columns)\n"
    "            y[(key[ty + 8 * i] & 0xffffffffu) * form.columns + col] = SAVE(sum[i]);\n}\n"
    "TILE_KERNEL grouped_weight(GLOBAL const T *RESTRICT x, GLOBAL const T *RESTRICT dy, "
    "GLOBAL const u64 *RESTRICT keys, GLOBAL T *RESTRICT y, FORM(grouped))\n{\n"
    "    SHARED A xs[32][33], ds[32][33];\n"
    "    const u32 tx = OWN, ty = LINE, wide = (u32)((form.columns + 31) / 32);\n"
    "    const u32 high = (u32)((form.depth + 31) / 32);\n"
    "    const u64 col = (u64)(GROUP % wide) * 32u + tx, top = (u64)(GROUP / wide % high) * 32u;\n"
    "    const u64 g = GROUP / wide / high, begin = first_of(keys, form.rows, g << 32);\n"
    "    const u64 end = first_of(keys, form.rows, (g + 1) << 32);\n    A sum[4] = {ZERO, ZERO, ZERO, ZERO};\n"
    "    for (u64 at = begin; at < end; at += 32) {\n"
    "        for (u32 r = ty; r < 32u; r += 8u) {\n"
    "            const u64 row = at + r < end ? keys[at + r] & 0xffffffffu : 0;\n"
    "            xs[r][tx] = at + r < end && top + tx < form.depth ? LOAD(x[row * form.depth + top + tx]) : ZERO;\n"
    "            ds[r][tx] = at + r < end && col < form.columns ? LOAD(dy[row * form.columns + col]) : ZERO;\n"
    "        }\n        MEET;\n"
    "        const u32 n = end - at < 32 ? (u32)(end - at) : 32u;\n"
    "        for (u32 j = 0; j < n; j++)\n            for (int i = 0; i < 4; i++)\n"
    "                sum[i] = STEP(sum[i], xs[j][ty + 8 * i], ds[j][tx]);\n"
    "        MEET;\n    }\n"
    "    for (int i = 0; i < 4; i++)\n        if (top + ty + 8 * i < form.depth && col < form.columns)\n"
    "            y[(g * form.depth + top + ty + 8 * i) * form.columns + col] = SAVE(sum[i]);\n}\n";

static void write_group_keys(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_card_add_index(variant, out);
    flxi_add_text(out, flxi_card_resolve);
    flxi_add_text(out, form_text);
    flxi_add_text(out, keys_text);
}

static void write_grouped(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, flxi_card_number_text(flxi_card_number_at(variant)));
    flxi_add_text(out, form_text);
    flxi_add_text(out, flxi_card_key_search);
    flxi_add_text(out, body);
}

const flxi_card_text flxi_card_group_keys_text = {write_group_keys, FLXI_CARD_NUM_INDICES};
const flxi_card_text flxi_card_grouped_text = {write_grouped, FLXI_CARD_NUM_NUMBERS};

/* ---- Nodes ---- */

static const char *refuse(const flxi_device_node *n)
{
    int64_t count = 0;
    if (flxi_card_index_number(n->in_types[2]->dtype) < 0)
        return "for indices of signed and of short integers";
    if (flxi_card_number_of(n->out_types[0]->dtype) < 0)
        return "for numbers";
    for (uint32_t i = 0; i < 4; i++)
        if (!flxi_static_count(i < 3 ? n->in_types[i] : n->out_types[0], &count) || count > INT32_MAX)
            return "for fewer than 2^31 elements";
    return NULL;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    grouped_table t;
    memset(&t, 0, sizeof t);
    t.to_weight = n->op == OP_grouped_matmul_weight_backward;
    bool to_input = n->op == OP_grouped_matmul_input_backward;
    const flx_dim *w = t.to_weight ? n->out_types[0]->dims : n->in_types[1]->dims;
    t.form.rows = (uint64_t)n->in_types[0]->dims[0];
    t.form.groups = (uint64_t)w[0];
    t.form.depth = (uint64_t)(to_input ? w[2] : w[1]);
    t.form.columns = (uint64_t)(to_input ? w[1] : w[2]);
    t.form.padded = flxi_card_padded_keys(t.form.rows);
    t.form.w_depth = to_input ? 1 : (uint64_t)w[2];
    t.form.w_column = to_input ? (uint64_t)w[2] : 1;
    t.index = flxi_card_index_number(n->in_types[2]->dtype);
    t.number = flxi_card_number_of(n->out_types[0]->dtype);
    t.oob = (uint32_t)flxi_attr_int(&flxi_ops[n->op], n->attrs, "oob");
    memcpy(table, &t, sizeof t);
    return flxi_card_keys_bytes(t.form.padded);
}

/* ---- Running ---- */

static uint64_t parts_of_32(uint64_t n)
{
    return (n + 31) / 32;
}

static flx_code multiply(const flxi_launcher *on, const flxi_node_step *s, void *keys, flx_error *err)
{
    const grouped_table *t = s->way->table;
    const grouped_form *f = &t->form;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[0]), FLXI_ADDRESS(s->in[1]), FLXI_ADDRESS(keys),
                                            FLXI_ADDRESS(s->out[0]), FLXI_FORM(*f)};
    const flxi_card_launch l = {.text = &flxi_card_grouped_text,
                                .variant = t->number,
                                .name = t->to_weight ? "grouped_weight" : "grouped_rows",
                                .blocks = parts_of_32(f->columns) *
                                          (t->to_weight ? parts_of_32(f->depth) * f->groups : parts_of_32(f->rows)),
                                .wide = 32,
                                .high = 8,
                                .arguments = arguments,
                                .num_arguments = FLXI_CARD_COUNT(arguments)};
    return on->launch(on, &l, err);
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const grouped_table *t = s->way->table;
    void *keys = s->scratch;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[2]), FLXI_ADDRESS(keys),        FLXI_FORM(t->form),
                                            FLXI_VALUE(t->oob),     FLXI_ADDRESS(on->finding), FLXI_VALUE(s->node)};
    FLXI_TRY(flxi_card_launch_line(on, &flxi_card_group_keys_text, t->index, "group_keys", t->form.padded, arguments,
                                   FLXI_CARD_COUNT(arguments), err));
    FLXI_TRY(flxi_card_sort_keys(on, s->scratch, t->form.padded, &keys, err));
    return multiply(on, s, keys, err);
}

const flxi_card_way flxi_card_grouped = {
    .name = "sorted", .refuse = refuse, .table_bytes = sizeof(grouped_table), .prepare = prepare, .run = run};
