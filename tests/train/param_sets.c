/* SPDX-License-Identifier: Apache-2.0 */
/* param_sets.c: sets of parameters: made from graphs, initialised by name, saved and loaded, shared between trainers
   and executables. */
#include "fault.h"
#include "trainee.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static flx_tensor *vector(flx_context *ctx, const float *x, int64_t n)
{
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){n});
    return flx_tensor_new(ctx, &type, x, NULL);
}

static bool same(const flx_tensor *a, const flx_tensor *b)
{
    return a && b && flx_tensor_nbytes(a) == flx_tensor_nbytes(b) &&
           memcmp(flx_tensor_const_data(a), flx_tensor_const_data(b), flx_tensor_nbytes(a)) == 0;
}

/* ---- Names ---- */

TEST(params_match_names_by_patterns)
{
    static const struct {
        const char *pattern, *name;
        int matches;
    } rows[] = {
        {"w", "w", 1},
        {"w", "w1", 0},
        {"", "", 1},
        {"", "w", 0},
        {"*", "", 1},
        {"*", "a.b", 1},
        {"*.b", "net.0.b", 1},
        {"*.b", "net.0.beta", 0},
        {"net.?.w", "net.0.w", 1},
        {"net.?.w", "net.10.w", 0},
        {"?", "", 0},
        {"a*b*c", "aXbYbZc", 1},
        {"a*b*c", "aXbYbZ", 0},
        {"**", "x", 1},
        {"*a", "aaab", 0},
        {"*aab", "aaaab", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        EXPECT_MSG(flx_name_matches(rows[i].pattern, rows[i].name) == rows[i].matches, "'%s' and '%s'", rows[i].pattern,
                   rows[i].name);
    CHECK(!flx_name_matches(NULL, "a") && !flx_name_matches("a", NULL));
    char name[2001], pattern[41]; /* patterns take no exponential time */
    memset(name, 'a', 2000);
    name[2000] = 0;
    for (int i = 0; i < 20; i++)
        memcpy(pattern + 2 * i, "*a", 2);
    pattern[39] = 'b';
    pattern[40] = 0;
    CHECK(!flx_name_matches(pattern, name));
}

/* ---- Making ---- */

#define NET                                                                                                            \
    "graph f(x: f32[N, 3], param net.w: f32[3, 4], param net.b: f32[4], param net.gamma: f32[4], param key: u32[2],\n" \
    "        param table: i32[5]) {\n"                                                                                 \
    "  return reduce_sum(mul(add(matmul(x, net.w), net.b), net.gamma))\n}\n"

TEST(params_are_initialised_by_name)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, NET, FLX_F32);
    flx_params *a = flx_params_of(g, 7, &err), *b = flx_params_of(g, 7, &err), *c = flx_params_of(g, 8, &err);
    CHECK_MADE(a, &err);
    CHECK(flx_params_count(a) == 5 && strcmp(flx_params_name(a, 1), "net.b") == 0 && !flx_params_name(a, 5));
    CHECK(flx_params_elements(a, NULL) == 12 + 4 + 4 + 2 + 5 && flx_params_elements(a, "net.*") == 20);
    CHECK(same(flx_params_find(a, "net.w"), flx_params_find(b, "net.w")));
    CHECK(!same(flx_params_find(a, "net.w"), flx_params_find(c, "net.w")));
    CHECK(!same(flx_params_find(a, "key"), flx_params_find(c, "key")));
    CHECK_NEAR(flx_tensor_get(flx_params_find(a, "net.b"), 2), 0, 0);
    CHECK_NEAR(flx_tensor_get(flx_params_find(a, "net.gamma"), 2), 1, 0);
    CHECK(!flx_params_find(a, "table") && !flx_params_at(a, 4) && !flx_params_find(a, "x"));
    /* A larger graph leaves the values of the others as they are. */
    flx_graph *more = trainee_graph(ctx,
                                    "graph g(param first: f32[2], param net.w: f32[3, 4], param last: f32[2, 2]) {\n"
                                    "  return add(reduce_sum(net.w), add(reduce_sum(first), reduce_sum(last)))\n}\n",
                                    FLX_F32);
    flx_params *d = flx_params_of(more, 7, &err);
    CHECK(same(flx_params_find(a, "net.w"), flx_params_find(d, "net.w")));
    const flx_tensor *kept = flx_params_find(c, "net.w");
    CHECK_OK(flx_params_join(c, more, 7, &err), &err);
    CHECK(flx_params_count(c) == 7 && flx_params_find(c, "net.w") == kept);
    CHECK(same(flx_params_find(c, "last"), flx_params_find(d, "last")));
    flx_params_release(a);
    flx_params_release(b);
    flx_params_release(c);
    flx_params_release(d);
    flx_graph_release(more);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(params_refuse_what_does_not_fit)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, NET, FLX_F32);
    flx_params *s = flx_params_of(g, 1, &err);
    flx_tensor *five = vector(ctx, (float[]){1, 2, 3, 4, 5}, 5);
    static const struct {
        const char *text;
        flx_code code;
    } rows[] = {
        {"graph h(param other: f32[2], param net.b: f32[5]) { return reduce_sum(net.b) }\n", FLX_E_SHAPE},
        {"graph h(param other: f32[2], param net.b: f64[4]) { return reduce_sum(net.b) }\n", FLX_E_DTYPE},
        {"graph h(param other: f32[2], param net.d: f32[N]) { return reduce_sum(net.d) }\n", FLX_E_UNBOUND_DIM},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_graph *h = trainee_graph(ctx, rows[i].text, FLX_F32);
        CHECK_CODE(flx_params_join(s, h, 1, &err), rows[i].code, &err);
        CHECK(flx_params_count(s) == 5 && !flx_params_find(s, "other"));
        flx_graph_release(h);
    }
    CHECK_CODE(flx_params_set(s, "net.b", five, &err), FLX_E_SHAPE, &err);
    CHECK_CODE(flx_params_set(s, "table", five, &err), FLX_E_DTYPE, &err);
    CHECK_CODE(flx_params_set(s, "nothing", five, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_params_add(s, "net.b", five, &err), FLX_E_DUP_NAME, &err);
    CHECK_OK(flx_params_add(s, "extra", five, &err), &err);
    CHECK(same(flx_params_find(s, "extra"), five) && flx_params_find(s, "extra") != five);
    CHECK(!flx_params_of(NULL, 1, &err) && !flx_params_new(NULL, &err));
    CHECK_CODE(flx_params_set(NULL, "a", five, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_params_save(s, NULL, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_params_load(s, "x", 64, &err), FLX_E_USAGE, &err);
    CHECK(flx_params_count(NULL) == 0 && !flx_params_at(NULL, 0) && flx_params_elements(NULL, NULL) == 0);
    flx_tensor_release(five);
    flx_params_release(s);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Files ---- */

static const char *temporary(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    return path;
}

TEST(params_are_saved_and_loaded)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, trainee_network, FLX_F32);
    flx_params *a = flx_params_of(g, 1, &err), *b = flx_params_of(g, 2, &err);
    const char *path = temporary("a.safetensors");
    CHECK_OK(flx_params_save(a, path, &err), &err);
    CHECK_OK(flx_params_load(b, path, 0, &err), &err);
    for (size_t i = 0; i < flx_params_count(a); i++)
        CHECK(same(flx_params_at(a, i), flx_params_at(b, i)));
    flx_tensor *two = vector(ctx, (float[]){5, 6}, 2);
    CHECK_OK(flx_params_add(b, "c1", two, &err), &err);
    for (int i = 0; i < 5; i++) {
        char name[10];
        snprintf(name, sizeof name, "d%d", i);
        CHECK_OK(flx_params_add(b, name, two, &err), &err);
    }
    CHECK_CODE(flx_params_load(b, path, 0, &err), FLX_E_NAME, &err);
    CHECK_EQ_STR(err.message, "the file lacks the parameters 'c1', 'd0', 'd1', 'd2' and 2 more");
    CHECK_OK(flx_params_load(b, path, FLX_PARAMS_MISSING, &err), &err);
    CHECK_OK(flx_params_save(b, path, &err), &err);
    CHECK_CODE(flx_params_load(a, path, FLX_PARAMS_MISSING, &err), FLX_E_NAME, &err);
    CHECK(strstr(err.message, "'c1'"));
    CHECK_OK(flx_params_load(a, path, FLX_PARAMS_SURPLUS, &err), &err);
    /* A tensor that does not fit: nothing is changed, also not those before it. */
    flx_params *c = flx_params_new(ctx, &err);
    CHECK_OK(flx_params_add(c, "b1", two, &err), &err);
    flx_tensor *before = flx_tensor_new(ctx, flx_tensor_type(two), flx_tensor_const_data(two), &err);
    CHECK_CODE(flx_params_load(c, path, FLX_PARAMS_SURPLUS, &err), FLX_E_SHAPE, &err);
    CHECK(same(flx_params_find(c, "b1"), before) && strstr(err.message, "'b1'"));
    CHECK(flx_params_load(c, temporary("nothing"), 0, &err) != FLX_OK);
    flx_tensor_release(before);
    flx_tensor_release(two);
    flx_params_release(a);
    flx_params_release(b);
    flx_params_release(c);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* ---- Sharing ---- */

#define GAN                                                                                                         \
    "graph %s(z: f32[8, 2], x: f32[8, 2], param gen.w: f32[2, 2], param gen.b: f32[2], param dis.w: f32[2, 1]) {\n" \
    "  fake = add(matmul(z, gen.w), gen.b)\n  real = matmul(x, dis.w)\n  made = matmul(fake, dis.w)\n"

/* Two trainers on one set, and an executable of the second one's graph. */
typedef struct {
    flx_context *ctx;
    flx_graph *critic, *maker;
    flx_params *set;
    flx_trainer *d, *m;
    flx_exec *e;
    flx_tensor *z, *x;
    flx_feed feeds[2];
} shared_set;

static flx_trainer *shared_trainer(const shared_set *c, const flx_graph *g, const char *part)
{
    flx_error err = {0};
    flx_train_options o = {.struct_size = sizeof o, .optimiser = FLX_ADAM, .rate = 0.05, .set = c->set};
    o.params = &part;
    o.num_params = 1;
    flx_trainer *t = flx_compile_training(g, &o, NULL, &err);
    CHECK_MADE(t, &err);
    CHECK(flx_trainer_params(t) == c->set);
    return t;
}

static void shared_begin(shared_set *c)
{
    char text[2000];
    uint64_t seed = 5;
    flx_error err = {0};
    const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){8, 2});
    *c = (shared_set){.ctx = flx_context_new(NULL)};
    snprintf(text, sizeof text, GAN "  return add(reduce_mean(square(sub(real, 1.0))), reduce_mean(square(made)))\n}\n",
             "critic");
    c->critic = trainee_graph(c->ctx, text, FLX_F32);
    snprintf(text, sizeof text, GAN "  return reduce_mean(square(sub(made, 1.0))), fake\n}\n", "maker");
    c->maker = trainee_graph(c->ctx, text, FLX_F32);
    c->set = flx_params_of(c->critic, 3, &err);
    c->d = shared_trainer(c, c->critic, "dis.*");
    c->m = shared_trainer(c, c->maker, "gen.*");
    c->e = flx_compile(c->maker, NULL, &err);
    CHECK_OK(flx_params_bind(c->set, c->e, &err), &err);
    c->z = trainee_random(c->ctx, &type, &seed);
    c->x = trainee_random(c->ctx, &type, &seed);
    c->feeds[0] = (flx_feed){"z", c->z};
    c->feeds[1] = (flx_feed){"x", c->x};
}

