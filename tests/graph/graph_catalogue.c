/* SPDX-License-Identifier: Apache-2.0 */
/* graph_catalogue.c: the public view of the op table. */
#include "graph/graph_text.h"

#include <stdio.h>

TEST(catalogue_lists_every_op_once)
{
    size_t n = flx_op_count();
    CHECK(n > 100);
    for (size_t i = 0; i < n; i++) {
        flx_op_view a;
        flx_op_view b;
        CHECK_OK(flx_op_at(i, &a), NULL);
        CHECK_OK(flx_op_find(a.name, &b), NULL);
        CHECK_EQ_STR(b.name, a.name);
        CHECK(a.family && *a.family && a.doc && *a.doc && a.operands && a.results && *a.results && a.reason);
        CHECK_MSG(a.dtypes != 0 && (a.dtypes & 1) == 0 && a.dtypes >> FLX_DTYPE_COUNT == 0, "%s", a.name);
        CHECK_MSG(a.min_operands >= 0 && (a.max_operands == -1 || a.max_operands >= a.min_operands), "%s", a.name);
        for (size_t k = 0; k < i; k++) {
            flx_op_at(k, &b);
            CHECK_MSG(strcmp(a.name, b.name) != 0, "%s is listed twice", a.name);
        }
    }
}

TEST(catalogue_out_of_range_is_an_error)
{
    flx_op_view view;
    flx_attr_view attr;
    const char *synonym;
    const char *name;
    CHECK_EQ_I64(flx_op_at(flx_op_count(), &view), FLX_E_NAME);
    CHECK_EQ_I64(flx_op_at(SIZE_MAX, &view), FLX_E_NAME);
    CHECK_EQ_I64(flx_op_at(0, NULL), FLX_E_USAGE);
    CHECK_EQ_I64(flx_op_find("no_such_op", &view), FLX_E_NAME);
    CHECK_EQ_I64(flx_op_find("", &view), FLX_E_NAME);
    CHECK_EQ_I64(flx_op_find(NULL, &view), FLX_E_USAGE);
    CHECK_EQ_I64(flx_op_find("add", NULL), FLX_E_USAGE);
    CHECK_EQ_I64(flx_op_attr("add", 0, &attr), FLX_E_NAME);
    CHECK_EQ_I64(flx_op_attr("no_such_op", 0, &attr), FLX_E_NAME);
    CHECK_EQ_I64(flx_op_attr(NULL, 0, &attr), FLX_E_USAGE);
    CHECK_EQ_I64(flx_op_attr("softmax", UINT32_MAX, &attr), FLX_E_NAME);
    CHECK_EQ_I64(flx_op_attr("softmax", 0, NULL), FLX_E_USAGE);
    CHECK_EQ_I64(flx_op_synonym(SIZE_MAX, &synonym, &name), FLX_E_NAME);
}

TEST(catalogue_attributes_state_kind_and_default)
{
    for (size_t i = 0; i < flx_op_count(); i++) {
        flx_op_view op;
        flx_op_at(i, &op);
        bool positional = true;
        for (uint32_t k = 0; k < op.num_attrs; k++) {
            flx_attr_view a;
            test_fail_context("%s, attribute %u", op.name, k);
            CHECK_OK(flx_op_attr(op.name, k, &a), NULL);
            CHECK(a.name && *a.name && a.kind && *a.kind && a.words);
            CHECK_MSG((a.fallback[0] == 0) == (a.required != 0), "'%s' has the default '%s'", a.name, a.fallback);
            CHECK_MSG(strcmp(a.fallback, "9223372036854775807") != 0, "'%s' shows its absent value", a.name);
            CHECK(strcmp(a.kind, "word") != 0 || a.words[0]);
            CHECK(positional || !a.positional);
            positional = a.positional;
        }
        CHECK_EQ_I64(flx_op_attr(op.name, op.num_attrs, &(flx_attr_view){0}), FLX_E_NAME);
    }
}

TEST(catalogue_synonyms_lead_to_ops)
{
    const char *synonym = NULL;
    const char *name = NULL;
    size_t n = 0;
    for (; flx_op_synonym(n, &synonym, &name) == FLX_OK; n++) {
        flx_op_view op;
        CHECK_OK(flx_op_find(synonym, &op), NULL);
        CHECK_EQ_STR(op.name, name);
    }
    CHECK(n > 0);
    CHECK_OK(flx_op_synonym(0, NULL, NULL), NULL);
}

TEST(catalogue_says_how_rules_are_obtained)
{
    for (size_t i = 0; i < flx_op_count(); i++) {
        flx_op_view op;
        flx_op_at(i, &op);
        const int32_t rules[] = {op.vjp, op.jvp, op.vmap, op.order2};
        for (int k = 0; k < 4; k++) {
            CHECK_MSG(rules[k] >= FLX_RULE_NONE && rules[k] <= FLX_RULE_LOOP, "%s", op.name);
            CHECK_MSG(rules[k] != FLX_RULE_UNDEFINED || op.reason[0], "%s gives no reason", op.name);
        }
    }
}

/* A call with the stated number of operands is never an ARITY error, any other number always is. */
TEST(catalogue_operand_counts_are_those_the_builder_accepts)
{
    for (size_t i = 0; i < flx_op_count(); i++) {
        flx_op_view op;
        flx_op_at(i, &op);
        if (strcmp(op.name, "input") == 0 || strcmp(op.name, "param") == 0 || op.min_operands == 0)
            continue;
        char text[400] = "graph f(x: f32[2]) { return ";
        strcat(strcat(text, op.name), "(");
        for (int k = 0; k + 1 < op.min_operands; k++)
            strcat(text, k ? ", x" : "x");
        strcat(text, ") }");
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err);
        CHECK_MSG(!m && (err.code == FLX_E_ARITY || err.code == FLX_E_ATTRIBUTE), "%s: %s", text, err.message);
        flx_context_free(ctx);
        test_count_case();
    }
}
