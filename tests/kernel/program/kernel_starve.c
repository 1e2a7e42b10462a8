/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_starve.c: memory is exhausted at every single request of the transforms of kernels, of emission and of a run,
   once and permanently. The operation then fails with OOM, nothing leaks, and the kernel is unchanged. */
#include "fault.h"
#include "kernel/flk.h"

typedef struct {
    flx_context *ctx;
    flx_kernel *k;
    flx_kernel_derived *d; /* its reverse */
    uint32_t flags;        /* of reverse mode */
} stage;

typedef flx_code (*step_fn)(stage *s, flx_error *err);

/* ---- The kernels ---- */

static const char *const texts[] = {
    /* A loop with a tape, trips known only at the dispatch. */
    "kernel loop(workgroup = [2, 1, 1]) {\n"
    "  buffer x: f64[4] read;\n"
    "  buffer out: f64[4] output;\n"
    "  fn bend(a: f64) -> f64 { return sin(a) * a; }\n"
    "  let i = invocation_id(0);\n"
    "  let p = x[i];\n"
    "  for (j in 0..buf_len(x)) { if (p > 0.0f64) { p = bend(p) + x[j]; } else { p = p * x[j]; } }\n"
    "  out[i] = p;\n"
    "}\n",
    /* Shared memory that is overwritten between barriers. */
    "kernel shared(workgroup = [4, 1, 1]) {\n"
    "  buffer x: f64[4] read;\n"
    "  buffer out: f64[4] output;\n"
    "  buffer tile: f64[4] workgroup;\n"
    "  let l = local_id(0);\n"
    "  tile[l] = x[l];\n"
    "  for (s in 0..2) {\n"
    "    barrier();\n"
    "    let v = tile[(l + 1) % 4] * tile[l];\n"
    "    barrier();\n"
    "    tile[l] = v;\n"
    "  }\n"
    "  barrier();\n"
    "  out[l] = tile[3 - l];\n"
    "}\n",
    /* Readers that share elements, so that their additions collide. */
    "kernel gather(workgroup = [2, 1, 1]) {\n"
    "  buffer x: f64[4] read;\n"
    "  buffer k: u32[4] read;\n"
    "  buffer out: f64[4] output;\n"
    "  let i = invocation_id(0);\n"
    "  out[i] = x[k[i]] * exp(x[k[3 - i]]);\n"
    "}\n",
};

static void stage_begin(stage *s, fault *f, size_t which)
{
    flx_error err = {0};
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    *s = (stage){.ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = f})};
    s->flags = which == 2 ? FLX_KERNEL_DETERMINISTIC : 0;
    s->k = flk_in(s->ctx, texts[which]);
    flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = s->flags};
    s->d = flx_kernel_grad(s->k, outputs, 1, inputs, 1, &options, &err);
    CHECK_MSG(s->d != NULL, "%s", err.message);
}

static void stage_end(stage *s)
{
    flx_kernel_derived_free(s->d);
    flx_kernel_release(s->k);
    flx_context_free(s->ctx);
}

/* ---- The steps ---- */

static flx_code step_grad(stage *s, flx_error *err)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    flx_kernel_grad_options options = {.struct_size = sizeof options, .flags = s->flags, .tape_budget = 40};
    flx_kernel_derived *d = flx_kernel_grad(s->k, outputs, 1, inputs, 1, &options, err);
    flx_kernel_derived_free(d);
    return d ? FLX_OK : (flx_code)err->code;
}

static flx_code step_jvp(stage *s, flx_error *err)
{
    static const char *const outputs[] = {"out"}, *const inputs[] = {"x"};
    flx_kernel_derived *d = flx_kernel_jvp(s->k, outputs, 1, inputs, 1, NULL, err);
    flx_kernel_derived_free(d);
    return d ? FLX_OK : (flx_code)err->code;
}

