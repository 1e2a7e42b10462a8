/* SPDX-License-Identifier: Apache-2.0 */
/* write_routine.c: the steps of a routine as statements: calls of static functions on addresses of the arena. */
#include "graph/op/origin.h"
#include "standalone/standalone.h"

/* ---- Slots ---- */

/* A value by its own name, or by the op that made it. */
static const char *slot_name(flxi_sa_routine *r, const flxi_slot *s)
{
    const flxi_value *v = flxi_value_at(r->l->g, s->value);
    if (v->name)
        return flxi_sa_local(r, v->name);
    const char *op = flxi_ops[flxi_node_at(r->l->g, v->node)->op].name;
    return flxi_sa_local(r, flxi_sa_text(r->w.f, "%s_%u", op, s->value));
}

static void declare(flxi_sa_routine *r, uint32_t slot)
{
    const flxi_slot *s = &r->l->slots[slot];
    const flx_type *t = flxi_type_at(r->l->g, s->value);
    flxi_type_text shown;
    const char *type = flxi_sa_type(t->dtype);
    r->is_declared[slot] = true;
    if (s->segment == SEGMENT_CONST) {
        const char *name = flxi_value_at(r->l->g, s->value)->name;
        r->slots[slot] = flxi_sa_constant_of(r->w.f, s->data, t, name ? name : "constant");
        return;
    }
    r->slots[slot] = slot_name(r, s);
    flxi_sa_line(&r->w, "%s *const %s = (%s *)(arena + %zu); /* %s */", type, r->slots[slot], type, s->offset,
                 flxi_type_str(r->l->g->ctx, t, &shown));
}

const char *flxi_sa_slot(flxi_sa_routine *r, const flxi_step *s, uint32_t k)
{
    uint32_t slot = s->slots[k];
    if (!r->is_declared[slot])
        declare(r, slot);
    return r->slots[slot] ? r->slots[slot] : "";
}

/* ---- Steps ---- */

void flxi_sa_begin_call(flxi_sa_routine *r, const char *name, bool can_fail)
{
    flxi_addf(r->w.out, "%*s%s%s(", 4 * r->w.depth, "", can_fail ? "if ((code = " : "", name);
    r->can_fail |= can_fail;
}

void flxi_sa_end_call(flxi_sa_routine *r, bool can_fail)
{
    flxi_add_text(r->w.out, can_fail ? ")) != 0)\n" : ");\n");
    if (can_fail)
        flxi_sa_line(&r->w, "    return code;");
}

/* `last`: the last arguments, or NULL. */
static void add_call(flxi_sa_routine *r, const flxi_step *s, const char *name, bool has_scratch, bool can_fail,
                     const char *last)
{
    flxi_sa_writer *w = &r->w;
    for (uint32_t k = 0; k < s->num_slots; k++)
        flxi_sa_slot(r, s, k); /* variables come first */
    flxi_sa_begin_call(r, name, can_fail);
    for (uint32_t k = 0; k < s->num_slots; k++) {
        flxi_add_text(w->out, k ? ", " : "");
        flxi_add_text(w->out, flxi_sa_slot(r, s, k));
    }
    if (has_scratch)
        flxi_addf(w->out, "%sarena + %zu", s->num_slots ? ", " : "", s->scratch_offset);
    if (last)
        flxi_addf(w->out, "%s%s", s->num_slots || has_scratch ? ", " : "", last);
    flxi_sa_end_call(r, can_fail);
}

/* Fewer elements are computed sooner than other threads have begun. */
enum { MIN_SHARED = 65536 };

static flx_code write_kernel(flxi_sa_routine *r, const flxi_step *s)
{
    flxi_sa_kernel_function k;
    if (!s->grid[0] || !s->grid[1] || !s->grid[2])
        return FLX_OK; /* there is nothing to compute */
    FLXI_TRY(flxi_sa_kernel(r->w.f, r->m, r->l, s, &k, r->err));
    const char *range = NULL;
    if (r->w.f->threads && k.can_be_shared && (s->work >= MIN_SHARED || r->w.f->num_symbols)) {
        flxi_sa_share_call(
            r, s, &(flxi_sa_cut){.function = k.name, .units = k.units, .work = s->work, .least_work = MIN_SHARED});
        return FLX_OK;
    }
    if (r->w.f->threads)
        range = flxi_sa_text(r->w.f, "0, %s", k.units);
    add_call(r, s, k.name, k.has_scratch, false, range);
    return FLX_OK;
}

