/* SPDX-License-Identifier: Apache-2.0 */
/* tidy_brackets.c: brackets that precedence makes superfluous, suffixes of numbers that an index does not need, and
   infinities by their name. Brackets stay where compilers warn without them: among shifts and operations on bits. */
#include "standalone/tidy/tidy.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Precedence ---- */

/* The operator between two operands at p; 0: there is none. */
static size_t operator_at(const char *p, const char *end, int *binds)
{
    static const struct {
        const char *text;
        int binds;
    } operators[] = {{"<<", SA_BINDS_SHIFT},
                     {">>", SA_BINDS_SHIFT},
                     {"<=", SA_BINDS_LESS},
                     {">=", SA_BINDS_LESS},
                     {"==", SA_BINDS_EQUAL},
                     {"!=", SA_BINDS_EQUAL},
                     {"&&", 2},
                     {"||", 1},
                     {"*", SA_BINDS_PRODUCT},
                     {"/", SA_BINDS_PRODUCT},
                     {"%", SA_BINDS_PRODUCT},
                     {"+", SA_BINDS_SUM},
                     {"-", SA_BINDS_SUM},
                     {"<", SA_BINDS_LESS},
                     {">", SA_BINDS_LESS},
                     {"&", 5},
                     {"^", 4},
                     {"|", 3},
                     {"?", SA_BINDS_CHOICE},
                     {":", SA_BINDS_CHOICE},
                     {"=", SA_BINDS_NOT},
                     {",", SA_BINDS_NOT},
                     {";", SA_BINDS_NOT}};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        size_t n = strlen(operators[i].text);
        if ((size_t)(end - p) < n || memcmp(p, operators[i].text, n) != 0)
            continue;
        bool is_assignment = i > 7 && i < 18 && p + 1 < end && p[1] == '=';
        *binds = is_assignment ? SA_BINDS_NOT : operators[i].binds;
        return is_assignment ? n + 1 : n;
    }
    return 0;
}

/* The bracket that closes the one at p; NULL: there is none. */
static const char *match(const char *p, const char *end)
{
    int depth = 0;
    for (; p < end; p++) {
        depth += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
        if (depth == 0)
            return p;
    }
    return NULL;
}

static const char *match_back(const char *p, const char *begin)
{
    int depth = 0;
    for (; p >= begin; p--) {
        depth += (*p == ')' || *p == ']') - (*p == '(' || *p == '[');
        if (depth == 0)
            return p;
    }
    return NULL;
}

/* Whether what is between brackets is a type: then they are a cast. */
static bool is_type(const char *begin, const char *end)
{
    static const char *const types[] = {"float", "double", "_Bool", "int", "unsigned", "char"};
    size_t n = (size_t)(end - begin);
    if (n && end[-1] == '*')
        return true;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i]) == n && memcmp(types[i], begin, n) == 0)
            return true;
    for (const char *p = begin; p < end; p++)
        if (!flxi_sa_is_word(*p))
            return false;
    return n > 2 && end[-2] == '_' && end[-1] == 't';
}

/* The end of the operand at p, without operators before it. */
static const char *operand_end(const char *p, const char *end)
{
    if (p < end && (*p == '(' || *p == '[')) {
        const char *close = match(p, end);
        return close ? close + 1 : NULL;
    }
    const char *first = p;
    while (p < end && (flxi_sa_is_word(*p) || *p == '.' ||
                       ((*p == '+' || *p == '-') && p > first && (p[-1] == 'e' || p[-1] == 'p') && *first <= '9')))
        p++;
    return p > first ? p : NULL;
}

int flxi_sa_binding(const char *begin, const char *end)
{
    int least = SA_BINDS_OPERAND, binds;
    bool has_operand = false;
    for (const char *p = begin; p < end;) {
        size_t n = has_operand ? operator_at(p, end, &binds) : 0;
        if (*p == ' ') {
            p++;
        } else if (n) {
            least = binds < least ? binds : least;
            has_operand = false;
            p += n;
        } else if (!has_operand && strchr("-+!~*&", *p)) {
            least = SA_BINDS_UNARY < least ? SA_BINDS_UNARY : least;
            p++;
        } else {
            const char *after = operand_end(p, end);
            if (!after || (has_operand && *p != '(' && *p != '['))
                return SA_BINDS_NOT;
            bool is_cast = *p == '(' && !has_operand && is_type(p + 1, after - 1);
            if (is_cast)
                least = SA_BINDS_UNARY < least ? SA_BINDS_UNARY : least;
            has_operand = !is_cast;
            p = after;
        }
    }
    return has_operand ? least : SA_BINDS_NOT;
}

