/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_vector.c: the vector form of kernels against the interpreter. */
#include "emit/emit_programs.h"
#include "emit/emit_random.h"
#include "emit/vector_pair.h"
#include "kernel/program/op_matrix.h"

#include "fault.h"

#include <stdio.h>
#include <stdlib.h>

TEST(kernel_vector_every_exact_op_on_every_type)
{
    op_matrix m;
    op_matrix_make(&m, flk_context(), OP_MATRIX_EXACT);
    CHECK(vector_prepare(m.at, m.n, NULL) >= 60);
    op_matrix_check(&m, "vector", 0);
    vector_forget();
    op_matrix_free(&m);
}

/* Programs without a vector form are written in the scalar form, so all of them run. */
TEST(kernel_vector_programs)
{
    enum { MAX = 64 };
    static flx_kernel *kernels[MAX];
    CHECK(num_emit_programs <= MAX);
    size_t n = 0;
    static const emit_program *programs[MAX];
    for (size_t i = 0; i < num_emit_programs; i++)
        if (!(emit_programs[i].flags & (PROGRAM_TRAPS | PROGRAM_SERIAL))) {
            programs[n] = &emit_programs[i];
            kernels[n++] = flk(emit_programs[i].text);
        }
    vector_prepare(kernels, n, NULL);
    for (size_t i = 0; i < n; i++) {
        emit_program_check(programs[i], kernels[i], "vector", 0);
        flx_kernel_release(kernels[i]);
    }
    vector_forget();
}

/* Where a workgroup is a vector, subgroups have its width; others have any. */
static uint32_t lanes_for(const flx_kernel *k, uint32_t otherwise)
{
    uint32_t lanes = flxi_vector_lanes(k);
    return k->size[0] == lanes && k->size[1] == 1 && k->size[2] == 1 ? lanes : otherwise;
}

/* Effort emitted_kernels: how many, 40 in one file. */
TEST(kernel_vector_random_kernels)
{
    enum { BATCH = 40 };
    flx_kernel *kernels[BATCH];
    size_t total = (size_t)effort(EFFORT_emitted_kernels);
    uint64_t seed = test_seed();
    for (size_t done = 0; done < total && !test_failed(); done += BATCH) {
        flx_context *ctx = flx_context_new(NULL);
        for (size_t i = 0; i < BATCH; i++)
            kernels[i] = emit_random(ctx, seed + done + i, EMIT_RANDOM_SAFE | EMIT_RANDOM_EXACT);
        vector_prepare(kernels, BATCH, NULL);
        for (size_t i = 0; i < BATCH; i++) {
            device_pair p = {.device = "vector", .grid = {4, 2, 1}, .open_count = 100, .seed = seed + done + i};
            p.max_index = i % 2 ? 70 : 0;
            p.subgroup_size = lanes_for(kernels[i], i % 3 ? 32 : 3);
            device_pair_check(kernels[i], &p);
            flx_kernel_release(kernels[i]);
        }
        vector_forget();
        flx_context_free(ctx);
    }
}

/* ---- Shapes ---- */

typedef struct {
    const char *text;
    uint32_t grid[3];
    size_t count;
    unsigned bytes, parts;
} shape;

#define MAP                                                                                                      \
    "kernel map(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer y: f32[] read; buffer out: f32[] output;" \
    " let i = invocation_id(0); if (i < buf_len(out)) { out[i] = fma(x[i], y[i], 0.5) * x[i] - max(x[i], y[i]); } }"
#define MAP_64                                                                                                      \
    "kernel map_64(workgroup = [64, 1, 1]) { buffer x: f64[] read; buffer y: i64[] read; buffer out: f64[] output;" \
    " let i = invocation_id(0); if (i < 250) { out[i] = select(x[i] > 1.0f64, fma(x[i], x[i], 0.5f64), "            \
    "cast<f64>(y[i])); } }"
#define PLANE                                                                                                        \
    "kernel plane(workgroup = [32, 1, 1]) { buffer x: f32[] read; buffer row: f32[] read; buffer out: f32[] output;" \
    " let i = invocation_id(0); let r = workgroup_id(1); let p = workgroup_id(2);"                                   \
    " if (i < 37) { out[(p * 3 + r) * 37 + i] = x[(p * 3 + r) * 37 + i] * row[r] + row[i]; } }"
