/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_orthogonal.c: qr and eigh on the card, in double, a block for each matrix. qr reflects columns as the definition
   does. eigh turns pairs of rows and columns (Jacobi): in a round each index is in one pair, so that all pairs are
   turned at once, and in n - 1 rounds every pair has had its turn. Made for many matrices, or for small ones. */
#include "backend/cuda/node/cuda_dense.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

enum { MOST_EIGEN = 512 };

typedef struct {
    flxi_dense_matrices a;
    size_t second, third; /* where these parts of scratch begin, in bytes */
} orthogonal_table;

/* ---- Text ---- */

const char flxi_cuda_block_folds[] =
    "typedef unsigned long long u64;\n"
    "static __device__ double larger(double a, double b) { return a != a ? a : b > a || b != b ? b : a; }\n"
    "static __device__ double add(double a, double b) { return a + b; }\n"
    "template <double (*fold)(double, double)> static __device__ double all_of(double own)\n{\n"
    "    __shared__ double s[256];\n    const unsigned t = threadIdx.x;\n    __syncthreads();\n    s[t] = own;\n"
    "    __syncthreads();\n    for (unsigned d = 128; d > 0; d /= 2) {\n        if (t < d)\n"
    "            s[t] = fold(s[t], s[t + d]);\n        __syncthreads();\n    }\n    return s[0];\n}\n"
    "static __device__ bool is_finite(double x) { return x - x == 0; }\n"
    "static __device__ double square(N x) { return real(conjugate(x) * x); }\n";

static const char reflections[] =
    /* Columns [first, cols) of x lose v (2 / v^H v) v^H x, rows from k on. */
    "static __device__ void reflect(N *x, u64 cols, u64 first, const N *v, u64 k, u64 m)\n{\n    double own = 0;\n"
    "    for (u64 i = k + threadIdx.x; i < m; i += 256u)\n        own += square(v[i]);\n"
    "    const double whole = all_of<add>(own);\n"
    "    for (u64 j = first + threadIdx.x; j < cols && whole != 0; j += 256u) {\n        N sum = of(0);\n"
    "        for (u64 i = k; i < m; i++)\n            sum = sum + conjugate(v[i]) * x[i * cols + j];\n"
    "        sum = sum * (2.0 / whole);\n"
    "        for (u64 i = k; i < m; i++)\n            x[i * cols + j] = x[i * cols + j] - sum * v[i];\n    }\n"
    "    __syncthreads();\n}\n"
    "static __device__ N phase_of(N x)\n{\n    const double s = modulus(x);\n    return s > 0 ? x / s : of(1);\n}\n"
    "extern \"C\" __global__ void __launch_bounds__(256) qr_block(N *a, N *q, N *v, u64 m, u64 n, u64 steps)\n{\n"
    "    const unsigned t = threadIdx.x;\n    a += blockIdx.x * m * n;\n    q += blockIdx.x * m * steps;\n"
    "    v += blockIdx.x * m;\n"
    "    for (u64 k = 0; k < steps; k++) {\n        double own = 0, sum = 0;\n"
    "        for (u64 i = k + t; i < m; i += 256u)\n            own = larger(own, modulus(a[i * n + k]));\n"
    "        const double most = all_of<larger>(own);\n"
    "        for (u64 i = k + t; i < m; i += 256u) {\n            const double part = modulus(a[i * n + k]) / most;\n"
    "            sum += part * part;\n        }\n        sum = all_of<add>(sum);\n"
    "        const double size = most == 0 || !is_finite(most) ? most : most * sqrt(sum);\n"
    "        const N phase = phase_of(a[k * n + k]);\n"
    "        for (u64 i = k + t; i < m; i += 256u) {\n"
    "            const N x = size > 0 ? a[i * n + k] / size : a[i * n + k];\n"
    "            v[i] = i == k && size > 0 ? x + phase : x;\n            q[i * steps + k] = v[i];\n        }\n"
    "        __syncthreads();\n        reflect(a, n, k, v, k, m);\n    }\n"
    "    for (u64 k = steps; k-- > 0;) {\n"
    "        for (u64 i = t; i < m; i += 256u) {\n            v[i] = i < k ? of(0) : q[i * steps + k];\n"
    "            q[i * steps + k] = of(i == k ? 1.0 : 0.0);\n        }\n"
    "        __syncthreads();\n        reflect(q, steps, k, v, k, m);\n    }\n"
    "    for (u64 k = 0; k < steps; k++) {\n        const N own = a[k * n + k], phase = phase_of(own);\n"
    "        __syncthreads();\n"
    "        for (u64 j = k + t; j < n; j += 256u)\n"
    "            a[k * n + j] = j == k ? of(modulus(own)) : conjugate(phase) * a[k * n + j];\n"
    "        for (u64 i = t; i < m; i += 256u)\n            q[i * steps + k] = q[i * steps + k] * phase;\n"
    "    }\n}\n";

