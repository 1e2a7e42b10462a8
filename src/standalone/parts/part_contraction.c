/* SPDX-License-Identifier: Apache-2.0 */
/* part_contraction.c: matmul and dot_general as loops over tiles of the result. A tile is a small array of sums, which
   a compiler keeps in registers; extents are literals, so that it vectorises the loops over a tile without a remainder.
   Each element is one chain of additions in the order of the summed axes. */
#include "backend/order.h"
#include "graph/op/eval.h"
#include "ops/opcode.h"
#include "standalone/parts/parts.h"

/* Axes that move together: how far each operand and the result move along each. */
typedef struct {
    int64_t count, a, b, y;
} axis;

typedef struct {
    axis at[FLX_MAX_RANK];
    int n;
} axes;

typedef struct {
    axes batch, lines, columns, depth;
} contraction;

/* Joins the axis to the last one where both are one walk for all that move along them. */
static void push(axes *x, axis v)
{
    if (v.count == 1)
        return;
    axis *last = x->n ? &x->at[x->n - 1] : NULL;
    if (last && last->a == v.a * v.count && last->b == v.b * v.count && last->y == v.y * v.count) {
        *last = (axis){last->count * v.count, v.a, v.b, v.y};
        return;
    }
    x->at[x->n++] = v;
}

static bool has_axis(flx_ints list, int64_t k)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.v[i] == k)
            return true;
    return false;
}

static contraction of_matmul(const flxi_device_node *n)
{
    const flx_type *a = n->in_types[0], *b = n->in_types[1], *y = n->out_types[0];
    int64_t sa[FLX_MAX_RANK], sb[FLX_MAX_RANK], sy[FLX_MAX_RANK];
    contraction c = {0};
    flxi_strides(a, sa);
    flxi_strides(b, sb);
    flxi_strides(y, sy);
    for (int k = 0; k < y->rank - 2; k++) {
        int ka = k - (y->rank - a->rank), kb = k - (y->rank - b->rank);
        push(&c.batch, (axis){y->dims[k], ka < 0 || a->dims[ka] == 1 ? 0 : sa[ka],
                              kb < 0 || b->dims[kb] == 1 ? 0 : sb[kb], sy[k]});
    }
    push(&c.lines, (axis){a->dims[a->rank - 2], sa[a->rank - 2], 0, sy[y->rank - 2]});
    push(&c.columns, (axis){b->dims[b->rank - 1], 0, sb[b->rank - 1], sy[y->rank - 1]});
    push(&c.depth, (axis){a->dims[a->rank - 1], sa[a->rank - 1], sb[b->rank - 2], 0});
    return c;
}

static contraction of_dot(const flxi_device_node *n)
{
    const flx_type *l = n->in_types[0], *r = n->in_types[1], *y = n->out_types[0];
    flx_ints lc = flxi_sa_ints(n, "lc"), rc = flxi_sa_ints(n, "rc"), lb = flxi_sa_ints(n, "lb"),
             rb = flxi_sa_ints(n, "rb");
    int64_t sl[FLX_MAX_RANK], sr[FLX_MAX_RANK], sy[FLX_MAX_RANK];
    contraction c = {0};
    int at = (int)lb.n;
    flxi_strides(l, sl);
    flxi_strides(r, sr);
    flxi_strides(y, sy);
    for (size_t i = 0; i < lb.n; i++)
        push(&c.batch, (axis){l->dims[lb.v[i]], sl[lb.v[i]], sr[rb.v[i]], sy[i]});
    for (int k = 0; k < l->rank; k++)
        if (!has_axis(lc, k) && !has_axis(lb, k))
            push(&c.lines, (axis){l->dims[k], sl[k], 0, sy[at++]});
    for (int k = 0; k < r->rank; k++)
        if (!has_axis(rc, k) && !has_axis(rb, k))
            push(&c.columns, (axis){r->dims[k], 0, sr[k], sy[at++]});
    for (size_t i = 0; i < lc.n; i++)
        push(&c.depth, (axis){l->dims[lc.v[i]], sl[lc.v[i]], sr[rc.v[i]], 0});
    return c;
}

/* Whether `outer` is `inner * count`, which may be too large a number where there are no elements. */
static bool follows(int64_t outer, int64_t inner, int64_t count)
{
    int64_t product;
    return !__builtin_mul_overflow(inner, count, &product) && outer == product;
}

