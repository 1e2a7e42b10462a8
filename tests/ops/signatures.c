/* SPDX-License-Identifier: Apache-2.0 */
/* signatures.c: compares the public catalogue with tests/ops/signatures.txt, the contract that was written before the
   ops: every op, how many operands and results it has, its attributes with their defaults, second names. */
#include "run_text.h"

#include <fluxion/catalogue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text ---- */

typedef struct {
    const char *at;
    size_t n;
} span;

static span span_of(const char *s)
{
    return (span){s, strlen(s)};
}

static bool starts_with(span s, const char *word)
{
    size_t n = strlen(word);
    return s.n >= n && memcmp(s.at, word, n) == 0;
}

static bool ends_with(span s, const char *word)
{
    size_t n = strlen(word);
    return s.n >= n && memcmp(s.at + s.n - n, word, n) == 0;
}

static bool equals(span s, const char *word)
{
    return s.n == strlen(word) && memcmp(s.at, word, s.n) == 0;
}

static span trimmed(span s)
{
    while (s.n && s.at[0] == ' ') {
        s.at++;
        s.n--;
    }
    while (s.n && (s.at[s.n - 1] == ' ' || s.at[s.n - 1] == '\n'))
        s.n--;
    return s;
}

/* Cuts s at the first `mark` outside brackets: the part before it is returned, s becomes the rest. */
static span cut(span *s, const char *mark)
{
    int depth = 0;
    span whole = *s;
    for (size_t i = 0; i < whole.n; i++) {
        span rest = {whole.at + i, whole.n - i};
        depth += (*rest.at == '[') - (*rest.at == ']');
        if (depth == 0 && starts_with(rest, mark)) {
            *s = trimmed((span){rest.at + strlen(mark), rest.n - strlen(mark)});
            return trimmed((span){whole.at, i});
        }
    }
    *s = (span){whole.at + whole.n, 0};
    return trimmed(whole);
}

static void copy(char *buffer, size_t size, span s)
{
    snprintf(buffer, size, "%.*s", (int)s.n, s.at);
}

/* ---- One signature ---- */

enum { MAX_PARTS = 24, MAX_NAME = 64 };

typedef struct {
    span name, fallback;
    bool required;
} attribute;

typedef struct {
    char op[MAX_NAME];
    int32_t min_operands, max_operands; /* max -1: any number */
    attribute attrs[MAX_PARTS];
    uint32_t num_attrs;
    span results; /* empty: one, of no name */
} signature;

/* The lists whose default the notation leaves out. */
static const char *list_default(span name)
{
    static const char *const ones[] = {"stride", "strides", "dilation"};
    static const char *const zeros[] = {"padding", "pad_low", "pad_high", "low", "high", "interior"};
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++)
        if (equals(name, ones[i]))
            return "all 1";
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++)
        if (equals(name, zeros[i]))
            return "all 0";
    return ends_with(name, "_dilation") ? "all 1" : NULL;
}

static attribute read_attribute(span s)
{
    bool given = memchr(s.at, '=', s.n) != NULL;
    attribute a = {.name = cut(&s, "=")};
    a.fallback = s;
    if (!given) {
        const char *fallback = list_default(a.name);
        a.required = fallback == NULL;
        a.fallback = span_of(fallback ? fallback : "");
    }
    return a;
}

/* Leaves have attributes instead of operands: a type, and what fills it. */
static void read_operand(signature *g, span s)
{
    if (equals(s, "type") || g->num_attrs > 0) {
        g->attrs[g->num_attrs++] = (attribute){.name = s, .required = true};
        return;
    }
    bool any_number = ends_with(s, "…");
    bool optional = starts_with(s, "[");
    if (!any_number && !optional)
        g->min_operands++;
    if (any_number)
        g->max_operands = -1;
    else if (g->max_operands >= 0)
        g->max_operands++;
}

