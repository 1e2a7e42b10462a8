/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_meshes.c: the transport nccl. Without a card a library imitates one (fake_nccl.h), which a process of its own
   loads: there each rank is a thread. With a card, groups of one. */
#include "../../test.h"
#include "backend/transport.h"
#include "fake_nccl.h"
#include "local_ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- With a library that imitates a card ---- */

/* Runs the test of this name in a process that has the library. */
static void run_with_fake(const char *name, const char *settings)
{
    char home[300], program[300], command[2000];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    CHECK(n > 0);
    program[n] = 0;
    snprintf(home, sizeof home, "%s/fake_cuda", test_temp_dir());
    CHECK(fake_nccl_make(home));
    snprintf(command, sizeof command,
             "FLX_TEST_FAKE_CARD=1 LD_LIBRARY_PATH='%s/lib64' %s '%s' %s >'%s/out' 2>&1 || { cat '%s/out'; false; }",
             home, settings, program, name, home, home);
    CHECK_MSG(system(command) == 0, "%s", command);
}

/* Whether this is that process. */
static bool has_fake(void)
{
    return getenv("FLX_TEST_FAKE_CARD") != NULL;
}

static bool has_card(void)
{
    flx_error err = {0};
    return flx_device_check("cuda", &err) == FLX_OK;
}

static void all_reduce_and_more(local_rank *r)
{
    static const char text[] = "graph f(x: f64[4, 2]) {\n"
                               "  a = all_reduce(x, axis_name=\"data\")\n"
                               "  b = all_gather(x, axis_name=\"data\", axis=0, size=2)\n"
                               "  c = collective_permute(x, axis_name=\"data\", sources=[0, 1], targets=[1, 0])\n"
                               "  return a, b, c\n}\n";
    double x[8], got[8 + 16 + 8];
    for (int i = 0; i < 8; i++)
        x[i] = 10 * (double)r->rank + i;
    CHECK_OK(local_rank_text(r, text, NULL, "ref", x, got), &r->err);
    for (int i = 0; i < 8; i++) {
        CHECK(got[i] == 10 + 2 * i);
        CHECK(got[8 + i] == i && got[16 + i] == 10 + i);
        CHECK(got[24 + i] == (r->rank == 0 ? 10 + i : i));
    }
}

/* More than a piece. */
static void large_value(local_rank *r)
{
    enum { N = 3 << 20 };
    static const char text[] = "graph f(x: f64[3145728]) { return all_reduce(x, axis_name=\"data\") }\n";
    double *x = calloc(N, sizeof *x), *got = calloc(N, sizeof *got);
    CHECK(x && got);
    for (int i = 0; i < N; i++)
        x[i] = i + (double)r->rank;
    CHECK_OK(local_rank_text(r, text, NULL, "ref", x, got), &r->err);
    for (int i = 0; i < N; i++)
        CHECK(got[i] == 2.0 * i + 1);
    free(x);
    free(got);
}

static void other_shape(local_rank *r)
{
    const char *text = r->rank == 1 ? "graph f(x: f64[4]) { return all_reduce(x, axis_name=\"data\") }\n"
                                    : "graph f(x: f64[2]) { return all_reduce(x, axis_name=\"data\") }\n";
    double x[4] = {0}, got[4];
    CHECK_CODE(local_rank_text(r, text, NULL, "ref", x, got), FLX_E_CHECK, &r->err);
    CHECK_MSG(strstr(r->err.message, "rank 1 differs"), "%s", r->err.message);
}

/* Rank 1 takes part in nothing until rank 0 has given up, however long that takes. */
static void hangs(local_rank *r)
{
    static atomic_bool has_given_up;
    double x[2] = {0}, got[2];
    while (r->rank == 1 && !atomic_load(&has_given_up))
        usleep(1000);
    if (r->rank == 1)
        return;
    flx_code code =
        local_rank_text(r, "graph f(x: f64[2]) { return all_reduce(x, axis_name=\"data\") }\n", NULL, "ref", x, got);
    atomic_store(&has_given_up, true);
    CHECK_CODE(code, FLX_E_TIMEOUT, &r->err);
    CHECK_MSG(strstr(r->err.message, "rank 1 gave no sign"), "%s", r->err.message);
}

static void run_ranks(double timeout, void (*fn)(local_rank *r))
{
    local_ranks_run_with(&(flx_mesh_options){.transport = "nccl", .axes = "data=2", .timeout = timeout}, 2, fn, NULL);
}

TEST(nccl_fake_moves_values)
{
    if (!has_fake())
        return;
    run_ranks(30, all_reduce_and_more);
    run_ranks(30, large_value);
}

TEST(nccl_fake_names_processes)
{
    if (!has_fake())
        return;
    run_ranks(30, other_shape);
    run_ranks(2, hangs); /* it bounds joining too, which a busy machine delays */
}

