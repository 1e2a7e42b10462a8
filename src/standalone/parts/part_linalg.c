/* SPDX-License-Identifier: Apache-2.0 */
/* part_linalg.c: linear systems and factorisations of dense matrices, in double or double _Complex whatever the dtype,
   by the functions of the reference evaluator (numeric/linalg/dense_body.h). Matrices are copied to scratch memory. A
   singular matrix gives infinities and NaNs. With vectors, large real ones are computed by blocks (factor_text.h). */
#include "numeric/linalg/dense.h"
#include "ops/linalg/solve/linear_system.h"
#include "ops/opcode.h"
#include "standalone/parts/factor_text.h"

typedef struct {
    flxi_sa_writer *w;
    bool is_complex;
    const char *num;    /* the type of numbers */
    const char *number; /* the function that makes one of two parts */
    int64_t n, k;       /* of a matrix of a system, and columns of its right-hand side */
} algebra;

/* A function of numeric/linalg/dense_body.h for the numbers. */
static const char *function_of(const algebra *g, const char *name)
{
    return flxi_sa_borrow(g->w->f, g->is_complex ? "complex" : "real", name);
}

static algebra algebra_of(flxi_sa_writer *w)
{
    algebra g = {.w = w, .is_complex = flxi_is_complex(w->n->out_types[0]->dtype), .number = ""};
    g.num = g.is_complex ? "double _Complex" : "double";
    if (g.is_complex)
        g.number = flxi_sa_borrow(w->f, "complex_arith.h", "flxi_cmake");
    return g;
}

/* b, with k columns, becomes the solution of the system with a triangle in a. */
static void write_triangle(const algebra *g, const flxi_triangle *t, int64_t k)
{
    const char *type = flxi_sa_borrow(g->w->f, "dense.h", "flxi_triangle"), *solve = function_of(g, "triangular");
    flxi_sa_open(g->w, "/* a %s triangle */", t->lower ? "lower" : "upper");
    flxi_sa_line(g->w, "const %s triangle = {%lld, %lld, %lld, %d, %d, %d};", type, (long long)t->n, (long long)t->row,
                 (long long)t->col, t->lower, t->unit, t->conjugated);
    flxi_sa_line(g->w, "%s(a, &triangle, b, %lld);", solve, (long long)k);
    flxi_sa_close(g->w);
}

/* Likewise for the factors in a and the pivots of `lu`. */
static void write_factored(const algebra *g, int64_t n, int64_t k)
{
    flxi_sa_line(g->w, "%s(b, %lld, pivots, %lld);", function_of(g, "exchange_rows"), (long long)k, (long long)n);
    write_triangle(g, &(flxi_triangle){.n = n, .row = n, .col = 1, .lower = true, .unit = true}, k);
    write_triangle(g, &(flxi_triangle){.n = n, .row = n, .col = 1}, k);
}

/* ---- Matrices ---- */

/* Copies a matrix: element (i, j) of `to` [rows, columns] from element i row + j column of `from`. */
static void write_load(const algebra *g, const char *to, const char *from, int64_t rows, int64_t columns, int64_t row,
                       int64_t column)
{
    flxi_sa_writer *w = g->w;
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)rows);
    flxi_sa_line(w, "    for (int64_t j = 0; j < %lld; j++)", (long long)columns);
    const char *at = flxi_sa_print(w, "i * %lld + j * %lld", (long long)row, (long long)column);
    if (g->is_complex)
        flxi_sa_line(w, "        %s[i * %lld + j] = %s(%s[2 * (%s)], %s[2 * (%s) + 1]);", to, (long long)columns,
                     g->number, from, at, from, at);
    else
        flxi_sa_line(w, "        %s[i * %lld + j] = %s[%s];", to, (long long)columns, from, at);
}

