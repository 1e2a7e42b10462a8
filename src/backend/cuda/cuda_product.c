/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_product.c: see cuda_product.h. The tiled kernel takes every layout and most dtypes; it is for what the library
   does not take, and for machines without the library. */
#include "backend/cuda/cuda_product.h"

#include "backend/cuda/cuda_compile.h"
#include "backend/cuda/node/cuda_few_rows.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

/* ---- Layouts ---- */

static void push(flxi_cuda_walk *w, int64_t extent, int64_t stride)
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
static void matmul_batch(const flx_type *t, const flx_type *y, flxi_cuda_walk *w)
{
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (int k = 0; k < y->rank - 2; k++) {
        int own = k - (y->rank - t->rank);
        bool is_repeated = own < 0 || t->dims[own] == 1;
        push(w, y->dims[k], is_repeated ? 0 : strides[own]);
    }
}

static void matmul_layout(const flxi_device_node *n, flxi_cuda_product *p)
{
    const flx_type *a = n->in_types[0], *b = n->in_types[1], *y = n->out_types[0];
    matmul_batch(a, y, &p->a_batch);
    matmul_batch(b, y, &p->b_batch);
    push(&p->a_line, y->dims[y->rank - 2], a->dims[a->rank - 1]);
    push(&p->a_depth, a->dims[a->rank - 1], 1);
    push(&p->b_line, y->dims[y->rank - 1], 1);
    push(&p->b_depth, a->dims[a->rank - 1], y->dims[y->rank - 1]);
}

static bool has_axis(const flx_ints *axes, int64_t axis)
{
    for (size_t i = 0; i < axes->n; i++)
        if (axes->v[i] == axis)
            return true;
    return false;
}

static void dot_side(const flx_type *t, const flx_ints *contracted, const flx_ints *batch, flxi_cuda_walk *of_batch,
                     flxi_cuda_walk *line, flxi_cuda_walk *depth)
{
    int64_t strides[FLX_MAX_RANK];
    flxi_strides(t, strides);
    for (size_t i = 0; i < batch->n; i++)
        push(of_batch, t->dims[batch->v[i]], strides[batch->v[i]]);
    for (size_t i = 0; i < contracted->n; i++)
        push(depth, t->dims[contracted->v[i]], strides[contracted->v[i]]);
    for (int k = 0; k < t->rank; k++)
        if (!has_axis(contracted, k) && !has_axis(batch, k))
            push(line, t->dims[k], strides[k]);
}

static void dot_layout(const flxi_device_node *n, flxi_cuda_product *p)
{
    const flxi_op *op = &flxi_ops[n->op];
    dot_side(n->in_types[0], flxi_attr_ints(op, n->attrs, "lc"), flxi_attr_ints(op, n->attrs, "lb"), &p->a_batch,
             &p->a_line, &p->a_depth);
    dot_side(n->in_types[1], flxi_attr_ints(op, n->attrs, "rc"), flxi_attr_ints(op, n->attrs, "rb"), &p->b_batch,
             &p->b_line, &p->b_depth);
}

static uint32_t count_of(const flxi_cuda_walk *w)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < w->rank; i++)
        n *= w->extent[i];
    return n;
}

/* Products of a batch that share b are one product of all their rows, where those are equally far apart. */
static void join_rows(flxi_cuda_product *p)
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

const char *flxi_cuda_refuse_product(const flxi_device_node *n)
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

/* More is not faster, and with less large products take up to 10% longer. */
static size_t workspace_of(const flxi_cuda_product *p)
{
    double work = (double)p->m * p->n * p->k * p->batches;
    return work > 1e7 ? (size_t)32 << 20 : work > 1e6 ? (size_t)4 << 20 : 0;
}

flxi_cuda_product_plan flxi_cuda_plan_product(const flxi_device_node *n)
{
    flxi_cuda_product_plan plan;
    flxi_cuda_product *p = &plan.product;
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
    plan.workspace = workspace_of(p);
    return plan;
}

/* ---- The kernel ---- */

