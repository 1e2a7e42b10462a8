/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: programs with random graphs, in which one allocation fails, or one and all later ones: read, differentiate,
   batch, encode, compile, run, train. Each step gives its result or OOM; nothing leaks, nothing else changes, and the
   step that failed succeeds when there is memory again. */
#include "adversary.h"
#include "fault.h"
#include "random/random_graph.h"
#include "test.h"

#include <fluxion/fluxion.h>
#include <fluxion/train.h>
#include <stdlib.h>
#include <string.h>

/* ---- The graph of a seed, outside of the context that starves ---- */

typedef struct {
    char *text;
    size_t size;
    subject s; /* values of inputs */
    flx_module *module;
} material;

static bool make_material(material *m, uint64_t seed)
{
    flx_buffer text = {0};
    flx_error err = {0};
    if (!(seed % 2 ? random_subject : random_control_subject)(&m->s, seed, &m->module))
        return false;
    CHECK_OK(flx_module_print(m->module, &text, &err), &err);
    m->text = malloc(text.size + 1);
    CHECK(m->text);
    memcpy(m->text, text.data, text.size);
    m->size = text.size;
    flx_buffer_free(&text);
    return true;
}

static void free_material(material *m)
{
    free(m->text);
    random_subject_free(&m->s, m->module);
}

/* ---- The program ---- */

enum { MAX_RESULTS = 64 };

typedef struct {
    const material *m;
    flx_context *ctx;
    fault memory;
    flx_module *module;
    flx_graph *bound, *made;
    flx_exec *exec;
    flx_trainer *trainer;
    flx_tensor *in[RANDOM_MAX_INPUTS];
    flx_feed feeds[RANDOM_MAX_INPUTS];
    flx_tensor *out[MAX_RESULTS];
    size_t num_out;
    flx_buffer bytes;
    uint64_t digest; /* of what the step returned */
} program;

