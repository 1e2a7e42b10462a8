/* SPDX-License-Identifier: Apache-2.0 */
/* random_graph.c: see random_graph.h. random_ops.c defines the statements. */
#include "random_graph.h"

#include "graph/graph.h"
#include "test.h"

#include <fluxion/transform.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

flx_context_options random_context_options;

#define STEP 1e-3
const double random_steps[RANDOM_POINTS] = {0.0, STEP, -STEP, STEP / 2, -STEP / 2};

/* Bounds of a result: its values, its first and its second derivative along t. The last is small enough that a jump of
   the slope between the points is detected: it appears as jump / STEP. */
static const double max_value = 200.0;
static const double max_slope = 200.0;
static const double max_curvature = 60.0;
static const int max_elements = 48;
/* The error allowed in single precision: about fifty roundings. */
static const double max_rounding = 3e-6;

/* ---- Text ---- */

void random_say(random_line *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(l->s + l->n, sizeof l->s - l->n, fmt, args);
    va_end(args);
    CHECK(n >= 0 && l->n + (size_t)n < sizeof l->s);
    l->n += (size_t)n;
}

void random_say_ints(random_line *l, const int64_t *v, size_t n)
{
    random_say(l, "[");
    for (size_t i = 0; i < n; i++)
        random_say(l, "%s%lld", i ? ", " : "", (long long)v[i]);
    random_say(l, "]");
}

void random_say_dims(random_line *l, const random_maker *m, const flx_dim *v, int n)
{
    random_say(l, "[");
    for (int i = 0; i < n; i++) {
        char text[100];
        flx_dim_print(m->ctx, v[i], text, sizeof text);
        random_say(l, "%s%s", i ? ", " : "", text);
    }
    random_say(l, "]");
}

int64_t random_extent(const random_maker *m, flx_dim d)
{
    return flx_dim_is_static(d) ? d : m->symbol;
}

void random_say_type(random_line *l, const random_maker *m, const flx_type *t)
{
    char text[200];
    flx_type_print(m->ctx, t, text, sizeof text);
    random_say(l, "%s", text);
}

int random_below(random_maker *m, int n)
{
    return (int)(test_random(&m->state) % (uint64_t)(n > 0 ? n : 1));
}

/* ---- Trying a statement ---- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* The values that the text names, each once. */
static int operands_of(const char *expr, int *used)
{
    int n = 0;
    for (const char *p = expr; *p; p++) {
        if (*p != 'v' || p[1] < '0' || p[1] > '9' || (p > expr && is_name_char(p[-1])))
            continue;
        int id = (int)strtol(p + 1, NULL, 10);
        bool known = false;
        for (int i = 0; i < n; i++)
            known |= used[i] == id;
        if (!known && n < 8)
            used[n++] = id;
    }
    return n;
}

static bool is_float(int32_t dtype)
{
    return dtype == FLX_F64 || dtype == FLX_F32 || dtype == FLX_C128 || dtype == FLX_C64;
}

static bool is_complex(int32_t dtype)
{
    return dtype == FLX_C128 || dtype == FLX_C64;
}

static bool is_smooth(double *const y[RANDOM_POINTS], int64_t i, random_value *v)
{
    for (int k = 0; k < RANDOM_POINTS; k++) {
        if (!(fabs(y[k][i]) <= max_value))
            return false;
        v->lo = fmin(v->lo, y[k][i]);
        v->hi = fmax(v->hi, y[k][i]);
    }
    double wide = (y[1][i] - y[2][i]) / (2 * STEP);
    double narrow = (y[3][i] - y[4][i]) / STEP;
    double bend = (y[1][i] - 2 * y[0][i] + y[2][i]) / (STEP * STEP);
    return fabs(narrow) <= max_slope && fabs(bend) <= max_curvature && fabs(wide - narrow) <= 1e-4 * (1 + fabs(narrow));
}

