/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_grouped.c: grouped_matmul and its transposes on the card. Rows are sorted by the matrix that they meet, together
   with their positions. Towards rows a block has 32 of them in that order, and 32 columns: it multiplies them by one
   matrix after the other of those that they meet. Towards the weights a block has a tile of one matrix and adds the
   rows that meet it. Orders are fixed, so that the bits are the same every time. */
#include "backend/cuda/cuda_product.h"
#include "backend/cuda/node/cuda_keys.h"
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
    "struct grouped {\n    u64 rows, groups, depth, columns, padded, w_depth, w_column;\n};\n";

/* oob: 0 error, 1 zero, 2 clamp. Rows that meet no matrix come after all others. */
static const char keys_text[] =
    "extern \"C\" __global__ void __launch_bounds__(256) group_keys(const I *idx, u64 *keys, "
    "const __grid_constant__ grouped f, unsigned oob, finding *t, u64 node)\n{\n"
    "    const u64 i = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (i >= f.padded)\n        return;\n"
    "    if (i >= f.rows) {\n        keys[i] = ~0ull;\n        return;\n    }\n"
    "    i64 e = (i64)idx[i];\n    const i64 n = (i64)f.groups;\n"
    "    if (e < 0 || e >= n) {\n        if (oob == 2 && n > 0)\n            e = e < 0 ? 0 : n - 1;\n"
    "        else {\n            if (oob != 1)\n                found(t, e, n, 0, node);\n            e = n;\n        "
    "}\n"
    "    }\n    keys[i] = (u64)e << 32 | i;\n}\n";

/* Blocks of 32 x 8 threads; each thread has four elements of a tile, in one column. */
static const char body[] =
    "extern \"C\" __global__ void __launch_bounds__(256) grouped_rows(const T *__restrict__ x, "
    "const T *__restrict__ w, const u64 *__restrict__ keys, T *__restrict__ y, const __grid_constant__ grouped f)\n{\n"
    "    __shared__ A xs[32][33], ws[32][33];\n    __shared__ u64 key[32];\n"
    "    const unsigned tx = threadIdx.x, ty = threadIdx.y, wide = (unsigned)((f.columns + 31) / 32);\n"
    "    const u64 top = (u64)(blockIdx.x / wide) * 32u, col = (u64)(blockIdx.x % wide) * 32u + tx;\n"
    "    A sum[4] = {ZERO, ZERO, ZERO, ZERO};\n"
    "    if (ty == 0)\n        key[tx] = top + tx < f.rows ? keys[top + tx] : ~0ull;\n    __syncthreads();\n"
    "    for (unsigned first = 0; first < 32u && key[first] >> 32 < f.groups;) {\n"
    "        const u64 g = key[first] >> 32;\n        unsigned end = first + 1;\n"
    "        while (end < 32u && key[end] >> 32 == g)\n            end++;\n"
    "        const T *m = w + g * f.depth * f.columns;\n"
    "        for (u64 k = 0; k < f.depth; k += 32) {\n"
    "            for (unsigned r = ty; r < 32u; r += 8u) {\n"
    "                const u64 row = key[r] & 0xffffffffull;\n"
    "                xs[r][tx] = r >= first && r < end && k + tx < f.depth ? (A)LOAD(x[row * f.depth + k + tx]) : "
    "ZERO;\n"
    "                ws[r][tx] = col < f.columns && k + r < f.depth ? "
    "(A)LOAD(m[(k + r) * f.w_depth + col * f.w_column]) : ZERO;\n"
    "            }\n            __syncthreads();\n"
    "            const unsigned n = f.depth - k < 32 ? (unsigned)(f.depth - k) : 32u;\n"
    "            for (int i = 0; i < 4; i++)\n                if (ty + 8 * i >= first && ty + 8 * i < end)\n"
    "                    for (unsigned j = 0; j < n; j++)\n"
    "                        sum[i] = STEP(sum[i], xs[ty + 8 * i][j], ws[j][tx]);\n"
    "            __syncthreads();\n        }\n        first = end;\n    }\n"
    "    for (int i = 0; i < 4; i++)\n        if (key[ty + 8 * i] != ~0ull && col < f.columns)\n"
    "            y[(key[ty + 8 * i] & 0xffffffffull) * f.columns + col] = SAVE(sum[i]);\n}\n"
    "static __device__ u64 lower(const u64 *keys, u64 n, u64 key)\n{\n    u64 low = 0, high = n;\n"
    "    while (low < high) {\n        const u64 middle = (low + high) / 2;\n"
    "        if (keys[middle] < key)\n            low = middle + 1;\n        else\n            high = middle;\n    }\n"
    "    return low;\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) grouped_weight(const T *__restrict__ x, "
    "const T *__restrict__ dy, const u64 *__restrict__ keys, T *__restrict__ y, const __grid_constant__ grouped f)\n{\n"
    "    __shared__ A xs[32][33], ds[32][33];\n"
    "    const unsigned tx = threadIdx.x, ty = threadIdx.y, wide = (unsigned)((f.columns + 31) / 32);\n"
    "    const unsigned high = (unsigned)((f.depth + 31) / 32);\n"
    "    const u64 col = (u64)(blockIdx.x % wide) * 32u + tx, top = (u64)(blockIdx.x / wide % high) * 32u;\n"
    "    const u64 g = blockIdx.x / wide / high, begin = lower(keys, f.rows, g << 32);\n"
    "    const u64 end = lower(keys, f.rows, (g + 1) << 32);\n    A sum[4] = {ZERO, ZERO, ZERO, ZERO};\n"
    "    for (u64 at = begin; at < end; at += 32) {\n"
    "        for (unsigned r = ty; r < 32u; r += 8u) {\n"
    "            const u64 row = at + r < end ? keys[at + r] & 0xffffffffull : 0;\n"
    "            xs[r][tx] = at + r < end && top + tx < f.depth ? (A)LOAD(x[row * f.depth + top + tx]) : ZERO;\n"
    "            ds[r][tx] = at + r < end && col < f.columns ? (A)LOAD(dy[row * f.columns + col]) : ZERO;\n"
    "        }\n        __syncthreads();\n"
    "        const unsigned n = end - at < 32 ? (unsigned)(end - at) : 32u;\n"
    "        for (unsigned j = 0; j < n; j++)\n            for (int i = 0; i < 4; i++)\n"
    "                sum[i] = STEP(sum[i], xs[j][ty + 8 * i], ds[j][tx]);\n"
    "        __syncthreads();\n    }\n"
    "    for (int i = 0; i < 4; i++)\n        if (top + ty + 8 * i < f.depth && col < f.columns)\n"
    "            y[(g * f.depth + top + ty + 8 * i) * f.columns + col] = SAVE(sum[i]);\n}\n";

