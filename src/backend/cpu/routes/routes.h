/* SPDX-License-Identifier: Apache-2.0 */
/* routes.h: hand-written ways to compute one node, beside the kernels that are generated.

   routes.def lists them, best first for each op. `applies` looks at types and attributes only and returns NULL for yes
   or the reason for no, which is what a dispatch report prints. Routes allocate nothing: scratch is asked for in
   advance, and tables that depend on types and attributes alone are made when the node is compiled. What they compute
   never depends on the number of threads. */
#ifndef FLXI_ROUTES_H
#define FLXI_ROUTES_H

#include "backend/backend.h"
#include "base/host/thread_pool.h"

/* One node as a route sees it. Types are static; data are dense, row-major and do not overlap, except where a route
   works in place. To ask whether a route applies, and for scratch, only op, attributes and types need to be set. */
typedef struct {
    flxi_opcode op;
    const void *attrs;
    uint32_t nin, nout;
    const flx_type *const *in_types;
    const flx_type *const *out_types;
    const void *const *in;
    void *const *out;
    flxi_pool *pool;   /* or NULL */
    const void *kept;  /* what `prepare` made, 64-byte aligned; NULL for routes that keep nothing */
    void *scratch;     /* 64-byte aligned, of the size that the route asked for with at least this pool's threads */
    flx_error *err;    /* or NULL */
    uint32_t *status;  /* or NULL: receives what is to be reported, FLX_RUN_… of fluxion/run.h */
    const char *label; /* the node's name, for messages; or NULL */
    const struct flxi_origin *origin; /* the node it was made for, for messages; or NULL */
} flxi_route_node;

/* A node of the interface, without data. */
flxi_route_node flxi_route_node_of(const flxi_device_node *n);

typedef struct {
    flxi_opcode op;
    const char *name;
    const char *(*applies)(const flxi_route_node *n);
    size_t (*scratch)(const flxi_route_node *n, int threads);
    flx_code (*run)(const flxi_route_node *n);
    size_t (*kept)(const flxi_route_node *n); /* bytes that the route keeps; NULL: none */
    flx_code (*prepare)(const flxi_route_node *n, void *kept, const flxi_allocator *mem); /* mem is for scratch alone */
    bool is_in_place;                               /* result 0 may be in the memory of operand 0 */
    bool (*is_preferred)(const flxi_route_node *n); /* to a kernel; NULL: never */
} flxi_route;

typedef struct {
    int count;
    struct {
        const char *route, *why;
    } at[4];
} flxi_route_reasons;

/* The first route that applies, or NULL. `reasons`, which may be NULL, receives why those before it do not. */
const flxi_route *flxi_route_find(const flxi_route_node *n, flxi_route_reasons *reasons);

/* All of them, for tests and manuals; *count receives how many. */
const flxi_route *flxi_route_list(size_t *count);

/* A reason: for so few elements the definition is faster. */
extern const char flxi_route_too_small[];

/* ---- For routes ---- */

/* An attribute by name, as the op's schema describes it. */
int64_t flxi_route_int(const flxi_route_node *n, const char *name);
flx_ints flxi_route_ints(const flxi_route_node *n, const char *name);
bool flxi_route_has_graph(const flxi_route_node *n, const char *name);

/* Elements of a static type; at least one of its extents may be too large to multiply when another is 0. */
int64_t flxi_route_count(const flx_type *t);

/* Chunk length for a loop over `count` items of that many bytes each: long enough to be worth a thread. */
int64_t flxi_route_chunk(int64_t count, int64_t bytes_each);

#define ROUTE(op, route, applies, scratch, run)            \
    const char *applies(const flxi_route_node *n);         \
    size_t scratch(const flxi_route_node *n, int threads); \
    flx_code run(const flxi_route_node *n);
#define IN_PLACE_ROUTE ROUTE
#define PREFERRED_ROUTE(op, route, applies, scratch, preferred, run) \
    ROUTE(op, route, applies, scratch, run)                          \
    bool preferred(const flxi_route_node *n);
#define PREPARED_ROUTE(op, route, applies, scratch, kept, prepare, run) \
    ROUTE(op, route, applies, scratch, run)                             \
    size_t kept(const flxi_route_node *n);                              \
    flx_code prepare(const flxi_route_node *n, void *made, const flxi_allocator *mem);
#include "backend/cpu/routes/routes.def"
#undef ROUTE
#undef IN_PLACE_ROUTE
#undef PREFERRED_ROUTE
#undef PREPARED_ROUTE

size_t flxi_no_scratch(const flxi_route_node *n, int threads);

#endif