/* ---- Brackets ---- */

enum { NOTHING = -10, IS_NO_GROUP = 100 }; /* what binds beside brackets */

static int binds_left(const char *open, const char *begin)
{
    const char *p = open;
    int binds;
    while (p > begin && p[-1] == ' ')
        p--;
    if (p == begin || strchr("([{,;", p[-1]))
        return NOTHING;
    if (p[-1] == '?' || p[-1] == ':')
        return SA_BINDS_CHOICE;
    if (flxi_sa_is_word(p[-1]) || p[-1] == ']')
        return IS_NO_GROUP;
    if (p[-1] == ')') {
        const char *cast = match_back(p - 1, begin);
        return cast && is_type(cast + 1, p - 1) ? SA_BINDS_UNARY : IS_NO_GROUP;
    }
    const char *sign = p - 1, *before;
    while (sign > begin && strchr("<>=!&|+-*/%^~", sign[-1]) && sign[-1])
        sign--;
    size_t n = operator_at(sign, p, &binds);
    for (before = sign; before > begin && before[-1] == ' '; before--)
        continue;
    bool has_operand = before > begin && (flxi_sa_is_word(before[-1]) || before[-1] == ']' || before[-1] == ')');
    if (before > begin && before[-1] == ')') {
        const char *cast = match_back(before - 1, begin);
        has_operand = !cast || !is_type(cast + 1, before - 1);
    }
    if (n != (size_t)(p - sign))
        return IS_NO_GROUP;
    return !has_operand ? SA_BINDS_UNARY : binds == SA_BINDS_NOT ? NOTHING : binds;
}

static int binds_right(const char *close, const char *end)
{
    const char *p = close + 1;
    int binds;
    while (p < end && *p == ' ')
        p++;
    if (p == end || strchr(")],;{", *p))
        return NOTHING;
    if (strchr("[(.", *p) || (p + 1 < end && p[0] == '-' && p[1] == '>'))
        return SA_BINDS_OPERAND;
    size_t n = operator_at(p, end, &binds);
    return n && binds != SA_BINDS_NOT ? binds : IS_NO_GROUP;
}

/* Without brackets around these, compilers warn. */
static bool is_about_bits(int binds)
{
    return (binds >= 3 && binds <= 5) || binds == SA_BINDS_SHIFT;
}

/* Whether the brackets are around a sum in an index after a plus: of integers a + (b + c) is a + b + c. */
static bool is_sum_of_index(const char *begin, const char *open, int left, int right)
{
    int depth = 0;
    const char *sign = open;
    for (const char *p = begin; p < open; p++)
        depth += (*p == '[') - (*p == ']');
    while (sign > begin && sign[-1] == ' ')
        sign--;
    return depth > 0 && left == SA_BINDS_SUM && right <= SA_BINDS_SUM && sign[-1] == '+';
}

static bool is_superfluous(const char *begin, const char *open, const char *close, const char *end)
{
    int left = binds_left(open, begin), right = binds_right(close, end), inside = flxi_sa_binding(open + 1, close);
    if (left == IS_NO_GROUP || right == IS_NO_GROUP || inside == SA_BINDS_NOT || is_type(open + 1, close))
        return false;
    if (left == NOTHING && right == NOTHING)
        return true;
    if (inside == SA_BINDS_OPERAND)
        return true;
    if (inside == SA_BINDS_UNARY)
        return right < SA_BINDS_UNARY && (left <= SA_BINDS_CHOICE || open[1] == '(');
    if (inside == SA_BINDS_SUM && is_sum_of_index(begin, open, left, right))
        return true;
    if (inside == SA_BINDS_SUM || inside == SA_BINDS_PRODUCT)
        return inside > left && inside >= right && !is_about_bits(left) && !is_about_bits(right);
    return (inside == SA_BINDS_LESS || inside == SA_BINDS_EQUAL) && left <= SA_BINDS_CHOICE && right <= SA_BINDS_CHOICE;
}

static bool drop_pair(char *line)
{
    const char *end = line + strlen(line);
    for (char *open = line; *open; open++) {
        const char *close = *open == '(' ? match(open, end) : NULL;
        if (!close || !is_superfluous(line, open, close, end))
            continue;
        size_t inside = (size_t)(close - open) - 1;
        memmove(open, open + 1, inside);
        memmove(open + inside, close + 1, (size_t)(end - close));
        return true;
    }
    return false;
}

/* ---- Indices ---- */

typedef struct {
    const flxi_strings *unsigned_names;
    bool was_number, has_name;
    bool is_joined; /* by + or - to what is before */
    bool in_term;   /* of a product that began with a name */
} index_reader;

