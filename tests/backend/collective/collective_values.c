/* SPDX-License-Identifier: Apache-2.0 */
/* collective_values.c: what exchanges give on groups of processes, for all dtypes, on axes of a mesh, and with bits
   that depend on the number of processes alone. */
#include "../../test.h"
#include "backend/collective/member.h"
#include "local_ranks.h"

#include <fluxion/exec.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- Values ---- */

/* The text is for a process of two, the input of rank r is 1 + 10 r, 2 + 10 r … */
static const struct {
    const char *text;
    double want[2][8];
} values[] = {
    {"graph f(x: f64[2]) { return all_reduce(x, axis_name=\"data\") }", {{12, 14}, {12, 14}}},
    {"graph f(x: f64[2]) { return all_reduce(x, axis_name=\"data\", op=mean) }", {{6, 7}, {6, 7}}},
    {"graph f(x: f64[2]) { return all_reduce(x, axis_name=\"data\", op=prod) }", {{11, 24}, {11, 24}}},
    {"graph f(x: f64[2]) { return all_reduce(x, axis_name=\"data\", op=max) }", {{11, 12}, {11, 12}}},
    {"graph f(x: f64[2]) { return all_reduce(x, axis_name=\"data\", op=min) }", {{1, 2}, {1, 2}}},
    {"graph f(x: f64[3]) { return all_reduce(x, axis_name=\"data\") }", {{12, 14, 16}, {12, 14, 16}}},
    {"graph f(x: f64[0]) { return all_reduce(x, axis_name=\"data\") }", {{0}, {0}}},
    {"graph f(x: f64[2]) { return all_gather(x, axis_name=\"data\", size=2) }", {{1, 2, 11, 12}, {1, 2, 11, 12}}},
    {"graph f(x: f64[2, 2]) { return all_gather(x, axis_name=\"data\", axis=1, size=2) }",
     {{1, 2, 11, 12, 3, 4, 13, 14}, {1, 2, 11, 12, 3, 4, 13, 14}}},
    {"graph f(x: f64[4]) { return reduce_scatter(x, axis_name=\"data\", size=2) }", {{12, 14}, {16, 18}}},
    {"graph f(x: f64[2, 2]) { return reduce_scatter(x, axis_name=\"data\", axis=1, size=2) }", {{12, 16}, {14, 18}}},
    {"graph f(x: f64[2, 2]) { return all_to_all(x, axis_name=\"data\", split_axis=1, concat_axis=0, size=2) }",
     {{1, 3, 11, 13}, {2, 4, 12, 14}}},
    {"graph f(x: f64[2]) { return broadcast(x, axis_name=\"data\", root=1) }", {{11, 12}, {11, 12}}},
    {"graph f(x: f64[2]) { return collective_permute(x, axis_name=\"data\", sources=[0], targets=[1]) }",
     {{0, 0}, {1, 2}}},
    {"graph f(x: f64[2]) { return collective_permute(x, axis_name=\"data\", sources=[0, 1], targets=[1, 0]) }",
     {{11, 12}, {1, 2}}},
    {"graph f(x: f64[2]) { return cast(axis_index(axis_name=\"data\"), to=f64) }", {{0}, {1}}},
};

typedef struct {
    const char *text, *device;
    double out[MAX_RANKS][64];
} value_case;

static void run_value(local_rank *r)
{
    value_case *c = r->user;
    double in[8];
    for (int i = 0; i < 8; i++)
        in[i] = 1 + i + 10 * (double)r->rank;
    CHECK_OK(local_rank_text(r, c->text, NULL, c->device, in, c->out[r->rank]), &r->err);
}

static void check_values(const char *device, size_t step)
{
    for (size_t i = 0; i < 2 * sizeof values / sizeof *values; i += step) {
        uint32_t flags = i % 2 ? FLX_MESH_MEET : 0;
        value_case c = {values[i / 2].text, device, {{0}}};
        test_fail_context("%s on %s, flags %u", c.text, device, flags);
        local_ranks_run_with(&(flx_mesh_options){.timeout = 60, .flags = flags}, 2, run_value, &c);
        for (int r = 0; r < 2; r++)
            CHECK(memcmp(c.out[r], values[i / 2].want[r], sizeof values[i / 2].want[r]) == 0);
        test_count_case();
    }
}

