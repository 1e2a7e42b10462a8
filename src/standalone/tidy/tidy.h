/* SPDX-License-Identifier: Apache-2.0 */
/* tidy.h: the text of kernels as one would write it by hand. The writer of kernels (src/emit) names every value and
   puts every operation into brackets, so that no compiler can mistake it. These rewrites of its lines change neither
   what is computed nor where it is rounded.

   Files: tidy_text.c      the order of the rewrites; second names, blocks without a head
          tidy_loops.c     heads of loops, conditions that they imply, names of their variables
          tidy_values.c    values that are used once take the place of their names
          tidy_brackets.c  brackets that precedence makes superfluous
          tidy_lines.c     long lines; functions in one line
          drop_unused.c    what nothing uses */
#ifndef FLXI_SA_TIDY_H
#define FLXI_SA_TIDY_H

#include "standalone/standalone.h"

#include <string.h>

/* A line without its newline, and the blanks that it begins with. */
typedef struct {
    const char *at;
    size_t n, indent;
} flxi_sa_row;

/* The next line of a text from *at on; false: there are no more. */
static inline bool flxi_sa_next_row(const flxi_strbuf *text, size_t *at, flxi_sa_row *row)
{
    if (*at >= text->n)
        return false;
    row->at = text->at + *at;
    const char *end = memchr(row->at, '\n', text->n - *at);
    row->n = end ? (size_t)(end - row->at) : text->n - *at;
    row->indent = 0;
    while (row->indent < row->n && row->at[row->indent] == ' ')
        row->indent++;
    *at += row->n + 1;
    return true;
}

static inline bool flxi_sa_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* How tightly an expression binds: of operators in C, from `?:` to `*`; of one operand with an operator before it, and
   of one operand. */
enum {
    SA_BINDS_NOT = -1, /* a list, or an assignment */
    SA_BINDS_CHOICE = 0,
    SA_BINDS_EQUAL = 6,
    SA_BINDS_LESS = 7,
    SA_BINDS_SHIFT = 8,
    SA_BINDS_SUM = 9,
    SA_BINDS_PRODUCT = 10,
    SA_BINDS_UNARY = 11,
    SA_BINDS_OPERAND = 12
};
int flxi_sa_binding(const char *begin, const char *end);

/* Each adds the rewritten text to `out`. */
void flxi_sa_tidy_loops(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out);
void flxi_sa_tidy_values(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out);
void flxi_sa_tidy_brackets(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out);
void flxi_sa_rename_loops(flxi_sa_file *f, const flxi_strbuf *text, flxi_strbuf *out);

#endif