/* A batch axis along which the second operand does not move is more lines, where these follow each other. */
static contraction contraction_of(const flxi_device_node *n)
{
    contraction c = n->op == OP_matmul ? of_matmul(n) : of_dot(n);
    while (c.batch.n > 0 && c.lines.n == 1 && flxi_sa_count(n->out_types[0]) > 0) {
        const axis *outer = &c.batch.at[c.batch.n - 1];
        axis *line = &c.lines.at[0];
        if (outer->b != 0 || !follows(outer->a, line->a, line->count) || !follows(outer->y, line->y, line->count))
            break;
        line->count *= outer->count;
        c.batch.n--;
    }
    return c;
}

/* ---- Text ---- */

typedef struct {
    flxi_sa_writer *w;
    contraction c;
    int32_t a, b, y; /* dtypes */
    const char *sum; /* the type of sums */
    bool is_complex;
    const char *packed; /* what b is read from */
} product;

/* " + i0 * 64 + i1" for the axes of a list from `from` on. */
static const char *offset(product *p, const char *base, char letter, const axes *x, int from, int to, char which)
{
    const char *text = base;
    for (int k = from; k < to; k++) {
        int64_t step = which == 'a' ? x->at[k].a : which == 'b' ? x->at[k].b : x->at[k].y;
        if (step == 1 && x->at[k].count > 1)
            text = flxi_sa_print(p->w, "%s + %c%d", text, letter, k);
        else if (step && x->at[k].count > 1)
            text = flxi_sa_print(p->w, "%s + %c%d * %lld", text, letter, k, (long long)step);
    }
    return text;
}

static void open_axes(product *p, char letter, const axes *x, int from, int to)
{
    for (int k = from; k < to; k++)
        flxi_sa_open(p->w, "for (int64_t %c%d = 0; %c%d < %lld; %c%d++)", letter, k, letter, k,
                     (long long)x->at[k].count, letter, k);
}

static void close_axes(product *p, int n)
{
    while (n-- > 0)
        flxi_sa_close(p->w);
}

/* The last of an axis list, which tiles are cut from; one element where there is none. */
static axis inner(const axes *x)
{
    return x->n ? x->at[x->n - 1] : (axis){.count = 1};
}

static const char *times(product *p, const char *x, int64_t step)
{
    return step == 0 ? "0" : step == 1 ? x : flxi_sa_print(p->w, "(%s) * %lld", x, (long long)step);
}

/* An element in the type of the sums. */
static const char *value_of(product *p, int32_t dtype, const char *element)
{
    return flxi_is_int(dtype) ? flxi_sa_print(p->w, "(%s)%s", p->sum, element) : flxi_sa_load(p->w, dtype, element);
}

/* Compiled graphs use fused multiply-adds too. */
static bool has_fma(const product *p)
{
    return p->w->f->fuses && flxi_is_float(p->y);
}

/* sum[i][j] += a b for one position of the depth. */
static void write_terms(product *p, int rows, int columns)
{
    flxi_sa_writer *w = p->w;
    axis line = inner(&p->c.lines), column = inner(&p->c.columns);
    const char *a =
        flxi_sa_print(w, "a[%s]", offset(p, times(p, "i + r", line.a), 'k', &p->c.depth, 0, p->c.depth.n, 'a'));
    const char *b = flxi_sa_print(w, "%s[%s]", p->packed,
                                  offset(p, times(p, "j + c", column.b), 'k', &p->c.depth, 0, p->c.depth.n, 'b'));
    flxi_sa_open(w, "for (int r = 0; r < %d; r++)", rows);
    flxi_sa_line(w, "const %s left = %s;", p->sum, value_of(p, p->a, a));
    flxi_sa_line(w, "for (int c = 0; c < %d; c++)", columns);
    if (p->y == FLX_BOOL)
        flxi_sa_line(w, "    sum[r][c] |= left & %s;", b);
    else if (has_fma(p))
        flxi_sa_line(w, "    sum[r][c] = fma%s(left, %s, sum[r][c]);", p->sum[0] == 'f' ? "f" : "",
                     value_of(p, p->b, b));
    else
        flxi_sa_line(w, "    sum[r][c] += left * %s;", value_of(p, p->b, b));
    flxi_sa_close(w);
}

/* Whether an extent may be an argument: then what is left after tiles is known only when the function runs. Samples of
   extents are larger than this. */
static bool is_open(const product *p, int64_t extent)
{
    return p->w->f->num_symbols && extent > 128;
}

