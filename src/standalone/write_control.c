/* SPDX-License-Identifier: Apache-2.0 */
/* write_control.c: steps that run bodies. A body is a function; its memory is a part of the outer arena, and it reads
   and writes the memory of the outer routine directly, as in a run of the library (runtime/run_steps.c). */
#include "ops/control/control.h"
#include "standalone/standalone.h"

#include <stdio.h>

static size_t slot_bytes(const flxi_sa_routine *r, const flxi_step *s, uint32_t k)
{
    return r->l->slots[s->slots[k]].nbytes;
}

static const flx_type *slot_type(const flxi_sa_routine *r, const flxi_step *s, uint32_t k)
{
    return flxi_type_at(r->l->g, r->l->slots[s->slots[k]].value);
}

/* In the arena: the first of the two buffers of carry k, after the memory of the bodies. */
static size_t carry_offset(const flxi_sa_routine *r, const flxi_step *s, uint32_t k)
{
    size_t most = 0;
    for (uint32_t j = 0; j < s->num_bodies; j++)
        most = s->bodies[j]->arena_bytes > most ? s->bodies[j]->arena_bytes : most;
    size_t at = s->scratch_offset + flxi_sa_body_room(r->w.f, most);
    for (uint32_t j = 0; j < k; j++)
        at += 2 * flxi_sa_padded(r->w.f, slot_bytes(r, s, j));
    return at;
}

/* All variables of the step exist before it. */
static void declare_slots(flxi_sa_routine *r, const flxi_step *s)
{
    for (uint32_t k = 0; k < s->num_slots; k++)
        flxi_sa_slot(r, s, k);
}

/* A call of body k of the step, and its first argument. */
static void begin_call(flxi_sa_routine *r, const flxi_step *s, uint32_t k, const char *name)
{
    flxi_sa_begin_call(r, name, r->body_fails[s->bodies[k]->number]);
    flxi_addf(r->w.out, "%sarena + %zu", r->w.f->threads ? "m, " : "", s->scratch_offset);
}

static void end_call(flxi_sa_routine *r, const flxi_step *s, uint32_t k)
{
    flxi_sa_end_call(r, r->body_fails[s->bodies[k]->number]);
}

/* ---- Calls and branches ---- */

static flx_code write_call_of(flxi_sa_routine *r, const flxi_step *s, uint32_t body, uint32_t first)
{
    const char *name;
    FLXI_TRY(flxi_sa_body(r, s->bodies[body], &name));
    begin_call(r, s, body, name);
    for (uint32_t k = first; k < s->num_slots; k++)
        flxi_addf(r->w.out, ", %s", flxi_sa_slot(r, s, k));
    end_call(r, s, body);
    return FLX_OK;
}

/* Whether a value is not zero; NaN is not true. */
static const char *truth(flxi_sa_routine *r, int32_t dtype, const char *at)
{
    flxi_sa_file *f = r->w.f;
    if (dtype == FLX_F16 || dtype == FLX_BF16)
        return flxi_sa_text(f, "((%s[0] & 0x7fffu) != 0 && (%s[0] & 0x7fffu) <= %s)", at, at,
                            dtype == FLX_F16 ? "0x7c00u" : "0x7f80u");
    if (flxi_is_complex(dtype))
        return flxi_sa_text(f, "((%s[0] != 0 || %s[1] != 0) && %s[0] == %s[0] && %s[1] == %s[1])", at, at, at, at, at,
                            at);
    if (flxi_is_float(dtype))
        return flxi_sa_text(f, "(%s[0] < 0 || %s[0] > 0)", at, at);
    return flxi_sa_text(f, "%s[0] != 0", at);
}

static flx_code write_if(flxi_sa_routine *r, const flxi_step *s)
{
    flxi_sa_open(&r->w, "if (%s)", truth(r, slot_type(r, s, 0)->dtype, flxi_sa_slot(r, s, 0)));
    FLXI_TRY(write_call_of(r, s, 0, 1));
    r->w.depth--;
    flxi_sa_open(&r->w, "} else");
    FLXI_TRY(write_call_of(r, s, 1, 1));
    flxi_sa_close(&r->w);
    return FLX_OK;
}

/* The last branch for an index out of range. */
static flx_code write_case(flxi_sa_routine *r, const flxi_step *s)
{
    const char *index = flxi_sa_slot(r, s, 0);
    bool is_float = !flxi_is_int(slot_type(r, s, 0)->dtype) && slot_type(r, s, 0)->dtype != FLX_BOOL;
    if (is_float)
        return flxi_fail(r->err, FLX_E_UNSUPPORTED, "a case whose index is not an integer cannot be part of a C file");
    flxi_sa_open(&r->w, "switch (%s[0])", index);
    for (uint32_t k = 0; k < s->num_bodies; k++) {
        if (k + 1 < s->num_bodies)
            flxi_sa_line(&r->w, "case %u:", k);
        else
            flxi_sa_line(&r->w, "default:");
        r->w.depth++;
        FLXI_TRY(write_call_of(r, s, k, 1));
        flxi_sa_line(&r->w, "break;");
        r->w.depth--;
    }
    flxi_sa_close(&r->w);
    return FLX_OK;
}

