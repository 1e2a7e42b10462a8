/* SPDX-License-Identifier: Apache-2.0 */
/* tidy_lines.c: lines of at most 120 columns, where they have a comma or an operator to end with; and the small
   functions that kernels call with a line for each of their statements. */
#include "standalone/tidy/tidy.h"

enum { MOST_COLUMNS = 120 };

/* ---- Long lines ---- */

/* Whether a line may end after p: after a comma, or before an operator, within brackets. */
static bool may_end(const char *p, const char *end, int depth)
{
    if (depth <= 0 || p + 2 >= end || *p != ' ')
        return false;
    return p[-1] == ',' || p[-1] == ';' ||
           ((p[1] == '+' || p[1] == '?' || p[1] == ':' || p[1] == '&' || p[1] == '|') && (p[2] == ' ' || p[2] == p[1]));
}

/* How much of the text is a line of that many columns; 0: it cannot be cut. */
static size_t cut(const char *text, size_t n, size_t columns)
{
    int depth = 0;
    size_t best = 0;
    for (size_t i = 0; i < n && i <= columns; i++) {
        depth += (text[i] == '(' || text[i] == '{') - (text[i] == ')' || text[i] == '}');
        if (i > 0 && may_end(text + i, text + n, depth))
            best = i;
    }
    return best;
}

static void add_row(const flxi_sa_row *row, flxi_strbuf *out)
{
    const char *text = row->at;
    size_t n = row->n, columns = MOST_COLUMNS;
    bool is_code = row->n > 0 && row->at[0] != '#' && row->at[row->n - 1] != '\\';
    for (size_t i = row->indent; is_code && i + 1 < row->n; i++)
        is_code = row->at[i] != '/' || row->at[i + 1] != '*';
    size_t first = row->n > MOST_COLUMNS && is_code ? cut(text, n, columns) : 0;
    while (first > 0 && n > columns) {
        flxi_add_bytes(out, text, first);
        flxi_addf(out, "\n%*s", (int)row->indent + 4, "");
        text += first + 1;
        n -= first + 1;
        columns = MOST_COLUMNS - row->indent - 4;
        first = n > columns ? cut(text, n, columns) : 0;
        if (!first) { /* the brackets around it were opened in a line before */
            for (size_t i = 1; n > columns && i <= columns && i < n; i++)
                first = may_end(text + i, text + n, 1) ? i : first;
        }
    }
    flxi_add_bytes(out, text, n);
    flxi_add_char(out, '\n');
}

void flxi_sa_wrap(flxi_strbuf *text)
{
    flxi_strbuf out;
    flxi_sa_row row;
    flxi_strbuf_init(&out, text->mem);
    for (size_t at = 0; flxi_sa_next_row(text, &at, &row);)
        add_row(&row, &out);
    out.failed |= text->failed;
    flxi_strbuf_free(text);
    *text = out;
}

/* ---- Small functions ---- */

/* { a; return b; }   as a line for each statement */
static void add_statements(const char *p, const char *end, flxi_strbuf *out)
{
    int depth = 0;
    flxi_add_text(out, "{\n");
    while (p < end) {
        const char *from = p;
        for (; p < end; p++) {
            depth += (*p == '{' || *p == '(') - (*p == '}' || *p == ')');
            if (*p == ';' && depth == 0)
                break;
        }
        p += p < end;
        flxi_add_text(out, "    ");
        flxi_add_bytes(out, from, (size_t)(p - from));
        flxi_add_char(out, '\n');
        while (p < end && *p == ' ')
            p++;
    }
    flxi_add_text(out, "}\n");
}

void flxi_sa_spread(const flxi_strbuf *text, flxi_strbuf *out)
{
    flxi_sa_row row;
    bool was_head = false;
    for (size_t at = 0; flxi_sa_next_row(text, &at, &row);) {
        bool is_head = row.n > 7 && memcmp(row.at, "static ", 7) == 0;
        if (is_head && out->n)
            flxi_add_char(out, '\n');
        if (was_head && row.n > 4 && memcmp(row.at, "{ ", 2) == 0 && memcmp(row.at + row.n - 2, " }", 2) == 0) {
            add_statements(row.at + 2, row.at + row.n - 2, out);
        } else {
            flxi_add_bytes(out, row.at, row.n);
            flxi_add_char(out, '\n');
        }
        was_head = is_head;
    }
}
