/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_loops.c: loops that are one launch on a card. Their texts are made and compiled without one; where there is a
   card, results are compared with the device cpu. */
#include "backend/cuda/card_case.h"
#include "backend/cuda/cuda_compile.h"
#include "backend/cuda/loop/cuda_loop.h"
#include "compile/program.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

extern const flxi_device flxi_device_cuda;

#define RNN(B, H, T)                                                                                        \
    "graph cell(h: f32[" B ", " H "], w: f32[" H ", " H "], b: f32[" H "], x: f32[" B ", " H "]) {\n"       \
    "  return tanh(add(add(matmul(mul(h, 0.1), w), x), b)) }\n"                                             \
    "graph f(h0: f32[" B ", " H "], w: f32[" H ", " H "], b: f32[" H "], xs: f32[" T ", " B ", " H "]) {\n" \
    "  return scan(h0, w, b, xs, body=@cell, num_bcast=2) }\n"

/* Those whose number of launches is known come with what the plan of their loops must be. */
static const struct {
    card_case c;
    uint32_t loops, parts, blocks; /* of all loops; in each, and in its clusters */
} cases[] = {
    {{RNN("32", "256", "9"), {0}, 1e-5}, 1, 32, 4},
    {{RNN("32", "256", "20"), {"w", "xs"}, 1e-4}, 2, 32, 4},
    {{RNN("8", "128", "3"), {"w", "b"}, 1e-4}, 2, 4, 1},
    {{RNN("8", "128", "1"), {0}, 1e-4}, 1, 4, 1},
    {{RNN("6", "100", "31"), {"h0", "xs"}, 1e-4}, 2, 1, 1},
    {{RNN("64", "320", "5"), {"h0", "w"}, 1e-4}, 2, 32, 8},
    /* Gates, and what is left of the state beside them. */
    {{"graph cell(h: f32[16, 64], u: f32[64, 192], x: f32[16, 192]) {\n"
      "  a = add(matmul(h, u), x)\n"
      "  r = sigmoid(narrow(a, axis=1, start=0, len=64))\n"
      "  z = sigmoid(narrow(a, axis=1, start=64, len=64))\n"
      "  n = tanh(mul(r, narrow(a, axis=1, start=128, len=64)))\n"
      "  k = add(mul(z, h), mul(sub(1.0, z), n))\n  return k, mul(k, 2) }\n"
      "graph f(h: f32[16, 64], u: f32[64, 192], x: f32[14, 16, 192]) {\n"
      "  a, b = scan(h, u, x, body=@cell, num_bcast=1, reverse=true)\n  return a, b }\n",
      {0},
      1e-5},
     1,
     0,
     0},
    /* Two products, the second of the first; a trajectory; carries that change places. */
    {{"graph cell(h: f32[12, 48], g: f32[12, 48], u: f32[48, 80], v: f32[80, 48]) {\n"
      "  y = matmul(tanh(matmul(h, u)), v)\n  return add(g, mul(y, 0.1)), h }\n"
      "graph f(h: f32[12, 48], g: f32[12, 48], u: f32[48, 80], v: f32[80, 48]) {\n"
      "  a, b = scan(h, g, u, v, body=@cell, num_carry=2, num_bcast=2, length=7, save_trajectory=true)\n"
      "  return a, b }\n",
      {0},
      1e-5},
     1,
     0,
     0},
    {{"graph slope(x: f64[40]) {\n"
      "  return add(sub(mul(sub(roll(x, shift=-1, axis=0), roll(x, shift=2, axis=0)), "
      "roll(x, shift=1, axis=0)), x), 8) }\n"
      "graph step(x: f64[40]) {\n"
      "  a = call(x, body=@slope)\n  b = call(add(x, mul(a, 0.005)), body=@slope)\n"
      "  return add(x, mul(b, 0.01)) }\n"
      "graph f(x: f64[40]) { return scan(x, body=@step, length=30) }\n",
      {"x"},
      1e-10},
     2,
     1,
     1},
    /* Folds of rows; elements of one byte. */
    {{"graph step(x: f32[3, 70], n: i8[5], m: i8[5]) {\n"
      "  return softmax(add(x, 1), axis=1), add(n, m), mul(n, 2) }\n"
      "graph f(x: f32[3, 70], n: i8[5], m: i8[11, 5]) {\n"
      "  a, b, c = scan(x, n, m, body=@step, num_carry=2)\n  return a, b, c }\n",
      {0},
      1e-5},
     1,
     1,
     1},
    /* More steps than a launch has. */
    {{"graph step(x: f64[3], n: i32[]) { return add(mul(x, 0.999), 0.5), add(n, 1) }\n"
      "graph f(x: f64[3], n: i32[]) {\n  a, b = scan(x, n, body=@step, num_carry=2, length=50001)\n  return a, b }\n",
      {0},
      1e-10},
     1,
     1,
     1},
    /* Not one launch: a product with too many weights, an index. */
    {{RNN("32", "1024", "3"), {0}, 1e-5}, 0, 0, 0},
    {{"graph step(x: f32[5], i: i32[5]) { return gather(x, i, axis=0) }\n"
      "graph f(x: f32[5], i: i32[6, 5]) { return scan(x, mod(i, 5), body=@step) }\n",
      {0},
      0},
     0,
     0,
     0},
};