TEST(collective_values_two_processes_ref)
{
    check_values("ref", 1);
}

TEST(collective_values_two_processes_cpu)
{
    check_values("cpu", 3);
}

/* Small values are exchanged by one process, large ones by all: the loop ends in a value of more than a megabyte. */
TEST(collective_values_at_meetings)
{
    static const char text[] = "graph round(c: f64[3], x: f64[]) {"
                               " return all_to_all(all_reduce(mul(c, x), axis_name=\"data\"), axis_name=\"data\","
                               " split_axis=0, concat_axis=0, size=3) }\n"
                               "graph f(x: f64[3]) {\n  y = scan(x, const(f64[4], [1, 2, 0.5, 3]), num_carry=1, "
                               "body=@round)\n  z = all_reduce(expand(y, shape=[50000, 3]), axis_name=\"data\")\n"
                               "  return reduce_sum(z, axes=[0])\n}\n";
    value_case c[2] = {{text, "ref", {{0}}}, {text, "ref", {{0}}}};
    for (int i = 0; i < 2; i++)
        local_ranks_run_with(&(flx_mesh_options){.timeout = 60, .flags = i ? FLX_MESH_MEET : 0}, 3, run_value, &c[i]);
    CHECK(c[0].out[1][0] != 0 && memcmp(c[0].out, c[1].out, sizeof c[0].out) == 0);
}

/* The parts of a compiled graph around and inside a loop. */
TEST(collective_values_compiled_loop)
{
    static const char text[] = "graph round(c: f64[3], x: f64[]) {"
                               " return add(all_reduce(mul(c, x), axis_name=\"data\", op=mean), 1) }\n"
                               "graph f(x: f64[3]) {\n  xs = const(f64[4], [1, 2, 0.5, 3])\n"
                               "  y = scan(mul(x, 2), xs, num_carry=1, body=@round)\n  return sin(y)\n}\n";
    value_case c[2] = {{text, "ref", {{0}}}, {text, "cpu", {{0}}}};
    for (int i = 0; i < 2; i++)
        local_ranks_run(4, NULL, 60, run_value, &c[i]);
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < 3; i++)
            CHECK_NEAR(c[1].out[r][i], c[0].out[r][i], 1e-15);
}

/* ---- Axes ---- */

TEST(collective_values_axes_of_a_mesh)
{
    static const struct {
        const char *axis;
        double want[6]; /* of ranks 0 … 5, which have x = 1, 11, 21 … */
    } sums[] = {{"data", {32, 52, 72, 32, 52, 72}},
                {"model", {33, 33, 33, 123, 123, 123}},
                {"data,model", {156, 156, 156, 156, 156, 156}},
                {"model,data", {156, 156, 156, 156, 156, 156}}};
    for (size_t i = 0; i < 4; i++) {
        char text[200];
        snprintf(text, sizeof text, "graph f(x: f64[1]) { return all_reduce(x, axis_name=\"%s\") }", sums[i].axis);
        value_case c = {text, "ref", {{0}}};
        test_fail_context("%s", text);
        const flx_mesh_options o = {.axes = "data=2,model=3", .timeout = 60, .flags = i % 2 ? FLX_MESH_MEET : 0};
        local_ranks_run_with(&o, 6, run_value, &c);
        for (int r = 0; r < 6; r++)
            CHECK_NEAR(c.out[r][0], sums[i].want[r], 0);
    }
}

static void check_places(local_rank *r)
{
    static const char *const axes[] = {"data", "model", "data,model", "model,data"};
    const int64_t want[] = {r->rank / 3, r->rank % 3, r->rank, r->rank % 3 * 2 + r->rank / 3};
    const int64_t sizes[] = {2, 3, 6, 6};
    for (int i = 0; i < 4; i++) {
        int64_t index, size;
        CHECK_OK(flx_mesh_axis(r->ctx, axes[i], &index, &size, &r->err), &r->err);
        CHECK_EQ_I64(index, want[i]);
        CHECK_EQ_I64(size, sizes[i]);
    }
    CHECK_EQ_I64(flx_mesh_rank(r->ctx), r->rank);
    CHECK_EQ_I64(flx_mesh_size(r->ctx), 6);
    CHECK_CODE(flx_mesh_axis(r->ctx, "pipe", NULL, NULL, &r->err), FLX_E_NAME, &r->err);
    CHECK_EQ_STR(r->err.message, "the mesh has no axis 'pipe'");
    CHECK_CODE(flx_mesh_axis(r->ctx, "data,data", NULL, NULL, &r->err), FLX_E_NAME, &r->err);
}