static flx_code step_run(stage *s, flx_error *err)
{
    double x[] = {0.5, -1, 1.5, 2}, out[4] = {0}, grad[4] = {0}, seed[] = {1, 1, 1, 1};
    uint32_t k[] = {0, 2, 2, 1}, grid[] = {s->flags || flx_kernel_buffer_count(s->k) == 2 ? 2 : 1, 1, 1};
    flx_kernel_memory memory[] = {{"x", x, sizeof x},
                                  {"out", out, sizeof out},
                                  {"grad_x", grad, sizeof grad},
                                  {"grad_out", seed, sizeof seed},
                                  {"k", k, sizeof k}};
    return flx_kernel_derived_run(s->d, grid, memory, s->flags ? 5 : 4, NULL, err);
}

static flx_code step_optimise(stage *s, flx_error *err)
{
    flx_kernel *k = flx_kernel_optimise(flx_kernel_derived_kernel(s->d, 0), NULL, err);
    flx_kernel_release(k);
    return k ? FLX_OK : (flx_code)err->code;
}

static flx_code step_emit(stage *s, flx_error *err)
{
    flx_buffer text = {0};
    flx_code code = flx_kernel_emit(flx_kernel_derived_kernel(s->d, 0), "c", &text, err);
    flx_buffer_free(&text);
    return code;
}

static flx_code step_findings(stage *s, flx_error *err)
{
    static const char text[] = "kernel k() { buffer out: f32[2] output; let i = nothing; out[i] = other[i]; far = 1; }";
    flx_kernel_finding findings[2];
    size_t found;
    flx_kernel *k = flx_kernel_parse_findings(s->ctx, text, sizeof text - 1, "t", findings, 2, &found, err);
    CHECK(k == NULL);
    CHECK(err->code == FLX_E_OOM || (err->code == FLX_E_KERNEL && found == 3));
    return err->code == FLX_E_OOM ? FLX_E_OOM : FLX_OK;
}

/* A kernel as an op of a graph, in both modes, with its own reverse and without. */
static flx_code step_graph(stage *s, flx_error *err)
{
#define KERNEL                                                                                                       \
    "kernel=\"kernel k() { buffer x: f64[4] read; buffer y: f64[4] output; let i = invocation_id(0); y[i] = x[i] * " \
    "x[i]; }\""
#define BACK \
    "backward=\"kernel b() { buffer x: f64[4] read; buffer grad_y: f64[4] read; buffer grad_x: f64[4] output; }\""
    static const char text[] =
        "graph g(x: f64[4]) { a = kernel_call(x, " KERNEL ", grid=[4])  b = kernel_call(a, " KERNEL ", grid=[1], " BACK
        ")  return reduce_sum(b) }";
    static const char *const wrt[] = {"x"};
    flx_module *m = flx_parse(s->ctx, text, sizeof text - 1, "t", err);
    flx_graph *g = m ? flx_grad(flx_module_main(m), wrt, 1, NULL, err) : NULL;
    flx_graph *t = g ? flx_jvp(flx_module_main(m), wrt, 1, err) : NULL;
    flx_graph_release(t);
    flx_graph_release(g);
    flx_module_free(m);
    return t ? FLX_OK : (flx_code)err->code;
}

static flx_code step_batch(stage *s, flx_error *err)
{
    const char *names[8];
    size_t n = 0;
    for (size_t i = 0; i < flx_kernel_buffer_count(s->k); i++) {
        flx_kernel_buffer b = {.struct_size = sizeof b};
        flx_kernel_buffer_at(s->k, i, &b);
        if (b.access != FLX_KERNEL_WORKGROUP && b.access != FLX_KERNEL_PRIVATE && n < 8)
            names[n++] = b.name;
    }
    flx_kernel *many = flx_kernel_vmap(s->k, names, n, 1, 0, 3, err);
    flx_kernel_release(many);
    return many ? FLX_OK : (flx_code)err->code;
}

