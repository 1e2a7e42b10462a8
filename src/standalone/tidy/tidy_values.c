/* SPDX-License-Identifier: Apache-2.0 */
/* tidy_values.c: `const float v3 = b1[i];` of which one later line makes use once takes the place of the name there. It
   moves past other constants only, and to where its type rounds it as before: loads, calls and casts anywhere, what is
   computed only to where it is the whole of an argument or of what is assigned. So no product and sum come to be in one
   expression, which a compiler may contract. */
#include "standalone/tidy/tidy.h"

enum { MOST_COLUMNS = 88 }; /* with each number as one column: files for all extents must have the same lines */

typedef struct {
    flxi_sa_file *f;
    FLXI_VEC(flxi_strbuf) rows;
    flxi_strings names;
    FLXI_VEC(uint32_t) uses; /* by number of the name */
} values;

/* const TYPE NAME = EXPRESSION; */
typedef struct {
    const char *type, *name, *value;
    size_t type_n, name_n, value_n, indent;
} declared;

static size_t indent_of(const flxi_strbuf *row)
{
    size_t n = 0;
    while (n < row->n && row->at[n] == ' ')
        n++;
    return n;
}

static bool read_declaration(const flxi_strbuf *row, declared *out)
{
    static const char head[] = "const ", joint[] = " = ";
    size_t n = row->n;
    out->indent = indent_of(row);
    const char *p = row->at + out->indent, *end = row->at + n;
    if (n < out->indent + 12 || memcmp(p, head, sizeof head - 1) != 0 || end[-1] != ';')
        return false;
    out->type = p + sizeof head - 1;
    const char *blank = strchr(out->type, ' ');
    const char *equals = strstr(out->type, joint);
    if (!blank || !equals || blank >= equals)
        return false;
    out->type_n = (size_t)(blank - out->type);
    out->name = blank + 1;
    out->name_n = (size_t)(equals - out->name);
    out->value = equals + sizeof joint - 1;
    out->value_n = (size_t)(end - 1 - out->value);
    for (size_t i = 0; i < out->name_n; i++)
        if (!flxi_sa_is_word(out->name[i]))
            return false;
    return out->name_n > 0;
}

/* Nothing but constants may be moved past; what has an effect is not moved. */
static bool is_pure(const flxi_strbuf *row)
{
    static const char *const effects[] = {"k_atomic_", "k_fetch_", "k_change_", "++", "--", "status"};
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++)
        if (strstr(row->at, effects[i]))
            return false;
    for (const char *p = row->at; *p; p++) /* a function of the kernel: f0_1( */
        if (*p == 'f' && (p == row->at || !flxi_sa_is_word(p[-1])) && p[1] >= '0' && p[1] <= '9')
            return false;
    return true;
}

static const char *count(const void *user, const char *name, size_t n)
{
    values *x = (values *)(uintptr_t)user;
    size_t number = flxi_intern_number(&x->names, name, n);
    while (number != SIZE_MAX && x->uses.n <= number)
        if (!flxi_push(x->f->mem, &x->uses, 0))
            break;
    if (number < x->uses.n)
        x->uses.at[number]++;
    else
        x->f->failed = true;
    return NULL;
}

static const char *find(const flxi_strbuf *row, const declared *d)
{
    for (const char *p = row->at; (p = strchr(p, d->name[0])) != NULL; p++)
        if ((p == row->at || !flxi_sa_is_word(p[-1])) && strncmp(p, d->name, d->name_n) == 0 &&
            !flxi_sa_is_word(p[d->name_n]))
            return p;
    return NULL;
}

static bool is_one_of(const declared *d, const char *const *types, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(types[i]) == d->type_n && memcmp(types[i], d->type, d->type_n) == 0)
            return true;
    return false;
}

/* Whether the name is a whole argument of a function. */
static bool is_argument(const flxi_strbuf *row, const char *at, const char *after)
{
    int depth = 0;
    if ((*after != ')' && *after != ',') || at == row->at || (at[-1] != '(' && at[-1] != ' '))
        return false;
    if (at[-1] == ' ' && (at - row->at < 2 || at[-2] != ','))
        return false;
    for (const char *p = at - 1; p >= row->at; p--) {
        depth += (*p == ')' || *p == ']') - (*p == '(' || *p == '[');
        if (depth < 0)
            return *p == '(' && p > row->at + 1 && flxi_sa_is_word(p[-1]) && p[-1] != ' ';
    }
    return false;
}

/* Whether the value is rounded by itself: a load, a call, or a cast of one. Some compilers look through a cast of a
   product. */
static bool is_rounded(const declared *d, int binds)
{
    bool is_cast = binds == SA_BINDS_UNARY && d->value[0] == '(';
    for (size_t i = 0; is_cast && i + 1 < d->value_n; i++)
        is_cast = d->value[i] != ')' || d->value[i + 1] != '(';
    return binds == SA_BINDS_OPERAND || is_cast;
}

