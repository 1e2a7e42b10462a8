/* SPDX-License-Identifier: Apache-2.0 */
/* accept_chain.c: which chains become functions. All steps must be small: where they are not, calling them costs little
   and threads are worth more. The body of a scan may hold products and copies beside kernels. */
#include "backend/cpu/jit/kernel_chain.h"
#include "backend/cpu/routes/contraction_route.h"
#include "ops/opcode.h"

/* Longer ones gain little from it and cost compile time. */
enum { MAX_CHAIN = 32 };

static bool is_product(const flxi_chain_step *s)
{
    return s->kind == CHAIN_NODE && (s->node.op == OP_matmul || s->node.op == OP_dot_general);
}

static const char *describe(const flxi_chain_step *s, int threads, flxi_small_product *out)
{
    flxi_route_node n = flxi_route_node_of(&s->node);
    flxi_gemm g = flxi_contraction_product(&n);
    return flxi_small_product_of(&g, threads, out);
}

void flxi_chain_product(const flxi_chain_step *s, int threads, flxi_small_product *out)
{
    describe(s, threads, out);
}

/* NULL: the product can be part of a function; otherwise why not. */
static const char *refuse_product(const flxi_chain *c, const flxi_chain_step *s, const flx_compile_options *o)
{
    flxi_small_product p;
    if (((const flxi_route *)s->code)->run != flxi_gemm_route)
        return "it is computed by a library";
    if (o->flags & FLX_COMPILE_SCALAR)
        return "vectors are switched off";
    return describe(s, c->threads, &p);
}

static bool is_small(const flxi_chain *c, const flxi_chain_step *s, const flx_compile_options *o)
{
    switch ((flxi_chain_kind)s->kind) {
    case CHAIN_KERNEL: return s->work < FLXI_MIN_PARALLEL;
    case CHAIN_COPY: return c->loop;
    case CHAIN_NODE: return c->loop && is_product(s) && !refuse_product(c, s, o);
    case CHAIN_FOREIGN: break;
    }
    return false;
}

bool flxi_chain_accept(flxi_chain *c, const flx_compile_options *o)
{
    bool fits = c->n >= (c->loop ? 1 : 2) && c->n <= MAX_CHAIN;
    for (uint32_t i = 0; fits && i < c->n; i++)
        fits = is_small(c, &c->steps[i], o);
    for (uint32_t i = 0; !fits && c->loop && i < c->n; i++)
        if (is_product(&c->steps[i])) {
            const char *why = refuse_product(c, &c->steps[i], o);
            c->steps[i].called = why ? why : "the loop has other steps that are called";
        }
    return fits;
}
