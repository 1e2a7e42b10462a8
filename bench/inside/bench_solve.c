/* SPDX-License-Identifier: Apache-2.0 */
/* bench_solve.c: solves and factors of dense matrices by our blocks, by the definition and by a LAPACK if one is found,
   in GFLOP/s. It uses internals of the library: routes are run whether they apply or not.

       bench_solve [THREADS] [EXTENT...]      (default: one thread; 32 64 128 256 512 1024) */
#include "backend/cpu/linalg/lapack.h"
#include "backend/cpu/routes/routes.h"
#include "graph/op/eval.h"
#include "graph/type/tensor.h"
#include "ops/opcode.h"

#include "inside.h"

typedef struct {
    const char *name;
    flxi_opcode op;
    int64_t attrs[4];
    uint32_t nin, nout;
    bool has_vector;       /* b is one right-hand side, else n of them */
    double cubes, squares; /* work: cubes n^3 + squares n^2 */
} subject;

static const subject subjects[] = {
    {"solve", OP_solve, {0}, 2, 1, true, 2.0 / 3, 2},
    {"lu", OP_lu, {0}, 1, 3, false, 2.0 / 3, 0},
    {"cholesky", OP_cholesky, {1}, 1, 1, false, 1.0 / 3, 0},
    {"triangle", OP_solve_triangular, {1, 0, 0, 1}, 2, 1, false, 1, 0},
    {"triangle, vector", OP_solve_triangular, {1, 0, 0, 1}, 2, 1, true, 0, 1},
    {"inv", OP_inv, {0}, 1, 1, false, 2, 0},
};

/* Operands and results of one subject: a, diagonally dominant; b, a vector or a matrix. */
typedef struct {
    const subject *s;
    flx_tensor tensors[4];
    const flx_tensor *in[2];
    flx_tensor *out[3];
    const flx_type *types[4];
    void *data[4];
    flxi_route_node node;
} bench;

static void set_tensor(bench *b, uint32_t k, int32_t dtype, int rank, int64_t n)
{
    flx_tensor *t = &b->tensors[k];
    t->type = flx_type_make(dtype, rank, (int64_t[]){n, n});
    t->count = rank == 2 ? n * n : n;
    t->nbytes = (size_t)t->count * flx_dtype_size(dtype);
    t->data = block_of(t->nbytes);
    b->types[k] = &t->type;
    b->data[k] = t->data;
}

static void open_bench(bench *b, const subject *s, int32_t dtype, int64_t n)
{
    *b = (bench){.s = s};
    for (uint32_t k = 0; k < s->nin + s->nout; k++) {
        bool is_pivots = k >= s->nin + 1;
        bool is_vector = is_pivots || (s->has_vector && k > 0);
        set_tensor(b, k, is_pivots ? FLX_I32 : dtype, is_vector ? 1 : 2, n);
        for (int64_t i = 0; i < b->tensors[k].count && k < s->nin; i++)
            flxi_store_double(dtype, b->data[k], i,
                              (double)(i * 7919 % 1009) / 1009 + (k == 0 && i % (n + 1) == 0 ? (double)n : 0));
        if (k < s->nin)
            b->in[k] = &b->tensors[k];
        else
            b->out[k - s->nin] = &b->tensors[k];
    }
    b->node = (flxi_route_node){.op = s->op,
                                .attrs = s->attrs,
                                .nin = s->nin,
                                .nout = s->nout,
                                .in_types = b->types,
                                .out_types = b->types + s->nin,
                                .in = (const void *const *)b->data,
                                .out = b->data + s->nin};
}

static void report_nothing(flxi_eval *e, uint32_t status)
{
    (void)e;
    (void)status;
}

static void run_definition(bench *b)
{
    flxi_eval e = {.op = &flxi_ops[b->s->op],
                   .attrs = b->s->attrs,
                   .nin = b->s->nin,
                   .nout = b->s->nout,
                   .in = b->in,
                   .out = b->out,
                   .mem = &mem,
                   .report = report_nothing};
    if (e.op->rules->eval(&e) != FLX_OK)
        exit(3);
}

/* The best of several runs, in GFLOP/s; route NULL is the definition. */
static double speed_of(bench *b, const flxi_route *route, double n)
{
    double best = 1e30;
    double spent = 0;
    for (int i = 0; i < 2 || spent < 0.1; i++) {
        double start = now();
        if (route)
            route->run(&b->node);
        else
            run_definition(b);
        double took = now() - start;
        best = took < best ? took : best;
        spent += took;
    }
    return (b->s->cubes * n + b->s->squares) * n * n / best * 1e-9;
}

static const flxi_route *find(flxi_opcode op, const char *name)
{
    size_t count;
    const flxi_route *list = flxi_route_list(&count);
    for (size_t i = 0; i < count; i++)
        if (list[i].op == op && strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

static double speed_by(bench *b, const char *name, flxi_pool *pool, double n)
{
    _Alignas(64) char kept[64];
    const flxi_route *route = find(b->s->op, name);
    b->node.pool = pool;
    b->node.scratch = block_of(route->scratch(&b->node, flxi_pool_threads(pool)));
    b->node.kept = kept;
    route->prepare(&b->node, kept, &mem);
    double speed = speed_of(b, route, n);
    free(b->node.scratch);
    return speed;
}

static void measure(const subject *s, int32_t dtype, int64_t n, flxi_pool *pool)
{
    bench b;
    open_bench(&b, s, dtype, n);
    double blocks = speed_by(&b, "blocks", pool, (double)n);
    double lapack = flxi_lapack_library(NULL) ? speed_by(&b, "lapack", pool, (double)n) : 0;
    double definition = speed_of(&b, NULL, (double)n);
    printf("%-16s %s n %5lld: blocks %7.2f  definition %6.2f  lapack %7.2f GFLOP/s\n", s->name, flx_dtype_name(dtype),
           (long long)n, blocks, definition, lapack);
    for (uint32_t k = 0; k < s->nin + s->nout; k++)
        free(b.data[k]);
}

int main(int argc, char **argv)
{
    static const int64_t usual[] = {32, 64, 128, 256, 512, 1024};
    const char *why = NULL;
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    const char *library = flxi_lapack_library(&why);
    flxi_pool *pool = threads > 1 ? flxi_pool_new(&mem, threads) : NULL;
    printf("%d threads, LAPACK: %s\n", threads, library ? library : why);
    for (size_t k = 0; k < sizeof subjects / sizeof *subjects; k++)
        for (int d = 0; d < 2; d++)
            for (int i = 0; i < (argc > 2 ? argc - 2 : (int)(sizeof usual / sizeof *usual)); i++)
                measure(&subjects[k], d ? FLX_F32 : FLX_F64, argc > 2 ? atoll(argv[i + 2]) : usual[i], pool);
    flxi_pool_free(pool);
    return 0;
}