static void write_store(const algebra *g, const char *to, const char *from, int64_t rows, int64_t columns, int64_t row,
                        int64_t column)
{
    flxi_sa_writer *w = g->w;
    const char *type = flxi_sa_type(w->n->out_types[0]->dtype);
    const char *at = flxi_sa_print(w, "i * %lld + j * %lld", (long long)row, (long long)column);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)rows);
    flxi_sa_open(w, "    for (int64_t j = 0; j < %lld; j++)", (long long)columns);
    if (g->is_complex) {
        flxi_sa_line(w, "%s[2 * (%s)] = (%s)creal(%s[i * %lld + j]);", to, at, type, from, (long long)columns);
        flxi_sa_line(w, "%s[2 * (%s) + 1] = (%s)cimag(%s[i * %lld + j]);", to, at, type, from, (long long)columns);
    } else {
        flxi_sa_line(w, "%s[%s] = (%s)%s[i * %lld + j];", to, at, type, from, (long long)columns);
    }
    flxi_sa_close(w);
}

/* ---- Systems ---- */

typedef struct {
    const flx_type *a, *b, *y;
    bool is_vector, is_left;
    int lead; /* axes of y before those of a system */
} systems;

static bool on_left(const flxi_device_node *n)
{
    return n->op != OP_solve_triangular || flxi_sa_int(n, "left_side");
}

static systems systems_of(const flxi_device_node *n)
{
    systems s = {.a = n->in_types[0], .b = n->in_types[1], .y = n->out_types[0], .is_left = on_left(n)};
    s.is_vector = flxi_is_vector_system(s.a, s.b);
    s.lead = s.y->rank - (s.is_vector ? 1 : 2);
    return s;
}

static int64_t columns_of(const systems *s)
{
    return s->is_vector ? 1 : s->is_left ? s->y->dims[s->y->rank - 1] : s->y->dims[s->y->rank - 2];
}

/* The position of the system's part of a tensor whose last `own` axes belong to one system. */
static const char *part_at(flxi_sa_writer *w, const systems *s, const char *name, const flx_type *t, int own)
{
    int64_t strides[FLX_MAX_RANK];
    const char *at = name;
    const char *times = flxi_is_complex(t->dtype) ? "2 * " : "";
    flxi_strides(t, strides);
    for (int k = 0; k < s->lead; k++) {
        int mine = k - (s->lead - (t->rank - own));
        if (mine >= 0 && t->dims[mine] > 1)
            at = flxi_sa_print(w, "%s + %sn%d * %lld", at, times, k, (long long)strides[mine]);
    }
    return at;
}

static void open_systems(flxi_sa_writer *w, const systems *s)
{
    for (int k = 0; k < s->lead; k++)
        flxi_sa_open(w, "for (int64_t n%d = 0; n%d < %lld; n%d++)", k, k, (long long)s->y->dims[k], k);
    flxi_sa_line(w, "const %s *from = %s;", flxi_sa_type(s->a->dtype), part_at(w, s, "x0", s->a, 2));
    flxi_sa_line(w, "const %s *side = %s;", flxi_sa_type(s->b->dtype), part_at(w, s, "x1", s->b, s->is_vector ? 1 : 2));
    flxi_sa_line(w, "%s *to = %s;", flxi_sa_type(s->y->dtype), part_at(w, s, "y0", s->y, s->is_vector ? 1 : 2));
}

size_t flxi_sa_systems_scratch(const flxi_device_node *n)
{
    systems s = systems_of(n);
    if (flxi_sa_count(s.y) == 0)
        return 0;
    size_t size = flxi_is_complex(s.y->dtype) ? 16 : 8, order = (size_t)s.a->dims[s.a->rank - 1];
    return size * order * (order + (size_t)columns_of(&s)) + 8 * order + 64;
}

static void declare_scratch(const algebra *g)
{
    flxi_sa_writer *w = g->w;
    flxi_sa_line(w, "%s *const a = (%s *)scratch, *const b = a + %lld;", g->num, g->num, (long long)(g->n * g->n));
}

