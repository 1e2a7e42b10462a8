/* SPDX-License-Identifier: Apache-2.0 */
/* graph_init.c: the initialisation that a parameter carries: it is printed, encoded, copied and inlined with the
   parameter, and changes neither the hash nor what a graph computes. */
#include "graph/graph_text.h"

#include "base/hash.h"

static const char initialised[] =
    "graph f(x: f32[2, 3], param w: f32[3, 4] ~ he_normal, param b: f32[4] ~ zeros, param c: f32[4] ~ constant(0),\n"
    "        param s: f32[] ~ constant(-0.5), param t: f32[4] ~ truncated_normal(0.02), param k: u32[2] ~ key,\n"
    "        param q: f32[4] ~ ones, param gamma: f32[4], param r: f32[4, 4] ~ orthogonal(1.5)) {\n"
    "  y = matmul(add(matmul(x, w), add(add(b, c), add(t, q))), r)\n"
    "  return mul(mul(y, gamma), s), k\n"
    "}\n";

static const struct {
    const char *name;
    int32_t kind;
    double scale;
} wanted[] = {{"w", FLX_INIT_HE_NORMAL, 1},
              {"b", FLX_INIT_ZEROS, 1},
              {"c", FLX_INIT_CONSTANT, 0},
              {"s", FLX_INIT_CONSTANT, -0.5},
              {"t", FLX_INIT_TRUNCATED_NORMAL, 0.02},
              {"k", FLX_INIT_KEY, 1},
              {"q", FLX_INIT_ONES, 1},
              {"gamma", FLX_INIT_ONES, 1},
              {"r", FLX_INIT_ORTHOGONAL, 1.5}};

enum { NUM_WANTED = sizeof wanted / sizeof *wanted };

static flx_init init_of(const flx_graph *g, const char *name)
{
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        if (strcmp(flx_val_name(g, flx_graph_input(g, i)), name) == 0)
            return flx_graph_input_init(g, i);
    return (flx_init){-1, 0, 0};
}

/* Every parameter that g has is initialised as wanted; at least `least` of them are there. */
static void check_inits(const char *what, const flx_graph *g, size_t least)
{
    size_t found = 0;
    flx_error err = {0};
    CHECK_OK(flx_graph_verify(g, &err), &err);
    for (size_t k = 0; k < NUM_WANTED; k++) {
        flx_init init = init_of(g, wanted[k].name);
        if (init.kind < 0)
            continue;
        found++;
        EXPECT_MSG(init.kind == wanted[k].kind && init.scale == wanted[k].scale, "%s: %s is %d, %g", what,
                   wanted[k].name, init.kind, init.scale);
    }
    CHECK_MSG(found >= least, "%s: only %zu parameters", what, found);
}

TEST(init_is_read_printed_and_encoded)
{
    flx_context *ctx = flx_context_new(NULL), *other = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, initialised);
    check_inits("text", g, NUM_WANTED);
    check_round_trip(g);
    flx_buffer text = text_of(g), bytes = bytes_of(g);
    CHECK(strstr(text.data, "param w: f32[3, 4] ~ he_normal, param b: f32[4] ~ zeros, param c: f32[4] ~ constant(0)"));
    CHECK(strstr(text.data, "param gamma: f32[4], "));
    flx_module *m = flx_decode(other, bytes.data, bytes.size, "b", &err);
    CHECK_MSG(m, "%s", err.message);
    check_inits("binary", flx_module_main(m), NUM_WANTED);
    flx_module_free(m);
    flx_buffer_free(&text);
    flx_buffer_free(&bytes);
    flx_graph_release(g);
    flx_context_free(other);
    flx_context_free(ctx);
}

/* Files of version 1 are what is written for a graph without initialisations, but for the number. */
TEST(init_files_of_the_first_version_are_read)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, "graph f(param w: f32[3]) { return exp(w) }");
    flx_buffer bytes = bytes_of(g);
    CHECK_EQ_I64(bytes.data[4], 2);
    bytes.data[4] = 1;
    flx_module *m = flx_decode(ctx, bytes.data, bytes.size, "b", &err);
    CHECK_MSG(m, "%s", err.message);
    CHECK_EQ_U64(flx_graph_hash(flx_module_main(m)), flx_graph_hash(g));
    flx_module_free(m);
    bytes.data[4] = 3;
    CHECK(!flx_decode(ctx, bytes.data, bytes.size, "b", &err) && err.code == FLX_E_VERSION);
    flx_buffer_free(&bytes);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* An unknown kind of a later version is reported as such. */
