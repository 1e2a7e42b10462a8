/* SPDX-License-Identifier: Apache-2.0 */
/* node_case.h: one node run by a named route, with memory of exactly the size that the route asks for. */
#ifndef FLX_NODE_CASE_H
#define FLX_NODE_CASE_H

#include "backend/cpu/routes/routes.h"
#include "graph/op/eval.h"

/* One node with its operands and what came out. */
typedef struct {
    flxi_opcode op;
    int64_t attrs[4];
    uint32_t nin, nout;
    flx_type types[5]; /* operands, then results */
    void *data[5];
    uint32_t status;
} node_case;

const flxi_route *route_named(flxi_opcode op, const char *name);
size_t node_case_bytes(const flx_type *t);
/* The node as routes see it, without data; `types` has room for 5. */
flxi_route_node node_case_node(const node_case *c, const flx_type **types);

/* Random numbers from -1 to 1, in new memory. */
void *node_case_random(const flx_type *t, uint64_t *seed);

/* Results are new memory. */
void node_case_run_once(node_case *c, const char *route, int threads);
/* With 1, 2 and 3 threads, which must agree to the bit. */
void node_case_run(node_case *c, const char *route);

void node_case_free_results(node_case *c);
void node_case_free(node_case *c); /* operands too */

/* The unit of rounding of a dtype. */
double node_case_unit(int32_t dtype);

static inline flx_type type_of(int32_t dtype, int rank, const int64_t *dims)
{
    return flx_type_make((flx_dtype)dtype, rank, dims);
}

/* Element i of operand k, or of result k - nin. */
static inline double at(const node_case *c, uint32_t k, int64_t i)
{
    return flxi_load_double(c->types[k].dtype, c->data[k], i);
}

#endif
