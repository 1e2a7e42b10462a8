/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_interpret.c: the reference interpreter: the semantics of each construct, schedules, budgets, bindings. Races
   are tested in kernel_race.c. */
#include "kernel/flk.h"

#include "fault.h"
#include "kernel/interpret/kernel_run.h"
#include "kernel/program/kernel.h"

#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MEMORY(array)               \
    {                               \
#array, array, sizeof array \
    }
/* Memory for run(): arrays named like their buffers. */
#define WITH(...) (flx_kernel_memory[]){__VA_ARGS__}, COUNT(((flx_kernel_memory[]){__VA_ARGS__}))

static flx_code try_run(const flx_kernel *k, uint32_t groups, const flx_kernel_memory *m, size_t n,
                        const flx_kernel_run_options *o, flx_error *err)
{
    const uint32_t grid[3] = {groups, 1, 1};
    return flx_kernel_run(k, grid, m, n, o, err);
}

static void run(const char *text, uint32_t groups, const flx_kernel_memory *m, size_t n)
{
    flx_error err = {0};
    flx_kernel *k = flk(text);
    CHECK_OK(try_run(k, groups, m, n, NULL, &err), &err);
    flx_kernel_release(k);
}

/* Runs it in order, then with all other schedules and the race detector; the last memory is the result, which must not
   differ and starts at zero each time. */
static void run_all_ways(const char *text, uint32_t groups, flx_kernel_memory *m, size_t n)
{
    flx_error err = {0};
    flx_kernel *k = flk(text);
    static unsigned char first[4096];
    const flx_kernel_memory *out = &m[n - 1];
    CHECK(out->size <= sizeof first);
    for (uint32_t i = 0; i < 16; i++) {
        flx_kernel_run_options o = {.struct_size = sizeof o, .schedule = i < 4 ? i : FLX_KERNEL_SHUFFLED, .seed = i};
        o.flags = i == 15 ? FLX_KERNEL_DETECT_RACES : 0;
        memset(out->data, 0, out->size);
        test_fail_context("way %u", i);
        CHECK_OK(try_run(k, groups, m, n, &o, &err), &err);
        if (i == 0)
            memcpy(first, out->data, out->size);
        CHECK(memcmp(first, out->data, out->size) == 0);
    }
    test_fail_context("%s", "");
    flx_kernel_release(k);
}

/* The code and the start of the message of a run that fails. */
static void fails_with(const char *text, uint32_t groups, const flx_kernel_memory *m, size_t n,
                       const flx_kernel_run_options *o, flx_code code, const char *message)
{
    flx_error err = {0};
    flx_kernel *k = flk(text);
    CHECK_CODE(try_run(k, groups, m, n, o, &err), code, &err);
    CHECK_MSG(strncmp(err.message, message, strlen(message)) == 0, "message: %s", err.message);
    CHECK_MSG(err.hint[0], "no hint with: %s", err.message);
    flx_kernel_release(k);
}

/* ---- Leaves and statements ---- */

TEST(kernel_interpret_ids_and_lengths)
{
    flx_error err = {0};
    flx_kernel *k =
        flk("kernel t(workgroup = [3, 2, 2]) {\n"
            "  buffer x: u32[] read @0;\n"
            "  buffer out: u32[] read_write @1;\n"
            "  let l = local_id(0) + 3 * (local_id(1) + 2 * local_id(2));\n"
            "  let w = workgroup_id(0) + num_workgroups(0) * (workgroup_id(1) + num_workgroups(1) * workgroup_id(2));\n"
            "  let at = 8 * (12 * w + l);\n"
            "  out[at] = invocation_id(0); out[at + 1] = invocation_id(1); out[at + 2] = invocation_id(2);\n"
            "  out[at + 3] = num_workgroups(2); out[at + 4] = buf_len(x); out[at + 5] = subgroup_lane();\n"
            "  out[at + 6] = subgroup_size(); out[at + 7] = w;\n"
            "}");
    static uint32_t out[8 * 12 * 12];
    uint32_t x[5] = {0};
    const uint32_t grid[3] = {2, 3, 2};
    flx_kernel_run_options o = {.subgroup_size = 5};
    CHECK_OK(flx_kernel_run(k, grid, WITH(MEMORY(x), MEMORY(out)), &o, &err), &err);
    for (uint32_t w = 0; w < 12; w++)
        for (uint32_t l = 0; l < 12; l++) {
            const uint32_t *at = &out[8 * (12 * w + l)];
            CHECK_EQ_U64(at[0], w % 2 * 3 + l % 3);
            CHECK_EQ_U64(at[1], w / 2 % 3 * 2 + l / 3 % 2);
            CHECK_EQ_U64(at[2], w / 6 * 2 + l / 6);
            CHECK_EQ_U64(at[3], 2);
            CHECK_EQ_U64(at[4], 5);
            CHECK_EQ_U64(at[5], l % 5);
            CHECK_EQ_U64(at[6], 5);
            CHECK_EQ_U64(at[7], w);
        }
    flx_kernel_release(k);
}

TEST(kernel_interpret_control_flow)
{
    uint32_t out[12] = {0};
    run("kernel t {\n"
        "  buffer out: u32[12] read_write @0;\n"
        "  let n = 3u32; let sum = 0u32;\n"
        "  for (i in 0..n) {\n" /* the bounds are evaluated once */
        "    n = 100; sum = sum + i; let fresh = 0u32; fresh = fresh + 1; out[0] = fresh;\n"
        "  }\n"
        "  out[1] = sum; out[2] = n;\n"
        "  for (i in 5..5) { out[3] = 1; }\n"
        "  for (i in 6..5) { out[3] = 1; }\n"
        "  for (i in 4294967293..4294967295) { out[4] = out[4] + 1; }\n"
        "  if (n > 5) { out[5] = 1; if (n == 7) { out[5] = 2; } else { out[6] = 3; } } else { out[5] = 4; }\n"
        "  if (0u32) { out[7] = 1; }\n"
        "  { let n2 = 8u32; out[8] = n2; }\n"
        "  region r { out[9] = 9; }\n"
        "  for (i in 0..3) { for (j in 0..i) { out[10] = out[10] + 10 * i + j; } }\n"
        "  if (sum == 3) { return; }\n"
        "  out[11] = 1;\n"
        "}",
        1, WITH(MEMORY(out)));
    static const uint32_t wanted[12] = {1, 3, 100, 0, 2, 1, 3, 0, 8, 9, 10 + 20 + 21, 0};
    for (int i = 0; i < 12; i++)
        CHECK_EQ_U64(out[i], wanted[i]);
}

