/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisation: numbers worked out by hand (every statistic is a power of two, so that they are exact), in both modes
   and with backward ops; results of degenerate rows; dtypes of cotangents. */
#include "ops/run_text.h"
#include "ops/tangent_text.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

typedef tangent_row row;

/* Gradients from the cotangent d_output, by decomposition and with backward ops. */
static void check_gradients(const char *text, const char *const *wrt, size_t count, const row *at, size_t n,
                            const row *want, size_t num_want)
{
    static const uint32_t flags[] = {0, FLX_GRAD_BACKWARD_OPS};
    for (size_t i = 0; i < COUNT(flags); i++) {
        tangent_graph t = tangent_parse(text);
        flx_grad_options o = {.flags = FLX_GRAD_SEED_INPUT | flags[i]};
        tangent_check(&t, flx_grad(t.g, wrt, count, &o, &t.err), at, n, want, num_want);
        tangent_end(&t);
    }
}

/* With x = [0, 2]: mean 1, variance 1, and with eps = 3 r = 1/2, x̂ = [-1/2, 1/2]. */
#define LAYER \
    "graph f(x: f64[1, 2], gamma: f64[2], beta: f64[2]) {\n  y = layer_norm(x, gamma, beta, eps=3)\n  return y\n}"
/* With x = [0, 2] and eps = 2: r = 1/2. */
#define RMS "graph f(x: f64[1, 2], gamma: f64[2], beta: f64[2]) {\n  y = rms_norm(x, gamma, beta, eps=2)\n  return y\n}"

static const char *const by_x[] = {"x"};

/* ---- Traps ---- */

/* Frozen statistics would give γ r ẋ = [1/2, 0] and [0, 1/2]. */
TEST(trap_43_norm_tangent_with_frozen_statistics)
{
    const row layer[] = {{"x", {0, 2}}, {"gamma", {1, 1}}, {"beta", {0, 0}}, {"tangent_x", {1, 0}}};
    check_tangent(LAYER, by_x, 1, layer, 4, (row){"tangent_y", {3.0 / 16, -3.0 / 16}});
    const row rms[] = {{"x", {0, 2}}, {"gamma", {1, 1}}, {"beta", {0, 0}}, {"tangent_x", {0, 1}}};
    check_tangent(RMS, by_x, 1, rms, 4, (row){"tangent_y", {0, 0.25}});
    const char *group = "graph f(x: f64[1, 2, 2], gamma: f64[2], beta: f64[2]) {\n"
                        "  y = group_norm(x, gamma, beta, num_groups=2, eps=3)\n  return y\n}";
    const row both[] = {{"x", {0, 2, 5, 7}}, {"gamma", {1, 4}}, {"beta", {0, 0}}, {"tangent_x", {1, 0, 0, 1}}};
    check_tangent(group, by_x, 1, both, 4, (row){"tangent_y", {3.0 / 16, -3.0 / 16, -3.0 / 4, 3.0 / 4}});
}

/* Of [1, 3] the variance is 1, but the mean of squares 5. */
TEST(trap_44_group_norm_tangent_has_the_centred_variance)
{
    const char *text = "graph f(x: f64[1, 2], gamma: f64[2], beta: f64[2]) {\n"
                       "  y = group_norm(x, gamma, beta, num_groups=1, eps=3)\n  return y\n}";
    const row at[] = {{"x", {1, 3}}, {"gamma", {1, 1}}, {"beta", {0, 0}}, {"tangent_x", {1, 0}}};
    check_tangent(text, by_x, 1, at, 4, (row){"tangent_y", {3.0 / 16, -3.0 / 16}});
}

TEST(trap_45_norm_tangent_when_only_a_parameter_has_one)
{
    static const char *const by_gamma[] = {"gamma"};
    static const char *const by_beta[] = {"beta"};
    const row gamma[] = {{"x", {0, 2}}, {"gamma", {1, 1}}, {"beta", {0, 0}}, {"tangent_gamma", {4, 8}}};
    const row beta[] = {{"x", {0, 2}}, {"gamma", {1, 1}}, {"beta", {0, 0}}, {"tangent_beta", {4, 8}}};
    check_tangent(LAYER, by_gamma, 1, gamma, 4, (row){"tangent_y", {-2, 4}});
    check_tangent(LAYER, by_beta, 1, beta, 4, (row){"tangent_y", {4, 8}});
    check_tangent(RMS, by_gamma, 1, gamma, 4, (row){"tangent_y", {0, 8}});
    check_tangent(RMS, by_beta, 1, beta, 4, (row){"tangent_y", {4, 8}});
}

