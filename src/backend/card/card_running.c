/* SPDX-License-Identifier: Apache-2.0 */
/* card_running.c: cumsum, cumprod, cummax and cummin on the card. A block has a row, which it walks in pieces as wide
   as itself; where the axis is not the last one, a thread has a column; in OpenCL, which has no subgroups everywhere,
   always. Floats are summed in f64, as by definition for
   f32. The order is fixed. */
#include "backend/card/card_numbers.h"
#include "backend/card/card_way.h"
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
    {FLX_BF16, "u16", "double", "double", "INF", "-INF"},
    {FLX_F16, "u16", "double", "double", "INF", "-INF"},
    {FLX_I8, "i8", "u32", "i32", "127", "-128"},
    {FLX_U8, "u8", "u32", "u32", "255u", "0u"},
    {FLX_BOOL, "u8", "u32", "u32", "1u", "0u"},
    {FLX_I16, "i16", "u32", "i32", "32767", "-32768"},
    {FLX_U16, "u16", "u32", "u32", "65535u", "0u"},
    {FLX_I32, "i32", "u32", "i32", "2147483647", "(-2147483647 - 1)"},
    {FLX_U32, "u32", "u32", "u32", "~0u", "0u"},
    {FLX_I64, "i64", "u64", "i64", "I64(9223372036854775807)", "(-I64(9223372036854775807) - 1)"},
    {FLX_U64, "u64", "u64", "u64", "~U64(0)", "U64(0)"},
};

enum { NUM_NUMBERS = sizeof numbers / sizeof *numbers };

/* Rounding twice gives what rounding once gives, if the first result is odd wherever it is inexact. */
static const char narrow[] = "FUNCTION u16 narrow_bits(double x)\n{\n    float f = TOWARDS_ZERO(x);\n"
                             "    if ((double)f != x && x == x)\n        f = F32_OF(BITS_OF(f) | 1u);\n"
                             "    return NARROW(f);\n}\n";

static const char rows[] =
    "KERNEL(256) run_rows(GLOBAL const T *x, GLOBAL T *y, u64 n, u32 exclusive, u32 reverse)\n{\n"
    "    SHARED A whole[8];\n    const u64 base = (u64)GROUP * n;\n"
    "    const u32 t = OWN, lane = t % 32u, warp = t / 32u;\n    A before = START;\n"
    "    for (u64 k = 0; k < n; k += 256u) {\n"
    "        const bool is_in = k + t < n;\n        const u64 at = base + (reverse ? n - 1 - (k + t) : k + t);\n"
    "        A sum = is_in ? (A)LOAD(x[at]) : START;\n"
    "        for (u32 d = 1; d < 32u; d *= 2) {\n"
    "            const A left = __shfl_up_sync(~0u, sum, d);\n            if (lane >= d)\n"
    "                sum = FOLD(left, sum);\n        }\n"
    "        A left = __shfl_up_sync(~0u, sum, 1);\n        if (lane == 0)\n            left = START;\n"
    "        if (lane == 31u)\n            whole[warp] = sum;\n        MEET;\n"
    "        A offset = before;\n        for (u32 w = 0; w < warp; w++)\n"
    "            offset = FOLD(offset, whole[w]);\n"
    "        if (is_in)\n            y[at] = SAVE(FOLD(offset, exclusive ? left : sum));\n"
    "        for (u32 w = 0; w < 8u; w++)\n            before = FOLD(before, whole[w]);\n"
    "        MEET;\n    }\n}\n";

static const char columns[] =
    "KERNEL(256) run_columns(GLOBAL const T *x, GLOBAL T *y, u64 n, u32 exclusive, u32 reverse, u64 inner, "
    "u64 lines)\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN;\n    if (i >= lines)\n        return;\n"
    "    const u64 base = i / inner * n * inner + i % inner;\n    A sum = START;\n"
    "    for (u64 k = 0; k < n; k++) {\n"
    "        const u64 at = base + (reverse ? n - 1 - k : k) * inner;\n"
    "        const A next = FOLD(sum, (A)LOAD(x[at]));\n"
    "        y[at] = SAVE(exclusive ? sum : next);\n        sum = next;\n    }\n}\n";