static const char rotations[] =
    "extern \"C\" __global__ void __launch_bounds__(256) eigh_block(N *a, N *v, R *w, T *y, u64 n)\n{\n"
    "    __shared__ double cosine[256], sine[256];\n    __shared__ N phase[256];\n    __shared__ unsigned first[256], "
    "second[256];\n"
    "    const unsigned t = threadIdx.x, even = (unsigned)(n + n % 2), pairs = even / 2, others = even - 1;\n"
    "    a += blockIdx.x * n * n;\n    v += blockIdx.x * n * n;\n    y += blockIdx.x * n * n;\n    w += blockIdx.x * "
    "n;\n"
    "    double own = 0;\n    for (u64 i = t; i < n * n; i += 256u)\n        own = larger(own, modulus(a[i]));\n"
    "    const double most = all_of<larger>(own);\n"
    "    if (!is_finite(most)) {\n        const double nan = __longlong_as_double(0x7ff8000000000000ll);\n"
    "        for (u64 i = t; i < n * n; i += 256u)\n            y[i] = save(of(nan));\n"
    "        for (u64 i = t; i < n; i += 256u)\n            w[i] = (R)nan;\n        return;\n    }\n"
    "    const double scale = most > 0 ? exp2((double)ilogb(most)) : 1;\n"
    "    for (u64 i = t; i < n * n; i += 256u)\n        a[i] = a[i] / scale;\n    __syncthreads();\n"
    "    for (int sweep = 0; sweep < 60; sweep++) {\n        double apart = 0, whole = 0;\n"
    "        for (u64 i = t; i < n * n; i += 256u) {\n            const double s = square(a[i]);\n            whole += "
    "s;\n"
    "            apart += i / n == i % n ? 0 : s;\n        }\n        apart = all_of<add>(apart);\n"
    "        whole = all_of<add>(whole);\n        if (apart <= 1e-33 * whole)\n            break;\n"
    "        for (unsigned round = 0; round < others; round++) {\n"
    "            if (t < pairs) {\n"
    "                unsigned p = t ? (round + t) % others : others, q = t ? (round + others - t) % others : round;\n"
    "                if (p > q) {\n                    const unsigned x = p;\n                    p = q;\n"
    "                    q = x;\n                }\n"
    "                double c = 1, s = 0;\n                N turn = of(1);\n"
    "                const N apq = q < n ? a[p * n + q] : of(0);\n                const double r = modulus(apq);\n"
    "                if (r > 0) {\n"
    "                    const double tau = (real(a[q * n + q]) - real(a[p * n + p])) / (2 * r);\n"
    "                    const double tangent = (tau < 0 ? -1 : 1) / (fabs(tau) + hypot(1.0, tau));\n"
    "                    c = 1 / sqrt(1 + tangent * tangent);\n                    s = tangent * c;\n"
    "                    turn = conjugate(apq) / r;\n                }\n"
    "                first[t] = p;\n                second[t] = q;\n                cosine[t] = c;\n"
    "                sine[t] = s;\n                phase[t] = turn;\n            }\n            __syncthreads();\n"
    "            for (u64 i = t; i < pairs * n; i += 256u) {\n                const u64 k = i / n, j = i - k * n;\n"
    "                const u64 p = first[k], q = second[k];\n                if (q >= n || sine[k] == 0)\n"
    "                    continue;\n"
    "                const N x = a[p * n + j], z = conjugate(phase[k]) * a[q * n + j];\n"
    "                a[p * n + j] = x * cosine[k] - z * sine[k];\n"
    "                a[q * n + j] = x * sine[k] + z * cosine[k];\n            }\n            __syncthreads();\n"
    "            for (u64 i = t; i < pairs * n; i += 256u) {\n                const u64 j = i / pairs, k = i - j * "
    "pairs;\n"
    "                const u64 p = first[k], q = second[k];\n                if (q >= n || sine[k] == 0)\n"
    "                    continue;\n"
    "                const N x = a[j * n + p], z = phase[k] * a[j * n + q];\n"
    "                a[j * n + p] = x * cosine[k] - z * sine[k];\n"
    "                a[j * n + q] = x * sine[k] + z * cosine[k];\n"
    "                const N f = v[j * n + p], g = phase[k] * v[j * n + q];\n"
    "                v[j * n + p] = f * cosine[k] - g * sine[k];\n"
    "                v[j * n + q] = f * sine[k] + g * cosine[k];\n            }\n            __syncthreads();\n"
    "        }\n    }\n";

