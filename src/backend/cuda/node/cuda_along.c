/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_along.c: take_along on the card: a thread has an element of the result, y[p, i, q] = x[p, idx[p, i, q], q]. */
#include "backend/cuda/node/cuda_keys.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"

typedef struct {
    uint64_t all, inner, count; /* elements of the result; after the axis; along it */
    int64_t extent;             /* of x along the axis */
    int32_t index;
    uint32_t oob, size;
} along_table;

/* oob: 0 error, 1 zero, 2 clamp. */
static const char body[] =
    "template <class W> static __device__ void take(const W *x, const I *idx, W *y, u64 all, u64 inner, u64 count, "
    "i64 extent, unsigned oob, finding *t, u64 node)\n{\n"
    "    const u64 at = (u64)blockIdx.x * 256u + threadIdx.x;\n    if (at >= all)\n        return;\n"
    "    const u64 outer = at / inner / count, q = at % inner;\n    i64 k = (i64)idx[at];\n    W none = {};\n"
    "    if (k < 0 || k >= extent) {\n        if (oob == 2 && extent > 0)\n            k = k < 0 ? 0 : extent - 1;\n"
    "        else {\n            if (oob != 1)\n                found(t, k, extent, 0, node);\n"
    "            y[at] = none;\n            return;\n        }\n    }\n"
    "    y[at] = x[(outer * extent + k) * inner + q];\n}\n"
    "#define TAKE(name, W) extern \"C\" __global__ void __launch_bounds__(256) name(const W *x, const I *idx, W *y, "
    "u64 all, u64 inner, u64 count, i64 extent, unsigned oob, finding *t, u64 node) "
    "{ take<W>(x, idx, y, all, inner, count, extent, oob, t, node); }\n"
    "TAKE(take_1, unsigned char)\nTAKE(take_2, unsigned short)\nTAKE(take_4, unsigned)\nTAKE(take_8, u64)\n"
    "TAKE(take_16, uint4)\n";

static flx_code write_along(int32_t variant, flxi_strbuf *out, flx_error *err)
{
    (void)err;
    flxi_cuda_add_index(variant, out);
    flxi_add_text(out, body);
    return FLX_OK;
}

const flxi_cuda_text flxi_cuda_along_text = {write_along, FLXI_CUDA_NUM_INDICES};

static const char *refuse(const flxi_device_node *n)
{
    int64_t count = 0;
    if (flxi_cuda_index_number(n->in_types[1]->dtype) < 0)
        return "for indices of signed and of short integers";
    if (!flx_dtype_size((flx_dtype)n->in_types[0]->dtype))
        return "for elements of whole bytes";
    bool is_static = flxi_static_count(n->in_types[0], &count) && flxi_static_count(n->out_types[0], &count);
    return is_static ? NULL : "for known extents";
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    const flxi_op *op = &flxi_ops[n->op];
    const flx_type *y = n->out_types[0];
    int axis = (int)flxi_attr_int(op, n->attrs, "axis");
    int64_t all = 0;
    flxi_static_count(y, &all);
    const along_table t = {.all = (uint64_t)all,
                           .inner = (uint64_t)flxi_static_extent(y, axis + 1, y->rank),
                           .count = (uint64_t)y->dims[axis],
                           .extent = n->in_types[0]->dims[axis],
                           .index = flxi_cuda_index_number(n->in_types[1]->dtype),
                           .oob = (uint32_t)flxi_attr_int(op, n->attrs, "oob"),
                           .size = (uint32_t)flx_dtype_size((flx_dtype)y->dtype)};
    memcpy(table, &t, sizeof t);
    return 0;
}

static flx_code run(flxi_card *card, flxi_cu_stream stream, const flxi_node_step *s, flx_error *err)
{
    along_table t = *(const along_table *)s->way->table;
    flxi_cu_function f;
    const char *name = t.size == 1   ? "take_1"
                       : t.size == 2 ? "take_2"
                       : t.size == 4 ? "take_4"
                       : t.size == 8 ? "take_8"
                                     : "take_16";
    flxi_cuda_finding *finding = card->finding;
    const flxi_device_node *node = s->node;
    void *parameters[] = {(void *)(uintptr_t)&s->in[0],
                          (void *)(uintptr_t)&s->in[1],
                          (void *)(uintptr_t)&s->out[0],
                          &t.all,
                          &t.inner,
                          &t.count,
                          &t.extent,
                          &t.oob,
                          &finding,
                          &node};
    FLXI_TRY(flxi_cuda_own_function(card, &flxi_cuda_along_text, t.index, name, &f, err));
    return flxi_cuda_launch_line(card, stream, f, (t.all + 255) / 256, 256, parameters, err);
}

const flxi_cuda_way flxi_cuda_along = {"words", refuse, sizeof(along_table), prepare, run};
