/* SPDX-License-Identifier: Apache-2.0 */
/* tiles.c: see tiles.h. Sums have names, not an array: compilers then keep them in registers at every level of
   optimisation. */
#include "standalone/tiles/tiles.h"

#include "emit/vector/vector_spelling.h"

#include <stdio.h>

flxi_sa_shape flxi_sa_shape_of(const flxi_sa_file *f, int32_t dtype)
{
    int bytes = (int)f->vector_bytes, lanes = bytes / (dtype == FLX_F64 ? 8 : 4);
    return (flxi_sa_shape){.lanes = lanes, .rows = 6, .vectors = bytes == 64 ? 4 : 2, .wide = 8};
}

/* ---- Text ---- */

typedef struct {
    flxi_sa_writer *w;
    flxi_strbuf text;
    flxi_ksubject subject;
    int rows, vectors;
} tile;

static tile begin(flxi_sa_writer *w, int32_t dtype, int rows, int vectors)
{
    flxi_kfile *k = &w->f->kernels;
    tile t = {.w = w, .rows = rows, .vectors = vectors};
    int32_t sum = dtype == FLX_F64 ? FLX_F64 : FLX_F32;
    k->vector_bytes = w->f->vector_bytes;
    k->vector_spelling = &flxi_vector_spelling;
    t.subject = (flxi_ksubject){
        .type = (uint32_t)sum, .result = (uint32_t)sum, .lanes = (unsigned)flxi_sa_shape_of(w->f, dtype).lanes};
    flxi_strbuf_init(&t.text, w->f->mem);
    return t;
}

/* A template of vectors with numbers for $a, $b and $c. */
static void add(tile *t, const char *text, int a, int b, int c)
{
    char number[3][16];
    const int given[3] = {a, b, c};
    flxi_ksubject s = t->subject;
    for (int i = 0; i < 3; i++) {
        snprintf(number[i], sizeof number[i], "%d", given[i]);
        s.x[i] = number[i];
    }
    flxi_kfile_expand(&t->w->f->kernels, &t->text, text, &s);
}

static void add_word(tile *t, const char *text)
{
    flxi_add_text(&t->text, text);
}

static const char *real_of(const tile *t)
{
    return t->subject.type == FLX_F64 ? "double" : "float";
}

static const char *finish(tile *t, const char *wanted, const char *comment)
{
    const char *name = flxi_sa_static_of(t->w->f, &t->text, &t->text, wanted, comment);
    flxi_strbuf_free(&t->text);
    return name;
}

/* One declaration for each row, with all of its sums. */
static void declare_sums(tile *t)
{
    for (int r = 0; r < t->rows; r++) {
        add(t, "    $v ", 0, 0, 0);
        for (int v = 0; v < t->vectors; v++)
            add(t, v ? ", c$a_$b = {0}" : "c$a_$b = {0}", r, v, 0);
        add_word(t, ";\n");
    }
}

/* The vectors of b, then for each row its number of a and its terms. `from` declares that number, of row $a. */
static void add_terms(tile *t, const char *indent, const char *from)
{
    int lanes = (int)t->subject.lanes;
    const char *term = t->w->f->fuses ? "c$a_$b = @fma(a$a, b$b, c$a_$b);\n" : "c$a_$b += a$a * b$b;\n";
    for (int v = 0; v < t->vectors; v++) {
        add_word(t, indent);
        add(t, v ? "const $v b$b = @get(b + $c);\n" : "const $v b$b = @get(b);\n", 0, v, v * lanes);
    }
    for (int r = 0; r < t->rows; r++) {
        add_word(t, indent);
        add(t, from, r, 0, 0);
        for (int v = 0; v < t->vectors; v++) {
            add_word(t, indent);
            add(t, term, r, v, 0);
        }
    }
}

/* The sums, or what is there already and the sums, to the rows of c; the end of the function. */
static void add_stores(tile *t)
{
    int lanes = (int)t->subject.lanes;
    add_word(t, "    if (add) {\n");
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->vectors; v++)
            add(t, "        c$a_$b += @get(c + $a * c_row + $c);\n", r, v, v * lanes);
    add_word(t, "    }\n");
    for (int r = 0; r < t->rows; r++)
        for (int v = 0; v < t->vectors; v++)
            add(t, "    @put(c + $a * c_row + $c, c$a_$b);\n", r, v, v * lanes);
    add_word(t, t->rows == 1 ? "    (void)c_row;\n}\n" : "}\n");
}

const char *flxi_sa_tile(flxi_sa_writer *w, int32_t dtype, int rows, int vectors)
{
    tile t = begin(w, dtype, rows, vectors);
    const char *real = real_of(&t);
    flxi_addf(&t.text,
              "static void NAME_(const %s *a, int64_t a_row, int64_t a_col, const %s *b, int64_t b_row, %s *c,\n"
              "                  int64_t c_row, int64_t depth, int add)\n{\n",
              real, real, real);
    declare_sums(&t);
    add_word(&t, "    for (int64_t k = 0; k < depth; k++, a += a_col, b += b_row) {\n");
    add_terms(&t, "        ", "const $v a$a = @all(a[$a * a_row]);\n");
    add_word(&t, "    }\n");
    add_word(&t, rows == 1 ? "    (void)a_row;\n" : "");
    add_stores(&t);
    return finish(&t, flxi_sa_print(w, "tile_%dx%d%s", rows, vectors, dtype == FLX_F64 ? "_f64" : ""),
                  flxi_sa_print(w, "A tile of %d rows and %d vectors: c = a b, or c + a b.", rows, vectors));
}

