/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_dense.c: lu, cholesky, det, inv, solve and solve_triangular on the card, in double, as by definition. Matrices
   are factored and systems are solved in blocks of 32 rows: a kernel for the block, and a product for all that comes
   after it (cuda_dense_text.c). Singular matrices are reported as on other devices. */
#include "backend/cuda/node/cuda_dense.h"

#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

#include <fluxion/run.h>

enum { BLOCK = FLXI_DENSE_BLOCK };
enum { LOAD_PLAIN, LOAD_HERMITIAN, LOAD_IDENTITY };
enum { STORE_ALL, STORE_LOWER, STORE_UPPER };

/* Parts of scratch, in bytes; a, b: matrices in double. */
typedef struct {
    size_t a, b, pivots, bad, all;
} dense_layout;

typedef struct {
    uint64_t batch, m, n, k; /* matrices of [m, n], right-hand sides [n, k] */
    flxi_dense_view a, b, y;
    dense_layout at;
    int32_t variant;
    uint32_t size; /* bytes of a number in double */
    /* solve_triangular, in terms of columns: which half of the matrix as it is read */
    uint32_t is_lower, is_turned, is_unit, is_conjugated;
} dense_table;

_Static_assert(sizeof(dense_table) <= FLXI_CARD_MOST_TABLE, "a table");

/* ---- Nodes ---- */

static int64_t attr_of(const flxi_device_node *n, const char *name)
{
    return flxi_attr_int(&flxi_ops[n->op], n->attrs, name);
}

static bool has_sides(flxi_opcode op)
{
    return op == OP_solve || op == OP_solve_triangular;
}

static const char *refuse(const flxi_device_node *n)
{
    const flx_type *a = n->in_types[0];
    const char *reason = flxi_cuda_dense_refuse(n);
    return !reason && n->op == OP_det && !a->dims[a->rank - 1] ? "for matrices with elements" : reason;
}

/* Matrices in the last two axes, or columns in the last one; leading axes are aligned at the end with those of the
   batch and repeated where they have extent 1. */
static flxi_dense_view view_of(const flx_type *t, const flx_type *lead, int lead_rank, bool is_vector)
{
    flxi_dense_view v = {.rank = (uint32_t)lead_rank};
    int64_t strides[FLX_MAX_RANK];
    int own = t->rank - (is_vector ? 1 : 2);
    flxi_strides(t, strides);
    v.row = strides[own];
    v.col = is_vector ? 0 : strides[own + 1];
    for (int k = 0; k < lead_rank; k++) {
        int axis = k - (lead_rank - own);
        v.extent[k] = lead->dims[k];
        v.step[k] = axis < 0 || t->dims[axis] == 1 ? 0 : strides[axis];
    }
    return v;
}

static void turn(flxi_dense_view *v)
{
    int64_t row = v->row;
    v->row = v->col;
    v->col = row;
}

/* Right-hand sides: b has vectors where it has one axis less than a; for x a = b they are rows. */
static void add_sides(dense_table *t, const flxi_device_node *n, bool is_left)
{
    const flx_type *a = n->in_types[0], *b = n->in_types[1], *y = n->out_types[0];
    bool is_vector = b->rank == a->rank - 1;
    int lead = y->rank - (is_vector ? 1 : 2);
    t->a = view_of(a, y, lead, false);
    t->b = view_of(b, y, lead, is_vector);
    t->y = view_of(y, y, lead, is_vector);
    t->k = is_vector ? 1 : (uint64_t)y->dims[is_left ? y->rank - 1 : y->rank - 2];
    if (!is_left && !is_vector) {
        turn(&t->b);
        turn(&t->y);
    }
    for (int i = 0; i < lead; i++)
        t->batch *= (uint64_t)y->dims[i];
}

static void add_matrices(dense_table *t, const flxi_device_node *n)
{
    const flx_type *a = n->in_types[0];
    t->a = view_of(a, a, a->rank - 2, false);
    t->y = t->a;
    t->k = n->op == OP_inv ? t->n : 0;
    t->batch = flxi_dense_matrices_of(n).batch;
}

