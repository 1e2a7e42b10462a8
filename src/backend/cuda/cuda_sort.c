/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_sort.c: sort, argsort, topk and top_k of one key on the card. An element of at most 32 bits becomes the upper
   half of a number in whose order it sorts, and its position the lower half, so that no two are equal and ties keep
   their order. Blocks sort 1024 of these numbers in their memory; longer rows are merged in passes, where each number
   finds its place by a binary search in the run beside its own. Then elements are copied by position. */
#include "backend/cuda/node/cuda_keys.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

enum { MOST_OPERANDS = 8 };

typedef struct {
    flxi_split split;
    int64_t take;    /* results have the first of each row */
    uint64_t padded; /* numbers of a row as they are sorted: a power of two, at least FLXI_CUDA_BLOCK_KEYS */
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
    {FLX_F32, "unsigned", "FLOAT_KEY(x, 0x80000000u, 0x7f800000u)"},
    {FLX_BF16, "unsigned short", "FLOAT_KEY((unsigned)x << 16, 0x80000000u, 0x7f800000u)"},
    {FLX_F16, "unsigned short", "FLOAT_KEY((unsigned)x << 16, 0x80000000u, 0x7c000000u)"},
    {FLX_I8, "signed char", "(unsigned)x ^ 0x80000000u"},
    {FLX_I16, "short", "(unsigned)x ^ 0x80000000u"},
    {FLX_I32, "int", "(unsigned)x ^ 0x80000000u"},
    {FLX_U8, "unsigned char", "(unsigned)x"},
    {FLX_BOOL, "unsigned char", "(unsigned)x"},
    {FLX_U16, "unsigned short", "(unsigned)x"},
    {FLX_U32, "unsigned", "x"},
};

enum { NUM_KEYS = sizeof keys / sizeof *keys };

static const char head[] = "typedef unsigned long long u64;\n"
                           "#define FLOAT_KEY(x, sign, inf) float_key(x, sign, inf)\n"
                           "static __device__ unsigned float_key(unsigned x, unsigned sign, unsigned inf)\n"
                           "{ return (x & ~sign) > inf ? ~0u : (x & ~sign) == 0 ? sign : x & sign ? ~x : x | sign; }\n";

static const char body[] =
    "extern \"C\" __global__ void __launch_bounds__(512) sort_blocks(const T *x, u64 *keys, u64 n, u64 inner, "
    "u64 padded, unsigned flip)\n{\n"
    "    __shared__ u64 s[1024];\n"
    "    const u64 first = (u64)blockIdx.x * 1024u, row = first / padded, begin = first - row * padded;\n"
    "    const u64 base = row / inner * n * inner + row % inner;\n"
    "    for (unsigned j = threadIdx.x; j < 1024u; j += 512u)\n"
    "        s[j] = begin + j < n ? (u64)(key_of(x[base + (begin + j) * inner]) ^ flip) << 32 | begin + j : ~0ull;\n"
    "    sort_block(s);\n"
    "    for (unsigned j = threadIdx.x; j < 1024u; j += 512u)\n        keys[first + j] = s[j];\n}\n"
    "template <class W> static __device__ void move(const W *x, W *y, const u64 *keys, u64 n, u64 inner, u64 padded, "
    "u64 take, u64 all)\n{\n"
    "    const u64 i = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (i >= all)\n        return;\n"
    "    const u64 row = i / take, k = i - row * take, outer = row / inner, column = row - outer * inner;\n"
    "    const u64 from = keys[row * padded + k] & 0xffffffffull, to = (outer * take + k) * inner + column;\n"
    "    y[to] = x ? x[(outer * n + from) * inner + column] : (W)from;\n}\n"
    "#define MOVE(name, W) extern \"C\" __global__ void __launch_bounds__(256) name(const W *x, W *y, const u64 *keys, "
    "u64 n, u64 inner, u64 padded, u64 take, u64 all) { move<W>(x, y, keys, n, inner, padded, take, all); }\n"
    "MOVE(move_1, unsigned char)\nMOVE(move_2, unsigned short)\nMOVE(move_4, unsigned)\nMOVE(move_8, u64)\n";

