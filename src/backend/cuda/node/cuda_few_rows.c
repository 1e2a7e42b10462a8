/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_few_rows.c: see cuda_few_rows.h. Such a product waits for memory, not for arithmetic: a block of 16 warps has 8
   rows and 32 columns of the result, and each warp a sixteenth of their depth, so that the block loads everything at
   once. The rows are in shared memory, where the parts are added in order. Every product of a lane reads them there:
   with few blocks that takes longest, so that they have 4 rows. */
#include "backend/cuda/node/cuda_few_rows.h"

#include "backend/cuda/cuda_way.h"

enum { COLUMNS = 32, WARPS = 16, LEAST_DEPTH = 64, MOST_DEPTH = 1024, LEAST_ROWS = 4, MOST_ROWS = 64 };
enum { FEW_BLOCKS = 128, MOST_BLOCKS = 1024 };
/* Where the depth is contiguous the library adds up pieces in a second launch, which more rows are worth, too. */
enum { MOST_DEEP_ROWS = 128, MOST_DEEP_BLOCKS = 288 };

/* b: its element (k, j) is at k depth_b + j column_b, one of which is 1. */
static const char body[] =
    "template <bool is_deep> static __device__ float4 four(const float *b, unsigned k, unsigned depth_b)\n{\n"
    "    if (is_deep)\n        return *(const float4 *)(b + k);\n    b += (unsigned long long)k * depth_b;\n"
    "    return float4{b[0], b[depth_b], b[2 * depth_b], b[3 * depth_b]};\n}\n"
    "template <bool is_deep, unsigned R> static __device__ void few(const float *a, const float *b, float *c, "
    "unsigned m, unsigned n, unsigned k, long long batch_a, long long batch_b, long long row_a, long long depth_a, "
    "unsigned depth_b, "
    "unsigned column_b)\n{\n"
    "    __shared__ __align__(16) float rows[R * 1024];\n"
    "    const unsigned tx = threadIdx.x, warp = threadIdx.y, t = warp * 32u + tx;\n"
    "    const unsigned wide = (n + 31) / 32, high = (m + R - 1) / R, batch = blockIdx.x / wide / high;\n"
    "    const unsigned col = blockIdx.x % wide * 32u + tx, top = blockIdx.x / wide % high * R;\n"
    "    a += batch * batch_a;\n    b += batch * batch_b + (unsigned long long)(col < n ? col : n - 1) * column_b;\n"
    "    c += (unsigned long long)batch * m * n;\n"
    "    for (unsigned i = t; i < k; i += 512u) {\n        float x[R];\n        #pragma unroll\n"
    "        for (unsigned r = 0; r < R; r++)\n"
    "            x[r] = top + r < m ? a[(top + r) * row_a + i * depth_a] : 0.0f;\n        #pragma unroll\n"
    "        for (unsigned r = 0; r < R; r++)\n            rows[r * 1024u + i] = x[r];\n    }\n"
    "    __syncthreads();\n"
    "    const unsigned own = ((k + 15) / 16 + 3) / 4 * 4, begin = warp * own;\n"
    "    const unsigned end = begin + own < k ? begin + own : k;\n    float sum[R] = {};\n    unsigned i = begin;\n"
    "    #pragma unroll 4\n    for (; i + 4 <= end; i += 4) {\n        const float4 y = four<is_deep>(b, i, depth_b);\n"
    "        #pragma unroll\n        for (unsigned r = 0; r < R; r++) {\n"
    "            const float4 x = *(const float4 *)&rows[r * 1024 + i];\n"
    "            sum[r] = __fmaf_rn(x.x, y.x, sum[r]);\n            sum[r] = __fmaf_rn(x.y, y.y, sum[r]);\n"
    "            sum[r] = __fmaf_rn(x.z, y.z, sum[r]);\n            sum[r] = __fmaf_rn(x.w, y.w, sum[r]);\n"
    "        }\n    }\n"
    "    for (; i < end; i++) {\n        const float y = b[(unsigned long long)i * (is_deep ? 1u : depth_b)];\n"
    "        #pragma unroll\n        for (unsigned r = 0; r < R; r++)\n"
    "            sum[r] = __fmaf_rn(rows[r * 1024 + i], y, sum[r]);\n    }\n"
    "    __syncthreads();\n    #pragma unroll\n    for (unsigned r = 0; r < R; r++)\n"
    "        rows[(warp * R + r) * 32 + tx] = sum[r];\n    __syncthreads();\n"
    "    if (warp >= R || top + warp >= m || col >= n)\n        return;\n    float whole = 0.0f;\n"
    "    for (unsigned w = 0; w < 16u; w++)\n        whole += rows[(w * R + warp) * 32u + tx];\n"
    "    c[(unsigned long long)(top + warp) * n + col] = whole;\n}\n"
    "#define FEW(name, is_deep, R) extern \"C\" __global__ void __launch_bounds__(512) name(const float *a, "
    "const float *b, float *c, unsigned m, unsigned n, unsigned k, long long batch_a, long long batch_b, "
    "long long row_a, long long depth_a, unsigned depth_b, unsigned column_b) "
    "{ few<is_deep, R>(a, b, c, m, n, k, batch_a, batch_b, row_a, depth_a, depth_b, column_b); }\n"
    "FEW(few_wide, false, 8)\nFEW(few_deep, true, 8)\n"
    "FEW(short_wide, false, 4)\nFEW(short_deep, true, 4)\n";

