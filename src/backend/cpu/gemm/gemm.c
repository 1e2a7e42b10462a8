/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c: matrix products by blocks (after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication").

   C is cut into blocks that each one thread computes alone, over the whole depth; so threads share no sums and bits do
   not depend on their number. Within a block: for each chunk of the depth, for each panel of B (as many columns as a
   tile), for each panel of A (as many rows), one tile, whose sums stay in registers. Where sums cannot be kept in C
   between chunks (narrow dtypes, columns that are not neighbours) the block has a buffer of its own.

   Four ways to get at the operands, chosen by shape:
     DOT     one line against lines that lie along the depth: no packing, dot products
     DIRECT  columns of B are neighbours: B is read where it is, and packed in passing where several tiles read the same
             columns
     OWN     each block packs its strip of B for itself
     SHARED  B is packed once, by all threads, then read by all blocks: where A must be packed and is large
   A is read where it is if its rows lie along the depth; a tile reads so little of it that any cache will do. Otherwise
   it is packed, once for all blocks if it is not too large. Blocks are high, then, so that columns are packed once.
   Few rows against lines along the depth (B^T) are turned: the long side is read in place, number by number, and only
   the few rows are packed. */
#include "backend/cpu/gemm/gemm_engine.h"

#include "base/host/stop.h"

#include <stdatomic.h>

typedef enum { MODE_DOT, MODE_DIRECT, MODE_OWN, MODE_SHARED } gemm_mode;

typedef struct {
    flxi_gemm p; /* simplified */
    const flxi_gemm_kernels *kernels;
    gemm_mode mode;
    int threads;
    bool in_place; /* sums are kept in C between chunks */
    bool direct_a; /* A is read without packing */
    bool shared_a; /* A is packed once, like B */
    int64_t batches;
    int64_t depth, chunk;          /* in packed words: of `group` elements each */
    int head;                      /* rows of a panel of B before those of the depth */
    uint32_t flip, head_factor;    /* bits of words of A to invert, and the factor of the sums that make up for it */
    int64_t row_block;             /* rows of A packed at a time */
    int64_t panel;                 /* columns of a packed panel of B */
    int64_t columns;               /* of B packed at a time when shared */
    int64_t m_step, n_step;        /* rows and columns of one block */
    size_t b_bytes, a_bytes;       /* packed once */
    size_t own_a, own_b, own_sums; /* per thread */
} plan;

/* Up to FEW lines, a matrix on the other side is read too seldom for packing it to pay. */
enum { ALIGN = 64, TILE_BYTES = 6 * 64 * 8, FEW = 32 };

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static size_t aligned(int64_t bytes)
{
    return (size_t)round_up(bytes, ALIGN);
}

/* ---- Shapes ---- */

flxi_gemm flxi_gemm_matrices(int32_t dtype, int64_t m, int64_t n, int64_t k, int64_t a_row, int64_t a_col,
                             int64_t b_row, int64_t b_col)
{
    flxi_gemm p = {.dtype = dtype, .result = dtype, .m = m, .n = n, .k = k, .c_row = n, .c_col = 1, .alpha = 1};
    flxi_walk_push(&p.a.line, m, a_row);
    flxi_walk_push(&p.a.depth, k, a_col);
    flxi_walk_push(&p.b.line, n, b_col);
    flxi_walk_push(&p.b.depth, k, b_row);
    return p;
}

/* Chunks of equal length, so that the last one is not much shorter. A panel of one chunk is a part of the second cache,
   and what a tile of C costs to read and write is small beside what it sums. */
int64_t flxi_gemm_chunk(int32_t dtype, int64_t depth)
{
    int64_t most = flxi_is_complex(dtype) ? 256 : 1024;
    if (depth <= most)
        return depth > 0 ? depth : 1;
    int64_t chunks = (depth + most - 1) / most;
    return round_up((depth + chunks - 1) / chunks, 8);
}

static int64_t batch_count(const flxi_gemm *p)
{
    int64_t count = 1;
    for (int k = 0; k < p->batch_rank; k++)
        count *= p->batch_dims[k];
    return count;
}

static void drop_batch_axis(flxi_gemm *p, int at)
{
    p->batch_rank--;
    for (int k = at; k < p->batch_rank; k++) {
        p->batch_dims[k] = p->batch_dims[k + 1];
        p->a.batch[k] = p->a.batch[k + 1];
        p->b.batch[k] = p->b.batch[k + 1];
        p->c_batch[k] = p->c_batch[k + 1];
    }
}

/* The innermost batch axis becomes part of the rows: one matrix B serves all of them. */
static bool join_batch(flxi_gemm *p)
{
    int last = p->batch_rank - 1;
    if (last < 0 || p->b.batch[last] != 0 || p->a.source || p->a.line.rank == FLX_MAX_RANK ||
        p->c_batch[last] != p->m * p->c_row || (p->bias && p->bias_row != 0))
        return false;
    flxi_walk line = {0};
    flxi_walk_push(&line, p->batch_dims[last], p->a.batch[last]);
    for (int k = 0; k < p->a.line.rank; k++)
        flxi_walk_push(&line, p->a.line.dims[k], p->a.line.steps[k]);
    p->a.line = line;
    p->m *= p->batch_dims[last];
    drop_batch_axis(p, last);
    return true;
}

/* C^T = B^T A^T */
static void swap_sides(flxi_gemm *p)
{
    flxi_gemm q = *p;
    p->a = q.b;
    p->b = q.a;
    p->dtype = q.b_dtype ? q.b_dtype : q.dtype;
    p->b_dtype = q.dtype;
    p->m = q.n;
    p->n = q.m;
    p->c_row = q.c_col;
    p->c_col = q.c_row;
    p->bias_row = q.bias_col;
    p->bias_col = q.bias_row;
}

static bool is_plain(const flxi_gemm_operand *x, int32_t dtype)
{
    return flxi_gemm_is_native(dtype) && !x->source && x->line.rank <= 1 && x->depth.rank <= 1;
}

static bool is_along_depth(const flxi_gemm_operand *x, int32_t dtype)
{
    return is_plain(x, dtype) && (x->depth.rank == 0 || x->depth.steps[0] == 1);
}

static bool is_along_lines(const flxi_gemm_operand *x, int32_t dtype)
{
    return is_plain(x, dtype) && (x->line.rank == 0 || x->line.steps[0] == 1);
}

static bool is_dots(const flxi_gemm *p, const flxi_gemm_kernels *kernels)
{
    return kernels->dot && (p->m == 1 || p->n == 1) && is_along_depth(&p->a, p->dtype) &&
           is_along_depth(&p->b, p->dtype);
}

/* Whether A and B should change places. A few lines beside a long side that lies along the depth stand along the lanes,
   the long side then needs no packing; otherwise few columns are turned, so that the long side lies along the lanes.
   Turning a complex product would change the order of its four terms. */
static bool is_to_be_turned(const flxi_gemm *p, const flxi_gemm_kernels *kernels)
{
    if (kernels->parts != 1)
        return false;
    if (is_dots(p, kernels))
        return p->m != 1;
    if (p->m <= FEW && p->n >= 2 * p->m && is_along_depth(&p->b, p->dtype) && p->b.depth.rank == 1)
        return true;
    bool is_long_read = is_along_depth(&p->a, p->dtype) && p->a.depth.rank == 1;
    return p->n < kernels->lanes && p->m >= 2 * p->n && !is_long_read;
}

static flxi_gemm simplified(const flxi_gemm *given, const flxi_gemm_kernels *kernels)
{
    flxi_gemm p = *given;
    for (int k = p.batch_rank - 1; k >= 0; k--)
        if (p.batch_dims[k] == 1)
            drop_batch_axis(&p, k);
    while (join_batch(&p))
        continue;
    if (is_to_be_turned(&p, kernels))
        swap_sides(&p);
    return p;
}

/* ---- Plans ---- */

/* Multiply-adds that make a block worth handing to another thread: about a microsecond. */
static const double least_work = 100000;

/* Whether all products of the batch have the same matrix on this side. */
static bool is_same_in_batch(const flxi_gemm *p, const flxi_gemm_operand *x)
{
    for (int k = 0; k < p->batch_rank; k++)
        if (x->batch[k] != 0)
            return false;
    return true;
}

/* Whether A can be packed once, for all blocks. */
static bool can_share_a(const plan *pl)
{
    const flxi_gemm *p = &pl->p;
    double unit = (double)pl->kernels->size * pl->kernels->parts;
    return is_same_in_batch(p, &p->a) && (double)p->m * (double)pl->depth * unit <= 0x1p24;
}

static gemm_mode choose_mode(const plan *pl)
{
    const flxi_gemm *p = &pl->p;
    const flxi_gemm_kernels *ker = pl->kernels;
    double work = (double)p->m * (double)p->n * (double)pl->depth;
    double b_bytes = (double)p->k * (double)p->n * (double)ker->size;
    bool is_cheap_a = is_along_depth(&p->a, p->dtype) || can_share_a(pl);
    if (is_dots(p, ker) && p->m == 1)
        return MODE_DOT;
    if (is_along_lines(&p->b, p->dtype) && (p->m <= FEW || b_bytes <= 32768 || is_cheap_a))
        return MODE_DIRECT;
    if ((pl->batches > 1 && (work < 0x1p24 || pl->batches >= 4 * pl->threads)) || work < 0x1p17)
        return MODE_OWN;
    if (is_cheap_a || (p->m <= pl->row_block && is_same_in_batch(p, &p->a)))
        return MODE_OWN; /* no second block would read the same columns of B */
    return MODE_SHARED;
}

/* Cuts C into blocks: large ones, but a few for each thread where there is work enough. */
static void choose_blocks(plan *pl)
{
    const flxi_gemm *p = &pl->p;
    const flxi_gemm_kernels *ker = pl->kernels;
    int64_t unit = (int64_t)ker->size * ker->parts;
    int64_t strip = 163840 / (pl->chunk * unit); /* stays in the second cache, as does what it adds to */
    int64_t revisited = (1 << 19) / (least(p->m, 8 * pl->row_block) * unit);
    int64_t most_columns = pl->mode == MODE_OWN ? least(256, strip) : pl->in_place ? 4096 : 256;
    bool is_revisited = !pl->in_place || (pl->mode == MODE_DIRECT && pl->depth > pl->chunk);
    if (is_revisited && pl->mode != MODE_SHARED && revisited < most_columns)
        most_columns = revisited > ker->cols ? revisited : ker->cols;
    int64_t most_rows = pl->mode == MODE_SHARED ? pl->row_block : 8 * pl->row_block;
    int64_t m_blocks = (p->m + most_rows - 1) / most_rows;
    pl->m_step = round_up((p->m + m_blocks - 1) / m_blocks, ker->rows); /* of equal height */
    pl->n_step = least(round_up(p->n, ker->cols), round_up(most_columns, ker->cols));
    if (pl->mode == MODE_DOT) {
        pl->m_step = 1;
        pl->n_step = p->n;
    }
    double work = (double)p->m * (double)p->n * (double)pl->depth * (double)pl->batches;
    int64_t wanted = pl->threads == 1 ? 1 : least(4 * pl->threads, (int64_t)(work / least_work));
    int64_t width = pl->mode == MODE_DIRECT && p->m == 1 && ker->wide ? ker->wide : ker->cols;
    for (;;) {
        int64_t blocks = pl->batches * ((p->m + pl->m_step - 1) / pl->m_step) * ((p->n + pl->n_step - 1) / pl->n_step);
        if (blocks >= wanted)
            return;
        bool is_high = pl->mode != MODE_SHARED; /* columns are packed again for each block above another */
        if (pl->n_step >= 2 * width && (is_high || pl->n_step > 8 * width || pl->m_step <= 4 * ker->rows))
            pl->n_step = round_up(pl->n_step / 2, width);
        else if (pl->m_step > ker->rows && !(is_high && blocks >= pl->threads && pl->m_step < 32 * ker->rows))
            pl->m_step = round_up(pl->m_step / 2, ker->rows);
        else
            return;
    }
}

/* Whether A is read without packing: it is small, its rows are few, or they lie along the depth. */
static bool is_read_in_place(const plan *pl)
{
    const flxi_gemm *p = &pl->p;
    const flxi_gemm_kernels *ker = pl->kernels;
    if (!is_plain(&p->a, p->dtype))
        return false;
    return p->m <= ker->rows || (double)p->m * (double)p->k * (double)ker->size <= 24576 ||
           (pl->mode == MODE_DIRECT && p->m <= FEW) || (pl->mode != MODE_SHARED && is_along_depth(&p->a, p->dtype));
}

static void choose_memory(plan *pl)
{
    const flxi_gemm *p = &pl->p;
    const flxi_gemm_kernels *ker = pl->kernels;
    int64_t unit = (int64_t)ker->size * ker->parts;
    bool has_n_blocks = pl->n_step < p->n;
    pl->direct_a = is_read_in_place(pl);
    if (pl->mode == MODE_SHARED) {
        pl->columns = round_up(p->n, pl->panel);
        int64_t chunks = (pl->depth + pl->chunk - 1) / pl->chunk;
        int64_t rows_of_b = pl->depth + chunks * pl->head;
        int64_t most = ((int64_t)16 << 20) / (rows_of_b * unit);
        if (pl->columns > most)
            pl->columns = most > 4 * ker->cols ? most / ker->cols * ker->cols : 4 * ker->cols;
        pl->b_bytes = aligned(rows_of_b * pl->columns * unit);
        pl->n_step = least(pl->n_step, pl->columns);
    }
    if (pl->mode == MODE_DOT)
        return;
    pl->shared_a = !pl->direct_a && (has_n_blocks || p->m > pl->row_block) && can_share_a(pl);
    if (pl->shared_a)
        pl->a_bytes = aligned(pl->depth * round_up(p->m, ker->rows) * unit);
    if (pl->direct_a || pl->shared_a)
        pl->row_block = pl->m_step;
    else
        pl->own_a = aligned(round_up(least(pl->m_step, pl->row_block), ker->rows) * pl->chunk * unit);
    pl->own_b = pl->mode == MODE_SHARED
                    ? 0
                    : aligned((pl->chunk + pl->head) * unit * (pl->mode == MODE_OWN ? pl->n_step : ker->cols));
    pl->own_sums = pl->in_place ? 0 : aligned(pl->m_step * round_up(pl->n_step, ker->cols) * unit);
}

static int32_t dtype_of_b(const flxi_gemm *p)
{
    return p->b_dtype ? p->b_dtype : p->dtype;
}

/* Integers of 8 and 16 bits that are packed as words of several of them; a source makes one number at a time. */
static bool is_narrow(const flxi_gemm *p)
{
    const uint32_t narrow = FLXI_BIT(FLX_I8) | FLXI_BIT(FLX_U8) | FLXI_BIT(FLX_I16);
    return flxi_in(narrow, p->dtype) && flxi_in(narrow, dtype_of_b(p)) && !p->a.source && !p->b.source;
}

static const flxi_gemm_kernels *choose_kernels(const flxi_gemm *p)
{
    flxi_gemm_kind kind = flxi_gemm_kind_of(p->dtype);
    if (is_narrow(p))
        kind = p->dtype == FLX_I16 || dtype_of_b(p) == FLX_I16 ? GEMM_PAIRS
               : dtype_of_b(p) == FLX_U8                       ? GEMM_UBYTES
                                                               : GEMM_BYTES;
    const flxi_gemm_kernels *ker = flxi_gemm_kernels_of(kind, p->isa);
    return ker ? ker : flxi_gemm_kernels_of(kind, FLXI_ISA_BEST);
}

/* Products of bytes want one side signed and the other not. Where both are the same, A is moved by 128: inverting the
   highest bit does that, and 128 times the sums of the columns of B make up for it. */
static void choose_words(plan *pl)
{
    const flxi_gemm *p = &pl->p;
    pl->head = pl->kernels->head ? 1 : 0;
    if (pl->head && p->dtype == dtype_of_b(p)) {
        pl->flip = 0x80808080;
        pl->head_factor = p->dtype == FLX_U8 ? 128 : 0U - 128;
    }
    pl->depth = (p->k + pl->kernels->group - 1) / pl->kernels->group;
    pl->chunk = flxi_gemm_chunk(pl->kernels->group > 1 ? FLX_F32 : p->dtype, pl->depth);
}

static plan make_plan(const flxi_gemm *given, int threads)
{
    plan pl = {.threads = threads < 1 ? 1 : threads};
    pl.p = simplified(given, choose_kernels(given));
    pl.kernels = choose_kernels(&pl.p);
    pl.batches = batch_count(&pl.p);
    choose_words(&pl);
    pl.row_block = round_up(144, pl.kernels->rows);
    pl.panel = least(pl.kernels->cols, round_up(pl.p.n, pl.kernels->lanes));
    pl.in_place = pl.p.c_col == 1 && flxi_gemm_is_native(pl.p.result);
    if (pl.batches == 0 || pl.p.m == 0 || pl.p.n == 0)
        return pl;
    pl.mode = choose_mode(&pl);
    choose_blocks(&pl);
    choose_memory(&pl);
    return pl;
}

static size_t thread_bytes(const plan *pl)
{
    return pl->own_a + pl->own_b + pl->own_sums;
}

/* ---- One block ---- */

typedef struct {
    const plan *pl;
    const char *a, *b; /* this matrix of the batch */
    char *c;
    const char *residual;
    int64_t i, j, rows, cols;        /* which part of C */
    const char *packed_a, *packed_b; /* packed once, or NULL; b from column `packed_from` on */
    int64_t packed_from;
    char *own_a, *own_b, *own_sums;
    int64_t depth, depths; /* the chunk */
    bool last;
} block;

static bool has_epilogue(const flxi_gemm *p)
{
    return p->alpha != 1 || p->bias || p->residual;
}

static void finish_part(const block *b, const void *sums, int64_t row, int64_t part, int64_t i, int64_t j, int64_t rows,
                        int64_t cols)
{
    flxi_gemm_block f = {.sums = sums,
                         .sums_row = row,
                         .sums_part = part,
                         .i = i,
                         .j = j,
                         .rows = rows,
                         .cols = cols,
                         .c = b->c,
                         .residual = b->residual};
    flxi_gemm_finish(&b->pl->p, &f);
}

/* Into C where a whole tile fits; else by way of a small buffer that holds what C held. */
static void tile_in_place(const block *b, flxi_tile *t, int64_t i, int64_t j, int64_t cols)
{
    const flxi_gemm *p = &b->pl->p;
    size_t size = b->pl->kernels->size;
    _Alignas(64) char buffer[TILE_BYTES];
    char *c = b->c + (size_t)(i * p->c_row + j) * size;
    t->add = b->depth > 0 || p->add;
    if (cols == t->cols) {
        t->c = c;
        t->c_row = p->c_row;
        b->pl->kernels->tile(t);
    } else {
        t->c = buffer;
        t->c_row = t->cols;
        for (int r = 0; t->add && r < t->rows; r++)
            memcpy(buffer + (size_t)(r * t->cols) * size, c + (size_t)(r * p->c_row) * size, (size_t)cols * size);
        b->pl->kernels->tile(t);
        for (int r = 0; r < t->rows; r++)
            memcpy(c + (size_t)(r * p->c_row) * size, buffer + (size_t)(r * t->cols) * size, (size_t)cols * size);
    }
    if (b->last && has_epilogue(p))
        finish_part(b, c, p->c_row, 0, i, j, t->rows, cols);
}

static void tile_in_sums(const block *b, flxi_tile *t, int64_t i, int64_t j)
{
    const flxi_gemm_kernels *ker = b->pl->kernels;
    int64_t pitch = round_up(b->cols, ker->cols);
    t->c = b->own_sums + (size_t)((i - b->i) * pitch * ker->parts + (j - b->j)) * ker->size;
    t->c_row = pitch * ker->parts;
    t->c_part = pitch;
    t->add = b->depth > 0;
    ker->tile(t);
}

/* The rows [i, i + rows) of A that a tile reads; the panel `own` begins at row `from`. */
static void set_a(const block *b, flxi_tile *t, int64_t i, int64_t from)
{
    const plan *pl = b->pl;
    const flxi_gemm_kernels *ker = pl->kernels;
    size_t unit = ker->size * (size_t)ker->parts;
    if (pl->direct_a) {
        t->a_row = flxi_walk_step(&pl->p.a.line);
        t->a_col = flxi_walk_step(&pl->p.a.depth);
        t->a = b->a + (size_t)(i * t->a_row + b->depth * t->a_col) * ker->size;
        return;
    }
    t->a_row = 1;
    t->a_col = ker->rows * ker->parts;
    t->a_part = ker->rows;
    t->a = pl->shared_a ? b->packed_a + (size_t)(b->depth * round_up(pl->p.m, ker->rows) + i * b->depths) * unit
                        : b->own_a + (size_t)((i - from) * b->depths) * unit;
}

/* Asks at every 32nd tile or panel: each takes a microsecond or more. */
static bool is_stopped_at(int64_t i, int64_t step)
{
    return i / step % 32 == 31 && flxi_stopped();
}

static void pack_panel_of_a(const plan *pl, const char *a, char *to, int64_t line, int64_t lines, int64_t depth,
                            int64_t depths)
{
    const flxi_gemm *p = &pl->p;
    const flxi_gemm_kernels *ker = pl->kernels;
    if (ker->group > 1) {
        flxi_gemm_words words = {.x = &p->a, .dtype = p->dtype, .group = ker->group, .count = p->k, .flip = pl->flip};
        flxi_gemm_pack_words(&words, a, (uint32_t *)to, ker->rows, line, lines, depth, depths);
    } else {
        flxi_gemm_pack(&p->a, p->dtype, a, &(flxi_gemm_region){line, lines, depth, depths}, to, ker->rows);
    }
}

static void pack_panel_of_b(const plan *pl, const char *b, char *to, int64_t line, int64_t lines, int64_t depth,
                            int64_t depths)
{
    const flxi_gemm *p = &pl->p;
    const flxi_gemm_kernels *ker = pl->kernels;
    if (ker->group > 1) {
        flxi_gemm_words words = {.x = &p->b, .dtype = dtype_of_b(p), .group = ker->group, .count = p->k};
        flxi_gemm_pack_words(&words, b, (uint32_t *)to + pl->head * pl->panel, pl->panel, line, lines, depth, depths);
        if (pl->head)
            ker->head(to, pl->panel, depths, pl->head_factor);
    } else {
        flxi_gemm_pack(&p->b, p->dtype, b, &(flxi_gemm_region){line, lines, depth, depths}, to, pl->panel);
    }
}

/* Panels of A are packed some of the depth after the other: where rows of A are neighbours, panels share lines of
   memory. */
enum { A_DEPTHS = 64 };

/* Rows [from, end) of A, panel by panel, to where those of row `from` begin. */
static void pack_panels_of_a(const plan *pl, const char *a, char *to, int64_t from, int64_t end, int64_t depth,
                             int64_t depths)
{
    const flxi_gemm_kernels *ker = pl->kernels;
    int64_t unit = (int64_t)ker->size * ker->parts;
    for (int64_t d = 0; d < depths && !flxi_stopped(); d += A_DEPTHS)
        for (int64_t i = from; i < end; i += ker->rows)
            pack_panel_of_a(pl, a, to + ((i - from) * depths + d * ker->rows) * unit, i, least(ker->rows, end - i),
                            depth + d, least(A_DEPTHS, depths - d));
}

static void pack_rows(const block *b, int64_t from, int64_t rows)
{
    if (!b->pl->direct_a && !b->pl->shared_a)
        pack_panels_of_a(b->pl, b->a, b->own_a, from, from + rows, b->depth, b->depths);
}

static void pack_strip(const block *b)
{
    const plan *pl = b->pl;
    const flxi_gemm_kernels *ker = pl->kernels;
    if (pl->mode != MODE_OWN)
        return;
    for (int64_t j = 0; j < b->cols && !is_stopped_at(j, ker->cols); j += ker->cols)
        pack_panel_of_b(pl, b->b, b->own_b + (size_t)(j * (b->depths + pl->head) * ker->parts) * ker->size, b->j + j,
                        least(ker->cols, b->cols - j), b->depth, b->depths);
}

/* Where the panel that begins at a column is in a B that is packed once, in bytes. */
static size_t packed_at(const plan *pl, int64_t depth, int64_t depths, int64_t column)
{
    int64_t above = depth + depth / pl->chunk * pl->head;
    return (size_t)((above * pl->columns + column * (depths + pl->head)) * pl->kernels->parts) * pl->kernels->size;
}

/* The panel of B for columns [j, j + cols); sets the width of the tile. */
static void set_b(const block *b, flxi_tile *t, int64_t j, int64_t cols)
{
    const plan *pl = b->pl;
    const flxi_gemm_kernels *ker = pl->kernels;
    t->cols = (int)round_up(cols, ker->lanes);
    t->b_step = pl->panel * ker->parts;
    t->b_part = pl->panel;
    if (pl->mode == MODE_SHARED) {
        t->b = b->packed_b + packed_at(pl, b->depth, b->depths, j - b->packed_from);
    } else if (pl->mode == MODE_OWN) {
        t->b = b->own_b + (size_t)((j - b->j) * (b->depths + pl->head) * ker->parts) * ker->size;
    } else if (cols == t->cols) {
        t->b_step = flxi_walk_step(&pl->p.b.depth);
        t->b = b->b + (size_t)(j + b->depth * t->b_step) * ker->size;
    } else { /* reading whole vectors could leave the matrix */
        t->b = b->own_b;
        pack_panel_of_b(pl, b->b, b->own_b, j, cols, b->depth, b->depths);
    }
}

/* Rows of the next tile. Where A is not cut into panels the last two tiles are alike: a thin one would wait for its
   few chains. */
static int tile_rows(const plan *pl, int64_t left)
{
    int64_t most = pl->kernels->rows;
    return (int)(pl->direct_a && left > most && left < 2 * most ? (left + 1) / 2 : least(most, left));
}

/* Whether the first tile of a column of them packs B in passing for those below, which find it in one piece then: rows
   of B some power of two apart would drive each other out of the cache. */
static bool is_kept(const block *b, int64_t rows, int64_t cols)
{
    const flxi_gemm_kernels *ker = b->pl->kernels;
    return ker->can_keep && b->pl->mode == MODE_DIRECT && cols == ker->cols && rows >= 2 * ker->rows;
}

static void run_rows(const block *b, int64_t from, int64_t rows)
{
    const plan *pl = b->pl;
    const flxi_gemm_kernels *ker = pl->kernels;
    flxi_tile t = {.depth = b->depths};
    int64_t width;
    pack_rows(b, from, rows);
    for (int64_t j = 0; j < b->cols && !flxi_stopped(); j += width) {
        bool is_wide = pl->mode == MODE_DIRECT && pl->p.m == 1 && ker->wide && b->cols - j >= ker->wide;
        width = is_wide ? ker->wide : ker->cols;
        int64_t cols = least(width, b->cols - j);
        set_b(b, &t, b->j + j, cols);
        t.keep = is_kept(b, rows, cols) ? b->own_b : NULL;
        for (int64_t i = from; i < from + rows && !is_stopped_at(i - from, ker->rows); i += t.rows) {
            t.rows = tile_rows(pl, from + rows - i);
            set_a(b, &t, i, from);
            if (pl->in_place)
                tile_in_place(b, &t, i, b->j + j, cols);
            else
                tile_in_sums(b, &t, i, b->j + j);
            if (t.keep) {
                t.b = t.keep;
                t.b_step = ker->cols;
                t.keep = NULL;
            }
        }
    }
}

static void run_chunks(block *b)
{
    const plan *pl = b->pl;
    const flxi_gemm_kernels *ker = pl->kernels;
    do {
        if (flxi_stopped())
            return;
        b->depths = least(pl->chunk, pl->depth - b->depth);
        b->last = b->depth + b->depths >= pl->depth;
        pack_strip(b);
        for (int64_t i = 0; i < b->rows && !flxi_stopped(); i += pl->row_block)
            run_rows(b, b->i + i, least(pl->row_block, b->rows - i));
        b->depth += b->depths;
    } while (!b->last);
    if (!pl->in_place) {
        int64_t pitch = round_up(b->cols, ker->cols);
        finish_part(b, b->own_sums, pitch * ker->parts, pitch, b->i, b->j, b->rows, b->cols);
    }
}

static void run_dots(const block *b)
{
    const flxi_gemm *p = &b->pl->p;
    size_t size = b->pl->kernels->size;
    int64_t step = flxi_walk_step(&p->b.line);
    double sums[32];
    for (int64_t j = 0; j < b->cols && !flxi_stopped(); j += 32) {
        int64_t cols = least(32, b->cols - j);
        for (int64_t i = 0; i < cols; i++)
            b->pl->kernels->dot(p->k, b->a, b->b + (size_t)((b->j + j + i) * step) * size,
                                (char *)sums + (size_t)i * size);
        finish_part(b, sums, 0, 0, 0, b->j + j, 1, cols);
    }
}

/* ---- All blocks, by all threads ---- */

typedef struct job job;
struct job {
    const plan *pl;
    void (*task)(const job *w, int64_t task, char *own);
    int64_t tasks;
    _Atomic int64_t next; /* task to draw */
    char *own;            /* of thread 0; the others follow */
    int64_t batch;        /* the only one, when shared */
    int64_t from, cols;   /* columns, when shared */
    char *packed_a, *packed_b;
};

static void draw_tasks(void *user, int64_t begin, int64_t end)
{
    job *w = user;
    (void)end;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
        if (i >= w->tasks || flxi_stopped())
            return;
        w->task(w, i, w->own + (size_t)begin * thread_bytes(w->pl));
    }
}

