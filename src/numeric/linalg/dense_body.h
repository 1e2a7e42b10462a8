/* SPDX-License-Identifier: Apache-2.0 */
/* dense_body.h: the functions of dense.h for one kind of numbers. Included by dense.c once for each: NUM is the type,
   and MUL, DIV, CONJ, SIZE (the magnitude by which pivots are compared), REAL and NAME(x) define the rest. */

static void NAME(fill)(void *to, int64_t count, double value)
{
    NUM *x = to;
    for (int64_t i = 0; i < count && !flxi_stopped_by_now(); i++)
        x[i] = value;
}

static void NAME(conjugate)(void *to, int64_t count)
{
    NUM *x = to;
    for (int64_t i = 0; i < count && !flxi_stopped_by_now(); i++)
        x[i] = CONJ(x[i]);
}

static void NAME(unit)(void *to, int64_t n)
{
    NUM *x = to;
    NAME(fill)(to, n * n, 0.0);
    for (int64_t i = 0; i < n; i++)
        x[i * n + i] = 1.0;
}

/* row -= factor * other */
static void NAME(subtract)(NUM *row, NUM factor, const NUM *other, int64_t count)
{
    for (int64_t j = 0; j < count; j++)
        row[j] -= MUL(factor, other[j]);
}

static void NAME(exchange)(NUM *a, NUM *b, int64_t count)
{
    for (int64_t j = 0; j < count; j++) {
        NUM t = a[j];
        a[j] = b[j];
        b[j] = t;
    }
}

/* Eliminates columns [begin, end) below their pivots, on these columns alone; rows are exchanged as a whole. */
static bool NAME(lu_panel)(NUM *a, int64_t m, int64_t n, int64_t begin, int64_t end, int64_t *pivots)
{
    bool regular = true;
    for (int64_t k = begin; k < end; k++) {
        int64_t p = k;
        pivots[k] = k; /* also when the work is stopped: others use them as positions */
        if (flxi_stopped())
            continue;
        for (int64_t i = k + 1; i < m; i++)
            p = SIZE(a[i * n + k]) > SIZE(a[p * n + k]) ? i : p;
        pivots[k] = p;
        if (p != k)
            NAME(exchange)(a + p * n, a + k * n, n);
        NUM pivot = a[k * n + k];
        if (pivot == 0.0) { /* then so is everything below it: nothing to eliminate */
            regular = false;
            continue;
        }
        for (int64_t i = k + 1; i < m; i++) {
            NUM factor = DIV(a[i * n + k], pivot);
            a[i * n + k] = factor;
            NAME(subtract)(a + i * n + k + 1, factor, a + k * n + k + 1, end - k - 1);
        }
    }
    return regular;
}

/* Columns are eliminated in panels, and the effect of a panel on the columns after it is applied at once, a tile of
   columns at a time, so that its rows stay in the cache. Every element undergoes the same operations in the same order
   as without panels. */
static bool NAME(lu)(void *matrix, int64_t m, int64_t n, int64_t *pivots)
{
    NUM *a = matrix;
    int64_t steps = m < n ? m : n;
    bool regular = true;
    for (int64_t begin = 0; begin < steps; begin += DENSE_PANEL) {
        int64_t end = begin + DENSE_PANEL < steps ? begin + DENSE_PANEL : steps;
        regular = NAME(lu_panel)(a, m, n, begin, end, pivots) && regular;
        for (int64_t from = end; from < n; from += DENSE_TILE) {
            int64_t count = from + DENSE_TILE < n ? DENSE_TILE : n - from;
            for (int64_t i = begin + 1; i < m && !flxi_stopped_by_now(); i++)
                for (int64_t k = begin; k < end && k < i; k++)
                    if (a[k * n + k] != 0.0)
                        NAME(subtract)(a + i * n + from, a[i * n + k], a + k * n + from, count);
        }
    }
    return regular;
}

static void NAME(exchange_rows)(void *sides, int64_t k, const int64_t *pivots, int64_t count)
{
    NUM *b = sides;
    for (int64_t i = 0; i < count && !flxi_stopped(); i++)
        if (pivots[i] != i)
            NAME(exchange)(b + i * k, b + pivots[i] * k, k);
}