/* ---- Convolutions ---- */

static const char *kind_of(int32_t dtype)
{
    return dtype == FLX_F64 ? "_f64" : "";
}

const char *flxi_sa_tap_tile(flxi_sa_writer *w, int32_t dtype, int rows, int vectors)
{
    tile t = begin(w, dtype, rows, vectors);
    const char *real = real_of(&t);
    flxi_addf(&t.text,
              "static void NAME_(const %s *a, const %s *x, const int64_t *taps, int64_t num_taps, int64_t channels,\n"
              "                  int64_t plane, %s *c, int64_t c_row, int add)\n{\n",
              real, real, real);
    declare_sums(&t);
    add_word(&t, "    for (int64_t t = 0; t < num_taps; t++) {\n");
    flxi_addf(&t.text, "        const %s *b = x + taps[t];\n", real);
    flxi_addf(&t.text, "        for (int64_t k = 0; k < channels; k++, a += %d, b += plane) {\n", rows);
    add_terms(&t, "            ", "const $v a$a = @all(a[$a]);\n");
    add_word(&t, "        }\n    }\n");
    add_stores(&t);
    return finish(
        &t, flxi_sa_print(w, "taps_%dx%d%s", rows, vectors, kind_of(dtype)),
        flxi_sa_print(w, "%d features at %d vectors of positions: c = a x, or c + a x, for all taps.", rows, vectors));
}

const char *flxi_sa_walk_type(flxi_sa_writer *w)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, w->f->mem);
    flxi_add_text(&text, "typedef struct {\n    int64_t images, lines, depth;\n    int64_t x_image, x_line, x_step;\n"
                         "    int64_t z_image, z_line, z_step;\n} NAME_;\n");
    const char *name = flxi_sa_static_of(
        w->f, &text, &text, "walk", "Positions that are summed: lines of images, and the steps from one to the next.");
    flxi_strbuf_free(&text);
    return name;
}

const char *flxi_sa_line_tile(flxi_sa_writer *w, int32_t dtype, int rows, int vectors)
{
    const char *walk = flxi_sa_walk_type(w);
    tile t = begin(w, dtype, rows, vectors);
    const char *real = real_of(&t);
    flxi_addf(&t.text,
              "static void NAME_(const %s *x, const int64_t *x_row, const %s *z, const %s *s, %s *c, int64_t c_row,\n"
              "                  int add)\n{\n",
              real, real, walk, real);
    declare_sums(&t);
    add_word(&t, "    for (int64_t i = 0; i < s->images; i++)\n        for (int64_t l = 0; l < s->lines; l++) {\n");
    flxi_addf(&t.text, "            const %s *a = x + i * s->x_image + l * s->x_line;\n", real);
    flxi_addf(&t.text, "            const %s *b = z + i * s->z_image + l * s->z_line;\n", real);
    add_word(&t, "            for (int64_t k = 0; k < s->depth; k++, a += s->x_step, b += s->z_step) {\n");
    add_terms(&t, "                ", "const $v a$a = @all(a[x_row[$a]]);\n");
    add_word(&t, "            }\n        }\n");
    add_stores(&t);
    return finish(
        &t, flxi_sa_print(w, "lines_%dx%d%s", rows, vectors, kind_of(dtype)),
        flxi_sa_print(w, "%d rows of x and %d vectors of z: c = x z, or c + x z, over positions.", rows, vectors));
}

const char *flxi_sa_finite(flxi_sa_writer *w, int32_t dtype)
{
    tile t = begin(w, dtype, 1, 1);
    const char *real = real_of(&t);
    flxi_addf(&t.text, "static int NAME_(const %s *x, int64_t count)\n{\n", real);
    flxi_addf(&t.text, "    %s rest = 0, part[%u];\n    int64_t i = 0;\n", real, t.subject.lanes);
    add(&t, "    $v sum = {0};\n", 0, 0, 0);
    flxi_addf(&t.text, "    for (; i + %u <= count; i += %u)\n", t.subject.lanes, t.subject.lanes);
    add(&t, "        sum += @get(x + i) - @get(x + i);\n    @put(part, sum);\n", 0, 0, 0);
    flxi_addf(&t.text, "    x += i;\n    for (i = 0; i < count %% %u; i++)\n        rest += x[i] - x[i];\n",
              t.subject.lanes);
    flxi_addf(&t.text, "    for (i = 0; i < %u; i++)\n        rest += part[i];\n    return rest == 0;\n}\n",
              t.subject.lanes);
    return finish(&t, flxi_sa_print(w, "is_finite%s", kind_of(dtype)),
                  "Whether all are finite: the difference of an infinity or NaN and itself is NaN.");
}

