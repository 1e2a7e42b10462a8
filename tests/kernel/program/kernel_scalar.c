/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scalar.c: the arithmetic of kernels against independent definitions: integers in 128 bits, f32 in
   float, transcendentals in long double. All values of the 8-bit types and of the 16-bit floats, edges and samples of
   the rest. */
#include "test.h"

#include "base/half.h"
#include "kernel/program/kernel_scalar.h"

#include <math.h>

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

static const uint32_t int_types[] = {FLX_U8, FLX_I8, FLX_U16, FLX_I16, FLX_U32, FLX_I32, FLX_U64, FLX_I64};
static const uint32_t float_types[] = {FLX_F16, FLX_BF16, FLX_F32, FLX_F64};
static const uint32_t all_types[] = {FLX_U8,  FLX_I8,  FLX_U16,  FLX_I16, FLX_U32, FLX_I32, FLX_U64,
                                     FLX_I64, FLX_F16, FLX_BF16, FLX_F32, FLX_F64, FLX_BOOL};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const uint64_t nan_bits[] = {
    [FLX_F64] = 0x7ff8000000000000, [FLX_F32] = 0x7fc00000, [FLX_F16] = 0x7e00, [FLX_BF16] = 0x7fc0};

static unsigned width(uint32_t type)
{
    return flxi_ktype_of(type)->bits;
}

static bool is_signed(uint32_t type)
{
    return flxi_ktype_of(type)->kind == TAKES_SIGNED;
}

static uint64_t mask(uint32_t type)
{
    return width(type) == 64 ? UINT64_MAX : (UINT64_C(1) << width(type)) - 1;
}

static wide least(uint32_t type)
{
    return is_signed(type) ? -((wide)1 << (width(type) - 1)) : 0;
}

static wide most(uint32_t type)
{
    return ((wide)1 << (width(type) - is_signed(type))) - 1;
}

static wide value(uint32_t type, uint64_t bits)
{
    wide v = bits;
    return is_signed(type) && v > most(type) ? v - ((wide)1 << width(type)) : v;
}

static uint64_t wrap(uint32_t type, wide v)
{
    return (uint64_t)v & mask(type);
}

static uint64_t clamp(uint32_t type, wide v)
{
    return wrap(type, v < least(type) ? least(type) : v > most(type) ? most(type) : v);
}

/* ---- Integers ---- */

static wide power_of_two(unsigned n)
{
    return (wide)1 << n;
}

/* Quotient rounded toward zero, written with unsigned magnitudes. */
static wide quotient(wide a, wide b)
{
    wide q = (a < 0 ? -a : a) / (b < 0 ? -b : b);
    return (a < 0) != (b < 0) ? -q : q;
}

static uint64_t shifted(uint32_t t, flxi_kbinary op, uint64_t x, uint64_t y)
{
    unsigned w = width(t), n = (unsigned)(y % w);
    wide a = value(t, x);
    switch (op) {
    case KBIN_shl: return wrap(t, a * power_of_two(n));
    case KBIN_shr: { /* floor of a / 2^n */
        wide q = quotient(a, power_of_two(n));
        return wrap(t, q * power_of_two(n) > a ? q - 1 : q);
    }
    default: { /* rotations, bit by bit */
        uint64_t r = 0;
        for (unsigned i = 0; i < w; i++)
            if (x >> i & 1)
                r |= UINT64_C(1) << (op == KBIN_rotate_left ? (i + n) % w : (i + w - n) % w);
        return r;
    }
    }
}

static uint64_t int_binary(uint32_t t, flxi_kbinary op, uint64_t x, uint64_t y)
{
    wide a = value(t, x), b = value(t, y);
    switch (op) {
    case KBIN_add:
    case KBIN_wrapping_add: return wrap(t, a + b);
    case KBIN_sub:
    case KBIN_wrapping_sub: return wrap(t, a - b);
    case KBIN_mul: return x * y & mask(t);
    case KBIN_div: return b == 0 ? mask(t) : wrap(t, quotient(a, b));
    case KBIN_mod: return b == 0 ? x : wrap(t, a - b * quotient(a, b));
    case KBIN_saturating_add: return clamp(t, a + b);
    case KBIN_saturating_sub: return clamp(t, a - b);
    case KBIN_saturating_mul: return !is_signed(t) && b && a > most(t) / b ? mask(t) : clamp(t, a * b);
    case KBIN_mul_high: return (uint64_t)((unsigned_wide)x * y >> width(t));
    case KBIN_abs_diff: return wrap(t, a < b ? b - a : a - b);
    case KBIN_min: return a < b ? x : y;
    case KBIN_max: return a < b ? y : x;
    case KBIN_bit_and: return x & y;
    case KBIN_bit_or: return x | y;
    case KBIN_bit_xor: return x ^ y;
    case KBIN_eq: return a == b;
    case KBIN_ne: return a != b;
    case KBIN_lt: return a < b;
    case KBIN_gt: return a > b;
    case KBIN_le: return a <= b;
    case KBIN_ge: return a >= b;
    case KBIN_logical_and: return a != 0 && b != 0;
    case KBIN_logical_or: return a != 0 || b != 0;
    default: return shifted(t, op, x, y);
    }
}

static uint64_t int_unary(uint32_t t, flxi_kunary op, uint64_t x)
{
    unsigned w = width(t), n = 0, lead = 0, trail = 0;
    uint64_t reversed = 0;
    for (unsigned i = 0; i < w; i++) {
        n += x >> i & 1;
        reversed = reversed << 1 | (x >> i & 1);
    }
    while (lead < w && !(x >> (w - 1 - lead) & 1))
        lead++;
    while (trail < w && !(x >> trail & 1))
        trail++;
    wide a = value(t, x);
    switch (op) {
    case KUN_neg: return wrap(t, -a);
    case KUN_bit_not: return wrap(t, -a - 1);
    case KUN_popcount: return n;
    case KUN_clz: return lead;
    case KUN_ctz: return trail;
    case KUN_reverse_bits: return reversed;
    case KUN_logical_not: return a == 0;
    case KUN_abs: return wrap(t, a < 0 ? -a : a);
    case KUN_sign: return wrap(t, (a > 0) - (a < 0));
    case KUN_unpack_4_low: return x % 16;
    case KUN_unpack_4_high: return x / 16 % 16;
    case KUN_unpack_8_low: return x % 256;
    default: return x / 16777216; /* unpack_8_high */
    }
}

