/* SPDX-License-Identifier: Apache-2.0 */
/* part_spectra.c: eigenvalues, singular values and the exponential of matrices, in double _Complex whatever the dtype,
   by the functions of the reference evaluator (numeric/linalg/jacobi.c, schur.c, matrix_exponential.c). A real matrix
   stays real to the bit. */
#include "numeric/linalg/matrix_exponential.h"
#include "ops/opcode.h"
#include "standalone/parts/parts.h"

#include <float.h>

typedef struct {
    const flx_type *t;
    int64_t m, n, k; /* rows, columns, and the smaller of them */
    int64_t matrices;
} matrices;

static matrices matrices_of(const flxi_device_node *node)
{
    const flx_type *t = node->in_types[0];
    matrices x = {.t = t, .m = t->dims[t->rank - 2], .n = t->dims[t->rank - 1]};
    x.k = x.m < x.n ? x.m : x.n;
    x.matrices = x.k ? flxi_sa_count(t) / (x.m * x.n) : 0;
    return x;
}

/* An element of operand 0 as a complex number. */
static const char *loaded(flxi_sa_writer *w, const char *at)
{
    const char *make = flxi_sa_borrow(w->f, "complex_arith.h", "flxi_cmake");
    if (flxi_is_complex(w->n->in_types[0]->dtype))
        return flxi_sa_print(w, "%s(x0[2 * (%s)], x0[2 * (%s) + 1])", make, at, at);
    return flxi_sa_print(w, "%s(x0[%s], 0)", make, at);
}

/* Result y at a position becomes a number. */
static void write_number(flxi_sa_writer *w, uint32_t y, const char *at, const char *value)
{
    int32_t dtype = w->n->out_types[y]->dtype;
    const char *type = flxi_sa_type(dtype);
    if (!flxi_is_complex(dtype)) {
        flxi_sa_line(w, "y%u[%s] = (%s)creal(%s);", y, at, type, value);
        return;
    }
    flxi_sa_line(w, "y%u[2 * (%s)] = (%s)creal(%s);", y, at, type, value);
    flxi_sa_line(w, "y%u[2 * (%s) + 1] = (%s)cimag(%s);", y, at, type, value);
}

static void open_pair(flxi_sa_writer *w, int64_t rows, int64_t columns)
{
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)rows);
    w->depth++;
    flxi_sa_open(w, "for (int64_t j = 0; j < %lld; j++)", (long long)columns);
}

static void close_pair(flxi_sa_writer *w)
{
    flxi_sa_close(w);
    w->depth--;
}

/* ---- Eigenvalues ---- */

/* The matrix, its vectors, room for a third and for the values. */
size_t flxi_sa_eigen_scratch(const flxi_device_node *n)
{
    matrices x = matrices_of(n);
    return x.matrices ? 2 * sizeof(double) * (size_t)(3 * x.n * x.n + 2 * x.n) : 0;
}

/* a, as an array of its columns, becomes v and the values w by these lines. */
static void write_eigen(flxi_sa_writer *w, const char *find, const char *arguments, const char *value)
{
    matrices x = matrices_of(w->n);
    long long n = (long long)x.n;
    flxi_sa_line(w, "double _Complex *const a = (double _Complex *)scratch, *const v = a + %lld;", n * n);
    flxi_sa_line(w, "double _Complex *const room = v + %lld, *const w = room + %lld;", n * n, n * n);
    flxi_sa_open(w, "for (int64_t b = 0; b < %lld; b++)", (long long)x.matrices);
    open_pair(w, x.n, x.n);
    flxi_sa_line(w, "a[j * %lld + i] = %s;", n, loaded(w, flxi_sa_print(w, "(b * %lld + i) * %lld + j", n, n)));
    close_pair(w);
    flxi_sa_line(w, "%s(%lld, a, %s);", find, n, arguments);
    flxi_sa_open(w, "for (int64_t k = 0; k < %lld; k++)", n);
    write_number(w, 0, flxi_sa_print(w, "b * %lld + k", n), value);
    flxi_sa_close(w);
    open_pair(w, x.n, x.n);
    write_number(w, 1, flxi_sa_print(w, "(b * %lld + i) * %lld + j", n, n), flxi_sa_print(w, "v[j * %lld + i]", n));
    close_pair(w);
    flxi_sa_close(w);
}