/* ---- Turning ---- */

/* The lanes of two rows that exchange blocks of `apart` lanes; is_low: of the row that comes first. */
static void add_lanes(tile *t, int apart, bool is_low)
{
    int lanes = (int)t->subject.lanes;
    for (int j = 0; j < lanes; j++) {
        int own = is_low ? j : j + lanes, other = is_low ? j - apart + lanes : j + apart;
        bool keeps = is_low == !(j & apart);
        flxi_addf(&t->text, "%s%d", j ? ", " : "", keeps ? own : other);
    }
}

/* Rows that are `apart` rows apart exchange blocks of as many lanes. */
static void add_exchange(tile *t, int apart)
{
    static const char *const rows[] = {"high", "low"};
    int lanes = (int)t->subject.lanes;
    flxi_addf(&t->text, "    for (int i = 0; i < %d; i++) {\n", lanes);
    flxi_addf(&t->text, "        if (i & %d)\n            continue;\n", apart);
    add(t, "        const $v a = r[i], b = r[i + $a];\n", apart, 0, 0);
    for (int is_clang = 1; is_clang >= 0; is_clang--) {
        add_word(t, is_clang ? "#if defined(__clang__)\n" : "#else\n");
        for (int is_low = 1; is_low >= 0; is_low--) {
            add(t, "        const $v ", 0, 0, 0);
            flxi_addf(&t->text, "%s = ", rows[is_low]);
            add(t, is_clang ? "__builtin_shufflevector(a, b, " : "__builtin_shuffle(a, b, ($i){", 0, 0, 0);
            add_lanes(t, apart, is_low);
            add_word(t, is_clang ? ");\n" : "});\n");
        }
    }
    flxi_addf(&t->text, "#endif\n        r[i] = low;\n        r[i + %d] = high;\n    }\n", apart);
}

const char *flxi_sa_turn(flxi_sa_writer *w, int32_t dtype)
{
    tile t = begin(w, dtype, 1, 1);
    const char *real = real_of(&t);
    int lanes = (int)t.subject.lanes;
    flxi_addf(&t.text, "static void NAME_(const %s *x, int64_t step, %s *y, int64_t pitch)\n{\n", real, real);
    add(&t, "    $v r[$a];\n", lanes, 0, 0);
    add(&t, "    for (int i = 0; i < $a; i++)\n        r[i] = @get(x + i * step);\n", lanes, 0, 0);
    for (int apart = lanes / 2; apart > 0; apart /= 2)
        add_exchange(&t, apart);
    add(&t, "    for (int i = 0; i < $a; i++)\n        @put(y + i * pitch, r[i]);\n}\n", lanes, 0, 0);
    return finish(&t, flxi_sa_print(w, "turn_%d%s", lanes, kind_of(dtype)),
                  flxi_sa_print(w, "A square of %d x %d numbers turned: columns of x become rows of y.", lanes, lanes));
}

/* ---- Dot products ---- */

const char *flxi_sa_dot(flxi_sa_writer *w, int32_t dtype)
{
    int lanes = flxi_sa_shape_of(w->f, dtype).lanes, chains = dtype == FLX_F64 ? 32 : 64;
    tile t = begin(w, dtype, 1, chains / lanes);
    const char *real = real_of(&t);
    flxi_addf(&t.text, "static %s NAME_(const %s *a, const %s *b, int64_t depth)\n{\n    %s sum[%d];\n", real, real,
              real, real, chains);
    declare_sums(&t);
    flxi_addf(&t.text, "    int64_t k = 0;\n    for (; k + %d <= depth; k += %d) {\n", chains, chains);
    for (int v = 0; v < t.vectors; v++)
        add(&t,
            w->f->fuses ? "        c0_$b = @fma(@get(a + k + $c), @get(b + k + $c), c0_$b);\n"
                        : "        c0_$b += @get(a + k + $c) * @get(b + k + $c);\n",
            0, v, v * lanes);
    add_word(&t, "    }\n");
    for (int v = 0; v < t.vectors; v++)
        add(&t, "    @put(sum + $c, c0_$b);\n", 0, v, v * lanes);
    add_word(&t, "    for (int i = 0; k < depth; k++, i++)\n");
    if (w->f->fuses)
        flxi_addf(&t.text, "        sum[i] = fma%s(a[k], b[k], sum[i]);\n", *real == 'f' ? "f" : "");
    else
        add_word(&t, "        sum[i] += a[k] * b[k];\n");
    flxi_addf(&t.text, "    for (int half = %d; half > 0; half /= 2)\n", chains / 2);
    add_word(&t,
             "        for (int i = 0; i < half; i++)\n            sum[i] += sum[i + half];\n    return sum[0];\n}\n");
    return finish(&t, dtype == FLX_F64 ? "dot_f64" : "dot",
                  flxi_sa_print(w, "A dot product: %d sums that are folded in halves.", chains));
}
