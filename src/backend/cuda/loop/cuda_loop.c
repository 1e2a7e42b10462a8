/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_loop.c: see cuda_loop.h: running. */
#include "backend/cuda/loop/cuda_loop.h"

#include "base/host/stop.h"

#include <stdio.h>

/* Steps of a launch, which nothing can stop. Runs that are noted have at most two of them (runtime/run_steps.c). */
static const int64_t most_steps = 16384;

enum { USUAL_MEMORY = 48 << 10 }; /* more must be asked for */

/* As the text knows it: where the first part is, and how far others and other steps are. */
typedef struct {
    flxi_cu_address at;
    int64_t part, step;
} line;

typedef struct {
    int64_t from, to;
    line lines[FLXI_LOOP_LINES];
} parameters;

flx_code flxi_cuda_find_loop(const flxi_card *card, flxi_cu_module module, size_t number, flxi_chain *c,
                             flxi_cuda_loop *out, flx_error *err)
{
    char name[32];
    uint32_t step;
    const char *why = flxi_cuda_plan_loop(c, &out->plan, &step);
    if (why)
        return flxi_fail(err, FLX_E_INTERNAL, "a loop that was accepted: %s", why);
    snprintf(name, sizeof name, "flxl_%zu", number);
    FLXI_CU_TRY(card->cu, err, ModuleGetFunction, &out->function, module, name);
    if (out->plan.memory > USUAL_MEMORY)
        FLXI_CU_TRY(card->cu, err, FuncSetAttribute, out->function, FLXI_CU_FUNC_MOST_SHARED, (int)out->plan.memory);
    c->code = out;
    return FLX_OK;
}

/* ---- Addresses ---- */

static line line_of(const void *first, const void *second, int64_t step)
{
    uintptr_t at = (uintptr_t)first;
    return (line){at, second ? (int64_t)((uintptr_t)second - at) : 0, step};
}

static void set_lines(const flxi_chain *c, const flxi_loop_plan *p, const flxi_loop_part *parts, uint32_t num_parts,
                      line *out)
{
    const flxi_loop_part *a = &parts[0], *b = num_parts > 1 ? &parts[1] : NULL;
    for (uint32_t i = 0; i < c->loop->num_rows; i++)
        *out++ = line_of(a->rows[i].at, b ? b->rows[i].at : NULL, a->rows[i].step);
    for (uint32_t i = 0; i < c->loop->num_carries; i++) {
        const flxi_loop_carry *x = &a->carries[i], *y = b ? &b->carries[i] : NULL;
        *out++ = line_of(x->in, y ? y->in : NULL, 0);
        for (int k = 0; k < 2; k++)
            *out++ = line_of(x->buffer[k], y ? y->buffer[k] : NULL, x->step);
    }
    for (uint32_t i = 0; i < c->num_slots; i++)
        if (p->slots[i].kind == LOOP_GLOBAL)
            *out++ = line_of(a->at[i], NULL, 0);
}

/* Parts are equally far apart: they are pieces of the same rows and carries. */
static bool is_even(const flxi_chain *c, const flxi_loop_part *parts, uint32_t num_parts, const line *l)
{
    bool is = true;
    for (uint32_t part = 2; part < num_parts; part++) {
        const flxi_loop_part *x = &parts[part];
        const line *at = l;
        for (uint32_t i = 0; i < c->loop->num_rows; i++, at++)
            is &= (uintptr_t)x->rows[i].at == at->at + (uint64_t)at->part * part;
        for (uint32_t i = 0; i < c->loop->num_carries; i++, at += 3) {
            is &= (uintptr_t)x->carries[i].in == at[0].at + (uint64_t)at[0].part * part;
            is &= (uintptr_t)x->carries[i].buffer[0] == at[1].at + (uint64_t)at[1].part * part;
            is &= (uintptr_t)x->carries[i].buffer[1] == at[2].at + (uint64_t)at[2].part * part;
        }
    }
    return is;
}

/* ---- Launches ---- */

/* The next launch begins with the carries of the last step that this one runs. */
static void continue_after(const flxi_chain *c, int64_t last, line *l)
{
    for (uint32_t i = 0; i < c->loop->num_carries; i++) {
        line *x = l + c->loop->num_rows + 3 * (size_t)i;
        const line *left = &x[1 + (last & 1)];
        x[0] = (line){left->at + (uint64_t)(left->step * last), left->part, 0};
    }
}

static flx_code launch(const flxi_card *card, flxi_cu_stream stream, const flxi_cuda_loop *loop, parameters *p,
                       uint32_t num_parts, flx_error *err)
{
    void *arguments[] = {p};
    uint32_t blocks = card->sm >= 90 ? loop->plan.blocks : 1;
    FLXI_CU_TRY(card->cu, err, LaunchKernel, loop->function, num_parts * blocks, 1, 1, loop->plan.threads, 1, 1,
                loop->plan.memory, stream, arguments, NULL);
    return FLX_OK;
}

flx_code flxi_cuda_run_loop(const flxi_device_run *r, const flxi_chain *c, const flxi_loop_part *parts,
                            uint32_t num_parts, int64_t length)
{
    flxi_card *card;
    const flxi_cuda_loop *loop = c->code;
    parameters p = {0};
    FLXI_TRY(flxi_card_of(r->ctx, &card, r->err));
    flxi_cu_stream stream = flxi_card_stream(card, r);
    set_lines(c, &loop->plan, parts, num_parts, p.lines);
    if (!is_even(c, parts, num_parts, p.lines))
        return flxi_fail(r->err, FLX_E_INTERNAL, "the parts of a loop are not equally far apart");
    for (; p.from < length; p.from = p.to) {
        p.to = length - p.from > most_steps ? p.from + most_steps : length;
        if (p.from > most_steps) { /* so that a run can be cancelled */
            FLXI_CU_TRY(card->cu, r->err, StreamSynchronize, stream);
            FLXI_TRY(flxi_stop_check(r->err));
        }
        FLXI_TRY(launch(card, stream, loop, &p, num_parts, r->err));
        continue_after(c, p.to - 1, p.lines);
    }
    return FLX_OK;
}