/* Matrices of the result: those of the batch, and those that outer axes of lines and columns make. */
static int64_t matrices_of(const contraction *c)
{
    int64_t count = 1;
    for (int k = 0; k < c->batch.n; k++)
        count *= c->batch.at[k].count;
    for (int k = 0; k < c->lines.n - 1; k++)
        count *= c->lines.at[k].count;
    for (int k = 0; k < c->columns.n - 1; k++)
        count *= c->columns.at[k].count;
    return count;
}

/* Threads share the matrices; of one matrix its lines, some at a time, which every number of rows of a tile divides. */
enum { LINES = 24 };

static bool cuts_lines(const product *p)
{
    return p->w->units > 1 && matrices_of(&p->c) == 1;
}

flxi_sa_cuts flxi_sa_contraction_cuts(const flxi_device_node *n)
{
    contraction c = contraction_of(n);
    double terms = (double)flxi_sa_count(n->out_types[0]);
    for (int k = 0; k < c.depth.n; k++)
        terms *= (double)c.depth.at[k].count;
    int64_t matrices = matrices_of(&c), lines = inner(&c.lines).count;
    bool is_complex = flxi_is_complex(n->out_types[0]->dtype);
    if (terms < 1 || (is_complex && matrices < 2))
        return (flxi_sa_cuts){0};
    return (flxi_sa_cuts){.units = matrices > 1 ? matrices : (lines + LINES - 1) / LINES,
                          .terms = terms < 1e18 ? (int64_t)terms : INT64_MAX,
                          .bytes = (flxi_sa_contraction_scratch(n) + 63) / 64 * 64};
}

/* The part of the result with `lines` rows from `i` and that many columns from `j`, in tiles of rows x columns. */
static void write_tiles(product *p, int64_t i, int64_t lines, int rows, int64_t j, int64_t width, int columns)
{
    flxi_sa_writer *w = p->w;
    axis line = inner(&p->c.lines), column = inner(&p->c.columns);
    if ((!lines && !is_open(p, line.count)) || (!width && !is_open(p, column.count)))
        return;
    if (cuts_lines(p) && rows > 1 && i == 0 && lines)
        flxi_sa_line(w, "for (int64_t i = from * %d; i < to * %d && i < %lld; i += %d)", LINES, LINES, (long long)lines,
                     rows);
    else
        flxi_sa_line(w, "for (int64_t i = %lld; i < %lld; i += %d)", (long long)i, (long long)(i + lines), rows);
    w->depth++;
    flxi_sa_open(w, "for (int64_t j = %lld; j < %lld; j += %d)", (long long)j, (long long)(j + width), columns);
    flxi_sa_line(w, "%s sum[%d][%d] = {{0}};", p->sum, rows, columns);
    open_axes(p, 'k', &p->c.depth, 0, p->c.depth.n);
    write_terms(p, rows, columns);
    close_axes(p, p->c.depth.n);
    flxi_sa_line(w, "for (int r = 0; r < %d; r++)", rows);
    flxi_sa_line(w, "    for (int c = 0; c < %d; c++)", columns);
    flxi_sa_line(w, "        y[%s + %s] = %s;", times(p, "i + r", line.y), times(p, "j + c", column.y),
                 flxi_sa_store(w, p->y, "sum[r][c]"));
    flxi_sa_close(w);
    w->depth--;
}

static void write_real(product *p)
{
    int64_t lines = inner(&p->c.lines).count, width = inner(&p->c.columns).count;
    unsigned bytes = p->w->f->vector_bytes;
    int columns = (p->sum[0] == 'd' || p->sum[4] == '6' ? 8 : 16) * (bytes == 64 ? 2 : 1);
    int rows = bytes == 64 ? 8 : bytes == 32 ? 6 : 4; /* sums fill most of the registers */
    int64_t whole_lines = lines / rows * rows, whole_width = width / columns * columns;
    int64_t more_lines = lines - whole_lines, more_width = width - whole_width;
    int rest_lines = is_open(p, lines) ? 1 : (int)more_lines, rest_width = is_open(p, width) ? 1 : (int)more_width;
    write_tiles(p, 0, whole_lines, rows, 0, whole_width, columns);
    if (rest_width)
        write_tiles(p, 0, whole_lines, rows, whole_width, more_width, rest_width);
    if (rest_lines && cuts_lines(p))
        flxi_sa_open(p->w, "if (to == %lld)", (long long)p->w->units);
    if (rest_lines)
        write_tiles(p, whole_lines, more_lines, rest_lines, 0, whole_width, columns);
    if (rest_lines && rest_width)
        write_tiles(p, whole_lines, more_lines, rest_lines, whole_width, more_width, rest_width);
    if (rest_lines && cuts_lines(p))
        flxi_sa_close(p->w);
}