static void check_int_pair(uint32_t t, uint64_t x, uint64_t y)
{
    for (int op = 1; op < KBIN_COUNT; op++) {
        if (!flxi_kop_type(&flxi_kbinaries[op], t))
            continue;
        uint64_t found = flxi_kscalar_binary((flxi_kbinary)op, t, x, y);
        uint64_t wanted = int_binary(t, (flxi_kbinary)op, x, y);
        if (found != wanted)
            CHECK_MSG(found == wanted, "%s %s: %#llx, %#llx gives %#llx, wanted %#llx", flxi_kbinaries[op].name,
                      flxi_ktype_of(t)->name, (unsigned long long)x, (unsigned long long)y, (unsigned long long)found,
                      (unsigned long long)wanted);
    }
}

static void check_int(uint32_t t, uint64_t x)
{
    for (int op = 1; op < KUN_COUNT; op++) {
        if (!flxi_kop_type(&flxi_kunaries[op], t))
            continue;
        uint64_t found = flxi_kscalar_unary((flxi_kunary)op, t, x), wanted = int_unary(t, (flxi_kunary)op, x);
        CHECK_MSG(found == wanted, "%s %s %#llx gives %#llx, wanted %#llx", flxi_kunaries[op].name,
                  flxi_ktype_of(t)->name, (unsigned long long)x, (unsigned long long)found, (unsigned long long)wanted);
    }
}

/* Values around all special ones, then random ones. */
static size_t int_samples(uint32_t t, uint64_t *out)
{
    size_t n = 0;
    uint64_t state = test_seed() + t;
    for (unsigned i = 0; i < width(t); i++)
        for (int d = -1; d <= 1; d++) {
            out[n++] = wrap(t, power_of_two(i) + d);
            out[n++] = wrap(t, -power_of_two(i) + d);
        }
    for (int i = 0; i < 40; i++)
        out[n++] = test_random(&state) >> (i % 2 ? 0 : test_random(&state) % 64) & mask(t);
    return n;
}

TEST(kernel_scalar_8_bit_integers_all_values)
{
    for (uint32_t x = 0; x < 256; x++)
        for (size_t t = 0; t < 2; t++) {
            check_int(int_types[t], x);
            for (uint32_t y = 0; y < 256; y++)
                check_int_pair(int_types[t], x, y);
        }
}

TEST(kernel_scalar_wider_integers_at_edges)
{
    static uint64_t samples[64 * 6 + 40];
    for (size_t t = 2; t < COUNT(int_types); t++) {
        size_t n = int_samples(int_types[t], samples);
        for (size_t i = 0; i < n; i++) {
            check_int(int_types[t], samples[i]);
            for (size_t j = 0; j < n; j++)
                check_int_pair(int_types[t], samples[i], samples[j]);
        }
    }
}

TEST(kernel_scalar_bool)
{
    for (uint64_t x = 0; x < 2; x++) {
        CHECK_EQ_U64(flxi_kscalar_unary(KUN_logical_not, FLX_BOOL, x), !x);
        for (uint64_t y = 0; y < 2; y++) {
            CHECK_EQ_U64(flxi_kscalar_binary(KBIN_eq, FLX_BOOL, x, y), x == y);
            CHECK_EQ_U64(flxi_kscalar_binary(KBIN_ne, FLX_BOOL, x, y), x != y);
            CHECK_EQ_U64(flxi_kscalar_binary(KBIN_logical_and, FLX_BOOL, x, y), x & y);
            CHECK_EQ_U64(flxi_kscalar_binary(KBIN_logical_or, FLX_BOOL, x, y), x | y);
        }
    }
    CHECK_EQ_U64(flxi_kscalar_binary(KBIN_logical_and, FLX_U32, 2, 4), 1);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_logical_not, FLX_U32, 2), 0);
}

/* Ops on types that they do not take give 0, whatever the operands. */
TEST(kernel_scalar_ill_typed_gives_zero)
{
    for (size_t t = 0; t < COUNT(all_types); t++) {
        for (int op = 1; op < KUN_COUNT; op++)
            if (!flxi_kop_type(&flxi_kunaries[op], all_types[t]))
                CHECK_EQ_U64(flxi_kscalar_unary((flxi_kunary)op, all_types[t], 1), 0);
        for (int op = 1; op < KBIN_COUNT; op++)
            if (!flxi_kop_type(&flxi_kbinaries[op], all_types[t]) && op != KBIN_logical_and && op != KBIN_logical_or)
                CHECK_EQ_U64(flxi_kscalar_binary((flxi_kbinary)op, all_types[t], 1, 1), 0);
    }
    CHECK_EQ_U64(flxi_kscalar_fma(FLX_U32, 1, 1, 1), 0);
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_F32, FLX_KERNEL_FP4, 1), 0);
    CHECK_EQ_U64(flxi_kscalar_cast(0, FLX_F32, 1), 0);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_neg, 0, 1), 0);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_neg, FLX_KERNEL_I4, 1), 0);
}