static void note(program *p, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p->digest = (p->digest ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
}

static void drop_results(program *p)
{
    for (size_t i = 0; i < p->num_out; i++) {
        flx_tensor_release(p->out[i]);
        p->out[i] = NULL;
    }
    p->num_out = 0;
    flx_graph_release(p->made);
    p->made = NULL;
    flx_buffer_free(&p->bytes);
}

static flx_code note_graph(program *p, const flx_error *err)
{
    if (!p->made)
        return (flx_code)err->code;
    uint64_t hash = flx_graph_hash(p->made);
    note(p, &hash, sizeof hash);
    return FLX_OK;
}

static flx_code note_outputs(program *p, flx_code code)
{
    for (size_t i = 0; code == FLX_OK && i < p->num_out; i++)
        note(p, flx_tensor_const_data(p->out[i]), flx_tensor_nbytes(p->out[i]));
    if (code != FLX_OK)
        p->num_out = 0;
    return code;
}

/* ---- Its steps ---- */

static flx_code step_read(program *p, flx_error *err)
{
    p->module = flx_parse(p->ctx, p->m->text, p->m->size, "random", err);
    return p->module ? FLX_OK : (flx_code)err->code;
}

static flx_code step_bind(program *p, flx_error *err)
{
    const subject *s = &p->m->s;
    p->bound = flx_specialise(flx_module_main(p->module), s->dims, s->num_dims, err);
    return p->bound ? FLX_OK : (flx_code)err->code;
}

static flx_code step_feed(program *p, flx_error *err)
{
    const subject *s = &p->m->s;
    for (size_t i = 0; i < s->n; i++)
        if (!p->in[i]) {
            p->in[i] = flx_tensor_new(p->ctx, flx_tensor_type(s->in[i].x), flx_tensor_const_data(s->in[i].x), err);
            if (!p->in[i])
                return (flx_code)err->code;
            p->feeds[i] = (flx_feed){s->in[i].name, p->in[i]};
        }
    return FLX_OK;
}

static size_t wrt_of(const program *p, const char **names)
{
    size_t n = 0;
    for (size_t i = 0; i < p->m->s.n; i++)
        if (p->m->s.in[i].t)
            names[n++] = p->m->s.in[i].name;
    return n;
}

static flx_code step_grad(program *p, flx_error *err)
{
    const char *wrt[RANDOM_MAX_INPUTS];
    flx_grad_options o = {.flags = FLX_GRAD_VALUE | FLX_GRAD_MISSING_ZERO};
    p->made = flx_grad(p->bound, wrt, wrt_of(p, wrt), &o, err);
    return note_graph(p, err);
}

static flx_code step_jvp(program *p, flx_error *err)
{
    const char *wrt[RANDOM_MAX_INPUTS];
    p->made = flx_jvp(flx_module_main(p->module), wrt, wrt_of(p, wrt), err);
    return note_graph(p, err);
}

static flx_code step_vmap(program *p, flx_error *err)
{
    flx_vmap_axis axes[RANDOM_MAX_INPUTS];
    for (size_t i = 0; i < p->m->s.n; i++)
        axes[i] = (flx_vmap_axis){p->m->s.in[i].name, 0};
    p->made = flx_vmap(p->bound, axes, p->m->s.n, NULL, 0, 2, err);
    return note_graph(p, err);
}

static flx_code step_print(program *p, flx_error *err)
{
    flx_code code = flx_module_print(p->module, &p->bytes, err);
    if (code == FLX_OK)
        note(p, p->bytes.data, p->bytes.size);
    return code;
}

static flx_code step_encode(program *p, flx_error *err)
{
    flx_code code = flx_graph_encode(p->bound, &p->bytes, err);
    if (code == FLX_OK)
        note(p, p->bytes.data, p->bytes.size);
    return code;
}

static flx_code step_ref(program *p, flx_error *err)
{
    p->num_out = flx_graph_output_count(p->bound);
    return note_outputs(p, flx_run(p->bound, ON_REF, p->feeds, p->m->s.n, p->out, err));
}

static flx_code step_compile(program *p, flx_error *err)
{
    flx_compile_options o = {.flags = FLX_COMPILE_INTERPRET, .device = "cpu", .threads = 2};
    p->exec = flx_compile(p->bound, &o, err);
    return p->exec ? FLX_OK : (flx_code)err->code;
}

static flx_code step_run(program *p, flx_error *err)
{
    p->num_out = flx_graph_output_count(p->bound);
    return note_outputs(p, flx_exec_run(p->exec, NULL, p->feeds, p->m->s.n, p->out, err));
}

/* Training a random graph: its first float input is trained, as if it were a parameter. */
static flx_code step_trainer(program *p, flx_error *err)
{
    flx_compile_options c = {.flags = FLX_COMPILE_INTERPRET, .device = "cpu", .threads = 1};
    flx_train_options o = {.optimiser = FLX_ADAM, .flags = FLX_TRAIN_MISSING_ZERO | FLX_TRAIN_UNGUARDED};
    static const char text[] = "graph net(x: f32[3, 4], param w: f32[4, 2], param b: f32[2]) {\n"
                               "  return reduce_mean(square(tanh(add(matmul(x, w), b))))\n}\n";
    flx_module *m = flx_parse(p->ctx, text, sizeof text - 1, "net", err);
    if (!m)
        return (flx_code)err->code;
    p->trainer = flx_compile_training(flx_module_main(m), &o, &c, err);
    flx_module_free(m);
    return p->trainer ? FLX_OK : (flx_code)err->code;
}

static flx_code set_params(program *p, flx_error *err)
{
    static const float numbers[12] = {0.5f, -1, 0.25f, 0.75f, 1, -0.5f, 2, 0.125f, -0.75f, 1.5f, -2, 0.375f};
    flx_type w = flx_type_make(FLX_F32, 2, (flx_dim[]){4, 2}), b = flx_type_make(FLX_F32, 1, (flx_dim[]){2});
    flx_tensor *wt = flx_tensor_new(p->ctx, &w, numbers, err);
    flx_tensor *bt = wt ? flx_tensor_new(p->ctx, &b, numbers, err) : NULL;
    flx_code code = bt ? flx_trainer_set_param(p->trainer, "w", wt, err) : (flx_code)err->code;
    if (code == FLX_OK)
        code = flx_trainer_set_param(p->trainer, "b", bt, err);
    flx_tensor_release(wt);
    flx_tensor_release(bt);
    return code;
}

static flx_code step_train(program *p, flx_error *err)
{
    static const float numbers[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){3, 4});
    double loss = 0;
    flx_code code = set_params(p, err);
    if (code != FLX_OK)
        return code;
    flx_tensor *x = flx_tensor_new(p->ctx, &t, numbers, err);
    code = x ? flx_trainer_step(p->trainer, &(flx_feed){"x", x}, 1, &loss, err) : (flx_code)err->code;
    flx_tensor_release(x);
    if (code == FLX_OK)
        note(p, &loss, sizeof loss);
    return code;
}

