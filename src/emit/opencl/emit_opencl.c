/* SPDX-License-Identifier: Apache-2.0 */
/* emit_opencl.c: emits kernels as OpenCL C 1.2.

   f64 and 64-bit atomics need extensions, which the text enables where it uses them; 16-bit floats need none, because
   they are held in f32 and converted by integer arithmetic. Not every device has subgroups, so they are implemented
   with local memory and barriers: any width, in uniform control flow. Build with -cl-fp32-correctly-rounded-divide-sqrt
   where the device supports it: otherwise OpenCL permits inexact f32 division and sqrt. */
#include "emit/kernel_writer.h"

static const flxi_kspelling unaries[KUN_COUNT] = {
    [KUN_popcount] = {.of_unsigned = "(($T)popcount($a))", .of_signed = "(($T)popcount(($U)$a))"},
    [KUN_clz] = {.of_unsigned = "(($T)clz($a))", .of_signed = "(($T)clz(($U)$a))"},
    [KUN_ctz] = {.of_unsigned = "{ return ($T)popcount(($U)((a & (0 - a)) - 1)); }",
                 .of_signed = "{ const $U u = ($U)a; return ($T)popcount(($U)((u & (0 - u)) - 1)); }"},
};

static const flxi_kspelling binaries[KBIN_COUNT] = {
    [KBIN_mul_high] = {.of_unsigned = "mul_hi($a, $b)"},
};

#define FENCE "mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"
#define ATOMIC "$F $T $n(volatile $Q$E *b, k_u32 n, k_u32 i, $T v, $T x, int order)\n"

static const flxi_khelper helpers[] = {
    {"fetch_*", KBY_TYPE | KBY_SPACE,
     ATOMIC "{\n"
            "    if (i >= n)\n"
            "        return 0;\n"
            "    if (order)\n"
            "        " FENCE ";\n"
            "    const $T old = $p$o(b + i, v);\n"
            "    if (order)\n"
            "        " FENCE ";\n"
            "    return old;\n"
            "}\n"},
    {"atomic_*", KBY_TYPE | KBY_SPACE,
     ATOMIC "{\n"
            "    if (i >= n)\n"
            "        return 0;\n"
            "    if (order)\n"
            "        " FENCE ";\n"
            "    volatile $Q$U *p = (volatile $Q$U *)(b + i);\n"
            "    $U seen = *p, was;\n"
            "    $T old;\n"
            "    do {\n"
            "        was = seen;\n"
            "        old = @value(was);\n"
            "        seen = $pcmpxchg(p, was, @bits($N));\n"
            "    } while (seen != was);\n"
            "    if (order)\n"
            "        " FENCE ";\n"
            "    return old;\n"
            "}\n"},
    {"put_half", KBY_TYPE | KBY_SPACE,
     "$F void $n($Qk_u32 *b, k_u32 i, $T v)\n"
     "{\n"
     "    const k_u32 shift = i % 8 * 4, code = $C;\n"
     "    atomic_and((volatile $Qk_u32 *)b + i / 8, ~(15u << shift));\n"
     "    atomic_or((volatile $Qk_u32 *)b + i / 8, code << shift);\n"
     "}\n"},
    {"trap", 0,
     "static void $n(__global k_u32 *status, k_u32 site, k_u32 address, k_u32 i0, k_u32 i1, k_u32 i2)\n"
     "{\n"
     "    const k_u32 words[5] = {site, address, i0, i1, i2};\n"
     "    if (atomic_cmpxchg((volatile __global k_u32 *)status, 0u, 1u) == 0u)\n"
     "        for (int i = 0; i < 5; i++)\n"
     "            status[i + 1] = words[i];\n"
     "}\n"},
    /* The operands of all invocations are in local memory; s is the first lane of this subgroup, e its end. */
    {"subgroup_add", KBY_TYPE,
     "$F $T $n(__local k_u64 *all, k_u32 l, k_u32 size, k_u32 lanes, $T v, k_u32 from)\n"
     "{\n"
     "    const k_u32 s = l - l % lanes, e = size - s < lanes ? size : s + lanes;\n"
     "    $T old = $Z;\n"
     "    all[l] = @bits(v);\n"
     "    barrier(CLK_LOCAL_MEM_FENCE);\n"
     "    for (k_u32 j = s; j < e; j++) {\n"
     "        v = @value(($U)all[j]);\n"
     "        old = $N;\n"
     "    }\n"
     "    barrier(CLK_LOCAL_MEM_FENCE);\n"
     "    return old;\n"
     "}\n"},
    {"subgroup_shuffle", KBY_TYPE,
     "$F $T $n(__local k_u64 *all, k_u32 l, k_u32 size, k_u32 lanes, $T v, k_u32 from)\n"
     "{\n"
     "    const k_u32 s = l - l % lanes, e = size - s < lanes ? size : s + lanes;\n"
     "    all[l] = @bits(v);\n"
     "    barrier(CLK_LOCAL_MEM_FENCE);\n"
     "    v = from < e - s ? @value(($U)all[s + from]) : ($T)0;\n"
     "    barrier(CLK_LOCAL_MEM_FENCE);\n"
     "    return v;\n"
     "}\n"},
    {"subgroup_ballot", KBY_TYPE,
     "$F k_u32 $n(__local k_u64 *all, k_u32 l, k_u32 size, k_u32 lanes, $T v, k_u32 from)\n"
     "{\n"
     "    const k_u32 s = l - l % lanes, e = size - s < lanes ? size : s + lanes;\n"
     "    k_u32 sum = 0;\n"
     "    all[l] = v ? 1 : 0;\n"
     "    barrier(CLK_LOCAL_MEM_FENCE);\n"
     "    for (k_u32 j = s; j < e; j++)\n"
     "        sum |= (k_u32)all[j] << (j - s);\n"
     "    barrier(CLK_LOCAL_MEM_FENCE);\n"
     "    return sum;\n"
     "}\n"},
    {0},
};

