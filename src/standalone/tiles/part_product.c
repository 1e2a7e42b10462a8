/* SPDX-License-Identifier: Apache-2.0 */
/* part_product.c: matmul and dot_general of real floats for targets with vectors: tiles in registers over panels that
   stay in caches. The order of sums is that of the library (backend/cpu/gemm/gemm.h), so the bits are the same: chunks
   of the depth, each a chain of fused multiply-adds from 0, added in order; dot products by 64 or 32 chains; a long
   depth in pieces.

   For each chunk and each panel of columns: the columns are put side by side in scratch memory where several tiles read
   them or where they are not neighbours, then tiles go down the rows. Rows are packed too where they are far apart in
   memory along the depth. Where results are not neighbours, or are rounded to a narrower dtype, sums have memory of
   their own until the last chunk is added. */
#include "backend/order.h"
#include "standalone/tiles/tiles.h"

/* What threads share: nothing, matrices of the batch, pieces of the depth, dot products, strips of columns, or blocks
   of rows. */
typedef enum { CUT_NOTHING, CUT_BATCH, CUT_PIECES, CUT_DOTS, CUT_COLUMNS, CUT_ROWS } cut_kind;

typedef struct {
    flxi_sa_writer *w;
    flxi_product_order form;
    int64_t m, n, k, chunk;
    int32_t sum; /* the dtype of sums */
    const char *real;
    size_t size; /* of a sum */
    bool packs_a, packs_b, is_in_place;
    int64_t block, strip;                         /* rows and columns at a time */
    size_t pieces_at, b_at, a_at, sums_at, bytes; /* in the scratch memory */
    flxi_sa_shape shape;
    const char *c; /* the result's address … */
    int64_t c_row; /* … and the step of its rows */
    bool is_piece; /* the sums of a piece are computed */
    cut_kind cut;
    int64_t units;
} product;

enum {
    MOST_COLUMNS = 64, /* of a panel, of any target */
    WIDE_COLUMNS = 128,
    PACKED_ROWS = 576, /* at a time, so that columns are not packed too often */
    DIRECT_ROWS = 1152,
    SUM_COLUMNS = 256,
    FEW_ROWS = 48, /* too few for packing columns to pay */
    SMALL_BYTES = 24576,
    HIGH_VECTORS = 3, /* of a tile of seven or eight rows */
    FEW_LINES = 64,   /* that a tile reads without packing */
    UNITS = 16,       /* for threads, about … */
    UNIT_ROWS = 24    /* … with at least that many rows */
};

const char *flxi_sa_product_applies(const flxi_device_node *n)
{
    const uint32_t floats = FLXI_BIT(FLX_F64) | FLXI_BIT(FLX_F32) | FLXI_BIT(FLX_F16) | FLXI_BIT(FLX_BF16);
    int32_t a = n->in_types[0]->dtype;
    if (!flxi_in(floats, a) || n->in_types[1]->dtype != a)
        return "for real floats of one dtype";
    if (flxi_sa_count(n->out_types[0]) == 0 || flxi_sa_count(n->in_types[0]) == 0)
        return "for products that are not empty";
    return NULL;
}

/* ---- Plans ---- */

