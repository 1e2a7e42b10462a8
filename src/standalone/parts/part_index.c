/* SPDX-License-Identifier: Apache-2.0 */
/* part_index.c: gather, take_along, scatter_add, gather_nd and scatter_nd as loops over the elements that move. Indices
   out of range do what the node's attribute oob says: the function fails, the element is dropped, or the index is
   clamped. */
#include "graph/op/eval.h"
#include "ops/index/gather_nd.h"
#include "ops/opcode.h"
#include "standalone/parts/parts.h"

FLXI_ATTRS_VIEW_OF(gather_nd_attrs_of, flxi_nd_attrs, gather_nd)

static bool is_half(int32_t dtype)
{
    return dtype == FLX_F16 || dtype == FLX_BF16;
}

/* ---- Indices ---- */

/* Which operand has the indices. */
static int index_operand(const flxi_device_node *n)
{
    return n->op == OP_grouped_matmul || n->op == OP_grouped_matmul_input_backward ||
                   n->op == OP_grouped_matmul_weight_backward
               ? 2
               : 1;
}

/* const int64_t NAME = the index at this position; one that cannot be a position is negative. */
static void write_read(flxi_sa_writer *w, const char *name, const char *at, flxi_oob policy)
{
    int operand = index_operand(w->n);
    int32_t dtype = w->n->in_types[operand]->dtype;
    if (flxi_is_float(dtype)) {
        const char *element = flxi_sa_print(w, "x%d[%s]", operand, at);
        flxi_sa_line(w, "const double %s_value = %s;", name, flxi_sa_load(w, dtype, element));
        if (policy == OOB_CLAMP)
            flxi_sa_line(
                w, "const int64_t %s = !(%s_value > 0) ? 0 : %s_value > 4e18 ? INT64_MAX / 2 : (int64_t)%s_value;",
                name, name, name, name);
        else
            flxi_sa_line(
                w, "const int64_t %s = %s_value == trunc(%s_value) && fabs(%s_value) < 4e18 ? (int64_t)%s_value : -1;",
                name, name, name, name, name);
    } else if (dtype == FLX_U64) {
        flxi_sa_line(w, "const int64_t %s = x%d[%s] > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)x%d[%s];", name, operand,
                     at, operand, at);
    } else {
        flxi_sa_line(w, "const int64_t %s = (int64_t)x%d[%s];", name, operand, at);
    }
}

/* The index of a row, from 0 to last: `int64_t NAME`, and a statement where it is out of range. */
static void write_index(flxi_sa_writer *w, const char *name, const char *at, int64_t last, flxi_oob policy,
                        const char *dropped)
{
    if (policy == OOB_CLAMP) {
        const char *raw = flxi_sa_print(w, "%s_given", name);
        write_read(w, raw, at, policy);
        flxi_sa_line(w, "const int64_t %s = %s < 0 ? 0 : %s > %lld ? %lld : %s;", name, raw, raw, (long long)last,
                     (long long)last, raw);
        return;
    }
    write_read(w, name, at, policy);
    if (last < 0)
        flxi_sa_line(w, "if (%s <= INT64_MAX - 1) /* nothing is in range */", name);
    else
        flxi_sa_line(w, "if (%s < 0 || %s > %lld)", name, name, (long long)last);
    if (policy == OOB_ERROR)
        flxi_sa_line(w, "    return %s;", flxi_sa_code_of(w->f, SA_BAD_INDEX));
    else
        flxi_sa_line(w, "    %s;", dropped);
}

/* ---- Elements ---- */

/* y[to] = x[from], both parts of a complex number. */
static void write_move(flxi_sa_writer *w, const char *y, const char *to, const char *x, const char *from)
{
    if (flxi_is_complex(w->n->out_types[0]->dtype)) {
        flxi_sa_line(w, "%s[2 * (%s)] = %s[2 * (%s)];", y, to, x, from);
        flxi_sa_line(w, "%s[2 * (%s) + 1] = %s[2 * (%s) + 1];", y, to, x, from);
    } else {
        flxi_sa_line(w, "%s[%s] = %s[%s];", y, to, x, from);
    }
}

static bool is_empty(const flxi_sa_writer *w)
{
    for (uint32_t i = 0; i < w->n->nin; i++)
        if (flxi_sa_count(w->n->in_types[i]) == 0)
            return true;
    return flxi_sa_count(w->n->out_types[0]) == 0;
}

