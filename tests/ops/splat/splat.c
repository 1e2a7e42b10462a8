/* SPDX-License-Identifier: Apache-2.0 */
/* Gaussian splats: the traps of their derivatives, and the two halves of the renderer. Values and cotangents of larger
   scenes: tests/oracle/splat.py. */
#include "ops/gradient_text.h"
#include "ops/run_text.h"

#include <math.h>

/* One splat straight ahead of a camera at the origin that looks along z; an image of one pixel, whose ray passes
   through its centre. */
#define ONE_PIXEL(cutoff)                                                                         \
    "width=1, height=1, tile_size=1, radius_scale=1, alpha_cutoff=" cutoff ", max_splat_steps=4," \
    "transmittance_threshold=0, max_list_entries=4"
#define CAMERA(background)                                                                               \
    "const(f64[23], [0, 0, 0, 0, 0, 1, 0, 1, 0, 90, 0.5, 9, " background ", " background ", " background \
    ", 0, 0, 0, 0, 0, 0, 0, 0])"
#define SPLAT(opacity, more)                                                                                         \
    "gaussian_splat_render(const(f64[3], [0, 0, 2]), const(f64[3], [0, 0, 0]), const(f64[4], [0, 0, 0, 1])," opacity \
    ", const(f64[3], [1, 1, 1]), const(f64[0], []), " CAMERA("0") ", " ONE_PIXEL(more) ")"

static void check_values(const char *text, const double *want, int64_t count)
{
    text_run r = text_begin(text);
    CHECK_OK(r.code, &r.err);
    CHECK_EQ_I64(flx_tensor_count(r.out[0]), count);
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(flx_tensor_get(r.out[0], i), want[i], 0);
    text_end(&r);
}

/* Coverage is α₀ = sigmoid(o), with derivative 1/4 at 0, whatever the colours do: black has none. */
TEST(trap_105_splat_gradient_sees_the_coverage_and_clips_nothing)
{
    const gradient_row row[] = {{"o", {0}, {0.25}}};
    check_gradient("graph g(o: f64[1]) { return narrow(" SPLAT("o", "0") ", axis=0, start=3, len=1) }", row, 1);
    /* far beyond any limit: d = 1000 d_coverage */
    check_values("graph g() { return narrow(gaussian_splat_render_backward(const(f64[3], [0, 0, 2]),"
                 "const(f64[3], [0, 0, 0]), const(f64[4], [0, 0, 0, 1]), const(f64[1], [0]), const(f64[3], [1, 1, 1]),"
                 "const(f64[0], []), " CAMERA("0") ", const(f64[4], [0, 0, 0, 1000]), " ONE_PIXEL(
                     "0") "), axis=0, start=10, len=1) }",
                 (const double[]){250}, 1);
    check_values("graph g() { return narrow(gaussian_splat_render_backward(const(f64[3], [0, 0, 2]),"
                 "const(f64[3], [0, 0, 0]), const(f64[4], [0, 0, 0, 1]), const(f64[1], [0]), const(f64[3], [1, 1, 1]),"
                 "const(f64[0], []), " CAMERA("0") ", const(f64[4], [0, 0, 0, 1000]), " ONE_PIXEL(
                     "0") ", clip=3), axis=0, start=10, len=1) }",
                 (const double[]){3}, 1);
}

/* Moving the splat by d sideways leaves α₀ exp(-ρ²/2) of it, ρ its distance in units of σ = 1: ρ² = d² except for the
   rotation of the ray, so the slope of the coverage at d is -d α. It is measured on the image itself, a little to both
   sides. */
TEST(trap_106_splat_gradient_is_that_of_the_image)
{
    enum { POINTS = 3 };
    static const double at[POINTS] = {0.3, 0.3 + 1e-6, 0.3 - 1e-6};
    double coverage[POINTS];
    for (int i = 0; i < POINTS; i++) {
        char text[1200];
        snprintf(
            text, sizeof text,
            "graph g() { return gaussian_splat_render(const(f64[3], [%.17g, 0, 2]), const(f64[3], [0, 0, 0]),"
            "const(f64[4], [0, 0, 0, 1]), const(f64[1], [0]), const(f64[3], [1, 1, 1]), const(f64[0], []), " CAMERA(
                "0") ", " ONE_PIXEL("0") ") }",
            at[i]);
        text_run r = text_begin(text);
        CHECK_OK(r.code, &r.err);
        coverage[i] = flx_tensor_get(r.out[0], 3);
        text_end(&r);
    }
    text_run r = text_begin("graph g() { return gaussian_splat_render_backward(const(f64[3], [0.3, 0, 2]),"
                            "const(f64[3], [0, 0, 0]), const(f64[4], [0, 0, 0, 1]), const(f64[1], [0]),"
                            "const(f64[3], [1, 1, 1]), const(f64[0], []), " CAMERA(
                                "0") ", const(f64[4], [0, 0, 0, 1]), " ONE_PIXEL("0") ") }");
    CHECK_OK(r.code, &r.err);
    double found = flx_tensor_get(r.out[0], 0);
    CHECK(fabs(found) > 0.1);
    CHECK_NEAR(found, (coverage[1] - coverage[2]) / 2e-6, 1e-9);
    CHECK_NEAR(found, -0.3 * coverage[0], 1e-15);
    text_end(&r);
}

