/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_emit.c: emitted C against the interpreter: every op on every type, control flow, memory, barriers,
   subgroups. */
#include "emit/emit_programs.h"
#include "emit/emit_random.h"
#include "emit/opencl_here.h"
#include "kernel/program/op_matrix.h"

#include "backend/cpu/jit/kernel_cpu.h"
#include "emit/kernel_emit.h"
#include "fault.h"
#include "kernel/program/kernel_scalar.h"

#include <stdio.h>
#include <stdlib.h>

TEST(kernel_emit_c_every_op_on_every_type)
{
    op_matrix m;
    flx_error err = {0};
    op_matrix_make(&m, flk_context(), 0);
    CHECK_OK(flxi_cpu_prepare(m.at, m.n, &err), &err);
    op_matrix_check(&m, "cpu", 0);
    op_matrix_free(&m);
}

TEST(kernel_emit_c_programs)
{
    enum { MAX = 64 };
    static flx_kernel *kernels[MAX];
    flx_error err = {0};
    CHECK(num_emit_programs <= MAX);
    for (size_t i = 0; i < num_emit_programs; i++)
        kernels[i] = flk(emit_programs[i].text);
    CHECK_OK(flxi_cpu_prepare(kernels, num_emit_programs, &err), &err);
    for (size_t i = 0; i < num_emit_programs; i++) {
        emit_program_check(&emit_programs[i], kernels[i], "cpu", 0);
        flx_kernel_release(kernels[i]);
    }
}

/* Effort emitted_kernels: how many, 40 in one file; a file takes the compiler two seconds. */
TEST(kernel_emit_c_random_kernels)
{
    enum { BATCH = 40 };
    flx_kernel *kernels[BATCH];
    size_t total = (size_t)effort(EFFORT_emitted_kernels);
    uint64_t seed = test_seed();
    for (size_t done = 0; done < total && !test_failed(); done += BATCH) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        for (size_t i = 0; i < BATCH; i++)
            kernels[i] = emit_random(ctx, seed + done + i, 0);
        CHECK_OK(flxi_cpu_prepare(kernels, BATCH, &err), &err);
        for (size_t i = 0; i < BATCH; i++) {
            device_pair p = {.device = "cpu", .grid = {4, 2, 1}, .open_count = 100, .seed = seed + done + i};
            p.max_index = i % 2 ? 70 : 0;
            p.subgroup_size = i % 3 ? 32 : 3;
            device_pair_check(kernels[i], &p);
            flx_kernel_release(kernels[i]);
        }
        flx_context_free(ctx);
    }
}

/* ---- Narrow formats ---- */

/* f32 with all upper halves, and lower halves at and around the points where rounding changes direction. */
static void fill_floats(const flx_kernel_buffer *b, void *data, size_t count, uint64_t seed)
{
    static const uint32_t low[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff,
                                   0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xffff};
    enum { LOW = sizeof low / sizeof *low };
    if (b->access != FLX_KERNEL_READ)
        return;
    for (size_t i = 0; i < count; i++)
        device_pair_put(b->element, data, i, i / LOW << 16 | low[i % LOW]);
    /* The midpoints between adjacent values of the formats that have few values, and their neighbours in f32. */
    size_t at = count - 2000;
    static const uint32_t narrow[] = {FLX_KERNEL_F8E4M3, FLX_KERNEL_F8E5M2, FLX_KERNEL_FP4, FLX_KERNEL_NF4};
    for (size_t f = 0; f < 4; f++)
        for (uint32_t code = 0; code < (f < 2 ? 127u : 15u); code++) {
            unsigned char pair[2] = {(unsigned char)code, (unsigned char)(code + 1)};
            unsigned char packed = (unsigned char)(code | (code + 1) << 4);
            const void *memory = f < 2 ? pair : &packed;
            double x = flxi_kscalar_to_double(FLX_F32, flxi_kscalar_load(narrow[f], memory, 0));
            double y = flxi_kscalar_to_double(FLX_F32, flxi_kscalar_load(narrow[f], memory, 1));
            uint64_t middle = flxi_kscalar_from_double(FLX_F32, (x + y) / 2);
            for (int d = -1; d <= 1; d++)
                device_pair_put(b->element, data, at++, middle + (uint64_t)(int64_t)d);
        }
    CHECK(at <= count);
    (void)seed;
}