void flxi_sa_eigh(flxi_sa_writer *w)
{
    if (flxi_sa_count(w->n->in_types[0]))
        write_eigen(w, flxi_sa_borrow(w->f, "jacobi.c", "flxi_jacobi_eigh"), "(double *)w, v", "((double *)w)[k]");
}

void flxi_sa_eig(flxi_sa_writer *w)
{
    bool is_real = !flxi_is_complex(w->n->in_types[0]->dtype);
    if (flxi_sa_count(w->n->in_types[0]))
        write_eigen(w, flxi_sa_borrow(w->f, "schur.c", "flxi_schur_eig"), is_real ? "w, v, room, 1" : "w, v, room, 0",
                    "w[k]");
}

/* ---- Singular values ---- */

size_t flxi_sa_singular_scratch(const flxi_device_node *n)
{
    matrices x = matrices_of(n);
    return x.matrices ? 2 * sizeof(double) * (size_t)(x.k * (x.m + x.n + 1)) : 0;
}

/* Columns u and v, and s, of each matrix. A wide one is decomposed through its adjoint. */
static matrices open_singular(flxi_sa_writer *w)
{
    matrices x = matrices_of(w->n);
    bool is_wide = x.m < x.n;
    long long m = (long long)x.m, n = (long long)x.n, k = (long long)x.k;
    const char *find = flxi_sa_borrow(w->f, "jacobi.c", "flxi_jacobi_svd");
    flxi_sa_line(w, "double _Complex *const u = (double _Complex *)scratch, *const v = u + %lld;", k * m);
    flxi_sa_line(w, "double *const s = (double *)(v + %lld);", k * n);
    flxi_sa_open(w, "for (int64_t b = 0; b < %lld; b++)", (long long)x.matrices);
    open_pair(w, x.m, x.n);
    const char *element = loaded(w, flxi_sa_print(w, "(b * %lld + i) * %lld + j", m, n));
    if (is_wide)
        flxi_sa_line(w, "v[i * %lld + j] = conj(%s);", n, element);
    else
        flxi_sa_line(w, "u[j * %lld + i] = %s;", m, element);
    close_pair(w);
    flxi_sa_line(w, is_wide ? "%s(%lld, %lld, v, s, u, 1);" : "%s(%lld, %lld, u, s, v, 0);", find, is_wide ? n : m,
                 is_wide ? m : n);
    return x;
}

void flxi_sa_svd(flxi_sa_writer *w)
{
    if (flxi_sa_count(w->n->in_types[0]) == 0)
        return;
    matrices x = open_singular(w);
    long long m = (long long)x.m, n = (long long)x.n, k = (long long)x.k;
    flxi_sa_line(w, "for (int64_t j = 0; j < %lld; j++)", k);
    flxi_sa_line(w, "    y1[b * %lld + j] = (%s)s[j];", k, flxi_sa_type(w->n->out_types[1]->dtype));
    open_pair(w, x.m, x.k);
    write_number(w, 0, flxi_sa_print(w, "(b * %lld + i) * %lld + j", m, k), flxi_sa_print(w, "u[j * %lld + i]", m));
    close_pair(w);
    open_pair(w, x.k, x.n);
    write_number(w, 2, flxi_sa_print(w, "(b * %lld + i) * %lld + j", k, n),
                 flxi_sa_print(w, "conj(v[i * %lld + j])", n));
    close_pair(w);
    flxi_sa_close(w);
}

