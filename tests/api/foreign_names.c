/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_names.c: the table of other frameworks' names leads to things that exist, and messages use it. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_declared_in_nn(const char *function)
{
    static char text[1 << 16];
    char pattern[80];
    if (!text[0]) {
        FILE *in = fopen(FLX_SOURCE_DIR "/include/fluxion/nn.h", "rb");
        CHECK(in && fread(text, 1, sizeof text - 1, in) > 0);
        fclose(in);
    }
    snprintf(pattern, sizeof pattern, " %s(", function);
    return strstr(text, pattern) != NULL;
}

TEST(api_foreign_names_lead_to_what_exists)
{
    flx_foreign_view row;
    flx_op_view op;
    char before[64] = "";
    size_t n = 0;
    for (; flx_foreign_name(n, &row) == FLX_OK; n++) {
        test_fail_context("%s", row.name);
        CHECK_MSG(flx_op_find(row.ours, &op) == FLX_OK || is_declared_in_nn(row.ours), "there is no %s", row.ours);
        EXPECT_MSG(strcmp(before, row.name) < 0, "%s is not sorted", row.name);
        EXPECT_MSG(row.frameworks[0] && strlen(row.note) <= 80, "the note is too long for a hint");
        flx_foreign_view found;
        CHECK_OK(flx_foreign_find(row.name, &found), NULL);
        CHECK_EQ_STR(found.name, row.name);
        snprintf(before, sizeof before, "%s", row.name);
        test_count_case();
    }
    CHECK(n >= 250);
    CHECK_CODE(flx_foreign_name(n, &row), FLX_E_NAME, NULL);
}

TEST(api_foreign_names_in_any_spelling)
{
    static const char *const spellings[] = {"max_pool2d", "MaxPool2d", "torch.nn.MaxPool2d", "F.max_pool2d"};
    flx_foreign_view row;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        CHECK_OK(flx_foreign_find(spellings[i], &row), NULL);
        CHECK_EQ_STR(row.ours, "pool");
    }
    CHECK_CODE(flx_foreign_find("frobnicate", &row), FLX_E_NAME, NULL);
    CHECK_CODE(flx_foreign_find("", &row), FLX_E_NAME, NULL);
    CHECK_CODE(flx_foreign_find(NULL, &row), FLX_E_USAGE, NULL);
    CHECK_CODE(flx_foreign_find("sum", NULL), FLX_E_USAGE, NULL);
}

TEST(api_foreign_names_are_hints_of_the_builder)
{
    static const struct {
        const char *op, *hint;
    } wanted[] = {{"sum", "write reduce_sum"},
                  {"ReduceSum", "write reduce_sum"},
                  {"np.clip", "write clamp"},
                  {"lstm", "use flx_nn_lstm() of fluxion/nn.h"},
                  {"frobnicate", ""}};
    flx_context *ctx = flx_context_new(NULL);
    const flx_type type = flx_type_make(FLX_F32, 0, NULL);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        flx_error err = {0};
        flx_graph *g = flx_graph_new(ctx, "f");
        flx_val x = flx_input(g, "x", &type);
        flx_op(g, wanted[i].op, &x, 1, NULL, 0, NULL, 0);
        CHECK_CODE(flx_graph_error(g, &err), FLX_E_NAME, &err);
        CHECK_MSG(strncmp(err.hint, wanted[i].hint, strlen(wanted[i].hint)) == 0, "%s: %s", wanted[i].op, err.hint);
        CHECK(wanted[i].hint[0] || !err.hint[0]);
        flx_graph_release(g);
    }
    flx_context_free(ctx);
}