/* One factor r too many gives 3/8 instead of 1/4. */
TEST(trap_46_rms_norm_cotangent_has_the_third_power_of_r)
{
    const row at[] = {{"x", {0, 2}}, {"gamma", {1, 1}}, {"beta", {0, 0}}, {"d_output", {0, 1}}};
    const row want[] = {{"d_x", {0, 0.25}}};
    check_gradients(RMS, by_x, 1, at, COUNT(at), want, COUNT(want));
}

TEST(trap_47_layer_norm_backward_gamma_batches_per_example)
{
    tangent_graph t = tangent_parse(
        "graph f(x: f64[1, 2], dy: f64[1, 2]) {\n  d = layer_norm_backward_gamma(x, dy, eps=3)\n  return d\n}");
    const flx_vmap_axis axes[] = {{"x", 0}, {"dy", 0}};
    const row at[] = {{"x", {0, 2, 2, 0}}, {"dy", {1, 2, 4, 8}}};
    const row want = {"d", {-0.5, 1, 2, -4}};
    tangent_check(&t, flx_vmap(t.g, axes, 2, NULL, 0, 2, &t.err), at, 2, &want, 1);
    tangent_end(&t);
}

/* x - m = 2, r = 1/2: d_m = -γ r, d_v = -½ γ (x - m) r³. */
TEST(trap_48_batch_norm_has_cotangents_for_mean_and_variance)
{
    const char *text = "graph f(x: f64[1, 1], gamma: f64[1], beta: f64[1], mean: f64[1], var: f64[1]) {\n"
                       "  y = batch_norm_inference(x, gamma, beta, mean, var, eps=3)\n  return y\n}";
    static const char *const by_all[] = {"x", "gamma", "beta", "mean", "var"};
    const row at[] = {{"x", {3}}, {"gamma", {2}}, {"beta", {7}}, {"mean", {1}}, {"var", {1}}, {"d_output", {1}}};
    const row want[] = {{"d_x", {1}}, {"d_gamma", {1}}, {"d_beta", {1}}, {"d_mean", {-1}}, {"d_var", {-0.25}}};
    check_gradients(text, by_all, 5, at, COUNT(at), want, COUNT(want));
}

/* ---- Degenerate rows ---- */

/* Equal elements: x̂ = 0, r = 1/√eps; the cotangent is r (h - mean of h). */
TEST(layer_norm_of_equal_elements_is_beta)
{
    const char *text = "graph f(x: f64[1, 4], gamma: f64[4], beta: f64[4]) {\n"
                       "  y = layer_norm(x, gamma, beta, eps=0.25)\n  return y\n}";
    const row at[] = {{"x", {7, 7, 7, 7}}, {"gamma", {1, 1, 1, 1}}, {"beta", {1, 2, 3, 4}}, {"d_output", {4, 0, 0, 0}}};
    const row want[] = {{"y", {1, 2, 3, 4}}, {"d_x", {6, -2, -2, -2}}};
    check_gradients(text, by_x, 1, at, COUNT(at), want + 1, 1);
    tangent_graph t = tangent_parse(text);
    tangent_check(&t, flx_simplify(t.g, &t.err), at, 3, want, 1);
    tangent_end(&t);
}

TEST(norm_of_one_element_is_beta_and_has_no_derivative)
{
    const char *text =
        "graph f(x: f64[2, 1], gamma: f64[1], beta: f64[1]) {\n  y = layer_norm(x, gamma, beta)\n  return y\n}";
    const row at[] = {{"x", {5, -1e9}}, {"gamma", {3}}, {"beta", {2}}, {"d_output", {1, 2}}};
    const row want[] = {{"d_x", {0, 0}}};
    check_gradients(text, by_x, 1, at, COUNT(at), want, COUNT(want));
}

TEST(rms_norm_of_zeros_is_zero_and_has_the_slope_of_eps)
{
    const row at[] = {{"x", {0, 0}}, {"gamma", {1, 3}}, {"beta", {0, 0}}, {"d_output", {1, 1}}};
    const row want[] = {{"d_x", {2, 6}}};
    check_gradients("graph f(x: f64[1, 2], gamma: f64[2], beta: f64[2]) {\n"
                    "  y = rms_norm(x, gamma, beta, eps=0.25)\n  return y\n}",
                    by_x, 1, at, COUNT(at), want, COUNT(want));
}

