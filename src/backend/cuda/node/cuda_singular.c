/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_singular.c: svd on the card, in double, a block for each matrix: rotations of pairs of columns until all are
   orthogonal, as in the definition (numeric/linalg/jacobi.c). In a round each column is in one pair, so that all pairs
   are turned at once. Made for many matrices, or for small ones. */
#include "backend/cuda/node/cuda_dense.h"
#include "ops/opcode.h"

enum { MOST_COLUMNS = 512 };

typedef struct {
    flxi_dense_matrices a;
    size_t vectors; /* where this part of scratch begins, in bytes */
} singular_table;

/* ---- Text ---- */

static const char real_numbers[] = "static __device__ double fold(double x);\n"
                                   "static __device__ N fold_number(N x) { return fold(x); }\n";
static const char complex_numbers[] = "static __device__ double fold(double x);\n"
                                      "static __device__ N fold_number(N x) { return N{fold(x.x), fold(x.y)}; }\n";

/* Columns are turned in pairs, a warp for each, until all are orthogonal. */
static const char pairs[] =
    "static __device__ double fold(double x)\n{\n    for (int d = 16; d > 0; d /= 2)\n"
    "        x += __shfl_xor_sync(~0u, x, d);\n    return x;\n}\n/* a^H b by a warp, and by the block. */\n"
    "static __device__ N dot(const N *a, const N *b, u64 m)\n{\n    N sum = of(0);\n"
    "    for (u64 i = threadIdx.x % 32u; i < m; i += 32u)\n        sum = sum + conjugate(a[i]) * b[i];\n"
    "    return fold_number(sum);\n}\nstatic __device__ N whole_dot(const N *a, const N *b, u64 m)\n{\n"
    "    __shared__ N parts[8];\n    N sum = of(0);\n    for (u64 i = threadIdx.x; i < m; i += 256u)\n"
    "        sum = sum + conjugate(a[i]) * b[i];\n    sum = fold_number(sum);\n    __syncthreads();\n"
    "    if (threadIdx.x % 32u == 0)\n        parts[threadIdx.x / 32u] = sum;\n    __syncthreads();\n"
    "    sum = parts[0];\n    for (int k = 1; k < 8; k++)\n        sum = sum + parts[k];\n    return sum;\n"
    "}\nstatic __device__ void turn_pair(N *p, N *q, u64 m, double c, double s, N phase)\n{\n"
    "    for (u64 i = threadIdx.x % 32u; i < m; i += 32u) {\n"
    "        const N x = p[i], y = conjugate(phase) * q[i];\n        p[i] = x * c - y * s;\n"
    "        q[i] = x * s + y * c;\n    }\n}\n"
    "/* Whether columns p and q were not orthogonal; then they are. */\n"
    "static __device__ bool settle_pair(N *a, N *v, u64 m, u64 n, u64 p, u64 q)\n{\n"
    "    const double x = real(dot(a + p * m, a + p * m, m)), y = real(dot(a + q * m, a + q * m, m));\n"
    "    const N product = dot(a + p * m, a + q * m, m);\n    const double g = modulus(product);\n"
    "    if (!(g > 0x1p-52 * sqrt(x) * sqrt(y) && g >= 0x1p-1022))\n        return false;\n"
    "    const double zeta = (y - x) / (2 * g);\n"
    "    const double t = is_finite(zeta) ? copysign(1.0, zeta) / (fabs(zeta) + hypot(1.0, zeta)) : 0;\n"
    "    const double c = 1 / sqrt(1 + t * t);\n"
    "    turn_pair(a + p * m, a + q * m, m, c, c * t, product / g);\n"
    "    turn_pair(v + p * n, v + q * n, n, c, c * t, product / g);\n    return true;\n}\n";

