/* SPDX-License-Identifier: Apache-2.0 */
/* factor_text.c: see factor_text.h. The device cuts a matrix in half until 8 columns are left and does all that happens
   between the halves as one product. Here the same cuts are made in a loop: leaves of 8 from the first to the last, and
   after each the cut whose middle is its end, which cut_at() finds. So no function calls itself, and the deepest stack
   is known. As there, products only add: one factor of each is kept with its sign changed. */
#include "standalone/parts/factor_text.h"

#include <stdio.h>

enum { MOST_NAMES = 8 };

/* $ is the type of numbers, @0 … are names. */
static const char *static_of(flxi_sa_writer *w, const char *from, int32_t dtype, const char *const *names,
                             const char *wanted, const char *comment)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    for (; *from; from++)
        if (*from == '$')
            flxi_add_text(&text, dtype == FLX_F64 ? "double" : "float");
        else if (*from == '@')
            flxi_add_text(&text, names[*++from - '0']);
        else
            flxi_add_char(&text, *from);
    const char *name = flxi_sa_static_of(w->f, &text, &text, wanted, comment);
    flxi_strbuf_free(&text);
    return name;
}

/* ---- c += a b ---- */

/* Rows and vectors of the tiles that are used: the most that fits first. */
static const int tile_rows[] = {6, 4, 2, 1};

static int tile_widths(const flxi_sa_shape *s, int widths[3])
{
    int n = 0;
    for (int v = s->vectors; v > 0; v /= 2)
        widths[n++] = v;
    return n;
}

static const char *tile_function(flxi_sa_writer *w, int32_t dtype)
{
    flxi_sa_shape shape = flxi_sa_shape_of(w->f, dtype);
    flxi_strbuf text;
    int widths[3], num_widths = tile_widths(&shape, widths);
    const char *type = dtype == FLX_F64 ? "double" : "float";
    flxi_strbuf_init(&text, w->f->mem);
    flxi_addf(&text,
              "static void NAME_(int64_t rows, int64_t width, const %s *a, int64_t a_row, int64_t a_col, const %s *b,\n"
              "                  int64_t b_row, %s *c, int64_t c_row, int64_t depth)\n{\n",
              type, type, type);
    for (int i = 0; i < num_widths; i++)
        for (int k = 0; k < 4; k++) {
            const char *tile = flxi_sa_tile(w, dtype, tile_rows[k], widths[i]);
            flxi_addf(&text, "    if (rows == %d && width == %d)\n", tile_rows[k], widths[i] * shape.lanes);
            flxi_addf(&text, "        %s(a, a_row, a_col, b, b_row, c, c_row, depth, 1);\n", tile);
        }
    flxi_add_text(&text, "}\n");
    const char *name = flxi_sa_static_of(w->f, &text, &text, "tile", "A tile of those rows and columns: c += a b.");
    flxi_strbuf_free(&text);
    return name;
}

/* @0: a tile, @1: a dot product; @2 … @4 the widths of tiles, @5 of a vector. The chunks are those of all products. */
static const char add_product[] =
    "static void NAME_(const $ *a, int64_t a_row, int64_t a_col, const $ *b, int64_t b_row, $ *c, int64_t c_row,\n"
    "                  int64_t m, int64_t n, int64_t k, $ *columns)\n"
    "{\n"
    "    const int64_t chunks = (k + 1023) / 1024, chunk = chunks > 1 ? ((k + chunks - 1) / chunks + 7) / 8 * 8 : k;\n"
    "    $ part[6 * @5];\n"
    "    if (n == 1 && a_col == 1 && b_row == 1) {\n"
    "        for (int64_t i = 0; i < m; i++)\n"
    "            c[i * c_row] += @1(a + i * a_row, b, k);\n"
    "        return;\n"
    "    }\n"
    "    for (int64_t from = 0; from < k; from += chunk) {\n"
    "        const int64_t depth = k - from < chunk ? k - from : chunk;\n"
    "        for (int64_t j = 0, width; j < n; j += width) {\n"
    "            width = n - j >= @2 ? @2 : n - j >= @3 ? @3 : @4;\n"
    "            const int64_t used = n - j < width ? n - j : width;\n"
    "            const $ *right = b + from * b_row + j;\n"
    "            int64_t step = b_row;\n"
    "            if (m >= 24 || used < width) {\n"
    "                for (int64_t d = 0; d < depth; d++) {\n"
    "                    memcpy(columns + d * width, right + d * b_row, (size_t)used * sizeof *columns);\n"
    "                    for (int64_t i = used; i < width; i++)\n"
    "                        columns[d * width + i] = 0;\n"
    "                }\n"
    "                right = columns;\n"
    "                step = width;\n"
    "            }\n"
    "            for (int64_t i = 0, rows; i < m; i += rows) {\n"
    "                const $ *left = a + i * a_row + from * a_col;\n"
    "                rows = m - i >= 6 ? 6 : m - i >= 4 ? 4 : m - i >= 2 ? 2 : 1;\n"
    "                if (used == width) {\n"
    "                    @0(rows, width, left, a_row, a_col, right, step, c + i * c_row + j, c_row, depth);\n"
    "                    continue;\n"
    "                }\n"
    "                for (int64_t r = 0; r < rows; r++)\n"
    "                    memcpy(part + r * width, c + (i + r) * c_row + j, (size_t)used * sizeof *part);\n"
    "                @0(rows, width, left, a_row, a_col, right, step, part, width, depth);\n"
    "                for (int64_t r = 0; r < rows; r++)\n"
    "                    memcpy(c + (i + r) * c_row + j, part + r * width, (size_t)used * sizeof *part);\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "}\n";