TEST(kernel_emit_c_rounds_to_narrow_formats)
{
    enum { COUNT = 65536 * 12 };
    flx_kernel *k = flk(
        "kernel narrow(workgroup = [64, 1, 1]) { buffer x: f32[] read; buffer a: f16[] write; buffer b: bf16[] write;"
        " buffer c: f8e4m3[] write; buffer d: f8e5m2[] write; buffer e: fp4[] write; buffer f: nf4[] write;"
        " let i = invocation_id(0); a[i] = cast<f16>(x[i]); b[i] = cast<bf16>(x[i]); c[i] = x[i]; d[i] = x[i];"
        " e[i] = x[i]; f[i] = x[i]; }");
    device_pair p = {.device = "cpu", .grid = {COUNT / 64, 1, 1}, .open_count = COUNT, .fill = fill_floats};
    device_pair_check(k, &p);
    flx_kernel_release(k);
}

/* ---- Texts ---- */

static flx_buffer emit(const flx_kernel *k, const char *target)
{
    flx_error err = {0};
    flx_buffer text = {0};
    CHECK_OK(flx_kernel_emit(k, target, &text, &err), &err);
    CHECK(text.data && strlen(text.data) == text.size);
    return text;
}

static const char *const targets[] = {"c", "cuda", "opencl"};

TEST(kernel_emit_holds_no_text_of_the_program)
{
    flx_error err = {0};
    const uint32_t size[3] = {4, 1, 1};
    const char evil[] = "x\"; */ #include \"/etc/passwd\" \\ system(`touch evil`); ?"
                        "?/ //";
    flxi_kb *b = flxi_kb_new(flk_context(), evil, size, &err);
    CHECK(b);
    flxi_kb_meta(b, evil, evil);
    uint32_t x = flxi_kb_buffer(b, &(flxi_kbuffer){.name = evil, .access = FLX_KERNEL_READ_WRITE, .element = FLX_F32});
    uint32_t fn = flxi_kb_function(b, "evil_function", FLX_F32);
    flxi_kb_param(b, "evil_param", FLX_F32);
    flxi_kb_result(b, flxi_kb_number(b, FLX_F32, 2));
    uint32_t i = flxi_kb_id(b, FLX_KERNEL_INVOCATION_ID, 0), loaded = flxi_kb_load(b, x, i);
    uint32_t v = flxi_kb_let(b, "evil_variable", flxi_kb_call(b, fn, &loaded, 1));
    flxi_kb_region(b, evil, evil, 0);
    uint32_t j = flxi_kb_loop(b, "evil_loop", flxi_kb_u32(b, 0), flxi_kb_u32(b, 3));
    flxi_kb_store(b, x, flxi_kb_binary(b, KBIN_add, i, flxi_kb_var(b, j)), flxi_kb_var(b, v));
    flxi_kb_end(b);
    flxi_kb_end(b);
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_gt, i, flxi_kb_u32(b, 1000)));
    flxi_kb_simple(b, &(flxi_ks){.kind = KS_TRAP, .a = i, .text = evil});
    flxi_kb_end(b);
    flx_kernel *k = flxi_kb_finish(b, &err);
    CHECK_MSG(k, "%s", err.message);
    for (size_t t = 0; t < 3; t++) {
        flx_buffer text = emit(k, targets[t]);
        CHECK_MSG(!strstr(text.data, "evil") && !strstr(text.data, "passwd") && !strstr(text.data, "#include"), "%s",
                  text.data);
        for (const char *c = text.data; *c; c++)
            CHECK_MSG((*c >= ' ' && *c <= '~') || *c == '\n', "byte %d", *c);
        flx_buffer_free(&text);
    }
    device_pair_check(k, &(device_pair){.device = "cpu", .grid = {4, 1, 1}, .seed = 1});
    flx_kernel_release(k);
}

