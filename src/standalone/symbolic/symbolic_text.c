/* SPDX-License-Identifier: Apache-2.0 */
/* symbolic_text.c: one text from those of the samples. The texts are read side by side. What is not a number must be
   the same in each; a number that differs becomes a formula: a polynomial of the extents, such a polynomial divided by
   the width of a tile and rounded, its remainder, or a float divided by one. */
#include "base/number.h"
#include "standalone/symbolic/symbolic.h"

#include <ctype.h>
#include <math.h>

typedef enum { FORM_POLY, FORM_FLOOR, FORM_TILES, FORM_REST, FORM_CEIL, FORM_WHOLE, FORM_QUOTIENT } form;

typedef struct {
    int64_t values[FLXI_SA_MAX_SAMPLES];
    double reals[FLXI_SA_MAX_SAMPLES];
    bool is_float, is_single, is_unsigned, in_comment, is_known, is_ambiguous;
    bool is_by_rest; /* of several formulas, by what else its function has */
    const char *at;  /* in the first text */
    form form;
    flxi_sa_poly poly;
    int64_t by;      /* the width of a tile */
    double dividend; /* of a quotient */
} number;

/* Text of the first sample, and the number after it. */
typedef struct {
    const char *text;
    size_t n, number; /* SIZE_MAX: none */
} piece;

typedef struct {
    const flxi_sa_points *p;
    const char *at[FLXI_SA_MAX_SAMPLES], *end[FLXI_SA_MAX_SAMPLES];
    const char *begins[FLXI_SA_MAX_SAMPLES];
    const char *begin, *comment; /* of the first text; its last comment */
    FLXI_VEC(number) numbers;
    FLXI_VEC(piece) pieces;
    flxi_sa_polys known;
    bool asks; /* for a sample of these extents */
    int64_t asked[FLXI_SA_MAX_SYMBOLS];
    const flxi_allocator *mem;
    flx_error *err;
} merger;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* ---- Reading ---- */

/* The end of the line that begins here. */
static const char *line_end(const char *p, const char *end)
{
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    return newline ? newline : end;
}

/* The comment before the next static function of a step from `p` on; NULL: there are no more. */
static const char *next_comment(const char *p, const char *end)
{
    const char *comment = NULL;
    for (; p < end; p = line_end(p, end) + 1) {
        if (end - p > 2 && p[0] == '/' && p[1] == '*')
            comment = p;
        else if (comment && end - p > 7 && memcmp(p, "static ", 7) == 0)
            return comment;
        else if (comment && *p != ' ')
            comment = NULL;
    }
    return NULL;
}

/* Whether two functions have the same text up to the numbers in it. */
static bool are_alike(const char *a, const char *a_end, const char *b, const char *b_end)
{
    while (a < a_end && b < b_end) {
        while (a < a_end && isdigit((unsigned char)*a))
            a++;
        while (b < b_end && isdigit((unsigned char)*b))
            b++;
        if (a == a_end || b == b_end || *a != *b)
            return false;
        if (a_end - a > 2 && memcmp(a, "\n}\n", 3) == 0)
            return true;
        a++;
        b++;
    }
    return true;
}

/* The comment of the first function that is not alike in all texts. NULL: all are. What differs before the functions,
   such as the operations on vectors that they use, has no name that a user knows. */
static const char *find_other(const merger *x)
{
    const char *at[FLXI_SA_MAX_SAMPLES], *begin[FLXI_SA_MAX_SAMPLES];
    for (size_t i = 0; i < x->p->n; i++)
        at[i] = begin[i] = x->begins[i];
    while ((begin[0] = next_comment(at[0], x->end[0])) != NULL) {
        at[0] = line_end(begin[0], x->end[0]);
        for (size_t i = 1; i < x->p->n; i++) {
            begin[i] = next_comment(at[i], x->end[i]);
            if (!begin[i] || !are_alike(begin[0], x->end[0], begin[i], x->end[i]))
                return begin[0];
            at[i] = line_end(begin[i], x->end[i]);
        }
    }
    return NULL;
}