/* v diag(1/s) u^H without the smallest singular values. */
void flxi_sa_pinv(flxi_sa_writer *w)
{
    if (flxi_sa_count(w->n->in_types[0]) == 0)
        return;
    matrices x = open_singular(w);
    double least = flxi_attr_real(&flxi_ops[w->n->op], w->n->attrs, "rcond");
    double unit = flxi_part_dtype(x.t->dtype) == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    if (least != least)
        least = unit * (double)(x.m > x.n ? x.m : x.n);
    flxi_sa_line(w, "const double least = %s * s[0];", flxi_sa_real(w, least));
    open_pair(w, x.n, x.m);
    flxi_sa_line(w, "double _Complex sum = 0;");
    flxi_sa_line(w, "for (int64_t k = 0; k < %lld; k++)", (long long)x.k);
    flxi_sa_line(w, "    if (!(s[k] <= least))");
    flxi_sa_line(w, "        sum += %s(v[k * %lld + i], conj(u[k * %lld + j])) / s[k];",
                 flxi_sa_borrow(w->f, "complex_arith.h", "flxi_cmul"), (long long)x.n, (long long)x.m);
    write_number(w, 0, flxi_sa_print(w, "(b * %lld + i) * %lld + j", (long long)x.n, (long long)x.m), "sum");
    close_pair(w);
    flxi_sa_close(w);
}

/* ---- The exponential ---- */

size_t flxi_sa_expm_scratch(const flxi_device_node *n)
{
    matrices x = matrices_of(n);
    return x.matrices ? 2 * sizeof(double) * flxi_expm_room(x.n) + sizeof(int64_t) * (size_t)x.n : 0;
}

static const char solver[] = "static void NAME_(int64_t n, double _Complex *a, double _Complex *b, int64_t *pivots)\n"
                             "{\n"
                             "    const %s lower = {n, n, 1, 1, 1, 0}, upper = {n, n, 1, 0, 0, 0};\n"
                             "    %s(a, n, n, pivots);\n"
                             "    %s(b, n, pivots, n);\n"
                             "    %s(a, &lower, b, n);\n"
                             "    %s(a, &upper, b, n);\n"
                             "}\n";

static const char *solver_of(flxi_sa_writer *w)
{
    const char *triangle = flxi_sa_borrow(w->f, "dense.h", "flxi_triangle");
    const char *solve = flxi_sa_borrow(w->f, "complex", "triangular");
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    flxi_addf(&text, solver, triangle, flxi_sa_borrow(w->f, "complex", "lu"),
              flxi_sa_borrow(w->f, "complex", "exchange_rows"), solve, solve);
    const char *name = flxi_sa_static_of(w->f, &text, &text, "solve_square", "b becomes the solution of a x = b.");
    flxi_strbuf_free(&text);
    return name;
}

void flxi_sa_expm(flxi_sa_writer *w)
{
    matrices x = matrices_of(w->n);
    long long n = (long long)x.n;
    if (flxi_sa_count(x.t) == 0)
        return;
    const char *solve = solver_of(w), *find = flxi_sa_borrow(w->f, "matrix_exponential.c", "flxi_matrix_exponential");
    flxi_sa_line(w, "double _Complex *const a = (double _Complex *)scratch;");
    flxi_sa_line(w, "int64_t *const pivots = (int64_t *)(a + %lld);", (long long)flxi_expm_room(x.n));
    flxi_sa_open(w, "for (int64_t b = 0; b < %lld; b++)", (long long)x.matrices);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", n * n);
    flxi_sa_line(w, "    a[i] = %s;", loaded(w, flxi_sa_print(w, "b * %lld + i", n * n)));
    flxi_sa_line(w, "%s(%lld, a, pivots, %s);", find, n, solve);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", n * n);
    write_number(w, 0, flxi_sa_print(w, "b * %lld + i", n * n), "a[i]");
    flxi_sa_close(w);
    flxi_sa_close(w);
}
