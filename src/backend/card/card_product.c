/* SPDX-License-Identifier: Apache-2.0 */
/* card_product.c: see card_product.h. The tiled kernel takes every layout and most dtypes; it is for what no library of
   the device takes. */
#include "backend/card/card_product.h"

#include "backend/card/card_numbers.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "ops/rule/axis/axis_lists.h"

/* ---- Layouts ---- */

static void push(flxi_card_walk *w, int64_t extent, int64_t stride)
{
    if (extent == 1)
        return;
    if (w->rank && w->stride[w->rank - 1] == stride * extent) { /* one axis with the one before */
        w->extent[w->rank - 1] *= (uint32_t)extent;
        w->stride[w->rank - 1] = stride;
        return;
    }
    w->extent[w->rank] = (uint32_t)extent;
    w->stride[w->rank++] = stride;
}

/* Batch axes of matmul are aligned at the end; those of extent 1 are repeated. */
static void matmul_batch(const flx_type *t, const flx_type *y, flxi_card_walk *w)
{
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (int k = 0; k < y->rank - 2; k++) {
        int own = k - (y->rank - t->rank);
        bool is_repeated = own < 0 || t->dims[own] == 1;
        push(w, y->dims[k], is_repeated ? 0 : strides[own]);
    }
}

static void matmul_layout(const flxi_device_node *n, flxi_card_product *p)
{
    const flx_type *a = n->in_types[0], *b = n->in_types[1], *y = n->out_types[0];
    matmul_batch(a, y, &p->a_batch);
    matmul_batch(b, y, &p->b_batch);
    push(&p->a_line, y->dims[y->rank - 2], a->dims[a->rank - 1]);
    push(&p->a_depth, a->dims[a->rank - 1], 1);
    push(&p->b_line, y->dims[y->rank - 1], 1);
    push(&p->b_depth, a->dims[a->rank - 1], y->dims[y->rank - 1]);
}

static void dot_side(const flx_type *t, const flx_ints *contracted, const flx_ints *batch, flxi_card_walk *of_batch,
                     flxi_card_walk *line, flxi_card_walk *depth)
{
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (size_t i = 0; i < batch->n; i++)
        push(of_batch, t->dims[batch->v[i]], strides[batch->v[i]]);
    for (size_t i = 0; i < contracted->n; i++)
        push(depth, t->dims[contracted->v[i]], strides[contracted->v[i]]);
    for (int k = 0; k < t->rank; k++)
        if (!flxi_has_axis(*contracted, k) && !flxi_has_axis(*batch, k))
            push(line, t->dims[k], strides[k]);
}

static void dot_layout(const flxi_device_node *n, flxi_card_product *p)
{
    const flxi_op *op = &flxi_ops[n->op];
    dot_side(n->in_types[0], flxi_attr_ints(op, n->attrs, "lc"), flxi_attr_ints(op, n->attrs, "lb"), &p->a_batch,
             &p->a_line, &p->a_depth);
    dot_side(n->in_types[1], flxi_attr_ints(op, n->attrs, "rc"), flxi_attr_ints(op, n->attrs, "rb"), &p->b_batch,
             &p->b_line, &p->b_depth);
}

static uint32_t count_of(const flxi_card_walk *w)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < w->rank; i++)
        n *= w->extent[i];
    return n;
}

/* Products of a batch that share b are one product of all their rows, where those are equally far apart. */
static void join_rows(flxi_card_product *p)
{
    bool is_shared = p->b_batch.rank == 0 || (p->b_batch.rank == 1 && p->b_batch.stride[0] == 0);
    if (!is_shared || p->batches < 2 || p->a_batch.rank != 1 || p->a_batch.stride[0] == 0 || p->a_line.rank > 1)
        return;
    if (p->m > 1 && (p->a_line.rank != 1 || p->a_batch.stride[0] != p->m * p->a_line.stride[0]))
        return;
    int64_t stride = p->m > 1 ? p->a_line.stride[0] : p->a_batch.stride[0];
    p->m *= p->batches;
    p->batches = 1;
    p->a_line.rank = 1; /* one by one: padding stays zero */
    p->a_line.extent[0] = p->m;
    p->a_line.stride[0] = stride;
    p->a_batch.rank = p->a_batch.extent[0] = p->b_batch.rank = p->b_batch.extent[0] = 0;
    p->a_batch.stride[0] = p->b_batch.stride[0] = 0;
}

