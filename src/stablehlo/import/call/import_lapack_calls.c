/* SPDX-License-Identifier: Apache-2.0 */
/* import_lapack_calls.c: the LAPACK functions that programs of JAX call on the CPU, by their targets
   lapack_<letter><name>_ffi.

   Matrices are the last two axes; results are as LAPACK defines them, with `info` counting from 1 and 0 for success.
   What LAPACK leaves undefined, such as the destroyed operand, is zeros here. */
#include "graph/type/type.h"
#include "stablehlo/import/call/import_custom_call.h"
#include "stablehlo/import/rule/import_linalg.h"

/* ---- Operands and results ---- */

/* A letter among the arguments, which are numbers: uplo = 76 is 'L'. */
static char letter(hlo_site *s, const char *name, char absent)
{
    return (char)flxi_hlo_member_int(s, "mhlo.backend_config", name, absent);
}

static bool takes(hlo_site *s, size_t operands, size_t results)
{
    if (s->nx != operands || s->ny != results) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "@%.60s takes %zu operands and returns %zu results, not %zu and %zu",
                      flxi_hlo_word(s, "call_target_name", ""), operands, results, s->nx, s->ny);
        return false;
    }
    return flxi_hlo_need_matrix(s, s->x[0]);
}

/* Zeros of the declared type of result i. */
static flx_val nothing(hlo_site *s, size_t i)
{
    flx_type t;
    if (!flxi_hlo_static_result(s, i, &t))
        return FLX_NONE;
    return flxi_hlo_fill(s, flx_scalar(s->g, (flx_dtype)t.dtype, 0), &t);
}

/* 1 where a result has a NaN, as i32 for each matrix: what a failed factorisation leaves. */
static flx_val nan_info(hlo_site *s, flx_val y)
{
    return flx_cast(s->g, flx_reduce_any(s->g, flx_is_nan(s->g, y), FLX_INTS(-2, -1), 0), FLX_I32);
}

/* ---- Factors ---- */

/* potrf: the factor in its triangle, what was there in the other one. */
static void potrf(hlo_site *s)
{
    bool lower = letter(s, "uplo", 'L') == 'L';
    if (!takes(s, 1, 2))
        return;
    flx_val a = s->x[0];
    flx_val l = flx_cholesky(s->g, flxi_hlo_hermitian(s, a, lower), lower);
    flx_val in_lower = flxi_hlo_triangle_mask(s, a, lower ? 0 : -1);
    s->y[0] = lower ? flx_where(s->g, in_lower, l, a) : flx_where(s->g, in_lower, a, l);
    s->y[1] = nan_info(s, l);
}

/* Whether an axis, counted from the last, is known to have no element. */
static bool lacks(const flx_graph *g, flx_val v, int from_last)
{
    const flx_type *t = flx_val_type(g, v);
    return t && t->rank >= from_last && t->dims[t->rank - from_last] == 0;
}

/* Position of the first zero on the diagonal of each matrix, counted from 1; 0 where there is none. */
static flx_val zero_pivot(hlo_site *s, flx_val lu)
{
    flx_graph *g = s->g;
    flx_val diagonal = flx_diag(g, lu, 0);
    flx_val is_zero = flx_eq(g, diagonal, flxi_hlo_number(s, diagonal, 0));
    if (lacks(g, is_zero, 1))
        return flx_cast(g, flx_reduce_any(g, is_zero, FLX_INTS(-1), 0), FLX_I32);
    flx_val first = flx_add(g, flx_argmax(g, is_zero, -1, 0, FLX_I32), flx_scalar(g, FLX_I32, 1));
    return flx_where(g, flx_reduce_any(g, is_zero, FLX_INTS(-1), 0), first, flx_scalar(g, FLX_I32, 0));
}

