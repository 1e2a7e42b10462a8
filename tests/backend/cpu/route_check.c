/* SPDX-License-Identifier: Apache-2.0 */
/* route_check.c: see route_check.h. */
#include "route_check.h"
#include "graph/op/attr_access.h"
#include "ops/index/gather_nd.h"
#include "ops/opcode.h"
#include "ops/signal/window.h"

#include "backend/ref/ref.h"
#include "test.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const flxi_allocator mem = {flxi_default_alloc, NULL};

enum { MOST = 16 };

typedef struct {
    const flx_graph *g;
    const flxi_node *node;
    const flx_type *in_types[MOST], *out_types[MOST];
    const void *in[MOST];
    void *out[MOST];
    flxi_route_node n;
    double largest[MOST]; /* number of each operand; 0 before it is asked for */
} subject;

static void open_subject(subject *s, const flx_graph *g, const flx_tensor *const *in)
{
    *s = (subject){.g = g};
    for (uint32_t i = 0; i < g->node_count; i++)
        if (!(flxi_ops[flxi_node_at(g, i)->op].traits & TRAIT_DECLARED))
            s->node = flxi_node_at(g, i);
    CHECK(s->node && s->node->nin <= MOST && s->node->nout <= MOST);
    for (uint32_t k = 0; k < s->node->nin; k++) {
        s->in_types[k] = flxi_type_at(g, s->node->in[k]);
        for (size_t leaf = 0; leaf < g->leaves.n; leaf++)
            if (g->leaves.at[leaf] == s->node->in[k])
                s->in[k] = in[leaf]->data;
    }
    for (uint32_t k = 0; k < s->node->nout; k++)
        s->out_types[k] = flxi_type_at(g, s->node->first + k);
    s->n = (flxi_route_node){.op = s->node->op,
                             .attrs = s->node->attrs,
                             .nin = s->node->nin,
                             .nout = s->node->nout,
                             .in_types = s->in_types,
                             .out_types = s->out_types,
                             .in = s->in,
                             .out = s->out};
}

static const flxi_route *choose(const flxi_route_node *n, const char *name, const char **why)
{
    flxi_route_reasons reasons;
    size_t count;
    const flxi_route *list = flxi_route_list(&count);
    if (!name) {
        const flxi_route *r = flxi_route_find(n, &reasons);
        *why = reasons.count ? reasons.at[0].why : "no route";
        return r;
    }
    for (size_t i = 0; i < count; i++)
        if (list[i].op == n->op && strcmp(list[i].name, name) == 0) {
            *why = list[i].applies(n);
            return *why ? NULL : &list[i];
        }
    *why = "no such route";
    return NULL;
}

/* Results of the route, in new memory that a run must fill. */
static flx_code run_route(subject *s, const flxi_route *r, int threads, flx_error *err)
{
    flxi_pool *pool = threads > 1 ? flxi_pool_new(&mem, threads) : NULL;
    size_t nbytes = r->scratch(&s->n, threads);
    void *scratch = aligned_alloc(64, (nbytes + 127) / 64 * 64);
    memset(scratch, 0xff, nbytes);
    size_t kept = r->kept ? r->kept(&s->n) : 0;
    void *tables = aligned_alloc(64, (kept + 127) / 64 * 64);
    s->n.err = err;
    if (kept)
        CHECK_OK(r->prepare(&s->n, tables, &mem), err);
    s->n.kept = tables;
    for (uint32_t k = 0; k < s->n.nout; k++) {
        size_t size;
        CHECK(flxi_static_bytes(s->out_types[k], &size));
        s->out[k] = malloc(size + 1);
        memset(s->out[k], 0xdd, size);
    }
    s->n.pool = pool;
    s->n.scratch = scratch;
    flx_code code = r->run(&s->n);
    free(scratch);
    free(tables);
    flxi_pool_free(pool);
    return code;
}

/* ---- Bounds ---- */

static double largest(subject *s, uint32_t operand)
{
    const flx_type *t = s->in_types[operand];
    double most = s->largest[operand];
    for (int64_t i = 0; most == 0 && i < flxi_route_count(t); i++)
        s->largest[operand] = fmax(s->largest[operand], cabs(flxi_load_complex(t->dtype, s->in[operand], i)));
    return s->largest[operand];
}

static bool is_fourier(flxi_opcode op)
{
    return op == OP_fft || op == OP_fft_axis || op == OP_rfft || op == OP_irfft || op == OP_rfft_complex ||
           op == OP_irfft_complex;
}

/* A row of n numbers of size x has the norm sqrt(n) x, and its transform at most sqrt(n) times that; of this
   numeric/fourier.h allows 32 log2(n) units. The row is at most as long as the longest axis. */