static void run_job(job *w, flxi_pool *pool, int64_t tasks, void (*task)(const job *w, int64_t task, char *own))
{
    w->tasks = tasks;
    w->task = task;
    atomic_store_explicit(&w->next, 0, memory_order_relaxed);
    flxi_pool_run(pool, least(w->pl->threads, tasks), 1, draw_tasks, w);
}

/* Offsets of a matrix of the batch, in elements. */
static int64_t batch_at(const flxi_gemm *p, const int64_t *steps, int64_t index)
{
    int64_t at = 0;
    for (int k = p->batch_rank - 1; k >= 0; k--) {
        at += index % p->batch_dims[k] * steps[k];
        index /= p->batch_dims[k];
    }
    return at;
}

static void enter_batch(block *b, int64_t index)
{
    const flxi_gemm *p = &b->pl->p;
    int64_t in = (int64_t)flx_dtype_size(p->dtype);
    int64_t in_b = (int64_t)flx_dtype_size(dtype_of_b(p));
    int64_t out = (int64_t)flx_dtype_size(p->result);
    int64_t c = batch_at(p, p->c_batch, index) * out;
    b->a = (const char *)p->a.data + batch_at(p, p->a.batch, index) * in;
    b->b = (const char *)p->b.data + batch_at(p, p->b.batch, index) * in_b;
    b->c = (char *)p->c + c;
    const char *residual = p->add && (!b->pl->in_place || b->pl->mode == MODE_DOT) ? p->c : p->residual;
    b->residual = residual ? residual + c : NULL;
}