/* Whether the value may be at this place of a statement. */
static bool may_be_at(const flxi_strbuf *row, const char *at, const declared *d)
{
    static const char *const exact[] = {"float", "double", "int32_t", "uint32_t"};
    const char *after = at + d->name_n;
    int binds = flxi_sa_binding(d->value, d->value + d->value_n);
    bool is_bool = d->type_n == 5 && memcmp(d->type, "_Bool", 5) == 0;
    if (is_bool)
        return after[0] == ' ' && after[1] == '?' && binds > SA_BINDS_CHOICE;
    if (binds == SA_BINDS_NOT || (after[0] == '[' || after[0] == '.'))
        return false;
    if (is_rounded(d, binds))
        return true;
    if (!is_one_of(d, exact, sizeof exact / sizeof *exact))
        return false;
    declared other;
    bool is_assigned = at - row->at > 3 && memcmp(at - 3, " = ", 3) == 0 && after[0] == ';' && at[-4] != '=' &&
                       at[-4] != '!' && at[-4] != '<' && at[-4] != '>';
    if (is_assigned && read_declaration(row, &other))
        return other.type_n == d->type_n && memcmp(other.type, d->type, d->type_n) == 0;
    return is_assigned || is_argument(row, at, after);
}

static size_t columns(const flxi_strbuf *row)
{
    size_t n = 0;
    for (size_t i = 0; i < row->n; i++)
        n += i == 0 || row->at[i] < '0' || row->at[i] > '9' || row->at[i - 1] < '0' || row->at[i - 1] > '9';
    return n;
}

/* Puts the value at its only use, if that is possible; the declaration becomes empty. */
static void move(values *x, size_t i, const declared *d)
{
    for (size_t j = i + 1; j < x->rows.n; j++) {
        flxi_strbuf *row = &x->rows.at[j], new_row;
        if (row->n == 0)
            continue;
        const char *at = find(row, d);
        declared other;
        if (!at && read_declaration(row, &other) && other.indent == d->indent && is_pure(row))
            continue;
        if (!at || indent_of(row) != d->indent || row->at[row->n - 1] != ';' || strstr(row->at, "for (") ||
            !may_be_at(row, at, d))
            return;
        flxi_strbuf_init(&new_row, x->f->mem);
        flxi_add_bytes(&new_row, row->at, (size_t)(at - row->at));
        flxi_add_char(&new_row, '(');
        flxi_add_bytes(&new_row, d->value, d->value_n);
        flxi_add_char(&new_row, ')');
        flxi_add_text(&new_row, at + d->name_n);
        if (new_row.failed || columns(&new_row) > MOST_COLUMNS) {
            x->f->failed |= new_row.failed;
            flxi_strbuf_free(&new_row);
            return;
        }
        flxi_strbuf_free(row);
        *row = new_row;
        x->rows.at[i].n = 0;
        return;
    }
}

static void read_rows(values *x, const flxi_strbuf *text)
{
    flxi_sa_row row;
    for (size_t at = 0; flxi_sa_next_row(text, &at, &row);) {
        flxi_strbuf one;
        flxi_strbuf_init(&one, x->f->mem);
        flxi_add_bytes(&one, row.at, row.n);
        flxi_add_text(&one, "");
        if (one.failed || !flxi_push(x->f->mem, &x->rows, one)) {
            x->f->failed = true;
            flxi_strbuf_free(&one);
            return;
        }
    }
}

void flxi_sa_tidy_values(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out)
{
    values x = {.f = f, .names = {.arena = &f->arena}};
    flxi_strbuf unused;
    flxi_strbuf_init(&unused, f->mem);
    read_rows(&x, text);
    if (text->at)
        flxi_sa_rewrite(&unused, text->at, text->n, count, &x);
    for (size_t i = 0; i < x.rows.n && !f->failed; i++) {
        declared d;
        if (!x.rows.at[i].n || !read_declaration(&x.rows.at[i], &d) || !is_pure(&x.rows.at[i]))
            continue;
        size_t number = flxi_intern_number(&x.names, d.name, d.name_n);
        if (number < x.uses.n && x.uses.at[number] == 2)
            move(&x, i, &d);
    }
    for (size_t i = 0; i < x.rows.n; i++) {
        bool was_moved = x.rows.at[i].n == 0 && x.rows.at[i].at && x.rows.at[i].at[0];
        if (!was_moved) {
            flxi_add_bytes(out, x.rows.at[i].at ? x.rows.at[i].at : "", x.rows.at[i].n);
            flxi_add_char(out, '\n');
        }
        flxi_strbuf_free(&x.rows.at[i]);
    }
    flxi_strbuf_free(&unused);
    flxi_vec_free(f->mem, &x.rows);
    flxi_vec_free(f->mem, &x.uses);
    flxi_strings_free(&x.names);
}
