/* emit_c.c: kernels as C17 with the extensions that gcc and clang share.

   A kernel is a function over a range of workgroups:

       void flxk_0(const k_dispatch *d, k_u64 begin, k_u64 end, k_u8 *scratch, k_u32 *status);

   Without barriers, subgroup ops and workgroup memory the invocations of a row of workgroups are one loop, which the
   compiler can vectorise; else each workgroup is a sequence of such loops (kernel_interval.c). Several threads may call it
   with separate ranges and scratch.

   Functions of the mathematical library are called on doubles and rounded, as the interpreter does, so that both agree to
   the last bit; the rest is arithmetic that IEEE 754 defines. Contraction must be off (-ffp-contract=off) unless the kernel
   permits it. No header is included: reading them takes longer than compiling a kernel. */
#include "codegen/kernel_writer.h"

#include <stdio.h>

/* ---- Spellings ---- */

#define LIBRARY(name) {.of_float = "(($T)%1" #name "((k_f64)$a))"}
#define BUILTIN(name) {.of_float = "__builtin_" #name "$f($a)"}

static const flxi_kspelling unaries[KUN_COUNT] = {
    [KUN_popcount] = {NULL, "(($T)__builtin_popcountll($a))", "(($T)__builtin_popcountll(($U)$a))"},
    [KUN_clz] = {NULL, "{ return a ? ($T)(__builtin_clzll(a) - (64 - $w)) : ($T)$w; }",
                 "{ return a ? ($T)(__builtin_clzll(($U)a) - (64 - $w)) : ($T)$w; }"},
    [KUN_ctz] = {NULL, "{ return a ? ($T)__builtin_ctzll(a) : ($T)$w; }",
                 "{ return a ? ($T)__builtin_ctzll(($U)a) : ($T)$w; }"},
    [KUN_abs] = BUILTIN(fabs),
    [KUN_floor] = BUILTIN(floor),
    [KUN_ceil] = BUILTIN(ceil),
    [KUN_trunc] = BUILTIN(trunc),
    [KUN_round] = BUILTIN(round),
    [KUN_rint] = BUILTIN(rint),
    [KUN_sqrt] = BUILTIN(sqrt),
    [KUN_exp] = LIBRARY(exp),
    [KUN_exp2] = LIBRARY(exp2),
    [KUN_expm1] = LIBRARY(expm1),
    [KUN_log] = LIBRARY(log),
    [KUN_log2] = LIBRARY(log2),
    [KUN_log10] = LIBRARY(log10),
    [KUN_log1p] = LIBRARY(log1p),
    [KUN_sin] = LIBRARY(sin),
    [KUN_cos] = LIBRARY(cos),
    [KUN_tan] = LIBRARY(tan),
    [KUN_asin] = LIBRARY(asin),
    [KUN_acos] = LIBRARY(acos),
    [KUN_atan] = LIBRARY(atan),
    [KUN_sinh] = LIBRARY(sinh),
    [KUN_cosh] = LIBRARY(cosh),
    [KUN_tanh] = LIBRARY(tanh),
    [KUN_asinh] = LIBRARY(asinh),
    [KUN_acosh] = LIBRARY(acosh),
    [KUN_atanh] = LIBRARY(atanh),
    [KUN_erf] = LIBRARY(erf),
    [KUN_erfc] = LIBRARY(erfc),
    [KUN_sigmoid] = {.of_float = "{ const k_f64 x = a, e = %1exp(-__builtin_fabs(x)); "
                                 "return ($T)(x < 0 ? e / (1 + e) : 1 / (1 + e)); }"},
};

static const flxi_kspelling binaries[KBIN_COUNT] = {
    [KBIN_mod] = {.of_float = "(($T)%2fmod((k_f64)$a, (k_f64)$b))"},
    [KBIN_pow] = {.of_float = "{ return b == 0 || a == 1 ? ($T)1 : ($T)%2pow((k_f64)a, (k_f64)b); }"},
    [KBIN_atan2] = {.of_float = "(($T)%2atan2((k_f64)$a, (k_f64)$b))"},
    [KBIN_hypot] = {.of_float = "{ return __builtin_isinf(a) || __builtin_isinf(b) ? __builtin_inf$f() "
                                ": ($T)%2hypot((k_f64)a, (k_f64)b); }"},
    [KBIN_copysign] = {.of_float = "__builtin_copysign$f($a, $b)"},
};

static const flxi_khelper helpers[] = {
    {"fetch_*", KBY_TYPE,
     "$F $T $n($E *b, k_u32 n, k_u32 i, $T v, $T x, int order)\n"
     "{ return i < n ? __atomic_fetch_$o(b + i, v, order) : 0; }\n"},
    {"atomic_*", KBY_TYPE,
     "$F $T $n($E *b, k_u32 n, k_u32 i, $T v, $T x, int order)\n"
     "{\n"
     "    if (i >= n)\n"
     "        return 0;\n"
     "    $U *p = ($U *)(b + i), was = __atomic_load_n(p, __ATOMIC_RELAXED), now;\n"
     "    $T old;\n"
     "    do {\n"
     "        old = @value(was);\n"
     "        now = @bits($N);\n"
     "    } while (!__atomic_compare_exchange_n(p, &was, now, 0, order, order));\n"
     "    return old;\n"
     "}\n"},
    /* Another thread may be writing the other half of the byte. */
    {"put_half", KBY_TYPE,
     "$F void $n(k_u8 *b, k_u32 i, $T v)\n"
     "{\n"
     "    k_u8 was = __atomic_load_n(b + i / 2, __ATOMIC_RELAXED);\n"
     "    const k_u32 shift = i % 2 * 4, code = $C;\n"
     "    while (!__atomic_compare_exchange_n(b + i / 2, &was, (k_u8)((was & 0xf0u >> shift) | code << shift), 0, 0, 0))\n"
     "        continue;\n"
     "}\n"},
    {"trap", 0,
     "static void $n(k_u32 *status, k_u32 site, k_u32 address, k_u32 i0, k_u32 i1, k_u32 i2)\n"
     "{\n"
     "    const k_u32 words[6] = {1, site, address, i0, i1, i2};\n"
     "    for (int i = 0; i < 6; i++)\n"
     "        status[i] = words[i];\n"
     "}\n"},
    {0},
};

static const char heading[] =
    "/* Kernels by Fluxion, for gcc or clang with -O2 -ffp-contract=off -fno-math-errno -fno-trapping-math and -lm.\n"
    "   A call runs workgroups begin to end - 1; x is the fastest axis. */\n"
    "typedef unsigned char k_u8;\n"
    "typedef unsigned short k_u16;\n"
    "typedef unsigned int k_u32;\n"
    "typedef unsigned long long k_u64;\n"
    "typedef signed char k_i8;\n"
    "typedef short k_i16;\n"
    "typedef int k_i32;\n"
    "typedef long long k_i64;\n"
    "typedef float k_f32;\n"
    "typedef double k_f64;\n"
    "typedef float k_f16, k_bf16; /* values of these formats, held in f32 */\n"
    "typedef _Bool k_bool;\n"
    "typedef struct {\n"
    "    void *const *data;    /* of buffer i at i - 1, aligned as its elements */\n"
    "    const k_u32 *count;   /* its elements */\n"
    "    k_u32 grid[3], lanes; /* workgroups; width of subgroups */\n"
    "} k_dispatch;\n";