static bool read_number(index_reader *x, const char **at, const char *end)
{
    const char *p = *at;
    unsigned long value = strtoul(p, NULL, 10);
    while (p < end && flxi_sa_is_word(*p))
        p++;
    bool is_short = p[-1] == 'u' && p - *at < 9 && value < 65536;
    bool is_alone = !x->was_number || (x->has_name && (x->is_joined || x->in_term));
    *at = p;
    x->was_number = true;
    return is_short && is_alone;
}

static bool read_name(index_reader *x, const char **at, const char *end)
{
    char name[64];
    const char *p = *at;
    while (p < end && flxi_sa_is_word(*p))
        p++;
    snprintf(name, sizeof name, "%.*s", (int)(p - *at), *at);
    bool is_whole = (size_t)(p - *at) < sizeof name;
    *at = p;
    x->was_number = false;
    x->has_name = x->in_term = true;
    return is_whole && flxi_is_interned(x->unsigned_names, name);
}

/* Whether a text within square brackets is a sum of products of variables of 32 bits without a sign and of numbers, of
   which none is computed from numbers alone: then it has no sign without suffixes either. */
static bool is_plain_index(const char *begin, const char *end, const flxi_strings *unsigned_names)
{
    index_reader x = {.unsigned_names = unsigned_names};
    for (const char *p = begin; p < end;) {
        if (*p >= '0' && *p <= '9') {
            if (!read_number(&x, &p, end))
                return false;
        } else if (flxi_sa_is_word(*p)) {
            if (!read_name(&x, &p, end))
                return false;
        } else if (!strchr(" +-*/%()", *p)) {
            return false;
        } else {
            if (*p != ' ')
                x.is_joined = *p == '+' || *p == '-';
            x.in_term = *p == ')' || (x.in_term && *p != '+' && *p != '-' && *p != '(');
            p++;
        }
    }
    return x.has_name;
}

static void drop_suffixes(char *line, const flxi_strings *unsigned_names)
{
    for (char *open = strchr(line, '['); open; open = strchr(open + 1, '[')) {
        const char *close = match(open, line + strlen(line));
        if (!close || !is_plain_index(open + 1, close, unsigned_names))
            continue;
        char *to = open;
        for (char *p = open; *p; p++)
            if (p > close || *p != 'u' || p[-1] < '0' || p[-1] > '9' || flxi_sa_is_word(p[1]))
                *to++ = *p;
        *to = 0;
    }
}

/* Names that are declared as uint32_t. */
static void find_unsigned(const flxi_strbuf *text, flxi_strings *names)
{
    static const char type[] = "uint32_t ";
    for (const char *p = text->at; (p = strstr(p, type)) != NULL;) {
        bool is_whole = p == text->at || !flxi_sa_is_word(p[-1]);
        const char *end = p += sizeof type - 1;
        while (flxi_sa_is_word(*end))
            end++;
        if (is_whole && end > p && *end != '(')
            flxi_intern(names, p, (size_t)(end - p));
    }
}

static void name_infinities(char *line)
{
    static const struct {
        const char *bits, *name;
    } known[] = {{"k_value_f32(0xff800000u)", "(-INFINITY)"},
                 {"k_value_f32(0x7f800000u)", "INFINITY"},
                 {"k_value_f64(0xfff0000000000000ull)", "(-INFINITY)"},
                 {"k_value_f64(0x7ff0000000000000ull)", "INFINITY"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (char *p; (p = strstr(line, known[i].bits)) != NULL;) {
            size_t n = strlen(known[i].bits), m = strlen(known[i].name);
            memcpy(p, known[i].name, m);
            memmove(p + m, p + n, strlen(p + n) + 1);
        }
}

void flxi_sa_tidy_brackets(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out)
{
    char line[1000];
    flxi_strings unsigned_names = {.arena = &f->arena};
    flxi_sa_row row;
    if (text->at)
        find_unsigned(text, &unsigned_names);
    for (size_t at = 0; flxi_sa_next_row(text, &at, &row);) {
        if (row.n >= sizeof line || (row.n && row.at[0] == '#')) {
            flxi_add_bytes(out, row.at, row.n);
        } else {
            snprintf(line, sizeof line, "%.*s", (int)row.n, row.at);
            name_infinities(line);
            while (drop_pair(line))
                continue;
            if (!f->num_symbols)
                drop_suffixes(line, &unsigned_names);
            flxi_add_text(out, line);
        }
        flxi_add_char(out, '\n');
    }
    flxi_strings_free(&unsigned_names);
}