/* Whether a part works in memory of its own, or of the graphs that it calls. */
static bool has_scratch(const flxi_step *s)
{
    return s->scratch || s->num_bodies;
}

/* static void NAME_(const float *x0, float *y0, unsigned char *scratch) { … } */
static void add_head(const flxi_step *s, bool can_fail, const flxi_sa_cuts *c, bool has_table, const flxi_strbuf *body,
                     flxi_strbuf *out)
{
    const flxi_device_node *n = s->described;
    flxi_addf(out, "static %s NAME_(", can_fail ? "int" : "void");
    for (uint32_t k = 0; k < n->nin; k++)
        flxi_addf(out, "%sconst %s *x%u", k ? ", " : "", flxi_sa_type(n->in_types[k]->dtype), k);
    for (uint32_t k = 0; k < n->nout; k++)
        flxi_addf(out, "%s%s *y%u", n->nin + k ? ", " : "", flxi_sa_type(n->out_types[k]->dtype), k);
    flxi_add_text(out, has_scratch(s) ? ", unsigned char *scratch" : "");
    flxi_add_text(out, has_table ? ", const unsigned char *prepared" : "");
    flxi_add_text(out, c->units > 1 ? ", int thread, int64_t from, int64_t to)\n{\n" : ")\n{\n");
    for (uint32_t k = 0; k < n->nin + n->nout; k++) {
        const char *form = k < n->nin ? "x" : "y";
        flxi_strbuf text;
        flxi_strbuf_init(&text, out->mem);
        flxi_addf(&text, "%s%u", form, k < n->nin ? k : k - n->nin);
        if (text.at && !flxi_sa_mentions(body, text.at))
            flxi_addf(out, "    (void)%s;\n", text.at);
        flxi_strbuf_free(&text);
    }
    if (has_scratch(s) && !flxi_sa_mentions(body, "scratch") && !flxi_sa_mentions(body, "own"))
        flxi_add_text(out, "    (void)scratch;\n");
    if (c->units > 1 && flxi_sa_mentions(body, "own"))
        flxi_addf(out, "    unsigned char *const own = scratch + (size_t)thread * %zu;\n", c->bytes - c->common);
    else if (c->units > 1)
        flxi_add_text(out, "    (void)thread;\n");
}

/* ---- Tables ---- */

static flxi_sa_table *find_table(const flxi_sa_file *f, const flxi_step *s, flxi_sa_table *own)
{
    const flxi_sa_part *part = s->kind == STEP_ROUTE ? s->way->code : NULL;
    *own = (flxi_sa_table){0};
    if (part && part->table)
        part->table(s->described, own);
    own->part = part;
    for (size_t i = 0; own->bytes && i < f->tables.n; i++) {
        flxi_sa_table *t = &f->tables.at[i];
        if (t->part->table == part->table && memcmp(t->key, own->key, sizeof t->key) == 0)
            return t;
    }
    return NULL;
}

void flxi_sa_find_tables(flxi_sa_file *f, const flxi_routine *l)
{
    for (uint32_t i = 0; i < l->num_steps; i++) {
        flxi_sa_table own;
        if (find_table(f, &l->steps[i], &own) || !own.bytes)
            continue;
        own.at = f->table_bytes;
        f->table_bytes += (own.bytes + 63) / 64 * 64;
        f->failed |= !flxi_push(f->mem, &f->tables, own);
    }
}

const char *flxi_sa_table_of(const flxi_sa_routine *r, const flxi_step *s)
{
    flxi_sa_table own;
    const flxi_sa_table *t = r->l == r->m->main ? find_table(r->w.f, s, &own) : NULL;
    return t ? flxi_sa_text(r->w.f, "arena - %zu", r->w.f->table_bytes - t->at) : NULL;
}