static size_t padded(int64_t elements, size_t size)
{
    return ((size_t)elements * size + 63) / 64 * 64;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static bool is_native(int32_t dtype)
{
    return dtype == FLX_F32 || dtype == FLX_F64;
}

static int64_t step_of(const flxi_walk *w)
{
    return w->rank ? w->steps[w->rank - 1] : 0;
}

static bool is_plain(const flxi_order_side *x, int32_t dtype)
{
    return is_native(dtype) && x->line.rank <= 1 && x->depth.rank <= 1;
}

static bool has_neighbours(const flxi_order_side *b, int32_t dtype)
{
    return is_plain(b, dtype) && (b->line.rank == 0 || b->line.steps[0] == 1);
}

/* Rows that are neighbours share lines of the cache, and a short depth has few of these. */
static bool reads_in_place(const product *p)
{
    const flxi_order_side *a = &p->form.a;
    return is_plain(a, p->form.dtype) &&
           (p->m <= 6 || p->m * p->k * (int64_t)p->size <= SMALL_BYTES || a->depth.rank == 0 ||
            a->depth.steps[0] == 1 || (has_neighbours(a, p->form.dtype) && p->k <= FEW_LINES));
}

int64_t flxi_sa_batch_of(const flxi_product_order *g)
{
    int64_t count = 1;
    for (int k = 0; k < g->batch_rank; k++)
        count *= g->batch_dims[k];
    return count;
}

/* Each thread packs what it reads: rows that are packed are cut themselves, so that they are packed once. */
static void cut(product *p)
{
    const flxi_product_order *g = &p->form;
    int64_t batch = flxi_sa_batch_of(g), panel = p->m == 1 ? WIDE_COLUMNS : MOST_COLUMNS;
    if ((double)batch * (double)p->m * (double)p->n * (double)g->k < FLXI_SA_MIN_TERMS)
        return;
    if (batch > 1) {
        p->cut = CUT_BATCH;
        p->units = batch;
    } else if (p->is_piece) {
        p->cut = CUT_PIECES;
        p->units = (g->k + p->form.piece - 1) / p->form.piece;
    } else if (p->form.is_dots) {
        p->cut = CUT_DOTS;
        p->strip = (p->n + UNITS - 1) / UNITS;
        p->units = (p->n + p->strip - 1) / p->strip;
    } else if (p->n >= 2 * panel && (!p->packs_a || p->n >= p->m)) {
        p->cut = CUT_COLUMNS;
        p->strip = least(p->strip, round_up((p->n + UNITS - 1) / UNITS, panel));
        p->units = (p->n + p->strip - 1) / p->strip;
    } else if (p->m >= 2 * UNIT_ROWS) {
        p->cut = CUT_ROWS;
        p->block = least(p->block, round_up((p->m + UNITS - 1) / UNITS, UNIT_ROWS));
        p->units = (p->m + p->block - 1) / p->block;
    }
}

static product plan_of(const flxi_device_node *n, bool has_threads)
{
    product p = {.form = flxi_order_of_product(n)};
    const flxi_product_order *g = &p.form;
    p.m = g->m;
    p.n = g->n;
    p.k = p.form.piece ? p.form.piece : g->k;
    p.sum = g->dtype == FLX_F64 ? FLX_F64 : FLX_F32;
    p.real = p.sum == FLX_F64 ? "double" : "float";
    p.size = p.sum == FLX_F64 ? 8 : 4;
    p.chunk = flxi_gemm_chunk(g->dtype, p.k);
    p.is_piece = p.form.piece != 0;
    p.is_in_place = p.is_piece || (g->c_col == 1 && is_native(g->result));
    p.packs_a = !reads_in_place(&p);
    p.packs_b = p.m >= FEW_ROWS || !has_neighbours(&g->b, g->dtype);
    p.block = least(p.m, p.packs_a ? PACKED_ROWS : DIRECT_ROWS);
    p.strip = p.is_in_place ? p.n : least(p.n, SUM_COLUMNS);
    if (has_threads)
        cut(&p);
    size_t sums = p.is_piece ? padded((g->k + p.k - 1) / p.k * p.m * p.n, p.size) : 0;
    p.b_at = p.pieces_at + sums;
    if (p.form.is_dots) {
        p.bytes = sums;
        return p;
    }
    p.a_at = p.b_at + padded(p.chunk * (p.m == 1 ? WIDE_COLUMNS : MOST_COLUMNS), p.size);
    p.sums_at = p.a_at + (p.packs_a ? padded(round_up(p.block, 6) * p.chunk, p.size) : 0);
    p.bytes = p.sums_at + (p.is_in_place ? 0 : padded(p.block * round_up(p.strip, WIDE_COLUMNS), p.size));
    return p;
}

size_t flxi_sa_product_scratch(const flxi_device_node *n)
{
    return plan_of(n, false).bytes;
}

flxi_sa_cuts flxi_sa_product_cuts(const flxi_device_node *n)
{
    product p = plan_of(n, true);
    return (flxi_sa_cuts){
        .units = p.units, .common = p.cut == CUT_PIECES ? p.b_at : 0, .bytes = p.bytes, .has_end = p.cut == CUT_PIECES};
}

/* ---- Text ---- */

const char *flxi_sa_walk_at(flxi_sa_writer *w, const flxi_walk *x, const char *i)
{
    const char *text = "0", *rest = i;
    for (int r = x->rank - 1; r >= 0; r--) {
        const char *index = r == 0 ? rest : flxi_sa_print(w, "(%s) %% %lld", rest, (long long)x->dims[r]);
        const char *term = x->steps[r] == 1 ? flxi_sa_print(w, "%s", index)
                                            : flxi_sa_print(w, "(%s) * %lld", index, (long long)x->steps[r]);
        text = text[0] == '0' && !text[1] ? term : flxi_sa_print(w, "%s + %s", text, term);
        rest = flxi_sa_print(w, "((%s) / %lld)", rest, (long long)x->dims[r]);
    }
    return text;
}

/* Elements of a panel side by side: to[d * width + i] = x(line + i, k + d). Along lines that are neighbours row by row,
   else some of the depth at a time, so that what is written stays in the nearest cache. */
static void write_packing(product *p, const char *from, const flxi_order_side *x, const char *to, const char *line,
                          const char *lines, int64_t width)
{
    flxi_sa_writer *w = p->w;
    int32_t dtype = p->form.dtype;
    if (has_neighbours(x, dtype)) {
        flxi_sa_line(w, "for (int64_t d = 0; d < depth; d++)");
        flxi_sa_line(w, "    memcpy(%s + d * %lld, %s + %s + %s, (size_t)(%s) * sizeof(%s));", to, (long long)width,
                     from, flxi_sa_walk_at(w, &x->line, line), flxi_sa_walk_at(w, &x->depth, "k + d"), lines, p->real);
        return;
    }
    const char *at = flxi_sa_walk_at(w, &x->line, flxi_sa_print(w, "%s + l", line));
    const char *element = flxi_sa_print(w, "%s[%s + %s]", from, at, flxi_sa_walk_at(w, &x->depth, "k + d"));
    flxi_sa_line(w, "for (int64_t part = 0; part < depth; part += 16)");
    flxi_sa_line(w, "    for (int64_t l = 0; l < %s; l++)", lines);
    flxi_sa_line(w, "        for (int64_t d = part; d < part + 16 && d < depth; d++)");
    flxi_sa_line(w, "            %s[d * %lld + l] = %s;", to, (long long)width, flxi_sa_load(w, dtype, element));
}

static bool is_along_depth(const flxi_order_side *x, int32_t dtype)
{
    return is_plain(x, dtype) && x->line.rank == 1 && x->depth.rank == 1 && x->depth.steps[0] == 1;
}

/* Columns that go along the depth: squares are turned in registers, then what is left of the depth, and of the columns.
   */
static void write_turned_columns(product *p, const char *line, int64_t count, int64_t width)
{
    flxi_sa_writer *w = p->w;
    long long lanes = p->shape.lanes, whole = count / lanes * lanes, step = step_of(&p->form.b.line);
    bool has_rest = p->k % p->chunk % lanes || (p->chunk % lanes && p->k >= p->chunk);
    const char *from = flxi_sa_print(w, "b + (%s + l) * %lld + k + d", line, step);
    flxi_sa_line(w, "for (int64_t d = 0; d + %lld <= depth; d += %lld)", lanes, lanes);
    flxi_sa_line(w, "    for (int64_t l = 0; l < %lld; l += %lld)", whole, lanes);
    flxi_sa_line(w, "        %s(%s, %lld, columns + d * %lld + l, %lld);", flxi_sa_turn(w, p->sum), from, step,
                 (long long)width, (long long)width);
    const char *element =
        flxi_sa_print(w, "columns[d * %lld + l] = b[(%s + l) * %lld + k + d]", (long long)width, line, step);
    if (has_rest) {
        flxi_sa_line(w, "for (int64_t d = depth / %lld * %lld; d < depth; d++)", lanes, lanes);
        flxi_sa_line(w, "    for (int64_t l = 0; l < %lld; l++)", whole);
        flxi_sa_line(w, "        %s;", element);
    }
    if (whole < count) {
        flxi_sa_line(w, "for (int64_t l = %lld; l < %lld; l++)", whole, (long long)count);
        flxi_sa_line(w, "    for (int64_t d = 0; d < depth; d++)");
        flxi_sa_line(w, "        %s;", element);
    }
}

static void write_packed_rows(product *p)
{
    flxi_sa_writer *w = p->w;
    flxi_sa_open(w, "for (int64_t i = %s; i < %s; i += 6)", p->block < p->m ? "first" : "0",
                 p->block < p->m ? "end" : flxi_sa_print(w, "%lld", (long long)p->m));
    const char *to = flxi_sa_print(w, "(rows + (i%s) * depth)", p->block < p->m ? " - first" : "");
    const char *end = p->block < p->m ? "end" : flxi_sa_print(w, "%lld", (long long)p->m);
    const char *count = flxi_sa_print(w, "(%s - i < 6 ? %s - i : 6)", end, end);
    if (p->block == p->m && p->m % 6 == 0)
        count = "6";
    write_packing(p, "a", &p->form.a, to, "i", count, 6);
    flxi_sa_close(w);
}

typedef struct {
    int64_t columns; /* that the result has */
    int vectors;
    bool is_packed;
    const char *j; /* the first, in the matrix */
} panel;

/* The address of C for row i, and what is added to it. */
static const char *result_at(product *p, const panel *q, const char *i)
{
    flxi_sa_writer *w = p->w;
    if (p->is_in_place)
        return flxi_sa_print(w, "%s + %s * %lld + %s", p->c, i, (long long)p->c_row, q->j);
    return flxi_sa_print(w, "sums + (%s%s) * %lld + %s%s", i, p->block < p->m ? " - first" : "",
                         (long long)round_up(p->strip, WIDE_COLUMNS), q->j, p->strip < p->n ? " - left" : "");
}

static int64_t result_step(const product *p)
{
    return p->is_in_place ? p->c_row : round_up(p->strip, WIDE_COLUMNS);
}

/* One call of a tile for `rows` rows from i on. A vector that reaches beyond the last column goes by way of a part. */
static void write_tile(product *p, const panel *q, const char *i, int rows)
{
    flxi_sa_writer *w = p->w;
    const flxi_product_order *g = &p->form;
    const char *name = flxi_sa_tile(w, p->sum, rows, q->vectors);
    int64_t width = (int64_t)q->vectors * p->shape.lanes;
    const char *a =
        p->packs_a
            ? flxi_sa_print(w, "rows + (%s%s) * depth, 1, 6", i, p->block < p->m ? " - first" : "")
            : flxi_sa_print(w, "a + %s * %lld%s, %lld, %lld", i, (long long)step_of(&g->a.line),
                            p->k > p->chunk ? flxi_sa_print(w, " + k * %lld", (long long)step_of(&g->a.depth)) : "",
                            (long long)step_of(&g->a.line), (long long)step_of(&g->a.depth));
    const char *b =
        q->is_packed
            ? flxi_sa_print(w, "columns, %lld", (long long)width)
            : flxi_sa_print(w, "b + %s%s, %lld", q->j,
                            p->k > p->chunk ? flxi_sa_print(w, " + k * %lld", (long long)step_of(&g->b.depth)) : "",
                            (long long)step_of(&g->b.depth));
    const char *adds = p->k > p->chunk ? "k > 0" : "0";
    const char *to = result_at(p, q, i);
    if (q->columns % p->shape.lanes == 0 || !p->is_in_place) {
        flxi_sa_line(w, "%s(%s, %s, %s, %lld, depth, %s);", name, a, b, to, (long long)result_step(p), adds);
        return;
    }
    if (p->k > p->chunk) {
        flxi_sa_line(w, "for (int r = 0; k > 0 && r < %d; r++)", rows);
        flxi_sa_line(w, "    memcpy(part + r * %lld, %s + r * %lld, %lld * sizeof(%s));", (long long)width, to,
                     (long long)result_step(p), (long long)q->columns, p->real);
    }
    flxi_sa_line(w, "%s(%s, %s, part, %lld, depth, %s);", name, a, b, (long long)width, adds);
    flxi_sa_line(w, "for (int r = 0; r < %d; r++)", rows);
    flxi_sa_line(w, "    memcpy(%s + r * %lld, part + r * %lld, %lld * sizeof(%s));", to, (long long)result_step(p),
                 (long long)width, (long long)q->columns, p->real);
}

/* Seven or eight rows are one tile, which is narrower, where registers allow it: columns are read once. */
static bool has_high_tiles(const product *p)
{
    return p->w->f->vector_bytes == 64 && p->m > 6 && p->m <= 8 && !p->packs_a && !p->packs_b;
}

/* Tiles of `count` rows from `from` on, an expression: six at a time, then the rest. Where rows are not packed in
   sixes the last two tiles are alike, since a thin one would wait for its few chains. */
static void write_rows(product *p, const panel *q, const char *from, int64_t count)
{
    flxi_sa_writer *w = p->w;
    int64_t rest = count % 6, sixes = count - rest;
    if (has_high_tiles(p)) {
        write_tile(p, q, from, (int)count);
        return;
    }
    if (rest && !p->packs_a && sixes) {
        sixes -= 6;
        rest += 6;
    }
    if (sixes) {
        flxi_sa_open(w, "for (int64_t i = %s; i < %s; i += 6)", from,
                     from[0] == '0' ? flxi_sa_print(w, "%lld", (long long)sixes)
                                    : flxi_sa_print(w, "%s + %lld", from, (long long)sixes));
        write_tile(p, q, "i", 6);
        flxi_sa_close(w);
    }
    for (int64_t at = sixes, rows; rest > 0; rest -= rows, at += rows) {
        rows = rest > 6 ? (rest + 1) / 2 : rest;
        write_tile(p, q,
                   from[0] == '0' ? flxi_sa_print(w, "%lld", (long long)at)
                                  : flxi_sa_print(w, "(%s + %lld)", from, (long long)at),
                   (int)rows);
    }
}

/* All rows of a panel; those of a last, smaller block are another loop. */
static void write_panel(product *p, const panel *q)
{
    flxi_sa_writer *w = p->w;
    int64_t last = p->m % p->block;
    if (q->is_packed) {
        int64_t width = (int64_t)q->vectors * p->shape.lanes;
        if (q->columns < width)
            flxi_sa_line(w, "memset(columns, 0, (size_t)depth * %lld * sizeof(%s));", (long long)width, p->real);
        if (q->columns >= p->shape.lanes && is_along_depth(&p->form.b, p->form.dtype))
            write_turned_columns(p, q->j, q->columns, width);
        else
            write_packing(p, "b", &p->form.b, "columns", q->j, flxi_sa_print(w, "%lld", (long long)q->columns), width);
    }
    if (q->columns % p->shape.lanes && p->is_in_place)
        flxi_sa_line(w, "%s part[%d * %d];", p->real, p->m < 8 ? (int)p->m : 8, q->vectors * p->shape.lanes);
    if (p->block == p->m) {
        write_rows(p, q, "0", p->m);
        return;
    }
    if (last == 0) {
        write_rows(p, q, "first", p->block);
        return;
    }
    flxi_sa_open(w, "if (end - first == %lld)", (long long)p->block);
    write_rows(p, q, "first", p->block);
    w->depth--;
    flxi_sa_open(w, "} else");
    write_rows(p, q, "first", last);
    flxi_sa_close(w);
}

/* Panels of `count` columns from `from` on, an expression. */
static void write_columns(product *p, const char *from, int64_t count)
{
    flxi_sa_writer *w = p->w;
    int most = p->m == 1 ? p->shape.wide : has_high_tiles(p) ? HIGH_VECTORS : p->shape.vectors, lanes = p->shape.lanes;
    int64_t width = (int64_t)most * lanes, whole = count / width * width, rest = count - whole;
    const char *base = from[0] == '0' ? "" : flxi_sa_print(w, "%s + ", from);
    if (whole) {
        flxi_sa_open(w, "for (int64_t j = %s; j < %s%lld; j += %lld)", from, base, (long long)whole, (long long)width);
        write_panel(p, &(panel){.columns = width, .vectors = most, .is_packed = p->packs_b, .j = "j"});
        flxi_sa_close(w);
    }
    if (rest) {
        panel q = {.columns = rest, .vectors = (int)((rest + lanes - 1) / lanes), .is_packed = p->packs_b};
        q.is_packed |= rest % lanes != 0; /* vectors would read beyond the matrix */
        q.j = *base ? flxi_sa_print(w, "(%s%lld)", base, (long long)whole) : flxi_sa_print(w, "%lld", (long long)whole);
        flxi_sa_open(w, "/* the last columns */");
        write_panel(p, &q);
        flxi_sa_close(w);
    }
}

/* Sums whose columns are rows of the result: squares are turned in registers, then what is left of the rows and of the
   columns. */
static void write_turned_sums(product *p, const char *left, int64_t columns)
{
    flxi_sa_writer *w = p->w;
    bool has_blocks = p->block < p->m, has_strips = p->strip < p->n;
    long long lanes = p->shape.lanes, pitch = round_up(p->strip, WIDE_COLUMNS), whole = columns / lanes * lanes;
    const char *first = has_blocks ? "first" : "0";
    const char *end = has_blocks ? "end" : flxi_sa_print(w, "%lld", (long long)p->m);
    const char *from = has_blocks ? "(i - first)" : "i";
    const char *j = has_strips ? flxi_sa_print(w, "(%s + j)", left) : "j";
    const char *at = flxi_sa_print(w, "%s * %lld + i", j, (long long)p->form.c_col);
    flxi_sa_line(w, "const int64_t squares = %s + (%s - %s) / %lld * %lld;", first, end, first, lanes, lanes);
    flxi_sa_line(w, "for (int64_t i = %s; i < squares; i += %lld)", first, lanes);
    flxi_sa_line(w, "    for (int64_t j = 0; j < %lld; j += %lld)", whole, lanes);
    flxi_sa_line(w, "        %s(sums + %s * %lld + j, %lld, %s + %s, %lld);", flxi_sa_turn(w, p->sum), from, pitch,
                 pitch, p->c, at, (long long)p->form.c_col);
    flxi_sa_line(w, "for (int64_t i = %s; i < %s; i++)", first, end);
    flxi_sa_line(w, "    for (int64_t j = i < squares ? %lld : 0; j < %lld; j++)", whole, (long long)columns);
    flxi_sa_line(w, "        %s[%s] = sums[%s * %lld + j];", p->c, at, from, pitch);
}

/* What the sums of a block and strip are, rounded where that is needed, to where they belong. */
static void write_sums(product *p, const char *left, int64_t columns)
{
    flxi_sa_writer *w = p->w;
    const flxi_product_order *g = &p->form;
    bool has_blocks = p->block < p->m, has_strips = p->strip < p->n;
    if (g->c_row == 1 && g->result == p->sum && columns >= p->shape.lanes && p->m >= p->shape.lanes) {
        write_turned_sums(p, left, columns);
        return;
    }
    const char *sum = flxi_sa_print(w, "sums[(i%s) * %lld + j%s]", has_blocks ? " - first" : "",
                                    (long long)round_up(p->strip, WIDE_COLUMNS), has_strips ? " - left" : "");
    flxi_sa_line(w, "for (int64_t i = %s; i < %s; i++)", has_blocks ? "first" : "0",
                 has_blocks ? "end" : flxi_sa_print(w, "%lld", (long long)p->m));
    flxi_sa_line(w, "    for (int64_t j = %s; j < %s%lld; j++)", left, left[0] == '0' ? "" : "left + ",
                 (long long)columns);
    flxi_sa_line(w, "        %s[i * %lld + j * %lld] = %s;", p->c, (long long)g->c_row, (long long)g->c_col,
                 flxi_sa_store(w, g->result, sum));
}

/* All chunks of a block of rows and a strip of columns. */
static void write_strip(product *p, const char *left, int64_t columns)
{
    flxi_sa_writer *w = p->w;
    bool has_chunks = p->k > p->chunk;
    if (has_chunks) {
        flxi_sa_open(w, "for (int64_t k = 0; k < %lld; k += %lld)", (long long)p->k, (long long)p->chunk);
        if (p->k % p->chunk)
            flxi_sa_line(w, "const int64_t depth = %lld - k < %lld ? %lld - k : %lld;", (long long)p->k,
                         (long long)p->chunk, (long long)p->k, (long long)p->chunk);
        else
            flxi_sa_line(w, "const int64_t depth = %lld;", (long long)p->chunk);
        if (p->packs_a)
            write_packed_rows(p);
    }
    write_columns(p, left, columns);
    if (has_chunks)
        flxi_sa_close(w);
    if (!p->is_in_place)
        write_sums(p, left, columns);
}

static void write_strips(product *p)
{
    flxi_sa_writer *w = p->w;
    int64_t whole = p->n / p->strip * p->strip, rest = p->n - whole;
    if (p->k <= p->chunk) {
        flxi_sa_line(w, "const int64_t k = 0, depth = %lld;", (long long)p->k);
        flxi_sa_line(w, "(void)k;");
        if (p->packs_a)
            write_packed_rows(p);
    }
    if (p->strip == p->n) {
        write_strip(p, "0", p->n);
        return;
    }
    if (p->cut == CUT_COLUMNS)
        flxi_sa_open(w, "for (int64_t left = from * %lld; left < to * %lld && left < %lld; left += %lld)",
                     (long long)p->strip, (long long)p->strip, (long long)whole, (long long)p->strip);
    else
        flxi_sa_open(w, "for (int64_t left = 0; left < %lld; left += %lld)", (long long)whole, (long long)p->strip);
    write_strip(p, "left", p->strip);
    flxi_sa_close(w);
    if (rest) {
        if (p->cut == CUT_COLUMNS)
            flxi_sa_open(w, "if (to == %lld)", (long long)p->units);
        else
            flxi_sa_open(w, "/* the last columns */");
        flxi_sa_line(w, "const int64_t left = %lld;", (long long)whole);
        write_strip(p, "left", rest);
        flxi_sa_close(w);
    }
}

static void write_dots(product *p)
{
    flxi_sa_writer *w = p->w;
    const flxi_product_order *g = &p->form;
    const char *name = flxi_sa_dot(w, p->sum);
    if (p->cut == CUT_DOTS)
        flxi_sa_line(w, "for (int64_t j = from * %lld; j < to * %lld && j < %lld; j++)", (long long)p->strip,
                     (long long)p->strip, (long long)p->n);
    else
        flxi_sa_line(w, "for (int64_t j = 0; j < %lld; j++)", (long long)p->n);
    flxi_sa_line(w, "    %s[j * %lld] = %s(a, b + j * %lld, %lld);", p->c, (long long)(p->is_piece ? 1 : g->c_col),
                 name, (long long)step_of(&g->b.line), (long long)p->k);
}

/* Addresses of the scratch memory, and the loops over blocks of rows. */
static void write_matrix(product *p)
{
    flxi_sa_writer *w = p->w;
    if (p->form.is_dots) {
        write_dots(p);
        return;
    }
    bool packs_columns = p->packs_b || p->n % p->shape.lanes;
    const char *own = flxi_sa_own(w);
    if (packs_columns)
        flxi_sa_line(w, "%s *const columns = (%s *)(%s + %zu);", p->real, p->real, own, p->b_at);
    if (p->packs_a)
        flxi_sa_line(w, "%s *const rows = (%s *)(%s + %zu);", p->real, p->real, own, p->a_at);
    if (!p->is_in_place)
        flxi_sa_line(w, "%s *const sums = (%s *)(%s + %zu);", p->real, p->real, own, p->sums_at);
    if (p->block < p->m) {
        if (p->cut == CUT_ROWS)
            flxi_sa_open(w, "for (int64_t first = from * %lld; first < to * %lld && first < %lld; first += %lld)",
                         (long long)p->block, (long long)p->block, (long long)p->m, (long long)p->block);
        else
            flxi_sa_open(w, "for (int64_t first = 0; first < %lld; first += %lld)", (long long)p->m,
                         (long long)p->block);
        flxi_sa_line(w, "const int64_t end = first + %lld < %lld ? first + %lld : %lld;", (long long)p->block,
                     (long long)p->m, (long long)p->block, (long long)p->m);
        if (p->m % p->block == 0 && !p->packs_a && p->is_in_place)
            flxi_sa_line(w, "(void)end;");
    }
    write_strips(p);
    if (p->block < p->m)
        flxi_sa_close(w);
}

static void write_sum_of_pieces(const product *p, int64_t pieces)
{
    flxi_sa_writer *w = p->w;
    const flxi_product_order *g = &p->form;
    flxi_sa_line(w, "for (int64_t piece = 1; piece < %lld; piece++)", (long long)pieces);
    flxi_sa_line(w, "    for (int64_t i = 0; i < %lld; i++)", (long long)(p->m * p->n));
    flxi_sa_line(w, "        pieces[i] += pieces[piece * %lld + i];", (long long)(p->m * p->n));
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)p->m);
    flxi_sa_line(w, "    for (int64_t j = 0; j < %lld; j++)", (long long)p->n);
    flxi_sa_line(w, "        c[i * %lld + j * %lld] = %s;", (long long)g->c_row, (long long)g->c_col,
                 flxi_sa_store(w, g->result, flxi_sa_print(w, "pieces[i * %lld + j]", (long long)p->n)));
}