TEST(init_of_a_newer_version_is_an_error)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, "graph f(param w: f32[3] ~ he_normal) { return exp(w) }");
    flx_buffer bytes = bytes_of(g);
    for (size_t i = 24; i + 9 < bytes.size; i++)
        if (memcmp(bytes.data + i, "he_normal", 9) == 0)
            bytes.data[i] = 'x';
    uint64_t sum = flxi_hash_bytes(FLXI_HASH_SEED, bytes.data + 24, bytes.size - 24);
    for (int i = 0; i < 8; i++)
        bytes.data[16 + i] = (char)(sum >> (8 * i));
    CHECK(!flx_decode(ctx, bytes.data, bytes.size, "b", &err) && err.code == FLX_E_VERSION);
    flx_buffer_free(&bytes);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(init_does_not_change_the_hash)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *a = graph_of(ctx, "graph f(param w: f32[3]) { return exp(w) }");
    flx_graph *b = graph_of(ctx, "graph f(param w: f32[3] ~ normal(0.02)) { return exp(w) }");
    CHECK_EQ_U64(flx_graph_hash(a), flx_graph_hash(b));
    flx_graph_release(a);
    flx_graph_release(b);
    flx_context_free(ctx);
}

TEST(init_goes_with_copies_and_transforms)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g =
        graph_of(ctx, "graph f(x: f32[N, 3], param w: f32[3, 4] ~ he_normal, param s: f32[] ~ constant(-0.5)) "
                      "{ loss = reduce_mean(square(mul(matmul(x, w), s)))  return loss }");
    flx_graph *copies[] = {flx_specialise(g, &(flx_dim_binding){"N", 4}, 1, &err),
                           flx_grad(g, (const char *const[]){"w"}, 1, NULL, &err),
                           flx_jvp(g, (const char *const[]){"w"}, 1, &err),
                           flx_training_graph(g, NULL, &err),
                           flx_taylor(g, (const char *const[]){"w"}, 1, 2, &err),
                           flx_vmap(g, NULL, 0, NULL, 0, 5, &err),
                           flx_mixed_precision(g, FLX_BF16, &err)};
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        char what[20];
        snprintf(what, sizeof what, "copy %zu", i);
        CHECK_MSG(copies[i], "%s: %s", what, err.message);
        check_inits(what, copies[i], 2);
        flx_graph_release(copies[i]);
    }
    flx_graph *larger = flx_graph_new(ctx, "larger");
    flx_inline(larger, g, NULL, 0, NULL, 0);
    check_inits("inlined", larger, 2);
    flx_graph_release(larger);
    flx_graph_release(g);
    flx_context_free(ctx);
}