/* The same op batched, with its own reverse and without, and one whose tape is counted when it runs. */
static flx_code step_batched_graph(stage *s, flx_error *err)
{
    static const char text[] =
        "kernel p() { buffer x: f64[4] read; buffer n: u32[1] read; buffer y: f64[1] output; let p = 1.0f64; "
        "for (j in 0..n[0]) { p = p * x[j]; } y[0] = p; }"
        "graph g(x: f64[4], n: u32[1]) { a = kernel_call(x, " KERNEL ", grid=[4])  b = kernel_call(a, " KERNEL
        ", grid=[1], " BACK ")  return reduce_sum(kernel_call(b, n, kernel=@p, grid=[1])) }";
    static const char *const wrt[] = {"x"};
    static const flx_vmap_axis axes[] = {{"x", 0}};
    flx_module *m = flx_parse(s->ctx, text, sizeof text - 1, "t", err);
    flx_graph *v = m ? flx_vmap(flx_module_main(m), axes, 1, NULL, 0, 2, err) : NULL;
    flx_graph *g = v ? flx_grad(flx_module_main(m), wrt, 1, NULL, err) : NULL;
    flx_graph_release(g);
    flx_graph_release(v);
    flx_module_free(m);
    return g ? FLX_OK : (flx_code)err->code;
}

/* ---- Exhausting memory ---- */

/* Fails request n of the step. */
static void starve_once(step_fn step, stage *s, fault *f, size_t n, bool forever)
{
    flx_error err = {0};
    size_t live = f->live_blocks, failures = f->failed;
    f->fail_at = f->calls + n;
    f->forever = forever;
    flx_code code = step(s, &err);
    bool failed = f->failed > failures;
    f->fail_at = 0;
    f->forever = false;
    CHECK(failed);
    CHECK_CODE(code, FLX_E_OOM, &err);
    CHECK_MSG(err.code == FLX_E_OOM && err.message[0], "the error is %s: '%s'", flx_code_name(err.code), err.message);
    bool is_graph = step == step_graph || step == step_batched_graph;
    bool is_even = f->live_blocks == live || is_graph; /* of graphs debug builds keep a header for a while */
    CHECK_MSG(is_even && f->errors == 0, "%zu blocks leaked, %zu errors", f->live_blocks - live, f->errors);
}

/* A step may make thousands of requests: at most this many fail in turn, others for each seed. */
static size_t most_failures(void)
{
    return 400 / (size_t)effort(EFFORT_starved_stride);
}

static void starve_kernel(step_fn step, size_t which, uint64_t *random)
{
    fault f = {0};
    stage s;
    flx_error err = {0};
    uint64_t before = 0, after = 0;
    stage_begin(&s, &f, which);
    CHECK_OK(flx_kernel_hash(s.k, &before, &err), &err);
    size_t calls = f.calls;
    CHECK_OK(step(&s, &err), &err);
    size_t requests = f.calls - calls, most = most_failures();
    CHECK_MSG(requests > 0, "the step asks for no memory");
    for (size_t n = 1; n <= requests; n += requests <= most ? 1 : 1 + test_random(random) % (2 * requests / most)) {
        for (int forever = 0; forever < 2; forever++) {
            test_fail_context("kernel %zu: request %zu of %zu fails%s", which, n, requests,
                              forever ? ", and all later ones" : "");
            starve_once(step, &s, &f, n, forever != 0);
            test_count_case();
        }
    }
    CHECK_OK(step(&s, &err), &err);
    CHECK_OK(flx_kernel_hash(s.k, &after, &err), &err);
    CHECK_EQ_U64(after, before);
    stage_end(&s);
    CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
}

static void starve(step_fn step)
{
    uint64_t random = test_seed();
    for (size_t which = 0; which < sizeof texts / sizeof texts[0]; which++)
        starve_kernel(step, which, &random);
}

TEST(kernel_starve_grad)
{
    starve(step_grad);
}

TEST(kernel_starve_jvp)
{
    starve(step_jvp);
}

TEST(kernel_starve_derived_run)
{
    starve(step_run);
}

TEST(kernel_starve_optimise)
{
    starve(step_optimise);
}

TEST(kernel_starve_emit)
{
    starve(step_emit);
}

TEST(kernel_starve_findings)
{
    starve(step_findings);
}

TEST(kernel_starve_graph)
{
    starve(step_graph);
}

TEST(kernel_starve_batch)
{
    starve(step_batch);
}

TEST(kernel_starve_batched_graph)
{
    starve(step_batched_graph);
}
