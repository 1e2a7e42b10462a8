/* SPDX-License-Identifier: Apache-2.0 */
/* node_case.c: see node_case.h. */
#include "node_case.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

static const flxi_allocator mem = {flxi_default_alloc, NULL};

const flxi_route *route_named(flxi_opcode op, const char *name)
{
    size_t count;
    const flxi_route *list = flxi_route_list(&count);
    for (size_t i = 0; i < count; i++)
        if (list[i].op == op && strcmp(list[i].name, name) == 0)
            return &list[i];
    FAIL("no route %s", name);
    return NULL;
}

size_t node_case_bytes(const flx_type *t)
{
    return (size_t)flxi_route_count(t) * flx_dtype_size(t->dtype);
}

void *node_case_random(const flx_type *t, uint64_t *seed)
{
    void *data = malloc(node_case_bytes(t) + 1);
    for (int64_t i = 0; i < flxi_route_count(t); i++)
        flxi_store_double(t->dtype, data, i, 2 * test_uniform(seed) - 1);
    return data;
}

flxi_route_node node_case_node(const node_case *c, const flx_type **types)
{
    for (uint32_t k = 0; k < c->nin + c->nout; k++)
        types[k] = &c->types[k];
    return (flxi_route_node){
        .op = c->op, .attrs = c->attrs, .nin = c->nin, .nout = c->nout, .in_types = types, .out_types = types + c->nin};
}

/* Scratch is of exactly the size asked for and full of NaNs; results are new. */
void node_case_run_once(node_case *c, const char *route, int threads)
{
    const flx_type *types[5];
    flxi_route_node n = node_case_node(c, types);
    const flxi_route *r = route_named(c->op, route);
    flxi_pool *pool = threads > 1 ? flxi_pool_new(&mem, threads) : NULL;
    size_t nbytes = r->scratch(&n, threads);
    char *memory = malloc(nbytes + 64);
    char *scratch = memory + (64 - (uintptr_t)memory % 64) % 64;
    _Alignas(64) char kept[64];
    CHECK(r->kept(&n) <= sizeof kept);
    CHECK_OK(r->prepare(&n, kept, &mem), NULL);
    memset(scratch, 0xff, nbytes);
    for (uint32_t k = c->nin; k < c->nin + c->nout; k++) {
        c->data[k] = malloc(node_case_bytes(&c->types[k]) + 1);
        memset(c->data[k], 0xdd, node_case_bytes(&c->types[k]));
    }
    c->status = 0;
    n.in = (const void *const *)c->data;
    n.out = c->data + c->nin;
    n.kept = kept;
    n.pool = pool;
    n.scratch = scratch;
    n.status = &c->status;
    CHECK_OK(r->run(&n), NULL);
    free(memory);
    flxi_pool_free(pool);
}

void node_case_free_results(node_case *c)
{
    for (uint32_t k = c->nin; k < c->nin + c->nout; k++)
        free(c->data[k]);
}

void node_case_free(node_case *c)
{
    node_case_free_results(c);
    for (uint32_t k = 0; k < c->nin; k++)
        free(c->data[k]);
}

/* With 1, 2 and 3 threads, which must agree to the bit. */
void node_case_run(node_case *c, const char *route)
{
    test_count_case();
    node_case_run_once(c, route, 3);
    for (int threads = 2; threads >= 1; threads--) {
        node_case before = *c;
        node_case_run_once(c, route, threads);
        for (uint32_t k = c->nin; k < c->nin + c->nout; k++)
            CHECK_MSG(memcmp(c->data[k], before.data[k], node_case_bytes(&c->types[k])) == 0,
                      "%d threads give other bits", threads);
        CHECK_EQ_U64(c->status, before.status);
        node_case_free_results(&before);
    }
}

double node_case_unit(int32_t dtype)
{
    return dtype == FLX_F64 ? 0x1p-53 : 0x1p-24;
}
