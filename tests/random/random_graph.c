/* random_graph.c: see random_graph.h. Which statements there are is said in random_ops.c. */
#include "random_graph.h"

#include "../test.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-3
const double random_steps[RANDOM_POINTS] = {0.0, STEP, -STEP, STEP / 2, -STEP / 2};

/* What a result may be at most: its values, its first and its second derivative along t. The second is small enough that
   a jump of the slope inside the points shows: it appears as jump / STEP. */
static const double max_value = 200.0;
static const double max_slope = 200.0;
static const double max_curvature = 60.0;
static const int max_elements = 48;

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

/* Takes the results over into v, whether they are fit or not. */
static bool is_fit(random_value *v)
{
    double *y[RANDOM_POINTS];
    v->type = *flx_tensor_type(v->at[0]);
    v->lo = INFINITY;
    v->hi = -INFINITY;
    int64_t n = flx_tensor_count(v->at[0]);
    if (n < 1 || n > max_elements || v->type.rank > 5)
        return false;
    for (int k = 0; k < RANDOM_POINTS; k++)
        y[k] = flx_tensor_data(v->at[k]);
    for (int64_t i = 0; i < n; i++) {
        if (v->type.dtype == FLX_F64 && !is_smooth(y, i, v))
            return false;
        if (v->type.dtype != FLX_F64) {
            double z = flx_tensor_get(v->at[0], i);
            if (!(fabs(z) <= max_value))
                return false;
            v->lo = fmin(v->lo, z);
            v->hi = fmax(v->hi, z);
        }
    }
    for (int k = 1; k < RANDOM_POINTS && v->type.dtype != FLX_F64 && v->type.dtype != FLX_F32; k++)
        if (memcmp(y[0], y[k], flx_tensor_size(v->at[0])) != 0)
            return false;
    return true;
}

static void drop(random_value *v)
{
    for (int k = 0; k < RANDOM_POINTS; k++)
        flx_tensor_release(v->at[k]);
    *v = (random_value){0};
}

static flx_module *probe(random_maker *m, const char *expr, int results, const int *used, int n)
{
    random_line l = {0};
    flx_error err = {0};
    random_say(&l, "%sgraph probe(", m->draft.s);
    for (int i = 0; i < n; i++) {
        random_say(&l, "%sv%d: ", i ? ", " : "", used[i]);
        random_say_type(&l, m, &m->v[used[i]].type);
    }
    random_say(&l, ") {\n  ");
    for (int i = 0; i < results; i++)
        random_say(&l, "%sr%d", i ? ", " : "", i);
    random_say(&l, " = %s\n  return ", expr);
    for (int i = 0; i < results; i++)
        random_say(&l, "%sr%d", i ? ", " : "", i);
    random_say(&l, "\n}\n");
    flx_module *p = flx_parse(m->ctx, l.s, l.n, "probe", &err);
    if (!p && getenv("FLX_RANDOM_VERBOSE"))
        fprintf(stderr, "%s: %s\n%s", flx_code_name(err.code), err.message, l.s);
    return p;
}