/* Columns as short as rounding errors are replaced, by the whole block. */
static const char completion[] =
    "/* Column k of u loses its components along those before it, in order; twice. */\n"
    "static __device__ void separate(N *u, const unsigned *order, u64 m, u64 k)\n{\n"
    "    N *own = u + order[k] * m;\n    for (u64 pass = 0; pass < 2 * k; pass++) {\n"
    "        const N *other = u + order[pass % k] * m;\n        const N part = whole_dot(other, own, m);\n"
    "        for (u64 i = threadIdx.x; i < m; i += 256u)\n            own[i] = own[i] - part * other[i];\n"
    "        __syncthreads();\n    }\n}\n"
    "static __device__ double length(const N *x, u64 m) { return sqrt(real(whole_dot(x, x, m))); }\n"
    "static __device__ void scale_column(N *x, u64 m, double by)\n{\n"
    "    for (u64 i = threadIdx.x; i < m; i += 256u)\n        x[i] = x[i] * by;\n    __syncthreads();\n}\n"
    "/* A column without a length becomes a unit vector that is orthogonal to those before it. */\n"
    "static __device__ void complete(N *u, const unsigned *order, u64 m, u64 k)\n{\n"
    "    N *own = u + order[k] * m;\n    for (u64 e = 0; e < m; e++) {\n"
    "        for (u64 i = threadIdx.x; i < m; i += 256u)\n            own[i] = of(i == e ? 1.0 : 0.0);\n"
    "        __syncthreads();\n        separate(u, order, m, k);\n"
    "        const double size = length(own, m);\n        if (size * size * m >= 0.25) {\n"
    "            scale_column(own, m, 1 / size);\n            return;\n        }\n    }\n}\n"
    "static __device__ void normalise(N *u, const double *s, const unsigned *order, u64 m, u64 n)\n{\n"
    "    const double least = 0x1p-52 * s[order[0]];\n    for (u64 k = 0; k < n; k++)\n"
    "        if (s[order[k]] > least)\n            scale_column(u + order[k] * m, m, 1 / s[order[k]]);\n"
    "    for (u64 k = 0; k < n; k++) {\n        const double own = s[order[k]];\n        if (own > least)\n"
    "            continue;\n        if (own > 0) {\n            scale_column(u + order[k] * m, m, 1 / own);\n"
    "            separate(u, order, m, k);\n        }\n"
    "        const double size = own > 0 ? length(u + order[k] * m, m) : 0;\n        if (size > 0.5)\n"
    "            scale_column(u + order[k] * m, m, 1 / size);\n        else\n"
    "            complete(u, order, m, k);\n    }\n}\n";

/* Columns of the matrix, or of its adjoint if that is the taller one. */
static const char columns[] =
    "/* The first component of at least half the largest modulus. */\n"
    "static __device__ u64 anchor_of(const N *x, u64 m)\n{\n    double largest = 0;\n    u64 at = 0;\n"
    "    for (u64 i = 0; i < m; i++)\n        largest = fmax(largest, modulus(x[i]));\n"
    "    while (at + 1 < m && !(modulus(x[at]) >= 0.5 * largest))\n        at++;\n"
    "    return largest > 0 ? at : 0;\n}\n"
    "static __device__ void load_columns(const T *x, N *a, N *v, u64 rows, u64 cols)\n{\n"
    "    const bool is_wide = rows < cols;\n"
    "    const u64 m = is_wide ? cols : rows, n = is_wide ? rows : cols;\n"
    "    for (u64 i = threadIdx.x; i < m * n; i += 256u)\n"
    "        a[i] = is_wide ? conjugate(load(x[i])) : load(x[i % m * n + i / m]);\n"
    "    for (u64 i = threadIdx.x; i < n * n; i += 256u)\n        v[i] = of(i / n == i % n ? 1.0 : 0.0);\n"
    "    __syncthreads();\n}\nstatic __device__ bool sweep(N *a, N *v, u64 m, u64 n)\n{\n"
    "    const unsigned even = (unsigned)(n + n % 2), pairs = even / 2, others = even - 1;\n"
    "    bool moved = false;\n    for (unsigned round = 0; round < others; round++) {\n"
    "        for (unsigned k = threadIdx.x / 32u; k < pairs; k += 8u) {\n"
    "            unsigned p = k ? (round + k) % others : others, q = k ? (round + others - k) % others : round;\n"
    "            if (p > q) {\n                const unsigned other = p;\n                p = q;\n"
    "                q = other;\n            }\n            if (q < n && settle_pair(a, v, m, n, p, q))\n"
    "                moved = true;\n        }\n        __syncthreads();\n    }\n"
    "    return __syncthreads_or(moved);\n}\n";