TEST(kernel_scalar_faults_of_checked_mode)
{
    for (uint32_t x = 0; x < 256; x++) {
        CHECK((flxi_kscalar_unary_fault(KUN_neg, FLX_I8, x) != NULL) == (x == 128));
        CHECK((flxi_kscalar_unary_fault(KUN_abs, FLX_I8, x) != NULL) == (x == 128));
        CHECK(!flxi_kscalar_unary_fault(KUN_neg, FLX_U8, x));
        for (uint32_t y = 0; y < 256; y++) {
            wide a = value(FLX_I8, x), b = value(FLX_I8, y);
            static const flxi_kbinary ops[] = {KBIN_add, KBIN_sub, KBIN_mul};
            wide exact[] = {a + b, a - b, a * b};
            for (int i = 0; i < 3; i++) {
                bool fits = exact[i] >= -128 && exact[i] <= 127;
                CHECK((flxi_kscalar_binary_fault(ops[i], FLX_I8, x, y) == NULL) == fits);
                CHECK(!flxi_kscalar_binary_fault(ops[i], FLX_U8, x, y));
            }
            CHECK((flxi_kscalar_binary_fault(KBIN_div, FLX_I8, x, y) != NULL) == (y == 0 || (x == 128 && y == 255)));
            CHECK((flxi_kscalar_binary_fault(KBIN_mod, FLX_I8, x, y) != NULL) == (y == 0));
            CHECK((flxi_kscalar_binary_fault(KBIN_div, FLX_U8, x, y) != NULL) == (y == 0));
            CHECK(!flxi_kscalar_binary_fault(KBIN_wrapping_add, FLX_I8, x, y));
        }
    }
    CHECK(!flxi_kscalar_binary_fault(KBIN_div, FLX_F32, flxi_f32_bits(1), 0));
    CHECK_EQ_STR(flxi_kscalar_binary_fault(KBIN_mod, FLX_U64, 1, 0), "division by zero");
    CHECK_EQ_STR(flxi_kscalar_binary_fault(KBIN_mul, FLX_I64, UINT64_C(1) << 62, 2), "signed overflow");
}

/* ---- Floats ---- */

static double real(uint32_t type, uint64_t bits)
{
    switch (type) {
    case FLX_F64: return flxi_f64_of(bits);
    case FLX_F32: return (double)flxi_f32_of(bits);
    case FLX_F16: return flxi_from_f16((uint16_t)bits);
    default: return flxi_from_bf16((uint16_t)bits);
    }
}

/* An f32 result as the type stores it, NaNs made canonical. */
static uint64_t from_float(uint32_t type, float f)
{
    if (f != f)
        return nan_bits[type];
    switch (type) {
    case FLX_F32: return flxi_f32_bits(f);
    case FLX_F16: return flxi_to_f16((double)f);
    default: return flxi_to_bf16((double)f);
    }
}

static float exact_unary(flxi_kunary op, float x)
{
    switch (op) {
    case KUN_sign: return x > 0 ? 1.0F : x < 0 ? -1.0F : x == 0 ? 0.0F : x;
    case KUN_floor: return floorf(x);
    case KUN_ceil: return ceilf(x);
    case KUN_trunc: return truncf(x);
    case KUN_round: return roundf(x);
    case KUN_rint: return nearbyintf(x);
    case KUN_sqrt: return sqrtf(x);
    case KUN_rsqrt: {
        float root = sqrtf(x);
        return 1.0F / root;
    }
    default: return 1.0F / x; /* recip */
    }
}

static const flxi_kunary exact_unaries[] = {KUN_sign, KUN_floor, KUN_ceil,  KUN_trunc, KUN_round,
                                            KUN_rint, KUN_sqrt,  KUN_rsqrt, KUN_recip};

static void check_float(uint32_t t, uint64_t x)
{
    float f = (float)real(t, x);
    uint64_t sign = UINT64_C(1) << (width(t) - 1);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_neg, t, x), x ^ sign);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_abs, t, x), x & ~sign);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_stop_gradient, t, x), x);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_is_nan, t, x), f != f);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_is_inf, t, x), f == INFINITY || f == -INFINITY);
    CHECK_EQ_U64(flxi_kscalar_unary(KUN_is_finite, t, x), f - f == 0);
    for (size_t i = 0; i < COUNT(exact_unaries); i++) {
        uint64_t found = flxi_kscalar_unary(exact_unaries[i], t, x),
                 wanted = from_float(t, exact_unary(exact_unaries[i], f));
        CHECK_MSG(found == wanted, "%s of %s %#llx: %#llx, wanted %#llx", flxi_kunaries[exact_unaries[i]].name,
                  flxi_ktype_of(t)->name, (unsigned long long)x, (unsigned long long)found, (unsigned long long)wanted);
    }
}

TEST(kernel_scalar_16_bit_floats_exact_ops_all_values)
{
    for (uint32_t x = 0; x < 65536; x++) {
        check_float(FLX_F16, x);
        check_float(FLX_BF16, x);
    }
}

static const uint64_t f32_edges[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x00800001,
                                     0x3effffff, 0x3f000000, 0x3f000001, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x3fc00000,
                                     0xbf000000, 0xbf800000, 0xbfc00000, 0x40200000, 0x4afffffe, 0x4affffff, 0x4b000000,
                                     0x4b000001, 0x4b7fffff, 0x4f000000, 0xcf000000, 0x5f000000, 0x5f800000, 0x7f7fffff,
                                     0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fabcdef,
                                     0x40490fdb, 0x42b17218, 0xc2aeac50, 0x1e3ce508, 0x0d800000};

/* Sometimes special bits, else random; exponents are close to each other, so that sums round in all ways. */
static uint64_t f32_sample(uint64_t *state)
{
    uint64_t r = test_random(state);
    switch (r % 8) {
    case 0: return f32_edges[(r >> 8) % COUNT(f32_edges)];
    case 1: return r >> 32;
    case 2: return (r >> 32 & 0x807fffff) | ((r >> 8) % 4) << 23; /* around the subnormals */
    default: return (r >> 32 & 0x807fffff) | (120 + (r >> 8) % 16) << 23;
    }
}

static float float_binary(flxi_kbinary op, float a, float b)
{
    switch (op) {
    case KBIN_add: return a + b;
    case KBIN_sub: return a - b;
    case KBIN_mul: return a * b;
    case KBIN_div: return a / b;
    case KBIN_mod: return fmodf(a, b);
    default: return fabsf(a - b); /* abs_diff */
    }
}

static const flxi_kbinary float_binaries[] = {KBIN_add, KBIN_sub, KBIN_mul, KBIN_div, KBIN_mod, KBIN_abs_diff};