void flxi_sa_solve(flxi_sa_writer *w)
{
    systems s = systems_of(w->n);
    if (flxi_sa_count(s.y) == 0)
        return;
    algebra g = algebra_of(w);
    g.n = s.a->dims[s.a->rank - 1];
    g.k = columns_of(&s);
    declare_scratch(&g);
    flxi_sa_line(w, "int64_t *const pivots = (int64_t *)(b + %lld);", (long long)(g.n * g.k));
    open_systems(w, &s);
    write_load(&g, "a", "from", g.n, g.n, g.n, 1);
    write_load(&g, "b", "side", g.n, g.k, g.k, 1);
    flxi_sa_line(w, "%s(a, %lld, %lld, pivots);", function_of(&g, "lu"), (long long)g.n, (long long)g.n);
    write_factored(&g, g.n, g.k);
    write_store(&g, "to", "b", g.n, g.k, g.k, 1);
    for (int k = 0; k < s.lead; k++)
        flxi_sa_close(w);
}

void flxi_sa_triangular(flxi_sa_writer *w)
{
    systems s = systems_of(w->n);
    if (flxi_sa_count(s.y) == 0)
        return;
    algebra g = algebra_of(w);
    g.n = s.a->dims[s.a->rank - 1];
    g.k = columns_of(&s);
    flxi_triangle t = flxi_system_triangle(flxi_sa_int(w->n, "lower"), (flxi_trans)flxi_sa_int(w->n, "trans"),
                                           flxi_sa_int(w->n, "unit_diagonal"), s.is_left, g.n);
    int64_t row = s.is_left ? g.k : 1, column = s.is_left ? 1 : g.n;
    declare_scratch(&g);
    open_systems(w, &s);
    write_load(&g, "a", "from", g.n, g.n, g.n, 1);
    write_load(&g, "b", "side", g.n, g.k, s.is_vector ? 1 : row, s.is_vector ? 0 : column);
    write_triangle(&g, &t, g.k);
    write_store(&g, "to", "b", g.n, g.k, s.is_vector ? 1 : row, s.is_vector ? 0 : column);
    for (int k = 0; k < s.lead; k++)
        flxi_sa_close(w);
}

/* ---- Factors ---- */

static int64_t matrices(const flx_type *t)
{
    int64_t own = t->dims[t->rank - 1] * t->dims[t->rank - 2];
    return own ? flxi_sa_count(t) / own : 0;
}

size_t flxi_sa_factor_scratch(const flxi_device_node *n)
{
    const flx_type *t = n->in_types[0];
    if (flxi_sa_count(t) == 0)
        return 0;
    size_t size = flxi_is_complex(t->dtype) ? 16 : 8, rows = (size_t)t->dims[t->rank - 2],
           columns = (size_t)t->dims[t->rank - 1], most = rows > columns ? rows : columns;
    return 2 * size * most * most + 16 * most + 64;
}

/* for each matrix of x0: a, and room after it */
static void open_matrices(const algebra *g, const flx_type *t, int64_t result)
{
    flxi_sa_writer *w = g->w;
    int64_t count = t->dims[t->rank - 1] * t->dims[t->rank - 2];
    const char *times = g->is_complex ? "2 * " : "";
    flxi_sa_line(w, "%s *const a = (%s *)scratch;", g->num, g->num);
    flxi_sa_open(w, "for (int64_t n = 0; n < %lld; n++)", (long long)matrices(t));
    flxi_sa_line(w, "const %s *from = x0 + %sn * %lld;", flxi_sa_type(t->dtype), times, (long long)count);
    flxi_sa_line(w, "%s *to = y0 + %sn * %lld;", flxi_sa_type(t->dtype), times, (long long)result);
    write_load(g, "a", "from", t->dims[t->rank - 2], t->dims[t->rank - 1], t->dims[t->rank - 1], 1);
}

static void write_pivots(const algebra *g, int64_t m, int64_t n, int64_t after)
{
    flxi_sa_line(g->w, "int64_t *const pivots = (int64_t *)(a + %lld);", (long long)after);
    flxi_sa_line(g->w, "%s(a, %lld, %lld, pivots);", function_of(g, "lu"), (long long)m, (long long)n);
}