static bool run_at_points(random_maker *m, const flx_graph *g, const int *used, int n, random_value *y)
{
    bool ok = true;
    for (int k = 0; ok && k < RANDOM_POINTS; k++) {
        flx_feed feeds[8];
        char names[8][16];
        flx_tensor *out[8] = {0};
        flx_error err = {0};
        for (int i = 0; i < n; i++) {
            snprintf(names[i], sizeof names[i], "v%d", used[i]);
            feeds[i] = (flx_feed){names[i], m->v[used[i]].at[k]};
        }
        ok = flx_run(g, NULL, feeds, (size_t)n, out, &err) == FLX_OK;
        for (size_t r = 0; r < flx_graph_output_count(g); r++)
            y[r].at[k] = out[r];
    }
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

static flx_tensor *uniform(random_maker *m, const flx_type *t, double lo, double hi)
{
    flx_type wide = *t;
    wide.dtype = FLX_F64;
    flx_tensor *w = flx_tensor_new(m->ctx, &wide, NULL, NULL);
    CHECK(w != NULL);
    double *p = flx_tensor_data(w);
    for (int64_t i = 0; i < flx_tensor_count(w); i++)
        p[i] = lo + (hi - lo) * test_uniform(&m->state);
    flx_tensor *y = flx_tensor_cast(w, (flx_dtype)t->dtype, NULL);
    flx_tensor_release(w);
    CHECK(y != NULL);
    return y;
}

static flx_tensor *moved(const flx_tensor *x, const flx_tensor *t, double h)
{
    flx_tensor *y = flx_tensor_cast(x, FLX_F64, NULL);
    CHECK(y != NULL);
    double *p = flx_tensor_data(y);
    const double *q = flx_tensor_bytes(t);
    for (int64_t i = 0; i < flx_tensor_count(x); i++)
        p[i] += h * q[i];
    return y;
}

static void add_input(random_maker *m, subject *s, flx_dtype dtype)
{
    subject_input *in = &s->in[s->n++];
    random_value *v = &m->v[m->count];
    flx_type t = {.dtype = dtype, .rank = random_below(m, 4)};
    int64_t left = max_elements;
    for (int i = 0; i < t.rank; i++) {
        t.dims[i] = m->extents[random_below(m, 3)];
        if (t.dims[i] > left)
            t.dims[i] = 1;
        left /= t.dims[i];
    }
    snprintf(in->name, sizeof in->name, "v%d", m->count);
    in->x = uniform(m, &t, dtype == FLX_F64 ? -1.5 : 0.0, dtype == FLX_F64 ? 1.5 : 1.99);
    in->other = uniform(m, &t, dtype == FLX_F64 ? -1.2 : 0.0, dtype == FLX_F64 ? 1.2 : 1.99);
    if (dtype == FLX_F64) {
        in->t = uniform(m, &t, -1.0, 1.0);
        in->u = uniform(m, &t, -1.0, 1.0);
    }
    for (int k = 0; k < RANDOM_POINTS; k++)
        v->at[k] = in->t ? moved(in->x, in->t, random_steps[k]) : flx_tensor_retain(in->x);
    CHECK(is_fit(v));
    m->count++;
    m->inputs++;
}

/* ---- The whole ---- */

/* The loss takes in the values that nothing else uses, the latest first. */
static bool add_loss(random_maker *m)
{
    static const char *const forms[][2] = {{"reduce_sum(", ")"}, {"reduce_mean(square(", "))"}, {"reduce_sum(sin(", "))"}};
    random_line l = {0};
    int terms = 0;
    random_say(&l, "add_n(");
    for (int i = m->count; i-- > 0 && terms < 6;) {
        const char *const *form = forms[random_below(m, 3)];
        if (m->v[i].type.dtype == FLX_F64 && m->v[i].uses == 0)
            random_say(&l, "%s%sv%d%s", terms++ ? ", " : "", form[0], i, form[1]);
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
        flx_type_print(m->ctx, &m->v[i].type, type, sizeof type);
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

bool random_subject(subject *s, uint64_t seed, flx_module **module)
{
    char *graphs = NULL;
    char *statements = NULL;
    size_t graphs_size = 0;
    size_t statements_size = 0;
    random_maker *m = calloc(1, sizeof *m);
    CHECK(m != NULL);
    m->state = seed;
    *s = (subject){.ctx = flx_context_new(NULL), .seed = seed};
    m->ctx = s->ctx;
    m->graphs = open_memstream(&graphs, &graphs_size);
    m->statements = open_memstream(&statements, &statements_size);
    m->extents[0] = 2 + random_below(m, 3);
    m->extents[1] = 1 + random_below(m, 3);
    m->extents[2] = 2 + random_below(m, 2);
    for (int i = 1 + random_below(m, 4); i > 0; i--)
        add_input(m, s, FLX_F64);
    if (random_below(m, 4) == 0)
        add_input(m, s, random_below(m, 2) ? FLX_I32 : FLX_BOOL);
    /* Most graphs are small, some have a hundred nodes: small ones are quick to run and to understand. */
    int statements_wanted = random_below(m, 12) ? 4 + random_below(m, 14) : 20 + random_below(m, 60);
    for (int tries = statements_wanted * 6; tries > 0 && statements_wanted > 0; tries--) {
        m->draft.n = 0;
        m->draft.s[0] = 0;
        statements_wanted -= random_statement(m);
    }
    m->draft.n = 0;
    m->draft.s[0] = 0;
    bool ok = add_loss(m);
    fclose(m->graphs);
    fclose(m->statements);
    *module = ok ? finish(m, s, graphs, statements) : NULL;
    free(graphs);
    free(statements);
    for (int i = 0; i < m->count; i++)
        drop(&m->v[i]);
    free(m);
    if (!ok)
        random_subject_free(s, NULL);
    return ok;
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