/* The text of a comment. */
static void read_comment(const merger *x, const char *comment, char about[80])
{
    size_t n = 0;
    if (!comment) {
        memcpy(about, "the file", sizeof "the file");
        return;
    }
    for (const char *p = comment + 3; p < x->end[0] && *p && *p != '\n' && n + 1 < 80; p++)
        about[n++] = *p;
    while (n > 0 && strchr(" */", about[n - 1]))
        n--;
    about[n] = 0;
}

/* What has other numbers, or another text. */
static flx_code refuse(const merger *x)
{
    char about[80];
    const char *other = find_other(x);
    read_comment(x, other ? other : x->comment, about);
    flxi_fail(x->err, FLX_E_UNBOUND_DIM, "the text of '%.76s' is not the same for all extents of '%.30s'", about,
              x->p->names[0]);
    flxi_hint(x->err, "give the extent: --set %.60s=INT (flx_build_options.dims)", x->p->names[0]);
    return FLX_E_UNBOUND_DIM;
}

/* A number that several formulas fit. */
static flx_code refuse_ambiguous(const merger *x)
{
    char about[80];
    read_comment(x, x->comment, about);
    flxi_fail(x->err, FLX_E_UNBOUND_DIM, "a number in the text of '%.76s' may depend on '%.30s' in several ways", about,
              x->p->names[0]);
    flxi_hint(x->err, "give the extent: --set %.60s=INT (flx_build_options.dims)", x->p->names[0]);
    return FLX_E_UNBOUND_DIM;
}

static const char *number_end(const char *p, const char *end)
{
    bool is_hex = end - p > 1 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    for (; p < end && (is_word(*p) || *p == '.'); p++)
        if (!is_hex && (*p == 'e' || *p == 'E') && p + 1 < end && (p[1] == '-' || p[1] == '+'))
            p++;
    return p;
}

/* The value of the number of a sample; false: it is hexadecimal, or of another kind than the first. */
static bool read_number(const merger *x, size_t i, const char *end, number *n)
{
    const char *p = x->at[i], *last = end;
    bool is_float = memchr(p, '.', (size_t)(end - p)) || (memchr(p, 'e', (size_t)(end - p)) && p[1] != 'x');
    bool is_single = is_float && end[-1] == 'f';
    while (last > p && strchr(is_float ? "f" : "uUlL", last[-1]))
        last--;
    if (i == 0) {
        n->is_float = is_float;
        n->is_single = is_single;
        n->is_unsigned = last < end && (*last == 'u' || *last == 'U');
    }
    if (is_float != n->is_float || is_single != n->is_single)
        return false;
    if (is_float)
        return flxi_read_double(p, (size_t)(last - p), &n->reals[i]);
    return flxi_read_i64(p, (size_t)(last - p), &n->values[i]);
}

static flx_code add_number(merger *x, const char *from)
{
    number n = {0};
    piece part = {from, (size_t)(x->at[0] - from), SIZE_MAX};
    bool is_same = true, is_read = true;
    const char *first = x->at[0], *first_end = number_end(first, x->end[0]);
    for (size_t i = 0; i < x->p->n; i++) {
        const char *end = number_end(x->at[i], x->end[i]);
        is_read = is_read && end > x->at[i] && isdigit((unsigned char)*x->at[i]) && read_number(x, i, end, &n);
        is_same =
            is_same && end - x->at[i] == first_end - first && memcmp(x->at[i], first, (size_t)(first_end - first)) == 0;
        x->at[i] = end;
    }
    if (is_same) {
        part.n = (size_t)(first_end - from);
        return flxi_push(x->mem, &x->pieces, part) ? FLX_OK : flxi_oom(x->err, "C text");
    }
    if (!is_read)
        return refuse(x);
    for (const char *p = x->comment; p && p < first; p++)
        n.in_comment = p == x->comment || (n.in_comment && !(p[0] == '/' && p[-1] == '*'));
    part.number = x->numbers.n;
    n.at = first;
    return flxi_push(x->mem, &x->pieces, part) && flxi_push(x->mem, &x->numbers, n) ? FLX_OK
                                                                                    : flxi_oom(x->err, "C text");
}