static double fourier_bound(subject *s)
{
    const flx_type *t = s->in_types[0], *y = s->out_types[0];
    double unit = t->dtype == FLX_F64 || t->dtype == FLX_C128 ? 0x1p-53 : 0x1p-24;
    double n = 1, size = 0;
    for (int k = 0; k < t->rank; k++)
        n = fmax(n, (double)(t->dims[k] > y->dims[k] ? t->dims[k] : y->dims[k]));
    for (uint32_t k = 0; k < s->n.nin; k++)
        size += largest(s, k);
    return 32 * (log2(n) + 1) * unit * n * size;
}

/* Sums over windows, or of what windows keep: how many terms there are at most. */
static double window_terms(const subject *s)
{
    const flx_ints *window =
        flxi_attr_ints(&flxi_ops[s->n.op], s->n.attrs, s->n.op == OP_max_pool_backward ? "kernel_size" : "window");
    double terms = 1;
    for (size_t k = 0; k < window->n; k++)
        terms *= (double)window->v[k];
    return terms + 1;
}

static bool is_window_sum(flxi_opcode op)
{
    return op == OP_select_and_scatter || op == OP_max_pool_backward || op == OP_reduce_window;
}

/* What |y - definition| may be: the definition on absolute values, times the error of one chain of `terms`. Complex:
   every term counts as the largest one. */
static double bound_at(subject *s, const flx_tensor *sizes, int64_t i)
{
    int32_t d = s->out_types[0]->dtype;
    int64_t l = flxi_route_count(s->in_types[0]);
    int64_t r = s->n.nin > 1 ? flxi_route_count(s->in_types[1]) : l;
    double terms = (double)(l < r ? l : r);
    double chain = (2 * terms + 4) * (d == FLX_F64 || d == FLX_C128 ? 0x1p-53 : 0x1p-24);
    if (is_window_sum(s->n.op))
        return (2 * window_terms(s) + 4) * (d == FLX_F64 ? 0x1p-53 : 0x1p-24) * window_terms(s) *
               (largest(s, 0) + largest(s, 1));
    uint32_t factor = s->n.op == OP_scatter_nd ? 2 : 1; /* the updates, whose factor is 1, or the other operand */
    double other = largest(s, factor);
    double size = !flxi_is_complex(d)         ? flxi_load_double(d, sizes->data, i)
                  : factor == 2               ? largest(s, 0) + terms * other
                  : s->n.op == OP_scatter_add ? terms * largest(s, 0)
                                              : 2 * terms * largest(s, 0) * other;
    return chain * size + 2 * ldexp(size, -flxi_mantissa_bits(d));
}

static bool is_sum_of(const flxi_route_node *n)
{
    if (n->op == OP_scatter_nd)
        return flxi_scatter_adds(flxi_attr_combine(&flxi_ops[n->op], n->attrs, "combine"));
    if (n->op == OP_reduce_window) {
        int64_t word = flxi_window_word(flxi_attr_combine(&flxi_ops[n->op], n->attrs, "combine"));
        return word != FLXI_WINDOW_MAX && word != FLXI_WINDOW_MIN;
    }
    return flxi_ops[n->op].op_class == CLASS_PRODUCT || n->op == OP_scatter_add || is_fourier(n->op) ||
           is_window_sum(n->op);
}

static void compare(subject *s, flx_tensor *const *expected, flx_tensor *const *sizes)
{
    bool is_sum = is_sum_of(&s->n);
    double whole = is_fourier(s->n.op) ? fourier_bound(s) : 0; /* one for all elements */
    for (uint32_t k = 0; k < s->n.nout; k++) {
        const flx_type *t = s->out_types[k];
        size_t size = flx_dtype_size(t->dtype);
        for (int64_t i = 0; i < flxi_route_count(t); i++) {
            const char *x = (const char *)s->out[k] + (size_t)i * size;
            if (memcmp(x, (const char *)expected[k]->data + (size_t)i * size, size) == 0)
                continue;
            double _Complex y = flxi_load_complex(t->dtype, s->out[k], i);
            double _Complex e = flxi_load_complex(t->dtype, expected[k]->data, i);
            bool rounds = is_sum && (flxi_is_float(t->dtype) || flxi_is_complex(t->dtype));
            CHECK_MSG(rounds && cabs(y - e) <= (is_fourier(s->n.op) ? whole : bound_at(s, sizes[k], i)),
                      "result %u, element %lld: %.9g %+.9gi, "
                      "expected %.9g %+.9gi",
                      (unsigned)k, (long long)i, creal(y), cimag(y), creal(e), cimag(e));
        }
    }
}

/* ---- The check ---- */