static void check_float_pair(uint32_t t, uint64_t x, uint64_t y)
{
    float a = (float)real(t, x), b = (float)real(t, y);
    for (size_t i = 0; i < COUNT(float_binaries); i++) {
        uint64_t found = flxi_kscalar_binary(float_binaries[i], t, x, y);
        uint64_t wanted = from_float(t, float_binary(float_binaries[i], a, b));
        CHECK_MSG(found == wanted, "%s of %s %#llx, %#llx: %#llx, wanted %#llx", flxi_kbinaries[float_binaries[i]].name,
                  flxi_ktype_of(t)->name, (unsigned long long)x, (unsigned long long)y, (unsigned long long)found,
                  (unsigned long long)wanted);
    }
    CHECK_EQ_U64(flxi_kscalar_binary(KBIN_eq, t, x, y), a == b);
    CHECK_EQ_U64(flxi_kscalar_binary(KBIN_ne, t, x, y), !(a == b));
    CHECK_EQ_U64(flxi_kscalar_binary(KBIN_lt, t, x, y), a < b);
    CHECK_EQ_U64(flxi_kscalar_binary(KBIN_gt, t, x, y), a > b);
    CHECK_EQ_U64(flxi_kscalar_binary(KBIN_le, t, x, y), a <= b);
    CHECK_EQ_U64(flxi_kscalar_binary(KBIN_ge, t, x, y), a >= b);
    uint64_t sign = UINT64_C(1) << (width(t) - 1);
    CHECK_EQ_U64(flxi_kscalar_binary(KBIN_copysign, t, x, y), (x & (sign - 1)) | (y & sign));
}

/* The arithmetic is done in double; here it is compared with the machine's f32. */
TEST(kernel_scalar_f32_rounds_correctly)
{
    uint64_t state = test_seed();
    for (size_t i = 0; i < COUNT(f32_edges); i++) {
        check_float(FLX_F32, f32_edges[i]);
        for (size_t j = 0; j < COUNT(f32_edges); j++)
            check_float_pair(FLX_F32, f32_edges[i], f32_edges[j]);
    }
    for (int i = 0; i < 200000; i++) {
        uint64_t x = f32_sample(&state), y = f32_sample(&state), z = f32_sample(&state);
        check_float(FLX_F32, x);
        check_float_pair(FLX_F32, x, y);
        float f = fmaf(flxi_f32_of(x), flxi_f32_of(y), flxi_f32_of(z));
        CHECK_EQ_U64(flxi_kscalar_fma(FLX_F32, x, y, z), from_float(FLX_F32, f));
    }
}

TEST(kernel_scalar_16_bit_float_pairs)
{
    uint64_t state = test_seed();
    for (int i = 0; i < 100000; i++) {
        uint64_t r = test_random(&state), x = r & 0xffff, y = r >> 16 & 0xffff, z = r >> 32 & 0xffff;
        for (int t = 0; t < 2; t++) {
            check_float_pair(float_types[t], x, y);
            float f =
                fmaf((float)real(float_types[t], x), (float)real(float_types[t], y), (float)real(float_types[t], z));
            CHECK_EQ_U64(flxi_kscalar_fma(float_types[t], x, y, z), from_float(float_types[t], f));
        }
    }
}

TEST(kernel_scalar_f64_is_the_machines)
{
    static const double values[] = {0.0,   -0.0,   1,      -1,     0.5,      2.5,       3.5,    -2.5,
                                    1e300, -1e300, 5e-324, 1e-310, INFINITY, -INFINITY, 1.0 / 3};
    for (size_t i = 0; i < COUNT(values); i++)
        for (size_t j = 0; j < COUNT(values); j++) {
            double a = values[i], b = values[j];
            double sums[] = {a + b, a - b, a * b, a / b, fmod(a, b), fabs(a - b)};
            for (size_t o = 0; o < COUNT(float_binaries); o++) {
                uint64_t wanted = sums[o] != sums[o] ? nan_bits[FLX_F64] : flxi_f64_bits(sums[o]);
                CHECK_EQ_U64(flxi_kscalar_binary(float_binaries[o], FLX_F64, flxi_f64_bits(a), flxi_f64_bits(b)),
                             wanted);
            }
        }
    /* (1 + e)^2 - (1 + 2e) is e^2 with one rounding and 0 with two. */
    double one = 1 + 0x1p-52;
    CHECK_EQ_U64(flxi_kscalar_fma(FLX_F64, flxi_f64_bits(one), flxi_f64_bits(one), flxi_f64_bits(-1 - 0x1p-51)),
                 flxi_f64_bits(0x1p-104));
}

/* ---- Choices, NaN and signs ---- */

typedef struct {
    flxi_kbinary op;
    uint64_t x, y, result;
} choice;

#define ZERO 0
#define MINUS_ZERO 0x80000000
#define ONE 0x3f800000
#define NAN_A 0x7fc00001
#define SIGNAL 0xff800001
#define QUIET 0x7fc00000

TEST(kernel_scalar_min_max_of_floats)
{
    static const choice rows[] = {
        {KBIN_min, ZERO, MINUS_ZERO, MINUS_ZERO},
        {KBIN_min, MINUS_ZERO, ZERO, MINUS_ZERO},
        {KBIN_max, ZERO, MINUS_ZERO, ZERO},
        {KBIN_max, MINUS_ZERO, ZERO, ZERO},
        {KBIN_min_nan, ZERO, MINUS_ZERO, MINUS_ZERO},
        {KBIN_max_nan, MINUS_ZERO, ZERO, ZERO},
        {KBIN_min, NAN_A, ONE, ONE},
        {KBIN_min, ONE, SIGNAL, ONE},
        {KBIN_max, SIGNAL, MINUS_ZERO, MINUS_ZERO},
        {KBIN_max, NAN_A, SIGNAL, QUIET},
        {KBIN_min_nan, ONE, NAN_A, QUIET},
        {KBIN_max_nan, SIGNAL, ONE, QUIET},
        {KBIN_min, ONE, 0xff800000, 0xff800000},
        {KBIN_max, ONE, 0x7f800000, 0x7f800000},
        {KBIN_min_nan, ONE, ZERO, ZERO},
        {KBIN_max_nan, ONE, ZERO, ONE},
        {KBIN_min, 1, ZERO, ZERO},
        {KBIN_max, 0x80000001, MINUS_ZERO, MINUS_ZERO},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t found = flxi_kscalar_binary(rows[i].op, FLX_F32, rows[i].x, rows[i].y);
        EXPECT_MSG(found == rows[i].result, "row %zu: %#llx", i, (unsigned long long)found);
    }
}

