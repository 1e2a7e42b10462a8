/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_keys.c: see cuda_keys.h. Blocks sort 1024 keys in their memory; then runs are merged in passes, where each key
   finds its place by a binary search in the run beside its own. */
#include "backend/cuda/node/cuda_keys.h"

const char flxi_cuda_block_sort[] =
    "static __device__ void sort_block(u64 *s)\n{\n"
    "    for (unsigned size = 2; size <= 1024u; size *= 2)\n"
    "        for (unsigned d = size / 2; d > 0; d /= 2) {\n            __syncthreads();\n"
    "            const unsigned a = 2 * threadIdx.x - (threadIdx.x & (d - 1)), b = a + d;\n"
    "            const bool up = (a & size) == 0;\n            const u64 p = s[a], q = s[b];\n"
    "            if ((p > q) == up) {\n                s[a] = q;\n                s[b] = p;\n            }\n        }\n"
    "    __syncthreads();\n}\n";

static const char body[] =
    "extern \"C\" __global__ void __launch_bounds__(512) sort_blocks(u64 *keys)\n{\n"
    "    __shared__ u64 s[1024];\n    const u64 first = (u64)blockIdx.x * 1024u;\n"
    "    for (unsigned j = threadIdx.x; j < 1024u; j += 512u)\n        s[j] = keys[first + j];\n    sort_block(s);\n"
    "    for (unsigned j = threadIdx.x; j < 1024u; j += 512u)\n        keys[first + j] = s[j];\n}\n"
    /* Equal keys go nowhere: the first run's come first. */
    "extern \"C\" __global__ void __launch_bounds__(256) merge_runs(const u64 *from, u64 *to, u64 width)\n{\n"
    "    const u64 i = (u64)blockIdx.x * 256u + threadIdx.x, run = i / width, own = i - run * width, key = from[i];\n"
    "    const u64 *other = from + (run ^ 1) * width;\n    u64 low = 0, high = width;\n"
    "    while (low < high) {\n        const u64 middle = (low + high) / 2;\n"
    "        if (other[middle] < key || ((run & 1) && other[middle] == key))\n            low = middle + 1;\n"
    "        else\n            high = middle;\n    }\n"
    "    to[(run / 2) * 2 * width + own + low] = key;\n}\n";

static flx_code write_keys(int32_t variant, flxi_strbuf *out, flx_error *err)
{
    (void)variant;
    (void)err;
    flxi_add_text(out, "typedef unsigned long long u64;\n");
    flxi_add_text(out, flxi_cuda_block_sort);
    flxi_add_text(out, body);
    return FLX_OK;
}

const flxi_cuda_text flxi_cuda_keys_text = {write_keys, 1};

uint64_t flxi_cuda_padded_keys(uint64_t n)
{
    uint64_t padded = FLXI_CUDA_BLOCK_KEYS;
    while (padded < n)
        padded *= 2;
    return padded;
}

size_t flxi_cuda_keys_bytes(uint64_t padded)
{
    return 2 * (size_t)padded * sizeof(uint64_t);
}

flx_code flxi_cuda_merge_keys(flxi_card *card, flxi_cu_stream stream, void *scratch, uint64_t all, uint64_t padded,
                              void **sorted, flx_error *err)
{
    flxi_cu_function merge;
    void *from = scratch, *to = (uint64_t *)scratch + all;
    FLXI_TRY(flxi_cuda_own_function(card, &flxi_cuda_keys_text, 0, "merge_runs", &merge, err));
    for (uint64_t width = FLXI_CUDA_BLOCK_KEYS; width < padded; width *= 2) {
        void *pass[] = {&from, &to, &width};
        FLXI_TRY(flxi_cuda_launch_line(card, stream, merge, all / 256, 256, pass, err));
        void *last = from;
        from = to;
        to = last;
    }
    *sorted = from;
    return FLX_OK;
}

flx_code flxi_cuda_sort_keys(flxi_card *card, flxi_cu_stream stream, void *scratch, uint64_t padded, void **sorted,
                             flx_error *err)
{
    flxi_cu_function sort;
    void *parameters[] = {&scratch};
    FLXI_TRY(flxi_cuda_own_function(card, &flxi_cuda_keys_text, 0, "sort_blocks", &sort, err));
    FLXI_TRY(flxi_cuda_launch_line(card, stream, sort, padded / FLXI_CUDA_BLOCK_KEYS, 512, parameters, err));
    return flxi_cuda_merge_keys(card, stream, scratch, padded, padded, sorted, err);
}

/* ---- Indices ---- */

static const struct {
    int32_t dtype;
    const char *type;
} indices[FLXI_CUDA_NUM_INDICES] = {{FLX_I8, "signed char"},     {FLX_U8, "unsigned char"}, {FLX_I16, "short"},
                                    {FLX_U16, "unsigned short"}, {FLX_I32, "int"},          {FLX_U32, "unsigned"},
                                    {FLX_I64, "long long"}};

/* What is out of range is reported once: the first that is found stays. */
static const char report[] =
    "typedef unsigned long long u64;\ntypedef long long i64;\n"
    "struct finding {\n    unsigned is_set, component;\n    i64 value, extent;\n    u64 node;\n};\n"
    "static __device__ void found(finding *t, i64 value, i64 extent, unsigned component, u64 node)\n{\n"
    "    if (atomicCAS(&t->is_set, 0u, 1u) != 0u)\n        return;\n"
    "    t->value = value;\n    t->extent = extent;\n    t->component = component;\n    t->node = node;\n}\n";

int32_t flxi_cuda_index_number(int32_t dtype)
{
    for (int32_t i = 0; i < FLXI_CUDA_NUM_INDICES; i++)
        if (indices[i].dtype == dtype)
            return i;
    return -1;
}

void flxi_cuda_add_index(int32_t number, flxi_strbuf *out)
{
    flxi_add_text(out, report);
    flxi_addf(out, "typedef %s I;\n", indices[number].type);
}