/* getrf: row k was exchanged with row pivots[k], counted from 1. */
static void getrf(hlo_site *s)
{
    flx_val lu[3];
    if (!takes(s, 1, 3))
        return;
    flx_lu(s->g, s->x[0], lu);
    s->y[0] = lu[0];
    s->y[1] = flx_add(s->g, flx_cast(s->g, lu[1], FLX_I32), flx_scalar(s->g, FLX_I32, 1));
    s->y[2] = zero_pivot(s, lu[0]);
}

static void geqrf(hlo_site *s)
{
    if (takes(s, 1, 2))
        flxi_hlo_reflect(s, s->x[0], &s->y[0], &s->y[1]);
}

static void orgqr(hlo_site *s)
{
    if (!takes(s, 2, 1))
        return;
    const flx_type *a = flxi_hlo_typeof(s, s->x[0]);
    s->y[0] = flxi_hlo_reflected(s, s->x[0], s->x[1], a->dims[a->rank - 1]);
}

/* ormqr: the product of the reflections, or its adjoint, times a matrix; or the matrix times it. */
static void ormqr(hlo_site *s)
{
    if (takes(s, 3, 1))
        s->y[0] = flxi_hlo_apply_reflections(s, s->x[0], s->x[1], s->x[2], letter(s, "side", 'L') == 'L',
                                             letter(s, "trans", 'N') != 'N');
}

static void geqp3(hlo_site *s)
{
    if (takes(s, 2, 3))
        flxi_hlo_reflect_pivoted(s, s->x[0], s->x[1], &s->y[0], &s->y[1], &s->y[2]);
}

static void gehrd(hlo_site *s)
{
    if (!takes(s, 1, 3))
        return;
    flxi_hlo_hessenberg(s, s->x[0], &s->y[0], &s->y[1]);
    s->y[2] = nothing(s, 2);
}

/* Rows and columns in the opposite order. */
static flx_val turned(hlo_site *s, flx_val a)
{
    return flx_reverse(s->g, a, FLX_INTS(-2, -1));
}

static flx_val real_part(hlo_site *s, flx_val x)
{
    return flxi_is_complex((int32_t)flxi_hlo_dtype(s, x)) ? flx_real(s->g, x) : x;
}

/* sytrd: the tridiagonal form of a Hermitian matrix is its Hessenberg form. With the upper triangle the columns are
   reflected from the last one on, which is the lower triangle of the matrix turned around. */
static void sytrd(hlo_site *s)
{
    flx_graph *g = s->g;
    bool lower = letter(s, "uplo", 'L') == 'L';
    flx_val packed = FLX_NONE, taus = FLX_NONE;
    if (!takes(s, 1, 5))
        return;
    flx_val a = lower ? s->x[0] : turned(s, s->x[0]);
    flxi_hlo_hessenberg(s, flxi_hlo_hermitian(s, a, true), &packed, &taus);
    packed = flx_where(g, flxi_hlo_triangle_mask(s, a, 0), packed, a);
    flx_val d = real_part(s, flx_diag(g, packed, 0));
    flx_val e = real_part(s, flx_diag(g, packed, -1));
    s->y[0] = lower ? packed : turned(s, packed);
    s->y[1] = lower ? d : flx_reverse(g, d, FLX_INTS(-1));
    s->y[2] = lower ? e : flx_reverse(g, e, FLX_INTS(-1));
    s->y[3] = lower ? taus : flx_reverse(g, taus, FLX_INTS(-1));
    s->y[4] = nothing(s, 4);
}

/* ---- Systems ---- */

enum { MAX_BAND = 1 << 22 }; /* rows of tridiagonal matrices, whose positions are a list */

static void trsm(hlo_site *s)
{
    char trans = letter(s, "trans_x", 'N');
    hlo_triangular how = {letter(s, "side", 'L') == 'L', letter(s, "uplo", 'L') == 'L', letter(s, "diag", 'N') == 'U',
                          trans == 'C'   ? "adjoint"
                          : trans == 'T' ? "transpose"
                                         : "none"};
    if (takes(s, 2, 1))
        s->y[0] = flxi_hlo_solve_triangular(s, s->x[0], s->x[1], &how);
}

