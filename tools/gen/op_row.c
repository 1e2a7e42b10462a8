/* SPDX-License-Identifier: Apache-2.0 */
/* op_row.c: reads a row of the public op table. Operands are text there ("x, [beta]"), names and counts here. */
#include "op_row.h"

#include <string.h>

static void read_name(const char *s, char *out)
{
    size_t n = 0;
    while (*s == ' ' || *s == '[')
        s++;
    while (n < NAME_SIZE - 1 && ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') || s[n] == '_' ||
                                 (s[n] >= '0' && s[n] <= '9')))
        n++;
    memcpy(out, s, n);
    out[n] = 0;
}

op_row read_op(size_t i)
{
    op_row e = {0};
    flx_op_at(i, &e.view);
    e.variadic = e.view.max_operands < 0;
    for (const char *s = e.view.operands; *s && e.num_operands < MAX_OPERANDS;) {
        if (e.num_leading == e.num_operands && s[strspn(s, " ")] != '[')
            e.num_leading++;
        read_name(s, e.operand[e.num_operands++]);
        s += strcspn(s, ",");
        s += *s == ',';
    }
    e.num_results = strcmp(e.view.results, "...") == 0 ? -1 : 1;
    for (const char *s = e.view.results; e.num_results > 0 && *s; s++)
        e.num_results += *s == ',';
    return e;
}
