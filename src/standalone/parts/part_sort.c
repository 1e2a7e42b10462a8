/* SPDX-License-Identifier: Apache-2.0 */
/* part_sort.c: sort, argsort, topk and top_k: a stable merge sort of the positions of each row, from the bottom up. NaN
   is above +inf, zeros of both signs are equal, and equal elements keep their order. */
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "standalone/parts/parts.h"

typedef struct {
    int64_t axis, take;
    uint32_t keys, values; /* operands that are compared; results that are operands in the new order */
    int positions;         /* the result that has positions, or -1 */
    bool is_descending;
} order;

static order order_of(const flxi_device_node *n)
{
    const flx_type *x = n->in_types[0];
    int64_t axis = n->op == OP_topk ? x->rank - 1 : flxi_sa_int(n, "axis");
    order o = {.axis = axis, .take = x->dims[axis], .keys = 1, .positions = -1, .is_descending = true};
    if (n->op == OP_sort) {
        o.keys = (uint32_t)flxi_sa_int(n, "num_keys");
        o.values = n->nin;
        o.is_descending = flxi_sa_int(n, "descending");
    } else if (n->op == OP_argsort) {
        o.positions = 0;
        o.is_descending = flxi_sa_int(n, "descending");
    } else {
        o.take = flxi_sa_int(n, "k");
        o.values = n->op == OP_top_k;
        o.positions = n->op == OP_top_k;
    }
    return o;
}

const char *flxi_sa_sort_calls(const flxi_device_node *n)
{
    return flxi_sa_sort_applies(n) ? NULL : "no graph compares";
}

const char *flxi_sa_sort_applies(const flxi_device_node *n)
{
    return n->op == OP_sort && flxi_attr_graph(&flxi_ops[n->op], n->attrs, "compare") ? "a graph compares" : NULL;
}

size_t flxi_sa_sort_scratch(const flxi_device_node *n)
{
    return 2 * sizeof(int64_t) * (size_t)n->in_types[0]->dims[order_of(n).axis] + 1;
}

/* The graph says whether the right one comes first. */
static void write_question(flxi_sa_writer *w)
{
    const char *arguments = flxi_sa_print(w, "scratch + %zu", w->body_at);
    for (uint32_t j = 0; j < w->n->nin; j++) {
        const char *times = flxi_is_complex(w->n->in_types[j]->dtype) ? "2 * " : "";
        arguments = flxi_sa_print(w, "%s, x%u + %sfrom[right], x%u + %sfrom[left]", arguments, j, times, j, times);
    }
    flxi_sa_line(w, "uint8_t answer;");
    flxi_sa_call_body(w, 0, flxi_sa_print(w, "%s, &answer", arguments));
    flxi_sa_line(w, "way = answer;");
}

/* way: how the elements at `left` and `right` compare. */
static void write_comparison(flxi_sa_writer *w, const order *o)
{
    flxi_sa_line(w, "int way = 0; /* above 0: the right one is smaller */");
    if (flxi_sa_sort_applies(w->n)) {
        write_question(w);
        return;
    }
    for (uint32_t j = 0; j < o->keys; j++) {
        int32_t dtype = w->n->in_types[j]->dtype;
        bool is_float = flxi_is_float(dtype);
        const char *type = is_float ? flxi_sa_arithmetic(dtype) : flxi_sa_type(dtype);
        const char *a = flxi_sa_print(w, "x%u[from[left]]", j), *b = flxi_sa_print(w, "x%u[from[right]]", j);
        flxi_sa_open(w, j ? "if (way == 0)" : "");
        flxi_sa_line(w, "const %s a = %s, b = %s;", type, is_float ? flxi_sa_load(w, dtype, a) : a,
                     is_float ? flxi_sa_load(w, dtype, b) : b);
        flxi_sa_line(w, "way = (a > b) - (a < b);");
        if (is_float) {
            flxi_sa_line(w, "if (a != a || b != b)");
            flxi_sa_line(w, "    way = (a != a) - (b != b);");
        }
        flxi_sa_close(w);
    }
}