/* One character, or one word, of all texts. */
static flx_code skip_same(merger *x)
{
    const char *p = x->at[0];
    size_t n = 1;
    if (is_word(*p))
        while (p + n < x->end[0] && is_word(p[n]))
            n++;
    if (p + 1 < x->end[0] && p[0] == '/' && p[1] == '*')
        x->comment = p;
    for (size_t i = 0; i < x->p->n; i++) {
        if ((size_t)(x->end[i] - x->at[i]) < n || memcmp(x->at[i], p, n) != 0)
            return refuse(x);
        x->at[i] += n;
    }
    return FLX_OK;
}

static flx_code read_all(merger *x)
{
    const char *from = x->at[0];
    while (x->at[0] < x->end[0]) {
        if (isdigit((unsigned char)*x->at[0])) {
            FLXI_TRY(add_number(x, from));
            from = x->at[0];
        } else {
            FLXI_TRY(skip_same(x));
        }
    }
    const piece last = {from, (size_t)(x->at[0] - from), SIZE_MAX};
    for (size_t i = 1; i < x->p->n; i++)
        if (x->at[i] != x->end[i])
            return refuse(x);
    return flxi_push(x->mem, &x->pieces, last) ? FLX_OK : flxi_oom(x->err, "C text");
}

/* ---- Formulas ---- */

bool flxi_sa_polys_have(const flxi_sa_polys *x, const flxi_sa_poly *f)
{
    for (size_t i = 0; i < x->n; i++)
        if (memcmp(&x->at[i], f, sizeof *f) == 0)
            return true;
    return false;
}

static bool keep_poly(merger *x, const flxi_sa_poly *f)
{
    return flxi_sa_polys_have(&x->known, f) || flxi_push(x->mem, &x->known, *f);
}

static int64_t rounded_as(form f, int64_t v, int64_t by)
{
    switch (f) {
    case FORM_FLOOR: return v / by;
    case FORM_TILES: return v / by * by;
    case FORM_REST: return v % by;
    case FORM_CEIL: return (v + by - 1) / by;
    default: return (v + by - 1) / by * by;
    }
}

static bool fits(const merger *x, const number *n, const flxi_sa_poly *f, form way, int64_t by)
{
    for (size_t i = 0; i < x->p->n; i++) {
        int64_t v;
        if (!flxi_sa_poly_at(x->p, f, x->p->at[i], &v) || v < 0 || rounded_as(way, v, by) != n->values[i])
            return false;
    }
    return true;
}

/* The formula has a value that a text can have. */
static bool value_of(const merger *x, const number *n, const int64_t *extents, int64_t *out)
{
    int64_t v;
    if (!flxi_sa_poly_at(x->p, &n->poly, extents, &v) || v < 0)
        return false;
    *out = rounded_as(n->form, v, n->by);
    return true;
}

static bool is_tried(const merger *x, const int64_t *extents)
{
    for (size_t i = 0; i < x->p->num_tried; i++)
        if (memcmp(x->p->tried[i], extents, x->p->num_symbols * sizeof *extents) == 0)
            return true;
    return false;
}

/* Extents for which two formulas differ, which may be those of a sample. What is rounded repeats itself after 192, the
   least multiple of all widths, so that formulas which agree here are the same. */
static bool differ_at(const merger *x, const number *a, const number *b, int64_t *extents, bool *may_ask)
{
    enum { FIRST = 129, PERIOD = 192 };
    bool found = false;
    *may_ask = false;
    int64_t at[FLXI_SA_MAX_SYMBOLS], last[FLXI_SA_MAX_SYMBOLS], one, other;
    for (size_t s = 0; s < FLXI_SA_MAX_SYMBOLS; s++)
        last[s] = flxi_sa_poly_has(&a->poly, s) || flxi_sa_poly_has(&b->poly, s) ? FIRST + PERIOD : FIRST + 1;
    for (at[0] = FIRST; at[0] < last[0]; at[0]++)
        for (at[1] = FIRST; at[1] < last[1]; at[1]++) {
            if (!value_of(x, a, at, &one) || !value_of(x, b, at, &other) || one == other)
                continue;
            found = true;
            if (is_tried(x, at))
                continue;
            memcpy(extents, at, sizeof at);
            *may_ask = true;
            return true;
        }
    return found;
}

