/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_interval.c: serial targets: one thread runs all invocations of a workgroup.

   The text between two points where invocations synchronise (barriers, subgroup ops) becomes a loop over the
   invocations, an interval. Ifs and loops that contain such a point stay outside of these loops. Where all invocations
   agree on the condition or the bounds, those of the first one decide; otherwise the values of all invocations are kept
   in an array, and a mask selects the active invocations inside. Variables that are used in another interval than their
   own become arrays with an element for each invocation; the first of two walks finds them. */
#include "emit/kernel_writer.h"

uint32_t flxi_kw_array(flxi_kwriter *w, char prefix, uint32_t number, uint8_t type)
{
    flxi_karray a = {prefix, number, type};
    if (w->is_rehearsal && !flxi_push(flxi_kernel_mem(w->k), &w->arrays, a) && w->code == FLX_OK)
        w->code = flxi_oom(w->err, "the text of a kernel");
    return number;
}

/* ---- Loops over invocations ---- */

/* Declares the ids that the text of the invocation uses, before this text: they are known only after it is written. */
static void declare_ids(flxi_kwriter *w)
{
    static const char zero[] = "0";
    const uint32_t *size = w->k->size;
    bool is_line = size[1] == 1 && size[2] == 1;
    uint8_t local = w->seen[FLX_KERNEL_LOCAL_ID] | w->seen[FLX_KERNEL_INVOCATION_ID];
    flxi_strbuf *p = &w->piece;
    p->n = 0;
    flxi_add_text(p, "");
    for (unsigned a = 0; a < 3; a++) {
        if ((local >> a & 1) && (is_line || size[a] == 1))
            flxi_addf(p, "%*sconst k_u32 l%u = %s;\n", (int)w->depth * 4, "", a, is_line && a == 0 ? "l" : zero);
        if (w->seen[FLX_KERNEL_INVOCATION_ID] >> a & 1)
            flxi_addf(p, "%*sconst k_u32 i%u = w%u * %uu + l%u;\n", (int)w->depth * 4, "", a, a, size[a], a);
    }
    if (w->seen_lane)
        flxi_addf(p, "%*sconst k_u32 lane = l %% lanes;\n", (int)w->depth * 4, "");
    size_t at = w->interval_at, tail = w->out.n - at, n = p->n;
    flxi_add_bytes(&w->out, p->at, n); /* makes room */
    if (!w->out.failed && !p->failed) {
        memmove(w->out.at + at + n, w->out.at + at, tail);
        memcpy(w->out.at + at, p->at, n);
    }
    w->out.failed |= p->failed;
}

/* Loops over the local ids, x fastest; axes of extent 1 need none. Leaves one brace open; l is the linear id. */
static void open_locals(flxi_kwriter *w)
{
    const uint32_t *size = w->k->size;
    if (size[1] == 1 && size[2] == 1) {
        flxi_kw_line(w, "for (k_u32 l = 0; l < %uu; l++) {", size[0]);
        w->depth++;
        return;
    }
    flxi_kw_begin(w);
    for (unsigned a = 3; a-- > 0;)
        if (size[a] > 1)
            flxi_kw_addf(w, "for (k_u32 l%u = 0; l%u < %uu; l%u++) ", a, a, size[a], a);
    flxi_kw_add(w, "{\n");
    w->depth++;
    flxi_kw_begin(w);
    flxi_kw_addf(w, "const k_u32 l = ");
    const char *plus = "";
    for (unsigned a = 3, step = size[0] * size[1]; a-- > 0; step = a == 2 ? size[0] : 1)
        if (size[a] > 1) {
            flxi_kw_addf(w, step > 1 ? "%sl%u * %uu" : "%sl%u", plus, a, step);
            plus = " + ";
        }
    flxi_kw_add(w, ";\n");
}

const char *flxi_kw_active(flxi_kwriter *w, const char *lane)
{
    if (w->mask && w->needs_live)
        return flxi_kw_text(w, "m%u[%s] && live[%s]", w->mask, lane, lane);
    if (w->mask)
        return flxi_kw_text(w, "m%u[%s]", w->mask, lane);
    return w->needs_live ? flxi_kw_text(w, "live[%s]", lane) : "";
}

void flxi_kw_each(flxi_kwriter *w, bool active_only)
{
    const char *active = active_only ? flxi_kw_active(w, "l") : "";
    flxi_kw_begin(w);
    flxi_kw_addf(w, "for (k_u32 l = 0; l < %uu; l++)", flxi_kernel_workgroup(w->k));
    flxi_kw_open(w);
    if (active[0])
        flxi_kw_line(w, "if (!(%s)) continue;", active);
}