/* An integer or a bool is moderate, and the same at all points. */
static bool is_constant(double *const y[RANDOM_POINTS], random_value *v)
{
    for (int64_t i = 0; i < flx_tensor_count(v->at[0]); i++) {
        double z = flx_tensor_get(v->at[0], i);
        if (!(fabs(z) <= max_value))
            return false;
        v->lo = fmin(v->lo, z);
        v->hi = fmax(v->hi, z);
    }
    for (int k = 1; k < RANDOM_POINTS; k++)
        if (memcmp(y[0], y[k], flx_tensor_nbytes(v->at[0])) != 0)
            return false;
    return true;
}

/* Single precision gives nearly the same, integers exactly. */
static bool is_precise(const random_value *v)
{
    if (!v->narrow)
        return true;
    flx_tensor *n = flx_tensor_cast(v->narrow, (flx_dtype)flx_tensor_type(v->at[0])->dtype, NULL);
    CHECK(n != NULL);
    bool ok = flx_tensor_nbytes(n) == flx_tensor_nbytes(v->at[0]);
    if (!is_float(v->type.dtype))
        ok = ok && memcmp(flx_tensor_const_data(n), flx_tensor_const_data(v->at[0]), flx_tensor_nbytes(n)) == 0;
    const double *p = flx_tensor_const_data(n);
    const double *q = flx_tensor_const_data(v->at[0]);
    int64_t numbers = is_float(v->type.dtype) ? flx_tensor_count(n) * (is_complex(v->type.dtype) ? 2 : 1) : 0;
    for (int64_t i = 0; ok && i < numbers; i++)
        ok = fabs(p[i] - q[i]) <= max_rounding * (1 + fabs(q[i]));
    flx_tensor_release(n);
    return ok;
}

/* Whether the values in v, of the type it is written with, may be those of a statement; records what is known about
   them. */
static bool is_fit(random_value *v)
{
    double *y[RANDOM_POINTS];
    v->type = *flx_tensor_type(v->at[0]);
    v->type.dtype = v->text.dtype;
    v->lo = INFINITY;
    v->hi = -INFINITY;
    int64_t n = flx_tensor_count(v->at[0]);
    if (n < 1 || n > max_elements || v->type.rank > 5)
        return false;
    for (int k = 0; k < RANDOM_POINTS; k++)
        y[k] = flx_tensor_data(v->at[k]);
    if (!is_float(v->type.dtype))
        return is_constant(y, v) && is_precise(v);
    for (int64_t i = 0; i < n * (is_complex(v->type.dtype) ? 2 : 1); i++)
        if (!is_smooth(y, i, v))
            return false;
    return is_precise(v);
}

static void drop(random_value *v)
{
    for (int k = 0; k < RANDOM_POINTS; k++)
        flx_tensor_release(v->at[k]);
    flx_tensor_release(v->narrow);
    *v = (random_value){0};
}

static flx_module *probe(random_maker *m, const char *expr, int results, const int *used, int n)
{
    random_line l = {0};
    flx_error err = {0};
    random_say(&l, "%sgraph probe(", m->draft.s);
    for (int i = 0; i < n; i++) {
        random_say(&l, "%sv%d: ", i ? ", " : "", used[i]);
        random_say_type(&l, m, &m->v[used[i]].text);
    }
    random_say(&l, ") {\n  ");
    for (int i = 0; i < results; i++)
        random_say(&l, "%sr%d", i ? ", " : "", i);
    random_say(&l, " = %s\n  return ", expr);
    for (int i = 0; i < results; i++)
        random_say(&l, "%sr%d", i ? ", " : "", i);
    random_say(&l, "\n}\n");
    flx_module *p = flx_parse(m->ctx, l.s, l.n, "probe", &err);
    if (!p && effort(EFFORT_report))
        fprintf(stderr, "%s: %s\n%s", flx_code_name(err.code), err.message, l.s);
    return p;
}

/* On the values at point k; on those of single precision where k is -1. */
static bool run_at_point(random_maker *m, const flx_graph *g, const int *used, int n, int k, flx_tensor **out)
{
    flx_feed feeds[8];
    char names[8][16];
    flx_error err = {0};
    flx_dim_binding bound = {"N", m->symbol};
    flx_run_options o = {.device = "ref", .dims = &bound, .num_dims = m->symbol > 0 && g->symbols.n > 0};
    for (int i = 0; i < n; i++) {
        const random_value *v = &m->v[used[i]];
        snprintf(names[i], sizeof names[i], "v%d", used[i]);
        feeds[i] = (flx_feed){names[i], k >= 0 ? v->at[k] : v->narrow ? v->narrow : v->at[0]};
    }
    return flx_run(g, &o, feeds, (size_t)n, out, &err) == FLX_OK;
}

