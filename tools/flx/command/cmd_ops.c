/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ops.c: `flx ops`: the op table of the library, for people and for programs. */
#include "args.h"
#include "commands.h"
#include "io/json_writer.h"
#include "report.h"
#include "suggest.h"

#include <fluxion/catalogue.h>
#include <stdio.h>
#include <string.h>

/* How a rule is obtained, in a word. */
static const char *rule_word(int32_t rule)
{
    static const char *const words[] = {
        [FLX_RULE_NONE] = "none",
        [FLX_RULE_OWN] = "rule",
        [FLX_RULE_DECOMPOSE] = "decomposition",
        [FLX_RULE_ZERO] = "zero",
        [FLX_RULE_UNDEFINED] = "undefined",
        [FLX_RULE_LOOP] = "rule (a loop over the examples)",
    };
    return rule >= 0 && rule <= FLX_RULE_LOOP ? words[rule] : "unknown";
}

typedef struct {
    const char *name;
    int32_t rule;
} rule_row;

enum { NUM_RULES = 4 };

static void rules_of(const flx_op_view *op, rule_row rows[NUM_RULES])
{
    rows[0] = (rule_row){"vjp", op->vjp};
    rows[1] = (rule_row){"jvp", op->jvp};
    rows[2] = (rule_row){"vmap", op->vmap};
    rows[3] = (rule_row){"order2", op->order2};
}

/* Whether a rule is undefined, so that the reason says something. */
static bool has_reason(const flx_op_view *op, int32_t rule)
{
    return rule == FLX_RULE_UNDEFINED && op->reason && op->reason[0];
}

/* ---- As text ---- */

/* `reduce_sum(x; axes=all, keep_dims=false) -> y`, as the manual writes signatures. */
static void print_signature(const flx_op_view *op)
{
    printf("%s(%s", op->name, op->operands);
    bool any = op->operands[0];
    bool any_named = false;
    for (uint32_t i = 0; i < op->num_attrs; i++) {
        flx_attr_view attr;
        if (flx_op_attr(op->name, i, &attr) != FLX_OK)
            continue;
        if (attr.positional)
            printf("%s%s", any ? ", " : "", attr.name);
        else
            printf("%s%s", any_named ? ", " : "; ", attr.name);
        any = true;
        any_named = !attr.positional;
        if (!attr.required)
            printf("=%s", attr.fallback);
    }
    printf(") -> %s\n", op->results);
}

static void print_dtypes(const flx_op_view *op)
{
    bool any = false;
    for (int32_t d = 1; d < FLX_DTYPE_COUNT; d++) {
        if (!(op->dtypes & 1u << d))
            continue;
        printf("%s%s", any ? " " : "", flx_dtype_name(d));
        any = true;
    }
}

static void print_synonyms(const flx_op_view *op)
{
    const char *synonym;
    const char *name;
    bool any = false;
    for (size_t i = 0; flx_op_synonym(i, &synonym, &name) == FLX_OK; i++) {
        if (strcmp(name, op->name) != 0)
            continue;
        printf("%s%s", any ? ", " : "  also called: ", synonym);
        any = true;
    }
    if (any)
        putchar('\n');
}

/* Three lines. The reason, which all undefined rules share, is printed once at the end. */
static void print_brief(const flx_op_view *op)
{
    rule_row rows[NUM_RULES];
    rules_of(op, rows);
    print_signature(op);
    printf("  %s\n  ", op->doc);
    print_dtypes(op);
    bool needs_reason = false;
    for (int i = 0; i < NUM_RULES; i++) {
        printf("%s%s: %s", i ? ", " : "; ", rows[i].name, rule_word(rows[i].rule));
        needs_reason = needs_reason || has_reason(op, rows[i].rule);
    }
    if (needs_reason)
        printf(": %s", op->reason);
    putchar('\n');
}

static void print_rules(const flx_op_view *op)
{
    rule_row rows[NUM_RULES];
    rules_of(op, rows);
    for (int i = 0; i < NUM_RULES; i++) {
        printf("  %s: %s", rows[i].name, rule_word(rows[i].rule));
        if (has_reason(op, rows[i].rule))
            printf(": %s", op->reason);
        putchar('\n');
    }
}

/* Names of other frameworks: those that mean just this op in one line, those that need a note in one each. A framework
   may also use the name of this op for another one. */