#define COLUMNS                                                                                \
    "kernel columns(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output;" \
    " let i = invocation_id(0); if (i < 100) { let s = 0.0; let t = 1.0;"                      \
    " for (r in 0..7) { s = s + x[r * 100 + i]; t = t * x[r * 100 + i]; } out[i] = s; out[i + 100] = t; } }"
#define ROWS                                                                                                 \
    "kernel rows(workgroup = [16, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output;"                  \
    " let row = workgroup_id(0); let lane = local_id(0); let acc = 0.0; let m = -1000.0;"                    \
    " for (k in 0..3) { acc = acc + x[row * 53 + k * 16 + lane]; m = max(m, x[row * 53 + k * 16 + lane]); }" \
    " if (lane < 5) { acc = acc + x[row * 53 + 48 + lane]; m = max(m, x[row * 53 + 48 + lane]); }"           \
    " let total = subgroup_add(acc);"                                                                        \
    " m = max(m, subgroup_shuffle(m, lane ^ 8)); m = max(m, subgroup_shuffle(m, lane ^ 4));"                 \
    " m = max(m, subgroup_shuffle(m, lane ^ 2)); m = max(m, subgroup_shuffle(m, lane ^ 1));"                 \
    " for (k in 0..3) { out[row * 53 + k * 16 + lane] = x[row * 53 + k * 16 + lane] * total - m; }"          \
    " if (lane < 5) { out[row * 53 + 48 + lane] = x[row * 53 + 48 + lane] * total - m; } }"
#define ROWS_64                                                                                      \
    "kernel rows_64(workgroup = [8, 1, 1]) { buffer x: f64[] read; buffer out: f64[] output;"        \
    " let row = workgroup_id(0); let lane = subgroup_lane(); let acc = 0.0f64;"                      \
    " for (k in 0..4) { acc = fma(x[row * 32 + k * 8 + lane], 2.0f64, acc); }"                       \
    " let total = subgroup_add(acc); let b = subgroup_ballot(acc > 1.0f64);"                         \
    " let other = subgroup_shuffle(acc, (lane + 3) % subgroup_size()) + subgroup_shuffle(acc, 5) + " \
    "subgroup_shuffle(acc, lane ^ 7);"                                                               \
    " for (k in 0..4) { out[row * 32 + k * 8 + lane] = total + other + cast<f64>(b); } }"
#define MASKS                                                                                                      \
    "kernel masks(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer k: u32[] read; buffer out: f32[] output;" \
    " let i = invocation_id(0); let v = x[i]; let n = k[i] % 9; let s = 0.0;"                                      \
    " if (v > 0.0) { s = v; if (n > 3) { s = s * 2.0; out[i + 128] = s; } else { s = s - 1.0; } }"                 \
    " for (j in 0..n) { if (x[j] < v) { s = s + x[j * 3 + i]; } for (q in j..3) { s = s + cast<f32>(q); } }"       \
    " if (i < 120) { out[i] = s; } }"
#define NARROW                                                                                                       \
    "kernel narrow(workgroup = [64, 1, 1]) { buffer a: f16[] read; buffer b: bf16[] read; buffer c: u8[] read;"      \
    " buffer d: i16[] read; buffer t: bool[] read; buffer e: f8e4m3[] read; buffer f: i4[] read;"                    \
    " buffer oa: f16[] output; buffer ob: bf16[] output; buffer oc: u8[] output; buffer od: i16[] output;"           \
    " buffer ot: bool[] output; buffer oe: f8e4m3[] output; buffer of: i4[] output; buffer os: u8[] output; buffer " \
    "idx: u32[] read;"                                                                                               \
    " let i = invocation_id(0); oa[i] = a[i] * a[i] + a[63 - i % 64]; ob[i] = b[i] * b[i] - b[idx[i]];"              \
    " oc[i] = c[i] + c[i] * cast<u8>(3); od[i] = d[i] * d[i + 1]; ot[i] = t[i] || (c[i] > cast<u8>(5));"             \
    " oe[i] = e[i] + 1.0; of[i] = f[i] - f[i * 2]; os[(i * 5 + 3) % 256] = c[idx[i] / 2]; }"