void flxi_kw_open_interval(flxi_kwriter *w)
{
    if (w->is_open)
        return;
    w->is_open = true;
    w->interval++;
    w->next_label++;
    w->label_used = false;
    open_locals(w);
    const char *active = flxi_kw_active(w, "l");
    if (active[0])
        flxi_kw_line(w, "if (!(%s)) continue;", active);
    w->interval_at = w->out.n;
    if (w->is_splitting)
        return; /* the part of the statement written so far is used in this interval too */
    w->seen_lane = 0;
    memset(w->seen, 0, sizeof w->seen);
}

void flxi_kw_close_interval(flxi_kwriter *w)
{
    if (!w->is_open)
        return;
    w->is_open = false;
    if (w->label_used)
        flxi_kw_line(w, "done%u:;", w->next_label);
    declare_ids(w);
    flxi_kw_close(w);
}

/* ---- Subgroup ops ---- */

/* Splits the line: operands go into arrays, the op runs for all subgroups, and the rest uses the result. */
const char *flxi_kw_subgroup(flxi_kwriter *w, const flxi_kx *e)
{
    uint32_t type = w->k->exprs[e->x[0]].type, n = flxi_kernel_workgroup(w->k);
    flxi_kw_bind(w, type, flxi_kw_root(w, e->x[0]));
    uint32_t operand = w->next_temp, from = 0;
    if (e->kind == KX_SUBGROUP_SHUFFLE) {
        flxi_kw_bind(w, FLX_U32, flxi_kw_root(w, e->x[1]));
        from = w->next_temp;
    }
    uint32_t result = ++w->next_temp;
    flxi_kw_array(w, 't', result, e->type);
    flxi_kw_close_interval(w);
    const char *active = flxi_kw_active(w, "l"), *type_name = flxi_ktext_type(e->type);
    const char *guard = active[0] ? flxi_kw_text(w, "if (%s) ", active) : "";
    flxi_kw_begin(w);
    flxi_kw_addf(w, "for (k_u32 s = 0; s < %uu; s += lanes)", n);
    flxi_kw_open(w);
    flxi_kw_line(w, "const k_u32 e = %uu - s < lanes ? %uu : s + lanes;", n, n);
    if (e->kind == KX_SUBGROUP_SHUFFLE) {
        const char *there = flxi_kw_active(w, flxi_kw_text(w, "s + t%u[l]", from));
        flxi_kw_line(w, "for (k_u32 l = s; l < e; l++) %st%u[l] = t%u[l] < e - s%s%s ? t%u[s + t%u[l]] : (%s)0;", guard,
                     result, from, there[0] ? " && " : "", there, operand, from, type_name);
    } else if (e->kind == KX_SUBGROUP_BALLOT) {
        flxi_kw_line(w, "k_u32 sum = 0;");
        flxi_kw_line(w, "for (k_u32 l = s; l < e; l++) %ssum |= (k_u32)(t%u[l] != 0) << (l - s);", guard, operand);
        flxi_kw_line(w, "for (k_u32 l = s; l < e; l++) %st%u[l] = sum;", guard, result);
    } else {
        flxi_kw_begin(w);
        flxi_kw_addf(w, "%s sum = ", type_name);
        flxi_kfile_expand(w->file, &w->out, "$Z;\n", &(flxi_ksubject){.type = type});
        flxi_kw_begin(w);
        flxi_kw_addf(w, "for (k_u32 l = s; l < e; l++) %ssum = ", guard);
        flxi_ktext_binary(w->file, &w->out, KBIN_add, type, "sum", flxi_kw_text(w, "t%u[l]", operand));
        flxi_kw_add(w, ";");
        flxi_kw_end(w);
        flxi_kw_line(w, "for (k_u32 l = s; l < e; l++) %st%u[l] = sum;", guard, result);
    }
    flxi_kw_close(w);
    flxi_kw_open_interval(w);
    return flxi_kw_text(w, "t%u[l]", result);
}

/* ---- Statements that split ---- */

/* The text of an expression that is the same for all invocations, outside of intervals: that of the first one. */
static const char *common_value(flxi_kwriter *w, uint32_t expr)
{
    w->lane = "0";
    w->binds = false;
    const char *text = flxi_kw_root(w, expr);
    w->lane = "l";
    return text;
}

static void split_list(flxi_kwriter *w, const flxi_ks *s, bool in_else)
{
    flxi_kranges_mark mark = flxi_kw_enter(w, s, in_else);
    flxi_kw_list(w, in_else ? s->other : s->body);
    flxi_kw_close_interval(w);
    flxi_kranges_back(&w->ranges, mark);
}

