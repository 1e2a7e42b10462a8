/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c: see sample.h. */
#include "sample.h"
#include "ops/opcode.h"

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9');
}

static bool is_t(const char *text, const char *at)
{
    return *at == 'T' && !(at > text && is_letter(at[-1])) && !is_letter(at[1]);
}

static bool mentions_t(const char *s)
{
    for (const char *p = s; p && *p; p++)
        if (is_t(s, p))
            return true;
    return false;
}

bool sample_uses_t(const flxi_sample *s)
{
    return mentions_t(s->operands) || mentions_t(s->attrs) || mentions_t(s->graphs);
}

static bool names(const char *p, const char *end, const char *dtype)
{
    return end - p >= 3 && memcmp(p, dtype, 3) == 0 && !is_letter(p[3]);
}

static bool says(const char *text, const char *dtype)
{
    for (const char *p = text ? strstr(text, dtype) : NULL; p; p = strstr(p + 1, dtype))
        if ((p == text || !is_letter(p[-1])) && !is_letter(p[strlen(dtype)]))
            return true;
    return false;
}

bool sample_says(const flxi_sample *s, const char *dtype)
{
    return says(s->operands, dtype) || says(s->attrs, dtype) || says(s->graphs, dtype);
}

static void add_text(FILE *f, const char *text, const char *end, const sample_case *c)
{
    for (const char *p = text; p < end; p++) {
        bool start = p == text || !is_letter(p[-1]);
        if (is_t(text, p)) {
            fputs(flx_dtype_name(c->dtype), f);
        } else if (c->real && start && names(p, end, "f32")) {
            fputs(flx_dtype_name(c->real), f);
            p += 2;
        } else if (c->real == FLX_F64 && start && names(p, end, "c64")) {
            fputs("c128", f);
            p += 2;
        } else {
            fputc(*p, f);
        }
    }
}

/* The next operand of a sample: its type text [*from, *to) and the range in braces after it, if any. */
typedef struct {
    const char *type, *type_end;
    bool has_range;
    double low, high;
    double diagonal; /* added on the diagonals of matrices */
} sample_operand;

static bool next_operand(const char **at, sample_operand *o)
{
    const char *s = *at;
    while (*s == ' ' || *s == ',')
        s++;
    if (!*s)
        return false;
    *o = (sample_operand){.type = s};
    while (*s && *s != ']')
        s++;
    o->type_end = *s ? ++s : s;
    if (*s == '{') {
        char *rest;
        o->has_range = true;
        const char *dots = strstr(s, "..");
        char low[32] = "";
        snprintf(low, sizeof low, "%.*s", (int)(dots - s - 1), s + 1); /* "1..3": strtod alone would read "1." */
        o->low = strtod(low, NULL);
        o->high = strtod(dots + 2, &rest);
        o->diagonal = *rest == '+' ? strtod(rest + 1, &rest) : 0.0;
        s = strchr(s, '}');
        s = s ? s + 1 : rest;
    }
    *at = s;
    return true;
}

static bool is_leaf(const sample_case *c)
{
    return flxi_ops[c->op].operands[0] == 0;
}

char *sample_text(const sample_case *c, int operands, const char *extra)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    const char *at = c->sample->operands ? c->sample->operands : "";
    const char *graphs = c->sample->graphs ? c->sample->graphs : "";
    sample_operand o;
    int n = 0;
    add_text(f, graphs, graphs + strlen(graphs), c);
    fputs("\ngraph sample(", f);
    for (; next_operand(&at, &o) && (operands < 0 || n < operands) && !is_leaf(c); n++) {
        fprintf(f, "%sa%d: ", n ? ", " : "", n);
        add_text(f, o.type, o.type_end, c);
    }
    fputs(") {\n", f);
    /* The number of results is only known to inference: parse with one name and correct it from the message. */
    fprintf(f, "  y = %s(", flxi_ops[c->op].name);
    for (int i = 0; i < n; i++)
        fprintf(f, "%sa%d", i ? ", " : "", i);
    const char *attrs = c->sample->attrs ? c->sample->attrs : "";
    if (*attrs) {
        fputs(n ? ", " : "", f);
        add_text(f, attrs, attrs + strlen(attrs), c);
    }
    if (extra)
        fprintf(f, "%s%s", n || *attrs ? ", " : "", extra);
    fputs(")\n  return y\n}\n", f);
    fclose(f);
    return text;
}