/* Whether an operation from `op` on uses the value, in its regions too. */
static bool is_used(const hlo_op *op, uint32_t number)
{
    for (; op; op = op->next) {
        for (size_t i = 0; i < op->num_operands; i++)
            if (op->operands[i]->number == number)
                return true;
        for (size_t i = 0; i < op->num_regions; i++)
            if (is_used(op->regions[i].first, number))
                return true;
    }
    return false;
}

/* The rows of all matrices of a batch, one after the other: a matrix with blocks along its diagonal. */
typedef struct {
    int64_t n, all; /* rows of one matrix, of all */
} band;

static bool find_band(hlo_site *s, band *b)
{
    const flx_type *d = flxi_hlo_typeof(s, s->x[1]);
    const flx_type *x = flxi_hlo_typeof(s, s->x[3]);
    bool fits = d->rank >= 1 && x->rank == d->rank + 1;
    b->all = 1;
    for (int i = 0; i < d->rank && fits; i++) {
        if (!flx_dim_is_static(d->dims[i]) || (d->dims[i] && b->all > MAX_BAND / d->dims[i])) {
            flxi_hlo_unsupported(s, "diagonals that are longer than %d, or of a length that is not known", MAX_BAND);
            return false;
        }
        fits = x->dims[i] == d->dims[i];
        b->all *= d->dims[i];
        b->n = d->dims[i];
    }
    if (!fits)
        flxi_hlo_fail(s, FLX_E_SHAPE, NULL, "gtsv takes three diagonals and a matrix of right sides with as many rows");
    return fits;
}

/* A diagonal as a list; what would be outside of its matrix is 0 on the main diagonal. */
static flx_val diagonal(hlo_site *s, const band *b, int k, int64_t *cols)
{
    flx_graph *g = s->g;
    flx_type line = flx_type_make(FLX_I64, 1, &(flx_dim){b->n});
    int64_t outside = k == 0 ? 0 : k == 2 ? b->n - 1 : -1;
    for (int64_t i = 0; i < b->all; i++)
        cols[i] = b->n && i % b->n == outside ? i : i + k - 1;
    flx_val is_outside = flx_eq(g, flx_iota(g, &line, 0), flx_scalar(g, FLX_I64, (double)outside));
    flx_val kept = flx_where(g, is_outside, flxi_hlo_number(s, s->x[k], 0), s->x[k]);
    return flx_reshape(g, kept, FLX_INTS(b->all));
}

/* gtsv: three diagonals, each as long as the matrix has rows, and right sides. The factors that LAPACK leaves in place
   of the diagonals are not known here. */
static void gtsv(hlo_site *s)
{
    band b = {0};
    flx_val parts[3];
    if (s->nx != 4 || s->ny != 5) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "gtsv takes 4 operands and returns 5 results, not %zu and %zu", s->nx,
                      s->ny);
        return;
    }
    if (!find_band(s, &b))
        return;
    int64_t *rows = flxi_hlo_new(s, int64_t, 3 * b.all);
    int64_t *cols = flxi_hlo_new(s, int64_t, 3 * b.all);
    if (!rows || !cols)
        return;
    for (int k = 0; k < 3; k++) {
        if (is_used(s->op->next, s->op->results[k]->number))
            flxi_hlo_unsupported(s, "the factors that gtsv leaves in place of the diagonals");
        parts[k] = diagonal(s, &b, k, cols + k * b.all);
        for (int64_t i = 0; i < b.all; i++)
            rows[k * b.all + i] = i;
        s->y[k] = nothing(s, (size_t)k);
    }
    const flx_type *x = flxi_hlo_typeof(s, s->x[3]);
    flx_ints positions = {rows, 3 * (size_t)b.all};
    flx_val sides = flx_reshape(s->g, s->x[3], FLX_INTS(b.all, x->dims[x->rank - 1]));
    flx_val y =
        flx_sparse_solve(s->g, flx_concat(s->g, parts, 3, 0), sides, positions, (flx_ints){cols, positions.n}, b.all);
    s->y[3] = flx_reshape(s->g, y, flxi_hlo_dims(x));
    s->y[4] = nan_info(s, s->y[3]);
}