/* re, im += l r, in the order of compiled graphs where they have fused multiply-adds. */
void flxi_sa_complex_term(flxi_sa_writer *w, const char *l, const char *r, const char *re, const char *im)
{
    const char *fma = w->n->out_types[0]->dtype == FLX_C64 ? "fmaf" : "fma";
    if (!w->f->fuses) {
        flxi_sa_line(w, "%s += %s[0] * %s[0] - %s[1] * %s[1];", re, l, r, l, r);
        flxi_sa_line(w, "%s += %s[0] * %s[1] + %s[1] * %s[0];", im, l, r, l, r);
        return;
    }
    flxi_sa_line(w, "%s = %s(-%s[1], %s[1], %s(%s[0], %s[0], %s));", re, fma, l, r, fma, l, r, re);
    flxi_sa_line(w, "%s = %s(%s[1], %s[0], %s(%s[0], %s[1], %s));", im, fma, l, r, fma, l, r, im);
}

/* Of a long depth along one axis, the sums of some terms are added to one another; 0: there is one sum. */
static int64_t chunk_of(const product *p)
{
    int64_t depth = inner(&p->c.depth).count, chunk = flxi_gemm_chunk(p->y, depth);
    return p->w->f->fuses && p->c.depth.n == 1 && depth > chunk ? chunk : 0;
}

/* Complex numbers: real and imaginary parts follow each other. */
static void write_complex(product *p)
{
    flxi_sa_writer *w = p->w;
    axis line = inner(&p->c.lines), column = inner(&p->c.columns);
    const long long chunk = (long long)chunk_of(p);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)line.count);
    w->depth++;
    flxi_sa_open(w, "for (int64_t j = 0; j < %lld; j++)", (long long)column.count);
    flxi_sa_line(w, "%s re = 0, im = 0%s;", p->sum, chunk ? ", all_re = 0, all_im = 0" : "");
    open_axes(p, 'k', &p->c.depth, 0, p->c.depth.n);
    if (chunk) {
        flxi_sa_open(w, "if (k0 && k0 %% %lld == 0)", chunk);
        flxi_sa_line(w, "all_re += re;");
        flxi_sa_line(w, "all_im += im;");
        flxi_sa_line(w, "re = im = 0;");
        flxi_sa_close(w);
    }
    flxi_sa_line(w, "const %s *l = a + 2 * (%s);", p->sum,
                 offset(p, times(p, "i", line.a), 'k', &p->c.depth, 0, p->c.depth.n, 'a'));
    flxi_sa_line(w, "const %s *r = b + 2 * (%s);", p->sum,
                 offset(p, times(p, "j", column.b), 'k', &p->c.depth, 0, p->c.depth.n, 'b'));
    flxi_sa_complex_term(w, "l", "r", "re", "im");
    close_axes(p, p->c.depth.n);
    const char *i = times(p, "i", line.y), *j = times(p, "j", column.y);
    flxi_sa_line(w, "y[2 * (%s + %s)] = %sre;", i, j, chunk ? "all_re + " : "");
    flxi_sa_line(w, "y[2 * (%s + %s) + 1] = %sim;", i, j, chunk ? "all_im + " : "");
    flxi_sa_close(w);
    w->depth--;
}

static const char *pointer(product *p, const char *base, char which)
{
    const contraction *c = &p->c;
    const char *at = offset(p, "0", 'n', &c->batch, 0, c->batch.n, which);
    at = offset(p, at, 'p', &c->lines, 0, c->lines.n - 1, which);
    at = offset(p, at, 'q', &c->columns, 0, c->columns.n - 1, which);
    if (at[1] == 0)
        return base;
    return flxi_sa_print(p->w, p->is_complex ? "%s + 2 * (%s)" : "%s + %s", base, at + 4);
}

/* Whether casting both operands to the result's dtype is lossless. */
const char *flxi_sa_widening_applies(const flxi_device_node *n)
{
    int32_t y = n->out_types[0]->dtype;
    for (uint32_t k = 0; k < 2; k++) {
        int32_t x = n->in_types[k]->dtype;
        bool widens = flxi_is_float(x) && flxi_is_float(y) && flxi_mantissa_bits(x) < flxi_mantissa_bits(y);
        if (x != y && !(flxi_is_int(x) && flxi_is_int(y)) && !(widens && x != FLX_BF16 && y != FLX_F16))
            return "casts and a product are computed one by one";
    }
    return NULL;
}