static size_t result_bytes(const flxi_device_node *n)
{
    size_t bytes = 0;
    flxi_static_bytes(n->out_types[0], &bytes);
    return bytes;
}

static flxi_oob policy_of(const flxi_device_node *n)
{
    return (flxi_oob)flxi_sa_int(n, "oob");
}

/* ---- Rows and elements ---- */

/* (p * count + i) * inner + q, without what has one element. */
static const char *place(flxi_sa_writer *w, flxi_split s, int64_t count, const char *name)
{
    const char *row = s.outer == 1 ? name : flxi_sa_print(w, "p * %lld + %s", (long long)count, name);
    const char *around = s.outer == 1 ? "" : "(";
    if (s.inner == 1)
        return row;
    return flxi_sa_print(w, "%s%s%s * %lld + q", around, row, *around ? ")" : "", (long long)s.inner);
}

/* A loop, unless it has one round. */
static int open_loop(flxi_sa_writer *w, char letter, int64_t count)
{
    if (count != 1)
        flxi_sa_open(w, "for (int64_t %c = 0; %c < %lld; %c++)", letter, letter, (long long)count, letter);
    return count != 1;
}

static void write_gather_loops(flxi_sa_writer *w, flxi_split s, int64_t count, bool is_along)
{
    const char *to = place(w, s, count, "i"), *from = place(w, s, s.n, "k");
    if (policy_of(w->n) == OOB_ZERO)
        flxi_sa_line(w, "memset(y0, 0, %zu);", result_bytes(w->n));
    int loops = open_loop(w, 'p', s.outer) + 1;
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)count);
    loops += is_along ? open_loop(w, 'q', s.inner) : 0;
    write_index(w, "k", is_along ? to : "i", s.n - 1, policy_of(w->n), "continue");
    loops += is_along ? 0 : open_loop(w, 'q', s.inner);
    write_move(w, "y0", to, "x0", from);
    while (loops-- > 0)
        flxi_sa_close(w);
}

/* Where there are no indices, or no rows, nothing is read; an index into an axis of extent 0 is out of range. */
void flxi_sa_gather(flxi_sa_writer *w)
{
    const flx_type *x = w->n->in_types[0];
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    flxi_split s = flxi_split_at(x, flxi_sa_int(w->n, "axis"));
    if (is_empty(w))
        flxi_sa_line(w, "memset(y0, 0, %zu);", result_bytes(w->n));
    else
        write_gather_loops(w, s, flxi_sa_count(w->n->in_types[1]), false);
}

void flxi_sa_take_along(flxi_sa_writer *w)
{
    int64_t axis = flxi_sa_int(w->n, "axis");
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    flxi_split s = flxi_split_at(w->n->in_types[0], axis), i = flxi_split_at(w->n->in_types[1], axis);
    if (is_empty(w))
        flxi_sa_line(w, "memset(y0, 0, %zu);", result_bytes(w->n));
    else
        write_gather_loops(w, s, i.n, true);
}

/* ---- Sums ---- */

/* Sums of 16-bit floats are kept in float until the end. */
static bool sums_wide(const flxi_device_node *n)
{
    if (!is_half(n->out_types[0]->dtype))
        return false;
    if (n->op == OP_scatter_add)
        return true;
    const flxi_combine *c = &flxi_scatter_nd_attrs_of(n->op, n->attrs)->combine;
    return !c->graph && c->word == FLXI_SCATTER_ADD;
}

size_t flxi_sa_scatter_scratch(const flxi_device_node *n)
{
    return sums_wide(n) ? (size_t)flxi_sa_count(n->out_types[0]) * sizeof(float) + 1 : 0;
}

/* What the result holds before the updates: zeros, or x. */
static void begin_scatter(flxi_sa_writer *w)
{
    const flxi_device_node *n = w->n;
    long long count = (long long)flxi_sa_count(n->out_types[0]);
    int32_t dtype = n->out_types[0]->dtype;
    if (sums_wide(n)) {
        flxi_sa_line(w, "float *sum = (float *)scratch;");
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", count);
        flxi_sa_line(w, "    sum[i] = %s;", n->op == OP_scatter_add ? "0" : flxi_sa_load(w, dtype, "x0[i]"));
    } else if (n->op == OP_scatter_add) {
        flxi_sa_line(w, "memset(y0, 0, %zu);", result_bytes(n));
    } else {
        flxi_sa_line(w, "if (y0 != x0)");
        flxi_sa_line(w, "    memcpy(y0, x0, %zu);", result_bytes(n));
    }
}