TEST(collective_values_places_on_a_mesh)
{
    local_ranks_run(6, "data=2,model=3", 60, check_places, NULL);
}

TEST(collective_values_axes_are_read_strictly)
{
    static const char *const wrong[] = {"",
                                        "data",
                                        "data=",
                                        "data=0",
                                        "data=-1",
                                        "data=2,",
                                        "data=2,data=3",
                                        "=2",
                                        "data=2 ",
                                        "data=99999999999",
                                        "a=1024,b=1024,c=2",
                                        "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"};
    flxi_mesh_axis axes[FLXI_MESH_AXES];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t size = 0;
        int n;
        flx_error err = {0};
        test_fail_context("'%s'", wrong[i]);
        CHECK_CODE(flxi_mesh_read_axes(wrong[i], &size, axes, &n, &err), FLX_E_USAGE, &err);
    }
}

/* ---- Dtypes and bits ---- */

/* The sum in the order of the ranks, as docs/numerics.md has it: half precision in f32. */
TEST(collective_values_sum_is_in_order_of_ranks)
{
    const float a[] = {0x1p24f, 1}, b[] = {1, 0x1p-30f}, c[] = {-0x1p24f, 2};
    const void *parts[] = {a, b, c};
    float sum[2], mean[2];
    flxi_reduce_parts(FLX_F32, REDUCE_SUM, parts, 3, 2, sum);
    flxi_reduce_parts(FLX_F32, REDUCE_MEAN, parts, 3, 2, mean);
    CHECK_NEAR(sum[0], 1, 0); /* in double nothing is lost */
    CHECK_NEAR(sum[1], 3, 0);
    CHECK_NEAR(mean[0], 1.0f / 3, 0);
    const uint16_t h[3] = {0x6800, 0x3c00, 0xe800}; /* 2048, 1, -2048 in f16 */
    const void *halves[] = {&h[0], &h[1], &h[2]};
    uint16_t half = 0;
    flxi_reduce_parts(FLX_F16, REDUCE_SUM, halves, 3, 1, &half);
    CHECK_EQ_I64(half, 0x3c00);
}

typedef struct {
    char text[300];
    _Alignas(16) unsigned char out[MAX_RANKS][64];
    size_t nbytes;
} bits_case;

static void run_bits(local_rank *r)
{
    bits_case *c = r->user;
    flx_module *m = flx_parse(r->ctx, c->text, strlen(c->text), "test", &r->err);
    CHECK_MADE(m, &r->err);
    flx_tensor *out = NULL;
    if (m)
        CHECK_OK(flx_run(flx_module_main(m), ON_REF, NULL, 0, &out, &r->err), &r->err);
    if (out) {
        c->nbytes = flx_tensor_nbytes(out);
        memcpy(c->out[r->rank], flx_tensor_const_data(out), c->nbytes);
    }
    flx_tensor_release(out);
    flx_module_free(m);
}