/* ---- While ---- */

/* The values of the next step, at two offsets in turn. */
static void write_while_carries(flxi_sa_routine *r, const flxi_step *s)
{
    for (uint32_t k = 0; k < s->num_reads; k++) {
        const char *type = flxi_sa_type(slot_type(r, s, k)->dtype);
        flxi_sa_line(&r->w, "%s *const next%u = (%s *)(arena + %zu + (size_t)(step & 1) * %zu);", type, k, type,
                     carry_offset(r, s, k), flxi_sa_padded(r->w.f, slot_bytes(r, s, k)));
    }
}

static flx_code write_while(flxi_sa_routine *r, const flxi_step *s)
{
    const while_attrs *a = flxi_while_attrs(flxi_node_at(r->l->g, s->node));
    const flx_graph *cond = s->bodies[0]->g;
    int32_t dtype = flxi_type_at(cond, cond->outputs.at[0].val)->dtype;
    flxi_sa_writer *w = &r->w;
    const char *test, *body;
    FLXI_TRY(flxi_sa_body(r, s->bodies[0], &test));
    FLXI_TRY(flxi_sa_body(r, s->bodies[1], &body));
    flxi_sa_open(w, "/* while */");
    for (uint32_t k = 0; k < s->num_reads; k++)
        flxi_sa_line(w, "const %s *now%u = %s;", flxi_sa_type(slot_type(r, s, k)->dtype), k, flxi_sa_slot(r, s, k));
    flxi_sa_line(w, "%s *const answer = (%s *)(arena + %zu);", flxi_sa_type(dtype), flxi_sa_type(dtype),
                 carry_offset(r, s, s->num_reads));
    if (a->max_iterations != FLXI_ABSENT)
        flxi_sa_open(w, "for (int64_t step = 0; step < INT64_C(%lld); step++)", (long long)a->max_iterations);
    else
        flxi_sa_open(w, "for (uint32_t step = 0;; step++)");
    begin_call(r, s, 0, test);
    for (uint32_t k = 0; k < s->num_reads; k++)
        flxi_addf(w->out, ", now%u", k);
    flxi_add_text(w->out, ", answer");
    end_call(r, s, 0);
    flxi_sa_line(w, "if (!(%s))", truth(r, dtype, "answer"));
    flxi_sa_line(w, "    break;");
    write_while_carries(r, s);
    begin_call(r, s, 1, body);
    for (uint32_t k = 0; k < s->num_reads; k++)
        flxi_addf(w->out, ", now%u", k);
    for (uint32_t k = 0; k < s->num_reads; k++)
        flxi_addf(w->out, ", next%u", k);
    end_call(r, s, 1);
    for (uint32_t k = 0; k < s->num_reads; k++)
        flxi_sa_line(w, "now%u = next%u;", k, k);
    flxi_sa_close(w);
    for (uint32_t k = 0; k < s->num_reads; k++)
        if (slot_bytes(r, s, k))
            flxi_sa_line(w, "memcpy(%s, now%u, %zu);", flxi_sa_slot(r, s, s->num_reads + k), k, slot_bytes(r, s, k));
    flxi_sa_close(w);
    return FLX_OK;
}

/* ---- Scan ---- */

int64_t flxi_sa_scan_length(const flx_graph *g, const flxi_node *n)
{
    const scan_attrs *a = flxi_scan_attrs(n);
    return a->length != FLXI_ABSENT ? a->length : flxi_type_at(g, n->in[a->num_carry + a->num_bcast])->dims[0];
}

typedef struct {
    const scan_attrs *a;
    uint32_t carries, shared;
    int64_t length;
} scan;

/* Where the step writes a carry: the row of a trajectory, the result in the last step, or one of two buffers. */
static void write_next(flxi_sa_routine *r, const flxi_step *s, const scan *c, uint32_t k)
{
    const char *type = flxi_sa_type(slot_type(r, s, k)->dtype), *result = flxi_sa_slot(r, s, s->num_reads + k);
    size_t bytes = slot_bytes(r, s, k), count = bytes / flx_dtype_size(slot_type(r, s, k)->dtype);
    count *= flxi_is_complex(slot_type(r, s, k)->dtype) ? 2 : 1;
    const char *buffer = flxi_sa_text(r->w.f, "(%s *)(arena + %zu + (size_t)(step & 1) * %zu)", type,
                                      carry_offset(r, s, k), flxi_sa_padded(r->w.f, bytes));
    int64_t rows = c->a->num_checkpoints;
    if (!c->a->save_trajectory)
        flxi_sa_line(&r->w, "%s *const next%u = step == %lld ? %s : %s;", type, k, (long long)(c->length - 1), result,
                     buffer);
    else if (rows == 0 || rows == c->length)
        flxi_sa_line(&r->w, "%s *const next%u = %s + at * %zu;", type, k, result, count);
    else
        flxi_sa_line(&r->w, "%s *const next%u = row >= 0 ? %s + row * %zu : %s;", type, k, result, count, buffer);
}