static void block_task(const job *w, int64_t task, char *own)
{
    const plan *pl = w->pl;
    const flxi_gemm *p = &pl->p;
    bool shared = pl->mode == MODE_SHARED;
    int64_t all_cols = shared ? w->cols : p->n;
    int64_t n_blocks = (all_cols + pl->n_step - 1) / pl->n_step;
    int64_t m_blocks = (p->m + pl->m_step - 1) / pl->m_step;
    int64_t j = task % n_blocks * pl->n_step;
    int64_t i = task / n_blocks % m_blocks * pl->m_step;
    block b = {.pl = pl,
               .i = i,
               .j = j + (shared ? w->from : 0),
               .rows = least(pl->m_step, p->m - i),
               .cols = least(pl->n_step, all_cols - j),
               .packed_a = w->packed_a,
               .packed_b = w->packed_b,
               .packed_from = w->from,
               .own_a = own,
               .own_b = own + pl->own_a,
               .own_sums = own + pl->own_a + pl->own_b};
    enter_batch(&b, shared ? w->batch : task / n_blocks / m_blocks);
    if (pl->mode == MODE_DOT)
        run_dots(&b);
    else
        run_chunks(&b);
}

/* Panels of A that one task packs. */
enum { A_PANELS = 8 };

static int64_t groups_of_a(const job *w)
{
    int64_t rows = w->pl->kernels->rows * A_PANELS;
    return w->pl->shared_a && w->from == 0 ? (w->pl->p.m + rows - 1) / rows : 0;
}