/* No splat: nothing covers the pixel, and the background is visible. */
TEST(trap_107_empty_splat_pixels_have_coverage_zero)
{
    const char scene[] =
        "const(f64[0], []), const(f64[0], []), const(f64[0], []), const(f64[0], []), const(f64[0], []),"
        "const(f64[0], []), " CAMERA("1") ", " ONE_PIXEL("0.1");
    char text[2400];
    snprintf(text, sizeof text, "graph g() { return gaussian_splat_render(%s) }", scene);
    check_values(text, (const double[]){1, 1, 1, 0}, 4);
    snprintf(text, sizeof text, "graph g() { return gaussian_splat_rasterize(gaussian_splat_prepare(%s), %s, %s) }",
             scene, CAMERA("1"), ONE_PIXEL("0.1"));
    check_values(text, (const double[]){1, 1, 1, 0}, 4);
    check_values("graph g() { return " SPLAT("const(f64[1], [-5])", "0.1") " }", (const double[]){0, 0, 0, 0}, 4);
}

/* ---- Halves ---- */

#define HALVES                                                                                                  \
    "p = gaussian_splat_prepare(mu, const(f64[3], [0, 0, 0]), const(f64[4], [0, 0, 0, 1]), const(f64[1], [0])," \
    "      const(f64[3], [1, 1, 1]), const(f64[0], []), m, " ONE_PIXEL("0") ")"

/* A pair is differentiated as one op, in both modes. */
TEST(splat_halves_are_differentiated_as_a_pair)
{
    const gradient_row row[] = {{"mu", {0, 0, 2}, {0, 0, 0}}};
    check_gradient("graph g(mu: f64[3]) { m = " CAMERA("0") " " HALVES
                                                            " return narrow(gaussian_splat_rasterize(p, m, " ONE_PIXEL(
                                                                "0") "), axis=0, start=3, len=1) }",
                   row, 1);
}

static void check_no_rule(const char *text, const char *wrt, const char *part)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *g = flx_grad(flx_module_main(m), &wrt, 1, NULL, &err);
    CHECK(g == NULL);
    CHECK_CODE(err.code, FLX_E_NO_RULE, &err);
    CHECK_MSG(strstr(err.message, part) && err.hint[0], "%s", err.message);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(splat_without_derivative_says_so)
{
    check_no_rule("graph g(mu: f64[3]) { m = " CAMERA("0") " " HALVES " return reduce_sum(p) }", "mu",
                  "gaussian_splat_prepare");
    check_no_rule(
        "graph g(p: f64[36]) { return reduce_sum(gaussian_splat_rasterize(p, " CAMERA("0") ", " ONE_PIXEL("0") ")) }",
        "p", "gaussian_splat_rasterize");
    check_no_rule("graph g(m: f64[23]) { return reduce_sum(gaussian_splat_render(const(f64[3], [0, 0, 2]),"
                  "const(f64[3], [0, 0, 0]), const(f64[4], [0, 0, 0, 1]), const(f64[1], [0]), const(f64[3], [1, 1, 1]),"
                  "const(f64[0], []), m, " ONE_PIXEL("0") ")) }",
                  "m", "the camera has no derivative");
}