static const char *product_function(flxi_sa_writer *w, int32_t dtype)
{
    flxi_sa_shape shape = flxi_sa_shape_of(w->f, dtype);
    int widths[3], n = tile_widths(&shape, widths);
    const char *width[3];
    for (int i = 0; i < 3; i++)
        width[i] = flxi_sa_print(w, "%d", widths[i < n ? i : n - 1] * shape.lanes);
    const char *const names[MOST_NAMES] = {
        tile_function(w, dtype), flxi_sa_dot(w, dtype), width[0], width[1], width[2], width[2]};
    return static_of(w, add_product, dtype, names, "add_product", "c [m, n] += a [m, k] b [k, n].");
}

int64_t flxi_sa_factor_columns(int64_t n, int32_t dtype)
{
    return (n < 1024 ? n : 1024) * (dtype == FLX_F64 ? 32 : 64);
}

/* ---- Triangles ---- */

static const char cut_at[] =
    "static void NAME_(int64_t middle, int64_t *from, int64_t *n)\n"
    "{\n"
    "    for (int64_t half = (*n / 2 + 7) / 8 * 8; *from + half != middle; half = (*n / 2 + 7) / 8 * 8)\n"
    "        if (middle < *from + half) {\n"
    "            *n = half;\n"
    "        } else {\n"
    "            *from += half;\n"
    "            *n -= half;\n"
    "        }\n"
    "}\n";

static const char negate[] = "static void NAME_($ *x, int64_t n)\n"
                             "{\n"
                             "    for (int64_t i = 0; i < n; i++)\n"
                             "        x[i] = -x[i];\n"
                             "}\n";

static const char solve_leaf[] =
    "static void NAME_(const $ *t, int64_t n, int64_t row, int64_t col, int lower, int unit, int negated, $ *b,\n"
    "                  int64_t step, int64_t k)\n"
    "{\n"
    "    for (int64_t done = 0; done < n; done++) {\n"
    "        const int64_t i = lower ? done : n - 1 - done;\n"
    "        $ *restrict y = b + i * step;\n"
    "        for (int64_t before = 0; before < done; before++) {\n"
    "            const int64_t j = lower ? before : n - 1 - before;\n"
    "            const $ *x = b + j * step, factor = t[i * row + j * col];\n"
    "            for (int64_t c = 0; c < k; c++)\n"
    "                y[c] += factor * x[c];\n"
    "        }\n"
    "        const $ pivot = unit ? 1 : t[i * (row + col)], by = negated ? pivot : -pivot;\n"
    "        for (int64_t c = 0; c < k && !(unit && negated); c++)\n"
    "            y[c] /= by;\n"
    "    }\n"
    "}\n";

/* @0: a leaf, @1: cut_at, @2: add_product. */
static const char solve_blocks[] =
    "static void NAME_(const $ *t, int64_t n, int64_t row, int64_t col, int lower, int unit, int negated, $ *b,\n"
    "                  int64_t step, int64_t k, $ *columns)\n"
    "{\n"
    "    const int64_t leaves = (n + 7) / 8;\n"
    "    for (int64_t done = 0; done < leaves; done++) {\n"
    "        const int64_t at = 8 * (lower ? done : leaves - 1 - done), middle = lower ? at + 8 : at;\n"
    "        int64_t from = 0, size = n;\n"
    "        @0(t + at * (row + col), n - at < 8 ? n - at : 8, row, col, lower, unit, negated, b + at * step, step, "
    "k);\n"
    "        if (done + 1 == leaves)\n"
    "            return;\n"
    "        @1(middle, &from, &size);\n"
    "        const int64_t half = middle - from, rest = size - half;\n"
    "        if (lower)\n"
    "            @2(t + middle * row + from * col, row, col, b + from * step, step, b + middle * step, step, rest, k,\n"
    "               half, columns);\n"
    "        else\n"
    "            @2(t + from * row + middle * col, row, col, b + middle * step, step, b + from * step, step, half, k,\n"
    "               rest, columns);\n"
    "    }\n"
    "}\n";