static void run_definition(const flx_graph *g, const flx_tensor *const *in, bool absolute, flx_tensor **out)
{
    flx_error err = {0};
    flx_tensor *own[MOST];
    for (size_t i = 0; i < g->leaves.n; i++) {
        own[i] = flx_tensor_new(g->ctx, &in[i]->type, NULL, &err);
        CHECK(own[i]);
        memcpy(own[i]->data, in[i]->data, in[i]->nbytes);
        for (int64_t e = 0; absolute && flxi_is_float(own[i]->type.dtype) && e < own[i]->count; e++)
            flxi_store_double(own[i]->type.dtype, own[i]->data, e,
                              fabs(flxi_load_double(own[i]->type.dtype, own[i]->data, e)));
    }
    CHECK_OK(flxi_ref_run(g, NULL, (const flx_tensor *const *)own, out, &err), &err);
    for (size_t i = 0; i < g->leaves.n; i++)
        flx_tensor_release(own[i]);
}

bool route_check(const flx_graph *g, const flx_tensor *const *in, const char *name, const char **why)
{
    subject s;
    flx_error err = {0};
    flx_tensor *expected[MOST];
    flx_tensor *sizes[MOST];
    void *first[MOST];
    open_subject(&s, g, in);
    const flxi_route *r = choose(&s.n, name, why);
    if (!r)
        return false;
    test_count_case();
    CHECK_OK(run_route(&s, r, 1, &err), &err);
    run_definition(g, in, false, expected);
    run_definition(g, in, true, sizes);
    compare(&s, expected, sizes);
    for (int threads = 2; threads <= 3; threads++) {
        memcpy(first, s.out, sizeof first);
        CHECK_OK(run_route(&s, r, threads, &err), &err);
        for (uint32_t k = 0; k < s.n.nout; k++) {
            size_t size;
            CHECK(flxi_static_bytes(s.out_types[k], &size));
            CHECK_MSG(memcmp(s.out[k], first[k], size) == 0, "%d threads give other bits", threads);
            free(first[k]);
        }
    }
    for (uint32_t k = 0; k < s.n.nout; k++) {
        free(s.out[k]);
        flx_tensor_release(expected[k]);
        flx_tensor_release(sizes[k]);
    }
    return true;
}

/* ---- From text ---- */

static flx_module *parse_line(flx_context *ctx, const char *op, const char *operands, const char *attrs, flx_error *err)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    int n = 0;
    fprintf(f, "graph g(");
    for (const char *at = operands; at;) {
        const char *end = strchr(at, ']') + 1;
        fprintf(f, "%sx%d: %.*s", n ? ", " : "", n, (int)(end - at), at);
        n++;
        at = strchr(end, ',');
        at = at ? at + 2 : NULL;
    }
    const flxi_op *row = &flxi_ops[flxi_op_lookup(op, strlen(op))];
    bool is_pair = strchr(row->results, ',') != NULL; /* of results */
    fprintf(f, ") {\n  %s = %s(", is_pair ? "y, z" : "y", op);
    for (int i = 0; i < n; i++)
        fprintf(f, "%sx%d", i ? ", " : "", i);
    fprintf(f, "%s%s)\n  return %s\n}\n", attrs ? ", " : "", attrs ? attrs : "", is_pair ? "y, z" : "y");
    fclose(f);
    flx_module *m = flx_parse(ctx, text, size, "line", err);
    free(text);
    return m;
}

void route_check_text(const char *op, const char *operands, const char *attrs, double low, double high)
{
    route_check_text_by(NULL, op, operands, attrs, low, high);
}

void route_check_text_by(const char *route, const char *op, const char *operands, const char *attrs, double low,
                         double high)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = parse_line(ctx, op, operands, attrs, &err);
    uint64_t seed = test_seed();
    test_fail_context("%s(%s; %s)", op, operands, attrs ? attrs : "");
    CHECK_MSG(m, "%s", err.message);
    const flx_graph *g = flx_module_graph(m, 0);
    flx_tensor *in[MOST] = {0};
    for (size_t i = 0; i < g->leaves.n; i++) {
        in[i] = flx_tensor_new(ctx, flxi_type_at(g, g->leaves.at[i]), NULL, &err);
        int32_t d = in[i]->type.dtype;
        int32_t part = flxi_part_dtype(d);
        for (int64_t e = 0; e < in[i]->count * (flxi_is_complex(d) ? 2 : 1); e++)
            if (flxi_is_float(part))
                flxi_store_double(part, in[i]->data, e, 4 * test_uniform(&seed) - 2);
            else
                flxi_store_int(d, in[i]->data, e, (int64_t)floor(low + (high - low + 1) * test_uniform(&seed)));
    }
    const char *why = NULL;
    bool done = route_check(g, (const flx_tensor *const *)in, route, &why);
    CHECK_MSG(done, "%s", why);
    for (size_t i = 0; i < g->leaves.n; i++)
        flx_tensor_release(in[i]);
    flx_module_free(m);
    flx_context_free(ctx);
}