static bool is_narrow(const flx_graph *g)
{
    for (uint32_t id = 1; id <= g->value_count; id++) {
        int32_t dtype = flxi_type_at(g, id)->dtype;
        if (dtype == FLX_F32 || dtype == FLX_C64)
            return true;
    }
    for (size_t i = 0; i < g->bodies.n; i++)
        if (is_narrow(g->bodies.at[i]))
            return true;
    return false;
}

/* The results at all points, in double, and at the chosen one in their own precision where that differs. */
static bool run_at_points(random_maker *m, const flx_graph *g, const int *used, int n, random_value *y)
{
    flx_error err = {0};
    bool single = is_narrow(g);
    bool differs = single;
    for (int i = 0; i < n; i++)
        differs |= m->v[used[i]].narrow != NULL;
    flx_graph *wide = single ? flx_widen(g, &err) : NULL;
    bool ok = !single || wide;
    for (int k = differs ? -1 : 0; ok && k < RANDOM_POINTS; k++) {
        flx_tensor *out[8] = {0};
        ok = run_at_point(m, wide && k >= 0 ? wide : g, used, n, k, out);
        for (size_t r = 0; r < flx_graph_output_count(g); r++)
            *(k < 0 ? &y[r].narrow : &y[r].at[k]) = out[r];
    }
    for (size_t r = 0; r < flx_graph_output_count(g); r++)
        y[r].text = *flx_val_type(g, flx_graph_output(g, r));
    flx_graph_release(wide);
    return ok;
}

static void write_statement(random_maker *m, const char *expr, int results)
{
    fputs(m->draft.s, m->graphs);
    fputs("  ", m->statements);
    for (int i = 0; i < results; i++)
        fprintf(m->statements, "%sv%d", i ? ", " : "", m->count + i);
    fprintf(m->statements, " = %s\n", expr);
}

bool random_keep(random_maker *m, const char *expr, int results)
{
    int used[8];
    random_value y[8] = {0};
    int n = operands_of(expr, used);
    if (results > 8 || m->count + results > RANDOM_MAX_VALUES)
        return false;
    flx_module *p = probe(m, expr, results, used, n);
    bool ok = p && run_at_points(m, flx_module_main(p), used, n, y);
    for (int r = 0; ok && r < results; r++)
        ok = is_fit(&y[r]);
    flx_module_free(p);
    if (ok)
        write_statement(m, expr, results);
    for (int i = 0; ok && i < n; i++)
        m->v[used[i]].uses++;
    for (int r = 0; r < results; r++) {
        if (ok)
            m->v[m->count++] = y[r];
        else
            drop(&y[r]);
    }
    return ok;
}

/* ---- Inputs ---- */

static int32_t wide_dtype(int32_t dtype)
{
    return dtype == FLX_F32 ? FLX_F64 : dtype == FLX_C64 ? FLX_C128 : dtype;
}

static flx_tensor *uniform(random_maker *m, const flx_type *t, double lo, double hi)
{
    flx_type wide = *t;
    wide.dtype = is_complex(t->dtype) ? FLX_C128 : FLX_F64;
    flx_tensor *w = flx_tensor_new(m->ctx, &wide, NULL, NULL);
    CHECK(w != NULL);
    double *p = flx_tensor_data(w);
    for (int64_t i = 0; i < flx_tensor_count(w) * (is_complex(t->dtype) ? 2 : 1); i++)
        p[i] = lo + (hi - lo) * test_uniform(&m->state);
    flx_tensor *y = flx_tensor_cast(w, (flx_dtype)t->dtype, NULL);
    flx_tensor_release(w);
    CHECK(y != NULL);
    return y;
}