static const char triangle[] =
    "static void NAME_(const $ *t, int64_t n, int64_t row, int64_t col, int lower, int unit, $ *b, int64_t k,\n"
    "                  $ *columns)\n"
    "{\n"
    "    @0(t, n, row, col, lower, unit, 0, b, k, k, columns);\n"
    "    @1(b, n * k);\n"
    "}\n";

static const char *cut_function(flxi_sa_writer *w)
{
    return static_of(w, cut_at, FLX_F64, NULL, "cut_at", "The part of [from, from + n) that is cut at its middle.");
}

static const char *negate_function(flxi_sa_writer *w, int32_t dtype)
{
    return static_of(w, negate, dtype, NULL, "negate", "The other sign.");
}

static const char *solve_function(flxi_sa_writer *w, int32_t dtype)
{
    const char *const names[MOST_NAMES] = {
        static_of(w, solve_leaf, dtype, NULL, "solve_leaf", "At most 8 rows of solve_blocks()."), cut_function(w),
        product_function(w, dtype)};
    return static_of(w, solve_blocks, dtype, names, "solve_blocks",
                     "b [n, k] becomes -x with T x = b; negated: T but for units has the other sign, and b becomes x.");
}

/* ---- LU ---- */

static const char lu_leaf[] =
    "static void NAME_($ *a, int64_t m, int64_t n, int64_t step, int64_t *pivots, $ *turned)\n"
    "{\n"
    "    for (int64_t i = 0; i < m; i++)\n"
    "        for (int64_t j = 0; j < n; j++)\n"
    "            turned[j * m + i] = a[i * step + j];\n"
    "    for (int64_t k = 0; k < n; k++) {\n"
    "        $ *const column = turned + k * m;\n"
    "        int64_t p = k;\n"
    "        for (int64_t i = k + 1; i < m; i++)\n"
    "            p = @0(column[i]) > @0(column[p]) ? i : p;\n"
    "        pivots[k] = p;\n"
    "        for (int64_t j = 0; j < n && p != k; j++) {\n"
    "            const $ t = turned[j * m + k];\n"
    "            turned[j * m + k] = turned[j * m + p];\n"
    "            turned[j * m + p] = t;\n"
    "        }\n"
    "        const $ by = -column[k];\n"
    "        if (by == 0)\n"
    "            continue; /* so is all below it: nothing to eliminate */\n"
    "        for (int64_t i = k + 1; i < m; i++)\n"
    "            column[i] /= by;\n"
    "        for (int64_t j = k + 1; j < n; j++) {\n"
    "            $ *restrict y = turned + j * m;\n"
    "            const $ factor = y[k];\n"
    "            for (int64_t i = k + 1; i < m; i++)\n"
    "                y[i] += factor * column[i];\n"
    "        }\n"
    "    }\n"
    "    for (int64_t i = 0; i < m; i++)\n"
    "        for (int64_t j = 0; j < n; j++)\n"
    "            a[i * step + j] = turned[j * m + i];\n"
    "}\n";

static const char exchange[] = "static void NAME_($ *restrict a, $ *restrict b, int64_t n)\n"
                               "{\n"
                               "    for (int64_t i = 0; i < n; i++) {\n"
                               "        const $ t = a[i];\n"
                               "        a[i] = b[i];\n"
                               "        b[i] = t;\n"
                               "    }\n"
                               "}\n";

/* @0: a leaf, @1: exchange, @2: cut_at, @3: solve_blocks, @4: add_product, @5: negate. */
static const char lu[] =
    "static void NAME_($ *a, int64_t m, int64_t n, int64_t *pivots, $ *turned, $ *columns)\n"
    "{\n"
    "    for (int64_t at = 0; at < n; at += 8) {\n"
    "        const int64_t width = n - at < 8 ? n - at : 8, middle = at + width;\n"
    "        int64_t from = 0, size = n;\n"
    "        @0(a + at * (n + 1), m - at, width, n, pivots + at, turned);\n"
    "        for (int64_t k = at; k < middle; k++) {\n"
    "            $ *const row = a + k * n, *const other = a + (pivots[k] += at) * n;\n"
    "            if (pivots[k] != k) {\n"
    "                @1(row, other, at);\n"
    "                @1(row + middle, other + middle, n - middle);\n"
    "            }\n"
    "        }\n"
    "        if (middle == n)\n"
    "            break;\n"
    "        @2(middle, &from, &size);\n"
    "        $ *const right = a + from * n + middle;\n"
    "        const int64_t half = middle - from, rest = size - half;\n"
    "        @3(a + from * (n + 1), half, n, 1, 1, 1, 1, right, n, rest, columns);\n"
    "        @4(a + middle * n + from, n, 1, right, n, a + middle * (n + 1), n, m - middle, rest, half, columns);\n"
    "    }\n"
    "    for (int64_t i = 1; i < m; i++)\n"
    "        @5(a + i * n, i < n ? i : n);\n"
    "}\n";