static void shared_end(shared_set *c)
{
    flx_exec_free(c->e);
    flx_tensor_release(c->z);
    flx_tensor_release(c->x);
    flx_graph_release(c->critic);
    flx_graph_release(c->maker);
    flx_context_free(c->ctx);
}

/* The loss of the executable; its other output is not needed. */
static double shared_loss(const shared_set *c)
{
    flx_error err = {0};
    flx_tensor *out[2];
    CHECK_OK(flx_exec_run(c->e, NULL, c->feeds, 2, out, &err), &err);
    double loss = flx_tensor_get(out[0], 0);
    flx_tensor_release(out[0]);
    flx_tensor_release(out[1]);
    return loss;
}

/* Each updates its own part, and sees what the other did. */
static void shared_steps(const shared_set *c)
{
    flx_error err = {0};
    double loss;
    flx_tensor *gen = flx_trainer_param(c->m, "gen.w", &err), *dis = flx_trainer_param(c->d, "dis.w", &err);
    CHECK_OK(flx_trainer_step(c->d, c->feeds, 2, NULL, &err), &err);
    CHECK(same(gen, flx_params_find(c->set, "gen.w")) && !same(dis, flx_params_find(c->set, "dis.w")));
    flx_tensor_release(dis);
    dis = flx_trainer_param(c->m, "dis.w", &err); /* the other sees it */
    CHECK(same(dis, flx_params_find(c->set, "dis.w")));
    double before = shared_loss(c);
    CHECK_OK(flx_trainer_step(c->m, c->feeds, 2, &loss, &err), &err);
    CHECK(!same(gen, flx_params_find(c->set, "gen.w")) && same(dis, flx_params_find(c->set, "dis.w")));
    CHECK_NEAR(before, loss, 1e-6); /* of the parameters as they were before this step */
    flx_tensor_release(gen);
    flx_tensor_release(dis);
}