/* "y = op(" becomes "y0, y1 = op(" and "return y" likewise. */
static char *with_results(char *text, int count)
{
    char *out = NULL;
    size_t size = 0;
    char names[4096] = "";
    size_t at = 0;
    for (int i = 0; i < count && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%sy%d", i ? ", " : "", i);
    char *statement = strstr(text, "  y = ");
    char *result = strstr(statement, "  return y");
    FILE *f = open_memstream(&out, &size);
    fprintf(f, "%.*s  %s = %.*s  return %s\n}\n", (int)(statement - text), text, names, (int)(result - statement - 6),
            statement + 6, names);
    fclose(f);
    free(text);
    return out;
}

flx_module *sample_parse(flx_context *ctx, const sample_case *c, flx_error *err)
{
    char *text = sample_text(c, -1, NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "sample", err);
    int count;
    if (!m && err->code == FLX_E_ARITY && sscanf(err->message, "1 name for %d results", &count) == 1) {
        text = with_results(text, count);
        m = flx_parse(ctx, text, strlen(text), "sample", err);
    }
    free(text);
    return m;
}

const char *sample_describe(const sample_case *c)
{
    static char text[400];
    snprintf(text, sizeof text, "%s %s (%s; %s)", flxi_ops[c->op].name, flx_dtype_name(c->dtype),
             c->sample->operands ? c->sample->operands : "", c->sample->attrs ? c->sample->attrs : "");
    return text;
}

void sample_each(void (*fn)(const sample_case *c))
{
    const char *filter = test_case_wanted();
    for (int op = 1; op < OP_COUNT; op++) {
        if ((filter && !strstr(flxi_ops[op].name, filter)) || !flxi_ops[op].rules->samples)
            continue;
        for (const flxi_sample *s = flxi_ops[op].rules->samples; s->operands || s->attrs; s++) {
            bool matrix = sample_uses_t(s);
            for (int32_t d = matrix ? 1 : 0; d < (matrix ? FLX_DTYPE_COUNT : 1); d++) {
                sample_case c = {.op = (flxi_opcode)op, .sample = s, .dtype = d};
                if (matrix && !(flxi_ops[op].dtypes >> d & 1))
                    continue;
                test_fail_context("%s; rerun with FLX_TEST_CASE=%s", sample_describe(&c), flxi_ops[op].name);
                fn(&c);
            }
        }
    }
}

/* ---- Values ---- */

static double random_value(const flx_type *t, const sample_operand *o, uint64_t *state)
{
    bool integral = t->dtype >= FLX_I64;
    bool is_unsigned = t->dtype >= FLX_U64;
    double low = o->has_range ? o->low : integral ? (is_unsigned ? 0.0 : -3.0) : -2.0;
    double high = o->has_range ? o->high : integral ? 3.0 : 2.0;
    if (t->dtype == FLX_BOOL && !o->has_range) {
        low = 0.0;
        high = 1.0;
    }
    double u = test_uniform(state);
    return integral ? floor(low + u * (high - low + 1.0)) : low + u * (high - low);
}

static double special_value(const flx_type *t, bool is_tame, uint64_t *state)
{
    static const double tame[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 2.0, -3.0, 0.25, 1.0, -1.5};
    static const double floats[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e300, -1e300, 5e-324, 1.0, -1.5};
    static const double ints[] = {0.0, -1.0, 1.0, 9.3e18, -9.3e18, 2147483647.0, -2147483648.0, 127.0, 255.0, 2.0};
    size_t k = (size_t)(test_random(state) % 10);
    return t->dtype >= FLX_I64 ? ints[k] : is_tame ? tame[k] : floats[k];
}

/* Only of floats: indices and counts are what the sample asks for. */
static double zero_value(const flx_type *t, const sample_operand *o, bool is_negative, uint64_t *state)
{
    static const double few[] = {0.0, -0.0, -0.0, -0.0, 1.0, -1.0, 2.0, -0.5};
    if (t->dtype >= FLX_I64)
        return random_value(t, o, state);
    return is_negative ? -0.0 : few[test_random(state) % 8];
}

static double filled_value(const flx_type *t, const sample_operand *o, sample_fill fill, uint64_t *state)
{
    switch (fill) {
    case FILL_ONES: return 1.0;
    case FILL_RANDOM: return random_value(t, o, state);
    case FILL_ZEROS: return zero_value(t, o, false, state);
    case FILL_NEGATIVE: return zero_value(t, o, true, state);
    default: return special_value(t, fill == FILL_TAME, state);
    }
}

static bool is_diagonal(const flx_type *t, int64_t i)
{
    int64_t cols = t->dims[t->rank - 1];
    return i / cols % t->dims[t->rank - 2] == i % cols;
}

static flx_tensor *make_value(flx_context *ctx, const flx_type *t, const sample_operand *o, sample_fill fill,
                              uint64_t *state, flx_error *err)
{
    flx_type wide = *t;
    bool complex_type = t->dtype == FLX_C64 || t->dtype == FLX_C128;
    wide.dtype = complex_type ? FLX_C128 : FLX_F64;
    flx_tensor *w = flx_tensor_new(ctx, &wide, NULL, err);
    if (!w)
        return NULL;
    double *x = flx_tensor_data(w);
    int parts = complex_type ? 2 : 1;
    for (int64_t i = 0; i < flx_tensor_count(w) * parts; i++)
        x[i] = filled_value(t, o, fill, state);
    for (int64_t i = 0; fill == FILL_RANDOM && o->diagonal != 0.0 && i < flx_tensor_count(w); i++)
        x[i * parts] += is_diagonal(t, i) ? o->diagonal : 0.0;
    flx_tensor *y = flx_tensor_cast(w, (flx_dtype)t->dtype, err);
    flx_tensor_release(w);
    return y;
}

flx_tensor *sample_value(flx_context *ctx, const sample_case *c, size_t i, const flx_type *type, sample_fill fill,
                         uint64_t *state, flx_error *err)
{
    const char *at = c->sample->operands ? c->sample->operands : "";
    sample_operand o = {0};
    for (size_t k = 0; k <= i; k++) {
        o = (sample_operand){0};
        next_operand(&at, &o);
    }
    return make_value(ctx, type, &o, fill, state, err);
}

uint64_t sample_seed(const sample_case *c)
{
    return test_seed() + flxi_hash_text(FLXI_HASH_SEED, flxi_ops[c->op].name);
}

flx_code sample_run(const flx_graph *g, const sample_case *c, sample_fill fill, flx_tensor **out, flx_error *err)
{
    flx_feed feeds[SAMPLE_MAX_OPERANDS];
    flx_dim_binding dims[8];
    size_t num_dims = 0;
    size_t n = 0;
    uint64_t state = sample_seed(c);
    flx_code code = FLX_OK;
    for (const char *s; num_dims < 8 && (s = flx_graph_symbol(g, num_dims)) != NULL; num_dims++)
        dims[num_dims] = (flx_dim_binding){s, SAMPLE_EXTENT};
    flx_graph *bound = flx_specialise(g, dims, num_dims, err);
    if (!bound)
        return (flx_code)err->code;
    for (size_t i = 0; code == FLX_OK && i < flx_graph_input_count(bound) && i < SAMPLE_MAX_OPERANDS; i++) {
        flx_val v = flx_graph_input(bound, i);
        flx_tensor *t = sample_value(flx_graph_context(g), c, i, flx_val_type(bound, v), fill, &state, err);
        if (!t)
            code = (flx_code)err->code;
        else
            feeds[n++] = (flx_feed){flx_val_name(bound, v), t};
    }
    flx_run_options options = {.device = "ref", .dims = dims, .num_dims = num_dims};
    if (code == FLX_OK)
        code = flx_run(g, &options, feeds, n, out, err);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    flx_graph_release(bound);
    return code;
}
