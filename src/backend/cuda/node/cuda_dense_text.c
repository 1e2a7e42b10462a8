/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_dense_text.c: kernels for dense matrices. Matrices are widened to N (double, or a pair of doubles) when they are
   loaded, dense and row-major, and rounded once when they are stored. Factors are made in panels of 32 columns by a
   block for each matrix; what a panel does to the columns after it is a product, which many blocks compute. A grid has
   `parts` blocks for each matrix. */
#include "backend/cuda/node/cuda_dense.h"

static const struct {
    int32_t dtype;
    const char *types;
} elements[FLXI_DENSE_DTYPES] = {
#define REAL_NUMBERS(real)                                                                                       \
    "typedef " real " T, R;\ntypedef double N;\n"                                                                \
    "static __device__ N load(T x) { return (double)x; }\nstatic __device__ T save(N x) { return (T)x; }\n"      \
    "static __device__ N of(double x) { return x; }\nstatic __device__ N conjugate(N x) { return x; }\n"         \
    "static __device__ double real(N x) { return x; }\nstatic __device__ double size(N x) { return fabs(x); }\n" \
    "static __device__ double modulus(N x) { return fabs(x); }\n"                                                \
    "static __device__ bool is_zero(N x) { return x == 0; }\n"
#define COMPLEX_NUMBERS(pair, real)                                                                                   \
    "typedef " pair " T;\ntypedef " real " R;\nstruct N {\n    double x, y;\n};\n"                                    \
    "static __device__ N load(T a) { return N{(double)a.x, (double)a.y}; }\n"                                         \
    "static __device__ T save(N a) { return T{(" real ")a.x, (" real ")a.y}; }\n"                                     \
    "static __device__ N of(double x) { return N{x, 0}; }\n"                                                          \
    "static __device__ N conjugate(N a) { return N{a.x, -a.y}; }\n"                                                   \
    "static __device__ double real(N a) { return a.x; }\n"                                                            \
    "static __device__ double size(N a) { return fabs(a.x) + fabs(a.y); }\n"                                          \
    "static __device__ double modulus(N a) { return hypot(a.x, a.y); }\n"                                             \
    "static __device__ bool is_zero(N a) { return a.x == 0 && a.y == 0; }\n"                                          \
    "static __device__ N operator+(N a, N b) { return N{a.x + b.x, a.y + b.y}; }\n"                                   \
    "static __device__ N operator-(N a, N b) { return N{a.x - b.x, a.y - b.y}; }\n"                                   \
    "static __device__ N operator*(N a, N b) { return N{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }\n"           \
    "static __device__ N operator*(N a, double b) { return N{a.x * b, a.y * b}; }\n"                                  \
    "static __device__ N operator/(N a, double b) { return N{a.x / b, a.y / b}; }\n"                                  \
    "static __device__ N over_real(double x, double y, double re, double im)\n{\n"                                    \
    "    const double ratio = im / re, scale = re + im * ratio;\n"                                                    \
    "    return ratio == 0 ? N{(x + im * (y / re)) / scale, (y - im * (x / re)) / scale}\n"                           \
    "                      : N{(x + y * ratio) / scale, (y - x * ratio) / scale};\n}\n"                               \
    "static __device__ N scaled(N z, int *k)\n{\n    const double most = fmax(fabs(z.x), fabs(z.y));\n"               \
    "    *k = most >= 0x1p1021 ? -3 : most < 0x1p-400 ? 600 : 0;\n    return N{ldexp(z.x, *k), ldexp(z.y, *k)};\n}\n" \
    "static __device__ N operator/(N a, N b)\n{\n    if (is_zero(b))\n        return N{a.x / 0.0, a.y / 0.0};\n"      \
    "    int up, down;\n    a = scaled(a, &up);\n    b = scaled(b, &down);\n"                                         \
    "    const N y = fabs(b.x) < fabs(b.y) ? over_real(a.y, -a.x, b.y, -b.x) : over_real(a.x, a.y, b.x, b.y);\n"      \
    "    return N{ldexp(y.x, down - up), ldexp(y.y, down - up)};\n}\n"
    {FLX_F32, REAL_NUMBERS("float")},
    {FLX_F64, REAL_NUMBERS("double")},
    {FLX_C64, COMPLEX_NUMBERS("float2", "float")},
    {FLX_C128, COMPLEX_NUMBERS("double2", "double")},
};