TEST(kernel_scalar_nan_results_are_canonical)
{
    for (size_t t = 0; t < COUNT(float_types); t++) {
        uint32_t type = float_types[t];
        uint64_t odd = nan_bits[type] | 1, negative = odd | UINT64_C(1) << (width(type) - 1);
        uint64_t one = flxi_kscalar_from_double(type, 1), zero = 0, inf = flxi_kscalar_from_double(type, INFINITY);
        CHECK_EQ_U64(flxi_kscalar_binary(KBIN_add, type, negative, one), nan_bits[type]);
        CHECK_EQ_U64(flxi_kscalar_binary(KBIN_div, type, zero, zero), nan_bits[type]);
        CHECK_EQ_U64(flxi_kscalar_binary(KBIN_sub, type, inf, inf), nan_bits[type]);
        CHECK_EQ_U64(flxi_kscalar_binary(KBIN_mod, type, one, zero), nan_bits[type]);
        CHECK_EQ_U64(flxi_kscalar_fma(type, zero, inf, one), nan_bits[type]);
        CHECK_EQ_U64(flxi_kscalar_cast(FLX_F32, FLX_F16, 0xfc01), nan_bits[FLX_F32]);
        CHECK_EQ_U64(flxi_kscalar_cast(type, type, negative), negative); /* nothing is computed */
        CHECK_EQ_U64(flxi_kscalar_unary(KUN_neg, type, odd), negative);
        for (int op = 1; op < KUN_COUNT; op++)
            if (flxi_kunaries[op].kinds == TAKES_FLOAT && flxi_kunaries[op].result == KRESULT_SAME &&
                op != KUN_stop_gradient)
                CHECK_EQ_U64(flxi_kscalar_unary((flxi_kunary)op, type, negative), nan_bits[type]);
        /* pow(x, 0) = 1 for every x, signalling NaNs included; the same for a base of 1, as in C. */
        uint64_t signal = inf | 1;
        CHECK_EQ_U64(flxi_kscalar_binary(KBIN_pow, type, signal, zero), one);
        CHECK_EQ_U64(flxi_kscalar_binary(KBIN_pow, type, one, signal), one);
        CHECK_EQ_U64(flxi_kscalar_binary(KBIN_hypot, type, inf, signal), inf);
    }
}

/* ---- Transcendentals ---- */

static long double long_sigmoid(long double x)
{
    return 1 / (1 + expl(-x));
}

typedef struct {
    flxi_kunary op;
    long double (*exact)(long double);
    double low, high;
} function;

static const function functions[] = {
    {KUN_exp, expl, -104, 90},        {KUN_exp2, exp2l, -150, 129},
    {KUN_expm1, expm1l, -20, 89},     {KUN_log, logl, 0, 1e30},
    {KUN_log2, log2l, 0, 100},        {KUN_log10, log10l, 0, 1e10},
    {KUN_log1p, log1pl, -1, 100},     {KUN_sin, sinl, -100, 100},
    {KUN_cos, cosl, -100, 100},       {KUN_tan, tanl, -100, 100},
    {KUN_asin, asinl, -1, 1},         {KUN_acos, acosl, -1, 1},
    {KUN_atan, atanl, -1000, 1000},   {KUN_sinh, sinhl, -90, 90},
    {KUN_cosh, coshl, -90, 90},       {KUN_tanh, tanhl, -10, 10},
    {KUN_asinh, asinhl, -1e10, 1e10}, {KUN_acosh, acoshl, 1, 1e10},
    {KUN_atanh, atanhl, -1, 1},       {KUN_erf, erfl, -4, 4},
    {KUN_erfc, erfcl, -4, 10},        {KUN_sigmoid, long_sigmoid, -110, 110},
};

/* Distance in units of the last place of `wanted`, subnormals included. */
static double ulps(uint32_t type, uint64_t found, long double wanted)
{
    long double f = real(type, found);
    int digits = type == FLX_F64 ? 53 : 24, lowest = type == FLX_F64 ? -1074 : -149;
    float limit = INFINITY;
    if (type == FLX_F32 && fabsl(wanted) > 3.4028235677973366e38L)
        return f == (wanted < 0 ? -limit : limit) ? 0 : 1e9;
    if (wanted != wanted || isinf(wanted))
        return (wanted != wanted) == (f != f) && (f != f || f == wanted) ? 0 : 1e9;
    int e;
    frexpl(wanted, &e);
    return (double)(fabsl(f - wanted) / ldexpl(1, e - digits > lowest ? e - digits : lowest));
}

TEST(kernel_scalar_transcendentals_within_4_ulp)
{
    uint64_t state = test_seed();
    double worst[2] = {0, 0};
    for (size_t i = 0; i < COUNT(functions); i++)
        for (int k = 0; k < 4000; k++) {
            const function *f = &functions[i];
            double x = f->low + (f->high - f->low) * test_uniform(&state);
            x = k % 3 == 1 ? ldexp(x, -(int)(test_random(&state) % 40)) : x; /* near 0, too */
            for (int d = 0; d < 2; d++) {
                uint32_t type = d ? FLX_F64 : FLX_F32;
                uint64_t bits = flxi_kscalar_from_double(type, x);
                double off = ulps(type, flxi_kscalar_unary(f->op, type, bits), f->exact((long double)real(type, bits)));
                worst[d] = off > worst[d] ? off : worst[d];
                /* f32 is computed in double, so its error is little more than the final rounding. */
                CHECK_MSG(off <= (d ? 4 : 0.51), "%s of %s %.17g is off by %g ulp", flxi_kunaries[f->op].name,
                          flxi_ktype_of(type)->name, real(type, bits), off);
            }
        }
    CHECK(worst[0] > 0.4 && worst[1] > 0.4); /* the measure works */
}

