/* SPDX-License-Identifier: Apache-2.0 */
/* card_dialect.c: the dialect of texts for cards: C99 with the names below, so that CUDA C++ and OpenCL C read the same
   text. It has no templates, references, overloads or operators on structures: a text that is needed for several types
   is written several times, after a line that says what its names mean.

     i8 … u64          integers                    I64(x) U64(x)   literals of 64 bits
     KERNEL(n) name(   a kernel whose workgroups have n threads; TILE_KERNEL: 32 x 8; WIDE_KERNEL: 32 x any number
     FORM(type)        a parameter, of which a kernel has at most one: the structure `form`
     GLOBAL LOCAL      before the type that a pointer points to;  SHARED: before an array of the workgroup
     FUNCTION          before a function
     GROUP OWN LINE LINES   the workgroup, the thread along both axes, and how many there are along the second
     MEET              a barrier of the workgroup
     SORTERS           threads of a workgroup that sorts;  EACH_SORTER(t): those of 512 whose work this thread does
     PAIR(T, a, b)     a structure of two members;  VECTOR(T, a, b): a float2 or a double2;  NOTHING(W): zero bits
     FMA32 FMA64       one rounding;  bf16_value bf16_bits f16_value f16_bits: 16-bit floats
     CLAIM(p)          whether this thread is the first that sets *p from 0 to 1
     found(…)          reports an index that is out of range: the first that is found stays */
#include "backend/card/card_way.h"

static const char cuda[] =
    "typedef unsigned char u8;\ntypedef signed char i8;\ntypedef unsigned short u16;\ntypedef short i16;\n"
    "typedef unsigned u32;\ntypedef int i32;\ntypedef unsigned long long u64;\ntypedef long long i64;\n"
    "#define I64(x) x##ll\n#define U64(x) x##ull\n"
    "#define KERNEL(threads) extern \"C\" __global__ void __launch_bounds__(threads)\n"
    "#define TILE_KERNEL KERNEL(256)\n#define WIDE_KERNEL KERNEL(1024)\n"
    "#define FORM(type) const __grid_constant__ type form\n"
    "#define GLOBAL\n#define LOCAL\n#define SHARED __shared__\n#define FUNCTION static __device__\n"
    "#define RESTRICT __restrict__\n#define UNROLL_8 _Pragma(\"unroll 8\")\n"
    "#define GROUP blockIdx.x\n#define OWN threadIdx.x\n#define LINE threadIdx.y\n#define LINES blockDim.y\n"
    "#define MEET __syncthreads()\n#define PAIR(T, a, b) T{a, b}\n#define NOTHING(W) W{}\n#define VECTOR(T, a, b) T{a, "
    "b}\n"
    "#define SORTERS 512u\n#define EACH_SORTER(t) const u32 t = OWN;\n#define ALIGNED(n) __align__(n)\n#define "
    "FMA32(x, y, z) __fmaf_rn(x, y, z)\n#define FMA64(x, y, z) __fma_rn(x, y, z)\n"
    "#define F32_OF(bits) __uint_as_float(bits)\n#define BITS_OF(x) __float_as_uint(x)\n"
    "#define F64_OF(bits) __longlong_as_double(bits)\n#define TOWARDS_ZERO(x) __double2float_rz(x)\n"
    "#define SINCOSPI(x, s, c) sincospi(x, s, c)\n#define CLAIM(p) (atomicCAS(p, 0u, 1u) == 0u)\n"
    "FUNCTION u16 bf16_bits(float x)\n{\n    u16 r;\n"
    "    asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n    return r;\n}\n"
    "FUNCTION float f16_value(u16 x)\n{\n    float r;\n"
    "    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x));\n    return r;\n}\n"
    "FUNCTION u16 f16_bits(float x)\n{\n    u16 r;\n"
    "    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x));\n    return r;\n}\n";

/* A structure is passed in memory: parameters of a kernel have 1024 bytes together at least. The conversion towards
   zero keeps NaN and infinities; half floats are converted in memory of the thread, since not every device has the
   type. */