/* For each dtype: all processes get the same bits, and gathering and reducing here gives them too. */
TEST(collective_values_all_dtypes)
{
    static const char *const words[] = {"sum", "prod", "max", "min", "mean", "and", "or"};
    for (int32_t d = FLX_F64; d <= FLX_BOOL; d++)
        for (size_t i = 0; i < 7; i++) {
            bool is_fraction = d <= FLX_C128, is_complex = d == FLX_C64 || d == FLX_C128;
            if ((is_complex && (i == 2 || i == 3)) || (i == 4 && !is_fraction) || (i > 4 && is_fraction))
                continue;
            bits_case c = {.nbytes = 0}, parts = {.nbytes = 0};
            const char *form = "graph f() {\n  k = cast(add(mul(axis_index(axis_name=\"data\"), 3), 1), to=%s)\n"
                               "  x = mul(expand(k, shape=[3]), k)\n  return %s\n}\n";
            char op[100];
            snprintf(op, sizeof op, "all_reduce(x, axis_name=\"data\", op=%s)", words[i]);
            snprintf(c.text, sizeof c.text, form, flx_dtype_name(d), op);
            snprintf(parts.text, sizeof parts.text, form, flx_dtype_name(d), "x");
            test_fail_context("%s of %s", words[i], flx_dtype_name(d));
            local_ranks_run(3, NULL, 60, run_bits, &c);
            local_ranks_run(3, NULL, 60, run_bits, &parts);
            const void *const all[] = {parts.out[0], parts.out[1], parts.out[2]};
            static const flxi_reduce_kind kinds[] = {REDUCE_SUM,  REDUCE_PROD, REDUCE_MAX, REDUCE_MIN,
                                                     REDUCE_MEAN, REDUCE_AND,  REDUCE_OR};
            _Alignas(16) unsigned char want[64];
            flxi_reduce_parts(d, kinds[i], all, 3, 3, want);
            for (int r = 0; r < 3; r++)
                CHECK(c.nbytes == 3 * flx_dtype_size(d) && memcmp(c.out[r], want, c.nbytes) == 0);
            test_count_case();
        }
}

/* ---- Values that move ---- */

enum { MOVED_BYTES = MAX_RANKS * MAX_RANKS * 2 * 16 };

typedef struct {
    char text[400];
    unsigned char out[MAX_RANKS][MOVED_BYTES];
    size_t nbytes;
} moved_case;

static void run_moved(local_rank *r)
{
    moved_case *c = r->user;
    flx_tensor *out = NULL;
    flx_module *m = flx_parse(r->ctx, c->text, strlen(c->text), "test", &r->err);
    CHECK_MADE(m, &r->err);
    CHECK_OK(flx_run(flx_module_main(m), ON_REF, NULL, 0, &out, &r->err), &r->err);
    size_t n = flx_tensor_nbytes(out);
    CHECK(n <= MOVED_BYTES);
    memcpy(c->out[r->rank], flx_tensor_const_data(out), n);
    if (r->rank == 0)
        c->nbytes = n;
    flx_tensor_release(out);
    flx_module_free(m);
}

/* What rank r gets: of the ranks' own values, each [ranks, 2] in `rows`. */
static void expect_moved(const char *way, int32_t dtype, int64_t ranks, int64_t r, unsigned char rows[][MOVED_BYTES],
                         unsigned char *want)
{
    size_t row = 2 * flx_dtype_size(dtype), all = (size_t)ranks * row;
    const void *own[MAX_RANKS];
    for (int64_t k = 0; k < ranks; k++) {
        own[k] = rows[k] + (size_t)r * row;
        if (strstr(way, "all_gather"))
            memcpy(want + (size_t)k * all, rows[k], all);
        else if (strstr(way, "all_to_all"))
            memcpy(want + (size_t)k * row, own[k], row);
    }
    if (strstr(way, "broadcast"))
        memcpy(want, rows[ranks - 1], all);
    else if (strstr(way, "permute"))
        memcpy(want, rows[(r + ranks - 1) % ranks], all);
    else if (strstr(way, "scatter"))
        flxi_reduce_parts(dtype, REDUCE_SUM, own, (size_t)ranks, 2, want);
}

static void check_moved(const char *way, int32_t dtype, int64_t ranks)
{
    static moved_case c, own;
    char op[200], sources[40] = "", targets[40] = "";
    for (int64_t i = 0; i < ranks; i++) {
        snprintf(sources + strlen(sources), 8, "%s%d", i ? ", " : "", (int)i);
        snprintf(targets + strlen(targets), 8, "%s%d", i ? ", " : "", (int)((i + 1) % ranks));
    }
    if (strstr(way, "permute"))
        snprintf(op, sizeof op, "%s, sources=[%s], targets=[%s])", way, sources, targets);
    else if (strstr(way, "broadcast"))
        snprintf(op, sizeof op, "%s, root=%d)", way, (int)ranks - 1);
    else
        snprintf(op, sizeof op, "%s, size=%d)", way, (int)ranks);
    const char *form = "graph f() {\n  i = reshape(iota(i32[%d]), shape=[%d, 2])\n"
                       "  x = cast(add(i, mul(axis_index(axis_name=\"data\"), 11)), to=%s)\n  return %s\n}\n";
    snprintf(c.text, sizeof c.text, form, 2 * (int)ranks, (int)ranks, flx_dtype_name(dtype), op);
    snprintf(own.text, sizeof own.text, form, 2 * (int)ranks, (int)ranks, flx_dtype_name(dtype), "x");
    test_fail_context("%s of %s on %d ranks", way, flx_dtype_name(dtype), (int)ranks);
    local_ranks_run(ranks, NULL, 60, run_moved, &c);
    local_ranks_run(ranks, NULL, 60, run_moved, &own);
    for (int64_t r = 0; r < ranks; r++) {
        _Alignas(16) unsigned char want[MOVED_BYTES] = {0};
        expect_moved(way, dtype, ranks, r, own.out, want);
        CHECK_MSG(memcmp(c.out[r], want, c.nbytes) == 0, "rank %d", (int)r);
    }
    test_count_case();
}

