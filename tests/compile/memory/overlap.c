/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c: exchanges that may run beside other steps: until when they may, and that no step writes to their memory
   before. Nothing is run: collective_overlap.c does that. */
#include "backend/devices.h"
#include "compile/program.h"
#include "graph/graph_text.h"
#include "test.h"

#include <stdio.h>

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flxi_program program;
} compiled;

/* Without machine code: steps and their memory are known before. */
static void compile(compiled *c, const char *text, uint32_t flags, const flx_share *shares, size_t n)
{
    flx_error err = {0};
    const flxi_device *device;
    const flx_compile_options o = {
        .struct_size = sizeof o, .flags = flags, .threads = 1, .shares = shares, .num_shares = n};
    c->ctx = flx_context_new(NULL);
    c->g = graph_of(c->ctx, text);
    CHECK_OK(flxi_device_for_programs("cpu", &device, &err), &err);
    flxi_program_init(&c->program, c->ctx, device, &o);
    CHECK_OK(flxi_routine_compile(&c->program, c->g, &c->program.main, &err), &err);
    flxi_routine_share(&c->program, c->program.main, shares, n);
    CHECK_OK(flxi_routine_plan(&c->program, c->program.main, &err), &err);
    CHECK_OK(flxi_routine_verify_offsets(c->program.main, &err), &err);
}

static void end(compiled *c)
{
    flxi_program_free(&c->program);
    flx_graph_release(c->g);
    flx_context_free(c->ctx);
}

static const char *op_of(const flxi_routine *l, uint32_t step)
{
    return flxi_ops[flxi_node_at(l->g, l->steps[step].node)->op].name;
}

static uint32_t find_step(const flxi_routine *l, const char *op)
{
    for (uint32_t i = 0; i < l->num_steps; i++)
        if (strcmp(op_of(l, i), op) == 0)
            return i;
    CHECK_MSG(false, "no step is a %s", op);
    return 0;
}

static bool intersect(const flxi_slot *a, size_t begin, size_t nbytes)
{
    return a->segment == SEGMENT_ARENA && a->nbytes && nbytes && a->offset < begin + nbytes &&
           begin < a->offset + a->nbytes;
}

/* What step j writes is not what the exchange reads or writes. */
static void check_apart(const compiled *c, const flxi_step *exchange, uint32_t j)
{
    const flxi_routine *l = c->program.main;
    const flxi_step *s = &l->steps[j];
    for (uint32_t k = 0; k < exchange->num_slots; k++) {
        const flxi_slot *own = &l->slots[exchange->slots[k]];
        CHECK(!intersect(own, s->scratch_offset, s->scratch));
        for (uint32_t i = 0; i < s->num_slots; i++) {
            const flxi_slot *other = &l->slots[s->slots[i]];
            if (!flxi_step_writes(&c->program, s, i))
                continue;
            CHECK_MSG(other->segment != SEGMENT_ARENA || !intersect(own, other->offset, other->nbytes),
                      "step %u writes where the exchange is", j);
            CHECK_MSG(own->segment != SEGMENT_INPUT || other->segment != SEGMENT_OUTPUT ||
                          !flxi_routine_may_share(&c->program, l, own->index, other->index),
                      "step %u may overwrite the input of the exchange", j);
        }
    }
}

static uint32_t check_all(const compiled *c)
{
    const flxi_routine *l = c->program.main;
    uint32_t most = 0;
    for (uint32_t i = 0; i < l->num_steps; i++) {
        const flxi_step *s = &l->steps[i];
        uint32_t running = 0;
        for (uint32_t j = i + 1; j < s->ends_before && j < l->commit; j++) { /* all end before the commit */
            check_apart(c, s, j);
            for (uint32_t k = 0; k < l->steps[j].num_reads; k++)
                CHECK_MSG(l->steps[j].slots[k] != s->slots[s->num_slots - 1], "step %u reads too early", j);
            running += l->steps[j].ends_before > 0;
        }
        if (s->ends_before && s->ends_before < l->num_steps)
            CHECK(l->steps[s->ends_before].awaits > i);
        most = running > most ? running : most;
    }
    return most;
}