static flx_code write_part(flxi_sa_routine *r, const flxi_step *s)
{
    const flxi_sa_part *part = s->way->code;
    flxi_strbuf body, text;
    flxi_sa_writer w = {.f = r->w.f, .n = s->described, .out = &body, .depth = 1, .routine = r, .step = s};
    const flxi_sa_cuts cuts = flxi_sa_cuts_in(r->w.f, part, s->described);
    w.body_at = flxi_sa_padded(r->w.f, part->scratch ? part->scratch(s->described) : 0);
    w.units = cuts.units > 1 ? cuts.units : 0;
    w.table = flxi_sa_table_of(r, s);
    flxi_strbuf_init(&body, r->w.f->mem);
    flxi_strbuf_init(&text, r->w.f->mem);
    part->write(&w);
    add_head(s, part->can_fail, &cuts, w.table != NULL, &body, &text);
    if (body.at)
        flxi_add_bytes(&text, body.at, body.n);
    flxi_add_text(&text, part->can_fail ? "    return 0;\n}\n" : "}\n");
    r->w.f->failed |= body.failed;
    if (!r->w.f->vector_bytes)
        flxi_sa_tidy_part(r->w.f, &text);
    const char *name =
        flxi_sa_static_of(r->w.f, &text, &text, flxi_ops[s->described->op].name, flxi_sa_equations(r->w.f, r->l, s));
    if (w.units)
        flxi_sa_share_call(r, s,
                           &(flxi_sa_cut){.function = name,
                                          .has_scratch = has_scratch(s),
                                          .takes_thread = true,
                                          .has_end = cuts.has_end,
                                          .units = flxi_sa_text(r->w.f, "%lld", (long long)cuts.units),
                                          .work = cuts.terms,
                                          .least_work = FLXI_SA_MIN_TERMS});
    else
        add_call(r, s, name, has_scratch(s), part->can_fail, w.table);
    flxi_strbuf_free(&body);
    flxi_strbuf_free(&text);
    return w.code;
}

static void write_copy(flxi_sa_routine *r, const flxi_step *s)
{
    const flxi_slot *from = &r->l->slots[s->slots[0]];
    if (!from->nbytes)
        return;
    const char *source = flxi_sa_slot(r, s, 0), *target = flxi_sa_slot(r, s, 1);
    flxi_sa_line(&r->w, "memcpy(%s, %s, %zu);", target, source, from->nbytes);
}

/* What only the reference evaluator computes cannot be in the file. */
static flx_code refuse(flxi_sa_routine *r, const flxi_step *s)
{
    const flxi_node *n = flxi_node_at(r->l->g, s->node);
    const char *why = s->why ? s->why : "";
    flx_code code = flxi_fail_hint(r->err, FLX_E_UNSUPPORTED, "docs/standalone.md lists what a C file can have",
                                   "%.80s cannot be part of a C file%s%.130s",
                                   s->computes ? s->computes : flxi_ops[n->op].name, *why ? ": " : "", why);
    flxi_at_node(r->err, r->l->g, n);
    return code;
}

static flx_code write_step(flxi_sa_routine *r, const flxi_step *s)
{
    switch ((flxi_step_kind)s->kind) {
    case STEP_KERNEL: return write_kernel(r, s);
    case STEP_ROUTE: return write_part(r, s);
    case STEP_COPY: write_copy(r, s); return FLX_OK;
    case STEP_SCAN:
    case STEP_WHILE:
    case STEP_BRANCH:
    case STEP_CALL: return flxi_sa_control(r, s);
    case STEP_DISPATCH: return flxi_sa_dispatch(r, s);
    case STEP_EVALUATE: break;
    }
    return refuse(r, s);
}

flx_code flxi_sa_steps(flxi_sa_routine *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        FLXI_TRY(write_step(r, &r->l->steps[i]));
    return FLX_OK;
}

/* ---- Bodies ---- */