TEST(collective_values_of_all_dtypes_move)
{
    static const char *const all[] = {"all_gather(x, axis_name=\"data\"",
                                      "all_to_all(x, axis_name=\"data\", split_axis=0, concat_axis=0",
                                      "broadcast(x, axis_name=\"data\"", "collective_permute(x, axis_name=\"data\"",
                                      "reduce_scatter(x, axis_name=\"data\""};
    static const int64_t groups[] = {1, 2, 3, 4, 8};
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (int32_t d = FLX_F64; d <= FLX_BOOL; d++)
            for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                if (d != FLX_BOOL || !strstr(all[i], "scatter"))
                    check_moved(all[i], d, groups[g]);
}

/* ---- Threads of one context ---- */

typedef struct {
    flx_context *ctx;
    flx_local_mesh *mesh;
    flx_exec *exec;
    int64_t rank;
    float got[2];
} one_thread;

static void *run_thread(void *user)
{
    one_thread *t = user;
    flx_error err = {0};
    float x = (float)(t->rank + 1);
    const flx_mesh_options options = {
        .struct_size = sizeof options, .axes = "data=3", .timeout = 60, .local = t->mesh, .rank = t->rank};
    CHECK_OK(flx_mesh_join_thread(t->ctx, &options, &err), &err);
    CHECK(flx_mesh_join_thread(t->ctx, &options, &err) == FLX_E_USAGE);
    CHECK_EQ_I64(flx_mesh_rank(t->ctx), t->rank);
    for (int k = 0; k < 2; k++, x *= 10) {
        const void *inputs[] = {&x};
        void *outputs[] = {&t->got[k]};
        CHECK_OK(flx_exec_run_at(t->exec, inputs, outputs, &err), &err);
    }
    flx_mesh_leave_thread(t->ctx);
    CHECK_EQ_I64(flx_mesh_size(t->ctx), 1);
    return NULL;
}

/* One executable, compiled once, run by all processes at the same time. */
TEST(collective_values_threads_of_one_context)
{
    static const uint32_t flags[] = {FLX_COMPILE_INTERPRET, 0};
    static const char text[] = "graph f(x: f32[]) { return all_reduce(x, axis_name=\"data\") }";
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "g", &err);
    CHECK_MADE(m, &err);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const flx_compile_options o = {.struct_size = sizeof o, .flags = flags[i], .device = "cpu", .threads = 1};
        one_thread all[3] = {{.ctx = ctx}};
        pthread_t threads[3];
        flx_exec *exec = flx_compile(flx_module_main(m), &o, &err);
        flx_local_mesh *mesh = flx_local_mesh_new(ctx, 3, &err);
        CHECK_MADE(exec, &err);
        CHECK_MADE(mesh, &err);
        for (int64_t r = 0; r < 3; r++) {
            all[r] = (one_thread){.ctx = ctx, .mesh = mesh, .exec = exec, .rank = r};
            CHECK(pthread_create(&threads[r], NULL, run_thread, &all[r]) == 0);
        }
        for (int r = 0; r < 3; r++) {
            pthread_join(threads[r], NULL);
            CHECK_NEAR(all[r].got[0], 6, 0);
            CHECK_NEAR(all[r].got[1], 60, 0);
        }
        flx_local_mesh_free(mesh);
        flx_exec_free(exec);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}