/* As flxi_system_triangle() has it. */
static void add_triangle(dense_table *t, const flxi_device_node *n)
{
    enum { TRANS_NONE, TRANS_TRANSPOSE, TRANS_ADJOINT };
    int64_t trans = attr_of(n, "trans");
    bool is_left = attr_of(n, "left_side") != 0;
    t->is_turned = (trans != TRANS_NONE) == is_left;
    t->is_lower = (attr_of(n, "lower") != 0) != (t->is_turned != 0);
    t->is_unit = attr_of(n, "unit_diagonal") != 0;
    t->is_conjugated = trans == TRANS_ADJOINT;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    flxi_dense_matrices a = flxi_dense_matrices_of(n);
    dense_table t = {.batch = 1, .m = a.rows, .n = a.cols, .size = a.size, .variant = a.variant};
    if (has_sides(n->op))
        add_sides(&t, n, n->op == OP_solve || attr_of(n, "left_side"));
    else
        add_matrices(&t, n);
    if (n->op == OP_solve_triangular)
        add_triangle(&t, n);
    if (n->op == OP_cholesky && !attr_of(n, "lower"))
        turn(&t.y);
    t.at.b = flxi_dense_part(t.batch * t.m * t.n * t.size);
    t.at.pivots = t.at.b + flxi_dense_part(t.batch * t.n * t.k * t.size);
    t.at.bad = t.at.pivots + flxi_dense_part(t.batch * t.m * sizeof(int32_t));
    t.at.all = t.at.bad + flxi_dense_part(t.batch * sizeof(int32_t));
    memcpy(table, &t, sizeof t);
    return t.at.all;
}

/* ---- Running ---- */

typedef struct {
    flxi_card *card;
    flxi_cu_stream stream;
    const dense_table *t;
    void *a, *b, *pivots, *bad;
    uint32_t *status;
    flx_error *err;
} dense_run;

static flx_code launch(const dense_run *r, const char *name, uint64_t blocks, void **parameters)
{
    flxi_cu_function f;
    FLXI_TRY(flxi_cuda_own_function(r->card, &flxi_cuda_dense_text, r->t->variant, name, &f, r->err));
    return flxi_cuda_launch_line(r->card, r->stream, f, blocks, FLXI_DENSE_THREADS, parameters, r->err);
}

static uint64_t pieces(uint64_t n, uint64_t piece)
{
    return (n + piece - 1) / piece;
}

static flx_code load(const dense_run *r, const void *from, void *to, const flxi_dense_view *v, uint64_t rows,
                     uint64_t cols, uint32_t kind)
{
    uint64_t all = r->t->batch * rows * cols;
    void *parameters[] = {&from, &to, (void *)(uintptr_t)v, &rows, &cols, &all, &kind};
    return launch(r, "dense_load", pieces(all, FLXI_DENSE_THREADS), parameters);
}

typedef struct {
    uint64_t rows, cols;
    const void *bad; /* or NULL */
    uint32_t part, conjugated;
} dense_result;

static flx_code store(const dense_run *r, const void *from, void *to, const dense_result *y)
{
    dense_result own = *y;
    uint64_t pitch = y->rows * y->cols, all = r->t->batch * pitch;
    void *parameters[] = {
        &from,          &to, (void *)(uintptr_t)&r->t->y, &own.rows, &own.cols, &pitch, &all, &own.bad, &own.part,
        &own.conjugated};
    return launch(r, "dense_store", pieces(all, FLXI_DENSE_THREADS), parameters);
}

/* Status FLX_RUN_SINGULAR where a matrix has a zero on its diagonal. */
static flx_code check(const dense_run *r)
{
    uint64_t n = r->t->n, step = n + 1, all = r->t->batch * n;
    uint32_t flag = FLX_RUN_SINGULAR, *status = r->status;
    void *a = r->a, *parameters[] = {&a, &n, &step, &all, &status, &flag};
    return launch(r, "dense_check", pieces(all, FLXI_DENSE_THREADS), parameters);
}