/* By dtype: the type of an element, that of a sum, and how they become each other. */
static const struct {
    int32_t dtype;
    const char *types;
} numbers[] = {
#define PLAIN(type) "typedef " type " T;\ntypedef " type " A;\n#define LOAD(x) (x)\n#define SAVE(x) (x)\n"
#define REAL "#define ZERO 0\n#define STEP(c, x, y) ((c) + (x) * (y))\n"
    {FLX_F32, PLAIN("float") "#define ZERO 0.0f\n#define STEP(c, x, y) __fmaf_rn(x, y, c)\n"},
    {FLX_F64, PLAIN("double") "#define ZERO 0.0\n#define STEP(c, x, y) __fma_rn(x, y, c)\n"},
    {FLX_I8, PLAIN("signed char") REAL},
    {FLX_U8, PLAIN("unsigned char") REAL},
    {FLX_I16, PLAIN("short") REAL},
    {FLX_U16, PLAIN("unsigned short") REAL},
    {FLX_I32, PLAIN("unsigned") REAL}, /* sums wrap */
    {FLX_U32, PLAIN("unsigned") REAL},
    {FLX_I64, PLAIN("unsigned long long") REAL},
    {FLX_U64, PLAIN("unsigned long long") REAL},
    {FLX_BF16, "typedef unsigned short T;\ntypedef float A;\n#define ZERO 0.0f\n"
               "#define LOAD(x) __uint_as_float((unsigned)(x) << 16)\n"
               "static __device__ T save(float x)\n{\n    T r;\n"
               "    asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n    return r;\n}\n"
               "#define SAVE(x) save(x)\n#define STEP(c, x, y) __fmaf_rn(x, y, c)\n"},
    {FLX_F16, "typedef unsigned short T;\ntypedef float A;\n#define ZERO 0.0f\n"
              "static __device__ float load(T x)\n{\n    float r;\n"
              "    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x));\n    return r;\n}\n"
              "static __device__ T save(float x)\n{\n    T r;\n"
              "    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n    return r;\n}\n"
              "#define LOAD(x) load(x)\n#define SAVE(x) save(x)\n#define STEP(c, x, y) __fmaf_rn(x, y, c)\n"},
#define COMPLEX(real, fma)                                                                                      \
    "struct T {\n    " real " x, y;\n};\ntypedef T A;\n#define LOAD(x) (x)\n#define SAVE(x) (x)\n#define ZERO " \
    "T{0, 0}\n"                                                                                                 \
    "static __device__ T step(T c, T x, T y)\n{\n"                                                              \
    "    return T{" fma "(-x.y, y.y, " fma "(x.x, y.x, c.x)), " fma "(x.y, y.x, " fma "(x.x, y.y, c.y))};\n}\n" \
    "static __device__ T operator+(T x, T y)\n{\n    return T{x.x + y.x, x.y + y.y};\n}\n"                      \
    "#define STEP(c, x, y) step(c, x, y)\n"
    {FLX_C64, COMPLEX("float", "__fmaf_rn")},
    {FLX_C128, COMPLEX("double", "__fma_rn")},
};

/* product: a block of 32 x 8 threads has a tile of 32 x 32 results; each thread has four of them, in one column.
   thin: a block has 32 neighbouring results of one row, and each of its warps an equal part of their depth: a wait for
   memory is as long as a few rows, so there are more warps where there are few blocks. */