static void end_scatter(flxi_sa_writer *w)
{
    const flxi_device_node *n = w->n;
    if (!sums_wide(n))
        return;
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)flxi_sa_count(n->out_types[0]));
    flxi_sa_line(w, "    y0[i] = %s;", flxi_sa_store(w, n->out_types[0]->dtype, "sum[i]"));
}

static const char *combined(flxi_sa_writer *w, flxi_scatter_word word, int32_t dtype, const char *a, const char *b)
{
    const char *name = word == FLXI_SCATTER_MIN ? "min" : "max";
    switch (word) {
    case FLXI_SCATTER_ADD:
        return dtype == FLX_BOOL ? flxi_sa_print(w, "%s | %s", a, b)
                                 : flxi_sa_print(w, "(%s + %s)", flxi_sa_load(w, dtype, a), flxi_sa_load(w, dtype, b));
    case FLXI_SCATTER_MUL:
        return dtype == FLX_BOOL ? flxi_sa_print(w, "%s & %s", a, b)
                                 : flxi_sa_print(w, "(%s * %s)", flxi_sa_load(w, dtype, a), flxi_sa_load(w, dtype, b));
    case FLXI_SCATTER_MIN:
    case FLXI_SCATTER_MAX:
        if (flxi_is_float(dtype))
            return flxi_sa_print(w, "%s(%s, %s)",
                                 flxi_sa_function_of(w, word == FLXI_SCATTER_MIN ? "min_nan" : "max_nan",
                                                     dtype == FLX_F64 ? FLX_F64 : FLX_F32),
                                 flxi_sa_load(w, dtype, a), flxi_sa_load(w, dtype, b));
        return flxi_sa_print(w, "(%s %s %s ? %s : %s)", a, *name == 'm' && name[1] == 'i' ? "<" : ">", b, a, b);
    default: return flxi_is_float(dtype) ? flxi_sa_load(w, dtype, b) : b;
    }
}

/* y[to] = combine(y[to], x[from]) */
static void write_update(flxi_sa_writer *w, flxi_scatter_word word, const char *updates, const char *to,
                         const char *from)
{
    int32_t dtype = w->n->out_types[0]->dtype;
    const char *b = flxi_sa_print(w, "%s[%s]", updates, from);
    if (flxi_is_complex(dtype) && word == FLXI_SCATTER_SET) {
        write_move(w, "y0", to, updates, from);
    } else if (flxi_is_complex(dtype) && word == FLXI_SCATTER_ADD) {
        flxi_sa_line(w, "y0[2 * (%s)] += %s[2 * (%s)];", to, updates, from);
        flxi_sa_line(w, "y0[2 * (%s) + 1] += %s[2 * (%s) + 1];", to, updates, from);
    } else if (flxi_is_complex(dtype)) {
        flxi_sa_line(w, "%s *const to = y0 + 2 * (%s);", flxi_sa_type(dtype), to);
        flxi_sa_line(w, "const %s *const by = %s + 2 * (%s);", flxi_sa_type(dtype), updates, from);
        flxi_sa_line(w, "const %s re = to[0] * by[0] - to[1] * by[1];", flxi_sa_type(dtype));
        flxi_sa_line(w, "to[1] = to[0] * by[1] + to[1] * by[0];");
        flxi_sa_line(w, "to[0] = re;");
    } else if (sums_wide(w->n)) {
        flxi_sa_line(w, "sum[%s] += %s;", to, flxi_sa_load(w, dtype, b));
    } else {
        const char *a = flxi_sa_print(w, "y0[%s]", to);
        flxi_sa_line(w, "%s = %s;", a, flxi_sa_store(w, dtype, combined(w, word, dtype, a, b)));
    }
}