/* An op on 16-bit floats is the op on f32, rounded, also where one rounding from double would differ. */
TEST(kernel_scalar_16_bit_floats_are_computed_in_f32)
{
    for (size_t i = 0; i < COUNT(functions); i++)
        for (uint32_t x = 0; x < 65536; x++)
            for (int t = 0; t < 2; t++) {
                uint64_t wide_x = flxi_kscalar_cast(FLX_F32, float_types[t], x);
                float f = flxi_f32_of(flxi_kscalar_unary(functions[i].op, FLX_F32, wide_x));
                CHECK_EQ_U64(flxi_kscalar_unary(functions[i].op, float_types[t], x), from_float(float_types[t], f));
            }
}

TEST(kernel_scalar_pow_atan2_hypot)
{
    uint64_t state = test_seed();
    for (int k = 0; k < 20000; k++) {
        uint64_t x = f32_sample(&state), y = f32_sample(&state);
        long double a = (long double)flxi_f32_of(x), b = (long double)flxi_f32_of(y);
        if (!isfinite((double)a) || !isfinite((double)b))
            continue;
        EXPECT_MSG(ulps(FLX_F32, flxi_kscalar_binary(KBIN_pow, FLX_F32, x, y), powl(a, b)) <= 0.51, "pow(%Lg, %Lg)", a,
                   b);
        EXPECT_MSG(ulps(FLX_F32, flxi_kscalar_binary(KBIN_atan2, FLX_F32, x, y), atan2l(a, b)) <= 0.51,
                   "atan2(%Lg, %Lg)", a, b);
        EXPECT_MSG(ulps(FLX_F32, flxi_kscalar_binary(KBIN_hypot, FLX_F32, x, y), hypotl(a, b)) <= 0.51,
                   "hypot(%Lg, %Lg)", a, b);
    }
}

/* ---- Conversions ---- */

/* The conversion of an integer of type `from`. */
static uint64_t int_cast(uint32_t to, uint32_t from, uint64_t x)
{
    wide v = value(from, x);
    switch (to) {
    case FLX_BOOL: return v != 0;
    case FLX_F64: return flxi_f64_bits((double)v);
    case FLX_F32: return flxi_f32_bits((float)v);
    case FLX_F16:
    case FLX_BF16: { /* nearest of the two neighbours, found by counting from the type's own values */
        long double target = (long double)v, best = INFINITY;
        uint64_t sign = v < 0 ? 0x8000 : 0, found = 0;
        uint64_t limit = to == FLX_F16 ? 0x7c00 : 0x7f80;
        for (uint64_t q = 0; q <= limit; q++) {
            long double at = real(to, q), off;
            if (q == limit) /* infinity takes the code of the next value */
                at = 2 * real(to, q - 1) - real(to, q - 2);
            off = fabsl(fabsl(target) - at);
            if (off < best || (off == best && q % 2 == 0)) {
                best = off;
                found = q;
            }
        }
        return found | sign;
    }
    default: return wrap(to, v);
    }
}

TEST(kernel_scalar_casts_of_integers)
{
    static uint64_t samples[64 * 6 + 40];
    for (size_t f = 0; f < COUNT(int_types); f++) {
        size_t n = int_samples(int_types[f], samples);
        for (size_t i = 0; i < n; i++)
            for (size_t t = 0; t < COUNT(all_types); t++) {
                bool narrow = all_types[t] == FLX_F16 || all_types[t] == FLX_BF16;
                if (all_types[t] == int_types[f] || (narrow && i % 7))
                    continue; /* the search is slow */
                uint64_t found = flxi_kscalar_cast(all_types[t], int_types[f], samples[i]);
                uint64_t wanted = int_cast(all_types[t], int_types[f], samples[i]);
                CHECK_MSG(found == wanted, "%s %#llx to %s: %#llx, wanted %#llx", flxi_ktype_of(int_types[f])->name,
                          (unsigned long long)samples[i], flxi_ktype_of(all_types[t])->name, (unsigned long long)found,
                          (unsigned long long)wanted);
            }
    }
}

/* Rounding to double first would turn these into ties and then round down. */
TEST(kernel_scalar_wide_integers_round_once)
{
    uint64_t above_tie = (UINT64_C(1) << 62) + (UINT64_C(1) << 54) + 1;
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_BF16, FLX_U64, above_tie), 0x5e81);
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_BF16, FLX_U64, above_tie - 1), 0x5e80);
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_BF16, FLX_I64, 0 - above_tie), 0xde81);
    above_tie = (UINT64_C(1) << 62) + (UINT64_C(1) << 38) + 1;
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_F32, FLX_U64, above_tie), 0x5e800001);
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_F16, FLX_U32, 65520), 0x7c00);
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_F16, FLX_U32, 65519), 0x7bff);
}

static uint64_t float_to_int(uint32_t to, double d)
{
    if (d != d)
        return 0;
    if (d >= 0x1p100 || d <= -0x1p100)
        return wrap(to, d > 0 ? most(to) : least(to));
    return clamp(to, (wide)d);
}

