/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_fixtures.c: the graphs of tests/oracle/fixtures as C files. Their answers are from JAX, PyTorch, NumPy and
   SciPy; the reference agrees with these (ops/oracle/oracle.c), and the C files must agree with the reference within
   the bounds that are derived for each graph. One in many is compiled; effort standalone_share=1: all. */
#include "effort.h"
#include "graph/graph.h"
#include "ops/oracle/compiled_oracle.h"
#include "ops/oracle/fixture.h"
#include "standalone/c_file.h"
#include "test.h"

#include <stdio.h>

static struct {
    flx_context *ctx;
    bundle *b;
    size_t built, refused;
    uint64_t turn, share;
} now;

static void end_file(void)
{
    if (!now.b)
        return;
    c_file_check_bundle(now.b, "gcc", "-O0", 0);
    bundle_free(now.b);
    flx_context_free(now.ctx);
    now.b = NULL;
}

static void add_graph(const flx_module *m, const flx_graph *g)
{
    enum { PER_FILE = 300 };
    (void)m;
    flx_error err = {0};
    flx_buffer text = {0};
    flx_graph *constants;
    size_t n = flx_graph_output_count(g);
    if (flx_graph_input_count(g) || n == 0 || n % 2 || (now.turn++ + test_seed()) % now.share != 0)
        return; /* a body that others use, or not its turn */
    flx_graph *open = oracle_open(g, &constants);
    if (!open)
        return;
    if (!now.b) {
        now.ctx = bundle_context();
        now.b = bundle_new(now.ctx);
    }
    const flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_TABLES};
    flx_code code = flx_build_c(open, &o, &text, NULL, NULL, &err);
    CHECK_MSG(code == FLX_OK || code == FLX_E_UNSUPPORTED, "%s: %s", flx_graph_name(g), err.message);
    now.built += code == FLX_OK;
    now.refused += code != FLX_OK;
    if (code != FLX_OK && effort(EFFORT_report))
        printf("refused: %s: %s\n", flx_graph_name(g), err.message);
    if (code == FLX_OK)
        bundle_add_copy(now.b, open, oracle_constant, constants, flx_graph_name(g));
    flx_buffer_free(&text);
    flx_graph_release(open);
    flx_graph_release(constants);
    if (bundle_size(now.b) >= PER_FILE)
        end_file();
}

TEST(standalone_fixtures_agree_with_reference)
{
    now.built = now.refused = now.turn = 0;
    now.share = (uint64_t)effort(EFFORT_standalone_share);
    fixture_each("fixtures", add_graph);
    end_file();
    if (effort(EFFORT_report))
        printf("%zu fixtures built, %zu refused\n", now.built, now.refused);
    CHECK_MSG(now.refused <= now.built / 20 + 2, "%zu of %zu fixtures are refused", now.refused,
              now.built + now.refused);
}