/* ---- Nodes ---- */

static bool has_kernel(int32_t dtype)
{
    return flxi_in(FLXI_FLOATS | FLXI_INTS | FLXI_COMPLEX, dtype);
}

const char *flxi_card_refuse_product(const flxi_device_node *n)
{
    int64_t count = 0;
    int32_t dtype = n->out_types[0]->dtype;
    if (n->op != OP_matmul && n->op != OP_dot_general)
        return "no product";
    if (n->in_types[0]->dtype != dtype || n->in_types[1]->dtype != dtype || !has_kernel(dtype))
        return "for one dtype of numbers";
    for (int i = 0; i < 3; i++)
        if (!flxi_static_count(i < 2 ? n->in_types[i] : n->out_types[0], &count) || count > INT32_MAX)
            return "for fewer than 2^31 elements";
    return NULL;
}

flxi_card_product_plan flxi_card_plan_product(const flxi_device_node *n)
{
    flxi_card_product_plan plan;
    flxi_card_product *p = &plan.product;
    memset(&plan, 0, sizeof plan); /* plans are compared by their bytes */
    if (n->op == OP_matmul)
        matmul_layout(n, p);
    else
        dot_layout(n, p);
    p->m = count_of(&p->a_line);
    p->n = count_of(&p->b_line);
    p->k = count_of(&p->a_depth);
    int64_t count = 0;
    flxi_static_count(n->out_types[0], &count);
    p->batches = p->m && p->n ? (uint32_t)(count / p->m / p->n) : 0;
    join_rows(p);
    plan.dtype = n->out_types[0]->dtype;
    return plan;
}

/* ---- The kernel ---- */

/* product: a block of 32 x 8 threads has a tile of 32 x 32 results; each thread has four of them, in one column.
   thin: a block has 32 neighbouring results of one row, and each of its warps an equal part of their depth: a wait for
   memory is as long as a few rows, so there are more warps where there are few blocks.
   thin_4: likewise of four rows: what is read of b serves all four. */
static const char tiles[] =
    "typedef struct {\n    u32 rank, extent[16];\n    i64 stride[16];\n} walk;\n"
    "typedef struct {\n    u32 m, n, k, batches;\n"
    "    walk a_batch, a_line, a_depth, b_batch, b_line, b_depth;\n} product_layout;\n"
    "FUNCTION i64 at(GLOBAL const walk *w, u32 i)\n{\n    i64 offset = 0;\n"
    "    for (u32 d = w->rank; d-- > 0;) {\n        const u32 q = i / w->extent[d];\n"
    "        offset += (i64)(i - q * w->extent[d]) * w->stride[d];\n        i = q;\n    }\n"
    "    return offset;\n}\n"
    "TILE_KERNEL product(GLOBAL const T *RESTRICT a, GLOBAL const T *RESTRICT b, GLOBAL T *RESTRICT c, "
    "FORM(product_layout))\n{\n"
    "    SHARED A as[32][33], bs[32][33];\n"
    "    const u32 wide = (form.n + 31) / 32, high = (form.m + 31) / 32, tx = OWN, ty = LINE;\n"
    "    const u32 tile = GROUP, col = tile % wide * 32 + tx, top = tile / wide % high * 32;\n"
    "    const u32 batch = tile / wide / high;\n"
    "    a += at(&form.a_batch, batch);\n    b += at(&form.b_batch, batch);\n"
    "    c += (i64)batch * form.m * form.n;\n"
    "    A sum[4] = {ZERO, ZERO, ZERO, ZERO};\n"
    "    for (u32 k = 0; k < form.k; k += 32) {\n"
    "        for (u32 r = ty; r < 32; r += 8) {\n"
    "            const u32 row = top + r, depth = k + tx;\n"
    "            as[r][tx] = row < form.m && depth < form.k ? LOAD(a[at(&form.a_line, row) + at(&form.a_depth, "
    "depth)]) : ZERO;\n"
    "            bs[r][tx] = col < form.n && k + r < form.k ? LOAD(b[at(&form.b_line, col) + at(&form.b_depth, k + "
    "r)]) : ZERO;\n"
    "        }\n        MEET;\n"
    "        const u32 end = form.k - k < 32 ? form.k - k : 32;\n"
    "        for (u32 j = 0; j < end; j++)\n"
    "            for (int i = 0; i < 4; i++)\n"
    "                sum[i] = STEP(sum[i], as[ty + 8 * i][j], bs[j][tx]);\n"
    "        MEET;\n    }\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        if (top + ty + 8 * i < form.m && col < form.n)\n"
    "            c[(i64)(top + ty + 8 * i) * form.n + col] = SAVE(sum[i]);\n}\n";