TEST(kernel_interpret_expressions)
{
    float x[3] = {2.5F, -3, 0.25F}, out[8] = {0};
    run("kernel t {\n"
        "  buffer x: f32[3] read @0; buffer out: f32[8] read_write @1;\n"
        "  out[0] = fma(x[0], x[1], x[2]);\n"
        "  out[1] = select(x[0] > x[1], x[0], x[1]);\n"
        "  out[2] = cast<f32>(cast<i32>(x[0]) - 5i32);\n"
        "  out[3] = bitcast<f32>(bitcast<u32>(x[1]) ^ 0x80000000u32);\n"
        "  out[4] = sqrt(abs(x[2])) + max(x[0], x[1]) * -x[1];\n"
        "  out[5] = select(true && !(x[0] < x[1]), 1.0, 2.0);\n"
        "  let a = x[0]; let b = a; a = a * a; a = a + b;\n"
        "  out[6] = a; out[7] = b;\n"
        "}",
        1, WITH(MEMORY(x), MEMORY(out)));
    static const float wanted[8] = {-7.25F, 2.5F, -3, 3, 8, 1, 8.75F, 2.5F};
    for (int i = 0; i < 8; i++)
        CHECK(out[i] == wanted[i]);
}

TEST(kernel_interpret_calls_are_inlined)
{
    uint32_t out[4] = {0};
    run("kernel t {\n"
        "  buffer out: u32[4] read_write @0;\n"
        "  fn twice(a: u32) -> u32 { let b = a + a; return b; }\n"
        "  fn sum(n: u32, m: u32) -> u32 { let s = 0u32; for (i in 0..n) { let t = twice(i); s = s + t * m; } return s "
        "+ twice(s); }\n"
        "  fn pick(c: bool, a: u32) -> u32 { let r = a; if (c) { r = twice(twice(a)); } return r; }\n"
        "  out[0] = twice(twice(3)) + twice(1);\n"
        "  out[1] = sum(twice(2), sum(2, 1));\n" /* inner: s = 2, gives 6; outer: s = 2*(0+1+2+3)*6 = 72, gives 216 */
        "  let x = 5u32; x = pick(x > 4, x) + pick(false, x); out[2] = x;\n"
        "  for (i in 0..twice(2)) { out[3] = out[3] + twice(i); }\n"
        "}",
        1, WITH(MEMORY(out)));
    CHECK_EQ_U64(out[0], 14);
    CHECK_EQ_U64(out[1], 216);
    CHECK_EQ_U64(out[2], 25);
    CHECK_EQ_U64(out[3], 12);
}

/* Each function calls the one before it twice: inlined, that is 2^32 calls. */
TEST(kernel_interpret_calls_that_explode_are_refused)
{
    char text[4096] = "kernel t { buffer out: f32[1] read_write @0; fn f0(x: f32) -> f32 { return x * 0.5; }\n";
    for (int i = 1; i < 30; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "fn f%d(x: f32) -> f32 { return f%d(x) + f%d(x); }\n", i, i - 1, i - 1);
    }
    strcat(text, "out[0] = f29(1.0); }");
    float out[1];
    fails_with(text, 1, WITH(MEMORY(out)), NULL, FLX_E_KERNEL, "K72 ");
}

/* ---- Memory ---- */

TEST(kernel_interpret_out_of_bounds_is_harmless)
{
    struct {
        uint32_t before[4], x[4], after[4];
    } m = {{1, 1, 1, 1}, {10, 11, 12, 13}, {2, 2, 2, 2}};
    uint32_t out[4] = {9, 9, 9, 9};
    run("kernel t {\n"
        "  buffer x: u32[4] read_write @0; buffer out: u32[4] read_write @1; buffer w: u32[2] workgroup; buffer p: "
        "u32[2] private;\n"
        "  let far = buf_len(x);\n"
        "  x[far] = 7; x[4294967295u32 - far] = 7; w[far] = 7; p[far] = 7;\n"
        "  out[0] = x[far] + x[4294967295u32 + far] + w[far] + p[far];\n"
        "  out[1] = atomic_add(x[far], 5);\n"
        "  out[2] = atomic_exchange(w[far], 5);\n"
        "  out[3] = p[0] + p[1] + w[0] + w[1];\n"
        "}",
        1, WITH({"x", m.x, sizeof m.x}, MEMORY(out)));
    for (int i = 0; i < 4; i++) {
        CHECK(m.before[i] == 1 && m.after[i] == 2);
        CHECK(i == 3 ? m.x[i] == 13 : m.x[i] == 10u + (uint32_t)i);
        CHECK_EQ_U64(out[i], i == 0 ? 13 : 0); /* 4294967295 + 4 wraps to 3 */
    }
}

/* One group's memory must not be seen by the next, nor one invocation's by another. */
TEST(kernel_interpret_shared_and_private_memory_start_at_zero)
{
    uint32_t out[24];
    run_all_ways("kernel t(workgroup = [4, 1, 1]) {\n"
                 "  buffer s: u32[4] workgroup; buffer p: u32[3] private; buffer out: u32[24] output @0;\n"
                 "  let l = local_id(0); let i = invocation_id(0);\n"
                 "  out[i] = s[l] + p[0] + p[1] + p[2];\n"
                 "  s[l] = 1; p[0] = 1; p[1] = 1; p[2] = 1;\n"
                 "  out[12 + i] = s[l] + p[2];\n"
                 "}",
                 3, WITH(MEMORY(out)));
    for (int i = 0; i < 24; i++)
        CHECK_EQ_U64(out[i], i < 12 ? 0 : 2);
}

TEST(kernel_interpret_outputs_start_at_zero_others_keep)
{
    uint32_t out[2] = {5, 5}, kept[2] = {5, 5};
    run("kernel t { buffer out: u32[2] output @0; buffer kept: u32[2] read_write @1; out[0] = out[0] + 1; kept[0] = "
        "kept[0] + 1; }",
        1, WITH(MEMORY(out), MEMORY(kept)));
    CHECK(out[0] == 1 && out[1] == 0 && kept[0] == 6 && kept[1] == 5);
}