/* Two runs of `from` become one of `to`; the right one comes first only where it must. */
static void write_merge(flxi_sa_writer *w, const order *o, int64_t n)
{
    flxi_sa_open(w, "for (int64_t width = 1; width < %lld; width *= 2)", (long long)n);
    flxi_sa_open(w, "for (int64_t begin = 0; begin < %lld; begin += 2 * width)", (long long)n);
    flxi_sa_line(w, "const int64_t middle = begin + width < %lld ? begin + width : %lld;", (long long)n, (long long)n);
    flxi_sa_line(w, "const int64_t end = begin + 2 * width < %lld ? begin + 2 * width : %lld;", (long long)n,
                 (long long)n);
    flxi_sa_line(w, "int64_t left = begin, right = middle;");
    flxi_sa_open(w, "for (int64_t k = begin; k < end; k++)");
    flxi_sa_open(w, "if (left == middle || right == end)");
    flxi_sa_line(w, "to[k] = left < middle ? from[left++] : from[right++];");
    flxi_sa_line(w, "continue;");
    flxi_sa_close(w);
    write_comparison(w, o);
    flxi_sa_line(w, "to[k] = way %s 0 ? from[right++] : from[left++];", o->is_descending ? "<" : ">");
    flxi_sa_close(w);
    flxi_sa_close(w);
    flxi_sa_line(w, "int64_t *const other = from;");
    flxi_sa_line(w, "from = to;");
    flxi_sa_line(w, "to = other;");
    flxi_sa_close(w);
}

static void write_results(flxi_sa_writer *w, const order *o, flxi_split s)
{
    flxi_sa_open(w, "for (int64_t k = 0; k < %lld; k++)", (long long)o->take);
    flxi_sa_line(w, "const int64_t at = (p * %lld + k) * %lld + q;", (long long)o->take, (long long)s.inner);
    for (uint32_t j = 0; j < o->values; j++) {
        if (flxi_is_complex(w->n->in_types[j]->dtype)) {
            flxi_sa_line(w, "y%u[2 * at] = x%u[2 * from[k]];", j, j);
            flxi_sa_line(w, "y%u[2 * at + 1] = x%u[2 * from[k] + 1];", j, j);
        } else {
            flxi_sa_line(w, "y%u[at] = x%u[from[k]];", j, j);
        }
    }
    if (o->positions >= 0)
        flxi_sa_line(w, "y%d[at] = (%s)((from[k] - base) / %lld);", o->positions,
                     flxi_sa_type(w->n->out_types[o->positions]->dtype), (long long)s.inner);
    flxi_sa_close(w);
}

void flxi_sa_sort(flxi_sa_writer *w)
{
    const flx_type *x = w->n->in_types[0];
    if (flxi_sa_count(x) == 0)
        return;
    order o = order_of(w->n);
    flxi_split s = flxi_split_at(x, o.axis);
    flxi_sa_line(w, "for (int64_t p = 0; p < %lld; p++)", (long long)s.outer);
    w->depth++;
    flxi_sa_open(w, "for (int64_t q = 0; q < %lld; q++)", (long long)s.inner);
    flxi_sa_line(w, "const int64_t base = p * %lld + q;", (long long)(s.n * s.inner));
    flxi_sa_line(w, "int64_t *from = (int64_t *)scratch, *to = from + %lld;", (long long)s.n);
    flxi_sa_line(w, "for (int64_t k = 0; k < %lld; k++)", (long long)s.n);
    flxi_sa_line(w, "    from[k] = base + k * %lld;", (long long)s.inner);
    if (s.n > 1)
        write_merge(w, &o, s.n);
    else
        flxi_sa_line(w, "(void)to;");
    write_results(w, &o, s);
    flxi_sa_close(w);
    w->depth--;
}
