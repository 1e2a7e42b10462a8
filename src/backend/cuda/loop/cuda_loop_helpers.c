/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_loop_helpers.c: the functions that the texts of loops call: addresses, what blocks send each other, copies, and
   products with weights in registers. */
#include "backend/cuda/loop/cuda_loop.h"

static const char addresses[] =
    "#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900\n#define K_CLUSTERS 1\n#else\n#define K_CLUSTERS 0\n#endif\n"
    "struct k_line {\n    k_u64 at;\n    k_i64 part, step;\n};\n"
    "template <int LINES> struct k_loop {\n    k_i64 from, to;\n    k_line line[LINES];\n};\n"
    "static __device__ __forceinline__ unsigned char *k_line_at(const k_line &l, k_u32 part, k_i64 t)\n{\n"
    "    return (unsigned char *)(l.at + (k_u64)(l.part * (k_i64)part) + (k_u64)(l.step * t));\n}\n";

/* What blocks of a cluster send each other counts the bytes at the receiver's barrier, so that no one waits for
   anything else. A buffer of the exchange is sent to again two steps later: by then its reader has sent the step
   between, which it did after reading. */
static const char exchange[] =
    "#if K_CLUSTERS\n"
    "static __device__ __forceinline__ k_u32 k_shared(const void *p)\n{\n"
    "    return (k_u32)__cvta_generic_to_shared(p);\n}\n"
    "static __device__ __forceinline__ void k_barrier_init(k_u32 barrier)\n{\n"
    "    asm volatile(\"mbarrier.init.shared::cta.b64 [%0], 1;\" ::\"r\"(barrier) : \"memory\");\n}\n"
    "static __device__ __forceinline__ void k_expect(k_u32 barrier, k_u32 bytes)\n{\n"
    "    asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" ::\"r\"(barrier), \"r\"(bytes)\n"
    "                 : \"memory\");\n}\n"
    "static __device__ __forceinline__ void k_wait(k_u32 barrier, k_u32 phase)\n{\n    k_u32 done = 0;\n"
    "    while (!done)\n"
    "        asm volatile(\"{\\n.reg .pred p;\\n\"\n"
    "                     \"mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\\n\"\n"
    "                     \"selp.u32 %0, 1, 0, p;\\n}\"\n"
    "                     : \"=r\"(done) : \"r\"(barrier), \"r\"(phase) : \"memory\");\n}\n"
    "static __device__ __forceinline__ void k_send(float x, k_u32 at, k_u32 barrier, k_u32 block)\n{\n"
    "    k_u32 there, counts;\n"
    "    asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(there) : \"r\"(at), \"r\"(block));\n"
    "    asm volatile(\"mapa.shared::cluster.u32 %0, %1, %2;\" : \"=r\"(counts) : \"r\"(barrier), \"r\"(block));\n"
    "    asm volatile(\"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];\" \n"
    "                 ::\"r\"(there), \"r\"(__float_as_uint(x)), \"r\"(counts) : \"memory\");\n}\n"
    "static __device__ __forceinline__ void k_meet()\n{\n"
    "    asm volatile(\"fence.mbarrier_init.release.cluster;\\nbarrier.cluster.arrive.release;\\n\"\n"
    "                 \"barrier.cluster.wait.acquire;\" ::: \"memory\");\n}\n"
    "#endif\n";