static const char opencl[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "typedef uchar u8;\ntypedef char i8;\ntypedef ushort u16;\ntypedef short i16;\n"
    "typedef uint u32;\ntypedef int i32;\ntypedef ulong u64;\ntypedef long i64;\n"
    "#define I64(x) x##l\n#define U64(x) x##ul\n"
    "#define KERNEL(threads) __kernel void __attribute__((reqd_work_group_size(threads, 1, 1)))\n"
    "#define TILE_KERNEL __kernel void __attribute__((reqd_work_group_size(32, 8, 1)))\n"
    "#define WIDE_KERNEL __kernel void\n"
    "#define FORM(type) __global const type *form_at\n#define form (*form_at)\n"
    "#define GLOBAL __global\n#define LOCAL __local\n#define SHARED __local\n#define FUNCTION static\n"
    "#define RESTRICT restrict\n#define UNROLL_8\n"
    "#define GROUP ((u32)get_group_id(0))\n#define OWN ((u32)get_local_id(0))\n"
    "#define LINE ((u32)get_local_id(1))\n#define LINES ((u32)get_local_size(1))\n"
    "#define MEET barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
    "#define PAIR(T, a, b) ((T){a, b})\n#define NOTHING(W) ((W)(0))\n#define VECTOR(T, a, b) ((T)(a, b))\n"
    "#define SORTERS 256u\n#define EACH_SORTER(t) for (u32 t = OWN; t < 512u; t += SORTERS)\n#define ALIGNED(n) "
    "__attribute__((aligned(n)))\n#define FMA32(x, y, z) fma(x, y, z)\n#define FMA64(x, y, z) fma(x, y, z)\n"
    "#define F32_OF(bits) as_float(bits)\n#define BITS_OF(x) as_uint(x)\n#define F64_OF(bits) as_double(bits)\n"
    "#define TOWARDS_ZERO(x) convert_float_rtz(x)\n"
    "#define SINCOSPI(x, s, c) (*(s) = sinpi(x), *(c) = cospi(x))\n"
    "#define CLAIM(p) (atomic_cmpxchg((volatile __global u32 *)(p), 0u, 1u) == 0u)\n"
    "static u16 bf16_bits(float x)\n{\n    const u32 u = as_uint(x);\n"
    "    return x != x ? (u16)0x7fff : (u16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);\n}\n"
    "static float f16_value(u16 x)\n{ return vload_half(0, (const __private half *)&x); }\n"
    "static u16 f16_bits(float x)\n{\n    u16 r;\n    vstore_half_rte(x, 0, (__private half *)&r);\n    return r;\n}\n";

static const char both[] =
    "FUNCTION float bf16_value(u16 x)\n{ return F32_OF((u32)x << 16); }\n"
    "typedef struct {\n    u32 is_set, component;\n    i64 value, extent;\n    u64 node;\n} finding;\n"
    "FUNCTION void found(GLOBAL finding *t, i64 value, i64 extent, u32 component, u64 node)\n{\n"
    "    if (!CLAIM(&t->is_set))\n        return;\n"
    "    t->value = value;\n    t->extent = extent;\n    t->component = component;\n    t->node = node;\n}\n";

void flxi_card_add_dialect(flxi_card_language language, flxi_strbuf *out)
{
    flxi_add_text(out, language == FLXI_CARD_CUDA ? cuda : opencl);
    flxi_add_text(out, both);
}

static const char *const words[] = {"u8", "u16", "u32", "u64", "uint4"};

void flxi_card_add_for_words(const char *text, int sizes, flxi_strbuf *out)
{
    for (int i = 0; i < sizes; i++) {
        flxi_addf(out, "#define W %s\n#define NAMED(name) name##_%d\n", words[i], 1 << i);
        flxi_add_text(out, text);
        flxi_add_text(out, "#undef W\n#undef NAMED\n");
    }
}

int flxi_card_word(uint32_t size)
{
    int i = 0;
    while (i < 4 && size > 1u << i)
        i++;
    return i;
}
