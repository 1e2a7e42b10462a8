/* SPDX-License-Identifier: Apache-2.0 */
/* pass.h: the framework of every pass: a function from a graph to a new graph and a remap.

   remap.id[old] is the id that the value has in the new graph, 0 when it was removed. Ids held across a pass must be
   translated by the remap; ids of the old graph mean nothing in the new one. A pinned value is never removed. The
   remaps of successive passes are composed. A pass that fails leaves its input unchanged and returns nothing. */
#ifndef FLXI_PASS_H
#define FLXI_PASS_H

#include "graph/graph.h"

typedef struct {
    uint32_t *id; /* by old id */
    size_t n;     /* ids of the old graph, the unused 0 included */
    const flxi_allocator *mem;
} flxi_remap;

void flxi_remap_free(flxi_remap *r);
/* first, then second: afterwards `first` maps the oldest graph to the newest. */
void flxi_remap_compose(flxi_remap *first, const flxi_remap *second);

/* ---- Copying a graph, node by node, with changes ---- */

typedef struct {
    const flx_graph *from;
    flx_graph *to;
    flxi_remap remap;
    flxi_attr_map attrs;
    bool retypes;     /* values may get other types: set by passes whose purpose that is */
    uint32_t changed; /* a value whose type changed although it must not; 0: none */
    flx_error *err;
} flxi_copy;

/* An empty copy of `from`: same name, no nodes yet. */
flx_code flxi_copy_begin(flxi_copy *c, const flx_graph *from, flx_error *err);
/* Copies node i; its operands must have been copied. Labels and pins are kept. Types are inferred again only where the
   copy changes dimensions. */
flx_code flxi_copy_node(flxi_copy *c, uint32_t i);
/* Records that value `old` is represented by `id` of the new graph. Nodes are copied with the types they had, so one of
   another type would corrupt all that reads it: flxi_copy_end() then fails with INTERNAL. */
void flxi_copy_replace(flxi_copy *c, uint32_t old, uint32_t id);
/* Copies the outputs and hands over the graph and the remap (NULL: not needed). On failure frees everything. */
flx_code flxi_copy_end(flxi_copy *c, flx_code code, flx_graph **out, flxi_remap *remap);

/* The code of an error kept in a graph under construction, copied to err. */
flx_code flxi_built(const flx_graph *g, flx_error *err);

/* ---- Looking at graphs ---- */

/* How often each value is read, as an operand and as an output; by id. The caller frees value_count + 1 entries. */
uint32_t *flxi_count_uses(const flx_graph *g);

/* The value that all elements of v share, as a scalar tensor that the graph holds; NULL when not known. */
const flx_tensor *flxi_uniform(const flx_graph *g, uint32_t value);

/* ---- Passes ---- */