/* Columns [from, from + count) of b, which has k. */
static void NAME(triangular_tile)(const NUM *t, const flxi_triangle *how, NUM *b, int64_t k, int64_t from,
                                  int64_t count)
{
    for (int64_t step = 0; step < how->n && !flxi_stopped(); step++) {
        int64_t i = how->lower ? step : how->n - 1 - step;
        for (int64_t before = 0; before < step; before++) {
            int64_t j = how->lower ? before : how->n - 1 - before;
            NUM x = t[i * how->row + j * how->col];
            NAME(subtract)(b + i * k + from, how->conjugated ? CONJ(x) : x, b + j * k + from, count);
        }
        NUM pivot = t[i * (how->row + how->col)];
        for (int64_t c = from; c < from + count && !how->unit; c++)
            b[i * k + c] = DIV(b[i * k + c], how->conjugated ? CONJ(pivot) : pivot);
    }
}

static bool NAME(triangular)(const void *triangle, const flxi_triangle *how, void *solution, int64_t k)
{
    const NUM *t = triangle;
    bool regular = true;
    for (int64_t i = 0; i < how->n && !how->unit; i++)
        regular = regular && t[i * (how->row + how->col)] != 0.0;
    for (int64_t from = 0; from < k; from += DENSE_SIDES)
        NAME(triangular_tile)(t, how, solution, k, from, from + DENSE_SIDES < k ? DENSE_SIDES : k - from);
    return regular;
}

static bool NAME(cholesky)(void *matrix, int64_t n)
{
    NUM *a = matrix;
    for (int64_t i = 0; i < n && !flxi_stopped(); i++)
        for (int64_t j = 0; j <= i; j++)
            a[i * n + j] = (a[i * n + j] + CONJ(a[j * n + i])) * 0.5;
    for (int64_t j = 0; j < n && !flxi_stopped(); j++) {
        for (int64_t i = j; i < n && !flxi_stopped_by_now(); i++) {
            NUM sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++)
                sum -= MUL(a[i * n + k], CONJ(a[j * n + k]));
            a[i * n + j] = sum;
        }
        double square = REAL(a[j * n + j]);
        if (!(square > 0.0 && square < INFINITY))
            return false;
        double root = sqrt(square);
        a[j * n + j] = root;
        for (int64_t i = j + 1; i < n; i++)
            a[i * n + j] /= root;
        NAME(fill)(a + j * n + j + 1, n - j - 1, 0.0);
    }
    return true;
}

static double NAME(length)(const NUM *column, int64_t count, int64_t stride)
{
    double largest = 0.0;
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        double size = ABS(column[i * stride]);
        largest = size > largest || isnan(size) ? size : largest;
    }
    if (largest == 0.0 || !isfinite(largest))
        return largest;
    for (int64_t i = 0; i < count; i++) {
        double part = ABS(column[i * stride]) / largest;
        sum += part * part;
    }
    return largest * sqrt(sum);
}

/* Columns [first, cols) of x, rows from k on, are reflected: x -= v (2 / v^H v) v^H x. */
static void NAME(reflect)(NUM *x, int64_t cols, int64_t first, const NUM *v, int64_t k, int64_t m)
{
    double square = 0.0;
    for (int64_t i = k; i < m; i++)
        square += REAL(MUL(CONJ(v[i]), v[i]));
    for (int64_t j = first; j < cols && square != 0.0 && !flxi_stopped(); j++) {
        NUM sum = 0.0;
        for (int64_t i = k; i < m; i++)
            sum += MUL(CONJ(v[i]), x[i * cols + j]);
        sum *= 2.0 / square;
        for (int64_t i = k; i < m; i++)
            x[i * cols + j] -= MUL(sum, v[i]);
    }
}

/* Householder reflections; the k-th vector is kept in column k of q until q is made from all of them, last to first.
   The rows of r and the columns of q then get the phases that make the diagonal of r positive. */
static void NAME(qr)(void *matrix, int64_t m, int64_t n, void *orthogonal)
{
    NUM *a = matrix;
    NUM *q = orthogonal;
    int64_t steps = m < n ? m : n;
    NUM *v = q + m * steps; /* one column of scratch after q */
    NAME(fill)(q, m * steps, 0.0);
    for (int64_t k = 0; k < steps && !flxi_stopped(); k++) {
        double size = NAME(length)(a + k * n + k, m - k, n);
        NUM head = a[k * n + k];
        double head_size = ABS(head);
        NUM phase = head_size > 0.0 ? head / head_size : (NUM)1.0;
        for (int64_t i = k; i < m; i++)
            v[i] = size > 0.0 ? a[i * n + k] / size : a[i * n + k];
        v[k] += size > 0.0 ? phase : (NUM)0.0;
        for (int64_t i = k; i < m; i++)
            q[i * steps + k] = v[i];
        NAME(reflect)(a, n, k, v, k, m);
    }
    for (int64_t k = steps; k-- > 0 && !flxi_stopped();) {
        for (int64_t i = k; i < m; i++) {
            v[i] = q[i * steps + k];
            q[i * steps + k] = i == k ? 1.0 : 0.0;
        }
        NAME(reflect)(q, steps, k, v, k, m);
    }
    for (int64_t k = 0; k < steps && !flxi_stopped(); k++) {
        double size = ABS(a[k * n + k]);
        NUM phase = size > 0.0 ? a[k * n + k] / size : (NUM)1.0;
        for (int64_t j = k; j < n; j++)
            a[k * n + j] = MUL(CONJ(phase), a[k * n + j]);
        a[k * n + k] = size;
        for (int64_t i = 0; i < m; i++)
            q[i * steps + k] = MUL(q[i * steps + k], phase);
    }
    for (int64_t i = 1; i < m && !flxi_stopped(); i++)
        NAME(fill)(a + i * n, i < n ? i : n, 0.0);
}

