/* SPDX-License-Identifier: Apache-2.0 */
/* device_pair.c: see device_pair.h. */
#include "emit/device_pair.h"

#include "emit/vector_pair.h"
#include "kernel/program/kernel_scalar.h"

#include <stdio.h>
#include <stdlib.h>

size_t device_pair_bytes(uint32_t element, uint64_t count)
{
    return flxi_ktype_bytes(element, count);
}

/* The bits of an element as stored in memory. */
static unsigned memory_bits(uint32_t element)
{
    return element == FLX_BOOL ? 32 : flxi_ktype_of(element)->bits;
}

void device_pair_put(uint32_t element, void *data, size_t index, uint64_t bits)
{
    unsigned char *at = data;
    unsigned w = memory_bits(element);
    if (w == 4) {
        unsigned shift = index % 2 * 4;
        at[index / 2] = (unsigned char)((at[index / 2] & (0xf0u >> shift)) | (bits & 15) << shift);
        return;
    }
    memcpy(at + index * (w / 8), &bits, w / 8);
}

uint64_t device_pair_get(uint32_t element, const void *data, size_t index)
{
    const unsigned char *at = data;
    unsigned w = memory_bits(element);
    uint64_t bits = 0;
    if (w == 4)
        return at[index / 2] >> (index % 2 * 4) & 15;
    memcpy(&bits, at + index * (w / 8), w / 8);
    return bits;
}

/* clang-format off: rows of numbers */
/* Zeros, ties, ends of the ranges of all formats and of their subnormals, and arguments at which functions overflow. */
static const double real_edges[] = {
    0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2,
    2.5,
    -2.5,
    3,
    3.5,
    7,
    0.25,
    0.1,
    -0.1,
    1e-3,
    1e-8,
    1e-20,
    -1e-20,
    1e-30,
    1e-42,
    1e-45,
    1e-320,
    6e-8,
    -3e-8,
    6.1e-5,
    65504,
    65519.9,
    65520,
    1e5,
    -1e5,
    1e10,
    3.2e38,
    3.4e38,
    -3.4e38,
    1e300,
    -1e300,
    1.7e308,
    127.5,
    128,
    -128,
    -128.5,
    -129,
    255,
    255.5,
    256,
    32767.5,
    32768,
    -32769,
    65535.5,
    65536,
    2147483647,
    2147483648.0,
    -2147483648.0,
    -2147483904.0,
    4294967295.0,
    4294967296.0,
    9.2e18,
    9223372036854775808.0,
    -9223372036854775808.0,
    18446744073709551616.0,
    3.14159265358979,
    1.5707963267949,
    88.7,
    -88.7,
    104,
    -104,
    709.9,
    -745.2,
    1e22,
    0.999999940395,
    1.00000011920929,
    16777215,
    16777217,
    33554435,
    448,
    464,
    57344,
    61440,
    0.0009765625,
    0.00146484375,
    5,
    6,
    0.75,
    -0.6961928,
};
/* clang-format on */

static size_t float_edges(uint32_t type, uint64_t *bits, size_t room)
{
    static const double special[] = {__builtin_inf(), -__builtin_inf(), __builtin_nan("")};
    size_t n = 0;
    for (size_t i = 0; i < sizeof real_edges / sizeof *real_edges && n < room; i++)
        bits[n++] = flxi_kscalar_from_double(type, real_edges[i]);
    for (size_t i = 0; i < sizeof special / sizeof *special && n < room; i++)
        bits[n++] = flxi_kscalar_from_double(type, special[i]);
    return n;
}

static size_t integer_edges(uint32_t type, uint64_t *bits, size_t room)
{
    const flxi_ktype *t = flxi_ktype_of(type);
    size_t n = 0;
    uint64_t mask = ~UINT64_C(0) >> (64 - t->bits), top = UINT64_C(1) << (t->bits - 1);
    uint64_t values[] = {0,          1,
                         2,          3,
                         5,          7,
                         8,          9,
                         15,         16,
                         17,         31,
                         32,         33,
                         63,         64,
                         65,         100,
                         127,        128,
                         255,        256,
                         1000,       top,
                         top + 1,    top - 1,
                         mask,       mask - 1,
                         mask - 2,   mask - 6,
                         top >> 1,   top >> 4,
                         mask / 3,   mask / 3 * 2,
                         0x01234567, UINT64_C(0x89abcdef01234567)};
    for (size_t i = 0; i < sizeof values / sizeof *values && n < room; i++)
        bits[n++] = values[i] & mask;
    return n;
}

size_t device_pair_edges(uint32_t type, uint64_t *bits, size_t room)
{
    if (flxi_ktype_of(type)->kind == TAKES_FLOAT)
        return float_edges(type, bits, room);
    if (type != FLX_BOOL)
        return integer_edges(type, bits, room);
    bits[0] = 0;
    bits[1] = 1;
    return 2;
}

/* Half edge cases, half random bits; a float's random bits are mostly of moderate size. */
static uint64_t mixed(uint32_t element, uint64_t *state, uint32_t max_index)
{
    uint64_t edges[128], r = test_random(state);
    const flxi_ktype *t = flxi_ktype_of(element);
    if (t->bits <= 8 && !(t->kind == TAKES_BOOL))
        return r >> 8;
    if (element == FLX_U32 && max_index)
        return r % max_index;
    if (r % 2 == 0) {
        size_t n = device_pair_edges(t->storage ? FLX_U32 : element, edges, 128);
        return edges[(r >> 1) % n];
    }
    if (t->kind == TAKES_FLOAT && r % 4 == 1)
        return flxi_kscalar_from_double(element, (test_uniform(state) - 0.5) * 8);
    return t->kind == TAKES_BOOL ? r >> 1 & 1 : r >> 2;
}