/* One factor of dense_update; the kernel knows this layout. */
typedef struct {
    uint64_t first, row, col, matrix;
    uint32_t conjugated, reserved;
} update_factor;

typedef struct {
    void *a, *b, *c;
    update_factor of_a, of_b, of_c;
    uint64_t rows, cols;
    uint32_t depth;
} dense_update;

static flx_code update(const dense_run *r, dense_update *u)
{
    flxi_cu_function f;
    uint64_t parts = pieces(u->rows, BLOCK) * pieces(u->cols, BLOCK), blocks = parts * r->t->batch;
    void *parameters[] = {&u->a, &u->b, &u->c, &u->of_a, &u->of_b, &u->of_c, &u->rows, &u->cols, &u->depth, &parts};
    if (blocks == 0)
        return FLX_OK;
    if (blocks > INT32_MAX)
        return flxi_fail(r->err, FLX_E_SIZE, "matrices of %llu tiles are too large", (unsigned long long)blocks);
    FLXI_TRY(flxi_cuda_own_function(r->card, &flxi_cuda_dense_text, r->t->variant, "dense_update", &f, r->err));
    FLXI_CU_TRY(r->card->cu, r->err, LaunchKernel, f, (unsigned)blocks, 1, 1, 32, 8, 1, 0, r->stream, parameters, NULL);
    return FLX_OK;
}

/* ---- Triangles ---- */

/* The triangle of a system; the kernel knows this layout. */
typedef struct {
    uint64_t n, row, col, matrix;
    uint32_t lower, unit, conjugated, reserved;
} triangle;

/* Right-hand sides: columns of matrices with rows of `pitch`. */
typedef struct {
    void *at;
    uint64_t cols, pitch, matrix;
} sides;

/* The rows of a block that begins there. */
static flx_code solve_block(const dense_run *r, const triangle *t, const sides *b, uint64_t begin, uint32_t w)
{
    sides own = *b;
    uint64_t parts = pieces(b->cols, FLXI_DENSE_THREADS);
    void *a = r->a;
    void *parameters[] = {&a, &own.at, (void *)(uintptr_t)t, &own.pitch, &own.matrix, &begin, &w, &parts, &own.cols};
    return launch(r, "triangle_block", parts * r->t->batch, parameters);
}

/* b [n, k] becomes the solution of t x = b: after each block its part in the rows that are left is subtracted. */
static flx_code solve_triangle(const dense_run *r, const triangle *t, void *b, uint64_t k)
{
    for (uint64_t done = 0; done < t->n; done += BLOCK) {
        uint64_t left = t->n - done, w = left < BLOCK ? left : BLOCK;
        uint64_t begin = t->lower ? done : left - w, rest = t->lower ? begin + w : 0;
        const sides columns = {b, k, k, t->n * k};
        FLXI_TRY(solve_block(r, t, &columns, begin, (uint32_t)w));
        dense_update u = {.a = r->a,
                          .b = b,
                          .c = b,
                          .of_a = {rest * t->row + begin * t->col, t->row, t->col, t->matrix, t->conjugated, 0},
                          .of_b = {begin * k, k, 1, t->n * k, 0, 0},
                          .of_c = {rest * k, k, 1, t->n * k, 0, 0},
                          .rows = left - w,
                          .cols = k,
                          .depth = (uint32_t)w};
        FLXI_TRY(update(r, &u));
    }
    return FLX_OK;
}

/* ---- Factors ---- */