static int64_t panels_of_b(const job *w)
{
    int64_t cols = w->pl->kernels->cols;
    return w->pl->mode == MODE_SHARED ? (w->cols + cols - 1) / cols : 0;
}

/* One panel of B, or some of A after them, in one chunk. */
static void pack_task(const job *w, int64_t task, char *own)
{
    const plan *pl = w->pl;
    const flxi_gemm_kernels *ker = pl->kernels;
    int64_t b_panels = panels_of_b(w);
    int64_t panels = b_panels + groups_of_a(w);
    int64_t depth = task / panels * pl->chunk;
    int64_t depths = least(pl->chunk, pl->depth - depth);
    int64_t panel = task % panels;
    block b = {.pl = pl};
    (void)own;
    enter_batch(&b, w->batch);
    if (panel < b_panels) {
        int64_t j = panel * ker->cols;
        pack_panel_of_b(pl, b.b, w->packed_b + packed_at(pl, depth, depths, j), w->from + j,
                        least(ker->cols, w->cols - j), depth, depths);
    } else {
        int64_t i = (panel - b_panels) * A_PANELS * ker->rows;
        int64_t above = depth * round_up(pl->p.m, ker->rows) + i * depths;
        pack_panels_of_a(pl, b.a, w->packed_a + above * (int64_t)ker->size * ker->parts, i,
                         least(pl->p.m, i + A_PANELS * ker->rows), depth, depths);
    }
}