TEST(kernel_interpret_storage_types_and_unaligned_memory)
{
    unsigned char room[64], f[4] = {0x38, 0xb8, 0x7e, 0x01}, n[2] = {0xf7, 0x80};
    static const float values[4] = {1.3F, -2.6F, 7, 0.3F};
    memcpy(room + 1, values, sizeof values);
    unsigned char e[4] = {0}, p[2] = {0}, i4[2] = {0};
    uint32_t flags[2] = {7, 0};
    run("kernel t(workgroup = [4, 1, 1]) {\n"
        "  buffer x: f32[4] read @0; buffer e: f8e5m2[4] read_write @1; buffer p: fp4[4] read_write @2; buffer i4: "
        "i4[4] read_write @3;\n"
        "  buffer f: f8e4m3[4] read_write @4; buffer n: nf4[4] read_write @5; buffer flags: bool[2] read_write @6;\n"
        "  let i = local_id(0);\n"
        "  e[i] = x[i]; p[i] = x[i]; i4[i] = cast<i32>(x[i]); f[i] = f[i] * 2.0; n[i] = n[i] * 0.5;\n"
        "  if (i == 0) { flags[1] = flags[0]; }\n"
        "}",
        1, WITH({"x", room + 1, sizeof values}, MEMORY(e), MEMORY(p), MEMORY(i4), MEMORY(f), MEMORY(n), MEMORY(flags)));
    CHECK(e[0] == 0x3d && e[1] == 0xc1 && e[2] == 0x47 && e[3] == 0x35); /* 1.25, -2.5, 7, 0.3125 */
    CHECK(p[0] == 0xd3 && p[1] == 0x17);                                 /* 1.5, -3; 6, 0.5 */
    CHECK(i4[0] == 0xe1 && i4[1] == 0x07);
    CHECK(f[0] == 0x40 && f[1] == 0xc0 && f[2] == 0x7f && f[3] == 0x02);
    CHECK(n[0] == 0xc7); /* 0; 1 * 0.5 is nearest to 0.4407 */
    CHECK(n[1] == 0x82); /* -0.5 to -0.5251; half of code 8 is between 7 and 8, and 8 is even */
    CHECK(flags[0] == 7 && flags[1] == 1);
}

TEST(kernel_interpret_nan_and_bits)
{
    uint32_t x[2] = {0xffc12345, 0x7f800001}, out[6] = {0};
    run("kernel t {\n"
        "  buffer x: f32[2] read @0; buffer out: f32[6] read_write @1;\n"
        "  out[0] = x[0]; out[1] = x[1];\n"
        "  out[2] = x[0] + 1.0; out[3] = select(true, x[1], 0.0); out[4] = -x[0]; out[5] = stop_gradient(x[1]);\n"
        "}",
        1, WITH(MEMORY(x), MEMORY(out)));
    static const uint32_t wanted[6] = {0xffc12345, 0x7f800001, 0x7fc00000, 0x7f800001, 0x7fc12345, 0x7f800001};
    for (int i = 0; i < 6; i++)
        CHECK_EQ_U64(out[i], wanted[i]);
}

TEST(kernel_interpret_atomics_give_the_old_element)
{
    uint32_t x[10] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, out[10] = {0};
    float f[4] = {1, 1, 1, 1}, g[4] = {0};
    run("kernel t {\n"
        "  buffer x: u32[10] read_write @0; buffer out: u32[10] read_write @1; buffer f: f32[4] read_write @2; buffer "
        "g: f32[4] read_write @3;\n"
        "  out[0] = atomic_add(x[0], 3); out[1] = atomic_sub(x[1], 6); out[2] = atomic_min(x[2], 3); out[3] = "
        "atomic_max(x[3], 9);\n"
        "  out[4] = atomic_and(x[4], 4); out[5] = atomic_or(x[5], 2); out[6] = atomic_xor(x[6], 1); out[7] = "
        "atomic_exchange(x[7], 1);\n"
        "  out[8] = atomic_compare_exchange(x[8], 5, 6); out[9] = atomic_compare_exchange(x[9], 4, 6);\n"
        "  g[0] = atomic_add(f[0], 0.5); g[1] = atomic_exchange(f[1], 2.0); g[2] = atomic_min(f[2], -1.0); g[3] = "
        "atomic_max(f[3], 3.0);\n"
        "  atomic_add(x[0], 1, seq_cst);\n"
        "}",
        1, WITH(MEMORY(x), MEMORY(out), MEMORY(f), MEMORY(g)));
    static const uint32_t wanted[10] = {9, UINT32_MAX, 3, 9, 4, 7, 4, 1, 6, 5};
    for (int i = 0; i < 10; i++) {
        CHECK_EQ_U64(x[i], wanted[i]);
        CHECK_EQ_U64(out[i], 5);
    }
    CHECK(f[0] == 1.5F && f[1] == 2 && f[2] == -1 && f[3] == 3);
    for (int i = 0; i < 4; i++)
        CHECK(g[i] == 1);
}

/* ---- Barriers ---- */

TEST(kernel_interpret_barrier_orders_a_workgroup)
{
    float x[12], out[12];
    for (int i = 0; i < 12; i++)
        x[i] = (float)(i + 1);
    run_all_ways("kernel mirror(workgroup = [4, 1, 1]) {\n"
                 "  buffer x: f32[12] read @0; buffer sh: f32[4] workgroup; buffer out: f32[12] output @1;\n"
                 "  let l = local_id(0);\n"
                 "  sh[l] = x[invocation_id(0)]; barrier(); out[invocation_id(0)] = sh[3 - l] * sh[l];\n"
                 "}",
                 3, WITH(MEMORY(x), MEMORY(out)));
    for (int i = 0; i < 12; i++)
        CHECK(out[i] == x[i] * x[i / 4 * 4 + 3 - i % 4]);
}

TEST(kernel_interpret_prefix_sum_with_barriers_in_a_loop)
{
    uint32_t x[32], out[32];
    for (uint32_t i = 0; i < 32; i++)
        x[i] = i * i + 1;
    run_all_ways("kernel scan(workgroup = [8, 1, 1]) {\n"
                 "  buffer x: u32[32] read @0; buffer s: u32[8] workgroup; buffer out: u32[32] output @1;\n"
                 "  let l = local_id(0); s[l] = x[invocation_id(0)]; barrier();\n"
                 "  for (k in 0..3) {\n"
                 "    let d = 1u32 << k; let t = 0u32; if (l >= d) { t = s[l - d]; }\n"
                 "    barrier(); s[l] = s[l] + t; barrier();\n"
                 "  }\n"
                 "  out[invocation_id(0)] = s[l];\n"
                 "}",
                 4, WITH(MEMORY(x), MEMORY(out)));
    for (uint32_t i = 0, sum = 0; i < 32; i++) {
        sum = (i % 8 ? sum : 0) + x[i];
        CHECK_EQ_U64(out[i], sum);
    }
}

TEST(kernel_interpret_grid_barrier_orders_the_grid)
{
    uint32_t out[24];
    run_all_ways("kernel t(workgroup = [3, 1, 1]) {\n"
                 "  buffer s: u32[3] workgroup; buffer out: u32[24] output @0;\n"
                 "  let i = invocation_id(0); let n = num_workgroups(0) * 3;\n"
                 "  s[local_id(0)] = i; out[i] = i + 1; barrier(grid);\n"
                 "  let left = out[(i + 1) % n]; let mine = s[local_id(0)]; barrier(grid);\n"
                 "  out[12 + i] = left * 100 + mine;\n"
                 "  for (k in 0..2) { let v = out[(i + 2) % n]; barrier(grid); out[i] = v; barrier(grid); }\n"
                 "}",
                 4, WITH(MEMORY(out)));
    for (uint32_t i = 0; i < 12; i++) {
        CHECK_EQ_U64(out[i], (i + 4) % 12 + 1);
        CHECK_EQ_U64(out[12 + i], ((i + 1) % 12 + 1) * 100 + i);
    }
}

