/* SPDX-License-Identifier: Apache-2.0 */
/* part_bytes.c: products of integers of 8 bits with sums of 32, for targets with vectors. Both sides are packed as
   16 bits along the depth: compilers know sums of products of such numbers, which machines compute as pairs. All sums
   are exact, so their order makes no difference.

   Some columns are packed at a time, then all rows pass by them, four by four. What is beyond the last row, column or
   number of the depth is zero, or from before: it is computed with, but not stored. */
#include "backend/order.h"
#include "standalone/tiles/tiles.h"

enum {
    SIDE = 4,          /* rows and columns of a tile */
    COLUMNS = 64,      /* packed at a time */
    ROWS = 64,         /* of a unit, where threads share rows */
    STEP = 32,         /* the packed depth is a multiple of this */
    MOST_DEPTH = 33000 /* that many products fit into 32 bits */
};

typedef struct {
    flxi_sa_writer *w;
    flxi_product_order form;
    int64_t depth, pitch; /* packed: of a line, and to the next one */
    bool cuts_batch, cuts_rows;
    int64_t units;
} bytes_product;

static bool is_byte(int32_t dtype)
{
    return dtype == FLX_I8 || dtype == FLX_U8;
}

const char *flxi_sa_bytes_applies(const flxi_device_node *n)
{
    if (!is_byte(n->in_types[0]->dtype) || !is_byte(n->in_types[1]->dtype) || n->out_types[0]->dtype != FLX_I32)
        return "for integers of 8 bits with sums of 32";
    if (flxi_sa_count(n->out_types[0]) == 0 || flxi_sa_count(n->in_types[0]) == 0)
        return "for products that are not empty";
    return flxi_order_of_product(n).k > MOST_DEPTH ? "for sums that fit into 32 bits" : NULL;
}

static int64_t parts_of(int64_t x, int64_t part)
{
    return (x + part - 1) / part;
}

static bytes_product plan_of(const flxi_device_node *n)
{
    bytes_product p = {.form = flxi_order_of_product(n)};
    const flxi_product_order *g = &p.form;
    p.depth = parts_of(g->k, STEP) * STEP;
    p.pitch = (parts_of(g->k, STEP) | 1) * STEP; /* lines that are a power of two apart share few sets of caches */
    p.cuts_batch = flxi_sa_batch_of(g) > 1;
    p.cuts_rows = !p.cuts_batch && g->n < 2 * COLUMNS;
    p.units = p.cuts_batch ? flxi_sa_batch_of(g) : p.cuts_rows ? parts_of(g->m, ROWS) : parts_of(g->n, COLUMNS);
    return p;
}

size_t flxi_sa_bytes_scratch(const flxi_device_node *n)
{
    return (size_t)plan_of(n).pitch * (COLUMNS + SIDE) * sizeof(int16_t);
}

flxi_sa_cuts flxi_sa_bytes_cuts(const flxi_device_node *n)
{
    const bytes_product p = plan_of(n);
    double terms = (double)flxi_sa_count(n->out_types[0]) * (double)p.form.k;
    return (flxi_sa_cuts){
        .units = p.units, .terms = terms < 1e18 ? (int64_t)terms : INT64_MAX, .bytes = flxi_sa_bytes_scratch(n)};
}

/* ---- Text ---- */

/* static void NAME_(const int16_t *a, const int16_t *b, int64_t pitch, int64_t depth, int32_t sum[4][4]) */
static const char *dots_function(flxi_sa_writer *w)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    flxi_addf(&text,
              "static void NAME_(const int16_t *a, const int16_t *b, int64_t pitch, int64_t depth,\n"
              "                  int32_t sum[%d][%d])\n{\n",
              SIDE, SIDE);
    for (int r = 0; r < SIDE; r++) {
        flxi_add_text(&text, "    int32_t ");
        for (int c = 0; c < SIDE; c++)
            flxi_addf(&text, "%ss%d%d = 0", c ? ", " : "", r, c);
        flxi_add_text(&text, ";\n");
    }
    flxi_add_text(&text, "    for (int64_t k = 0; k < depth; k++) {\n");
    for (int r = 0; r < SIDE; r++)
        for (int c = 0; c < SIDE; c++)
            flxi_addf(&text, "        s%d%d += a[%d * pitch + k] * b[%d * pitch + k];\n", r, c, r, c);
    flxi_add_text(&text, "    }\n");
    for (int r = 0; r < SIDE; r++)
        for (int c = 0; c < SIDE; c++)
            flxi_addf(&text, "    sum[%d][%d] = s%d%d;\n", r, c, r, c);
    flxi_add_text(&text, "}\n");
    const char *name = flxi_sa_static_of(w->f, &text, &text, "dots_of_bytes",
                                         "Sums of products of four rows and four columns, which are `pitch` apart.");
    flxi_strbuf_free(&text);
    return name;
}