/* op(operands; attributes) → results */
static signature read_signature(span line)
{
    signature g = {.num_attrs = 0};
    span s = line;
    copy(g.op, sizeof g.op, cut(&s, "("));
    span inside = cut(&s, ")");
    cut(&s, "→");
    g.results = s;
    span operands = cut(&inside, ";");
    while (operands.n)
        read_operand(&g, cut(&operands, ","));
    while (inside.n && g.num_attrs < MAX_PARTS)
        g.attrs[g.num_attrs++] = read_attribute(cut(&inside, ","));
    return g;
}

/* ---- Against the catalogue ---- */

/* Numbers by value, since 1/6 has no finite expansion; everything else as text. */
static bool same_default(span wanted, const char *found)
{
    char text[MAX_NAME];
    char *end;
    char *found_end;
    copy(text, sizeof text, wanted);
    double value = strtod(text, &end);
    double other = strtod(found, &found_end);
    if (end != text && *end == '/')
        value /= strtod(end + 1, &end);
    bool numbers = end != text && *end == 0 && found_end != found && *found_end == 0;
    return numbers ? value == other : equals(wanted, found);
}

static bool find_attribute(const char *op, span name, flx_attr_view *out)
{
    for (uint32_t i = 0; flx_op_attr(op, i, out) == FLX_OK; i++)
        if (equals(name, out->name))
            return true;
    return false;
}

static void check_attributes(const signature *g, const flx_op_view *view)
{
    EXPECT_MSG(g->num_attrs == view->num_attrs, "%s has %u attributes, expected %u", g->op, view->num_attrs,
               g->num_attrs);
    for (uint32_t i = 0; i < g->num_attrs; i++) {
        const attribute *a = &g->attrs[i];
        flx_attr_view found;
        if (!EXPECT_MSG(find_attribute(g->op, a->name, &found), "%s has no attribute %.*s", g->op, (int)a->name.n,
                        a->name.at))
            continue;
        EXPECT_MSG(found.required == a->required, "%s: %s must %sbe given", g->op, found.name,
                   a->required ? "" : "not have to ");
        EXPECT_MSG(a->required || same_default(a->fallback, found.fallback),
                   "%s: %s is '%s' by default, expected '%.*s'", g->op, found.name, found.fallback, (int)a->fallback.n,
                   a->fallback.at);
    }
}

/* Names separated by commas are as many results; a description means that the op decides. */
static void check_results(const signature *g, const flx_op_view *view)
{
    bool several = memchr(g->results.at, ',', g->results.n) != NULL;
    bool described = !several && memchr(g->results.at, ' ', g->results.n) != NULL;
    if (described)
        EXPECT_MSG(strcmp(view->results, "...") == 0, "%s has the results '%s', expected as many as the op says", g->op,
                   view->results);
    else if (g->results.n)
        EXPECT_MSG(equals(g->results, view->results), "%s has the results '%s', expected '%.*s'", g->op, view->results,
                   (int)g->results.n, g->results.at);
    else
        EXPECT_MSG(strchr(view->results, ',') == NULL && strcmp(view->results, "...") != 0,
                   "%s has the results '%s', expected one", g->op, view->results);
}

static void check_signature(const signature *g, const char *family)
{
    flx_op_view view;
    test_count_case();
    if (!EXPECT_MSG(flx_op_find(g->op, &view) == FLX_OK, "there is no op '%s'", g->op))
        return;
    EXPECT_MSG(strcmp(view.name, g->op) == 0, "'%s' is only another name of %s", g->op, view.name);
    EXPECT_MSG(strcmp(view.family, family) == 0, "%s is of family %s, expected %s", g->op, view.family, family);
    EXPECT_MSG(view.min_operands == g->min_operands && view.max_operands == g->max_operands,
               "%s takes %d to %d operands, expected %d to %d", g->op, view.min_operands, view.max_operands,
               g->min_operands, g->max_operands);
    check_attributes(g, &view);
    check_results(g, &view);
}

static void check_synonym(span synonym, span name)
{
    char text[MAX_NAME];
    flx_op_view view;
    copy(text, sizeof text, synonym);
    bool found = flx_op_find(text, &view) == FLX_OK && equals(name, view.name);
    EXPECT_MSG(found, "'%s' is not read as %.*s", text, (int)name.n, name.at);
    test_count_case();
}