static const char few_rows[] =
    "WIDE_KERNEL thin(GLOBAL const T *RESTRICT a, GLOBAL const T *RESTRICT b, GLOBAL T *RESTRICT c, "
    "FORM(product_layout))\n{\n"
    "    SHARED A part[32][32];\n"
    "    const u32 wide = (form.n + 31) / 32, tx = OWN, ty = LINE, row = GROUP / wide % form.m;\n"
    "    const u32 col = GROUP % wide * 32 + tx, batch = GROUP / wide / form.m;\n"
    "    const u32 own = (form.k + LINES - 1) / LINES;\n"
    "    const u32 begin = ty * own, end = begin + own < form.k ? begin + own : form.k;\n"
    "    const i64 step_a = form.a_depth.stride[0], step_b = form.b_depth.stride[0];\n"
    "    a += at(&form.a_batch, batch) + at(&form.a_line, row) + begin * step_a;\n"
    "    b += at(&form.b_batch, batch) + at(&form.b_line, col < form.n ? col : 0) + begin * step_b;\n"
    "    A sum = ZERO;\n"
    "    UNROLL_8\n"
    "    for (u32 k = begin; k < end; k++) {\n"
    "        sum = STEP(sum, LOAD(*a), LOAD(*b));\n        a += step_a;\n        b += step_b;\n    }\n"
    "    part[ty][tx] = sum;\n    MEET;\n"
    "    if (ty != 0 || col >= form.n)\n        return;\n"
    "    for (u32 i = 1; i < LINES; i++)\n        sum = ADD(sum, part[i][tx]);\n"
    "    c[((i64)batch * form.m + row) * form.n + col] = SAVE(sum);\n}\n"
    "WIDE_KERNEL thin_4(GLOBAL const T *RESTRICT a, GLOBAL const T *RESTRICT b, GLOBAL T *RESTRICT c, "
    "FORM(product_layout))\n{\n"
    "    SHARED A part[4][16][32];\n"
    "    const u32 wide = (form.n + 31) / 32, high = (form.m + 3) / 4, tx = OWN, ty = LINE;\n"
    "    const u32 top = GROUP / wide % high * 4, col = GROUP % wide * 32 + tx, batch = GROUP / wide / high;\n"
    "    const u32 own = (form.k + LINES - 1) / LINES, begin = ty * own;\n"
    "    const u32 depth = begin >= form.k ? 0 : form.k - begin < own ? form.k - begin : own;\n"
    "    const i64 step_a = form.a_depth.stride[0], step_b = form.b_depth.stride[0];\n"
    "    A sum[4] = {ZERO, ZERO, ZERO, ZERO};\n"
    "    i64 rows[4];\n"
    "    a += at(&form.a_batch, batch) + begin * step_a;\n"
    "    b += at(&form.b_batch, batch) + at(&form.b_line, col < form.n ? col : 0) + begin * step_b;\n"
    "    for (u32 r = 0; r < 4; r++)\n"
    "        rows[r] = at(&form.a_line, top + r < form.m ? top + r : form.m - 1);\n"
    "    UNROLL_8\n"
    "    for (u32 k = 0; k < depth; k++) {\n        const A y = LOAD(b[k * step_b]);\n"
    "        for (int r = 0; r < 4; r++)\n            sum[r] = STEP(sum[r], LOAD(a[rows[r] + k * step_a]), y);\n"
    "    }\n"
    "    for (int r = 0; r < 4; r++)\n        part[r][ty][tx] = sum[r];\n    MEET;\n"
    "    if (ty >= 4 || top + ty >= form.m || col >= form.n)\n        return;\n    A whole = part[ty][0][tx];\n"
    "    for (u32 i = 1; i < LINES; i++)\n        whole = ADD(whole, part[ty][i][tx]);\n"
    "    c[((i64)batch * form.m + top + ty) * form.n + col] = SAVE(whole);\n}\n";