/* Programs that validation would reject, built by hand and given directly to the interpreter. */
static flx_code run_unchecked(flxi_kb *b, uint32_t groups, flx_error *err)
{
    flx_kernel *k = flxi_kb_finish(b, err);
    CHECK_MSG(k != NULL, "%s", err->message);
    static uint32_t memory[64];
    flxi_kbound bound[] = {{0}, {(unsigned char *)memory, 64}};
    flxi_kdispatch d = {.kernel = k, .grid = {groups, 1, 1}, .bound = bound};
    d.options.subgroup_size = 32;
    d.options.max_steps = 100000;
    flx_code code = flxi_kernel_interpret(&d, err);
    flx_kernel_release(k);
    return code;
}

static flxi_kb *build(uint32_t size, flx_error *err)
{
    const uint32_t sizes[3] = {size, 1, 1};
    flxi_kb *b = flxi_kb_new(flk_context(), "t", sizes, err);
    CHECK(b != NULL);
    flxi_kb_buffer(b, &(flxi_kbuffer){.name = "x", .access = FLX_KERNEL_READ_WRITE, .element = FLX_U32, .count = 64});
    return b;
}

TEST(kernel_interpret_divergent_barriers_end_the_run)
{
    flx_error err = {0};
    flxi_kb *b = build(4, &err);
    uint32_t is_first = flxi_kb_binary(b, KBIN_eq, flxi_kb_id(b, FLX_KERNEL_LOCAL_ID, 0), flxi_kb_u32(b, 0));
    flxi_kb_if(b, is_first);
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    flxi_kb_else(b);
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    flxi_kb_end(b);
    CHECK_CODE(run_unchecked(b, 1, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "divergent barrier in kernel 't': others wait at body/0/0");
    CHECK_EQ_STR(err.where, "kernel t: body/0/else/0, invocation [1, 0, 0]");

    b = build(4, &err); /* a barrier of the grid is another one */
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_eq, flxi_kb_id(b, FLX_KERNEL_LOCAL_ID, 0), flxi_kb_u32(b, 0)));
    flxi_kb_barrier(b, FLX_KERNEL_GRID);
    flxi_kb_end(b);
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    CHECK_CODE(run_unchecked(b, 1, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "divergent barrier", 17) == 0);

    b = build(4, &err); /* the workgroups of a grid, too */
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_eq, flxi_kb_id(b, FLX_KERNEL_WORKGROUP_ID, 0), flxi_kb_u32(b, 0)));
    flxi_kb_barrier(b, FLX_KERNEL_GRID);
    flxi_kb_else(b);
    flxi_kb_barrier(b, FLX_KERNEL_GRID);
    flxi_kb_end(b);
    CHECK_CODE(run_unchecked(b, 2, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "divergent barrier", 17) == 0);

    b = build(4, &err); /* invocations that have returned are not waited for */
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_eq, flxi_kb_id(b, FLX_KERNEL_LOCAL_ID, 0), flxi_kb_u32(b, 0)));
    flxi_kb_return(b);
    flxi_kb_end(b);
    flxi_kb_barrier(b, FLX_KERNEL_ACQ_REL);
    flxi_kb_barrier(b, FLX_KERNEL_GRID);
    CHECK_OK(run_unchecked(b, 2, &err), &err);
}

/* ---- Subgroups ---- */

static void run_subgroups(const char *text, uint32_t width, flx_kernel_memory *m, size_t n)
{
    flx_error err = {0};
    flx_kernel *k = flk(text);
    for (uint32_t s = 0; s < 8; s++) {
        flx_kernel_run_options o = {.subgroup_size = width, .schedule = s < 4 ? s : FLX_KERNEL_SHUFFLED, .seed = s};
        memset(m[n - 1].data, 0, m[n - 1].size);
        CHECK_OK(try_run(k, 1, m, n, &o, &err), &err);
    }
    flx_kernel_release(k);
}

TEST(kernel_interpret_subgroup_ops)
{
    float x[6] = {1, 2, 3, 4, 5, 6}, out[24];
    uint32_t from[6] = {1, 1, 3, 0, 1, 3}; /* the last one asks for a lane that its subgroup does not have */
    run_subgroups("kernel t(workgroup = [6, 1, 1]) {\n"
                  "  buffer x: f32[6] read @0; buffer from: u32[6] read @1; buffer out: f32[24] read_write @2;\n"
                  "  let i = local_id(0); let v = x[i];\n"
                  "  out[i] = subgroup_add(v);\n"
                  "  v = subgroup_shuffle(v, from[i]); out[6 + i] = v;\n"
                  "  out[12 + i] = cast<f32>(subgroup_ballot(x[i] > 2.0));\n"
                  "  out[18 + i] = cast<f32>(subgroup_lane() + 10 * subgroup_size());\n"
                  "}",
                  4, WITH(MEMORY(x), MEMORY(from), MEMORY(out)));
    static const float sums[6] = {10, 10, 10, 10, 11, 11}, moved[6] = {2, 2, 4, 1, 6, 0};
    static const float ballots[6] = {12, 12, 12, 12, 3, 3};
    for (int i = 0; i < 6; i++)
        CHECK(out[i] == sums[i] && out[6 + i] == moved[i] && out[12 + i] == ballots[i] &&
              out[18 + i] == (float)(40 + i % 4));
}

/* Inactive lanes do not count; after the branch all are together again. */
TEST(kernel_interpret_subgroup_ops_in_divergent_flow)
{
    uint32_t out[32];
    run_subgroups("kernel t(workgroup = [8, 1, 1]) {\n"
                  "  buffer out: u32[32] read_write @0;\n"
                  "  let i = local_id(0); let v = i + 1;\n"
                  "  if (i % 2 == 0) { out[i] = subgroup_add(v); out[8 + i] = subgroup_shuffle(v, 1); }\n"
                  "  else { if (i > 4) { out[i] = subgroup_ballot(true); } }\n"
                  "  out[16 + i] = subgroup_add(1u32);\n"
                  "  if (i == 7) { return; }\n"
                  "  out[24 + i] = subgroup_ballot(true);\n"
                  "}",
                  8, WITH(MEMORY(out)));
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_EQ_U64(out[i], i % 2 == 0 ? 1 + 3 + 5 + 7 : i > 4 ? 1 << 5 | 1 << 7 : 0);
        CHECK_EQ_U64(out[8 + i], 0); /* lane 1 is not active */
        CHECK_EQ_U64(out[16 + i], 8);
        CHECK_EQ_U64(out[24 + i], i < 7 ? 0x7f : 0);
    }
}

