/* SPDX-License-Identifier: Apache-2.0 */
/* small_product.c: see small_product.h. The result is cut into tiles whose sums stay in registers; a tile walks down
   the depth with one vector of b for each of its columns of vectors and one number of a for each of its rows. The size
   of tiles is chosen by counting what a processor of our time can do in a cycle: two multiply-adds, two to three loads,
   and four cycles until a sum is there. */
#include "backend/cpu/jit/small_product.h"

#include "emit/vector/vector_emit.h"

#include <stdio.h>

/* With more rows than this b would be read so often that packing it pays; with more multiplications than these so would
   threads, where there are some, or blocks that stay in caches. */
static const int64_t most_rows = 64, most_products = 1 << 18, most_products_alone = 1 << 21;

static int64_t walk_step(const flxi_walk *w)
{
    return w->rank ? w->steps[0] : 0;
}

/* Products of a batch that share b are one product of all their rows. */
static bool join_rows(flxi_gemm *g)
{
    for (int k = g->batch_rank - 1; k >= 0; k--) {
        int64_t n = g->batch_dims[k];
        bool is_dense = g->a.batch[k] == g->m * walk_step(&g->a.line) || (g->m == 1 && g->a.line.rank == 0);
        if (n == 1)
            continue;
        if (g->b.batch[k] != 0 || !is_dense || g->c_batch[k] != g->m * g->c_row)
            return false;
        g->a.line =
            (flxi_walk){.rank = 1, .dims = {g->m * n}, .steps = {g->m == 1 ? g->a.batch[k] : walk_step(&g->a.line)}};
        g->m *= n;
    }
    return true;
}

const char *flxi_small_product_of(const flxi_gemm *given, int threads, flxi_small_product *out)
{
    flxi_gemm g = *given;
    int64_t lanes = (int64_t)(flxi_vector_host_bytes() / flx_dtype_size((flx_dtype)g.dtype));
    if (g.dtype != FLX_F32 && g.dtype != FLX_F64)
        return "its dtype is neither f32 nor f64";
    if (!join_rows(&g))
        return "it is a batch of products";
    if (g.a.line.rank > 1 || g.a.depth.rank > 1 || g.b.line.rank > 1 || g.b.depth.rank > 1 || g.c_col != 1 ||
        walk_step(&g.b.line) != 1)
        return "the columns of its right side are no neighbours in memory";
    if (g.n < lanes || g.m < 1 || g.k < 1)
        return "it has fewer columns than a vector has lanes";
    if (g.m > most_rows)
        return "it has rows enough for packing to pay";
    if (g.k > flxi_gemm_chunk(g.dtype, g.k))
        return "it sums over more than one chunk";
    if (g.m * g.n > (threads > 1 ? most_products : most_products_alone) / g.k)
        return threads > 1 ? "it is large enough for threads" : "it is large enough for blocks";
    *out = (flxi_small_product){.dtype = g.dtype,
                                .rows = g.m,
                                .cols = g.n,
                                .depth = g.k,
                                .a_row = walk_step(&g.a.line),
                                .a_col = walk_step(&g.a.depth),
                                .b_row = walk_step(&g.b.depth)};
    return NULL;
}

/* ---- Tiles ---- */

enum { MOST_ROWS = 8, MOST_VECTORS = 4 };

typedef struct {
    int rows, vectors;
} tile;

static double tile_cycles(int rows, int vectors)
{
    double sums = rows * vectors / 2.0, loads = (rows + vectors) / 2.5, wait = 4;
    return sums > loads ? (sums > wait ? sums : wait) : loads > wait ? loads : wait;
}

/* Of the whole product: tiles of full size, and what is left at the ends. */
static double cycles(tile t, int rows, int vectors)
{
    int down = rows / t.rows, along = vectors / t.vectors, low = rows % t.rows, narrow = vectors % t.vectors;
    double sum = down * along * tile_cycles(t.rows, t.vectors);
    sum += narrow ? down * tile_cycles(t.rows, narrow) : 0;
    sum += low ? along * tile_cycles(low, t.vectors) : 0;
    return sum + (low && narrow ? tile_cycles(low, narrow) : 0);
}

/* Of equally good ones that with most rows: it reads b least often. */
static tile choose_tile(int rows, int vectors, unsigned vector_bytes)
{
    int registers = vector_bytes == 64 ? 32 : 16;
    tile best = {1, 1};
    for (int r = rows < MOST_ROWS ? rows : MOST_ROWS; r > 0; r--)
        for (int v = vectors < MOST_VECTORS ? vectors : MOST_VECTORS; v > 0; v--)
            if (r * v + v + 1 <= registers && cycles((tile){r, v}, rows, vectors) < cycles(best, rows, vectors))
                best = (tile){r, v};
    return best;
}

/* ---- Text ---- */

typedef struct {
    const flxi_small_product *p;
    flxi_kfile *f;
    flxi_ksubject subject;
} writing;

static void line(const writing *w, const char *text)
{
    flxi_kfile_expand(w->f, &w->f->kernels, text, &w->subject);
}

/* c<row>_<vector>, all of them, through a template that has the row in $a and the vector in $b; $c: the vector's first
   column. */