static void write_product(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, flxi_card_number_text(flxi_card_number_at(variant)));
    flxi_add_text(out, tiles);
    flxi_add_text(out, few_rows);
}

const flxi_card_text flxi_card_product_text = {write_product, FLXI_CARD_NUM_NUMBERS};

/* ---- Running ---- */

bool flxi_card_is_thin(const flxi_card_product_plan *plan)
{
    const flxi_card_product *p = &plan->product;
    bool is_real = flxi_in(FLXI_FLOATS, plan->dtype);
    bool is_near = p->b_line.rank == 1 && p->b_line.stride[0] == 1;
    return is_real && is_near && p->a_depth.rank == 1 && p->b_depth.rank == 1 && p->k >= 192 && p->m >= 8 &&
           p->n <= 16 && (uint64_t)p->m * p->batches <= 4096;
}

/* A kernel for the product, and its launch. A thread waits for its loads one after the other, so that few blocks want
   many threads. */
typedef struct {
    const char *name;
    uint64_t blocks;
    uint32_t lines;
} way;

static way way_of(const flxi_launcher *on, const flxi_card_product_plan *plan)
{
    enum { FEW_BLOCKS = 264, MANY_ROWS = 512 }; /* two for each multiprocessor */
    const flxi_card_product *p = &plan->product;
    uint64_t wide = (uint64_t)((p->n + 31) / 32) * p->batches;
    if (!flxi_card_is_thin(plan))
        return (way){"product", (p->m + 31) / 32 * wide, 8};
    way w = {.name = "thin", .blocks = p->m * wide, .lines = on->most_threads >= 1024 ? 32 : 8};
    if (p->m >= MANY_ROWS && on->most_threads >= 512)
        w = (way){.name = "thin_4", .blocks = (p->m + 3) / 4 * wide, .lines = 16};
    if (w.blocks > FEW_BLOCKS)
        w.lines = 8;
    return w;
}

flx_code flxi_card_run_product(const flxi_launcher *on, const flxi_card_product_plan *plan, const void *const in[2],
                               void *out, flx_error *err)
{
    const flxi_card_product *p = &plan->product;
    if (p->k == 0)
        return on->clear(on, out, (size_t)p->m * p->n * p->batches * flx_dtype_size((flx_dtype)plan->dtype), err);
    const way w = way_of(on, plan);
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(in[0]), FLXI_ADDRESS(in[1]), FLXI_ADDRESS(out), FLXI_FORM(*p)};
    const flxi_card_launch l = {.text = &flxi_card_product_text,
                                .variant = flxi_card_number_of(plan->dtype),
                                .name = w.name,
                                .blocks = w.blocks,
                                .wide = 32,
                                .high = w.lines,
                                .arguments = arguments,
                                .num_arguments = FLXI_CARD_COUNT(arguments)};
    return on->launch(on, &l, err);
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    flxi_card_product_plan p = flxi_card_plan_product(n);
    memcpy(table, &p, sizeof p);
    return 0;
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    return flxi_card_run_product(on, s->way->table, s->in, s->out[0], err);
}

const flxi_card_way flxi_card_products = {.name = "product",
                                          .refuse = flxi_card_refuse_product,
                                          .table_bytes = sizeof(flxi_card_product_plan),
                                          .prepare = prepare,
                                          .run = run};

_Static_assert(sizeof(flxi_card_product_plan) <= FLXI_CARD_MOST_TABLE, "the largest table");