TEST(kernel_emit_errors)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_kernel *grid = flk("kernel g { buffer x: f32[4] read_write; x[0] = 1.0; barrier(grid); x[1] = x[0]; }");
    flx_kernel *resumed = flk("kernel r { buffer x: f32[4] read_write; x[0] = 1.0; resume(\"t\"); }");
    flx_kernel *diverging = flk("kernel d(workgroup = [8, 1, 1]) { buffer x: f32[8] read_write; let l = local_id(0);"
                                " if (l > 3) { x[l] = subgroup_add(x[l]); } }");
    CHECK_CODE(flx_kernel_emit(NULL, "c", &text, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_emit(grid, "c", NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_emit(grid, NULL, &text, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_kernel_emit(grid, "fortran", &text, &err), FLX_E_NAME, &err);
    CHECK(strstr(err.message, "fortran") && strstr(err.hint, "opencl"));
    CHECK_CODE(flx_kernel_emit(grid, "c", &text, &err), FLX_E_KERNEL, &err);
    CHECK_MSG(strncmp(err.message, "K52", 3) == 0, "%s", err.message);
    CHECK_CODE(flx_kernel_emit(grid, "opencl", &text, &err), FLX_E_KERNEL, &err);
    for (size_t t = 0; t < 3; t++)
        CHECK_CODE(flx_kernel_emit(resumed, targets[t], &text, &err), FLX_E_KERNEL, &err);
    for (size_t t = 1; t < 3; t++) {
        CHECK_CODE(flx_kernel_emit(diverging, targets[t], &text, &err), FLX_E_KERNEL, &err);
        CHECK_MSG(strncmp(err.message, "K51", 3) == 0, "%s", err.message);
    }
    CHECK(!text.data);
    flx_kernel_release(grid);
    flx_kernel_release(resumed);
    flx_kernel_release(diverging);
}

/* Each condition uses the one before it twice: code that expands names must not expand all of them. */
TEST(kernel_emit_follows_few_names)
{
    static char text[8000];
    size_t n =
        (size_t)snprintf(text, sizeof text,
                         "kernel k(workgroup = [8, 1, 1]) { buffer x: f32[64] read_write; let i = invocation_id(0);"
                         " let c0 = i < 60;");
    for (int i = 1; i < 100; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, " let c%d = c%d && c%d;", i, i - 1, i - 1);
    snprintf(text + n, sizeof text - n, " if (c99) { x[i] = x[i + 4] + 1.0; } }");
    flx_kernel *k = flk(text);
    device_pair_check(k, &(device_pair){.device = "cpu", .grid = {9, 1, 1}, .seed = 2});
    flx_kernel_release(k);
}

TEST(kernel_emit_survives_failing_allocations)
{
    for (size_t i = 0; i < num_emit_programs; i += 3)
        for (size_t t = 0; t < 3; t++) {
            bool done = false;
            for (size_t fail_at = 1; !done; fail_at += 1 + fail_at / 20) {
                fault f = {0};
                flx_error err = {0};
                flx_buffer text = {0};
                flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
                flx_kernel *k = flk_in(ctx, emit_programs[i].text);
                f.fail_at = f.calls + fail_at;
                flx_code code = flx_kernel_emit(k, targets[t], &text, &err);
                test_fail_context("program %zu, target %s, allocation %zu", i, targets[t], fail_at);
                bool is_fine = code == FLX_OK || (code == FLX_E_KERNEL && t > 0) || (code == FLX_E_OOM && f.failed);
                CHECK_MSG(is_fine, "%d %s", code, err.message);
                done = !f.failed;
                flx_buffer_free(&text);
                flx_kernel_release(k);
                flx_context_free(ctx);
                CHECK(fault_is_clean(&f));
            }
        }
}

/* ---- OpenCL ---- */

TEST(kernel_emit_opencl_every_op_on_every_type)
{
    op_matrix m;
    if (!opencl_here())
        return;
    op_matrix_make(&m, flk_context(), OP_MATRIX_EXACT);
    op_matrix_check(&m, "opencl", 0);
    op_matrix_free(&m);
    op_matrix_make(&m, flk_context(), OP_MATRIX_TRANSCENDENTAL);
    op_matrix_check(&m, "opencl", 128);
    op_matrix_free(&m);
}

TEST(kernel_emit_opencl_programs)
{
    for (size_t i = 0; i < num_emit_programs && opencl_here(); i++) {
        if (emit_programs[i].flags & (PROGRAM_DIVERGENT | PROGRAM_ORDER | PROGRAM_SERIAL))
            continue;
        flx_kernel *k = flk(emit_programs[i].text);
        emit_program_check(&emit_programs[i], k, "opencl", 0);
        flx_kernel_release(k);
    }
}

TEST(kernel_emit_opencl_random_kernels)
{
    for (uint64_t i = 0; i < 12 && opencl_here(); i++) {
        flx_kernel *k =
            emit_random(flk_context(), test_seed() + i, EMIT_RANDOM_SAFE | EMIT_RANDOM_EXACT | EMIT_RANDOM_CONVERGENT);
        device_pair_check(
            k, &(device_pair){.device = "opencl", .grid = {4, 2, 1}, .open_count = 100, .seed = test_seed() + i});
        flx_kernel_release(k);
    }
}

/* ---- CUDA ---- */

static bool has_card(void)
{
    return flx_device_check("cuda", NULL) == FLX_OK;
}

TEST(kernel_emit_card_every_op_on_every_type)
{
    op_matrix m;
    if (!has_card())
        return;
    op_matrix_make(&m, flk_context(), OP_MATRIX_EXACT);
    op_matrix_check(&m, "cuda", 0);
    op_matrix_free(&m);
    op_matrix_make(&m, flk_context(), OP_MATRIX_TRANSCENDENTAL);
    op_matrix_check(&m, "cuda", 128);
    op_matrix_free(&m);
}

TEST(kernel_emit_card_programs)
{
    for (size_t i = 0; i < num_emit_programs && has_card(); i++) {
        if (emit_programs[i].flags & (PROGRAM_DIVERGENT | PROGRAM_ORDER | PROGRAM_SERIAL))
            continue;
        flx_kernel *k = flk(emit_programs[i].text);
        emit_program_check(&emit_programs[i], k, "cuda", 0);
        flx_kernel_release(k);
    }
}

TEST(kernel_emit_card_random_kernels)
{
    for (uint64_t i = 0; i < 12 && has_card(); i++) {
        flx_kernel *k =
            emit_random(flk_context(), test_seed() + i, EMIT_RANDOM_SAFE | EMIT_RANDOM_EXACT | EMIT_RANDOM_CONVERGENT);
        device_pair_check(
            k, &(device_pair){.device = "cuda", .grid = {4, 2, 1}, .open_count = 100, .seed = test_seed() + i});
        flx_kernel_release(k);
    }
}

static void write_cuda(flxi_kfile *f, const flx_kernel *k)
{
    flxi_kentry entry;
    flx_error err = {0};
    CHECK_OK(flxi_kernel_check_target(k, &flxi_target_cuda, &err), &err);
    CHECK_OK(flxi_kernel_write(f, k, &entry, &err), &err);
}

/* There is no device here, but the compiler checks the text. */
TEST(kernel_emit_cuda_compiles)
{
    const flxi_allocator mem = {flxi_default_alloc, NULL};
    flxi_kfile file;
    flxi_strbuf text;
    op_matrix m;
    flx_error err = {0};
    if (!test_has_program("nvcc"))
        return;
    flxi_kfile_init(&file, &flxi_target_cuda, &mem);
    flxi_strbuf_init(&text, &mem);
    op_matrix_make(&m, flk_context(), 0);
    for (size_t i = 0; i < m.n; i++)
        write_cuda(&file, m.at[i]);
    op_matrix_free(&m);
    for (size_t i = 0; i < num_emit_programs; i++) {
        if (emit_programs[i].flags & (PROGRAM_DIVERGENT | PROGRAM_SERIAL))
            continue;
        flx_kernel *k = flk(emit_programs[i].text);
        write_cuda(&file, k);
        flx_kernel_release(k);
    }
    flx_kernel *k =
        flk("kernel g(workgroup = [8, 1, 1]) { buffer x: f32[] read_write; x[invocation_id(0)] = 1.0; barrier(grid);"
            " x[invocation_id(0) + 8] = x[7 - invocation_id(0)]; }");
    write_cuda(&file, k);
    flx_kernel_release(k);
    CHECK_OK(flxi_kfile_text(&file, &text, &err), &err);
    char path[600], command[1400];
    snprintf(path, sizeof path, "%s/kernels.cu", test_temp_dir());
    FILE *f = fopen(path, "w");
    CHECK(f && fwrite(text.at, 1, text.n, f) == text.n);
    fclose(f);
    snprintf(command, sizeof command, "nvcc -ptx -w -o '%s.ptx' '%s'", path, path);
    CHECK(system(command) == 0);
    flxi_strbuf_free(&text);
    flxi_kfile_free(&file);
}
