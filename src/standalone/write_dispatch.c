/* SPDX-License-Identifier: Apache-2.0 */
/* write_dispatch.c: kernel_call: a kernel of the user as a function on the memory of operands and results, with what
   must be done before and after (ops/custom/custom_kernel_plan.h). */
#include "graph/op/origin.h"
#include "standalone/standalone.h"

typedef struct {
    flxi_sa_routine *r;
    const flxi_step *s;
    size_t own; /* in the arena: buffers with memory of their own */
} call;

static const char *element_of(const call *c, uint32_t i)
{
    const char *name = flxi_ktext_element(&flxi_target_c, c->s->call->kernel->buffers[i + 1].element);
    const char *plain = flxi_sa_word(name, strlen(name));
    return plain ? plain : name;
}

static const char *operand_of(const call *c, const flxi_call_buffer *b)
{
    return flxi_sa_slot(c->r, c->s, b->operand);
}

static const char *result_of(const call *c, const flxi_call_buffer *b)
{
    return flxi_sa_slot(c->r, c->s, c->s->num_reads + b->result);
}

/* Whether the buffer is its operand, which no one reads later. */
static bool is_consumed(const call *c, const flxi_call_buffer *b)
{
    return b->operand < 64 && (c->s->consumed >> b->operand & 1);
}

/* Whether the result took over the memory of the operand. */
static bool is_same_memory(const call *c, const flxi_call_buffer *b)
{
    const flxi_slot *out = &c->r->l->slots[c->s->slots[c->s->num_reads + b->result]];
    return out->taken_over == c->s->slots[b->operand] + 1;
}

static bool has_operand(const flxi_call_buffer *b)
{
    return b->operand != UINT32_MAX;
}

/* Declares the buffer's address in the arena, or gives that of the operand or result. */
static const char *address_of(const call *c, uint32_t i)
{
    const flxi_call_buffer *b = &c->s->call->buffers[i];
    flxi_sa_file *f = c->r->w.f;
    if (b->is_ours && !is_consumed(c, b) && b->nbytes)
        return flxi_sa_text(f, "((%s *)(arena + %zu))", element_of(c, i), c->own + b->offset);
    if (b->result != UINT32_MAX && b->nbytes)
        return result_of(c, b);
    if (has_operand(b) && b->nbytes)
        return operand_of(c, b);
    return flxi_sa_text(f, "((%s *)(arena + %zu))", element_of(c, i), c->own); /* without elements */
}

static void write_start(const call *c, uint32_t i)
{
    const flxi_call_buffer *b = &c->s->call->buffers[i];
    flxi_sa_writer *w = &c->r->w;
    bool is_result = b->result != UINT32_MAX, is_ours = b->is_ours && !is_consumed(c, b);
    if (!b->nbytes || (!is_ours && !is_result) || (!is_ours && has_operand(b) && is_same_memory(c, b)))
        return;
    if (b->is_zeroed) {
        flxi_sa_line(w, "memset(%s, 0, %zu);", address_of(c, i), b->nbytes);
    } else if (b->is_bools) {
        flxi_sa_line(w, "for (int64_t i = 0; i < %u; i++)", b->count);
        flxi_sa_line(w, "    %s[i] = %s[i];", address_of(c, i), operand_of(c, b));
    } else {
        flxi_sa_line(w, "memcpy(%s, %s, %zu);", address_of(c, i), operand_of(c, b), b->nbytes);
    }
}

/* Loops that were cut, and bools as bytes. */
static void write_end(const call *c, uint32_t i)
{
    const flxi_call_buffer *b = &c->s->call->buffers[i];
    flxi_sa_writer *w = &c->r->w;
    if (b->is_flag && b->count) {
        flxi_sa_line(w, "for (int64_t i = 0; i < %u; i++)", b->count);
        flxi_sa_line(w, "    if (%s[i] != 0)", address_of(c, i));
        flxi_sa_line(w, "        return %s; /* more than max_trips */", flxi_sa_code_of(w->f, SA_TRAPPED));
        c->r->can_fail = true;
    }
    if (b->is_bools && b->result != UINT32_MAX && b->count) {
        flxi_sa_line(w, "for (int64_t i = 0; i < %u; i++)", b->count);
        flxi_sa_line(w, "    %s[i] = %s[i] != 0;", result_of(c, b), address_of(c, i));
    }
}

static void write_call(const call *c, const flxi_sa_user_function *f)
{
    const flxi_call_plan *p = c->s->call;
    flxi_strbuf *out = c->r->w.out;
    const char *comma = "";
    if (f->has_status)
        flxi_sa_line(&c->r->w, "uint32_t status[7] = {0};");
    flxi_sa_begin_call(c->r, f->name, false);
    for (uint32_t i = 0; i < p->num_buffers; i++) {
        if (!flxi_kbuffer_is_bound(&p->kernel->buffers[i + 1]))
            continue;
        flxi_addf(out, "%s%s", comma, address_of(c, i));
        comma = ", ";
    }
    if (f->has_status)
        flxi_addf(out, "%sstatus", comma);
    if (f->has_scratch)
        flxi_addf(out, "%sarena + %zu", *comma || f->has_status ? ", " : "", c->s->scratch_offset);
    flxi_sa_end_call(c->r, false);
    if (f->has_status) {
        flxi_sa_line(&c->r->w, "if (status[0] != 0)");
        flxi_sa_line(&c->r->w, "    return %s;", flxi_sa_code_of(c->r->w.f, SA_TRAPPED));
        c->r->can_fail = true;
    }
}

flx_code flxi_sa_dispatch(flxi_sa_routine *r, const flxi_step *s)
{
    const flxi_call_plan *p = s->call;
    flxi_sa_user_function f;
    size_t scratch = r->m->compiled ? (r->m->compiled[s->kernel].scratch + 63) / 64 * 64 : 0;
    call c = {.r = r, .s = s, .own = s->scratch_offset + scratch};
    if (p->is_open) {
        flxi_fail(r->err, FLX_E_UNSUPPORTED,
                  "%.80s cannot be part of a C file: a buffer's length is known only when "
                  "it runs",
                  s->computes ? s->computes : "a kernel");
        flxi_at_node(r->err, r->l->g, flxi_node_at(r->l->g, s->node));
        return FLX_E_UNSUPPORTED;
    }
    FLXI_TRY(flxi_sa_user_kernel(r->w.f, s, &f, r->err));
    for (uint32_t k = 0; k < s->num_slots; k++)
        flxi_sa_slot(r, s, k); /* variables come first */
    flxi_sa_open(&r->w, "/* a kernel of the user */");
    for (uint32_t i = 0; i < p->num_buffers; i++)
        if (flxi_kbuffer_is_bound(&p->kernel->buffers[i + 1]))
            write_start(&c, i);
    write_call(&c, &f);
    for (uint32_t i = 0; i < p->num_buffers; i++)
        if (flxi_kbuffer_is_bound(&p->kernel->buffers[i + 1]))
            write_end(&c, i);
    flxi_sa_close(&r->w);
    return FLX_OK;
}