/* Whether two numbers are in the same function. */
static bool are_of_one_function(const merger *x, const char *a, const char *b)
{
    const char *first = a < b ? a : b, *last = a < b ? b : a;
    for (const char *p = first; p + 3 <= last && p + 3 <= x->end[0]; p++)
        if (memcmp(p, "\n}\n", 3) == 0)
            return false;
    return true;
}

/* Whether the function also has what the division leaves: a sum over whole rows of elements, and over the rest. */
static bool has_rest_beside(const merger *x, const number *n, const number *formula)
{
    for (size_t i = 0; i < x->numbers.n; i++) {
        const number *m = &x->numbers.at[i];
        bool is_rest = !m->is_float && !m->in_comment && are_of_one_function(x, m->at, n->at);
        for (size_t k = 0; is_rest && k < x->p->n; k++) {
            int64_t v;
            is_rest = flxi_sa_poly_at(x->p, &formula->poly, x->p->at[k], &v) && v % formula->by == m->values[k];
        }
        if (is_rest)
            return true;
    }
    return false;
}

/* A second formula that fits must be the same for all extents. */
static bool accept(merger *x, number *n, const number *found)
{
    bool may_ask;
    int64_t extents[FLXI_SA_MAX_SYMBOLS] = {0};
    if (!n->is_known) {
        *n = *found;
        n->is_known = true;
        return true;
    }
    if (!differ_at(x, n, found, extents, &may_ask))
        return true;
    bool is_first = has_rest_beside(x, n, n), is_second = has_rest_beside(x, n, found);
    if (is_first != is_second) {
        *n = is_first ? *n : *found;
        n->is_known = n->is_by_rest = true;
        return true;
    }
    n->is_known = false;
    n->is_ambiguous = true;
    x->asks |= may_ask;
    if (may_ask)
        memcpy(x->asked, extents, sizeof extents);
    return false;
}

static bool find_again(const merger *x, number *n)
{
    for (size_t i = 0; i < x->numbers.n; i++) {
        const number *m = &x->numbers.at[i];
        if (!m->is_known || m->is_by_rest || m->is_float || m->form == FORM_POLY ||
            memcmp(m->values, n->values, x->p->n * sizeof *n->values) != 0)
            continue;
        n->form = m->form;
        n->poly = m->poly;
        n->by = m->by;
        return true;
    }
    return false;
}

