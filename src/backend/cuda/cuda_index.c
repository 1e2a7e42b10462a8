/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_index.c: gather and scatter_add on the card. gather moves words. scatter_add sorts the indices together with
   their positions, and then a warp for each row of the result adds the row's updates in the order of their positions
   and writes the row, zeros or not: no atomics, the same bits every time. Blocks of keys are sorted in shared memory,
   then merged in passes, where each key finds its place by a binary search in the run beside its own. */
#include "backend/cuda/cuda_index.h"

#include "backend/cuda/cuda_compile.h"
#include "backend/cuda/cuda_product.h"
#include "backend/cuda/node/cuda_keys.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

/* ---- Texts ---- */

static const struct {
    int32_t dtype;
    const char *type;
} indices[] = {{FLX_I8, "signed char"}, {FLX_U8, "unsigned char"}, {FLX_I16, "short"},    {FLX_U16, "unsigned short"},
               {FLX_I32, "int"},        {FLX_U32, "unsigned"},     {FLX_I64, "long long"}};

/* oob: 0 error, 1 zero, 2 clamp. -1: the position is dropped. */
static const char index_body[] =
    "struct finding {\n    unsigned is_set, component;\n    long long value, extent;\n    u64 node;\n};\n"
    "static __device__ long long resolve(I index, long long extent, unsigned oob, finding *t, u64 node)\n"
    "{\n    const long long k = (long long)index;\n"
    "    if (k >= 0 && k < extent)\n        return k;\n"
    "    if (oob == 2 && extent > 0)\n        return k < 0 ? 0 : extent - 1;\n"
    "    if (oob != 1 && atomicCAS(&t->is_set, 0u, 1u) == 0u) {\n"
    "        t->value = k;\n        t->extent = extent;\n        t->node = node;\n    }\n"
    "    return -1;\n}\n"
    "template <class W> static __device__ void move(const W *x, const I *idx, W *y, u64 words, long long extent,\n"
    "    long long count, u64 all, unsigned oob, finding *t, u64 node)\n{\n"
    "    const u64 at = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (at >= all)\n        return;\n"
    "    const u64 row = at / words, place = at - row * words;\n"
    "    const long long o = (long long)(row / count), i = (long long)(row - (u64)o * count);\n"
    "    const long long k = resolve(idx[i], extent, oob, t, node);\n"
    "    W none = {};\n    y[at] = k < 0 ? none : x[(u64)(o * extent + k) * words + place];\n}\n"
    "#define GATHER(name, W) extern \"C\" __global__ void __launch_bounds__(256) name(const W *x, const I *idx, W *y, "
    "u64 words, long long extent, long long count, u64 all, unsigned oob, finding *t, u64 node) { "
    "move<W>(x, idx, y, words, extent, count, all, oob, t, node); }\n"
    "GATHER(gather_1, unsigned char)\nGATHER(gather_2, unsigned short)\nGATHER(gather_4, unsigned)\n"
    "GATHER(gather_8, u64)\nGATHER(gather_16, uint4)\n"
    "extern \"C\" __global__ void __launch_bounds__(512) sort_keys(const I *idx, u64 *keys, long long count, "
    "long long extent, unsigned oob, finding *t, u64 node)\n{\n"
    "    __shared__ u64 s[1024];\n"
    "    for (unsigned j = threadIdx.x; j < 1024u; j += 512u) {\n"
    "        const long long i = (long long)blockIdx.x * 1024 + j;\n"
    "        const long long k = i < count ? resolve(idx[i], extent, oob, t, node) : -1;\n"
    "        s[j] = k < 0 ? ~0ull : (u64)k << 32 | (u64)i;\n    }\n"
    "    sort_block(s);\n"
    "    for (unsigned j = threadIdx.x; j < 1024u; j += 512u)\n"
    "        keys[(u64)blockIdx.x * 1024u + j] = s[j];\n}\n";

/* The lanes of a warp look for the first update of its row together: 32 keys at a time, so that few loads wait for each
   other; then for the end of its updates. Elements are loaded by as many as 16 bytes have, where that is possible. */