/* static void NAME_(unsigned char *arena, const float *x, float *y) */
static void add_body_head(const flxi_sa_routine *r, flxi_strbuf *out, const flxi_strbuf *body)
{
    const flx_graph *g = r->l->g;
    bool has_model = r->w.f->threads;
    flxi_addf(out, "static %s NAME_(", r->can_fail ? "int" : "void");
    if (has_model)
        flxi_addf(out, "const %s *m, ", r->w.f->prefix);
    flxi_add_text(out, "unsigned char *arena");
    for (size_t k = 0; k < g->leaves.n; k++)
        flxi_addf(out, ", const %s *in%zu", flxi_sa_type(flxi_type_at(g, g->leaves.at[k])->dtype), k);
    for (size_t k = 0; k < g->outputs.n; k++)
        flxi_addf(out, ", %s *out%zu", flxi_sa_type(flxi_type_at(g, g->outputs.at[k].val)->dtype), k);
    flxi_add_text(out, ")\n{\n");
    if (!flxi_sa_mentions(body, "arena"))
        flxi_add_text(out, "    (void)arena;\n");
    if (has_model && !flxi_sa_mentions(body, "m"))
        flxi_add_text(out, "    (void)m;\n");
    if (flxi_sa_mentions(body, "code"))
        flxi_add_text(out, "    int code;\n");
}

static void add_unused(const flxi_strbuf *body, flxi_strbuf *out, const char *form, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        flxi_strbuf text;
        flxi_strbuf_init(&text, out->mem);
        flxi_addf(&text, "%s%zu", form, k);
        if (text.at && !flxi_sa_mentions(body, text.at))
            flxi_addf(out, "    (void)%s;\n", text.at);
        flxi_strbuf_free(&text);
    }
}

static flx_code bind_body(flxi_sa_routine *r)
{
    flxi_sa_file *f = r->w.f;
    for (size_t k = 0; k < r->l->g->leaves.n; k++)
        flxi_sa_local(r, flxi_sa_text(f, "in%zu", k));
    for (size_t k = 0; k < r->l->g->outputs.n; k++)
        flxi_sa_local(r, flxi_sa_text(f, "out%zu", k));
    for (uint32_t i = 0; i < r->l->num_slots; i++) {
        const flxi_slot *s = &r->l->slots[i];
        if (s->segment != SEGMENT_INPUT && s->segment != SEGMENT_OUTPUT)
            continue;
        r->slots[i] = flxi_sa_text(f, s->segment == SEGMENT_INPUT ? "in%u" : "out%u", s->index);
        r->is_declared[i] = true;
    }
    return FLX_OK;
}

static flx_code write_body(flxi_sa_routine *r, const char **name)
{
    flxi_sa_file *f = r->w.f;
    flxi_strbuf body, text;
    flxi_strbuf_init(&body, f->mem);
    flxi_strbuf_init(&text, f->mem);
    r->w.out = &body;
    r->w.depth = 1;
    flx_code code = bind_body(r);
    if (code == FLX_OK)
        code = flxi_sa_steps(r, 0, r->l->num_steps);
    if (code == FLX_OK) {
        add_body_head(r, &text, &body);
        add_unused(&body, &text, "in", r->l->g->leaves.n);
        add_unused(&body, &text, "out", r->l->g->outputs.n);
        if (body.at)
            flxi_add_bytes(&text, body.at, body.n);
        flxi_add_text(&text, r->can_fail ? "    return 0;\n}\n" : "}\n");
        f->failed |= body.failed;
        const char *wanted = r->l->g->name && *r->l->g->name ? r->l->g->name : "body";
        *name = flxi_sa_static_of(f, &text, &text, wanted, flxi_sa_text(f, "graph %s", wanted));
    }
    flxi_strbuf_free(&body);
    flxi_strbuf_free(&text);
    return code;
}

flx_code flxi_sa_body(flxi_sa_routine *r, const flxi_routine *body, const char **name)
{
    flxi_sa_file *f = r->w.f;
    if (!r->bodies[body->number]) {
        flxi_sa_routine inner = {.w = {.f = f},
                                 .m = r->m,
                                 .l = body,
                                 .slots = flxi_new(&f->arena, const char *, body->num_slots),
                                 .is_declared = flxi_new(&f->arena, bool, body->num_slots),
                                 .names = {.arena = &f->arena},
                                 .bodies = r->bodies,
                                 .body_fails = r->body_fails,
                                 .err = r->err};
        if (!inner.slots || !inner.is_declared)
            return flxi_oom(r->err, "C text");
        flx_code code = write_body(&inner, &r->bodies[body->number]);
        flxi_strings_free(&inner.names);
        r->body_fails[body->number] = inner.can_fail;
        if (code != FLX_OK)
            return code;
    }
    *name = r->bodies[body->number];
    return FLX_OK;
}