static void pack_all(job *w, flxi_pool *pool)
{
    int64_t chunks = (w->pl->depth + w->pl->chunk - 1) / w->pl->chunk;
    run_job(w, pool, chunks * (groups_of_a(w) + panels_of_b(w)), pack_task);
}

static void run_shared(job *w, flxi_pool *pool)
{
    const plan *pl = w->pl;
    const flxi_gemm *p = &pl->p;
    int64_t m_blocks = (p->m + pl->m_step - 1) / pl->m_step;
    for (w->batch = 0; w->batch < pl->batches; w->batch++)
        for (w->from = 0; w->from < p->n; w->from += pl->columns) {
            w->cols = least(pl->columns, p->n - w->from);
            pack_all(w, pool);
            run_job(w, pool, m_blocks * ((w->cols + pl->n_step - 1) / pl->n_step), block_task);
        }
}

static void run_plan(const plan *pl, flxi_pool *pool, char *scratch)
{
    const flxi_gemm *p = &pl->p;
    if (pl->batches == 0 || p->m == 0 || p->n == 0)
        return;
    job w = {.pl = pl, .packed_b = scratch, .packed_a = scratch + pl->b_bytes};
    w.own = scratch + pl->b_bytes + pl->a_bytes;
    double work = (double)p->m * (double)p->n * (double)pl->depth * (double)pl->batches;
    pool = work < 2 * least_work ? NULL : pool;
    if (pl->mode == MODE_SHARED) {
        run_shared(&w, pool);
        return;
    }
    int64_t blocks = pl->batches * ((p->m + pl->m_step - 1) / pl->m_step) * ((p->n + pl->n_step - 1) / pl->n_step);
    pack_all(&w, pool);
    run_job(&w, pool, blocks, block_task);
}