#define STRIDED                                                                                                    \
    "kernel strided(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output; buffer ids: u32[] "  \
    "output;"                                                                                                      \
    " let i = invocation_id(0); let j = i * 2 + 1; let back = 127 - i; out[j] = x[back] + x[j] + cast<f32>(back);" \
    " ids[back] = j / 3 + j % 7 + (i >> 1); }"

#define CALLS                                                                                                         \
    "kernel calls(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer out: f32[] output;"                          \
    " fn bend(a: f32, t: bool, n: u32) -> f32 { let r = a; for (j in 0..n) { r = r * a; } return select(t, r, -r); }" \
    " let i = invocation_id(0); out[i] = bend(x[i], x[i] > 1.0, i % 4) + bend(x[i], true, 2); }"

#define PARTS(type)                                                                                    \
    "kernel parts(workgroup = [32, 1, 1]) { buffer x: " type "[] read; buffer out: " type "[] output;" \
    " let i = invocation_id(0); let a = x[i]; let b = x[i + 1]; out[2 * i] = a; out[2 * i + 1] = b; }"
#define COMPLEX                                                                                                      \
    "kernel complex(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer z: f64[] read; buffer out: f32[] output;" \
    " buffer zs: f64[] output; let i = invocation_id(0); if (i < 120) { let re = x[i * 2]; let im = x[i * 2 + 1];"   \
    " out[2 * i] = re * re - im * im; out[2 * i + 1] = 2.0 * re * im; zs[i] = z[i * 2 + 3] - z[2 * i]; } }"

#define ROW_OF_TABLE                                                                                                 \
    "kernel table(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer ids: i64[] read; buffer out: f32[] output;" \
    " let i = invocation_id(0); let r = workgroup_id(1); let id = cast<u32>(ids[r]) % 3;"                            \
    " if (i < 60) { out[r * 60 + i] = x[id * 60 + i] * cast<f32>(ids[r + 1]); } }"

/* Ramps that are guarded at their ends: lengths that are known, and that are not. */
#define GUARDED                                                                                                  \
    "kernel guarded(workgroup = [64, 1, 1]) { buffer x: f32[222] read; buffer y: f64[] read; buffer h: f16[] "   \
    "read; buffer out: f32[] output; buffer ys: f64[] output; buffer hs: f16[] output;"                          \
    " let i = invocation_id(0); let r = workgroup_id(1); if (i < 74) { if (r < 3) {"                             \
    " out[r * 74 + i] = select(i < 69, x[r * 74 + select(i < 69, i, 0) + 5], x[r * 74 + select(i - 69 < 5, i - " \
    "69, 0)]); ys[r * 74 + i] = y[select(i >= 3 && i < 40, i - 3, 7) + r]; hs[r * 74 + i] = h[select(i < 41, "   \
    "i, r * 200)]; } } }"

/* One of two rows, held by name or not, of memory that holds all or only a part; rows that are read backward. */
#define TURNED                                                                                                   \
    "kernel turned(workgroup = [64, 1, 1]) { buffer x: f32[222] read; buffer y: f64[] read; buffer h: f16[222] " \
    "read; buffer out: f32[] output; buffer ys: f64[] output; buffer hs: f16[] output; buffer os: f32[] output;" \
    " let i = invocation_id(0); let r = workgroup_id(1); if (i < 74) { if (r < 3) {"                             \
    " let p = select(i < 32, i + 42, i - 32); out[r * 74 + i] = x[r * 74 + p];"                                  \
    " ys[r * 74 + i] = y[r * 74 + select(i < 5, i + 69, i - 5)]; hs[r * 74 + i] = h[r * 74 + (73 - i)];"         \
    " os[r * 74 + i] = x[r * 74 + (73 - i)]; } } }"

