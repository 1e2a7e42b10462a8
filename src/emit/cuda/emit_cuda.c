/* SPDX-License-Identifier: Apache-2.0 */
/* emit_cuda.c: emits kernels as CUDA C++, for nvcc or NVRTC without headers.

   Arithmetic is spelled with intrinsics that round once and are never contracted, unless the kernel permits
   contraction. Subgroups are warps: 32 lanes, in uniform control flow. Sums over a subgroup follow the lane numbers, so
   they equal the interpreter's. A grid barrier needs a cooperative launch. */
#include "emit/kernel_writer.h"

#define ROUNDED(name)                      \
    {                                      \
        .of_float = "__$g" #name "_rn($a)" \
    }
#define ROUNDED_2(name)                        \
    {                                          \
        .of_float = "__$g" #name "_rn($a, $b)" \
    }

static const flxi_kspelling unaries[KUN_COUNT] = {
    [KUN_popcount] = {.of_unsigned = "(($T)__popcll($a))", .of_signed = "(($T)__popcll(($U)$a))"},
    [KUN_clz] = {.of_unsigned = "(($T)(__clzll((k_i64)(k_u64)$a) - (64 - $w)))",
                 .of_signed = "(($T)(__clzll((k_i64)(k_u64)($U)$a) - (64 - $w)))"},
    [KUN_ctz] = {.of_unsigned = "{ return a ? ($T)(__ffsll((k_i64)(k_u64)a) - 1) : ($T)$w; }",
                 .of_signed = "{ return a ? ($T)(__ffsll((k_i64)(k_u64)($U)a) - 1) : ($T)$w; }"},
    [KUN_reverse_bits] = {.of_unsigned = "(($T)(__brevll($a) >> (64 - $w)))",
                          .of_signed = "(($T)(__brevll(($U)$a) >> (64 - $w)))"},
    [KUN_sqrt] = ROUNDED(sqrt),
    [KUN_recip] = ROUNDED(rcp),
    /* The divisor is between 1 and 2. */
    [KUN_sigmoid] = {.of_float = "{ const $T e = @exp(-@abs(a)), r = @near_recip(1 + e); return a < 0 ? e * r : r; }"},
};

static const flxi_kspelling strict[KBIN_COUNT] = {
    [KBIN_add] = ROUNDED_2(add),
    [KBIN_sub] = ROUNDED_2(sub),
    [KBIN_mul] = ROUNDED_2(mul),
    [KBIN_div] = ROUNDED_2(div),
    [KBIN_max_nan] = {.of_float = "@largest($a, $b)"},
    [KBIN_min_nan] = {.of_float = "@smallest($a, $b)"},
};

/* One instruction for f32. Of zeros the maximum is the positive one, and the minimum the negative one. */
#define EXTREMUM(name)                                                              \
    "$F k_f32 $n(k_f32 a, k_f32 b)\n"                                               \
    "{\n"                                                                           \
    "    k_f32 y;\n"                                                                \
    "    asm(\"" name ".NaN.f32 %0, %1, %2;\" : \"=f\"(y) : \"f\"(a), \"f\"(b));\n" \
    "    return y;\n"                                                               \
    "}\n"                                                                           \
    "$F k_f64 $n(k_f64 a, k_f64 b)\n"                                               \
    "{\n"                                                                           \
    "    const k_f64 m = f" name "(a, b);\n"                                        \
    "    return a != a ? a : b != b ? b : m;\n"                                     \
    "}\n"

/* By one instruction where the card has it; what that turns a NaN into differs. */
#define ROUNDING(convert, back)                                                                  \
    "$F k_f32 $n(k_f32 a)\n"                                                                     \
    "{\n"                                                                                        \
    "    k_f32 y;\n"                                                                             \
    "    asm(\"{ .reg .b16 h, z; " convert ".f32 h, %1; " back " }\" : \"=f\"(y) : \"f\"(a));\n" \
    "    return a != a ? @value:f32(0x7fc00000u) : y;\n"                                         \
    "}\n"

#define ATOMIC "$F $T $n($E *b, k_u32 n, k_u32 i, $T v, $T x, int order)\n"
#define FENCED(call)                            \
    ATOMIC "{\n"                                \
           "    if (i >= n)\n"                  \
           "        return 0;\n"                \
           "    if (order)\n"                   \
           "        __threadfence();\n"         \
           "    const $T old = ($T)" call ";\n" \
           "    if (order)\n"                   \
           "        __threadfence();\n"         \
           "    return old;\n"                  \
           "}\n"