/* Lines of a side from `line` on, `count` of them, as 16 bits along the depth. */
static void write_packing(bytes_product *p, const char *from, const flxi_order_side *x, const char *to,
                          const char *line, const char *count)
{
    flxi_sa_writer *w = p->w;
    bool is_along = x->depth.rank == 1 && x->depth.steps[0] == 1;
    const char *lines = flxi_sa_print(w, "for (int64_t l = 0; l < %s; l++)", count);
    const char *depths = flxi_sa_print(w, "for (int64_t d = 0; d < %lld; d++)", (long long)p->form.k);
    flxi_sa_line(w, "%s", is_along ? lines : depths);
    flxi_sa_line(w, "    %s", is_along ? depths : lines);
    flxi_sa_line(w, "        %s[l * %lld + d] = %s[%s + %s];", to, (long long)p->pitch, from,
                 flxi_sa_walk_at(w, &x->line, flxi_sa_print(w, "%s + l", line)), flxi_sa_walk_at(w, &x->depth, "d"));
}

/* Rows [first, end) by the columns that are packed. */
static void write_rows(bytes_product *p, const char *first, const char *end)
{
    flxi_sa_writer *w = p->w;
    const flxi_product_order *g = &p->form;
    flxi_sa_open(w, "for (int64_t i = %s; i < %s; i += %d)", first, end, SIDE);
    flxi_sa_line(w, "const int64_t height = %s - i < %d ? %s - i : %d;", end, SIDE, end, SIDE);
    write_packing(p, "a", &g->a, "rows", "i", "height");
    flxi_sa_open(w, "for (int64_t s = 0; s < width; s += %d)", SIDE);
    flxi_sa_line(w, "int32_t sum[%d][%d];", SIDE, SIDE);
    flxi_sa_line(w, "%s(rows, columns + s * %lld, %lld, %lld, sum);", dots_function(w), (long long)p->pitch,
                 (long long)p->pitch, (long long)p->depth);
    flxi_sa_line(w, "for (int64_t r = 0; r < height; r++)");
    flxi_sa_line(w, "    for (int64_t q = 0; q < %d && s + q < width; q++)", SIDE);
    flxi_sa_line(w, "        c[(i + r) * %lld + (j + s + q) * %lld] = sum[r][q];", (long long)g->c_row,
                 (long long)g->c_col);
    flxi_sa_close(w);
    flxi_sa_close(w);
}

static void write_matrix(bytes_product *p)
{
    flxi_sa_writer *w = p->w;
    const flxi_product_order *g = &p->form;
    bool cuts_columns = w->units > 1 && !p->cuts_batch && !p->cuts_rows, cuts_rows = w->units > 1 && p->cuts_rows;
    const char *last = flxi_sa_print(w, "%lld", (long long)g->m), *first = cuts_rows ? "first" : "0", *end = last;
    if (cuts_rows) {
        flxi_sa_line(w, "const int64_t first = from * %d, end = to * %d < %s ? to * %d : %s;", ROWS, ROWS, last, ROWS,
                     last);
        end = "end";
    }
    if (cuts_columns)
        flxi_sa_open(w, "for (int64_t j = from * %d; j < to * %d && j < %lld; j += %d)", COLUMNS, COLUMNS,
                     (long long)g->n, COLUMNS);
    else
        flxi_sa_open(w, "for (int64_t j = 0; j < %lld; j += %d)", (long long)g->n, COLUMNS);
    flxi_sa_line(w, "const int64_t width = %lld - j < %d ? %lld - j : %d;", (long long)g->n, COLUMNS, (long long)g->n,
                 COLUMNS);
    write_packing(p, "b", &g->b, "columns", "j", "width");
    write_rows(p, first, end);
    flxi_sa_close(w);
}

void flxi_sa_bytes(flxi_sa_writer *w)
{
    bytes_product p = plan_of(w->n);
    const flxi_product_order *g = &p.form;
    bool cuts_batch = w->units > 1 && p.cuts_batch;
    const char *types[2] = {flxi_sa_type(w->n->in_types[0]->dtype), flxi_sa_type(w->n->in_types[1]->dtype)};
    p.w = w;
    flxi_sa_line(w, "int16_t *const columns = (int16_t *)%s, *const rows = columns + %lld;", flxi_sa_own(w),
                 (long long)p.pitch * COLUMNS);
    flxi_sa_line(w, "memset(columns, 0, %zu);", flxi_sa_bytes_scratch(w->n));
    flxi_sa_open_batch(w, g, cuts_batch);
    flxi_sa_line(w, "const %s *a = %s;", types[g->is_turned],
                 flxi_sa_batch_at(w, g, g->is_turned ? "x1" : "x0", g->a.batch));
    flxi_sa_line(w, "const %s *b = %s;", types[!g->is_turned],
                 flxi_sa_batch_at(w, g, g->is_turned ? "x0" : "x1", g->b.batch));
    flxi_sa_line(w, "int32_t *c = %s;", flxi_sa_batch_at(w, g, "y0", g->c_batch));
    write_matrix(&p);
    flxi_sa_close_batch(w, g, cuts_batch);
}