/* Elements that several lanes read, from the first lane of an element on or not; every fourth element. */
#define REPEATED                                                                                                   \
    "kernel repeated(workgroup = [64, 1, 1]) { buffer x: f32[222] read; buffer y: f64[] read; buffer h: f16[222] " \
    "read; buffer out: f32[] output; buffer ys: f64[] output; buffer hs: f16[] output; buffer os: f32[] output;"   \
    " let i = invocation_id(0); let r = workgroup_id(1); if (i < 74) { if (r < 3) {"                               \
    " out[r * 74 + i] = x[r * 37 + i / 2]; ys[r * 74 + i] = y[(i + r) / 4 + r * 18];"                              \
    " hs[r * 74 + i] = h[r + (i >> 3)]; os[r * 74 + i] = x[i * 4 + r] + cast<f32>(y[4 * i + 1]); } } }"

/* Elements of rows, two of which a vector may meet; the ramp may begin beyond zero. */
#define STEPPED                                                                                                     \
    "kernel stepped(workgroup = [64, 1, 1]) { buffer x: f32[222] read; buffer y: f64[] read; buffer h: i32[] read;" \
    " buffer out: f32[] output; buffer ys: f64[] output; buffer os: f32[] output;"                                  \
    " let i = invocation_id(0); let r = workgroup_id(1); if (i < 74) { if (r < 3) {"                                \
    " out[r * 74 + i] = x[r * 5 + i / 16] + x[(i - 3) / 21]; ys[r * 74 + i] = y[(i + r) / 17 * 3 + r + 2];"         \
    " os[r * 74 + i] = x[30 * (i / 19) + 1] + cast<f32>(h[i / 39 * 7]); } } }"

/* Quotients and remainders by multiples of the lanes, of ramps that begin at one and of others. */
#define ROWED                                                                                                         \
    "kernel rowed(workgroup = [64, 1, 1]) { buffer x: f32[222] read; buffer y: f64[] read; buffer out: f32[] output;" \
    " buffer ys: f64[] output; buffer os: f32[] output; buffer ps: f32[] output;"                                     \
    " let i = invocation_id(0); let r = workgroup_id(1); if (i < 120) { if (r < 3) { let at = r * 120 + i;"           \
    " let row = (i + r * 128) / 64; out[at] = x[i / 32 * 7 + i % 32] + x[select(i % 32 > 0, i % 32 - 1, 0)];"         \
    " ys[at] = y[i % 32 + row] + y[(i + r) / 32 + (i + r * 8) % 32] + y[(i * 2) / 64 + (64 - i) % 64];"               \
    " os[at] = x[i / 48 * 3 + i % 48] + x[cast<u32>(cast<i32>(i) - 1) % 64]; let s = 0.0;"                            \
    " for (q in 0..3) { s = s + x[(q * 64 + i) / 32 + ((q * 64 + i) << 1) % 64]; }"                                   \
    " ps[at] = s + x[(r * 65536 * 65536 + i + 1) / 64]; } } }"

