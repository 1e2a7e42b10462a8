/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.c: runs the fixtures of tests/oracle. Each graph of a fixture returns pairs of a computed value and the answer
   of an independent implementation; its name ends in __ulp<N> or __rel<N>, how close they must be (fixture.h). */
#include "compiled_oracle.h"
#include "fixture.h"
#include "test.h"

#include <fluxion/run.h>
#include <stdlib.h>

static void run_case(const flx_module *m, const flx_graph *g)
{
    flx_error err = {0};
    size_t n = flx_graph_output_count(g);
    (void)m;
    if (flx_graph_input_count(g) || n == 0 || n % 2)
        return; /* a body that other cases use */
    flx_tensor **out = calloc(n, sizeof *out);
    flx_code code = flx_run(g, ON_REF, NULL, 0, out, &err);
    if (EXPECT_MSG(code == FLX_OK, "%s: %s", flx_graph_name(g), err.message))
        for (size_t i = 0; i + 1 < n; i += 2)
            fixture_agree(flx_graph_name(g), flx_graph_output_name(g, i), out[i], out[i + 1], NULL);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(out[i]);
    free(out);
    test_count_case();
}

static void compile_case(const flx_module *m, const flx_graph *g)
{
    flx_error err = {0};
    size_t n = flx_graph_output_count(g);
    (void)m;
    if (flx_graph_input_count(g) || n == 0 || n % 2 || !case_turn(40))
        return;
    flx_tensor **out = calloc(n, sizeof *out);
    CHECK_OK(flx_run(g, ON_REF, NULL, 0, out, &err), &err);
    compiled_oracle_add_pairs(g, out);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(out[i]);
    free(out);
}

TEST(oracle_fixtures_agree_compiled)
{
    fixture_each("fixtures", compile_case);
    compiled_oracle_end();
}

TEST(oracle_fixtures_agree)
{
    fixture_each("fixtures", run_case);
}