static void print_other_names(const flx_op_view *op)
{
    flx_foreign_view other;
    const char *between = "  other names: ";
    for (size_t i = 0; flx_foreign_name(i, &other) == FLX_OK; i++)
        if (strcmp(other.ours, op->name) == 0 && !other.note[0]) {
            printf("%s%s (%s)", between, other.name, other.frameworks);
            between = ", ";
        }
    if (between[0] == ',')
        putchar('\n');
    between = "  other names, with a note:\n";
    for (size_t i = 0; flx_foreign_name(i, &other) == FLX_OK; i++) {
        bool is_own_name = strcmp(other.name, op->name) == 0;
        bool is_ours = strcmp(other.ours, op->name) == 0;
        if ((!is_ours && !is_own_name) || !other.note[0])
            continue;
        printf("%s    %s (%s): %s\n", between, other.name, other.frameworks, other.note);
        between = "";
    }
}

static void print_full(const flx_op_view *op)
{
    print_signature(op);
    printf("  %s\n", op->doc);
    print_synonyms(op);
    print_other_names(op);
    printf("  family: %s\n  operands: %s\n", op->family, op->operands[0] ? op->operands : "none");
    for (uint32_t i = 0; i < op->num_attrs; i++) {
        flx_attr_view attr;
        if (flx_op_attr(op->name, i, &attr) != FLX_OK)
            continue;
        printf("%s    %s: %s", i ? "" : "  attributes:\n", attr.name, attr.kind);
        if (attr.words[0])
            printf(" (%s)", attr.words);
        if (attr.required)
            fputs(", must be given", stdout);
        else
            printf(", default %s", attr.fallback);
        puts(attr.positional ? ", by position" : "");
    }
    fputs("  dtypes: ", stdout);
    print_dtypes(op);
    putchar('\n');
    print_rules(op);
}

/* ---- As JSON ---- */

static void json_attribute(json *j, const flx_attr_view *attr)
{
    json_object_begin(j, NULL);
    json_text(j, "name", attr->name);
    json_text(j, "kind", attr->kind);
    if (attr->words[0])
        json_text(j, "words", attr->words);
    json_bool(j, "required", attr->required);
    if (!attr->required)
        json_text(j, "default", attr->fallback);
    json_bool(j, "positional", attr->positional);
    json_object_end(j);
}

static void print_json(const flx_op_view *op)
{
    json j = {0};
    json_object_begin(&j, NULL);
    json_text(&j, "name", op->name);
    json_text(&j, "family", op->family);
    json_text(&j, "doc", op->doc);
    json_text(&j, "operands", op->operands);
    json_integer(&j, "min_operands", op->min_operands);
    if (op->max_operands >= 0)
        json_integer(&j, "max_operands", op->max_operands);
    else
        json_text(&j, "max_operands", NULL);
    json_text(&j, "results", op->results);
    json_array_begin(&j, "attributes");
    for (uint32_t i = 0; i < op->num_attrs; i++) {
        flx_attr_view attr;
        if (flx_op_attr(op->name, i, &attr) == FLX_OK)
            json_attribute(&j, &attr);
    }
    json_array_end(&j);
    json_array_begin(&j, "dtypes");
    for (int32_t d = 1; d < FLX_DTYPE_COUNT; d++)
        if (op->dtypes & 1u << d)
            json_text(&j, NULL, flx_dtype_name(d));
    json_array_end(&j);
    rule_row rows[NUM_RULES];
    rules_of(op, rows);
    for (int i = 0; i < NUM_RULES; i++)
        json_text(&j, rows[i].name, rule_word(rows[i].rule));
    if (op->reason && op->reason[0])
        json_text(&j, "reason", op->reason);
    json_object_end(&j);
}

/* ---- Counting ---- */

typedef struct {
    size_t ops;
    size_t by_rule[NUM_RULES][FLX_RULE_LOOP + 1];
} op_counts;

static op_counts count_ops(void)
{
    op_counts c = {0};
    flx_op_view op;
    rule_row rows[NUM_RULES];
    for (size_t i = 0; i < flx_op_count(); i++) {
        if (flx_op_at(i, &op) != FLX_OK)
            continue;
        c.ops++;
        rules_of(&op, rows);
        for (int k = 0; k < NUM_RULES; k++)
            if (rows[k].rule >= 0 && rows[k].rule <= FLX_RULE_LOOP)
                c.by_rule[k][rows[k].rule]++;
    }
    return c;
}

static void print_counts(const op_counts *c, const rule_row *rows)
{
    printf("ops: %zu\n", c->ops);
    for (int k = 0; k < NUM_RULES; k++) {
        const char *between = "";
        printf("%s: ", rows[k].name);
        for (int32_t r = 0; r <= FLX_RULE_LOOP; r++) {
            if (!c->by_rule[k][r])
                continue;
            printf("%s%zu %s", between, c->by_rule[k][r], rule_word(r));
            between = ", ";
        }
        putchar('\n');
    }
}