static const shape shapes[] = {
    {ROWED, {2, 3, 1}, 360, 16, 0},        {ROWED, {2, 3, 1}, 360, 32, 3},        {ROWED, {2, 3, 1}, 360, 64, 2},
    {ROWED, {2, 3, 1}, 350, 64, 0},        {ROWED, {2, 3, 1}, 40, 32, 2},         {STEPPED, {2, 3, 1}, 300, 16, 0},
    {STEPPED, {2, 3, 1}, 300, 32, 2},      {STEPPED, {2, 3, 1}, 10, 64, 0},       {REPEATED, {2, 3, 1}, 300, 16, 0},
    {REPEATED, {2, 3, 1}, 300, 32, 2},     {REPEATED, {2, 3, 1}, 30, 64, 0},      {TURNED, {2, 3, 1}, 222, 16, 0},
    {TURNED, {2, 3, 1}, 222, 32, 2},       {TURNED, {2, 3, 1}, 30, 64, 0},        {GUARDED, {2, 3, 1}, 222, 16, 0},
    {GUARDED, {2, 3, 1}, 222, 32, 2},      {GUARDED, {2, 3, 1}, 30, 64, 0},       {ROW_OF_TABLE, {1, 3, 1}, 180, 32, 0},
    {ROW_OF_TABLE, {1, 3, 1}, 170, 64, 0}, {COMPLEX, {2, 1, 1}, 240, 32, 0},      {COMPLEX, {2, 1, 1}, 230, 64, 0},
    {COMPLEX, {2, 1, 1}, 239, 16, 2},      {CALLS, {2, 1, 1}, 130, 32, 0},        {CALLS, {2, 1, 1}, 120, 64, 0},
    {MAP, {4, 1, 1}, 250, 32, 0},          {MAP, {4, 1, 1}, 250, 32, 2},          {MAP, {4, 1, 1}, 256, 64, 0},
    {MAP, {4, 1, 1}, 250, 16, 4},          {MAP_64, {4, 1, 1}, 250, 32, 0},       {MAP_64, {4, 1, 1}, 250, 64, 2},
    {PLANE, {2, 3, 2}, 222, 32, 0},        {PLANE, {2, 3, 2}, 220, 64, 0},        {COLUMNS, {2, 1, 1}, 700, 32, 4},
    {COLUMNS, {2, 1, 1}, 690, 64, 0},      {ROWS, {5, 1, 1}, 265, 32, 0},         {ROWS, {5, 1, 1}, 265, 64, 0},
    {ROWS, {5, 1, 1}, 260, 16, 0},         {ROWS_64, {5, 1, 1}, 160, 32, 0},      {ROWS_64, {5, 1, 1}, 160, 64, 0},
    {MASKS, {2, 1, 1}, 300, 32, 0},        {MASKS, {2, 1, 1}, 140, 64, 0},        {MASKS, {2, 1, 1}, 140, 16, 2},
    {NARROW, {4, 1, 1}, 260, 32, 0},       {NARROW, {4, 1, 1}, 250, 64, 0},       {STRIDED, {2, 1, 1}, 260, 32, 0},
    {STRIDED, {2, 1, 1}, 128, 64, 0},      {PARTS("f32"), {2, 1, 1}, 130, 16, 0}, {PARTS("f32"), {2, 1, 1}, 127, 32, 2},
    {PARTS("f32"), {2, 1, 1}, 101, 64, 0}, {PARTS("f64"), {2, 1, 1}, 101, 32, 0}, {PARTS("u32"), {2, 1, 1}, 128, 64, 0},
};

enum { NUM_SHAPES = sizeof shapes / sizeof *shapes };

static void check_shape(const shape *s, const flx_kernel *k)
{
    for (uint64_t seed = 0; seed < 3; seed++)
        device_pair_check(k, &(device_pair){.device = "vector",
                                            .grid = {s->grid[0], s->grid[1], s->grid[2]},
                                            .open_count = s->count,
                                            .max_index = 300,
                                            .subgroup_size = k->size[0] <= 16 ? k->size[0] : 0,
                                            .seed = test_seed() + seed});
}

TEST(kernel_vector_shapes_in_vectors_of_every_size)
{
    for (size_t i = 0; i < NUM_SHAPES; i++) {
        flx_kernel *k = flk(shapes[i].text);
        flxi_vector_options o = {.bytes = shapes[i].bytes, .parts = shapes[i].parts};
        CHECK_MSG(vector_prepare(&k, 1, &o) == 1, "shape %zu is not in vectors", i);
        check_shape(&shapes[i], k);
        vector_forget();
        flx_kernel_release(k);
    }
}

/* The same bits with every compiler and optimisation level. */
TEST(kernel_vector_shapes_with_every_compiler)
{
    static const char *const compilers[] = {"gcc", "clang"}, *const levels[] = {"-O0", "-O1", "-O3"};
    flx_kernel *kernels[NUM_SHAPES];
    for (size_t i = 0; i < NUM_SHAPES; i++)
        kernels[i] = flk(shapes[i].text);
    for (size_t c = 0; c < 2; c++) {
        if (!test_has_program(compilers[c]))
            continue;
        for (size_t l = 0; l < 3; l++) {
            vector_compiler = compilers[c];
            vector_level = levels[l];
            CHECK(vector_prepare(kernels, NUM_SHAPES, NULL) == NUM_SHAPES);
            for (size_t i = 0; i < NUM_SHAPES; i++)
                check_shape(&shapes[i], kernels[i]);
            vector_forget();
        }
    }
    vector_compiler = "cc";
    vector_level = "-O2";
    for (size_t i = 0; i < NUM_SHAPES; i++)
        flx_kernel_release(kernels[i]);
}