/* Values descend; the anchors of the columns of u become real and positive. */
static const char block[] =
    ""
    "extern \"C\" __global__ void __launch_bounds__(256) svd_block(const T *x, N *a, N *v, T *u, R *s, T *vt, u64 "
    "rows,\n"
    "u64 cols)\n{\n    __shared__ double size[512];\n    __shared__ unsigned order[512];\n"
    "    const bool is_wide = rows < cols;\n"
    "    const u64 m = is_wide ? cols : rows, n = is_wide ? rows : cols;\n"
    "    const unsigned t = threadIdx.x;\n    x += blockIdx.x * m * n;\n    a += blockIdx.x * m * n;\n"
    "    v += blockIdx.x * n * n;\n    u += blockIdx.x * rows * n;\n    vt += blockIdx.x * n * cols;\n"
    "    s += blockIdx.x * n;\n    load_columns(x, a, v, rows, cols);\n    double own = 0;\n"
    "    for (u64 i = t; i < m * n; i += 256u)\n        own = larger(own, modulus(a[i]));\n"
    "    const double most = all_of<larger>(own);\n    if (!is_finite(most)) {\n"
    "        const double nan = __longlong_as_double(0x7ff8000000000000ll);\n"
    "        for (u64 i = t; i < rows * n; i += 256u)\n            u[i] = save(of(nan));\n"
    "        for (u64 i = t; i < n * cols; i += 256u)\n            vt[i] = save(of(nan));\n"
    "        for (u64 i = t; i < n; i += 256u)\n            s[i] = (R)nan;\n        return;\n    }\n"
    "    const double scale = most > 0 ? exp2((double)ilogb(most)) : 1;\n"
    "    for (u64 i = t; i < m * n; i += 256u)\n        a[i] = a[i] / scale;\n    __syncthreads();\n    for (int k = "
    "0; k < 60 && sweep(a, v, m, n); k++)\n"
    "        continue;\n    for (u64 k = t / 32u; k < n; k += 8u) {\n"
    "        const double square_sum = real(dot(a + k * m, a + k * m, m));\n        if (t % 32u == 0)\n"
    "            size[k] = sqrt(square_sum);\n    }\n    __syncthreads();\n"
    "    for (u64 i = t; i < n; i += 256u) {\n        unsigned rank = 0;\n"
    "        for (u64 j = 0; j < n; j++)\n"
    "            rank += size[j] > size[i] || (size[j] == size[i] && j < i);\n"
    "        order[rank] = (unsigned)i;\n    }\n    __syncthreads();\n    normalise(a, size, order, m, n);\n"
    "    for (u64 k = t; k < n; k += 256u) {\n"
    "        const N *left = is_wide ? v + order[k] * n : a + order[k] * m;\n"
    "        const N *right = is_wide ? a + order[k] * m : v + order[k] * n;\n"
    "        const u64 anchor = anchor_of(left, rows);\n        const double whole = modulus(left[anchor]);\n"
    "        const N turn = whole > 0 ? conjugate(left[anchor]) / whole : of(1);\n"
    "        s[k] = (R)(size[order[k]] * scale);\n        for (u64 i = 0; i < rows; i++)\n"
    "            u[i * n + k] = save(i == anchor ? of(whole) : left[i] * turn);\n"
    "        for (u64 i = 0; i < cols; i++)\n"
    "            vt[k * cols + i] = save(conjugate(right[i] * turn));\n    }\n}\n";

static void write_singular(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    (void)language;
    flxi_add_text(out, flxi_cuda_dense_types(variant));
    flxi_add_text(out, flxi_cuda_block_folds);
    flxi_add_text(out, flxi_cuda_dense_is_complex(variant) ? complex_numbers : real_numbers);
    flxi_add_text(out, pairs);
    flxi_add_text(out, completion);
    flxi_add_text(out, columns);
    flxi_add_text(out, block);
}

const flxi_card_text flxi_cuda_singular_text = {write_singular, FLXI_DENSE_DTYPES};

/* ---- Nodes ---- */

static const char *refuse(const flxi_device_node *n)
{
    const char *reason = flxi_cuda_dense_refuse(n);
    if (reason)
        return reason;
    return flxi_dense_matrices_of(n).least > MOST_COLUMNS ? "for matrices with an extent of at most 512" : NULL;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    singular_table t = {.a = flxi_dense_matrices_of(n)};
    t.vectors = flxi_dense_part(t.a.batch * t.a.rows * t.a.cols * t.a.size);
    memcpy(table, &t, sizeof t);
    return t.vectors + t.a.batch * t.a.least * t.a.least * t.a.size;
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    const singular_table *t = s->way->table;
    flxi_cu_function f;
    unsigned char *scratch = s->scratch;
    void *a = scratch, *v = scratch + t->vectors;
    uint64_t rows = t->a.rows, cols = t->a.cols;
    if (t->a.batch * rows * cols == 0)
        return FLX_OK;
    void *parameters[] = {
        (void *)(uintptr_t)&s->in[0],  &a,    &v,   (void *)(uintptr_t)&s->out[0], (void *)(uintptr_t)&s->out[1],
        (void *)(uintptr_t)&s->out[2], &rows, &cols};
    FLXI_TRY(flxi_cuda_own_function(c->card, &flxi_cuda_singular_text, t->a.variant, "svd_block", &f, err));
    return flxi_cuda_launch_line(c->card, c->stream, f, t->a.batch, FLXI_DENSE_THREADS, parameters, err);
}

const flxi_card_way flxi_cuda_singular = {
    .name = "block", .refuse = refuse, .table_bytes = sizeof(singular_table), .prepare = prepare, .run = run};