/* Pivots as i32, and the order of rows that they make. */
static void write_order(flxi_sa_writer *w, long long m, long long steps)
{
    flxi_sa_line(w, "int32_t *const order = y2 + n * %lld;", m);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", m);
    flxi_sa_line(w, "    order[i] = (int32_t)i;");
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", steps);
    flxi_sa_line(w, "const int32_t row = order[i];");
    flxi_sa_line(w, "y1[n * %lld + i] = (int32_t)pivots[i];", steps);
    flxi_sa_line(w, "order[i] = order[pivots[i]];");
    flxi_sa_line(w, "order[pivots[i]] = row;");
    flxi_sa_close(w);
}

void flxi_sa_lu(flxi_sa_writer *w)
{
    const flx_type *t = w->n->in_types[0];
    int64_t m = t->dims[t->rank - 2], n = t->dims[t->rank - 1], steps = m < n ? m : n;
    if (flxi_sa_count(w->n->out_types[2]) == 0)
        return;
    if (n == 0) { /* nothing is exchanged */
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)flxi_sa_count(w->n->out_types[2]));
        flxi_sa_line(w, "    y2[i] = (int32_t)(i %% %lld);", (long long)m);
        return;
    }
    algebra g = algebra_of(w);
    open_matrices(&g, t, m * n);
    write_pivots(&g, m, n, m * n);
    write_store(&g, "to", "a", m, n, n, 1);
    write_order(w, (long long)m, (long long)steps);
    flxi_sa_close(w);
}

void flxi_sa_cholesky(flxi_sa_writer *w)
{
    const flx_type *t = w->n->in_types[0];
    int64_t n = t->dims[t->rank - 1];
    bool lower = flxi_sa_int(w->n, "lower");
    if (flxi_sa_count(t) == 0)
        return;
    algebra g = algebra_of(w);
    open_matrices(&g, t, n * n);
    flxi_sa_line(w, "if (!%s(a, %lld))", function_of(&g, "cholesky"), (long long)n);
    flxi_sa_line(w, "    for (int64_t i = 0; i < %lld; i++)", (long long)(n * n));
    flxi_sa_line(w, "        a[i] = NAN; /* not positive definite */");
    if (!lower && g.is_complex) {
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)(n * n));
        flxi_sa_line(w, "    a[i] = conj(a[i]);");
    }
    write_store(&g, "to", "a", n, n, lower ? n : 1, lower ? 1 : n);
    flxi_sa_close(w);
}

/* Each matrix gives one of its size: write_result() makes b of the factors in a and the pivots. */
static void write_squares(flxi_sa_writer *w, void (*write_result)(const algebra *g, int64_t n))
{
    const flx_type *t = w->n->in_types[0];
    int64_t n = t->dims[t->rank - 1];
    if (flxi_sa_count(t) == 0)
        return;
    algebra g = algebra_of(w);
    open_matrices(&g, t, n * n);
    write_pivots(&g, n, n, 2 * n * n);
    flxi_sa_line(w, "%s *const b = a + %lld;", g.num, (long long)(n * n));
    write_result(&g, n);
    write_store(&g, "to", "b", n, n, n, 1);
    flxi_sa_close(w);
}

static void write_inverse(const algebra *g, int64_t n)
{
    flxi_sa_line(g->w, "for (int64_t i = 0; i < %lld; i++)", (long long)(n * n));
    flxi_sa_line(g->w, "    b[i] = i %% %lld == 0;", (long long)n + 1);
    write_factored(g, n, n);
}

static void write_adjugate(const algebra *g, int64_t n)
{
    flxi_sa_line(g->w, "%s(a, %lld, pivots, b);", function_of(g, "adjugate"), (long long)n);
}

void flxi_sa_inverse(flxi_sa_writer *w)
{
    write_squares(w, write_inverse);
}