static const char body[] =
    "struct walk {\n    unsigned rank, extent[16];\n    long long stride[16];\n};\n"
    "struct product_layout {\n    unsigned m, n, k, batches;\n"
    "    walk a_batch, a_line, a_depth, b_batch, b_line, b_depth;\n};\n"
    "static __device__ long long at(const walk &w, unsigned i)\n{\n    long long offset = 0;\n"
    "    for (unsigned d = w.rank; d-- > 0;) {\n        const unsigned q = i / w.extent[d];\n"
    "        offset += (long long)(i - q * w.extent[d]) * w.stride[d];\n        i = q;\n    }\n"
    "    return offset;\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256)\n"
    "product(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ c, const __grid_constant__ "
    "product_layout p)\n{\n"
    "    __shared__ A as[32][33], bs[32][33];\n"
    "    const unsigned wide = (p.n + 31) / 32, high = (p.m + 31) / 32, tx = threadIdx.x, ty = threadIdx.y;\n"
    "    const unsigned tile = blockIdx.x, col = tile % wide * 32 + tx, top = tile / wide % high * 32;\n"
    "    const unsigned batch = tile / wide / high;\n"
    "    a += at(p.a_batch, batch);\n    b += at(p.b_batch, batch);\n"
    "    c += (long long)batch * p.m * p.n;\n"
    "    A sum[4] = {ZERO, ZERO, ZERO, ZERO};\n"
    "    for (unsigned k = 0; k < p.k; k += 32) {\n"
    "        for (unsigned r = ty; r < 32; r += 8) {\n"
    "            const unsigned row = top + r, depth = k + tx;\n"
    "            as[r][tx] = row < p.m && depth < p.k ? (A)LOAD(a[at(p.a_line, row) + at(p.a_depth, depth)]) : ZERO;\n"
    "            bs[r][tx] = col < p.n && k + r < p.k ? (A)LOAD(b[at(p.b_line, col) + at(p.b_depth, k + r)]) : ZERO;\n"
    "        }\n        __syncthreads();\n"
    "        const unsigned end = p.k - k < 32 ? p.k - k : 32;\n"
    "        for (unsigned j = 0; j < end; j++)\n"
    "            for (int i = 0; i < 4; i++)\n"
    "                sum[i] = STEP(sum[i], as[ty + 8 * i][j], bs[j][tx]);\n"
    "        __syncthreads();\n    }\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        if (top + ty + 8 * i < p.m && col < p.n)\n"
    "            c[(long long)(top + ty + 8 * i) * p.n + col] = SAVE(sum[i]);\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(1024)\n"
    "thin(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ c, const __grid_constant__ "
    "product_layout p)\n{\n"
    "    __shared__ A part[32][32];\n"
    "    const unsigned wide = (p.n + 31) / 32, tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.x / wide % p.m;\n"
    "    const unsigned col = blockIdx.x % wide * 32 + tx, batch = blockIdx.x / wide / p.m;\n"
    "    const unsigned own = (p.k + blockDim.y - 1) / blockDim.y;\n"
    "    const unsigned begin = ty * own, end = begin + own < p.k ? begin + own : p.k;\n"
    "    const long long step_a = p.a_depth.stride[0], step_b = p.b_depth.stride[0];\n"
    "    a += at(p.a_batch, batch) + at(p.a_line, row) + begin * step_a;\n"
    "    b += at(p.b_batch, batch) + at(p.b_line, col < p.n ? col : 0) + begin * step_b;\n"
    "    A sum = ZERO;\n"
    "    #pragma unroll 8\n"
    "    for (unsigned k = begin; k < end; k++) {\n"
    "        sum = STEP(sum, (A)LOAD(*a), (A)LOAD(*b));\n        a += step_a;\n        b += step_b;\n    }\n"
    "    part[ty][tx] = sum;\n    __syncthreads();\n"
    "    if (ty != 0 || col >= p.n)\n        return;\n"
    "    for (unsigned i = 1; i < blockDim.y; i++)\n        sum = sum + part[i][tx];\n"
    "    c[((long long)batch * p.m + row) * p.n + col] = SAVE(sum);\n}\n";

_Static_assert(sizeof numbers / sizeof *numbers == FLXI_CUDA_NUM_NUMBERS, "all of them");

int32_t flxi_cuda_number_of(int32_t dtype)
{
    for (int32_t i = 0; i < FLXI_CUDA_NUM_NUMBERS; i++)
        if (numbers[i].dtype == dtype)
            return i;
    return -1;
}

int32_t flxi_cuda_number_at(int32_t number)
{
    return numbers[number].dtype;
}

const char *flxi_cuda_number_text(int32_t dtype)
{
    int32_t i = flxi_cuda_number_of(dtype);
    return i < 0 ? NULL : numbers[i].types;
}

flx_code flxi_cuda_product_text(int32_t dtype, flxi_strbuf *out, flx_error *err)
{
    const char *types = flxi_cuda_number_text(dtype);
    if (!types)
        return flxi_fail(err, FLX_E_INTERNAL, "no product of %s", flx_dtype_name((flx_dtype)dtype));
    flxi_add_text(out, types);
    flxi_add_text(out, body);
    return out->failed ? flxi_oom(err, "a kernel") : FLX_OK;
}