static bool find_rounded(merger *x, number *n)
{
    static const int64_t widths[] = {2, 4, 6, 8, 16, 24, 32, 64};
    if (find_again(x, n))
        return true;
    for (size_t k = 0; k < x->known.n; k++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            for (int way = FORM_FLOOR; way <= FORM_WHOLE; way++) {
                if (!fits(x, n, &x->known.at[k], (form)way, widths[i]))
                    continue;
                number found = *n;
                found.form = (form)way;
                found.poly = x->known.at[k];
                found.by = widths[i];
                if (!accept(x, n, &found))
                    return false;
            }
    return n->is_known;
}

/* c / P, rounded to the number's own precision; c is small and whole, or a half. */
static bool find_quotient(merger *x, number *n)
{
    for (size_t k = 0; k < x->known.n; k++) {
        int64_t v;
        bool is_it = flxi_sa_poly_at(x->p, &x->known.at[k], x->p->at[0], &v) && v > 0;
        double c = is_it ? round(2 * n->reals[0] * (double)v) / 2 : 0;
        for (size_t i = 0; is_it && i < x->p->n; i++) {
            is_it = flxi_sa_poly_at(x->p, &x->known.at[k], x->p->at[i], &v) && v > 0;
            double q = c / (double)v;
            is_it = is_it && c != 0 && (n->is_single ? (float)q == (float)n->reals[i] : q == n->reals[i]);
        }
        if (is_it) {
            n->form = FORM_QUOTIENT;
            n->poly = x->known.at[k];
            n->dividend = c;
            return true;
        }
    }
    return false;
}

static bool find_poly(merger *x, number *n)
{
    for (size_t i = 0; n->is_float && i < x->p->n; i++) {
        if (n->reals[i] != floor(n->reals[i]) || fabs(n->reals[i]) > 1e15)
            return false;
        n->values[i] = (int64_t)n->reals[i];
    }
    return flxi_sa_fit(x->p, n->values, &n->poly);
}

/* Whether the text ends like the declaration of an array: an extent cannot be its length. */
static bool declares_array(const char *text, size_t n)
{
    size_t k = n;
    if (!k || text[--k] != '[')
        return false;
    size_t name = k;
    while (k && is_word(text[k - 1]))
        k--;
    return k < name && k > 1 && text[k - 1] == ' ' && (is_word(text[k - 2]) || text[k - 2] == '*');
}

/* Whether the text before `at` begins an initialiser that C wants to be constant. */
static bool initialises_static(const char *begin, const char *at)
{
    static const char word[] = "static const ";
    const size_t length = sizeof word - 1;
    bool has_value = false;
    for (; at > begin && at[-1] != ';'; at--) {
        has_value |= at[-1] == '=';
        if ((size_t)(at - begin) >= length && memcmp(at - length, word, length) == 0)
            return has_value;
        if (at - begin >= 2 && at[-2] == ')' && at[-1] == '\n') /* of a function, whose body this is */
            return false;
    }
    return false;
}

/* What numbers may be rounded from: the extents, the polynomials of the text, and counts of elements. */
static flx_code find_known(merger *x, const flxi_sa_polys *counts)
{
    for (size_t s = 0; s < x->p->num_symbols; s++) {
        int64_t values[FLXI_SA_MAX_SAMPLES];
        flxi_sa_poly f;
        for (size_t i = 0; i < x->p->n; i++)
            values[i] = x->p->at[i][s];
        if (!flxi_sa_fit(x->p, values, &f) || !keep_poly(x, &f))
            return flxi_oom(x->err, "C text");
    }
    for (size_t i = 0; i < x->numbers.n; i++) {
        number *n = &x->numbers.at[i];
        n->is_known = find_poly(x, n);
        if (n->is_known && !keep_poly(x, &n->poly))
            return flxi_oom(x->err, "C text");
    }
    for (size_t i = 0; i < counts->n; i++)
        if (!keep_poly(x, &counts->at[i]))
            return flxi_oom(x->err, "C text");
    return FLX_OK;
}

static flx_code find_formulas(merger *x)
{
    for (size_t i = 0; i < x->pieces.n; i++) {
        number *n = x->pieces.at[i].number < SIZE_MAX ? &x->numbers.at[x->pieces.at[i].number] : NULL;
        const char *at = x->pieces.at[i].text + x->pieces.at[i].n;
        bool is_fixed = n && !n->in_comment &&
                        (declares_array(x->pieces.at[i].text, x->pieces.at[i].n) || initialises_static(x->begin, at));
        if (!n || (n->is_known && !is_fixed))
            continue;
        n->is_known = !is_fixed && (n->is_float ? find_quotient(x, n) : find_rounded(x, n));
        for (x->comment = at; !n->is_known && x->comment > x->begin;)
            if (*--x->comment == '\n' && x->comment[1] == '/' && x->comment[2] == '*') {
                x->comment++;
                break;
            }
        if (!n->is_known)
            return n->is_ambiguous ? refuse_ambiguous(x) : refuse(x);
    }
    return FLX_OK;
}

/* ---- Writing ---- */

static void write_formula(const merger *x, const number *n, flxi_strbuf *out)
{
    static const char *const before[] = {"", "(", "(", "(", "((", "(("};
    char text[FLXI_NUMBER_MAX];
    if (n->form == FORM_QUOTIENT) {
        flxi_write_double(text, n->dividend, 53);
        flxi_addf(out, "%s%s / (double)(", text, strpbrk(text, ".e") ? "" : ".0");
        flxi_sa_poly_print(x->p, &n->poly, out);
        flxi_add_char(out, ')');
        return;
    }
    flxi_add_text(out, before[n->form]);
    flxi_sa_poly_print(x->p, &n->poly, out);
    long long by = (long long)n->by;
    switch (n->form) {
    case FORM_FLOOR: flxi_addf(out, ") / %lld", by); break;
    case FORM_TILES: flxi_addf(out, ") / %lld * %lld", by, by); break;
    case FORM_REST: flxi_addf(out, ") %% %lld", by); break;
    case FORM_CEIL: flxi_addf(out, ") + %lld) / %lld", by - 1, by); break;
    case FORM_WHOLE: flxi_addf(out, ") + %lld) / %lld * %lld", by - 1, by, by); break;
    default: break;
    }
}

/* Constants are spelled INT64_C(1); around a formula there must be no such macro. */
static void drop_macro(flxi_strbuf *out)
{
    static const char *const macros[] = {"UINT64_C(", "INT64_C("};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(macros[i]);
        if (out->n < n || memcmp(out->at + out->n - n, macros[i], n) != 0)
            continue;
        out->n -= n;
        flxi_add_char(out, '(');
        return;
    }
}

