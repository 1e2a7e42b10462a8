/* derivative_manual.c: docs/derivatives.md, which says for each op what rules it has and how often each law is tried
   on it. The laws count their cases, so a law that an op escapes is a hole in the table, and a hole fails. */
#include "experiment.h"
#include "graph/graph.h"
#include "graph/op/opcode.h"
#include "test.h"

#include <fluxion/catalogue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMN_MODES,
    COLUMN_F32,
    COLUMN_F16,
    COLUMN_BF16,
    COLUMN_C64,
    COLUMN_BATCH,
    COLUMN_COMMUTE,
    COLUMN_JACOBIAN,
    COLUMN_HESSIAN,
    COLUMNS
};

static const struct {
    const char *name;
    op_law law;
    int32_t dtype; /* of the law of precision */
} columns[COLUMNS] = {
    [COLUMN_MODES] = {"modes", law_of_modes, 0},
    [COLUMN_F32] = {"f32", NULL, FLX_F32},
    [COLUMN_F16] = {"f16", NULL, FLX_F16},
    [COLUMN_BF16] = {"bf16", NULL, FLX_BF16},
    [COLUMN_C64] = {"c64", NULL, FLX_C64},
    [COLUMN_BATCH] = {"vmap = loop", law_of_batching, 0},
    [COLUMN_COMMUTE] = {"grad of vmap", law_of_commuting, 0},
    [COLUMN_JACOBIAN] = {"jacfwd = jacrev", law_of_jacobians, 0},
    [COLUMN_HESSIAN] = {"hvp symmetric", law_of_symmetry, 0},
};

static size_t cases[OP_COUNT][COLUMNS];

static void count_sample(const sample_case *c)
{
    for (int k = 0; k < COLUMNS; k++)
        cases[c->op][k] += columns[k].law ? columns[k].law(c, true) : precision_cases(c, columns[k].dtype);
}

/* Whether the law has something to say about the op, so that it must be tried. */
static bool is_owed(flxi_opcode op, int column)
{
    if (flxi_has_own_attrs(&flxi_ops[op]))
        return false; /* there only where a program registers it: host_op.c */
    bool derives = law_needs_derivative(op) && !law_has_only_shadows(op);
    switch (column) {
    case COLUMN_BATCH:
        return !batching_has_streams(op);
    case COLUMN_MODES:
        return derives || flxi_rule_kind(&flxi_ops[op], MODE_VJP) == FLX_RULE_UNDEFINED;
    case COLUMN_COMMUTE:
    case COLUMN_JACOBIAN:
        return derives;
    case COLUMN_HESSIAN:
        return derives && law_has_hessian(op);
    default:
        return derives && flxi_in(flxi_ops[op].dtypes, columns[column].dtype);
    }
}

static const char *kind_word(int32_t kind)
{
    static const char *const words[] = {"**none**", "rule", "decomposition", "zero", "undefined", "loop"};
    return words[kind];
}

static void write_intro(FILE *f)
{
    fputs("<!-- Written by the test derivative_manual_is_fresh with FLX_UPDATE_DOCS=1; do not edit. -->\n"
          "# Derivatives\n\n"
          "How each op gets its reverse rule (VJP), forward rule (JVP), batching rule (vmap) and second derivatives: a "
          "rule of\n"
          "its own, the rules of what it decomposes into, zero by definition, undefined (with the reason), or for vmap "
          "a loop\n"
          "over the examples. The other columns count what `flx_tests derivative` tries; a `-` says that a law has "
          "nothing to\n"
          "say about the op, and the test fails on a law that an op escapes:\n\n"
          "- **modes**: reverse mode, forward mode and differences agree, and so do the four ways to a second "
          "derivative; a\n"
          "  derivative that is zero by definition is exactly zero (f64 and c128, as everything but the next four);\n"
          "- **f32, f16, bf16, c64**: the VJP and the JVP are those in f64 and c128 at the same inputs, to as many "
          "roundings as\n"
          "  their graphs have on a path (tests/ops/precision.c derives the bound);\n"
          "- **vmap = loop**: every subset of batched operands, the batch axis in turn at every place of each operand "
          "and\n"
          "  result, batches of 2, 3, 1 and 0, bit for bit (f64, c128, i32, bool);\n"
          "- **grad of vmap**: the gradient of the summed batch is the batched gradient, for every subset of batched "
          "operands;\n"
          "- **jacfwd = jacrev**: the Jacobians by columns and by rows are one matrix;\n"
          "- **hvp symmetric**: u'Ht = t'Hu.\n\n",
          f);
}