TEST(overlap_ends_before_the_first_use)
{
    compiled c;
    compile(&c,
            "graph f(x: f32[64]) { a = exp(x) b = all_reduce(a, axis_name=\"data\") c = sin(a) d = tanh(c)\n"
            "  e = cos(d) return add(mul(e, 2), neg(b)), sinh(c) }",
            FLX_COMPILE_UNGROUPED, NULL, 0);
    const flxi_routine *l = c.program.main;
    const flxi_step *s = &l->steps[find_step(l, "all_reduce")];
    CHECK_EQ_I64(s->ends_before, find_step(l, "neg"));
    CHECK_EQ_I64(l->steps[s->ends_before].awaits, find_step(l, "all_reduce") + 1);
    check_all(&c);
    end(&c);
}

/* A result that the next step needs, effects, and ops that exchange nothing. */
TEST(overlap_leaves_others_in_order)
{
    compiled c;
    compile(&c,
            "graph f(x: f32[64]) { a = all_reduce(x, axis_name=\"data\") b = exp(a) c = barrier(b)\n"
            "  d = send(c, axis_name=\"data\", to=0) return tanh(d), b }",
            FLX_COMPILE_UNGROUPED, NULL, 0);
    for (uint32_t i = 0; i < c.program.main->num_steps; i++)
        CHECK_MSG(!c.program.main->steps[i].ends_before && !c.program.main->steps[i].awaits, "%s",
                  op_of(c.program.main, i));
    end(&c);
}

/* A few at a time: operands of those that have ended are free. */
TEST(overlap_is_of_a_few_exchanges)
{
    char text[4000] = "graph f(x: f32[64]) { y0 = exp(x)\n", *at = text + strlen(text);
    compiled c;
    for (int i = 1; i <= 12; i++)
        at += sprintf(at, "  y%d = tanh(y%d) s%d = all_reduce(y%d, axis_name=\"data\")\n", i, i - 1, i, i);
    at += sprintf(at, "  return s1");
    for (int i = 2; i <= 12; i++)
        at += sprintf(at, ", s%d", i);
    sprintf(at, " }\n");
    compile(&c, text, FLX_COMPILE_UNGROUPED, NULL, 0);
    CHECK_EQ_I64(check_all(&c), 3); /* beside the first of four */
    end(&c);
}

/* A new value may overwrite an input once the exchange has read it: in runs that commit all at the end, too. */
TEST(overlap_and_outputs_in_the_memory_of_inputs)
{
    static const char text[] = "graph f(p: f32[8, 8], q: f32[8, 8]) {\n"
                               "  a = all_reduce(p, axis_name=\"data\") b = all_reduce(q, axis_name=\"data\")\n"
                               "  c = sort(p) d = sort(q) e = sort(add(c, d))\n"
                               "  return reduce_sum(b), add(p, mul(c, 2)), mul(q, add(e, a))\n}\n";
    static const flx_share shares[] = {{0, 1}, {1, 2}};
    int may_share[2] = {0, 0};
    for (uint32_t way = 0; way < 4; way++) {
        compiled c;
        compile(&c, text, (way & 1 ? FLX_COMPILE_ATOMIC : 0) | (way & 2 ? FLX_COMPILE_UNGROUPED : 0), shares, 2);
        const flxi_step *s = &c.program.main->steps[find_step(c.program.main, "all_reduce")];
        CHECK(s->ends_before > 0);
        may_share[0] += flxi_routine_may_share(&c.program, c.program.main, 0, 1);
        may_share[1] += flxi_routine_may_share(&c.program, c.program.main, 1, 2);
        check_all(&c);
        end(&c);
        test_count_case();
    }
    CHECK(may_share[0] > 0 && may_share[1] > 0);
}