static const char sum_body[] =
    "typedef unsigned long long u64;\n"
    "static __device__ u64 first_of(const u64 *keys, u64 n, u64 key, unsigned lane)\n{\n    u64 low = 0;\n"
    "    while (n > 0) {\n        const u64 step = (n + 31) / 32, at = lane * step;\n"
    "        const unsigned before = __popc(__ballot_sync(~0u, at < n && keys[low + at] < key));\n"
    "        if (before == 0)\n            break;\n"
    "        const u64 passed = (before - 1) * step + 1, left = n - passed;\n"
    "        low += passed;\n        n = left < step - 1 ? left : step - 1;\n    }\n    return low;\n}\n"
    "static __device__ u64 end_of(const u64 *keys, u64 n, u64 first, u64 row, unsigned lane)\n{\n"
    "    for (;; first += 32) {\n"
    "        const unsigned own = __ballot_sync(~0u, first + lane < n && keys[first + lane] >> 32 == row);\n"
    "        if (own != ~0u)\n            return first + __popc(own);\n    }\n}\n"
    "template <int V> static __device__ void sum(const T *__restrict__ x, const u64 *__restrict__ keys, "
    "T *__restrict__ y, u64 n, u64 rows, u64 inner)\n{\n"
    "    struct __align__(V * sizeof(T)) pack {\n        T e[V];\n    };\n"
    "    const u64 row = (u64)blockIdx.x * 8u + threadIdx.x / 32u, packs = inner / V;\n"
    "    const unsigned lane = threadIdx.x % 32u;\n    if (row >= rows)\n        return;\n"
    "    const u64 low = first_of(keys, n, row << 32, lane), end = end_of(keys, n, low, row, lane);\n"
    "    for (u64 q = lane; q < packs; q += 32u) {\n        A sum[V];\n        pack p;\n"
    "        for (int v = 0; v < V; v++)\n            sum[v] = ZERO;\n"
    "        for (u64 i = low; i < end; i++) {\n"
    "            p = ((const pack *)x)[(keys[i] & 0xffffffffull) * packs + q];\n"
    "            for (int v = 0; v < V; v++)\n                sum[v] = sum[v] + (A)LOAD(p.e[v]);\n        }\n"
    "        for (int v = 0; v < V; v++)\n            p.e[v] = SAVE(sum[v]);\n"
    "        ((pack *)y)[row * packs + q] = p;\n    }\n}\n"
    "#define SUM(name, V) extern \"C\" __global__ void __launch_bounds__(256) name(const T *x, const u64 *keys, T *y, "
    "u64 n, u64 rows, u64 inner) { sum<V>(x, keys, y, n, rows, inner); }\n"
    "SUM(sum_rows, 1)\nSUM(sum_packs, 16 / sizeof(T))\n";

flx_code flxi_cuda_index_text(int32_t index, flxi_strbuf *out, flx_error *err)
{
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++)
        if (indices[i].dtype == index) {
            flxi_addf(out, "typedef unsigned long long u64;\ntypedef %s I;\n", indices[i].type);
            flxi_add_text(out, flxi_cuda_block_sort);
            flxi_add_text(out, index_body);
            return out->failed ? flxi_oom(err, "a kernel") : FLX_OK;
        }
    return flxi_fail(err, FLX_E_INTERNAL, "no indices of %s", flx_dtype_name((flx_dtype)index));
}

flx_code flxi_cuda_sum_text(int32_t dtype, flxi_strbuf *out, flx_error *err)
{
    const char *types = flxi_cuda_number_text(dtype);
    if (!types)
        return flxi_fail(err, FLX_E_INTERNAL, "no sums of %s", flx_dtype_name((flx_dtype)dtype));
    flxi_add_text(out, types);
    flxi_add_text(out, sum_body);
    return out->failed ? flxi_oom(err, "a kernel") : FLX_OK;
}

/* ---- Nodes ---- */