/* Lanes leave the inner loop at different times and meet again in the next iteration of the outer one. */
TEST(kernel_interpret_subgroup_ops_in_loops_of_different_length)
{
    uint32_t out[24];
    run_subgroups("kernel t(workgroup = [4, 1, 1]) {\n"
                  "  buffer out: u32[24] read_write @0;\n"
                  "  let i = local_id(0); let met = 0u32; let inner = 0u32;\n"
                  "  for (a in i..i + 3) {\n"
                  "    met = met * 10 + subgroup_add(1u32);\n"
                  "    for (c in 0..i) { inner = inner + subgroup_add(1u32); }\n"
                  "  }\n"
                  "  out[i] = met; out[4 + i] = inner; out[8 + i] = subgroup_add(1u32);\n"
                  "}",
                  4, WITH(MEMORY(out)));
    for (uint32_t i = 0; i < 4; i++) {
        static const uint32_t inner[4] = {0, 3, 3 + 2, 3 + 2 + 1};
        CHECK_EQ_U64(out[i], 444);
        CHECK_EQ_U64(out[4 + i], 3 * inner[i]);
        CHECK_EQ_U64(out[8 + i], 4);
    }
}

TEST(kernel_interpret_subgroup_ops_and_barriers)
{
    uint32_t out[8];
    run_all_ways(
        "kernel t(workgroup = [8, 1, 1]) {\n"
        "  buffer s: u32[8] workgroup; buffer out: u32[8] output @0;\n"
        "  let i = local_id(0); s[i] = subgroup_add(i); barrier(); out[i] = subgroup_add(s[7 - i]) + s[(i + 1) % 8];\n"
        "}",
        1, WITH(MEMORY(out)));
    for (int i = 0; i < 8; i++)
        CHECK_EQ_U64(out[i], 28 * 9);
}

/* ---- Copies, stages, traps ---- */

TEST(kernel_interpret_async_copies_take_effect_at_the_wait)
{
    uint32_t src[8] = {1, 2, 3, 4, 5, 6, 7, 8}, dst[8] = {0}, out[10];
    run_all_ways("kernel t {\n"
                 "  buffer src: u32[8] read @0; buffer dst: u32[8] read_write @1; buffer s: u32[4] workgroup; buffer "
                 "out: u32[10] output @2;\n"
                 "  async_load(src, s, 8, 8, a);\n"
                 "  out[0] = s[0];\n"
                 "  async_wait(a);\n"
                 "  out[1] = s[0]; out[2] = s[1]; out[3] = s[2];\n"
                 "  s[2] = 77; async_store(s, dst, 24, 100, b);\n" /* clipped to the two elements that are left */
                 "  s[0] = 99; out[4] = dst[6]; dst[6] = 5;\n"
                 "  async_wait(b);\n"
                 "  out[5] = dst[5]; out[6] = dst[6]; out[7] = dst[7]; dst[6] = 0;\n"
                 "  async_load(src, s, 1000, 8, c); async_wait(c);\n"
                 "  out[8] = s[0]; out[9] = s[3];\n"
                 "}",
                 1, WITH(MEMORY(src), MEMORY(dst), MEMORY(out)));
    static const uint32_t wanted[10] = {0, 3, 4, 0, 0, 0, 99, 4, 99, 0};
    for (int i = 0; i < 10; i++)
        CHECK_EQ_U64(out[i], wanted[i]);
}

TEST(kernel_interpret_async_copies_must_be_waited_for)
{
    uint32_t x[4] = {0};
    fails_with("kernel t { buffer x: u32[4] read_write @0; buffer s: u32[4] workgroup;\n"
               "  async_load(x, s, 0, 4, a); if (x[0] == 1) { async_wait(a); } }",
               1, WITH(MEMORY(x)), NULL, FLX_E_KERNEL, "async the copy 'a' is outstanding at the end");
    fails_with("kernel t { buffer x: u32[4] read_write @0; buffer s: u32[4] workgroup;\n"
               "  for (i in 0..2) { async_load(x, s, 0, 4, a); if (i == 1) { async_wait(a); } } }",
               1, WITH(MEMORY(x)), NULL, FLX_E_KERNEL, "async the copy 'a' is started while it is outstanding");
}