static void write_number(const merger *x, const number *n, flxi_strbuf *out)
{
    if (n->in_comment) {
        write_formula(x, n, out);
        return;
    }
    drop_macro(out);
    flxi_add_text(out, n->is_float ? n->is_single ? "(float)(" : "(double)(" : n->is_unsigned ? "(uint32_t)(" : "(");
    write_formula(x, n, out);
    flxi_add_char(out, ')');
}

/* Whether all polynomials of the code stay in range where all extents are `limit`. */
static bool is_in_range(const merger *x, int64_t limit)
{
    const int64_t extents[FLXI_SA_MAX_SYMBOLS] = {limit, limit};
    for (size_t i = 0; i < x->numbers.n; i++) {
        int64_t v;
        if (!x->numbers.at[i].in_comment &&
            (!flxi_sa_poly_at(x->p, &x->numbers.at[i].poly, extents, &v) || v > INT32_MAX || v < -INT32_MAX))
            return false;
    }
    return true;
}

static int64_t largest_extent(const merger *x)
{
    int64_t low = 1, high = INT32_MAX;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (is_in_range(x, middle))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static bool is_never_negative(const number *n, size_t samples)
{
    for (size_t i = 0; i < samples; i++)
        if (n->is_float || n->in_comment || n->values[i] < 0)
            return false;
    return true;
}

/* Extents above the last for which a number would be negative that is not for any sample: the text of smaller ones is
   another, as where a row is turned by more than its length. */
static int64_t smallest_extent(const merger *x)
{
    int64_t least = 1;
    for (size_t i = 0; i < x->numbers.n; i++) {
        const number *n = &x->numbers.at[i];
        for (int64_t at = x->p->at[0][0]; is_never_negative(n, x->p->n) && at >= least; at--) {
            const int64_t extents[FLXI_SA_MAX_SYMBOLS] = {at, at};
            int64_t v;
            if (flxi_sa_poly_at(x->p, &n->poly, extents, &v) && v < 0)
                least = at + 1;
        }
    }
    return least;
}

flx_code flxi_sa_merge(const flxi_sa_points *p, const flx_buffer *texts, const flxi_sa_polys *counts, flxi_sa_file *f,
                       flxi_strbuf *out, flxi_sa_range *range, flx_error *err)
{
    merger x = {.p = p, .mem = f->mem, .err = err};
    for (size_t i = 0; i < p->n; i++) {
        x.at[i] = x.begins[i] = texts[i].data;
        x.end[i] = x.at[i] + texts[i].size;
    }
    x.begin = x.at[0];
    flx_code code = read_all(&x);
    if (code == FLX_OK)
        code = find_known(&x, counts);
    if (code == FLX_OK)
        code = find_formulas(&x);
    for (size_t i = 0; code == FLX_OK && i < x.pieces.n; i++) {
        flxi_add_bytes(out, x.pieces.at[i].text, x.pieces.at[i].n);
        if (x.pieces.at[i].number < SIZE_MAX)
            write_number(&x, &x.numbers.at[x.pieces.at[i].number], out);
    }
    int64_t least = code == FLX_OK ? smallest_extent(&x) : 1, limit = code == FLX_OK ? largest_extent(&x) : 1;
    range->least = least > range->least ? least : range->least;
    range->limit = limit < range->limit ? limit : range->limit;
    range->asks |= x.asks;
    memcpy(range->asked, x.asked, sizeof x.asked);
    flxi_vec_free(x.mem, &x.numbers);
    flxi_vec_free(x.mem, &x.pieces);
    flxi_vec_free(x.mem, &x.known);
    return code;
}
