/* SPDX-License-Identifier: Apache-2.0 */
/* card_fourier.c: fft on the card, in double and rounded once, as by definition. A transform of n numbers is one pass
   for each factor r of n, each of which turns s transforms of length r s apart into their order (Stockham): with s the
   product of the factors before, element (j, u) of a pass is

       sum over t < r of x[j + t n / r] w^(t (k + u s)),   w = exp(-2 pi i / (r s)),   k = j mod s

   at position (j / s) r s + k + u s. A thread has one element, so large prime factors take long. */
#include "backend/card/card_way.h"
#include "graph/op/attr_access.h"
#include "graph/op/eval.h"
#include "numeric/fourier.h"
#include "ops/opcode.h"

enum { MOST_PASSES = 48, LARGEST_FACTOR = 16, MOST_SUM = 20000 };

typedef struct {
    uint64_t n, rows;
    int32_t variant;
    uint32_t inverse, passes;
    double scale;
    uint32_t factor[MOST_PASSES];
} fourier_table;

/* ---- Text ---- */

/* Elements as complex numbers in double: x and y have rows of n; real ones are [re..., im...]. */
static const struct {
    int32_t dtype;
    const char *text;
} elements[] = {
#define SPLIT(real)                                                                             \
    "typedef " real " T;\n"                                                                     \
    "FUNCTION double2 load(GLOBAL const T *x, u64 row, u64 i, u64 n)\n"                         \
    "{ return VECTOR(double2, (double)x[2 * row * n + i], (double)x[2 * row * n + n + i]); }\n" \
    "FUNCTION void save(GLOBAL T *y, u64 row, u64 i, u64 n, double2 z)\n"                       \
    "{ y[2 * row * n + i] = (T)z.x, y[2 * row * n + n + i] = (T)z.y; }\n"
#define PAIRS(real, pair)                                                               \
    "typedef " pair " T;\n"                                                             \
    "FUNCTION double2 load(GLOBAL const T *x, u64 row, u64 i, u64 n)\n"                 \
    "{ return VECTOR(double2, (double)x[row * n + i].x, (double)x[row * n + i].y); }\n" \
    "FUNCTION void save(GLOBAL T *y, u64 row, u64 i, u64 n, double2 z)\n"               \
    "{ y[row * n + i] = VECTOR(T, (" real ")z.x, (" real ")z.y); }\n"
    {FLX_F32, SPLIT("float")},
    {FLX_F64, SPLIT("double")},
    {FLX_C64, PAIRS("float", "float2")},
    {FLX_C128, PAIRS("double", "double2")},
};

enum { NUM_ELEMENTS = sizeof elements / sizeof *elements };

static const char body[] =
    "FUNCTION void pass(bool is_first, bool is_last, GLOBAL const T *x, GLOBAL const double2 *from, GLOBAL double2 "
    "*to, "
    "GLOBAL T *y, u64 n, u64 all, u64 r, u64 s, u32 inverse, double scale)\n{\n"
    "    const u64 i = (u64)GROUP * 256u + OWN;\n    if (i >= all)\n        return;\n"
    "    const u64 row = i / n, place = i - row * n, apart = n / r;\n"
    "    const u64 span = place / (r * s), rest = place - span * r * s, u = rest / s, k = rest - u * s, j = span * s + "
    "k;\n"
    "    const u64 turn = r * s, step = (k + u * s) % turn;\n    double2 sum = VECTOR(double2, 0, 0);\n"
    "    u64 angle = 0;\n"
    "    for (u64 t = 0; t < r; t++) {\n"
    "        const double2 v = is_first ? load(x, row, j + t * apart, n) : from[row * n + j + t * apart];\n"
    "        double sine, cosine;\n        SINCOSPI(2.0 * (double)angle / (double)turn, &sine, &cosine);\n"
    "        sine = inverse ? sine : -sine;\n"
    "        if (cosine != 0) {\n            sum.x += v.x * cosine;\n            sum.y += v.y * cosine;\n        }\n"
    "        if (sine != 0) {\n            sum.x -= v.y * sine;\n            sum.y += v.x * sine;\n        }\n"
    "        angle += step;\n        if (angle >= turn)\n            angle -= turn;\n    }\n"
    "    if (is_last)\n        save(y, row, place, n, VECTOR(double2, sum.x * scale, sum.y * scale));\n"
    "    else\n        to[i] = sum;\n}\n"
    "#define PASS(name, first, last) KERNEL(256) name(GLOBAL const T *x, GLOBAL const double2 *from, "
    "GLOBAL double2 *to, GLOBAL T *y, u64 n, u64 all, u64 r, u64 s, u32 inverse, double scale) "
    "{ pass(first, last, x, from, to, y, n, all, r, s, inverse, scale); }\n"
    "PASS(fourier_first, true, false)\nPASS(fourier_middle, false, false)\nPASS(fourier_last, false, true)\n"
    "PASS(fourier_whole, true, true)\n";