/* The sums of all pieces of the depth, then their sum, in order. */
static void write_pieces(product *p)
{
    flxi_sa_writer *w = p->w;
    const flxi_product_order *g = &p->form;
    int64_t whole = g->k / p->form.piece, rest = g->k % p->form.piece, count = p->m * p->n;
    int64_t a_step = p->form.piece * step_of(&g->a.depth), b_step = p->form.piece * step_of(&g->b.depth);
    /* Pieces of a product that is one of a batch are in the memory of their thread. */
    flxi_sa_line(w, "%s *const pieces = (%s *)(%s + %zu);", p->real, p->real,
                 p->cut == CUT_PIECES ? "scratch" : flxi_sa_own(w), p->pieces_at);
    if (p->cut == CUT_PIECES) {
        flxi_sa_line(w, "a += from * %lld;", (long long)a_step);
        flxi_sa_line(w, "b += from * %lld;", (long long)b_step);
        flxi_sa_open(w, "for (int64_t piece = from; piece < to && piece < %lld; piece++, a += %lld, b += %lld)",
                     (long long)whole, (long long)a_step, (long long)b_step);
    } else {
        flxi_sa_open(w, "for (int64_t piece = 0; piece < %lld; piece++, a += %lld, b += %lld)", (long long)whole,
                     (long long)a_step, (long long)b_step);
    }
    p->c = flxi_sa_print(w, "(pieces + piece * %lld)", (long long)count);
    p->c_row = p->n;
    write_matrix(p);
    flxi_sa_close(w);
    if (rest) {
        if (p->cut == CUT_PIECES)
            flxi_sa_open(w, "if (from < to && to == %lld)", (long long)p->units);
        else
            flxi_sa_open(w, "/* the last piece */");
        p->k = rest;
        p->chunk = flxi_gemm_chunk(g->dtype, rest);
        p->c = flxi_sa_print(w, "(pieces + %lld)", (long long)(whole * count));
        write_matrix(p);
        flxi_sa_close(w);
    }
    if (p->cut == CUT_PIECES) {
        flxi_sa_line(w, "if (from < %lld)", (long long)p->units);
        flxi_sa_line(w, "    return;");
    }
    write_sum_of_pieces(p, whole + (rest > 0));
}

