/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_export_rotary.c: rope: elements i and i + n_rot / 2 of a head are a pair, which the tables rotate. */
#include "onnx/export/onnx_writer.h"

#include "graph/type/type.h"

static onnx_label put_two(const onnx_source *n, const char *operation, onnx_label a, onnx_label b)
{
    onnx_label in[2] = {a, b}, out = flxi_onnx_fresh(n->w);
    flxi_onnx_put1(n->w, operation, in, 2, &out);
    return out;
}

/* Elements [start, end) of the last axis. */
static onnx_label slice_last(const onnx_source *n, onnx_label x, int64_t start, int64_t end)
{
    const int64_t axis = -1;
    onnx_label in[4] = {x, flxi_onnx_put_ints(n->w, (flx_ints){&start, 1}),
                        flxi_onnx_put_ints(n->w, (flx_ints){&end, 1}), flxi_onnx_put_ints(n->w, (flx_ints){&axis, 1})};
    onnx_label out = flxi_onnx_fresh(n->w);
    flxi_onnx_put1(n->w, "Slice", in, 4, &out);
    return out;
}

/* The angles of a table that are used, with an axis of extent 1 where x has its heads. */
static onnx_label table(const onnx_source *n, uint32_t i, int64_t half, bool heads_first)
{
    int rank = flxi_onnx_in_type(n, i)->rank;
    int64_t axis = heads_first ? 1 : rank - 1;
    onnx_label used = slice_last(n, flxi_onnx_in(n, i), 0, half);
    if (heads_first && rank == 2) /* [S, T] is that already */
        return used;
    return put_two(n, "Unsqueeze", used, flxi_onnx_put_ints(n->w, (flx_ints){&axis, 1}));
}

/* [N, S, H D] as [N, S, H, D] or back; 0 keeps an extent. */
static onnx_label reshape(const onnx_source *n, onnx_label x, flx_ints shape)
{
    return put_two(n, "Reshape", x, flxi_onnx_put_ints(n->w, shape));
}

/* The pairs rotated, then what is passed through. */
static onnx_label rotate(const onnx_source *n, onnx_label x, int64_t head, int64_t half, bool heads_first)
{
    onnx_label cos = table(n, 1, half, heads_first), sin = table(n, 2, half, heads_first);
    onnx_label first = slice_last(n, x, 0, half), second = slice_last(n, x, half, 2 * half);
    onnx_label parts[3] = {put_two(n, "Sub", put_two(n, "Mul", first, cos), put_two(n, "Mul", second, sin)),
                           put_two(n, "Add", put_two(n, "Mul", second, cos), put_two(n, "Mul", first, sin))};
    onnx_label out = flxi_onnx_fresh(n->w);
    if (head > 2 * half)
        parts[2] = slice_last(n, x, 2 * half, head);
    flxi_onnx_put(n->w, "Concat", parts, head > 2 * half ? 3 : 2, &out, 1, &ONNX_INT("axis", -1), 1);
    return out;
}

void flxi_onnx_write_rope(const onnx_source *n)
{
    onnx_label word, x = flxi_onnx_in(n, 0), out = flxi_onnx_out(n, 0);
    const char *layout = flxi_onnx_word_of(n, "layout", &word);
    bool is_flat = strcmp(layout, "bsd") == 0;
    int64_t head = flxi_onnx_integer(n, "head_dim", 0), heads = flxi_onnx_integer(n, "num_heads", 0);
    int64_t turned = flxi_onnx_integer(n, "n_rot", head);
    const int64_t apart[] = {0, 0, heads, head}, joined[] = {0, 0, heads * head};
    bool same = flxi_onnx_in_type(n, 0)->dtype == flxi_onnx_in_type(n, 1)->dtype &&
                flxi_onnx_in_type(n, 0)->dtype == flxi_onnx_in_type(n, 2)->dtype;
    if (!same || head <= 0 || heads <= 0 || !flx_dim_is_static(head) || !flx_dim_is_static(heads)) {
        flxi_onnx_refuse(n, "tables of another dtype, or symbolic heads");
        return;
    }
    if (is_flat)
        x = reshape(n, x, (flx_ints){apart, 4});
    x = rotate(n, x, head, turned / 2, strcmp(layout, "bhsd") == 0);
    if (is_flat)
        x = reshape(n, x, (flx_ints){joined, 3});
    flxi_onnx_put1(n->w, "Identity", &x, 1, &out);
}