static bool is_narrow(int32_t dtype)
{
    return dtype == FLX_BF16 || dtype == FLX_F16;
}

static void add_elements(int32_t dtype, flxi_strbuf *out)
{
    const char *type = dtype == FLX_BF16 ? "bf16" : "f16";
    if (!is_narrow(dtype)) {
        flxi_add_text(out, "#define LOAD(x) (x)\n#define SAVE(x) ((T)(x))\n");
        return;
    }
    flxi_addf(out, "#define LOAD(x) %s_value(x)\n#define SAVE(x) narrow_bits(x)\n#define NARROW(x) %s_bits(x)\n", type,
              type);
    flxi_add_text(out, narrow);
}

/* How two are folded. */
static void add_fold(fold f, int32_t dtype, flxi_strbuf *out)
{
    bool is_bool = dtype == FLX_BOOL;
    if (f == FOLD_SUM || f == FOLD_PRODUCT) {
        char sign = f == FOLD_SUM ? (is_bool ? '|' : '+') : is_bool ? '&' : '*';
        flxi_addf(out, "#define FOLD(a, b) ((A)((a) %c (b)))\n", sign);
        return;
    }
    flxi_add_text(out, "#define FOLD(a, b) chosen(a, b)\n");
}

static void write_running(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    fold f = (fold)(variant % NUM_FOLDS);
    int32_t number = variant / NUM_FOLDS, dtype = numbers[number].dtype;
    bool is_ordered = f == FOLD_MAX || f == FOLD_MIN;
    const char *type = is_ordered ? numbers[number].ordered : numbers[number].folded;
    const char *const starts[NUM_FOLDS] = {"0", "1", numbers[number].least, numbers[number].most};
    flxi_card_add_dialect(language, out);
    flxi_addf(out, "#define INF F64_OF(I64(0x7ff0000000000000))\ntypedef %s T;\ntypedef %s A;\n#define START ((A)%s)\n",
              numbers[number].element, type, starts[f]);
    add_elements(dtype, out);
    if (is_ordered)
        flxi_card_add_chosen(type, f == FOLD_MAX, out);
    add_fold(f, dtype, out);
    if (language == FLXI_CARD_CUDA)
        flxi_add_text(out, rows);
    flxi_add_text(out, columns);
}

const flxi_card_text flxi_card_running_text = {write_running, NUM_NUMBERS *NUM_FOLDS};

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

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    running_table t = *(const running_table *)s->way->table;
    bool by_rows = t.split.inner == 1 && on->language == FLXI_CARD_CUDA;
    uint64_t lines = (uint64_t)t.split.outer * (uint64_t)t.split.inner;
    const flxi_card_argument arguments[] = {FLXI_ADDRESS(s->in[0]),  FLXI_ADDRESS(s->out[0]), FLXI_VALUE(t.split.n),
                                            FLXI_VALUE(t.exclusive), FLXI_VALUE(t.reverse),   FLXI_VALUE(t.split.inner),
                                            FLXI_VALUE(lines)};
    const uint32_t of_rows = 5;
    return flxi_card_launch_line(on, &flxi_card_running_text, t.variant, by_rows ? "run_rows" : "run_columns",
                                 by_rows ? 256 * lines : lines, arguments,
                                 by_rows ? of_rows : FLXI_CARD_COUNT(arguments), err);
}

const flxi_card_way flxi_card_running = {.name = "pieces",
                                         .refuse = refuse,
                                         .table_bytes = sizeof(running_table),
                                         .prepare = prepare,
                                         .run = run,
                                         .needs_f64 = true};
