/* SPDX-License-Identifier: Apache-2.0 */
/* graph_starve.c: every single request for memory fails in turn, alone or with all later ones. The operation then fails
   with OOM, nothing leaks, its inputs are unchanged, and the context keeps working. */
#include "graph/graph_text.h"
#include "graph/rich_text.h"

#include "fault.h"
#include "passes/pass.h"

/* The inputs of a step; made while memory is available. */
typedef struct {
    flx_context *ctx;
    flx_module *module;
    flx_graph *g; /* its main one */
    flx_buffer bytes;
    flx_tensor *feeds[4];
} stage;

typedef flx_code (*step_fn)(stage *s, flx_error *err);

static const flx_dim_binding extents[] = {{"N", 3}, {"M", 2}};

static flx_tensor *feed_for(stage *s, size_t i)
{
    flx_type t = *flx_val_type(s->g, flx_graph_input(s->g, i));
    for (int k = 0; k < t.rank; k++)
        if (!flx_dim_is_static(t.dims[k]))
            t.dims[k] = i == 1 && k == 0 ? 3 : 2;
    flx_tensor *x = flx_tensor_new(s->ctx, &t, NULL, NULL);
    CHECK(x != NULL);
    return x;
}

static void stage_begin(stage *s, fault *f)
{
    *s = (stage){.ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = f})};
    s->module = module_of(s->ctx, rich_text);
    s->g = flx_module_main(s->module);
    s->bytes = bytes_of(s->g);
    CHECK_EQ_U64(flx_graph_input_count(s->g), 4);
    for (size_t i = 0; i < 4; i++)
        s->feeds[i] = feed_for(s, i);
}

static void stage_end(stage *s)
{
    for (size_t i = 0; i < 4; i++)
        flx_tensor_release(s->feeds[i]);
    flx_buffer_free(&s->bytes);
    flx_module_free(s->module);
    flx_context_free(s->ctx);
}

/* The context still builds, prints and runs. */
static void check_usable(stage *s, uint64_t hash)
{
    flx_error err = {0};
    CHECK_EQ_U64(flx_graph_hash(s->g), hash);
    CHECK_OK(flx_graph_verify(s->g, &err), &err);
    flx_graph *g = graph_of(s->ctx, "graph f() { return add(1, 2) }");
    flx_tensor *out = NULL;
    CHECK_OK(flx_run(g, ON_REF, NULL, 0, &out, &err), &err);
    CHECK(flx_tensor_get(out, 0) == 3.0);
    flx_tensor_release(out);
    flx_graph_release(g);
}

/* Fails request n of the step; false when the step makes fewer requests. */
static bool starve_once(step_fn step, size_t n, bool forever)
{
    fault f = {0};
    stage s;
    flx_error err = {0};
    stage_begin(&s, &f);
    uint64_t hash = flx_graph_hash(s.g);
    size_t before = f.live_blocks;
    f.fail_at = f.calls + n;
    f.forever = forever;
    flx_code code = step(&s, &err);
    bool failed = f.failed > 0;
    f.fail_at = 0;
    f.forever = false;
    test_fail_context("request %zu fails%s", n, forever ? ", and all later ones" : "");
    CHECK_CODE(code, failed ? FLX_E_OOM : FLX_OK, &err);
    CHECK_MSG(!failed || (err.code == FLX_E_OOM && !strchr(err.message, '%')), "the error says %s: %s",
              flx_code_name(err.code), err.message);
    CHECK_MSG(!failed || err.message[0], "an error without a message");
    size_t grown = f.live_blocks - before; /* new symbols in the context are not a leak; debug builds keep headers */
    check_usable(&s, hash);
    stage_end(&s);
    CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked (%zu during the step), %zu errors", f.live_blocks, grown,
              f.errors);
    return failed;
}

static void starve(step_fn step)
{
    for (int forever = 0; forever < 2; forever++) {
        size_t n = 1;
        while (starve_once(step, n, forever != 0)) {
            test_count_case();
            n++;
        }
        CHECK_MSG(n > 1, "the step asks for no memory");
    }
    test_fail_context("%s", "");
}

/* ---- Building ---- */

static flx_graph *build_body(flx_context *ctx, const flx_type *t)
{
    flx_graph *g = flx_graph_new(ctx, "doubled");
    flx_val x = flx_input(g, "x", t);
    flx_output(g, flx_named(g, flx_add(g, x, x), "twice"), NULL);
    return g;
}

static void build_into(flx_graph *g, const flx_graph *body, const flx_type *t)
{
    flx_val x = flx_input(g, "x", t);
    flx_val w = flx_param(g, "w", t);
    flx_val many[12];
    for (int i = 0; i < 12; i++)
        many[i] = flx_named(g, flx_mul(g, x, flx_scalar(g, FLX_F32, i)), "m");
    flx_val joined = flx_concat(g, many, 12, 0);
    flx_val y = flx_reshape(g, flx_add(g, x, w), (flx_ints){(int64_t[]){t->dims[0], 1, 2}, 3});
    flx_attr a = {.key = "fwd_body", .kind = FLX_ATTR_GRAPH, .as.graph = body};
    flx_val z = FLX_NONE;
    flx_op(g, "custom_fn", &x, 1, &a, 1, &z, 1);
    flx_output(g, flx_pin(g, flx_reduce_sum(g, joined, FLX_ALL, -1)), "sum");
    flx_output(g, y, NULL);
    flx_output(g, z, "z");
    flx_output(g, z, "z");
    flx_output(g, flx_print(g, w, "w"), "w2");
}