TEST(kernel_interpret_trap_carries_tag_and_address)
{
    flx_error err = {0};
    uint32_t x[4] = {3};
    flx_kernel *k = flk("kernel t(workgroup = [2, 1, 1]) { buffer x: u32[4] read_write @0;\n"
                        "  if (invocation_id(0) == 3) { x[1] = 1; trap(x[0] * 100, \"bad value\"); x[1] = 2; } }");
    CHECK_CODE(try_run(k, 2, WITH(MEMORY(x)), NULL, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "trap 'bad value' at address 300");
    CHECK_EQ_STR(err.where, "kernel t: body/0/1, invocation [3, 0, 0]");
    CHECK_EQ_U64(x[1], 1);
    flx_kernel_release(k);
    fails_with("kernel t { buffer x: u32[4] read_write @0; resume(again); }", 1, WITH(MEMORY(x)), NULL, FLX_E_KERNEL,
               "resume 'again'");
}

TEST(kernel_interpret_indirect_dispatch_is_reported)
{
    flx_error err = {0};
    uint32_t x[5] = {0, 0, 7, 8, 9};
    flx_kernel *k =
        flk("kernel t(workgroup = [2, 1, 1]) { buffer x: u32[] read_write @0; indirect_dispatch(x, 8); x[3] = 5; }");
    CHECK_OK(try_run(k, 1, WITH(MEMORY(x)), NULL, &err), &err);
    CHECK_EQ_STR(err.message, "the next stage has the grid [7, 5, 9]"); /* as the kernel left it */
    CHECK_OK(try_run(k, 1, WITH(MEMORY(x)), NULL, NULL), NULL);
    CHECK_CODE(try_run(k, 1, WITH({"x", x, 16}), NULL, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "K49 ", 4) == 0);
    flx_kernel_release(k);
    fails_with("kernel t(workgroup = [2, 1, 1]) { buffer x: u32[5] read_write @0; indirect_dispatch(x, 8); "
               "indirect_dispatch(x, 4); }",
               1, WITH(MEMORY(x)), NULL, FLX_E_KERNEL, "indirect ");
}

TEST(kernel_interpret_collectives_of_one_are_copies)
{
    uint32_t x[4] = {1, 2, 3, 4}, a[4] = {0}, b[3] = {0}, c[5] = {9, 9, 9, 9, 9}, d[4] = {0};
    run("kernel t {\n"
        "  buffer x: u32[4] read @0; buffer a: u32[4] read_write @1; buffer b: u32[3] read_write @2; buffer c: u32[5] "
        "read_write @3; buffer d: u32[4] read_write @4;\n"
        "  all_reduce(x, a); all_gather(x, b); reduce_scatter(x, c); broadcast(x, d, 0);\n"
        "}",
        1, WITH(MEMORY(x), MEMORY(a), MEMORY(b), MEMORY(c), MEMORY(d)));
    for (uint32_t i = 0; i < 4; i++)
        CHECK(a[i] == i + 1 && d[i] == i + 1 && c[i] == i + 1 && (i == 3 || b[i] == i + 1));
    CHECK_EQ_U64(c[4], 9);
    fails_with("kernel t { buffer x: u32[4] read @0; buffer a: u32[4] read_write @1; broadcast(x, a, 1); }", 1,
               WITH(MEMORY(x), MEMORY(a)), NULL, FLX_E_KERNEL, "collective broadcast from device 1");
}

TEST(kernel_interpret_extensions_are_refused)
{
    flx_error err = {0};
    flxi_kb *b = build(1, &err);
    uint32_t o =
        flxi_kb_add_opaque(b, &(flxi_kopaque){.extension = "other", .payload = "", .type = FLX_U32, .pure = 1});
    flxi_kb_store(b, 1, flxi_kb_u32(b, 0), flxi_kb_opaque(b, o, NULL, 0));
    CHECK_CODE(run_unchecked(b, 1, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "K64 kernel 't': extension 'other' is not registered");
    b = build(1, &err);
    o = flxi_kb_add_opaque(b, &(flxi_kopaque){.extension = "other", .payload = ""});
    flxi_kb_simple(b, &(flxi_ks){.kind = KS_OPAQUE, .opaque = o});
    CHECK_CODE(run_unchecked(b, 1, &err), FLX_E_KERNEL, &err);
}

/* ---- Schedules ---- */

/* A race distinguishes the schedules. */
static uint32_t racing_sum(const char *text, uint32_t schedule, uint64_t seed, uint32_t *x, size_t size)
{
    flx_error err = {0};
    flx_kernel *k = flk(text);
    flx_kernel_run_options o = {.schedule = schedule, .seed = seed};
    memset(x, 0, size);
    CHECK_OK(try_run(k, 4, WITH({"x", x, size}), &o, &err), &err);
    flx_kernel_release(k);
    return x[0];
}

TEST(kernel_interpret_schedules_differ_where_races_show)
{
    uint32_t x[65], y[65];
    const char *sum =
        "kernel t(workgroup = [8, 1, 1]) { buffer x: u32[65] read_write @0; let v = x[0]; x[0] = v + 1; }";
    CHECK_EQ_U64(racing_sum(sum, FLX_KERNEL_FORWARD, 0, x, sizeof x), 32);
    CHECK_EQ_U64(racing_sum(sum, FLX_KERNEL_REVERSE, 0, x, sizeof x), 32);
    CHECK_EQ_U64(racing_sum(sum, FLX_KERNEL_INTERLEAVED, 0, x, sizeof x), 1); /* all load before the first stores */
    CHECK(racing_sum(sum, FLX_KERNEL_SHUFFLED, 7, x, sizeof x) < 32);

    const char *order = "kernel t(workgroup = [8, 1, 1]) { buffer x: u32[65] read_write @0; let n = atomic_add(x[64], "
                        "1); x[n] = invocation_id(0); }";
    racing_sum(order, FLX_KERNEL_FORWARD, 0, x, sizeof x);
    racing_sum(order, FLX_KERNEL_REVERSE, 0, y, sizeof y);
    for (uint32_t i = 0; i < 32; i++)
        CHECK(x[i] == i && y[i] == 31 - i);
    uint64_t seen = 0;
    racing_sum(order, FLX_KERNEL_SHUFFLED, 1, x, sizeof x);
    racing_sum(order, FLX_KERNEL_SHUFFLED, 1, y, sizeof y);
    CHECK(memcmp(x, y, sizeof x) == 0); /* a seed is an order */
    racing_sum(order, FLX_KERNEL_SHUFFLED, 2, y, sizeof y);
    CHECK(memcmp(x, y, sizeof x) != 0);
    for (uint32_t i = 0; i < 32; i++)
        seen |= UINT64_C(1) << x[i];
    CHECK_EQ_U64(seen, UINT32_MAX); /* everybody once */
}

/* Every workgroup runs once, whatever their number and order. */
TEST(kernel_interpret_shuffle_visits_every_workgroup)
{
    static uint32_t out[5000];
    flx_error err = {0};
    flx_kernel *k = flk("kernel t { buffer out: u32[] read_write @0; atomic_add(out[invocation_id(0)], 1); }");
    static const uint32_t numbers[] = {0, 1, 2, 3, 4, 6, 7, 30, 2047, 2048, 2049, 4097, 5000};
    for (size_t n = 0; n < COUNT(numbers); n++)
        for (uint32_t s = 0; s < 6; s++) {
            flx_kernel_run_options o = {.schedule = s < 4 ? s : FLX_KERNEL_SHUFFLED, .seed = s};
            memset(out, 0, sizeof out);
            CHECK_OK(try_run(k, numbers[n], WITH(MEMORY(out)), &o, &err), &err);
            for (uint32_t i = 0; i < COUNT(out); i++)
                CHECK_EQ_U64(out[i], i < numbers[n]);
        }
    flx_kernel_release(k);
}

/* The order of workgroups is more than a rotation: of five, two at a time, the first two are not always neighbours. */
TEST(kernel_interpret_shuffle_mixes_workgroups)
{
    flx_error err = {0};
    uint32_t x[6];
    int apart = 0;
    flx_kernel *k = flk("kernel t(workgroup = [1024, 1, 1]) { buffer x: u32[6] read_write @0;\n"
                        "  if (local_id(0) == 0) { let n = atomic_add(x[5], 1); x[n] = workgroup_id(0); } }");
    for (uint64_t seed = 0; seed < 20; seed++) {
        memset(x, 0, sizeof x);
        flx_kernel_run_options o = {.schedule = FLX_KERNEL_SHUFFLED, .seed = seed};
        CHECK_OK(try_run(k, 5, WITH(MEMORY(x)), &o, &err), &err);
        uint32_t distance = (x[0] + 5 - x[1]) % 5;
        apart += distance == 2 || distance == 3;
    }
    CHECK(apart > 3 && apart < 17);
    flx_kernel_release(k);
}

/* ---- Limits ---- */

TEST(kernel_interpret_step_budget)
{
    flx_error err = {0};
    uint32_t x[1] = {0};
    fails_with("kernel t { buffer x: u32[1] read_write @0; let go = true; for (i in 0..4294967295) { if (go) { x[0] = "
               "i; } } }",
               1, WITH(MEMORY(x)), &(flx_kernel_run_options){.max_steps = 10000}, FLX_E_KERNEL,
               "steps the budget of 10000 evaluated nodes is exhausted");
    CHECK(x[0] > 500 && x[0] < 5000);
    fails_with("kernel t { buffer x: u32[1] read_write @0; for (i in 0..4294967295) { } }", 1, WITH(MEMORY(x)),
               &(flx_kernel_run_options){.max_steps = 1000}, FLX_E_KERNEL, "steps ");
    fails_with("kernel t { buffer x: u32[1] read_write @0; }", 100000, WITH(MEMORY(x)),
               &(flx_kernel_run_options){.max_steps = 1000}, FLX_E_KERNEL, "steps ");
    /* let, u32 literal; store, index, +, variable, literal; the end: 8 nodes. */
    flx_kernel *k = flk("kernel t { buffer x: u32[1] read_write @0; let a = 2u32; x[0] = a + 3; }");
    for (uint32_t s = 0; s < 4; s++) {
        flx_kernel_run_options o = {.max_steps = 24, .schedule = s};
        CHECK_OK(try_run(k, 3, WITH(MEMORY(x)), &o, &err), &err);
        o.max_steps = 23;
        CHECK_CODE(try_run(k, 3, WITH(MEMORY(x)), &o, &err), FLX_E_KERNEL, &err);
    }
    flx_kernel_release(k);
}

TEST(kernel_interpret_checked_arithmetic)
{
    static const struct {
        const char *statement, *message;
    } rows[] = {
        {"x[0] = 2147483647i32 + x[1];", "checked signed overflow in add of i32"},
        {"x[0] = -x[2];", "checked signed overflow in neg of i32"},
        {"x[0] = x[1] / x[0];", "checked division by zero in div of i32"},
        {"let u = 5u32 % cast<u32>(x[0]); x[0] = cast<i32>(u);", "checked division by zero in mod of u32"},
        {"x[0] = x[2] / -x[1];", "checked signed overflow in div of i32"},
        {"x[0] = wrapping_add(2147483647i32, x[1]);", NULL},
        {"x[0] = saturating_mul(x[2], x[2]);", NULL},
        {"let u = 4294967295u32 + 1; x[0] = cast<i32>(u);", NULL},
        {"let f = cast<f32>(x[1]) / 0.0; x[0] = cast<i32>(f);", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[200];
        int32_t x[3] = {0, 1, INT32_MIN};
        flx_kernel_run_options o = {.flags = FLX_KERNEL_CHECKED};
        snprintf(text, sizeof text, "kernel t { buffer x: i32[3] read_write @0; %s }", rows[i].statement);
        test_fail_context("%s", rows[i].statement);
        run(text, 1, WITH(MEMORY(x))); /* total without the flag */
        x[0] = 0;
        if (rows[i].message) {
            fails_with(text, 1, WITH(MEMORY(x)), &o, FLX_E_KERNEL, rows[i].message);
        } else {
            flx_error err = {0};
            flx_kernel *k = flk(text);
            CHECK_OK(try_run(k, 1, WITH(MEMORY(x)), &o, &err), &err);
            flx_kernel_release(k);
        }
    }
}

/* ---- Binding ---- */

static const char copy_text[] = "kernel t { buffer x: f32[4] read @0; buffer y: f32[] read_write @1 where (count % 2 "
                                "== 0); buffer s: f32[4] workgroup; y[0] = x[0]; }";

TEST(kernel_interpret_memory_is_checked)
{
    float x[4] = {1}, y[4], both[8];
    static const char *const t = copy_text;
    fails_with(t, 1, WITH(MEMORY(x)), NULL, FLX_E_MISSING_INPUT, "buffer 'y' of kernel 't' has no memory");
    fails_with(t, 1, WITH(MEMORY(x), MEMORY(y), MEMORY(both)), NULL, FLX_E_NAME, "kernel 't' has no buffer 'both'");
    fails_with(t, 1, WITH(MEMORY(x), MEMORY(y), {"s", both, 16}), NULL, FLX_E_USAGE, "buffer 's' is workgroup memory");
    fails_with(t, 1, WITH({"x", x, 15}, MEMORY(y)), NULL, FLX_E_SIZE,
               "buffer 'x': 4 f32 elements take 16 bytes, got 15");
    fails_with(t, 1, WITH(MEMORY(x), {"y", y, 7}), NULL, FLX_E_SIZE, "buffer 'y': 7 bytes are not a whole number");
    fails_with(t, 1, WITH(MEMORY(x), {"y", y, 12}), NULL, FLX_E_KERNEL, "K07 buffer 'y': 3 elements");
    fails_with(t, 1, WITH({"x", both, 16}, {"y", both + 3, 16}), NULL, FLX_E_USAGE,
               "buffers 'x' and 'y' overlap, and 'y' is written");
    fails_with(t, 1, WITH({"x", both + 1, 16}, {"y", both, 8}), NULL, FLX_E_USAGE,
               "buffers 'y' and 'x' overlap, and 'y' is written");
    fails_with(t, 1, WITH({"x", both + 1, 16}, {"y", both, 32}), NULL, FLX_E_USAGE,
               "buffers 'y' and 'x' overlap, and 'y' is written");
    flx_error err = {0};
    flx_kernel *k = flk(t);
    CHECK_CODE(try_run(k, 1, WITH(MEMORY(x), MEMORY(y), MEMORY(x)), NULL, &err), FLX_E_DUP_NAME, &err);
    CHECK_CODE(try_run(k, 1, WITH({NULL, x, 16}), NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(try_run(k, 1, WITH({"x", NULL, 16}, MEMORY(y)), NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(try_run(k, 1, WITH({"x", NULL, 0}, MEMORY(y)), NULL, &err), FLX_E_SIZE, &err);
    CHECK_CODE(try_run(k, 1, NULL, 2, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_run(NULL, (const uint32_t[3]){1, 1, 1}, NULL, 0, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_run(k, NULL, NULL, 0, NULL, &err), FLX_E_USAGE, &err);
    CHECK_OK(try_run(k, 1, WITH({"x", both, 20}, {"y", both + 4, 16}), NULL, &err),
             &err); /* only four elements are used */
    CHECK_OK(try_run(k, 1, WITH(MEMORY(x), {"y", NULL, 0}), NULL, &err), &err);
    flx_kernel_release(k);
    run("kernel t { buffer a: f32[4] read @0; buffer b: f32[4] read @1; buffer y: f32[1] output @2; y[0] = a[0] + "
        "b[0]; }",
        1, WITH({"a", x, 16}, {"b", x, 16}, {"y", y, 4})); /* overlap of what is only read */
    CHECK(y[0] == 2);
    fails_with("kernel t { buffer a: f32[8] read @0; buffer b: f32[2] read @1; buffer y: f32[1] output @2; y[0] = a[0] "
               "+ b[0]; }",
               1, WITH({"a", both, 32}, {"b", both, 8}, {"y", both + 5, 4}), NULL, FLX_E_USAGE,
               "buffers 'a' and 'y' overlap, and 'y' is written");
}

TEST(kernel_interpret_options_are_checked)
{
    float x[4] = {1}, y[4];
    static const char *const t = copy_text;
    fails_with(t, 1, WITH(MEMORY(x), MEMORY(y)), &(flx_kernel_run_options){.device = "abacus"}, FLX_E_NAME,
               "unknown device 'abacus'");
    fails_with(t, 1, WITH(MEMORY(x), MEMORY(y)), &(flx_kernel_run_options){.subgroup_size = 33}, FLX_E_USAGE,
               "subgroup size 33");
    flx_error err = {0};
    flx_kernel *k = flk(t);
    CHECK_CODE(try_run(k, 1, WITH(MEMORY(x), MEMORY(y)), &(flx_kernel_run_options){.schedule = 4}, &err), FLX_E_USAGE,
               &err);
    CHECK_CODE(try_run(k, 1, WITH(MEMORY(x), MEMORY(y)), &(flx_kernel_run_options){.flags = 4}, &err), FLX_E_USAGE,
               &err);
    CHECK_OK(try_run(k, 1, WITH(MEMORY(x), MEMORY(y)), &(flx_kernel_run_options){.device = "ref"}, &err), &err);
    /* A known device that is not present is the system's fault, not the caller's. */
    flx_code code = try_run(k, 1, WITH(MEMORY(x), MEMORY(y)), &(flx_kernel_run_options){.device = "cuda"}, &err);
    CHECK_MSG(code == FLX_OK || code == FLX_E_DEVICE, "%s", err.message);
    flx_kernel_run_options watched = {.device = "cpu", .flags = FLX_KERNEL_DETECT_RACES};
    CHECK_CODE(try_run(k, 1, WITH(MEMORY(x), MEMORY(y)), &watched, &err), FLX_E_UNSUPPORTED, &err);
    /* A caller that was compiled with fewer fields. */
    flx_kernel_run_options old = {.struct_size = offsetof(flx_kernel_run_options, max_steps), .max_steps = 1};
    CHECK_OK(try_run(k, 1, WITH(MEMORY(x), MEMORY(y)), &old, &err), &err);
    flx_kernel_release(k);
}

TEST(kernel_interpret_grids_are_checked)
{
    flx_error err = {0};
    uint32_t out[1] = {0};
    flx_kernel *k = flk("kernel t(workgroup = [2, 1, 1]) { buffer out: u32[1] read_write @0; atomic_add(out[0], 1); }");
    const flx_kernel_memory m[] = {MEMORY(out)};
    CHECK_CODE(flx_kernel_run(k, (const uint32_t[3]){0x80000001, 1, 1}, m, 1, NULL, &err), FLX_E_SIZE, &err);
    CHECK_CODE(flx_kernel_run(k, (const uint32_t[3]){1u << 31, 1u << 31, 1u << 31}, m, 1, NULL, &err), FLX_E_SIZE,
               &err);
    CHECK_OK(flx_kernel_run(k, (const uint32_t[3]){5, 0, 5}, m, 1, NULL, &err), &err);
    CHECK_EQ_U64(out[0], 0);
    flx_kernel_release(k);
    k = flk("kernel t(workgroup = [1024, 1, 1]) { buffer out: u32[1] read_write @0; buffer p: u32[1024] private; p[0] "
            "= 1; barrier(grid); }");
    CHECK_CODE(flx_kernel_run(k, (const uint32_t[3]){1u << 20, 1, 1}, m, 1, NULL, &err), FLX_E_SIZE, &err);
    CHECK_CODE(flx_kernel_run(k, (const uint32_t[3]){1u << 22, 1u << 31, 1u << 31}, m, 1, NULL, &err), FLX_E_SIZE,
               &err);
    flx_kernel_release(k);
}

TEST(kernel_interpret_invalid_kernels_are_refused)
{
    flx_error err = {0};
    flxi_kb *b = build(1, &err);
    flxi_kb_store(b, 1, flxi_kb_u32(b, 0), flxi_kb_number(b, FLX_F32, 1));
    flx_kernel *k = flxi_kb_finish(b, &err);
    uint32_t x[64];
    CHECK_CODE(try_run(k, 1, WITH(MEMORY(x)), NULL, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "K21 ", 4) == 0);
    flx_kernel_release(k);
}

TEST(kernel_interpret_ignores_expressions_that_nothing_uses)
{
    flx_error err = {0};
    flxi_kb *b = build(1, &err);
    flxi_kb_length(b, UINT32_MAX);
    flxi_kb_load(b, 70000, flxi_kb_id(b, FLX_KERNEL_NUM_WORKGROUPS, 700000));
    flxi_kb_var(b, flxi_kb_unknown(b, "gone", 4));
    flxi_kb_store(b, 1, flxi_kb_u32(b, 0), flxi_kb_length(b, 1));
    CHECK_OK(run_unchecked(b, 1, &err), &err);
}

/* ---- Out of memory ---- */

TEST(kernel_interpret_survives_failing_allocation)
{
    static const char text[] = "kernel t(workgroup = [4, 1, 1]) {\n"
                               "  buffer x: u32[8] read @0; buffer s: u32[4] workgroup; buffer p: u32[4] private; "
                               "buffer d: u32[8] read distinct @2; buffer out: u32[8] output @1;\n"
                               "  fn f(a: u32) -> u32 { return a + 1; }\n"
                               "  let l = local_id(0); for (i in 0..2) { p[i] = f(x[i]); } s[l] = p[1]; barrier();\n"
                               "  if (l == 0) { async_load(x, s, 0, 4, t); async_wait(t); }\n"
                               "  out[invocation_id(0)] = s[l] + subgroup_add(l);\n"
                               "}";
    for (int way = 0; way < 2; way++) {
        fault f = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        CHECK(ctx != NULL);
        flx_kernel *k = flk_in(ctx, text);
        uint32_t x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, d[8] = {0, 1, 2, 3, 4, 5, 6, 7}, out[8];
        flx_kernel_run_options o = {.schedule = way ? FLX_KERNEL_SHUFFLED : FLX_KERNEL_FORWARD,
                                    .flags = way ? FLX_KERNEL_DETECT_RACES : 0};
        size_t before = f.live_blocks, failures = 0;
        for (size_t n = 1;; n++) {
            flx_error err = {0};
            f.calls = 0;
            f.fail_at = n;
            flx_code code = try_run(k, 2, WITH(MEMORY(x), MEMORY(d), MEMORY(out)), &o, &err);
            CHECK_EQ_U64(f.live_blocks, before);
            if (code == FLX_OK)
                break;
            CHECK_CODE(code, FLX_E_OOM, &err);
            failures++;
        }
        CHECK(failures > 15);
        CHECK_EQ_U64(out[1], 3 + 6);
        f.fail_at = 0;
        flx_kernel_release(k);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
    }
}