static void json_counts(const op_counts *c, const rule_row *rows)
{
    json j = {0};
    json_object_begin(&j, NULL);
    json_integer(&j, "ops", (int64_t)c->ops);
    for (int k = 0; k < NUM_RULES; k++) {
        json_object_begin(&j, rows[k].name);
        for (int32_t r = 0; r <= FLX_RULE_LOOP; r++)
            if (c->by_rule[k][r])
                json_integer(&j, rule_word(r), (int64_t)c->by_rule[k][r]);
        json_object_end(&j);
    }
    json_object_end(&j);
}

static int run_count(const args *a, bool as_json)
{
    if (a->operand)
        return fail(FLX_E_USAGE, "--count counts all ops and takes no NAME, as '%s'", a->operand);
    op_counts c = count_ops();
    rule_row rows[NUM_RULES];
    rules_of(&(flx_op_view){0}, rows); /* for their names */
    if (as_json)
        json_counts(&c, rows);
    else
        print_counts(&c, rows);
    return STATUS_OK;
}

/* ---- The command ---- */

/* The name of another framework: what it is here, and the op in full if it is one. */
static int print_foreign(const char *name, const flx_foreign_view *other, bool as_json)
{
    flx_op_view op;
    bool is_op = flx_op_find(other->ours, &op) == FLX_OK;
    if (as_json) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_text(&j, "name", name);
        json_text(&j, "frameworks", other->frameworks);
        json_text(&j, "ours", other->ours);
        json_text(&j, "note", other->note);
        json_object_end(&j);
        return STATUS_OK;
    }
    if (other->note[0])
        printf("%s: %s\n", name, other->note);
    else
        printf("%s: write %s\n", name, other->ours);
    if (is_op)
        print_full(&op);
    return STATUS_OK;
}

static int unknown_op(const char *name)
{
    int status = fail(FLX_E_NAME, "there is no op '%s'", name);
    suggestion s = suggest_begin(name);
    flx_op_view op;
    flx_foreign_view other;
    const char *synonym;
    for (size_t i = 0; i < flx_op_count(); i++)
        if (flx_op_at(i, &op) == FLX_OK)
            suggest_consider(&s, op.name);
    for (size_t i = 0; flx_op_synonym(i, &synonym, NULL) == FLX_OK; i++)
        suggest_consider(&s, synonym);
    for (size_t i = 0; flx_foreign_name(i, &other) == FLX_OK; i++)
        suggest_consider(&s, other.name);
    if (s.best)
        hint("did you mean '%s'?", s.best);
    else
        hint("flx ops lists all of them");
    return status;
}

static int run_ops(const args *a)
{
    bool as_json = args_has(a, "--json");
    flx_op_view op;
    flx_foreign_view other;
    if (args_has(a, "--count"))
        return run_count(a, as_json);
    if (a->operand) {
        if (flx_op_find(a->operand, &op) != FLX_OK && flx_foreign_find(a->operand, &other) == FLX_OK)
            return print_foreign(a->operand, &other, as_json);
        if (flx_op_find(a->operand, &op) != FLX_OK)
            return unknown_op(a->operand);
        if (as_json)
            print_json(&op);
        else
            print_full(&op);
        return STATUS_OK;
    }
    for (size_t i = 0; i < flx_op_count(); i++) {
        if (flx_op_at(i, &op) != FLX_OK)
            continue;
        if (as_json)
            print_json(&op);
        else
            print_brief(&op);
    }
    return STATUS_OK;
}

static const option options[] = {
    {"--count", NULL, "how many there are, and how many have which rules", MAY_BE_GIVEN}, OPTION_JSON, {0}};

static const char *const examples[] = {
    "flx ops softmax", "flx ops --json reduce_sum", "flx ops torch.nn.MaxPool2d", "flx ops | grep '^arg'", NULL,
};

const command command_ops = {
    .name = "ops",
    .operand = "[NAME]",
    .summary = "the op table",
    .about = "Lists the ops, or explains the one called NAME (or a synonym of it): operands, attributes with\n"
             "their defaults, results, dtypes, and how it is differentiated and batched. For a name of PyTorch,\n"
             "NumPy, JAX or ONNX it says what to write here, and explains that op. For each of\n"
             "vjp (reverse mode), jvp (forward mode), vmap (batching) and order2 (second derivatives):\n"
             "  rule             the op has a rule of its own\n"
             "  decomposition    through the ops it is made of\n"
             "  zero             zero by definition\n"
             "  undefined        there can be none, for the reason given\n"
             "  none             there is none\n"
             "A word after an operand is its role: :index a position, whose derivative is zero even where it is\n"
             "a float that holds an integer, :pred a truth value, :key a random\n"
             "key, :int an integer, :any a dtype of its own, :pair the same, with each value of the first half\n"
             "sharing it with one of the second; operands without a word share one of the dtypes listed.\n"
             "x... is any number of operands, [x] may be left out.",
    .options = options,
    .examples = examples,
    .run = run_ops,
};
