/* SPDX-License-Identifier: Apache-2.0 */
/* name_groups.h: the layer that each node of a graph belongs to, by names. */
#ifndef FLXI_NAME_GROUPS_H
#define FLXI_NAME_GROUPS_H

#include "base/hash.h"
#include "report/graph_view.h"

typedef struct {
    const char *name;
    uint32_t parent; /* below its own number; of the outermost, 0, itself */
    uint32_t depth;
} flxi_name_group;

typedef struct {
    const flxi_allocator *mem;
    flxi_strings texts;
    FLXI_VEC(flxi_name_group) groups; /* 0 contains everything */
    flxi_index index;                 /* by parent and name */
    uint32_t *of;                     /* by node */
} flxi_name_groups;

/* A node is in the group of its own name, of the node that it was made for, or of the parameter that it reads;
   otherwise in the innermost that contains its operands, or an operand and a reader. Freed by flxi_name_groups_free()
   in any case. */
flx_code flxi_find_name_groups(flxi_name_groups *t, const flx_graph *g, const uint8_t *phases, flxi_arena *arena,
                               flx_error *err);
void flxi_name_groups_free(flxi_name_groups *t);

/* The innermost group that contains both. */
uint32_t flxi_common_group(const flxi_name_groups *t, uint32_t a, uint32_t b);

#endif