static void write_few(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    (void)language;
    (void)variant;
    flxi_add_text(out, body);
}

const flxi_card_text flxi_cuda_few_text = {write_few, 1};

static int64_t step_of(const flxi_card_walk *w)
{
    return w->rank ? w->stride[0] : 0;
}

static uint64_t blocks_of(const flxi_card_product *p, uint32_t rows)
{
    return (uint64_t)((p->m + rows - 1) / rows) * ((p->n + COLUMNS - 1) / COLUMNS) * p->batches;
}

/* The depth is along vectors of four. */
static bool is_deep(const flxi_card_product *p, const void *b)
{
    return p->b_depth.stride[0] == 1 && p->b_line.stride[0] % 4 == 0 && step_of(&p->b_batch) % 4 == 0 &&
           (uintptr_t)b % 16 == 0;
}

static bool has_few_rows(const flxi_card_product *p, const void *b)
{
    bool is_small = p->m <= MOST_ROWS && blocks_of(p, 8) <= MOST_BLOCKS;
    return is_small || (p->m <= MOST_DEEP_ROWS && blocks_of(p, 8) <= MOST_DEEP_BLOCKS && is_deep(p, b));
}

bool flxi_cuda_is_few(const flxi_card_product_plan *plan, const void *b)
{
    const flxi_card_product *p = &plan->product;
    const flxi_card_walk *const lines[] = {&p->a_line, &p->a_depth, &p->b_line, &p->b_depth};
    if (plan->dtype != FLX_F32 || p->m < LEAST_ROWS || p->n < COLUMNS || p->k < LEAST_DEPTH || p->k > MOST_DEPTH ||
        p->a_batch.rank > 1 || p->b_batch.rank > 1)
        return false;
    for (int i = 0; i < 4; i++)
        if (lines[i]->rank != 1 || lines[i]->stride[0] < 0 || lines[i]->stride[0] > INT32_MAX)
            return false;
    return has_few_rows(p, b) && (p->b_line.stride[0] == 1 || is_deep(p, b));
}

flx_code flxi_cuda_run_few(flxi_card *card, flxi_cu_stream stream, const flxi_card_product_plan *plan,
                           const void *const in[2], void *out, flx_error *err)
{
    const flxi_card_product *p = &plan->product;
    flxi_cu_function f;
    uint32_t m = p->m, n = p->n, k = p->k;
    uint32_t depth_b = (uint32_t)p->b_depth.stride[0], column_b = (uint32_t)p->b_line.stride[0];
    int64_t batch_a = step_of(&p->a_batch), batch_b = step_of(&p->b_batch);
    int64_t row_a = p->a_line.stride[0], depth_a = p->a_depth.stride[0];
    void *parameters[] = {(void *)(uintptr_t)&in[0],
                          (void *)(uintptr_t)&in[1],
                          &out,
                          &m,
                          &n,
                          &k,
                          &batch_a,
                          &batch_b,
                          &row_a,
                          &depth_a,
                          &depth_b,
                          &column_b};
    static const char *const names[2][2] = {{"few_deep", "few_wide"}, {"short_deep", "short_wide"}};
    bool is_short = blocks_of(p, 8) < FEW_BLOCKS;
    unsigned blocks = (unsigned)blocks_of(p, is_short ? 4 : 8);
    FLXI_TRY(flxi_cuda_own_function(card, &flxi_cuda_few_text, 0, names[is_short][column_b == 1], &f, err));
    FLXI_CU_TRY(card->cu, err, LaunchKernel, f, blocks, 1, 1, 32, WARPS, 1, 0, stream, parameters, NULL);
    return FLX_OK;
}