void flxi_sa_adjugate(flxi_sa_writer *w)
{
    write_squares(w, write_adjugate);
}

void flxi_sa_determinant(flxi_sa_writer *w)
{
    const flx_type *t = w->n->in_types[0];
    long long n = (long long)t->dims[t->rank - 1];
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    algebra g = algebra_of(w);
    if (n == 0) {
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)",
                     (long long)flxi_sa_count(w->n->out_types[0]) * (g.is_complex ? 2 : 1));
        flxi_sa_line(w, g.is_complex ? "    y0[i] = i %% 2 == 0;" : "    y0[i] = 1;");
        return;
    }
    open_matrices(&g, t, 1);
    write_pivots(&g, n, n, n * n);
    flxi_sa_line(w, "%s product[1];", g.num);
    flxi_sa_line(w, "%s(a, %lld, pivots, product);", function_of(&g, "determinant"), n);
    write_store(&g, "to", "product", 1, 1, 1, 1);
    flxi_sa_close(w);
}

/* a = q r: q and r are in scratch memory, with room for one column of q more. */
size_t flxi_sa_qr_scratch(const flxi_device_node *n)
{
    const flx_type *t = n->in_types[0];
    if (flxi_sa_count(t) == 0)
        return 0;
    size_t size = flxi_is_complex(t->dtype) ? 16 : 8, rows = (size_t)t->dims[t->rank - 2],
           columns = (size_t)t->dims[t->rank - 1], steps = rows < columns ? rows : columns;
    return size * rows * (columns + steps + 1);
}

void flxi_sa_qr(flxi_sa_writer *w)
{
    const flx_type *t = w->n->in_types[0];
    int64_t m = t->dims[t->rank - 2], n = t->dims[t->rank - 1], steps = m < n ? m : n;
    if (flxi_sa_count(t) == 0)
        return;
    algebra g = algebra_of(w);
    open_matrices(&g, t, m * steps);
    flxi_sa_line(w, "%s *const q = a + %lld;", g.num, (long long)(m * n));
    flxi_sa_line(w, "%s *r = y1 + %sn * %lld;", flxi_sa_type(t->dtype), g.is_complex ? "2 * " : "",
                 (long long)(steps * n));
    flxi_sa_line(w, "%s(a, %lld, %lld, q);", function_of(&g, "qr"), (long long)m, (long long)n);
    write_store(&g, "to", "q", m, steps, steps, 1);
    write_store(&g, "r", "a", steps, n, n, 1);
    flxi_sa_close(w);
}

/* ---- Blocks: large real matrices with vectors, in their own precision ---- */

enum { LEAST_FOR_BLOCKS = 32, LEAST_IN_BATCH = 4, MANY = 64, MOST_FOR_BLOCKS = 16384 };

/* Those that the device `cpu` computes by blocks too. */
const char *flxi_sa_blocks_applies(const flxi_device_node *n)
{
    const flx_type *a = n->in_types[0], *y = n->out_types[0];
    int64_t rows = a->dims[a->rank - 2], columns = a->dims[a->rank - 1], count = matrices(a);
    if (y->dtype != FLX_F32 && y->dtype != FLX_F64)
        return "only f32 and f64";
    if (flxi_sa_count(y) == 0 || flxi_sa_count(a) == 0)
        return "nothing to compute";
    if (n->nin == 2) {
        systems s = systems_of(n);
        count = 1;
        for (int k = 0; k < s.lead; k++)
            count *= y->dims[k];
    }
    int64_t least = count < MANY ? LEAST_FOR_BLOCKS : LEAST_IN_BATCH;
    if (rows < least || columns < least)
        return "too small for blocks";
    return rows < columns || rows >= MOST_FOR_BLOCKS ? "blocks have at least as many rows as columns" : NULL;
}