enum { NUM_CASES = sizeof cases / sizeof *cases };

static void assemble(flx_context *ctx, const flxi_compile_request *q)
{
    flx_error err = {0};
    flxi_strbuf text;
    flxi_strbuf_init(&text, flxi_context_mem(ctx));
    CHECK_OK(flxi_cuda_write_loops(q->chains, q->num_chains, &text, &err), &err);
    static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};
    for (int i = 0; i < 3; i++) {
        unsigned char *bytes;
        size_t size = 0;
        CHECK_OK(flxi_cuda_assemble(flxi_context_mem(ctx), architectures[i], text.at, &bytes, &size, &err), &err);
        CHECK(size > 100);
        flxi_free(flxi_context_mem(ctx), bytes, size, 1);
    }
    flxi_strbuf_free(&text);
}

static void check_plan(flx_context *ctx, size_t i, bool has_compiler)
{
    flx_error err = {0};
    const flx_compile_options o = {.struct_size = sizeof o};
    flxi_compile_request q = {0};
    flxi_chain **chains;
    flxi_loop_plan plan;
    flxi_program m;
    uint32_t step;
    flx_graph *g = card_case_graph(ctx, &cases[i].c);
    flxi_program_init(&m, ctx, &flxi_device_cuda, &o);
    CHECK_MSG(flxi_routine_compile(&m, g, &m.main, &err) == FLX_OK, "%s: %s", cases[i].c.text, err.message);
    CHECK_OK(flxi_program_chains(&m, &chains, &q.num_chains, &err), &err);
    CHECK_MSG(q.num_chains == cases[i].loops, "%s: %zu loops", cases[i].c.text, q.num_chains);
    q.chains = chains;
    for (size_t k = 0; k < q.num_chains; k++) {
        CHECK(!flxi_cuda_plan_loop(chains[k], &plan, &step));
        CHECK_MSG(!cases[i].blocks || plan.blocks == cases[i].blocks, "%s: %u blocks", cases[i].c.text, plan.blocks);
    }
    for (uint32_t k = 0; k < m.main->num_steps; k++) {
        const flxi_step *s = &m.main->steps[k];
        CHECK_MSG(s->kind != STEP_SCAN || !cases[i].parts || s->parts == cases[i].parts, "%s: %u parts",
                  cases[i].c.text, s->parts);
        CHECK_MSG(s->kind != STEP_SCAN || cases[i].loops || s->parts <= 1, "%s: %u parts", cases[i].c.text, s->parts);
    }
    if (has_compiler && q.num_chains)
        assemble(ctx, &q);
    flxi_program_free(&m);
    flx_graph_release(g);
}

/* A loop whose sequence of steps is one launch, with a part of the examples for each cluster. */
TEST(cuda_texts_of_loops_compile)
{
    flx_error err = {0};
    bool has_compiler = flxi_cuda_nvrtc(&err) != NULL;
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < NUM_CASES; i++)
        check_plan(ctx, i, has_compiler);
    if (!has_compiler)
        printf("no NVRTC: %s\n", err.message);
    flx_context_free(ctx);
}

TEST(card_loops_agree)
{
    for (size_t i = 0; i < NUM_CASES; i++)
        card_cases_agree(&cases[i].c, 1);
}
