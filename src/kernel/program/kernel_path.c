/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_path.c: see kernel_path.h. */
#include "kernel/program/kernel_path.h"

#include <stdio.h>

void flxi_kpath_open(flxi_kpath *p, bool in_else)
{
    if (p->n < sizeof p->at / sizeof p->at[0])
        p->at[p->n++] = (flxi_kposition){.in_else = in_else};
}

void flxi_kpath_close(flxi_kpath *p)
{
    if (p->n > 0)
        p->n--;
}

/* Longest: the root, then "/else/4294967295" for each level. */
enum { ROOT_MAX = 80, LEVEL_MAX = 16 };

const char *flxi_kpath_write(const flxi_kpath *p, char *out, size_t size)
{
    char whole[ROOT_MAX + LEVEL_MAX * (FLXI_KERNEL_MAX_NESTING + 2) + 1];
    int n = snprintf(whole, ROOT_MAX, "%s", p->root ? p->root : "");
    n = n < ROOT_MAX ? n : ROOT_MAX - 1;
    for (unsigned i = 0; i < p->n; i++)
        n += snprintf(whole + n, LEVEL_MAX + 1, "%s/%u", p->at[i].in_else ? "/else" : "", (unsigned)p->at[i].index);
    if ((size_t)n < size) {
        memcpy(out, whole, (size_t)n + 1);
    } else if (size > 4) {
        memcpy(out, "...", 3);
        memcpy(out + 3, whole + (size_t)n - (size - 4), size - 3);
    } else if (size > 0) {
        out[0] = 0;
    }
    return out;
}