static flx_code step_build(stage *s, flx_error *err)
{
    flx_dim k = flx_dim_symbol(s->ctx, "K");
    flx_type t = flx_type_make(FLX_F32, 2, (flx_dim[]){flx_dim_mul(s->ctx, k, flx_dim_symbol(s->ctx, "L")), 2});
    flx_graph *body = build_body(s->ctx, &t);
    flx_graph *g = flx_graph_new(s->ctx, "built");
    if (g && body)
        build_into(g, body, &t);
    flx_code code = g ? flx_graph_error(g, err) : FLX_E_OOM;
    if (code == FLX_OK && !body)
        code = FLX_E_OOM;
    if (!g || !body)
        *err = (flx_error){.code = FLX_E_OOM, .message = "no graph"};
    flx_graph_release(body);
    flx_graph_release(g);
    return code;
}

TEST(starved_building_fails_with_oom)
{
    starve(step_build);
}

/* ---- Text and bytes ---- */

static flx_code step_parse(stage *s, flx_error *err)
{
    flx_module *m = flx_parse(s->ctx, rich_text, sizeof rich_text - 1, "t", err);
    flx_module_free(m);
    return m ? FLX_OK : (flx_code)err->code;
}

TEST(starved_parsing_fails_with_oom)
{
    starve(step_parse);
}

static flx_code step_parse_symbols(stage *s, flx_error *err)
{
    static const char text[] = "graph f(x: f32[A*B + C//2, D/3], y: f32[A - B]) {\n"
                               "  z = reshape(x, shape=[-1])\n  w = concat(z, y, axis=0)\n"
                               "  u = pad(y, 0, low=[A], high=[1])\n"
                               "  v = slice(y, start=[1], limit=[A - B], stride=[2])\n  return w, u, v\n}\n";
    flx_module *m = flx_parse(s->ctx, text, sizeof text - 1, "t", err);
    flx_module_free(m);
    return m ? FLX_OK : (flx_code)err->code;
}

TEST(starved_parsing_of_symbols_fails_with_oom)
{
    starve(step_parse_symbols);
}

static flx_code step_print(stage *s, flx_error *err)
{
    flx_buffer out = {0};
    flx_code code = flx_graph_print(s->g, &out, err);
    CHECK(code == FLX_OK || out.data == NULL);
    flx_buffer_free(&out);
    return code;
}

static flx_code step_print_module(stage *s, flx_error *err)
{
    flx_buffer out = {0};
    flx_code code = flx_module_print(s->module, &out, err);
    flx_buffer_free(&out);
    return code;
}

TEST(starved_printing_fails_with_oom)
{
    starve(step_print);
    starve(step_print_module);
}

static flx_code step_encode(stage *s, flx_error *err)
{
    flx_buffer out = {0};
    flx_code code = flx_graph_encode(s->g, &out, err);
    CHECK(code == FLX_OK || out.data == NULL);
    flx_buffer_free(&out);
    return code;
}

TEST(starved_encoding_fails_with_oom)
{
    starve(step_encode);
}

static flx_code step_decode(stage *s, flx_error *err)
{
    flx_module *m = flx_decode(s->ctx, s->bytes.data, s->bytes.size, "b", err);
    flx_module_free(m);
    return m ? FLX_OK : (flx_code)err->code;
}

TEST(starved_decoding_fails_with_oom)
{
    starve(step_decode);
}

/* ---- Passes ---- */

static flx_code step_specialise(stage *s, flx_error *err)
{
    flx_graph *g = flx_specialise(s->g, extents, 2, err);
    flx_graph_release(g);
    return g ? FLX_OK : (flx_code)err->code;
}

static flx_code step_specialise_partly(stage *s, flx_error *err)
{
    flx_graph *g = flx_specialise(s->g, extents + 1, 1, err); /* the rest stays symbolic: new dimensions are made */
    flx_graph_release(g);
    return g ? FLX_OK : (flx_code)err->code;
}

TEST(starved_specialising_fails_with_oom)
{
    starve(step_specialise);
    starve(step_specialise_partly);
}

static flx_code run_pass(stage *s, flxi_pass pass, flx_error *err)
{
    flx_graph *out = NULL;
    flxi_remap remap = {0};
    flx_code code = pass(s->g, &out, &remap, err);
    CHECK(code == FLX_OK || (out == NULL && remap.id == NULL));
    flxi_remap_free(&remap);
    flx_graph_release(out);
    return code;
}

static flx_code step_dce(stage *s, flx_error *err)
{
    return run_pass(s, flxi_pass_dce, err);
}

static flx_code step_cse(stage *s, flx_error *err)
{
    return run_pass(s, flxi_pass_cse, err);
}

TEST(starved_passes_fail_with_oom)
{
    starve(step_dce);
    starve(step_cse);
}

static flx_code step_verify(stage *s, flx_error *err)
{
    return flx_graph_verify(s->g, err);
}

TEST(starved_verifying_fails_with_oom)
{
    starve(step_verify);
}

/* ---- Running ---- */

static flx_code step_run(stage *s, flx_error *err)
{
    flx_feed feeds[4];
    flx_tensor *out[16] = {NULL};
    CHECK(flx_graph_output_count(s->g) <= 16);
    for (size_t i = 0; i < 4; i++)
        feeds[i] = (flx_feed){flx_val_name(s->g, flx_graph_input(s->g, i)), s->feeds[i]};
    flx_code code = flx_run(s->g, ON_REF, feeds, 4, out, err);
    for (size_t i = 0; i < 16; i++) {
        CHECK(code == FLX_OK || out[i] == NULL);
        flx_tensor_release(out[i]);
    }
    return code;
}

TEST(starved_running_fails_with_oom)
{
    starve(step_run);
}

TEST(starved_context_is_not_made)
{
    for (size_t n = 1;; n++) {
        fault f = {.fail_at = n};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
        if (ctx)
            break;
        CHECK(f.failed == 1);
    }
}