TEST(kernel_scalar_casts_of_floats)
{
    static const double edges[] = {0,
                                   -0.0,
                                   0.5,
                                   -0.5,
                                   0.999,
                                   1,
                                   -1,
                                   1.5,
                                   127.9,
                                   128,
                                   -128,
                                   -129,
                                   255.5,
                                   256,
                                   32767.9,
                                   65535.9,
                                   2147483647.5,
                                   2147483648.0,
                                   4294967295.5,
                                   4294967296.0,
                                   -2147483649.0,
                                   0x1p63,
                                   -0x1p63,
                                   0x1.fffffffffffffp62,
                                   0x1p64,
                                   0x1.fffffffffffffp63,
                                   1e300,
                                   -1e300,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   5e-324};
    for (size_t i = 0; i < COUNT(edges); i++)
        for (size_t f = 0; f < COUNT(float_types); f++) {
            uint64_t x = flxi_kscalar_from_double(float_types[f], edges[i]);
            double d = real(float_types[f], x);
            for (size_t t = 0; t < COUNT(int_types); t++)
                CHECK_EQ_U64(flxi_kscalar_cast(int_types[t], float_types[f], x), float_to_int(int_types[t], d));
            CHECK_EQ_U64(flxi_kscalar_cast(FLX_BOOL, float_types[f], x), !(d == 0));
        }
    for (uint32_t x = 0; x < 65536; x++) {
        double d = flxi_from_f16((uint16_t)x);
        uint64_t wide_bits = d != d ? nan_bits[FLX_F64] : flxi_f64_bits(d);
        CHECK_EQ_U64(flxi_kscalar_cast(FLX_F64, FLX_F16, x), wide_bits);
        CHECK_EQ_U64(flxi_kscalar_cast(FLX_I8, FLX_F16, x), float_to_int(FLX_I8, d));
        CHECK_EQ_U64(flxi_kscalar_cast(FLX_BF16, FLX_F16, x), d != d ? nan_bits[FLX_BF16] : flxi_to_bf16(d));
        CHECK_EQ_U64(flxi_kscalar_cast(FLX_F16, FLX_F64, wide_bits), d != d ? nan_bits[FLX_F16] : x);
    }
    for (size_t t = 0; t < COUNT(all_types); t++)
        CHECK(flxi_kscalar_to_double(all_types[t], flxi_kscalar_cast(all_types[t], FLX_BOOL, 1)) == 1);
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_F32, FLX_F64, flxi_f64_bits(1e300)), 0x7f800000);
    /* Once: f64 to f16 through f32 would round 1 + 2^-11 + 2^-30 to a tie and then down. */
    CHECK_EQ_U64(flxi_kscalar_cast(FLX_F16, FLX_F64, flxi_f64_bits(1 + 0x1p-11 + 0x1p-30)), 0x3c01);
}

/* ---- Elements ---- */

static double stored(uint32_t element, double x)
{
    unsigned char byte = 0;
    flxi_kscalar_store(element, &byte, 0, flxi_f32_bits((float)x));
    return (double)flxi_f32_of(flxi_kscalar_load(element, &byte, 0));
}