/* Columns after a panel: rows of the panel are solved with its unit triangle, the others lose their product. */
static flx_code finish_panel(const dense_run *r, uint64_t begin, uint64_t w)
{
    const dense_table *t = r->t;
    uint64_t m = t->m, n = t->n, end = begin + w, cols = n - end, matrix = m * n;
    const triangle unit = {.n = n, .row = n, .col = 1, .matrix = matrix, .lower = 1, .unit = 1};
    const sides columns = {(unsigned char *)r->a + end * t->size, cols, n, matrix};
    if (cols == 0)
        return FLX_OK;
    FLXI_TRY(solve_block(r, &unit, &columns, begin, (uint32_t)w));
    dense_update u = {.a = r->a,
                      .b = r->a,
                      .c = r->a,
                      .of_a = {end * n + begin, n, 1, matrix, 0, 0},
                      .of_b = {begin * n + end, n, 1, matrix, 0, 0},
                      .of_c = {end * n + end, n, 1, matrix, 0, 0},
                      .rows = m > end ? m - end : 0,
                      .cols = cols,
                      .depth = (uint32_t)w};
    return update(r, &u);
}

static flx_code factor(const dense_run *r)
{
    const dense_table *t = r->t;
    uint64_t m = t->m, n = t->n, steps = m < n ? m : n;
    for (uint64_t begin = 0; begin < steps; begin += BLOCK) {
        uint64_t end = begin + BLOCK < steps ? begin + BLOCK : steps;
        void *a = r->a, *pivots = r->pivots, *parameters[] = {&a, &pivots, &m, &n, &begin, &end, &steps};
        FLXI_TRY(launch(r, "lu_panel", t->batch, parameters));
        FLXI_TRY(finish_panel(r, begin, end - begin));
    }
    return FLX_OK;
}

static flx_code factor_hermitian(const dense_run *r)
{
    const dense_table *t = r->t;
    uint64_t n = t->n, matrix = n * n;
    uint32_t flag = FLX_RUN_SINGULAR, *status = r->status;
    for (uint64_t begin = 0; begin < n; begin += BLOCK) {
        uint32_t w = (uint32_t)(n - begin < BLOCK ? n - begin : BLOCK);
        uint64_t end = begin + w, parts = pieces(n - end, FLXI_DENSE_THREADS);
        void *a = r->a, *bad = r->bad, *block[] = {&a, &bad, &n, &begin, &w, &status, &flag};
        void *rows[] = {&a, &n, &begin, &w, &parts};
        FLXI_TRY(launch(r, "cholesky_block", t->batch, block));
        FLXI_TRY(launch(r, "cholesky_rows", parts * t->batch, rows));
        dense_update u = {.a = r->a,
                          .b = r->a,
                          .c = r->a,
                          .of_a = {end * n + begin, n, 1, matrix, 0, 0},
                          .of_b = {end * n + begin, 1, n, matrix, 1, 0},
                          .of_c = {end * n + end, n, 1, matrix, 0, 0},
                          .rows = n - end,
                          .cols = n - end,
                          .depth = w};
        FLXI_TRY(update(r, &u));
    }
    return FLX_OK;
}

/* ---- Ops ---- */

static flx_code run_lu(const dense_run *r, const flxi_node_step *s)
{
    const dense_table *t = r->t;
    uint64_t m = t->m, steps = t->m < t->n ? t->m : t->n, all = t->batch;
    void *pivots = r->pivots;
    void *order[] = {&pivots, (void *)(uintptr_t)&s->out[1], (void *)(uintptr_t)&s->out[2], &m, &steps, &all};
    const dense_result y = {.rows = t->m, .cols = t->n};
    FLXI_TRY(load(r, s->in[0], r->a, &t->a, t->m, t->n, LOAD_PLAIN));
    FLXI_TRY(factor(r));
    FLXI_TRY(launch(r, "lu_order", pieces(all, FLXI_DENSE_THREADS), order));
    return store(r, r->a, s->out[0], &y);
}