static const char heading[] =
    "/* Kernels by Fluxion, in OpenCL C 1.2. Parameters: a pointer and a length for each bound buffer, in order. */\n"
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "typedef uchar k_u8;\n"
    "typedef ushort k_u16;\n"
    "typedef uint k_u32;\n"
    "typedef ulong k_u64;\n"
    "typedef char k_i8;\n"
    "typedef short k_i16;\n"
    "typedef int k_i32;\n"
    "typedef long k_i64;\n"
    "typedef float k_f32;\n"
    "typedef float k_f16, k_bf16; /* values of these formats, held in f32 */\n"
    "typedef bool k_bool;\n";

static const flxi_kthreads threads = {
    .kernel = "__kernel void __attribute__((reqd_work_group_size(%u, %u, %u))) ",
    .restricts = "restrict",
    .shared = "__local ",
    .ids = {[FLX_KERNEL_WORKGROUP_ID] = "(k_u32)get_group_id(",
            [FLX_KERNEL_LOCAL_ID] = "(k_u32)get_local_id(",
            [FLX_KERNEL_NUM_WORKGROUPS] = "(k_u32)get_num_groups("},
    .axes = "012",
    .id_end = ")",
    .lanes_parameter = "k_u32 lanes",
    .declare_lanes = {"const k_u32 lane = l % lanes;"},
    .lanes_memory = "__local k_u64 all",
};

const flxi_ktarget flxi_target_opencl = {
    .name = "opencl",
    .spelling = offsetof(flx_kernel_extension, opencl),
    .abilities = FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_NEEDS_CONVERGENCE,
    .has_words = true,
    .heading = heading,
    .heading_f64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
                   "typedef double k_f64;\n",
    .heading_wide_atomics = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
                            "#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable\n",
    .function = "static",
    .space = {"__global ", "__local ", ""},
    .suffix = {"_global", "_local", ""},
    .u64_suffix = "ul",
    .i64_suffix = "l",
    .f32_suffix = "",
    .atomic32 = "atomic_",
    .atomic64 = "atom_",
    .unaries = unaries,
    .binaries = binaries,
    .fma = "fma($a, $b, $c)",
    .native_atomics = 1u << FLX_KERNEL_ATOMIC_ADD | 1u << FLX_KERNEL_ATOMIC_SUB | 1u << FLX_KERNEL_ATOMIC_MIN |
                      1u << FLX_KERNEL_ATOMIC_MAX | 1u << FLX_KERNEL_ATOMIC_AND | 1u << FLX_KERNEL_ATOMIC_OR |
                      1u << FLX_KERNEL_ATOMIC_XOR,
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    .subgroup_arguments = "all, l, size, lanes, ",
    .threads = &threads,
    .write = flxi_kw_write_threads,
    .helpers = helpers,
};