/* The environment says who the only process is: no other transport. */
TEST(nccl_fake_by_environment)
{
    flx_error err = {0};
    if (!has_fake() || !getenv("FLX_MESH_ID_FILE"))
        return;
    flx_context *ctx = flx_context_new(NULL);
    const flx_mesh_options o = {.struct_size = sizeof o, .transport = "nccl"};
    CHECK_OK(flx_mesh_join(ctx, &o, &err), &err);
    CHECK(flx_mesh_size(ctx) == 1 && access(getenv("FLX_MESH_ID_FILE"), F_OK) != 0);
    flx_mesh_leave(ctx);
    setenv("FLX_MESH_RANK", "1", 1);
    CHECK_CODE(flx_mesh_join(ctx, &o, &err), FLX_E_USAGE, &err);
    setenv("FLX_MESH_SIZE", "2", 1);
    const flx_mesh_options brief = {.struct_size = sizeof brief, .transport = "nccl", .timeout = 0.1};
    CHECK_CODE(flx_mesh_join(ctx, &brief, &err), FLX_E_TIMEOUT, &err); /* rank 0 writes no file */
    flx_context_free(ctx);
}

TEST(nccl_fake_is_too_old)
{
    flx_error err = {0};
    if (!has_fake() || !getenv("FLX_FAKE_NCCL"))
        return;
    flx_context *ctx = flx_context_new(NULL);
    const flx_mesh_options o = {.struct_size = sizeof o, .transport = "nccl"};
    CHECK_CODE(flx_mesh_join(ctx, &o, &err), FLX_E_DEVICE, &err);
    CHECK_MSG(strstr(err.message, "too old"), "%s", err.message);
    flx_context_free(ctx);
}

TEST(nccl_meshes_by_a_fake_card)
{
    char settings[400];
    if (has_fake())
        return;
    run_with_fake("nccl_fake_moves_values", "");
    run_with_fake("nccl_fake_names_processes", "");
    snprintf(settings, sizeof settings, "FLX_MESH_ID_FILE='%s/id' FLX_MESH_RANK=0 FLX_MESH_SIZE=1", test_temp_dir());
    run_with_fake("nccl_fake_by_environment", settings);
    run_with_fake("nccl_fake_is_too_old", "FLX_FAKE_NCCL=21000");
}

TEST(nccl_meshes_say_what_is_missing)
{
    flx_error err = {0};
    if (has_card() || has_fake())
        return;
    flx_context *ctx = flx_context_new(NULL);
    const flx_mesh_options o = {.struct_size = sizeof o, .transport = "nccl"};
    CHECK_CODE(flx_mesh_join(ctx, &o, &err), FLX_E_DEVICE, &err);
    flx_context_free(ctx);
}

/* ---- With a card ---- */

/* A mesh of one process, whose messages to itself travel by NCCL: sizes around a piece and beyond. */
TEST(card_nccl_group_of_one)
{
    static const size_t sizes[] = {1, 1000, 8 << 20, (8 << 20) + 1, 40 << 20};
    flx_error err = {0};
    if (!has_card()) {
        printf("there is no card\n");
        return;
    }
    flx_context *ctx = flx_context_new(NULL);
    flx_local_mesh *local = flx_local_mesh_new(ctx, 1, &err);
    const flx_mesh_options o = {.local = local, .timeout = 60};
    flxi_mesh_end *end = NULL;
    int64_t rank, size;
    flx_code code = flxi_nccl_transport.open(ctx, &o, &end, &rank, &size, &err);
    if (code != FLX_OK && strstr(err.message, "libnccl"))
        printf("%s\n", err.message);
    else
        CHECK_OK(code, &err);
    for (size_t i = 0; end && i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *in = malloc(sizes[i]), *out = calloc(1, sizes[i]);
        CHECK(in && out);
        for (size_t k = 0; k < sizes[i]; k++)
            in[k] = (unsigned char)(k * 31 + (k >> 8));
        flxi_message m[] = {{.peer = 0, .tag = TAG_DATA, .is_sent = true, .data = in, .nbytes = sizes[i]},
                            {.peer = 0, .tag = TAG_DATA, .data = out, .nbytes = sizes[i]}};
        int64_t deadline = flxi_transport_clock() + INT64_C(60000000000);
        CHECK_OK(flxi_nccl_transport.transfer(end, m, 2, deadline, NULL, &err), &err);
        CHECK(m[0].is_done && m[1].is_done && memcmp(in, out, sizes[i]) == 0);
        free(in);
        free(out);
    }
    if (end)
        flxi_nccl_transport.close(end, false);
    flx_local_mesh_free(local);
    flx_context_free(ctx);
}