void flxi_sa_scatter_add(flxi_sa_writer *w)
{
    const flx_type *y = w->n->out_types[0];
    if (flxi_sa_count(y) == 0)
        return;
    begin_scatter(w);
    if (!is_empty(w)) {
        long long inner = (long long)(flxi_sa_count(y) / y->dims[0]),
                  count = (long long)flxi_sa_count(w->n->in_types[1]);
        flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", count);
        write_index(w, "k", "i", y->dims[0] - 1, policy_of(w->n), "continue");
        flxi_sa_open(w, "for (int64_t q = 0; q < %lld; q++)", inner);
        write_update(w, FLXI_SCATTER_ADD, "x0", flxi_sa_print(w, "k * %lld + q", inner),
                     flxi_sa_print(w, "i * %lld + q", inner));
        flxi_sa_close(w);
        flxi_sa_close(w);
    }
    end_scatter(w);
}

/* ---- Products with the matrix that an index selects ---- */

/* sum += a b, for elements of the operands at these positions: with fused multiply-adds as in compiled graphs. */
static void write_product(flxi_sa_writer *w, const char *left, const char *right)
{
    int32_t dtype = w->n->out_types[0]->dtype;
    if (flxi_is_complex(dtype)) {
        flxi_sa_line(w, "const %s *a = x0 + 2 * (%s);", flxi_sa_type(dtype), left);
        flxi_sa_line(w, "const %s *b = x1 + 2 * (%s);", flxi_sa_type(dtype), right);
        flxi_sa_complex_term(w, "a", "b", "sum", "imaginary");
    } else if (dtype == FLX_BOOL) {
        flxi_sa_line(w, "sum |= x0[%s] & x1[%s];", left, right);
    } else {
        const char *a = flxi_sa_load(w, dtype, flxi_sa_print(w, "x0[%s]", left));
        const char *b = flxi_sa_load(w, dtype, flxi_sa_print(w, "x1[%s]", right));
        if (w->f->fuses && flxi_is_float(dtype))
            flxi_sa_line(w, "sum = fma%s(%s, %s, sum);", dtype == FLX_F64 ? "" : "f", a, b);
        else
            flxi_sa_line(w, "sum += %s * %s;", a, b);
    }
}

static void begin_sum(flxi_sa_writer *w)
{
    int32_t dtype = w->n->out_types[0]->dtype;
    flxi_sa_line(w, "%s sum = 0%s;", flxi_sa_arithmetic(dtype), flxi_is_complex(dtype) ? ", imaginary = 0" : "");
}

static void end_sum(flxi_sa_writer *w, const char *at)
{
    int32_t dtype = w->n->out_types[0]->dtype;
    if (flxi_is_complex(dtype)) {
        flxi_sa_line(w, "y0[2 * (%s)] = sum;", at);
        flxi_sa_line(w, "y0[2 * (%s) + 1] = imaginary;", at);
    } else {
        flxi_sa_line(w, "y0[%s] = %s;", at, flxi_sa_store(w, dtype, "sum"));
    }
}

/* Rows times their matrices, or the transposes of these. */
void flxi_sa_grouped(flxi_sa_writer *w)
{
    const flx_dim *d = w->n->in_types[1]->dims;
    bool turned = w->n->op == OP_grouped_matmul_input_backward;
    long long depth = (long long)(turned ? d[2] : d[1]), columns = (long long)(turned ? d[1] : d[2]);
    if (flxi_sa_count(w->n->out_types[0]) == 0 && flxi_sa_count(w->n->in_types[2]) == 0)
        return;
    if (flxi_sa_count(w->n->out_types[0]))
        flxi_sa_line(w, "memset(y0, 0, %zu);", result_bytes(w->n));
    if (d[0] == 0 && policy_of(w->n) == OOB_CLAMP)
        return;
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)flxi_sa_count(w->n->in_types[2]));
    write_index(w, "e", "i", d[0] - 1, policy_of(w->n), "continue");
    flxi_sa_open(w, "for (int64_t j = 0; j < %lld; j++)", columns);
    begin_sum(w);
    flxi_sa_open(w, "for (int64_t k = 0; k < %lld; k++)", depth);
    write_product(w, flxi_sa_print(w, "i * %lld + k", depth),
                  turned ? flxi_sa_print(w, "(e * %lld + j) * %lld + k", columns, depth)
                         : flxi_sa_print(w, "(e * %lld + k) * %lld + j", depth, columns));
    flxi_sa_close(w);
    end_sum(w, flxi_sa_print(w, "i * %lld + j", columns));
    flxi_sa_close(w);
    flxi_sa_close(w);
}