TEST(params_are_shared_by_two_trainers_and_an_executable)
{
    shared_set c;
    flx_error err = {0};
    shared_begin(&c);
    CHECK(flx_params_find(flx_trainer_state(c.d), "state_dis.w_m") &&
          !flx_params_find(flx_trainer_state(c.d), "state_gen.w_m"));
    for (int k = 0; k < 5; k++)
        shared_steps(&c);
    flx_trainer_free(c.d);
    flx_params_release(c.set); /* the trainer holds it */
    CHECK_OK(flx_trainer_step(c.m, c.feeds, 2, NULL, &err), &err);
    flx_trainer_free(c.m);
    shared_loss(&c); /* the executable holds the tensors */
    shared_end(&c);
}

TEST(params_of_an_executable_are_checked)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g =
        trainee_graph(ctx, "graph f(x: f32[2], param p: f32[2]) { return reduce_sum(mul(x, p)) }\n", FLX_F32);
    flx_exec *e = flx_compile(g, &(flx_compile_options){.flags = FLX_COMPILE_INTERPRET}, &err);
    CHECK_MADE(e, &err);
    flx_tensor *three = vector(ctx, (float[]){1, 2, 3}, 3), *two = vector(ctx, (float[]){1, 2}, 2);
    CHECK_EQ_STR(flx_exec_param_name(e, 0), "p");
    CHECK(!flx_exec_param_name(e, 1) && !flx_exec_param_name(NULL, 0));
    CHECK_CODE(flx_exec_share_param(e, "p", three, &err), FLX_E_SHAPE, &err);
    CHECK_CODE(flx_exec_share_param(e, "x", two, &err), FLX_E_NAME, &err);
    CHECK_CODE(flx_exec_share_param(e, "p", NULL, &err), FLX_E_USAGE, &err);
    flx_params *s = flx_params_new(ctx, &err);
    CHECK_CODE(flx_params_bind(s, e, &err), FLX_E_NAME, &err);
    CHECK_OK(flx_params_add(s, "p", two, &err), &err);
    CHECK_OK(flx_params_bind(s, e, &err), &err);
    ((float *)flx_tensor_data(flx_params_find(s, "p")))[0] = 10;
    flx_tensor *out;
    CHECK_OK(flx_exec_run(e, NULL, &(flx_feed){"x", two}, 1, &out, &err), &err);
    CHECK_NEAR(flx_tensor_get(out, 0), 14, 0);
    flx_tensor_release(out);
    flx_params_release(s);
    flx_tensor_release(two);
    flx_tensor_release(three);
    flx_exec_free(e);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* A set of another type, or of another context. */