flx_tensor *random_moved(const flx_tensor *x, const flx_tensor *t, double h)
{
    int32_t dtype = wide_dtype(flx_tensor_type(x)->dtype);
    flx_tensor *y = flx_tensor_cast(x, (flx_dtype)dtype, NULL);
    flx_tensor *d = flx_tensor_cast(t, (flx_dtype)dtype, NULL);
    CHECK(y && d);
    double *p = flx_tensor_data(y);
    const double *q = flx_tensor_const_data(d);
    for (int64_t i = 0; i < flx_tensor_count(x) * (is_complex(dtype) ? 2 : 1); i++)
        p[i] += h * q[i];
    flx_tensor_release(d);
    return y;
}

static void add_input(random_maker *m, subject *s, flx_dtype dtype)
{
    subject_input *in = &s->in[s->n++];
    random_value *v = &m->v[m->count];
    flx_type t = {.dtype = dtype, .rank = random_below(m, 4)};
    v->text = t;
    int64_t left = max_elements;
    for (int i = 0; i < t.rank; i++) {
        flx_dim d = m->extents[random_below(m, 3)];
        v->text.dims[i] = random_extent(m, d) > left ? 1 : d;
        t.dims[i] = random_extent(m, v->text.dims[i]);
        left /= t.dims[i];
    }
    snprintf(in->name, sizeof in->name, "v%d", m->count);
    bool differentiable = is_float(dtype);
    in->x = uniform(m, &t, differentiable ? -1.5 : 0.0, differentiable ? 1.5 : 1.99);
    in->other = uniform(m, &t, differentiable ? -1.2 : 0.0, differentiable ? 1.2 : 1.99);
    if (differentiable) {
        in->t = uniform(m, &t, -1.0, 1.0);
        in->u = uniform(m, &t, -1.0, 1.0);
    }
    for (int k = 0; k < RANDOM_POINTS; k++)
        v->at[k] = in->t ? random_moved(in->x, in->t, random_steps[k]) : flx_tensor_retain(in->x);
    if (wide_dtype(dtype) != (int32_t)dtype)
        v->narrow = flx_tensor_retain(in->x);
    CHECK(is_fit(v));
    m->count++;
    m->inputs++;
}

/* ---- The whole ---- */

/* A value that the loss takes in, as a number of f64. */
static bool say_term(random_maker *m, random_line *l, int x)
{
    static const char *const forms[][2] = {
        {"reduce_sum(", ")"}, {"reduce_mean(square(", "))"}, {"reduce_sum(sin(", "))"}};
    static const char *const parts[][2] = {{"real(", ")"}, {"complex_norm_sq(", ")"}, {"add(real(v%d), imag(", "))"}};
    const char *const *form = forms[random_below(m, 3)];
    int32_t dtype = m->v[x].type.dtype;
    random_line value = {0};
    if (!is_float(dtype))
        return false;
    if (is_complex(dtype)) {
        const char *const *part = parts[random_below(m, 3)];
        random_say(&value, part[0], x);
        random_say(&value, "v%d%s", x, part[1]);
    } else {
        random_say(&value, "v%d", x);
    }
    bool single = dtype == FLX_F32 || dtype == FLX_C64;
    random_say(l, "%s%s%s%s%s", single ? "cast(" : "", form[0], value.s, form[1], single ? ", to=f64)" : "");
    return true;
}

/* The loss takes in the values that nothing else uses, the latest first. */
static bool add_loss(random_maker *m, int most)
{
    random_line l = {0};
    int terms = 0;
    random_say(&l, "add_n(");
    for (int i = m->count; i-- > 0 && terms < most;) {
        random_line term = {0};
        if (m->v[i].uses == 0 && say_term(m, &term, i))
            random_say(&l, "%s%s", terms++ ? ", " : "", term.s);
    }
    random_say(&l, ")");
    return terms > 0 && random_keep(m, l.s, 1);
}

static char *whole_text(random_maker *m, const subject *s, const char *graphs, const char *statements)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    CHECK(f != NULL);
    fprintf(f, "%sgraph main(", graphs);
    for (size_t i = 0; i < s->n; i++) {
        char type[100];
        flx_type_print(m->ctx, &m->v[i].text, type, sizeof type);
        fprintf(f, "%s%s: %s", i ? ", " : "", s->in[i].name, type);
    }
    fprintf(f, ") {\n%s  return v%d", statements, m->count - 1);
    for (int aux = random_below(m, 3); aux > 0 && m->count > m->inputs + 1; aux--)
        fprintf(f, ", v%d", m->inputs + random_below(m, m->count - 1 - m->inputs));
    fputs("\n}\n", f);
    fclose(f);
    return text;
}