#if defined(__x86_64__)
/* Instructions that this machine may not have are at least accepted by the compilers. */
TEST(kernel_vector_compiles_for_other_machines)
{
    static const char *const machines[] = {"-O1 -march=skylake-avx512", "-O1 -march=x86-64"};
    flx_kernel *kernels[NUM_SHAPES + 1];
    for (size_t i = 0; i < NUM_SHAPES; i++)
        kernels[i] = flk(shapes[i].text);
    kernels[NUM_SHAPES] = flk(
        "kernel ops(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer z: f64[] read; buffer out: f32[] output;"
        " buffer zs: f64[] output; let i = invocation_id(0); let a = x[i]; let b = z[i]; zs[i] = sqrt(b) + floor(b) +"
        " ceil(b) + trunc(b) + rint(b) + fma(b, b, b) + exp(b) + sin(b); out[i] = sqrt(a) + floor(a) + ceil(a) +"
        " trunc(a) + rint(a) + fma(a, a, a) + pow(a, a) + cos(a); }");
    for (size_t m = 0; m < 2; m++) {
        vector_level = machines[m];
        flxi_vector_options o = {.bytes = m == 0 ? 64 : 16};
        CHECK(vector_prepare(kernels, NUM_SHAPES + 1, &o) == NUM_SHAPES + 1);
        vector_forget();
    }
    vector_level = "-O2";
    for (size_t i = 0; i <= NUM_SHAPES; i++)
        flx_kernel_release(kernels[i]);
}
#endif