static void write_table(FILE *f)
{
    fputs("| op | VJP | JVP | vmap | order 2 |", f);
    for (int k = 0; k < COLUMNS; k++)
        fprintf(f, " %s |", columns[k].name);
    fputs("\n|---|---|---|---|---|", f);
    for (int k = 0; k < COLUMNS; k++)
        fputs("---|", f);
    fputs("\n", f);
    for (int i = 1; i < OP_COUNT; i++) {
        flx_op_view v;
        flx_op_find(flxi_ops[i].name, &v);
        if (flxi_ops[i].op_class == CLASS_LEAF)
            continue; /* nothing to differentiate by */
        fprintf(f, "| `%s` | %s | %s | %s | %s |", v.name, kind_word(v.vjp), kind_word(v.jvp), kind_word(v.vmap),
                kind_word(v.order2));
        for (int k = 0; k < COLUMNS; k++) {
            if (cases[i][k] || is_owed((flxi_opcode)i, k))
                fprintf(f, " %zu |", cases[i][k]);
            else
                fputs(" - |", f);
        }
        fputs("\n", f);
    }
}

static void write_reasons(FILE *f)
{
    size_t n;
    const precision_exception *e = precision_exceptions(&n);
    fputs("\nUndefined:\n\n", f);
    for (int i = 1; i < OP_COUNT; i++)
        if (flxi_rule_kind(&flxi_ops[i], MODE_VJP) == FLX_RULE_UNDEFINED)
            fprintf(f, "- `%s`: %s\n", flxi_ops[i].name, flxi_ops[i].rules->undefined);
    fprintf(f,
            "\nIn low precision these %zu lose digits that the problem does not lose; their error is bounded by that "
            "of the\n"
            "cotangents and tangents that come in:\n\n",
            n);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "- `%s`: %s\n", flxi_ops[e[i].op].name, e[i].reason);
    fputs("\nThese have integers on one side; their derivatives, which are f32 there, are tried on chains of them:\n\n",
          f);
    for (int i = 1; i < OP_COUNT; i++)
        if (law_needs_derivative((flxi_opcode)i) && law_has_only_shadows((flxi_opcode)i))
            fprintf(f, "- `%s`\n", flxi_ops[i].name);
    fputs("\nBatched, these agree with the loop to rounding only:\n\n", f);
    for (int i = 1; i < OP_COUNT; i++)
        if (batching_exception((flxi_opcode)i))
            fprintf(f, "- `%s`: %s\n", flxi_ops[i].name, batching_exception((flxi_opcode)i));
    fputs("\nBatched, the examples of these draw from streams of their own:\n\n", f);
    for (int i = 1; i < OP_COUNT; i++)
        if (batching_has_streams((flxi_opcode)i))
            fprintf(f, "- `%s`\n", flxi_ops[i].name);
}

static char *write_manual(void)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    CHECK(f != NULL);
    write_intro(f);
    write_table(f);
    write_reasons(f);
    fclose(f);
    return text;
}

static void count_all(void)
{
    memset(cases, 0, sizeof cases);
    sample_each(count_sample);
}

/* So that a row more in either table is seen. */
static void print_exceptions(void)
{
    size_t coarse;
    int reordered = 0;
    precision_exceptions(&coarse);
    for (int i = 1; i < OP_COUNT; i++)
        reordered += batching_exception((flxi_opcode)i) != NULL;
    printf("derivatives: %zu ops with a coarser bound in low precision, %d batched to rounding only\n", coarse,
           reordered);
}

TEST(derivative_laws_have_no_hole)
{
    const char *filter = getenv("FLX_OP");
    count_all();
    for (int i = 1; i < OP_COUNT; i++) {
        const flxi_op *op = &flxi_ops[i];
        test_fail_context("rerun with FLX_OP=%s", op->name);
        EXPECT_MSG(flxi_rule_kind(op, MODE_VJP) != FLX_RULE_NONE, "%s has no derivative rule and no reason", op->name);
        EXPECT_MSG(flxi_rule_kind(op, MODE_JVP) != FLX_RULE_NONE, "%s has no forward rule and no reason", op->name);
        for (int k = 0; k < COLUMNS && op->op_class != CLASS_LEAF && !(filter && !strstr(op->name, filter)); k++)
            EXPECT_MSG(cases[i][k] || !is_owed((flxi_opcode)i, k), "%s escapes the law '%s': give it a sample",
                       op->name, columns[k].name);
        test_count_case();
    }
    print_exceptions();
}

TEST(derivative_manual_is_fresh)
{
    char path[4096];
    if (getenv("FLX_OP"))
        return; /* only some of the ops were counted */
    count_all();
    char *text = write_manual();
    snprintf(path, sizeof path, "%s/docs/derivatives.md", test_source_dir());
    if (getenv("FLX_UPDATE_DOCS")) {
        FILE *f = fopen(path, "w");
        CHECK_MSG(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s cannot be written", path);
    }
    FILE *f = fopen(path, "r");
    CHECK_MSG(f != NULL, "%s is missing: run with FLX_UPDATE_DOCS=1", path);
    char *old = malloc(strlen(text) + 2);
    CHECK(old != NULL);
    size_t n = fread(old, 1, strlen(text) + 1, f);
    old[n] = 0;
    fclose(f);
    bool fresh = strcmp(old, text) == 0;
    free(old);
    free(text);
    CHECK_MSG(fresh, "%s is stale: run with FLX_UPDATE_DOCS=1", path);
}