static const flxi_khelper helpers[] = {
    {"fetch_float_add", KBY_TYPE, FENCED("atomicAdd(b + i, v)")},
    {"fetch_add", KBY_TYPE, FENCED("atomicAdd(($U *)(b + i), ($U)v)")},
    {"fetch_sub", KBY_TYPE, FENCED("atomicAdd(($U *)(b + i), 0 - ($U)v)")},
    {"fetch_min", KBY_TYPE, FENCED("atomicMin(b + i, v)")},
    {"fetch_max", KBY_TYPE, FENCED("atomicMax(b + i, v)")},
    {"fetch_and", KBY_TYPE, FENCED("atomicAnd(($U *)(b + i), ($U)v)")},
    {"fetch_or", KBY_TYPE, FENCED("atomicOr(($U *)(b + i), ($U)v)")},
    {"fetch_xor", KBY_TYPE, FENCED("atomicXor(($U *)(b + i), ($U)v)")},
    {"fetch_exchange", KBY_TYPE, FENCED("atomicExch(($U *)(b + i), ($U)v)")},
    {"fetch_compare_exchange", KBY_TYPE, FENCED("atomicCAS(($U *)(b + i), ($U)x, ($U)v)")},
    {"atomic_*", KBY_TYPE,
     ATOMIC "{\n"
            "    if (i >= n)\n"
            "        return 0;\n"
            "    if (order)\n"
            "        __threadfence();\n"
            "    $U *p = ($U *)(b + i), seen = *(volatile $U *)p, was;\n"
            "    $T old;\n"
            "    do {\n"
            "        was = seen;\n"
            "        old = @value(was);\n"
            "        seen = atomicCAS(p, was, @bits($N));\n"
            "    } while (seen != was);\n"
            "    if (order)\n"
            "        __threadfence();\n"
            "    return old;\n"
            "}\n"},
    {"largest", 0, EXTREMUM("max")},
    {"smallest", 0, EXTREMUM("min")},
    {"round_bf16", 0, ROUNDING("cvt.rn.bf16", "mov.b16 z, 0; mov.b32 %0, {z, h};")},
    {"round_f16", 0, ROUNDING("cvt.rn.f16", "cvt.f32.f16 %0, h;")},
    {"near_recip", 0, /* within a unit in the last place */
     "$F k_f32 $n(k_f32 a)\n"
     "{\n"
     "    k_f32 y;\n"
     "    asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(a));\n"
     "    return y;\n"
     "}\n"
     "$F k_f64 $n(k_f64 a)\n"
     "{ return 1 / a; }\n"},
    {"put_half", KBY_TYPE,
     "$F void $n(k_u32 *b, k_u32 i, $T v)\n"
     "{\n"
     "    const k_u32 shift = i % 8 * 4, code = $C;\n"
     "    atomicAnd(b + i / 8, ~(15u << shift));\n"
     "    atomicOr(b + i / 8, code << shift);\n"
     "}\n"},
    {"trap", 0,
     "static __device__ void $n(k_u32 *status, k_u32 site, k_u32 address, k_u32 i0, k_u32 i1, k_u32 i2)\n"
     "{\n"
     "    const k_u32 words[5] = {site, address, i0, i1, i2};\n"
     "    if (atomicCAS(status, 0u, 1u) == 0u)\n"
     "        for (int i = 0; i < 5; i++)\n"
     "            status[i + 1] = words[i];\n"
     "}\n"},
    /* All workgroups are resident: the launch is cooperative. */
    {"grid_barrier", 0,
     "static __device__ void $n(k_u32 *arrivals)\n"
     "{\n"
     "    __syncthreads();\n"
     "    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {\n"
     "        const k_u32 n = gridDim.x * gridDim.y * gridDim.z;\n"
     "        __threadfence();\n"
     "        const k_u32 round = atomicAdd(arrivals, 1u) / n;\n"
     "        while (*(volatile k_u32 *)arrivals / n == round)\n"
     "            continue;\n"
     "        __threadfence();\n"
     "    }\n"
     "    __syncthreads();\n"
     "}\n"},
    {"shuffle", KBY_TYPE,
     "$F $T $n(k_u32 warp, $T a, k_u32 from)\n"
     "{\n"
     "    if ($w == 64)\n"
     "        return @value(($U)__shfl_sync(warp, (k_u64)@bits(a), from));\n"
     "    return @value(($U)__shfl_sync(warp, (k_u32)@bits(a), from));\n"
     "}\n"},
    {"subgroup_add", KBY_TYPE,
     "$F $T $n(k_u32 warp, $T v, k_u32 from)\n"
     "{\n"
     "    $T old = $Z;\n"
     "    const $T own = v;\n"
     "    for (k_u32 s = 0; s < (k_u32)__popc(warp); s++) {\n"
     "        v = @shuffle(warp, own, s);\n"
     "        old = $N;\n"
     "    }\n"
     "    return old;\n"
     "}\n"},
    {"subgroup_shuffle", KBY_TYPE,
     "$F $T $n(k_u32 warp, $T v, k_u32 from)\n"
     "{\n"
     "    const $T there = @shuffle(warp, v, from & 31u);\n"
     "    return from < (k_u32)__popc(warp) ? there : ($T)0;\n"
     "}\n"},
    {"subgroup_ballot", KBY_TYPE,
     "$F k_u32 $n(k_u32 warp, $T v, k_u32 from)\n"
     "{ return __ballot_sync(warp, v); }\n"},
    {0},
};