/* All 16-bit codes; f32 with all upper halves, and lower halves around the points where rounding changes direction. */
static void fill_halves(const flx_kernel_buffer *b, void *data, size_t count, uint64_t seed)
{
    static const uint32_t low[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff,
                                   0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (size_t i = 0; i < count && b->access == FLX_KERNEL_READ; i++)
        device_pair_put(b->element, data, i, b->element == FLX_F32 ? i << 16 | low[(i * 7 + seed) % 12] : i);
}

TEST(kernel_vector_halves)
{
    flx_kernel *k =
        flk("kernel halves(workgroup = [64, 1, 1]) { buffer x: f32[65536] read; buffer h: f16[65536] read;"
            " buffer b: bf16[65536] read; buffer xh: f16[65536] output; buffer xb: bf16[65536] output;"
            " buffer hx: f32[65536] output; buffer bx: f32[65536] output; let i = invocation_id(0);"
            " xh[i] = cast<f16>(x[i]); xb[i] = cast<bf16>(x[i]); hx[i] = cast<f32>(h[i]); bx[i] = cast<f32>(b[i]); }");
    for (unsigned bytes = 16; bytes <= 64; bytes *= 2) {
        CHECK(vector_prepare(&k, 1, &(flxi_vector_options){.bytes = bytes}) == 1);
        for (uint64_t seed = 0; seed < 12; seed++)
            device_pair_check(
                k, &(device_pair){.device = "vector", .grid = {1024, 1, 1}, .fill = fill_halves, .seed = seed * 3 + 1});
        vector_forget();
    }
    flx_kernel_release(k);
}

/* All upper halves of numbers, and the neighbours of limits: each is rounded towards zero and saturates. */
static void fill_wide(const flx_kernel_buffer *b, void *data, uint64_t count, uint64_t seed)
{
    static const double near[] = {0.99999, 1, 127, 128, 127.9999, 255, 256, 32767, 32768, 65535, 65536, 0x1p31, 0x1p32};
    for (uint64_t i = 0; i < count && b->access == FLX_KERNEL_READ; i++) {
        double limit = (i & 1 ? -1 : 1) * (near[i / 2 % 13] + (double)seed * 0.5);
        if (i >= count - 64 && b->element == FLX_F32)
            ((float *)data)[i] = (float)limit;
        else if (i >= count - 64)
            ((double *)data)[i] = limit;
        else
            device_pair_put(b->element, data, i, b->element == FLX_F32 ? i << 16 | seed : i << 48 | seed);
    }
}

TEST(kernel_vector_casts_to_integers_saturate)
{
    flx_kernel *k = flk("kernel whole(workgroup = [64, 1, 1]) { buffer x: f32[65600] read; buffer y: f64[65600] read;"
                        " buffer a: i8[65600] output; buffer b: u8[65600] output; buffer c: i16[65600] output;"
                        " buffer d: u16[65600] output; buffer e: i32[65600] output; buffer f: i8[65600] output;"
                        " buffer g: u8[65600] output; buffer h: i16[65600] output; buffer p: u16[65600] output;"
                        " buffer q: i32[65600] output; let i = invocation_id(0);"
                        " a[i] = cast<i8>(x[i]); b[i] = cast<u8>(x[i]); c[i] = cast<i16>(x[i]); d[i] = cast<u16>(x[i]);"
                        " e[i] = cast<i32>(x[i]); f[i] = cast<i8>(y[i]); g[i] = cast<u8>(y[i]); h[i] = cast<i16>(y[i]);"
                        " p[i] = cast<u16>(y[i]); q[i] = cast<i32>(y[i]); }");
    for (unsigned bytes = 16; bytes <= 64; bytes *= 2) {
        CHECK(vector_prepare(&k, 1, &(flxi_vector_options){.bytes = bytes}) == 1);
        for (uint64_t seed = 0; seed < 2; seed++)
            device_pair_check(
                k, &(device_pair){.device = "vector", .grid = {1025, 1, 1}, .fill = fill_wide, .seed = seed});
        vector_forget();
    }
    flx_kernel_release(k);
}

/* A guarded ramp is one load wherever a vector is wholly inside. */
TEST(kernel_vector_guarded_ramps_are_not_gathered)
{
    const char *reason;
    flx_kernel *k = flk(GUARDED);
    char *text = vector_text(k, NULL, &reason);
    CHECK(!reason && strstr(text, "k_guarded_at_f32") && strstr(text, "k_guarded_f64") && !strstr(text, "k_gather_f"));
    free(text);
    flx_kernel_release(k);
}

/* Only the lanes of a last vector that is not full are read one by one. */
TEST(kernel_vector_turned_rows_are_read_at_once)
{
    const char *reason;
    flx_kernel *k = flk(TURNED);
    char *text = vector_text(k, NULL, &reason);
    CHECK(!reason && strstr(text, "k_either_f32") && strstr(text, "k_either_f64") &&
          strstr(text, "k_exchange_7_f32x8(k_get_f32x8(") && strstr(text, "k_exchange_7_f16x8(k_get_f16x8("));
    free(text);
    flx_kernel_release(k);
}

TEST(kernel_vector_rows_of_whole_vectors_are_not_gathered)
{
    const char *reason;
    flx_kernel *k = flk("kernel rows(workgroup = [64, 1, 1]) { buffer x: f32[4096] read; buffer out: f32[4096] output;"
                        " let i = invocation_id(0); let row = i / 64; let column = i % 64;"
                        " out[i] = x[select(row > 0, row - 1, 0) * 64 + column] +"
                        " x[row * 64 + select(column - 1 < 64, column - 1, 0)]; }");
    char *text = vector_text(k, NULL, &reason);
    CHECK(!reason && strstr(text, "k_load_f32") && strstr(text, "k_guarded_f32") && !strstr(text, "k_gather_f"));
    free(text);
    flx_kernel_release(k);
}

TEST(kernel_vector_repeated_elements_are_read_once)
{
    const char *reason;
    flx_kernel *k = flk(REPEATED);
    char *text = vector_text(k, NULL, &reason);
    CHECK(!reason && strstr(text, "k_repeat_2_f32") && strstr(text, "k_repeat_4_f64") && strstr(text, "k_quads_f32"));
    CHECK(strstr(text, "k_repeat_8_f16") && !strstr(text, "k_gather_"));
    free(text);
    flx_kernel_release(k);
}

TEST(kernel_vector_elements_of_rows_are_two_loads)
{
    const char *reason;
    flx_kernel *k = flk(STEPPED);
    char *text = vector_text(k, NULL, &reason);
    CHECK(!reason && strstr(text, "k_stepped_f32") && strstr(text, "k_stepped_f64") && strstr(text, "k_stepped_i32"));
    CHECK(!strstr(text, "k_gather_"));
    free(text);
    flx_kernel_release(k);
}

/* Buffers in the list are written past the cache, and nothing else changes. */
TEST(kernel_vector_streams_what_is_asked_for)
{
    flx_kernel *k = flk("kernel stream(workgroup = [64, 1, 1]) { buffer x: f32[256] read; buffer out: f32[256] output;"
                        " let i = invocation_id(0); if (i < 256) { out[i] = x[i] * 2.0; } }");
    const uint32_t which[] = {2};
    flxi_vector_options o = {.stream = which, .num_streams = 1};
    const char *reason;
    char *text = vector_text(k, &o, &reason);
    CHECK(!reason && strstr(text, "k_stream_f32") && strstr(text, "__builtin_ia32_sfence"));
    free(text);
    CHECK(vector_prepare(&k, 1, &o) == 1);
    device_pair_check(k, &(device_pair){.device = "vector", .grid = {4, 1, 1}, .seed = test_seed()});
    vector_forget();
    flx_kernel_release(k);
}

/* Memory is exhausted at every single request. */
TEST(kernel_vector_out_of_memory)
{
    static const char *const texts[] = {ROWS, MASKS, NARROW, CALLS};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        flx_code code = FLX_E_OOM;
        for (size_t at = 1; code != FLX_OK; at++) {
            fault f = {0};
            flx_error err = {0};
            flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
            flx_kernel *k = flk_in(ctx, texts[i]);
            flxi_kfile file;
            flxi_kentry entry;
            flxi_strbuf text;
            f.fail_at = f.calls + at;
            flxi_kfile_init(&file, &flxi_target_c, flxi_kernel_mem(k));
            flxi_strbuf_init(&text, flxi_kernel_mem(k));
            code = flxi_vector_write(&file, k, NULL, &entry, NULL, &err);
            if (code == FLX_OK)
                code = flxi_kfile_text(&file, &text, &err);
            CHECK(code == FLX_OK || code == FLX_E_OOM);
            CHECK((code == FLX_OK) == (f.failed == 0));
            flxi_strbuf_free(&text);
            flxi_kfile_free(&file);
            flx_kernel_release(k);
            flx_context_free(ctx);
            CHECK(fault_is_clean(&f));
        }
        test_count_case();
    }
}