/* For each matrix the sum over its rows. */
void flxi_sa_grouped_weight(flxi_sa_writer *w)
{
    const flx_dim *d = w->n->out_types[0]->dims;
    long long depth = (long long)d[1], columns = (long long)d[2];
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    flxi_sa_line(w, "for (int64_t m = 0; m < %lld; m++)", (long long)d[0]);
    w->depth++;
    flxi_sa_line(w, "for (int64_t k = 0; k < %lld; k++)", depth);
    w->depth++;
    flxi_sa_open(w, "for (int64_t j = 0; j < %lld; j++)", columns);
    begin_sum(w);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)flxi_sa_count(w->n->in_types[2]));
    write_index(w, "e", "i", d[0] - 1, policy_of(w->n), "continue");
    flxi_sa_line(w, "if (e != m)");
    flxi_sa_line(w, "    continue;");
    write_product(w, flxi_sa_print(w, "i * %lld + k", depth), flxi_sa_print(w, "i * %lld + j", columns));
    flxi_sa_close(w);
    end_sum(w, flxi_sa_print(w, "(m * %lld + k) * %lld + j", depth, columns));
    flxi_sa_close(w);
    w->depth -= 2;
}

/* ---- Windows ---- */

typedef struct {
    const flxi_nd_attrs *a;
    const flx_type *x, *moved, *indices;
    flxi_nd_layout l;
    int64_t of_x[FLX_MAX_RANK], of_indices[FLX_MAX_RANK];
} windows;

static windows windows_of(const flxi_device_node *n)
{
    bool gathers = n->op == OP_gather_nd;
    windows d = {.a = gathers ? gather_nd_attrs_of(n->op, n->attrs) : flxi_scatter_nd_attrs_of(n->op, n->attrs),
                 .x = n->in_types[0],
                 .moved = gathers ? n->out_types[0] : n->in_types[2],
                 .indices = n->in_types[1]};
    d.l = flxi_nd_layout_of(d.a, d.x->rank, d.indices->rank);
    flxi_strides(d.x, d.of_x);
    flxi_strides(d.indices, d.of_indices);
    return d;
}

/* The axis of the moved tensor that runs over this axis of the window, or -1. */
static int window_axis(const windows *d, int64_t axis)
{
    for (int k = 0; k < d->l.rank; k++)
        if (d->l.in_window[k] && d->l.axis[k] == axis)
            return k;
    return -1;
}

/* The position in indices of component j of the start. */
static const char *start_at(flxi_sa_writer *w, const windows *d, size_t j)
{
    const char *at = "0";
    int64_t v = d->a->index_vector_axis;
    for (int k = 0; k < d->l.rank; k++)
        if (!d->l.in_window[k] && d->moved->dims[k] > 1)
            at = flxi_sa_print(w, "%s + o%d * %lld", at, k, (long long)d->of_indices[d->l.axis[k]]);
    if (v < d->indices->rank && j)
        at = flxi_sa_print(w, "%s + %lld", at, (long long)((int64_t)j * d->of_indices[v]));
    return at[1] ? at + 4 : at;
}

/* Component j: from 0 to where its window ends, or anywhere under oob=zero, where each element is asked. */
static void write_component(flxi_sa_writer *w, const windows *d, size_t j)
{
    int64_t axis = d->a->start_index_map.v[j];
    int k = window_axis(d, axis);
    int64_t window = k >= 0 ? d->moved->dims[k] : 1;
    const char *name = flxi_sa_print(w, "s%zu", j);
    flxi_oob policy = (flxi_oob)d->a->oob;
    if (policy != OOB_ZERO || window == 1) {
        write_index(w, name, start_at(w, d, j), d->x->dims[axis] - window, policy, "continue");
        return;
    }
    write_read(w, name, start_at(w, d, j), policy);
    flxi_sa_line(w, "if (%s + o%d < 0 || %s + o%d > %lld)", name, k, name, k, (long long)(d->x->dims[axis] - 1));
    flxi_sa_line(w, "    continue;");
}

/* The position in x of the element. */
static const char *target_at(flxi_sa_writer *w, const windows *d)
{
    const char *at = "0";
    for (size_t j = 0; j < d->a->start_index_map.n; j++)
        at = flxi_sa_print(w, "%s + s%zu * %lld", at, j, (long long)d->of_x[d->a->start_index_map.v[j]]);
    for (int k = 0; k < d->l.rank; k++) {
        int64_t step = d->l.in_window[k] ? d->of_x[d->l.axis[k]] : 0;
        for (size_t i = 0; !d->l.in_window[k] && i < d->a->indices_batching_axes.n; i++)
            if (d->a->indices_batching_axes.v[i] == d->l.axis[k])
                step = d->of_x[d->a->operand_batching_axes.v[i]];
        if (step)
            at = flxi_sa_print(w, "%s + o%d * %lld", at, k, (long long)step);
    }
    return at[1] ? at + 4 : at;
}