static size_t plan_bytes(const plan *pl)
{
    return pl->b_bytes + pl->a_bytes + (size_t)pl->threads * thread_bytes(pl);
}

/* ---- A depth far larger than C: pieces of it, added in order ---- */

enum { PIECE = 8192, LEAST_PIECES = 2, MOST_OUTPUTS = 4096 };

static bool has_pieces(const flxi_gemm *p)
{
    flxi_gemm_kind kind = flxi_gemm_kind_of(p->dtype);
    bool is_real = kind == GEMM_F32 || kind == GEMM_F64;
    return is_real && p->k >= LEAST_PIECES * PIECE && p->m <= MOST_OUTPUTS && p->n <= MOST_OUTPUTS &&
           p->m * p->n <= MOST_OUTPUTS && batch_count(p) == 1 && !p->a.source && !p->b.source && p->a.depth.rank == 1 &&
           p->b.depth.rank == 1;
}

static size_t sums_bytes(const flxi_gemm *p)
{
    size_t size = flxi_gemm_kind_of(p->dtype) == GEMM_F64 ? 8 : 4;
    return aligned((p->k + PIECE - 1) / PIECE * p->m * p->n * (int64_t)size);
}

/* All whole pieces as a batch, or the rest as one product. */
static flxi_gemm piece_of(const flxi_gemm *p, bool rest, void *sums)
{
    flxi_gemm q = *p;
    int64_t whole = p->k / PIECE;
    int64_t first = rest ? whole * PIECE : 0;
    int64_t in = (int64_t)flx_dtype_size(p->dtype);
    q.result = flxi_gemm_kind_of(p->dtype) == GEMM_F64 ? FLX_F64 : FLX_F32;
    q.k = rest ? p->k - first : PIECE;
    q.a.depth.dims[0] = q.b.depth.dims[0] = q.k;
    q.a.data = p->a.data ? (const char *)p->a.data + first * p->a.depth.steps[0] * in : NULL;
    q.b.data = p->b.data ? (const char *)p->b.data + first * p->b.depth.steps[0] * in : NULL;
    q.c = sums;
    q.c_row = p->n;
    q.c_col = 1;
    q.alpha = 1;
    q.bias = q.residual = NULL;
    q.add = false;
    q.batch_rank = 1;
    q.batch_dims[0] = rest ? 1 : whole;
    q.a.batch[0] = PIECE * p->a.depth.steps[0];
    q.b.batch[0] = PIECE * p->b.depth.steps[0];
    q.c_batch[0] = p->m * p->n;
    return q;
}