static void split_common_if(flxi_kwriter *w, const flxi_ks *s)
{
    flxi_kw_branches(w, s, common_value(w, s->a), split_list);
}

static uint32_t new_mask(flxi_kwriter *w)
{
    return flxi_kw_array(w, 'm', ++w->next_mask, FLX_U8);
}

/* m[l] = active and satisfies the condition. */
static void set_mask(flxi_kwriter *w, uint32_t mask, const char *condition)
{
    const char *active = flxi_kw_active(w, "l");
    flxi_kw_each(w, false);
    flxi_kw_line(w, "m%u[l] = (k_u8)(%s%s(%s) != 0);", mask, active, active[0] ? " && " : "", condition);
    flxi_kw_close(w);
}

static void split_masked_if(flxi_kwriter *w, const flxi_ks *s)
{
    uint32_t outer = w->mask, chosen = new_mask(w), others = new_mask(w);
    flxi_kw_open_interval(w);
    w->is_splitting = w->binds = true;
    const char *condition = flxi_kw_bind(w, w->k->exprs[s->a].type, flxi_kw_root(w, s->a));
    w->is_splitting = false;
    flxi_kw_close_interval(w);
    set_mask(w, chosen, condition);
    set_mask(w, others, flxi_kw_text(w, "!%s", condition));
    w->mask = chosen;
    split_list(w, s, false);
    w->mask = others;
    split_list(w, s, true);
    w->mask = outer;
}

static void split_common_loop(flxi_kwriter *w, const flxi_ks *s)
{
    const char *from = common_value(w, s->a), *to = common_value(w, s->b);
    w->home[s->var] = UINT32_MAX; /* one variable for all */
    flxi_kw_open_loop(w, s, from, to);
    split_list(w, s, false);
    flxi_kw_close_loop(w, s);
}

static void split_masked_loop(flxi_kwriter *w, const flxi_ks *s)
{
    uint32_t outer = w->mask, going = new_mask(w), any = ++w->next_temp;
    flxi_kw_open_interval(w);
    w->is_splitting = w->binds = true;
    const char *from = flxi_kw_bind(w, FLX_U32, flxi_kw_root(w, s->a));
    const char *to = flxi_kw_bind(w, FLX_U32, flxi_kw_root(w, s->b));
    w->is_splitting = false;
    if (!w->outlives[s->var])
        flxi_kw_array(w, 'v', s->var, FLX_U32);
    w->outlives[s->var] = 1;
    flxi_kw_line(w, "v%u[l] = %s;", s->var, from);
    flxi_kw_close_interval(w);
    flxi_kw_line(w, "for (;;) {");
    w->depth++;
    set_mask(w, going, flxi_kw_text(w, "v%u[l] < %s", s->var, to));
    flxi_kw_line(w, "k_u32 t%u = 0;", any);
    flxi_kw_each(w, false);
    flxi_kw_line(w, "t%u |= m%u[l];", any, going);
    flxi_kw_close(w);
    flxi_kw_line(w, "if (!t%u) break;", any);
    w->mask = going;
    split_list(w, s, false);
    flxi_kw_each(w, true);
    flxi_kw_line(w, "v%u[l]++;", s->var);
    flxi_kw_close(w);
    w->mask = outer;
    flxi_kw_poll(w, s);
    flxi_kw_close(w);
}

/* All invocations are here, so all leave. */
static void split_return(flxi_kwriter *w)
{
    flxi_kw_close_interval(w);
    w->end_used = true;
    flxi_kw_line(w, "goto end;");
}

void flxi_kw_split(flxi_kwriter *w, const flxi_ks *s)
{
    bool common = w->uniform.exprs[s->a] && (s->kind != KS_LOOP || w->uniform.exprs[s->b]);
    switch ((flxi_ks_kind)s->kind) {
    case KS_BARRIER:
        flxi_kw_close_interval(w);
        flxi_kw_line(w, "/* barrier */");
        break;
    case KS_RETURN: split_return(w); break;
    case KS_BLOCK:
    case KS_REGION: flxi_kw_list(w, s->body); break;
    case KS_IF:
        if (common)
            flxi_kw_close_interval(w);
        if (common)
            split_common_if(w, s);
        else
            split_masked_if(w, s);
        break;
    case KS_LOOP:
        if (common)
            flxi_kw_close_interval(w);
        if (common)
            split_common_loop(w, s);
        else
            split_masked_loop(w, s);
        break;
    default:
        flxi_kw_open_interval(w);
        w->is_splitting = true;
        flxi_kw_plain(w, s);
        w->is_splitting = false;
    }
}