static void write_fourier(flxi_card_language language, int32_t variant, flxi_strbuf *out)
{
    flxi_card_add_dialect(language, out);
    flxi_add_text(out, elements[variant].text);
    flxi_add_text(out, body);
}

const flxi_card_text flxi_card_fourier_text = {write_fourier, NUM_ELEMENTS};

/* ---- Nodes ---- */

static int32_t variant_of(int32_t dtype)
{
    for (int32_t i = 0; i < NUM_ELEMENTS; i++)
        if (elements[i].dtype == dtype)
            return i;
    return -1;
}

static uint64_t length_of(const flx_type *t)
{
    uint64_t last = (uint64_t)t->dims[t->rank - 1];
    return flxi_is_complex(t->dtype) ? last : last / 2;
}

/* Powers of two together, then the smallest prime. */
static uint64_t next_factor(uint64_t n)
{
    for (uint64_t r = LARGEST_FACTOR; r > 1; r /= 2)
        if (n % r == 0)
            return r;
    for (uint64_t r = 3; r * r <= n; r += 2)
        if (n % r == 0)
            return r;
    return n;
}

/* The factors of n; gives their sum. */
static uint64_t factorise(uint64_t n, fourier_table *t)
{
    uint64_t sum = 0;
    t->passes = 0;
    do {
        uint64_t r = next_factor(n);
        t->factor[t->passes++] = (uint32_t)r;
        sum += r;
        n /= r;
    } while (n > 1);
    return sum;
}

static const char *refuse(const flxi_device_node *n)
{
    int64_t count = 0;
    fourier_table t;
    if (variant_of(n->in_types[0]->dtype) < 0)
        return "for f32, f64 and complex numbers";
    if (!flxi_static_count(n->in_types[0], &count) || count > INT32_MAX)
        return "for fewer than 2^31 elements";
    return count && factorise(length_of(n->in_types[0]), &t) > MOST_SUM ? "for lengths without large prime factors"
                                                                        : NULL;
}

static size_t prepare(const flxi_device_node *n, void *table)
{
    const flxi_op *op = &flxi_ops[n->op];
    const flx_type *x = n->in_types[0];
    fourier_table t;
    int64_t count = 0;
    memset(&t, 0, sizeof t);
    flxi_static_count(x, &count);
    if (count) {
        t.n = length_of(x);
        t.rows = (uint64_t)count / (uint64_t)x->dims[x->rank - 1];
        t.variant = variant_of(x->dtype);
        t.inverse = flxi_attr_int(op, n->attrs, "inverse") != 0;
        t.scale = flxi_fourier_scale(flxi_attr_int(op, n->attrs, "norm"), t.inverse, (int64_t)t.n);
        factorise(t.n, &t);
    }
    memcpy(table, &t, sizeof t);
    return t.passes > 1 ? 2 * (size_t)(t.n * t.rows) * 2 * sizeof(double) : 0;
}

/* ---- Running ---- */

static flx_code run(const flxi_launcher *on, const flxi_node_step *s, flx_error *err)
{
    fourier_table t = *(const fourier_table *)s->way->table;
    uint64_t all = t.n * t.rows, done = 1;
    void *from = s->scratch, *to = (double *)s->scratch + 2 * all;
    for (uint32_t i = 0; i < t.passes; i++) {
        bool is_first = i == 0, is_last = i + 1 == t.passes;
        uint64_t factor = t.factor[i];
        const char *name = is_first && is_last ? "fourier_whole"
                           : is_first          ? "fourier_first"
                           : is_last           ? "fourier_last"
                                               : "fourier_middle";
        const flxi_card_argument arguments[] = {
            FLXI_ADDRESS(s->in[0]), FLXI_ADDRESS(from), FLXI_ADDRESS(to), FLXI_ADDRESS(s->out[0]), FLXI_VALUE(t.n),
            FLXI_VALUE(all),        FLXI_VALUE(factor), FLXI_VALUE(done), FLXI_VALUE(t.inverse),   FLXI_VALUE(t.scale)};
        FLXI_TRY(flxi_card_launch_line(on, &flxi_card_fourier_text, t.variant, name, all, arguments,
                                       FLXI_CARD_COUNT(arguments), err));
        void *last = from;
        from = to;
        to = last;
        done *= factor;
    }
    return FLX_OK;
}

const flxi_card_way flxi_card_fourier = {.name = "passes",
                                         .refuse = refuse,
                                         .table_bytes = sizeof(fourier_table),
                                         .prepare = prepare,
                                         .run = run,
                                         .needs_f64 = true};