static const char memory[] =
    "typedef unsigned long long u64;\ntypedef long long i64;\n"
    "struct view {\n    i64 extent[16], step[16], row, col;\n    unsigned rank, reserved;\n};\n"
    "static __device__ i64 first_of(const view &v, u64 batch)\n{\n    i64 at = 0;\n"
    "    for (unsigned k = v.rank; k-- > 0;) {\n        const u64 q = batch / v.extent[k];\n"
    "        at += (i64)(batch - q * v.extent[k]) * v.step[k];\n        batch = q;\n    }\n    return at;\n}\n"
    /* kind: 0 as it is, 1 the Hermitian part, 2 the identity. */
    "extern \"C\" __global__ void __launch_bounds__(256) dense_load(const T *x, N *a, const __grid_constant__ view v, "
    "u64 rows, u64 cols, u64 all, unsigned kind)\n{\n"
    "    const u64 at = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (at >= all)\n        return;\n"
    "    const u64 batch = at / (rows * cols), rest = at - batch * rows * cols, i = rest / cols, j = rest - i * cols;\n"
    "    if (kind == 2) {\n        a[at] = of(i == j ? 1.0 : 0.0);\n        return;\n    }\n"
    "    const i64 first = first_of(v, batch);\n    const N own = load(x[first + (i64)i * v.row + (i64)j * v.col]);\n"
    "    a[at] = kind == 0 ? own : (own + conjugate(load(x[first + (i64)j * v.row + (i64)i * v.col]))) * 0.5;\n}\n"
    /* bad: by matrix, then it is all NaN; part: 0 all, 1 no more than the lower half, 2 no more than the upper one. */
    "extern \"C\" __global__ void __launch_bounds__(256) dense_store(const N *a, T *y, const __grid_constant__ view v, "
    "u64 rows, u64 cols, u64 pitch, u64 all, const int *bad, unsigned part, unsigned conjugated)\n{\n"
    "    const u64 at = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (at >= all)\n        return;\n"
    "    const u64 batch = at / (rows * cols), rest = at - batch * rows * cols, i = rest / cols, j = rest - i * cols;\n"
    "    N own = a[batch * pitch + rest];\n    if ((part == 1 && j > i) || (part == 2 && j < i))\n        own = "
    "of(0);\n"
    "    if (bad && bad[batch])\n        own = of(__longlong_as_double(0x7ff8000000000000ll));\n"
    "    y[first_of(v, batch) + (i64)i * v.row + (i64)j * v.col] = save(conjugated ? conjugate(own) : own);\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) dense_check(const N *t, u64 n, u64 step, u64 all, "
    "unsigned *status, unsigned flag)\n{\n"
    "    const u64 at = (u64)blockIdx.x * 256u + threadIdx.x;\n"
    "    if (at < all && is_zero(t[at / n * n * n + at % n * step]))\n        atomicOr(status, flag);\n}\n";

