/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_running.c: cumsum, cumprod, cummax and cummin on the card. A block has a row, which it walks in pieces as wide
   as itself; where the axis is not the last one, a thread has a column. Floats are summed in f64, as by definition for
   f32. The order is fixed. */
#include "backend/cuda/cuda_way.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

typedef struct {
    flxi_split split;
    int32_t variant;
    uint32_t exclusive, reverse;
} running_table;

/* ---- Text ---- */

typedef enum { FOLD_SUM, FOLD_PRODUCT, FOLD_MAX, FOLD_MIN, NUM_FOLDS } fold;

/* T: an element, A: what is folded. Integers wrap, except where their order counts. */
static const struct {
    int32_t dtype;
    const char *element, *folded, *ordered;
    const char *most, *least; /* the first value of a minimum, and of a maximum */
} numbers[] = {
    {FLX_F64, "double", "double", "double", "INF", "-INF"},
    {FLX_F32, "float", "double", "double", "INF", "-INF"},
    {FLX_BF16, "unsigned short", "double", "double", "INF", "-INF"},
    {FLX_F16, "unsigned short", "double", "double", "INF", "-INF"},
    {FLX_I8, "signed char", "unsigned", "int", "127", "-128"},
    {FLX_U8, "unsigned char", "unsigned", "unsigned", "255u", "0u"},
    {FLX_BOOL, "unsigned char", "unsigned", "unsigned", "1u", "0u"},
    {FLX_I16, "short", "unsigned", "int", "32767", "-32768"},
    {FLX_U16, "unsigned short", "unsigned", "unsigned", "65535u", "0u"},
    {FLX_I32, "int", "unsigned", "int", "2147483647", "(-2147483647 - 1)"},
    {FLX_U32, "unsigned", "unsigned", "unsigned", "~0u", "0u"},
    {FLX_I64, "long long", "unsigned long long", "long long", "9223372036854775807ll", "(-9223372036854775807ll - 1)"},
    {FLX_U64, "unsigned long long", "unsigned long long", "unsigned long long", "~0ull", "0ull"},
};

enum { NUM_NUMBERS = sizeof numbers / sizeof *numbers };

static const char conversions[] =
    "typedef unsigned long long u64;\n#define INF __longlong_as_double(0x7ff0000000000000ll)\n"
    "static __device__ float narrow_value(unsigned short x)\n{\n    float y;\n    NARROW_VALUE\n    return y;\n}\n"
    "static __device__ unsigned short narrow_bits(double x)\n{\n"
    /* Rounding twice gives what rounding once gives, if the first result is odd wherever it is inexact. */
    "    float f = __double2float_rz(x);\n"
    "    if ((double)f != x && x == x)\n        f = __uint_as_float(__float_as_uint(f) | 1u);\n"
    "    unsigned short y;\n    NARROW_BITS\n    return y;\n}\n";

/* Of extrema the first NaN stays, and +0 is above -0. */
static const char folds[] = "static __device__ double larger(double a, double b)\n"
                            "{ return a != a ? a : b != b ? b : a > b ? a : b > a ? b : signbit(a) ? b : a; }\n"
                            "static __device__ double smaller(double a, double b)\n"
                            "{ return a != a ? a : b != b ? b : a < b ? a : b < a ? b : signbit(a) ? a : b; }\n"
                            "template <class X> static __device__ X larger(X a, X b) { return a > b ? a : b; }\n"
                            "template <class X> static __device__ X smaller(X a, X b) { return a < b ? a : b; }\n";

static const char body[] =
    "extern \"C\" __global__ void __launch_bounds__(256) run_rows(const T *x, T *y, u64 n, unsigned exclusive, "
    "unsigned reverse)\n{\n"
    "    __shared__ A whole[8];\n    const u64 base = (u64)blockIdx.x * n;\n"
    "    const unsigned t = threadIdx.x, lane = t % 32u, warp = t / 32u;\n    A before = START;\n"
    "    for (u64 k = 0; k < n; k += 256u) {\n"
    "        const bool is_in = k + t < n;\n        const u64 at = base + (reverse ? n - 1 - (k + t) : k + t);\n"
    "        A sum = is_in ? (A)LOAD(x[at]) : START;\n"
    "        for (unsigned d = 1; d < 32u; d *= 2) {\n"
    "            const A left = __shfl_up_sync(~0u, sum, d);\n            if (lane >= d)\n"
    "                sum = FOLD(left, sum);\n        }\n"
    "        A left = __shfl_up_sync(~0u, sum, 1);\n        if (lane == 0)\n            left = START;\n"
    "        if (lane == 31u)\n            whole[warp] = sum;\n        __syncthreads();\n"
    "        A offset = before;\n        for (unsigned w = 0; w < warp; w++)\n"
    "            offset = FOLD(offset, whole[w]);\n"
    "        if (is_in)\n            y[at] = SAVE(FOLD(offset, exclusive ? left : sum));\n"
    "        for (unsigned w = 0; w < 8u; w++)\n            before = FOLD(before, whole[w]);\n"
    "        __syncthreads();\n    }\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) run_columns(const T *x, T *y, u64 n, unsigned exclusive, "
    "unsigned reverse, u64 inner, u64 lines)\n{\n"
    "    const u64 i = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (i >= lines)\n        return;\n"
    "    const u64 base = i / inner * n * inner + i % inner;\n    A sum = START;\n"
    "    for (u64 k = 0; k < n; k++) {\n"
    "        const u64 at = base + (reverse ? n - 1 - k : k) * inner;\n"
    "        const A next = FOLD(sum, (A)LOAD(x[at]));\n"
    "        y[at] = SAVE(exclusive ? sum : next);\n        sum = next;\n    }\n}\n";