static flx_code compile_own(flxi_card *card, int32_t dtype, flxi_cuda_own_kernel *k, flx_error *err)
{
    const flxi_cache_options cache = {0};
    flxi_strbuf text;
    flxi_strbuf_init(&text, card->mem);
    flx_code code = flxi_cuda_product_text(dtype, &text, err);
    if (code == FLX_OK)
        code = flxi_cuda_compile(card, &cache, &text, 1, &k->module, NULL, err);
    flxi_strbuf_free(&text);
    if (code == FLX_OK)
        FLXI_CU_TRY(card->cu, err, ModuleGetFunction, &k->thin, k->module, "thin");
    if (code == FLX_OK)
        FLXI_CU_TRY(card->cu, err, ModuleGetFunction, &k->function, k->module, "product");
    return code;
}

static flx_code own_kernel(flxi_card *card, int32_t dtype, bool is_thin, flxi_cu_function *out, flx_error *err)
{
    flxi_cuda_own_kernel *k = &card->products[dtype];
    pthread_mutex_lock(&card->lock);
    flx_code code = k->function ? FLX_OK : compile_own(card, dtype, k, err);
    *out = is_thin ? k->thin : k->function;
    pthread_mutex_unlock(&card->lock);
    return code;
}

/* Few columns with a long depth: the library has too few blocks for them. Depths have one stride, and neighbouring
   results are neighbours in b. */
static bool is_thin(const flxi_cuda_product_plan *plan)
{
    const flxi_cuda_product *p = &plan->product;
    bool is_real = flxi_in(FLXI_FLOATS, plan->dtype);
    bool is_near = p->b_line.rank == 1 && p->b_line.stride[0] == 1;
    return is_real && is_near && p->a_depth.rank == 1 && p->b_depth.rank == 1 && p->k >= 192 && p->m >= 8 &&
           p->n <= 16 && (uint64_t)p->m * p->batches <= 4096;
}

/* A thread waits for its loads one after the other, so that few blocks want many threads. */
static unsigned warps_of(const flxi_cuda_product_plan *plan, uint64_t tiles)
{
    enum { FEW_TILES = 264 }; /* two for each multiprocessor */
    return is_thin(plan) && tiles <= FEW_TILES ? 32 : 8;
}

static flx_code run_own(flxi_card *card, flxi_cu_stream stream, const flxi_cuda_product_plan *plan,
                        const void *const in[2], void *out, flx_error *err)
{
    flxi_cu_function f;
    const flxi_cuda_product *p = &plan->product;
    uint64_t tiles = (uint64_t)(is_thin(plan) ? p->m : (p->m + 31) / 32) * ((p->n + 31) / 32) * p->batches;
    void *parameters[] = {(void *)(uintptr_t)&in[0], (void *)(uintptr_t)&in[1], &out, (void *)(uintptr_t)p};
    FLXI_TRY(own_kernel(card, plan->dtype, is_thin(plan), &f, err));
    if (tiles > INT32_MAX)
        return flxi_fail(err, FLX_E_SIZE, "a product of %llu tiles is too large", (unsigned long long)tiles);
    FLXI_CU_TRY(card->cu, err, LaunchKernel, f, (unsigned)tiles, 1, 1, 32, warps_of(plan, tiles), 1, 0, stream,
                parameters, NULL);
    return FLX_OK;
}

flx_code flxi_cuda_run_product(flxi_card *card, flxi_cu_stream stream, const flxi_cuda_product_plan *p,
                               const void *const in[2], void *out, void *scratch, flx_error *err)
{
    bool done = false;
    size_t count = (size_t)p->product.m * p->product.n * p->product.batches;
    if (count == 0)
        return FLX_OK;
    if (p->product.k == 0) {
        FLXI_CU_TRY(card->cu, err, MemsetD8Async, (flxi_cu_address)(uintptr_t)out, 0,
                    count * flx_dtype_size((flx_dtype)p->dtype), stream);
        return FLX_OK;
    }
    if (flxi_cuda_is_few(p, in[1]))
        return flxi_cuda_run_few(card, stream, p, in, out, err);
    if (!is_thin(p))
        FLXI_TRY(flxi_cuda_run_lt(card, stream, p, in, out, scratch, &done, err));
    return done ? FLX_OK : run_own(card, stream, p, in, out, err);
}