static double NAME(parity)(int64_t n, const int64_t *pivots)
{
    double sign = 1.0;
    for (int64_t k = 0; k < n; k++)
        sign = pivots[k] == k ? sign : -sign;
    return sign;
}

static void NAME(determinant)(const void *factors, int64_t n, const int64_t *pivots, void *det)
{
    const NUM *lu = factors;
    NUM product = NAME(parity)(n, pivots);
    for (int64_t k = 0; k < n; k++)
        product = MUL(product, lu[k * n + k]);
    *(NUM *)det = product;
}

/* The adjugate of the upper triangle U: with N[i, j] = u_ii … u_jj (U^-1)[i, j], which is a polynomial, N[j, j] = 1
   and N[i, j] = -Σ u_ik (u_i+1,i+1 … u_k-1,k-1) N[k, j], and the other diagonal elements make it complete. */
static void NAME(triangle_adjugate)(const NUM *u, int64_t n, NUM *w)
{
    for (int64_t j = 0; j < n && !flxi_stopped(); j++) {
        for (int64_t i = j; i >= 0 && !flxi_stopped(); i--) {
            NUM sum = i == j ? (NUM)1.0 : (NUM)0.0;
            NUM between = 1.0;
            for (int64_t k = i + 1; k <= j; k++) {
                sum -= MUL(MUL(u[i * n + k], between), w[k * n + j]);
                between = MUL(between, u[k * n + k]);
            }
            w[i * n + j] = sum;
        }
        NAME(fill)(w + j * n, j, 0.0);
    }
    NUM before = 1.0;
    for (int64_t i = 0; i < n && !flxi_stopped(); i++) {
        for (int64_t j = i; j < n; j++)
            w[i * n + j] = MUL(before, w[i * n + j]);
        before = MUL(before, u[i * n + i]);
    }
    NUM behind = 1.0;
    for (int64_t j = n; j-- > 0 && !flxi_stopped();) {
        for (int64_t i = 0; i <= j; i++)
            w[i * n + j] = MUL(w[i * n + j], behind);
        behind = MUL(behind, u[j * n + j]);
    }
}

/* adj(P^T L U) = det(P) adj(U) L^-1 P */
static void NAME(adjugate)(const void *factors, int64_t n, const int64_t *pivots, void *out)
{
    const NUM *lu = factors;
    NUM *w = out;
    double sign = NAME(parity)(n, pivots);
    NAME(triangle_adjugate)(lu, n, w);
    for (int64_t row = 0; row < n && !flxi_stopped(); row++) {
        NUM *x = w + row * n;
        for (int64_t i = n; i-- > 0 && !flxi_stopped_by_now();)
            NAME(subtract)(x, x[i], lu + i * n, i);
        for (int64_t k = n; k-- > 0;)
            NAME(exchange)(x + k, x + pivots[k], 1);
        for (int64_t j = 0; j < n; j++)
            x[j] *= sign;
    }
}

/* The exchanges that bring the largest element from row and column k on to (k, k), applied to a and v. */
static void NAME(exchange_largest)(NUM *a, NUM *v, int64_t n, int64_t k, int64_t *row, int64_t *col)
{
    double most = -1.0;
    row[k] = col[k] = k;
    for (int64_t i = k; i < n && !flxi_stopped_by_now(); i++)
        for (int64_t j = k; j < n; j++)
            if (SIZE(a[i * n + j]) > most) {
                most = SIZE(a[i * n + j]);
                row[k] = i;
                col[k] = j;
            }
    NAME(exchange)(a + k * n, a + row[k] * n, n);
    NAME(exchange)(v + k * n, v + row[k] * n, n);
    for (int64_t i = 0; i < n && col[k] != k; i++) {
        NAME(exchange)(a + i * n + k, a + i * n + col[k], 1);
        NAME(exchange)(v + i * n + k, v + i * n + col[k], 1);
    }
}