#define ADD_PIECES(name, T)                                     \
    static void name(void *sums, int64_t count, int64_t pieces) \
    {                                                           \
        T *s = sums;                                            \
        for (int64_t i = 1; i < pieces; i++)                    \
            for (int64_t e = 0; e < count; e++)                 \
                s[e] += s[i * count + e];                       \
    }
ADD_PIECES(add_pieces_f32, float)
ADD_PIECES(add_pieces_f64, double)

static void run_pieces(const flxi_gemm *p, flxi_pool *pool, char *scratch)
{
    size_t held = sums_bytes(p);
    int64_t count = p->m * p->n;
    int64_t pieces = (p->k + PIECE - 1) / PIECE;
    bool is_f64 = flxi_gemm_kind_of(p->dtype) == GEMM_F64;
    flxi_gemm whole = piece_of(p, false, scratch);
    plan pl = make_plan(&whole, flxi_pool_threads(pool));
    run_plan(&pl, pool, scratch + held);
    if (p->k % PIECE) {
        flxi_gemm rest = piece_of(p, true, scratch + (size_t)((pieces - 1) * count) * (is_f64 ? 8 : 4));
        pl = make_plan(&rest, flxi_pool_threads(pool));
        run_plan(&pl, pool, scratch + held);
    }
    (is_f64 ? add_pieces_f64 : add_pieces_f32)(scratch, count, pieces);
    flxi_gemm_block all = {.sums = scratch,
                           .sums_row = p->n,
                           .rows = p->m,
                           .cols = p->n,
                           .c = p->c,
                           .residual = p->add ? p->c : p->residual};
    flxi_gemm_finish(p, &all);
}