static const struct {
    const char *name;
    flx_code (*run)(program *p, flx_error *err);
} steps[] = {{"reading", step_read},      {"binding", step_bind},    {"values", step_feed},
             {"grad", step_grad},         {"jvp", step_jvp},         {"vmap", step_vmap},
             {"printing", step_print},    {"encoding", step_encode}, {"ref", step_ref},
             {"compiling", step_compile}, {"running", step_run},     {"running again", step_run},
             {"trainer", step_trainer},   {"training", step_train}};
enum { STEPS = sizeof steps / sizeof *steps };

/* What a program without failures does: allocations until the end of each step, and what each returned. */
typedef struct {
    size_t calls[STEPS];
    uint64_t digest[STEPS];
    int32_t code[STEPS];
} plan;

static bool may_refuse(int32_t code)
{
    return code == FLX_E_NO_RULE || code == FLX_E_UNSUPPORTED || code == FLX_E_NOT_DIFFERENTIABLE ||
           code == FLX_E_NO_GRAD_PATH || code == FLX_E_UNBOUNDED_LOOP || code == FLX_E_NUMERIC;
}

/* One step; when an allocation fails in it, it is run again without failures. */
static void run_step(program *p, size_t i, const plan *expected, plan *seen)
{
    flx_error err = {0};
    p->digest = 1;
    size_t before = p->memory.failed;
    flx_code code = steps[i].run(p, &err);
    if (code != FLX_OK && p->memory.failed > before) {
        CHECK_MSG(code == FLX_E_OOM, "%s gives %s: %s", steps[i].name, flx_code_name(code), err.message);
        CHECK_MSG(err.message[0], "%s: no message", steps[i].name);
        drop_results(p);
        p->memory.fail_at = 0;
        p->memory.forever = false;
        p->digest = 1;
        err = (flx_error){0};
        code = steps[i].run(p, &err);
    }
    if (expected) {
        CHECK_MSG(code == expected->code[i], "%s gives %s instead of %s after a failure: %s", steps[i].name,
                  flx_code_name(code), flx_code_name(expected->code[i]), err.message);
        CHECK_MSG(code != FLX_OK || p->digest == expected->digest[i], "%s gives another result", steps[i].name);
    } else {
        CHECK_MSG(code == FLX_OK || may_refuse(code), "%s: %s: %s", steps[i].name, flx_code_name(code), err.message);
    }
    if (seen) {
        seen->calls[i] = p->memory.calls;
        seen->digest[i] = p->digest;
        seen->code[i] = code;
    }
    drop_results(p);
}

static void run_program(const material *m, fault f, const plan *expected, plan *seen)
{
    program p = {.m = m, .memory = f};
    p.ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &p.memory});
    if (!p.ctx) { /* its own allocations may fail too */
        p.memory.fail_at = 0;
        p.memory.forever = false;
        p.ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &p.memory});
    }
    CHECK(p.ctx);
    for (size_t i = 0; i < STEPS; i++)
        run_step(&p, i, expected, seen);
    for (size_t i = 0; i < m->s.n; i++)
        flx_tensor_release(p.in[i]);
    flx_trainer_free(p.trainer);
    flx_exec_free(p.exec);
    flx_graph_release(p.bound);
    flx_module_free(p.module);
    flx_context_free(p.ctx);
    CHECK_MSG(fault_is_clean(&p.memory), "%zu blocks leaked, %zu errors", p.memory.live_blocks, p.memory.errors);
}

void attack_memory(uint64_t seed)
{
    enum { FAILURES = 40 };
    material m;
    plan whole;
    uint64_t state = seed ^ 0xfa11;
    if (!make_material(&m, seed))
        return;
    case_input(m.text, m.size);
    run_program(&m, (fault){0}, NULL, &whole);
    for (int k = 0; k < FAILURES;
         k++) { /* a step, then a request in it: steps with many requests are not all there is */
        size_t i = test_random(&state) % STEPS, first = i ? whole.calls[i - 1] : 0;
        size_t requests = whole.calls[i] - first;
        if (requests == 0)
            continue;
        fault f = {.fail_at = first + 1 + test_random(&state) % requests, .forever = test_random(&state) % 2};
        test_fail_context("request %zu fails%s, in %s", f.fail_at, f.forever ? " and all later ones" : "",
                          steps[i].name);
        run_program(&m, f, &whole, NULL);
    }
    case_accepted();
    free_material(&m);
}