TEST(kernel_scalar_narrow_floats_all_codes)
{
    static const uint32_t elements[] = {FLX_KERNEL_F8E4M3, FLX_KERNEL_F8E5M2, FLX_KERNEL_FP4, FLX_KERNEL_NF4};
    for (size_t e = 0; e < 4; e++)
        for (uint32_t code = 0; code < (e < 2 ? 256u : 16u); code++) {
            unsigned char byte = (unsigned char)code, back = 0;
            uint64_t x = flxi_kscalar_load(elements[e], &byte, 0);
            double d = e == 0 ? flxi_from_f8_e4m3(byte) : e == 1 ? flxi_from_f8_e5m2(byte) : (double)flxi_f32_of(x);
            CHECK_EQ_U64(x, d != d ? nan_bits[FLX_F32] : flxi_f32_bits((float)d));
            flxi_kscalar_store(elements[e], &back, 0, x);
            if (d == d)
                CHECK_EQ_U64(back, byte);
            else
                CHECK_EQ_U64(back, e == 0 ? 0x7f : 0x7e);
        }
    static const float fp4[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
    for (int i = 0; i < 8; i++) {
        CHECK(flxi_kfp4[i] == fp4[i]);
        CHECK(flxi_kfp4[i + 8] == -fp4[i] && signbit(flxi_kfp4[i + 8]));
    }
    for (int i = 1; i < 16; i++)
        CHECK(flxi_knf4[i] > flxi_knf4[i - 1]);
    CHECK(flxi_knf4[0] == -1 && flxi_knf4[7] == 0 && flxi_knf4[15] == 1);
}

TEST(kernel_scalar_narrow_stores_round)
{
    static const struct {
        uint32_t element;
        double x, result;
    } rows[] = {{FLX_KERNEL_FP4, 0.25, 0},          {FLX_KERNEL_FP4, 0.250001, 0.5}, {FLX_KERNEL_FP4, 0.75, 1},
                {FLX_KERNEL_FP4, 2.5, 2},           {FLX_KERNEL_FP4, 3.5, 4},        {FLX_KERNEL_FP4, 5, 4},
                {FLX_KERNEL_FP4, 5.01, 6},          {FLX_KERNEL_FP4, 1e9, 6},        {FLX_KERNEL_FP4, -INFINITY, -6},
                {FLX_KERNEL_FP4, -1.75, -2},        {FLX_KERNEL_FP4, NAN, 0},        {FLX_KERNEL_NF4, 2, 1},
                {FLX_KERNEL_NF4, -INFINITY, -1},    {FLX_KERNEL_NF4, NAN, 0},        {FLX_KERNEL_NF4, -0.01, 0},
                {FLX_KERNEL_F8E4M3, 449, 448},      {FLX_KERNEL_F8E4M3, 464, 448},   {FLX_KERNEL_F8E4M3, 465, NAN},
                {FLX_KERNEL_F8E5M2, 1e9, INFINITY}, {FLX_KERNEL_F8E5M2, 1.125, 1},   {FLX_KERNEL_F8E5M2, 1.375, 1.5}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        double found = stored(rows[i].element, rows[i].x);
        bool both_nan = found != found && rows[i].result != rows[i].result;
        EXPECT_MSG(both_nan || found == rows[i].result, "row %zu: %g", i, found);
    }
    uint64_t state = test_seed();
    for (int i = 0; i < 2000; i++) { /* nf4: no value is nearer */
        double x = (double)(float)(test_uniform(&state) * 2.4 - 1.2), found = stored(FLX_KERNEL_NF4, x);
        for (int c = 0; c < 16; c++)
            CHECK(fabs(found - x) <= fabs((double)flxi_knf4[c] - x));
    }
}

TEST(kernel_scalar_elements_keep_their_neighbours)
{
    unsigned char bytes[8];
    for (uint64_t i = 0; i < 8; i++) { /* u4 and i4: low half first */
        memset(bytes, 0xa5, sizeof bytes);
        flxi_kscalar_store(FLX_KERNEL_U4, bytes, i, 0x1c);
        for (uint64_t j = 0; j < 8; j++)
            CHECK_EQ_U64(flxi_kscalar_load(FLX_KERNEL_U4, bytes, j), j == i ? 0xc : j % 2 ? 0xa : 5);
        CHECK_EQ_U64(flxi_kscalar_load(FLX_KERNEL_I4, bytes, i), 0xfffffffc);
    }
    static const uint32_t elements[] = {FLX_U8, FLX_I16, FLX_F16, FLX_BF16, FLX_F32, FLX_U32, FLX_I64, FLX_F64};
    for (size_t e = 0; e < COUNT(elements); e++) {
        size_t size = flxi_ktype_bytes(elements[e], 1);
        unsigned char wanted[48], found[48];
        memset(wanted, 0x11, sizeof wanted);
        memset(found, 0x11, sizeof found);
        uint64_t x = UINT64_C(0x8877665544332299) & (size == 8 ? UINT64_MAX : (UINT64_C(1) << size * 8) - 1);
        for (size_t i = 0; i < size; i++)
            wanted[2 * size + i] = (unsigned char)(x >> 8 * i);
        flxi_kscalar_store(elements[e], found, 2, x);
        CHECK(memcmp(wanted, found, sizeof wanted) == 0);
        CHECK_EQ_U64(flxi_kscalar_load(elements[e], found, 2), x);
    }
    uint32_t words[2] = {7, 0x80000000};
    CHECK_EQ_U64(flxi_kscalar_load(FLX_BOOL, words, 0), 1);
    CHECK_EQ_U64(flxi_kscalar_load(FLX_BOOL, words, 1), 1);
    flxi_kscalar_store(FLX_BOOL, words, 1, 0);
    CHECK(words[0] == 7 && words[1] == 0);
    CHECK_EQ_U64(flxi_kscalar_load(FLX_KERNEL_BYTES, words, 0), 0);
}

/* ---- Expressions and atomics ---- */

TEST(kernel_scalar_eval_of_expressions)
{
    const uint32_t f[] = {FLX_F32, FLX_F32, FLX_F32}, chosen[] = {FLX_BOOL, FLX_F32, FLX_F32},
                   mixed[] = {FLX_BOOL, FLX_F32, FLX_U32};
    const uint64_t x[] = {flxi_f32_bits(2), flxi_f32_bits(3), 0xffc00001};
    const uint64_t zero[] = {0, flxi_f32_bits(3), 0xffc00001};
    uint64_t r;
    CHECK(flxi_kscalar_eval(&(flxi_kx){.kind = KX_BINARY, .op = KBIN_mul, .type = FLX_F32}, f, x, &r) &&
          r == flxi_f32_bits(6));
    CHECK(flxi_kscalar_eval(&(flxi_kx){.kind = KX_UNARY, .op = KUN_neg, .type = FLX_F32}, f, x, &r) &&
          r == flxi_f32_bits(-2));
    CHECK(flxi_kscalar_eval(&(flxi_kx){.kind = KX_SELECT, .type = FLX_F32}, chosen, zero, &r) && r == 0xffc00001);
    CHECK(flxi_kscalar_eval(&(flxi_kx){.kind = KX_FMA, .type = FLX_F32}, f, zero, &r) && r == nan_bits[FLX_F32]);
    CHECK(flxi_kscalar_eval(&(flxi_kx){.kind = KX_CAST, .type = FLX_U8}, f, x, &r) && r == 2);
    CHECK(flxi_kscalar_eval(&(flxi_kx){.kind = KX_BITCAST, .type = FLX_U32}, f, x, &r) && r == x[0]);
    CHECK(!flxi_kscalar_eval(&(flxi_kx){.kind = KX_BITCAST, .type = FLX_U64}, f, x, &r));
    CHECK(!flxi_kscalar_eval(&(flxi_kx){.kind = KX_SELECT, .type = FLX_F32}, mixed, zero, &r));
    CHECK(!flxi_kscalar_eval(&(flxi_kx){.kind = KX_CAST, .type = FLX_KERNEL_FP4}, f, x, &r));
    CHECK(!flxi_kscalar_eval(&(flxi_kx){.kind = KX_LOAD, .type = FLX_F32}, f, x, &r));
    CHECK(!flxi_kscalar_eval(&(flxi_kx){.kind = KX_BINARY, .op = KBIN_mul}, f, x, &r));
}

TEST(kernel_scalar_atomics)
{
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_ADD, FLX_U32, UINT32_MAX, 2, 0), 1);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_SUB, FLX_I32, 1, 2, 0), UINT32_MAX);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_MIN, FLX_I32, 1, UINT32_MAX, 0), UINT32_MAX);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_MAX, FLX_U32, 1, UINT32_MAX, 0), UINT32_MAX);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_AND, FLX_U32, 6, 3, 0), 2);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_OR, FLX_U32, 6, 3, 0), 7);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_XOR, FLX_U64, 6, 3, 0), 5);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_EXCHANGE, FLX_F32, 6, 0xffc00001, 0), 0xffc00001);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE, FLX_U32, 6, 3, 6), 3);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE, FLX_U32, 6, 3, 7), 6);
    CHECK_EQ_U64(flxi_kscalar_atomic(FLX_KERNEL_ATOMIC_ADD, FLX_F32, flxi_f32_bits(1), flxi_f32_bits(0.5F), 0),
                 flxi_f32_bits(1.5F));
}