/* c[i, j] -= sum over k < depth of a[i, k] b[k, j], with steps of each. Blocks of 32 x 8 threads. */
static const char update[] =
    "struct factor {\n    u64 first, row, col, matrix;\n    unsigned conjugated, reserved;\n};\n"
    "extern \"C\" __global__ void __launch_bounds__(256) dense_update(const N *a, const N *b, N *c, "
    "const __grid_constant__ factor fa, const __grid_constant__ factor fb, const __grid_constant__ factor fc, "
    "u64 rows, u64 cols, unsigned depth, u64 parts)\n{\n"
    "    __shared__ N as[32][33], bs[32][33];\n"
    "    const u64 batch = blockIdx.x / parts, part = blockIdx.x % parts, wide = (cols + 31) / 32;\n"
    "    const unsigned tx = threadIdx.x, ty = threadIdx.y;\n"
    "    const u64 top = part / wide * 32u, col = part % wide * 32u + tx;\n"
    "    a += batch * fa.matrix + fa.first;\n    b += batch * fb.matrix + fb.first;\n"
    "    c += batch * fc.matrix + fc.first;\n"
    "    for (unsigned r = ty; r < 32u; r += 8u) {\n"
    "        const N x = top + r < rows && tx < depth ? a[(top + r) * fa.row + tx * fa.col] : of(0);\n"
    "        const N y = col < cols && r < depth ? b[r * fb.row + col * fb.col] : of(0);\n"
    "        as[r][tx] = fa.conjugated ? conjugate(x) : x;\n        bs[r][tx] = fb.conjugated ? conjugate(y) : y;\n    "
    "}\n"
    "    __syncthreads();\n"
    "    for (unsigned i = ty; i < 32u; i += 8u) {\n        if (top + i >= rows || col >= cols)\n            "
    "continue;\n"
    "        N sum = c[(top + i) * fc.row + col * fc.col];\n"
    "        for (unsigned k = 0; k < depth; k++)\n            sum = sum - as[i][k] * bs[k][tx];\n"
    "        c[(top + i) * fc.row + col * fc.col] = sum;\n    }\n}\n";

/* The largest of a column: of equal ones the first. A NaN is never larger, and nothing is larger than it. */
static const char lu[] =
    "extern \"C\" __global__ void __launch_bounds__(256) lu_panel(N *a, int *pivots, u64 m, u64 n, u64 begin, u64 end, "
    "u64 steps)\n{\n"
    "    __shared__ double largest[256];\n    __shared__ u64 row[256];\n    const unsigned t = threadIdx.x;\n"
    "    a += blockIdx.x * m * n;\n    pivots += blockIdx.x * steps;\n"
    "    for (u64 k = begin; k < end; k++) {\n"
    "        double most = -1;\n        u64 at = k;\n"
    "        for (u64 i = k + t; i < m; i += 256u) {\n            const double s = size(a[i * n + k]);\n"
    "            if (s > most) {\n                most = s;\n                at = i;\n            }\n        }\n"
    "        largest[t] = most;\n        row[t] = at;\n        __syncthreads();\n"
    "        for (unsigned d = 128; d > 0; d /= 2) {\n"
    "            if (t < d && (largest[t + d] > largest[t] || (largest[t + d] == largest[t] && row[t + d] < row[t]))) "
    "{\n"
    "                largest[t] = largest[t + d];\n                row[t] = row[t + d];\n            }\n"
    "            __syncthreads();\n        }\n"
    "        const double own = size(a[k * n + k]);\n        const u64 p = own == own && largest[0] >= 0 ? row[0] : "
    "k;\n"
    "        __syncthreads();\n        if (t == 0)\n            pivots[k] = (int)p;\n"
    "        for (u64 j = t; p != k && j < n; j += 256u) {\n            const N x = a[k * n + j];\n"
    "            a[k * n + j] = a[p * n + j];\n            a[p * n + j] = x;\n        }\n"
    "        __syncthreads();\n        const N pivot = a[k * n + k];\n        if (is_zero(pivot))\n            "
    "continue;\n"
    "        for (u64 i = k + 1 + t; i < m; i += 256u)\n            a[i * n + k] = a[i * n + k] / pivot;\n"
    "        __syncthreads();\n        const u64 wide = end - k - 1;\n"
    "        for (u64 q = t; q < wide * (m - k - 1); q += 256u) {\n"
    "            const u64 i = k + 1 + q / wide, j = k + 1 + q % wide;\n"
    "            a[i * n + j] = a[i * n + j] - a[i * n + k] * a[k * n + j];\n        }\n        __syncthreads();\n    "
    "}\n}\n"
    /* perm[i]: the row of a that is row i of the factors. */
    "extern \"C\" __global__ void __launch_bounds__(256) lu_order(const int *pivots, int *out, int *perm, u64 m, u64 "
    "steps, "
    "u64 all)\n{\n"
    "    const u64 batch = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (batch >= all)\n        return;\n"
    "    pivots += batch * steps;\n    out += batch * steps;\n    perm += batch * m;\n"
    "    for (u64 i = 0; i < m; i++)\n        perm[i] = (int)i;\n"
    "    for (u64 k = 0; k < steps; k++) {\n        const int p = pivots[k], x = perm[k];\n"
    "        out[k] = p;\n        perm[k] = perm[p];\n        perm[p] = x;\n    }\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) lu_exchange(N *b, const int *pivots, u64 n, u64 k, u64 "
    "all)\n{\n"
    "    const u64 at = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (at >= all)\n        return;\n"
    "    b += at / k * n * k + at % k;\n    pivots += at / k * n;\n"
    "    for (u64 i = 0; i < n; i++) {\n        const u64 p = (u64)pivots[i];\n        const N x = b[i * k];\n"
    "        if (p != i) {\n            b[i * k] = b[p * k];\n            b[p * k] = x;\n        }\n    }\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) lu_determinant(const N *a, const int *pivots, T *y, u64 n, "
    "u64 all)\n{\n"
    "    const u64 batch = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (batch >= all)\n        return;\n"
    "    a += batch * n * n;\n    pivots += batch * n;\n    N product = of(1);\n"
    "    for (u64 k = 0; k < n; k++)\n        product = product * a[k * n + k] * (pivots[k] == (int)k ? 1.0 : -1.0);\n"
    "    y[batch] = save(product);\n}\n";