static bool is_narrow(int32_t dtype)
{
    return dtype == FLX_BF16 || dtype == FLX_F16;
}

static flx_code write_running(int32_t variant, flxi_strbuf *out, flx_error *err)
{
    fold f = (fold)(variant % NUM_FOLDS);
    int32_t number = variant / NUM_FOLDS, dtype = numbers[number].dtype;
    const char *type = dtype == FLX_BF16 ? "bf16" : "f16";
    bool is_ordered = f == FOLD_MAX || f == FOLD_MIN, is_bool = dtype == FLX_BOOL;
    (void)err;
    flxi_addf(out, "#define NARROW_VALUE %s\n",
              dtype == FLX_BF16 ? "y = __uint_as_float((unsigned)x << 16);"
                                : "asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x));");
    flxi_addf(out, "#define NARROW_BITS asm(\"cvt.rn.%s.f32 %%0, %%1;\" : \"=h\"(y) : \"f\"(f));\n", type);
    flxi_add_text(out, conversions);
    flxi_add_text(out, folds);
    flxi_addf(out, "typedef %s T;\ntypedef %s A;\n", numbers[number].element,
              is_ordered ? numbers[number].ordered : numbers[number].folded);
    flxi_add_text(out, is_narrow(dtype) ? "#define LOAD(x) narrow_value(x)\n#define SAVE(x) narrow_bits(x)\n"
                                        : "#define LOAD(x) (x)\n#define SAVE(x) ((T)(x))\n");
    flxi_addf(out, "#define START ((A)%s)\n#define FOLD(a, b) ((A)%s)\n",
              f == FOLD_SUM       ? "0"
              : f == FOLD_PRODUCT ? "1"
              : f == FOLD_MAX     ? numbers[number].least
                                  : numbers[number].most,
              f == FOLD_SUM       ? is_bool ? "((a) | (b))" : "((a) + (b))"
              : f == FOLD_PRODUCT ? is_bool ? "((a) & (b))" : "((a) * (b))"
              : f == FOLD_MAX     ? "larger(a, b)"
                                  : "smaller(a, b)");
    flxi_add_text(out, body);
    return FLX_OK;
}

const flxi_cuda_text flxi_cuda_running_text = {write_running, NUM_NUMBERS *NUM_FOLDS};

/* ---- Nodes ---- */

static int32_t number_of(int32_t dtype)
{
    for (int32_t i = 0; i < NUM_NUMBERS; i++)
        if (numbers[i].dtype == dtype)
            return i;
    return -1;
}

static const char *refuse(const flxi_device_node *n)
{
    return number_of(n->in_types[0]->dtype) < 0 ? "for real numbers" : NULL;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    const flxi_op *op = &flxi_ops[n->op];
    running_table t = {.split = flxi_split_at(n->in_types[0], flxi_attr_int(op, n->attrs, "axis")),
                       .exclusive = flxi_attr_int(op, n->attrs, "exclusive") != 0,
                       .reverse = flxi_attr_int(op, n->attrs, "reverse") != 0};
    fold f = n->op == OP_cumsum    ? FOLD_SUM
             : n->op == OP_cumprod ? FOLD_PRODUCT
             : n->op == OP_cummax  ? FOLD_MAX
                                   : FOLD_MIN;
    t.variant = number_of(n->in_types[0]->dtype) * NUM_FOLDS + (int32_t)f;
    memcpy(table, &t, sizeof t);
    return 0;
}

static flx_code run(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err)
{
    running_table t = *(const running_table *)s->way->table;
    flxi_cu_function f;
    bool by_rows = t.split.inner == 1;
    uint64_t lines = (uint64_t)t.split.outer * (uint64_t)t.split.inner;
    void *parameters[] = {(void *)(uintptr_t)&s->in[0],
                          (void *)(uintptr_t)&s->out[0],
                          &t.split.n,
                          &t.exclusive,
                          &t.reverse,
                          &t.split.inner,
                          &lines};
    FLXI_TRY(flxi_cuda_own_function(card, &flxi_cuda_running_text, t.variant, by_rows ? "run_rows" : "run_columns", &f,
                                    err));
    return flxi_cuda_launch_line(card, stream, f, by_rows ? lines : (lines + 255) / 256, 256, parameters, err);
}

const flxi_cuda_way flxi_cuda_running = {"pieces", refuse, sizeof(running_table), prepare, run};