/* Columns that do not follow each other, or that must be widened, are first put side by side, in the scratch memory,
   where that pays: many lines use them. */
static bool packs(const flxi_device_node *n, const contraction *c)
{
    int32_t b = n->in_types[1]->dtype;
    bool is_half = b == FLX_F16 || b == FLX_BF16;
    return flxi_is_float(b) && flxi_is_float(n->out_types[0]->dtype) && c->columns.n == 1 && c->depth.n == 1 &&
           inner(&c->lines).count >= 8 && (inner(&c->columns).b != 1 || is_half);
}

static size_t sum_size(const flxi_device_node *n)
{
    return n->out_types[0]->dtype == FLX_F64 ? sizeof(double) : sizeof(float);
}

size_t flxi_sa_contraction_scratch(const flxi_device_node *n)
{
    contraction c = contraction_of(n);
    if (flxi_sa_count(n->out_types[0]) == 0 || !packs(n, &c))
        return 0;
    return (size_t)(inner(&c.columns).count * inner(&c.depth).count) * sum_size(n);
}

/* From here on b is the packed copy. */
static void write_packing(product *p)
{
    flxi_sa_writer *w = p->w;
    axis *column = &p->c.columns.at[0], *depth = &p->c.depth.at[0];
    long long width = (long long)column->count;
    flxi_sa_line(w, "%s *const packed = (%s *)%s;", p->sum, p->sum, flxi_sa_own(w));
    flxi_sa_line(w, "for (int64_t k = 0; k < %lld; k++)", (long long)depth->count);
    flxi_sa_line(w, "    for (int64_t j = 0; j < %lld; j++)", width);
    flxi_sa_line(
        w, "        packed[k * %lld + j] = %s;", width,
        flxi_sa_load(w, p->b, flxi_sa_print(w, "b[%s + %s]", times(p, "k", depth->b), times(p, "j", column->b))));
    column->b = 1;
    depth->b = width;
    p->b = sum_size(w->n) == sizeof(double) ? FLX_F64 : FLX_F32;
    p->packed = "packed";
}

/* One loop over the matrices of some threads, with their indices along all axes. */
static void open_matrices(product *p)
{
    const axes *const lists[] = {&p->c.columns, &p->c.lines, &p->c.batch};
    flxi_sa_open(p->w, "for (int64_t matrix = from; matrix < to; matrix++)");
    int64_t inside = 1;
    for (int l = 0; l < 3; l++)
        for (int k = lists[l]->n - (l < 2 ? 2 : 1); k >= 0; inside *= lists[l]->at[k--].count)
            flxi_sa_line(p->w, "const int64_t %c%d = matrix / %lld %% %lld;", "qpn"[l], k, (long long)inside,
                         (long long)lists[l] -> at[k].count);
}

void flxi_sa_contraction(flxi_sa_writer *w)
{
    const flxi_device_node *n = w->n;
    product p = {.w = w,
                 .c = contraction_of(n),
                 .a = n->in_types[0]->dtype,
                 .b = n->in_types[1]->dtype,
                 .y = n->out_types[0]->dtype,
                 .packed = "b"};
    const contraction *c = &p.c;
    if (flxi_sa_count(n->out_types[0]) == 0)
        return;
    p.is_complex = flxi_is_complex(p.y);
    p.sum = flxi_sa_arithmetic(p.y);
    bool is_cut = w->units > 1 && !cuts_lines(&p);
    if (is_cut) {
        open_matrices(&p);
    } else {
        open_axes(&p, 'n', &c->batch, 0, c->batch.n);
        open_axes(&p, 'p', &c->lines, 0, c->lines.n - 1);
        open_axes(&p, 'q', &c->columns, 0, c->columns.n - 1);
    }
    flxi_sa_line(w, "const %s *a = %s;", flxi_sa_type(p.a), pointer(&p, "x0", 'a'));
    flxi_sa_line(w, "const %s *b = %s;", flxi_sa_type(p.b), pointer(&p, "x1", 'b'));
    flxi_sa_line(w, "%s *y = %s;", flxi_sa_type(p.y), pointer(&p, "y0", 'y'));
    if (packs(n, c))
        write_packing(&p);
    if (p.is_complex)
        write_complex(&p);
    else
        write_real(&p);
    close_axes(&p, is_cut ? 1 : c->batch.n + (c->lines.n ? c->lines.n - 1 : 0) + (c->columns.n ? c->columns.n - 1 : 0));
}