static flx_code write_group_keys(int32_t variant, flxi_strbuf *out, flx_error *err)
{
    (void)err;
    flxi_cuda_add_index(variant, out);
    flxi_add_text(out, form_text);
    flxi_add_text(out, keys_text);
    return FLX_OK;
}

static flx_code write_grouped(int32_t variant, flxi_strbuf *out, flx_error *err)
{
    (void)err;
    flxi_add_text(out, "typedef unsigned long long u64;\n");
    flxi_add_text(out, flxi_cuda_number_text(flxi_cuda_number_at(variant)));
    flxi_add_text(out, form_text);
    flxi_add_text(out, body);
    return FLX_OK;
}

const flxi_cuda_text flxi_cuda_group_keys_text = {write_group_keys, FLXI_CUDA_NUM_INDICES};
const flxi_cuda_text flxi_cuda_grouped_text = {write_grouped, FLXI_CUDA_NUM_NUMBERS};

/* ---- Nodes ---- */

static const char *refuse(const flxi_device_node *n)
{
    int64_t count = 0;
    if (flxi_cuda_index_number(n->in_types[2]->dtype) < 0)
        return "for indices of signed and of short integers";
    if (flxi_cuda_number_of(n->out_types[0]->dtype) < 0)
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
    t.form.padded = flxi_cuda_padded_keys(t.form.rows);
    t.form.w_depth = to_input ? 1 : (uint64_t)w[2];
    t.form.w_column = to_input ? (uint64_t)w[2] : 1;
    t.index = flxi_cuda_index_number(n->in_types[2]->dtype);
    t.number = flxi_cuda_number_of(n->out_types[0]->dtype);
    t.oob = (uint32_t)flxi_attr_int(&flxi_ops[n->op], n->attrs, "oob");
    memcpy(table, &t, sizeof t);
    return flxi_cuda_keys_bytes(t.form.padded);
}

/* ---- Running ---- */

static uint64_t parts_of_32(uint64_t n)
{
    return (n + 31) / 32;
}

static flx_code multiply(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, void *keys, flx_error *err)
{
    const grouped_table *t = s->way->table;
    const grouped_form *f = &t->form;
    flxi_cu_function multiply_all;
    uint64_t blocks =
        parts_of_32(f->columns) * (t->to_weight ? parts_of_32(f->depth) * f->groups : parts_of_32(f->rows));
    void *parameters[] = {(void *)(uintptr_t)&s->in[0], (void *)(uintptr_t)&s->in[1], &keys,
                          (void *)(uintptr_t)&s->out[0], (void *)(uintptr_t)f};
    FLXI_TRY(flxi_cuda_own_function(card, &flxi_cuda_grouped_text, t->number,
                                    t->to_weight ? "grouped_weight" : "grouped_rows", &multiply_all, err));
    if (blocks > INT32_MAX)
        return flxi_fail(err, FLX_E_SIZE, "products of %llu tiles are too large", (unsigned long long)blocks);
    if (blocks)
        FLXI_CU_TRY(card->cu, err, LaunchKernel, multiply_all, (unsigned)blocks, 1, 1, 32, 8, 1, 0, stream, parameters,
                    NULL);
    return FLX_OK;
}

static flx_code run(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err)
{
    const grouped_table *t = s->way->table;
    flxi_cu_function group;
    void *keys = s->scratch;
    uint32_t oob = t->oob;
    flxi_cuda_finding *finding = card->finding;
    const flxi_device_node *node = s->node;
    void *grouped[] = {(void *)(uintptr_t)&s->in[2], &keys, (void *)(uintptr_t)&t->form, &oob, &finding, &node};
    FLXI_TRY(flxi_cuda_own_function(card, &flxi_cuda_group_keys_text, t->index, "group_keys", &group, err));
    FLXI_TRY(flxi_cuda_launch_line(card, stream, group, t->form.padded / 256, 256, grouped, err));
    FLXI_TRY(flxi_cuda_sort_keys(card, stream, s->scratch, t->form.padded, &keys, err));
    return multiply(card, stream, s, keys, err);
}

const flxi_cuda_way flxi_cuda_grouped = {"sorted", refuse, sizeof(grouped_table), prepare, run};