/* a, its rows and columns exchanged, becomes L D U with unit triangles. */
static void NAME(complete_lu)(NUM *a, NUM *v, int64_t n, int64_t *row, int64_t *col)
{
    for (int64_t k = 0; k < n; k++) {
        row[k] = col[k] = k;
        if (flxi_stopped())
            continue;
        NAME(exchange_largest)(a, v, n, k, row, col);
        NUM pivot = a[k * n + k];
        for (int64_t i = k + 1; i < n && pivot != 0.0; i++) {
            a[i * n + k] = DIV(a[i * n + k], pivot);
            NAME(subtract)(a + i * n + k + 1, a[i * n + k], a + k * n + k + 1, n - k - 1);
        }
        for (int64_t j = k + 1; j < n && pivot != 0.0; j++)
            a[k * n + j] = DIV(a[k * n + j], pivot);
    }
}

/* The derivative of the adjugate of diag(d) along v: with P_ij the product of all d but d_i and d_j, it is
   Σ_k v_kk P_ik on the diagonal and -v_ij P_ij beside it. The d are the diagonal of a; `after` has room for n. */
static void NAME(diagonal_slope)(const NUM *a, const NUM *v, int64_t n, NUM *w, NUM *after)
{
    NUM product = 1.0, before = 1.0;
    for (int64_t j = n; j-- > 0;) {
        after[j] = product;
        product = MUL(product, a[j * n + j]);
    }
    for (int64_t i = 0; i < n; i++)
        w[i * n + i] = 0.0;
    for (int64_t i = 0; i < n && !flxi_stopped(); i++) {
        product = before;
        for (int64_t j = i + 1; j < n; j++) {
            NUM others = MUL(product, after[j]);
            w[i * n + j] = -MUL(v[i * n + j], others);
            w[j * n + i] = -MUL(v[j * n + i], others);
            w[i * n + i] += MUL(v[j * n + j], others);
            w[j * n + j] += MUL(v[i * n + i], others);
            product = MUL(product, a[j * n + j]);
        }
        before = MUL(before, a[i * n + i]);
    }
}

/* With a = P^T L D U Q^T: adj'(a)[v] = det(P Q) Q U^-1 adj'(D)[L^-1 P v Q U^-1] L^-1 P. */
static void NAME(adjugate_along)(void *matrix, void *direction, int64_t n, int64_t *pivots, void *out)
{
    NUM *a = matrix, *v = direction, *w = out;
    int64_t *row = pivots, *col = pivots + n;
    NAME(complete_lu)(a, v, n, row, col);
    double sign = NAME(parity)(n, row) * NAME(parity)(n, col);
    for (int64_t i = 0; i < n && !flxi_stopped(); i++) {
        for (int64_t k = 0; k < i; k++)
            NAME(subtract)(v + i * n, a[i * n + k], v + k * n, n);
    }
    for (int64_t i = 0; i < n && !flxi_stopped(); i++)
        for (int64_t k = 0; k < n; k++)
            NAME(subtract)(v + i * n + k + 1, v[i * n + k], a + k * n + k + 1, n - k - 1);
    NAME(diagonal_slope)(a, v, n, w, w + n * n);
    for (int64_t i = n; i-- > 0 && !flxi_stopped();)
        for (int64_t k = i + 1; k < n; k++)
            NAME(subtract)(w + i * n, a[i * n + k], w + k * n, n);
    for (int64_t i = 0; i < n && !flxi_stopped(); i++) {
        for (int64_t k = n; k-- > 0;)
            NAME(subtract)(w + i * n, w[i * n + k], a + k * n, k);
        for (int64_t j = 0; j < n; j++)
            w[i * n + j] *= sign;
    }
    for (int64_t k = n; k-- > 0;) {
        NAME(exchange)(w + k * n, w + col[k] * n, n);
        for (int64_t i = 0; i < n && row[k] != k; i++)
            NAME(exchange)(w + i * n + k, w + i * n + row[k], 1);
    }
}

static const flxi_dense NAME(functions) = {
    .size = sizeof(NUM),
    .fill = NAME(fill),
    .conjugate = NAME(conjugate),
    .unit = NAME(unit),
    .lu = NAME(lu),
    .exchange_rows = NAME(exchange_rows),
    .triangular = NAME(triangular),
    .cholesky = NAME(cholesky),
    .qr = NAME(qr),
    .determinant = NAME(determinant),
    .adjugate = NAME(adjugate),
    .adjugate_along = NAME(adjugate_along),
};

#undef NUM
#undef NAME
#undef MUL
#undef DIV
#undef CONJ
#undef SIZE
#undef ABS
#undef REAL