/* ---- The file ---- */

enum { MAX_LINES = 512 };

typedef struct {
    char *text;
    span lines[MAX_LINES]; /* without comments and empty ones */
    size_t n;
} contract;

static contract read_contract(void)
{
    char path[4096];
    contract c = {.text = calloc(1, 1 << 20)};
    snprintf(path, sizeof path, "%s/tests/ops/signatures.txt", test_source_dir());
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL && c.text != NULL, "%s cannot be read", path);
    size_t size = fread(c.text, 1, (1 << 20) - 1, f);
    fclose(f);
    for (span rest = {c.text, size}; rest.n;) {
        const char *end = memchr(rest.at, '\n', rest.n);
        size_t n = end ? (size_t)(end - rest.at) + 1 : rest.n;
        span line = trimmed((span){rest.at, n});
        CHECK(c.n < MAX_LINES);
        if (line.n && *line.at != '#')
            c.lines[c.n++] = line;
        rest = (span){rest.at + n, rest.n - n};
    }
    return c;
}

static bool is_family(span line)
{
    return starts_with(line, "[");
}

static bool is_signature(span line)
{
    return memchr(line.at, '(', line.n) != NULL;
}

static bool is_synonym_of_attribute(span line)
{
    return !is_signature(line) && memchr(line.at, '.', line.n) != NULL;
}

TEST(signatures_are_those_of_the_contract)
{
    contract c = read_contract();
    char family[MAX_NAME] = "";
    for (size_t i = 0; i < c.n; i++) {
        span line = c.lines[i];
        test_fail_context("signatures.txt: %.*s", (int)line.n, line.at);
        if (is_family(line)) {
            copy(family, sizeof family, (span){line.at + 1, line.n - 2});
        } else if (is_signature(line)) {
            signature g = read_signature(line);
            check_signature(&g, family);
        } else if (!is_synonym_of_attribute(line)) {
            span synonym = cut(&line, "=");
            check_synonym(synonym, line);
        }
    }
    CHECK(c.n > 100);
    free(c.text);
}

/* Whether a line of the contract names the op, as a signature or as a second name. */
static bool is_listed(const contract *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++) {
        span line = c->lines[i];
        if (!is_family(line) && equals(cut(&line, is_signature(line) ? "(" : "="), name))
            return true;
    }
    return false;
}

static bool has_family(const contract *c, const char *family)
{
    char line[MAX_NAME];
    snprintf(line, sizeof line, "[%s]", family);
    for (size_t i = 0; i < c->n; i++)
        if (equals(c->lines[i], line))
            return true;
    return false;
}

/* The file holds the contract; an op beyond it has its signature in its row alone. */
TEST(signatures_list_every_second_name)
{
    contract c = read_contract();
    flx_op_view view;
    const char *synonym;
    const char *name;
    for (size_t i = 0; flx_op_synonym(i, &synonym, &name) == FLX_OK; i++) {
        bool known = flx_op_find(name, &view) == FLX_OK && has_family(&c, view.family);
        EXPECT_MSG(!known || is_listed(&c, synonym), "the second name %s of %s has no line in signatures.txt", synonym,
                   name);
    }
    free(c.text);
}

TEST(signatures_attribute_synonyms_are_read_never_printed)
{
    const char *text = "graph g(x: f32[1, 4, 9], w: f32[6, 2, 3]) {\n"
                       "  return conv(x, w, feature_groups=2, kernel_dilation=[2])\n}\n";
    flx_error err = {0};
    flx_buffer printed = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    CHECK_OK(flx_graph_print(flx_module_main(m), &printed, &err), &err);
    CHECK(strstr(printed.data, "dilation=[2], groups=2") != NULL);
    CHECK(strstr(printed.data, "feature_groups") == NULL && strstr(printed.data, "kernel_dilation") == NULL);
    flx_buffer_free(&printed);
    flx_module_free(m);
    flx_context_free(ctx);
}