static const char copies[] =
    /* Copies between memories: words where the sizes are, else bytes. */
    "template <typename T> static __device__ __forceinline__ void k_copy_as(void *to, const void *from, k_u32 bytes, "
    "k_u32 first, k_u32 step)\n{\n"
    "    for (k_u32 i = first; i < bytes / sizeof(T); i += step)\n        ((T *)to)[i] = ((const T *)from)[i];\n}\n"
    "static __device__ __forceinline__ void k_copy(void *to, const void *from, k_u32 bytes, k_u32 first, k_u32 step)\n"
    "{\n    if (bytes % 4 == 0)\n        k_copy_as<k_u32>(to, from, bytes, first, step);\n"
    "    else\n        k_copy_as<k_u8>(to, from, bytes, first, step);\n}\n"
    /* To shared memory, without waiting where there are whole words. */
    "template <int SIZE> static __device__ __forceinline__ void k_fetch_as(void *to, const unsigned char *from, "
    "k_u32 bytes, k_u32 first, k_u32 step)\n{\n"
    "    const k_u32 at = (k_u32)__cvta_generic_to_shared(to);\n"
    "    for (k_u32 i = first * SIZE; i < bytes; i += step * SIZE)\n"
    "        asm volatile(\"cp.async.ca.shared.global [%0], [%1], %2;\" ::\"r\"(at + i), \"l\"(from + i), \"n\"(SIZE)\n"
    "                     : \"memory\");\n}\n"
    "static __device__ __forceinline__ void k_fetch(void *to, const unsigned char *from, k_u32 bytes, k_u32 first, "
    "k_u32 step)\n{\n"
    "    if (bytes % 16 == 0)\n        k_fetch_as<16>(to, from, bytes, first, step);\n"
    "    else if (bytes % 4 == 0)\n        k_fetch_as<4>(to, from, bytes, first, step);\n"
    "    else\n        k_copy_as<k_u8>(to, from, bytes, first, step);\n}\n"
    "static __device__ __forceinline__ void k_fetched()\n{\n"
    "    asm volatile(\"cp.async.commit_group;\" ::: \"memory\");\n}\n"
    "template <int LEFT> static __device__ __forceinline__ void k_await_fetched()\n{\n"
    "    asm volatile(\"cp.async.wait_group %0;\" ::\"n\"(LEFT) : \"memory\");\n}\n";

static const char product[] =
    /* Lanes that share a column; each has every lanes-th vector of four of the depth. */
    "static __device__ constexpr int k_lanes(int own, int threads, int depth)\n{\n    int lanes = 1;\n"
    "    while (lanes < 32 && 2 * lanes * own <= threads && 8 * lanes <= depth)\n        lanes *= 2;\n"
    "    return lanes;\n}\n"
    "template <int BLOCKS, int THREADS, int M, int N, int K, int A_LINE, int A_DEPTH, int B_LINE, int B_DEPTH, "
    "bool HOLDS> struct k_product {\n"
    "    static constexpr int own = (N + BLOCKS - 1) / BLOCKS, lanes = k_lanes(own, THREADS, K);\n"
    "    static constexpr int wide = THREADS / lanes, times = (own + wide - 1) / wide;\n"
    "    static constexpr int depth = (K + 4 * lanes - 1) / (4 * lanes);\n"
    "    static constexpr bool is_whole = K % (4 * lanes) == 0;\n"
    "    static constexpr bool has_vectors = is_whole && A_DEPTH == 1 && A_LINE % 4 == 0;\n"
    "    float w[HOLDS ? times : 1][HOLDS ? depth : 1][4];\n"
    "    static __device__ __forceinline__ k_u32 column(k_u32 block, int time)\n    {\n"
    "        const k_u32 i = threadIdx.x / lanes + time * wide;\n"
    "        return i < own ? block * own + i : N;\n    }\n"
    "    static __device__ __forceinline__ k_u32 first(int i)\n    {\n"
    "        return 4 * (threadIdx.x % lanes + lanes * i);\n    }\n"
    "    static __device__ __forceinline__ float weight(const float *b, k_u32 c, k_u32 k)\n    {\n"
    "        return c < N && (is_whole || k < K) ? b[(long long)k * B_DEPTH + (long long)c * B_LINE] : 0.0f;\n    }\n"
    "    __device__ __forceinline__ void hold(const float *b, k_u32 block)\n    {\n"
    "        if constexpr (HOLDS) {\n"
    "            _Pragma(\"unroll\") for (int n = 0; n < times; n++)\n"
    "                _Pragma(\"unroll\") for (int i = 0; i < depth; i++)\n"
    "                    _Pragma(\"unroll\") for (int j = 0; j < 4; j++)\n"
    "                        w[n][i][j] = weight(b, column(block, n), first(i) + j);\n        }\n    }\n"
    "    static __device__ __forceinline__ void read(const float *a, k_u32 k, float *x)\n    {\n"
    "        if constexpr (has_vectors) {\n            const float4 v = *(const float4 *)(a + k);\n"
    "            x[0] = v.x;\n            x[1] = v.y;\n"
    "            x[2] = v.z;\n            x[3] = v.w;\n        } else {\n"
    "            _Pragma(\"unroll\") for (int j = 0; j < 4; j++)\n"
    "                x[j] = is_whole || k + j < K ? a[(long long)(k + j) * A_DEPTH] : 0.0f;\n        }\n    }\n";