/* Empty sums: a batch without rows has no effect on the parameters. */
TEST(norm_of_no_rows_has_zero_cotangents_of_parameters)
{
    const char *text =
        "graph f(x: f64[0, 2], gamma: f64[2], beta: f64[2]) {\n  y = layer_norm(x, gamma, beta)\n  return y\n}";
    static const char *const by_parameters[] = {"gamma", "beta"};
    const row at[] = {{"x", {0}}, {"gamma", {1, 3}}, {"beta", {0, 0}}, {"d_output", {0}}};
    const row want[] = {{"d_gamma", {0, 0}}, {"d_beta", {0, 0}}};
    check_gradients(text, by_parameters, 2, at, COUNT(at), want, COUNT(want));
}

/* ---- Statistics of a batch ---- */

TEST(batch_norm_training_gives_biased_statistics_over_all_axes_but_the_second)
{
    text_run r = text_begin("graph f() {\n  x = const(f64[2, 1, 2], [[[1, 3]], [[5, 7]]])\n"
                            "  y, m, v = batch_norm_training(x, const(f64[1], [2]), const(f64[1], [1]), eps=11)\n"
                            "  return y, m, v\n}");
    CHECK_OK(r.code, &r.err);
    static const double y[] = {-0.5, 0.5, 1.5, 2.5};
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), y[i], 0);
    CHECK_NEAR(flx_tensor_get(r.out[1], 0), 4, 0);
    CHECK_NEAR(flx_tensor_get(r.out[2], 0), 5, 0);
    text_end(&r);
}

/* ---- Dtypes ---- */

/* Each cotangent has the dtype of its own operand, and that of an f32 parameter is not rounded to bf16 in between: the
   sum 1 + 2^-10 needs 11 bits. */
TEST(norm_cotangents_have_the_dtype_of_their_operands)
{
    static const char *const texts[] = {
        "graph f(x: bf16[2, 1], gamma: f32[1], beta: f32[1]) {\n  y = layer_norm(x, gamma, beta)\n  return y\n}",
        "graph f(x: bf16[2, 1], gamma: f32[1], beta: f32[1]) {\n  y = rms_norm(x, gamma, beta)\n  return y\n}",
        "graph f(x: bf16[2, 1], gamma: f32[1], beta: f32[1]) {\n  y = group_norm(x, gamma, beta, num_groups=1)\n  "
        "return y\n}",
        "graph f(x: bf16[2, 1], gamma: f32[1], beta: f32[1]) {\n  y = layer_norm2d(x, gamma, beta)\n  return y\n}",
        "graph f(x: bf16[2, 1], gamma: f32[1], beta: f32[1]) {\n"
        "  y = batch_norm_inference(x, gamma, beta, const(f32[1], [0]), const(f32[1], [1]))\n  return y\n}",
    };
    static const char *const by_all[] = {"x", "gamma", "beta"};
    const row at[] = {{"x", {1, 2}}, {"gamma", {1}}, {"beta", {0}}, {"d_output", {1, 0x1p-10}}};
    const row want[] = {{"d_beta", {1 + 0x1p-10}}};
    for (size_t i = 0; i < COUNT(texts); i++) {
        check_gradients(texts[i], by_all, 3, at, COUNT(at), want, 1);
        for (uint32_t backward_ops = 0; backward_ops < 2; backward_ops++) {
            tangent_graph t = tangent_parse(texts[i]);
            flx_grad_options o = {.flags = FLX_GRAD_SEED_INPUT | (backward_ops ? FLX_GRAD_BACKWARD_OPS : 0U)};
            flx_graph *d = flx_grad(t.g, by_all, 3, &o, &t.err);
            CHECK_OK(d ? FLX_OK : t.err.code, &t.err);
            CHECK_EQ_I64(flx_val_type(d, flx_graph_output(d, 0))->dtype, FLX_BF16);
            CHECK_EQ_I64(flx_val_type(d, flx_graph_output(d, 1))->dtype, FLX_F32);
            CHECK_EQ_I64(flx_val_type(d, flx_graph_output(d, 2))->dtype, FLX_F32);
            flx_graph_release(d);
            tangent_end(&t);
        }
    }
}