/* More entries than there is room for: reported, not hidden. */
TEST(splat_lists_that_overflow_are_reported)
{
    const char text[] =
        "graph g() { return gaussian_splat_prepare(const(f64[3], [0, 0, 2]), const(f64[3], [0, 0, 0]),"
        "const(f64[4], [0, 0, 0, 1]), const(f64[1], [0]), const(f64[3], [1, 1, 1]), const(f64[0], []), " CAMERA(
            "0") ", width=2, height=2, tile_size=1, radius_scale=1, alpha_cutoff=0, max_splat_steps=4,"
                 "transmittance_threshold=0, max_list_entries=%d) }";
    for (int room = 3; room <= 4; room++) {
        char own[1200];
        flx_error err = {0};
        uint32_t status = 0;
        flx_tensor *out[1] = {0};
        flx_run_options o = {.struct_size = sizeof o, .device = "ref", .status = &status};
        flx_context *ctx = flx_context_new(NULL);
        snprintf(own, sizeof own, text, room);
        flx_module *m = flx_parse(ctx, own, strlen(own), "test", &err);
        CHECK_OK(m ? FLX_OK : err.code, &err);
        CHECK_OK((int32_t)flx_run(flx_module_main(m), &o, NULL, 0, out, &err), &err);
        CHECK_EQ_U64(status, room == 3 ? FLX_RUN_LIST_FULL : 0);
        flx_tensor_release(out[0]);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

TEST(splat_errors_say_what_differs)
{
    check_text_fails(
        "graph g(p: f32[6], q: f32[7], o: f32[2], s: f32[0], m: f32[23]) { return gaussian_splat_render(p, p,"
        "q, o, p, s, m, " ONE_PIXEL("0") ") }",
        FLX_E_SHAPE, "gaussian_splat_render: rotations must have 4 numbers for each splat: it is [7]");
    check_text_fails("graph g(p: f32[9], m: f32[23]) { return gaussian_splat_rasterize(p, m, " ONE_PIXEL("0") ") }",
                     FLX_E_SHAPE, "gaussian_splat_rasterize: prep must have 19 n + 17 numbers: it is [9]");
    check_text_fails(
        "graph g() { return gaussian_splat_rasterize(const(f32[36], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,"
        "0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), cast(" CAMERA("0") ", to=f32), " ONE_PIXEL(
            "0") ") }",
        FLX_E_INDEX, "gaussian_splat_rasterize: a list refers to splat 7 of 1");
}

/* ---- Second derivatives ---- */

#define SCENE_OF_TWO                                                                                   \
    "graph g(mu: f64[6], s: f64[6], q: f64[8], o: f64[2], c: f64[6]) {"                                \
    "  y = gaussian_splat_render(mu, s, q, o, c, const(f64[0], []), " CAMERA(                          \
        "0.25") ", width=2, height=2, tile_size=1,"                                                    \
                "      radius_scale=1, alpha_cutoff=0, max_splat_steps=4, transmittance_threshold=0, " \
                "max_list_entries=8)"                                                                  \
                "  return reduce_sum(mul(y, cos(iota(f64[16])))) }"

enum { SCENE_INPUTS = 5 };
static const char *const scene_names[SCENE_INPUTS] = {"mu", "s", "q", "o", "c"};
static const int64_t scene_counts[SCENE_INPUTS] = {6, 6, 8, 2, 6};

/* Inputs at x + step v, for what the graph takes; `out` receives one tensor for each output. */
static void run_scene(flx_context *ctx, const flx_graph *g, double step, bool with_tangents, flx_tensor **out)
{
    static const char *const tangents[SCENE_INPUTS] = {"tangent_mu", "tangent_s", "tangent_q", "tangent_o",
                                                       "tangent_c"};
    flx_feed feeds[2 * SCENE_INPUTS];
    flx_error err = {0};
    size_t n = with_tangents ? 2 * SCENE_INPUTS : SCENE_INPUTS;
    for (size_t i = 0; i < n; i++) {
        size_t k = i % SCENE_INPUTS;
        double v[8];
        for (int64_t e = 0; e < scene_counts[k]; e++) {
            double x =
                k == 0 ? (e % 3 == 2 ? 2.0 + (double)e / 4 : 0.3 * sin((double)e)) : cos((double)(e + 3 * (int64_t)k));
            double t = sin((double)(5 * e) + (double)k);
            v[e] = i < SCENE_INPUTS ? x + step * t : t;
        }
        flx_type type = flx_type_make(FLX_F64, 1, &scene_counts[k]);
        feeds[i] = (flx_feed){i < SCENE_INPUTS ? scene_names[k] : tangents[k], flx_tensor_new(ctx, &type, v, &err)};
    }
    CHECK_OK((int32_t)flx_run(g, ON_REF, feeds, n, out, &err), &err);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)feeds[i].value);
}

/* The backward op has derivatives too: the Hessian times a direction is the finite difference of gradients along it. */
TEST(splat_hessian_is_the_difference_of_gradients)
{
    static const double step = 1e-5;
    const char text[] = SCENE_OF_TWO;
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : err.code, &err);
    flx_graph *grad = flx_grad(flx_module_main(m), scene_names, SCENE_INPUTS, NULL, &err);
    CHECK_OK(grad ? FLX_OK : err.code, &err);
    flx_graph *hvp = flx_hvp(flx_module_main(m), scene_names, SCENE_INPUTS, NULL, &err);
    CHECK_OK(hvp ? FLX_OK : err.code, &err);
    flx_tensor *up[SCENE_INPUTS], *down[SCENE_INPUTS], *found[SCENE_INPUTS];
    run_scene(ctx, grad, step, false, up);
    run_scene(ctx, grad, -step, false, down);
    run_scene(ctx, hvp, 0, true, found);
    double largest = 0;
    for (size_t k = 0; k < SCENE_INPUTS; k++)
        for (int64_t e = 0; e < scene_counts[k]; e++) {
            double want = (flx_tensor_get(up[k], e) - flx_tensor_get(down[k], e)) / (2 * step);
            test_fail_context("input %s, number %lld", scene_names[k], (long long)e);
            CHECK_NEAR(flx_tensor_get(found[k], e), want, 1e-7);
            largest = fmax(largest, fabs(want));
        }
    CHECK(largest > 0.1);
    for (size_t k = 0; k < SCENE_INPUTS; k++) {
        flx_tensor_release(up[k]);
        flx_tensor_release(down[k]);
        flx_tensor_release(found[k]);
    }
    flx_graph_release(grad);
    flx_graph_release(hvp);
    flx_module_free(m);
    flx_context_free(ctx);
}