/* ---- Entry ---- */

static flxi_order_side side_of(const flxi_gemm_operand *x)
{
    flxi_order_side s = {.line = x->line, .depth = x->depth};
    memcpy(s.batch, x->batch, sizeof s.batch);
    return s;
}

/* What sides change places for speed alone depends on the width of vectors, which is the least one here. */
flxi_product_order flxi_gemm_order_of(const flxi_gemm *given)
{
    flxi_gemm p = *given;
    p.isa = FLXI_ISA_GENERIC;
    p.a.data = &p.a;
    p.b.data = &p.b;
    const flxi_gemm_kernels *kernels = choose_kernels(&p);
    flxi_gemm q = simplified(&p, kernels);
    flxi_product_order o = {.dtype = q.dtype,
                            .result = q.result,
                            .m = q.m,
                            .n = q.n,
                            .k = q.k,
                            .a = side_of(&q.a),
                            .b = side_of(&q.b),
                            .c_row = q.c_row,
                            .c_col = q.c_col,
                            .batch_rank = q.batch_rank,
                            .is_turned = q.a.data == &p.b,
                            .is_dots = is_dots(&q, kernels) && q.m == 1,
                            .piece = has_pieces(given) ? PIECE : 0};
    memcpy(o.batch_dims, q.batch_dims, sizeof o.batch_dims);
    memcpy(o.c_batch, q.c_batch, sizeof o.c_batch);
    return o;
}

/* With any number of threads up to this one: blocks, and with them what each needs, depend on the number. */
static size_t most_bytes(const flxi_gemm *p, int threads)
{
    size_t most = 0;
    for (int t = 1; t <= threads || t == 1; t++) {
        plan pl = make_plan(p, t);
        most = plan_bytes(&pl) > most ? plan_bytes(&pl) : most;
    }
    return most;
}

size_t flxi_gemm_scratch(const flxi_gemm *p, int threads)
{
    if (!has_pieces(p))
        return most_bytes(p, threads);
    flxi_gemm whole = piece_of(p, false, NULL);
    flxi_gemm rest = piece_of(p, true, NULL);
    size_t most = most_bytes(&whole, threads);
    size_t other = most_bytes(&rest, threads);
    return sums_bytes(p) + (most > other ? most : other);
}

void flxi_gemm_run(const flxi_gemm *p, flxi_pool *pool, void *scratch)
{
    if (has_pieces(p)) {
        run_pieces(p, pool, scratch);
        return;
    }
    plan pl = make_plan(p, flxi_pool_threads(pool));
    run_plan(&pl, pool, scratch);
}