/* ---- Spectra ---- */

static void syevd(hlo_site *s)
{
    flx_val pair[2];
    if (!takes(s, 1, 3))
        return;
    flx_eigh(s->g, flxi_hlo_hermitian(s, s->x[0], letter(s, "uplo", 'L') == 'L'), pair);
    s->y[0] = pair[1];
    s->y[1] = pair[0];
    s->y[2] = nan_info(s, pair[1]);
}

/* Columns made up to a basis of the whole space: those of the reflections that lead to them, from the first new one
   on. */
static flx_val completed(hlo_site *s, flx_val u, flx_dim rows, flx_dim columns)
{
    flx_val packed = FLX_NONE;
    flx_val taus = FLX_NONE;
    if (rows == columns)
        return u;
    flxi_hlo_reflect(s, u, &packed, &taus);
    flx_val all = flxi_hlo_reflected(s, packed, taus, rows);
    flx_val both[2] = {u, flx_narrow(s->g, all, -1, columns, rows - columns)};
    return flx_concat(s->g, both, 2, -1);
}

static void gesdd(hlo_site *s)
{
    flx_val usv[3];
    char mode = letter(s, "mode", 'S');
    if (!takes(s, 1, 5))
        return;
    const flx_type *a = flxi_hlo_typeof(s, s->x[0]);
    flx_dim m = a->dims[a->rank - 2];
    flx_dim n = a->dims[a->rank - 1];
    flx_dim k = m < n ? m : n;
    flx_svd(s->g, s->x[0], usv);
    s->y[0] = nothing(s, 0);
    s->y[1] = usv[1];
    if (mode == 'N') {
        s->y[2] = nothing(s, 2);
        s->y[3] = nothing(s, 3);
    } else {
        bool all = mode == 'A';
        s->y[2] = all ? completed(s, usv[0], m, k) : usv[0];
        s->y[3] = all ? flxi_hlo_adjoint(s, completed(s, flxi_hlo_adjoint(s, usv[2]), n, k)) : usv[2];
    }
    s->y[4] = nan_info(s, usv[0]);
}

/* Eigenvectors of length 1 whose largest component is real. */
static flx_val normalised(hlo_site *s, flx_val v)
{
    flx_graph *g = s->g;
    flx_dtype d = flxi_hlo_dtype(s, v);
    if (lacks(g, v, 2))
        return v;
    flx_val size = flx_abs(g, v);
    flx_val at = flx_argmax(g, size, -2, 1, FLX_I32);
    flx_val largest = flx_take_along(g, v, at, -2, NULL);
    flx_val phase = flx_div(g, largest, flx_cast(g, flx_abs(g, largest), d));
    flx_val length = flx_cast(g, flx_norm(g, v, 2, FLX_INTS(-2), 1), d);
    return flx_div(g, flx_div(g, v, phase), length);
}

/* geev: w, or its real and imaginary parts for a real matrix; left and right eigenvectors, complex; info. The left ones
   are the columns of the inverse's adjoint. */
static void geev(hlo_site *s)
{
    flx_graph *g = s->g;
    flx_val pair[2];
    bool is_complex = s->nx && flxi_is_complex((int32_t)flxi_hlo_dtype(s, s->x[0]));
    size_t at = is_complex ? 1 : 2;
    if (!takes(s, 1, at + 3))
        return;
    flx_eig_pairs(g, s->x[0], pair);
    s->y[0] = is_complex ? pair[0] : flx_real(g, pair[0]);
    if (!is_complex)
        s->y[1] = flx_imag(g, pair[0]);
    bool left = letter(s, "compute_left", 'N') == 'V';
    bool right = letter(s, "compute_right", 'N') == 'V';
    s->y[at] = left ? normalised(s, flxi_hlo_adjoint(s, flx_inv(g, pair[1]))) : nothing(s, at);
    s->y[at + 1] = right ? normalised(s, pair[1]) : nothing(s, at + 1);
    s->y[at + 2] = nan_info(s, pair[1]);
}