/* A parameter with a further axis holds several: each gets the numbers that one would have got. */
TEST(init_of_mapped_parameters_is_that_of_one)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, "graph f(param w: f32[24, 4] ~ he_uniform, param r: f32[4, 4] ~ orthogonal) "
                                 "{ return matmul(w, r) }");
    const flx_vmap_axis axes[] = {{"w", 0}, {"r", 0}};
    flx_graph *many = flx_vmap(g, axes, 2, NULL, 0, 5, &err);
    CHECK_MSG(many, "%s", err.message);
    CHECK_OK(flx_graph_verify(many, &err), &err);
    flx_init w = init_of(many, "w"), r = init_of(many, "r");
    CHECK(w.kind == FLX_INIT_UNIFORM && w.scale == 0.5);
    CHECK(r.kind == FLX_INIT_XAVIER_UNIFORM); /* cannot be said for several: what is usual */
    flx_graph_release(many);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(init_is_replaced_and_taken_back)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_graph *g = graph_of(ctx, initialised);
    flx_val w = flx_graph_find(g, "w");
    CHECK(flx_set_init(g, w, (flx_init){FLX_INIT_UNIFORM, 0, 0.1}).id == w.id);
    CHECK(init_of(g, "w").kind == FLX_INIT_UNIFORM && init_of(g, "w").scale == 0.1);
    flx_set_init(g, w, (flx_init){0});
    CHECK(init_of(g, "w").kind == FLX_INIT_XAVIER_UNIFORM);
    flx_buffer text = text_of(g);
    CHECK(strstr(text.data, "param w: f32[3, 4], "));
    flx_buffer_free(&text);
    CHECK_OK(flx_graph_error(g, &err), &err);
    CHECK(flx_graph_input_init(g, 0).kind == FLX_INIT_USUAL && flx_graph_input_init(g, 99).kind == FLX_INIT_USUAL);
    CHECK(flx_graph_input_init(NULL, 0).kind == FLX_INIT_USUAL);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(init_usual_goes_by_the_name)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = graph_of(ctx, "graph f(param n.gamma: f32[2], param a.q.b: f32[2], param beta: f32[2], param bias: "
                                 "f32[2], param a.q.w: f32[2, 2], param steps: i64[], param abc: f32[2]) { return }");
    static const int32_t kinds[] = {FLX_INIT_ONES,           FLX_INIT_ZEROS, FLX_INIT_ZEROS,         FLX_INIT_ZEROS,
                                    FLX_INIT_XAVIER_UNIFORM, FLX_INIT_ZEROS, FLX_INIT_XAVIER_UNIFORM};
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        CHECK_EQ_I64(flx_graph_input_init(g, i).kind, kinds[i]);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(init_misuse_stays_in_the_graph)
{
    flx_context *ctx = flx_context_new(NULL);
    const struct {
        const char *name;
        flx_init init;
        flx_code code;
    } rows[] = {{"x", {FLX_INIT_ZEROS, 0, 0}, FLX_E_USAGE},    {"loss", {FLX_INIT_ZEROS, 0, 0}, FLX_E_USAGE},
                {"none", {FLX_INIT_ZEROS, 0, 0}, FLX_E_USAGE}, {"w", {99, 0, 0}, FLX_E_USAGE},
                {"w", {FLX_INIT_NORMAL, 0, -2}, FLX_E_USAGE},  {"w", {FLX_INIT_KEY, 0, 0}, FLX_E_DTYPE},
                {"w", {FLX_INIT_IDENTITY, 0, 0}, FLX_E_SHAPE}, {"i", {FLX_INIT_NORMAL, 0, 0}, FLX_E_DTYPE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        flx_graph *g = graph_of(ctx, "graph f(x: f32[3], param w: f32[3], param i: i32[3]) "
                                     "{ loss = reduce_sum(mul(x, w))  return loss, i }");
        CHECK(flx_set_init(g, flx_graph_find(g, rows[i].name), rows[i].init).id == 0);
        CHECK_MSG(flx_graph_error(g, &err) == rows[i].code, "row %zu: %s", i, err.message);
        flx_graph_release(g);
    }
    CHECK(flx_set_init(NULL, FLX_NONE, (flx_init){0}).id == 0);
    flx_context_free(ctx);
}

TEST(init_text_that_is_wrong_says_so)
{
    flx_context *ctx = flx_context_new(NULL);
    const struct {
        const char *decl;
        flx_code code;
    } rows[] = {{"param w: f32[3] ~", FLX_E_SYNTAX},
                {"param w: f32[3] ~ 3", FLX_E_SYNTAX},
                {"param w: f32[3] ~ normal(", FLX_E_SYNTAX},
                {"param w: f32[3] ~ normal()", FLX_E_SYNTAX},
                {"param w: f32[3] ~ normal(x)", FLX_E_SYNTAX},
                {"param w: f32[3] ~ normal(1, 2)", FLX_E_SYNTAX},
                {"param w: f32[3] ~ normal(0)", FLX_E_USAGE},
                {"param w: f32[3] ~ normal(-1)", FLX_E_USAGE},
                {"param w: f32[3] ~ normal(inf)", FLX_E_USAGE},
                {"param w: f32[3] ~ normal ~ zeros", FLX_E_SYNTAX},
                {"param w: f32[3] ~ gaussian", FLX_E_NAME},
                {"param w: f32[3] ~ usual", FLX_E_NAME},
                {"param w: f32[3] ~ constant", FLX_E_USAGE},
                {"param w: i32[3] ~ normal", FLX_E_DTYPE},
                {"param w: f32[3] ~ identity", FLX_E_SHAPE},
                {"w: f32[3] ~ zeros", FLX_E_USAGE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[200];
        flx_error err = {0};
        snprintf(text, sizeof text, "graph f(%s) { return w }", rows[i].decl);
        CHECK_MSG(!flx_parse(ctx, text, strlen(text), "t", &err), "%s", text);
        CHECK_MSG(err.code == (int32_t)rows[i].code, "%s: %s (%s)", text, err.message, flx_code_name(err.code));
        CHECK_MSG(strncmp(err.where, "t:1:", 4) == 0, "%s: %s", text, err.where);
    }
    flx_context_free(ctx);
}