static void fill(const flx_kernel_buffer *b, void *data, size_t count, const device_pair *p, uint64_t seed)
{
    uint64_t state = seed;
    if (p->fill) {
        p->fill(b, data, count, seed);
        return;
    }
    for (size_t i = 0; i < count; i++)
        device_pair_put(b->element, data, i, mixed(b->element, &state, p->max_index));
}

static bool is_nan(uint32_t type, uint64_t bits)
{
    const flxi_ktype *t = flxi_ktype_of(type);
    if (t->kind != TAKES_FLOAT || t->storage)
        return false;
    double d = flxi_kscalar_to_double(type, bits);
    return d != d;
}

/* How many values of the type are between two, by their bits. */
static uint64_t distance(uint32_t type, uint64_t a, uint64_t b)
{
    uint64_t top = UINT64_C(1) << (flxi_ktype_of(type)->bits - 1);
    uint64_t x = a & top ? top - (a & (top - 1)) : a + top, y = b & top ? top - (b & (top - 1)) : b + top;
    return x > y ? x - y : y - x;
}

static bool agrees(const device_pair *p, uint32_t type, uint64_t a, uint64_t b)
{
    if (a == b || (is_nan(type, a) && is_nan(type, b)))
        return true;
    const flxi_ktype *t = flxi_ktype_of(type);
    return p->max_ulp && t->kind == TAKES_FLOAT && !t->storage && !is_nan(type, a) && !is_nan(type, b) &&
           distance(type, a, b) <= p->max_ulp;
}

static void compare(const flx_kernel *k, const device_pair *p, const flx_kernel_buffer *b, const void *expected,
                    const void *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t x = device_pair_get(b->element, expected, i), y = device_pair_get(b->element, found, i);
        if (agrees(p, b->element, x, y))
            continue;
        bool plain = !flxi_ktype_of(b->element)->storage;
        EXPECT_MSG(false, "kernel %.60s on %s: %.60s[%zu] of %s is %#llx (%.9g), interpreter %#llx (%.9g), seed %llu",
                   flx_kernel_name(k), p->device, b->name, i, flxi_ktype_of(b->element)->name, (unsigned long long)y,
                   plain ? flxi_kscalar_to_double(b->element, y) : 0, (unsigned long long)x,
                   plain ? flxi_kscalar_to_double(b->element, x) : 0, (unsigned long long)p->seed);
        return;
    }
}

enum { MAX_BUFFERS = 512 };

void device_pair_check(const flx_kernel *k, const device_pair *p)
{
    static flx_kernel_memory memory[2][MAX_BUFFERS];
    static flx_kernel_buffer buffers[MAX_BUFFERS];
    static size_t counts[MAX_BUFFERS];
    size_t n = 0;
    uint64_t state = p->seed;
    for (size_t i = 0; i < flx_kernel_buffer_count(k); i++) {
        flx_kernel_buffer *b = &buffers[n];
        CHECK_OK(flx_kernel_buffer_at(k, i, b), NULL);
        if (b->access == FLX_KERNEL_WORKGROUP || b->access == FLX_KERNEL_PRIVATE)
            continue;
        CHECK(n < MAX_BUFFERS);
        counts[n] = b->count ? (size_t)b->count : p->open_count ? p->open_count : 64;
        size_t size = device_pair_bytes(b->element, counts[n]);
        uint64_t seed = test_random(&state);
        for (int d = 0; d < 2; d++) {
            memory[d][n] = (flx_kernel_memory){b->name, calloc(size ? size : 1, 1), size};
            fill(b, memory[d][n].data, counts[n], p, seed);
        }
        n++;
    }
    flx_code codes[2];
    flx_error errors[2] = {{0}, {0}};
    for (int d = 0; d < 2; d++) {
        flx_kernel_run_options o = {.device = d ? p->device : "ref", .subgroup_size = p->subgroup_size};
        codes[d] = d && strcmp(p->device, "vector") == 0
                       ? vector_run(k, p->grid, memory[d], n, p->subgroup_size, &errors[d])
                       : flx_kernel_run(k, p->grid, memory[d], n, &o, &errors[d]);
    }
    EXPECT_MSG(codes[0] == codes[1] && (codes[0] != FLX_OK) == p->is_error, "kernel %.60s: interpreter %d %s, %s %d %s",
               flx_kernel_name(k), codes[0], errors[0].message, p->device, codes[1], errors[1].message);
    EXPECT_MSG(strcmp(errors[0].message, errors[1].message) == 0 && strcmp(errors[0].where, errors[1].where) == 0,
               "kernel %.60s: '%s' at '%s' on the interpreter, '%s' at '%s' on %s", flx_kernel_name(k),
               errors[0].message, errors[0].where, errors[1].message, errors[1].where, p->device);
    for (size_t i = 0; i < n && codes[0] == FLX_OK && codes[1] == FLX_OK; i++)
        compare(k, p, &buffers[i], memory[0][i].data, memory[1][i].data, counts[i]);
    for (size_t i = 0; i < n; i++) {
        free(memory[0][i].data);
        free(memory[1][i].data);
    }
    test_count_case();
}