static const char *lu_function(flxi_sa_writer *w, int32_t dtype)
{
    const char *const magnitude[MOST_NAMES] = {dtype == FLX_F64 ? "fabs" : "fabsf"};
    const char *const names[MOST_NAMES] = {
        static_of(w, lu_leaf, dtype, magnitude, "lu_leaf", "At most 8 columns of lu_blocks(), turned."),
        static_of(w, exchange, dtype, NULL, "exchange", "Exchanges two rows."),
        cut_function(w),
        solve_function(w, dtype),
        product_function(w, dtype),
        negate_function(w, dtype)};
    return static_of(w, lu, dtype, names, "lu_blocks",
                     "a [m, n], its rows exchanged, becomes L U; m >= n. Meanwhile L has the other sign.");
}

/* ---- Cholesky ---- */

static const char cholesky_leaf[] = "static int NAME_($ *a, int64_t n, int64_t step)\n"
                                    "{\n"
                                    "    for (int64_t k = 0; k < n; k++) {\n"
                                    "        $ *const row = a + k * step;\n"
                                    "        if (!(row[k] > 0 && row[k] < INFINITY))\n"
                                    "            return 0;\n"
                                    "        row[k] = @0(row[k]);\n"
                                    "        for (int64_t j = k + 1; j < n; j++)\n"
                                    "            row[j] /= row[k];\n"
                                    "        for (int64_t i = k + 1; i < n; i++)\n"
                                    "            for (int64_t j = i; j < n; j++)\n"
                                    "                a[i * step + j] += -row[i] * row[j];\n"
                                    "    }\n"
                                    "    return 1;\n"
                                    "}\n";

/* @0: a leaf, @1: cut_at, @2: solve_blocks, @3: add_product, @4: negate. */
static const char cholesky[] =
    "static int NAME_($ *a, int64_t n, $ *columns)\n"
    "{\n"
    "    for (int64_t at = 0; at < n; at += 8) {\n"
    "        const int64_t middle = n - at < 8 ? n : at + 8;\n"
    "        int64_t from = 0, size = n;\n"
    "        if (!@0(a + at * (n + 1), middle - at, n))\n"
    "            return 0;\n"
    "        if (middle == n)\n"
    "            break;\n"
    "        @1(middle, &from, &size);\n"
    "        $ *const right = a + from * n + middle, *const corner = a + middle * (n + 1);\n"
    "        const int64_t half = middle - from, rest = size - half;\n"
    "        @2(a + from * (n + 1), half, 1, n, 1, 0, 0, right, n, rest, columns);\n"
    "        for (int64_t i = 0; i < rest; i++)\n"
    "            @4(corner + i * (n + 1), rest - i);\n"
    "        for (int64_t i = 0; i < rest; i += 48) /* the upper triangle of right^T right */\n"
    "            @3(right + i, 1, n, right + i, n, corner + i * (n + 1), n, rest - i < 48 ? rest - i : 48, rest - i, "
    "half,\n"
    "               columns);\n"
    "        for (int64_t i = 0; i < rest; i++)\n"
    "            @4(corner + i * (n + 1), rest - i);\n"
    "        for (int64_t i = 0; i < half; i++)\n"
    "            @4(right + i * n, rest);\n"
    "    }\n"
    "    return 1;\n"
    "}\n";

static const char *cholesky_function(flxi_sa_writer *w, int32_t dtype)
{
    const char *const root[MOST_NAMES] = {dtype == FLX_F64 ? "sqrt" : "sqrtf"};
    const char *const names[MOST_NAMES] = {
        static_of(w, cholesky_leaf, dtype, root, "cholesky_leaf", "At most 8 rows of cholesky_blocks()."),
        cut_function(w), solve_function(w, dtype), product_function(w, dtype), negate_function(w, dtype)};
    return static_of(w, cholesky, dtype, names, "cholesky_blocks",
                     "The upper triangle of a [n, n] becomes U with U^T U = a; 0: a is not positive definite.");
}

const char *flxi_sa_factor(flxi_sa_writer *w, flxi_sa_blocks which, int32_t dtype)
{
    if (which == SA_BLOCKS_LU)
        return lu_function(w, dtype);
    if (which == SA_BLOCKS_CHOLESKY)
        return cholesky_function(w, dtype);
    const char *const names[MOST_NAMES] = {solve_function(w, dtype), negate_function(w, dtype)};
    return static_of(w, triangle, dtype, names, "triangle_blocks", "b [n, k] becomes the solution of T x = b.");
}