/* Rows [begin, begin + w) of the triangle t, for the columns of b: a thread has one. */
static const char triangle[] =
    "struct triangle {\n    u64 n, row, col, matrix;\n    unsigned lower, unit, conjugated, reserved;\n};\n"
    "extern \"C\" __global__ void __launch_bounds__(256) triangle_block(const N *t, N *b, "
    "const __grid_constant__ triangle s, u64 pitch, u64 b_matrix, u64 begin, unsigned w, u64 parts, u64 cols)\n{\n"
    "    __shared__ N own[32][33];\n    N x[32];\n"
    "    const u64 batch = blockIdx.x / parts, col = blockIdx.x % parts * 256u + threadIdx.x;\n"
    "    t += batch * s.matrix;\n    b += batch * b_matrix + begin * pitch + col;\n"
    "    for (unsigned q = threadIdx.x; q < w * w; q += 256u) {\n"
    "        const N e = t[(begin + q / w) * s.row + (begin + q % w) * s.col];\n"
    "        own[q / w][q % w] = s.conjugated ? conjugate(e) : e;\n    }\n    __syncthreads();\n"
    "    if (col >= cols)\n        return;\n"
    "    #pragma unroll 1\n    for (unsigned q = 0; q < w; q++) {\n"
    "        const unsigned i = s.lower ? q : w - 1 - q;\n        N sum = b[i * pitch];\n"
    "        #pragma unroll 4\n        for (unsigned p = 0; p < q; p++) {\n"
    "            const unsigned j = s.lower ? p : w - 1 - p;\n            sum = sum - own[i][j] * x[j];\n        }\n"
    "        x[i] = s.unit ? sum : sum / own[i][i];\n        b[i * pitch] = x[i];\n    }\n}\n";

