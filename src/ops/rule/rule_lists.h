/* SPDX-License-Identifier: Apache-2.0 */
/* rule_lists.h: attribute lists and shapes for the rules of ops that move elements. */
#ifndef FLXI_RULE_LISTS_H
#define FLXI_RULE_LISTS_H

#include "graph/op/site.h"

/* Passes on what was allocated; NULL becomes an error of the graph being built. */
static inline void *flxi_rule_memory(flxi_site *s, void *p)
{
    if (!p)
        flxi_graph_failf(s->g, FLX_E_OOM, NULL, "out of memory: a rule");
    return p;
}

/* [first, list[0] + add, list[1] + add, …], in the graph's arena: with add = 1 axes after a batch axis, with add = 0
   extents after its own. */
static inline flx_ints flxi_list_behind(flxi_site *s, int64_t first, flx_ints list, int64_t add)
{
    static const int64_t none = 0;
    int64_t *own = flxi_rule_new(s, int64_t, list.n + 1);
    if (!own)
        return (flx_ints){&none, 0};
    own[0] = first;
    for (size_t i = 0; i < list.n; i++)
        own[i + 1] = list.v[i] + add;
    return (flx_ints){own, list.n + 1};
}

/* Known to have no element. */
static inline bool flxi_is_empty(const flx_type *t)
{
    for (int k = 0; k < t->rank; k++)
        if (t->dims[k] == 0)
            return true;
    return false;
}

/* v with exactly the extents of the type: they are equal, but where v has a number the type may have a symbol. */
static inline flx_val flxi_reshape_like(flxi_site *s, flx_val v, const flx_type *type)
{
    return flxi_reshape_to(s, v, type->rank, type->dims);
}

/* A list of `rank` extents; never absent, which would mean the default. */
static inline flx_ints flxi_dims_list(int rank, const flx_dim *dims)
{
    static const flx_dim none = 0;
    return (flx_ints){rank ? dims : &none, (size_t)rank};
}

/* v with zeros at the ends of axes: low[k] before and high[k] after axis k. v itself where there are none. */
static inline flx_val flxi_pad_zeros(flxi_site *s, flx_val v, const flx_dim *low, const flx_dim *high)
{
    int rank = flxi_typeof(s, v)->rank;
    bool any = false;
    for (int k = 0; k < rank; k++)
        any |= low[k] != 0 || high[k] != 0;
    if (!any)
        return v;
    return flx_pad(s->g, v, flxi_number(s, v, 0.0), flxi_dims_list(rank, low), flxi_dims_list(rank, high), FLX_ALL);
}

#endif