typedef flx_code (*flxi_pass)(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Drops nodes that reach no output and no pin. Leaves and ops with effects stay. */
flx_code flxi_pass_dce(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Whether a node stays even if no output needs it: leaves, pinned results, effects. */
bool flxi_is_root(const flx_graph *g, const flxi_node *n);

/* Puts nodes into an order that depends on the graph alone: depth first from effects, outputs and pins, operands from
   left to right. What reaches none of these is dropped. */
flx_code flxi_pass_order(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Keeps one of several nodes with the same op, operands and attributes. Pinned results and ops with effects are not
   merged. */
flx_code flxi_pass_cse(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* stop_gradient as the value itself: for graphs that are not differentiated any more. */
flx_code flxi_pass_drop_stops(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Constant folding, exact identities, cse and dce, until nothing changes. */
flx_code flxi_simplify(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Reductions over neighbouring axes only, and long ones in parts. Those that are not a fold of parts (reduce_mean) must
   be decomposed before where flxi_wants_splitting() says so. `free` are two extents that stand for any (0: none): an
   extent that is a multiple of one has as many parts, whatever its length. */
flx_code flxi_split_reductions(const flx_graph *in, const int64_t *free, flx_graph **out, flxi_remap *remap,
                               flx_error *err);
bool flxi_wants_splitting(const flx_graph *g, uint32_t node, const int64_t *free);
/* Of two extents that stand for any (0: none; NULL: neither) one that divides `extent`, or 0. */
int64_t flxi_free_divisor(const int64_t *free, int64_t extent);

/* Vectors of few components, component by component where many of them are reduced. */
flx_code flxi_pass_split_components(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Sums of many operands as sums of a few, in the same order. */
flx_code flxi_pass_cut_sums(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);
/* Sums of several operands as sums of two, in the same order, so that each operand can be freed once it is added. */
flx_code flxi_pass_pair_sums(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);
/* Whether the node is such a sum; *first receives where it begins: its second operand may be widened just before. */
bool flxi_paired_sum(const flx_graph *g, uint32_t node, uint32_t *first);

/* Rows scattered into zeros and then added are added in place. */
flx_code flxi_pass_join_scatters(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Leaves in 16 bits are made again for each node that reads them. */
flx_code flxi_pass_repeat_casts(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);
/* Parts of sums that are read in parts alone, as sums of parts. */
flx_code flxi_pass_narrow_sums(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Products read transposed matrices as stored. */
flx_code flxi_pass_absorb_transposes(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Products of at most this many multiplications can become sums of products, which join other work in a kernel. */
enum { FLXI_MOST_SPREAD = 4096 };
flx_code flxi_pass_spread_products(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);
/* Products without a summed axis as multiplications, which keep the sign of zeros as their definition does. */
flx_code flxi_pass_multiply_unsummed(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Products of integers that were cast to a wider dtype read them as they are (widening_dot), where `has_way` says that
   the node has a way of its own to be computed. */
flx_code flxi_widen_products(const flx_graph *in, bool (*has_way)(const flx_graph *g, uint32_t node, const void *user),
                             const void *user, flx_graph **out, flxi_remap *remap, flx_error *err);

/* The cotangents of q, k and v of attention, each a node, as one node (attention_backward_all), where `has_way` says
   that it has a way of its own to be computed. */
flx_code flxi_join_cotangents(const flx_graph *in, bool (*has_way)(const flx_graph *g, uint32_t node, const void *user),
                              const void *user, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Windows that cover a whole axis are reductions over it. */
flx_code flxi_pass_whole_windows(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Values between convolutions with their channels last, where that pays. */
flx_code flxi_pass_channels_last(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* What is computed of all elements along an axis, although few are chosen, is computed of these. */
flx_code flxi_pass_choose_along(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Comparisons of positions along axes in 32 bits where these hold them. */
flx_code flxi_pass_narrow_positions(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* Large results of products, such as the scores of attention, in blocks of rows: a loop computes each block and what is
   made from it. Only where extents are numbers. */
flx_code flxi_pass_block_rows(const flx_graph *in, flx_graph **out, flxi_remap *remap, flx_error *err);

/* The body of a loop for 1 / parts of its examples, the first axis of all inputs that are not shared; NULL in *out
   where it does not treat each of them independently, or there are too few examples or too little work. Bits do not
   change. */
flx_code flxi_split_examples(const flx_graph *body, const bool *is_shared, int64_t parts, flx_graph **out,
                             flx_error *err);

/* Each binding has a name, which no other has, and a legal extent. */
flx_code flxi_check_bindings(const flx_dim_binding *b, size_t n, flx_error *err);
/* The same for bindings that a user gave for a graph with these symbols: there are no others. */
flx_code flxi_check_symbols(const char *const *symbols, size_t count, const char *graph, const flx_dim_binding *b,
                            size_t n, flx_error *err);

/* What node n computes, as a hash of op, attributes and operands, and whether node m computes the same. `map`
   translates the operands of n; for the hash it may be NULL: as they are. */
uint64_t flxi_node_hash(const flx_graph *g, const flxi_node *n, const uint32_t *map);
bool flxi_nodes_same(const flxi_node *n, const uint32_t *map, const flxi_node *m);

/* One step of cse: node i is copied unless `seen` has an equal one, which then replaces it (*merged). */
flx_code flxi_merge_or_copy(flxi_copy *c, flxi_index *seen, uint32_t i, bool *merged);

/* Replaces symbols by numbers throughout, sub-graphs included, and infers everything again. */
flx_code flxi_specialise(const flx_graph *in, const flx_dim_binding *bindings, size_t count, flx_graph **out,
                         flxi_remap *remap, flx_error *err);

#endif