/* Numbers in scratch memory: a matrix, 8 of its columns, right-hand sides that are turned, and columns of products. */
static size_t block_numbers(const flxi_device_node *n)
{
    const flx_type *a = n->in_types[0];
    int64_t rows = a->dims[a->rank - 2], sides = 0;
    if (n->op == OP_solve_triangular) {
        systems s = systems_of(n);
        sides = columns_of(&s);
    }
    return (size_t)(rows * (a->dims[a->rank - 1] + 8 + sides) + flxi_sa_factor_columns(rows, a->dtype));
}

/* Then pivots. */
static size_t pivots_offset(const flxi_device_node *n)
{
    return (block_numbers(n) * flx_dtype_size(n->in_types[0]->dtype) + 63) / 64 * 64;
}

size_t flxi_sa_blocks_scratch(const flxi_device_node *n)
{
    const flx_type *a = n->in_types[0];
    return pivots_offset(n) + sizeof(int64_t) * (size_t)a->dims[a->rank - 2];
}

typedef struct {
    flxi_sa_writer *w;
    int32_t dtype;
    const char *type;
    long long n, k; /* rows of a matrix, right-hand sides */
} blocks;

/* `matrix`, `turned`, `columns`, `sides` and `pivots` in scratch memory. */
static blocks open_blocks(flxi_sa_writer *w, int64_t sides, bool has_lu)
{
    const flx_type *a = w->n->in_types[0];
    long long n = (long long)a->dims[a->rank - 2], m = (long long)a->dims[a->rank - 1];
    blocks b = {.w = w, .dtype = a->dtype, .type = flxi_sa_type(a->dtype), .n = n, .k = (long long)sides};
    flxi_sa_line(w, "%s *const matrix = (%s *)scratch, *const turned = matrix + %lld;", b.type, b.type, n * m);
    flxi_sa_line(w, "%s *const columns = turned + %lld;", b.type, 8 * n);
    if (has_lu)
        flxi_sa_line(w, "int64_t *const pivots = (int64_t *)(scratch + %zu);", pivots_offset(w->n));
    flxi_sa_line(w, "(void)matrix, (void)turned;");
    return b;
}

static void write_lu_blocks(const blocks *b, const char *matrix, long long columns)
{
    flxi_sa_line(b->w, "%s(%s, %lld, %lld, pivots, turned, columns);", flxi_sa_factor(b->w, SA_BLOCKS_LU, b->dtype),
                 matrix, b->n, columns);
}

static void write_triangle_blocks(const blocks *b, const char *t, const flxi_triangle *how, const char *sides)
{
    flxi_sa_line(b->w, "%s(%s, %lld, %lld, %lld, %d, %d, %s, %lld, columns);",
                 flxi_sa_factor(b->w, SA_BLOCKS_TRIANGLE, b->dtype), t, b->n, (long long)how->row, (long long)how->col,
                 how->lower, how->unit, sides, b->k);
}

/* `to`, exchanged right-hand sides, becomes the solution. */
static void write_factors_blocks(const blocks *b)
{
    write_triangle_blocks(b, "matrix", &(flxi_triangle){.n = b->n, .row = b->n, .col = 1, .lower = true, .unit = true},
                          "to");
    write_triangle_blocks(b, "matrix", &(flxi_triangle){.n = b->n, .row = b->n, .col = 1}, "to");
}

/* Rows of `to` in the order of the pivots. */
static void write_exchanges(const blocks *b)
{
    flxi_sa_open(b->w, "for (int64_t i = 0; i < %lld; i++)", b->n);
    flxi_sa_line(b->w, "for (int64_t j = 0; j < %lld && pivots[i] != i; j++) {", b->k);
    flxi_sa_line(b->w, "    const %s x = to[i * %lld + j];", b->type, b->k);
    flxi_sa_line(b->w, "    to[i * %lld + j] = to[pivots[i] * %lld + j];", b->k, b->k);
    flxi_sa_line(b->w, "    to[pivots[i] * %lld + j] = x;", b->k);
    flxi_sa_line(b->w, "}");
    flxi_sa_close(b->w);
}

