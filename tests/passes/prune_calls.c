/* SPDX-License-Identifier: Apache-2.0 */
/* prune_calls.c: functions whose results are not all used, while memory runs out at every allocation: whatever fails
   says so, nothing leaks, and the graph that is given stays as it is. */
#include "autodiff/transform_text.h"
#include "fault.h"
#include "passes/calls.h"

static const char text[] = "graph both(x: f32[3], y: f32[3]) { return exp(x), sin(y) }\n"
                           "graph outer(x: f32[3], y: f32[3]) { a, b = call(x, y, body=@both) return a, mul(b, y) }\n"
                           "graph main(x: f32[3], y: f32[3]) { a, b = call(x, y, body=@outer) return a }\n";

/* Request n fails; false: the pass makes fewer. */
static bool prune_starved(size_t n)
{
    fault f = {0};
    text_bench b = bench_open(text, &f);
    uint64_t hash = flx_graph_hash(b.g);
    flx_error err = {0};
    flx_graph *out = NULL;
    f.fail_at = f.calls + n;
    flx_code code = flxi_pass_prune_calls(b.g, &out, NULL, &err);
    bool failed = f.failed > 0;
    test_fail_context("request %zu fails", n);
    CHECK_CODE(code, failed ? FLX_E_OOM : FLX_OK, &err);
    CHECK_MSG(err.code == (int32_t)code && (!failed || err.message[0]), "the error says %s", flx_code_name(err.code));
    CHECK_EQ_U64(flx_graph_hash(b.g), hash);
    if (code == FLX_OK)
        flx_graph_release(out);
    bench_close(&b);
    CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
    return failed;
}

TEST(prune_calls_without_memory_says_so)
{
    size_t n = 1;
    while (prune_starved(n))
        n++;
    CHECK(n > 20);
}