static void open_windows(flxi_sa_writer *w, const windows *d)
{
    for (int k = 0; k < d->l.rank; k++)
        flxi_sa_open(w, "for (int64_t o%d = 0; o%d < %lld; o%d++)", k, k, (long long)d->moved->dims[k], k);
    if (d->l.rank == 0) /* `continue` leaves out the only element */
        flxi_sa_open(w, "for (int once = 0; once < 1; once++)");
    for (size_t j = 0; j < d->a->start_index_map.n; j++)
        write_component(w, d, j);
}

static void close_windows(flxi_sa_writer *w, const windows *d)
{
    for (int k = 0; k < (d->l.rank ? d->l.rank : 1); k++)
        flxi_sa_close(w);
}

/* The position in the moved tensor. */
static const char *moved_at(flxi_sa_writer *w, const windows *d)
{
    int64_t of_moved[FLX_MAX_RANK];
    const char *at = "0";
    flxi_strides(d->moved, of_moved);
    for (int k = 0; k < d->l.rank; k++)
        at = flxi_sa_print(w, "%s + o%d * %lld", at, k, (long long)of_moved[k]);
    return at[1] ? at + 4 : at;
}

void flxi_sa_gather_nd(flxi_sa_writer *w)
{
    windows d = windows_of(w->n);
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    if (d.a->oob == OOB_ZERO || is_empty(w))
        flxi_sa_line(w, "memset(y0, 0, %zu);", result_bytes(w->n));
    if (flxi_sa_count(w->n->in_types[0]) == 0)
        return;
    open_windows(w, &d);
    write_move(w, "y0", moved_at(w, &d), "x0", target_at(w, &d));
    close_windows(w, &d);
}

const char *flxi_sa_scatter_applies(const flxi_device_node *n)
{
    const flxi_combine *c = &flxi_scatter_nd_attrs_of(n->op, n->attrs)->combine;
    if (c->graph && !flxi_scatter_adds(c))
        return "a graph combines";
    bool has_order = !c->graph && (c->word == FLXI_SCATTER_MIN || c->word == FLXI_SCATTER_MAX);
    return has_order && flxi_is_complex(n->out_types[0]->dtype) ? "complex numbers have no order" : NULL;
}

/* y[to] = graph(y[to], x[from]) */
static void write_call(flxi_sa_writer *w, const char *to, const char *from)
{
    int32_t dtype = w->n->out_types[0]->dtype;
    int parts = flxi_is_complex(dtype) ? 2 : 1;
    flxi_sa_line(w, "%s *const to = y0 + %d * (%s);", flxi_sa_type(dtype), parts, to);
    flxi_sa_line(w, "%s combined[%d];", flxi_sa_type(dtype), parts);
    flxi_sa_call_body(w, 0, flxi_sa_print(w, "scratch + %zu, to, x2 + %d * (%s), combined", w->body_at, parts, from));
    flxi_sa_line(w, "memcpy(to, combined, sizeof combined);");
}

void flxi_sa_scatter_nd(flxi_sa_writer *w)
{
    windows d = windows_of(w->n);
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    begin_scatter(w);
    if (flxi_sa_count(d.moved) > 0) {
        open_windows(w, &d);
        if (d.a->combine.graph && !flxi_scatter_adds(&d.a->combine))
            write_call(w, target_at(w, &d), moved_at(w, &d));
        else
            write_update(w, d.a->combine.graph ? FLXI_SCATTER_ADD : (flxi_scatter_word)d.a->combine.word, "x2",
                         target_at(w, &d), moved_at(w, &d));
        close_windows(w, &d);
    }
    end_scatter(w);
}

const char *flxi_sa_scatter_calls(const flxi_device_node *n)
{
    const flxi_combine *c = &flxi_scatter_nd_attrs_of(n->op, n->attrs)->combine;
    return c->graph && !flxi_scatter_adds(c) ? NULL : "no graph combines";
}