void flxi_sa_solve_blocks(flxi_sa_writer *w)
{
    systems s = systems_of(w->n);
    blocks b = open_blocks(w, columns_of(&s), true);
    open_systems(w, &s);
    flxi_sa_line(w, "memcpy(matrix, from, %lld * sizeof *matrix);", b.n * b.n);
    write_lu_blocks(&b, "matrix", b.n);
    flxi_sa_line(w, "memcpy(to, side, %lld * sizeof *to);", b.n * b.k);
    write_exchanges(&b);
    write_factors_blocks(&b);
    for (int k = 0; k < s.lead; k++)
        flxi_sa_close(w);
}

void flxi_sa_inverse_blocks(flxi_sa_writer *w)
{
    const flx_type *t = w->n->in_types[0];
    blocks b = open_blocks(w, t->dims[t->rank - 1], true);
    flxi_sa_open(w, "for (int64_t n = 0; n < %lld; n++)", (long long)matrices(t));
    flxi_sa_line(w, "%s *const to = y0 + n * %lld;", b.type, b.n * b.n);
    flxi_sa_line(w, "memcpy(matrix, x0 + n * %lld, %lld * sizeof *matrix);", b.n * b.n, b.n * b.n);
    write_lu_blocks(&b, "matrix", b.n);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", b.n * b.n);
    flxi_sa_line(w, "    to[i] = i %% %lld == 0;", b.n + 1);
    write_exchanges(&b);
    write_factors_blocks(&b);
    flxi_sa_close(w);
}

/* Systems in rows are turned on the way in and out. */
void flxi_sa_triangular_blocks(flxi_sa_writer *w)
{
    systems s = systems_of(w->n);
    blocks b = open_blocks(w, columns_of(&s), false);
    flxi_triangle t = flxi_system_triangle(flxi_sa_int(w->n, "lower"), (flxi_trans)flxi_sa_int(w->n, "trans"),
                                           flxi_sa_int(w->n, "unit_diagonal"), s.is_left, b.n);
    bool is_turned = !s.is_left;
    if (is_turned)
        flxi_sa_line(w, "%s *const sides = columns + %lld;", b.type, (long long)flxi_sa_factor_columns(b.n, b.dtype));
    open_systems(w, &s);
    if (is_turned) {
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", b.n * b.k);
        flxi_sa_line(w, "    sides[i] = side[i %% %lld * %lld + i / %lld];", b.k, b.n, b.k);
    } else {
        flxi_sa_line(w, "memcpy(to, side, %lld * sizeof *to);", b.n * b.k);
    }
    write_triangle_blocks(&b, "from", &t, is_turned ? "sides" : "to");
    if (is_turned) {
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", b.n * b.k);
        flxi_sa_line(w, "    to[i %% %lld * %lld + i / %lld] = sides[i];", b.k, b.n, b.k);
    }
    for (int k = 0; k < s.lead; k++)
        flxi_sa_close(w);
}

void flxi_sa_lu_blocks(flxi_sa_writer *w)
{
    const flx_type *t = w->n->in_types[0];
    long long columns = (long long)t->dims[t->rank - 1];
    blocks b = open_blocks(w, 0, true);
    flxi_sa_open(w, "for (int64_t n = 0; n < %lld; n++)", (long long)matrices(t));
    flxi_sa_line(w, "%s *const to = y0 + n * %lld;", b.type, b.n * columns);
    flxi_sa_line(w, "memcpy(to, x0 + n * %lld, %lld * sizeof *to);", b.n * columns, b.n * columns);
    write_lu_blocks(&b, "to", columns);
    write_order(w, b.n, columns);
    flxi_sa_close(w);
}