TEST(trainer_refuses_a_set_that_does_not_fit)
{
    flx_context *ctx = flx_context_new(NULL), *other = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = trainee_graph(ctx, "graph f(param p: f32[2]) { return reduce_sum(square(p)) }\n", FLX_F32);
    flx_tensor *three = vector(ctx, (float[]){1, 2, 3}, 3);
    flx_params *s = flx_params_new(ctx, &err), *foreign = flx_params_new(other, &err);
    CHECK_OK(flx_params_add(s, "p", three, &err), &err);
    flx_compile_options c = {.flags = FLX_COMPILE_INTERPRET};
    CHECK(!flx_compile_training(g, &(flx_train_options){.struct_size = sizeof(flx_train_options), .set = s}, &c, &err));
    CHECK_EQ_I64(err.code, FLX_E_SHAPE);
    CHECK(!flx_compile_training(g, &(flx_train_options){.struct_size = sizeof(flx_train_options), .set = foreign}, &c,
                                &err));
    CHECK_EQ_I64(err.code, FLX_E_USAGE);
    flx_params_release(s);
    flx_params_release(foreign);
    flx_tensor_release(three);
    flx_graph_release(g);
    flx_context_free(ctx);
    flx_context_free(other);
}

/* ---- Memory that runs out ---- */

static flx_code use_set(fault *f)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = f});
    flx_error err = {0};
    flx_code code = FLX_E_OOM;
    flx_graph *g = ctx ? flx_graph_new(ctx, "f") : NULL;
    flx_params *s = NULL;
    if (g) {
        const flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){3, 2});
        flx_param(g, "p", &type);
        flx_output(g, flx_param(g, "q", &type), "y");
        s = flx_params_of(g, 1, &err);
        code = s ? flx_params_save(s, temporary("oom.safetensors"), &err) : (flx_code)err.code;
        if (code == FLX_OK)
            code = flx_params_load(s, temporary("oom.safetensors"), 0, &err);
        CHECK(code == FLX_OK || err.message[0]);
    }
    flx_params_release(s);
    flx_graph_release(g);
    flx_context_free(ctx);
    return code;
}

TEST(params_survive_any_failed_allocation)
{
    fault whole = {0};
    CHECK(use_set(&whole) == FLX_OK && fault_is_clean(&whole));
    for (size_t n = 1; n <= whole.calls; n++) {
        fault f = {.fail_at = n};
        test_fail_context("request %zu of %zu", n, whole.calls);
        flx_code code = use_set(&f);
        CHECK_MSG(code == FLX_E_OOM || code == FLX_OK, "%s", flx_code_name(code));
        CHECK(fault_is_clean(&f));
    }
}