#define HEADING                                                                                                      \
    "/* Kernels by Fluxion, for nvcc or NVRTC. Parameters: a pointer and a length for each bound buffer, in order. " \
    "*/\n" KTYPE_NAMES "typedef bool k_bool;\n"

static const flxi_kthreads threads = {
    .kernel = "extern \"C\" __global__ void __launch_bounds__(%u * %u * %u) ",
    .restricts = "__restrict__",
    .shared = "__shared__ __align__(16) ",
    .most_shared = 48 << 10,
    .dynamic = "extern __shared__ __align__(16) k_u8 k_shared[];",
    .ids = {[FLX_KERNEL_WORKGROUP_ID] = "blockIdx.",
            [FLX_KERNEL_LOCAL_ID] = "threadIdx.",
            [FLX_KERNEL_NUM_WORKGROUPS] = "gridDim."},
    .axes = "xyz",
    .id_end = "",
    .declare_lanes = {"const k_u32 lanes = 32u, lane = l % 32u;",
                      "const k_u32 warp = size - (l - lane) >= 32u ? ~0u : (1u << (size - (l - lane))) - 1u;"},
};

/* Buffers may be anywhere, also where others of the same kernel are. */
static const flxi_kthreads part_threads = {
    .kernel = "static __device__ __forceinline__ void ",
    .place_parameter = "const k_place place",
    .restricts = "",
    .shared = "",
    .ids = {[FLX_KERNEL_WORKGROUP_ID] = "place.group.",
            [FLX_KERNEL_LOCAL_ID] = "place.own.",
            [FLX_KERNEL_NUM_WORKGROUPS] = "place.groups."},
    .axes = "xyz",
    .id_end = "",
    .declare_lanes = {"const k_u32 lanes = 32u, lane = l % 32u;", "const k_u32 warp = ~0u;"},
};

#define CUDA                                                                                          \
    .name = "cuda", .spelling = offsetof(flx_kernel_extension, cuda), .has_words = true,              \
    .function = "static __device__ __forceinline__", .space = {"", "", ""}, .suffix = {"", "", ""},   \
    .u64_suffix = "ull", .i64_suffix = "ll", .f32_suffix = "f", .unaries = unaries, .strict = strict, \
    .fma = "__fma$f_rn($a, $b, $c)", .native_atomics = (1u << FLX_KERNEL_ATOMIC_COUNT) - 1u,          \
    .native_float_atomics = 1u << FLX_KERNEL_ATOMIC_ADD, .barrier = "__syncthreads();",               \
    .subgroup_arguments = "warp, ", .write = flxi_kw_write_threads, .helpers = helpers

const flxi_ktarget flxi_target_cuda = {
    CUDA,
    .heading = HEADING,
    .abilities = FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_HAS_GRID_BARRIER | FLX_KERNEL_NEEDS_CONVERGENCE,
    .max_workgroup_bytes = 96 << 10, /* what a block can ask for on most cards */
    .threads = &threads,
};

const flxi_ktarget flxi_target_cuda_part = {
    CUDA,
    .heading = HEADING "struct k_axes {\n    k_u32 x, y, z;\n};\n"
                       "struct k_place {\n    k_axes group, own, groups;\n};\n",
    .abilities = FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_NEEDS_CONVERGENCE,
    .threads = &part_threads,
};
