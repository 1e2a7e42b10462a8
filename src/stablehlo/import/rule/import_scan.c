/* SPDX-License-Identifier: Apache-2.0 */
/* import_scan.c: chlo.scan: its region takes a slice of each input and the carries and gives a slice of each output and
   the new carries. Ours has the carries first and runs along the first axis. */
#include "stablehlo/import/rule/import_region.h"

typedef struct {
    size_t inputs, carries, outputs;
    int64_t axis;
    hlo_captures captures;
} scanning;

/* Axis `from` moved to position `to`. */
static flx_val moved(hlo_site *s, flx_val x, int64_t from, int64_t to)
{
    int rank = flxi_hlo_typeof(s, x)->rank;
    int64_t perm[FLX_MAX_RANK];
    int64_t next = 0;
    for (int i = 0; i < rank; i++) {
        next += next == from;
        perm[i] = i == to ? from : next++;
    }
    return from == to ? x : flx_transpose(s->g, x, (flx_ints){perm, (size_t)rank});
}

static bool find_parts(hlo_site *s, scanning *c)
{
    flx_ints in = flxi_hlo_ints(s, "operandSegmentSizes");
    flx_ints out = flxi_hlo_ints(s, "resultSegmentSizes");
    c->axis = flxi_hlo_int(s, "dimension", -1);
    if (in.n != 2 || out.n != 2 || in.v[0] < 1 || in.v[1] < 0 || out.v[0] < 0 || in.v[1] != out.v[1] ||
        (uint64_t)(in.v[0] + in.v[1]) != s->nx || (uint64_t)(out.v[0] + out.v[1]) != s->ny) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "operands are inputs and carries, results outputs and as many carries");
        return false;
    }
    c->inputs = (size_t)in.v[0];
    c->carries = (size_t)in.v[1];
    c->outputs = (size_t)out.v[0];
    for (size_t i = 0; i < c->inputs; i++)
        if (c->axis < 0 || c->axis >= flxi_hlo_typeof(s, s->x[i])->rank) {
            flxi_hlo_fail(s, FLX_E_ATTRIBUTE, NULL, "dimension is %lld, which input %zu does not have",
                          (long long)c->axis, i);
            return false;
        }
    return flxi_hlo_captures(s, s->op->regions, 1, &c->captures);
}

/* A slice has the axes of its input but one. */
static const flx_type *slice_type(hlo_site *s, flx_val x, int64_t axis)
{
    flx_type *t = flxi_hlo_new(s, flx_type, 1);
    if (!t)
        return NULL;
    *t = *flxi_hlo_typeof(s, x);
    t->rank--;
    for (int64_t i = axis; i < t->rank; i++)
        t->dims[i] = t->dims[i + 1];
    return t;
}

/* The region with its arguments and results in our order. */
static const flx_graph *turned_body(hlo_site *s, const scanning *c, const flx_graph *body, const flx_type *const *types)
{
    flx_graph *g = flxi_hlo_new_body(s);
    size_t n = c->inputs + c->carries + c->captures.num_vals;
    flx_val *x = flxi_hlo_new(s, flx_val, n);
    flx_val *y = flxi_hlo_new(s, flx_val, c->outputs + c->carries);
    if (!g || !x || !y)
        return NULL;
    for (size_t i = 0; i < c->carries; i++)
        x[c->inputs + i] = flxi_hlo_body_input(g, c->inputs + i, types[c->inputs + i]);
    for (size_t i = c->inputs + c->carries; i < n; i++)
        x[i] = flxi_hlo_body_input(g, i, flxi_hlo_typeof(s, c->captures.vals[i - c->inputs - c->carries]));
    for (size_t i = 0; i < c->inputs; i++)
        x[i] = flxi_hlo_body_input(g, i, types[i]);
    flx_inline(g, body, x, n, y, c->outputs + c->carries);
    for (size_t i = 0; i < c->carries; i++)
        flx_output(g, y[c->outputs + i], NULL);
    for (size_t i = 0; i < c->outputs; i++)
        flx_output(g, y[i], NULL);
    return flxi_hlo_finished(s, g);
}

static const flx_graph *scan_body(hlo_site *s, const scanning *c)
{
    const flx_type **types = flxi_hlo_new(s, const flx_type *, c->inputs + c->carries);
    if (!types)
        return NULL;
    for (size_t i = 0; i < c->inputs + c->carries; i++)
        types[i] = i < c->inputs ? slice_type(s, s->x[i], c->axis) : flxi_hlo_typeof(s, s->x[i]);
    if (s->op->regions[0].num_args != c->inputs + c->carries) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region has %zu arguments, but needs %zu", s->op->regions[0].num_args,
                      c->inputs + c->carries);
        return NULL;
    }
    const flx_graph *body = flxi_hlo_failed(s) ? NULL : flxi_hlo_body(s, &s->op->regions[0], types, &c->captures);
    if (body && flx_graph_output_count(body) != c->outputs + c->carries) {
        flxi_hlo_fail(s, FLX_E_ARITY, NULL, "its region returns %zu values, but must return %zu",
                      flx_graph_output_count(body), c->outputs + c->carries);
        return NULL;
    }
    return body ? turned_body(s, c, body, types) : NULL;
}

void flxi_hlo_import_scan(hlo_site *s)
{
    scanning c = {0};
    if (!find_parts(s, &c))
        return;
    size_t n = s->nx + c.captures.num_vals;
    flx_val *x = flxi_hlo_new(s, flx_val, n);
    flx_val *y = flxi_hlo_new(s, flx_val, s->ny);
    flx_scan_attrs a = FLX_SCAN_ATTRS;
    a.body = scan_body(s, &c);
    a.num_carry = (int64_t)c.carries;
    a.num_bcast = (int64_t)c.captures.num_vals;
    a.reverse = flxi_hlo_flag(s, "is_reverse", false);
    if (!x || !y || !a.body || flxi_hlo_failed(s))
        return;
    for (size_t i = 0; i < c.carries; i++)
        x[i] = s->x[c.inputs + i];
    for (size_t i = 0; i < c.captures.num_vals; i++)
        x[c.carries + i] = c.captures.vals[i];
    for (size_t i = 0; i < c.inputs; i++)
        x[n - c.inputs + i] = moved(s, s->x[i], c.axis, 0);
    flx_scan_with(s->g, x, n, y, s->ny, &a);
    for (size_t i = 0; i < c.outputs; i++)
        s->y[i] = moved(s, y[c.carries + i], 0, c.axis);
    for (size_t i = 0; i < c.carries; i++)
        s->y[c.outputs + i] = y[i];
}
