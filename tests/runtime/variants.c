/* SPDX-License-Identifier: Apache-2.0 */
/* variants.c: how many extents of a symbolic graph an executable keeps, and what stays although there are too many. */
#include "runtime/exec.h"
#include "session_case.h"

#include <stdio.h>

static const char text[] = "graph f(x: f32[N]) { return reduce_sum(mul(x, x), axes=[0]) }";

#ifdef FLX_DEBUG
static const bool keeps_headers = true; /* of freed graphs */
#else
static const bool keeps_headers = false;
#endif

static void run_extent(session_case *c, int64_t n)
{
    flx_tensor *x = session_f32(c, n, 2), *out = NULL;
    CHECK_OK(flx_exec_run(c->exec, NULL, &(flx_feed){"x", x}, 1, &out, &c->err), &c->err);
    CHECK(flx_tensor_get(out, 0) == 4.0 * (double)n);
    flx_tensor_release(out);
    flx_tensor_release(c->made[--c->count]);
}

static const flxi_variant *variant_of(const session_case *c, int64_t n)
{
    for (size_t i = 0; i < c->exec->variants.n; i++)
        if (c->exec->variants.at[i]->extents[0] == n)
            return c->exec->variants.at[i];
    return NULL;
}

TEST(variants_of_a_thousand_extents_are_bounded)
{
    session_case c;
    size_t blocks = 0;
    session_begin(&c, text, 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    for (int64_t n = 1; n <= 1000; n++) {
        run_extent(&c, n);
        if (n == 2 * FLXI_MAX_VARIANTS)
            blocks = c.memory.live_blocks;
        CHECK(c.exec->variants.n <= FLXI_MAX_VARIANTS && variant_of(&c, n));
    }
    CHECK(!variant_of(&c, 1000 - FLXI_MAX_VARIANTS) && variant_of(&c, 1001 - FLXI_MAX_VARIANTS));
    CHECK_MSG(keeps_headers || c.memory.live_blocks <= blocks + 8, "%zu blocks became %zu", blocks,
              c.memory.live_blocks);
    session_end(&c);
}

TEST(variants_in_frequent_use_stay)
{
    session_case c;
    session_begin(&c, text, 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    run_extent(&c, 5000);
    const flxi_variant *kept = variant_of(&c, 5000);
    for (int64_t n = 1; n <= 3 * FLXI_MAX_VARIANTS; n++) {
        run_extent(&c, n);
        if (n % 20 == 0)
            run_extent(&c, 5000);
    }
    CHECK(kept && variant_of(&c, 5000) == kept);
    session_end(&c);
}

/* What flx_exec_step() and flx_exec_profile() return lives as long as the executable. */
TEST(variants_whose_texts_were_handed_out_stay)
{
    session_case c;
    flx_step step;
    flx_step_time times[8];
    flx_tensor *out;
    char name[200];
    size_t count;
    session_begin(&c, text, 0);
    session_compile(&c, FLX_COMPILE_INTERPRET, 1);
    run_extent(&c, 3);
    CHECK_OK(flx_exec_step(c.exec, 0, &step), NULL);
    snprintf(name, sizeof name, "%s", step.name);
    flx_feed feed = {"x", session_f32(&c, 4, 2)};
    CHECK_OK(flx_exec_profile(c.exec, NULL, &feed, 1, &out, times, 8, &count, &c.err), &c.err);
    flx_tensor_release(out);
    for (int64_t n = 10; n <= 10 + 2 * FLXI_MAX_VARIANTS; n++)
        run_extent(&c, n);
    CHECK(variant_of(&c, 3) && variant_of(&c, 4) && !variant_of(&c, 10));
    CHECK_EQ_STR(step.name, name);
    CHECK_EQ_STR(times[0].name, name);
    session_end(&c);
}

/* The binding given to flx_compile() is what flx_exec_run_at() runs, whatever else was run. */
TEST(variant_compiled_at_once_stays)
{
    session_case c;
    session_begin(&c, text, 0);
    flx_dim_binding dim = {"N", 3};
    flx_compile_options o = {.flags = FLX_COMPILE_INTERPRET, .threads = 1, .dims = &dim, .num_dims = 1};
    c.exec = flx_compile(c.g, &o, &c.err);
    CHECK_MADE(c.exec, &c.err);
    for (int64_t n = 10; n <= 10 + 2 * FLXI_MAX_VARIANTS; n++) {
        flx_dim_binding other = {"N", n};
        flx_run_options run = {.dims = &other, .num_dims = 1};
        flx_feed feed = {"x", session_f32(&c, n, 1)};
        flx_tensor *out;
        CHECK_OK(flx_exec_run(c.exec, &run, &feed, 1, &out, &c.err), &c.err);
        CHECK(flx_tensor_get(out, 0) == (double)n);
        flx_tensor_release(out);
        flx_tensor_release(c.made[--c.count]);
    }
    float x[3] = {1, 2, 3}, y = 0;
    CHECK_CODE(flx_exec_run_at(c.exec, (const void *[]){x}, (void *[]){NULL}, &c.err), FLX_E_USAGE, &c.err);
    CHECK_OK(flx_exec_run_at(c.exec, (const void *[]){x}, (void *[]){&y}, &c.err), &c.err);
    CHECK(y == 14);
    session_end(&c);
}