/* The rest of the kernel: values ascend; of a vector the first component of at least half the largest modulus becomes
   real and positive. */
static const char in_order[] =
    "    for (u64 i = t; i < n; i += 256u) {\n        const double value = real(a[i * n + i]);\n        u64 rank = 0;\n"
    "        for (u64 j = 0; j < n; j++) {\n            const double other = real(a[j * n + j]);\n"
    "            rank += other < value || (other == value && j < i);\n        }\n"
    "        double largest = 0;\n        for (u64 j = 0; j < n; j++)\n            largest = fmax(largest, modulus(v[j "
    "* n + i]));\n"
    "        u64 anchor = 0;\n        while (anchor + 1 < n && !(modulus(v[anchor * n + i]) >= 0.5 * largest))\n       "
    "     anchor++;\n"
    "        const N turn = conjugate(v[anchor * n + i]) / modulus(v[anchor * n + i]);\n"
    "        w[rank] = (R)(value * scale);\n"
    "        for (u64 j = 0; j < n; j++)\n"
    "            y[j * n + rank] = save(j == anchor ? of(modulus(v[j * n + i])) : v[j * n + i] * turn);\n    }\n}\n";

static void write_orthogonal(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    (void)language;
    flxi_add_text(out, flxi_cuda_dense_types(variant));
    flxi_add_text(out, flxi_cuda_block_folds);
    flxi_add_text(out, reflections);
    flxi_add_text(out, rotations);
    flxi_add_text(out, in_order);
}

const flxi_card_text flxi_cuda_orthogonal_text = {write_orthogonal, FLXI_DENSE_DTYPES};

/* ---- Nodes ---- */

static const char *refuse(const flxi_device_node *n)
{
    const char *reason = flxi_cuda_dense_refuse(n);
    if (reason)
        return reason;
    return n->op == OP_eigh && flxi_dense_matrices_of(n).cols > MOST_EIGEN ? "for matrices of at most 512 rows" : NULL;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    orthogonal_table t = {.a = flxi_dense_matrices_of(n)};
    size_t size = t.a.batch * t.a.rows * t.a.size;
    t.second = flxi_dense_part(size * t.a.cols);
    t.third = t.second + flxi_dense_part(size * t.a.least);
    memcpy(table, &t, sizeof t);
    return t.third + flxi_dense_part(size);
}

/* ---- Running ---- */

typedef struct {
    flxi_card *card;
    flxi_cu_stream stream;
    const orthogonal_table *t;
    flx_error *err;
} orthogonal_run;

