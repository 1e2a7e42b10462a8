/* SPDX-License-Identifier: Apache-2.0 */
/* law_values.c: see law_values.h. */
#include "law_values.h"

#include "graph/type/type.h"
#include "plain_subject.h"
#include "test.h"

#include <fluxion/transform.h>
#include <math.h>
#include <string.h>

/* ---- Running ---- */

law_point law_here(const subject *s, bool along_u)
{
    law_point p = {0};
    for (size_t i = 0; i < s->n; i++) {
        p.x[i] = s->in[i].x;
        p.t[i] = along_u ? s->in[i].u : s->in[i].t;
    }
    return p;
}

bool law_broken(char *detail, const char *what, const flx_error *err)
{
    snprintf(detail, LAW_DETAIL, "%s: %s: %s (%s)", what, flx_code_name(err->code), err->message, err->where);
    return false;
}

void law_release(flx_tensor **out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        flx_tensor_release(out[i]);
        out[i] = NULL;
    }
}

/* How much of a tolerance for double a graph needs. */
double law_tolerance(const flx_graph *g, double in_double)
{
    return graph_is_single(g) ? 3e-3 : in_double;
}

/* The inputs of g are those of the subject and their tangents. */
bool law_run(const subject *s, const flx_graph *g, const law_point *p, flx_tensor **out, flx_error *err)
{
    flx_feed feeds[RANDOM_MAX_INPUTS * 2];
    flx_run_options o = {.device = "ref", .dims = s->dims, .num_dims = known_dims(g, s->dims, s->num_dims)};
    size_t n = flx_graph_input_count(g);
    for (size_t k = 0; k < n; k++) {
        const char *name = flx_val_name(g, flx_graph_input(g, k));
        bool tangent = strncmp(name, "tangent_", 8) == 0;
        feeds[k] = (flx_feed){name, NULL};
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->in[i].name, tangent ? name + 8 : name) == 0)
                feeds[k].value = tangent ? p->t[i] : p->x[i];
    }
    return flx_run(g, &o, feeds, n, out, err) == FLX_OK;
}

numbers law_numbers_of(const flx_tensor *t)
{
    int32_t dtype = flx_tensor_type(t)->dtype;
    bool is_complex = dtype == FLX_C64 || dtype == FLX_C128;
    numbers x = {flx_tensor_cast(t, is_complex ? FLX_C128 : FLX_F64, NULL), NULL,
                 flx_tensor_count(t) * (is_complex ? 2 : 1)};
    CHECK(x.held != NULL);
    x.p = flx_tensor_const_data(x.held);
    return x;
}

static bool is_finite(const flx_tensor *t)
{
    bool ok = true;
    numbers x = law_numbers_of(t);
    for (int64_t i = 0; ok && i < x.n; i++)
        ok = isfinite(x.p[i]);
    flx_tensor_release(x.held);
    return ok;
}

static bool all_finite(flx_tensor *const *v, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (!is_finite(v[k]))
            return false;
    return true;
}

/* The values at a point; false when they cannot be used. */
bool law_values(const subject *s, const flx_graph *g, const law_point *p, flx_tensor **out)
{
    flx_error err = {0};
    size_t n = flx_graph_output_count(g);
    if (n > MAX_OUT || !law_run(s, g, p, out, &err))
        return false;
    if (all_finite(out, n))
        return true;
    law_release(out, n);
    return false;
}

/* ---- Arithmetic on tensors ---- */

/* Re <a, b> */
double law_inner(const flx_tensor *a, const flx_tensor *b)
{
    double sum = 0.0;
    numbers p = law_numbers_of(a);
    numbers q = law_numbers_of(b);
    for (int64_t i = 0; i < p.n; i++)
        sum += p.p[i] * q.p[i];
    flx_tensor_release(p.held);
    flx_tensor_release(q.held);
    return sum;
}

bool law_near(double a, double b, double tolerance, double size)
{
    return fabs(a - b) <= tolerance * (1.0 + size + fabs(a) + fabs(b));
}

double law_largest(const flx_tensor *a)
{
    double most = 0.0;
    numbers x = law_numbers_of(a);
    for (int64_t i = 0; i < x.n; i++)
        most = fmax(most, fabs(x.p[i]));
    flx_tensor_release(x.held);
    return most;
}

/* Elementwise, relative to the largest element. */
bool law_near_tensors(const flx_tensor *a, const flx_tensor *b, double tolerance, char *detail, const char *what)
{
    double size = law_largest(b);
    numbers p = law_numbers_of(a);
    numbers q = law_numbers_of(b);
    bool ok = p.n == q.n;
    if (!ok)
        snprintf(detail, LAW_DETAIL, "%s: types differ", what);
    for (int64_t i = 0; ok && i < p.n; i++) {
        ok = law_near(p.p[i], q.p[i], tolerance, size);
        if (!ok)
            snprintf(detail, LAW_DETAIL, "%s: number %lld is %.17g and %.17g", what, (long long)i, p.p[i], q.p[i]);
    }
    flx_tensor_release(p.held);
    flx_tensor_release(q.held);
    return ok;
}

bool law_same_bits(flx_tensor *const *a, flx_tensor *const *b, size_t n, char *detail, const char *what)
{
    for (size_t k = 0; k < n; k++)
        if (!flxi_type_equal(flx_tensor_type(a[k]), flx_tensor_type(b[k])) ||
            memcmp(flx_tensor_const_data(a[k]), flx_tensor_const_data(b[k]), flx_tensor_nbytes(a[k])) != 0) {
            snprintf(detail, LAW_DETAIL, "%s: output %zu changes, from %.17g to %.17g", what, k,
                     flx_tensor_get(a[k], 0), flx_tensor_get(b[k], 0));
            return false;
        }
    return true;
}

/* Outputs at step k along t. */
bool law_values_at_step(const subject *s, const flx_graph *g, double h, flx_tensor **out)
{
    law_point p = law_here(s, false);
    flx_tensor *x[RANDOM_MAX_INPUTS] = {0};
    for (size_t i = 0; i < s->n; i++)
        if (s->in[i].t)
            p.x[i] = x[i] = random_moved(s->in[i].x, s->in[i].t, h);
    bool ok = law_values(s, g, &p, out);
    law_release(x, s->n);
    return ok;
}

/* ---- What is differentiated ---- */

wrt_list law_wrt(const subject *s)
{
    wrt_list w = {0};
    for (size_t i = 0; i < s->n; i++)
        if (s->in[i].t && flx_graph_find(s->g, s->in[i].name).id) {
            w.input[w.n] = i;
            w.names[w.n++] = s->in[i].name;
        }
    return w;
}

bool law_has_loss(const subject *s)
{
    const flx_type *t = flx_val_type(s->g, flx_graph_output(s->g, 0));
    return t && t->dtype == FLX_F64 && t->rank == 0;
}

/* Whether the laws of derivatives apply to the graph; its values in `out`. */
bool law_applies(const subject *s, const wrt_list *w, flx_tensor **out)
{
    law_point p = law_here(s, false);
    return law_has_loss(s) && w->n > 0 && law_values(s, s->g, &p, out);
}

flx_graph *law_gradient(const flx_graph *g, const wrt_list *w, char *detail)
{
    flx_error err = {0};
    flx_grad_options o = {.flags = FLX_GRAD_MISSING_ZERO};
    flx_graph *d = flx_grad(g, w->names, w->n, &o, &err);
    if (d && flx_graph_verify(d, &err) == FLX_OK)
        return d;
    law_broken(detail, "grad", &err);
    flx_graph_release(d);
    return NULL;
}
