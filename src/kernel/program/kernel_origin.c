/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_origin.c: see kernel_origin.h. Positions count statements from 1 in the order of flxi_krewrite_run():
   functions first, each followed by its result, then the body. */
#include "kernel/program/kernel_origin.h"

#include "kernel/program/kernel_path.h"
#include "kernel/program/kernel_rewrite.h"

#include <stdio.h>

static bool take_position(flxi_krewrite *r, const flxi_ks *s)
{
    (void)s;
    r->to->position = r->at;
    return false;
}

flx_kernel *flxi_kernel_numbered(const flx_kernel *k, flx_error *err)
{
    static const flxi_krewrite_hooks hooks = {.stmt = take_position};
    flxi_krewrite r = {.from = k, .hooks = &hooks};
    return flxi_krewrite_run(&r, err);
}

typedef struct {
    flxi_kpath path;
    uint32_t left; /* statements before the wanted one */
} search;

static bool find_in(search *s, flxi_klist list, bool in_else)
{
    flxi_kpath_open(&s->path, in_else);
    for (size_t i = 0; i < list.n; i++) {
        s->path.at[s->path.n - 1].index = (uint32_t)i;
        if (--s->left == 0)
            return true;
        if (find_in(s, list.at[i].body, false) || find_in(s, list.at[i].other, true))
            return true;
    }
    flxi_kpath_close(&s->path);
    return false;
}

const char *flxi_kernel_origin(const flx_kernel *k, uint32_t position, char *buffer, size_t size)
{
    char root[80];
    search s = {.path.root = root, .left = position};
    if (position == 0)
        return NULL;
    for (uint32_t i = 1; i <= k->num_fns; i++) {
        const flxi_kfn *f = &k->fns[i];
        uint32_t named = f->adjoint_of ? f->adjoint_of - 1 : i;
        snprintf(root, sizeof root, "%s %.60s", f->adjoint_of ? "adjoint" : "fn", k->fns[named].name);
        if (find_in(&s, f->body, false))
            return flxi_kpath_write(&s.path, buffer, size);
        if (--s.left == 0)
            return NULL;
    }
    snprintf(root, sizeof root, "body");
    return find_in(&s, k->body, false) ? flxi_kpath_write(&s.path, buffer, size) : NULL;
}