static flx_code launch(const orthogonal_run *r, const flxi_card_text *text, const char *name, uint64_t blocks,
                       void **parameters)
{
    flxi_cu_function f;
    FLXI_TRY(flxi_cuda_own_function(r->card, text, r->t->a.variant, name, &f, r->err));
    return flxi_cuda_launch_line(r->card, r->stream, f, blocks, FLXI_DENSE_THREADS, parameters, r->err);
}

/* Matrices that follow each other. */
static flxi_dense_view dense_view(const orthogonal_table *t, uint64_t rows, uint64_t cols)
{
    flxi_dense_view v = {.rank = 1, .row = (int64_t)cols, .col = 1};
    v.extent[0] = (int64_t)t->a.batch;
    v.step[0] = (int64_t)(rows * cols);
    return v;
}

static flx_code load(const orthogonal_run *r, const void *from, void *to, uint32_t kind)
{
    uint64_t rows = r->t->a.rows, cols = r->t->a.cols, all = r->t->a.batch * rows * cols;
    flxi_dense_view v = dense_view(r->t, rows, cols);
    void *parameters[] = {&from, &to, &v, &rows, &cols, &all, &kind};
    return launch(r, &flxi_cuda_dense_text, "dense_load", (all + 255) / 256, parameters);
}

static flx_code store(const orthogonal_run *r, const void *from, void *to, uint64_t rows, uint64_t cols, uint64_t pitch,
                      uint32_t part)
{
    uint64_t all = r->t->a.batch * rows * cols;
    flxi_dense_view v = dense_view(r->t, rows, cols);
    const void *bad = NULL;
    uint32_t conjugated = 0;
    void *parameters[] = {&from, &to, &v, &rows, &cols, &pitch, &all, &bad, &part, &conjugated};
    return launch(r, &flxi_cuda_dense_text, "dense_store", (all + 255) / 256, parameters);
}

static flx_code run_qr(const orthogonal_run *r, const flxi_node_step *s)
{
    enum { STORE_ALL, STORE_UPPER = 2 };
    const orthogonal_table *t = r->t;
    unsigned char *scratch = s->scratch;
    void *a = scratch, *q = scratch + t->second, *v = scratch + t->third;
    uint64_t m = t->a.rows, n = t->a.cols, steps = t->a.least;
    void *parameters[] = {&a, &q, &v, &m, &n, &steps};
    FLXI_TRY(load(r, s->in[0], a, 0));
    FLXI_TRY(launch(r, &flxi_cuda_orthogonal_text, "qr_block", t->a.batch, parameters));
    FLXI_TRY(store(r, q, s->out[0], m, steps, m * steps, STORE_ALL));
    return store(r, a, s->out[1], steps, n, m * n, STORE_UPPER);
}

static flx_code run_eigh(const orthogonal_run *r, const flxi_node_step *s)
{
    enum { LOAD_HERMITIAN = 1, LOAD_IDENTITY };
    const orthogonal_table *t = r->t;
    unsigned char *scratch = s->scratch;
    void *a = scratch, *v = scratch + t->second;
    uint64_t n = t->a.cols;
    void *parameters[] = {&a, &v, (void *)(uintptr_t)&s->out[0], (void *)(uintptr_t)&s->out[1], &n};
    FLXI_TRY(load(r, s->in[0], a, LOAD_HERMITIAN));
    FLXI_TRY(load(r, NULL, v, LOAD_IDENTITY));
    return launch(r, &flxi_cuda_orthogonal_text, "eigh_block", t->a.batch, parameters);
}

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    const flxi_cuda_launcher *c = flxi_cuda_launcher_of(on);
    const orthogonal_run r = {c->card, c->stream, s->way->table, err};
    if (r.t->a.batch * r.t->a.rows * r.t->a.cols == 0)
        return FLX_OK;
    return s->node->op == OP_qr ? run_qr(&r, s) : run_eigh(&r, s);
}

const flxi_card_way flxi_cuda_orthogonal = {
    .name = "block", .refuse = refuse, .table_bytes = sizeof(orthogonal_table), .prepare = prepare, .run = run};
