/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_operations.c: the rows of operations.def are complete. A row without a form, a signature or a rule does not
   compile, and a rule without a function does not link; the rest is checked here: the order, the notation of the
   strings and the names of other ops and operations. */
#include "test.h"

#include "graph/op/op.h"
#include "stablehlo/import/check/hlo_checks.h"

#include <string.h>

TEST(stablehlo_operations_are_sorted)
{
    for (size_t i = 1; i < flxi_hlo_num_operations; i++)
        EXPECT_MSG(strcmp(flxi_hlo_operations[i - 1].name, flxi_hlo_operations[i].name) < 0, "%s is out of order",
                   flxi_hlo_operations[i].name);
    for (size_t i = 0; i < flxi_hlo_num_operations; i++)
        CHECK(flxi_hlo_operation(flxi_hlo_operations[i].name) == &flxi_hlo_operations[i]);
    CHECK(flxi_hlo_operation("stablehlo.nothing") == NULL);
}

static bool is_our_op(const char *name)
{
    return !name || flxi_op_lookup(name, strlen(name)) != OP_NONE;
}

TEST(stablehlo_operations_are_complete)
{
    for (size_t i = 0; i < flxi_hlo_num_operations; i++) {
        const hlo_operation *row = &flxi_hlo_operations[i];
        const char *name = row->name;
        EXPECT_MSG(row->form || row->import, "%s can neither be read without quotes nor imported", name);
        if (!row->import)
            continue;
        EXPECT_MSG(row->signature && flxi_hlo_is_signature(row->signature), "signature of %s", name);
        EXPECT_MSG(!row->attributes || flxi_hlo_are_constraints(row->attributes), "attributes of %s", name);
        EXPECT_MSG(!row->regions || flxi_hlo_are_regions(row->regions), "regions of %s", name);
        EXPECT_MSG(is_our_op(row->ours) && is_our_op(row->ours_bool), "%s names an op that does not exist", name);
        EXPECT_MSG(row->ours || !row->ours_bool, "%s has an op for i1 only", name);
        EXPECT_MSG(row->moves || !row->rescales, "%s rescales what it does not move", name);
    }
}

/* A rule that serves several operations learns from the row what it is to append. */
TEST(stablehlo_operations_say_what_shared_rules_need)
{
    for (size_t i = 0; i < flxi_hlo_num_operations; i++) {
        const hlo_operation *row = &flxi_hlo_operations[i];
        if (row->import == flxi_hlo_import_named || row->import == flxi_hlo_import_bitwise ||
            row->import == flxi_hlo_import_complex_part || row->import == flxi_hlo_import_extremum)
            EXPECT_MSG(row->ours != NULL, "%s does not name an op", row->name);
        EXPECT_MSG((row->import == flxi_hlo_import_broadcasting) == (row->stands_for != NULL),
                   "%s and what it stands for", row->name);
        const hlo_operation *plain = row->stands_for ? flxi_hlo_operation(row->stands_for) : NULL;
        EXPECT_MSG(!row->stands_for || (plain && plain->import && flxi_hlo_signature_operands(plain->signature) == 2),
                   "%s stands for something else than a binary operation", row->name);
    }
}

/* The checks above can fail. */
TEST(stablehlo_operations_with_mistakes_are_found)
{
    static const char *const signatures[] = {"", "E E", "E -> E -> E", "Q -> E", "E:y -> E", "AE:fc- -> E", "0E1 -> E"};
    static const char *const constraints[] = {"dimension", "dimension axle", "dimension axis@left",
                                              " axis",     "d. axis",        "dimension axis, ? axes"};
    static const char *const regions[] = {"operands",
                                          "operands -> nothing else",
                                          "operands->i1",
                                          "operands -> i1, results",
                                          "operands -> i1 *; operands -> i1",
                                          "anything"};
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        EXPECT_MSG(!flxi_hlo_is_signature(signatures[i]), "signature '%s'", signatures[i]);
    for (size_t i = 0; i < sizeof constraints / sizeof *constraints; i++)
        EXPECT_MSG(!flxi_hlo_are_constraints(constraints[i]), "attributes '%s'", constraints[i]);
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
        EXPECT_MSG(!flxi_hlo_are_regions(regions[i]), "regions '%s'", regions[i]);
}

TEST(stablehlo_operations_count_operands_and_regions)
{
    CHECK_EQ_I64(flxi_hlo_signature_operands("-> T"), 0);
    CHECK_EQ_I64(flxi_hlo_signature_operands("AE:fq 1E 1E -> AE 1E 1E"), 3);
    CHECK_EQ_I64(flxi_hlo_signature_operands("E 0F:iu? 0F* -> E"), HLO_MANY);
    CHECK_EQ_I64(flxi_hlo_region_count(NULL), 0);
    CHECK_EQ_I64(flxi_hlo_region_count("any"), 1);
    CHECK_EQ_I64(flxi_hlo_region_count("operands -> i1; operands -> operands"), 2);
    CHECK_EQ_I64(flxi_hlo_region_count("nothing -> results *"), HLO_MANY);
}