static const char cholesky[] =
    "extern \"C\" __global__ void __launch_bounds__(256) cholesky_block(N *a, int *bad, u64 n, u64 begin, unsigned w, "
    "unsigned *status, unsigned flag)\n{\n"
    "    __shared__ N own[32][33];\n    a += blockIdx.x * n * n + begin * n + begin;\n    const unsigned t = "
    "threadIdx.x;\n"
    "    if (begin == 0 && t == 0)\n        bad[blockIdx.x] = 0;\n"
    "    for (unsigned q = t; q < w * w; q += 256u)\n        own[q / w][q % w] = a[q / w * n + q % w];\n"
    "    __syncthreads();\n"
    "    for (unsigned j = 0; j < w; j++) {\n        const double square = real(own[j][j]);\n"
    "        const bool is_good = square > 0 && square < __longlong_as_double(0x7ff0000000000000ll);\n"
    "        if (!is_good && t == 0) {\n            bad[blockIdx.x] = 1;\n            atomicOr(status, flag);\n        "
    "}\n"
    "        const double root = is_good ? sqrt(square) : 1.0;\n        __syncthreads();\n"
    "        for (unsigned i = j + t; i < w; i += 256u)\n            own[i][j] = i == j ? of(root) : own[i][j] / "
    "root;\n"
    "        __syncthreads();\n"
    "        for (unsigned q = t; q < w * w; q += 256u) {\n            const unsigned i = q / w, k = q % w;\n"
    "            if (k > j && i >= k)\n                own[i][k] = own[i][k] - own[i][j] * conjugate(own[k][j]);\n"
    "        }\n        __syncthreads();\n    }\n"
    "    for (unsigned q = t; q < w * w; q += 256u)\n        a[q / w * n + q % w] = own[q / w][q % w];\n}\n"
    /* Rows below: x L^H = a. */
    "extern \"C\" __global__ void __launch_bounds__(256) cholesky_rows(N *a, u64 n, u64 begin, unsigned w, u64 "
    "parts)\n{\n"
    "    __shared__ N own[32][33];\n    N x[32];\n"
    "    const u64 batch = blockIdx.x / parts, row = begin + w + blockIdx.x % parts * 256u + threadIdx.x;\n"
    "    a += batch * n * n;\n"
    "    for (unsigned q = threadIdx.x; q < w * w; q += 256u)\n"
    "        own[q / w][q % w] = a[(begin + q / w) * n + begin + q % w];\n    __syncthreads();\n"
    "    if (row >= n)\n        return;\n    a += row * n + begin;\n"
    "    #pragma unroll 1\n    for (unsigned i = 0; i < w; i++) {\n        N sum = a[i];\n"
    "        #pragma unroll 4\n        for (unsigned j = 0; j < i; j++)\n"
    "            sum = sum - x[j] * conjugate(own[i][j]);\n"
    "        x[i] = sum / real(own[i][i]);\n        a[i] = x[i];\n    }\n}\n";

/* The variant for a dtype, or -1. */
static int32_t variant_of(int32_t dtype)
{
    for (int32_t i = 0; i < FLXI_DENSE_DTYPES; i++)
        if (elements[i].dtype == dtype)
            return i;
    return -1;
}

flxi_dense_matrices flxi_dense_matrices_of(const flxi_device_node *n)
{
    const flx_type *a = n->in_types[0];
    flxi_dense_matrices m = {.batch = 1, .size = flxi_is_complex(a->dtype) ? 16 : 8, .variant = variant_of(a->dtype)};
    m.rows = (uint64_t)a->dims[a->rank - 2];
    m.cols = (uint64_t)a->dims[a->rank - 1];
    m.least = m.rows < m.cols ? m.rows : m.cols;
    for (int k = 0; k < a->rank - 2; k++)
        m.batch *= (uint64_t)a->dims[k];
    return m;
}

const char *flxi_cuda_dense_refuse(const flxi_device_node *n)
{
    int64_t count = 0;
    if (variant_of(n->in_types[0]->dtype) < 0)
        return "for f32, f64 and complex numbers";
    for (uint32_t i = 0; i < n->nin + n->nout; i++)
        if (!flxi_static_count(i < n->nin ? n->in_types[i] : n->out_types[i - n->nin], &count) || count > INT32_MAX)
            return "for fewer than 2^31 elements";
    return NULL;
}

size_t flxi_dense_part(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

bool flxi_cuda_dense_is_complex(int32_t variant)
{
    return flxi_is_complex(elements[variant].dtype);
}

const char *flxi_cuda_dense_types(int32_t variant)
{
    return elements[variant].types;
}

static void write_dense(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    (void)language;
    flxi_add_text(out, elements[variant].types);
    flxi_add_text(out, memory);
    flxi_add_text(out, update);
    flxi_add_text(out, lu);
    flxi_add_text(out, triangle);
    flxi_add_text(out, cholesky);
}

const flxi_card_text flxi_cuda_dense_text = {write_dense, FLXI_DENSE_DTYPES};
