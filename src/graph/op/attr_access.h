/* SPDX-License-Identifier: Apache-2.0 */
/* attr_access.h: reading the attributes of a node outside the family of its op. Everything goes through the schema, so
   that no code outside a family trusts the layout of a struct that may not be the node's.

   Code that serves one op takes a typed view, which the family's header declares with FLXI_ATTRS_VIEW and which is NULL
   for any other op. Code that serves several ops reads by name; a name that the op does not have, or has with another
   kind, reads as absent. */
#ifndef FLXI_ATTR_ACCESS_H
#define FLXI_ATTR_ACCESS_H

#include "graph/graph.h"

/* Declares `const type *function(const flxi_node *n)`: the attributes of a node whose op has the schema of op_name;
   NULL for all others. */
#define FLXI_ATTRS_VIEW(function, type, op_name)                                                             \
    extern const flxi_rules flxi_rules_##op_name;                                                            \
    static inline const type *function(const flxi_node *n)                                                   \
    {                                                                                                        \
        return flxi_ops[n->op].rules->schema == flxi_rules_##op_name.schema ? (const type *)n->attrs : NULL; \
    }

/* The same for code that has an op and its attributes instead of a node. */
#define FLXI_ATTRS_VIEW_OF(function, type, op_name)                                                    \
    extern const flxi_rules flxi_rules_##op_name;                                                      \
    static inline const type *function(flxi_opcode op, const void *attrs)                              \
    {                                                                                                  \
        return flxi_ops[op].rules->schema == flxi_rules_##op_name.schema ? (const type *)attrs : NULL; \
    }

/* The row of the schema with this name; NULL: none. */
const flxi_attr *flxi_find_attr(const flxi_op *op, const char *name);

/* The field of the attribute with this name if its kind is stored in that way (flxi_attr_storage); otherwise NULL. */
const void *flxi_attr_field(const flxi_op *op, const void *attrs, const char *name, flxi_attr_storage storage);

/* Integers, booleans, words, dtypes and dimensions; FLXI_ABSENT: none. */
int64_t flxi_attr_int(const flxi_op *op, const void *attrs, const char *name);
/* Lists of those, pairs included; none: an empty list without v. */
const flx_ints *flxi_attr_ints(const flxi_op *op, const void *attrs, const char *name);
/* NaN: none. */
double flxi_attr_real(const flxi_op *op, const void *attrs, const char *name);
/* NULL: none. */
const flx_graph *flxi_attr_graph(const flxi_op *op, const void *attrs, const char *name);
const flx_tensor *flxi_attr_tensor(const flxi_op *op, const void *attrs, const char *name);
const flx_type *flxi_attr_type(const flxi_op *op, const void *attrs, const char *name);
const flxi_combine *flxi_attr_combine(const flxi_op *op, const void *attrs, const char *name);
/* None: an empty list without v. */
const flx_graphs *flxi_attr_graphs(const flxi_op *op, const void *attrs, const char *name);
/* Whether the attribute of words, or of words and graphs, is this word. */
bool flxi_attr_is_word(const flxi_op *op, const void *attrs, const char *name, const char *word);

/* Changes an attribute that flxi_attr_int reads, in a copy of the attributes that has no node yet. Nothing changes
   where the op has no such attribute. */
void flxi_attr_set_int(const flxi_op *op, void *attrs, const char *name, int64_t value);

/* ---- The same of a node ---- */

static inline int64_t flxi_node_int(const flxi_node *n, const char *name)
{
    return flxi_attr_int(&flxi_ops[n->op], n->attrs, name);
}

static inline const flx_ints *flxi_node_ints(const flxi_node *n, const char *name)
{
    return flxi_attr_ints(&flxi_ops[n->op], n->attrs, name);
}

static inline double flxi_node_real(const flxi_node *n, const char *name)
{
    return flxi_attr_real(&flxi_ops[n->op], n->attrs, name);
}

static inline const flx_tensor *flxi_node_tensor(const flxi_node *n, const char *name)
{
    return flxi_attr_tensor(&flxi_ops[n->op], n->attrs, name);
}

#endif
