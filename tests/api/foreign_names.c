/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_names.c: the table of other frameworks' names leads to things that exist, and messages use it. */
#include "test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All public headers as one text. */
static const char *headers(void)
{
    static const char *const names[] = {"nn", "transform", "graph", "text", "exec", "run", "train", "kernel", "tensor"};
    static char text[1 << 18];
    size_t n = strlen(text);
    for (size_t i = 0; !n && i < sizeof names / sizeof *names; i++) {
        char path[400];
        snprintf(path, sizeof path, "%s/include/fluxion/%s.h", FLX_SOURCE_DIR, names[i]);
        FILE *in = fopen(path, "rb");
        CHECK_MSG(in, "%s", path);
        size_t more = fread(text + strlen(text), 1, sizeof text - 1 - strlen(text), in);
        CHECK(more > 0);
        fclose(in);
    }
    return text;
}

static bool is_declared(const char *function)
{
    char pattern[80];
    snprintf(pattern, sizeof pattern, " %s(", function);
    if (strstr(headers(), pattern))
        return true;
    snprintf(pattern, sizeof pattern, "*%s(", function);
    return strstr(headers(), pattern) != NULL;
}

/* ---- What a note calls ---- */

static size_t word_length(const char *s)
{
    return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

static bool is_dots(const char *s)
{
    return strncmp(s, "\u2026", strlen("\u2026")) == 0;
}

/* Past a list in brackets, a string, a number, a name, a type or dots. */
static const char *skip_value(const char *s)
{
    if (*s == '"')
        return strchr(s + 1, '"') + 1;
    while (*s && !strchr(",()[", *s))
        s++;
    if (*s == '[')
        s = strchr(s, ']') + 1;
    return s;
}

static void check_word(const flx_attr_view *a, const char *value)
{
    size_t n = word_length(value);
    char word[40];
    snprintf(word, sizeof word, " %.*s ", (int)n, value);
    char words[200];
    snprintf(words, sizeof words, " %s ", a->words);
    CHECK_MSG(!a->words[0] || !n || strstr(words, word), "%s=%.*s is not one of: %s", a->name, (int)n, value, a->words);
}

static void check_attr(const flx_op_view *op, const char *key, size_t n, const char *value)
{
    flx_attr_view a;
    for (uint32_t i = 0; flx_op_attr(op->name, i, &a) == FLX_OK; i++)
        if (strlen(a.name) == n && strncmp(a.name, key, n) == 0) {
            check_word(&a, value);
            return;
        }
    CHECK_MSG(false, "%s has no attribute '%.*s'", op->name, (int)n, key);
}

/* Attributes that are written like operands count as such. */
static void operand_range(const flx_op_view *op, size_t *least, size_t *most)
{
    flx_attr_view a;
    *least = (size_t)op->min_operands;
    *most = op->max_operands < 0 ? 100 : (size_t)op->max_operands;
    for (uint32_t i = 0; flx_op_attr(op->name, i, &a) == FLX_OK; i++)
        if (a.positional) {
            ++*least;
            ++*most;
        }
}

/* A call at its name; returns what follows it. */
static const char *check_call(const char *s)
{
    char name[64];
    size_t n = word_length(s), count = 0, least, most;
    flx_op_view op;
    bool is_open = false;
    snprintf(name, sizeof name, "%.*s", (int)n, s);
    s += n + 1;
    if (strncmp(name, "flx_", 4) == 0) {
        CHECK_MSG(is_declared(name) && *s == ')', "there is no function %s()", name);
        return s + 1;
    }
    CHECK_MSG(flx_op_find(name, &op) == FLX_OK, "there is no op %s", name);
    while (*s != ')') {
        n = word_length(s);
        CHECK_MSG(*s, "%s has no closing parenthesis", name);
        if (n && s[n] == '=') {
            check_attr(&op, s, n, s + n + 1);
            s = skip_value(s + n + 1);
        } else {
            is_open |= is_dots(s);
            count += !is_dots(s);
            s = n && s[n] == '(' ? check_call(s) : skip_value(s);
        }
        CHECK_MSG(*s == ',' || *s == ')', "%s: an operand is not a value: %s", name, s);
        s += *s == ',';
        s += strspn(s, " ");
    }
    operand_range(&op, &least, &most);
    CHECK_MSG((is_open || count >= least) && count <= most, "%s takes %zu to %zu operands, not %zu", name, least, most,
              count);
    return s + 1;
}

static void check_note(const char *note)
{
    const char *s = note;
    while (*s) {
        size_t n = word_length(s);
        if (n && s[n] == '(')
            s = check_call(s);
        else
            s += n ? n : 1;
    }
}

TEST(api_foreign_names_lead_to_what_exists)
{
    flx_foreign_view row;
    flx_op_view op;
    char before[64] = "";
    size_t n = 0;
    for (; flx_foreign_name(n, &row) == FLX_OK; n++) {
        test_fail_context("%s", row.name);
        bool is_function = strncmp(row.ours, "flx_", 4) == 0;
        CHECK_MSG(!row.ours[0] || flx_op_find(row.ours, &op) == FLX_OK || is_declared(row.ours), "there is no %s",
                  row.ours);
        EXPECT_MSG(strcmp(before, row.name) < 0, "%s is not sorted", row.name);
        EXPECT_MSG(row.frameworks[0] && strlen(row.note) < sizeof((flx_error *)0)->hint, "too long for a hint");
        EXPECT_MSG(row.note[0] || (row.ours[0] && !is_function), "it has no answer for users of text");
        EXPECT_MSG(!is_function || strstr(row.note, row.ours), "the note does not name %s()", row.ours);
        check_note(row.note);
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
                  {"lstm", "write scan("},
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