static flx_module *finish(random_maker *m, subject *s, char *graphs, char *statements)
{
    flx_error err = {0};
    char *text = whole_text(m, s, graphs, statements);
    flx_module *module = flx_parse(m->ctx, text, strlen(text), "random", &err);
    if (!module)
        FAIL("a graph made of statements that were read does not read: %s: %s\n%s", err.where, err.message, text);
    s->g = flx_module_main(module);
    free(text);
    return module;
}

static void choose_extents(random_maker *m, subject *s)
{
    m->extents[0] = 2 + random_below(m, 3);
    m->extents[1] = 1 + random_below(m, 3);
    m->extents[2] = 2 + random_below(m, 2);
    if (random_below(m, 4))
        return;
    m->symbol = m->extents[0];
    m->extents[0] = flx_dim_symbol(m->ctx, "N");
    s->dims[0] = (flx_dim_binding){"N", m->symbol};
    s->num_dims = 1;
}

static void add_inputs(random_maker *m, subject *s)
{
    for (int i = 1 + random_below(m, 3); i > 0; i--)
        add_input(m, s, FLX_F64);
    if (random_below(m, 5) == 0)
        add_input(m, s, FLX_F32);
    if (random_below(m, 5) == 0)
        add_input(m, s, FLX_C128);
    if (random_below(m, 4) == 0)
        add_input(m, s, random_below(m, 2) ? FLX_I32 : FLX_BOOL);
}

static bool make_subject(subject *s, uint64_t seed, bool control, flx_module **module)
{
    char *graphs = NULL;
    char *statements = NULL;
    size_t graphs_size = 0;
    size_t statements_size = 0;
    random_maker *m = calloc(1, sizeof *m);
    CHECK(m != NULL);
    m->state = seed;
    m->prefers_control = control;
    *s = (subject){.ctx = flx_context_new(&random_context_options), .seed = seed};
    m->ctx = s->ctx;
    m->graphs = open_memstream(&graphs, &graphs_size);
    m->statements = open_memstream(&statements, &statements_size);
    choose_extents(m, s);
    add_inputs(m, s);
    /* Most graphs are small, some have a hundred nodes: small ones are quick to run and to understand. */
    int statements_wanted = random_below(m, 12) ? 4 + random_below(m, 14) : 20 + random_below(m, 60);
    if (control)
        statements_wanted = 1 + random_below(m, 5);
    for (int tries = statements_wanted * 6; tries > 0 && statements_wanted > 0; tries--) {
        m->draft.n = 0;
        m->draft.s[0] = 0;
        statements_wanted -= random_statement(m);
    }
    m->draft.n = 0;
    m->draft.s[0] = 0;
    bool ok = false;
    for (int most = 6; !ok && most > 0; most--) /* a sum of many is sometimes too steep */
        ok = add_loss(m, most);
    fclose(m->graphs);
    fclose(m->statements);
    *module = ok ? finish(m, s, graphs, statements) : NULL;
    if (ok && !s->g->symbols.n) /* no statement needed it */
        s->num_dims = 0;
    free(graphs);
    free(statements);
    for (int i = 0; i < m->count; i++)
        drop(&m->v[i]);
    free(m);
    if (!ok)
        random_subject_free(s, NULL);
    return ok;
}

bool random_subject(subject *s, uint64_t seed, flx_module **module)
{
    return make_subject(s, seed, false, module);
}

bool random_control_subject(subject *s, uint64_t seed, flx_module **module)
{
    return make_subject(s, seed, true, module);
}

void random_subject_free(subject *s, flx_module *module)
{
    for (size_t i = 0; i < s->n; i++) {
        flx_tensor_release(s->in[i].x);
        flx_tensor_release(s->in[i].t);
        flx_tensor_release(s->in[i].u);
        flx_tensor_release(s->in[i].other);
    }
    flx_module_free(module);
    flx_context_free(s->ctx);
    *s = (subject){0};
}
