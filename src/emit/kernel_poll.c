/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_poll.c: loops of emitted C that can be ended early.

   A loop that may take more than a millisecond counts the work it does in the variable `ticks` of its function, and
   asks at each 2^18 of it whether to continue. A loop that is short by its literal bounds has no such text, and no
   innermost loop asks in each iteration: it runs in strips, so that the compiler can vectorise it as before.

   A loop that must end breaks, and bit 31 of `ticks` stays set, so that all other loops of the function do
   nothing. What follows computes garbage within the bounds that it always checks. */
#include "emit/kernel_writer.h"

enum { SLICE = 1 << 18, STATEMENT = 4, CALL = 1 << 10 };
static const uint64_t most_work = (uint64_t)1 << 40;

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool has_loops(flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].kind == KS_LOOP || has_loops(list.at[i].body) || has_loops(list.at[i].other))
            return true;
    return false;
}

/* What a statement counts as: more where it may call a function that has a loop. */
static uint64_t statement_work(const flxi_kwriter *w)
{
    for (uint32_t i = 1; i <= w->k->num_fns; i++)
        if (has_loops(w->k->fns[i].body))
            return CALL;
    return STATEMENT;
}

/* Iterations, if bounds are literals; otherwise as many as there can be. */
static uint64_t trips_of(const flxi_kwriter *w, const flxi_ks *s)
{
    const flxi_kx *from = flxi_kw_meaning(w, s->a), *to = flxi_kw_meaning(w, s->b);
    if (from->kind != KX_LITERAL || to->kind != KX_LITERAL)
        return UINT32_MAX;
    uint32_t begin = (uint32_t)from->bits, end = (uint32_t)to->bits;
    return end > begin ? end - begin : 0;
}

/* ---- Survey ---- */

typedef struct {
    uint64_t work; /* without that of loops that count their own */
    bool polls;    /* there are such loops */
} list_facts;

static list_facts survey(flxi_kwriter *w, flxi_klist list, uint64_t each);

static list_facts survey_loop(flxi_kwriter *w, const flxi_ks *s, uint64_t each)
{
    list_facts body = survey(w, s->body, each);
    uint64_t once = least(body.work + 1, SLICE), all = trips_of(w, s) * once;
    w->loop_work[s->var] = (uint32_t)once;
    w->loop_form[s->var] = body.polls ? KPOLL_EACH : all > SLICE ? KPOLL_STRIPS : KPOLL_NEVER;
    bool polls = w->loop_form[s->var] != KPOLL_NEVER;
    return (list_facts){polls ? 0 : all, polls};
}

static list_facts survey(flxi_kwriter *w, flxi_klist list, uint64_t each)
{
    list_facts sum = {0};
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        list_facts body = s->kind == KS_LOOP ? survey_loop(w, s, each) : survey(w, s->body, each);
        list_facts other = survey(w, s->other, each);
        sum.work = least(sum.work + each + body.work + other.work, most_work);
        sum.polls |= body.polls || other.polls;
    }
    return sum;
}

void flxi_kw_survey_polls(flxi_kwriter *w)
{
    if (!w->target->is_serial || w->file->plain)
        return;
    uint64_t each = statement_work(w);
    for (uint32_t i = 1; i <= w->k->num_fns; i++)
        survey(w, w->k->fns[i].body, each);
    survey(w, w->k->body, each);
}

static bool any_polls(const flxi_kwriter *w, flxi_klist list)
{
    for (size_t i = 0; i < list.n; i++) {
        const flxi_ks *s = &list.at[i];
        if ((s->kind == KS_LOOP && w->loop_form[s->var] != KPOLL_NEVER) || any_polls(w, s->body) ||
            any_polls(w, s->other))
            return true;
    }
    return false;
}

/* ---- Text ---- */

void flxi_kw_declare_ticks(flxi_kwriter *w, flxi_klist list)
{
    if (any_polls(w, list))
        flxi_kw_line(w, "k_u32 ticks = 0;");
}

/* Ends the loop around it. */
static void write_question(flxi_kwriter *w)
{
    flxi_kw_begin(w);
    flxi_kw_addf(w, "if (ticks >= %uu && ", (unsigned)SLICE);
    flxi_kfile_name(w->file, &w->out, "is_stopped", &(flxi_ksubject){0});
    flxi_kw_add(w, "(&ticks)) break;");
    flxi_kw_end(w);
}

void flxi_kw_poll(flxi_kwriter *w, const flxi_ks *s)
{
    if (w->loop_form[s->var] == KPOLL_NEVER)
        return;
    flxi_kw_line(w, "ticks += %uu;", w->loop_work[s->var]);
    write_question(w);
}

static void open_strip(flxi_kwriter *w, const flxi_ks *s)
{
    uint32_t v = s->var, each = w->loop_work[v], strip = SLICE / each;
    flxi_kw_line(w, "const k_u32 s%u = e%u - v%u > %uu ? v%u + %uu : e%u;", v, v, v, strip, v, strip, v);
    flxi_kw_line(w, "ticks += (s%u - v%u) * %uu;", v, v, each);
    flxi_kw_begin(w);
    flxi_kw_addf(w, "for (; v%u < s%u; v%u++)", v, v, v);
    flxi_kw_open(w);
}

void flxi_kw_open_loop(flxi_kwriter *w, const flxi_ks *s, const char *from, const char *to)
{
    uint32_t v = s->var;
    if (w->file->before_loop)
        flxi_kw_line(w, "%s", w->file->before_loop);
    flxi_kw_begin(w);
    flxi_kw_addf(w, "for (k_u32 v%u = ", v);
    flxi_kw_add(w, from);
    flxi_kw_addf(w, ", e%u = ", v);
    flxi_kw_add(w, to);
    flxi_kw_addf(w, "; v%u < e%u%s;", v, v, w->loop_form[v] == KPOLL_NEVER ? "" : " && !(ticks >> 31)");
    if (w->loop_form[v] != KPOLL_STRIPS)
        flxi_kw_addf(w, " v%u++", v);
    flxi_kw_add(w, ")");
    flxi_kw_open(w);
    if (w->loop_form[v] == KPOLL_STRIPS)
        open_strip(w, s);
}

void flxi_kw_close_loop(flxi_kwriter *w, const flxi_ks *s)
{
    if (w->loop_form[s->var] == KPOLL_STRIPS) {
        flxi_kw_close(w);
        write_question(w);
    } else {
        flxi_kw_poll(w, s);
    }
    flxi_kw_close(w);
}