static const char sums[] =
    "    __device__ __forceinline__ void sums(const float *a, const float *b, k_u32 block, "
    "float (&y)[M][times]) const\n"
    "    {\n        float s[M][times][4] = {};\n"
    "        _Pragma(\"unroll\") for (int i = 0; i < depth; i++) {\n            float v[times][4];\n"
    "            _Pragma(\"unroll\") for (int n = 0; n < times; n++)\n"
    "                _Pragma(\"unroll\") for (int j = 0; j < 4; j++)\n"
    "                    v[n][j] = HOLDS ? w[HOLDS ? n : 0][HOLDS ? i : 0][j]\n"
    "                                    : weight(b, column(block, n), first(i) + j);\n"
    "            _Pragma(\"unroll\") for (int m = 0; m < M; m++) {\n                float x[4];\n"
    "                read(a + (long long)m * A_LINE, first(i), x);\n"
    "                _Pragma(\"unroll\") for (int n = 0; n < times; n++)\n"
    "                    _Pragma(\"unroll\") for (int j = 0; j < 4; j++)\n"
    "                        s[m][n][j] = __fmaf_rn(x[j], v[n][j], s[m][n][j]);\n            }\n        }\n"
    "        _Pragma(\"unroll\") for (int m = 0; m < M; m++)\n"
    "            _Pragma(\"unroll\") for (int n = 0; n < times; n++) {\n"
    "                y[m][n] = (s[m][n][0] + s[m][n][1]) + (s[m][n][2] + s[m][n][3]);\n"
    "                _Pragma(\"unroll\") for (int d = 1; d < lanes; d *= 2)\n"
    "                    y[m][n] += __shfl_xor_sync(~0u, y[m][n], d);\n            }\n    }\n";

static const char results[] =
    /* The result is complete when all threads of the block have passed a barrier after it. */
    "    __device__ __forceinline__ void run(const float *a, const float *b, float *out, unsigned char *memory, "
    "k_u32 exchange, k_u32 barriers, k_u32 block, k_i64 count) const\n    {\n"
    "        const k_u32 lane = threadIdx.x % lanes;\n        float y[M][times];\n        sums(a, b, block, y);\n"
    "#if K_CLUSTERS\n        if constexpr (BLOCKS > 1) {\n"
    "            float *buffer = (float *)(memory + exchange) + (count & 1) * (M * N);\n"
    "            const k_u32 at = k_shared(buffer), barrier = k_shared(memory + barriers) + 8 * (k_u32)(count & 1);\n"
    "            if (threadIdx.x == 0)\n                k_expect(barrier, 4 * M * N);\n"
    "            _Pragma(\"unroll\") for (int n = 0; n < times; n++)\n"
    "                if (column(block, n) < N)\n"
    "                    _Pragma(\"unroll\") for (int m = 0; m < M; m++)\n"
    "                        _Pragma(\"unroll\") for (int r = 0; r < BLOCKS; r += lanes)\n"
    "                            if (r + lane < BLOCKS)\n"
    "                                k_send(y[m][n], at + 4 * (m * N + column(block, n)), barrier, r + lane);\n"
    "            k_wait(barrier, (k_u32)(count >> 1) & 1);\n"
    "            for (k_u32 i = threadIdx.x; i < M * N; i += THREADS)\n                out[i] = buffer[i];\n"
    "        } else\n#endif\n"
    "            _Pragma(\"unroll\") for (int n = 0; n < times; n++)\n"
    "                if (column(block, n) < N && lane == 0)\n"
    "                    _Pragma(\"unroll\") for (int m = 0; m < M; m++)\n"
    "                        out[m * N + column(block, n)] = y[m][n];\n    }\n};\n";

const char *const flxi_cuda_loop_helpers[] = {addresses, exchange, copies, product, sums, results, NULL};