static bool is_index(int32_t dtype)
{
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++)
        if (indices[i].dtype == dtype)
            return true;
    return false;
}

/* A complex number is two real ones. */
static int32_t part_of(int32_t dtype)
{
    return dtype == FLX_C64 ? FLX_F32 : dtype == FLX_C128 ? FLX_F64 : dtype;
}

const char *flxi_cuda_refuse_index(const flxi_device_node *n)
{
    int64_t count = 0;
    if (!is_index(n->in_types[1]->dtype))
        return "for indices of signed and of short integers";
    for (int i = 0; i < 3; i++)
        if (!flxi_static_count(i < 2 ? n->in_types[i] : n->out_types[0], &count) || count > INT32_MAX || count == 0)
            return "for fewer than 2^31 elements, and not for none";
    if (n->op == OP_scatter_add && !flxi_cuda_number_text(part_of(n->out_types[0]->dtype)))
        return "for numbers";
    return NULL;
}

flxi_cuda_index_plan flxi_cuda_plan_index(const flxi_device_node *n)
{
    const flxi_op *op = &flxi_ops[n->op];
    const flx_type *t = n->op == OP_gather ? n->in_types[0] : n->out_types[0];
    int axis = n->op == OP_gather ? (int)flxi_attr_int(op, n->attrs, "axis") : 0;
    flxi_cuda_index_plan p = {.outer = flxi_static_extent(t, 0, axis),
                              .extent = t->dims[axis],
                              .inner = flxi_static_extent(t, axis + 1, t->rank),
                              .index = n->in_types[1]->dtype,
                              .dtype = part_of(t->dtype),
                              .size = (uint32_t)flx_dtype_size(t->dtype),
                              .oob = (uint32_t)flxi_attr_int(op, n->attrs, "oob")};
    flxi_static_count(n->in_types[1], &p.count);
    if (n->op == OP_gather)
        return p;
    p.inner *= p.dtype == t->dtype ? 1 : 2;
    p.padded = (uint32_t)flxi_cuda_padded_keys((uint64_t)p.count);
    return p;
}

size_t flxi_cuda_index_scratch(const flxi_cuda_index_plan *p)
{
    return flxi_cuda_keys_bytes(p->padded);
}

/* ---- Running ---- */

static flx_code compile(flxi_card *card, flx_code (*write)(int32_t, flxi_strbuf *, flx_error *), int32_t dtype,
                        flxi_cu_module *out, flx_error *err)
{
    const flxi_cache_options cache = {0};
    flxi_strbuf text;
    flxi_strbuf_init(&text, card->mem);
    flx_code code = write(dtype, &text, err);
    if (code == FLX_OK)
        code = flxi_cuda_compile(card, &cache, &text, 1, out, NULL, err);
    flxi_strbuf_free(&text);
    return code;
}

static flx_code function_of(flxi_card *card, flxi_cu_module *module,
                            flx_code (*write)(int32_t, flxi_strbuf *, flx_error *), int32_t dtype, const char *name,
                            flxi_cu_function *out, flx_error *err)
{
    pthread_mutex_lock(&card->lock);
    flx_code code = *module ? FLX_OK : compile(card, write, dtype, module, err);
    pthread_mutex_unlock(&card->lock);
    if (code == FLX_OK)
        FLXI_CU_TRY(card->cu, err, ModuleGetFunction, out, *module, name);
    return code;
}

typedef struct {
    flxi_card *card;
    flxi_cu_stream stream;
    const flxi_device_node *node;
    const flxi_cuda_index_plan *p;
    const void *in[2];
    void *out;
    flx_error *err;
} indexing;

static flx_code launch(const indexing *x, flxi_cu_function f, uint64_t blocks, unsigned threads, void **parameters)
{
    if (blocks > INT32_MAX)
        return flxi_fail(x->err, FLX_E_SIZE, "%s: too many elements for a launch", flxi_ops[x->node->op].name);
    FLXI_CU_TRY(x->card->cu, x->err, LaunchKernel, f, (unsigned)blocks, 1, 1, threads, 1, 1, 0, x->stream, parameters,
                NULL);
    return FLX_OK;
}