const char *flxi_sa_batch_at(flxi_sa_writer *w, const flxi_product_order *g, const char *base, const int64_t *steps)
{
    for (int k = 0; k < g->batch_rank; k++)
        if (steps[k])
            base = flxi_sa_print(w, "%s + n%d * %lld", base, k, (long long)steps[k]);
    return base;
}

void flxi_sa_open_batch(flxi_sa_writer *w, const flxi_product_order *g, bool is_cut)
{
    if (!is_cut) {
        for (int k = 0; k < g->batch_rank; k++)
            flxi_sa_open(w, "for (int64_t n%d = 0; n%d < %lld; n%d++)", k, k, (long long)g->batch_dims[k], k);
        return;
    }
    flxi_sa_open(w, "for (int64_t matrix = from; matrix < to; matrix++)");
    int64_t inner = 1;
    for (int k = g->batch_rank - 1; k >= 0; inner *= g->batch_dims[k--])
        if (g->a.batch[k] || g->b.batch[k] || g->c_batch[k])
            flxi_sa_line(w, "const int64_t n%d = matrix / %lld %% %lld;", k, (long long)inner,
                         (long long)g->batch_dims[k]);
}

void flxi_sa_close_batch(flxi_sa_writer *w, const flxi_product_order *g, bool is_cut)
{
    for (int k = 0; k < (is_cut ? 1 : g->batch_rank); k++)
        flxi_sa_close(w);
}

void flxi_sa_product(flxi_sa_writer *w)
{
    product p = plan_of(w->n, w->units > 1);
    const flxi_product_order *g = &p.form;
    p.w = w;
    p.shape = flxi_sa_shape_of(w->f, p.sum);
    p.c = "c";
    p.c_row = g->c_row;
    flxi_sa_open_batch(w, g, p.cut == CUT_BATCH);
    const char *type = flxi_sa_type(g->dtype);
    flxi_sa_line(w, "const %s *a = %s;", type, flxi_sa_batch_at(w, g, g->is_turned ? "x1" : "x0", g->a.batch));
    flxi_sa_line(w, "const %s *b = %s;", type, flxi_sa_batch_at(w, g, g->is_turned ? "x0" : "x1", g->b.batch));
    flxi_sa_line(w, "%s *c = %s;", flxi_sa_type(g->result), flxi_sa_batch_at(w, g, "y0", g->c_batch));
    if (p.is_piece)
        write_pieces(&p);
    else
        write_matrix(&p);
    flxi_sa_close_batch(w, g, p.cut == CUT_BATCH);
}