static void each_sum(const writing *w, tile t, const char *text)
{
    char row[12], vector[12], column[12];
    flxi_ksubject s = w->subject;
    s.x[0] = row;
    s.x[1] = vector;
    s.x[2] = column;
    for (int r = 0; r < t.rows; r++)
        for (int v = 0; v < t.vectors; v++) {
            snprintf(row, sizeof row, "%d", r);
            snprintf(vector, sizeof vector, "%d", v);
            snprintf(column, sizeof column, "%u", (unsigned)v * w->subject.lanes);
            flxi_kfile_expand(w->f, &w->f->kernels, text, &s);
        }
}

/* All tiles of rows [i, i_end) and columns [j, j_end), which they fill. */
static void write_tiles(const writing *w, tile t, int64_t i, int64_t i_end, int64_t j, int64_t j_end)
{
    const flxi_small_product *p = w->p;
    flxi_strbuf *out = &w->f->kernels;
    unsigned width = (unsigned)t.vectors * w->subject.lanes;
    if (i >= i_end || j >= j_end)
        return;
    flxi_addf(out, "    for (k_i64 j = %lld; j < %lld; j += %u)\n", (long long)j, (long long)j_end, width);
    flxi_addf(out, "        for (k_i64 i = %lld; i < %lld; i += %d) {\n", (long long)i, (long long)i_end, t.rows);
    line(w, "            const $T *p = a + i * ");
    flxi_addf(out, "%lld, *q = b + j;\n", (long long)p->a_row);
    each_sum(w, t, "            $v c$a_$b = {0};\n");
    flxi_addf(out, "            for (int k = 0; k < %lld; k++, p += %lld, q += %lld) {\n", (long long)p->depth,
              (long long)p->a_col, (long long)p->b_row);
    each_sum(w, (tile){1, t.vectors}, "                const $v b$b = @get(q + $c);\n");
    for (int r = 0; r < t.rows; r++) {
        flxi_ksubject s = w->subject;
        char number[12], offset[24];
        snprintf(number, sizeof number, "%d", r);
        snprintf(offset, sizeof offset, "%lld", (long long)(r * p->a_row));
        s.x[0] = number;
        s.x[1] = offset;
        flxi_kfile_expand(w->f, out, "                const $v a$a = @all(p[$b]);\n", &s);
    }
    each_sum(w, t, "                c$a_$b = @fma(a$a, b$b, c$a_$b);\n");
    flxi_add_text(out, "            }\n            ");
    line(w, "$T *to = c + i * ");
    flxi_addf(out, "%lld + j;\n", (long long)p->cols);
    for (int r = 0; r < t.rows; r++)
        for (int v = 0; v < t.vectors; v++) {
            char sum[32], offset[32];
            flxi_ksubject s = w->subject;
            snprintf(sum, sizeof sum, "c%d_%d", r, v);
            snprintf(offset, sizeof offset, "%lld", (long long)(r * p->cols + v * (int64_t)w->subject.lanes));
            s.x[0] = sum;
            s.x[1] = offset;
            flxi_kfile_expand(w->f, out, "            @put(to + $b, $a);\n", &s);
        }
    flxi_add_text(out, "        }\n");
}

/* Columns that fill no vector are computed by one that ends with the last of them: some twice, to the same bits. */
void flxi_small_product_write(const flxi_small_product *p, const char *name, flxi_kfile *f)
{
    if (!f->vector_bytes)
        f->vector_bytes = flxi_vector_host_bytes();
    unsigned lanes = f->vector_bytes / (unsigned)flx_dtype_size((flx_dtype)p->dtype);
    writing w = {p, f, {.type = (uint32_t)p->dtype, .result = (uint32_t)p->dtype, .lanes = lanes}};
    int vectors = (int)(p->cols / lanes);
    tile t = choose_tile((int)p->rows, vectors, f->vector_bytes);
    int64_t low = p->rows - p->rows % t.rows, whole = (int64_t)vectors * lanes,
            narrow = vectors % t.vectors * (int64_t)lanes;
    const struct {
        int vectors;
        int64_t from, to;
    } strips[] = {{t.vectors, 0, whole - narrow},
                  {vectors % t.vectors, whole - narrow, whole},
                  {1, p->cols - lanes, whole < p->cols ? p->cols : 0}};
    flxi_addf(&f->kernels, "\n/* [%lld, %lld] times [%lld, %lld], by tiles of %d rows and %d vectors. */\n",
              (long long)p->rows, (long long)p->depth, (long long)p->depth, (long long)p->cols, t.rows, t.vectors);
    flxi_addf(&f->kernels, "static void %s", name);
    line(&w, "(const $T *a, const $T *b, $T *c)\n{\n");
    for (size_t k = 0; k < sizeof strips / sizeof *strips; k++) {
        write_tiles(&w, (tile){t.rows, strips[k].vectors}, 0, low, strips[k].from, strips[k].to);
        write_tiles(&w, (tile){(int)(p->rows - low), strips[k].vectors}, low, p->rows, strips[k].from, strips[k].to);
    }
    flxi_add_text(&f->kernels, "}\n");
}
