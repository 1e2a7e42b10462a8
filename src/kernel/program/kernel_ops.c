/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_ops.c: the tables of types, ops and spellings of kernel programs. */
#include "kernel/program/kernel.h"

/* By number; gaps are rows of zeros. */
static const flxi_ktype types[] = {
    [FLX_F64] = {"f64", 64, TAKES_FLOAT, 0, FLX_F64},
    [FLX_F32] = {"f32", 32, TAKES_FLOAT, 0, FLX_F32},
    [FLX_F16] = {"f16", 16, TAKES_FLOAT, 0, FLX_F16},
    [FLX_BF16] = {"bf16", 16, TAKES_FLOAT, 0, FLX_BF16},
    [FLX_I64] = {"i64", 64, TAKES_SIGNED, 0, FLX_I64},
    [FLX_I32] = {"i32", 32, TAKES_SIGNED, 0, FLX_I32},
    [FLX_I16] = {"i16", 16, TAKES_SIGNED, 0, FLX_I16},
    [FLX_I8] = {"i8", 8, TAKES_SIGNED, 0, FLX_I8},
    [FLX_U64] = {"u64", 64, TAKES_UNSIGNED, 0, FLX_U64},
    [FLX_U32] = {"u32", 32, TAKES_UNSIGNED, 0, FLX_U32},
    [FLX_U16] = {"u16", 16, TAKES_UNSIGNED, 0, FLX_U16},
    [FLX_U8] = {"u8", 8, TAKES_UNSIGNED, 0, FLX_U8},
    [FLX_BOOL] = {"bool", 1, TAKES_BOOL, 0, FLX_BOOL},
    [FLX_KERNEL_F8E4M3] = {"f8e4m3", 8, TAKES_FLOAT, 1, FLX_F32},
    [FLX_KERNEL_F8E5M2] = {"f8e5m2", 8, TAKES_FLOAT, 1, FLX_F32},
    [FLX_KERNEL_I4] = {"i4", 4, TAKES_SIGNED, 1, FLX_I32},
    [FLX_KERNEL_U4] = {"u4", 4, TAKES_UNSIGNED, 1, FLX_U32},
    [FLX_KERNEL_FP4] = {"fp4", 4, TAKES_FLOAT, 1, FLX_F32},
    [FLX_KERNEL_NF4] = {"nf4", 4, TAKES_FLOAT, 1, FLX_F32},
    [FLX_KERNEL_BYTES] = {"bytes", 8, 0, 1, 0},
    [FLX_KERNEL_RECORDS] = {"records", 8, 0, 1, 0},
    [FLX_KERNEL_TENSOR] = {"tensor", 8, 0, 1, 0},
    [FLX_KERNEL_SPARSE] = {"sparse", 8, 0, 1, 0},
    [FLX_KERNEL_QUANTISED] = {"quantised", 8, 0, 1, 0},
    [FLX_KERNEL_MESH] = {"mesh", 8, 0, 1, 0},
    [FLX_KERNEL_HANDLE] = {"handle", 8, 0, 1, 0},
    [FLX_KERNEL_EXTENSION_TYPE] = {"extension", 8, 0, 1, 0},
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const flxi_ktype *flxi_ktype_of(uint32_t type)
{
    return &types[type < TYPE_COUNT ? type : 0];
}

const char *flx_kernel_type_name(uint32_t type)
{
    const char *name = flxi_ktype_of(type)->name;
    return name ? name : "none";
}

uint32_t flxi_ktype_find(const char *name, size_t n)
{
    for (uint32_t t = 1; t < TYPE_COUNT; t++)
        if (types[t].name && strlen(types[t].name) == n && memcmp(types[t].name, name, n) == 0)
            return t;
    return 0;
}

size_t flxi_ktype_bytes(uint32_t type, uint64_t count)
{
    uint64_t bits = type == FLX_BOOL ? 32 : flxi_ktype_of(type)->bits;
    if (bits == 4)
        return (size_t)(count / 2 + count % 2);
    size_t bytes;
    return count <= SIZE_MAX && flxi_mul_size((size_t)count, (size_t)(bits / 8), &bytes) ? bytes : SIZE_MAX;
}

bool flxi_ktype_fits(uint32_t type, unsigned kinds)
{
    const flxi_ktype *t = flxi_ktype_of(type);
    return !t->storage && ((t->kind & kinds) != 0 || (type == FLX_U32 && (kinds & TAKES_WORD)));
}

/* ---- Ops ---- */

const flxi_kop flxi_kunaries[KUN_COUNT] = {
#define KERNEL_UNARY(name, sign, kinds, result, doc) [KUN_##name] = {#name, sign, kinds, KRESULT_##result, doc},
#include "kernel/program/kernel_ops.def"
};

const flxi_kop flxi_kbinaries[KBIN_COUNT] = {
#define KERNEL_BINARY(name, sign, kinds, result, doc) [KBIN_##name] = {#name, sign, kinds, KRESULT_##result, doc},
#include "kernel/program/kernel_ops.def"
};

static uint8_t find_op(const flxi_kop *ops, uint8_t count, const char *name, size_t n)
{
    for (uint8_t i = 1; i < count; i++)
        if (strlen(ops[i].name) == n && memcmp(ops[i].name, name, n) == 0)
            return i;
    return 0;
}

uint8_t flxi_kunary_find(const char *name, size_t n)
{
    return find_op(flxi_kunaries, KUN_COUNT, name, n);
}

uint8_t flxi_kbinary_find(const char *name, size_t n)
{
    return find_op(flxi_kbinaries, KBIN_COUNT, name, n);
}

static uint32_t unsigned_of(uint32_t type)
{
    switch (type) {
    case FLX_I64: return FLX_U64;
    case FLX_I32: return FLX_U32;
    case FLX_I16: return FLX_U16;
    case FLX_I8: return FLX_U8;
    default: return type;
    }
}

uint32_t flxi_kop_type(const flxi_kop *op, uint32_t operand_type)
{
    if (!flxi_ktype_fits(operand_type, op->kinds))
        return 0;
    switch (op->result) {
    case KRESULT_BOOL: return FLX_BOOL;
    case KRESULT_UNSIGNED: return unsigned_of(operand_type);
    case KRESULT_SAME: break;
    }
    return operand_type;
}

/* ---- Spellings ---- */

const char *const flxi_katomic_names[FLX_KERNEL_ATOMIC_COUNT] = {
    [FLX_KERNEL_ATOMIC_ADD] = "add",
    [FLX_KERNEL_ATOMIC_SUB] = "sub",
    [FLX_KERNEL_ATOMIC_MIN] = "min",
    [FLX_KERNEL_ATOMIC_MAX] = "max",
    [FLX_KERNEL_ATOMIC_AND] = "and",
    [FLX_KERNEL_ATOMIC_OR] = "or",
    [FLX_KERNEL_ATOMIC_XOR] = "xor",
    [FLX_KERNEL_ATOMIC_EXCHANGE] = "exchange",
    [FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE] = "compare_exchange",
};

const char *const flxi_korder_names[FLX_KERNEL_ORDER_COUNT] = {
    [FLX_KERNEL_RELAXED] = "relaxed", [FLX_KERNEL_ACQUIRE] = "acquire", [FLX_KERNEL_RELEASE] = "release",
    [FLX_KERNEL_ACQ_REL] = "acq_rel", [FLX_KERNEL_SEQ_CST] = "seq_cst", [FLX_KERNEL_GRID] = "grid",
};

const char *const flxi_kaccess_names[FLX_KERNEL_ACCESS_COUNT] = {
    [FLX_KERNEL_READ] = "read",       [FLX_KERNEL_WRITE] = "write",         [FLX_KERNEL_READ_WRITE] = "read_write",
    [FLX_KERNEL_UNIFORM] = "uniform", [FLX_KERNEL_WORKGROUP] = "workgroup", [FLX_KERNEL_PRIVATE] = "private",
};

const char *const flxi_kid_names[FLX_KERNEL_ID_COUNT] = {
    [FLX_KERNEL_INVOCATION_ID] = "invocation_id",
    [FLX_KERNEL_WORKGROUP_ID] = "workgroup_id",
    [FLX_KERNEL_LOCAL_ID] = "local_id",
    [FLX_KERNEL_NUM_WORKGROUPS] = "num_workgroups",
};