/* Kernels without a vector form report why, and run in the scalar form. */
TEST(kernel_vector_tells_why_not)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"kernel a(workgroup = [16, 1, 1]) { buffer n: u32[4] output; atomic_add(n[0], invocation_id(0)); }",
         "an atomic"},
        {"kernel b(workgroup = [8, 2, 1]) { buffer n: u32[] output; n[invocation_id(0)] = 1; }",
         "a workgroup with several axes"},
        {"kernel c(workgroup = [24, 1, 1]) { buffer n: u32[] output; n[invocation_id(0)] = subgroup_lane(); }",
         "a workgroup that is not one subgroup"},
        {"kernel d(workgroup = [3, 1, 1]) { buffer n: u32[] output; n[invocation_id(0)] = workgroup_id(0); }",
         "workgroups that do not hold whole vectors"},
        {"kernel e(workgroup = [16, 1, 1]) { buffer n: u32[] read_write; let i = invocation_id(0);"
         " if (n[i] > 3) { return; } n[i] = i; }",
         "a return in divergent control flow"},
        {"kernel f(workgroup = [16, 1, 1]) { buffer n: u32[] read_write; buffer x: u32[] read; let i = "
         "invocation_id(0);"
         " n[i] = x[n[i]]; }",
         "an index comes from memory that the kernel writes"},
        {"kernel g(workgroup = [16, 1, 1]) { buffer n: u32[] output; let i = invocation_id(0);"
         " if (i % 3 == 1) { n[i] = subgroup_add(i); } }",
         "a subgroup op in divergent control flow"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_kernel *k = flk(cases[i].text);
        const char *reason;
        char *text = vector_text(k, NULL, &reason);
        EXPECT_MSG(reason && strcmp(reason, cases[i].reason) == 0, "case %zu: %s", i, reason ? reason : "in vectors");
        EXPECT_MSG(strstr(text, "One invocation at a time"), "case %zu", i);
        free(text);
        flx_kernel_release(k);
    }
}