static flx_code write_sort(int32_t variant, flxi_strbuf *out, flx_error *err)
{
    (void)err;
    flxi_add_text(out, head);
    flxi_addf(out, "typedef %s T;\nstatic __device__ unsigned key_of(T x) { return %s; }\n", keys[variant].element,
              keys[variant].key);
    flxi_add_text(out, flxi_cuda_block_sort);
    flxi_add_text(out, body);
    return FLX_OK;
}

const flxi_cuda_text flxi_cuda_sort_text = {write_sort, NUM_KEYS};

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
    return (size_t)(d->outer * d->inner) * flxi_cuda_keys_bytes(flxi_cuda_padded_keys((uint64_t)d->n));
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
    if (d.n > INT32_MAX || d.outer * d.inner > INT32_MAX / FLXI_CUDA_BLOCK_KEYS || scratch_of(&d) > (size_t)8 << 30)
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
    t.padded = flxi_cuda_padded_keys((uint64_t)t.split.n);
    for (uint32_t i = 0; i < t.values; i++)
        t.size[i] = (uint32_t)flx_dtype_size(n->in_types[i]->dtype);
    if (t.positions >= 0)
        t.position_size = (uint32_t)flx_dtype_size(n->out_types[t.positions]->dtype);
    memcpy(table, &t, sizeof t);
    return scratch_of(&t.split);
}

/* ---- Running ---- */

typedef struct {
    flxi_card *card;
    flxi_cu_stream stream;
    sort_table t;
    uint64_t rows;
    flx_error *err;
} sorting;

static flx_code function_of(const sorting *s, const char *name, flxi_cu_function *f)
{
    return flxi_cuda_own_function(s->card, &flxi_cuda_sort_text, s->t.variant, name, f, s->err);
}

/* The sorted numbers, in one half of the scratch or the other. */
static flx_code sort_rows(sorting *s, const void *x, void *scratch, void **sorted)
{
    sort_table *t = &s->t;
    flxi_cu_function sort;
    uint64_t all = s->rows * t->padded;
    void *parameters[] = {&x, &scratch, &t->split.n, &t->split.inner, &t->padded, &t->flip};
    FLXI_TRY(function_of(s, "sort_blocks", &sort));
    FLXI_TRY(flxi_cuda_launch_line(s->card, s->stream, sort, all / FLXI_CUDA_BLOCK_KEYS, 512, parameters, s->err));
    return flxi_cuda_merge_keys(s->card, s->stream, scratch, all, t->padded, sorted, s->err);
}

/* Elements of an operand in the new order, or positions where x is NULL. */
static flx_code move(sorting *s, const void *x, void *y, uint32_t size, void *sorted)
{
    sort_table *t = &s->t;
    flxi_cu_function f;
    uint64_t all = s->rows * (uint64_t)t->take;
    void *parameters[] = {&x, &y, &sorted, &t->split.n, &t->split.inner, &t->padded, &t->take, &all};
    FLXI_TRY(function_of(s, size == 1 ? "move_1" : size == 2 ? "move_2" : size == 4 ? "move_4" : "move_8", &f));
    return flxi_cuda_launch_line(s->card, s->stream, f, (all + 255) / 256, 256, parameters, s->err);
}

static flx_code run(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *step, flx_error *err)
{
    sorting s = {.card = card, .stream = stream, .t = *(const sort_table *)step->way->table, .err = err};
    void *sorted = NULL;
    s.rows = (uint64_t)s.t.split.outer * (uint64_t)s.t.split.inner;
    if (s.rows == 0 || s.t.take == 0)
        return FLX_OK;
    FLXI_TRY(sort_rows(&s, step->in[0], step->scratch, &sorted));
    for (uint32_t i = 0; i < s.t.values; i++)
        FLXI_TRY(move(&s, step->in[i], step->out[i], s.t.size[i], sorted));
    return s.t.positions < 0 ? FLX_OK : move(&s, NULL, step->out[s.t.positions], s.t.position_size, sorted);
}

const flxi_cuda_way flxi_cuda_sorting = {"sorted", refuse, sizeof(sort_table), prepare, run};
