/* SPDX-License-Identifier: Apache-2.0 */
/* plain_subject.c: see plain_subject.h. */
#include "plain_subject.h"
#include "ops/opcode.h"

#include "passes/pass.h"
#include "test.h"

#include <fluxion/transform.h>
#include <stdio.h>
#include <string.h>

bool graph_is_single(const flx_graph *g)
{
    for (uint32_t id = 1; id <= g->value_count; id++) {
        int32_t dtype = flxi_type_at(g, id)->dtype;
        if (dtype == FLX_F32 || dtype == FLX_C64)
            return true;
    }
    for (size_t i = 0; i < g->bodies.n; i++)
        if (graph_is_single(g->bodies.at[i]))
            return true;
    return false;
}

static bool is_stop(const flx_graph *g, uint32_t node)
{
    const flxi_node *n = flxi_node_at(g, node);
    return n->op == OP_stop_gradient && flx_val_type(g, (flx_val){n->first, g->serial})->dtype < FLX_I64;
}

bool graph_has_stops(const flx_graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++)
        if (is_stop(g, i))
            return true;
    return false;
}

size_t known_dims(const flx_graph *g, const flx_dim_binding *dims, size_t n)
{
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < g->symbols.n; k++)
            known += strcmp(g->symbols.at[k], dims[i].name) == 0;
    return known;
}

bool subject_run(const subject *s, const flx_graph *g, flx_tensor **out, flx_error *err)
{
    flx_feed feeds[RANDOM_MAX_INPUTS];
    flx_run_options o = {.device = "ref", .dims = s->dims, .num_dims = known_dims(g, s->dims, s->num_dims)};
    size_t n = flx_graph_input_count(g);
    for (size_t k = 0; k < n; k++) {
        const char *name = flx_val_name(g, flx_graph_input(g, k));
        feeds[k] = (flx_feed){name, NULL};
        for (size_t i = 0; i < s->n; i++)
            if (strcmp(s->in[i].name, name) == 0)
                feeds[k].value = s->in[i].x;
    }
    return flx_run(g, &o, feeds, n, out, err) == FLX_OK;
}

/* ---- Double precision ---- */

static flx_tensor *widened(flx_tensor *t)
{
    int32_t dtype = t ? flx_tensor_type(t)->dtype : FLX_F64;
    if (dtype != FLX_F32 && dtype != FLX_C64)
        return flx_tensor_retain(t);
    flx_tensor *y = flx_tensor_cast(t, dtype == FLX_F32 ? FLX_F64 : FLX_C128, NULL);
    CHECK(y != NULL);
    return y;
}

/* ---- Constants ---- */

/* A copy of g in which the k-th stop_gradient is an input stop_<k>. */
static flx_graph *with_stops_as_inputs(const flx_graph *g, flx_error *err)
{
    flxi_copy c;
    flx_graph *out = NULL;
    int k = 0;
    flx_code code = flxi_copy_begin(&c, g, err);
    for (uint32_t i = 0; code == FLX_OK && i < g->node_count; i++) {
        char name[32];
        uint32_t first = flxi_node_at(g, i)->first;
        if (!is_stop(g, i)) {
            code = flxi_copy_node(&c, i);
            continue;
        }
        snprintf(name, sizeof name, "stop_%d", k++);
        uint32_t id = flxi_add_leaf(c.to, OP_input, name, flxi_type_at(g, first));
        if (id)
            c.remap.id[first] = id;
        else
            code = flx_graph_error(c.to, err);
    }
    return flxi_copy_end(&c, code, &out, NULL) == FLX_OK ? out : NULL;
}

/* Adds to the subject of graph g the values of its stop_gradients at the point. */
static bool add_stops(subject *s, const flx_graph *g, flx_error *err)
{
    flx_val stops[RANDOM_MAX_INPUTS];
    flx_tensor *values[RANDOM_MAX_INPUTS] = {0};
    size_t n = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (is_stop(g, i) && s->n + n < RANDOM_MAX_INPUTS)
            stops[n++] = (flx_val){flxi_node_at(g, i)->first, g->serial};
    flx_graph *part = flx_extract(g, stops, n, err);
    bool ok = part && subject_run(s, part, values, err);
    for (size_t k = 0; ok && k < n; k++) {
        subject_input *in = &s->in[s->n++];
        *in = (subject_input){.x = values[k], .other = flx_tensor_retain(values[k])};
        snprintf(in->name, sizeof in->name, "stop_%d", (int)(k % RANDOM_MAX_INPUTS));
    }
    flx_graph_release(part);
    return ok;
}

bool plain_subject_begin(plain_subject *p, const subject *s, flx_error *err)
{
    *p = (plain_subject){.s = *s};
    bool single = graph_is_single(s->g);
    bool stops = graph_has_stops(s->g);
    if (!single && !stops)
        return true;
    for (size_t i = 0; i < s->n; i++) {
        subject_input *in = &p->s.in[i];
        in->x = widened(in->x);
        in->t = widened(in->t);
        in->u = widened(in->u);
        in->other = widened(in->other);
    }
    flx_graph *wide = single ? flx_widen(s->g, err) : flx_graph_retain((flx_graph *)(uintptr_t)s->g);
    bool ok = wide && (!stops || add_stops(&p->s, wide, err));
    p->g = !ok ? NULL : stops ? with_stops_as_inputs(wide, err) : flx_graph_retain(wide);
    p->s.g = p->g;
    flx_graph_release(wide);
    if (p->g)
        return true;
    p->g = flx_graph_retain((flx_graph *)(uintptr_t)s->g); /* so that the inputs are released */
    plain_subject_end(p);
    return false;
}

void plain_subject_end(plain_subject *p)
{
    for (size_t i = 0; p->g && i < p->s.n; i++) {
        flx_tensor_release(p->s.in[i].x);
        flx_tensor_release(p->s.in[i].t);
        flx_tensor_release(p->s.in[i].u);
        flx_tensor_release(p->s.in[i].other);
    }
    flx_graph_release(p->g);
    p->g = NULL;
}

const flx_tensor *subject_value(const void *user, const char *name)
{
    const subject *s = user;
    for (size_t k = 0; k < s->n; k++)
        if (strcmp(s->in[k].name, name) == 0)
            return s->in[k].x;
    return NULL;
}

flx_graph *subject_gradient(const flx_graph *g, const subject *s)
{
    flx_error err = {0};
    const char *wrt[RANDOM_MAX_INPUTS];
    size_t n = 0;
    for (size_t k = 0; k < s->n; k++)
        if (s->in[k].t)
            wrt[n++] = s->in[k].name;
    flx_grad_options o = {.flags = FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO};
    return flx_grad(g, wrt, n, &o, &err);
}

void subject_with_gradient(uint64_t seed, subject_take *take, void *user)
{
    subject s;
    flx_module *module;
    flx_error err = {0};
    char about[80];
    if (!(seed % 3 ? random_subject : random_control_subject)(&s, seed, &module))
        return;
    flx_graph *bound = flx_specialise(s.g, s.dims, known_dims(s.g, s.dims, s.num_dims), &err);
    CHECK_MADE(bound, &err);
    snprintf(about, sizeof about, "random graph %llu", (unsigned long long)seed);
    take(user, bound, &s, about);
    flx_graph *grad = subject_gradient(bound, &s);
    snprintf(about, sizeof about, "random graph %llu, gradient", (unsigned long long)seed);
    if (grad)
        take(user, grad, &s, about);
    flx_graph_release(grad);
    flx_graph_release(bound);
    random_subject_free(&s, module);
}