static flx_code run_determinant(const dense_run *r, const flxi_node_step *s)
{
    const dense_table *t = r->t;
    uint64_t n = t->n, all = t->batch;
    void *a = r->a, *pivots = r->pivots, *parameters[] = {&a, &pivots, (void *)(uintptr_t)&s->out[0], &n, &all};
    FLXI_TRY(load(r, s->in[0], r->a, &t->a, t->n, t->n, LOAD_PLAIN));
    FLXI_TRY(factor(r));
    return launch(r, "lu_determinant", pieces(all, FLXI_DENSE_THREADS), parameters);
}

static flx_code run_cholesky(const dense_run *r, const flxi_node_step *s)
{
    const dense_table *t = r->t;
    bool is_lower = attr_of(s->node, "lower") != 0;
    const dense_result y = {t->n, t->n, r->bad, STORE_LOWER, !is_lower};
    FLXI_TRY(load(r, s->in[0], r->a, &t->a, t->n, t->n, LOAD_HERMITIAN));
    FLXI_TRY(factor_hermitian(r));
    return store(r, r->a, s->out[0], &y);
}

static flx_code run_system(const dense_run *r, const flxi_node_step *s)
{
    const dense_table *t = r->t;
    uint64_t n = t->n, k = t->k, all = t->batch * k;
    bool is_inverse = s->node->op == OP_inv;
    const triangle lower = {.n = n, .row = n, .col = 1, .matrix = n * n, .lower = 1, .unit = 1};
    const triangle upper = {.n = n, .row = n, .col = 1, .matrix = n * n};
    const dense_result y = {.rows = n, .cols = k};
    void *b = r->b, *pivots = r->pivots, *exchange[] = {&b, &pivots, &n, &k, &all};
    FLXI_TRY(load(r, s->in[0], r->a, &t->a, n, n, LOAD_PLAIN));
    FLXI_TRY(load(r, is_inverse ? NULL : s->in[1], r->b, &t->b, n, k, is_inverse ? LOAD_IDENTITY : LOAD_PLAIN));
    FLXI_TRY(factor(r));
    FLXI_TRY(check(r));
    FLXI_TRY(launch(r, "lu_exchange", pieces(all, FLXI_DENSE_THREADS), exchange));
    FLXI_TRY(solve_triangle(r, &lower, r->b, k));
    FLXI_TRY(solve_triangle(r, &upper, r->b, k));
    return store(r, r->b, s->out[0], &y);
}

static flx_code run_triangular(const dense_run *r, const flxi_node_step *s)
{
    const dense_table *t = r->t;
    uint64_t n = t->n;
    const triangle own = {.n = n,
                          .row = t->is_turned ? 1 : n,
                          .col = t->is_turned ? n : 1,
                          .matrix = n * n,
                          .lower = t->is_lower,
                          .unit = t->is_unit,
                          .conjugated = t->is_conjugated};
    const dense_result y = {.rows = n, .cols = t->k};
    FLXI_TRY(load(r, s->in[0], r->a, &t->a, n, n, LOAD_PLAIN));
    FLXI_TRY(load(r, s->in[1], r->b, &t->b, n, t->k, LOAD_PLAIN));
    if (!t->is_unit)
        FLXI_TRY(check(r));
    FLXI_TRY(solve_triangle(r, &own, r->b, t->k));
    return store(r, r->b, s->out[0], &y);
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    const dense_table *t = s->way->table;
    unsigned char *scratch = s->scratch;
    const dense_run r = {c->card,
                         c->stream,
                         t,
                         scratch,
                         scratch + t->at.b,
                         scratch + t->at.pivots,
                         scratch + t->at.bad,
                         &c->card->finding->status,
                         err};
    switch (s->node->op) {
    case OP_lu: return run_lu(&r, s);
    case OP_cholesky: return run_cholesky(&r, s);
    case OP_det: return run_determinant(&r, s);
    case OP_solve_triangular: return run_triangular(&r, s);
    default: return run_system(&r, s);
    }
}

const flxi_card_way flxi_cuda_dense = {
    .name = "blocks", .refuse = refuse, .table_bytes = sizeof(dense_table), .prepare = prepare, .run = run};