void flxi_sa_cholesky_blocks(flxi_sa_writer *w)
{
    const flx_type *t = w->n->in_types[0];
    bool lower = flxi_sa_int(w->n, "lower");
    blocks b = open_blocks(w, 0, false);
    flxi_sa_open(w, "for (int64_t n = 0; n < %lld; n++)", (long long)matrices(t));
    flxi_sa_line(w, "const %s *from = x0 + n * %lld;", b.type, b.n * b.n);
    flxi_sa_line(w, "%s *const to = y0 + n * %lld;", b.type, b.n * b.n);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", b.n);
    flxi_sa_line(w, "    for (int64_t j = i; j < %lld; j++)", b.n);
    flxi_sa_line(w, "        to[i * %lld + j] = (from[i * %lld + j] + from[j * %lld + i]) * (%s)0.5;", b.n, b.n, b.n,
                 b.type);
    flxi_sa_line(w, "const int is_definite = %s(to, %lld, columns);", flxi_sa_factor(w, SA_BLOCKS_CHOLESKY, b.dtype),
                 b.n);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", b.n);
    flxi_sa_open(w, "    for (int64_t j = i + 1; j < %lld; j++)", b.n);
    flxi_sa_line(w, lower ? "to[j * %lld + i] = to[i * %lld + j];" : "to[j * %lld + i] = 0;", b.n, b.n);
    flxi_sa_line(w, lower ? "to[i * %lld + j] = 0;" : "(void)0;", b.n);
    flxi_sa_close(w);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld && !is_definite; i++)", b.n * b.n);
    flxi_sa_line(w, "    to[i] = NAN; /* not positive definite */");
    flxi_sa_close(w);
}

/* ---- Sparse systems: the matrix is made dense ---- */

static int64_t sides_of(const flxi_device_node *n)
{
    const flx_type *y = n->out_types[0];
    return y->rank > 1 ? y->dims[1] : 1;
}

size_t flxi_sa_sparse_scratch(const flxi_device_node *n)
{
    size_t order = (size_t)n->out_types[0]->dims[0], size = flxi_is_complex(n->out_types[0]->dtype) ? 16 : 8;
    return flxi_sa_count(n->out_types[0]) ? size * order * (order + (size_t)sides_of(n)) + 8 * order : 0;
}

static const char *positions(flxi_sa_writer *w, const char *name)
{
    flx_ints list = flxi_sa_ints(w->n, name);
    flx_dim count = (flx_dim)list.n;
    flx_type type = flx_type_make(FLX_I64, 1, &count);
    return flxi_sa_constant_of(w->f, list.v, &type, name);
}

void flxi_sa_sparse(flxi_sa_writer *w)
{
    const flx_type *y = w->n->out_types[0];
    int64_t n = y->dims[0], k = sides_of(w->n), count = (int64_t)flxi_sa_ints(w->n, "rows").n;
    if (flxi_sa_count(y) == 0)
        return;
    algebra g = algebra_of(w);
    g.n = n;
    declare_scratch(&g);
    flxi_sa_line(w, "int64_t *const pivots = (int64_t *)(b + %lld);", (long long)(n * k));
    flxi_sa_line(w, "%s(a, %lld, 0);", function_of(&g, "fill"), (long long)(n * n));
    if (count) {
        const char *rows = positions(w, "rows"), *columns = positions(w, "cols");
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)count);
        if (g.is_complex)
            flxi_sa_line(w, "    a[%s[i] * %lld + %s[i]] += %s(x0[2 * i], x0[2 * i + 1]);", rows, (long long)n, columns,
                         g.number);
        else
            flxi_sa_line(w, "    a[%s[i] * %lld + %s[i]] += x0[i];", rows, (long long)n, columns);
    }
    write_load(&g, "b", "x1", n, k, k, 1);
    flxi_sa_line(w, "const int regular = %s(a, %lld, %lld, pivots);", function_of(&g, "lu"), (long long)n,
                 (long long)n);
    write_factored(&g, n, k);
    flxi_sa_line(w, "if (!regular)");
    flxi_sa_line(w, "    %s(b, %lld, NAN);", function_of(&g, "fill"), (long long)(n * k));
    write_store(&g, "y0", "b", n, k, k, 1);
}