static flx_code index_function(const indexing *x, const char *name, flxi_cu_function *f)
{
    return function_of(x->card, &x->card->index_modules[x->p->index], flxi_cuda_index_text, x->p->index, name, f,
                       x->err);
}

/* In the widest words that rows and addresses permit. */
static flx_code run_gather(const indexing *x)
{
    static const char *const names[] = {"gather_1", "gather_2", "gather_4", "gather_8", "gather_16"};
    const flxi_cuda_index_plan *p = x->p;
    flxi_cu_function f;
    uint64_t bytes = (uint64_t)p->inner * p->size, words;
    uintptr_t all_bits = bytes | (uintptr_t)x->in[0] | (uintptr_t)x->out;
    int width = 4;
    while (all_bits & (((uintptr_t)1 << width) - 1))
        width--;
    words = bytes >> width;
    uint64_t all = (uint64_t)p->outer * (uint64_t)p->count * words;
    uint32_t oob = p->oob;
    flxi_cuda_finding *finding = x->card->finding;
    const flxi_device_node *node = x->node;
    int64_t extent = p->extent, count = p->count;
    void *parameters[] = {(void *)(uintptr_t)&x->in[0],
                          (void *)(uintptr_t)&x->in[1],
                          (void *)(uintptr_t)&x->out,
                          &words,
                          &extent,
                          &count,
                          &all,
                          &oob,
                          &finding,
                          &node};
    FLXI_TRY(index_function(x, names[width], &f));
    return launch(x, f, (all + 255) / 256, 256, parameters);
}

/* The sorted keys, in one half of the scratch or the other. */
static flx_code sort_keys(const indexing *x, void *scratch, void **sorted)
{
    const flxi_cuda_index_plan *p = x->p;
    flxi_cu_function sort;
    uint32_t oob = p->oob;
    int64_t extent = p->extent, count = p->count;
    flxi_cuda_finding *finding = x->card->finding;
    const flxi_device_node *node = x->node;
    void *parameters[] = {(void *)(uintptr_t)&x->in[1], &scratch, &count, &extent, &oob, &finding, &node};
    FLXI_TRY(index_function(x, "sort_keys", &sort));
    FLXI_TRY(launch(x, sort, p->padded / FLXI_CUDA_BLOCK_KEYS, 512, parameters));
    return flxi_cuda_merge_keys(x->card, x->stream, scratch, p->padded, p->padded, sorted, x->err);
}

static flx_code run_scatter(const indexing *x, void *scratch)
{
    const flxi_cuda_index_plan *p = x->p;
    flxi_cu_function sum;
    void *keys;
    uint64_t n = p->padded, rows = (uint64_t)p->extent, inner = (uint64_t)p->inner;
    FLXI_TRY(sort_keys(x, scratch, &keys));
    bool is_packed = ((uintptr_t)x->in[0] | (uintptr_t)x->out | inner * flx_dtype_size((flx_dtype)p->dtype)) % 16 == 0;
    FLXI_TRY(function_of(x->card, &x->card->sum_modules[p->dtype], flxi_cuda_sum_text, p->dtype,
                         is_packed ? "sum_packs" : "sum_rows", &sum, x->err));
    void *parameters[] = {(void *)(uintptr_t)&x->in[0], &keys, (void *)(uintptr_t)&x->out, &n, &rows, &inner};
    return launch(x, sum, (rows + 7) / 8, 256, parameters);
}

flx_code flxi_cuda_run_index(flxi_card *card, flxi_cu_stream stream, const flxi_device_node *n,
                             const flxi_cuda_index_plan *p, const void *const in[2], void *out, void *scratch,
                             flx_error *err)
{
    indexing x = {card, stream, n, p, {in[0], in[1]}, out, err};
    return n->op == OP_gather ? run_gather(&x) : run_scatter(&x, scratch);
}