/* The row of a thinned trajectory that has the state after this step; -1: none does. */
static void write_row(flxi_sa_routine *r, const scan *c)
{
    long long k = (long long)c->a->num_checkpoints, n = (long long)c->length;
    flxi_sa_line(&r->w, "const int64_t nearest = (step + 1) * %lld / %lld - 1;", k, n);
    flxi_sa_line(&r->w,
                 "const int64_t row = nearest >= 0 && ((nearest + 1) * %lld + %lld) / %lld - 1 == step ? %s : -1;", n,
                 k - 1, k, c->a->reverse ? flxi_sa_text(r->w.f, "%lld - nearest", k - 1) : "nearest");
}

static size_t row_count(const flx_type *t)
{
    size_t bytes = 0;
    flxi_static_bytes(t, &bytes);
    return bytes / flx_dtype_size((flx_dtype)t->dtype) * (flxi_is_complex(t->dtype) ? 2 : 1);
}

static void write_scan_call(flxi_sa_routine *r, const flxi_step *s, const scan *c, const char *body)
{
    const flx_graph *g = s->bodies[0]->g;
    flxi_strbuf *out = r->w.out;
    begin_call(r, s, 0, body);
    for (uint32_t k = 0; k < s->num_reads; k++) {
        if (k < c->carries)
            flxi_addf(out, ", now%u", k);
        else if (k < c->shared)
            flxi_addf(out, ", %s", flxi_sa_slot(r, s, k));
        else
            flxi_addf(out, ", %s + at * %zu", flxi_sa_slot(r, s, k), row_count(flxi_type_at(g, g->leaves.at[k])));
    }
    for (uint32_t k = 0; k < g->outputs.n; k++) {
        if (k < c->carries)
            flxi_addf(out, ", next%u", k);
        else
            flxi_addf(out, ", %s + at * %zu", flxi_sa_slot(r, s, s->num_reads + k),
                      row_count(flxi_type_at(g, g->outputs.at[k].val)));
    }
    end_call(r, s, 0);
}

static void copy_carries(flxi_sa_routine *r, const flxi_step *s, const scan *c)
{
    for (uint32_t k = 0; !c->a->save_trajectory && k < c->carries; k++)
        if (slot_bytes(r, s, k))
            flxi_sa_line(&r->w, "memcpy(%s, %s, %zu);", flxi_sa_slot(r, s, s->num_reads + k), flxi_sa_slot(r, s, k),
                         slot_bytes(r, s, k));
}

static flx_code write_scan(flxi_sa_routine *r, const flxi_step *s)
{
    const flxi_node *n = flxi_node_at(r->l->g, s->node);
    flxi_sa_writer *w = &r->w;
    scan c = {.a = flxi_scan_attrs(n)};
    const char *body;
    c.carries = (uint32_t)c.a->num_carry;
    c.shared = c.carries + (uint32_t)c.a->num_bcast;
    c.length = flxi_sa_scan_length(r->l->g, n);
    if (c.length == 0) {
        copy_carries(r, s, &c);
        return FLX_OK;
    }
    declare_slots(r, s);
    bool is_thinned = c.a->save_trajectory && c.a->num_checkpoints && c.a->num_checkpoints != c.length;
    FLXI_TRY(flxi_sa_body(r, s->bodies[0], &body));
    flxi_sa_open(w, "/* scan */");
    for (uint32_t k = 0; k < c.carries; k++)
        flxi_sa_line(w, "const %s *now%u = %s;", flxi_sa_type(slot_type(r, s, k)->dtype), k, flxi_sa_slot(r, s, k));
    flxi_sa_open(w, "for (int64_t step = 0; step < %lld; step++)", (long long)c.length);
    if (c.a->reverse)
        flxi_sa_line(w, "const int64_t at = %lld - step;", (long long)(c.length - 1));
    else
        flxi_sa_line(w, "const int64_t at = step;");
    if (is_thinned)
        write_row(r, &c);
    for (uint32_t k = 0; k < c.carries; k++)
        write_next(r, s, &c, k);
    write_scan_call(r, s, &c, body);
    for (uint32_t k = 0; k < c.carries; k++)
        flxi_sa_line(w, "now%u = next%u;", k, k);
    flxi_sa_line(w, "(void)at;");
    flxi_sa_close(w);
    flxi_sa_close(w);
    return FLX_OK;
}

flx_code flxi_sa_control(flxi_sa_routine *r, const flxi_step *s)
{
    if (s->kind != STEP_SCAN)
        declare_slots(r, s);
    switch (s->kind) {
    case STEP_CALL: return write_call_of(r, s, 0, 0);
    case STEP_WHILE: return write_while(r, s);
    case STEP_SCAN: return write_scan(r, s);
    default: return flxi_if_attrs(flxi_node_at(r->l->g, s->node)) ? write_if(r, s) : write_case(r, s);
    }
}