/* Of the eigenvalues of a real Schur form: sqrt(-b c) in the first row of a block [a, b; c, a], its negative in the
   second, 0 elsewhere. */
static flx_val imaginary_parts(hlo_site *s, flx_val t)
{
    flx_graph *g = s->g;
    const flx_type *type = flxi_hlo_typeof(s, t);
    flx_dim n = type->dims[type->rank - 1];
    flx_val zero = flxi_hlo_number(s, t, 0);
    if (n < 2)
        return nothing(s, 3);
    flx_val above = flx_diag(g, t, 1), below = flx_diag(g, t, -1);
    flx_val size = flx_sqrt(g, flx_max(g, flx_neg(g, flx_mul(g, above, below)), zero));
    flx_val edge = flx_narrow(g, flx_mul(g, flx_diag(g, t, 0), zero), -1, 0, 1);
    flx_val first[2] = {size, edge}, second[2] = {edge, size};
    return flx_sub(g, flx_concat(g, first, 2, -1), flx_concat(g, second, 2, -1));
}

/* gees: the Schur form, its vectors, eigenvalues, how many of them were selected (none), info. */
static void gees(hlo_site *s)
{
    flx_graph *g = s->g;
    flx_val pair[2];
    bool is_complex = s->nx && flxi_is_complex((int32_t)flxi_hlo_dtype(s, s->x[0]));
    size_t at = is_complex ? 3 : 4;
    if (!takes(s, 1, at + 2))
        return;
    if (letter(s, "sort", 'N') != 'N') {
        flxi_hlo_unsupported(s, "gees with eigenvalues in an order of the caller's");
        return;
    }
    const flx_attr name = {.key = "name", .kind = FLX_ATTR_STRING, .as.s = "fluxion.schur"};
    flx_op(g, "custom", s->x, 1, &name, 1, pair, 2);
    s->y[0] = pair[0];
    s->y[1] = letter(s, "mode", 'V') == 'V' ? pair[1] : nothing(s, 1);
    s->y[2] = flx_diag(g, pair[0], 0);
    if (!is_complex)
        s->y[3] = imaginary_parts(s, pair[0]);
    s->y[at] = nothing(s, at);
    s->y[at + 1] = nan_info(s, pair[0]);
}

#define REAL(name, rule)             \
    {"lapack_s" name "_ffi", rule},  \
    {                                \
        "lapack_d" name "_ffi", rule \
    }
#define COMPLEX(name, rule)          \
    {"lapack_c" name "_ffi", rule},  \
    {                                \
        "lapack_z" name "_ffi", rule \
    }
#define BOTH(name, rule) REAL(name, rule), COMPLEX(name, rule)

const hlo_call_target flxi_hlo_lapack_targets[] = {
    BOTH("potrf", potrf),    BOTH("getrf", getrf), BOTH("geqrf", geqrf),    REAL("orgqr", orgqr),
    COMPLEX("ungqr", orgqr), REAL("ormqr", ormqr), COMPLEX("unmqr", ormqr), BOTH("geqp3", geqp3),
    BOTH("gehrd", gehrd),    REAL("sytrd", sytrd), COMPLEX("hetrd", sytrd), BOTH("trsm", trsm),
    BOTH("gtsv", gtsv),      REAL("syevd", syevd), COMPLEX("heevd", syevd), BOTH("gesdd", gesdd),
    BOTH("gesvd", gesdd),    BOTH("geev", geev),   BOTH("gees", gees),      {0},
};
